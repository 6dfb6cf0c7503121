"""Engines that report code which a hart executes without FENCE.I after some hart has stored it.

Stores are recorded per halfword, with the last storing instruction. A hart that executes stored bytes must have
executed FENCE.I since, or the device must have flushed its instruction caches: FENCE.I orders only the fetches of its
own hart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from softcard.core.checks import WAITS
from softcard.core.errors import AccessFault
from softcard.core.findings import Finding, FindingLog
from softcard.core.rule import Rule
from softcard.core.space import Ram
from softcard.engine.riscv.api import Engine
from softcard.engine.riscv.evaluate import Evaluator
from softcard.engine.riscv.hooks import HartCheck, Machine
from softcard.engine.riscv.pages import LIMIT, MASK64, PageTables
from softcard.engine.riscv.reference import Cached, Context, ReferenceEngine
from softcard.engine.riscv.tracepoints import registers_of
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import Hart

KIND: Final = "fence-i"
FETCHED_AHEAD: Final = "The code was fetched before the hart reached the instruction: the registers are not known yet."
"""The reason why the registers of a finding may be unknown."""
HALFWORD_BITS: Final = 1
FENCE_I: Final = Rule(
    "riscv/fence-i",
    "Zifencei: FENCE.I",
    "a hart is only certain to fetch stored instructions after it has executed FENCE.I",
)


Page = Callable[[Hart, int], int | None]


def _page(hart: Hart, address: int) -> int | None:
    return hart.port.page(address, "load")


class CodeStores(ReferenceEngine):
    """The base class of engines that report executed code which was stored without a later FENCE.I.

    `report` is called with a finding once for each pair of storing and executed instruction. `page` returns the
    host address minus the guest address for an address in memory. By default the hart's port does this; `page`
    is needed if the port withholds some pages of memory from direct access."""

    def __init__(self, report: Callable[[Finding], None], *, page: Page | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._page = page or _page
        self._report = report
        self._reported: set[tuple[int, int]] = set()
        self._is_page_fence = False
        """True while cached instructions are dropped for another reason than an instruction fence (FENCE.I)."""

    # ---- what is known of stores ---------------------------------------------------------------------------------
    @property
    def has_stores(self) -> bool:
        """True if any store is recorded."""
        raise NotImplementedError

    def noted(self, hart: Hart, host: int, size: int) -> None:
        """Record that the instruction at the hart's pc stores `size` bytes at host address `host`."""
        raise NotImplementedError

    def unfenced(self, hart: Hart, host: int) -> tuple[int, int] | None:
        """Return the pc and hart of the last store to the halfword at `host`; None if FENCE.I of `hart` followed."""
        raise NotImplementedError

    def fetches_anew(self, hart: Hart) -> None:
        """Note that the hart executes an instruction fence (FENCE.I): later fetches see earlier stores."""
        raise NotImplementedError

    # ---- where it is asked for -----------------------------------------------------------------------------------
    def make_evaluator(self, hart: Hart, pages: PageTables) -> Evaluator:
        """Return an evaluator that records the stores of a hart."""
        evaluator = super().make_evaluator(hart, pages)
        evaluator.note = self._note
        return evaluator

    def flush_code(self, hart: Hart) -> None:
        """Drop the cached instructions of a hart and count this as an instruction fence.

        It is called for FENCE.I, SYNC_CACHE and resets.
        """
        super().flush_code(hart)
        if not self._is_page_fence:
            self.fetches_anew(hart)

    def flush_pages(self, hart: Hart) -> None:
        """Drop page translations; this does not count as an instruction fence."""
        self._is_page_fence = True
        try:
            super().flush_pages(hart)
        finally:
            self._is_page_fence = False

    def _fenced(self, hart: Hart, code: bool) -> None:
        self._is_page_fence = not code
        try:
            super()._fenced(hart, code)
        finally:
            self._is_page_fence = False

    def cached(self, context: Context, pc: int) -> Cached | None:
        """Return the cached instruction at `pc`, which the hart executes next, or None.

        If cached code is not coherent, report an unfenced store to the instruction. Coherent code was checked when it
        was fetched: a later store to it would have dropped it from the cache.
        """
        found = super().cached(context, pc)
        if found is not None and not self.coherent and self.has_stores:
            self._check(context.hart, found)
        return found

    def _fetch(self, context: Context, pc: int) -> Cached:
        found = super()._fetch(context, pc)
        self._check(context.hart, found)
        return found

    def _reached(self, hart: Hart, address: int) -> int | None:
        """Return the host address minus the guest address if `address` is in memory, else None."""
        try:
            return self._page(hart, address) if address < LIMIT else None
        except AccessFault:
            return None

    def _note(self, hart: Hart, address: int, size: int) -> None:
        """Record that the instruction at the hart's pc stores `size` bytes at guest address `address`."""
        entry = self._reached(hart, address)
        if entry is not None:
            self.noted(hart, address + entry & MASK64, size)

    def to_report(self, hart: Hart, pc: int, insn: Insn) -> tuple[int, int] | None:
        """Return the pc and hart of a store to an instruction, if `hart` has not executed FENCE.I since that store.

        Otherwise return None. The result is also None if this pair of instructions was reported before."""
        entry = self._reached(hart, pc)
        if entry is None:
            return None
        for at in (pc, pc + insn.length - 1):
            found = self.unfenced(hart, (at + entry & MASK64) & -1 << HALFWORD_BITS)
            if found is not None and (found[0], pc) not in self._reported:
                return found
        return None

    def _check(self, hart: Hart, cached: Cached) -> None:
        """Report a store to an instruction that the hart executes without a FENCE.I after the store."""
        while (found := self.to_report(hart, cached.pc, cached.insn)) is not None:
            pc, other = found
            self._reported.add((pc, cached.pc))
            shown = text(cached.insn, cached.pc)
            message = f"{shown} was stored, and is executed without a FENCE.I after the store"
            made = Finding(WAITS, KIND, message, unit=f"hart {hart.index}", pc=cached.pc, rule=FENCE_I)
            made.other = f"pc {pc:#x}, hart {other}"
            made.suggestion = f"execute fence.i on hart {hart.index} before this instruction"
            if hart.pc == cached.pc:
                made.registers = registers_of(hart, hart.pc, shown)
            else:
                made.no_registers = FETCHED_AHEAD
            self._report(made)


