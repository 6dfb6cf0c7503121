"""PM4, the native commands of the packet processor: their encoding, and their execution from indirect buffers.

The commands and their fields are those of GFX9 in the kernel driver's header files. The rings of PM4 queues are in
`device.kfd.queues`. A program can also put commands between the packets of an AQL queue: AMD's runtime
invalidates caches with ACQUIRE_MEM before it runs code that it has just written, and tinygrad waits for memory and
stores to it. On GFX9 a vendor packet contains the address of a buffer with commands. On GFX7 and GFX8 the 16 dwords
of a ring slot are commands: NOP, INDIRECT_BUFFER, and a RELEASE_MEM whose event frees the slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import numpy as np

from softcard.core.errors import BeyondModel, RuleError, SoftcardError
from softcard.core.record import Record, bits, u32, u64
from softcard.device.hsa import rules
from softcard.device.hsa.exceptions import PacketRefused, QueueError
from softcard.device.hsa.queues.packets import Pm4IbPacket
from softcard.engine.gcn.memory import GpuMemory

if TYPE_CHECKING:
    from softcard.device.hsa.fences import Fences

TYPE_3: Final = 3
"""The packet type 3, in bits 31:30 of a PM4 header.

Bits 29:16 are the number of following dwords minus 1, bits 15:8 the command.
"""
TYPE_2: Final = 2
"""The packet type 2, in bits 31:30 of a PM4 header: a filler of one dword."""
SLOT_RELEASED: Final = 7 << 8
"""The second dword of a RELEASE_MEM that frees its ring slot.

