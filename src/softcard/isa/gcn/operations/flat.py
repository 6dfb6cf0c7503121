"""FLAT, GLOBAL and SCRATCH operations: loads, stores and atomics at per-lane addresses.

- FLAT: the address is a pointer (64 bits in two registers, or 32 bits in one; see `pointer`). If it lies in
  an aperture, the access goes to LDS or private memory, otherwise to global memory. GFX7 and GFX8 have only
  FLAT.
- GLOBAL (GFX9): apertures are ignored. With SADDR, the address is a pointer in SGPRs plus a 32-bit VGPR
  offset.
- SCRATCH (GFX9): the address is a 32-bit offset in private memory, in a VGPR or, with SADDR, in an SGPR.

GFX9 adds an immediate offset to the address: 12 bits unsigned for FLAT, 13 bits signed for the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Accuracy, Execution, Insn, Op, Row, ops
from softcard.isa.gcn.semantics.access import (
    ATOMICS,
    FLOAT_ATOMICS,
    LOADS,
    STORES,
    Transfer,
    loaded,
    set_vregs,
    stored,
    takes_compare,
    to_lds,
    vreg,
    words,
)
from softcard.isa.gcn.semantics.pointer import flat_address, scalar_pointer, vector_pointer
from softcard.isa.gcn.word import Word

NO_SADDR: Final = 0x7F
"""The value of the SADDR field in an instruction without a scalar address."""
FLAT_OFFSET: Final = 0xFFF


def instruction_offset(i: Insn) -> int:
    """Return the offset field of an instruction; FLAT ignores its highest bit (Choice ``gcn/flat-offset``)."""
    offset: int = i.get("offset")
    return offset & FLAT_OFFSET if i.op.family == "flat" else offset


def address(b: Builder, i: Insn) -> tuple[str, Word]:
    """Return the address space of an instruction ("flat" or "global"), and its 64-bit address per lane."""
    offset = instruction_offset(i)
    saddr = i.get("saddr", NO_SADDR)
    if i.op.family == "scratch":
        private = private_offset(b, i, saddr) + offset
        return "flat", b.aperture("private") + private.zext(64)
    if i.op.family == "global" and saddr != NO_SADDR:
        return "global", vreg(b, i["addr"]).zext(64) + (scalar_pointer(b, saddr) + offset)
    v = vector_pointer(b, i["addr"])
    at = v + offset if i.get("offset") else v
    return i.op.family, flat_address(b, at) if i.op.family == "flat" else at


def private_offset(b: Builder, i: Insn, saddr: int) -> Word:
    """Return the private offset of a SCRATCH instruction: SADDR if present, else VADDR.

    From gfx942 on it is the sum of SADDR and VADDR, each of which may be absent.
    """
    if "sve" not in i.fields:
        return vreg(b, i["addr"]) if saddr == NO_SADDR else b.s(saddr)
    if saddr == NO_SADDR:
        return vreg(b, i["addr"]) if i["sve"] else b.const(32, 0)
    return b.s(saddr) + vreg(b, i["addr"]) if i["sve"] else b.s(saddr)


def load(how: Transfer) -> Execution:
    """Return the semantics of a load: vdst = memory[address].

    With the lds flag, each lane's dword is written to LDS instead of vdst."""

    def semantics(b: Builder, i: Insn) -> None:
        space, at = address(b, i)
        values = loaded(b, how, b.load(space, how.bits, at), i["vdst"])
        if i.get("lds"):
            to_lds(b, instruction_offset(i), values[:1])
        else:
            set_vregs(b, i["vdst"], [*values, b.const(32, 0)] if i.get("tfe") else values)

    return semantics


def load_lds(how: Transfer) -> Execution:
    """Return the semantics of a load to LDS: LDS[M0[15:0] + offset + step * lane] = memory[address].

    `step` is 4 bytes for one dword, and 16 bytes for three or four.
    """

    def semantics(b: Builder, i: Insn) -> None:
        space, at = address(b, i)
        to_lds(b, instruction_offset(i), loaded(b, how, b.load(space, how.bits, at), 0))

    return semantics


def store(how: Transfer) -> Execution:
    """Return the semantics of a store: memory[address] = data."""

    def semantics(b: Builder, i: Insn) -> None:
        space, at = address(b, i)
        b.store(space, how.bits, at, stored(b, how, i["data"]))

    return semantics


