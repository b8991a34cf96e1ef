"""`Optimizer` (ask, tell) and `minimize`: Bayesian optimisation with a kernel that is learned (METHODS 10)."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd

from mercer.errors import FitWarning, InputError, MercerError
from mercer.explain.wording import write_count
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import bind
from mercer.kernels.text import parse
from mercer.learners.contract import Learner
from mercer.learners.grammar import GrammarSearch
from mercer.learners.nkn import NeuralKernelNetwork
from mercer.learners.partition import Groups
from mercer.model.archive import kernel_to_plain
from mercer.optimise.acquisition import Improvement, find_acquisition
from mercer.optimise.doubt import DoubtPolicy, fill_valley, is_spent, least_gain, promises_nothing
from mercer.optimise.explanation import Origin, Study, StudyExplanation, explain_study
from mercer.optimise.gain import expect_gain
from mercer.optimise.lock import hold
from mercer.optimise.models import Belief, LearnedModel, StructureModel, Target, UpdatePolicy
from mercer.optimise.proposal import AcquisitionPolicy, Proposal, ProposalTask
from mercer.optimise.space import SAME, Space, find_best, is_new, read_point, read_points, read_space
from mercer.optimise.study_file import SavedStudy, read_study, write_study
from mercer.optimise.surrogate import FunctionModel, extend
from mercer.optimise.trials import Best, Pending, Suggestion, Trial

FIRST_TRIALS = 10  # at random, before anything is learned
FEWEST = 3  # trials with a value that a model needs
TEACHES = 0.25  # of a variance must stay when trials at the same time are known, or one of them teaches too little
ELSEWHERE = 500  # rows among which one is looked for that teaches more, or is new
MOST_STEPS = 100  # of a search for structure: about one for each input is usual
NOISY = 1e-4  # of the variance of the values: from here on the best trial is that with the best posterior mean ...
HALF_WITHIN = 0.5  # ... unless half of the values lie this near, in its deviations: noise would scatter them by 1.25


@dataclass(frozen=True, eq=False)
class KnownTrials:
    """The trials that have a value, and the model that was learned from them; what is asked for twice is kept."""

    model: Belief
    space: Space
    X: Array
    y: Array
    doubt: DoubtPolicy = field(default_factory=DoubtPolicy)

    @cached_property
    def surrogate(self) -> FunctionModel:
        """The most probable one."""
        return self.model.draw(self.X, self.y, None)

    @cached_property
    def means(self) -> Array:
        """What it expects at the trials, on its own scale."""
        return self.surrogate.predict(self.X).mean

    @cached_property
    def noisy(self) -> bool:
        """Whether values differ from the function by noise.

        A few huge values, as of penalties, pass for noise too. But values with normal noise of deviation s have no
        density above 0.4 / s, and half of them fill at least 1.25 s: those from the least to the median show it.
        """
        noise, values = self.surrogate.likelihood.noise, self.surrogate.data.y
        near = float(np.median(values) - values.min())
        return noise > NOISY and near > HALF_WITHIN * math.sqrt(noise)

    @cached_property
    def best(self) -> int:
        """The number of the best trial that is allowed: of a noisy function that with the best posterior mean."""
        return find_best(self.space, self.X, self.means if self.noisy else self.y)

    @cached_property
    def values(self) -> Array:
        """What the function is at the trials, as far as is known."""
        return self.model.target.backward(self.means) if self.noisy else self.y

    @property
    def best_value(self) -> float:
        """The same at the best one."""
        return float(self.values[self.best])

    @cached_property
    def gain(self) -> float:
        """How much the next trials are expected to gain."""
        return expect_gain(self.model, self.space, self.X, self.y, np.random.default_rng(0), self.noisy)

    @cached_property
    def elsewhere(self) -> KnownTrials | None:
        """The same trials by a joint kernel, the valley of the best one being filled; None where there is no other."""
        filled = fill_valley(self.model, self.X, self.values, self.doubt)
        joint = None if filled is None else self.model.join(self.X, filled)
        return None if filled is None or joint is None else replace(self, model=joint, y=filled)

    def expects_nothing(self, task: ProposalTask, proposal: Proposal) -> bool:
        """Tell whether the last trials gained nothing that counts, and a proposal promises no more."""
        if not is_spent(self.values, len(self.space.columns), self.doubt):
            return False
        return promises_nothing(task, proposal, self.model.target, least_gain(self.values, self.doubt))

    def draw(self, rng: np.random.Generator) -> FunctionModel:
        """Return a surrogate drawn by its probability."""
        drawn, first = self.model.draw(self.X, self.y, rng), self.surrogate
        same = drawn.expression == first.expression and drawn.likelihood == first.likelihood
        return first if same else drawn


class Optimizer:
    """Minimises (or maximises) an expensive function by asking for points and taking their values.

    Parameters
    ----------
    bounds : a list of pairs (low, high), one for each input: points are 1-D arrays. Or a dict of names to (low, high),
        `mercer.Integer(low, high)`, `mercer.Log(low, high)` or a list of categories: points are dicts.
    kernel : "auto" averages over which inputs act together, from each alone to all jointly; "nkn", "search", a learner,
        or any kernel on the encoded inputs (columns 0, 1, ... in [0, 1]; a category has one column for each choice).
    minimize : False to maximise.
    random_state : seed.
    constraints : scipy.optimize.LinearConstraint, or several of them, on the inputs.
    acquisition : how the next point is chosen. "bound": the least of what is expected less some of its spread;
        "thompson": the minimum of a function drawn from what is believed, both group by group where the function is a
        sum over groups of at most three inputs; "improvement": the largest expected improvement, over all inputs.
        "auto": "bound" where it goes group by group and finds something new, "improvement" otherwise.

    `ask()` gives the next point, `tell(x, y)` takes a value; y None, NaN, infinite or a text marks a trial as failed.
    Values may come in any order, also of points that were never asked for.
    """

    def __init__(
        self,
        bounds: Any,
        kernel: str | Expression | Learner = "auto",
        minimize: bool = True,
        random_state: int | None = None,
        constraints: Any = None,
        acquisition: str = "auto",
    ) -> None:
        self.space: Space = bounds if isinstance(bounds, Space) else read_space(bounds, constraints)
        if not isinstance(minimize, bool | np.bool_):
            raise InputError(f"minimize must be True, or False to maximise, not {minimize!r:.80}")
        self.kernel, self.minimize = kernel, bool(minimize)
        self.random_state = random_state
        self.acquisition = acquisition
        self._acquisition, self._policy = find_acquisition(acquisition), AcquisitionPolicy()
        try:
            self._rng = np.random.default_rng(random_state)
        except (TypeError, ValueError):
            raise InputError(f"random_state must be a whole number from 0, or None, not {random_state!r:.80}") from None
        self._seed = int(self._rng.integers(2**31))
        self._model, self._origin = self._first_model(kernel)
        self._learned = False  # whether the model has seen trials
        self._known: KnownTrials | None = None  # None: the model has not seen all trials
        self._trials: list[Trial] = []
        self._pending: list[Pending] = []

    def _first_model(self, kernel: str | Expression | Learner) -> tuple[Belief, Origin]:
        inputs = self.space.columns
        if isinstance(kernel, str) and kernel == "auto":
            return StructureModel(inputs), "averaged"
        if isinstance(kernel, str) and kernel == "nkn":
            primitives = [f"SE({c})" for c in range(self.space.width)]
            kernel = NeuralKernelNetwork(primitives=primitives, restarts=2, selection="evidence", average=False)
        elif isinstance(kernel, str) and kernel == "search":
            kernel = GrammarSearch(bases=("SE", "LIN", "M52"), max_depth=3)
        elif isinstance(kernel, str):
            kernel = parse(kernel)
        if isinstance(kernel, Expression):
            return LearnedModel(inputs, bind(kernel, self.space.width, self.space.column_names), self._seed), "given"
        if not isinstance(kernel, Learner):
            raise InputError(f"kernel must be 'auto', 'nkn', 'search', a kernel or a learner, not {kernel!r:.80}")
        return LearnedModel(inputs, kernel, self._seed), "learned"

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
        first = len(self._trials) + len(self._pending) < FIRST_TRIALS or len(finished) < FEWEST
        if first or len(values) < 2:
            row = self._draw_new()
            equal = len(values) == 1 and len(finished) >= FIRST_TRIALS
            suggestion = Suggestion(
                self.space.decode(row), None, None, "first", "all values are equal" if equal else "one of the first"
            )
        else:
            row, suggestion = self._propose()
        self._pending.append(Pending(row, suggestion))
        return copy(suggestion.x)

    def _draw_new(self) -> Array:
        """Return a random row; one that has not been tried where there is one."""
        drawn = self.space.sample(1, self._rng)
        old = np.array([trial.row for trial in self._trials] + [pending.row for pending in self._pending])
        if len(old) and not is_new(old, drawn)[0]:
            listed = self.space.list_rows()
            more = self.space.sample(ELSEWHERE, self._rng) if listed is None else self._rng.permutation(listed)
            drawn = np.concatenate([more[is_new(old, more)], drawn])
        return np.asarray(drawn[0])

    def _propose(self) -> tuple[Array, Suggestion]:
        """Update the model, then propose: pending trials count as if they had their expected value.

        A failed one counts as no better than half of the others: it is avoided, and spoils nothing that is learned.
        Of trials at the same time each must teach something that the others do not.
        """
        state = self._learn()
        known = state.draw(self._rng)
        task = self._pose(state, known)
        proposal = self._acquisition.propose(task)
        turn = (len(self._trials) + len(self._pending)) % state.doubt.every == 0
        doubted = turn and self._acquisition.doubts and state.expects_nothing(task, proposal)
        target = state.model.target
        if doubted and state.elsewhere is not None:
            known, target = state.elsewhere.surrogate, state.elsewhere.model.target
            proposal = Improvement("the structure is doubted").propose(self._pose(state.elsewhere, known))
        waiting = np.array([pending.row for pending in self._pending])
        if len(waiting) and known.keep_variance(proposal.row[None], waiting)[0] < TEACHES:
            proposal = self._look_elsewhere(proposal, known, waiting)
        return proposal.row, self._describe(proposal, known, target, state.best_value)

    def _pose(self, state: KnownTrials, known: FunctionModel) -> ProposalTask:
        """Return what a proposal is made for, by one surrogate."""
        surrogate = known
        best = find_best(self.space, state.X, known.predict(state.X).mean) if state.noisy else state.best
        value = float(known.predict(state.X[best : best + 1]).mean[0])
        waiting = np.array([pending.row for pending in self._pending])
        failed = np.array([trial.row for trial in self._trials if trial.value is None])
        if len(failed):
            middle = float(np.median(known.data.y))
            surrogate = extend(surrogate, failed, np.maximum(known.predict(failed).mean, middle))
        if len(waiting):
            surrogate = extend(surrogate, waiting, surrogate.predict(waiting).mean)
        return ProposalTask(surrogate, self.space, state.X[best], value, self._rng, self._policy)

    def _look_elsewhere(self, proposal: Proposal, known: FunctionModel, waiting: Array) -> Proposal:
        """Return, of rows near and far that teach something beside the waiting ones, that with the least bound.

        Once nearly all is known only hopeless places teach anything: then a row will do that merely differs.
        """
        widths = 10.0 ** self._rng.uniform(-2.0, -0.5, size=(ELSEWHERE, 1))
        steps = self.space.legalise(proposal.row + widths * self._rng.standard_normal((ELSEWHERE, self.space.width)))
        rows = np.concatenate([self.space.sample(ELSEWHERE, self._rng), steps])
        rows = rows[is_new(np.array([trial.row for trial in self._trials]), rows)]
        if not len(rows):
            return proposal
        left, found = known.keep_variance(rows, waiting), known.predict(rows)
        least = found.mean - 2.0 * np.sqrt(found.variance * left)
        bounds = np.where(left < TEACHES, np.inf, least)
        if bounds.min() > known.predict(known.data.X).mean.min():
            apart = np.array([np.abs(waiting - row).max(axis=1).min() > self._policy.near for row in rows])
            bounds = np.where(apart, least, np.inf)
        place = int(np.argmin(bounds))
        if not math.isfinite(bounds[place]):
            return proposal
        return Proposal(rows[place], "random", float(found.mean[place]), math.sqrt(found.variance[place]))

    def _learn(self) -> KnownTrials:
        """Bring the model up to date."""
        if self._known is None:
            X, y = self._rows_and_values()
            before = len(y) - UpdatePolicy().window
            if not self._learned and before >= FIRST_TRIALS and len(set(y[:before])) > 1:
                # A study that goes on: which scale predicts the last trials better, from those before?
                self._model = self._model.update(X[:before], y[:before], self._rng)
            self._model, self._learned = self._model.update(X, y, self._rng), True
            self._known = KnownTrials(self._model, self.space, X, y)
        return self._known

    def finish_search(self) -> None:
        """Look for structure to the end, for callers who ask once: of many trials the first `ask` has a guess."""
        if not self._can_model():
            return
        state, steps = self._learn(), 0
        while self._model.searching and steps < MOST_STEPS:
            self._model, steps = self._model.update(state.X, state.y, self._rng), steps + 1
        if steps:  # the values of what was found were fitted to few trials
            self._model = self._model.update(state.X, state.y, self._rng)
            self._known = replace(state, model=self._model)

    def _describe(self, proposal: Proposal, known: FunctionModel, target: Target, best: float) -> Suggestion:
        """Say what is expected of a proposal by the trials that have a value."""
        found = known.predict(proposal.row[None])
        middle, spread = float(found.mean[0]), math.sqrt(max(0.0, float(found.variance[0])))
        low, mean, high = target.backward(middle + spread * np.array([-1.0, 0.0, 1.0])).tolist()
        return Suggestion(
            self.space.decode(proposal.row),
            self._sign * mean,
            (high - low) / 2.0,
            "improve" if mean < best else "explore",
            proposal.method,
            proposal.why,
        )

    def tell(self, x: Any, y: Any) -> None:
        """Take the value of a point, or values of several points (a list of points and a list of values)."""
        if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if isinstance(y, list | tuple | np.ndarray | pd.Series) and getattr(y, "ndim", 1) == 1:
            points = read_points(self.space, x, len(y))
            trials = [self._read_trial(point, value) for point, value in zip(points, y, strict=True)]
        else:
            trials = [self._read_trial(x, y)]
        if any(trial.value is not None for trial in trials):
            self._known = None
        for trial in trials:
            self._trials.append(trial)
            self._pending = [each for each in self._pending if np.abs(each.row - trial.row).max() > SAME]

    def wait_for(self, x: Any) -> None:
        """Take a point that is being tried, asked for or not: it counts as pending until its value comes."""
        row, _ = read_point(self.space, x)
        if all(np.abs(each.row - row).max() > SAME for each in self._pending):
            suggestion = Suggestion(self.space.decode(row), None, None, "waiting", "chosen elsewhere")
            self._pending.append(Pending(row, suggestion))

    def forget_pending(self) -> None:
        """Drop all suggestions without a value: nobody is going to try them."""
        self._pending = []

    def _read_trial(self, x: Any, y: Any) -> Trial:
        row, notes = read_point(self.space, x)
        value = read_value(y)
        if value is None and isinstance(y, str | bytes):
            notes = [*notes, f"its value, {y!r:.40}, is no number; the trial counts as failed"]
        return Trial(row, None if value is None else self._sign * value, "; ".join(notes))

    # ----------------------------------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write the study, all its trials, to a file that `mercer.load` reads."""
        write_study(
            SavedStudy(
                self.space, self.kernel, self.minimize, self.random_state, tuple(self._trials), tuple(self._pending),
                dict(self._rng.bit_generator.state), self._model.to_plain() if self._learned else None,
                self._known is not None, self.acquisition,
            ),
            path,
        )  # fmt: skip

    def resume(self, path: str | Path) -> None:
        """Take over the trials of a file that was saved with the same space; refuse those of another."""
        saved = read_study(path)
        if saved.space != self.space:
            raise InputError(
                f"'{path}' holds a study of another space: {saved.space.find_difference(self.space)} "
                "Give the bounds that it was saved with, or another file for this one."
            )
        if saved.minimize != self.minimize:
            goal = "minimises" if saved.minimize else "maximises"
            raise InputError(f"'{path}' holds a study that {goal}. Go on in the same direction, or give another file.")
        self.take_over(saved)

    def take_over(self, saved: SavedStudy) -> None:
        """Replace all trials, pending suggestions and the state of the random numbers by those of a saved study.

        What it had learned goes on too, where its kernel is the same; where it cannot be read, it is learned again.
        """
        self._trials, self._pending = list(saved.trials), list(saved.pending)
        self._rng.bit_generator.state = saved.generator
        (self._model, _), self._learned, self._known = self._first_model(self.kernel), False, None
        if saved.belief is None or kernel_to_plain(saved.kernel) != kernel_to_plain(self.kernel):
            return
        with suppress(MercerError, KeyError, TypeError, ValueError):
            self._model, self._learned = self._model.take_up(saved.belief), True
        if self._learned and saved.current:
            self._known = KnownTrials(self._model, self.space, *self._rows_and_values())

    # --------------------------------------------------------------------------------------------------- what is known

    @property
    def _sign(self) -> float:
        return 1.0 if self.minimize else -1.0

    def _rows_and_values(self) -> tuple[Array, Array]:
        """Return rows and values (to be minimised) of all trials that did not fail."""
        known = [trial for trial in self._trials if trial.value is not None]
        return np.array([trial.row for trial in known]), np.array([trial.value for trial in known])

    @property
    def trials_(self) -> list[tuple[Any, float | None]]:
        """All trials in the order in which they arrived: (point, value), None where it failed."""
        return [
            (self.space.decode(trial.row), None if trial.value is None else self._sign * trial.value)
            for trial in self._trials
        ]

    @property
    def best_(self) -> Best | None:
        """The best trial within the bounds and constraints; None before any has a value.

        Of a noisy function it is that with the best posterior mean.
        """
        return self.find_best(self._can_model())  # it must not depend on whether somebody asked before

    def find_best(self, by_model: bool) -> Best | None:
        """Return the best trial; without the model that with the best value, which needs no fit."""
        known = [number for number, trial in enumerate(self._trials) if trial.value is not None]
        if not known:
            return None
        X, y = self._rows_and_values()
        place, mean, noisy = find_best(self.space, X, y), None, False
        lowest = place
        if by_model:
            state = self._learn()
            place, noisy = state.best, state.noisy
            mean = self._sign * float(state.model.target.backward(state.means[place]))
        better = self._sign * float(y[lowest]) if y[lowest] < y[place] else None
        allowed = bool(self.space.allows(X[place])[0])
        x, value = self.space.decode(X[place]), self._sign * float(y[place])
        return Best(x, value, mean, known[place], noisy, better, allowed)

    @property
    def partitions_(self) -> list[tuple[Groups, float]]:
        """Which inputs act together: partitions of the inputs' numbers with probabilities, most probable first."""
        return self._model.partitions

    @property
    def expected_gain_(self) -> float | None:
        """By how much the best value is expected to improve in the next 100 trials; None before there is a model."""
        return self._learn().gain if self._can_model() else None

    @property
    def suggestions_(self) -> list[Suggestion]:
        """The points that were asked for and have no value yet, with what is expected of each and why it was chosen."""
        return [pending.suggestion for pending in self._pending]

    def _can_model(self) -> bool:
        values = [trial.value for trial in self._trials if trial.value is not None]
        return len(values) >= FEWEST and len(set(values)) > 1 and len(self._trials) >= FIRST_TRIALS

    def _look(self, target: str) -> Study:
        """Bring the model up to date, and return all that there is to explain."""
        gain, best, ready = self.expected_gain_, self.best_, self._can_model()
        if gain is not None:  # no less than what is said of the suggestions
            value = self._learn().best_value
            promised = [value - self._sign * each.mean for each in self.suggestions_ if each.mean is not None]
            gain = max(gain, *promised, 0.0)
        known = any(trial.value is not None for trial in self._trials)
        rows, values = self._rows_and_values() if known else (np.empty((0, self.space.width)), np.empty(0))
        return Study(
            self.space, self.minimize, tuple(self._trials), rows, values, best, gain,
            self._model if ready else None, self._origin, tuple(self.suggestions_), FIRST_TRIALS, self.random_state,
            target, self.acquisition,
        )  # fmt: skip

    def explain(self, target: str = "value") -> StudyExplanation:
        """Return what was found, as facts: the best, which inputs act together, what is left to gain, what comes next.

        `print(optimizer.explain())` says it in words; `target` is what they call the value.
        """
        return explain_study(self._look(target))

    def report(self, path: str | Path, target: str = "value", command: str | None = None) -> None:
        """Write what was found to one HTML page with pictures, which needs nothing else.

        `command` is what to run to go on, where that is not Python.
        """
        from mercer.optimise.page import write_study_report  # Matplotlib and Jinja take a moment to import

        write_study_report(self._look(target), path, command=command)


