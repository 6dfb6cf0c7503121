"""The translated code of one memory: the table of its entry points, and the methods that add code to it."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.instrumentation import PLAIN, Instrumentation
from softcard.engine.gcn.jit.basics import BlockKey, CodeRanges, Fetch, Observed, Untranslated, fetch_of, holds
from softcard.engine.gcn.jit.code_metadata import CodeMetadata
from softcard.engine.gcn.jit.layout import SHADOWED_KEY
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.threaded.library import Library
from softcard.engine.gcn.threaded.program import PROFILE, Program, Tally
from softcard.engine.gcn.threaded.program_cache import ProgramCache
from softcard.engine.gcn.tiered.native_scheduler import CODE_SLOTS, KEY_SHIFT
from softcard.ir import llvm
from softcard.ir.compile_process import PROCESS
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.state import ROWS
from softcard.isa.gcn.target import Target

if TYPE_CHECKING:
    from softcard.engine.gcn.jit.emit.emit_strip import Resume
    from softcard.engine.gcn.jit.region import Region
    from softcard.engine.gcn.threaded.inline_cache import InlineCache
    from softcard.engine.gcn.tiered.translator import Translator
    from softcard.isa.gcn.insn import Insn


class Tier(Enum):
    """The tiers of translated code.

    `THREADED` calls a handler for each instruction and needs no compile time. `OPTIMISED` has compiled regions for hot
    code. Code with checks is in compiled regions at both tiers; at `THREADED` they are compiled quickly.
    """

    THREADED = "threaded"
    OPTIMISED = "optimised"


WORTH: Final = 4_000_000
"""The number of executed instructions of waves after which code with checks is worth optimising.

They take about half a second. Optimising a region of `region.CHECKED_LIMIT` instructions takes a second, and makes its
code about 1.4 times as fast.
"""
NOWHERE: Final = (1 << 64) - 1
COOL: Final = 8
"""The divisor of the hot count below which a block is cold.

