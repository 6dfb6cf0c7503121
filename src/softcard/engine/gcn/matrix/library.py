"""Compiled matrix instructions as machine code, compiled at first use and kept in an on-disk cache.

Instructions that are in the cache do not load the emitters (`kernels`)."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from softcard.engine.gcn.matrix.stated import NATIVES
from softcard.ir import lanes, llvm
from softcard.ir.native import Function
from softcard.ir.object_cache import ObjectCache, default_folder
from softcard.ir.translator import translator_key
from softcard.isa.gcn.semantics.matrix import rules
from softcard.isa.gcn.semantics.matrix.table import Matrix, Type


@dataclass(frozen=True, slots=True)
class Kernel:
    """The description of one function to compile.

    It has the instruction, the element types of A and B that its fields select, and whether its lanes are rearranged.
    """

    matrix: Matrix
    a: Type
    b: Type
    is_arranged: bool

    @property
    def name(self) -> str:
        """The name of the function."""
        parts = [self.matrix.name, self.matrix.processor, self.a.name, self.b.name, "arranged" * self.is_arranged]
        return "_".join(part for part in parts if part)


def symbol_of(function: Function[Any]) -> str:
    """Return the symbol by which kernels call a native function of `rules`."""
    return f"softcard_matrix_{function.name}"


Compute = Callable[[int, int, int, int, int], int]
"""The type of a compiled instruction: a function of the addresses of A, B, C, D and of its `Shapes`."""


ENTRY_WORDS: Final = 7
"""The number of arguments of an entry; see `calls`."""


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
    from softcard.engine.gcn.matrix.kernels import Writer

    return "\n".join(Writer(kernel, count).definition().values())


def entry_text(kernel: Kernel, count: int, *, is_shadows: bool) -> str:
    """Return the IR of an entry of a kernel (see `entry`) on vectors of `count` elements."""
    from softcard.engine.gcn.matrix.kernels import shadows_entry, values_entry

    return "\n".join((shadows_entry if is_shadows else values_entry)(kernel, count).values())


def linked(name: str, count: int, make: Callable[[], str]) -> llvm.Code:
    """Return the machine code of a kernel or an entry, linked to those native functions of `rules` that it calls.

    `make` returns the IR on vectors of `count` elements. It is called only if no code is cached for `name`, which names
    the kernel or entry."""
    image = _image(f"{name} {count}", make)
    symbols = {
        symbol_of(function): natives.address(function.name)
        for natives in NATIVES
        for function in natives.functions
        if f"{symbol_of(function)}\0".encode() in image  # in the object's table of names
    }
    return llvm.Code(image, symbols)


@cache
def compiled(kernel: Kernel) -> tuple[llvm.Code, Compute]:
    """Return the machine code of a kernel, and the same code as a callable function."""
    count = vector_lanes()
    code = linked(kernel.name, count, partial(text, kernel, count))
    return code, code.function(kernel.name, ctypes.c_uint64, *[ctypes.c_uint64] * 5, is_brief=True)


@cache
def entry(kernel: Kernel, *, is_shadows: bool = False) -> Callable[..., int]:
    """Return the compiled function that translated code calls for a kernel; see `calls`.

    With `is_shadows`, it computes the shadow of D (its undefined bits), else D.
    """
    count, name = vector_lanes(), f"{kernel.name}_{'shadows' if is_shadows else 'entry'}"
    code = linked(name, count, partial(entry_text, kernel, count, is_shadows=is_shadows))
    return code.function(name, ctypes.c_uint64, *[ctypes.c_uint64] * ENTRY_WORDS)


def of(matrix: Matrix, a: Type | None = None, b: Type | None = None, *, is_arranged: bool = False) -> Kernel:
    """Return the kernel of a matrix instruction.

    `a` and `b` are the element types that the instruction's fields select; None selects the instruction's default
    types. `is_arranged` states that lanes are rearranged before the kernel runs."""
    return Kernel(matrix, matrix.a if a is None else a, matrix.b if b is None else b, is_arranged)


def _image(identity: str, make: Callable[[], str]) -> bytes:
    key = hashlib.sha256(f"matrix {translator_key().hex()} {identity}".encode()).hexdigest()
    kept = _cache().get(key)
    if kept is None:
        kept = llvm.compile_ir(make(), llvm.OPTIMISED)
        _cache().put(key, kept)
    return kept


@cache
def _cache() -> ObjectCache:
    return ObjectCache(default_folder())
