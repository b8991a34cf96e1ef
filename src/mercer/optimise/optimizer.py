"""`Optimizer` (ask, tell) and `minimize`: Bayesian optimisation with a kernel that is learned (METHODS 10)."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from mercer.errors import FitWarning, InputError, ModelFileError
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import bind
from mercer.kernels.text import parse
from mercer.learners.contract import Learner
from mercer.learners.grammar import GrammarSearch
from mercer.learners.nkn import NeuralKernelNetwork
from mercer.learners.partition import Groups
from mercer.model.archive import kernel_to_plain, read_kernel_setting
from mercer.optimise.acquisition import AcquisitionPolicy, Proposal, Task, propose
from mercer.optimise.gain import expect_gain
from mercer.optimise.models import LearnedModel, Model, StructureModel
from mercer.optimise.space import Space, read_point, read_space
from mercer.optimise.surrogate import extend

FIRST_TRIALS = 10  # at random, before anything is learned
FORMAT = "mercer study"
NOISY = 1e-4  # of the variance of the values: from here on the best trial is that with the best posterior mean


@dataclass(frozen=True, eq=False)
class Trial:
    """One point that was tried: its row in encoded units, and the value of the function (None: it failed)."""

    row: Array
    value: float | None
    note: str = ""


@dataclass(frozen=True, eq=False)
class Best:
    """The best point so far, its observed value, and what the surrogate expects there (None before it exists)."""

    x: Any
    y: float
    mean: float | None
    number: int  # of its trial, from 0


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A point to try next, with what is expected of it and why it was chosen."""

    x: Any
    mean: float | None
    spread: float | None  # one standard deviation
    purpose: str  # "first", "improve", "explore"
    reason: str


