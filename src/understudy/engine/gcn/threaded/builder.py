"""Making programs: laying out and filling the records of a flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.float_control import float_control, of_mode
from understudy.engine.gcn.threaded import records
from understudy.engine.gcn.threaded.draft import Draft, Places
from understudy.engine.gcn.threaded.example import Example
from understudy.engine.gcn.threaded.flow import Flow, Point, Span
from understudy.engine.gcn.threaded.front import Front, Getter, Numbers, Plan, Words, groups
from understudy.engine.gcn.threaded.library import Library
from understudy.engine.gcn.threaded.records import Handler
from understudy.isa.gcn.state import WORDS_AT


class ProgramBuilder:
    """Lays out and fills the records of a flow."""

    def __init__(self, flow: Flow, library: Library) -> None:
        self.flow = flow
        self.listing = flow.listing
        self.library = library
        self._at: dict[Point, int] = {}
        self._gotos: list[tuple[int, Span]] = []
        self._aways: dict[int, int] = {}
        self._size = 0
        self._pcs: list[Any] = []
        self._pointers: list[int] = []
        self._heats: list[int] = []
        self._glue: dict[str, list[int]] = {}
        self._handlers: dict[str, list[Any]] = {}
        self._examples: dict[str, Example] = {}

    def build(self) -> Draft:
        """The program, for code at any address."""
        flow = self.flow
        modes = list(dict.fromkeys(mode for _, mode in flow.blocks))
        laid = [self._lay_out(mode) for mode in modes]
        starts = self._entries()
        self._reserve_aways()
        self.words = np.zeros(self._size // 8, np.uint64)
        self.halves = self.words.view(np.uint32)
        for mode, (offsets, handlers) in zip(modes, laid, strict=True):
            self._fill(mode, offsets, handlers)
        self._fill_blocks()
        self._fill_entries(starts)
        for pc, at in self._aways.items():
            self._leave(at, pc, 0, layout.JUMP)
        relative = self._relative
        return Draft(
            flow.mode,
            list(self._runs()),
            not (self._aways or flow.is_left),
            self.words,
            _joined(self._pcs),
            _joined(self._pointers),
            _joined(self._heats),
            {name: _joined(here) for name, here in self._glue.items()},
            {key: _joined(here) for key, here in self._handlers.items()},
            self._examples,
            [(*relative(point), at, flow.blocks[point].last - point[0]) for point, at in self._at.items()],
            [(*relative(point), at) for point, at in starts.items()],
            {mode: float_control(of_mode(mode)) for mode in modes},
        )

    def _runs(self) -> Iterator[tuple[int, int]]:
        """The code that is reached."""
        listing, reached = self.listing, np.flatnonzero(self.flow.reached)
        for run in np.split(reached, np.flatnonzero(np.diff(reached) > 1) + 1):
            first, last = int(listing.at[run[0]]), int(listing.at[run[-1]] + listing.sizes[run[-1]])
            yield 4 * first, 4 * (last - first)

    def _relative(self, point: Point) -> tuple[int, int]:
        return self.listing.pc(point[0]) - self.listing.start, point[1]

    def _put_pc(self, at: int, pc: int) -> None:
        """A guest address."""
        self.words[at] = pc - self.listing.start & 0xFFFF_FFFF_FFFF_FFFF
        self._pcs.append(at)

    def _put_pointer(self, at: int, offset: int) -> None:
        """The address of a record."""
        self.words[at] = offset
        self._pointers.append(at)

    def _put_glue(self, at: int, name: str) -> None:
        """A function that is no instruction's."""
        self._glue.setdefault(name, []).append(at)

    def handled(self) -> Iterator[tuple[Front, Plan]]:
        """The plans of all instructions that are executed by handlers."""
        for mode, plans in self.flow.plans.items():
            front = self.flow.front(mode)
            for number in sorted(set(plans.tolist()) - {-1}):
                plan = front.plans[number]
                if plan.kind is not None and not plan.is_nothing:
                    yield front, plan

    # ---- where everything lies -----------------------------------------------------------------------------------
    def _lay_out(self, mode: int) -> tuple[npt.NDArray[np.int64], dict[int, Handler]]:
        """Where the record of each instruction under a MODE lies (-1: it has none), and the handlers by plan."""
        flow, plans = self.flow, self.flow.plans[mode]
        front = flow.front(mode)
        sizes_of = np.zeros(len(front.plans) + 1, np.int64)
        handlers: dict[int, Handler] = {}
        for number in sorted(set(plans.tolist()) - {-1}):
            plan = front.plans[number]
            if plan.kind is None:
                sizes_of[number] = records.LEAVE_BYTES
            elif not plan.is_nothing:
                known = self.library.find(plan.kind.key)
                assert known is not None
                handlers[number] = known[1]
                sizes_of[number] = known[1].size
        sizes = sizes_of[plans]
        offsets = np.full(len(plans), -1, np.int64)
        blocks = sorted((block for (_, own), block in flow.blocks.items() if own == mode), key=lambda b: b.first)
        ends = np.cumsum(sizes)
        for number, block in enumerate(blocks):
            point = block.first, mode
            self._at[point] = self._size
            self._size += records.HEAD_BYTES if point in flow.heads else records.FUEL_BYTES
            before = int(ends[block.first] - sizes[block.first])
            span = slice(block.first, block.last)
            offsets[span] = ends[span] - sizes[span] - before + self._size
            self._size += int(ends[block.last - 1]) - before
            following = (blocks[number + 1].first, mode) if number + 1 < len(blocks) else None
            if block.after is not None and block.after != following and not flow.is_step(block.last - 1, mode):
                self._gotos.append((self._size, block))
                self._size += records.GOTO_BYTES
        offsets[sizes == 0] = -1
        return offsets, handlers

    def _entries(self) -> dict[Point, int]:
        """Room for the records where waves begin or go on."""
        found = {}
        for point in sorted(self.flow.entries & self.flow.blocks.keys()):
            found[point] = self._size
            self._size += records.BEGIN_BYTES
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
            self._size += records.LEAVE_BYTES

    # ---- what stands there ---------------------------------------------------------------------------------------
    def _fill(self, mode: int, offsets: Any, handlers: dict[int, Handler]) -> None:
        """The records of all instructions under a MODE."""
        flow, listing, plans = self.flow, self.listing, self.flow.plans[mode]
        front = flow.front(mode)
        refunds = np.zeros(len(plans), np.int64)
        for (first, own), block in flow.blocks.items():
            if own == mode:
                refunds[first : block.last] = np.arange(block.last - first, 0, -1)
        chosen = np.flatnonzero(offsets >= 0)
        at = offsets[chosen]
        self.words[(at >> 3) + 1] = (listing.at[chosen] << 2).astype(np.uint64)
        self._pcs.append((at >> 3) + 1)
        self.halves[(at >> 2) + 4] = refunds[chosen]
        rank = 0
        for number, members in groups(plans[chosen]):
            if number in handlers:
                self._fill_kind(front, number, handlers[number], chosen[members], at[members], rank)
                rank += len(members)
        self._fill_ends(mode, offsets, refunds)

    def _fill_kind(self, front: Front, number: int, handler: Handler, which: Any, here: Any, rank: int) -> None:
        plan, listing = front.plans[number], self.listing
        assert plan.kind is not None
        assert plan.insn is not None
        self._handlers.setdefault(plan.kind.key, []).append(here >> 3)
        fixed = plan.group is not None and plan.group.has_fixed_numbers
        self._examples.setdefault(plan.kind.key, Example(plan.insn.words, front.mode, fixed))
        fill_parts(self.words, here, plan.getters, handler, listing.encoded[which], listing.literals[which], rank)

    def _fill_ends(self, mode: int, offsets: Any, refunds: Any) -> None:
        """Steps, and where branches go."""
        flow, listing = self.flow, self.listing
        for (first, own), block in flow.blocks.items():
            if own != mode:
                continue
            last = block.last - 1
            if flow.is_step(last, mode):
                node = flow.node(last, mode)
                code = layout.STEP if node is None else node.exit
                self._leave(int(offsets[last]), listing.pc(last), int(refunds[last]), code)
            elif block.jumps_to:
                known = self.library.find(_key(flow, last, mode))
                assert known is not None
                self._put_pointer(int(offsets[last]) + known[1].target >> 3, self._record(block.target, block.jumps_to))
            assert first < block.last

    def _record(self, point: Point | None, pc: int) -> int:
        """Where the record of a block lies, or the one that leaves for its place."""
        return self._at[point] if point in self._at else self._aways[pc]

    def _leave(self, at: int, pc: int, refund: int, code: int) -> None:
        words = self.words
        self._put_glue(at >> 3, "leave")
        self._put_pc((at >> 3) + 1, pc)
        words[(at >> 3) + 2] = refund
        words[at + records.CODE_AT >> 3] = code

    def _fill_blocks(self) -> None:
        needs, words = self.flow.needs(), self.words
        for number, (point, offset) in enumerate(self._at.items()):
            block, at = self.flow.blocks[point], offset >> 3
            is_head = point in self.flow.heads
            self._put_glue(at, "head" if is_head else "fuel")
            self._put_pc(at + 1, self.listing.pc(point[0]))
            words[at + records.COUNT_AT // 8] = block.last - block.first
            words[at + records.HEAT_AT // 8] = number
            self._heats.append(at + records.HEAT_AT // 8)
            if is_head:
                words[at + records.NEEDS_AT // 8] = needs[point]
        for at, block in self._gotos:
            assert block.after is not None
            self._put_glue(at >> 3, "goto")
            self._put_pointer(at + records.TARGET_AT >> 3, self._record(block.after, self.listing.pc(block.after[0])))

    def _fill_entries(self, starts: dict[Point, int]) -> None:
        for point, at in starts.items():
            self._put_glue(at >> 3, "begin")
            self._put_pc((at >> 3) + 1, self.listing.pc(point[0]))
            self.words[at + records.CONTROL_AT >> 3] = float_control(of_mode(point[1]))
            self._put_pointer(at + records.BEGIN_TARGET_AT >> 3, self._at[point])


def fill_parts(
    records: Words,
    here: Numbers,
    getters: tuple[Getter, ...],
    handler: Handler,
    words: Words,
    literals: Words,
    rank: int,
) -> None:
    """Write the parts and inline caches of records of one kind, which begin at bytes `here`, for instructions' words.

    `rank` says which caches are theirs: others' have other numbers, as long as there are enough.
    """
    halves = records.view(np.uint32)
    for getter, place in zip(getters, handler.places, strict=True):
        values = getter.get(words, literals)
        if getter.part.size == 4:
            halves[here + place >> 2] = values
        else:
            records[here + place >> 3] = values
    for k, (kind, place) in enumerate(handler.caches):
        numbers = (np.arange(len(words)) + rank + k) % layout.INLINE_CACHES[kind]
        before = sum(count for other, count in layout.INLINE_CACHES.items() if other < kind)
        records[here + place >> 3] = WORDS_AT + 8 * (
            layout.INLINE_CACHE + layout.INLINE_CACHE_WORDS * (before + numbers)
        )


def _joined(places: list[Any]) -> Places:
    """Numbers of words, given one by one or as arrays."""
    return np.concatenate([np.zeros(0, np.int32), *(np.atleast_1d(each) for each in places)]).astype(np.int32)


def _key(flow: Flow, index: int, mode: int) -> str:
    kind = flow.plan(index, mode).kind
    assert kind is not None
    return kind.key


def build_program(make: Callable[[], Flow], library: Library) -> Draft:
    """The program of a flow that `make` gives; once more where a kind turns out to have no handler."""
    while True:
        builder = ProgramBuilder(make(), library)
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
