"""The JIT engine that tells of code which was stored, and what its translated code does at a store.

Code that a hart may not see yet, and nobody was told of, is left to the reference engine, until that has told of it.
What is translated stays so: a store into it takes it from all harts, as engines with coherent code do it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from understudy.core.checks import WAITS
from understudy.core.errors import BeyondModel
from understudy.core.findings import Finding
from understudy.core.space import Ram
from understudy.engine.riscv.code_stores import native_note
from understudy.engine.riscv.code_stores.codes import (
    CELL,
    DISTANCE,
    NUMBERS,
    SITES,
    STRETCH_AT,
    Cells,
    HartRow,
    NumberRow,
    Numbers,
    SiteRow,
    StoreRam,
    Stores,
)
from understudy.engine.riscv.code_stores.judge import CodeStores, Page
from understudy.engine.riscv.code_stores.notes import NOTING
from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.jit.engine import JitEngine
from understudy.engine.riscv.jit.region import Region
from understudy.engine.riscv.jit.translation import JitContext
from understudy.engine.riscv.pages import PageTables, peek
from understudy.engine.riscv.reference import Context
from understudy.ir.native import Natives
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import CODE_STORES, Hart

CALLED: Final = ("ready", "span", "move", "split")
"""Native functions that translated code calls."""
NATIVES: Final = Natives(*(getattr(native_note, name) for name in CALLED), native_note.note)
PC_MASK: Final = (1 << STRETCH_AT) - 1
PIECE: Final = 1 << 19
"""Parcels that are looked at together."""


class TranslatedCodeStoreEngine(CodeStores, JitEngine):
    """The JIT engine, for coherent code. `rams` are all memories, each a `StoreRam`."""

    def __init__(
        self,
        tell: Callable[[Finding], None],
        *,
        rams: Callable[[], Iterable[Ram]],
        page: Page | None = None,
        **options: Any,
    ) -> None:
        super().__init__(tell, page=page, noting=NOTING, **options)
        self._rams = rams
        self._cells: Cells | None = None
        self._stores = Stores()
        self._numbers = (NumberRow * NUMBERS)()
        self._stores.numbers, self._stores.next = ctypes.addressof(self._numbers), 1
        self._rows: dict[int, tuple[HartRow, Ram]] = {}
        self._stretch = 0
        self._fences: dict[int, int] = {}
        """By the number of a hart: the stretch that began when it fetched anew last."""
        self._synced = 0
        """The one that began when all did."""

    def make_context(self, hart: Hart, pages: PageTables, evaluator: Evaluator) -> Context:
        """This engine's kind of context."""
        hart.words[CODE_STORES] = ctypes.addressof(self._row(hart.index))
        return super().make_context(hart, pages, evaluator)

    def _row(self, index: int) -> HartRow:
        if index not in self._rows:
            self._have_cells()
            sites, row = Ram(SITES * ctypes.sizeof(SiteRow)), HartRow()
            row.stores, row.hart, row.sites = ctypes.addressof(self._stores), index, sites.base_host
            for name in CALLED:
                setattr(row, name, NATIVES.address(name))
            self._rows[index] = row, sites
        return self._rows[index][0]

    def _have_cells(self) -> Cells:
        if self._cells is None:
            self._cells = Cells(self._memories())
            self._stores.cells, self._stores.cell_mask = self._cells.table.base_host, self._cells.rows - 1
        return self._cells

    def _memories(self) -> list[StoreRam]:
        return [ram for ram in self._rams() if isinstance(ram, StoreRam)]

    # ---- what is known of stores ---------------------------------------------------------------------------------
    @property
    def has_stores(self) -> bool:
        """Whether there may be any to tell of."""
        return self._stores.next > 1

    def noted(self, hart: Hart, host: int, size: int) -> None:
        """The instruction at the hart's pc stores bytes of this process."""
        row = ctypes.addressof(self._row(hart.index))
        while NATIVES.function("note")(row, hart.pc, host, size):
            self._renumber()

    def unfenced(self, hart: Hart, host: int) -> tuple[int, int] | None:
        """The pc and hart of the last store to a parcel of this process, where the hart has not fetched anew since."""
        row = self._numbers[peek(self._have_cells().row(host), 2) or peek(host + DISTANCE, 2)]
        stretch = row.key >> STRETCH_AT
        if row.key == 0 or stretch < max(self._synced, self._fences.get(hart.index, 0)):
            return None
        return row.key & PC_MASK, row.hart

    def fetches_anew(self, hart: Hart) -> None:
        """What the hart executes next is fetched anew: FENCE.I."""
        self._fences[hart.index] = self._next_stretch()

    def code_synced(self) -> None:
        """All harts fetch anew: no store is of interest any more."""
        self._synced = self._next_stretch()
        if self._stores.next > NUMBERS // 2:
            for ram in self._memories():
                ram.forget_stores()
            self._have_cells().table.clear()
            self._begin(1)

    def _next_stretch(self) -> int:
        self._stretch += 1
        self._stores.stretch = self._stretch << STRETCH_AT
        return self._stretch

    def _begin(self, number: int) -> None:
        """All numbers below are others than they were; there are none from this one on."""
        self._stores.next = number
        ctypes.memset(ctypes.addressof(self._numbers[number]), 0, ctypes.sizeof(NumberRow) * (NUMBERS - number))
        for _, sites in self._rows.values():
            sites.clear()

    def _renumber(self) -> None:
        """Have numbers again: those that no parcel has are free."""
        pieces = list(self._pieces())
        held = np.zeros(NUMBERS, bool)
        for piece in pieces:
            held[piece] = True
        held[0] = False
        kept = np.flatnonzero(held)
        if len(kept) > NUMBERS // 2:
            text = f"more than {NUMBERS // 2} instructions, by FENCE.I between them, whose stores are the last"
            raise BeyondModel(f"check {WAITS!r} of {text}")
        others = np.zeros(NUMBERS, np.uint16)
        others[kept] = np.arange(1, len(kept) + 1)
        for number, old in enumerate(kept.tolist(), 1):
            self._numbers[number] = self._numbers[old]
        for piece in pieces:
            piece[:] = others[piece]
        self._begin(len(kept) + 1)

    def _pieces(self) -> Iterator[Numbers]:
        """The numbers of all cells and parcels, but for pieces of memory that have none."""
        for ram in self._memories():
            for first in range(0, len(ram.stores), PIECE):
                parcels = ram.stores[first : first + PIECE]
                cells = self._have_cells().of(ram.base_host + 2 * first, 2 * len(parcels))
                if parcels.any():
                    _forget(parcels, np.concatenate(cells))
                    yield parcels
                yield from (part for part in cells if part.any())

    # ---- what is translated --------------------------------------------------------------------------------------
    def takes(self, context: JitContext, pc: int, insn: Insn) -> bool:
        """Whether an instruction may be executed in translated code of a hart."""
        return not self.has_stores or self.to_tell(context.hart, pc, insn) is None

    def takes_all(self, context: JitContext, region: Region) -> bool:
        """Whether those of a region may."""
        every = (each for block in region.blocks.values() for each in block.insns)
        return not self.has_stores or all(self.takes(context, pc, insn) for pc, insn in every)


def _forget(parcels: Numbers, cells: Numbers) -> None:
    """Parcels of cells that have numbers have none of their own."""
    count = CELL // 2
    whole = len(parcels) // count * count
    parcels[:whole].reshape(-1, count)[cells[: whole // count] != 0] = 0
    if whole < len(parcels) and cells[-1]:
        parcels[whole:] = 0
