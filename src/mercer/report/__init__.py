"""Pictures of a fitted model, and the report: one HTML page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.estimators import GPRegressor
    from mercer.explain import Explanation
    from mercer.report.view import Sight


def write_report(model: GPRegressor | Sight, path: str | Path, explanation: Explanation | None = None) -> None:
    """Write the report of a fitted model; give its explanation if you have it already."""
    from mercer.report.html import report_html  # Matplotlib and Jinja take a moment to import
    from mercer.report.writing import check_place, write_whole

    check_place(Path(path))
    write_whole(report_html(model, explanation), Path(path))
