"""Where control goes from a block of translated code: on in the region, elsewhere, or to the reference engine."""

from __future__ import annotations

from collections.abc import Callable

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import BlockKey, Observed
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.held import HeldLoop
from understudy.engine.gcn.jit.region import Block, Region
from understudy.ir.builder import LaneText, Value
from understudy.isa.gcn import state
from understudy.isa.gcn.state import WORDS_AT


class GuestAddress(int):
    """An address of the code: what is made of it by adding is one too. Machine code finds it by where it is entered."""

    def __add__(self, n: int) -> GuestAddress:
        return GuestAddress(int(self) + n)


class Base:
    """Where the region lies in guest memory when it runs: known from the pc that it is entered with, at any address."""

    def __init__(self, text: LaneText, start: int) -> None:
        self.text = text
        self.start = start

    def at(self, pc: int) -> str:
        """A guest address, 64 bits."""
        return self.text.let(f"add i64 {self.text.let('load i64, ptr %base')}, {int(pc) - self.start}")

    def enter(self, pc: int) -> None:
        """The region is entered at an address, which the word PC has."""
        here = word(self.text, state.PC)
        self.text.put(f"store i64 {self.text.let(f'sub i64 {here}, {pc - self.start}')}, ptr %base")


class Control:
    """The control part of the algebra, and how the function is left.

    `block` and `index` say which instruction is being translated, `is_over` whether the block has got its end.
    `observed` tells whether somebody looks at waves that have ended, `ends` that one may end here without that.
    `loop`: the one that is being written, where it holds its registers: ways out of it lead through its own.
    """

    def __init__(self, text: LaneText, ints: Integers, region: Region, base: Base, observed: Observed) -> None:
        self.text = text
        self.ints = ints
        self.base = base
        self.observed = observed
        self.region = region
        self.loop: HeldLoop | None = None
        self.undo: list[Callable[[], None]] = []
        """What is written first where the current scalar instruction is left."""
        self.labels = {place: f"b{index}" for index, place in enumerate(region.blocks)}
        self.ends = False
        self.before_end: Callable[[], None] = _nothing
        self.before_barrier: Callable[[], None] = _nothing
        """What else is done where waves end, and where they come to barriers."""
        self.begin(region.blocks[next(iter(region.blocks))])

    def begin(self, block: Block) -> None:
        """A block begins."""
        self.block = block
        self.index = 0
        self.is_over = False
        self.undo.clear()

    # ---- leaving -----------------------------------------------------------------------------------------------
    def finish(self, code: int, pc: str) -> None:
        """Hand over to the dispatcher: exit code, and the pc to go on at."""
        self.text.put(f"store i64 {code}, ptr %codev")
        self.text.put(f"store i64 {pc}, ptr %pcv")
        self.text.put("br label %exit" if self.loop is None else f"br label %exit{self.loop.number}")

    def hand_over(self, code: int, pc: int, index: int) -> None:
        """Hand over before instruction `index` of the block: give back the fuel for it and what follows, paid ahead."""
        count = len(self.block.nodes) - index
        if count:
            have = self.text.let("load i64, ptr %fuel")
            self.text.put(f"store i64 {self.text.let(f'add i64 {have}, {count}')}, ptr %fuel")
        self.finish(code, self.base.at(pc))

    @property
    def mode(self) -> int:
        """MODE where the instruction stands."""
        return self.block.place[1]

    def unspent(self) -> str:
        """Fuel of the turn before the current instruction: that for it and what follows is paid ahead."""
        count = len(self.block.nodes) - self.index
        return self.text.let(f"add i64 {self.text.let('load i64, ptr %fuel')}, {count}")

    def step_exit(self) -> str:
        """A label that hands the current scalar instruction to the reference engine."""
        label = self.text.fresh("step")
        with self.text.apart(label):
            for write in self.undo:
                write()
            self.hand_over(layout.STEP, self.block.nodes[self.index].insn.pc, self.index)
        return label

    def label(self, place: BlockKey) -> str:
        """The label of a block of this region, for the one that is being written."""
        label, loop = self.labels[place], self.loop
        if loop is None:
            return label
        if place in loop.places:
            return f"{label}.held"
        loop.exits.add(place)
        return f"out{loop.number}.{label}"

    def go(self, place: BlockKey) -> None:
        """Go on at a place, in this region or elsewhere."""
        self.is_over = True
        if place in self.labels:
            self.text.put(f"br label %{self.label(place)}")
        else:
            self.finish(layout.JUMP, self.base.at(place[0]))

    # ---- the algebra -------------------------------------------------------------------------------------------
    def branch(self, c: Value, target: int) -> None:
        """Conditional branch."""
        yes, no = self._edge(target), self._edge(self._following())
        self.text.branch(self.text.bits(c), yes, no)
        self.is_over = True

    def jump(self, target: int) -> None:
        """Unconditional branch."""
        self.go((target, self.block.nodes[-1].after))

    def jump_to(self, target: Value) -> None:
        """Computed branch."""
        o = self.ints
        self._finish_block(layout.JUMP, self.text.bits(o.and_(64, target, o.const(64, ~3))))

    def look_up(self) -> None:
        """Go on behind the block, where MODE is not known beforehand."""
        self._finish_block(layout.JUMP, self.next_pc())

    def end(self) -> None:
        """The wave is done."""
        self.before_end()
        if self.observed not in (Observed.NEVER, Observed.PLACE):
            self._finish_block(layout.END, self.next_pc())
            return
        if self.observed is Observed.PLACE:
            set_word(self.text, state.PC, self.next_pc())
        self.text.put("br label %ended")
        self.ends = self.is_over = True

    def barrier(self) -> None:
        """Wait for the others."""
        self.before_barrier()
        self._finish_block(layout.BARRIER, self.next_pc())

    def hint(self, what: str, n: int = 0) -> None:
        """A pause gives other waves their turn; the others that are translated do nothing."""
        if what == "sleep":
            self._finish_block(layout.SLEEP, self.next_pc())

    def _finish_block(self, code: int, pc: str) -> None:
        self.finish(code, pc)
        self.is_over = True

    def next_pc(self) -> str:
        """Address behind the block."""
        return self.base.at(self._following())

    def _following(self) -> int:
        return self.block.nodes[-1].insn.next_pc

    def _edge(self, pc: int) -> str:
        place = (pc, self.block.nodes[-1].after)
        if place in self.labels:
            return self.label(place)
        label = self.text.fresh("away")
        with self.text.apart(label):
            self.finish(layout.JUMP, self.base.at(pc))
        return label


def _nothing() -> None:
    """There is nothing else to be done."""


def word(text: LaneText, index: int, block: str = "%st") -> str:
    """One of the 64-bit words behind the registers of a wave's state, or of another block."""
    return text.let(f"load i64, ptr {_word_at(text, index, block)}")


def set_word(text: LaneText, index: int, value: str, block: str = "%st") -> None:
    """Write one of them, of the wave's state or another block."""
    text.put(f"store i64 {value}, ptr {_word_at(text, index, block)}")


def _word_at(text: LaneText, index: int, block: str = "%st") -> str:
    return text.let(f"getelementptr i8, ptr {block}, i64 {WORDS_AT + 8 * index}")
