"""The scoreboard over all paths of some code: what is missed wherever control may come from.

A computed jump ends a path. A call comes back with nothing outstanding, as compilers have it; what it calls begins so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Final

from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.jit.region import node_of
from understudy.engine.gcn.waits.board import Board, Missed
from understudy.engine.gcn.waits.issue import Issue, issue_of
from understudy.isa.gcn.insn import Insn

Place = tuple[int, int]
"""A pc, and the word MODE there."""
LIMIT: Final = 200_000
"""Instructions that are looked at."""
CALLS: Final = frozenset({"s_swappc_b64", "s_call_b64"})


@dataclass(slots=True)
class Code:
    """What can be reached: instructions by place, and the places behind each. `is_whole`: nothing was left out."""

    issues: dict[Place, Issue] = field(default_factory=dict)
    following: dict[Place, tuple[Place, ...]] = field(default_factory=dict)
    calls: set[Place] = field(default_factory=set)
    is_whole: bool = True


def reachable(entries: Iterable[Place], fetch: Callable[[int], Insn]) -> Code:
    """The code that can be reached from some places without a computed jump; words that are no instruction end it."""
    code = Code()
    work = list(entries)
    known: dict[tuple[tuple[int, ...], int], tuple[Issue, int]] = {}
    """By words and MODE: instructions whose meaning does not depend on where they stand."""
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
        except UnderstudyError:
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
        behind = (insn.next_pc, node.after)
        if issue.flow == "next" and insn.name not in CALLS:
            known[insn.words, mode] = issue, node.after
        if insn.name in CALLS:
            code.calls.add(place)
            following = [behind] + ([(issue.target, mode)] if issue.flow == "jump" else [])
        elif issue.flow == "end" or (issue.flow == "indirect" and node.effects.hwreg_written is None):
            following = []
        else:
            following = [] if issue.flow == "jump" else [behind]
            following += [(issue.target, mode)] if issue.flow in ("branch", "jump") else []
        code.following[place] = tuple(following)
        work += following
    return code


def missed(code: Code, entries: Iterable[Place], without: Set[int] = frozenset(), replays: bool = True) -> list[Missed]:
    """What is missed on some path from the entries, by place. Instructions at the pcs `without` count as left out."""
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
