"""Vector clocks of agents (waves, harts and DMA transfers), which are joined when one agent synchronises with another.

Each agent divides its time into numbered epochs. A vector clock contains, for each agent, the last epoch that has
happened before; all earlier epochs of that agent have happened before as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Clock = Mapping[int, int]
"""A vector clock: for each agent's number, the last epoch of the agent that happened before."""


def join(clock: dict[int, int], other: Clock) -> None:
    """Join another vector clock into `clock`: keep the later epoch of each agent."""
    for uid, epoch in other.items():
        if clock.get(uid, 0) < epoch:
            clock[uid] = epoch


@dataclass(slots=True, eq=False)
class AgentClock:
    """The vector clock of the agent with the number `uid`."""

    uid: int
    known: dict[int, int] = field(default_factory=dict, kw_only=True)
    """The last known epoch of each other agent."""
    epoch: int = field(default=1, kw_only=True)

    def knows(self, uid: int, epoch: int) -> bool:
        """Return True if epoch `epoch` of agent `uid` happened before this agent's next access.

        See `order.is_ordered`.
        """
        return uid == self.uid or self.known.get(uid, 0) >= epoch

    def learn(self, clock: Clock) -> None:
        """Join another clock into this one: its epochs happened before all that this agent does from now on."""
        known, is_new = self.known, False
        for uid, epoch in clock.items():
            if uid != self.uid and known.get(uid, 0) < epoch:
                known[uid] = epoch
                is_new = True
        if is_new:
            self.changed()

    def changed(self) -> None:
        """Handle a change of the clock: the agent has learnt of epochs that it did not know."""
