"""Translation of one region of RV64 code to one LLVM function: SSA registers, fuel checks at loop heads.

The function takes the hart's shared state and the pc to enter at, and returns an exit code with pc, fuel and all
registers written back. At a `STEP` exit the instruction at pc has not begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from softcard.engine.riscv.jit.counters import count, numbers
from softcard.engine.riscv.jit.dispatcher import JUMP, MISS, OUT_OF_FUEL, POLLED, STEP
from softcard.engine.riscv.jit.emit_control import Control
from softcard.engine.riscv.jit.emit_float import Floats, fma_helper
from softcard.engine.riscv.jit.emit_integer import CLMUL_PORTABLE, CLMUL_X86, Integers
from softcard.engine.riscv.jit.emit_loop import Batches, Loops, Measured
from softcard.engine.riscv.jit.emit_memory import AccessCheck, Memory, Notes
from softcard.engine.riscv.jit.emit_registers import Registers, Representations
from softcard.engine.riscv.jit.emit_vector import Vectors
from softcard.engine.riscv.jit.floatreps import INTEGER, Reps, analyse
from softcard.engine.riscv.jit.region import Block, Region, flow_of
from softcard.engine.riscv.jit.strides import BatchCheck, strides
from softcard.ir.builder import Text
from softcard.ir.composed import Composed
from softcard.ir.operand import Operand
from softcard.isa.riscv import state as layout
from softcard.isa.riscv.insn import IllegalInstruction, Insn

# ---- pointer chases --------------------------------------------------------------------------------------------------
# Pointer chases: loads whose address was itself loaded just before (lists, trees, indexes).
#
# Such loads wait for one another, and each lookup in a page table in between would add to the wait. Mostly the page is
# the same as last time, so it is predicted, and checked while the processor goes on.


LOADS: Final = frozenset({"lw", "lwu", "ld", "lb", "lbu", "lh", "lhu"})


def chases(block: Block) -> frozenset[int]:
    """Return the pcs of loads in a one-block loop whose address depends on values that the loop loads.

    The result is empty for other blocks.
    """
    if block.start not in block.successors:
        return frozenset()
    loaded: set[int] = set()
    while True:
        before = set(loaded)
        found = frozenset(pc for pc, insn in block.insns if _step(insn, loaded))
        if loaded == before:
            return found


def _step(insn: Insn, loaded: set[int]) -> bool:
    """Update `loaded`, the registers that depend on loaded values, for an instruction.

    Return True if the instruction is a load from an address that depends on a loaded value.
    """
    is_load = insn.name in LOADS
    is_chase = is_load and insn.rs1 in loaded
    if insn.rd and (is_load or (insn.spec.flow == "next" and {insn.rs1, insn.rs2} & loaded)):
        loaded.add(insn.rd)
    elif insn.rd and insn.spec.flow == "next":
        loaded.discard(insn.rd)  # e.g. a register that is reused for another value
    return is_chase


# ---- regions ---------------------------------------------------------------------------------------------------------


FETCHED: Final = 64
"""The number of code bytes that processors fetch together.

A short loop that begins near the end of such a block may take twice as long.
"""
_TABLES: Final = ("loads", "stores", "load_ends", "store_ends", "vectors")


class Algebra(
    Composed,
    memory=Memory,
    floats=Floats,
    registers=Registers,
    representations=Representations,
    control=Control,
    vectors=Vectors,
    ints=Integers,
):
    """The operations of `isa.riscv.algebra.Algebra` in LLVM IR, for the instruction at `pc`."""

    def __init__(self, text: Text, features: frozenset[str], region: Region) -> None:
        self.pc = self.next_pc = 0
        self.ints = Integers(text)
        self.representations = Representations(text, self.ints)
        self.registers = Registers(text, self.representations)
        self.control = Control(text, self.ints, self.registers)
        self.memory = Memory(text, self.ints, self.registers, self.control, region)
        self.floats = Floats(text, self.ints, self.representations, self.control, "fma" in features)
        self.vectors = Vectors(text, self.ints, self.control, self.memory, features, region.vlen)


class Performer(BatchCheck, Protocol):
    """The interface of a check that emits instructions itself: their semantics with the check's own code added."""

    def perform(self, insn: Insn) -> None:
        """Emit the LLVM IR that executes the guest instruction `insn`, with the code of checks."""

    def leave(self) -> None:
        """Emit the code to run before the function is left."""


