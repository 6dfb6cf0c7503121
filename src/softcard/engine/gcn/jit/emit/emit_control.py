"""Control flow out of a block of translated code: to blocks of the region, to other code or to the reference engine."""

from __future__ import annotations

from collections.abc import Callable

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import BlockKey, Observed
from softcard.engine.gcn.jit.emit.emit_integer import Integers
from softcard.engine.gcn.jit.region import Block, Region
from softcard.engine.gcn.jit.resident import ResidentLoop
from softcard.ir.builder import LaneText, Value
from softcard.ir.operand import Operand
from softcard.isa.gcn import state
from softcard.isa.gcn.state import WORDS_AT


class GuestAddress(int):
    """An address of the guest's code. Machine code computes it, and sums with it, relative to its own entry."""

    def __add__(self, n: int) -> GuestAddress:
        return GuestAddress(int(self) + n)


class Base:
    """The guest address of the region at run time, which is computed from the pc of the region's entry."""

    def __init__(self, text: LaneText, start: int) -> None:
        self.text = text
        self.start = start

    def at(self, pc: int) -> Operand:
        """Emit the 64-bit guest address of `pc`."""
        return self.text.pointer("%base").load("i64") + (int(pc) - self.start)

    def enter(self, pc: int) -> None:
        """Emit the entry of the region at `pc`: the word PC of the wave's state has its guest address."""
        here = word(self.text, state.PC)
        self.text.pointer("%base").store(here - (pc - self.start))


class Control:
    """The emitter of control flow, as a part of `isa.gcn.algebra.WaveAlgebra`, and of the function's exits.

    `block` and `index` identify the instruction being translated; `is_over` is True if the block's exit was emitted.
    `observed` determines if waves are observed after their end; `ends` is True if a wave may end here unobserved.
    `loop` is the register-resident loop that is being emitted, whose exits store its registers.
    """

    def __init__(self, text: LaneText, ints: Integers, region: Region, base: Base, observed: Observed) -> None:
        self.text = text
        self.ints = ints
        self.base = base
        self.observed = observed
        self.region = region
        self.loop: ResidentLoop | None = None
        self.undo: list[Callable[[], None]] = []
        """The functions that emit the undoing of earlier writes before a side exit of this instruction."""
        self.labels = {place: f"b{index}" for index, place in enumerate(region.blocks)}
        self.ends = False
        self.before_end: Callable[[], None] = _nothing
        self.before_barrier: Callable[[], None] = _nothing
        """The emitter of checks' code before a wave waits at a barrier; `before_end` is that before its end."""
        self.begin(region.blocks[next(iter(region.blocks))])

    def begin(self, block: Block) -> None:
        """Begin to emit a block."""
        self.block = block
        self.index = 0
        self.is_over = False
        self.undo.clear()

    # ---- exits -------------------------------------------------------------------------------------------------
    def finish(self, code: int, pc: Operand) -> None:
        """Emit an exit to the dispatcher with an exit code, and with the pc at which to continue."""
        self.text.pointer("%codev").store(code)
        self.text.pointer("%pcv").store(pc)
        self.text.jump("exit" if self.loop is None else f"exit{self.loop.number}")

    def hand_over(self, code: int, pc: int, index: int) -> None:
        """Emit an exit before instruction `index` of the block.

        The code gives back the fuel of that instruction and of all later ones in the block, which was subtracted in
        advance.
        """
        count = len(self.block.nodes) - index
        if count:
            have = self.text.pointer("%fuel").load("i64")
            self.text.pointer("%fuel").store(have + count)
        self.finish(code, self.base.at(pc))

    @property
    def mode(self) -> int:
        """The value of MODE at the current instruction."""
        return self.block.place[1]

    def unspent(self) -> Operand:
        """Emit the fuel of the time slice before the current instruction.

        It is the variable's value plus that of the block's remaining instructions, whose fuel was subtracted in
        advance.
        """
        count = len(self.block.nodes) - self.index
        return self.text.pointer("%fuel").load("i64") + count

    def step_exit(self) -> str:
        """Return the label of a side exit to the reference engine before the current scalar instruction."""
        label = self.text.fresh("step")
        with self.text.apart(label):
            for write in self.undo:
                write()
            self.hand_over(layout.STEP, self.block.nodes[self.index].insn.pc, self.index)
        return label

    def label(self, place: BlockKey) -> str:
        """Return the label for jumps from the current block to a block of this region.

        It depends on the register-resident loop that is being emitted.
        """
        label, loop = self.labels[place], self.loop
        if loop is None:
            return label
        if place in loop.places:
            return f"{label}.held"
        loop.exits.add(place)
        return f"out{loop.number}.{label}"

    def go(self, place: BlockKey) -> None:
        """Emit a jump to a block, in this region or elsewhere."""
        self.is_over = True
        if place in self.labels:
            self.text.jump(self.label(place))
        else:
            self.finish(layout.JUMP, self.base.at(place[0]))

    # ---- operations --------------------------------------------------------------------------------------------
    def branch(self, c: Value, target: int) -> None:
        """Emit a branch to `target` if condition `c` holds."""
        yes, no = self._edge(target), self._edge(self._following())
        self.text.branch(self.text.bits(c), yes, no)
        self.is_over = True

    def jump(self, target: int) -> None:
        """Emit a jump to `target`."""
        self.go((target, self.block.nodes[-1].after))

    def jump_to(self, target: Value) -> None:
        """Emit a jump to a computed address."""
        o = self.ints
        self._finish_block(layout.JUMP, self.text.bits(o.and_(64, target, o.const(64, ~3))))

    def exit_to_lookup(self) -> None:
        """Emit an exit to the dispatcher, which looks up the next block by pc and the present MODE."""
        self._finish_block(layout.JUMP, self.next_pc())

    def end(self) -> None:
        """Emit the end of the wave."""
        self.before_end()
        if self.observed not in (Observed.NEVER, Observed.PLACE):
            self._finish_block(layout.END, self.next_pc())
            return
        if self.observed is Observed.PLACE:
            set_word(self.text, state.PC, self.next_pc())
        self.text.jump("ended")
        self.ends = self.is_over = True

    def barrier(self) -> None:
        """Emit a wait at a barrier."""
        self.before_barrier()
        self._finish_block(layout.BARRIER, self.next_pc())

    def hint(self, what: str, n: int = 0) -> None:
        """Emit the end of the time slice for s_sleep; other hints need no code."""
        if what == "sleep":
            self._finish_block(layout.SLEEP, self.next_pc())

    def _finish_block(self, code: int, pc: Operand) -> None:
        self.finish(code, pc)
        self.is_over = True

    def next_pc(self) -> Operand:
        """Emit the address of the instruction after the block."""
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
    """Emit nothing."""


def word(text: LaneText, index: int, block: Operand | None = None) -> Operand:
    """Emit the load of 64-bit word `index` after the registers of a wave's state.

    With `block`, it is a word of the state at that address, such as that of shadow registers.
    """
    return _word_at(text, index, block).load("i64")


def set_word(text: LaneText, index: int, value: Operand | int, block: Operand | None = None) -> None:
    """Emit the store of 64-bit word `index` after the registers of a wave's state.

    With `block`, it is a word of the state at that address, such as that of shadow registers.
    """
    _word_at(text, index, block).store(value)


def _word_at(text: LaneText, index: int, block: Operand | None = None) -> Operand:
    return (text.pointer("%st") if block is None else block).offset(WORDS_AT + 8 * index)
