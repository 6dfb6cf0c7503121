"""From guest code to callable regions: discovery, emission, compilation, the object cache, and the table of entries."""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.jit.cache_record import from_record, record_key, to_record
from understudy.engine.gcn.jit.emit_float import Untranslated
from understudy.engine.gcn.jit.emit_region import RegionEmitter
from understudy.engine.gcn.jit.emit_strip import Resume
from understudy.engine.gcn.jit.liveness import Observed
from understudy.engine.gcn.jit.native_scheduler import CODE_SLOTS
from understudy.engine.gcn.jit.region import BlockKey, Fetch, Region, discover
from understudy.engine.gcn.memory import GpuMemory
from understudy.ir import llvm
from understudy.ir.object_cache import ObjectCache
from understudy.isa.gcn.state import VGPRS
from understudy.isa.gcn.target import Target

NOWHERE: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Emitted:
    """A region as IR text. `resumes` tells how to finish each of its strips on the reference engine.

    `live`: of each entry, how many vector registers from v0 on may be read before they are written.
    """

    region: Region
    resumes: list[Resume]
    text: str
    live: dict[BlockKey, int]


@dataclass(slots=True, eq=False)
class Translation:
    """A region as machine code at `address`; `code` keeps it alive, `key` is the object's in the cache."""

    emitted: Emitted
    key: str
    tier: int
    code: llvm.Code
    address: int
    spans: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def region(self) -> Region:
        """What was translated."""
        return self.emitted.region

    def __post_init__(self) -> None:
        """Gather the code in runs of bytes."""
        code = {pc: b"".join(word.to_bytes(4, "little") for word in words) for pc, _, words in self.region.words}
        for pc, data in sorted(code.items()):
            start, before = self.spans[-1] if self.spans else (-1, b"")
            if pc == start + len(before):
                self.spans[-1] = start, before + data
            else:
                self.spans.append((pc, data))

    def holds(self, memory: GpuMemory) -> bool:
        """Whether memory still has the code that this was made of."""
        for address, data in self.spans:
            plain = memory.plain(address, len(data))
            if plain is None or plain.view[address - plain.base : address - plain.base + len(data)] != data:
                return False
        return True


@dataclass(slots=True, eq=False)
class Table:
    """Rows of address, MODE, function, entry number, looked up by translated code. `kept` keeps the code alive."""

    rows: Any = field(default_factory=lambda: np.full((CODE_SLOTS, 4), NOWHERE, np.uint64))
    kept: list[Translation] = field(default_factory=list)
    live: dict[BlockKey, int] = field(default_factory=dict)

    @property
    def address(self) -> int:
        """Host address of the rows."""
        return int(self.rows.ctypes.data)

    def with_region(self, translation: Translation, wanted: BlockKey | None = None) -> Table:
        """A table that has the entries of one more region, `wanted` for certain, others as long as there is room.

        A new one, because other threads may be looking into this.
        """
        kept = self.kept if translation in self.kept else [*self.kept, translation]
        made = Table(self.rows.copy(), kept, self.live | translation.emitted.live)
        numbers = {place: number for number, place in enumerate(translation.region.entries)}
        for place, number in (*numbers.items(), *([(wanted, numbers[wanted])] if wanted else [])):
            slot = made.slot(place)
            if slot is None:
                slot = home(place)
                slot ^= int(made.rows[slot, 0]) != NOWHERE
            made.rows[slot] = *place, translation.address, number
        return made

    def slot(self, place: BlockKey) -> int | None:
        """The row of a place: one of two."""
        first = home(place)
        for slot in (first, first ^ 1):
            if int(self.rows[slot, 0]) == place[0] and int(self.rows[slot, 1]) == place[1]:
                return slot
        return None

    def live_rows(self, place: BlockKey) -> int:
        """How many vector registers, from v0 on, code that begins at a place may read before it has written them."""
        return self.live.get(place, VGPRS)

    def holds(self, place: BlockKey) -> bool:
        """Whether a region can be entered at a place."""
        return self.slot(place) is not None


def home(place: BlockKey) -> int:
    """The first of the two rows that a place may have."""
    return (place[0] >> 2 ^ place[1]) & CODE_SLOTS - 1


