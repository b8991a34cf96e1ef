"""What every inference engine gives: evidence with its gradient while fitting, a posterior afterwards.

An engine never asks which learner made the kernel. Failures inside a search are values (`Evidence.failure`), not
exceptions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.backend import NUMBA, Backend, backend_for
from mercer.compute.program import Program
from mercer.errors import InputError, NumericalError
from mercer.inference.lattice import Lattice, find_lattice
from mercer.inference.likelihood import GAUSSIAN_ONLY, LOG_2_PI, Gaussian, Likelihood
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure, factorise

Sum = TypeVar("Sum")  # what rows add up to: two of them are joined by +


class RowSource(Protocol):
    """Rows that need not be in memory, or on this machine, in the units of the fit."""

    @property
    def count(self) -> int:
        """Number of rows."""

    def add_up(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        """Return the sum of work(X, y) over blocks of at most about `size` rows, every row in one block."""


@dataclass(frozen=True, eq=False)
class Data:
    """Training rows: inputs (N x D) and a target (N).

    With `free_level` the target is a constant plus the process, and the constant is fitted with everything else: taking
    the mean out beforehand is not enough for a kernel such as LIN * PER, under which no function has a free constant.

    With a `source` X and y are a sample of its rows, and `count` is the number of them all: engines that only need sums
    over rows (VFE) go over the source.
    """

    X: Array
    y: Array
    free_level: bool = False
    source: RowSource | None = None

    @cached_property
    def at(self) -> fused.Points:
        """The inputs prepared for the fused back end."""
        return fused.points(self.X)

    @property
    def count(self) -> int:
        return len(self.y) if self.source is None else self.source.count

    @property
    def sample(self) -> Data:
        """The rows in memory: all of them, unless there is a source."""
        return Data(self.X, self.y, self.free_level) if self.source is not None else self

    @cached_property
    def lattice(self) -> Lattice | None:
        """The grid that the rows lie on, if they do."""
        return find_lattice(self.X)

    def take(self, rows: NDArray[Any]) -> Data:
        return Data(self.X[rows], self.y[rows], self.free_level)

    @property
    def right_sides(self) -> Array:
        """What A is solved for: y and, where the level is free, ones."""
        return np.stack([self.y, np.ones(self.count)]) if self.free_level else self.y[None]

    def fit_level(self, solved: Array) -> tuple[Array, Level]:
        """Return a = A^-1 (y - c) and c, given A^-1 of the right sides."""
        if not self.free_level:
            return solved[0], Level(0.0, 0.0, np.zeros(self.count))
        alpha, pull = solved
        variance = 1.0 / float(pull.sum())
        level = variance * float(pull @ self.y)
        return alpha - level * pull, Level(level, variance, pull)


@dataclass(frozen=True, eq=False)
class Evidence:
    """log p(y), its gradient by the values vector and by the noise variance, and the leave-one-out score."""

    value: float
    gradient: Array | None = None
    noise_gradient: float | None = None
    leave_one_out: float | None = None
    jitter: float = 0.0
    failure: str | None = None
    by_points: Array | None = None  # gradient by inducing points, m x D, from an engine that moves them


@dataclass(frozen=True, eq=False)
class Prediction:
    """Mean and variance of the function f (level included) at new rows; add the noise for the target y."""

    mean: Array
    variance: Array

    def score(self, y: Array) -> float:
        """Return the sum of the log densities of targets."""
        return -0.5 * float((LOG_2_PI + np.log(self.variance) + (y - self.mean) ** 2 / self.variance).sum())


@dataclass(frozen=True, eq=False)
class Level:
    """The constant c, its variance 1 / 1's, and s = A^-1 1 at the training rows; all zero where it is not free."""

    mean: float
    variance: float
    pull: Array


class Projection(NamedTuple):
    """What the data say about a function at new rows, apart from the level: K* a, its variance (or joint one), K* s."""

    mean: Array
    variance: Array
    pull: Array


Part = tuple[Program, Array] | None  # a summand with its values; None: the whole kernel


def leave_out(y: Array, alpha: Array, precision: Array, level: Level) -> Prediction:
    """Return mean_i = y_i - a_i / P_ii and var_i = 1 / P_ii, P = A^-1 less what the level takes (METHODS 2)."""
    precision = precision - level.variance * level.pull**2
    return Prediction(y - alpha / precision, 1.0 / precision)


