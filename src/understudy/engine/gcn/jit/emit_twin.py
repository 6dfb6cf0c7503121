"""Twins in translated code: registers and memory that hold marks of a kind where the wave's hold values."""

from __future__ import annotations

from typing import Any

from understudy.engine.gcn.jit.emit_control import Control
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.emit_memory import Memory
from understudy.engine.gcn.jit.emit_registers import ScalarFile, VectorFile
from understudy.engine.gcn.jit.home import twin
from understudy.ir.builder import LaneText, Value
from understudy.ir.composed import Composed


class Twin(
    Composed,
    scalars=ScalarFile,
    vectors=VectorFile,
    memory=Memory,
):
    """That of a kind. It has its registers in the same place as the wave, and its memory at the same addresses."""

    def __init__(
        self,
        number: int,
        text: LaneText,
        ints: Integers,
        in_place: frozenset[str],
        control: Control,
        own: Memory,
    ) -> None:
        home = twin(number)
        self.kind = number
        self.scalars = ScalarFile(text, ints, in_place, home)
        self.vectors = VectorFile(text, ints, self.scalars, home)
        self.memory = Memory(text, ints, self.vectors, control, own.addresses)
        self.known: dict[int, tuple[Value, Any]] = {}
        """What is known of values that hold marks."""

    def begin(self) -> None:
        """What is known so far is not known from here on."""
        self.known = {}
