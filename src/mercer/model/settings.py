"""What the `kernel` of an estimator may be: a text, an expression, a learner or its name."""

from __future__ import annotations

from typing import Any

from mercer.compute.backend import Backend
from mercer.compute.program import compile_program
from mercer.errors import KernelError
from mercer.inference.choose import Choice, choose, choose_grid, read_inference
from mercer.inference.contract import Data
from mercer.kernels.expression import Expression
from mercer.kernels.text import parse
from mercer.learners.contract import Learner
from mercer.learners.grammar import GrammarSearch
from mercer.learners.kfo import KernelFunctional
from mercer.learners.nkn import NeuralKernelNetwork
from mercer.learners.surface import ChangeSurface

LEARNERS: dict[str, type[Any]] = {
    "search": GrammarSearch,
    "nkn": NeuralKernelNetwork,
    "surface": ChangeSurface,
    "kfo": KernelFunctional,
}
# Names that a classifier's `kernel` may have.
CLASS_KERNELS = ("kfo", "kfo-mkl", "rbf", "linear", "mkl", "mkl-uniform", *(name for name in LEARNERS if name != "kfo"))


def expression_or_learner(kernel: Any) -> Expression | Learner:
    """Return what the user means by `kernel`."""
    if isinstance(kernel, str):
        return LEARNERS[kernel]() if kernel in LEARNERS else parse(kernel)
    if isinstance(kernel, Expression):
        return kernel
    if not isinstance(kernel, Learner):
        raise KernelError(
            f"kernel must be a text such as 'SE*PER + LIN', an expression, or a learner "
            f"({', '.join(map(repr, LEARNERS))} or an object of one), not {kernel!r}"
        )
    return kernel


def choose_engine(
    kernel: Expression | Learner, inference: Any, backend: Backend, data: Data, structure: Expression | None
) -> Choice:
    """Choose the engine; a `structure` that is known beforehand may be one for grids."""
    asked, policy = read_inference(inference)
    if asked is None and structure is not None and not backend.batches:
        found = choose_grid(compile_program(structure), data, policy)
        if found is not None:
            return found
    most = kernel.most_rows if isinstance(kernel, Learner) else None
    return choose(len(data.y), asked, backend=backend, learner_rows=most, policy=policy)


def to_plain(kernel: Any) -> Any:
    """Return the `kernel` of an estimator as JSON data: a text, or the name and settings of a learner."""
    for name, learner in LEARNERS.items():
        if isinstance(kernel, learner):
            return {"learner": name, "settings": kernel.describe()}
    return str(kernel)


def from_plain(data: Any) -> str | Learner:
    """Read `to_plain` back, checking it."""
    if isinstance(data, str):
        expression_or_learner(data)
        return data
    return LEARNERS[data["learner"]](**data["settings"])
