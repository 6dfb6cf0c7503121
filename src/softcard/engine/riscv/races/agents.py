"""The happens-before relation of harts and DMA transfers.

Each hart and transfer is an agent with a vector clock. A release ends an epoch of the agent and begins the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from softcard.engine.races.clocks import AgentClock, Clock
from softcard.isa.riscv.insn import Insn

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

    `synchronizes` is true for an atomic access, a store after a fence, or a load before a fence. `undecided` is true
    for a load whose hart may execute that fence next. `clock` is the clock that a reader of the stored value may
    acquire.
    """

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
