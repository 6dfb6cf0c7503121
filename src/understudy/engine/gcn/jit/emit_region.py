"""A region as one LLVM function: blocks of scalar code with loops over chunks of lanes in between.

Vector instructions wait in an open strip until something must see their results; then the strip is written as one loop
over chunks of lanes (`emit_strip`). Scalar instructions that neither need nor disturb the waiting ones are written at
once, which puts them before the strip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import Observed, Untranslated
from understudy.engine.gcn.jit.emit_algebra import Algebra
from understudy.engine.gcn.jit.emit_control import GuestAddress, set_word, word
from understudy.engine.gcn.jit.emit_held import HeldLoops
from understudy.engine.gcn.jit.emit_strip import Resume, StripEmitter
from understudy.engine.gcn.jit.emit_unmarked import Entries, sets
from understudy.engine.gcn.jit.float_control import of_mode
from understudy.engine.gcn.jit.held import held_loops
from understudy.engine.gcn.jit.home import TWIN
from understudy.engine.gcn.jit.liveness import Liveness
from understudy.engine.gcn.jit.region import Block, Node, Region
from understudy.engine.gcn.jit.strip import AHEAD, Strip
from understudy.ir.builder import LaneText, vector_width
from understudy.isa.gcn import state
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.execute import execute
from understudy.isa.gcn.state import EXEC, Mode


class RegionEmitter:
    """Writes one region for chunks of `lanes` lanes, with marks of `kinds`.

    Vector registers are taken for unmarked by those that are `unmarked`, too.
    """

    def __init__(
        self,
        region: Region,
        lanes: int,
        observed: Observed = Observed.NEVER,
        kinds: tuple[str, ...] = (),
        unmarked: frozenset[str] = frozenset(),
    ) -> None:
        self.region = region
        self.liveness = Liveness(region, observed)
        self._needs = region.needs()
        self._is_marked = bool(kinds)
        self._open = self._strip()
        self._doubtful: set[int] = set()
        self.text = LaneText(lanes)
        numbers = frozenset(number for number, kind in enumerate(kinds) if kind in unmarked)
        self._algebra = Algebra(self.text, region, observed, len(kinds), numbers)
        self._perform = self._performer(kinds)
        self._control = self._algebra.control
        self._float_control = self._algebra.float_control
        self._strips = StripEmitter(self.text, self._algebra, self._perform)
        loops = held_loops(region, self.liveness, lanes)
        marked = (each for each in self._algebra.twins if each not in self._algebra.unmarked)
        held = [self._algebra.vectors, *(each.vectors for each in marked)]
        self._loops = HeldLoops(self.text, loops, held, self._control)

    def _performer(self, kinds: tuple[str, ...]) -> Callable[[Insn], None]:
        """What writes an instruction: its meaning over the algebra, or over values with marks."""
        if kinds:
            from understudy.engine.gcn.marks.translated import performer  # few programs ask for checks

            return performer(self._algebra, kinds)
        return lambda insn: execute(self._algebra, insn)

    def _strip(self) -> Strip:
        return Strip(is_marked=self._is_marked)

    @property
    def resumes(self) -> list[Resume]:
        """How to finish each of its strips on the reference engine."""
        return self._strips.resumes

    # ---- the function --------------------------------------------------------------------------------------------
    def emit(self, name: str) -> str:
        """The text of a module with the region as function `name`."""
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
        put, let = self.text.put, self.text.let
        self.text.lines.append(f"define i64 @{name}(ptr noalias %st, i64 %where) #0 {{")
        self.text.start("entry")
        put("%pcv = alloca i64")
        put("%codev = alloca i64")
        put("%fuel = alloca i64")
        put("%base = alloca i64")
        lanes = self.text.lanes
        if any(each.memory.uses_atomics for each in (self._algebra, *self._algebra.twins)):
            for each in ("aa", "ad", "ac", "ao"):
                put(f"%{each} = alloca <{lanes} x i64>, align {8 * lanes}")
        for line in self.text.allocas:
            put(line)
        for variable, index in (("helpers", layout.HELPERS), ("lds", state.LDS_BASE)):
            put(f"%q{variable} = getelementptr i8, ptr %st, i64 {state.WORDS_AT + 8 * index}")
            put(f"%{variable} = load ptr, ptr %q{variable}")
        put(f"%qldssize = getelementptr i8, ptr %st, i64 {state.WORDS_AT + 8 * state.LDS_SIZE}")
        put("%ldssize = load i64, ptr %qldssize")
        put(f"%qfuel = getelementptr i8, ptr %st, i64 {state.WORDS_AT + 8 * state.FUEL}")
        put(f"store i64 {let('load i64, ptr %qfuel')}, ptr %fuel")
        self._algebra.scalars.enter()
        for number, twin in enumerate(self._algebra.twins):
            put(f"{twin.vectors.home.state} = getelementptr i8, ptr %st, i64 {TWIN * (number + 1)}")
            lds = word(self.text, state.LDS_BASE, twin.vectors.home.state)
            put(f"{twin.vectors.home.lds} = inttoptr i64 {lds} to ptr")
            twin.scalars.enter()
        cases = " ".join(f"i64 {index}, label %e{index}" for index in range(len(self.region.entries)))
        put(f"switch i64 %where, label %bad [ {cases} ]")

    def _constants(self) -> list[str]:
        if not self._algebra.unmarked:
            return []
        words = [f"i64 {word}" for each in sets(self.region, self.liveness) for word in each]
        return [f"@sets = private constant [{len(words)} x i64] [{', '.join(words)}]"]

    def _entries(self, name: str) -> None:
        unmarked = sum(1 << each.kind for each in self._algebra.unmarked)
        looks = Entries(self.text, self._algebra.memory.helpers, self._control.base, unmarked)
        for index, place in enumerate(self.region.entries):
            self.text.start(f"e{index}")
            self._control.base.enter(place[0])
            if unmarked:
                looks.look(name, index, place[0])
            elif self._algebra.twins:
                set_word(self.text, layout.UNMARKED, "0")
            self._float_control.set(of_mode(place[1]))
            self.text.put(f"br label %{self._control.labels[place]}")
        self.text.start("bad")
        self.text.put("unreachable")

    def _exit(self) -> None:
        put, let = self.text.put, self.text.let
        self.text.start("exit")
        for each in (self._algebra, *self._algebra.twins):
            each.scalars.leave()
        put(f"store i64 {let('load i64, ptr %fuel')}, ptr %qfuel")
        set_word(self.text, state.PC, let("load i64, ptr %pcv"))
        set_word(self.text, layout.TEMPLATE, "0")
        put(f"ret i64 {let('load i64, ptr %codev')}")
        if self._control.ends:
            self.text.start("ended")
            put(f"store i64 {let('load i64, ptr %fuel')}, ptr %qfuel")
            put(f"ret i64 {layout.END}")

    # ---- blocks --------------------------------------------------------------------------------------------------
    def _emit_block(self, block: Block) -> None:
        """Write a block; what proves not to be translatable is the reference engine's, and the rest is tried again."""
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
        for each in (self._algebra, *self._algebra.twins):
            each.scalars.begin()
        for twin in self._algebra.twins:
            twin.begin()
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
        have = text.let("load i64, ptr %fuel")
        if block.place in self.region.heads:
            on, out = text.fresh("on"), text.fresh("out")
            text.branch(text.let(f"icmp ult i64 {have}, {self._needs[block.place]}"), out, on)
            text.start(out)
            self._control.finish(layout.OUT_OF_FUEL, self._control.base.at(block.place[0]))
            text.start(on)
        text.put(f"store i64 {text.let(f'sub i64 {have}, {len(block.nodes)}')}, ptr %fuel")

    def _close(self, index: int) -> None:
        """Write the open strip; execution goes on with instruction `index` of the block."""
        strip, self._open = self._open, self._strip()
        current = self._control.index
        live = self.liveness.before(self._control.block, index)
        # What is stored is stored under EXEC as it was.
        self._strips.write(strip, index, live.anywhere() if EXEC in strip.masks else live)
        self._control.index = current  # the scalar instruction that had to wait for the strip may still leave

    def _instruction(self, index: int, node: Node) -> None:
        found = node.effects
        if found.phases > 1:
            self._close(index)
            for phase in (*((AHEAD,) if self._is_marked else ()), *range(1, found.phases + 1)):
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
