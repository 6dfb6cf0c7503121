"""The interface between translated code and its users, and code as ranges of bytes.

The module does not import the translator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from softcard.core.errors import GuestFault
from softcard.engine.gcn.memory import GpuMemory

if TYPE_CHECKING:
    from softcard.isa.gcn.insn import Insn
    from softcard.isa.gcn.target import Target


BlockKey = tuple[int, int]
"""The key of a block of translated code: a guest address and the value of MODE."""
Fetch = Callable[[int], "Insn"]
"""A function that decodes the instruction at an address."""
CompileIr = Callable[[str, int], bytes]
"""A function that compiles LLVM IR, like `llvm.compile_ir`."""


class Untranslated(Exception):
    """The signal that the JIT does not translate an instruction, so that the reference engine executes it."""


class Misspeculation(Exception):
    """The signal that concurrent work-groups conflict, and have to run again one after the other.

    None of their effects has been committed."""


class Observed(Enum):
    """The points at which a wave's registers can be observed from outside of the program."""

    NEVER = "never"
    PLACE = "place"
    """Registers are not observed, except for the pc at which a wave ended."""
    AT_END = "at end"
    ALWAYS = "always"


Parts = list[Any]
"""The serialised form of an object, as JSON values."""


# ---- code as ranges of bytes -----------------------------------------------------------------------------------------
# Ranges of bytes at guest addresses are the input of a translation. They are compared with memory to check that it
# still holds the code.


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
