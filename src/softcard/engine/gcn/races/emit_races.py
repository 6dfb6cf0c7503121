"""The emitter of race checks in translated code: compiled functions check each access before it is made.

The wave's `WaveRow` has the functions' addresses. If a function returns 1, a side exit leaves the access to the
reference engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.emit.emit_contiguous import Addresses, bound_of
from softcard.engine.gcn.jit.emit.emit_control import Control, word
from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY, Helpers
from softcard.engine.gcn.jit.emit.emit_registers import VectorFile
from softcard.engine.gcn.races.emit_race_cells import APART, Cells, Place
from softcard.engine.gcn.races.emit_race_shapes import Access, Shape, Shapes
from softcard.engine.gcn.races.layout import (
    CACHE_BYTES,
    CACHES,
    CACHES_AT,
    FLAT,
    GLOBAL,
    LDS,
    LINE_LANES,
    LOAD,
    NUMBER_BITS,
    RACE_AT,
    ROW_AT,
    SAME,
    SIDE,
    SIZE_AT,
    SLOT_BYTES,
    SLOTS,
    SLOTS_AT,
    SPACE_AT,
    STORE,
)
from softcard.engine.gcn.races.native_lanes import load_scalars
from softcard.ir.builder import LaneText, Value
from softcard.ir.native_llvm import call
from softcard.ir.operand import Operand
from softcard.isa.gcn.state import EXEC

Arm = tuple[Operand | int, str]
"""The type of a phi's argument: a value, and the label of the block that it comes from.

