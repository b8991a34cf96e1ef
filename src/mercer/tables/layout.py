"""Rows of cells -> names and data: what stands above the column names, below the data and between is left out.

Cells are texts, or numbers and dates where a workbook stores them as such.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mercer.errors import InputError
from mercer.tables.dates import parse_date
from mercer.tables.decisions import Decision
from mercer.tables.kinds import MARKS_AMONG_NUMBERS
from mercer.tables.names import quote
from mercer.tables.numerals import take_apart

SAMPLED = 1000  # records that tell how wide the table is
LOOKED_AT = 100  # records among which the column names stand
FILLED = 0.6  # the share of the width that the line of column names has at least
COMMENT = ("#", "//")
TOTAL = re.compile(
    r"(?:(?:grand|sub|over\s?all)[\s-]?)?total(?:s|e|en|i|aal)?|sums?|summe|gesamt(?:summe)?|insgesamt|zwischensumme|somme|"
    r"suma|totaal|average|mean|mittelwert|durchschnitt|moyenne|media|Σ",
    re.IGNORECASE,
)
SUM = re.compile(r"(?:(?:sub|over\s?all)[\s-]?)?total(?:s|e|en|i|aal)?|sums?|summe|gesamt|somme|suma", re.IGNORECASE)
MOST_TOTALS = 0.4  # of the rows: a total after every two
_UNIT = (
    r"%|‰|°|°?[CFK]|[munpkMGT]?(?:g|m|s|l|L|W|Wh|V|A|Hz|Pa|J|N|mol|bar|eq)|mm|cm|km|ha|t|min|h|hr|hrs|hours?|d|days?|"
    r"weeks?|months?|years?|yr|mph|kn|ppm|ppb|dB|pH|deg|degC|degF|"
    r"Grad(?: [CFK])?|sec|sek|Sek\.?|rpm|count|no\.?|pcs|Stk\.?|EUR|USD|GBP|CHF|k?€|k?\$|k?£|Mio\.?"
)
UNIT = re.compile(rf"[\[(<{{].*[\])>}}]|(?:{_UNIT})[²³23]?(?:\s?[/*·^]\s?-?\d*(?:{_UNIT})?[²³23]?)*")
BLANK_UNIT = ("", "-", "–", "—", "/")


class Record(NamedTuple):
    """One row of cells, and the line of the file on which it starts."""

    line: int
    cells: list[Any]


@dataclass(frozen=True)
class TableLayout:
    """Where the names stand and what is data, with what was decided."""

    header: Record
    rows: tuple[Record, ...]
    decisions: tuple[Decision, ...]


def trim(cells: Sequence[Any]) -> int:
    """Return the length of a row without the empty cells at its end."""
    length = len(cells)
    while length and is_empty(cells[length - 1]):
        length -= 1
    return length


def is_empty(cell: Any) -> bool:
    """Tell whether nothing is in a cell."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def is_value(cell: Any) -> bool:
    """Tell whether a cell holds a number or a date."""
    if not isinstance(cell, str):
        return cell is not None
    text = cell.strip()
    return bool(text) and (take_apart(text) is not None or parse_date(text, day_first=True)[0] is not None)


def is_prose(cell: Any) -> bool:
    """Tell whether a cell holds words: neither a number, a date, nor a mark for a missing entry."""
    if not isinstance(cell, str) or is_empty(cell) or cell.strip().lower() in MARKS_AMONG_NUMBERS:
        return False
    return not is_value(cell)


def find_width(records: Sequence[Record]) -> int:
    """Return the usual number of cells of a row."""
    lengths = Counter(length for record in records[:SAMPLED] if (length := trim(record.cells)))
    return max(lengths, key=lambda length: (lengths[length], length)) if lengths else 0


def find_header(records: Sequence[Record], line: int | None = None) -> int:
    """Return the place of the column names: the first record about as wide as the table; `line` is the user's word."""
    if line is not None:
        place = next((i for i, record in enumerate(records) if record.line == line), None)
        if place is None:
            raise InputError(f"--header: line {line} holds no column names; the first lines that hold anything are "
                             f"{', '.join(str(record.line) for record in records[:5])}.", about="header")  # fmt: skip
        return place
    width = find_width(records)
    wide = [
        place
        for place, record in enumerate(records[:LOOKED_AT])
        if (not is_comment(record) or _names_columns(records, place, width))
        and (width < 2 or _is_wide(record.cells, width))
    ]
    if not wide:
        return next((i for i, record in enumerate(records) if not is_comment(record)), 0)
    place = wide[0]
    whole = next((i for i in wide if trim(records[i].cells) >= width), place)
    if all(map(is_prose, records[whole].cells[:width])):
        place = whole  # what is shorter above it are titles of several cells
    if width > 1 and _stands_below(records, place, width):
        return place + 1
    above = place > 0 and not is_comment(records[place - 1])
    cells = records[place].cells[: trim(records[place].cells)]
    return place - 1 if above and all(map(is_value, cells)) else place  # no names: take what stands above


def _is_wide(cells: Sequence[Any], width: int) -> bool:
    filled = sum(not is_empty(cell) for cell in cells)
    return trim(cells) >= max(2, FILLED * width) and (filled > 1 or width == 2)


def _names_columns(records: Sequence[Record], place: int, width: int) -> bool:
    """Tell whether a comment holds the names of the values below it."""
    below = next((record for record in records[place + 1 :] if not is_comment(record)), None)
    if below is None or width < 2 or trim(records[place].cells) != trim(below.cells):
        return False
    return sum(map(is_value, below.cells)) >= width / 2


