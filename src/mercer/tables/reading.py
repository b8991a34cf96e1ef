"""A file, or standard input -> a pandas table with clean names and typed columns, and what was decided on the way.

Bytes become text, text becomes rows, rows become names and data, and columns become numbers, dates and texts: each step
is a file of its own. Delimited text of plain numbers and ISO dates is read by pandas, which is fast; all other text by
these steps.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mercer.errors import DataWarning, InputError, Subject
from mercer.tables.dates import read_seasons
from mercer.tables.decisions import Decision, describe, gather
from mercer.tables.decoding import decode
from mercer.tables.kinds import KINDS, KindOptions, type_columns
from mercer.tables.layout import Record, find_header, find_width, is_empty, is_prose, is_value, lay_out, trim
from mercer.tables.names import clean_columns, clean_names, pluralise, quote, suggest
from mercer.tables.workbook import read_sheet

TEXT_EXTENSIONS = (".csv", ".tsv", ".txt", ".dat")
PARQUET_EXTENSIONS = (".parquet", ".pq")
WORKBOOK_EXTENSIONS = (".xlsx", ".xlsm")
STANDARD_INPUT = "-"
# On a tie the rarer mark wins: a comma may sit inside a name or a number, a tab hardly ever does.
SEPARATORS = {"\t": "tab", ";": "semicolon", "|": "pipe", ",": "comma"}
SPACE = " "  # or several, where a table has no other mark
LEAST_SPACED = 0.7  # how well spaces must cut it
NO_SEPARATOR = "\x1f"  # of a table of one column, whose commas are decimal
SAMPLED_RECORDS, TYPED_RECORDS, LAST_RECORDS = 200, 20, 10
SPACED_THOUSANDS = re.compile(
    r"(?m)^\s*\d{1,3}(?: \d{3})* 0\d\d(?: \d{3})*\s*$", re.ASCII
)  # 1 034, which is one number
DECIMAL = re.compile(r"[-+]?\d*[.,]\d+", re.ASCII)
FEW_TEXTS = 50
UNCLOSED = "A quotation mark is probably not closed."


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a file; None: found out.

    `columns` are those that are used (None: all) but for `exclude`; `learned` are the kinds of columns that a model
    knows, `numbers` columns that hold no dates made of digits, `usual_day_first` and `digits` as in `KindOptions`,
    `name` what messages call the file (None: its own name).
    """

    sheet: str | None = None
    encoding: str | None = None
    separator: str | None = None
    header: int | None = None  # the line of the column names, from 1
    keep_rows: bool = False  # those that look like units, totals or footnotes too
    decimal: str | None = None
    day_first: bool | None = None
    kinds: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    learned: tuple[tuple[str, str], ...] = ()
    numbers: tuple[str, ...] = ()
    usual_day_first: bool | None = None
    first_year: int | None = None  # that years of two digits stand for
    digits: bool = True
    name: str | None = None

    def __post_init__(self) -> None:
        words = {"tab": "\t", "semicolon": ";", "comma": ",", "pipe": "|", "\\t": "\t"}
        if self.separator is not None:
            object.__setattr__(self, "separator", words.get(self.separator, self.separator))
            if len(self.separator) != 1 or self.separator in '"\r\n':
                raise InputError(
                    f"--separator is one character, or the word tab, not {self.separator!r}.", about="separator"
                )
        if self.decimal not in (None, ".", ","):
            raise InputError(f"--decimal is a point or a comma, not {self.decimal!r}.", about="decimal")
        for name, kind in self.kinds:
            if kind not in KINDS:
                raise InputError(f"--type {name}={kind}: the kind of a column is {', '.join(KINDS)}.", about="kinds")

    def for_columns(self, point: bool) -> KindOptions:
        """Return what is said about columns."""
        return KindOptions(
            self.decimal, self.day_first, self.usual_day_first, dict(self.learned) | dict(self.kinds), self.missing,
            self.numbers, self.first_year, point, self.digits,
        )  # fmt: skip


@dataclass(frozen=True)
class LoadedTable:
    """A table as it was read, and what was decided about it."""

    frame: pd.DataFrame
    decisions: tuple[Decision, ...]


class RawTable(NamedTuple):
    """Names and data before columns have kinds; `point` tells that 1.234 is a decimal where nothing else tells."""

    frame: pd.DataFrame
    decisions: list[Decision]
    point: bool = False


