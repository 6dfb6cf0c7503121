"""The execution of user commands: a native function, which runs as machine code or as Python, and its callers.

A call of machine code releases the GIL, unless the previous call was brief. In that case, the GIL is held,
and the call executes only a few commands. The reason is the switch interval of Python. A thread that waits
for the GIL wakes up at each release, and requests a switch only if there was no release within the switch
interval. If a thread often released the GIL for less time than a wake-up takes, all other threads would
starve."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from softcard.core.pci import DirectRange
from softcard.device.acceldev.commands import (
    BUFFER_BYTES,
    CMD_TYPE_MASK,
    FENCE_COUNTER,
    MAX_TABLE,
    PAGE_MASK,
    PTE_BYTES,
    PTE_FRAME_MASK,
    PTE_PRESENT,
    PTE_SHIFT,
    PTES,
    SLOT_BYTES,
    USER_CMD_BYTES,
    WORD_BYTES,
    UserCmdType,
)
from softcard.device.acceldev.contexts import Run
from softcard.device.acceldev.memory import PAGE_BITS, Memory
from softcard.device.acceldev.registers import ACCELDEV_NUM_BUFFERS, ACCELDEV_PAGE_SIZE, Interrupt
from softcard.ir import llvm
from softcard.ir.native import A32, U8, V32, V64, copy, fill, fill_lines, inlined, layout, link, native
from softcard.ir.object_cache import ObjectCache, default_folder

# ---- machine code ----------------------------------------------------------------------------------------------------
# The execution of user commands: one native function, which runs as machine code or as Python.
#
# It executes NOPs, FENCEs and FILLs one after another. If it cannot access memory itself, it returns with a request and
# is called again with the data. It does not report errors itself: it leaves the command undone, and Python makes the
# error. Page tables, slots and code may change at any time: each word is read when it is used, and not cached between
# two commands.
#
# A FENCE counts, then reads INTR: if its interrupt is active already, raising it changes nothing; else the call ends
# after that FENCE, and the interrupt is due. Counting is an atomic operation: a driver that clears INTR and then reads
# the counter finds the FENCE counted, or gets the interrupt.


DONE, REPORT, COUNT, ENTRIES, CODE, SLOT, STORE, UNKNOWN, UNBOUND, TABLE, ABSENT = range(11)
"""The reasons for which the native function `commands` returns.

- DONE: all commands of the call are executed.
- REPORT: the command's event must be sent to subscribers.
- COUNT: a FENCE must be counted by Python.
- ENTRIES, CODE, SLOT: `size` bytes must be read at `address`: of the page table at `table`, of the code at `virtual`,
  or of a context's slots.
- STORE: the FILL must store `size` bytes at `address`.
- UNKNOWN: the command is unknown.
- UNBOUND: no buffer is bound to the command's slot.
- TABLE: `table` is not a valid page table address.
- ABSENT: the page table has no page for `virtual`; its entry is `entry`.
"""

SWAPPED: Final = (UserCmdType.FENCE | UserCmdType.FILL) << 24
"""The type bits of FENCE and FILL in headers whose bytes are in big-endian order."""
LINE_BITS: Final = 6
LINE: Final = 1 << LINE_BITS
MAX_EVENTS_GIVEN: Final = 8
NOWHERE: Final = (1 << 64) - 1
"""The value that the native functions return instead of a physical address that is unknown."""


@layout
class Block(ctypes.Structure):
    """The state that Python and the native function `commands` share.

    Addresses are in this process unless described otherwise.
    """

    start: int
    """The virtual address of the RUN's first user command in the code buffer."""
    position: int
    end: int
    budget: int
    """The number of bytes set by FILL commands after which the call ends."""
    filled: int
    used: int
    """A bit mask of the slots that FILL commands have used."""
    swapped: int
    """1 if there are NOPs with a nonzero header, and all such headers are FENCE or FILL in big-endian order; else 0."""
    code_table: int
    """The physical address of the code buffer's page table."""
    entries: int
    """The address of the entries of the code buffer's page table; 0 if they must be requested from Python."""
    record: int
    """The physical address of the context's record."""
    slots: int
    """The address of the slots in the context's record; 0 if they must be requested from Python."""
    counter: int
    """The address of ``fence_counter`` in the context's record; 0 if Python must increment it."""
    intr: int
    listens: int
    """Nonzero if the event of each command must be sent to subscribers before the command takes effect."""
    is_announced: int
    """Nonzero if the event of the current command has been sent to subscribers."""
    every: int
    """Nonzero if an interrupt is raised for each FENCE."""
    fences: int
    counted: int
    """The value of ``fence_counter`` after the last FENCE that was executed."""
    served: int
    """Nonzero if Python has incremented ``fence_counter`` for the current FENCE."""
    due: int
    ranges: int
    count: int
    gift_count: int
    """The number of memory ranges that Python has read on request for the current command and the NOPs before it."""
    gifts: int
    split: int
    """The address of a buffer that holds a copy of one command, such as one that crosses a page boundary."""
    words: int
    """The address of the words of the current command; 0 until they are read."""
    pieces: int
    """The address of an array of `Piece` structures, which describe the memory that one FILL writes."""
    next: int
    """The address of the first `Piece` that is not yet written; 0 if the FILL has not begun to write."""
    last: int
    """The address after the last `Piece` of the FILL."""
    stop: int
    """The virtual address at the end of the memory that the FILL's `Piece` structures describe."""
    value: int
    slot: int
    begin: int
    length: int
    """The number of bytes that the current FILL sets."""
    table: int
    address: int
    size: int
    virtual: int
    entry: int
    why: int


