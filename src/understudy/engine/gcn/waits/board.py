"""The scoreboard: what is outstanding at a point of a path, and what an instruction misses there.

Of things that are done in order, one is done for certain when no more are outstanding than came behind it. So each
entry counts those of its own order behind it, on its own path, and goes when a wait asks for no more than that, or when
so many came behind it that the counter could not hold them all. Other orders do not matter to it. Where paths meet, the
smallest number is the worst case: it stays on the board the longest. So what a board of joined paths misses is missed
on one of them, and the board of one path is exact.

A FLAT access counts on both counters. Unless the run says what it reached it is taken for one of memory, in order with
the others; that it reaches LDS is a condition of what is found then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from understudy.engine.gcn.waits.issue import (
    FLAT,
    GDS,
    LDS,
    LDS_DMA,
    LDS_STORED,
    MEMORY,
    MOST,
    SCALAR,
    SCALAR_STORED,
    UNORDERED,
    VECTOR,
    Issue,
    registers_of,
)
from understudy.engine.gcn.waits.states import LONGEST, may_begin, may_end, rules
from understudy.isa.gcn.hazards import Hazard, hazard

REGISTERS: Final = LDS_STORED - 1
LONGEST_RUN: Final = 5
"""Instructions of a run that matter: LLVM looks at so many before one."""


@dataclass(frozen=True, slots=True)
class Owed:
    """An entry: what an instruction has started and the counter that tells when it is done.

    `behind`: how many of its order came later. `owed` and `lent` are as of `Counted`, `when` as of `Missed`.
    """

    issue: Issue
    counter: str
    order: str
    behind: int
    owed: int
    lent: int
    when: str = ""


@dataclass(frozen=True, slots=True)
class Missed:
    """A hazard: `after` came too early behind `before`. `need` is what would have been enough between them.

    `registers` are those that it is about. `when` is a condition that only a run can tell: `LDS` or `MEMORY`, which the
    FLAT access `before` must have reached.
    """

    hazard: Hazard
    before: Issue
    after: Issue
    need: str
    registers: int = 0
    when: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """The hazard and the places of the two."""
        return self.hazard.id, self.before.pc, self.after.pc

    @property
    def is_doubtful(self) -> bool:
        """Whether it is a reason to warn only."""
        return self.after.level in self.hazard.doubtful

    @property
    def is_likely(self) -> bool:
        """Whether it is one unless a run says otherwise: FLAT accesses reach memory unless a run says LDS."""
        return self.when != LDS

    @property
    def names(self) -> str:
        """Its registers as text; "" where it is about none."""
        return ", ".join(registers_of(self.registers & REGISTERS))


@dataclass(slots=True)
class Board:
    """What is outstanding. `entries` by pc and counter; `recent`: wait states since each instruction.

    `run`: memory instructions of one kind right before, and how many of it since. `replays`: whether XNACK may be on,
    where the processor has it.
    """

    replays: bool = True
    entries: dict[tuple[int, str], Owed] = field(default_factory=dict)
    recent: dict[Issue, int] = field(default_factory=dict)
    run: dict[Issue, int] = field(default_factory=dict)

    def copy(self) -> Board:
        """Another one that says the same."""
        return Board(self.replays, dict(self.entries), dict(self.recent), dict(self.run))

    def join(self, other: Board) -> bool:
        """Take in what holds on another path to here; whether that was news."""
        before = self.copy()
        for key, entry in other.entries.items():
            mine = self.entries.get(key)
            if mine is None:
                self.entries[key] = entry
            else:
                behind, owed = min(mine.behind, entry.behind), mine.owed | entry.owed
                self.entries[key] = replace(mine, behind=behind, owed=owed, lent=mine.lent | entry.lent)
        for ours, theirs in ((self.recent, other.recent), (self.run, other.run)):
            for issue, age in theirs.items():
                ours[issue] = min(age, ours.get(issue, age))
        return self != before

    # ---- one instruction -------------------------------------------------------------------------------------------
    def step(self, issue: Issue, reached: frozenset[str] | None = None) -> list[Missed]:
        """What an instruction misses; the board is that behind it then.

        `reached`: where the lanes of a FLAT access are, `MEMORY` or `LDS`, where a run says it.
        """
        missed = [*self._not_done(issue), *self._too_early(issue)]
        if self.run:
            missed += self._in_run(issue)
        self._wait(issue)
        self._start(issue, reached)
        self._pass(issue)
        return missed

    def _not_done(self, issue: Issue) -> Iterator[Missed]:
        """What it touches of what is outstanding. What was told, or is written anew, is taken off the board."""
        needed = issue.reads | _needed_by(issue)
        touched = needed | issue.writes
        for key, entry in list(self.entries.items()):
            late, kept = entry.owed & touched, entry.lent & issue.writes
            if not (late | kept):
                continue
            if late & ~needed and self._in_order(entry, issue):
                late &= needed
            if late | kept:
                yield self._missed(entry, issue, late | kept)
            self._keep(key, entry, ~(issue.writes if entry.lent else touched))

    def _in_order(self, entry: Owed, issue: Issue) -> bool:
        """Whether what is outstanding comes before what `issue` starts, to the same register."""
        if entry.order in UNORDERED or entry.issue.has_sampler != issue.has_sampler:
            return False
        return any((each.counter, each.order) == (entry.counter, entry.order) for each in issue.counted)

    def _missed(self, entry: Owed, issue: Issue, registers: int) -> Missed:
        need = f"s_waitcnt {entry.counter}cnt({entry.behind})"
        if entry.owed & SCALAR_STORED & registers:
            need = "s_dcache_wb"
        return Missed(hazard(self._name(entry, issue)), entry.issue, issue, need, registers, self._when(entry))

    def _when(self, entry: Owed) -> str:
        """A FLAT access that neither counter was waited for is late in any case."""
        return "" if entry.when == MEMORY and (entry.issue.pc, "lgkm") in self.entries else entry.when

    def _name(self, entry: Owed, issue: Issue) -> str:
        """The hazard, by what is outstanding."""
        if entry.lent:
            return "gds-data" if entry.issue.kind == GDS else "export-data"
        if issue.flow == "barrier":
            return "lds-store-barrier"
        if entry.issue.kind == SCALAR:
            return "scalar-store-end" if issue.flow == "end" else "scalar-result"
        if entry.issue.kind == VECTOR:
            if entry.owed & LDS_DMA:
                return "lds-dma"
            if entry.issue.insn.op.family == "flat":
                return "flat-result"
            return "vector-result-read" if entry.owed & issue.reads else "vector-result-overwritten"
        others = (
            each.counter == "lgkm" and each.order != entry.order for each in self.entries.values() if not each.when
        )
        return "mixed-result" if any(others) else "lds-result"

    def _too_early(self, issue: Issue) -> Iterator[Missed]:
        """Wait states that are missing."""
        if not self.recent or not may_end(issue):
            return
        for found, states, pair in rules(issue.level):
            for before, age in self.recent.items():
                if age < states:
                    registers = pair(before, issue)
                    if registers:
                        need = f"s_nop {states - age - 1}"
                        yield Missed(found, before, issue, need, max(registers, 0))

    def _in_run(self, issue: Issue) -> list[Missed]:
        """Whether it may not be done again together with the memory instructions right before it."""
        run = [each for each in self.run if each.kind == issue.kind]
        reads, writes = issue.reads, issue.writes
        for each in run:
            reads, writes = reads | each.reads, writes | each.writes
        spoiled = reads & writes & REGISTERS
        is_store = issue.kind == SCALAR and issue.stores
        if not any(each.writes for each in run) or not (spoiled or is_store):
            return []
        self.run = {}
        name = "scalar-clause" if issue.kind == SCALAR else "vector-clause"
        return [Missed(hazard(name), min(run, key=lambda each: each.pc), issue, "s_nop 0", spoiled)]

    # ---- the board behind it ---------------------------------------------------------------------------------------
    def _wait(self, issue: Issue) -> None:
        for counter, most in issue.waits.items():
            for key, entry in list(self.entries.items()):
                if entry.counter == counter and entry.behind >= most:
                    self._keep(key, entry, SCALAR_STORED)
        if issue.name.startswith("s_dcache_wb"):
            for key, entry in list(self.entries.items()):
                self._keep(key, entry, ~SCALAR_STORED)

    def _keep(self, key: tuple[int, str], entry: Owed, what: int) -> None:
        """Only that much of an entry, if anything."""
        if entry.owed & what or entry.lent & what:
            self.entries[key] = replace(entry, owed=entry.owed & what, lent=entry.lent & what)
        else:
            del self.entries[key]

    def _start(self, issue: Issue, reached: frozenset[str] | None) -> None:
        is_flat = issue.insn.op.family == "flat"
        for counted in issue.counted:
            counter, order, owed, when = counted.counter, counted.order, counted.owed, ""
            if is_flat:
                place = MEMORY if counter == "vm" else LDS
                if reached is None:
                    when = place
                    owed &= REGISTERS
                elif place not in reached:
                    owed = 0
                if reached is not None and LDS in reached:
                    order = FLAT
            if order not in UNORDERED:
                self._age(counter, order, MOST[counter][issue.level])
            if owed | counted.lent:
                self.entries[issue.pc, counter] = Owed(issue, counter, order, 0, owed, counted.lent, when)

    def _age(self, counter: str, order: str, most: int) -> None:
        for key, entry in list(self.entries.items()):
            if entry.counter == counter and entry.order == order:
                if entry.behind + 1 >= most:
                    del self.entries[key]
                else:
                    self.entries[key] = replace(entry, behind=entry.behind + 1)

    def _pass(self, issue: Issue) -> None:
        if self.recent:
            takes = issue.takes
            self.recent = {each: age + takes for each, age in self.recent.items() if age + takes < LONGEST}
        if may_begin(issue):
            self.recent[issue] = 0
        if issue.kind in (VECTOR, SCALAR) and self.replays and may_replay(issue):
            same = ((each, age) for each, age in self.run.items() if each.kind == issue.kind)
            self.run = {issue: 0} | {each: age + 1 for each, age in same if each is not issue and age + 1 < LONGEST_RUN}
        elif self.run:
            self.run = {}


def may_replay(issue: Issue) -> bool:
    """Whether a processor can have XNACK on: GFX9's and few of GFX8, as long as nothing says that it is off."""
    return issue.level >= 9 or "xnack" in issue.insn.target.has


def _needed_by(issue: Issue) -> int:
    """What an instruction needs to be done though it is no register."""
    if issue.flow == "barrier":
        return LDS_STORED
    if issue.flow == "end":
        return SCALAR_STORED
    return LDS_DMA if issue.kind == LDS and issue.writes else 0
