"""A wave's registers in translated code.

Scalar registers are local variables. Vector registers are in memory, and are processed by vectors of some of their
lanes (lane vectors).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.emit.emit_integer import Integers
from softcard.engine.gcn.jit.layout import MATRICES, OWN, RegisterBase
from softcard.engine.gcn.jit.resident import ResidentLoop
from softcard.engine.gcn.matrix import calls
from softcard.ir.builder import LaneText, Value
from softcard.ir.operand import Operand
from softcard.isa.gcn.semantics.matrix.table import Use
from softcard.isa.gcn.state import EXEC, INDEXED_SGPRS, LANES, SCC, SGPR_AT, VCC, VGPRS, WORDS_AT, row_at

WHOLE: Final = {EXEC: "exec", VCC: "vcc"}
"""The register pairs that are one 64-bit variable."""
REGISTERS: Final = ", !alias.scope !10, !noalias !11"
"""Alias metadata for LLVM: vector registers overlap no memory that a kernel can address."""


class ScalarFile:
    """The scalar registers: variables of the function, which exits write back to the wave's state.

    `cur` holds the values known in this block; `in_strip` is True while a strip-mined loop is being emitted.
    Registers in `in_place` have no variable: they are accessed in the wave's state, because helpers or accesses
    by a computed register number use them there."""

    def __init__(self, text: LaneText, ints: Integers, in_place: frozenset[str], base: RegisterBase = OWN) -> None:
        self.text = text
        self.ints = ints
        self.base = base
        self.in_place = in_place
        self.cur: dict[str, Value] = {}
        self.variables: set[str] = set()
        self.modified: set[str] = set()
        self.in_strip = False

    def begin(self) -> None:
        """Begin a block, in which no register's value is known yet."""
        self.cur, self.in_strip = {}, False

    @contextmanager
    def strip(self) -> Iterator[None]:
        """Return a context in which a loop is emitted; values that become known in it are unknown after it."""
        before, self.in_strip = dict(self.cur), True
        yield
        self.cur, self.in_strip = before, False

    def _at(self, name: str, what: str = "") -> Operand:
        """Return the address of a register's variable, or of the register in the wave's state."""
        return self.text.pointer(f"%{what}{self.base.prefix}{name}")

    def _variable(self, name: str, kind: str) -> Value:
        """Return the value of a variable, loaded once per block."""
        if name not in self.cur:
            self.variables.add(name)
            w = int(kind[1:])
            self.cur[name] = Value(w, False, self._at(name).load(kind))
        known = self.cur[name]
        if self.in_strip:  # values computed in a strip are invalid after it
            return Value(known.w, False, known.ir, number=known.number)
        return known

    def _assign(self, name: str, kind: str, v: Value) -> None:
        if v.vec:
            raise Untranslated
        self.variables.add(name)
        self.modified.add(name)
        self._at(name).store(self.text.bits(v))
        self.cur[name] = v

    def s(self, n: int) -> Value:
        """Return the value of scalar register n."""
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
        """Return the value of scalar registers n and n + 1, as 64 bits."""
        o = self.ints
        if n in WHOLE:
            return self.whole(n)
        low, high = o.zext(64, 32, self.s(n)), o.zext(64, 32, self.s(n + 1))
        return o.or_(64, low, o.shl(64, high, o.const(64, 32)))

    def set_s64(self, n: int, v: Value) -> None:
        """Write 64 bits to scalar registers n and n + 1."""
        o = self.ints
        if n in WHOLE:
            self._assign(WHOLE[n], "i64", v)
            return
        self.set_s(n, o.trunc(32, 64, v))
        self.set_s(n + 1, o.trunc(32, 64, o.lshr(64, v, o.const(64, 32))))

    def scc(self) -> Value:
        """Return the value of SCC, the scalar condition code."""
        return self._variable("scc", "i1")

    def set_scc(self, v: Value) -> None:
        """Write SCC."""
        self._assign("scc", "i1", v)

    def whole(self, n: int) -> Value:
        """Return the 64-bit value of the register pair n, n + 1, for a pair that is kept in one variable."""
        return self._variable(WHOLE[n], "i64")

    # ---- by a computed number ----------------------------------------------------------------------------------
    def number(self, n: int) -> Value:
        """Return the register number n as a 32-bit constant."""
        return self.ints.const(32, n)

    def s_indexed(self, n: int, offset: Value, w: int = 32) -> Value:
        """Return the value of scalar register n + offset; if that is out of range, of register n."""
        o = self.ints
        inside, at = self._indexed(n, offset, w)
        found = Value(w, False, at.load(f"i{w}", align=4))
        return o.select(w, inside, found, self.s64(n) if w == 64 else self.s(n))

    def set_s_indexed(self, n: int, offset: Value, v: Value, w: int = 32) -> None:
        """Write scalar register n + offset; if that is out of range, write nothing."""
        inside, at = self._indexed(n, offset, w)
        kept = Value(w, False, at.load(f"i{w}", align=4))
        at.store(self.text.bits(self.ints.select(w, inside, v, kept)), align=4)
        self.forget()

    def forget(self) -> None:
        """Forget the known values of the registers `in_place`, as they may have changed in the wave's state."""
        self.cur = {name: v for name, v in self.cur.items() if name not in self.in_place}

    def _indexed(self, n: int, offset: Value, w: int) -> tuple[Value, Operand]:
        """Emit the condition that register n + offset exists, and the address of that register.

        If it does not exist, the address is that of register 0.
        """
        o = self.ints
        index = o.add(32, self.number(n), offset)
        inside = o.ult(32, index, o.const(32, INDEXED_SGPRS + 1 - w // 32))
        place = self.text.bits(o.zext(64, 32, o.select(32, inside, index, o.const(32, 0))))
        first = self.text.pointer(self.base.state).offset(SGPR_AT)
        return inside, first.element("i32", place)

    # ---- the wave's state --------------------------------------------------------------------------------------
    def enter(self) -> None:
        """Emit the declarations of variables at the start of the function, and load their values."""
        block = self.text.pointer(self.base.state)
        for variable in sorted(self.variables):
            kind = _kind(variable)
            if variable in self.in_place:
                self.text.named(self._at(variable), block.offset(_state_offset(variable)))
                continue
            self.text.variable(self._at(variable), kind)
            first = self.text.named(self._at(variable, "q"), block.offset(_state_offset(variable))).load(
                "i64" if variable == "scc" else kind
            )
            first = first.trunc("i1") if variable == "scc" else first
            self._at(variable).store(first)

    def leave(self) -> None:
        """Emit the stores of modified variables to the wave's state."""
        for variable in sorted(self.modified - self.in_place):
            kind = _kind(variable)
            last = self._at(variable).load(kind)
            if variable == "scc":
                last = last.zext("i64")
            self._at(variable, "q").store(last)


class VectorFile:
    """The vector registers and lane masks of the lane vector that strip-mined loop `label` processes.

    If `is_across`, results are buffered until all lane vectors have been read. If `writes` is False, the
    present pass of the instruction writes no registers. `dirty` has the registers that the loop has written,
    and `pushed` those that `push` writes: their results are 0 in lanes to which no lane writes. `written_masks`
    are the variables that collect the bits of scalar register pairs. `leaves` is True if the loop has side
    exits that depend on values, in addition to those of memory accesses. `loop` is the register-resident loop
    that is being emitted, which keeps its registers in variables."""

    def __init__(self, text: LaneText, ints: Integers, scalars: ScalarFile, base: RegisterBase = OWN) -> None:
        self.text = text
        self.ints = ints
        self.base = base
        self.scalars = scalars
        self.loop: ResidentLoop | None = None
        self.begin("")

    def begin(self, label: str, is_across: bool = False, writes: bool = True) -> None:
        """Begin the strip-mined loop `label`.

        If `is_across`, results are buffered until all lane vectors have been read. If `writes` is False, the present
        pass of the instruction writes no registers."""
        self.is_across = is_across
        self.writes = writes
        self.written_masks: dict[int, str] = {}
        self.leaves = False
        self.dirty: set[int] = set()
        self.pushed: set[int] = set()
        self.chunk(label)

    def chunk(self, label: str, number: int = 0) -> None:
        """Begin a lane vector (one iteration of a strip-mined loop), in which no register's value is known yet.

        `number` is the index of the lane vector if each lane vector is emitted separately."""
        self.label = label
        self.which = number
        self.vectors: dict[int, Value] = {}
        self.masks: dict[int, Value] = {}
        self._collected: dict[int, Operand] = {}

    def row(self, n: int, label: str = "") -> Operand:
        """Return the address of the part of register n that holds the lane vector which the loop `label` processes.

        The default for `label` is the loop that is being emitted."""
        if self.loop is not None:
            return self.text.pointer(self.loop.variable(n, self.which, self.base.prefix))
        return self.rows(label or self.label).offset(row_at(n))

    @property
    def state(self) -> Operand:
        """The host address of the wave's state, or of its shadow registers."""
        return self.text.pointer(self.base.state)

    @property
    def lds(self) -> Operand:
        """The host address of LDS, or of its shadow memory."""
        return self.text.pointer(self.base.lds)

    def rows(self, label: str) -> Operand:
        """Return the address of the part of register v0 that holds the lane vector which the loop `label` processes."""
        return self.text.pointer(f"%{self.base.prefix}row{label}")

    def buffer(self, n: int, label: str = "") -> Operand:
        """Return the address of the buffer for results of register n, for all lanes, in the loop `label`.

        The default is the present loop.
        """
        return self.text.pointer(f"%{self.base.prefix}buf{label or self.label}_{n}")

    def register(self, n: int) -> Operand:
        """Emit the host address of the first lane of vector register n."""
        return self.state.offset(row_at(n))

    def v(self, n: int) -> Value:
        """Return the value of vector register n."""
        if n not in self.vectors:
            self.vectors[n] = Value(32, True, self.load_chunk(self.row(n)))
        return self.vectors[n]

    def load_chunk(self, at: Operand) -> Operand:
        """Emit the load of one register's lane vector from memory or a variable."""
        return at.load(self.text.itype(32, True), align=4 * self.text.lanes, tail=REGISTERS)

    def store_chunk(self, value: Operand, at: Operand, volatile: bool = False) -> None:
        """Emit the store of one register's lane vector to memory or a variable."""
        at.store(value, align=4 * self.text.lanes, volatile=volatile, tail=REGISTERS)

    def set_v(self, n: int, v: Value, where: Value | None = None) -> None:
        """Write vector register n in lanes of EXEC.

        In a strip-mined loop other lanes may hold any value, since EXEC does not change in it.
        """
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
        """Emit the store of results to a buffer, for an instruction that reads other lanes.

        Registers are written when all lane vectors have been read.
        """
        self.dirty.add(n)
        at = self.buffer(n).offset(self.text.word(f"%rb{self.label}"))
        at.store(self.text.bits(v), align=4 * self.text.lanes)

    def lane_bits(self, b: Value) -> Value:
        """Emit the extraction, from a 64-bit scalar, of the bits of the lanes in this lane vector; return a lane
        mask."""
        text = self.text
        moved = text.bits(b) >> text.word(f"%sh{self.label}")
        return Value(1, True, text.mask_of(moved.trunc(f"i{text.lanes}")))

    def mask(self, n: int) -> Value:
        """Return the lane mask in scalar registers n and n + 1."""
        if n not in self.masks:
            self.masks[n] = self.active() if n == EXEC else self.lane_bits(self.scalars.s64(n))
        return self.masks[n]

    def set_mask(self, n: int, m: Value) -> None:
        """Collect bits of a lane mask for scalar registers n and n + 1, which are written after the last lane
        vector."""
        text = self.text
        if not m.vec:
            m = Value(1, True, text.bits(m, True))
        if n not in self.written_masks:
            self.written_masks[n] = f"{self.base.prefix}acc{self.label}_{len(self.written_masks)}"
        if n not in self._collected:
            self._collected[n] = text.pointer(f"%{self.written_masks[n]}").load("i64")
        self.masks[n] = m
        bits = self.compressed(m)
        moved = bits.zext("i64") << text.word(f"%sh{self.label}")
        text.pointer(f"%{self.written_masks[n]}").store(self._collected[n] | moved)

    def compressed(self, m: Value) -> Operand:
        """Emit the conversion of a per-lane width-1 value to an integer with one bit for each lane."""
        return self.text.bits(m, True).bitcast(f"i{self.text.lanes}")

    def lane_id(self) -> Value:
        """Return the lane numbers (0 to 63) of the lanes in this lane vector."""
        text = self.text
        base = text.splat("i32", text.word(f"%sh{self.label}").trunc("i32"))
        steps = ", ".join(f"i32 {lane}" for lane in range(text.lanes))
        return Value(32, True, base + text.operand(base.type, f"<{steps}>"))

    def active(self) -> Value:
        """Return the bits of EXEC for this lane vector as a lane mask."""
        return Value(1, True, f"%xm{self.label}")

    # ---- across lanes ------------------------------------------------------------------------------------------
    def v_at(self, n: int, lane: Value) -> Value:
        """Return, for each lane, the value of vector register n in the lane whose number is in `lane`."""
        text = self.text
        kind, lanes = text.itype(32, True), text.lanes
        places = self.register(n).element("i32", text.bits(lane, True))
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
        """Write the value `v` of each lane of EXEC to register n of the lane whose number is in `lane`.

        Lanes to which no lane writes get 0. If several lanes write to one lane, the highest one prevails."""
        text, lanes = self.text, self.text.lanes
        self.dirty.add(n)
        self.pushed.add(n)
        kind = text.itype(32, True)
        places = self.buffer(n).element("i32", text.bits(lane, True))
        text.call_void(
            f"llvm.masked.scatter.v{lanes}i32.v{lanes}p0",
            f"{kind} {text.bits(v, True)}",
            f"<{lanes} x ptr> align 4 {places}",
            f"<{lanes} x i1> {text.bits(self.active())}",
        )

    def lane(self, n: int, lane: Value) -> Value:
        """Return the value of vector register n in one lane, as a scalar."""
        return Value(32, False, self._cell(n, lane).load("i32", tail=REGISTERS))

    def set_lane(self, n: int, lane: Value, v: Value) -> None:
        """Write vector register n of one lane."""
        self._cell(n, lane).store(self.text.bits(v), tail=REGISTERS)

    def matrix(self, use: Use) -> None:
        """Emit a matrix instruction, which works on registers in memory."""
        self._call_matrix(calls.number_of(use), use, *(self.register(each).ptrtoint() for each in use.selectors))

    def matrix_shadows(self, use: Use, main: Any, *, is_source: bool) -> None:
        """Emit the computation of a matrix instruction's shadow.

        `main` is the operations interface with the values. If `is_source` is True, all bits are set.
        """
        selectors = [self.register(each).ptrtoint() for each in use.selectors]
        if use.index is not None:
            selectors.insert(0, main.vectors.register(use.index).ptrtoint())
        self._call_matrix(calls.number_of_shadows(use), use, *selectors, is_marked=is_source)

    def _call_matrix(self, number: int, use: Use, *selectors: Operand, is_marked: bool = False) -> None:
        """Emit a call of a compiled entry; `selectors` are up to two addresses of registers (see `calls`)."""
        text = self.text
        a, b, d = (self.register(n).ptrtoint() for n in (use.a, use.b, use.d))
        c = text.word(use.constant) if use.c is None else self.register(use.c).ptrtoint()
        table = text.pointer("%helpers").element("ptr", MATRICES).load("ptr")
        code = table.element("ptr", number).load("ptr")
        first, second = (*selectors, text.word(0), text.word(0))[:2]
        text.invoke("i64", code, a, b, c, d, calls.fields_of(number, use, is_marked=is_marked), first, second)

    def _cell(self, n: int, lane: Value) -> Operand:
        wide = self.ints.zext(64, 32, lane)
        return self.register(n).element("i32", self.text.bits(wide))

    # ---- by a computed number: rows in memory are up to date, since such an instruction has a strip of its own -------
    def number(self, n: int) -> Value:
        """Return the register number n as a 32-bit constant."""
        return self.ints.const(32, n)

    def v_indexed(self, n: int, offset: Value) -> Value:
        """Return the value of vector register n + offset; if that is out of range, of register 0."""
        return self._loaded(self._indexed(n, offset)[1])

    def set_v_indexed(self, n: int, offset: Value, v: Value) -> None:
        """Write vector register n + offset in lanes of EXEC immediately; if it is out of range, write nothing."""
        o = self.ints
        inside, at = self._indexed(n, offset)
        value = self.text.bits(o.select(32, o.and_(1, self.active(), inside), v, self._loaded(at)), True)
        # Volatile for the same reason as in `StripEmitter`.
        at.store(value, volatile=True, align=4 * self.text.lanes, tail=REGISTERS)

    def _loaded(self, at: Operand) -> Value:
        return Value(32, True, at.load(self.text.itype(32, True), align=4 * self.text.lanes, tail=REGISTERS))

    def _indexed(self, n: int, offset: Value) -> tuple[Value, Operand]:
        """Emit the condition that register n + offset exists, and the address of its lane vector.

        If it does not exist, the address is that of register 0.
        """
        o = self.ints
        index = o.add(32, self.number(n), offset)
        inside = o.ult(32, index, o.const(32, VGPRS))
        place = o.zext(64, 32, o.select(32, inside, index, o.const(32, 0)))
        rows = o.mul(64, place, o.const(64, LANES * 4))
        return inside, self.rows(self.label).offset(self.text.bits(rows))


def _kind(variable: str) -> str:
    return "i64" if variable in WHOLE.values() else "i1" if variable == "scc" else "i32"


def _state_offset(variable: str) -> int:
    """Return the offset, in the wave's state, of the register that `variable` holds."""
    if variable == "scc":
        return WORDS_AT + 8 * SCC
    numbers = {name: n for n, name in WHOLE.items()}
    return SGPR_AT + 4 * (numbers[variable] if variable in numbers else int(variable[1:]))
