"""Documents -> pages: what the templates are given."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from mercer.app import forms
from mercer.app.forms import Form, Problems
from mercer.app.policy import AppPolicy
from mercer.app.store import Document
from mercer.writing import json_for_script

SECONDS = {10: "10 seconds: a first look", 60: "1 minute", 600: "10 minutes", 3600: "1 hour"}
UNSAID: dict[str, Any] = {
    "sheet": "", "decimal": "", "separator": "", "encoding": "", "header": "", "keep_rows": False, "day_first": None,
    "kinds": {}, "exclude": [],
}  # fmt: skip


MANY = 8  # columns: more are not chosen one by one
READING = {"sheet", "decimal", "day_first", "separator", "encoding", "header", "keep_rows", "kinds"}


class Pages:
    """Fills in the templates."""

    def __init__(self, base: str, policy: AppPolicy) -> None:
        self.base, self.policy = base, policy
        self.environment = Environment(
            loader=PackageLoader("mercer.app"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self.environment.filters |= {"ago": write_ago, "percent": write_percent, "size": write_size}
        self.environment.filters |= {"script": embed_data, "pairs": pair, "count": write_count}
        self.environment.filters |= {"labelled": forms.label_options}
        self.environment.globals |= {"base": base, "labels": forms.LABELS, "first": forms.first}

    def _fill(self, template: str, status: int = 200, **content: Any) -> HTMLResponse:
        return HTMLResponse(self.environment.get_template(template).render(**content), status)

    def message(self, sentence: str, status: int) -> HTMLResponse:
        """Return a page with one sentence."""
        return self._fill("message.html", status, sentence=sentence)

    def home(
        self, tables: Sequence[Document], models: Sequence[Document], problems: Problems | None = None,
        chosen: Sequence[str] = (),
    ) -> HTMLResponse:  # fmt: skip
        """Return the first page; with the models that were chosen to be compared, where they cannot be."""
        return self._fill(
            "home.html", 422 if problems else 200, tables=tables, models=models, most=self.policy.most_bytes,
            days=self.policy.kept_seconds / 86400, problems=problems or {}, chosen=chosen,
        )  # fmt: skip

    def table(self, document: Document, reading: Document | None, form: Form, problems: Problems) -> HTMLResponse:
        """Return the page of a table; with what was filled in and what is wrong about it."""
        if document.get("problem"):
            problems = {document.get("field") or "file": document["problem"]} | problems
        listed = list_kinds(document, reading)[: self.policy.most_columns]
        offered = forms.list_fields(Path(document["file"]).suffix, bool(listed), reading is not None)
        problems = {field if field in offered else "file": sentence for field, sentence in problems.items()}
        content: dict[str, Any] = {
            "document": document, "problems": problems, "form": form, "options": UNSAID | document["options"],
            "offered": offered, "kinds": listed, "sheets": (reading or document).get("sheets", []),
            "folded_out": reading is None or bool(problems.keys() & READING),
        }  # fmt: skip
        if reading is not None:
            columns = reading["columns"][: self.policy.most_columns]
            content |= {
                "reading": reading, "columns": columns, "many": MANY,
                "target": forms.first(form, "target") or reading["target"],
                "inputs": form.get("inputs", []) if form.get("seconds") else [each["name"] for each in columns],
                "seconds": forms.first(form, "seconds") or str(self.policy.usual_seconds),
                "choices": [(str(each), SECONDS.get(each, f"{each} s")) for each in self.policy.seconds_choices],
                "candidates": [each for each in columns if each["kind"] != "date"],
            }  # fmt: skip
        return self._fill("table.html", 422 if problems and form else 200, separators=forms.SEPARATORS,
                          encodings=forms.ENCODINGS, has_reading=reading is not None, **content)  # fmt: skip

    def model(
        self, state: Document, others: Sequence[Document], form: Form | None = None,
        problems: Problems | None = None, prediction: Mapping[str, Any] | None = None,
    ) -> HTMLResponse:  # fmt: skip
        """Return the page of a model: its search while that goes on, what was found, and what can be asked of it."""
        template = "model.html" if state["status"] == "done" else "search.html"
        return self._fill(
            template, 422 if problems else 200, state=state, others=others, form=form or {}, problems=problems or {},
            prediction=prediction,
        )  # fmt: skip

    def compare(self, models: Sequence[Document]) -> HTMLResponse:
        """Return the page with two models."""
        first, second = models
        alike = all(first[name] == second[name] for name in ("title", "target", "options"))
        same = alike and first["result"]["rows"] == second["result"]["rows"] and first["classes"] == second["classes"]
        better = None
        if same and not first["classes"]:
            better = compare_scores(*(each["result"]["scores"]["bic"] for each in models))
        return self._fill("compare.html", models=models, same=same, better=better)


def list_kinds(document: Document, reading: Document | None) -> list[dict[str, str]]:
    """Return the columns whose kind can be corrected: those that were read, those left out, or those of a refusal."""
    if reading is None:
        return [{"name": name, "kind": "", "example": ""} for name in document.get("names", [])]
    excluded = [{"name": name, "kind": "", "example": ""} for name in reading.get("excluded", [])]
    return [*reading["columns"], *excluded]


def compare_scores(first: float, second: float) -> str:
    """Say which of two BIC speaks for which model."""
    difference = abs(first - second)
    if difference < 2:
        return "The two explain the data about equally well: their BIC differ by less than 2."
    word = "clearly" if difference >= 6 else "somewhat"
    which = "first" if first < second else "second"
    return f"The {which} explains the data {word} better: its BIC is lower by {difference:.1f}."


def embed_data(value: Any) -> Markup:
    """Return data for a script."""
    return Markup(json_for_script(value))


def pair(values: Sequence[str]) -> list[tuple[str, str]]:
    """Return each value twice: what is sent, and what is shown."""
    return [(each, each) for each in values]


def write_ago(moment: float) -> str:
    """Return how long ago something was."""
    seconds = max(0.0, time.time() - moment)
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def write_count(count: int, what: str) -> str:
    """Return a number of things in words: 1 row, 1,200 rows."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def write_percent(share: float) -> str:
    """Return a share in per cent."""
    return "< 0.1\u00a0%" if 0 < share < 0.0005 else f"{100 * share:.1f}\u00a0%"


def write_size(count: int) -> str:
    """Return a number of bytes for people."""
    for size, unit in ((2**20, "MB"), (2**10, "KB")):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{count} bytes"
