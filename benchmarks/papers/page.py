"""docs/papers.md, written from the rows and from benchmarks/results."""

from __future__ import annotations

import math
import os

from benchmarks.papers.files import HERE, Place
from benchmarks.papers.history import keep_commits, name_codes, read_commits
from benchmarks.papers.read import (
    NOT_MEASURED,
    age,
    average,
    count_old,
    count_without_code,
    last_change_of,
    measurements,
    numbers_at,
    read_codes,
    state,
)
from benchmarks.papers.row import PAPERS, Figure, Reading, Row
from benchmarks.papers.rows import ROWS

SIGNS = {"lower": 1.0, "higher": -1.0}  # of a gain
CORES = {"cores": " cores"}  # what a path that ends so counts

INTRODUCTION = """# The papers, row by row

Every algorithm, table, figure and named kernel of the papers that Mercer is built on: what the paper reports, what
Mercer gets, and why it differs where it does. `make paper ITEM=nkn-table-1 DATA=FOLDER` measures what a row lacks, or
has of older code; with `OLDER=2026-11-19` it measures again what was measured before that day. It says how long that
takes, can be stopped, and goes on where it was. `make paper` alone lists the rows. DATA is the folder described in
[benchmarks](../benchmarks/README.md#the-data-folder).

Settings as printed have a name: `GrammarSearch.paper()`, `NeuralKernelNetwork.paper()`, `KernelFunctional.paper()` and
`ChangeSurface.paper()`. Their docstrings name the sections and every deviation.

Numbers of Mercer come from files in [benchmarks/results](../benchmarks/results) and from nowhere else: this page is
written by `python -m benchmarks.papers --write`, and a test compares it with the files. With each row stand the dates,
the machines and the commits with the code that it was measured with. Where only a hash stands, the code was never
committed in that state; "recorded by" names the commit that brought a measurement whose code was not kept. **Older than
the code** says that the part of Mercer it measures does something else since, by git: comments, code that only moved,
and changes before and after which a cell of the row is the same to the last digit
([unchanged.json](../benchmarks/results/unchanged.json)) do not count. Behind a number made of several, such as splits,
stands of how many.

In the tables a dash is not measured. "a picture": the paper draws it, and prints no number. A blank in the column
"paper": the paper prints no number for it, as for all that Mercer adds of its own.

The main texts of CKS, of the Automatic Statistician, of SKC and of change surfaces were not at hand. Of these the page
has the appendices of SKC, the supplement of change surfaces, results in the authors' repository (CKS, the Automatic
Statistician), and what was taken down from the texts before.
"""


def read(reading: Reading, place: Place = HERE) -> str:
    """Return a number as the page shows it, with how many it was made of where these are several; "" for none."""
    numbers = numbers_at(reading, place)
    if not len(numbers):
        return ""
    if reading.statistic == "year":
        text = f"{average(reading, place):.{reading.digits}f}"  # 1896.5, where other numbers from 1,000 on have a comma
    else:
        text = show(average(reading, place), reading.digits)
    if "±" in reading.statistic and len(numbers) > 1:
        spread = float(numbers.std())
        spread = spread / math.sqrt(len(numbers)) if reading.statistic.endswith("se") else spread
        text += f" ± {show(spread, reading.digits)}"
    if len(numbers) < reading.of:
        return f"{text} ({len(numbers)} of {reading.of})"
    return text if len(numbers) == 1 else f"{text} ({len(numbers)})"


def show(number: float, digits: int) -> str:
    """Return a number with some decimals; one that would vanish with its order of magnitude."""
    if number != 0 and abs(number) < 0.5 * 10**-digits:
        return f"{number:.0e}"
    return f"{number:,.{min(digits, 1) if abs(number) >= 1000 else digits}f}"


def write_page(place: Place = HERE) -> str:
    """Return the page."""
    lines = [INTRODUCTION, "## Overview", "", "| item | paper | what | state |", "|---|---|---|---|"]
    for row in ROWS:
        old = f" ({age(row, place)})" if age(row, place) else ""
        about = row.about.replace("|", "\\|")
        lines.append(f"| [{row.item}](#{row.item}) | {row.paper}, {row.where} | {about} | {state(row, place)}{old} |")
    for paper, title in PAPERS.items():
        lines += ["", f"## {title}"]
        for row in (row for row in ROWS if row.paper == paper):
            lines += ["", f"### {row.item}", "", *write_row(row, place)]
    return "\n".join(lines) + "\n"


