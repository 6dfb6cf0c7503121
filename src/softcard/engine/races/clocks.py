"""Vector clocks of agents (waves, harts and DMA transfers), and the rules of order and conflict of their accesses.

Vector clocks are joined when one agent synchronises with another.

Each agent divides its time into numbered epochs. A vector clock contains, for each agent, the last epoch that has
happened before; all earlier epochs of that agent have happened before as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from softcard.ir.native import inlined

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


# ---- rules of order and conflict -------------------------------------------------------------------------------------
# The rules of races for one access or for vectors of accesses: which accesses are ordered, and which conflict.
#
# A shadow cell records an access as one word, the *code* of the access. The word contains the agent (a wave or a
# hart) and the agent's epoch or number. Each instruction set has its own layout of codes, but one property holds for
# all: an access that happened before everything that is executed now has a code below a *watermark*, and all other
# accesses have codes at or above it. 0, the code of an empty cell, is below every watermark.


@inlined
def is_of(record: int, agent: int, bits: int) -> int:
    """Return 1 if the access recorded as `record` was made by `agent`.

    `bits` is the mask of the bits that identify the agent in such a record.
    """
    return (record ^ agent) & bits == 0


@inlined
def is_settled(record: int, watermark: int, agent: int, bits: int) -> int:
    """Return 1 if a recorded access is ordered before the agent's next access without use of its vector clock.

    That is so if the access lies below the `watermark` or was made by the agent itself.
    """
    return (record < watermark) | is_of(record, agent, bits)


@inlined
def is_ordered(record: int, watermark: int, agent: int, bits: int, is_known: int) -> int:
    """Return 1 if a recorded access happened before the agent's next access.

    `is_known` is 1 if the agent's vector clock contains the epoch of the recorded access.
    """
    return is_settled(record, watermark, agent, bits) | is_known


@inlined
def cells_met(is_load: int, stores: int, count: int) -> int:
    """Return the number of shadow cells of a byte that conflict with an access, counted from the first cell.

    A byte has `count` cells; the first `stores` of them record stores, the others loads. A load conflicts with stores
    only. A store or an atomic conflicts with loads, too.
    """
    return stores if is_load else count
