"""What looks for races of a device's harts: who touched each byte last, and what orders it before who touches it now.

Ordered are: accesses of one hart; those before a barrier of the group and those behind it; those before a fence, or by
the .rl of an atomic, and those behind a fence, or the .aq of an atomic, of a hart that has read what was stored behind
the first one; those before a DMA transfer was started, the transfer, and those of the hart that has waited for it.
Groups come one after another. (ISA manual volume I, chapter "RVWMO"; what `fence w,w` leaves out is not told apart.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from understudy.core.checks import RACES
from understudy.core.errors import BeyondModel, ModelBug
from understudy.core.findings import FindingLog
from understudy.engine.clocks import join
from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.races.agents import ATOMIC, READ, WRITE, Agent, Event, Suspect
from understudy.engine.riscv.races.telling import HOST, Telling
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import Hart

MOST_BYTES: Final = 1 << 22
"""Bytes that may be touched within a group of instances."""
R_PRED, W_PRED, R_SUCC, W_SUCC = 1 << 25, 1 << 24, 1 << 21, 1 << 20
"""Bits of a fence."""
Extents = Sequence[tuple[int, int]]
"""Bytes of this process: start and end."""
Outstanding = tuple[object, str, Extents, Extents, int, int]
"""A DMA transfer that nobody has waited for: what names it, its unit, what it reads and writes, and where that is."""


@dataclass(slots=True)
class Cell:
    """One byte: its last store, and what no store has followed, by agent."""

    store: Event | None = None
    loads: dict[int, Event] = field(default_factory=dict)

    def by_index(self) -> list[Event]:
        """The loads, by the numbers of their harts."""
        return sorted(self.loads.values(), key=lambda event: event.agent.index)


@dataclass(frozen=True, slots=True)
class Moving:
    """A DMA transfer: what it reads and writes."""

    key: object
    agent: Agent
    reads: Extents
    writes: Extents
    source: int
    target: int


class Races(Protocol):
    """What looks for races of a device's harts."""

    def dress(self, evaluator: Evaluator) -> Evaluator:
        """Look at what an evaluator accesses."""

    def begin_group(self, outstanding: Iterable[Outstanding] = ()) -> None:
        """Whatever harts did so far is over; `outstanding` are transfers that nobody has waited for."""

    @property
    def starter(self) -> tuple[int, int]:
        """Machine code that does the same for the next group, and what it takes: it gives 0 where it could."""

    def end(self) -> None:
        """A kernel command is over."""

    def barrier(self) -> None:
        """All harts of the group have come to a barrier, and go on."""

    def started(
        self, hart: int | None, key: object, unit: str, reads: Extents, writes: Extents, source: int, target: int
    ) -> None:
        """A hart has started a transfer (None: a command has), which `key` names until it is finished."""

    def finished(self, hart: int | None, key: object) -> None:
        """It was waited for."""

    def keep(self) -> None:
        """Kernels run next that the host does not wait for before it accesses memory."""

    def host(self, access: str, address: int, extents: Extents) -> None:
        """The host accesses memory at a device address, and has waited for nothing since `keep`."""


