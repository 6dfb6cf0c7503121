"""User commands as native code: NOPs, FENCEs and FILLs of plain memory, one after the other.

Page tables, slots and code may be changed by anybody at any time: each word is read once, as it is used.
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
    PTE_FRAME_MASK,
    PTE_PRESENT,
    PTE_SHIFT,
    USER_CMD_BYTES,
    WORD_BYTES,
    UserCmdType,
)
from understudy.device.acceldev.pages import PAGE_BITS
from understudy.device.acceldev.registers import (
    ACCELDEV_NUM_BUFFERS,
    ACCELDEV_PAGE_SIZE,
    ACCELDEV_USER_CMD_WORDS,
    Interrupt,
)
from understudy.ir import llvm
from understudy.ir.native import A32, U8, U32, V32, V64, fill, fill_line, inlined, layout, link, native
from understudy.ir.object_cache import ObjectCache, default_folder

LINE: Final = 64
NOWHERE: Final = (1 << 64) - 1
"""In place of a physical address where a page is not present."""


@layout
class Block(ctypes.Structure):
    """What Python and machine code share; places are addresses in this process."""

    code_table: int
    record: int
    start: int
    """Of the code: virtual address of command 0."""
    position: int
    end: int
    ranges: int
    count: int
    runs: int
    """Room for the pieces of memory that one FILL writes."""
    split: int
    """Room for a command that straddles a page."""
    filled: int
    budget: int
    used: int
    counter: int
    """The context's fence_counter; 0: FENCEs are not for us."""
    intr: int
    fences: int
    due: int


@layout
class Range(ctypes.Structure):
    """Memory that is shared: physical address, bytes, address in this process, whether it may be written."""

    base: int
    length: int
    host: int
    writable: int


@layout
class Piece(ctypes.Structure):
    """Memory of this process from `begin` to before `end`."""

    begin: int
    end: int


@native
def commands(block: Block) -> None:
    """Execute the commands from `position` on, up to one that is not plain, a FENCE that is due, or the budget."""
    at, filled, fences, due = block.position, 0, 0, 0
    while at < block.end and filled < block.budget and not due:
        words = fetched(block, block.start + at * USER_CMD_BYTES)
        if not words:
            break
        kind = V32[words] & CMD_TYPE_MASK
        if kind == UserCmdType.FENCE:
            if not block.counter:
                break
            A32.add(block.counter, 1)
            fences += 1
            due = A32.load(block.intr) & Interrupt.USER_FENCE_WAIT == 0
        elif kind == UserCmdType.FILL:
            value, slot, begin = V32[words + 4], V32[words + 8], V32[words + 12]
            length = V32[words + 16]
            if not fills(block, value, slot, begin, length):
                break
            filled += length
        elif kind != UserCmdType.NOP:
            break
        at += 1
    block.position, block.fences, block.due, block.filled = at, fences, due, filled


@inlined
def fetched(block: Block, virtual: int) -> int:
    """Where the words of a command stand; 0 where they cannot be read."""
    if virtual > BUFFER_BYTES - USER_CMD_BYTES:
        return 0
    if virtual & PAGE_MASK <= ACCELDEV_PAGE_SIZE - USER_CMD_BYTES:
        return found(block, physical(block.code_table, virtual), USER_CMD_BYTES, 0)
    for word in range(ACCELDEV_USER_CMD_WORDS):
        host = found(block, physical(block.code_table, virtual + WORD_BYTES * word), WORD_BYTES, 0)
        if not host:
            return 0
        U32[block.split + WORD_BYTES * word] = V32[host]
    return block.split


@inlined
def physical(table: int, virtual: int) -> int:
    """Through a page table at an address of this process."""
    entry = V32[table + WORD_BYTES * (virtual >> PAGE_BITS)]
    return (entry & PTE_FRAME_MASK) << PTE_SHIFT | virtual & PAGE_MASK if entry & PTE_PRESENT else NOWHERE


@native
def found(block: Block, address: int, size: int, write: int) -> int:
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


@native
def fills(block: Block, value: int, slot: int, begin: int, length: int) -> int:
    """Execute a FILL whose pages are all there; 0 where one is not, or anything is wrong, and nothing was written."""
    if slot >= ACCELDEV_NUM_BUFFERS:
        return 0
    pointer = V64[block.record + 8 * slot]
    if not pointer:
        return 0
    if length:
        if begin + length > BUFFER_BYTES or pointer > MAX_TABLE or pointer & PAGE_MASK:
            return 0
        table = found(block, pointer, ACCELDEV_PAGE_SIZE, 0)
        if not table:
            return 0
        behind = pieces(block, table, begin, begin + length)
        if not behind:
            return 0
        turn = 0
        for at in range(block.runs, behind, ctypes.sizeof(Piece)):
            piece = Piece.from_address(at)
            fill_piece(piece.begin, piece.end, turned(value, turn & 3))
            turn += piece.end - piece.begin
    block.used |= 1 << slot
    return 1


@inlined
def pieces(block: Block, table: int, virtual: int, finish: int) -> int:
    """Put the memory of a buffer's bytes into `runs`, what lies side by side as one; the end of the list, or 0."""
    last, end = block.runs - ctypes.sizeof(Piece), 0
    while virtual < finish:
        size = min(ACCELDEV_PAGE_SIZE - (virtual & PAGE_MASK), finish - virtual)
        host = found(block, physical(table, virtual), size, 1)
        if not host:
            return 0
        if host != end:
            last += ctypes.sizeof(Piece)
            Piece.from_address(last).begin = host
        end = host + size
        Piece.from_address(last).end = end
        virtual += size
    return last + ctypes.sizeof(Piece)


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
        fill_line(at, value)
        aligned = at + LINE & -LINE
        value = turned(value, aligned - at & 3)
        at = aligned
        while at + LINE <= end:
            fill_line(at, value)
            at += LINE
    while at < end:
        U8[at] = value
        value = turned(value, 1)
        at += 1


@cache
def code() -> llvm.Code:
    """All of it, linked into this process."""
    return link(ObjectCache(default_folder()), commands)
