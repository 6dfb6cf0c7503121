"""The layout of AQL packets, 64 bytes each. This module defines only the layout; it executes nothing.

The layout and the header bits are those of the HSA Platform System Architecture Specification, "AQL packet
header" and "Kernel dispatch packet", to which the ROCm Code Object specification refers. Vendor packets are
those of AMD's runtime."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, Self, TypedDict, Unpack

from softcard.core.errors import WireError
from softcard.core.record import Record, bits, i64, reserved, reserved_bits, u8, u16, u32, u64, words


class PacketFields(TypedDict, total=False):
    """The fields of a kernel dispatch packet as keywords, without the sizes of grid and work-groups."""

    type: int
    barrier: int
    acquire_scope: int
    release_scope: int
    reserved_header: int
    reserved_setup: int
    reserved_0a: bytes
    private_segment_size: int
    group_segment_size: int
    kernel_object: int
    kernarg_address: int
    reserved_30: bytes
    completion_signal: int


class SizedPacketFields(PacketFields, total=False):
    """The fields of a kernel dispatch packet as keywords, including the sizes of grid and work-groups."""

    workgroup_size_x: int
    workgroup_size_y: int
    workgroup_size_z: int
    grid_size_x: int
    grid_size_y: int
    grid_size_z: int


class KernelDispatchPacket(Record, size=64):
    """The packet hsa_kernel_dispatch_packet_t.

    Segment sizes are in bytes; that of the private segment is for one work-item.
    """

    type: int = bits(7, 0, of=16, default=2)
    barrier: int = bits(8, 8, of=16, default=0)
    acquire_scope: int = bits(10, 9, of=16, default=0)
    release_scope: int = bits(12, 11, of=16, default=0)
    reserved_header: int = reserved_bits(15, 13, of=16)
    dimensions: int = bits(1, 0, of=16, default=3)
    reserved_setup: int = reserved_bits(15, 2, of=16)
    workgroup_size_x: int = u16(default=1)
    workgroup_size_y: int = u16(default=1)
    workgroup_size_z: int = u16(default=1)
    reserved_0a: bytes = reserved(2)
    grid_size_x: int = u32(default=1)
    grid_size_y: int = u32(default=1)
    grid_size_z: int = u32(default=1)
    private_segment_size: int = u32(default=0)
    group_segment_size: int = u32(default=0)
    kernel_object: int = u64(default=0)
    kernarg_address: int = u64(default=0)
    reserved_30: bytes = reserved(8)
    completion_signal: int = u64(default=0)

    @classmethod
    def over(cls, dimensions: int, grid: Sequence[int], group: Sequence[int], **fields: Unpack[PacketFields]) -> Self:
        """Return a packet for a `grid` of work-items in x, y, z and work-groups of `group` work-items.

        `dimensions` is the number of dimensions, `fields` has the values of further packet fields by name.
        """
        return cls(
            dimensions=dimensions,
            workgroup_size_x=group[0],
            workgroup_size_y=group[1],
            workgroup_size_z=group[2],
            grid_size_x=grid[0],
            grid_size_y=grid[1],
            grid_size_z=grid[2],
            **fields,
        )

    @classmethod
    def of_words(cls, header: int, setup: int, **fields: Unpack[SizedPacketFields]) -> Self:
        """Return a packet from the words `header` and `setup`, as C programs write it, and the other `fields`.

        Raise `WireError` if one of the words has more than 16 bits.
        """
        if not 0 <= header | setup < 1 << 16:
            raise WireError(f"header {header:#x} and setup {setup:#x} must fit 16 bits each")
        words = cls.parse((header | setup << 16).to_bytes(cls.size_bytes, "little"))
        bits = {slot.name: getattr(words, slot.name) for slot in cls.slots if slot.offset < 4}
        return cls(**bits, **fields)

    @property
    def header(self) -> int:
        """The first 16-bit word: type, barrier bit, fence scopes. A store of this word submits the packet."""
        return int.from_bytes(self.pack()[:2], "little")

    @property
    def setup(self) -> int:
        """The second 16-bit word, which has the number of dimensions."""
        return int.from_bytes(self.pack()[2:4], "little")

    @property
    def workgroup(self) -> tuple[int, int, int]:
        """The number of work-items of a full work-group in x, y, z."""
        return self.workgroup_size_x, self.workgroup_size_y, self.workgroup_size_z

    @property
    def grid(self) -> tuple[int, int, int]:
        """The number of work-items of the grid in x, y, z."""
        return self.grid_size_x, self.grid_size_y, self.grid_size_z

    @property
    def groups(self) -> tuple[int, int, int]:
        """The number of work-groups in x, y, z, including partial ones at the edges of the grid."""
        return (
            -(-self.grid_size_x // self.workgroup_size_x),
            -(-self.grid_size_y // self.workgroup_size_y),
            -(-self.grid_size_z // self.workgroup_size_z),
        )


PACKET_BYTES: Final = 64
TYPE_MASK: Final = 0xFF
"""The mask of the bits in a packet's header that hold the packet type."""
BARRIER_BIT: Final = 8
ACQUIRE_SHIFT: Final = 9
RELEASE_SHIFT: Final = 11
SIGNAL_AT: Final = 56
"""The byte offset of completion_signal, which is equal in all packets."""
PM4_TYPE_3: Final = 0xC0
PM4_NOP: Final = 0x10
"""The value of byte 1 of a ring slot with PM4 commands instead of a packet.

Byte 3 of such a slot is at least `PM4_TYPE_3`.
"""
DEPENDENCIES: Final = 5
"""The number of signals in a barrier packet."""


