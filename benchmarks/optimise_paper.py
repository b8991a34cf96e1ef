"""Bayesian optimisation as the NKN paper has it (Sun et al. 2018: 5.3, I.5, J.3), on Mercer's fits of given kernels.

Inputs scaled to [0, 1], values to mean 0 and variance 1; the kernel fitted by L-BFGS at every step; the next point is
that of 10,000 uniform ones with the largest expected improvement.

    paper-rbf        fully dependent RBF with one lengthscale for all inputs (J.3, Figure 12)
    paper-ard        with one lengthscale for each input, as the authors' code has it for Figure 4
    paper-2rbf       RBF + RBF
    paper-small-nkn  NKN on two RBF over all inputs, Linear4-Product2-Linear1 (Figure 12)
    paper-nkn        NKN on one RBF for each input, Linear8-Product4-Linear4-Product2-Linear1 (Figure 4)
    paper-oracle     a sum of RBF over the true groups (Figure 4)
    paper-mcmc-...   Model-MCMC: a sum over groups, RBF, RBF + RBF or the small NKN for each, partitions sampled

Model-MCMC proposes to split a group or to merge two, and accepts by the ratio of evidences: 30 steps in each of the
first 30 iterations, 10 after. It begins with all inputs in one group. Expected improvement is averaged over the three
partitions that were visited most in the iteration. The paper does not say how many it takes, nor where it begins.

What differs: a step begins where the last one ended (afresh too at every 25th), where the authors begin each afresh.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.special import ndtr

from benchmarks.optimise_functions import FIRST, Function, split_all
from benchmarks.optimise_methods import Recorded
from mercer.fitting.minimise import minimise
from mercer.fitting.problem import FitOptions, prepare
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import SE, Expression, bind, layout, network

Array = np.ndarray
Group = tuple[int, ...]
Partition = tuple[Group, ...]
CANDIDATES = 10_000
ITERATIONS = 40  # of L-BFGS from where the last step ended
SHORT = 12  # the same for a partition that is only proposed
AFRESH = 25  # steps between starts from nowhere
DRAWS = 4  # of such a start
MODELS = 3  # partitions over which expected improvement is averaged
PAPER_LAYERS, SMALL_LAYERS = "Linear8-Product4-Linear4-Product2-Linear1", "Linear4-Product2-Linear1"


def make_rbf(group: Group) -> Expression:
    return SE(*group, isotropic=True)


def make_ard(group: Group) -> Expression:
    return SE(*group)


def make_two(group: Group) -> Expression:
    return make_rbf(group) + make_rbf(group)


def make_small_network(group: Group) -> Expression:
    return network([make_rbf(group), make_rbf(group)], SMALL_LAYERS)


def make_network(group: Group) -> Expression:
    return network([SE(column) for column in group], PAPER_LAYERS)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted sum over groups."""

    partition: Partition
    values: dict[Group, Array]
    noise: float
    log_evidence: float
    predict: Callable[[Array], tuple[Array, Array]]


def fit_partition(
    kernel: Callable[[Group], Expression], partition: Partition, data: Data, start: Fitted | None, iterations: int,
    rng: np.random.Generator | None = None,
) -> Fitted:  # fmt: skip
    """Fit a sum over groups from the values of an earlier fit; from draws too where there is a generator.

    Groups that the earlier fit did not have begin at typical values.
    """
    columns, engine = data.X.shape[1], Exact()
    parts = [bind(kernel(group), columns) for group in partition]
    sizes = [layout(part).n_values for part in parts]
    problem = prepare(reduce(add, parts), data, engine, FitOptions(restarts=1))
    cuts = np.cumsum(sizes)[:-1]

    def take(values: Array) -> dict[Group, Array]:
        return dict(zip(partition, np.split(values, cuts), strict=True))

    noise, points = 0.01 if start is None else start.noise, []
    if start is not None:
        typical = take(problem.starts.draw(np.random.default_rng(0)))
        values = np.concatenate([start.values.get(group, typical[group]) for group in partition])
        points.append(problem.point(values, Gaussian(noise)))
    if rng is not None or start is None:
        rng = rng or np.random.default_rng(0)
        drawn = [problem.point(problem.starts.draw(rng), Gaussian(noise)) for _ in range(DRAWS)]
        points.append(max(drawn, key=lambda point: problem.evidence(point).value))
    best = min(minimise(problem, points, iterations), key=lambda run: run.value)
    values, likelihood = problem.split(best.point)

    def predict(X: Array) -> tuple[Array, Array]:
        found = engine.posterior(problem.program, values, likelihood, data).predict(X)
        return found.mean, np.maximum(found.variance + likelihood.noise, 1e-300)

    return Fitted(partition, take(values), likelihood.noise, -best.value, predict)


