"""Addresses of lanes in translated code: 64-bit sums of which the 32-bit halves are remembered.

Whether a chunk's addresses lie side by side, or are all the same, is asked of the halves: vectors half as long.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.emit_wave import WaveEmitter
from understudy.engine.gcn.values import Halves, Value

ZERO: Final = Value(32, False, number=0)


class AddressEmitter(WaveEmitter):
    """Integer operations of which addresses are made, and what a chunk of addresses looks like."""

    def zext(self, to: int, w: int, a: Value) -> Value:
        """Widen with zeros."""
        made = super().zext(to, w, a)
        if (to, w) == (64, 32) and a.vec:
            made.halves = Halves(a, ZERO)
        return made

    def shl(self, w: int, a: Value, b: Value) -> Value:
        """Shift left."""
        made = super().shl(w, a, b)
        if b.number == 32 and a.halves is not None and a.halves.high is ZERO and a.halves.plus is None:
            made.halves = Halves(ZERO, a.halves.low)
        return made

    def or_(self, w: int, a: Value, b: Value) -> Value:
        """Bitwise or."""
        made = super().or_(w, a, b)
        x, y = a.halves, b.halves
        if x is not None and y is not None and x.high is ZERO and y.low is ZERO and x.plus is None and y.plus is None:
            made.halves = Halves(x.low, y.high)
        return made

    def add(self, w: int, a: Value, b: Value) -> Value:
        """Sum."""
        made = super().add(w, a, b)
        vector, scalar = (a, b) if a.vec else (b, a)
        if w == 64 and vector.halves is not None and not scalar.vec:
            low, high, plus = vector.halves
            made.halves = Halves(low, high, scalar if plus is None else super().add(64, plus, scalar))
        return made

    def first_address(self, address: Value) -> str:
        """The first lane's, as i32 or i64."""
        text, w = self.text, address.w
        if address.halves is None:
            return text.let(f"extractelement {text.itype(w, True)} {text.bits(address, True)}, i64 0")
        low, high, plus = address.halves
        first = self.zext(64, 32, self._first(low))
        if high is not ZERO:
            first = self.or_(64, first, self.shl(64, self.zext(64, 32, self._first(high)), self.const(64, 32)))
        return text.bits(first if plus is None else self.add(64, first, plus))

    def side_by_side(self, address: Value, first: str, size: int) -> str:
        """Whether all lanes, active or not, address the `size` bytes behind those of the lane before."""
        text, lanes = self.text, self.text.lanes
        steps = tuple(size * lane for lane in range(lanes))
        if address.halves is None:
            wrong = self._differs(address.w, text.bits(address, True), first, steps)
            return text.let(f"icmp eq i{lanes} {text.let(f'bitcast <{lanes} x i1> {wrong} to i{lanes}')}, 0")
        low, high, _ = address.halves
        start = text.bits(self._first(low))
        wrong = self._differs(32, text.bits(low, True), start, steps)
        if high is not ZERO:
            wrong = text.let(f"or <{lanes} x i1> {wrong}, {self._differs_from_first(high)}")
        right = text.let(f"icmp eq i{lanes} {text.let(f'bitcast <{lanes} x i1> {wrong} to i{lanes}')}, 0")
        return text.let(f"and i1 {right}, {text.let(f'icmp ule i32 {start}, {-size * lanes}')}")

    def differing(self, address: Value, first: str) -> str:
        """Lanes that address something else than the first one: a vector of bits."""
        text = self.text
        if address.halves is None:
            return self._differs(address.w, text.bits(address, True), first, None)
        low, high, _ = address.halves
        wrong = self._differs_from_first(low)
        if high is ZERO:
            return wrong
        return text.let(f"or <{text.lanes} x i1> {wrong}, {self._differs_from_first(high)}")

    def _first(self, v: Value) -> Value:
        text = self.text
        return Value(32, False, text.let(f"extractelement {text.itype(32, True)} {text.bits(v, True)}, i64 0"))

    def _differs_from_first(self, v: Value) -> str:
        return self._differs(32, self.text.bits(v, True), self.text.bits(self._first(v)), None)

    def _differs(self, w: int, vector: str, first: str, steps: tuple[int, ...] | None) -> str:
        """Lanes of a vector that are not `first`, each with its step."""
        text, kind = self.text, self.text.itype(w, True)
        wanted = text.splat(f"i{w}", first)
        if steps is not None:
            wanted = text.let(f"add {kind} {wanted}, <{', '.join(f'i{w} {step}' for step in steps)}>")
        return text.let(f"icmp ne {kind} {vector}, {wanted}")
