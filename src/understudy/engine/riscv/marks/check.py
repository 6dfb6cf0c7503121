"""The check `init` of a device's harts: what was seen of marked values becomes findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import numpy as np

from understudy.core.checks import INIT
from understudy.core.findings import Finding, FindingLog
from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.marks.block import MarkBlock
from understudy.engine.riscv.marks.origins import Origins
from understudy.engine.riscv.marks.reference import MarkedEvaluator, ReferenceTwin
from understudy.engine.riscv.marks.sights import Sight, Sights, Site
from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import Hart

WHAT: Final = {
    "branch": "decides where the hart goes",
    "address": "is an address",
    "atomic": "is an operand of an atomic operation",
}
SUGGESTION: Final = "write it before, on every way that leads here"
RESULT: Final = "undefined-result"
ZERO, RA, SP, A0 = 0, 1, 2, 10


class MarkCheck:
    """Looks after the marks of a device's harts, and tells a log of what was seen.

    `code` gives the instruction that a hart has at an address.
    """

    def __init__(self, log: FindingLog, code: Callable[[Hart, int], Insn | None]) -> None:
        self.log = log
        self.sights = Sights()
        self._code = code
        self._blocks: dict[int, MarkBlock] = {}
        self._told: dict[Site, int] = {}
        self._entry, self._defined = 0, 0

    def dress(self, evaluator: Evaluator) -> MarkedEvaluator:
        """What instructions of a hart are executed on."""
        hart = evaluator.hart
        return MarkedEvaluator(evaluator, ReferenceTwin(hart, self.block(hart), self.sights))

    def block(self, hart: Hart) -> MarkBlock:
        """The marks of a hart."""
        if hart.index not in self._blocks:
            self._blocks[hart.index] = MarkBlock(hart)
        return self._blocks[hart.index]

    def launch(self, entry: int, arguments: int) -> None:
        """A kernel command runs next, whose instances get so many arguments behind a0."""
        self._entry, self._defined = entry, defined_with(arguments)

    def begin(self, hart: Hart, arguments: int) -> None:
        """An instance begins on a hart: ra, sp, a0 and so many arguments behind it have values, nothing else has."""
        self.block(hart).begin(defined_with(arguments))

    def tell(self) -> None:
        """Harts have run: tell of what is new."""
        blocks = list(self._blocks.values())
        for site, sight in list(self.sights.sites.items()):
            if sight.what not in WHAT:
                continue
            new = self.sights.count(site, blocks) - self._told.get(site, 0)
            if new:
                self._told[site] = self._told.get(site, 0) + new
                self.log.note(self._finding(sight, new))

    def _finding(self, sight: Sight, count: int) -> Finding:
        code = partial(self._code, sight.hart)
        origin = Origins(self._entry, self._defined, code, self.sights).of(sight.pc, sight.insn)
        message = f"an undefined value {WHAT[sight.what]}" + (f": it is that of {origin}" if origin else "")
        return Finding(
            INIT,
            f"undefined-{sight.what}",
            message,
            insn=text(sight.insn, sight.pc),
            pc=sight.pc,
            unit=f"hart {sight.hart.index}",
            suggestion=SUGGESTION,
            count=count,
        )

    # ---- what the host reads back --------------------------------------------------------------------------------
    def read_back(self, address: int, parts: Iterable[tuple[int, np.ndarray[tuple[int], np.dtype[np.uint8]]]]) -> None:
        """The host gets memory at a device address: its parts by their places in this process, and their marks.

        It is told of bytes that harts stored, but never computed; afterwards they are taken for written.
        """
        bad, first, store = 0, -1, None
        done = 0
        for host, marks in parts:
            places = np.flatnonzero(marks)
            stored = [key for key in self.sights.stored if host <= key < host + len(marks)] if len(places) else []
            found = [(key, self.sights.stored.pop(key)) for key in sorted(stored)]
            if found:
                bad += len(places)
                first = done + int(places[0]) if first < 0 else first
                store = store or found[0][1]
            done += len(marks)
        if store is None:
            return
        message = f"{bad} bytes of memory at {address:#x} were stored, but never computed: the first is number {first}"
        self.log.note(
            Finding(
                INIT,
                RESULT,
                message,
                access="write",
                space="global",
                address=store.address,
                size=store.size,
                pc=store.pc,
                insn=text(store.insn, store.pc),
                unit=f"hart {store.hart.index}",
                suggestion=SUGGESTION,
                count=bad,
            )
        )


def defined_with(arguments: int) -> int:
    """A bit for each integer register that an instance gets a value in: ra, sp, a0 and so many behind it."""
    return 1 << ZERO | 1 << RA | 1 << SP | (1 << arguments + 1) - 1 << A0
