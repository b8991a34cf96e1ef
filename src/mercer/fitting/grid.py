"""Fit a product kernel to a grid of values: each axis to lines along it, then a part of the grid, at the end all of it.

Starts come from the spectra of the lines (mixtures), or from fits of each axis' factor to some lines. They go on with a
part where there is a good one: a tile of a grid that is much larger than a tile, or what lies on one side of a large
hole, since without holes nothing has to be iterated. All cells then take a few more steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.fitting.minimise import Clock, Progress, Report, minimise, screen, starting_points
from mercer.fitting.problem import Evaluations, Fit, FitOptions, Problem, Run, prepare
from mercer.fitting.starts import noise_start
from mercer.inference.contract import Data
from mercer.inference.grid import EXACT_WORK, Grid
from mercer.inference.lattice import Lattice
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Product, build_base, fixed, product_of
from mercer.kernels.parameters import values_of, with_values

if TYPE_CHECKING:
    from mercer.inference.grid_product import GridProblem


@dataclass(frozen=True)
class GridFitPolicy:
    """How a fit to a grid is shared between a part of it and all of it."""

    tile: int = 16_000  # cells to try starts on
    much_larger: int = 4  # times a tile that a grid must be for one to be worth it
    periods: int = 6  # of each axis
    as_they_are: int = 2  # starts from lines or their spectra that are tried without a further fit
    few_steps: int = 3  # and after this many: on the way to the highest evidence far cells count less and less
    last_steps: int = 20  # with all cells, after many with a part
    good_part: float = 0.25  # of all cells
    short_run: int = 15  # steps on the way to see which start is best
    lines: int = 64  # along an axis, to fit its factor to: more of them only cost time
    line_starts: int = 4  # of each factor, for every start of the whole, but at most two for each number
    line_draws: int = 6  # of which each of them is the best
    line_steps: int = 25  # of all of them; then the better half takes twice as many, and so on
    boxes: int = 4  # known cells that are hidden, to see how well large holes are filled


NOISE_START = (1e-4, 0.3)
ENOUGH_LINES = 8  # without a hole; with fewer, holes are bridged by straight lines
HALF_SEEN = 0.5
LEAST_WIDTH = 0.3  # of a step of the periodogram: a wave through the whole grid
SAME_END = 0.1  # of log evidence: runs that end nearer to each other have found the same
ROUNDS = 100  # of expectation and maximisation
TOLERANCE, STEPS = 0.01, 100  # of solves for hidden boxes


def fit_grid(
    expression: Expression,
    data: Data,
    engine: Grid,
    options: FitOptions,
    report: Report | None = None,
    policy: GridFitPolicy = GridFitPolicy(),  # noqa: B008  (it is frozen)
) -> tuple[Fit, str]:
    """Fit a bound expression (scaled units), and say what was chosen by. Ctrl-C keeps the best point so far."""
    spectra = line_spectra(data)
    peaks = {d: found for d, s in enumerate(spectra) if len(found := s.periods(policy.periods))}
    problem = small = prepare(expression, data, engine, options, peaks)
    assert data.lattice is not None
    large = data.lattice.size > policy.much_larger * policy.tile
    part = tile(data, policy.tile) if large else beside_holes(data, policy.good_part)
    if part is not None:
        small = replace(problem, data=part)  # with the bounds of the whole
    watch, run = _Watch(report, options.max_iterations), None
    try:
        points, screened = _starts(small, data, peaks, spectra, options, policy)
        runs = minimise(small, points, policy.short_run, [watch] * len(points)) if len(points) > 1 else []
        best = min(runs, key=lambda run: run.value).point if runs else points[0]
        iterations, last = options.max_iterations, policy.last_steps
        if small is not problem:
            best = minimise(small, [best], iterations, [watch.final(iterations + last)])[0].point
            iterations = last
        run = minimise(problem, [best], iterations, [watch.final(watch.steps + iterations, watch.steps)])[0]
        watch.whole = False
        chosen, note = _choose(problem, small, run, points, watch, policy)
    except KeyboardInterrupt:
        if watch.point is None:
            raise
        if run is None:  # else the fit had ended, and only its comparison with the spectra was left
            run = Run(watch.point, watch.value, "interrupted", False, watch.evaluations, data.count)
        return problem.conclude([run], run.point, 0, interrupted=True), ""
    return problem.conclude([chosen], chosen.point, screened + watch.evaluations - chosen.evaluations), note


def _choose(
    problem: Problem, small: Problem, run: Run, points: Sequence[Array], watch: _Watch, policy: GridFitPolicy
) -> tuple[Run, str]:
    """Return the kernel of the highest evidence, or a start from lines where that fills large holes better.

    Such a start as it is, only its size and the noise fitted to the part; or after a few steps of all numbers there.
    """
    from_lines = not problem.starts.complete and factors_by_axis(problem.expression) is not None
    boxes = hidden_boxes(problem.data, small.data, policy.boxes) if from_lines else []
    if not boxes:
        return run, ""
    runs = [run]
    for point in points[: policy.as_they_are]:
        held = replace(small, bounds=np.where(_sizes(small, point)[:, None], small.bounds, point[:, None]))
        runs += minimise(held, [point], policy.short_run, [watch])
        runs += minimise(small, [point], policy.few_steps, [watch])
    errors, shares = zip(*[error_in_boxes(problem, r.point, boxes) for r in runs], strict=True)
    best = int(np.argmin(errors))
    rivals = ["the kernel of the highest evidence", "a kernel fitted to lines along each axis"]
    chosen, other = rivals if best == 0 else rivals[::-1]
    after = f", and for {policy.few_steps} steps to the grid," if best and best % 2 == 0 else ""
    rival = min(shares[1:]) if best == 0 else shares[0]
    note = (
        f"{chosen}{after} was chosen: hiding {len(boxes)} boxes the size of the largest hole, its squared error was "
        f"{shares[best]:.2g} of the variance of the data, that of {other} {rival:.2g}"
    )
    return replace(runs[best], converged=True), note


def _sizes(problem: Problem, point: Array) -> NDArray[np.bool_]:
    """Tell which numbers of a point carry the size of the kernel, and the noise."""
    values, likelihood = problem.split(point)
    double = _resize(problem, values, 2.0 * _size(problem, values))
    return np.asarray(problem.point(double, Gaussian(2.0 * likelihood.noise)) != point)


class _Watch(Evaluations):
    """Follows the optimiser: the best point so far, and what is reported."""

    def __init__(self, report: Report | None, most: int) -> None:
        super().__init__()
        self.report, self.most = report, most
        self.whole = False  # this is one of the long runs
        self.point: Array | None = None
        self.value, self.evaluations, self.steps = math.inf, 0, 0
        self.clock = Clock()

    def final(self, most: int, done: int = 0) -> _Watch:
        """Begin to report steps: this is a long run. Values on a part of the grid cannot be compared with others."""
        self.whole, self.value, self.most, self.steps = True, math.inf, most, done
        return self

    def note(self, point: Array, value: float, slope: Array) -> tuple[float, Array]:
        """Keep the best point, and how many there were."""
        self.evaluations += 1
        if value < self.value:
            self.point, self.value = point.copy(), value
        return value, slope

    def after_step(self, *_: object) -> None:
        """Report a step."""
        self.steps += 1
        if self.report is not None and self.whole:
            self.report(Progress(self.steps, self.most, "steps", score=2.0 * self.value, seconds=self.clock.seconds))


def _starts(
    problem: Problem,
    data: Data,
    peaks: dict[int, Array],
    spectra: Sequence[LineSpectrum],
    options: FitOptions,
    policy: GridFitPolicy,
) -> tuple[list[Array], int]:
    """Return points to begin at, and how many evaluations they took.

    Mixtures that are to be set come from the spectra, other kernels from fits to lines.
    """
    starts, unset = problem.starts, np.isnan(problem.starts.known)
    noise = Gaussian(float(np.clip(min(s.floor for s in spectra), *NOISE_START)))
    if not unset.any():
        return [problem.point(starts.draw(None), noise)], 0
    leaves = [leaf for leaf in starts.leaves if isinstance(leaf, Base)]
    if not any(leaf.spec.form == "mixture" and leaf.parameter("weights").values is None for leaf in leaves):
        parts = factors_by_axis(problem.expression)
        if parts is None:
            return starting_points(problem, options)
        return fit_lines(problem, parts, data, peaks, options, policy)
    rng, points = np.random.default_rng(options.seed), []
    for number in range(max(1, options.restarts)):
        values = starts.draw(None if number == 0 else rng)
        drawn = values.copy()
        for owner, leaf in enumerate(starts.leaves):  # mixtures on one column: from that column's spectrum
            if not isinstance(leaf, Base) or leaf.spec.form != "mixture" or len(leaf.columns) != 1:
                continue
            found = mixture_of(spectra[leaf.columns[0]], leaf.components, rng, peaked=number == 0)
            for slot in problem.layout.slots:
                if slot.leaf == owner and (slot.spec.name in found or slot.fitted):
                    drawn[slot.where] = found.get(slot.spec.name, 1.0)
        points.append(problem.point(np.where(unset, drawn, values), noise))
    return points, 0


# --------------------------------------------------------------------------------------------------------------- lines
# Under a product kernel what lies along a line has that axis' factor as its kernel, times a number. Taking lines for
# independent of each other, their evidence is that of the factor times WN on the number of the line, over a grid of
# two axes: it costs n^3 for n cells along the axis, whatever else the grid has. So many starts of one factor can be
# raced where the whole would allow a few; and a period is chosen on one axis at a time, not on all at once.

Factors = dict[int, list[tuple[Expression, slice]]]  # by axis: factors of a product, and where their values are


def factors_by_axis(expression: Expression) -> Factors | None:
    """Return the factors of a product by axis; None where one of them is for several axes, as SE(0, 1) is."""
    found: Factors = {}
    first = 0
    for factor in expression.factors if isinstance(expression, Product) else (expression,):
        last = first + sum(sum(owner.sizes) for owner in factor.owners())
        columns = {c for leaf in factor.leaves() for c in leaf.columns}
        if len(columns) > 1:
            return None
        found.setdefault(min(columns, default=0), []).append((factor, slice(first, last)))
        first = last
    return found


def fit_lines(
    problem: Problem, parts: Factors, data: Data, peaks: dict[int, Array], options: FitOptions, policy: GridFitPolicy
) -> tuple[list[Array], int]:
    """Fit each axis' factor to lines along it, from many starts; return products of the best, the next ones, ...."""
    fits, tried = [], 0
    for axis, factors in parts.items():
        moved = [factor.map_leaves(lambda leaf: replace(leaf, dims=leaf.dims and (0,))) for factor, _ in factors]
        kernel = product_of([*moved, build_base("WN", 1, variance=fixed(1.0))])
        known = {0: with_multiples(peaks[axis])} if axis in peaks else None
        line = prepare(kernel, lines_along(data, axis, policy.lines), problem.engine, options, known)
        points = draw_starts(line, options, policy)
        runs = race(line, points, policy.line_steps, options.restarts)
        tried += policy.line_draws * len(points) + sum(run.evaluations for run in runs)
        fits.append((line, factors, runs))
    count = max(len(runs) for *_, runs in fits)
    return [_join(problem, [(line, f, runs[n % len(runs)]) for line, f, runs in fits]) for n in range(count)], tried


