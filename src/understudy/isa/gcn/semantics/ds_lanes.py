"""DS operations that move data between lanes, count them, or order waves; no memory but GDS counters."""

from __future__ import annotations

from typing import Final

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Execution, Insn
from understudy.isa.gcn.semantics.access import set_vregs, vreg
from understudy.isa.gcn.semantics.ds_data import offset16
from understudy.isa.gcn.state import EXEC, M0
from understudy.isa.gcn.target import GFX9
from understudy.isa.gcn.word import Word


def from_lane(b: Builder, n: int, lane: Word) -> Word:
    """Register n of the lane that each lane names; 0 where that lane is not in EXEC."""
    return (b.s64(EXEC) >> lane.zext(64)).trunc(1).select(b.v_at(n, lane), 0)


def fft_lane(me: Word, mask: int) -> Word:
    """Swizzle mode FFT of GFX9: the 5 lane bits reversed, down by the ones of the mask, or'ed with lane & mask."""
    low = me[4:0]
    return low.bitreverse() >> 27 >> mask.bit_count() | low & mask | me & 32


def rotated_lane(me: Word, offset: int) -> Word:
    """Swizzle mode rotate of GFX9: lanes move by offset[9:5] (bit 10: downwards) but keep the bits of offset[4:0]."""
    mask, by = offset & 31, (offset >> 5 & 31) * (-1 if offset & 0x400 else 1)
    return me + by & (31 & ~mask) | me & (mask | 32)


def swizzle_lane(b: Builder, i: Insn) -> Word:
    """The source lane of each lane, by the mode in the offset."""
    offset, me = offset16(i), b.lane_id()
    if i.target.level == GFX9 and offset >= 0xE000:
        return fft_lane(me, offset & 31)
    if i.target.level == GFX9 and offset >= 0xC000:
        return rotated_lane(me, offset)
    if offset & 0x8000:
        return me & 0x3C | ((offset & 0xFF) >> (me[1:0] << 1))[1:0]
    low = me & (offset & 31) | offset >> 5 & 31
    return me & 32 | low ^ (offset >> 10 & 31)


def swizzle(b: Builder, i: Insn) -> None:
    """vdst = addr of the lane that the offset's pattern names."""
    set_vregs(b, i["vdst"], [from_lane(b, i["addr"], swizzle_lane(b, i))])


def named_lane(b: Builder, i: Insn) -> Word:
    """(addr + offset) / 4 modulo 64."""
    return (vreg(b, i["addr"]) + offset16(i))[7:2]


def permute(b: Builder, i: Insn) -> None:
    """Push data0 to the lane that addr names."""
    b.push(i["vdst"], vreg(b, i["data0"]), named_lane(b, i))


def bpermute(b: Builder, i: Insn) -> None:
    """Pull data0 from the lane that addr names."""
    set_vregs(b, i["vdst"], [from_lane(b, i["data0"], named_lane(b, i))])


def count(kind: str) -> Execution:
    """ds_append, ds_consume: a counter grows or shrinks by the active lanes; vdst = what it held before."""

    def meaning(b: Builder, i: Insn) -> None:
        lanes = b.s64(EXEC).ctpop().trunc(32)
        base, space = (b.s(M0)[31:16], "gds") if i.get("gds") else (b.s(M0)[15:0], "lds")
        at = base + offset16(i) & -4
        set_vregs(b, i["vdst"], [b.scalar_atomic(space, kind, 32, at, lanes)])

    return meaning


ORDERED: Final = {0: "add", 1: "swap"}
"""Operations of ds_ordered_count by offset1[5:4]; 3 is wrap, whose second operand no manual names."""


def ordered_count(b: Builder, i: Insn) -> None:
    """The GDS counter at M0[31:16] + offset0 takes the first active lane's addr (0 if none); vdst = what it held.

    Waves take their turn in the order in which they come here (Choice ``gcn/ordered-count``).
    """
    code = i["offset1"] >> 4 & 3
    kind = ORDERED.get(code)
    if kind is None:
        raise BeyondModel(f"{i.name}: operation {code} of offset1[5:4] is not modelled: 0 is add, 1 exchange")
    lanes = b.s64(EXEC)
    first = (lanes | 1 << 63).cttz().trunc(32)
    value = (lanes != 0).select(b.lane(i["addr"], first), 0)
    at = b.s(M0)[31:16] + i["offset0"] & -4
    set_vregs(b, i["vdst"], [b.scalar_atomic("gds", kind, 32, at, value)])


def nop(b: Builder, i: Insn) -> None:
    """Nothing."""
    b.hint("nop")


def gws(b: Builder, i: Insn) -> None:
    """Global wave sync: semaphores and barriers that the driver hands out to whole dispatches."""
    raise BeyondModel(f"{i.name}: global wave sync resources are handed out by a driver to dispatches; not modelled")
