"""What was seen of marked values: which instruction, in which lanes, how often. Engines note it, devices word it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.isa.gcn.insn import Insn

QUOTA: Final = 64
"""Sights of an instruction that are looked at; translated code counts further ones."""
SLOTS: Final = 4096
"""Rows of the table of what is only counted: key and count."""
PC_BITS: Final = 56
"""Of a key; the bits above say what happened, to which kind."""
CODES: Final = ("branch", "exec", "address", "atomic", "loaded", "stored")
ACCESSES: Final = 4096
"""Accesses of marked memory that are remembered."""

Site = tuple[str, str, int]
"""Kind of mark, what happened, pc."""


def code_of(kind: int, what: str) -> int:
    """The number of what happened to a kind of mark."""
    return kind * len(CODES) + CODES.index(what)


def slot_of(pc: int, code: int) -> int:
    """The row of an instruction and of what it does."""
    return (pc >> 2) + code * 619 & SLOTS - 1


@dataclass(frozen=True, slots=True)
class Party:
    """Who it happened to first: `lanes` of a wave (none: the wave itself), its work-group."""

    lanes: tuple[int, ...]
    wave: int
    group: tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Sight:
    """One instruction, and what it did. `count`: lanes, or waves where a scalar did."""

    kind: str
    what: str
    insn: Insn
    first: Party
    count: int = 0


@dataclass(frozen=True, slots=True)
class Touch:
    """An access of marked memory: by the instruction at `pc`, `size` bytes at `address` (of LDS, or guest memory)."""

    pc: int
    space: str
    address: int
    size: int
    party: Party
    insn: Insn | None = None


@dataclass(slots=True, eq=False)
class Sights:
    """All of one device's launches, until they are taken. Safe from several threads.

    `kinds`: those of marks, in the order of their numbers. `quiet` (uint64[SLOTS, 2]): what is only counted.
    """

    kinds: tuple[str, ...]
    quiet: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros((SLOTS, 2), np.uint64), repr=False)

    sites: dict[Site, Sight] = field(default_factory=dict)
    loaded: dict[tuple[str, int], Touch] = field(default_factory=dict)
    """By kind and pc: the first one."""
    stored: dict[tuple[str, str, int], Touch] = field(default_factory=dict)
    """By kind, space and address: the last one."""
    _times: dict[Site, int] = field(default_factory=dict, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, kind: str, what: str, insn: Insn, party: Party) -> None:
        """A marked value decided something."""
        with self.lock:
            sight = self.sites.get((kind, what, insn.pc))
            if sight is None:
                sight = self.sites[kind, what, insn.pc] = Sight(kind, what, insn, party)
            sight.count += max(len(party.lanes), 1)
            self._seen(kind, what, insn.pc)

    def counts(self) -> dict[Site, int]:
        """How often each instruction did it: lanes, or waves where a scalar did."""
        with self.lock:
            found = {site: sight.count for site, sight in self.sites.items()}
            for kind, what, pc in found:
                key, number = self._row(kind, what, pc)
                if int(self.quiet[number, 0]) == key:
                    found[kind, what, pc] += int(self.quiet[number, 1])
            return found

    def _row(self, kind: str, what: str, pc: int) -> tuple[int, int]:
        code = code_of(self.kinds.index(kind), what)
        return pc | code << PC_BITS, slot_of(pc, code)

    def _seen(self, kind: str, what: str, pc: int) -> None:
        """An instruction was looked at; it is only counted where that was often enough."""
        times = self._times[kind, what, pc] = self._times.get((kind, what, pc), 0) + 1
        if times == QUOTA:
            key, number = self._row(kind, what, pc)
            if not self.quiet[number, 0]:
                self.quiet[number] = key, 0

    def touch(self, kind: str, what: str, touches: list[Touch]) -> None:
        """Marked memory was "loaded", or memory was marked ("stored"), by lanes of one instruction."""
        with self.lock:
            self._seen(kind, what, touches[0].pc)
            if what == "loaded":
                self.loaded.setdefault((kind, touches[0].pc), touches[0])
            elif len(self.stored) < ACCESSES:
                self.stored.update({(kind, each.space, each.address): each for each in touches})
