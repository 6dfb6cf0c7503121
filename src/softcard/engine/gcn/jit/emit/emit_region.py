"""The translation of a region to one LLVM function: scalar code, and strip-mined loops.

One iteration of a strip-mined loop handles a lane vector: as many lanes as a vector register of the host
holds. Vector instructions are collected in an open strip until an instruction needs their results; then the
strip is emitted as one strip-mined loop (`emit_strip`). Scalar instructions that are independent of the
collected instructions are emitted immediately, and so precede the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from softcard.engine.gcn.instrumentation import PLAIN, Instrumentation
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import BlockKey, Observed, Untranslated
from softcard.engine.gcn.jit.emit.emit_algebra import Algebra
from softcard.engine.gcn.jit.emit.emit_clean import Entries, sets
from softcard.engine.gcn.jit.emit.emit_control import Control, GuestAddress, set_word, word
from softcard.engine.gcn.jit.emit.emit_registers import VectorFile
from softcard.engine.gcn.jit.emit.emit_strip import Resume, StripEmitter
from softcard.engine.gcn.jit.float_control import of_mode
from softcard.engine.gcn.jit.layout import SHADOW_DISTANCE
from softcard.engine.gcn.jit.liveness import Liveness
from softcard.engine.gcn.jit.region import Block, Node, Region
from softcard.engine.gcn.jit.resident import ResidentLoop, resident_loops
from softcard.engine.gcn.jit.strip import PROLOGUE, Strip
from softcard.ir.builder import LaneText, vector_width
from softcard.ir.operand import Operand
from softcard.isa.gcn import state
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import EXEC, LANES, Mode, row_at

# ---- resident loops --------------------------------------------------------------------------------------------------
# The entries and exits of register-resident loops, which keep their vector registers in host registers. An entry loads
# all vector registers of the loop from memory. An exit stores those that the loop has written.


class ResidentLoops:
    """The emitter of a region's register-resident loops."""

    def __init__(self, text: LaneText, loops: list[ResidentLoop], files: list[VectorFile], control: Control) -> None:
        self.text = text
        self.loops = loops
        self.files = files
        self.control = control
        self._by_place = {place: loop for loop in loops for place in loop.places}

    def begin(self, place: BlockKey) -> str:
        """Begin a block, and return its label.

        A block of a register-resident loop has a separate label for jumps inside the loop."""
        loop = self._by_place.get(place)
        self.control.loop = loop
        for file in self.files:
            file.loop = loop
        return self.control.label(place)

    def ways(self, liveness: Liveness) -> None:
        """Emit the code of all entries and exits of register-resident loops, which load and store their registers.

        Call this after all blocks have been emitted."""
        text, labels = self.text, self.control.labels
        for loop in self.loops:
            for n in sorted(loop.registers):
                for chunk in range(LANES // text.lanes):
                    for file in self.files:
                        text.alloca(f"{loop.variable(n, chunk, file.base.prefix)} = alloca {text.itype(32, True)}")
            for place in loop.entries:
                text.start(labels[place])
                self._move(loop, loop.registers, self._load)
                text.jump(f"{labels[place]}.held")
            for place in sorted(loop.exits):
                live = liveness.before(self.control.region.blocks[place], 0)
                text.start(f"out{loop.number}.{labels[place]}")
                lasting = (n for n in loop.stored if (live.active | live.inactive) >> n & 1)
                self._move(loop, lasting, self._store)
                text.jump(labels[place])
            text.start(f"exit{loop.number}")
            self._move(loop, loop.stored, self._store)
            text.jump("exit")

    def _move(self, loop: ResidentLoop, registers: Iterable[int], move: Callable[[Operand, Operand], None]) -> None:
        """Emit moves of all lane vectors of registers between memory and local variables.

        `move` emits one move; it gets the address in memory and that of the variable.
        """
        for n in sorted(registers):
            for chunk in range(LANES // self.text.lanes):
                at = row_at(n) + 4 * chunk * self.text.lanes
                for file in self.files:
                    row = file.state.offset(at)
                    move(row, self.text.pointer(loop.variable(n, chunk, file.base.prefix)))

    def _load(self, row: Operand, variable: Operand) -> None:
        self.files[0].store_chunk(self.files[0].load_chunk(row), variable)

    def _store(self, row: Operand, variable: Operand) -> None:
        self.files[0].store_chunk(self.files[0].load_chunk(variable), row)


# ---- regions ---------------------------------------------------------------------------------------------------------


class RegionEmitter:
    """The emitter of one region, for host vectors of `lanes` lanes, with the checks in `instrumentation`.

    For the kinds of shadow in `clean`, vector registers are assumed to be defined.
    """

    def __init__(
        self,
        region: Region,
        lanes: int,
        observed: Observed = Observed.NEVER,
        instrumentation: Instrumentation = PLAIN,
        clean: frozenset[str] = frozenset(),
    ) -> None:
        self.region = region
        self.liveness = Liveness(region, observed)
        self._needs = region.needs()
        kinds = instrumentation.shadows
        self._is_shadowed = bool(kinds)
        self._open = self._strip()
        self._doubtful: set[int] = set()
        self.text = LaneText(lanes)
        numbers = frozenset(number for number, kind in enumerate(kinds) if kind in clean)
        self._algebra = Algebra(self.text, region, observed, instrumentation, numbers)
        self._perform = self._performer(instrumentation)
        self._control = self._algebra.control
        self._float_control = self._algebra.float_control
        self._strips = StripEmitter(self.text, self._algebra, self._perform)
        loops = resident_loops(region, self.liveness, lanes)
        shadowed = (each for each in self._algebra.shadows if each not in self._algebra.clean)
        files = [self._algebra.vectors, *(each.vectors for each in shadowed)]
        self._loops = ResidentLoops(self.text, loops, files, self._control)

    def _performer(self, instrumentation: Instrumentation) -> Callable[[Insn], None]:
        """Return the function that emits an instruction's semantics, for values alone or for values with shadows."""
        if instrumentation.performer is not None:
            return instrumentation.performer(self._algebra, instrumentation.shadows)
        return lambda insn: execute(self._algebra, insn)

    def _strip(self) -> Strip:
        return Strip(is_shadowed=self._is_shadowed)

    @property
    def resumes(self) -> list[Resume]:
        """For each strip-mined loop, the data with which the reference engine completes it after a side exit."""
        return self._strips.resumes

    # ---- the function --------------------------------------------------------------------------------------------
    def emit(self, name: str) -> str:
        """Return the text of a module with the region as function `name`."""
        text = self.text
        for block in self.region.blocks.values():
            self._emit_block(block)
        self._loops.ways(self.liveness)
        body = text.taken()
        self._entries(name)
        entries = text.taken()
        self._exit()
        end = text.taken()
        self._header(name)
        return "\n".join(
            [
                *self._constants(),
                *(*text.lines, *entries, *body, *text.tail, *end, "}"),
                *sorted(text.declarations.values()),
                f"attributes #0 = {{ nounwind {vector_width(text.lanes)} }}",
                '!0 = !{!"branch_weights", i32 1000, i32 1}',
                "!10 = !{!21}",
                "!11 = !{!22}",
                "!20 = distinct !{!20}",
                "!21 = distinct !{!21, !20}",
                "!22 = distinct !{!22, !20}",
                "",
            ]
        )

    def _header(self, name: str) -> None:
        put = self.text.put
        self.text.lines.append(f"define i64 @{name}(ptr noalias %st, i64 %where) #0 {{")
        self.text.start("entry")
        self.text.variable("%pcv", "i64")
        self.text.variable("%codev", "i64")
        self.text.variable("%fuel", "i64")
        self.text.variable("%base", "i64")
        lanes = self.text.lanes
        if any(each.memory.uses_atomics for each in (self._algebra, *self._algebra.shadows)):
            for each in ("aa", "ad", "ac", "ao"):
                self.text.variable(f"%{each}", f"<{lanes} x i64>", f", align {8 * lanes}")
        for line in self.text.allocas:
            put(line)
        for variable, index in (("helpers", layout.HELPERS), ("lds", state.LDS_BASE)):
            self.text.named(f"%q{variable}", self.text.pointer("%st").offset(state.WORDS_AT + 8 * index))
            self.text.named(f"%{variable}", self.text.pointer(f"%q{variable}").load("ptr"))
        self.text.named("%qldssize", self.text.pointer("%st").offset(state.WORDS_AT + 8 * state.LDS_SIZE))
        self.text.named("%ldssize", self.text.pointer("%qldssize").load("i64"))
        self.text.named("%qfuel", self.text.pointer("%st").offset(state.WORDS_AT + 8 * state.FUEL))
        self.text.pointer("%fuel").store(self.text.pointer("%qfuel").load("i64"))
        self._algebra.scalars.enter()
        for number, shadow in enumerate(self._algebra.shadows):
            file = shadow.vectors
            self.text.named(file.state, self.text.pointer("%st").offset(SHADOW_DISTANCE * (number + 1)))
            self.text.named(file.lds, word(self.text, state.LDS_BASE, file.state).inttoptr())
            shadow.scalars.enter()
        arms = ((index, f"e{index}") for index in range(len(self.region.entries)))
        self.text.switch(self.text.word("%where"), "bad", *arms)

    def _constants(self) -> list[str]:
        if not self._algebra.clean:
            return []
        words = [f"i64 {word}" for each in sets(self.region, self.liveness) for word in each]
        return [f"@sets = private constant [{len(words)} x i64] [{', '.join(words)}]"]

    def _entries(self, name: str) -> None:
        clean = sum(1 << each.kind for each in self._algebra.clean)
        entries = Entries(self.text, self._algebra.memory.helpers, self._control.base, clean)
        for index, place in enumerate(self.region.entries):
            self.text.start(f"e{index}")
            self._control.base.enter(place[0])
            if clean:
                entries.emit(name, index, place[0])
            elif self._algebra.shadows:
                set_word(self.text, layout.CLEAN, 0)
            self._float_control.set(of_mode(place[1]))
            self.text.jump(self._control.labels[place])
        self.text.start("bad")
        self.text.put("unreachable")

    def _exit(self) -> None:
        self.text.start("exit")
        for each in (self._algebra, *self._algebra.shadows):
            each.scalars.leave()
        self.text.pointer("%qfuel").store(self.text.pointer("%fuel").load("i64"))
        set_word(self.text, state.PC, self.text.pointer("%pcv").load("i64"))
        set_word(self.text, layout.TEMPLATE, 0)
        self.text.ret(self.text.pointer("%codev").load("i64"))
        if self._control.ends:
            self.text.start("ended")
            self.text.pointer("%qfuel").store(self.text.pointer("%fuel").load("i64"))
            self.text.ret(layout.END)

    # ---- blocks --------------------------------------------------------------------------------------------------
    def _emit_block(self, block: Block) -> None:
        """Emit a block.

        If an instruction turns out to be untranslatable, mark it for the reference engine, and emit the block again."""
        text = self.text
        lines = text.lines
        marks = [(part, len(part)) for part in (lines, text.tail, text.allocas)]
        resumes = len(self.resumes)
        self._doubtful = set()
        while True:
            try:
                self._try_block(block)
                return
            except Untranslated:
                self._doubtful.add(self._control.index)
                text.lines = lines
                for part, mark in marks:
                    del part[mark:]
                del self.resumes[resumes:]

    def _try_block(self, block: Block) -> None:
        control, environment = self._control, of_mode(block.place[1])
        control.begin(block)
        for each in (self._algebra, *self._algebra.shadows):
            each.scalars.begin()
        for shadow in self._algebra.shadows:
            shadow.begin()
        self._open = self._strip()
        self._algebra.mode = self._algebra.floats.mode = Mode.decode(block.place[1])
        self._float_control.now = environment
        self.text.start(self._loops.begin(block.place))
        self._fuel(block)
        for index, node in enumerate(block.nodes):
            control.index = index
            if node.is_step or index in self._doubtful:
                self._close(index)
                control.hand_over(node.exit, node.insn.pc, index)
                return
            self._instruction(index, node)
        if not control.is_over:
            self._close(len(block.nodes))
            assert block.next is not None
            control.go(block.next)

    def _fuel(self, block: Block) -> None:
        text = self.text
        have = text.pointer("%fuel").load("i64")
        if block.place in self.region.heads:
            on, out = text.fresh("on"), text.fresh("out")
            text.branch(have < self._needs[block.place], out, on)
            text.start(out)
            self._control.finish(layout.OUT_OF_FUEL, self._control.base.at(block.place[0]))
            text.start(on)
        text.pointer("%fuel").store(have - len(block.nodes))

    def _close(self, index: int) -> None:
        """Emit the collected vector instructions as a strip-mined loop, before instruction `index` of the block."""
        strip, self._open = self._open, self._strip()
        current = self._control.index
        live = self.liveness.before(self._control.block, index)
        # Stores use EXEC from before the strip.
        self._strips.write(strip, index, live.anywhere() if EXEC in strip.masks else live)
        self._control.index = current  # the scalar instruction after the strip may still exit

    def _instruction(self, index: int, node: Node) -> None:
        found = node.effects
        if found.phases > 1:
            self._close(index)
            for phase in (*((PROLOGUE,) if self._is_shadowed else ()), *range(1, found.phases + 1)):
                self._open.first, self._open.phase = index, phase
                self._open.add(node)
                self._close(index + 1)
        elif found.lanes:
            if self._open.ends_before(found):
                self._close(index)
            if not self._open.nodes:
                self._open.first = index
            self._open.add(node)
            if found.across or found.writes_exec:
                self._close(index + 1)
        else:
            if self._open.ends_before(found) or self._open.is_waited_for(node):
                self._close(index)
            self._perform(replace(node.insn, pc=GuestAddress(node.insn.pc)))
