"""Translated code of one memory: the table of places where it can be entered, and how it grows."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.jit.basics import BlockKey, Fetch, Observed, Untranslated
from understudy.engine.gcn.jit.counters import Tally
from understudy.engine.gcn.jit.layout import MARKED_KEY
from understudy.engine.gcn.jit.native_scheduler import CODE_SLOTS, KEY_SHIFT
from understudy.engine.gcn.jit.outline import Outline
from understudy.engine.gcn.jit.spans import Spans, fetch_of, holds
from understudy.engine.gcn.jit.tier import Tier
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.threaded.kept import KeptPrograms
from understudy.engine.gcn.threaded.library import Library
from understudy.engine.gcn.threaded.program import HEAT, Program
from understudy.ir import llvm
from understudy.ir.compile_process import PROCESS
from understudy.ir.object_cache import ObjectCache
from understudy.isa.gcn.state import VGPRS
from understudy.isa.gcn.target import Target

if TYPE_CHECKING:
    from understudy.engine.gcn.jit.emit_strip import Resume
    from understudy.engine.gcn.jit.translator import Translator
    from understudy.engine.gcn.threaded.site import Site
    from understudy.isa.gcn.insn import Insn

NOWHERE: Final = (1 << 64) - 1
COOL: Final = 8
"""Blocks that are visited less often than the hottest by more than this are left out of optimised code."""


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A region as an object, kept under `key`; `spans` is the code that it was made of."""

    outline: Outline
    spans: Spans
    key: str
    image: bytes

    def linked(self) -> Translation:
        """The same as machine code of this process."""
        code = llvm.Code(self.image)
        return Translation(self.outline, self.spans, self.key, code, code.address("region"))


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """A region as machine code at `address`; `code` keeps it alive."""

    outline: Outline
    spans: Spans
    key: str
    code: llvm.Code
    address: int

    def holds(self, memory: GpuMemory) -> bool:
        """Whether memory still has the code that this was made of."""
        return holds(self.spans, memory)

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """Of each place where it can be entered: the function, and the number it is called with."""
        return {place: (self.address, number) for number, place in enumerate(self.outline.entries)}

    @property
    def live(self) -> dict[BlockKey, int]:
        """Of each such place how many vector registers from v0 on may be read before they are written."""
        return dict(zip(self.outline.entries, self.outline.live, strict=True))

    @property
    def is_closed(self) -> bool:
        """Whether no instruction leads out of it."""
        return self.outline.is_closed


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """Code that follows marks, beside that which takes registers for unmarked: see `layout.MARKED_KEY`."""

    made: Translation

    def holds(self, memory: GpuMemory) -> bool:
        """Whether memory still has the code that this was made of."""
        return self.made.holds(memory)

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """Of each place where it can be entered: the function, and the number it is called with."""
        return {_beside(place): row for place, row in self.made.rows.items()}

    @property
    def live(self) -> dict[BlockKey, int]:
        """Waves begin in the other code."""
        return {}

    @property
    def spans(self) -> Spans:
        """The code that this was made of."""
        return self.made.spans

    @property
    def is_closed(self) -> bool:
        """Whether no instruction leads out of it."""
        return self.made.is_closed


def _beside(place: BlockKey) -> BlockKey:
    return place[0], place[1] | MARKED_KEY


Enterable: TypeAlias = "Translation | Beside | Program | Site"
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


def _following(insn: Insn, fetch: Fetch) -> Insn | None:
    """The instruction behind one, if scalar registers decide its meaning, too."""
    try:
        found = fetch(insn.next_pc)
    except UnderstudyError:
        return None
    return None if found.op.told is None else found


def home(place: BlockKey) -> int:
    """The first of the two rows that a place may have."""
    return (place[0] >> 2 ^ place[1] ^ place[1] >> KEY_SHIFT) & CODE_SLOTS - 1


