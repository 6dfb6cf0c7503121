"""A region as one LLVM function: blocks of scalar code with loops over chunks of lanes in between.

Vector instructions wait in an open segment until something must see their results; then the segment is written as one
loop over chunks of lanes (`emit_strip`). Scalar instructions that neither need nor disturb the waiting ones are
written at once, which puts them before the segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.emit_float import Untranslated
from understudy.engine.gcn.jit.emit_strip import DEFAULT, Segment, SegmentEmitter, of_mode
from understudy.engine.gcn.jit.liveness import Liveness, Observed
from understudy.engine.gcn.jit.region import Block, Node, Place, Region
from understudy.ir.builder import Text, Value, vector_width
from understudy.isa.gcn import state
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import EXEC, FLAT_SCRATCH, Mode


class RegionEmitter(SegmentEmitter):
    """Writes one region."""

    def __init__(
        self, region: Region, lanes: int, execute: Callable[[Any, Insn], None], observed: Observed = Observed.NEVER
    ) -> None:
        super().__init__(Text(lanes))
        self.region = region
        self.liveness = Liveness(region, observed)
        self._needs = region.needs()
        target = next(iter(region.blocks.values())).nodes[0].insn.target
        self.shown = frozenset(f"s{FLAT_SCRATCH[target.level] + n}" for n in range(2))
        self.execute = execute
        self._labels = {place: f"b{index}" for index, place in enumerate(region.blocks)}
        self._open = Segment()
        self.block = next(iter(region.blocks.values()))
        self._ended = False
        self._ends = False
        self._doubtful: set[int] = set()
        self.environment = DEFAULT

    # ---- the function --------------------------------------------------------------------------------------------
    def emit(self, name: str) -> str:
        """The text of a module with the region as function `name`."""
        for block in self.region.blocks.values():
            self._emit_block(block)
        body = self._taken()
        self._entries()
        entries = self._taken()
        self._exit()
        end = self._taken()
        self._header(name)
        lines = [*self.text.lines, *entries, *body, *self.tail, *end, "}"]
        lanes = self.text.lanes
        return "\n".join(
            [
                *lines,
                *sorted(self.text.declarations),
                f"attributes #0 = {{ nounwind {vector_width(lanes)} }}",
                '!0 = !{!"branch_weights", i32 1000, i32 1}',
                "!10 = !{!21}",
                "!11 = !{!22}",
                "!20 = distinct !{!20}",
                "!21 = distinct !{!21, !20}",
                "!22 = distinct !{!22, !20}",
                "",
            ]
        )

    def _taken(self) -> list[str]:
        """What was written so far, which is then no longer there."""
        lines, self.text.lines = self.text.lines, []
        return lines

    def _header(self, name: str) -> None:
        put, let = self.text.put, self.text.let
        self.text.lines.append(f"define i64 @{name}(ptr noalias %st, i64 %where) #0 {{")
        self.text.start("entry")
        put("%pcv = alloca i64")
        put("%codev = alloca i64")
        put("%fuel = alloca i64")
        lanes = self.text.lanes
        if self.uses_atomics:
            for each in ("aa", "ad", "ac", "ao"):
                put(f"%{each} = alloca <{lanes} x i64>, align {8 * lanes}")
        for line in self.text.allocas:
            put(line)
        for variable, word in (("helpers", layout.HELPERS), ("lds", state.LDS_BASE)):
            put(f"%q{variable} = getelementptr i8, ptr %st, i64 {state.WORDS_AT + 8 * word}")
            put(f"%{variable} = load ptr, ptr %q{variable}")
        put(f"%qldssize = getelementptr i8, ptr %st, i64 {state.WORDS_AT + 8 * state.LDS_SIZE}")
        put("%ldssize = load i64, ptr %qldssize")
        put(f"%qfuel = getelementptr i8, ptr %st, i64 {state.WORDS_AT + 8 * state.FUEL}")
        put(f"store i64 {let('load i64, ptr %qfuel')}, ptr %fuel")
        for variable in sorted(self.variables):
            kind = "i64" if variable in ("exec", "vcc") else "i1" if variable == "scc" else "i32"
            put(f"%{variable} = alloca {kind}")
            put(f"%q{variable} = getelementptr i8, ptr %st, i64 {self._home(variable)}")
            first = let(f"load {'i64' if variable == 'scc' else kind}, ptr %q{variable}")
            put(f"store {kind} {let(f'trunc i64 {first} to i1') if variable == 'scc' else first}, ptr %{variable}")
        cases = " ".join(f"i64 {index}, label %e{index}" for index in range(len(self.region.entries)))
        put(f"switch i64 %where, label %bad [ {cases} ]")

    def _entries(self) -> None:
        for index, place in enumerate(self.region.entries):
            self.text.start(f"e{index}")
            self.set_environment(of_mode(place[1]))
            self.text.put(f"br label %{self._labels[place]}")
        self.text.start("bad")
        self.text.put("unreachable")

    def _home(self, variable: str) -> str:
        return str(state.WORDS_AT + 8 * state.SCC) if variable == "scc" else self.place(variable)

    def _exit(self) -> None:
        """Variables go back to the state."""
        put, let = self.text.put, self.text.let
        self.text.start("exit")
        for variable in sorted(self.modified):
            kind = "i64" if variable in ("exec", "vcc") else "i1" if variable == "scc" else "i32"
            last = let(f"load {kind}, ptr %{variable}")
            if variable == "scc":
                kind, last = "i64", let(f"zext i1 {last} to i64")
            put(f"store {kind} {last}, ptr %q{variable}")
        put(f"store i64 {let('load i64, ptr %fuel')}, ptr %qfuel")
        self.set_word(state.PC, let("load i64, ptr %pcv"))
        self.set_word(layout.TEMPLATE, "0")
        put(f"ret i64 {let('load i64, ptr %codev')}")
        if self._ends:
            self.text.start("ended")
            put(f"store i64 {let('load i64, ptr %fuel')}, ptr %qfuel")
            put(f"ret i64 {layout.END}")

    # ---- blocks --------------------------------------------------------------------------------------------------
    def _emit_block(self, block: Block) -> None:
        """Write a block; what proves not to be translatable is the reference engine's, and the rest is tried again."""
        lines = self.text.lines
        marks = (len(lines), len(self.tail), len(self.left), len(self.text.allocas))
        self._doubtful = set()
        while True:
            try:
                self._try_block(block)
                return
            except Untranslated:
                self._doubtful.add(self.index)
                self.text.lines = lines
                del lines[marks[0] :], self.tail[marks[1] :]
                del self.left[marks[2] :], self.text.allocas[marks[3] :]

    def _try_block(self, block: Block) -> None:
        self.block, self._ended = block, False
        self._open, self.cur, self.segment = Segment(), {}, ""
        self.mode = Mode.decode(block.place[1])
        self.environment = of_mode(block.place[1])
        self.text.start(self._labels[block.place])
        self._fuel(block)
        for index, node in enumerate(block.nodes):
            self.index = index
            if node.is_step or index in self._doubtful:
                self._close(index)
                self._leave(layout.STEP, node.insn.pc, index)
                return
            self._instruction(index, node)
        if not self._ended:
            self._close(len(block.nodes))
            self._go(block.next)

    def _fuel(self, block: Block) -> None:
        put, let = self.text.put, self.text.let
        have = let("load i64, ptr %fuel")
        if block.place in self.region.heads:
            on, out = self.text.fresh("on"), self.text.fresh("out")
            self._branch(let(f"icmp ult i64 {have}, {self._needs[block.place]}"), out, on)
            self.text.start(out)
            self.finish(layout.OUT_OF_FUEL, str(block.place[0]))
            self.text.start(on)
        put(f"store i64 {let(f'sub i64 {have}, {len(block.nodes)}')}, ptr %fuel")

    def _close(self, index: int) -> None:
        """Write the open segment; execution goes on with instruction `index` of the block."""
        segment, self._open = self._open, Segment()
        current = self.index
        live = self.liveness.before(self.block, index)
        # What is stored is stored under EXEC as it was.
        self.write(segment, index, live.anywhere() if EXEC in segment.masks else live)
        self.index = current  # the scalar instruction that had to wait for the segment may still leave

    def _instruction(self, index: int, node: Node) -> None:
        found = node.effects
        if found.hwreg_written is not None:  # MODE, and known: others are steps
            self._close(index)
            self.set_word(state.MODE, str(node.after))
            if of_mode(node.after) != self.environment:
                self.set_environment(of_mode(node.after))
        elif found.phases > 1:
            self._close(index)
            for self.phase in range(1, found.phases + 1):
                self._open.first = index
                self._open.add(node)
                self._close(index + 1)
            self.phase = 0
        elif found.lanes:
            if self._open.nodes and not self._open.takes(found):
                self._close(index)
            if not self._open.nodes:
                self._open.first = index
            self._open.add(node)
            if found.across or found.writes_exec:
                self._close(index + 1)
        else:
            if self._open.nodes and (found.flow != "next" or self._open.is_disturbed_by(found)):
                self._close(index)
            self.execute(self, node.insn)

    def _leave(self, code: int, pc: int, index: int) -> None:
        """Hand over before instruction `index` of the block: give back the fuel for it and what follows."""
        self.refund(len(self.block.nodes) - index)
        self.finish(code, str(pc))
        self._ended = True

    def _go(self, place: Place | None) -> None:
        """Go on at a place, in this region or elsewhere."""
        self._ended = True
        assert place is not None
        if place in self._labels:
            self.text.put(f"br label %{self._labels[place]}")
        else:
            self.finish(layout.JUMP, str(place[0]))

    def step_exit(self) -> str:
        """A label that hands the current scalar instruction to the reference engine."""
        label = self.text.fresh("step")
        kept, self.text.lines = self.text.lines, []
        now = self.text.label
        self.text.start(label)
        self.refund(len(self.block.nodes) - self.index)
        self.finish(layout.STEP, str(self.block.nodes[self.index].insn.pc))
        self.tail += self.text.lines
        self.text.lines, self.text.label = kept, now
        return label

    # ---- control ---------------------------------------------------------------------------------------------------
    def branch(self, c: Value, target: int) -> None:
        """Conditional branch."""
        yes, no = self._edge(target), self._edge(self._following())
        self._branch(self.text.bits(c), yes, no)
        self._ended = True

    def jump(self, target: int) -> None:
        """Unconditional branch."""
        self._go((target, self.block.nodes[-1].after))

    def jump_to(self, target: Value) -> None:
        """Computed branch."""
        self.finish(layout.JUMP, self.text.bits(self.and_(64, target, self.const(64, ~3))))
        self._ended = True

    def end(self) -> None:
        """The wave is done."""
        if self.liveness.observed is Observed.NEVER:
            self.text.put("br label %ended")
            self._ends = True
        else:
            self.finish(layout.END, str(self._following()))
        self._ended = True

    def barrier(self) -> None:
        """Wait for the others."""
        self.finish(layout.BARRIER, str(self._following()))
        self._ended = True

    def hint(self, what: str, n: int = 0) -> None:
        """A pause gives other waves their turn; the others that are translated do nothing."""
        if what == "sleep":
            self.finish(layout.SLEEP, str(self._following()))
            self._ended = True

    def _following(self) -> int:
        return self.block.nodes[-1].insn.next_pc

    def _edge(self, pc: int) -> str:
        place = (pc, self.block.nodes[-1].after)
        if place in self._labels:
            return self._labels[place]
        label = self.text.fresh("away")
        kept, self.text.lines = self.text.lines, []
        self.text.start(label)
        self.finish(layout.JUMP, str(pc))
        self.tail += self.text.lines
        self.text.lines = kept
        return label
