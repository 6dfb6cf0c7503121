"""A wave's registers in translated code: scalars in variables, vector registers in memory, one chunk at a time."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit.emit_float import FloatEmitter, Untranslated
from understudy.ir.builder import Text, Value
from understudy.isa.gcn.state import EXEC, LANES, SGPR_AT, VCC, WORDS_AT, Mode

WHOLE: Final = {EXEC: "exec", VCC: "vcc"}
"""Register pairs that are kept as one variable of 64 bits."""
REGISTERS: Final = ", !alias.scope !10, !noalias !11"
"""Vector registers overlap nothing that a kernel can address."""


class WaveEmitter(FloatEmitter):
    """Registers of the algebra. Outside of a segment only scalars may be touched.

    `cur` holds scalar values known in this block, `lanes_cur` register values and masks known in this chunk.
    """

    def __init__(self, text: Text) -> None:
        self.text = text
        self.mode = Mode()
        self.cur: dict[object, Value] = {}
        self.variables: set[str] = set()
        self.modified: set[str] = set()
        self.shown: frozenset[str] = frozenset()
        """Variables that helpers look at in memory."""
        self.segment = ""
        self.vectors: dict[int, Value] = {}
        self.masks: dict[int, Value] = {}
        self.written_masks: dict[int, str] = {}
        self.dirty: set[int] = set()
        self.is_across = False

    # ---- scalars -----------------------------------------------------------------------------------------------
    def _variable(self, name: str, kind: str) -> Value:
        """The value of a variable, loaded once per block."""
        if name not in self.cur:
            self.variables.add(name)
            w = int(kind[1:])
            self.cur[name] = Value(w, False, self.text.let(f"load {kind}, ptr %{name}"))
        known = self.cur[name]
        if self.segment and known.number is None:  # forms made inside a loop must not be used behind it
            return Value(known.w, False, known.ir)
        return known

    def _assign(self, name: str, kind: str, v: Value) -> None:
        if v.vec:
            raise Untranslated
        self.variables.add(name)
        self.modified.add(name)
        self.text.put(f"store {kind} {self.text.bits(v)}, ptr %{name}")
        if name in self.shown:
            self.text.put(f"store {kind} {self.text.bits(v)}, ptr %q{name}")
        self.cur[name] = v

    def s(self, n: int) -> Value:
        """Scalar register n."""
        pair = n & ~1
        if pair in WHOLE:
            whole = self._variable(WHOLE[pair], "i64")
            return self.trunc(32, 64, self.lshr(64, whole, self.const(64, 32)) if n & 1 else whole)
        return self._variable(f"s{n}", "i32")

    def set_s(self, n: int, v: Value) -> None:
        """Write scalar register n."""
        pair = n & ~1
        if pair not in WHOLE:
            self._assign(f"s{n}", "i32", v)
            return
        shift = 32 * (n & 1)
        kept = self.and_(64, self._variable(WHOLE[pair], "i64"), self.const(64, 0xFFFF_FFFF << (32 - shift)))
        moved = self.shl(64, self.zext(64, 32, v), self.const(64, shift))
        self._assign(WHOLE[pair], "i64", self.or_(64, kept, moved))

    def s64(self, n: int) -> Value:
        """Scalar registers n and n + 1."""
        if n in WHOLE:
            return self._variable(WHOLE[n], "i64")
        low, high = self.zext(64, 32, self.s(n)), self.zext(64, 32, self.s(n + 1))
        return self.or_(64, low, self.shl(64, high, self.const(64, 32)))

    def set_s64(self, n: int, v: Value) -> None:
        """Write scalar registers n and n + 1."""
        if n in WHOLE:
            self._assign(WHOLE[n], "i64", v)
            return
        self.set_s(n, self.trunc(32, 64, v))
        self.set_s(n + 1, self.trunc(32, 64, self.lshr(64, v, self.const(64, 32))))

    def scc(self) -> Value:
        """The condition code."""
        return self._variable("scc", "i1")

    def set_scc(self, v: Value) -> None:
        """Write it."""
        self._assign("scc", "i1", v)

    # ---- lanes -------------------------------------------------------------------------------------------------
    def row(self, n: int) -> str:
        """Host address of this chunk of vector register n."""
        return self.text.let(f"getelementptr i8, ptr %row{self.segment}, i64 {LANES * 4 * n}")

    def v(self, n: int) -> Value:
        """Vector register n."""
        if n not in self.vectors:
            kind = self.text.itype(32, True)
            name = self.text.let(f"load {kind}, ptr {self.row(n)}, align {4 * self.text.lanes}{REGISTERS}")
            self.vectors[n] = Value(32, True, name)
        return self.vectors[n]

    def set_v(self, n: int, v: Value, where: Value | None = None) -> None:
        """Write lanes of EXEC; inside a segment other lanes may hold anything, since EXEC does not change."""
        if where is not None:
            v = self.select(32, where, v, self.v(n))
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
        if n not in self.dirty:
            self.dirty.add(n)
        at = self.text.let(f"getelementptr i8, ptr %buf{self.segment}_{n}, i64 %rb{self.segment}")
        self.text.put(f"store {self.text.itype(32, True)} {self.text.bits(v)}, ptr {at}, align {4 * self.text.lanes}")

    def lane_bits(self, b: Value) -> Value:
        """The bits of a scalar, one per lane."""
        text = self.text
        moved = text.let(f"lshr i64 {text.bits(b)}, %sh{self.segment}")
        return Value(1, True, text.let(text.mask_of(text.let(f"trunc i64 {moved} to i{text.lanes}"))))

    def mask(self, n: int) -> Value:
        """A scalar register pair, one bit per lane."""
        if n not in self.masks:
            self.masks[n] = self.active() if n == EXEC else self.lane_bits(self.s64(n))
        return self.masks[n]

    def set_mask(self, n: int, m: Value) -> None:
        """Collect the bits of a mask; the pair is written when all chunks are done."""
        text = self.text
        if not m.vec:
            m = Value(1, True, text.bits(m, True))
        if n not in self.written_masks:
            self.written_masks[n] = f"acc{self.segment}_{len(self.written_masks)}"
            self.cur[f"acc {n}"] = Value(64, False, text.let(f"load i64, ptr %{self.written_masks[n]}"))
        self.masks[n] = m
        bits = self.compressed(m)
        moved = text.let(f"shl i64 {text.let(f'zext i{text.lanes} {bits} to i64')}, %sh{self.segment}")
        so_far = text.bits(self.cur[f"acc {n}"])
        text.put(f"store i64 {text.let(f'or i64 {so_far}, {moved}')}, ptr %{self.written_masks[n]}")

    def compressed(self, m: Value) -> str:
        """A per-lane width-1 value as an integer of one bit per lane."""
        return self.text.let(f"bitcast {self.text.itype(1, True)} {self.text.bits(m, True)} to i{self.text.lanes}")

    def lane_id(self) -> Value:
        """0..63."""
        text = self.text
        base = text.splat("i32", text.let(f"trunc i64 %sh{self.segment} to i32"))
        steps = ", ".join(f"i32 {lane}" for lane in range(text.lanes))
        return Value(32, True, text.let(f"add <{text.lanes} x i32> {base}, <{steps}>"))

    def active(self) -> Value:
        """EXEC."""
        return Value(1, True, f"%xm{self.segment}")

    # ---- across lanes ------------------------------------------------------------------------------------------
    def v_at(self, n: int, lane: Value) -> Value:
        """Vector register n of another lane."""
        text = self.text
        kind, lanes = text.itype(32, True), text.lanes
        start = text.let(f"getelementptr i8, ptr %st, i64 {LANES * 4 * n}")
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

    def lane(self, n: int, lane: Value) -> Value:
        """Vector register n of one lane, as a scalar."""
        return Value(32, False, self.text.let(f"load i32, ptr {self._cell(n, lane)}{REGISTERS}"))

    def set_lane(self, n: int, lane: Value, v: Value) -> None:
        """Write one lane."""
        self.text.put(f"store i32 {self.text.bits(v)}, ptr {self._cell(n, lane)}{REGISTERS}")

    def _cell(self, n: int, lane: Value) -> str:
        wide = self.zext(64, 32, lane)
        start = self.text.let(f"getelementptr i8, ptr %st, i64 {LANES * 4 * n}")
        return self.text.let(f"getelementptr i32, ptr {start}, i64 {self.text.bits(wide)}")

    def v_indexed(self, n: int, offset: Value) -> Value:
        """Vector register n + offset."""
        kind = self.text.itype(32, True)
        return Value(
            32, True, self.text.let(f"load {kind}, ptr {self._indexed(n, offset)}, align {4 * self.text.lanes}")
        )

    def set_v_indexed(self, n: int, offset: Value, v: Value) -> None:
        """Write vector register n + offset."""
        raise Untranslated

    def _indexed(self, n: int, offset: Value) -> str:
        number = self.add(32, offset, self.const(32, n))
        inside = self.ult(32, number, self.const(32, 256))
        place = self.zext(64, 32, self.select(32, inside, number, self.const(32, 0)))
        rows = self.mul(64, place, self.const(64, LANES * 4))
        return self.text.let(f"getelementptr i8, ptr %row{self.segment}, i64 {self.text.bits(rows)}")

    # ---- words of the engine -----------------------------------------------------------------------------------
    def word(self, index: int, kind: str = "i64") -> str:
        """One of the 64-bit words behind the registers."""
        at = self.text.let(f"getelementptr i8, ptr %st, i64 {WORDS_AT + 8 * index}")
        return self.text.let(f"load {kind}, ptr {at}")

    def set_word(self, index: int, value: str) -> None:
        """Write one of them."""
        at = self.text.let(f"getelementptr i8, ptr %st, i64 {WORDS_AT + 8 * index}")
        self.text.put(f"store i64 {value}, ptr {at}")

    def place(self, name: str) -> str:
        """Offset in the state of a variable's register."""
        if name in ("exec", "vcc"):
            return str(SGPR_AT + 4 * (EXEC if name == "exec" else VCC))
        return str(SGPR_AT + 4 * int(name[1:]))

    # ---- what only the reference engine does -----------------------------------------------------------------------
    def s_indexed(self, n: int, offset: Value, w: int = 32) -> Value:
        """Not translated."""
        raise Untranslated

    def order(self, what: str, n: int = 0) -> None:
        """Memory is coherent here."""