class CodeStoreEngine(CodeStores):
    """The reference engine that reports code stored without FENCE.I, with a dictionary entry per stored halfword."""

    def __init__(self, report: Callable[[Finding], None], *, page: Page | None = None, **options: Any) -> None:
        super().__init__(report, page=page, **options)
        self._now = 0
        """The number of stores and fences so far."""
        self._stores: dict[int, tuple[int, int, int]] = {}
        """By halfword of this process's memory: the time of its last store, and the instruction's pc and hart."""
        self._fences: dict[int, int] = {}
        """By the index of a hart: the time of its last instruction fence."""

    @property
    def has_stores(self) -> bool:
        """True if any store is recorded."""
        return bool(self._stores)

    def noted(self, hart: Hart, host: int, size: int) -> None:
        """Record that the instruction at the hart's pc stores `size` bytes at host address `host`."""
        self._now += 1
        for halfword in range(host >> HALFWORD_BITS, (host + size - 1 >> HALFWORD_BITS) + 1):
            self._stores[halfword] = self._now, hart.pc, hart.index

    def unfenced(self, hart: Hart, host: int) -> tuple[int, int] | None:
        """Return the pc and hart of the last store to the halfword at `host`; None if FENCE.I of `hart` followed."""
        when, pc, other = self._stores.get(host >> HALFWORD_BITS, (0, 0, 0))
        return (pc, other) if when > self._fences.get(hart.index, 0) else None

    def fetches_anew(self, hart: Hart) -> None:
        """Note that the hart executes an instruction fence (FENCE.I): later fetches see earlier stores."""
        self._now += 1
        self._fences[hart.index] = self._now

    def code_synced(self) -> None:
        """Record an instruction fence of all harts."""
        self._stores.clear()


class CodeStoreCheck(HartCheck):
    """The check `waits` of harts, which engines of its own perform."""

    name = WAITS

    def __init__(self, log: FindingLog, machine: Machine, is_translated: bool) -> None:
        self._log = log
        self._machine = machine
        self._is_translated = is_translated

    @property
    def engine(self) -> Callable[..., Engine]:
        """The constructor of the engine. The import of the JIT engine is local, since it loads the compiler."""
        report, machine = self._log.note, self._machine
        if not self._is_translated:
            return partial(CodeStoreEngine, report, page=machine.page)
        from softcard.engine.riscv.code_stores.translated import TranslatedCodeStoreEngine

        return partial(TranslatedCodeStoreEngine, report, rams=machine.rams, page=machine.page)

    def ram(self, is_shared: bool) -> type[Ram] | None:
        """Return the class of memories with room for store numbers, which translated code records."""
        if not self._is_translated:
            return None
        from softcard.engine.riscv.code_stores.layout import SharedStoreRam, StoreRam

        return SharedStoreRam if is_shared else StoreRam
