"""What the commands of a buffer do: one native function, which runs as machine code or as Python.

It decodes commands, and executes all of them that need nothing but CMP registers, plain memory, and 1D transfers by
the DMA controller. What a command needs beyond that it asks for: it returns what it wants and is called again with the
answer. It never says what is wrong: it leaves the command undone, and Python words the error. What listeners want to
hear it writes down.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

from understudy.device.refsi import registers as r
from understudy.device.refsi.commands import CACHE_FLAGS, UNIT, UNIT_KINDS, Opcode
from understudy.device.refsi.interfaces import CMP
from understudy.ir.improving import Improving
from understudy.ir.native import U64, V64, copy, inlined, layout, native
from understudy.ir.object_cache import ObjectCache, default_folder

DONE, REFUSED, MALFORMED, ELSEWHERE, TELL, READ, WRITE, COPY, SYNC, WINDOW = range(10)
"""Why the function returned: the buffer is over; the command may not do that; it is none; it is not executed here;
listeners are to hear what was noted, or so much was done that somebody should look at it, then it goes on; 8 bytes are
to be read at `address`; `value` is to be written there; the command is to be carried out; window register `number` is
to be set to `value`."""
STARTED, FINISHED, REGISTER_READ, REGISTER_WRITTEN = range(4)
"""Kinds of events."""
READABLE, WRITABLE, REGISTERS = 1, 2, 4
"""What an extent is good for, one or the other; the last is set too where it is of DMA registers, or may be."""

MANY: Final = 100_000
"""Chunks of buffers after which to optimise this."""
MAX_EXTENTS: Final = 16
MAX_EVENTS: Final = 1024
MAX_PENDING: Final = 64
MAX_COPIED: Final = 1 << 12
"""Most elements of a COPY_MEM64 that is executed here."""
MAX_UNDER_WAY: Final = 1 << 27
"""Most bytes of the transfers that are under way here: some hundredths of a second."""
COMMAND_WORK: Final = 64
"""What a command is counted as, besides the bytes that it moves."""
MOST_EVENTS: Final = 4
"""Of one command."""
PACKET: Final = 0xC000_0000
EVEN_COUNT: Final = 0xC001_00FF
ANY_COUNT: Final = 0xC000_00FF
"""Bits of a header that decide whether it is one: the document's reading, the reference driver's."""
PAYLOADS: Final = (
    1 << 4 * Opcode.WRITE_REG64
    | 1 << 4 * Opcode.LOAD_REG64
    | 1 << 4 * Opcode.STORE_REG64
    | 1 << 4 * Opcode.STORE_IMM64
    | 3 << 4 * Opcode.COPY_MEM64
)
"""Payload chunks by opcode, four bits each."""
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
DMA_KEPT: Final = r.DMA_CTRL.after_write(0, DMA_1D)
CONTROL: Final = r.DMA_CTRL.offset
START_ID: Final = r.DMA_STARTSEQ.offset
DONE_ID: Final = r.DMA_DONESEQ.offset
SOURCE: Final = r.DMA_SRCADDR.offset
TARGET: Final = r.DMA_DSTADDR.offset
SIZE: Final = r.DMA_XFERSIZE.offset
LAST_ID: Final = (1 << 32) - 1


@layout
class Block(ctypes.Structure):
    """What Python and machine code share; positions count chunks, other places are addresses in this process."""

    words: int
    limit: int
    """Chunks that can be read: payload may lie behind the end."""
    position: int
    end: int
    done: int
    registers: int
    is_lenient: int
    listed: int
    """A bit for each CMP register that commands may name."""
    is_synced: int
    """Whether SYNC_CACHE has nothing to do but to be told of."""
    synced: int
    """The flags of all that were executed so."""
    extents: int
    count: int
    low: int
    """First byte written."""
    high: int
    """Behind the last one; 0: nothing was written."""
    moved: int
    """A bit for each window register that was written."""
    following: int
    number: int
    address: int
    value: int
    missed: int
    """What the extent that was missing would have to be good for: at `missed_address`, for `missed_size` bytes."""
    missed_address: int
    missed_size: int
    served: int
    """What was asked for and has been given."""
    events: int
    noted: int
    before: int
    """Events noted before this command."""
    listens: int
    is_live: int
    """Whether somebody has to hear of a command before it does anything."""
    told: int
    """Whether they have heard of this one."""
    dma: int
    """The registers of the DMA controller that the command processor sees."""
    dma_named: int
    """A bit for each of them that can be written."""
    dma_late: int
    started: int
    ended: int
    """IDs of the last transfer that was started, and of the last that is complete."""
    pending: int
    first: int
    last: int
    """Transfers under way."""
    moving: int
    """Bytes that were moved since this was 0."""
    patience: int
    """Work after which to return, so that somebody may look whether to go on."""


@layout
class Row(ctypes.Structure):
    """A known extent: first device address, bytes, host minus device address, and what it is good for.

    What may not be read may yet be written, or somewhere else.
    """

    start: int
    length: int
    addend: int
    uses: int


@layout
class Entry(ctypes.Structure):
    """An event: of a command its index, chunk, header and payload, of a register access number and value."""

    kind: int
    index: int
    chunk: int
    header: int
    one: int
    two: int
    three: int


@layout
class Pending(ctypes.Structure):
    """A transfer that was started: its ID, where it reads and writes, and the device addresses."""

    id: int
    source: int
    target: int
    size: int
    source_address: int
    target_address: int


@native
def commands(block: Block) -> int:
    """Execute commands from `position` on, up to one that needs something, or the end; why."""
    words, registers = U64.at(block.words), U64.at(block.registers)
    end, lenient, listens, why = block.end, block.is_lenient, block.listens, DONE
    limit, listed, work, patience = block.limit, block.listed, 0, block.patience
    mask = ANY_COUNT if lenient else EVEN_COUNT
    if block.served:
        why = resumed(block)
    at, done = block.position, block.done
    while at < end and not why and work + block.moving < patience:
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
            block.told = 0
            note(block, FINISHED, 0, 0, 0, 0, 0, 0)
        at, done, work = following, done + 1, work + COMMAND_WORK
        if opcode == Opcode.FINISH:
            end = at
    if at < end and not why:
        why = TELL
    block.position, block.done, block.end = at, done, end
    return why


@inlined
def word(block: Block, at: int) -> int:
    """A chunk; zeros lie behind those that can be read."""
    return U64.at(block.words)[at] if at < block.limit else 0


@inlined
def checked(block: Block, opcode: int, inline: int, at: int) -> int:
    """Whether an opcode has more to it: fields that the document restricts, or harts."""
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
    """Note that a command begins; `TELL` where that has to be heard first."""
    block.before = block.noted
    if block.told:
        return DONE
    if block.noted + MOST_EVENTS > MAX_EVENTS:
        return TELL
    note(block, STARTED, index, at, header, word(block, at + 1), word(block, at + 2), word(block, at + 3))
    number = header >> 32
    if header >> 8 & 0xFF == Opcode.STORE_REG64 and block.listed >> number & 1:
        note(block, REGISTER_READ, 0, 0, 0, number, U64.at(block.registers)[number], 0)
    block.told = block.is_live
    return TELL if block.is_live else DONE


@native
def note(block: Block, kind: int, index: int, chunk: int, header: int, one: int, two: int, three: int) -> None:
    """Write an event down."""
    entry = Entry.from_address(block.events + block.noted * ctypes.sizeof(Entry))
    entry.kind, entry.index, entry.chunk, entry.header = kind, index, chunk, header
    entry.one, entry.two, entry.three = one, two, three
    block.noted += 1


@native
def resumed(block: Block) -> int:
    """End the command that asked for something."""
    served, block.served, block.told = block.served, 0, 0
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
    """LOAD_REG64."""
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
    """Set a register; one of a window takes effect where it `opens` one."""
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
    """Set a register, without any effect."""
    U64.at(block.registers)[number] = value
    if block.listens:
        note(block, REGISTER_WRITTEN, 0, 0, 0, number, value, 0)


@inlined
def stored(block: Block, address: int, value: int) -> int:
    """Write 8 bytes."""
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
    """COPY_MEM64, one element after the other."""
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
    """Memory was written."""
    if host < block.low:
        block.low = host
    if host + size > block.high:
        block.high = host + size


@inlined
def reach(block: Block, address: int, size: int, use: int) -> int:
    """Host address of bytes at a device address; 0 where no extent holds them, which is noted."""
    found = extent(block, address, size, use)
    return Row.from_address(found).addend + address if found else 0


@inlined
def extent(block: Block, address: int, size: int, uses: int) -> int:
    """The row that holds these bytes and is good for nothing but `uses`; 0 where there is none, which is noted."""
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
    """Write a register of the DMA controller."""
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
    """Read a register of the DMA controller."""
    if index == START_ID:
        return block.started
    if index != DONE_ID:
        return U64.at(block.dma)[index]
    if block.first < block.last:
        dma_awaited(block, Pending.from_address(block.pending + block.first * ctypes.sizeof(Pending)).id)
    return block.ended


@inlined
def dma_started(block: Block, control: int) -> int:
    """Start a 1D transfer that touches nothing of those under way."""
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
    registers[CONTROL] = DMA_KEPT
    if not block.dma_late:
        dma_awaited(block, block.started)
    return DONE


@inlined
def meets(one: int, size: int, other: int, other_size: int) -> int:
    """Whether two pieces of memory share a byte."""
    return (one < other + other_size) & (other < one + size)


@native
def dma_awaited(block: Block, number: int) -> None:
    """Perform the transfers up to an ID, the newest first; all where none has that ID yet."""
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
    """All of it, linked into this process; a use is a chunk of a buffer."""
    return Improving(ObjectCache(default_folder()), commands, worth=MANY)
