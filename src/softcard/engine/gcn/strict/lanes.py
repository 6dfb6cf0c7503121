"""The operations of waves over `Caches`: stale loads, delayed stores, and hazards from missing waits.

Scalar loads and stores access the second-level cache directly, since the scalar cache is not modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.memory import Mtype, Plain
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_integer import Array
from softcard.engine.gcn.reference.lane_memory import Indices, Rows, bytes_of_rows, dwords_of_bytes
from softcard.engine.gcn.reference.lanes import Lanes, View
from softcard.engine.gcn.strict.caches import Caches, Store
from softcard.engine.gcn.strict.findings import Finding, Host, Place
from softcard.engine.gcn.waits.board import Missed, sentence
from softcard.engine.gcn.waits.issue import LDS, MEMORY
from softcard.engine.gcn.waits.observing import REACHED, Paths
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.coherence import Scope, access_scope, invalidated
from softcard.isa.gcn.hazards import Kind
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import MODE, PC, RETIRED
from softcard.isa.gcn.target import GFX9, Target

BUFFERS: Final = frozenset({"MUBUF", "MTBUF"})
MTYPE_AT: Final = 27
"""The lowest bit of MTYPE in the last dword of a buffer descriptor (V#) of GFX7 and GFX8."""


class Ledger:
    """The findings so far, and the state that is needed to check the current instruction.

    The state includes the instruction's wave and its outstanding operations. `owners` maps the host address of
    a wave's state block to the wave's number, work-group and compute unit. `packet` names the packet that
    launched the waves, `fence` describes its acquire fence, and `released` has the release fences of other
    packets."""

    def __init__(
        self,
        caches: Caches,
        target: Target,
        packet: str,
        fence: str,
        released: dict[str, str],
        *,
        tg_split: bool = False,
    ) -> None:
        self.caches = caches
        self.packet = packet
        self.fence = fence
        self.released = released
        self.owners: dict[int, tuple[int, int, int]] = {}
        self.findings: dict[tuple[str, int, int], Finding] = {}
        self.reached: set[str] = set()
        """The address spaces that the instruction's flat accesses have used so far."""
        self.tg_split = tg_split
        self._paths = Paths(target)

    def begin(self, view: View, insn: Insn) -> None:
        """Begin one instruction of a wave."""
        self.view = view
        self.insn = insn
        self.owner, self._group, unit = self.owners[view.wave.address]
        self.unit = self.caches.units[unit]
        self.reached = set()
        self._mode = int(view.words[MODE])
        self.caches.chance()

    def finish(self) -> None:
        """End the instruction, unless it is executed again. s_waitcnt is repeated until the stores have arrived."""
        if self.view.words[PC] == self.insn.pc and self.insn.name == "s_waitcnt":
            return
        for missed in self._paths.step(self.owner, self.insn, self._mode, frozenset(self.reached)):
            self._note(missed)

    def _note(self, missed: Missed) -> None:
        """Record that the instruction lacks a wait."""
        kind = "no wait" if missed.hazard.kind is Kind.COUNT else "wait states"
        before = replace(self._position, pc=missed.before.pc, insn=missed.before.text)
        found = Finding(
            kind, self._position, before, sentence=sentence(missed), need=missed.need, rule=missed.hazard.rule
        )
        self.findings.setdefault((kind, self.insn.pc, before.pc), found)

    @property
    def _position(self) -> Place:
        return Place(self._group, self.view.wave.index, self.insn.pc, text(self.insn), self.packet)

    def find(self, kind: str, store: Place | Host, address: int = 0) -> None:
        """Record a finding of the given kind about the current instruction and `store`, once for each pair."""
        key = (kind, self.insn.pc, store.pc)
        if key in self.findings:
            return
        fence = self.fence
        if isinstance(store, Place):
            fence = "" if store.packet == self.packet else self.released.get(store.packet, fence)
        self.findings[key] = Finding(kind, self._position, store, address, fence)

    @property
    def uncached(self) -> bool:
        """True if the instruction is a buffer access whose V# (descriptor) requests to bypass the second-level cache.

        The request is the V#'s field MTYPE, which does not exist on GFX9; the result is False there."""
        if self.insn.form not in BUFFERS or self.insn.target.level >= GFX9:
            return False
        return not Mtype(self.view.sgpr[self.insn["srsrc"] + 3] >> MTYPE_AT & 3).is_cached

    def store_of(self, address: int, data: bytes) -> Store:
        """Return the delayed store by which the current instruction writes `data` to `address`."""
        passes = self.caches.has_several and access_scope(self.insn) >= Scope.AGENT
        return Store(self.owner, self.unit, address, data, self._position, self.uncached, passes)

    def order(self, what: str) -> None:
        """Perform a cache operation of vector memory."""
        insn, caches = self.insn, self.caches
        scope = invalidated(insn, what)
        if what in ("wbinvl1", "wbinvl1_vol"):
            self.unit.invalidate(what == "wbinvl1")
        elif scope >= Scope.AGENT or (scope is Scope.GROUP and self.tg_split):
            self.unit.invalidate(True)
        if what == "invl2" or scope is Scope.SYSTEM or (what == "inv" and scope is Scope.AGENT and caches.has_several):
            self.unit.second.invalidate()
        if what == "wbl2":
            reach = access_scope(insn) if insn.target.has_xccs else Scope.SYSTEM
            if reach is Scope.SYSTEM or (reach is Scope.AGENT and caches.has_several):
                caches.write_back(self.owner, self.unit)


class StrictMemory(LaneAtomics):
    """The memory operations of the engine with worst-case memory.

    They access global memory through the caches.
    """

    def __init__(self, dispatch: Dispatch, ledger: Ledger) -> None:
        super().__init__(dispatch.memory, dispatch.gds)
        self.ledger = ledger

    def _spaces(self, space: str, addresses: Array) -> list[tuple[str, Any]]:
        """Split the addresses by address space, and record the address spaces that a flat access uses."""
        parts = super()._spaces(space, addresses)
        if space == "flat":
            self.ledger.reached |= {REACHED[name] for name, _ in parts}
        return parts

    def _gather(self, size: int, addresses: Array, lanes: Indices) -> Rows:
        ledger, caches, uncached = self.ledger, self.ledger.caches, self.ledger.uncached
        scope = access_scope(ledger.insn)
        bypass = scope >= Scope.AGENT or (scope is Scope.GROUP and ledger.tg_split)
        how = bypass, uncached, scope >= Scope.AGENT and caches.has_several
        parts = []
        for lane, address in zip(lanes.tolist(), addresses.tolist(), strict=True):
            got, newest = self._lane(lane, caches.read, ledger.unit, address, size, *how)
            if got != newest:
                ledger.find(*caches.explain(ledger.unit, address, got, newest, uncached), address)
            parts.append(got)
        return dwords_of_bytes(np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), size))

    def _scatter(self, size: int, addresses: Array, lanes: Indices, data: Rows) -> None:
        self._check_write("global", size, addresses, lanes)
        for row, address in zip(bytes_of_rows(data, size), addresses.tolist(), strict=True):
            self.ledger.caches.issue(self.ledger.store_of(address, row.tobytes()))

    def _update(self, kind: str, bits: int, place: tuple[Plain | None, int] | None, v: int, compare: int) -> int:
        """Perform a read-modify-write in LDS, GDS, the second-level cache or memory; return the old value."""
        where, at = place or (None, 0)
        self.ledger.reached.add(LDS if where is self._lds else MEMORY)
        if where is None or where in (self._lds, self._gds):
            return super()._update(kind, bits, place, v, compare)
        address, size, uncached = where.base + at, bits >> 3, self.ledger.uncached
        caches, unit, second = self.ledger.caches, self.ledger.unit, self.ledger.unit.second
        newest = caches.read(unit, address, size, True, uncached)[1]
        if caches.has_several:
            caches.in_memory(address, size)
            got = self.memory.read(address, size)
        else:
            got = second.read(address, size, uncached)
        if got != newest:
            self.ledger.find(*caches.explain(unit, address, got, newest, uncached), address)
        if caches.has_several or uncached or not where.type.mtype.is_cached:
            old = super()._update(kind, bits, place, v, compare)
        else:
            old = int.from_bytes(got, "little")
            second.write(address, self.changed(kind, bits, old, v, compare))
        self.ledger.caches.remember(self.ledger.store_of(address, second.read(address, size, uncached)))
        return old

    def scalar_load(self, dwords: int, address: int, where: int | None = None) -> list[int]:
        """Load dwords from a guest address."""
        if where == 0:
            return [0] * dwords
        address &= ~3
        self.memory.check(address, 4 * dwords, "read")
        data = self.ledger.unit.second.read(address, 4 * dwords)
        newest = self.ledger.caches.system.newest(self.memory, address, 4 * dwords)
        if data != newest:
            self.ledger.find(*self.ledger.caches.explain(self.ledger.unit, address, data, newest, False), address)
        return [int.from_bytes(data[k : k + 4], "little") for k in range(0, 4 * dwords, 4)]

    def scalar_store(self, address: int, values: Sequence[int], where: int | None = None) -> None:
        """Store dwords to a guest address."""
        if where != 0:
            data = b"".join(v.to_bytes(4, "little") for v in values)
            self.memory.check(address & ~3, len(data), "write")
            self.ledger.unit.second.write(address & ~3, data)
            self.ledger.caches.remember(self.ledger.store_of(address & ~3, data))


class StrictLanes(Lanes):
    """The operations interface for a dispatch's waves that accesses memory through the caches."""

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
        """Begin one instruction of a wave."""
        super().begin(view, insn, lanes)
        self.ledger.begin(view, insn)

    # ---- waits -----------------------------------------------------------------------------------------------------
    def order(self, what: str, n: int = 0) -> None:
        """Perform the waits of s_waitcnt, and cache operations."""
        if what == "waitcnt":
            vm = n & 15 | (n >> 14 & 3) << 4 if self.ledger.insn.target.level >= GFX9 else n & 15
            if vm == 0 and self.ledger.caches.delays(self.ledger.owner):  # the wave repeats s_waitcnt
                self.target = self.ledger.insn.pc
                self.words[RETIRED] -= 1
            elif vm == 0:
                self.ledger.caches.written(self.ledger.owner, self.ledger.unit)
        else:
            self.ledger.order(what)
