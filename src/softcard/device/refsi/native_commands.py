"""The execution of a buffer's commands by a native function, which runs as machine code.

The function decodes commands. It executes those that need only CMP registers, plain memory, and 1D transfers
by the DMA controller. At any other command, it returns with a request. Python carries out the request and
calls the function again with the result. The function does not report errors itself: it does not execute an
invalid command, and Python raises the error. Events for listeners are recorded in a buffer. This module also
contains the Python code that gives the function the memory that it needs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from softcard.device.refsi import registers as r
from softcard.device.refsi.commands import CACHE_FLAGS, UNIT, UNIT_KINDS, Opcode
from softcard.device.refsi.interfaces import CMP, COMMAND_PROCESSOR, Extent
from softcard.device.refsi.profiles import Profile, Words
from softcard.device.refsi.spec.dma import Context
from softcard.ir import llvm
from softcard.ir.background import Improving
from softcard.ir.native import U64, V64, copy, inlined, layout, native
from softcard.ir.object_cache import ObjectCache, default_folder

DONE, REFUSED, MALFORMED, ELSEWHERE, REPORT, READ, WRITE, COPY, SYNC, WINDOW = range(10)
"""The reasons for which `commands` returns:

- `DONE`: the buffer has ended.
- `REFUSED`: the command is an error.
- `MALFORMED`: the command cannot be decoded.
- `ELSEWHERE`: Python must execute the command.
- `REPORT`: listeners must get the recorded events, or limits must be checked, before the command continues.
- `READ`: Python must read 8 bytes at `address`.
- `WRITE`: Python must write `value` at `address`.
- `COPY`: Python must carry out the copy.
- `SYNC`: Python must synchronise caches.
- `WINDOW`: Python must set window register `number` to `value`.
"""
STARTED, FINISHED, REGISTER_READ, REGISTER_WRITTEN = range(4)
"""The kinds of recorded events: a command started or finished, a register was read or written."""
READABLE, WRITABLE, REGISTERS = 1, 2, 4
"""The permitted uses of an extent of memory: READABLE or WRITABLE.

REGISTERS is set in addition if the extent has DMA registers, or may have.
"""

MANY: Final = 100_000
"""The number of executed chunks of buffers after which this code is compiled with optimisation."""
MAX_EXTENTS: Final = 16
MAX_EVENTS: Final = 1024
MAX_PENDING: Final = 64
MAX_COPIED: Final = 1 << 12
"""The maximum number of elements of a COPY_MEM64 that native code executes itself."""
MAX_UNDER_WAY: Final = 1 << 27
"""The maximum number of bytes in transfers that native code leaves outstanding: some 10 ms of work."""
COMMAND_WORK: Final = 64
"""The amount of work that each command counts as for limits, in addition to the bytes that it moves."""
MOST_EVENTS: Final = 4
"""The maximum number of events of one command."""
PACKET: Final = 0xC000_0000
EVEN_COUNT: Final = 0xC001_00FF
ANY_COUNT: Final = 0xC000_00FF
"""The mask of those bits of a command header that are compared with `PACKET` if odd counts are allowed.

