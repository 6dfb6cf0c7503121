"""What user commands do: one native function, which runs as machine code or as Python.

It executes NOPs, FENCEs and FILLs one after the other. What it cannot reach it asks for: it returns what it wants and
is called again when that is there. It never says what is wrong: it leaves the command where it is, and Python words
the error. Page tables, slots and code may be changed by anybody at any time: each word is read as it is used, and
nothing is kept between two commands.

A FENCE counts, then looks at INTR: where its interrupt is active already, raising it changes nothing; else the call
ends behind that FENCE, and the interrupt is due. Counting is an atomic operation: a driver that clears INTR and then
reads the counter finds the FENCE counted, or gets the interrupt.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

from understudy.device.acceldev.commands import (
    BUFFER_BYTES,
    CMD_TYPE_MASK,
    MAX_TABLE,
    PAGE_MASK,
    PTE_BYTES,
    PTE_FRAME_MASK,
    PTE_PRESENT,
    PTE_SHIFT,
    SLOT_BYTES,
    USER_CMD_BYTES,
    UserCmdType,
)
from understudy.device.acceldev.pages import PAGE_BITS
from understudy.device.acceldev.registers import ACCELDEV_NUM_BUFFERS, ACCELDEV_PAGE_SIZE, Interrupt
from understudy.ir import llvm
from understudy.ir.native import A32, U8, V32, V64, copy, fill, fill_lines, inlined, layout, link, native
from understudy.ir.object_cache import ObjectCache, default_folder

DONE, TELL, COUNT, ENTRIES, CODE, SLOT, STORE, UNKNOWN, UNBOUND, TABLE, ABSENT = range(11)
"""Why the function returned. It is over, for now; listeners are to hear of the command; a FENCE is to be counted;
`size` bytes are to be read at `address`: of the page table at `table`, of the code at `virtual`, of a context's slots;
the FILL is to store `size` bytes there. There is no such command; no buffer is bound to its slot; `table` is no address
of a page table; that presents no page at `virtual`, `entry` says."""

LINE_BITS: Final = 6
LINE: Final = 1 << LINE_BITS
MAX_GIVEN: Final = 8
NOWHERE: Final = (1 << 64) - 1
"""In place of a physical address."""


@layout
class Block(ctypes.Structure):
    """What Python and machine code share; places are addresses in this process, unless they are said to be others."""

    start: int
    """Of the code: virtual address of command 0."""
    position: int
    end: int
    budget: int
    """Bytes filled after which it is over."""
    filled: int
    used: int
    """A bit for each slot that was filled."""
    code_table: int
    """Physical address of the code's page table."""
    entries: int
    """Where that lies; 0: its entries are asked for."""
    record: int
    """Physical address of the context's record."""
    slots: int
    """Where its slots lie; 0: they are asked for."""
    counter: int
    """Where its fence_counter lies; 0: it is counted elsewhere."""
    intr: int
    listens: int
    """Whether somebody has to hear of each command before it does anything."""
    told: int
    """Whether they have heard of this one."""
    every: int
    """Whether each FENCE's interrupt is due."""
    fences: int
    counted: int
    """What the last FENCE left in the counter."""
    served: int
    """Whether it was counted elsewhere."""
    due: int
    ranges: int
    count: int
    given: int
    """Memory that was read for this command, and NOPs before it."""
    gifts: int
    split: int
    """Room for a command."""
    words: int
    """Where the words of the command stand, once they are known."""
    pieces: int
    """Room for the pieces of memory that one FILL writes."""
    next: int
    """The first of them that is not written; 0: the FILL has not begun to write."""
    last: int
    """Behind the last one."""
    stop: int
    """Virtual address behind what they cover."""
    value: int
    slot: int
    begin: int
    length: int
    """Of the FILL."""
    table: int
    address: int
    size: int
    virtual: int
    entry: int
    why: int


@layout
class Range(ctypes.Structure):
    """Memory that can be reached: physical address, bytes, address in this process, whether it may be written."""

    base: int
    length: int
    host: int
    writable: int


@layout
class Piece(ctypes.Structure):
    """What a FILL writes: `size` bytes from a physical `address` on, which are at `place` here unless `elsewhere`.

    Its first byte is byte `offset` of the FILL.
    """

    place: int
    address: int
    size: int
    offset: int
    elsewhere: int


