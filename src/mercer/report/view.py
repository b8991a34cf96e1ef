"""What pictures share: style, size, and a fitted model with its training rows as a reader knows them.

Matplotlib's object interface only (no pyplot, no global state), so that any thread or server can draw. `width` is in
pixels: below `NARROW` everything is stacked in one column with fewer ticks, for a phone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import MONTHLY, AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, MaxNLocator

from mercer.explain.claims import WITHIN_95
from mercer.explain.components import MOVED
from mercer.explain.gathering import Curves
from mercer.explain.subject import subject_of
from mercer.explain.wording import brief
from mercer.kernels.domains import Array
from mercer.tables.columns import Categories, CategoryColumn, DateColumn, OneHotColumn

if TYPE_CHECKING:
    from mercer.model.fitted import Fitted
    from mercer.tables.columns import Column


# Okabe and Ito's palette: distinct with any colour vision, and in grey.
BLUE, ORANGE, YELLOW, GREY, INK, PALE = "#0072B2", "#D55E00", "#F0E442", "#8A8A8A", "#222222", "#E4E4E4"
GROUND = "#FEFEFE"  # of the page: for what is written on a coloured mark
NARROW = 600
LONGEST_TITLE = 240  # characters
DENSITY = {True: 100, False: 160}  # pixels for an inch, narrow and wide
STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": GREY,
    "axes.titlelocation": "left", "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "text.color": INK,
    "axes.formatter.useoffset": False, "axes.formatter.limits": (-4, 5), "axes.unicode_minus": True,
    "text.parse_math": False,  # a column may be called $x$
    "axes.grid": True, "grid.color": PALE, "grid.linewidth": 0.6, "axes.axisbelow": True,
}  # fmt: skip
FORECAST = 0.2  # how far beyond the data a curve goes, as a share of their range
LONGEST = 40  # characters of a name beside an axis
MOST_POINTS = 2500  # at 130 bytes each: six pictures of a million rows stay below 3 MB
FINEST = 1500  # places along a curve: more than a picture has pixels
LEGEND = ("data", "mean", "component", "95 % of new observations", "its 95 % band", "beyond the data",
          "data less the other components")  # fmt: skip


@dataclass(frozen=True)
class Paper:
    """How wide to draw, and how many pixels make an inch (fonts are in points, 72 to the inch)."""

    width: int
    density: int | None = None
    figure: Figure | None = None  # to draw on; None: a new one, which no window knows

    @property
    def narrow(self) -> bool:
        """For a phone: one column, few ticks."""
        return self.width < NARROW

    @property
    def dots(self) -> int:
        """Pixels for an inch."""
        return DENSITY[self.narrow] if self.density is None else self.density

    @contextmanager
    def drawing(self, panels: int, columns: int, height: float) -> Iterator[Figure]:
        """Give an empty grid of panels to draw on; `height` is that of one panel relative to its width."""
        rows, inches = -(-panels // columns), self.width / self.dots
        size = (inches, max(2.0 if self.narrow else 2.4, rows * height * inches / columns))
        with rc_context(STYLE):
            figure = self.figure or Figure(dpi=self.dots)  # files are written with the dots of its beginning
            figure.set_size_inches(size)
            figure.set_dpi(self.dots)
            figure.set_layout_engine(ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06))
            if self.figure is None:
                FigureCanvasAgg(figure)
            for panel in range(panels):
                figure.add_subplot(rows, columns, panel + 1)
            yield figure
            figure.canvas.draw()  # fixes the layout while the style holds

    def room(self, columns: int) -> int:
        """Return how many characters of a title fit above a panel, were all of them rather wide."""
        return int(13.0 * (self.width / self.dots / columns - 0.6))

    def wrap(self, text: str, columns: int) -> str:
        """Break a title into lines, and cut it where it is longer than a title can be."""
        return "\n".join(textwrap.wrap(brief(text, LONGEST_TITLE), self.room(columns)))

    # ---------------------------------------------------------------------------------------------------------- ticks

    def label_axes(self, axes: Axes, column: Column, name: str, value: str) -> None:
        """Name the axes and choose ticks that suit the column."""
        axes.set_xlabel(shorten(name))
        axes.set_ylabel(value)
        if isinstance(column, Categories):
            levels = [level if len(level) <= 14 else f"{level[:13]}…" for level in column.levels]
            crowded = sum(map(len, levels)) + 2 * len(levels) > self.room(_count_columns(axes))
            tilt: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
            axes.set_xticks(range(len(levels)), levels, **tilt)
            axes.set_xlim(-0.5, len(levels) - 0.5)
            axes.grid(visible=False, axis="x")
        elif isinstance(column, DateColumn):
            self.date_ticks(axes)
        self.few_ticks(axes)

    def date_ticks(self, axes: Axes) -> None:
        """Label an axis of dates."""
        small = self.narrow or _count_columns(axes) > 1
        locator = AutoDateLocator(minticks=3, maxticks=5 if small else 9)  # type: ignore[no-untyped-call,unused-ignore]
        locator.intervald[MONTHLY] = [*locator.intervald[MONTHLY], 12]  # for some years in a small picture
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call,unused-ignore]

    def few_ticks(self, axes: Axes) -> None:
        """Use no more ticks than there is room for; dates and categories have their own."""
        count = 4 if self.narrow or _count_columns(axes) > 1 else 7
        if not isinstance(axes.xaxis.get_major_locator(), AutoDateLocator | FixedLocator):
            axes.xaxis.set_major_locator(MaxNLocator(count))
        axes.yaxis.set_major_locator(MaxNLocator(min(count, 5)))

    def draw_legend(self, figure: Figure) -> None:
        """Draw one legend above all panels, where it covers nothing."""
        found: dict[str, Any] = {}
        for axes in figure.axes:
            handles, labels = axes.get_legend_handles_labels()
            found |= dict(zip(labels, handles, strict=True))
        shown = [label for label in LEGEND if label in found] + [label for label in found if label not in LEGEND]
        handles, columns = [found[label] for label in shown], 2 if self.narrow else 4
        figure.legend(handles, shown, loc="outside upper left", ncols=columns, frameon=False, handlelength=1.6)


def _count_columns(axes: Axes) -> int:
    """Return how many panels stand side by side."""
    spec = axes.get_subplotspec()
    return 1 if spec is None else int(spec.get_geometry()[1])


class InputSweep(NamedTuple):
    """Rows along one input, the others held, and where they are on the axis."""

    at: Any  # numbers, datetime64, or category texts
    rows: Array  # encoded, in the units of the data


class Band(NamedTuple):
    """A mean and the half-width of its 95 % band."""

    mean: Array
    reach: Array


class View:
    """A fitted model with its training rows; what was computed for one drawing is kept for the next."""

    def __init__(self, fitted: Fitted) -> None:
        self.fitted, self.target = fitted, shorten(fitted.training.target_name or "the target")
        self.observed = fitted.training.y
        self.columns: tuple[Column, ...] = fitted.columns.encoding.columns
        self.encoded = [column for column in self.columns for _ in column.encoded_names]  # by encoded column
        varying = tuple(column for column in self.columns if np.ptp(self.values(column), axis=0).any())
        self.varying = varying or self.columns[:1]
        # One input of numbers or dates: a curve says it all.
        self.is_curve = len(self.varying) == 1 and not isinstance(self.varying[0], Categories)
        self.subject = subject_of(fitted)
        self.curves = Curves(self.subject)
        self.sweep, self.prediction, self.part = cache(self._sweep), cache(self._predict), cache(self._follow_part)

    @staticmethod
    def of(fitted: Fitted | View) -> View:
        """Look at a fit; nothing is computed twice for one that is looked at already."""
        return fitted if isinstance(fitted, View) else View(fitted)

    def label(self, column: Column) -> str:
        """Return what an axis is called."""
        return column.name if self.fitted.columns.has_names else f"column {column.name}"

    def places(self, column: Column) -> list[int]:
        """Return the numbers of the encoded columns of a column."""
        return [place for place, owner in enumerate(self.encoded) if owner is column]

    def values(self, column: Column) -> Array:
        """Return a column of the training rows as numbers; one of categories has a number for each."""
        return self.fitted.training.X[:, self.places(column)]

    def positions(self, column: Column) -> Any:
        """Return where the training rows are on the axis of a column."""
        values = self.values(column)
        return column.places(values) if isinstance(column, Categories) else axis_values(column, values[:, 0])

    def most_common(self, column: CategoryColumn | OneHotColumn) -> int:
        """Return the place of the category that most training rows have."""
        return int(np.bincount(column.places(self.values(column)), minlength=len(column.levels)).argmax())

    def _sweep(self, column: Column) -> InputSweep:
        """Return rows along one column, others at their median or most common level; a single one beyond its ends."""
        typical = np.median(self.fitted.training.X, axis=0)
        for other in self.columns:
            if isinstance(other, Categories):
                typical[self.places(other)] = other.sweep()[self.most_common(other)]
        if isinstance(column, Categories):
            at: Any = np.array(column.levels, dtype=object)
            along = column.sweep()
        else:
            numbers = self.values(column)[:, 0]
            low, high = float(numbers.min()), float(numbers.max())
            after = FORECAST if self.is_curve else 0.0
            before, after = (0.0, after) if isinstance(column, DateColumn) else (after / 2, after / 2)
            count = int(np.clip(4 * len(np.unique(numbers)), 600, FINEST)) if self.is_curve else 200
            along = np.linspace(low - before * (high - low), high + after * (high - low), count)[:, None]
            at = axis_values(column, along[:, 0])
        rows = np.tile(typical, (len(along), 1))
        rows[:, self.places(column)] = along
        return InputSweep(at, rows)

    def _predict(self, column: Column, include_noise: bool) -> Band:
        """Return what the model predicts along a column."""
        mean, std = self.fitted.predict(self.sweep(column).rows, include_noise)
        return Band(mean, WITHIN_95 * std)

    def _follow_part(self, position: int, column: Column) -> Band:
        """Return one component along a column, less its average over the rows."""
        rows = self.fitted.training.scale(self.sweep(column).rows)
        component = self.curves.components[position]
        found = self.curves.at(component, rows)
        mean = found.mean.copy()
        if abs(component.certainty - component.certainty_beyond) > MOVED:
            mean[self.subject.mixture.beyond(rows) > 0] = np.nan  # other kernels forecast: the curve would break off
        return Band(mean, WITHIN_95 * np.sqrt(found.variance))

    @property
    def left_out(self) -> Array:
        """What each training row is predicted as from all the others."""
        return self.fitted.training.level + self.subject.units.y_scale * self.subject.left_out.mean

    def find_columns(self, position: int) -> list[Column]:
        """Return the table columns that a component looks at."""
        used = set(self.curves.components[position].columns)
        return [column for column in self.columns if used.intersection(self.places(column))]


def shorten(name: str) -> str:
    """Return a name as there is room for beside an axis."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def axis_values(column: Column, numbers: Array) -> Any:
    """Return encoded numbers as an axis shows them: dates for a column of dates."""
    return column.timeline.moments(numbers) if isinstance(column, DateColumn) else numbers


