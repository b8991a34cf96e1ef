"""A file on disk -> a pandas table with clean column names."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd

from mercer.errors import DataWarning, InputError
from mercer.tables.delimited import read_delimited
from mercer.tables.names import clean_names, with_clean_names
from mercer.tables.wording import quoted, suggestion

TEXT_EXTENSIONS = (".csv", ".tsv", ".txt")
PARQUET_EXTENSIONS = (".parquet", ".pq")


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a CSV (comma, semicolon or tab) or Parquet file.

    Column names are stripped of surrounding spaces and are unique. Every defect of the file is an
    `InputError` that says what to try; harmless repairs are announced by a `DataWarning`.
    """
    location = Path(path).expanduser()
    _check_location(location)
    repairs: tuple[str, ...] = ()
    if location.suffix.lower() in PARQUET_EXTENSIONS:
        frame = _read_parquet(location)
    else:
        frame, repairs = read_delimited(_content(location), location.name)
    for repair in repairs:
        warnings.warn(repair, DataWarning, stacklevel=2)
    if frame.empty:
        raise InputError(
            f"'{location.name}' has column names ({quoted(frame.columns)}) but no rows of data. "
            "Check that the whole file was saved; the data must start on the line below the names."
        )
    return frame


def _check_location(location: Path) -> None:
    known = ", ".join(TEXT_EXTENSIONS + PARQUET_EXTENSIONS)
    try:
        if not location.exists():
            raise InputError(f"There is no file '{location}'.{_neighbours(location)} Check the name and the folder.")
        if location.is_dir():
            raise InputError(f"'{location}' is a folder, not a file. Give the path of one {known} file inside it.")
    except OSError as problem:
        raise InputError(f"'{location}' cannot be opened: {problem}. Check the name and your permissions.") from None
    if location.suffix.lower() not in TEXT_EXTENSIONS + PARQUET_EXTENSIONS:
        raise InputError(
            f"'{location.name}' has an unknown file type ('{location.suffix or 'no extension'}'). "
            f"Known types are {known}; a spreadsheet program can save its table as CSV."
        )
    if location.stat().st_size == 0:
        raise InputError(f"'{location.name}' is empty (0 bytes). Check that it was saved or downloaded completely.")


def _neighbours(location: Path) -> str:
    try:
        return suggestion(location.name, [entry.name for entry in location.parent.iterdir()])
    except OSError:
        return ""


def _content(location: Path) -> bytes:
    try:
        return location.read_bytes()
    except OSError as problem:
        raise InputError(f"'{location}' cannot be read: {problem}. Check your permissions.") from None


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
    return with_clean_names(_index_as_columns(frame), f"'{location.name}'")


def _index_as_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """pandas stores an index beside the columns; a named or dated one is data, row numbers are not."""
    index = frame.index
    only_row_numbers = index.nlevels == 1 and index.name is None and pd.api.types.is_integer_dtype(index.dtype)
    return frame.reset_index(drop=only_row_numbers)
