"""The builder of direct-threaded programs, which lays out and fills the records of a control-flow graph.

A record is the data for one call of a handler: constants, operand locations, and addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.float_control import float_control, of_mode
from softcard.engine.gcn.threaded import records
from softcard.engine.gcn.threaded.flow import Flow, Point, Span
from softcard.engine.gcn.threaded.frontend import UNKNOWN, About, Frontend, Plan
from softcard.engine.gcn.threaded.library import Library
from softcard.engine.gcn.threaded.records import Example
from softcard.engine.gcn.threaded.rows import Numbers, alike, spread
from softcard.engine.gcn.threaded.unlinked import UnlinkedProgram
from softcard.engine.gcn.threaded.values import fill_caches, fill_parts


class ProgramBuilder:
    """The builder of the records of a control-flow graph's instructions."""

    def __init__(self, flow: Flow, library: Library) -> None:
        self.flow = flow
        self.listing = flow.listing
        self.library = library
        self.used = {mode: np.unique(plans[plans >= 0]).tolist() for mode, plans in flow.plans.items()}
        """The numbers of the plans of all reachable instructions, by MODE.

        A plan is the translation of all instructions that share a handler.
        """
        self._at: dict[Point, int] = {}
        self._gotos: list[tuple[int, Span]] = []
        self._aways: dict[int, int] = {}
        self._takens: dict[Point, int] = {}
        """The records that count taken branches, by the block of the branch; empty unless instructions are counted."""
        self._size = 0
        self._pcs: list[int] = []
        self._pointers: list[int] = []
        self._profiles: list[int] = []
        self._stubs: dict[str, list[int]] = {}
        self._handlers: dict[str, list[Numbers]] = {}
        self._insn_pcs: list[Numbers] = []
        self._examples: dict[str, Example] = {}

    def build(self) -> UnlinkedProgram:
        """Return the program in unlinked form, that is, valid for code at any guest address."""
        flow = self.flow
        laid = {mode: self._lay_out(mode) for mode in self.used}
        starts = self._entries()
        self._reserve_aways()
        self._reserve_takens()
        self.words = np.zeros(self._size // 8, np.uint64)
        self.halves = self.words.view(np.uint32)
        for mode, offsets in laid.items():
            self._fill(mode, offsets)
        self._fill_blocks()
        self._fill_entries(starts)
        for pc, at in self._aways.items():
            self._leave(at, pc, 0, layout.JUMP)
        relative = self._relative
        return UnlinkedProgram(
            flow.mode,
            list(self._runs()),
            not (self._aways or flow.is_left),
            self.words,
            np.concatenate([np.array(self._pcs, np.int32), *self._insn_pcs], dtype=np.int32, casting="unsafe"),
            np.array(self._pointers, np.int32),
            np.array(self._profiles, np.int32),
            {name: np.array(here, np.int32) for name, here in self._stubs.items()},
            list(self._handlers),
            np.array([sum(map(len, here)) for here in self._handlers.values()], np.int32),
            np.concatenate(
                [np.zeros(0, np.int32), *(each for here in self._handlers.values() for each in here)],
                dtype=np.int32,
                casting="unsafe",
            ),
            self._examples,
            [(*relative(point), at, flow.blocks[point].last - point[0]) for point, at in self._at.items()],
            [(*relative(point), at) for point, at in starts.items()],
            {mode: float_control(of_mode(mode)) for mode in self.used},
        )

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of reachable code, as pairs of byte offset and size."""
        listing, reached = self.listing, np.flatnonzero(self.flow.reached)
        for run in np.split(reached, np.flatnonzero(np.diff(reached) > 1) + 1):
            first, last = int(listing.at[run[0]]), int(listing.at[run[-1]] + listing.sizes[run[-1]])
            yield 4 * first, 4 * (last - first)

    def _relative(self, point: Point) -> tuple[int, int]:
        return self.listing.pc(point[0]) - self.listing.start, point[1]

    def _put_pc(self, at: int, pc: int) -> None:
        """Write a guest address to word `at` of the records, and register the word for relocation."""
        self.words[at] = pc - self.listing.start & 0xFFFF_FFFF_FFFF_FFFF
        self._pcs.append(at)

    def _put_pointer(self, at: int, offset: int) -> None:
        """Write the address of the record at byte `offset` to word `at`, and register the word for relocation."""
        self.words[at] = offset
        self._pointers.append(at)

    def _put_stub(self, at: int, name: str) -> None:
        """Record that the linker has to write the address of the stub `name` to word `at` of the records.

        A stub is the function of records that do not belong to an instruction."""
        self._stubs.setdefault(name, []).append(at)

    def handled(self) -> Iterator[tuple[Frontend, Plan]]:
        """Yield the plans of all instructions that handlers execute, each with the front end that made it."""
        for mode, numbers in self.used.items():
            frontend = self.flow.frontend(mode)
            for plan in map(frontend.plans.__getitem__, numbers):
                if plan.kind is not None and not plan.is_nothing:
                    yield frontend, plan

    # ---- layout --------------------------------------------------------------------------------------------------
    def _lay_out(self, mode: int) -> Numbers:
        """Reserve the records of all instructions under a MODE; return the offset of each instruction's record.

        The offset is -1 for instructions without a record."""
        flow, plans = self.flow, self.flow.plans[mode]
        frontend, used = flow.frontend(mode), np.array(self.used[mode], np.int64)
        for number in used[frontend.about.table[used, About.SIZE] == UNKNOWN].tolist():
            frontend.lay_out(number, self.library.find)
        sizes = np.where(plans >= 0, frontend.about.table[plans, About.SIZE].astype(np.int64), 0)
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
        return offsets

    def _entries(self) -> dict[Point, int]:
        """Reserve the records at which waves enter the program; return their offsets by program point."""
        found = {}
        for point in sorted(self.flow.entries & self.flow.blocks.keys()):
            found[point] = self._size
            self._size += records.BEGIN_BYTES
        return found

    def _reserve_aways(self) -> None:
        """Reserve the records of exits to addresses outside of the program."""
        for block in self.flow.blocks.values():
            if block.jumps_to and block.target not in self._at:
                self._away(block.jumps_to)
        for _, block in self._gotos:
            if block.after not in self._at:
                assert block.after is not None
                self._away(self.listing.pc(block.after[0]))

    def _reserve_takens(self) -> None:
        """Reserve the records that count taken branches, if instructions are counted."""
        for (first, mode), block in self.flow.blocks.items() if self.flow.apart else ():
            if block.is_conditional and not self.flow.is_step(block.last - 1, mode):
                self._takens[first, mode] = self._size
                self._size += records.TAKEN_BYTES

    def _away(self, pc: int) -> None:
        if pc not in self._aways:
            self._aways[pc] = self._size
            self._size += records.LEAVE_BYTES

    # ---- contents ------------------------------------------------------------------------------------------------
    def _fill(self, mode: int, offsets: Numbers) -> None:
        """Fill the records of all instructions under a MODE."""
        flow, listing, plans = self.flow, self.listing, self.flow.plans[mode]
        refunds = np.zeros(len(plans), np.int64)
        for (first, own), block in flow.blocks.items():
            if own == mode:
                refunds[first : block.last] = np.arange(block.last - first, 0, -1)
        chosen = np.flatnonzero(offsets >= 0)
        at = offsets[chosen]
        self.words[(at >> 3) + 1] = (listing.at[chosen] << 2).astype(np.uint64)
        self._insn_pcs.append((at >> 3) + 1)
        self.halves[(at >> 2) + 4] = refunds[chosen]
        self._fill_kinds(flow.frontend(mode), plans[chosen], at, chosen)
        self._fill_ends(mode, offsets, refunds)

    def _fill_kinds(self, frontend: Frontend, plans: Numbers, at: Numbers, which: Numbers) -> None:
        """Fill the operand fields of records, and register the handlers of the records.

        `which` are the indices of the instructions, `plans` their plan numbers, and `at` the byte offsets of their
        records."""
        same = alike(plans)
        words, numbers = at[same.order] >> 3, plans[same.order[same.cuts]]
        for number, cut, size in zip(numbers.tolist(), same.cuts.tolist(), same.sizes.tolist(), strict=True):
            plan = frontend.plans[number]
            if plan.kind is not None:
                self._handlers.setdefault(plan.kind.key, []).append(words[cut : cut + size])
                assert plan.example is not None
                self._examples.setdefault(plan.kind.key, plan.example)
        about, listing = frontend.about.table, self.listing
        for places, row in same.with_rows(about[numbers, About.PART], about[numbers, About.PARTS]):
            here = which[places]
            fill_parts(self.words, at[places], frontend.parts.table[row], listing.encoded[here], listing.literals[here])
        owner, row = spread(about[plans, About.CACHE], about[plans, About.CACHES])
        fill_caches(self.words, at[owner], frontend.caches.table[row])

    def _fill_ends(self, mode: int, offsets: Any, refunds: Any) -> None:
        """Fill the records of instructions that the reference engine executes, and write the branch targets."""
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
                target = self._takens.get((first, own), self._record(block.target, block.jumps_to))
                self._put_pointer(int(offsets[last]) + known[1].target >> 3, target)
            assert first < block.last

    def _record(self, point: Point | None, pc: int) -> int:
        """Return the offset of a block's first record.

        If the program has no block at `point`, return the offset of the record that exits to `pc`.
        """
        return self._at[point] if point in self._at else self._aways[pc]

    def _leave(self, at: int, pc: int, refund: int, code: int) -> None:
        words = self.words
        self._put_stub(at >> 3, "leave")
        self._put_pc((at >> 3) + 1, pc)
        words[(at >> 3) + 2] = refund
        words[at + records.CODE_AT >> 3] = code

    def _fill_blocks(self) -> None:
        needs, words = self.flow.needs(), self.words
        stubs = ("counted_fuel", "counted_head") if self.flow.apart else ("fuel", "head")
        for number, (point, offset) in enumerate(self._at.items()):
            block, at = self.flow.blocks[point], offset >> 3
            is_head = point in self.flow.heads
            self._put_stub(at, stubs[is_head])
            self._put_pc(at + 1, self.listing.pc(point[0]))
            words[at + records.COUNT_AT // 8] = block.last - block.first
            words[at + records.PROFILE_AT // 8] = number
            self._profiles.append(at + records.PROFILE_AT // 8)
            if is_head:
                words[at + records.NEEDS_AT // 8] = needs[point]
            if point in self._takens:
                taken = self._takens[point] >> 3
                self._put_stub(taken, "taken")
                self._put_pc(taken + 1, self.listing.pc(block.last - 1))
                self._put_pointer(taken + records.TARGET_AT // 8, self._record(block.target, block.jumps_to))
                words[taken + records.TAKEN_PROFILE_AT // 8] = number
                self._profiles.append(taken + records.TAKEN_PROFILE_AT // 8)
        for at, block in self._gotos:
            assert block.after is not None
            self._put_stub(at >> 3, "goto")
            self._put_pointer(at + records.TARGET_AT >> 3, self._record(block.after, self.listing.pc(block.after[0])))

    def _fill_entries(self, starts: dict[Point, int]) -> None:
        for point, at in starts.items():
            self._put_stub(at >> 3, "begin")
            self._put_pc((at >> 3) + 1, self.listing.pc(point[0]))
            self.words[at + records.CONTROL_AT >> 3] = float_control(of_mode(point[1]))
            self._put_pointer(at + records.BEGIN_TARGET_AT >> 3, self._at[point])


def _key(flow: Flow, index: int, mode: int) -> str:
    kind = flow.plan(index, mode).kind
    assert kind is not None
    return kind.key


def build_program(make: Callable[[], Flow], library: Library) -> UnlinkedProgram:
    """Return the program of the control-flow graph that `make` returns.

    If handlers cannot be made for some instructions, the program is built from a new graph, in which other
    handlers or the reference engine execute these instructions."""
    with library.lock:  # plans are shared by all engines of this process
        while True:
            builder = ProgramBuilder(make(), library)
            handled = list(builder.handled())
            library.make(plan.kind for _, plan in handled if plan.kind is not None)
            refused = [each for each in handled if each[1].kind is not None and library.find(each[1].kind.key) is None]
            if not refused:
                return builder.build()
            for frontend, plan in refused:
                frontend.refused(plan)
