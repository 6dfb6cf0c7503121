"""The operations interface for the semantics of GCN instructions, which each engine for waves implements.

A value is either scalar (one for the wave) or per-lane (64 of them), and has a width in bits. An operation on a scalar
and a per-lane value is per-lane. The reference engine's values are Python ints and NumPy arrays, those of the JIT are
names of LLVM IR values. Therefore semantics never inspect a value and never branch on one with ``if``. They may branch
on the instruction (`Insn` fields, target) and on `mode`, which are known at translation time.

Floats are bit patterns like all other values. An operation on floats names the format: "h" (binary16, width 16), "s"
(binary32) or "d" (binary64). Its parameter `env` selects rounding and denormals:

- None selects those of MODE for that format.
- ``"flush"`` selects MODE's rounding, with all denormals flushed, for the multiply-adds that never keep denormals.
- ``"raw"`` selects round to nearest with denormals kept, for steps of an approximation whose intermediate values are
  normal numbers.

Arithmetic that gives a NaN gives the canonical one (quiet, positive, payload 0): Choice ``nan-results``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from softcard.isa.gcn.state import Mode
from softcard.isa.word import IntegerAlgebra, V

if TYPE_CHECKING:
    from softcard.isa.gcn.semantics.matrix.table import Use

S = TypeVar("S")
"""The type of a value that must be scalar."""
S_contra = TypeVar("S_contra", contravariant=True)


class WaveIntegers(IntegerAlgebra[V], Protocol[V]):
    """The integer operations that GCN waves have in addition to those of other instruction sets."""

    def not_(self, w: int, a: V) -> V:
        """Return `a` with every bit inverted."""

    def umin(self, w: int, a: V, b: V) -> V:
        """Return the smaller of two values, unsigned."""

    def umax(self, w: int, a: V, b: V) -> V:
        """Return the larger of two values, unsigned."""

    def smin(self, w: int, a: V, b: V) -> V:
        """Return the smaller of two values, signed."""

    def smax(self, w: int, a: V, b: V) -> V:
        """Return the larger of two values, signed."""

    def ctlz(self, w: int, a: V) -> V:
        """Return the number of zeros above the highest bit that is 1; `w` if a is 0."""

    def cttz(self, w: int, a: V) -> V:
        """Return the number of zeros below the lowest bit that is 1; `w` if a is 0."""

    def ctpop(self, w: int, a: V) -> V:
        """Return the number of bits that are 1."""

    def bitreverse(self, w: int, a: V) -> V:
        """Return the bits of `a` in reverse order."""

    def entry(self, w: int, a: V, table: tuple[int, ...]) -> V:
        """Return entry `a` of `table`, which holds 32-bit numbers; `a` has 32 bits and is below the table's length."""

    def ule(self, w: int, a: V, b: V) -> V:
        """Return a <= b, unsigned, width 1."""

    def sle(self, w: int, a: V, b: V) -> V:
        """Return a <= b, signed, width 1."""


class FloatAlgebra(Protocol[V]):
    """The operations on floats, which are bit patterns of format `fmt`."""

    mode: Mode
    """The value of the MODE register at this instruction."""

    def fadd(self, fmt: str, a: V, b: V, env: str | None = None) -> V:
        """Return a + b."""

    def fsub(self, fmt: str, a: V, b: V, env: str | None = None) -> V:
        """Return a - b."""

    def fmul(self, fmt: str, a: V, b: V, env: str | None = None) -> V:
        """Return a * b."""

    def fma(self, fmt: str, a: V, b: V, c: V, env: str | None = None) -> V:
        """Return a * b + c with one rounding."""

    def fdiv(self, fmt: str, a: V, b: V, env: str | None = None) -> V:
        """Return a / b, rounded as `env` selects."""

    def fsqrt(self, fmt: str, a: V, env: str | None = None) -> V:
        """Return the square root."""

    def feq(self, fmt: str, a: V, b: V) -> V:
        """Return a == b, width 1, false for NaNs; denormal operands are flushed if MODE flushes inputs."""

    def flt(self, fmt: str, a: V, b: V) -> V:
        """Return a < b, width 1, false for NaNs; denormal operands are flushed if MODE flushes inputs."""

    def fle(self, fmt: str, a: V, b: V) -> V:
        """Return a <= b, width 1, false for NaNs; denormal operands are flushed if MODE flushes inputs."""

    def funo(self, fmt: str, a: V, b: V) -> V:
        """Return 1 (width 1) if either operand is a NaN, else 0."""

    def fflush(self, fmt: str, a: V) -> V:
        """Return `a`, or a zero of equal sign if it is a denormal and MODE flushes inputs; NaNs are unchanged."""

    def fround(self, fmt: str, a: V, kind: str) -> V:
        """Return `a` rounded to an integral value.

        `kind` is the rounding: "trunc", "ceil", "floor" or "even" (nearest even). Denormal inputs are treated as
        MODE requires."""

    def fldexp(self, fmt: str, a: V, n: V, env: str | None = None) -> V:
        """Return a * 2**n with one rounding; `n` is a signed 32-bit value."""

    def fconvert(self, to: str, fmt: str, a: V, env: str | None = None, rounding: int | None = None) -> V:
        """Return `a`, of format `fmt`, converted to the format `to`.

        `rounding`, a number as in MODE, replaces MODE's rounding of the format.
        """

    def ffrom_int(self, fmt: str, w: int, signed: bool, a: V, env: str | None = None) -> V:
        """Return the `w`-bit integer `a` as a float; it is two's complement if `signed` is True."""

    def fto_int(self, fmt: str, w: int, signed: bool, a: V) -> V:
        """Return `a` as a `w`-bit integer, rounded towards zero and saturated; a NaN gives 0.

        For another rounding, call `fround` first.
        """


