"""Which inputs act together: a posterior over partitions of the inputs (Model-MCMC; Gardner et al. 2017; METHODS 10).

    f(x) = sum over groups g of f_g(x_g),   f_g a Gaussian process on the inputs of the group

A structure is a partition with the kernel of its groups. Its score is log p(y | structure, theta) + log p(theta) at the
best theta found. A move merges two groups, takes one input out of a group, or moves it to another one; theta is carried
along (every input keeps its lengthscale and its share of its group's variance), so a fit after a move is short.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mercer.compute.program import Program, compile_program
from mercer.fitting.minimise import minimise
from mercer.fitting.problem import FAILED_VALUE, Evaluations
from mercer.inference.contract import Data, Engine
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, build_base, product_of, sum_of
from mercer.kernels.parameters import with_values

LARGEST_SPLIT = 6  # inputs of a group that is split in every way
Groups = tuple[tuple[int, ...], ...]
Input = tuple[int, ...]  # the columns of one input: several where it is a category


def sort_groups(groups: Sequence[Sequence[int]]) -> Groups:
    """Return a partition in its one order: inputs ascending in a group, groups by their first input."""
    return tuple(sorted(tuple(sorted(group)) for group in groups if group))


@dataclass(frozen=True)
class AdditiveStructure:
    """A partition of the inputs, and the base kernel of its groups."""

    groups: Groups
    family: str = "SE"

    def neighbours(self) -> Iterator[AdditiveStructure]:
        """Merge two groups; take an input out of its group; move it to another group; split a group in two.

        Only small groups are split: of large ones there are too many ways.
        """
        count = len(self.groups)
        for a in range(count):
            for b in range(a + 1, count):
                yield self.with_groups([*self._without(a, b), self.groups[a] + self.groups[b]])
        for a, group in enumerate(self.groups):
            for i in group if len(group) > 1 else ():
                rest = tuple(j for j in group if j != i)
                if len(group) > 2 or i == group[0]:
                    yield self.with_groups([*self._without(a), rest, (i,)])
                for b in range(count):
                    if b != a:
                        yield self.with_groups([*self._without(a, b), rest, (*self.groups[b], i)])
            for size in range(2, len(group) // 2 + 1 if len(group) <= LARGEST_SPLIT else 0):
                for part in combinations(group, size):
                    yield self.with_groups([*self._without(a), part, [i for i in group if i not in part]])

    def _without(self, *which: int) -> list[tuple[int, ...]]:
        return [group for k, group in enumerate(self.groups) if k not in which]

    def with_groups(self, groups: Sequence[Sequence[int]]) -> AdditiveStructure:
        """Return the structure with another partition."""
        return AdditiveStructure(sort_groups(groups), self.family)


@dataclass(frozen=True)
class PartitionPrior:
    """What is believed before the data, for inputs scaled to [0, 1] and a standardised target: log-normal priors.

    Lengthscales grow with the square root of the inputs of a group, as distances do (Hvarfner et al. 2024). Every input
    that joins a group costs `merge`: a sum over inputs is the simpler function, and a joint one must be shown by data.
    """

    lengthscale: float = 0.4  # centre for a group of one
    lengthscale_spread: float = 1.0  # of the logarithm that all inputs have in common
    lengthscale_own: float = 0.5  # of the logarithm of one input around that
    # Near a minimum a function is a quadratic, whose variance under a smooth kernel grows as the fourth power of the
    # lengthscale (of a quartic as the eighth): its logarithm is as uncertain as four times that of the lengthscale.
    variance_spread: float = 4.0
    noise: float = 1e-4
    noise_spread: float = 2.5
    merge: float = 1.0  # in log evidence
    bounds: tuple[tuple[float, float], ...] = ((0.02, 100.0), (1e-6, 1e5), (1e-7, 2.0))  # lengthscale, variance, noise


@dataclass(frozen=True, eq=False)
class StructureProblem:
    """The fit of one structure. A point: log lengthscale of each input, log variance of each group, log noise.

    An input of codes has CAT with the correlation exp(-1 / l^2): what SE has on zeros and ones, one for each category.
    """

    structure: AdditiveStructure
    inputs: tuple[Input, ...]
    data: Data
    engine: Engine = field(default_factory=Exact)
    prior: PartitionPrior = field(default_factory=PartitionPrior)
    tolerance: float = 1e-8
    categories: frozenset[int] = frozenset()  # columns of codes, each an input

    @cached_property
    def expression(self) -> Expression:
        """The sum over groups of kernels without values; zeros and ones of a category have one lengthscale."""
        return sum_of([self.group_kernel(group) for group in self.structure.groups])

    def group_kernel(self, group: tuple[int, ...]) -> Expression:
        """Return the kernel of one group: a product over its inputs with one lengthscale each."""
        family = self.structure.family
        plain, others = self._divide(group)
        factors = [build_base(family, *(self.inputs[i][0] for i in plain))] if plain else []
        for i in others:
            several = len(self.inputs[i]) > 1
            own = build_base(family, *self.inputs[i], isotropic=True) if several else build_base("CAT", *self.inputs[i])
            factors.append(own)
        return product_of(factors)

    def _divide(self, group: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Return the inputs of a group that are numbers, and those that are categories."""
        plain = [i for i in group if len(self.inputs[i]) == 1 and self.inputs[i][0] not in self.categories]
        return plain, [i for i in group if i not in plain]

    @cached_property
    def program(self) -> Program:
        return compile_program(self.expression)

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Which number of a point each value of the kernel is; -1: a variance held at one."""
        found: list[int] = []
        for k, group in enumerate(self.structure.groups):
            plain, others = self._divide(group)
            found += [len(self.inputs) + k, *plain] if plain else []
            for number, i in enumerate(others):
                found += [-1 if plain or number else len(self.inputs) + k, i]
        return np.array(found)

    @cached_property
    def correlations(self) -> NDArray[np.bool_]:
        """Which values of the kernel are correlations of categories."""
        coded = [i for i, columns in enumerate(self.inputs) if len(columns) == 1 and columns[0] in self.categories]
        return np.isin(self.places, coded)

    @cached_property
    def centre(self) -> Array:
        """The centre of the prior of a point."""
        prior, groups = self.prior, self.structure.groups
        size = {i: len(group) for group in groups for i in group}
        lengths = [math.log(prior.lengthscale) + 0.5 * math.log(size[i]) for i in range(len(self.inputs))]
        return np.array([*lengths, *(math.log(len(g) / len(self.inputs)) for g in groups), math.log(prior.noise)])

    @cached_property
    def bounds(self) -> Array:
        counts = (len(self.inputs), len(self.structure.groups), 1)
        return np.asarray(np.log(np.repeat(np.array(self.prior.bounds), counts, axis=0)))

    def split(self, point: Array) -> tuple[Array, Gaussian]:
        """Return the values of the kernel and the likelihood."""
        values = np.append(np.exp(point), 1.0)[self.places]
        values[self.correlations] = np.exp(-(values[self.correlations] ** -2.0))
        return values, Gaussian(math.exp(point[-1]))

    def slopes(self, values: Array) -> Array:
        """Return the derivative of each value of the kernel by the number of a point that it comes from.

        Of exp(log x) it is x; of r = exp(-1 / l^2) by log l it is 2 r / l^2 = -2 r log r.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.correlations, np.nan_to_num(-2.0 * values * np.log(values)), values)

    def log_prior(self, point: Array) -> tuple[float, Array]:
        """Return the log density of a point and its partition, up to a constant of the inputs, and its gradient.

        Logarithms of lengthscales have covariance own^2 I + spread^2 11', so that inputs of one kind lend each other
        what they know.
        """
        prior, count = self.prior, len(self.inputs)
        distance = point - self.centre
        own, common = prior.lengthscale_own**2, prior.lengthscale_spread**2
        slope = np.empty(len(point))
        slope[:count] = -(distance[:count] - common / (own + count * common) * distance[:count].sum()) / own
        slope[count:-1] = -distance[count:-1] / prior.variance_spread**2
        slope[-1] = -distance[-1] / prior.noise_spread**2
        merged = prior.merge * (count - len(self.structure.groups))
        return 0.5 * float(slope @ distance) - merged, slope

    def score(self, point: Array) -> float:
        """Return log evidence + log prior."""
        values, likelihood = self.split(point)
        return self.engine.evidence(self.program, values, likelihood, self.data, False).value + self.log_prior(point)[0]

    def loss(self, point: Array, record: Evaluations | None = None) -> tuple[float, Array]:
        """Return minus the score, and its gradient."""
        values, likelihood = self.split(point)
        found = self.engine.evidence(self.program, values, likelihood, self.data, True)
        if found.gradient is None or found.noise_gradient is None:
            return FAILED_VALUE, np.zeros(len(point))
        density, slope = self.log_prior(point)
        gradient = np.zeros(len(point) + 1)
        np.add.at(gradient, self.places, found.gradient * self.slopes(values))
        gradient[len(point) - 1] += found.noise_gradient * likelihood.noise
        return -found.value - density, -gradient[:-1] - slope


