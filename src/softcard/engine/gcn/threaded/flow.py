"""The control flow of code from a start address on.

It consists of the end of the code, the reachable instructions, and the basic blocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.float_control import host_has, of_mode
from softcard.engine.gcn.jit.layout import LEAST_TIME_SLICE
from softcard.engine.gcn.jit.region import Node
from softcard.engine.gcn.threaded.frontend import About, Code, Frontend, Plan
from softcard.engine.gcn.threaded.rows import Numbers
from softcard.engine.gcn.threaded.values import Words
from softcard.isa.gcn.encoding.bounds import format_names, instruction_bounds
from softcard.isa.gcn.encoding.formats import format_of
from softcard.isa.gcn.target import Target

FIRST: Final = 1 << 10
"""The number of words first searched for the end of the code; a second search covers 16 times as many."""
END: Final = 0xBF81_0000
"""The encoding of s_endpgm."""
MOST: Final = 1 << 18
"""The maximum number of words of a program."""

Point = tuple[int, int]
"""The type of a point in a program: the index of an instruction, and the MODE under which it runs."""


@cache
def _word_counts(level: int) -> Numbers:
    """Return the number of words, without a literal, of each encoding, by encoding number."""
    return np.array([format_of(level, name).size // 4 if name else 1 for name in format_names(level)])


class Listing:
    """The consecutive instructions from an address on.

    It has the start, and for each instruction its position, size in words, encoding and contents. `encoded` has the
    first word or the first two words. `literals` has the literal; for an encoding of four words, it has the last two.
    """

    def __init__(self, target: Target, words: npt.NDArray[np.uint32], start: int) -> None:
        self.target = target
        self.words = words
        self.start = start
        self.at, self.sizes, self.formats = instruction_bounds(target, words)
        if len(self.at) and self.at[-1] + self.sizes[-1] > len(words):  # cut off
            self.at, self.sizes, self.formats = self.at[:-1], self.sizes[:-1], self.formats[:-1]
        wide = np.concatenate([words, np.zeros(3, np.uint32)]).astype(np.uint64)
        last = np.minimum(self.at + self.sizes - 1, len(words))
        self.literals: Words = wide[last]
        self.encoded: Words = wide[self.at]
        counts = _word_counts(target.encoding)[self.formats]
        long = counts > 1
        self.encoded[long] |= wide[self.at[long] + 1] << np.uint64(32)
        whole = np.flatnonzero(counts == 4)
        self.literals[whole] = wide[self.at[whole] + 2] | wide[self.at[whole] + 3] << np.uint64(32)
        self.index = np.full(len(words) + 1, -1, np.int64)
        self.index[self.at] = np.arange(len(self.at))

    @property
    def count(self) -> int:
        """The number of instructions in the listing."""
        return len(self.at)

    def pc(self, index: int) -> int:
        """Return the address of an instruction; the index after the last one stands for the end address."""
        if index < len(self.at):
            return self.start + 4 * int(self.at[index])
        return self.start + 4 * int(self.at[-1] + self.sizes[-1])

    def plan(self, frontend: Frontend, chosen: Numbers) -> Numbers:
        """Return the numbers of the plans (`Plan`) of the instructions with indices `chosen`."""
        code = Code(self.target, self.words, self.at[chosen], self.start)
        return frontend.plan(
            self.formats[chosen], self.sizes[chosen], self.encoded[chosen], self.literals[chosen], code
        )

    def target_at(self, index: int) -> int:
        """Return the word index that the branch instruction number `index` targets, relative to the listing's start."""
        offset = (int(self.encoded[index]) & 0xFFFF ^ 0x8000) - 0x8000
        return int(self.at[index] + self.sizes[index]) + offset

    def target_of(self, index: int) -> int:
        """Return the index of the instruction that branch instruction number `index` targets.

        Return -1 if the target is not in the listing."""
        at = self.target_at(index)
        return int(self.index[at]) if 0 <= at < len(self.words) else -1

    def address_of(self, index: int) -> int:
        """Return the guest address that the branch instruction number `index` targets."""
        return self.start + 4 * self.target_at(index) & 0xFFFF_FFFF_FFFF_FFFF


