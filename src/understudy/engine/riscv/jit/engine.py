"""The JIT engine: regions of guest code translated to machine code of the host, everything else on the reference.

Tiers: code runs on the reference engine while it is cold, is then compiled quickly, and is compiled again with
optimisation by a background thread once it has proved hot. The new code is taken up at the next slice boundary.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from understudy.core.errors import AccessFault, ModelBug
from understudy.core.space import PAGE_SIZE
from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.jit.counters import Counters
from understudy.engine.riscv.jit.dispatcher import (
    MISS,
    OUT_OF_FUEL,
    POLLED,
    RETURNED,
    SLOTS,
    STEP,
    dispatch,
    exchange32,
    exchange64,
    refill,
)
from understudy.engine.riscv.jit.emit_memory import Looks, Notes
from understudy.engine.riscv.jit.emit_region import Algebra, Performer, RegionEmitter
from understudy.engine.riscv.jit.region import Region, discover, region_key
from understudy.engine.riscv.jit.translation import JitContext, Translation, snapshot_of
from understudy.engine.riscv.pages import LIMIT, MASK64, PageTables, peek
from understudy.engine.riscv.reference import Context, Dress, OnRetire, ReferenceEngine
from understudy.engine.riscv.stops import Exit, Why
from understudy.ir import llvm
from understudy.ir.native import link
from understudy.ir.object_cache import ObjectCache, default_folder
from understudy.ir.slow_host import HARTS, warn_where_slow
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.isa import Isa
from understudy.isa.riscv.state import (
    CODE_TABLE,
    COUNTS,
    FUEL,
    NO_ADDRESS,
    PC,
    REFILL,
    RESERVED_ADDRESS,
    RETIRED,
    RETURN_ADDRESS,
    VTYPE,
    Hart,
)

LAST_SLICE: Final = 50_000_000
PENDING_SLICE: Final = 2_000_000
"""Slice while better code is on its way."""
HOT: Final = 300_000
"""Instructions that a hart runs in quick code before that is worth optimising."""
COLD_VISITS: Final = 2
COLD_STEPS: Final = 400
INSIDE_VISITS: Final = 1000
"""Visits of a pc in the middle of translated code, where a hart's turn ended, before code is made that begins there."""
END_VISITS: Final = 100
"""Turns that come to their end behind a pc before instructions from there on are translated one by one."""
PATIENCE: Final = 100
MAX_VERSIONS: Final = 16
"""Translations kept for one pc: guests that rewrite their code would fill memory with them."""


FUNCTIONS: Final = (dispatch, exchange32, exchange64, refill)


@dataclass(frozen=True, slots=True)
class Performing:
    """What translated code does beside the meanings of instructions; `name` makes it another one in the cache.

    `prepare` has a hart ready for such code.
    """

    name: str
    perform: Callable[[Algebra], Performer]
    prepare: Callable[[Hart], None]


@dataclass(frozen=True, slots=True)
class Looking:
    """What translated code does before it accesses memory; `name` likewise."""

    name: str
    look: Callable[[Algebra], Looks]


@dataclass(frozen=True, slots=True)
class Noting:
    """What translated code does to keep account of stores; `name` likewise."""

    name: str
    note: Callable[[Algebra, Region], Notes]


class Runtime:
    """The dispatcher and what else is compiled once per process and cache."""

    def __init__(self, cache: ObjectCache) -> None:
        self._code = link(cache, *FUNCTIONS)
        word, pointer = ctypes.c_uint64, ctypes.c_void_p
        self.dispatch: Callable[[int], int] = self._code.function("dispatch", word, pointer)
        self.address = self._code.address("dispatch")
        self.refill = self._code.address("refill")
        self.compare_exchange = {w: self._code.function(f"exchange{w}", word, pointer, word, word) for w in (32, 64)}


@cache
def _shared_runtime(folder: Path | None) -> Runtime:
    """One for all engines of this process."""
    return Runtime(ObjectCache(folder))


