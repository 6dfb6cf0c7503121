"""Compiled matrix instructions as machine code, compiled at first use and kept in an on-disk cache."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache

from softcard.engine.gcn.matrix.entries import shadows_entry, values_entry
from softcard.engine.gcn.matrix.kernels import Kernel, Writer
from softcard.ir import lanes, llvm
from softcard.ir.object_cache import ObjectCache, default_folder
from softcard.isa.gcn.semantics.matrix import rules
from softcard.isa.gcn.semantics.matrix.table import Matrix, Type

Compute = Callable[[int, int, int, int, int], int]
"""The type of a compiled instruction: a function of the addresses of A, B, C, D and of its `Shapes`."""


class Shapes(ctypes.Structure):
    """The two shapes that a compiled instruction reads.

    `own` is the shape with the values of the instruction's fields. `plain` has no field values; it is used for
    operands that have already been rearranged as the fields require."""

    _fields_ = (("own", rules.Shape), ("plain", rules.Shape))


def shapes(kernel: Kernel, **fields: int) -> Shapes:
    """Return the `Shapes` of an instruction with the given values of its fields, such as `cbsz`."""
    made = Shapes(rules.shape(kernel.matrix, kernel.a, kernel.b), rules.shape(kernel.matrix, kernel.a, kernel.b))
    for name, value in fields.items():
        setattr(made.own, name, value)
    return made


def vector_lanes() -> int:
    """Return the number of 32-bit elements in a vector of the code that is compiled for this host."""
    return max(8, 2 * lanes.register_words(llvm.host_features()))


def text(kernel: Kernel, count: int) -> str:
    """Return the IR of a kernel on vectors of `count` elements."""
    return "\n".join(Writer(kernel, count).definition().values())


@cache
def compiled(kernel: Kernel) -> tuple[llvm.Code, Compute]:
    """Return the machine code of a kernel, and the same code as a callable function."""
    code = llvm.Code(_image(text(kernel, vector_lanes())))
    return code, code.function(kernel.name, ctypes.c_uint64, *[ctypes.c_uint64] * 5, is_brief=True)


@cache
def entry(kernel: Kernel, *, is_shadows: bool = False) -> Callable[..., int]:
    """Return the compiled function that translated code calls for a kernel; see `calls`.

    With `is_shadows`, it computes the shadow of D (its undefined bits), else D.
    """
    ir = "\n".join((shadows_entry if is_shadows else values_entry)(kernel, vector_lanes()).values())
    code = llvm.Code(_image(ir))
    words = [ctypes.c_uint64] * (7 if is_shadows else 6)
    return code.function(f"{kernel.name}_{'shadows' if is_shadows else 'entry'}", ctypes.c_uint64, *words)


def of(matrix: Matrix, a: Type | None = None, b: Type | None = None, *, is_arranged: bool = False) -> Kernel:
    """Return the kernel of a matrix instruction.

    `a` and `b` are the element types that the instruction's fields select; None selects the instruction's default
    types. `is_arranged` states that lanes are rearranged before the kernel runs."""
    return Kernel(matrix, matrix.a if a is None else a, matrix.b if b is None else b, is_arranged)


def _image(ir: str) -> bytes:
    key = hashlib.sha256(f"{llvm.host_key()}\n{ir}".encode()).hexdigest()
    kept = _cache().get(key)
    if kept is None:
        kept = llvm.compile_ir(ir, llvm.OPTIMISED)
        _cache().put(key, kept)
    return kept


@cache
def _cache() -> ObjectCache:
    return ObjectCache(default_folder())
