"""Strips: vector instructions that are emitted together, as one strip-mined loop.

One iteration of the loop handles a lane vector, a vector of as many lanes as the host processes at once. A
strip ends

- before an instruction that reads a mask or register that the strip writes, or writes a mask or register that
  the strip reads; before an instruction that writes EXEC;
- between a store and any other access to the same memory, since the loop executes all instructions for one
  lane vector before the next;
- between stores and loads, if accesses are reported to a check;
- before and after an instruction that reads other lanes, and where the host's floating-point control has to
  change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from softcard.engine.gcn.effects import Effects, Environment, meet
from softcard.engine.gcn.jit.float_control import DEFAULT
from softcard.engine.gcn.jit.layout import HOOK_SLOTS
from softcard.engine.gcn.jit.region import Node
from softcard.isa.gcn.state import EXEC, FLAT_SCRATCH


def _pairs(firsts: set[int]) -> set[int]:
    return firsts | {n + 1 for n in firsts}


PROLOGUE: Final = -1
"""The number of the prologue, a pass without effects before the first one, which tests for side exits."""
SAYING_WHERE: Final = _pairs(set(FLAT_SCRATCH.values()))
"""The registers that hold the address of flat private memory."""


@dataclass(slots=True)
class Strip:
    """A strip: vector instructions that are to be emitted as one strip-mined loop."""

    nodes: list[Node] = field(default_factory=list)
    first: int = 0
    phase: int = 0
    """The number of the access that the present pass over the lanes emits; see `Memory.begin`.

    It is 0 unless the loop consists of one instruction that needs several passes.
    """
    reads: set[int] = field(default_factory=set)
    """The scalar registers that the strip-mined loop reads, as scalars or as lane masks."""
    masks: set[int] = field(default_factory=set)
    """The scalar registers that the strip-mined loop writes, as lane masks."""
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    environment: Environment = field(default_factory=Environment)
    is_across: bool = False
    is_atomic: bool = False
    """True if no instruction with side exits can be added to the loop, since it begins with an atomic.

    Completing the loop after a side exit repeats the first instruction.
    """
    reads_scc: bool = False
    is_shadowed: bool = False
    """True if further instructions may exit because of a shadow.

    These are writes of EXEC, and scalar instructions with computed register numbers.
    """

    @property
    def is_last(self) -> bool:
        """True if the present pass over the lanes is the last one, which writes the results to registers."""
        return not self.phase or self.phase == self.nodes[0].effects.phases

    @property
    def is_single(self) -> bool:
        """True if the present pass emits only an access of the wave as a whole, not of its lanes."""
        accesses = self.nodes[0].effects.accesses
        return 0 < self.phase <= len(accesses) and accesses[self.phase - 1][0] == "single"

    def add(self, node: Node) -> None:
        """Add an instruction."""
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
        """Return True if an instruction with the effects `found` may be added to the strip."""
        if self.is_across or found.across or (self.is_atomic and (found.memory or self.is_shadowed)):
            return False
        if found.s_reads & self.masks or EXEC in self.masks:
            return False
        if self._is_watched and found.memory and not self._can_batch_with(found):
            return False
        if any(n not in self._whole_masks() for n in found.mask_reads if _pairs({n}) & self.masks):
            return False
        if _may_overlap(found.stores, self.loads | self.stores) or _may_overlap(found.loads, self.stores):
            return False
        return self.environment.joined(found.environment or DEFAULT) is not None

    def ends_before(self, found: Effects) -> bool:
        """Return True if the loop must be emitted before an instruction with these effects."""
        if not self.nodes:
            return False
        if found.lanes:
            return not self.takes(found)
        return found.flow != "next" or found.hwreg_written is not None or self.is_disturbed_by(found)

    def is_waited_for(self, node: Node) -> bool:
        """Return True if `node` waits for stores of the loop to complete, and a check observes this wait."""
        return bool(self.stores - {"lds"}) and node.waits_for_stores

    @property
    def _is_watched(self) -> bool:
        """True if the accesses of the loop are reported to a check."""
        return bool(self.nodes) and self.nodes[0].points.order

    def _can_batch_with(self, found: Effects) -> bool:
        """Return True if the accesses of the loop and of an instruction may be checked together.

        They must be only loads or only stores, at most `HOOK_SLOTS` accesses.
        """
        count = sum(len(node.effects.accesses) for node in self.nodes) + len(found.accesses)
        return count <= HOOK_SLOTS and not (found.stores and self.loads) and not (found.loads and self.stores)

    def _whole_masks(self) -> set[int]:
        return {n for node in self.nodes for n in node.effects.mask_writes}

    def is_disturbed_by(self, found: Effects) -> bool:
        """Return True if a scalar instruction with these effects must be emitted after the loop."""
        writes = found.s_writes | _pairs(found.mask_writes)
        return bool(
            (found.s_reads | _pairs(found.mask_reads)) & self.masks
            or writes & (self.reads | self.masks)
            or (found.writes_scc and self.reads_scc)
            or found.writes_exec
            or found.across
            or found.memory
            or (self.is_shadowed and found.indexes_scalars)
        )


def ends(nodes: Sequence[Node]) -> set[int]:
    """Return the indices of the instructions directly after each strip-mined loop of a block.

    Only the effects of the instructions are examined; the translator may have to end loops at other indices, too."""
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


def _may_overlap(some: set[str], others: set[str]) -> bool:
    """Return True if accesses to one set of address spaces may overlap accesses to the other."""
    return any(meet(a, b) for a in some for b in others)