@dataclass(frozen=True, eq=False)
class FittedStructure:
    """A structure with its parameters and its score."""

    problem: StructureProblem
    point: Array
    score: float

    @property
    def structure(self) -> AdditiveStructure:
        return self.problem.structure

    @property
    def expression(self) -> Expression:
        """The kernel with its values."""
        return with_values(self.problem.expression, self.problem.split(self.point)[0])

    @property
    def likelihood(self) -> Gaussian:
        """The noise."""
        return self.problem.split(self.point)[1]

    def carry(self, problem: StructureProblem) -> Array:
        """Return a point of another structure: each input keeps its share of a variance, and its lengthscale.

        That grows or shrinks with the square root of the inputs of its group, as under the prior.
        """
        count = len(problem.inputs)
        share = np.empty(count)
        for k, group in enumerate(self.structure.groups):
            share[list(group)] = math.exp(self.point[count + k]) / len(group)
        lengths = self.point[:count] + problem.centre[:count] - self.problem.centre[:count]
        variances = [math.log(share[list(group)].sum()) for group in problem.structure.groups]
        low, high = problem.bounds.T
        return np.asarray(np.clip(np.concatenate([lengths, variances, self.point[-1:]]), low, high))


@dataclass(frozen=True)
class StructurePolicy:
    """How hard to look for a structure; each number is what a few hundred rows can afford in about a second."""

    families: tuple[str, ...] = ("SE", "M52")
    fresh_iterations: int = 60  # from typical values
    iterations: int = 25  # from values carried along
    short_iterations: int = 10  # the same, to compare neighbours; the best of them goes on
    lengthscales: tuple[float, ...] = (1.0, 0.25)  # of the fresh starts
    neighbours: int = 120  # that are looked at, at random where there are more
    # Carried values suit a merged group better than one that is split: each kind of move is screened on its own.
    screened: int = 2  # neighbours with fewer, as many and more groups that are fitted: best score at carried values
    by_chance: int = 1  # neighbours that are fitted besides, drawn among the others
    rounds: int = 14
    kept: int = 6
    largest_drawn: int = 3  # inputs of a group of a random partition
    refitted: int = 3  # structures at most that are fitted again between searches ...
    unlikely: float = 1e-4  # ... none with a smaller probability: a few trials more will not bring it back
    refit_iterations: int = 15


