"""Bytes -> text: which characters a file is written in."""

from __future__ import annotations

from mercer.errors import InputError
from mercer.tables.decisions import Decision

# How files of other kinds begin, for a better message than "binary content".
SIGNATURES = {
    b"PK\x03\x04": "an Excel workbook or zip archive; give a workbook the ending .xlsx, or save the table as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; open it and save the table as .xlsx or CSV",
    b"PAR1": "a Parquet file; give its name the ending .parquet",
    b"\x1f\x8b": "a gzip archive; unpack it first",
    b"%PDF": "a PDF document; export the table as CSV instead",
    b"<!doctype": "a web page; open it and save the table as CSV",
    b"<html": "a web page; open it and save the table as CSV",
    b"<?xml": "XML; open it in a spreadsheet program and save the table as CSV",
    b"[{": "JSON; in Python, pandas.read_json(...).to_csv(...) makes a CSV file of it",
    b'{"': "JSON; in Python, pandas.read_json(...).to_csv(...) makes a CSV file of it",
}
SHOWN = {"cp1252": "Windows-1252 (western Europe)", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16", "utf-16": "UTF-16"}
PROBED = 4000  # bytes that tell UTF-16: of western text every second one is zero
MOST_ZEROS, LEAST_ZEROS = 0.02, 0.4


def decode(content: bytes, name: str, encoding: str | None = None) -> tuple[str, list[Decision]]:
    """Return the text: a byte order mark decides, then zeros (UTF-16), then UTF-8, then Windows-1252.

    `encoding` is the user's word for it.
    """
    for signature, description in SIGNATURES.items():
        if content.startswith(signature) or content[:100].lstrip(b"\xef\xbb\xbf\r\n ").lower().startswith(signature):
            raise InputError(f"'{name}' is not a text file: it looks like {description}.", about="file")
    chosen = encoding or _guess(content, name)
    try:
        text = content.decode(chosen)
    except LookupError:
        raise InputError(
            f"--encoding: there is no encoding '{encoding}'. Try utf-8, cp1252 or utf-16.", about="encoding"
        ) from None
    except UnicodeDecodeError as problem:
        if encoding is None and chosen == "cp1252":
            raise InputError(
                f"'{name}' is neither UTF-8 nor Windows-1252: byte {problem.start} fits none of them. Say what it is, "
                "as --encoding shift_jis, gb18030, big5, euc_kr, cp1251 or mac_roman, or save it as UTF-8.",
                about="encoding",
            ) from None
        elif encoding is None:
            text = content.decode(chosen, errors="replace")
        else:
            wrong = f"'{name}' is not {encoding}: byte {problem.start} does not fit."
            raise InputError(f"{wrong} Leave out --encoding, or name another.", about="encoding") from None
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"'{name}' is empty: it holds only blank lines. Check that it was saved completely.")
    return text, [] if chosen == "utf-8-sig" else [Decision("encoding", SHOWN.get(chosen, chosen))]


def _guess(content: bytes, name: str) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    start = content[:PROBED]
    if b"\0" in content:
        even, odd = (start[first::2].count(0) / max(1, len(start[first::2])) for first in (0, 1))
        if min(even, odd) <= MOST_ZEROS and max(even, odd) >= LEAST_ZEROS and len(content) % 2 == 0:
            return "utf-16-le" if odd > even else "utf-16-be"
        raise InputError(
            f"'{name}' is not a text file: it has a zero byte at position {content.index(0)}. "
            "It may be damaged or of another type; save the table as CSV again."
        )
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"
