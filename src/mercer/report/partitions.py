"""A picture of which inputs act together: the probability of every pair to be in one group."""

from __future__ import annotations

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mercer.explain.partitions import PartitionExplanation
from mercer.report.view import BLUE, GREY, GROUND, INK, PALE, STYLE, Paper

LONGEST = {True: 9, False: 16}  # letters of a name beside the picture, narrow and wide
MOST_NUMBERS = {True: 7, False: 14}  # inputs up to which the probabilities are written into the cells
FAINT = 0.02  # probabilities below have no square: it would be a dot
CELL = {True: 0.42, False: 0.46}  # inches, where there is room


def partition_figure(found: PartitionExplanation, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw a square for each pair, below the diagonal: the fuller, the more probable that the two act together."""
    paper, count = Paper(width, density), len(found.inputs)
    names = [_shorten(name, LONGEST[paper.narrow]) for name in found.inputs]
    with rc_context(STYLE):
        inches = paper.width / paper.dots
        left, top = 0.1 + 0.075 * max(map(len, names)), 0.05
        cell = min(CELL[paper.narrow], (inches - left - 0.1) / (count - 1))
        below = 0.15 + 0.06 * max(map(len, names))
        tall = (count - 1) * cell + below + top
        figure = Figure(figsize=(inches, tall), dpi=paper.dots)
        side = (count - 1) * cell
        axes = figure.add_axes((left / inches, below / tall, side / inches, side / tall))
        _draw_cells(axes, found, paper)
        axes.set_xlim(0.0, count - 1.0)
        axes.set_ylim(float(count), 1.0)
        axes.set_xticks(np.arange(count - 1) + 0.5, names[:-1], rotation=35, ha="right", rotation_mode="anchor")
        axes.set_yticks(np.arange(1, count) + 0.5, names[1:])
        axes.tick_params(length=0, pad=3)
        for labels, inputs in ((axes.get_xticklabels(), found.inputs[:-1]), (axes.get_yticklabels(), found.inputs[1:])):
            for label, name in zip(labels, inputs, strict=True):
                label.set_color(GREY if name in found.idle else INK)
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        figure.canvas.draw()
    return figure


def _draw_cells(axes: Axes, found: PartitionExplanation, paper: Paper) -> None:
    """Draw the squares; their area, not only their colour, shows the probability."""
    count = len(found.inputs)
    for row in range(1, count):
        for column in range(row):
            chance = found.together[row][column]
            matters = not {found.inputs[row], found.inputs[column]} & set(found.idle)
            axes.add_patch(_square(column, row, 0.94, PALE))
            if chance >= FAINT:
                axes.add_patch(_square(column, row, 0.94 * float(np.sqrt(chance)), BLUE if matters else GREY))
            if count <= MOST_NUMBERS[paper.narrow]:
                axes.text(column + 0.5, row + 0.5, _short_percent(chance), fontsize=7, ha="center",
                          va="center_baseline", color=_ink_on(chance))  # fmt: skip


def _square(column: int, row: int, size: float, color: str) -> Rectangle:
    gap = (1.0 - size) / 2.0
    return Rectangle((column + gap, row + gap), size, size, facecolor=color, linewidth=0)


def _ink_on(chance: float) -> str:
    """Return a colour that can be read on the square of a probability."""
    if chance > 0.35:
        return GROUND
    return INK if chance >= 0.01 else GREY


def _short_percent(chance: float) -> str:
    if chance > 0.99:
        return ">99"
    return "<1" if chance < 0.01 else f"{100 * chance:.0f}"


def _shorten(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
