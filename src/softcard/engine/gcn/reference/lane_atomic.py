"""The atomics of the reference engine.

Lanes execute them one after the other, the lowest first. If a lane faults, memory is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from softcard.core.errors import AccessFault
from softcard.engine.gcn.memory import Plain
from softcard.engine.gcn.reference.lane_integer import UNSIGNED, Value, signed
from softcard.engine.gcn.reference.lane_memory import LIMIT, ROW, Indices, LaneMemory, note_beyond
from softcard.ir import softfloat
from softcard.isa.gcn.semantics.pointer import pointer_of
from softcard.isa.gcn.state import LANES, PRIVATE_BASE, SHARED_BASE

Kind = Callable[[int, int, int, int], int]
FORMAT: Final = {32: "s", 64: "d"}


def _ordered(pick: Callable[[int, int], int]) -> Kind:
    def kind(w: int, m: int, v: int, c: int) -> int:
        return pick(signed(w, m), signed(w, v)) & ((1 << w) - 1)

    return kind


def _both(add: Callable[[int, int], int]) -> Kind:
    def kind(w: int, m: int, v: int, c: int) -> int:
        return add(m & 0xFFFF, v & 0xFFFF) | add(m >> 16, v >> 16) << 16

    return kind


def _add_halves(a: int, b: int) -> int:
    return softfloat.add("h", a, b, softfloat.RNE)[0]


def _add_bfloats(a: int, b: int) -> int:
    total = softfloat.add("s", a << 16, b << 16, softfloat.RNE)[0]  # rounded twice, to the same number as once
    return total + 0x7FFF + (total >> 16 & 1) >> 16 & 0xFFFF


# fmt: off
KINDS: Final[dict[str, Kind]] = {
    "swap":     lambda w, m, v, c: v,
    "cmpswap":  lambda w, m, v, c: v if m == c else m,
    "add":      lambda w, m, v, c: (m + v) & ((1 << w) - 1),
    "sub":      lambda w, m, v, c: (m - v) & ((1 << w) - 1),
    "rsub":     lambda w, m, v, c: (v - m) & ((1 << w) - 1),
    "smin":     _ordered(min),
    "smax":     _ordered(max),
    "umin":     lambda w, m, v, c: min(m, v),
    "umax":     lambda w, m, v, c: max(m, v),
    "and":      lambda w, m, v, c: m & v,
    "or":       lambda w, m, v, c: m | v,
    "xor":      lambda w, m, v, c: m ^ v,
    "inc":      lambda w, m, v, c: 0 if m >= v else m + 1,
    "dec":      lambda w, m, v, c: v if m == 0 or m > v else m - 1,
    "mskor":    lambda w, m, v, c: m & ~c | v,
    "wrap":     lambda w, m, v, c: m - c if m >= c else (m + v) & ((1 << w) - 1),
    "fcmpswap": lambda w, m, v, c: v if softfloat.eq(FORMAT[w], m, c)[0] else m,
    "fmin":     lambda w, m, v, c: v if softfloat.lt(FORMAT[w], v, m)[0] else m,
    "fmax":     lambda w, m, v, c: v if softfloat.lt(FORMAT[w], m, v)[0] else m,
    "hadd":     _both(_add_halves),
    "badd":     _both(_add_bfloats),
    "fadd":     lambda w, m, v, c: softfloat.add(FORMAT[w], m, v, softfloat.RNE)[0],
}
# fmt: on
"""The functions of atomics, by kind, from width, memory's old contents, value and comparand to new contents."""


