"""`PartitionSampler`: which inputs of a table act together, sampled from p(P | y) (Gardner et al. 2017; METHODS 10).

A chain over partitions P of the inputs (Metropolis and Hastings): a step proposes to split a group or to merge two.

    p(P | y)  ~  sum over kernels of exp(score of P with that kernel)
    accept P -> P' with probability min(1, p(P' | y) q(P | P') / (p(P | y) q(P' | P)))

    q(split)  = s / (groups of several inputs) / floor(m / 2) / (ways to take k of m inputs out, k and m - k alike)
    q(merge)  = (1 - s) / (pairs of groups)

where s is one half, or 1 or 0 where only one of the two is possible. Half of a large group is as often taken out as a
single input. Scores are kept: a partition is fitted once, from the values of the one it was proposed from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from mercer.compute.program import Program
from mercer.errors import InputError
from mercer.fitting.minimise import Clock, minimise, run_parallel
from mercer.fitting.problem import FAILED_VALUE, Fit, Status
from mercer.inference.contract import Data, Engine, Evidence, Posterior
from mercer.inference.likelihood import Likelihood
from mercer.kernels.domains import Array
from mercer.kernels.parameters import Units, to_data_units, values_of
from mercer.learners.contract import (
    Candidate,
    Context,
    Learned,
    Learner,
    Step,
    Weights,
    draw_some,
    read_time_budget,
)
from mercer.learners.partition import (
    AdditiveStructure,
    FittedStructure,
    Groups,
    Input,
    PartitionPrior,
    StructurePolicy,
    StructureSearch,
    sort_groups,
)
from mercer.learners.trials import Trials
from mercer.linalg.threads import one_thread

FAMILIES = ("SE", "M12", "M32", "M52")  # with one lengthscale for each input, and one for the columns of a category

# ---------------------------------------------------------------------------------------------------------- the chain


def propose(groups: Groups, rng: np.random.Generator) -> Groups:
    """Return a neighbour: a group split at random, or two groups merged."""
    large = [k for k, group in enumerate(groups) if len(group) > 1]
    if rng.random() < chance_to_split(groups):
        chosen = large[int(rng.integers(len(large)))]
        group = groups[chosen]
        out = rng.choice(len(group), size=int(rng.integers(1, len(group) // 2 + 1)), replace=False)
        parts = [group[i] for i in out], [each for i, each in enumerate(group) if i not in out]
        return sort_groups([*(g for k, g in enumerate(groups) if k != chosen), *parts])
    one, other = (int(k) for k in rng.choice(len(groups), size=2, replace=False))
    return sort_groups([*(g for k, g in enumerate(groups) if k not in (one, other)), groups[one] + groups[other]])


def chance_to_split(groups: Groups) -> float:
    """Return how often a step from here proposes to split a group."""
    if len(groups) == 1:
        return 1.0
    return 0.5 if any(len(group) > 1 for group in groups) else 0.0


def log_chance(old: Groups, new: Groups) -> float:
    """Return log q(new | old): how often `propose` returns the one from the other."""
    gone, come = set(old) - set(new), set(new) - set(old)
    if len(gone) == 1 and len(come) == 2:
        (group,) = gone
        size, out = len(group), min(map(len, come))
        ways = math.comb(size, out) // (2 if 2 * out == size else 1)
        large = sum(len(each) > 1 for each in old)
        return math.log(chance_to_split(old)) - math.log(large) - math.log(size // 2) - math.log(ways)
    if len(gone) == 2 and len(come) == 1:
        return math.log(1.0 - chance_to_split(old)) - math.log(math.comb(len(old), 2))
    return -math.inf


def walk(
    start: Groups, score: Callable[[Groups, Groups], float], steps: int, rng: np.random.Generator
) -> Iterator[Groups]:
    """Yield where the chain is after every step; `score` gets a partition and the one it was proposed from."""
    here, height = start, score(start, start)
    for _ in range(steps):
        there = propose(here, rng)
        found = score(there, here)
        if math.log(1.0 - rng.random()) < found - height + log_chance(there, here) - log_chance(here, there):
            here, height = there, found
        yield here


# -------------------------------------------------------------------------------------------------------- the learner


@dataclass(frozen=True)
class PartitionSampler(Learner):
    """Samples which inputs of a table act together: f(x) = sum of one function for each group of inputs (Model-MCMC).

    Parameters
    ----------
    steps : of the chain; each proposes to split a group of inputs or to merge two. It starts from the best partition
        that a greedy search finds. With a single input there is nothing to sample.
    burn_in : the first of these steps, whose visits are not counted.
    families : base kernels of the groups: "SE", "M12", "M32", "M52". A partition is fitted with each of them and
        counts with all; those that are hopeless at the partition that the chain starts from are left out.
    inputs : columns that are one input, as lists of names or numbers: those of a category that you encoded as zeros and
        ones. None: each column is an input.
    time_budget : seconds after which what was found so far is taken.
    """

    steps: int = 200
    burn_in: int = 50
    families: Sequence[str] = ("SE", "M52")
    inputs: Sequence[Sequence[int | str]] | None = None
    time_budget: float | None = None

    most_rows = 2000  # it samples with some of them, and fits the best partitions to all
    keeps_noise = True
    takes_categories = True

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        inputs = None if self.inputs is None else [list(each) for each in self.inputs]
        return {**super().describe(), "families": list(self.families), "inputs": inputs}

    def scale_kernels(
        self, columns: list[int], names: list[str], units: Units, categories: Collection[int] = ()
    ) -> Learner:
        """Return the settings with all inputs as numbers of columns: a category's columns are called "name=choice"."""
        return replace(self, inputs=self.find_inputs(columns, names))

    def find_inputs(self, columns: Sequence[int], names: Sequence[str] | None = None) -> tuple[Input, ...]:
        """Return the columns of every input, of those columns that vary."""
        given = () if self.inputs is None else self.inputs
        if not _is_list(given) or not all(map(_is_list, given)):
            wanted = "a list with a list of columns for each input, such as [[0, 1], [2, 3]]"
            raise InputError(f"inputs must be {wanted}, not {given!r:.80}")
        found: list[list[int]] = [[self._read_column(c, names) for c in each] for each in given]
        taken = [c for each in found for c in each]
        if len(set(taken)) < len(taken):
            raise InputError(f"inputs must be lists of different columns, not {self.inputs!r:.80}")
        categories: dict[str, list[int]] = {}
        for c in columns:
            if c not in taken:
                name = str(c) if names is None else names[c]
                categories.setdefault(name.partition("=")[0] if "=" in name else f"={c}", []).append(c)
        kept = [tuple(c for c in each if c in columns) for each in (*found, *categories.values())]
        return tuple(sorted(each for each in kept if each))

    def _read_column(self, column: int | str, names: Sequence[str] | None) -> int:
        if isinstance(column, str) and names is not None and column in names:
            return list(names).index(column)
        if isinstance(column, int | np.integer) and 0 <= column < (len(names) if names is not None else math.inf):
            return int(column)
        known = "" if names is None else f"; the columns are {', '.join(names[:12])}"
        raise InputError(f"inputs names the column {column!r:.40}, which is not there{known}")

    def learn(self, context: Context) -> Learned:
        """Sample on scaled data."""
        self.check()
        return Sampling(self, context).run()

    def check(self) -> None:
        """Refuse settings that mean nothing."""
        self.check_counts(steps=1, burn_in=0)
        if self.burn_in >= self.steps:
            raise InputError(f"burn_in must be less than steps, and {self.burn_in} is not less than {self.steps}")
        families = self.families
        listed = isinstance(families, list | tuple) and len(families) > 0
        if not listed or any(each not in FAMILIES for each in families):
            raise InputError(f"families must be a list of some of {', '.join(FAMILIES)}, not {families!r:.80}")
        read_time_budget(self.time_budget)


