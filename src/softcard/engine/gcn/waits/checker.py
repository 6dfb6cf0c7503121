"""The check of waits in running kernels, which reports hazards that occur and slows down only suspect kernels.

A kernel's code is analysed once, on all paths. If no hazard is possible, as in all compiled code, its waves
run as usual. Otherwise the first work-groups and the last one run on the reference engine with scoreboards,
with the same results, and the hazards that occur in their waves are reported. After enough instructions, the
possible hazards that have not occurred are reported as notes: their path was not taken, or can never be
taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Final

from softcard.core.checks import WAITS
from softcard.core.display import count
from softcard.core.errors import SoftcardError
from softcard.core.findings import Finding, Level
from softcard.engine.gcn.api import Dispatch, Engine, Statistics
from softcard.engine.gcn.hooks import Check
from softcard.engine.gcn.jit.basics import CodeRanges, holds, joined
from softcard.engine.gcn.jit.region import node_of
from softcard.engine.gcn.reference.engine import Stepper
from softcard.engine.gcn.reference.groups import Groups
from softcard.engine.gcn.waits.board import Board, Missed, finding
from softcard.engine.gcn.waits.issue import Issue, issue_of
from softcard.engine.gcn.waits.observing import ObservingStepper
from softcard.engine.hooks import Executions
from softcard.isa.gcn.insn import Insn

# ---- hazards on any path ---------------------------------------------------------------------------------------------
# The scoreboard over all paths of code: it finds the hazards on any path.
#
# A path ends at a computed jump. The analysis assumes, as is true of compiled code, that no operation is outstanding
# when a function is called or when it returns.


Place = tuple[int, int]
"""A point of the analysis: a pc, and the state word MODE there."""
LIMIT: Final = 200_000
"""The largest number of instructions that are analysed in one kernel's code."""
CALLS: Final = frozenset({"s_swappc_b64", "s_call_b64"})


@dataclass(slots=True)
class Code:
    """The reachable code: instructions by pc and MODE, and the successors of each.

    `is_whole` is False if the code has more instructions than the analysis permits (`LIMIT`)."""

    issues: dict[Place, Issue] = field(default_factory=dict)
    following: dict[Place, tuple[Place, ...]] = field(default_factory=dict)
    calls: set[Place] = field(default_factory=set)
    is_whole: bool = True


def reachable(entries: Iterable[Place], fetch: Callable[[int], Insn]) -> Code:
    """Return the code that can be reached from `entries` without a computed jump.

    `fetch` returns the instruction at a pc. An invalid encoding ends a path.
    """
    code = Code()
    work = list(entries)
    known: dict[tuple[tuple[int, ...], int], tuple[Issue, int]] = {}
    """A cache of analysed instructions: by instruction words and MODE, the instruction and the next value of MODE.

    It contains only instructions whose analysis does not depend on their address.
    """
    while work:
        place = work.pop()
        if place in code.issues:
            continue
        if len(code.issues) >= LIMIT:
            code.is_whole = False
            break
        pc, mode = place
        try:
            insn = fetch(pc)
        except SoftcardError:
            code.following[place] = ()
            continue
        same = known.get((insn.words, mode))
        if same is not None:
            code.issues[place] = replace(same[0], insn=insn, _text=[])
            code.following[place] = ((insn.next_pc, same[1]),)
            work.append((insn.next_pc, same[1]))
            continue
        node = node_of(insn, mode)
        issue = issue_of(insn, node.effects)
        code.issues[place] = issue
        fallthrough = (insn.next_pc, node.after)
        if issue.flow == "next" and insn.name not in CALLS:
            known[insn.words, mode] = issue, node.after
        if insn.name in CALLS:
            code.calls.add(place)
            following = [fallthrough] + ([(issue.target, mode)] if issue.flow == "jump" else [])
        elif issue.flow == "end" or (issue.flow == "indirect" and node.effects.hwreg_written is None):
            following = []
        else:
            following = [] if issue.flow == "jump" else [fallthrough]
            following += [(issue.target, mode)] if issue.flow in ("branch", "jump") else []
        code.following[place] = tuple(following)
        work += following
    return code


def missed(code: Code, entries: Iterable[Place], without: Set[int] = frozenset(), replays: bool = True) -> list[Missed]:
    """Return the hazards on any path from `entries`, ordered by pc.

    Instructions at the pcs in `without` are skipped. `replays` is True if XNACK may be on, provided that the
    processor has it."""
    before: dict[Place, Board] = {place: Board(replays) for place in entries if place in code.issues}
    work = list(before)
    found: dict[tuple[str, int, int], Missed] = {}
    while work:
        place = work.pop()
        issue, board = code.issues[place], before[place].copy()
        if issue.pc not in without:
            for each in board.step(issue):
                known = found.get(each.key)
                if known is None or known.when or not each.when:
                    found[each.key] = each
        if place in code.calls:
            board = Board(replays)
        for following in code.following[place]:
            if following not in code.issues:
                continue
            there = before.get(following)
            if there is None:
                before[following] = board.copy()
                work.append(following)
            elif there.join(board):
                work.append(following)
    return sorted(found.values(), key=lambda each: (each.after.pc, each.before.pc))


# ---- the checker -----------------------------------------------------------------------------------------------------
OBSERVED: Final = 20_000
"""The number of wave instructions of a launch that run with scoreboards; further work-groups run as usual."""
GLANCE: Final = 2_000
"""The value of `OBSERVED` for code whose only possible hazards need a FLAT access that reaches LDS."""
ENOUGH: Final = 200_000
"""The number of wave instructions of a kernel after which hazards that no wave met are reported as notes."""
LAUNCHES: Final = 50
"""The number of launches of a kernel after which hazards that no wave met are reported as notes."""

