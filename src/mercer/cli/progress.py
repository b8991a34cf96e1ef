"""What a person who waits sees, on a terminal only: a spinner, or how far the search is and the best it has found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from mercer.fitting.clock import Progress as State


def spinner(console: Console) -> Progress:
    """A line with a spinner, a bar and the time; gone when the work is done."""
    return Progress(*_columns(), console=console, transient=True, disable=not console.is_terminal)


def _columns() -> tuple[Any, ...]:
    return SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), TimeElapsedColumn()


class FitDisplay:
    """A callback for `GPRegressor.fit`: starts of a given structure, or a search with the best kernel so far below.

    `names` are those of the encoded columns, None where there is only one input.
    """

    def __init__(self, console: Console, target: Any, names: Sequence[str] | None) -> None:
        self.console, self.names = console, names
        self.shift = _score_shift(target)
        self.bar = Progress(*_columns(), console=console)
        self.task = self.bar.add_task("looking for a kernel", total=None)
        self.best = Text("", no_wrap=True, overflow="ellipsis")
        self.stack = ExitStack()

    def __enter__(self) -> FitDisplay:
        if self.console.is_terminal:
            live = Live(Group(self.bar, self.best), console=self.console, transient=True, refresh_per_second=8)
            self.stack.enter_context(live)
        return self

    def __exit__(self, *failure: object) -> None:
        self.stack.close()

    def __call__(self, state: State) -> None:
        """Show how far a fit or a search is."""
        if not self.console.is_terminal:
            return
        rung = f"rung {state.rung + 1}"
        doing = f"step {state.depth}{f', {rung}' if state.depth else ''}"
        if state.counted == "starts":  # of one structure
            doing = rung if state.rung else "fitting"
        shown = f"{doing}: {state.done} of {state.total} {state.counted}"
        if state.seconds_left is not None:
            shown += f", {state.seconds_left:.0f} s left"
        self.bar.update(self.task, completed=state.done, total=state.total, description=shown)
        if state.best is not None:
            self.best.plain = f"  best so far {self._structure(state.best)}, score {state.score + self.shift:.1f}"

    def _structure(self, kernel: Any) -> str:
        from mercer.explain.subject import structure_text

        return structure_text(kernel, self.names, 1 if self.names is None else len(self.names))


def _score_shift(target: Any) -> float:
    """A score is computed for the scaled target; this is what the user's units add to it."""
    import numpy as np

    if target is None:  # of a stream: not known yet
        return 0.0
    scale = float(np.std(target))
    return 2.0 * len(target) * math.log(scale) if scale > 0 else 0.0