def _join(problem: Problem, fits: Sequence[tuple[Problem, list[tuple[Expression, slice]], Run]]) -> Array:
    """Return the product of the factors that were fitted to lines, of the size that they have on average."""
    values, sizes, noises = problem.known.copy(), [], []
    for line, factors, run in fits:
        found, likelihood = line.split(run.point)
        sizes.append(_size(line, found))
        noises.append(likelihood.noise)
        for _, where in factors:
            count = where.stop - where.start
            values[where], found = found[:count], found[count:]
    for slot in problem.layout.slots:
        if slot.held:  # one variance stands for all
            values[slot.where] = problem.known[slot.where]
    return problem.point(_resize(problem, values, float(np.mean(sizes))), Gaussian(min(noises)))


def _size(problem: Problem, values: Array) -> float:
    """Return the mean variance of the functions of a kernel."""
    X = problem.data.X
    return float(np.mean(fused.diagonal(problem.program, values, X[:: max(1, len(X) // 500)])))


def _resize(problem: Problem, values: Array, size: float) -> Array:
    """Return the values of the kernel whose functions have this variance."""
    factor = size / _size(problem, values)
    if not 0.0 < factor < math.inf:
        return values
    return values_of(with_values(problem.expression, values).multiply_by(factor))


def with_multiples(periods: Array) -> Array:
    """Return periods, then twice and three times the strongest two: a pattern may show as its overtones alone."""
    return np.concatenate([periods, 2.0 * periods[:2], 3.0 * periods[:2]])


def draw_starts(problem: Problem, options: FitOptions, policy: GridFitPolicy) -> list[Array]:
    """Return the typical start and the best of many draws by evidence; every period is tried with all else typical."""
    rng, starts = np.random.default_rng(options.seed), problem.starts
    count = max(1, min(policy.line_starts * options.restarts, 2 * len(problem.bounds)))
    drawn = [(starts.draw(None, turn=turn), noise_start(None)) for turn in range(max(1, starts.turns))]
    while len(drawn) < policy.line_draws * count:
        drawn.append((starts.draw(rng), noise_start(rng)))
    points = [problem.point(_resize(problem, values, 1.0), Gaussian(noise)) for values, noise in drawn]
    order = np.argsort(-np.array(screen(problem, points[1:])), kind="stable")
    return [points[0], *(points[1 + i] for i in order[: count - 1])]


def race(problem: Problem, points: Sequence[Array], steps: int, wanted: int) -> list[Run]:
    """Take some steps from every point, twice as many with the better half, and so on; return the best, in order."""
    runs = sorted(minimise(problem, points, steps), key=lambda run: run.value)
    while len(runs) > wanted:
        steps, runs = 2 * steps, runs[: max(wanted, len(runs) // 2)]
        trails = [run.trail for run in runs if run.trail is not None]
        again = minimise(problem, [trail.start for trail in trails], steps, [Evaluations(trail) for trail in trails])
        runs = sorted(again, key=lambda run: run.value)
    gaps = np.diff([run.value for run in runs], prepend=-math.inf)
    return [run for run, gap in zip(runs, gaps, strict=True) if gap > SAME_END]


def lines_along(data: Data, axis: int, most: int) -> Data:
    """Return lines along an axis as rows (place, number of the line): whole ones if there are enough, evenly spread."""
    lattice = data.lattice
    assert lattice is not None
    lines = _grid_lines(data, axis)
    seen = ~np.isnan(lines)
    share = seen.mean(axis=1)
    chosen = np.flatnonzero(share == 1.0)
    if len(chosen) < ENOUGH_LINES:
        chosen = np.sort(np.argsort(-share, kind="stable")[:most])
    chosen = chosen[np.linspace(0, len(chosen) - 1, min(most, len(chosen))).astype(int)]
    number, place = np.nonzero(seen[chosen])
    return Data(np.column_stack([lattice.axes[axis][place], number]), lines[chosen][number, place], data.free_level)


def _grid_lines(data: Data, axis: int) -> Array:
    """Return the values of all lines along an axis, NaN where there is none."""
    lattice = data.lattice
    assert lattice is not None
    grid = np.full(lattice.size, np.nan)
    grid[lattice.cells] = data.y
    return np.moveaxis(grid.reshape(lattice.shape), axis, -1).reshape(-1, lattice.shape[axis])


def beside_holes(data: Data, share: float) -> Data | None:
    """Return the rows on one side of all large holes, the side with most of them; None where there is no good one."""
    lattice = data.lattice
    assert lattice is not None
    if not len(lattice.deep):
        return None
    places = np.unravel_index(lattice.cells, lattice.shape)
    holes = np.unravel_index(lattice.holes[lattice.deep], lattice.shape)
    sides = [side for at, hole in zip(places, holes, strict=True) for side in (at < hole.min(), at > hole.max())]
    best = max(sides, key=lambda side: int(side.sum()))
    return data.take(best) if best.sum() >= share * lattice.size else None


def tile(data: Data, cells: int) -> Data:
    """Return the rows of a box of about this many cells, of several the one with most rows."""
    lattice = data.lattice
    assert lattice is not None
    ratio = (cells / lattice.size) ** (1.0 / len(lattice.shape))
    sides = [max(min(n, 8), round(n * ratio)) for n in lattice.shape]
    boxes = []
    for corner in np.ndindex(*(3,) * len(sides)):
        first = [round((n - side) * c / 2) for n, side, c in zip(lattice.shape, sides, corner, strict=True)]
        boxes.append(_inside(lattice, first, sides))
    return data.take(max(boxes, key=lambda inside: int(inside.sum())))


def _inside(lattice: Lattice, corner: Sequence[int] | Array, sides: Sequence[int]) -> NDArray[np.bool_]:
    """Tell for every row whether it lies in a box."""
    places = np.stack(np.unravel_index(lattice.cells, lattice.shape), axis=1) - np.array(corner)
    return np.asarray(((places >= 0) & (places < np.array(sides))).all(axis=1))


# ------------------------------------------------------------------------------------------------------------- spectra
# What a grid of values shows along each of its axes. Under a product kernel the covariance along one axis, averaged
# over all lines, is that axis' factor times a number. So the mean periodogram of the lines is the factor's spectral
# density (blurred by the window), plus a floor of noise.


@dataclass(frozen=True, eq=False)
class LineSpectrum:
    """Power at frequencies from zero to one half for each step of the axis, adding up to one."""

    frequency: Array
    power: Array

    @property
    def floor(self) -> float:
        """The share of the variance that white noise at the level of the fastest tenth would have."""
        count = max(1, len(self.power) // 10)
        return float(np.median(self.power[-count:])) * len(self.power)

    def periods(self, count: int) -> Array:
        """Return the periods of the highest peaks, strongest first."""
        inner = np.flatnonzero((self.power[1:-1] >= self.power[:-2]) & (self.power[1:-1] > self.power[2:])) + 1
        ranked = inner[np.argsort(-self.power[inner], kind="stable")][:count]
        left, here, right = (np.log(self.power[ranked + k] + 1e-300) for k in (-1, 0, 1))
        aside = 0.5 * (left - right) / (left - 2.0 * here + right)  # the top of a parabola through three of them
        return np.asarray(1.0 / (self.frequency[ranked] + aside * self.frequency[1]))


def line_spectra(data: Data) -> list[LineSpectrum]:
    """Return the mean spectrum of the lines along every axis, frequencies in cycles per unit of the inputs."""
    lattice, found = data.lattice, []
    assert lattice is not None
    for d, axis in enumerate(lattice.axes):
        n = len(axis)
        if n < 4:
            found.append(LineSpectrum(np.array([0.0, 0.5 * n]), np.array([1.0, 0.0])))
            continue
        lines = _grid_lines(data, d) - data.y.mean()
        seen = ~np.isnan(lines)
        whole, share = seen.all(axis=1), seen.mean(axis=1)
        if whole.sum() >= ENOUGH_LINES:
            lines = lines[whole]
        else:
            most = share >= min(HALF_SEEN, share.max())
            lines = np.stack([np.interp(axis, axis[s], row[s]) for row, s in zip(lines[most], seen[most], strict=True)])
        step, even = float(np.ptp(axis)) / (n - 1), np.linspace(axis[0], axis[-1], n)
        if np.max(np.abs(axis - even)) > 1e-6 * step:
            lines = np.stack([np.interp(even, axis, row) for row in lines])
        window = np.hanning(n + 2)[1:-1]
        power = np.mean(np.abs(np.fft.rfft(lines * window, axis=1)) ** 2, axis=0)
        total = power.sum()
        power = power / total if total > 0 else np.full(len(power), 1.0 / len(power))
        found.append(LineSpectrum(np.asarray(np.fft.rfftfreq(n, step), dtype=np.float64), power))
    return found


def mixture_of(spectrum: LineSpectrum, components: int, rng: np.random.Generator, peaked: bool) -> dict[str, Array]:
    """Fit a mixture of Gaussians to a spectrum by expectation and maximisation, mirrored at zero.

    It begins at the highest peaks (`peaked`), a quarter of the components being wide ones anywhere, or at frequencies
    drawn by their power. Returns the values of SM's parameters by name.
    """
    f, power = spectrum.frequency, np.maximum(spectrum.power - spectrum.floor / len(spectrum.power), 1e-12)
    power = power / power.sum()
    least = LEAST_WIDTH * f[1]
    top = np.argsort(-power, kind="stable")
    local = [i for i in top if power[i] >= power[max(0, i - 1)] and power[i] >= power[min(len(f) - 1, i + 1)]]
    count = components - components // 4 if peaked else 1
    centre = np.concatenate([f[local[:count]], rng.choice(f, components, p=power)])[:components]
    width = np.full(components, 3.0 * least)
    width[min(count, len(local)) :] = 0.1 * f[-1] if peaked else 6.0 * least
    weights = np.full(components, 1.0 / components)
    for _ in range(ROUNDS):
        sides = np.exp(-0.5 * ((f[:, None] - centre) / width) ** 2)
        sides += np.exp(-0.5 * ((f[:, None] + centre) / width) ** 2)
        share = weights * sides / width + 1e-300
        share *= (power / share.sum(axis=1))[:, None]
        total = share.sum(axis=0) + 1e-9
        weights = total / total.sum()
        centre = share.T @ f / total
        width = np.sqrt(np.einsum("fq,fq->q", share, (f[:, None] - centre) ** 2) / total + least**2)
    return {"weights": weights, "frequency": centre, "bandwidth": width}


# -------------------------------------------------------------------------------------------------------- large holes
# How well does a kernel fill large holes? Hide boxes the size of the largest hole where values are known, and see. The
# evidence judges short distances most, as neighbours say most of each other; in the middle of a large hole only what
# reaches far counts. So kernels are compared on the task itself, on cells that are known.


Box = tuple[Data, NDArray[np.intp], Array]  # the data without known cells that are hidden, their numbers and values


def hidden_boxes(data: Data, part: Data, most: int) -> list[Box]:
    """Return boxes the size of the largest hole, spread over a part of the grid; none where no hole is large.

    A part too small for them is passed over for the whole.
    """
    lattice = data.lattice
    assert lattice is not None
    if not len(lattice.deep):
        return []
    from scipy.ndimage import find_objects, label

    mask = np.zeros(lattice.size, dtype=bool)
    mask[lattice.holes[lattice.deep]] = True
    pieces, _ = label(mask.reshape(lattice.shape))
    sizes = np.bincount(pieces.ravel())
    sizes[0] = 0
    extent = find_objects(pieces)[int(np.argmax(sizes)) - 1]
    sides = [int(part.stop - part.start) for part in extent]
    for rows in (part, data):
        lattice, boxes = rows.lattice, []
        assert lattice is not None
        for corner in _corners(lattice, sides, most):
            inside = _inside(lattice, corner, sides)
            rest = rows.take(~inside)
            if rest.lattice is not None and rest.lattice.shape == lattice.shape:  # or a whole line would be gone
                boxes.append((rest, lattice.cells[inside], rows.y[inside]))
        if len(boxes) > 1:
            return boxes
    return []


def _corners(lattice: Lattice, sides: Sequence[int], most: int) -> list[Array]:
    """Return where boxes begin: of those in even steps the ones with most known cells, apart from each other."""
    if any(side > n - 2 for side, n in zip(sides, lattice.shape, strict=True)):
        return []
    seen = np.zeros(lattice.shape)
    seen.ravel()[lattice.cells] = 1.0
    steps = [
        np.unique(np.linspace(0, n - side, 6).round().astype(int)) for n, side in zip(lattice.shape, sides, strict=True)
    ]
    places = np.stack([g.ravel() for g in np.meshgrid(*steps, indexing="ij")], axis=1)
    known = np.array([seen[tuple(slice(c, c + s) for c, s in zip(p, sides, strict=True))].sum() for p in places])
    chosen: list[Array] = []
    for number in np.argsort(-known, kind="stable"):
        near = any(np.all(np.abs(places[number] - corner) < 0.5 * np.array(sides)) for corner in chosen)
        if not near and known[number] > 0.5 * np.prod(sides):
            chosen.append(places[number])
    return chosen[:most]


def error_in_boxes(problem: Problem, point: Array, boxes: Sequence[Box]) -> tuple[float, float]:
    """Return the mean squared error of the means in the boxes, by the variance of what they hold and by that of all.

    The first compares kernels, box by box; in a box that holds nearly the same everywhere it is large for an error that
    is nothing, so that the second is reported.
    """
    values, likelihood = problem.split(point)
    engine = cast(Grid, problem.engine)
    rough = replace(engine, tolerance=TOLERANCE, exact_work=EXACT_WORK, most_steps=STEPS, exact_cells=0)
    errors, shares = list[float](), list[float]()
    for rest, cells, held in boxes:
        grid = cast("GridProblem", rough.problem(problem.program, rest))
        whole = grid.covariance(values, likelihood.noise)
        if whole is None:
            return float("inf"), float("inf")
        solved = grid.solve(whole)
        filled = solved.completed.filled.flatten(1).cpu().numpy()[:, cells]
        mean = filled[0] - solved.level * filled[1] + solved.level if len(filled) > 1 else filled[0]
        squared = float(np.mean((mean - held) ** 2))
        errors.append(squared / max(float(np.var(held)), 1e-12))
        shares.append(squared / max(float(np.var(problem.data.y)), 1e-12))
    return float(np.mean(errors)), float(np.mean(shares))