`EVEN_COUNT` is the mask if only even counts are allowed.
"""
PAYLOADS: Final = (
    1 << 4 * Opcode.WRITE_REG64
    | 1 << 4 * Opcode.LOAD_REG64
    | 1 << 4 * Opcode.STORE_REG64
    | 1 << 4 * Opcode.STORE_IMM64
    | 3 << 4 * Opcode.COPY_MEM64
)
"""The numbers of payload chunks of all opcodes in one integer: four bits each, at bit 4 * opcode."""
UNIT_RESERVED: Final = UNIT.reserved_mask & (1 << 64) - 1
MOST_KINDS: Final = max(UNIT_KINDS)
KIND_SHIFT: Final = 24
FIRST_WINDOW: Final = r.FIRST_WINDOW_REGISTER
FIRST_MODE: Final = r.WINDOW_MODE.offset
FIRST_SCALE: Final = r.WINDOW_SCALE.offset
MODE_RESERVED: Final = r.WINDOW_MODE.reserved_mask & (1 << 64) - 1
SCALE_RESERVED: Final = r.WINDOW_SCALE.reserved_mask & (1 << 64) - 1
MODE_SHIFT: Final = 1
NO_MODE: Final = 3
DMA_1D: Final = r.DMA_CTRL.encode(START=1, DIM=1)
DMA_WRITABLE: Final = r.DMA_CTRL.after_write(0, DMA_1D)
CONTROL: Final = r.DMA_CTRL.offset
START_ID: Final = r.DMA_STARTSEQ.offset
DONE_ID: Final = r.DMA_DONESEQ.offset
SOURCE: Final = r.DMA_SRCADDR.offset
TARGET: Final = r.DMA_DSTADDR.offset
SIZE: Final = r.DMA_XFERSIZE.offset
LAST_ID: Final = (1 << 32) - 1


@layout
class Block(ctypes.Structure):
    """The state that Python and the native function `commands` share.

    Positions count chunks; addresses are host addresses."""

    words: int
    limit: int
    """The number of readable chunks, which may exceed the buffer: payload may extend past its end."""
    position: int
    end: int
    done: int
    registers: int
    is_lenient: int
    listed: int
    """A bit mask of the CMP registers that commands may name."""
    is_synced: int
    """Nonzero if SYNC_CACHE needs only a report to the profile."""
    synced: int
    """The combined flags of all SYNC_CACHE commands that machine code has executed."""
    extents: int
    count: int
    low: int
    """The host address of the first byte written."""
    high: int
    """The host address after the last byte written; 0 if no byte was written."""
    moved: int
    """A bit mask of the window registers that were written."""
    following: int
    number: int
    address: int
    value: int
    missed: int
    """The use of an access for which machine code knows no extent of memory (such as `READABLE`).

    The access has `missed_size` bytes at device address `missed_address`.
    """
    missed_address: int
    missed_size: int
    served: int
    """The request that Python has carried out, to be completed by the next call; 0 without one."""
    events: int
    noted: int
    before: int
    """The number of events recorded before the present command."""
    listens: int
    is_live: int
    """Nonzero if listeners must get a command's event before the command has an effect."""
    is_announced: int
    """Nonzero if listeners have got the event of the present command."""
    dma: int
    """The host address of the DMA controller's registers for the command processor."""
    dma_named: int
    """A bit mask of the DMA registers that can be written."""
    dma_late: int
    started: int
    ended: int
    """The ID of the last transfer that is complete; `started` is that of the last one started."""
    pending: int
    first: int
    last: int
    """The index after the last outstanding transfer."""
    moving: int
    """The number of bytes moved since Python last reset it to 0."""
    work_limit: int
    """The work after which to return, so that limits can be checked."""


@layout
class Row(ctypes.Structure):
    """An extent of memory: first device address, size in bytes, host minus device address, and permitted uses.

    Reads and writes of the same device addresses may have separate extents, because one may be refused, or
    because both may access different memory."""

    start: int
    length: int
    addend: int
    uses: int


@layout
class Entry(ctypes.Structure):
    """A recorded event.

    It has the index, chunk, header and payload of a command, or the number and the value of a register."""

    kind: int
    index: int
    chunk: int
    header: int
    one: int
    two: int
    three: int


@layout
class Pending(ctypes.Structure):
    """A transfer that was started: its ID, and host and device addresses of source and destination."""

    id: int
    source: int
    target: int
    size: int
    source_address: int
    target_address: int