class SharingEvaluator(Evaluator):
    """Atomic towards translated code that other threads run."""

    compare_exchange: dict[int, Callable[[int, int, int], int]]

    def exchange(self, host: int, w: int, new: Callable[[int], int]) -> int:
        """Atomically replace memory of this process by a function of it; gives the old value."""
        old = peek(host, w >> 3)
        while (seen := self.compare_exchange[w](host, old, new(old))) != old:
            old = seen
        return old


class JitEngine(ReferenceEngine):
    """Runs harts as machine code of the host.

    `coherent`, `tlb_entries` and `on_retire` as for `ReferenceEngine` (a retire hook means that everything runs on the
    reference). `tier` fixes the tier (`llvm.QUICK` or `llvm.OPTIMISED`, compiled at once at first sight) instead of
    tiering up. `cache`: where objects are kept; by default in the user's cache folder. `counting` and `dress` as there;
    `performing` is the same as `dress` for translated code, `looking` what looks at its accesses, and `noting`
    what keeps account of its stores.
    """

    def __init__(
        self,
        coherent: bool = True,
        tlb_entries: int | None = None,
        on_retire: OnRetire | None = None,
        tier: int | None = None,
        cache: ObjectCache | None = None,
        counting: bool = False,
        dress: Dress | None = None,
        performing: Performing | None = None,
        looking: Looking | None = None,
        noting: Noting | None = None,
    ) -> None:
        super().__init__(coherent, tlb_entries, on_retire, counting, dress)
        self._perform = None if performing is None else performing.perform
        self._prepare = None if performing is None else performing.prepare
        self._look = None if looking is None else looking.look
        self._noting = None if noting is None else noting.note
        self._more = " ".join(each.name for each in (performing, looking, noting) if each is not None)
        self._counters = Counters() if counting else None
        self.tier = tier
        self.limit: int | None = None
        """Code from this address on is the reference engine's: so it is found out where the two do not agree."""
        self.cache = cache if cache is not None else ObjectCache(default_folder())
        self.translations: dict[tuple[int, bool, Isa, bool], list[Translation]] = {}
        """By pc, whether floats are native, the instruction set, and whether it is of one instruction."""
        self._workers: ThreadPoolExecutor | None = None
        warn_where_slow(HARTS)
        self._is_native = llvm.is_x86()
        if self._is_native:  # here, so that opening a device pays for LLVM and not its first kernel
            self.runtime = _shared_runtime(self.cache.folder)

    def __repr__(self) -> str:
        return "<JIT engine of harts>"

    def after_fork(self) -> None:
        """In a child process: what the other thread was compiling is asked for once more."""
        super().after_fork()
        self._workers = None
        for versions in self.translations.values():
            for translation in versions:
                if translation.better is not None and not translation.better.done():
                    translation.better = None

    # -- the engine contract ------------------------------------------------------------------------------------

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each pc has retired, of an engine that counts them."""
        counts = Counter(super().instruction_counts())
        return dict(counts if self._counters is None else counts + self._counters.counts())

    def executed(self) -> dict[int, Insn]:
        """The instruction at each pc that `instruction_counts` has: where there were several, one of them."""
        return super().executed() | ({} if self._counters is None else self._counters.executed())

    def run(self, hart: Hart, fuel: int) -> Exit:
        """Execute from hart.pc until something happens, at most `fuel` instructions."""
        if not self.translates:
            return super().run(hart, fuel)
        context = self.context(hart)
        assert isinstance(context, JitContext)
        dispatch = self.runtime.dispatch
        words, address, left = hart.words, hart.address, fuel
        context.choose()
        while left > 0:
            if self.between_slices is not None and left < fuel:
                self.between_slices(hart)
            slice_ = min(left, context.slice)
            words[FUEL] = slice_
            why = dispatch(address)
            used = slice_ - words[FUEL]
            words[RETIRED] += used
            left -= used
            context.work += used
            if why in (RETURNED, POLLED):
                self._turn_over(context)
                return self._ended(hart, why)
            if why == OUT_OF_FUEL and left > 0 and used + left > slice_:
                with self._lock:
                    self._slice_end(context)
                continue
            before = words[RETIRED]
            with self._lock:  # memory and devices behind ports see one hart at a time
                exit_ = self._leave(context, why, left)
            left -= words[RETIRED] - before
            if exit_ is not None:
                return exit_
        self._turn_over(context)
        return self.turn_end(hart)

    @staticmethod
    def _ended(hart: Hart, why: int) -> Exit:
        """A turn is over before its fuel is: the hart has returned, or polls."""
        words = hart.words
        if why == RETURNED:
            return Exit(Why.RETURN, words[PC])
        words[RESERVED_ADDRESS] = NO_ADDRESS
        return Exit(Why.WAIT, words[PC])

    @property
    def translates(self) -> bool:
        """Whether there is machine code for harts."""
        return self.on_retire is None and self._is_native

    def translated(self, hart: Hart) -> int:
        """The dispatcher, at the tables of the hart's float mode."""
        context = self.context(hart)
        assert isinstance(context, JitContext)
        context.choose()
        return self.runtime.address

    def worked(self, hart: Hart, instructions: int) -> None:
        """What is hot is optimised."""
        context = self.context(hart)
        assert isinstance(context, JitContext)
        context.work += instructions
        self._turn_over(context)

    def _turn_over(self, context: JitContext) -> None:
        """Turns may be too short to end a slice: what is hot is optimised all the same."""
        if context.work >= HOT:
            with self._lock:
                self._heat(context)

    def _leave(self, context: JitContext, why: int, left: int) -> Exit | None:
        """Go on where translated code could not: at most `left` instructions."""
        hart = context.hart
        if why == OUT_OF_FUEL:
            return self._end_turn(context, left)
        if why == STEP:
            exit_ = self.steps(hart, min(left, COLD_STEPS), context.installed[context.native])
        elif why == MISS:
            exit_ = self._miss(context, left)
        else:
            raise ModelBug(f"translated code left with code {why}")
        context.choose()
        return exit_

    def _end_turn(self, context: JitContext, left: int) -> Exit | None:
        """Execute the last `left` instructions of a turn, too few to go on without a look at the fuel after each."""
        hart, words = context.hart, context.hart.words
        visits = context.ends[words[PC]] = context.ends.get(words[PC], 0) + 1
        if visits <= END_VISITS:
            return self.steps(hart, left) if left else None
        table = context.single_address
        while left:
            if words[PC] not in context.singles[context.native] and not self._single(context, words[PC]):
                return self.steps(hart, left)
            words[CODE_TABLE], words[FUEL] = table, left
            why = self.runtime.dispatch(hart.address)
            words[CODE_TABLE] = context.addresses[context.native]
            words[RETIRED] += left - words[FUEL]
            left = words[FUEL]
            if why == STEP:
                exit_ = self.steps(hart, left)
                context.choose()
                return exit_
            if why in (RETURNED, POLLED):
                return self._ended(hart, why)
        return None

    def _single(self, context: JitContext, pc: int) -> bool:
        """Whether there is code now for the instruction at `pc` alone."""
        translation = self._find(context, pc, alone=True) or self._translate(context, pc, alone=True)
        if translation is None:
            return False
        context.install_single(translation)
        return True

    def flush_code(self, hart: Hart) -> None:
        """Forget cached instructions of `hart`; compiled code is taken up again if memory still holds the same."""
        super().flush_code(hart)
        context = self.context(hart)
        assert isinstance(context, JitContext)
        context.uninstall()

    def close(self) -> None:
        """Give back what was kept for harts, and stop compiling."""
        super().close()
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)
            self._workers = None
        self.translations.clear()

    def make_context(self, hart: Hart, pages: PageTables, evaluator: Evaluator) -> Context:
        """This engine's kind of context."""
        if llvm.is_x86():
            hart.words[REFILL] = self.runtime.refill
            hart.words[COUNTS] = 0 if self._counters is None else self._counters.address(hart.index)
        if self._prepare is not None:
            self._prepare(hart)
        return JitContext(self, hart, pages, evaluator)

    def make_evaluator(self, hart: Hart, pages: PageTables) -> Evaluator:
        """This engine's kind of evaluator."""
        if not llvm.is_x86():
            return super().make_evaluator(hart, pages)
        evaluator = SharingEvaluator(hart, pages, self._stored, self._fenced)
        evaluator.compare_exchange = self.runtime.compare_exchange
        return evaluator

    # -- from a miss to code ------------------------------------------------------------------------------------

    def _miss(self, context: JitContext, left: int) -> Exit | None:
        hart = context.hart
        pc = hart.pc
        known = context.installed[context.native].get(pc)
        translation = known or self._find(context, pc)
        if translation is None:
            visits = context.visits[pc] = context.visits.get(pc, 0) + 1
            if self.tier is None and visits <= COLD_VISITS:
                return self.steps(hart, min(left, COLD_STEPS), context.installed[context.native], PATIENCE)
            if self.tier is None and visits <= INSIDE_VISITS and self._is_inside(context, pc):
                return self.steps(hart, min(left, COLD_STEPS), context.installed[context.native])
            translation = self._translate(context, pc)
        if translation is None:
            return self.steps(hart, min(left, COLD_STEPS), context.installed[context.native])
        context.install(translation)
        return None

    @staticmethod
    def _is_inside(context: JitContext, pc: int) -> bool:
        """Whether translated code of this hart leads over a pc: then it is entered again before long."""
        installed = context.installed[context.native].values()
        return any(translation.region.holds(pc) for translation in {id(each): each for each in installed}.values())

    def _entered(self, context: JitContext, pc: int) -> frozenset[int]:
        """Where translated code of this hart is entered, if it leads over `pc`: code that begins there goes no further.

        So a loop in which a turn has ended keeps the code that begins where it does, and measures it.
        """
        return frozenset(context.installed[context.native]) if self._is_inside(context, pc) else frozenset()

    def _find(self, context: JitContext, pc: int, *, alone: bool = False) -> Translation | None:
        """A translation made earlier (for any hart) that fits what this hart sees now."""
        versions = self.translations.get((pc, context.native, context.hart.isa, alone))
        if not versions:
            return None
        home, others = context.hart.words[RETURN_ADDRESS], frozenset() if alone else self._entered(context, pc)
        for translation in versions:
            region = translation.region
            if region.holds(home) or others & region.blocks.keys() or not self.takes_all(context, region):
                continue
            if not all(self._sees(context, address, code) for address, code in translation.snapshot):
                continue
            if not self.coherent or self._guard_all(context, translation.region):
                return translation
        return None

    def takes(self, context: JitContext, pc: int, insn: Insn) -> bool:
        """Whether an instruction may be executed in translated code of a hart."""
        return True

    def takes_all(self, context: JitContext, region: Region) -> bool:
        """Whether those of a region may."""
        return True

    def _translate(self, context: JitContext, pc: int, *, alone: bool = False) -> Translation | None:
        """A translation of what begins at `pc`, or of that one instruction `alone`; None where there can be none."""
        home = context.hart.words[RETURN_ADDRESS]

        def fetch(at: int) -> Insn | None:
            is_left = self.limit is not None and at >= self.limit
            insn = None if is_left or (alone and at != pc) else self.peek_insn(context, at)
            return insn if insn is not None and self.takes(context, at, insn) else None

        region = discover(pc, fetch, frozenset({home}), context.native)
        others = frozenset() if alone else self._entered(context, pc)
        if others & region.blocks.keys():
            shorter = discover(pc, fetch, others | {home}, context.native)
            if shorter.polls == {at for at in region.polls if shorter.holds(at)}:  # that is known of whole loops
                region = shorter
        if not region.blocks or (self.coherent and not self._guard_all(context, region)):
            return None
        region.refills = self.tlb_entries is not None
        if region.uses_vectors:
            region.vlen, region.vtype = context.hart.vlen, context.hart.words[VTYPE]
        key = region_key(region, context.native, llvm.QUICK, self._more)
        versions = self.translations.setdefault((pc, context.native, context.hart.isa, alone), [])
        for translation in versions:
            if translation.key == key:  # but memory cannot be compared with it
                return translation
        if self._counters is not None and not self._counters.give(region):
            return None
        tier = llvm.QUICK if self.tier is None else self.tier
        if (
            self.tier is None
            and self.cache.get(region_key(region, context.native, llvm.OPTIMISED, self._more)) is not None
        ):
            tier = llvm.OPTIMISED
        code = self._compile(region, context.native, tier)
        snapshot = snapshot_of(region)
        translation = Translation(region, key, context.native, snapshot, tier, code, code.address("region"))
        versions.append(translation)
        del versions[:-MAX_VERSIONS]  # harts that still have one keep it
        return translation

    def _compile(self, region: Region, native_float: bool, tier: int) -> llvm.Code:
        key = region_key(region, native_float, tier, self._more)
        image = self.cache.get(key)
        if image is None:
            features = llvm.host_features()
            text = RegionEmitter(region, features, native_float, self._perform, self._look, self._noting).text()
            image = llvm.compile_ir(text, tier)
            self.cache.put(key, image)
        return llvm.Code(image)

    def _guard_all(self, context: JitContext, region: Region) -> bool:
        return all(
            self.guard(context, max(first, page), min(last, page + PAGE_SIZE) - max(first, page))
            for first, last in region.spans
            for page in range(first & -PAGE_SIZE, last, PAGE_SIZE)
        )

    def _sees(self, context: JitContext, address: int, code: bytes) -> bool:
        """Whether this hart's memory holds `code` at `address`."""
        done = 0
        while done < len(code):
            at = address + done
            room = min(len(code) - done, PAGE_SIZE - at % PAGE_SIZE)
            try:
                addend = context.hart.port.page(at, "load") if at < LIMIT else None
            except AccessFault:
                return False
            if addend is None or ctypes.string_at((at + addend) & MASK64, room) != code[done : done + room]:
                return False
            done += room
        return True

    # -- tiers --------------------------------------------------------------------------------------------------

    def _slice_end(self, context: JitContext) -> None:
        """Between slices: take up better code, ask for it, and let slices grow."""
        translation = context.installed[context.native].get(context.hart.pc)
        if translation is not None:
            self._tier_up(translation)
        pending = self._heat(context) if context.work >= HOT else self._refresh(context)
        context.slice = min(context.slice, PENDING_SLICE) if pending else min(context.slice * 2, LAST_SLICE)

    def _heat(self, context: JitContext) -> bool:
        """This hart has worked enough to have all its code optimised; whether some is not ready yet."""
        context.work = 0
        for translation in context.translations():
            self._tier_up(translation)
        return self._refresh(context)

    def _refresh(self, context: JitContext) -> bool:
        """Take up the better code that is ready; whether some is not yet."""
        pending = False
        for translation in context.translations():
            if translation.better is not None and translation.better.done():
                self._take_up(translation)
            pending |= translation.better is not None
        for native, known in context.installed.items():
            table = context.tables[native]
            for pc, translation in known.items():
                slot = (pc >> 1) & (SLOTS - 1)
                if table[slot, 0] == pc:
                    table[slot, 1] = translation.address
        return pending

    def _tier_up(self, translation: Translation) -> None:
        if self.tier is not None or translation.tier != llvm.QUICK or translation.better is not None:
            return
        if self._workers is None:
            self._workers = ThreadPoolExecutor(max_workers=1, thread_name_prefix="understudy-compile")
        translation.better = self._workers.submit(
            self._compile, translation.region, translation.native_float, llvm.OPTIMISED
        )

    def _take_up(self, translation: Translation) -> None:
        assert translation.better is not None
        code = translation.better.result()
        translation.old.append(translation.code)  # another hart may still be running it
        translation.code, translation.address = code, code.address("region")
        translation.tier, translation.better = llvm.OPTIMISED, None
