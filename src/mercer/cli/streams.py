"""A table that fits into memory is read; a Parquet file that does not is read in parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from mercer.tables.parquet_rows import ParquetRows

SHARE = 4  # a table may take one such part of the free memory: copies of it are made on the way


def table_or_stream(path: Path, target: str, inputs: list[str] | None) -> pd.DataFrame | ParquetRows:
    """Return the table, or its rows to be read in parts."""
    from mercer.inference.choose import available_memory
    from mercer.tables import read_table
    from mercer.tables.parquet_rows import ParquetRows
    from mercer.tables.reading import PARQUET_EXTENSIONS

    file = path.expanduser()
    if file.suffix.lower() in PARQUET_EXTENSIONS and file.is_file() and file.stat().st_size:
        rows = ParquetRows(file, target, inputs)
        if SHARE * 8 * rows.total * rows.columns > available_memory():
            return rows
    return read_table(path)
