"""Liveness of vector registers: translated code stores only registers that may be read later.

A lane of a register is dead if every path overwrites it, or ends the wave, before it is read. Lanes of EXEC
are tracked separately from other lanes. If the other lanes are dead, a store may overwrite all lanes of a
vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.engine.gcn.jit.basics import BlockKey, Observed
from softcard.engine.gcn.jit.region import Block, Node, Region
from softcard.isa.gcn.state import ROWS, VGPRS
from softcard.isa.gcn.target import Target

ALL: Final = (1 << VGPRS) - 1


@dataclass(frozen=True, slots=True)
class Live:
    """Sets of registers, as bit masks: `active` may be read in lanes of EXEC, `inactive` in other lanes."""

    active: int = 0
    inactive: int = 0

    def __or__(self, other: Live) -> Live:
        return Live(self.active | other.active, self.inactive | other.inactive)

    def anywhere(self) -> Live:
        """Return the liveness for an unknown value of EXEC: registers that are live in some lanes are live in all
        lanes."""
        both = self.active | self.inactive
        return Live(both, both)

    def before(self, node: Node) -> Live:
        """Return the liveness before an instruction, given the liveness `self` after it."""
        found = node.effects
        if node.is_step or found.indexes:
            return everything(node.insn.target)
        live = self.anywhere() if found.writes_exec else self
        reads, writes = _bits(found.v_reads), _bits(found.v_writes)
        if found.everywhere:
            return Live(live.active & ~writes | reads, live.inactive & ~writes | reads)
        if found.across:  # v_writelane writes one lane, and all lanes may be read
            return Live(live.active | reads, live.inactive | reads)
        return Live(live.active & ~writes | reads, live.inactive)


NOTHING: Final = Live()
EVERYTHING: Final = Live(ALL, ALL)
_WITH_ACCUMULATORS: Final = Live((1 << ROWS) - 1, (1 << ROWS) - 1)


def everything(target: Target) -> Live:
    """Return the liveness of all registers of a processor."""
    return _WITH_ACCUMULATORS if target.matrix else EVERYTHING


class Liveness:
    """The liveness at each point of a region."""

    def __init__(self, region: Region, observed: Observed = Observed.NEVER) -> None:
        self.region = region
        self.observed = observed
        self._everything = everything(region.blocks[region.start].nodes[0].insn.target)
        self._at_end = NOTHING if observed in (Observed.NEVER, Observed.PLACE) else self._everything
        self._before: dict[BlockKey, list[Live]] = {
            place: [self._everything if observed is Observed.ALWAYS else NOTHING] * (len(block.nodes) + 1)
            for place, block in region.blocks.items()
        }
        changed = observed is not Observed.ALWAYS
        while changed:
            # Code is mostly forward: with blocks in reverse order, few rounds are needed.
            changed = sum(self._walk(block) for _, block in sorted(region.blocks.items(), reverse=True)) > 0

    def before(self, block: Block, index: int) -> Live:
        """Return the liveness before instruction `index` of a block.

        With `index` equal to the block's length, return the liveness after its last instruction.
        """
        return self._before[block.place][index]

    def rows(self) -> dict[BlockKey, int]:
        """Return, for each entry of the region, the number of registers from v0 on that may be read in some lane.

        That is the number of the last such register plus 1."""
        heads = {place: self._head(place) for place in self.region.entries}
        return {place: (live.active | live.inactive).bit_length() for place, live in heads.items()}

    def _walk(self, block: Block) -> bool:
        """Update the liveness in a block, from its last instruction to its first.

        Return True if more registers became live at its start.
        """
        found = self._before[block.place]
        old, found[-1] = found[0], self._behind(block)
        for index in range(len(block.nodes) - 1, -1, -1):
            found[index] = found[index + 1].before(block.nodes[index])
        return found[0] != old

    def _behind(self, block: Block) -> Live:
        last = block.nodes[-1]
        flow = last.effects.flow
        if flow == "end" and not last.is_step:
            return self._at_end
        if last.is_step or flow == "indirect":
            return self._everything
        live = NOTHING
        if flow in ("branch", "jump"):
            live |= self._head((last.effects.target, last.after))
        if flow != "jump":
            live |= self._everything if block.next is None else self._head(block.next)
        return live

    def _head(self, place: BlockKey) -> Live:
        known = self._before.get(place)
        return self._everything if known is None else known[0]


def _bits(registers: set[int]) -> int:
    bits = 0
    for n in registers:
        bits |= 1 << n
    return bits
