"""Control flow out of a block of translated code: to blocks of the region, other code, or the reference engine."""

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
    """A guest address of code, which translated code computes instead of containing it as a constant.

    Translated code computes the address, or the sum of it and a number, as an offset from the address of its
    region."""

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
        """Emit, at an entry of the region, the computation of the region's guest address from the word PC of the wave.

        `pc` is the address of the entry at translation time."""
        here = word(self.text, state.PC)
        self.text.pointer("%base").store(here - (pc - self.start))


class Control:
    """The emitter of control flow, as a part of `isa.gcn.algebra.WaveAlgebra`, and of the function's exits.

    `block` and `index` identify the instruction that is being translated. `is_over` is True if the block's exit
    was emitted. `observed` states when the registers of a wave can be observed from outside. `ends` is True if a
    wave may end in the region without being observed. `loop` is the register-resident loop that is being emitted,
    or None; its exits store its registers."""

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
        """Emit an exit with exit code `code` before instruction `index` of the block; execution continues at `pc`.

        The fuel of all instructions of the block was subtracted in advance. The emitted code adds the fuel of the
        instructions from `index` on again."""
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
        """Emit the fuel of the time slice that is left before the current instruction.

        The fuel of all instructions of the block was subtracted in advance. Therefore the result is the variable's
        value plus the fuel of the block's remaining instructions."""
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
        """Return the label for jumps from the current block to the block with key `place`, which is in this region.

        The label depends on the register-resident loop that is being emitted."""
        label, loop = self.labels[place], self.loop
        if loop is None:
            return label
        if place in loop.places:
            return f"{label}.held"
        loop.exits.add(place)
        return f"out{loop.number}.{label}"

    def go(self, place: BlockKey) -> None:
        """Emit a jump to the block with key `place`, or an exit to the dispatcher if that block is not in this
        region."""
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
    """Emit the load of the 64-bit word number `index` that follows the registers in a wave's state.

    If `block` is given, it is the address of the state from which to load, such as that of shadow registers."""
    return _word_at(text, index, block).load("i64")


def set_word(text: LaneText, index: int, value: Operand | int, block: Operand | None = None) -> None:
    """Emit a store to the 64-bit word number `index` that follows the registers in a wave's state.

    If `block` is given, it is the address of the state to which to store, such as that of shadow registers."""
    _word_at(text, index, block).store(value)


def _word_at(text: LaneText, index: int, block: Operand | None = None) -> Operand:
    return (text.pointer("%st") if block is None else block).offset(WORDS_AT + 8 * index)