def read_table(path: str | Path, options: ReadOptions | None = None) -> pd.DataFrame:
    """Read a table; every decision about it is announced by a `DataWarning`."""
    reading = read(path, options)
    for decision in reading.decisions:
        warnings.warn(describe(decision), DataWarning, stacklevel=2)
    return reading.frame


def read(path: str | Path, options: ReadOptions | None = None) -> LoadedTable:
    """Read delimited text, an Excel workbook or a Parquet file; "-" is standard input.

    Column names are stripped of surrounding spaces and are unique. What cannot be read, or not in one way only, is an
    `InputError` that says what to try.
    """
    options = options or ReadOptions()
    content, name, ending = _load(path)
    name = options.name or name
    _refuse_useless(options, ending, name)
    if ending in PARQUET_EXTENSIONS:
        raw = RawTable(_read_parquet(content, name), [])
    elif ending in WORKBOOK_EXTENSIONS:
        records, decisions = read_sheet(content, name, options.sheet)
        raw = _build(records, name, options, decisions)
    else:
        raw = _read_delimited(content, name, options)
    if raw.frame.empty:
        raise InputError(
            f"'{name}' has column names ({quote(raw.frame.columns)}) but no rows of data. "
            "Check that the whole file was saved; the data must start on the line below the names."
        )
    unknown = [name for name, _ in options.kinds if name not in raw.frame.columns]
    if unknown:
        raise InputError(
            f"--type: there is no column {quote(unknown)}; the columns are {quote(raw.frame.columns)}.", about="kinds"
        )
    wanted = raw.frame.columns if options.columns is None else options.columns
    used = [name for name in wanted if name not in options.exclude]
    frame, decisions = type_columns(raw.frame, options.for_columns(raw.point), used)
    for name, kind in options.kinds:
        if name in used:
            _refuse_other_kind(frame[name], kind)
    frame, more = _drop_row_numbers(frame)
    return LoadedTable(frame, gather([*raw.decisions, *more, *decisions]))


def _refuse_other_kind(column: pd.Series, kind: str) -> None:
    """Refuse a column that cannot be of the kind that the user says; a word of his is never passed over."""
    dated = pd.api.types.is_datetime64_any_dtype(column.dtype)
    counted = pd.api.types.is_numeric_dtype(column.dtype) and bool(column.notna().any())
    if (kind == "number" and dated) or (kind == "date" and counted):
        found, example = "dates" if dated else "numbers", str(column.dropna().iloc[0]).removesuffix(" 00:00:00")
        forms = "" if dated else " Dates are written as 1949-01-31 or 31 Jan 1949, or as 19490131, 194901, 1949."
        raise InputError(
            f"Column '{column.name}' holds {found} such as {example}, which are no {kind}s.{forms} Leave --type out, "
            "or leave the column out (--exclude).",
            about="kinds",
        )


def _refuse_useless(options: ReadOptions, ending: str, name: str) -> None:
    """Refuse options that do nothing for this kind of file."""
    of_text: tuple[Subject, ...] = ("encoding", "separator")
    of_rows: tuple[Subject, ...] = ("header", "keep_rows")
    of_none: tuple[Subject, ...] = ("sheet",)
    if ending in WORKBOOK_EXTENSIONS:
        of_none = of_text
    elif ending in PARQUET_EXTENSIONS:
        of_none += of_text + of_rows
    useless = [option for option in of_none if getattr(options, option) not in (None, False)]
    if useless:
        named = ", ".join(f"--{option.replace('_', '-')}" for option in useless)
        what = f"of no use for '{name}', which is a {ending} file. Leave it out."
        raise InputError(f"{named}: {what}", about=useless[0])