Key = tuple[str, int, int]
Report = Callable[[Finding], None]


@dataclass(slots=True, eq=False)
class Kernel:
    """The analysis of a kernel's code: its possible hazards, by key, and the number of instructions executed.

    A hazard is removed once it has occurred in a wave."""

    entry: int
    code_ranges: CodeRanges
    open: dict[Key, Missed]
    observed: int = 0
    launches: int = 0
    reported: set[Key] = field(default_factory=set)

    @property
    def is_likely(self) -> bool:
        """True if a hazard is possible even if no FLAT access reaches LDS."""
        return any(each.is_likely for each in self.open.values())

    def finding(self, missed: Missed, count: int = 1) -> Finding:
        """Return a finding for a hazard.

        Its positions are given relative to the kernel's entry, until a symbolizer replaces them."""
        found = finding(missed, text=lambda pc: f"(entry + {pc - self.entry:#x})")
        return Finding(
            WAITS,
            missed.hazard.id.partition("/")[2],
            found.message,
            found.level,
            pc=missed.after.pc,
            insn=missed.after.text,
            at=f"entry + {missed.after.pc - self.entry:#x}",
            other=found.other,
            other_pc=missed.before.pc,
            conflict=Finding(WAITS, "", "", pc=missed.before.pc, insn=missed.before.text),
            rule=found.rule,
            suggestion=found.suggestion,
            count=count,
        )


class WaitChecker(Check):
    """The check for missing waits in the kernels of one memory.

    The callback `report` is called once with each finding, in the order of the code. `executions` has the executions
    of each instruction under this check; the engines' own numbers lack these executions.
    """

    name = WAITS

    def __init__(self, report: Report) -> None:
        self._report = report
        self.executions = Executions()
        self._known: dict[tuple[str, int, int], Kernel] = {}

    def run(self, dispatch: Dispatch, engine: Engine) -> Statistics | None:
        """Run a dispatch with scoreboards if hazards are possible, and return its statistics.

        Otherwise return None: the dispatch can run as usual.
        """
        kernel = self._kernel(dispatch)
        if not kernel.open or not len(dispatch.groups):
            return None
        return self._observed(kernel, dispatch, engine)

    def _kernel(self, dispatch: Dispatch) -> Kernel:
        key = dispatch.target.name, dispatch.entry, dispatch.mode
        known = self._known.get(key)
        if known is None or not holds(known.code_ranges, dispatch.memory):
            known = self._known[key] = _analyse(dispatch)
        return known

    def _observed(self, kernel: Kernel, dispatch: Dispatch, engine: Engine) -> Statistics:
        """Run the first work-groups and the last one with scoreboards, the others as usual."""
        total, every = Statistics(), len(dispatch.groups)
        stepper = ObservingStepper(dispatch)
        stepper.suspects = {each.after.pc for each in kernel.open.values()}
        stepper.executions = self.executions
        if dispatch.checks.shadow is not None:
            dispatch.checks.shadow.follow()
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
            self._report_hazards(kernel, stepper)
        total.add(groups.statistics)
        return total

    def added_executions(self, executions: Executions) -> Executions:
        """Return an engine's numbers of executions plus those of instructions that were executed under this check."""
        return executions + self.executions

    @staticmethod
    def _is_open(kernel: Kernel, stepper: ObservingStepper) -> bool:
        """Return True if some possible hazard has not occurred yet in the waves that `stepper` ran."""
        return not kernel.open.keys() <= stepper.missed.keys()

    def _report_hazards(self, kernel: Kernel, stepper: ObservingStepper) -> None:
        """Report the hazards that have occurred in the waves that `stepper` ran.

        After enough executed instructions, also report as notes the possible hazards that have not occurred."""
        for key, each in sorted(stepper.missed.items(), key=lambda item: item[0][2]):
            kernel.open.pop(key, None)
            if key not in kernel.reported:
                kernel.reported.add(key)
                found, first = kernel.finding(each, stepper.counts[key]), stepper.first[key]
                found.unit, found.group = f"wave {first.wave}", ",".join(map(str, first.group))
                found.registers = first.registers
                self._report(found)
        if kernel.is_likely and kernel.observed < ENOUGH and kernel.launches < LAUNCHES:
            return
        for each in kernel.open.values():
            if each.is_likely:
                text = f"on a path that no wave took in {count(kernel.launches, 'run')} that were checked"
                found = kernel.finding(each)
                found.level, found.message = Level.NOTE, f"{found.message}, {text}"
                found.no_registers = "No wave took this path, so there are no registers to show."
                self._report(found)
        kernel.open = {}


def _part(dispatch: Dispatch, first: int, stop: int) -> Dispatch:
    """Return a dispatch of the work-groups `first` to `stop` - 1, with waves scheduled as in the whole dispatch."""
    seed = None if dispatch.seed is None else dispatch.seed + first
    waves = None if dispatch.waves is None else dispatch.waves.part(first, stop)
    return replace(dispatch, groups=dispatch.groups[first:stop], seed=seed, waves=waves)


def _analyse(dispatch: Dispatch) -> Kernel:
    """Return the analysis of a kernel's code on all paths."""
    entries = [(dispatch.entry, dispatch.mode)]
    code = reachable(entries, Stepper(dispatch).fetch)
    found = missed(code, entries, replays="xnack" in dispatch.target.has)
    reaches_lds = dispatch.lds_bytes > 0
    words = {issue.pc: issue.insn.words for issue in code.issues.values()}
    code_ranges = joined({pc: b"".join(word.to_bytes(4, "little") for word in those) for pc, those in words.items()})
    return Kernel(dispatch.entry, code_ranges, {each.key: each for each in found if each.is_likely or reaches_lds})
