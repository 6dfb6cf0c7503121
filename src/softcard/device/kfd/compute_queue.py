"""Compute queues of PM4 commands (queue type 0 of the driver): the commands, and their execution from a ring.

The commands and their fields are those of GFX9 in the kernel driver's header files. A queue executes one command after
the other: the kernel of a DISPATCH_DIRECT has ended before the next command begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final

import numpy as np

from softcard.core.errors import BeyondModel, RuleError, SoftcardError
from softcard.core.limits import Stopped, Watch
from softcard.core.record import Record, bits, u32, u64
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.launch.registers import ComputeRegisters, DispatchDirect
from softcard.device.hsa.pm4 import MOST_COUNT, Command, command_name, header
from softcard.device.kfd.address_space import AddressSpace
from softcard.device.kfd.ioctls import boot_nanoseconds
from softcard.device.kfd.sdma import COMPARES

DWORD: Final = 4
DIES_AT: Final = 24
"""The bit of PRED_EXEC at which the mask of accelerator dies begins."""
CS_PARTIAL_FLUSH: Final = 7
"""The event of EVENT_WRITE that waits for the kernels before it."""
CONTEXT_BITS: Final = 32
"""The number of valid bits of the event number in an interrupt of RELEASE_MEM."""


class ReleaseMem(Record, size=28):
    """The body of the PM4 command RELEASE_MEM: a store after all earlier kernels, and an interrupt."""

    event_type: int = bits(5, 0)
    event_rest: int = bits(11, 6, default=0)
    cache_actions: int = bits(23, 12, default=0)
    event_rest_24: int = bits(31, 24, default=0)
    selection_rest: int = bits(15, 0, default=0)
    destination: int = bits(17, 16, default=0)
    selection_rest_18: int = bits(23, 18, default=0)
    interrupt: int = bits(26, 24)
    selection_rest_27: int = bits(28, 27, default=0)
    data_kind: int = bits(31, 29)
    address: int = u64()
    data: int = u64()
    context: int = u32()


class DataKind(IntEnum):
    """The data that RELEASE_MEM stores: none, the low dword of its data, its data, or the time of a clock."""

    NONE = 0
    LOW_32 = 1
    ALL_64 = 2
    GPU_CLOCK = 3
    SYSTEM_CLOCK = 4


class InterruptKind(IntEnum):
    """The interrupt of RELEASE_MEM.

    `ALONE` sends an interrupt without a store, `AFTER_WRITE` after the store. `WRITE_CONFIRMED` sends none.
    """

    NONE = 0
    ALONE = 1
    AFTER_WRITE = 2
    WRITE_CONFIRMED = 3


class WaitRegMem(Record, size=24):
    """The body of the PM4 command WAIT_REG_MEM: a wait until a comparison of a dword is true."""

    function: int = bits(2, 0)
    reserved_3: int = bits(3, 3, default=0)
    space: int = bits(5, 4)
    operation: int = bits(7, 6, default=0)
    engine: int = bits(9, 8, default=0)
    reserved_10: int = bits(31, 10, default=0)
    address: int = u64()
    reference: int = u32()
    mask: int = u32()
    poll_interval: int = u32(default=4)


MEMORY_SPACE: Final = 1
WRITE_WAIT: Final = 1
"""The operation of WAIT_REG_MEM that stores to a register and waits for another: a flush of the host's path."""


class WriteData(Record, size=12):
    """The first three dwords of the body of the PM4 command WRITE_DATA; the dwords to store follow."""

    reserved_0: int = bits(7, 0, default=0)
    destination: int = bits(11, 8)
    reserved_12: int = bits(15, 12, default=0)
    has_one_address: int = bits(16, 16, default=0)
    reserved_17: int = bits(31, 17, default=0)
    address: int = u64()


WRITE_TO_MEMORY: Final = (1, 2, 5)
"""The destinations of WRITE_DATA that are memory: by the register bus, by the L2 cache, directly."""


class IndirectBuffer(Record, size=12):
    """The body of the PM4 command INDIRECT_BUFFER, which executes the commands of a buffer."""

    address: int = u64()
    dwords: int = bits(19, 0)
    is_chain: int = bits(20, 20, default=0)
    reserved_21: int = bits(31, 21, default=0)


class _Buffer:
    """The rest of an indirect buffer: its address, its dwords, and the position of the next command."""

    def __init__(self, address: int, words: Sequence[int]) -> None:
        self.address = address
        self.words = words
        self.position = 0


