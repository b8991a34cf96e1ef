"""The process that works for the server: a task comes in as a line of JSON, its answer goes out as another.

The end of its input means that the server is gone: it ends then, whatever it does. A line that says "stop" is Ctrl-C.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO


def main() -> None:
    """Do tasks until there are no more."""
    answers = _take_over_output()
    with suppress(OSError):  # Linux: where memory runs out, this is to be ended first
        Path("/proc/self/oom_score_adj").write_text("1000")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    stop = threading.Event()  # wanted for the last task that came
    threading.Thread(target=_listen, args=(work, stop), daemon=True).start()
    from mercer.app.tasks import TASKS, load_core, run_task  # the long imports

    load_core()
    _answer(answers, {"ready": True})
    while True:
        message = work.get()
        try:
            with _interruptible():
                if stop.is_set():
                    raise KeyboardInterrupt
                answer = run_task(TASKS[message["task"]], message["arguments"])
        except KeyboardInterrupt:
            answer = {"stopped": True}
        _answer(answers, answer)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let "stop" interrupt what is done inside, and nothing else."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _take_over_output() -> TextIO:
    """Keep standard output for answers; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _answer(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _listen(work: queue.SimpleQueue[dict[str, Any]], stop: threading.Event) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if not message.get("stop"):
            stop.clear()
            work.put(message)
            continue
        stop.set()
        if hasattr(signal, "pthread_kill"):  # wakes the main thread where it waits, too
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # and the processes that it began
    os._exit(1)


if __name__ == "__main__":
    main()
