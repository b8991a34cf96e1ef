"""Where a command speaks and listens: its result on standard output, the rest on standard error, and Ctrl-C.

The result is text or one JSON document. A person who waits sees, on a terminal only, a spinner, or how far the search
is and the best kernel that it has found.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from mercer.errors import FitWarning, MercerWarning

if TYPE_CHECKING:
    from mercer.fitting.minimise import Progress as State

WIDEST = 100
COMPILING = "compiling the numerical core for this machine, once (about half a minute)"
ONE_REQUEST = 1.0  # seconds within which a second Ctrl-C is the same request


class Terminal:
    """The two streams of one command, and the notes that came up while it ran.

    `cache` is the folder with Numba's compiled core; None: where Numba keeps it.
    """

    def __init__(self, as_json: bool, console: Console | None = None, cache: Path | None = None) -> None:
        self.as_json = as_json
        self.notes: list[str] = []
        self.console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self.cache = cache

    @property
    def width(self) -> int:
        """How wide text should be."""
        return min(Console().width, WIDEST)

    def note(self, text: str) -> None:
        """Keep a sentence about the data or the work; the same one is kept once."""
        if text not in self.notes:
            self.notes.append(text)

    def aside(self, text: str) -> None:
        """Say something at once that is not part of the result."""
        self.console.print(text, soft_wrap=True)

    def finish(self, text: str, document: dict[str, Any]) -> None:
        """Give the result: the text, or the JSON document with the notes."""
        write(json.dumps(document, indent=1, allow_nan=False) if self.as_json else text)

    @contextmanager
    def working(self, task: str) -> Iterator[None]:
        """Show a spinner (on a terminal) and turn Mercer's warnings into notes."""
        with self._note_warnings(), spinner(self.console) as bar:
            bar.add_task(task, total=None)
            yield

    @contextmanager
    def fitting(self, target: Any, names: Sequence[str] | None) -> Iterator[Callable[[State], None]]:
        """Show how a fit or a search goes on (on a terminal); yields the callback for `GPRegressor.fit`."""
        with self._note_warnings(), FitDisplay(self.console, target, names) as display:
            yield display

    @contextmanager
    def stepping(self, task: str) -> Iterator[Callable[[State], None]]:
        """Show how many of the steps are done (on a terminal); yields the callback for `GridRegressor.fit`."""
        with self._note_warnings(), spinner(self.console) as bar:
            shown = bar.add_task(task, total=None)

            def step(state: State) -> None:
                text = f"{task}: step {state.done} of at most {state.total}"
                text += f", log evidence {-0.5 * state.score:.1f} (scaled)"
                bar.update(shown, completed=state.done, total=state.total, description=text)

            yield step

    @contextmanager
    def _note_warnings(self) -> Iterator[None]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                for warning in caught:  # the status says how the fit ended; other libraries' remarks are for us
                    if issubclass(warning.category, MercerWarning) and not issubclass(warning.category, FitWarning):
                        self.note(str(warning.message))

    def prepare_core(self) -> None:
        """Compile the numerical core where that has yet to be done on this machine, and say so."""
        if not core_is_compiled(self.cache):
            self.aside(f"{COMPILING} ...")
            with defer_interrupt(lambda: self.aside("stopping when it is compiled; once more to stop now")):
                compile_core()


def write(text: str) -> None:
    """Write to standard output; a reader that went away (`| head`) is no error."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def core_is_compiled(cache: Path | None = None) -> bool:
    """Tell whether Numba's cache on disk holds the core as it is now. Cheap, and True where it cannot tell."""
    from mercer.compute import fused_sweep
    from mercer.compute.compiling import SOURCES

    try:
        folder = Path(fused_sweep.fill_rows.stats.cache_path) if cache is None else cache
        return all(
            any(SOURCES.encode() in index.read_bytes() for index in folder.glob(f"*.{name}-*.nbi"))
            for name in ("fill_rows", "contract_rows")
        )
    except (AttributeError, OSError, TypeError):
        return True


def compile_core() -> None:
    """Run everything that Numba compiles once: evidence, gradient, prediction."""
    import numpy as np

    from mercer.compute.program import compile_program
    from mercer.inference.contract import Data
    from mercer.inference.exact import Exact
    from mercer.inference.likelihood import Gaussian
    from mercer.kernels.parameters import bind, values_of
    from mercer.kernels.text import parse

    kernel = bind(parse("SE(0, variance=1, lengthscale=1)"), 1)
    program, values, data = compile_program(kernel), values_of(kernel), Data(np.arange(3.0)[:, None], np.zeros(3))
    Exact().evidence(program, values, Gaussian(0.1), data)
    Exact().posterior(program, values, Gaussian(0.1), data).predict(data.X)


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
        self.console, self.names = console, None if names is None else tuple(names)
        self.shift = shift_score(target)
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


def shift_score(target: Any) -> float:
    """A score is computed for the scaled target; this is what the user's units add to it."""
    import numpy as np

    if target is None:  # of a stream: not known yet
        return 0.0
    scale = float(np.std(target))
    return 2.0 * len(target) * math.log(scale) if scale > 0 else 0.0


@contextmanager
def interrupt_once(grace: float = ONE_REQUEST) -> Iterator[None]:
    """Interrupt the block at the first Ctrl-C and ignore those that follow within `grace` seconds.

    `timeout` and some shells send the signal to a process and then to its group. The second one would come while the
    first is answered, and what was found so far would be lost.
    """
    last = -grace

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal last
        again, last = time.monotonic() - last < grace, time.monotonic()
        if not again:
            raise KeyboardInterrupt

    with _handle_interrupts(handle):
        yield


@contextmanager
def defer_interrupt(announce: Callable[[], None], grace: float = ONE_REQUEST) -> Iterator[None]:
    """Keep a Ctrl-C until the block is done, and `announce` it; another one after `grace` seconds interrupts at once.

    Numba swallows an interruption that comes while it compiles, and fails because of it later.
    """
    first = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if not first:
            first = time.monotonic()
            announce()
        elif time.monotonic() - first >= grace:
            raise KeyboardInterrupt

    with _handle_interrupts(handle):
        yield
    if first:
        raise KeyboardInterrupt


@contextmanager
def _handle_interrupts(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Where signals do not interrupt (another thread, a job in the background), nothing is changed."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
