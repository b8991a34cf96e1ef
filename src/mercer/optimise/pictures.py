"""Pictures of a study: the best so far by trial, and the effect of each additive part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from mercer.explain.claims import WITHIN_95
from mercer.kernels.domains import Array
from mercer.optimise.effects import predict_jointly
from mercer.optimise.explanation import Study
from mercer.optimise.space import Category, Integer, Log, Space, Stepped
from mercer.optimise.surrogate import FunctionModel, SurrogatePart
from mercer.report.view import BLUE, GREY, INK, ORANGE, Paper, draw_band, draw_points

PLACES, MESH = 121, 41  # along a curve, and along each side of a map
FAR = 3.0  # of what the first trials typically lack to the best: beyond, a trial is drawn at the edge
LONGEST = 14  # characters of a choice on an axis


@dataclass(frozen=True, eq=False)
class Axis:
    """One input as an axis of a picture: encoded rows along it, and where they are on the paper."""

    name: str
    kind: Category | Any
    rows: Array  # encoded cells of this input
    at: Array  # positions

    @property
    def choices(self) -> list[str] | None:
        """The labels of a category."""
        return [str(choice) for choice in self.kind.choices] if isinstance(self.kind, Category) else None

    def place(self, cells: Array) -> Array:
        """Return where encoded cells are on the axis."""
        if isinstance(self.kind, Category):
            return np.asarray(cells.argmax(axis=1), dtype=float)
        return np.array([float(self.kind.decode(row)) for row in cells])


def make_axis(space: Space, i: int, count: int) -> Axis:
    """Return places along an input: all choices of a category, all of few whole numbers, or this many in between."""
    kind = space.inputs[i]
    levels = space.levels(i)
    if levels is not None and (isinstance(kind, Category) or len(levels) <= count):
        rows = levels
    else:
        rows = np.linspace(0.0, 1.0, count)[:, None]
    bare = Axis(space.names[i], kind, rows, np.empty(0))
    # Many whole numbers: a curve goes straight on between them.
    at = kind.low + rows[:, 0] * (kind.high - kind.low) if isinstance(kind, Stepped) else bare.place(rows)
    return Axis(bare.name, kind, rows, at)


def progress_figure(study: Study, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw every trial, and the best so far as a line."""
    paper = Paper(width, density)
    known = [(k, study.sign * trial.value) for k, trial in enumerate(study.trials, start=1) if trial.value is not None]
    at, values = np.array([k for k, _ in known]), np.array([value for _, value in known])
    best = study.sign * np.minimum.accumulate(study.sign * values)
    with paper.drawing(1, 1, height=0.6 if paper.narrow else 0.36) as figure:
        axes = figure.axes[0]
        worst = _worst_shown(values, study)
        beyond = study.sign * (values - worst) > 0.0
        draw_points(axes, at[~beyond], values[~beyond], GREY, "trial")
        if beyond.any():
            marker = "^" if study.minimize else "v"
            axes.scatter(at[beyond], np.full(beyond.sum(), worst), marker=marker, s=20, color=GREY, linewidths=0,
                         label="trial beyond the picture", zorder=2.5)  # fmt: skip
        axes.step(np.append(at, len(study.trials)), np.append(best, best[-1]), where="post", color=BLUE, linewidth=1.6,
                  label="best so far")  # fmt: skip
        failed = [k for k, trial in enumerate(study.trials, start=1) if trial.value is None]
        if failed:
            axes.scatter(failed, [worst] * len(failed), marker="x", s=28, color=ORANGE, label="failed", zorder=3)
        axes.set_xlim(0.0, 1.02 * len(study.trials) + 0.5)
        axes.set_xlabel("trial")
        axes.set_ylabel(study.target)
        paper.few_ticks(axes)
        axes.xaxis.set_major_locator(MaxNLocator(5 if paper.narrow else 9, integer=True))
        paper.draw_legend(figure)
    return figure


def _worst_shown(values: Array, study: Study) -> float:
    """Return the worst value of the picture: a few that are far off must not flatten the rest."""
    losses = study.sign * values
    typical = float(np.median(losses[: study.first]) - losses.min())
    limit = losses.min() + FAR * typical if typical > 0.0 else losses.max()
    return study.sign * float(min(losses.max(), limit))


@dataclass(frozen=True, eq=False)
class Effects:
    """The parts of one surrogate as they can be drawn: in the user's units, each around its own average."""

    study: Study
    surrogate: FunctionModel
    scale: float  # what turns a part into the user's units

    @property
    def label(self) -> str:
        """What the effect is measured in."""
        return f"change in {self.study.target}"

    def predict(self, part: SurrogatePart, rows: Array) -> tuple[Array, Array, float]:
        """Return mean and half-width of the 95 % band around the average over the rows, and that average."""
        mean, covariance = predict_jointly(self.surrogate, part, rows)
        centred = covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, None] + covariance.mean()
        reach = WITHIN_95 * np.sqrt(np.maximum(np.diag(centred), 0.0))
        average = float(mean.mean())
        return self.scale * (mean - average), abs(self.scale) * reach, average

    def leave(self, part: SurrogatePart, average: float) -> Array:
        """Return what the other parts leave of the trials for this one, around its average."""
        X, y = self.surrogate.data.X, self.surrogate.data.y
        own = self.surrogate.predict_part(part, X).mean
        return np.asarray(self.scale * (own - average + y - self.surrogate.predict(X).mean))

    def spread_rows(self, part: SurrogatePart, cells: Array) -> Array:
        """Return rows with these cells of a part; the others do not matter to it."""
        rows = np.tile(self.surrogate.data.X[0], (len(cells), 1))
        rows[:, list(part.columns)] = cells
        return rows


