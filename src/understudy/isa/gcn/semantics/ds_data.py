"""DS: the local and the global data share.

A byte address is ADDR + offset (32 bits, wrapping). GFX7 and GFX8 round it down to the size of the access and clamp it
with M0: what does not end below M0 reads 0 and stores nothing. GFX9 takes any address (atomics are rounded down) and
does not look at M0. With the gds flag the access goes to the global data share: M0[31:16] is added to the address, and
what does not end below M0[15:0] before that is out of range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.isa.gcn.insn import Insn, Meaning
from understudy.isa.gcn.semantics.access import Transfer, Value, loaded, set_vregs, stored, vreg, vregs, whole, words
from understudy.isa.gcn.state import M0
from understudy.isa.gcn.target import GFX9


@dataclass(frozen=True, slots=True)
class Place:
    """Where an access goes: space, per-lane addresses, and the lanes in range (None: the engine alone decides)."""

    space: str
    at: Value
    where: Value | None


def offset16(i: Insn) -> int:
    """The two offset fields as one."""
    return i["offset0"] | i["offset1"] << 8


def place(o: Any, i: Insn, address: Value, size: int, *, atomic: bool = False) -> Place:
    """The place of an access of `size` bytes at a 32-bit address."""
    unaligned = i.target.level == GFX9 and not i.get("gds") and not atomic
    at = address if unaligned or size == 1 else o.and_(32, address, o.const(32, -(1 << (size - 1).bit_length())))
    last = o.const(32, size - 1)
    if i.get("gds"):
        limit = o.and_(32, o.s(M0), o.const(32, 0xFFFF))
        where = o.ult(32, at, o.sub(32, o.umax(32, limit, last), last))
        return Place("gds", o.add(32, at, o.lshr(32, o.s(M0), o.const(32, 16))), where)
    if i.target.level == GFX9:
        return Place("lds", at, None)
    # at + size <= M0, without overflow: at < max(M0, size - 1) - (size - 1).
    return Place("lds", at, o.ult(32, at, o.sub(32, o.umax(32, o.s(M0), last), last)))


def addressed(o: Any, i: Insn, size: int, offset: int, *, atomic: bool = False) -> Place:
    """The place at ADDR + offset."""
    v = vreg(o, i["addr"])
    return place(o, i, o.add(32, v, o.const(32, offset)) if offset else v, size, atomic=atomic)


def get(o: Any, p: Place, bits: int) -> list[Value]:
    """Load; lanes out of range give 0."""
    values: list[Value] = o.load(p.space, bits, p.at, p.where)
    return values if p.where is None else [o.select(32, p.where, v, o.const(32, 0)) for v in values]


def read(how: Transfer) -> Meaning:
    """vdst = LDS[address]."""

    def meaning(o: Any, i: Insn) -> None:
        values = get(o, addressed(o, i, how.size, offset16(i)), how.bits)
        set_vregs(o, i["vdst"], loaded(o, how, values, i["vdst"]))

    return meaning


def write(how: Transfer) -> Meaning:
    """LDS[address] = data0."""

    def meaning(o: Any, i: Insn) -> None:
        p = addressed(o, i, how.size, offset16(i))
        o.store(p.space, how.bits, p.at, stored(o, how, i["data0"]), p.where)

    return meaning


def twice(o: Any, i: Insn, bits: int, step: int, *, atomic: bool = False) -> list[Place]:
    """The two places of a "2" operation; offsets count elements, or 64 of them."""
    scale = bits // 8 * step
    return [addressed(o, i, bits // 8, i[name] * scale, atomic=atomic) for name in ("offset0", "offset1")]


def read2(bits: int, step: int = 1) -> Meaning:
    """vdst = LDS[first], LDS[second]."""

    def meaning(o: Any, i: Insn) -> None:
        values = [v for p in twice(o, i, bits, step) for v in get(o, p, bits)]
        set_vregs(o, i["vdst"], values)

    return meaning


def write2(bits: int, step: int = 1) -> Meaning:
    """LDS[first] = data0; LDS[second] = data1."""

    def meaning(o: Any, i: Insn) -> None:
        for p, data in zip(twice(o, i, bits, step), (i["data0"], i["data1"]), strict=True):
            o.store(p.space, bits, p.at, vregs(o, data, bits // 32), p.where)

    return meaning


def update(o: Any, p: Place, kind: str, bits: int, v: Value, compare: Value | None = None) -> Value:
    """An atomic; lanes out of range give 0."""
    old = o.atomic(p.space, kind, bits, p.at, v, compare, p.where)
    return old if p.where is None else o.select(bits, p.where, old, o.const(bits, 0))


def atomic(kind: str, bits: int, *, back: bool) -> Meaning:
    """LDS[address] = kind(LDS[address], data0); `back`: vdst = what it held.

    Kinds with two operands: cmpswap compares with data0 and writes data1, mskor clears data0 and sets data1.
    """

    def meaning(o: Any, i: Insn) -> None:
        p = addressed(o, i, bits // 8, offset16(i), atomic=True)
        v, compare = vreg(o, i["data0"], bits), None
        if kind in ("cmpswap", "fcmpswap", "mskor"):
            v, compare = vreg(o, i["data1"], bits), v
        old = update(o, p, kind, bits, v, compare)
        if back:
            set_vregs(o, i["vdst"], words(o, old, bits))

    return meaning


def exchange2(bits: int, step: int = 1) -> Meaning:
    """vdst = LDS[first], LDS[second], which become data0, data1."""

    def meaning(o: Any, i: Insn) -> None:
        values = []
        for p, data in zip(twice(o, i, bits, step, atomic=True), ("data0", "data1"), strict=True):
            values += words(o, update(o, p, "swap", bits, vreg(o, i[data], bits)), bits)
        set_vregs(o, i["vdst"], values)

    return meaning


def wrap(o: Any, i: Insn) -> None:
    """m >= data0: m - data0, else m + data1; lane after lane; vdst = what it held."""
    p = addressed(o, i, 4, offset16(i), atomic=True)
    limit, grow = vreg(o, i["data0"]), vreg(o, i["data1"])
    result = o.const(32, 0)
    for lane in range(64):
        mine = o.eq(32, o.lane_id(), o.const(32, lane))
        where = mine if p.where is None else o.and_(1, mine, p.where)
        old = o.load(p.space, 32, p.at, where)[0]
        new = o.select(32, o.ule(32, limit, old), o.sub(32, old, limit), o.add(32, old, grow))
        o.store(p.space, 32, p.at, [new], where)
        result = o.select(32, where, old, result)
    set_vregs(o, i["vdst"], [result])


def conditional_exchange(dwords: int) -> Meaning:
    """Each dword of data0 whose bit 31 is set replaces, without that bit, the dword in LDS; vdst = what it held."""

    def meaning(o: Any, i: Insn) -> None:
        address = o.and_(32, o.add(32, vreg(o, i["addr"]), o.const(32, offset16(i))), o.const(32, -4 * dwords))
        old = []
        for k, v in enumerate(vregs(o, i["data0"], dwords)):
            p = place(o, i, o.add(32, address, o.const(32, 4 * k)), 4, atomic=True)
            old += get(o, p, 32)
            wanted = o.trunc(1, 32, o.lshr(32, v, o.const(32, 31)))
            where = wanted if p.where is None else o.and_(1, wanted, p.where)
            o.store(p.space, 32, p.at, [o.and_(32, v, o.const(32, 0x7FFF_FFFF))], where)
        set_vregs(o, i["vdst"], old)

    return meaning


def source2(o: Any, i: Insn, bits: int) -> tuple[Place, Place]:
    """Places A and B of a "src2" operation: B is A plus a signed 15-bit distance in dwords, from ADDR or the offset."""
    address, offset, mask = vreg(o, i["addr"]), offset16(i), 0xFFFF & -(bits // 8)
    first = o.and_(32, address, o.const(32, mask))
    if offset & 0x8000:
        distance = o.shl(32, o.ashr(32, address, o.const(32, 17)), o.const(32, 2))
    else:
        distance = o.const(32, ((offset & 0x7FFF ^ 0x4000) - 0x4000) * 4)
    second = o.and_(32, o.add(32, first, distance), o.const(32, mask))
    return place(o, i, first, bits // 8, atomic=True), place(o, i, second, bits // 8, atomic=True)


def atomic_source2(kind: str, bits: int) -> Meaning:
    """LDS[A] = kind(LDS[A], LDS[B]); all B are read first."""

    def meaning(o: Any, i: Insn) -> None:
        a, b = source2(o, i, bits)
        values = get(o, b, bits)
        update(o, a, kind, bits, whole(o, values))

    return meaning


def write_source2(bits: int) -> Meaning:
    """LDS[A] = LDS[B]; all B are read first."""

    def meaning(o: Any, i: Insn) -> None:
        a, b = source2(o, i, bits)
        o.store(a.space, bits, a.at, get(o, b, bits), a.where)

    return meaning


def by_lane(o: Any, i: Insn) -> Place:
    """M0[15:0] + offset + 4 * lane."""
    base = o.add(32, o.and_(32, o.s(M0), o.const(32, 0xFFFF)), o.const(32, offset16(i)))
    return Place("gds" if i.get("gds") else "lds", o.add(32, base, o.shl(32, o.lane_id(), o.const(32, 2))), None)


def read_by_lane(o: Any, i: Insn) -> None:
    """vdst = LDS[M0[15:0] + offset + 4 * lane]."""
    p = by_lane(o, i)
    set_vregs(o, i["vdst"], o.load(p.space, 32, p.at))


def write_by_lane(o: Any, i: Insn) -> None:
    """LDS[M0[15:0] + offset + 4 * lane] = data0."""
    p = by_lane(o, i)
    o.store(p.space, 32, p.at, [vreg(o, i["data0"])])
