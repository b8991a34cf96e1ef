"""The report of a classifier: a short page."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from mercer.explain.classes import MOST_COLUMNS, ClassExplanation, explain_classes
from mercer.report import check_place, write_whole
from mercer.report.html import LIBRARIES, Picture, template_environment
from mercer.report.networks import shape_figure
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
    told = explain_classes(fitted) if explanation is None else explanation
    environment = template_environment()
    css = environment.get_template("report.css").render()
    pictures: dict[str, Any] = {
        "relevance": Picture(
            "relevance", "What counts", told.relevance_sentence, partial(relevance_figure, told)
        ).html()
        if told.relevance
        else "",
        "functionals": [
            Picture(f"shape{place}", "The shape of the kernel", shape.sentence, partial(shape_figure, shape)).html()
            for place, shape in enumerate(told.functionals)
        ],
    }
    return environment.get_template("classes.html").render(
        explanation=told, css=Markup(css), pictures=pictures, usage=_usage(fitted), protocol=_protocol(fitted)
    )


def relevance_figure(told: ClassExplanation, *, width: int = 1200, density: int | None = None) -> Figure:
    """Draw the shares of the columns that count most as bars."""
    paper = Paper(width, density)
    shown = told.relevance[:MOST_COLUMNS]
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
    encoding = fitted.columns.encoding
    row: dict[str, Any] = {}
    place = 0
    for column in encoding.columns:
        width = len(column.encoded_names)
        values = fitted.training.X[-1, place : place + width]
        if isinstance(column, CategoryColumn):
            row[column.name] = str(column.levels[int(np.argmax(values))])
        elif isinstance(column, DateColumn):
            row[column.name] = str(column.timeline.moments(values)[0].astype("datetime64[s]")).removesuffix("T00:00:00")
        else:
            row[column.name] = float(f"{values[0]:.6g}")
        place += width
    if fitted.columns.named:
        new, imports = f"pd.DataFrame([{json.dumps(row, ensure_ascii=False)}])", "import mercer, pandas as pd"
    else:
        new, imports = json.dumps([list(row.values())]), "import mercer"
    return "\n".join([
        imports, 'model = mercer.load("model.mercer")', f"new = {new}",
        "print(model.predict(new), model.predict_proba(new))", "print(model.explain())",
    ])  # fmt: skip


def _protocol(fitted: FittedClasses) -> list[tuple[str, str]]:
    options = fitted.options
    kernel = options["kernel"] if isinstance(options["kernel"], str) else repr(options["kernel"])
    versions = ", ".join(f"{name} {version(name)}" for name in ("mercer", *LIBRARIES))
    return [
        ("Written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("Time to learn", f"{fitted.seconds:.1f} s"),
        ("Seed", str(options["random_state"])),
        ("Settings", f"kernel={kernel}, C={options['C']}, nu={options['nu']}"),
        ("Versions", f"{versions}, Python {platform.python_version()}"),
    ]
