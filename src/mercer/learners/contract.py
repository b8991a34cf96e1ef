"""What every learner is given and returns, so that everything after it is written once."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from mercer.compute.backend import NUMBA, Backend
from mercer.errors import InputError
from mercer.fitting.minimise import Clock, Report
from mercer.fitting.problem import Fit
from mercer.inference.bounds import Interval
from mercer.inference.contract import Data, Engine
from mercer.inference.vfe import VFE
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.kernels.parameters import Units

FADE = 1.0 / 27.0  # of the range of the data: a third of the stretch that a rolling origin forecasts
GROUP_ROWS = 16  # of rows that share a value, in a sample: enough to see what they share
GROUP_LEAST = 4  # rows that a value has on average: fewer are no group
GROUPS = 100  # values of a column: of fewer, rows drawn at random have enough in common
Policy = TypeVar("Policy")
Settings = TypeVar("Settings", bound="Learner")
Stopped = Literal["", "request", "time"]  # it came to its end; Ctrl-C; the time budget


@dataclass(frozen=True, eq=False)
class WholeData:
    """All rows, where they are too many for exact inference, and the engine for them."""

    data: Data
    engine: VFE


@dataclass(frozen=True)
class Verdict:
    """Why a candidate was left behind in a search by intervals.

    "separated": even the best end of its score is behind the `bar`, the worst end of candidate `by` at that time.
    "places": it may be better than that, but as many as there are places were certain of more.
    """

    kind: Literal["separated", "places"]
    by: int
    bar: float


@dataclass(frozen=True)
class Step:
    """How a candidate came about: the kind of step, and what it was about. `text` puts it into words."""

    kind: str  # a key of STEP_TEXTS, or one of a learner's own, with `words`
    part: Expression | None = None  # what was added, replaced, taken out ...
    other: Expression | None = None  # what took its place
    number: int = 0  # of regimes, of the start, of terms, of the subspace
    columns: tuple[int, ...] = ()  # that were left out
    rows: int | None = None  # that it was fitted to, where those are only some
    words: str = ""  # the text, where the kind alone does not say it

    def text(self, names: Sequence[str] | None = None) -> str:
        """Return the step in words, with the names of the columns where they are given."""
        part, other = (None if e is None else e.text(names=names, digits=1) for e in (self.part, self.other))
        symbol = self.part.symbol if isinstance(self.part, Base) else part
        columns = ", ".join(str(c) if names is None else names[c] for c in self.columns)
        form = self.words or STEP_TEXTS[self.kind]
        if not self.words:
            form = form.format(part=part, other=other, symbol=symbol, number=self.number, columns=columns)
        return form if self.rows is None else f"on {self.rows} rows: {form}"

    def to_plain(self) -> dict[str, Any]:
        """Return what a file holds of it."""
        return {"kind": self.kind, "number": self.number, "rows": self.rows, "words": replace(self, rows=None).text()}

    def __str__(self) -> str:
        return self.text()


STEP_TEXTS = {
    "base": "{part}",
    "every column": "every column at once: {part}",
    "each column": "each column by itself: {part}",
    "usual parts": "usual parts: {part}",
    "jump": "a jump of the level",
    "add": "+ {part}",
    "multiply": "* {part}",
    "replace": "{part} -> {other}",
    "change of parameters": "CP({part}, itself)",
    "change to": "CP(., {part})",
    "change from": "CP({part}, .)",
    "window": "CW(., {part})",
    "remove": "- {part}",
    "divide": "/ {part}",
    "share": "one {part} for two",
    "everywhere": "{part} everywhere",
    "fewer columns": "{symbol} without column {columns}",
    "calendar": "{part} as the calendar has it",
    "start": "start {number}",
    "as it is": "{part} as it is",
    "partition": "visited {number} times",
}


def read_step(data: Any) -> Step:
    """Return a step that `Step.to_plain` made; files of version 0.1 have nothing but its text."""
    if isinstance(data, dict):
        return Step(str(data["kind"]), number=int(data["number"]), rows=data["rows"], words=str(data["words"]))
    old = re.fullmatch(r"(?:on (?P<rows>\d+) rows: )?(?P<words>(?P<number>\d+) regimes?(?:, .*)?)", str(data))
    if old is None:
        return Step("other", words=str(data))
    rows = None if old["rows"] is None else int(old["rows"])
    return Step("regimes", number=int(old["number"]), rows=rows, words=old["words"])


@dataclass(frozen=True, eq=False)
class Candidate:
    """One kernel that was tried: a row of the table of candidates.

    Where there are too many rows for exact inference, `interval` holds the exact log evidence of all rows at the
    values of `expression`, by this many `inducing` points; `log_evidence` is its lower end and `score` goes with that.
    """

    expression: Expression
    depth: int
    step: Step
    parent: int | None  # number of the candidate it was grown from
    log_evidence: float
    parameters: int
    score: float  # smaller is better; infinite where there is none
    status: str
    message: str
    seconds: float
    fit: Fit | None
    interval: Interval | None = None
    inducing: int | None = None
    verdict: Verdict | None = None
    criterion: str = ""  # that the score is by, where the settings of the learner do not say it

    @property
    def full_fit(self) -> Fit:
        """The fit of a candidate that has one."""
        assert self.fit is not None
        return self.fit

    def score_at(self, log_evidence: float) -> float:
        """Return what the score would be with another log evidence (BIC, AIC)."""
        return self.score - 2.0 * (log_evidence - self.log_evidence)

    @property
    def scores(self) -> tuple[float, float]:
        """Between what the score lies, the better end first; twice the same where there is no interval."""
        if self.interval is None:
            return self.score, self.score
        return self.score_at(self.interval.upper), self.score_at(self.interval.lower)


@dataclass(frozen=True)
class Weights:
    """Weights of the members of an average: within the data, and beyond its ends along a column of time.

    The evidence judges how well a kernel fills gaps, a rolling origin how well it forecasts; each is trusted where it
    knows. A kernel whose earlier forecasts missed by more than they said has its variances beyond widened by a factor.
    Close to the ends (`share_beyond`) one turns into the other, so that a forecast begins where the data ends.
    By default the weights of a single kernel.
    """

    within: tuple[float, ...] = (1.0,)
    beyond: tuple[float, ...] = (1.0,)
    widening: tuple[float, ...] = (1.0,)
    column: int | None = None  # None: there is no beyond
    tails: float = 0.0  # of errors beyond: one over the degrees of freedom of Student's t, 0 for a Gaussian


def share_beyond(distance: Array, span: float) -> Array:
    """Return by how much a row at a distance from the end counts as beyond the data: from 0 at the end to 1."""
    return np.clip(distance / (FADE * span), 0.0, 1.0) if span > 0 else np.asarray(distance > 0, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Learned:
    """A structure with its fit (scaled units), and how it was found."""

    fit: Fit
    candidates: tuple[Candidate, ...]
    members: tuple[Fit, ...]  # to predict with: the winner first, alone or with others
    weights: Weights
    notes: tuple[str, ...] = ()
    stopped: Stopped = ""
    rows: int | None = None  # that the candidates' scores are for, where those are not all
    settled: bool = False  # the winner was chosen by something else than BIC, and stays it whatever that becomes


def learned_alone(fit: Fit) -> Learned:
    """Return what was learned where the structure was given."""
    stopped: Stopped = "request" if fit.status == "interrupted" else ""
    return Learned(fit, (), (fit,), Weights(), stopped=stopped)


def draw_some(data: Data, count: int | None, seed: Any) -> Data:
    """Return this many of the rows, drawn at random, in their order; all of them where there are no more."""
    if count is None or data.count <= count:
        return data
    return data.take(np.sort(np.random.default_rng(seed).choice(data.count, count, replace=False)))


def draw_with_neighbours(data: Data, count: int | None, seed: Any) -> Data:
    """Return this many of the rows, of which half share their value in some column with others of the sample.

    Where values of a column repeat, rows that share one may have more in common than the other columns say: a batch, a
    day, a sensor. Of few rows drawn at random hardly two share a value, and nothing of it shows. Without such a column
    all rows are drawn at random.
    """
    column = None if count is None or data.count <= count else find_repeated(data.X)
    if count is None or column is None:
        return draw_some(data, count, seed)
    rng = np.random.default_rng(seed)
    _, group = np.unique(data.X[:, column], return_inverse=True)
    shuffled = rng.permutation(data.count)
    order = shuffled[np.argsort(group[shuffled], kind="stable")]  # within each group in any order
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    place = np.arange(data.count) - np.repeat(starts, np.diff(np.append(starts, data.count)))  # of a row in its group
    turn = rng.permutation(len(starts))[group[order]]
    first = order[np.argsort(np.where(place < GROUP_ROWS, turn, len(starts)), kind="stable")][: count // 2]
    others = np.setdiff1d(np.arange(data.count), first)
    return data.take(np.sort(np.concatenate([first, rng.choice(others, count - len(first), replace=False)])))


def find_repeated(X: Array) -> int | None:
    """Return the column of many values, each of several rows; of several columns the one with most values."""
    counts = [len(np.unique(X[:, column])) for column in range(X.shape[1])]
    found = [column for column, count in enumerate(counts) if GROUPS <= count <= len(X) / GROUP_LEAST]
    return max(found, key=lambda column: counts[column], default=None)


def read_jobs(jobs: Any) -> int | None:
    """Return a number of jobs as joblib counts them, refusing what is none."""
    if jobs is None or (isinstance(jobs, Integral) and not isinstance(jobs, bool) and jobs != 0):
        return None if jobs is None else int(jobs)
    raise InputError(f"n_jobs must be None or 1 (one at a time), more, or -1 (all cores), not {jobs!r}")


def find_policy(policies: tuple[Any, ...], kind: type[Policy]) -> Policy:
    """Return the policy of a kind: the one that was given, or its defaults."""
    return next((given for given in policies if isinstance(given, kind)), kind())


@dataclass(frozen=True, eq=False)
class Context:
    """What a learner is given: scaled data, the engine, and how to work."""

    data: Data  # the rows to learn from
    engine: Engine
    columns: list[int]  # those that vary
    seed: int = 0
    jobs: int | None = None  # fits at the same time; the result does not depend on it
    report: Report | None = None  # called with a `Progress` after every candidate
    backend: Backend = NUMBA
    noise: float | None = None  # a known noise variance (scaled units), for learners that keep one
    whole: WholeData | None = None  # all rows, where `data` are a sample of them and the learner asks for intervals
    kept_share: float = 0.0  # of a time budget, for fits to all rows that come after
    kept_seconds: float = 0.0  # of a time budget, for what the caller does after: words, pictures, files
    most_kept: float = 0.6  # share of a time budget that is kept at most
    policies: tuple[Any, ...] = ()  # values in place of the defaults, such as RacePolicy(sample=100)
    # columns that hold codes of categories, each with how many there are: CAT and ECAT alone act on them
    categories: Mapping[int, int] = field(default_factory=dict)
    # periods (scaled units) that are known beforehand along a column, those of a calendar: they are no numbers to find
    rhythms: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    def policy(self, kind: type[Policy]) -> Policy:
        """Return the policy of a kind: the one that was given, or its defaults."""
        return find_policy(self.policies, kind)

    def start_clock(self, budget: float | None, share: float) -> Clock:
        """Return a clock that keeps, of a time budget, this share and what the caller needs afterwards."""
        whole = budget or 0.0
        kept = self.kept_seconds + (share + self.kept_share) * whole
        return Clock(budget, reserve=min(kept, self.most_kept * whole))

    def count_jobs(self, own: int | None = None) -> int:
        """Return how many fits run at the same time: as the learner's own setting says, or the estimator's."""
        return read_jobs(own if own is not None else self.jobs) or 1


@dataclass(frozen=True)
class DataFacts:
    """What a table is like, as far as the choice of a learner goes by it."""

    rows: int
    columns: int  # that vary
    categories: int = 0  # of these, columns of categories
    dates: int = 0  # of these, columns of dates
    distinct: int = 0  # different values of the column that has most of them
    grid: tuple[int, ...] = ()  # the shape of the grid that the rows form; empty: they form none
    in_parts: bool = False  # the rows are not in memory
    classes: int = 0  # of the target, where it is one


@dataclass(frozen=True, eq=False)
class Plan:
    """What was chosen to learn from a table, why, and how many seconds it may take."""

    kernel: Expression | Learner
    learner: str  # its name, as `kernel` takes it
    reason: str  # the kind of the rule that it was chosen by
    seconds: float | None  # None: as many as it takes
    facts: DataFacts


class Learner(ABC):
    """Finds a kernel for scaled data: a frozen dataclass of settings. Attributes say what else a learner can do."""

    # rows that it can learn from; of more it is given a sample, and what it found is fitted to all of them
    most_rows: ClassVar[int | None] = None
    keeps_noise: ClassVar[bool] = False  # it honours a known noise (`Context.noise`)
    makes_batches: ClassVar[bool] = False  # it gives a backend that runs batches (a GPU) what it tries
    # it puts CAT on columns of codes (`Context.categories`); otherwise it is given 0/1 columns, one for each category
    takes_categories: ClassVar[bool] = False
    # of the settings that hold a policy, each with its kind: None, or one of that
    policy_kinds: ClassVar[tuple[tuple[str, type], ...]] = ()
    # what its paper calls some of the settings, each with the name here
    letters: ClassVar[tuple[tuple[str, str], ...]] = ()

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """Return the learner whose settings `describe` gave."""
        given = dict(settings)
        for name, kind in cls.policy_kinds:
            if isinstance(plain := given.get(name), Mapping):
                given[name] = kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in plain.items()})
        return cls(**given)

    @abstractmethod
    def learn(self, context: Context) -> Learned:
        """Return the structure found and its fit; the same whatever the number of jobs, and to rounding the device."""

    def check(self) -> None:  # noqa: B027  # a learner may have nothing to refuse
        """Refuse settings that mean nothing: before anything is fitted, and when a file is read."""

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        held = {name for name, _ in self.policy_kinds}
        kept = {name: value for name, value in vars(self).items() if name not in held or value is not None}
        return {name: asdict(value) if name in held else value for name, value in kept.items()}

    @property
    def by_intervals(self) -> bool:
        """Whether it can judge what it tries by intervals on all rows (`Context.whole`), however many there are."""
        return False

    @property
    def seconds_allowed(self) -> float | None:
        """The time budget, where there is one."""
        return None

    def choose(self, facts: DataFacts, policies: tuple[Any, ...] = ()) -> Plan | None:
        """Return which learner is to learn from such data, where this one chooses among others; None: it learns."""
        return None

    def scale_kernels(
        self, columns: list[int], names: list[str], units: Units, categories: Collection[int] = ()
    ) -> Learner:
        """Return the learner with the kernels in its settings on column numbers, in scaled units."""
        return self

    def foresee(self, columns: list[int], dimensions: int) -> Expression | None:
        """Return the structure that will be fitted where that is known beforehand."""
        return None

    # What a setting must be, for `learn` to check before anything is fitted.

    def check_choices(self, **choices: Sequence[Any]) -> None:
        """Refuse settings that are none of those known."""
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise InputError(f"{name} must be {' or '.join(map(repr, known))}, not {getattr(self, name)!r}")

    def check_counts(self, optional: Sequence[str] = (), **least: int) -> None:
        """Refuse settings that are no whole numbers, or too small; the optional ones may be None."""
        for name, low in least.items():
            value = getattr(self, name)
            if value is None and name in optional:
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
                raise InputError(f"{name} must be a whole number of at least {low}, not {value!r}")

    def check_policies(self) -> None:
        """Refuse policies of another kind, and those with values of another kind than their defaults."""
        for name, kind in self.policy_kinds:
            policy = getattr(self, name)
            if policy is None:
                continue
            if not isinstance(policy, kind):
                raise InputError(f"{name} must be None or a {kind.__name__}, not {policy!r:.80}")
            for own, usual in vars(kind()).items():
                value = getattr(policy, own)
                wanted: Any = Real if isinstance(usual, Real) and not isinstance(usual, bool) else type(usual)
                if not isinstance(value, wanted) and not (value is None and wanted is Real):
                    raise InputError(f"{own} of {kind.__name__} must be like {usual!r}, not {value!r:.80}")

    def check_flags(self, *names: str) -> None:
        """Refuse settings that are neither True nor False."""
        for name in names:
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, not {getattr(self, name)!r}")


def change_settings(settings: Settings, changes: Mapping[str, Any], *others: str) -> Settings:
    """Return the settings of a paper with changes; a name that is none of theirs, nor of `others`, is refused."""
    known, unknown = vars(settings), [name for name in changes if name not in vars(settings)]
    if unknown:
        letters = settings.letters if any(letter in unknown for letter, _ in settings.letters) else ()
        called = ", ".join(f"{letter} is {name}" for letter, name in letters)
        raise InputError(
            f"{type(settings).__name__}.paper() has no setting {' or '.join(map(repr, unknown))}. "
            + (f"Of the paper's letters {called}. " if called else "")
            + f"What can be changed: {', '.join((*others, *known))}"
        )
    return type(settings)(**{**known, **changes})


def read_time_budget(budget: Any) -> float | None:
    """Return a number of seconds, or None for no limit, refusing what is neither."""
    if budget is None or (isinstance(budget, Real) and float(budget) > 0):
        return None if budget is None else float(budget)
    raise InputError(f"time_budget must be a number of seconds greater than zero, not {budget!r}")
