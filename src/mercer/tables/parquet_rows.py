"""Rows of Parquet files that need not fit into memory: read block by block, as often as they are needed.

Every pass opens the files anew and checks what it meets, so that a file which is damaged, whose columns differ from the
first one's or which is changed while it is used ends in a sentence and not in a wrong sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.tables.names import quote, refuse_unknown_target

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ParquetRows:
    """The rows of a Parquet file, of several, or of all in a folder: `GPRegressor.fit(ParquetRows(...))`.

    `target` names the column to predict, `inputs` those to predict it from (all others by default); they hold numbers.
    Rows without a target are left out.
    """

    path: str | Path | Sequence[str | Path]
    target: str
    inputs: Sequence[str] | None = None

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The files, in order."""
        given = [self.path] if isinstance(self.path, str | Path) else list(self.path)
        found: list[Path] = []
        for place in (Path(entry).expanduser() for entry in given):
            found += sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        if not found:
            raise InputError(f"There is no Parquet file in '{self.path}'. Give a file, or a folder of .parquet files.")
        for file in found:
            if not file.is_file():
                raise InputError(f"There is no file '{file}'. Check the name and the folder.")
        return tuple(found)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The input columns, in order."""
        schema = _open(self.files[0]).schema_arrow
        refuse_unknown_target(self.target, schema.names)
        chosen = [n for n in schema.names if n != self.target] if self.inputs is None else list(self.inputs)
        if self.target in chosen or not chosen:
            raise InputError(f"The inputs are columns besides the target '{self.target}'; give at least one.")
        self._check(self.files[0], schema, chosen)
        return tuple(chosen)

    @property
    def total(self) -> int:
        """The number of rows, with a target and without."""
        return sum(int(_open(file).metadata.num_rows) for file in self.files)

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The columns in the file, used or not."""
        return tuple(_open(self.files[0]).schema_arrow.names)

    def blocks(self, size: int) -> Iterator[tuple[Array, Array]]:
        """Yield inputs and targets of at most `size` rows at a time, in the order of the files."""
        import pyarrow

        columns = [*self.names, self.target]
        for file in self.files:
            reader, first = _open(file), 0
            self._check(file, reader.schema_arrow, self.names)
            batches = reader.iter_batches(batch_size=size, columns=columns)
            while True:
                try:
                    batch = next(batches, None)
                except (pyarrow.ArrowException, OSError) as problem:
                    raise InputError(
                        f"'{file.name}' cannot be read from row {first + 1} on ({_first_line(problem)}). It is damaged "
                        "or was cut off: write it again."
                    ) from None
                if batch is None:
                    break
                cells = [batch.column(batch.schema.get_field_index(name)) for name in columns]
                table = np.column_stack([np.asarray(c.to_numpy(zero_copy_only=False), dtype=np.float64) for c in cells])
                yield finite_block(table[:, :-1], table[:, -1], self.names, f"'{file.name}'", first)
                first += len(table)
            if first != reader.metadata.num_rows:
                whole = reader.metadata.num_rows
                raise InputError(f"'{file.name}' ends after {first} of {whole} rows: write it again.")

    def _check(self, file: Path, schema: Any, names: Sequence[str]) -> None:
        import pyarrow.types as kinds

        for name in (*names, self.target):
            places = schema.get_all_field_indices(name)
            if len(places) != 1:
                less = "has no column" if not places else "has more than one column"
                others = "" if file == self.files[0] else f", unlike '{self.files[0].name}'"
                raise InputError(
                    f"'{file.name}' {less} '{name}'{others}; its columns are {quote(schema.names)}. All files of a "
                    "stream need the same columns."
                )
            kind = schema.field(places[0]).type
            if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_null(kind)):
                raise InputError(
                    f"column '{name}' of '{file.name}' holds {kind}: a stream takes numbers only. Leave it out "
                    "(inputs=...), turn it into numbers, or read the table as a whole."
                )


def finite_block(X: Array, y: Array, names: Sequence[str], where: str, first: int) -> tuple[Array, Array]:
    """Return a block without the rows that have no target; what is not finite otherwise is an error with its place."""
    bad = ~np.isfinite(X)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        what = "nothing (NaN)" if np.isnan(X[row, column]) else "infinity"
        raise InputError(
            f"{where}, row {first + row + 1}: column '{names[column]}' holds {what}; drop such rows or fill them in"
        )
    if np.isinf(y).any():
        row = int(np.flatnonzero(np.isinf(y))[0])
        raise InputError(f"{where}, row {first + row + 1}: the target is infinite; drop such rows")
    there = ~np.isnan(y)
    return (X, y) if there.all() else (X[there], y[there])


def _open(file: Path) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(file, page_checksum_verification=True)  # where the file has checksums
    except (pyarrow.ArrowException, OSError) as problem:
        raise InputError(
            f"'{file.name}' cannot be read as a Parquet file ({_first_line(problem)}). It is damaged, cut off or of "
            "another type: write it again."
        ) from None


def _first_line(problem: BaseException) -> str:
    return str(problem).strip().split("\n")[0]
