"""`AutoKernel` (`kernel="auto"`): which learner for which data, why, and how many seconds it may take.

The rules are tried in their order, and the first that holds decides. What was chosen is a `Plan`: data, whose words are
in `explain/words.py`. The numbers were measured by `benchmarks/auto.py` (benchmarks/results/auto.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer.kernels.expression import Expression
from mercer.learners.contract import (
    Context,
    DataFacts,
    Learned,
    Learner,
    Plan,
    find_policy,
    read_time_budget,
)
from mercer.learners.grammar import GrammarSearch
from mercer.learners.kfo import KernelFunctional
from mercer.learners.nkn import NeuralKernelNetwork


@dataclass(frozen=True)
class AutoPolicy:
    """When to choose which learner, and how long it may take, where the user leaves both to Mercer."""

    # A search on 600 rows of one column has found the structure after 60 s (error 0.023; after 20 s 0.037), and longer
    # nobody waits who has not asked for it.
    seconds: float = 120.0
    # From this many rows on the last posterior of a network (50 s at 9,568 rows of four columns, two cores) and its
    # words (40 to 55 s) would take most of that.
    many_rows: int = 5000
    many_rows_seconds: float = 300.0
    # Rows of several columns from which on a network of kernels is nearer: at 2,500 rows of four columns its error is
    # 0.018 after 15 s, that of a search 0.031, which gets no further than one kernel on all columns.
    network_rows: int = 1500
    # (With 600 rows a search has overtaken it after 100 s: 0.028 against 0.031.) With more columns a search is nearer,
    # because it leaves columns out: at 600 rows of ten, five of them idle, 0.030 after 10 s, a network 0.037.
    network_columns: int = 8
    network_most_rows: int = 10_000  # above, the last posterior of a network, of thousands of points, takes too long
    network_seconds: float = 60.0  # with less it may do so on few rows: 17.5 s of 15 at 2,500 rows
    # Of the seconds; the rest is for its words and pictures: 29 s at 2,500 rows, on a busy machine.
    network_share: float = 0.6
    parallel_seconds: float = 60.0  # with less, all in this process: workers start in seconds, on a busy machine in 20


class Rule(NamedTuple):
    """A reason (the words for it are in `explain/words.py`), when it holds, and what is chosen then."""

    reason: str
    learner: str
    holds: Callable[[DataFacts, float | None, AutoPolicy], bool]  # by the seconds too; None: no limit
    build: Callable[[float | None, int | None, AutoPolicy], Expression | Learner]  # of its seconds and jobs


def build_search(seconds: float | None, jobs: int | None, _: AutoPolicy) -> Learner:
    """Return a search for a structure that may take so long."""
    return GrammarSearch(time_budget=seconds, n_jobs=jobs)


def build_network(seconds: float | None, jobs: int | None, policy: AutoPolicy) -> Learner:
    """Return a network of kernels that is trained for a share of that time."""
    return NeuralKernelNetwork(time_budget=None if seconds is None else policy.network_share * seconds, n_jobs=jobs)


def build_functional(seconds: float | None, jobs: int | None, _: AutoPolicy) -> Learner:
    """Return a search for a kernel without a formula that may take so long; it makes one after the other."""
    return KernelFunctional(time_budget=seconds)


def is_for_network(facts: DataFacts, seconds: float | None, policy: AutoPolicy) -> bool:
    """Return whether rows are too many, and columns few enough, for a network to be ahead of a search in its time."""
    rows = policy.network_rows <= facts.rows <= policy.network_most_rows
    time = seconds is not None and seconds >= policy.network_seconds
    return rows and time and facts.columns <= policy.network_columns


# Neither a grid nor few different values have a rule: on 4,900 cells of a grid a search, by sparse inference, and one
# product kernel, by grid inference, have the same error (0.032), and along a column of few values a search looks for no
# period. One column has a search whatever its rows: its forecasts and its components are what is asked for there.
RULES = (
    Rule("classes", "kfo", lambda facts, *_: facts.classes > 0, build_functional),
    Rule("stream", "search", lambda facts, *_: facts.in_parts, build_search),
    Rule("categories", "search", lambda facts, *_: facts.categories == facts.columns, build_search),
    Rule("one column", "search", lambda facts, *_: facts.columns == 1, build_search),
    Rule("many rows", "nkn", is_for_network, build_network),
    Rule("several columns", "search", lambda *_: True, build_search),
)


@dataclass(frozen=True)
class AutoKernel(Learner):
    """Chooses the learner by the data: rows, columns, dates, a grid, different values.

    `GPRegressor.plan(X, y)` says beforehand what it would choose, why, and how long it may take at most; the
    explanation of a fitted model says it too. The same seed gives the same result, unless the time ends the work first.

    Parameters
    ----------
    time_budget : seconds that learning may take at most (infinity: no end); None: those of `AutoPolicy`, two
        minutes, or five from 5,000 rows on.
    """

    time_budget: float | None = None

    takes_categories = True

    def choose(self, facts: DataFacts, policies: tuple[Any, ...] = ()) -> Plan:
        """Return the learner of the first rule that holds, with its time."""
        self.check()
        policy = find_policy(policies, AutoPolicy)
        usual = policy.seconds if facts.rows < policy.many_rows else policy.many_rows_seconds
        given = usual if self.time_budget is None else float(self.time_budget)
        seconds = given if math.isfinite(given) else None
        rule = next(rule for rule in RULES if rule.holds(facts, seconds, policy))
        jobs = 1 if seconds is not None and seconds < policy.parallel_seconds else None
        return Plan(rule.build(seconds, jobs, policy), rule.learner, rule.reason, seconds, facts)

    def learn(self, context: Context) -> Learned:
        """Learn by what is chosen for these rows, where no estimator has chosen before."""
        rows = context.data
        distinct = max(len(np.unique(rows.X[:, column])) for column in context.columns)
        facts = DataFacts(rows.count, len(context.columns), len(context.categories), distinct=distinct)
        chosen = self.choose(facts, context.policies).kernel
        assert isinstance(chosen, Learner)
        return chosen.learn(context)

    @property
    def seconds_allowed(self) -> float | None:
        """The time budget, where the user gave one."""
        return read_time_budget(self.time_budget)

    def check(self) -> None:
        """Refuse a time that is none."""
        read_time_budget(self.time_budget)