@native
def commands(block: Block) -> int:
    """Execute the commands from `position` on, up to one that needs something, a FENCE that is due, or the end; why."""
    at, end, filled, fences, due, why = block.position, block.end, 0, 0, 0, DONE
    words, listens, told = block.words, block.listens, block.told
    is_kept = 1 if listens or not block.counter else 0
    while at < end and filled < block.budget and not due:
        if not words:
            words = fetched(block, block.start + at * USER_CMD_BYTES, end - at, is_kept)
            if not words:
                why = block.why
                break
        kind = V32[words] & CMD_TYPE_MASK
        if kind > UserCmdType.FILL:
            why = UNKNOWN
            break
        if listens > told:
            told, why = 1, TELL
            break
        if kind == UserCmdType.FENCE:
            if block.served:
                block.served = 0
            elif block.counter:
                block.counted = A32.add(block.counter, 1) + 1
            else:
                why = COUNT
                break
            fences += 1
            due = block.every | (A32.load(block.intr) & Interrupt.USER_FENCE_WAIT == 0)
            block.given = 0
        elif kind == UserCmdType.FILL:
            why = DONE if block.next else begun(block, words)
            if not why:
                why = written(block)
            if why:
                break
            filled += block.length
            block.given = 0
        words, told = 0, 0
        at += 1
    block.position, block.fences, block.due, block.filled = at, fences, due, filled
    block.words, block.told = words, told
    return why


# ---- reading -----------------------------------------------------------------------------------------------------