@layout
class Range(ctypes.Structure):
    """A range of accessible memory: its physical address, its size in bytes, and its address in this process.

    A flag is nonzero if the range is writable.
    """

    base: int
    length: int
    host: int
    writable: int


@layout
class Piece(ctypes.Structure):
    """A contiguous memory range that a FILL writes: `size` bytes at physical `address`.

    The range begins at byte `offset` of the FILL. `place` is the address of the range in this process. If
    `elsewhere` is nonzero, the range has no such address, and Python must write it."""

    place: int
    address: int
    size: int
    offset: int
    elsewhere: int


@native
def commands(block: Block) -> int:
    """Execute user commands from number `block.position` on; return the reason for the return, such as DONE.

    Execution stops at the end, at an action that Python must perform (such as DMA), at an error, or at a FENCE
    whose interrupt must be raised."""
    at, end, filled, fences, due, why, odd = block.position, block.end, 0, 0, 0, DONE, 0
    words, listens, is_announced = block.words, block.listens, block.is_announced
    is_kept = 1 if listens or not block.counter else 0
    while at < end and filled < block.budget and not due:
        if not words:
            words = fetched(block, block.start + at * USER_CMD_BYTES, end - at, is_kept)
            if not words:
                why = block.why
                break
        header = V32[words]
        kind = header & CMD_TYPE_MASK
        if kind > UserCmdType.FILL:
            why = UNKNOWN
            break
        if listens > is_announced:
            is_announced, why = 1, REPORT
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
            block.gift_count = 0
        elif kind == UserCmdType.FILL:
            why = DONE if block.next else begun(block, words)
            if not why:
                why = written(block)
            if why:
                break
            filled += block.length
            block.gift_count = 0
        else:
            odd |= header  # checked after the loop, since a comparison for each NOP would cost more
        words, is_announced = 0, 0
        at += 1
    block.swapped = 1 if odd and odd == odd & SWAPPED else 0
    block.position, block.fences, block.due, block.filled = at, fences, due, filled
    block.words, block.is_announced = words, is_announced
    return why


# ---- reading -----------------------------------------------------------------------------------------------------