def keep_page(place: Place = HERE) -> None:
    """Write the page to its file in one go, and before it the commits of what was measured."""
    codes = (code for row in ROWS for source in row.sources for code in read_codes(source, place))
    keep_commits(codes, place.codes)
    beside = place.page.with_suffix(f".{os.getpid()}")
    beside.write_text(write_page(place), encoding="utf-8")
    beside.replace(place.page)


def write_row(row: Row, place: Place = HERE) -> list[str]:
    """Return a row as lines of Markdown."""
    library = f" {row.library[0].upper()}{row.library[1:]}." if row.library else ""
    lines = [f"{row.paper}, {row.where}: {row.about}.{library}"]
    if row.figures:
        lines += ["", "| | paper | Mercer |", "|---|---|---|"]
        lines += [f"| {figure.what} | {printed(figure)} | {shown(figure, place)} |" for figure in row.figures]
        counted = [compare(row, *each, place) for each in row.compared if state(row, place) != NOT_MEASURED]
        lines += ["", *(f"- {each}" for each in counted), *([""] if counted else []), circumstances(row, place)]
    if row.commands:
        lines += ["", f"`make paper ITEM={row.item}`: {row.time}."]
    if row.remark or row.picture:
        picture = f"Picture: [{row.picture}](../benchmarks/results/{row.picture})." if row.picture else ""
        lines += ["", f"{row.remark} {picture}".strip()]
    return lines


def shown(figure: Figure, place: Place = HERE) -> str:
    """Return Mercer's number; a dash where there is none."""
    return (read(figure.mercer, place) if figure.mercer is not None else "") or "-"


def printed(figure: Figure) -> str:
    """Return the paper's number, with that of the authors' logs where its decimals leave nothing."""
    return figure.paper if figure.logged is None else f"{figure.paper} ({figure.logged:.8f} in the authors' logs)"


def compare(row: Row, ending: str, better: str, place: Place = HERE) -> str:
    """Return how often Mercer's number is better than the printed one, to the decimals that are printed.

    A printed zero cannot be beaten to its decimals: the number of the authors' logs takes its place where there is one.
    """
    measured, won, equal = 0, list[str](), list[str]()
    figures = [figure for figure in row.figures if figure.what.endswith(ending) and figure.paper]
    for figure in figures:
        if figure.mercer is None or not len(numbers_at(figure.mercer, place)):
            continue
        paper, ours = figure.paper.split()[0], average(figure.mercer, place)
        theirs, decimals = float(paper), len(paper.partition(".")[2])
        gain = (theirs - round(ours, decimals) if figure.logged is None else figure.logged - ours) * SIGNS[better]
        measured += 1
        name = figure.what.removesuffix(ending).rstrip(", ")
        if gain > 0:
            won.append(name if figure.logged is None else f"{name} by the authors' logs")
        elif gain == 0 and theirs == 0:
            equal.append(name)
    names = f" ({', '.join(won)})" if won else ""
    same = f"; {', '.join(equal)}: {0:.3f} as printed" if equal else ""
    part, whole = ("", "") if measured == len(figures) else (" measured", f", {len(figures)} in all")
    return f"{ending.strip(', ')} {better} than the paper's: {len(won)} of {measured}{part}{names}{same}{whole}"


def circumstances(row: Row, place: Place = HERE) -> str:
    """Return when, where and with which code a row was measured: by file, whatever number of sources it holds."""
    found = []
    for file in dict.fromkeys(source.file for source in row.sources):
        sources = [source for source in row.sources if source.file == file]
        measured = [each for source in sources for each in measurements(source, place)]
        days = sorted(each.date for each in measured if each.date)
        if not days:
            continue
        when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
        where = ", ".join(
            " and ".join(filter(None, dict.fromkeys(texts))) + CORES.get(path[-5:], "")
            for path, *texts in zip(sources[0].machine, *(each.machine for each in measured), strict=True)
        )
        codes = [code for source in sources for code in read_codes(source, place)]
        code = name_codes(codes, read_commits(place.codes)) or "code not kept"
        without = count_without_code(sources, place) if codes else 0
        code += f" (of {without} of {len(measured)} measurements not kept)" if without else ""
        found.append(f"[{file}](../benchmarks/results/{file}) {when} UTC, {where}, {code}")
    if not found:
        return f"Mercer: {NOT_MEASURED}."
    old, count = count_old(row, place=place)
    share = f"{old} of {count} measurements are older" if 0 < old < count else "Older"
    changed = max(last_change_of(row, source, place) for source in row.sources)
    note = f" **{share} than the code** ({changed[:10]})." if old else ""
    return f"Mercer: {'; '.join(found)}.{note}"
