"""Accesses of harts on the JIT engine, held against those before them by compiled code; what that leaves, is here.

That is: what races, and is told of; DMA transfers, barriers and groups; what the host does. It judges as `HartRaces`
does, which is there to be read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.core.checks import RACES
from understudy.core.errors import BeyondModel, ModelBug
from understudy.core.findings import FindingLog
from understudy.core.space import PAGE_BITS, Ram
from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.races import native_again, native_ahead, native_look, native_order
from understudy.engine.riscv.races.agents import READ, WRITE, Agent, Event, Suspect
from understudy.engine.riscv.races.codes import (
    ACQUIRES,
    BYTES,
    CLOCK_BYTES,
    ENTRIES,
    ENTRY_BYTES,
    EVENT_BYTES,
    EVENT_ROOM,
    FULL,
    HINT_BYTES,
    HINTS,
    IS_ATOMIC,
    KIND,
    LIMIT,
    MOVING,
    MOVING_BYTES,
    NAMES,
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
from understudy.engine.riscv.races.telling import HOST, Telling
from understudy.engine.riscv.races.watch import MOST_BYTES, Cell, Extents, Outstanding, tell_host
from understudy.ir.native import Natives
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import RACES as RACES_WORD
from understudy.isa.riscv.state import Hart

DWORD: Final = 4
SKEW: Final = 192
"""Bytes between planes: processors take a load for one of what was stored just now where the addresses have the same
place in a page, and planes are about the same bytes at the same time."""
NATIVES: Final = Natives(
    native_look.look, native_look.look_many, native_look.known_event, native_look.made_event, native_look.make_known,
    native_look.suspect, native_again.look_load, native_again.look_store, native_again.look_atomic,
    native_ahead.look_ahead, native_ahead.look_behind,
    native_order.fence, native_order.begin_group, native_order.begin_next_group,
    native_order.barrier, native_order.release, native_order.settle,
    native_order.refresh, native_order.is_before, native_order.forget_suspects,
)  # fmt: skip
function: Final = NATIVES.function
CALLED: Final = ("look", "look_many", "look_load", "look_store", "look_atomic", "look_ahead", "look_behind", "fence")
"""Those that translated code calls."""
Words = npt.NDArray[np.uint32]


@dataclass(slots=True)
class Moving:
    """A DMA transfer: what it reads and writes; `finisher` has waited for it as its transfer `number`."""

    key: object
    unit: str
    reads: Extents
    writes: Extents
    source: int
    target: int
    known: npt.NDArray[np.uint64] | None = None
    """What came before it; None for nothing."""
    finisher: int = 0
    number: int = 0
    first: int = 0
    last: int = 0
    """Its rows in the table of compiled code."""
    agent: Agent | None = None


class Planes:
    """The codes of one memory: those of stores, then those of each hart's loads."""

    def __init__(self, ram: Ram, harts: int) -> None:
        self.low, self.size, self.stride = ram.base_host, ram.size, ram.size + SKEW
        self.harts = harts
        self.memory = Ram(self.stride * (harts + 2))
        self.base_host = self.memory.base_host + SKEW

    def part(self, plane: int, start: int, end: int) -> Words:
        """Words of the dwords from one to another, by host addresses."""
        first, last = start - self.low >> 2, (end - 1 - self.low >> 2) + 1
        whole = np.frombuffer(self.memory.view, np.uint32)
        at = (SKEW + plane * self.stride) // DWORD
        return whole[at + first : at + last]


