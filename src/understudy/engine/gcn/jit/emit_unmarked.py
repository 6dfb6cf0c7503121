"""Code that takes vector registers for unmarked: what twins are in it, and where it is left.

In correct programs nearly nothing is marked. So a region is at first written for that: no vector register that it names
has marks of a kind when it is entered (`native_unmark`), nor as long as it runs. It has no arithmetic of marks but that
of scalar registers. Loads look whether what they read is marked, and before a strip the scalar registers that it reads
are looked at. Where one is, the strip is left to the reference engine, and from then on code that follows marks is run
in place of the same region (`CodeSpace.follow_marks`). Where it is entered with marks, such code is run this once.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.emit_contiguous import Contiguous, is_in_line
from understudy.engine.gcn.jit.emit_control import Base, Control, set_word, word
from understudy.engine.gcn.jit.emit_helpers import LIKELY, Helpers
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.emit_memory import Memory
from understudy.engine.gcn.jit.emit_registers import ScalarFile, VectorFile
from understudy.engine.gcn.jit.emit_twin import Twin, WaveParts
from understudy.engine.gcn.jit.home import Home
from understudy.engine.gcn.jit.liveness import Liveness
from understudy.engine.gcn.jit.native_unmark import WORDS
from understudy.engine.gcn.jit.region import Region
from understudy.ir.builder import LaneText, Value


class UnmarkedScalars(ScalarFile):
    """Marks of scalar registers. `assumed`: those that a strip takes for unmarked, by variable, and its type."""

    def begin(self) -> None:
        """Nothing is known at the head of a block."""
        super().begin()
        self.assumed: dict[str, str] = {}

    def _variable(self, name: str, kind: str) -> Value:
        if not self.in_strip:
            return super()._variable(name, kind)
        self.assumed[name] = kind
        return self.ints.const(int(kind[1:]), 0)

    def s(self, n: int) -> Value:
        """Of scalar register n."""
        found = super().s(n)
        return self.ints.const(32, 0) if self.in_strip else found

    def s64(self, n: int) -> Value:
        """Of scalar registers n and n + 1."""
        found = super().s64(n)
        return self.ints.const(64, 0) if self.in_strip else found

    def looked_at(self) -> list[str]:
        """Whether those that a strip has assumed are marked, asked before it."""
        found = [super(UnmarkedScalars, self)._variable(name, kind) for name, kind in sorted(self.assumed.items())]
        unknown = (each for each in found if each.number != 0)
        return [self.text.let(f"icmp ne i{each.w} {self.text.bits(each)}, 0") for each in unknown]

    def know(self) -> None:
        """The strip was not left for them: they have no marks."""
        for name, kind in self.assumed.items():
            self.cur[name] = self.ints.const(int(kind[1:]), 0)
        self.assumed = {}


class UnmarkedVectors(VectorFile):
    """Marks of vector registers and lane masks: there are none, and none are written."""

    def __init__(self, text: LaneText, ints: Integers, scalars: ScalarFile, control: Control, home: Home) -> None:
        super().__init__(text, ints, scalars, home)
        self.control = control

    def v(self, n: int) -> Value:
        """Of vector register n."""
        return self.ints.const(32, 0)

    def set_v(self, n: int, v: Value, where: Value | None = None) -> None:
        """What it had, it has."""
        assert v.number == 0

    def mask(self, n: int) -> Value:
        """Of a scalar register pair, one bit per lane."""
        if n not in self.masks:
            self.scalars.s64(n)
        return self.ints.const(1, 0)

    def set_mask(self, n: int, m: Value) -> None:
        """The pair has none when all chunks are done."""
        assert m.number == 0
        super().set_mask(n, m)

    def v_at(self, n: int, lane: Value) -> Value:
        """Of another lane."""
        return self.ints.const(32, 0)

    def push(self, n: int, v: Value, lane: Value) -> None:
        """What others had, they have."""
        assert v.number == 0

    def lane(self, n: int, lane: Value) -> Value:
        """Of one lane."""
        return self.ints.const(32, 0)

    def set_lane(self, n: int, lane: Value, v: Value) -> None:
        """A scalar goes into one lane: the instruction is left to the reference engine where that is marked."""
        if v.number == 0:
            return
        text, on, met = self.text, self.text.fresh("on"), self.text.fresh("met")
        text.branch(text.let(f"icmp eq i32 {text.bits(v)}, 0"), on, met, LIKELY)
        out = self.control.step_exit()
        with text.apart(met):
            set_word(text, layout.UNMARKED, str(layout.MET))
            text.put(f"br label %{out}")
        text.start(on)


class UnmarkedMemory(Memory):
    """Marks of memory: what lanes read is taken for unmarked, and noted.

    Where the wave's own memory is accessed in line, so is this, at the same time (`Contiguous.beside`).
    """

    def __init__(self, text: LaneText, ints: Integers, vectors: VectorFile, control: Control, own: Memory) -> None:
        super().__init__(text, ints, vectors, control, own.addresses)
        self.own = own.contiguous
        self.own.beside.append(self.contiguous)

    def _load(self, space: str, bits: int, address: Value, where: Value | None) -> list[Value]:
        if not is_in_line(space, bits):
            self._note(space, bits, address, where)
        return [self.ints.const(32, 0)] * max(1, bits // 32)

    def _note(self, space: str, bits: int, address: Value, where: Value | None) -> None:
        for value in super()._load(space, bits, address, where):
            self.own.note(self.text.bits(value, True))

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Write lanes, of which none has marks."""
        if not is_in_line(space, bits):
            super().store(space, bits, address, values, where)

    def _atomic(
        self, space: str, kind: str, bits: int, address: Value, v: Value, compare: Value | None, where: Value | None
    ) -> Value:
        """Memory that is not marked is not marked then: operands are not either."""
        self._note(space, bits, address, where)
        leave_where_marked(self.text, self.vectors, self.own)  # what follows must not be done twice
        return self.ints.const(bits, 0)


