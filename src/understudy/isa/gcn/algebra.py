"""The operations a GCN meaning may use: the whole contract between instruction meanings and the wave engines.

A value is either scalar (one for the wave) or per-lane (64 of them), of a width in bits; an operation on a scalar and
a per-lane value is per-lane. The reference engine's values are Python ints and NumPy arrays, the JIT's are names of
LLVM IR values, so a meaning never looks at a value and never branches on one with ``if``. It may branch on the
instruction (`Insn` fields, target) and on `mode`, which are known when code is translated.

Floats are bit patterns like all other values: an operation that computes with them names the format, "h" (binary16,
width 16), "s" (binary32) or "d" (binary64). Their environment `env` is None for what MODE says (rounding and denormals
of that format), ``"flush"`` for MODE's rounding with all denormals flushed (the multiply-adds that never keep them), or
``"raw"`` for round to nearest with denormals kept, for steps inside an approximation whose intermediate values are
normal numbers.
Arithmetic that gives a NaN gives the canonical one (quiet, positive, payload 0): Choice ``nan-results``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from understudy.isa.gcn.state import Mode
from understudy.isa.word import IntegerAlgebra, V

S = TypeVar("S")
"""A value that must be scalar."""
S_contra = TypeVar("S_contra", contravariant=True)


class WaveIntegers(IntegerAlgebra[V], Protocol[V]):
    """The integer operations that only waves have."""

    def not_(self, w: int, a: V) -> V:
        """Every bit inverted."""

    def umin(self, w: int, a: V, b: V) -> V:
        """The smaller, unsigned."""

    def umax(self, w: int, a: V, b: V) -> V:
        """The larger, unsigned."""

    def smin(self, w: int, a: V, b: V) -> V:
        """The smaller, signed."""

    def smax(self, w: int, a: V, b: V) -> V:
        """The larger, signed."""

    def ctlz(self, w: int, a: V) -> V:
        """Zeros above the highest one; `w` where a is 0."""

    def cttz(self, w: int, a: V) -> V:
        """Zeros below the lowest one; `w` where a is 0."""

    def ctpop(self, w: int, a: V) -> V:
        """How many ones."""

    def bitreverse(self, w: int, a: V) -> V:
        """The bits in the opposite order."""

    def entry(self, w: int, a: V, table: tuple[int, ...]) -> V:
        """Number `a` of a table of 32-bit numbers; `a` has 32 bits and is below its length."""

    def ule(self, w: int, a: V, b: V) -> V:
        """Unsigned a <= b, width 1."""

    def sle(self, w: int, a: V, b: V) -> V:
        """Signed a <= b, width 1."""


class FloatAlgebra(Protocol[V]):
    """Floats as bit patterns of format `fmt`."""

    mode: Mode
    """MODE at this instruction."""

    def fadd(self, fmt: str, a: V, b: V, env: str | None = None) -> V:
        """a + b."""

    def fsub(self, fmt: str, a: V, b: V, env: str | None = None) -> V:
        """a - b."""

    def fmul(self, fmt: str, a: V, b: V, env: str | None = None) -> V:
        """a * b."""

    def fma(self, fmt: str, a: V, b: V, c: V, env: str | None = None) -> V:
        """a * b + c with one rounding."""

    def fdiv(self, fmt: str, a: V, b: V, env: str | None = None) -> V:
        """a / b."""

    def fsqrt(self, fmt: str, a: V, env: str | None = None) -> V:
        """Square root."""

    def feq(self, fmt: str, a: V, b: V) -> V:
        """a == b, width 1, false for NaNs; denormal inputs of comparisons are flushed as MODE says."""

    def flt(self, fmt: str, a: V, b: V) -> V:
        """a < b, width 1, false for NaNs."""

    def fle(self, fmt: str, a: V, b: V) -> V:
        """a <= b, width 1, false for NaNs."""

    def funo(self, fmt: str, a: V, b: V) -> V:
        """Whether either is a NaN, width 1."""

    def fflush(self, fmt: str, a: V) -> V:
        """A denormal becomes zero of its sign where MODE flushes inputs; all other bits, NaNs too, stay as they are."""

    def fround(self, fmt: str, a: V, kind: str) -> V:
        """To an integral value: "trunc", "ceil", "floor" or "even" (nearest even); denormal inputs as MODE says."""

    def fldexp(self, fmt: str, a: V, n: V, env: str | None = None) -> V:
        """a * 2**n with one rounding; `n` is a signed 32-bit value."""

    def fconvert(self, to: str, fmt: str, a: V, env: str | None = None, rounding: int | None = None) -> V:
        """Another format; `rounding` (numbers of MODE) overrides that of `to`."""

    def ffrom_int(self, fmt: str, w: int, signed: bool, a: V, env: str | None = None) -> V:
        """The integer `a` as a float."""

    def fto_int(self, fmt: str, w: int, signed: bool, a: V) -> V:
        """Towards zero, saturating; a NaN gives 0. Take `fround` first for another rounding."""


class RegisterAlgebra(Protocol[V, S]):
    """The registers of a wave, scalar and per lane, and what sees other lanes."""

    # ---- scalar state ------------------------------------------------------------------------------------------
    def s(self, n: int) -> S:
        """Scalar register by operand code (0..127): 32 bits."""

    def set_s(self, n: int, v: S) -> None:
        """Write a scalar register."""

    def s64(self, n: int) -> S:
        """Scalar registers n and n + 1; n need not be even."""

    def set_s64(self, n: int, v: S) -> None:
        """Write scalar registers n and n + 1."""

    def scc(self) -> S:
        """Width 1."""

    def set_scc(self, v: S) -> None:
        """Write SCC."""

    def s_indexed(self, n: int, offset: S, w: int = 32) -> S:
        """Scalar register n + offset (movrel); out of range reads register n. `w` 32 or 64."""

    def set_s_indexed(self, n: int, offset: S, v: S, w: int = 32) -> None:
        """Write scalar register n + offset; out of range nothing."""

    def hwreg(self, number: int) -> S:
        """A hardware register of s_getreg by its id, 32 bits."""

    def set_hwreg(self, number: int, v: S) -> None:
        """Write a hardware register."""

    def time(self, kind: str) -> S:
        """64 bits; kind "memtime" or "memrealtime": a deterministic clock, the instructions retired so far."""

    # ---- lanes -------------------------------------------------------------------------------------------------
    def v(self, n: int) -> V:
        """Vector register n, per-lane, 32 bits."""

    def set_v(self, n: int, v: V, where: V | None = None) -> None:
        """Write lanes of EXEC (and of the width-1 value `where`)."""

    def mask(self, n: int) -> V:
        """Scalar register pair n as one bit per lane: a per-lane value of width 1."""

    def set_mask(self, n: int, m: V) -> None:
        """Scalar register pair n becomes the per-lane bits `m`, 0 for lanes outside EXEC."""

    def lane_bits(self, b: S) -> V:
        """The bits of a 64-bit scalar as a per-lane value of width 1."""

    def lane_id(self) -> V:
        """0..63, 32 bits."""

    def active(self) -> V:
        """EXEC, per-lane, width 1."""

    # ---- across lanes: these see registers as they were before the instruction --------------------------------------
    def v_at(self, n: int, lane: V) -> V:
        """Vector register n of the lane that each lane names (0..63), whether active or not."""

    def push(self, n: int, v: V, lane: V) -> None:
        """ds_permute: each active lane writes `v` into register n of the lane it names, highest lane last;
        active lanes that nobody names get 0."""

    def lane(self, n: int, lane: S) -> S:
        """Vector register n of one lane (0..63)."""

    def set_lane(self, n: int, lane: S, v: S) -> None:
        """Write one lane, whatever EXEC says."""

    def v_indexed(self, n: int, offset: S) -> V:
        """Vector register n + offset (movrel, GPR indexing); out of range reads register 0."""

    def set_v_indexed(self, n: int, offset: S, v: V) -> None:
        """Write vector register n + offset; out of range nothing."""


class MemoryAlgebra(Protocol[V, S]):
    """Memory, of lanes and of the wave."""

    # `space` is "global" (64-bit addresses), "flat" (64-bit: LDS and private apertures, else global), "lds" or "gds"
    # (32-bit byte addresses). Per-lane accesses concern lanes of EXEC and of `where`. LDS and GDS accesses that do not
    # lie within the work-group's allocation read 0 and store nothing.
    def load(self, space: str, bits: int, address: V, where: V | None = None) -> list[V]:
        """`bits` 8 or 16: one 32-bit value, zero-extended; else `bits` / 32 values of 32 bits.

        Lanes that `where` leaves out get 0; what lanes without EXEC get is not specified.
        """

    def store(self, space: str, bits: int, address: V, values: Sequence[V], where: V | None = None) -> None:
        """`bits` 8 or 16: the low bits of one 32-bit value; else bits / 32 values."""

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
        """Lane after lane, lowest first: memory m becomes kind(m, v); gives the old m. `bits` 32 or 64, values as wide.

        `kind`: swap cmpswap add sub rsub smin umin smax umax and or xor inc dec (wrapping as the manuals define), mskor
        (m & ~compare | v), wrap (m - compare where that is not below 0, else m + v), fcmpswap fmin fmax fadd
        (binary32/64).
        """

    # A scalar access whose width-1 scalar `where` is 0 does not happen; what it gives is unspecified then.
    def scalar_load(self, dwords: int, address: S, where: S | None = None) -> list[S]:
        """Dwords at a 64-bit guest address (its two low bits are ignored)."""

    def scalar_store(self, address: S, values: Sequence[S], where: S | None = None) -> None:
        """Dwords to a 64-bit guest address."""

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
        """One atomic operation of the wave; spaces "global", "lds", "gds"."""

    def aperture(self, which: str) -> S:
        """64-bit base of the flat "shared" or "private" aperture, and their "shared_limit", "private_limit".

        The upper half is the aperture: what pointers of 32 bits make of it is `isa.gcn.pointer`'s business.
        """


class ControlAlgebra(Protocol[S_contra]):
    """Where the wave goes on, the last thing a meaning does; waits and what devices may hear of."""

    def branch(self, c: S_contra, target: int) -> None:
        """Go to the address `target` (a plain int) where the width-1 scalar `c` is 1, else on."""

    def jump(self, target: int) -> None:
        """Go to the address `target`."""

    def jump_to(self, target: S_contra) -> None:
        """Go to a 64-bit scalar address."""

    def end(self) -> None:
        """s_endpgm."""

    def barrier(self) -> None:
        """Wait for the other waves of the work-group."""

    def order(self, what: str, n: int = 0) -> None:
        """A wait, cache write-back or invalidation.

        "waitcnt" (n: its immediate), "wbinvl1", "wbinvl1_vol", "dcache_inv", "dcache_wb".
        """

    def hint(self, what: str, n: int = 0) -> None:
        """Nothing that a result depends on: nop, setprio, a pause (sleep), sendmsg that a device may hear of, ..."""

    def trap(self, number: int) -> None:
        """s_trap; execution goes on behind it where a trap handler says so."""


class WaveAlgebra(
    WaveIntegers[V], FloatAlgebra[V], RegisterAlgebra[V, S], MemoryAlgebra[V, S], ControlAlgebra[S], Protocol[V, S]
):
    """All that meanings may ask for.

    The JIT has no hardware registers and clocks, no pushes to other lanes, no scalar stores and atomics, and no traps:
    the reference engine executes what needs them.
    """
