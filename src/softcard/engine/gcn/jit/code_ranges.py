"""Code as ranges of bytes at guest addresses: the input of a translation.

Such ranges are compared with memory to check that it still holds the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from softcard.core.errors import GuestFault
from softcard.engine.gcn.jit.basics import Fetch
from softcard.engine.gcn.memory import GpuMemory

if TYPE_CHECKING:
    from softcard.isa.gcn.insn import Insn
    from softcard.isa.gcn.target import Target

CodeRanges = list[tuple[int, bytes]]


def holds(code_ranges: CodeRanges, memory: GpuMemory) -> bool:
    """Return True if plain memory holds the bytes of all these ranges."""
    for address, data in code_ranges:
        plain = memory.plain(address, len(data))
        if plain is None or plain.view[address - plain.base : address - plain.base + len(data)] != data:
            return False
    return True


def joined(code: Mapping[int, bytes]) -> CodeRanges:
    """Return the contiguous ranges of code that instructions form. `code` has their bytes by address."""
    code_ranges: CodeRanges = []
    for pc, data in sorted(code.items()):
        start, before = code_ranges[-1] if code_ranges else (-1, b"")
        if pc == start + len(before):
            code_ranges[-1] = start, before + data
        else:
            code_ranges.append((pc, data))
    return code_ranges


def fetch_of(target: Target, code_ranges: CodeRanges) -> Fetch:
    """Return a function that decodes the instruction at an address in these ranges.

    It raises a fault for other addresses.
    """
    from softcard.isa.gcn.encoding.decode import decode
    from softcard.isa.gcn.encoding.formats import LONGEST

    def fetch(pc: int) -> Insn:
        for address, data in code_ranges:
            if address <= pc < address + len(data):
                return decode(target, data[pc - address : pc - address + LONGEST], pc)
        raise GuestFault("no code was translated here").at("pc", pc)

    return fetch
