"""The wave algebra over `Caches`: loads may be old, stores late, and registers not there before they are waited for.

Scalar loads and stores go to the second level at once: the scalar cache is not modelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from understudy.engine.gcn.api import Dispatch
from understudy.engine.gcn.memory import Plain
from understudy.engine.gcn.memory_type import Mtype
from understudy.engine.gcn.reference.lane_atomic import LaneAtomics
from understudy.engine.gcn.reference.lane_integer import Array, Value
from understudy.engine.gcn.reference.lane_memory import Indices, Rows, bytes_of_rows, dwords_of_bytes
from understudy.engine.gcn.reference.lanes import Lanes, View
from understudy.engine.gcn.strict.caches import Caches, Store
from understudy.engine.gcn.strict.findings import Finding, Host, Place
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import RETIRED
from understudy.isa.gcn.target import GFX9

COUNTED: Final = frozenset({"FLAT", "MUBUF", "MTBUF", "MIMG"})
"""Encodings whose loads and stores VM_CNT counts; the others' are LGKM_CNT's."""
BUFFERS: Final = frozenset({"MUBUF", "MTBUF"})
MTYPE_AT: Final = 27
"""Lowest bit of MTYPE in the last dword of a V# of GFX7 and GFX8."""


class Ledger:
    """Which instruction of which wave runs, what loads still owe, and what was found out.

    `owners` has, by host address of a wave's block: its number, work-group and compute unit. `packet` says what
    launched the waves, `fence` how weak its acquire fence is, `released` how weak other packets' release fences were.
    """

    def __init__(self, caches: Caches, packet: str, fence: str, released: dict[str, str]) -> None:
        self.caches = caches
        self.packet = packet
        self.fence = fence
        self.released = released
        self.owners: dict[int, tuple[int, int, int]] = {}
        self.findings: dict[tuple[str, int, int], Finding] = {}
        self.written: set[int] = set()
        """Registers that the instruction writes: vector registers by number, scalar ones by its complement."""
        self._loads: dict[int, deque[tuple[str, Place, set[int]]]] = {}

    def begin(self, view: View, insn: Insn) -> None:
        """One instruction of a wave."""
        self.view = view
        self.insn = insn
        self.owner, self._group, unit = self.owners[view.wave.address]
        self.unit = self.caches.units[unit]
        self.written = set()
        self.caches.chance()

    def finish(self) -> None:
        """The instruction is done: remember what its loads still owe."""
        if self.written and self.insn.form in (*COUNTED, "DS", "SMRD", "SMEM") and self._is_load:
            counter = "vm" if self.insn.form in COUNTED else "lgkm"
            self.outstanding.append((counter, self._here, self.written))

    @property
    def _is_load(self) -> bool:
        return "load" in self.insn.name or "read" in self.insn.name or "atomic" in self.insn.name

    @property
    def _here(self) -> Place:
        return Place(self._group, self.view.wave.index, self.insn.pc, text(self.insn), self.packet)

    @property
    def outstanding(self) -> deque[tuple[str, Place, set[int]]]:
        """Loads of the wave that were not waited for: counter, place, registers."""
        return self._loads.setdefault(self.owner, deque())

    def find(self, kind: str, store: Place | Host, address: int = 0) -> None:
        """Note a finding, once for each pair of instructions."""
        key = (kind, self.insn.pc, store.pc)
        if key in self.findings:
            return
        fence = self.fence
        if isinstance(store, Place):
            fence = "" if store.packet == self.packet else self.released.get(store.packet, fence)
        self.findings[key] = Finding(kind, self._here, store, address, fence)

    def check_waited(self, register: int) -> None:
        """A register is read, which its load must have reached."""
        for _, load, registers in self.outstanding:
            if register in registers:
                self.find("no wait", load)

    def wait(self, counter: str, most: int) -> None:
        """Wait until at most so many loads of a counter are outstanding."""
        mine = [load for load in self.outstanding if load[0] == counter]
        for load in mine[: max(len(mine) - most, 0)]:
            self.outstanding.remove(load)

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
        )
        self.ledger = ledger

    def begin(self, view: View, insn: Insn, lanes: int | None = None) -> None:
        """One instruction of a wave."""
        super().begin(view, insn, lanes)
        self.ledger.begin(view, insn)

    # ---- registers -------------------------------------------------------------------------------------------------
    def v(self, n: int) -> Array:
        """A vector register, which its load must have reached."""
        self.ledger.check_waited(n)
        return super().v(n)

    def s(self, n: int) -> int:
        """A scalar register, likewise."""
        self.ledger.check_waited(~n)
        return super().s(n)

    def s64(self, n: int) -> int:
        """Two of them."""
        self.ledger.check_waited(~n)
        self.ledger.check_waited(~(n + 1))
        return super().s64(n)

    def lane(self, n: int, lane: int) -> int:
        """A vector register of one lane."""
        self.ledger.check_waited(n)
        return super().lane(n, lane)

    def v_at(self, n: int, lane: Value) -> Array:
        """A vector register of other lanes."""
        self.ledger.check_waited(n)
        return super().v_at(n, lane)

    def set_v(self, n: int, v: Value, where: Value | None = None) -> None:
        """Write a vector register."""
        self.ledger.written.add(n)
        super().set_v(n, v, where)

    def set_s(self, n: int, v: int) -> None:
        """Write a scalar register."""
        self.ledger.written.add(~n)
        super().set_s(n, v)

    # ---- waits -----------------------------------------------------------------------------------------------------
    def order(self, what: str, n: int = 0) -> None:
        """s_waitcnt and the invalidations do something here."""
        if what == "waitcnt":
            vm = n & 15 | (n >> 14 & 3) << 4 if self.ledger.insn.target.level >= GFX9 else n & 15
            self.ledger.wait("vm", vm)
            self.ledger.wait("lgkm", n >> 8 & 15)
            if vm == 0 and self.ledger.caches.delays(self.ledger.owner):  # the wave stays where it is
                self.target = self.ledger.insn.pc
                self.words[RETIRED] -= 1
        elif what.startswith("wbinvl1"):
            self.ledger.unit.invalidate(what == "wbinvl1")

    def end(self) -> None:
        """What a wave has stored may take its time still: until the packet's release fence."""
        super().end()
        self.ledger.outstanding.clear()
