"""Fit a product kernel to a grid of values: from its spectra, first to a part of it, at the end to all of it.

All starts are fitted to a part where there is a good one: a tile of a grid that is much larger than `TILE`, or what
lies on one side of a large hole, since without holes nothing has to be iterated. All cells then take a few more steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from mercer.fitting.clock import Clock, Progress, Report
from mercer.fitting.hidden import error_in_boxes, hidden_boxes
from mercer.fitting.optimise import (
    CORRECTIONS,
    FLAT,
    Fit,
    FitOptions,
    Problem,
    Run,
    concluded,
    ended,
    prepare,
    starting_points,
)
from mercer.fitting.spectra import LineSpectrum, line_spectra, mixture_of
from mercer.inference.contract import Data
from mercer.inference.grid import Grid
from mercer.inference.grid_product import cells_of
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression

TILE = 16_000  # cells to try starts on
MUCH_LARGER = 4  # than a tile must a grid be for one to be worth it
PERIODS = 6
SPECTRA = 2  # starts whose spectra are tried as they are
FEW = 20  # steps with all cells, after many with a part
GOOD_PART = 0.25  # of all cells
SHORT_RUN = 15  # steps on the way to see which start is best
NOISE_START = (1e-4, 0.3)


def fit_grid(
    expression: Expression, data: Data, engine: Grid, options: FitOptions, report: Report | None = None
) -> tuple[Fit, str]:
    """Fit a bound expression (scaled units), and say what was chosen by. Ctrl-C keeps the best point so far."""
    spectra = line_spectra(data)
    peaks = {d: found for d, s in enumerate(spectra) if len(found := s.periods(PERIODS))}
    problem = prepare(expression, data, engine, options, peaks)
    small = _on_part(problem)
    watch = _Watch(report, options.max_iterations)
    try:
        points, screened = _starts(small, spectra, options)
        runs = [_descent(small, p, SHORT_RUN, watch) for p in points] if len(points) > 1 else []
        best = min(runs, key=lambda run: run.value).point if runs else points[0]
        iterations = options.max_iterations
        if small is not problem:
            best = _descent(small, best, iterations, watch.final(iterations + FEW)).point
            iterations = FEW
        run = _descent(problem, best, iterations, watch.final(watch.steps + iterations, watch.steps))
        watch.whole = False
        chosen, note = _chosen(problem, small, run, points if _has_mixture(problem) else [], watch)
    except KeyboardInterrupt:
        if watch.point is None:
            raise
        stopped = Run(watch.point, watch.value, "interrupted", False, watch.evaluations, data.count)
        return concluded(problem, [stopped], watch.point, 0, interrupted=True), ""
    return concluded(problem, [chosen], chosen.point, screened + watch.evaluations - chosen.evaluations), note


def _chosen(problem: Problem, small: Problem, run: Run, spectral: Sequence[Array], watch: _Watch) -> tuple[Run, str]:
    """Return the kernel of the highest evidence, or a spectrum as it is where that fills large holes better.

    Of such a spectrum only the variance and the noise are fitted, to the part.
    """
    boxes = hidden_boxes(problem.objective.data, small.objective.data) if spectral else []
    if not boxes:
        return run, ""
    runs = [run, *(_descent(_scale_only(small, p), p, SHORT_RUN, watch) for p in spectral[:SPECTRA])]
    errors = [error_in_boxes(problem, r.point, boxes) for r in runs]
    best = int(np.argmin(errors))
    what = "the kernel of the highest evidence" if best == 0 else "the mean spectrum of the values"
    other = min(errors[1:]) if best == 0 else errors[0]
    note = (
        f"{what} was chosen: hiding {len(boxes)} boxes the size of the largest hole, its error was {errors[best]:.3f} "
        f"of their variance, that of {'the mean spectrum' if best == 0 else 'the highest evidence'} {other:.3f}"
    )
    return replace(runs[best], converged=True), note


def _scale_only(problem: Problem, point: Array) -> Problem:
    """Return the problem with everything but variances and the noise held at a point."""
    names = [*problem.objective.layout.free_paths(), "noise"]
    loose = [name == "noise" or name.endswith(".variance") for name in names[: len(point)]]
    held = np.column_stack([point, point])
    return replace(problem, bounds=np.where(np.array(loose)[:, None], problem.bounds, held))


def _has_mixture(problem: Problem) -> bool:
    return any(leaf.spec.mixture and leaf.parameter("weights").values is None for leaf in problem.expression.leaves())


@dataclass
class _Watch:
    """Follows the optimiser: the best point so far, and what to tell whoever waits."""

    report: Report | None
    most: int
    whole: bool = False  # this is one of the long runs
    point: Array | None = None
    value: float = math.inf
    evaluations: int = 0
    steps: int = 0
    clock: Clock = field(default_factory=Clock)

    def final(self, most: int, done: int = 0) -> _Watch:
        """Begin to tell of steps: this is a long run. Values on a part of the grid cannot be compared with others."""
        self.whole, self.value, self.most, self.steps = True, math.inf, most, done
        return self

    def saw(self, point: Array, value: float) -> None:
        self.evaluations += 1
        if value < self.value:
            self.point, self.value = point.copy(), value

    def step(self, *_: object) -> None:
        self.steps += 1
        if self.report is not None and self.whole:
            self.report(Progress(self.steps, self.most, "steps", score=2.0 * self.value, seconds=self.clock.seconds))


def _descent(problem: Problem, point: Array, iterations: int, watch: _Watch) -> Run:
    """Run L-BFGS-B from one point."""
    from scipy.optimize import minimize

    def objective(x: Array) -> tuple[float, Array]:
        value, gradient = problem.objective(x)
        watch.saw(x, value)
        return value, gradient

    if len(point) == 0:
        value, _ = objective(point)
        return Run(point, value, "nothing to fit", True, 1, problem.objective.data.count)
    result = minimize(
        objective, point, jac=True, method="L-BFGS-B", bounds=problem.bounds, callback=watch.step,
        options={"maxiter": iterations, "maxcor": CORRECTIONS, "ftol": problem.tolerance, "gtol": FLAT},
    )  # fmt: skip
    return ended(problem, np.asarray(result.x), float(result.fun), result)


def _starts(problem: Problem, spectra: Sequence[LineSpectrum], options: FitOptions) -> tuple[list[Array], int]:
    """Return points to begin at: from the spectra where the kernel has mixtures to set, else the best of draws."""
    unset = np.isnan(problem.starts.known)
    if not _has_mixture(problem):
        if not unset.any():
            return [_point(problem, problem.starts.typical(), _noise(spectra), options)], 0
        return starting_points(problem, options)
    rng = np.random.default_rng(options.seed)
    points = []
    for number in range(max(1, options.restarts)):
        values = problem.starts.typical() if number == 0 else problem.starts.draw(rng)
        values = np.where(unset, _with_mixtures(problem, values, spectra, rng, number == 0), values)
        points.append(_point(problem, values, _noise(spectra), options))
    return points, 0


def _noise(spectra: Sequence[LineSpectrum]) -> float:
    return float(np.clip(min(s.floor for s in spectra), *NOISE_START))


def _with_mixtures(
    problem: Problem, values: Array, spectra: Sequence[LineSpectrum], rng: np.random.Generator, peaked: bool
) -> Array:
    """Return the values with those of every spectral mixture on one column from that column's spectrum."""
    result = values.copy()
    owners = list(problem.expression.owners())
    slots = problem.objective.layout.slots
    for number, leaf in enumerate(owners):
        if not isinstance(leaf, Base) or not leaf.spec.mixture or len(leaf.columns) != 1:
            continue
        found = mixture_of(spectra[leaf.columns[0]], leaf.components, rng, peaked)
        for slot in slots:
            if slot.leaf == number and slot.spec.name in ("weights", "frequency", "bandwidth"):
                result[slot.where] = getattr(found, slot.spec.name)
            elif slot.leaf == number and slot.fitted:
                result[slot.where] = 1.0
    return result


