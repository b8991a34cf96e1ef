"""What is believed about the kernel of the function, and how it changes as trials arrive.

`StructureModel` ("auto") keeps several additive structures with their probabilities; `LearnedModel` has one kernel: an
expression that is fitted, or what a learner finds. Both are values: `update` returns another one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from mercer.fitting.minimise import ONE_THREAD_BELOW, minimise
from mercer.fitting.minimise import fit as fit_kernel
from mercer.fitting.problem import FitOptions, prepare
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import bind, values_of, with_values
from mercer.kernels.text import parse
from mercer.learners.contract import Context, Learner
from mercer.learners.partition import (
    AdditiveStructure,
    FittedStructure,
    Groups,
    Input,
    StructurePolicy,
    StructureProblem,
    StructureSearch,
    sort_groups,
    weigh,
    weigh_partitions,
)
from mercer.linalg.threads import one_thread
from mercer.optimise.surrogate import FunctionModel, choose_rows

JOINT_FAMILY = "M52"  # of the kernel on all inputs: rough enough to claim little about other places
# From typical values: those of the structure are what is doubted. One short fit will do: it is only looked with.
JOINT_FIT = StructurePolicy(lengthscales=(0.4,), fresh_iterations=30)
# A first guess that nobody waits for: one start, and as few steps as tell a sum from a joint kernel.
FIRST_GUESS = StructurePolicy(lengthscales=(0.4,), fresh_iterations=30, iterations=12, short_iterations=6)
Scale = Literal["identity", "log"]


@dataclass(frozen=True)
class UpdatePolicy:
    """When to look for structure again, and with how many trials."""

    growth: float = 1.1  # the structure is looked for again when there are this many times the trials
    always: int = 14  # with this many trials or fewer it is looked for every time
    refit_growth: float = 1.02  # parameters are fitted again
    searched_rows: int = 200  # trials that structures are compared on: the best half, and others at random
    fitted_rows: int = 400  # the same, that parameters are fitted to
    near_rows: int = 300  # the same nearest to a trial, that its value is predicted from
    switch: float = 3.0  # in log density of the last trials: by what logarithms must be better
    window: int = 15  # of those trials
    first: int = 10  # trials at random, whose spread sets the floor
    floor: float = 1e-3  # of that spread: finer predictions count as no better
    shift: float = 0.1  # of the distance from the least value to the median, in log(y - least + shift)
    sure: float = 0.9  # probability of a partition
    settled: int = 3  # searches that agree: from then on only neighbours of the best are looked at
    learner_growth: float = 1.25  # learners take longer
    # Of a new study with more trials than these a question shall take a second at most, and a search takes several: it
    # goes on with each of the next trials. Of fewer the answer is worth waiting for: trials are dear then.
    patient: int = 1000
    # Trials that structures are compared on in such a step: two of the first kind fit into a second; more trials show
    # weaker interactions, and are looked at once fewer show nothing more.
    step_rows: tuple[int, ...] = (150, 200)


def measure_spread(y: Array) -> float:
    """Return the standard deviation of values of any size: their squares may be too large or too small for a float."""
    power = math.frexp(float(np.abs(y).max(initial=0.0)))[1]
    return math.ldexp(float(np.std(np.ldexp(y, -power))), power)


@dataclass(frozen=True)
class Target:
    """How values of the function become a target of zero mean and unit variance: as they are, or their logarithms."""

    scale: Scale = "identity"
    low: float = 0.0
    shift: float = 1.0
    centre: float = 0.0
    spread: float = 1.0

    @staticmethod
    def of(y: Array, scale: Scale, policy: UpdatePolicy) -> Target:
        """Measure values."""
        low = float(y.min())
        shift = policy.shift * (float(np.median(y)) - low) or 1.0
        bare = Target(scale, low, shift)
        raw = bare.forward(y)
        return replace(bare, centre=float(raw.mean()), spread=measure_spread(raw) or 1.0)

    def forward(self, y: Array) -> Array:
        """Return the target of values; below the least value known the logarithm goes on as a straight line."""
        raw = np.asarray(y, dtype=float)
        if self.scale == "log":
            above = np.maximum(raw - self.low, 0.0)
            raw = np.log(above + self.shift) + np.minimum(raw - self.low, 0.0) / self.shift
        return np.asarray((raw - self.centre) / self.spread)

    def to_plain(self) -> list[float]:
        """Return the numbers."""
        return [self.low, self.shift, self.centre, self.spread]

    def take_up(self, plain: Any) -> Target:
        """Return a target on this scale with the numbers that `to_plain` returned."""
        low, shift, centre, spread = _read_numbers(plain).tolist()
        if min(shift, spread) <= 0.0:
            raise ValueError("a shift or a spread is not positive")
        return Target(self.scale, low, shift, centre, spread)

    def backward(self, z: Array) -> Array:
        """Return the values of targets."""
        raw = np.asarray(z, dtype=float) * self.spread + self.centre
        if self.scale == "log":
            edge = math.log(self.shift)
            raw = self.low + np.where(
                raw >= edge, np.exp(np.maximum(raw, edge)) - self.shift, (raw - edge) * self.shift
            )
        return np.asarray(raw)


def _read_numbers(plain: Any) -> Array:
    numbers = np.array(plain, dtype=np.float64)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError("a number is not finite")
    return numbers


def _read_count(plain: Any) -> int:
    if type(plain) is not int or plain < 0:
        raise ValueError(f"{plain!r:.20} counts nothing")
    return plain


def _no_data(inputs: tuple[Input, ...]) -> Data:
    return Data(np.empty((0, sum(map(len, inputs)))), np.empty(0))


class Belief(ABC):
    """A belief about the kernel."""

    target: Target

    @abstractmethod
    def update(self, X: Array, y: Array, rng: np.random.Generator) -> Belief:
        """Return the belief after all these trials."""

    @abstractmethod
    def draw(self, X: Array, y: Array, rng: np.random.Generator | None) -> FunctionModel:
        """Return a surrogate given the trials, drawn by its probability; without a generator the most probable."""

    def join(self, X: Array, y: Array) -> LearnedModel | None:
        """Return the belief in one kernel on all inputs, fitted; None where this one is not about structures."""
        return None

    def on_values(self) -> Belief:
        """Return the belief about the values as they are: which inputs act together is said of these."""
        return self

    @property
    def searching(self) -> bool:
        """Whether the search for structure goes on with the next trials: what it has found so far is a first guess."""
        return False

    @property
    @abstractmethod
    def partitions(self) -> list[tuple[Groups, float]]:
        """Which inputs act together, with probabilities, most probable first."""

    @abstractmethod
    def to_plain(self) -> dict[str, Any] | None:
        """Return what was learned as JSON data, texts and numbers only; None before anything was."""

    @abstractmethod
    def take_up(self, plain: dict[str, Any]) -> Belief:
        """Return this belief with what `to_plain` of one with the same kernel returned; a ValueError where it is none.

        Nothing is fitted: that is what makes the first question to a study that was loaded as quick as the next one.
        """


def _shorten(search: StructureSearch, y: Array, rows: int, seed: int) -> StructureSearch:
    """Return a search among fewer rows, in shorter steps."""
    some = choose_rows(y, rows, np.random.default_rng(seed))
    return replace(search, data=search.data.take(some), policy=FIRST_GUESS)


@dataclass(frozen=True, eq=False)
class ScaledModel:
    """Additive structures of the function on one scale of its values, with their probabilities."""

    inputs: tuple[Input, ...]
    target: Target
    policy: UpdatePolicy
    fits: tuple[FittedStructure, ...] = ()
    searched_at: int = 0  # trials when the structure was last looked for
    fitted_at: int = 0
    settled: int = 0  # searches in a row that found the same partition, and are sure of it
    stage: int | None = None  # of a search that goes on with the next trial, among `step_rows`

    def update(self, X: Array, y: Array, count: int, rng: np.random.Generator | None) -> ScaledModel:
        """Return the model after `count` trials, of which these rows are given to fit to.

        With a generator structures are looked for from several starts, unless the last searches agree.
        """
        policy, target = self.policy, Target.of(y, self.target.scale, self.policy)
        search = StructureSearch(self.inputs, Data(X, target.forward(y), free_level=True))
        if self.stage is not None or (not self.fits and count > policy.patient):
            return self._go_on(search, y, target, count, rng)
        if not self.fits or count <= policy.always or count >= policy.growth * self.searched_at:
            before = self.fits[0].structure.groups if self.fits else None
            some = choose_rows(y, policy.searched_rows, np.random.default_rng(count))
            few = replace(search, data=search.data.take(some))
            fits = few.update(self.fits, rng, wide=rng is not None and self.settled < policy.settled)
            if len(some) < len(y):
                fits = search.refit(fits)
            sure = weigh_partitions(fits)[0][1] > policy.sure and fits[0].structure.groups == before
            settled = self.settled + 1 if sure else 0
            return replace(self, fits=fits, target=target, searched_at=count, fitted_at=count, settled=settled)
        if count < policy.refit_growth * self.fitted_at:
            return self
        fits = search.refit(self.fits)
        return replace(self, fits=fits, target=target, fitted_at=count)

    def _go_on(
        self, search: StructureSearch, y: Array, target: Target, count: int, rng: np.random.Generator | None
    ) -> ScaledModel:
        """Return the model after one step of a search; where that finds nothing better it goes on with more trials."""
        stages, stage = self.policy.step_rows, self.stage or 0
        few = _shorten(search, y, stages[stage], self.searched_at or count)
        fits = few.advance(self.fits, rng) if self.fits else few.begin()
        same = bool(self.fits) and fits[0].structure == self.fits[0].structure
        at = self.searched_at if self.fits else count
        # fitted_at 0: what was fitted to few trials is fitted to more of them once the search has ended
        return replace(
            self, fits=fits, target=target, searched_at=at, fitted_at=0,
            stage=(stage + 1 if stage + 1 < len(stages) else None) if same else stage,
        )  # fmt: skip

    def follow(self, other: ScaledModel, X: Array, y: Array, count: int) -> ScaledModel:
        """Return the model after `count` trials; while the other is still searching, it takes over what that found."""
        if other.stage is None:
            return self.update(X, y, count, None)
        target, best = Target.of(y, self.target.scale, self.policy), other.fits[0]
        search = StructureSearch(self.inputs, Data(X, target.forward(y), free_level=True))
        few = _shorten(search, y, self.policy.step_rows[0], other.searched_at)
        return replace(
            self, fits=(few.fit(best.structure, best),), target=target, searched_at=other.searched_at, fitted_at=0
        )

    def to_plain(self) -> dict[str, Any]:
        """Return what was learned as JSON data."""
        return {
            "target": self.target.to_plain(),
            "fits": [
                [each.structure.groups, each.structure.family, each.point.tolist(), each.score] for each in self.fits
            ],
            "searched_at": self.searched_at,
            "fitted_at": self.fitted_at,
            "settled": self.settled,
            "stage": self.stage,
        }

    def take_up(self, plain: dict[str, Any]) -> ScaledModel:
        """Return the model with what `to_plain` returned."""
        searched_at, fitted_at, settled = (_read_count(plain[name]) for name in ("searched_at", "fitted_at", "settled"))
        fits = tuple(self._read_fit(*entry) for entry in plain["fits"])
        if not fits:
            raise ValueError("there is no structure")
        stage = plain.get("stage")
        if stage is not None and _read_count(stage) >= len(self.policy.step_rows):
            raise ValueError("there is no such stage of a search")
        return replace(
            self, target=self.target.take_up(plain["target"]), fits=fits, searched_at=searched_at, fitted_at=fitted_at,
            settled=settled, stage=stage,
        )  # fmt: skip

    def _read_fit(self, groups: Any, family: Any, point: Any, score: Any) -> FittedStructure:
        structure = AdditiveStructure(sort_groups([[_read_count(i) for i in group] for group in groups]), str(family))
        if sorted(i for group in structure.groups for i in group) != list(range(len(self.inputs))):
            raise ValueError("the groups are no partition of the inputs")
        if structure.family not in StructurePolicy().families:
            raise ValueError(f"there is no family {family!r:.20}")
        problem, values = StructureProblem(structure, self.inputs, _no_data(self.inputs)), _read_numbers(point)
        low, high = problem.bounds.T
        if values.shape != low.shape or (values < low).any() or (values > high).any():
            raise ValueError("the values of a structure are not within their bounds")
        return FittedStructure(problem, values, float(_read_numbers([score])[0]))

    def condition(self, fitted: FittedStructure, X: Array, y: Array) -> FunctionModel:
        """Return the surrogate of one structure given all trials."""
        data = Data(X, self.target.forward(y), free_level=True)
        return FunctionModel(fitted.expression, fitted.likelihood, data, self.inputs)

    def predict_density(self, X: Array, y: Array, row: Array, value: float, floor: float) -> float:
        """Return the log density of a new value in units of y; spreads below the floor count as the floor."""
        if len(y) > self.policy.near_rows:
            near = np.argpartition(((X - row) ** 2).sum(axis=1), self.policy.near_rows)[: self.policy.near_rows]
            X, y = X[near], y[near]
        surrogate = self.condition(self.fits[0], X, y)
        found = surrogate.predict(row[None])
        spread = math.sqrt(float(found.variance[0]) + surrogate.likelihood.noise)
        low, middle, high = self.target.backward(float(found.mean[0]) + spread * np.array([-1.0, 0.0, 1.0]))
        wide = math.hypot((high - low) / 2.0, floor)
        return -0.5 * ((value - float(middle)) / wide) ** 2 - math.log(wide)


@dataclass(frozen=True, eq=False)
class StructureModel(Belief):
    """Additive structures, from one input each to all together, on two scales of the values.

    Near a minimum the logarithm of the distance from it may be the easier function, elsewhere sums are sums only of the
    values as they are. The scale that predicted the last trials better is used; a draw goes to the values as they are.
    """

    inputs: tuple[Input, ...]
    policy: UpdatePolicy = field(default_factory=UpdatePolicy)
    plain: ScaledModel | None = None
    bent: ScaledModel | None = None
    recent: tuple[float, ...] = ()  # log density of each of the last trials: logarithms less plain
    seen: int = 0

    def update(self, X: Array, y: Array, rng: np.random.Generator) -> StructureModel:
        policy, count = self.policy, len(y)
        plain = self.plain or ScaledModel(self.inputs, Target("identity"), policy)
        bent = self.bent or ScaledModel(self.inputs, Target("log"), policy)
        recent = list(self.recent)
        floor = policy.floor * measure_spread(y[: policy.first]) or 1.0
        # Of several trials at once the first ones were not learned from before the last: no one of them decides alone.
        most = policy.switch if count - self.seen > 1 else math.inf
        for k in range(self.seen, count) if self.seen > 2 and count - self.seen <= policy.window else ():
            scores = [each.predict_density(X[:k], y[:k], X[k], float(y[k]), floor) for each in (plain, bent)]
            recent.append(min(max(scores[1] - scores[0], -most), most))
        rows = choose_rows(y, policy.fitted_rows, rng)
        with one_thread(when=len(rows) < ONE_THREAD_BELOW):
            plain = plain.update(X[rows], y[rows], count, rng)
            bent = bent.follow(plain, X[rows], y[rows], count)
        return replace(self, plain=plain, bent=bent, recent=tuple(recent[-policy.window :]), seen=count)

    @property
    def chosen(self) -> ScaledModel:
        """The scale that is used."""
        assert self.plain is not None
        assert self.bent is not None
        return self.bent if sum(self.recent) > self.policy.switch else self.plain

    @property
    def target(self) -> Target:  # type: ignore[override]
        return self.chosen.target

    @property
    def fits(self) -> tuple[FittedStructure, ...]:
        """The structures in use."""
        return self.chosen.fits if self.plain is not None else ()

    def draw(self, X: Array, y: Array, rng: np.random.Generator | None) -> FunctionModel:
        fits = self.chosen.fits
        fitted = fits[0] if rng is None else fits[int(rng.choice(len(fits), p=weigh(fits)))]
        return self.chosen.condition(fitted, X, y)

    def join(self, X: Array, y: Array) -> LearnedModel:
        """Logarithms tell trials next to the best apart, and all others hardly: the values are taken as they are."""
        target = Target.of(y, "identity", self.policy)
        rows = choose_rows(y, self.policy.fitted_rows, np.random.default_rng(len(y)))
        data = Data(X[rows], target.forward(y[rows]), free_level=True)
        everything = AdditiveStructure((tuple(range(len(self.inputs))),), JOINT_FAMILY)
        with one_thread(when=len(rows) < ONE_THREAD_BELOW):
            found = StructureSearch(self.inputs, data, policy=JOINT_FIT).fit(everything)
        return LearnedModel(
            self.inputs, found.problem.expression, policy=self.policy, expression=found.expression,
            likelihood=found.likelihood, target=target, fitted_at=len(y),
        )  # fmt: skip

    def on_values(self) -> StructureModel:
        return replace(self, recent=())

    @property
    def searching(self) -> bool:
        return self.plain is not None and self.plain.stage is not None

    @property
    def partitions(self) -> list[tuple[Groups, float]]:
        return weigh_partitions(self.plain.fits) if self.plain is not None else []

    def to_plain(self) -> dict[str, Any] | None:
        if self.plain is None or self.bent is None:
            return None
        both = {"plain": self.plain.to_plain(), "bent": self.bent.to_plain()}
        return {**both, "recent": list(self.recent), "seen": self.seen}

    def take_up(self, plain: dict[str, Any]) -> StructureModel:
        return replace(
            self,
            plain=ScaledModel(self.inputs, Target("identity"), self.policy).take_up(plain["plain"]),
            bent=ScaledModel(self.inputs, Target("log"), self.policy).take_up(plain["bent"]),
            recent=tuple(_read_numbers(plain["recent"]).tolist()),
            seen=_read_count(plain["seen"]),
        )


@dataclass(frozen=True, eq=False)
class LearnedModel(Belief):
    """One kernel: an expression whose values are fitted again as trials arrive, or what a learner finds."""

    inputs: tuple[Input, ...]
    kernel: Expression | Learner
    seed: int = 0
    policy: UpdatePolicy = field(default_factory=UpdatePolicy)
    expression: Expression | None = None
    likelihood: Gaussian = field(default_factory=lambda: Gaussian(1e-2))
    target: Target = field(default_factory=Target)
    fitted_at: int = 0

    def update(self, X: Array, y: Array, rng: np.random.Generator) -> LearnedModel:
        count = len(y)
        growth = self.policy.refit_growth if isinstance(self.kernel, Expression) else self.policy.learner_growth
        if self.expression is not None and count < growth * self.fitted_at:
            return self
        rows = choose_rows(y, self.policy.fitted_rows, rng)
        target = Target.of(y[rows], "identity", self.policy)
        data = Data(X[rows], target.forward(y[rows]), free_level=True)
        if isinstance(self.kernel, Learner):
            columns = [d for d in range(X.shape[1]) if np.ptp(data.X[:, d]) > 0]
            fit = self.kernel.learn(Context(data, Exact(), columns, seed=self.seed)).fit
            expression, likelihood = fit.expression, fit.likelihood
        elif self.expression is None:
            fit = fit_kernel(self.kernel, data, Exact(), FitOptions(priors=True, seed=self.seed))
            expression, likelihood = fit.expression, fit.likelihood
        else:
            problem = prepare(self.kernel, data, Exact(), FitOptions(priors=True))
            start = problem.point(values_of(self.expression), self.likelihood)
            values, likelihood = problem.split(minimise(problem, [start], 30)[0].point)
            expression = with_values(self.kernel, values)
        return replace(self, expression=expression, likelihood=likelihood, target=target, fitted_at=count)

    def draw(self, X: Array, y: Array, rng: np.random.Generator | None) -> FunctionModel:
        assert self.expression is not None
        data = Data(X, self.target.forward(y), free_level=True)
        return FunctionModel(self.expression, self.likelihood, data, self.inputs)

    @property
    def partitions(self) -> list[tuple[Groups, float]]:
        if self.expression is None:
            return []
        nothing = FunctionModel(self.expression, self.likelihood, _no_data(self.inputs), self.inputs)
        return [(tuple(part.inputs for part in nothing.parts), 1.0)]

    def to_plain(self) -> dict[str, Any] | None:
        if self.expression is None:
            return None
        return {
            "expression": str(self.expression),
            "noise": self.likelihood.noise,
            "target": self.target.to_plain(),
            "fitted_at": self.fitted_at,
        }

    def take_up(self, plain: dict[str, Any]) -> LearnedModel:
        width = sum(map(len, self.inputs))
        return replace(
            self,
            expression=bind(parse(str(plain["expression"])), width),
            likelihood=Gaussian(float(_read_numbers([plain["noise"]])[0])),
            target=self.target.take_up(plain["target"]),
            fitted_at=_read_count(plain["fitted_at"]),
        )
