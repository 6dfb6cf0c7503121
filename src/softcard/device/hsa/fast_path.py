"""The fast path for repeated launches: a cache of launches, and machine code that processes small launches.

A launch is cached when a kernel is launched with equal sizes for the second time. It is valid while the
kernel's header and the queue's private memory do not change. The engine tracks changes of the code itself;
machine code (`native_packets`) compares header, private memory and code with the cached ones before every
packet."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import AccessFault
from softcard.device.hsa.interfaces import PacketQueue
from softcard.device.hsa.launch.first_state import preloaded
from softcard.device.hsa.launch.plan import Preload, read_plan
from softcard.device.hsa.native_packets import Guard, Q, T, consumer
from softcard.device.hsa.queues.records import AmdQueue
from softcard.engine.gcn.api import Dispatch, Statistics, Words32
from softcard.engine.gcn.memory import GpuMemory, Plain
from softcard.engine.gcn.pause import TICKS
from softcard.engine.gcn.tiered.engine import JitEngine, Launch
from softcard.image.hsa.records import MOST_USER_SGPRS, USER_SGPRS, LaunchFacts

IDLE_WHY: Final = (1 << 64) - 1
"""The scheduler's exit reason if it was not called, or if its packet is finished."""
_DONE: Final = Q["done"]
_LISTENED: Final = Q["listened"]
_LOG: Final = Q["log"]
_WHY: Final = Q["why"]
_SEEN: Final = Q["seen"]
MOST: Final = 16
"""The maximum number of cached launches of a queue; if there are more, the oldest one is dropped."""
MOST_GROUPS: Final = 64
"""The maximum number of work-groups of a launch that machine code processes."""
_SCRATCH: Final = (AmdQueue.offset_of("read_dispatch_id_field_base_byte_offset"), AmdQueue.offset_of("reserved_b8"))
"""The range of bytes in amd_queue_t whose contents cached launches depend on."""
_PATCHED: Final = {
    "enable_sgpr_dispatch_ptr": "packet_sgpr",
    "enable_sgpr_kernarg_segment_ptr": "kernarg_sgpr",
    "enable_sgpr_dispatch_id": "id_sgpr",
}

Key = bytes
"""The cache key of a launch, bytes 2 to 39 of a packet: sizes and kernel object."""
Span = tuple[int, bytes]


def key_of(packet: bytes) -> Key:
    """Return the cache key of a packet. Packets whose launches are equal have equal keys."""
    return packet[2:40]


def _kernel_of(key: Key) -> int:
    return int.from_bytes(key[30:38], "little")


@dataclass(slots=True, eq=False)
class CachedLaunch:
    """A cached launch, the memory that it depends on, and the registers that differ from packet to packet.

    The native code that processes packets uses three attributes. `row` is the launch's entry in its table, and
    `alive` holds references to the memory that `row` points to, so that this memory is not freed. `guarded` is the
    memory whose content it compares with the content at the time of caching; a difference makes the cached launch
    invalid. All three are empty for launches that only Python code can process."""

    launch: Launch
    code_ranges: list[Span]
    registers: dict[str, int]
    preload: Preload | None = None
    """The kernel arguments that are preloaded into scalar registers, and differ from packet to packet."""
    table: Any = None
    row: npt.NDArray[np.uint64] | None = None
    alive: list[Any] = field(default_factory=list)
    guarded: list[Plain] = field(default_factory=list)

    def holds(self, memory: GpuMemory) -> bool:
        """Return True if kernel header and queue's private memory are unchanged, so that the launch is still valid."""
        try:
            return all(memory.read(address, len(data)) == data for address, data in self.code_ranges)
        except AccessFault:
            return False

    def sgprs(self, memory: GpuMemory, packet_address: int, kernarg: int, index: int) -> Words32:
        """Return the initial scalar registers for the packet at `packet_address` with index `index`.

        `kernarg` is the address of the packet's kernel arguments. Raise `DispatchRefused` if arguments have to be
        preloaded into registers and cannot be read."""
        words = self.launch.dispatch.sgprs.copy()
        for name, value in (("packet_sgpr", packet_address), ("kernarg_sgpr", kernarg), ("id_sgpr", index)):
            at = self.registers[name]
            if at >= 0:
                words[at], words[at + 1] = value & 0xFFFF_FFFF, value >> 32
        if self.preload is not None:
            at = self.preload.sgpr
            words[at : at + self.preload.dwords] = preloaded(memory, kernarg, self.preload)
        return words


