"""Addresses of lanes in translated code: 64-bit sums of which the 32-bit halves are remembered.

Whether a chunk's addresses lie side by side, or are all the same, is asked of the halves: vectors half as long.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from understudy.engine.gcn.jit.emit_wave import WaveEmitter
from understudy.ir.builder import Halves, Value

ZERO: Final = Value(32, False, number=0)


class AddressEmitter(WaveEmitter):
    """Integer operations of which addresses are made, and what a chunk of addresses looks like.

    `checked` has what was found out in this chunk already: arrays are often accessed at one index.
    """

    checked: dict[tuple[str, str, str], str]

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
            made.halves = self._summed(x.low, y.high)
        return made

    def _summed(self, low: Value, high: Value) -> Halves:
        """Two halves, as those to which a scalar of 64 bits was added where that is how they were made."""
        plus = None
        while (found := _carried(low, high)) is not None:
            low, high, scalars = found
            wide = [self.zext(64, 32, scalar) for scalar in scalars]
            part = super().or_(64, wide[0], super().shl(64, wide[1], self.const(64, 32)))
            plus = part if plus is None else super().add(64, plus, part)
        return Halves(low, ZERO if high.number == 0 else high, plus)

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
        key = ("first", text.bits(low, True), text.bits(high, True))
        if key not in self.checked:
            both = self.zext(64, 32, self._first(low))
            if high is not ZERO:
                upper = super().shl(64, self.zext(64, 32, self._first(high)), self.const(64, 32))
                both = super().or_(64, both, upper)
            self.checked[key] = text.bits(both)
        first = Value(64, False, self.checked[key])
        return text.bits(first if plus is None else super().add(64, first, plus))

    def side_by_side(self, address: Value, first: str, size: int) -> str:
        """Whether all lanes, active or not, address the `size` bytes behind those of the lane before."""
        text, lanes = self.text, self.text.lanes
        if address.halves is None:
            wrong = self._differs(address.w, text.bits(address, True), first, size)
            return text.let(f"icmp eq i{lanes} {text.let(f'bitcast <{lanes} x i1> {wrong} to i{lanes}')}, 0")
        low, high, _ = address.halves
        key = (str(size), text.bits(low, True), text.bits(high, True))
        if key not in self.checked:
            start = text.bits(self._first(low))
            wrong = self._differs(32, text.bits(low, True), start, size)
            if high is not ZERO:
                wrong = text.let(f"or <{lanes} x i1> {wrong}, {self._differs_from_first(high)}")
            right = text.let(f"icmp eq i{lanes} {text.let(f'bitcast <{lanes} x i1> {wrong} to i{lanes}')}, 0")
            # The lower halves must not wrap around: the upper ones are the same.
            self.checked[key] = text.let(f"and i1 {right}, {text.let(f'icmp ule i32 {start}, {-size * lanes}')}")
        return self.checked[key]

    def differing(self, address: Value, first: str) -> str:
        """Lanes that address something else than the first one: a vector of bits."""
        text = self.text
        if address.halves is None:
            return self._differs(address.w, text.bits(address, True), first)
        low, high, _ = address.halves
        wrong = self._differs_from_first(low)
        if high is ZERO:
            return wrong
        return text.let(f"or <{text.lanes} x i1> {wrong}, {self._differs_from_first(high)}")

    def _first(self, v: Value) -> Value:
        text, name = self.text, self.text.bits(v, True)
        key = ("lane 0", name, "")
        if key not in self.checked:
            self.checked[key] = text.let(f"extractelement {text.itype(32, True)} {name}, i64 0")
        return Value(32, False, self.checked[key])

    def _differs_from_first(self, v: Value) -> str:
        return self._differs(32, self.text.bits(v, True), self.text.bits(self._first(v)))

    def _differs(self, w: int, vector: str, first: str, step: int = 0) -> str:
        """Lanes of a vector that are not `first`, and a step more for each lane."""
        text, kind = self.text, self.text.itype(w, True)
        wanted = text.splat(f"i{w}", first)
        if step:
            wanted = text.let(f"add {kind} {wanted}, {_steps(w, step, text.lanes)}")
        return text.let(f"icmp ne {kind} {vector}, {wanted}")


@cache
def _steps(w: int, step: int, lanes: int) -> str:
    """The constant of multiples of a step."""
    return f"<{', '.join(f'i{w} {step * lane}' for lane in range(lanes))}>"


def _carried(low: Value, high: Value) -> tuple[Value, Value, tuple[Value, Value]] | None:
    """Two halves before two scalars were added with a carry, and the scalars; None where they were not.

    ``low = x + s``, ``high = y + t + (low < s)``: what v_add_co and v_addc_co do.
    """
    if low.made is None or low.made[0] != "add" or high.made is None or high.made[0] != "add":
        return None
    for inner, carry in (high.made[1:], high.made[:0:-1]):
        if carry.made is None or carry.made[0] != "zext":
            continue
        less = carry.made[1].made
        if less is None or less[0] != "icmp ult" or less[1] is not low or less[2] not in low.made[1:]:
            continue
        first = _split(low.made)
        second = _split(inner.made) if inner.made is not None and inner.made[0] == "add" else None
        if first is not None and second is not None:
            return first[0], second[0], (first[1], second[1])
    return None


def _split(made: tuple[str, Value, Value]) -> tuple[Value, Value] | None:
    """The summand that differs between lanes, and the scalar one."""
    _, a, b = made
    if b.scalar is not None:
        return a, b.scalar
    return (b, a.scalar) if a.scalar is not None else None
