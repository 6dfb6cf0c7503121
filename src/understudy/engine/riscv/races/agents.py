"""What is ordered before what: a clock for each hart and each DMA transfer, joined where one waits for another.

An agent's own clock counts *ticks*: stretches between releases. A clock says, by agent, up to which tick all that it
did came before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from understudy.engine.clocks import Clock, join
from understudy.isa.riscv.insn import Insn

READ, WRITE, ATOMIC = "read", "write", "atomic"


@dataclass(slots=True, eq=False)
class Agent:
    """A hart, or a DMA transfer; `unit` is what findings call it."""

    uid: int
    unit: str
    is_transfer: bool = False
    index: int = -1
    """The number of its hart."""
    known: dict[int, int] = field(default_factory=dict)
    """What came before, but for its own."""
    tick: int = 1
    released: Clock = field(default_factory=dict)
    """What comes before whoever acquires from its stores."""
    acquiring: dict[int, int] = field(default_factory=dict)
    """What it has read of others' releases, until a fence."""
    fenced: bool = False
    """Whether a fence that releases stands directly before its next access."""
    pending: list[Suspect] = field(default_factory=list)
    """What is told unless a fence makes its last load one that acquires."""
    last: Event | None = None

    def knows(self, event: Event) -> bool:
        """Whether an event came before what it does now."""
        return event.agent is self or self.known.get(event.agent.uid, 0) >= event.tick

    def learn(self, clock: Clock) -> None:
        """What a clock says came before, comes before what it does from now on."""
        join(self.known, {uid: tick for uid, tick in clock.items() if uid != self.uid})

    def release(self) -> Clock:
        """What it has done so far comes before whoever acquires from its stores from now on."""
        self.released = {**self.known, self.uid: self.tick}
        self.tick += 1
        return self.released


@dataclass(slots=True, eq=False)
class Event:
    """Accesses of one agent by one instruction within one tick.

    `synchronizes`: it is an atomic access, a store behind a fence or a load before one. `undecided`: a load whose hart
    may execute the fence next. `clock`: what whoever reads what it stores may acquire.
    """

    agent: Agent
    tick: int
    pc: int | None
    insn: Insn | None
    access: str
    synchronizes: bool
    undecided: bool
    clock: Clock


@dataclass(frozen=True, slots=True)
class Suspect:
    """Two accesses in no order: the first one, the second one, where, and of how many bytes."""

    first: Event
    second: Event
    address: int
    size: int
