"""One region of RV64 code as one LLVM function: registers in SSA form, fuel checked at loop heads.

The function takes the hart's shared state and the pc to enter at, and returns an exit code with pc, fuel and all
registers written back. At a `STEP` exit the instruction at pc has not begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from understudy.engine.riscv.jit.chases import chases
from understudy.engine.riscv.jit.counters import count, numbers
from understudy.engine.riscv.jit.dispatcher import JUMP, MISS, OUT_OF_FUEL, POLLED, STEP
from understudy.engine.riscv.jit.emit_control import Control
from understudy.engine.riscv.jit.emit_float import Floats, fma_helper
from understudy.engine.riscv.jit.emit_integer import CLMUL_PORTABLE, CLMUL_X86, Integers
from understudy.engine.riscv.jit.emit_loop import Loops
from understudy.engine.riscv.jit.emit_memory import Looks, Memory, Notes
from understudy.engine.riscv.jit.emit_registers import TYPE, Registers, Representations
from understudy.engine.riscv.jit.emit_together import Measured, Together
from understudy.engine.riscv.jit.emit_vector import Vectors
from understudy.engine.riscv.jit.floatreps import INTEGER, Reps, analyse
from understudy.engine.riscv.jit.region import Block, Region, flow_of
from understudy.engine.riscv.jit.streams import Ahead
from understudy.engine.riscv.jit.strides import strides
from understudy.ir.builder import Text
from understudy.ir.composed import Composed
from understudy.isa.riscv import state as layout
from understudy.isa.riscv.insn import IllegalInstruction, Insn

FETCHED: Final = 64
"""Bytes of code that processors fetch together: short loops take up to twice as long where they begin late in them."""
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
    """`isa.riscv.algebra.Algebra` for the instruction at `pc`."""

    def __init__(self, text: Text, features: frozenset[str], vlen: int, refills: bool) -> None:
        self.pc = self.next_pc = 0
        self.ints = Integers(text)
        self.representations = Representations(text, self.ints)
        self.registers = Registers(text, self.representations)
        self.control = Control(text, self.ints, self.registers)
        self.memory = Memory(text, self.ints, self.registers, self.control, refills)
        self.floats = Floats(text, self.ints, self.representations, self.control, "fma" in features)
        self.vectors = Vectors(text, self.ints, self.control, self.memory, features, vlen)


class Performer(Ahead, Protocol):
    """Writes instructions by more than their meanings."""

    def perform(self, insn: Insn) -> None:
        """Write one."""

    def leave(self) -> None:
        """The function is left."""


class RegionEmitter:
    """Translates one region; `text()` is the whole module, with one function named `region`.

    `features` are those of the host. Without `native_float` floats are left to the reference engine. `perform` makes
    what writes instructions where their meanings are not all, `look` what looks at accesses, `note` what keeps account
    of stores.
    """

    def __init__(
        self,
        region: Region,
        features: frozenset[str],
        native_float: bool = True,
        perform: Callable[[Algebra], Performer] | None = None,
        look: Callable[[Algebra], Looks] | None = None,
        note: Callable[[Algebra, Region], Notes] | None = None,
    ) -> None:
        self.region = region
        self.features = features
        self.native_float = native_float
        self.reps_before: dict[int, Reps] = analyse(region) if native_float else {start: {} for start in region.blocks}
        self._text = Text()
        self._algebra = algebra = Algebra(self._text, features, region.vlen, region.refills)
        self._vtypes = region.vtypes
        self._ints, self._registers, self._control = algebra.ints, algebra.registers, algebra.control
        self._back: tuple[int, str] | None = None
        self._here = region.entry
        self._counters = {} if region.counters is None else numbers(region)
        self._performer = None if perform is None else perform(algebra)
        algebra.memory.looks = None if look is None else look(algebra)
        self._notes = algebra.memory.notes = None if note is None else note(algebra, region)
        parties = [each for each in (algebra.memory.looks, self._performer) if each is not None]
        self._together = together = Together(self._text, self._control, parties)
        self._loops = Loops(self._text, self._ints, self._registers, algebra.memory, self._control, together)

    # -- blocks

    def _block(self, block: Block) -> None:
        """Translate one block, and where it is a loop that walks through memory, a version without checks."""
        walks = strides(block)
        start = block.start
        self._algebra.memory.chased = frozenset() if self.region.refills else chases(block)
        self._begin(start, f"b{start:x}")
        if not walks:
            self._body(block)
            return
        loop = self._loops.measure(block, walks)
        if loop.streams:
            self._unchecked(block, loop, f"together{start:x}", together=True)
            self._together.ahead(loop)
        self._unchecked(block, loop, f"fast{start:x}")
        self._algebra.memory.addends = {}
        self._begin(start, f"slow{start:x}")
        if self._notes is not None:
            self._notes.unmeasured()
        self._body(block)

    def _unchecked(self, block: Block, loop: Measured, head: str, together: bool = False) -> None:
        """Translate a loop that was measured; `together` where all its accesses have been looked at."""
        self._begin(block.start, head)
        back = self._text.fresh("again")
        self._back = (block.start, back)
        if together:
            self._together.begin(loop)
        self._body(block, checked=False)
        self._loops.back(loop, head, loop.near if together else loop.floor, back)
        if together:
            self._together.end()
        self._back = None

    def _begin(self, start: int, label: str) -> None:
        self._registers.begin(self.reps_before[start])
        self._text.start(label)
        self._control.begin()
        before = [bits for pc, bits in sorted(self._vtypes.items()) if pc < start and start != self.region.entry]
        self._algebra.vectors.begin(before[-1] if before else self.region.vtype)

    def _body(self, block: Block, checked: bool = True) -> None:
        algebra, control, start, least = self._algebra, self._control, block.start, self.region.least[block.start]
        self._here = start
        if start in self.region.budget:
            self._spend(start, least, self.region.budget[start] if checked else 0)
        control.counter = self._counters.get(start)
        if control.counter is not None:
            count(self._text, control.counter)
        for index, (pc, insn) in enumerate(block.insns):
            algebra.pc, algebra.next_pc = pc, (pc + insn.length) & ((1 << 64) - 1)
            control.at(pc, least - index, index)
            if algebra.memory.looks is not None:
                algebra.memory.looks.begin(insn)
            if flow_of(insn, self.native_float) == "system":
                self._leave(pc, STEP)
                return
            try:
                if self._performer is None:
                    insn.spec.meaning(algebra, insn)
                else:
                    self._performer.perform(insn)
            except IllegalInstruction:  # of vectors: reserved, or not for this one
                control.side("true")
        self._end(block)

    def _leave(self, pc: int, code: int) -> None:
        self._control.leave(self._ints.const(64, pc), code)

    def _spend(self, start: int, least: int, budget: int) -> None:
        """Take `least` from the fuel, leaving before the block where there is less than `budget`."""
        text = self._text
        rest = text.let(f"sub i64 {self._control.fuel}, {least}") if least else self._control.fuel
        if budget:
            out, on = text.fresh("dry"), text.fresh("on")
            with text.apart(out):
                self._leave(start, OUT_OF_FUEL)
            slack = self.region.slack
            if budget - least <= slack:
                short = text.let(f"icmp slt i64 {rest}, 0")
            else:
                short = text.let(f"icmp slt i64 {self._control.fuel}, {budget - slack}")
            text.branch(short, out, on, ", !prof !0")
            text.start(on)
        self._control.fuel = rest
        text.put(f"store i64 {rest}, ptr %fuel")

    def _end(self, block: Block) -> None:
        text, registers, terminator = self._text, self._registers, self._control.terminator
        kind = terminator[0] if terminator else "fall"
        if kind == "indirect":
            self._go_to(terminator[1])
            return
        if not block.successors:
            self._leave(int(terminator[1]), JUMP)
            return
        registers.flush()
        dirty, registers.dirty_x, registers.dirty_f = (registers.dirty_x, registers.dirty_f), set(), set()
        owed = self.region.least[block.start] - block.cost
        labels = [self._edge(successor, self.region.debt(successor) - owed) for successor in block.successors]
        if block.polls:
            labels[0] = self._poll(block.successors[0], labels[0])
        registers.dirty_x, registers.dirty_f = dirty
        if kind == "branch":
            text.branch(terminator[1], labels[0], labels[1])
        else:
            text.put(f"br label %{labels[0]}")

    def _go_to(self, address: str) -> None:
        """A computed jump: back into the region where a call inside it may have come from, else away."""
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
        cases = " ".join(f"i64 {self._ints.const(64, pc)}, label %{self._edge(pc, 0)}" for pc in returns)
        text.put(f"switch i64 {address}, label %{away} [ {cases} ]")

    def _edge(self, successor: int, price: int) -> str:
        """The label to go to for `successor`, with a block of its own where that costs fuel or registers must change
        representation."""
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
        closes = self._notes is not None and self._notes.edge(self._here, successor)
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
                left = text.let(f"sub i64 {self._control.fuel}, {price}")
                text.put(f"store i64 {left}, ptr %fuel")
            for n, want in changes:
                registers.store_as(n, want)
            text.put(f"br label %{target}")
            registers.fs = cached
        return label

    def _poll(self, head: int, on: str) -> str:
        """The label to go to for another round of polling: on to label `on`, or away where that was the last one."""
        text = self._text
        label, away = text.fresh("poll"), text.fresh("polled")
        with text.apart(label):
            polls = text.let("load i64, ptr %polls")
            last = text.let(f"icmp eq i64 {polls}, 0")
            fewer = text.call("i64", "llvm.usub.sat.i64", f"i64 {polls}", "i64 1")
            text.put(f"store i64 {fewer}, ptr %polls")
            text.branch(last, away, on)
            text.start(away)
            self._leave(head, POLLED)
        return label

    # -- the function around them

    def text(self) -> str:
        """The module."""
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
        out = ["entry:"]
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
        out += [f"  %{name} = getelementptr i64, ptr %st, i64 {offset}" for name, offset in named.items()]
        out += [f"  %{name} = load ptr, ptr %q_{name}, !invariant.load !1" for name in _TABLES]
        if self._counters:
            out += ["  %counts = load ptr, ptr %q_counts, !invariant.load !1"]
        out += [f"  %{name} = alloca i64" for name in ("fuel", "pc", "code", "addend")]
        out += ["  %fuel0 = load i64, ptr %q_fuel", f"  %fuel1 = sub i64 %fuel0, {self.region.slack}"]
        out += ["  store i64 %fuel1, ptr %fuel"]
        out += self._text.allocas
        out += self._registers.enter()
        cases = " ".join(f"i64 {self._ints.const(64, pc)}, label %e{pc:x}" for pc in entries)
        out += [f"  switch i64 %pc0, label %miss [ {cases} ]", "miss:", f"  ret i64 {MISS}"]
        out += ["slow:", f"  ret i64 {STEP}"]
        return out

    def _shim(self, start: int) -> list[str]:
        """Enter at `start` from outside: bring registers into its representations, or leave it to the reference."""
        text, registers = self._text, self._registers
        text.start(f"e{start:x}")
        for n, (fmt, kind) in sorted(self.reps_before[start].items()):
            raw = text.let(f"load i64, ptr %fI{n}")
            v = self._algebra.representations.from_integer(fmt.lower(), raw)
            bits = text.let(f"bitcast {TYPE[v.fmt]} {v.name} to i{64 if v.fmt == 'd' else 32}")
            bad = None
            if fmt == "S":
                bad = text.let(f"icmp ult i64 {raw}, -4294967296")
            if kind != "x":
                quiet = "2143289344" if v.fmt == "s" else "9221120237041090560"
                w = 64 if v.fmt == "d" else 32
                odd = text.let(f"icmp ne i{w} {bits}, {quiet}")
                payload = text.let(f"and i1 {odd}, {self._algebra.floats.is_nan(v.fmt, bits)}")
                bad = payload if bad is None else text.let(f"or i1 {bad}, {payload}")
            if bad is not None:
                on = text.fresh("on")
                text.branch(bad, "slow", on, ", !prof !0")
                text.start(on)
            registers.slots.add((n, fmt))
            text.put(f"store {TYPE[v.fmt]} {v.name}, ptr %f{fmt}{n}")
        text.put(f"br label %b{start:x}")
        return text.taken()

    def _exit_stubs(self) -> list[str]:
        """One stub for each combination of representations at an exit, then the common write-back."""
        text, registers = self._text, self._registers
        for (code, key), label in self._control.exits.items():
            text.start(label)
            text.put(f"store i64 {code}, ptr %code")
            registers.fs, registers.reps = {}, dict(key)
            for n, _ in key:
                registers.store_as(n, INTEGER)
                registers.written_f.add(n)
            text.put("br label %leave")
        text.start("leave")
        registers.leave()
        if self._performer is not None:
            self._performer.leave()
        if self._notes is not None:
            self._notes.leave()
        left = text.let("load i64, ptr %fuel")
        text.put(f"store i64 {text.let(f'add i64 {left}, {self.region.slack}')}, ptr %q_fuel")
        text.put(f"store i64 {text.let('load i64, ptr %pc')}, ptr %q_pc")
        text.put(f"ret i64 {text.let('load i64, ptr %code')}")
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
