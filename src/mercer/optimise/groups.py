"""Where to try next, group by group (METHODS 10).

With an additive posterior f = sum of f_g(x_g) the lower confidence bound m_g - beta s_g is minimised group by group, in
one to three dimensions each, so that one trial explores every group. So is a function that is drawn from it (Thompson).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mercer.kernels.domains import Array
from mercer.optimise.proposal import AcquisitionPolicy, ProposalTask
from mercer.optimise.surrogate import SurrogatePart


@dataclass(frozen=True, eq=False)
class GroupScan:
    """Places of one group with the mean and the spread of its part there: where the search for any bound begins."""

    part: SurrogatePart
    places: Array
    mean: Array
    spread: Array
    width: float  # of the first steps around the best of them
    rounds: int  # of such steps; none where these are all places


def scan_group(task: ProposalTask, part: SurrogatePart) -> GroupScan:
    """Look at all levels of a group, at a grid, or at random places; and at those of the best trials."""
    policy, columns = task.policy, list(part.columns)
    one = len(part.inputs) == 1
    levels = task.space.levels(part.inputs[0]) if one else None
    if levels is not None:
        return GroupScan(part, levels, *_predict_places(task, part, levels), 0.0, 0)
    if one:
        places, width, rounds = np.linspace(0.0, 1.0, policy.grid)[:, None], 0.5 / policy.grid, 2
    else:
        places = task.rng.uniform(size=(policy.candidates * len(columns), len(columns)))
        width, rounds = 0.1, policy.rounds
    places = _snap(task, columns, np.concatenate([places, task.best_rows(50)[:, columns]]))
    return GroupScan(part, places, *_predict_places(task, part, places), width, rounds)


def _predict_places(task: ProposalTask, part: SurrogatePart, places: Array) -> tuple[Array, Array]:
    """Return mean and spread of a part; the other inputs are those of the best row."""
    found = task.surrogate.predict_part(part, _fill(task, list(part.columns), places))
    return found.mean, np.sqrt(found.variance)


def bound_by_group(task: ProposalTask, scans: Sequence[GroupScan], beta: float) -> Array:
    """Return the row whose groups each have their least m_g - beta s_g; inputs of no group stay at the best row."""
    row = task.best.copy()
    for scan in scans:
        row[list(scan.part.columns)] = _lowest_bound(task, scan, beta)
    return np.asarray(task.space.snap(row[None])[0])


def _lowest_bound(task: ProposalTask, scan: GroupScan, beta: float) -> Array:
    """Return the columns of a group at its least bound: the best places of the scan, then steps around them."""
    *_, last = _approach(task, scan, beta)
    return np.asarray(last.places[np.argmin(last.mean - beta * last.spread)])


def _approach(task: ProposalTask, scan: GroupScan, beta: float) -> Iterator[GroupScan]:
    """Yield the scan, then rounds of steps around the places with the least bound, each half as wide."""
    columns = list(scan.part.columns)
    yield scan
    for _ in range(scan.rounds):
        top = scan.places[np.argsort(scan.mean - beta * scan.spread)[:8]]
        steps = np.repeat(top, task.policy.points, axis=0)
        steps = _snap(task, columns, steps + scan.width * task.rng.standard_normal(steps.shape))
        places = np.concatenate([top, steps])
        scan = GroupScan(scan.part, places, *_predict_places(task, scan.part, places), 0.5 * scan.width, 0)
        yield scan


def sample_by_group(task: ProposalTask, scans: Sequence[GroupScan]) -> Array:
    """Return the row whose groups are each at the minimum of a function drawn from the posterior of that group.

    Given the trials the parts of a sum are correlated; but differences within a part, which alone move its minimum,
    hardly are, as the unknown level of each cancels in them.
    """
    row = task.best.copy()
    for scan in scans:
        row[list(scan.part.columns)] = _lowest_sample(task, scan)
    return np.asarray(task.space.snap(row[None])[0])


def _lowest_sample(task: ProposalTask, scan: GroupScan) -> Array:
    """Return the columns of a group where one function drawn from its posterior is least.

    It is drawn where it can be least: half of the places are those of the scan with the least bound, the others lie in
    the rounds around the least bounds, as fine as these are sought.
    """
    policy = task.policy
    rounds = [each for beta in policy.betas for each in list(_approach(task, scan, beta))[1:]]
    few = policy.sampled // (2 * len(rounds)) if rounds else 0
    kept = [_take_lowest(scan, policy.sampled // 2, policy), *(_take_lowest(each, few, policy) for each in rounds)]
    places = np.unique(np.concatenate(kept), axis=0)
    drawn = task.surrogate.sample(_fill(task, list(scan.part.columns), places), 1, task.rng, scan.part)
    return np.asarray(kept[0][0] if drawn is None else places[int(np.argmin(drawn[:, 0]))])


def _take_lowest(scan: GroupScan, count: int, policy: AcquisitionPolicy) -> Array:
    """Return the places with the least of the widest bounds, the least first."""
    return np.asarray(scan.places[np.argsort(scan.mean - max(policy.betas) * scan.spread)[:count]])


def widen_bounds(task: ProposalTask, scans: Sequence[GroupScan], beta: float, least: float) -> Array | None:
    """Return the row of the least wider bound that is so far from all tried; None where that of the widest is not.

    By bisection: where all is known the widest says so at once.
    """
    policy = task.policy
    betas = [max(beta, policy.beta) * policy.widening**k for k in range(1, policy.widenings + 1)]
    found, low, high = None, 0, len(betas) - 1
    place = high
    while low <= high:
        row = bound_by_group(task, scans, betas[place])
        if task.distance(row) > least:
            found, high = row, place - 1
        elif found is None:
            return None
        else:
            low = place + 1
        place = (low + high) // 2
    return found


def _fill(task: ProposalTask, columns: list[int], places: Array) -> Array:
    rows = np.tile(task.best, (len(places), 1))
    rows[:, columns] = places
    return rows


def _snap(task: ProposalTask, columns: list[int], places: Array) -> Array:
    return np.asarray(task.space.snap(_fill(task, columns, places))[:, columns])
