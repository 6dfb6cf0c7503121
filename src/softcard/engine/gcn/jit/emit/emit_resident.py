"""The entries and exits of register-resident loops, which keep their vector registers in host registers.

An entry loads all vector registers of the loop from memory. An exit stores those that the loop has
written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from softcard.engine.gcn.jit.basics import BlockKey
from softcard.engine.gcn.jit.emit.emit_control import Control
from softcard.engine.gcn.jit.emit.emit_registers import VectorFile
from softcard.engine.gcn.jit.liveness import Liveness
from softcard.engine.gcn.jit.resident import ResidentLoop
from softcard.ir.builder import LaneText
from softcard.ir.operand import Operand
from softcard.isa.gcn.state import LANES, row_at


class ResidentLoops:
    """The emitter of a region's register-resident loops."""

    def __init__(self, text: LaneText, loops: list[ResidentLoop], files: list[VectorFile], control: Control) -> None:
        self.text = text
        self.loops = loops
        self.files = files
        self.control = control
        self._by_place = {place: loop for loop in loops for place in loop.places}

    def begin(self, place: BlockKey) -> str:
        """Begin a block, and return its label.

        A block of a register-resident loop has a separate label for jumps inside the loop."""
        loop = self._by_place.get(place)
        self.control.loop = loop
        for file in self.files:
            file.loop = loop
        return self.control.label(place)

    def ways(self, liveness: Liveness) -> None:
        """Emit the code of all entries and exits of register-resident loops.

        Call this after all blocks have been emitted."""
        text, labels = self.text, self.control.labels
        for loop in self.loops:
            for n in sorted(loop.registers):
                for chunk in range(LANES // text.lanes):
                    for file in self.files:
                        text.alloca(f"{loop.variable(n, chunk, file.base.prefix)} = alloca {text.itype(32, True)}")
            for place in loop.entries:
                text.start(labels[place])
                self._move(loop, loop.registers, self._load)
                text.jump(f"{labels[place]}.held")
            for place in sorted(loop.exits):
                live = liveness.before(self.control.region.blocks[place], 0)
                text.start(f"out{loop.number}.{labels[place]}")
                lasting = (n for n in loop.stored if (live.active | live.inactive) >> n & 1)
                self._move(loop, lasting, self._store)
                text.jump(labels[place])
            text.start(f"exit{loop.number}")
            self._move(loop, loop.stored, self._store)
            text.jump("exit")

    def _move(self, loop: ResidentLoop, registers: Iterable[int], move: Callable[[Operand, Operand], None]) -> None:
        """Emit moves of all lane vectors of registers between memory and local variables.

        `move` emits one move; it gets the address in memory and that of the variable.
        """
        for n in sorted(registers):
            for chunk in range(LANES // self.text.lanes):
                at = row_at(n) + 4 * chunk * self.text.lanes
                for file in self.files:
                    row = file.state.offset(at)
                    move(row, self.text.pointer(loop.variable(n, chunk, file.base.prefix)))

    def _load(self, row: Operand, variable: Operand) -> None:
        self.files[0].store_chunk(self.files[0].load_chunk(row), variable)

    def _store(self, row: Operand, variable: Operand) -> None:
        self.files[0].store_chunk(self.files[0].load_chunk(variable), row)
