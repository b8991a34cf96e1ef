"""A ready-made callback that says how an optimisation goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.optimise.optimizer import State

EVERY = 10  # evaluations


def print_progress(state: State) -> None:
    """Print the best so far and the expected further gain after every ten evaluations, and after the last.

    Give it to `mercer.minimize(..., callback=mercer.optimise.print_progress)`.
    """
    from mercer.optimise import words

    if state.done % EVERY == 0 or state.done == state.total:
        line = words.tell_progress(state.done, state.total, state.best, state.optimizer.expected_gain_)
        print(line, flush=True)