class Posterior(ABC):
    """What is known about f (and its summands) after seeing the data.

    An engine's own part is how it projects new rows (`project`), and the precision of the training rows; the level,
    samples and leaving out are written here, once.
    """

    data: Data

    @property
    @abstractmethod
    def fitted_level(self) -> Level:
        """The constant that was fitted with everything else."""

    @abstractmethod
    def project(self, X: Array, part: Part = None, joint: bool = False) -> Projection:
        """Project some rows, by the whole kernel or one summand; `joint`: with a covariance in place of variances."""

    @abstractmethod
    def precision(self) -> tuple[Array, Array]:
        """Return a = A^-1 (y - c) and the diagonal of A^-1 at the training rows."""

    @property
    def jitter(self) -> float:
        """What was added to the diagonal of the covariance to factorise it."""
        return 0.0

    @property
    def row_weights(self) -> Array | None:
        """The a by which K_j(x, X) a is the mean of every summand at x, where the engine has one: means cost little."""
        return None

    @property
    def rows_at_a_time(self) -> int:
        """How many rows to predict at once."""
        return max(1, 2_000_000 // max(1, self.data.count))

    @property
    def level(self) -> Prediction:
        """The fitted constant (one number) and its variance; both zero where the level is not free."""
        return Prediction(np.array([self.fitted_level.mean]), np.array([self.fitted_level.variance]))

    def predict_part(self, program: Program, values: Array, X: Array) -> Prediction:
        """Return mean K_j* a and variance K_j** - K_j* A^-1 K_j*' of one summand, by its own program (METHODS 3)."""
        return self.predict(X, (program, values))

    def predict(self, X: Array, part: Part = None) -> Prediction:
        """Return mean and variance of f at each row, in blocks of rows; no share of the level belongs to a summand."""
        level, share = self.fitted_level, 1.0 if part is None else 0.0
        mean, variance, step = np.empty(len(X)), np.empty(len(X)), self.rows_at_a_time
        for start in range(0, len(X), step):
            some = slice(start, start + step)
            found = self.project(X[some], part)
            mean[some] = share * level.mean + found.mean
            variance[some] = np.maximum(found.variance, 0.0) + level.variance * (share - found.pull) ** 2
        return Prediction(mean, variance)

    def predict_joint(self, X: Array) -> tuple[Array, Array]:
        """Return mean and full covariance of f at the rows."""
        mean, covariance, pull = self.project(X, joint=True)
        if self.data.free_level:
            covariance = covariance + self.fitted_level.variance * np.outer(1.0 - pull, 1.0 - pull)
        return self.fitted_level.mean + mean, 0.5 * (covariance + covariance.T)

    def sample(self, X: Array, count: int, rng: np.random.Generator, noise: float) -> Array:
        """Draw joint samples (rows x count) of f, plus independent noise of the given variance."""
        mean, covariance = self.predict_joint(X)
        factor = factorise(covariance.copy, noise)
        if isinstance(factor, Failure):
            raise NumericalError(f"no samples: {factor.reason}; ask for fewer or more distinct rows")
        return np.asarray(mean[:, None] + factor.multiply(rng.standard_normal((len(X), count))))

    def leave_one_out(self) -> Prediction:
        """Return mean and variance of y at each training row given all the others."""
        return leave_out(self.data.y, *self.precision(), self.fitted_level)

    def left_out_score(self) -> float:
        """Return the sum of leave-one-out log densities."""
        return self.leave_one_out().score(self.data.y)

    @staticmethod
    def _products(half: Any, joint: bool) -> Any:
        """Return H' H, or its diagonal."""
        return half.T @ half if joint else (half * half).sum(0)


class Move(NamedTuple):
    """Values a little way along some direction, and how far that is."""

    values: Array
    size: float


class Engine(ABC):
    """A way to compute the evidence and the posterior, and what it can do, as data."""

    name: ClassVar[str]
    exact: ClassVar[bool] = False  # its evidence is that of the kernel, whatever the data
    is_bound: ClassVar[bool] = False  # it is a lower bound of the exact one, so that an interval around that can be had
    replaces_kernel: ClassVar[bool] = False  # its evidence is that of another kernel near the one that is given
    has_information: ClassVar[bool] = False  # it can tell how fast its evidence bends (`information`)
    streams: ClassVar[bool] = False  # it needs nothing but sums over the rows, which need not be in memory or here
    held: ClassVar[bool] = False  # what it chooses by the values has been chosen, and stays
    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = GAUSSIAN_ONLY  # `noise_of` refuses others
    accelerated: ClassVar[bool] = False  # it works on other back ends than the CPU's, too
    saved: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}  # its settings in a file, with their types
    device: str | Backend = NUMBA  # where it works: the user's word for it, or the back end itself

    @property
    def many_rows(self) -> bool:
        """Made for many rows: a structure is learned from a sample of them first, then fitted to all."""
        return True

    @property
    def moves_points(self) -> bool:
        """Its inducing points move with the parameters while these are fitted."""
        return False

    @property
    def saves_points(self) -> bool:
        """A model keeps its inducing points: the engine would not choose the same ones again."""
        return False

    def hold(self, program: Program, values: Array, data: Data) -> Engine:
        """Return the engine with all that it chooses by the values (inducing points, random draws) chosen for these.

        An engine may choose anew for each call; while parameters are fitted it must not, or there is no gradient.
        """
        return self

    def hold_for_predictions(self, program: Program, values: Array, data: Data) -> Engine | None:
        """Return the held engine for the final posterior, where that is worked out with more than a fit can afford."""
        return None

    @property
    def backend(self) -> Backend:
        """What runs the kernels."""
        return self.device if isinstance(self.device, Backend) else backend_for(self.device)

    def noise_of(self, likelihood: Likelihood) -> float:
        """Return the noise variance of a Gaussian likelihood; an engine that knows no other refuses what is not one."""
        if isinstance(likelihood, Gaussian):
            return likelihood.noise
        able = ", ".join(each.name for each in self.likelihoods)
        raise InputError(f"{self.name} inference works with these likelihoods: {able}; not with {likelihood.name}")

    def on(self, backend: Backend) -> Self:
        """Return the engine working with a back end; itself where it works with none but the CPU's."""
        return replace(cast(Any, self), device=backend) if self.accelerated else self

    @abstractmethod
    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        """Return the log evidence, with its gradient if asked."""

    def information(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, moves: Sequence[Move]
    ) -> Array | None:
        """Return how fast the log evidence bends along some moves of the values and, last, along the log noise.

        None where the covariance cannot be factorised, and where the engine has none.
        """
        return None

    @abstractmethod
    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> Posterior:
        """Return the posterior; raises NumericalError where none can be had."""

    def to_plain(self) -> Any:
        """Return the engine as JSON data, for a file: its name, with the settings in `saved`."""
        known = {name: getattr(self, name) for name in self.saved}
        return {"engine": self.name, **{name: value for name, value in known.items() if value is not None}}

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> Self:
        """Read `to_plain` back."""
        return cls(**{name: kind(data[name]) for name, kind in cls.saved.items() if name in data})
