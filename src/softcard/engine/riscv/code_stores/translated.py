"""The JIT engine that reports code stored without a later FENCE.I. Its translated code records stores.

Code that was stored without a later FENCE.I runs on the reference engine until it is reported. Code is
tested for such stores only when it is translated: a later store to it drops the translation for all harts,
as in engines with coherent code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from softcard.core.checks import WAITS
from softcard.core.errors import BeyondModel
from softcard.core.findings import Finding
from softcard.core.space import Ram
from softcard.engine.riscv.code_stores import native_note
from softcard.engine.riscv.code_stores.engines import CodeStores, Page
from softcard.engine.riscv.code_stores.layout import (
    CELL,
    DISTANCE,
    INTERVAL_AT,
    NUMBERS,
    SITES,
    Cells,
    HartRow,
    NumberedRam,
    NumberRow,
    Numbers,
    SiteRow,
    Stores,
)
from softcard.engine.riscv.code_stores.notes import NOTES
from softcard.engine.riscv.evaluate import Evaluator
from softcard.engine.riscv.hooks import PLAIN, Instrumentation
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.engine.riscv.jit.region import Region
from softcard.engine.riscv.jit.translation import JitContext
from softcard.engine.riscv.pages import PageTables, peek
from softcard.engine.riscv.reference import Context
from softcard.ir.native import Natives
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import CODE_STORES, Hart

CALLED: Final = ("ready", "span", "move", "split")
"""The names of the native functions that translated code calls."""
NATIVES: Final = Natives(*(getattr(native_note, name) for name in CALLED), native_note.note)
PC_MASK: Final = (1 << INTERVAL_AT) - 1
PIECE: Final = 1 << 19
"""The number of halfwords whose store numbers are scanned at a time."""


class TranslatedCodeStoreEngine(CodeStores, JitEngine):
    """The JIT engine, with coherent code, that reports code stored without a later FENCE.I.

    `rams` is a function that returns all memories, each a `NumberedRam`.
    """

    def __init__(
        self,
        report: Callable[[Finding], None],
        *,
        rams: Callable[[], Iterable[Ram]],
        page: Page | None = None,
        instrumentation: Instrumentation = PLAIN,
        **options: Any,
    ) -> None:
        super().__init__(report, page=page, instrumentation=Instrumentation.of((instrumentation, NOTES)), **options)
        self._rams = rams
        self._cells: Cells | None = None
        self._stores = Stores()
        self._numbers = (NumberRow * NUMBERS)()
        self._stores.numbers, self._stores.next = ctypes.addressof(self._numbers), 1
        self._rows: dict[int, tuple[HartRow, Ram]] = {}
        self._interval = 0
        self._fences: dict[int, int] = {}
        """By hart index: the number of the fence period that began with the hart's last instruction fence."""
        self._synced = 0
        """The number of the fence period that began with the last instruction fence of all harts."""

    def make_context(self, hart: Hart, pages: PageTables, evaluator: Evaluator) -> Context:
        """Return a context of a hart, after giving the hart's translated code the address of its recording state."""
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

    def _memories(self) -> list[NumberedRam]:
        return [ram for ram in self._rams() if isinstance(ram, NumberedRam)]

    # ---- what is known of stores ---------------------------------------------------------------------------------
    @property
    def has_stores(self) -> bool:
        """True if any store is recorded."""
        return self._stores.next > 1

    def noted(self, hart: Hart, host: int, size: int) -> None:
        """Record that the instruction at the hart's pc stores `size` bytes at host address `host`."""
        row = ctypes.addressof(self._row(hart.index))
        while NATIVES.function("note")(row, hart.pc, host, size):
            self._renumber()

    def unfenced(self, hart: Hart, host: int) -> tuple[int, int] | None:
        """Return the pc and hart of the last store to the halfword at `host`; None if FENCE.I of `hart` followed."""
        row = self._numbers[peek(self._have_cells().row(host), 2) or peek(host + DISTANCE, 2)]
        interval = row.key >> INTERVAL_AT
        if row.key == 0 or interval < max(self._synced, self._fences.get(hart.index, 0)):
            return None
        return row.key & PC_MASK, row.hart

    def fetches_anew(self, hart: Hart) -> None:
        """Note that the hart executes an instruction fence (FENCE.I): later fetches see earlier stores."""
        self._fences[hart.index] = self._next_interval()

    def code_synced(self) -> None:
        """Record an instruction fence of all harts; earlier stores cannot be reported any more."""
        self._synced = self._next_interval()
        if self._stores.next > NUMBERS // 2:
            self._forget_stores()

    def _forget_stores(self) -> None:
        """Forget all stores."""
        for ram in self._memories():
            ram.forget_stores()
        self._have_cells().table.clear()
        self._begin(1)

    def _next_interval(self) -> int:
        self._interval += 1
        self._stores.interval = self._interval << INTERVAL_AT
        return self._interval

    def _begin(self, number: int) -> None:
        """Make all store numbers from `number` on available for new use."""
        self._stores.next = number
        ctypes.memset(ctypes.addressof(self._numbers[number]), 0, ctypes.sizeof(NumberRow) * (NUMBERS - number))
        for _, sites in self._rows.values():
            sites.clear()

    def _renumber(self) -> None:
        """Replace the store numbers in use by consecutive ones from 1 on, so that all others become available.

        Raise `BeyondModel` if more than half of all numbers are in use."""
        pieces = list(self._pieces())
        held = np.zeros(NUMBERS, bool)
        for piece in pieces:
            held[piece] = True
        held[0] = False
        kept = np.flatnonzero(held)
        if len(kept) > NUMBERS // 2:
            self._forget_stores()  # otherwise every later kernel would fail, too
            text = f"more than {NUMBERS // 2} different store instructions"
            raise BeyondModel(f"check {WAITS!r} does not support {text} since the last FENCE.I")
        others = np.zeros(NUMBERS, np.uint16)
        others[kept] = np.arange(1, len(kept) + 1)
        for number, old in enumerate(kept.tolist(), 1):
            self._numbers[number] = self._numbers[old]
        for piece in pieces:
            piece[:] = others[piece]
        self._begin(len(kept) + 1)

    def _pieces(self) -> Iterator[Numbers]:
        """Yield arrays of store numbers that together cover all cells and halfwords.

        Segments of memory without store numbers are skipped.
        """
        for ram in self._memories():
            for first in range(0, len(ram.stores), PIECE):
                halfwords = ram.stores[first : first + PIECE]
                cells = self._have_cells().of(ram.base_host + 2 * first, 2 * len(halfwords))
                if halfwords.any():
                    _forget(halfwords, np.concatenate(cells))
                    yield halfwords
                yield from (part for part in cells if part.any())

    # ---- what is translated --------------------------------------------------------------------------------------
    def takes(self, context: JitContext, pc: int, insn: Insn) -> bool:
        """Return True if translated code may contain an instruction: it was not stored since the hart's last FENCE.I.

        Otherwise the reference engine executes the instruction and reports the store, once."""
        return not self.has_stores or self.to_report(context.hart, pc, insn) is None

    def takes_all(self, context: JitContext, region: Region) -> bool:
        """Return True if translated code may contain all instructions of a region: see `takes`."""
        every = (each for block in region.blocks.values() for each in block.insns)
        return not self.has_stores or all(self.takes(context, pc, insn) for pc, insn in every)


def _forget(halfwords: Numbers, cells: Numbers) -> None:
    """Clear the store numbers of halfwords whose cell has a store number in the table."""
    count = CELL // 2
    whole = len(halfwords) // count * count
    halfwords[:whole].reshape(-1, count)[cells[: whole // count] != 0] = 0
    if whole < len(halfwords) and cells[-1]:
        halfwords[whole:] = 0
