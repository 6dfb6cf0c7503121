"""The ways into and out of loops that hold their registers: all chunks come from memory, and go back there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from understudy.engine.gcn.jit.basics import BlockKey
from understudy.engine.gcn.jit.emit_control import Control
from understudy.engine.gcn.jit.emit_registers import VectorFile
from understudy.engine.gcn.jit.held import HeldLoop
from understudy.engine.gcn.jit.liveness import Liveness
from understudy.ir.builder import LaneText
from understudy.isa.gcn.state import LANES


class HeldLoops:
    """Those of a region."""

    def __init__(self, text: LaneText, loops: list[HeldLoop], files: list[VectorFile], control: Control) -> None:
        self.text = text
        self.loops = loops
        self.files = files
        self.control = control
        self._by_place = {place: loop for loop in loops for place in loop.places}

    def begin(self, place: BlockKey) -> str:
        """A block begins: the label that it has for its loop, or for everybody."""
        loop = self._by_place.get(place)
        self.control.loop = loop
        for file in self.files:
            file.loop = loop
        return self.control.label(place)

    def ways(self, liveness: Liveness) -> None:
        """Write the ways in and out, when all blocks are written."""
        text, labels = self.text, self.control.labels
        for loop in self.loops:
            for n in sorted(loop.registers):
                for chunk in range(LANES // text.lanes):
                    for file in self.files:
                        text.alloca(f"{loop.variable(n, chunk, file.home.prefix)} = alloca {text.itype(32, True)}")
            for place in loop.entries:
                text.start(labels[place])
                self._move(loop, loop.registers, self._load)
                text.put(f"br label %{labels[place]}.held")
            for place in sorted(loop.exits):
                live = liveness.before(self.control.region.blocks[place], 0)
                text.start(f"out{loop.number}.{labels[place]}")
                lasting = (n for n in loop.stored if (live.active | live.inactive) >> n & 1)
                self._move(loop, lasting, self._store)
                text.put(f"br label %{labels[place]}")
            text.start(f"exit{loop.number}")
            self._move(loop, loop.stored, self._store)
            text.put("br label %exit")

    def _move(self, loop: HeldLoop, registers: Iterable[int], move: Callable[[str, str], None]) -> None:
        """All chunks of registers, between memory and variables."""
        for n in sorted(registers):
            for chunk in range(LANES // self.text.lanes):
                at = 4 * (n * LANES + chunk * self.text.lanes)
                for file in self.files:
                    row = self.text.let(f"getelementptr i8, ptr {file.home.state}, i64 {at}")
                    move(row, loop.variable(n, chunk, file.home.prefix))

    def _load(self, row: str, variable: str) -> None:
        self.files[0].store_chunk(self.files[0].load_chunk(row), variable)

    def _store(self, row: str, variable: str) -> None:
        self.files[0].store_chunk(self.files[0].load_chunk(variable), row)
