"""The emitter of handlers.

It reuses the emitters of regions, but emitted code loads constants and the locations of registers from a
record. A handler is ``i64 handler(ptr state, ptr record)``. It executes one instruction for all lanes, and
tail-calls the function of the next record. If it cannot execute the instruction, it returns an exit code (see
`jit.layout`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, cast

from softcard.core.errors import ModelBug
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import Observed, Untranslated
from softcard.engine.gcn.jit.emit.emit_clean import CleanShadowState
from softcard.engine.gcn.jit.emit.emit_control import Base, Control, set_word, word
from softcard.engine.gcn.jit.emit.emit_counts import Counts
from softcard.engine.gcn.jit.emit.emit_float import Floats
from softcard.engine.gcn.jit.emit.emit_hardware import Hardware
from softcard.engine.gcn.jit.emit.emit_integer import Integers
from softcard.engine.gcn.jit.emit.emit_memory import Memory
from softcard.engine.gcn.jit.emit.emit_registers import REGISTERS, WHOLE, ScalarFile, VectorFile
from softcard.engine.gcn.jit.emit.emit_shadow import ShadowState
from softcard.engine.gcn.jit.emit.emit_strip import StripEmitter
from softcard.engine.gcn.jit.float_control import FloatControl, of_mode
from softcard.engine.gcn.jit.liveness import EVERYTHING
from softcard.engine.gcn.jit.region import Block, Region
from softcard.engine.gcn.jit.strip import Strip
from softcard.engine.gcn.threaded.kind import NOWHERE, PC, PLAIN, RECORD_HEAD, STEP, Deferred, Kind
from softcard.engine.gcn.threaded.records import Handler
from softcard.ir.builder import LaneText, Value, vector_width
from softcard.ir.composed import Composed
from softcard.ir.operand import Operand
from softcard.isa.gcn import state
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Selectors
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import LANES, SGPR_AT, WORDS_AT, Mode

PC_AT: Final = 8
REFUND_AT: Final = 16
"""The offset in a record of the number of the block's remaining instructions (32 bits).

`PC_AT` is the offset of the instruction's address.
"""
PAIR: Final = "pair"
"""The prefix of the names of variables that stand for pairs of registers with one 64-bit value."""
FIXED: Final = ", !invariant.load !30"
"""The LLVM metadata of loads from records, which do not change while code runs."""


class Record:
    """The layout of the record of the handler being emitted, and the emitter of loads of its fields."""

    def __init__(self, text: LaneText, kind: Kind) -> None:
        self.text = text
        self.places: list[int] = []
        self.size = RECORD_HEAD
        self.caches: list[tuple[str, int]] = []
        self.target = 0
        for part in kind.parts:
            self.places.append(self.reserve(part.size))
        self.vectors = [at for at, part in zip(self.places, kind.parts, strict=True) if part.role == "v"]
        numbers = {n.slot for n in (*kind.insn.fields.values(), kind.insn.literal) if isinstance(n, Deferred)}
        self.scalars = [
            (part.role, at)
            for number, (at, part) in enumerate(zip(self.places, kind.parts, strict=True))
            if part.role != "v" and number not in numbers
        ]

    def reserve(self, size: int) -> int:
        """Reserve `size` bytes of the record with natural alignment; return their offset in the record."""
        at = self.size + size - 1 & -size
        self.size = at + size
        return at

    def finish(self) -> None:
        """Round the size of the record up to a multiple of 8."""
        self.size = self.size + 7 & -8

    def get(self, at: int, kind: str = "i32") -> Operand:
        """Emit the load of the record's field at an offset."""
        return self.text.pointer("%rec").offset(at).load(kind, tail=FIXED)


class HandlerIntegers(Integers):
    """The integer operations of a handler. Some constants are loaded from the record."""

    def __init__(self, text: LaneText, record: Record) -> None:
        super().__init__(text)
        self.record = record

    def const(self, w: int, n: int) -> Value:
        """Return a constant, or emit the load of a number that the record holds."""
        if not isinstance(n, Deferred):
            return super().const(w, n)
        if n.slot == NOWHERE:
            raise Untranslated
        value = self.record.get(PC_AT if n.slot == PC else self.record.places[n.slot], "i64")
        for operation, by in n.steps:
            value = self.text.define("i64", f"{operation} i64 {value}, {by}")
        return Value(w, False, value if w == 64 else value.trunc(f"i{w}"))


