"""How far a fit is, for a person who waits: a line with a bar on a terminal, an element that changes in a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from mercer.explain.subject import structure_text
from mercer.fitting.minimise import Progress as State
from mercer.report.bar import make_bar

Shown = Callable[[State], None]
PAUSE = 0.2  # seconds between two changes in a notebook: each is a message to the browser


def describe_state(state: State) -> str:
    """Say how many kernels, starts or steps are done, and how much time is left."""
    rung = f"rung {state.rung + 1}"
    doing = f"step {state.depth}{f', {rung}' if state.depth else ''}"
    if state.counted == "starts":  # of one structure
        doing = rung if state.rung else "fitting"
    if state.counted == "steps":
        doing = "fitting"
    left = "" if state.seconds_left is None else f", {state.seconds_left:.0f} s left"
    return f"{doing}: {state.done} of {state.total} {state.counted}{left}"


def describe_best(state: State, names: Sequence[str] | None, shift: float | None = None) -> str:
    """Say which kernel is the best so far and, where the `shift` to the units of the data is known, its score."""
    if state.best is None:
        return ""
    kernel = structure_text(state.best, names, 1 if names is None else len(names))
    return f"best so far {kernel}" if shift is None else f"best so far {kernel}, score {state.score + shift:.1f}"


@contextmanager
def show_on_terminal(console: Console, names: Sequence[str] | None, shift: float | None = None) -> Iterator[Shown]:
    """Show a line that changes, with the best kernel so far below it."""
    bar, best = make_bar(console), Text("", no_wrap=True, overflow="ellipsis")
    task = bar.add_task("looking for a kernel", total=None)

    def show(state: State) -> None:
        if state.announcement:
            console.print(state.announcement, soft_wrap=True)
            return
        bar.update(task, completed=state.done, total=state.total, description=describe_state(state))
        best.plain = f"  {describe_best(state, names, shift)}" if state.best is not None else best.plain

    with Live(Group(bar, best), console=console, transient=True, refresh_per_second=8):
        yield show


@contextmanager
def show_in_notebook(names: Sequence[str] | None) -> Iterator[Shown]:
    """Show an element that changes; it needs no extension of the notebook."""
    from IPython.display import HTML, display

    handle, last, said = display(HTML("looking for a kernel …"), display_id=True), 0.0, ""

    def show(state: State) -> None:
        nonlocal last, said
        said = state.announcement or said
        if time.perf_counter() - last < PAUSE and not state.announcement:
            return
        last = time.perf_counter()
        handle.update(HTML(write_state(state, said, names)))

    yield show
    handle.update(HTML(f"<p>{escape(said)}</p>" if said else ""))


def write_state(state: State, said: str, names: Sequence[str] | None) -> str:
    """Return the element of a notebook: what was announced, a bar, how far it is, and the best kernel so far."""
    first = f"<p>{escape(said)}</p>" if said else ""
    bar = f'<progress value="{state.done}" max="{max(1, state.total)}"></progress>'
    return f"{first}{bar} {escape(describe_state(state))}<br><small>{escape(describe_best(state, names))}</small>"


def fit_with_bar(fit: Callable[..., Any], X: Any, *arguments: Any) -> Any:
    """Call `fit(X, ..., progress)` with a bar where somebody can see one: `progress=True` of an estimator."""
    names = [str(number) for number in range(X.shape[1])] if getattr(X, "ndim", 1) > 1 and X.shape[1] > 1 else None
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if console.is_jupyter:
        with show_in_notebook(names) as show:
            return fit(X, *arguments, show)
    if console.is_terminal:
        with show_on_terminal(console, names) as show:
            return fit(X, *arguments, show)
    return fit(X, *arguments, lambda state: console.print(state.announcement) if state.announcement else None)
