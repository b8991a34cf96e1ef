"""Where a command speaks: its result on standard output (text or one JSON document), the rest on standard error."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

from mercer.cli.interruption import held_back
from mercer.cli.progress import FitDisplay, spinner
from mercer.errors import FitWarning, MercerWarning
from mercer.inference.likelihood import Gaussian

if TYPE_CHECKING:
    from mercer.fitting.clock import Progress

WIDEST = 100
COMPILING = "compiling the numerical core for this machine, once (about half a minute)"


class Terminal:
    """The two streams of one command, and the notes that came up while it ran."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.notes: list[str] = []
        self._error = Console(stderr=True, highlight=False, markup=False, emoji=False)

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
        self._error.print(text, soft_wrap=True)

    def finish(self, text: str, document: dict[str, Any]) -> None:
        """Give the result: the text, or the JSON document with the notes."""
        write(json.dumps(document, indent=1, allow_nan=False) if self.as_json else text)

    @contextmanager
    def working(self, task: str) -> Iterator[None]:
        """Show a spinner (on a terminal) and turn Mercer's warnings into notes."""
        with self._noting(), spinner(self._error) as bar:
            bar.add_task(task, total=None)
            yield

    @contextmanager
    def fitting(self, target: Any, names: Sequence[str] | None) -> Iterator[Callable[..., None]]:
        """Show how a fit or a search goes on (on a terminal); yields the callback for `GPRegressor.fit`."""
        with self._noting(), FitDisplay(self._error, target, names) as display:
            yield display

    @contextmanager
    def stepping(self, task: str) -> Iterator[Callable[[Progress], None]]:
        """Show how many of the steps are done (on a terminal); yields the callback for `GridRegressor.fit`."""
        with self._noting(), spinner(self._error) as bar:
            shown = bar.add_task(task, total=None)

            def step(state: Progress) -> None:
                text = f"{task}: step {state.done} of at most {state.total}"
                text += f", log evidence {-0.5 * state.score:.1f} (scaled)"
                bar.update(shown, completed=state.done, total=state.total, description=text)

            yield step

    @contextmanager
    def _noting(self) -> Iterator[None]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                for warning in caught:  # how the fit ended is told by its status; other libraries' remarks are for us
                    if issubclass(warning.category, MercerWarning) and not issubclass(warning.category, FitWarning):
                        self.note(str(warning.message))

    def prepare_core(self) -> None:
        """Compile the numerical core where that has yet to be done on this machine, and say so."""
        if not core_is_compiled():
            self.aside(f"{COMPILING} ...")
            with held_back(lambda: self.aside("stopping when it is compiled; once more to stop now")):
                compile_core()


def write(text: str) -> None:
    """Write to standard output; a reader that went away (`| head`) is no error."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def core_is_compiled() -> bool:
    """Tell whether Numba's cache on disk holds the core as it is now. Cheap, and True where it cannot tell."""
    from pathlib import Path

    from mercer.compute import fused_sweep
    from mercer.compute.compiling import SOURCES

    try:
        folder = Path(fused_sweep.gram_rows.stats.cache_path)
        return all(
            any(SOURCES.encode() in index.read_bytes() for index in folder.glob(f"*.{name}-*.nbi"))
            for name in ("gram_rows", "contract_rows", "cross_rows")
        )
    except (AttributeError, OSError, TypeError):
        return True


def compile_core() -> None:
    """Run everything that Numba compiles once: evidence, gradient, prediction."""
    import numpy as np

    from mercer.compute.program import compile_program
    from mercer.inference.contract import Data
    from mercer.inference.exact import Exact
    from mercer.kernels.parameters import bind, values_of
    from mercer.kernels.text import parse

    kernel = bind(parse("SE(0, variance=1, lengthscale=1)"), 1)
    program, values, data = compile_program(kernel), values_of(kernel), Data(np.arange(3.0)[:, None], np.zeros(3))
    Exact().evidence(program, values, Gaussian(0.1), data)
    Exact().posterior(program, values, Gaussian(0.1), data).predict(data.X)