class HandlerScalars(ScalarFile):
    """The scalar operands of a handler.

    The record has the offsets of scalar registers in the wave's state, and constant operands. Register loads are
    emitted at the head of the function until a register is written, because two operands may be the same register.
    """

    def __init__(self, text: LaneText, ints: Integers, record: Record) -> None:
        super().__init__(text, ints, frozenset())
        self.record = record
        self.head: list[str] = []
        self._is_written = False

    @contextmanager
    def _at_head(self) -> Iterator[None]:
        if self._is_written:
            yield
            return
        lines, self.text.lines = self.text.lines, self.head
        yield
        self.text.lines = lines

    def _variable(self, name: str, kind: str) -> Value:
        if name not in self.cur:
            with self._at_head():
                at = self._register_address(name)
                w = int(kind[1:])
                loaded = at.load("i64" if name == "scc" else kind, tail=f"{_alignment(name)}{REGISTERS}")
                if name == "scc":
                    loaded = loaded.trunc("i1")
                self.cur[name] = Value(w, False, loaded)
        known = self.cur[name]
        return Value(known.w, False, known.ir) if self.in_strip and known.number is None else known

    def _assign(self, name: str, kind: str, v: Value) -> None:
        if v.vec:
            raise Untranslated
        at, bits = self._register_address(name), self.text.bits(v)
        if name == "scc":
            bits = bits.zext("i64")
        at.store(bits, tail=f"{_alignment(name)}{REGISTERS}")
        self._is_written = True
        self.cur = {name: v} if name in WHOLE.values() else {}

    def s64(self, n: int) -> Value:
        """Return scalar registers n and n + 1."""
        return self.whole(n) if n in WHOLE else self._variable(f"{PAIR}{n}", "i64")

    def set_s64(self, n: int, v: Value) -> None:
        """Write scalar registers n and n + 1."""
        self._assign(WHOLE.get(n, f"{PAIR}{n}"), "i64", v)

    def number(self, n: int) -> Value:
        """Emit the load of the number of the scalar register that operand n stands for."""
        operand = n // STEP
        if n >= PLAIN or not operand:
            return super().number(n)
        role, at = self.record.scalars[operand - 1]
        if role == "k":
            raise Untranslated
        first = self.record.get(at) - SGPR_AT >> 2
        return self.ints.add(32, Value(32, False, first), self.ints.const(32, n % STEP))

    def forget(self) -> None:
        """Forget cached register values: registers may have changed in the wave's state."""
        self.cur, self._is_written = {}, True

    def _register_address(self, name: str) -> Operand:
        """Emit the address of a register in the wave's state."""
        text = self.text
        if name == "scc":
            return text.pointer("%st").offset(WORDS_AT + 8 * state.SCC)
        numbers = {variable: n for n, variable in WHOLE.items()}
        n = numbers[name] if name in numbers else int(name.removeprefix(PAIR).removeprefix("s"))
        if n >= PLAIN:
            return text.pointer("%st").offset(SGPR_AT + 4 * n)
        if not 0 < n // STEP <= len(self.record.scalars):
            raise ModelBug(f"a handler reads scalar register {n}, which is not an operand")
        role, at = self.record.scalars[n // STEP - 1]
        if role == "k":
            return text.pointer("%rec").offset(at + 4 * (n % STEP))
        there = text.pointer("%st").offset(self.record.get(at).zext("i64"))
        return there.offset(4 * (n % STEP))


def _alignment(name: str) -> str:
    """Return LLVM's alignment clause for a variable in the wave's state; "" if it has natural alignment."""
    return ", align 4" if name.startswith(PAIR) else ""


class HandlerVectors(VectorFile):
    """The vector operands of a handler, whose offsets in the wave's state are in the record.

    `used` are the operands whose addresses are computed at the head of the function.
    """

    def __init__(self, text: LaneText, ints: Integers, scalars: ScalarFile, record: Record) -> None:
        self.record = record
        self.used: set[int] = set()
        super().__init__(text, ints, scalars)

    def register(self, n: int) -> Operand:
        """Emit the host address of the first lane of vector register n."""
        operand = n // STEP
        if not 0 < operand <= len(self.record.vectors):
            raise ModelBug(f"a handler reads vector register {n}, which is not an operand")
        self.used.add(operand)
        return self.text.pointer(f"%v{operand}").offset(LANES * 4 * (n % STEP))

    def row(self, n: int, label: str = "") -> Operand:
        """Emit the host address of vector register n for the current lane vector."""
        return self.register(n).offset(self.text.word(f"%rb{label or self.label}"))

    def number(self, n: int) -> Value:
        """Emit the load of the number of the vector register that operand n stands for."""
        place = self.record.get(self.record.vectors[n // STEP - 1])
        first = Value(32, False, self.text.define("i32", f"udiv exact i32 {place}, {LANES * 4}"))
        return self.ints.add(32, first, self.ints.const(32, n % STEP))

    def head(self) -> None:
        """Emit the computation of the operands' addresses at the head of the function."""
        text = self.text
        for operand in sorted(self.used):
            offset = self.record.get(self.record.vectors[operand - 1]).zext("i64")
            text.named(f"%v{operand}", text.pointer("%st").offset(offset))


class HandlerControl(Control):
    """The control flow of a handler, which continues with another record's function or exits the program."""

    def __init__(self, text: LaneText, ints: Integers, region: Region, record: Record) -> None:
        super().__init__(text, ints, region, Base(text, 0), Observed.AT_END)
        self.record = record

    def finish(self, code: int, pc: Operand) -> None:
        """Emit a return to the dispatcher with an exit code."""
        set_word(self.text, state.PC, pc)
        set_word(self.text, layout.TEMPLATE, 0)
        self.text.ret(code)

    def leave(self, code: int, pc: Operand, done: int) -> None:
        """Emit a return to the dispatcher with an exit code that gives back the fuel of instructions not executed.

        Fuel for a whole block is subtracted when the block begins. Of the instructions from the current one on,
        `done` count as executed."""
        set_word(self.text, state.FUEL, self.unspent() - done)
        self.finish(code, pc)

    def unspent(self) -> Operand:
        """Emit the fuel that the time slice had left before the instruction.

        Fuel is the number of instructions that a wave may still execute in its time slice.
        """
        back = self.record.get(REFUND_AT).zext("i64")
        return word(self.text, state.FUEL) + back

    def step_exit(self) -> str:
        """Return the label of a new exit at which the reference engine executes this instruction."""
        label = self.text.fresh("step")
        with self.text.apart(label):
            self.leave(layout.STEP, self.pc, 0)
        return label

    @property
    def pc(self) -> Operand:
        """The address of the instruction, loaded from the record."""
        return self.record.get(PC_AT, "i64")

    def next_pc(self) -> Operand:
        """Emit the address of the next instruction."""
        return self.pc + self.block.nodes[-1].insn.size

    def go_on(self, record: Operand) -> None:
        """Emit a tail call of a record's function."""
        function = record.load("ptr")
        found = self.text.define("i64", f"musttail call i64 {function}(ptr %st, ptr {record})")
        self.text.ret(found)
        self.is_over = True

    def fall_through(self) -> None:
        """Emit a tail call of the next record's function.

        No field may be reserved in this record after that, since the next record follows at its end.
        """
        self.go_on(self.text.pointer("%rec").offset(self.record.size))

    def branch(self, c: Value, target: int) -> None:
        """Emit a branch to the target's record if a condition holds, else to the next record."""
        there = self._target()
        yes, no = self.text.fresh("yes"), self.text.fresh("no")
        self.text.branch(self.text.bits(c), yes, no)
        self.text.start(yes)
        self.go_on(there)
        self.text.start(no)
        self.fall_through()

    def jump(self, target: int) -> None:
        """Emit a jump to the record of an address."""
        self.go_on(self._target())

    def _target(self) -> Operand:
        self.record.target = self.record.reserve(8)
        return self.record.get(self.record.target, "ptr")


class HandlerCaches:
    """The inline caches of a handler's memory accesses, whose offsets in the wave's state are in the record."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def take(self, kind: str) -> Operand:
        """Reserve the inline cache of one more memory access, and emit its address."""
        at = self.record.reserve(8)
        self.record.caches.append((kind, at))
        return self.record.text.pointer("%st").offset(self.record.get(at, "i64"))


class HandlerStrips(StripEmitter):
    """The emitter of the strip-mined loop over lane vectors of one vector instruction."""

    control: HandlerControl

    def _leave(self, g: str, strip: Strip, index: int, is_early: bool = False) -> None:
        """Emit a side exit that records the instruction and the first lane for which it was not completed."""
        if not (strip.loads or strip.stores):
            return
        if self.vectors.written_masks:
            raise Untranslated
        with self.text.apart(f"leave{g}"):
            set_word(self.text, layout.SIDE_EXIT, self.control.pc)
            set_word(self.text, layout.LANE, self.text.word(f"%sh{g}"))
            self.control.leave(layout.RESUME, self.control.next_pc(), 1)


class HandlerAlgebra(
    Composed,
    ints=HandlerIntegers,
    floats=Floats,
    scalars=HandlerScalars,
    vectors=HandlerVectors,
    memory=Memory,
    control=HandlerControl,
    hardware=Hardware,
):
    """The implementation of `isa.gcn.algebra.WaveAlgebra` that emits handlers.

    It lacks operations that only the reference engine has.
    """

    def __init__(self, text: LaneText, record: Record, region: Region, mode: Mode) -> None:
        self.mode = mode
        self.shadows: list[ShadowState] = []
        self.clean: list[CleanShadowState] = []
        self.ints = HandlerIntegers(text, record)
        self.floats = Floats(text, self.ints)
        self.floats.mode = mode
        self.scalars = HandlerScalars(text, self.ints, record)
        self.vectors = HandlerVectors(text, self.ints, self.scalars, record)
        self.control = HandlerControl(text, self.ints, region, record)
        self.counts = Counts(text, self.control)
        self.memory = Memory(text, self.ints, self.vectors, self.control)
        self.memory.caches.take = HandlerCaches(record).take  # type: ignore[method-assign]
        self.float_control = FloatControl(text)
        self.hardware = Hardware(text, self.ints, self.scalars, self.control, self.memory, self.float_control)


class HandlerEmitter:
    """The emitter of the handler of one kind of instruction, for vectors of `lanes` lanes."""

    def __init__(self, kind: Kind, lanes: int) -> None:
        self.kind = kind
        self.text = LaneText(lanes)
        self.record = Record(self.text, kind)
        self.node = kind.node
        block = Block((0, kind.mode), [self.node])
        region = Region(block.place, {block.place: block}, [], set())
        self.algebra = HandlerAlgebra(self.text, self.record, region, Mode.decode(kind.mode))
        self.algebra.float_control.now = of_mode(kind.mode)
        perform = partial(execute, self.algebra)
        self._strips = HandlerStrips(self.text, self.algebra, perform)  # type: ignore[arg-type]

    def emit(self, name: str) -> tuple[Handler, str]:
        """Return the handler and its function's LLVM IR, or raise `Untranslated` if it cannot be emitted."""
        if self.node.is_step:
            raise Untranslated
        text, control, found = self.text, self.algebra.control, self.node.effects
        text.start("body")
        if self.kind.insn.selectors is not None:
            self._guard(self.kind.insn.selectors)
        if found.phases > 1:
            for phase in range(1, found.phases + 1):
                self._strip(phase)
        elif found.lanes:
            self._strip(0)
        else:
            execute(self.algebra, self.kind.insn)
        self.record.finish()
        if not control.is_over:
            control.fall_through()
        body = [*text.taken(), *text.tail]
        lines = [f"define i64 @{name}(ptr noalias %st, ptr noalias readonly %rec) #0 {{", *self._head(body), *body, "}"]
        record = self.record
        return Handler(name, record.size, tuple(record.places), tuple(record.caches), record.target), "\n".join(lines)

    def _guard(self, numbers: tuple[int, ...]) -> None:
        """Emit the guard of a specialised handler, which compares scalar registers with `numbers`.

        If they differ, the code goes on to the next record of the inline cache, which is for other register values."""
        insn, text, record = self.kind.insn, self.text, self.record
        words = cast("Selectors", insn.op.selectors)(Builder(cast("Any", self.algebra)), insn)
        record.target = record.reserve(8)
        for word_, number in zip(words, numbers, strict=True):
            other, same = text.fresh("other"), text.fresh("same")
            with text.apart(other):
                self.algebra.control.go_on(record.get(record.target, "ptr"))
            self.algebra.control.is_over = False
            text.branch(text.bits(cast("Value", (word_ == number).value)), same, other)
            text.start(same)

    def _strip(self, phase: int) -> None:
        strip = Strip()
        strip.phase = phase
        strip.add(self.node)
        self._strips.write(strip, 1, EVERYTHING)

    def _head(self, body: list[str]) -> list[str]:
        text, whole = self.text, "\n".join(body)
        text.start("entry")
        if self.algebra.memory.uses_atomics:
            for each in ("aa", "ad", "ac", "ao"):
                text.variable(f"%{each}", f"<{text.lanes} x i64>", f", align {8 * text.lanes}")
        for line in text.allocas:
            text.put(line)
        for name, index, kind in (
            ("helpers", layout.HELPERS, "ptr"), ("lds", state.LDS_BASE, "ptr"), ("ldssize", state.LDS_SIZE, "i64"),
        ):  # fmt: skip
            if f"%{name}" in whole:
                text.named(f"%q{name}", text.pointer("%st").offset(WORDS_AT + 8 * index))
                text.named(f"%{name}", text.pointer(f"%q{name}").load(kind))
        self.algebra.vectors.head()
        text.lines += self.algebra.scalars.head
        text.jump("body")
        return text.taken()


def module(functions: list[str], declarations: dict[str, str], lanes: int) -> str:
    """Return the LLVM IR of a module that contains the given handlers."""
    # No aligned stack: hardly anything is spilled, and each call would align the frame again.
    width = vector_width(lanes).partition(" ")[2]
    return "\n".join(
        [
            *functions,
            *sorted(declarations.values()),
            f"attributes #0 = {{ nounwind {width} }}",
            '!0 = !{!"branch_weights", i32 1000, i32 1}',
            "!10 = !{!21}",
            "!11 = !{!22}",
            "!20 = distinct !{!20}",
            "!21 = distinct !{!21, !20}",
            "!22 = distinct !{!22, !20}",
            "!30 = !{}",
            "",
        ]
    )