@dataclass(frozen=True, eq=False)
class StructureSearch:
    """Finds structures of some data with a high score."""

    inputs: tuple[Input, ...]
    data: Data
    engine: Engine = field(default_factory=Exact)
    prior: PartitionPrior = field(default_factory=PartitionPrior)
    policy: StructurePolicy = field(default_factory=StructurePolicy)
    categories: frozenset[int] = frozenset()

    def pose(self, structure: AdditiveStructure) -> StructureProblem:
        """Return the fit of a structure as a problem."""
        return StructureProblem(structure, self.inputs, self.data, self.engine, self.prior, categories=self.categories)

    def fit(
        self, structure: AdditiveStructure, near: FittedStructure | None = None, iterations: int = 0
    ) -> FittedStructure:
        """Fit a structure from the values of a near one, or afresh."""
        problem = self.pose(structure)
        if near is not None:
            starts, steps = [near.carry(problem)], iterations or self.policy.iterations
        else:
            starts, steps = [], self.policy.fresh_iterations
            centre, count = problem.centre, len(self.inputs)
            for lengthscale in self.policy.lengthscales:
                lengths = centre[:count] + math.log(lengthscale / self.prior.lengthscale)
                starts.append(np.clip(np.concatenate([lengths, centre[count:]]), *problem.bounds.T))
        best = min(minimise(problem, starts, steps), key=lambda run: run.value)
        return FittedStructure(problem, best.point, -best.value)

    def update(
        self, known: Sequence[FittedStructure] = (), rng: np.random.Generator | None = None, wide: bool = True
    ) -> tuple[FittedStructure, ...]:
        """Return the best structures found, best first: known ones fitted anew, and what grows from the starts.

        The start is the best of those known, of each input alone and of all together; and it with the other kernels,
        because a move may pay with one of them only. A `wide` search starts from each input alone and, with a
        generator, from a random partition too. With a generator some neighbours are looked at whatever their score at
        carried values.
        """
        found = {each.structure: self.fit(each.structure, each) for each in known}
        family = max(found.values(), key=_score).structure.family if found else self.policy.families[0]
        everything = tuple(range(len(self.inputs)))
        alone = self._fit_afresh(AdditiveStructure(tuple((i,) for i in everything), family), found)
        self._fit_afresh(AdditiveStructure((everything,), family), found)
        first = max(found.values(), key=_score)
        starts = [first]
        if wide and alone is not first:
            starts.append(alone)
        if wide and rng is not None:
            drawn = draw_partition(len(everything), self.policy.largest_drawn, rng)
            starts.append(self._fit_afresh(AdditiveStructure(drawn, family), found))
        for start in starts:
            self._climb(start, found, rng)
        best = max(found.values(), key=_score).structure
        for other in self.policy.families:
            if other != best.family:
                self._climb(self._fit_afresh(replace(best, family=other), found), found, rng)
        return self._rank(found)

    def begin(self) -> tuple[FittedStructure, ...]:
        """Return each input alone and all together, the better of them with every kernel: a first guess, best first."""
        everything, first = tuple(range(len(self.inputs))), self.policy.families[0]
        found: dict[AdditiveStructure, FittedStructure] = {}
        for groups in (tuple((i,) for i in everything), (everything,)):
            self._fit_afresh(AdditiveStructure(groups, first), found)
        return self._rank(self._with_families(found))

    def advance(
        self, known: Sequence[FittedStructure], rng: np.random.Generator | None = None
    ) -> tuple[FittedStructure, ...]:
        """Return what one step of the search adds to known structures, best first.

        The likely ones are fitted anew, the best of them with every kernel; then neighbours of the best are looked at
        once. Steps until the best stays the same are a search that somebody need not wait for.
        """
        found = self._with_families({each.structure: each for each in self.refit(known)})
        self._climb(max(found.values(), key=_score), found, rng, rounds=1)
        return self._rank(found)

    def _with_families(
        self, found: dict[AdditiveStructure, FittedStructure]
    ) -> dict[AdditiveStructure, FittedStructure]:
        """Return what was found, with the best of it fitted with the other kernels."""
        best = max(found.values(), key=_score)
        others = [replace(best.structure, family=family) for family in self.policy.families]
        return found | {each: self.fit(each, best) for each in others if each not in found}

    def _rank(self, found: dict[AdditiveStructure, FittedStructure]) -> tuple[FittedStructure, ...]:
        return tuple(sorted(found.values(), key=_score, reverse=True)[: self.policy.kept])

    def _fit_afresh(
        self, structure: AdditiveStructure, found: dict[AdditiveStructure, FittedStructure]
    ) -> FittedStructure:
        """Fit a structure from typical values; what was found before stays where that is better."""
        fresh = self.fit(structure)
        found[structure] = max(fresh, found.get(structure, fresh), key=_score)
        return found[structure]

    def _climb(
        self,
        best: FittedStructure,
        found: dict[AdditiveStructure, FittedStructure],
        rng: np.random.Generator | None = None,
        rounds: int | None = None,
    ) -> None:
        """Go from neighbour to neighbour while the score grows; all that is fitted on the way is added to `found`."""
        policy = self.policy
        for _ in range(rounds or policy.rounds):
            neighbours = sorted({each for each in best.structure.neighbours() if each not in found}, key=_order)
            if len(neighbours) > policy.neighbours:
                picked = (rng or np.random.default_rng(0)).permutation(len(neighbours))[: policy.neighbours]
                neighbours = [neighbours[k] for k in picked]
            scores = [problem.score(best.carry(problem)) for problem in map(self.pose, neighbours)]
            ranked = [neighbours[k] for k in np.argsort(scores)[::-1]]
            chosen = _take_of_each_size(ranked, policy.screened)
            rest = [each for each in ranked if each not in chosen]
            if rng is not None and rest:
                chosen += [rest[int(rng.integers(len(rest)))] for _ in range(policy.by_chance)]
            tried = [
                self.fit(each, best, policy.short_iterations) for each in dict.fromkeys(chosen) if each not in found
            ]
            found |= {each.structure: each for each in tried}
            if not tried:
                break
            leader = max(tried, key=_score)
            better = found[leader.structure] = self.fit(leader.structure, leader)
            gains = sorted((each for each in tried if each.score > best.score), key=_score, reverse=True)
            together = replace(leader.structure, groups=combine([each.structure for each in gains], best.structure))
            if len(gains) > 1 and together not in found:
                both = found[together] = self.fit(together, better)
                better = max(better, both, key=_score)
            if better.score <= best.score:
                break
            best = better

    def refit(self, known: Sequence[FittedStructure]) -> tuple[FittedStructure, ...]:
        """Return the known structures that may still count, best first, fitted anew with a few steps."""
        policy = self.policy
        likely = [
            each
            for each, weight in zip(known[: policy.refitted], weigh(known[: policy.refitted]), strict=True)
            if weight > policy.unlikely
        ]
        fits = [self.fit(each.structure, each, policy.refit_iterations) for each in likely]
        return tuple(sorted(fits, key=_score, reverse=True))


