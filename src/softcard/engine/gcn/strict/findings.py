"""The findings of the strict memory, in which stores reach other compute units as late as the ISA permits.

Each finding is about a load whose value a correct program must not depend on. It names the load and the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.core.diagnostics import Diagnostic, Location, Note
from softcard.core.display import RichDisplay, Rows
from softcard.core.findings import Level
from softcard.core.rule import Rule


@dataclass(frozen=True, slots=True)
class Place:
    """The position of an access by a wave: work-group, wave, pc, and text of the instruction.

    `packet` describes the packet that launched the wave, if a queue did.
    """

    group: int
    wave: int
    pc: int
    insn: str
    packet: str = ""

    def __str__(self) -> str:
        where = f"work-group {self.group} wave {self.wave} pc {self.pc:#x} ({self.insn})"
        return f"{self.packet} {where}" if self.packet else where

    @property
    def location(self) -> Location:
        """The position of the instruction."""
        return Location(insn=self.insn, pc=self.pc)

    @property
    def label(self) -> str:
        """The packet, wave and work-group."""
        return ", ".join(filter(None, (self.packet, f"wave {self.wave}", f"work-group {self.group}")))


@dataclass(frozen=True, slots=True)
class Host:
    """The origin of an access that was not made by a wave, but by the host or another agent.

    `what` describes it.
    """

    what: str
    pc: int = 0

    def __str__(self) -> str:
        return self.what

    @property
    def location(self) -> Location:
        """An empty location: the access has no instruction."""
        return Location()

    @property
    def label(self) -> str:
        """The description of the access."""
        return self.what


STORED: Final = Host("the host, or another agent")
"""The origin of stores by the host or another agent."""

_MESSAGES: Final = {
    "stale line": "{load} read a stale cache line at address {address:#x}, which was stored to since: {store}",
    "late store": "{load} may read address {address:#x} before a store that was not waited for: {store}",
    "no wait": "{load} {sentence}: {store}",
    "wait states": "{load} {sentence}: {store}",
    "host store": "{load} read a stale line of the second-level cache at {address:#x}, which was stored to since: "
    "{store}",
    "not released": "{load} while stores to address {address:#x} are still in the agent's caches: {store}",
}


@dataclass(frozen=True, slots=True)
class Finding(RichDisplay):
    """A behaviour that real hardware may show and that a correct program must not depend on.

    The kinds of findings are:

    - ``"stale line"``: a load saw an old line of its first-level cache, or of the second-level cache of its
        accelerator die.
    - ``"late store"``: a load overtook a store of another wave that had not been waited for.
    - ``"no wait"``: an instruction, `load`, lacks a wait for an operation that `store` began.
    - ``"wait states"``: `load` was issued too early after `store`.
    - ``"host store"``: a load or atomic saw an old line of the second-level cache, as no acquire fence at system
        scope followed a store of the host or of another agent.
    - ``"not released"``: the host was notified of a packet's completion, or accessed memory, before a release
        fence at system scope had written stores back.

    `fence` names the fence of a packet that is too weak. `need` is the instruction that is missing between the store
    and the load, and `rule` the sentence that requires it.
    """

    kind: str
    load: Place | Host
    store: Place | Host
    address: int = 0
    fence: str = ""
    sentence: str = ""
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

    def diagnostic(self) -> Diagnostic:
        """Return the finding as a diagnostic."""
        text = _MESSAGES[self.kind].removeprefix("{load} ").removesuffix(": {store}")
        verb = "" if isinstance(self.load, Place) else f"{self.load} "
        return Diagnostic(
            Level.ERROR,
            f"coherence/{self.kind.replace(' ', '-')}",
            verb + text.format(address=self.address, sentence=self.sentence),
            pc=self.load.pc or None,
            rule=self.rule,
            suggestion=self.fence or (f"add {self.need} between them" if self.need else ""),
            location=self.load.location,
            label=self.load.label,
            notes=(Note(f"the earlier access: {self.store.label}", self.store.location),),
        )

    def __str__(self) -> str:
        sentence = _MESSAGES[self.kind].format(
            load=self.load, store=self.store, address=self.address, sentence=self.sentence
        )
        more = self.fence or (f"add {self.need} between them" if self.need else "")
        clause = f" [{self.rule.id}: {self.rule.clause}]" if self.rule else ""
        return f"{sentence}; {more}{clause}" if more else sentence
