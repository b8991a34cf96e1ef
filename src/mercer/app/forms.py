"""What people fill in -> settings, each problem a sentence with the name of the field that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from mercer.app.policy import AppPolicy
from mercer.errors import Subject

Form = Mapping[str, list[str]]
Problems = dict[str, str]
SEPARATORS = ("comma", "semicolon", "tab", "pipe")
ENCODINGS = ("utf-8", "cp1252", "utf-16")
KINDS = ("number", "date", "text")
LEFT_OUT = "out"  # in place of a kind
KIND_PREFIX = "kind "
TEXT_ENDINGS, WORKBOOK_ENDINGS, PARQUET_ENDINGS = (".csv", ".tsv", ".txt"), (".xlsx", ".xlsm"), (".parquet", ".pq")
ENDINGS = TEXT_ENDINGS + WORKBOOK_ENDINGS + PARQUET_ENDINGS
FIELDS: dict[Subject | str, str] = {"time_budget": "seconds", "horizon": "steps"}  # of errors; others are called alike
LABELS = {
    "file": "File", "sheet": "Sheet", "decimal": "Decimal sign", "day_first": "Dates such as 01/02/2019",
    "encoding": "Encoding of the characters", "separator": "Mark between columns", "header": "Line of the column names",
    "keep_rows": "Keep rows that look like units, totals or footnotes", "kinds": "Columns", "target": "What to explain",
    "inputs": "Explain it by", "seconds": "How long it may take", "steps": "How many steps",
    "series": "Which series a row belongs to", "time": "Time",
}  # fmt: skip
# Sentences are those of the command line. Where one names an option, the page has a field with a label.
LABEL_OF_OPTION = {
    "--target": LABELS["target"], "--inputs": LABELS["inputs"], "--exclude": f"{LABELS['kinds']}: leave it out",
    "--sheet": LABELS["sheet"], "--decimal": LABELS["decimal"], "--day-first": "the day comes first",
    "--month-first": "the month comes first", "--encoding": LABELS["encoding"], "--separator": LABELS["separator"],
    "--header": LABELS["header"], "--keep-rows": LABELS["keep_rows"], "--type": LABELS["kinds"],
    "--id": LABELS["series"], "--time": LABELS["time"], "--task": LABELS["target"], "--time-budget": LABELS["seconds"],
}  # fmt: skip
OPTION = re.compile(r"--[a-z][a-z-]+")


def parse_form(body: bytes, most_fields: int) -> Form:
    """Return the fields of a form."""
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=most_fields)


def first(form: Form, name: str) -> str:
    """Return a field, stripped; empty where it was not filled in."""
    return form.get(name, [""])[0].strip()


def label_options(sentence: str) -> str:
    """Return a sentence of the command line with labels of the page in place of options."""
    return OPTION.sub(lambda option: f"“{LABEL_OF_OPTION[option[0]]}”" if option[0] in LABEL_OF_OPTION else option[0],
                      sentence)  # fmt: skip


def list_fields(ending: str, has_columns: bool, is_read: bool) -> set[str]:
    """Return the fields that the page of a table offers: those that do something for its type of file."""
    fields = {"file", "decimal", "day_first"}
    if ending in WORKBOOK_ENDINGS:
        fields |= {"sheet"}
    if ending in TEXT_ENDINGS:
        fields |= {"separator", "encoding"}
    if ending not in PARQUET_ENDINGS:
        fields |= {"header", "keep_rows"}
    return fields | ({"kinds"} if has_columns else set()) | ({"target", "inputs", "seconds"} if is_read else set())


def read_reading_form(form: Form) -> tuple[dict[str, Any], Problems]:
    """Return how a file is to be read, as the reader of tables takes it; what is left empty is found out."""
    options: dict[str, Any] = {}
    problems: Problems = {}
    for name, allowed in (("decimal", (".", ",")), ("separator", SEPARATORS), ("encoding", ENCODINGS)):
        if first(form, name) in allowed:
            options[name] = first(form, name)
    if first(form, "sheet"):
        options["sheet"] = first(form, "sheet")
    if first(form, "day_first") in ("day", "month"):
        options["day_first"] = first(form, "day_first") == "day"
    if line := first(form, "header"):
        if len(line) < 7 and line.isascii() and line.isdigit() and int(line) > 0:
            options["header"] = int(line)
        else:
            wrong = f"A line is a whole number from 1 on, not “{line[:40]}”."
            problems["header"] = f"{wrong} Where it is left empty, Mercer finds the line."
    if first(form, "keep_rows"):
        options["keep_rows"] = True
    kinds = {name.removeprefix(KIND_PREFIX): first(form, name) for name in form if name.startswith(KIND_PREFIX)}
    options["kinds"] = {name: kind for name, kind in kinds.items() if kind in KINDS}
    options["exclude"] = [name for name, kind in kinds.items() if kind == LEFT_OUT]
    return options, problems


def read_search_form(
    form: Form, columns: Sequence[Mapping[str, Any]], policy: AppPolicy
) -> tuple[dict[str, Any], Problems]:
    """Return what is to be explained by what."""
    kinds = {column["name"]: column["kind"] for column in columns}
    target, chosen = form.get("target", [""])[0], [name for name in form.get("inputs", []) if name in kinds]
    inputs, problems = [name for name in chosen if name != target], Problems()
    if target not in kinds:
        problems["target"] = "Choose the column that is to be explained."
    elif kinds[target] == "date":
        problems["target"] = "A column of dates cannot be explained; choose one of numbers or classes."
    if not inputs and len(kinds) > 1:  # a table of one column is explained by the number of the row
        problems["inputs"] = "Choose at least one other column to explain it by."
    seconds = first(form, "seconds")
    if seconds not in map(str, policy.seconds_choices):
        problems["seconds"] = "Choose one of the times in the list."
    return {
        "target": target,
        "inputs": inputs,
        "classes": kinds.get(target) == "text",
        "seconds": float(seconds) if "seconds" not in problems else 0.0,
    }, problems


def read_steps_form(form: Form, policy: AppPolicy) -> tuple[dict[str, Any], Problems]:
    """Return how many steps are to be foreseen, and of which series."""
    text, problems = first(form, "steps"), Problems()
    steps = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
    if not 1 <= steps <= policy.most_steps:
        problems["steps"] = f"Give a whole number from 1 to {policy.most_steps}, not “{text[:40]}”."
    return {"steps": steps, "series": form.get("series", [""])[0] or None}, problems
