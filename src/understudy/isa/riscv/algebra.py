"""The operations a meaning may use: the whole contract between instruction meanings and engines.

A meaning is a function ``meaning(o, i)`` of at most about ten lines: `o` is an algebra, `i` the decoded
instruction; what it computes is mostly written as a function of words (`isa.riscv.word`). The reference engine's
algebra computes with Python integers; the JIT's algebra writes LLVM IR and its values are the names of IR values. A
meaning therefore never looks at a value, never branches on one with ``if``, and treats values as opaque. It may
branch on fields of `i`, which are known when code is translated.

Widths are given in bits (1, 8, 16, 32, 64, 128). Integers carry no sign; an operation that cares says so in its
name. Float values belong to a format, "h" (binary16), "s" (binary32) or "d" (binary64), and are opaque too; their bit
patterns are reached with `f_bits` and `f_from_bits`. Arithmetic on floats raises IEEE 754 flags in the hart's sticky
`fflags` and yields the canonical NaN.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from understudy.isa.riscv.state import Hart
from understudy.isa.word import IntegerAlgebra, V, Value

F = TypeVar("F")
ROUND_TO_ODD: Final = 8
"""A rounding mode that no field of an instruction names: towards zero, and the last bit 1 where that is inexact."""


class Float:
    """A float of some format in an engine; never mixed with `Value`."""


class Algebra(IntegerAlgebra[V], Protocol[V, F]):
    """What every engine provides to every meaning."""

    # constants of the instruction being executed
    pc: int
    """Address of this instruction (a plain int, known at translation time)."""
    next_pc: int
    """Address of the following instruction (a plain int)."""

    # integers: those of `IntegerAlgebra`, and
    def udiv(self, w: int, a: V, b: V) -> V:
        """Unsigned quotient; `b` must not be zero."""

    def urem(self, w: int, a: V, b: V) -> V:
        """Unsigned remainder; `b` must not be zero."""

    def sdiv(self, w: int, a: V, b: V) -> V:
        """Signed quotient rounded to zero; `b` not zero, and not minimum / -1."""

    def srem(self, w: int, a: V, b: V) -> V:
        """Signed remainder with the sign of `a`; `b` not zero, and not minimum / -1."""

    def clmul(self, a: V, b: V) -> V:
        """Carry-less product of two 64-bit values, 128 bits wide."""

    def ctlz(self, w: int, a: V) -> V:
        """Zeros above the highest 1; `w` where there is none."""

    def cttz(self, w: int, a: V) -> V:
        """Zeros below the lowest 1; `w` where there is none."""

    def ctpop(self, w: int, a: V) -> V:
        """How many bits are 1."""

    def bswap(self, w: int, a: V) -> V:
        """The bytes in the opposite order."""

    def not1(self, c: V) -> V:
        """The opposite of a width-1 value."""

    # integer registers, 64 bits; number 0 reads as zero and ignores writes
    def x(self, n: int) -> V:
        """Read integer register `n`."""

    def set_x(self, n: int, v: V) -> None:
        """Write integer register `n`."""

    # memory: little-endian, an address is a 64-bit value; faults and misalignment leave the meaning
    def load(self, w: int, address: V) -> V:
        """Load `w` bits (8, 16, 32, 64)."""

    def store(self, w: int, address: V, v: V) -> None:
        """Store a `w`-bit value."""

    def amo(self, kind: str, w: int, address: V, v: V) -> V:
        """Atomically replace the `w`-bit memory word m; gives the old m.

        `kind`: swap, add, and, or, xor, min, max (signed), minu, maxu (unsigned).
        """

    def load_reserved(self, w: int, address: V) -> V:
        """Load and remember the address and value as this hart's reservation."""

    def store_conditional(self, w: int, address: V, v: V) -> V:
        """Store if the reservation still holds; drops it. Gives a 64-bit 0 on success, 1 on failure."""

    def fence(self) -> None:
        """Order memory accesses before and after."""

    # control flow: the last thing a meaning does
    def branch(self, c: V, offset: int) -> None:
        """Go to pc + offset where the width-1 value `c` is 1, else to the next instruction."""

    def jump(self, offset: int) -> None:
        """Go to pc + offset."""

    def jump_to(self, address: V) -> None:
        """Go to a computed address (bit 0 already cleared)."""

    # float registers
    def f(self, n: int, fmt: str) -> F:
        """Read register `n` in a format; a narrower one that is not NaN-boxed reads as the canonical NaN."""

    def set_f(self, n: int, fmt: str, v: F) -> None:
        """Write register `n`; what is narrower than 64 bits is NaN-boxed."""

    def f_raw(self, n: int) -> V:
        """All 64 bits of register `n`, as they are."""

    def f_bits(self, fmt: str, v: F) -> V:
        """The bit pattern (width 16, 32 or 64) of a float."""

    def f_from_bits(self, fmt: str, v: V) -> F:
        """The float with this bit pattern, unchanged even if it is a NaN."""

    # float arithmetic; `rm` is the instruction's rounding-mode field (0 RNE, 1 RTZ, 2 RDN, 3 RUP, 4 RMM, 7 dynamic)
    def fadd(self, fmt: str, a: F, b: F, rm: int) -> F:
        """a + b."""

    def fsub(self, fmt: str, a: F, b: F, rm: int) -> F:
        """a - b."""

    def fmul(self, fmt: str, a: F, b: F, rm: int) -> F:
        """a * b."""

    def fdiv(self, fmt: str, a: F, b: F, rm: int) -> F:
        """a / b."""

    def fsqrt(self, fmt: str, a: F, rm: int) -> F:
        """Square root."""

    def fma(self, fmt: str, a: F, b: F, c: F, rm: int) -> F:
        """a * b + c with one rounding."""

    def fneg(self, fmt: str, a: F) -> F:
        """Flip the sign bit; no flags."""

    def fmin(self, fmt: str, a: F, b: F) -> F:
        """minimumNumber: -0 < +0, a NaN loses, two NaNs give the canonical one, a signalling NaN raises NV."""

    def fmax(self, fmt: str, a: F, b: F) -> F:
        """maximumNumber, likewise."""

    def feq(self, fmt: str, a: F, b: F) -> V:
        """Quiet a == b, width 1."""

    def flt(self, fmt: str, a: F, b: F) -> V:
        """Signalling a < b, width 1."""

    def fle(self, fmt: str, a: F, b: F) -> V:
        """Signalling a <= b, width 1."""

    def fclass(self, fmt: str, a: F) -> V:
        """The 64-bit one-hot class mask (-inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf, sNaN, qNaN)."""

    def f_to_f(self, to: str, fmt: str, a: F, rm: int) -> F:
        """Convert between the formats."""

    def f_to_int(self, w: int, signed: bool, fmt: str, a: F, rm: int) -> V:
        """Convert to a `w`-bit integer (32 or 64), saturating with NV."""

    def int_to_f(self, fmt: str, w: int, signed: bool, v: V, rm: int) -> F:
        """Convert a `w`-bit integer to a float."""


class SystemAlgebra(Algebra[V, F], Protocol[V, F]):
    """What only the reference engine provides: meanings whose flow is ``system`` run there alone."""

    hart: Hart
    """Whose privilege and registers the instruction sees."""

    def csr_read(self, number: int) -> V:
        """Read a control and status register; an illegal-instruction trap where that is refused."""

    def csr_write(self, number: int, v: V) -> None:
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


Ops = Algebra[Value, Float]
"""What a meaning sees of an engine."""
SystemOps = SystemAlgebra[Value, Float]
"""The same where only the reference engine runs it."""
