"""SMRD (GFX7) and SMEM (GFX8, GFX9): scalar loads, stores, atomics, cache control and clocks.

The address is SBASE (see `pointer`) plus an offset in bytes; both are rounded down to a multiple of 4. The
buffer operations have a V# in place of SBASE. For every dword outside of the buffer, a load returns 0 and a
store has no effect. The buffer holds NUM_RECORDS bytes, or NUM_RECORDS * STRIDE bytes if the stride is not 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn, Op, Row, ops
from softcard.isa.gcn.semantics.access import ATOMICS, pair, set_sregs, sregs, takes_compare, whole, words
from softcard.isa.gcn.semantics.pointer import scalar_pointer
from softcard.isa.gcn.word import Word


def offset(b: Builder, i: Insn, scale: int = 0) -> Word:
    """Return the offset of a scalar memory instruction in bytes, as 64 bits: immediate, register, or both (GFX9).

    A register holds the offset in units of 2**scale bytes.
    """
    if i.form == "SMRD":
        if i["imm"]:
            return b.const(64, i["offset"] * 4)
        if i.literal is not None:
            return b.const(64, i.literal * 4)
        return sregs(b, i["offset"], 1)[0].zext(64)
    immediate = b.const(64, (i["offset"] & 0x1F_FFFF ^ 0x10_0000) - 0x10_0000 if i.target.level == 9 else i["offset"])
    number = i.get("soffset") if i.get("soffset_en") else None if i["imm"] else i["offset"] & 0x7F
    if number is None:
        return immediate
    register = sregs(b, number, 1)[0].zext(64) << scale
    return immediate + register if i["imm"] else register


def data(i: Insn) -> int:
    """Return the number of the first SGPR that holds the data."""
    return i["sdst"] if i.form == "SMRD" else i["sdata"]


def plain_address(b: Builder, i: Insn, scale: int = 0) -> Word:
    """Return SBASE + offset, rounded down to a multiple of 4 bytes."""
    return scalar_pointer(b, i["sbase"]) + offset(b, i, scale) & -4


def buffer_places(b: Builder, i: Insn, count: int) -> list[tuple[Word, Word]]:
    """Return the place in the buffer of each of `count` dwords, starting at the instruction's offset.

    A place is the address of the dword and a word that is 1 if the dword lies within the buffer."""
    low, high, records, _ = sregs(b, i["sbase"], 4)
    base = pair(low, high) & 0xFFFF_FFFF_FFFC
    size = records.zext(64) * high[29:16].umax(1).zext(64)
    first = offset(b, i) & -4
    places = [first + 4 * k for k in range(count)]
    return [(base + at, at < size) for at in places]


def load(dwords: int, scale: int = 0) -> Execution:
    """Return the semantics of a scalar load: sdata = memory[SBASE + offset]; `offset` describes `scale`."""
    return lambda b, i: set_sregs(b, data(i), b.scalar_load(dwords, plain_address(b, i, scale)))


def buffer_load(dwords: int) -> Execution:
    """Return the semantics of a scalar load from a buffer: sdata = buffer[offset]."""

    def semantics(b: Builder, i: Insn) -> None:
        places = buffer_places(b, i, dwords)
        set_sregs(b, data(i), [inside.select(b.scalar_load(1, at, inside)[0], 0) for at, inside in places])

    return semantics


def store(dwords: int, scale: int = 0) -> Execution:
    """Return the semantics of a scalar store: memory[SBASE + offset] = sdata; `offset` describes `scale`."""
    return lambda b, i: b.scalar_store(plain_address(b, i, scale), sregs(b, i["sdata"], dwords))


def buffer_store(dwords: int) -> Execution:
    """Return the semantics of a scalar store to a buffer: buffer[offset] = sdata."""

    def semantics(b: Builder, i: Insn) -> None:
        values = sregs(b, i["sdata"], dwords)
        for (at, inside), value in zip(buffer_places(b, i, dwords), values, strict=True):
            b.scalar_store(at, [value], inside)

    return semantics


def atomic(kind: str, bits: int, *, buffer: bool) -> Execution:
    """Return the semantics of a scalar atomic: memory = kind(memory, sdata).

    With glc, sdata = the old value of memory (0 outside of a buffer).
    """

    def semantics(b: Builder, i: Insn) -> None:
        n = bits // 32
        at, inside = buffer_places(b, i, 1)[0] if buffer else (plain_address(b, i), None)
        v = whole(sregs(b, i["sdata"], n))
        compare = whole(sregs(b, i["sdata"] + n, n)) if takes_compare(kind) else None
        old = b.scalar_atomic("global", kind, bits, at & -bits // 8, v, compare, inside)
        if i["glc"]:
            set_sregs(b, i["sdata"], words(old if inside is None else inside.select(old, 0)))

    return semantics


def clock(kind: str) -> Execution:
    """Return the semantics of reading the clock `kind`: sdata = a 64-bit counter."""
    return lambda b, i: set_sregs(b, data(i), words(b.time(kind)))


def order(what: str) -> Execution:
    """Return the semantics of the cache operation `what`."""
    return lambda b, i: b.order(what)


def hint(what: str) -> Execution:
    """Return the semantics of `what`, an operation that affects no result (such as a prefetch)."""
    return lambda b, i: b.hint(what)


# fmt: off
CONTROL: Final = (
    # name             GFX7  GFX8  GFX9
    ("s_dcache_inv",       0x1F, 0x20, 0x20, None, order("dcache_inv")),
    ("s_dcache_wb",        None, 0x21, 0x21, None, order("dcache_wb")),
    ("s_dcache_inv_vol",   0x1D, 0x22, 0x22, None, order("dcache_inv")),
    ("s_dcache_wb_vol",    None, 0x23, 0x23, None, order("dcache_wb")),
    ("s_memtime",          0x1E, 0x24, 0x24, None, clock("memtime"),     {"operands": "sdata:2"}),
    ("s_memrealtime",      None, 0x25, 0x25, None, clock("memrealtime"), {"operands": "sdata:2"}),
    ("s_atc_probe",        None, 0x26, 0x26, None, hint("atc_probe"),    {"operands": "sdata sbase:2 offset"}),
    ("s_atc_probe_buffer", None, 0x27, 0x27, None, hint("atc_probe"),    {"operands": "sdata sbase:4 offset"}),
    ("s_dcache_discard",    None, None, 0x28, None, hint("dcache_discard"), {"operands": "sbase:2 offset"}),
    ("s_dcache_discard_x2", None, None, 0x29, None, hint("dcache_discard"), {"operands": "sbase:2 offset"}),
)
# fmt: on


def size_name(dwords: int) -> str:
    """Return the suffix of a mnemonic for a size: "dword", "dwordx2", ..."""
    return "dword" if dwords == 1 else f"dwordx{dwords}"


def rows() -> Iterator[Row]:
    """Yield the table rows of all scalar memory operations, in the order of their GFX9 opcodes."""
    for k, n in enumerate((1, 2, 4, 8, 16)):
        plain, buffer = {"operands": f"sdata:{n} sbase:2 offset"}, {"operands": f"sdata:{n} sbase:4 offset"}
        yield f"s_load_{size_name(n)}", k, k, k, None, load(n), plain
        yield f"s_buffer_load_{size_name(n)}", 8 + k, 8 + k, 8 + k, None, buffer_load(n), buffer
    for k, n in enumerate((1, 2, 4)):
        plain, buffer = {"operands": f"sdata:{n} sbase:2 offset"}, {"operands": f"sdata:{n} sbase:4 offset"}
        yield f"s_scratch_load_{size_name(n)}", None, None, 0x05 + k, None, load(n, 6), plain
        yield f"s_store_{size_name(n)}", None, 0x10 + k, 0x10 + k, None, store(n), plain
        yield f"s_scratch_store_{size_name(n)}", None, None, 0x15 + k, None, store(n, 6), plain
        yield f"s_buffer_store_{size_name(n)}", None, 0x18 + k, 0x18 + k, None, buffer_store(n), buffer
    yield from CONTROL
    for buffer_form, first in ((True, 0x40), (False, 0x80)):
        for bits, step in ((32, 0), (64, 0x20)):
            for k, kind in enumerate(ATOMICS):
                name = f"s_{'buffer_' if buffer_form else ''}atomic_{kind}{'_x2' if bits == 64 else ''}"
                n = bits // 32 * (2 if takes_compare(kind) else 1)
                operands = {"operands": f"sdata:{n} sbase:{4 if buffer_form else 2} offset"}
                yield name, None, None, first + step + k, None, atomic(kind, bits, buffer=buffer_form), operands


OPS: Final[tuple[Op, ...]] = ops("smem", tuple(rows()))
"""All operations of SMRD and SMEM."""
