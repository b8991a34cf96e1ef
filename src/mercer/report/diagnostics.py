"""Pictures of what is left over, and of the way the search took."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mercer.explain.checks import CLEAR, correlations, periodogram
from mercer.explain.claims import WITHIN_95
from mercer.explain.search import UNFINISHED, path_to, winner_of
from mercer.kernels.domains import Array
from mercer.kernels.expression import contains
from mercer.kernels.network import Network
from mercer.report.view import BLUE, GREY, ORANGE, Paper, View, draw_points, shorten
from mercer.tables.columns import DateColumn

if TYPE_CHECKING:
    from mercer.model.fitted import Fitted

LAGS = 24


def residuals_figure(fitted: Fitted | View, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw the one-step errors: in order, their correlations and rhythms, and how they are distributed."""
    view, paper = View.of(fitted), Paper(width, density)
    subject = view.subject
    order, errors = subject.one_step_errors
    along = subject.order_column
    ordered = along is not None and len(errors) >= 6
    height = 0.55 if paper.narrow else 0.6
    with paper.drawing(4 if ordered else 2, 1 if paper.narrow else 2, height) as figure:
        places = iter(figure.axes)
        if ordered and along is not None:
            column = next(c for c in view.columns if view.label(c) == subject.columns[along].table_name)
            shown, dates = view.positions(column)[order], isinstance(column, DateColumn)
            _draw_in_order(next(places), shown, errors, shorten(view.label(column)), dates, paper)
            _draw_correlations(next(places), errors, paper)
            at, unit = subject.in_user_units(along)[order], subject.columns[along].unit
            _draw_rhythms(next(places), errors, at, unit, paper)
        else:
            means = subject.level + subject.units.y_scale * subject.mean_at(subject.data.X)[order]
            _draw_in_order(next(places), means, errors, f"fitted {view.target}", False, paper)
        _draw_distribution(next(places), errors, paper)
    return figure


def _draw_in_order(axes: Axes, at: Any, errors: Array, label: str, dates: bool, paper: Paper) -> None:
    for level in (-WITHIN_95, 0.0, WITHIN_95):
        axes.axhline(level, color=GREY, linewidth=0.8, linestyle="--" if level else "-")
    draw_points(axes, at, errors, BLUE, None)
    axes.set_title("Errors (95 % between the dashed lines)")
    axes.set_xlabel(label)
    axes.set_ylabel("in units of the band")
    if dates:
        paper.date_ticks(axes)
    paper.few_ticks(axes)


