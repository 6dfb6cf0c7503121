"""How often marks mattered, where translated code only counts that: once what did it is not left any more.

Until then the reference engine may do it anew, and counts it. So a chunk of a strip counts at its end; a scalar
instruction, and what is looked for ahead of phases, counts at once and takes that back where it is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.engine.gcn.jit.emit_control import Control
from understudy.engine.gcn.jit.emit_helpers import LIKELY
from understudy.ir.builder import LaneText

Place = Callable[[], str]
"""Writes where a number is that grows."""
BITS: Final = 64
"""Of a variable that says which numbers of a chunk there are."""


class Counts:
    """Writes it for one region."""

    def __init__(self, text: LaneText, control: Control) -> None:
        self.text = text
        self.control = control
        self._begin = 0
        self._waiting: list[Place] = []
        """Of the chunk that is being written."""
        self._sums: list[Place] = []
        """Of the strip that is, ahead of phases."""

    def _variable(self, stem: str, number: int) -> str:
        name = f"%{stem}{number}"
        line = f"{name} = alloca i64"
        if line not in self.text.allocas:
            self.text.allocas.append(line)
        return name

    def _change(self, how: str, place: Place, number: str) -> None:
        self.text.put(f"atomicrmw {how} ptr {place()}, i64 {number} monotonic")

    # ---- scalar instructions ---------------------------------------------------------------------------------------
    def at_once(self, place: Place, number: str) -> None:
        """A scalar instruction counts."""
        self._change("add", place, number)

    def undoing(self, place: Place, number: Callable[[], str]) -> None:
        """It is left from now on with that taken back; `number` writes 0 where it has not counted."""
        self.control.undo.append(lambda: self._change("sub", place, number()))

    # ---- chunks ----------------------------------------------------------------------------------------------------
    def begin_chunk(self) -> None:
        """What a strip does to a chunk is next."""
        self._begin, self._waiting = len(self.text.lines), []

    def later(self, place: Place, number: str) -> None:
        """The chunk counts at its end."""
        text, k = self.text, len(self._waiting)
        self._waiting.append(place)
        text.put(f"store volatile i64 {number}, ptr {self._variable('number', k)}")
        which = self._variable("which", k // BITS)
        before = text.let(f"load i64, ptr {which}")
        text.put(f"store i64 {text.let(f'or i64 {before}, {1 << k % BITS}')}, ptr {which}")

    def end_chunk(self) -> None:
        """It is over, and is not left any more."""
        text, waiting = self.text, self._waiting
        words = [self._variable("which", k) for k in range(-(-len(waiting) // BITS))]
        text.lines[self._begin : self._begin] = [f"  store i64 0, ptr {which}" for which in words]
        for number, which in enumerate(words):
            bits, counts, on = text.let(f"load i64, ptr {which}"), text.fresh("counts"), text.fresh("on")
            text.branch(text.let(f"icmp eq i64 {bits}, 0"), on, counts, LIKELY)
            with text.apart(counts):
                for k in range(BITS * number, min(BITS * number + BITS, len(waiting))):
                    there, past = text.fresh("there"), text.fresh("past")
                    some = text.let(f"icmp ne i64 {text.let(f'and i64 {bits}, {1 << k % BITS}')}, 0")
                    text.branch(some, there, past)
                    text.start(there)
                    self._change("add", waiting[k], text.let(f"load volatile i64, ptr {self._variable('number', k)}"))
                    text.put(f"br label %{past}")
                    text.start(past)
                text.put(f"br label %{on}")
            text.start(on)

    # ---- ahead of phases -------------------------------------------------------------------------------------------
    def begin_strip(self) -> None:
        """A strip is next."""
        self._sums = []

    def ahead(self, place: Place, number: str) -> None:
        """What is ahead of phases counts."""
        text, total = self.text, self._variable("sum", len(self._sums))
        self._sums.append(place)
        self._change("add", place, number)
        before = text.let(f"load i64, ptr {total}")
        text.put(f"store i64 {text.let(f'add i64 {before}, {number}')}, ptr {total}")

    def variables(self) -> None:
        """Before the strip."""
        for k in range(len(self._sums)):
            self.text.put(f"store i64 0, ptr {self._variable('sum', k)}")

    def end_strip(self, label: str) -> None:
        """Where it leaves what is ahead of phases: all that has counted there does not."""
        text = self.text
        with text.apart(label):
            for k, place in enumerate(self._sums):
                self._change("sub", place, text.let(f"load i64, ptr {self._variable('sum', k)}"))
            text.put(f"br label %{self.control.step_exit()}")
