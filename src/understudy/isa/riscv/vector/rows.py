"""What the tables of vector instructions share: encodings, operand texts, and how elements become values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final, cast

from understudy.isa.pattern import Pattern
from understudy.isa.riscv.format import KINDS
from understudy.isa.riscv.insn import Insn, Spec, SystemMeaning
from understudy.isa.riscv.rows import Row
from understudy.isa.riscv.vector import rules
from understudy.isa.riscv.vector.algebra import VectorMeaning, VectorOps
from understudy.isa.riscv.vector.groups import Group, Mask, Scalar, Source, refuse
from understudy.isa.riscv.vector.vtype import VType
from understudy.isa.riscv.word import Word, recorded
from understudy.isa.word import Value

OP_V: Final = "1010111"
VectorRow = tuple[str, str, str, VectorMeaning]
"""Mnemonic, pattern, operands and meaning of one instruction."""
OnWords = Callable[..., Word | tuple[Word, ...]]
"""A function of elements as words."""
Element = Callable[..., Value]
"""A function (o, values of elements) of an algebra."""


def section(rows: Iterable[VectorRow], extension: str = "V", left: tuple[str, ...] = ()) -> tuple[Row[Spec], ...]:
    """Rows of the extension; those whose names are in `left` run on the reference engine only."""
    return tuple(
        Row(
            name,
            Pattern.parse(pattern, 32, KINDS),
            operands,
            Spec(name, extension, "system" if name in left else "next", cast("SystemMeaning", meaning)),
        )
        for name, pattern, operands, meaning in rows
    )


FUNCT3: Final = {"ivv": "000", "fvv": "001", "mvv": "010", "ivi": "011", "ivx": "100", "fvf": "101", "mvx": "110"}
_FIRST: Final = {"v": ("vs1", "vs1"), "x": ("rs1", "rs1"), "f": ("rs1", "fs1"), "i": ("imm[4:0]", "imm")}


def pattern(funct6: str, category: str, *, vm: str = "vm", vs2: str = "vs2", first: str = "", vd: str = "vd") -> str:
    """The bits of an arithmetic instruction; `category` is a key of `FUNCT3`, `first` what stands for vs1."""
    return f"{funct6} {vm} {vs2} {first or _FIRST[category[-1]][0]} {FUNCT3[category]} {vd} {OP_V}"


def first_operand(category: str) -> str:
    """The operand text of vs1, rs1, fs1 or imm."""
    return _FIRST[category[-1]][1]


def is_masked(i: Insn) -> bool:
    """Whether v0 tells which elements take part."""
    return i.vm == 0


def own(i: Insn, t: VType) -> Group:
    """vd as elements of SEW."""
    return Group(i.rd, t.sew, t.lmul)


def group(n: int, t: VType, width: int) -> Group:
    """Register `n` as elements of `width` bits, as many as there are of SEW."""
    return Group(n, width, t.emul(width))


def operand(o: VectorOps, i: Insn, t: VType, kind: str, width: int = 0) -> Source:
    """The other operand by its letter: vs1, x[rs1], f[rs1] or imm, as elements of `width` bits (SEW)."""
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
    """The format of floats of `width` bits; a reserved encoding where there is none."""
    if width not in (32, 64):
        raise refuse(f"floats of {width} bits: there are 32 and 64", rules.FLOAT_WIDTH)
    return "s" if width == 32 else "d"


def element(f: OnWords, sources: tuple[Source, ...]) -> Element:
    """A function of words as one of values."""
    return _element(f, tuple(source.width for source in sources))


@cache
def _element(f: OnWords, widths: tuple[int, ...]) -> Element:
    return recorded(f, *widths)


def masks(i: Insn) -> tuple[Mask, Mask]:
    """vs2 and vs1 as masks."""
    return Mask(i.rs2), Mask(i.rs1)
