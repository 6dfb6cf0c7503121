"""Code specialised for defined inputs, which assumes that vector registers have no shadow bits set.

In correct programs nearly all values are defined and have no shadow bits. Therefore a region is first emitted
under the assumption that no vector register that it names has shadow bits, neither at its entry
(`native_clean`) nor while it runs. The emitted code computes only the shadow of scalar registers. Loads check
the shadow that they read, and before a strip-mined loop the shadow of its scalar registers is checked. If a
bit is set, the loop takes a side exit to the reference engine, and general code replaces the region from then
on (`CodeSpace.follow_shadow`). If a shadow bit is already set at an entry, general code runs for this one
execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.emit.emit_contiguous import Contiguous, is_in_line
from softcard.engine.gcn.jit.emit.emit_control import Base, Control, set_word, word
from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY, Helpers
from softcard.engine.gcn.jit.emit.emit_integer import Integers
from softcard.engine.gcn.jit.emit.emit_memory import Memory
from softcard.engine.gcn.jit.emit.emit_registers import ScalarFile, VectorFile
from softcard.engine.gcn.jit.emit.emit_shadow import ShadowState, WaveParts
from softcard.engine.gcn.jit.layout import RegisterBase
from softcard.engine.gcn.jit.liveness import Liveness
from softcard.engine.gcn.jit.native_clean import WORDS
from softcard.engine.gcn.jit.region import Region
from softcard.ir.builder import LaneText, Value
from softcard.ir.operand import Operand
from softcard.isa.gcn.semantics.matrix.table import Use


class CleanScalars(ScalarFile):
    """The shadow of scalar registers in code specialised for defined inputs.

    `assumed` has the registers that a strip-mined loop assumes to be defined: a mapping from variable name to
    type."""

    def begin(self) -> None:
        """Begin a block, in which no shadow is known yet."""
        super().begin()
        self.assumed: dict[str, str] = {}

    def _variable(self, name: str, kind: str) -> Value:
        if not self.in_strip:
            return super()._variable(name, kind)
        self.assumed[name] = kind
        return self.ints.const(int(kind[1:]), 0)

    def s(self, n: int) -> Value:
        """Return the shadow of scalar register n."""
        found = super().s(n)
        return self.ints.const(32, 0) if self.in_strip else found

    def s64(self, n: int) -> Value:
        """Return the shadow of scalar registers n and n + 1."""
        found = super().s64(n)
        return self.ints.const(64, 0) if self.in_strip else found

    def assumptions(self) -> list[Operand]:
        """Emit, before a loop, a condition for each register that the loop assumes to be defined; return them.

        A condition is true if its register has a shadow, so that the assumption fails."""
        found = [super(CleanScalars, self)._variable(name, kind) for name, kind in sorted(self.assumed.items())]
        unknown = (each for each in found if each.number != 0)
        return [self.text.bits(each).ne(0) for each in unknown]

    def know(self) -> None:
        """Record, after a loop, that the registers that the loop assumed to be defined have no shadow.

        If one of them had a shadow, execution would have left the loop by its side exit."""
        for name, kind in self.assumed.items():
            self.cur[name] = self.ints.const(int(kind[1:]), 0)
        self.assumed = {}


class CleanVectors(VectorFile):
    """The shadow of vector registers and lane masks: always empty, and never written."""

    def __init__(
        self, text: LaneText, ints: Integers, scalars: ScalarFile, control: Control, base: RegisterBase
    ) -> None:
        super().__init__(text, ints, scalars, base)
        self.control = control

    def v(self, n: int) -> Value:
        """Return the empty shadow of vector register n."""
        return self.ints.const(32, 0)

    def set_v(self, n: int, v: Value, where: Value | None = None) -> None:
        """Do nothing: the shadow stays empty."""
        assert v.number == 0

    def mask(self, n: int) -> Value:
        """Return the empty shadow, one bit for each lane, of a scalar register pair.

        The emitted loop then assumes that the pair is defined."""
        if n not in self.masks:
            self.scalars.s64(n)
        return self.ints.const(1, 0)

    def set_mask(self, n: int, m: Value) -> None:
        """Clear the shadow of a scalar register pair at the end of the strip-mined loop."""
        assert m.number == 0
        super().set_mask(n, m)

    def v_at(self, n: int, lane: Value) -> Value:
        """Return the empty shadow of a vector register in other lanes."""
        return self.ints.const(32, 0)

    def push(self, n: int, v: Value, lane: Value) -> None:
        """Do nothing: the shadow stays empty."""
        assert v.number == 0

    def lane(self, n: int, lane: Value) -> Value:
        """Return the empty shadow of a vector register in one lane."""
        return self.ints.const(32, 0)

    def set_lane(self, n: int, lane: Value, v: Value) -> None:
        """Emit a side exit to the reference engine, taken if the scalar written to a lane has a shadow."""
        if v.number == 0:
            return
        text, on, met = self.text, self.text.fresh("on"), self.text.fresh("met")
        text.branch(text.bits(v).eq(0), on, met, LIKELY)
        out = self.control.step_exit()
        with text.apart(met):
            set_word(text, layout.CLEAN, layout.MET)
            text.jump(out)
        text.start(on)

    def matrix_shadows(self, use: Use, main: Any, *, is_source: bool) -> None:
        """Do nothing: the shadow stays empty."""
        assert not is_source


class CleanMemory(Memory):
    """The shadow of memory in code specialised for defined inputs.

    Loads are assumed to be defined; their shadow is collected for a later check. Where the wave's own memory is
    accessed in line, its shadow is accessed along with it (`Contiguous.along`).
    """

    def __init__(self, text: LaneText, ints: Integers, vectors: VectorFile, control: Control, own: Memory) -> None:
        super().__init__(text, ints, vectors, control, own.addresses)
        self.own = own.contiguous
        self.own.along.append(self.contiguous)

    def _load(self, space: str, bits: int, address: Value, where: Value | None) -> list[Value]:
        if not is_in_line(space, bits):
            self._note(space, bits, address, where)
        return [self.ints.const(32, 0)] * max(1, bits // 32)

    def _note(self, space: str, bits: int, address: Value, where: Value | None) -> None:
        for value in super()._load(space, bits, address, where):
            self.own.note(self.text.bits(value, True))

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Emit the store of an empty shadow, unless the in-line store of the value has already stored it."""
        if not is_in_line(space, bits):
            super().store(space, bits, address, values, where)

    def _atomic(
        self, space: str, kind: str, bits: int, address: Value, v: Value, compare: Value | None, where: Value | None
    ) -> Value:
        """Emit the check of memory's shadow before an atomic; return the empty shadow of the old value.

        Since the operands are defined, memory that is defined remains defined."""
        self._note(space, bits, address, where)
        exit_where_shadowed(self.text, self.vectors, self.own)  # atomics must not be repeated, so exit before
        return self.ints.const(bits, 0)