@native
def commands(block: Block) -> int:
    """Execute commands from chunk `block.position` on, until the buffer ends or a command needs Python.

    Return the reason why execution stopped."""
    words, registers = U64.at(block.words), U64.at(block.registers)
    end, lenient, listens, why = block.end, block.is_lenient, block.listens, DONE
    limit, listed, work, work_limit = block.limit, block.listed, 0, block.work_limit
    mask = ANY_COUNT if lenient else EVEN_COUNT
    if block.served:
        why = resumed(block)
    at, done = block.position, block.done
    while at < end and not why and work + block.moving < work_limit:
        header = words[at]
        inline, opcode, chunks = header >> 32, header >> 8 & 0xFF, header >> 17 & 0x1FFF
        following = at + 1 + chunks
        if (header & mask != PACKET) | (opcode > Opcode.SYNC_CACHE) | ((following > end) & (lenient == 0)):
            why = MALFORMED
            break
        if chunks != PAYLOADS >> 4 * opcode & 0xF:
            if opcode == Opcode.RUN_KERNEL_SLICE or opcode == Opcode.RUN_INSTANCES:
                why = ELSEWHERE
            elif opcode == Opcode.NOP:
                why = ELSEWHERE if listens else DONE
            elif opcode != Opcode.FINISH or not lenient:
                why = MALFORMED
            if why:
                break
        one = words[at + 1] if at + 1 < limit else 0
        if opcode >= Opcode.COPY_MEM64:
            why = checked(block, opcode, inline, at)
            if why:
                break
        if listens:
            why = announced(block, header, at, done)
            if why:
                break
        if opcode >= Opcode.WRITE_REG64 and opcode <= Opcode.STORE_REG64 and not listed >> inline & 1:
            why = REFUSED
        elif opcode == Opcode.WRITE_REG64:
            why = written(block, inline, one, 1)
        elif opcode == Opcode.LOAD_REG64:
            why = loaded(block, inline, one)
        elif opcode == Opcode.STORE_REG64 or opcode == Opcode.STORE_IMM64:
            address, value = inline, one
            if opcode == Opcode.STORE_REG64:
                address, value = one, registers[inline]
            why = stored(block, address, value)
        elif opcode == Opcode.COPY_MEM64:
            why = copied(block, inline, one, word(block, at + 2), word(block, at + 3))
        elif opcode == Opcode.SYNC_CACHE:
            block.value = inline
            if block.is_synced:
                block.synced |= inline
            else:
                why = SYNC
        if why:
            block.following = following
            break
        if listens:
            block.is_announced = 0
            note(block, FINISHED, 0, 0, 0, 0, 0, 0)
        at, done, work = following, done + 1, work + COMMAND_WORK
        if opcode == Opcode.FINISH:
            end = at
    if at < end and not why:
        why = REPORT
    block.position, block.done, block.end = at, done, end
    return why


@inlined
def word(block: Block, at: int) -> int:
    """Return chunk `at` of the buffer; chunks after the readable ones are zero."""
    return U64.at(block.words)[at] if at < block.limit else 0


@inlined
def checked(block: Block, opcode: int, inline: int, at: int) -> int:
    """Check whether this module can execute a command whose number of payload chunks was already checked.

    Return `DONE`, or the reason why Python must handle the command: it needs harts, or a field is invalid.
    `at` is the index of the command's header."""
    if opcode == Opcode.RUN_KERNEL_SLICE or opcode == Opcode.RUN_INSTANCES:
        return ELSEWHERE
    if block.is_lenient:
        return DONE
    if opcode == Opcode.SYNC_CACHE:
        return MALFORMED if inline > CACHE_FLAGS else DONE
    unit = word(block, at + 3)
    return MALFORMED if unit & UNIT_RESERVED or unit >> KIND_SHIFT > MOST_KINDS else DONE