class RegionEmitter:
    """Translates one region; `text` returns the LLVM module, whose only entry is a function named `region`.

    - `features`: the features of the host's processor.
    - `native_float`: if False, the reference engine executes float instructions.
    - `perform`: creates the check that emits instructions.
    - `check_accesses`: creates the check of accesses.
    - `note`: creates the check that records stores.
    """

    def __init__(
        self,
        region: Region,
        features: frozenset[str],
        native_float: bool = True,
        perform: Callable[[Algebra], Performer] | None = None,
        check_accesses: Callable[[Algebra], AccessCheck] | None = None,
        note: Callable[[Algebra, Region], Notes] | None = None,
    ) -> None:
        self.region = region
        self.features = features
        self.native_float = native_float
        self.reps_before: dict[int, Reps] = analyse(region) if native_float else {start: {} for start in region.blocks}
        self._text = Text()
        self._algebra = algebra = Algebra(self._text, features, region)
        self._vtypes = region.vtypes
        self._ints, self._registers, self._control = algebra.ints, algebra.registers, algebra.control
        self._back: tuple[int, str] | None = None
        self._pc = region.entry
        self._counters = {} if region.counters is None else numbers(region)
        self._performer = None if perform is None else perform(algebra)
        algebra.memory.access_check = None if check_accesses is None else check_accesses(algebra)
        self._notes = algebra.memory.notes = None if note is None else note(algebra, region)
        checks = [each for each in (algebra.memory.access_check, self._performer) if each is not None]
        self._batches = batches = Batches(self._text, self._control, checks)
        self._loops = Loops(self._text, self._ints, self._registers, algebra.memory, self._control, batches)

    # -- blocks

    def _block(self, block: Block) -> None:
        """Emit one block; if it is a loop that steps through memory, also emit versions without checks."""
        walks = strides(block)
        start = block.start
        self._algebra.memory.chased = frozenset() if self.region.refills else chases(block)
        self._begin(start, f"b{start:x}")
        if not walks:
            self._body(block)
            return
        loop = self._loops.measure(block, walks)
        if loop.streams:
            self._unchecked(block, loop, f"together{start:x}", batches=True)
            self._batches.check_rounds(loop)
        self._unchecked(block, loop, f"fast{start:x}")
        self._algebra.memory.addends = {}
        self._begin(start, f"slow{start:x}")
        if self._notes is not None:
            self._notes.unmeasured()
        self._body(block)

    def _unchecked(self, block: Block, loop: Measured, head: str, batches: bool = False) -> None:
        """Emit a version of a loop whose accesses are not tested; `head` is its label.

        With `batches`, the checks of all accesses were made in advance as well.
        """
        self._begin(block.start, head)
        back = self._text.fresh("again")
        self._back = (block.start, back)
        if batches:
            self._batches.begin(loop)
        self._body(block, checked=False)
        self._loops.back(loop, head, loop.near if loop.near is not None and batches else loop.floor, back)
        if batches:
            self._batches.end()
        self._back = None

    def _begin(self, start: int, label: str) -> None:
        self._registers.begin(self.reps_before[start])
        self._text.start(label)
        self._control.begin()
        before = [bits for pc, bits in sorted(self._vtypes.items()) if pc < start and start != self.region.entry]
        self._algebra.vectors.begin(before[-1] if before else self.region.vtype)

    def _body(self, block: Block, checked: bool = True) -> None:
        algebra, control, start, least = self._algebra, self._control, block.start, self.region.least[block.start]
        self._pc = start
        if start in self.region.budget:
            self._spend(start, least, self.region.budget[start] if checked else 0)
        control.counter = self._counters.get(start)
        if control.counter is not None:
            count(self._text, control.counter)
        for index, (pc, insn) in enumerate(block.insns):
            algebra.pc, algebra.next_pc = pc, (pc + insn.length) & ((1 << 64) - 1)
            control.at(pc, least - index, index)
            if algebra.memory.access_check is not None:
                algebra.memory.access_check.begin(insn)
            if flow_of(insn, self.native_float) == "system":
                self._leave(pc, STEP)
                return
            try:
                if self._performer is None:
                    insn.spec.semantics(algebra, insn)
                else:
                    self._performer.perform(insn)
            except IllegalInstruction:  # a vector instruction: reserved, or left to the reference engine
                control.side(self._text.flag(True))
        self._end(block)

    def _leave(self, pc: int, code: int) -> None:
        self._control.leave(self._ints.const(64, pc), code)

    def _spend(self, start: int, least: int, budget: int) -> None:
        """Emit code that subtracts `least` from the fuel at the start of the block at `start`.

        The code leaves the region before the block if less fuel than `budget` is left."""
        text = self._text
        rest = (self._control.fuel - least) if least else self._control.fuel
        if budget:
            out, on = text.fresh("dry"), text.fresh("on")
            with text.apart(out):
                self._leave(start, OUT_OF_FUEL)
            slack = self.region.slack
            if budget - least <= slack:
                short = rest.slt(0)
            else:
                short = self._control.fuel.slt(budget - slack)
            text.branch(short, out, on, ", !prof !0")
            text.start(on)
        self._control.fuel = rest
        text.pointer("%fuel").store(rest)

    def _end(self, block: Block) -> None:
        text, registers, terminator = self._text, self._registers, self._control.terminator
        kind, value = ("fall", text.word(0)) if terminator is None else terminator
        if kind == "indirect":
            self._go_to(value)
            return
        if not block.successors:
            self._leave(int(value), JUMP)
            return
        registers.flush()
        dirty, registers.dirty_x, registers.dirty_f = (registers.dirty_x, registers.dirty_f), set(), set()
        owed = self.region.least[block.start] - block.cost
        labels = [self._edge(successor, self.region.debt(successor) - owed) for successor in block.successors]
        if block.polls:
            labels[0] = self._poll(block.successors[0], labels[0])
        registers.dirty_x, registers.dirty_f = dirty
        if kind == "branch" and self._control.counter is not None and block.successors[0] != block.successors[1]:
            labels[0] = self._counted(self._control.counter + 1 + len(block.insns), labels[0])
        if kind == "branch":
            text.branch(value, labels[0], labels[1])
        else:
            text.jump(labels[0])

    def _go_to(self, address: Operand) -> None:
        """Emit a computed jump: into the region if it returns from a call within the region, else out of the region."""
        text, registers = self._text, self._registers
        if not self.region.calls_itself:
            self._control.leave(address, JUMP)
            return
        away = text.fresh("away")
        with text.apart(away):
            self._control.leave(address, JUMP)
        registers.flush()
        registers.dirty_x, registers.dirty_f = set(), set()
        returns = sorted(self.region.entries - {self.region.entry})
        text.switch(address, away, *((self._ints.const(64, pc), self._edge(pc, 0)) for pc in returns))

    def _edge(self, successor: int, price: int) -> str:
        """Return the label of an edge to `successor`.

        An edge that costs fuel (`price`) or changes float representations is a separate basic block."""
        text, registers = self._text, self._registers
        if successor not in self.region.blocks:
            label = text.fresh("away")
            with text.apart(label):
                self._leave(successor, JUMP)
            return label
        wanted = self.reps_before[successor]
        target = f"b{successor:x}"
        if self._back is not None and successor == self._back[0]:
            target = self._back[1]
        changes = []
        for n in sorted(registers.reps.keys() | wanted.keys()):
            have, want = registers.reps.get(n, INTEGER), wanted.get(n, INTEGER)
            if have[0] != want[0] or (have[1] == "r" and want[1] == "x"):
                changes.append((n, want))
        closes = self._notes is not None and self._notes.edge(self._pc, successor)
        leaving = self._control.leaving if target == f"b{successor:x}" else None
        if not changes and not price and not closes and leaving is None:
            return target
        label = text.fresh("edge")
        with text.apart(label):
            cached = dict(registers.fs)
            if leaving is not None:
                leaving()
            if self._notes is not None and closes:
                self._notes.close()
            if price:
                left = self._control.fuel - price
                text.pointer("%fuel").store(left)
            for n, want in changes:
                registers.store_as(n, want)
            text.jump(target)
            registers.fs = cached
        return label

    def _counted(self, number: int, on: str) -> str:
        """Return the label of code that increments the counter `number`, and goes on to the label `on`."""
        text = self._text
        label = text.fresh("taken")
        with text.apart(label):
            count(text, number)
            text.jump(on)
        return label

    def _poll(self, head: int, on: str) -> str:
        """Return the label of code that counts an iteration of polling at the loop head `head`.

        The code goes on to `on`, or leaves the region after the last permitted iteration.
        """
        text = self._text
        label, away = text.fresh("poll"), text.fresh("polled")
        with text.apart(label):
            polls = text.pointer("%polls").load("i64")
            last = polls.eq(0)
            fewer = text.call("i64", "llvm.usub.sat.i64", f"i64 {polls}", "i64 1")
            text.pointer("%polls").store(fewer)
            text.branch(last, away, on)
            text.start(away)
            self._leave(head, POLLED)
        return label

    # -- the function around them

    def text(self) -> str:
        """Return the LLVM IR of the module."""
        region = self.region
        for start in sorted(region.blocks):
            self._block(region.blocks[start])
        body = self._text.taken() + self._text.tail
        stubs = self._exit_stubs()
        entries = sorted((region.entries | region.heads) & region.blocks.keys())
        shims = [line for start in entries for line in self._shim(start)]
        head = self._head(entries)
        parts = ["define i64 @region(ptr %st, i64 %pc0) #0 {", *head, *shims, *body, *stubs, "}"]
        return "\n".join(parts) + "\n" + self._footer()

    def _head(self, entries: list[int]) -> list[str]:
        text = self._text
        text.start("entry")
        state = text.pointer("%st")
        named = {
            "q_fuel": layout.FUEL,
            "q_pc": layout.PC,
            "frm": layout.FRM,
            "reserved": layout.RESERVED_ADDRESS,
            "reserved_value": layout.RESERVED_VALUE,
            "scratch": layout.SCRATCH,
            "polls": layout.POLLS,
            "shared": layout.SHARED,
            "synchronized": layout.SYNCHRONIZED,
            "vstart": layout.VSTART,
            "vl": layout.VL,
            "vtype": layout.VTYPE,
            "vxsat": layout.VXSAT,
            "vxrm": layout.VXRM,
            "native_vlen": layout.NATIVE_VLEN,
            "q_vectors": layout.VECTORS,
            "q_loads": layout.LOAD_TABLE,
            "q_stores": layout.STORE_TABLE,
            "q_load_ends": layout.LOAD_ENDS,
            "q_store_ends": layout.STORE_ENDS,
            "q_refill": layout.REFILL,
            "q_counts": layout.COUNTS,
        }
        for name, offset in named.items():
            text.named(f"%{name}", state.element("i64", offset))
        for name in (*_TABLES, *(["counts"] if self._counters else [])):
            text.named(f"%{name}", text.pointer(f"%q_{name}").load("ptr", tail=", !invariant.load !1"))
        for name in ("fuel", "pc", "code", "addend"):
            text.variable(f"%{name}", "i64")
        text.pointer("%fuel").store(text.pointer("%q_fuel").load("i64") - self.region.slack)
        text.lines += text.allocas
        self._registers.enter()
        text.switch(text.word("%pc0"), "miss", *((self._ints.const(64, pc), f"e{pc:x}") for pc in entries))
        for label, code in (("miss", MISS), ("slow", STEP)):
            text.start(label)
            text.ret(code)
        return text.taken()

    def _shim(self, start: int) -> list[str]:
        """Emit the entry point at `start`, which converts registers to the float representations of that block.

        If a conversion is impossible, the entry point takes a side exit.
        """
        text, registers = self._text, self._registers
        text.start(f"e{start:x}")
        for n, (fmt, kind) in sorted(self.reps_before[start].items()):
            raw = text.pointer(f"%fI{n}").load("i64")
            v = self._algebra.representations.from_integer(fmt.lower(), raw)
            bits = v.name.bitcast(f"i{(64 if v.fmt == 'd' else 32)}")
            bad = None
            if fmt == "S":
                bad = raw < -4294967296
            if kind != "x":
                quiet = 2143289344 if v.fmt == "s" else 9221120237041090560
                odd = bits.ne(quiet)
                payload = odd & self._algebra.floats.is_nan(v.fmt, bits)
                bad = payload if bad is None else (bad | payload)
            if bad is not None:
                on = text.fresh("on")
                text.branch(bad, "slow", on, ", !prof !0")
                text.start(on)
            registers.slots.add((n, fmt))
            text.pointer(f"%f{fmt}{n}").store(v.name)
        text.jump(f"b{start:x}")
        return text.taken()

    def _exit_stubs(self) -> list[str]:
        """Emit one stub for each combination of float representations at an exit, then the common write-back."""
        text, registers = self._text, self._registers
        for (code, key), label in self._control.exits.items():
            text.start(label)
            text.pointer("%code").store(code)
            registers.fs, registers.reps = {}, dict(key)
            for n, _ in key:
                registers.store_as(n, INTEGER)
                registers.written_f.add(n)
            text.jump("leave")
        text.start("leave")
        registers.leave()
        if self._performer is not None:
            self._performer.leave()
        if self._notes is not None:
            self._notes.leave()
        left = text.pointer("%fuel").load("i64")
        text.pointer("%q_fuel").store(left + self.region.slack)
        text.pointer("%q_pc").store(text.pointer("%pc").load("i64"))
        text.ret(text.pointer("%code").load("i64"))
        return text.taken()

    def _footer(self) -> str:
        helpers = ""
        if self._ints.uses_clmul:
            helpers += CLMUL_X86 if "pclmul" in self.features else CLMUL_PORTABLE
        for fmt in sorted(self._algebra.floats.fma_formats, reverse=True):
            helpers += fma_helper(fmt, layout.FFLAGS)
        return (
            helpers
            + "\n".join(sorted(self._text.declarations.values()))
            + "\nattributes #0 = { strictfp nounwind }\nattributes #1 = { nounwind noinline }\n"
            + "attributes #2 = { nounwind noinline cold }\n"
            + '!0 = !{!"branch_weights", i32 1, i32 100000}\n!1 = !{}\n'
            + f'!2 = distinct !{{!2, !3}}\n!3 = !{{!"llvm.loop.align", i32 {FETCHED}}}\n'
        )
