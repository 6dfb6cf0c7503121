"""VOPC: vector comparisons, whose result is one bit per lane, 0 for lanes outside EXEC.

The result goes to VCC or (as VOP3) any scalar register pair; the v_cmpx forms write EXEC as well. Opcodes are regular:
sixteen comparisons of floats, eight of integers, in blocks by type; GFX8 moved the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import eq, ge, gt, le, lt, ne
from typing import Final

from softcard.isa.gcn.insn import Row, ops
from softcard.isa.gcn.semantics.floating import classify
from softcard.isa.gcn.word import Word

Comparison = Callable[[Word, Word], Word]


def never(a: Word, b: Word) -> Word:
    """Return 0 in every lane: the comparison that never holds."""
    return a.constant(1, 0)


def always(a: Word, b: Word) -> Word:
    """Return 1 in every lane: the comparison that always holds."""
    return a.constant(1, 1)


def no(f: Comparison) -> Comparison:
    """Return the negation of the comparison `f`."""
    return lambda a, b: f(a, b) ^ 1


def less_or_greater(a: Word, b: Word) -> Word:
    """Return 1 if the operands are ordered and not equal."""
    return a.flt(b) | b.flt(a)


def reverse(f: Comparison) -> Comparison:
    """Return a comparison like `f` with its operands exchanged."""
    return lambda a, b: f(b, a)


LESS, EQUAL, LESS_EQUAL, UNORDERED = Word.flt, Word.feq, Word.fle, Word.funo
GREATER, GREATER_EQUAL = reverse(LESS), reverse(LESS_EQUAL)
Comparisons = tuple[tuple[str, Comparison], ...]
FLOATS: Final[Comparisons] = (
    ("f", never), ("lt", LESS), ("eq", EQUAL), ("le", LESS_EQUAL), ("gt", GREATER), ("lg", less_or_greater),
    ("ge", GREATER_EQUAL), ("o", no(UNORDERED)), ("u", UNORDERED), ("nge", no(GREATER_EQUAL)),
    ("nlg", no(less_or_greater)), ("ngt", no(GREATER)), ("nle", no(LESS_EQUAL)), ("neq", no(EQUAL)),
    ("nlt", no(LESS)), ("tru", always),
)  # fmt: skip
"""The comparisons of floats in the order of their opcodes."""
SIGNED: Final[Comparisons] = (
    ("f", never), ("lt", Word.slt), ("eq", eq), ("le", Word.sle), ("gt", reverse(Word.slt)), ("ne", ne),
    ("ge", reverse(Word.sle)), ("t", always),
)  # fmt: skip
UNSIGNED: Final[Comparisons] = (
    ("f", never), ("lt", lt), ("eq", eq), ("le", le), ("gt", gt), ("ne", ne), ("ge", ge), ("t", always),
)  # fmt: skip
"""The comparisons of unsigned integers in the order of their opcodes."""

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
"""The types and the first opcodes of v_cmps and v_cmpsx (GFX7).

These differ from v_cmp and v_cmpx only in the exceptions that they raise.
"""


def writing_exec(f: Comparison) -> Callable[[Word, Word], tuple[Word, Word]]:
    """Return the semantics of a v_cmpx operation: the result bits, once for the destination and once for EXEC."""

    def both(a: Word, b: Word) -> tuple[Word, Word]:
        bits = f(a, b)
        return bits, bits

    return both


def pair(prefix: str, name: str, sources: str, f: Comparison, plain: Row, x: Row) -> Iterator[Row]:
    """Yield the table rows of v_cmp and v_cmpx for the comparison `f`; `plain` and `x` hold their opcodes.

    The mnemonics are `prefix` (v_cmp or v_cmps) and `prefix` with an x, each followed by `name`. `sources` are
    the types of the two sources."""
    yield f"{prefix}_{name}", *plain, f"m64 = {sources}", f
    yield f"{prefix}x_{name}", *x, f"m64 exec = {sources}", writing_exec(f)


def moved(first: int | None, at: int) -> tuple[int | None]:
    """Return a tuple of the opcode `first` + `at`, or (None,) if `first` is None.

    `first` is the first opcode of a block of comparisons, and `at` the position in it. None means that the
    generation lacks the block."""
    return (None if first is None else first + at,)


def rows() -> Iterator[Row]:
    """Yield the table rows of all comparisons."""
    for kind, first7, first7_x, first, first_x in CLASSES:
        codes, codes_x = (first7, first, first), (first7_x, first_x, first_x)
        yield from pair("v_cmp", f"class_{kind}", f"{kind} b32", classify, codes, codes_x)
    for kind, table, first7, first7_x, first, first_x in BLOCKS:
        for at, (name, f) in enumerate(table):
            codes = (*moved(first7, at), first + at, first + at)
            codes_x = (*moved(first7_x, at), first_x + at, first_x + at)
            yield from pair("v_cmp", f"{name}_{kind}", f"{kind} {kind}", f, codes, codes_x)
    for kind, first7, first7_x in SIGNALLING:
        for at, (name, f) in enumerate(FLOATS):
            only7, only7_x = (first7 + at, None, None), (first7_x + at, None, None)
            yield from pair("v_cmps", f"{name}_{kind}", f"{kind} {kind}", f, only7, only7_x)


OPS: Final = ops("vopc", tuple(rows()))
