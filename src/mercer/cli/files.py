"""Files: a table that is read, whole or in parts; output that is checked before the work begins and written after."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.errors import InputError
from mercer.writing import whole_file, write_text

if TYPE_CHECKING:
    import pandas as pd

    from mercer.tables import LoadedTable, ReadOptions
    from mercer.tables.parquet_rows import ParquetRows

TABLE_ENDINGS = (".csv", ".parquet")
COPIES = 4  # of a table that must fit into the free memory: they are made on the way


def read_rows(
    path: Path, target: str, options: ReadOptions, free_memory: int | None = None
) -> LoadedTable | ParquetRows:
    """Return the table; of a Parquet file that does not fit into memory, its rows to be read in parts."""
    from mercer.inference.choose import available_memory
    from mercer.tables import read
    from mercer.tables.parquet_rows import ParquetRows
    from mercer.tables.reading import PARQUET_EXTENSIONS

    file = path.expanduser()
    if file.suffix.lower() in PARQUET_EXTENSIONS and file.is_file() and file.stat().st_size:
        inputs = None if options.columns is None else [name for name in options.columns if name != target]
        rows = ParquetRows(file, target, inputs)
        most = available_memory() if free_memory is None else free_memory
        if COPIES * 8 * rows.total * len(rows.all_columns) > most:
            used = [name for name in inputs or rows.all_columns if name != target and name not in options.exclude]
            return ParquetRows(file, target, used) if options.exclude else rows
    return read(path, options)


def prepare_folder(path: Path) -> Path:
    """Make the output folder and see that it can be written."""
    folder = path.expanduser()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"The output folder '{path}' cannot be made: a file has that name. Choose another with --out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"The output folder '{path}' cannot be written ({reason}). Choose another with --out."
        ) from None
    return folder


def prepare_table(path: Path, *sources: Path) -> Path:
    """See that a table can be written to this file."""
    if path.suffix.lower() not in TABLE_ENDINGS:
        raise InputError(f"The output '{path}' must end in {' or '.join(TABLE_ENDINGS)}.")
    return prepare_file(path, *sources)


def prepare_file(path: Path, *sources: Path) -> Path:
    """See that this file can be written; it must not be one of those that are read."""
    file = path.expanduser()
    if file.is_dir():
        raise InputError(f"The output '{path}' is a folder. Give the name of a file with --out.")
    if any(file.resolve() == source.expanduser().resolve() for source in sources):
        raise InputError(f"The output '{path}' is a file that is read; it would be lost. Choose another name.")
    prepare_folder(file.parent)
    return file


def write_table(table: pd.DataFrame, file: Path) -> None:
    """Write CSV or Parquet, by the file's ending."""
    import pyarrow

    try:
        with whole_file(file) as place:
            if file.suffix.lower() == ".csv":
                table.to_csv(place, index=False)
            else:
                table.to_parquet(place, index=False)
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"The table cannot be written as Parquet ({reason}). Write CSV instead.") from None


def write_json(document: dict[str, Any], file: Path) -> None:
    """Write a document as a text file."""
    write_text(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n", file)
