"""The wave algebra over `Caches`: loads may be old, stores late, and registers not there before they are waited for.

Scalar loads and stores go to the second level at once: the scalar cache is not modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from understudy.engine.gcn.api import Dispatch
from understudy.engine.gcn.memory import Plain
from understudy.engine.gcn.memory_type import Mtype
from understudy.engine.gcn.reference.lane_atomic import LaneAtomics
from understudy.engine.gcn.reference.lane_integer import Array
from understudy.engine.gcn.reference.lane_memory import Indices, Rows, bytes_of_rows, dwords_of_bytes
from understudy.engine.gcn.reference.lanes import Lanes, View
from understudy.engine.gcn.strict.caches import Caches, Store
from understudy.engine.gcn.strict.findings import Finding, Host, Place
from understudy.engine.gcn.waits.board import Missed
from understudy.engine.gcn.waits.issue import LDS, MEMORY
from understudy.engine.gcn.waits.observing import REACHED
from understudy.engine.gcn.waits.path import Paths
from understudy.engine.gcn.waits.report import said
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.hazards import Kind
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import MODE, PC, RETIRED
from understudy.isa.gcn.target import GFX9, Target

BUFFERS: Final = frozenset({"MUBUF", "MTBUF"})
MTYPE_AT: Final = 27
"""Lowest bit of MTYPE in the last dword of a V# of GFX7 and GFX8."""


class Ledger:
    """Which instruction of which wave runs, what loads still owe, and what was found out.

    `owners` has, by host address of a wave's block: its number, work-group and compute unit. `packet` says what
    launched the waves, `fence` how weak its acquire fence is, `released` how weak other packets' release fences were.
    """

    def __init__(self, caches: Caches, target: Target, packet: str, fence: str, released: dict[str, str]) -> None:
        self.caches = caches
        self.packet = packet
        self.fence = fence
        self.released = released
        self.owners: dict[int, tuple[int, int, int]] = {}
        self.findings: dict[tuple[str, int, int], Finding] = {}
        self.reached: set[str] = set()
        """What the instruction's flat addresses lie in."""
        self._paths = Paths(target)

    def begin(self, view: View, insn: Insn) -> None:
        """One instruction of a wave."""
        self.view = view
        self.insn = insn
        self.owner, self._group, unit = self.owners[view.wave.address]
        self.unit = self.caches.units[unit]
        self.reached = set()
        self._mode = int(view.words[MODE])
        self.caches.chance()

    def finish(self) -> None:
        """The instruction is done, or is to be done again: s_waitcnt while stores are on their way."""
        if self.view.words[PC] == self.insn.pc and self.insn.name == "s_waitcnt":
            return
        for missed in self._paths.step(self.owner, self.insn, self._mode, frozenset(self.reached)):
            self._note(missed)

    def _note(self, missed: Missed) -> None:
        """Note what the instruction did not wait for."""
        kind = "no wait" if missed.hazard.kind is Kind.COUNT else "wait states"
        before = replace(self._here, pc=missed.before.pc, insn=missed.before.text)
        found = Finding(kind, self._here, before, said=said(missed), need=missed.need, rule=missed.hazard.rule)
        self.findings.setdefault((kind, self.insn.pc, before.pc), found)

    @property
    def _here(self) -> Place:
        return Place(self._group, self.view.wave.index, self.insn.pc, text(self.insn), self.packet)

    def find(self, kind: str, store: Place | Host, address: int = 0) -> None:
        """Note a finding, once for each pair of instructions."""
        key = (kind, self.insn.pc, store.pc)
        if key in self.findings:
            return
        fence = self.fence
        if isinstance(store, Place):
            fence = "" if store.packet == self.packet else self.released.get(store.packet, fence)
        self.findings[key] = Finding(kind, self._here, store, address, fence)

    @property
    def uncached(self) -> bool:
        """Whether the V# of a buffer instruction asks to pass the second level by; GFX9 has no MTYPE there."""
        if self.insn.form not in BUFFERS or self.insn.target.level >= GFX9:
            return False
        return not Mtype(self.view.sgpr[self.insn["srsrc"] + 3] >> MTYPE_AT & 3).is_cached

    def store_of(self, address: int, data: bytes) -> Store:
        """A store of the instruction."""
        return Store(self.owner, self.unit, address, data, self._here, self.uncached)


