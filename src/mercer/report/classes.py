"""The report of a classifier: a short page."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from mercer.explain.classes import MOST_COLUMNS, ClassExplanation, explain_classes
from mercer.report.html import draw_picture, draw_shapes, list_origin, list_versions, render, write_date, write_usage
from mercer.report.view import BLUE, Paper
from mercer.tables.columns import Categories, DateColumn
from mercer.writing import check_place, write_text

if TYPE_CHECKING:
    from mercer.model.classes import FittedClasses


def write_class_report(fitted: FittedClasses, path: str | Path, explanation: ClassExplanation | None = None) -> None:
    """Write the report of a fitted classifier; give its explanation if you have it already."""
    check_place(Path(path))
    write_text(class_report_html(fitted, explanation), path)


def class_report_html(fitted: FittedClasses, explanation: ClassExplanation | None = None) -> str:
    """Return the page."""
    found = explain_classes(fitted) if explanation is None else explanation
    relevance = ""
    if found.relevance:
        draw = partial(relevance_figure, found)
        relevance = draw_picture("relevance", "What counts", found.relevance_sentence, draw)
    row: dict[str, Any] = {}  # the last one, for the example
    values, options = list(fitted.training.X[-1]), fitted.options
    for column in fitted.columns.encoding.columns:
        own, values = values[: len(column.encoded_names)], values[len(column.encoded_names) :]
        if isinstance(column, Categories):
            row[column.name] = str(column.levels[int(np.argmax(own))])
        else:
            row[column.name] = write_date(column, own[0]) if isinstance(column, DateColumn) else float(f"{own[0]:.6g}")
    kernel = options["kernel"] if isinstance(options["kernel"], str) else repr(options["kernel"])
    return render(
        "classes.html",
        explanation=found,
        pictures={"relevance": relevance, "functionals": draw_shapes(found.functionals)},
        usage=write_usage(row, fitted.columns.has_names, "print(model.predict(new), model.predict_proba(new))"),
        protocol=[
            *list_origin(fitted.seconds, options["random_state"]),
            ("Settings", f"kernel={kernel}, C={options['C']}, nu={options['nu']}"),
            ("Versions", list_versions()),
        ],
    )


def relevance_figure(explanation: ClassExplanation, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw the shares of the columns that count most as bars."""
    paper, shown = Paper(width, density), explanation.relevance[:MOST_COLUMNS]
    tall = max(1.2, 0.26 * len(shown) + 0.7)
    with paper.drawing(1, 1, height=tall * paper.dots / paper.width) as figure:
        axes, places = figure.axes[0], np.arange(len(shown))[::-1]
        axes.barh(places, [100.0 * each.share for each in shown], color=BLUE, height=0.62)
        names = [each.column if len(each.column) <= 28 else each.column[:27] + "…" for each in shown]
        axes.set_yticks(places, names)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("share of what shuffling costs, %")
    return figure