def _is_list(given: object) -> bool:
    return isinstance(given, list | tuple | np.ndarray)


@dataclass(frozen=True)
class SamplerPolicy:
    """How a table is sampled."""

    rows: int = 400  # that partitions are scored on: which inputs interact shows in some hundred
    iterations: int = 40  # from values carried along
    tolerance: float = 1e-5  # of these fits: a step that gains a smaller share is the last; probabilities need no more
    hopeless: float = 10.0  # in log probability: families further behind at the best partition are fitted to no others
    last_iterations: int = 150  # of those that predict
    likely: float = 5.0  # in log probability: what is not further behind is fitted again from the values of the best
    least: float = 0.01  # the probability from which on a partition has a part in predictions
    members: int = 8  # of an average
    # Tables are noisy, and have inputs that do nothing: alone in a group of no variance, that must cost little, or they
    # hide in the groups of others.
    prior: PartitionPrior = field(default_factory=lambda: PartitionPrior(noise=0.03, variance_spread=6.0))


@dataclass(frozen=True, eq=False)
class Timed(Engine):
    """An engine that ends what is under way when the time is up."""

    engine: Engine
    clock: Clock

    name = "timed"

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        self.clock.check()
        return self.engine.evidence(program, values, likelihood, data, gradient)

    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> Posterior:
        return self.engine.posterior(program, values, likelihood, data)


