"""A file on disk -> a pandas table with clean column names.

Of delimited text (CSV and its relatives) Python's `csv` module checks the shape, because it can name the line that is
wrong; pandas then reads the values, because it is fast.
"""

from __future__ import annotations

import csv
import io
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from mercer.errors import DataWarning, InputError
from mercer.tables.names import clean_columns, clean_names, pluralise, quote, suggest

TEXT_EXTENSIONS = (".csv", ".tsv", ".txt")
PARQUET_EXTENSIONS = (".parquet", ".pq")
# On a tie the rarer mark wins: a comma may sit inside a name or a number, a tab hardly ever does.
DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma"}
SAMPLED_RECORDS = 50

# How files of other kinds begin, for a better message than "binary content".
SIGNATURES = {
    b"PK\x03\x04": "an Excel workbook or zip archive; open it and save the table as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; open it and save the table as CSV",
    b"PAR1": "a Parquet file; give its name the ending .parquet",
    b"\x1f\x8b": "a gzip archive; unpack it first",
    b"%PDF": "a PDF document; export the table as CSV instead",
}
UNCLOSED = "A quotation mark is probably not closed."
DECIMAL_COMMA = r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?(?:[eE][+-]?\d+)?"


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a CSV (comma, semicolon or tab) or Parquet file.

    Column names are stripped of surrounding spaces and are unique. Every defect of the file is an
    `InputError` that says what to try; harmless repairs are announced by a `DataWarning`.
    """
    location = Path(path).expanduser()
    known = TEXT_EXTENSIONS + PARQUET_EXTENSIONS
    repairs: tuple[str, ...] = ()
    try:
        if not location.exists():
            raise InputError(f"There is no file '{location}'.{_suggest(location)} Check the name and the folder.")
        if location.is_dir():
            raise InputError(
                f"'{location}' is a folder, not a file. Give the path of one {', '.join(known)} file inside it."
            )
    except OSError as problem:
        raise InputError(f"'{location}' cannot be opened: {problem}. Check the name and your permissions.") from None
    if location.suffix.lower() not in known:
        raise InputError(
            f"'{location.name}' has an unknown file type ('{location.suffix or 'no extension'}'). "
            f"Known types are {', '.join(known)}; a spreadsheet program can save its table as CSV."
        )
    if location.stat().st_size == 0:
        raise InputError(f"'{location.name}' is empty (0 bytes). Check that it was saved or downloaded completely.")
    if location.suffix.lower() in PARQUET_EXTENSIONS:
        frame = _read_parquet(location)
    else:
        try:
            content = location.read_bytes()
        except OSError as problem:
            raise InputError(f"'{location}' cannot be read: {problem}. Check your permissions.") from None
        frame, repairs = _read_delimited(content, location.name)
    for repair in repairs:
        warnings.warn(repair, DataWarning, stacklevel=2)
    if frame.empty:
        raise InputError(
            f"'{location.name}' has column names ({quote(frame.columns)}) but no rows of data. "
            "Check that the whole file was saved; the data must start on the line below the names."
        )
    return frame


def _suggest(location: Path) -> str:
    try:
        return suggest(location.name, [entry.name for entry in location.parent.iterdir()])
    except OSError:
        return ""


def _read_parquet(location: Path) -> pd.DataFrame:
    import pyarrow
    import pyarrow.parquet

    try:
        # pandas answers a repeated name with an obscure error of its own, so the names are looked at first.
        clean_names(pyarrow.parquet.read_schema(location).names, f"'{location.name}'")
        frame = pd.read_parquet(location, engine="pyarrow", page_checksum_verification=True)
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"'{location.name}' does not fit into memory, or is damaged. Save fewer rows.") from None
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        reason = str(problem).strip().split("\n")[0]
        raise InputError(
            f"'{location.name}' cannot be read as a Parquet file ({reason}). It may be damaged or of another type: "
            "save it again, or save the table as CSV."
        ) from None
    # pandas stores an index beside the columns; a named or dated one is data, row numbers are not
    index = frame.index
    only_row_numbers = index.nlevels == 1 and index.name is None and pd.api.types.is_integer_dtype(index.dtype)
    return clean_columns(frame.reset_index(drop=only_row_numbers), f"'{location.name}'")


class CsvRecord(NamedTuple):
    """One row of text fields, and the line of the file on which it starts."""

    line: int
    fields: list[str]


def _read_delimited(content: bytes, name: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the table and a sentence for each repair; `name` is the file's name, for messages."""
    text = _decode(content, name)
    delimiter = _detect_delimiter(text)
    header = _check_shape(text, delimiter, name)
    placeholders = [field.strip() or f"column {position}" for position, field in enumerate(header.fields, start=1)]
    names = clean_names(placeholders, f"'{name}', line {header.line},")
    try:
        frame = pd.read_csv(io.StringIO(text), sep=delimiter, header=0, names=names, index_col=False,
                            skipinitialspace=True, low_memory=False)  # fmt: skip
    except pd.errors.ParserError as problem:
        raise InputError(f"'{name}' cannot be read as a table: {problem}. {UNCLOSED}") from None
    filled = np.flatnonzero(frame.notna().any(axis=1).to_numpy())
    frame = frame.iloc[: filled[-1] + 1 if filled.size else 0]  # spreadsheets leave rows of bare separators below
    frame, repairs = _drop_unnamed_columns(frame, header, name)
    if delimiter == ";":
        frame, more = _read_decimal_commas(frame)
        repairs += more
    fields = [field.strip() for field in header.fields]
    # names 0, 1, 2 ... are what pandas writes for columns that never had names
    counted = any(fields == [str(start + step) for step in range(len(fields))] for start in (0, 1))
    if fields and not counted and pd.to_numeric(pd.Series(fields), errors="coerce").notna().all():
        repairs += (
            f"The first line of '{name}' holds only numbers ({quote(header.fields)}) and was read as column names. "
            "If it is data, add a line of column names above it.",
        )
    return frame, repairs + _note_blank_lines(text, header, name)


