"""The operations interface for the semantics of RISC-V instructions, which each engine implements.

Semantics are a function ``semantics(o, i)`` of at most about ten lines: `o` is an algebra, `i` the decoded instruction;
the computation is mostly a function of words (`isa.riscv.word`). The reference engine's algebra computes with Python
integers; the JIT's algebra writes LLVM IR and its values are the names of IR values. Semantics therefore never inspect
a value, never branch on one with ``if``, and treat values as opaque. They may branch on fields of `i`, which are known
when code is translated.

Widths are given in bits (1, 8, 16, 32, 64, 128). Integers carry no sign; signed operations have that in their name.
Float values belong to a format, "h" (binary16), "s" (binary32) or "d" (binary64), and are opaque too; their bit
patterns are reached with `f_bits` and `f_from_bits`. Arithmetic on floats raises IEEE 754 flags in the hart's sticky
`fflags` and yields the canonical NaN.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from softcard.isa.riscv.state import Hart
from softcard.isa.word import IntegerAlgebra, V, Value

F = TypeVar("F")
ROUND_TO_ODD: Final = 8
"""A rounding mode that no instruction field selects: towards zero, with the last bit set to 1 if inexact."""


class Float:
    """The type of a float of some format in an engine; it is distinct from `Value`."""


class Algebra(IntegerAlgebra[V], Protocol[V, F]):
    """The operations that every engine provides to the semantics of RISC-V instructions."""

    # constants of the instruction being executed
    pc: int
    """The address of the instruction, an int that is known at translation time."""
    next_pc: int
    """The address of the following instruction, an int that is known at translation time."""

    # integers: those of `IntegerAlgebra`, and
    def udiv(self, w: int, a: V, b: V) -> V:
        """Return the unsigned quotient; `b` must not be zero."""

    def urem(self, w: int, a: V, b: V) -> V:
        """Return the unsigned remainder; `b` must not be zero."""

    def sdiv(self, w: int, a: V, b: V) -> V:
        """Return the signed quotient rounded to zero; `b` is not 0, and the quotient does not overflow."""

    def srem(self, w: int, a: V, b: V) -> V:
        """Return the signed remainder with the sign of `a`; `b` is not 0, and the quotient does not overflow."""

    def clmul(self, a: V, b: V) -> V:
        """Return the carry-less product of two 64-bit values, 128 bits wide."""

    def ctlz(self, w: int, a: V) -> V:
        """Return the number of zeros above the highest 1 bit; `w` if all bits are 0."""

    def cttz(self, w: int, a: V) -> V:
        """Return the number of zeros below the lowest 1 bit; `w` if all bits are 0."""

    def ctpop(self, w: int, a: V) -> V:
        """Return the number of bits that are 1."""

    def bswap(self, w: int, a: V) -> V:
        """Reverse the order of the bytes."""

    def not1(self, c: V) -> V:
        """Invert a width-1 value."""

    # integer registers, 64 bits; number 0 reads as zero and ignores writes
    def x(self, n: int) -> V:
        """Read integer register `n`."""

    def set_x(self, n: int, v: V) -> None:
        """Write integer register `n`."""

    # memory: little-endian, an address is a 64-bit value; faults and misalignment end the instruction
    def load(self, w: int, address: V) -> V:
        """Return `w` bits (8, 16, 32 or 64) loaded at `address`, a value of that width."""

    def store(self, w: int, address: V, v: V) -> None:
        """Store the `w`-bit value `v` at `address`."""

    def amo(self, kind: str, w: int, address: V, v: V) -> V:
        """Atomically replace the `w`-bit memory word m by kind(m, v); return the old m.

        `kind` is swap, add, and, or, xor, min, max (signed), minu or maxu (unsigned)."""

    def load_reserved(self, w: int, address: V) -> V:
        """Load `w` bits and reserve the address for this hart; the reservation also records the loaded value."""

    def store_conditional(self, w: int, address: V, v: V) -> V:
        """Store `w` bits if this hart's reservation is still valid, and drop the reservation.

        Return a 64-bit 0 on success, 1 on failure.
        """

    def fence(self) -> None:
        """Order all earlier memory accesses before all later ones."""

    # control flow: the last operation of an instruction
    def branch(self, c: V, offset: int) -> None:
        """Branch to pc + offset if the width-1 value `c` is 1, else go to the next instruction."""

    def jump(self, offset: int) -> None:
        """Jump to pc + offset."""

    def jump_to(self, address: V) -> None:
        """Jump to a computed address (bit 0 already cleared)."""

    # float registers
    def f(self, n: int, fmt: str) -> F:
        """Read float register `n` in the format `fmt`; a value that is not NaN-boxed reads as the canonical NaN."""

    def set_f(self, n: int, fmt: str, v: F) -> None:
        """Write float register `n`; a value narrower than 64 bits is NaN-boxed."""

    def f_raw(self, n: int) -> V:
        """Return all 64 bits of float register `n`, unchanged."""

    def f_bits(self, fmt: str, v: F) -> V:
        """Return the bit pattern (width 16, 32 or 64) of a float."""

    def f_from_bits(self, fmt: str, v: V) -> F:
        """Return the float with this bit pattern, unchanged even if it is a NaN."""

    # float arithmetic; `rm` is the instruction's rounding-mode field (0 RNE, 1 RTZ, 2 RDN, 3 RUP, 4 RMM, 7 dynamic)
    def fadd(self, fmt: str, a: F, b: F, rm: int) -> F:
        """Return a + b."""

    def fsub(self, fmt: str, a: F, b: F, rm: int) -> F:
        """Return a - b."""

    def fmul(self, fmt: str, a: F, b: F, rm: int) -> F:
        """Return a * b."""

    def fdiv(self, fmt: str, a: F, b: F, rm: int) -> F:
        """Return a / b, rounded by the rounding mode `rm`."""

    def fsqrt(self, fmt: str, a: F, rm: int) -> F:
        """Return the square root."""

    def fma(self, fmt: str, a: F, b: F, c: F, rm: int) -> F:
        """Return a * b + c with one rounding."""

    def fneg(self, fmt: str, a: F) -> F:
        """Return `a` with the sign bit flipped; no flags are raised."""

    def fmin(self, fmt: str, a: F, b: F) -> F:
        """Return the smaller number (IEEE minimumNumber): -0 is below +0, and a number is preferred to a NaN.

        Two NaNs give the canonical NaN; a signalling NaN raises the flag NV.
        """

    def fmax(self, fmt: str, a: F, b: F) -> F:
        """Return the larger number (IEEE maximumNumber): -0 is below +0, and a number is preferred to a NaN.

        Two NaNs give the canonical NaN; a signalling NaN raises the flag NV.
        """

    def feq(self, fmt: str, a: F, b: F) -> V:
        """Return 1 (width 1) if a == b; only signalling NaNs raise NV (quiet comparison)."""

    def flt(self, fmt: str, a: F, b: F) -> V:
        """Return 1 (width 1) if a < b; any NaN raises NV (signalling comparison)."""

    def fle(self, fmt: str, a: F, b: F) -> V:
        """Return 1 (width 1) if a <= b; any NaN raises NV (signalling comparison)."""

    def fclass(self, fmt: str, a: F) -> V:
        """Return the class of a float as a 64-bit one-hot mask.

        The bits from the lowest are -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf, sNaN, qNaN.
        """

    def f_to_f(self, to: str, fmt: str, a: F, rm: int) -> F:
        """Convert a float from format `fmt` to format `to`."""

    def f_to_int(self, w: int, signed: bool, fmt: str, a: F, rm: int) -> V:
        """Convert to a `w`-bit integer (32 or 64), saturating; values out of range and NaNs raise NV."""

    def int_to_f(self, fmt: str, w: int, signed: bool, v: V, rm: int) -> F:
        """Convert a `w`-bit integer to a float of format `fmt`, rounded by the rounding mode `rm`."""


class SystemAlgebra(Algebra[V, F], Protocol[V, F]):
    """The operations that only the reference engine provides, for instructions whose `Spec.flow` is ``system``."""

    hart: Hart
    """The hart that executes the instruction."""

    def csr_read(self, number: int) -> V:
        """Read CSR `number`; raise an illegal-instruction exception if the hart may not read it."""

    def csr_write(self, number: int, v: V) -> None:
        """Write CSR `number`; raise an illegal-instruction exception if the hart may not write it."""

    def trap(self, cause: int, value: int = 0) -> None:
        """Raise the synchronous exception `cause`, with `value` for mtval or stval; the instruction does not retire."""

    def return_from(self, privilege: str) -> None:
        """Execute mret (`privilege` "m") or sret ("s")."""

    def fence_i(self) -> None:
        """Make earlier stores of this hart visible to its later instruction fetches."""

    def wait_for_interrupt(self) -> None:
        """Execute wfi: the hart waits, and other harts may run meanwhile."""

    def fence_vma(self) -> None:
        """Execute sfence.vma: drop cached address translations."""


Ops = Algebra[Value, Float]
"""The type of the operations interface that is the first argument of semantics."""
SystemOps = SystemAlgebra[Value, Float]
"""The type of the operations interface for semantics that only the reference engine executes."""
