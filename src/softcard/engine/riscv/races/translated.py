"""Race checks in translated code.

A check is inline if only shadow memory must be tested (see `layout.Cache`, the inline cache); it consists of the native
functions in `native_fast_path`. Otherwise translated code calls a compiled function that checks the access before it is
made. If that function cannot rule out a race, the instruction is left to the reference engine, which calls the check in
Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from softcard.engine.riscv.hooks import Instrumentation
from softcard.engine.riscv.jit.emit_region import Algebra
from softcard.engine.riscv.jit.strides import STREAM_AT, STREAM_BYTES, Access, size_of
from softcard.engine.riscv.races import native_fast_path
from softcard.engine.riscv.races.layout import CACHE_AT, CACHE_BYTES, CACHES, NAMES, ROW_AT, atomic_bit, slot_mask
from softcard.engine.riscv.races.native_detector import DWORD, check_function, what_of
from softcard.engine.riscv.races.native_order import cache_key, planes_met
from softcard.ir.native import Function
from softcard.ir.native_llvm import call
from softcard.ir.operand import Operand
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import RACES

MOST_LAYERS: Final = 8
"""The maximum number of harts whose load records a store tests inline."""
LINE_BYTES: Final = 64
"""The size of a cache line in bytes: with this step or more, each access of a loop has a cache line of its own."""
COLUMN: Final = 64
"""The number of dwords whose shadow words are tested together."""
HOISTED: Final = ("record", "stores", "loads", "stride")
"""The fields of an inline cache entry that accesses in loops need."""
WATERMARK_NOW: Final = "%race_watermark_now"
"""The name of a variable for inline checks in a loop: the watermark, or 0 if the watermark may have changed."""
NOWHERE: Final = 1 << 62
"""An address that is not in any memory of this process."""
INVARIANT: Final = ", !invariant.load !1"
"""LLVM metadata for loads that give the same value whenever they are executed."""
LIKELY: Final = ", !prof !0"
"""LLVM metadata for a branch whose first target is unlikely to be taken."""


@dataclass(frozen=True, slots=True)
class Fields:
    """An inline cache entry during translation: the fields whose values are known already, and the entry's address."""

    known: dict[str, Operand] = field(default_factory=dict)
    place: Operand | None = None


