"""An algebra that checks what meanings ask for: every width and every float format, and integer results."""

from __future__ import annotations

from typing import Any, NamedTuple


class Int(NamedTuple):
    w: int
    n: int


class Flt(NamedTuple):
    fmt: str


def bits(w: int, n: int) -> Int:
    return Int(w, n & (1 << w) - 1)


def signed(v: Int) -> int:
    return v.n - (1 << v.w) if v.n >> v.w - 1 else v.n


WIDTHS = (1, 8, 16, 32, 64, 128)
FLOAT_WIDTHS = {"s": 32, "d": 64}


class Checked:
    """Integers are `Int`s of a known width, floats only have a format. `log` lists the effects of a meaning."""

    def __init__(self, x: dict[int, int] | None = None, pc: int = 0x1000, length: int = 4) -> None:
        self.regs = dict(x or {})
        self.pc, self.next_pc = pc, pc + length
        self.log: list[Any] = []

    def want(self, w: int, *values: Any) -> None:
        assert w in WIDTHS
        for v in values:
            assert isinstance(v, Int), v
            assert v.w == w, (v, w)

    def want_float(self, fmt: str, *values: Any) -> None:
        assert all(v == Flt(fmt) for v in values), (fmt, values)

    # integers
    def const(self, w: int, n: int) -> Int:
        assert w in WIDTHS
        assert isinstance(n, int)
        return bits(w, n)

    def _both(f: Any) -> Any:  # noqa: N805
        def operation(self: Checked, w: int, a: Int, b: Int) -> Int:
            self.want(w, a, b)
            return bits(w, f(a, b))

        return operation

    add = _both(lambda a, b: a.n + b.n)
    sub = _both(lambda a, b: a.n - b.n)
    mul = _both(lambda a, b: a.n * b.n)
    and_ = _both(lambda a, b: a.n & b.n)
    or_ = _both(lambda a, b: a.n | b.n)
    xor = _both(lambda a, b: a.n ^ b.n)

    def _shift(self, w: int, a: Int, n: Int) -> None:
        self.want(w, a, n)
        assert n.n < w, "shift counts must be masked"

    def shl(self, w: int, a: Int, n: Int) -> Int:
        self._shift(w, a, n)
        return bits(w, a.n << n.n)

    def lshr(self, w: int, a: Int, n: Int) -> Int:
        self._shift(w, a, n)
        return bits(w, a.n >> n.n)

    def ashr(self, w: int, a: Int, n: Int) -> Int:
        self._shift(w, a, n)
        return bits(w, signed(a) >> n.n)

    def _divisible(self, w: int, a: Int, b: Int) -> None:
        self.want(w, a, b)
        assert b.n != 0

    def udiv(self, w: int, a: Int, b: Int) -> Int:
        self._divisible(w, a, b)
        return bits(w, a.n // b.n)

    def urem(self, w: int, a: Int, b: Int) -> Int:
        self._divisible(w, a, b)
        return bits(w, a.n % b.n)

    def sdiv(self, w: int, a: Int, b: Int) -> Int:
        self._divisible(w, a, b)
        assert not (a.n == 1 << w - 1 and signed(b) == -1)
        q = abs(signed(a)) // abs(signed(b))
        return bits(w, q if (signed(a) < 0) == (signed(b) < 0) else -q)

    def srem(self, w: int, a: Int, b: Int) -> Int:
        self._divisible(w, a, b)
        assert not (a.n == 1 << w - 1 and signed(b) == -1)
        r = abs(signed(a)) % abs(signed(b))
        return bits(w, -r if signed(a) < 0 else r)

    def ctlz(self, w: int, a: Int) -> Int:
        self.want(w, a)
        return Int(w, f"{a.n:0{w}b}1".index("1"))

    def cttz(self, w: int, a: Int) -> Int:
        self.want(w, a)
        return Int(w, f"1{a.n:0{w}b}"[::-1].index("1"))

    def ctpop(self, w: int, a: Int) -> Int:
        self.want(w, a)
        return Int(w, f"{a.n:b}".count("1"))

    def bswap(self, w: int, a: Int) -> Int:
        self.want(w, a)
        return Int(w, sum((a.n >> k & 255) << w - 8 - k for k in range(0, w, 8)))

    def clmul(self, a: Int, b: Int) -> Int:
        self.want(64, a, b)
        product = 0
        for k in range(64):
            product ^= a.n << k if b.n >> k & 1 else 0
        return Int(128, product)

    def _test(f: Any) -> Any:  # noqa: N805
        def operation(self: Checked, w: int, a: Int, b: Int) -> Int:
            self.want(w, a, b)
            return Int(1, int(f(a, b)))

        return operation

    eq = _test(lambda a, b: a == b)
    ne = _test(lambda a, b: a != b)
    ult = _test(lambda a, b: a.n < b.n)
    slt = _test(lambda a, b: signed(a) < signed(b))

    def select(self, w: int, c: Int, a: Int, b: Int) -> Int:
        self.want(1, c)
        self.want(w, a, b)
        return a if c.n else b

    def not1(self, c: Int) -> Int:
        self.want(1, c)
        return Int(1, 1 - c.n)

    def zext(self, to: int, w: int, a: Int) -> Int:
        self.want(w, a)
        assert to > w
        return bits(to, a.n)

    def sext(self, to: int, w: int, a: Int) -> Int:
        self.want(w, a)
        assert to > w
        return bits(to, signed(a))

    def trunc(self, to: int, w: int, a: Int) -> Int:
        self.want(w, a)
        assert to < w
        return bits(to, a.n)

    # registers, memory, control
    def x(self, n: int) -> Int:
        assert 0 <= n < 32
        return Int(64, self.regs.get(n, 0) if n else 0)

    def set_x(self, n: int, v: Int) -> None:
        self.want(64, v)
        if n:
            self.regs[n] = v.n

    def load(self, w: int, address: Int) -> Int:
        self.want(64, address)
        self.log.append(("load", w, address.n))
        return bits(w, 0xFEDC_BA98_8765_4321)

    def store(self, w: int, address: Int, v: Int) -> None:
        self.want(64, address)
        self.want(w, v)
        self.log.append(("store", w, address.n, v.n))

    def amo(self, kind: str, w: int, address: Int, v: Int) -> Int:
        assert kind in ["swap", "add", "and", "or", "xor", "min", "max", "minu", "maxu"]
        assert w in (32, 64)
        self.want(64, address)
        self.want(w, v)
        self.log.append(("amo", kind, w, address.n, v.n))
        return bits(w, 0xFEDC_BA98_8765_4321)

    def load_reserved(self, w: int, address: Int) -> Int:
        return self.load(w, address)

    def store_conditional(self, w: int, address: Int, v: Int) -> Int:
        self.store(w, address, v)
        return Int(64, 1)

    def fence(self) -> None:
        self.log.append(("fence",))

    def branch(self, c: Int, offset: int) -> None:
        self.want(1, c)
        self.jump(offset if c.n else self.next_pc - self.pc)

    def jump(self, offset: int) -> None:
        assert isinstance(offset, int)
        self.log.append(("pc", self.pc + offset))

    def jump_to(self, address: Int) -> None:
        self.want(64, address)
        self.log.append(("pc", address.n))

    # floats
    def f(self, n: int, fmt: str) -> Flt:
        assert 0 <= n < 32
        assert fmt in FLOAT_WIDTHS
        return Flt(fmt)

    def set_f(self, n: int, fmt: str, v: Flt) -> None:
        assert 0 <= n < 32
        self.want_float(fmt, v)
        self.log.append(("f", n, fmt))

    def f_raw(self, n: int) -> Int:
        return Int(64, 0xFFFF_FFFF_8000_0001)

    def f_bits(self, fmt: str, v: Flt) -> Int:
        self.want_float(fmt, v)
        return Int(FLOAT_WIDTHS[fmt], 1)

    def f_from_bits(self, fmt: str, v: Int) -> Flt:
        self.want(FLOAT_WIDTHS[fmt], v)
        return Flt(fmt)

    def _rounded(self, fmt: str, *values: Any) -> Flt:
        *floats, rm = values
        self.want_float(fmt, *floats)
        assert rm in range(8)
        return Flt(fmt)

    fadd = fsub = fmul = fdiv = fsqrt = fma = _rounded

    def _exact(self, fmt: str, *floats: Any) -> Flt:
        self.want_float(fmt, *floats)
        return Flt(fmt)

    fneg = fmin = fmax = _exact

    def _compare(self, fmt: str, *floats: Any) -> Int:
        self.want_float(fmt, *floats)
        return Int(1, 1)

    feq = flt = fle = _compare

    def fclass(self, fmt: str, a: Flt) -> Int:
        self.want_float(fmt, a)
        return Int(64, 1)

    def f_to_f(self, to: str, fmt: str, a: Flt, rm: int) -> Flt:
        self.want_float(fmt, a)
        assert {to, fmt} == {"s", "d"}
        assert rm in range(8)
        return Flt(to)

    def f_to_int(self, w: int, signed: bool, fmt: str, a: Flt, rm: int) -> Int:
        self.want_float(fmt, a)
        assert w in (32, 64)
        assert rm in range(8)
        return Int(w, 1 << w - 1)

    def int_to_f(self, fmt: str, w: int, signed: bool, v: Int, rm: int) -> Flt:
        self.want(w, v)
        assert rm in range(8)
        return Flt(fmt)
