"""The loop between translated regions, itself translated: look the pc up, call, go on until something is up."""

from __future__ import annotations

import ctypes
from typing import Final

from understudy.ir.native import (
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
from understudy.isa.riscv.state import (
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
"""Exit code: pc left the region; go on wherever it points."""
OUT_OF_FUEL: Final = 1
"""Exit code: not enough fuel to reach the next check; nothing at pc has run."""
STEP: Final = 2
"""Exit code: the instruction at pc needs the reference engine."""
MISS: Final = 3
"""Exit code of the dispatcher: no translated code at pc."""
POLLED: Final = 5
"""Exit code: the hart has polled as often as it may; pc is where the next round begins."""
RETURNED: Final = 4
"""Exit code of the dispatcher: pc is the return address."""

SLOTS: Final = 1 << 16
"""Rows of a code table; a pc belongs into row (pc / 2) mod this."""
HOST_ROUNDING: Final = 0b10_01_11_00
"""The host's numbers of the guest's rounding modes RNE, RTZ, RDN and RUP, from the lowest bits up."""
ALL_MASKED: Final = 0x1F80
"""Of the host's float control: no exception traps."""


@layout
class CodeRow(ctypes.Structure):
    """Translated code: guest address and function."""

    pc: int
    code: int


@native
def dispatch(hart: int) -> int:
    """From region to region until something is up, with the guest's float control on a host with an MXCSR."""
    words = U64.at(hart)
    before = read_float_control()
    write_float_control((HOST_ROUNDING >> 2 * words[FRM] & 3) << 13 | ALL_MASKED)
    why = run_regions(hart, words[CODE_TABLE], words[RETURN_ADDRESS])
    raised = read_float_control()
    write_float_control(before)
    # invalid, divide by zero, overflow, underflow, inexact: bits 0 2 3 4 5 there, 4 3 2 1 0 here
    words[FFLAGS] |= (raised & 1) << 4 | (raised & 4) << 1 | raised >> 1 & 4 | raised >> 3 & 2 | raised >> 5 & 1
    return why


@inlined
def run_regions(hart: int, table: int, return_address: int) -> int:
    """The same, leaving the float control as it happens to be."""
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
    """Have a page in the translation buffer and its table that has been there before; its addend, 0 for a page of
    which nothing is known."""
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
    """Compare and exchange, for the other engine's atomics."""
    return A32.compare_exchange(place, expected, new)


@native
def exchange64(place: int, expected: int, new: int) -> int:
    """The same on a quadword."""
    return A64.compare_exchange(place, expected, new)
