"""The float algebra of the reference: 64 lanes of IEEE 754 bit patterns, rounded exactly as MODE says.

The host computes where its result is the exact one, and where it can be made so (`lane_rounding`); Python integers
(`engine.floats`) do elsewhere, lane by lane.

Results that are tiny after rounding are flushed where MODE says so, as x86 does, denormal operands where it says that.
The caller sees to it that NumPy does not warn (`quiet`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from understudy.core.errors import ModelBug
from understudy.engine.gcn.reference.lane_integer import SIGNED, UNSIGNED, Array, Value, any_lane, lanes_of
from understudy.engine.gcn.reference.lane_rounding import (
    BITS,
    FLOAT,
    PATTERNS,
    RAW,
    ROUNDING,
    Doubles,
    Environment,
    canonical,
    flushed,
    fma64,
    fused32,
    host32,
    narrow,
    odd_sum,
    quiet,
    signed_sum,
)
from understudy.ir import softfloat
from understudy.ir.softfloat import FORMATS, RNE, UF
from understudy.isa.gcn.state import LANES, Mode

__all__ = ["LaneFloats", "quiet"]

NARROW: Final[dict[str, Callable[..., Doubles]]] = {
    "add": signed_sum,
    "sub": lambda rounding, a, b: signed_sum(rounding, a, -b),
    "mul": lambda rounding, a, b: a * b,
    "div": lambda rounding, a, b: a / b,
    "sqrt": lambda rounding, a: np.sqrt(a),
    "fma": lambda rounding, a, b, c: signed_sum(rounding, a * b, c),
}
Exactly = Callable[[Array], list[int]]
"""The patterns of the lanes with these indices, computed in integers."""
HOST: Final[dict[str, Callable[..., Array]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
}
EXACT: Final[dict[str, Callable[..., softfloat.Result]]] = {
    "add": softfloat.add,
    "sub": softfloat.sub,
    "mul": softfloat.mul,
    "div": softfloat.div,
    "sqrt": softfloat.sqrt,
    "fma": softfloat.fma,
}
INTEGRAL: Final[dict[str, Callable[[Array], Array]]] = {
    "trunc": np.trunc,
    "ceil": np.ceil,
    "floor": np.floor,
    "even": np.rint,
}


def _exact(fmt: str, e: Environment, function: Callable[..., softfloat.Result], *operands: list[int]) -> list[int]:
    """Lane by lane in Python integers."""
    f, results = FORMATS[fmt], []
    for values in zip(*operands, strict=True):
        bits, flags = function(fmt, *values, e.rounding)
        if not e.results and (flags & UF or bits & ~f.sign < f.hidden):
            bits &= f.sign
        results.append(bits)
    return results


def _finish(fmt: str, e: Environment, result: Array, unsure: Array | None, exact: Exactly) -> Array:
    """Patterns of host results that round to nearest: canonical NaNs, flushing; `exact` computes `unsure` lanes."""
    p = PATTERNS[fmt]
    bits: Array = result.view(UNSIGNED[BITS[fmt]])
    canonical(fmt, bits, result)
    if not e.results:
        magnitude = bits & p.magnitude
        edge = magnitude == p.hidden
        unsure = edge if unsure is None else unsure | edge
        np.copyto(bits, bits & p.sign, where=magnitude < p.hidden)
    if unsure is not None and any_lane(unsure):
        where = np.flatnonzero(unsure)
        bits[where] = exact(where)
    return bits


def _arithmetic(kind: str) -> Callable[..., Value]:
    """An operation on two floats."""

    def method(self: LaneFloats, fmt: str, a: Value, b: Value, env: str | None = None) -> Value:
        return self._arithmetic(kind, fmt, env, a, b)

    return method


def _compare(holds: Callable[[Array, Array], Array]) -> Callable[..., Value]:
    """A comparison; all but "either is a NaN" are false for NaNs."""
    return lambda self, fmt, a, b: self._compare(holds, fmt, a, b)


class LaneFloats:
    """`isa.gcn.algebra.FloatAlgebra` over lanes; where all operands are ints, so is the result."""

    def __init__(self) -> None:
        self.mode = Mode()
        self._known_mode = self.mode
        self._environments: dict[tuple[str, str | None], Environment] = {}

    def environment(self, fmt: str, env: str | None = None) -> Environment:
        """What `env` means for a format under the current MODE."""
        if self._known_mode is not self.mode:
            self._known_mode = self.mode
            self._environments.clear()
        found = self._environments.get((fmt, env))
        if found is None:
            found = self._environments[fmt, env] = _environment(self.mode, fmt, env)
        return found

    # -- arithmetic

    fadd = _arithmetic("add")
    fsub = _arithmetic("sub")
    fmul = _arithmetic("mul")
    fdiv = _arithmetic("div")

    def fsqrt(self, fmt: str, a: Value, env: str | None = None) -> Value:
        """The square root."""
        return self._arithmetic("sqrt", fmt, env, a)

    def fma(self, fmt: str, a: Value, b: Value, c: Value, env: str | None = None) -> Value:
        """a * b + c with one rounding."""
        return self._arithmetic("fma", fmt, env, a, b, c)

    def _arithmetic(self, kind: str, fmt: str, env: str | None, *operands: Value) -> Value:
        e, w = self.environment(fmt, env), BITS[fmt]
        arrays = [lanes_of(w, a) if type(a) is int else a for a in operands]
        if not e.inputs:
            arrays = [flushed(fmt, a) for a in arrays]
        values = [a.view(FLOAT[fmt]) for a in arrays]
        result = None
        if fmt == "d":
            result = self._binary64(kind, e, arrays, values)
        elif fmt == "s" and e.rounding == RNE:
            rounded = fused32(*values) if kind == "fma" else HOST[kind](*values)
            result = None if rounded is None else host32(rounded, e)
        if result is None:
            result = narrow(fmt, NARROW[kind](e.rounding, *[a.astype(np.float64) for a in values]), e)
        return int(result[0]) if _all_scalar(operands) else result

    def _binary64(self, kind: str, e: Environment, arrays: list[Array], values: list[Array]) -> Array:
        def exact(where: Array) -> list[int]:
            return _exact("d", e, EXACT[kind], *(a[where].tolist() for a in arrays))

        if e.rounding != RNE:
            return np.array(exact(np.arange(LANES)), np.uint64)
        unsure = None
        if kind == "fma":
            result, unsure = fma64(values[0], values[1], values[2])
        else:
            result = HOST[kind](*values)
        return _finish("d", e, result, unsure, exact)

    # -- comparisons

    feq = _compare(np.equal)
    flt = _compare(np.less)
    fle = _compare(np.less_equal)
    funo = _compare(lambda x, y: (x != x) | (y != y))

    def _compare(self, holds: Callable[[Array, Array], Array], fmt: str, a: Value, b: Value) -> Value:
        result = holds(self._values(fmt, a), self._values(fmt, b))
        return int(result[0]) if _all_scalar((a, b)) else result

    def _values(self, fmt: str, a: Value, env: str | None = None) -> Array:
        """An operand as floats, flushed where its format's inputs are."""
        lanes = lanes_of(BITS[fmt], a) if type(a) is int else a
        return (lanes if self.environment(fmt, env).inputs else flushed(fmt, lanes)).view(FLOAT[fmt])

    # -- shape

    def fflush(self, fmt: str, a: Value) -> Value:
        """A denormal becomes zero of its sign where MODE flushes inputs."""
        if self.environment(fmt).inputs:
            return a
        return int(flushed(fmt, lanes_of(BITS[fmt], a))[0]) if type(a) is int else flushed(fmt, a)

    def fround(self, fmt: str, a: Value, kind: str) -> Value:
        """To an integral value: kind "trunc", "ceil", "floor" or "even"."""
        if kind not in INTEGRAL:
            raise ModelBug(f"a kind of rounding to integral must be one of {', '.join(INTEGRAL)}, not {kind!r}")
        w = BITS[fmt]
        rounded = INTEGRAL[kind](self._values(fmt, a).astype(np.float64)).astype(FLOAT[fmt])
        bits: Array = rounded.view(UNSIGNED[w])
        canonical(fmt, bits, rounded)
        return int(bits[0]) if type(a) is int else bits

    def fldexp(self, fmt: str, a: Value, n: Value, env: str | None = None) -> Value:
        """a * 2**n with one rounding; `n` is a signed 32-bit value."""
        e = self.environment(fmt, env)
        value = self._values(fmt, a, env)
        power: Array = (lanes_of(32, n) if type(n) is int else n).view(np.int32)
        if fmt == "d":
            result = self._scaled64(e, value, power)
        else:
            result = narrow(fmt, np.ldexp(value.astype(np.float64), power.clip(-400, 400)), e)
        return int(result[0]) if _all_scalar((a, n)) else result

    def _scaled64(self, e: Environment, value: Array, power: Array) -> Array:
        def exact(where: Array) -> list[int]:
            return _exact("d", e, softfloat.scale, value.view(np.uint64)[where].tolist(), power[where].tolist())

        if e.rounding != RNE:
            return np.array(exact(np.arange(LANES)), np.uint64)
        return _finish("d", e, np.ldexp(value, power.clip(-5000, 5000)), None, exact)

    # -- conversions

    def fconvert(self, to: str, fmt: str, a: Value, env: str | None = None, rounding: int | None = None) -> Value:
        """Another format; `rounding` (numbers of MODE) overrides that of `to`."""
        e = self.environment(to, env)
        if rounding is not None:
            e = e._replace(rounding=ROUNDING[rounding])
        x = self._values(fmt, a, env).astype(np.float64)
        if to == "d":  # exact
            result = _finish("d", e, x, None, lambda where: x.view(np.uint64)[where].tolist())
        else:
            result = narrow(to, x, e)
        return int(result[0]) if type(a) is int else result

    def ffrom_int(self, fmt: str, w: int, signed: bool, a: Value, env: str | None = None) -> Value:
        """The integer `a` as a float."""
        e = self.environment(fmt, env)
        lanes: Array = lanes_of(w, a) if type(a) is int else a
        number = lanes.view(SIGNED[w]) if signed else lanes
        if fmt == "d":
            result: Array = number.astype(np.float64).view(np.uint64)
            if w == 64 and e.rounding != RNE:
                result = np.array(
                    [softfloat.from_int("d", 64, signed, n, e.rounding)[0] for n in lanes.tolist()], np.uint64
                )
        elif w == 64:
            high = (number >> number.dtype.type(32)).astype(np.float64) * 2.0**32
            result = narrow(fmt, odd_sum(high, lanes.astype(np.uint32).astype(np.float64)), e)
        elif fmt == "s" and e.rounding == RNE:  # what is not 0 is no denormal
            result = number.astype(np.float32).view(np.uint32)
        else:
            result = narrow(fmt, number.astype(np.float64), e)
        return int(result[0]) if type(a) is int else result

    def fto_int(self, fmt: str, w: int, signed: bool, a: Value) -> Value:
        """Towards zero, saturating; a NaN gives 0."""
        x = self._values(fmt, a).astype(np.float64)
        np.copyto(x, 0.0, where=x != x)
        number = _saturated(x, w, signed) if w == 64 else _clipped(x, w, signed)
        return int(number[0]) if type(a) is int else number


