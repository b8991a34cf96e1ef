"""Pictures of a fitted model: the fit itself, and each component of its kernel.

Matplotlib's object interface only (no pyplot, no global state), so that any thread or server can draw. `width` is in
pixels: below `NARROW` everything is stacked in one column with fewer ticks, for a phone.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from mercer.errors import InputError
from mercer.estimators.inputs import encoding_of
from mercer.kernels.domains import Array
from mercer.tables.columns import CategoryColumn, DateColumn

if TYPE_CHECKING:
    from mercer.estimators import Component, GPRegressor
    from mercer.explain.summary import Summary
    from mercer.tables.columns import Column

# Okabe and Ito's palette: told apart with any colour vision, and in grey.
BLUE, ORANGE, GREY, INK = "#0072B2", "#D55E00", "#8A8A8A", "#222222"
NARROW = 600
DENSITY = {True: 100, False: 160}  # pixels for an inch, narrow and wide
STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": GREY,
    "axes.titlelocation": "left", "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.formatter.useoffset": False, "axes.formatter.limits": (-4, 5), "axes.unicode_minus": True,
    "axes.grid": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.6, "axes.axisbelow": True,
}  # fmt: skip
WITHIN_95 = 1.959964
FORECAST = 0.2  # how far beyond the data a curve goes, as a share of their range
MOST_PANELS = 11
MOST_POINTS = 4000


def fit_figure(model: GPRegressor, inputs: pd.DataFrame, target: pd.Series, *, width: int = 1200) -> Figure:
    """Draw the fit at the training rows `inputs` and `target` (those with a target, as the model saw them).

    One input of numbers or dates: data, mean, and the band that holds 95 % of new observations, with what lies beyond
    the data shaded. Otherwise: each observation against its prediction by all the others (leave-one-out), and the
    effect of every input with the others at their median (most common category).
    """
    view = _View.of(model, inputs, target, width)
    with rc_context(STYLE):
        if len(view.columns) == 1 and not isinstance(view.columns[0], CategoryColumn):
            figure = view.figure(1, 1, height=0.8 if view.narrow else 0.56)
            _draw_curve(figure, view)
        else:
            figure = _draw_effects(view)
        figure.canvas.draw()  # fixes the layout while the style holds
    return figure


def components_figure(
    model: GPRegressor, inputs: pd.DataFrame, target: pd.Series, summary: Summary, *, width: int = 1200
) -> Figure:
    """Draw every component of the summary with its 95 % band, and what is left of the data for it as faint points.

    Each is drawn along one input: the only one, or the one it reacts to most, the others at their median.
    """
    view = _View.of(model, inputs, target, width)
    shown = summary.components[:MOST_PANELS]
    parts = model.decompose(view.inputs)
    residual = view.observed - sum(part.mean for part in parts)
    with rc_context(STYLE):
        columns = 1 if view.narrow or len(view.columns) == 1 else 2
        figure = view.figure(len(shown), columns, height=0.55 if view.narrow else 0.3 if columns == 1 else 0.62)
        for axes, component in zip(figure.axes, shown, strict=True):
            part = parts[component.position]
            axes.set_title(view.wrapped(component.sentence, columns))
            _draw_component(axes, view, component.position, part, residual)
            if len(view.columns) == 1 and axes is not figure.axes[-1]:
                axes.set_xlabel("")
        _legend(figure, view)
        figure.canvas.draw()
    return figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure to a file; its ending says which format."""
    try:
        with rc_context(STYLE):
            figure.savefig(path)
    except OSError as error:
        raise InputError(f"cannot write the picture '{path}': {error.strerror or error}") from None


# --------------------------------------------------------------------------------------------------- what is drawn


@dataclass(frozen=True)
class _Sweep:
    """Rows along one input, the others held: where they are on the axis, and what the model says there."""

    at: Any  # numbers, datetime64, or category texts
    rows: pd.DataFrame


