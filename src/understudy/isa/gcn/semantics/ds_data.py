"""DS: the local and the global data share.

A byte address is ADDR + offset (32 bits, wrapping). GFX7 and GFX8 round it down to the size of the access and clamp it
with M0: what does not end below M0 reads 0 and stores nothing. GFX9 takes any address (atomics are rounded down) and
does not look at M0. With the gds flag the access goes to the global data share: M0[31:16] is added to the address, and
what does not end below M0[15:0] before that is out of range.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Execution, Insn
from understudy.isa.gcn.semantics.access import (
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
from understudy.isa.gcn.state import M0
from understudy.isa.gcn.target import GFX9
from understudy.isa.gcn.word import Word


@dataclass(frozen=True, slots=True)
class Location:
    """Where an access goes: space, per-lane addresses, and the lanes in range (None: the engine alone decides)."""

    space: str
    at: Word
    where: Word | None


def offset16(i: Insn) -> int:
    """The two offset fields as one."""
    return i["offset0"] | i["offset1"] << 8


def place(b: Builder, i: Insn, at: Word, size: int, *, atomic: bool = False) -> Location:
    """The place of an access of `size` bytes at a 32-bit address."""
    unaligned = i.target.level == GFX9 and not i.get("gds") and not atomic
    if not unaligned and size > 1:
        at &= -(1 << (size - 1).bit_length())
    # at + size <= limit, without overflow: at < max(limit, size - 1) - (size - 1).
    if i.get("gds"):
        return Location("gds", at + b.s(M0)[31:16], at < b.s(M0)[15:0].umax(size - 1) - (size - 1))
    return Location("lds", at, None if i.target.level == GFX9 else at < b.s(M0).umax(size - 1) - (size - 1))


def addressed(b: Builder, i: Insn, size: int, offset: int, *, atomic: bool = False) -> Location:
    """The place at ADDR + offset."""
    v = vreg(b, i["addr"])
    return place(b, i, v + offset if offset else v, size, atomic=atomic)


def get(b: Builder, p: Location, bits: int) -> list[Word]:
    """Load; lanes out of range give 0."""
    return b.load(p.space, bits, p.at, p.where)


def read(how: Transfer) -> Execution:
    """vdst = LDS[address]."""

    def meaning(b: Builder, i: Insn) -> None:
        values = get(b, addressed(b, i, how.size, offset16(i)), how.bits)
        set_vregs(b, i["vdst"], loaded(b, how, values, i["vdst"]))

    return meaning


def write(how: Transfer) -> Execution:
    """LDS[address] = data0."""

    def meaning(b: Builder, i: Insn) -> None:
        p = addressed(b, i, how.size, offset16(i))
        b.store(p.space, how.bits, p.at, stored(b, how, i["data0"]), p.where)

    return meaning


def twice(b: Builder, i: Insn, bits: int, step: int, *, atomic: bool = False) -> list[Location]:
    """The two places of a "2" operation; offsets count elements, or 64 of them."""
    scale = bits // 8 * step
    return [addressed(b, i, bits // 8, i[name] * scale, atomic=atomic) for name in ("offset0", "offset1")]


def read2(bits: int, step: int = 1) -> Execution:
    """vdst = LDS[first], LDS[second]."""

    def meaning(b: Builder, i: Insn) -> None:
        values = [v for p in twice(b, i, bits, step) for v in get(b, p, bits)]
        set_vregs(b, i["vdst"], values)

    return meaning


def write2(bits: int, step: int = 1) -> Execution:
    """LDS[first] = data0; LDS[second] = data1."""

    def meaning(b: Builder, i: Insn) -> None:
        for p, data in zip(twice(b, i, bits, step), (i["data0"], i["data1"]), strict=True):
            b.store(p.space, bits, p.at, vregs(b, data, bits // 32), p.where)

    return meaning


def update(b: Builder, p: Location, kind: str, bits: int, v: Word, compare: Word | None = None) -> Word:
    """An atomic; lanes out of range give 0."""
    old = b.atomic(p.space, kind, bits, p.at, v, compare, p.where)
    return old if p.where is None else p.where.select(old, 0)


def atomic(kind: str, bits: int, *, back: bool) -> Execution:
    """LDS[address] = kind(LDS[address], data0); `back`: vdst = what it held.

    Kinds with two operands: cmpswap compares with data0 and writes data1, mskor clears data0 and sets data1.
    """

    def meaning(b: Builder, i: Insn) -> None:
        p = addressed(b, i, bits // 8, offset16(i), atomic=True)
        v, compare = vreg(b, i["data0"], bits), None
        if kind in ("cmpswap", "fcmpswap", "mskor"):
            v, compare = vreg(b, i["data1"], bits), v
        old = update(b, p, kind, bits, v, compare)
        if back:
            set_vregs(b, i["vdst"], words(old))

    return meaning


def exchange2(bits: int, step: int = 1) -> Execution:
    """vdst = LDS[first], LDS[second], which become data0, data1."""

    def meaning(b: Builder, i: Insn) -> None:
        values = []
        for p, data in zip(twice(b, i, bits, step, atomic=True), ("data0", "data1"), strict=True):
            values += words(update(b, p, "swap", bits, vreg(b, i[data], bits)))
        set_vregs(b, i["vdst"], values)

    return meaning


def wrap(b: Builder, i: Insn) -> None:
    """m >= data0: m - data0, else m + data1; lane after lane; vdst = what it held."""
    p = addressed(b, i, 4, offset16(i), atomic=True)
    set_vregs(b, i["vdst"], [update(b, p, "wrap", 32, vreg(b, i["data1"]), vreg(b, i["data0"]))])


def conditional_exchange(dwords: int) -> Execution:
    """Each dword of data0 whose bit 31 is set replaces, without that bit, the dword in LDS; vdst = what it held."""

    def meaning(b: Builder, i: Insn) -> None:
        address = vreg(b, i["addr"]) + offset16(i) & -4 * dwords
        old = []
        for k, v in enumerate(vregs(b, i["data0"], dwords)):
            p = place(b, i, address + 4 * k, 4, atomic=True)
            old += get(b, p, 32)
            b.store(p.space, 32, p.at, [v[30:0]], narrowed(v[31], p.where))
        set_vregs(b, i["vdst"], old)

    return meaning


def source2(b: Builder, i: Insn, bits: int) -> tuple[Location, Location]:
    """Places A and B of a "src2" operation: B is A plus a signed 15-bit distance in dwords, from ADDR or the offset."""
    address, offset, mask = vreg(b, i["addr"]), offset16(i), 0xFFFF & -(bits // 8)
    first = address & mask
    distance = address.sra(17) << 2 if offset & 0x8000 else ((offset & 0x7FFF ^ 0x4000) - 0x4000) * 4
    second = first + distance & mask
    return place(b, i, first, bits // 8, atomic=True), place(b, i, second, bits // 8, atomic=True)


def atomic_source2(kind: str, bits: int) -> Execution:
    """LDS[A] = kind(LDS[A], LDS[B]); all B are read first."""

    def meaning(b: Builder, i: Insn) -> None:
        to, source = source2(b, i, bits)
        update(b, to, kind, bits, whole(get(b, source, bits)))

    return meaning


def write_source2(bits: int) -> Execution:
    """LDS[A] = LDS[B]; all B are read first."""

    def meaning(b: Builder, i: Insn) -> None:
        to, source = source2(b, i, bits)
        b.store(to.space, bits, to.at, get(b, source, bits), to.where)

    return meaning


def by_lane(b: Builder, i: Insn) -> Location:
    """M0[15:0] + offset + 4 * lane."""
    return Location("gds" if i.get("gds") else "lds", lds_slots(b, offset16(i)), None)


def read_by_lane(b: Builder, i: Insn) -> None:
    """vdst = LDS[M0[15:0] + offset + 4 * lane]."""
    p = by_lane(b, i)
    set_vregs(b, i["vdst"], b.load(p.space, 32, p.at))


def write_by_lane(b: Builder, i: Insn) -> None:
    """LDS[M0[15:0] + offset + 4 * lane] = data0."""
    p = by_lane(b, i)
    b.store(p.space, 32, p.at, [vreg(b, i["data0"])])
