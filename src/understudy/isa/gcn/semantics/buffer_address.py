"""Buffer addresses: the V# (buffer resource), linear and swizzled addressing, and which lanes are out of range.

NUM_RECORDS and how it is checked, by generation (Choice ``gcn/buffer-range``)
    GFX7: in bytes where STRIDE is 0, else in records; GFX8: in bytes where STRIDE is 0 or the buffer is not swizzled,
    else in records; GFX9: in bytes where STRIDE is 0 or the instruction has no index, else in records.
    In bytes: an access whose first byte, with the scalar offset, lies at or above NUM_RECORDS is out of range.
    In records: one whose index is at or above NUM_RECORDS, or, if it has an index, whose offset is at or above STRIDE.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.access import pair, scalar_operand, sregs, vreg, vregs
from understudy.isa.gcn.target import GFX7, GFX8, GFX9
from understudy.isa.gcn.word import Word


@dataclass(frozen=True, slots=True)
class Resource:
    """A V#: all scalars. `swizzled` and `add_lane` have width 1, `base` 64, the others 32; `_log`: to base 2."""

    base: Word
    stride: Word
    records: Word
    swizzled: Word
    add_lane: Word
    element_log: Word
    index_log: Word
    word3: Word


def resource(b: Builder, i: Insn) -> Resource:
    """The V# of an instruction."""
    w0, w1, records, w3 = sregs(b, i["srsrc"], 4)
    base = pair(w0, w1)[47:0]
    stride, add_lane = w1[29:16], w3[23]
    if i.target.level >= GFX8:
        # The data format's bits are stride bits 17:14 of buffers that add the lane.
        stride |= add_lane.select(w3[18:15] << 14, 0)
    element_log = b.const(32, 2) if i.target.level == GFX9 else w3[20:19] + 1
    return Resource(base, stride, records, w1[31], add_lane, element_log, w3[22:21] + 3, w3)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the lanes of a buffer instruction access memory: `at`, 64-bit addresses.

    In range are lanes whose `reach` (bytes from the base) is below `records`, both of 64 bits; but where `raw` is there
    and 0, those of `in_records`. All None for addr64, which checks nothing.
    """

    at: Word
    reach: Word | None = None
    records: Word | None = None
    raw: Word | None = None
    in_records: Word | None = None

    def inside(self, skip: int = 0) -> Word | None:
        """The lanes whose byte `skip` behind the address is in range; None for all of them."""
        if self.reach is None or self.records is None:
            return None
        in_bytes = (self.reach + skip if skip else self.reach) < self.records
        return in_bytes if self.raw is None or self.in_records is None else self.raw.select(in_bytes, self.in_records)


def swizzle(r: Resource, index: Word, offset: Word) -> Word:
    """The offset into a swizzled buffer: elements of 2**index_log neighbours lie side by side."""
    index_low = index & (1 << r.index_log) - 1
    offset_low = offset & (1 << r.element_log) - 1
    block = (index >> r.index_log) * r.stride + (offset - offset_low) << r.index_log
    return offset_low + (index_low << r.element_log) + block


def index_and_offset(b: Builder, i: Insn, r: Resource) -> tuple[Word, Word]:
    """Per-lane index and offset of an instruction, 32 bits."""
    registers = vregs(b, i["vaddr"], i["idxen"] + i["offen"])
    lane = r.add_lane.select(b.lane_id(), 0)
    index = registers[0] + lane if i["idxen"] else lane
    return index, registers[-1] + i["offset"] if i["offen"] else b.const(32, i["offset"])


def places(b: Builder, i: Insn, r: Resource) -> Places:
    """The addresses of an instruction."""
    scalar = scalar_operand(b, i["soffset"], i.literal).zext(64)
    start = r.base + scalar
    if i.get("addr64"):
        return Places(start + i["offset"] + vreg(b, i["vaddr"], 64))
    index, offset = index_and_offset(b, i, r)
    within = r.swizzled.select(swizzle(r, index, offset), index * r.stride + offset).zext(64)
    at, reach, records = start + within, within + scalar, r.records.zext(64)
    if i.target.level == GFX9 and not i["idxen"]:
        return Places(at, reach, records)
    unstrided = r.stride == 0
    raw = unstrided | ~r.swizzled if i.target.level == GFX8 else unstrided
    short = offset < r.stride
    if not i["idxen"] and i.target.level == GFX7:
        short |= ~r.add_lane
    return Places(at, reach, records, raw, (index < r.records) & short)
