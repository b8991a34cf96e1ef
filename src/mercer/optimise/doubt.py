"""When the model expects nothing more, its structure is doubted.

A sum over groups that is a little wrong is sure of what it never saw: it takes a function of four inputs that was seen
in one valley to be the same in all others. Where the last trials gained nothing that counts, and the next one promises
nothing either, some trials are those of one joint kernel of all inputs, which claims nothing about places far from all
trials. Once they gain, the structure has its turn again. All is read off the trials: nothing needs to be remembered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer.kernels.domains import Array
from mercer.optimise.acquisition import Acquisition
from mercer.optimise.joint import SMALLEST_SPREAD, expect_improvement, log_expected_improvement, maximise
from mercer.optimise.models import Target, measure_spread
from mercer.optimise.proposal import Proposal, ProposalTask


@dataclass(frozen=True)
class DoubtPolicy:
    """When a structure is doubted, and what is done then."""

    first: int = 10  # trials at random, whose spread says what counts
    counts: float = 1e-3  # of that spread: smaller gains are digits
    patience: int = 2  # trials for each input without a gain that counts: so many a quadratic needs to be followed down
    fewest: int = 10  # of them; as many as there are at random in the beginning
    every: int = 2  # trial: the structure may be right, so it keeps as many
    leap: float = 1e-2  # of the spread: the least gain that is looked for; digits are left to the structure


def is_spent(y: Array, inputs: int, policy: DoubtPolicy) -> bool:
    """Tell whether the last trials gained nothing that counts, the values being in their order."""
    stretch = max(policy.fewest, policy.patience * inputs)
    if len(y) < policy.first + stretch:
        return False
    return bool(y[:-stretch].min() - y.min() <= measure_gain(y, policy.counts, policy))


def measure_gain(y: Array, share: float, policy: DoubtPolicy) -> float:
    """Return a share of the spread of the first values."""
    return share * measure_spread(y[: policy.first])


def promises_nothing(task: ProposalTask, proposal: Proposal, target: Target, least: float) -> bool:
    """Tell whether the expected improvement of a proposal is less than `least`, in units of the values."""
    spread = np.array([max(proposal.spread, SMALLEST_SPREAD)])
    log_gain = float(log_expected_improvement(np.array([proposal.mean]), spread, task.best_value)[0])
    reached = target.backward(task.best_value - np.array([0.0, math.exp(log_gain)]))
    return bool(reached[0] - reached[1] < least)


@dataclass(frozen=True)
class Leap(Acquisition):
    """The largest expected improvement beyond a goal, which lies below the best."""

    goal: float  # in units of the surrogate

    def look(self, task: ProposalTask) -> Proposal:
        row = maximise(task, expect_improvement(self.goal))
        return task.expect(row, "expected improvement", "the structure is doubted")


def leap(task: ProposalTask, target: Target, least: float) -> Proposal:
    """Return the next row to try for a gain of more than `least`, in units of the values."""
    best = target.backward(np.array(task.best_value))
    return Leap(float(target.forward(best - least))).propose(task)
