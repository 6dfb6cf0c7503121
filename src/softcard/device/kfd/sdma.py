"""Copy engines (SDMA): the packets of their queues, and the execution of packets from a ring of the program."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from softcard.core.errors import BeyondModel, RuleError, SoftcardError
from softcard.core.record import Record, bits, u32, u64
from softcard.device.hsa.memory.atomics import Word
from softcard.device.hsa.pm4 import COMPARES
from softcard.device.kfd.address_space import AddressSpace
from softcard.device.kfd.host_races import CopyEngineOrder
from softcard.device.kfd.ioctls import boot_nanoseconds

# ---- packets ---------------------------------------------------------------------------------------------------------
# Packets of the copy engines (SDMA), as AMD's open run-time library and kernel driver write them.
#
# Counts are those of SDMA 4 (GFX9): one less than the bytes; SDMA 3 (GFX8) has the bytes themselves. They have 22
# bits, and 30 bits from SDMA 4.4 (gfx90a) on.


class Opcode(IntEnum):
    """The kinds of SDMA packets, as encoded in the low byte of a packet."""

    NOP = 0
    COPY = 1
    WRITE = 2
    FENCE = 5
    TRAP = 6
    POLL_REGMEM = 8
    ATOMIC = 10
    CONST_FILL = 11
    TIMESTAMP = 13


class SubOpcode(IntEnum):
    """The subopcodes of copies (linear, rectangular) and timestamps (global)."""

    LINEAR = 0
    LINEAR_RECT = 4
    TIMESTAMP_GET_GLOBAL = 2


class Atomic(IntEnum):
    """The field atomic_op of an SDMA packet, encoded as TC_OP of the memory pipeline.

    Only the operation that run-time libraries use is defined."""

    ADD_64 = 47


class Nop(Record, size=4):
    """An SDMA packet that does nothing; the next `count` dwords are skipped as well."""

    opcode: int = bits(7, 0, default=Opcode.NOP)
    sub_opcode: int = bits(15, 8, default=0)
    count: int = bits(29, 16, default=0)
    reserved_30: int = bits(31, 30, default=0)


class Write(Record, size=16):
    """The first four dwords of an SDMA packet that stores dwords; the dwords to store follow."""

    opcode: int = bits(7, 0, default=Opcode.WRITE)
    sub_opcode: int = bits(15, 8, default=SubOpcode.LINEAR)
    header_rest: int = bits(31, 16, default=0)
    address: int = u64()
    count: int = bits(19, 0)
    count_rest: int = bits(31, 20, default=0)


class CopyLinear(Record, size=28):
    """An SDMA packet that copies bytes from `source` to `destination`."""

    opcode: int = bits(7, 0, default=Opcode.COPY)
    sub_opcode: int = bits(15, 8, default=SubOpcode.LINEAR)
    header_rest: int = bits(31, 16, default=0)
    count: int = bits(29, 0)
    count_rest: int = bits(31, 30, default=0)
    parameters: int = u32(default=0)
    source: int = u64()
    destination: int = u64()


class CopyLinearRect(Record, size=52):
    """An SDMA packet that copies a box of elements of ``1 << element`` bytes.

    Pitches and the lengths of the box's sides are encoded minus 1."""

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
    """An SDMA packet that stores a dword when all previous packets are done."""

    opcode: int = bits(7, 0, default=Opcode.FENCE)
    header_rest: int = bits(31, 8, default=0)
    address: int = u64()
    data: int = u32()


class Trap(Record, size=8):
    """An SDMA packet that sends an interrupt."""

    opcode: int = bits(7, 0, default=Opcode.TRAP)
    header_rest: int = bits(31, 8, default=0)
    context: int = bits(27, 0)
    context_rest: int = bits(31, 28, default=0)


class PollRegmem(Record, size=24):
    """An SDMA packet that waits until a comparison of a dword, in memory or in a register, is true."""

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
    """An SDMA packet that performs a read-modify-write in memory."""

    opcode: int = bits(7, 0, default=Opcode.ATOMIC)
    header_rest: int = bits(24, 8, default=0)
    operation: int = bits(31, 25)
    address: int = u64()
    data: int = u64()
    compare: int = u64(default=0)
    loop: int = u32(default=0)


class ConstFill(Record, size=20):
    """An SDMA packet that fills memory with a repeated value; with `fill_size` 2 the value is a dword."""

    opcode: int = bits(7, 0, default=Opcode.CONST_FILL)
    header_rest: int = bits(29, 8, default=0)
    fill_size: int = bits(31, 30)
    address: int = u64()
    data: int = u32()
    count: int = bits(29, 0)
    count_rest: int = bits(31, 30, default=0)