class StrictMemory(LaneAtomics):
    """Global memory through the caches."""

    def __init__(self, dispatch: Dispatch, ledger: Ledger) -> None:
        super().__init__(dispatch.memory, dispatch.gds)
        self.ledger = ledger

    def _spaces(self, space: str, addresses: Array) -> list[tuple[str, Any]]:
        """Which spaces the addresses mean."""
        parts = super()._spaces(space, addresses)
        if space == "flat":
            self.ledger.reached |= {REACHED[name] for name, _ in parts}
        return parts

    def _gather(self, size: int, addresses: Array, lanes: Indices) -> Rows:
        bypass, uncached = bool(self.ledger.insn.get("glc")), self.ledger.uncached
        parts = []
        for lane, address in zip(lanes.tolist(), addresses.tolist(), strict=True):
            got, newest = self._lane(lane, self.ledger.caches.read, self.ledger.unit, address, size, bypass, uncached)
            if got != newest:
                self.ledger.find(*self.ledger.caches.blame(address, got, newest, uncached), address)
            parts.append(got)
        return dwords_of_bytes(np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), size))

    def _scatter(self, size: int, addresses: Array, lanes: Indices, data: Rows) -> None:
        self._check_write("global", size, addresses, lanes)
        for row, address in zip(bytes_of_rows(data, size), addresses.tolist(), strict=True):
            self.ledger.caches.issue(self.ledger.store_of(address, row.tobytes()))

    def _update(self, kind: str, bits: int, place: tuple[Plain | None, int] | None, v: int, compare: int) -> int:
        """Read-modify-writes happen at the second level, or in memory; LDS and GDS are nobody else's."""
        where, at = place or (None, 0)
        self.ledger.reached.add(LDS if where is self._lds else MEMORY)
        if where is None or where in (self._lds, self._gds):
            return super()._update(kind, bits, place, v, compare)
        address, size, uncached, second = where.base + at, bits >> 3, self.ledger.uncached, self.ledger.caches.second
        newest = self.ledger.caches.read(self.ledger.unit, address, size, True, uncached)[1]
        got = second.read(address, size, uncached)
        if got != newest:
            self.ledger.find(*self.ledger.caches.blame(address, got, newest, uncached), address)
        if uncached or not where.type.mtype.is_cached:
            old = super()._update(kind, bits, place, v, compare)
        else:
            old = int.from_bytes(got, "little")
            second.write(address, self.changed(kind, bits, old, v, compare))
        self.ledger.caches.remember(self.ledger.store_of(address, second.read(address, size, uncached)))
        return old

    def scalar_load(self, dwords: int, address: int, where: int | None = None) -> list[int]:
        """Dwords at a guest address."""
        if where == 0:
            return [0] * dwords
        address &= ~3
        self.memory.check(address, 4 * dwords, "read")
        data = self.ledger.caches.second.read(address, 4 * dwords)
        newest = self.ledger.caches.system.newest(self.memory, address, 4 * dwords)
        if data != newest:
            self.ledger.find(*self.ledger.caches.blame(address, data, newest, False), address)
        return [int.from_bytes(data[k : k + 4], "little") for k in range(0, 4 * dwords, 4)]

    def scalar_store(self, address: int, values: Sequence[int], where: int | None = None) -> None:
        """Dwords to a guest address."""
        if where != 0:
            data = b"".join(v.to_bytes(4, "little") for v in values)
            self.memory.check(address & ~3, len(data), "write")
            self.ledger.caches.second.write(address & ~3, data)
            self.ledger.caches.remember(self.ledger.store_of(address & ~3, data))


class StrictLanes(Lanes):
    """The algebra of a dispatch's waves."""

    is_plain = False

    def __init__(self, dispatch: Dispatch, ledger: Ledger) -> None:
        super().__init__(
            dispatch.memory,
            dispatch.gds,
            dispatch.on_hint,
            dispatch.on_trap,
            dispatch.vgpr_count,
            dispatch.sgpr_count,
            StrictMemory(dispatch, ledger),
            clock=dispatch.clock,
        )
        self.ledger = ledger

    def begin(self, view: View, insn: Insn, lanes: int | None = None) -> None:
        """One instruction of a wave."""
        super().begin(view, insn, lanes)
        self.ledger.begin(view, insn)

    # ---- waits -----------------------------------------------------------------------------------------------------
    def order(self, what: str, n: int = 0) -> None:
        """s_waitcnt and the invalidations do something here."""
        if what == "waitcnt":
            vm = n & 15 | (n >> 14 & 3) << 4 if self.ledger.insn.target.level >= GFX9 else n & 15
            if vm == 0 and self.ledger.caches.delays(self.ledger.owner):  # the wave stays where it is
                self.target = self.ledger.insn.pc
                self.words[RETIRED] -= 1
        elif what.startswith("wbinvl1"):
            self.ledger.unit.invalidate(what == "wbinvl1")
