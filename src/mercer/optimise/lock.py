"""One run at a time writes to a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mercer.errors import InputError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be replaced anyway
    fcntl = None  # type: ignore[assignment]


@contextmanager
def hold(path: str | Path) -> Iterator[None]:
    """Hold a file while a run writes to it; refuse one that another process holds.

    The lock is on a file beside it, for the file itself is replaced at every writing. It ends with the process, however
    that ends, and is no business of processes that it starts.
    """
    file = Path(path).expanduser().resolve()
    beside = file.with_name(f"{file.name}.lock")
    descriptor = _lock(beside, path)
    try:
        yield
    finally:
        if descriptor is not None:
            with suppress(OSError):
                beside.unlink()
            os.close(descriptor)


def _lock(beside: Path, path: str | Path) -> int | None:
    """Return the open file that is locked; None where there are no locks, or no place for one."""
    while fcntl is not None:
        try:
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return None  # a place that cannot be written is refused when the file is written
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            raise InputError(
                f"another run is writing to '{path}'. Wait until it has ended, or give this run a file of its own."
            ) from None
        except OSError:  # a file system without locks
            return descriptor
        if _is_same(descriptor, beside):
            return descriptor
        os.close(descriptor)  # the run before has just removed it
    return None


def _is_same(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except OSError:
        return False
