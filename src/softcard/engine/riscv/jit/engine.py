"""The JIT engine: it translates regions of guest code to host code; the reference engine does the rest.

Code has three tiers. Cold code runs on the reference engine. Code that runs more often is compiled quickly. Hot code is
compiled again with optimisation by a background thread, and the new code is used from the next slice boundary on.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final

from softcard.core.errors import AccessFault, ModelBug
from softcard.core.space import PAGE_SIZE
from softcard.engine.hooks import Executions
from softcard.engine.riscv.api import Exit, Why
from softcard.engine.riscv.evaluate import Evaluator
from softcard.engine.riscv.hooks import PLAIN, Instrumentation
from softcard.engine.riscv.jit.counters import Counters
from softcard.engine.riscv.jit.dispatcher import (
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
from softcard.engine.riscv.jit.emit_region import RegionEmitter
from softcard.engine.riscv.jit.region import Region, discover, region_key
from softcard.engine.riscv.jit.translation import JitContext, Translation, snapshot_of
from softcard.engine.riscv.pages import LIMIT, MASK64, PageTables, peek
from softcard.engine.riscv.reference import Context, Observe, OnRetire, ReferenceEngine
from softcard.ir import llvm
from softcard.ir.background import BACKGROUND
from softcard.ir.compile_process import PROCESS
from softcard.ir.llvm import HARTS, warn_where_slow
from softcard.ir.native import link
from softcard.ir.object_cache import ObjectCache, default_folder
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.isa import MISALIGNED, Isa
from softcard.isa.riscv.state import (
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
"""The number of instructions of a slice while optimised code is being compiled."""
HOT: Final = 300_000
"""The number of instructions a hart executes in quickly compiled code before that code is optimised."""
COLD_VISITS: Final = 2
COLD_STEPS: Final = 400
INSIDE_VISITS: Final = 1000
"""The number of time slices that must end at a pc within translated code before code is compiled from that pc on."""
END_VISITS: Final = 100
"""The number of time slices that run short of fuel at a pc before code from there on is translated singly.

