"""Accesses of the reference engine under the check of memory: judged before they are made, and then made as ever.

Translated code comes here with whatever is not plain memory from end to end: every wrong access passes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from understudy.core.errors import UnderstudyError
from understudy.core.memory_check import LDS, MISALIGNED, PRIVATE, MemoryCheck, Sight, finding
from understudy.engine.gcn.api import Dispatch
from understudy.engine.gcn.memory import Plain
from understudy.engine.gcn.reference.lane_atomic import LaneAtomics
from understudy.engine.gcn.reference.lane_integer import Array, Value
from understudy.engine.gcn.reference.lane_memory import Indices, Rows, shared
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.state import HW_ID, LDS_BASE, LDS_SIZE, PC

LONGEST: Final = 12
"""Bytes that may have to be looked at to decode an instruction."""
WAVE: Final = 0x3F
"""Of HW_ID: the number of the wave in its work-group."""


class CheckedAccesses(LaneAtomics):
    """`LaneAtomics` that tell a check of what is wrong with an access. Nothing of what they do is another thing."""

    def __init__(self, dispatch: Dispatch, check: MemoryCheck) -> None:
        super().__init__(dispatch.memory, dispatch.gds)
        self._dispatch = dispatch
        self._check = check

    # ---- global memory -------------------------------------------------------------------------------------------

    def _gather(self, size: int, addresses: Array, lanes: Indices) -> Rows:
        self._judge("read", size, addresses, lanes, False)
        return super()._gather(size, addresses, lanes)

    def _scatter(self, size: int, addresses: Array, lanes: Indices, data: Rows) -> None:
        self._judge("write", size, addresses, lanes, True)
        super()._scatter(size, addresses, lanes, data)

    def _judge(self, access: str, size: int, addresses: Array, lanes: Indices, store: bool) -> None:
        if self._reach(size, addresses, store) is None:
            whom = [(lane,) for lane in lanes.tolist()]
            self._check.judge_lanes(access, size, addresses.tolist(), self._sight(), whom)

    def scalar_load(self, dwords: int, address: int, where: int | None = None) -> list[int]:
        """Dwords of which no byte is allocated are told of: hardware reads them as a whole."""
        if where != 0:
            self._judge_scalar("read", address, dwords)
        return super().scalar_load(dwords, address, where)

    def scalar_store(self, address: int, values: Sequence[int], where: int | None = None) -> None:
        """Likewise."""
        if where != 0:
            self._judge_scalar("write", address, len(values))
        super().scalar_store(address, values, where)

    def _judge_scalar(self, access: str, address: int, dwords: int) -> None:
        address &= ~3
        if self.memory.plain(address, 4 * dwords) is not None:
            return
        below, _ = self._check.allocations.around(address)
        size = 4 * dwords
        if below is not None and below.base <= address < below.end and not below.freed:
            size = min(size, (below.end + 3 & ~3) - address)  # the rest of its last dword is read with it
            if size == 4 * dwords:
                return
            address, size = address + size, 4 * dwords - size
        self._check.judge(access, size, address, self._sight())

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
        """All lanes are judged before the first of them acts."""
        lanes = self.current.lanes_where(where)
        addresses = self._addresses(space, address, lanes)
        for part, chosen in self._spaces(space, addresses):
            some = (addresses, lanes) if chosen is None else (addresses[chosen], lanes[chosen])
            self._judge_atomic(part, bits >> 3, *some)
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
        """Likewise."""
        if where != 0 and space == "global":
            self._check.judge("atomic", bits >> 3, address, self._sight())
        return super().scalar_atomic(space, kind, bits, address, v, compare, where)

    def _judge_atomic(self, space: str, size: int, addresses: Array, lanes: Indices) -> None:
        if space in ("lds", "shared"):
            self._judge_lds("atomic", size, self._share_at(space, addresses)[1], lanes)
        elif space == "global":
            whom = [(lane,) for lane in lanes.tolist()]
            self._check.judge_lanes("atomic", size, addresses.tolist(), self._sight(), whom)
            wrong = np.flatnonzero(addresses % np.uint64(size))
            if len(wrong):
                first = int(addresses[wrong[0]])
                what = f"atomic of {size} bytes at {first:#x}: the address is no multiple of {size}"
                whose = tuple(lanes[wrong].tolist())
                more = {"access": "atomic", "space": "global", "address": first, "size": size, "count": len(whose)}
                self._check.log.note(self._finding(MISALIGNED, what, whose, **more))

    # ---- LDS and private memory ----------------------------------------------------------------------------------

    def _read(self, space: str, size: int, addresses: Array, lanes: Indices) -> Rows:
        if space in ("lds", "shared"):
            self._judge_lds("read", size, self._share_at(space, addresses)[1], lanes)
        return super()._read(space, size, addresses, lanes)

    def _write(self, space: str, size: int, addresses: Array, lanes: Indices, data: Rows) -> None:
        if space in ("lds", "shared"):
            self._judge_lds("write", size, self._share_at(space, addresses)[1], lanes)
        super()._write(space, size, addresses, lanes, data)

    def _local(self) -> Plain:
        """LDS as it is allocated: what is behind the bytes asked for is there all the same."""
        key = (self.current.words[LDS_BASE], self._dispatch.lds_bytes)
        if key != self._lds_key:
            self._lds, self._lds_key = shared(*key, "LDS"), key
        return self._lds

    def _judge_lds(self, access: str, size: int, at: Array, lanes: Indices) -> None:
        room = int(self.current.words[LDS_SIZE])
        outside = np.flatnonzero(at > room - size)
        if not len(outside):
            return
        first, whom = int(at[outside[0]]), tuple(lanes[outside].tolist())
        behind = "a part of it" if first < room else f"{first - room} bytes" if first > room else "right"
        place = f"{behind} behind"
        if first >> 31:  # offsets have 32 bits: an index below 0, or the null pointer of LDS
            place = f"{(1 << 32) - first} bytes before"
        what = f"{access} of {size} bytes at LDS offset {first:#x}: {place} the {room} bytes of the work-group"
        self._check.log.note(
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
            what = f"{access} of {size} bytes at offset {first:#x} of private memory: a work-item has {limit} bytes"
            self._check.log.note(
                self._finding(
                    PRIVATE, what, whom, access=access, space="private", address=first, size=size, count=len(whom)
                )
            )
        return super()._offsets(size, addresses, lanes, access)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _finding(self, kind: str, what: str, lanes: tuple[int, ...], **more: Any) -> Any:
        made = finding(kind, what, self._sight(), **more)
        made.lanes = lanes
        return made

    def _sight(self) -> Sight:
        """The instruction, its wave and its work-group."""
        words, (x, y, z) = self.current.words, self.current.group
        pc = int(words[PC])
        return Sight(pc, self._insn(pc), f"wave {words[HW_ID] & WAVE}", f"{x},{y},{z}")

    def _insn(self, pc: int) -> str:
        found = self.memory.find(pc)
        if not isinstance(found, Plain):
            return ""
        code = found.view[pc - found.base : pc - found.base + LONGEST].tobytes()
        try:
            return text(decode(self._dispatch.target, code, pc))
        except UnderstudyError:
            return ""