@native
def announced(block: Block, header: int, at: int, index: int) -> int:
    """Record the event that a command begins; return `DONE`, or `REPORT`.

    `REPORT` means that listeners must get the recorded events before the command continues. `at` is the index of
    the command's header in the buffer, `index` is the number of commands before it."""
    block.before = block.noted
    if block.is_announced:
        return DONE
    if block.noted + MOST_EVENTS > MAX_EVENTS:
        return REPORT
    note(block, STARTED, index, at, header, word(block, at + 1), word(block, at + 2), word(block, at + 3))
    number = header >> 32
    if header >> 8 & 0xFF == Opcode.STORE_REG64 and block.listed >> number & 1:
        note(block, REGISTER_READ, 0, 0, 0, number, U64.at(block.registers)[number], 0)
    block.is_announced = block.is_live
    return REPORT if block.is_live else DONE


@native
def note(block: Block, kind: int, index: int, chunk: int, header: int, one: int, two: int, three: int) -> None:
    """Record an event in the buffer for listeners; the arguments are the words of an `Entry`."""
    entry = Entry.from_address(block.events + block.noted * ctypes.sizeof(Entry))
    entry.kind, entry.index, entry.chunk, entry.header = kind, index, chunk, header
    entry.one, entry.two, entry.three = one, two, three
    block.noted += 1


@native
def resumed(block: Block) -> int:
    """Complete the command whose request Python has carried out.

    Return `DONE`, or a further request to Python.
    """
    served, block.served, block.is_announced = block.served, 0, 0
    why = DONE
    if served == READ:
        why = written(block, block.number, block.value, 1 - block.is_lenient)
    elif served == WINDOW:
        set_register(block, block.number, block.value)
    if not why:
        if block.listens:
            note(block, FINISHED, 0, 0, 0, 0, 0, 0)
        block.position = block.following
        block.done += 1
    return why


@inlined
def loaded(block: Block, number: int, address: int) -> int:
    """Execute LOAD_REG64: read 8 bytes at `address` into CMP register `number`.

    Return `DONE`, or the reason why Python must handle the command.
    """
    found = 0 if address & 7 else extent(block, address, 8, READABLE | REGISTERS)
    if found:
        row = Row.from_address(found)
        host = row.addend + address
        if not row.uses & REGISTERS:
            return written(block, number, V64[host], 1 - block.is_lenient)
        index = host - block.dma >> 3
        if block.dma_named >> index & 1:
            return written(block, number, dma_read(block, index), 1 - block.is_lenient)
    block.number, block.address = number, address
    return READ


@inlined
def written(block: Block, number: int, value: int, opens: int) -> int:
    """Write `value` to CMP register `number`; return `DONE`, or the reason why Python must handle the command.

    If `opens`, a write to a window register changes the window. Otherwise only the register's value changes.
    """
    if number >= FIRST_WINDOW and opens:
        block.number, block.value = number, value
        if block.is_lenient:
            return WINDOW
        if number >= FIRST_SCALE:
            if value & SCALE_RESERVED:
                return REFUSED
        elif number >= FIRST_MODE and (value & MODE_RESERVED or value >> MODE_SHIFT & 3 == NO_MODE):
            return REFUSED
        block.moved |= 1 << number
        block.count = 0
    set_register(block, number, value)
    return DONE


@inlined
def set_register(block: Block, number: int, value: int) -> None:
    """Set CMP register `number` to `value`, without any other effect."""
    U64.at(block.registers)[number] = value
    if block.listens:
        note(block, REGISTER_WRITTEN, 0, 0, 0, number, value, 0)


@inlined
def stored(block: Block, address: int, value: int) -> int:
    """Write the 8 bytes of `value` at a device address; return `DONE`, or `WRITE` if Python must write them."""
    found = 0 if address & 7 else extent(block, address, 8, WRITABLE | REGISTERS)
    block.address, block.value = address, value
    if not found:
        return WRITE
    row = Row.from_address(found)
    host = row.addend + address
    if row.uses & REGISTERS:
        return dma_written(block, host - block.dma >> 3, value)
    V64[host] = value
    wrote(block, host, 8)
    return DONE