@inlined
def fetched(block: Block, virtual: int, ahead: int, is_kept: int) -> int:
    """Where the words of a command are, of `ahead` that may be read at once; 0: they cannot be reached, see `why`.

    They stay there if that `is_kept`, whatever else happens.
    """
    left = ACCELDEV_PAGE_SIZE - (virtual & PAGE_MASK)
    if left < USER_CMD_BYTES:
        return straddling(block, virtual, left)
    first = located(block, virtual)
    if first == NOWHERE:
        return 0
    found = reached(block, first, USER_CMD_BYTES)
    if not found:
        return asked(block, CODE, first, min(ahead, left // USER_CMD_BYTES) * USER_CMD_BYTES, virtual)
    if is_kept:
        copy(block.split, found, USER_CMD_BYTES)
        found = block.split
    return found


@native
def straddling(block: Block, virtual: int, left: int) -> int:
    """Where the words of a command are that has `left` bytes on one page and the others on the next."""
    first = located(block, virtual)
    if first == NOWHERE:
        return 0
    behind = located(block, virtual + left)
    if behind == NOWHERE:
        return 0
    found = reached(block, first, left)
    if not found:
        return asked(block, CODE, first, left, virtual)
    rest = reached(block, behind, USER_CMD_BYTES - left)
    if not rest:
        return asked(block, CODE, behind, USER_CMD_BYTES - left, virtual + left)
    copy(block.split, found, left)
    copy(block.split + left, rest, USER_CMD_BYTES - left)
    return block.split


@inlined
def located(block: Block, virtual: int) -> int:
    """The physical address of a byte of the code; NOWHERE: it is not known, see `why`."""
    place = block.entries + PTE_BYTES * (virtual >> PAGE_BITS)
    if virtual >= BUFFER_BYTES:
        return absent(block, virtual, 0)
    if not block.entries:
        address = block.code_table + PTE_BYTES * (virtual >> PAGE_BITS)
        place = reached(block, address, PTE_BYTES)
        if not place:
            block.table = block.code_table
            asked(block, ENTRIES, address, PTE_BYTES, virtual)
            return NOWHERE
    entry = V32[place]
    return physical(entry) | virtual & PAGE_MASK if entry & PTE_PRESENT else absent(block, virtual, entry)


@native
def absent(block: Block, virtual: int, entry: int) -> int:
    """The code ends here."""
    block.table, block.virtual, block.entry, block.why = block.code_table, virtual, entry, ABSENT
    return NOWHERE


@inlined
def physical(entry: int) -> int:
    """The address of a page."""
    return (entry & PTE_FRAME_MASK) << PTE_SHIFT


@native
def asked(block: Block, why: int, address: int, size: int, virtual: int) -> int:
    """Ask for memory."""
    block.address, block.size, block.virtual, block.why = address, size, virtual, why
    return 0


@inlined
def reached(block: Block, address: int, size: int) -> int:
    """Where bytes to be read lie in this process; 0 where they have to be asked for."""
    if block.given:
        for number in range(block.given):
            gift = Range.from_address(block.gifts + number * ctypes.sizeof(Range))
            offset = address - gift.base
            if (size <= gift.length) & (offset <= gift.length - size):
                return gift.host + offset
    return shared(block, address, size, 0)


@native
def shared(block: Block, address: int, size: int, write: int) -> int:
    """Where bytes at a physical address lie in this process; 0 where they are not shared, or not for writing."""
    low, high = 0, block.count
    while low < high:
        middle = low + high >> 1
        if Range.from_address(block.ranges + middle * ctypes.sizeof(Range)).base > address:
            high = middle
        else:
            low = middle + 1
    if not low:
        return 0
    row = Range.from_address(block.ranges + (low - 1) * ctypes.sizeof(Range))
    offset = address - row.base
    if (size <= row.length) & (offset <= row.length - size) & (row.writable >= write):
        return row.host + offset
    return 0


# ---- FILL --------------------------------------------------------------------------------------------------------


@native
def begun(block: Block, words: int) -> int:
    """Choices `fill-slot`, `fill-partial`, `fill-translation`, `fill-nothing`: all that a FILL will write, in `pieces`.

    The pieces end where a page is absent. DONE, or what is missing or wrong.
    """
    block.value, block.slot, block.begin = V32[words + 4], V32[words + 8], V32[words + 12]
    block.length = V32[words + 16]
    block.last, block.entry = block.pieces, 0
    if block.slot >= ACCELDEV_NUM_BUFFERS:
        return UNBOUND
    place = block.slots + SLOT_BYTES * block.slot
    if not block.slots:
        place = reached(block, block.record + SLOT_BYTES * block.slot, SLOT_BYTES)
        if not place:
            asked(block, SLOT, block.record + SLOT_BYTES * block.slot, SLOT_BYTES, 0)
            return SLOT
    table = V64[place]
    if not table:
        return UNBOUND
    block.used |= 1 << block.slot
    block.table = table
    block.stop = block.begin
    if block.length:
        if table > MAX_TABLE or table & PAGE_MASK:
            return TABLE
        end = min(block.begin + block.length, BUFFER_BYTES)
        if block.begin < end:
            first = block.begin >> PAGE_BITS
            size = PTE_BYTES * ((end - 1 >> PAGE_BITS) + 1 - first)
            entries = reached(block, table + PTE_BYTES * first, size)
            if not entries:
                asked(block, ENTRIES, table + PTE_BYTES * first, size, block.begin)
                return ENTRIES
            listed(block, entries, end)
    block.next = block.pieces
    return DONE


@inlined
def listed(block: Block, entries: int, end: int) -> None:
    """Put the memory from `begin` up to `end` into `pieces`, what lies side by side as one."""
    virtual, last, behind, along = block.begin, block.pieces - ctypes.sizeof(Piece), 0, 0
    while virtual < end:
        entry = V32[entries]
        if not entry & PTE_PRESENT:
            block.entry = entry
            break
        size = min(ACCELDEV_PAGE_SIZE - (virtual & PAGE_MASK), end - virtual)
        address = physical(entry) | virtual & PAGE_MASK
        host = shared(block, address, size, 1)
        if not host or host != behind or address != along:
            last += ctypes.sizeof(Piece)
            new = Piece.from_address(last)
            new.place, new.address, new.size, new.offset = host, address, 0, virtual - block.begin
            new.elsewhere = host == 0
        piece = Piece.from_address(last)
        piece.size += size
        behind = host + size if host else 0
        along = address + size
        virtual += size
        entries += PTE_BYTES
    block.last, block.stop = last + ctypes.sizeof(Piece), virtual


@native
def written(block: Block) -> int:
    """Choice `fill-alignment`: write the pieces that are left. DONE, or what Python has to do."""
    while block.next < block.last:
        piece = Piece.from_address(block.next)
        block.next += ctypes.sizeof(Piece)
        value = turned(block.value, piece.offset & 3)
        if piece.elsewhere:
            block.entry = value
            asked(block, STORE, piece.address, piece.size, block.begin + piece.offset)
            return STORE
        fill_piece(piece.place, piece.place + piece.size, value)
    block.next = 0
    block.virtual = block.stop
    return ABSENT if block.stop < block.begin + block.length else DONE


@inlined
def turned(value: int, count: int) -> int:
    """A value that begins with its byte `count`, 0 to 4."""
    return (value >> 8 * count | value << 32 - 8 * count) & 0xFFFF_FFFF


@native
def fill_piece(at: int, end: int, value: int) -> None:
    """Set bytes to a repeated dword."""
    if value == (value & 0xFF) * 0x0101_0101:
        fill(at, value, end - at)
        return
    if end - at >= 2 * LINE:
        fill_lines(at, value, 1)
        aligned = at + LINE & -LINE
        value = turned(value, aligned - at & 3)
        at = aligned
        fill_lines(at, value, end - at >> LINE_BITS)
        at = end & -LINE
    while at < end:
        U8[at] = value
        value = turned(value, 1)
        at += 1


@cache
def code() -> llvm.Code:
    """All of it, linked into this process."""
    return link(ObjectCache(default_folder()), commands)