class Optimizer:
    """Minimises (or maximises) an expensive function by asking for points and being told their values.

    Parameters
    ----------
    bounds : a list of pairs (low, high), one for each input: points are 1-D arrays. Or a dict of names to (low, high),
        `mercer.Integer(low, high)`, `mercer.Log(low, high)` or a list of categories: points are dicts.
    kernel : "auto" averages over which inputs act together, from each alone to all jointly; "nkn", "search", a learner,
        or any kernel on the encoded inputs (columns 0, 1, ... in [0, 1]; a category has one column for each choice).
    minimize : False to maximise.
    random_state : seed.
    constraints : scipy.optimize.LinearConstraint, or several of them, on the inputs.

    `ask()` gives the next point, `tell(x, y)` takes a value; y None, NaN or infinite marks a trial as failed. Points
    may be told in any order, and such as were never asked for.
    """

    def __init__(
        self,
        bounds: Any,
        kernel: str | Expression | Learner = "auto",
        minimize: bool = True,
        random_state: int | None = None,
        constraints: Any = None,
    ) -> None:
        self.space: Space = bounds if isinstance(bounds, Space) else read_space(bounds, constraints)
        self.kernel, self.minimize = kernel, bool(minimize)
        self.random_state = random_state
        self.acquisition = AcquisitionPolicy()
        self._rng = np.random.default_rng(random_state)
        self._model = self._first_model(kernel)
        self._modelled = 0  # trials that the model has seen
        self._trials: list[Trial] = []
        self._pending: list[Array] = []
        self._gain: tuple[int, float | None] = (-1, None)
        self.suggestions_: list[Suggestion] = []

    def _first_model(self, kernel: str | Expression | Learner) -> Model:
        inputs, seed = self.space.columns, int(self._rng.integers(2**31))
        if isinstance(kernel, str) and kernel == "auto":
            return StructureModel(inputs)
        if isinstance(kernel, str) and kernel == "nkn":
            primitives = [f"SE({c})" for c in range(self.space.width)]
            kernel = NeuralKernelNetwork(primitives=primitives, restarts=2, selection="evidence", average=False)
        elif isinstance(kernel, str) and kernel == "search":
            kernel = GrammarSearch(bases=("SE", "LIN", "M52"), max_depth=3)
        elif isinstance(kernel, str):
            kernel = parse(kernel)
        if isinstance(kernel, Expression):
            kernel = bind(kernel, self.space.width, list(self.space.names))
        elif not isinstance(kernel, Learner):
            raise InputError(f"kernel must be 'auto', 'nkn', 'search', a kernel or a learner, not {kernel!r:.80}")
        return LearnedModel(inputs, kernel, seed)

    # ------------------------------------------------------------------------------------------------------- ask, tell

    def ask(self, n: int = 1) -> Any:
        """Return the next point to try; with n > 1 a list of as many, chosen to be tried at the same time."""
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
            raise InputError(f"ask(n) needs a whole number of at least 1, not {n!r}")
        points = [self._ask_one() for _ in range(int(n))]
        return points[0] if n == 1 else points

    def _ask_one(self) -> Any:
        finished = [trial for trial in self._trials if trial.value is not None]
        values = {trial.value for trial in finished}
        if len(self._trials) + len(self._pending) < FIRST_TRIALS or len(values) < 2:
            row = self.space.sample(1, self._rng)[0]
            equal = len(values) == 1 and len(finished) >= FIRST_TRIALS
            why = "at random: all values so far are equal" if equal else "at random: one of the first trials"
            suggestion = Suggestion(self.space.decode(row), None, None, "first", why)
        else:
            proposal = self._propose()
            row, suggestion = proposal.row, self._describe(proposal)
        self._pending.append(row)
        self.suggestions_.append(suggestion)
        return suggestion.x

    def _propose(self) -> Proposal:
        """Update the model, then propose: pending trials count as if they had their expected value."""
        X, y = self._rows_and_values()
        self._update(X, y)
        surrogate = self._model.draw(X, y, self._rng)
        best = int(np.argmin(surrogate.predict(X).mean if self._is_noisy() else y))
        value = float(surrogate.predict(X[best : best + 1]).mean[0])
        if self._pending:
            rows = np.array(self._pending)
            surrogate = extend(surrogate, rows, surrogate.predict(rows).mean)
        return propose(Task(surrogate, self.space, X[best], value, self._rng, self.acquisition))

    def _update(self, X: Array, y: Array) -> None:
        if self._modelled != len(self._trials):
            self._model = self._model.update(X, y, self._rng)
            self._modelled = len(self._trials)

    def _describe(self, proposal: Proposal) -> Suggestion:
        target = self._model.target
        mean = float(target.backward(np.array(proposal.mean)))
        low, high = target.backward(proposal.mean + proposal.spread * np.array([-1.0, 1.0]))
        better = self.best_ is not None and mean < self._sign * self.best_.y
        reason = {
            "bounds by group": "the best bound of each group of inputs that act together",
            "expected improvement": "the largest expected improvement over all inputs",
            "random": "a random point: all better ones have been tried",
        }[proposal.method]
        purpose = "improve" if better else "explore"
        return Suggestion(self.space.decode(proposal.row), self._sign * mean, (high - low) / 2.0, purpose, reason)

    def tell(self, x: Any, y: Any) -> None:
        """Take the value of a point, or values of several points (a list of points and a list of values)."""
        several = isinstance(y, Sequence | np.ndarray) and not isinstance(y, str) and np.ndim(y) == 1
        if several:
            if len(x) != len(y):
                raise InputError(f"tell needs as many values as points: {len(x)} points and {len(y)} values were given")
            for point, value in zip(x, y, strict=True):
                self.tell(point, value)
            return
        row, notes = read_point(self.space, x)
        value = read_value(y)
        self._trials.append(Trial(row, None if value is None else self._sign * value, "; ".join(notes)))
        self._pending = [pending for pending in self._pending if np.abs(pending - row).max() > 1e-9]

    # ----------------------------------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write the study, all its trials, to a file that `mercer.load` reads."""
        document = {
            "format": FORMAT,
            "version": 1,
            "space": self.space.to_plain(),
            "kernel": kernel_to_plain(self.kernel),
            "minimize": self.minimize,
            "random_state": self.random_state,
            "trials": [[trial.row.tolist(), trial.value, trial.note] for trial in self._trials],
            "pending": [row.tolist() for row in self._pending],
            "generator": self._rng.bit_generator.state,
        }
        text, target = json.dumps(document), Path(path)
        partial = target.with_name(target.name + ".part")  # a file is whole or not there, whenever it is cut short
        partial.write_text(text)
        partial.replace(target)

    def resume(self, path: str | Path) -> None:
        """Take over the trials of a file that was saved with the same space; refuse those of another."""
        document = read_study(path)
        if Space.from_plain(document["space"]) != self.space or document["minimize"] != self.minimize:
            raise InputError(
                f"{path} holds a study of another space or direction: give its bounds, or another file for this one"
            )
        self._trials = [Trial(np.array(row), value, note) for row, value, note in document["trials"]]
        self._rng.bit_generator.state = document["generator"]

    # --------------------------------------------------------------------------------------------------- what is known

    @property
    def _sign(self) -> float:
        return 1.0 if self.minimize else -1.0

    def _rows_and_values(self) -> tuple[Array, Array]:
        """Return rows and values (to be minimised) of all trials; a failed one has the worst value known."""
        values = [trial.value for trial in self._trials if trial.value is not None]
        worst = max(values)
        X = np.array([trial.row for trial in self._trials])
        return X, np.array([worst if trial.value is None else trial.value for trial in self._trials])

    def _is_noisy(self) -> bool:
        if not isinstance(self._model, StructureModel):
            return isinstance(self._model, LearnedModel) and self._model.likelihood.noise > NOISY
        return bool(self._model.fits) and self._model.fits[0].likelihood.noise > NOISY

    @property
    def trials_(self) -> list[tuple[Any, float | None]]:
        """All trials in the order told: (point, value), None where it failed."""
        return [
            (self.space.decode(trial.row), None if trial.value is None else self._sign * trial.value)
            for trial in self._trials
        ]

    @property
    def best_(self) -> Best | None:
        """The best trial: of a noisy function the one with the best posterior mean; None before any has a value."""
        known = [number for number, trial in enumerate(self._trials) if trial.value is not None]
        if not known:
            return None
        X, y = self._rows_and_values()
        number, mean = min(known, key=lambda k: y[k]), None
        if self._modelled and self._modelled <= len(self._trials):
            found = self._model.target.backward(self._model.draw(X, y, None).predict(X).mean)
            if self._is_noisy():
                number = min(known, key=lambda k: found[k])
            mean = self._sign * float(found[number])
        return Best(self.space.decode(X[number]), self._sign * float(y[number]), mean, number)

    @property
    def partitions_(self) -> list[tuple[Groups, float]]:
        """Which inputs act together: partitions of the inputs' numbers with probabilities, most probable first."""
        return self._model.partitions

    @property
    def expected_gain_(self) -> float | None:
        """By how much the best value is expected to improve in the next 100 trials; None before there is a model."""
        if self._gain[0] != len(self._trials):
            X, y = self._rows_and_values() if any(t.value is not None for t in self._trials) else (None, None)
            gain = None
            if X is not None and y is not None and len(set(y)) > 1 and len(y) >= FIRST_TRIALS:
                self._update(X, y)
                gain = expect_gain(self._model, self.space, X, y, np.random.default_rng(0))
            self._gain = (len(self._trials), gain)
        return self._gain[1]


