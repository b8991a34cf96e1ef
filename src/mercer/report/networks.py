"""Pictures of a network in the kernel: its layers with what flows through them, and what each unit is like."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mercer.explain.functionals import FunctionalExplanation
from mercer.explain.networks import NetworkExplanation, UnitCurve, networks_of, unit_curves
from mercer.report.view import BLUE, GREY, GROUND, INK, ORANGE, STYLE, Paper, View

if TYPE_CHECKING:
    from mercer.model.fitted import Fitted

SIGNS = {"primitive": "", "linear": "+", "product": "×", "activation": "f"}
THICKEST = 4.0  # points
FAINT = 0.002  # of the flow: thinner lines are not drawn
MOST_UNITS = 24  # of a layer: more would be a grey wall
PER_ROW = {True: 4, False: 8}  # small pictures of units, narrow and wide


def network_figure(
    fitted: Fitted | View,
    network: NetworkExplanation,
    *,
    width: int = 1200,
    density: int | None = None,
    most_units: int = MOST_UNITS,
) -> Figure:
    """Draw the layers from left to right (from top to bottom where it is narrow), lines as thick as what flows."""
    paper = Paper(width, density)
    layers = [("primitives", "primitive", network.primitive_flows)]
    layers += [(layer.symbol, layer.kind, layer.units) for layer in network.layers]
    places: list[dict[int, tuple[float, float]]] = []  # of the units that are drawn, layer by layer
    for depth, (_, _, units) in enumerate(layers):
        chosen = _find_largest(units, most_units)
        across = {unit: (rank + 0.5) / len(chosen) for rank, unit in enumerate(chosen)}
        if paper.narrow:
            places.append({unit: (place, -float(depth)) for unit, place in across.items()})
        else:
            places.append({unit: (float(depth), 1.0 - place) for unit, place in across.items()})
    widest = max(map(len, places))
    tall = 0.62 * len(layers) + 0.9 if paper.narrow else max(2.2, 0.42 * widest + 0.6)
    with paper.drawing(1, 1, height=tall * paper.dots / paper.width) as figure:
        axes = figure.axes[0]
        axes.set_axis_off()
        for depth, layer in enumerate(network.layers):
            _draw_lines(axes, places[depth], places[depth + 1], layer.lines)
        for depth, (symbol, kind, units) in enumerate(layers):
            _draw_units(axes, places[depth], units, kind, widest)
            drawn = len(places[depth])
            name = symbol if drawn == len(units) else f"{symbol} ({drawn} of {len(units)} drawn)"
            if paper.narrow:
                axes.text(-0.02, -float(depth), name, fontsize=8, ha="right", va="center", color=GREY)
            else:
                axes.text(float(depth), -0.04, name, fontsize=8, ha="center", va="top", color=GREY)
        names = {unit: network.primitives[unit] for unit in places[0]}
        long = max(map(len, names.values())) > 6 or len(names) > 9
        for unit, (x, y) in places[0].items():
            if paper.narrow:
                axes.text(x, y + 0.22, names[unit], fontsize=7.5, color=INK, ha="left" if long else "center",
                          va="bottom", rotation=60 if long else 0, rotation_mode="anchor")  # fmt: skip
            else:
                axes.text(x - 0.1, y, names[unit], fontsize=8, color=INK, ha="right", va="center")
        axes.set_xlim((-0.28, 1.0) if paper.narrow else (-0.55, len(layers) - 0.75))
        axes.set_ylim((-len(layers) + 0.6, 0.6) if paper.narrow else (-0.12, 1.0))
    return figure


def _find_largest(units: tuple[float, ...], most: int) -> list[int]:
    return sorted(sorted(range(len(units)), key=lambda unit: -units[unit])[:most])


def _draw_lines(
    axes: Axes,
    before: dict[int, tuple[float, float]],
    after: dict[int, tuple[float, float]],
    lines: tuple[tuple[int, int, float], ...],
) -> None:
    for start, end, flow in sorted(lines, key=lambda line: line[2]):
        if flow > FAINT and start in before and end in after:
            (x0, y0), (x1, y1) = before[start], after[end]
            strength = math.sqrt(flow)  # else all but a few lines would be hairlines
            axes.plot(
                [x0, x1], [y0, y1], color=BLUE, linewidth=max(0.4, THICKEST * strength),
                alpha=float(np.clip(0.15 + 0.7 * strength, 0.0, 0.85)), solid_capstyle="round", zorder=1,
            )  # fmt: skip


def _draw_units(
    axes: Axes, places: dict[int, tuple[float, float]], units: tuple[float, ...], kind: str, widest: int
) -> None:
    size = float(np.clip(1800 / widest, 60, 200))
    for unit, (x, y) in places.items():
        alive = units[unit] > FAINT
        axes.scatter(
            [x], [y], s=size, marker="s" if kind == "product" else "o", facecolors=BLUE if alive else "none",
            edgecolors=BLUE if alive else GREY, linewidths=1.0, zorder=2,
        )  # fmt: skip
        if SIGNS[kind] and size > 75:
            axes.text(x, y, SIGNS[kind], color=GROUND if alive else GREY, fontsize=9, ha="center",
                      va="center_baseline", zorder=3)  # fmt: skip


def units_figure(
    fitted: Fitted | View,
    network: NetworkExplanation,
    place: int,
    *,
    width: int = 1200,
    density: int | None = None,
    most_units: int = MOST_UNITS,
) -> Figure:
    """Draw the pattern of every unit as small pictures, layer by layer; `place` is the network's number."""
    view, paper = View.of(fitted), Paper(width, density)
    found = networks_of(view.subject)[place]
    layers = unit_curves(view.subject, found.scaled, network.primitives)
    flows = [network.primitive_flows, *(layer.units for layer in network.layers)]
    chosen = [
        (title, [curves[unit] for unit in _find_largest(units, most_units)])
        for (title, curves), units in zip(layers, flows, strict=True)
    ]
    across = PER_ROW[paper.narrow]
    rows = sum(math.ceil(len(curves) / across) for _, curves in chosen)
    several = len(view.subject.table_columns) > 1
    with rc_context(STYLE):
        inches = paper.width / paper.dots
        tall = rows * (0.95 if several else 0.82)
        figure = Figure(figsize=(inches, tall), dpi=paper.dots)
        row = 0
        for title, curves in chosen:
            for number, curve in enumerate(curves):
                down, right = row + number // across, number % across
                high, wide = 1.0 / rows, 1.0 / across
                box = (right * wide + 0.04 * wide, 1.0 - (down + 0.94) * high, 0.9 * wide, 0.62 * high)
                axes = figure.add_axes(box)
                _draw_curve(axes, view, curve, title, several)
            row += math.ceil(len(curves) / across)
        figure.canvas.draw()
    return figure


