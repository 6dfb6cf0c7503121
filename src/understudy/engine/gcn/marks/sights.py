"""What was seen of marked values: which instruction, in which lanes, how often. Engines note it, devices word it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from understudy.isa.gcn.insn import Insn

QUOTA: Final = 64
"""Sights of an instruction that are looked at; translated code counts further ones."""
ACCESSES: Final = 4096
"""Accesses of marked memory that are remembered."""

Site = tuple[str, str, int]
"""Kind of mark, what happened, pc."""


@dataclass(frozen=True, slots=True)
class Party:
    """Who it happened to first: `lanes` of a wave (none: the wave itself), its work-group."""

    lanes: tuple[int, ...]
    wave: int
    group: tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Sight:
    """One instruction, and what it did. `count`: lanes, or waves where a scalar did; `seen`: how often looked at."""

    kind: str
    what: str
    insn: Insn
    first: Party
    count: int = 0
    seen: int = 0


@dataclass(frozen=True, slots=True)
class Touch:
    """An access of marked memory: by the instruction at `pc`, `size` bytes at `address` (of LDS, or guest memory)."""

    pc: int
    space: str
    address: int
    size: int
    party: Party


@dataclass(slots=True, eq=False)
class Sights:
    """All of one device's launches, until they are taken. Safe from several threads."""

    sites: dict[Site, Sight] = field(default_factory=dict)
    loaded: dict[tuple[str, int], Touch] = field(default_factory=dict)
    """By kind and pc: the first one."""
    stored: dict[tuple[str, int, int], Touch] = field(default_factory=dict)
    """By kind, address and size: the last one."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, kind: str, what: str, insn: Insn, party: Party) -> None:
        """A marked value decided something."""
        with self.lock:
            sight = self.sites.get((kind, what, insn.pc))
            if sight is None:
                sight = self.sites[kind, what, insn.pc] = Sight(kind, what, insn, party)
            sight.count += max(len(party.lanes), 1)
            sight.seen += 1

    def touch(self, kind: str, is_store: bool, touch: Touch) -> None:
        """Marked memory was read, or memory was marked."""
        with self.lock:
            if not is_store:
                self.loaded.setdefault((kind, touch.pc), touch)
            elif len(self.stored) < ACCESSES:
                self.stored[kind, touch.address, touch.size] = touch
