"""A reference engine that tells of code which a hart executes without FENCE.I since some hart has stored it.

Stores are kept by parcels of two bytes, with the instruction that made the last one. A hart that executes bytes of
them must have executed FENCE.I since (or the device must have flushed its instruction cache): it orders the fetches of
its own hart alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.core.checks import WAITS
from understudy.core.errors import AccessFault
from understudy.core.findings import Finding
from understudy.core.rule import Rule
from understudy.engine.riscv.evaluate import Evaluator, Fenced, Stored
from understudy.engine.riscv.pages import LIMIT, MASK64, PageTables
from understudy.engine.riscv.reference import Cached, Context, Dress, OnRetire, ReferenceEngine
from understudy.isa.riscv.assembler import text
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


class NotingEvaluator(Evaluator):
    """One that tells `note` of every store: address and bytes."""

    def __init__(
        self, hart: Hart, pages: PageTables, stored: Stored, fenced: Fenced, note: Callable[[Hart, int, int], None]
    ) -> None:
        super().__init__(hart, pages, stored, fenced)
        self._note = note

    def store(self, w: int, address: int, v: int) -> None:
        """Aligned little-endian store."""
        super().store(w, address, v)
        self._note(self.hart, address, w >> 3)

    def _replace(self, w: int, address: int, new: Callable[[int], int]) -> int:
        old = super()._replace(w, address, new)
        self._note(self.hart, address, w >> 3)
        return old


class CodeStoreEngine(ReferenceEngine):
    """See the module. `tell` hears of each pair of instructions once.

    `page`: as a hart's port has it for loads, where that port is one that hides pages from harts.
    """

    def __init__(
        self,
        tell: Callable[[Finding], None],
        coherent: bool = True,
        tlb_entries: int | None = None,
        on_retire: OnRetire | None = None,
        counting: bool = False,
        dress: Dress | None = None,
        page: Page | None = None,
    ) -> None:
        super().__init__(coherent, tlb_entries, on_retire, counting, dress)
        self._page = page or _page
        self._tell = tell
        self._now = 0
        """Stores and fences so far."""
        self._stores: dict[int, tuple[int, int, int]] = {}
        """By parcel of this process: when it was stored last, by the instruction at which pc of which hart."""
        self._fences: dict[int, int] = {}
        """By hart: when it fetched anew last."""
        self._told: set[tuple[int, int]] = set()

    def make_evaluator(self, hart: Hart, pages: PageTables) -> Evaluator:
        """This engine's kind of evaluator."""
        return NotingEvaluator(hart, pages, self._stored, self._fenced, self._note)

    def flush_code(self, hart: Hart) -> None:
        """FENCE.I, SYNC_CACHE, a reset."""
        super().flush_code(hart)
        self._now += 1
        self._fences[id(hart)] = self._now

    def flush_pages(self, hart: Hart) -> None:
        """Other translations are no fence."""
        before = self._fences.get(id(hart), 0)
        super().flush_pages(hart)
        self._fences[id(hart)] = before

    def cached(self, context: Context, pc: int) -> Cached | None:
        """What this hart's instruction cache holds for `pc`, which it executes next."""
        found = super().cached(context, pc)
        if found is not None and self._stores:
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
        if entry is None:
            return
        self._now += 1
        what = self._now, hart.pc, hart.index
        first = (address + entry & MASK64) >> PARCEL_BITS
        last = (address + size - 1 + entry & MASK64) >> PARCEL_BITS
        for parcel in range(first, last + 1):
            self._stores[parcel] = what

    def _check(self, hart: Hart, cached: Cached) -> None:
        """Whether the hart may not see what was stored there."""
        entry = self._reached(hart, cached.pc)
        if entry is None:
            return
        for at in dict.fromkeys((cached.pc, cached.pc + cached.insn.length - 1)):
            parcel = (at + entry & MASK64) >> PARCEL_BITS
            found = self._stores.get(parcel)
            if found is None or found[0] <= self._fences.get(id(hart), 0) or (found[1], cached.pc) in self._told:
                continue
            _, pc, other = found
            self._told.add((pc, cached.pc))
            shown = text(cached.insn, cached.pc)
            message = f"{shown} is executed without a FENCE.I since it was stored"
            found_here = Finding(WAITS, KIND, message, unit=f"hart {hart.index}", pc=cached.pc, rule=FENCE_I)
            found_here.other = f"pc {pc:#x}, hart {other}"
            found_here.suggestion = f"fence.i of hart {hart.index} before it"
            self._tell(found_here)