class LaneAtomics(LaneMemory):
    """The atomic operations of `isa.gcn.algebra.WaveAlgebra`."""

    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Value,
        v: Value,
        compare: Value | None = None,
        where: Value | None = None,
    ) -> Value:
        """Replace the memory contents m of each lane by the result of operation `kind` on m and `v`, lane after lane.

        `compare` is a second operand that some operations need. Return the old contents."""
        lanes = self.current.lanes_where(where)
        numbers = lanes.tolist()
        addresses = self._addresses(space, address, lanes).tolist()
        places = [self._place(space, kind, bits, a, n) for a, n in zip(addresses, numbers, strict=True)]
        values = _ints(v, bits, lanes)
        others = values if compare is None else _ints(compare, bits, lanes)
        result = np.zeros(LANES, UNSIGNED[bits])
        for number, place, value, other in zip(numbers, places, values, others, strict=True):
            result[number] = self._update(kind, bits, place, value, other)
        return result

    def scalar_atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: int,
        v: int,
        compare: int | None = None,
        where: int | None = None,
    ) -> int:
        """Perform one scalar atomic operation, if `where` is not 0, and return the old value."""
        place = None if where == 0 else self._place(space, kind, bits, address, None)
        return self._update(kind, bits, place, v, v if compare is None else compare)

    def _place(
        self, space: str, kind: str, bits: int, address: int, lane: int | None
    ) -> tuple[Plain | None, int] | None:
        """Return the location of an atomic: plain memory and an offset, or (None, address) for other memory.

        Return None if the atomic has no effect.
        """
        size = bits >> 3
        if space == "flat":
            space, address = self._flat_place(size, address, lane or 0)
        if space != "global":
            share = self._gds if space == "gds" else self._local()
            if address + size <= share.end:
                return share, address
            if space != "gds":
                note_beyond(self.current.words, address, size, is_store=True)
            return None
        found = self.memory.plain(address, size, store=True)
        try:
            if address % size:
                text = f"atomic of {size} bytes at {address:#x}: the address must be a multiple of {size}"
                raise AccessFault(text, address=address, access="atomic")
            if found is None:
                self.memory.check(address, size, "write")
            elif found.type.completer is not None:
                found.type.completer.check(kind, bits, address)
        except AccessFault as fault:
            raise (fault if lane is None else fault.at("lane", lane)) from None
        return (None, address) if found is None else (found, address - found.base)

    def _flat_place(self, size: int, address: int, lane: int) -> tuple[str, int]:
        high, low = address >> 32, address & LIMIT
        if high == self.current.words[SHARED_BASE] >> 32:
            return "lds", low
        if high != self.current.words[PRIVATE_BASE] >> 32:
            return "global", address
        self._offsets(size, np.array([address], np.uint64), np.array([lane]), "atomic")
        if size > 4:
            address = pointer_of(self.current.mode, address)
            raise AccessFault(
                f"atomic of {size} bytes at {address:#x}: private memory has only atomics of 4 bytes",
                address=address,
                access="atomic",
            ).at("lane", lane)
        return "global", self._private_memory()[0] + (low >> 2) * ROW + 4 * lane + (low & 3)

    def _update(self, kind: str, bits: int, place: tuple[Plain | None, int] | None, v: int, compare: int) -> int:
        if place is None:
            return 0
        where, at = place
        size = bits >> 3
        if where is None:
            old = int.from_bytes(self.memory.read(at, size), "little")
            self.memory.write(at, self.changed(kind, bits, old, v, compare))
            return old
        if where.type.completer is not None:
            return where.type.completer.update(kind, bits, int(where.bytes.ctypes.data) + at, v, compare)
        cell = where.view[at : at + size]
        old = int.from_bytes(cell, "little")
        cell[:] = self.changed(kind, bits, old, v, compare)
        return old

    @staticmethod
    def changed(kind: str, bits: int, old: int, v: int, compare: int) -> bytes:
        """Return the new contents of memory after an atomic operation, as bytes."""
        return KINDS[kind](bits, old, v, compare).to_bytes(bits >> 3, "little")


def _ints(v: Value, bits: int, lanes: Indices) -> list[int]:
    return [v] * len(lanes) if type(v) is int else v[lanes].tolist()
