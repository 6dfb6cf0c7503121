"""Which vector registers translated code must leave in memory: those that something may still read.

A lane of a register is dead where every way from there overwrites it, or ends the wave, before it is read. Lanes of
EXEC are told apart from the others: where nobody reads the latter, whole vectors may be stored over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.engine.gcn.jit.basics import BlockKey, Observed
from understudy.engine.gcn.jit.region import Block, Node, Region
from understudy.isa.gcn.state import VGPRS

ALL: Final = (1 << VGPRS) - 1


@dataclass(frozen=True, slots=True)
class Live:
    """Sets of registers, one bit each: `active` may be read in lanes of EXEC, `inactive` in others."""

    active: int = 0
    inactive: int = 0

    def __or__(self, other: Live) -> Live:
        return Live(self.active | other.active, self.inactive | other.inactive)

    def anywhere(self) -> Live:
        """The same where EXEC may have been another."""
        both = self.active | self.inactive
        return Live(both, both)

    def before(self, node: Node) -> Live:
        """What is live before an instruction where this is live behind it."""
        found = node.effects
        if node.is_step or found.indexes:
            return EVERYTHING
        live = self.anywhere() if found.writes_exec else self
        reads, writes = _bits(found.v_reads), _bits(found.v_writes)
        if found.across:  # v_writelane writes one lane, and all lanes may be read
            return Live(live.active | reads, live.inactive | reads)
        return Live(live.active & ~writes | reads, live.inactive)


NOTHING: Final = Live()
EVERYTHING: Final = Live(ALL, ALL)


class Liveness:
    """What is live where in a region."""

    def __init__(self, region: Region, observed: Observed = Observed.NEVER) -> None:
        self.region = region
        self.observed = observed
        self._at_end = NOTHING if observed in (Observed.NEVER, Observed.PLACE) else EVERYTHING
        self._before: dict[BlockKey, list[Live]] = {
            place: [EVERYTHING if observed is Observed.ALWAYS else NOTHING] * (len(block.nodes) + 1)
            for place, block in region.blocks.items()
        }
        changed = observed is not Observed.ALWAYS
        while changed:
            # Mostly forward code: from the last block to the first, few rounds are needed.
            changed = sum(self._walk(block) for _, block in sorted(region.blocks.items(), reverse=True)) > 0

    def before(self, block: Block, index: int) -> Live:
        """What is live before instruction `index` of a block, or behind its last one."""
        return self._before[block.place][index]

    def rows(self) -> dict[BlockKey, int]:
        """Of each entry of the region, how many registers from v0 on may be read in some lane."""
        heads = {place: self._head(place) for place in self.region.entries}
        return {place: (live.active | live.inactive).bit_length() for place, live in heads.items()}

    def _walk(self, block: Block) -> bool:
        """Go through a block backwards; whether more turned out to be live at its head."""
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
            return EVERYTHING
        live = NOTHING
        if flow in ("branch", "jump"):
            live |= self._head((last.effects.target, last.after))
        if flow != "jump":
            live |= EVERYTHING if block.next is None else self._head(block.next)
        return live

    def _head(self, place: BlockKey) -> Live:
        known = self._before.get(place)
        return EVERYTHING if known is None else known[0]


def _bits(registers: set[int]) -> int:
    bits = 0
    for n in registers:
        bits |= 1 << n
    return bits
