"""Pictures of a fitted model: the fit itself, and each component of its kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mercer.kernels.domains import Array
from mercer.report.view import BLUE, GREY, INK, STYLE, Paper, View, draw_band, draw_beyond, draw_points
from mercer.writing import whole_file

if TYPE_CHECKING:
    from mercer.explain import ComponentExplanation, Explanation
    from mercer.model.fitted import Fitted

MOST_PANELS = 11


def fit_figure(
    fitted: Fitted | View, *, width: int = 1200, density: int | None = None, figure: Figure | None = None
) -> Figure:
    """Draw the fit at the training rows.

    One input of numbers or dates: data, mean, and the band that holds 95 % of new observations, with what lies beyond
    the data shaded. Otherwise: each observation against its prediction by all the others (leave-one-out), and the
    effect of every input with the others at their median (most common category). On a new `figure`, or on a given one.
    """
    view, paper = View.of(fitted), Paper(width, density, figure)
    if not view.is_curve:
        return _draw_effects(view, paper)
    column = view.varying[0]
    at, expected = view.sweep(column).at, view.prediction(column, include_noise=True)
    with paper.drawing(1, 1, height=0.8 if paper.narrow else 0.56) as figure:
        axes = figure.axes[0]
        draw_band(axes, at, expected.mean, expected.reach, "95 % of new observations")
        axes.plot(at, expected.mean, color=BLUE, linewidth=1.4, label="mean")
        draw_points(axes, view.positions(column), view.observed, INK, "data")
        draw_beyond(axes, view.positions(column), at)
        paper.label_axes(axes, column, view.label(column), view.target)
        paper.draw_legend(figure)
    return figure


def components_figure(
    fitted: Fitted | View, explanation: Explanation, *, width: int = 1200, density: int | None = None,
    figure: Figure | None = None,
) -> Figure:  # fmt: skip
    """Draw every component with its 95 % band, and what is left of the data for it as faint points.

    Each is drawn along one input: the only one, or the one it reacts to most, the others at their median.
    """
    view, paper = View.of(fitted), Paper(width, density, figure)
    shown = explanation.main_components[:MOST_PANELS]
    columns = 1 if paper.narrow or view.is_curve else 2
    wide = 0.3 if columns == 1 else 0.62
    with paper.drawing(len(shown), columns, height=0.55 if paper.narrow else wide) as figure:
        for axes, component in zip(figure.axes, shown, strict=True):
            _draw_component(axes, view, paper, explanation, component)
            axes.set_title(paper.wrap(component.sentence, columns))
            if view.is_curve and axes is not figure.axes[-1]:
                axes.set_xlabel("")
        paper.draw_legend(figure)
    return figure


def component_figure(
    fitted: Fitted | View,
    explanation: Explanation,
    component: ComponentExplanation,
    *,
    width: int = 1200,
    density: int | None = None,
) -> Figure:
    """Draw one component by itself, without a title."""
    view, paper = View.of(fitted), Paper(width, density)
    with paper.drawing(1, 1, height=0.6 if paper.narrow else 0.32) as figure:
        _draw_component(figure.axes[0], view, paper, explanation, component)
        paper.draw_legend(figure)
    return figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure to a file; its ending says which format."""
    with rc_context(STYLE), whole_file(path) as place:
        figure.savefig(place)


def _draw_effects(view: View, paper: Paper) -> Figure:
    effects = [(column, view.prediction(column, include_noise=False)) for column in view.varying]
    shown = sorted(effects, key=lambda effect: -float(np.ptp(effect[1].mean)))[:MOST_PANELS]
    columns = 3 if len(shown) > 3 else 2
    columns = 1 if paper.narrow else columns
    with paper.drawing(1 + len(shown), columns, height=0.72 if paper.narrow else 0.85) as figure:
        axes, mean, observed = figure.axes[0], view.left_out, view.observed
        draw_points(axes, mean, observed, BLUE, None)
        ends = [min(mean.min(), observed.min()), max(mean.max(), observed.max())]
        axes.plot(ends, ends, color=GREY, linewidth=0.8, zorder=1)
        axes.set_title(paper.wrap("Leave-one-out check", 1 if paper.narrow else 3))
        axes.set_xlabel(f"predicted {view.target}")
        axes.set_ylabel(f"observed {view.target}")
        paper.few_ticks(axes)
        low = min(float(np.min(effect.mean - effect.reach)) for _, effect in shown)
        high = max(float(np.max(effect.mean + effect.reach)) for _, effect in shown)
        for axes, (column, effect) in zip(figure.axes[1:], shown, strict=True):
            _curve_or_bars(axes, view.sweep(column).at, effect.mean, effect.reach)
            paper.label_axes(axes, column, view.label(column), view.target)
            axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        some = f" (the {len(shown)} largest of {len(effects)})" if len(effects) > len(shown) else ""
        footer = f"{view.target} along each input{some}, the others at their median or most common category"
        figure.supxlabel(paper.wrap(footer, 1), fontsize=8, color=GREY)
    return figure


def _draw_component(
    axes: Axes, view: View, paper: Paper, explanation: Explanation, component: ComponentExplanation
) -> None:
    """Draw a component along the input it reacts to most, and the data less the other components."""
    candidates = view.find_columns(component.position) or list(view.varying[:1])
    drawn = [(column, view.part(component.position, column)) for column in candidates]
    column, curve = max(drawn, key=lambda each: float(np.nanmax(each[1].mean) - np.nanmin(each[1].mean)))
    own = np.array(component.mean)
    fitted = explanation.level + np.sum([each.mean for each in explanation.components], axis=0)
    left = own + view.observed - fitted
    at = view.sweep(column).at
    draw_points(axes, view.positions(column), left, GREY, "data less the other components")
    _curve_or_bars(axes, at, curve.mean, curve.reach, "component")
    if view.is_curve:
        draw_beyond(axes, view.positions(column), at)
    paper.label_axes(axes, column, view.label(column), f"change in {view.target}")


def _curve_or_bars(axes: Axes, at: Any, mean: Array, reach: Array, label: str | None = None) -> None:
    if at.dtype == object:  # categories
        axes.errorbar(
            range(len(at)), mean, yerr=reach, fmt="o", color=BLUE, markersize=5, capsize=4, linewidth=1.6, label=label,
            zorder=3,
        )  # fmt: skip
        return
    draw_band(axes, at, mean, reach, None if label is None else "its 95 % band")
    axes.plot(at, mean, color=BLUE, linewidth=1.3, label=label)
