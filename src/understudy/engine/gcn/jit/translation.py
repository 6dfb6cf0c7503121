"""From guest code to callable regions: discovery, emission, compilation, the object cache, and the table of entries."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.jit.cache_record import from_record, record_key, to_record
from understudy.engine.gcn.jit.emit_float import Untranslated
from understudy.engine.gcn.jit.emit_region import RegionEmitter
from understudy.engine.gcn.jit.emit_strip import Resume
from understudy.engine.gcn.jit.liveness import Observed
from understudy.engine.gcn.jit.native_scheduler import CODE_SLOTS
from understudy.engine.gcn.jit.region import BlockKey, Fetch, Region, discover, node_of
from understudy.engine.gcn.jit.spans import fetch_of, holds
from understudy.engine.gcn.jit.tier import Tier
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.threaded.flow import Flow, flow_of
from understudy.engine.gcn.threaded.library import Library
from understudy.engine.gcn.threaded.program import Program, build_program
from understudy.ir import llvm
from understudy.ir.compile_process import PROCESS
from understudy.ir.object_cache import ObjectCache
from understudy.isa.gcn.state import VGPRS
from understudy.isa.gcn.target import Target

NOWHERE: Final = (1 << 64) - 1
COOL: Final = 8
"""Blocks that are visited less often than the hottest by more than this are left out of optimised code."""


@dataclass(frozen=True, slots=True, eq=False)
class Emitted:
    """A region as IR text. `resumes` tells how to finish each of its strips on the reference engine.

    `live`: of each entry, how many vector registers from v0 on may be read before they are written.
    """

    region: Region
    resumes: list[Resume]
    text: str
    live: dict[BlockKey, int]


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A region as an object."""

    emitted: Emitted
    image: bytes

    def linked(self) -> Translation:
        """The same as machine code of this process."""
        code = llvm.Code(self.image)
        return Translation(self.emitted, code, code.address("region"))


@dataclass(slots=True, eq=False)
class Translation:
    """A region as machine code at `address`; `code` keeps it alive."""

    emitted: Emitted
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
        return holds(self.spans, memory)

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """Of each place where it can be entered: the function, and the number it is called with."""
        return {place: (self.address, number) for number, place in enumerate(self.region.entries)}

    @property
    def live(self) -> dict[BlockKey, int]:
        """Of each such place how many vector registers from v0 on may be read before they are written."""
        return self.emitted.live

    @property
    def is_closed(self) -> bool:
        """Whether no instruction leads out of it."""
        return self.region.is_closed


Enterable = Translation | Program
"""Code that the table leads to."""


@dataclass(slots=True, eq=False)
class Table:
    """Rows of address, MODE, function, entry number, looked up by translated code. `kept` keeps the code alive."""

    rows: Any = field(default_factory=lambda: np.full((CODE_SLOTS, 4), NOWHERE, np.uint64))
    kept: list[Enterable] = field(default_factory=list)
    live: dict[BlockKey, int] = field(default_factory=dict)

    @property
    def address(self) -> int:
        """Host address of the rows."""
        return int(self.rows.ctypes.data)

    def with_code(self, code: Enterable, wanted: BlockKey | None = None) -> Table:
        """A table that has the entries of more code, `wanted` for certain, others as long as there is room.

        A new one, because other threads may be looking into this.
        """
        kept = self.kept if code in self.kept else [*self.kept, code]
        made = Table(self.rows.copy(), kept, self.live | code.live)
        rows = code.rows
        for place, row in (*rows.items(), *([(wanted, rows[wanted])] if wanted else [])):
            slot = made.slot(place)
            if slot is None:
                slot = home(place)
                slot ^= int(made.rows[slot, 0]) != NOWHERE
            made.rows[slot] = *place, *row
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

    def __init__(self, target: Target, library: Library, cache: ObjectCache, observed: Observed) -> None:
        self.target = target
        self.library = library
        self.lanes = library.lanes
        self.cache = cache
        self.observed = observed

    def region(self, place: BlockKey, fetch: Fetch, cold: Set[BlockKey] = frozenset()) -> Region | None:
        """The region that begins at a place, without `cold` blocks; None where the reference engine has to begin."""
        found = discover(place, fetch, cold)
        first = found.blocks.get(place)
        return None if first is None or first.nodes[0].is_step else found

    def compiled(self, region: Region, compile_ir: Callable[[str, int], bytes]) -> Compiled:
        """Emit and compile, unless an object is kept."""
        known = self._remembered(region)
        if known is not None:
            return known
        emitter = RegionEmitter(region, self.lanes, self.observed)
        text = emitter.emit("region")
        emitted = Emitted(region, emitter.resumes, text, emitter.liveness.rows())
        key = hashlib.sha256(llvm.host_key().encode() + text.encode()).hexdigest()
        image = self.cache.get(key)
        if image is None:
            image = compile_ir(text, llvm.OPTIMISED)
            self.cache.put(key, image)
        if self.cache.get(place := self._record_key(region)) is None:
            self.cache.put(place, to_record(key, region, emitted.resumes, emitted.live))
        return Compiled(emitted, image)

    def flow(self, place: BlockKey, memory: GpuMemory) -> Flow:
        """The code that can be reached from a place; `Untranslated` where there is none in plain memory."""
        pc, mode = place
        plain = memory.plain(pc, 4) if pc % 4 == 0 else None
        if plain is None:
            raise Untranslated
        at = pc - plain.base
        words = np.frombuffer(plain.view, np.uint8)[at : at + (len(plain.view) - at & ~3)].view(np.uint32)
        return flow_of(self.target, words, pc, mode, lambda mode: self.library.front(self.target, mode))

    def _remembered(self, region: Region) -> Compiled | None:
        """What the cache has, without emitting it once more."""
        record = self.cache.get(self._record_key(region))
        if record is None:
            return None
        key, resumes, live = from_record(record, region)
        image = self.cache.get(key)
        return None if image is None else Compiled(Emitted(region, resumes, "", live), image)

    def _record_key(self, region: Region) -> str:
        return record_key(region, self.target.name, self.lanes, self.observed.value)