def _load(path: str | Path) -> tuple[bytes, str, str]:
    """Return the content, the name for messages, and the ending; that of standard input by its first bytes."""
    if str(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read()
        if not content:
            raise InputError("Standard input is empty. Pipe a table into the command, or name a file.")
        ending = {b"PAR1": ".parquet", b"PK\x03\x04": ".xlsx"}.get(content[:4], ".csv")
        return content, "standard input", ending
    location = Path(path).expanduser()
    known = TEXT_EXTENSIONS + WORKBOOK_EXTENSIONS + PARQUET_EXTENSIONS
    try:
        if not location.exists():
            raise InputError(f"There is no file '{location}'.{_suggest(location)} Check the name and the folder.")
        if location.is_dir():
            raise InputError(
                f"'{location}' is a folder, not a file. Give the path of one {', '.join(known)} file inside it."
            )
        if location.suffix.lower() not in known:
            raise InputError(
                f"'{location.name}' has an unknown file type ('{location.suffix or 'no extension'}'). "
                f"Known types are {', '.join(known)}; a spreadsheet program can save its table as CSV."
            )
        content = location.read_bytes()
    except OSError as problem:
        raise InputError(f"'{location}' cannot be read: {problem}. Check the name and your permissions.") from None
    if not content:
        raise InputError(f"'{location.name}' is empty (0 bytes). Check that it was saved or downloaded completely.")
    return content, location.name, location.suffix.lower()


def _suggest(location: Path) -> str:
    try:
        return suggest(location.name, [entry.name for entry in location.parent.iterdir()])
    except OSError:
        return ""


def _read_parquet(content: bytes, name: str) -> pd.DataFrame:
    import pyarrow
    import pyarrow.parquet

    try:
        # pandas answers a repeated name with an obscure error of its own, so the names are looked at first.
        clean_names(pyarrow.parquet.read_schema(io.BytesIO(content)).names, f"'{name}'")
        frame = pd.read_parquet(io.BytesIO(content), engine="pyarrow", page_checksum_verification=True)
        texts = [label for label in frame.columns if isinstance(frame[label].dtype, pd.StringDtype)]
        frame = frame.astype(dict.fromkeys(texts, object))  # decoded here, where a damaged one is caught
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"'{name}' does not fit into memory, or is damaged. Save fewer rows.") from None
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        reason = str(problem).strip().split("\n")[0]
        raise InputError(
            f"'{name}' cannot be read as a Parquet file ({reason}). It may be damaged or of another type: "
            "save it again, or save the table as CSV."
        ) from None
    # pandas stores an index beside the columns; a named or dated one is data, row numbers are not
    index = frame.index
    only_row_numbers = index.nlevels == 1 and index.name is None and pd.api.types.is_integer_dtype(index.dtype)
    return clean_columns(frame.reset_index(drop=only_row_numbers), f"'{name}'")


# ----------------------------------------------------------------------------------------------- delimited text


def _read_delimited(content: bytes, name: str, options: ReadOptions) -> RawTable:
    text, decisions = decode(content, name, options.encoding)
    said = re.match(r"sep=(.)\r?\n?", text)  # Excel's own hint; the line stays as a blank one, to keep line numbers
    if said:
        text = "\n" + text[said.end() :]
    separator = options.separator or (said[1] if said else _detect_separator(text))
    if separator not in (",", NO_SEPARATOR):
        decisions.append(Decision("separator", _name_separator(separator)))
    # beside semicolons 1.234 may be a thousand; other decimals show that it is none
    points = separator != ";" or options.decimal == "." or re.search(r"\d\.(?:\d{1,2}|\d{4,})(?!\d)", text)
    quick = options.header is None and options.decimal != "," and (points or not re.search(r"\d\.\d", text))
    try:
        plain = _read_plain(text, separator, name) if quick and separator != SPACE else None
    except csv.Error:  # reported below, with the line
        plain = None
    if plain is not None:
        return plain._replace(decisions=decisions + plain.decisions)
    records: list[Record] = []
    try:
        records.extend(iterate_records(text, separator))
    except csv.Error as problem:
        line = records[-1].line if records else 1
        raise InputError(f"'{name}', after line {line}: {problem}. {UNCLOSED}") from None
    if not records:
        raise InputError(f"'{name}' is empty: it holds no column names. Check that it was saved completely.")
    if any("\n" in cell for cell in records[-1].cells) and text.count('"') % 2:
        raise InputError(f"'{name}', line {records[-1].line}: a text goes on to the end of the file. {UNCLOSED}")
    raw = _build(records, name, options, decisions, separator)
    return raw._replace(decisions=raw.decisions + _note_blank_lines(text, records, raw.frame), point=separator != ";")