def draw_band(axes: Axes, at: Any, mean: Array, reach: Array, label: str | None) -> None:
    """Shade mean plus and minus reach."""
    axes.fill_between(at, mean - reach, mean + reach, color=BLUE, alpha=0.18, linewidth=0, label=label)


def draw_points(axes: Axes, at: Any, values: Array, color: str, label: str | None) -> None:
    """Draw rows as dots; of very many, an evenly spread choice: more would only blacken the paper."""
    if len(values) > MOST_POINTS:
        chosen = np.linspace(0, len(values) - 1, MOST_POINTS).astype(int)
        at, values = np.asarray(at)[chosen], values[chosen]
    size = float(np.clip(900 / max(1, len(values)), 1.5, 14))
    axes.scatter(at, values, s=size, color=color, linewidths=0, alpha=0.85, label=label, zorder=2.5)


def draw_beyond(axes: Axes, data: Any, at: Any) -> None:
    """Shade what lies beyond the data."""
    label: str | None = "beyond the data"
    for start, end in ((at[0], data.min()), (data.max(), at[-1])):
        if end > start:
            axes.axvspan(start, end, color=YELLOW, alpha=0.2, linewidth=0, zorder=0, label=label)
            label = None
    margin = (at[-1] - at[0]) / 100  # the first point should not be cut in half
    axes.set_xlim(at[0] - margin if at[0] == data.min() else at[0], at[-1])
