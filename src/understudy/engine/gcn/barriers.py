"""The check of barriers: all work-items of a work-group have to come to the same one, and hardware does not look.

It counts waves: a barrier opens when every wave that has not ended waits at one, whichever, with whatever lanes. So
nothing is seen to be wrong where a wave has ended, waits at another barrier, or comes with lanes switched off. Engines
tell of every barrier that opens and is not as it should be; both know it by the same rule:

- a wave of the group has ended, or waits at another instruction; or
- some lane takes part, and one that was on when its wave began does not. Lanes beyond the grid never were on. Waves
  whose lanes are all off come to a barrier that nobody executes: translated code goes through what it need not skip.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final

from understudy.core.checks import SYNC
from understudy.core.errors import UnderstudyError
from understudy.core.findings import Finding, FindingLog, Level
from understudy.core.limits import TimeLimit
from understudy.core.shown import count
from understudy.engine.gcn.api import Dispatch, StepLimit
from understudy.isa.gcn.state import AT_BARRIER, ENDED, EXEC, LANES, STATUS, Wave

NOT_REACHED: Final = "barrier-not-reached"
DIFFERENT: Final = "barriers-differ"
DIVERGENT: Final = "barrier-divergent"
DEADLOCK: Final = "barrier-deadlock"
SUGGESTION: Final = "have all work-items of the work-group come to the same barrier, or none"
BARRIER_BYTES: Final = 4
END_BYTES: Final = 4
"""Of s_endpgm, which the pc of a wave that has ended is behind."""


class Barriers:
    """Tells of barriers that not all work-items of a group come to. Threads may run groups side by side."""

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()

    @classmethod
    def of(cls, checks: Collection[str], log: FindingLog | None) -> Barriers | None:
        """The one that settings ask for; None where they do not."""
        return None if log is None or SYNC not in checks else cls(log.note)

    def opens(self, dispatch: Dispatch, group: int, waves: Sequence[Wave]) -> None:
        """The waves of a group that have not ended wait at barriers, which now open."""
        there = [wave for wave in waves if wave.words[STATUS] == AT_BARRIER]
        places = sorted({wave.pc for wave in there})
        with self._lock:
            if len(there) < len(waves):
                self._ended(dispatch, group, there, waves)
            for place in places[1:]:
                self._differ(dispatch, group, there, place, places[0])
            for place in places:
                self._diverge(dispatch, group, [wave for wave in there if wave.pc == place], there)

    def fails(
        self, dispatch: Dispatch, group: int, waves: Sequence[Wave], latest: Wave, error: UnderstudyError
    ) -> None:
        """A group ends with an error: where a wave did not end in time, others may wait for it at a barrier."""
        there = [wave for wave in waves if wave.words[STATUS] == AT_BARRIER]
        if not there or not isinstance(error, StepLimit | TimeLimit):
            return
        verb = "wait" if len(there) > 1 else "waits"
        message = f"{_names(there)} {verb} at this barrier, which wave {latest.index} does not come to in time"
        found = _finding(dispatch, group, DEADLOCK, message, there[0])
        found.other, found.other_pc = _place(dispatch, latest.pc), latest.pc
        with self._lock:
            self._tell(found)

    def _ended(self, dispatch: Dispatch, group: int, there: Sequence[Wave], waves: Sequence[Wave]) -> None:
        gone = [wave for wave in waves if wave.words[STATUS] == ENDED]
        message = f"{_names(gone)} of {len(waves)} ended and never came to this barrier"
        found = _finding(dispatch, group, NOT_REACHED, message, there[0])
        found.other, found.other_pc = _place(dispatch, gone[0].pc - END_BYTES), gone[0].pc - END_BYTES
        self._tell(found)

    def _differ(self, dispatch: Dispatch, group: int, there: Sequence[Wave], place: int, other: int) -> None:
        here = [wave for wave in there if wave.pc == place]
        others = [wave for wave in there if wave.pc == other]
        verb = "wait" if len(here) > 1 else "waits"
        message = f"{_names(here)} {verb} at this barrier while {_names(others)} waited at another one"
        found = _finding(dispatch, group, DIFFERENT, message, here[0])
        found.other, found.other_pc = _place(dispatch, other - BARRIER_BYTES), other - BARRIER_BYTES
        self._tell(found)

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
        self._tell(found)


def _finding(dispatch: Dispatch, group: int, kind: str, message: str, wave: Wave) -> Finding:
    """One at the barrier where a wave waits, whose pc is behind it."""
    pc = wave.pc - BARRIER_BYTES
    x, y, z, _ = dispatch.groups[group].tolist()
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
    )


def _place(dispatch: Dispatch, pc: int) -> str:
    return f"pc {pc:#x} (entry + {pc - dispatch.entry:#x})"


def _names(waves: Sequence[Wave]) -> str:
    return f"wave{'s' * (len(waves) > 1)} {', '.join(str(wave.index) for wave in waves)}"
