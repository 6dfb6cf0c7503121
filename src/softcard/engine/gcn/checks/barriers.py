"""The check of barriers: all work-items of a work-group must reach the same barrier.

Hardware does not verify that. It counts waves: a barrier opens when every wave that has not ended waits at
any barrier, whichever lanes are active. Therefore hardware shows no error if a wave has ended, waits at
another barrier, or arrives with inactive lanes. Both engines report each barrier that opens under one of
these conditions:

- a wave of the group has ended, or waits at another instruction; or
- some lane of a wave is active at the barrier, but another lane, which was active when the wave began, is
  not. Lanes outside the grid were never active. A wave without active lanes is not reported: compiled kernels
  need not branch around a barrier when no lane is active, so a wave may execute a barrier that none of its
  work-items reaches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from softcard.core.checks import SYNC
from softcard.core.display import count
from softcard.core.errors import Registers, SoftcardError
from softcard.core.findings import Finding, Level
from softcard.core.limits import TimeLimit
from softcard.engine.gcn.api import Dispatch, StepLimit
from softcard.engine.gcn.hooks import Check
from softcard.isa.gcn.state import AT_BARRIER, ENDED, EXEC, LANES, STATUS, Wave

NOT_REACHED: Final = "barrier-not-reached"
DIFFERENT: Final = "barriers-differ"
DIVERGENT: Final = "barrier-divergent"
DEADLOCK: Final = "barrier-deadlock"
SUGGESTION: Final = "let all work-items of the work-group reach the same barrier, or none"
BARRIER_BYTES: Final = 4
END_BYTES: Final = 4
"""The size of s_endpgm in bytes; the pc of a wave that has ended is after it."""


class Barriers(Check):
    """The check of barriers that not all work-items of a group reach. Thread-safe."""

    name = SYNC

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._report = report
        self._lock = threading.Lock()

    def barrier_opens(self, dispatch: Dispatch, group: int, waves: Sequence[Wave]) -> None:
        """Report a barrier that opens although not all work-items of the group have reached it.

        A barrier opens when all waves of the group that have not ended wait at a barrier.
        """
        there = [wave for wave in waves if wave.words[STATUS] == AT_BARRIER]
        places = sorted({wave.pc for wave in there})
        with self._lock:
            if len(there) < len(waves):
                self._ended(dispatch, group, there, waves)
            for place in places[1:]:
                self._differ(dispatch, group, there, place, places[0])
            for place in places:
                self._diverge(dispatch, group, [wave for wave in there if wave.pc == place], there)

    def group_fails(
        self, dispatch: Dispatch, group: int, waves: Sequence[Wave], latest: Wave, error: SoftcardError
    ) -> None:
        """Report waves that wait at a barrier which wave `latest` did not reach within the step or time limit.

        `error` is the error that ends the group. Do nothing if it is not about one of these limits."""
        there = [wave for wave in waves if wave.words[STATUS] == AT_BARRIER]
        if not there or not isinstance(error, StepLimit | TimeLimit):
            return
        verb = "wait" if len(there) > 1 else "waits"
        message = (
            f"{_names(there)} {verb} at this barrier, which wave {latest.index} does not reach within the time limit"
        )
        found = _finding(dispatch, group, DEADLOCK, message, there[0])
        _add_other(found, dispatch, latest.pc, f"wave {latest.index}")
        with self._lock:
            self._report(found)

    def _ended(self, dispatch: Dispatch, group: int, there: Sequence[Wave], waves: Sequence[Wave]) -> None:
        gone = [wave for wave in waves if wave.words[STATUS] == ENDED]
        message = f"{_names(gone)} of {len(waves)} ended without reaching this barrier"
        found = _finding(dispatch, group, NOT_REACHED, message, there[0])
        _add_other(found, dispatch, gone[0].pc - END_BYTES, f"wave {gone[0].index}", "s_endpgm")
        self._report(found)

    def _differ(self, dispatch: Dispatch, group: int, there: Sequence[Wave], place: int, other: int) -> None:
        here = [wave for wave in there if wave.pc == place]
        others = [wave for wave in there if wave.pc == other]
        verb = "wait" if len(here) > 1 else "waits"
        message = f"{_names(here)} {verb} at this barrier while {_names(others)} waited at another one"
        found = _finding(dispatch, group, DIFFERENT, message, here[0])
        _add_other(found, dispatch, other - BARRIER_BYTES, f"wave {others[0].index}", "s_barrier")
        self._report(found)

    def _diverge(self, dispatch: Dispatch, group: int, here: Sequence[Wave], there: Sequence[Wave]) -> None:
        if not any(wave.s64(EXEC) for wave in there):
            return
        shape = int(dispatch.groups[group, 3])
        missing = [(wave, int(dispatch.shapes.execs[shape, wave.index]) & ~wave.s64(EXEC)) for wave in here]
        missing = [(wave, lanes) for wave, lanes in missing if lanes]
        if not missing:
            return
        wave, lanes = missing[0]
        number = lanes.bit_count()
        who = f"{count(number, 'lane')} of the wave {'does' if number == 1 else 'do'} not take part"
        message = f"{who}: EXEC is {wave.s64(EXEC):#x}"
        found = _finding(dispatch, group, DIVERGENT, message, wave)
        found.level, found.count = Level.WARNING, len(missing)
        found.lanes = tuple(lane for lane in range(LANES) if lanes >> lane & 1)
        self._report(found)


def _finding(dispatch: Dispatch, group: int, kind: str, message: str, wave: Wave) -> Finding:
    """Return a finding at the barrier where `wave` waits. The pc of that wave is the address after the barrier."""
    pc = wave.pc - BARRIER_BYTES
    x, y, z, _ = dispatch.groups[group].tolist()
    held = Registers(pc, "s_barrier", {"exec": wave.s64(EXEC)})
    return Finding(
        SYNC,
        kind,
        message,
        pc=pc,
        insn="s_barrier",
        at=f"entry + {pc - dispatch.entry:#x}",
        unit=f"wave {wave.index}",
        group=f"{x},{y},{z}",
        suggestion=SUGGESTION,
        registers=held,
    )


def _add_other(found: Finding, dispatch: Dispatch, pc: int, unit: str, insn: str = "") -> None:
    """Add the instruction of another wave to a finding."""
    found.other, found.other_pc = _place(dispatch, pc), pc
    found.conflict = Finding(found.check, found.kind, "", pc=pc, insn=insn, unit=unit, group=found.group)


def _place(dispatch: Dispatch, pc: int) -> str:
    return f"pc {pc:#x} (entry + {pc - dispatch.entry:#x})"


def _names(waves: Sequence[Wave]) -> str:
    return f"wave{'s' * (len(waves) > 1)} {', '.join(str(wave.index) for wave in waves)}"
