"""Jobs that each ask many questions, one after the other, and someone who would rather answer many at once.

Every job runs in a thread of its own until it asks; when all of them wait, their questions are answered together. The
threads only save writing every job as a state machine: hardly two of them run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from queue import Queue, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class _StopError(Exception):
    """Nobody will answer any more; internal to this file."""


@dataclass(frozen=True)
class _End:
    result: Any = None
    error: BaseException | None = None


def together(
    jobs: Mapping[int, Callable[[Callable[[Question], Answer]], Result]],
    answers: Callable[[list[Question]], list[Answer]],
) -> Iterator[tuple[int, Result]]:
    """Run jobs, each given a function to ask with; yield (number, result) as they end.

    An error of a job or of `answers` ends them all and is raised here; so does closing the iterator.
    """
    inbox: Queue[tuple[int, Any]] = Queue()
    replies: dict[int, SimpleQueue[Any]] = {number: SimpleQueue() for number in jobs}
    running = set(jobs)
    for number, job in jobs.items():
        Thread(target=_work, args=(number, job, inbox, replies[number]), daemon=True).start()
    try:
        while running:
            waiting: dict[int, Question] = {}
            while len(waiting) < len(running):
                number, message = inbox.get()
                if not isinstance(message, _End):
                    waiting[number] = message
                    continue
                running.discard(number)
                if message.error is not None:
                    raise message.error
                yield number, message.result
            order = sorted(waiting)  # the same batch whatever the order in which threads happen to ask
            if order:
                for number, answer in zip(order, answers([waiting[i] for i in order]), strict=True):
                    replies[number].put(answer)
    finally:
        for number in running:
            replies[number].put(_StopError())


def _work(
    number: int, job: Callable[[Callable[[Any], Any]], Any], inbox: Queue[tuple[int, Any]], replies: SimpleQueue[Any]
) -> None:
    try:
        inbox.put((number, _End(result=job(partial(_ask, number, inbox, replies)))))
    except BaseException as error:  # handed to whoever waits for the result
        inbox.put((number, _End(error=error)))


def _ask(number: int, inbox: Queue[tuple[int, Any]], replies: SimpleQueue[Any], question: Any) -> Any:
    inbox.put((number, question))
    answer = replies.get()
    if isinstance(answer, _StopError):
        raise answer
    return answer
