"""Strips: vector instructions that wait for each other, to be written together as one loop over chunks of lanes.

A strip ends

- before what reads a mask or register that it writes, or writes one that it reads; before what writes EXEC;
- between a store and any other access to the same memory: the loop runs all of it for one chunk before the next;
- where races are looked for, between stores and loads;
- around what sees other lanes, and where the float environment of the host has to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from understudy.engine.gcn.jit.effects import Effects, Environment, meet
from understudy.engine.gcn.jit.float_control import DEFAULT
from understudy.engine.gcn.jit.layout import RACE_SLOTS
from understudy.engine.gcn.jit.region import Node
from understudy.isa.gcn.state import EXEC, FLAT_SCRATCH


def _pairs(firsts: set[int]) -> set[int]:
    return firsts | {n + 1 for n in firsts}


AHEAD: Final = -1
"""A phase before the first one, in which nothing is done: what must not be is looked for."""
SAYING_WHERE: Final = _pairs(set(FLAT_SCRATCH.values()))
"""Registers that say where flat private memory lies."""


@dataclass(slots=True)
class Strip:
    """Vector instructions to be written as one loop."""

    nodes: list[Node] = field(default_factory=list)
    first: int = 0
    phase: int = 0
    """Which of the accesses of its one instruction is meant; see `Memory.begin`."""
    reads: set[int] = field(default_factory=set)
    """Scalar registers that are read, as such or as masks."""
    masks: set[int] = field(default_factory=set)
    """Scalar registers that are written, as masks."""
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    environment: Environment = field(default_factory=Environment)
    is_across: bool = False
    is_atomic: bool = False
    """Nothing that might leave the strip may follow: finishing it begins anew with the first instruction."""
    reads_scc: bool = False
    is_marked: bool = False
    """Whether it may be left because of what decides EXEC, and scalar instructions because of registers' numbers."""

    @property
    def is_last(self) -> bool:
        """Whether its instructions come to their end, and write registers."""
        return not self.phase or self.phase == self.nodes[0].effects.phases

    @property
    def is_single(self) -> bool:
        """Whether all that is meant is an access of the wave itself."""
        accesses = self.nodes[0].effects.accesses
        return 0 < self.phase <= len(accesses) and accesses[self.phase - 1][0] == "single"

    def add(self, node: Node) -> None:
        """Take in one more."""
        found = node.effects
        self.nodes.append(node)
        self.reads |= found.s_reads | _pairs(found.mask_reads)
        if "flat" in found.loads | found.stores:
            self.reads |= SAYING_WHERE
        self.masks |= _pairs(found.mask_writes)
        self.loads |= found.loads
        self.stores |= found.stores
        self.is_across |= found.across
        self.is_atomic |= found.atomic
        self.reads_scc |= found.reads_scc
        joined = self.environment.joined(found.environment or DEFAULT)
        assert joined is not None
        self.environment = joined

    def takes(self, found: Effects) -> bool:
        """Whether one more may be added."""
        if self.is_across or found.across or (self.is_atomic and (found.memory or self.is_marked)):
            return False
        if found.s_reads & self.masks or EXEC in self.masks:
            return False
        if self._is_watched and found.memory and not self._is_looked_at_with(found):
            return False
        if any(n not in self._whole_masks() for n in found.mask_reads if _pairs({n}) & self.masks):
            return False
        if _clash(found.stores, self.loads | self.stores) or _clash(found.loads, self.stores):
            return False
        return self.environment.joined(found.environment or DEFAULT) is not None

    def ends_before(self, found: Effects) -> bool:
        """Whether it has to be done before an instruction."""
        if not self.nodes:
            return False
        if found.lanes:
            return not self.takes(found)
        return found.flow != "next" or found.hwreg_written is not None or self.is_disturbed_by(found)

    def is_waited_for(self, node: Node) -> bool:
        """Whether an instruction waits for stores of the strip, and somebody looks at that."""
        return bool(self.stores - {"lds"}) and node.waits_for_stores

    @property
    def _is_watched(self) -> bool:
        """Whether races are looked for."""
        return bool(self.nodes) and bool(self.nodes[0].watches)

    def _is_looked_at_with(self, found: Effects) -> bool:
        """Whether accesses may be looked at together: loads where nothing is stored, each with a slot of its own."""
        count = sum(len(node.effects.accesses) for node in self.nodes) + len(found.accesses)
        return count <= RACE_SLOTS and not (found.stores and self.loads) and not (found.loads and self.stores)

    def _whole_masks(self) -> set[int]:
        return {n for node in self.nodes for n in node.effects.mask_writes}

    def is_disturbed_by(self, found: Effects) -> bool:
        """Whether a scalar instruction must wait for the strip."""
        writes = found.s_writes | _pairs(found.mask_writes)
        return bool(
            (found.s_reads | _pairs(found.mask_reads)) & self.masks
            or writes & (self.reads | self.masks)
            or (found.writes_scc and self.reads_scc)
            or found.writes_exec
            or found.across
            or found.memory
            or (self.is_marked and found.indexes_scalars)
        )


def ends(nodes: Sequence[Node]) -> set[int]:
    """Where strips end, by the index of the instruction behind each, as far as that follows from the instructions."""
    found, strip = {len(nodes)}, Strip()
    for index, node in enumerate(nodes):
        if strip.ends_before(node.effects) or strip.is_waited_for(node) or node.effects.phases > 1:
            found.add(index)
            strip = Strip()
        if node.effects.lanes:
            strip.add(node)
        if node.effects.writes_exec or node.effects.phases > 1:
            found.add(index + 1)
            strip = Strip()
    return found


def _clash(some: set[str], others: set[str]) -> bool:
    """Whether accesses to these spaces may meet."""
    return any(meet(a, b) for a in some for b in others)
