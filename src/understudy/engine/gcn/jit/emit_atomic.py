"""Atomics on LDS in line: it belongs to one thread, so a wave's lanes change it one after the other, lowest first."""

from __future__ import annotations

from understudy.engine.gcn.jit.emit_contiguous import Addresses
from understudy.engine.gcn.jit.emit_helpers import fits_within
from understudy.engine.gcn.jit.layout import ATOMICS
from understudy.engine.gcn.jit.native_atomics import CHANGES
from understudy.ir.builder import LaneText, Value
from understudy.ir.native_llvm import embedded


class LocalAtomics:
    """Writes them for a chunk: each lane at its own place, or all of them at one, which a variable stands for then."""

    def __init__(self, text: LaneText, addresses: Addresses) -> None:
        self.text = text
        self.addresses = addresses

    def change(self, kind: str, bits: int, address: Value, data: tuple[str, str], mask: str) -> Value:
        """Do one operation with both data, vectors of `bits` bits; what lanes of a mask found, 0 beyond the end."""
        text, lanes = self.text, self.text.lanes
        function = CHANGES[ATOMICS.index(kind)]
        text.declarations |= embedded(function)
        self._name, self._bits, self._data = function.name, bits, data
        first = self.addresses.first(address)
        offset = text.let(f"zext i32 {first} to i64")
        wrong = text.let(f"and <{lanes} x i1> {self.addresses.differing(address, first)}, {mask}")
        same = text.let(f"icmp eq i{lanes} {text.let(f'bitcast <{lanes} x i1> {wrong} to i{lanes}')}, 0")
        is_one = text.let(f"and i1 {same}, {fits_within(text, offset, '%ldssize', bits // 8)}")
        one, many, done = text.fresh("one"), text.fresh("many"), text.fresh("done")
        text.branch(is_one, one, many)
        text.start(one)
        there = self._at_one(text.let(f"getelementptr i8, ptr %lds, i64 {offset}"), mask)
        behind = text.label
        text.put(f"br label %{done}")
        text.start(many)
        apart = self._apart(text.bits(address, True), mask)
        text.put(f"br label %{done}")
        text.start(done)
        return Value(bits, True, text.let(f"phi {text.itype(bits, True)} [ {there}, %{behind} ], [ {apart}, %{many} ]"))

    def _at_one(self, pointer: str, mask: str) -> str:
        """A loop: who comes here waits for the lane before anyway."""
        text, kind, vector = self.text, f"i{self._bits}", self.text.itype(self._bits, True)
        rows = [self._row() for _ in range(3)]
        for row, data in zip(rows, self._data, strict=False):
            text.put(f"store {vector} {data}, ptr {row}, align {self._bits // 8 * text.lanes}")
        bits = text.let(f"bitcast {text.itype(1, True)} {mask} to i{text.lanes}")
        first, before = text.let(f"load {kind}, ptr {pointer}, align 1"), text.label
        loop, behind = text.fresh("lane"), text.fresh("behind")
        text.put(f"br label %{loop}")
        text.start(loop)
        lane, following, now, then = (f"%{text.fresh(stem)}" for stem in ("k", "n", "now", "then"))
        text.put(f"{lane} = phi i64 [ 0, %{before} ], [ {following}, %{loop} ]")
        text.put(f"{now} = phi {kind} [ {first}, %{before} ], [ {then}, %{loop} ]")
        places = [text.let(f"getelementptr {kind}, ptr {row}, i64 {lane}") for row in rows]
        text.put(f"store {kind} {now}, ptr {places[2]}, align {self._bits // 8}")
        given = [text.let(f"load {kind}, ptr {place}, align {self._bits // 8}") for place in places[:2]]
        left = text.let(f"lshr i{text.lanes} {bits}, {text.let(f'trunc i64 {lane} to i{text.lanes}')}")
        on = text.let(f"trunc i{text.lanes} {left} to i1")
        text.put(f"{then} = select i1 {on}, {kind} {self._changed(now, *given)}, {kind} {now}")
        text.put(f"{following} = add nuw nsw i64 {lane}, 1")
        text.branch(text.let(f"icmp ult i64 {following}, {text.lanes}"), loop, behind)
        text.start(behind)
        text.put(f"store {kind} {then}, ptr {pointer}, align 1")
        return text.let(f"load {vector}, ptr {rows[2]}, align {self._bits // 8 * text.lanes}")

    def _row(self) -> str:
        """Memory for a chunk."""
        name = f"%{self.text.fresh('row')}"
        self.text.allocas.append(
            f"{name} = alloca {self.text.itype(self._bits, True)}, align {self._bits // 8 * self.text.lanes}"
        )
        return name

    def _apart(self, addresses: str, mask: str) -> str:
        """Lanes that have no place in LDS are given one each outside, which holds 0."""
        text, lanes, bits = self.text, self.text.lanes, self._bits
        kind, wide, size = f"i{bits}", text.itype(64, True), bits // 8
        spare = self._row()
        text.put(f"store {text.itype(bits, True)} zeroinitializer, ptr {spare}, align {size * lanes}")
        room = text.call("i64", "llvm.usub.sat.i64", "i64 %ldssize", f"i64 {size - 1}")
        far = text.let(f"zext {text.itype(32, True)} {addresses} to {wide}")
        inside = text.let(f"icmp ult {wide} {far}, {text.splat('i64', room)}")
        here = text.let(f"and {text.itype(1, True)} {inside}, {mask}")
        own = text.let(f"add {wide} {text.splat('i64', text.let('ptrtoint ptr %lds to i64'))}, {far}")
        steps = ", ".join(f"i64 {size * lane}" for lane in range(lanes))
        outside = text.splat("i64", text.let(f"ptrtoint ptr {spare} to i64"))
        other = text.let(f"add {wide} {outside}, <{steps}>")
        places = text.let(f"select {text.itype(1, True)} {here}, {wide} {own}, {wide} {other}")
        found = "poison"
        for lane in range(lanes):
            place = text.let(f"extractelement {wide} {places}, i64 {lane}")
            pointer = text.let(f"inttoptr i64 {place} to ptr")
            old = text.let(f"load {kind}, ptr {pointer}, align 1")
            data = [text.let(f"extractelement {text.itype(bits, True)} {each}, i64 {lane}") for each in self._data]
            text.put(f"store {kind} {self._changed(old, *data)}, ptr {pointer}, align 1")
            found = text.let(f"insertelement {text.itype(bits, True)} {found}, {kind} {old}, i64 {lane}")
        return found

    def _changed(self, old: str, *data: str) -> str:
        """What memory becomes by one lane."""
        text, bits, words = self.text, self._bits, [old, *data]
        if bits < 64:
            words = [text.let(f"zext i{bits} {word} to i64") for word in words]
        new = text.let(f"call i64 @{self._name}({', '.join(f'i64 {word}' for word in words)}, i64 {64 - bits})")
        return text.let(f"trunc i64 {new} to i{bits}") if bits < 64 else new
