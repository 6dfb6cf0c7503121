"""The race check of a device's harts: the last accesses of each byte, and their happens-before order.

The happens-before relation orders these accesses:

- Accesses of one hart are ordered as they are executed.
- Accesses before a barrier of the group are ordered before accesses after it.
- A release is a fence, or an atomic with .rl. An acquire is a later fence, or an atomic with .aq, of a hart that has
  read the value stored after the release. Accesses before the release are ordered before accesses after the acquire.
- Accesses before the start of a DMA transfer are ordered before the transfer, and the transfer before the later
  accesses of a hart that has waited for it.

Groups run one after another. (ISA manual volume I, chapter "RVWMO"; the loads that `fence w,w` does not order are
treated as ordered.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from softcard.core.checks import RACES
from softcard.core.errors import ModelBug
from softcard.core.findings import Finding, FindingLog
from softcard.engine.races.clocks import AgentClock, Clock, join
from softcard.engine.races.findings import FirstAccesses, RaceFindings, host_and, race_message
from softcard.engine.races.tables import over_limit
from softcard.engine.riscv.evaluate import Evaluator
from softcard.engine.riscv.hooks import Extents, HartCheck, Outstanding
from softcard.engine.riscv.tracepoints import registers_of
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import Hart

# ---- agents ----------------------------------------------------------------------------------------------------------
# The happens-before relation of harts and DMA transfers. Each hart and transfer is an agent with a vector clock. A
# release ends an epoch of the agent and begins the next one.


READ, WRITE, ATOMIC = "read", "write", "atomic"


@dataclass(slots=True, eq=False)
class Agent(AgentClock):
    """An agent of the happens-before relation: a hart or a DMA transfer; `unit` is its name in findings."""

    unit: str
    is_transfer: bool = False
    index: int = -1
    """The index of the agent's hart; -1 if the agent is not a hart."""
    released: Clock = field(default_factory=dict)
    """The clock that the agent published with its last release: other agents acquire it from its later stores."""
    acquiring: dict[int, int] = field(default_factory=dict)
    """The join of the clocks that the agent's loads have read since its last fence; the next fence acquires it."""
    fenced: bool = False
    """True if the last instruction was a releasing fence: the next store then publishes the release."""
    pending: list[Suspect] = field(default_factory=list)
    """Possible races of the agent's last load, to be reported unless a fence follows and makes it an acquire."""
    last: Event | None = None

    def is_after(self, event: Event) -> bool:
        """Return True if the accesses of `event` happened before the agent's next access."""
        return self.knows(event.agent.uid, event.epoch)

    def release(self) -> Clock:
        """Publish the agent's clock with its later stores, begin a new epoch, and return the clock."""
        self.released = {**self.known, self.uid: self.epoch}
        self.epoch += 1
        return self.released


@dataclass(slots=True, eq=False)
class Event:
    """The accesses of one agent by one instruction within one epoch.

    `synchronizes` is true for an atomic access, a store after a fence, or a load before a fence. `undecided` is
    true for a load if the hart's next instruction may be such a fence. `clock` is the clock that a reader of
    the stored value may acquire."""

    agent: Agent
    epoch: int
    pc: int | None
    insn: Insn | None
    access: str
    synchronizes: bool
    undecided: bool
    clock: Clock


@dataclass(frozen=True, slots=True)
class Suspect:
    """A possible race: two unordered conflicting accesses, the earlier one first, with their address and size."""

    first: Event
    second: Event
    address: int
    size: int


# ---- findings --------------------------------------------------------------------------------------------------------
# Races of harts as findings with the places of both accesses; those of a pair of instructions are one finding with a
# count.


OF_HARTS: Final = "add a barrier, or a flag with a fence on both sides, between the accesses; or use atomics"
OF_HOST: Final = "wait for the command buffer before the host's access"
HOST: Final = "the host"
LATER: Final = (
    "The race was found after the access, in compiled code or at the hart's next instruction, so the registers are "
    "lost."
)
"""The reason why the registers of a race of harts may be unknown."""
OF_TRANSFERS: Final = "wait for the transfer with DMADONESEQ before the access"


