"""Semantics of untyped buffer operations: addresses, loads, stores, atomics, and transfers to LDS."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn
from softcard.isa.gcn.semantics.access import (
    Transfer,
    lds_slots,
    loaded,
    narrowed,
    pair,
    scalar_operand,
    set_vregs,
    sregs,
    stored,
    takes_compare,
    to_lds,
    vreg,
    vregs,
    words,
)
from softcard.isa.gcn.target import GFX7, GFX8, GFX9
from softcard.isa.gcn.word import Word

# ---- addresses -------------------------------------------------------------------------------------------------------
# Buffer addresses: the V# (buffer resource), linear and swizzled addressing, and the range check of lanes.
#
# The unit of NUM_RECORDS, and therefore the range check, depend on the generation (Choice ``gcn/buffer-range``).
#
# - GFX7: in bytes if STRIDE is 0, else in records.
# - GFX8: in bytes if STRIDE is 0 or the buffer is not swizzled, else in records.
# - GFX9: in bytes if STRIDE is 0 or the instruction has no index, else in records.
#
# If the unit is bytes, an access is out of range if the offset of its first byte from the base, including the scalar
# offset, is at or above NUM_RECORDS. If the unit is records, an access is out of range if its index is at or above
# NUM_RECORDS, or if it has an index and its offset is at or above STRIDE.


@dataclass(frozen=True, slots=True)
class Resource:
    """A V# descriptor, decoded into scalar words.

    `swizzled` and `add_lane` are 1 bit wide, `base` 64 bits, the others 32 bits; a name with `_log` holds a base-2
    logarithm.
    """

    base: Word
    stride: Word
    records: Word
    swizzled: Word
    add_lane: Word
    element_log: Word
    index_log: Word
    word3: Word


def resource(b: Builder, i: Insn) -> Resource:
    """Return the decoded V# descriptor to which an instruction refers."""
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
    """The 64-bit addresses `at` of a buffer instruction, one per lane, with the values for their range check.

    In a range check in bytes, a lane is in range if `reach`, its distance from the base in bytes, is below
    `records`. In a range check in records, `in_records` is the result. If `raw` is None or 1, the check is in
    bytes, otherwise in records. All four values are None for addr64, which has no range check."""

    at: Word
    reach: Word | None = None
    records: Word | None = None
    raw: Word | None = None
    in_records: Word | None = None

    def inside(self, skip: int = 0) -> Word | None:
        """Return a mask of the lanes whose byte at address + `skip` is in range; None if there is no range check."""
        if self.reach is None or self.records is None:
            return None
        in_bytes = (self.reach + skip if skip else self.reach) < self.records
        return in_bytes if self.raw is None or self.in_records is None else self.raw.select(in_bytes, self.in_records)


def swizzle(r: Resource, index: Word, offset: Word) -> Word:
    """Return the byte offset of (`index`, `offset`) in a swizzled buffer.

    A swizzled buffer interleaves 2**index_log neighbouring records: elements with the same number within their
    records are adjacent."""
    index_low = index & (1 << r.index_log) - 1
    offset_low = offset & (1 << r.element_log) - 1
    block = (index >> r.index_log) * r.stride + (offset - offset_low) << r.index_log
    return offset_low + (index_low << r.element_log) + block


def index_and_offset(b: Builder, i: Insn, r: Resource) -> tuple[Word, Word]:
    """Return the 32-bit record index and byte offset of a buffer instruction, per lane."""
    registers = vregs(b, i["vaddr"], i["idxen"] + i["offen"])
    lane = r.add_lane.select(b.lane_id(), 0)
    index = registers[0] + lane if i["idxen"] else lane
    return index, registers[-1] + i["offset"] if i["offen"] else b.const(32, i["offset"])


def places(b: Builder, i: Insn, r: Resource) -> Places:
    """Return the addresses and range checks of an instruction's lanes."""
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


# ---- loads, stores and atomics ---------------------------------------------------------------------------------------
def fetch(b: Builder, p: Places, bits: int) -> list[Word]:
    """Load `bits` bits per lane as 32-bit words; each dword has its own range check and is 0 if out of range."""
    if p.reach is None:
        return b.load("global", bits, p.at)
    values = []
    for skip in range(0, max(bits // 8, 4), 4):
        values += b.load("global", min(bits, 32), p.at + skip if skip else p.at, p.inside(skip))
    return values


def put(b: Builder, p: Places, bits: int, values: list[Word]) -> None:
    """Store 32-bit values, except for dwords out of range.

    The lanes whose dwords are all in range are stored first, lane by lane. Then the remaining dwords are stored."""
    last = p.inside(4 * (len(values) - 1))
    b.store("global", bits, p.at, values, last)
    if last is None:
        return
    for k, value in enumerate(values[:-1]):
        b.store("global", 32, p.at + 4 * k if k else p.at, [value], narrowed(p.inside(4 * k), ~last))


def give(b: Builder, i: Insn, values: list[Word]) -> None:
    """Write the loaded `values` of each lane to LDS if the lds flag is set, else to the data registers.

    LDS receives one dword, except that gfx950 writes all of a load of three or four. With the tfe flag, the register
    after the last data register is set to 0 ("no texture fail")."""
    if i.get("lds"):
        is_wide = "gfx950" in i.target.has and len(values) > 2
        to_lds(b, i["offset"], values if is_wide else values[:1])
    else:
        set_vregs(b, i["vdata"], [*values, b.const(32, 0)] if i.get("tfe") else values)


def load(how: Transfer) -> Execution:
    """Return the semantics of a buffer load: vdata = buffer[address]."""

    def semantics(b: Builder, i: Insn) -> None:
        values = fetch(b, places(b, i, resource(b, i)), how.bits)
        give(b, i, loaded(b, how, values, i["vdata"]))

    return semantics


def store(how: Transfer) -> Execution:
    """Return the semantics of a buffer store: buffer[address] = vdata."""
    return lambda b, i: put(b, places(b, i, resource(b, i)), how.bits, stored(b, how, i["vdata"]))


def store_lds(b: Builder, i: Insn) -> None:
    """Execute a store from LDS: buffer[address] = LDS[M0[15:0] + offset + 4 * lane]."""
    values = b.load("lds", 32, lds_slots(b, i["offset"]))
    put(b, places(b, i, resource(b, i)), 32, values)


def atomic(kind: str, bits: int) -> Execution:
    """Return the semantics of an atomic: buffer[address] = kind(buffer[address], vdata).

    With glc, vdata = the old value in memory (0 if out of range).
    """

    def semantics(b: Builder, i: Insn) -> None:
        p = places(b, i, resource(b, i))
        where = p.inside()
        v = vreg(b, i["vdata"], bits)
        compare = vreg(b, i["vdata"] + bits // 32, bits) if takes_compare(kind) else None
        old = b.atomic("global", kind, bits, p.at & -bits // 8, v, compare, where)
        if i["glc"]:
            set_vregs(b, i["vdata"], words(old if where is None else where.select(old, 0)))

    return semantics


def order(what: str) -> Execution:
    """Return the semantics of the cache operation `what`."""
    return lambda b, i: b.order(what)
