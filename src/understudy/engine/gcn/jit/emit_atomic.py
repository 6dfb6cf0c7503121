"""Atomics in line: lanes change memory one after the other, lowest first; a variable stands for one place of all lanes.

LDS belongs to one thread. Other memory is shared: what lanes make of one place is put there in one exchange, anything
else is a helper's.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.engine.gcn.jit.emit_contiguous import Addresses
from understudy.engine.gcn.jit.emit_helpers import InlineCaches, fits_within
from understudy.engine.gcn.jit.layout import ATOMICS
from understudy.engine.gcn.jit.native_atomics import CHANGES
from understudy.ir.builder import LaneText, Value
from understudy.ir.native_llvm import embedded


class Atomics:
    """Writes them for a chunk. `begin` says which operation, and its two data: vectors of `bits` bits."""

    def __init__(self, text: LaneText, addresses: Addresses, caches: InlineCaches) -> None:
        self.text = text
        self.lds = caches.helpers.vectors.home.lds
        self.addresses = addresses
        self.caches = caches

    def begin(self, kind: str, bits: int, data: tuple[str, str]) -> None:
        """An operation begins."""
        function = CHANGES[ATOMICS.index(kind)]
        self.text.declarations |= embedded(function)
        self._name, self._bits, self._data = function.name, bits, data

    def local(self, address: Value, mask: str, checked: bool) -> Value:
        """On LDS: what lanes of a mask found, 0 beyond the end; where that is `checked` lanes there leave the strip."""
        text, size = self.text, self._bits // 8
        first = self.addresses.first(address)
        offset = text.let(f"zext i32 {first} to i64")
        fits = fits_within(text, offset, "%ldssize", size)
        is_one = text.let(f"and i1 {self._is_one(address, first, mask)}, {fits}")

        def at_one() -> str:
            pointer = text.let(f"getelementptr i8, ptr {self.lds}, i64 {offset}")
            now, found = self._in_turn(text.let(f"load i{self._bits}, ptr {pointer}, align 1"), mask)
            text.put(f"store i{self._bits} {now}, ptr {pointer}, align 1")
            return found

        return self._either(is_one, at_one, lambda: self._apart(text.bits(address, True), mask, checked))

    def shared(self, address: Value, mask: str, otherwise: Callable[[], str]) -> Value:
        """On memory that others look at; `otherwise` writes the call of a helper, and gives what lanes found."""
        text, kind, size = self.text, f"i{self._bits}", self._bits // 8
        first = self.addresses.first(address)
        cache = self.caches.take("atomic")
        start, limit, addend = self.caches.load(cache)
        fits = fits_within(text, text.let(f"sub i64 {first}, {start}"), limit, size)
        low = text.let(f"and i64 {text.let(f'or i64 {first}, {addend}')}, {size - 1}")
        fits = text.let(f"and i1 {fits}, {text.let(f'icmp eq i64 {low}, 0')}")
        leads = text.let(f"extractelement {text.itype(1, True)} {mask}, i64 0")
        is_one = text.let(f"and i1 {self._is_one(address, first, mask)}, {leads}")

        def at_one() -> str:
            pointer = text.let(f"inttoptr i64 {text.let(f'add i64 {first}, {addend}')} to ptr")
            seen = text.let(f"load atomic {kind}, ptr {pointer} monotonic, align {size}")
            before, again, done = text.label, text.fresh("again"), text.fresh("changed")
            text.put(f"br label %{again}")
            text.start(again)
            old, new = f"%{text.fresh('old')}", f"%{text.fresh('new')}"
            mark = len(text.lines)
            now, found = self._in_turn(old, mask)
            pair = text.let(f"cmpxchg ptr {pointer}, {kind} {old}, {kind} {now} seq_cst seq_cst, align {size}")
            text.put(f"{new} = extractvalue {{ {kind}, i1 }} {pair}, 0")
            text.lines.insert(mark, f"  {old} = phi {kind} [ {seen}, %{before} ], [ {new}, %{text.label} ]")
            text.branch(text.let(f"extractvalue {{ {kind}, i1 }} {pair}, 1"), done, again)
            text.start(done)
            return found

        def elsewhere() -> str:
            self.caches.refill(first, cache, is_store=True)
            return otherwise()

        return self._either(text.let(f"and i1 {is_one}, {fits}"), at_one, elsewhere)

    def _is_one(self, address: Value, first: str, mask: str) -> str:
        """Whether lanes of a mask mean the first lane's place."""
        text, lanes = self.text, self.text.lanes
        wrong = text.let(f"and <{lanes} x i1> {self.addresses.differing(address, first)}, {mask}")
        return text.let(f"icmp eq i{lanes} {text.let(f'bitcast <{lanes} x i1> {wrong} to i{lanes}')}, 0")

    def _either(self, c: str, one: Callable[[], str], many: Callable[[], str]) -> Value:
        """What one way finds, or the other."""
        text, arms, done = self.text, [], self.text.fresh("done")
        labels = text.fresh("one"), text.fresh("many")
        text.branch(c, *labels)
        for label, way in zip(labels, (one, many), strict=True):
            text.start(label)
            found = way()
            arms.append(f"[ {found}, %{text.label} ]")
            text.put(f"br label %{done}")
        text.start(done)
        return Value(self._bits, True, text.let(f"phi {text.itype(self._bits, True)} {', '.join(arms)}"))

    def _in_turn(self, first: str, mask: str) -> tuple[str, str]:
        """What lanes of a mask make of a value one after the other, in a loop, and what each of them found."""
        text, kind, vector = self.text, f"i{self._bits}", self.text.itype(self._bits, True)
        rows = [self._row() for _ in range(3)]
        for row, data in zip(rows, self._data, strict=False):
            text.put(f"store {vector} {data}, ptr {row}, align {self._bits // 8 * text.lanes}")
        bits = text.let(f"bitcast {text.itype(1, True)} {mask} to i{text.lanes}")
        before, loop, behind = text.label, text.fresh("lane"), text.fresh("behind")
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
        return then, text.let(f"load {vector}, ptr {rows[2]}, align {self._bits // 8 * text.lanes}")

    def _row(self) -> str:
        """Memory for a chunk."""
        name = f"%{self.text.fresh('row')}"
        self.text.allocas.append(
            f"{name} = alloca {self.text.itype(self._bits, True)}, align {self._bits // 8 * self.text.lanes}"
        )
        return name

    def _apart(self, addresses: str, mask: str, checked: bool) -> str:
        """Lanes that have no place in LDS are given one each outside, which holds 0."""
        text, lanes, bits = self.text, self.text.lanes, self._bits
        kind, wide, size = f"i{bits}", text.itype(64, True), bits // 8
        spare = self._row()
        text.put(f"store {text.itype(bits, True)} zeroinitializer, ptr {spare}, align {size * lanes}")
        room = text.call("i64", "llvm.usub.sat.i64", "i64 %ldssize", f"i64 {size - 1}")
        far = text.let(f"zext {text.itype(32, True)} {addresses} to {wide}")
        inside = text.let(f"icmp ult {wide} {far}, {text.splat('i64', room)}")
        here = text.let(f"and {text.itype(1, True)} {inside}, {mask}")
        if checked:
            self._leave(text.let(f"xor {text.itype(1, True)} {here}, {mask}"))
        own = text.let(f"add {wide} {text.splat('i64', text.let(f'ptrtoint ptr {self.lds} to i64'))}, {far}")
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

    def _leave(self, outside: str) -> None:
        """The reference engine does it, and tells of lanes beyond LDS, where there are any."""
        text, lanes = self.text, self.text.lanes
        wrong = text.let(f"bitcast {text.itype(1, True)} {outside} to i{lanes}")
        self.caches.helpers.or_leave(text.let(f"zext i{lanes} {wrong} to i64"))

    def _changed(self, old: str, *data: str) -> str:
        """What memory becomes by one lane."""
        text, bits, words = self.text, self._bits, [old, *data]
        if bits < 64:
            words = [text.let(f"zext i{bits} {word} to i64") for word in words]
        new = text.let(f"call i64 @{self._name}({', '.join(f'i64 {word}' for word in words)}, i64 {64 - bits})")
        return text.let(f"trunc i64 {new} to i{bits}") if bits < 64 else new