@dataclass(slots=True, eq=False)
class Span:
    """A basic block: the instructions from index `first` up to `last`, exclusive.

    `after` is the fall-through successor, `target` the successor of a taken branch, and `jumps_to` the branch's target
    address. `is_conditional` is True if the block ends with a conditional branch to another address than that of the
    next instruction.
    """

    first: int
    last: int
    mode: int
    after: Point | None = None
    target: Point | None = None
    jumps_to: int = 0
    is_conditional: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """The control-flow instructions of a listing up to the end of the code, with the kind of each.

    `reach` is the index of the last word that a branch targets. `is_whole` is True if the listing includes the end of
    the code. `plans` are the plan numbers of all instructions under MODE.
    """

    found: list[tuple[int, str]]
    reach: int
    is_whole: bool
    plans: Numbers

    @classmethod
    def of(cls, listing: Listing, frontend: Frontend) -> Control:
        """Return the control flow of a listing's instructions."""
        plans = listing.plan(frontend, np.arange(listing.count))
        goes = np.flatnonzero(frontend.about.table[plans, About.GOES])
        found: list[tuple[int, str]] = []
        reach = 0
        for index, number in zip(goes.tolist(), plans[goes].tolist(), strict=True):
            flow = frontend.plans[number].effects.flow
            if flow in ("branch", "jump"):
                reach = max(reach, listing.target_at(index))
            found.append((index, flow))
            if flow in ("end", "jump", "indirect") and reach <= listing.at[index]:
                return cls(found, reach, True, plans)
        return cls(found, reach, False, plans)


class Flow:
    """The control-flow graph of reachable code, with the value of MODE in each basic block.

    If `apart` is True, each instruction is a basic block."""

    def __init__(
        self, listing: Listing, control: Control, mode: int, frontend: Callable[[int], Frontend], *, apart: bool = False
    ) -> None:
        self.listing = listing
        self.apart = apart
        self.mode = mode
        self.frontend = cache(frontend)
        self.blocks: dict[Point, Span] = {}
        self.entries: set[Point] = {(0, mode)}
        self.heads: set[Point] = {(0, mode)}
        self.plans: dict[int, Numbers] = {}
        self._starts: dict[int, list[int]] = {}
        self._control = control.found
        self._first = control.plans
        self.is_whole = control.is_whole
        self.reached = self._reach()
        self._walk()
        self._cut_ways()

    # ---- reachability --------------------------------------------------------------------------------------------
    @property
    def is_left(self) -> bool:
        """True if some path leaves the program, by a jump to a computed address or at an invalid instruction."""
        lasts = ((block.last - 1, block.mode) for block in self.blocks.values())
        nodes = [self.node(*each) for each in lasts]
        return any(node is None or node.effects.flow == "indirect" for node in nodes)

    def _reach(self) -> npt.NDArray[np.bool_]:
        """Return the mask of the reachable instructions."""
        listing = self.listing
        reached = np.zeros(listing.count, np.bool_)
        places = [index for index, _ in self._control]
        end = places[-1] + 1 if self.is_whole else listing.count
        work, seen = [0], {0}
        while work:
            first = work.pop()
            number = bisect_left(places, first)
            last = places[number] + 1 if number < len(places) else end
            reached[first:last] = True
            flow = self._control[number][1] if number < len(places) else "next"
            found = [listing.target_of(last - 1)] if flow in ("branch", "jump") else []
            if flow not in ("end", "jump", "indirect") and last < end:
                found.append(last)
            for each in found:
                if 0 <= each < end and each not in seen:
                    seen.add(each)
                    work.append(each)
        self._leaders = sorted(seen)
        return reached

    # ---- blocks --------------------------------------------------------------------------------------------------
    def _prepare(self, mode: int) -> None:
        """Compute the plans of all instructions under a MODE, and the first instructions of blocks."""
        frontend = self.frontend(mode)
        chosen = np.flatnonzero(self.reached)
        plans = np.full(self.listing.count, -1, np.int64)
        plans[chosen] = self._first[chosen] if mode == self.mode else self.listing.plan(frontend, chosen)
        self.plans[mode] = plans
        leaders = set(self._leaders) | {index + 1 for index, _ in self._control}
        # A write of MODE ends a block under each MODE: paths from one MODE to another lead there.
        ends = frontend.about.table[plans[chosen], About.ENDS] != 0
        leaders |= set((chosen[ends] + 1).tolist())
        if self.apart:
            leaders |= set(chosen.tolist())
        self._starts[mode] = sorted(leaders)

    def node(self, index: int, mode: int) -> Node | None:
        """Return the decoded and analysed instruction under a MODE, or None if it is invalid."""
        return self.plan(index, mode).node

    def plan(self, index: int, mode: int) -> Plan:
        """Return the plan of an instruction under a MODE."""
        return self.frontend(mode).plans[int(self.plans[mode][index])]

    def is_step(self, index: int, mode: int) -> bool:
        """Return True if the reference engine executes an instruction."""
        return self.plan(index, mode).is_step

    def _walk(self) -> None:
        work: list[Point] = [(0, self.mode)]
        while work:
            point = work.pop()
            if point in self.blocks:
                continue
            first, mode = point
            if mode not in self.plans:
                self._prepare(mode)
            starts = self._starts[mode]
            number = bisect_right(starts, first)
            last = starts[number] if number < len(starts) else self.listing.count
            while not self.reached[last - 1]:
                last -= 1
            last = min(last, first + LEAST_TIME_SLICE)
            block = self.blocks[point] = self._block(first, last, mode)
            work += [each for each in (block.after, block.target) if each is not None and self._is_reached(each)]

    def _is_reached(self, point: Point) -> bool:
        return point[0] < self.listing.count and bool(self.reached[point[0]])

    def _block(self, first: int, last: int, mode: int) -> Span:
        block, node = Span(first, last, mode), self.node(last - 1, mode)
        if node is None:  # invalid: the reference engine raises the error
            return block
        flow, after = node.effects.flow, node.after
        is_step = self.is_step(last - 1, mode)
        following = (last, after)
        if flow in ("branch", "jump"):
            block.jumps_to = self.listing.address_of(last - 1)
            block.is_conditional = flow == "branch" and block.jumps_to != self.listing.pc(last)
            target = self.listing.target_of(last - 1)
            if target >= 0:
                block.target = (target, mode)
                if target <= last - 1:
                    self.heads.add(block.target)
        if flow not in ("end", "jump", "indirect"):
            block.after = following
            if is_step or flow in ("barrier", "sleep"):
                self.entries.add(following)
                self.heads.add(following)
        return block

    def _cut_ways(self) -> None:
        """Add fuel checks to acyclic paths with more instructions than the shortest time slice."""
        found: dict[Point, int] = {}
        for point in sorted(self.blocks, reverse=True):
            block = self.blocks[point]
            following = [each for each in (block.after, block.target) if each in found and each not in self.heads]
            own = block.last - block.first
            found[point] = own + max((found[each] for each in following if each), default=0)
            if found[point] > LEAST_TIME_SLICE:
                self.heads |= {each for each in following if each}
                found[point] = own

    def needs(self) -> dict[Point, int]:
        """Return, for each block, the maximum number of instructions from its start to the next fuel check."""
        found: dict[Point, int] = {}
        for point in sorted(self.blocks, reverse=True):
            block = self.blocks[point]
            following = [each for each in (block.after, block.target) if each in found and each not in self.heads]
            found[point] = block.last - block.first + max((found[each] for each in following if each), default=0)
        return found