Its EVENT_INDEX 7 announces the end of an AQL packet.
"""
MOST_COUNT: Final = 0x3FFF
"""The maximum of the count in a header, bits 29:16."""
DWORD: Final = 4


class Command(IntEnum):
    """The PM4 commands, as encoded in bits 15:8 of a type 3 header."""

    NOP = 0x10
    DISPATCH_DIRECT = 0x15
    PRED_EXEC = 0x23
    WRITE_DATA = 0x37
    WAIT_REG_MEM = 0x3C
    INDIRECT_BUFFER = 0x3F
    EVENT_WRITE = 0x46
    RELEASE_MEM = 0x49
    ACQUIRE_MEM = 0x58
    SET_SH_REG = 0x76


class Function(IntEnum):
    """The comparisons that WAIT_REG_MEM, and POLL_REGMEM of copy engines, can wait for."""

    ALWAYS = 0
    LESS = 1
    LESS_EQUAL = 2
    EQUAL = 3
    NOT_EQUAL = 4
    GREATER_EQUAL = 5
    GREATER = 6


COMPARES: Final[dict[int, Callable[[int, int], bool]]] = {
    Function.ALWAYS: lambda value, wanted: True,
    Function.LESS: int.__lt__,
    Function.LESS_EQUAL: int.__le__,
    Function.EQUAL: int.__eq__,
    Function.NOT_EQUAL: int.__ne__,
    Function.GREATER_EQUAL: int.__ge__,
    Function.GREATER: int.__gt__,
}
DIES_AT: Final = 24
"""The bit of PRED_EXEC at which the mask of accelerator dies begins."""
CS_PARTIAL_FLUSH: Final = 7
"""The event of EVENT_WRITE that waits for the kernels before it."""


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


Handler = Callable[[list[int]], bool]
"""A function that executes one command, whose body is its argument; its result is False if the command has to wait."""


class CommandMemory(Protocol):
    """The interface of the memory that commands access."""

    def load(self, source: int, size: int) -> bytes:
        """Return `size` bytes at address `source`."""

    def store(self, to: int, data: memoryview) -> None:
        """Store the bytes `data` at address `to`."""


class GuestMemory:
    """The memory of a device as commands access it."""

    def __init__(self, memory: GpuMemory) -> None:
        self._memory = memory

    def load(self, source: int, size: int) -> bytes:
        """Return `size` bytes at address `source`."""
        return self._memory.read(source, size)

    def store(self, to: int, data: memoryview) -> None:
        """Store the bytes `data` at address `to`."""
        self._memory.write(to, data)


class Buffer:
    """An indirect buffer whose commands are being executed.

    `position` is the number of its dwords that have been executed or skipped."""

    def __init__(self, address: int, words: Sequence[int]) -> None:
        self.address = address
        self.words = words
        self.position = 0


class Commands:
    """The executor of PM4 commands that do not start kernels.

    `flush` executes the cache operations of a command. `interrupt` is called with the number of an event. `clock`
    returns the time that RELEASE_MEM stores. `others` has the functions for further commands of the queue, by
    opcode."""

    def __init__(
        self,
        memory: CommandMemory,
        flush: Callable[[], None],
        interrupt: Callable[[int], None],
        clock: Callable[[], int],
        others: Mapping[int, Handler] | None = None,
    ) -> None:
        self.buffer: Buffer | None = None
        """The indirect buffer whose commands are executed next, or None."""
        self._memory = memory
        self._flush = flush
        self._interrupt = interrupt
        self._clock = clock
        self._handlers: dict[int, Handler] = {
            Command.NOP: lambda body: True,
            Command.PRED_EXEC: self._predicate,
            **(others or {}),
            Command.WRITE_DATA: self._write_data,
            Command.WAIT_REG_MEM: self._wait,
            Command.INDIRECT_BUFFER: self._indirect,
            Command.EVENT_WRITE: self._event,
            Command.RELEASE_MEM: self._release,
            Command.ACQUIRE_MEM: self._acquire,
        }

    def execute(self, opcode: int, body: list[int]) -> bool:
        """Execute one command of the ring; return False if it has to wait."""
        handler = self._handlers.get(opcode)
        if handler is None:
            raise BeyondModel(f"PM4 command {command_name(opcode)} is not modelled, expected {_names(self._handlers)}")
        return handler(body)

    def execute_next(self) -> bool:
        """Execute the next command of the indirect buffer; return False if it has to wait.

        `buffer` is None after the last command."""
        buffer = self.buffer
        assert buffer is not None
        try:
            opcode, body = next_command(
                lambda count: buffer.words[buffer.position :][:count], len(buffer.words) - buffer.position
            )
            if opcode == Command.INDIRECT_BUFFER:
                raise BeyondModel("INDIRECT_BUFFER in an indirect buffer is not modelled, expected it in the ring only")
            if not self.execute(opcode, body):
                return False
        except SoftcardError as error:
            raise error.at("dword", buffer.position).at("indirect buffer", f"{buffer.address:#x}") from None
        buffer.position += 1 + len(body)
        if buffer.position >= len(buffer.words):
            self.buffer = None
        return True

    def _store(self, address: int, data: bytes) -> None:
        self._memory.store(address, memoryview(bytearray(data)))

    # ---- commands by opcode --------------------------------------------------------------------------------------

    def _predicate(self, body: list[int]) -> bool:
        """Execute PRED_EXEC: skip the commands that follow it unless they are for accelerator die 0; return True.

        The modelled command processor is that of die 0. It starts the work-groups of all dies."""
        check_size(Command.PRED_EXEC, body, 1)
        buffer, (word,) = self.buffer, body
        if buffer is None:
            raise BeyondModel("PRED_EXEC in the ring is not modelled, expected it in an indirect buffer")
        count = word & MOST_COUNT
        if buffer.position + len(body) + 1 + count > len(buffer.words):
            raise RuleError(f"PRED_EXEC is for {count} dwords, but the indirect buffer has fewer")
        if not word >> DIES_AT & 1:
            buffer.position += count
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
        check_size(Command.ACQUIRE_MEM, body, 6)
        self._flush()
        return True

    def _release(self, body: list[int]) -> bool:
        check_size(Command.RELEASE_MEM, body, ReleaseMem.size_bytes // DWORD)
        packet = ReleaseMem.parse(_bytes(body))
        if packet.interrupt > max(InterruptKind):
            raise BeyondModel(
                f"RELEASE_MEM has interrupt {packet.interrupt}, expected 0 to {max(InterruptKind):d}: others are not "
                "modelled"
            )
        if packet.cache_actions:
            self._flush()
        if packet.data_kind in (DataKind.LOW_32, DataKind.ALL_64):
            self._store(packet.address, packet.data.to_bytes(8, "little")[: DWORD * packet.data_kind])
        elif packet.data_kind in (DataKind.GPU_CLOCK, DataKind.SYSTEM_CLOCK):
            self._store(packet.address, self._clock().to_bytes(8, "little"))
        elif packet.data_kind != DataKind.NONE:
            raise BeyondModel(f"RELEASE_MEM stores data of kind {packet.data_kind}, expected 0 to {max(DataKind):d}")
        if packet.interrupt in (InterruptKind.ALONE, InterruptKind.AFTER_WRITE):
            self._interrupt(packet.context)
        return True

    def _wait(self, body: list[int]) -> bool:
        check_size(Command.WAIT_REG_MEM, body, WaitRegMem.size_bytes // DWORD)
        packet = WaitRegMem.parse(_bytes(body))
        if packet.space != MEMORY_SPACE:
            if packet.operation == WRITE_WAIT:
                return True  # a flush of caches that are not modelled
            raise BeyondModel("WAIT_REG_MEM of a register is not modelled, expected memory (space 1)")
        compare = COMPARES.get(packet.function)
        if compare is None:
            raise RuleError(f"WAIT_REG_MEM has function {packet.function}, expected 0 to {max(COMPARES):d}")
        value = int.from_bytes(self._memory.load(packet.address & -DWORD, DWORD), "little")
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
        check_size(Command.INDIRECT_BUFFER, body, IndirectBuffer.size_bytes // DWORD)
        packet = IndirectBuffer.parse(_bytes(body))
        if packet.is_chain:
            raise BeyondModel("a chained INDIRECT_BUFFER is not modelled, expected bit 20 of its last dword to be 0")
        address = packet.address & 0xFFFF_FFFF_FFFC
        words = np.frombuffer(self._memory.load(address, DWORD * packet.dwords), "<u4").tolist()
        if words:
            self.buffer = Buffer(address, words)
        return True


class PacketCommands:
    """The executor of the PM4 commands that are between the packets of AQL queues.

    With coherence "strict", `fences` executes their cache operations. With `only_caches`, no other commands are
    executed; it is the reason, for messages, or ""."""

    def __init__(
        self,
        memory: GpuMemory,
        fences: Fences | None,
        interrupt: Callable[[int], None],
        clock: Callable[[], int],
        *,
        only_caches: str = "",
    ) -> None:
        self._memory = GuestMemory(memory)
        self._fences = fences
        self._interrupt = interrupt
        self._clock = clock
        self._only_caches = only_caches

    def flush(self) -> None:
        """Execute the cache operations of an ACQUIRE_MEM: all caches are written back and invalidated."""
        if self._fences is not None:
            self._fences.flush()

    def slot(self, data: bytes) -> None:
        """Execute the PM4 commands in a ring slot, as hardware of GFX7 and GFX8 does."""
        there = list(_commands(np.frombuffer(data, "<u4").tolist()))
        if [kind for kind, _ in there if kind != Command.NOP] != [Command.INDIRECT_BUFFER, Command.RELEASE_MEM]:
            named = ", ".join(command_name(kind) for kind, _ in there)
            _refuse(f"a packet slot has the PM4 commands {named}, expected NOP, INDIRECT_BUFFER and RELEASE_MEM")
        if there[-1][1] != [SLOT_RELEASED, 0, 0, 0, 0, 0]:
            _refuse("RELEASE_MEM does not free its packet slot, expected the AQL event and nothing else")
        for kind, body in there:
            if kind == Command.INDIRECT_BUFFER:
                self._run(body, 0)

    def packet(self, data: bytes, position: int) -> int | None:
        """Execute the commands in the indirect buffer that a vendor packet refers to, from dword `position` on.

        Return the position of the first command that has to wait; None if all commands were executed."""
        there = list(_commands(Pm4IbPacket.parse(data).ib_jump_cmd))
        if [kind for kind, _ in there] != [Command.INDIRECT_BUFFER]:
            named = ", ".join(command_name(kind) for kind, _ in there)
            _refuse(f"the vendor packet has PM4 command {named}, expected INDIRECT_BUFFER")
        return self._run(there[0][1], position)

    def _run(self, body: list[int], position: int) -> int | None:
        """Execute the buffer that the body of an INDIRECT_BUFFER refers to; see `packet`."""
        commands = _CacheCommands if self._only_caches else Commands
        made = commands(self._memory, self.flush, self._interrupt, self._clock)
        try:
            made.execute(Command.INDIRECT_BUFFER, body)
            if made.buffer is not None:
                made.buffer.position = position
            while (buffer := made.buffer) is not None:
                if not made.execute_next():
                    return buffer.position
        except (BeyondModel, RuleError) as error:
            why = f" ({self._only_caches})" if self._only_caches and isinstance(error, BeyondModel) else ""
            refused = PacketRefused(error.message + why, QueueError.INVALID_VENDOR_PACKET, rules.VENDOR_PACKET)
            refused.path = error.path
            raise refused from None
        return None


class _CacheCommands(Commands):
    """The executor of those PM4 commands that have caches written back or invalidated."""

    def execute(self, opcode: int, body: list[int]) -> bool:
        """Execute one command of the ring; return False if it has to wait."""
        if opcode not in (Command.NOP, Command.INDIRECT_BUFFER, Command.ACQUIRE_MEM):
            raise BeyondModel(f"PM4 command {command_name(opcode)} is not modelled, expected ACQUIRE_MEM or NOP")
        return super().execute(opcode, body)


def header(word: int) -> tuple[int, int] | None:
    """Return the opcode and the number of following dwords of the PM4 command with the header `word`.

    For a filler of one dword the result is `Command.NOP` and 0: a packet of type 2, or NOP with the count 0x3FFF. For
    other words, return None."""
    kind, opcode, count = word >> 30, word >> 8 & 0xFF, (word >> 16 & MOST_COUNT) + 1
    if kind == TYPE_2 or (kind == TYPE_3 and opcode == Command.NOP and count == MOST_COUNT + 1):
        return int(Command.NOP), 0
    return (opcode, count) if kind == TYPE_3 else None


def _commands(words: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield each PM4 command with the list of dwords after its header."""
    at = 0
    while at < len(words):
        found = header(words[at])
        if found is None:
            _refuse(f"{words[at]:#010x} at dword {at} is not the header of a PM4 command")
        kind, count = found
        if at + 1 + count > len(words):
            _refuse(
                f"PM4 command {command_name(kind)} at dword {at} has {count + 1} dwords, but the buffer ends at dword "
                f"{len(words)}"
            )
        if count:
            yield kind, list(words[at + 1 : at + 1 + count])
        at += 1 + count


def next_command(words: Callable[[int], Sequence[int]], room: int) -> tuple[int, list[int]]:
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


def check_size(command: Command, body: Sequence[int], expected: int) -> None:
    """Raise `RuleError` unless the body of a command has `expected` dwords."""
    if len(body) != expected:
        raise RuleError(f"{command.name} has {len(body)} dwords after its header, expected {expected}")


def _bytes(words: Sequence[int]) -> bytes:
    return np.array(words, "<u4").tobytes()


def _names(opcodes: Iterable[int]) -> str:
    *first, last = (Command(each).name for each in opcodes)
    return f"{', '.join(first)} or {last}"


def command_name(kind: int) -> str:
    """Return the name of the PM4 command with the opcode `kind`, or the opcode if it is unknown."""
    return Command(kind).name if kind in list(Command) else f"{kind:#04x}"


def _refuse(text: str) -> NoReturn:
    raise PacketRefused(text, QueueError.INVALID_VENDOR_PACKET, rules.VENDOR_PACKET)
