"""Code that counts uses of values with a shadow, and counts repeated instructions only once.

The reference engine repeats an instruction after a side exit. Therefore a lane vector (the lanes that one
iteration of a strip-mined loop handles) updates counters at its end. A scalar instruction, and the prologue
of a loop with several passes, updates counters immediately, and a side exit undoes the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcard.engine.gcn.jit.emit.emit_control import Control
from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY
from softcard.ir.builder import LaneText
from softcard.ir.operand import Operand

Place = Callable[[], Operand]
"""A function that emits the address of a counter."""
BITS: Final = 64
"""The number of bits of a variable that records which counters of a lane vector are active."""


class Counts:
    """The emitter, for one region, of code that counts uses of values with a shadow."""

    def __init__(self, text: LaneText, control: Control) -> None:
        self.text = text
        self.control = control
        self._begin = 0
        self._waiting: list[Place] = []
        """The emitters of counter addresses of the lane vector that is being emitted."""
        self._sums: list[Place] = []
        """The emitters of counter addresses in the prologue of the strip-mined loop that is being emitted."""

    def _variable(self, stem: str, number: int) -> Operand:
        return self.text.slot(f"%{stem}{number}", "i64")

    def _change(self, how: str, place: Place, number: Operand) -> None:
        place().update(how, number, "monotonic")

    # ---- scalar instructions ---------------------------------------------------------------------------------------
    def at_once(self, place: Place, number: Operand) -> None:
        """Emit, for a scalar instruction, the immediate addition of `number` to the counter whose address `place`
        emits."""
        self._change("add", place, number)

    def undoing(self, place: Place, number: Callable[[], Operand]) -> None:
        """Emit, at later side exits of the instruction, code that subtracts a number from a counter to undo a count.

        `place` emits the address of the counter. `number` emits the number that was counted, which is 0 if nothing
        was counted."""
        self.control.undo.append(lambda: self._change("sub", place, number()))

    # ---- lane vectors ----------------------------------------------------------------------------------------------
    def begin_chunk(self) -> None:
        """Begin a lane vector of a strip-mined loop."""
        self._begin, self._waiting = len(self.text.lines), []

    def later(self, place: Place, number: Operand) -> None:
        """Emit code that adds `number` to a counter at the end of the lane vector; `place` emits the counter's
        address."""
        k = len(self._waiting)
        self._waiting.append(place)
        self._variable("number", k).store(number, volatile=True)
        which = self._variable("which", k // BITS)
        before = which.load("i64")
        which.store(before | 1 << k % BITS)

    def end_chunk(self) -> None:
        """End the lane vector: emit its additions to counters, after its last side exit."""
        text, waiting = self.text, self._waiting
        words = [self._variable("which", k) for k in range(-(-len(waiting) // BITS))]
        body = text.lines[self._begin :]
        del text.lines[self._begin :]
        for which in words:
            which.store(0)
        text.lines += body
        for number, which in enumerate(words):
            bits, counts, on = which.load("i64"), text.fresh("counts"), text.fresh("on")
            text.branch(bits.eq(0), on, counts, LIKELY)
            with text.apart(counts):
                for k in range(BITS * number, min(BITS * number + BITS, len(waiting))):
                    there, past = text.fresh("there"), text.fresh("past")
                    some = (bits & 1 << k % BITS).ne(0)
                    text.branch(some, there, past)
                    text.start(there)
                    self._change("add", waiting[k], self._variable("number", k).load("i64", volatile=True))
                    text.jump(past)
                    text.start(past)
                text.jump(on)
            text.start(on)

    # ---- the prologue of phases ------------------------------------------------------------------------------------
    def begin_strip(self) -> None:
        """Begin a strip-mined loop."""
        self._sums = []

    def count_prologue(self, place: Place, number: Operand) -> None:
        """Emit an addition to a counter, in the prologue of a strip-mined loop with several passes.

        `place` emits the address of the counter. The code also adds the number to a local sum, which a side exit
        subtracts from the counter to undo the count."""
        total = self._variable("sum", len(self._sums))
        self._sums.append(place)
        self._change("add", place, number)
        before = total.load("i64")
        total.store(before + number)

    def variables(self) -> None:
        """Emit, before a strip-mined loop, code that sets the local sums of `count_prologue` to 0."""
        for k in range(len(self._sums)):
            self._variable("sum", k).store(0)

    def end_strip(self, label: str) -> None:
        """Emit the side exit, named `label`, of a strip-mined loop with several passes.

        The emitted code undoes the additions of `count_prologue`: it subtracts each local sum from its counter."""
        text = self.text
        with text.apart(label):
            for k, place in enumerate(self._sums):
                self._change("sub", place, self._variable("sum", k).load("i64"))
            text.jump(self.control.step_exit())
