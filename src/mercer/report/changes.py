"""Pictures of a change: the series with its transitions and each regime's own prediction, or a map of the surface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mercer.explain.changes import change_in
from mercer.explain.factors import open_gates
from mercer.kernels.domains import Array
from mercer.report.view import BLUE, GREY, INK, ORANGE, Paper, View, axis_values, draw_beyond, draw_points, shorten
from mercer.tables.columns import Categories, DateColumn

if TYPE_CHECKING:
    from mercer.explain.changes import Change
    from mercer.model.fitted import Fitted
    from mercer.tables.columns import Column

COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
FEW = 1e-3  # a share below which a regime says nothing of its own
MOST_ROWS = 1500  # dots on a map


def change_figure(fitted: Fitted | View, *, width: int = 1200, density: int | None = None) -> Figure | None:
    """Draw where behaviour changes; None where the kernel has no change surface, or one that cannot be drawn."""
    view, paper = View.of(fitted), Paper(width, density)
    change = change_in(view.fitted)
    if change is None:
        return None
    on = [view.encoded[place] for place in change.surface.columns]
    if any(isinstance(column, Categories) for column in on) or len(on) > 2:
        return None
    if len(on) == 2:
        return _draw_maps(view, paper, change, on)
    if view.is_curve:
        return _draw_series(view, paper, change, on[0])
    with paper.drawing(1, 1, height=0.5 if paper.narrow else 0.3) as figure:
        _draw_shares(figure.axes[0], view, paper, change, on[0])
        paper.draw_legend(figure)
    return figure


def _draw_series(view: View, paper: Paper, change: Change, column: Column) -> Figure:
    at, mean = view.sweep(column).at, view.prediction(column, include_noise=True).mean
    with paper.drawing(2, 1, height=0.55 if paper.narrow else 0.32) as figure:
        axes = figure.axes[0]
        _shade(axes, change, column)
        draw_points(axes, view.positions(column), view.observed, GREY, "data")
        axes.plot(at, mean, color=INK, linewidth=1.0, label="mean", zorder=3)
        for regime, own in enumerate(_own_predictions(view, change, column)):
            name = f"regime {regime + 1}" + ("" if paper.narrow else f", {change.regimes[regime].where}")
            axes.plot(at, own, color=COLOURS[regime % len(COLOURS)], linewidth=1.6, label=name, zorder=3.5)
        span = float(np.ptp(view.observed)) or 1.0
        axes.set_ylim(view.observed.min() - 0.15 * span, view.observed.max() + 0.15 * span)
        draw_beyond(axes, view.positions(column), at)
        paper.label_axes(axes, column, "", view.target)
        _draw_shares(figure.axes[1], view, paper, change, column)
        paper.draw_legend(figure)
    return figure


def _own_predictions(view: View, change: Change, column: Column) -> list[Array]:
    """What each regime would say by itself: E f_i = E[s_i f_i] / s_i, and what holds everywhere; NaN where silent."""
    subject, rows = view.subject, view.sweep(column).rows
    shares, scaled = change.shares(rows), view.fitted.training.scale(rows)
    regimes = shares.shape[1]
    everywhere, own = np.full(len(rows), subject.fitted_level), np.zeros((regimes, len(rows)))
    for part in subject.parts:
        mean = subject.part_at(part, scaled).mean
        _, gates = open_gates(part.kernel)
        outer = [regime for surface, regime in gates if surface.kind == change.surface.kind]
        if outer:
            own[outer[0]] += mean
        else:
            everywhere = everywhere + mean
    with np.errstate(divide="ignore", invalid="ignore"):
        return [np.where(shares[:, i] > FEW, everywhere + own[i] / shares[:, i], np.nan) for i in range(regimes)]


def _shade(axes: Axes, change: Change, column: Column) -> None:
    label: str | None = "95 % interval of the change"
    for crossing in change.crossings:
        low, at, high = axis_values(column, np.array([crossing.low, crossing.at, crossing.high]))
        axes.axvspan(low, high, color=ORANGE, alpha=0.15, linewidth=0, zorder=0, label=label)
        axes.axvline(at, color=ORANGE, linewidth=0.9, linestyle="--", zorder=1)
        label = None


def _draw_shares(axes: Axes, view: View, paper: Paper, change: Change, column: Column) -> None:
    """How much each regime holds, with two standard deviations."""
    at, rows = view.sweep(column).at, view.sweep(column).rows
    shares, spread = change.shares(rows), change.shares_std(rows)
    _shade(axes, change, column)
    for regime in range(shares.shape[1]):
        color = COLOURS[regime % len(COLOURS)]
        low, high = (np.clip(shares[:, regime] + side * spread[:, regime], 0, 1) for side in (-2, 2))
        axes.fill_between(at, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(at, shares[:, regime], color=color, linewidth=1.3)
    axes.set_xlim(at[0], at[-1])
    axes.set_ylim(-0.03, 1.03)
    paper.label_axes(axes, column, view.label(column), "share of the regime")


def _draw_maps(view: View, paper: Paper, change: Change, columns: list[Column]) -> Figure:
    """Draw the share of the last regime over both columns with the rows on it, and how sure it is."""
    regime, beside = len(change.regimes) - 1, 1 if paper.narrow else 2
    x, y, share = change.mesh(regime, 80)
    grid = np.zeros((share.size, 1 + max(change.surface.columns)))
    first, second = np.meshgrid(x, y)
    grid[:, change.surface.columns[0]], grid[:, change.surface.columns[1]] = first.ravel(), second.ravel()
    spread = change.shares_std(grid)[:, regime].reshape(share.shape)
    east, north = (axis_values(column, ends) for column, ends in zip(columns, (x, y), strict=True))
    titles = (f"share of regime {regime + 1}; line: one half", "its standard deviation")
    with paper.drawing(2, beside, height=0.85) as figure:
        maps = list(figure.axes)  # without the scales that are added to them
        for axes, values, title, top in zip(maps, (share, spread), titles, (1.0, None), strict=True):
            shown = axes.pcolormesh(
                east, north, values, cmap="cividis", vmin=0, vmax=top, shading="auto", rasterized=True
            )
            figure.colorbar(shown, ax=axes, shrink=0.9)
            axes.contour(east, north, share, levels=[0.5], colors=[ORANGE], linewidths=1.4)
            axes.set_title(paper.wrap(title, beside))
            axes.set_xlabel(shorten(view.label(columns[0])))
            axes.set_ylabel(shorten(view.label(columns[1])))
            if isinstance(columns[0], DateColumn):
                paper.date_ticks(axes)
            axes.grid(visible=False)
            paper.few_ticks(axes)
        chosen = np.linspace(0, len(view.observed) - 1, min(MOST_ROWS, len(view.observed))).astype(int)
        across, up = (np.asarray(view.positions(column))[chosen] for column in columns)
        maps[0].scatter(across, up, s=4, color="white", edgecolors=INK, linewidths=0.3, alpha=0.8)
    return figure
