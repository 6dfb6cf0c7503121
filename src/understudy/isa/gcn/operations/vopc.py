"""VOPC: vector comparisons. The result is one bit per lane, in VCC or (as VOP3) any scalar register pair, 0 for lanes
outside EXEC; the v_cmpx forms write EXEC as well.

Opcodes are regular: sixteen comparisons of floats, eight of integers, in blocks by type; GFX8 moved the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Meaning, ops
from understudy.isa.gcn.semantics import fp
from understudy.isa.gcn.semantics.floating import classify


def never(o: Any, *_: Any) -> Value:
    """False."""
    return o.const(1, 0)


def always(o: Any, *_: Any) -> Value:
    """True."""
    return o.const(1, 1)


def no(f: Any) -> Any:
    """Where `f` does not hold."""
    return lambda o, k, a, b: o.xor(1, f(o, k, a, b), o.const(1, 1))


def ordered(o: Any, t: str, a: Value, b: Value) -> Value:
    """Neither is a NaN."""
    return o.xor(1, o.funo(t, a, b), o.const(1, 1))


def less_or_greater(o: Any, t: str, a: Value, b: Value) -> Value:
    """Ordered and not equal."""
    return o.or_(1, o.flt(t, a, b), o.flt(t, b, a))


def equal(o: Any, t: str, a: Value, b: Value) -> Value:
    """a == b."""
    return o.feq(t, a, b)


def less(o: Any, t: str, a: Value, b: Value) -> Value:
    """a < b."""
    return o.flt(t, a, b)


def less_equal(o: Any, t: str, a: Value, b: Value) -> Value:
    """a <= b."""
    return o.fle(t, a, b)


def greater(o: Any, t: str, a: Value, b: Value) -> Value:
    """a > b."""
    return o.flt(t, b, a)


def greater_equal(o: Any, t: str, a: Value, b: Value) -> Value:
    """a >= b."""
    return o.fle(t, b, a)


def unordered(o: Any, t: str, a: Value, b: Value) -> Value:
    """Either is a NaN."""
    return o.funo(t, a, b)


FLOATS: Final = (
    ("f", never), ("lt", less), ("eq", equal), ("le", less_equal), ("gt", greater), ("lg", less_or_greater),
    ("ge", greater_equal), ("o", ordered), ("u", unordered), ("nge", no(greater_equal)), ("nlg", no(less_or_greater)),
    ("ngt", no(greater)), ("nle", no(less_equal)), ("neq", no(equal)), ("nlt", no(less)), ("tru", always),
)  # fmt: skip
"""Comparisons of floats in the order of their opcodes."""

SIGNED: Final = (
    ("f", never),
    ("lt", lambda o, w, a, b: o.slt(w, a, b)),
    ("eq", lambda o, w, a, b: o.eq(w, a, b)),
    ("le", lambda o, w, a, b: o.sle(w, a, b)),
    ("gt", lambda o, w, a, b: o.slt(w, b, a)),
    ("ne", lambda o, w, a, b: o.ne(w, a, b)),
    ("ge", lambda o, w, a, b: o.sle(w, b, a)),
    ("t", always),
)
UNSIGNED: Final = (
    ("f", never),
    ("lt", lambda o, w, a, b: o.ult(w, a, b)),
    ("eq", lambda o, w, a, b: o.eq(w, a, b)),
    ("le", lambda o, w, a, b: o.ule(w, a, b)),
    ("gt", lambda o, w, a, b: o.ult(w, b, a)),
    ("ne", lambda o, w, a, b: o.ne(w, a, b)),
    ("ge", lambda o, w, a, b: o.ule(w, b, a)),
    ("t", always),
)
"""Comparisons of integers in the order of their opcodes."""

# type  comparisons  first opcode of v_cmp and v_cmpx: GFX7, GFX8 and GFX9
BLOCKS: Final = (
    ("f16", FLOATS,   None, None, 0x20, 0x30),
    ("f32", FLOATS,   0x00, 0x10, 0x40, 0x50),
    ("f64", FLOATS,   0x20, 0x30, 0x60, 0x70),
    ("i16", SIGNED,   None, None, 0xA0, 0xB0),
    ("u16", UNSIGNED, None, None, 0xA8, 0xB8),
    ("i32", SIGNED,   0x80, 0x90, 0xC0, 0xD0),
    ("u32", UNSIGNED, 0xC0, 0xD0, 0xC8, 0xD8),
    ("i64", SIGNED,   0xA0, 0xB0, 0xE0, 0xF0),
    ("u64", UNSIGNED, 0xE0, 0xF0, 0xE8, 0xF8),
)  # fmt: skip

CLASSES: Final = (
    # type v_cmp and v_cmpx: GFX7, GFX8 and GFX9
    ("f32", 0x88, 0x98, 0x10, 0x11),
    ("f64", 0xA8, 0xB8, 0x12, 0x13),
    ("f16", None, None, 0x14, 0x15),
)

SIGNALLING: Final = (("f32", 0x40, 0x50), ("f64", 0x60, 0x70))
"""GFX7: v_cmps and v_cmpsx, which differ from v_cmp only in the exceptions they raise."""


def comparison(f: Any, k: Any) -> Meaning:
    """`f` of operands of kind `k`: a float format or an integer width."""
    return lambda o, a, b: f(o, k, a, b)


def writing_exec(meaning: Meaning) -> Meaning:
    """The v_cmpx form: the bits twice."""

    def both(o: Any, a: Value, b: Value) -> tuple[Value, Value]:
        bits = meaning(o, a, b)
        return bits, bits

    return both


def pair(
    prefix: str, name: str, sources: str, meaning: Meaning, plain: tuple[Any, ...], x: tuple[Any, ...]
) -> Iterator[Any]:
    """The rows of v_cmp and v_cmpx; `plain` and `x` are their opcodes."""
    yield f"{prefix}_{name}", *plain, f"m64 = {sources}", meaning
    yield f"{prefix}x_{name}", *x, f"m64 exec = {sources}", writing_exec(meaning)


def moved(first: int | None, at: int) -> tuple[int | None]:
    """An opcode of a block that may not be there."""
    return (None if first is None else first + at,)


def rows() -> Iterator[Any]:
    """All of them."""
    for kind, first7, first7_x, first, first_x in CLASSES:
        meaning = classify(fp.FORMAT[int(kind[1:])])
        yield from pair(
            "v_cmp", f"class_{kind}", f"{kind} b32", meaning, (first7, first, first), (first7_x, first_x, first_x)
        )
    for kind, table, first7, first7_x, first, first_x in BLOCKS:
        k: Any = fp.FORMAT[int(kind[1:])] if kind[0] == "f" else int(kind[1:])
        for at, (name, f) in enumerate(table):
            codes = (*moved(first7, at), first + at, first + at)
            codes_x = (*moved(first7_x, at), first_x + at, first_x + at)
            yield from pair("v_cmp", f"{name}_{kind}", f"{kind} {kind}", comparison(f, k), codes, codes_x)
    for kind, first7, first7_x in SIGNALLING:
        for at, (name, f) in enumerate(FLOATS):
            meaning = comparison(f, fp.FORMAT[int(kind[1:])])
            only7, only7_x = (first7 + at, None, None), (first7_x + at, None, None)
            yield from pair("v_cmps", f"{name}_{kind}", f"{kind} {kind}", meaning, only7, only7_x)


OPS: Final = ops("vopc", tuple(rows()))
