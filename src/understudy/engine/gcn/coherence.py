"""A strict memory: waves on several compute units, each with a first-level cache, and stores that take their time.

What the ROCm Code Object document's "Memory model" asks of machine code is only visible on hardware that may be late:
here loads without GLC hit lines that were cached long ago, stores arrive in any order some time before ``s_waitcnt``
lets their wave go on, and registers are not there before somebody waited for them. Everything that came out stale is
reported with both places. All work-groups of a dispatch are in flight at once, on compute units in turn.

Scalar loads read memory directly: the scalar cache is not modelled.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from understudy.core.errors import UnderstudyError
from understudy.core.order import Prng
from understudy.engine.gcn.api import Dispatch, Statistics, StepLimit
from understudy.engine.gcn.group import start_wave
from understudy.engine.gcn.lane_integer import Array, Value
from understudy.engine.gcn.lane_memory import Indices, Rows, bytes_of_rows, dwords_of_bytes
from understudy.engine.gcn.lanes import Lanes, View
from understudy.engine.gcn.reference import Stepper
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import AT_BARRIER, RETIRED, RUNNING, STATUS, Wave, aligned
from understudy.isa.gcn.text import text

LINE: Final = 64
"""Bytes of a cache line."""
LUCK: Final = 32
"""A waiting store arrives by itself at one in so many instructions."""
COUNTED: Final = frozenset({"FLAT", "MUBUF", "MTBUF", "MIMG"})
"""Encodings whose loads and stores VM_CNT counts; the others' are LGKM_CNT's."""


@dataclass(frozen=True, slots=True)
class Place:
    """An access: work-group, wave, pc and text of the instruction."""

    group: int
    wave: int
    pc: int
    insn: str

    def __str__(self) -> str:
        return f"work-group {self.group} wave {self.wave} pc {self.pc:#x} ({self.insn})"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that real hardware may do and a correct program may not depend on.

    `kind` is ``"stale line"`` (a load without GLC saw an old cached line), ``"late store"`` (a load passed a store of
    another wave that nobody had waited for) or ``"no wait"`` (a register was read before its load was waited for).
    """

    kind: str
    load: Place
    store: Place | None
    address: int = 0

    def __str__(self) -> str:
        said = {
            "stale line": "read an old cached line: a store since then",
            "late store": "came before a store that was not waited for",
            "no wait": "is read before s_waitcnt",
        }[self.kind]
        where = "" if self.store is None else f": {self.store}"
        return f"{self.load} {said}{where}, at address {self.address:#x}" if self.store else f"{self.load} {said}"


@dataclass(slots=True, eq=False)
class Unit:
    """A compute unit: lines by number."""

    lines: dict[int, bytearray] = field(default_factory=dict)


@dataclass(slots=True)
class Waiting:
    """A store on its way to memory: of a wave, from a compute unit."""

    owner: int
    unit: Unit
    address: int
    data: bytes


