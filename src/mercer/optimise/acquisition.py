"""How the next trial is chosen: an acquisition is a value, and says why it looks where it does (METHODS 10).

Where the function is a sum over small groups of inputs, bounds and samples are looked for group by group, so that one
trial explores every group; an expected improvement is that of the whole sum, and is looked for jointly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer.errors import InputError
from mercer.fitting.minimise import ONE_THREAD_BELOW
from mercer.kernels.domains import Array
from mercer.linalg.threads import one_thread
from mercer.optimise.groups import GroupScan, bound_by_group, sample_by_group, scan_group, widen_bounds
from mercer.optimise.joint import bound_below, expect_improvement, maximise, sample_jointly, screen, value_rows
from mercer.optimise.proposal import Proposal, ProposalTask, Why


@dataclass(frozen=True)
class Acquisition(ABC):
    """A way to choose the next trial."""

    doubts: ClassVar[bool] = False  # whether some trials are for another structure once this one promises nothing

    def propose(self, task: ProposalTask) -> Proposal:
        """Return the next row to try: what this way finds, or, where that has been tried, one that is new."""
        with one_thread(when=len(task.tried_rows) < ONE_THREAD_BELOW):
            found = self.look(task)
            return found if task.is_new(found.row) else _choose_new(task, found.row)

    @abstractmethod
    def look(self, task: ProposalTask) -> Proposal:
        """Return the row that this way finds."""


@dataclass(frozen=True)
class Improvement(Acquisition):
    """The largest expected improvement over all inputs."""

    why: Why = "not separable"

    def look(self, task: ProposalTask) -> Proposal:
        row = maximise(task, expect_improvement(task.best_value))
        return task.expect(row, "expected improvement", self.why)


@dataclass(frozen=True)
class Thompson(Acquisition):
    """The minimum of a function drawn from the posterior."""

    def look(self, task: ProposalTask) -> Proposal:
        why = find_obstacle(task)
        if why is not None:
            return task.expect(sample_jointly(task), "sample", why)
        return task.expect(sample_by_group(task, _scan_groups(task)), "samples by group", "groups are small")


@dataclass(frozen=True)
class LowerBound(Acquisition):
    """The least m - beta s, beta drawn anew for every trial.

    From an exponential: mostly small, sometimes large (a randomised bound; Berk et al. 2020). Next to a row that is
    known it gains digits only, and beta is widened, but for some trials that are for the digits.
    """

    def look(self, task: ProposalTask) -> Proposal:
        why = find_obstacle(task)
        if why is None:
            first, further = self.look_by_group(task)
            return task.expect(first if further is None else further, "bounds by group", "groups are small")
        return task.expect(maximise(task, bound_below(draw_beta(task))), "bound", why)

    def look_by_group(self, task: ProposalTask) -> tuple[Array, Array | None]:
        """Return the row of the first bound, and one that is far enough from all tried; None where there is none."""
        policy, beta = task.policy, draw_beta(task)
        least = policy.tried_again if task.rng.uniform() < policy.polish else policy.near
        scans = _scan_groups(task)
        first = bound_by_group(task, scans, beta)
        return first, first if task.distance(first) > least else widen_bounds(task, scans, beta, least)


@dataclass(frozen=True)
class Automatic(Acquisition):
    """Bounds by group where the groups are small; the expected improvement where they are not, or say nothing new."""

    doubts: ClassVar[bool] = True

    def look(self, task: ProposalTask) -> Proposal:
        why = find_obstacle(task)
        if why is not None:
            return Improvement(why).look(task)
        first, further = LowerBound().look_by_group(task)
        if further is not None:
            return task.expect(further, "bounds by group", "groups are small")
        # Nothing is uncertain: half of the trials gain digits, the others find out whether the surrogate is right.
        if task.is_new(first) and task.rng.uniform() < 0.5:
            return task.expect(first, "bounds by group", "groups are small")
        return Improvement("nothing is uncertain").look(task)


ACQUISITIONS: dict[str, Acquisition] = {
    "auto": Automatic(),
    "improvement": Improvement(),
    "thompson": Thompson(),
    "bound": LowerBound(),
}


def find_acquisition(name: object) -> Acquisition:
    """Return the acquisition of a name."""
    if not isinstance(name, str) or name not in ACQUISITIONS:
        known = ", ".join(repr(each) for each in ACQUISITIONS)
        raise InputError(f"acquisition must be one of {known}, not {name!r:.80}")
    return ACQUISITIONS[name]


def find_obstacle(task: ProposalTask) -> Why | None:
    """Return why groups cannot be searched each on its own; None where they can."""
    if task.space.constraints is not None:
        return "constraints tie groups"
    parts = task.surrogate.parts
    small = parts and max(len(part.inputs) for part in parts) <= task.policy.most_inputs
    return None if small else "a group is large"


def draw_beta(task: ProposalTask) -> float:
    """Draw how many spreads below the mean the bound is."""
    return float(task.rng.exponential(task.policy.beta))


def _scan_groups(task: ProposalTask) -> list[GroupScan]:
    return [scan_group(task, part) for part in task.surrogate.parts]


def _choose_new(task: ProposalTask, known: Array) -> Proposal:
    """Return the new row with the largest expected improvement, of all or of some; where none is new, the known one."""
    listed = task.space.list_rows()
    drawn = screen(task) if listed is None else listed
    new = np.array([row for row in drawn if task.is_new(row)])
    if not len(new):
        return task.expect(known, "expected improvement")
    criterion = expect_improvement(task.best_value)
    return task.expect(new[int(np.argmax(value_rows(task, criterion, new)))], "random")