def _clipped(x: Doubles, w: int, signed: bool) -> Array:
    """Towards zero, saturating: widths whose ends binary64 can hold."""
    low, high = (-(1 << (w - 1)), (1 << (w - 1)) - 1) if signed else (0, (1 << w) - 1)
    return np.minimum(np.maximum(x, float(low)), float(high)).astype(np.int64).astype(UNSIGNED[w])


def _saturated(x: Doubles, w: int, signed: bool) -> Array:
    """Towards zero, saturating: 64 bits."""
    low, high = (-(2.0 ** (w - 1)), 2.0 ** (w - 1)) if signed else (0.0, 2.0**w)
    top = (1 << (w - 1)) - 1 if signed else (1 << w) - 1
    inside = np.where((x > low) & (x < high), x, 0.0)
    # Numbers from 2**63 on do not fit the host's conversion to signed; take 2**63 off, and put it back.
    large = inside >= 2.0**63
    number: Array = np.where(large, inside - 2.0**63, inside).astype(np.int64).view(np.uint64)
    number = np.where(large, number + np.uint64(1 << 63), number)
    number = np.where(x >= high, lanes_of(w, top), number)
    return np.where(x <= low, lanes_of(w, int(low) & ((1 << w) - 1)), number)


def _all_scalar(operands: tuple[Value, ...]) -> bool:
    return all(type(a) is int for a in operands)


def _environment(mode: Mode, fmt: str, env: str | None) -> Environment:
    if env == "raw":
        return RAW
    if env not in (None, "flush"):
        raise ModelBug(f"a float environment must be None, 'flush' or 'raw', not {env!r}")
    rounding = ROUNDING[mode.rounding(fmt)]
    inputs, results = mode.keeps(fmt) if env is None else (False, False)
    return Environment(rounding, inputs, results, mode.fp16_overflow and fmt == "h")
