"""Pictures of forecasts: what was, what comes, and the bands that hold it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mercer.forecast.findings import LEVELS, Outlook
from mercer.report.view import BLUE, GREY, INK, Paper, draw_points, shorten

FAINT = 0.16  # opacity of one band; they lie over each other
MOST_PANELS = 6


def forecast_figure(outlook: Outlook, target: str, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw one series with its forecast."""
    paper = Paper(width, density)
    with paper.drawing(1, 1, height=0.72 if paper.narrow else 0.46) as figure:
        _draw(figure.axes[0], outlook, paper)
        figure.axes[0].set_ylabel(shorten(target))
        paper.draw_legend(figure)
    return figure


def forecasts_figure(
    outlooks: Sequence[Outlook], target: str, *, width: int = 1200, density: int | None = None
) -> Figure:
    """Draw some series, each in a panel of its own."""
    paper, shown = Paper(width, density), outlooks[:MOST_PANELS]
    columns = 1 if paper.narrow or len(shown) == 1 else 2
    with paper.drawing(len(shown), columns, height=0.6 if columns == 2 else 0.5) as figure:
        for axes, outlook in zip(figure.axes, shown, strict=True):
            _draw(axes, outlook, paper)
            axes.set_title(paper.wrap(outlook.named.name, columns))
            axes.set_ylabel(shorten(target))
        paper.draw_legend(figure)
    return figure


def backtest_figure(summary: pd.DataFrame, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw errors by step, and the share of values inside each band with a dotted line where it should be."""
    paper, steps = Paper(width, density), summary.index.to_numpy()
    levels = [name.removeprefix("inside_") for name in summary.columns if name.startswith("inside_")]
    columns = 1 if paper.narrow else 2
    with paper.drawing(2, columns, height=0.6) as figure:
        error, held = figure.axes
        error.plot(steps, summary["mae"], color=BLUE, marker="o", markersize=4)
        error.set_ylabel("mean absolute error")
        error.set_ylim(bottom=0)
        for level, opacity in zip(levels, np.linspace(1.0, 0.45, len(levels)), strict=True):
            should = "as many as should be" if level == levels[0] else None
            held.axhline(float(level), color=GREY, linewidth=0.8, linestyle=":", label=should)
            inside = 100.0 * summary[f"inside_{level}"]
            held.plot(
                steps, inside, color=BLUE, alpha=opacity, marker="o", markersize=4, label=f"inside the {level} % band"
            )
        held.set_ylabel("values inside, %")
        held.set_ylim(0, 105)
        for axes in figure.axes:
            axes.set_xlabel("steps ahead")
            paper.few_ticks(axes)
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        paper.draw_legend(figure)
    return figure


def count_shown(outlook: Outlook) -> int:
    """Return how many of the last values a picture shows: all, or enough that the forecast is no sliver."""
    series = outlook.named.series
    return min(len(series.values), max(12 * len(outlook.ahead), 4 * round(series.season), 60))


def _draw(axes: Axes, outlook: Outlook, paper: Paper) -> None:
    series, ahead, count = outlook.named.series, outlook.ahead, count_shown(outlook)
    times, values = outlook.times[-count:].to_numpy(), series.values[-count:]
    at = np.concatenate([times[-1:], ahead.index.to_numpy()])
    for level in reversed(LEVELS):
        low, high = (np.append(values[-1], ahead[f"{side}_{level}"]) for side in ("lower", "upper"))
        label = "50, 80 and 95 % bands" if level == LEVELS[0] else None
        axes.fill_between(at, low, high, color=BLUE, alpha=FAINT, linewidth=0, label=label)
    axes.plot(times, values, color=GREY, linewidth=0.8, zorder=2)
    draw_points(axes, times, values, INK, "data")
    axes.plot(at, np.append(values[-1], ahead["mean"]), color=BLUE, linewidth=1.6, label="forecast", zorder=3)
    axes.axvline(times[-1], color=GREY, linewidth=0.8, linestyle=":")
    axes.margins(x=0.01)
    if outlook.named.calendar.timeline is not None:
        paper.date_ticks(axes)
    paper.few_ticks(axes)
