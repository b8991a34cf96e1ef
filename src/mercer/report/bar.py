"""A bar on a terminal. It needs nothing but rich, so that it is there before anything else is loaded."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


def make_bar(console: Console) -> Progress:
    """Return a line with a spinner, a bar and the time; gone when the work is done, and seen on terminals only."""
    text = TextColumn("{task.description}", markup=False)
    columns = SpinnerColumn(), text, BarColumn(bar_width=20), TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
