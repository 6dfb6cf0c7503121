"""Semantics of DS accesses to the local data share (LDS) and the global data share (GDS).

A byte address is ADDR + offset (32 bits, wrapping). GFX7 and GFX8 round it down to the size of the access,
and M0 is the size of the accessible part of LDS: a load that extends beyond it returns 0, and a store has no
effect. GFX9 accepts unaligned addresses, except that those of atomics are rounded down, and ignores M0.

With the gds flag the access goes to GDS, and M0[31:16] is added to the address. The access is out of range
if, before that addition, its end is above M0[15:0]."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn
from softcard.isa.gcn.semantics.access import (
    Transfer,
    lds_slots,
    loaded,
    narrowed,
    set_vregs,
    stored,
    vreg,
    vregs,
    whole,
    words,
)
from softcard.isa.gcn.state import M0
from softcard.isa.gcn.target import GFX9
from softcard.isa.gcn.word import Word


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a DS access: address space, per-lane addresses, and the mask of lanes in range.

    If the mask is None, only the engine checks the range."""

    space: str
    at: Word
    where: Word | None


def offset16(i: Insn) -> int:
    """Return the two offset fields joined to one 16-bit offset."""
    return i["offset0"] | i["offset1"] << 8


def place(b: Builder, i: Insn, at: Word, size: int, *, atomic: bool = False) -> Location:
    """Return the location of a DS access of `size` bytes at the 32-bit byte address `at`.

    If `atomic` is True, the address is rounded down to the size on GFX9, too."""
    unaligned = i.target.level == GFX9 and not i.get("gds") and not atomic
    if not unaligned and size > 1:
        at &= -(1 << (size - 1).bit_length())
    # at + size <= limit, without overflow: at < max(limit, size - 1) - (size - 1).
    if i.get("gds"):
        return Location("gds", at + b.s(M0)[31:16], at < b.s(M0)[15:0].umax(size - 1) - (size - 1))
    return Location("lds", at, None if i.target.level == GFX9 else at < b.s(M0).umax(size - 1) - (size - 1))


def addressed(b: Builder, i: Insn, size: int, offset: int, *, atomic: bool = False) -> Location:
    """Return the location of a DS access of `size` bytes at ADDR + `offset`; `atomic` is True for atomics."""
    v = vreg(b, i["addr"])
    return place(b, i, v + offset if offset else v, size, atomic=atomic)


def get(b: Builder, p: Location, bits: int) -> list[Word]:
    """Load `bits` bits from `p` as 32-bit words; lanes out of range get 0."""
    return b.load(p.space, bits, p.at, p.where)


def read(how: Transfer) -> Execution:
    """Return the semantics of a DS read: vdst = LDS[address]."""

    def semantics(b: Builder, i: Insn) -> None:
        values = get(b, addressed(b, i, how.size, offset16(i)), how.bits)
        set_vregs(b, i["vdst"], loaded(b, how, values, i["vdst"]))

    return semantics


def write(how: Transfer) -> Execution:
    """Return the semantics of a DS write: LDS[address] = data0."""

    def semantics(b: Builder, i: Insn) -> None:
        p = addressed(b, i, how.size, offset16(i))
        b.store(p.space, how.bits, p.at, stored(b, how, i["data0"]), p.where)

    return semantics


