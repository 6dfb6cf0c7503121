"""Layout of AQL packets, 64 bytes each. Nothing runs here.

The document only refers to the HSA Platform System Architecture Specification for them; vendor packets are those of
AMD's runtime.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from understudy.core.record import Record, bits, i64, reserved, reserved_bits, u8, u16, u32, u64, words
from understudy.device.hsa.launch.packet import KernelDispatchPacket

PACKET_BYTES: Final = 64
TYPE_MASK: Final = 0xFF
"""Bits of a header that hold the packet type."""
BARRIER_BIT: Final = 8
ACQUIRE_SHIFT: Final = 9
RELEASE_SHIFT: Final = 11
SIGNAL_AT: Final = 56
"""Offset of completion_signal, the same in every packet."""
PM4_TYPE_3: Final = 0xC0
PM4_NOP: Final = 0x10
"""Bytes 3 (at least) and 1 of a slot that holds commands."""
DEPENDENCIES: Final = 5
"""Signals that a barrier packet can name."""


class PacketType(IntEnum):
    """Bits 7:0 of a header."""

    VENDOR_SPECIFIC = 0
    INVALID = 1
    KERNEL_DISPATCH = 2
    BARRIER_AND = 3
    AGENT_DISPATCH = 4
    BARRIER_OR = 5


class FenceScope(IntEnum):
    """Acquire and release fence scopes of a header; 3 is none."""

    NONE = 0
    AGENT = 1
    SYSTEM = 2


class AmdFormat(IntEnum):
    """AmdFormat of a vendor packet."""

    PM4_IB = 1
    BARRIER_VALUE = 2
    AIE_ERT = 3


class PacketHeader(Record, size=2):
    """The first two bytes of every packet."""

    type: int = bits(7, 0, of=16)
    barrier: int = bits(8, 8, of=16, default=0)
    acquire_scope: int = bits(10, 9, of=16, default=0)
    release_scope: int = bits(12, 11, of=16, default=0)
    reserved_0: int = reserved_bits(15, 13, of=16)


class AgentDispatchPacket(Record, size=64):
    """hsa_agent_dispatch_packet_t: `type` is what the application agreed on, the result goes to `return_address`."""

    packet_type: int = bits(7, 0, of=16, default=PacketType.AGENT_DISPATCH)
    barrier: int = bits(8, 8, of=16, default=0)
    acquire_scope: int = bits(10, 9, of=16, default=0)
    release_scope: int = bits(12, 11, of=16, default=0)
    reserved_header: int = reserved_bits(15, 13, of=16)
    type: int = u16(default=0)
    reserved_04: bytes = reserved(4)
    return_address: int = u64(default=0)
    arg: tuple[int, ...] = words(64, 4, default=(0, 0, 0, 0))
    reserved_30: bytes = reserved(8)
    completion_signal: int = u64(default=0)


class BarrierPacket(Record, size=64):
    """hsa_barrier_and_packet_t and hsa_barrier_or_packet_t, told apart by the type."""

    packet_type: int = bits(7, 0, of=16, default=PacketType.BARRIER_AND)
    barrier: int = bits(8, 8, of=16, default=0)
    acquire_scope: int = bits(10, 9, of=16, default=0)
    release_scope: int = bits(12, 11, of=16, default=0)
    reserved_header: int = reserved_bits(15, 13, of=16)
    reserved_02: bytes = reserved(6)
    dep_signal: tuple[int, ...] = words(64, DEPENDENCIES, default=(0, 0, 0, 0, 0))
    reserved_30: bytes = reserved(8)
    completion_signal: int = u64(default=0)


class BarrierValuePacket(Record, size=64):
    """hsa_amd_barrier_value_packet_t: waits until ``(signal & mask) condition value`` holds."""

    packet_type: int = bits(7, 0, of=16, default=PacketType.VENDOR_SPECIFIC)
    barrier: int = bits(8, 8, of=16, default=0)
    acquire_scope: int = bits(10, 9, of=16, default=0)
    release_scope: int = bits(12, 11, of=16, default=0)
    reserved_header: int = reserved_bits(15, 13, of=16)
    amd_format: int = u8(default=AmdFormat.BARRIER_VALUE)
    reserved_03: bytes = reserved(5)
    signal: int = u64(default=0)
    value: int = i64(default=0)
    mask: int = i64(default=-1)
    condition: int = u32(default=0)
    reserved_24: bytes = reserved(20)
    completion_signal: int = u64(default=0)


def signals_waited_for(data: bytes) -> list[int] | None:
    """Signals that a packet waits for by itself, without zeros; None of one that does not say what it waits for."""
    if data[0] in (PacketType.BARRIER_AND, PacketType.BARRIER_OR):
        return [handle for handle in BarrierPacket.parse(data).dep_signal if handle]
    if data[0] == PacketType.VENDOR_SPECIFIC and data[2] == AmdFormat.BARRIER_VALUE:
        return [BarrierValuePacket.parse(data).signal]
    return None


class Pm4IbPacket(Record, size=64):
    """amd_aql_pm4_ib: the processor's own commands, which only the runtime sends."""

    packet_type: int = bits(7, 0, of=16, default=PacketType.VENDOR_SPECIFIC)
    barrier: int = bits(8, 8, of=16, default=0)
    acquire_scope: int = bits(10, 9, of=16, default=0)
    release_scope: int = bits(12, 11, of=16, default=0)
    reserved_header: int = reserved_bits(15, 13, of=16)
    ven_hdr: int = u16(default=AmdFormat.PM4_IB)
    ib_jump_cmd: tuple[int, ...] = words(32, 4, default=(0, 0, 0, 0))
    dw_cnt_remain: int = u32(default=0xA)
    reserved_18: bytes = reserved(32)
    completion_signal: int = u64(default=0)