def curve_figure(effects: Effects, part: SurrogatePart, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw the effect of one input with its band, and what the other parts leave of the trials."""
    paper, axis = Paper(width, density), make_axis(effects.study.space, part.inputs[0], PLACES)
    mean, reach, average = effects.predict(part, effects.spread_rows(part, axis.rows))
    with paper.drawing(1, 1, height=0.6 if paper.narrow else 0.32) as figure:
        axes = figure.axes[0]
        at = axis.place(effects.surrogate.data.X[:, list(part.columns)])
        draw_points(axes, at, effects.leave(part, average), GREY, "trials less the other parts")
        if axis.choices is not None:
            axes.errorbar(axis.at, mean, yerr=reach, fmt="o", color=BLUE, markersize=5, capsize=4, linewidth=1.6,
                          label="effect with its 95 % band", zorder=3)  # fmt: skip
        else:
            draw_band(axes, axis.at, mean, reach, "its 95 % band")
            axes.plot(axis.at, mean, color=BLUE, linewidth=1.4, label="effect")
        _limit(axes, mean, reach, effects.leave(part, average))
        axes.set_ylabel(effects.label)
        paper.few_ticks(axes)
        _dress(axes.xaxis, axes, axis, paper)
        paper.draw_legend(figure)
    return figure


def _limit(axes: Axes, mean: Array, reach: Array, left: Array) -> None:
    """Show the band and nearly all trials: one that is far off must not flatten the rest."""
    low, high = float((mean - reach).min()), float((mean + reach).max())
    near, far = np.percentile(left, [2.0, 98.0])
    low, high = min(low, float(near)), max(high, float(far))
    margin = 0.06 * (high - low) or 1.0
    axes.set_ylim(low - margin, high + margin)


def map_figure(effects: Effects, part: SurrogatePart, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw the effect of two inputs as a map, with the trials on it."""
    paper, space = Paper(width, density), effects.study.space
    across, up = (make_axis(space, i, MESH) for i in part.inputs)
    cells = np.hstack([
        np.repeat(across.rows, len(up.rows), axis=0), np.tile(up.rows, (len(across.rows), 1))
    ])  # fmt: skip
    mean, _, _ = effects.predict(part, effects.spread_rows(part, cells))
    with paper.drawing(1, 1, height=0.85 if paper.narrow else 0.5) as figure:
        axes = figure.axes[0]
        values = mean.reshape(len(across.rows), len(up.rows)).T
        smooth = not any(isinstance(axis.kind, Category | Stepped) for axis in (across, up))
        shading: Literal["gouraud", "nearest"] = "gouraud" if smooth else "nearest"
        shown = axes.pcolormesh(across.at, up.at, values, cmap="cividis", shading=shading, rasterized=True)
        figure.colorbar(shown, ax=axes, shrink=0.9, label=effects.label)
        X = effects.surrogate.data.X
        east, north = (axis.place(X[:, list(space.columns[i])]) for axis, i in
                       zip((across, up), part.inputs, strict=True))  # fmt: skip
        axes.scatter(east, north, s=10, color="white", edgecolors=INK, linewidths=0.5, alpha=0.9)
        axes.grid(visible=False)
        paper.few_ticks(axes)
        _dress(axes.xaxis, axes, across, paper)
        _dress(axes.yaxis, axes, up, paper)
    return figure


def _dress(ruler: Any, axes: Axes, axis: Axis, paper: Paper) -> None:
    """Name one side of a picture, with ticks that suit the input."""
    along_x = ruler is axes.xaxis
    (axes.set_xlabel if along_x else axes.set_ylabel)(axis.name)
    limit = axes.set_xlim if along_x else axes.set_ylim
    if axis.choices is not None:
        labels = [label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…" for label in axis.choices]
        ruler.set_ticks(range(len(labels)), labels)
        if along_x and sum(map(len, labels)) + 2 * len(labels) > paper.room(1):
            axes.tick_params(axis="x", labelrotation=35)
        limit(-0.5, len(labels) - 0.5)
        return
    if isinstance(axis.kind, Log):
        (axes.set_xscale if along_x else axes.set_yscale)("log")
        decades = float(np.log10(axis.at[-1] / axis.at[0]))
        subs = (1.0, 2.0, 5.0) if decades < (2.5 if paper.narrow else 4.0) else (1.0,)
        ruler.set_major_locator(LogLocator(subs=subs, numticks=12))
        ruler.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ruler.set_minor_formatter(NullFormatter())
    elif isinstance(axis.kind, Integer):
        ruler.set_major_locator(MaxNLocator(4 if paper.narrow else 7, integer=True))
    if not isinstance(axis.kind, Log):
        margin = 0.01 * float(np.ptp(axis.at))
        limit(axis.at[0] - margin, axis.at[-1] + margin)
