"""Recorded uses of undefined values, and the origins of these values in the code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from ctypes import string_at
from dataclasses import dataclass, field
from typing import Any, Final

from softcard.core.errors import AccessFault, Registers
from softcard.engine.riscv.pages import LIMIT, MASK64
from softcard.engine.riscv.shadow_layout import ShadowBlock, slot_of
from softcard.engine.riscv.tracepoints import registers_of
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.format import FLOAT_REGISTERS, REGISTERS
from softcard.isa.riscv.insn import IllegalInstruction, Insn
from softcard.isa.riscv.port import has_places
from softcard.isa.riscv.state import F, Hart

QUOTA: Final = 16
"""The number of uses by an instruction on a hart that are handled one by one.

Translated code only counts later uses.
"""
ACCESSES: Final = 1 << 16
"""The maximum number of stores of undefined values that are recorded by address."""
Site = tuple[str, int]
"""The key of the uses of one kind by one instruction: the kind and the pc, or the return address of refsi_printf."""
PRINTF: Final = "argument"
"""The kind of a use of an argument of refsi_printf."""
PRINTED: Final = ("branch", "address", "atomic")
"""The kinds of uses that are mistakes by themselves."""
MARK: Final = 0x696E746670666572.to_bytes(8, "little")
"""The mark that refsi_printf (`data/refsi/printf.c`) keeps on the stack, before its return address."""
MOST_STACK: Final = 16 << 10
"""The number of bytes of a hart's stack in which the mark of refsi_printf is searched for."""
STACK_PIECE: Final = 256
SP: Final = 2


def caller_of_printf(hart: Hart) -> int:
    """Return the return address of the call of refsi_printf that a hart is in; 0 if it is in no such call."""
    at, data = hart.words[SP], b""
    if at & 7:
        return 0
    for piece in range(at, at + MOST_STACK, STACK_PIECE):
        first, last = place_of(hart, piece), place_of(hart, piece + STACK_PIECE - 1)
        if not first or not last or last - first != STACK_PIECE - 1:
            break
        data += string_at(first, STACK_PIECE)
    found = data.find(MARK)
    while found >= 0 and found & 7:
        found = data.find(MARK, found + 1)
    return int.from_bytes(data[found + 8 : found + 16], "little") if found >= 0 else 0


def place_of(hart: Hart, address: int) -> int | None:
    """Return the address in this process of a hart's guest address; None if it is not in memory."""
    port = hart.port
    if address >= LIMIT or not has_places(port):
        return None
    try:
        found = port.place(address)
    except AccessFault:
        return None
    return None if found is None else found & MASK64


@dataclass(slots=True, eq=False)
class Use:
    """A use of an undefined value by one instruction on a hart.

    `what` is the kind of use. `address` and `size` are those of its memory access. `count` is the number of such uses
    that were recorded.
    """

    what: str
    pc: int
    insn: Insn
    hart: Hart
    address: int = 0
    size: int = 0
    count: int = 0
    registers: Registers | None = None
    """The registers before the instruction; None if the instruction had used undefined values before."""
    caller: int = 0
    """The return address of the call of refsi_printf that the hart was in; 0 outside of that function."""


@dataclass(slots=True, eq=False)
class Uses:
    """The recorded uses of undefined values on all harts of one device. The class is thread-safe.

    A site is a kind of use by the instruction at one pc. `sites` contains the first recorded use at each site."""

    sites: dict[Site, Use] = field(default_factory=dict)
    stored: dict[int, Use] = field(default_factory=dict)
    """By address in this process: the last store of an undefined value to it."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _times: dict[tuple[int, str, int], int] = field(default_factory=dict, repr=False)

    def note(
        self,
        block: ShadowBlock,
        what: str,
        pc: int,
        insn: Insn,
        hart: Hart,
        address: int = 0,
        size: int = 0,
        host: int = 0,
    ) -> None:
        """Record a use of an undefined value by the instruction `insn` at `pc`; `what` is the kind of use.

        `address`, `size` and `host` belong to a memory access; `host` is its address in this process."""
        caller = caller_of_printf(hart) if what in PRINTED else 0
        with self.lock:
            if caller:
                self._note_printed(pc, insn, hart, caller)
                return
            use = self.sites.get((what, pc))
            if use is None:
                use = self.sites[what, pc] = Use(what, pc, insn, hart, address, size)
                use.registers = registers_of(hart, pc, text(insn, pc))
            use.count += 1
            if host and len(self.stored) < ACCESSES:
                self.stored[host] = Use(what, pc, insn, hart, address, size)
                self.stored[host].registers = use.registers if use.count == 1 else None
            times = self._times[hart.index, what, pc] = self._times.get((hart.index, what, pc), 0) + 1
            row, key = slot_of(pc, what)
            if times == QUOTA and not block.words[row]:
                block.words[row], block.words[row + 1] = key, 0

    def _note_printed(self, pc: int, insn: Insn, hart: Hart, caller: int) -> None:
        """Record that refsi_printf, which returns to `caller`, uses an undefined value.

        All uses during one call are one mistake: only those by the first instruction are counted."""
        use = self.sites.get((PRINTF, caller))
        if use is None:
            use = self.sites[PRINTF, caller] = Use(PRINTF, pc, insn, hart, caller=caller)
        use.count += use.pc == pc

    def count(self, site: Site, blocks: list[ShadowBlock]) -> int:
        """Return the number of uses at a site (a kind of use by one instruction).

        It includes the recorded uses, and those that translated code only counted."""
        if site[0] == PRINTF:
            return self.sites[site].count
        row, key = slot_of(site[1], site[0])
        return self.sites[site].count + sum(block.words[row + 1] for block in blocks if block.words[row] == key)


# ---- origins ---------------------------------------------------------------------------------------------------------
# The origin of an undefined value: found in the code, backwards from the reported instruction.
#
# Instructions before it are scanned in the order of their addresses, which mostly is the order of execution.


FARTHEST: Final = 1 << 12
"""The maximum number of instructions, from the kernel's entry on, that a search for an origin scans."""
DEPTH: Final = 4
"""The maximum number of stores to memory through which the origin of a value is traced."""


