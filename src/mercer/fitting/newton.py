"""Descent by curvature: a few steps where L-BFGS-B, which begins without any, takes a hundred.

The evidence bends a thousand times as much along a period as along a lengthscale, and a quasi-Newton method has to
learn that from its own steps. Here the first curvature is the average information (`Engine.information`), which costs
about as much as one evaluation. Steps then minimise

    m(s) = g's + s'Bs / 2    within the bounds and |s_i| <= radius

and B is corrected by what the slopes say, as BFGS does, with Powell's damping (1978) so that it stays positive. The
radius grows where the model is right and shrinks where it is wrong (Conn, Gould and Toint 2000, chapter 6). After some
steps B is measured again. A descent that ran out of steps keeps what it knows (`Memory`), and goes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mercer.fitting.minimise import Batch, cut_off, is_past, minimise
from mercer.fitting.problem import FAILED_VALUE, Memory, Problem, Run
from mercer.kernels.domains import Array


@dataclass(frozen=True)
class DescentPolicy:
    """How a descent by curvature goes."""

    ridge: float = 0.3  # added to the curvature: where the data say nothing, a step is as long as its slope
    radius: float = 1.5  # of the first steps, mostly in logarithms: further away the curvature is another one
    widest: float = 4.0
    narrowest: float = 1e-6  # steps this small that do not help are the end
    measured_again: int = 8  # steps after which the curvature is: corrections alone have drifted by then
    flat: float = 1e-4  # a descent ends where no slope is steeper
    gain: float = 1e-4  # of log evidence that a step must promise: less changes no decision
    idle: int = 2  # steps in a row that gain less than that: the end
    most_numbers: int = 60  # of a kernel: with more, measuring a curvature takes longer than it saves


DEFAULT = DescentPolicy()
Answer = tuple[float, Array]  # the value at a point, and the slope
Walk = Generator[Array, Answer, Run]  # asks for points, and returns where it ended


def descend(
    problem: Problem, points: Sequence[Array], iterations: int, batch: Batch | None = None,
    until: float | None = None, policy: DescentPolicy = DEFAULT, memories: Sequence[Memory | None] = (),
) -> list[Run]:  # fmt: skip
    """Go down from every point by this many steps; in a batch all of them at the same time.

    `memories` are those of earlier runs that ended at the points, on the same rows.

    Once it is `until`, the run at hand ends where it is and no other begins, as in `minimise`, which does the work
    where the engine has no curvature to offer or there are too many numbers.
    """
    if not points:
        return []
    if not (problem.engine.has_information and 0 < len(problem.bounds) <= policy.most_numbers):
        return minimise(problem, points, iterations, batch=batch, until=until)
    begun = list(zip(points, memories or [None] * len(points), strict=True))
    walks = [_walk(problem, point, iterations, policy, memory) for point, memory in begun]
    if batch is not None:
        return _descend_together(problem, walks, begun, batch, until)
    runs: list[Run] = []
    for walk, start in zip(walks, begun, strict=True):
        if runs and is_past(until):
            break
        runs.append(_descend_alone(problem, walk, *start, until))
    return runs


def _descend_alone(problem: Problem, walk: Walk, start: Array, memory: Memory | None, until: float | None) -> Run:
    best, least, count = start, math.inf if memory is None else memory.value, 0
    try:
        point = next(walk)
        while True:
            if count and is_past(until):
                return cut_off(best, least, count, problem.data.count, None)
            value, slope = problem.loss(point)
            count += 1
            if value < least:
                best, least = point, value
            point = walk.send((value, slope))
    except StopIteration as end:
        run: Run = end.value
        return replace(run, evaluations=count)


def _descend_together(
    problem: Problem, walks: Sequence[Walk], begun: Sequence[tuple[Array, Memory | None]], batch: Batch,
    until: float | None,
) -> list[Run]:  # fmt: skip
    """Go down from all points in step; what they ask for next is evaluated together."""
    counts, rows, runs, asked = [0] * len(walks), problem.data.count, dict[int, Run](), dict[int, Array]()
    best = {number: (point, memory.value) for number, (point, memory) in enumerate(begun) if memory is not None}

    def go(number: int, answer: Answer | None) -> None:
        try:
            asked[number] = next(walks[number]) if answer is None else walks[number].send(answer)
        except StopIteration as end:
            runs[number] = replace(end.value, evaluations=counts[number])
            asked.pop(number, None)

    for number in range(len(walks)):
        go(number, None)
    while asked:
        if any(counts) and is_past(until):
            runs.update({i: cut_off(*best[i], counts[i], rows, None) for i in asked})
            break
        order = sorted(asked)
        for number, (value, slope) in zip(order, batch.losses(problem, [asked[i] for i in order]), strict=True):
            counts[number] += 1
            if number not in best or value < best[number][1]:
                best[number] = asked[number], float(value)
            go(number, (float(value), slope))
    return [runs[i] for i in sorted(runs)]


def _walk(problem: Problem, start: Array, iterations: int, policy: DescentPolicy, memory: Memory | None) -> Walk:
    """Ask for the value and slope at one point after the other, and return where the last step led."""
    low, high = problem.bounds.T
    point = problem.clip(start)

    def end(why: str, converged: bool = True, memory: Memory | None = None) -> Run:
        return Run(point, value, why, converged, 0, problem.data.count, memory=memory)

    if memory is None:
        value, slope = yield point
        if value >= FAILED_VALUE:
            return end("there is no evidence at the start")
        measured, radius, since, idle = problem.information(point), policy.radius, 0, 0
        curvature = _firm(measured, problem, policy)
    else:
        value, slope, curvature, radius, since, idle, _ = memory
    for _ in range(iterations):
        if np.abs(np.clip(point - slope, low, high) - point).max() < policy.flat:
            return end("no slope is left")
        if since >= policy.measured_again:
            curvature, since = _firm(problem.information(point), problem, policy), 0
        step = solve_in_box(slope, curvature, np.maximum(low - point, -radius), np.minimum(high - point, radius))
        promised = _promise(step, slope, curvature)
        if promised < policy.gain:
            return end("no step promises anything")
        trial = np.clip(point + step, low, high)
        found, turned = yield trial
        length = float(np.abs(step).max())
        if found < FAILED_VALUE:
            curvature = _correct(curvature, step, turned - slope)
        if found < value:
            gain = value - found
            point, value, slope, since = trial, found, turned, since + 1
            idle = idle + 1 if gain < policy.gain else 0
            if idle >= policy.idle:
                return end("steps gain nothing")
            if gain > 0.75 * promised:
                radius = min(2.0 * radius, policy.widest)
            elif gain < 0.25 * promised:
                radius = 0.5 * length
        else:
            radius = 0.25 * length
            if radius < policy.narrowest:
                return end("no step helps")
    step = solve_in_box(slope, curvature, low - point, high - point)
    hope = _promise(step, slope, curvature)
    return end("out of steps", False, Memory(value, slope, curvature, radius, since, idle, hope))


def _firm(measured: Array | None, problem: Problem, policy: DescentPolicy) -> Array:
    """Return a curvature with the ridge; where none could be measured one that makes steps careful."""
    ridge = policy.ridge * np.eye(len(problem.bounds))
    return problem.data.count * ridge if measured is None else measured + ridge


def _promise(step: Array, slope: Array, curvature: Array) -> float:
    return -float(slope @ step + 0.5 * step @ curvature @ step)


def _correct(curvature: Array, step: Array, turned: Array) -> Array:
    """Return the curvature with that along a step set to what the slopes say (BFGS, Powell's damping)."""
    along = curvature @ step
    old, new = float(step @ along), float(step @ turned)
    if old <= 0.0:
        return curvature
    share = 1.0 if new >= 0.2 * old else 0.8 * old / (old - new)
    seen = share * turned + (1.0 - share) * along
    return np.asarray(curvature - np.outer(along, along) / old + np.outer(seen, seen) / float(step @ seen))


def solve_in_box(slope: Array, curvature: Array, low: Array, high: Array) -> Array:
    """Return about the least point of g's + s'Bs / 2 in a box around zero, no higher than the least along -g / diag B.

    Numbers that leave the box are held at its side, one round after the other; what is held is not let go again.
    """
    held = ((low >= 0.0) & (slope > 0.0)) | ((high <= 0.0) & (slope < 0.0))
    step, alone = np.zeros(len(slope)), not held.any()
    for _ in range(len(slope)):
        free = np.flatnonzero(~held)
        if not len(free):
            break
        right, inside = -slope[free], curvature
        if not alone:
            right = right - curvature[np.ix_(free, held)] @ step[held]
            inside = curvature[np.ix_(free, free)]
        try:
            wanted = np.linalg.solve(inside, right)
        except np.linalg.LinAlgError:
            wanted = right / np.diagonal(curvature)[free]
        step[free] = np.minimum(np.maximum(wanted, low[free]), high[free])
        outside = step[free] != wanted
        if not outside.any():
            break
        held[free[outside]], alone = True, False
    if alone:  # nothing was in the way
        return step
    plain = np.minimum(np.maximum(-slope / np.diagonal(curvature), low), high)
    bend = float(plain @ curvature @ plain)
    plain = plain * min(1.0, -float(slope @ plain) / bend) if bend > 0.0 else plain
    better = _promise(step, slope, curvature) >= _promise(plain, slope, curvature)
    return step if better else plain
