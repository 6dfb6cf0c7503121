"""The algebra over LLVM IR, float part: host arithmetic where it is bit-exact, the reference engine where not.

Flags gather in the host's float status register; dynamic rounding is the host's own mode. Whatever the host does
differently (rounding to nearest away, conversions out of range) leaves translated code for one instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.engine.riscv.jit.emit_integer import IntegerEmitter
from understudy.engine.riscv.jit.floatreps import FORMAT, INTEGER, Rep

TYPE: Final = {"s": "float", "d": "double"}
BITS: Final = {"s": 32, "d": 64}
SUFFIX: Final = {"s": "f32", "d": "f64"}
INFINITY: Final = {"s": 0x7F80_0000, "d": 0x7FF0_0000_0000_0000}
CANONICAL: Final = "0x7FF8000000000000"
"""The canonical NaN as an IR literal, for both formats."""
ROUNDED: Final = 'metadata !"round.dynamic", metadata !"fpexcept.strict"'
STRICT: Final = 'metadata !"fpexcept.strict"'

# Largest magnitudes that convert without leaving the range under any rounding mode, as bit patterns.
IN_RANGE: Final = {
    ("s", 31): 0x4EFF_FFFF,
    ("s", 32): 0x4F7F_FFFF,
    ("s", 63): 0x5EFF_FFFF,
    ("d", 31): 0x41DF_FFFF_FFC0_0000,
    ("d", 32): 0x41EF_FFFF_FFE0_0000,
    ("d", 63): 0x43DF_FFFF_FFFF_FFFF,
}


@dataclass(frozen=True, slots=True)
class Held:
    """A float value: its format, kind (see `floatreps`) and IR name."""

    fmt: str
    kind: str
    name: str


class FloatEmitter(IntegerEmitter):
    """Adds floats. Subclasses know where registers live and how to leave (`side`)."""

    fused: bool = True
    """Whether the host has a fused multiply-add."""

    def __init__(self) -> None:
        super().__init__()
        self.declared: set[str] = set()
        self.float_of: dict[str, Held] = {}

    def side(self, condition: str) -> None:
        """Leave before this instruction where the width-1 `condition` is 1."""
        raise NotImplementedError

    # -- representations

    def exact(self, v: Held) -> Held:
        """The same value with its own bits: a raw NaN becomes the canonical one."""
        if v.kind != "r":
            return v
        ty = TYPE[v.fmt]
        nan = self.value(f"fcmp uno {ty} {v.name}, {v.name}")
        return Held(v.fmt, "b", self.value(f"select i1 {nan}, {ty} {CANONICAL}, {ty} {v.name}"))

    def f_bits(self, fmt: str, v: Held) -> str:
        """Bit pattern."""
        v = self.exact(v)
        return self.value(f"bitcast {TYPE[fmt]} {v.name} to i{BITS[fmt]}")

    def f_from_bits(self, fmt: str, v: str) -> Held:
        """The float with this bit pattern."""
        return Held(fmt, "b" if v == "0" else "x", self.value(f"bitcast i{BITS[fmt]} {v} to {TYPE[fmt]}"))

    def as_integer(self, v: Held) -> str:
        """All 64 register bits of a float."""
        v = self.exact(v)
        bits = self.value(f"bitcast {TYPE[v.fmt]} {v.name} to i{BITS[v.fmt]}")
        if v.fmt == "s":
            wide = self.value(f"zext i32 {bits} to i64")
            boxed = self.value(f"or i64 {wide}, -4294967296")
            self.float_of[boxed] = v
            return boxed
        self.float_of[bits] = v
        return bits

    def from_integer(self, fmt: str, raw: str) -> Held:
        """A register's 64 bits read in a format."""
        if fmt == "d":
            return Held("d", "x", self.value(f"bitcast i64 {raw} to double"))
        low = self.value(f"trunc i64 {raw} to i32")
        loose = self.value(f"icmp ult i64 {raw}, -4294967296")
        bits = self.value(f"select i1 {loose}, i32 2143289344, i32 {low}")
        return Held("s", "x", self.value(f"bitcast i32 {bits} to float"))

    def trunc(self, to: int, w: int, a: str) -> str:
        """The low bits; those of a boxed float stay known as that float, so that it can be stored as one."""
        held = self.float_of.get(a)
        if to == 32 and held is not None and held.fmt == "s":
            bits = self.value(f"bitcast float {held.name} to i32")
            self.float_of[bits] = held
            return bits
        return super().trunc(to, w, a)

    def convert_rep(self, v: Held | str, want: Rep) -> Held | str:
        """Bring a register's value into another representation."""
        if want == INTEGER:
            return self.as_integer(v) if isinstance(v, Held) else v
        fmt = want[0].lower()
        if isinstance(v, str) or v.fmt != fmt:
            v = self.from_integer(fmt, self.as_integer(v) if isinstance(v, Held) else v)
        return self.exact(v) if want[1] == "x" else v

    # -- arithmetic

    def call(self, ty: str, name: str, arguments: str, signature: str) -> str:
        """Call a constrained intrinsic."""
        full = f"@llvm.experimental.constrained.{name}"
        self.declared.add(f"declare {ty} {full}({signature})")
        return self.value(f"call {ty} {full}({arguments}) #0")

    def _rounding(self, rm: int) -> None:
        """Leave unless the static rounding mode is the one the host is in."""
        if rm == 7:
            return
        if rm > 3:
            self.side("true")
            return
        frm = self.value("load i64, ptr %frm")
        self.side(self.value(f"icmp ne i64 {frm}, {rm}"))

    def _arithmetic(self, name: str, fmt: str, operands: tuple[Held, ...], rm: int) -> Held:
        self._rounding(rm)
        return self._rounded(name, fmt, operands)

    def _rounded(self, name: str, fmt: str, operands: tuple[Held, ...]) -> Held:
        ty = TYPE[fmt]
        arguments = ", ".join(f"{ty} {v.name}" for v in operands)
        signature = ", ".join([ty] * len(operands) + ["metadata", "metadata"])
        return Held(fmt, "r", self.call(ty, f"{name}.{SUFFIX[fmt]}", f"{arguments}, {ROUNDED}", signature))

    def fadd(self, fmt: str, a: Held, b: Held, rm: int) -> Held:
        """a + b."""
        return self._arithmetic("fadd", fmt, (a, b), rm)

    def fsub(self, fmt: str, a: Held, b: Held, rm: int) -> Held:
        """a - b."""
        return self._arithmetic("fsub", fmt, (a, b), rm)

    def fmul(self, fmt: str, a: Held, b: Held, rm: int) -> Held:
        """a * b."""
        return self._arithmetic("fmul", fmt, (a, b), rm)

    def fdiv(self, fmt: str, a: Held, b: Held, rm: int) -> Held:
        """a / b."""
        return self._arithmetic("fdiv", fmt, (a, b), rm)

    def fsqrt(self, fmt: str, a: Held, rm: int) -> Held:
        """Square root."""
        return self._arithmetic("sqrt", fmt, (a,), rm)

    def fma(self, fmt: str, a: Held, b: Held, c: Held, rm: int) -> Held:
        """a * b + c. Some hosts do not report infinity times zero when `c` is a quiet NaN: a cold path does."""
        if not self.fused:
            self.side("true")
        self._rounding(rm)  # before the cold path, which has an effect
        ty = TYPE[fmt]
        cold, join = self.label("nan"), self.label("fma")
        nan = self.value(f"fcmp uno {ty} {c.name}, {c.name}")
        self.line(f"br i1 {nan}, label %{cold}, label %{join}, !prof !0")
        self.helpers.add(f"fma_{fmt}")
        self.tail += [
            f"{cold}:",
            f"  call void @fma_{fmt}(ptr %st, {ty} {a.name}, {ty} {b.name})",
            f"  br label %{join}",
        ]
        self.lines.append(f"{join}:")
        return self._rounded("fma", fmt, (a, b, c))

    def fneg(self, fmt: str, a: Held) -> Held:
        """Flip the sign bit."""
        return Held(fmt, a.kind if a.kind == "x" else "r", self.value(f"fneg {TYPE[fmt]} {a.name}"))

    # -- comparisons

    def _compare(self, kind: str, predicate: str, fmt: str, a: Held, b: Held) -> str:
        ty = TYPE[fmt]
        arguments = f'{ty} {a.name}, {ty} {b.name}, metadata !"{predicate}", {STRICT}'
        return self.call("i1", f"{kind}.{SUFFIX[fmt]}", arguments, f"{ty}, {ty}, metadata, metadata")

    def feq(self, fmt: str, a: Held, b: Held) -> str:
        """Quiet a == b."""
        return self._compare("fcmp", "oeq", fmt, a, b)

    def flt(self, fmt: str, a: Held, b: Held) -> str:
        """Signalling a < b."""
        return self._compare("fcmps", "olt", fmt, a, b)

    def fle(self, fmt: str, a: Held, b: Held) -> str:
        """Signalling a <= b."""
        return self._compare("fcmps", "ole", fmt, a, b)

    def fmin(self, fmt: str, a: Held, b: Held) -> Held:
        """minimumNumber."""
        return self._extreme(fmt, a, b, "olt", "or")

    def fmax(self, fmt: str, a: Held, b: Held) -> Held:
        """maximumNumber."""
        return self._extreme(fmt, a, b, "ogt", "and")

    def _extreme(self, fmt: str, a: Held, b: Held, predicate: str, zeros: str) -> Held:
        w = BITS[fmt]
        first = self._compare("fcmp", predicate, fmt, a, b)
        same = self._compare("fcmp", "oeq", fmt, a, b)
        x, y = self.f_bits(fmt, a), self.f_bits(fmt, b)
        both = self.value(f"{zeros} i{w} {x}, {y}")
        pick = self.select(w, same, both, self.select(w, first, x, y))
        pick = self.select(w, self._is_nan(fmt, y), x, pick)
        quiet = self.const(w, INFINITY[fmt] | (1 << (w - 10 if fmt == "s" else w - 13)))
        other = self.select(w, self._is_nan(fmt, y), quiet, y)
        pick = self.select(w, self._is_nan(fmt, x), other, pick)
        return Held(fmt, "b", self.value(f"bitcast i{w} {pick} to {TYPE[fmt]}"))

    def _is_nan(self, fmt: str, bits: str) -> str:
        w = BITS[fmt]
        magnitude = self.and_(w, bits, self.const(w, (1 << (w - 1)) - 1))
        return self.value(f"icmp ugt i{w} {magnitude}, {INFINITY[fmt]}")

    def fclass(self, fmt: str, a: Held) -> str:
        """Class mask."""
        w = BITS[fmt]
        bits = self.f_bits(fmt, a)
        magnitude = self.and_(w, bits, self.const(w, (1 << (w - 1)) - 1))
        negative = self.slt(w, bits, "0")
        least_normal = 1 << (23 if fmt == "s" else 52)
        quiet = INFINITY[fmt] | (least_normal >> 1)
        kind = self.select(64, negative, "4", "32")  # subnormal
        kind = self.select(64, self.eq(w, magnitude, "0"), self.select(64, negative, "8", "16"), kind)
        normal = self.value(f"icmp uge i{w} {magnitude}, {least_normal}")
        kind = self.select(64, normal, self.select(64, negative, "2", "64"), kind)
        infinite = self.eq(w, magnitude, str(INFINITY[fmt]))
        kind = self.select(64, infinite, self.select(64, negative, "1", "128"), kind)
        nan = self.value(f"icmp ugt i{w} {magnitude}, {INFINITY[fmt]}")
        signalling = self.ult(w, magnitude, str(quiet))
        return self.select(64, nan, self.select(64, signalling, "256", "512"), kind)

    # -- conversions

    def f_to_f(self, to: str, fmt: str, a: Held, rm: int) -> Held:
        """Convert between formats; widening is exact and does not round."""
        source, target = TYPE[fmt], TYPE[to]
        if to == "d":
            if rm > 4 and rm != 7:
                self.side("true")
            arguments = f"{source} {a.name}, {STRICT}"
            name = self.call(target, "fpext.f64.f32", arguments, "float, metadata")
        else:
            self._rounding(rm)
            name = self.call(target, "fptrunc.f32.f64", f"{source} {a.name}, {ROUNDED}", "double, metadata, metadata")
        return Held(to, "r", name)

    def f_to_int(self, w: int, signed: bool, fmt: str, a: Held, rm: int) -> str:
        """Convert to an integer; everything near or beyond the range leaves."""
        ty, fw = TYPE[fmt], BITS[fmt]
        bits = self.f_bits(fmt, a)
        span = w - 1 if signed or w == 64 else w
        if signed:
            magnitude = self.and_(fw, bits, self.const(fw, (1 << (fw - 1)) - 1))
        else:
            magnitude = bits  # a negative number is a large unsigned one and leaves
        self.side(self.value(f"icmp ugt i{fw} {magnitude}, {IN_RANGE[fmt, span]}"))
        name = a.name
        if rm != 1:
            self._rounding(rm)
            name = self.call(ty, f"rint.{SUFFIX[fmt]}", f"{ty} {name}, {ROUNDED}", f"{ty}, metadata, metadata")
        wide = self.call("i64", f"fptosi.i64.{SUFFIX[fmt]}", f"{ty} {name}, {STRICT}", f"{ty}, metadata")
        return self.trunc(w, 64, wide)

    def int_to_f(self, fmt: str, w: int, signed: bool, v: str, rm: int) -> Held:
        """Convert from an integer; unsigned 64-bit values with the top bit set leave."""
        if not (fmt == "d" and w == 32):
            self._rounding(rm)
        elif rm > 4 and rm != 7:
            self.side("true")
        if w == 32:
            v = self.sext(64, 32, v) if signed else self.zext(64, 32, v)
        elif not signed:
            self.side(self.slt(64, v, "0"))
        ty = TYPE[fmt]
        name = self.call(ty, f"sitofp.{SUFFIX[fmt]}.i64", f"i64 {v}, {ROUNDED}", "i64, metadata, metadata")
        return Held(fmt, "b", name)


