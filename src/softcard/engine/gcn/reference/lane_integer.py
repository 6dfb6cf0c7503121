"""The integer operations of the reference engine.

Scalars are Python ints; per-lane values are arrays of 64 lanes. The result of an operation on two scalars is
a scalar. If one operand is per-lane, a scalar operand is converted to lanes that all hold its number. Lanes
of width 1 have dtype bool. Lanes of another width are unsigned integers of that width, so that NumPy's
arithmetic wraps around as that of GCN does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.isa.gcn.state import LANES

Array = npt.NDArray[Any]
Value = Any
"""The type of a value: a Python int (a scalar) or an `Array` of 64 lanes."""

WIDTHS: Final = (1, 8, 16, 32, 64)
MASK: Final = {w: (1 << w) - 1 for w in WIDTHS}
UNSIGNED: Final[dict[int, np.dtype[Any]]] = {
    w: np.dtype(t) for w, t in zip(WIDTHS, (np.bool_, np.uint8, np.uint16, np.uint32, np.uint64), strict=True)
}
SIGNED: Final[dict[int, np.dtype[Any]]] = {
    w: np.dtype(t) for w, t in zip(WIDTHS, (np.int8, np.int8, np.int16, np.int32, np.int64), strict=True)
}
_POPULATION: Final = np.array([n.bit_count() for n in range(256)], np.uint8)
_REVERSED: Final = np.array([int(f"{n:08b}"[::-1], 2) for n in range(256)], np.uint8)
_CACHED_MASKS: Final = 2048
_spread: dict[tuple[int, int], Array] = {}


def lanes_of(w: int, n: int) -> Array:
    """Return 64 lanes that all hold the scalar `n`; read-only, because they are shared."""
    found = _spread.get((w, n))
    if found is None:
        if len(_spread) >= _CACHED_MASKS:
            _spread.clear()
        found = np.full(LANES, n, UNSIGNED[w])
        found.setflags(write=False)
        _spread[w, n] = found
    return found


def signed(w: int, n: int) -> int:
    """Return the signed number that the `w`-bit number `n` represents in two's complement."""
    return n - (1 << w) if n >> (w - 1) else n


def any_lane(b: Array) -> bool:
    """Return True if any of 64 lanes of width 1 is set. This is faster than `numpy.any`."""
    return b"\1" in b.tobytes()


def _binary(scalar: Callable[[int, int, int], int], lanes: Callable[[int, Array, Array], Array]) -> Any:
    """Return a method for a binary operation, given its implementations on ints and on arrays of one dtype."""

    def operation(self: Any, w: int, a: Value, b: Value) -> Value:
        if type(a) is int:
            if type(b) is int:
                return scalar(w, a, b)
            a = lanes_of(w, a)
        elif type(b) is int:
            b = lanes_of(w, b)
        return lanes(w, a, b)

    return operation


def _unary(scalar: Callable[[int, int], int], lanes: Callable[[int, Array], Array]) -> Any:
    def operation(self: Any, w: int, a: Value) -> Value:
        return scalar(w, a) if type(a) is int else lanes(w, a)

    return operation


def _as_signed(operation: Callable[[Array, Array], Array]) -> Callable[[int, Array, Array], Array]:
    def lanes(w: int, a: Array, b: Array) -> Array:
        result = operation(a.view(SIGNED[w]), b.view(SIGNED[w]))
        return result.view(UNSIGNED[w]) if result.dtype != np.bool_ else result

    return lanes


def _length(w: int, a: Array) -> Array:
    """Return the position of the highest set bit plus 1, or 0 if no bit is set."""
    if w <= 32:
        return np.frexp(a.astype(np.float64))[1]
    high, low = (a >> np.uint64(32)).astype(np.float64), a.astype(np.uint32).astype(np.float64)
    return np.where(high != 0, np.frexp(high)[1] + 32, np.frexp(low)[1])


def _leading(w: int, a: Array) -> Array:
    return (w - _length(w, a)).astype(UNSIGNED[w])


def _trailing(w: int, a: Array) -> Array:
    return np.where(a == 0, w, _length(w, a & (~a + a.dtype.type(1))) - 1).astype(UNSIGNED[w])


def _ones(w: int, a: Array) -> Array:
    counts: Array = _POPULATION[a.view(np.uint8)].reshape(LANES, -1).sum(axis=1)
    return counts.astype(UNSIGNED[w])


def _mirror(w: int, a: Array) -> Array:
    bytes_: Array = np.ascontiguousarray(_REVERSED[a.view(np.uint8)].reshape(LANES, -1)[:, ::-1])
    result: Array = bytes_.reshape(-1).view(UNSIGNED[w])
    return result


