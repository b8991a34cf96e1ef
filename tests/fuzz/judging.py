"""What a part of the fuzzing has done, what it has found, and how a case is judged."""

from __future__ import annotations

import json
import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.errors import MercerError

MOST_MEMORY = 2.0  # GB
MOST_SECONDS = 120.0  # of one case, of the processor: it hangs


class FindingError(AssertionError):
    """A case that ended as none may."""


class TooSlowError(BaseException):
    """Not an Exception, so that nothing on the way takes it for an answer."""


@dataclass
class Record:
    """The cases of one part by how they ended, and the findings with what made them."""

    part: str
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, str]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    @property
    def count(self) -> int:
        """Cases so far."""
        return sum(self.outcomes.values())

    def judge(self, number: int, case: str, work: Callable[[], str]) -> None:
        """Do one case: `work` returns in a word how it ended, or raises an error of Mercer's."""
        try:
            with limited_time(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcome = work()
        except MercerError as error:
            outcome = type(error).__name__ if str(error).strip() else "an empty message"
            if outcome == "an empty message":
                self.note(number, case, outcome)
        except (Exception, TooSlowError) as error:
            outcome = "finding"
            where = "".join(traceback.format_exception(error)[-3:])
            self.note(number, case, f"{type(error).__name__}: {error}", where)
        self.outcomes[outcome] += 1

    def note(self, number: int, case: str, what: str, where: str = "") -> None:
        """Write a finding down."""
        self.findings.append({"number": str(number), "case": case[:300], "what": what[:300], "where": where[-1500:]})

    def to_plain(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return {
            "seed": self.seed,
            "count": self.count,
            "outcomes": dict(self.outcomes.most_common()),
            "findings": self.findings,
            "seconds": round(time.perf_counter() - self.started, 1),
            "memory GB": round(peak_memory(), 2),
        }

    def conclude(self) -> None:
        """Judge what all cases used together."""
        if peak_memory() > MOST_MEMORY:
            self.note(-1, "all", f"{peak_memory():.2f} GB of memory were used")


@contextmanager
def limited_time(seconds: float = MOST_SECONDS) -> Iterator[None]:
    """End what takes too much time of the processor."""

    def stop(number: int, frame: Any) -> None:
        raise TooSlowError(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def peak_memory() -> float:
    """Return the most memory that this process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def require_numbers(what: str, *found: Any) -> None:
    """Refuse results with NaN or infinity in them."""
    for each in found:
        if not np.isfinite(np.asarray(each, dtype=np.float64)).all():
            raise FindingError(f"{what} holds NaN or infinity")


def require_json(what: str, document: Any) -> None:
    """Refuse what JSON cannot hold."""
    try:
        json.dumps(document, allow_nan=False)
    except ValueError as error:
        raise FindingError(f"{what}: {error}") from None
