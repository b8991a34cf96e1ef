"""How the fused CPU path is compiled: once, for every kernel structure, and kept in Numba's cache on disk.

Leaves from outside are not known when the sweep is compiled. Their functions are compiled apart, when first used, and
the tape holds their addresses: the sweep calls them once for each block of pairs, so that it need not be compiled anew.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from llvmlite import ir
from llvmlite.binding import Linkage
from numba import carray, cfunc, njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import intrinsic

# Reassociation lets sums over a block run in vector registers; infinities and NaN keep their meaning.
FAST = {"contract", "reassoc", "nsz", "arcp"}

# Numba's cache on disk notices a change of a function's own file only, but a sweep has the leaves, the mathematics and
# the codes of the tape compiled into it: they all belong to the key.
FILES = ("compiling.py", "tape.py", "vector_math.py", "fused_leaves.py", "fused_sweep.py")
SOURCES = sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in FILES)).hexdigest()


class _Cache(FunctionCache):
    def _index_key(self, signature, codegen):
        return (*super()._index_key(signature, codegen), SOURCES)


class _Library(JITCodeLibrary):
    """The code of a function, with copies of its own of the functions that it calls.

    Such a copy is optimised once more within its caller, and there adds in another order than the function compiled for
    itself. As Numba has it, a copy gives way to a function of its name that the process already has: in the run that
    compiles there is one, in later runs, which load the caller alone, there is none, and their last digits differ.
    """

    def _finalize_final_module(self):
        own = uuid4().hex
        copies = [(each, each.name) for each in self._final_module.functions if each.linkage == Linkage.linkonce_odr]
        for copy, name in copies:
            copy.name = f"{name}.{own}"
        super()._finalize_final_module()
        for copy, name in copies:  # by these names callers of this function merge its copies with theirs
            copy.name = name


class _Compiler(Compiler):
    def compile_extra(self, function):
        self.state.library = _Library(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(function)


def jit(function):
    """Compile a function when it is first called, and keep it on disk: the same code in this run and in later ones."""
    options = {"fastmath": FAST, "error_model": "numpy", "cache": True, "nogil": True, "pipeline_class": _Compiler}
    dispatcher = njit(**options)(function)
    dispatcher._cache = _Cache(function)
    return dispatcher


# --------------------------------------------------------------------------------------- leaves from outside: pointers


@intrinsic
def call(typing_context, address, arguments):
    """Call the C function at an address with a tuple of 64-bit integers."""

    def generate(context, builder, signature, given):
        count = len(arguments)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * count)
        function = builder.inttoptr(given[0], kind.as_pointer())
        builder.call(function, cgutils.unpack_tuple(builder, given[1], count))
        return context.get_dummy_value()

    return types.void(types.int64, arguments), generate


@intrinsic
def pointer(typing_context, address):
    """Return an address as a pointer."""

    def generate(context, builder, signature, given):
        return builder.inttoptr(given[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@njit(nogil=True)
def numbers(address, shape):
    """Return the array at an address."""
    return carray(pointer(address), shape, np.float64)


@njit(nogil=True)
def pair_block(m, dims, count, xa, na, i, xb, nb, j0, columns):
    """Return the left point and the block of right points on the columns of a leaf."""
    chosen = carray(pointer(dims), (count,), np.int64)
    left, right = numbers(xa, (columns, na)), numbers(xb, (columns, nb))
    x, z = np.empty(count), np.empty((count, m))
    for k in range(count):
        x[k] = left[chosen[k], i]
        for l in range(m):
            z[k, l] = right[chosen[k], j0 + l]
    return x, z


def forward_of(inner):
    """Return a C function for the forward function of a leaf."""

    @cfunc(types.void(*[types.int64] * 13))
    def forward(out, m, dims, count, coef, size, xa, na, i, xb, nb, j0, columns):
        x, z = pair_block(m, dims, count, xa, na, i, xb, nb, j0, columns)
        inner(numbers(out, (m,)), x, z, numbers(coef, (size,)))

    return forward


def reverse_of(inner):
    """Return a C function for the reverse function of a leaf."""

    @cfunc(types.void(*[types.int64] * 14))
    def reverse(bar, m, dims, count, coef, size, sums, xa, na, i, xb, nb, j0, columns):
        x, z = pair_block(m, dims, count, xa, na, i, xb, nb, j0, columns)
        inner(numbers(bar, (m,)), x, z, numbers(coef, (size,)), numbers(sums, (size,)))

    return reverse


def points_of(inner):
    """Return a C function for what a leaf says of its right-hand points."""

    @cfunc(types.void(*[types.int64] * 14))
    def points(bar, m, dims, count, coef, size, moved, xa, na, i, xb, nb, j0, columns):
        x, z = pair_block(m, dims, count, xa, na, i, xb, nb, j0, columns)
        own = np.zeros((count, m))
        inner(numbers(bar, (m,)), x, z, numbers(coef, (size,)), own)
        chosen = carray(pointer(dims), (count,), np.int64)
        target = numbers(moved, (columns, nb))
        for k in range(count):
            for l in range(m):
                target[chosen[k], j0 + l] += own[k, l]

    return points


_MAKERS = {"forward": forward_of, "reverse": reverse_of, "points": points_of}
_FUNCTIONS: dict[tuple[Any, str], Any] = {}  # compiled functions are kept: their addresses may stand in a tape


def address_of(functions: Any, name: str) -> int:
    """Return the address of a function of a leaf from outside, compiling it when first asked; 0 where there is none."""
    function = getattr(functions, name)
    if function is None:
        return 0
    if (functions, name) not in _FUNCTIONS:
        inner = njit(fastmath=FAST, error_model="numpy", nogil=True)(function)
        _FUNCTIONS[functions, name] = _MAKERS[name](inner)
    return int(_FUNCTIONS[functions, name].address)