class RegisterAlgebra(Protocol[V, S]):
    """The operations on the registers of a wave, scalar and per-lane, and between its lanes."""

    # ---- scalar state ------------------------------------------------------------------------------------------
    def s(self, n: int) -> S:
        """Return the scalar register with operand code `n` (0..127), 32 bits."""

    def set_s(self, n: int, v: S) -> None:
        """Write `v` to the scalar register with operand code `n`."""

    def s64(self, n: int) -> S:
        """Return the scalar registers `n` and `n` + 1 as 64 bits; `n` need not be even."""

    def set_s64(self, n: int, v: S) -> None:
        """Write the 64 bits `v` to the scalar registers `n` and `n` + 1."""

    def scc(self) -> S:
        """Return SCC, width 1."""

    def set_scc(self, v: S) -> None:
        """Write SCC."""

    def s_indexed(self, n: int, offset: S, w: int = 32) -> S:
        """Return scalar register `n` + `offset` (movrel), or register `n` if that is out of range.

        `w`, the width in bits, is 32 or 64.
        """

    def set_s_indexed(self, n: int, offset: S, v: S, w: int = 32) -> None:
        """Write `v` to scalar register `n` + `offset` (movrel); if that is out of range, write nothing.

        `w`, the width in bits, is 32 or 64.
        """

    def hwreg(self, number: int) -> S:
        """Return a hardware register, 32 bits; `number` is its id in s_getreg."""

    def set_hwreg(self, number: int, v: S) -> None:
        """Write `v` to a hardware register; `number` is its id in s_setreg."""

    def time(self, kind: str) -> S:
        """Return a 64-bit clock: the wave's number of retired instructions, or the host's clock.

        `kind` is "memtime" or "memrealtime", the instruction that reads the clock."""

    # ---- lanes -------------------------------------------------------------------------------------------------
    def v(self, n: int) -> V:
        """Return vector register `n`, a per-lane value of 32 bits."""

    def set_v(self, n: int, v: V, where: V | None = None) -> None:
        """Write `v` to vector register `n` in the lanes of EXEC.

        If `where` (width 1) is given, only those lanes of EXEC are written in which `where` is 1."""

    def mask(self, n: int) -> V:
        """Return the scalar register pair at `n` as a per-lane value of width 1: one bit per lane."""

    def set_mask(self, n: int, m: V) -> None:
        """Write the per-lane bits `m` to the scalar register pair at n, with 0 for lanes outside EXEC."""

    def lane_bits(self, b: S) -> V:
        """Return the bits of a 64-bit scalar as a per-lane value of width 1."""

    def lane_id(self) -> V:
        """Return the lane numbers 0..63, 32 bits."""

    def active(self) -> V:
        """Return EXEC as a per-lane value of width 1."""

    # ---- across lanes: these read registers as they were before the instruction -------------------------------------
    def v_at(self, n: int, lane: V) -> V:
        """Return for each lane the value of vector register `n` in the lane whose number is in `lane`.

        The source lanes (0..63) need not be active.
        """

    def push(self, n: int, v: V, lane: V) -> None:
        """Write each active lane's `v` to register `n` of the lane whose number is in `lane` (ds_permute).

        If several lanes write to the same lane, the value from the highest-numbered lane is kept. An active lane to
        which no lane writes gets 0."""

    def lane(self, n: int, lane: S) -> S:
        """Return vector register `n` of lane `lane` (0..63)."""

    def set_lane(self, n: int, lane: S, v: S) -> None:
        """Write `v` to vector register n of one lane, regardless of EXEC."""

    def matrix(self, use: Use) -> None:
        """Execute a matrix instruction on whole registers, regardless of EXEC.

        `use` has the instruction's fields and registers.
        """

    def v_indexed(self, n: int, offset: S) -> V:
        """Return vector register `n` + `offset` (movrel, GPR indexing); register 0 if that is out of range."""

    def set_v_indexed(self, n: int, offset: S, v: V) -> None:
        """Write `v` to vector register `n` + `offset`; if that is out of range, write nothing."""


