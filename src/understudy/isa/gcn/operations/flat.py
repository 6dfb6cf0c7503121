"""FLAT, GLOBAL and SCRATCH: loads, stores and atomics at per-lane addresses.

GFX7 and GFX8 know only FLAT: a pointer (64 bits in two registers, 32 bits in one: `pointer`), which the apertures send
to LDS, private or global memory. GFX9 adds an instruction offset (FLAT: 12 bits unsigned, the others 13 bits signed),
GLOBAL (no apertures; with SADDR the address is a pointer in SGPRs + a 32-bit VGPR offset) and SCRATCH (a 32-bit private
offset in a VGPR or, with SADDR, an SGPR).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Execution, Insn, Op, Row, ops
from understudy.isa.gcn.semantics.access import (
    ATOMICS,
    FLOAT_ATOMICS,
    LOADS,
    STORES,
    Transfer,
    lds_slots,
    loaded,
    set_vregs,
    stored,
    takes_compare,
    vreg,
    words,
)
from understudy.isa.gcn.semantics.pointer import flat_address, scalar_pointer, vector_pointer
from understudy.isa.gcn.word import Word

NO_SADDR: Final = 0x7F
"""SADDR of instructions without a scalar address."""
FLAT_OFFSET: Final = 0xFFF


def instruction_offset(i: Insn) -> int:
    """The offset in the instruction, of which FLAT ignores the highest bit (Choice ``gcn/flat-offset``)."""
    offset: int = i.get("offset")
    return offset & FLAT_OFFSET if i.op.family == "flat" else offset


def address(b: Builder, i: Insn) -> tuple[str, Word]:
    """The space and the 64-bit addresses of an instruction."""
    offset = instruction_offset(i)
    saddr = i.get("saddr", NO_SADDR)
    if i.op.family == "scratch":
        private = (vreg(b, i["addr"]) if saddr == NO_SADDR else b.s(saddr)) + offset
        return "flat", b.aperture("private") + private.zext(64)
    if i.op.family == "global" and saddr != NO_SADDR:
        return "global", vreg(b, i["addr"]).zext(64) + (scalar_pointer(b, saddr) + offset)
    v = vector_pointer(b, i["addr"])
    at = v + offset if i.get("offset") else v
    return i.op.family, flat_address(b, at) if i.op.family == "flat" else at


def load(how: Transfer) -> Execution:
    """vdst = memory[address]; with the lds flag, LDS takes a dword per lane instead."""

    def meaning(b: Builder, i: Insn) -> None:
        space, at = address(b, i)
        values = loaded(b, how, b.load(space, how.bits, at), i["vdst"])
        if i.get("lds"):
            b.store("lds", 32, lds_slots(b, instruction_offset(i)), values[:1])
        else:
            set_vregs(b, i["vdst"], [*values, b.const(32, 0)] if i.get("tfe") else values)

    return meaning


def store(how: Transfer) -> Execution:
    """memory[address] = data."""

    def meaning(b: Builder, i: Insn) -> None:
        space, at = address(b, i)
        b.store(space, how.bits, at, stored(b, how, i["data"]))

    return meaning


def atomic(kind: str, bits: int) -> Execution:
    """memory[address] = kind(memory[address], data); with glc vdst = what memory held."""

    def meaning(b: Builder, i: Insn) -> None:
        space, at = address(b, i)
        v = vreg(b, i["data"], bits)
        compare = vreg(b, i["data"] + bits // 32, bits) if takes_compare(kind) else None
        old = b.atomic(space, kind, bits, at, v, compare)
        if i["glc"]:
            set_vregs(b, i["vdst"], words(old))

    return meaning


Codes = tuple[int | None, int | None, int | None]

# fmt: off
LOAD_CODES: Final[dict[str, Codes]] = {
    "ubyte":        (0x08, 0x10, 0x10),
    "sbyte":        (0x09, 0x11, 0x11),
    "ushort":       (0x0A, 0x12, 0x12),
    "sshort":       (0x0B, 0x13, 0x13),
    "dword":        (0x0C, 0x14, 0x14),
    "dwordx2":      (0x0D, 0x15, 0x15),
    "dwordx3":      (0x0F, 0x16, 0x16),
    "dwordx4":      (0x0E, 0x17, 0x17),
    "ubyte_d16":    (None, None, 0x20),
    "ubyte_d16_hi": (None, None, 0x21),
    "sbyte_d16":    (None, None, 0x22),
    "sbyte_d16_hi": (None, None, 0x23),
    "short_d16":    (None, None, 0x24),
    "short_d16_hi": (None, None, 0x25),
}
STORE_CODES: Final[dict[str, Codes]] = {
    "byte":         (0x18, 0x18, 0x18),
    "byte_d16_hi":  (None, None, 0x19),
    "short":        (0x1A, 0x1A, 0x1A),
    "short_d16_hi": (None, None, 0x1B),
    "dword":        (0x1C, 0x1C, 0x1C),
    "dwordx2":      (0x1D, 0x1D, 0x1D),
    "dwordx3":      (0x1F, 0x1E, 0x1E),
    "dwordx4":      (0x1E, 0x1F, 0x1F),
}
# 32-bit codes; those of 64 bits ("_x2") are 0x20 higher. GFX7, then GFX8 and GFX9.
ATOMIC_CODES: Final[dict[str, tuple[int | None, int | None]]] = {
    "swap":     (0x30, 0x40),
    "cmpswap":  (0x31, 0x41),
    "add":      (0x32, 0x42),
    "sub":      (0x33, 0x43),
    "smin":     (0x35, 0x44),
    "umin":     (0x36, 0x45),
    "smax":     (0x37, 0x46),
    "umax":     (0x38, 0x47),
    "and":      (0x39, 0x48),
    "or":       (0x3A, 0x49),
    "xor":      (0x3B, 0x4A),
    "inc":      (0x3C, 0x4B),
    "dec":      (0x3D, 0x4C),
    "fcmpswap": (0x3E, None),
    "fmin":     (0x3F, None),
    "fmax":     (0x40, None),
}
# fmt: on


def atomic_codes(kind: str, bits: int) -> Codes:
    """Opcodes by generation of an atomic on global memory (FLAT and MUBUF share them)."""
    step = 0x20 if bits == 64 else 0
    op7, op8 = (None if code is None else code + step for code in ATOMIC_CODES[kind])
    return op7, op8, op8


def only9(family: str, codes: Codes) -> Codes:
    """GLOBAL and SCRATCH exist from GFX9 on."""
    return codes if family == "flat" else (None, None, codes[2])


def rows(family: str) -> Iterator[Row]:
    """All operations of a family."""
    at = {"flat": "addr:2", "global": "addr:2 saddr:2", "scratch": "addr saddr"}[family]
    for name, codes in LOAD_CODES.items():
        how = LOADS[name]
        operands = f"vdst:{how.registers} {at}"
        yield f"{family}_load_{name}", *only9(family, codes), None, load(how), {"operands": operands}
    for name, codes in STORE_CODES.items():
        how = STORES[name]
        first, _, last = at.partition(" ")
        operands = f"{first} data:{how.registers} {last}".strip()
        yield f"{family}_store_{name}", *only9(family, codes), None, store(how), {"operands": operands}
    if family == "scratch":
        return
    for kind in ATOMICS if family == "global" else ATOMICS + FLOAT_ATOMICS:
        for bits in (32, 64):
            yield atomic_row(family, kind, bits, at)


def atomic_row(family: str, kind: str, bits: int, at: str) -> Row:
    """One atomic."""
    n = bits // 32
    first, _, last = at.partition(" ")
    operands = f"vdst:{n}/glc {first} data:{2 * n if takes_compare(kind) else n} {last}".strip()
    name = f"{family}_atomic_{kind}" + ("_x2" if bits == 64 else "")
    return name, *only9(family, atomic_codes(kind, bits)), None, atomic(kind, bits), {"operands": operands}


OPS: Final[tuple[Op, ...]] = tuple(
    op for family in ("flat", "global", "scratch") for op in ops(family, tuple(rows(family)))
)
"""All operations of FLAT, GLOBAL and SCRATCH."""
