"""Pictures of a fitted model, and the report: one HTML page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mercer.writing import check_place, write_text

if TYPE_CHECKING:
    from mercer.explain import Explanation
    from mercer.model.fitted import Fitted
    from mercer.report.html import NextStepsTable
    from mercer.report.view import View


def write_report(
    fitted: Fitted | View, path: str | Path, explanation: Explanation | None = None, steps: NextStepsTable | None = None
) -> None:
    """Write the report of a fit; give its explanation if you have it already, and the next steps if there are some."""
    from mercer.report.html import report_html  # Matplotlib and Jinja take a moment to import

    check_place(Path(path))
    write_text(report_html(fitted, explanation, steps), path)