class Timestamp(Record, size=12):
    """An SDMA packet that stores the time of the global clock in memory."""

    opcode: int = bits(7, 0, default=Opcode.TIMESTAMP)
    sub_opcode: int = bits(15, 8, default=SubOpcode.TIMESTAMP_GET_GLOBAL)
    header_rest: int = bits(31, 16, default=0)
    address: int = u64()


# ---- execution -------------------------------------------------------------------------------------------------------


COUNT_BITS: Final = 22
"""The number of bits of a packet's count before SDMA 4.4."""
DWORDS: Final = 2
"""The value of a packet's field fill_size for a fill with dwords."""


class SdmaQueue:
    """One queue of a copy engine.

    `position` is the start of the next packet, and `limit` is the end of the submitted packets. Both are in bytes
    since the queue was created. `error` is the error that stopped the queue."""

    def __init__(
        self,
        number: int,
        space: AddressSpace,
        ring: int,
        size: int,
        read_pointer: int,
        *,
        is_legacy: bool,
        has_wide_counts: bool = False,
        interrupt: Callable[[int], None],
        order: CopyEngineOrder | None = None,
    ) -> None:
        self.number = number
        self.size = size
        self.position = 0
        self.limit = 0
        self.error: SoftcardError | None = None
        self.is_active = True
        self._space = space
        self._ring = ring
        self._read_pointer = read_pointer
        self._is_legacy = is_legacy
        self._has_wide_counts = has_wide_counts
        self._interrupt = interrupt
        self._order = order
        self._handlers: dict[int, Callable[[bytes], int]] = {
            Opcode.NOP: self._nop,
            Opcode.COPY: self._copy,
            Opcode.WRITE: self._write,
            Opcode.FENCE: self._fence,
            Opcode.TRAP: self._trap,
            Opcode.POLL_REGMEM: self._poll,
            Opcode.ATOMIC: self._atomic,
            Opcode.CONST_FILL: self._fill,
            Opcode.TIMESTAMP: self._timestamp,
        }

    def ring(self, value: int) -> None:
        """Handle a store of `value` to the queue's doorbell, which announces the end of the packets submitted so far.

        On GFX9 the value is in bytes since the queue was created, on GFX8 it is an offset in the ring."""
        self.limit = self.end_of(value)

    def end_of(self, value: int) -> int:
        """Return the end of the packets that the doorbell value `value` announces.

        It is in bytes since the queue was created, as `position` and `limit` are."""
        if self._is_legacy:
            return self.position + (value - self.position) % self.size
        return min(value, self.position + self.size) if value > self.position else self.limit

    @property
    def has_work(self) -> bool:
        """True if submitted packets remain, whether they can run or have to wait."""
        return self.error is None and self.is_active and self.position < self.limit

    def work(self) -> int:
        """Execute packets until one has to wait; return the number of packets executed."""
        done = 0
        while self.has_work:
            try:
                size = self._one()
            except SoftcardError as error:
                self.error = error.at("SDMA packet at byte", f"{self.position:#x}").at("queue", self.number)
                raise
            if not size:
                break
            self.position += size
            shown = self.position % self.size if self._is_legacy else self.position
            self._space.store(self._read_pointer, memoryview(bytearray(shown.to_bytes(8, "little"))))
            done += 1
        return done

    def _one(self) -> int:
        """Execute the next packet; return its size in bytes, or 0 if the packet has to wait."""
        header = self._bytes(4)
        handler = self._handlers.get(header[0])
        if handler is None:
            raise BeyondModel(f"SDMA packet {header[::-1].hex()}: opcode {header[0]} is not modelled")
        return handler(header)

    def _bytes(self, size: int) -> bytes:
        """Return the next `size` bytes of the ring, which wraps around."""
        if size > self.limit - self.position:
            raise RuleError(
                f"the SDMA packet has {size} bytes, but the doorbell announces only {self.limit - self.position}"
            )
        start = self.position % self.size
        first = min(size, self.size - start)
        data = self._space.load(self._ring + start, first)
        return data if first == size else data + self._space.load(self._ring, size - first)

    def _count(self, field: int) -> int:
        """Return the number of bytes that the value `field` of a packet's count field means.

        SDMA 4 (GFX9) stores the number minus 1; the engine of GFX8 stores the number itself. Raise `RuleError` for a
        value with more than 22 bits on an engine before SDMA 4.4.
        """
        if field >> COUNT_BITS and not self._has_wide_counts:
            raise RuleError(f"the count of the SDMA packet is {field:#x}, expected at most {COUNT_BITS} bits")
        return field if self._is_legacy else field + 1

    # ---- packets by opcode -----------------------------------------------------------------------------------

    def _nop(self, header: bytes) -> int:
        size = 4 + 4 * Nop.parse(header).count
        self._bytes(size)
        return size

    def _copy(self, header: bytes) -> int:
        if header[1] == SubOpcode.LINEAR_RECT:
            return self._copy_rect(CopyLinearRect.parse(self._bytes(CopyLinearRect.size_bytes)))
        if header[1] != SubOpcode.LINEAR:
            raise BeyondModel(f"SDMA copy of kind {header[1]} is not modelled, only linear and rectangular copies are")
        packet = CopyLinear.parse(self._bytes(CopyLinear.size_bytes))
        self._move(packet.destination, packet.source, self._count(packet.count))
        return packet.size_bytes

    def _write(self, header: bytes) -> int:
        if header[1] != SubOpcode.LINEAR:
            raise BeyondModel(f"SDMA write of kind {header[1]} is not modelled, only linear writes are")
        packet = Write.parse(self._bytes(Write.size_bytes))
        size = packet.size_bytes + 4 * self._count(packet.count)
        data = self._bytes(size)[packet.size_bytes :]
        self._space.store(packet.address, memoryview(bytearray(data)))
        if self._order is not None and data:
            self._order.stored(packet.address, len(data))
        return size

    def _copy_rect(self, packet: CopyLinearRect) -> int:
        shift, extra = packet.element, 1
        row = packet.width + extra << shift
        for z in range(packet.depth + extra):
            for y in range(packet.height + extra):
                source = packet.source_x + (packet.source_y + y) * (packet.source_pitch + extra)
                source += (packet.source_z + z) * (packet.source_slice_pitch + extra)
                to = packet.destination_x + (packet.destination_y + y) * (packet.destination_pitch + extra)
                to += (packet.destination_z + z) * (packet.destination_slice_pitch + extra)
                self._move(packet.destination + (to << shift), packet.source + (source << shift), row)
        return packet.size_bytes

    def _move(self, to: int, source: int, size: int) -> None:
        """Copy `size` bytes from address `source` to address `to`, and report the copy to the check for races."""
        self._space.copy(to, source, size)
        if self._order is not None:
            self._order.copied(self.number, self.position, to, source, size)

    def _fence(self, header: bytes) -> int:
        packet = Fence.parse(self._bytes(Fence.size_bytes))
        self._space.store(packet.address, memoryview(bytearray(packet.data.to_bytes(4, "little"))))
        return packet.size_bytes

    def _trap(self, header: bytes) -> int:
        packet = Trap.parse(self._bytes(Trap.size_bytes))
        self._interrupt(packet.context & 0xFF)
        return packet.size_bytes

    def _poll(self, header: bytes) -> int:
        packet = PollRegmem.parse(self._bytes(PollRegmem.size_bytes))
        if not packet.is_memory:
            return packet.size_bytes  # a flush of caches that are not modelled
        compare = COMPARES.get(packet.function)
        if compare is None:
            raise RuleError(f"the SDMA poll has function {packet.function}, expected 0 to {max(COMPARES)}")
        value = int.from_bytes(self._space.load(packet.address, 4), "little")
        return packet.size_bytes if compare(value & packet.mask, packet.value) else 0

    def _atomic(self, header: bytes) -> int:
        packet = AtomicPacket.parse(self._bytes(AtomicPacket.size_bytes))
        if packet.operation != Atomic.ADD_64:
            raise BeyondModel(
                f"SDMA atomic {packet.operation} is not modelled, only {Atomic.ADD_64:d} (add, 64 bits) is"
            )
        Word(self._space.memory, packet.address).rmw("add", packet.data)
        return packet.size_bytes

    def _fill(self, header: bytes) -> int:
        packet = ConstFill.parse(self._bytes(ConstFill.size_bytes))
        if packet.fill_size != DWORDS:
            raise BeyondModel(f"SDMA fill of size {packet.fill_size} is not modelled, only {DWORDS} (dwords) is")
        self._space.fill(packet.address, packet.data, self._count(packet.count))
        if self._order is not None:
            self._order.stored(packet.address, self._count(packet.count))
        return packet.size_bytes

    def _timestamp(self, header: bytes) -> int:
        if header[1] != SubOpcode.TIMESTAMP_GET_GLOBAL:
            raise BeyondModel(
                f"SDMA timestamp of kind {header[1]} is not modelled, only {SubOpcode.TIMESTAMP_GET_GLOBAL:d} is"
            )
        packet = Timestamp.parse(self._bytes(Timestamp.size_bytes))
        self._space.store(packet.address, memoryview(bytearray(boot_nanoseconds().to_bytes(8, "little"))))
        return packet.size_bytes
