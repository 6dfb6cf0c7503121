"""Rounds of a measured loop that are looked at together, before and behind them, instead of at each access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from understudy.engine.riscv.jit.emit_control import Control
from understudy.engine.riscv.jit.region import Block
from understudy.engine.riscv.jit.streams import MOST_STREAMS, STREAM_AT, STREAM_BYTES, Access, Ahead
from understudy.engine.riscv.jit.strides import Stride, accesses_memory
from understudy.ir.builder import Text

AT_ONCE: Final = 1024
"""Rounds that are looked at together at most."""
AT_RANDOM: Final = 64
"""The same where nothing tells when the loop ends: what is behind that would be looked at for nothing."""
LEAST_AT_ONCE: Final = 12
"""Rounds below which looking at them together would cost more than at each access."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A loop that was measured. `floor`: the fuel down to which rounds without checks may be made.

    `streams` are all its accesses, with where they begin and their steps, where rounds may be looked at together: then
    so many `times`, down to the fuel `near`.
    """

    start: int
    floor: str
    streams: dict[Access, tuple[str, str]]
    times: str = ""
    near: str = ""

    @property
    def accesses(self) -> list[Access]:
        """Those, in the order of a round."""
        return list(self.streams)


class Together:
    """Writes that, for all that writes more than an access where there is one (`parties`)."""

    def __init__(self, text: Text, control: Control, parties: Sequence[Ahead]) -> None:
        self.text = text
        self.control = control
        self._parties = parties

    def streams(self, block: Block, places: Sequence[tuple[Stride, str, str]]) -> dict[Access, tuple[str, str]]:
        """All accesses of a loop, in the order of a round, with where they begin, and their steps, by those of walks;
        none where rounds may not be looked at together."""
        of = {pc: (walk, first, step) for walk, first, step in places for pc in walk.accesses}
        insns = [insn for _, insn in block.insns]
        found = {Access(pc, insn, of[pc][0]): of[pc][1:] for pc, insn in block.insns if pc in of}
        every = sum(accesses_memory(insn) for insn in insns)
        if not self._parties or not len(found) == every <= MOST_STREAMS or block.polls:
            return {}
        return found if all(each.goes_ahead(insns, list(found)) for each in self._parties) else {}

    def ahead(self, loop: Measured) -> None:
        """Look at rounds of a loop together; all they do was written before."""
        text, look, fast = self.text, f"look{loop.start:x}", f"fast{loop.start:x}"
        text.start(f"ahead{loop.start:x}")
        text.branch(text.let(f"icmp uge i64 {loop.times}, {LEAST_AT_ONCE}"), look, fast)
        text.start(look)
        for number, (access, (first, step)) in enumerate(loop.streams.items()):
            words = {
                "host": text.let(f"add i64 {first}, {access.offset}"), "step": step, "size": access.size,
                "stores": int(access.stores), "number": number, "is_loaded": 0,
            }  # fmt: skip
            for name, word in words.items():
                at = number * STREAM_BYTES + 8 * STREAM_AT[name]
                text.put(f"store i64 {word}, ptr {text.let(f'getelementptr i8, ptr {self._rows()}, i64 {at}')}")
        text.put(f"store i64 0, ptr {self._rounds()}")
        table = self._table()
        for party in self._parties:
            on = text.fresh("fine")
            text.branch(party.ahead(loop.accesses, table, loop.times), on, fast)
            text.start(on)
        text.put(f"br label %together{loop.start:x}")

    def begin(self, loop: Measured) -> None:
        """What is written next is one of those rounds."""
        text = self.text
        for party in self._parties:
            party.together()
        made = text.let(f"load i64, ptr {self._rounds()}")
        text.put(f"store i64 {text.let(f'add i64 {made}, 1')}, ptr {self._rounds()}")
        self.control.leaving = lambda: self._behind(loop)

    def end(self) -> None:
        """It is none any more."""
        for party in self._parties:
            party.one_by_one()
        self.control.leaving = None

    def _behind(self, loop: Measured) -> None:
        """Those rounds are over before the present instruction."""
        text = self.text
        whole = text.let(f"sub i64 {text.let(f'load i64, ptr {self._rounds()}')}, 1")
        done, table = sum(each.pc < self.control.pc for each in loop.streams), self._table()
        for party in self._parties:
            party.behind(loop.accesses, table, whole, done)

    def _rows(self) -> str:
        self.text.alloca(f"  %streams = alloca [{MOST_STREAMS * STREAM_BYTES} x i8], align 8")
        return "%streams"

    def _table(self) -> str:
        return self.text.let(f"ptrtoint ptr {self._rows()} to i64")

    def _rounds(self) -> str:
        self.text.alloca("  %rounds = alloca i64")
        return "%rounds"
