"""How the fused CPU path is compiled: once, for every kernel structure, and kept in Numba's cache on disk."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from numba import njit
from numba.core.caching import FunctionCache

# Reassociation lets sums over a block run in vector registers; infinities and NaN keep their meaning.
FAST = {"contract", "reassoc", "nsz", "arcp"}

# Numba's cache on disk notices a change of a function's own file only, but a sweep has the leaves, the mathematics and
# the codes of the tape compiled into it: they all belong to the key.
FILES = (
    "nodes.py", "program.py", "tape.py", "vector_math.py",
    "fused_leaves.py", "fused_waves.py", "fused_sweep.py", "fused_points.py",
)  # fmt: skip
SOURCES = sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in FILES)).hexdigest()


class _Cache(FunctionCache):
    def _index_key(self, signature, codegen):
        return (*super()._index_key(signature, codegen), SOURCES)


def compiled(function):  # type: ignore[no-untyped-def]  # noqa: D103
    dispatcher = njit(fastmath=FAST, error_model="numpy", cache=True, nogil=True)(function)
    dispatcher._cache = _Cache(function)
    return dispatcher
