"""The algebra of meanings over LLVM IR, put together for one region."""

from __future__ import annotations

from understudy.engine.gcn.jit.emit_control import Control
from understudy.engine.gcn.jit.emit_float import Floats
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.emit_memory import Memory
from understudy.engine.gcn.jit.emit_registers import ScalarFile, VectorFile
from understudy.engine.gcn.jit.liveness import Observed
from understudy.engine.gcn.jit.region import Region
from understudy.ir.builder import LaneText
from understudy.ir.composed import Composed
from understudy.isa.gcn.state import FLAT_SCRATCH, Mode


class Algebra(
    Composed, ints=Integers, floats=Floats, scalars=ScalarFile, vectors=VectorFile, memory=Memory, control=Control
):
    """`isa.gcn.algebra.WaveAlgebra`, without what only the reference engine does."""

    def __init__(self, text: LaneText, region: Region, observed: Observed) -> None:
        self.mode = Mode()
        target = region.blocks[region.start].nodes[0].insn.target
        shown = frozenset(f"s{FLAT_SCRATCH[target.level] + n}" for n in range(2))
        self.ints = Integers(text)
        self.floats = Floats(text, self.ints)
        self.scalars = ScalarFile(text, self.ints, shown)
        self.vectors = VectorFile(text, self.ints, self.scalars)
        self.control = Control(text, self.ints, region, observed is not Observed.NEVER)
        self.memory = Memory(text, self.ints, self.vectors, self.control)