@dataclass(frozen=True, eq=False)
class Scored:
    """A partition with its fits, one for each family."""

    fits: tuple[FittedStructure, ...]
    seconds: float

    @property
    def score(self) -> float:
        """The logarithm of the sum over the families: log p(P | y) but for a constant."""
        return float(logsumexp([fit.score for fit in self.fits]))

    @property
    def all_failed(self) -> bool:
        """Whether no fit succeeded."""
        return self.best.score <= -FAILED_VALUE

    @property
    def best(self) -> FittedStructure:
        """The fit with the family that suits best."""
        return max(self.fits, key=lambda fit: fit.score)


def fit_structure(
    search: StructureSearch,
    structure: AdditiveStructure,
    starts: Sequence[Array],
    iterations: int,
    tolerance: float = 1e-8,
) -> tuple[FittedStructure, Status]:
    """Fit a structure from some points, of which the best counts."""
    problem = search.pose(structure)
    with one_thread():
        runs = minimise(replace(problem, tolerance=tolerance), list(starts), iterations)
    best = min(runs, key=lambda run: run.value)
    status: Status = "converged" if best.converged else "stopped"
    return FittedStructure(problem, best.point, -best.value), "failed" if best.value >= FAILED_VALUE else status


@dataclass(eq=False)
class Sampling:
    """One run of the sampler."""

    settings: PartitionSampler
    context: Context

    def __post_init__(self) -> None:
        settings, context = self.settings, self.context
        self.policy = context.policy(SamplerPolicy)
        self.trials = Trials(context.report, Clock(settings.time_budget), context.count_jobs(), counted="steps")
        self.rng = np.random.default_rng(context.seed)
        self.inputs = settings.find_inputs(context.columns)
        self.units = self._measure()
        self.search = self._search(draw_some(context.data, self.policy.rows, context.seed))
        self.families = tuple(dict.fromkeys(settings.families))
        self.known: dict[Groups, Scored] = {}
        self.visits: Counter[Groups] = Counter()

    def _measure(self) -> Units:
        """Return the units in which the inputs lie between 0 and 1; zeros and ones of a category stay what they are."""
        X = self.context.data.X
        for places in self.inputs:
            if len(places) > 1 and any(len(np.unique(X[:, c])) > 2 for c in places):
                raise InputError(
                    f"the columns {', '.join(map(str, places))} were given as one input: these must be zeros and ones"
                )
        low, span = X.min(axis=0), np.ptp(X, axis=0)
        return Units(tuple(map(float, low)), tuple(float(s) if s > 0 else 1.0 for s in span))

    def _search(self, data: Data) -> StructureSearch:
        context, prior = self.context, self.policy.prior
        if context.noise is not None:  # it is held by its bounds
            noise = max(context.noise, prior.bounds[2][0])
            prior = replace(prior, noise=noise, bounds=(*prior.bounds[:2], (noise, noise)))
        rows = np.asarray((data.X - np.array(self.units.shift)) / np.array(self.units.scale))
        engine = Timed(context.engine, self.trials.clock)
        policy = StructurePolicy(families=tuple(self.settings.families))
        scaled = Data(rows, data.y, data.free_level)
        return StructureSearch(self.inputs, scaled, engine, prior, policy, frozenset(context.categories))

    # ------------------------------------------------------------------------------------------------------- sampling

    def run(self) -> Learned:
        """Sample; Ctrl-C and the end of the time budget give what was found until then."""
        trials, settings = self.trials, self.settings
        everything = tuple(range(len(self.inputs)))
        with trials.stopping():
            first = sort_groups([[i] for i in everything])
            self.known[first] = self._fit_afresh(first)
            trials.clock.check()
            if len(everything) > 1:
                start = self._climb()
                for step, groups in enumerate(walk(start, self._score, settings.steps, self.rng), 1):
                    if step > settings.burn_in:
                        self.visits[groups] += 1
                    trials.tell(step, settings.steps, best=self._candidate(self._best()))
                    trials.clock.check()
        if all(each.all_failed for each in self.known.values()):
            raise trials.failure("no partition of the inputs could be fitted")
        with trials.stopping():
            self._refine()
        return self._conclude()

    def _fit_afresh(self, groups: Groups) -> Scored:
        """Fit the first partition, whatever the time: there is then something to return."""
        clock, search = Clock(), replace(self.search, engine=self.context.engine)
        with one_thread():
            return Scored(
                tuple(search.fit(AdditiveStructure(groups, family)) for family in self.families), clock.seconds
            )

    def _climb(self) -> Groups:
        """Return the best partition that a greedy search finds."""
        (first,) = self.known.values()
        for found in self.search.update([first.best]):
            if found.structure.groups not in self.known:
                self.known[found.structure.groups] = self._fit(found.structure.groups, [found])
        best = self._best()
        fits = self.known[best].fits
        least = self.known[best].best.score - self.policy.hopeless
        self.families = tuple(fit.structure.family for fit in fits if fit.score >= least)
        return best

    def _score(self, groups: Groups, before: Groups) -> float:
        if groups not in self.known:
            self.known[groups] = self._fit(groups, self.known[before].fits)
        return self.known[groups].score

    def _fit(self, groups: Groups, near: Sequence[FittedStructure]) -> Scored:
        """Fit a partition with every family, from the values of near ones with the same family, or any."""
        clock, work = Clock(), {}
        for number, family in enumerate(self.families):
            structure = AdditiveStructure(groups, family)
            same = [each for each in near if each.structure.family == family] or near
            starts = [each.carry(self.search.pose(structure)) for each in same]
            work[number] = (self.search, structure, starts, self.policy.iterations, self.policy.tolerance)
        found = dict(run_parallel(fit_structure, work, self.trials.jobs))
        return Scored(tuple(found[i][0] for i in sorted(found)), clock.seconds)

    def _best(self) -> Groups:
        return max(self.known, key=lambda groups: self.known[groups].score)

    def _refine(self) -> None:
        """Fit what is likely again from the values of the best, as a fit from elsewhere may have ended lower."""
        top = self.known[self._best()]
        likely = [g for g, each in self.known.items() if each.score > top.score - self.policy.likely]
        for groups in likely:
            old, new = self.known[groups], self._fit(groups, top.fits)
            best: dict[str, FittedStructure] = {}
            for each in sorted((*old.fits, *new.fits), key=lambda fit: fit.score):
                best[each.structure.family] = each
            self.known[groups] = Scored(tuple(best.values()), old.seconds + new.seconds)

    # ----------------------------------------------------------------------------------------------------- conclusion

    @property
    def some_rows(self) -> int | None:
        """How many rows partitions are scored on, where those are not all."""
        return self.search.data.count if self.search.data.count < self.context.data.count else None

    def probabilities(self) -> dict[Groups, float]:
        """Return the probabilities of the partitions among those that were tried, most probable first."""
        scores = {groups: each.score for groups, each in self.known.items()}
        total = logsumexp(list(scores.values()))
        order = sorted(scores, key=lambda groups: (-scores[groups], groups))
        return {groups: math.exp(scores[groups] - total) for groups in order}

    def _conclude(self) -> Learned:
        trials, policy = self.trials, self.policy
        chances = self.probabilities()
        chosen = [groups for groups, chance in chances.items() if chance >= policy.least][: policy.members]
        chosen = chosen or list(chances)[:1]
        search, fits = replace(self._search(self.context.data), engine=self.context.engine), {}
        with trials.stopping():
            for groups in chosen if trials.stopped != "request" else ():
                fits[groups] = self._finish(search, groups, policy.last_iterations)
        if not fits:
            fits = {chosen[0]: self._finish(search, chosen[0], 1)}
        usable = [groups for groups, fit in fits.items() if fit.status != "failed"]
        if not usable:
            raise trials.failure("no partition of the inputs could be fitted to all rows")
        for groups in chances:
            trials.add(self._candidate(groups, fits.get(groups)))
        shares = np.array([chances[groups] for groups in usable])
        within = tuple(map(float, shares / shares.sum()))
        if trials.stopped:
            reason = "on request" if trials.stopped == "request" else "at the end of its time"
            counted = self.visits.total() + self.settings.burn_in if self.visits else 0
            done = f"after {counted} of {self.settings.steps} steps" if counted else "before its first counted step"
            trials.notes.append(f"the sampling was stopped {reason}, {done}; probabilities are of what was tried")
        if self.some_rows is not None:
            trials.notes.append(
                f"partitions were scored on {self.some_rows:,} of the rows, drawn at random; those that "
                f"predict were fitted to {self.context.data.count:,}"
            )
        return trials.conclude(
            fits[usable[0]],
            [fits[groups] for groups in usable],
            Weights(within, within, (1.0,) * len(within)),
            rows=self.some_rows,
            settled=True,
        )

    def _finish(self, search: StructureSearch, groups: Groups, iterations: int) -> Fit:
        """Fit the best kernel of a partition to all rows, to its end; return it in the units of the context."""
        near = self.known[groups].best
        start = near.carry(search.pose(near.structure))
        found, status = fit_structure(search, near.structure, [start], iterations)
        if self.trials.stopped == "request" and status == "stopped":
            status = "interrupted"
        return self._as_fit(found, status)

    def _as_fit(self, found: FittedStructure, status: Status) -> Fit:
        problem, known = found.problem, self.context.noise
        noise = found.likelihood.noise if known is None else known
        values, likelihood = problem.split(found.point)
        likelihood = replace(likelihood, noise=noise)
        evidence = self.context.engine.evidence(problem.program, values, likelihood, problem.data, True)
        expression = to_data_units(found.expression, self.units)
        messages = {"converged": "converged", "interrupted": "stopped on request before it was at its end"}
        otherwise = evidence.failure or f"not converged after {self.policy.last_iterations} iterations"
        return Fit(
            expression=expression,
            noise=noise,
            log_evidence=evidence.value,
            leave_one_out=-math.inf if evidence.leave_one_out is None else evidence.leave_one_out,
            parameters=len(found.point) - (known is not None),
            jitter=evidence.jitter,
            status=status if evidence.failure is None else "failed",
            message=messages.get(status, otherwise),
            evaluations=0,
            values=values_of(expression),
        )

    def _candidate(self, groups: Groups, fit: Fit | None = None) -> Candidate:
        """Return a partition as a row of the table, with its kernel that suits best; its score is minus twice log p."""
        scored = self.known[groups]
        best = scored.best
        status, message = ("scored", "fitted to be scored") if fit is None else (fit.status, fit.message)
        if scored.all_failed:
            status, message = "failed", "no fit succeeded"
        return Candidate(
            expression=to_data_units(best.expression, self.units) if fit is None else fit.expression,
            depth=0,
            step=Step("partition", number=self.visits[groups], rows=self.some_rows),
            parent=None,
            log_evidence=best.score - best.problem.log_prior(best.point)[0],
            parameters=len(best.point) - (self.context.noise is not None),
            score=math.inf if scored.all_failed else -2.0 * scored.score,
            status=status,
            message=message,
            seconds=scored.seconds,
            fit=fit,
        )
