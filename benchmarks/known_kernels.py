"""Data drawn from known kernels, to see whether a search finds them again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer.compute.fused import gram
from mercer.compute.program import compile_program
from mercer.kernels import Expression, bind, parse
from mercer.kernels.algebra import canonical_structure, structure
from mercer.kernels.expression import Base, Sum, build_base, product_of, sum_of
from mercer.kernels.parameters import layout, values_of

# The seven of the CKS paper (Duvenaud et al. 2013, table 1) and five more; inputs uniform on [0, 10] in each dimension.
KERNELS = (
    "SE(0) + RQ(0)",
    "LIN(0)*PER(0)",
    "SE(0) + RQ(1)",
    "SE(0) + SE(1)*PER(0) + SE(2)",
    "SE(0)*SE(1)",
    "SE(0)*SE(1) + SE(1)*SE(2)",
    "(SE(0) + SE(1))*(SE(2) + SE(3))",
    "PER(0)",
    "SE(0)*PER(0)",
    "SE(0) + PER(0)",
    "LIN(0) + PER(0)",
    "LIN(0) + SE(1)",
)
OF_THE_PAPER = 7
DRAWS = 5


def truths() -> Iterator[tuple[str, float, int]]:
    """Yield (kernel, signal-to-noise ratio, number of the draw); an empty kernel is pure noise.

    The paper's come first, those of most columns, which take longest, before the others.
    """
    for kernel in (*reversed(KERNELS[:OF_THE_PAPER]), *KERNELS[OF_THE_PAPER:]):
        for ratio in (10.0, 1.0):
            for number in range(DRAWS):
                yield kernel, ratio, number
    for number in range(20):
        yield "", 0.0, number


def draw(truth: str, ratio: float, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs, typical parameter values, a function and noise; the ratio is of variances."""
    rng = np.random.default_rng([seed, len(truth), *truth.encode()])
    expression = parse(truth or "C")
    columns = 1 + max((int(d) for leaf in expression.leaves() for d in leaf.dims or ()), default=0)
    X = rng.uniform(0.0, 10.0, (rows, columns))
    noise = rng.standard_normal(rows)
    if not truth:
        return X, noise
    bound = bind(expression, columns)
    values = values_of(bound)
    for slot in layout(bound).slots:
        typical = {"variance": 1.0, "lengthscale": 2.0, "period": 2.5, "alpha": 0.5, "offset": 3.0, "weights": 1.0}
        values[slot.where] = typical[slot.spec.name]
        if slot.symbol == "PER" and slot.spec.name == "lengthscale":
            values[slot.where] = 1.0
        elif slot.spec.name in ("lengthscale", "period"):
            values[slot.where] *= rng.uniform(0.7, 1.4)
    if truth == "SE(0) + RQ(0)":  # two smooth parts on one column can be told apart only on different scales
        for slot in layout(bound).slots:
            if slot.spec.name == "lengthscale":
                values[slot.where] = 0.4 if slot.symbol == "SE" else 4.0
    covariance = gram(compile_program(bound), values, X)
    jitter = 1e-8 * covariance.diagonal().mean() * np.eye(rows)
    function = np.linalg.cholesky(covariance + jitter) @ rng.standard_normal(rows)
    function /= function.std()
    return X, function + noise * ratio**-0.5


def recovered(found: Expression, truth: str) -> bool:
    """Tell whether the canonical form of the found kernel is that of the truth."""
    if not truth:
        return False
    columns = 1 + max(d for leaf in found.leaves() for d in leaf.columns)
    wanted = 1 + max(int(d) for leaf in parse(truth).leaves() for d in leaf.dims or ())
    wanted_form = canonical_structure(bind(parse(truth), max(columns, wanted)))
    return canonical_structure(name_seasons(canonical_structure(split_columns(structure(found))))) == wanted_form


def name_seasons(kernel: Expression) -> Expression:
    """Return a sum with PER for every summand CPER: they differ by a constant, and the level is fitted in any case."""
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    wave = [isinstance(term, Base) and term.symbol == "CPER" for term in terms]
    return sum_of([build_base("PER", *t.dims) if own else t for t, own in zip(terms, wave, strict=True)])


def split_columns(kernel: Expression) -> Expression:
    """Return a kernel with every SE on several columns as the product of one on each, which is the same function."""
    if isinstance(kernel, Base):
        several = kernel.symbol == "SE" and len(kernel.columns) > 1
        return product_of([build_base("SE", column) for column in kernel.columns]) if several else kernel
    return kernel.with_children([split_columns(child) for child in kernel.children])