Packet = KernelDispatchPacket | AgentDispatchPacket | BarrierPacket | BarrierValuePacket | Pm4IbPacket


def header(
    type: PacketType,
    barrier: bool = False,
    acquire: FenceScope = FenceScope.SYSTEM,
    release: FenceScope = FenceScope.SYSTEM,
) -> int:
    """The 16 bits that hand a packet to the packet processor."""
    return type | barrier << BARRIER_BIT | acquire << ACQUIRE_SHIFT | release << RELEASE_SHIFT


def is_pm4(data: bytes) -> bool:
    """Whether a slot holds commands, as on hardware before GFX9.

    They begin with a NOP, whose header has bits set that are reserved in packets; the lowest byte of GFX7's is 2.
    """
    return data[3] >= PM4_TYPE_3 and data[1] == PM4_NOP and data[0] in (0, 2)


def packet_class(data: bytes) -> type[Packet] | None:
    """The layout of a packet's bytes; None for INVALID and for what has none."""
    if is_pm4(data):
        return None
    match data[0]:
        case PacketType.KERNEL_DISPATCH:
            return KernelDispatchPacket
        case PacketType.BARRIER_AND | PacketType.BARRIER_OR:
            return BarrierPacket
        case PacketType.AGENT_DISPATCH:
            return AgentDispatchPacket
        case PacketType.VENDOR_SPECIFIC if data[2] == AmdFormat.BARRIER_VALUE:
            return BarrierValuePacket
        case PacketType.VENDOR_SPECIFIC if data[2] == AmdFormat.PM4_IB:
            return Pm4IbPacket
    return None


def packet_record(data: bytes) -> Packet | None:
    """The record of a packet's bytes; None for INVALID and for what has no layout."""
    layout = packet_class(data)
    return None if layout is None else layout.parse(data)


_RESERVED: Final = {
    layout: layout.reserved_mask()
    for layout in (KernelDispatchPacket, AgentDispatchPacket, BarrierPacket, BarrierValuePacket, Pm4IbPacket)
}


def reserved_names(data: bytes) -> tuple[str, ...]:
    """The reserved fields of a packet that are not zero."""
    layout = packet_class(data)
    if layout is None or not int.from_bytes(data, "little") & _RESERVED[layout]:
        return ()
    return tuple(slot.name for slot in layout.parse(data).reserved_set())
