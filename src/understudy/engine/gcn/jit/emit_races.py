"""The check of races in translated code: compiled functions are told of accesses before these are made (`races`).

They are called by the row of the wave, which knows where they are; where one of them leaves, the reference engine does
what was meant.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit import emit_race_scalars, layout
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.emit_contiguous import Addresses, bound_of
from understudy.engine.gcn.jit.emit_control import Control, word
from understudy.engine.gcn.jit.emit_helpers import LIKELY, Helpers
from understudy.engine.gcn.jit.emit_race_cells import Cells, Place
from understudy.engine.gcn.jit.emit_race_shapes import Access, Shape, Shapes
from understudy.engine.gcn.jit.emit_registers import VectorFile
from understudy.engine.gcn.races.codes import (
    FLAT,
    GLOBAL,
    HINT_BYTES,
    HINTS,
    HINTS_AT,
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
from understudy.ir.builder import LaneText, Value

SPACES: Final = {"global": GLOBAL, "flat": FLAT, "lds": LDS}


class RaceHooks:
    """Calls of what looks for races. `exec`: the lanes of the strip that is being written."""

    def __init__(
        self, text: LaneText, vectors: VectorFile, control: Control, helpers: Helpers, addresses: Addresses
    ) -> None:
        self.text = text
        self.vectors = vectors
        self.control = control
        self.helpers = helpers
        self.addresses = addresses
        self.exec = ""
        self._slot = 0
        self._may_wait = self._keeps_tick = False
        self._waiting: list[Access] = []
        self._strip_row = ""
        self._cells: Cells

    def begin_strip(self, exec: str, stores: set[str]) -> None:
        """No access goes on; the wave has left the barrier that it came to. `stores`: spaces."""
        text, row = self.text, self._row()
        self.exec = exec
        self._may_wait = not stores
        self._keeps_tick = not stores & {"global", "flat"}
        text.put(f"store i64 0, ptr {self._field('open', row)}")
        race = text.let(f"inttoptr i64 {self._load('race', row)} to ptr")
        serial = text.let(f"getelementptr i64, ptr {race}, i64 {RACE_AT['serial']}")
        last = text.let(f"load i64, ptr {serial}")
        text.put(f"store i64 {text.let(f'add i64 {last}, {SLOTS}')}, ptr {serial}")
        waits, on = text.fresh("waits"), text.fresh("on")
        is_left = text.let(f"icmp eq i64 {self._load('passed', row)}, {self._load('generation', row)}")
        text.branch(is_left, on, waits, LIKELY)
        with text.apart(waits):
            self._call("go_on", "")
            text.put(f"br label %{on}")
        text.start(on)
        self._strip_row, self._cells = row, Cells(text, row, stores_locally="lds" in stores)

    def begin_chunk(self) -> None:
        """The accesses of a strip are next, in order. What waited in one that could not be written, is forgotten."""
        self._slot = 0
        self._waiting = []

    def look(self, kind: str, space: str, bits: int, number: int, address: Value, where: Value | None) -> None:
        """A chunk of lanes makes access `number` of its instruction next, `where`; leave where Python has to look.

        Loads wait for the chunk's end where nothing is stored: if the strip is left before, they will be made anew.
        """
        text, slot = self.text, self._slot
        self._slot += 1
        if slot >= SLOTS or number >> NUMBER_BITS:
            raise Untranslated
        what = (LOAD if kind == "load" else STORE) | SPACES[space] << SPACE_AT | bits // 8 << SIZE_AT
        key = text.let(f"or i64 {text.let(f'shl i64 {self._pc()}, {NUMBER_BITS}')}, {number}")
        active, bound = self.vectors.active(), bound_of(space, address, where)
        mask = active if where is None else self.addresses.ints.and_(1, active, where)
        lanes = text.let(f"zext i{text.lanes} {self.vectors.compressed(mask)} to i64")
        every = mask if bound is None else active
        hint_at, insn = HINTS_AT + HINT_BYTES * self._hint(number), self._insn << NUMBER_BITS | number
        hint = text.let(f"add i64 {self._strip_row}, {hint_at}")
        self._waiting.append(
            Access(kind, space, bits, address, lanes, every, bound, slot, hint, key, what, hint_at, insn)
        )
        if not self._may_wait:
            self.end_chunk()

    def end_chunk(self) -> None:
        """Look at the accesses that have waited."""
        text, (accesses, self._waiting) = self.text, (self._waiting, [])
        shapes = Shapes(text, self.addresses, [each for each in accesses if _has_shape(each)])
        looked, number = dict[int, str](), 0
        for batch in shapes.batches() if self._may_wait else ():
            looked.update(dict.fromkeys((each.number for each in batch.accesses), self._cells.many(batch, self._first)))
        for access in accesses:
            far, done, shape = text.fresh("far"), text.fresh("looked"), Shape()
            if _has_shape(access):
                shape = shapes.shape(number)
                number += 1
            if access.number in looked:
                on = text.fresh("on")
                text.branch(looked[access.number], done, on)
                text.start(on)
            self._far(access, self._regular(access, shape, far, done), far, done)

    def _far(self, access: Access, shapes: list[str], far: str, done: str) -> None:
        """Have a function look at an access; `shapes`: of lanes, and where they come from."""
        text, address = self.text, access.address
        with text.apart(far):
            shape = text.let(f"phi i64 {', '.join(shapes)}")
            room = f"%{self.vectors.home.prefix}races"
            text.alloca(f"{room} = alloca <{text.lanes} x i64>, align {8 * text.lanes}")
            wide = text.itype(64, True)
            every = text.bits(address, True)
            if address.w == 32:
                every = text.let(f"zext {text.itype(32, True)} {every} to {wide}")
            text.put(f"store {wide} {every}, ptr {room}, align {8 * text.lanes}")
            own = f"i64 {access.number}, i64 {access.hint}, i64 {access.key}, i64 {access.what}, i64 {self.exec}"
            where = f"i64 {self._first}, ptr {room}, i64 {access.lanes}, i64 {shape}"
            status = self._call_lanes("look_ahead", f"{own}, {where}")
            is_fine = text.let(f"icmp eq i64 {status}, 0")
            text.branch(is_fine, done, f"leave{self.vectors.label}", LIKELY)
        text.start(done)

    @property
    def _first(self) -> str:
        """The first lane of the chunk."""
        return f"%sh{self.vectors.label}"

    def _regular(self, access: Access, shape: Shape, far: str, done: str) -> list[str]:
        """Look at lanes side by side, at loads of one place, or from anywhere, in line: to `done`, or to `far`.

        Shapes that are told there, and where they come from.
        """
        text, cells, shapes, waiting = self.text, self._cells, list[str](), list[str]()
        slot = text.let(f"add i64 {self._strip_row}, {SLOTS_AT + SLOT_BYTES * access.number}")
        place = Place(access.hint, slot, access.key, self._first, shape.address, access.space == "lds")
        is_quick, bit, lanes = self._is_quick(access), 1 << access.number, text.fresh("lanes")
        if shape.side:
            other, closer = self._begin_shape(shape.side)
            if not is_quick:
                text.put(f"br label %{closer}")
            elif access.kind == "load":
                cells.load_line(place, shape.line, closer, done)
            else:
                cells.store_line(place, shape.line, bit, closer, done)
            is_load = access.kind == "load" and is_quick
            (waiting if is_load else shapes).append(self._end_shape(SIDE, closer, lanes if is_load else far))
            text.start(other)
        if shape.same:
            other, closer = self._begin_shape(shape.same)
            if is_quick:
                on = text.fresh("on")
                text.branch(shape.every, on, closer, LIKELY)
                text.start(on)
                cells.load_dwords(place, access.bits // 32, closer, done)
            else:
                text.put(f"br label %{closer}")
            shapes.append(self._end_shape(SAME, closer, far))
            text.start(other)
        some = text.fresh("some")
        text.branch(text.let(f"icmp eq i64 {access.lanes}, 0"), done, some)
        text.start(some)
        waiting.append(f"[ 0, %{text.label} ]")
        text.put(f"br label %{lanes}")
        text.start(lanes)
        waited = text.let(f"phi i64 {', '.join(waiting)}")
        if is_quick and access.bits in (8, 32) and (access.kind == "load" or shape.row):
            closer = text.fresh("closer")
            if access.kind == "store":
                on = text.fresh("on")
                text.branch(shape.row, on, closer)
                text.start(on)
            cells.lanes(place, access, bit, closer, done)
            text.start(closer)
        shapes.append(f"[ {waited}, %{text.label} ]")
        text.put(f"br label %{far}")
        return shapes

    def _begin_shape(self, ready: str) -> tuple[str, str]:
        """Go on where lanes are of a shape; labels for where they are not, and for what is not enough then."""
        there, other = self.text.fresh("regular"), self.text.fresh("other")
        self.text.branch(ready, there, other)
        self.text.start(there)
        return other, self.text.fresh("closer")

    def _end_shape(self, shape: int, closer: str, far: str) -> str:
        """What was not enough is told by its shape."""
        with self.text.apart(closer):
            self.text.put(f"br label %{far}")
        return f"[ {shape}, %{closer} ]"

    def _is_quick(self, access: Access) -> bool:
        """Whether cells are looked at in line: not where ticks change in between."""
        is_store = access.kind == "store" and access.space != "lds"
        return self.text.lanes == LINE_LANES and (self._keeps_tick or is_store)

    @property
    def _insn(self) -> int:
        """Where the instruction is, but for where code lies."""
        return self.control.block.nodes[self.control.index].insn.pc

    def _hint(self, number: int) -> int:
        """Which hint an access has: another one than those near to it."""
        return (self._insn // 4 + number) % HINTS

    def _load(self, name: str, row: str) -> str:
        return self.text.let(f"load i64, ptr {self._field(name, row)}")

    def _call_lanes(self, name: str, arguments: str) -> str:
        return self._call(name, arguments, before=f"ptr {self.vectors.home.state}, ")

    def look_scalar(self, dwords: int, address: str) -> None:
        """The wave reads dwords at an address."""
        text, what = self.text, LOAD | GLOBAL << SPACE_AT | 4 * dwords << SIZE_AT
        row, key = self._row(), text.let(f"shl i64 {self._pc()}, {NUMBER_BITS}")
        hint = text.let(f"add i64 {row}, {HINTS_AT + HINT_BYTES * self._hint(0)}")
        closer, done = text.fresh("closer"), text.fresh("done")
        for start in range(0, dwords, emit_race_scalars.MOST):
            count, on = min(dwords - start, emit_race_scalars.MOST), text.fresh("on")
            text.declarations.update(emit_race_scalars.definition(count))
            at = text.let(f"add i64 {address}, {4 * start}") if start else address
            given = f"i64 {row}, i64 {hint}, i64 {key}, i64 {at}"
            status = text.let(f"call i64 @{emit_race_scalars.name(count)}({given})")
            text.branch(text.let(f"icmp eq i64 {status}, 0"), on, closer, LIKELY)
            text.start(on)
        text.put(f"br label %{done}")
        text.start(closer)
        self._or_step(self._call("look_scalar", f"i64 {hint}, i64 {key}, i64 {what}, i64 {address}"))
        text.put(f"br label %{done}")
        text.start(done)

    def arrive(self) -> None:
        """The wave has come to a barrier."""
        self._or_step(self._call("arrive", ""))

    def finish(self) -> None:
        """The wave ends."""
        self._or_step(self._call("finish", ""))

    def waited(self) -> None:
        """The wave has waited for its stores."""
        self.text.put(f"store i64 1, ptr {self._field('is_waited')}")

    def _pc(self) -> str:
        """Address of the instruction."""
        return self.control.base.at(self._insn)

    def _row(self) -> str:
        return word(self.text, layout.RACES)

    def _field(self, name: str, row: str = "") -> str:
        pointer = self.text.let(f"inttoptr i64 {row or self._row()} to ptr")
        return self.text.let(f"getelementptr i64, ptr {pointer}, i64 {ROW_AT[name]}")

    def _call(self, name: str, arguments: str, before: str = "") -> str:
        row = self._row()
        function = self.text.let(f"load ptr, ptr {self._field(name, row)}")
        more = f", {arguments}" if arguments else ""
        return self.text.let(f"call i64 {function}({before}i64 {row}{more})")

    def _or_step(self, status: str) -> None:
        on = self.text.fresh("on")
        self.text.branch(self.text.let(f"icmp eq i64 {status}, 0"), on, self.control.step_exit(), LIKELY)
        self.text.start(on)


def _has_shape(access: Access) -> bool:
    """Whether what lanes have in common is worth asking."""
    return access.bits >= 32 or (access.kind == "store" and access.bits == 8)
