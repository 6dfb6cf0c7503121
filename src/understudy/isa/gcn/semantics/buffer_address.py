"""Buffer addresses: the V# (buffer resource), linear and swizzled addressing, and which lanes are out of range.

NUM_RECORDS and how it is checked, by generation (Choice ``gcn/buffer-range``)
    GFX7: in bytes where STRIDE is 0, else in records; GFX8: in bytes where STRIDE is 0 or the buffer is not swizzled,
    else in records; GFX9: in bytes where STRIDE is 0 or the instruction has no index, else in records.
    In bytes: an access whose first byte, with the scalar offset, lies at or above NUM_RECORDS is out of range.
    In records: one whose index is at or above NUM_RECORDS, or, if it has an index, whose offset is at or above STRIDE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.access import Value, align, scalar_operand, sregs, vreg, vregs, whole
from understudy.isa.gcn.target import GFX7, GFX8, GFX9


@dataclass(frozen=True, slots=True)
class Resource:
    """A V#: all scalars. `swizzled` and `add_lane` have width 1, `base` 64, the others 32; `_log`: to base 2."""

    base: Value
    stride: Value
    records: Value
    swizzled: Value
    add_lane: Value
    element_log: Value
    index_log: Value
    word3: Value


def field(o: Any, word: Value, low: int, width: int) -> Value:
    """Bits of a 32-bit word."""
    return o.and_(32, o.lshr(32, word, o.const(32, low)), o.const(32, (1 << width) - 1))


def resource(o: Any, i: Insn) -> Resource:
    """The V# of an instruction."""
    w0, w1, records, w3 = sregs(o, i["srsrc"], 4)
    base = o.and_(64, whole(o, [w0, w1]), o.const(64, 0xFFFF_FFFF_FFFF))
    stride = field(o, w1, 16, 14)
    add_lane = o.trunc(1, 32, field(o, w3, 23, 1))
    if i.target.level >= GFX8:
        # The data format's bits are stride bits 17:14 of buffers that add the lane.
        high = o.shl(32, field(o, w3, 15, 4), o.const(32, 14))
        stride = o.or_(32, stride, o.select(32, add_lane, high, o.const(32, 0)))
    if i.target.level == GFX9:
        element_log = o.const(32, 2)
    else:
        element_log = o.add(32, field(o, w3, 19, 2), o.const(32, 1))
    index_log = o.add(32, field(o, w3, 21, 2), o.const(32, 3))
    swizzled = o.trunc(1, 32, o.lshr(32, w1, o.const(32, 31)))
    return Resource(base, stride, records, swizzled, add_lane, element_log, index_log, w3)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the lanes of a buffer instruction access memory: `at`, 64-bit addresses.

    In range are lanes whose `reach` (bytes from the base) is below `records`, both of 64 bits; but where `raw` is there
    and 0, those of `in_records`. All None for addr64, which checks nothing.
    """

    at: Value
    reach: Value | None = None
    records: Value | None = None
    raw: Value | None = None
    in_records: Value | None = None

    def inside(self, o: Any, skip: int = 0) -> Value | None:
        """The lanes whose byte `skip` behind the address is in range; None for all of them."""
        if self.reach is None:
            return None
        reach = o.add(64, self.reach, o.const(64, skip)) if skip else self.reach
        in_bytes = o.ult(64, reach, self.records)
        return in_bytes if self.raw is None else o.select(1, self.raw, in_bytes, self.in_records)


def swizzle(o: Any, r: Resource, index: Value, offset: Value) -> Value:
    """The offset into a swizzled buffer: elements of 2**index_log neighbours lie side by side."""
    one = o.const(32, 1)
    element, indexes = o.shl(32, one, r.element_log), o.shl(32, one, r.index_log)
    index_low = o.and_(32, index, o.sub(32, indexes, one))
    offset_low = o.and_(32, offset, o.sub(32, element, one))
    row = o.mul(32, o.lshr(32, index, r.index_log), r.stride)
    column = o.sub(32, offset, offset_low)
    block = o.shl(32, o.add(32, row, column), r.index_log)
    return o.add(32, o.add(32, offset_low, o.shl(32, index_low, r.element_log)), block)


def index_and_offset(o: Any, i: Insn, r: Resource) -> tuple[Value, Value]:
    """Per-lane index and offset of an instruction, 32 bits."""
    registers = vregs(o, i["vaddr"], i["idxen"] + i["offen"])
    lane = o.select(32, r.add_lane, o.lane_id(), o.const(32, 0))
    index = o.add(32, registers[0], lane) if i["idxen"] else lane
    offset = o.const(32, i["offset"])
    return index, o.add(32, registers[-1], offset) if i["offen"] else offset


def places(o: Any, i: Insn, r: Resource) -> Places:
    """The addresses of an instruction."""
    scalar = o.zext(64, 32, scalar_operand(o, i["soffset"], i.literal))
    start = o.add(64, r.base, scalar)
    if i.get("addr64"):
        return Places(o.add(64, o.add(64, start, o.const(64, i["offset"])), vreg(o, i["vaddr"], 64)))
    index, offset = index_and_offset(o, i, r)
    linear = o.add(32, o.mul(32, index, r.stride), offset)
    within = o.zext(64, 32, o.select(32, r.swizzled, swizzle(o, r, index, offset), linear))
    reach, records = o.add(64, within, scalar), o.zext(64, 32, r.records)
    at = o.add(64, start, within)
    if i.target.level == GFX9 and not i["idxen"]:
        return Places(at, reach, records)
    unstrided = o.eq(32, r.stride, o.const(32, 0))
    raw = o.or_(1, unstrided, o.not_(1, r.swizzled)) if i.target.level == GFX8 else unstrided
    short = o.ult(32, offset, r.stride)
    if not i["idxen"] and i.target.level == GFX7:
        short = o.or_(1, short, o.not_(1, r.add_lane))
    return Places(at, reach, records, raw, o.and_(1, o.ult(32, index, r.records), short))


def aligned(o: Any, p: Places, size: int) -> Value:
    """The addresses rounded down to the size of an atomic."""
    return align(o, 64, p.at, size)
