"""Many small commands at once: the plain ones of a buffer, executed by machine code.

NOP, WRITE_REG64 and LOAD_REG64 of the registers without effects, STORE_REG64 and STORE_IMM64 into plain memory mean
the same here as in `cmp`, which judges: everything else, and everything that is not right, is left to it with
nothing of the command done. A test holds the two together. Nobody may be listening, since no events are made.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from understudy.device.refsi import registers as r
from understudy.device.refsi.commands import Opcode
from understudy.device.refsi.interfaces import Extent
from understudy.ir import llvm
from understudy.ir.native import U64, V64, inlined, layout, link, native
from understudy.ir.object_cache import ObjectCache, default_folder

MAX_EXTENTS: Final = 16
ACCESS_CODES: Final = {"read": 0, "write": 1}
READ, WRITE = ACCESS_CODES["read"], ACCESS_CODES["write"]
STOPPED, OUTSIDE = 0, 1
"""Results: at `position` is a command for somebody else; the command there needs the memory at `address`."""

PLAIN_REGISTERS: Final = r.RETURN_ADDR.offset + 1
"""Registers 0 up to this have no effect when written."""


@layout
class Block(ctypes.Structure):
    """What Python and machine code share: host addresses, positions in chunks, and what was done."""

    words: int
    position: int
    end: int
    registers: int
    done: int
    extents: int
    count: int
    low: int
    """First byte written, as a host address."""
    high: int
    """Behind the last one; 0: nothing was written."""
    mask: int
    """Bits of a header that decide whether it is one, and for a plain command."""
    address: int


@layout
class Row(ctypes.Structure):
    """A known extent: first address, bytes in it behind a register's, host minus device address, and the access.

    What may not be read may yet be written, or somewhere else.
    """

    start: int
    room: int
    addend: int
    access: int


@inlined
def reach(block: Block, address: int, access: int) -> int:
    """Host address of the 8 bytes at a device address; 0 where no extent holds them, which is noted."""
    for i in range(block.count):
        row = Row.from_address(block.extents + i * ctypes.sizeof(Row))
        if (address - row.start <= row.room) & (row.access == access):
            return row.addend + address
    block.address = address
    return 0


@native
def commands(block: Block) -> int:
    """Execute plain commands from `position` on; why the first other one was left."""
    words, registers = U64.at(block.words), U64.at(block.registers)
    at, done, end, mask, why = block.position, block.done, block.end, block.mask, STOPPED
    while at < end:
        header = words[at]
        inline, opcode, chunks = header >> 32, header >> 8 & 0xFF, header >> 17 & 0x1FFF
        if header & mask != 0xC000_0000 or at + 1 + chunks > end:
            break
        if chunks == 0:
            if opcode != Opcode.NOP:
                break
            at, done = at + 1, done + 1
            continue
        if chunks > 1 or (opcode != Opcode.STORE_IMM64 and inline >= PLAIN_REGISTERS):
            break
        if opcode == Opcode.WRITE_REG64:
            registers[inline] = words[at + 1]
        elif opcode == Opcode.LOAD_REG64:
            address = words[at + 1]
            if address & 7:
                break
            host = reach(block, address, READ)
            if not host:
                why = OUTSIDE
                break
            registers[inline] = V64[host]
        elif opcode == Opcode.STORE_REG64 or opcode == Opcode.STORE_IMM64:
            address, value = inline, words[at + 1]
            if opcode == Opcode.STORE_REG64:
                address, value = value, registers[inline]
            if address & 7:
                break
            host = reach(block, address, WRITE)
            if not host:
                why = OUTSIDE
                break
            V64[host] = value
            block.low = min(block.low, host)
            block.high = max(block.high, host + 8)
        else:
            break
        at, done = at + 2, done + 1
    block.position, block.done = at, done
    return why


@cache
def _code() -> llvm.Code:
    return link(ObjectCache(default_folder()), commands)


class Bulk:
    """Runs the plain commands of one device.

    `direct(address, access)` gives the extent around an address that the command processor reaches as plain memory
    ("read" or "write"), or None; `written(host, size)` is told which memory of this process was written. `lax`: the
    reference driver's reading of headers.
    """

    def __init__(
        self,
        registers: memoryview[int],
        direct: Callable[[int, str], Extent | None],
        written: Callable[[int, int], None],
        lax: bool,
    ) -> None:
        self._direct = direct
        self._written = written
        self._block = Block()
        self._extents = (Row * MAX_EXTENTS)()
        self._block.registers = np.frombuffer(registers, dtype=np.uint64).ctypes.data
        self._block.extents = ctypes.addressof(self._extents)
        self._block.mask = 0xC000_00FF if lax else 0xC001_00FF
        self._run = _code().function("commands", ctypes.c_uint64, ctypes.POINTER(Block))

    def run(self, words: memoryview[int], chunk: int, end: int) -> tuple[int, int]:
        """Execute plain commands from `chunk` on; the chunk of the first other one, and how many were done.

        Other commands move windows, so every run looks addresses up anew.
        """
        block = self._block
        block.count = 0
        block.words = np.frombuffer(words, dtype=np.uint64).ctypes.data
        block.position, block.end, block.done = chunk, end, 0
        block.low, block.high = (1 << 64) - 1, 0
        while self._run(block) == OUTSIDE and self._learn(block.address, words[block.position]):
            pass
        if block.high:
            self._written(block.low, block.high - block.low)
        return block.position, block.done

    def _learn(self, address: int, header: int) -> bool:
        """Add the extent around `address`; False where there is none."""
        access = "read" if header >> 8 & 0xFF == Opcode.LOAD_REG64 else "write"
        found = self._direct(address, access)
        if found is None or not found[0] <= address <= found[1] - r.REGISTER_BYTES:
            return False
        start, end, addend = found
        count = self._block.count
        if count == MAX_EXTENTS:
            count = 0
        self._extents[count] = Row(start, end - start - r.REGISTER_BYTES, addend, ACCESS_CODES[access])
        self._block.count = count + 1
        return True
