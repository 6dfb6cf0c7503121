"""A copy engine's queue: packets from a ring of the program, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.core.errors import BeyondModel, RuleError, UnderstudyError
from understudy.device.hsa.atomics import Word
from understudy.device.kfd.address_space import AddressSpace
from understudy.device.kfd.clocks import nanoseconds
from understudy.device.kfd.sdma_packets import (
    Atomic,
    AtomicPacket,
    ConstFill,
    CopyLinear,
    CopyLinearRect,
    Fence,
    Function,
    Nop,
    Opcode,
    PollRegmem,
    SubOpcode,
    Timestamp,
    Trap,
)

DWORDS: Final = 2
"""fill_size of dwords."""
_COMPARES: Final[dict[int, Callable[[int, int], bool]]] = {
    Function.ALWAYS: lambda value, wanted: True,
    Function.LESS: int.__lt__,
    Function.LESS_EQUAL: int.__le__,
    Function.EQUAL: int.__eq__,
    Function.NOT_EQUAL: int.__ne__,
    Function.GREATER_EQUAL: int.__ge__,
    Function.GREATER: int.__gt__,
}


class SdmaQueue:
    """One queue. `limit` is where its packets end, in bytes since its begin; `error` is what it has stopped for."""

    def __init__(
        self,
        number: int,
        space: AddressSpace,
        ring: int,
        size: int,
        read_pointer: int,
        *,
        is_legacy: bool,
        interrupt: Callable[[int], None],
    ) -> None:
        self.number = number
        self.size = size
        self.position = 0
        self.limit = 0
        self.error: UnderstudyError | None = None
        self._space = space
        self._ring = ring
        self._read_pointer = read_pointer
        self._is_legacy = is_legacy
        self._interrupt = interrupt
        self._handlers: dict[int, Callable[[bytes], int]] = {
            Opcode.NOP: self._nop,
            Opcode.COPY: self._copy,
            Opcode.FENCE: self._fence,
            Opcode.TRAP: self._trap,
            Opcode.POLL_REGMEM: self._poll,
            Opcode.ATOMIC: self._atomic,
            Opcode.CONST_FILL: self._fill,
            Opcode.TIMESTAMP: self._timestamp,
        }

    def ring(self, value: int) -> None:
        """Its doorbell was stored to: GFX9 has the bytes since the begin, GFX8 the place in the ring."""
        if self._is_legacy:
            self.limit = self.position + (value - self.position) % self.size
        else:
            self.limit = min(value, self.position + self.size) if value > self.position else self.limit

    @property
    def has_work(self) -> bool:
        """Whether there are packets, done or not."""
        return self.error is None and self.position < self.limit

    def work(self) -> int:
        """Carry out packets until one has to wait; how many were."""
        done = 0
        while self.has_work:
            try:
                size = self._one()
            except UnderstudyError as error:
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
        """Carry out the next packet; its bytes, 0 where it has to wait."""
        header = self._bytes(4)
        handler = self._handlers.get(header[0])
        if handler is None:
            raise BeyondModel(f"SDMA packet {header[::-1].hex()}: opcode {header[0]} is not modelled")
        return handler(header)

    def _bytes(self, size: int) -> bytes:
        """The next bytes of the ring, which goes on at its begin."""
        if size > self.limit - self.position:
            raise RuleError(
                f"an SDMA packet of {size} bytes, but the doorbell makes {self.limit - self.position} known"
            )
        start = self.position % self.size
        first = min(size, self.size - start)
        data = self._space.load(self._ring + start, first)
        return data if first == size else data + self._space.load(self._ring, size - first)

    def _count(self, field: int) -> int:
        """Bytes that a count stands for."""
        return field if self._is_legacy else field + 1

    # ---- the packets ---------------------------------------------------------------------------------------------

    def _nop(self, header: bytes) -> int:
        size = 4 + 4 * Nop.parse(header).count
        self._bytes(size)
        return size

    def _copy(self, header: bytes) -> int:
        if header[1] == SubOpcode.LINEAR_RECT:
            return self._copy_rect(CopyLinearRect.parse(self._bytes(CopyLinearRect.size_bytes)))
        if header[1] != SubOpcode.LINEAR:
            raise BeyondModel(f"SDMA copy of kind {header[1]}: only linear and rectangular ones are modelled")
        packet = CopyLinear.parse(self._bytes(CopyLinear.size_bytes))
        self._space.copy(packet.destination, packet.source, self._count(packet.count))
        return packet.size_bytes

    def _copy_rect(self, packet: CopyLinearRect) -> int:
        shift, extra = packet.element, 1
        row = packet.width + extra << shift
        for z in range(packet.depth + extra):
            for y in range(packet.height + extra):
                source = packet.source_x + (packet.source_y + y) * (packet.source_pitch + extra)
                source += (packet.source_z + z) * (packet.source_slice_pitch + extra)
                to = packet.destination_x + (packet.destination_y + y) * (packet.destination_pitch + extra)
                to += (packet.destination_z + z) * (packet.destination_slice_pitch + extra)
                self._space.copy(packet.destination + (to << shift), packet.source + (source << shift), row)
        return packet.size_bytes

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
        compare = _COMPARES.get(packet.function)
        if compare is None:
            raise RuleError(f"SDMA poll with function {packet.function}, expected 0 to {max(_COMPARES)}")
        value = int.from_bytes(self._space.load(packet.address, 4), "little")
        return packet.size_bytes if compare(value & packet.mask, packet.value) else 0

    def _atomic(self, header: bytes) -> int:
        packet = AtomicPacket.parse(self._bytes(AtomicPacket.size_bytes))
        if packet.operation != Atomic.ADD_64:
            raise BeyondModel(f"SDMA atomic {packet.operation}: only {Atomic.ADD_64:d} (add, 64 bits) is modelled")
        Word(self._space.memory, packet.address).rmw("add", packet.data)
        return packet.size_bytes

    def _fill(self, header: bytes) -> int:
        packet = ConstFill.parse(self._bytes(ConstFill.size_bytes))
        if packet.fill_size != DWORDS:
            raise BeyondModel(f"SDMA fill of size {packet.fill_size}: only {DWORDS} (dwords) is modelled")
        self._space.fill(packet.address, packet.data, self._count(packet.count))
        return packet.size_bytes

    def _timestamp(self, header: bytes) -> int:
        if header[1] != SubOpcode.TIMESTAMP_GET_GLOBAL:
            raise BeyondModel(
                f"SDMA timestamp of kind {header[1]}: only {SubOpcode.TIMESTAMP_GET_GLOBAL:d} is modelled"
            )
        packet = Timestamp.parse(self._bytes(Timestamp.size_bytes))
        self._space.store(packet.address, memoryview(bytearray(nanoseconds().to_bytes(8, "little"))))
        return packet.size_bytes
