"""What the scoreboard missed, as findings in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.core.diagnostic import Diagnostic, Level
from understudy.engine.gcn.waits.board import Missed
from understudy.engine.gcn.waits.issue import MEMORY
from understudy.isa.gcn.hazards import Kind

CHECK: Final = "waits"
"""What the check is called."""
DISPUTED: Final = "disputed"
"""The basis of hazards of which sources disagree."""


def finding(missed: Missed, base: int = 0, kernel: str = "", text: Callable[[int], str] | None = None) -> Diagnostic:
    """The finding of what was missed; addresses count from `base`, and `text` adds words to the place of a pc."""

    def place(pc: int) -> str:
        more = (f"({kernel})" if kernel else "") if text is None else text(pc)
        return f"pc {pc - base:#x} {more}".rstrip()

    before, after, rule = missed.before, missed.after, missed.hazard.rule
    level = Level.WARNING if missed.is_doubtful or missed.when else Level.ERROR
    if missed.is_doubtful and missed.hazard.basis == DISPUTED:
        level = Level.NOTE
    suggestion = f"{missed.need} between them" if missed.hazard.kind is not Kind.STATES else f"{missed.need} before it"
    return Diagnostic(
        level,
        CHECK,
        f"{after.text} {said(missed)}",
        place(after.pc),
        pc=after.pc - base,
        kernel=kernel,
        rule=rule,
        other=place(before.pc),
        suggestion=suggestion,
    )


def said(missed: Missed) -> str:
    """What the later instruction does too early."""
    before, after, names = missed.before.text, missed.after, missed.names
    if missed.hazard.kind is Kind.STATES:
        about = f", which is about {names}" if names else ""
        return f"comes too early behind {before}{about}"
    if missed.hazard.kind is Kind.CLAUSE:
        why = f"reads and writes {names}" if names else "loads and stores"
        return f"makes the run that begins with {before} wrong to do again: it {why}"
    name = missed.hazard.id.partition("/")[2]
    if name in _OTHERS:
        return _OTHERS[name].format(before=before)
    if name.endswith("-data"):
        return f"overwrites {names} before {before} has read it"
    condition = ", if that reached memory" if missed.when == MEMORY else ", if that reached LDS" if missed.when else ""
    verb = "reads" if missed.registers & after.reads else "overwrites"
    return f"{verb} {names} before {before} has written it{condition}"


_OTHERS: Final = {
    "lds-store-barrier": "does not wait until {before} is in LDS",
    "lds-dma": "may read LDS before {before} has written it",
    "scalar-store-end": "ends the wave while what {before} stored may be in the scalar cache alone",
}
