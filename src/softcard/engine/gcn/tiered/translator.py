"""The translator for code that is not cached.

It makes direct-threaded programs and optimised regions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set

import numpy as np

from softcard.core.errors import GuestFault
from softcard.engine.gcn.instrumentation import PLAIN, Instrumentation
from softcard.engine.gcn.jit.basics import BlockKey, CodeRanges, CompileIr, Fetch, Observed, Untranslated, joined
from softcard.engine.gcn.jit.code_metadata import CodeMetadata, from_record, record_key, to_record
from softcard.engine.gcn.jit.liveness import Liveness
from softcard.engine.gcn.jit.region import CHECKED_LIMIT, LIMIT, Node, Region, discover, node_of
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.threaded.builder import build_program
from softcard.engine.gcn.threaded.flow import Flow, flow_of
from softcard.engine.gcn.threaded.library import Library
from softcard.engine.gcn.threaded.unlinked import UnlinkedProgram
from softcard.engine.gcn.tiered.translation import Compiled
from softcard.ir import llvm
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.target import Target


class Translator:
    """The translator of one processor's code for vectors of `lanes` lanes, with the instrumentation of checks.

    If `apart` is True, each instruction of a program is a basic block, so that the executions of each instruction
    are counted. Code from the address `limit` on is not translated."""

    def __init__(
        self,
        target: Target,
        library: Library,
        cache: ObjectCache,
        observed: Observed,
        instrumentation: Instrumentation = PLAIN,
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
        self.instrumentation = instrumentation
        self.kinds = instrumentation.kinds

    def is_step(self, insn: Insn, mode: int) -> bool:
        """Return True if the reference engine executes an instruction."""
        node = node_of(insn, mode, self.instrumentation.points)
        return node.is_step and not node.has_inline_cache

    def program(self, place: BlockKey, memory: GpuMemory) -> UnlinkedProgram:
        """Return the unlinked program for the code at `place`."""
        return build_program(lambda: self.flow(place, memory), self.library)

    def region(self, place: BlockKey, fetch: Fetch, cold: Set[BlockKey] = frozenset()) -> Region | None:
        """Return the region that begins at `place`, without the blocks `cold`; None if it cannot begin there."""
        points, limit = self.instrumentation.points, CHECKED_LIMIT if self.kinds else LIMIT
        found = discover(place, self._within(fetch), cold, points=points, limit=limit)
        first = found.blocks.get(place)
        return None if first is None or (first.nodes[0].is_step and not first.nodes[0].has_inline_cache) else found

    def clean(self, region: Region, shadowed: tuple[int, ...]) -> frozenset[str]:
        """Return the kinds of shadow whose bits a region's code may assume to be 0 in vector registers on entry.

        See `emit_clean`. `shadowed` has, for each kind, a mask of the registers with shadow bits set at the
        beginning of the region."""
        shadows, is_source = self.instrumentation.shadows, self.instrumentation.is_source
        if not shadows or is_source is None:
            return frozenset()
        read = Liveness(region, self.observed).before(region.blocks[region.start], 0).active & region.named_vectors
        nodes = [node for block in region.blocks.values() for node in block.nodes if not node.is_step]
        if any(_is_irregular(node) for node in nodes):
            return frozenset()
        kinds = (kind for kind, own in zip(shadows, shadowed, strict=True) if not own & read)
        return frozenset(kind for kind in kinds if not any(is_source(kind, node.insn) for node in nodes))

    def compiled(
        self,
        region: Region,
        compile_ir: CompileIr,
        clean: frozenset[str] = frozenset(),
        tier: int = llvm.OPTIMISED,
    ) -> Compiled:
        """Return the compiled region from the cache, or emit and compile it at a tier, `llvm.SOON` or `llvm.OPTIMISED`.

        Optimised code from the cache also serves for `llvm.SOON`. `clean` is the result of the method `clean`.
        """
        known = self._remembered(region, clean, tier)
        if known is not None:
            return known
        from softcard.engine.gcn.jit.emit.emit_region import RegionEmitter  # imports all emitters

        emitter = RegionEmitter(region, self.lanes, self.observed, self.instrumentation, clean)
        text = emitter.emit("region")
        metadata = CodeMetadata.of(region, emitter.resumes, emitter.liveness.rows())
        key = hashlib.sha256(llvm.host_key().encode() + text.encode()).hexdigest()
        found = self._image(key, tier)
        if found is None:
            found = compile_ir(text, tier), tier == llvm.OPTIMISED
            self.cache.put(key if tier == llvm.OPTIMISED else _soon_key(key), found[0])
        if self.cache.get(place := self._record_key(region, clean)) is None:
            self.cache.put(place, to_record(key, metadata, region.start[0]))
        return Compiled(metadata, code_ranges_of(region), key, *found)

    def flow(self, place: BlockKey, memory: GpuMemory) -> Flow:
        """Return the control flow of the code at `place`; raise `Untranslated` if it is not in plain memory."""
        pc, mode = place
        plain = memory.plain(pc, 4) if pc % 4 == 0 else None
        if plain is None:
            raise Untranslated
        at = pc - plain.base
        words = np.frombuffer(plain.view, np.uint8)[at : at + (len(plain.view) - at & ~3)].view(np.uint32)
        words = words if self.limit is None else words[: max(0, self.limit - pc) >> 2]
        frontend = self.library.frontend
        return flow_of(self.target, words, pc, mode, lambda mode: frontend(self.target, mode), apart=self.apart)

    def _within(self, fetch: Fetch) -> Fetch:
        """Return a decoding function that raises an error for addresses from `limit` on."""
        limit = self.limit
        if limit is None:
            return fetch

        def found(pc: int) -> Insn:
            if pc >= limit:
                raise GuestFault(f"code from {limit:#x} on is not translated: that address is the engine's limit")
            return fetch(pc)

        return found

    def _remembered(self, region: Region, clean: frozenset[str], tier: int) -> Compiled | None:
        """Return the cached code of a region, without emitting its IR, or None if it is not cached."""
        record = self.cache.get(self._record_key(region, clean))
        if record is None:
            return None
        key, metadata = from_record(record, region.start[0])
        found = self._image(key, tier)
        return None if found is None else Compiled(metadata, code_ranges_of(region), key, *found)

    def _image(self, key: str, tier: int) -> tuple[bytes, bool] | None:
        """Return the best cached object of a region that serves for a tier, and True if it is optimised; or None."""
        image = self.cache.get(key)
        if image is not None or tier == llvm.OPTIMISED:
            return None if image is None else (image, True)
        image = self.cache.get(_soon_key(key))
        return None if image is None else (image, False)

    def _record_key(self, region: Region, clean: frozenset[str]) -> str:
        options = self.target.name, self.lanes, self.observed.value, *self.kinds
        return record_key(region, *options, sorted(clean))


def _soon_key(key: str) -> str:
    """Return the cache key of a region's code that is not optimised; `key` is that of its optimised code."""
    return hashlib.sha256(f"soon {key}".encode()).hexdigest()


def _is_irregular(node: Node) -> bool:
    """Return True if an instruction has computed register numbers, or has several phases and cannot be repeated.

    With computed register numbers, the shadow bits that it reads are not known at translation time. A phase is
    a pass over the lanes (`Effects.phases`). `Effects.is_repeatable` states whether it can be repeated."""
    found = node.effects
    return found.indexes or (found.phases > 1 and not found.is_repeatable)


def code_ranges_of(region: Region) -> CodeRanges:
    """Return the guest code that a region was made of."""
    return joined({pc: b"".join(word.to_bytes(4, "little") for word in words) for pc, _, words in region.words})