class LaneIntegers:
    """The integer operations of `isa.gcn.algebra.WaveIntegers` over ints and lanes."""

    def const(self, w: int, n: int) -> int:
        """Return the number `n` modulo 2**w."""
        return int(n) & MASK[w]

    # fmt: off
    add = _binary(lambda w, a, b: (a + b) & MASK[w], lambda w, a, b: a + b if w > 1 else a ^ b)
    sub = _binary(lambda w, a, b: (a - b) & MASK[w], lambda w, a, b: a - b if w > 1 else a ^ b)
    mul = _binary(lambda w, a, b: (a * b) & MASK[w], lambda w, a, b: a * b)
    and_ = _binary(lambda w, a, b: a & b,            lambda w, a, b: a & b)
    or_ = _binary(lambda w, a, b: a | b,             lambda w, a, b: a | b)
    xor = _binary(lambda w, a, b: a ^ b,             lambda w, a, b: a ^ b)
    shl = _binary(lambda w, a, n: (a << n) & MASK[w], lambda w, a, n: a << n if w > 1 else a)
    lshr = _binary(lambda w, a, n: a >> n,           lambda w, a, n: a >> n if w > 1 else a)
    ashr = _binary(lambda w, a, n: signed(w, a) >> n & MASK[w], _as_signed(np.right_shift))
    umin = _binary(lambda w, a, b: min(a, b),        lambda w, a, b: np.minimum(a, b))
    umax = _binary(lambda w, a, b: max(a, b),        lambda w, a, b: np.maximum(a, b))
    smin = _binary(lambda w, a, b: min(signed(w, a), signed(w, b)) & MASK[w], _as_signed(np.minimum))
    smax = _binary(lambda w, a, b: max(signed(w, a), signed(w, b)) & MASK[w], _as_signed(np.maximum))
    eq = _binary(lambda w, a, b: int(a == b),        lambda w, a, b: a == b)
    ne = _binary(lambda w, a, b: int(a != b),        lambda w, a, b: a != b)
    ult = _binary(lambda w, a, b: int(a < b),        lambda w, a, b: a < b)
    ule = _binary(lambda w, a, b: int(a <= b),       lambda w, a, b: a <= b)
    slt = _binary(lambda w, a, b: int(signed(w, a) < signed(w, b)),  _as_signed(np.less))
    sle = _binary(lambda w, a, b: int(signed(w, a) <= signed(w, b)), _as_signed(np.less_equal))
    not_ = _unary(lambda w, a: a ^ MASK[w],          lambda w, a: ~a)
    ctlz = _unary(lambda w, a: w - a.bit_length(),   _leading)
    cttz = _unary(lambda w, a: (a & -a).bit_length() - 1 if a else w, _trailing)
    ctpop = _unary(lambda w, a: a.bit_count(),       _ones)
    bitreverse = _unary(lambda w, a: int(f"{a:0{w}b}"[::-1], 2), _mirror)
    # fmt: on

    def entry(self, w: int, a: Value, table: tuple[int, ...]) -> Value:
        """Return the element of `table` with index `a`."""
        return table[a] if type(a) is int else np.array(table, np.uint32)[a]

    def select(self, w: int, c: Value, a: Value, b: Value) -> Value:
        """Return `a` where the width-1 value `c` is 1, else `b`."""
        if type(c) is int:
            return a if c else b
        result = (lanes_of(w, b) if type(b) is int else b).copy()
        np.copyto(result, lanes_of(w, a) if type(a) is int else a, where=c)
        return result

    def zext(self, to: int, w: int, a: Value) -> Value:
        """Return the `w`-bit value `a` zero-extended to `to` bits."""
        return a if type(a) is int else a.astype(UNSIGNED[to])

    def sext(self, to: int, w: int, a: Value) -> Value:
        """Return the `w`-bit value `a` sign-extended to `to` bits."""
        if type(a) is int:
            return signed(w, a) & MASK[to]
        if w == 1:
            return np.negative(a.view(np.int8)).astype(SIGNED[to]).view(UNSIGNED[to])
        return a.view(SIGNED[w]).astype(SIGNED[to]).view(UNSIGNED[to])

    def trunc(self, to: int, w: int, a: Value) -> Value:
        """Return the low `to` bits of the `w`-bit value `a`."""
        if type(a) is int:
            return a & MASK[to]
        return (a & lanes_of(w, 1)).astype(np.bool_) if to == 1 else a.astype(UNSIGNED[to])