def read_study(path: str | Path) -> dict[str, Any]:
    """Return the contents of a study's file, refusing what is none."""
    try:
        document = json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelFileError(f"{path} is not a study that Mercer saved: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a study that Mercer saved")
    if document.get("version") != 1:
        raise ModelFileError(f"{path} was saved by a later version of Mercer: update to read it")
    return document


def load_study(path: str | Path) -> Optimizer:
    """Return the optimiser that `Optimizer.save` wrote."""
    document = read_study(path)
    optimizer = Optimizer(
        Space.from_plain(document["space"]),
        read_kernel_setting(document["kernel"]),
        minimize=document["minimize"],
        random_state=document["random_state"],
    )
    optimizer.resume(path)
    return optimizer


def read_value(y: Any) -> float | None:
    """Return a value of the function; None for one that marks a failed trial: None, NaN, an infinite number."""
    try:
        value = float("nan") if y is None else float(y)
    except (TypeError, ValueError):
        value = None
    if value is None or isinstance(y, str | bool):
        raise InputError(f"tell(x, y) needs one number for y, or None for a failed trial, not {y!r:.80}")
    return value if math.isfinite(value) else None


# ----------------------------------------------------------------------------------------------------------- minimize


@dataclass(frozen=True, eq=False)
class State:
    """How far an optimisation is: what a callback is given after every evaluation."""

    done: int
    total: int
    x: Any  # the last point
    value: float | None  # None: the evaluation failed
    best: Best | None
    optimizer: Optimizer
    seconds: float