def _draw_correlations(axes: Axes, errors: Array, paper: Paper) -> None:
    found = correlations(errors, min(LAGS, len(errors) // 3))
    lags = np.arange(1, len(found) + 1)
    reach = WITHIN_95 / math.sqrt(len(errors))
    axes.axhspan(-reach, reach, color=BLUE, alpha=0.18, linewidth=0)
    axes.vlines(lags, 0.0, found, color=BLUE, linewidth=2.0)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.set_title("Correlation with earlier errors")
    axes.set_xlabel("rows apart")
    axes.set_ylabel("correlation")
    most = max(0.5, float(np.abs(found).max()) * 1.1)
    axes.set_ylim(-most, most)
    paper.few_ticks(axes)


def _draw_rhythms(axes: Axes, errors: Array, at: Array, unit: str | None, paper: Paper) -> None:
    periods, power = periodogram(errors, at)
    axes.set_title("Rhythms in the errors")
    axes.set_xlabel(f"period{f' ({unit})' if unit else ''}")
    axes.set_ylabel("share of variance")
    if not len(power):
        return
    # The level that the largest peak passes with probability CLEAR in pure noise: see checks.period.
    at_one = -math.expm1(math.log1p(-CLEAR) / len(power))
    limit = 1.0 - at_one ** (2.0 / (len(errors) - 3))
    axes.vlines(periods, 0.0, power, color=BLUE, linewidth=1.2)
    axes.axhline(limit, color=ORANGE, linewidth=1.0, linestyle="--")
    axes.set_xscale("log")
    axes.set_ylim(0.0, 1.15 * max(limit, float(power.max())))
    ticks = _log_ticks(float(periods.min()), float(periods.max()), 4 if paper.narrow else 5)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.minorticks_off()
    axes.yaxis.set_major_locator(MaxNLocator(4))


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers between low and high: 1, 2, 5, 10, 20 ... or fewer."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            return ticks
    return ticks[:: -(-len(ticks) // most)]


def _draw_distribution(axes: Axes, errors: Array, paper: Paper) -> None:
    most = max(3.5, float(np.abs(errors).max()) * 1.05)
    bins = int(np.clip(math.sqrt(len(errors)) * 1.5, 7, 40))
    axes.hist(errors, bins=bins, range=(-most, most), density=True, color=BLUE, alpha=0.45, linewidth=0, label=None)
    grid = np.linspace(-most, most, 121)
    axes.plot(grid, np.exp(-0.5 * grid**2) / math.sqrt(2 * math.pi), color=ORANGE, linewidth=1.4)
    axes.set_title("Distribution, and the bell curve it should be")
    axes.set_xlabel("error in units of the band")
    axes.set_ylabel("density")
    paper.few_ticks(axes)


def search_figure(fitted: Fitted | View, score: str, *, width: int = 1200, density: int | None = None) -> Figure | None:
    """Draw every kernel that was tried, by depth and by how far it is behind the winner; None without a search."""
    found, paper = View.of(fitted).fitted, Paper(width, density)
    candidates, winner = found.candidates, winner_of(found.candidates, found.kernel)
    sampled = any(c.step.kind == "partition" for c in candidates)
    if winner is None or sampled or contains(found.kernel, Network):  # no way leads from one start or sample to another
        return None
    best = candidates[winner].score
    with paper.drawing(1, 1, height=0.8 if paper.narrow else 0.45) as figure:
        axes = figure.axes[0]
        for unfinished, color, label in ((False, BLUE, "finished"), (True, GREY, "left behind in the race")):
            at, scores, lines = [], [], []
            for number, each in enumerate(candidates):
                if (each.status in UNFINISHED) is not unfinished or not math.isfinite(each.score):
                    continue
                # Spread sideways, in a fixed way, so that dots of equal score can be seen.
                at.append(each.depth + 0.5 * ((number * 0.618034) % 1.0 - 0.5))
                scores.append(each.score - best)
                if each.interval is not None and math.isfinite(each.scores[0]):  # from the certain end to the possible
                    lines.append((at[-1], each.scores[0] - best, each.scores[1] - best))
            if lines:
                axes.vlines(*zip(*lines, strict=True), color=color, linewidth=0.8, alpha=0.6)
            if at:
                axes.scatter(at, scores, s=9, color=color, linewidths=0, alpha=0.6, label=label)
        way = [candidates[number] for number in path_to(candidates, winner)]
        axes.plot([c.depth for c in way], [c.score - best for c in way], color=ORANGE, marker="o", markersize=5,
                  linewidth=1.4, label="the way to the winner")  # fmt: skip
        axes.set_yscale("symlog", linthresh=10.0, linscale=0.6)
        behind = [end - best for c in candidates for end in c.scores if math.isfinite(end)]
        top, bottom = min(0.0, *behind), max(1.0, *behind)
        ticks = (-100, -10, 0, 10, 100, 1000, 10000, 100000)
        axes.set_yticks([tick for tick in ticks if top * 1.2 <= tick <= bottom * 1.2])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.minorticks_off()
        axes.set_ylim(bottom * 1.3, top - 3.0)  # the best is at the top
        axes.set_xlabel(
            f"steps from {'the network' if contains(candidates[0].expression, Network) else 'a base kernel'}"
        )
        axes.set_ylabel(f"{score} behind" if paper.narrow else f"{score} behind the winner")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6 if paper.narrow else 12))
        axes.set_xlim(-0.5, max(c.depth for c in candidates) + 0.5)
        paper.draw_legend(figure)
    return figure
