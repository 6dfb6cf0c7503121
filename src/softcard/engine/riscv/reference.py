"""The reference engine, which evaluates the semantics of one instruction at a time.

It is slow and simple, and the other engines must agree with it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from softcard.core.errors import AccessFault, BeyondModel, ModelBug
from softcard.core.space import PAGE_BITS, PAGE_SIZE
from softcard.core.threads import reset_after_fork
from softcard.engine.hooks import Executions
from softcard.engine.riscv.api import CAUSES, FETCH_ACCESS, ILLEGAL, Alone, Exit, Trap, Why
from softcard.engine.riscv.evaluate import Evaluator
from softcard.engine.riscv.pages import LIMIT, MASK64, PageTables, peek
from softcard.engine.riscv.polling import is_poll
from softcard.isa.riscv import csr
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.decode import decode, length
from softcard.isa.riscv.insn import IllegalInstruction, Insn
from softcard.isa.riscv.port import is_caching
from softcard.isa.riscv.state import (
    FOREVER,
    NO_ADDRESS,
    PC,
    POLLS,
    RESERVED_ADDRESS,
    RETIRED,
    RETURN_ADDRESS,
    Hart,
)
from softcard.isa.riscv.unitstate import FLOAT_EXTENSIONS, FLOATS

OnRetire = Callable[[Hart, Insn], None]
Observe = Callable[[Evaluator], Evaluator]
"""A function that takes a hart's evaluator and returns one that checks observe."""

ICACHE_ENTRIES = 1024
"""The number of instruction-cache entries of the RefSi simulator; a pc has the entry (pc / 2) modulo this number."""
GRANULE = 8
"""The size in bytes of the aligned block that a reservation covers."""
TIME_SLICE = 10_000
"""The number of instructions after which a hart's thread releases the engine's lock to let other harts run."""


@dataclass(slots=True)
class Cached:
    """A decoded instruction in a hart's cache."""

    pc: int
    insn: Insn
    semantics: Callable[[Any, Insn], None]
    is_float: bool
    polls: bool | None = None
    """True if the instruction branches back to begin another iteration of a polling loop; None if not known yet."""


class Context:
    """An engine's state of one hart: its evaluator, page tables and decoded instructions."""

    def __init__(self, owner: ReferenceEngine, hart: Hart, pages: PageTables, evaluator: Evaluator) -> None:
        self.owner = owner
        self.hart = hart
        self.pages = pages
        self.evaluator = evaluator
        self.code: dict[int, Cached] = {}

    def close(self) -> None:
        """Release the memory of the context, for a hart that does not run on this engine any more."""
        self.pages.close()
        self.hart.context = None

    def forget(self) -> None:
        """Drop everything that was made from code which may have changed."""
        self.code.clear()