@dataclass(frozen=True)
class _View:
    """The model with its training rows, and how wide to draw."""

    model: GPRegressor
    inputs: pd.DataFrame
    observed: Array
    target: str
    columns: tuple[Column, ...]
    width: int

    @staticmethod
    def of(model: GPRegressor, inputs: pd.DataFrame, target: pd.Series, width: int) -> _View:
        encoding = encoding_of(model)
        names = [column.name for column in encoding.columns]
        return _View(
            model, inputs[names], target.to_numpy(dtype=np.float64), str(target.name), encoding.columns, int(width)
        )

    @property
    def narrow(self) -> bool:
        return self.width < NARROW

    def figure(self, panels: int, columns: int, height: float) -> Figure:
        """An empty grid of panels; `height` is that of one panel relative to its width."""
        rows = -(-panels // columns)
        inches = self.width / DENSITY[self.narrow]
        figure = Figure(
            figsize=(inches, max(2.4, rows * height * inches / columns)),
            dpi=DENSITY[self.narrow],
            layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06),
        )
        FigureCanvasAgg(figure)
        for panel in range(panels):
            figure.add_subplot(rows, columns, panel + 1)
        return figure

    def room(self, columns: int) -> int:
        """How many characters of a title fit above a panel, were all of them rather wide."""
        return int(13.0 * (self.width / DENSITY[self.narrow] / columns - 0.6))

    def wrapped(self, text: str, columns: int) -> str:
        return "\n".join(textwrap.wrap(text, self.room(columns)))

    def encoded(self, column: Column) -> Array:
        return column.encode(self.inputs[column.name])[:, 0]

    def positions(self, column: Column) -> Any:
        """Where the training rows are on the axis of a column."""
        if isinstance(column, CategoryColumn):
            return column.encode(self.inputs[column.name]).argmax(axis=1)
        return self.axis_values(column, self.encoded(column))

    def axis_values(self, column: Column, numbers: Array) -> Any:
        return column.timeline.moments(numbers) if isinstance(column, DateColumn) else numbers

    def typical(self, column: Column) -> Any:
        if isinstance(column, CategoryColumn):
            return column.levels[int(column.encode(self.inputs[column.name]).sum(axis=0).argmax())]
        return self.axis_values(column, np.array([np.median(self.encoded(column))]))[0]

    def sweep(self, column: Column, beyond: tuple[float, float] = (0.0, 0.0)) -> _Sweep:
        """Rows along one column, going `beyond` its ends by that share of its range."""
        if isinstance(column, CategoryColumn):
            at: Any = np.array(column.levels, dtype=object)
        else:
            numbers = self.encoded(column)
            low, high = float(numbers.min()), float(numbers.max())
            count = 200 if len(self.columns) > 1 else int(np.clip(4 * len(np.unique(numbers)), 600, 3000))
            grid = np.linspace(low - beyond[0] * (high - low), high + beyond[1] * (high - low), count)
            at = self.axis_values(column, grid)
        held = {other.name: self.typical(other) for other in self.columns if other.name != column.name}
        rows = pd.DataFrame({column.name: at, **held})
        return _Sweep(at, rows[[each.name for each in self.columns]])


# -------------------------------------------------------------------------------------------------------- drawing


def _draw_curve(figure: Figure, view: _View) -> None:
    axes, column = figure.axes[0], view.columns[0]
    sweep = view.sweep(column, _beyond(column))
    mean, std = view.model.predict(sweep.rows, return_std=True)
    _band(axes, sweep.at, mean, WITHIN_95 * std, "95 % of new observations")
    axes.plot(sweep.at, mean, color=BLUE, linewidth=1.4, label="mean")
    _points(axes, view.positions(column), view.observed, INK, "data")
    _shade_beyond(axes, view.positions(column), sweep.at)
    _label_axes(axes, view, column, view.target)
    _legend(figure, view)


