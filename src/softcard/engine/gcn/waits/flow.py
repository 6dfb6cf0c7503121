"""The scoreboard over all paths of code: it finds the hazards on any path.

A path ends at a computed jump. The analysis assumes, as is true of compiled code, that no operation is outstanding when
a function is called or when it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Final

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.jit.region import node_of
from softcard.engine.gcn.waits.board import Board, Missed
from softcard.engine.gcn.waits.issue import Issue, issue_of
from softcard.isa.gcn.insn import Insn

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
