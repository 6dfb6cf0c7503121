"""A wave's registers in translated code: scalars in variables, vector registers in memory, one chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.held import HeldLoop
from understudy.engine.gcn.jit.home import OWN, Home
from understudy.ir.builder import LaneText, Value
from understudy.isa.gcn.state import EXEC, INDEXED_SGPRS, LANES, SCC, SGPR_AT, VCC, VGPRS, WORDS_AT

WHOLE: Final = {EXEC: "exec", VCC: "vcc"}
"""Register pairs that are kept as one variable of 64 bits."""
REGISTERS: Final = ", !alias.scope !10, !noalias !11"
"""Vector registers overlap nothing that a kernel can address."""


class ScalarFile:
    """Scalar registers: variables of the function, which go back to the wave's state where it is left.

    `cur` holds the values known in this block; `in_strip`: whether a strip is being written. Variables that `in_place`
    names are the state itself: helpers look at them there, or registers by a computed number.
    """

    def __init__(self, text: LaneText, ints: Integers, in_place: frozenset[str], home: Home = OWN) -> None:
        self.text = text
        self.ints = ints
        self.home = home
        self.in_place = in_place
        self.cur: dict[str, Value] = {}
        self.variables: set[str] = set()
        self.modified: set[str] = set()
        self.in_strip = False

    def begin(self) -> None:
        """Nothing is known at the head of a block."""
        self.cur, self.in_strip = {}, False

    @contextmanager
    def strip(self) -> Iterator[None]:
        """A loop is written in here: what becomes known inside is not known behind it."""
        before, self.in_strip = dict(self.cur), True
        yield
        self.cur, self.in_strip = before, False

    def _at(self, name: str, what: str = "") -> str:
        """The variable of a register, or its place in the state."""
        return f"%{what}{self.home.prefix}{name}"

    def _variable(self, name: str, kind: str) -> Value:
        """The value of a variable, loaded once per block."""
        if name not in self.cur:
            self.variables.add(name)
            w = int(kind[1:])
            self.cur[name] = Value(w, False, self.text.let(f"load {kind}, ptr {self._at(name)}"))
        known = self.cur[name]
        if self.in_strip:  # forms made inside a strip must not be used behind it
            return Value(known.w, False, known.ir, number=known.number)
        return known

    def _assign(self, name: str, kind: str, v: Value) -> None:
        if v.vec:
            raise Untranslated
        self.variables.add(name)
        self.modified.add(name)
        self.text.put(f"store {kind} {self.text.bits(v)}, ptr {self._at(name)}")
        self.cur[name] = v

    def s(self, n: int) -> Value:
        """Scalar register n."""
        o = self.ints
        pair = n & ~1
        if pair in WHOLE:
            whole = self._variable(WHOLE[pair], "i64")
            return o.trunc(32, 64, o.lshr(64, whole, o.const(64, 32)) if n & 1 else whole)
        return self._variable(f"s{n}", "i32")

    def set_s(self, n: int, v: Value) -> None:
        """Write scalar register n."""
        o = self.ints
        pair = n & ~1
        if pair not in WHOLE:
            self._assign(f"s{n}", "i32", v)
            return
        shift = 32 * (n & 1)
        kept = o.and_(64, self._variable(WHOLE[pair], "i64"), o.const(64, 0xFFFF_FFFF << (32 - shift)))
        moved = o.shl(64, o.zext(64, 32, v), o.const(64, shift))
        self._assign(WHOLE[pair], "i64", o.or_(64, kept, moved))

    def s64(self, n: int) -> Value:
        """Scalar registers n and n + 1."""
        o = self.ints
        if n in WHOLE:
            return self.whole(n)
        low, high = o.zext(64, 32, self.s(n)), o.zext(64, 32, self.s(n + 1))
        return o.or_(64, low, o.shl(64, high, o.const(64, 32)))

    def set_s64(self, n: int, v: Value) -> None:
        """Write scalar registers n and n + 1."""
        o = self.ints
        if n in WHOLE:
            self._assign(WHOLE[n], "i64", v)
            return
        self.set_s(n, o.trunc(32, 64, v))
        self.set_s(n + 1, o.trunc(32, 64, o.lshr(64, v, o.const(64, 32))))

    def scc(self) -> Value:
        """The condition code."""
        return self._variable("scc", "i1")

    def set_scc(self, v: Value) -> None:
        """Write it."""
        self._assign("scc", "i1", v)

    def whole(self, n: int) -> Value:
        """A register pair that is one variable."""
        return self._variable(WHOLE[n], "i64")

    # ---- by a computed number ----------------------------------------------------------------------------------
    def number(self, n: int) -> Value:
        """The number of scalar register n."""
        return self.ints.const(32, n)

    def s_indexed(self, n: int, offset: Value, w: int = 32) -> Value:
        """Scalar register n + offset; out of range reads register n."""
        o = self.ints
        inside, at = self._indexed(n, offset, w)
        found = Value(w, False, self.text.let(f"load i{w}, ptr {at}, align 4"))
        return o.select(w, inside, found, self.s64(n) if w == 64 else self.s(n))

    def set_s_indexed(self, n: int, offset: Value, v: Value, w: int = 32) -> None:
        """Write scalar register n + offset; out of range writes nothing."""
        inside, at = self._indexed(n, offset, w)
        kept = Value(w, False, self.text.let(f"load i{w}, ptr {at}, align 4"))
        self.text.put(f"store i{w} {self.text.bits(self.ints.select(w, inside, v, kept))}, ptr {at}, align 4")
        self.forget()

    def forget(self) -> None:
        """Registers may have changed in the state."""
        self.cur = {name: v for name, v in self.cur.items() if name not in self.in_place}

    def _indexed(self, n: int, offset: Value, w: int) -> tuple[Value, str]:
        """Whether there is a register n + offset, and its place in the state; some register's where there is none."""
        o = self.ints
        index = o.add(32, self.number(n), offset)
        inside = o.ult(32, index, o.const(32, INDEXED_SGPRS + 1 - w // 32))
        place = self.text.bits(o.zext(64, 32, o.select(32, inside, index, o.const(32, 0))))
        first = self.text.let(f"getelementptr i8, ptr {self.home.state}, i64 {SGPR_AT}")
        return inside, self.text.let(f"getelementptr i32, ptr {first}, i64 {place}")

    # ---- the wave's state --------------------------------------------------------------------------------------
    def enter(self) -> None:
        """Make the variables, at the head of the function."""
        put, let, state = self.text.put, self.text.let, self.home.state
        for variable in sorted(self.variables):
            kind = _kind(variable)
            if variable in self.in_place:
                put(f"{self._at(variable)} = getelementptr i8, ptr {state}, i64 {_home(variable)}")
                continue
            put(f"{self._at(variable)} = alloca {kind}")
            put(f"{self._at(variable, 'q')} = getelementptr i8, ptr {state}, i64 {_home(variable)}")
            first = let(f"load {'i64' if variable == 'scc' else kind}, ptr {self._at(variable, 'q')}")
            first = let(f"trunc i64 {first} to i1") if variable == "scc" else first
            put(f"store {kind} {first}, ptr {self._at(variable)}")

    def leave(self) -> None:
        """Variables go back to the state."""
        put, let = self.text.put, self.text.let
        for variable in sorted(self.modified - self.in_place):
            kind = _kind(variable)
            last = let(f"load {kind}, ptr {self._at(variable)}")
            if variable == "scc":
                kind, last = "i64", let(f"zext i1 {last} to i64")
            put(f"store {kind} {last}, ptr {self._at(variable, 'q')}")


class VectorFile:
    """Vector registers and lane masks, as far as the chunk that strip `label` works on is concerned.

    With `is_across` results wait until all chunks have been seen; without `writes` there are none yet. `dirty`:
    registers that the strip has written, `pushed`: those of them whose results are 0 at first. `written_masks`:
    variables that collect the bits of scalar register pairs. `leaves`: whether the strip may be left because of what
    values are, beside for memory. `loop`: the one that is being written, where it holds its
    registers in variables.
    """

    def __init__(self, text: LaneText, ints: Integers, scalars: ScalarFile, home: Home = OWN) -> None:
        self.text = text
        self.ints = ints
        self.home = home
        self.scalars = scalars
        self.loop: HeldLoop | None = None
        self.begin("")

    def begin(self, label: str, is_across: bool = False, writes: bool = True) -> None:
        """A strip begins."""
        self.is_across = is_across
        self.writes = writes
        self.written_masks: dict[int, str] = {}
        self.leaves = False
        self.dirty: set[int] = set()
        self.pushed: set[int] = set()
        self.chunk(label)

    def chunk(self, label: str, number: int = 0) -> None:
        """A chunk begins; nothing of it is known. Its number, where each is written by itself."""
        self.label = label
        self.which = number
        self.vectors: dict[int, Value] = {}
        self.masks: dict[int, Value] = {}
        self._collected: dict[int, str] = {}

    def row(self, n: int, label: str = "") -> str:
        """Where this chunk of vector register n is, in the loop `label` or the one that is being written."""
        if self.loop is not None:
            return self.loop.variable(n, self.which, self.home.prefix)
        return self.text.let(f"getelementptr i8, ptr {self.rows(label or self.label)}, i64 {LANES * 4 * n}")

    def rows(self, label: str) -> str:
        """Where this chunk of the first vector register is."""
        return f"%{self.home.prefix}row{label}"

    def buffer(self, n: int, label: str = "") -> str:
        """Where results for vector register n wait."""
        return f"%{self.home.prefix}buf{label or self.label}_{n}"

    def register(self, n: int) -> str:
        """Host address of the first lane of vector register n."""
        return self.text.let(f"getelementptr i8, ptr {self.home.state}, i64 {LANES * 4 * n}")

    def v(self, n: int) -> Value:
        """Vector register n."""
        if n not in self.vectors:
            self.vectors[n] = Value(32, True, self.load_chunk(self.row(n)))
        return self.vectors[n]

    def load_chunk(self, at: str) -> str:
        """A chunk of a register, from a row or variable."""
        return self.text.let(f"load {self.text.itype(32, True)}, ptr {at}, align {4 * self.text.lanes}{REGISTERS}")

    def store_chunk(self, value: str, at: str, how: str = "") -> None:
        """Write a chunk of a register there."""
        kind, lanes = self.text.itype(32, True), self.text.lanes
        self.text.put(f"store {how}{kind} {value}, ptr {at}, align {4 * lanes}{REGISTERS}")

    def set_v(self, n: int, v: Value, where: Value | None = None) -> None:
        """Write lanes of EXEC; inside a strip other lanes may hold anything, since EXEC does not change."""
        if not self.writes:
            return
        if where is not None:
            v = self.ints.select(32, where, v, self.v(n))
        if not v.vec:
            scalar, v = v, Value(32, True, self.text.bits(v, True))
            v.scalar = scalar
        if self.is_across:
            self._buffered(n, v)
            return
        self.vectors[n] = v
        self.dirty.add(n)

    def _buffered(self, n: int, v: Value) -> None:
        """Results of an instruction that sees other lanes wait until all chunks have seen them."""
        self.dirty.add(n)
        at = self.text.let(f"getelementptr i8, ptr {self.buffer(n)}, i64 %rb{self.label}")
        self.text.put(f"store {self.text.itype(32, True)} {self.text.bits(v)}, ptr {at}, align {4 * self.text.lanes}")

    def lane_bits(self, b: Value) -> Value:
        """The bits of a scalar, one per lane."""
        text = self.text
        moved = text.let(f"lshr i64 {text.bits(b)}, %sh{self.label}")
        return Value(1, True, text.let(text.mask_of(text.let(f"trunc i64 {moved} to i{text.lanes}"))))

    def mask(self, n: int) -> Value:
        """A scalar register pair, one bit per lane."""
        if n not in self.masks:
            self.masks[n] = self.active() if n == EXEC else self.lane_bits(self.scalars.s64(n))
        return self.masks[n]

    def set_mask(self, n: int, m: Value) -> None:
        """Collect the bits of a mask; the pair is written when all chunks are done."""
        text = self.text
        if not m.vec:
            m = Value(1, True, text.bits(m, True))
        if n not in self.written_masks:
            self.written_masks[n] = f"{self.home.prefix}acc{self.label}_{len(self.written_masks)}"
        if n not in self._collected:
            self._collected[n] = text.let(f"load i64, ptr %{self.written_masks[n]}")
        self.masks[n] = m
        bits = self.compressed(m)
        moved = text.let(f"shl i64 {text.let(f'zext i{text.lanes} {bits} to i64')}, %sh{self.label}")
        text.put(f"store i64 {text.let(f'or i64 {self._collected[n]}, {moved}')}, ptr %{self.written_masks[n]}")

    def compressed(self, m: Value) -> str:
        """A per-lane width-1 value as an integer of one bit per lane."""
        return self.text.let(f"bitcast {self.text.itype(1, True)} {self.text.bits(m, True)} to i{self.text.lanes}")

    def lane_id(self) -> Value:
        """0..63."""
        text = self.text
        base = text.splat("i32", text.let(f"trunc i64 %sh{self.label} to i32"))
        steps = ", ".join(f"i32 {lane}" for lane in range(text.lanes))
        return Value(32, True, text.let(f"add <{text.lanes} x i32> {base}, <{steps}>"))

    def active(self) -> Value:
        """EXEC."""
        return Value(1, True, f"%xm{self.label}")

    # ---- across lanes ------------------------------------------------------------------------------------------
    def v_at(self, n: int, lane: Value) -> Value:
        """Vector register n of another lane."""
        text = self.text
        kind, lanes = text.itype(32, True), text.lanes
        start = self.register(n)
        places = text.let(f"getelementptr i32, ptr {start}, {kind} {text.bits(lane, True)}")
        return Value(
            32,
            True,
            text.call(
                kind,
                f"llvm.masked.gather.v{lanes}i32.v{lanes}p0",
                f"<{lanes} x ptr> align 4 {places}",
                f"<{lanes} x i1> splat (i1 true)",
                f"{kind} zeroinitializer",
            ),
        )

    def push(self, n: int, v: Value, lane: Value) -> None:
        """Lanes of EXEC send `v` into vector register n of the lane they name, highest last; others get 0."""
        text, lanes = self.text, self.text.lanes
        self.dirty.add(n)
        self.pushed.add(n)
        kind = text.itype(32, True)
        places = text.let(f"getelementptr i32, ptr {self.buffer(n)}, {kind} {text.bits(lane, True)}")
        text.call_void(
            f"llvm.masked.scatter.v{lanes}i32.v{lanes}p0",
            f"{kind} {text.bits(v, True)}",
            f"<{lanes} x ptr> align 4 {places}",
            f"<{lanes} x i1> {text.bits(self.active())}",
        )

    def lane(self, n: int, lane: Value) -> Value:
        """Vector register n of one lane, as a scalar."""
        return Value(32, False, self.text.let(f"load i32, ptr {self._cell(n, lane)}{REGISTERS}"))

    def set_lane(self, n: int, lane: Value, v: Value) -> None:
        """Write one lane."""
        self.text.put(f"store i32 {self.text.bits(v)}, ptr {self._cell(n, lane)}{REGISTERS}")

    def _cell(self, n: int, lane: Value) -> str:
        wide = self.ints.zext(64, 32, lane)
        return self.text.let(f"getelementptr i32, ptr {self.register(n)}, i64 {self.text.bits(wide)}")

    # ---- by a computed number: rows in memory are as they are, since such an instruction has a strip of its own ------
    def number(self, n: int) -> Value:
        """The number of vector register n."""
        return self.ints.const(32, n)

    def v_indexed(self, n: int, offset: Value) -> Value:
        """Vector register n + offset; out of range reads register 0."""
        return self._loaded(self._indexed(n, offset)[1])

    def set_v_indexed(self, n: int, offset: Value, v: Value) -> None:
        """Write lanes of EXEC of vector register n + offset, at once: no other lane looks; out of range nothing."""
        o = self.ints
        inside, at = self._indexed(n, offset)
        value = self.text.bits(o.select(32, o.and_(1, self.active(), inside), v, self._loaded(at)), True)
        # Volatile for the same reason as in `StripEmitter`.
        self.text.put(f"store volatile {self.text.itype(32, True)} {value}, ptr {at}, {self._attributes}")

    @property
    def _attributes(self) -> str:
        return f"align {4 * self.text.lanes}{REGISTERS}"

    def _loaded(self, at: str) -> Value:
        return Value(32, True, self.text.let(f"load {self.text.itype(32, True)}, ptr {at}, {self._attributes}"))

    def _indexed(self, n: int, offset: Value) -> tuple[Value, str]:
        """Whether there is a register n + offset, and its chunk; that of register 0 where there is none."""
        o = self.ints
        index = o.add(32, self.number(n), offset)
        inside = o.ult(32, index, o.const(32, VGPRS))
        place = o.zext(64, 32, o.select(32, inside, index, o.const(32, 0)))
        rows = o.mul(64, place, o.const(64, LANES * 4))
        return inside, self.text.let(f"getelementptr i8, ptr {self.rows(self.label)}, i64 {self.text.bits(rows)}")


def _kind(variable: str) -> str:
    return "i64" if variable in WHOLE.values() else "i1" if variable == "scc" else "i32"


def _home(variable: str) -> int:
    """Offset in the state of a variable's register."""
    if variable == "scc":
        return WORDS_AT + 8 * SCC
    numbers = {name: n for n, name in WHOLE.items()}
    return SGPR_AT + 4 * (numbers[variable] if variable in numbers else int(variable[1:]))
