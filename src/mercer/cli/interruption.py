"""Ctrl-C, as one wish: heard once however often it is sent, and never in the middle of a compilation."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SAME_WISH = 1.0  # seconds

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def heard_once() -> Iterator[None]:
    """Interrupt the block at the first signal and ignore those that follow at once.

    `timeout` and some shells send the signal to a process and then to its group. The second one would come while the
    first is answered, and what was found so far would be lost.
    """
    last = -SAME_WISH

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal last
        again, last = time.monotonic() - last < SAME_WISH, time.monotonic()
        if not again:
            raise KeyboardInterrupt

    with _answered_by(handle):
        yield


@contextmanager
def held_back(tell: Callable[[], None]) -> Iterator[None]:
    """Keep a signal until the block is done, and `tell` that it came; a later second one interrupts at once.

    Numba swallows an interruption that comes while it compiles, and fails because of it later.
    """
    first = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if not first:
            first = time.monotonic()
            tell()
        elif time.monotonic() - first >= SAME_WISH:
            raise KeyboardInterrupt

    with _answered_by(handle):
        yield
    if first:
        raise KeyboardInterrupt


@contextmanager
def _answered_by(handler: Handler) -> Iterator[None]:
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