def atomic(kind: str, bits: int) -> Execution:
    """Return the semantics of an atomic: memory[address] = kind(memory[address], data).

    With glc, vdst = the old value of memory.
    """

    def semantics(b: Builder, i: Insn) -> None:
        space, at = address(b, i)
        v = vreg(b, i["data"], bits)
        compare = vreg(b, i["data"] + bits // 32, bits) if takes_compare(kind) else None
        old = b.atomic(space, kind, bits, at, v, compare)
        if i["glc"]:
            set_vregs(b, i["vdst"], words(old))

    return semantics


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
NEW_ATOMICS: Final = (
    # name        kind    bits  code  needs
    ("add_f32",     "fadd", 32, 0x4D, "mai"),
    ("pk_add_f16",  "hadd", 32, 0x4E, "mai"),
    ("add_f64",     "fadd", 64, 0x4F, "gfx90a"),
    ("min_f64",     "fmin", 64, 0x50, "gfx90a"),
    ("max_f64",     "fmax", 64, 0x51, "gfx90a"),
    ("pk_add_bf16", "badd", 32, 0x52, "gfx940"),
)
"""The atomics that CDNA adds. FLAT has the first two from gfx942 on, MUBUF the last one from gfx950 on."""
SUMS: Final = Accuracy("chosen", "", "gcn/float-atomics")
LDS_LOADS: Final = (
    # name      code  needs
    ("ubyte",   0x26, "gfx940"),
    ("sbyte",   0x27, "gfx940"),
    ("ushort",  0x28, "gfx940"),
    ("sshort",  0x29, "gfx940"),
    ("dword",   0x2A, "gfx940"),
    ("dwordx4", 0x7D, "gfx950"),
    ("dwordx3", 0x7E, "gfx950"),
)
"""The load operations that always load to LDS; on earlier processors a flag of the plain loads does this.

SCRATCH has those that gfx942 introduced.
"""
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
    """Return the opcodes by generation of a global-memory atomic, from its kind and size in bits.

    FLAT and MUBUF use the same opcodes.
    """
    step = 0x20 if bits == 64 else 0
    op7, op8 = (None if code is None else code + step for code in ATOMIC_CODES[kind])
    return op7, op8, op8


def only9(family: str, codes: Codes) -> Codes:
    """Return `codes`, but without the opcodes of GFX7 and GFX8 if `family` is GLOBAL or SCRATCH.

    Only GFX9 has these two families."""
    return codes if family == "flat" else (None, None, codes[2])


def rows(family: str) -> Iterator[Row]:
    """Yield the table rows of all operations of `family`: "flat", "global" or "scratch"."""
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
        for name, code, needs in LDS_LOADS:
            if needs == "gfx940":
                extras = {"operands": at, "needs": needs}
                yield f"scratch_load_lds_{name}", None, None, code, None, load_lds(LOADS[name]), extras
        return
    for kind in ATOMICS if family == "global" else ATOMICS + FLOAT_ATOMICS:
        for bits in (32, 64):
            yield atomic_row(family, kind, bits, at)
    for name, kind, bits, code, needs in NEW_ATOMICS:
        needs = "gfx940" if family == "flat" and needs == "mai" else needs
        row = atomic_operands(kind, bits, at) | {"needs": needs, "accuracy": SUMS}
        yield f"{family}_atomic_{name}", None, None, code, None, atomic(kind, bits), row
    if family == "global":
        for name, code, needs in LDS_LOADS:
            yield (
                f"global_load_lds_{name}",
                None,
                None,
                code,
                None,
                load_lds(LOADS[name]),
                {"operands": at, "needs": needs},
            )


def atomic_row(family: str, kind: str, bits: int, at: str) -> Row:
    """Return the table row of one atomic; `at` is the part of its operand list that names the address."""
    name = f"{family}_atomic_{kind}" + ("_x2" if bits == 64 else "")
    codes = only9(family, atomic_codes(kind, bits))
    return name, *codes, None, atomic(kind, bits), atomic_operands(kind, bits, at)


def atomic_operands(kind: str, bits: int, at: str) -> dict[str, Any]:
    """Return the operand list of one atomic as an `Op` field.

    `at` is the part of the list that names the address.
    """
    n = bits // 32
    first, _, last = at.partition(" ")
    return {"operands": f"vdst:{n}/glc {first} data:{2 * n if takes_compare(kind) else n} {last}".strip()}


OPS: Final[tuple[Op, ...]] = tuple(
    op for family in ("flat", "global", "scratch") for op in ops(family, tuple(rows(family)))
)
"""All operations of FLAT, GLOBAL and SCRATCH."""
