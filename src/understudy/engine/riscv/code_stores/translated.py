"""The JIT engine that tells of code which was stored, and what its translated code does at a store.

Code that a hart may not see yet, and nobody was told of, is left to the reference engine, until that has told of it.
What is translated stays so: a store into it takes it from all harts, as engines with coherent code do it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from understudy.core.checks import WAITS
from understudy.core.errors import BeyondModel
from understudy.core.findings import Finding
from understudy.core.space import Ram
from understudy.engine.riscv.code_stores import native_note
from understudy.engine.riscv.code_stores.codes import (
    DISTANCE,
    NUMBERS,
    SITES,
    STRETCH_AT,
    HartRow,
    NumberRow,
    SiteRow,
    StoreRam,
    Stores,
)
from understudy.engine.riscv.code_stores.judge import CodeStores, Page
from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.jit.emit_region import Algebra
from understudy.engine.riscv.jit.engine import JitEngine, Looking
from understudy.engine.riscv.jit.region import Region
from understudy.engine.riscv.jit.translation import JitContext
from understudy.engine.riscv.pages import PageTables, peek
from understudy.engine.riscv.reference import Context
from understudy.ir.native import Natives, numbers
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import CODE_STORES, Hart

NATIVES: Final = Natives(native_note.ready, native_note.note)
CALLED: Final = ("ready", "note")
"""Those that translated code calls."""
ROW_AT: Final = numbers(HartRow)
STORES_AT: Final = numbers(Stores)
SITE_AT: Final = numbers(SiteRow)
PC_MASK: Final = (1 << STRETCH_AT) - 1
PIECE: Final = 1 << 19
"""Parcels that are looked at together."""
COLUMN: Final = 128
"""Likewise, of a store of vectors."""
LIKELY: Final = ", !prof !0"
"""Of a branch whose first arm is the unlikely one."""


class StoreLooks:
    """Writes them for one region."""

    def __init__(self, algebra: Algebra) -> None:
        self.text = algebra.control.text
        self.control = algebra.control
        self.memory = algebra.memory
        self.insn: Insn
        self._hoisted: dict[int, str] = {}

    def begin(self, insn: Insn) -> None:
        """An instruction begins."""
        self.insn = insn

    def fence(self) -> None:
        """FENCE orders no fetches."""

    # ---- calls ---------------------------------------------------------------------------------------------------
    def _row(self) -> None:
        """Have the words of the hart's row."""
        for line in (
            f"  %q_code_stores = getelementptr i64, ptr %st, i64 {CODE_STORES}",
            "  %code_stores = load ptr, ptr %q_code_stores, !invariant.load !1",
            "  %code_stores_row = ptrtoint ptr %code_stores to i64",
            f"  %q_store_sites = getelementptr i64, ptr %code_stores, i64 {ROW_AT['sites']}",
            "  %store_sites = load ptr, ptr %q_store_sites, !invariant.load !1",
            f"  %q_all_stores = getelementptr i64, ptr %code_stores, i64 {ROW_AT['stores']}",
            "  %all_stores = load ptr, ptr %q_all_stores, !invariant.load !1",
            f"  %q_stretch = getelementptr i64, ptr %all_stores, i64 {STORES_AT['stretch']}",
            "  %stretch = load i64, ptr %q_stretch",  # no hart fetches anew while one is here
        ):
            self.text.alloca(line)

    def _call(self, name: str, arguments: str = "") -> str:
        self._row()
        place = self.text.let(f"getelementptr i64, ptr %code_stores, i64 {ROW_AT[name]}")
        function = self.text.let(f"load ptr, ptr {place}, !invariant.load !1")
        pc = self.control.ints.const(64, self.control.pc)
        return self.text.let(f"call i64 {function}(i64 %code_stores_row, i64 {pc}{arguments})")

    def _note(self, host: str, size: str) -> None:
        status = self._call("note", f", i64 {host}, i64 {size}")
        self.control.side(self.text.let(f"icmp ne i64 {status}, 0"))

    # ---- in line -------------------------------------------------------------------------------------------------
    def access(self, access: str, w: int, pointer: str, address: str) -> None:
        """Memory is stored to next, if anything is."""
        text, pc = self.text, self.control.pc
        if access == "read":
            return
        if self.insn.name.startswith("sc."):
            self.control.side(text.let(f"icmp eq i64 {self._call('ready')}, 0"))
            return
        if pc in self._hoisted and pc in self.memory.addends:
            self._put(w, pointer, self._hoisted[pc])
            return
        host = text.let(f"ptrtoint ptr {pointer} to i64")
        closer, done = text.fresh("closer"), text.fresh("noted")
        with text.apart(closer):
            self._note(host, str(w >> 3))
            text.put(f"br label %{done}")
        self._put(w, pointer, self._known(w, host, closer))
        text.put(f"br label %{done}")
        text.start(done)

    def many(self, access: str, w: int, pointer: str, address: str, count: str, most: int) -> None:
        """So many elements side by side are stored next, often as many as `most`."""
        text, bits = self.text, most * w
        if access == "read":
            return
        host, size = text.let(f"ptrtoint ptr {pointer} to i64"), text.let(f"mul i64 {count}, {w >> 3}")
        if bits % 16 or not bits:
            self._note(host, size)
            return
        closer, on, done = text.fresh("closer"), text.fresh("on"), text.fresh("noted")
        with text.apart(closer):
            self._note(host, size)
            text.put(f"br label %{done}")
        text.branch(text.let(f"icmp ne i64 {count}, {most}"), closer, on, LIKELY)
        text.start(on)
        parcels = text.let(f"trunc i64 {self._known(16, host, closer)} to i16")
        for first in range(0, bits // 16, COLUMN):
            lanes = min(COLUMN, bits // 16 - first)
            ty = f"<{lanes} x i16>"
            one = text.let(f"insertelement {ty} poison, i16 {parcels}, i64 0")
            every = text.let(f"shufflevector {ty} {one}, {ty} poison, <{lanes} x i32> zeroinitializer")
            place = text.let(f"getelementptr i8, ptr {pointer}, i64 {DISTANCE + 2 * first}")
            text.put(f"store {ty} {every}, ptr {place}, align 2")
        text.put(f"br label %{done}")
        text.start(done)

    def stored(self, w: int, pointer: str, done: str) -> None:
        """A store-conditional has stored if `done` is 1."""
        text = self.text
        stored, on = text.fresh("stored"), text.fresh("on")
        text.branch(done, stored, on)
        text.start(stored)
        self._call("note", f", i64 {text.let(f'ptrtoint ptr {pointer} to i64')}, i64 {w >> 3}")
        text.put(f"br label %{on}")
        text.start(on)

    def hoist(self, access: str, pcs: list[int], host: str, addend: str, end: str) -> tuple[str, str]:
        """Look at the numbers of a loop's stores before it: whether there are any."""
        text = self.text
        if access == "read":
            return "true", end
        self._row()
        fine = text.let(f"icmp eq i64 {text.let(f'and i64 {addend}, 1')}, 0")
        for pc in pcs:
            wrong, self._hoisted[pc] = self._site(pc)
            fine = text.let(f"and i1 {fine}, {text.let(f'icmp eq i64 {wrong}, 0')}")
        return fine, end

    def _site(self, pc: int) -> tuple[str, str]:
        """Of the row of an instruction: what is 0 if it is its own, and its number in four parcels."""
        text, at = self.text, (pc >> 1 & SITES - 1) * ctypes.sizeof(SiteRow)
        key, parcels = (
            text.let(f"load i64, ptr {text.let(f'getelementptr i8, ptr %store_sites, i64 {at + 8 * SITE_AT[name]}')}")
            for name in ("key", "parcels")
        )
        own = text.let(f"or i64 %stretch, {self.control.ints.const(64, pc)}")
        return text.let(f"xor i64 {key}, {own}"), parcels

    def _known(self, w: int, host: str, closer: str) -> str:
        """The number of this instruction, in four parcels, where it has one and stores whole parcels."""
        text = self.text
        self._row()
        wrong, parcels = self._site(self.control.pc)
        if w > 8:  # pages may begin anywhere in memory
            wrong = text.let(f"or i64 {wrong}, {text.let(f'and i64 {host}, 1')}")
        on = text.fresh("on")
        text.branch(text.let(f"icmp ne i64 {wrong}, 0"), closer, on, LIKELY)
        text.start(on)
        return parcels

    def _put(self, w: int, pointer: str, parcels: str) -> None:
        """Note a store of whole parcels, or of a byte."""
        text = self.text
        place = pointer
        if w == 8:
            host = text.let(f"and i64 {text.let(f'ptrtoint ptr {pointer} to i64')}, -2")
            place, w = text.let(f"inttoptr i64 {host} to ptr"), 16
        place = text.let(f"getelementptr i8, ptr {place}, i64 {DISTANCE}")
        value = parcels if w == 64 else text.let(f"trunc i64 {parcels} to i{w}")
        text.put(f"store i{w} {value}, ptr {place}, align 2")


LOOKING: Final = Looking("code stores", StoreLooks)


class TranslatedCodeStoreEngine(CodeStores, JitEngine):
    """The JIT engine, for coherent code. `rams` are all memories, each a `StoreRam`."""

    def __init__(
        self,
        tell: Callable[[Finding], None],
        *,
        rams: Callable[[], Iterable[Ram]],
        page: Page | None = None,
        looking: tuple[Looking, ...] = (),
        **options: Any,
    ) -> None:
        super().__init__(tell, page=page, looking=(LOOKING, *looking), **options)
        self._rams = rams
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
            sites, row = Ram(SITES * ctypes.sizeof(SiteRow)), HartRow()
            row.stores, row.hart, row.sites = ctypes.addressof(self._stores), index, sites.base_host
            for name in CALLED:
                setattr(row, name, NATIVES.address(name))
            self._rows[index] = row, sites
        return self._rows[index][0]

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
        row = self._numbers[peek(host + DISTANCE, 2)]
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
        memories = [ram.stores for ram in self._memories()]
        pieces = [each[first : first + PIECE] for each in memories for first in range(0, len(each), PIECE)]
        held = np.zeros(NUMBERS, bool)
        for piece in pieces:
            if piece.any():
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
            if piece.any():
                piece[:] = others[piece]
        self._begin(len(kept) + 1)

    # ---- what is translated --------------------------------------------------------------------------------------
    def takes(self, context: JitContext, pc: int, insn: Insn) -> bool:
        """Whether an instruction may be executed in translated code of a hart."""
        return not self.has_stores or self.to_tell(context.hart, pc, insn) is None

    def takes_all(self, context: JitContext, region: Region) -> bool:
        """Whether those of a region may."""
        every = (each for block in region.blocks.values() for each in block.insns)
        return not self.has_stores or all(self.takes(context, pc, insn) for pc, insn in every)