def _draw_effects(view: _View) -> Figure:
    effects = [_Effect.of(view, column) for column in view.columns]
    shown = sorted(effects, key=lambda effect: -effect.size)[:MOST_PANELS]
    columns = 1 if view.narrow else 3 if len(shown) > 3 else 2
    figure = view.figure(1 + len(shown), columns, height=0.72 if view.narrow else 0.85)
    _draw_left_out(figure.axes[0], view)
    low = min(float(np.min(effect.mean - effect.reach)) for effect in shown)
    high = max(float(np.max(effect.mean + effect.reach)) for effect in shown)
    for axes, effect in zip(figure.axes[1:], shown, strict=True):
        _draw_effect(axes, view, effect)
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    some = f" (the {len(shown)} largest of {len(effects)})" if len(effects) > len(shown) else ""
    footer = f"{view.target} along each input{some}, the others at their median or most common category"
    figure.supxlabel(view.wrapped(footer, 1), fontsize=8, color=GREY)
    return figure


@dataclass(frozen=True)
class _Effect:
    """The mean along one input with the others held, and the half-width of its 95 % band (without noise)."""

    column: Column
    sweep: _Sweep
    mean: Array
    reach: Array

    @staticmethod
    def of(view: _View, column: Column) -> _Effect:
        sweep = view.sweep(column)
        mean, std = view.model.predict(sweep.rows, return_std=True, include_noise=False)
        return _Effect(column, sweep, mean, WITHIN_95 * std)

    @property
    def size(self) -> float:
        return float(np.ptp(self.mean))


def _draw_left_out(axes: Axes, view: _View) -> None:
    mean, _ = view.model.leave_one_out()
    _points(axes, mean, view.observed, BLUE, None)
    ends = [min(mean.min(), view.observed.min()), max(mean.max(), view.observed.max())]
    axes.plot(ends, ends, color=GREY, linewidth=0.8, zorder=1)
    axes.set_title(view.wrapped("Leave-one-out check", 1 if view.narrow else 3))
    axes.set_xlabel(f"predicted {view.target}")
    axes.set_ylabel(f"observed {view.target}")
    _few_ticks(axes, view)


def _draw_effect(axes: Axes, view: _View, effect: _Effect) -> None:
    _curve_or_bars(axes, effect.sweep.at, effect.mean, effect.reach)
    _label_axes(axes, view, effect.column, view.target)


def _draw_component(axes: Axes, view: _View, position: int, part: Component, residual: Array) -> None:
    """Draw the part at `position` along the input it reacts to most; `residual` is what no part explains."""
    columns = [column for column in view.columns if _concerns(view, column, part)] or list(view.columns[:1])
    beyond = _beyond(columns[0]) if len(view.columns) == 1 else (0.0, 0.0)
    swept = [(column, view.sweep(column, beyond)) for column in columns]
    drawn = [(column, sweep, view.model.decompose(sweep.rows)[position]) for column, sweep in swept]
    column, sweep, curve = max(drawn, key=lambda each: float(np.ptp(each[2].mean)))
    _points(axes, view.positions(column), part.mean + residual, GREY, "data less the other components")
    _curve_or_bars(axes, sweep.at, curve.mean, WITHIN_95 * curve.std, "component")
    if len(view.columns) == 1 and not isinstance(column, CategoryColumn):
        _shade_beyond(axes, view.positions(column), sweep.at)
    _label_axes(axes, view, column, view.target)


def _concerns(view: _View, column: Column, part: Component) -> bool:
    """Tell whether a part looks at any encoded column of a table's column."""
    names = list(view.model.column_names_)
    leaves = part.kernel.leaves() if part.kernel is not None else ()
    used = {names[d] for leaf in leaves for d in leaf.columns}
    return bool(used.intersection(column.encoded_names))


