"""Compiled matrix instructions as machine code, compiled at first use and kept in an on-disk cache."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache
from typing import Final

from softcard.engine.gcn.matrix.kernels import ROW, Kernel, Writer, call_rule, symbol_of
from softcard.engine.gcn.matrix.stated import NATIVES
from softcard.ir import lanes, llvm
from softcard.ir.builder import Text, vector_width
from softcard.ir.object_cache import ObjectCache, default_folder
from softcard.ir.operand import Operand
from softcard.isa.gcn.semantics.matrix import rules
from softcard.isa.gcn.semantics.matrix.table import LANES, Matrix, Type

# ---- entries ---------------------------------------------------------------------------------------------------------
# Emitters of the functions that translated code calls for a matrix instruction. Such a function prepares the shapes and
# C on the stack and calls the instruction's kernel. ``entry(a, b, c, d, fields, first, second)`` computes D;
# ``shadows``, with the same parameters, computes the shadow (the undefined bits) of D. The parameters are described in
# `calls`.


FIELDS: Final = {"cbsz": 0, "abid": 8, "blgp": 16, "a_shift": 48, "b_shift": 56}
"""The lowest bit of each instruction field in the word `fields`, the parameter of an entry."""
PLACE: Final = 24
_PARAMETERS: Final = ", ".join(f"i64 %{name}" for name in ("a", "b", "c", "d", "fields", "first", "second"))


def values_entry(kernel: Kernel, lanes: int) -> dict[str, str]:
    """Return the LLVM IR of the kernel, of the entry that computes D, and of declarations, by symbol name."""
    made = Writer(kernel, lanes).definition()
    text = Text()
    shapes, fields = _shapes(text, kernel), text.word("%fields")
    a, b, c, d = (text.word(f"%{name}") for name in "abcd")
    c = call_rule(text, rules.addend, shapes, c, (fields >> PLACE) & 0xFF, d, _room(text, kernel, "%room"))
    for field, parameter in _selectors(kernel).items():  # D may overlap these registers
        row = text.slot(f"%copy_{field}", f"[{ROW} x i8]", ", align 64")
        row.store(text.word(parameter).inttoptr().load(f"<{LANES} x i32>", align=4), align=64)
        text.pointer("%shapes").offset(getattr(rules.Shape, field).offset).store(row.ptrtoint())
    text.invoke("i64", f"@{kernel.name}", a, b, c, d, shapes)
    return made | _function(text, f"{kernel.name}_entry", 0)


def shadows_entry(kernel: Kernel, lanes: int) -> dict[str, str]:
    """Return the LLVM IR of the entry that computes the shadow of D, and of its declarations, by symbol name."""
    text = Text()
    shapes, fields = _shapes(text, kernel), text.word("%fields")
    rooms = [_room(text, kernel, name) for name in ("%zeros", "%room")]
    a, b, c, d, second = (text.word(f"%{name}") for name in ("a", "b", "c", "d", "second"))
    call_rule(text, rules.undefine, shapes, a, b, c, (fields >> PLACE) & 0xFF, second, d, *rooms)
    return _function(text, f"{kernel.name}_shadows", lanes)


def _selectors(kernel: Kernel) -> dict[str, str]:
    """Return the fields of `rules.Shape` with the addresses of registers, and the parameters that have them."""
    if kernel.matrix.is_sparse:
        return {"index": "%first"}
    return {"scale_a": "%first", "scale_b": "%second"} if kernel.matrix.is_scaled else {}


def _shapes(text: Text, kernel: Kernel) -> Operand:
    """Emit stores of both `rules.Shape` structures of a `library.Shapes` to the stack; return their address."""
    size = ctypes.sizeof(rules.Shape)
    slot, known = (
        text.slot("%shapes", f"[{2 * size} x i8]", ", align 64"),
        rules.shape(kernel.matrix, kernel.a, kernel.b),
    )
    for first in (0, size):
        for number, (name, *_) in enumerate(rules.Shape._fields_):
            slot.offset(first + 8 * number).store(getattr(known, name))
    for name, bit in FIELDS.items():
        slot.offset(getattr(rules.Shape, name).offset).store((text.word("%fields") >> bit) & 0xFF)
    for field, parameter in _selectors(kernel).items():
        slot.offset(getattr(rules.Shape, field).offset).store(text.word(parameter))
    return slot.ptrtoint()


def _room(text: Text, kernel: Kernel, name: str) -> Operand:
    return text.slot(name, f"[{ROW * kernel.matrix.d_registers} x i8]", ", align 64").ptrtoint()


def _function(text: Text, name: str, lanes: int) -> dict[str, str]:
    """Return an entry with the lines of a text as its body, and its declarations, by symbol name.

    If `lanes` is 0, another function of the module declares the attributes (`#0`)."""
    text.ret(0)
    declarations = dict(text.declarations)
    if lanes:
        declarations["attributes"] = f"attributes #0 = {{ nounwind {vector_width(lanes)} }}"
    lines = [f"define i64 @{name}({_PARAMETERS}) #0 {{", "entry:", *(f"  {line.strip()}" for line in text.allocas)]
    return {**declarations, name: "\n".join([*lines, *text.lines, *text.tail, "}", ""])}


# ---- compiled instructions -------------------------------------------------------------------------------------------


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
    return "\n".join(Writer(kernel, count).definition().values())


def linked(ir: str) -> llvm.Code:
    """Return the machine code of a kernel or an entry, linked to those native functions of `rules` that it calls."""
    symbols = {
        symbol_of(function): natives.address(function.name)
        for natives in NATIVES
        for function in natives.functions
        if f"@{symbol_of(function)}(" in ir
    }
    return llvm.Code(_image(ir), symbols)


@cache
def compiled(kernel: Kernel) -> tuple[llvm.Code, Compute]:
    """Return the machine code of a kernel, and the same code as a callable function."""
    code = linked(text(kernel, vector_lanes()))
    return code, code.function(kernel.name, ctypes.c_uint64, *[ctypes.c_uint64] * 5, is_brief=True)


@cache
def entry(kernel: Kernel, *, is_shadows: bool = False) -> Callable[..., int]:
    """Return the compiled function that translated code calls for a kernel; see `calls`.

    With `is_shadows`, it computes the shadow of D (its undefined bits), else D.
    """
    ir = "\n".join((shadows_entry if is_shadows else values_entry)(kernel, vector_lanes()).values())
    code = linked(ir)
    words = [ctypes.c_uint64] * ENTRY_WORDS
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