class PacketType(IntEnum):
    """The packet type, in bits 7:0 of an AQL packet's header."""

    VENDOR_SPECIFIC = 0
    INVALID = 1
    KERNEL_DISPATCH = 2
    BARRIER_AND = 3
    AGENT_DISPATCH = 4
    BARRIER_OR = 5


class FenceScope(IntEnum):
    """The scopes of acquire and release fences in a packet's header; the value 3 is undefined."""

    NONE = 0
    AGENT = 1
    SYSTEM = 2


class AmdFormat(IntEnum):
    """The values of the field AmdFormat of a vendor packet."""

    PM4_IB = 1
    BARRIER_VALUE = 2
    AIE_ERT = 3


class PacketHeader(Record, size=2):
    """The header of a packet, which is the first two bytes of every packet."""

    type: int = bits(7, 0, of=16)
    barrier: int = bits(8, 8, of=16, default=0)
    acquire_scope: int = bits(10, 9, of=16, default=0)
    release_scope: int = bits(12, 11, of=16, default=0)
    reserved_0: int = reserved_bits(15, 13, of=16)


class AgentDispatchPacket(Record, size=64):
    """The packet hsa_agent_dispatch_packet_t.

    `type` is defined by the application; the result is stored to `return_address`.
    """

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
    """The packets hsa_barrier_and_packet_t and hsa_barrier_or_packet_t; only their packet types differ."""

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
    """The packet hsa_amd_barrier_value_packet_t: waits until ``(signal & mask) condition value`` holds.

    A packet without a signal waits for nothing. HIP's run-time library sends it on gfx90a for its completion signal.
    """

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
    """Return the nonzero handles of the signals that a barrier packet waits for, from the fields of the packet.

    Return None for packets of other types, in which no field has such handles."""
    if data[0] in (PacketType.BARRIER_AND, PacketType.BARRIER_OR):
        return [handle for handle in BarrierPacket.parse(data).dep_signal if handle]
    if data[0] == PacketType.VENDOR_SPECIFIC and data[2] == AmdFormat.BARRIER_VALUE:
        return [handle for handle in (BarrierValuePacket.parse(data).signal,) if handle]
    return None


class Pm4IbPacket(Record, size=64):
    """The vendor packet amd_aql_pm4_ib, which refers to PM4 commands of the packet processor.

    Only AMD's runtime sends it.
    """

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
    """Return the 16-bit header of a packet; the store of it submits the packet to the packet processor."""
    return type | barrier << BARRIER_BIT | acquire << ACQUIRE_SHIFT | release << RELEASE_SHIFT


def is_pm4(data: bytes) -> bool:
    """Return True if a ring slot contains PM4 commands instead of an AQL packet, as on GFX7 and GFX8.

    The commands begin with a NOP, whose header has bits set that are reserved in packets. On GFX7 the lowest byte
    of that NOP is 2."""
    return data[3] >= PM4_TYPE_3 and data[1] == PM4_NOP and data[0] in (0, 2)


def packet_class(data: bytes) -> type[Packet] | None:
    """Return the record class for a packet's bytes; None for INVALID and for types without a known layout."""
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
    """Return the decoded packet for its bytes; None for INVALID and for types without a known layout."""
    layout = packet_class(data)
    return None if layout is None else layout.parse(data)


_RESERVED: Final = {
    layout: layout.reserved_mask()
    for layout in (KernelDispatchPacket, AgentDispatchPacket, BarrierPacket, BarrierValuePacket, Pm4IbPacket)
}


def reserved_names(data: bytes) -> tuple[str, ...]:
    """Return the names of a packet's reserved fields that are not zero."""
    layout = packet_class(data)
    if layout is None or not int.from_bytes(data, "little") & _RESERVED[layout]:
        return ()
    return tuple(slot.name for slot in layout.parse(data).reserved_set())