def _point(problem: Problem, values: Array, noise: float, options: FitOptions) -> Array:
    free = problem.objective.layout.to_free(values)
    point = np.append(free, math.log(noise)) if options.noise is None else free
    return np.clip(point, problem.bounds[:, 0], problem.bounds[:, 1])


def _on_part(problem: Problem) -> Problem:
    """Return the problem for a part of the grid, with the bounds of the whole; itself where no part is worth it."""
    data = problem.objective.data
    lattice = data.lattice
    assert lattice is not None
    if lattice.size > MUCH_LARGER * TILE:
        return replace(problem, objective=replace(problem.objective, data=tile(data)))
    part = beside_holes(data)
    return problem if part is None else replace(problem, objective=replace(problem.objective, data=part))


def beside_holes(data: Data) -> Data | None:
    """Return the rows on one side of all large holes, the side with most of them; None where there is no good one."""
    lattice = data.lattice
    assert lattice is not None
    deep = cells_of(lattice, torch.device("cpu")).deep.numpy()
    if not len(deep):
        return None
    places = np.unravel_index(lattice.cells, lattice.shape)
    holes = np.unravel_index(lattice.holes[deep], lattice.shape)
    sides = [side for at, hole in zip(places, holes, strict=True) for side in (at < hole.min(), at > hole.max())]
    best = max(sides, key=lambda side: int(side.sum()))
    return data.take(best) if best.sum() >= GOOD_PART * lattice.size else None


def tile(data: Data) -> Data:
    """Return the rows of a box of about `TILE` cells, of several the one with most rows."""
    lattice = data.lattice
    assert lattice is not None
    ratio = (TILE / lattice.size) ** (1.0 / len(lattice.shape))
    sides = [max(min(n, 8), round(n * ratio)) for n in lattice.shape]
    places = np.stack(np.unravel_index(lattice.cells, lattice.shape))
    best: NDArray[np.bool_] | None = None
    for corner in np.ndindex(*(3,) * len(sides)):
        first = [round((n - side) * c / 2) for n, side, c in zip(lattice.shape, sides, corner, strict=True)]
        inside = np.ones(data.count, dtype=bool)
        for place, low, side in zip(places, first, sides, strict=True):
            inside &= (place >= low) & (place < low + side)
        if best is None or inside.sum() > best.sum():
            best = inside
    assert best is not None
    return data.take(best)