class CleanShadowState(ShadowState):
    """The registers and memory of one kind of shadow, in code specialised for defined inputs."""

    scalars: CleanScalars
    memory: CleanMemory

    def make(self, wave: WaveParts, base: RegisterBase) -> None:
        """Create the emitters of shadow registers and shadow memory."""
        text, ints, in_place, control, own = wave
        self.scalars = CleanScalars(text, ints, in_place, base)
        self.vectors = CleanVectors(text, ints, self.scalars, control, base)
        self.memory = CleanMemory(text, ints, self.vectors, control, own)


def exit_where_shadowed(text: LaneText, vectors: VectorFile, own: Contiguous) -> None:
    """Emit a side exit of the strip-mined loop, taken if an active lane has loaded a value with shadow bits.

    `own.shadows` has the shadow bits that were loaded."""
    if own.shadows is None:
        return
    shadows, on, met = Value(32, True, own.shadows), text.fresh("on"), text.fresh("met")
    own.shadows = None
    lanes = vectors.ints.and_(1, vectors.active(), vectors.ints.ne(32, shadows, vectors.ints.const(32, 0)))
    none = vectors.compressed(lanes).eq(0)
    text.branch(none, on, met, LIKELY)
    with text.apart(met):
        set_word(text, layout.CLEAN, layout.MET)
        text.jump(f"leave{vectors.label}")
    text.start(on)


class Entries:
    """The emitter of the entries of code specialised for defined inputs.

    `shadows` is a bit mask of the kinds of shadow that the code assumes to be empty."""

    def __init__(self, text: LaneText, helpers: Helpers, base: Base, shadows: int) -> None:
        self.text = text
        self.helpers = helpers
        self.base = base
        self.shadows = shadows

    def emit(self, name: str, index: int, pc: int) -> None:
        """Emit entry `index` of function `name`, at guest address `pc`.

        The code continues with specialised code if no register has a shadow; otherwise it exits to the dispatcher."""
        text, go, emit = self.text, self.text.fresh("go"), self.text.fresh("emit")
        here = text.word(f"ptrtoint (ptr @{name} to i64)")
        text.branch(word(text, layout.CLEAN).eq(here), go, emit, LIKELY)
        text.start(emit)
        sets = text.pointer(f"getelementptr (i64, ptr @sets, i64 {3 * WORDS * index})")
        shadowed = text.invoke("i64", self.helpers.address("clear_dead"), text.pointer("%st"), self.shadows, sets)
        fine, met = text.fresh("fine"), text.fresh("met")
        text.branch(shadowed.eq(0), fine, met, LIKELY)
        text.start(fine)
        set_word(text, layout.CLEAN, here)
        text.jump(go)
        text.start(met)
        set_word(text, layout.CLEAN, 0)
        text.pointer("%codev").store(layout.SHADOWED)
        text.pointer("%pcv").store(self.base.at(pc))
        text.jump("exit")
        text.start(go)


def sets(region: Region, liveness: Liveness) -> list[list[int]]:
    """Return, for each entry, the three sets of registers that `clear_dead` needs, as 64-bit words.

    The first set has the registers that may be read in lanes of EXEC. The second has those that may be read in
    other lanes. The third has all registers that the region names."""
    every, found = region.named_vectors, []
    for place in region.entries:
        live = liveness.before(region.blocks[place], 0)
        wanted = live.active & every, live.inactive & every, every
        found.append([each >> 64 * number & (1 << 64) - 1 for each in wanted for number in range(WORDS)])
    return found
