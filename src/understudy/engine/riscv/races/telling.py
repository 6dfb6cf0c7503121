"""Races of harts as findings: both parties with their places; those of a pair of instructions are one, and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from understudy.core.checks import RACES
from understudy.core.findings import Finding, FindingLog
from understudy.engine.riscv.races.agents import Event, Suspect
from understudy.isa.riscv.assembler import text

OF_HARTS: Final = "a barrier, or a fence on both sides of the flag between them; or atomics"
OF_HOST: Final = "a wait for the command buffer before it"
HOST: Final = "the host"
OF_TRANSFERS: Final = "a wait for the transfer, by DMADONESEQ, before it"


class Telling:
    """Tells a log of what races."""

    def __init__(self, log: FindingLog) -> None:
        self.log = log
        self._told: dict[tuple[object, ...], Finding] = {}

    def tell(self, suspect: Suspect) -> None:
        """Two accesses race."""
        first, event = suspect.first, suspect.second
        parties = first.agent.is_transfer, event.agent.is_transfer, event.agent.unit == HOST
        site = first.access, event.access, first.pc, event.pc, *parties
        known = self._told.get(site)
        if known is not None:
            self.log.note(replace(known))
            return
        is_transfer = first.agent.is_transfer or event.agent.is_transfer
        is_host = event.agent.unit == HOST
        between = "a hart and a transfer" if is_transfer else "harts"
        if is_host:
            between = "the host and a kernel that it has not waited for,"
        message = (
            f"{event.access} of {suspect.size} bytes at {suspect.address:#x} and a {first.access} of the same by "
            f"{between} in no order"
        )
        where = _finding(first, "", "")
        for namer in self.log.namers:
            namer(where)
        found = _finding(event, f"{first.access}-{event.access}", message)
        found.access, found.space, found.address, found.size = event.access, "global", suspect.address, suspect.size
        found.other, found.suggestion = where.place, OF_HOST if is_host else OF_TRANSFERS if is_transfer else OF_HARTS
        self._told[site] = replace(found)
        self.log.note(found)


def _finding(event: Event, kind: str, message: str) -> Finding:
    shown = "" if event.insn is None or event.pc is None else text(event.insn, event.pc)
    return Finding(RACES, kind, message, pc=event.pc, insn=shown, unit=event.agent.unit)
