"""The reference engine's operations interface with observers.

Checks register observers, which are called for single instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import ATOMIC, LOAD, STORE, Observer
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_integer import Value
from softcard.engine.gcn.reference.lane_memory import LaneMemory
from softcard.engine.gcn.reference.lanes import Lanes, View
from softcard.isa.gcn.insn import Insn


def observed_lanes(dispatch: Dispatch, accesses: LaneMemory | None = None) -> Lanes:
    """Return the operations interface for a dispatch's waves, which calls the observers of the dispatch's checks.

    `accesses` is its component for memory accesses; if it is None, the standard component is used."""
    if accesses is None:
        accesses = dispatch.checks.accesses(dispatch) or LaneAtomics(dispatch.memory, dispatch.gds)
    observers = dispatch.checks.observers(dispatch, accesses)
    if not observers:
        return Lanes.of(dispatch, accesses)
    return ObservedLanes(dispatch, cast("LaneAtomics", accesses), observers)


class ObservedLanes(Lanes):
    """The operations interface `Lanes`, extended to call the observers that checks have registered."""

    def __init__(self, dispatch: Dispatch, accesses: LaneAtomics, observers: Sequence[Observer]) -> None:
        super().__init__(
            dispatch.memory,
            dispatch.gds,
            dispatch.on_hint,
            dispatch.on_trap,
            dispatch.vgpr_count,
            dispatch.sgpr_count,
            cast("LaneAtomics", ObservedAccesses(accesses, observers)),
            clock=dispatch.clock,
        )
        self._observers = observers

    def begin(self, view: View, insn: Insn, lanes: int | None = None) -> None:
        """Prepare for one instruction of a wave, and call the observers."""
        super().begin(view, insn, lanes)
        for each in self._observers:
            each.begin(view, self.current.group, insn, lanes)

    def order(self, what: str, n: int = 0) -> None:
        """Call the observers for a wait or a cache operation, and perform it."""
        super().order(what, n)
        for each in self._observers:
            each.order(what, n)

    def barrier(self) -> None:
        """Wait for the other waves of the work-group, and call the observers."""
        super().barrier()
        for each in self._observers:
            each.barrier()

    def end(self) -> None:
        """End the wave, and call the observers."""
        super().end()
        for each in self._observers:
            each.end()


class ObservedAccesses:
    """Memory accesses of a wave's lanes that call the observers first, and then access memory through `plain`."""

    def __init__(self, plain: LaneAtomics, observers: Sequence[Observer]) -> None:
        self.plain = plain
        self.current = plain.current
        self._observers = observers

    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Call the observers, and load values for lanes."""
        for each in self._observers:
            each.access(LOAD, space, bits, address, where, ())
        return self.plain.load(space, bits, address, where)

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Call the observers, and store values of lanes."""
        for each in self._observers:
            each.access(STORE, space, bits, address, where, values)
        self.plain.store(space, bits, address, values, where)

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
        """Call the observers, and perform an atomic operation of each lane, lane after lane."""
        for each in self._observers:
            each.access(ATOMIC, space, bits, address, where, ())
        return self.plain.atomic(space, kind, bits, address, v, compare, where)

    def scalar_load(self, dwords: int, address: int, where: int | None = None) -> list[int]:
        """Call the observers, and load dwords from a guest address."""
        if where != 0:
            self._scalar(LOAD, "global", address & ~3, 4 * dwords)
        return self.plain.scalar_load(dwords, address, where)

    def scalar_store(self, address: int, values: Sequence[int], where: int | None = None) -> None:
        """Call the observers, and store dwords to a guest address."""
        if where != 0:
            self._scalar(STORE, "global", address & ~3, 4 * len(values))
        self.plain.scalar_store(address, values, where)

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
        """Call the observers, and execute one scalar atomic operation."""
        if where != 0:
            self._scalar(ATOMIC, space, address, bits >> 3)
        return self.plain.scalar_atomic(space, kind, bits, address, v, compare, where)

    def _scalar(self, access: str, space: str, address: int, size: int) -> None:
        for each in self._observers:
            each.scalar_access(access, space, address, size)

    def aperture(self, which: str) -> int:
        """Return the base or the last byte of a flat aperture."""
        return self.plain.aperture(which)
