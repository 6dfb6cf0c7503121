"""Engines that tell of code which a hart executes without FENCE.I since some hart has stored it.

Stores are kept by parcels of two bytes, with the instruction that made the last one. A hart that executes bytes of
them must have executed FENCE.I since, or the device must have flushed its instruction caches: FENCE.I orders the
fetches of its own hart alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from understudy.core.checks import WAITS
from understudy.core.errors import AccessFault
from understudy.core.findings import Finding
from understudy.core.rule import Rule
from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.pages import LIMIT, MASK64, PageTables
from understudy.engine.riscv.reference import Cached, Context, ReferenceEngine
from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import Hart

KIND: Final = "fence-i"
PARCEL_BITS: Final = 1
FENCE_I: Final = Rule(
    "riscv/fence-i",
    "Zifencei: FENCE.I",
    "stores to instruction memory are only certain to be fetched by a hart that has executed FENCE.I since",
)


Page = Callable[[Hart, int], int | None]


def _page(hart: Hart, address: int) -> int | None:
    return hart.port.page(address, "load")


class CodeStores(ReferenceEngine):
    """What such engines have in common. `tell` hears of each pair of instructions once.

    `page`: as a hart's port has it for loads, where that port is one that hides pages from harts.
    """

    def __init__(self, tell: Callable[[Finding], None], *, page: Page | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._page = page or _page
        self._tell = tell
        self._told: set[tuple[int, int]] = set()
        self._keeps = False
        """Whether what drops cached instructions is no fence."""

    # ---- what is known of stores ---------------------------------------------------------------------------------
    @property
    def has_stores(self) -> bool:
        """Whether there may be any to tell of."""
        raise NotImplementedError

    def noted(self, hart: Hart, host: int, size: int) -> None:
        """The instruction at the hart's pc stores bytes of this process."""
        raise NotImplementedError

    def unfenced(self, hart: Hart, host: int) -> tuple[int, int] | None:
        """The pc and hart of the last store to a parcel of this process, where the hart has not fetched anew since."""
        raise NotImplementedError

    def fetches_anew(self, hart: Hart) -> None:
        """What the hart executes next is fetched anew: FENCE.I."""
        raise NotImplementedError

    # ---- where it is asked for -----------------------------------------------------------------------------------
    def make_evaluator(self, hart: Hart, pages: PageTables) -> Evaluator:
        """This engine's kind of evaluator."""
        evaluator = super().make_evaluator(hart, pages)
        evaluator.note = self._note
        return evaluator

    def flush_code(self, hart: Hart) -> None:
        """FENCE.I, SYNC_CACHE, a reset."""
        super().flush_code(hart)
        if not self._keeps:
            self.fetches_anew(hart)

    def flush_pages(self, hart: Hart) -> None:
        """Other translations are no fence."""
        self._keeps = True
        try:
            super().flush_pages(hart)
        finally:
            self._keeps = False

    def _fenced(self, hart: Hart, code: bool) -> None:
        self._keeps = not code
        try:
            super()._fenced(hart, code)
        finally:
            self._keeps = False

    def cached(self, context: Context, pc: int) -> Cached | None:
        """What this hart's instruction cache holds for `pc`, which it executes next.

        Of coherent code that was looked at when it was fetched: a store to it would have dropped it.
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
        """Host minus guest address of memory; None for what is none."""
        try:
            return self._page(hart, address) if address < LIMIT else None
        except AccessFault:
            return None

    def _note(self, hart: Hart, address: int, size: int) -> None:
        """A store of the instruction at the hart's pc."""
        entry = self._reached(hart, address)
        if entry is not None:
            self.noted(hart, address + entry & MASK64, size)

    def to_tell(self, hart: Hart, pc: int, insn: Insn) -> tuple[int, int] | None:
        """The pc and hart of a store of what the hart has at an address, if nobody has been told of that yet."""
        entry = self._reached(hart, pc)
        if entry is None:
            return None
        for at in (pc, pc + insn.length - 1):
            found = self.unfenced(hart, (at + entry & MASK64) & -1 << PARCEL_BITS)
            if found is not None and (found[0], pc) not in self._told:
                return found
        return None

    def _check(self, hart: Hart, cached: Cached) -> None:
        """Whether the hart may not see what was stored there."""
        while (found := self.to_tell(hart, cached.pc, cached.insn)) is not None:
            pc, other = found
            self._told.add((pc, cached.pc))
            shown = text(cached.insn, cached.pc)
            message = f"{shown} is executed without a FENCE.I since it was stored"
            found_here = Finding(WAITS, KIND, message, unit=f"hart {hart.index}", pc=cached.pc, rule=FENCE_I)
            found_here.other = f"pc {pc:#x}, hart {other}"
            found_here.suggestion = f"fence.i of hart {hart.index} before it"
            self._tell(found_here)


class CodeStoreEngine(CodeStores):
    """The reference engine: it keeps an entry for each parcel."""

    def __init__(self, tell: Callable[[Finding], None], *, page: Page | None = None, **options: Any) -> None:
        super().__init__(tell, page=page, **options)
        self._now = 0
        """Stores and fences so far."""
        self._stores: dict[int, tuple[int, int, int]] = {}
        """By parcel of this process: when it was stored last, by the instruction at which pc of which hart."""
        self._fences: dict[int, int] = {}
        """By the number of a hart: when it fetched anew last."""

    @property
    def has_stores(self) -> bool:
        """Whether there may be any to tell of."""
        return bool(self._stores)

    def noted(self, hart: Hart, host: int, size: int) -> None:
        """The instruction at the hart's pc stores bytes of this process."""
        self._now += 1
        for parcel in range(host >> PARCEL_BITS, (host + size - 1 >> PARCEL_BITS) + 1):
            self._stores[parcel] = self._now, hart.pc, hart.index

    def unfenced(self, hart: Hart, host: int) -> tuple[int, int] | None:
        """The pc and hart of the last store to a parcel of this process, where the hart has not fetched anew since."""
        when, pc, other = self._stores.get(host >> PARCEL_BITS, (0, 0, 0))
        return (pc, other) if when > self._fences.get(hart.index, 0) else None

    def fetches_anew(self, hart: Hart) -> None:
        """What the hart executes next is fetched anew: FENCE.I."""
        self._now += 1
        self._fences[hart.index] = self._now

    def code_synced(self) -> None:
        """All harts fetch anew."""
        self._stores.clear()