class ReferenceEngine:
    """An engine that runs a hart by evaluating the semantics of instructions, one at a time.

    - `coherent`: if true, a store changes code immediately, even if that code was fetched before. Otherwise the
      old code runs until `flush_code` is called.
    - `tlb_entries`: if given, the engine behaves like the RefSi reference simulator. That simulator keeps
      address translations in a direct-mapped cache with this many entries, and decoded instructions in one
      with 1,024 entries, until they are flushed. A trap flushes both caches, too.
    - `on_retire`: called after every retired instruction.
    - `counting`: if true, `instruction_counts` returns the number of times that each instruction retired.
    - `observe`: a function that returns the evaluator that executes a hart's instructions, which checks observe."""

    def __init__(
        self,
        coherent: bool = True,
        tlb_entries: int | None = None,
        on_retire: OnRetire | None = None,
        counting: bool = False,
        observe: Observe | None = None,
    ) -> None:
        self.coherent = coherent
        self.tlb_entries = tlb_entries
        self.on_retire = on_retire
        self.observe = observe
        self._executions = Executions() if counting else None
        self._executed: dict[int, Insn] = {}
        self.between_slices: Callable[[Hart], None] | None = None
        self.compiling_seconds = 0.0
        self.interpreted = 0
        self.code_pages: set[int] = set()
        self._contexts: weakref.WeakSet[Context] = weakref.WeakSet()
        self._lock = threading.RLock()
        reset_after_fork(self)

    def __repr__(self) -> str:
        return "<reference engine of harts>"

    def after_fork(self) -> None:
        """Reset the state in a child process, where no other thread holds the lock."""
        self._lock = threading.RLock()

    # -- the engine contract ------------------------------------------------------------------------------------

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of times that the instruction at each pc has retired; see `executions`."""
        return dict(self.executions().counts)

    def executions(self) -> Executions:
        """Return the executions of the instruction at each pc; raise `ModelBug` if the engine does not count them."""
        if self._executions is None:
            raise ModelBug("the engine does not count instructions: make it with counting=True")
        return self._executions.copy()

    def executed(self) -> dict[int, Insn]:
        """Return the instruction at each pc in `instruction_counts`; if a pc had several, return one of them."""
        return dict(self._executed)

    def run(self, hart: Hart, fuel: int) -> Exit:
        """Run a hart for at most `fuel` instructions, or until its time slice ends for another reason; return the
        exit."""
        for left in range(fuel, 0, -TIME_SLICE):
            if self.between_slices is not None and left < fuel:
                self.between_slices(hart)
            with self._lock:  # memory and devices at ports see one hart at a time
                exit_ = self.steps(hart, min(left, TIME_SLICE))
            if exit_ is not None:
                return exit_
        return self.time_slice_end(hart)

    @property
    def translates(self) -> bool:
        """False: this engine has no translated code."""
        return False

    def translated(self, hart: Hart) -> int:
        """Raise a `ModelBug`: this engine has no translated code."""
        raise ModelBug("the reference engine translates nothing")

    def worked(self, hart: Hart, instructions: int) -> None:
        """Do nothing, because this engine does not optimise code."""

    def time_slice_end(self, hart: Hart) -> Exit:
        """Return the exit of a hart that used up its fuel, and end its reservation.

        Other harts may store to the reserved bytes before it continues.
        """
        if hart.pc == hart.words[RETURN_ADDRESS]:
            return Exit(Why.RETURN, hart.pc)
        hart.words[RESERVED_ADDRESS] = NO_ADDRESS
        return Exit(Why.FUEL, hart.pc)

    def flush_code(self, hart: Hart) -> None:
        """Drop cached instructions of `hart`."""
        self.context(hart).code.clear()

    def flush_pages(self, hart: Hart) -> None:
        """Drop cached page translations of `hart`.

        Also drop its decoded instructions, unless the engine keeps stale code until `flush_code`.
        """
        context = self.context(hart)
        context.pages.flush()
        if self.coherent or self.tlb_entries is not None:
            self.flush_code(hart)

    def code_synced(self) -> None:
        """Do nothing, because `flush_code` is called for each hart."""

    def trapped(self, hart: Hart) -> None:
        """Empty the simulated translation buffer and instruction cache, as the RefSi simulator does at a trap.

        Without `tlb_entries` there is nothing to do.
        """
        if self.tlb_entries is not None:
            self.context(hart).pages.empty()
            self.flush_code(hart)

    def remapped(self) -> None:
        """Clear all cached differences between host and guest addresses: addresses may map to other memory now.

        Pages in the simulated translation buffers keep their entries."""
        for context in list(self._contexts):
            context.pages.remapped()

    def close(self) -> None:
        """Release the contexts of harts; a hart that runs afterwards gets a new one."""
        for context in list(self._contexts):
            context.close()
        self.code_pages.clear()

    def code_written(self, host_address: int, size: int) -> None:
        """End the reservations of these bytes, which were written, and drop instructions cached from their pages."""
        self._break_reservations(host_address, size)
        if not self.coherent or not self.code_pages:
            return
        first, last = host_address >> PAGE_BITS, (host_address + max(size, 1) - 1) >> PAGE_BITS
        if last - first > len(self.code_pages):
            touched = any(first <= page <= last for page in self.code_pages)
        else:
            touched = any(page in self.code_pages for page in range(first, last + 1))
        if touched:
            self.drop_code(first, last)

    def code_exposed(self, holds: Callable[[int, int], bool]) -> None:
        """Drop instructions cached from pages that may have been written without notice."""
        if self.coherent:
            for page in [page for page in self.code_pages if holds(page << PAGE_BITS, PAGE_SIZE)]:
                self.code_written(page << PAGE_BITS, PAGE_SIZE)

    # -- one hart -----------------------------------------------------------------------------------------------

    def context(self, hart: Hart) -> Context:
        """Return the engine's state for `hart`, created on first use."""
        context = hart.context
        if isinstance(context, Context) and context.owner is self:
            return context
        with self._lock:
            pages = PageTables(hart, self.code_pages, self.tlb_entries)
            evaluator: Any = self.make_evaluator(hart, pages)
            context = self.make_context(hart, pages, evaluator if self.observe is None else self.observe(evaluator))
            hart.context = context
            self._contexts.add(context)
        return context

    def make_context(self, hart: Hart, pages: PageTables, evaluator: Evaluator) -> Context:
        """Return a new `Context` for a hart; subclasses return a `Context` of their own class."""
        return Context(self, hart, pages, evaluator)

    def make_evaluator(self, hart: Hart, pages: PageTables) -> Evaluator:
        """Return a new `Evaluator` for a hart; subclasses may return one with additions."""
        return Evaluator(hart, pages, self._stored, self._fenced)

    def steps(self, hart: Hart, fuel: int, entries: Container[int] = (), least_steps: int | None = None) -> Exit | None:
        """Execute at most `fuel` instructions; return None when they are used up or pc is in `entries`.

        With `least_steps`, also stop at the first taken control transfer after that many instructions.
        """
        context = self.context(hart)
        o, words, hook, executions = context.evaluator, hart.words, self.on_retire, self._executions
        for done in range(fuel):
            pc = words[PC]
            if pc == words[RETURN_ADDRESS]:
                return Exit(Why.RETURN, pc)
            if done and pc in entries:
                return None
            try:
                cached = self.cached(context, pc) or self._fetch(context, pc)
            except Trap as trap:
                return self._trap(context, pc, trap.cause, trap.value, trap.error)
            except IllegalInstruction as error:
                return self._trap(context, pc, ILLEGAL, error.word, error)
            except BeyondModel as error:
                raise error.at("pc", pc).at("hart", hart.index) from None
            insn = cached.insn
            o.begin(pc, insn)
            try:
                if cached.is_float:
                    FLOATS.use(hart)
                cached.semantics(o, insn)
            except Trap as trap:
                return self._trap(context, pc, trap.cause, trap.value, trap.error, insn)
            except Alone:
                return Exit(Why.ALONE, pc)
            except IllegalInstruction as error:
                return self._trap(context, pc, ILLEGAL, insn.word, error, insn)
            except BeyondModel as error:
                raise error.at("pc", pc, text(insn, pc)).at("hart", hart.index) from None
            words[PC] = o.target
            words[RETIRED] += 1
            self.interpreted += 1
            if executions is not None:
                executions.counts[pc] += 1
                if o.target != o.next_pc and insn.spec.flow == "branch":
                    executions.taken[pc] += 1
                self._executed[pc] = insn
            if hook is not None:
                hook(hart, insn)
            if o.waiting:
                o.waiting = False
                words[RESERVED_ADDRESS] = NO_ADDRESS
                return Exit(Why.WAIT, o.target)
            if o.target <= pc and words[POLLS] != FOREVER and self._polls(context, cached):
                if not words[POLLS]:
                    words[RESERVED_ADDRESS] = NO_ADDRESS
                    return Exit(Why.WAIT, o.target)
                words[POLLS] -= 1
            if least_steps is not None and done >= least_steps and o.target != o.next_pc:
                return None
        if words[PC] == words[RETURN_ADDRESS]:
            return Exit(Why.RETURN, words[PC])
        return None

    def cached(self, context: Context, pc: int) -> Cached | None:
        """Return the instruction at `pc` in this hart's instruction cache; None if it is not there."""
        cached = context.code.get(pc if self.tlb_entries is None else (pc >> 1) % ICACHE_ENTRIES)
        return cached if cached is not None and cached.pc == pc else None

    def _polls(self, context: Context, cached: Cached) -> bool:
        """Return True if an instruction that has just branched back began another iteration of a polling loop."""
        if cached.polls is None:
            cached.polls = is_poll(cached.pc, cached.insn, lambda at: self.peek_insn(context, at))
        return cached.polls

    def peek_insn(self, context: Context, pc: int) -> Insn | None:
        """Return the instruction that this hart would execute at `pc`, or None if that would trap."""
        cached = self.cached(context, pc)
        if cached is not None:
            return cached.insn
        try:
            word = self._peek_parcel(context.hart, pc)
            if word is not None and length(word) == 4:
                upper = self._peek_parcel(context.hart, (pc + 2) & MASK64)
                word = None if upper is None else word | upper << 16
            return None if word is None else decode(word, context.hart.isa)
        except (AccessFault, IllegalInstruction, BeyondModel):
            return None

    def _peek_parcel(self, hart: Hart, address: int) -> int | None:
        """Return the halfword of code at `address` without executing it.

        Return None if reading it could have side effects."""
        if self._addend(hart, address) is None and not is_caching(hart.port):
            return None
        return hart.port.fetch(address)

    def _break_reservations(self, host_address: int, size: int) -> None:
        """End the reservations of all harts on these bytes, which were written.

        The RefSi simulator does not notice such writes, so that reservations stay if `tlb_entries` is set.
        """
        if self.tlb_entries is not None:
            return
        for context in self._contexts:
            words = context.hart.words
            reserved = words[RESERVED_ADDRESS]
            if reserved == NO_ADDRESS:
                continue
            addend = self._addend(context.hart, reserved)
            if addend is None:  # reached through its port: its host address is unknown
                words[RESERVED_ADDRESS] = NO_ADDRESS
                continue
            granule = (reserved + addend & MASK64) & -GRANULE
            if granule < host_address + size and host_address < granule + GRANULE:
                words[RESERVED_ADDRESS] = NO_ADDRESS

    def _fetch(self, context: Context, pc: int) -> Cached:
        word = self._parcel(context, pc)
        if length(word) == 4:
            word |= self._parcel(context, (pc + 2) & MASK64) << 16
        insn = decode(word, context.hart.isa)
        cached = Cached(pc, insn, insn.spec.semantics, insn.spec.extension in FLOAT_EXTENSIONS)
        if self.tlb_entries is not None:
            context.code[(pc >> 1) % ICACHE_ENTRIES] = cached
        elif not self.coherent or self.guard(context, pc, insn.length):
            context.code[pc] = cached
        return cached

    def _parcel(self, context: Context, address: int) -> int:
        pages = context.pages
        if address < 1 << 32:
            entry = pages.load[address >> PAGE_BITS]
            if entry and self.tlb_entries is not None:
                return peek((address + entry) & MASK64, 2)
        try:
            return context.hart.port.fetch(address)
        except AccessFault as fault:
            raise Trap(FETCH_ACCESS, address, fault) from None

    def guard(self, context: Context, pc: int, size: int) -> bool:
        """Protect the pages of cached instructions, so that stores to them are noticed; return False if impossible.

        The instructions have `size` bytes from `pc` on, which lie in at most two pages of this process.
        """
        for address in (pc, pc + size - 1):
            entry = self._addend(context.hart, address)
            if entry is None:
                return False
            page = ((address + entry) & MASK64) >> PAGE_BITS
            if page not in self.code_pages:
                self.code_pages.add(page)
                for other in self._contexts:
                    other.pages.protect(page)
        return True

    def drop_code(self, first_page: int, last_page: int) -> None:
        """Drop the cached code of every hart, because code in host pages `first_page` to `last_page` has changed."""
        with self._lock:
            for page in [page for page in self.code_pages if first_page <= page <= last_page]:
                self.code_pages.discard(page)
            for context in self._contexts:
                context.forget()

    def _fenced(self, hart: Hart, code: bool) -> None:
        """Drop what a fence invalidates: cached instructions for fence.i (`code`), else address translations."""
        if code or self.tlb_entries is None:
            self.flush_code(hart)
        else:
            self.flush_pages(hart)

    def _stored(self, pages: PageTables, address: int, size: int) -> None:
        """Drop cached code that a store of `size` bytes through the port may have changed."""
        if self.coherent and self.code_pages:
            entry = self._addend(pages.hart, address)
            if entry is not None:
                self.code_written((address + entry) & MASK64, size)

    def _addend(self, hart: Hart, address: int) -> int | None:
        """Return the host address minus the guest address if `hart` reads `address` directly; else None."""
        try:
            return hart.port.page(address, "load") if address < LIMIT else None
        except AccessFault:
            return None

    def _trap(
        self, context: Context, pc: int, cause: int, value: int, error: Exception | None, insn: Insn | None = None
    ) -> Exit:
        csr.enter_trap(context.hart, cause, pc, value)
        self.trapped(context.hart)
        detail = str(error) if error is not None else CAUSES.get(cause, f"cause {cause}")
        base = 0 if insn is None else context.hart.x(insn.rs1)
        return Exit(Why.TRAP, pc, cause, value, detail, error, insn, base)
