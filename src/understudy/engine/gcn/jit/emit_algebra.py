"""The algebra of meanings over LLVM IR, put together for one region."""

from __future__ import annotations

from understudy.engine.gcn.jit.basics import Observed
from understudy.engine.gcn.jit.emit_control import Base, Control, GuestAddress
from understudy.engine.gcn.jit.emit_counts import Counts
from understudy.engine.gcn.jit.emit_float import Floats
from understudy.engine.gcn.jit.emit_hardware import Hardware
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.emit_memory import Memory
from understudy.engine.gcn.jit.emit_registers import ScalarFile, VectorFile
from understudy.engine.gcn.jit.emit_twin import Twin, WaveParts
from understudy.engine.gcn.jit.emit_unmarked import UnmarkedTwin
from understudy.engine.gcn.jit.float_control import FloatControl
from understudy.engine.gcn.jit.region import Region
from understudy.ir.builder import LaneText, Value
from understudy.ir.composed import Composed
from understudy.isa.gcn.state import FLAT_SCRATCH, INDEXED_SGPRS, Mode


class RegionIntegers(Integers):
    """Integers, some of which are addresses of the code."""

    def __init__(self, text: LaneText, base: Base) -> None:
        super().__init__(text)
        self.base = base

    def const(self, w: int, n: int) -> Value:
        """The number n, or the low bits of an address."""
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
    """`isa.gcn.algebra.WaveAlgebra`, without what only the reference engine does. `twins` hold marks, by kind.

    Of `kinds` of marks, vector registers are taken for unmarked by those whose numbers are in `unmarked`.
    """

    def __init__(
        self,
        text: LaneText,
        region: Region,
        observed: Observed,
        kinds: int = 0,
        unmarked: frozenset[int] = frozenset(),
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
        if region.blocks[region.start].nodes[0].watches:
            from understudy.engine.gcn.jit.emit_races import RaceHooks  # few programs ask for checks

            self.memory.races = races = RaceHooks(
                text, self.vectors, self.control, self.memory.helpers, self.memory.addresses
            )
            self.control.before_end, self.control.before_barrier = races.finish, races.arrive
        self.float_control = FloatControl(text)
        self.hardware = Hardware(text, self.ints, self.scalars, self.control, self.memory, self.float_control)
        wave = WaveParts(text, self.ints, self.scalars.in_place, self.control, self.memory)
        self.unmarked = [UnmarkedTwin(number, wave) for number in sorted(unmarked)]
        """Those twins that take vector registers for unmarked."""
        those: dict[int, Twin] = {each.kind: each for each in self.unmarked}
        self.counts = Counts(text, self.control)
        self.twins = [those[number] if number in those else Twin(number, wave) for number in range(kinds)]