def _decode(content: bytes, name: str) -> str:
    """Bytes to text: a byte order mark decides, then UTF-8, then Latin-1, which accepts any byte."""
    for signature, description in SIGNATURES.items():
        if content.startswith(signature):
            raise InputError(f"'{name}' is not a text file: it looks like {description}.")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = content.decode("utf-16", errors="replace")
    elif b"\0" in content:
        raise InputError(
            f"'{name}' is not a text file: it has a zero byte at position {content.index(0)}. "
            "It may be damaged or of another type; save the table as CSV again."
        )
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
    if not text.strip():
        raise InputError(f"'{name}' is empty: it holds only blank lines. Check that it was saved completely.")
    return text


def _detect_delimiter(text: str) -> str:
    """The mark that cuts the first records into equal numbers of fields; the most fields win."""

    def merit(delimiter: str) -> tuple[bool, int]:
        sample = itertools.islice(_iterate_records(text, delimiter), SAMPLED_RECORDS)
        try:
            counts = [len(record.fields) for record in sample] or [0]
        except csv.Error:  # _check_shape will report it
            counts = [0]
        return counts[0] > 1 and len(set(counts)) == 1, counts[0]

    best = max(DELIMITERS, key=merit)
    return best if merit(best)[1] > 1 else ","


def _check_shape(text: str, delimiter: str, name: str) -> CsvRecord:
    """Every record must have as many fields as the header, which is returned."""
    header: CsvRecord | None = None
    line = 1
    try:
        for record in _iterate_records(text, delimiter):
            line = record.line
            header = header or record
            if len(record.fields) != len(header.fields):
                advice = "Add or remove fields there; put quotation marks around a text that contains the separator."
                raise InputError(
                    f"'{name}', line {line}: {pluralise(len(record.fields), 'field')} where the line of column names "
                    f"has {len(header.fields)} (fields are separated by a {DELIMITERS[delimiter]}). "
                    + (UNCLOSED if any("\n" in field for field in record.fields) else advice)
                )
    except csv.Error as problem:
        raise InputError(f"'{name}', after line {line}: {problem}. {UNCLOSED}") from None
    if header is None:
        raise InputError(f"'{name}' is empty: it holds no column names. Check that it was saved completely.")
    return header


def _iterate_records(text: str, delimiter: str) -> Iterator[CsvRecord]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    start = 1
    for fields in reader:
        # A blank line is no record, to pandas as well.
        if len(fields) > 1 or (fields and fields[0].strip()):
            yield CsvRecord(start, fields)
        start = reader.line_num + 1


def _note_blank_lines(text: str, header: CsvRecord, name: str) -> tuple[str, ...]:
    """In a table of one column a blank line may have been meant as a missing value, and rows are then one off."""
    if len(header.fields) > 1:
        return ()
    lines = list(io.StringIO(text, newline=""))
    blank: list[int] = []
    end = header.line
    for record in _iterate_records(text, ","):
        # lines between two records are blank, or hold "", or the rest of the record before in quotation marks
        between = range(end + 1, record.line)
        blank += [place for place in between if not lines[place - 1].strip()]
        end = record.line + sum(field.count("\n") for field in record.fields)
    if not blank:
        return ()
    if len(blank) == 1:
        which = f"Line {blank[0]} of '{name}' is blank and was"
    else:
        which = f"{len(blank)} lines of '{name}' are blank (the first is line {blank[0]}) and were"
    return (f'{which} skipped, not read as a missing value; write "" or NA for one.',)


def _drop_unnamed_columns(frame: pd.DataFrame, header: CsvRecord, name: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Columns without a name: drop empty ones (a separator ends each line) and saved row numbers, keep the rest."""
    repairs: tuple[str, ...] = ()
    for position, field in enumerate(header.fields):
        if field.strip():
            continue
        label = f"column {position + 1}"
        column = frame[label]
        if column.isna().all():
            frame = frame.drop(columns=label)
        elif (
            position == 0
            and len(header.fields) > 1
            and pd.api.types.is_integer_dtype(column.dtype)
            and column.iloc[0] in (0, 1)
            and (column.diff()[1:] == 1).all()
        ):
            frame = frame.drop(columns=label)
            repairs += (f"The first column of '{name}' has no name and holds row numbers; it was left out.",)
        else:
            repairs += (f"Column {position + 1} of '{name}' has no name and is called '{label}'.",)
    return frame, repairs


def _read_decimal_commas(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Where semicolons separate the fields, '1.234,5' is how much of Europe writes 1234.5."""
    repaired: dict[str, pd.Series] = {}
    for label in frame.columns:
        present = frame[label].dropna()
        if present.empty or not all(isinstance(value, str) for value in present):
            continue
        texts = present.str.strip()
        if texts.str.fullmatch(DECIMAL_COMMA).all() and texts.str.contains(",").any():
            plain = texts.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
            repaired[label] = pd.to_numeric(plain).reindex(frame.index)
    if not repaired:
        return frame, ()
    sentence = f"Decimal commas were read as decimal points (1,5 is 1.5) in {quote(repaired)}."
    return frame.assign(**repaired), (sentence,)