@inlined
def copied(block: Block, count: int, source: int, target: int, unit: int) -> int:
    """Execute COPY_MEM64, one element after another; return `DONE`, or `COPY` if Python must execute it."""
    if count - 1 >= MAX_COPIED or (source | target) & 7 or (unit & 0xFFFF_FFFF) >> KIND_SHIFT > CMP:
        return COPY
    begin = reach(block, source, 8 * count, READABLE)
    if not begin:
        return COPY
    to = reach(block, target, 8 * count, WRITABLE)
    if not to:
        return COPY
    elements, copies = U64.at(begin), U64.at(to)
    for i in range(count):
        copies[i] = elements[i]
    block.moving += 8 * count
    wrote(block, to, 8 * count)
    return DONE


@inlined
def wrote(block: Block, host: int, size: int) -> None:
    """Extend the range of written host memory, from `block.low` to `block.high`, by `size` bytes at `host`."""
    if host < block.low:
        block.low = host
    if host + size > block.high:
        block.high = host + size


@inlined
def reach(block: Block, address: int, size: int, use: int) -> int:
    """Return the host address of `size` bytes at a device address.

    Return 0 if no known extent permits `use` for all of them; the missing extent is then recorded in `missed`."""
    found = extent(block, address, size, use)
    return Row.from_address(found).addend + address if found else 0


@inlined
def extent(block: Block, address: int, size: int, uses: int) -> int:
    """Return the host address of a `Row` that contains `size` bytes at a device address; 0 if none does.

    `uses` is a mask: a row with a permitted use outside of the mask is ignored. If the result is 0, the missing
    extent is recorded in `missed`."""
    for i in range(block.count):
        at = block.extents + i * ctypes.sizeof(Row)
        row = Row.from_address(at)
        offset = address - row.start
        if (offset < row.length) & (size <= row.length - offset) and not row.uses & ~uses:
            return at
    block.missed, block.missed_address, block.missed_size = uses, address, size
    return 0


@native
def dma_written(block: Block, index: int, value: int) -> int:
    """Write a register of the DMA controller; return `DONE`, or `WRITE` if Python must write it."""
    registers = U64.at(block.dma)
    if index == CONTROL:
        return dma_started(block, value)
    if not block.dma_named >> index & 1:
        return WRITE
    if index == DONE_ID:
        dma_awaited(block, value)
    elif index != START_ID:
        registers[index] = value
    return DONE


@native
def dma_read(block: Block, index: int) -> int:
    """Return the value of a register of the DMA controller. A read of DMADONESEQ may complete a transfer."""
    if index == START_ID:
        return block.started
    if index != DONE_ID:
        return U64.at(block.dma)[index]
    if block.first < block.last:
        dma_awaited(block, Pending.from_address(block.pending + block.first * ctypes.sizeof(Pending)).id)
    return block.ended


@inlined
def dma_started(block: Block, control: int) -> int:
    """Start a 1D transfer that overlaps no outstanding transfer; return `DONE`.

    Return `WRITE` for all other transfers, which Python must start.
    """
    registers = U64.at(block.dma)
    size = registers[SIZE]
    if control != DMA_1D or not size or block.last == MAX_PENDING or block.started == LAST_ID:
        return WRITE
    source = reach(block, registers[SOURCE], size, READABLE)
    if not source:
        return WRITE
    target = reach(block, registers[TARGET], size, WRITABLE)
    if not target or meets(source, size, target, size):
        return WRITE
    under_way = size
    for i in range(block.first, block.last):
        other = Pending.from_address(block.pending + i * ctypes.sizeof(Pending))
        under_way += other.size
        if (
            meets(other.target, other.size, source, size)
            or meets(other.source, other.size, target, size)
            or meets(other.target, other.size, target, size)
        ):
            return WRITE
    if under_way > MAX_UNDER_WAY:
        return WRITE
    new = Pending.from_address(block.pending + block.last * ctypes.sizeof(Pending))
    block.started += 1
    new.id, new.source, new.target, new.size = block.started, source, target, size
    new.source_address, new.target_address = registers[SOURCE], registers[TARGET]
    block.last += 1
    registers[CONTROL] = DMA_WRITABLE
    if not block.dma_late:
        dma_awaited(block, block.started)
    return DONE


