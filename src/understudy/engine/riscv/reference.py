"""The reference engine: meanings evaluated one instruction at a time. Slow, obvious, the judge."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from understudy.core.errors import AccessFault, BeyondModel, ModelBug
from understudy.core.forks import tell_forks
from understudy.core.space import PAGE_BITS, PAGE_SIZE
from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.pages import LIMIT, MASK64, PageTables, peek
from understudy.engine.riscv.polling import is_poll
from understudy.engine.riscv.stops import CAUSES, FETCH_ACCESS, ILLEGAL, Alone, Exit, Trap, Why
from understudy.isa.riscv import csr, floatstate
from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.decode import decode, length
from understudy.isa.riscv.insn import IllegalInstruction, Insn
from understudy.isa.riscv.port import CachingPort
from understudy.isa.riscv.state import (
    FOREVER,
    NO_ADDRESS,
    PC,
    POLLS,
    RESERVED_ADDRESS,
    RETIRED,
    RETURN_ADDRESS,
    Hart,
)

OnRetire = Callable[[Hart, Insn], None]
Dress = Callable[[Evaluator], Any]
"""Makes of an evaluator one that does more: checks."""

ICACHE_ENTRIES = 1024
"""Instruction-cache entries of the reference simulator; index is (pc / 2) mod this."""
GRANULE = 8
"""Bytes that a reservation covers, at a multiple of their number."""
TURN = 10_000
"""Instructions after which a hart lets those on other threads have a turn."""


@dataclass(slots=True)
class Cached:
    """One decoded instruction as a hart's fetches see it."""

    pc: int
    insn: Insn
    meaning: Callable[[Any, Insn], None]
    is_float: bool
    polls: bool | None = None
    """Whether it goes back for another round of polling; None where nobody has asked yet."""


class Context:
    """What an engine keeps for one hart: its evaluator, page tables and decoded instructions."""

    def __init__(self, owner: ReferenceEngine, hart: Hart, pages: PageTables, evaluator: Evaluator) -> None:
        self.owner = owner
        self.hart = hart
        self.pages = pages
        self.evaluator = evaluator
        self.code: dict[int, Cached] = {}

    def close(self) -> None:
        """Give memory back: the hart runs no more on this engine."""
        self.pages.close()
        self.hart.context = None

    def forget(self) -> None:
        """Drop everything that came from code which may have changed."""
        self.code.clear()


