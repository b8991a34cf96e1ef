"""Files that are written whole or not at all: a full disk, Ctrl-C or a kill leaves the older file as it was.

And data that stands safely inside a page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mercer.errors import InputError


@contextmanager
def whole_file(path: str | Path, advice: str = "choose another place") -> Iterator[Path]:
    """Give a place beside the file to write to; what was written there takes the file's place at the end.

    The place has the file's ending, by which some writers choose the format. Where writing fails nothing is left of it.
    A device or a pipe is refused: a file would take its place.
    """
    try:
        file = Path(path).expanduser().resolve()
        special = file.exists() and not (file.is_file() or file.is_dir())
    except (TypeError, ValueError, RuntimeError) as error:  # no text, a null byte, no such home
        raise InputError(f"cannot write {path!r}: {error}; {advice}") from None
    if special:
        raise InputError(f"cannot write '{path}': it is a device or a pipe, not a file; {advice}")
    unfinished = file.with_name(f"{file.stem}.part{file.suffix}")
    try:
        yield unfinished
        unfinished.replace(file)
    except OSError as error:
        raise InputError(f"cannot write '{path}': {error.strerror or error}; {advice}") from None
    finally:
        with suppress(OSError):  # it cannot be there where its folder cannot be
            unfinished.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """See that a file could be written there, before the work begins."""
    folder = path.expanduser().resolve().parent
    if not folder.is_dir():
        raise InputError(f"cannot write '{path}': there is no folder '{folder}'; make it, or choose another place")
    if path.expanduser().is_dir():
        raise InputError(f"cannot write '{path}': it is a folder; give the name of a file")


def write_text(text: str, path: str | Path) -> None:
    """Write a text file."""
    with whole_file(path) as place:
        place.write_text(text, encoding="utf-8")


def json_for_script(value: Any) -> str:
    """Return JSON that can stand inside a script element of a page: no text in it can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
