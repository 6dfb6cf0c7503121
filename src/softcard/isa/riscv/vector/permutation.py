"""Movement of elements: moves, slides, gathers, compress (V 1.0, chapter 16)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.vector import rules
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.floating import begin
from softcard.isa.riscv.vector.groups import Group, Index, Mask, Picked, Scalar, Slid, check, refuse
from softcard.isa.riscv.vector.integer import forms, same
from softcard.isa.riscv.vector.rows import (
    VectorRow,
    element,
    float_format,
    group,
    is_masked,
    operand,
    own,
    pattern,
    section,
)
from softcard.isa.riscv.vector.vtype import VType
from softcard.isa.riscv.word import Word
from softcard.isa.word import Value

NUMBER: Final = Index(32)
FAR: Final = 1 << 31
"""A slide offset that is larger than every element index."""


def to_scalar(o: VectorOps, i: Insn) -> None:
    """Execute vmv.x.s: rd = element 0 of vs2, sign-extended."""
    t = o.vector()
    value = o.v_first(Group(i.rs2, t.sew, 0))
    o.set_x(i.rd, value if t.sew == 64 else o.sext(64, t.sew, value))


def from_scalar(o: VectorOps, i: Insn) -> None:
    """Execute vmv.s.x: element 0 of vd = rs1."""
    t = o.vector()
    o.v_set_first(Group(i.rd, t.sew, 0), o.x(i.rs1) if t.sew == 64 else o.trunc(t.sew, 64, o.x(i.rs1)))


def _offset(o: VectorOps, i: Insn, kind: str) -> Value:
    """Return the offset of a slide, which `kind` selects: all 64 bits of x[rs1], or imm."""
    return o.x(i.rs1) if kind == "x" else o.const(64, i.imm)


def slide_up(kind: str) -> VectorSemantics:
    """Return the semantics of a slide up: vd[k + offset] = vs2[k]; elements of vd below the offset are unchanged.

    The offset is x[rs1] or imm, as `kind` selects."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        dest, source, offset = own(i, t), group(i.rs2, t, t.sew), _offset(o, i, kind)
        check(dest, (source,), is_masked(i), no_overlap=rules.SLIDE_UP_OVERLAP)
        near = o.select(64, o.ult(64, offset, o.const(64, FAR)), offset, o.const(64, FAR))
        sources = NUMBER, Scalar(32, o.trunc(32, 64, near)), Slid(source, offset, up=True), dest
        o.v_map(dest, sources, element(_preserved_below, sources), is_masked(i))

    return semantics


def _preserved_below(k: Word, offset: Word, value: Word, old: Word) -> Word:
    return (k < offset).select(old, value)


def slide_down(kind: str) -> VectorSemantics:
    """Return the semantics of a slide down: vd[k] = vs2[k + offset], or 0 past the group's end.

    The offset is x[rs1] or imm, as `kind` selects."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        dest, source = own(i, t), group(i.rs2, t, t.sew)
        check(dest, (source,), is_masked(i))
        sources = (Slid(source, _offset(o, i, kind), up=False),)
        o.v_map(dest, sources, element(same, sources), is_masked(i))

    return semantics


def slide_one(up: bool, kind: str) -> VectorSemantics:
    """Return the semantics of a slide by one element, up if `up`, else down.

    The position that becomes free gets the value of rs1 or fs1, as `kind` selects."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = _begin(o, kind)
        dest, source = own(i, t), group(i.rs2, t, t.sew)
        scalar = operand(o, i, t, kind)
        check(dest, (source,), is_masked(i), no_overlap=rules.SLIDE_ONE_UP_OVERLAP if up else None)
        edge = o.const(32, 0) if up else o.trunc(32, 64, o.sub(64, o.vl(), o.const(64, 1)))
        sources = NUMBER, Scalar(32, edge), scalar, Slid(source, o.const(64, 1), up)
        o.v_map(dest, sources, element(_new_at, sources), is_masked(i))

    return semantics