See `builder.Text.phi`.
"""
SCALARS: Final = LINE_LANES // 2
"""The maximum number of dwords that one call of `native_lanes.load_scalars` checks."""
SPACES: Final = {"global": GLOBAL, "flat": FLAT, "lds": LDS}


class RaceHooks:
    """The emitter of calls of the race check. `exec` is the mask of lanes active in the strip-mined loop."""

    def __init__(
        self, text: LaneText, vectors: VectorFile, control: Control, helpers: Helpers, addresses: Addresses
    ) -> None:
        self.text = text
        self.vectors = vectors
        self.control = control
        self.helpers = helpers
        self.addresses = addresses
        self.exec: Operand
        self._slot = 0
        self._may_wait = self._keeps_epoch = False
        self._waiting: list[Access] = []
        self._strip_row: Operand
        self._cells: Cells

    def begin_strip(self, exec: Operand, stores: set[str]) -> None:
        """Begin a strip-mined loop.

        The emitted code ends the accesses of earlier loops by closing their slots (`layout.Slot`). It also lets the
        wave pass a barrier that it has reached. `stores` are the address spaces to which the loop stores."""
        text, row = self.text, self._row()
        self.exec = exec
        self._may_wait = not stores
        self._keeps_epoch = not stores & {"global", "flat"}
        self._field("open", row).store(0)
        race = self._load("race", row).inttoptr()
        serial = race.element("i64", RACE_AT["serial"])
        last = serial.load("i64")
        serial.store(last + SLOTS)
        waits, on = text.fresh("waits"), text.fresh("on")
        is_left = self._load("passed", row).eq(self._load("generation", row))
        text.branch(is_left, on, waits, LIKELY)
        with text.apart(waits):
            self._call("go_on")
            text.jump(on)
        text.start(on)
        self._strip_row, self._cells = row, Cells(text, row, stores_locally="lds" in stores)

    def begin_chunk(self) -> None:
        """Begin the code that handles one lane vector in a strip-mined loop.

        Discard deferred checks that remained from a failed translation."""
        self._slot = 0
        self._waiting = []

    def access(
        self,
        kind: str,
        space: str,
        bits: int,
        number: int,
        address: Value,
        where: Value | None,
        values: Sequence[Value],
    ) -> None:
        """Emit the check of access `number` of the instruction by a lane vector, with a side exit to Python.

        `where` is the mask of the lanes that make the access. If the loop does not store, checks of loads are
        deferred to the end of the lane vector; a side exit then repeats the loads."""
        slot = self._slot
        self._slot += 1
        if slot >= SLOTS or number >> NUMBER_BITS:
            raise Untranslated
        what = (LOAD if kind == "load" else STORE) | SPACES[space] << SPACE_AT | bits // 8 << SIZE_AT
        key = self._pc() << NUMBER_BITS | number
        active, bound = self.vectors.active(), bound_of(space, address, where)
        mask = active if where is None else self.addresses.ints.and_(1, active, where)
        lanes = self.vectors.compressed(mask).zext("i64")
        every = mask if bound is None else active
        cache_at, insn = CACHES_AT + CACHE_BYTES * self._cache(number), self._insn << NUMBER_BITS | number
        cache = self._strip_row + cache_at
        self._waiting.append(
            Access(kind, space, bits, address, lanes, every, bound, slot, cache, key, what, cache_at, insn, values)
        )
        if not self._may_wait:
            self.end_chunk()

    def end_chunk(self) -> None:
        """Emit the checks that were deferred to the lane vector's end."""
        text, (accesses, self._waiting) = self.text, (self._waiting, [])
        shapes = Shapes(text, self.addresses, [each for each in accesses if _has_shape(each)])
        checked, number = dict[int, Operand](), 0
        for batch in shapes.batches() if self._may_wait else ():
            checked.update(
                dict.fromkeys((each.number for each in batch.accesses), self._cells.many(batch, self._first))
            )
        for access in accesses:
            full_check, done, shape = text.fresh("full_check"), text.fresh("checked"), None
            if _has_shape(access):
                shape = shapes.shape(number)
                number += 1
            if access.number in checked:
                on = text.fresh("on")
                text.branch(checked[access.number], done, on)
                text.start(on)
            self._full_check(access, self._regular(access, shape, full_check, done), full_check, done)

    def _full_check(self, access: Access, shapes: list[Arm], full_check: str, done: str) -> None:
        """Emit the call of the full check; `shapes` are the address patterns by predecessor block."""
        text = self.text
        with text.apart(full_check):
            shape, room = text.phi("i64", *shapes), self._stored_addresses(access.address)
            own = access.number, access.cache, access.key, access.what, self.exec
            where = self._first, room, access.lanes, shape
            status = self._call("check_vector", *own, *where, before=(self.vectors.state,))
            is_fine = status.eq(0)
            text.branch(is_fine, done, f"leave{self.vectors.label}", LIKELY)
        text.start(done)
        self._end_check(access)

    def _end_check(self, access: Access) -> None:
        """Emit further checks of an access, after the race check has accepted it."""

    def _stored_addresses(self, address: Value) -> Operand:
        """Emit the store of a lane vector's addresses to the stack; return the host address of the first one."""
        text = self.text
        wide, align = text.itype(64, True), 8 * text.lanes
        room = text.slot(f"%{self.vectors.base.prefix}races", wide, f", align {align}")
        every = text.bits(address, True)
        room.store(every.zext(wide) if address.w == 32 else every, align=align)
        return room

    @property
    def _first(self) -> Operand:
        """The first lane of the present lane vector."""
        return self.text.word(f"%sh{self.vectors.label}")

    def _regular(self, access: Access, shape: Shape | None, full_check: str, done: str) -> list[Arm]:
        """Emit the fast-path check of an access.

        The emitted code jumps to `done`, or to `full_check` if the full check is needed. It handles contiguous lanes,
        loads of one address, and other addresses. Return the address patterns for the full check, by predecessor
        block."""
        text, cells, shapes, waiting = self.text, self._cells, list[Arm](), list[Arm]()
        slot = self._strip_row + (SLOTS_AT + SLOT_BYTES * access.number)
        address = text.constant("i64", 0) if shape is None else shape.address
        place = Place(access.cache, slot, access.key, self._first, address, access.space == "lds")
        is_inline, bit, lanes = self._is_inline(access), 1 << access.number, text.fresh("lanes")
        if shape is not None and shape.side is not None:
            assert shape.line is not None
            other, slow_path = self._begin_shape(shape.side)
            if not is_inline:
                text.jump(slow_path)
            elif access.kind == "load":
                cells.load_line(place, shape.line, slow_path, done)
            else:
                cells.store_line(place, shape.line, bit, slow_path, done)
            is_load = access.kind == "load" and is_inline
            (waiting if is_load else shapes).append(self._end_shape(SIDE, slow_path, lanes if is_load else full_check))
            text.start(other)
        if shape is not None and shape.same is not None:
            other, slow_path = self._begin_shape(shape.same)
            if is_inline:
                on = text.fresh("on")
                text.branch(shape.every, on, slow_path, LIKELY)
                text.start(on)
                cells.load_dwords(place, access.bits // 32, slow_path, done)
            else:
                text.jump(slow_path)
            shapes.append(self._end_shape(SAME, slow_path, full_check))
            text.start(other)
        some = text.fresh("some")
        text.branch(access.lanes.eq(0), done, some)
        text.start(some)
        waiting.append((0, text.label))
        text.jump(lanes)
        text.start(lanes)
        waited = text.phi("i64", *waiting)
        row = None if shape is None else shape.row
        is_anywhere = access.kind == "load" or access.space == "lds"
        can_pass = access.bits in (8, 32) or (access.bits in (64, 96, 128) and is_anywhere)
        if is_inline and can_pass and (is_anywhere or row is not None):
            slow_path = text.fresh("slow_path")
            if not is_anywhere and row is not None:
                on = text.fresh("on")
                text.branch(row, on, slow_path)
                text.start(on)
            cells.lanes(place, access, bit, slow_path, done)
            text.start(slow_path)
        shapes.append((waited, text.label))
        text.jump(full_check)
        return shapes

    def _begin_shape(self, ready: Operand) -> tuple[str, str]:
        """Emit a branch on the condition `ready` that the address pattern is known, and begin the code for that case.

        Return two labels: that of the code for other address patterns, and that of the code that leads to the full
        check."""
        there, other = self.text.fresh("regular"), self.text.fresh("other")
        self.text.branch(ready, there, other)
        self.text.start(there)
        return other, self.text.fresh("slow_path")

    def _end_shape(self, shape: int, slow_path: str, full_check: str) -> Arm:
        """Emit the jump from the label `slow_path` to the full check with the address pattern `shape`.

        Return the pattern and the label as an argument of a phi.
        """
        with self.text.apart(slow_path):
            self.text.jump(full_check)
        return shape, slow_path

    def _is_inline(self, access: Access) -> bool:
        """Return True if the fast path can check the access.

        It can if the lane vector is as long as a line, and the other accesses of the loop do not change the epoch.
        """
        is_store = access.kind == "store" and access.space != "lds"
        return self.text.lanes == LINE_LANES and (self._keeps_epoch or is_store)

    @property
    def _insn(self) -> int:
        """The guest address of the instruction at translation time."""
        return self.control.block.nodes[self.control.index].insn.pc

    def _cache(self, number: int) -> int:
        """Return the number of the inline shadow cache of access `number` of the instruction.

        Accesses of neighbouring instructions usually have different caches."""
        return (self._insn // 4 + number) % CACHES

    def _load(self, name: str, row: Operand) -> Operand:
        return self._field(name, row).load("i64")

    def scalar_access(self, dwords: int, address: Operand) -> None:
        """Emit the check of a scalar load of dwords."""
        text, what = self.text, LOAD | GLOBAL << SPACE_AT | 4 * dwords << SIZE_AT
        row, key = self._row(), (self._pc() << NUMBER_BITS)
        cache = row + (CACHES_AT + CACHE_BYTES * self._cache(0))
        slow_path, done = text.fresh("slow_path"), text.fresh("done")
        for start in range(0, dwords, SCALARS):
            count, on = min(dwords - start, SCALARS), text.fresh("on")
            at = (address + 4 * start) if start else address
            status = call(text, load_scalars, row, cache, key, at, attributes=APART, count=count)
            text.branch(status.eq(0), on, slow_path, LIKELY)
            text.start(on)
        text.jump(done)
        text.start(slow_path)
        self._or_step(self._call("check_scalar", cache, key, what, address))
        text.jump(done)
        text.start(done)

    def arrive(self) -> None:
        """Emit the call that records that a wave has reached a barrier."""
        self._or_step(self._call("arrive"))

    def finish(self) -> None:
        """Emit the call that records the end of a wave."""
        self._or_step(self._call("finish"))

    def waited(self) -> None:
        """Emit code that records that the wave has waited for its stores."""
        self._field("is_waited").store(1)

    def _pc(self) -> Operand:
        """Emit the computation of the instruction's guest address at run time."""
        return self.control.base.at(self._insn)

    def _row(self) -> Operand:
        return word(self.text, layout.TRACKED)

    def _field(self, name: str, row: Operand | None = None) -> Operand:
        pointer = (self._row() if row is None else row).inttoptr()
        return pointer.element("i64", ROW_AT[name])

    def _call(self, name: str, *arguments: Operand | int, before: tuple[Operand, ...] = ()) -> Operand:
        row = self._row()
        function = self._field(name, row).load("ptr")
        return self.text.invoke("i64", function, *before, row, *arguments)

    def _or_step(self, status: Operand) -> None:
        on = self.text.fresh("on")
        self.text.branch(status.eq(0), on, self.control.step_exit(), LIKELY)
        self.text.start(on)


def _has_shape(access: Access) -> bool:
    """Return True if it is worthwhile to test the access's address pattern."""
    return access.bits >= 32 or (access.kind == "store" and access.bits == 8)


# ---- lanes -----------------------------------------------------------------------------------------------------------


class LaneOrderHooks(RaceHooks):
    """The emitter of calls of the race check and of the check `lanes` (see `native_lane_order`).

    A side exit leaves conflicting accesses to the reference engine, which reports them.
    """

    def _end_check(self, access: Access) -> None:
        """Emit the check of the lanes of a lane vector against the other lanes of the wave."""
        text, on = self.text, self.text.fresh("on")
        where = self._first, self._stored_addresses(access.address), self._stored_values(access)
        status = self._call(
            "check_lanes", access.key, access.what, *where, text.lanes, access.lanes, before=(self.vectors.state,)
        )
        text.branch(status.eq(0), on, f"leave{self.vectors.label}", LIKELY)
        text.start(on)

    def _stored_values(self, access: Access) -> Operand:
        """Emit the store of the dwords that lanes store to the stack; return the host address of the first one."""
        text, align = self.text, 4 * self.text.lanes
        kind = text.itype(32, True)
        room = text.slot(f"%{self.vectors.base.prefix}stored", f"[4 x {kind}]", f", align {align}")
        for number, value in enumerate(access.values):
            room.offset(align * number).store(text.bits(value, True), align=align)
        return room

    def scalar_access(self, dwords: int, address: Operand) -> None:
        """Emit the checks of a scalar load of dwords."""
        super().scalar_access(dwords, address)
        what, key = LOAD | GLOBAL << SPACE_AT | 4 * dwords << SIZE_AT, self._pc() << NUMBER_BITS
        exec_mask = self.text.bits(self.vectors.scalars.whole(EXEC))
        self._or_step(self._call("check_wave", key, what, address, exec_mask))
