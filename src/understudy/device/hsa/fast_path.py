"""Launches that repeat: kept ready, and where they are small, processed by machine code (`native_packets`).

A launch is kept when a kernel comes with the same sizes for the second time. It is good as long as the kernel's header
and the queue's private memory are what they were; the engine looks after the code itself, and machine code compares all
three before every packet.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import AccessFault
from understudy.device.hsa.interfaces import PacketQueue
from understudy.device.hsa.launch.plan import MOST_USER_SGPRS, read_plan
from understudy.device.hsa.native_packets import Guard, Q, T, consumer
from understudy.device.hsa.records import AmdQueue
from understudy.engine.gcn.api import Dispatch, Statistics, Words32
from understudy.engine.gcn.jit.engine import JitEngine, Launch
from understudy.engine.gcn.memory import GpuMemory, Plain
from understudy.engine.gcn.ticks import TICKS
from understudy.image.hsa.records import USER_SGPRS, LaunchFacts

IDLE_WHY: Final = (1 << 64) - 1
"""In place of why the scheduler came back: it was not called, or its packet is finished."""
_DONE: Final = Q["done"]
_LISTENED: Final = Q["listened"]
_LOG: Final = Q["log"]
_WHY: Final = Q["why"]
_SEEN: Final = Q["seen"]
MOST: Final = 16
"""Launches that a queue keeps; the one that was made first goes first."""
MOST_GROUPS: Final = 64
"""Work-groups of a launch that one thread runs in one go."""
_SCRATCH: Final = (AmdQueue.offset_of("read_dispatch_id_field_base_byte_offset"), AmdQueue.offset_of("reserved_b8"))
"""Bytes of amd_queue_t that launches depend on."""
_PATCHED: Final = {
    "enable_sgpr_dispatch_ptr": "packet_sgpr",
    "enable_sgpr_kernarg_segment_ptr": "kernarg_sgpr",
    "enable_sgpr_dispatch_id": "id_sgpr",
}

Key = bytes
"""Bytes 2 to 39 of a packet: sizes and kernel object."""
Span = tuple[int, bytes]


def key_of(packet: bytes) -> Key:
    """What decides whether two packets are launched alike."""
    return packet[2:40]


def _kernel_of(key: Key) -> int:
    return int.from_bytes(key[30:38], "little")


@dataclass(slots=True, eq=False)
class Kept:
    """A launch, what it depends on, and the registers that differ between its packets.

    `row` is for machine code, `alive` keeps alive what that reads, `guarded` is the memory among that; all are empty
    where it has no part in it.
    """

    launch: Launch
    spans: list[Span]
    registers: dict[str, int]
    table: Any = None
    row: npt.NDArray[np.uint64] | None = None
    alive: list[Any] = field(default_factory=list)
    guarded: list[Plain] = field(default_factory=list)

    def holds(self, memory: GpuMemory) -> bool:
        """Whether header and private memory are what they were."""
        try:
            return all(memory.read(address, len(data)) == data for address, data in self.spans)
        except AccessFault:
            return False

    def sgprs(self, packet_address: int, kernarg: int, index: int) -> Words32:
        """First scalar registers for a packet."""
        words = self.launch.dispatch.sgprs.copy()
        for name, value in (("packet_sgpr", packet_address), ("kernarg_sgpr", kernarg), ("id_sgpr", index)):
            at = self.registers[name]
            if at >= 0:
                words[at], words[at + 1] = value & 0xFFFF_FFFF, value >> 32
        return words


class Templates:
    """The launches that one queue keeps, and the call into machine code."""

    def __init__(self, queue: PacketQueue, engine: JitEngine) -> None:
        self.queue = queue
        self.engine = engine
        self._memory = queue.device.memory
        self._kept: dict[Key, Kept] = {}
        self._seen: dict[Key, int] = {}
        self._order: list[Kept] = []
        self._rows = np.zeros((MOST, len(T)), np.uint64)
        self._consume = consumer()
        words = queue.words
        words[Q["templates"]] = self._rows.ctypes.data
        words[Q["schedule"]] = engine.runtime.schedule_address
        words[Q["ticks"]] = TICKS.address
        self._version = self._memory.version
        self._tick = -1
        """When the engine was asked for better code last."""

    # ---- by machine code -----------------------------------------------------------------------------------------

    def consume(self, budget: int, listened: bool, log: int = 0) -> int:
        """Process packets that machine code can, at most `budget`; a result of `native_packets`.

        While somebody listened, each packet that has run is left to be completed; with `log`, those that are done are
        written there. Where a signal handler raises instead, `left` tells what was to be done.
        """
        words, memory, pause = self.queue.words, self._memory, self._memory.pause
        words[_DONE], words[_WHY], words[_LISTENED], words[_LOG] = 0, IDLE_WHY, listened, log
        TICKS.begin(self)
        try:
            while True:
                words[_SEEN] = TICKS.count[0]
                if self._order and (memory.version != self._version or words[_SEEN] != self._tick):
                    self._refresh()
                pause.enter(self)
                if not self._order or memory.version == self._version:
                    return self._consume(self.queue.block_address, budget)
                pause.leave(self)
        finally:
            pause.leave(self)
            TICKS.end(self)

    @property
    def left(self) -> int | None:
        """Why the last packet is not finished (`layout.DONE`: only its completion is missing); None: none was begun."""
        why = int(self.queue.words[_WHY])
        return None if why == IDLE_WHY else why

    def serve(self) -> None:
        """Have the waves go on that came back to Python, to their end. Errors are the guest's."""
        kept = self._current()
        kept.launch.first.resume(int(self.queue.words[_WHY]))
        self._adopt(kept)

    def ran(self) -> int:
        """Instructions of the packet that has just run."""
        return self._current().launch.first.retired

    def interpreted(self) -> int:
        """Those of it that the reference engine executed, where `serve` had its waves go on."""
        return self._current().launch.first.interpreted

    def drop_current(self) -> None:
        """Forget the launch that has just run: its waves were stopped midway."""
        current = self._current()
        self._drop(next(key for key, kept in self._kept.items() if kept is current))

    # ---- by Python -----------------------------------------------------------------------------------------------

    def again(self, data: bytes, index: int) -> Statistics | None:
        """Run a packet whose launch is kept; None where it is not, or is no longer good."""
        key = key_of(data)
        kept = self._kept.get(key)
        if kept is None:
            return None
        if not kept.holds(self._memory):
            self._drop(key)
            return None
        kernarg = int.from_bytes(data[40:48], "little")
        try:
            statistics = kept.launch.run(kept.sgprs(self.queue.packet_address(index), kernarg, index))
        except BaseException:
            self._drop(key)
            raise
        self._prepare_row(key, kept)
        return statistics

    def first(self, data: bytes, dispatch: Dispatch) -> Statistics:
        """Run a packet that had to be launched anew; keep the launch if it was seen before."""
        key = key_of(data)
        self._seen[key] = self._seen.pop(key, 0) + 1
        if len(self._seen) > 4 * MOST:
            del self._seen[next(iter(self._seen))]
        facts = read_plan(self._memory, _kernel_of(key)).facts
        registers = _registers(facts)
        if self._seen[key] < 2 or registers is None:
            return self.engine.run(dispatch)
        launch = self.engine.prepare(dispatch)
        start, end = _SCRATCH
        places = ((_kernel_of(key), LaunchFacts.size_bytes), (self.queue.address + start, end - start))
        spans = [(address, self._memory.read(address, size)) for address, size in places]
        statistics = launch.run()
        kept = Kept(launch, spans, registers)
        if len(self._kept) == MOST:
            self._drop(next(iter(self._kept)))
        self._kept[key] = kept
        self._prepare_row(key, kept)
        return statistics

    def drop(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._lay_out()

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _current(self) -> Kept:
        return self._order[int(self.queue.words[Q["template"]])]

    def _drop(self, key: Key) -> None:
        del self._kept[key]
        self._lay_out()

    def _lay_out(self) -> None:
        """Give machine code the rows there are."""
        self._order = [kept for kept in self._kept.values() if kept.row is not None]
        for number, kept in enumerate(self._order):
            assert kept.row is not None
            self._rows[number] = kept.row
        self.queue.words[Q["count"]] = len(self._order)

    def _refresh(self) -> None:
        """Before a call, now and then: rows go whose guards look at what is mapped no more, better code is taken up."""
        if self._memory.version != self._version:
            self._version = self._memory.version
            for kept in self._order:
                if all(self._memory.plain(plain.base, plain.end - plain.base) is plain for plain in kept.guarded):
                    kept.launch.first.forget_places()
                else:
                    kept.row = None
            if any(kept.row is None for kept in self._order):
                self._lay_out()
        self._tick = TICKS.count[0]
        self.engine.adopt()
        self.queue.words[Q["schedule"]] = self.engine.runtime.schedule_address
        for kept in self._order:
            self._adopt(kept)

    def _adopt(self, kept: Kept) -> None:
        """Look into the newest table of code from now on."""
        table = kept.launch.code.table
        if kept.row is not None and table is not kept.table:
            kept.table = table
            kept.row[T["table"]] = table.address
            self._lay_out()

    def _prepare_row(self, key: Key, kept: Kept) -> None:
        """The row for machine code, made of what is there now, if the launch is a small one."""
        launch = kept.launch
        kept.row = None
        guards = self._guards([*kept.spans, *_code(launch)]) if 0 < len(launch.dispatch.groups) <= MOST_GROUPS else None
        if guards is not None:
            rows, kept.alive, kept.guarded = guards
            kept.table = launch.code.table
            first = launch.first
            words = {
                "key0": int.from_bytes(key[:6], "little"), "context": first.context.ctypes.data,
                "groups": len(launch.dispatch.groups), "table": kept.table.address, "guards": rows.ctypes.data,
                "guard_count": len(rows), "sgprs": first.sgprs.ctypes.data, "waves": len(first.sgprs), **kept.registers,
            }  # fmt: skip
            for number in range(4):
                words[f"key{number + 1}"] = int.from_bytes(key[6 + 8 * number : 14 + 8 * number], "little")
            kept.row = np.zeros(len(T), np.uint64)
            for name, value in words.items():
                kept.row[T[name]] = int(value) & (1 << 64) - 1
        self._lay_out()

    def _guards(self, spans: list[Span]) -> tuple[npt.NDArray[np.uint64], list[Any], list[Plain]] | None:
        """Rows that compare what is with what was, and the memory; None where something lies in no plain memory."""
        rows = np.zeros((len(spans), ctypes.sizeof(Guard) // 8), np.uint64)
        alive: list[Any] = [rows]
        guarded = []
        for number, (address, data) in enumerate(spans):
            plain = self._memory.plain(address, len(data))
            if plain is None:
                return None
            copy = np.frombuffer(data, np.uint8).copy()
            alive.append(copy)
            guarded.append(plain)
            rows[number] = plain.bytes.ctypes.data + address - plain.base, copy.ctypes.data, len(data) // 4
        return rows, alive, guarded


def _code(launch: Launch) -> list[Span]:
    """The code that the waves may run through: of the region they begin in, or of all where that can be left."""
    place = (launch.dispatch.entry, launch.dispatch.mode)
    kept = launch.code.table.kept
    first = next((made for made in reversed(kept) if place in made.rows), None)
    if first is not None and first.is_closed:
        return list(first.spans)
    return [span for made in kept for span in made.spans]


def _registers(facts: LaunchFacts) -> dict[str, int] | None:
    """Numbers of the registers that differ between launches, -1 for none; None where one is cut off."""
    count = min(facts.compute_pgm_rsrc2.user_sgpr_count, MOST_USER_SGPRS)
    found, at = dict.fromkeys(_PATCHED.values(), -1), 0
    for name, size in USER_SGPRS:
        if not getattr(facts.properties, name):
            continue
        if name in _PATCHED and at < count:
            if at + size > count:
                return None
            found[_PATCHED[name]] = at
        at += size
    return found