def iterate_records(text: str, separator: str) -> Iterator[Record]:
    """Cut text into records; a blank line is none."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    start = 1
    for fields in reader:
        if len(fields) > 1 or (fields and fields[0].strip()):
            yield Record(start, fields)
        start = reader.line_num + 1


def _name_separator(separator: str) -> str:
    return "space" if separator == SPACE else SEPARATORS.get(separator, repr(separator))


def _detect_separator(text: str) -> str:
    """Return the mark that cuts the text into rows of one length, names above and numbers or dates below."""
    merits = {separator: _rate_separator(text, separator) for separator in SEPARATORS}
    best = max(SEPARATORS, key=lambda separator: merits[separator])
    first = next((line for line in io.StringIO(text) if line.strip()), "")
    if merits[best][0] < 0.5 and not any(mark in first for mark in SEPARATORS):
        if _rate_separator(text, SPACE)[0] > LEAST_SPACED and not SPACED_THOUSANDS.search(text):
            return SPACE
        alone = _rate_separator(text, NO_SEPARATOR, least=1)
        return NO_SEPARATOR if alone[0] > 0.9 and merits[best][1] > 1 else ","
    return best if merits[best][1] > 1 else ","


def _rate_separator(text: str, separator: str, least: int = 2) -> tuple[float, int]:
    """Return how well a mark cuts the first records of a text, and into how many fields."""
    try:
        records = list(itertools.islice(iterate_records(text, separator), SAMPLED_RECORDS))
    except csv.Error:  # reported when the file is read
        return 0.0, 0
    width = find_width(records)
    if width < least:
        return 0.0, width
    place = find_header(records)
    names, body = records[place].cells[: trim(records[place].cells)], records[place + 1 :]
    alike = sum(trim(record.cells) <= len(names) <= len(record.cells) for record in body) / max(1, len(body))
    # years may be names, but not of one row below another
    values = sum(is_value(name) and not (place == 0 and name.isdigit()) for name in names) / max(1, len(names))
    cells = [cell for record in body[:TYPED_RECORDS] for cell in record.cells[: trim(record.cells)]]
    typed = sum(is_empty(cell) or not is_prose(cell) for cell in cells) / max(1, len(cells))
    torn = any('"' in cell for cell in (*names, *cells))  # a mark inside quotation marks separates nothing
    return alike * (1 - 0.9 * values) * (0.5 + 0.5 * typed) * (0.9 if place else 1.0) * (0.5 if torn else 1.0), width


def _read_plain(text: str, separator: str, name: str) -> RawTable | None:
    """Return a table of plain numbers, ISO dates and a few texts, as pandas reads it; None where there is more."""
    head = list(itertools.islice(iterate_records(text, separator), SAMPLED_RECORDS))
    tail: deque[list[str]] = deque(maxlen=LAST_RECORDS)
    width, count = len(head[0].cells) if head else 0, 0
    for fields in csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True):
        if fields and len(fields) != width:
            return None
        if fields:
            count += 1
            tail.append(fields)
    if not head or find_header(head) != 0:
        return None
    below = list(tail)[len(head) - count :] if count > len(head) else []
    header, shown = head[0], [*head, *(Record(0, fields) for fields in below)]
    laid = lay_out(shown)
    if laid.decisions or len(laid.rows) < len(shown) - 1 or any(is_empty(cell) for cell in header.cells):
        return None
    names = clean_names(header.cells, f"'{name}', line {header.line},")
    try:
        frame = pd.read_csv(io.StringIO(text), sep=separator, header=0, names=names, index_col=False,
                            skipinitialspace=True, low_memory=False, keep_default_na=False, na_values=[""])  # fmt: skip
    except pd.errors.ParserError:
        return None
    whole = any(pd.api.types.is_integer_dtype(frame[label].dtype) for label in names)
    if whole and re.search(rf"(?:^|[\r\n\"{re.escape(separator)}]) *0\d", text):  # 0012, a code, became 12
        return None
    dates: dict[str, pd.Series] = {}
    for label in names:
        column = frame[label]
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        distinct = column.unique()
        if len(distinct) <= FEW_TEXTS and all(map(is_prose, distinct)):
            continue
        if read_seasons([text for text in distinct if isinstance(text, str)]):
            return None
        try:
            dates[label] = pd.to_datetime(column, format="ISO8601")
        except (ValueError, TypeError):
            return None
        if dates[label].isna().any() or dates[label].dtype == object:
            return None
    notes = [*_note_names(header), *_note_blank_lines(text, head, frame)]
    return RawTable(frame.assign(**dates), notes, point=separator != ";")


def _build(
    records: list[Record], name: str, options: ReadOptions, decisions: list[Decision], separator: str | None = None
) -> RawTable:
    """Return names and data of rows of cells; rows of delimited text must be as long as the names."""
    laid = lay_out(records, options.header, options.keep_rows)
    header = laid.header
    width = trim(header.cells)
    longest = max((trim(row.cells) for row in laid.rows), default=0)
    if separator is None or longest <= len(header.cells):
        width = max(width, longest)  # cells below an empty name
    if separator is not None:
        for row in laid.rows:
            if trim(row.cells) > width or len(row.cells) < width:
                advice = "Add or remove fields there; put quotation marks around a text that contains the separator."
                raise InputError(
                    f"'{name}', line {row.line}: {pluralise(len(row.cells), 'field')} where the line of column names "
                    f"has {width} (fields are separated by a {_name_separator(separator)}). "
                    + (UNCLOSED if any("\n" in str(cell) for cell in row.cells) else advice)
                )
    fields = ["" if is_empty(cell) else str(cell).strip() for cell in header.cells[:width]]
    fields += [""] * (width - len(fields))
    names = clean_names(
        [field or f"column {place}" for place, field in enumerate(fields, start=1)], f"'{name}', line {header.line},"
    )
    nameless = [place for place, field in enumerate(fields) if not field and place]
    nameless = [place for place in nameless if any(place < trim(row.cells) for row in laid.rows)]
    if len(nameless) > 1 and options.header is None:
        raise InputError(
            f"'{name}', line {header.line}: columns {', '.join(str(n + 1) for n in nameless[:5])} have no name; "
            "the names may stand on two lines. Write one name above each column, or say --header and the line.",
            about="header",
        )
    columns: dict[str, Any] = {}
    more: list[Decision] = []
    for place, (label, field) in enumerate(zip(names, fields, strict=True)):
        cells = [row.cells[place] if place < len(row.cells) else None for row in laid.rows]
        if not field and all(map(is_empty, cells)):
            continue
        if not field and place > 0:
            more.append(Decision("no name", label, count=place + 1))
        columns[label] = cells
    frame = pd.DataFrame(columns, dtype=object)
    return RawTable(frame, [*decisions, *laid.decisions, *more, *_note_names(header)])


def _drop_row_numbers(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[Decision]]:
    """Leave out a first column without a name that counts the rows, as pandas writes one; others keep their number."""
    label = "column 1"
    if frame.columns[0] != label:
        return frame, []
    column = frame[label]
    if len(frame.columns) > 1 and pd.api.types.is_numeric_dtype(column.dtype):
        counts = column.to_numpy(dtype=np.float64)
        if counts[0] in (0, 1) and bool(np.all(np.diff(counts) == 1)):
            return frame.drop(columns=label), [Decision("row numbers")]
    return frame, [Decision("no name", label, count=1)]


def _note_names(header: Record) -> list[Decision]:
    """Question names that are all numbers or dates, or of which one is 12.5.

    0, 1, 2 ... is what pandas writes for columns that never had names.
    """
    fields = [str(cell).strip() for cell in header.cells[: trim(header.cells)]]
    counted = any(fields == [str(start + step) for step in range(len(fields))] for start in (0, 1))
    if not fields or counted or not (all(map(is_value, fields)) or any(map(DECIMAL.fullmatch, fields))):
        return []
    return [Decision("names of numbers", quote(fields))]


def _note_blank_lines(text: str, records: list[Record], frame: pd.DataFrame) -> list[Decision]:
    """In a table of one column a blank line may have been meant as a missing value, and rows are then one off."""
    if len(frame.columns) > 1:
        return []
    lines = list(io.StringIO(text, newline=""))
    blank: list[int] = []
    end = records[0].line
    for record in iterate_records(text, NO_SEPARATOR):
        # lines between two records are blank, or hold "", or the rest of the record before in quotation marks
        blank += [place for place in range(end + 1, record.line) if not lines[place - 1].strip()]
        end = record.line + sum(field.count("\n") for field in record.cells)
    return [Decision("blank lines", str(blank[0]), count=len(blank))] if blank else []
