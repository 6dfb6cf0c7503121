"""What a strict memory tells of: values that a correct program may not depend on, with both places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.rule import Rule
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
    "no wait": "{load} {said}: {store}",
    "wait states": "{load} {said}: {store}",
    "host store": "{load} read an old line of the second-level cache: a store since then: {store}, at {address:#x}",
    "not released": "{load} while stores are in the agent's caches still: {store}, at address {address:#x}",
}


@dataclass(frozen=True, slots=True)
class Finding(Shown):
    """Something that real hardware may do and a correct program may not depend on.

    `kind` is ``"stale line"`` (a load without GLC saw an old line of the first-level cache), ``"late store"`` (a load
    passed a store of another wave that nobody had waited for), ``"no wait"`` (an instruction, `load`, needs something
    done that nobody waited for, which `store` began), ``"wait states"`` (it came too early behind it), ``"host store"``
    (a load or atomic saw an old line of the second-level cache, as no acquire fence at system scope came after a store
    of somebody else) or ``"not released"`` (the host was told that a packet is complete, or asked for memory, while no
    release fence at system scope had written stores back). `fence` says which fence of which packet is too weak, `need`
    what should stand between two instructions, by the sentence `rule`.
    """

    kind: str
    load: Place | Host
    store: Place | Host
    address: int = 0
    fence: str = ""
    said: str = ""
    need: str = ""
    rule: Rule | None = None

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        yield ()
        yield "kind", self.kind
        yield "load", self.load
        yield "store", self.store
        yield "fence", self.fence
        yield "needs", self.need
        yield "rule", self.rule.id if self.rule else ""

    def __str__(self) -> str:
        said = _SAID[self.kind].format(load=self.load, store=self.store, address=self.address, said=self.said)
        more = self.fence or (f"it takes {self.need} between them" if self.need else "")
        clause = f" [{self.rule.id}: {self.rule.clause}]" if self.rule else ""
        return f"{said}; {more}{clause}" if more else said