@inlined
def fetched(block: Block, virtual: int, ahead: int, is_kept: int) -> int:
    """Return the address of the words of the user command at virtual address `virtual` of the code buffer.

    Return 0 if the words are not available; `block.why` is then the reason. If Python must read them, it is
    asked to read up to `ahead` commands. If `is_kept` is nonzero, the words are copied, so that later writes to
    memory do not change them."""
    left = ACCELDEV_PAGE_SIZE - (virtual & PAGE_MASK)
    if left < USER_CMD_BYTES:
        return straddling(block, virtual, left)
    first = located(block, virtual)
    if first == NOWHERE:
        return 0
    found = reached(block, first, USER_CMD_BYTES)
    if not found:
        return request(block, CODE, first, min(ahead, left // USER_CMD_BYTES) * USER_CMD_BYTES, virtual)
    if is_kept:
        copy(block.split, found, USER_CMD_BYTES)
        found = block.split
    return found


@native
def straddling(block: Block, virtual: int, left: int) -> int:
    """Return the address of a copy of the command at `virtual`, which lies on two pages.

    The first page has its first `left` bytes. Return 0 if the words are not available; `block.why` is then the
    reason."""
    first = located(block, virtual)
    if first == NOWHERE:
        return 0
    second = located(block, virtual + left)
    if second == NOWHERE:
        return 0
    found = reached(block, first, left)
    if not found:
        return request(block, CODE, first, left, virtual)
    rest = reached(block, second, USER_CMD_BYTES - left)
    if not rest:
        return request(block, CODE, second, USER_CMD_BYTES - left, virtual + left)
    copy(block.split, found, left)
    copy(block.split + left, rest, USER_CMD_BYTES - left)
    return block.split


@inlined
def located(block: Block, virtual: int) -> int:
    """Return the physical address of the byte at virtual address `virtual` of the code buffer.

    Return NOWHERE if the address is unknown; `block.why` is then the reason."""
    place = block.entries + PTE_BYTES * (virtual >> PAGE_BITS)
    if virtual >= BUFFER_BYTES:
        return absent(block, virtual, 0)
    if not block.entries:
        address = block.code_table + PTE_BYTES * (virtual >> PAGE_BITS)
        place = reached(block, address, PTE_BYTES)
        if not place:
            block.table = block.code_table
            request(block, ENTRIES, address, PTE_BYTES, virtual)
            return NOWHERE
    entry = V32[place]
    return physical(entry) | virtual & PAGE_MASK if entry & PTE_PRESENT else absent(block, virtual, entry)


@native
def absent(block: Block, virtual: int, entry: int) -> int:
    """Set `block.why` to ABSENT, since the code buffer has no page at `virtual`; return NOWHERE.

    `entry` is the word of the page table entry, which is not present; it is stored for the error message."""
    block.table, block.virtual, block.entry, block.why = block.code_table, virtual, entry, ABSENT
    return NOWHERE


@inlined
def physical(entry: int) -> int:
    """Return the physical address of the page that the page table entry `entry` refers to."""
    return (entry & PTE_FRAME_MASK) << PTE_SHIFT


@native
def request(block: Block, why: int, address: int, size: int, virtual: int) -> int:
    """Ask Python to access `size` bytes at physical `address`: store the request in `block`, and return 0.

    `why` is the kind of request, such as CODE, and `virtual` the virtual address of the bytes."""
    block.address, block.size, block.virtual, block.why = address, size, virtual, why
    return 0


@inlined
def reached(block: Block, address: int, size: int) -> int:
    """Return the address in this process of `size` readable bytes at physical `address`.

    They are in shared memory, or Python has read them on request. Otherwise return 0: a request must be made."""
    if block.gift_count:
        for number in range(block.gift_count):
            gift = Range.from_address(block.gifts + number * ctypes.sizeof(Range))
            offset = address - gift.base
            if (size <= gift.length) & (offset <= gift.length - size):
                return gift.host + offset
    return shared(block, address, size, 0)


@native
def shared(block: Block, address: int, size: int, write: int) -> int:
    """Return the address in this process of `size` bytes at physical `address`.

    Return 0 if they are not in shared memory that permits the access. `write` is 1 for a write, 0 for a read.
    """
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
    """Begin a FILL with the given `words`: store all memory ranges that it will write in `block.pieces`.

    Return DONE, or the reason for a request or an error. The list ends before the first page that is not
    present. See the choices `fill-slot`, `fill-partial`, `fill-translation` and `fill-nothing`."""
    block.value, block.slot, block.begin = V32[words + 4], V32[words + 8], V32[words + 12]
    block.length = V32[words + 16]
    block.last, block.entry = block.pieces, 0
    if block.slot >= ACCELDEV_NUM_BUFFERS:
        return UNBOUND
    place = block.slots + SLOT_BYTES * block.slot
    if not block.slots:
        place = reached(block, block.record + SLOT_BYTES * block.slot, SLOT_BYTES)
        if not place:
            request(block, SLOT, block.record + SLOT_BYTES * block.slot, SLOT_BYTES, 0)
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
                request(block, ENTRIES, table + PTE_BYTES * first, size, block.begin)
                return ENTRIES
            listed(block, entries, end)
    block.next = block.pieces
    return DONE


@inlined
def listed(block: Block, entries: int, end: int) -> None:
    """Store the memory ranges of the virtual addresses from `block.begin` to `end` in `block.pieces`.

    `entries` is the address of the page table entry of the first page. Adjacent ranges are merged."""
    virtual, last, host_end, end_address = block.begin, block.pieces - ctypes.sizeof(Piece), 0, 0
    while virtual < end:
        entry = V32[entries]
        if not entry & PTE_PRESENT:
            block.entry = entry
            break
        size = min(ACCELDEV_PAGE_SIZE - (virtual & PAGE_MASK), end - virtual)
        address = physical(entry) | virtual & PAGE_MASK
        host = shared(block, address, size, 1)
        if not host or host != host_end or address != end_address:
            last += ctypes.sizeof(Piece)
            new = Piece.from_address(last)
            new.place, new.address, new.size, new.offset = host, address, 0, virtual - block.begin
            new.elsewhere = host == 0
        piece = Piece.from_address(last)
        piece.size += size
        host_end = host + size if host else 0
        end_address = address + size
        virtual += size
        entries += PTE_BYTES
    block.last, block.stop = last + ctypes.sizeof(Piece), virtual


@native
def written(block: Block) -> int:
    """Write the remaining memory ranges of the current FILL (choice `fill-alignment`).

    Return DONE if all are written, STORE if Python must write a range, or ABSENT if the next page is not present."""
    while block.next < block.last:
        piece = Piece.from_address(block.next)
        block.next += ctypes.sizeof(Piece)
        value = rotated(block.value, piece.offset & 3)
        if piece.elsewhere:
            block.entry = value
            request(block, STORE, piece.address, piece.size, block.begin + piece.offset)
            return STORE
        fill_piece(piece.place, piece.place + piece.size, value)
    block.next = 0
    block.virtual = block.stop
    return ABSENT if block.stop < block.begin + block.length else DONE


@inlined
def rotated(value: int, count: int) -> int:
    """Return the 32-bit `value` rotated right by `count` bytes, 0 to 4."""
    return (value >> 8 * count | value << 32 - 8 * count) & 0xFFFF_FFFF


@native
def fill_piece(at: int, end: int, value: int) -> None:
    """Fill the memory of this process from address `at` up to `end` with the repeated dword `value`."""
    if value == (value & 0xFF) * 0x0101_0101:
        fill(at, value, end - at)
        return
    if end - at >= 2 * LINE:
        fill_lines(at, value, 1)
        aligned = at + LINE & -LINE
        value = rotated(value, aligned - at & 3)
        at = aligned
        fill_lines(at, value, end - at >> LINE_BITS)
        at = end & -LINE
    while at < end:
        U8[at] = value
        value = rotated(value, 1)
        at += 1


@cache
def linked() -> llvm.Code:
    """Return the function `commands`, and all functions that it calls, as machine code loaded into this process."""
    return link(ObjectCache(default_folder()), commands)


# ---- the Python side -------------------------------------------------------------------------------------------------


FEW_RANGES: Final = 64
"""The initial capacity of the table of shared memory ranges, which can grow."""
QUANTUM_BYTES: Final = 16 << 20
"""The number of bytes set by FILL commands after which a call of native code ends.

The limit ensures that a reset or a debugger never waits for long.
"""
BRIEF: Final = 256
"""The maximum number of user commands in a brief call of native code."""
BRIEF_BYTES: Final = 64 << 10
"""The number of bytes set by FILL commands after which a brief call of native code ends."""
SOME: Final = 16
"""The maximum number of user commands that are executed before other threads can use the device.

It applies to commands executed as Python, and to those whose events have subscribers.
"""


class Machine:
    """The executor of one device's user commands, by calls of the function `commands`.

    The function runs as Python until `compile` is called, and then as machine code.
    `intr_address` is the address, in this process, of the device's INTR register."""

    def __init__(self, memory: Memory, intr_address: int) -> None:
        self._memory = memory
        self.block = block = Block()
        self._split = (ctypes.c_uint8 * USER_CMD_BYTES)()
        self._rows = (Range * FEW_RANGES)()
        self._pieces = (Piece * (PTES + 1))()
        self._gifts = (Range * MAX_EVENTS_GIVEN)()
        self._alive: list[ctypes.Array[ctypes.c_uint8]] = []
        """The buffers that the memory ranges in `_gifts` refer to; this list keeps them alive."""
        self._ranges: tuple[DirectRange, ...] | None = None
        """The shared memory ranges in the table of `block`, kept alive here; None if the table may be old."""
        block.split, block.ranges = ctypes.addressof(self._split), ctypes.addressof(self._rows)
        block.pieces, block.gifts = ctypes.addressof(self._pieces), ctypes.addressof(self._gifts)
        block.intr = intr_address
        self._free: Callable[[Block], int] = commands
        self._brief: Callable[[Block], int] = commands
        self._is_brief = False
        self.is_compiled = False

    def compile(self) -> None:
        """Compile the user commands' native function; all further calls run it as machine code."""
        code = linked()
        self._free = code.function("commands", ctypes.c_uint64, ctypes.POINTER(Block))
        self._brief = ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.POINTER(Block))(code.address("commands"))
        self.is_compiled = True

    def forget(self) -> None:
        """Release all shared memory ranges, from any thread.

        A call in progress keeps the memory that it uses alive.
        """
        self._ranges = None

    @property
    def words(self) -> bytes:
        """The words of the user command at which the native function returned, because Python has to handle it."""
        return ctypes.string_at(self.block.words, USER_CMD_BYTES)

    def open(self, run: Run) -> None:
        """Prepare to execute the next user command of `run`."""
        block = self.block
        block.start, block.position = run.command.offset, run.position
        block.code_table, block.record = run.command.table, run.context.address
        block.words = block.is_announced = block.next = block.served = block.gift_count = 0
        self._place()

    def run(self, end: int, *, listens: bool, every: bool) -> int:
        """Execute user commands up to number `end` at most; return the native function's result.

        The result is the reason why the function returned, such as DONE. With `listens`, it returns before each
        command, for an event. With `every`, it returns at each FENCE, for an interrupt."""
        block, ranges = self.block, self._memory.ranges
        if ranges is not self._ranges:
            self._learn(ranges)
        block.listens, block.every, block.used, block.count = listens, every, 0, len(ranges)
        why = self._call(end)
        if block.words and block.words != block.split:  # the ranges may be gone when the run continues
            ctypes.memmove(block.split, block.words, USER_CMD_BYTES)
            block.words = block.split
        if self._memory.ranges is not ranges:  # until now they had to be referenced
            self.forget()
        return why

    def give(self, address: int, data: bytes) -> None:
        """Provide memory content that the native function has requested: `data`, from physical `address`."""
        block = self.block
        if block.gift_count == MAX_EVENTS_GIVEN:
            block.gift_count = 0
        if not block.gift_count:
            self._alive.clear()
        kept = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        self._alive.append(kept)
        self._gifts[block.gift_count] = Range(address, len(data), ctypes.addressof(kept), 0)
        block.gift_count += 1

    def _call(self, end: int) -> int:
        block = self.block
        position = block.position
        if not self.is_compiled:
            block.end, block.budget = min(end, position + SOME), BRIEF_BYTES
            return self._free(block)
        if self._is_brief:
            block.end, block.budget = min(end, position + BRIEF), BRIEF_BYTES
            why = self._brief(block)
        else:
            block.end, block.budget = end, QUANTUM_BYTES
            why = self._free(block)
        self._is_brief = block.position - position < BRIEF and block.filled < BRIEF_BYTES
        return why

    def _learn(self, ranges: tuple[DirectRange, ...]) -> None:
        """Store the shared memory ranges in the table that the native function reads.

        `self._ranges` keeps the memory alive."""
        self._ranges = ranges
        if len(ranges) > len(self._rows):
            self._rows = (Range * (2 * len(ranges)))()
            self.block.ranges = ctypes.addressof(self._rows)
        for number, each in enumerate(ranges):
            host = np.frombuffer(each.view, dtype=np.uint8).ctypes.data if each.view.nbytes else 0
            self._rows[number] = Range(each.base, each.view.nbytes, host, not each.view.readonly)
        for at in range(self.block.next, self.block.last, ctypes.sizeof(Piece)) if self.block.next else ():
            Piece.from_address(at).elsewhere = 1  # found in other ranges
        self._place()

    def _place(self) -> None:
        """Store the addresses, in this process, of the memory that every command needs.

        These are the entries of the code buffer's page table, the slots, and the context's fence counter."""
        block, host_range = self.block, self._memory.host_range
        block.entries = host_range(block.code_table, ACCELDEV_PAGE_SIZE) or 0
        block.slots = host_range(block.record, ACCELDEV_NUM_BUFFERS * SLOT_BYTES) or 0
        counter = host_range(block.record + FENCE_COUNTER, WORD_BYTES, write=True) or 0
        block.counter = 0 if counter % WORD_BYTES else counter  # an unaligned counter cannot be incremented atomically