def load_study(path: str | Path) -> Optimizer:
    """Return the optimiser that `Optimizer.save` wrote."""
    saved = read_study(path)
    optimizer = Optimizer(saved.space, saved.kernel, saved.minimize, saved.random_state, acquisition=saved.acquisition)
    optimizer.take_over(saved)
    return optimizer


def read_value(y: Any) -> float | None:
    """Return a value of the function; None for one that marks a failed trial: missing, infinite, or a text."""
    if isinstance(y, np.ndarray) and y.size == 1:
        y = y.item()  # what functions of arrays return
    if y is None or y is pd.NA or y is pd.NaT or isinstance(y, str | bytes):
        return None
    try:
        value = None if isinstance(y, bool | np.bool_) else float(y)
    except OverflowError:
        return None
    except (TypeError, ValueError):
        value = None
    if value is None:
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


class Settings(TypedDict, total=False):
    """Settings of an `Optimizer` that `minimize` hands on."""

    constraints: Any
    acquisition: str


def minimize(
    function: Callable[[Any], float],
    bounds: Any,
    calls: int = 200,
    kernel: str | Expression | Learner = "auto",
    random_state: int | None = None,
    callback: Callable[[State], Any] | None = None,
    checkpoint: str | Path | None = None,
    **settings: Unpack[Settings],
) -> Any:
    """Minimise an expensive function; returns scipy's OptimizeResult with x, fun, nfev, x_iters, func_vals.

    Parameters
    ----------
    function : of a 1-D array where `bounds` is a list, of a dict where it is a dict. Where it raises, or returns what
        is no finite number, the trial is marked as failed and the run goes on.
    bounds, kernel, random_state : as in `Optimizer`; so are `constraints` and `acquisition`, by their names.
    calls : evaluations in all, the first ten at random.
    callback : called with a `State` after every evaluation; where it returns True, or raises StopIteration, the run
        ends.
        `mercer.optimise.print_progress` prints the best so far and the expected further gain every ten evaluations.
    checkpoint : a file that every evaluation is written to. The same call goes on from it, and evaluates nothing twice.

    Ctrl-C ends the run and returns the best so far.
    """
    if not isinstance(calls, Integral) or isinstance(calls, bool) or calls < 1:
        raise InputError(f"calls must be a whole number of at least 1, not {calls!r}")
    if not callable(function):
        raise InputError(f"function must be something that can be called with a point, not {function!r:.80}")
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be something that can be called with a State, not {callback!r:.80}")
    if checkpoint is not None and not isinstance(checkpoint, str | PathLike):
        raise InputError(f"checkpoint must be the path of a file, not {checkpoint!r:.80}")
    optimizer = Optimizer(bounds, kernel, random_state=random_state, **settings)
    with nullcontext() if checkpoint is None else hold(checkpoint):
        if checkpoint is not None:
            if Path(checkpoint).expanduser().exists():
                optimizer.resume(checkpoint)
            optimizer.save(checkpoint)  # a place that cannot be written must not cost an evaluation
        return _conclude(optimizer, _run(optimizer, function, int(calls), callback, checkpoint))


