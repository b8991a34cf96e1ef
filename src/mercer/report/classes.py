"""The report of a classifier: a short page."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from mercer.explain.classes import MOST_COLUMNS, ClassExplanation, explain_classes
from mercer.report import check_place, write_whole
from mercer.report.html import Picture, draw_shapes, list_versions, template_environment, write_date, write_usage
from mercer.report.view import BLUE, STYLE, Paper
from mercer.tables.columns import CategoryColumn, DateColumn

if TYPE_CHECKING:
    from mercer.model.classes import FittedClasses


def write_class_report(fitted: FittedClasses, path: str | Path, explanation: ClassExplanation | None = None) -> None:
    """Write the report of a fitted classifier; give its explanation if you have it already."""
    check_place(Path(path))
    write_whole(class_report_html(fitted, explanation), Path(path))


def class_report_html(fitted: FittedClasses, explanation: ClassExplanation | None = None) -> str:
    """Return the page."""
    found = explain_classes(fitted) if explanation is None else explanation
    environment = template_environment()
    relevance = Picture("relevance", "What counts", found.relevance_sentence, partial(relevance_figure, found))
    return environment.get_template("classes.html").render(
        explanation=found,
        css=Markup(environment.get_template("report.css").render()),
        pictures={
            "relevance": relevance.html() if found.relevance else "",
            "functionals": draw_shapes(found.functionals),
        },
        usage=_usage(fitted),
        protocol=_protocol(fitted),
    )


def relevance_figure(explanation: ClassExplanation, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw the shares of the columns that count most as bars."""
    paper = Paper(width, density)
    shown = explanation.relevance[:MOST_COLUMNS]
    with rc_context(STYLE):
        inches = paper.width / paper.dots
        figure = paper.figure(1, 1, height=max(1.2, 0.26 * len(shown) + 0.7) / inches)
        axes = figure.axes[0]
        places = np.arange(len(shown))[::-1]
        axes.barh(places, [100.0 * each.share for each in shown], color=BLUE, height=0.62)
        names = [each.column if len(each.column) <= 28 else each.column[:27] + "…" for each in shown]
        axes.set_yticks(places, names)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("share of squared distances, %")
        figure.canvas.draw()
    return figure


def _usage(fitted: FittedClasses) -> str:
    row: dict[str, Any] = {}
    values = list(fitted.training.X[-1])
    for column in fitted.columns.encoding.columns:
        own, values = values[: len(column.encoded_names)], values[len(column.encoded_names) :]
        if isinstance(column, CategoryColumn):
            row[column.name] = str(column.levels[int(np.argmax(own))])
        else:
            row[column.name] = write_date(column, own[0]) if isinstance(column, DateColumn) else float(f"{own[0]:.6g}")
    return write_usage(row, fitted.columns.named, "print(model.predict(new), model.predict_proba(new))")


def _protocol(fitted: FittedClasses) -> list[tuple[str, str]]:
    options = fitted.options
    kernel = options["kernel"] if isinstance(options["kernel"], str) else repr(options["kernel"])
    return [
        ("Written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("Time to learn", f"{fitted.seconds:.1f} s"),
        ("Seed", str(options["random_state"])),
        ("Settings", f"kernel={kernel}, C={options['C']}, nu={options['nu']}"),
        ("Versions", list_versions()),
    ]
