"""The dispatcher: compiled code that loops over translated regions, finding the code at pc and calling it."""

from __future__ import annotations

import ctypes
from typing import Final

from softcard.ir.native import (
    A32,
    A64,
    U64,
    call,
    inlined,
    layout,
    native,
    read_float_control,
    write_float_control,
)
from softcard.isa.riscv.state import (
    CODE_TABLE,
    FFLAGS,
    FRM,
    KNOWN_LOADS,
    KNOWN_STORES,
    LOAD_TABLE,
    PC,
    RETURN_ADDRESS,
    STORE_TABLE,
    TLB,
    TLB_MASK,
)

JUMP: Final = 0
"""Exit code: control leaves the region; dispatch to the code at pc."""
OUT_OF_FUEL: Final = 1
"""Exit code: too little fuel is left to reach the next fuel check; the instruction at pc was not executed."""
STEP: Final = 2
"""Exit code: the reference engine must execute the instruction at pc."""
MISS: Final = 3
"""Exit code of the dispatcher: the code at pc is not translated."""
POLLED: Final = 5
"""Exit code: the hart has reached its limit of polls; the next iteration begins at pc."""
RETURNED: Final = 4
"""Exit code of the dispatcher: pc is the return address."""

SLOTS: Final = 1 << 16
"""The number of rows in a table of translated code; the code at a pc has the row (pc / 2) modulo this number."""
HOST_ROUNDING: Final = 0b10_01_11_00
"""The host's numbers for the guest's rounding modes RNE, RTZ, RDN and RUP, from the lowest bits up."""
ALL_MASKED: Final = 0x1F80
"""The bits of the host's float control register that mask all exception traps."""


@layout
class CodeRow(ctypes.Structure):
    """A row of the table of translated code: the guest address, and the function that runs the code there."""

    pc: int
    code: int


@native
def dispatch(hart: int) -> int:
    """Run region after region under the guest's float control, on a host with an MXCSR; return the exit code."""
    words = U64.at(hart)
    before = read_float_control()
    write_float_control((HOST_ROUNDING >> 2 * words[FRM] & 3) << 13 | ALL_MASKED)
    why = run_regions(hart, words[CODE_TABLE], words[RETURN_ADDRESS])
    raised = read_float_control()
    write_float_control(before)
    # invalid, divide by zero, overflow, underflow, inexact: bits 0 2 3 4 5 in the MXCSR, 4 3 2 1 0 in fflags
    words[FFLAGS] |= (raised & 1) << 4 | (raised & 4) << 1 | raised >> 1 & 4 | raised >> 3 & 2 | raised >> 5 & 1
    return why


@inlined
def run_regions(hart: int, table: int, return_address: int) -> int:
    """Run region after region without changing the host's float control; return the exit code."""
    words = U64.at(hart)
    while True:
        pc = words[PC]
        if pc == return_address:
            return RETURNED
        row = CodeRow.from_address(table + (pc >> 1 & SLOTS - 1) * ctypes.sizeof(CodeRow))
        if row.pc != pc:
            return MISS
        why = call(row.code, hart, pc)
        if why != JUMP:
            return why


@native
def refill(hart: int, page: int, stores: int) -> int:
    """Enter a page in the hart's simulated translation buffer and in its page table for loads or stores.

    The table is the one for stores if `stores` is 1, else the one for loads. A page that loses its entry in the
    buffer is removed from both tables. Return the host address minus the guest address of the page, or 0, with
    nothing changed, if the page's memory is unknown."""
    words = U64.at(hart)
    known = U64.at(words[KNOWN_STORES if stores else KNOWN_LOADS])
    addend = known[page]
    if addend:
        tlb = U64.at(words[TLB])
        slot = page & words[TLB_MASK]
        old = tlb[slot]
        if old != 0 and old != page + 1:
            U64.at(words[LOAD_TABLE])[old - 1] = 0
            U64.at(words[STORE_TABLE])[old - 1] = 0
        tlb[slot] = page + 1
        U64.at(words[STORE_TABLE if stores else LOAD_TABLE])[page] = addend
    return addend


@native
def exchange32(place: int, expected: int, new: int) -> int:
    """Atomically replace the 32-bit word at `place` by `new` if it equals `expected`; return the old word.

    The reference engine uses this for its atomic instructions."""
    return A32.compare_exchange(place, expected, new)


@native
def exchange64(place: int, expected: int, new: int) -> int:
    """Atomically replace the 64-bit word at `place` by `new` if it equals `expected`; return the old word.

    The reference engine uses this for its atomic instructions."""
    return A64.compare_exchange(place, expected, new)
