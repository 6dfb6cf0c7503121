"""Twins in translated code: registers and memory that hold marks of a kind where the wave's hold values."""

from __future__ import annotations

from typing import Any, NamedTuple

from understudy.engine.gcn.jit.emit_control import Control
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.emit_memory import Memory
from understudy.engine.gcn.jit.emit_registers import ScalarFile, VectorFile
from understudy.engine.gcn.jit.home import Home, twin
from understudy.ir.builder import LaneText, Value
from understudy.ir.composed import Composed


class WaveParts(NamedTuple):
    """What a twin needs of the wave's algebra."""

    text: LaneText
    ints: Integers
    in_place: frozenset[str]
    control: Control
    memory: Memory


class Twin(
    Composed,
    scalars=ScalarFile,
    vectors=VectorFile,
    memory=Memory,
):
    """That of a kind. It has its registers in the same place as the wave, and its memory at the same addresses."""

    def __init__(self, number: int, wave: WaveParts) -> None:
        self.kind = number
        self.known: dict[int, tuple[Value, Any]] = {}
        """What is known of values that hold marks."""
        self.make(wave, twin(number))

    def make(self, wave: WaveParts, home: Home) -> None:
        """Make its registers and memory."""
        self.scalars = ScalarFile(wave.text, wave.ints, wave.in_place, home)
        self.vectors = VectorFile(wave.text, wave.ints, self.scalars, home)
        self.memory = Memory(wave.text, wave.ints, self.vectors, wave.control, wave.memory.addresses)

    def begin(self) -> None:
        """What is known so far is not known from here on."""
        self.known = {}