def improve(mean: Array, variance: Array, least: float) -> Array:
    """Return the expected improvement on the least value."""
    spread = np.sqrt(variance)
    ratio = (least - mean) / spread
    return spread * (np.exp(-0.5 * ratio**2) / math.sqrt(2.0 * math.pi) + ratio * ndtr(ratio))


class Paper(Recorded):
    """One kernel on a partition that does not change."""

    def __init__(
        self, function: Function, run: int, kernel: Callable[[Group], Expression], partition: Partition
    ) -> None:
        super().__init__(function, run)
        self.kernel, self.partition = kernel, partition
        self.last: Fitted | None = None

    def data(self) -> Data:
        values = np.array(self.values)
        return Data(self.places(), (values - values.mean()) / (values.std() or 1.0))

    def fit(self, data: Data, rng: np.random.Generator) -> list[tuple[Fitted, float]]:
        """Return the models of this step with their weights."""
        afresh = rng if self.last is None or len(self.values) % AFRESH == 0 else None
        self.last = fit_partition(self.kernel, self.partition, data, self.last, ITERATIONS, afresh)
        return [(self.last, 1.0)]

    def ask(self) -> list[Any]:
        rng = np.random.default_rng([self.run, 3, len(self.values)])
        data, score = self.data(), np.zeros(CANDIDATES)
        candidates = rng.random((CANDIDATES, len(self.inputs)))
        for model, weight in self.fit(data, rng):
            score += weight * improve(*model.predict(candidates), float(data.y.min()))
        return self.point(candidates[np.argmax(score)])


class ModelSampler(Paper):
    """Model-MCMC (Gardner et al. 2017): partitions are sampled with the kernels fitted."""

    visits: Counter[Partition]

    def propose(self, partition: Partition, rng: np.random.Generator) -> Partition:
        """Split a group at random or merge two."""
        groups = list(partition)
        large = [group for group in groups if len(group) > 1]
        if large and (len(groups) == 1 or rng.random() < 0.5):
            chosen = large[rng.integers(len(large))]
            side = rng.integers(0, 2, len(chosen)).astype(bool)
            side[rng.choice(len(chosen), 2, replace=False)] = (True, False)  # neither part is empty
            parts = [tuple(c for c, here in zip(chosen, side == which, strict=True) if here) for which in (True, False)]
            groups.remove(chosen)
        else:
            one, other = (groups[k] for k in rng.choice(len(groups), 2, replace=False))
            parts = [tuple(sorted(one + other))]
            groups = [group for group in groups if group not in (one, other)]
        return tuple(sorted([*groups, *parts]))

    def fit(self, data: Data, rng: np.random.Generator) -> list[tuple[Fitted, float]]:
        [(here, _)] = super().fit(data, rng)
        self.visits, known = Counter(), {here.partition: here}
        for _ in range(30 if len(self.values) < FIRST + 30 else 10):
            there = self.propose(here.partition, rng)
            if there not in known:
                known[there] = fit_partition(self.kernel, there, data, here, SHORT)
            if math.log(rng.random()) < known[there].log_evidence - here.log_evidence:
                here = known[there]
            self.visits[here.partition] += 1
        self.last, self.partition = here, here.partition
        often = self.visits.most_common(MODELS)
        return [(known[partition], count / sum(c for _, c in often)) for partition, count in often]

    def facts(self) -> dict[str, Any]:
        """Return the partitions of the last iteration, the one where the chain stands first among equals."""
        counted = getattr(self, "visits", Counter({self.partition: 1}))
        total = sum(counted.values())
        return {
            "partitions": [
                {"groups": [list(group) for group in partition], "probability": count / total}
                for partition, count in counted.most_common(5)
            ],
            "stands at": [list(group) for group in self.partition],
        }

    def resume(self, facts: dict[str, Any]) -> None:
        if facts.get("stands at"):
            self.partition = tuple(tuple(group) for group in facts["stands at"])


def begin_paper(name: str, function: Function, run: int) -> Paper:
    """Return one of the paper's variants."""
    together = (tuple(range(len(function.inputs))),)
    if name.startswith("paper-mcmc-"):
        kernels = {"rbf": make_rbf, "2rbf": make_two, "nkn": make_small_network}
        return ModelSampler(function, run, kernels[name.removeprefix("paper-mcmc-")], together)
    if name == "paper-oracle":
        return Paper(function, run, make_ard, function.groups or split_all(len(function.inputs)))
    dependent: dict[str, Callable[[Group], Expression]] = {
        "paper-rbf": make_rbf, "paper-ard": make_ard, "paper-2rbf": make_two, "paper-nkn": make_network,
        "paper-small-nkn": make_small_network,
    }  # fmt: skip
    return Paper(function, run, dependent[name], together)