class Reporter:
    """The writer of race findings of harts to a log."""

    def __init__(self, log: FindingLog) -> None:
        self._findings = RaceFindings(log)

    def report(self, suspect: Suspect, hart: Hart | None = None) -> None:
        """Report a race; if one of the same pair of instructions was reported already, only count it.

        `hart` is about to make the second access; it is None if it has made that access before."""
        first, event = suspect.first, suspect.second
        kinds = first.agent.is_transfer, event.agent.is_transfer, event.agent.unit == HOST
        site = first.access, event.access, first.pc, event.pc, *kinds
        if self._findings.has_counted(site):
            return
        is_transfer = first.agent.is_transfer or event.agent.is_transfer
        is_host = event.agent.unit == HOST
        between = "a hart and a transfer" if is_transfer else "harts"
        if is_host:
            between = host_and("a kernel")
        message = race_message(event.access, suspect.size, f"{suspect.address:#x}", first.access, between)
        where = _finding(first, "", "")
        self._findings.locate(where)
        found = _finding(event, f"{first.access}-{event.access}", message)
        found.access, found.space, found.address, found.size = event.access, "global", suspect.address, suspect.size
        found.other, found.conflict = where.place, where
        found.suggestion = OF_HOST if is_host else OF_TRANSFERS if is_transfer else OF_HARTS
        if hart is not None:
            found.registers = registers_of(hart, hart.pc, found.insn)
        elif found.pc is not None:
            found.no_registers = LATER
        self._findings.report(site, found)


def _finding(event: Event, kind: str, message: str) -> Finding:
    shown = "" if event.insn is None or event.pc is None else text(event.insn, event.pc)
    return Finding(RACES, kind, message, pc=event.pc, insn=shown, unit=event.agent.unit)


# ---- check -----------------------------------------------------------------------------------------------------------


GROUPS: Final = "groups of instances"
MOST_BYTES: Final = 1 << 22
"""The maximum number of bytes that a group of instances may access."""
R_PRED, W_PRED, R_SUCC, W_SUCC = 1 << 25, 1 << 24, 1 << 21, 1 << 20
"""The bits PR, PW, SR and SW of a fence instruction, which name its predecessor and successor accesses."""


@dataclass(slots=True)
class Cell:
    """The shadow state of one byte: the event of its last store, and the events of later loads by agent."""

    store: Event | None = None
    loads: dict[int, Event] = field(default_factory=dict)

    def met(self, access: str) -> list[Event]:
        """Return the events that conflict with an access: the store, and for other accesses than loads the loads."""
        stores = [] if self.store is None else [self.store]
        return stores if access == READ else [*stores, *self.loads.values()]

    def by_index(self) -> list[Event]:
        """Return the events of the loads, ordered by the indices of their harts."""
        return sorted(self.loads.values(), key=lambda event: event.agent.index)


@dataclass(frozen=True, slots=True)
class Moving:
    """A DMA transfer: its key, its agent, the byte ranges that it reads and writes, and their device addresses."""

    key: object
    agent: Agent
    reads: Extents
    writes: Extents
    source: int
    target: int


