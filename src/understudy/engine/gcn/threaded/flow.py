"""How control flows through the code that begins at a place: where it ends, what is reached, and its blocks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.float_control import host_has, of_mode
from understudy.engine.gcn.jit.layout import LEAST_TURN
from understudy.engine.gcn.jit.region import Node
from understudy.engine.gcn.threaded.front import About, Code, Front, Plan
from understudy.engine.gcn.threaded.rows import Numbers
from understudy.engine.gcn.threaded.values import Words
from understudy.isa.gcn.encoding.bounds import format_names, instruction_bounds
from understudy.isa.gcn.encoding.formats import LONG
from understudy.isa.gcn.target import Target

FIRST: Final = 1 << 10
"""Words that are looked at where no end is found; it is searched for in so many, then in 16 times as many."""
END: Final = 0xBF81_0000
"""s_endpgm."""
MOST: Final = 1 << 18
"""Words of a program."""

Point = tuple[int, int]
"""Number of an instruction, and MODE."""


@cache
def _is_long(level: int) -> npt.NDArray[np.bool_]:
    """Of each encoding, by number: whether it has two words."""
    return np.array([name in LONG or "_" in name for name in format_names(level)])


class Listing:
    """Instructions one behind the other from an address on: where each begins, its size in words, and its encoding."""

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
        long = _is_long(target.level)[self.formats]
        self.encoded[long] |= wide[self.at[long] + 1] << np.uint64(32)
        self.index = np.full(len(words) + 1, -1, np.int64)
        self.index[self.at] = np.arange(len(self.at))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.at)

    def pc(self, index: int) -> int:
        """Address of an instruction, or behind the last one."""
        if index < len(self.at):
            return self.start + 4 * int(self.at[index])
        return self.start + 4 * int(self.at[-1] + self.sizes[-1])

    def plan(self, front: Front, chosen: Numbers) -> Numbers:
        """Numbers of the plans of some instructions."""
        code = Code(self.target, self.words, self.at[chosen], self.start)
        return front.plan(self.formats[chosen], self.sizes[chosen], self.encoded[chosen], self.literals[chosen], code)

    def target_at(self, index: int) -> int:
        """The word that a branch goes to."""
        offset = (int(self.encoded[index]) & 0xFFFF ^ 0x8000) - 0x8000
        return int(self.at[index] + self.sizes[index]) + offset

    def target_of(self, index: int) -> int:
        """The instruction that a branch goes to; -1 where none of these begins there."""
        at = self.target_at(index)
        return int(self.index[at]) if 0 <= at < len(self.words) else -1

    def address_of(self, index: int) -> int:
        """The address that a branch goes to."""
        return self.start + 4 * self.target_at(index) & 0xFFFF_FFFF_FFFF_FFFF


@dataclass(slots=True, eq=False)
class Span:
    """A block: instructions `first` up to `last`, without it. `after`: where it goes on without a branch, if it does.

    `target` is where its branch goes to, `jumps_to` the address of that.
    """

    first: int
    last: int
    mode: int
    after: Point | None = None
    target: Point | None = None
    jumps_to: int = 0


@dataclass(frozen=True, slots=True)
class Control:
    """Instructions that go elsewhere, up to the end of the code, with how; `reach`: words that branches go to, at most.

    `is_whole`: whether the end of the code is among the words. `plans` are those of all instructions under MODE.
    """

    found: list[tuple[int, str]]
    reach: int
    is_whole: bool
    plans: Numbers

    @classmethod
    def of(cls, listing: Listing, front: Front) -> Control:
        """Those of a listing."""
        plans = listing.plan(front, np.arange(listing.count))
        goes = np.flatnonzero(front.about.table[plans, About.GOES])
        found: list[tuple[int, str]] = []
        reach = 0
        for index, number in zip(goes.tolist(), plans[goes].tolist(), strict=True):
            flow = front.plans[number].effects.flow
            if flow in ("branch", "jump"):
                reach = max(reach, listing.target_at(index))
            found.append((index, flow))
            if flow in ("end", "jump", "indirect") and reach <= listing.at[index]:
                return cls(found, reach, True, plans)
        return cls(found, reach, False, plans)


class Flow:
    """Blocks that can be reached from a place by branches, with MODE in each; `apart`: of one instruction each."""

    def __init__(
        self, listing: Listing, control: Control, mode: int, front: Callable[[int], Front], *, apart: bool = False
    ) -> None:
        self.listing = listing
        self.apart = apart
        self.mode = mode
        self.front = cache(front)
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

    # ---- what is reached -----------------------------------------------------------------------------------------
    @property
    def is_left(self) -> bool:
        """Whether some way leads out by a computed address, or by what the reference engine does."""
        lasts = ((block.last - 1, block.mode) for block in self.blocks.values())
        nodes = [self.node(*each) for each in lasts]
        return any(node is None or node.effects.flow == "indirect" for node in nodes)

    def _reach(self) -> npt.NDArray[np.bool_]:
        """Instructions that some way leads to."""
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
        """Plans under a MODE, and where blocks begin."""
        front = self.front(mode)
        chosen = np.flatnonzero(self.reached)
        plans = np.full(self.listing.count, -1, np.int64)
        plans[chosen] = self._first[chosen] if mode == self.mode else self.listing.plan(front, chosen)
        self.plans[mode] = plans
        leaders = set(self._leaders) | {index + 1 for index, _ in self._control}
        # Behind what writes MODE a block begins under each: ways from one to the other lead there.
        ends = front.about.table[plans[chosen], About.ENDS] != 0
        leaders |= set((chosen[ends] + 1).tolist())
        if self.apart:
            leaders |= set(chosen.tolist())
        self._starts[mode] = sorted(leaders)

    def node(self, index: int, mode: int) -> Node | None:
        """What is known of an instruction."""
        return self.plan(index, mode).node

    def plan(self, index: int, mode: int) -> Plan:
        """The plan of an instruction."""
        return self.front(mode).plans[int(self.plans[mode][index])]

    def is_step(self, index: int, mode: int) -> bool:
        """Whether the reference engine executes an instruction."""
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
            last = min(last, first + LEAST_TURN)
            block = self.blocks[point] = self._block(first, last, mode)
            work += [each for each in (block.after, block.target) if each is not None and self._is_reached(each)]

    def _is_reached(self, point: Point) -> bool:
        return point[0] < self.listing.count and bool(self.reached[point[0]])

    def _block(self, first: int, last: int, mode: int) -> Span:
        block, node = Span(first, last, mode), self.node(last - 1, mode)
        if node is None:  # no instruction: the reference engine finds that out
            return block
        flow, after = node.effects.flow, node.after
        is_step = self.is_step(last - 1, mode)
        following = (last, after)
        if flow in ("branch", "jump"):
            block.jumps_to = self.listing.address_of(last - 1)
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
        """Fuel is looked at also where a way without a loop is longer than a turn."""
        found: dict[Point, int] = {}
        for point in sorted(self.blocks, reverse=True):
            block = self.blocks[point]
            following = [each for each in (block.after, block.target) if each in found and each not in self.heads]
            own = block.last - block.first
            found[point] = own + max((found[each] for each in following if each), default=0)
            if found[point] > LEAST_TURN:
                self.heads |= {each for each in following if each}
                found[point] = own

    def needs(self) -> dict[Point, int]:
        """How many instructions may run from each block on until fuel is looked at again."""
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
    front: Callable[[int], Front],
    *,
    apart: bool = False,
) -> Flow:
    """The flow of the code that `memory` begins with, at address `start`; as many words as are needed are looked at.

    `Untranslated` where not one instruction is whole, or where MODE asks for what the host cannot be set to.
    """
    if not host_has(of_mode(mode)):
        raise Untranslated
    count = _end_behind(memory, 0)
    while True:
        listing = Listing(target, memory[:count], start)
        if not listing.count:
            raise Untranslated
        control = Control.of(listing, front(mode))
        if control.is_whole or count >= min(len(memory), MOST):
            return Flow(listing, control, mode, front, apart=apart)
        count = _end_behind(memory, max(4 * count, control.reach))


def _end_behind(memory: npt.NDArray[np.uint32], at: int) -> int:
    """How many words to look at so that what looks like an end is among them, at word `at` or behind it."""
    for size in (FIRST, 16 * FIRST):
        ends = np.flatnonzero(memory[at : at + size] == END)[:1].tolist()
        if ends:
            return at + int(ends[0]) + 1
    return at + FIRST
