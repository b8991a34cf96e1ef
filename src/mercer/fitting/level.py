"""Fits many structures at once: every step of every start of every structure is part of one batched evaluation.

Each structure keeps its own L-BFGS-B (BoTorch's batched port of SciPy's, on its own free vector and bounds), so that a
run takes the steps that it would take alone on the CPU; what their starts need next is evaluated together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mercer.compute.accelerator import torch_backend
from mercer.compute.backend import Backend
from mercer.fitting.batched import batched_optimiser
from mercer.fitting.optimise import CORRECTIONS, FLAT, Problem, Run, ended, optimise
from mercer.fitting.rendezvous import together
from mercer.fitting.trail import Record, Trail
from mercer.inference.batches import LevelEvidence, Part
from mercer.inference.contract import Data, Evidence
from mercer.kernels.domains import Array

Result = TypeVar("Result")


@dataclass(frozen=True)
class Question:
    """The evidence of some candidates of one structure, with or without its gradient."""

    part: Part
    gradient: bool


@dataclass(frozen=True)
class OnDevice:
    """Screens and optimises the points of one problem by asking for all their evidences at once."""

    ask: Callable[[Question], list[Evidence]]

    def screen(self, problem: Problem, points: Sequence[Array]) -> list[float]:
        """Return the log evidence at every point."""
        _, _, found = self._evidence(problem, points, gradient=False)
        return [evidence.value for evidence in found]

    def descend(
        self, problem: Problem, points: Sequence[Array], iterations: int, trails: Sequence[Trail | None] = ()
    ) -> list[Run]:
        """Run L-BFGS-B from every point, as `mercer.fitting.optimise.optimise` does from one."""
        starts = np.stack(points)
        if not starts.shape[1]:
            return [optimise(problem, point, iterations) for point in points]
        records = [Record(trail) for trail in trails or [None] * len(points)]

        def noted(free: Array, batch_indices: list[int]) -> tuple[Array, Array]:
            found = [records[i].known(point) for i, point in zip(batch_indices, free, strict=True)]
            new = [k for k, known in enumerate(found) if known is None]
            if new:
                for k, value, slope in zip(new, *self.losses(problem, free[new]), strict=True):
                    found[k] = records[batch_indices[k]].noted(free[k], float(value), slope)
            values, slopes = zip(*(known for known in found if known is not None), strict=True)
            return np.array(values), np.stack(slopes)

        _, _, results = batched_optimiser()(
            noted, starts, bounds=[(float(low), float(high)) for low, high in problem.bounds], maxcor=CORRECTIONS,
            factr=None, ftol=problem.tolerance, pgtol=FLAT, maxiter=iterations, pass_batch_indices=True,
        )  # fmt: skip
        # Not result.x and result.fun: after a line search that failed these two need not belong together.
        walked = [record.trail() for record in records]
        return [ended(problem, *trail.best, result, trail) for trail, result in zip(walked, results, strict=True)]

    def losses(self, problem: Problem, points: Array) -> tuple[Array, Array]:
        """Return what is minimised, and its slope, at every point."""
        values, noise, found = self._evidence(problem, points, gradient=True)
        rows = zip(points, values, noise, found, strict=True)
        pairs = [problem.objective.loss(point, v, float(s), evidence) for point, v, s, evidence in rows]
        return np.array([loss for loss, _ in pairs]), np.stack([slope for _, slope in pairs])

    def _evidence(
        self, problem: Problem, points: Sequence[Array] | Array, gradient: bool
    ) -> tuple[Array, Array, list[Evidence]]:
        split = [problem.objective.split(point) for point in points]
        values, noise = np.stack([values for values, _ in split]), np.array([noise for _, noise in split])
        return values, noise, self.ask(Question(Part(problem.objective.program, values, noise), gradient))


def on_device(
    jobs: Mapping[int, Callable[[OnDevice], Result]], data: Data, backend: Backend, memory: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Run jobs that fit structures to the same data by an `OnDevice`; yield (number, result) as they end."""
    evaluate = LevelEvidence(data, torch_backend(backend), memory)
    batched_optimiser()  # missing: say so before anything starts

    def answers(questions: list[Question]) -> list[list[Evidence]]:
        found: dict[int, list[Evidence]] = {}
        for gradient in (False, True):
            asked = [i for i, question in enumerate(questions) if question.gradient == gradient]
            if asked:
                found.update(zip(asked, evaluate([questions[i].part for i in asked], gradient), strict=True))
        return [found[i] for i in range(len(questions))]

    def started(job: Callable[[OnDevice], Result]) -> Callable[[Callable[[Question], list[Evidence]]], Result]:
        return lambda ask: job(OnDevice(ask))

    return together({number: started(job) for number, job in jobs.items()}, answers)