class UnmarkedTwin(Twin):
    """That of a kind, where vector registers are taken for unmarked."""

    scalars: UnmarkedScalars
    memory: UnmarkedMemory

    def make(self, wave: WaveParts, home: Home) -> None:
        """Make its registers and memory."""
        text, ints, in_place, control, own = wave
        self.scalars = UnmarkedScalars(text, ints, in_place, home)
        self.vectors = UnmarkedVectors(text, ints, self.scalars, control, home)
        self.memory = UnmarkedMemory(text, ints, self.vectors, control, own)


def leave_where_marked(text: LaneText, vectors: VectorFile, own: Contiguous) -> None:
    """Leave the strip where an active lane has read marks."""
    if not own.marks:
        return
    marks, on, met = Value(32, True, own.marks), text.fresh("on"), text.fresh("met")
    own.marks = ""
    lanes = vectors.ints.and_(1, vectors.active(), vectors.ints.ne(32, marks, vectors.ints.const(32, 0)))
    none = text.let(f"icmp eq i{text.lanes} {vectors.compressed(lanes)}, 0")
    text.branch(none, on, met, LIKELY)
    with text.apart(met):
        set_word(text, layout.UNMARKED, str(layout.MET))
        text.put(f"br label %leave{vectors.label}")
    text.start(on)


class Entries:
    """Where code that takes registers for unmarked is entered. `twins`: which, a bit each."""

    def __init__(self, text: LaneText, helpers: Helpers, base: Base, twins: int) -> None:
        self.text = text
        self.helpers = helpers
        self.base = base
        self.twins = twins

    def look(self, name: str, index: int, pc: int) -> None:
        """The function `name` is entered at place `index`: go on where there are no marks."""
        text, go, look = self.text, self.text.fresh("go"), self.text.fresh("look")
        here = f"ptrtoint (ptr @{name} to i64)"
        text.branch(text.let(f"icmp eq i64 {word(text, layout.UNMARKED)}, {here}"), go, look, LIKELY)
        text.start(look)
        sets = f"ptr getelementptr (i64, ptr @sets, i64 {3 * WORDS * index})"
        marked = text.let(f"call i64 {self.helpers.address('unmark')}(ptr %st, i64 {self.twins}, {sets})")
        fine, met = text.fresh("fine"), text.fresh("met")
        text.branch(text.let(f"icmp eq i64 {marked}, 0"), fine, met, LIKELY)
        text.start(fine)
        set_word(text, layout.UNMARKED, here)
        text.put(f"br label %{go}")
        text.start(met)
        set_word(text, layout.UNMARKED, "0")
        text.put(f"store i64 {layout.MARKED}, ptr %codev")
        text.put(f"store i64 {self.base.at(pc)}, ptr %pcv")
        text.put("br label %exit")
        text.start(go)


def sets(region: Region, liveness: Liveness) -> list[list[int]]:
    """For each entry what `unmark` is told: registers that are read in lanes of EXEC, in others, and all, as words."""
    every, found = named(region), []
    for place in region.entries:
        live = liveness.before(region.blocks[place], 0)
        wanted = live.active & every, live.inactive & every, every
        found.append([each >> 64 * number & (1 << 64) - 1 for each in wanted for number in range(WORDS)])
    return found


def named(region: Region) -> int:
    """The vector registers that instructions of a region name, one bit each."""
    nodes = (node.effects for block in region.blocks.values() for node in block.nodes)
    return sum(1 << n for n in set[int]().union(*(found.v_reads | found.v_writes for found in nodes)))
