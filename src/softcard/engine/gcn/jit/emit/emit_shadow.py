"""The shadow registers and shadow memory of one kind of shadow in translated code.

Shadow registers have the layout of the wave's registers, and shadow memory has the addresses of memory."""

from __future__ import annotations

from typing import Any, NamedTuple

from softcard.engine.gcn.jit.emit.emit_control import Control
from softcard.engine.gcn.jit.emit.emit_integer import Integers
from softcard.engine.gcn.jit.emit.emit_memory import Memory
from softcard.engine.gcn.jit.emit.emit_registers import ScalarFile, VectorFile
from softcard.engine.gcn.jit.layout import RegisterBase, shadow
from softcard.ir.builder import LaneText, Value
from softcard.ir.composed import Composed


class WaveParts(NamedTuple):
    """The parts of the wave's operations interface that shadow registers and shadow memory use."""

    text: LaneText
    ints: Integers
    in_place: frozenset[str]
    control: Control
    memory: Memory


class ShadowState(
    Composed,
    scalars=ScalarFile,
    vectors=VectorFile,
    memory=Memory,
):
    """The shadow registers and shadow memory of one kind.

    Shadow registers are at the same offsets as the wave's registers, shadow memory at the same addresses as memory.
    """

    def __init__(self, number: int, wave: WaveParts) -> None:
        self.kind = number
        self.known: dict[int, tuple[Value, Any]] = {}
        """The cached shadows of values, by value."""
        self.make(wave, shadow(number))

    def make(self, wave: WaveParts, base: RegisterBase) -> None:
        """Create the emitters of shadow registers and shadow memory."""
        self.scalars = ScalarFile(wave.text, wave.ints, wave.in_place, base)
        self.vectors = VectorFile(wave.text, wave.ints, self.scalars, base)
        self.memory = Memory(wave.text, wave.ints, self.vectors, wave.control, wave.memory.addresses)

    def begin(self) -> None:
        """Forget cached shadows."""
        self.known = {}
