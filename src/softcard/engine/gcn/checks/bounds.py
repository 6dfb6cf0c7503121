"""The check `memory` on the reference engine: each access is checked, then made as without the check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from softcard.core.allocations import AccessOrigin, Guard
from softcard.core.checks import MEMORY
from softcard.core.errors import GuestFault, Registers, SoftcardError
from softcard.core.findings import FindingLog
from softcard.core.memory_check import LDS, MISALIGNED, PRIVATE, finding
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import Check
from softcard.engine.gcn.memory import Plain
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_integer import Array, Value
from softcard.engine.gcn.reference.lane_memory import Indices, Rows, shared
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import LONGEST
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import HW_ID, LANES, LDS_BASE, LDS_SIZE, PC

if TYPE_CHECKING:
    from softcard.engine.gcn.races.swap_loops import SwapLoops


# ---- accesses --------------------------------------------------------------------------------------------------------
# Accesses of the reference engine under the check of memory: each one is checked, then made as without the check.
#
# Translated code exits here for each access that is not wholly inside plain memory, so every wrong access is checked.


WORD: Final = 4
WAVE: Final = 0x3F
"""The mask of the field of the register HW_ID that holds the number of a wave in its work-group."""


class CheckedAccesses(LaneAtomics):
    """The memory accesses of `LaneAtomics`, with a check of each access. Their effects are the same."""

    def __init__(self, dispatch: Dispatch, guard: Guard, log: FindingLog) -> None:
        super().__init__(dispatch.memory, dispatch.gds)
        self._dispatch = dispatch
        self._guard = guard
        self._log = log
        self._loops: SwapLoops | None = None

    # ---- global memory -------------------------------------------------------------------------------------------

    def _gather(self, size: int, addresses: Array, lanes: Indices) -> Rows:
        self._check_access("read", size, addresses, lanes, False)
        return super()._gather(size, addresses, lanes)

    def _scatter(self, size: int, addresses: Array, lanes: Indices, data: Rows) -> None:
        self._check_access("write", size, addresses, lanes, True)
        super()._scatter(size, addresses, lanes, data)

    def _check_access(self, access: str, size: int, addresses: Array, lanes: Indices, store: bool) -> None:
        if self._reach(size, addresses, store) is None:
            if access == "read" and size == WORD:
                wrong = [n for n, each in enumerate(addresses.tolist()) if not self._has_a_part(each)]
                if len(wrong) < len(addresses) and self._loads_for_swap():
                    addresses, lanes = addresses[wrong], lanes[wrong]
            whom = [(lane,) for lane in lanes.tolist()]
            self._guard.check_lanes(access, size, addresses.tolist(), self._origin(), whom)

    def _has_a_part(self, address: int) -> bool:
        """Return True if an allocation ends inside the dword at `address`.

        Return False if `address` is not a multiple of 4."""
        below, _ = self._guard.allocations.around(address)
        return below is not None and not below.freed and address % WORD == 0 and address < below.end < address + WORD

    def _loads_for_swap(self) -> bool:
        """Return True if the current load is in a compare-and-swap loop that implements an atomic of less than a dword.

        Such a loop swaps whole dwords, of which some bytes may be past the end of an allocation."""
        if self._loops is None:
            from softcard.engine.gcn.races.swap_loops import SwapLoops  # few arrays end within a dword

            self._loops = SwapLoops()
        self._loops.follow(self._dispatch, self._fetch)
        return int(self.current.words[PC]) in self._loops.present.pcs

    def _fetch(self, pc: int) -> Insn:
        found = self.memory.find(pc)
        if not isinstance(found, Plain):
            raise GuestFault("the wave would fetch an instruction outside of memory").at("pc", pc)
        return decode(self._dispatch.target, found.view[pc - found.base : pc - found.base + LONGEST].tobytes(), pc)

    def scalar_load(self, dwords: int, address: int, where: int | None = None) -> list[int]:
        """Check and load dwords for the wave.

        Report only dwords without any allocated byte, as hardware reads whole dwords.
        """
        if where != 0:
            self._check_scalar("read", address, dwords)
        return super().scalar_load(dwords, address, where)

    def scalar_store(self, address: int, values: Sequence[int], where: int | None = None) -> None:
        """Check and store dwords for the wave. Report only dwords without any allocated byte."""
        if where != 0:
            self._check_scalar("write", address, len(values))
        super().scalar_store(address, values, where)

    def _check_scalar(self, access: str, address: int, dwords: int) -> None:
        address &= ~3
        if self.memory.plain(address, 4 * dwords) is not None:
            return
        below, _ = self._guard.allocations.around(address)
        size = 4 * dwords
        if below is not None and below.base <= address < below.end and not below.freed:
            size = min(size, (below.end + 3 & ~3) - address)  # the rest of the last dword is read along
            if size == 4 * dwords:
                return
            address, size = address + size, 4 * dwords - size
        self._guard.check(access, size, address, self._origin())

    # ---- atomics -------------------------------------------------------------------------------------------------

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
        """Check the accesses of all lanes, then perform the atomic lane after lane; return the old values."""
        lanes = self.current.lanes_where(where)
        addresses = self._addresses(space, address, lanes)
        leaves_rest = (
            self._swaps_leaving_rest(addresses, lanes, v, compare) if kind == "cmpswap" and bits == 32 else None
        )
        for part, chosen in self._spaces(space, addresses):
            some = (addresses, lanes) if chosen is None else (addresses[chosen], lanes[chosen])
            if leaves_rest is not None and part == "global":
                left = ~leaves_rest if chosen is None else ~leaves_rest[chosen]
                some = some[0][left], some[1][left]
            self._check_atomic(part, bits >> 3, *some)
        return super().atomic(space, kind, bits, address, v, compare, where)

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
        """Check and perform one atomic operation of the wave; return the old value."""
        if where != 0 and space == "global":
            self._guard.check("atomic", bits >> 3, address, self._origin())
        return super().scalar_atomic(space, kind, bits, address, v, compare, where)

    def _swaps_leaving_rest(self, addresses: Array, lanes: Indices, v: Value, compare: Value | None) -> Any:
        """Return a mask of the lanes whose compare-and-swap changes no byte past an allocation's end.

        Such swaps implement atomics smaller than a dword on the last bytes of an allocation."""
        new, old = (np.broadcast_to(np.asarray(each, np.uint32), LANES)[lanes] for each in (v, compare))
        found = np.zeros(len(lanes), np.bool_)
        for number, address in enumerate(addresses.tolist()):
            if self._has_a_part(address):
                below, _ = self._guard.allocations.around(address)
                assert below is not None
                found[number] = int(new[number] ^ old[number]) >> 8 * (below.end - address) == 0
        return found

    def _check_atomic(self, space: str, size: int, addresses: Array, lanes: Indices) -> None:
        if space in ("lds", "shared"):
            self._check_lds("atomic", size, self._share_at(space, addresses)[1], lanes)
        elif space == "global":
            whom = [(lane,) for lane in lanes.tolist()]
            self._guard.check_lanes("atomic", size, addresses.tolist(), self._origin(), whom)
            wrong = np.flatnonzero(addresses % np.uint64(size))
            if len(wrong):
                first = int(addresses[wrong[0]])
                what = f"atomic of {size} bytes at {first:#x}: the address must be a multiple of {size}"
                whose = tuple(lanes[wrong].tolist())
                more = {"access": "atomic", "space": "global", "address": first, "size": size, "count": len(whose)}
                self._log.note(self._finding(MISALIGNED, what, whose, **more))

    # ---- LDS and private memory ----------------------------------------------------------------------------------

    def _read(self, space: str, size: int, addresses: Array, lanes: Indices) -> Rows:
        if space in ("lds", "shared"):
            self._check_lds("read", size, self._share_at(space, addresses)[1], lanes)
        return super()._read(space, size, addresses, lanes)

    def _write(self, space: str, size: int, addresses: Array, lanes: Indices, data: Rows) -> None:
        if space in ("lds", "shared"):
            self._check_lds("write", size, self._share_at(space, addresses)[1], lanes)
        super()._write(space, size, addresses, lanes, data)

    def _local(self) -> Plain:
        """Return LDS with its allocated size, which may be larger than the size that the kernel requested."""
        key = (self.current.words[LDS_BASE], self._dispatch.lds_bytes)
        if key != self._lds_key:
            self._lds, self._lds_key = shared(*key, "LDS"), key
        return self._lds

    def _check_lds(self, access: str, size: int, at: Array, lanes: Indices) -> None:
        room = int(self.current.words[LDS_SIZE])
        outside = np.flatnonzero(at > room - size)
        if not len(outside):
            return
        first, whom = int(at[outside[0]]), tuple(lanes[outside].tolist())
        place = "partly past the end of" if first < room else f"{first - room} bytes past the end of"
        if first >> 31:  # offsets have 32 bits: an index below 0, or the null pointer of LDS
            place = f"{(1 << 32) - first} bytes before"
        what = f"{access} of {size} bytes at LDS offset {first:#x}: {place} the {room} bytes of LDS of the work-group"
        self._log.note(
            self._finding(
                LDS,
                what,
                whom,
                access=access,
                space="LDS",
                address=first,
                size=size,
                count=len(whom),
                distance=first - (1 << 32) if first >> 31 else max(first - room + 1, 0),
            )
        )

    def _offsets(self, size: int, addresses: Array, lanes: Indices, access: str) -> Array:
        limit = self._private_memory()[1]
        low = addresses & np.uint64(0xFFFF_FFFF)
        outside = np.flatnonzero(low.astype(np.int64) + size > limit)
        if len(outside):
            first, whom = int(low[outside[0]]), tuple(lanes[outside].tolist())
            what = (
                f"{access} of {size} bytes at offset {first:#x} of private memory is out of bounds: a work-item has "
                f"{limit} bytes"
            )
            self._log.note(
                self._finding(
                    PRIVATE, what, whom, access=access, space="private", address=first, size=size, count=len(whom)
                )
            )
        return super()._offsets(size, addresses, lanes, access)

    # ---- reports -------------------------------------------------------------------------------------------------

    def _finding(self, kind: str, what: str, lanes: tuple[int, ...], **more: Any) -> Any:
        made = finding(kind, what, self._origin(), **more)
        made.lanes = lanes
        return made

    def _origin(self) -> AccessOrigin:
        """Return the location of the access: instruction, wave and work-group."""
        words, (x, y, z) = self.current.words, self.current.group
        pc = int(words[PC])
        return AccessOrigin(
            pc, self._insn(pc), f"wave {words[HW_ID] & WAVE}", f"{x},{y},{z}", registers=self._registers
        )

    def _insn(self, pc: int) -> str:
        try:
            return text(self._fetch(pc))
        except SoftcardError:
            return ""

    def _registers(self, lane: int | None) -> Registers | None:
        """Return the registers that the current instruction reads; None if it cannot be read or specialised."""
        from softcard.engine.gcn.reference.lanes import registers_at  # few kernels have findings

        wave = self.current.wave
        try:
            insn = self._fetch(wave.pc)
        except SoftcardError:
            return None
        return registers_at(self._dispatch, wave, insn, lane)


# ---- check -----------------------------------------------------------------------------------------------------------


class BoundsCheck(Check):
    """The check of accesses against the allocations of a memory (`GpuMemory.guard`)."""

    name = MEMORY

    def __init__(self, guard: Guard, log: FindingLog) -> None:
        self._guard = guard
        self._log = log

    def accesses(self, dispatch: Dispatch) -> Any:
        """Return the reference engine's memory operations that report accesses outside of allocations."""
        return CheckedAccesses(dispatch, self._guard, self._log)

    def device_closes(self) -> None:
        """Report allocations that the host has not freed, if leaks are checked."""
        self._guard.closed()