class HartRaces:
    """Looks at accesses of harts, and tells a log. `place` gives the address in this process of what a hart sees at an
    address; None for what is no memory. `equal_stores`: stores that leave memory as it is are told of, too."""

    def __init__(self, log: FindingLog, place: Callable[[Hart, int], int | None], equal_stores: bool = False) -> None:
        self._telling = Telling(log)
        self.equal_stores = equal_stores
        self._place = place
        self._cells: dict[int, Cell] = {}
        self._harts: dict[int, Agent] = {}
        self._moving: list[Moving] = []
        self._uid = 0
        self._events: dict[tuple[int, int, int | None, str], Event] = {}
        self._behind: dict[int, int] = {}
        """What comes before all that is done behind the last barrier, by harts that have done nothing yet, too."""
        self._kept: dict[int, Cell] | None = None
        """What kernels touch, while the host has not waited for them."""

    # ---- the order of things -------------------------------------------------------------------------------------
    def dress(self, evaluator: Evaluator) -> Evaluator:
        """Look at what an evaluator accesses."""
        evaluator.watch = self
        return evaluator

    def begin_group(self, outstanding: Iterable[Outstanding] = ()) -> None:
        """Whatever harts did so far is over; `outstanding` are transfers that nobody has waited for."""
        self._decide_all()
        if self._kept is not None:
            self._keep(self._kept)
        self._cells.clear()
        self._harts.clear()
        self._events.clear()
        self._moving.clear()
        self._behind.clear()
        for key, unit, reads, writes, source, target in outstanding:
            self._moving.append(Moving(key, self._agent(unit, is_transfer=True), reads, writes, source, target))

    @property
    def starter(self) -> tuple[int, int]:
        """There is none."""
        raise ModelBug("groups are not begun by machine code where harts run on the reference engine")

    def end(self) -> None:
        """A kernel command is over."""
        self.begin_group()

    def barrier(self) -> None:
        """All harts of the group have come to a barrier, and go on."""
        self._decide_all()
        for agent in self._harts.values():
            join(self._behind, agent.release())
        for agent in self._harts.values():
            agent.learn(self._behind)

    def _decide_all(self) -> None:
        for _, agent in sorted(self._harts.items()):
            self._decide(agent, acquires=False)

    def _agent(self, unit: str, is_transfer: bool = False) -> Agent:
        self._uid += 1
        return Agent(self._uid, unit, is_transfer)

    def _of(self, hart: int) -> Agent:
        if hart not in self._harts:
            agent = self._harts[hart] = self._agent(f"hart {hart}")
            agent.index = hart
            agent.learn(self._behind)
        return self._harts[hart]

    def fence(self, hart: Hart, word: int, is_tso: bool) -> None:
        """A fence: of loads before it, of stores behind it."""
        agent = self._of(hart.index)
        if (word & R_PRED and word & R_SUCC) or is_tso:
            self._decide(agent, acquires=True)
            agent.learn(agent.acquiring)
            agent.acquiring.clear()
        if (word & W_PRED and word & W_SUCC) or is_tso:
            agent.release()
            agent.fenced = True

    # ---- transfers -----------------------------------------------------------------------------------------------
    def started(
        self, hart: int | None, key: object, unit: str, reads: Extents, writes: Extents, source: int, target: int
    ) -> None:
        """A hart has started a transfer (None: a command has), which `key` names until it is finished."""
        agent = self._agent(unit, is_transfer=True)
        if hart is not None:
            starter = self._of(hart)
            self._decide(starter, acquires=False)
            agent.learn(starter.release())
        for host, cell in sorted(self._cells.items()):
            if any(start <= host < end for start, end in writes):
                self._judge(self._made(agent, WRITE), (cell.store, *cell.by_index()), target, 1)
            elif any(start <= host < end for start, end in reads):
                self._judge(self._made(agent, READ), (cell.store,), source, 1)
        self._moving.append(Moving(key, agent, reads, writes, source, target))

    def finished(self, hart: int | None, key: object) -> None:
        """It was waited for."""
        for moving in self._moving:
            if moving.key == key and hart is not None:
                self._of(hart).learn({**moving.agent.known, moving.agent.uid: moving.agent.tick})

    def _made(self, agent: Agent, access: str) -> Event:
        return Event(agent, agent.tick, None, None, access, False, False, {})

    # ---- the host ------------------------------------------------------------------------------------------------
    def keep(self) -> None:
        """Kernels run next that the host does not wait for before it accesses memory."""
        self._kept = {}

    def _keep(self, kept: dict[int, Cell]) -> None:
        for host, cell in self._cells.items():
            known = kept.setdefault(host, Cell())
            known.store = cell.store or known.store
            known.loads |= {each.agent.uid: each for each in cell.by_index()}
        for moving in self._moving:
            self._extend(kept, moving.writes, self._made(moving.agent, WRITE))

    def _extend(self, kept: dict[int, Cell], extents: Extents, event: Event) -> None:
        for start, end in extents:
            for host in range(start, min(end, start + MOST_BYTES)):
                kept.setdefault(host, Cell()).store = event

    def host(self, access: str, address: int, extents: Extents) -> None:
        """The host accesses memory at a device address, and has waited for nothing since `keep`."""
        kept, self._kept = self._kept or {}, None
        tell_host(self._telling, kept, self._agent(HOST), access, address, extents)

    # ---- accesses ------------------------------------------------------------------------------------------------
    def access(self, hart: Hart, insn: Insn, access: str, address: int, size: int, same: Callable[[], bool]) -> None:
        """A hart accesses memory; `same` says whether a store leaves it as it is."""
        host = self._place(hart, address)
        if host is None:
            return
        agent, is_atomic = self._of(hart.index), insn.spec.extension == "A"
        event = self._event(agent, hart.pc, insn, access, is_atomic)
        if agent.last is not event or access != READ:
            self._decide(agent, acquires=False)
        agent.last, agent.fenced = event, False
        event.undecided = access == READ and not is_atomic
        cells = [self._cell(host + n) for n in range(size)]
        others: list[Event | None] = [cell.store for cell in cells]
        if access != READ:
            others += [each for cell in cells for each in cell.by_index()]
        self._judge(event, others, address, size, same)
        self._against_transfers(event, host, address, size)
        if access != WRITE:
            for cell in cells:
                if cell.store is not None and cell.store.agent is not agent:
                    join(agent.acquiring, cell.store.clock)
            if is_atomic and insn.aq:
                agent.learn(agent.acquiring)
                agent.acquiring.clear()
        for cell in cells:
            if access == READ:
                cell.loads[agent.uid] = event
            else:
                if access == ATOMIC and cell.store is not None and cell.store.access == ATOMIC:
                    clock = dict(event.clock)
                    join(clock, cell.store.clock)
                    event.clock = clock
                cell.store = event
                cell.loads.clear()

    def _cell(self, host: int) -> Cell:
        cell = self._cells.get(host)
        if cell is None:
            if len(self._cells) >= MOST_BYTES:
                raise BeyondModel(f"check {RACES!r} of groups of instances that touch more than {MOST_BYTES} bytes")
            cell = self._cells[host] = Cell()
        return cell

    def _event(self, agent: Agent, pc: int, insn: Insn, access: str, is_atomic: bool) -> Event:
        if is_atomic and insn.rl and access != READ:
            agent.release()
        released = agent.fenced and access == WRITE
        key = agent.uid, agent.tick, pc, f"{access}{released}"
        event = self._events.get(key)
        if event is None:
            synchronizes = is_atomic or released
            event = Event(agent, agent.tick, pc, insn, access, synchronizes, False, agent.released)
            self._events[key] = event
        return event

    def _judge(
        self,
        event: Event,
        others: Iterable[Event | None],
        address: int,
        size: int,
        same: Callable[[], bool] | None = None,
    ) -> None:
        for other in dict.fromkeys(others):
            if other is None or event.agent.knows(other) or (event.synchronizes and other.synchronizes):
                continue
            if event.access == other.access == WRITE and same is not None and not self.equal_stores and same():
                continue
            suspect = Suspect(other, event, address, size)
            if event.undecided and other.synchronizes:
                event.agent.pending.append(suspect)
            elif other.undecided and event.synchronizes:
                other.agent.pending.append(suspect)
            elif not (event.undecided and other.undecided):
                self._telling.tell(suspect)

    def _against_transfers(self, event: Event, host: int, address: int, size: int) -> None:
        for moving in self._moving:
            extents = moving.writes if event.access == READ else (*moving.writes, *moving.reads)
            if any(start < host + size and host < end for start, end in extents):
                is_read = not any(start < host + size and host < end for start, end in moving.writes)
                other = self._made(moving.agent, READ if is_read else WRITE)
                if not event.agent.knows(other):
                    self._telling.tell(Suspect(other, event, address, size))

    def _decide(self, agent: Agent, *, acquires: bool) -> None:
        """The last load of a hart is one that acquires, or is not."""
        pending, agent.pending = agent.pending, []
        if agent.last is not None and agent.last.undecided:
            agent.last.undecided = False
            agent.last.synchronizes = acquires
        agent.last = None
        for suspect in pending:
            if not (suspect.first.synchronizes and suspect.second.synchronizes):
                self._telling.tell(suspect)


def tell_host(
    telling: Telling, kept: dict[int, Cell], host: Agent, access: str, address: int, extents: Extents
) -> None:
    """Tell of what the host races with when it accesses memory that kernels have touched meanwhile."""
    event = Event(host, host.tick, None, None, access, False, False, {})
    size, done = sum(end - start for start, end in extents), 0
    found: set[int] = set()
    for start, end in extents:
        for at in range(start, end) if size < len(kept) else sorted(each for each in kept if start <= each < end):
            cell = kept.get(at)
            others = [] if cell is None else [cell.store, *(cell.loads.values() if access != READ else ())]
            for other in others:
                if other is not None and id(other) not in found:
                    found.add(id(other))
                    telling.tell(Suspect(other, event, address + done + at - start, 1))
        done += end - start