A block that ran less than 1/`COOL` of the count that makes a block hot is left out of optimised code.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A compiled region as an object file, cached under `key`.

    `code_ranges` has the guest code that it was made of.
    """

    metadata: CodeMetadata
    code_ranges: CodeRanges
    key: str
    image: bytes
    is_optimised: bool = True

    def linked(self) -> Translation:
        """Return the region as machine code of this process."""
        code = llvm.Code(self.image)
        return Translation(self.metadata, self.code_ranges, self.key, code, code.address("region"), self.is_optimised)


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """A translated region as machine code at host address `address`. `code` keeps the machine code alive."""

    metadata: CodeMetadata
    code_ranges: CodeRanges
    key: str
    code: llvm.Code
    address: int
    is_optimised: bool = True

    def holds(self, memory: GpuMemory) -> bool:
        """Return True if memory still holds the guest code that the region was made of."""
        return holds(self.code_ranges, memory)

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """The entry points by pc and MODE: for each the function, and the entry number that is its argument."""
        return {place: (self.address, number) for number, place in enumerate(self.metadata.entries)}

    @property
    def live(self) -> dict[BlockKey, int]:
        """The number of vector registers, from v0 on, that code may read before a write, by entry point."""
        return dict(zip(self.metadata.entries, self.metadata.live, strict=True))

    @property
    def is_closed(self) -> bool:
        """True if all paths stay within the region."""
        return self.metadata.is_closed


@dataclass(frozen=True, slots=True, eq=False)
class ShadowCode:
    """The variant of a region's code that evaluates shadow bits. The other variant assumes that they are 0 on entry.

    See `layout.SHADOWED_KEY`."""

    made: Translation

    def holds(self, memory: GpuMemory) -> bool:
        """Return True if memory still holds the guest code that the region was made of."""
        return self.made.holds(memory)

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """The entry points by pc and MODE: for each the function, and the entry number that is its argument.

        The keys have the flag `layout.SHADOWED_KEY`.
        """
        return {_general_key(place): row for place, row in self.made.rows.items()}

    @property
    def live(self) -> dict[BlockKey, int]:
        """An empty dictionary: waves begin in the variant that assumes shadow bits to be 0, not in this one."""
        return {}

    @property
    def code_ranges(self) -> CodeRanges:
        """The guest code that the region was made of."""
        return self.made.code_ranges

    @property
    def is_closed(self) -> bool:
        """True if all paths stay within the region."""
        return self.made.is_closed


def _general_key(place: BlockKey) -> BlockKey:
    return place[0], place[1] | SHADOWED_KEY


Enterable: TypeAlias = "Translation | ShadowCode | Program | InlineCache"
"""The type of code that the table of translated code may contain."""


@dataclass(slots=True, eq=False)
class Table:
    """The table in which translated code finds entry points.

    Each row has a guest address, MODE, function, and entry number. `alive` keeps the code alive.
    """

    rows: Any = field(default_factory=lambda: np.full((CODE_SLOTS, 4), NOWHERE, np.uint64))
    alive: list[Enterable] = field(default_factory=list)
    live: dict[BlockKey, int] = field(default_factory=dict)

    @property
    def address(self) -> int:
        """The host address of the table's rows."""
        return int(self.rows.ctypes.data)

    def with_code(self, code: Enterable, wanted: BlockKey | None = None) -> Table:
        """Return a new table that also has the entry points of `code`.

        This table does not change, as other threads may be reading it. The entry `wanted` is added in any case, others
        as long as there is room.
        """
        alive = self.alive if code in self.alive else [*self.alive, code]
        made = Table(self.rows.copy(), alive, self.live | code.live)
        rows = code.rows
        for place, row in (*rows.items(), *([(wanted, rows[wanted])] if wanted else [])):
            slot = made.slot(place)
            if slot is None:
                slot = home_row(place)
                slot ^= int(made.rows[slot, 0]) != NOWHERE
            made.rows[slot] = *place, *row
        return made

    def with_replaced(self, old: Translation, new: Translation) -> Table:
        """Return a new table that has the code `new` in all rows of `old`, another translation of the same region."""
        made = Table(self.rows.copy(), [*self.alive, new], dict(self.live))
        made.rows[made.rows[:, 2] == old.address, 2] = new.address
        return made

    def slot(self, place: BlockKey) -> int | None:
        """Return the number of the row that holds `place`, or None. An entry can be in one of two rows."""
        first = home_row(place)
        for slot in (first, first ^ 1):
            if int(self.rows[slot, 0]) == place[0] and int(self.rows[slot, 1]) == place[1]:
                return slot
        return None

    def live_rows(self, place: BlockKey) -> int:
        """Return the number of vector registers, from v0 on, that code at `place` may read before a write."""
        return self.live.get(place, ROWS)

    def holds(self, place: BlockKey) -> bool:
        """Return True if translated code can be entered at `place`."""
        return self.slot(place) is not None


def _following(insn: Insn, fetch: Fetch) -> Insn | None:
    """Return the next instruction if its semantics also depend on scalar registers, else None."""
    try:
        found = fetch(insn.next_pc)
    except SoftcardError:
        return None
    return None if found.op.selectors is None else found


def home_row(place: BlockKey) -> int:
    """Return the first of the two possible rows of the table for `place`."""
    return (place[0] >> 2 ^ place[1] ^ place[1] >> KEY_SHIFT) & CODE_SLOTS - 1


