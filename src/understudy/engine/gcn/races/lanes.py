"""Waves on the reference engine under the check of races: accesses are looked at, and then made as ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from understudy.engine.gcn.api import Dispatch
from understudy.engine.gcn.jit.layout import RACES
from understudy.engine.gcn.races.lane_order import LaneOrder
from understudy.engine.gcn.races.telling import ATOMIC, LOAD, STORE
from understudy.engine.gcn.races.watch import RaceWatch
from understudy.engine.gcn.reference.checked import CheckedAccesses
from understudy.engine.gcn.reference.lane_atomic import LaneAtomics
from understudy.engine.gcn.reference.lane_integer import Array, Value
from understudy.engine.gcn.reference.lane_memory import Indices, LaneMemory, bytes_of_rows
from understudy.engine.gcn.reference.lanes import Lanes, View
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import HW_ID, LDS_SIZE

SPACES: Final = {"global": "global", "lds": "LDS", "shared": "LDS", "gds": "gds"}
"""What the check calls address spaces; it has nothing to say of private memory."""
WAVE: Final = 0x3F
"""Of HW_ID: the number of the wave in its work-group."""


class RaceLanes(Lanes):
    """`Lanes` whose memory, barriers and caches are watched. `plain`: its memory without that."""

    def __init__(self, dispatch: Dispatch, watch: RaceWatch, plain: LaneMemory | None) -> None:
        guard = dispatch.memory.guard
        if plain is None:
            plain = LaneAtomics(dispatch.memory, dispatch.gds) if guard is None else CheckedAccesses(dispatch, guard)
        self.watched = Watched(cast("LaneAtomics", plain), dispatch.private)
        super().__init__(
            dispatch.memory,
            dispatch.gds,
            dispatch.on_hint,
            dispatch.on_trap,
            dispatch.vgpr_count,
            dispatch.sgpr_count,
            cast("LaneAtomics", self.watched),
        )
        self.watched.lanes = watch.lanes
        self._watch = watch
        self._group: tuple[int, int, int] | None = None

    def begin(self, view: View, insn: Insn, lanes: int | None = None) -> None:
        """Likewise; and whose instruction it is."""
        super().begin(view, insn, lanes)
        group, watched, row = self.current.group, self.watched, view.words[RACES]
        if row:
            watched.judge, watched.wave = self._watch.native, self._watch.native.wave(row, view.wave.address)
        else:
            watched.judge = events = self._watch.events
            if group is not self._group:
                self._group = group
                events.begin_group()
            watched.wave = events.wave(view.wave.address, view.words[HW_ID] & WAVE, group)
        watched.judge.leave(watched.wave)
        watched.of = int(view.words[HW_ID]) & WAVE, group
        watched.insn = insn
        watched.number = 0
        watched.is_left = lanes is not None

    def order(self, what: str, n: int = 0) -> None:
        """What was released can be relied on, where caches are invalidated; accesses are over, where waves wait."""
        super().order(what, n)
        wave, insn = self.watched.wave, self.watched.insn
        if what == "waitcnt":
            if not insn.target.vmcnt(n):
                self.watched.judge.waited(wave)
        elif what.startswith("wbinvl1"):
            self.watched.judge.acquire(wave)

    def barrier(self) -> None:
        """What comes before it, comes before what others do behind it."""
        super().barrier()
        self.watched.judge.arrive(self.watched.wave)

    def end(self) -> None:
        """Barriers do not wait for it."""
        super().end()
        self.watched.judge.end(self.watched.wave)


class Watched:
    """Accesses of a wave's lanes, by `plain`; a judge is told of each before it is made.

    `private`: from where to where waves have their private memory.
    """

    judge: Any
    """An `EventJudge`, or a `NativeJudge` of waves of the JIT engine."""
    wave: Any
    """As it knows it."""
    of: tuple[int, tuple[int, int, int]]
    """Its number, and its work-group."""
    insn: Insn
    lanes: LaneOrder | None = None
    """What holds lanes of a wave against each other, where somebody asked for it."""
    number = 0
    """Accesses of the instruction so far."""
    is_left = False
    """Whether it is one that translated code has left amid the lanes."""

    def __init__(self, plain: LaneAtomics, private: tuple[int, int]) -> None:
        self.plain = plain
        self.private = private
        self.current = plain.current

    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Per-lane values from memory."""
        self._look(LOAD, space, bits, address, where)
        return self.plain.load(space, bits, address, where)

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Per-lane values to memory."""
        self._look(STORE, space, bits, address, where, values)
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
        """Lane after lane."""
        self._look(ATOMIC, space, bits, address, where)
        return self.plain.atomic(space, kind, bits, address, v, compare, where)

    def _look(
        self, access: str, space: str, bits: int, address: Value, where: Value | None, values: Sequence[Value] = ()
    ) -> None:
        plain, size = self.plain, bits >> 3
        self.number += 1
        lanes = self.current.lanes_where(where)
        every = plain._addresses(space, address, lanes)
        for part, chosen in plain._spaces(space, every):
            name = SPACES.get(part)
            if name is None:
                continue
            some = (every if chosen is None else every[chosen]).astype(np.int64)
            who = lanes if chosen is None else lanes[chosen]
            if name == "LDS":
                some &= 0xFFFF_FFFF
                some, who = _those(some <= int(self.current.words[LDS_SIZE]) - size, some, who)
            elif name == "global":
                low, high = self.private
                some, who = _those((some < low) | (some >= high), some, who)
            if len(some):
                data = [np.broadcast_to(np.asarray(value, np.uint32), 64)[who] for value in values]
                same = None if access != STORE else lambda n=name, a=some, d=data: self._same(n, size, a, d)
                is_single = self.current.exec_bits.bit_count() == 1
                begun = self.number if self.is_left and (space == "lds" or name != "LDS") else 0
                more = {"is_single": is_single} | ({"number": begun} if begun else {})
                tick = self.wave.tick
                self.judge.look(self.wave, self.insn, access, name, some, size, who, same, **more)
                if self.lanes is not None:
                    values = [row.tobytes() for row in bytes_of_rows(data, size)] if access == STORE else []
                    self._look_at_lanes(access, name, some, size, who.tolist(), values, self.wave.tick != tick)

    def _look_at_lanes(
        self,
        access: str,
        space: str,
        addresses: Indices,
        size: int,
        lanes: list[int],
        values: list[bytes],
        releases: bool,
    ) -> None:
        """Hold lanes of the wave against each other; `values`: what each stores."""
        assert self.lanes is not None
        where = space, addresses, size, lanes, values
        self.lanes.look(self.wave, self.of, self.insn, access, *where, releases=releases)

    def _same(self, space: str, size: int, addresses: Indices, data: list[Array]) -> Any:
        """Where memory holds already what is stored."""
        new = bytes_of_rows(data, size)
        return np.array(
            [
                self._held(space, address, size) == row.tobytes()
                for address, row in zip(addresses.tolist(), new, strict=True)
            ]
        )

    def _held(self, space: str, address: int, size: int) -> bytes:
        if space == "global":
            found = self.plain.memory.plain(address, size)
        else:
            found = self.plain._local() if space == "LDS" else self.plain._gds
        return b"" if found is None else bytes(found.view[address - found.base : address - found.base + size])

    # ---- scalars -------------------------------------------------------------------------------------------------
    def scalar_load(self, dwords: int, address: int, where: int | None = None) -> list[int]:
        """Dwords at a guest address."""
        if where != 0:
            self._look_scalar(LOAD, "global", address & ~3, 4 * dwords)
        return self.plain.scalar_load(dwords, address, where)

    def scalar_store(self, address: int, values: Sequence[int], where: int | None = None) -> None:
        """Dwords to a guest address."""
        if where != 0:
            self._look_scalar(STORE, "global", address & ~3, 4 * len(values))
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
        """One atomic operation of the wave."""
        if where != 0 and space in SPACES:
            self._look_scalar(ATOMIC, SPACES[space], address, bits >> 3)
        return self.plain.scalar_atomic(space, kind, bits, address, v, compare, where)

    def _look_scalar(self, access: str, space: str, address: int, size: int) -> None:
        place = np.array([address], np.int64)
        self.judge.look(self.wave, self.insn, access, space, place, size, None)
        if self.lanes is not None and access == LOAD:  # of no lane is what the wave itself stores
            lanes = self.current.lanes_where(None).tolist()
            two = [*lanes[:1], *lanes[-1:]]  # which stand for all
            self._look_at_lanes(access, space, np.repeat(place, len(two)), size, two, [], False)

    def aperture(self, which: str) -> int:
        """Base or last byte of a flat aperture."""
        return self.plain.aperture(which)


def _those(chosen: Array, addresses: Indices, lanes: Indices) -> tuple[Indices, Indices]:
    """Some of the addresses, and their lanes."""
    return (addresses, lanes) if chosen.all() else (addresses[chosen], lanes[chosen])
