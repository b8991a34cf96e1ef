"""LAPACK without Python's lock: the routines that SciPy's own wrappers keep it for.

`scipy.linalg.lapack` holds the lock while it works, so that of two threads that factorise one waits for the other. The
same routines of the same library are reached here by the addresses that SciPy publishes for Cython, through ctypes,
which lets the lock go. Numbers are the same to the last bit. Where SciPy's integers are others than expected, or it
publishes nothing, its wrappers do the work.

Matrices are C-ordered, of which LAPACK sees the transpose: the lower triangle here is its upper one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char, c_int, c_void_p
from typing import Any

import numpy as np
from scipy.linalg import cython_lapack, lapack

from mercer.kernels.domains import Array

UPPER = byref(c_char(b"U"))


def _find(name: str, pointers: int) -> Callable[..., None] | None:
    """Return a routine that takes this many pointers; None where its numbers are not doubles and ints of C."""
    try:
        capsule = cython_lapack.__pyx_capi__[name]
        read, named = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_GetName
        read.restype, read.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
        named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
        signature = named(capsule)
        kinds = [part.split()[0] for part in signature.decode().split("(")[1].split(",")]
        if len(kinds) != pointers or not all(kind in ("char", "int") or kind.endswith("_d") for kind in kinds):
            return None
        return ctypes.CFUNCTYPE(None, *[c_void_p] * pointers)(read(capsule, signature))
    except (AttributeError, KeyError, IndexError, ValueError):
        return None


_potrf, _potri, _potrs = _find("dpotrf", 5), _find("dpotri", 5), _find("dpotrs", 8)


def _fits(matrix: Array) -> bool:
    """Tell whether a matrix lies in memory as the routines expect."""
    return bool(matrix.dtype == np.float64 and matrix.flags.c_contiguous and matrix.flags.writeable and len(matrix))


def factorise_lower(matrix: Array) -> Array | None:
    """Return L with matrix = L L', in the memory of the matrix, of which j <= i is read; None where there is none."""
    if _potrf is None or not _fits(matrix):
        upper, failed = lapack.dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
        return np.asarray(upper.T) if failed == 0 else None
    rows, failed = c_int(len(matrix)), c_int()
    _potrf(UPPER, byref(rows), matrix.ctypes.data, byref(rows), byref(failed))
    return matrix if failed.value == 0 else None


def invert_lower(factor: Array) -> Array:
    """Return (L L')^-1, of which j <= i is filled, in the memory of L."""
    if _potri is None or not _fits(factor):
        inverse, _ = lapack.dpotri(factor.T, lower=0, overwrite_c=1)
        return np.asarray(inverse.T)
    rows, failed = c_int(len(factor)), c_int()
    _potri(UPPER, byref(rows), factor.ctypes.data, byref(rows), byref(failed))
    return factor


def solve_lower(factor: Array, right: Array) -> Array:
    """Return (L L')^-1 right for a vector or a matrix."""
    if _potrs is None or not _fits(factor) or not right.size:
        solution, _ = lapack.dpotrs(factor.T, right, lower=0)
        return np.asarray(solution.reshape(right.shape))
    solution = np.array(right, dtype=np.float64, order="F")
    rows, columns, failed = c_int(len(factor)), c_int(right.size // len(right)), c_int()
    arguments: tuple[Any, ...] = (byref(rows), byref(columns), factor.ctypes.data, byref(rows))
    _potrs(UPPER, *arguments, solution.ctypes.data, byref(rows), byref(failed))
    return solution