class Translator:
    """Translates regions of one processor for chunks of `lanes` lanes."""

    def __init__(self, target: Target, lanes: int, cache: ObjectCache, observed: Observed = Observed.NEVER) -> None:
        self.target = target
        self.lanes = lanes
        self.cache = cache
        self.observed = observed

    def region(self, place: BlockKey, fetch: Fetch) -> Region | None:
        """The region that begins at a place; None where the reference engine has to begin."""
        found = discover(place, fetch)
        first = found.blocks.get(place)
        return None if first is None or first.nodes[0].is_step else found

    def translate(self, region: Region, tier: int | None) -> Translation:
        """Emit and compile. Without a tier: quickly, unless an optimised object is kept."""
        if tier is None and (known := self._remembered(region)) is not None:
            return known
        emitter = RegionEmitter(region, self.lanes, self.observed)
        text = emitter.emit("region")
        emitted = Emitted(region, emitter.resumes, text, emitter.liveness.rows())
        if tier is None:
            is_kept = self.cache.get(self._key(text, llvm.OPTIMISED)) is not None
            tier = llvm.OPTIMISED if is_kept else llvm.QUICK
        return self._compiled(emitted, tier)

    def _remembered(self, region: Region) -> Translation | None:
        """The optimised translation that the cache has, without emitting it once more."""
        record = self.cache.get(self._record_key(region))
        if record is None:
            return None
        key, resumes, live = from_record(record, region)
        image = self.cache.get(key)
        return None if image is None else _linked(Emitted(region, resumes, "", live), key, llvm.OPTIMISED, image)

    def _record_key(self, region: Region) -> str:
        return record_key(region, self.target.name, self.lanes, self.observed.value)

    def optimised(self, old: Translation) -> Translation:
        """The same, optimised."""
        return self._compiled(old.emitted, llvm.OPTIMISED)

    def _key(self, text: str, tier: int) -> str:
        return hashlib.sha256(llvm.host_key().encode() + text.encode() + bytes([tier])).hexdigest()

    def _compiled(self, emitted: Emitted, tier: int) -> Translation:
        key = self._key(emitted.text, tier)
        image = self.cache.get(key)
        if image is None:
            image = llvm.compile_ir(emitted.text, tier)
            self.cache.put(key, image)
        if tier == llvm.OPTIMISED and self.cache.get(place := self._record_key(emitted.region)) is None:
            self.cache.put(place, to_record(key, emitted.region, emitted.resumes, emitted.live))
        return _linked(emitted, key, tier, image)


def _linked(emitted: Emitted, key: str, tier: int, image: bytes) -> Translation:
    code = llvm.Code(image)
    return Translation(emitted, key, tier, code, code.address("region"))


class CodeSpace:
    """The translated code of one memory for one processor: the table that waves look into, and how it grows.

    Methods that change it are called with the engine's lock held.
    """

    def __init__(self, translator: Translator, memory: GpuMemory) -> None:
        self.translator = translator
        self.memory = weakref.ref(memory)
        self.table = Table()
        self._made: dict[BlockKey, Translation] = {}
        self._steps: dict[BlockKey, tuple[int, ...]] = {}
        """Words of instructions that the reference engine executes, where a region might have begun."""

    def check(self, memory: GpuMemory) -> None:
        """Forget translations of code that memory no longer holds."""
        if all(made.holds(memory) for made in self._made.values()):
            return
        self._made = {place: made for place, made in self._made.items() if made.holds(memory)}
        self.table = Table()
        for made in dict.fromkeys(self._made.values()):
            self.table = self.table.with_region(made)

    def install(self, place: BlockKey, fetch: Fetch, tier: int | None) -> Translation | None:
        """Translate what begins at a place, unless the table has it; the translation if there is a new one.

        `Untranslated` where there is nothing to translate.
        """
        if self.table.holds(place):
            return None
        made = self._made.get(place)
        if made is not None:  # another region has taken its slot
            self.table = self.table.with_region(made, place)
            return None
        try:
            words = fetch(place[0]).words
        except UnderstudyError:
            raise Untranslated from None
        if self._steps.get(place) == words:
            raise Untranslated
        region = self.translator.region(place, fetch)
        if region is None:
            self._steps[place] = words
            raise Untranslated
        made = self.translator.translate(region, tier)
        self.keep(made)
        return made

    def keep(self, made: Translation) -> None:
        """Enter a translation, in place of an older one of the same region."""
        for place in made.region.entries:
            self._made[place] = made
        self.table = self.table.with_region(made)
