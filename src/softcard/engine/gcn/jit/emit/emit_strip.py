"""The emitter of strip-mined loops, each iteration of which handles one vector of lanes.

Inside register-resident loops, the strip-mined loops are unrolled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.emit.emit_algebra import Algebra
from softcard.engine.gcn.jit.emit.emit_clean import exit_where_shadowed
from softcard.engine.gcn.jit.emit.emit_control import set_word
from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY
from softcard.engine.gcn.jit.emit.emit_memory import Memory
from softcard.engine.gcn.jit.emit.emit_registers import VectorFile
from softcard.engine.gcn.jit.float_control import FloatControl
from softcard.engine.gcn.jit.liveness import Live
from softcard.engine.gcn.jit.strip import PROLOGUE, Strip
from softcard.ir.builder import LaneText, Value
from softcard.ir.operand import Operand
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import EXEC, LANES


@dataclass(slots=True)
class Resume:
    """The data with which the reference engine completes a strip-mined loop after a side exit.

    It has the loop's instructions, and the lane masks that the loop writes, in order.
    """

    insns: list[Insn]
    masks: list[int]
    shadows: list[list[int]] = field(default_factory=list)
    """The lane masks of the shadow registers that the loop writes, for each kind of shadow."""
    is_counted: bool = False
    """True if uses of values with a shadow were counted in the prologue of a loop with several passes."""


class StripEmitter:
    """The emitter of strip-mined loops into the block that is being translated.

    `resumes` has, for each loop, the data with which the reference engine completes it after a side exit.
    """

    def __init__(self, text: LaneText, algebra: Algebra, perform: Callable[[Insn], None]) -> None:
        self.text = text
        self.algebra = algebra
        self.perform = perform
        self.shadows = algebra.shadows
        self.clean = algebra.clean
        self.counts = algebra.counts
        self.scalars = algebra.scalars
        self.vectors = algebra.vectors
        self.memory = algebra.memory
        self.control = algebra.control
        self.float_control: FloatControl = algebra.float_control
        self.resumes: list[Resume] = []

    def write(self, strip: Strip, index: int, live: Live) -> None:
        """Emit vector instructions as a strip-mined loop, before instruction `index` of the block.

        `live` is the liveness of registers after the loop.
        """
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
        """Emit a strip with a single access of the whole wave. It needs no loop over lanes."""
        g = self.text.fresh("g")
        for each in self._files:
            each.begin(g, writes=False)
        with self._in_strip():
            self._doing(strip)

    def _loop(self, strip: Strip, index: int, live: Live) -> None:
        text, vectors = self.text, self.vectors
        g = text.fresh("g")
        execmask = text.bits(self.scalars.whole(EXEC))
        if self.memory.hooks is not None and (strip.loads or strip.stores):
            self.memory.hooks.begin_strip(execmask, strip.stores)
        for each in self._files:
            each.begin(g, strip.is_across, strip.is_last)
        self.counts.begin_strip()
        with self._in_strip():
            outer = text.taken()
            if vectors.loop is None:
                self._head(g, execmask)
                self._body(strip, live)
                text.jump(f"latch{g}")
            else:
                text.start(f"chunks{g}")
                self._chunks(strip, live, execmask)
            body, text.lines = text.lines, outer
            for each in self._files:
                self._variables(each)
            self.counts.variables()
            is_early = self._check_assumptions(g)
            if vectors.loop is None:
                text.jump(f"pre{g}")
                text.start(f"pre{g}")
                text.jump(f"loop{g}")
            else:
                text.jump(f"chunks{g}")
            text.lines += body
            if vectors.loop is None:
                self._end(g)
            self._leave(g, strip, index, is_early)
            if strip.phase == PROLOGUE:
                self.counts.end_strip(f"ahead{g}")
            if strip.is_across and vectors.dirty:
                self._second_loop(g, execmask, live)
        for shadow in self.clean:
            shadow.scalars.know()
        for file in self._files:
            for n, name in file.written_masks.items():
                collected = Value(64, False, text.pointer(f"%{name}").load("i64"))
                file.scalars.set_s64(n, self.algebra.ints.and_(64, collected, Value(64, False, execmask)))

    @property
    def _files(self) -> list[VectorFile]:
        """The wave's vector registers, and its shadow registers of each kind."""
        return [self.vectors, *(each.vectors for each in self.shadows)]

    @property
    def _memories(self) -> list[Memory]:
        """The wave's memory, and its shadow memory of each kind."""
        return [self.memory, *(each.memory for each in self.shadows)]

    @contextmanager
    def _in_strip(self) -> Iterator[None]:
        """Return a context in which a strip-mined loop is emitted."""
        with ExitStack() as stack:
            for file in self._files:
                stack.enter_context(file.scalars.strip())
            yield

    def _variables(self, file: VectorFile) -> None:
        """Emit the variables of a strip-mined loop other than registers.

        They are the lane masks that the loop collects, and the buffers of results.
        """
        text = self.text
        for name in file.written_masks.values():
            text.slot(f"%{name}", "i64").store(0)
        for n in sorted(file.dirty) if file.is_across else ():
            text.slot(file.buffer(n), f"[{LANES} x i32]", ", align 64")
        for n in sorted(file.pushed):
            file.buffer(n).store(0, type=f"<{LANES} x i32>", align=64)

    def _head(self, g: str, execmask: Operand) -> None:
        text, lanes = self.text, self.text.lanes
        text.start(f"loop{g}")
        text.named(f"%c{g}", text.phi("i64", (0, f"pre{g}"), (text.word(f"%n{g}"), f"latch{g}")))
        text.named(f"%sh{g}", text.word(f"%c{g}").binary("mul nuw nsw", lanes))
        text.named(f"%rb{g}", text.word(f"%c{g}").binary("mul nuw nsw", 4 * lanes))
        for file in self._files:
            text.named(file.rows(g), file.state.offset(text.word(f"%rb{g}")))
        active = (execmask >> text.word(f"%sh{g}")).trunc(f"i{lanes}")
        if lanes < 16:  # worthwhile if vectors are narrow
            some = active.eq(0)
            text.branch(some, f"latch{g}", f"do{g}")
            text.start(f"do{g}")
        text.named(f"%xm{g}", text.mask_of(active))

    def _chunks(self, strip: Strip, live: Live, execmask: Operand) -> None:
        """Emit the strip for each lane vector separately, without a loop, inside a register-resident loop.

        `execmask` is EXEC.
        """
        text, g = self.text, self.vectors.label
        caches = [each.caches for each in self._memories]
        taken = [each.taken for each in caches]
        for number in range(LANES // text.lanes):
            label, first = f"{g}.{number}", number * text.lanes
            for cache, before in zip(caches, taken, strict=True):
                cache.taken = dict(before)
            for file in self._files:
                file.chunk(label, number)
            text.named(f"%sh{label}", text.word(0) + first)
            active = (execmask >> first).trunc(f"i{text.lanes}")
            text.named(f"%xm{label}", text.mask_of(active))
            self._body(strip, live)
            if strip.loads or strip.stores or self.vectors.leaves:
                with text.apart(f"leave{label}"):
                    set_word(text, layout.LANE, first)
                    text.jump(f"leave{g}")

    def _body(self, strip: Strip, live: Live) -> None:
        """Emit the instructions of a strip-mined loop for one iteration, which handles one vector of lanes."""
        self.counts.begin_chunk()
        self.memory.addresses.begin()
        if self.memory.hooks is not None:
            self.memory.hooks.begin_chunk()
        for each in self.shadows:
            each.begin()
        self.memory.contiguous.shadows = None
        self._doing(strip)
        if self.clean:
            exit_where_shadowed(self.text, self.vectors, self.memory.contiguous)
        if self.memory.hooks is not None:
            self.memory.hooks.end_chunk()
        self.counts.end_chunk()
        for file in self._files if not strip.is_across else ():
            for n in self._lasting(file, live):
                value = self.text.bits(file.vectors[n], True)
                self._store_row(file, n, file.row(n), value, self._mask(file.label), live)
        for each in self.shadows:
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
        """Return the registers that the loop has written and that are live after it."""
        return [n for n in sorted(file.dirty) if live.active >> n & 1]

    def _mask(self, label: str) -> Operand:
        """Return the mask of a lane vector's lanes that are in EXEC, in the loop `label`."""
        return self.text.operand(self.text.itype(1, True), f"%xm{label}")

    def _store_row(self, vectors: VectorFile, n: int, at: Operand, value: Operand, mask: Operand, live: Live) -> None:
        """Emit the store of `value`, a lane vector of register n, to address `at`.

        Lanes outside of `mask` keep their old values if the register may be read later in these lanes."""
        is_volatile = False
        if live.inactive >> n & 1:
            value = mask.select(value, vectors.load_chunk(at))
            # Volatile, or LLVM makes it a masked store, which is slow and from which no later load is forwarded.
            is_volatile = vectors.loop is None
        if vectors.loop is not None:
            vectors.loop.stored.add(n)
        vectors.store_chunk(value, at, is_volatile)

    def _end(self, g: str) -> None:
        text = self.text
        text.start(f"latch{g}")
        text.named(f"%n{g}", text.word(f"%c{g}").binary("add nuw nsw", 1))
        more = text.word(f"%n{g}") < LANES // text.lanes
        text.branch(more, f"loop{g}", f"done{g}")
        text.start(f"done{g}")

    def _second_loop(self, g: str, execmask: Operand, live: Live) -> None:
        """Emit a second loop, after the loop `g`, that copies buffered results to registers.

        It is needed after an instruction that reads other lanes."""
        text, x = self.text, f"x{g}"
        text.jump(f"pre{x}")
        text.start(f"pre{x}")
        text.jump(f"loop{x}")
        self._head(x, execmask)
        for file in self._files:
            for n in self._lasting(file, live):
                kind = text.itype(32, True)
                source = file.buffer(n, g).offset(text.word(f"%rb{x}"))
                value = source.load(kind, align=4 * text.lanes)
                self._store_row(file, n, file.row(n, x), value, self._mask(x), live)
        text.jump(f"latch{x}")
        self._end(x)

    def _check_assumptions(self, g: str) -> bool:
        """Emit a side exit before the loop `g`, taken if a register that was assumed defined has a shadow.

        Only scalar registers are tested. Return True if any register was assumed defined.
        """
        text, shadowed = self.text, [each for shadow in self.clean for each in shadow.scalars.assumptions()]
        if shadowed:
            any_, on = shadowed[0], text.fresh("on")
            for each in shadowed[1:]:
                any_ = any_ | each
            text.branch(any_.eq(0), on, f"early{g}", LIKELY)
            text.start(on)
        return bool(shadowed)

    def _leave(self, g: str, strip: Strip, index: int, is_early: bool) -> None:
        """Emit the side exit of the loop `g`: record its progress, and exit to the reference engine.

        The reference engine completes the loop. `is_early` states that the loop may also exit before its first lane
        vector, because of a shadow. `index` is the index of the instruction after the loop."""
        if not (strip.loads or strip.stores or self.vectors.leaves or is_early):
            return
        text, nodes, masks = self.text, self.control.block.nodes, self.vectors.written_masks
        shadows = [each.vectors.written_masks for each in self.shadows]
        if max(map(len, (masks, *shadows))) > layout.PARTIALS:
            raise Untranslated
        resume_pc = nodes[index].insn.pc if index < len(nodes) else nodes[-1].insn.next_pc
        if is_early:
            with text.apart(f"early{g}"):
                set_word(text, layout.CLEAN, layout.MET)
                set_word(text, layout.SIDE_EXIT, len(self.resumes))
                set_word(text, layout.LANE, 0)
                self.control.hand_over(layout.RESUME, resume_pc, index)
        with text.apart(f"leave{g}"):
            set_word(text, layout.SIDE_EXIT, len(self.resumes))
            if self.vectors.loop is None:
                set_word(text, layout.LANE, text.word(f"%sh{g}"))
            for k, name in enumerate(masks.values()):
                set_word(text, layout.PARTIAL + k, text.pointer(f"%{name}").load("i64"))
            for each in self.shadows:
                for k, name in enumerate(each.vectors.written_masks.values()):
                    state = each.vectors.state
                    set_word(text, layout.PARTIAL + k, text.pointer(f"%{name}").load("i64"), state)
            self.control.hand_over(layout.RESUME, resume_pc, index)
        insns = [node.insn for node in strip.nodes]
        self.resumes.append(Resume(insns, list(masks), [list(each) for each in shadows], strip.phase > 0))
