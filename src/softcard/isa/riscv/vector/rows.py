"""Shared definitions of the vector tables: encodings, operand texts, and functions of elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final, cast

from softcard.isa.pattern import Pattern
from softcard.isa.riscv.format import KINDS
from softcard.isa.riscv.insn import Insn, Spec, SystemSemantics
from softcard.isa.riscv.rows import Row
from softcard.isa.riscv.vector import rules
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.groups import Group, Mask, Scalar, Source, refuse
from softcard.isa.riscv.vector.vtype import VType
from softcard.isa.riscv.word import Word, recorded
from softcard.isa.word import Value

OP_V: Final = "1010111"
VectorRow = tuple[str, str, str, VectorSemantics]
"""A vector instruction as a tuple: mnemonic, pattern, operands and semantics."""
OnWords = Callable[..., Word | tuple[Word, ...]]
"""A function of elements, given as words, that returns a word or several."""
Element = Callable[..., Value]
"""A function of the operations interface and of element values, which returns a value."""


def section(
    rows: Iterable[VectorRow], extension: str = "V", reference_only: tuple[str, ...] = ()
) -> tuple[Row[Spec], ...]:
    """Return the table rows of the vector instructions `rows`.

    Instructions named in `reference_only` are executed by the reference engine only.
    """
    return tuple(
        Row(
            name,
            Pattern.parse(pattern, 32, KINDS),
            operands,
            Spec(name, extension, "system" if name in reference_only else "next", cast("SystemSemantics", semantics)),
        )
        for name, pattern, operands, semantics in rows
    )


FUNCT3: Final = {"ivv": "000", "fvv": "001", "mvv": "010", "ivi": "011", "ivx": "100", "fvf": "101", "mvx": "110"}
_FIRST: Final = {"v": ("vs1", "vs1"), "x": ("rs1", "rs1"), "f": ("rs1", "fs1"), "i": ("imm[4:0]", "imm")}


def pattern(funct6: str, category: str, *, vm: str = "vm", vs2: str = "vs2", first: str = "", vd: str = "vd") -> str:
    """Return the bit pattern of an arithmetic instruction; `category` is a key of `FUNCT3`.

    `first` is the pattern of the bits that vs1 occupies in other instructions; by default it is the field of the
    operand that `category` selects."""
    return f"{funct6} {vm} {vs2} {first or _FIRST[category[-1]][0]} {FUNCT3[category]} {vd} {OP_V}"


def first_operand(category: str) -> str:
    """Return the operand text of the operand that `category` selects: vs1, rs1, fs1 or imm."""
    return _FIRST[category[-1]][1]


def is_masked(i: Insn) -> bool:
    """Return True if the instruction is masked: v0 holds the mask of active elements."""
    return i.vm == 0


def own(i: Insn, t: VType) -> Group:
    """Return the instruction's own register group, which it writes: that at vd, with elements of SEW bits."""
    return Group(i.rd, t.sew, t.lmul)


def group(n: int, t: VType, width: int) -> Group:
    """Return the register group at register `n` with elements of `width` bits.

    It has as many elements as a group with elements of SEW bits.
    """
    return Group(n, width, t.emul(width))


def operand(o: VectorOps, i: Insn, t: VType, kind: str, width: int = 0) -> Source:
    """Return the operand other than vs2: vs1, x[rs1], f[rs1] or imm, as the letter `kind` selects.

    Its elements have `width` bits (0: SEW).
    """
    width = width or t.sew
    match kind:
        case "v":
            return group(i.rs1, t, width)
        case "x":
            return Scalar(width, o.x(i.rs1) if width == 64 else o.trunc(width, 64, o.x(i.rs1)))
        case "f":
            fmt = float_format(width)
            return Scalar(width, o.f_bits(fmt, o.f(i.rs1, fmt)))
    return Scalar(width, o.const(width, i.imm))


def float_format(width: int) -> str:
    """Return the float format of `width` bits; raise `IllegalInstruction` if none exists."""
    if width not in (32, 64):
        raise refuse(f"the floats have {width} bits, expected 32 or 64", rules.FLOAT_WIDTH)
    return "s" if width == 32 else "d"


def element(f: OnWords, sources: tuple[Source, ...]) -> Element:
    """Convert a function of words to a function of the algebra and of engine values.

    The widths of the words are those of the elements of `sources`."""
    return _element(f, tuple(source.width for source in sources))


@cache
def _element(f: OnWords, widths: tuple[int, ...]) -> Element:
    return recorded(f, *widths)


def masks(i: Insn) -> tuple[Mask, Mask]:
    """Return the two operands vs2 and vs1 of an instruction as masks."""
    return Mask(i.rs2), Mask(i.rs1)
