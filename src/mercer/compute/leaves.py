"""The numerical functions of base kernels: how each is computed by the two back ends, and its spectrum.

A base kernel is one `Leaf` record (mercer.kernels.leaf) and its functions here, by kind. The functions of Mercer's own
kernels are entered where they are defined: compiled ones in fused_leaves.py, those for PyTorch in torch_leaves.py,
spectra in spectral.py. A kernel from outside is entered with all of them at once, by `register`: see
docs/add-base-kernel.md. Nothing has a default: a kind without functions is an error.

Three kinds are no base kernels, but parts of others: ENVELOPE (the fading of one component of SM), SIN (the imaginary
part of EXPI) and GATE (the share of a regime of a change surface).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import currentframe
from typing import TYPE_CHECKING, Any, TypeVar

from mercer.errors import KernelError
from mercer.kernels import leaf as records
from mercer.kernels.domains import Array
from mercer.kernels.leaf import REGISTRY, Leaf

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

    from torch import Tensor

    from mercer.compute.spectral_draws import Spectrum


Cached = TypeVar("Cached", bound="_lru_cache_wrapper[Any]")


@dataclass(frozen=True)
class Kind:
    """What a program must know of a leaf: the flags of its record, and whether each parameter has one value only."""

    name: str
    single: tuple[bool, ...]  # of the parameters but the variance, in order; the others have one for each column
    log_form: bool = False
    stationary: bool = False
    separable: bool = False
    white: bool = False

    def sizes(self, columns: int) -> tuple[int, ...]:
        """Return how many values each parameter has."""
        return tuple(1 if single else columns for single in self.single)


PARTS = {
    "ENVELOPE": Kind("ENVELOPE", (False,), log_form=True, stationary=True, separable=True),
    "SIN": Kind("SIN", (False,), stationary=True),
    "GATE": Kind("GATE", ()),  # its parameters are those of its surface
}
_KINDS = dict(PARTS)


def kind_of(name: str) -> Kind:
    """Return what a program must know of a leaf."""
    if name not in _KINDS:
        leaf = records.LEAVES[name]
        single = tuple(p.shape == "one" for p in leaf.parameters[1:])
        _KINDS[name] = Kind(name, single, leaf.log_form, leaf.stationary, leaf.separable, leaf.white)
    return _KINDS[name]


# ------------------------------------------------------------------------------------------------------- functions


@dataclass(frozen=True, eq=False)
class BuiltIn:
    """A leaf for which the compiled sweep has a branch: its code, and what it needs on this many columns.

    sums : coefficients, and as many sums over pairs. rows : of the table of points (waves and gates).

    Not through pointers, as leaves from outside: LLVM inlines a branch, and nothing is copied. Measured, SE takes 1.35
    times as long through pointers on one column and 2.6 times on eight; and a process would load a dozen functions from
    the cache on disk one by one.
    """

    code: int
    sums: Callable[[int], int]
    rows: Callable[[int], int] = lambda columns: 0


@dataclass(frozen=True, eq=False)
class Compiled:
    """The functions of a leaf from outside for the CPU.

    Numba compiles the first three. They work on one point x (columns,) and a block of m points z (columns, m), on the
    columns of the leaf alone, in plain loops.

    forward(out, x, z, coefficients) : fill out (m,) with the unit function, or its logarithm where the record says so.
    reverse(bar, x, z, coefficients, sums) : add to sums what the gradient needs, given sensitivities bar (m,).
    points(bar, x, z, coefficients, moved) : add to moved (columns, m) the sensitivities of z; None: inducing points of
        this kernel stay where they are.
    coefficients(*parameters) : return an array for the functions above, once before all pairs; sums is as long.
    finish(sums, *parameters) : return the gradient by each parameter, once after all pairs.
    """

    forward: Callable[..., None]
    reverse: Callable[..., None]
    coefficients: Callable[..., Array]
    finish: Callable[..., tuple[Array, ...]]
    points: Callable[..., None] | None = None


@dataclass(frozen=True, eq=False)
class Batched:
    """The functions of a leaf for PyTorch: B candidates, M pairs of points, parameters (B, columns) or (B, 1).

    forward(pairs, *parameters) : return a new tensor (B, M), or one that broadcasts to it.
    reverse(pairs, adjoint, *parameters) : return the sum over pairs of adjoint * d(leaf)/d(parameter) for each
        parameter; None: autograd works it out.
    """

    forward: Callable[..., Tensor]
    reverse: Callable[..., tuple[Tensor, ...]] | None = None


NUMBA: dict[str, BuiltIn | Compiled] = {}
TORCH: dict[str, Batched] = {}
SPECTRA: dict[str, Spectrum] = {}
_FORGET: list[Callable[[], None]] = []  # caches that know kinds


def forget_with(function: Cached) -> Cached:
    """Mark a cached function: what it remembers is forgotten when a kernel is taken out."""
    _FORGET.append(function.cache_clear)
    return function


def register(leaf: Leaf, numba: Compiled, torch: Batched, spectrum: Spectrum | None = None) -> None:
    """Add a base kernel from outside: its record and its functions.

    Do so at the top level of a module that can be imported, so that worker processes can do it as well.
    """
    here = currentframe()
    caller = here.f_back.f_globals["__name__"] if here is not None and here.f_back is not None else "__main__"
    records.add(replace(leaf, module=leaf.module or caller))
    NUMBA[leaf.symbol], TORCH[leaf.symbol] = numba, torch
    if spectrum is not None:
        SPECTRA[leaf.symbol] = spectrum


def unregister(symbol: str) -> None:
    """Take out a base kernel that was added from outside."""
    records.remove(symbol)
    for table in (NUMBA, TORCH, SPECTRA, _KINDS):
        table.pop(symbol, None)
    for clear in _FORGET:
        clear()


def compiled_functions(kind: str) -> BuiltIn | Compiled:
    """Return the functions of a leaf for the CPU."""
    if kind not in NUMBA:
        raise KernelError(f"{kind} has no functions for the CPU; there are those of {', '.join(NUMBA)}")
    return NUMBA[kind]


def batched_functions(kind: str) -> Batched:
    """Return the functions of a leaf for PyTorch."""
    if kind not in TORCH:
        raise KernelError(f"{kind} has no functions for PyTorch; there are those of {', '.join(TORCH)}")
    return TORCH[kind]


def spectrum_of(kind: str) -> Spectrum:
    """Return the spectrum of a stationary leaf."""
    if kind not in SPECTRA:
        able = ", ".join(symbol for symbol in REGISTRY if symbol in SPECTRA)
        raise KernelError(
            f"{kind} has no spectrum, so it has no random features: {able} have one, and LIN and C need none"
        )
    return SPECTRA[kind]
