"""The check of races in translated code: compiled functions are told of accesses before these are made (`races`).

They are called by the row of the wave, which knows where they are; where one of them leaves, the reference engine does
what was meant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.emit_contiguous import Addresses
from understudy.engine.gcn.jit.emit_control import Control, word
from understudy.engine.gcn.jit.emit_helpers import LIKELY, Helpers
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
    RACE_AT,
    ROW_AT,
    SIZE_AT,
    SLOT_BYTES,
    SLOTS,
    SLOTS_AT,
    SPACE_AT,
    STORE,
)
from understudy.engine.gcn.races.native_quick import load_dword, load_line, store_line
from understudy.ir.builder import LaneText, Value
from understudy.ir.native import Function
from understudy.ir.native_llvm import embedded

SPACES: Final = {"global": GLOBAL, "flat": FLAT, "lds": LDS}


Quick = Callable[[str, str], None]
"""Writes a look in line: it goes to the first label where that was not enough, to the second one where it was."""


@dataclass(frozen=True, slots=True)
class Access:
    """One by a chunk of lanes: `own` is what functions are told of it, `quick` what those in line are told."""

    kind: str
    space: str
    bits: int
    slot: int
    address: Value
    mask: Value
    lanes: str
    own: str
    quick: str


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

    def begin_chunk(self) -> None:
        """The accesses of a strip are next, in order."""
        self._slot = 0

    def look(self, kind: str, space: str, bits: int, number: int, address: Value, mask: Value) -> None:
        """A chunk of lanes makes access `number` of its instruction next; leave where Python has to look."""
        text, slot = self.text, self._slot
        self._slot += 1
        if slot >= SLOTS or number >> NUMBER_BITS:
            raise Untranslated
        what = (LOAD if kind == "load" else STORE) | SPACES[space] << SPACE_AT | bits // 8 << SIZE_AT
        key = text.let(f"or i64 {text.let(f'shl i64 {self._pc()}, {NUMBER_BITS}')}, {number}")
        lanes = text.let(f"zext i{text.lanes} {self.vectors.compressed(mask)} to i64")
        hint = text.let(f"add i64 {self._row()}, {HINTS_AT + HINT_BYTES * (self._hint(number) % HINTS)}")
        first = f"%sh{self.vectors.label}"
        own = f"i64 {slot}, i64 {hint}, i64 {key}, i64 {what}, i64 {self.exec}, i64 {first}"
        done = text.fresh("looked")
        if bits >= 32:
            quick = f"i64 {self._row()}, i64 {hint}, i64 {key}, i64 {first}"
            self._regular(Access(kind, space, bits, slot, address, mask, lanes, own, quick), done)
        room = f"%{self.vectors.home.prefix}races"
        line = f"{room} = alloca <{text.lanes} x i64>, align {8 * text.lanes}"
        if line not in text.allocas:
            text.allocas.append(line)
        wide = text.itype(64, True)
        every = text.bits(address, True)
        if address.w == 32:
            every = text.let(f"zext {text.itype(32, True)} {every} to {wide}")
        text.put(f"store {wide} {every}, ptr {room}, align {8 * text.lanes}")
        self.helpers.or_leave(self._call_lanes("look_ahead", f"{own}, ptr {room}, i64 {lanes}"))
        text.put(f"br label %{done}")
        text.start(done)

    def _regular(self, access: Access, done: str) -> None:
        """Look at lanes side by side, or at loads of one place, at once; go on behind that where this was all."""
        text, address = self.text, access.address
        first = self.addresses.first(address)
        wide = first if address.w == 64 else text.let(f"zext i32 {first} to i64")
        every = text.let(f"icmp eq i64 {access.lanes}, {(1 << text.lanes) - 1}")
        if access.bits == 32 and text.lanes == LINE_LANES:
            in_line = self.addresses.side_by_side(address, first, 4)
            at_start = text.let(f"icmp eq i64 {text.let(f'and i64 {wide}, {LINE - 1}')}, 0")
            ready = text.let(f"and i1 {text.let(f'and i1 {in_line}, {every}')}, {at_start}")
            quick = self._quick(access, wide, LINE, load_line if access.kind == "load" else store_line)
            self._try(ready, quick, "look_side", f"{access.own}, i64 {wide}", done)
        if access.kind == "load":
            differing = self.addresses.differing(address, first)
            wrong = text.let(f"and <{text.lanes} x i1> {differing}, {text.bits(access.mask, True)}")
            some = text.let(f"bitcast <{text.lanes} x i1> {wrong} to i{text.lanes}")
            none, is_any = text.let(f"icmp eq i{text.lanes} {some}, 0"), text.let(f"icmp ne i64 {access.lanes}, 0")
            aligned = text.let(f"icmp eq i64 {text.let(f'and i64 {wide}, 3')}, 0")
            ready = text.let(f"and i1 {text.let(f'and i1 {none}, {is_any}')}, {aligned}")
            is_quick = access.bits == 32 and text.lanes == LINE_LANES
            quick = self._quick(access, wide, 4, load_dword, every) if is_quick else None
            self._try(ready, quick, "look_same", f"{access.own}, i64 {wide}, i64 {access.lanes}", done)

    def _quick(self, access: Access, address: str, size: int, function: Function[Any], also: str = "") -> Quick | None:
        """What looks in line at a chunk, and goes elsewhere where it cannot; None where ticks change in between."""
        is_local, is_store = access.space == "lds", access.kind == "store"
        if not (self._keeps_tick or (is_store and not is_local)):
            return None
        text = self.text

        def look(other: str, done: str) -> None:
            text.declarations.update(embedded(function))
            arguments = f"{access.quick}, i64 {address}, i64 {int(is_local)}"
            if is_store:
                slot = text.let(f"add i64 {self._row()}, {SLOTS_AT + SLOT_BYTES * access.slot}")
                arguments += f", i64 {slot}, i64 {1 << access.slot}"
            conditions = [also] if also else []
            if is_local:
                conditions.append(text.let(f"icmp ule i64 {text.let(f'add i64 {address}, {size}')}, %ldssize"))
            for condition in conditions:
                on = text.fresh("on")
                text.branch(condition, on, other, LIKELY)
                text.start(on)
            status = text.let(f"call i64 @{function.name}({arguments})")
            text.branch(text.let(f"icmp eq i64 {status}, 0"), done, other, LIKELY)

        return look

    def _try(self, ready: str, quick: Quick | None, name: str, arguments: str, done: str) -> None:
        """Where it is `ready`, look in line, or have a function look, and be done where one of them could."""
        text = self.text
        there, other = text.fresh("regular"), text.fresh("other")
        text.branch(ready, there, other)
        text.start(there)
        if quick is not None:
            closer = text.fresh("closer")
            quick(closer, done)
            text.start(closer)
        text.branch(text.let(f"icmp eq i64 {self._call_lanes(name, arguments)}, 0"), done, other, LIKELY)
        text.start(other)

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