def minimize(
    function: Callable[[Any], float],
    bounds: Any,
    calls: int = 200,
    kernel: str | Expression | Learner = "auto",
    random_state: int | None = None,
    callback: Callable[[State], Any] | None = None,
    checkpoint: str | Path | None = None,
    *,
    constraints: Any = None,
) -> Any:
    """Minimise an expensive function; returns scipy's OptimizeResult with x, fun, nfev, x_iters, func_vals.

    Parameters
    ----------
    function : of a 1-D array where `bounds` is a list, of a dict where it is a dict. Where it raises, or returns what
        is no finite number, the trial is marked as failed and the run goes on.
    bounds, kernel, random_state, constraints : as in `Optimizer`.
    calls : evaluations in all, the first ten at random.
    callback : called with a `State` after every evaluation; where it returns True the run ends.
    checkpoint : a file that every evaluation is written to. The same call goes on from it, and evaluates nothing twice.

    Ctrl-C ends the run and returns the best so far.
    """
    if not isinstance(calls, Integral) or isinstance(calls, bool) or calls < 1:
        raise InputError(f"calls must be a whole number of at least 1, not {calls!r}")
    optimizer = Optimizer(bounds, kernel, random_state=random_state, constraints=constraints)
    if checkpoint is not None and Path(checkpoint).exists():
        optimizer.resume(checkpoint)
    started, message = time.perf_counter(), f"{calls} evaluations"
    try:
        while len(optimizer.trials_) < calls:
            x = optimizer.ask()
            value = evaluate(function, x)
            optimizer.tell(x, value)
            if checkpoint is not None:
                optimizer.save(checkpoint)
            done = len(optimizer.trials_)
            if callback is not None:
                state = State(done, int(calls), x, value, optimizer.best_, optimizer, time.perf_counter() - started)
                if callback(state) is True:
                    message = f"ended by the callback after {done} of {calls} evaluations"
                    break
    except KeyboardInterrupt:
        message = f"interrupted after {len(optimizer.trials_)} of {calls} evaluations"
    return _conclude(optimizer, message)


def evaluate(function: Callable[[Any], float], x: Any) -> float | None:
    """Return the value of a function; None where it raises or returns what is no finite number."""
    try:
        value = float(function(x))
    except Exception as error:  # whatever a user's function does, what was learned so far must not be lost
        warnings.warn(f"the trial at {x} failed: {type(error).__name__}: {error}", FitWarning, stacklevel=3)
        return None
    return value if math.isfinite(value) else None


def _conclude(optimizer: Optimizer, message: str) -> Any:
    from scipy.optimize import OptimizeResult

    best, trials = optimizer.best_, optimizer.trials_
    return OptimizeResult(
        x=None if best is None else best.x,
        fun=math.nan if best is None else best.y,
        nfev=len(trials),
        x_iters=[x for x, _ in trials],
        func_vals=np.array([math.nan if value is None else value for _, value in trials]),
        success=best is not None,
        message=message,
        optimizer=optimizer,
    )