class CodeSpace:
    """The translated code of one memory for one processor: the table that waves look into, and how it grows.

    With `kinds` (of marks, or races) it is that of waves that are looked at: regions, optimised, from the start.

    Methods that change it are called with the engine's lock held. Programs are kept in `programs`, all else in `cache`.
    `tally`: what counts instructions, if they are. `limit`: the address from which on there is none.
    """

    def __init__(
        self,
        target: Target,
        library: Library,
        cache: ObjectCache,
        programs: ObjectCache,
        observed: Observed,
        memory: GpuMemory,
        tally: Tally | None = None,
        kinds: tuple[str, ...] = (),
        limit: int | None = None,
    ) -> None:
        self.tally = tally
        self.limit = limit
        self.target = target
        self.library = library
        self.cache = cache
        self.observed = observed
        self.kinds = kinds
        self.kept_programs = KeptPrograms(target, library, programs, observed, tally)
        self.memory = weakref.ref(memory)
        self.table = Table()
        self.programs: dict[BlockKey, Program] = {}
        """By the places of their blocks."""
        self._made: dict[BlockKey, Translation] = {}
        self._kept: list[Translation] = []
        self._following: dict[Translation, Beside] = {}
        """By what takes registers for unmarked: what does the same, and follows marks."""
        self._replaced: set[Translation] = set()
        """Those in whose place the latter runs."""
        self._sites: dict[BlockKey, Site] = {}
        self._steps: dict[BlockKey, tuple[int, ...]] = {}
        """Words of instructions that the reference engine executes, where code might have begun."""
        self._heat = 0
        self.caught_up: Counter[BlockKey] = Counter()
        """By places behind what code could not do: how many instructions have been done one by one from there on."""
        self.tried: set[BlockKey] = set()
        """Places whose code was to be optimised."""

    @cached_property
    def translator(self) -> Translator:
        """What makes code that is not kept."""
        from understudy.engine.gcn.jit.translator import Translator  # all of the instruction set goes with it

        parts = self.target, self.library, self.cache, self.observed
        return Translator(*parts, self.kinds, apart=self.tally is not None, limit=self.limit)

    def check(self, memory: GpuMemory) -> None:
        """Forget what was made of code that memory no longer holds."""
        made: list[Enterable] = [*dict.fromkeys(self.programs.values()), *dict.fromkeys(self._made.values())]
        made += *self._sites.values(), *self._following.values()
        good = {each for each in made if each.holds(memory)}
        if len(good) == len(made):
            return
        self.programs = {place: each for place, each in self.programs.items() if each in good}
        self.tried &= self.programs.keys()
        self._made = {place: each for place, each in self._made.items() if each in good}
        self._sites = {place: each for place, each in self._sites.items() if each in good}
        self._following = {code: each for code, each in self._following.items() if each in good}
        self.table = Table()
        for each in made:
            if each in good:
                self.table = self.table.with_code(each)

    def install(self, place: BlockKey, fetch: Fetch, tier: Tier | None, marked: tuple[int, ...] = ()) -> None:
        """Have the table lead to code that begins at a place. `Untranslated` where there is none to be made.

        `marked`: of each kind of marks the vector registers that have any, one bit each.
        """
        if self.table.holds(place):
            return
        if self.limit is not None and place[0] >= self.limit:
            raise Untranslated
        tier = Tier.OPTIMISED if self.kinds else tier
        made = self._made.get(place)
        if made is not None:  # other code has taken its slot
            self.table = self.table.with_code(made, place)
            return
        program = self.programs.get(place)
        if program is not None and program.enter(place):
            self.table = self.table.with_code(program, place)
            return
        if tier is not Tier.OPTIMISED and self._begin_kept(place, tier):
            return
        try:
            insn = fetch(place[0])
        except UnderstudyError:
            raise Untranslated from None
        if self._steps.get(place) == insn.words:
            raise Untranslated
        if self.translator.is_step(insn, place[1]):
            self._steps[place] = insn.words
            raise Untranslated
        if tier is Tier.OPTIMISED:
            region = self.translator.region(place, fetch, self._made.keys() if self.kinds else frozenset())
            if region is None:
                raise Untranslated
            unmarked = self.translator.unmarked(region, marked)
            self.keep(self.translator.compiled(region, llvm.compile_ir, unmarked).linked())
        else:
            self._begin(place)

    def follow_marks(self, function: int, entry: BlockKey | None) -> None:
        """Have code that follows marks for what a function does that takes registers for unmarked, and has met some.

        From here on in its place, though waves of other threads may still run it; or only where that finds some when it
        is entered, as at `entry`.
        """
        code = next(made for made in self._kept if made.address == function)
        following = self._following.get(code)
        if following is None:
            region = self.translator.region(code.outline.start, fetch_of(self.target, code.spans))
            assert region is not None
            following = Beside(self.translator.compiled(region, llvm.compile_ir).linked())
            self._following[code] = following
            self._kept.append(following.made)
        if entry is not None:
            self.table = self.table.with_code(following, _beside(entry))
        elif code not in self._replaced:
            self._replaced.add(code)
            self._take(following.made)

    def tell(self, place: BlockKey, insn: Insn, fetch: Fetch) -> bool:
        """Have code for what an instruction means with its numbers; False where the reference engine executes that."""
        if self.kinds:
            return False
        site = self._sites.get(place)
        if site is None:
            try:
                site = self._sites[place] = self._site(place, insn, fetch)
            except Untranslated:
                return False
        if not site.tell(insn):
            return False
        if not self.table.holds(site.key):
            self.table = self.table.with_code(site, site.key)
        return True

    def _site(self, place: BlockKey, insn: Insn, fetch: Fetch) -> Site:
        """Code of its own for an instruction."""
        from understudy.engine.gcn.threaded.site import Site  # all of the instruction set goes with it

        heat = self._heat % HEAT if self.tally is None else self.tally.room(1)
        made = Site(self.library, place, insn, _following(insn, fetch), heat)
        if self.tally is None:
            self._heat += 1
        else:
            self.tally.add_site(place[0], heat)
        return made

    def _begin_kept(self, place: BlockKey, tier: Tier | None) -> bool:
        """Take up the program that an earlier process has made of what begins at a place, if it did."""
        memory = self.memory()
        made = None if memory is None else self.kept_programs.get(place, memory, self._heat)
        if made is not None:
            self._enter(made)
            self._take_kept(made, tier)
        return made is not None

    def _begin(self, place: BlockKey) -> None:
        """Make a program of what begins at a place."""
        memory = self.memory()
        assert memory is not None
        draft = self.translator.program(place, memory)
        made = self.kept_programs.put(draft, place, memory, self._heat)
        if made is None:
            raise Untranslated
        self._enter(made)

    def _enter(self, made: Program) -> None:
        """Have the table lead to a program."""
        self._heat += len(made.blocks)
        for block in made.blocks:
            self.programs.setdefault(block, made)
        self.table = self.table.with_code(made)

    def _take_kept(self, made: Program, tier: Tier | None) -> None:
        """Have the table lead to what was hot of a program before, where that is kept."""
        for key, outline in self.kept_programs.regions(made) if tier is None else ():
            image = self.cache.get(key)
            if image is not None:
                self._take(Compiled(outline, made.spans, key, image).linked())

    def heats(self, made: Translation) -> list[int]:
        """The counters of the blocks that optimised code has taken over."""
        places = (place for place in made.outline.blocks if place in self.programs)
        return [self.programs[place].heats[place] for place in places]

    def keep(self, made: Translation) -> None:
        """Enter optimised code, in place of what the same code ran as before; a later process does so at once."""
        self._take(made)
        program = self.programs.get(made.outline.start)
        if program is not None:
            self.kept_programs.add_region(program, made.key, made.outline)

    def _take(self, made: Translation) -> None:
        self._kept.append(made)
        for place in made.outline.blocks:
            if place in self.programs:
                self.programs[place].covered.add(place)
        for number, place in enumerate(made.outline.entries):
            self._made[place] = made
            program = self.programs.get(place)
            if program is not None:
                program.replace(place, made.address, number, made)
        self.table = self.table.with_code(made)

    def resume(self, function: int, mark: int, fetch: Fetch) -> Resume:
        """How to finish what a function has left, by what it left in SIDE_EXIT: a strip's number, or an address."""
        from understudy.engine.gcn.jit.emit_strip import Resume

        found = next((made for made in self._kept if made.address == function), None)
        if found is None:
            return Resume([fetch(mark)], [])
        pcs, masks, twins, is_counted = found.outline.resumes[mark]
        fetch = fetch_of(self.target, found.spans)
        return Resume([fetch(pc) for pc in pcs], masks, twins, is_counted)

    def optimise(self, place: BlockKey, cold: Set[BlockKey]) -> Compiled | None:
        """Optimised code of what begins at a place, without cold blocks; None where there is none to be made.

        From the code that the place's program was made of, for another thread: memory may change meanwhile.
        """
        region = self.translator.region(place, fetch_of(self.target, self.programs[place].spans), cold)
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
