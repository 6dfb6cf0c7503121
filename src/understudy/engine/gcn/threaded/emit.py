"""The function of a kind, written by the emitters that regions use: only where registers and numbers come from differs.

A handler is ``i64 handler(ptr state, ptr record)``. It does its instruction for all lanes and goes on with the function
of the record behind its own; where it cannot, it returns how (see `jit.layout`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, cast

from understudy.core.errors import ModelBug
from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import Observed, Untranslated
from understudy.engine.gcn.jit.emit_control import Base, Control, set_word, word
from understudy.engine.gcn.jit.emit_counts import Counts
from understudy.engine.gcn.jit.emit_float import Floats
from understudy.engine.gcn.jit.emit_hardware import Hardware
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.emit_memory import Memory
from understudy.engine.gcn.jit.emit_registers import REGISTERS, WHOLE, ScalarFile, VectorFile
from understudy.engine.gcn.jit.emit_strip import StripEmitter
from understudy.engine.gcn.jit.emit_twin import Twin
from understudy.engine.gcn.jit.emit_unmarked import UnmarkedTwin
from understudy.engine.gcn.jit.float_control import FloatControl, of_mode
from understudy.engine.gcn.jit.liveness import EVERYTHING
from understudy.engine.gcn.jit.region import Block, Region
from understudy.engine.gcn.jit.strip import Strip
from understudy.engine.gcn.threaded.kind import NOWHERE, PC, PLAIN, RECORD_HEAD, STEP, Deferred, Kind
from understudy.engine.gcn.threaded.records import Handler
from understudy.ir.builder import LaneText, Value, vector_width
from understudy.ir.composed import Composed
from understudy.isa.gcn import state
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Told
from understudy.isa.gcn.semantics.execute import execute
from understudy.isa.gcn.state import LANES, SGPR_AT, WORDS_AT, Mode

PC_AT: Final = 8
REFUND_AT: Final = 16
"""Of a record: the guest address of its instruction; instructions of the block from there on, 32 bits."""
PAIR: Final = "pair"
"""Begins the names of two registers that are one number."""
FIXED: Final = ", !invariant.load !30"
"""Records do not change while code runs."""


class Record:
    """The record of the kind that is being written: where its parts lie, and reading them."""

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
        """Room for `size` bytes, aligned to them."""
        at = self.size + size - 1 & -size
        self.size = at + size
        return at

    def finish(self) -> None:
        """The next record begins at a multiple of 8."""
        self.size = self.size + 7 & -8

    def get(self, at: int, kind: str = "i32") -> str:
        """The field at an offset."""
        return self.text.let(f"load {kind}, ptr {self.text.let(f'getelementptr i8, ptr %rec, i64 {at}')}{FIXED}")


class HandlerIntegers(Integers):
    """Integers, some of which the record knows."""

    def __init__(self, text: LaneText, record: Record) -> None:
        super().__init__(text)
        self.record = record

    def const(self, w: int, n: int) -> Value:
        """A number, or what the record has for it."""
        if not isinstance(n, Deferred):
            return super().const(w, n)
        if n.slot == NOWHERE:
            raise Untranslated
        value = self.record.get(PC_AT if n.slot == PC else self.record.places[n.slot], "i64")
        for operation, by in n.steps:
            value = self.text.let(f"{operation} i64 {value}, {by}")
        return Value(w, False, value if w == 64 else self.text.let(f"trunc i64 {value} to i{w}"))


class HandlerScalars(ScalarFile):
    """Scalar registers in the wave's state, at the places that the record says; constants of sources beside them.

    They are read at the head of the function, until something is written: a register may be two operands.
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
                at = self._home(name)
                w = int(kind[1:])
                loaded = self.text.let(
                    f"load {'i64' if name == 'scc' else kind}, ptr {at}{_alignment(name)}{REGISTERS}"
                )
                if name == "scc":
                    loaded = self.text.let(f"trunc i64 {loaded} to i1")
                self.cur[name] = Value(w, False, loaded)
        known = self.cur[name]
        return Value(known.w, False, known.ir) if self.in_strip and known.number is None else known

    def _assign(self, name: str, kind: str, v: Value) -> None:
        if v.vec:
            raise Untranslated
        text, at, bits = self.text, self._home(name), self.text.bits(v)
        if name == "scc":
            kind, bits = "i64", text.let(f"zext i1 {bits} to i64")
        text.put(f"store {kind} {bits}, ptr {at}{_alignment(name)}{REGISTERS}")
        self._is_written = True
        self.cur = {name: v} if name in WHOLE.values() else {}

    def s64(self, n: int) -> Value:
        """Scalar registers n and n + 1."""
        return self.whole(n) if n in WHOLE else self._variable(f"{PAIR}{n}", "i64")

    def set_s64(self, n: int, v: Value) -> None:
        """Write scalar registers n and n + 1."""
        self._assign(WHOLE.get(n, f"{PAIR}{n}"), "i64", v)

    def number(self, n: int) -> Value:
        """The number of scalar register n."""
        operand = n // STEP
        if n >= PLAIN or not operand:
            return super().number(n)
        role, at = self.record.scalars[operand - 1]
        if role == "k":
            raise Untranslated
        first = self.text.let(f"lshr i32 {self.text.let(f'sub i32 {self.record.get(at)}, {SGPR_AT}')}, 2")
        return self.ints.add(32, Value(32, False, first), self.ints.const(32, n % STEP))

    def forget(self) -> None:
        """Registers may have changed in the state."""
        self.cur, self._is_written = {}, True

    def _home(self, name: str) -> str:
        """The address of a register."""
        text = self.text
        if name == "scc":
            return text.let(f"getelementptr i8, ptr %st, i64 {WORDS_AT + 8 * state.SCC}")
        numbers = {variable: n for n, variable in WHOLE.items()}
        n = numbers[name] if name in numbers else int(name.removeprefix(PAIR).removeprefix("s"))
        if n >= PLAIN:
            return text.let(f"getelementptr i8, ptr %st, i64 {SGPR_AT + 4 * n}")
        if not 0 < n // STEP <= len(self.record.scalars):
            raise ModelBug(f"a handler reads scalar register {n}, which is no operand")
        role, at = self.record.scalars[n // STEP - 1]
        if role == "k":
            return text.let(f"getelementptr i8, ptr %rec, i64 {at + 4 * (n % STEP)}")
        there = text.let(f"getelementptr i8, ptr %st, i64 {text.let(f'zext i32 {self.record.get(at)} to i64')}")
        return text.let(f"getelementptr i8, ptr {there}, i64 {4 * (n % STEP)}")


def _alignment(name: str) -> str:
    """Of a variable in the state, where it is less than its size."""
    return ", align 4" if name.startswith(PAIR) else ""


class HandlerVectors(VectorFile):
    """Vector registers at the places that the record says. `used`: operands whose place the head has to find out."""

    def __init__(self, text: LaneText, ints: Integers, scalars: ScalarFile, record: Record) -> None:
        self.record = record
        self.used: set[int] = set()
        super().__init__(text, ints, scalars)

    def register(self, n: int) -> str:
        """Host address of the first lane of vector register n."""
        operand = n // STEP
        if not 0 < operand <= len(self.record.vectors):
            raise ModelBug(f"a handler reads vector register {n}, which is no operand")
        self.used.add(operand)
        return self.text.let(f"getelementptr i8, ptr %v{operand}, i64 {LANES * 4 * (n % STEP)}")

    def row(self, n: int, label: str = "") -> str:
        """Host address of this chunk of vector register n."""
        return self.text.let(f"getelementptr i8, ptr {self.register(n)}, i64 %rb{label or self.label}")

    def number(self, n: int) -> Value:
        """The number of vector register n."""
        place = self.record.get(self.record.vectors[n // STEP - 1])
        first = Value(32, False, self.text.let(f"udiv exact i32 {place}, {LANES * 4}"))
        return self.ints.add(32, first, self.ints.const(32, n % STEP))

    def head(self) -> list[str]:
        """The lines that find out where operands lie."""
        lines = []
        for operand in sorted(self.used):
            lines += [
                f"  %vp{operand} = getelementptr i8, ptr %rec, i64 {self.record.vectors[operand - 1]}",
                f"  %vo{operand} = load i32, ptr %vp{operand}{FIXED}",
                f"  %vz{operand} = zext i32 %vo{operand} to i64",
                f"  %v{operand} = getelementptr i8, ptr %st, i64 %vz{operand}",
            ]
        return lines


class HandlerControl(Control):
    """Where control goes from a handler: to the function of another record, or out."""

    def __init__(self, text: LaneText, ints: Integers, region: Region, record: Record) -> None:
        super().__init__(text, ints, region, Base(text, 0), Observed.AT_END)
        self.record = record

    def finish(self, code: int, pc: str) -> None:
        """Hand over to the dispatcher."""
        set_word(self.text, state.PC, pc)
        set_word(self.text, layout.TEMPLATE, "0")
        self.text.put(f"ret i64 {code}")

    def leave(self, code: int, pc: str, done: int) -> None:
        """Hand over, and give back the fuel of the block from here on, but for `done` instructions."""
        set_word(self.text, state.FUEL, self.text.let(f"sub i64 {self.unspent()}, {done}"))
        self.finish(code, pc)

    def unspent(self) -> str:
        """Fuel of the turn before the instruction."""
        back = self.text.let(f"zext i32 {self.record.get(REFUND_AT)} to i64")
        return self.text.let(f"add i64 {word(self.text, state.FUEL)}, {back}")

    def step_exit(self) -> str:
        """A label that hands the instruction to the reference engine."""
        label = self.text.fresh("step")
        with self.text.apart(label):
            self.leave(layout.STEP, self.pc, 0)
        return label

    @property
    def pc(self) -> str:
        """Address of the instruction."""
        return self.record.get(PC_AT, "i64")

    def next_pc(self) -> str:
        """Address of the next one."""
        return self.text.let(f"add i64 {self.pc}, {self.block.nodes[-1].insn.size}")

    def go_on(self, record: str) -> None:
        """Go on with a record."""
        function = self.text.let(f"load ptr, ptr {record}")
        found = self.text.let(f"musttail call i64 {function}(ptr %st, ptr {record})")
        self.text.put(f"ret i64 {found}")
        self.is_over = True

    def behind(self) -> None:
        """Go on with the record behind this one: nothing may be reserved any more."""
        self.go_on(self.text.let(f"getelementptr i8, ptr %rec, i64 {self.record.size}"))

    def branch(self, c: Value, target: int) -> None:
        """Conditional branch."""
        there = self._target()
        yes, no = self.text.fresh("yes"), self.text.fresh("no")
        self.text.branch(self.text.bits(c), yes, no)
        self.text.start(yes)
        self.go_on(there)
        self.text.start(no)
        self.behind()

    def jump(self, target: int) -> None:
        """Unconditional branch."""
        self.go_on(self._target())

    def _target(self) -> str:
        self.record.target = self.record.reserve(8)
        return self.record.get(self.record.target, "ptr")


class HandlerCaches:
    """The inline caches of a handler's accesses: which words of the wave they are stands in the record."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def take(self, kind: str) -> str:
        """Where one more access keeps what it knows."""
        at = self.record.reserve(8)
        self.record.caches.append((kind, at))
        return self.record.text.let(f"getelementptr i8, ptr %st, i64 {self.record.get(at, 'i64')}")


class HandlerStrips(StripEmitter):
    """The loop over chunks of one vector instruction."""

    control: HandlerControl

    def _leave(self, g: str, strip: Strip, index: int, is_early: bool = False) -> None:
        """Say which instruction could not be finished, and from which lane on."""
        if not (strip.loads or strip.stores):
            return
        if self.vectors.written_masks:
            raise Untranslated
        with self.text.apart(f"leave{g}"):
            set_word(self.text, layout.SIDE_EXIT, self.control.pc)
            set_word(self.text, layout.LANE, f"%sh{g}")
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
    """`isa.gcn.algebra.WaveAlgebra`, without what only the reference engine does."""

    def __init__(self, text: LaneText, record: Record, region: Region, mode: Mode) -> None:
        self.mode = mode
        self.twins: list[Twin] = []
        self.unmarked: list[UnmarkedTwin] = []
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
    """Writes the function of one kind, for chunks of `lanes` lanes."""

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
        """The handler and the text of its function; `Untranslated` where the reference engine has to do it."""
        if self.node.is_step:
            raise Untranslated
        text, control, found = self.text, self.algebra.control, self.node.effects
        text.start("body")
        if self.kind.insn.told is not None:
            self._guard(self.kind.insn.told)
        if found.phases > 1:
            for phase in range(1, found.phases + 1):
                self._strip(phase)
        elif found.lanes:
            self._strip(0)
        else:
            execute(self.algebra, self.kind.insn)
        self.record.finish()
        if not control.is_over:
            control.behind()
        body = [*text.taken(), *text.tail]
        lines = [f"define i64 @{name}(ptr noalias %st, ptr noalias readonly %rec) #0 {{", *self._head(body), *body, "}"]
        record = self.record
        return Handler(name, record.size, tuple(record.places), tuple(record.caches), record.target), "\n".join(lines)

    def _guard(self, numbers: tuple[int, ...]) -> None:
        """Go on with another record where scalars do not say what the handler is for."""
        insn, text, record = self.kind.insn, self.text, self.record
        words = cast("Told", insn.op.told)(Builder(cast("Any", self.algebra)), insn)
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
                text.put(f"%{each} = alloca <{text.lanes} x i64>, align {8 * text.lanes}")
        for line in text.allocas:
            text.put(line)
        for name, index, kind in (
            ("helpers", layout.HELPERS, "ptr"), ("lds", state.LDS_BASE, "ptr"), ("ldssize", state.LDS_SIZE, "i64"),
        ):  # fmt: skip
            if f"%{name}" in whole:
                text.put(f"%q{name} = getelementptr i8, ptr %st, i64 {WORDS_AT + 8 * index}")
                text.put(f"%{name} = load {kind}, ptr %q{name}")
        text.lines += [*self.algebra.vectors.head(), *self.algebra.scalars.head]
        text.put("br label %body")
        return text.taken()


def module(functions: list[str], declarations: dict[str, str], lanes: int) -> str:
    """The text of a module of handlers."""
    # No aligned stack: next to nothing is spilled, and frames would be aligned anew on every call.
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
