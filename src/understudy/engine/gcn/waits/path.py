"""The scoreboard of waves along the paths that they take: exact, since each has but one."""

from __future__ import annotations

from understudy.engine.gcn.jit.effects import effects
from understudy.engine.gcn.waits.board import Board, Missed
from understudy.engine.gcn.waits.issue import Issue, issue_of
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import MODE_BITS, PTR32, Mode
from understudy.isa.gcn.target import Target


class Paths:
    """What is outstanding of each wave, by whatever names it. XNACK is on where the processor says so."""

    def __init__(self, target: Target) -> None:
        self._replays = "xnack" in target.has
        self._boards: dict[int, Board] = {}
        self._issues: dict[tuple[Insn, int], Issue] = {}

    def step(self, wave: int, insn: Insn, mode: int, reached: frozenset[str] | None = None) -> list[Missed]:
        """A wave has executed an instruction with this word MODE; what it missed. `reached` as of `Board.step`."""
        key = insn, mode & (MODE_BITS | PTR32)
        issue = self._issues.get(key)
        if issue is None:
            issue = self._issues[key] = issue_of(insn, effects(insn, Mode.decode(mode)))
        board = self._boards.get(wave)
        if board is None:
            board = self._boards[wave] = Board(self._replays)
        missed = board.step(issue, reached)
        if issue.flow == "end":
            del self._boards[wave]
        return missed
