"""The race check of harts on the JIT engine: compiled code checks most accesses; this module does the rest.

This module handles reports of races, DMA transfers, barriers, groups, and accesses of the host. The results equal those
of `HartRaces`, which states the rules in readable form.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.checks import RACES
from softcard.core.errors import ModelBug
from softcard.core.findings import FindingLog
from softcard.core.space import PAGE_BITS, Ram
from softcard.engine.races.tables import check_limits, over_limit
from softcard.engine.riscv.evaluate import Evaluator
from softcard.engine.riscv.hooks import Extents, HartCheck, Instrumentation, Outstanding
from softcard.engine.riscv.races import native_batch, native_check, native_fast_path, native_order
from softcard.engine.riscv.races.layout import (
    ACQUIRES,
    BYTES,
    CACHE_BYTES,
    CACHES,
    CLOCK_BYTES,
    ENTRIES,
    ENTRY_BYTES,
    EVENT_BYTES,
    EVENT_ROOM,
    FULL,
    IS_ATOMIC,
    KIND,
    LIMIT,
    MOVING,
    MOVING_BYTES,
    NAMES,
    PAGE_SLOTS,
    PENDING,
    RELEASES,
    SIZE_AT,
    SLOT_AT,
    SPLIT,
    SPLIT_BYTES,
    SPLITS,
    SUSPECT_BYTES,
    EventRow,
    HartRow,
    MovingRow,
    Race,
    RamRow,
    SuspectRow,
    atomic_bit,
    slot_mask,
)
from softcard.engine.riscv.races.watch import (
    GROUPS,
    HOST,
    MOST_BYTES,
    READ,
    WRITE,
    Agent,
    Cell,
    Event,
    Reporter,
    Suspect,
    report_host,
)
from softcard.ir.native import Natives
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import RACES as RACES_WORD
from softcard.isa.riscv.state import Hart

DWORD: Final = 4
SKEW: Final = 192
"""The padding in bytes between arrays of shadow words.

The words for the same bytes are accessed together in several arrays, and processors mistake a load for one of a recent
store if both addresses have the same offset in a page.
"""
NATIVES: Final = Natives(
    native_check.check, native_check.check_many, native_check.known_event, native_check.made_event,
    native_check.make_known,
    native_check.suspect, native_fast_path.check_load, native_fast_path.check_store, native_fast_path.check_atomic,
    native_batch.check_rounds, native_batch.update_rounds,
    native_order.fence, native_order.begin_group, native_order.begin_next_group,
    native_order.barrier, native_order.release, native_order.drop_last_load,
    native_order.refresh, native_order.is_before, native_order.forget_suspects,
)  # fmt: skip
function: Final = NATIVES.function
CALLED: Final = (
    "check",
    "check_many",
    "check_load",
    "check_store",
    "check_atomic",
    "check_rounds",
    "update_rounds",
    "fence",
)
"""The names of the native functions that translated code calls."""
Words = npt.NDArray[np.uint32]


@dataclass(slots=True)
class Moving:
    """A DMA transfer: the bytes that it reads and writes.

    `finisher` is the hart that has waited for the transfer, counted from 1, or 0. `number` is the number of the
    transfer among those that this hart has waited for.
    """

    key: object
    unit: str
    reads: Extents
    writes: Extents
    source: int
    target: int
    known: npt.NDArray[np.uint64] | None = None
    """The clock of the events that happened before the transfer; None for a transfer that a command has started."""
    finisher: int = 0
    number: int = 0
    first: int = 0
    last: int = 0
    """The end of the transfer's rows in the table of transfers that compiled code reads."""
    agent: Agent | None = None


class ShadowMemory:
    """The shadow memory of one device memory: an array of records for stores, then one array for each hart's loads."""

    def __init__(self, ram: Ram, harts: int) -> None:
        self.low, self.size, self.stride = ram.base_host, ram.size, ram.size + SKEW
        self.harts = harts
        self.memory = Ram(self.stride * (harts + 2))
        self.base_host = self.memory.base_host + SKEW

    def part(self, layer: int, start: int, end: int) -> Words:
        """Return a part of array number `layer`: the shadow words of the dwords from `start` to `end` (excluded).

        `start` and `end` are addresses in this process.
        """
        first, last = start - self.low >> 2, (end - 1 - self.low >> 2) + 1
        whole = np.frombuffer(self.memory.view, np.uint32)
        at = (SKEW + layer * self.stride) // DWORD
        return whole[at + first : at + last]


