"""Packets of the copy engines (SDMA), as AMD's open run-time library and kernel driver write them.

Counts are those of SDMA 4 (GFX9): one less than the bytes; SDMA 3 (GFX8) has the bytes themselves.
"""

from __future__ import annotations

from enum import IntEnum

from understudy.core.record import Record, bits, u32, u64


class Opcode(IntEnum):
    """The low byte of a packet."""

    NOP = 0
    COPY = 1
    FENCE = 5
    TRAP = 6
    POLL_REGMEM = 8
    ATOMIC = 10
    CONST_FILL = 11
    TIMESTAMP = 13


class SubOpcode(IntEnum):
    """Of copies (linear, rectangular) and timestamps (global)."""

    LINEAR = 0
    LINEAR_RECT = 4
    TIMESTAMP_GET_GLOBAL = 2


class Atomic(IntEnum):
    """atomic_op: as TC_OP of the memory pipeline; that which run-time libraries use."""

    ADD_64 = 47


class Function(IntEnum):
    """What POLL_REGMEM compares for."""

    ALWAYS = 0
    LESS = 1
    LESS_EQUAL = 2
    EQUAL = 3
    NOT_EQUAL = 4
    GREATER_EQUAL = 5
    GREATER = 6


class Nop(Record, size=4):
    """Nothing, and `count` dwords more that mean nothing."""

    opcode: int = bits(7, 0, default=Opcode.NOP)
    sub_opcode: int = bits(15, 8, default=0)
    count: int = bits(29, 16, default=0)
    reserved_30: int = bits(31, 30, default=0)


class CopyLinear(Record, size=28):
    """Bytes from `source` to `destination`."""

    opcode: int = bits(7, 0, default=Opcode.COPY)
    sub_opcode: int = bits(15, 8, default=SubOpcode.LINEAR)
    header_rest: int = bits(31, 16, default=0)
    count: int = bits(21, 0)
    count_rest: int = bits(31, 22, default=0)
    parameters: int = u32(default=0)
    source: int = u64()
    destination: int = u64()


class CopyLinearRect(Record, size=52):
    """A box of elements of ``1 << element`` bytes; pitches and sides are one less than they are."""

    opcode: int = bits(7, 0, default=Opcode.COPY)
    sub_opcode: int = bits(15, 8, default=SubOpcode.LINEAR_RECT)
    header_rest: int = bits(28, 16, default=0)
    element: int = bits(31, 29)
    source: int = u64()
    source_x: int = bits(13, 0, default=0)
    source_1: int = bits(15, 14, default=0)
    source_y: int = bits(29, 16, default=0)
    source_2: int = bits(31, 30, default=0)
    source_z: int = bits(10, 0, default=0)
    source_3: int = bits(12, 11, default=0)
    source_pitch: int = bits(31, 13)
    source_slice_pitch: int = bits(27, 0)
    source_4: int = bits(31, 28, default=0)
    destination: int = u64()
    destination_x: int = bits(13, 0, default=0)
    destination_1: int = bits(15, 14, default=0)
    destination_y: int = bits(29, 16, default=0)
    destination_2: int = bits(31, 30, default=0)
    destination_z: int = bits(10, 0, default=0)
    destination_3: int = bits(12, 11, default=0)
    destination_pitch: int = bits(31, 13)
    destination_slice_pitch: int = bits(27, 0)
    destination_4: int = bits(31, 28, default=0)
    width: int = bits(13, 0)
    width_rest: int = bits(15, 14, default=0)
    height: int = bits(29, 16)
    height_rest: int = bits(31, 30, default=0)
    depth: int = bits(10, 0)
    depth_rest: int = bits(31, 11, default=0)


class Fence(Record, size=16):
    """Store a dword when all before is done."""

    opcode: int = bits(7, 0, default=Opcode.FENCE)
    header_rest: int = bits(31, 8, default=0)
    address: int = u64()
    data: int = u32()


class Trap(Record, size=8):
    """Send an interrupt."""

    opcode: int = bits(7, 0, default=Opcode.TRAP)
    header_rest: int = bits(31, 8, default=0)
    context: int = bits(27, 0)
    context_rest: int = bits(31, 28, default=0)


class PollRegmem(Record, size=24):
    """Wait until a dword, of memory or of a register, compares."""

    opcode: int = bits(7, 0, default=Opcode.POLL_REGMEM)
    sub_opcode: int = bits(15, 8, default=0)
    header_rest: int = bits(25, 16, default=0)
    hdp_flush: int = bits(26, 26, default=0)
    header_rest_2: int = bits(27, 27, default=0)
    function: int = bits(30, 28)
    is_memory: int = bits(31, 31)
    address: int = u64()
    value: int = u32()
    mask: int = u32()
    retry: int = u32(default=0)


class AtomicPacket(Record, size=32):
    """A read-modify-write."""

    opcode: int = bits(7, 0, default=Opcode.ATOMIC)
    header_rest: int = bits(24, 8, default=0)
    operation: int = bits(31, 25)
    address: int = u64()
    data: int = u64()
    compare: int = u64(default=0)
    loop: int = u32(default=0)


class ConstFill(Record, size=20):
    """A value, again and again; `fill_size` 2: of a dword."""

    opcode: int = bits(7, 0, default=Opcode.CONST_FILL)
    header_rest: int = bits(29, 8, default=0)
    fill_size: int = bits(31, 30)
    address: int = u64()
    data: int = u32()
    count: int = bits(21, 0)
    count_rest: int = bits(31, 22, default=0)


class Timestamp(Record, size=12):
    """Store the global clock."""

    opcode: int = bits(7, 0, default=Opcode.TIMESTAMP)
    sub_opcode: int = bits(15, 8, default=SubOpcode.TIMESTAMP_GET_GLOBAL)
    header_rest: int = bits(31, 16, default=0)
    address: int = u64()
