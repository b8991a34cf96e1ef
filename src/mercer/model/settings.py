"""The settings of an estimator: what its `kernel` may be (a text, an expression, a learner or its name), as plain data
too, and how `set_params(kernel__max_depth=2)` reaches the settings of a learner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard, TypeVar, cast

from mercer.compute.backend import Backend
from mercer.compute.program import compile_program
from mercer.errors import InputError, KernelError
from mercer.inference.choose import Choice, choose, choose_grid, read_inference
from mercer.inference.contract import Data
from mercer.kernels.expression import Expression
from mercer.kernels.text import parse
from mercer.learners.contract import Learner
from mercer.learners.grammar import GrammarSearch
from mercer.learners.kfo import KernelFunctional
from mercer.learners.nkn import NeuralKernelNetwork
from mercer.learners.surface import ChangeSurface

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Policy = TypeVar("Policy")
NESTED = "kernel__"  # before the name of a learner's setting
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


class EstimatorSettings:
    """Lets `get_params` and `set_params` of an estimator reach the settings of a learner, as `kernel__max_depth`.

    Learners do not change: a copy with the new setting takes the place of the old one.
    """

    kernel: Any
    policies: ClassVar[tuple[Any, ...]] = ()  # in place of the defaults, in a subclass: (RacePolicy(sample=100),)

    def _policy(self, kind: Callable[[], Policy]) -> Policy:
        """Return the policy of a kind: the one that was given, or its defaults."""
        return next((each for each in self.policies if type(each) is kind), kind())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with `deep` those of a learner too."""
        own: dict[str, Any] = super().get_params(deep=False)  # type: ignore[misc]
        if deep:
            own |= {f"{NESTED}{name}": value for name, value in learner_settings(self.kernel).items()}
        return own

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a learner are called `kernel__` and its own name."""
        nested = {name.removeprefix(NESTED): value for name, value in params.items() if name.startswith(NESTED)}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(NESTED)})  # type: ignore[misc]
        if nested:
            self.kernel = change_learner(self.kernel, nested)
        return self


def learner_settings(kernel: Any) -> dict[str, Any]:
    """Return the settings of a learner by name; none of anything else."""
    return {f.name: getattr(kernel, f.name) for f in fields(kernel)} if _has_settings(kernel) else {}


def change_learner(kernel: Any, changes: dict[str, Any]) -> Learner:
    """Return a learner with some of its settings changed."""
    given = ", ".join(f"{name}={value!r}" for name, value in changes.items())
    if isinstance(kernel, str) and kernel in LEARNERS:
        learner = LEARNERS[kernel].__name__
        raise InputError(
            f"kernel is the text {kernel!r}, which has no settings: give kernel=mercer.{learner}({given}), and later "
            f"set_params reaches them as {NESTED}{next(iter(changes))}"
        )
    if not _has_settings(kernel):
        raise InputError(
            f"kernel is {kernel!r:.60}: {given} can only be set for a learner ({', '.join(map(repr, LEARNERS))})"
        )
    known = learner_settings(kernel)
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise InputError(f"{type(kernel).__name__} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    return cast("Learner", replace(kernel, **changes))


def _has_settings(kernel: Any) -> TypeGuard[DataclassInstance]:
    return isinstance(kernel, Learner) and is_dataclass(kernel)


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
    learner: Learner = LEARNERS[data["learner"]](**data["settings"])
    return learner
