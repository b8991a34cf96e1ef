"""Write a text file, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from mercer.errors import InputError


def check_place(path: Path) -> None:
    """See that a file could be written there, before the work begins."""
    folder = path.expanduser().resolve().parent
    if not folder.is_dir():
        raise InputError(f"cannot write '{path}': there is no folder '{folder}'; make it, or choose another place")
    if path.expanduser().is_dir():
        raise InputError(f"cannot write '{path}': it is a folder; give the name of a file")


def write_whole(text: str, path: Path) -> None:
    """Write beside the file first, then take its place: an older one stays whole until the new one is."""
    file = path.expanduser().resolve()
    unfinished = file.with_name(file.name + ".part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InputError(f"cannot write '{path}': {error.strerror or error}; choose another place") from None