class CodeSpace:
    """The translated code of one memory for one processor.

    It has the table that waves use, and adds code to it. With an `instrumentation`, all code is in regions, which
    contain the code of checks. They are compiled quickly at first. When waves have executed `WORTH` instructions since
    then, the background thread optimises the regions, one after another. Methods that change the table are called with
    the engine's lock held. Programs are cached in `programs`, everything else in `cache`. `tally` counts instructions,
    if that is enabled. `limit` is the address from which on code is not translated.
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
        instrumentation: Instrumentation = PLAIN,
        limit: int | None = None,
    ) -> None:
        self.tally = tally
        self.limit = limit
        self.target = target
        self.library = library
        self.cache = cache
        self.observed = observed
        self.instrumentation = instrumentation
        self.kinds = instrumentation.kinds
        self.program_cache = ProgramCache(target, library, programs, observed, tally)
        self.memory = weakref.ref(memory)
        self.table = Table()
        self.programs: dict[BlockKey, Program] = {}
        """The program of each block, by the block's pc and MODE."""
        self._made: dict[BlockKey, Translation] = {}
        self._installed: list[Translation] = []
        self._following: dict[Translation, ShadowCode] = {}
        """For code that assumes shadow bits to be 0, the code of the same region that evaluates shadow bits."""
        self._replaced: set[Translation] = set()
        """The code specialised for defined inputs that has been replaced by code which evaluates shadow bits."""
        self._inline_caches: dict[BlockKey, InlineCache] = {}
        self._steps: dict[BlockKey, tuple[int, ...]] = {}
        """The words of instructions that the reference engine executes, by pc and MODE."""
        self._quick: dict[Translation, tuple[Region, frozenset[str]]] = {}
        """The regions with checks that are not optimised: each with its guest code and `Translator.clean`."""
        self._left = WORTH
        """The number of instructions after which the regions in `_quick` are worth optimising."""
        self._profile = 0
        self.caught_up: Counter[BlockKey] = Counter()
        """The number of instructions executed one by one after side exits, by the pc and MODE after the exit."""
        self.tried: set[BlockKey] = set()
        """The blocks, by pc and MODE, whose code was submitted for optimisation."""

    @cached_property
    def translator(self) -> Translator:
        """The translator for code that is not cached."""
        from softcard.engine.gcn.tiered.translator import Translator  # imports the whole instruction set

        parts = self.target, self.library, self.cache, self.observed
        return Translator(*parts, self.instrumentation, apart=self.tally is not None, limit=self.limit)

    def check(self, memory: GpuMemory) -> None:
        """Discard translations if memory no longer holds their guest code."""
        made: list[Enterable] = [*dict.fromkeys(self.programs.values()), *dict.fromkeys(self._made.values())]
        made += *self._inline_caches.values(), *self._following.values()
        good = {each for each in made if each.holds(memory)}
        if len(good) == len(made):
            return
        self.programs = {place: each for place, each in self.programs.items() if each in good}
        self.tried &= self.programs.keys()
        self._made = {place: each for place, each in self._made.items() if each in good}
        self._inline_caches = {place: each for place, each in self._inline_caches.items() if each in good}
        self._following = {code: each for code, each in self._following.items() if each in good}
        self._quick = {code: each for code, each in self._quick.items() if code.holds(memory)}
        self.table = Table()
        for each in made:
            if each in good:
                self.table = self.table.with_code(each)

    def install(self, place: BlockKey, fetch: Fetch, tier: Tier | None, shadowed: tuple[int, ...] = ()) -> None:
        """Add code that begins at `place` to the table; raise `Untranslated` if it cannot be made.

        `shadowed` has, for each kind of shadow register, a mask of the vector registers with shadow bits set.
        """
        if self.table.holds(place):
            return
        if self.limit is not None and place[0] >= self.limit:
            raise Untranslated
        is_optimised = tier is Tier.OPTIMISED
        tier = Tier.OPTIMISED if self.kinds else tier
        made = self._made.get(place)
        if made is not None:  # other code has taken its row
            self.table = self.table.with_code(made, place)
            return
        program = self.programs.get(place)
        if program is not None and program.enter(place):
            self.table = self.table.with_code(program, place)
            return
        if tier is not Tier.OPTIMISED and self._begin_cached(place, tier):
            return
        try:
            insn = fetch(place[0])
        except SoftcardError:
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
            self.keep(self._compiled(region, self.translator.clean(region, shadowed), is_optimised))
        else:
            self._begin(place)

    def _compiled(self, region: Region, clean: frozenset[str], is_optimised: bool) -> Translation:
        """Return the machine code of a region with checks.

        It comes from the cache, or is compiled quickly, or with optimisation if `is_optimised`.
        """
        tier = llvm.OPTIMISED if is_optimised else llvm.SOON
        made = self.translator.compiled(region, llvm.compile_ir, clean, tier).linked()
        if not made.is_optimised:
            self._quick[made] = region, clean
            self._left = WORTH
        return made

    def follow_shadow(self, function: int, entry: BlockKey | None, tier: Tier | None) -> None:
        """Compile the variant of a region that evaluates shadow bits, after a wave had bits set in the other variant.

        `function` is the address of that other variant, which assumes shadow bits to be 0. If `entry` is None, the
        new code replaces it, though waves of other threads may still run the old code. Otherwise the new code is
        only used if shadow bits are set when the region is entered at `entry`."""
        code = next(made for made in self._installed if made.address == function)
        following = self._following.get(code)
        if following is None:
            region = self.translator.region(code.metadata.start, fetch_of(self.target, code.code_ranges))
            assert region is not None
            following = ShadowCode(self._compiled(region, frozenset(), tier is Tier.OPTIMISED))
            self._following[code] = following
            self._installed.append(following.made)
        if entry is not None:
            self.table = self.table.with_code(following, _general_key(entry))
        elif code not in self._replaced:
            self._replaced.add(code)
            self._take(following.made)

    def specialise(self, place: BlockKey, insn: Insn, fetch: Fetch) -> bool:
        """Specialise an instruction for its register values.

        Return False if the reference engine has to execute it.
        """
        if self.kinds:
            return False
        inline_cache = self._inline_caches.get(place)
        if inline_cache is None:
            try:
                inline_cache = self._inline_caches[place] = self._inline_cache(place, insn, fetch)
            except Untranslated:
                return False
        if not inline_cache.specialise(insn):
            return False
        if not self.table.holds(inline_cache.key):
            self.table = self.table.with_code(inline_cache, inline_cache.key)
        return True

    def _inline_cache(self, place: BlockKey, insn: Insn, fetch: Fetch) -> InlineCache:
        """Return a new inline cache for an instruction whose semantics depend on scalar registers."""
        from softcard.engine.gcn.threaded.inline_cache import InlineCache  # imports the whole instruction set

        profile = self._profile % PROFILE if self.tally is None else self.tally.room(1)
        made = InlineCache(self.library, place, insn, _following(insn, fetch), profile, self.tally is not None)
        if self.tally is None:
            self._profile += 1
        else:
            self.tally.add_inline_cache(place[0], profile)
        return made

    def _begin_cached(self, place: BlockKey, tier: Tier | None) -> bool:
        """Install the program for the code at `place` that an earlier process cached.

        Return True if it exists.
        """
        memory = self.memory()
        made = None if memory is None else self.program_cache.get(place, memory, self._profile)
        if made is not None:
            self._enter(made)
            self._take_cached(made, tier)
        return made is not None

    def _begin(self, place: BlockKey) -> None:
        """Compile and install a program for the code at `place`."""
        memory = self.memory()
        assert memory is not None
        unlinked = self.translator.program(place, memory)
        made = self.program_cache.put(unlinked, place, memory, self._profile)
        if made is None:
            raise Untranslated
        self._enter(made)

    def _enter(self, made: Program) -> None:
        """Add a program's entry points to the table."""
        self._profile += len(made.blocks)
        for block in made.blocks:
            self.programs.setdefault(block, made)
        self.table = self.table.with_code(made)

    def _take_cached(self, made: Program, tier: Tier | None) -> None:
        """Install the cached optimised regions of a program, if the engine optimises hot code."""
        for key, metadata in self.program_cache.regions(made) if tier is None else ():
            image = self.cache.get(key)
            if image is not None:
                self._take(Compiled(metadata, made.code_ranges, key, image).linked())

    def profiles(self, made: Translation) -> list[int]:
        """Return the numbers of the profile counters of blocks that the optimised code `made` has replaced."""
        places = (place for place in made.metadata.blocks if place in self.programs)
        return [self.programs[place].profiles[place] for place in places]

    def keep(self, made: Translation) -> None:
        """Replace blocks of a program by the optimised code `made`, and cache it for later processes."""
        self._take(made)
        program = self.programs.get(made.metadata.start)
        if program is not None:
            self.program_cache.add_region(program, made.key, made.metadata)

    def _take(self, made: Translation) -> None:
        self._installed.append(made)
        for place in made.metadata.blocks:
            if place in self.programs:
                self.programs[place].covered.add(place)
        for number, place in enumerate(made.metadata.entries):
            self._made[place] = made
            program = self.programs.get(place)
            if program is not None:
                program.replace(place, made.address, number, made)
        self.table = self.table.with_code(made)

    def resume(self, function: int, mark: int, fetch: Fetch) -> Resume:
        """Return the instructions that a function left incomplete at a side exit.

        The caller completes them. `mark` is the value of the wave's word SIDE_EXIT: the number of a strip-mined loop,
        or an address.
        """
        from softcard.engine.gcn.jit.emit.emit_strip import Resume

        found = next((made for made in self._installed if made.address == function), None)
        if found is None:
            return Resume([fetch(mark)], [])
        pcs, masks, shadows, is_counted = found.metadata.resumes[mark]
        fetch = fetch_of(self.target, found.code_ranges)
        return Resume([fetch(pc) for pc in pcs], masks, shadows, is_counted)

    def optimise(self, program: Program, place: BlockKey, cold: Set[BlockKey]) -> Compiled | None:
        """Return optimised code that begins at `place`, without the blocks `cold`; None if it is impossible.

        It is called on another thread, and reads a saved copy of the program's guest code, since memory may change
        meanwhile. Programs no longer in use are not optimised, since their code was unloaded or overwritten.
        """
        if self.memory() is None or self.programs.get(place) is not program:
            return None
        region = self.translator.region(place, fetch_of(self.target, program.code_ranges), cold)
        try:
            return None if region is None else self.translator.compiled(region, PROCESS.compile_ir)
        except Untranslated:
            return None

    # ---- checks ----------------------------------------------------------------------------------------------------
    def count(self, instructions: int) -> None:
        """Record that waves have executed `instructions` instructions of code with checks."""
        if self._quick:
            self._left -= instructions

    def worth(self) -> tuple[Translation, Callable[[], Compiled | None]] | None:
        """Return a region with checks that is worth optimising, and the function that does it; None if there is none.

        The function is called on another thread, and gets a copy of the guest code."""
        if self._left > 0 or not self._quick:
            return None
        old, (region, clean) = next(iter(self._quick.items()))

        def optimised() -> Compiled | None:
            return None if self.memory() is None else self.translator.compiled(region, PROCESS.compile_ir, clean)

        return old, optimised

    def replace(self, old: Translation, new: Translation | None) -> None:
        """Replace code with checks by `new`, the optimised code of the same region; None if it cannot be made."""
        if self._quick.pop(old, None) is None or new is None:
            return
        self._installed.append(new)
        self._made = {place: new if each is old else each for place, each in self._made.items()}
        self._following = {
            code: ShadowCode(new) if each.made is old else each for code, each in self._following.items()
        }
        if old in self._following:  # waves of other threads may still run the old code
            self._following[new] = self._following[old]
        if old in self._replaced:
            self._replaced.add(new)
        self.table = self.table.with_replaced(old, new)

    # ---- profile ---------------------------------------------------------------------------------------------------
    def hot(self, visits: npt.NDArray[np.uint64], least: int) -> tuple[Program, BlockKey, frozenset[BlockKey]] | None:
        """Return the program and block that should be optimised next, and the cold blocks near it, or None.

        A block should be optimised if it was executed at least `least` times. `visits` has the number of executions by
        profile counter.
        """
        for program in dict.fromkeys(self.programs.values()):
            seen = {place: int(visits[profile]) for place, profile in program.profiles.items()}
            taken = program.replaced.keys() | self.tried
            hot = [place for place, count in seen.items() if count >= least and place not in taken]
            if not hot:
                continue
            first = program.start if program.start in hot else max(hot, key=lambda place: seen[place])
            rare = (place for place, count in seen.items() if count < least // COOL)
            cold = frozenset(place for place in rare if place not in program.covered)
            self.tried.add(first)
            return program, first, cold
        return None