def _run(
    optimizer: Optimizer,
    function: Callable[[Any], float],
    calls: int,
    callback: Callable[[State], Any] | None,
    checkpoint: str | Path | None,
) -> str:
    """Evaluate until there are as many trials; return why it ended."""
    started, done = time.perf_counter(), len(optimizer.trials_)
    try:
        while done < calls:
            x = optimizer.ask()
            value = evaluate(function, copy(x))  # the function may change what it is given
            optimizer.tell(x, value)
            done += 1
            if checkpoint is not None:
                _keep(optimizer, checkpoint)
            if callback is not None:
                state = State(done, calls, x, value, optimizer.best_, optimizer, time.perf_counter() - started)
                if _wants_to_stop(callback, state):
                    return f"ended by the callback after {done} of {calls} evaluations"
    except KeyboardInterrupt:
        return f"interrupted after {done} of {calls} evaluations"
    return write_count(done, "evaluation")


def _keep(optimizer: Optimizer, checkpoint: str | Path) -> None:
    """Write the study down; where that is no longer possible the run goes on, with a warning."""
    try:
        optimizer.save(checkpoint)
    except InputError as error:
        warnings.warn(f"{error}; the run goes on, and its checkpoint is that of before", FitWarning, stacklevel=3)


def _wants_to_stop(callback: Callable[[State], Any], state: State) -> bool:
    """Call a callback: it stops by returning True, or by StopIteration, as in SciPy."""
    try:
        return callback(state) is True
    except StopIteration:
        return True


def evaluate(function: Callable[[Any], float], x: Any) -> float | None:
    """Return the value of a function; None where it raises or returns what is no finite number."""
    value, why = None, ""
    try:
        given = function(x)
        value = read_value(float(given) if isinstance(given, bool | np.bool_) else given)
        if given is None or isinstance(given, str | bytes):
            why = f"the function returned {given!r:.80}, which is no number"
    except InputError:
        why = f"the function returned {given!r:.80}, which is not one number"
    except Exception as error:  # whatever a user's function does, what was learned so far must not be lost
        why = f"{type(error).__name__}: {error}"
    if why:
        warnings.warn(f"the trial at {x} failed: {why}", FitWarning, stacklevel=4)
    return value


def _conclude(optimizer: Optimizer, message: str) -> Any:
    from scipy.optimize import OptimizeResult

    try:
        best = optimizer.best_
    except KeyboardInterrupt:  # once more, while a model is fitted: the lowest value needs none
        best = optimizer.find_best(by_model=False)
    trials = optimizer.trials_
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