class HartRaces(HartCheck):
    """The race check of harts on the reference engine, which reports races to a log.

    `place` maps an address of a hart to one in this process, or to None if it is not in memory. With `equal_stores`,
    races of stores that leave the memory unchanged are reported, too.
    """

    name = RACES

    def __init__(self, log: FindingLog, place: Callable[[Hart, int], int | None], equal_stores: bool = False) -> None:
        self._reporter = Reporter(log)
        self.equal_stores = equal_stores
        self._place = place
        self._cells: dict[int, Cell] = {}
        self._harts: dict[int, Agent] = {}
        self._moving: list[Moving] = []
        self._uid = 0
        self._events: dict[tuple[int, int, int | None, str], Event] = {}
        self._behind: dict[int, int] = {}
        """The clock of all accesses before the last barrier; harts that have done nothing yet start with it."""
        self._remembered: dict[int, Cell] | None = None
        """By address: the accesses of kernels that the host has not waited for; None if accesses are not remembered."""

    # ---- the order of things -------------------------------------------------------------------------------------
    @property
    def tracker(self) -> HartRaces:
        """This object itself, as the tracker of the order of accesses."""
        return self

    def observe(self, evaluator: Evaluator) -> Evaluator:
        """Return the evaluator, changed to check its accesses."""
        evaluator.watch = self
        return evaluator

    def group_begins(self, outstanding: Iterable[Outstanding] = ()) -> None:
        """Begin a group of kernel instances: all accesses of harts so far count as ordered before those of the group.

        `outstanding` contains the DMA transfers that were not waited for."""
        self._decide_all()
        if self._remembered is not None:
            self._remember(self._remembered)
        self._cells.clear()
        self._harts.clear()
        self._events.clear()
        self._moving.clear()
        self._behind.clear()
        for key, unit, reads, writes, source, target in outstanding:
            self._moving.append(Moving(key, self._agent(unit, is_transfer=True), reads, writes, source, target))

    @property
    def starter(self) -> tuple[int, int]:
        """Raise `ModelBug`: this check has no compiled function that begins a group."""
        raise ModelBug("the race check has no machine code for harts on the reference engine")

    def kernel_ends(self) -> None:
        """End a kernel command, and report its pending races."""
        self.group_begins()

    def barrier_opens(self) -> None:
        """Handle a barrier that all harts of the group have reached.

        All accesses before the barrier are ordered before all later ones.
        """
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
        """Apply the order of a fence: loads before it acquire, and stores after it release.

        `word` is the encoding of the fence instruction.
        """
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
        """Record the start of a DMA transfer by a hart, or by a command if `hart` is None.

        `key` identifies the transfer until it is finished. `unit` is its name in findings. `reads` and `writes` are
        byte ranges in this process; `source` and `target` are their device addresses.
        """
        agent = self._agent(unit, is_transfer=True)
        if hart is not None:
            starter = self._of(hart)
            self._decide(starter, acquires=False)
            agent.learn(starter.release())
        for host, cell in sorted(self._cells.items()):
            if any(start <= host < end for start, end in writes):
                self._detector(self._made(agent, WRITE), (cell.store, *cell.by_index()), target, 1)
            elif any(start <= host < end for start, end in reads):
                self._detector(self._made(agent, READ), (cell.store,), source, 1)
        self._moving.append(Moving(key, agent, reads, writes, source, target))

    def finished(self, hart: int | None, key: object) -> None:
        """Record that a hart has waited for the transfer `key`.

        If `hart` is None, the transfer belongs to the command processor, and the call has no effect."""
        for moving in self._moving:
            if moving.key == key and hart is not None:
                self._of(hart).learn({**moving.agent.known, moving.agent.uid: moving.agent.epoch})

    def _made(self, agent: Agent, access: str) -> Event:
        return Event(agent, agent.epoch, None, None, access, False, False, {})

    # ---- the host ------------------------------------------------------------------------------------------------
    def remember(self) -> None:
        """Remember all accesses from now on; called before kernels that the host does not wait for.

        A later access by the host is checked against the remembered accesses.
        """
        self._remembered = {}

    def _remember(self, remembered: dict[int, Cell]) -> None:
        for host, cell in self._cells.items():
            known = remembered.setdefault(host, Cell())
            known.store = cell.store or known.store
            known.loads |= {each.agent.uid: each for each in cell.by_index()}
        for moving in self._moving:
            self._extend(remembered, moving.writes, self._made(moving.agent, WRITE))

    def _extend(self, remembered: dict[int, Cell], extents: Extents, event: Event) -> None:
        for start, end in extents:
            for host in range(start, min(end, start + MOST_BYTES)):
                remembered.setdefault(host, Cell()).store = event

    def host(self, access: str, address: int, extents: Extents) -> None:
        """Check an access by the host against all accesses of harts since `remember`, and report races.

        None of these accesses happened before that of the host. `address` is the device address, and `extents` are
        the byte ranges in this process."""
        remembered, self._remembered = self._remembered or {}, None
        report_host(self._reporter, remembered, self._agent(HOST), access, address, extents)

    # ---- accesses ------------------------------------------------------------------------------------------------
    def access(self, hart: Hart, insn: Insn, access: str, address: int, size: int, same: Callable[[], bool]) -> None:
        """Check an access of a hart, and report its races.

        `same` is a function that returns True if a store leaves the memory unchanged.
        """
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
        self._detector(event, others, address, size, same, hart)
        self._against_transfers(event, host, address, size, hart)
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
                raise over_limit(GROUPS, f"{MOST_BYTES} accessed bytes")
            cell = self._cells[host] = Cell()
        return cell

    def _event(self, agent: Agent, pc: int, insn: Insn, access: str, is_atomic: bool) -> Event:
        if is_atomic and insn.rl and access != READ:
            agent.release()
        released = agent.fenced and access == WRITE
        key = agent.uid, agent.epoch, pc, f"{access}{released}"
        event = self._events.get(key)
        if event is None:
            synchronizes = is_atomic or released
            event = Event(agent, agent.epoch, pc, insn, access, synchronizes, False, agent.released)
            self._events[key] = event
        return event

    def _detector(
        self,
        event: Event,
        others: Iterable[Event | None],
        address: int,
        size: int,
        same: Callable[[], bool] | None = None,
        hart: Hart | None = None,
    ) -> None:
        for other in dict.fromkeys(others):
            if other is None or event.agent.is_after(other) or (event.synchronizes and other.synchronizes):
                continue
            if event.access == other.access == WRITE and same is not None and not self.equal_stores and same():
                continue
            suspect = Suspect(other, event, address, size)
            if event.undecided and other.synchronizes:
                event.agent.pending.append(suspect)
            elif other.undecided and event.synchronizes:
                other.agent.pending.append(suspect)
            elif not (event.undecided and other.undecided):
                self._reporter.report(suspect, hart)

    def _against_transfers(self, event: Event, host: int, address: int, size: int, hart: Hart) -> None:
        for moving in self._moving:
            extents = moving.writes if event.access == READ else (*moving.writes, *moving.reads)
            if any(start < host + size and host < end for start, end in extents):
                is_read = not any(start < host + size and host < end for start, end in moving.writes)
                other = self._made(moving.agent, READ if is_read else WRITE)
                if not event.agent.is_after(other):
                    self._reporter.report(Suspect(other, event, address, size), hart)

    def _decide(self, agent: Agent, *, acquires: bool) -> None:
        """Report the pending races of a hart's last load.

        If the load `acquires`, only its races with accesses that do not synchronise are reported.
        """
        pending, agent.pending = agent.pending, []
        if agent.last is not None and agent.last.undecided:
            agent.last.undecided = False
            agent.last.synchronizes = acquires
        agent.last = None
        for suspect in pending:
            if not (suspect.first.synchronizes and suspect.second.synchronizes):
                self._reporter.report(suspect)


def report_host(
    reporter: Reporter, remembered: dict[int, Cell], host: Agent, access: str, address: int, extents: Extents
) -> None:
    """Report the races of a host access with accesses of kernels that the host has not waited for."""
    event = Event(host, host.epoch, None, None, access, False, False, {})
    size, done = sum(end - start for start, end in extents), 0
    numbers: dict[Event, int] = {}
    found = FirstAccesses()
    for start, end in extents:
        rows = defaultdict[int, list[tuple[int, int]]](list)
        for at in range(start, end) if size < len(remembered) else remembered:
            if start <= at < end and at in remembered:
                for row, other in enumerate(remembered[at].met(access)):
                    rows[row].append((numbers.setdefault(other, len(numbers)), address + done + at - start))
        for row, pairs in rows.items():
            keys, addresses = np.array(pairs, np.int64).T
            found.add(row, keys, addresses, keys)
        found.end_piece()
        done += end - start
    events = list(numbers)
    for number, first in sorted(found.found.items(), key=lambda item: (item[1].address, item[1].row)):
        reporter.report(Suspect(events[number], event, first.address, 1))
