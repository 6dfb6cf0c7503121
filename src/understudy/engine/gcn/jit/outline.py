"""What is known of optimised code beside its instructions: kept with it, so that a later process need not translate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.engine.gcn.jit.basics import BlockKey, Parts

if TYPE_CHECKING:
    from understudy.engine.gcn.jit.emit_strip import Resume
    from understudy.engine.gcn.jit.region import Region


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """A region from outside: where it begins, where it can be entered, each place with its number, and all its blocks.

    `live`: of each entry, how many vector registers from v0 on may be read before they are written. `is_closed`: no
    instruction leads out of it. `resumes`: the instructions of each strip, by address, the masks that it and its twins
    write, and whether marks that matter have been counted (see `Resume`).
    """

    start: BlockKey
    entries: list[BlockKey]
    blocks: list[BlockKey]
    live: list[int]
    is_closed: bool
    resumes: list[tuple[list[int], list[int], list[list[int]], bool]]

    @classmethod
    def of(cls, region: Region, resumes: list[Resume], live: dict[BlockKey, int]) -> Outline:
        """That of a region, with what its emission gave."""
        marks = [([insn.pc for insn in each.insns], each.masks, each.twins, each.is_counted) for each in resumes]
        rows = [live[place] for place in region.entries]
        return cls(region.start, region.entries, list(region.blocks), rows, region.is_closed, marks)

    def parts(self, start: int) -> Parts:
        """To keep: addresses count from `start`, so that the same code elsewhere has the same."""
        places = [[[pc - start, mode] for pc, mode in each] for each in ([self.start], self.entries, self.blocks)]
        resumes = [[[pc - start for pc in pcs], *others] for pcs, *others in self.resumes]
        return [*places, self.live, self.is_closed, resumes]

    @classmethod
    def from_parts(cls, parts: Parts, start: int) -> Outline:
        """What `parts` gave, for code at `start`."""
        ((pc, mode),), entries, blocks, live, is_closed, resumes = parts
        return cls(
            (start + pc, mode),
            [(start + pc, mode) for pc, mode in entries],
            [(start + pc, mode) for pc, mode in blocks],
            live,
            is_closed,
            [([start + pc for pc in pcs], masks, twins, counted) for pcs, masks, twins, counted in resumes],
        )