def combine(moves: Sequence[AdditiveStructure], start: AdditiveStructure) -> Groups:
    """Return the partition after as many moves from the same start, in their order, as touch different groups."""
    left, come = set(start.groups), set[tuple[int, ...]]()
    for move in moves:
        gone = set(start.groups) - set(move.groups)
        if gone <= left:
            left, come = left - gone, come | set(move.groups) - set(start.groups)
    return sort_groups([*left, *come])


def _take_of_each_size(ranked: Sequence[AdditiveStructure], most: int) -> list[AdditiveStructure]:
    """Return the first structures with each number of groups."""
    taken: dict[int, list[AdditiveStructure]] = {}
    for each in ranked:
        taken.setdefault(len(each.groups), []).append(each)
    return [each for some in taken.values() for each in some[:most]]


def draw_partition(count: int, largest: int, rng: np.random.Generator) -> Groups:
    """Return a random partition with groups of at most `largest` inputs."""
    order, groups = rng.permutation(count).tolist(), []
    while order:
        size = int(rng.integers(1, largest + 1))
        groups.append(order[:size])
        order = order[size:]
    return sort_groups(groups)


def _score(fitted: FittedStructure) -> float:
    return fitted.score


def _order(structure: AdditiveStructure) -> tuple[Groups, str]:
    return structure.groups, structure.family


def weigh(fits: Sequence[FittedStructure]) -> Array:
    """Return the probabilities of structures among themselves."""
    scores = np.array([each.score for each in fits])
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def weigh_partitions(fits: Sequence[FittedStructure]) -> list[tuple[Groups, float]]:
    """Return partitions with their probabilities, whatever their kernels, most probable first."""
    found: dict[Groups, float] = {}
    for each, weight in zip(fits, weigh(fits), strict=True):
        found[each.structure.groups] = found.get(each.structure.groups, 0.0) + float(weight)
    return sorted(found.items(), key=lambda pair: -pair[1])