class NativeHartRaces:
    """Looks at accesses of harts, and tells a log: see `HartRaces`. `insn` gives the instruction that a hart has at an
    address, `rams` the memories that harts may share; there are `harts` of them."""

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
        self._telling = Telling(log)
        self.equal_stores = equal_stores
        self._place, self._hart, self._insn, self._rams = place, hart, insn, rams
        self._harts = harts
        self.race = race = Race()
        race.harts, race.slot_mask, race.atomic = harts, slot_mask(harts), atomic_bit(harts)
        race.number_at = race.atomic.bit_length()
        race.step = 1 << race.number_at
        self._tables = {
            "events": Ram(EVENT_ROOM), "clocks": Ram(CLOCK_BYTES), "splits": Ram(SPLITS * SPLIT_BYTES),
            "moving": Ram(MOVING * MOVING_BYTES), "pages": Ram(8 * native_look.PAGE_SLOTS),
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
        self._hints = np.zeros((harts, HINTS * HINT_BYTES // 8), np.uint64)
        self.rows = (HartRow * harts)()
        self._planes: list[Planes] = []
        self._ram_rows = (RamRow * 8)()
        race.rows, race.rams = ctypes.addressof(self.rows), ctypes.addressof(self._ram_rows)
        for slot, row in enumerate(self.rows):
            row.race, row.slot, row.own = ctypes.addressof(race), slot, slot << SLOT_AT
            row.known, row.acquiring = self._known[slot].ctypes.data, self._acquiring[slot].ctypes.data
            row.bounds, row.suspects = self._bounds[slot].ctypes.data, self._suspects[slot].ctypes.data
            row.entries, row.hints = self._entries[slot].base_host, self._hints[slot].ctypes.data
            for name in CALLED:
                setattr(row, name, NATIVES.address(name))
        race.next = race.floor = race.step
        self._at = ctypes.addressof(race)
        self._more: dict[int, tuple[int, list[tuple[int, int, int, int]]]] = {}
        """Suspects of harts that have no place in tables, with the generation of those."""
        self._agents: dict[int, Agent] = {}
        self._events: dict[int, Event] = {}
        """By code: events of the present group that somebody asked for."""
        self._moving: list[Moving] = []
        self._by_key: dict[object, Moving] = {}
        self._finished = [0] * harts
        self._kept: dict[int, Cell] | None = None
        self._uid = 0
        function("begin_group")(self._at)

    def address(self, slot: int) -> int:
        """Where the row of a hart is."""
        return ctypes.addressof(self.rows[slot])

    # ---- the order of things -------------------------------------------------------------------------------------
    def dress(self, evaluator: Evaluator) -> Evaluator:
        """Look at what an evaluator accesses."""
        evaluator.watch = self
        evaluator.hart.words[RACES_WORD] = self.address(evaluator.hart.index)
        return evaluator

    def begin_group(self, outstanding: Iterable[Outstanding] = ()) -> None:
        """Whatever harts did so far is over; `outstanding` are transfers that nobody has waited for."""
        self._settle()
        if self._kept is not None:
            self._keep(self._kept)
        self._prepare()
        self._agents.clear()
        self._events.clear()
        self._finished = [0] * self._harts
        self.race.keeps = self._kept is not None
        function("begin_group")(self._at)
        self._moving = [Moving(*each) for each in outstanding]
        self._move()

    def _prepare(self) -> None:
        """Planes of the memories that there are now, with room for what comes."""
        race, rams = self.race, list(self._rams())
        if [(each.low, each.size) for each in self._planes] != [(ram.base_host, ram.size) for ram in rams]:
            self._planes = [Planes(ram, self._harts) for ram in rams]
            race.ram_count = len(rams)
            for row, planes in zip(self._ram_rows, self._planes, strict=False):
                row.low, row.span, row.stride = planes.low, planes.size, planes.stride
                row.delta = planes.base_host - planes.low & (1 << 64) - 1
            self._hints[:] = 0
        if race.next > LIMIT // 2 or race.split_count > SPLITS // 2 or race.full:
            for planes in self._planes:
                planes.memory.clear()
            race.next = race.floor = race.step
            race.split_count = race.full = 0
            self._hints[:] = 0
            for each, row in zip(self._entries, self.rows, strict=True):
                each.clear()
                row.entry_count = 0

    @property
    def starter(self) -> tuple[int, int]:
        """The machine code that begins a group where Python need not, and what it takes."""
        return NATIVES.address("begin_next_group"), self._at

    def end(self) -> None:
        """A kernel command is over."""
        self.begin_group()

    def barrier(self) -> None:
        """All harts of the group have come to a barrier, and go on."""
        self._settle()
        function("barrier")(self._at)
        if self._moving:
            self._move()

    def _settle(self) -> None:
        """The last loads are none that acquire."""
        for slot, row in enumerate(self.rows):
            if row.pending:
                self._decide(slot)

    def fence(self, hart: Hart, word: int, is_tso: bool) -> None:
        """A fence: of loads before it, of stores behind it."""
        function("fence")(self.address(hart.index), word, is_tso)

    def check(self) -> None:
        """A `BeyondModel` where there is no more room."""
        if self.race.full:
            raise BeyondModel(f"check {RACES!r} of groups of instances with {FULL[self.race.full]}")

    # ---- transfers -----------------------------------------------------------------------------------------------
    def started(
        self, hart: int | None, key: object, unit: str, reads: Extents, writes: Extents, source: int, target: int
    ) -> None:
        """A hart has started a transfer (None: a command has), which `key` names until it is finished."""
        moving = Moving(key, unit, reads, writes, source, target)
        if hart is not None:
            self._decide(hart)
            function("settle")(self.address(hart))
            function("release")(self.address(hart))
            function("refresh")(self.address(hart))
            words = ctypes.c_uint64 * (2 * self._harts)
            moving.known = np.array(words.from_address(self.rows[hart].released), np.uint64)
        for at, access in self._met(moving):
            event = self._made(moving, access)
            for other in self._found(at, access):
                if not self._came_before(other, moving):
                    self._telling.tell(Suspect(self._event(other), event, target if access == WRITE else source, 1))
        self._moving.append(moving)
        self._by_key[key] = moving
        self._moves(moving)
        self._changed()

    def _met(self, moving: Moving) -> Iterator[tuple[int, str]]:
        """Bytes where a transfer may race, in order, with what it does there."""
        found: dict[int, str] = {}
        for access, extents in ((READ, moving.reads), (WRITE, moving.writes)):
            for start, end in extents:
                found.update((at, access) for at in self._touched(start, end, access, moving))
        yield from sorted(found.items())

    def _touched(self, start: int, end: int, access: str, moving: Moving | None) -> list[int]:
        """Bytes that were touched, by what does not come before a transfer (None: by anything)."""
        planes = self._planes_of(start)
        if planes is None:
            return []
        dwords: set[int] = set()
        for plane in range(1 if access == READ else self._harts + 1):
            words = planes.part(plane, start, end)
            wanted = words >= self.race.floor
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
        """It was waited for."""
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
        """Tell compiled code of a transfer."""
        number = moving.first = self.race.moving_count
        for writes, extents in ((1, moving.writes), (0, moving.reads)):
            for start, end in extents:
                if number >= MOVING:
                    raise BeyondModel(f"check {RACES!r} of transfers of more than {MOVING} rows at once")
                row = MovingRow.from_address(self.race.moving + MOVING_BYTES * number)
                row.start, row.end, row.writes = start, end, writes
                row.finisher, row.number = moving.finisher, moving.number
                number += 1
        self.race.moving_count = moving.last = number

    def _move(self) -> None:
        """Tell compiled code of the transfers that some hart may not have waited for."""
        self._moving = [each for each in self._moving if not self._is_over(each)]
        self._by_key = {each.key: each for each in self._moving}
        self.race.moving_count = 0
        for moving in self._moving:
            self._moves(moving)
        self._changed()

    def _changed(self) -> None:
        """What harts knew of transfers is no longer all."""
        for slot, row in enumerate(self.rows):
            self.race.stamp += 1
            row.is_moving, row.armed = self.race.moving_count > 0, self.race.stamp
            function("refresh")(self.address(slot))

    def _is_over(self, moving: Moving) -> bool:
        """Whether all harts know that a transfer came before."""
        if not moving.finisher or self._kept is not None:
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
    def _planes_of(self, host: int) -> Planes | None:
        return next((each for each in self._planes if each.low <= host < each.low + each.size), None)

    def _code(self, word: int, byte: int) -> int:
        """The code of a byte, by its dword's word; 0 where that is over."""
        if word & SPLIT:
            at = self.race.splits + (word & SPLIT - 1) * SPLIT_BYTES + 4 * byte
            code = ctypes.c_uint32.from_address(at).value
        else:
            code = word & ~BYTES if word >> byte & 1 else 0
        return code if code >= self.race.floor else 0

    def _stored(self, host: int) -> int:
        """The event of a byte's last store."""
        planes = self._planes_of(host)
        return 0 if planes is None else self._code(int(planes.part(0, host, host + 1)[0]), host & 3)

    def _loaded(self, host: int) -> list[int]:
        """The events of its loads, by harts."""
        planes = self._planes_of(host)
        if planes is None:
            return []
        words = [int(planes.part(1 + slot, host, host + 1)[0]) for slot in range(self._harts)]
        return [found for found in (self._code(word, host & 3) for word in words) if found]

    def _found(self, host: int, access: str) -> list[int]:
        """The events that an access of a byte is held against."""
        stored = self._stored(host)
        return ([stored] if stored else []) + (self._loaded(host) if access != READ else [])

    def _row(self, code: int) -> EventRow:
        return EventRow.from_address(self.race.events + (code - self.race.floor >> self.race.number_at) * EVENT_BYTES)

    def _slot(self, code: int) -> int:
        return (code & self.race.slot_mask) >> SLOT_AT

    def _event(self, code: int) -> Event:
        """An event as findings need it."""
        found = self._events.get(code)
        if found is None:
            row, slot = self._row(code), self._slot(code)
            if slot not in self._agents:
                agent = self._agents[slot] = self._agent(f"hart {slot}")
                agent.index = slot
            insn = self._insn(self._hart(slot), row.pc)
            found = Event(self._agents[slot], 0, row.pc, insn, NAMES[row.what & KIND], False, False, {})
            self._events[code] = found
        return found

    # ---- the host ------------------------------------------------------------------------------------------------
    def keep(self) -> None:
        """Kernels run next that the host does not wait for before it accesses memory."""
        self._kept = {}

    def _keep(self, kept: dict[int, Cell]) -> None:
        """Remember what the group has touched."""
        pages = np.frombuffer(self._tables["pages"].view, np.uint64)
        for page in sorted(pages[pages != 0].tolist()):
            start = page << PAGE_BITS
            planes = self._planes_of(start) or self._planes_of(start + (1 << PAGE_BITS) - 1)
            if planes is None:
                continue
            low, high = max(start, planes.low), min(start + (1 << PAGE_BITS), planes.low + planes.size)
            for host in self._touched(low, high, WRITE, None):
                known = kept.setdefault(host, Cell())
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
                    kept.setdefault(host, Cell()).store = event

    def host(self, access: str, address: int, extents: Extents) -> None:
        """The host accesses memory at a device address, and has waited for nothing since `keep`."""
        kept, self._kept = self._kept or {}, None
        self.begin_group()
        tell_host(self._telling, kept, self._agent(HOST), access, address, extents)

    # ---- accesses ------------------------------------------------------------------------------------------------
    def access(self, hart: Hart, insn: Insn, access: str, address: int, size: int, same: Callable[[], bool]) -> None:
        """A hart accesses memory; `same` says whether a store leaves it as it is."""
        host = self._place(hart, address)
        if host is None:
            return
        row, what = self.address(hart.index), what_of(insn, access, size)
        if function(look_of(what))(row, hart.pc, what, host, address):
            self.check()
            self._judge(hart, what, host, address, size, same)

    def _judge(self, hart: Hart, what: int, host: int, address: int, size: int, same: Callable[[], bool]) -> None:
        """Tell of what an access races with, and make it known."""
        if self._planes_of(host) is None:
            raise ModelBug(f"memory of harts without cells at {host:#x}")
        row, slot, access = self.rows[hart.index], hart.index, NAMES[what & KIND]
        at = self.address(slot)
        if access != READ or not row.last or function("known_event")(at, hart.pc, what) != row.last:
            self._decide(slot)
        code = function("made_event")(at, hart.pc, what)
        own, is_plain = self._row(code), access == READ and not what & IS_ATOMIC
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
                self._suspect(slot, other, code, address, size)
            elif self.rows[self._slot(other)].last == other and own.synchronizes:
                self._suspect(self._slot(other), other, code, address, size)
            else:
                self._telling.tell(Suspect(self._event(other), self._event(code), address, size))
        self._against_transfers(hart.index, code, access, host, address, size)
        function("make_known")(at, what, host, size, code)
        self.check()

    def _against_transfers(self, slot: int, code: int, access: str, host: int, address: int, size: int) -> None:
        for moving in self._moving:
            extents = moving.writes if access == READ else (*moving.writes, *moving.reads)
            if any(start < host + size and host < end for start, end in extents):
                is_read = not any(start < host + size and host < end for start, end in moving.writes)
                is_known = (
                    moving.finisher and int(self._known[slot, self._harts + moving.finisher - 1]) >= moving.number
                )
                if not is_known:
                    other = self._made(moving, READ if is_read else WRITE)
                    self._telling.tell(Suspect(other, self._event(code), address, size))

    def _suspect(self, slot: int, first: int, second: int, address: int, size: int) -> None:
        """Tell of two accesses unless the last load of a hart turns out to be one that acquires."""
        at, row = self.address(slot), self.rows[slot]
        if function("suspect")(at, first, second, address, size):
            generation, more = self._more.get(slot, (-1, []))
            more = more if generation == row.generation else []
            self._more[slot] = row.generation, [*more, (first, second, address, size)]
        function("refresh")(at)

    def _decide(self, slot: int) -> None:
        """The last load of a hart is none that acquires: tell of what it races with."""
        row = self.rows[slot]
        found = []
        for number in range(row.pending):
            each = SuspectRow.from_address(row.suspects + number * SUSPECT_BYTES)
            found += [(each.first, each.second, each.address, each.size)] * each.count
        generation, more = self._more.pop(slot, (-1, []))
        found += more if generation == row.generation else []
        function("forget_suspects")(self.address(slot))
        for first, second, address, size in found:
            self._telling.tell(Suspect(self._event(first), self._event(second), address, size))


def what_of(insn: Insn, access: str, size: int) -> int:
    """An access as compiled code is told of it."""
    what = NAMES.index(access) | size << SIZE_AT
    if insn.spec.extension == "A":
        what |= IS_ATOMIC | ACQUIRES * bool(insn.aq) | RELEASES * bool(insn.rl)
    return what


def look_of(what: int) -> str:
    """The function that looks at such an access."""
    if what & IS_ATOMIC:
        return "look_atomic"
    if what >> SIZE_AT < DWORD:
        return "look"
    return "look_load" if what & KIND == NAMES.index(READ) else "look_store"