class Caches:
    """The first-level caches, the stores on their way, and who stored each dword last."""

    def __init__(self, dispatch: Dispatch, units: int, seed: int) -> None:
        self.memory = dispatch.memory
        self.units = [Unit() for _ in range(units)]
        self.waiting: list[Waiting] = []
        self.last: dict[int, Place] = {}
        self._chance = Prng(seed)

    def issue(self, unit: Unit, owner: int, address: int, data: bytes, place: Place) -> None:
        """A store leaves its wave: its own cache sees it at once, memory when it arrives."""
        self.waiting.append(Waiting(owner, unit, address, data))
        for at in range(address & ~3, address + len(data), 4):
            self.last[at] = place
        for offset, byte in enumerate(data):
            line = unit.lines.get((address + offset) // LINE)
            if line is not None:
                line[(address + offset) % LINE] = byte

    def arrive(self, wanted: Any) -> None:
        """Stores that `wanted` picks reach memory, each owner's to one place in their order."""
        left = []
        for store in self.waiting:
            if wanted(store):
                self.memory.write(store.address, store.data)
            else:
                left.append(store)
        self.waiting = left

    def chance(self) -> None:
        """Now and then a store arrives, not always the oldest."""
        if self.waiting and self._chance.below(LUCK) == 0:
            lucky = self.waiting[self._chance.below(len(self.waiting))]
            self.arrive(lambda store: store.owner == lucky.owner and _meet(store, lucky.address, len(lucky.data)))

    def delays(self, owner: int) -> bool:
        """One of an owner's stores arrives, whichever; whether there are more."""
        mine = [store for store in self.waiting if store.owner == owner]
        if mine:
            lucky = mine[self._chance.below(len(mine))]
            self.arrive(lambda store: store.owner == owner and _meet(store, lucky.address, len(lucky.data)))
        return any(store.owner == owner for store in self.waiting)

    def read(self, unit: Unit, address: int, size: int, bypass: bool) -> tuple[bytes, bytes]:
        """What a load gets, and what it would get if every store had arrived everywhere."""
        now = self._newest(address, size)
        if bypass:
            self.arrive(lambda store: store.unit is unit and _meet(store, address, size))
            for number in range(address // LINE, (address + size - 1) // LINE + 1):
                unit.lines.pop(number, None)
            return self.memory.read(address, size), now
        return b"".join(bytes([self._line(unit, at)[at % LINE]]) for at in range(address, address + size)), now

    def _newest(self, address: int, size: int) -> bytes:
        data = bytearray(self.memory.read(address, size))
        for store in self.waiting:
            for offset, byte in enumerate(store.data):
                if 0 <= store.address + offset - address < size:
                    data[store.address + offset - address] = byte
        return bytes(data)

    def _line(self, unit: Unit, address: int) -> bytearray:
        number = address // LINE
        if number not in unit.lines:
            line = bytearray(LINE)
            for at in range(LINE):
                try:
                    line[at] = self.memory.read(number * LINE + at, 1)[0]
                except UnderstudyError:
                    continue
            for store in self.waiting:  # stores of a compute unit go ahead of its later loads
                if store.unit is unit:
                    for offset, byte in enumerate(store.data):
                        if (store.address + offset) // LINE == number:
                            line[(store.address + offset) % LINE] = byte
            unit.lines[number] = line
        return unit.lines[number]


def _meet(store: Waiting, address: int, size: int) -> bool:
    return store.address < address + size and address < store.address + len(store.data)


class StrictLanes(Lanes):
    """The wave algebra over `Caches`."""

    is_recorded = False
    caches: Caches
    owners: dict[int, tuple[int, int, int]]
    """By host address of a wave's block: number in the dispatch, work-group, compute unit."""

    def prepare(self, caches: Caches) -> None:
        """Start with these caches and nothing outstanding."""
        self.caches = caches
        self.owners = {}
        self.findings: dict[tuple[str, int, int], Finding] = {}
        self._loads: dict[int, deque[tuple[str, Place, set[int]]]] = {}
        self._set: set[int] = set()

    def begin(self, view: View, insn: Insn, lanes: int | None = None) -> None:
        """One instruction of a wave."""
        super().begin(view, insn, lanes)
        self.insn = insn
        self._owner, self._group, unit = self.owners[view.wave.address]
        self._unit = self.caches.units[unit]
        self._set = set()
        self.caches.chance()

    def finish(self) -> None:
        """The instruction is done: remember what its loads still owe."""
        if self._set and self.insn.form in (*COUNTED, "DS", "SMRD", "SMEM") and self._is_load:
            counter = "vm" if self.insn.form in COUNTED else "lgkm"
            self._outstanding.append((counter, self._here, self._set))

    @property
    def _is_load(self) -> bool:
        return "load" in self.insn.name or "read" in self.insn.name or "atomic" in self.insn.name

    @property
    def _here(self) -> Place:
        return Place(self._group, self.view.wave.index, self.insn.pc, text(self.insn))

    @property
    def _outstanding(self) -> deque[tuple[str, Place, set[int]]]:
        return self._loads.setdefault(self._owner, deque())

    def _find(self, kind: str, store: Place | None, address: int = 0) -> None:
        key = (kind, self.insn.pc, store.pc if store else 0)
        if key not in self.findings:
            self.findings[key] = Finding(kind, self._here, store, address)

    # ---- registers -------------------------------------------------------------------------------------------------
    def v(self, n: int) -> Array:
        """A vector register, which its load must have reached."""
        self._check_waited(n)
        return super().v(n)

    def s(self, n: int) -> int:
        """A scalar register, likewise."""
        self._check_waited(~n)
        return super().s(n)

    def s64(self, n: int) -> int:
        """Two of them."""
        self._check_waited(~n)
        self._check_waited(~(n + 1))
        return super().s64(n)

    def set_v(self, n: int, v: Value, where: Value | None = None) -> None:
        """Write a vector register."""
        self._set.add(n)
        super().set_v(n, v, where)

    def set_s(self, n: int, v: int) -> None:
        """Write a scalar register."""
        self._set.add(~n)
        super().set_s(n, v)

    def _check_waited(self, register: int) -> None:
        for _, load, registers in self._outstanding:
            if register in registers:
                self._find("no wait", load)

    # ---- memory ----------------------------------------------------------------------------------------------------
    def _gather(self, size: int, addresses: Array, lanes: Indices) -> Rows:
        bypass = bool(self.insn.get("glc"))
        parts = []
        for lane, address in zip(lanes.tolist(), addresses.tolist(), strict=True):
            got, newest = self._lane(lane, self.caches.read, self._unit, address, size, bypass)
            if got != newest:
                self._find("late store" if bypass else "stale line", self.caches.last.get(address & ~3), address)
            parts.append(got)
        return dwords_of_bytes(np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), size))

    def _scatter(self, size: int, addresses: Array, lanes: Indices, data: Rows) -> None:
        self._check_write("global", size, addresses, lanes)
        place = self._here
        for row, address in zip(bytes_of_rows(data, size), addresses.tolist(), strict=True):
            self.caches.issue(self._unit, self._owner, address, row.tobytes(), place)

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
        """Read-modify-writes happen in memory; the cached lines there are dropped."""
        if space in ("global", "flat"):
            lanes = self.lanes_where(where)
            place, size = self._here, bits // 8
            for at in self._addresses(space, address, lanes).tolist():
                unit = self._unit
                self.caches.arrive(lambda store, a=at, u=unit: store.unit is u and _meet(store, a, size))
                self._unit.lines.pop(at // LINE, None)
                for dword in range(at & ~3, at + size, 4):
                    self.caches.last[dword] = place
        return super().atomic(space, kind, bits, address, v, compare, where)

    # ---- waits -----------------------------------------------------------------------------------------------------
    def order(self, what: str, n: int = 0) -> None:
        """s_waitcnt and the invalidations do something here."""
        if what == "waitcnt":
            vm = n & 15 | (n >> 14 & 3) << 4 if self.insn.target.level >= 9 else n & 15
            self._wait("vm", vm)
            self._wait("lgkm", n >> 8 & 15)
            if vm == 0 and self.caches.delays(self._owner):  # the wave stays where it is
                self.target = self.insn.pc
                self.words[RETIRED] -= 1
        elif what.startswith("wbinvl1"):
            self._unit.lines.clear()

    def _wait(self, counter: str, most: int) -> None:
        mine = [load for load in self._outstanding if load[0] == counter]
        for load in mine[: max(len(mine) - most, 0)]:
            self._outstanding.remove(load)

    def end(self) -> None:
        """What a wave has stored arrives in the end."""
        super().end()
        owner = self._owner
        self.caches.arrive(lambda store: store.owner == owner)
        self._outstanding.clear()


class StrictEngine:
    """Runs a dispatch on `units` compute units with the strict memory; `findings` are those of the last run."""

    def __init__(self, units: int = 2, seed: int = 0) -> None:
        self.units = units
        self.seed = seed
        self.findings: list[Finding] = []

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all groups side by side to their end. Errors as of `api.Engine`."""
        caches = Caches(dispatch, self.units, self.seed)
        stepper = StrictStepper(dispatch)
        stepper.algebra.prepare(caches)
        chance = Prng(self.seed ^ 0x5DEECE66D)
        groups = [self._start(dispatch, stepper, group) for group in range(len(dispatch.groups))]
        self.findings = []
        try:
            self._turns(dispatch, stepper, groups, chance)
        finally:
            caches.arrive(lambda store: True)
            self.findings = list(stepper.algebra.findings.values())
        waves = [wave for group, _ in groups for wave in group]
        return Statistics(sum(int(wave.words[RETIRED]) for wave in waves), len(waves), len(groups))

    def _start(self, dispatch: Dispatch, stepper: StrictStepper, group: int) -> tuple[list[Wave], object]:
        count = int(dispatch.shapes.waves[dispatch.groups[group, 3]])
        lds = aligned(max(dispatch.lds_bytes, 1))
        waves = []
        for number in range(count):
            wave = Wave(index=number)
            slot = (group * dispatch.most_waves + number) % max(dispatch.scratch_slots, 1)
            start_wave(dispatch, wave, group, number, slot, int(lds.ctypes.data))
            waves.append(wave)
            owner = len(stepper.algebra.owners)
            stepper.algebra.owners[wave.address] = (owner, group, group % self.units)
        return waves, lds

    def _turns(
        self, dispatch: Dispatch, stepper: StrictStepper, groups: list[tuple[list[Wave], object]], chance: Prng
    ) -> None:
        while True:
            for waves, _ in groups:
                _open_barrier(waves)
            ready = [(number, wave) for number, (waves, _) in enumerate(groups) for wave in waves if _runs(wave)]
            if not ready:
                return
            number, wave = ready[chance.below(len(ready))]
            try:
                for _ in range(1 + chance.below(8)):
                    if not _runs(wave):
                        break
                    if wave.words[RETIRED] >= dispatch.step_limit:
                        text_ = f"the wave did not end within {dispatch.step_limit} instructions"
                        raise StepLimit(text_).at("pc", wave.pc)
                    before = wave.pc
                    stepper.step(wave)
                    stepper.algebra.finish()
                    if wave.pc == before:  # it waits for its stores: let others see what has arrived
                        break
            except UnderstudyError as error:
                x, y, z, _ = dispatch.groups[number].tolist()
                raise error.at("wave", wave.index).at("work-group", f"{x},{y},{z}") from None


class StrictStepper(Stepper):
    """Executes single instructions on `StrictLanes`, never from a recording."""

    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__(dispatch)
        self.algebra = StrictLanes(
            dispatch.memory,
            dispatch.gds,
            dispatch.on_hint,
            dispatch.on_trap,
            dispatch.vgpr_count,
            dispatch.sgpr_count,
        )
        self.lanes = self.algebra


def _runs(wave: Wave) -> bool:
    return bool(wave.words[STATUS] == RUNNING)


def _open_barrier(waves: list[Wave]) -> None:
    """A barrier opens when all that live wait there."""
    if any(_runs(wave) for wave in waves):
        return
    for wave in waves:
        if wave.words[STATUS] == AT_BARRIER:
            wave.words[STATUS] = RUNNING
