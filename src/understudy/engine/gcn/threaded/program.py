"""A program: the records of the code that can be reached from a place, in the order in which handlers follow them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.float_control import float_control, of_mode
from understudy.engine.gcn.jit.region import BlockKey
from understudy.engine.gcn.jit.spans import holds
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.threaded import glue
from understudy.engine.gcn.threaded.emit import Handler
from understudy.engine.gcn.threaded.flow import Flow, Point, Span
from understudy.engine.gcn.threaded.front import Front, Plan, groups
from understudy.engine.gcn.threaded.library import Library
from understudy.isa.gcn.state import VGPRS, WORDS_AT

HEAT: Final = 1 << 12
"""Counters of a thread; blocks beyond share them."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Program:
    """Records at fixed host addresses. `blocks`: where each block's first record lies, by place.

    `spans` is the code that they were made of, as runs of bytes; `is_closed` tells that no way leads out of it.
    `entered` are places where waves begin or go on, with their records.
    """

    start: BlockKey
    spans: list[tuple[int, bytes]]
    is_closed: bool
    library: Library
    records: npt.NDArray[np.uint64]
    blocks: dict[BlockKey, int]
    counts: dict[BlockKey, int]
    heats: dict[BlockKey, int]
    handled: npt.NDArray[np.int64]
    """Which of the words of `records` are addresses of handlers."""
    entered: dict[BlockKey, int] = field(default_factory=dict)
    replaced: dict[BlockKey, object] = field(default_factory=dict)
    """Blocks that optimised code has taken over, and that code."""
    covered: set[BlockKey] = field(default_factory=set)
    """Blocks that are part of optimised code, wherever that is entered."""
    _further: list[Any] = field(default_factory=list)

    @property
    def address(self) -> int:
        """What runs a record: the same for all programs."""
        return self.library.glue["enter"]

    @property
    def base(self) -> int:
        """Host address of the records."""
        return int(self.records.ctypes.data)

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """Of each place where it is entered, and not optimised code: the function, and the record it is called with."""
        entered = self.entered.items()
        return {place: (self.address, record) for place, record in entered if place not in self.replaced}

    @property
    def live(self) -> dict[BlockKey, int]:
        """Handlers leave all vector registers in memory."""
        return dict.fromkeys(self.rows, VGPRS)

    def holds(self, memory: GpuMemory) -> bool:
        """Whether memory still has the code that this was made of."""
        return holds(self.spans, memory)

    def patch(self, addresses: dict[int, int]) -> None:
        """Have handlers at other addresses, which do the same. Threads may be running the records."""
        now = self.records[self.handled]
        for old, new in addresses.items():
            self.records[self.handled[now == old]] = new

    def enter(self, place: BlockKey) -> bool:
        """Have a block be one that can be entered; False where none begins there."""
        if place in self.entered:
            return True
        at = self.blocks.get(place)
        if at is None:
            return False
        record = np.zeros(glue.BEGIN_BYTES // 8, np.uint64)
        self._further.append(record)
        _fill_begin(record, 0, self.library, place, self.base + at)
        self.entered[place] = int(record.ctypes.data)
        return True

    def replace(self, place: BlockKey, function: int, entry: int, code: object) -> None:
        """Have a block run optimised code. Threads may be running it: what is read last is written last."""
        self.replaced[place] = code
        words, at = self.records, self.blocks[place] // 8
        words[at + glue.REGION_AT // 8] = function
        words[at + glue.REGION_AT // 8 + 1] = entry
        words[at] = self.library.glue["hot"]


def _fill_begin(words: npt.NDArray[np.uint64], at: int, library: Library, place: BlockKey, target: int) -> None:
    words[at] = library.glue["begin"]
    words[at + 1] = place[0]
    words[at + glue.CONTROL_AT // 8] = float_control(of_mode(place[1]))
    words[at + glue.BEGIN_TARGET_AT // 8] = target


class ProgramBuilder:
    """Lays out and fills the records of a flow. `heat` is the number of the first free counter."""

    def __init__(self, flow: Flow, library: Library, heat: int) -> None:
        self.flow = flow
        self.listing = flow.listing
        self.library = library
        self.heat = heat
        self._at: dict[Point, int] = {}
        self._gotos: list[tuple[int, Span]] = []
        self._aways: dict[int, int] = {}
        self._size = 0
        self._handled: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]

    def build(self) -> Program:
        """The program."""
        flow = self.flow
        modes = list(dict.fromkeys(mode for _, mode in flow.blocks))
        laid = [self._lay_out(mode) for mode in modes]
        starts = self._entries()
        self._reserve_aways()
        self.words = np.zeros(self._size // 8, np.uint64)
        self.halves = self.words.view(np.uint32)
        self.base = int(self.words.ctypes.data)
        for mode, (offsets, handlers) in zip(modes, laid, strict=True):
            self._fill(mode, offsets, handlers)
        self._fill_blocks()
        entered = self._fill_entries(starts)
        for pc, at in self._aways.items():
            self._leave(at, pc, 0, layout.JUMP)
        place = self._place
        points = list(self._at)
        made = Program(
            place((0, flow.mode)),
            list(self._spans()),
            not (self._aways or flow.is_left),
            self.library,
            self.words,
            {place(point): self._at[point] for point in points},
            {place(point): flow.blocks[point].last - point[0] for point in points},
            {place(point): self._heat(number) for number, point in enumerate(points)},
            np.concatenate(self._handled),
            entered,
        )
        self.library.programs.add(made)
        return made

    def _spans(self) -> Iterator[tuple[int, bytes]]:
        """The code that is reached, in runs of bytes."""
        listing, reached = self.listing, np.flatnonzero(self.flow.reached)
        for run in np.split(reached, np.flatnonzero(np.diff(reached) > 1) + 1):
            first, last = int(listing.at[run[0]]), int(listing.at[run[-1]] + listing.sizes[run[-1]])
            yield listing.start + 4 * first, listing.words[first:last].tobytes()

    def _place(self, point: Point) -> BlockKey:
        return self.listing.pc(point[0]), point[1]

    def _heat(self, number: int) -> int:
        return (self.heat + number) % HEAT

    def handled(self) -> Iterator[tuple[Front, Plan]]:
        """The plans of all instructions that are executed by handlers."""
        for mode, plans in self.flow.plans.items():
            front = self.flow.front(mode)
            for number in sorted(set(plans.tolist()) - {-1}):
                plan = front.plans[number]
                if plan.kind is not None and not plan.is_nothing:
                    yield front, plan

    # ---- where everything lies -----------------------------------------------------------------------------------
    def _lay_out(self, mode: int) -> tuple[npt.NDArray[np.int64], dict[int, tuple[int, Handler]]]:
        """Where the record of each instruction under a MODE lies (-1: it has none), and the handlers by plan."""
        flow, plans = self.flow, self.flow.plans[mode]
        front = flow.front(mode)
        sizes_of = np.zeros(len(front.plans) + 1, np.int64)
        handlers: dict[int, tuple[int, Handler]] = {}
        for number in sorted(set(plans.tolist()) - {-1}):
            plan = front.plans[number]
            if plan.kind is None:
                sizes_of[number] = glue.LEAVE_BYTES
            elif not plan.is_nothing:
                known = self.library.find(plan.kind.key)
                assert known is not None
                handlers[number] = known
                sizes_of[number] = known[1].size
        sizes = sizes_of[plans]
        offsets = np.full(len(plans), -1, np.int64)
        blocks = sorted((block for (_, own), block in flow.blocks.items() if own == mode), key=lambda b: b.first)
        ends = np.cumsum(sizes)
        for number, block in enumerate(blocks):
            point = block.first, mode
            self._at[point] = self._size
            self._size += glue.HEAD_BYTES if point in flow.heads else glue.FUEL_BYTES
            before = int(ends[block.first] - sizes[block.first])
            span = slice(block.first, block.last)
            offsets[span] = ends[span] - sizes[span] - before + self._size
            self._size += int(ends[block.last - 1]) - before
            following = (blocks[number + 1].first, mode) if number + 1 < len(blocks) else None
            if block.after is not None and block.after != following and not flow.is_step(block.last - 1, mode):
                self._gotos.append((self._size, block))
                self._size += glue.GOTO_BYTES
        offsets[sizes == 0] = -1
        return offsets, handlers

    def _entries(self) -> dict[Point, int]:
        """Room for the records where waves begin or go on."""
        found = {}
        for point in sorted(self.flow.entries & self.flow.blocks.keys()):
            found[point] = self._size
            self._size += glue.BEGIN_BYTES
        return found

    def _reserve_aways(self) -> None:
        """Room for the records that leave for a place without any."""
        for block in self.flow.blocks.values():
            if block.jumps_to and block.target not in self._at:
                self._away(block.jumps_to)
        for _, block in self._gotos:
            if block.after not in self._at:
                assert block.after is not None
                self._away(self.listing.pc(block.after[0]))

    def _away(self, pc: int) -> None:
        if pc not in self._aways:
            self._aways[pc] = self._size
            self._size += glue.LEAVE_BYTES

    # ---- what stands there ---------------------------------------------------------------------------------------
    def _fill(self, mode: int, offsets: Any, handlers: dict[int, tuple[int, Handler]]) -> None:
        """The records of all instructions under a MODE."""
        flow, listing, plans = self.flow, self.listing, self.flow.plans[mode]
        front = flow.front(mode)
        refunds = np.zeros(len(plans), np.int64)
        for (first, own), block in flow.blocks.items():
            if own == mode:
                refunds[first : block.last] = np.arange(block.last - first, 0, -1)
        chosen = np.flatnonzero(offsets >= 0)
        at = offsets[chosen]
        functions = np.zeros(len(front.plans) + 1, np.uint64)
        for number, (address, _) in handlers.items():
            functions[number] = address
        self.words[at >> 3] = functions[plans[chosen]]
        self._handled.append((at >> 3)[functions[plans[chosen]] != 0])
        self.words[(at >> 3) + 1] = np.uint64(listing.start) + (listing.at[chosen] << 2).astype(np.uint64)
        self.halves[(at >> 2) + 4] = refunds[chosen]
        rank = 0
        for number, members in groups(plans[chosen]):
            if number in handlers:
                self._fill_kind(front, number, handlers[number][1], chosen[members], at[members], rank)
                rank += len(members)
        self._fill_ends(mode, offsets, refunds)

    def _fill_kind(self, front: Front, number: int, handler: Handler, which: Any, here: Any, rank: int) -> None:
        plan, listing = front.plans[number], self.listing
        words, literals = listing.encoded[which], listing.literals[which]
        for getter, place in zip(plan.getters, handler.places, strict=True):
            values = getter.get(words, literals)
            if getter.part.size == 4:
                self.halves[here + place >> 2] = values
            else:
                self.words[here + place >> 3] = values
        for k, (kind, place) in enumerate(handler.caches):
            numbers = (np.arange(len(which)) + rank + k) % layout.INLINE_CACHES[kind]
            before = sum(count for other, count in layout.INLINE_CACHES.items() if other < kind)
            self.words[here + place >> 3] = WORDS_AT + 8 * (
                layout.INLINE_CACHE + layout.INLINE_CACHE_WORDS * (before + numbers)
            )

    def _fill_ends(self, mode: int, offsets: Any, refunds: Any) -> None:
        """Steps, and where branches go."""
        flow, listing = self.flow, self.listing
        for (first, own), block in flow.blocks.items():
            if own != mode:
                continue
            last = block.last - 1
            if flow.is_step(last, mode):
                self._leave(int(offsets[last]), listing.pc(last), int(refunds[last]), layout.STEP)
            elif block.jumps_to:
                known = self.library.find(_key(flow, last, mode))
                assert known is not None
                self.words[int(offsets[last]) + known[1].target >> 3] = self._record(block.target, block.jumps_to)
            assert first < block.last

    def _record(self, point: Point | None, pc: int) -> int:
        """Host address of the record of a block, or of the one that leaves for its place."""
        return self.base + (self._at[point] if point in self._at else self._aways[pc])

    def _leave(self, at: int, pc: int, refund: int, code: int) -> None:
        words = self.words
        words[at >> 3] = self.library.glue["leave"]
        words[(at >> 3) + 1] = pc
        words[(at >> 3) + 2] = refund
        words[at + glue.CODE_AT >> 3] = code

    def _fill_blocks(self) -> None:
        needs, words = self.flow.needs(), self.words
        for number, (point, offset) in enumerate(self._at.items()):
            block, at = self.flow.blocks[point], offset >> 3
            is_head = point in self.flow.heads
            words[at] = self.library.glue["head" if is_head else "fuel"]
            words[at + 1] = self.listing.pc(point[0])
            words[at + glue.COUNT_AT // 8] = block.last - block.first
            words[at + glue.HEAT_AT // 8] = 8 * self._heat(number)
            if is_head:
                words[at + glue.NEEDS_AT // 8] = needs[point]
        for at, block in self._gotos:
            assert block.after is not None
            words[at >> 3] = self.library.glue["goto"]
            words[at + glue.TARGET_AT >> 3] = self._record(block.after, self.listing.pc(block.after[0]))

    def _fill_entries(self, starts: dict[Point, int]) -> dict[BlockKey, int]:
        entered = {}
        for point, at in starts.items():
            place = self._place(point)
            _fill_begin(self.words, at >> 3, self.library, place, self.base + self._at[point])
            entered[place] = self.base + at
        return entered


def _key(flow: Flow, index: int, mode: int) -> str:
    kind = flow.plan(index, mode).kind
    assert kind is not None
    return kind.key


def build_program(make: Callable[[], Flow], library: Library, heat: int) -> Program:
    """The program of a flow that `make` gives; once more where a kind turns out to have no handler."""
    while True:
        builder = ProgramBuilder(make(), library, heat)
        library.make(plan.kind for _, plan in builder.handled() if plan.kind is not None)
        refused = [
            (front, plan)
            for front, plan in builder.handled()
            if plan.kind is not None and library.find(plan.kind.key) is None
        ]
        if not refused:
            return builder.build()
        for front, plan in refused:
            front.refused(plan)
