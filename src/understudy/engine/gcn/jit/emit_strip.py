"""Segments: vector instructions written together as one loop over chunks of lanes.

A segment ends

- before what reads a mask or register that it writes, or writes one that it reads; before what writes EXEC;
- between a store and any other access to the same memory: the loop runs all of it for one chunk before the next;
- around what sees other lanes, and where the float environment of the host has to change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.effects import Effects, Environment, meet
from understudy.engine.gcn.jit.emit_float import Untranslated
from understudy.engine.gcn.jit.emit_memory import MemoryEmitter
from understudy.engine.gcn.jit.emit_wave import REGISTERS
from understudy.engine.gcn.jit.liveness import Live
from understudy.engine.gcn.jit.region import Block, Node
from understudy.ir.builder import Text, Value
from understudy.ir.llvm import is_x86
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import EXEC, FLAT_SCRATCH, LANES, Mode


def _pairs(firsts: set[int]) -> set[int]:
    return firsts | {n + 1 for n in firsts}


MXCSR_MASKED: Final = 0x1F80
"""All exceptions masked."""
MXCSR_ROUNDING: Final = (0, 2, 1, 3)
"""The host's number of each of MODE's roundings."""
SAYING_WHERE: Final = _pairs(set(FLAT_SCRATCH.values()))
"""Registers that say where flat private memory lies."""
DEFAULT: Final = Environment(False, False, 0)


@dataclass(slots=True)
class Segment:
    """Vector instructions to be written as one loop."""

    nodes: list[Node] = field(default_factory=list)
    first: int = 0
    reads: set[int] = field(default_factory=set)
    """Scalar registers that are read, as such or as masks."""
    masks: set[int] = field(default_factory=set)
    """Scalar registers that are written, as masks."""
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    environment: Environment = field(default_factory=Environment)
    is_across: bool = False
    is_atomic: bool = False
    """Nothing that might leave the segment may follow: finishing it begins anew with the first instruction."""
    reads_scc: bool = False

    def add(self, node: Node) -> None:
        """Take in one more."""
        found = node.effects
        self.nodes.append(node)
        self.reads |= found.s_reads | _pairs(found.mask_reads)
        if "flat" in found.loads | found.stores:
            self.reads |= SAYING_WHERE
        self.masks |= _pairs(found.mask_writes)
        self.loads |= found.loads
        self.stores |= found.stores
        self.is_across |= found.across
        self.is_atomic |= found.atomic
        self.reads_scc |= found.reads_scc
        joined = self.environment.joined(found.environment or DEFAULT)
        assert joined is not None
        self.environment = joined

    def takes(self, found: Effects) -> bool:
        """Whether one more may be added."""
        if self.is_across or found.across or (self.is_atomic and found.memory):
            return False
        if found.s_reads & self.masks or EXEC in self.masks:
            return False
        if any(n not in self._whole_masks() for n in found.mask_reads if _pairs({n}) & self.masks):
            return False
        if _clash(found.stores, self.loads | self.stores) or _clash(found.loads, self.stores):
            return False
        return self.environment.joined(found.environment or DEFAULT) is not None

    def _whole_masks(self) -> set[int]:
        return {n for node in self.nodes for n in node.effects.mask_writes}

    def is_disturbed_by(self, found: Effects) -> bool:
        """Whether a scalar instruction must wait for the segment."""
        writes = found.s_writes | _pairs(found.mask_writes)
        return bool(
            (found.s_reads | _pairs(found.mask_reads)) & self.masks
            or writes & (self.reads | self.masks)
            or (found.writes_scc and self.reads_scc)
            or found.writes_exec
            or found.across
            or found.memory
        )


@dataclass(slots=True)
class Left:
    """What the reference engine needs to finish a segment: its instructions, and the masks it writes, in order."""

    insns: list[Insn]
    masks: list[int]


class SegmentEmitter(MemoryEmitter):
    """Writes segments into the block that is being translated.

    `left` is what the reference engine needs for each, `allocas` and `tail` are lines for head and end of the function.
    """

    execute: Callable[[Any, Insn], None]
    block: Block
    environment: Environment
    live: Live

    def __init__(self, text: Text) -> None:
        super().__init__(text)
        self.left: list[Left] = []
        self.tail: list[str] = []

    def finish(self, code: int, pc: str) -> None:
        """Hand over to the dispatcher: exit code, and the pc to go on at."""
        self.text.put(f"store i64 {code}, ptr %codev")
        self.text.put(f"store i64 {pc}, ptr %pcv")
        self.text.put("br label %exit")

    def refund(self, count: int) -> None:
        """Give back the fuel for the last `count` instructions of the block, which were paid ahead."""
        if count:
            have = self.text.let("load i64, ptr %fuel")
            self.text.put(f"store i64 {self.text.let(f'add i64 {have}, {count}')}, ptr %fuel")

    # ---- float environment -----------------------------------------------------------------------------------------
    def set_environment(self, wanted: Environment) -> None:
        """Set the host's float control, if it is not what this block has."""
        if not is_x86():
            if wanted != DEFAULT:
                raise Untranslated
            return
        control = MXCSR_MASKED | bool(wanted.daz) << 6 | bool(wanted.ftz) << 15
        control |= MXCSR_ROUNDING[wanted.rounding or 0] << 13
        at = f"csr{control}"
        line = f"%{at} = alloca i32"
        if line not in self.text.allocas:
            self.text.allocas.append(line)
        self.text.put(f"store i32 {control}, ptr %{at}")
        self.text.call_void("llvm.x86.sse.ldmxcsr", f"ptr %{at}")

    # ---- segments --------------------------------------------------------------------------------------------------
    def write(self, segment: Segment, index: int, live: Live) -> None:
        """Write a segment; execution goes on with instruction `index` of the block, `live` is so then."""
        if not segment.nodes:
            return
        self.live = live
        wanted = segment.environment.joined(self.environment)
        if wanted is None:
            wanted = segment.environment.over(self.environment)
            self.set_environment(wanted)
        self._loop(segment, index)
        if wanted != self.environment:
            self.set_environment(self.environment)

    def _loop(self, segment: Segment, index: int) -> None:
        text, _lanes = self.text, self.text.lanes
        g = self.segment = text.fresh("g")
        self.is_across = segment.is_across
        self.vectors, self.masks, self.written_masks, self.dirty = {}, {}, {}, set()
        self.checked = {}
        execmask = text.bits(self._variable("exec", "i64"))
        before = dict(self.cur)
        outer, text.lines = text.lines, []
        self._loop_head(g, "", execmask)
        self._doing(segment)
        if not self.is_across:
            self._commit()
        text.put(f"br label %latch{g}")
        body, text.lines = text.lines, outer
        for name in self.written_masks.values():
            self.text.allocas.append(f"%{name} = alloca i64")
            text.put(f"store i64 0, ptr %{name}")
        for n in sorted(self.dirty) if self.is_across else ():
            self.text.allocas.append(f"%buf{g}_{n} = alloca [{LANES} x i32], align 64")
        text.put(f"br label %pre{g}")
        text.start(f"pre{g}")
        text.put(f"br label %loop{g}")
        text.lines += body
        self._loop_end(g)
        self._leave_segment(g, segment, index)
        if self.is_across and self.dirty:
            self._second_loop(execmask)
        self.cur, self.segment, self.is_across = before, "", False
        for n, name in self.written_masks.items():
            collected = Value(64, False, text.let(f"load i64, ptr %{name}"))
            self.set_s64(n, self.and_(64, collected, Value(64, False, execmask)))

    def _loop_head(self, g: str, part: str, execmask: str) -> None:
        text, lanes = self.text, self.text.lanes
        text.start(f"loop{part}{g}")
        text.put(f"%c{part}{g} = phi i64 [ 0, %pre{part}{g} ], [ %n{part}{g}, %latch{part}{g} ]")
        text.put(f"%sh{part}{g} = mul nuw nsw i64 %c{part}{g}, {lanes}")
        text.put(f"%rb{part}{g} = mul nuw nsw i64 %c{part}{g}, {4 * lanes}")
        text.put(f"%row{part}{g} = getelementptr i8, ptr %st, i64 %rb{part}{g}")
        active = text.let(f"trunc i64 {text.let(f'lshr i64 {execmask}, %sh{part}{g}')} to i{lanes}")
        if lanes < 16:  # worth it where vectors are narrow
            some = text.let(f"icmp eq i{lanes} {active}, 0")
            text.put(f"br i1 {some}, label %latch{part}{g}, label %do{part}{g}")
            text.start(f"do{part}{g}")
        text.put(f"%xm{part}{g} = {text.mask_of(active)}")

    def _doing(self, segment: Segment) -> None:
        for offset, node in enumerate(segment.nodes):
            self.index = self.block.nodes.index(node, segment.first + offset)
            self.stores_seen = 0
            self.execute(self, node.insn)

    def _commit(self) -> None:
        """Registers that the segment has written go to memory, as far as somebody may read them."""
        for n in self._lasting():
            self._store_row(n, self.row(n), self.text.bits(self.vectors[n], True), f"%xm{self.segment}")

    def _lasting(self) -> list[int]:
        return [n for n in sorted(self.dirty) if self.live.active >> n & 1]

    def _store_row(self, n: int, at: str, value: str, mask: str) -> None:
        """Write a chunk of a register. Lanes outside of `mask` keep what they hold where that may be read."""
        text = self.text
        kind, attributes = text.itype(32, True), f"align {4 * text.lanes}{REGISTERS}"
        if self.live.inactive >> n & 1:
            kept = text.let(f"load {kind}, ptr {at}, {attributes}")
            value = text.let(f"select {text.itype(1, True)} {mask}, {kind} {value}, {kind} {kept}")
            # Volatile, or it is made a masked store, which is slow and which no later load is forwarded from.
            text.put(f"store volatile {kind} {value}, ptr {at}, {attributes}")
        else:
            text.put(f"store {kind} {value}, ptr {at}, {attributes}")

    def _loop_end(self, g: str, part: str = "") -> None:
        text = self.text
        text.start(f"latch{part}{g}")
        text.put(f"%n{part}{g} = add nuw nsw i64 %c{part}{g}, 1")
        more = text.let(f"icmp ult i64 %n{part}{g}, {LANES // text.lanes}")
        text.put(f"br i1 {more}, label %loop{part}{g}, label %done{part}{g}")
        text.start(f"done{part}{g}")

    def _second_loop(self, execmask: str) -> None:
        """Copy what an instruction that sees other lanes has computed."""
        text, g = self.text, self.segment
        text.put(f"br label %prex{g}")
        text.start(f"prex{g}")
        text.put(f"br label %loopx{g}")
        self._loop_head(g, "x", execmask)
        for n in self._lasting():
            kind = text.itype(32, True)
            source = text.let(f"getelementptr i8, ptr %buf{g}_{n}, i64 %rbx{g}")
            value = text.let(f"load {kind}, ptr {source}, align {4 * text.lanes}")
            at = text.let(f"getelementptr i8, ptr %rowx{g}, i64 {LANES * 4 * n}")
            self._store_row(n, at, value, f"%xmx{g}")
        text.put(f"br label %latchx{g}")
        self._loop_end(g, "x")

    def _leave_segment(self, g: str, segment: Segment, index: int) -> None:
        """Where a helper could not do its work: remember how far the segment is, and hand over behind it."""
        if not (segment.loads or segment.stores):
            return
        text, block = self.text, self.block
        masks = list(self.written_masks)
        if len(masks) > layout.PARTIALS:
            raise Untranslated
        kept, text.lines, now = text.lines, [], text.label
        text.start(f"leave{g}")
        self.set_word(layout.SEGMENT, str(len(self.left)))
        self.set_word(layout.LANE, f"%sh{g}")
        for k, n in enumerate(masks):
            self.set_word(layout.PARTIAL + k, text.let(f"load i64, ptr %{self.written_masks[n]}"))
        self.refund(len(block.nodes) - index)
        behind = block.nodes[index].insn.pc if index < len(block.nodes) else block.nodes[-1].insn.next_pc
        self.finish(layout.RESUME, str(behind))
        self.tail += text.lines
        text.lines, text.label = kept, now
        self.left.append(Left([node.insn for node in segment.nodes], masks))


def of_mode(bits: int) -> Environment:
    """The host's setting that binary32 needs under MODE."""
    mode = Mode.decode(bits)
    inputs, results = mode.keeps("s")
    return Environment(not inputs, not results, mode.round32)


def _clash(some: set[str], others: set[str]) -> bool:
    """Whether accesses to these spaces may meet."""
    return any(meet(a, b) for a in some for b in others)
