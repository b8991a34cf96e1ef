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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console

from mercer.errors import FitWarning, MercerWarning
from mercer.report.bar import make_bar

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
        self.begun, self.worked = time.perf_counter(), time.process_time()  # a budget is that of the whole command
        self.notes: list[str] = []
        self.stopped = "stopped before there was a result; nothing was written"  # what Ctrl-C leaves
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
        with self._note_warnings(), make_bar(self.console) as bar:
            bar.add_task(task, total=None)
            yield

    def starting(self) -> AbstractContextManager[None]:
        """Show a sign of life while libraries are imported: that takes longer than a person waits for an answer."""
        return self.working("getting ready")

    @contextmanager
    def stepping(self, task: str) -> Iterator[Callable[[State], None]]:
        """Show how many of the steps are done (on a terminal); yields the callback for `GridRegressor.fit`."""
        with self._note_warnings(), make_bar(self.console) as bar:
            shown = bar.add_task(task, total=None)

            def step(state: State) -> None:
                text = f"{task}: step {state.done} of at most {state.total}"
                text += f", log evidence {-0.5 * state.score:.1f} (scaled)"
                bar.update(shown, completed=state.done, total=state.total, description=text)

            yield step

    @contextmanager
    def counting(self, task: str, of: str) -> Iterator[Callable[[int, int], None]]:
        """Show how many things are done (on a terminal); yields what to call with that number and with all."""
        with self._note_warnings(), make_bar(self.console) as bar:
            shown = bar.add_task(task, total=None)

            def count(done: int, total: int) -> None:
                text = f"{task}: {done:,} of {total:,} {of}" if total > 1 else task
                bar.update(shown, completed=done, total=total if total > 1 else None, description=text)

            yield count

    @contextmanager
    def fitting(self, target: Any, names: Sequence[str] | None) -> Iterator[Callable[[State], None]]:
        """Show how a fit or a search goes on (on a terminal), with the best kernel so far below.

        Yields the callback for `GPRegressor.fit`. `names` are those of the encoded columns, None where there is only
        one input; `target` is None where scores have no units, or the rows are read in parts.
        """
        import numpy as np

        from mercer.report.progress import show_on_terminal

        scale = 0.0 if target is None else float(np.std(target))
        shift = 2.0 * len(target) * math.log(scale) if scale > 0 else 0.0  # a score is that of the scaled target

        def announce(state: State) -> None:
            if state.announcement:
                self.aside(state.announcement)

        live = show_on_terminal(self.console, names, shift) if self.console.is_terminal else nullcontext(announce)
        with self._note_warnings(), live as show:
            yield show

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
        from mercer.inference.core import compile_core, core_is_compiled  # brings Numba

        if core_is_compiled(self.cache):
            return
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