class ComputeQueue:
    """One PM4 queue of an agent.

    `position` is the start of the next command, and `limit` is the end of the submitted commands. Both are in dwords
    since the queue was created. `error` is the error that stopped the queue. `interrupt` is called with the number of
    an event and its number of valid bits."""

    def __init__(
        self, number: int, device: HsaDevice, space: AddressSpace, ring: int, size: int, read_pointer: int,
        interrupt: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        self.number = number
        self.position = 0
        self.limit = 0
        self.error: SoftcardError | None = None
        self.is_active = True
        self.commands = 0
        """The number of executed commands, which identifies a command in traces."""
        self._device = device
        self._space = space
        self._ring = ring
        self._dwords = size // DWORD
        self._read_pointer = read_pointer
        self._interrupt = interrupt
        self._registers = ComputeRegisters()
        self._buffer: _Buffer | None = None
        self._watch = Watch(device.settings.time_limit_seconds)
        self._handlers: dict[int, Callable[[list[int]], bool]] = {
            Command.NOP: lambda body: True,
            Command.PRED_EXEC: self._predicate,
            Command.DISPATCH_DIRECT: self._dispatch,
            Command.WRITE_DATA: self._write_data,
            Command.WAIT_REG_MEM: self._wait,
            Command.INDIRECT_BUFFER: self._indirect,
            Command.EVENT_WRITE: self._event,
            Command.RELEASE_MEM: self._release,
            Command.ACQUIRE_MEM: self._acquire,
            Command.SET_SH_REG: self._set_registers,
        }

    def ring(self, value: int) -> None:
        """Handle a store of `value` to the queue's doorbell: the end of the commands submitted so far, in dwords."""
        self.limit = self.end_of(value)

    def end_of(self, value: int) -> int:
        """Return the end of the commands that the doorbell value `value` announces."""
        return min(value, self.position + self._dwords) if value > self.position else self.limit

    @property
    def has_work(self) -> bool:
        """True if submitted commands remain, whether they can run or have to wait."""
        is_left = self.position < self.limit or self._buffer is not None
        return self.error is None and self.is_active and is_left

    def stop(self, why: str) -> None:
        """End the running kernel because of `why`; no further command begins."""
        self._watch.stopped = why

    def work(self) -> int:
        """Execute commands until one has to wait; return the number of executed commands."""
        done = 0
        while self.has_work and not self._watch.stopped:
            try:
                if not self._one():
                    break
            except Stopped as stopped:
                self.error = stopped
                break
            except SoftcardError as error:
                self.error = error.at("dword of the ring", f"{self.position:#x}").at("PM4 queue", self.number)
                raise
            self.commands += 1
            done += 1
        return done

    def _one(self) -> bool:
        """Execute the next command of the indirect buffer or of the ring; return False if it has to wait."""
        buffer = self._buffer
        if buffer is None:
            opcode, body = _command(self._words, self.limit - self.position)
            if not self._handlers_of(opcode)(body):
                return False
            self.position += 1 + len(body)
            shown = self.position % self._dwords
            self._space.store(self._read_pointer, memoryview(bytearray(shown.to_bytes(DWORD, "little"))))
            return True
        try:
            rest = len(buffer.words) - buffer.position
            opcode, body = _command(lambda count: buffer.words[buffer.position :][:count], rest)
            if opcode == Command.INDIRECT_BUFFER:
                raise BeyondModel("INDIRECT_BUFFER in an indirect buffer is not modelled, expected it in the ring only")
            if not self._handlers_of(opcode)(body):
                return False
        except SoftcardError as error:
            raise error.at("dword", buffer.position).at("indirect buffer", f"{buffer.address:#x}") from None
        buffer.position += 1 + len(body)
        if buffer.position >= len(buffer.words):
            self._buffer = None
        return True

    def _handlers_of(self, opcode: int) -> Callable[[list[int]], bool]:
        handler = self._handlers.get(opcode)
        if handler is None:
            known = ", ".join(Command(each).name for each in self._handlers)
            raise BeyondModel(f"PM4 command {command_name(opcode)} is not modelled, expected one of {known}")
        return handler

    def _words(self, count: int) -> Sequence[int]:
        """Return `count` dwords of the ring from the next command on; the ring wraps around."""
        start = self.position % self._dwords
        first = min(count, self._dwords - start)
        data = self._space.load(self._ring + DWORD * start, DWORD * first)
        if first < count:
            data += self._space.load(self._ring, DWORD * (count - first))
        found: list[int] = np.frombuffer(data, "<u4").tolist()
        return found

    def _store(self, address: int, data: bytes) -> None:
        self._space.store(address, memoryview(bytearray(data)))

    # ---- commands by opcode --------------------------------------------------------------------------------------

    def _set_registers(self, body: list[int]) -> bool:
        if len(body) < 2:
            raise RuleError(f"SET_SH_REG has {len(body)} dwords after its header, expected 2 or more")
        self._registers.store(body[0] & 0xFFFF, body[1:])
        return True

    def _predicate(self, body: list[int]) -> bool:
        """Execute PRED_EXEC: skip the commands that follow it unless they are for accelerator die 0; return True.

        The modelled command processor is that of die 0. It starts the work-groups of all dies."""
        _check_size(Command.PRED_EXEC, body, 1)
        buffer, (word,) = self._buffer, body
        if buffer is None:
            raise BeyondModel("PRED_EXEC in the ring is not modelled, expected it in an indirect buffer")
        count = word & MOST_COUNT
        if buffer.position + len(body) + 1 + count > len(buffer.words):
            raise RuleError(f"PRED_EXEC is for {count} dwords, but the indirect buffer has fewer")
        if not word >> DIES_AT & 1:
            buffer.position += count
        return True

    def _dispatch(self, body: list[int]) -> bool:
        _check_size(Command.DISPATCH_DIRECT, body, len(DispatchDirect._fields))
        self._device.run_registers(self._registers, DispatchDirect(*body), self.number, self.commands, self._watch)
        return True

    def _event(self, body: list[int]) -> bool:
        """Handle EVENT_WRITE, of which only the wait for kernels is modelled; all have ended before."""
        if body[0] & 0x3F != CS_PARTIAL_FLUSH:
            raise BeyondModel(
                f"EVENT_WRITE of event {body[0] & 0x3F:#x} is not modelled, expected {CS_PARTIAL_FLUSH} "
                "(CS_PARTIAL_FLUSH)"
            )
        return True

    def _acquire(self, body: list[int]) -> bool:
        _check_size(Command.ACQUIRE_MEM, body, 6)
        self._device.flush_caches()
        return True

    def _release(self, body: list[int]) -> bool:
        _check_size(Command.RELEASE_MEM, body, ReleaseMem.size_bytes // DWORD)
        packet = ReleaseMem.parse(_bytes(body))
        if packet.interrupt > max(InterruptKind):
            raise BeyondModel(
                f"RELEASE_MEM has interrupt {packet.interrupt}, expected 0 to {max(InterruptKind):d}: others are not "
                "modelled"
            )
        if packet.cache_actions:
            self._device.flush_caches()
        if packet.data_kind in (DataKind.LOW_32, DataKind.ALL_64):
            self._store(packet.address, packet.data.to_bytes(8, "little")[: DWORD * packet.data_kind])
        elif packet.data_kind in (DataKind.GPU_CLOCK, DataKind.SYSTEM_CLOCK):
            self._store(packet.address, boot_nanoseconds().to_bytes(8, "little"))
        elif packet.data_kind != DataKind.NONE:
            raise BeyondModel(f"RELEASE_MEM stores data of kind {packet.data_kind}, expected 0 to {max(DataKind):d}")
        if packet.interrupt in (InterruptKind.ALONE, InterruptKind.AFTER_WRITE):
            self._interrupt(packet.context, CONTEXT_BITS)
        return True

    def _wait(self, body: list[int]) -> bool:
        _check_size(Command.WAIT_REG_MEM, body, WaitRegMem.size_bytes // DWORD)
        packet = WaitRegMem.parse(_bytes(body))
        if packet.space != MEMORY_SPACE:
            if packet.operation == WRITE_WAIT:
                return True  # a flush of caches that are not modelled
            raise BeyondModel("WAIT_REG_MEM of a register is not modelled, expected memory (space 1)")
        compare = COMPARES.get(packet.function)
        if compare is None:
            raise RuleError(f"WAIT_REG_MEM has function {packet.function}, expected 0 to {max(COMPARES):d}")
        value = int.from_bytes(self._space.load(packet.address & -DWORD, DWORD), "little")
        return compare(value & packet.mask, packet.reference)

    def _write_data(self, body: list[int]) -> bool:
        least = WriteData.size_bytes // DWORD
        if len(body) <= least:
            raise RuleError(f"WRITE_DATA has {len(body)} dwords after its header, expected {least + 1} or more")
        packet = WriteData.parse(_bytes(body[:least]))
        if packet.destination not in WRITE_TO_MEMORY:
            raise BeyondModel(
                f"WRITE_DATA to destination {packet.destination} is not modelled, expected memory (1, 2, 5)"
            )
        if packet.has_one_address:
            for word in body[least:]:
                self._store(packet.address, word.to_bytes(DWORD, "little"))
        else:
            self._store(packet.address, _bytes(body[least:]))
        return True

    def _indirect(self, body: list[int]) -> bool:
        _check_size(Command.INDIRECT_BUFFER, body, IndirectBuffer.size_bytes // DWORD)
        packet = IndirectBuffer.parse(_bytes(body))
        if packet.is_chain:
            raise BeyondModel("a chained INDIRECT_BUFFER is not modelled, expected bit 20 of its last dword to be 0")
        address = packet.address & 0xFFFF_FFFF_FFFC
        words = np.frombuffer(self._space.load(address, DWORD * packet.dwords), "<u4").tolist()
        if words:
            self._buffer = _Buffer(address, words)
        return True


def _command(words: Callable[[int], Sequence[int]], room: int) -> tuple[int, list[int]]:
    """Return the opcode and the body of the next command; `words` returns the next dwords, of which `room` exist."""
    (first,) = words(1)
    found = header(first)
    if found is None:
        raise RuleError(f"{first:#010x} is not the header of a PM4 command, expected type 2 or 3 in bits 31:30")
    opcode, count = found
    if 1 + count > room:
        raise RuleError(
            f"PM4 command {command_name(opcode)} has {1 + count} dwords, but only {room} were submitted: ring the "
            "doorbell with the end of the last command"
        )
    return opcode, list(words(1 + count)[1:])


def _check_size(command: Command, body: Sequence[int], expected: int) -> None:
    if len(body) != expected:
        raise RuleError(f"{command.name} has {len(body)} dwords after its header, expected {expected}")


def _bytes(words: Sequence[int]) -> bytes:
    return np.array(words, "<u4").tobytes()
