"""Loads and stores of vectors: unit-stride, strided, indexed, segments, whole registers (V 1.0, chapter 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.vector import rules
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.groups import INDEX, Group, Walk, check, check_group, check_unmasked, refuse
from softcard.isa.riscv.vector.rows import VectorRow, group, is_masked, section
from softcard.isa.word import Value

WIDTHS: Final = {8: "000", 16: "101", 32: "110", 64: "111"}
"""The width field of a load or store by the width in bits of an element (of an index, for indexed ones)."""
LOAD, STORE = "0000111", "0100111"


def _transfer(
    o: VectorOps, i: Insn, data: Group, fields: int, walk: Walk, loads: bool, first_fault: bool = False
) -> None:
    """Check the register groups of all fields; then load them from memory if `loads` is True, or store them to it.

    `data` is the group of the first field, and `walk` has the addresses."""
    check_group(data, fields)
    if not loads:
        o.v_store(data, o.vl(), walk, is_masked(i), fields=fields)
        return
    if is_masked(i):
        check_unmasked(data.n)
    o.v_load(data, o.vl(), walk, is_masked(i), fields=fields, first_fault=first_fault)


def unit(width: int, fields: int, loads: bool, first_fault: bool = False) -> VectorSemantics:
    """Return the semantics of a unit-stride load (`loads`) or store: elements are adjacent, starting at x[rs1].

    `width` is the element width in bits, `fields` the number of fields of a segment. `first_fault` is True for
    a fault-only-first load."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector(resumes=True)
        walk = Walk(o.x(i.rs1), INDEX, fields * width // 8)
        _transfer(o, i, group(i.rd, t, width), fields, walk, loads, first_fault)

    return semantics


def strided(width: int, fields: int, loads: bool) -> VectorSemantics:
    """Return the semantics of a strided load (`loads`) or store: element k is at x[rs1] + k * x[rs2].

    `width` is the element width in bits, `fields` the number of fields of a segment."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector(resumes=True)
        _transfer(o, i, group(i.rd, t, width), fields, Walk(o.x(i.rs1), INDEX, o.x(i.rs2)), loads)

    return semantics


def indexed(width: int, fields: int, loads: bool) -> VectorSemantics:
    """Return the semantics of an indexed load (`loads`) or store of SEW-bit elements.

    The address of an element is x[rs1] plus the byte offset of `width` bits in the same element of vs2.
    `fields` is the number of fields of a segment."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector(resumes=True)
        data, index = group(i.rd, t, t.sew), group(i.rs2, t, width)
        check_group(index)
        if loads:
            check_group(data, fields)
            for field in range(fields):
                part = Group(data.n + field * data.registers, data.width, data.emul)
                check(part, (index,), masked=False, no_overlap=rules.SEGMENT_INDEX_OVERLAP if fields > 1 else None)
        _transfer(o, i, data, fields, Walk(o.x(i.rs1), index, 1), loads)

    return semantics


def mask(loads: bool) -> VectorSemantics:
    """Return the semantics of a mask load (`loads`) or store, which transfers ceil(vl / 8) bytes."""

    def semantics(o: VectorOps, i: Insn) -> None:
        o.vector(resumes=True)
        count = o.lshr(64, o.add(64, o.vl(), o.const(64, 7)), o.const(64, 3))
        _whole(o, i, Group(i.rd, 8, 0), count, loads)

    return semantics


def whole(width: int, count: int, loads: bool) -> VectorSemantics:
    """Return the semantics of a load (`loads`) or store of `count` whole registers, regardless of vtype and vl.

    `width` is the element width in bits."""

    def semantics(o: VectorOps, i: Insn) -> None:
        o.vector_untyped(resumes=True)
        if i.rd % count:
            raise refuse(
                f"v{i.rd} cannot begin a group of {count} registers, expected a multiple of {count}", rules.WHOLE_GROUP
            )
        data = Group(i.rd, width, count.bit_length() - 1)
        _whole(o, i, data, o.const(64, count * o.register_bits() // width), loads)

    return semantics


def _whole(o: VectorOps, i: Insn, data: Group, count: Value, loads: bool) -> None:
    go = o.v_load if loads else o.v_store
    go(data, count, Walk(o.x(i.rs1), INDEX, data.width // 8), masked=False)


def _pattern(nf: int, mop: str, vm: str, second: str, width: str, opcode: str) -> str:
    return f"{nf - 1:03b} 0 {mop} {vm} {second} rs1 {width} vd {opcode}"


def _rows() -> Iterator[VectorRow]:
    for direction, opcode, loads in (("l", LOAD, True), ("s", STORE, False)):
        for nf in range(1, 9):
            segment = f"seg{nf}" if nf > 1 else ""
            for width, bits in WIDTHS.items():
                e = f"{segment}e{width}"
                plain = f"v{direction}{e}.v", _pattern(nf, "00", "vm", "00000", bits, opcode)
                yield *plain, "vd, (rs1)[, vm]", unit(width, nf, loads)
                steps = f"v{direction}s{e}.v", _pattern(nf, "10", "vm", "rs2", bits, opcode)
                yield *steps, "vd, (rs1), rs2[, vm]", strided(width, nf, loads)
                for order, mop in (("u", "01"), ("o", "11")):
                    name = f"v{direction}{order}x{segment}ei{width}.v"
                    words = _pattern(nf, mop, "vm", "vs2", bits, opcode)
                    yield name, words, "vd, (rs1), vs2[, vm]", indexed(width, nf, loads)
                if loads:
                    words = _pattern(nf, "00", "vm", "10000", bits, opcode)
                    yield f"vl{e}ff.v", words, "vd, (rs1)[, vm]", unit(width, nf, True, first_fault=True)
        yield f"v{direction}m.v", _pattern(1, "00", "1", "01011", "000", opcode), "vd, (rs1)", mask(loads)
        for count in (1, 2, 4, 8):
            for width, bits in WIDTHS.items() if loads else ((8, "000"),):
                name = f"vl{count}re{width}.v" if loads else f"vs{count}r.v"
                words = _pattern(count, "00", "1", "01000", bits, opcode)
                yield name, words, "vd, (rs1)", whole(width, count, loads)


MEMORY: Final = section(_rows())