class Templates:
    """The cached launches of one queue, and the calls into the simulator's native code that processes its packets.

    The native code uses the cached launches as templates: it launches a similar packet by changing only the
    registers that differ."""

    def __init__(self, queue: PacketQueue, engine: JitEngine) -> None:
        self.queue = queue
        self.engine = engine
        self._memory = queue.device.memory
        self._launches: dict[Key, CachedLaunch] = {}
        self._seen: dict[Key, int] = {}
        self._order: list[CachedLaunch] = []
        self._rows = np.zeros((MOST, len(T)), np.uint64)
        self._consume = consumer()
        words = queue.words
        words[Q["templates"]] = self._rows.ctypes.data
        words[Q["schedule"]] = engine.runtime.schedule_address
        words[Q["ticks"]] = TICKS.address
        self._version = self._memory.version
        self.noted: list[tuple[int, Dispatch]] = []
        """The kernel object and the launch of each cached launch with a note to report (`Dispatch.lds_note`)."""
        self._tick = -1
        """The clock value at which the engine was last asked for better optimised code."""

    # ---- by machine code -----------------------------------------------------------------------------------------

    def consume(self, budget: int, listened: bool, log: int = 0) -> int:
        """Process at most `budget` packets by native code of the simulator; return a result code of `native_packets`.

        If `listened`, the native code leaves the completion of each finished packet to the caller. If `log` is not
        0, finished packets are recorded at that address. If a signal handler raises an exception, `left` has the
        reason why the last packet is unfinished."""
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
        """The reason why the packet that the native code processed last is not finished, or None if it is finished.

        The value `layout.DONE` means that only the packet's completion is missing."""
        why = int(self.queue.words[_WHY])
        return None if why == IDLE_WHY else why

    def serve(self) -> None:
        """Execute the waves that the simulator's native code could not finish, from their current state to their end.

        Raise the errors of the guest program that occur."""
        cached = self._current()
        cached.launch.first.resume(int(self.queue.words[_WHY]))
        self._adopt(cached)

    def ran(self) -> int:
        """Return the number of instructions that the latest packet executed."""
        return self._current().launch.first.retired

    def interpreted(self) -> int:
        """Return the number of the latest packet's instructions that the reference engine executed in `serve`."""
        return self._current().launch.first.interpreted

    def drop_current(self) -> None:
        """Remove the latest launch from the cache, because its waves were stopped before their end."""
        current = self._current()
        self._drop(next(key for key, cached in self._launches.items() if cached is current))

    # ---- by Python -----------------------------------------------------------------------------------------------

    def repeat(self, data: bytes, index: int) -> Statistics | None:
        """Run the packet `data` with its cached launch.

        Return None if the launch is not cached, or if the cached one is not valid any more."""
        key = key_of(data)
        cached = self._launches.get(key)
        if cached is None:
            return None
        if not cached.holds(self._memory):
            self._drop(key)
            return None
        kernarg = int.from_bytes(data[40:48], "little")
        try:
            words = cached.sgprs(self._memory, self.queue.packet_address(index), kernarg, index)
            statistics = cached.launch.run(words)
        except BaseException:
            self._drop(key)
            raise
        self._prepare_row(key, cached)
        return statistics

    def first(self, data: bytes, dispatch: Dispatch) -> Statistics:
        """Run the packet `data` with its new launch `dispatch`, which is not in the cache.

        Cache the launch if a packet with an equal key was run before, and if the kernel gets each value that
        differs between packets either completely in registers or not at all."""
        key = key_of(data)
        self._seen[key] = self._seen.pop(key, 0) + 1
        if len(self._seen) > 4 * MOST:
            del self._seen[next(iter(self._seen))]
        plan = read_plan(self._memory, _kernel_of(key), dispatch.target)
        registers = _registers(plan.facts)
        if self._seen[key] < 2 or registers is None:
            return self.engine.run(dispatch)
        launch = self.engine.prepare(dispatch)
        start, end = _SCRATCH
        places = ((_kernel_of(key), LaunchFacts.size_bytes), (self.queue.address + start, end - start))
        code_ranges = [(address, self._memory.read(address, size)) for address, size in places]
        statistics = launch.run()
        cached = CachedLaunch(launch, code_ranges, registers, plan.preload)
        if len(self._launches) == MOST:
            self._drop(next(iter(self._launches)))
        self._launches[key] = cached
        self._prepare_row(key, cached)
        return statistics

    def drop(self) -> None:
        """Drop all cached launches."""
        self._launches.clear()
        self._lay_out()

    # ---- helpers ---------------------------------------------------------------------------------------------------

    def _current(self) -> CachedLaunch:
        return self._order[int(self.queue.words[Q["template"]])]

    def _drop(self, key: Key) -> None:
        del self._launches[key]
        self._lay_out()

    def _lay_out(self) -> None:
        """Write the entries of all cached launches to the table that the simulator's native code reads."""
        self._order = [cached for cached in self._launches.values() if cached.row is not None]
        for number, cached in enumerate(self._order):
            assert cached.row is not None
            self._rows[number] = cached.row
        self.queue.words[Q["count"]] = len(self._order)

    def _refresh(self) -> None:
        """Update the native code's table of launches after memory mappings changed or the engine compiled code.

        Entries that refer to unmapped memory are dropped. The others use the newly compiled code, which is better
        optimised."""
        if self._memory.version != self._version:
            self._version = self._memory.version
            for cached in self._order:
                if all(self._memory.plain(plain.base, plain.end - plain.base) is plain for plain in cached.guarded):
                    cached.launch.first.forget_places()
                else:
                    cached.row = None
            if any(cached.row is None for cached in self._order):
                self._lay_out()
        self._tick = TICKS.count[0]
        self.engine.adopt()
        self.queue.words[Q["schedule"]] = self.engine.runtime.schedule_address
        for key, cached in self._launches.items():
            self._adopt(cached)
            if cached.launch.dispatch.lds_note[0]:
                self.noted.append((_kernel_of(key), cached.launch.dispatch))

    def _adopt(self, cached: CachedLaunch) -> None:
        """Make the entry of the launch `cached` refer to the engine's current table of compiled code.

        The entry is in the table that the simulator's native code reads."""
        table = cached.launch.code.table
        if cached.row is not None and table is not cached.table:
            cached.table = table
            cached.row[T["table"]] = table.address
            self._lay_out()

    def _prepare_row(self, key: Key, cached: CachedLaunch) -> None:
        """Create the entry (`row`) of `cached` in the native code's table of launches, if the launch is small enough.

        The entry describes the current state of the kernel and the queue."""
        launch = cached.launch
        cached.row = None
        guards = (
            self._guards([*cached.code_ranges, *_code(launch)])
            if 0 < len(launch.dispatch.groups) <= MOST_GROUPS
            else None
        )
        if guards is not None:
            rows, cached.alive, cached.guarded = guards
            cached.table = launch.code.table
            first = launch.first
            words = {
                "key0": int.from_bytes(key[:6], "little"), "context": first.context.ctypes.data,
                "groups": len(launch.dispatch.groups), "table": cached.table.address, "guards": rows.ctypes.data,
                "guard_count": len(rows), "sgprs": first.sgprs.ctypes.data, "waves": len(first.sgprs),
                **cached.registers,
            }  # fmt: skip
            if (preload := cached.preload) is not None:
                words |= {"preload_sgpr": preload.sgpr, "preload_at": preload.offset, "preload_dwords": preload.dwords}
            for number in range(4):
                words[f"key{number + 1}"] = int.from_bytes(key[6 + 8 * number : 14 + 8 * number], "little")
            cached.row = np.zeros(len(T), np.uint64)
            for name, value in words.items():
                cached.row[T[name]] = int(value) & (1 << 64) - 1
        self._lay_out()

    def _guards(self, code_ranges: list[Span]) -> tuple[npt.NDArray[np.uint64], list[Any], list[Plain]] | None:
        """Return the comparisons by which the native code detects changes of memory before it processes a packet.

        `code_ranges` are addresses and the bytes that are expected there. Also return the objects that the
        comparisons refer to, which the caller must keep alive, and the compared memory. Return None if some of
        the compared memory is not plain RAM."""
        rows = np.zeros((len(code_ranges), ctypes.sizeof(Guard) // 8), np.uint64)
        alive: list[Any] = [rows]
        guarded = []
        for number, (address, data) in enumerate(code_ranges):
            plain = self._memory.plain(address, len(data))
            if plain is None:
                return None
            copy = np.frombuffer(data, np.uint8).copy()
            alive.append(copy)
            guarded.append(plain)
            rows[number] = plain.bytes.ctypes.data + address - plain.base, copy.ctypes.data, len(data) // 4
        return rows, alive, guarded


def _code(launch: Launch) -> list[Span]:
    """Return the address ranges and bytes of the code that the launch's waves may execute.

    This is the translated region that contains the entry, or all code if waves can leave the region."""
    place = (launch.dispatch.entry, launch.dispatch.mode)
    cached = launch.code.table.alive
    first = next((made for made in reversed(cached) if place in made.rows), None)
    if first is not None and first.is_closed:
        return list(first.code_ranges)
    return [span for made in cached for span in made.code_ranges]


def _registers(facts: LaunchFacts) -> dict[str, int] | None:
    """Return the numbers of the user SGPRs whose values differ between packets, by the name of the value.

    The number is -1 for a value that the kernel does not get. Return None if only a part of a value is in
    registers."""
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
