"""DS operations that move data between lanes, count them, or order waves; no memory but GDS counters."""

from __future__ import annotations

from typing import Any, Final

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.insn import Insn, Meaning
from understudy.isa.gcn.semantics.access import Value, set_vregs, vreg
from understudy.isa.gcn.semantics.ds_data import offset16
from understudy.isa.gcn.state import EXEC, M0
from understudy.isa.gcn.target import GFX9


def from_lane(o: Any, n: int, lane: Value) -> Value:
    """Register n of the lane that each lane names; 0 where that lane is not in EXEC."""
    bit = o.lshr(64, o.s64(EXEC), o.zext(64, 32, lane))
    return o.select(32, o.trunc(1, 64, bit), o.v_at(n, lane), o.const(32, 0))


def fft_lane(o: Any, mask: int) -> Value:
    """Swizzle mode FFT of GFX9: the 5 lane bits reversed, down by the ones of the mask, or'ed with lane & mask."""
    me = o.lane_id()
    low = o.and_(32, me, o.const(32, 31))
    turned = o.lshr(32, o.lshr(32, o.bitreverse(32, low), o.const(32, 27)), o.const(32, mask.bit_count()))
    return o.or_(32, o.or_(32, turned, o.and_(32, low, o.const(32, mask))), o.and_(32, me, o.const(32, 32)))


def rotated_lane(o: Any, offset: int) -> Value:
    """Swizzle mode rotate of GFX9: lanes move by offset[9:5] (bit 10: downwards) but keep the bits of offset[4:0]."""
    me, mask = o.lane_id(), offset & 31
    by = (offset >> 5 & 31) * (-1 if offset & 0x400 else 1)
    moved = o.and_(32, o.add(32, me, o.const(32, by)), o.const(32, 31 & ~mask))
    return o.or_(32, moved, o.and_(32, me, o.const(32, mask | 32)))


def swizzle_lane(o: Any, i: Insn) -> Value:
    """The source lane of each lane, by the mode in the offset."""
    offset, me = offset16(i), o.lane_id()
    if i.target.level == GFX9 and offset >= 0xE000:
        return fft_lane(o, offset & 31)
    if i.target.level == GFX9 and offset >= 0xC000:
        return rotated_lane(o, offset)
    if offset & 0x8000:
        place = o.shl(32, o.and_(32, me, o.const(32, 3)), o.const(32, 1))
        chosen = o.and_(32, o.lshr(32, o.const(32, offset & 0xFF), place), o.const(32, 3))
        return o.or_(32, o.and_(32, me, o.const(32, 0x3C)), chosen)
    low = o.or_(32, o.and_(32, me, o.const(32, offset & 31)), o.const(32, offset >> 5 & 31))
    return o.or_(32, o.and_(32, me, o.const(32, 32)), o.xor(32, low, o.const(32, offset >> 10 & 31)))


def swizzle(o: Any, i: Insn) -> None:
    """vdst = addr of the lane that the offset's pattern names."""
    set_vregs(o, i["vdst"], [from_lane(o, i["addr"], swizzle_lane(o, i))])


def named_lane(o: Any, i: Insn) -> Value:
    """(addr + offset) / 4 modulo 64."""
    address = o.add(32, vreg(o, i["addr"]), o.const(32, offset16(i)))
    return o.and_(32, o.lshr(32, address, o.const(32, 2)), o.const(32, 63))


def permute(o: Any, i: Insn) -> None:
    """Push data0 to the lane that addr names."""
    o.push(i["vdst"], vreg(o, i["data0"]), named_lane(o, i))


def bpermute(o: Any, i: Insn) -> None:
    """Pull data0 from the lane that addr names."""
    set_vregs(o, i["vdst"], [from_lane(o, i["data0"], named_lane(o, i))])


def count(kind: str) -> Meaning:
    """ds_append, ds_consume: a counter grows or shrinks by the active lanes; vdst = what it held before."""

    def meaning(o: Any, i: Insn) -> None:
        lanes = o.trunc(32, 64, o.ctpop(64, o.s64(EXEC)))
        if i.get("gds"):
            base, space = o.lshr(32, o.s(M0), o.const(32, 16)), "gds"
        else:
            base, space = o.and_(32, o.s(M0), o.const(32, 0xFFFF)), "lds"
        at = o.and_(32, o.add(32, base, o.const(32, offset16(i))), o.const(32, -4))
        set_vregs(o, i["vdst"], [o.scalar_atomic(space, kind, 32, at, lanes)])

    return meaning


ORDERED: Final = {0: "add", 1: "swap"}
"""Operations of ds_ordered_count by offset1[5:4]; 3 is wrap, whose second operand no manual names."""


def ordered_count(o: Any, i: Insn) -> None:
    """The GDS counter at M0[31:16] + offset0 takes the first active lane's addr (0 if none); vdst = what it held.

    Waves take their turn in the order in which they come here (Choice ``gcn/ordered-count``).
    """
    code = i["offset1"] >> 4 & 3
    kind = ORDERED.get(code)
    if kind is None:
        raise BeyondModel(f"{i.name}: operation {code} of offset1[5:4] is not modelled: 0 is add, 1 exchange")
    lanes = o.s64(EXEC)
    first = o.trunc(32, 64, o.cttz(64, o.or_(64, lanes, o.const(64, 1 << 63))))
    value = o.select(32, o.ne(64, lanes, o.const(64, 0)), o.lane(i["addr"], first), o.const(32, 0))
    at = o.add(32, o.lshr(32, o.s(M0), o.const(32, 16)), o.const(32, i["offset0"]))
    set_vregs(o, i["vdst"], [o.scalar_atomic("gds", kind, 32, o.and_(32, at, o.const(32, -4)), value)])


def nop(o: Any, i: Insn) -> None:
    """Nothing."""
    o.hint("nop")


def gws(o: Any, i: Insn) -> None:
    """Global wave sync: semaphores and barriers that the driver hands out to whole dispatches."""
    raise BeyondModel(f"{i.name}: global wave sync resources are handed out by a driver to dispatches; not modelled")