def flow_of(
    target: Target,
    memory: npt.NDArray[np.uint32],
    start: int,
    mode: int,
    frontend: Callable[[int], Frontend],
    *,
    apart: bool = False,
) -> Flow:
    """Return the control-flow graph of the code at the beginning of `memory`, at guest address `start`.

    Only as many words are scanned as necessary. If `apart` is True, each instruction is a basic block. Raise
    `Untranslated` if `memory` does not contain a complete instruction, or if the host does not support the float
    mode of MODE."""
    if not host_has(of_mode(mode)):
        raise Untranslated
    count = _end_behind(memory, 0)
    while True:
        listing = Listing(target, memory[:count], start)
        if not listing.count:
            raise Untranslated
        control = Control.of(listing, frontend(mode))
        if control.is_whole or count >= min(len(memory), MOST):
            return Flow(listing, control, mode, frontend, apart=apart)
        count = _end_behind(memory, max(4 * count, control.reach))


def _end_behind(memory: npt.NDArray[np.uint32], at: int) -> int:
    """Return the number of words to scan so that they include the next apparent s_endpgm after word `at`.

    The word that looks like s_endpgm may also be a literal or data.
    """
    for size in (FIRST, 16 * FIRST):
        ends = np.flatnonzero(memory[at : at + size] == END)[:1].tolist()
        if ends:
            return at + int(ends[0]) + 1
    return at + FIRST
