"""Writing strips: loops over chunks of lanes, or one chunk after the other where a loop holds its registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.emit_algebra import Algebra
from understudy.engine.gcn.jit.emit_control import set_word
from understudy.engine.gcn.jit.emit_helpers import LIKELY
from understudy.engine.gcn.jit.emit_memory import Memory
from understudy.engine.gcn.jit.emit_registers import VectorFile
from understudy.engine.gcn.jit.emit_unmarked import leave_where_marked
from understudy.engine.gcn.jit.float_control import FloatControl
from understudy.engine.gcn.jit.liveness import Live
from understudy.engine.gcn.jit.strip import AHEAD, Strip
from understudy.ir.builder import LaneText, Value
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import EXEC, LANES


@dataclass(slots=True)
class Resume:
    """What the reference engine needs to finish a strip: its instructions, and the masks it writes, in order."""

    insns: list[Insn]
    masks: list[int]
    twins: list[list[int]] = field(default_factory=list)
    """The masks of each twin."""
    is_counted: bool = False
    """Whether marks that matter were counted, ahead of its phases."""


class StripEmitter:
    """Writes strips into the block that is being translated. `resumes` is what the reference engine needs for each."""

    def __init__(self, text: LaneText, algebra: Algebra, perform: Callable[[Insn], None]) -> None:
        self.text = text
        self.algebra = algebra
        self.perform = perform
        self.twins = algebra.twins
        self.unmarked = algebra.unmarked
        self.counts = algebra.counts
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
        g = self.text.fresh("g")
        for each in self._files:
            each.begin(g, writes=False)
        with self._in_strip():
            self._doing(strip)

    def _loop(self, strip: Strip, index: int, live: Live) -> None:
        text, vectors = self.text, self.vectors
        g = text.fresh("g")
        execmask = text.bits(self.scalars.whole(EXEC))
        if self.memory.races is not None and (strip.loads or strip.stores):
            self.memory.races.begin_strip(execmask, strip.stores)
        for each in self._files:
            each.begin(g, strip.is_across, strip.is_last)
        self.counts.begin_strip()
        with self._in_strip():
            outer = text.taken()
            if vectors.loop is None:
                self._head(g, execmask)
                self._body(strip, live)
                text.put(f"br label %latch{g}")
            else:
                text.start(f"chunks{g}")
                self._chunks(strip, live, execmask)
            body, text.lines = text.lines, outer
            for each in self._files:
                self._variables(each)
            self.counts.variables()
            is_early = self._look_ahead(g)
            if vectors.loop is None:
                text.put(f"br label %pre{g}")
                text.start(f"pre{g}")
                text.put(f"br label %loop{g}")
            else:
                text.put(f"br label %chunks{g}")
            text.lines += body
            if vectors.loop is None:
                self._end(g)
            self._leave(g, strip, index, is_early)
            if strip.phase == AHEAD:
                self.counts.end_strip(f"ahead{g}")
            if strip.is_across and vectors.dirty:
                self._second_loop(g, execmask, live)
        for twin in self.unmarked:
            twin.scalars.know()
        for file in self._files:
            for n, name in file.written_masks.items():
                collected = Value(64, False, text.let(f"load i64, ptr %{name}"))
                file.scalars.set_s64(n, self.algebra.ints.and_(64, collected, Value(64, False, execmask)))

    @property
    def _files(self) -> list[VectorFile]:
        """The wave's vector registers, and those of its twins."""
        return [self.vectors, *(each.vectors for each in self.twins)]

    @property
    def _memories(self) -> list[Memory]:
        """The wave's memory, and those of its twins."""
        return [self.memory, *(each.memory for each in self.twins)]

    @contextmanager
    def _in_strip(self) -> Iterator[None]:
        """A loop is written in here."""
        with ExitStack() as stack:
            for file in self._files:
                stack.enter_context(file.scalars.strip())
            yield

    def _variables(self, file: VectorFile) -> None:
        """What a strip collects beside registers."""
        text = self.text
        for name in file.written_masks.values():
            text.allocas.append(f"%{name} = alloca i64")
            text.put(f"store i64 0, ptr %{name}")
        for n in sorted(file.dirty) if file.is_across else ():
            text.allocas.append(f"{file.buffer(n)} = alloca [{LANES} x i32], align 64")
        for n in sorted(file.pushed):
            text.put(f"store <{LANES} x i32> zeroinitializer, ptr {file.buffer(n)}, align 64")

    def _head(self, g: str, execmask: str) -> None:
        text, lanes = self.text, self.text.lanes
        text.start(f"loop{g}")
        text.put(f"%c{g} = phi i64 [ 0, %pre{g} ], [ %n{g}, %latch{g} ]")
        text.put(f"%sh{g} = mul nuw nsw i64 %c{g}, {lanes}")
        text.put(f"%rb{g} = mul nuw nsw i64 %c{g}, {4 * lanes}")
        for file in self._files:
            text.put(f"{file.rows(g)} = getelementptr i8, ptr {file.home.state}, i64 %rb{g}")
        active = text.let(f"trunc i64 {text.let(f'lshr i64 {execmask}, %sh{g}')} to i{lanes}")
        if lanes < 16:  # worth it where vectors are narrow
            some = text.let(f"icmp eq i{lanes} {active}, 0")
            text.branch(some, f"latch{g}", f"do{g}")
            text.start(f"do{g}")
        text.put(f"%xm{g} = {text.mask_of(active)}")

    def _chunks(self, strip: Strip, live: Live, execmask: str) -> None:
        """Every chunk by itself, in a loop that holds its registers."""
        text, g = self.text, self.vectors.label
        caches = [each.caches for each in self._memories]
        taken = [each.taken for each in caches]
        for number in range(LANES // text.lanes):
            label, first = f"{g}.{number}", number * text.lanes
            for cache, before in zip(caches, taken, strict=True):
                cache.taken = dict(before)
            for file in self._files:
                file.chunk(label, number)
            text.put(f"%sh{label} = add i64 0, {first}")
            active = text.let(f"trunc i64 {text.let(f'lshr i64 {execmask}, {first}')} to i{text.lanes}")
            text.put(f"%xm{label} = {text.mask_of(active)}")
            self._body(strip, live)
            if strip.loads or strip.stores or self.vectors.leaves:
                with text.apart(f"leave{label}"):
                    set_word(text, layout.LANE, str(first))
                    text.put(f"br label %leave{g}")

    def _body(self, strip: Strip, live: Live) -> None:
        """What a strip does to a chunk."""
        self.counts.begin_chunk()
        self.memory.addresses.begin()
        if self.memory.races is not None:
            self.memory.races.begin_chunk()
        for each in self.twins:
            each.begin()
        self.memory.contiguous.marks = ""
        self._doing(strip)
        if self.unmarked:
            leave_where_marked(self.text, self.vectors, self.memory.contiguous)
        if self.memory.races is not None:
            self.memory.races.end_chunk()
        self.counts.end_chunk()
        for file in self._files if not strip.is_across else ():
            for n in self._lasting(file, live):
                value = self.text.bits(file.vectors[n], True)
                self._store_row(file, n, file.row(n), value, f"%xm{file.label}", live)
        for each in self.twins:
            each.begin()

    def _doing(self, strip: Strip) -> None:
        for offset, node in enumerate(strip.nodes):
            self.control.index = self.control.block.nodes.index(node, strip.first + offset)
            for memory in self._memories:
                memory.begin(strip.phase)
            self.perform(node.insn)
        for memory in self._memories:
            memory.begin(0)

    def _lasting(self, file: VectorFile, live: Live) -> list[int]:
        """Registers that the strip has written and that somebody may read."""
        return [n for n in sorted(file.dirty) if live.active >> n & 1]

    def _store_row(self, vectors: VectorFile, n: int, at: str, value: str, mask: str, live: Live) -> None:
        """Write a chunk of a register. Lanes outside of `mask` keep what they hold where that may be read."""
        text, how = self.text, ""
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
        for file in self._files:
            for n in self._lasting(file, live):
                kind = text.itype(32, True)
                source = text.let(f"getelementptr i8, ptr {file.buffer(n, g)}, i64 %rb{x}")
                value = text.let(f"load {kind}, ptr {source}, align {4 * text.lanes}")
                self._store_row(file, n, file.row(n, x), value, f"%xm{x}", live)
        text.put(f"br label %latch{x}")
        self._end(x)

    def _look_ahead(self, g: str) -> bool:
        """Leave before the loop where scalar registers that were taken for unmarked are not; whether any were."""
        text, marked = self.text, [each for twin in self.unmarked for each in twin.scalars.looked_at()]
        if marked:
            any_, on = marked[0], text.fresh("on")
            for each in marked[1:]:
                any_ = text.let(f"or i1 {any_}, {each}")
            text.branch(text.let(f"icmp eq i1 {any_}, 0"), on, f"early{g}", LIKELY)
            text.start(on)
        return bool(marked)

    def _leave(self, g: str, strip: Strip, index: int, is_early: bool) -> None:
        """Where a helper could not do its work: remember how far the strip is, and hand over behind it.

        `is_early`: it may also be left before its first chunk, because of marks.
        """
        if not (strip.loads or strip.stores or self.vectors.leaves or is_early):
            return
        text, nodes, masks = self.text, self.control.block.nodes, self.vectors.written_masks
        twins = [each.vectors.written_masks for each in self.twins]
        if max(map(len, (masks, *twins))) > layout.PARTIALS:
            raise Untranslated
        behind = nodes[index].insn.pc if index < len(nodes) else nodes[-1].insn.next_pc
        if is_early:
            with text.apart(f"early{g}"):
                set_word(text, layout.UNMARKED, str(layout.MET))
                set_word(text, layout.SIDE_EXIT, str(len(self.resumes)))
                set_word(text, layout.LANE, "0")
                self.control.hand_over(layout.RESUME, behind, index)
        with text.apart(f"leave{g}"):
            set_word(text, layout.SIDE_EXIT, str(len(self.resumes)))
            if self.vectors.loop is None:
                set_word(text, layout.LANE, f"%sh{g}")
            for k, name in enumerate(masks.values()):
                set_word(text, layout.PARTIAL + k, text.let(f"load i64, ptr %{name}"))
            for each in self.twins:
                for k, name in enumerate(each.vectors.written_masks.values()):
                    state = each.vectors.home.state
                    set_word(text, layout.PARTIAL + k, text.let(f"load i64, ptr %{name}"), state)
            self.control.hand_over(layout.RESUME, behind, index)
        insns = [node.insn for node in strip.nodes]
        self.resumes.append(Resume(insns, list(masks), [list(each) for each in twins], strip.phase > 0))
