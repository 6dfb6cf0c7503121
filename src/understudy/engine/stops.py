"""Why an engine handed a hart back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Why(Enum):
    """Reason of an `Exit`."""

    FUEL = "fuel"
    """The instruction budget is used up; exactly that many instructions retired."""
    RETURN = "return"
    """pc reached the hart's return address; nothing there was executed."""
    TRAP = "trap"
    """An instruction trapped; mcause, mepc, mtval and mstatus are set as the hart's trap entry does,
    pc is at the trap vector, the instruction did not retire."""
    BREAKPOINT = "breakpoint"
    """pc reached a debugger's breakpoint."""
    WATCHPOINT = "watchpoint"
    """The instruction before pc touched a watched address."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a run ended. `pc` is the instruction it is about (trap: the trapping one), `cause` and `value` the
    trap's mcause and mtval, `detail` a sentence for people."""

    why: Why
    pc: int
    cause: int = 0
    value: int = 0
    detail: str = ""