def _draw_curve(axes: Axes, view: View, curve: UnitCurve, layer: str, several: bool) -> None:
    axes.axhline(0.0, color=GREY, linewidth=0.6)
    axes.plot(curve.at, curve.values, color=BLUE, linewidth=1.1)
    low, high = min(-0.15, float(curve.values.min())), max(1.0, float(curve.values.max()))
    axes.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    name = curve.name if layer == "Primitives" else f"{layer} · {curve.name}"
    along = f"\n{view.subject.columns[curve.column].name[:14]}" if several else ""
    axes.set_title(f"{name}{along}", fontsize=7.5, pad=2, color=ORANGE if layer == "Linear1" else INK)


def shape_figure(shape: FunctionalExplanation, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw both panels, beside each other where there is room."""
    paper = Paper(width, density)
    with paper.drawing(2, 1 if paper.narrow else 2, height=0.7) as figure:
        left, right = figure.axes
        left.plot(shape.distances, shape.nearest_se, color=GREY, linewidth=1.2, linestyle="--", label="nearest SE")
        (line,) = left.plot(shape.distances, shape.nearest_matern, color=ORANGE, linewidth=1.4, linestyle=":")
        line.set_label("nearest Matern 3/2")
        left.plot(shape.distances, shape.values, color=BLUE, linewidth=2.0, label="the kernel found")
        left.set_title("Correlation against distance")
        left.set_xlabel(shape.unit)
        left.legend(frameon=True, framealpha=0.85, edgecolor="none")
        left.set_xlim(0.0, shape.distances[-1])
        right.fill_between(shape.frequencies, 0.0, shape.spectrum, color=BLUE, alpha=0.25, linewidth=0)
        right.plot(shape.frequencies, shape.spectrum, color=BLUE, linewidth=1.6)
        right.set_title("Spectrum (largest: 1)")
        right.set_xlabel("frequency")
        right.set_xlim(0.0, shape.frequencies[-1])
        right.set_ylim(0.0, 1.05)
        paper.few_ticks(left)
        paper.few_ticks(right)
    return figure
