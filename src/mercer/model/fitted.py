"""`Fitted`: everything a fit found, as one frozen value.

Predicting, explaining, reporting and saving are functions of a `Fitted` and of nothing else. An estimator keeps one as
`fitted_` and shows its fields as attributes; nobody writes to an estimator from outside, and nobody reads its private
names. Kernels of `mixture` and the rows of `training.data` are in the scaled units of the fit; everything else is in
the units of the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from mercer.compute.backend import NUMBA, Backend
from mercer.compute.program import compile_program
from mercer.errors import InputError, KernelError, KernelSyntaxError
from mercer.fitting.problem import AtBound, Fit
from mercer.inference.bounds import Interval, closest
from mercer.inference.choose import DEFAULT, Choice, ChoicePolicy, choose, choose_for_scattered, choose_grid
from mercer.inference.contract import Data, Engine, Posterior, Prediction, RowSource
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import VFE, is_sparse
from mercer.kernels.algebra import described_components
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Units, to_data_units, values_of
from mercer.kernels.text import parse
from mercer.learners.auto import AutoKernel
from mercer.learners.averaging import inverse_freedom, student_log_density
from mercer.learners.contract import Candidate, Learned, Learner, Plan, Stopped, Weights, share_beyond
from mercer.learners.criteria import bic
from mercer.learners.grammar import GrammarSearch
from mercer.learners.kfo import KernelFunctional
from mercer.learners.nkn import NeuralKernelNetwork
from mercer.learners.partition_sampler import PartitionSampler
from mercer.learners.surface import ChangeSurface

if TYPE_CHECKING:
    from mercer.tables import Encoding  # pandas comes with it: imported where it is used


LEARNERS: dict[str, type[Any]] = {
    "auto": AutoKernel,
    "search": GrammarSearch,
    "nkn": NeuralKernelNetwork,
    "surface": ChangeSurface,
    "kfo": KernelFunctional,
    "partition": PartitionSampler,
}
# Names that a classifier's `kernel` may have.
CLASS_KERNELS = ("kfo", "kfo-mkl", "rbf", "linear", "mkl", "mkl-uniform", *(name for name in LEARNERS if name != "kfo"))

# What reads the kernels of other libraries, by the name of the library.
FOREIGN = {"sklearn": "mercer.from_sklearn(kernel)", "gpytorch": "mercer.from_gpytorch(kernel)"}


def expression_or_learner(kernel: Any, names: Iterable[str] = LEARNERS) -> Expression | Learner:
    """Return what the user means by `kernel`; `names` are those that it could have been, for one that is mistyped."""
    if isinstance(kernel, str):
        return LEARNERS[kernel]() if kernel in LEARNERS else _parse_kernel(kernel, names)
    if isinstance(kernel, Expression):
        return kernel
    if not isinstance(kernel, Learner):
        reader = FOREIGN.get(type(kernel).__module__.partition(".")[0], "")
        raise KernelError(
            f"kernel must be a text such as 'SE*PER + LIN', an expression, or a learner by its name "
            f"({', '.join(map(repr, LEARNERS))}) or as in mercer.GrammarSearch(), not {kernel!r:.60}"
            + (f": {reader} reads it" if reader else "")
        )
    return kernel


def _parse_kernel(text: str, names: Iterable[str]) -> Expression:
    """Read a kernel; a single word that is none may have been meant as another name."""
    try:
        return parse(text)
    except KernelSyntaxError as error:
        if not text.strip().isalpha():
            raise
        others = ", ".join(map(repr, names))
        raise KernelSyntaxError(f"{error.problem}; other names are {others}", error.text, error.position) from None


def choose_engine(
    kernel: Expression | Learner,
    asked: Engine | None,
    backend: Backend,
    data: Data,
    structure: Expression | None,
    policy: ChoicePolicy = DEFAULT,
) -> Choice:
    """Choose the engine; a `structure` that is known beforehand may be one for grids."""
    if asked is None and structure is not None and not backend.batches:
        found = choose_grid(compile_program(structure), data, policy)
        if found is not None:
            return found
    scattered = choose_for_scattered(asked, data)
    if scattered is not None:
        return scattered
    most = kernel.most_rows if isinstance(kernel, Learner) else None
    return choose(len(data.y), asked, backend=backend, learner_rows=most, policy=policy)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of the user's table, and how it becomes a matrix of numbers."""

    count: int
    features: tuple[str, ...] | None = None  # their names, where they have some
    learned: Encoding | None = None  # where there are dates or categories

    @property
    def has_names(self) -> bool:
        """Whether the columns have names of their own."""
        return self.learned is not None or self.features is not None

    @property
    def names(self) -> list[str]:
        """The names of the columns of the matrix, which kernel dimensions refer to."""
        if self.learned is not None:
            return list(self.learned.names)
        return list(self.features) if self.features is not None else [str(number) for number in range(self.count)]

    @property
    def categories(self) -> dict[int, int]:
        """The numbers of the columns of the matrix that hold codes of categories, each with how many there are."""
        return {} if self.learned is None else self.learned.categories

    @property
    def encoding(self) -> Encoding:
        """How the table becomes the matrix: an encoding that was learned, or numbers as they are."""
        from mercer.tables import Encoding
        from mercer.tables.columns import NumberColumn

        return self.learned or Encoding(tuple(NumberColumn(name) for name in self.names))

    def encode(self, table: Any) -> Array:
        """Return a table like the one that was learned from, its columns found by name, or a matrix as a matrix."""
        if self.has_names and hasattr(table, "columns"):
            return np.ascontiguousarray(self.encoding.apply(table))
        return np.asarray(table, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows that were learned from, encoded as numbers; of a `source`, a random sample of its rows."""

    X: Array
    y: Array
    units: Units
    level: float  # taken out of y before it is scaled
    columns: Columns
    target_name: str | None = None
    source: RowSource | None = None  # all rows, in scaled units

    @cached_property
    def data(self) -> Data:
        """The rows in scaled units."""
        return Data(self.scale(self.X), self.scale_target(self.y), free_level=True, source=self.source)

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.y) if self.source is None else self.source.count

    @property
    def log_scale(self) -> float:
        """By how much log densities of all rows are larger in scaled units."""
        return self.count * math.log(self.units.y_scale)

    def scale(self, X: Array) -> Array:
        """Return rows in scaled units."""
        return np.asarray((X - np.array(self.units.shift)) / np.array(self.units.scale))

    def scale_target(self, y: Array) -> Array:
        """Return targets in scaled units."""
        return np.asarray((y - self.level) / self.units.y_scale)


@dataclass(frozen=True, eq=False)
class MixtureMember:
    """One kernel of a mixture with its noise variance and posterior (scaled units), and its two weights."""

    kernel: Expression
    noise: float
    within: float  # weight within the data
    beyond: float  # weight beyond its ends
    widening: float  # factor of its variances there
    posterior: Posterior


@dataclass(frozen=True, eq=False)
class KernelMixture:
    """Members, the first of which is the one explained; `column` is the one along which there is a beyond."""

    members: tuple[MixtureMember, ...]
    column: int | None
    ends: tuple[float, float]  # of the training rows along that column
    tails_beyond: float = 0.0  # of errors there: one over the degrees of freedom of Student's t; 0: Gaussian
    seen: Array = field(default_factory=lambda: np.empty(0))  # the targets learned from, where they are at hand

    def beyond(self, X: Array) -> Array:
        """Return for each row by how much it lies beyond the data, from 0 to 1."""
        if self.column is None:
            return np.zeros(len(X))
        along, (low, high) = X[:, self.column], self.ends
        return share_beyond(np.maximum(low - along, along - high), high - low)

    def weights_at(self, X: Array) -> Array:
        """Return the weights, members x rows."""
        beyond = self.beyond(X)
        return np.array([member.within * (1.0 - beyond) + member.beyond * beyond for member in self.members])

    def widening_at(self, X: Array) -> Array:
        """Return the factors of the variances, members x rows."""
        beyond = self.beyond(X)
        return np.array([1.0 + (member.widening - 1.0) * beyond for member in self.members])

    def _each(self, X: Array, include_noise: bool) -> tuple[Array, Array, Array]:
        """Return the weights, the means and the variances, members x rows."""
        means, variances = np.empty((2, len(self.members), len(X)))
        for i, member in enumerate(self.members):
            part = member.posterior.predict(X)
            means[i], variances[i] = part.mean, part.variance + include_noise * member.noise
        return self.weights_at(X), means, variances * self.widening_at(X)

    def predict(self, X: Array, include_noise: bool) -> Prediction:
        """Return mean sum_i w_i m_i and variance sum_i w_i (v_i + (m_i - mean)^2)."""
        weights, means, variances = self._each(X, include_noise)
        mean = (weights * means).sum(axis=0)
        return Prediction(mean, (weights * (variances + (means - mean) ** 2)).sum(axis=0))

    @cached_property
    def tails(self) -> float:
        """How heavy the tails of errors are, from each target that was learned from given all the others.

        One over the degrees of freedom of Student's t; 0 is a Gaussian.
        """
        if not len(self.seen):
            return 0.0
        left = [member.posterior.leave_one_out() for member in self.members]
        errors = np.array([self.seen - each.mean for each in left])
        variances = np.array([each.variance for each in left])
        weights = np.array([[member.within] for member in self.members])
        return inverse_freedom(
            lambda inverse: float(logsumexp(student_log_density(errors, variances, inverse), b=weights, axis=0).sum())
        )

    def log_density(self, X: Array, y: Array) -> Array:
        """Return log sum_i w_i p(y | m_i, v_i) for every row: what the mixture says, not its Gaussian summary.

        Each p is a Student's t with the tails of the errors within the data; beyond, with those of earlier forecasts.
        """
        weights, means, variances = self._each(X, include_noise=True)
        beyond = self.beyond(X)
        each = student_log_density(y - means, variances, self.tails * (1.0 - beyond) + self.tails_beyond * beyond)
        return np.asarray(logsumexp(each, b=weights, axis=0))

    def predict_joint(self, X: Array, include_noise: bool) -> tuple[Array, Array]:
        """Return mean and full covariance; two rows with different weights share their geometric mean."""
        weights, widening = self.weights_at(X), np.sqrt(self.widening_at(X))
        parts = [member.posterior.predict_joint(X) for member in self.members]
        mean = np.sum([w * own for w, (own, _) in zip(weights, parts, strict=True)], axis=0)
        covariance = np.zeros((len(X), len(X)))
        for weight, wide, member, (own, spread) in zip(weights, widening, self.members, parts, strict=True):
            root = np.sqrt(weight)
            spread = (spread + include_noise * member.noise * np.eye(len(X))) * np.outer(wide, wide)
            covariance += (spread + np.outer(own - mean, own - mean)) * np.outer(root, root)
        return mean, covariance

    def sample(self, X: Array, count: int, rng: np.random.Generator, include_noise: bool) -> Array:
        """Draw joint samples, each from one member within the data and one beyond it, chosen by the weights there.

        One number chooses both, so that they are the same member as often as the order of the members allows; another
        says where the one gives way to the other.
        """
        beyond, chance = self.beyond(X)[:, None] > rng.random(count), rng.random(count)
        inner, outer = (
            np.minimum(np.searchsorted(np.cumsum(shares) / np.sum(shares), chance, side="right"), len(shares) - 1)
            for shares in np.array([(member.within, member.beyond) for member in self.members]).T
        )
        samples, widening = np.empty((len(X), count)), np.sqrt(self.widening_at(X))
        for number, member in enumerate(self.members):
            wanted = np.where(beyond, outer == number, inner == number)
            places = np.flatnonzero(wanted.any(axis=0))
            if len(places):
                noise = member.noise if include_noise else 0.0
                mean = member.posterior.predict(X).mean[:, None]
                drawn = mean + (member.posterior.sample(X, len(places), rng, noise) - mean) * widening[number][:, None]
                samples[:, places] = np.where(wanted[:, places], drawn, samples[:, places])
        return samples


@dataclass(frozen=True)
class FitScores:
    """How good a fit is, for the target in its own units; `jitter` was added to the covariance's diagonal."""

    log_evidence: float
    bic: float  # -2 log evidence + parameters log rows
    leave_one_out: float
    parameters: int
    jitter: float


@dataclass(frozen=True, eq=False)
class Origin:
    """Where the kernel comes from: the settings of the estimator, and the network that it was distilled from."""

    options: Mapping[str, Any]  # the estimator's parameters, as the user gave them
    distilled_from: str | None = None  # in words
    plan: Plan | None = None  # where the learner was chosen by the data

    @cached_property
    def kernel(self) -> Expression | Learner:
        """The structure that was given, or the learner that found it."""
        return expression_or_learner(self.options["kernel"]) if self.plan is None else self.plan.kernel

    @cached_property
    def given(self) -> str | None:
        """The structure that was given, as text; None where it was learned."""
        if not isinstance(self.kernel, Expression):
            return None
        return str(self.options["kernel"] if self.plan is None else self.kernel)

    @cached_property
    def learner_settings(self) -> dict[str, Any]:
        """The settings of the learner; none where the structure was given."""
        return {} if isinstance(self.kernel, Expression) else self.kernel.describe()

    @cached_property
    def noise_is_fitted(self) -> bool:
        """Whether the noise was fitted."""
        return self.given is None or self.options["noise"] is None


@dataclass(frozen=True, eq=False)
class Component:
    """One summand of the kernel: its expression (None for the constant level) and its posterior at some rows."""

    kernel: Expression | None
    mean: Array
    std: Array


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted regression. Rows are given to its methods as matrices in the units of the data (`columns.encode`)."""

    training: TrainingRows
    choice: Choice  # of the engine, with its reason
    kernel: Expression  # the one explained
    noise: float
    mixture: KernelMixture
    scores: FitScores
    status: str
    message: str
    origin: Origin
    at_bounds: tuple[AtBound, ...] = ()  # where the status is "at a bound"
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: Stopped = ""
    seconds: float | None = None

    @property
    def columns(self) -> Columns:
        """The columns of the user's table."""
        return self.training.columns

    @property
    def units(self) -> Units:
        """How the data were scaled."""
        return self.training.units

    @property
    def winner(self) -> MixtureMember:
        """The member of the mixture that is explained: the winner."""
        return self.mixture.members[0]

    # ---------------------------------------------------------------------------------------------------- predicting

    def predict(self, X: Array, include_noise: bool = True) -> tuple[Array, Array]:
        """Return the mean and the standard deviation of y (without noise: of the function) at each row."""
        with let_overflow():
            mean, std = self._in_data_units(self.mixture.predict(self.training.scale(X), include_noise))
        refuse_undefined(X, self.training.X, self.columns.names, mean, std)
        return mean, std

    def predict_joint(self, X: Array, include_noise: bool = True) -> tuple[Array, Array]:
        """Return the mean and the covariance of all rows."""
        with let_overflow():
            mean, covariance = self.mixture.predict_joint(self.training.scale(X), include_noise)
            mean, covariance = self.training.level + self.units.y_scale * mean, self.units.y_scale**2 * covariance
        refuse_undefined(X, self.training.X, self.columns.names, mean, np.diagonal(covariance))
        return mean, covariance

    def sample(self, X: Array, count: int, rng: np.random.Generator, include_noise: bool = True) -> Array:
        """Draw joint samples at the rows: an array rows x count."""
        self.predict(X)  # refuses rows for which there is nothing to draw from
        drawn = self.mixture.sample(self.training.scale(X), count, rng, include_noise)
        return np.asarray(self.training.level + self.units.y_scale * drawn)

    def log_density(self, X: Array, y: Array) -> Array:
        """Return the log predictive density of each value of y at its row."""
        self.predict(X)  # refuses rows for which there is no density
        found = self.mixture.log_density(self.training.scale(X), self.training.scale_target(y))
        return np.asarray(found - np.log(self.units.y_scale))

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return the mean and the standard deviation of every training target given all the others."""
        return self._in_data_units(self.winner.posterior.leave_one_out())

    def decompose(self, X: Array | None = None) -> list[Component]:
        """Return the posterior of every summand of the explained kernel at the rows, then the constant level."""
        rows, scale = self.training.data.X if X is None else self.training.scale(X), self.units.y_scale
        posterior = self.winner.posterior
        if X is not None:
            self.predict(X)  # refuses rows for which there is nothing to take apart
        parts: list[Component] = []
        for term in described_components(self.winner.kernel):
            part = posterior.predict_part(compile_program(term), values_of(term), rows)
            parts.append(Component(to_data_units(term, self.units), scale * part.mean, scale * np.sqrt(part.variance)))
        mean, std = self._in_data_units(posterior.level)
        return [*parts, Component(None, np.full(len(rows), mean[0]), np.full(len(rows), std[0]))]

    def _in_data_units(self, found: Prediction) -> tuple[Array, Array]:
        scale = self.units.y_scale
        return self.training.level + scale * found.mean, scale * np.sqrt(found.variance)

    # ------------------------------------------------------------------------------------------------------ evidence

    def evidence_interval(self) -> tuple[float, float]:
        """Return between what the exact log evidence lies: twice the same where inference is exact."""
        engine, own = self.choice.engine, self.scores.log_evidence
        if engine.replaces_kernel:
            raise InputError(
                "random features put another kernel in the place of this one, which says nothing certain about its "
                "evidence; use inference=mercer.VFE() for an interval"
            )
        if not is_sparse(engine):
            return own, own
        kernel, noise, data = self.winner.kernel, self.winner.noise, self.training.data
        program, values, shift = compile_program(kernel), values_of(kernel), self.training.log_scale

        def find(there: VFE) -> Interval:
            return closest(program, values, noise, data, there.hold(program, values, data), there)[0]

        # on the CPU where a GPU has too little memory for it
        found = engine.backend.attempt(lambda: find(engine)) or find(engine.on(NUMBA))
        return max(found.lower - shift, own), max(found.upper - shift, own)

    def as_fit(self) -> Fit:
        """Return the explained kernel as a fit in scaled units, to go on from."""
        member, scores, shift = self.winner, self.scores, self.training.log_scale
        return Fit(
            expression=member.kernel, noise=member.noise, log_evidence=scores.log_evidence + shift,
            leave_one_out=scores.leave_one_out + shift, parameters=scores.parameters,
            jitter=scores.jitter / self.units.y_scale**2, status=self.status,  # type: ignore[arg-type]
            message=self.message, evaluations=0, values=values_of(member.kernel), at_bounds=self.at_bounds,
        )  # fmt: skip


def let_overflow() -> np.errstate:
    """Let a computation overflow without a warning; what comes of it is checked."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def refuse_undefined(X: Array, known: Array, names: Sequence[str], *found: Array) -> None:
    """Refuse rows for which anything that was found is infinite or no number: they lie absurdly far from the data."""
    undefined = ~np.logical_and.reduce([np.isfinite(part).reshape(len(X), -1).all(axis=1) for part in found])
    if not undefined.any():
        return
    row = int(np.flatnonzero(undefined)[0])
    low, high = known.min(axis=0), known.max(axis=0)
    with let_overflow():
        away = np.maximum(low - X[row], X[row] - high) / np.where(high > low, high - low, 1.0)
    column = int(np.argmax(away))
    raise InputError(
        f"the prediction for row {row + 1} is no number, and so for {int(undefined.sum())} of {len(X)} rows: column "
        f"'{names[column]}' is {X[row, column]:g} there, and reaches from {low[column]:g} to {high[column]:g} in the "
        "data that were learned from. Leave such rows out, or correct them"
    )


def make_fitted(learned: Learned, training: TrainingRows, choice: Choice, origin: Origin) -> Fitted:
    """Return what was learned in the units of the data, ready to predict."""
    result, scale, rows = learned.fit, training.units.y_scale, training.count
    log_evidence = result.log_evidence - training.log_scale
    kernels = [(fit.expression, fit.noise) for fit in learned.members]
    engines = [fit.held or choice.engine for fit in learned.members]
    scores = FitScores(
        log_evidence, bic(log_evidence, result.parameters, rows), result.leave_one_out - training.log_scale,
        result.parameters, result.jitter * scale**2,
    )  # fmt: skip
    return Fitted(
        training, choice, to_data_units(result.expression, training.units), result.noise * scale**2,
        mixture=make_mixture(kernels, learned.weights, training.data, posteriors(kernels, engines, training.data)),
        scores=scores, status=result.status, message=result.message, origin=origin, at_bounds=result.at_bounds,
        candidates=tuple(candidate_in_data_units(c, training.units, learned.rows or rows) for c in learned.candidates),
        notes=learned.notes, stopped=learned.stopped,
    )  # fmt: skip


def posteriors(
    kernels: Sequence[tuple[Expression, float]], engines: Sequence[Engine], data: Data
) -> tuple[Posterior, ...]:
    """Factorise once, for all predictions: the posterior of each kernel with its noise, by its engine."""
    return tuple(
        engine.posterior(compile_program(kernel), values_of(kernel), Gaussian(noise), data)
        for (kernel, noise), engine in zip(kernels, engines, strict=True)
    )


def make_mixture(
    kernels: Sequence[tuple[Expression, float]], weights: Weights, data: Data, known: Sequence[Posterior]
) -> KernelMixture:
    """Return the average of kernels (scaled units, each with its noise) of which the first is the one explained."""
    members = tuple(
        MixtureMember(kernel, noise, within, beyond, widening, posterior)
        for (kernel, noise), within, beyond, widening, posterior in zip(
            kernels, weights.within, weights.beyond, weights.widening, known, strict=True
        )
    )
    along = data.X[:, weights.column or 0]
    seen = data.y if data.source is None else np.empty(0)
    return KernelMixture(members, weights.column, (float(along.min()), float(along.max())), weights.tails, seen)


def candidate_in_data_units(candidate: Candidate, units: Units, rows: int) -> Candidate:
    """Return a candidate with its kernel and scores as for the target in its own units."""
    shift, bounds, verdict = rows * math.log(units.y_scale), candidate.interval, candidate.verdict
    return replace(
        candidate,
        expression=to_data_units(candidate.expression, units),
        log_evidence=candidate.log_evidence - shift,
        score=candidate.score + 2.0 * shift,
        fit=None,
        interval=None if bounds is None else Interval(bounds.lower - shift, bounds.upper - shift),
        verdict=None if verdict is None else replace(verdict, bar=verdict.bar + 2.0 * shift),
    )