Such translations contain one instruction each.
"""
MOST_COLD_STEPS: Final = 100
MAX_VERSIONS: Final = 16
"""The maximum number of translations cached for one pc: guests that rewrite code would otherwise fill memory."""


FUNCTIONS: Final = (dispatch, exchange32, exchange64, refill)


class Runtime:
    """The dispatcher and other guest-independent code, which is compiled once per process and cache."""

    def __init__(self, cache: ObjectCache) -> None:
        self._code = link(cache, *FUNCTIONS)
        word, pointer = ctypes.c_uint64, ctypes.c_void_p
        self.dispatch: Callable[[int], int] = self._code.function("dispatch", word, pointer)
        self.address = self._code.address("dispatch")
        self.refill = self._code.address("refill")
        self.compare_exchange = {w: self._code.function(f"exchange{w}", word, pointer, word, word) for w in (32, 64)}


@cache
def _shared_runtime(folder: Path | None) -> Runtime:
    """Return the runtime that all engines of this process share."""
    return Runtime(ObjectCache(folder))


class SharingEvaluator(Evaluator):
    """An evaluator whose exchanges are atomic with respect to translated code on other threads."""

    compare_exchange: dict[int, Callable[[int, int, int], int]]

    def exchange(self, host: int, w: int, new: Callable[[int], int]) -> int:
        """Atomically replace the `w`-bit word at a host address by `new` of the old value; return the old value."""
        old = peek(host, w >> 3)
        while (seen := self.compare_exchange[w](host, old, new(old))) != old:
            old = seen
        return old


class JitEngine(ReferenceEngine):
    """Runs harts as machine code of the host.

    - `coherent`, `tlb_entries`, `on_retire`, `counting` and `observe` are as for `ReferenceEngine`; with `on_retire`
      everything runs on the reference engine.
    - `tier` is `llvm.QUICK` or `llvm.OPTIMISED`: all code is then compiled at that tier when it is first executed. By
      default the tier rises as code gets hot.
    - `cache` is the cache of compiled objects, by default in the user's cache folder.
    - `instrumentation` is the code that checks insert into translated code.
    """

    def __init__(
        self,
        coherent: bool = True,
        tlb_entries: int | None = None,
        on_retire: OnRetire | None = None,
        tier: int | None = None,
        cache: ObjectCache | None = None,
        counting: bool = False,
        observe: Observe | None = None,
        instrumentation: Instrumentation = PLAIN,
    ) -> None:
        super().__init__(coherent, tlb_entries, on_retire, counting, observe)
        self._instrumentation = instrumentation
        self._more = " ".join(instrumentation.names)
        self._counters = Counters() if counting else None
        self.tier = tier
        self.limit: int | None = None
        """The address from which on all code runs on the reference engine; used to bisect differences between engines.
        """
        self.cache = cache if cache is not None else ObjectCache(default_folder())
        self.translations: dict[tuple[int, bool, Isa, bool], list[Translation]] = {}
        """Translations by pc, native-float flag, instruction set, and a flag that is true for code of a single
        instruction."""
        warn_where_slow(HARTS)
        self._is_native = llvm.is_x86()
        if self._is_native:  # here, so that LLVM is loaded when a device is opened and not at its first kernel
            self.runtime = _shared_runtime(self.cache.folder)

    def __repr__(self) -> str:
        return "<JIT engine of harts>"

    def after_fork(self) -> None:
        """Reset the state in a child process, which has no background thread.

        The code that the thread was compiling is submitted again when it is needed.
        """
        super().after_fork()
        for versions in self.translations.values():
            for translation in versions:
                if translation.better is not None and not translation.better.done:
                    translation.better = None

    # -- the engine contract ------------------------------------------------------------------------------------

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of times that the instruction at each pc has retired; see `executions`."""
        return dict(self.executions().counts)

    def executions(self) -> Executions:
        """Return the executions of the instruction at each pc; raise `ModelBug` if the engine does not count them."""
        found = super().executions()
        return found if self._counters is None else found + self._counters.executions()

    def executed(self) -> dict[int, Insn]:
        """Return the instruction at each pc in `instruction_counts`; if a pc had several, return one of them."""
        return super().executed() | ({} if self._counters is None else self._counters.executed())

    def run(self, hart: Hart, fuel: int) -> Exit:
        """Run a hart for at most `fuel` instructions, or until its time slice ends for another reason; return the
        exit."""
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
                self._optimise_hot(context)
                return self._ended(hart, why)
            if why == OUT_OF_FUEL and left > 0 and used + left > slice_:
                with self._lock:
                    self._slice_end(context)
                continue
            before = words[RETIRED]
            with self._lock:  # memory and devices at ports see one hart at a time
                exit_ = self._leave(context, why, left)
            left -= words[RETIRED] - before
            if exit_ is not None:
                return exit_
        self._optimise_hot(context)
        return self.time_slice_end(hart)

    @staticmethod
    def _ended(hart: Hart, why: int) -> Exit:
        """Return the exit of a time slice that ends with fuel left.

        The exit code `why` says that the hart has returned, or has reached its poll limit."""
        words = hart.words
        if why == RETURNED:
            return Exit(Why.RETURN, words[PC])
        words[RESERVED_ADDRESS] = NO_ADDRESS
        return Exit(Why.WAIT, words[PC])

    @property
    def translates(self) -> bool:
        """True if the engine has translated code for harts."""
        return self.on_retire is None and self._is_native

    def translated(self, hart: Hart) -> int:
        """Return the address of the dispatcher, after selecting the table of code for the hart's float mode."""
        context = self.context(hart)
        assert isinstance(context, JitContext)
        context.choose()
        return self.runtime.address

    def worked(self, hart: Hart, instructions: int) -> None:
        """Count the instructions that a hart has retired, and submit hot code for optimisation."""
        context = self.context(hart)
        assert isinstance(context, JitContext)
        context.work += instructions
        self._optimise_hot(context)

    def _optimise_hot(self, context: JitContext) -> None:
        """Submit hot code for optimisation at the end of a time slice.

        Within a long time slice, this engine also submits hot code after each of its shorter slices."""
        if context.work >= HOT:
            with self._lock:
                self._optimise_all(context)

    def _leave(self, context: JitContext, why: int, left: int) -> Exit | None:
        """Handle an exit of translated code with exit code `why`, and execute at most `left` instructions.

        Return the exit from the engine if the time slice has ended, else None.
        """
        hart = context.hart
        if why == OUT_OF_FUEL:
            return self._end_time_slice(context, left)
        if why == STEP:
            exit_ = self.steps(hart, min(left, COLD_STEPS), context.installed[context.native])
        elif why == MISS:
            exit_ = self._miss(context, left)
        else:
            raise ModelBug(f"translated code returned unknown exit code {why}")
        context.choose()
        return exit_

    def _end_time_slice(self, context: JitContext, left: int) -> Exit | None:
        """Execute the last `left` instructions of a time slice.

        They are too few for translated code that does not check fuel after each instruction.
        """
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
        """Return True if translated code for the single instruction at `pc` is installed; install it if possible."""
        translation = self._find(context, pc, alone=True) or self._translate(context, pc, alone=True)
        if translation is None:
            return False
        context.install_single(translation)
        return True

    def flush_code(self, hart: Hart) -> None:
        """Drop cached instructions of `hart`.

        Compiled code is used again if memory still holds the same instructions.
        """
        super().flush_code(hart)
        context = self.context(hart)
        assert isinstance(context, JitContext)
        context.uninstall()

    def close(self) -> None:
        """Release the contexts of harts, and stop compiling."""
        super().close()
        self.translations.clear()

    def make_context(self, hart: Hart, pages: PageTables, evaluator: Evaluator) -> Context:
        """Return a `JitContext` for a hart, after preparing the hart to run translated code."""
        if llvm.is_x86():
            hart.words[REFILL] = self.runtime.refill
            hart.words[COUNTS] = 0 if self._counters is None else self._counters.address(hart.index)
        if self._instrumentation.prepare is not None:
            self._instrumentation.prepare(hart)
        return JitContext(self, hart, pages, evaluator)

    def make_evaluator(self, hart: Hart, pages: PageTables) -> Evaluator:
        """Return an evaluator for a hart; on x86 its exchanges are atomic with respect to translated code."""
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
                return self.steps(hart, min(left, COLD_STEPS), context.installed[context.native], MOST_COLD_STEPS)
            if self.tier is None and visits <= INSIDE_VISITS and self._is_inside(context, pc):
                return self.steps(hart, min(left, COLD_STEPS), context.installed[context.native])
            translation = self._translate(context, pc)
        if translation is None:
            return self.steps(hart, min(left, COLD_STEPS), context.installed[context.native])
        context.install(translation)
        return None

    @staticmethod
    def _is_inside(context: JitContext, pc: int) -> bool:
        """Return True if installed translated code of this hart contains `pc`.

        Execution will enter that code again soon.
        """
        installed = context.installed[context.native].values()
        return any(translation.region.holds(pc) for translation in {id(each): each for each in installed}.values())

    def _entered(self, context: JitContext, pc: int) -> frozenset[int]:
        """Return the entry points of this hart's translated code if that code contains `pc`; else return an empty set.

        New code that begins at `pc` ends at these entry points. This keeps a loop's existing code, with hoisted
        tests, in use if a time slice has ended within the loop."""
        return frozenset(context.installed[context.native]) if self._is_inside(context, pc) else frozenset()

    def _find(self, context: JitContext, pc: int, *, alone: bool = False) -> Translation | None:
        """Return an existing translation, made for any hart, that matches this hart's memory, or None.

        With `alone`, the translation is one of the single instruction at `pc`.
        """
        versions = self.translations.get((pc, context.native, context.hart.isa, alone))
        if not versions:
            return None
        return_address, others = (
            context.hart.words[RETURN_ADDRESS],
            frozenset() if alone else self._entered(context, pc),
        )
        for translation in versions:
            region = translation.region
            if region.holds(return_address) or others & region.blocks.keys() or not self.takes_all(context, region):
                continue
            if not all(self._sees(context, address, code) for address, code in translation.snapshot):
                continue
            if not self.coherent or self._guard_all(context, translation.region):
                return translation
        return None

    def takes(self, context: JitContext, pc: int, insn: Insn) -> bool:
        """Return True if a hart's translated code may contain this instruction."""
        return True

    def takes_all(self, context: JitContext, region: Region) -> bool:
        """Return True if a hart's translated code may contain all instructions of this region."""
        return True

    def _translate(self, context: JitContext, pc: int, *, alone: bool = False) -> Translation | None:
        """Return a translation of the code at `pc`, or None if that is impossible.

        With `alone`, only the single instruction at `pc` is translated.
        """
        return_address = context.hart.words[RETURN_ADDRESS]

        def fetch(at: int) -> Insn | None:
            is_left = self.limit is not None and at >= self.limit
            insn = None if is_left or (alone and at != pc) else self.peek_insn(context, at)
            return insn if insn is not None and self.takes(context, at, insn) else None

        region = discover(pc, fetch, frozenset({return_address}), context.native)
        others = frozenset() if alone else self._entered(context, pc)
        if others & region.blocks.keys():
            shorter = discover(pc, fetch, others | {return_address}, context.native)
            if shorter.polls == {at for at in region.polls if shorter.holds(at)}:  # a whole loop polls
                region = shorter
        if not region.blocks or (self.coherent and not self._guard_all(context, region)):
            return None
        region.refills = self.tlb_entries is not None
        region.misaligned = MISALIGNED in context.hart.isa
        if region.uses_vectors:
            region.vlen, region.vtype = context.hart.vlen, context.hart.words[VTYPE]
        key = region_key(region, context.native, llvm.QUICK, self._more)
        versions = self.translations.setdefault((pc, context.native, context.hart.isa, alone), [])
        for translation in versions:
            if translation.key == key:  # its code is in memory that cannot be compared
                return translation
        if self._counters is not None and not self._counters.give(region):
            return None
        tier = llvm.QUICK if self.tier is None else self.tier
        if (
            self.tier is None
            and self.cache.get(region_key(region, context.native, llvm.OPTIMISED, self._more)) is not None
        ):
            tier = llvm.OPTIMISED
        before = time.perf_counter()
        code = self._compile(region, context.native, tier)
        self.compiling_seconds += time.perf_counter() - before
        snapshot = snapshot_of(region)
        translation = Translation(region, key, context.native, snapshot, tier, code, code.address("region"))
        versions.append(translation)
        del versions[:-MAX_VERSIONS]  # harts that have installed a dropped one keep it
        return translation

    def _compile(
        self, region: Region, native_float: bool, tier: int, compile_ir: Callable[[str, int], bytes] = llvm.compile_ir
    ) -> llvm.Code:
        key = region_key(region, native_float, tier, self._more)
        image = self.cache.get(key)
        if image is None:
            features, parts = llvm.host_features(), self._instrumentation
            text = RegionEmitter(
                region, features, native_float, parts.perform, parts.access_check, parts.store_notes
            ).text()
            image = compile_ir(text, tier)
            self.cache.put(key, image)
        return llvm.Code(image)

    def _guard_all(self, context: JitContext, region: Region) -> bool:
        return all(
            self.guard(context, max(first, page), min(last, page + PAGE_SIZE) - max(first, page))
            for first, last in region.address_ranges
            for page in range(first & -PAGE_SIZE, last, PAGE_SIZE)
        )

    def _sees(self, context: JitContext, address: int, code: bytes) -> bool:
        """Return True if this hart's memory holds `code` at `address`."""
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
        """Install optimised code, submit more code for optimisation, and adapt the length of slices.

        This is called between two of the slices into which this engine divides a time slice."""
        translation = context.installed[context.native].get(context.hart.pc)
        if translation is not None:
            self._tier_up(translation)
        pending = self._optimise_all(context) if context.work >= HOT else self._refresh(context)
        context.slice = min(context.slice, PENDING_SLICE) if pending else min(context.slice * 2, LAST_SLICE)

    def _optimise_all(self, context: JitContext) -> bool:
        """Submit all translated code of a hart for optimisation.

        Return True if some optimised code is not ready yet.
        """
        context.work = 0
        for translation in context.translations():
            self._tier_up(translation)
        return self._refresh(context)

    def _refresh(self, context: JitContext) -> bool:
        """Install optimised code that is ready; return True if some is not ready yet."""
        pending = False
        for translation in context.translations():
            if translation.better is not None and translation.better.done:
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
        if not translation.is_unimprovable:
            translation.better = BACKGROUND.submit(partial(self._optimised, translation))

    def _optimised(self, translation: Translation) -> llvm.Code | None:
        """Compile the optimised code of a translation on the background thread.

        Return None if the translation is not used any more.
        """
        if not any(translation is each for versions in tuple(self.translations.values()) for each in versions):
            return None
        return self._compile(translation.region, translation.native_float, llvm.OPTIMISED, PROCESS.compile_ir)

    def _take_up(self, translation: Translation) -> None:
        assert translation.better is not None
        code, translation.better = translation.better.result(), None
        if code is None:  # harts continue with the present code
            translation.is_unimprovable = True
            return
        translation.old.append(translation.code)  # another hart may still be running it
        translation.code, translation.address = code, code.address("region")
        translation.tier = llvm.OPTIMISED