def _new_at(k: Word, edge: Word, new: Word, value: Word) -> Word:
    return (k == edge).select(new, value)


def _begin(o: VectorOps, kind: str) -> VType:
    if kind != "f":
        return o.vector()
    t = begin(o)
    float_format(t.sew)
    return t


def gather(kind: str, index_width: int = 0) -> VectorSemantics:
    """Return the semantics of a gather: vd[k] = vs2[index], or 0 past the group's end.

    The index is vs1[k], rs1 or imm, as `kind` selects; elements of vs1 have `index_width` bits (0: SEW).
    """

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        dest, source = own(i, t), group(i.rs2, t, t.sew)
        width = (index_width or t.sew) if kind == "v" else 64
        index = group(i.rs1, t, width) if kind == "v" else Scalar(64, _offset(o, i, kind))
        check(dest, (source, index), is_masked(i), no_overlap=rules.GATHER_OVERLAP)
        sources = (Picked(source, index),)
        o.v_map(dest, sources, element(same, sources), is_masked(i))

    return semantics


def compress(o: VectorOps, i: Insn) -> None:
    """Execute vcompress.vm: vd = the elements of vs2 that the mask vs1 enables, without gaps."""
    t = o.vector()
    dest, source, which = own(i, t), group(i.rs2, t, t.sew), Mask(i.rs1)
    check(dest, (source, which), masked=False, no_overlap=rules.COMPRESS_OVERLAP)
    o.v_compress(dest, source, which)


def copy(count: int) -> VectorSemantics:
    """Return the semantics of a copy of `count` whole registers from vs2 to vd."""

    def semantics(o: VectorOps, i: Insn) -> None:
        o.vector()
        for n in (i.rd, i.rs2):
            if n % count:
                raise refuse(
                    f"v{n} cannot begin a group of {count} registers, expected a multiple of {count}",
                    rules.WHOLE_MOVE_GROUP,
                )
        o.v_copy(i.rd, i.rs2, count)

    return semantics


def _slide_one(name: str, category: str, letter: str, other: str) -> Iterator[VectorRow]:
    operands = f"vd, vs2, {other}[, vm]"
    yield f"{name}up.v{letter}", pattern("001110", category), operands, slide_one(True, letter)
    yield f"{name}down.v{letter}", pattern("001111", category), operands, slide_one(False, letter)


def _rows() -> Iterator[VectorRow]:
    yield "vmv.x.s", pattern("010000", "mvv", vm="1", first="00000", vd="rd"), "rd, vs2", to_scalar
    yield "vmv.s.x", pattern("010000", "mvx", vm="1", vs2="00000"), "vd, rs1", from_scalar
    for category, letter, other, bits in forms("ivx ivu"):
        operands = f"vd, vs2, {other}[, vm]"
        yield f"vslideup.v{letter}", pattern("001110", category, first=bits), operands, slide_up(letter)
        yield f"vslidedown.v{letter}", pattern("001111", category, first=bits), operands, slide_down(letter)
    yield from _slide_one("vslide1", "mvx", "x", "rs1")
    for category, letter, other, bits in forms("ivv ivx ivu"):
        operands = f"vd, vs2, {other}[, vm]"
        yield f"vrgather.v{letter}", pattern("001100", category, first=bits), operands, gather(letter)
    yield "vrgatherei16.vv", pattern("001110", "ivv"), "vd, vs2, vs1[, vm]", gather("v", 16)
    yield "vcompress.vm", pattern("010111", "mvv", vm="1"), "vd, vs2, vs1", compress
    for count in (1, 2, 4, 8):
        bits = pattern("100111", "ivi", vm="1", first=f"{count - 1:05b}")
        yield f"vmv{count}r.v", bits, "vd, vs2", copy(count)


PERMUTATION: Final = section(_rows()) + section(_slide_one("vfslide1", "fvf", "f", "fs1"), "Zve64d")
