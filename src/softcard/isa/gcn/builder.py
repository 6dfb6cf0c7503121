"""The builder with which instruction semantics are written: a wave's registers, lanes, memory and control flow.

Operands are words of known width. A `Builder` checks the widths of operands, and passes each operation on to the
engine's implementation of `isa.gcn.algebra.WaveAlgebra`, which documents the operations.
"""

# ruff: noqa: D102 - the operations are those of `WaveAlgebra`, documented there.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from softcard.isa.gcn.algebra import WaveAlgebra
from softcard.isa.gcn.state import Mode
from softcard.isa.gcn.word import Word
from softcard.isa.word import Value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from softcard.isa.gcn.semantics.matrix.table import Use

ADDRESS_BITS: Final = {"global": 64, "flat": 64, "lds": 32, "gds": 32}
"""The width of an address in bits by memory space."""


class Builder:
    """A front end to an engine's implementation of `WaveAlgebra`; its operands are words of known width."""

    __slots__ = ("algebra", "mode")

    def __init__(self, algebra: WaveAlgebra[Value, Value]) -> None:
        self.algebra = algebra
        self.mode: Mode = algebra.mode

    def word(self, width: int, lanes: npt.NDArray[np.generic]) -> Word:
        """Return `lanes`, an array with one number per lane, as a word.

        The semantics of operations with `Op.concrete` compute such arrays."""
        return Word(self.algebra, width, cast("Value", lanes))

    def const(self, width: int, n: int) -> Word:
        """Return the constant `n` modulo 2**width as a word."""
        return Word(self.algebra, width, self.algebra.const(width, n))

    # ---- scalar state --------------------------------------------------------------------------------------------
    def s(self, n: int) -> Word:
        return Word(self.algebra, 32, self.algebra.s(n))

    def set_s(self, n: int, v: Word) -> None:
        self.algebra.set_s(n, v.known(32, "a scalar register"))

    def s64(self, n: int) -> Word:
        return Word(self.algebra, 64, self.algebra.s64(n))

    def set_s64(self, n: int, v: Word) -> None:
        self.algebra.set_s64(n, v.known(64, "a pair of scalar registers"))

    def scc(self) -> Word:
        return Word(self.algebra, 1, self.algebra.scc())

    def set_scc(self, v: Word) -> None:
        self.algebra.set_scc(v.known(1, "SCC"))

    def s_indexed(self, n: int, offset: Word, w: int = 32) -> Word:
        return Word(self.algebra, w, self.algebra.s_indexed(n, offset.known(32, "a register offset"), w))

    def set_s_indexed(self, n: int, offset: Word, v: Word, w: int = 32) -> None:
        self.algebra.set_s_indexed(n, offset.known(32, "a register offset"), v.known(w, "a scalar register"), w)

    def hwreg(self, number: int) -> Word:
        return Word(self.algebra, 32, self.algebra.hwreg(number))

    def set_hwreg(self, number: int, v: Word) -> None:
        self.algebra.set_hwreg(number, v.known(32, "a hardware register"))

    def time(self, kind: str) -> Word:
        return Word(self.algebra, 64, self.algebra.time(kind))

    # ---- lanes ---------------------------------------------------------------------------------------------------
    def v(self, n: int) -> Word:
        return Word(self.algebra, 32, self.algebra.v(n))

    def set_v(self, n: int, v: Word, where: Word | None = None) -> None:
        value = v.known(32, "a vector register")
        if where is None:
            self.algebra.set_v(n, value)
        else:
            self.algebra.set_v(n, value, where.known(1, "a lane mask"))

    def mask(self, n: int) -> Word:
        return Word(self.algebra, 1, self.algebra.mask(n))

    def set_mask(self, n: int, m: Word) -> None:
        self.algebra.set_mask(n, m.known(1, "a lane mask"))

    def lane_bits(self, b: Word) -> Word:
        return Word(self.algebra, 1, self.algebra.lane_bits(b.known(64, "a mask of lanes")))

    def lane_id(self) -> Word:
        return Word(self.algebra, 32, self.algebra.lane_id())

    def v_at(self, n: int, lane: Word) -> Word:
        return Word(self.algebra, 32, self.algebra.v_at(n, lane.known(32, "a lane number")))

    def push(self, n: int, v: Word, lane: Word) -> None:
        self.algebra.push(n, v.known(32, "a vector register"), lane.known(32, "a lane number"))

    def lane(self, n: int, lane: Word) -> Word:
        return Word(self.algebra, 32, self.algebra.lane(n, lane.known(32, "a lane number")))

    def set_lane(self, n: int, lane: Word, v: Word) -> None:
        self.algebra.set_lane(n, lane.known(32, "a lane number"), v.known(32, "a vector register"))

    def matrix(self, use: Use) -> None:
        self.algebra.matrix(use)

    def v_indexed(self, n: int, offset: Word) -> Word:
        return Word(self.algebra, 32, self.algebra.v_indexed(n, offset.known(32, "a register offset")))

    def set_v_indexed(self, n: int, offset: Word, v: Word) -> None:
        self.algebra.set_v_indexed(n, offset.known(32, "a register offset"), v.known(32, "a vector register"))

    # ---- memory --------------------------------------------------------------------------------------------------
    def load(self, space: str, bits: int, address: Word, where: Word | None = None) -> list[Word]:
        at = address.known(ADDRESS_BITS[space], f"a {space} address")
        return [Word(self.algebra, 32, v) for v in self.algebra.load(space, bits, at, _lanes(where))]

    def store(self, space: str, bits: int, address: Word, values: Sequence[Word], where: Word | None = None) -> None:
        at = address.known(ADDRESS_BITS[space], f"a {space} address")
        data = [v.known(32, "a store") for v in values]
        self.algebra.store(space, bits, at, data, _lanes(where))

    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Word,
        v: Word,
        compare: Word | None = None,
        where: Word | None = None,
    ) -> Word:
        at = address.known(ADDRESS_BITS[space], f"a {space} address")
        wanted = None if compare is None else compare.known(bits, f"{kind} of {bits} bits")
        old = self.algebra.atomic(space, kind, bits, at, v.known(bits, kind), wanted, _lanes(where))
        return Word(self.algebra, bits, old)

    def scalar_load(self, dwords: int, address: Word, where: Word | None = None) -> list[Word]:
        at = address.known(64, "a scalar address")
        load = self.algebra.scalar_load
        return [
            Word(self.algebra, 32, v) for v in (load(dwords, at) if where is None else load(dwords, at, _lanes(where)))
        ]

    def scalar_store(self, address: Word, values: Sequence[Word], where: Word | None = None) -> None:
        data = [v.known(32, "a scalar store") for v in values]
        self.algebra.scalar_store(address.known(64, "a scalar address"), data, _lanes(where))

    def scalar_atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Word,
        v: Word,
        compare: Word | None = None,
        where: Word | None = None,
    ) -> Word:
        at = address.known(ADDRESS_BITS[space], f"a {space} address")
        wanted = None if compare is None else compare.known(bits, f"{kind} of {bits} bits")
        old = self.algebra.scalar_atomic(space, kind, bits, at, v.known(bits, kind), wanted, _lanes(where))
        return Word(self.algebra, bits, old)

    def aperture(self, which: str) -> Word:
        return Word(self.algebra, 64, self.algebra.aperture(which))

    # ---- control -------------------------------------------------------------------------------------------------
    def branch(self, c: Word, target: int) -> None:
        self.algebra.branch(c.known(1, "a condition"), target)

    def jump(self, target: int) -> None:
        self.algebra.jump(target)

    def jump_to(self, target: Word) -> None:
        self.algebra.jump_to(target.known(64, "an address"))

    def end(self) -> None:
        self.algebra.end()

    def barrier(self) -> None:
        self.algebra.barrier()

    def order(self, what: str, n: int = 0) -> None:
        self.algebra.order(what, n)

    def hint(self, what: str, n: int = 0) -> None:
        self.algebra.hint(what, n)

    def trap(self, number: int) -> None:
        self.algebra.trap(number)


def _lanes(where: Word | None) -> Value | None:
    """Return the lane mask of a memory access as the engine's value; None for all lanes."""
    return None if where is None else where.known(1, "a lane mask")