def _stands_below(records: Sequence[Record], place: int, width: int) -> bool:
    """Tell whether the names are in the next row, because both are words and values stand below: a title has commas."""
    rows = records[place + 1 : place + 4]
    if len(rows) < 3 or is_unit_row(rows[0], rows[1:]):
        return False
    names = rows[0].cells
    words = trim(names) == width and all(map(is_prose, names[:width])) and len({*map(_plain, names)}) == len(names)
    values = [sum(map(is_value, row.cells)) >= width / 2 for row in rows[1:]]
    return words and all(values) and len({*map(_plain, records[place].cells)} & {*map(_plain, names)}) == 0


def is_comment(record: Record) -> bool:
    """Tell whether a row is a comment."""
    return bool(record.cells) and isinstance(record.cells[0], str) and record.cells[0].lstrip().startswith(COMMENT)


def lay_out(records: Sequence[Record], line: int | None = None, keep: bool = False) -> TableLayout:
    """Find the column names and the data; with `keep` all below the names is data."""
    place = find_header(records, line)
    header, rows = records[place], list(records[place + 1 :])
    width, first = trim(header.cells), header.cells[0] if header.cells else ""
    if is_comment(header):
        header = header._replace(cells=[first.lstrip().lstrip("#/").strip(), *header.cells[1:]])
    while rows and not trim(rows[-1].cells):  # spreadsheets leave rows of bare separators below
        rows.pop()
    if keep:
        return TableLayout(header, tuple(rows), tuple(_note_text(records[:place])))
    remarks = [row for row in rows if _is_remark(row, width)]
    decisions = _note_text([*records[:place], *remarks])
    names = [_plain(cell) for cell in header.cells[:width]]
    count = len(rows) - len(remarks)
    rows = [row for row in rows if not _is_remark(row, width) and not _repeats(row, names)]
    if len(rows) < count:
        decisions.append(Decision("repeated names", quote(names), count=count - len(rows)))
    if rows and is_unit_row(rows[0], rows[1:6]):
        units = quote(_plain(cell) for cell in rows[0].cells if not is_empty(cell))
        decisions.append(Decision("units", units, count=1))
        rows = rows[1:]
    rows, more = _drop_below(rows, len(names))
    return TableLayout(header, tuple(rows), (*decisions, *more))


def _is_remark(row: Record, width: int) -> bool:
    return width > 1 and is_comment(row) and trim(row.cells) == 1  # not #1, #2 in a column


def _repeats(row: Record, names: Sequence[str]) -> bool:
    if not row.cells or not names or _plain(row.cells[0]) != names[0]:
        return False
    return [_plain(cell) for cell in row.cells[: trim(row.cells)]] == names


def _plain(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _note_text(records: Sequence[Record]) -> list[Decision]:
    """Return decisions about titles and comments."""
    found = []
    for kind, wanted in (("comments", True), ("titles", False)):
        those = [record for record in records if is_comment(record) is wanted and trim(record.cells)]
        if those:
            text = " ".join(_plain(cell) for cell in those[0].cells if not is_empty(cell))
            found.append(Decision(kind, repr(text[:40]), count=len(those)))
    return found


def is_unit_row(row: Record, below: Sequence[Record]) -> bool:
    """Tell whether a row holds units: each cell is one or empty, and numbers stand below."""
    texts = [_plain(cell) for cell in row.cells]
    units = [place for place, text in enumerate(texts) if text not in BLANK_UNIT]
    if not units or any(map(is_value, row.cells)) or not all(UNIT.fullmatch(texts[place]) for place in units):
        return False
    return any(is_value(other.cells[place]) for place in units for other in below if place < len(other.cells))


def _drop_below(rows: list[Record], width: int) -> tuple[list[Record], list[Decision]]:
    """Leave out footnotes at the end, and rows of totals."""
    decisions = []
    footnotes: list[Record] = []
    dated = sum(is_value(row.cells[0]) for row in rows[:LOOKED_AT] if row.cells) > min(len(rows), LOOKED_AT) / 2
    while rows and width > 1:
        last = rows[-1]
        filled = [cell for cell in last.cells if not is_empty(cell)]
        prose = all(map(is_prose, filled)) and not any("\n" in cell for cell in filled)
        if filled and prose and (dated or len(last.cells) == 1):
            footnotes = [last, *footnotes]
        elif trim(last.cells):
            break
        rows = rows[:-1]
    if footnotes:
        decisions.append(Decision("footnotes", repr(_plain(footnotes[0].cells[0])[:40]), count=len(footnotes)))
    words = [next((_plain(cell) for cell in row.cells if not is_empty(cell)), "") for row in rows]
    entries = set(words) - {""}
    totals = [place for place, word in enumerate(words) if TOTAL.fullmatch(word.rstrip(":"))]
    parts = [place for place, word in enumerate(words) if _is_part_total(word, entries) and words.count(word) == 1]
    parts = parts if len(parts) <= MOST_TOTALS * len(rows) else []
    # among texts a word such as Total may be a category, unless it stands once and last
    few = len(totals) <= MOST_TOTALS * len(rows) if dated else totals == [len(rows) - 1]
    totals = sorted({*(totals if few else ()), *parts})
    if totals:
        decisions.append(Decision("totals", repr(words[totals[0]]), count=len(totals)))
        rows = [row for place, row in enumerate(rows) if place not in set(totals)]
    return rows, decisions


def _is_part_total(word: str, entries: set[str]) -> bool:
    """Tell whether a word is that of a total of one entry, as "North Total" below rows of "North"."""
    first, _, rest = word.rstrip(":").partition(" ")
    start, _, last = word.rstrip(":").rpartition(" ")
    return bool((SUM.fullmatch(last) and start in entries) or (SUM.fullmatch(first) and rest in entries))