class CodeSpace:
    """The translated code of one memory for one processor: the table that waves look into, and how it grows.

    Methods that change it are called with the engine's lock held.
    """

    def __init__(self, translator: Translator, memory: GpuMemory) -> None:
        self.translator = translator
        self.memory = weakref.ref(memory)
        self.table = Table()
        self.programs: dict[BlockKey, Program] = {}
        """By the places of their blocks."""
        self._made: dict[BlockKey, Translation] = {}
        self._kept: list[Translation] = []
        self._steps: dict[BlockKey, tuple[int, ...]] = {}
        """Words of instructions that the reference engine executes, where code might have begun."""
        self._heat = 0
        self.tried: set[BlockKey] = set()
        """Places whose code was to be optimised."""

    def check(self, memory: GpuMemory) -> None:
        """Forget what was made of code that memory no longer holds."""
        made: list[Enterable] = [*dict.fromkeys(self.programs.values()), *dict.fromkeys(self._made.values())]
        good = {each for each in made if each.holds(memory)}
        if len(good) == len(made):
            return
        self.programs = {place: each for place, each in self.programs.items() if each in good}
        self.tried &= self.programs.keys()
        self._made = {place: each for place, each in self._made.items() if each in good}
        self.table = Table()
        for each in made:
            if each in good:
                self.table = self.table.with_code(each)

    def install(self, place: BlockKey, fetch: Fetch, tier: Tier | None) -> None:
        """Have the table lead to code that begins at a place. `Untranslated` where there is none to be made."""
        if self.table.holds(place):
            return
        made = self._made.get(place)
        if made is not None:  # other code has taken its slot
            self.table = self.table.with_code(made, place)
            return
        program = self.programs.get(place)
        if program is not None and program.enter(place):
            self.table = self.table.with_code(program, place)
            return
        try:
            insn = fetch(place[0])
        except UnderstudyError:
            raise Untranslated from None
        if self._steps.get(place) == insn.words:
            raise Untranslated
        if node_of(insn, place[1]).is_step:
            self._steps[place] = insn.words
            raise Untranslated
        if tier is Tier.OPTIMISED:
            region = self.translator.region(place, fetch)
            if region is None:
                raise Untranslated
            self.keep(self.translator.compiled(region, llvm.compile_ir).linked())
        else:
            self._begin(place)

    def _begin(self, place: BlockKey) -> None:
        """Make a program of what begins at a place."""
        memory = self.memory()
        assert memory is not None
        made = build_program(lambda: self.translator.flow(place, memory), self.translator.library, self._heat)
        self._heat += len(made.blocks)
        for block in made.blocks:
            self.programs.setdefault(block, made)
        self.table = self.table.with_code(made)

    def heats(self, made: Translation) -> list[int]:
        """The counters of the blocks that optimised code has taken over."""
        places = (place for place in made.region.blocks if place in self.programs)
        return [self.programs[place].heats[place] for place in places]

    def keep(self, made: Translation) -> None:
        """Enter optimised code, in place of what the same code ran as before."""
        self._kept.append(made)
        for place in made.region.blocks:
            if place in self.programs:
                self.programs[place].covered.add(place)
        for number, place in enumerate(made.region.entries):
            self._made[place] = made
            program = self.programs.get(place)
            if program is not None:
                program.replace(place, made.address, number, made)
        self.table = self.table.with_code(made)

    def resume(self, function: int, mark: int, fetch: Fetch) -> Resume:
        """How to finish what a function has left, by what it left in SIDE_EXIT: a strip's number, or an address."""
        found = next((made for made in self._kept if made.address == function), None)
        return Resume([fetch(mark)], []) if found is None else found.emitted.resumes[mark]

    def optimise(self, place: BlockKey, cold: Set[BlockKey]) -> Compiled | None:
        """Optimised code of what begins at a place, without cold blocks; None where there is none to be made.

        From the code that the place's program was made of, for another thread: memory may change meanwhile.
        """
        region = self.translator.region(place, fetch_of(self.translator.target, self.programs[place].spans), cold)
        try:
            return None if region is None else self.translator.compiled(region, PROCESS.compile_ir)
        except Untranslated:
            return None

    # ---- heat ------------------------------------------------------------------------------------------------------
    def hot(self, visits: npt.NDArray[np.uint64], least: int) -> tuple[BlockKey, frozenset[BlockKey]] | None:
        """Where code is that was visited so often that it should be optimised, and blocks near it that are cold."""
        for program in dict.fromkeys(self.programs.values()):
            seen = {place: int(visits[heat]) for place, heat in program.heats.items()}
            taken = program.replaced.keys() | self.tried
            hot = [place for place, count in seen.items() if count >= least and place not in taken]
            if not hot:
                continue
            first = program.start if program.start in hot else max(hot, key=lambda place: seen[place])
            rare = (place for place, count in seen.items() if count < least // COOL)
            cold = frozenset(place for place in rare if place not in program.covered)
            self.tried.add(first)
            return first, cold
        return None
