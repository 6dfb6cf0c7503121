"""Writing strips: loops over chunks of lanes, or one chunk after the other where a loop holds its registers."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.emit_algebra import Algebra
from understudy.engine.gcn.jit.emit_control import set_word
from understudy.engine.gcn.jit.float_control import FloatControl
from understudy.engine.gcn.jit.liveness import Live
from understudy.engine.gcn.jit.strip import Strip
from understudy.ir.builder import LaneText, Value
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.execute import execute
from understudy.isa.gcn.state import EXEC, LANES


@dataclass(slots=True)
class Resume:
    """What the reference engine needs to finish a strip: its instructions, and the masks it writes, in order."""

    insns: list[Insn]
    masks: list[int]


class StripEmitter:
    """Writes strips into the block that is being translated. `resumes` is what the reference engine needs for each."""

    def __init__(self, text: LaneText, algebra: Algebra) -> None:
        self.text = text
        self.algebra = algebra
        self.scalars = algebra.scalars
        self.vectors = algebra.vectors
        self.memory = algebra.memory
        self.control = algebra.control
        self.float_control: FloatControl = algebra.float_control
        self.resumes: list[Resume] = []

    def write(self, strip: Strip, index: int, live: Live) -> None:
        """Write a strip; execution goes on with instruction `index` of the block, `live` is so then."""
        if not strip.nodes:
            return
        now = self.float_control.now
        wanted = strip.environment.joined(now)
        if wanted is None:
            wanted = strip.environment.over(now)
            self.float_control.set(wanted)
        if strip.is_single:
            self._alone(strip)
        else:
            self._loop(strip, index, live)
        if wanted != now:
            self.float_control.set(now)

    def _alone(self, strip: Strip) -> None:
        """What the wave does itself, before its lanes."""
        self.vectors.begin(self.text.fresh("g"), writes=False)
        with self.scalars.strip():
            self._doing(strip)

    def _loop(self, strip: Strip, index: int, live: Live) -> None:
        text, vectors = self.text, self.vectors
        g = text.fresh("g")
        execmask = text.bits(self.scalars.whole(EXEC))
        vectors.begin(g, strip.is_across, strip.is_last)
        with self.scalars.strip():
            outer = text.taken()
            if vectors.loop is None:
                self._head(g, execmask)
                self._body(strip, live)
                text.put(f"br label %latch{g}")
            else:
                self._chunks(strip, live, execmask)
            body, text.lines = text.lines, outer
            for name in vectors.written_masks.values():
                text.allocas.append(f"%{name} = alloca i64")
                text.put(f"store i64 0, ptr %{name}")
            for n in sorted(vectors.dirty) if strip.is_across else ():
                text.allocas.append(f"%buf{g}_{n} = alloca [{LANES} x i32], align 64")
            for n in sorted(vectors.pushed):
                text.put(f"store <{LANES} x i32> zeroinitializer, ptr %buf{g}_{n}, align 64")
            if vectors.loop is None:
                text.put(f"br label %pre{g}")
                text.start(f"pre{g}")
                text.put(f"br label %loop{g}")
            text.lines += body
            if vectors.loop is None:
                self._end(g)
            self._leave(g, strip, index)
            if strip.is_across and vectors.dirty:
                self._second_loop(g, execmask, live)
        for n, name in vectors.written_masks.items():
            collected = Value(64, False, text.let(f"load i64, ptr %{name}"))
            self.scalars.set_s64(n, self.algebra.ints.and_(64, collected, Value(64, False, execmask)))

    def _head(self, g: str, execmask: str) -> None:
        text, lanes = self.text, self.text.lanes
        text.start(f"loop{g}")
        text.put(f"%c{g} = phi i64 [ 0, %pre{g} ], [ %n{g}, %latch{g} ]")
        text.put(f"%sh{g} = mul nuw nsw i64 %c{g}, {lanes}")
        text.put(f"%rb{g} = mul nuw nsw i64 %c{g}, {4 * lanes}")
        text.put(f"%row{g} = getelementptr i8, ptr %st, i64 %rb{g}")
        active = text.let(f"trunc i64 {text.let(f'lshr i64 {execmask}, %sh{g}')} to i{lanes}")
        if lanes < 16:  # worth it where vectors are narrow
            some = text.let(f"icmp eq i{lanes} {active}, 0")
            text.branch(some, f"latch{g}", f"do{g}")
            text.start(f"do{g}")
        text.put(f"%xm{g} = {text.mask_of(active)}")

    def _chunks(self, strip: Strip, live: Live, execmask: str) -> None:
        """Every chunk by itself, in a loop that holds its registers."""
        text, g, caches = self.text, self.vectors.label, self.memory.caches
        taken = caches.taken
        for number in range(LANES // text.lanes):
            label, first = f"{g}.{number}", number * text.lanes
            caches.taken = dict(taken)
            self.vectors.chunk(label, number)
            text.put(f"%sh{label} = add i64 0, {first}")
            active = text.let(f"trunc i64 {text.let(f'lshr i64 {execmask}, {first}')} to i{text.lanes}")
            text.put(f"%xm{label} = {text.mask_of(active)}")
            self._body(strip, live)
            if strip.loads or strip.stores:
                with text.apart(f"leave{label}"):
                    set_word(text, layout.LANE, str(first))
                    text.put(f"br label %leave{g}")

    def _body(self, strip: Strip, live: Live) -> None:
        """What a strip does to a chunk."""
        vectors = self.vectors
        self.memory.addresses.begin()
        self._doing(strip)
        if not strip.is_across:
            for n in self._lasting(live):
                value = self.text.bits(vectors.vectors[n], True)
                self._store_row(n, vectors.row(n), value, f"%xm{vectors.label}", live)

    def _doing(self, strip: Strip) -> None:
        for offset, node in enumerate(strip.nodes):
            self.control.index = self.control.block.nodes.index(node, strip.first + offset)
            self.memory.begin(strip.phase)
            execute(self.algebra, node.insn)
        self.memory.begin(0)

    def _lasting(self, live: Live) -> list[int]:
        """Registers that the strip has written and that somebody may read."""
        return [n for n in sorted(self.vectors.dirty) if live.active >> n & 1]

    def _store_row(self, n: int, at: str, value: str, mask: str, live: Live) -> None:
        """Write a chunk of a register. Lanes outside of `mask` keep what they hold where that may be read."""
        text, vectors = self.text, self.vectors
        how = ""
        if live.inactive >> n & 1:
            kind = text.itype(32, True)
            value = text.let(f"select {text.itype(1, True)} {mask}, {kind} {value}, {kind} {vectors.load_chunk(at)}")
            # Volatile, or it is made a masked store, which is slow and which no later load is forwarded from.
            how = "volatile " if vectors.loop is None else ""
        if vectors.loop is not None:
            vectors.loop.stored.add(n)
        vectors.store_chunk(value, at, how)

    def _end(self, g: str) -> None:
        text = self.text
        text.start(f"latch{g}")
        text.put(f"%n{g} = add nuw nsw i64 %c{g}, 1")
        more = text.let(f"icmp ult i64 %n{g}, {LANES // text.lanes}")
        text.branch(more, f"loop{g}", f"done{g}")
        text.start(f"done{g}")

    def _second_loop(self, g: str, execmask: str, live: Live) -> None:
        """Copy what an instruction that sees other lanes has computed."""
        text, x = self.text, f"x{g}"
        text.put(f"br label %pre{x}")
        text.start(f"pre{x}")
        text.put(f"br label %loop{x}")
        self._head(x, execmask)
        for n in self._lasting(live):
            kind = text.itype(32, True)
            source = text.let(f"getelementptr i8, ptr %buf{g}_{n}, i64 %rb{x}")
            value = text.let(f"load {kind}, ptr {source}, align {4 * text.lanes}")
            self._store_row(n, self.vectors.row(n, x), value, f"%xm{x}", live)
        text.put(f"br label %latch{x}")
        self._end(x)

    def _leave(self, g: str, strip: Strip, index: int) -> None:
        """Where a helper could not do its work: remember how far the strip is, and hand over behind it."""
        if not (strip.loads or strip.stores):
            return
        text, nodes, masks = self.text, self.control.block.nodes, self.vectors.written_masks
        if len(masks) > layout.PARTIALS:
            raise Untranslated
        with text.apart(f"leave{g}"):
            set_word(text, layout.SIDE_EXIT, str(len(self.resumes)))
            if self.vectors.loop is None:
                set_word(text, layout.LANE, f"%sh{g}")
            for k, name in enumerate(masks.values()):
                set_word(text, layout.PARTIAL + k, text.let(f"load i64, ptr %{name}"))
            behind = nodes[index].insn.pc if index < len(nodes) else nodes[-1].insn.next_pc
            self.control.hand_over(layout.RESUME, behind, index)
        self.resumes.append(Resume([node.insn for node in strip.nodes], list(masks)))
