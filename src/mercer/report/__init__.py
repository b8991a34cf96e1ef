"""Pictures of a fitted model, and the report: one HTML page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mercer.errors import InputError

if TYPE_CHECKING:
    from mercer.explain import Explanation
    from mercer.model.fitted import Fitted
    from mercer.report.view import View


def write_report(fitted: Fitted | View, path: str | Path, explanation: Explanation | None = None) -> None:
    """Write the report of a fit; give its explanation if you have it already."""
    from mercer.report.html import report_html  # Matplotlib and Jinja take a moment to import

    check_place(Path(path))
    write_whole(report_html(fitted, explanation), Path(path))


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