def twice(b: Builder, i: Insn, bits: int, step: int, *, atomic: bool = False) -> list[Location]:
    """Return the two locations that a "2" operation (such as ds_read2) accesses.

    Its two offsets count elements of `bits` bits, or groups of 64 elements if `step` is 64. `atomic` is True
    for exchanges."""
    scale = bits // 8 * step
    return [addressed(b, i, bits // 8, i[name] * scale, atomic=atomic) for name in ("offset0", "offset1")]


def read2(bits: int, step: int = 1) -> Execution:
    """Return the semantics of a read of two elements of `bits` bits: vdst = LDS[first], LDS[second].

    `step` is the unit of the two offsets in elements."""

    def semantics(b: Builder, i: Insn) -> None:
        values = [v for p in twice(b, i, bits, step) for v in get(b, p, bits)]
        set_vregs(b, i["vdst"], values)

    return semantics


def write2(bits: int, step: int = 1) -> Execution:
    """Return the semantics of a write of two elements of `bits` bits: LDS[first] = data0; LDS[second] = data1.

    `step` is the unit of the two offsets in elements."""

    def semantics(b: Builder, i: Insn) -> None:
        for p, data in zip(twice(b, i, bits, step), (i["data0"], i["data1"]), strict=True):
            b.store(p.space, bits, p.at, vregs(b, data, bits // 32), p.where)

    return semantics


def update(b: Builder, p: Location, kind: str, bits: int, v: Word, compare: Word | None = None) -> Word:
    """Execute an atomic operation at `p` and return the old value; lanes out of range get 0."""
    old = b.atomic(p.space, kind, bits, p.at, v, compare, p.where)
    return old if p.where is None else p.where.select(old, 0)


def atomic(kind: str, bits: int, *, back: bool) -> Execution:
    """Return the semantics of an atomic: LDS[address] = kind(LDS[address], data0).

    With `back`, vdst = the old value. Two kinds have a second operand: cmpswap compares with data0 and writes
    data1; mskor clears the bits in data0 and sets the bits in data1."""

    def semantics(b: Builder, i: Insn) -> None:
        p = addressed(b, i, bits // 8, offset16(i), atomic=True)
        v, compare = vreg(b, i["data0"], bits), None
        if kind in ("cmpswap", "fcmpswap", "mskor"):
            v, compare = vreg(b, i["data1"], bits), v
        old = update(b, p, kind, bits, v, compare)
        if back:
            set_vregs(b, i["vdst"], words(old))

    return semantics


def exchange2(bits: int, step: int = 1) -> Execution:
    """Return the semantics of an exchange of two elements.

    vdst = LDS[first], LDS[second]; then LDS[first] = data0 and LDS[second] = data1.
    """

    def semantics(b: Builder, i: Insn) -> None:
        values = []
        for p, data in zip(twice(b, i, bits, step, atomic=True), ("data0", "data1"), strict=True):
            values += words(update(b, p, "swap", bits, vreg(b, i[data], bits)))
        set_vregs(b, i["vdst"], values)

    return semantics


def wrap(b: Builder, i: Insn) -> None:
    """Execute ds_wrap_rtn: replace memory m by m - data0 if m >= data0, else by m + data1.

    Lanes execute one after the other; vdst = the old value.
    """
    p = addressed(b, i, 4, offset16(i), atomic=True)
    set_vregs(b, i["vdst"], [update(b, p, "wrap", 32, vreg(b, i["data1"]), vreg(b, i["data0"]))])


def conditional_exchange(dwords: int) -> Execution:
    """Return the semantics of a conditional exchange; vdst = the old value.

    If bit 31 of a dword of data0 is set, the dword with that bit cleared replaces the dword in LDS.
    """

    def semantics(b: Builder, i: Insn) -> None:
        address = vreg(b, i["addr"]) + offset16(i) & -4 * dwords
        old = []
        for k, v in enumerate(vregs(b, i["data0"], dwords)):
            p = place(b, i, address + 4 * k, 4, atomic=True)
            old += get(b, p, 32)
            b.store(p.space, 32, p.at, [v[30:0]], narrowed(v[31], p.where))
        set_vregs(b, i["vdst"], old)

    return semantics


def source2(b: Builder, i: Insn, bits: int) -> tuple[Location, Location]:
    """Return the locations A and B of a "src2" operation.

    A is ADDR[15:0]. B is A plus a signed 15-bit distance in dwords: ADDR[31:17] if bit 15 of the offset is set,
    else bits 14:0 of the offset. Both wrap at 64 KiB and are aligned to the size of the data."""
    address, offset, mask = vreg(b, i["addr"]), offset16(i), 0xFFFF & -(bits // 8)
    first = address & mask
    distance = address.sra(17) << 2 if offset & 0x8000 else ((offset & 0x7FFF ^ 0x4000) - 0x4000) * 4
    second = first + distance & mask
    return place(b, i, first, bits // 8, atomic=True), place(b, i, second, bits // 8, atomic=True)


def atomic_source2(kind: str, bits: int) -> Execution:
    """Return the semantics of LDS[A] = kind(LDS[A], LDS[B]); LDS[B] is read in all lanes before any lane writes."""

    def semantics(b: Builder, i: Insn) -> None:
        to, source = source2(b, i, bits)
        update(b, to, kind, bits, whole(get(b, source, bits)))

    return semantics


def write_source2(bits: int) -> Execution:
    """Return the semantics of LDS[A] = LDS[B]; LDS[B] is read in all lanes before any lane writes."""

    def semantics(b: Builder, i: Insn) -> None:
        to, source = source2(b, i, bits)
        b.store(to.space, bits, to.at, get(b, source, bits), to.where)

    return semantics


def by_lane(b: Builder, i: Insn) -> Location:
    """Return the location M0[15:0] + offset + 4 * lane, which ds_read_addtid and ds_write_addtid access."""
    return Location("gds" if i.get("gds") else "lds", lds_slots(b, offset16(i)), None)


def read_by_lane(b: Builder, i: Insn) -> None:
    """Execute a read by lane number: vdst = LDS[M0[15:0] + offset + 4 * lane]."""
    p = by_lane(b, i)
    set_vregs(b, i["vdst"], b.load(p.space, 32, p.at))


def write_by_lane(b: Builder, i: Insn) -> None:
    """Execute a write by lane number: LDS[M0[15:0] + offset + 4 * lane] = data0."""
    p = by_lane(b, i)
    b.store(p.space, 32, p.at, [vreg(b, i["data0"])])
