"""An Excel workbook -> the rows of one of its sheets, with numbers and dates as it stores them."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any

from mercer.errors import InputError
from mercer.tables.decisions import Decision
from mercer.tables.layout import Record, is_empty, trim
from mercer.tables.names import quote, suggest

MOST_BYTES = 2**30  # unpacked: a million rows of ten columns are about half of it
EXCEL_ERRORS = (  # what openpyxl raises for damaged files
    zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, OSError, AttributeError, IndexError, SyntaxError,
    EOFError, NotImplementedError,
)  # fmt: skip


def read_sheet(content: bytes, name: str, sheet: str | None) -> tuple[list[Record], list[Decision]]:
    """Return the rows of a sheet (by its name or number from 1; the first that is shown), and which it was."""
    import openpyxl

    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise InputError(
            f"'{name}' is locked by a password, or is an old workbook. Open it in a spreadsheet program and save it as "
            ".xlsx without a password."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > MOST_BYTES:
            raise InputError(f"'{name}' unpacks to {unpacked / 2**30:.1f} GB. Save the table as CSV or Parquet.")
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        chosen = _choose_sheet(book, name, sheet)
        records = _read_rows(chosen)
        width = max((len(record.cells) for record in records), default=0)
        if any(len(record.cells) < width or any(map(is_empty, record.cells)) for record in records):
            _refuse_formulas(content, name, chosen.title)
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"'{name}' does not fit into memory. Save the table as CSV or Parquet.") from None
    except EXCEL_ERRORS as problem:
        reason = str(problem).strip().split("\n")[0]
        raise InputError(
            f"'{name}' cannot be read as an Excel workbook ({reason}). It may be damaged or of another type: save it "
            "again, or save the table as CSV."
        ) from None
    if not records:
        raise InputError(f"The sheet {chosen.title!r} of '{name}' is empty. Name another with --sheet.", about="sheet")
    several = len(book.worksheets) > 1
    return records, [Decision("sheet", chosen.title, count=len(book.worksheets))] if several or sheet else []


def _choose_sheet(book: Any, name: str, sheet: str | None) -> Any:
    shown = [one for one in book.worksheets if one.sheet_state == "visible"] or book.worksheets
    if not shown:
        raise InputError(f"'{name}' has no sheet with a table.")
    if sheet is None:
        return shown[0]
    names = [one.title for one in book.worksheets]
    if sheet in names:
        return book.worksheets[names.index(sheet)]
    if sheet.isdigit() and 1 <= int(sheet) <= len(names):
        return book.worksheets[int(sheet) - 1]
    raise InputError(
        f"--sheet: '{name}' has no sheet {sheet!r}; it has {quote(names)}.{suggest(sheet, names)}", about="sheet"
    )


def _read_rows(sheet: Any) -> list[Record]:
    sheet.reset_dimensions()  # some programs write a wrong size
    records = []
    for line, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = list(row)
        if length := trim(cells):
            records.append(Record(line, cells[:length]))
    return records


def _refuse_formulas(content: bytes, name: str, title: str) -> None:
    """Refuse a workbook whose formulas were never computed: their cells look empty."""
    import openpyxl

    values, formulas = (
        openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=kept)[title] for kept in (True, False)
    )
    for sheet in (values, formulas):
        sheet.reset_dimensions()
    both = (sheet.iter_rows(values_only=True) for sheet in (values, formulas))
    for line, rows in enumerate(zip(*both, strict=False), start=1):
        for value, formula in zip(*rows, strict=False):
            if value is None and isinstance(formula, str) and formula.startswith("="):
                raise InputError(
                    f"'{name}', sheet {title!r}, row {line}: the formula {formula} has no stored result. Open the file "
                    "in a spreadsheet program and save it again."
                )
