"""A hyperkernel of one's own: checked on some pairs of rows, then written as kernels with formulas.

    kappa(x, x', z, z') = kappa((x, x'), (z, z')),  such as sum_i k_i(x, x') k_i(z, z')     (Ong et al. 2005, Example 7)

A kernel of its space is K = sum_i alpha_i kappa(., pair_i). As for harmonic hyperkernels, each kappa(., pair_i) is
written once as a sum, weights not below zero, of powers of a kernel inside and of a linear kernel. After that the
function is not asked again: what predicts is data, can be saved, and is positive definite at rows not yet seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, build_base
from mercer.kernels.parameters import values_of
from mercer.learners.kernel_space import LADDER, MOST_COMPONENTS, KernelSpace, decompose

Hyperkernel = Callable[[Array, Array, Array, Array], Array]
Pairs = tuple[Array, Array]

CHECKED = 16  # pairs that it is tried on first
PROBES = 300  # pairs where it is written as kernels
LENGTHS = (0.3, 1.0, 3.0, 10.0)  # of the kernel inside, for one column: powers of it reach shorter ones
SYMBOLS = ("SE", "M32", "M12")
JUDGED = 6  # pairs of the grid that tell which kernel inside is nearest
ROUNDING = 1e-8  # of the largest value: what is less is no difference
MOST_OFF = 0.1  # of its size: beyond this another hyperkernel would be searched
WORTH_NOTING = 0.01
LEAST_PART = 1e-3  # of its size: a linear part, or powers, with less are rounding
SLOWEST = 60.0  # seconds that it may take in all


@dataclass(frozen=True, eq=False)
class OwnSpace:
    """The space of a hyperkernel of one's own: the kernel inside (None: it is linear alone), and what else there is."""

    space: KernelSpace
    inside: Expression | None
    linear: bool  # there is a linear part
    off: float  # by how much what was written differs from the hyperkernel, as a share of its size


