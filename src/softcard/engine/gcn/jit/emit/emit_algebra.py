"""The implementation of the operations interface (`isa.gcn.algebra.WaveAlgebra`) that emits LLVM IR.

It serves one region, and is composed of components for integers, floats, registers, memory, control and hardware.
"""

from __future__ import annotations

from softcard.engine.gcn.instrumentation import PLAIN, Instrumentation
from softcard.engine.gcn.jit.basics import Observed
from softcard.engine.gcn.jit.emit.emit_clean import CleanShadowState
from softcard.engine.gcn.jit.emit.emit_control import Base, Control, GuestAddress
from softcard.engine.gcn.jit.emit.emit_counts import Counts
from softcard.engine.gcn.jit.emit.emit_float import Floats
from softcard.engine.gcn.jit.emit.emit_hardware import Hardware
from softcard.engine.gcn.jit.emit.emit_integer import Integers
from softcard.engine.gcn.jit.emit.emit_memory import Memory
from softcard.engine.gcn.jit.emit.emit_registers import ScalarFile, VectorFile
from softcard.engine.gcn.jit.emit.emit_shadow import ShadowState, WaveParts
from softcard.engine.gcn.jit.float_control import FloatControl
from softcard.engine.gcn.jit.region import Region
from softcard.ir.builder import LaneText, Value
from softcard.ir.composed import Composed
from softcard.isa.gcn.state import FLAT_SCRATCH, INDEXED_SGPRS, Mode


class RegionIntegers(Integers):
    """Integer operations on values, some of which are guest addresses of code."""

    def __init__(self, text: LaneText, base: Base) -> None:
        super().__init__(text)
        self.base = base

    def const(self, w: int, n: int) -> Value:
        """Return the constant n. If n is a guest address of code, emit the computation of its low `w` bits instead."""
        if not isinstance(n, GuestAddress):
            return super().const(w, n)
        return self.trunc(w, 64, Value(64, False, self.base.at(n)))


class Algebra(
    Composed,
    ints=RegionIntegers,
    floats=Floats,
    scalars=ScalarFile,
    vectors=VectorFile,
    memory=Memory,
    control=Control,
    hardware=Hardware,
):
    """An implementation of `isa.gcn.algebra.WaveAlgebra` that emits IR.

    Operations that only the reference engine supports are missing. `shadows` are the shadow registers, by kind. `clean`
    has the indices of those kinds of shadow whose vector registers are assumed to have no shadow bits.
    """

    def __init__(
        self,
        text: LaneText,
        region: Region,
        observed: Observed,
        instrumentation: Instrumentation = PLAIN,
        clean: frozenset[int] = frozenset(),
    ) -> None:
        self.text = text
        self.mode = Mode()
        target = region.blocks[region.start].nodes[0].insn.target
        places = [node.effects for block in region.blocks.values() for node in block.nodes]
        computed = range(INDEXED_SGPRS) if any(found.indexes_scalars for found in places) else ()
        in_place = {*computed, FLAT_SCRATCH[target.level], FLAT_SCRATCH[target.level] + 1}
        base = Base(text, region.start[0])
        self.ints = RegionIntegers(text, base)
        self.floats = Floats(text, self.ints)
        self.scalars = ScalarFile(text, self.ints, frozenset(f"s{n}" for n in in_place))
        self.vectors = VectorFile(text, self.ints, self.scalars)
        self.control = Control(text, self.ints, region, base, observed)
        self.memory = Memory(text, self.ints, self.vectors, self.control)
        if instrumentation.accesses is not None:
            parts = text, self.vectors, self.control, self.memory.helpers, self.memory.addresses
            self.memory.hooks = hooks = instrumentation.accesses(*parts)
            self.control.before_end, self.control.before_barrier = hooks.finish, hooks.arrive
        self.float_control = FloatControl(text)
        self.hardware = Hardware(text, self.ints, self.scalars, self.control, self.memory, self.float_control)
        wave = WaveParts(text, self.ints, self.scalars.in_place, self.control, self.memory)
        self.clean = [CleanShadowState(number, wave) for number in sorted(clean)]
        """The shadow registers of those kinds for which code is specialised for defined inputs."""
        those: dict[int, ShadowState] = {each.kind: each for each in self.clean}
        self.counts = Counts(text, self.control)
        kinds = range(len(instrumentation.shadows))
        self.shadows = [those[number] if number in those else ShadowState(number, wave) for number in kinds]
