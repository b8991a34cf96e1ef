"""Pictures of functionals: K against distance beside the nearest SE and Matern 3/2, and its spectrum."""

from __future__ import annotations

from matplotlib import rc_context
from matplotlib.figure import Figure

from mercer.explain.functionals import FunctionalExplanation
from mercer.report.view import BLUE, GREY, ORANGE, STYLE, Paper, few_ticks


def shape_figure(shape: FunctionalExplanation, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw both panels, beside each other where there is room."""
    paper = Paper(width, density)
    with rc_context(STYLE):
        figure = paper.figure(2, 1 if paper.narrow else 2, height=0.7)
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
        few_ticks(left, paper)
        few_ticks(right, paper)
        figure.canvas.draw()
    return figure
