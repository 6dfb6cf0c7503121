"""From guest code to what it runs as, where nothing is kept: programs of handlers, and optimised regions."""

from __future__ import annotations

import hashlib
from collections.abc import Set

import numpy as np

from understudy.core.checks import LANES, RACES
from understudy.core.errors import GuestFault
from understudy.engine.gcn.jit.basics import BlockKey, CompileIr, Fetch, Observed, Untranslated
from understudy.engine.gcn.jit.cache_record import from_record, record_key, to_record
from understudy.engine.gcn.jit.emit_region import RegionEmitter
from understudy.engine.gcn.jit.emit_unmarked import named
from understudy.engine.gcn.jit.liveness import Liveness
from understudy.engine.gcn.jit.outline import Outline
from understudy.engine.gcn.jit.region import CHECKED_LIMIT, LIMIT, Node, Region, discover, node_of
from understudy.engine.gcn.jit.spans import Spans, joined
from understudy.engine.gcn.jit.translation import Compiled
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.threaded.builder import build_program
from understudy.engine.gcn.threaded.draft import Draft
from understudy.engine.gcn.threaded.flow import Flow, flow_of
from understudy.engine.gcn.threaded.library import Library
from understudy.ir import llvm
from understudy.ir.object_cache import ObjectCache
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.target import Target


class Translator:
    """Translates regions of one processor for chunks of `lanes` lanes, with `kinds` of marks.

    With races among the kinds, accesses of memory and what orders them are the reference engine's.

    `apart`: programs count each instruction. `limit`: the address from which on nothing is translated.
    """

    def __init__(
        self,
        target: Target,
        library: Library,
        cache: ObjectCache,
        observed: Observed,
        kinds: tuple[str, ...] = (),
        *,
        apart: bool = False,
        limit: int | None = None,
    ) -> None:
        self.apart = apart
        self.limit = limit
        self.target = target
        self.library = library
        self.lanes = library.lanes
        self.cache = cache
        self.observed = observed
        self.kinds = kinds
        self.marks = tuple(kind for kind in kinds if kind not in (RACES, LANES))
        self.watches = frozenset(kinds) & {RACES, LANES}

    def is_step(self, insn: Insn, mode: int) -> bool:
        """Whether the reference engine executes an instruction."""
        node = node_of(insn, mode, self.watches)
        return node.is_step and not node.is_site

    def program(self, place: BlockKey, memory: GpuMemory) -> Draft:
        """The program of what begins at a place, for code at any address."""
        return build_program(lambda: self.flow(place, memory), self.library)

    def region(self, place: BlockKey, fetch: Fetch, cold: Set[BlockKey] = frozenset()) -> Region | None:
        """The region that begins at a place, without `cold` blocks; None where the reference engine has to begin."""
        found = discover(
            place, self._within(fetch), cold, watches=self.watches, limit=CHECKED_LIMIT if self.kinds else LIMIT
        )
        first = found.blocks.get(place)
        return None if first is None or (first.nodes[0].is_step and not first.nodes[0].is_site) else found

    def unmarked(self, region: Region, marked: tuple[int, ...]) -> frozenset[str]:
        """The kinds of marks that need not be followed through vector registers at first: see `emit_unmarked`.

        `marked`: of each kind the registers that have marks where the region begins, one bit each.
        """
        if not self.marks:
            return frozenset()
        from understudy.engine.gcn.marks.sources import is_source  # few programs ask for checks

        read = Liveness(region, self.observed).before(region.blocks[region.start], 0).active & named(region)
        nodes = [node for block in region.blocks.values() for node in block.nodes if not node.is_step]
        if any(_is_irregular(node) for node in nodes):
            return frozenset()
        kinds = (kind for kind, own in zip(self.marks, marked, strict=True) if not own & read)
        return frozenset(kind for kind in kinds if not any(is_source(kind, node.insn) for node in nodes))

    def compiled(self, region: Region, compile_ir: CompileIr, unmarked: frozenset[str] = frozenset()) -> Compiled:
        """Emit and compile, unless an object is kept. `unmarked`: see there."""
        known = self._remembered(region, unmarked)
        if known is not None:
            return known
        emitter = RegionEmitter(region, self.lanes, self.observed, self.marks, unmarked)
        text = emitter.emit("region")
        outline = Outline.of(region, emitter.resumes, emitter.liveness.rows())
        key = hashlib.sha256(llvm.host_key().encode() + text.encode()).hexdigest()
        image = self.cache.get(key)
        if image is None:
            image = compile_ir(text, llvm.OPTIMISED)
            self.cache.put(key, image)
        if self.cache.get(place := self._record_key(region, unmarked)) is None:
            self.cache.put(place, to_record(key, outline, region.start[0]))
        return Compiled(outline, spans_of(region), key, image)

    def flow(self, place: BlockKey, memory: GpuMemory) -> Flow:
        """The code that can be reached from a place; `Untranslated` where there is none in plain memory."""
        pc, mode = place
        plain = memory.plain(pc, 4) if pc % 4 == 0 else None
        if plain is None:
            raise Untranslated
        at = pc - plain.base
        words = np.frombuffer(plain.view, np.uint8)[at : at + (len(plain.view) - at & ~3)].view(np.uint32)
        words = words if self.limit is None else words[: max(0, self.limit - pc) >> 2]
        front = self.library.front
        return flow_of(self.target, words, pc, mode, lambda mode: front(self.target, mode), apart=self.apart)

    def _within(self, fetch: Fetch) -> Fetch:
        """What decodes instructions that are translated."""
        limit = self.limit
        if limit is None:
            return fetch

        def found(pc: int) -> Insn:
            if pc >= limit:
                raise GuestFault(f"no code is translated from {limit:#x} on")
            return fetch(pc)

        return found

    def _remembered(self, region: Region, unmarked: frozenset[str]) -> Compiled | None:
        """What the cache has, without emitting it once more."""
        record = self.cache.get(self._record_key(region, unmarked))
        if record is None:
            return None
        key, outline = from_record(record, region.start[0])
        image = self.cache.get(key)
        return None if image is None else Compiled(outline, spans_of(region), key, image)

    def _record_key(self, region: Region, unmarked: frozenset[str]) -> str:
        options = self.target.name, self.lanes, self.observed.value, *self.kinds
        return record_key(region, *options, sorted(unmarked))


def _is_irregular(node: Node) -> bool:
    """Whether what it does with marks is not known beforehand, or done in phases, between which it is not left."""
    found = node.effects
    return found.indexes or (found.phases > 1 and not found.is_repeatable)


def spans_of(region: Region) -> Spans:
    """The code that a region was made of."""
    return joined({pc: b"".join(word.to_bytes(4, "little") for word in words) for pc, _, words in region.words})
