"""When the model expects nothing more, its structure is doubted, and another valley is looked for.

A model that knows one valley well takes the function to be alike everywhere: inputs that do nothing there do nothing
anywhere, and it is sure that all other places are worse. More trials by its own measure never show it wrong. So where
the last trials gained nothing that counts, and the next one promises nothing either, some trials are those of one joint
kernel of all inputs, fitted to the function with that valley filled up (as filled functions are; Ge 1990).

Which trials lie in the valley: a trial belongs to that of its nearest better trial (nearest-better clustering; Preuss
2010), near being what correlates under a joint kernel, unless that is far. Once a trial gains, the structure has its
turn again. All is read off the trials: a study that was saved goes on, and nothing needs to be remembered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.domains import Array
from mercer.optimise.joint import SMALLEST_SPREAD, log_expected_improvement
from mercer.optimise.models import Belief, Target, measure_spread
from mercer.optimise.proposal import Proposal, ProposalTask


@dataclass(frozen=True)
class DoubtPolicy:
    """When a structure is doubted, and what is done then."""

    first: int = 10  # trials at random, whose spread says what counts
    counts: float = 1e-3  # of that spread: smaller gains are digits
    patience: int = 2  # trials for each input without a gain that counts: a step and its correction along each
    fewest: int = 10  # of them; as many as there are at random in the beginning
    every: int = 2  # trial: the structure may be right, so it keeps as many
    alike: float = 0.5  # correlation of a trial and the nearest better one: from here on they share a valley
    outside: int = 3  # trials at least that are not in the valley: fewer say nothing about another
    most: int = 400  # trials: what two fits more and all correlations can afford


def is_spent(y: Array, inputs: int, policy: DoubtPolicy) -> bool:
    """Tell whether the last trials gained nothing that counts, the values being in their order."""
    stretch = max(policy.fewest, policy.patience * inputs)
    if not policy.first + stretch <= len(y) <= policy.most:
        return False
    return bool(y[:-stretch].min() - y.min() <= least_gain(y, policy))


def least_gain(y: Array, policy: DoubtPolicy) -> float:
    """Return the least gain that counts, in units of the values."""
    return policy.counts * measure_spread(y[: policy.first])


def promises_nothing(task: ProposalTask, proposal: Proposal, target: Target, least: float) -> bool:
    """Tell whether the expected improvement of a proposal is less than `least`, in units of the values."""
    spread = np.array([max(proposal.spread, SMALLEST_SPREAD)])
    log_gain = float(log_expected_improvement(np.array([proposal.mean]), spread, task.best_value)[0])
    reached = target.backward(task.best_value - np.array([0.0, math.exp(log_gain)]))
    return bool(reached[0] - reached[1] < least)


def find_valley(correlations: Array, y: Array, alike: float) -> NDArray[np.bool_]:
    """Tell which trials lie in the valley of the best: going to the nearest better one again and again ends there.

    A trial whose nearest better one correlates less than `alike` is the bottom of a valley of its own.
    """
    order = np.argsort(y, kind="stable")
    inside = np.zeros(len(y), dtype=bool)
    inside[order[0]] = True
    for place in range(1, len(order)):
        one, better = order[place], order[:place]
        nearest = better[int(np.argmax(correlations[better, one]))]
        inside[one] = inside[nearest] and correlations[nearest, one] >= alike
    return inside


def fill_valley(model: Belief, X: Array, y: Array, policy: DoubtPolicy) -> Array | None:
    """Return the values with the valley of the best trial filled up to the median of the others.

    None where the belief is of no structure, or where hardly a trial lies elsewhere.
    """
    joint = model.join(X, y)
    if joint is None:
        return None
    covariance = joint.draw(X, y, None).expression(X)
    deviations = np.sqrt(np.diag(covariance))
    inside = find_valley(covariance / np.outer(deviations, deviations), y, policy.alike)
    if np.count_nonzero(~inside) < policy.outside:
        return None
    return np.asarray(np.where(inside, np.maximum(y, np.median(y[~inside])), y))