class NativeHartRaces(HartCheck):
    """The race check of harts on the JIT engine; see `HartRaces`.

    `hart` returns the hart with a number, `insn` returns the instruction that a hart has at an address, and `rams`
    returns the memories that harts may share. `harts` is the number of harts.
    """

    name = RACES

    def __init__(
        self,
        log: FindingLog,
        place: Callable[[Hart, int], int | None],
        equal_stores: bool,
        harts: int,
        hart: Callable[[int], Hart],
        insn: Callable[[Hart, int], Insn | None],
        rams: Callable[[], Iterable[Ram]],
    ) -> None:
        self._reporter = Reporter(log)
        self.equal_stores = equal_stores
        self._place, self._hart, self._insn, self._rams = place, hart, insn, rams
        self._harts = harts
        self.race = race = Race()
        race.harts, race.slot_mask, race.atomic = harts, slot_mask(harts), atomic_bit(harts)
        race.number_at = race.atomic.bit_length()
        race.step = 1 << race.number_at
        self._tables = {
            "events": Ram(EVENT_ROOM), "clocks": Ram(CLOCK_BYTES), "splits": Ram(SPLITS * SPLIT_BYTES),
            "moving": Ram(MOVING * MOVING_BYTES), "pages": Ram(8 * PAGE_SLOTS),
        }  # fmt: skip
        for name, table in self._tables.items():
            setattr(race, name, table.base_host)
        race.clock_end = race.clocks + CLOCK_BYTES
        self._nothing = np.zeros(2 * harts, np.uint64)
        race.nothing = self._nothing.ctypes.data
        self._known = np.zeros((harts, 2 * harts), np.uint64)
        self._acquiring = np.zeros((harts, 2 * harts), np.uint64)
        self._bounds = np.zeros((harts, 2 * race.atomic >> SLOT_AT), np.uint64)
        self._suspects = np.zeros((harts, PENDING * SUSPECT_BYTES // 8), np.uint64)
        self._entries = [Ram(ENTRIES * ENTRY_BYTES) for _ in range(harts)]
        self._caches = np.zeros((harts, CACHES * CACHE_BYTES // 8), np.uint64)
        self.rows = (HartRow * harts)()
        self._shadow_memories: list[ShadowMemory] = []
        self._ram_rows = (RamRow * 8)()
        race.rows, race.rams = ctypes.addressof(self.rows), ctypes.addressof(self._ram_rows)
        for slot, row in enumerate(self.rows):
            row.race, row.slot, row.own = ctypes.addressof(race), slot, slot << SLOT_AT
            row.known, row.acquiring = self._known[slot].ctypes.data, self._acquiring[slot].ctypes.data
            row.bounds, row.suspects = self._bounds[slot].ctypes.data, self._suspects[slot].ctypes.data
            row.entries, row.caches = self._entries[slot].base_host, self._caches[slot].ctypes.data
            for name in CALLED:
                setattr(row, name, NATIVES.address(name))
        race.next = race.watermark = race.step
        self._at = ctypes.addressof(race)
        self._more: dict[int, tuple[int, list[tuple[int, int, int, int]]]] = {}
        """By hart: possible races that did not fit its table of pending races, with the generation of that table."""
        self._agents: dict[int, Agent] = {}
        self._events: dict[int, Event] = {}
        """By access record: the events that Python has created for the current group of instances."""
        self._moving: list[Moving] = []
        self._by_key: dict[object, Moving] = {}
        self._finished = [0] * harts
        self._remembered: dict[int, Cell] | None = None
        self._uid = 0
        function("begin_group")(self._at)

    def address(self, slot: int) -> int:
        """Return the address of the `HartRow` of hart number `slot`."""
        return ctypes.addressof(self.rows[slot])

    # ---- the order of things -------------------------------------------------------------------------------------
    @property
    def tracker(self) -> NativeHartRaces:
        """This object itself, as the tracker of the order of accesses."""
        return self

    @property
    def instrumentation(self) -> Instrumentation:
        """The check's part in translated code."""
        from softcard.engine.riscv.races.translated import instrumentation  # imports the JIT engine

        return instrumentation(self._harts)

    def observe(self, evaluator: Evaluator) -> Evaluator:
        """Return the evaluator, changed to check its accesses."""
        evaluator.watch = self
        evaluator.hart.words[RACES_WORD] = self.address(evaluator.hart.index)
        return evaluator

    def group_begins(self, outstanding: Iterable[Outstanding] = ()) -> None:
        """Begin a group of kernel instances: all accesses of harts so far count as ordered before those of the group.

        `outstanding` contains the DMA transfers that were not waited for."""
        self._report_last_loads()
        if self._remembered is not None:
            self._remember(self._remembered)
        self._prepare()
        self._agents.clear()
        self._events.clear()
        self._finished = [0] * self._harts
        self.race.remembers = self._remembered is not None
        function("begin_group")(self._at)
        self._moving = [Moving(*each) for each in outstanding]
        self._move()

    def _prepare(self) -> None:
        """Make shadow memory for the harts' current memories, unless it exists, and make room in the tables."""
        race, rams = self.race, list(self._rams())
        if [(each.low, each.size) for each in self._shadow_memories] != [(ram.base_host, ram.size) for ram in rams]:
            self._shadow_memories = [ShadowMemory(ram, self._harts) for ram in rams]
            race.ram_count = len(rams)
            for row, shadow in zip(self._ram_rows, self._shadow_memories, strict=False):
                row.low, row.span, row.stride = shadow.low, shadow.size, shadow.stride
                row.delta = shadow.base_host - shadow.low & (1 << 64) - 1
            self._caches[:] = 0
        if race.next > LIMIT // 2 or race.split_count > SPLITS // 2 or race.full:
            for shadow in self._shadow_memories:
                shadow.memory.clear()
            race.next = race.watermark = race.step
            race.split_count = race.full = 0
            self._caches[:] = 0
            for each, row in zip(self._entries, self.rows, strict=True):
                each.clear()
                row.entry_count = 0

    @property
    def starter(self) -> tuple[int, int]:
        """The address of the native function `begin_next_group`, and its argument.

        The function begins a group of instances without Python.
        """
        return NATIVES.address("begin_next_group"), self._at

    def kernel_ends(self) -> None:
        """End a kernel command, and report its pending races."""
        self.group_begins()

    def barrier_opens(self) -> None:
        """Handle a barrier that all harts of the group have reached.

        All accesses before the barrier are ordered before all later ones.
        """
        self._report_last_loads()
        function("barrier")(self._at)
        if self._moving:
            self._move()

    def _report_last_loads(self) -> None:
        """Report the races of the harts' last loads: a fence did not follow, so the loads are not acquires."""
        for slot, row in enumerate(self.rows):
            if row.pending:
                self._decide(slot)

    def fence(self, hart: Hart, word: int, is_tso: bool) -> None:
        """Apply the order of a fence: loads before it acquire, and stores after it release."""
        function("fence")(self.address(hart.index), word, is_tso)

    def check(self) -> None:
        """Raise a `BeyondModel` error if the group has exceeded a limit."""
        check_limits(self.race.full, FULL, GROUPS)

    # ---- transfers -----------------------------------------------------------------------------------------------
    def started(
        self, hart: int | None, key: object, unit: str, reads: Extents, writes: Extents, source: int, target: int
    ) -> None:
        """Record the start of a DMA transfer by a hart, or by a command if `hart` is None.

        `key` identifies the transfer until it is finished. `unit` is its name in findings. `reads` and `writes` are
        byte ranges in this process; `source` and `target` are their device addresses.
        """
        moving = Moving(key, unit, reads, writes, source, target)
        if hart is not None:
            self._decide(hart)
            function("drop_last_load")(self.address(hart))
            function("release")(self.address(hart))
            function("refresh")(self.address(hart))
            words = ctypes.c_uint64 * (2 * self._harts)
            moving.known = np.array(words.from_address(self.rows[hart].released), np.uint64)
        for at, access in self._met(moving):
            event = self._made(moving, access)
            for other in self._found(at, access):
                if not self._came_before(other, moving):
                    self._reporter.report(Suspect(self._event(other), event, target if access == WRITE else source, 1))
        self._moving.append(moving)
        self._by_key[key] = moving
        self._moves(moving)
        self._changed()

    def _met(self, moving: Moving) -> Iterator[tuple[int, str]]:
        """Yield the bytes at which a transfer that begins may race with earlier accesses, in ascending order.

        Each byte comes with the kind of the transfer's access to it."""
        found: dict[int, str] = {}
        for access, extents in ((READ, moving.reads), (WRITE, moving.writes)):
            for start, end in extents:
                found.update((at, access) for at in self._touched(start, end, access, moving))
        yield from sorted(found.items())

    def _touched(self, start: int, end: int, access: str, moving: Moving | None) -> list[int]:
        """Return the bytes from `start` to `end` (excluded) at which `access` may race with earlier accesses.

        These bytes have conflicting accesses that did not happen before the transfer `moving`, which makes
        `access`. If `moving` is None, accesses since the watermark count as unordered."""
        shadow = self._shadow_of(start)
        if shadow is None:
            return []
        dwords: set[int] = set()
        for layer in range(1 if access == READ else self._harts + 1):
            words = shadow.part(layer, start, end)
            wanted = words >= self.race.watermark
            if moving is not None and moving.known is not None and wanted.any():
                bounds = moving.known[(words & self.race.slot_mask) >> SLOT_AT]
                wanted &= (words >= bounds) | (words >= SPLIT)
            dwords.update(np.flatnonzero(wanted).tolist())
        first = start & -DWORD
        each_byte = (first + DWORD * dword + byte for dword in sorted(dwords) for byte in range(DWORD))
        return [at for at in each_byte if start <= at < end and self._found(at, access)]

    def _came_before(self, other: int, moving: Moving) -> bool:
        if moving.known is None:
            return False
        return other < int(moving.known[self._slot(other)])

    def finished(self, hart: int | None, key: object) -> None:
        """Record that a hart has waited for the transfer `key`.

        If `hart` is None, the transfer belongs to the command processor, and the call has no effect."""
        moving = self._by_key.get(key)
        if moving is None or hart is None or moving.finisher:
            return
        self._finished[hart] += 1
        moving.finisher, moving.number = hart + 1, self._finished[hart]
        self._known[hart, self._harts + hart] = moving.number
        for number in range(moving.first, moving.last):
            row = MovingRow.from_address(self.race.moving + MOVING_BYTES * number)
            row.finisher, row.number = moving.finisher, moving.number
        self._changed()

    def _moves(self, moving: Moving) -> None:
        """Add a row for each byte range of a transfer to the table of transfers that compiled code reads."""
        number = moving.first = self.race.moving_count
        for writes, extents in ((1, moving.writes), (0, moving.reads)):
            for start, end in extents:
                if number >= MOVING:
                    raise over_limit("DMA transfers", f"{MOVING} rows at once")
                row = MovingRow.from_address(self.race.moving + MOVING_BYTES * number)
                row.start, row.end, row.writes = start, end, writes
                row.finisher, row.number = moving.finisher, moving.number
                number += 1
        self.race.moving_count = moving.last = number

    def _move(self) -> None:
        """Rebuild the table of DMA transfers without those that happen before every later access of every hart."""
        self._moving = [each for each in self._moving if not self._is_over(each)]
        self._by_key = {each.key: each for each in self._moving}
        self.race.moving_count = 0
        for moving in self._moving:
            self._moves(moving)
        self._changed()

    def _changed(self) -> None:
        """Invalidate the harts' inline cache entries after a change of the DMA transfers."""
        for slot, row in enumerate(self.rows):
            self.race.epoch_id += 1
            row.is_moving, row.armed = self.race.moving_count > 0, self.race.epoch_id
            function("refresh")(self.address(slot))

    def _is_over(self, moving: Moving) -> bool:
        """Return True if a DMA transfer happened before the next accesses of all harts, so that it can be dropped."""
        if not moving.finisher or self._remembered is not None:
            return False
        return bool((self._known[:, self._harts + moving.finisher - 1] >= moving.number).all())

    def _made(self, moving: Moving, access: str) -> Event:
        if moving.agent is None:
            moving.agent = self._agent(moving.unit, is_transfer=True)
        return Event(moving.agent, 1, None, None, access, False, False, {})

    def _agent(self, unit: str, is_transfer: bool = False) -> Agent:
        self._uid += 1
        return Agent(self._uid, unit, is_transfer)

    # ---- what cells say ------------------------------------------------------------------------------------------
    def _shadow_of(self, host: int) -> ShadowMemory | None:
        return next((each for each in self._shadow_memories if each.low <= host < each.low + each.size), None)

    def _record(self, word: int, byte: int) -> int:
        """Return the access record of byte number `byte` of a dword, given the dword's shadow word.

        The result is 0 if the record is older than the oldest one that is still valid (`race.watermark`).
        """
        if word & SPLIT:
            at = self.race.splits + (word & SPLIT - 1) * SPLIT_BYTES + 4 * byte
            record = ctypes.c_uint32.from_address(at).value
        else:
            record = word & ~BYTES if word >> byte & 1 else 0
        return record if record >= self.race.watermark else 0

    def _stored(self, host: int) -> int:
        """Return the access record of a byte's last store."""
        shadow = self._shadow_of(host)
        return 0 if shadow is None else self._record(int(shadow.part(0, host, host + 1)[0]), host & 3)

    def _loaded(self, host: int) -> list[int]:
        """Return the access records of a byte's loads, by hart."""
        shadow = self._shadow_of(host)
        if shadow is None:
            return []
        words = [int(shadow.part(1 + slot, host, host + 1)[0]) for slot in range(self._harts)]
        return [found for found in (self._record(word, host & 3) for word in words) if found]

    def _found(self, host: int, access: str) -> list[int]:
        """Return the access records of the earlier events that conflict with an access of the byte at `host`."""
        stored = self._stored(host)
        return ([stored] if stored else []) + (self._loaded(host) if access != READ else [])

    def _row(self, record: int) -> EventRow:
        return EventRow.from_address(
            self.race.events + (record - self.race.watermark >> self.race.number_at) * EVENT_BYTES
        )

    def _slot(self, record: int) -> int:
        return (record & self.race.slot_mask) >> SLOT_AT

    def _event(self, record: int) -> Event:
        """Return the `Event` object, which findings use, for the event with the access record `record`."""
        found = self._events.get(record)
        if found is None:
            row, slot = self._row(record), self._slot(record)
            if slot not in self._agents:
                agent = self._agents[slot] = self._agent(f"hart {slot}")
                agent.index = slot
            insn = self._insn(self._hart(slot), row.pc)
            found = Event(self._agents[slot], 0, row.pc, insn, NAMES[row.what & KIND], False, False, {})
            self._events[record] = found
        return found

    # ---- the host ------------------------------------------------------------------------------------------------
    def remember(self) -> None:
        """Remember all accesses from now on; called before kernels that the host does not wait for.

        A later access by the host is checked against the remembered accesses.
        """
        self._remembered = {}

    def _remember(self, remembered: dict[int, Cell]) -> None:
        """Add the accesses of the current group to `remembered`."""
        pages = np.frombuffer(self._tables["pages"].view, np.uint64)
        for page in sorted(pages[pages != 0].tolist()):
            start = page << PAGE_BITS
            shadow = self._shadow_of(start) or self._shadow_of(start + (1 << PAGE_BITS) - 1)
            if shadow is None:
                continue
            low, high = max(start, shadow.low), min(start + (1 << PAGE_BITS), shadow.low + shadow.size)
            for host in self._touched(low, high, WRITE, None):
                known = remembered.setdefault(host, Cell())
                stored = self._stored(host)
                known.store = self._event(stored) if stored else known.store
                loads = [self._event(each) for each in self._loaded(host)]
                known.loads |= {each.agent.uid: each for each in loads}
        self._tables["pages"].clear()
        self.race.page_count = 0
        for moving in self._moving:
            event = self._made(moving, WRITE)
            for start, end in moving.writes:
                for host in range(start, min(end, start + MOST_BYTES)):
                    remembered.setdefault(host, Cell()).store = event

    def host(self, access: str, address: int, extents: Extents) -> None:
        """Check an access by the host against all accesses of harts since `remember`, and report races.

        None of these accesses happened before that of the host. `address` is the device address, and `extents` are
        the byte ranges in this process."""
        remembered, self._remembered = self._remembered or {}, None
        self.group_begins()
        report_host(self._reporter, remembered, self._agent(HOST), access, address, extents)

    # ---- accesses ------------------------------------------------------------------------------------------------
    def access(self, hart: Hart, insn: Insn, access: str, address: int, size: int, same: Callable[[], bool]) -> None:
        """Check an access of a hart, and report its races.

        `same` is a function that returns True if a store leaves the memory unchanged.
        """
        host = self._place(hart, address)
        if host is None:
            return
        row, what = self.address(hart.index), what_of(insn, access, size)
        if function(check_function(what))(row, hart.pc, what, host, address):
            self.check()
            self._detector(hart, what, host, address, size, same)

    def _detector(self, hart: Hart, what: int, host: int, address: int, size: int, same: Callable[[], bool]) -> None:
        """Report the races of an access that the compiled check has not accepted; record the access in shadow
        memory."""
        if self._shadow_of(host) is None:
            raise ModelBug(f"memory at {host:#x} has no shadow memory")
        row, slot, access = self.rows[hart.index], hart.index, NAMES[what & KIND]
        at = self.address(slot)
        if access != READ or not row.last or function("known_event")(at, hart.pc, what) != row.last:
            self._decide(slot)
        record = function("made_event")(at, hart.pc, what)
        own, is_plain = self._row(record), access == READ and not what & IS_ATOMIC
        others = [self._stored(host + n) for n in range(size)]
        if access != READ:
            others += [each for n in range(size) for each in self._loaded(host + n)]
        is_same: bool | None = None
        for other in dict.fromkeys(others):
            if not other or function("is_before")(at, self._at, other):
                continue
            its = self._row(other)
            if own.synchronizes and its.synchronizes:
                continue
            if access == WRITE == NAMES[its.what & KIND] and not self.equal_stores:
                is_same = same() if is_same is None else is_same
                if is_same:
                    continue
            if is_plain and its.synchronizes:
                self._suspect(slot, other, record, address, size)
            elif self.rows[self._slot(other)].last == other and own.synchronizes:
                self._suspect(self._slot(other), other, record, address, size)
            else:
                self._reporter.report(Suspect(self._event(other), self._event(record), address, size))
        self._against_transfers(hart.index, record, access, host, address, size)
        function("make_known")(at, what, host, size, record)
        self.check()

    def _against_transfers(self, slot: int, record: int, access: str, host: int, address: int, size: int) -> None:
        for moving in self._moving:
            extents = moving.writes if access == READ else (*moving.writes, *moving.reads)
            if any(start < host + size and host < end for start, end in extents):
                is_read = not any(start < host + size and host < end for start, end in moving.writes)
                is_known = (
                    moving.finisher and int(self._known[slot, self._harts + moving.finisher - 1]) >= moving.number
                )
                if not is_known:
                    other = self._made(moving, READ if is_read else WRITE)
                    self._reporter.report(Suspect(other, self._event(record), address, size))

    def _suspect(self, slot: int, first: int, second: int, address: int, size: int) -> None:
        """Record a possible race of the last load of hart `slot` as pending: a fence may still make the load an
        acquire.

        `first` and `second` are the access records of the two events."""
        at, row = self.address(slot), self.rows[slot]
        if function("suspect")(at, first, second, address, size):
            generation, more = self._more.get(slot, (-1, []))
            more = more if generation == row.generation else []
            self._more[slot] = row.generation, [*more, (first, second, address, size)]
        function("refresh")(at)

    def _decide(self, slot: int) -> None:
        """Report the suspected races of the last load by the hart in `slot`.

        They were held back because a fence after the load would have made it an acquire. No such fence followed.
        """
        row = self.rows[slot]
        found = []
        for number in range(row.pending):
            each = SuspectRow.from_address(row.suspects + number * SUSPECT_BYTES)
            found += [(each.first, each.second, each.address, each.size)] * each.count
        generation, more = self._more.pop(slot, (-1, []))
        found += more if generation == row.generation else []
        function("forget_suspects")(self.address(slot))
        for first, second, address, size in found:
            self._reporter.report(Suspect(self._event(first), self._event(second), address, size))


def what_of(insn: Insn, access: str, size: int) -> int:
    """Return the kind and size of an access as a word for compiled code."""
    what = NAMES.index(access) | size << SIZE_AT
    if insn.spec.extension == "A":
        what |= IS_ATOMIC | ACQUIRES * bool(insn.aq) | RELEASES * bool(insn.rl)
    return what


def check_function(what: int) -> str:
    """Return the name of the native function that checks an access of the kind and size in `what`."""
    if what & IS_ATOMIC:
        return "check_atomic"
    if what >> SIZE_AT < DWORD:
        return "check"
    return "check_load" if what & KIND == NAMES.index(READ) else "check_store"
