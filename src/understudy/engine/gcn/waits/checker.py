"""Waits of kernels that are run: only what waves run into is told, and only kernels that may miss something cost time.

A kernel's code is looked at once, on all paths. Where nothing can be missed, which is all that compilers make, its
waves run as ever. Where something may be, the first work-groups, and the last one, run on the reference engine with
their scoreboards, with the same results; what they run into is told. What is left when enough was looked at is told as
a note: a path that was not taken, or never is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from understudy.core.checks import WAITS
from understudy.core.findings import Finding, Level
from understudy.core.shown import count
from understudy.engine.gcn.api import Dispatch, Engine, Statistics
from understudy.engine.gcn.group import Groups
from understudy.engine.gcn.jit.spans import Spans, holds, joined
from understudy.engine.gcn.reference.engine import Stepper
from understudy.engine.gcn.waits.board import Missed
from understudy.engine.gcn.waits.flow import missed, reachable
from understudy.engine.gcn.waits.observing import ObservingStepper
from understudy.engine.gcn.waits.report import finding
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import Wave

OBSERVED: Final = 20_000
"""Wave instructions of one launch that are looked at, before other work-groups run as ever."""
GLANCE: Final = 2_000
"""The same, once, where code is right unless a FLAT access reaches LDS."""
ENOUGH: Final = 200_000
"""Those of a kernel after which what was not met is told as a note."""
LAUNCHES: Final = 50
"""Likewise launches."""

Key = tuple[str, int, int]
Tell = Callable[[Finding], None]


@dataclass(slots=True, eq=False)
class Kernel:
    """What is known of a kernel's code: what it may miss, by key, that was not met yet; instructions looked at."""

    entry: int
    spans: Spans
    open: dict[Key, Missed]
    observed: int = 0
    launches: int = 0
    told: set[Key] = field(default_factory=set)

    @property
    def is_likely(self) -> bool:
        """Whether anything may be missed though no FLAT access reaches LDS."""
        return any(each.is_likely for each in self.open.values())

    def finding(self, missed: Missed, count: int = 1) -> Finding:
        """What was missed, in words; places count from the kernel's first instruction, until somebody names it."""
        found = finding(missed, text=lambda pc: f"(entry + {pc - self.entry:#x})")
        return Finding(
            WAITS,
            missed.hazard.id.partition("/")[2],
            found.message,
            found.level,
            pc=missed.after.pc,
            at=f"entry + {missed.after.pc - self.entry:#x}",
            other=found.other,
            other_pc=missed.before.pc,
            rule=found.rule,
            suggestion=found.suggestion,
            count=count,
        )


class WaitChecker:
    """Checks the waits of the kernels of one memory. `tell` hears of each finding once, in the order of the code.

    `counts`: how often each instruction was executed here, by address, which the engines' own counts do not have.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.counts: Counter[int] = Counter()
        self._known: dict[tuple[str, int, int], Kernel] = {}

    def run(self, dispatch: Dispatch, engine: Engine) -> Statistics | None:
        """Run a dispatch whose kernel may miss something; None where it cannot, or was looked at: run it as ever."""
        kernel = self._kernel(dispatch)
        if not kernel.open or not len(dispatch.groups):
            return None
        return self._observed(kernel, dispatch, engine)

    def _kernel(self, dispatch: Dispatch) -> Kernel:
        key = dispatch.target.name, dispatch.entry, dispatch.mode
        known = self._known.get(key)
        if known is None or not holds(known.spans, dispatch.memory):
            known = self._known[key] = _look(dispatch)
        return known

    def _observed(self, kernel: Kernel, dispatch: Dispatch, engine: Engine) -> Statistics:
        """The first work-groups, and the last one, with scoreboards; the others as ever."""
        total, every = Statistics(), len(dispatch.groups)
        stepper = ObservingStepper(dispatch, self._count)
        if dispatch.marks is not None:
            dispatch.marks.follow()
        groups = Groups(dispatch, stepper)
        first, limit = 0, OBSERVED if kernel.is_likely else GLANCE
        try:
            while first < every and groups.statistics.instructions < limit and self._is_open(kernel, stepper):
                groups.run_group(first)
                first += 1
            if first < every - 1:
                total.add(engine.run(_part(dispatch, first, every - 1)))
            if first < every:
                if self._is_open(kernel, stepper):
                    groups.run_group(every - 1)
                else:
                    total.add(engine.run(_part(dispatch, every - 1, every)))
        finally:
            kernel.observed += groups.statistics.instructions
            kernel.launches += 1
            self._settle(kernel, stepper)
        total.add(groups.statistics)
        return total

    def added(self, counts: dict[int, int]) -> dict[int, int]:
        """What an engine counted, and what was executed here instead."""
        return dict(Counter(counts) + self.counts)

    def _count(self, _wave: Wave, insn: Insn) -> None:
        self.counts[insn.pc] += 1

    @staticmethod
    def _is_open(kernel: Kernel, stepper: ObservingStepper) -> bool:
        """Whether there is anything left that was not met."""
        return not kernel.open.keys() <= stepper.missed.keys()

    def _settle(self, kernel: Kernel, stepper: ObservingStepper) -> None:
        """Tell what was met; once enough was looked at, the rest as notes."""
        for key, each in sorted(stepper.missed.items(), key=lambda item: item[0][2]):
            kernel.open.pop(key, None)
            if key not in kernel.told:
                kernel.told.add(key)
                self._tell(kernel.finding(each, stepper.counts[key]))
        if kernel.is_likely and kernel.observed < ENOUGH and kernel.launches < LAUNCHES:
            return
        for each in kernel.open.values():
            if each.is_likely:
                text = f"on a path that no wave took in {count(kernel.launches, 'run')} that were looked at"
                found = kernel.finding(each)
                found.level, found.message = Level.NOTE, f"{found.message}, {text}"
                self._tell(found)
        kernel.open = {}


def _part(dispatch: Dispatch, first: int, stop: int) -> Dispatch:
    """Some of the work-groups, whose waves take the turns that they would among all."""
    seed = None if dispatch.seed is None else dispatch.seed + first
    waves = None if dispatch.waves is None else dispatch.waves.part(first, stop)
    return replace(dispatch, groups=dispatch.groups[first:stop], seed=seed, waves=waves)


def _look(dispatch: Dispatch) -> Kernel:
    """Look at a kernel's code on all paths."""
    entries = [(dispatch.entry, dispatch.mode)]
    code = reachable(entries, Stepper(dispatch).fetch)
    found = missed(code, entries, replays="xnack" in dispatch.target.has)
    reaches_lds = dispatch.lds_bytes > 0
    words = {issue.pc: issue.insn.words for issue in code.issues.values()}
    spans = joined({pc: b"".join(word.to_bytes(4, "little") for word in those) for pc, those in words.items()})
    return Kernel(dispatch.entry, spans, {each.key: each for each in found if each.is_likely or reaches_lds})