class MemoryAlgebra(Protocol[V, S]):
    """The operations on memory: accesses of each lane, and scalar accesses of the whole wave."""

    # `space` is "global" (64-bit addresses), "flat" (64-bit: LDS and private apertures, else global), "lds" or "gds"
    # (32-bit byte addresses). Per-lane accesses concern lanes of EXEC and of `where`. LDS and GDS accesses that do not
    # lie within the work-group's allocation read 0 and store nothing.
    def load(self, space: str, bits: int, address: V, where: V | None = None) -> list[V]:
        """Return a value loaded from memory for each lane, as a list of 32-bit values.

        With `bits` 8 or 16 it is one value, zero-extended; otherwise `bits` / 32 values. Lanes that `where` excludes
        get 0; lanes outside EXEC get unspecified values. `space` is a memory space, such as "global" or "lds".
        """

    def store(self, space: str, bits: int, address: V, values: Sequence[V], where: V | None = None) -> None:
        """Store a value from each lane to memory; `values` are 32-bit values.

        With `bits` 8 or 16 the low bits of one value are stored; otherwise `values` has `bits` / 32 elements. Lanes
        outside EXEC and lanes in which `where` is 0 store nothing."""

    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: V,
        v: V,
        compare: V | None = None,
        where: V | None = None,
    ) -> V:
        """Execute the atomic operation m = kind(m, v) on memory m for each lane; return the old values of m.

        Lanes execute one after another, starting with the lowest. `bits`, the size of memory and values, is 32 or
        64. `kind` is one of:

        - swap, cmpswap, add, sub, rsub, smin, umin, smax, umax, and, or, xor; inc and dec, which wrap as the ISA
          manuals define.
        - mskor: (m & ~compare | v).
        - wrap: m - compare if that is not below 0, else m + v.
        - fcmpswap, fmin, fmax, fadd on binary32 or binary64."""

    # A scalar access whose width-1 scalar `where` is 0 does not happen; its result is then unspecified.
    def scalar_load(self, dwords: int, address: S, where: S | None = None) -> list[S]:
        """Return `dwords` dwords loaded at a 64-bit guest address, whose two low bits are ignored.

        If `where` (width 1) is 0, nothing is loaded and the values are unspecified."""

    def scalar_store(self, address: S, values: Sequence[S], where: S | None = None) -> None:
        """Store the 32-bit `values` at a 64-bit guest address, or nothing if `where` (width 1) is 0."""

    def scalar_atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: S,
        v: S,
        compare: S | None = None,
        where: S | None = None,
    ) -> S:
        """Execute one atomic operation for the whole wave; return the old value of memory.

        `space` is "global", "lds" or "gds". `atomic` describes `kind`, `bits`, `v` and `compare`. If `where` (width
        1) is 0, nothing happens and the result is unspecified."""

    def aperture(self, which: str) -> S:
        """Return the 64-bit base or limit of an aperture of the flat address space.

        `which` is "shared" or "private" for the base, "shared_limit" or "private_limit" for the limit. The upper 32
        bits of the address identify the aperture. `isa.gcn.semantics.pointer` converts 32-bit pointers."""


class ControlAlgebra(Protocol[S_contra]):
    """The operations for control flow, waits, and actions without a result.

    If the semantics of an instruction use a control flow operation, it is their last operation."""

    def branch(self, c: S_contra, target: int) -> None:
        """Branch to the address `target` (a plain int) if the width-1 scalar `c` is 1, else continue."""

    def jump(self, target: int) -> None:
        """Jump to the address `target`."""

    def jump_to(self, target: S_contra) -> None:
        """Jump to the 64-bit address `target`, a scalar value."""

    def end(self) -> None:
        """End the wave (s_endpgm)."""

    def barrier(self) -> None:
        """Wait until all waves of the work-group have reached the barrier."""

    def order(self, what: str, n: int = 0) -> None:
        """Execute an operation that orders memory accesses: a wait, a cache write-back or a cache invalidation.

        `what` is "waitcnt" (with its immediate as `n`), "wbinvl1", "wbinvl1_vol", "wbl2", "invl2", "inv",
        "dcache_inv" or "dcache_wb"."""

    def hint(self, what: str, n: int = 0) -> None:
        """Notify the engine of an action that does not affect results, such as nop, setprio or sendmsg.

        `n` is the instruction's immediate.
        """

    def trap(self, number: int) -> None:
        """Execute s_trap; the wave continues with the next instruction if the trap handler requests that."""


class WaveAlgebra(
    WaveIntegers[V], FloatAlgebra[V], RegisterAlgebra[V, S], MemoryAlgebra[V, S], ControlAlgebra[S], Protocol[V, S]
):
    """The complete operations interface for the semantics of instructions of a wave.

    The JIT does not implement hardware registers, clocks, writes to other lanes (`push`), scalar stores and atomics,
    and traps. The reference engine executes instructions that need them.
    """