def fma_helper(fmt: str, flags_offset: int) -> str:
    """IR of the cold path of `fma`: set NV where a product is infinity times zero."""
    w, infinity = BITS[fmt], INFINITY[fmt]
    magnitude = (1 << (w - 1)) - 1
    return f"""
define internal void @fma_{fmt}(ptr %st, {TYPE[fmt]} %a, {TYPE[fmt]} %b) #2 {{
  %x = bitcast {TYPE[fmt]} %a to i{w}
  %y = bitcast {TYPE[fmt]} %b to i{w}
  %p = and i{w} %x, {magnitude}
  %q = and i{w} %y, {magnitude}
  %pi = icmp eq i{w} %p, {infinity}
  %pz = icmp eq i{w} %p, 0
  %qi = icmp eq i{w} %q, {infinity}
  %qz = icmp eq i{w} %q, 0
  %m = and i1 %pi, %qz
  %n = and i1 %pz, %qi
  %bad = or i1 %m, %n
  %nv = select i1 %bad, i64 16, i64 0
  %f = getelementptr i64, ptr %st, i64 {flags_offset}
  %old = load i64, ptr %f
  %new = or i64 %old, %nv
  store i64 %new, ptr %f
  ret void
}}
"""


__all__ = ["FORMAT", "FloatEmitter", "Held", "fma_helper"]
