"""Semantics of DS operations that move data between lanes, count lanes, or order waves.

They access no memory except GDS counters.
"""

from __future__ import annotations

from typing import Final

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn
from softcard.isa.gcn.semantics.access import set_vregs, vreg
from softcard.isa.gcn.semantics.ds_data import offset16
from softcard.isa.gcn.state import EXEC, M0
from softcard.isa.gcn.target import GFX9
from softcard.isa.gcn.word import Word


def from_lane(b: Builder, n: int, lane: Word) -> Word:
    """Return vector register `n` of the lane whose number `lane` holds; 0 if that lane is not in EXEC."""
    return (b.s64(EXEC) >> lane.zext(64)).trunc(1).select(b.v_at(n, lane), 0)


def fft_lane(me: Word, mask: int) -> Word:
    """Return the source lane of the swizzle mode FFT (GFX9) for lane number `me`, within each half of the wave.

    It is (lane & mask) | (reversed >> n), where lane is the low 5 bits of `me`, reversed is lane with its bits
    reversed, and n is the number of ones in `mask`."""
    low = me[4:0]
    return low.bitreverse() >> 27 >> mask.bit_count() | low & mask | me & 32


def rotated_lane(me: Word, offset: int) -> Word:
    """Return the source lane of the swizzle mode "rotate" (GFX9).

    It is the lane number plus offset[9:5] (minus, if bit 10 is set), modulo 32, but with the lane number's
    original bits where offset[4:0] has ones."""
    mask, by = offset & 31, (offset >> 5 & 31) * (-1 if offset & 0x400 else 1)
    return me + by & (31 & ~mask) | me & (mask | 32)


def swizzle_lane(b: Builder, i: Insn) -> Word:
    """Return the source lane of each lane, according to the swizzle mode in the offset."""
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
    """Execute ds_swizzle_b32: vdst = the value of register addr in the lane that the offset's pattern selects."""
    set_vregs(b, i["vdst"], [from_lane(b, i["addr"], swizzle_lane(b, i))])


def named_lane(b: Builder, i: Insn) -> Word:
    """Return the lane number that each lane's byte address encodes: (addr + offset) / 4 modulo 64."""
    return (vreg(b, i["addr"]) + offset16(i))[7:2]


def permute(b: Builder, i: Insn) -> None:
    """Execute ds_permute_b32: each lane writes its data0 to vdst of the lane that its addr selects."""
    b.push(i["vdst"], vreg(b, i["data0"]), named_lane(b, i))


def bpermute(b: Builder, i: Insn) -> None:
    """Execute ds_bpermute_b32: each lane reads data0 of the lane that its addr selects."""
    set_vregs(b, i["vdst"], [from_lane(b, i["data0"], named_lane(b, i))])


def count(kind: str) -> Execution:
    """Return the semantics of ds_append or ds_consume; vdst = the counter's old value.

    ds_append adds the number of active lanes to the counter in memory, and ds_consume subtracts it."""

    def semantics(b: Builder, i: Insn) -> None:
        lanes = b.s64(EXEC).ctpop().trunc(32)
        base, space = (b.s(M0)[31:16], "gds") if i.get("gds") else (b.s(M0)[15:0], "lds")
        at = base + offset16(i) & -4
        set_vregs(b, i["vdst"], [b.scalar_atomic(space, kind, 32, at, lanes)])

    return semantics


ORDERED: Final = {0: "add", 1: "swap"}
"""The operations of ds_ordered_count by offset1[5:4].

The value 3, wrap, is missing, since the manuals do not describe its second operand.
"""


def ordered_count(b: Builder, i: Insn) -> None:
    """Execute ds_ordered_count: add a number to a GDS counter, or exchange it; vdst = the counter's old value.

    The counter is at M0[31:16] + offset0, and offset1 selects the operation. The number is addr of the first
    active lane, or 0 without active lanes. Waves execute the instruction in the order in which they arrive
    (Choice ``gcn/ordered-count``)."""
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
    """Execute ds_nop: do nothing."""
    b.hint("nop")


def transposed(bits: int) -> Execution:
    """Return the semantics of a transposing read from LDS of a matrix with elements of `bits` bits.

    16 lanes together read a matrix with rows of 16 elements. Each lane's address refers to a part of a row, and
    each lane receives one column (Choice ``gcn/lds-transpose``)."""
    # The elements at each address.
    part = 64 // bits if bits != 6 else 16
    power = part.bit_length() - 1

    def semantics(b: Builder, i: Insn) -> None:
        me = b.lane_id()
        column = me & 15
        first, bit = (me & 48) + (column >> power), (column & part - 1) * bits

        def element(row: int) -> Word:
            at = b.v_at(i["addr"], first + row * (16 // part)) + offset16(i) + (bit >> 3)
            if bits >= 8:
                return b.load("lds", bits, at)[0]
            (low,) = b.load("lds", 8, at)
            if bits == 6:  # the last element ends with the last byte
                (high,) = b.load("lds", 8, at + (bit < 88).zext(32))
                low |= high << 8
            return low >> (bit & 7) & (1 << bits) - 1

        elements = [element(row) for row in range(part)]
        values = []
        for start in range(0, part * bits, 32):
            word = b.const(32, 0)
            for row, each in enumerate(elements):
                shift = row * bits - start
                if -bits < shift < 32:
                    word |= each << shift if shift >= 0 else each >> -shift
            values.append(word)
        set_vregs(b, i["vdst"], values)

    return semantics


def gws(b: Builder, i: Insn) -> None:
    """Raise `BeyondModel`: a driver assigns GWS semaphores and barriers to dispatches, which is not modelled."""
    raise BeyondModel(f"{i.name}: global wave sync is not modelled, since a driver assigns its resources to dispatches")
