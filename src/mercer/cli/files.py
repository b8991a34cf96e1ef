"""Output on disk: checked before the work begins, written when it is done."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

TABLE_ENDINGS = (".csv", ".parquet")


def prepared_folder(path: Path) -> Path:
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


def prepared_table(path: Path, *sources: Path) -> Path:
    """See that a table can be written to this file, which must not be one of those that are read."""
    file = path.expanduser()
    if file.suffix.lower() not in TABLE_ENDINGS:
        raise InputError(f"The output '{path}' must end in {' or '.join(TABLE_ENDINGS)}.")
    if file.is_dir():
        raise InputError(f"The output '{path}' is a folder. Give the name of a file with --out.")
    if any(file.resolve() == source.expanduser().resolve() for source in sources):
        raise InputError(f"The output '{path}' is a file that is read; it would be lost. Choose another name.")
    prepared_folder(file.parent)
    return file


def write_table(table: pd.DataFrame, file: Path) -> None:
    """Write CSV or Parquet, by the file's ending."""
    import pyarrow

    try:
        if file.suffix.lower() == ".csv":
            table.to_csv(file, index=False)
        else:
            table.to_parquet(file, index=False)
    except OSError as error:
        raise InputError(f"'{file}' cannot be written: {error.strerror or error}.") from None
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"The table cannot be written as Parquet ({reason}). Write CSV instead.") from None


def write_text(text: str, file: Path) -> None:
    """Write a text file."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"'{file}' cannot be written: {error.strerror or error}.") from None