@inlined
def meets(one: int, size: int, other: int, other_size: int) -> int:
    """Return nonzero if two ranges of memory, given by address and size, share a byte."""
    return (one < other + other_size) & (other < one + size)


@native
def dma_awaited(block: Block, number: int) -> None:
    """Perform the outstanding transfers that a wait for the transfer with ID `number` completes, the newest first.

    These are the transfers with IDs up to `number`, or all of them if no transfer has this ID yet."""
    due = block.last
    if number <= block.started:
        due = block.first
        while due < block.last and Pending.from_address(block.pending + due * ctypes.sizeof(Pending)).id <= number:
            due += 1
    i = due
    while i > block.first:
        i -= 1
        each = Pending.from_address(block.pending + i * ctypes.sizeof(Pending))
        copy(each.target, each.source, each.size)
        wrote(block, each.target, each.size)
        block.moving += each.size
    if due > block.first:
        block.ended = Pending.from_address(block.pending + (due - 1) * ctypes.sizeof(Pending)).id
    block.first = due
    if due == block.last:
        block.first, block.last = 0, 0


@cache
def code() -> Improving:
    """Return the module's functions as machine code.

    It is recompiled with optimisation after enough executed chunks."""
    return Improving(ObjectCache(default_folder()), commands, worth=MANY)


# ---- the Python side -------------------------------------------------------------------------------------------------
# The Python side of command execution: runs `native_commands` and gives it the memory that it may access.


ENTRY_WORDS: Final = ctypes.sizeof(Entry) // 8
WORK_LIMIT: Final = 1 << 25
"""The work, in bytes moved, after which machine code returns for limits to be checked: some 10 ms."""
WORK_LIMIT_OF_PYTHON: Final = 1 << 18
"""The work, in bytes moved, after which the Python version of the code returns for limits to be checked."""


