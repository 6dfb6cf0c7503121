"""The check of races in translated code: compiled functions are told of accesses before these are made (`races`).

They are called by the row of the wave, which knows where they are; where one of them leaves, the reference engine does
what was meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.emit_contiguous import Addresses
from understudy.engine.gcn.jit.emit_control import Control, word
from understudy.engine.gcn.jit.emit_helpers import LIKELY, Helpers
from understudy.engine.gcn.jit.emit_race_cells import Cells, Place
from understudy.engine.gcn.jit.emit_registers import VectorFile
from understudy.engine.gcn.races.codes import (
    FLAT,
    GLOBAL,
    HINT_BYTES,
    HINTS,
    HINTS_AT,
    LDS,
    LINE,
    LINE_LANES,
    LOAD,
    NUMBER_BITS,
    PAGE_BITS,
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


@dataclass(frozen=True, slots=True)
class Access:
    """One by a chunk of lanes."""

    kind: str
    space: str
    bits: int
    slot: int
    address: Value
    mask: Value
    lanes: str
    place: Place


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
        self._keeps_tick = False
        self._strip_row = ""
        self._cells: Cells
        self._hints: dict[tuple[int, int], int] = {}

    def begin_strip(self, exec: str, stores: set[str]) -> None:
        """No access goes on; the wave has left the barrier that it came to. `stores`: spaces."""
        text, row = self.text, self._row()
        self.exec = exec
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
        self._strip_row, self._cells = row, Cells(text, row)

    def begin_chunk(self) -> None:
        """The accesses of a strip are next, in order."""
        self._slot = 0

    def look(self, kind: str, space: str, bits: int, number: int, address: Value, mask: Value) -> None:
        """A chunk of lanes makes access `number` of its instruction next; leave where Python has to look."""
        text, slot, row = self.text, self._slot, self._strip_row
        self._slot += 1
        if slot >= SLOTS or number >> NUMBER_BITS:
            raise Untranslated
        what = (LOAD if kind == "load" else STORE) | SPACES[space] << SPACE_AT | bits // 8 << SIZE_AT
        key = text.let(f"or i64 {text.let(f'shl i64 {self._pc()}, {NUMBER_BITS}')}, {number}")
        lanes = text.let(f"zext i{text.lanes} {self.vectors.compressed(mask)} to i64")
        hint = text.let(f"add i64 {row}, {HINTS_AT + HINT_BYTES * (self._hint(number) % HINTS)}")
        first = f"%sh{self.vectors.label}"
        far, done = text.fresh("far"), text.fresh("looked")
        shapes = ["0"]
        if bits >= 32:
            place = Place(hint, text.let(f"add i64 {row}, {SLOTS_AT + SLOT_BYTES * slot}"), key, first)
            shapes = self._regular(Access(kind, space, bits, slot, address, mask, lanes, place), far, done)
        else:
            text.put(f"br label %{far}")
        with text.apart(far):
            shape = text.let("phi i64 " + ", ".join(shapes)) if len(shapes) > 1 else "0"
            room = f"%{self.vectors.home.prefix}races"
            text.alloca(f"{room} = alloca <{text.lanes} x i64>, align {8 * text.lanes}")
            wide = text.itype(64, True)
            every = text.bits(address, True)
            if address.w == 32:
                every = text.let(f"zext {text.itype(32, True)} {every} to {wide}")
            text.put(f"store {wide} {every}, ptr {room}, align {8 * text.lanes}")
            own = f"i64 {slot}, i64 {hint}, i64 {key}, i64 {what}, i64 {self.exec}, i64 {first}"
            status = self._call_lanes("look_ahead", f"{own}, ptr {room}, i64 {lanes}, i64 {shape}")
            is_fine = text.let(f"icmp eq i64 {status}, 0")
            text.branch(is_fine, done, f"leave{self.vectors.label}", LIKELY)
        text.start(done)

    def _regular(self, access: Access, far: str, done: str) -> list[str]:
        """Look at lanes side by side, or at loads of one place, in line: to `done`, or to `far`.

        Shapes that are told there, and where they come from.
        """
        text, address, cells = self.text, access.address, self._cells
        first = self.addresses.first(address)
        wide = first if address.w == 64 else text.let(f"zext i32 {first} to i64")
        is_local, shapes = access.space == "lds", []
        every = text.let(f"icmp eq i64 {access.lanes}, {(1 << text.lanes) - 1}")
        if access.bits == 32 and text.lanes == LINE_LANES:
            in_line = self.addresses.side_by_side(address, first, 4)
            at_start = text.let(f"icmp eq i64 {text.let(f'and i64 {wide}, {LINE - 1}')}, 0")
            ready = text.let(f"and i1 {text.let(f'and i1 {in_line}, {every}')}, {at_start}")
            other, closer = self._begin_shape(ready)
            if self._is_quick(access):
                self._inside(access, wide, LINE, closer)
                if access.kind == "load":
                    cells.load_line(access.place, wide, is_local, closer, done)
                else:
                    cells.store_line(access.place, wide, is_local, 1 << access.slot, closer, done)
            else:
                text.put(f"br label %{closer}")
            shapes.append(self._end_shape(SIDE, closer, far))
            text.start(other)
        if access.kind == "load":
            differing = self.addresses.differing(address, first)
            wrong = text.let(f"and <{text.lanes} x i1> {differing}, {text.bits(access.mask, True)}")
            some = text.let(f"bitcast <{text.lanes} x i1> {wrong} to i{text.lanes}")
            none, is_any = text.let(f"icmp eq i{text.lanes} {some}, 0"), text.let(f"icmp ne i64 {access.lanes}, 0")
            aligned = text.let(f"icmp eq i64 {text.let(f'and i64 {wide}, 3')}, 0")
            ready = text.let(f"and i1 {text.let(f'and i1 {none}, {is_any}')}, {aligned}")
            other, closer = self._begin_shape(ready)
            if self._is_quick(access):
                on = text.fresh("on")
                text.branch(every, on, closer, LIKELY)
                text.start(on)
                self._inside(access, wide, access.bits // 8, closer)
                cells.load_dwords(access.place, wide, access.bits // 32, is_local, closer, done)
            else:
                text.put(f"br label %{closer}")
            shapes.append(self._end_shape(SAME, closer, far))
            text.start(other)
        shapes.append(f"[ 0, %{text.label} ]")
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

    def _inside(self, access: Access, address: str, size: int, other: str) -> None:
        """Go on where bytes lie in LDS as a whole, if it is that, and in one page."""
        text, conditions = self.text, list[str]()
        if access.space == "lds":
            conditions.append(text.let(f"icmp ule i64 {text.let(f'add i64 {address}, {size}')}, %ldssize"))
        elif access.bits > 32:
            offset = text.let(f"and i64 {address}, {(1 << PAGE_BITS) - 1}")
            conditions.append(text.let(f"icmp ule i64 {offset}, {(1 << PAGE_BITS) - size}"))
        for condition in conditions:
            on = text.fresh("on")
            text.branch(condition, on, other, LIKELY)
            text.start(on)

    def _hint(self, number: int) -> int:
        """The number of an access of the region: the same in each chunk."""
        pc = self.control.block.nodes[self.control.index].insn.pc
        return self._hints.setdefault((pc, number), len(self._hints))

    def _load(self, name: str, row: str) -> str:
        return self.text.let(f"load i64, ptr {self._field(name, row)}")

    def _call_lanes(self, name: str, arguments: str) -> str:
        return self._call(name, arguments, before=f"ptr {self.vectors.home.state}, ")

    def look_scalar(self, dwords: int, address: str) -> None:
        """The wave reads dwords at an address."""
        what = LOAD | GLOBAL << SPACE_AT | 4 * dwords << SIZE_AT
        self._or_step(self._call("look_scalar", f"i64 {self._pc()}, i64 {what}, i64 {address}"))

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
        return self.control.base.at(self.control.block.nodes[self.control.index].insn.pc)

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