class RaceAccessCheck:
    """Emits the race checks of one region, for a device with `harts` harts."""

    def __init__(self, harts: int, algebra: Algebra) -> None:
        self.harts = harts
        self.text = algebra.control.text
        self.control = algebra.control
        self.insn: Insn
        self.memory = algebra.memory
        self._hoisted: dict[int, Fields] = {}
        self._hoisted_stores: set[int] = set()
        self._hoisted_fast_id: Operand
        self._hoisted_watermark: Operand
        self._is_batch = False
        self._has_row = False

    def begin(self, insn: Insn) -> None:
        """Begin to emit an instruction."""
        self.insn = insn

    # ---- calls ---------------------------------------------------------------------------------------------------
    def _row(self) -> Operand:
        """Return the address of the hart's `HartRow` as an integer."""
        text = self.text
        if not self._has_row:
            self._has_row = True
            with text.at_head():
                races = text.fixed("races", text.pointer("%st").element("i64", RACES), INVARIANT)
                text.named("%race_row", races.ptrtoint())
                text.fixed("race_caches", races.element("i64", ROW_AT["caches"]), INVARIANT)
                for name in ("fast_id", "watermark"):
                    text.named(f"%race_{name}", races.element("i64", ROW_AT[name]))
                text.fixed("race_bounds", races.element("i64", ROW_AT["bounds"]), INVARIANT)
                text.named("%race_last", races.element("i64", ROW_AT["last"]))
        return text.word("%race_row")

    def _call(self, name: str, *arguments: Operand | int) -> Operand:
        row = self._row()
        place = self.text.pointer("%races").element("i64", ROW_AT[name])
        function = place.load("ptr", tail=INVARIANT)
        return self.text.invoke("i64", function, row, *arguments)

    def _check(self, access: str, w: int, *places: Operand, name: str = "") -> None:
        what = what_of(self.insn, access, w >> 3)
        pc = self.control.ints.const(64, self.control.pc)
        status = self._call(name or check_function(what), pc, what, *places)
        self.control.side(status.ne(0))
        self._reload_state()

    def many(self, access: str, w: int, pointer: Operand, address: Operand, count: Operand, most: int) -> None:
        """Emit the check before an access to `count` adjacent elements of `w` bits.

        `most` is the usual value of `count`, or 0 if that is not known.
        """
        text, size = self.text, (count * (w >> 3))
        host = pointer.ptrtoint()
        places, is_load = (host, address, size), access == "read"
        if most * w % 32 or not most or (not is_load and self.harts > MOST_LAYERS):
            self._check(access, w, *places, name="check_many")
            return
        self._row()
        slow_path, done = text.fresh("slow_path"), text.fresh("checked")
        with text.apart(slow_path):
            self._check(access, w, *places, name="check_many")
            text.jump(done)
        self._unless(count.eq(most), slow_path)
        self._column(self._cache(access, 32, host, slow_path, most * w >> 3), most * w // 32, host, is_load, slow_path)
        text.jump(done)
        text.start(done)

    def fence(self) -> None:
        """Emit the check before a fence."""
        is_tso = int(self.insn.name == "fence.tso")
        self._call("fence", self.insn.word, is_tso)

    # ---- in line -------------------------------------------------------------------------------------------------
    def access(self, access: str, w: int, pointer: Operand, address: Operand) -> None:
        """Emit the check before an access."""
        if self._is_batch:
            return
        text = self.text
        host = pointer.ptrtoint()
        is_load = access == "read"
        if self.insn.spec.extension == "A" or (not is_load and self.harts > MOST_LAYERS):
            self._check(access, w, host, address)
            return
        self._row()
        slow_path, done = text.fresh("slow_path"), text.fresh("checked")
        with text.apart(slow_path):
            self._check(access, w, host, address)
            text.jump(done)
        pc = self.control.pc
        is_hoisted = pc in self._hoisted and pc in self.memory.addends
        cache = self._hoisted[pc] if is_hoisted else self._cache(access, w, host, slow_path)
        if w < 32:
            self._bytes(cache, w, host, is_load, slow_path)
        elif is_load:
            self._load(cache, w, host, slow_path)
        else:
            self._store(cache, w, host, slow_path)
        text.jump(done)
        text.start(done)

    def _unless(self, condition: Operand, other: str) -> None:
        """Emit a branch that goes to label `other` unless `condition` is 1, and continue after it."""
        on = self.text.fresh("on")
        self.text.branch(~condition, other, on, LIKELY)
        self.text.start(on)

    # ---- rounds of a loop, together ------------------------------------------------------------------------------
    def can_batch(self, insns: Sequence[Insn], accesses: Sequence[Access]) -> bool:
        """Return True if iterations of a loop may be checked together."""
        return all(_shares_lines(each) for each in accesses)

    def check_rounds(self, accesses: Sequence[Access], table: Operand, rounds: Operand) -> Operand:
        """Emit the check of `rounds` iterations in advance; return an i1 that is 1 if no further checks are needed."""
        for number, access in enumerate(accesses):
            cache = self._cache_at(access.pc).ptrtoint()
            at = number * STREAM_BYTES + 8 * STREAM_AT["cache"]
            place = (table + at).inttoptr()
            place.store(cache)
        found = self._call("check_rounds", table, len(accesses), rounds)
        return found.ne(0)

    def begin_batch(self) -> None:
        """Begin to emit iterations that are checked together."""
        self._is_batch = True

    def end_batch(self) -> None:
        """Stop emitting iterations that are checked together."""
        self._is_batch = False

    def after_rounds(self, accesses: Sequence[Access], table: Operand, rounds: Operand, done: int) -> None:
        """Emit the update of shadow memory after `rounds` iterations and the first `done` accesses of one more."""
        self._call("update_rounds", table, len(accesses), rounds, done)

    # ---- rounds of a loop, access by access ----------------------------------------------------------------------
    def hoist(
        self, access: str, pcs: list[int], host: Operand, addend: Operand, end: Operand
    ) -> tuple[Operand, Operand]:
        """Emit a test, before a loop, of the inline cache entries of the loop's accesses at `pcs`.

        Return an i1 that is 1 if all entries are valid, and the guest address up to which they are valid."""
        text, fast_id = self.text, self._fast_id()
        self._hoisted_fast_id, self._hoisted_watermark = fast_id, self._watermark()
        self._watermark_now().store(self._hoisted_watermark)
        fine = (addend & 3).eq(0)
        if access == "write":
            self._hoisted_stores.update(pcs)
        for pc in pcs:
            cache = self._cache_of(pc)
            key = self._of(cache, "key").eq(self._key(access, pc))
            epoch_id = self._of(cache, "epoch_id").eq(fast_id)
            low, span = self._of(cache, "low"), self._of(cache, "span")
            inside = host - low < span
            for each in (key, epoch_id, inside):
                fine = fine & each
            last = low + span - addend
            end = text.call("i64", "llvm.umin.i64", f"i64 {end}", f"i64 {last}")
            self._hoisted[pc] = Fields({name: self._of(cache, name) for name in HOISTED})
            self._met_nowhere(pc)
        return fine, end

    def _reload_state(self) -> None:
        """Emit the refresh of the values that a loop's inline checks have read before the loop.

        It is needed after the call of a function, which may have changed them.
        """
        hoisted = [pc for pc in self.memory.addends if pc in self._hoisted]
        if not hoisted:
            return
        still = self._fast_id().eq(self._hoisted_fast_id)
        watermark = still.select(self._hoisted_watermark, 0)
        self._watermark_now().store(watermark)
        for pc in hoisted:
            self._met_nowhere(pc)

    def _watermark_now(self) -> Operand:
        return self.text.slot(f"  {WATERMARK_NOW}", "i64")

    def _watermark(self) -> Operand:
        self._row()
        return self.text.pointer("%race_watermark").load("i64")

    def _fast_id(self) -> Operand:
        self._row()
        return self.text.pointer("%race_fast_id").load("i64")

    def _cache_of(self, pc: int) -> Fields:
        return Fields(place=self._cache_at(pc))

    def _cache_at(self, pc: int) -> Operand:
        return self.text.pointer("%race_caches").offset((pc >> 1 & CACHES - 1) * CACHE_BYTES)

    def _key(self, access: str, pc: int) -> Operand:
        return self.control.ints.const(64, cache_key(pc, NAMES.index(access)))

    def _cache(self, access: str, w: int, host: Operand, slow_path: str, size: int = 0) -> Fields:
        """Return the inline cache entry of an access, after emitting a branch to `slow_path` if it is not valid.

        `size` is the number of bytes of the access if it may be larger than `native_check.LARGEST`.
        """
        pc = self.control.pc
        cache = self._cache_of(pc)
        key = self._of(cache, "key") ^ self._key(access, pc)
        fast_id = self._fast_id()
        epoch_id = self._of(cache, "epoch_id") ^ fast_id
        wrong = key | epoch_id
        if w >= 32:  # pages may begin anywhere in memory
            wrong = wrong | host & 3
        known = wrong.eq(0)
        distance, span = (host - self._of(cache, "low")), self._of(cache, "span")
        known = known & (distance < span)
        if size:
            end = distance + size
            known = known & (end < span)
        self._unless(known, slow_path)
        return cache

    def _of(self, cache: Fields, name: str) -> Operand:
        if name in cache.known:
            return cache.known[name]
        assert cache.place is not None
        return cache.place.element("i64", CACHE_AT[name]).load("i64")

    # ---- the checks ----------------------------------------------------------------------------------------------
    def _native(self, function: Function[Any], *arguments: Operand, **constants: int) -> Operand:
        """Emit the body of a native function inline, and return the function's result."""
        return call(self.text, function, *arguments, attributes="nounwind", **constants)

    def _clock(self, cache: Fields) -> tuple[Operand, ...]:
        """Return the arguments `watermark`, `now`, `fast_id` and `bounds` of the functions in `native_fast_path`."""
        bounds = self.text.pointer("%race_bounds").ptrtoint()
        if cache.known:
            return self._hoisted_watermark, self._watermark_now().load("i64"), self._hoisted_fast_id, bounds
        watermark = self._watermark()
        return watermark, watermark, self.text.word(0), bounds

    def _constants(self, cache: Fields, w: int) -> dict[str, int]:
        slots, atomic = slot_mask(self.harts), atomic_bit(self.harts)
        return {"size": w >> 3, "slots": slots, "atomic": atomic, "is_again": int(bool(cache.known))}

    def _load(self, cache: Fields, w: int, host: Operand, slow_path: str) -> None:
        """Emit the check of a load of whole dwords; a branch goes to `slow_path` if it fails."""
        row, record, constants = self._row(), self._of(cache, "record"), self._constants(cache, w)
        given = row, host, self._of(cache, "stores"), record, *self._clock(cache)
        self._unless(self._native(native_fast_path.may_load, *given, **constants).ne(0), slow_path)
        size, is_again = constants["size"], constants["is_again"]
        self._native(
            native_fast_path.note_load, row, host + self._of(cache, "loads"), record, size=size, is_again=is_again
        )
        self._loaded(*(host + at for at in range(0, w >> 3, DWORD)))

    def _store(self, cache: Fields, w: int, host: Operand, slow_path: str) -> None:
        """Emit the check of a store of whole dwords; a branch goes to `slow_path` if it fails."""
        row, record, sizes = self._row(), self._of(cache, "record"), {"size": w >> 3, "harts": self.harts}
        place, clock = (host, self._of(cache, "stores"), self._of(cache, "stride")), self._clock(cache)
        newest = self._native(native_fast_path.newest_load, *place, **sizes)
        given = row, *place, newest, record, *clock
        constants = self._constants(cache, w) | {"harts": self.harts}
        self._unless(self._native(native_fast_path.may_store, *given, **constants).ne(0), slow_path)
        self._native(native_fast_path.note_store, row, *place, newest, record, clock[0], **sizes)

    def _bytes(self, cache: Fields, w: int, host: Operand, is_load: bool, slow_path: str) -> None:
        """Emit the check of an access of some bytes of a dword; a branch goes to `slow_path` if it fails."""
        text, noted = self.text, self.text.fresh("noted")
        if cache.known:
            self._bytes_again(cache, w, host, noted)
        row, record = self._row(), self._of(cache, "record")
        stores, loads, stride = (self._of(cache, name) for name in ("stores", "loads", "stride"))
        constants = self._constants(cache, w)
        more = {"harts": self.harts, "is_load": int(is_load), "is_again": constants.pop("is_again")}
        given = row, host, stores, loads, stride, record, *self._clock(cache)
        self._unless(self._native(native_fast_path.access_part, *given, **constants, **more).eq(0), slow_path)
        dword = host & -DWORD
        if is_load:
            self._loaded(dword)
        if cache.known:
            self._met(dword, dword + (loads if is_load else stores))
        text.jump(noted)
        text.start(noted)
        text.pointer("%race_last").store(record if is_load else 0)

    def _bytes_again(self, cache: Fields, w: int, host: Operand, noted: str) -> None:
        """Emit a short check of an access in a loop, for the case that it touches the dword of the last iteration
        again.

        Other harts have not accessed that dword since, so the code only records the access, and goes to label
        `noted`. In other cases the code continues after this check."""
        text, again, first = self.text, self.text.fresh("again"), self.text.fresh("first")
        dword, cell = self._last()
        at = host - dword.load("i64")
        shares_line = at < DWORD + 1 - (w >> 3)
        text.branch(~shares_line, first, again, LIKELY)
        text.start(again)
        place = cell.load("i64").inttoptr()
        old = place.load("i32").zext("i64")
        if not self._is_apart():
            self._unless(self._native(native_fast_path.is_single, old, self._of(cache, "record")).ne(0), first)
        place.store((old | ((1 << (w >> 3)) - 1 << at)).trunc("i32"))
        text.jump(noted)
        text.start(first)

    def _column(self, cache: Fields, dwords: int, host: Operand, is_load: bool, slow_path: str) -> None:
        """Emit the check of an access to `dwords` adjacent dwords; a branch goes to `slow_path` if it fails."""
        row, record, watermark = self._row(), self._of(cache, "record"), self._watermark()
        stores, loads = (host + self._of(cache, name) for name in ("stores", "loads"))
        for pc in self.memory.addends if is_load else ():
            if pc in self._hoisted_stores:
                self._met_nowhere(pc)
        sizes = {"dwords": dwords, "lanes": min(dwords, COLUMN)}
        given = stores, self._of(cache, "stride"), record, watermark
        layers = planes_met(is_load, self.harts)
        free = self._native(
            native_fast_path.is_column_free, *given, layers=layers, **sizes, slots=slot_mask(self.harts)
        )
        self._unless(free.ne(0), slow_path)
        if is_load:
            self._native(native_fast_path.note_loads, row, loads, record, **sizes)
        else:
            self._native(native_fast_path.note_stores, row, stores, loads, record, watermark, **sizes)

    def _loaded(self, *dwords: Operand) -> None:
        """Emit code that makes a loop's stores to these dwords test the records of loads again.

        It is emitted after a load of the dwords.
        """
        for pc in self.memory.addends:
            if pc in self._hoisted_stores:
                slot = self._last(pc)[0]
                for dword in dwords:
                    last = slot.load("i64")
                    is_there = last.eq(dword)
                    slot.store(is_there.select(NOWHERE, last))

    def _is_apart(self) -> bool:
        """Return True if only inline checks of parts of dwords change shadow words in the loop.

        This is false if the loop accesses whole dwords or vectors. After a function call everything is checked again.
        """
        return not any(size_of(insn) >= 4 or insn.spec.extension == "V" for insn in self.memory.loop)

    def _last(self, pc: int | None = None) -> tuple[Operand, Operand]:
        """Return two variables of a loop's access: the last dword that it has touched, and that dword's shadow word.

        Both hold addresses. The access is the one at `pc`, by default the current one."""
        name = f"{self.control.pc if pc is None else pc:x}"
        return self.text.slot(f"  %race_dword{name}", "i64"), self.text.slot(f"  %race_cell{name}", "i64")

    def _met_nowhere(self, pc: int) -> None:
        """Emit a reset of the variables of `_last`: the loop's access has not touched a dword yet."""
        self._met(self.text.word(NOWHERE), self.text.word(0), pc)

    def _met(self, where: Operand, place: Operand, pc: int | None = None) -> None:
        """Emit writes of the variables of `_last`.

        The access at `pc` has touched the dword at `where`, whose shadow word is at `place`."""
        dword, cell = self._last(pc)
        dword.store(where)
        cell.store(place)


def _shares_lines(access: Access) -> bool:
    """Return True if accesses in consecutive iterations share cache lines.

    Otherwise a check at each access costs less than a check of many iterations. Accesses of less than a dword must also
    be adjacent.
    """
    walk = access.walk
    return not walk.step_register and (walk.step == access.size or (walk.step < LINE_BYTES and access.size >= DWORD))


def instrumentation(harts: int) -> Instrumentation:
    """Return the race check's part in translated code, for a device with `harts` harts."""
    return Instrumentation((f"races {harts}",), access_check=partial(RaceAccessCheck, harts))