class ReferenceEngine:
    """Runs a hart by evaluating meanings.

    `coherent`: stores into fetched code take effect at once (otherwise old code runs until `flush_code`).
    `tlb_entries`: behave as the RefSi reference's simulator: translations and decoded instructions are kept in
    direct-mapped caches of this many (and 1,024) entries until flushed, by a trap too.
    `on_retire` is called after every retired instruction. `counting`: `instruction_counts` tells how often each did.
    `dress` makes of a hart's evaluator what instructions are executed on.
    """

    def __init__(
        self,
        coherent: bool = True,
        tlb_entries: int | None = None,
        on_retire: OnRetire | None = None,
        counting: bool = False,
        dress: Dress | None = None,
    ) -> None:
        self.coherent = coherent
        self.tlb_entries = tlb_entries
        self.on_retire = on_retire
        self.dress = dress
        self._counts: Counter[int] | None = Counter() if counting else None
        self._executed: dict[int, Insn] = {}
        self.between_slices: Callable[[Hart], None] | None = None
        self.interpreted = 0
        self.code_pages: set[int] = set()
        self._contexts: weakref.WeakSet[Context] = weakref.WeakSet()
        self._lock = threading.RLock()
        tell_forks(self)

    def __repr__(self) -> str:
        return "<reference engine of harts>"

    def after_fork(self) -> None:
        """In a child process: no other thread has anything locked."""
        self._lock = threading.RLock()

    # -- the engine contract ------------------------------------------------------------------------------------

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each pc has retired, of an engine that counts them; a `ModelBug` of another."""
        if self._counts is None:
            raise ModelBug("this engine does not count instructions")
        return dict(self._counts)

    def executed(self) -> dict[int, Insn]:
        """The instruction at each pc that `instruction_counts` has: where there were several, one of them."""
        return dict(self._executed)

    def run(self, hart: Hart, fuel: int) -> Exit:
        """Execute from hart.pc until something happens, at most `fuel` instructions."""
        for left in range(fuel, 0, -TURN):
            if self.between_slices is not None and left < fuel:
                self.between_slices(hart)
            with self._lock:  # memory and devices behind ports see one hart at a time
                exit_ = self.steps(hart, min(left, TURN))
            if exit_ is not None:
                return exit_
        return self.turn_end(hart)

    @property
    def translates(self) -> bool:
        """Whether there is machine code for harts."""
        return False

    def translated(self, hart: Hart) -> int:
        """None."""
        raise ModelBug("the reference engine translates nothing")

    def worked(self, hart: Hart, instructions: int) -> None:
        """Nothing grows hot."""

    def turn_end(self, hart: Hart) -> Exit:
        """The exit of a hart that used up its fuel. Others may store before it goes on: its reservation ends."""
        if hart.pc == hart.words[RETURN_ADDRESS]:
            return Exit(Why.RETURN, hart.pc)
        hart.words[RESERVED_ADDRESS] = NO_ADDRESS
        return Exit(Why.FUEL, hart.pc)

    def flush_code(self, hart: Hart) -> None:
        """Forget cached instructions of `hart`."""
        self.context(hart).code.clear()

    def flush_pages(self, hart: Hart) -> None:
        """Forget cached page translations of `hart`, and decoded instructions unless they may be stale anyway."""
        context = self.context(hart)
        context.pages.flush()
        if self.coherent or self.tlb_entries is not None:
            self.flush_code(hart)

    def code_synced(self) -> None:
        """Harts that drop what they have cached are told so one by one."""

    def trapped(self, hart: Hart) -> None:
        """The simulator empties its translation buffer and instruction cache."""
        if self.tlb_entries is not None:
            self.context(hart).pages.empty()
            self.flush_code(hart)

    def remapped(self) -> None:
        """Nothing is known any more of pages that are not in a translation buffer."""
        for context in list(self._contexts):
            context.pages.remapped()

    def close(self) -> None:
        """Give back what was kept for harts; one that runs all the same is new to this engine."""
        for context in list(self._contexts):
            context.close()
        self.code_pages.clear()

    def code_written(self, host_address: int, size: int) -> None:
        """Somebody wrote these bytes of this process; drop reservations of them and instructions cached from their
        pages."""
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
        """Drop instructions cached from pages that somebody may have written without notice."""
        if self.coherent:
            for page in [page for page in self.code_pages if holds(page << PAGE_BITS, PAGE_SIZE)]:
                self.code_written(page << PAGE_BITS, PAGE_SIZE)

    # -- one hart -----------------------------------------------------------------------------------------------

    def context(self, hart: Hart) -> Context:
        """The engine's own state for `hart`, made at first sight."""
        context = hart.context
        if isinstance(context, Context) and context.owner is self:
            return context
        with self._lock:
            pages = PageTables(hart, self.code_pages, self.tlb_entries)
            evaluator: Any = self.make_evaluator(hart, pages)
            context = self.make_context(hart, pages, evaluator if self.dress is None else self.dress(evaluator))
            hart.context = context
            self._contexts.add(context)
        return context

    def make_context(self, hart: Hart, pages: PageTables, evaluator: Evaluator) -> Context:
        """This engine's kind of context."""
        return Context(self, hart, pages, evaluator)

    def make_evaluator(self, hart: Hart, pages: PageTables) -> Evaluator:
        """This engine's kind of evaluator."""
        return Evaluator(hart, pages, self._stored, self._fenced)

    def steps(self, hart: Hart, fuel: int, entries: Container[int] = (), patience: int | None = None) -> Exit | None:
        """Execute at most `fuel` instructions; None when the budget ends or pc is in `entries`.

        With `patience`, also stop at the first control transfer after that many instructions.
        """
        context = self.context(hart)
        o, words, hook, counts = context.evaluator, hart.words, self.on_retire, self._counts
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
                    floatstate.use(hart)
                cached.meaning(o, insn)
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
            if counts is not None:
                counts[pc] += 1
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
            if patience is not None and done >= patience and o.target != o.next_pc:
                return None
        if words[PC] == words[RETURN_ADDRESS]:
            return Exit(Why.RETURN, words[PC])
        return None

    def cached(self, context: Context, pc: int) -> Cached | None:
        """What this hart's instruction cache holds for `pc`."""
        cached = context.code.get(pc if self.tlb_entries is None else (pc >> 1) % ICACHE_ENTRIES)
        return cached if cached is not None and cached.pc == pc else None

    def _polls(self, context: Context, cached: Cached) -> bool:
        """Whether an instruction that went back did so for another round of polling."""
        if cached.polls is None:
            cached.polls = is_poll(cached.pc, cached.insn, lambda at: self.peek_insn(context, at))
        return cached.polls

    def peek_insn(self, context: Context, pc: int) -> Insn | None:
        """The instruction this hart would execute at `pc`, or None where that would trap."""
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
        """A parcel that may never be executed: None where reading it could have effects."""
        if self._addend(hart, address) is None and not isinstance(hart.port, CachingPort):
            return None
        return hart.port.fetch(address)

    def _break_reservations(self, host_address: int, size: int) -> None:
        """Somebody wrote these bytes: harts that reserved one of them lose their reservation.

        The reference's simulator does not notice such writes.
        """
        if self.tlb_entries is not None:
            return
        for context in self._contexts:
            words = context.hart.words
            reserved = words[RESERVED_ADDRESS]
            if reserved == NO_ADDRESS:
                continue
            addend = self._addend(context.hart, reserved)
            if addend is None:  # reached through its port: nobody knows where it lies
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
        cached = Cached(pc, insn, insn.spec.meaning, insn.spec.extension in floatstate.EXTENSIONS)
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
        """Note that instructions at pc..pc+size are cached; False where later stores could not be noticed.

        They lie in at most two pages of this process.
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
        """Forget all code cached from these host pages, for every hart."""
        with self._lock:
            for page in [page for page in self.code_pages if first_page <= page <= last_page]:
                self.code_pages.discard(page)
            for context in self._contexts:
                context.forget()

    def _fenced(self, hart: Hart, code: bool) -> None:
        """A fence.i (`code`), or whatever else drops address translations."""
        if code or self.tlb_entries is None:
            self.flush_code(hart)
        else:
            self.flush_pages(hart)

    def _stored(self, pages: PageTables, address: int, size: int) -> None:
        """After a store that went through the port: was it to code?"""
        if self.coherent and self.code_pages:
            entry = self._addend(pages.hart, address)
            if entry is not None:
                self.code_written((address + entry) & MASK64, size)

    def _addend(self, hart: Hart, address: int) -> int | None:
        """Host minus guest address where `hart` reads `address` directly."""
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
