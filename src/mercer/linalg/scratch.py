"""Memory for one matrix, kept for the next time.

A fit asks for the same N x N numbers hundreds of times. Fresh memory costs a page fault for every 4 kB (at N = 500
several times the kernel evaluation itself), so each thread keeps its last buffer, up to a size that nobody will miss.
"""

from __future__ import annotations

import threading

import numpy as np

from mercer.kernels.domains import Array

KEPT_BYTES = 64_000_000  # a matrix of 2,800 rows; larger ones get huge pages, and are not worth keeping

_kept = threading.local()


def square(rows: int) -> Array:
    """Return an uninitialised rows x rows matrix that is the caller's until this thread asks for the next."""
    return rectangle(rows, rows)


def rectangle(rows: int, columns: int) -> Array:
    """Return an uninitialised rows x columns matrix, likewise."""
    size = rows * columns
    if 8 * size > KEPT_BYTES:
        return np.empty((rows, columns))
    buffer: Array | None = getattr(_kept, "buffer", None)
    if buffer is None or buffer.size < size:
        buffer = _kept.buffer = np.empty(size)
    return buffer[:size].reshape(rows, columns)
