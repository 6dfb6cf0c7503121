"""The operations a meaning may use: the whole contract between instruction meanings and engines.

A meaning is a function ``meaning(o, i)`` of at most about ten lines: `o` is an algebra, `i` the decoded
instruction; what it computes is mostly written as a function of words (`isa.riscv.word`). The reference engine's
algebra computes with Python integers; the JIT's algebra writes LLVM IR and its values are the names of IR values. A
meaning therefore never looks at a value, never branches on one with ``if``, and treats values as opaque. It may
branch on fields of `i`, which are known when code is translated.

Widths are given in bits (1, 8, 16, 32, 64, 128). Integers carry no sign; an operation that cares says so in its
name. Float values belong to a format, "s" (binary32) or "d" (binary64), and are opaque too; their bit patterns are
reached with `f_bits` and `f_from_bits`. Arithmetic on floats raises IEEE 754 flags in the hart's sticky `fflags`
and yields the canonical NaN.
"""

from __future__ import annotations

from typing import Any, Protocol

from understudy.isa.riscv.state import Hart
from understudy.isa.word import IntegerAlgebra, Value

Float = Any
"""A float of some format; never mixed with `Value`."""


class Algebra(IntegerAlgebra, Protocol):
    """What every engine provides to every meaning."""

    # constants of the instruction being executed
    pc: int
    """Address of this instruction (a plain int, known at translation time)."""
    next_pc: int
    """Address of the following instruction (a plain int)."""

    # integers: those of `IntegerAlgebra`, and
    def udiv(self, w: int, a: Value, b: Value) -> Value:
        """Unsigned quotient; `b` must not be zero."""

    def urem(self, w: int, a: Value, b: Value) -> Value:
        """Unsigned remainder; `b` must not be zero."""

    def sdiv(self, w: int, a: Value, b: Value) -> Value:
        """Signed quotient rounded to zero; `b` not zero, and not minimum / -1."""

    def srem(self, w: int, a: Value, b: Value) -> Value:
        """Signed remainder with the sign of `a`; `b` not zero, and not minimum / -1."""

    def clmul(self, a: Value, b: Value) -> Value:
        """Carry-less product of two 64-bit values, 128 bits wide."""

    def not1(self, c: Value) -> Value:
        """The opposite of a width-1 value."""

    # integer registers, 64 bits; number 0 reads as zero and ignores writes
    def x(self, n: int) -> Value:
        """Read integer register `n`."""

    def set_x(self, n: int, v: Value) -> None:
        """Write integer register `n`."""

    # memory: little-endian, an address is a 64-bit value; faults and misalignment leave the meaning
    def load(self, w: int, address: Value) -> Value:
        """Load `w` bits (8, 16, 32, 64)."""

    def store(self, w: int, address: Value, v: Value) -> None:
        """Store a `w`-bit value."""

    def amo(self, kind: str, w: int, address: Value, v: Value) -> Value:
        """Atomically replace the `w`-bit memory word m; gives the old m.

        `kind`: swap, add, and, or, xor, min, max (signed), minu, maxu (unsigned).
        """

    def load_reserved(self, w: int, address: Value) -> Value:
        """Load and remember the address and value as this hart's reservation."""

    def store_conditional(self, w: int, address: Value, v: Value) -> Value:
        """Store if the reservation still holds; drops it. Gives a 64-bit 0 on success, 1 on failure."""

    def fence(self) -> None:
        """Order memory accesses before and after."""

    # control flow: the last thing a meaning does
    def branch(self, c: Value, offset: int) -> None:
        """Go to pc + offset where the width-1 value `c` is 1, else to the next instruction."""

    def jump(self, offset: int) -> None:
        """Go to pc + offset."""

    def jump_to(self, address: Value) -> None:
        """Go to a computed address (bit 0 already cleared)."""

    # float registers
    def f(self, n: int, fmt: str) -> Float:
        """Read register `n` in a format; a binary32 that is not NaN-boxed reads as the canonical NaN."""

    def set_f(self, n: int, fmt: str, v: Float) -> None:
        """Write register `n`; a binary32 is NaN-boxed."""

    def f_raw(self, n: int) -> Value:
        """All 64 bits of register `n`, as they are."""

    def f_bits(self, fmt: str, v: Float) -> Value:
        """The bit pattern (width 32 or 64) of a float."""

    def f_from_bits(self, fmt: str, v: Value) -> Float:
        """The float with this bit pattern, unchanged even if it is a NaN."""

    # float arithmetic; `rm` is the instruction's rounding-mode field (0 RNE, 1 RTZ, 2 RDN, 3 RUP, 4 RMM, 7 dynamic)
    def fadd(self, fmt: str, a: Float, b: Float, rm: int) -> Float:
        """a + b."""

    def fsub(self, fmt: str, a: Float, b: Float, rm: int) -> Float:
        """a - b."""

    def fmul(self, fmt: str, a: Float, b: Float, rm: int) -> Float:
        """a * b."""

    def fdiv(self, fmt: str, a: Float, b: Float, rm: int) -> Float:
        """a / b."""

    def fsqrt(self, fmt: str, a: Float, rm: int) -> Float:
        """Square root."""

    def fma(self, fmt: str, a: Float, b: Float, c: Float, rm: int) -> Float:
        """a * b + c with one rounding."""

    def fneg(self, fmt: str, a: Float) -> Float:
        """Flip the sign bit; no flags."""

    def fmin(self, fmt: str, a: Float, b: Float) -> Float:
        """minimumNumber: -0 < +0, a NaN loses, two NaNs give the canonical one, a signalling NaN raises NV."""

    def fmax(self, fmt: str, a: Float, b: Float) -> Float:
        """maximumNumber, likewise."""

    def feq(self, fmt: str, a: Float, b: Float) -> Value:
        """Quiet a == b, width 1."""

    def flt(self, fmt: str, a: Float, b: Float) -> Value:
        """Signalling a < b, width 1."""

    def fle(self, fmt: str, a: Float, b: Float) -> Value:
        """Signalling a <= b, width 1."""

    def fclass(self, fmt: str, a: Float) -> Value:
        """The 64-bit one-hot class mask (-inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf, sNaN, qNaN)."""

    def f_to_f(self, to: str, fmt: str, a: Float, rm: int) -> Float:
        """Convert between the formats."""

    def f_to_int(self, w: int, signed: bool, fmt: str, a: Float, rm: int) -> Value:
        """Convert to a `w`-bit integer (32 or 64), saturating with NV."""

    def int_to_f(self, fmt: str, w: int, signed: bool, v: Value, rm: int) -> Float:
        """Convert a `w`-bit integer to a float."""


class SystemAlgebra(Algebra, Protocol):
    """What only the reference engine provides: meanings whose flow is ``system`` run there alone."""

    hart: Hart
    """Whose privilege and registers the instruction sees."""

    def csr_read(self, number: int) -> Value:
        """Read a control and status register; an illegal-instruction trap where that is refused."""

    def csr_write(self, number: int, v: Value) -> None:
        """Write a control and status register; an illegal-instruction trap where that is refused."""

    def trap(self, cause: int, value: int = 0) -> None:
        """Raise a synchronous exception; the instruction does not retire."""

    def return_from(self, privilege: str) -> None:
        """mret ("m") or sret ("s")."""

    def fence_i(self) -> None:
        """Make this hart's later fetches see its earlier stores."""

    def wait_for_interrupt(self) -> None:
        """wfi: let other harts run."""

    def fence_vma(self) -> None:
        """sfence.vma: drop cached address translations."""
