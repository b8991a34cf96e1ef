"""A lap of all candidates as one batch on a device: the same steps as `worker.advance` on the CPU, taken together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from mercer.compute.backend import Backend
from mercer.fitting.level import OnDevice, on_device
from mercer.learners.grammar.worker import State, advance


def in_one_batch(
    work: dict[int, tuple[Any, ...]], backend: Backend, memory: int | None = None
) -> Iterator[tuple[int, State]]:
    """Yield (number, advance(*arguments)) for every entry of `work`, all on the same data, as they end."""
    if not work:
        return
    started = time.perf_counter()
    data = next(iter(work.values()))[2]
    advance_by: Callable[..., State] = advance

    def job(arguments: tuple[Any, ...]) -> Callable[[OnDevice], State]:
        return lambda by: advance_by(*arguments, by)

    for number, reached in on_device({i: job(arguments) for i, arguments in work.items()}, data, backend, memory):
        earlier = work[number][1].seconds if work[number][1] is not None else 0.0
        share = (time.perf_counter() - started) / len(work)  # they all waited for each other
        yield number, replace(reached, seconds=earlier + share)
