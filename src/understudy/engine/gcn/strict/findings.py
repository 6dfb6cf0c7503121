"""What a strict memory tells of: values that a correct program may not depend on, with both places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.shown import Rows, Shown


@dataclass(frozen=True, slots=True)
class Place:
    """An access: work-group, wave, pc and text of the instruction; `packet` where a queue's packet launched it."""

    group: int
    wave: int
    pc: int
    insn: str
    packet: str = ""

    def __str__(self) -> str:
        where = f"work-group {self.group} wave {self.wave} pc {self.pc:#x} ({self.insn})"
        return f"{self.packet} {where}" if self.packet else where


@dataclass(frozen=True, slots=True)
class Host:
    """An access that is none of a wave: of the host, or of another agent. `what` it did."""

    what: str
    pc: int = 0

    def __str__(self) -> str:
        return self.what


STORED: Final = Host("the host, or another agent")
"""Whoever stored what no wave of this agent did."""

_SAID: Final = {
    "stale line": "{load} read an old cached line: a store since then: {store}, at address {address:#x}",
    "late store": "{load} came before a store that was not waited for: {store}, at address {address:#x}",
    "no wait": "{load} is read before s_waitcnt: {store}",
    "host store": "{load} read an old line of the second-level cache: a store since then: {store}, at {address:#x}",
    "not released": "{load} while stores are in the agent's caches still: {store}, at address {address:#x}",
}


@dataclass(frozen=True, slots=True)
class Finding(Shown):
    """Something that real hardware may do and a correct program may not depend on.

    `kind` is ``"stale line"`` (a load without GLC saw an old line of the first-level cache), ``"late store"`` (a load
    passed a store of another wave that nobody had waited for), ``"no wait"`` (a register was read before its load was
    waited for), ``"host store"`` (a load or atomic saw an old line of the second-level cache, as no acquire fence at
    system scope came after a store of somebody else) or ``"not released"`` (the host was told that a packet is
    complete, or asked for memory, while no release fence at system scope had written stores back). `fence` says which
    fence of which packet is too weak.
    """

    kind: str
    load: Place | Host
    store: Place | Host
    address: int = 0
    fence: str = ""

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        return [(), ("kind", self.kind), ("load", self.load), ("store", self.store), ("fence", self.fence)]

    def __str__(self) -> str:
        said = _SAID[self.kind].format(load=self.load, store=self.store, address=self.address)
        return f"{said}; {self.fence}" if self.fence else said
