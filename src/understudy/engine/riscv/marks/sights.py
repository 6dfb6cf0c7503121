"""What was seen of marked values of harts: which instruction, on which hart, how often."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from understudy.engine.riscv.marks.block import MarkBlock, slot_of
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import Hart

QUOTA: Final = 16
"""Sights of an instruction on a hart that are looked at; translated code counts further ones."""
ACCESSES: Final = 1 << 16
"""Stores of marked values that are remembered."""
Site = tuple[str, int]
"""What happened, pc."""


@dataclass(slots=True, eq=False)
class Sight:
    """One instruction, and what it did first on a hart; `address` and `size` of its access."""

    what: str
    pc: int
    insn: Insn
    hart: Hart
    address: int = 0
    size: int = 0
    count: int = 0


@dataclass(slots=True, eq=False)
class Sights:
    """All of one device's harts. Safe from several threads."""

    sites: dict[Site, Sight] = field(default_factory=dict)
    stored: dict[int, Sight] = field(default_factory=dict)
    """By the address of the memory in this process: who stored what is marked there last."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _times: dict[tuple[int, str, int], int] = field(default_factory=dict, repr=False)

    def note(
        self,
        block: MarkBlock,
        what: str,
        pc: int,
        insn: Insn,
        hart: Hart,
        address: int = 0,
        size: int = 0,
        host: int = 0,
    ) -> None:
        """A marked value decided something, or was loaded or stored."""
        with self.lock:
            sight = self.sites.get((what, pc))
            if sight is None:
                sight = self.sites[what, pc] = Sight(what, pc, insn, hart, address, size)
            sight.count += 1
            if host and len(self.stored) < ACCESSES:
                self.stored[host] = Sight(what, pc, insn, hart, address, size)
            times = self._times[hart.index, what, pc] = self._times.get((hart.index, what, pc), 0) + 1
            row, key = slot_of(pc, what)
            if times == QUOTA and not block.words[row]:
                block.words[row], block.words[row + 1] = key, 0

    def count(self, site: Site, blocks: list[MarkBlock]) -> int:
        """How often an instruction did it."""
        row, key = slot_of(site[1], site[0])
        return self.sites[site].count + sum(block.words[row + 1] for block in blocks if block.words[row] == key)