def _curve_or_bars(axes: Axes, at: Any, mean: Array, reach: Array, label: str | None = None) -> None:
    band = None if label is None else "its 95 % band"
    if at.dtype == object:  # categories
        axes.errorbar(range(len(at)), mean, yerr=reach, fmt="o", color=BLUE, markersize=4, capsize=3, linewidth=1.2)
        return
    _band(axes, at, mean, reach, band)
    axes.plot(at, mean, color=BLUE, linewidth=1.3, label=label)


def _band(axes: Axes, at: Any, mean: Array, reach: Array, label: str | None) -> None:
    axes.fill_between(at, mean - reach, mean + reach, color=BLUE, alpha=0.18, linewidth=0, label=label)


def _points(axes: Axes, at: Any, values: Array, color: str, label: str | None) -> None:
    if len(values) > MOST_POINTS:  # an evenly spread choice: more dots would only blacken the paper
        chosen = np.linspace(0, len(values) - 1, MOST_POINTS).astype(int)
        at, values = np.asarray(at)[chosen], values[chosen]
    size = float(np.clip(900 / max(1, len(values)), 1.5, 14))
    axes.scatter(at, values, s=size, color=color, linewidths=0, alpha=0.85, label=label, zorder=2.5)


def _beyond(column: Column) -> tuple[float, float]:
    return (0.0, FORECAST) if isinstance(column, DateColumn) else (FORECAST / 2, FORECAST / 2)


def _shade_beyond(axes: Axes, data: Any, at: Any) -> None:
    label: str | None = "beyond the data"
    for start, end in ((at[0], data.min()), (data.max(), at[-1])):
        if end > start:
            axes.axvspan(start, end, color="#F0E442", alpha=0.2, linewidth=0, zorder=0, label=label)
            label = None
    margin = (at[-1] - at[0]) / 100  # the first point should not be cut in half
    axes.set_xlim(at[0] - margin if at[0] == data.min() else at[0], at[-1])


def _label_axes(axes: Axes, view: _View, column: Column, value: str) -> None:
    axes.set_xlabel(column.name)
    axes.set_ylabel(value)
    if isinstance(column, CategoryColumn):
        levels = [level if len(level) <= 14 else f"{level[:13]}…" for level in column.levels]
        crowded = sum(map(len, levels)) + 2 * len(levels) > view.room(_columns(axes))
        tilt: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        axes.set_xticks(range(len(levels)), levels, **tilt)
        axes.set_xlim(-0.5, len(levels) - 0.5)
        axes.grid(visible=False, axis="x")
    elif isinstance(column, DateColumn):
        locator = AutoDateLocator(minticks=3, maxticks=5 if _small(axes, view) else 9)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    _few_ticks(axes, view)


def _few_ticks(axes: Axes, view: _View) -> None:
    count = 4 if _small(axes, view) else 7
    if not isinstance(axes.xaxis.get_major_locator(), AutoDateLocator) and not _has_categories(axes):
        axes.xaxis.set_major_locator(MaxNLocator(count))
    axes.yaxis.set_major_locator(MaxNLocator(min(count, 5)))


def _small(axes: Axes, view: _View) -> bool:
    return view.narrow or _columns(axes) > 1


def _columns(axes: Axes) -> int:
    spec = axes.get_subplotspec()
    return 1 if spec is None else int(spec.get_geometry()[1])


def _has_categories(axes: Axes) -> bool:
    return type(axes.xaxis.get_major_locator()).__name__ == "FixedLocator"


LEGEND = ("data", "mean", "component", "95 % of new observations", "its 95 % band", "beyond the data",
          "data less the other components")  # fmt: skip


def _legend(figure: Figure, view: _View) -> None:
    """One legend above all panels, where it covers nothing."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    shown = [label for label in LEGEND if label in found]
    figure.legend(
        [found[label] for label in shown], shown,
        loc="outside upper left", ncols=2 if view.narrow else 4, frameon=False, handlelength=1.6,
    )  # fmt: skip