class _Notes:
    """An implementation of the operations that records the registers that an instruction reads and writes.

    Registers are recorded by the numbers of their words in `isa.riscv.state`.
    """

    pc = next_pc = 0

    def __init__(self) -> None:
        self.reads: set[int] = set()
        self.writes: set[int] = set()

    def x(self, n: int) -> object:
        """Record a read of an integer register."""
        self.reads |= {n} - {0}
        return self

    def f(self, n: int, fmt: str) -> object:
        """Record a read of a float register."""
        return self.f_raw(n)

    def f_raw(self, n: int) -> object:
        """Record a read of a float register."""
        self.reads.add(F + n)
        return self

    def set_x(self, n: int, v: object) -> None:
        """Record a write of an integer register."""
        self.writes |= {n} - {0}

    def set_f(self, n: int, fmt: str, v: object) -> None:
        """Record a write of a float register."""
        self.writes.add(F + n)

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *_, **__: self


def _effects(insn: Insn) -> _Notes:
    notes: Any = _Notes()
    try:
        insn.spec.semantics(notes, insn)
    except (TypeError, AttributeError, IllegalInstruction):  # a vector instruction, which inspects its sources
        notes.writes |= {insn.rd} - {0} if not insn.spec.name.startswith("v") else set()
    found: _Notes = notes
    return found


@dataclass(frozen=True, slots=True)
class Origins:
    """A search for the origins of undefined values in a kernel's code, from its entry on.

    `defined` has a bit for each integer register that is initialised at the entry. `code` returns the instruction at an
    address.
    """

    entry: int
    defined: int
    code: Callable[[int], Insn | None]
    uses: Uses

    def of(self, pc: int, insn: Insn, depth: int = DEPTH) -> str:
        """Return the origin of the undefined bits that an instruction reads, as text; "" if it is not found."""
        needed = _effects(insn).reads
        for at, each in reversed(self._before(pc)):
            found = _effects(each)
            if not needed & found.writes:
                continue
            touch = self.uses.sites.get(("loaded", at))
            if touch is not None:
                store = _store_of(touch, self.uses)
                place = f"{touch.size} bytes at {touch.address:#x}"
                if store is None or not depth:
                    return f"{place}, which are uninitialised, loaded by {text(each, at)} at pc {at:#x}"
                way = self.of(store.pc, store.insn, depth - 1)
                if way.endswith(place):  # a loop stores to the same place again
                    return way
                return f"{way}, through {place}" if way else place
            needed = needed - found.writes | found.reads
        names = ", ".join(_name(n) for n in sorted(needed) if not self.defined >> n & 1)
        return f"{names}, which nothing has written" if names else ""

    def _before(self, pc: int) -> list[tuple[int, Insn]]:
        """Return the instructions from the entry up to the address `pc`, but at most `FARTHEST` instructions."""
        found: list[tuple[int, Insn]] = []
        at = self.entry
        while at < pc and len(found) < FARTHEST:
            insn = self.code(at)
            if insn is None:
                return found
            found.append((at, insn))
            at += insn.length
        return found


def _store_of(touch: Use, uses: Uses) -> Use | None:
    return next((each for each in uses.stored.values() if each.address == touch.address), None)


def _name(n: int) -> str:
    return REGISTERS[n] if n < F else FLOAT_REGISTERS[n - F]
