"""Where a marked value came from: found in the code, backwards from the instruction that is told of.

Instructions in front of it are gone through in the order of their addresses, which is the order of most code that led
there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from understudy.engine.riscv.marks.sights import Sight, Sights
from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.format import FLOAT_REGISTERS, REGISTERS
from understudy.isa.riscv.insn import IllegalInstruction, Insn
from understudy.isa.riscv.state import F

FARTHEST: Final = 1 << 12
"""Instructions that are gone through."""
DEPTH: Final = 4
"""Stores that a value is followed through."""


class _Notes:
    """An algebra that notes which registers a meaning reads and writes, by the numbers of their words."""

    pc = next_pc = 0

    def __init__(self) -> None:
        self.reads: set[int] = set()
        self.writes: set[int] = set()

    def x(self, n: int) -> object:
        """Read."""
        self.reads |= {n} - {0}
        return self

    def f(self, n: int, fmt: str) -> object:
        """Read."""
        return self.f_raw(n)

    def f_raw(self, n: int) -> object:
        """Read."""
        self.reads.add(F + n)
        return self

    def set_x(self, n: int, v: object) -> None:
        """Written."""
        self.writes |= {n} - {0}

    def set_f(self, n: int, fmt: str, v: object) -> None:
        """Written."""
        self.writes.add(F + n)

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *_, **__: self


def _effects(insn: Insn) -> _Notes:
    notes: Any = _Notes()
    try:
        insn.spec.meaning(notes, insn)
    except (TypeError, AttributeError, IllegalInstruction):  # of vectors, whose sources are looked into
        notes.writes |= {insn.rd} - {0} if not insn.spec.name.startswith("v") else set()
    found: _Notes = notes
    return found


@dataclass(frozen=True, slots=True)
class Origins:
    """The code of a kernel from its entry on; `defined` has a bit for each integer register that it is given."""

    entry: int
    defined: int
    code: Callable[[int], Insn | None]
    sights: Sights

    def of(self, pc: int, insn: Insn, depth: int = DEPTH) -> str:
        """Where what an instruction reads has its marks from, in words; "" where that is not found."""
        needed = _effects(insn).reads
        for at, each in reversed(self._before(pc)):
            found = _effects(each)
            if not needed & found.writes:
                continue
            touch = self.sights.sites.get(("loaded", at))
            if touch is not None:
                store = _store_of(touch, self.sights)
                place = f"{touch.size} bytes at {touch.address:#x}"
                if store is None or not depth:
                    return f"{place}, which nobody has written, loaded by {text(each, at)} at pc {at:#x}"
                way = self.of(store.pc, store.insn, depth - 1)
                return f"{way}, by way of {place}" if way else place
            needed = needed - found.writes | found.reads
        names = ", ".join(_name(n) for n in sorted(needed) if not self.defined >> n & 1)
        return f"{names}, which nothing has written" if names else ""

    def _before(self, pc: int) -> list[tuple[int, Insn]]:
        """The instructions from the entry up to an address."""
        found: list[tuple[int, Insn]] = []
        at = self.entry
        while at < pc and len(found) < FARTHEST:
            insn = self.code(at)
            if insn is None:
                return found
            found.append((at, insn))
            at += insn.length
        return found


def _store_of(touch: Sight, sights: Sights) -> Sight | None:
    return next((each for each in sights.stored.values() if each.address == touch.address), None)


def _name(n: int) -> str:
    return REGISTERS[n] if n < F else FLOAT_REGISTERS[n - F]