def span_own(kappa: Hyperkernel, X: Array, count: int, components: int | None, rng: np.random.Generator) -> OwnSpace:
    """Return the space of a hyperkernel on `count` pairs of rows, and no distance, or say why there is none."""
    check_hyperkernel(kappa, X, count, rng)
    grid, probes = _draw_pairs(X, count, rng), _draw_pairs(X, PROBES, rng)
    matrix, wanted = _ask(kappa, grid, grid), _ask(kappa, probes, grid)
    _check_values(matrix)
    line = np.mean(probes[0] * probes[1], axis=1)
    size, some = float(np.linalg.norm(wanted)) or 1.0, slice(None, None, max(1, count // JUDGED))
    choices = [_inside(symbol, length, X.shape[1]) for symbol in SYMBOLS for length in LENGTHS]
    offs = [_write(_units(inside, probes), line, wanted[:, some])[1] for inside in choices]
    inside = choices[int(np.argmin(offs))]
    units = _units(inside, probes)
    weights, off = _write(units, line, wanted)
    ladder, slope = weights[:-2], weights[-2] - weights[-1]
    if off > MOST_OFF * size:
        raise InputError(
            f"the hyperkernel could be written as powers of {', '.join(SYMBOLS)} and a linear kernel only to within "
            f"{off / size:.0%}, and Mercer keeps kernels as formulas. Build it from such kernels, for example "
            "sum_i k_i(x, x') k_i(z, z')"
        )
    vectors, eigenvalues = decompose(matrix, min(components or MOST_COMPONENTS, len(matrix)))
    space = KernelSpace(float("nan"), _units(inside, grid), vectors, eigenvalues, ladder, matrix[:, -1])
    parts = (units[:, None] ** np.array(LADDER[1:])) @ ladder[1:], np.outer(line, slope)
    radial, linear = (float(np.linalg.norm(part)) > LEAST_PART * size for part in parts)
    return OwnSpace(space, inside if radial else None, linear, off / size)


def check_hyperkernel(kappa: Hyperkernel, X: Array, count: int, rng: np.random.Generator) -> None:
    """Refuse a hyperkernel that fails, is no kernel on pairs of rows, or takes too long."""
    pairs = _draw_pairs(X, CHECKED, rng)
    matrix = _ask(kappa, pairs, pairs)
    _check_values(matrix)
    largest, start = float(np.abs(matrix).max()), time.perf_counter()  # the first call may have compiled something
    turned = _ask(kappa, (pairs[1], pairs[0]), pairs)
    seconds = (time.perf_counter() - start) / matrix.size
    if np.abs(turned - matrix).max() > ROUNDING * largest:
        raise InputError(
            "the hyperkernel is not symmetric: kappa(x, x', z, z') differs from kappa(x', x, z, z') by up to "
            f"{np.abs(turned - matrix).max():.3g}. A kernel does not tell x from x': use both orders, or a distance"
        )
    values = count * (count + PROBES)
    if seconds * values > SLOWEST:
        raise InputError(
            f"the hyperkernel is slow: {1e3 * seconds:.3g} ms for each value on {CHECKED} pairs of rows, so about "
            f"{seconds * values:.0f} s for the {values} that are needed; at most {SLOWEST:.0f} s are allowed. Let it "
            "work on whole arrays, or give a smaller grid"
        )


def _check_values(matrix: Array) -> None:
    """Refuse values of a hyperkernel between pairs that are no Gram matrix."""
    largest = float(np.abs(matrix).max())
    if np.abs(matrix - matrix.T).max() > ROUNDING * largest:
        raise InputError(
            "the hyperkernel is not symmetric: kappa(x, x', z, z') differs from kappa(z, z', x, x') by up to "
            f"{np.abs(matrix - matrix.T).max():.3g}. It is a kernel between pairs, such as k(x, x') k(z, z')"
        )
    lowest = float(np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[0])
    if largest == 0.0 or lowest < -ROUNDING * largest * len(matrix):
        raise InputError(
            f"the hyperkernel is not positive definite: between {len(matrix)} pairs of rows its smallest eigenvalue is "
            f"{lowest:.3g}, its largest value {largest:.3g}. Sums and products of kernels k(x, x') k(z, z') are"
        )


def _ask(kappa: Hyperkernel, left: Pairs, right: Pairs) -> Array:
    """Return kappa between two lists of pairs of rows."""
    given = (left[0][:, None, :], left[1][:, None, :], right[0][None, :, :], right[1][None, :, :])
    shape = (len(left[0]), len(right[0]))
    asked = f"x and x' of shape {given[0].shape}, z and z' of shape {given[2].shape}"
    try:
        found = np.asarray(kappa(*given), dtype=np.float64)
    except Exception as error:  # it is the user's own function
        raise InputError(f"the hyperkernel failed on {asked}: {type(error).__name__}: {error}"[:300]) from error
    if found.shape != shape:
        raise InputError(
            f"the hyperkernel must return an array of shape {shape} for {asked}, not {found.shape}: the rows are the "
            "last axis, so sum over axis -1"
        )
    if not np.isfinite(found).all():
        raise InputError(
            f"the hyperkernel is not finite at {int((~np.isfinite(found)).sum())} of {found.size} places. Columns "
            "come to it with mean 0 and spread 1: is there a division by zero, or a logarithm of a negative number?"
        )
    return found


def _draw_pairs(X: Array, count: int, rng: np.random.Generator) -> Pairs:
    """Return pairs of rows, a tenth of them and the last of a row with itself."""
    first, second = rng.integers(len(X), size=(2, count))
    alone = rng.random(count) < 0.1
    alone[-1] = True
    return X[first], X[np.where(alone, first, second)]


def _inside(symbol: str, length: float, columns: int) -> Expression:
    lengths = [length * columns**0.5] * columns
    return build_base(symbol, *range(columns), variance=1.0, lengthscale=lengths)


def _units(inside: Expression, pairs: Pairs) -> Array:
    """Return the values of the kernel inside at pairs of rows."""
    return fused.cross(compile_program(inside), values_of(inside), *pairs).diagonal()


def _write(units: Array, line: Array, wanted: Array) -> tuple[Array, float]:
    """Return weights not below zero, powers and then linear x grid, and the size of what they leave over.

    The linear kernel has either sign: it is below zero at half of the pairs, and so is kappa(., pair) for those.
    """
    basis = np.column_stack([units[:, None] ** np.array(LADDER), line, -line])
    found = [nnls(basis, column) for column in wanted.T]
    return np.array([weights for weights, _ in found]).T, float(np.linalg.norm([left for _, left in found]))
