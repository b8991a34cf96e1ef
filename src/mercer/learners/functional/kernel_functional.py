"""`KernelFunctional`: the settings of a search for a kernel without a formula, and what the search returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal

from mercer.errors import InputError
from mercer.fitting.clock import Report
from mercer.kernels.domains import Array
from mercer.kernels.text import parse
from mercer.learners.classes import LearnedForClasses
from mercer.learners.contract import Context, Learned, Learner, Stopped
from mercer.learners.functional.search import ENDED, Plan, Stop
from mercer.learners.functional.space import MOST_COMPONENTS, Definite, Distance
from mercer.learners.functional.surrogate import Acquisition
from mercer.learners.margin import Labels

HYPERKERNELS = {
    "matern-harmonic": ("M32",),
    "matern12-harmonic": ("M12",),
    "matern52-harmonic": ("M52",),
    "se-harmonic": ("SE",),
    "periodic-harmonic": ("PER",),
    "auto": ("M12", "M32", "SE"),
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "hyperkernel": tuple(HYPERKERNELS),
    "definite": ("series", "clip", "flip", "spectrum"),
    "form": ("distance", "product"),
    "stop": ("budget", "regret"),
    "acquisition": ("ucb", "ei"),
    "distance": ("rkhs", "l2"),
}
OBJECTIVES = ("evidence", "loo", "cv")


@dataclass(frozen=True)
class KernelFunctional(Learner):
    """Kernel functional optimisation (KFO, Arun Kumar et al. 2021): Bayesian optimisation in a space of kernels.

    Parameters
    ----------
    hyperkernel : "matern-harmonic" is the paper's; also "matern12-", "matern52-", "se-" and "periodic-harmonic", which
        have another kernel inside. "auto" tries Matern 1/2, Matern 3/2 and SE inside, and for a single column that may
        repeat PER and SE*PER, and goes on with the best.
    grid : pairs on which the space of kernels is spanned; None: ten for each column, at least 40.
    components : coordinates of a kernel; None: all that are more than rounding, at most 16.
    subspaces, iterations, directions : S subspaces of so many random directions, T steps in each.
    objective : "evidence", "loo" (leave one out), "cv" (rows left out in folds), or your own function of the Gram
        matrix of the rows; larger is better. A point where it raises, or gives no finite number, is marked and avoided.
        For classes it is always "cv", or your own.
    definite : how a kernel is made positive definite: "clip" (weights alpha below zero become zero), "flip" (they lose
        their sign), "series" (the same for the weights of the power series; changes least), or, for classification
        only, "spectrum" (the eigenvalues of the Gram matrix are clipped).
    ard : one lengthscale for each column; False: one for all (of columns scaled to the same spread).
    form : "distance" a function of one distance, or "product" of one such function for each column.
    stop : "budget" takes all T steps, "regret" leaves a subspace when no gain worth having is to be expected there.
    acquisition : "ucb" with the paper's beta_t, or "ei" (expected improvement).
    distance : between kernels, "rkhs" or "l2".
    plus : kernels to add to the one found, such as "SE + M32 + LIN"; their variances are fitted with it (KFO-MKL). For
        classes anything but None adds SE, M32 and LIN, with weights tuned by cross-validation.
    average : predict with the best kernel for each kernel inside, weighted by how well they foresee rows left out.
    tuning : steps of Bayesian optimisation of the hyperkernel's own numbers.
    time_budget : seconds after which the best so far is taken.
    """

    hyperkernel: str = "auto"
    grid: int | None = None
    components: int | None = None
    subspaces: int = 5
    iterations: int = 20
    directions: int = 1
    objective: Literal["evidence", "loo", "cv"] | Callable[[Array], float] = "evidence"
    definite: Definite = "series"
    ard: bool = True
    stop: Stop = "budget"
    form: Literal["distance", "product"] = "distance"
    acquisition: Acquisition = "ucb"
    distance: Distance = "rkhs"
    plus: str | None = None
    average: bool = True
    tuning: int = 6
    time_budget: float | None = None

    def learn(self, context: Context) -> Learned:
        """Find a kernel for scaled data."""
        from mercer.learners.functional.regression import Regression

        self.check()
        if self.definite == "spectrum":
            raise InputError(
                "definite='spectrum' is for classification: a Gaussian process needs a kernel that is positive "
                "definite at rows not yet seen. Use 'series', 'clip' or 'flip'."
            )
        return Regression(self, context.data, context.engine, context.columns, context.seed, context.report).run()

    def learn_classes(self, X: Array, labels: Labels, seed: int, report: Report | None = None) -> LearnedForClasses:
        """Find a kernel for a support vector machine, X being scaled and the labels 0, 1, ..."""
        from mercer.learners.functional.classes import ClassSearch, TimeIsUp
        from mercer.learners.functional.mixing import with_standard_kernels

        self.check()
        search = ClassSearch(self, X, labels, seed, report)
        learned = search.run()
        if self.plus is None or search.stopped or search.chosen is None or callable(self.objective):
            return learned
        try:
            return with_standard_kernels(search, learned, search.chosen)
        except KeyboardInterrupt:
            stopped: Stopped = "request"
        except TimeIsUp:
            stopped = "time"
        notes = (ENDED[stopped], *learned.notes)
        return replace(learned, functional=learned.kernel, stopped=stopped, notes=notes)

    def plan(self) -> Plan:
        """Return how the search runs."""
        return Plan(self.subspaces, self.iterations, self.directions, self.acquisition, self.distance, self.stop)

    def grid_size(self, columns: int) -> int:
        """Return how many pairs the grid has (KFO A.5.1: at least ten for each column)."""
        return self.grid if self.grid is not None else max(40, 10 * columns)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data; a function of one's own becomes its name."""
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if not isinstance(self.objective, str):
            settings["objective"] = "evidence"  # a file holds no code
        return settings

    def check(self) -> None:
        """Refuse settings that mean nothing."""
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise InputError(f"{name} must be {' or '.join(map(repr, known))}, not {getattr(self, name)!r}")
        if not callable(self.objective) and self.objective not in OBJECTIVES:
            known_names = " or ".join(map(repr, OBJECTIVES))
            raise InputError(f"objective must be {known_names}, or a function of a Gram matrix, not {self.objective!r}")
        least = {"subspaces": 0, "iterations": 0, "directions": 1, "tuning": 0, "grid": 2, "components": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if value is None and name in ("grid", "components"):
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
                raise InputError(f"{name} must be a whole number of at least {low}, not {value!r}")
        if self.components is not None and self.components > MOST_COMPONENTS:
            raise InputError(f"components must be at most {MOST_COMPONENTS}, not {self.components!r}")
        if self.time_budget is not None and not (isinstance(self.time_budget, Real) and self.time_budget > 0):
            raise InputError(f"time_budget must be None or a number of seconds above zero, not {self.time_budget!r}")
        if self.plus is not None:
            parse(self.plus)