class Machine:
    """An executor of the commands of one device, as machine code (`compiled`) or as Python.

    `flush` reports the executor's direct accesses to memory and registers to the rest of the device."""

    def __init__(self, registers: memoryview[int], profile: Profile, *, compiled: bool) -> None:
        self._profile = profile
        self._registers = registers
        self.block = block = Block()
        self._extents = (Row * MAX_EXTENTS)()
        self._pending = (Pending * MAX_PENDING)()
        self._events = np.zeros((MAX_EVENTS, ENTRY_WORDS), dtype=np.uint64)
        block.registers = _address(registers)
        block.extents, block.pending = ctypes.addressof(self._extents), ctypes.addressof(self._pending)
        block.events = self._events.ctypes.data
        block.work_limit = WORK_LIMIT if compiled else WORK_LIMIT_OF_PYTHON
        block.is_lenient, block.listed, block.is_synced = profile.lenient, profile.listed, profile.is_synced
        self._borrowed: Context | None = None
        self._known: int | None = None
        """The value of `Profile.mapped` for which the known extents of memory are valid."""
        self._run: Callable[[Block], int] = commands
        self._compiled = code() if compiled else None
        self._code: llvm.Code | None = None

    def open(self, words: Words, chunks: int) -> None:
        """Begin a buffer at its first chunk. `chunks` is the buffer's length; `words` may contain further chunks."""
        if self._compiled is not None and self._compiled.use(chunks) is not self._code:
            self._code = self._compiled.code
            self._run = self._code.function("commands", ctypes.c_uint64, ctypes.POINTER(Block))
        block = self.block
        block.words, block.limit = _address(words), len(words)
        block.position, block.end, block.done = 0, chunks, 0
        block.served = block.noted = block.is_announced = block.moved = block.high = 0
        block.low = (1 << 64) - 1

    def run(self, listens: bool, is_live: bool) -> int:
        """Execute commands until the buffer ends or a command needs Python; return the result of `commands`.

        `listens` is True if a listener wants events; they are then recorded. `is_live` is True if the listener must
        get the event of a command before the command has any effect."""
        block = self.block
        block.listens, block.is_live, block.moving = listens, is_live, 0
        if self._known is None or self._known != self._profile.mapped:
            self._known, block.count = self._profile.mapped, 0
        while True:
            block.missed = 0
            why = self._run(block)
            if not block.missed or not self._learn(block):
                return why
            block.noted = block.before

    def serve(self, what: int) -> None:
        """Record that Python has carried out the command's request `what`."""
        self.block.served = what

    def skip(self, following: int) -> None:
        """Continue at chunk `following`, as Python has executed the present command."""
        self.block.position = following
        self.block.done += 1

    def events(self) -> list[list[int]]:
        """Return the events since the last call, each as the words of an `Entry`."""
        count, self.block.noted = self.block.noted, 0
        return self._events[:count].tolist()  # type: ignore[no-any-return]

    def flush(self) -> None:
        """Report the native function's memory writes, window registers and DMA transfers to the rest of the device."""
        block = self.block
        if block.moved:
            self._move()
        if self._borrowed is not None:
            self._give_back(self._borrowed)
        if block.synced:
            flags, block.synced = block.synced, 0
            self._profile.synced(flags)
        if block.high:
            self._profile.wrote(block.low, block.high - block.low)
            block.low, block.high = (1 << 64) - 1, 0

    def _move(self) -> None:
        moved, self.block.moved = self.block.moved, 0
        written = {number: self._registers[number] for number in range(moved.bit_length()) if moved >> number & 1}
        self._profile.windows_written(written)

    # -- extents ------------------------------------------------------------------------------------------------

    def _learn(self, block: Block) -> bool:
        """Add the extent that the native function has missed (`Block.missed`) to the extents that it knows.

        Return False if the native function cannot access the missed address directly."""
        if block.moved:
            self._move()
        address, uses = block.missed_address, block.missed
        access = "read" if uses & READABLE else "write"
        found, use = self._profile.direct(address, access), uses & ~REGISTERS
        if found is None and uses & REGISTERS:
            found, use = self._dma(address, access), uses
        if found is None or not found[0] <= address <= found[1] - block.missed_size:
            return False
        start, end, addend = found
        count = block.count if block.count < MAX_EXTENTS else 0
        self._extents[count] = Row(start, end - start, addend & (1 << 64) - 1, use)
        block.count = count + 1
        return True

    # -- transfers ----------------------------------------------------------------------------------------------

    def _dma(self, address: int, access: str) -> Extent | None:
        """Return the extent of DMA registers around `address`.

        Return None if the native function must not access DMA registers there."""
        dma = self._profile.dma
        found = None if dma is None else self._profile.dma_registers(address, access)
        if dma is None or found is None:
            return None
        if self._borrowed is None:
            self._borrowed = dma.borrow_context(COMMAND_PROCESSOR)
            if self._borrowed is None:
                return None
            block, context = self.block, self._borrowed
            block.dma, block.dma_named, block.dma_late = _address(context.values), dma.named, dma.is_late
            block.started, block.ended, block.first, block.last = context.started, context.done, 0, 0
        start, end, offset = found
        return start, end, self.block.dma + offset

    def _give_back(self, context: Context) -> None:
        block, self._borrowed, self._known = self.block, None, None
        context.started, context.done = block.started, block.ended
        for each in self._pending[block.first : block.last]:
            self._profile.transfer_started(
                each.id, (each.source_address, each.source), (each.target_address, each.target), each.size
            )


def _address(words: Words) -> int:
    return int(np.frombuffer(words, dtype=np.uint64).ctypes.data)
