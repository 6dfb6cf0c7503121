"""Memory in translated code: dwords that lie side by side are read in line, everything else by compiled helpers.

An access that cannot be made directly (nothing mapped, a region with effects, the edge of plain memory) leaves the
segment before anything of this chunk was committed: the reference engine goes on from there, or finds the fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from understudy.core.space import PAGE_BITS
from understudy.engine.gcn import layout
from understudy.engine.gcn.emit_float import Untranslated
from understudy.engine.gcn.emit_wave import WaveEmitter
from understudy.engine.gcn.memory import COLUMNS, ENTRIES, GIB_BITS, SIZE, START, STORES
from understudy.engine.gcn.values import Value
from understudy.isa.gcn import state

LIKELY: Final = ", !prof !0"


class MemoryEmitter(WaveEmitter):
    """Memory of the algebra."""

    stores_seen: int = 0
    """Stores of the instruction so far."""
    phase: int = 0
    """Which of its stores is meant: others do nothing. 0: the first, and the reference engine does more."""
    index: int = 0
    """Which instruction of its block is being translated."""

    # ---- page table ----------------------------------------------------------------------------------------------
    def _page(self, address: str, store: bool) -> tuple[str, str, str]:
        """Addend, start and size of the run of memory around the page of an i64 address; size 0 where there is none."""
        let = self.text.let
        upper = let(f"and i64 {let(f'lshr i64 {address}, {GIB_BITS}')}, {ENTRIES - 1}")
        table = let(f"load ptr, ptr {let(f'getelementptr ptr, ptr %tables, i64 {upper}')}")
        page = let(f"and i64 {let(f'lshr i64 {address}, {PAGE_BITS}')}, {ENTRIES - 1}")
        found = let(f"getelementptr [{COLUMNS} x i64], ptr {table}, i64 {page}")
        row = let(f"select i1 {let(f'icmp eq ptr {table}, null')}, ptr @nothing, ptr {found}")
        addend = let(f"load i64, ptr {row}")
        start = let(f"load i64, ptr {let(f'getelementptr i64, ptr {row}, i64 {START}')}")
        size = let(f"load i64, ptr {let(f'getelementptr i64, ptr {row}, i64 {STORES if store else SIZE}')}")
        return addend, start, size

    def _fits(self, offset: str, size: str, count: int) -> str:
        """Whether `count` bytes at an offset lie below a size; nothing can wrap around."""
        limit = self.text.call("i64", "llvm.usub.sat.i64", f"i64 {size}", f"i64 {count - 1}")
        return self.text.let(f"icmp ult i64 {offset}, {limit}")

    def _branch(self, condition: str, yes: str, no: str, hint: str = "") -> None:
        self.text.put(f"br i1 {condition}, label %{yes}, label %{no}{hint}")

    # ---- lanes -------------------------------------------------------------------------------------------------
    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Read lanes."""
        mask = self._masked(where)
        if bits == 32 and space != "gds":
            return [self._near(space, address, mask, None)]
        return self._helped("load", space, bits, address, mask, ())

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Write lanes."""
        mask = self._masked(where)
        self.stores_seen += 1
        if self.phase:
            if self.stores_seen != self.phase:
                return
        elif self.stores_seen > 1:  # what is left over at the end of a buffer: rarely anything
            some = self.text.let(f"zext i{self.text.lanes} {self.compressed(mask)} to i64")
            self._or_leave(some)
            return
        if bits == 32 and space != "gds":
            self._near(space, address, mask, values[0])
            return
        self._helped("store", space, bits, address, mask, values)

    def _masked(self, where: Value | None) -> Value:
        return self.active() if where is None else self.and_(1, self.active(), where)

    def _near(self, space: str, address: Value, mask: Value, stored: Value | None) -> Value:
        """One dword per lane, in line where the lanes' dwords lie side by side."""
        text, lanes = self.text, self.text.lanes
        w = 32 if space == "lds" else 64
        kind, vector = text.itype(w, True), text.itype(32, True)
        addresses, m = text.bits(address, True), text.bits(mask, True)
        data = "" if stored is None else text.bits(stored, True)
        first = text.let(f"extractelement {kind} {addresses}, i64 0")
        apart = text.let(f"sub {kind} {addresses}, {text.splat(f'i{w}', first)}")
        steps = ", ".join(f"i{w} {4 * lane}" for lane in range(lanes))
        other = text.let(f"bitcast <{lanes} x i1> {text.let(f'icmp ne {kind} {apart}, <{steps}>')} to i{lanes}")
        in_line = text.let(f"icmp eq i{lanes} {other}, 0")
        if space != "lds":
            addend, start, size = self._page(first, stored is not None)
            offset = text.let(f"sub i64 {first}, {start}")
            fits = self._fits(offset, size, 4 * lanes)
            pointer = text.let(f"inttoptr i64 {text.let(f'add i64 {first}, {addend}')} to ptr")
        else:
            offset, size = text.let(f"zext i32 {first} to i64"), "%ldssize"
            fits = self._fits(offset, size, 4 * lanes)
            pointer = text.let(f"getelementptr i8, ptr %lds, i64 {offset}")
        near, other_way, far, done = (text.fresh(stem) for stem in ("near", "other", "far", "done"))
        self._branch(text.let(f"and i1 {in_line}, {fits}"), near, other_way, LIKELY)
        text.start(near)
        arms = []
        if stored is None:
            name = f"llvm.masked.load.v{lanes}i32.p0"
            got = text.call(vector, name, f"ptr align 1 {pointer}", f"<{lanes} x i1> {m}", f"{vector} zeroinitializer")
            arms.append((got, near))
        else:
            name = f"llvm.masked.store.v{lanes}i32.p0"
            text.call_void(name, f"{vector} {data}", f"ptr align 1 {pointer}", f"<{lanes} x i1> {m}")
        text.put(f"br label %{done}")
        text.start(other_way)
        if stored is None:
            one = text.let(f"icmp ne {kind} {apart}, zeroinitializer")
            arms.append(self._broadcast(one, m, pointer, offset, size, far, done))
        else:
            text.put(f"br label %{far}")
        text.start(far)
        slow = self._call("load" if stored is None else "store", space, 32, addresses, m, (data,) if stored else ())
        leave = text.label
        text.put(f"br label %{done}")
        text.start(done)
        if stored is not None:
            return self.const(32, 0)
        arms.append((slow[0], leave))
        return Value(
            32, True, text.let(f"phi {vector} " + ", ".join(f"[ {value}, %{label} ]" for value, label in arms))
        )

    def _broadcast(
        self, differs: str, m: str, pointer: str, offset: str, size: str, far: str, done: str
    ) -> tuple[str, str]:
        """One dword for all lanes, where the active ones want the same and the first is among them."""
        text, lanes = self.text, self.text.lanes
        wrong = text.let(f"bitcast <{lanes} x i1> {text.let(f'and <{lanes} x i1> {differs}, {m}')} to i{lanes}")
        leads = text.let(f"extractelement <{lanes} x i1> {m}, i64 0")
        same = text.let(f"and i1 {leads}, {text.let(f'icmp eq i{lanes} {wrong}, 0')}")
        label = text.fresh("same")
        self._branch(text.let(f"and i1 {same}, {self._fits(offset, size, 4)}"), label, far)
        text.start(label)
        value = text.splat("i32", text.let(f"load i32, ptr {pointer}, align 1"))
        text.put(f"br label %{done}")
        return value, label

    def _helped(
        self, kind: str, space: str, bits: int, address: Value, mask: Value, values: Sequence[Value]
    ) -> list[Value]:
        text = self.text
        if bits > 128:
            raise Untranslated
        data = tuple(text.bits(value, True) for value in values)
        names = self._call(kind, space, bits, text.bits(address, True), text.bits(mask, True), data)
        return [Value(32, True, name) for name in names]

    def _call(self, kind: str, space: str, bits: int, addresses: str, mask: str, data: tuple[str, ...]) -> list[str]:
        """Call a helper; leave the segment where it could not do its work."""
        text, lanes = self.text, self.text.lanes
        vector, count = text.itype(32, True), max(1, bits // 32)
        wide = text.itype(64 if space in ("global", "flat") else 32, True)
        m = text.let(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
        code = self._helper(f"{kind}_{space}_{bits}")
        arguments = f"ptr %st, {wide} {addresses}, i{lanes} {m}, i64 %sh{self.segment}"
        arguments += "".join(f", {vector} {each}" for each in data)
        if kind == "store":
            self._or_leave(text.let(f"call i64 {code}({arguments})"))
            return []
        result = "{ " + ", ".join([vector] * count) + ", i64 }"
        got = text.let(f"call {result} {code}({arguments})")
        names = [text.let(f"extractvalue {result} {got}, {k}") for k in range(count)]
        self._or_leave(text.let(f"extractvalue {result} {got}, {count}"))
        return names

    def _helper(self, name: str) -> str:
        at = self.text.let(f"getelementptr ptr, ptr %helpers, i64 {layout.HELPER_INDEX[name]}")
        return self.text.let(f"load ptr, ptr {at}")

    def _or_leave(self, status: str) -> None:
        """Leave the segment where `status` is not 0."""
        on = self.text.fresh("on")
        self._branch(self.text.let(f"icmp eq i64 {status}, 0"), on, f"leave{self.segment}", LIKELY)
        self.text.start(on)

    # ---- atomics -----------------------------------------------------------------------------------------------
    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Value,
        v: Value,
        compare: Value | None = None,
        where: Value | None = None,
    ) -> Value:
        """Lane after lane, by a helper that takes its operands from memory."""
        if kind not in layout.ATOMICS:
            raise Untranslated
        text, lanes = self.text, self.text.lanes
        wide = text.itype(64, True)
        operands = []
        width = 64 if space in ("global", "flat") else 32
        for name, value, w in (("aa", address, width), ("ad", v, bits), ("ac", compare, bits)):
            if value is not None:
                full = text.bits(self.zext(64, w, value), True)
                text.put(f"store {wide} {full}, ptr %{name}, align {8 * lanes}")
            operands.append(f"ptr %{name}")
        m = text.let(f"zext i{lanes} {self.compressed(self._masked(where))} to i64")
        numbers = f"i64 {layout.SPACES.index(space)}, i64 {layout.ATOMICS.index(kind)}, i64 {bits // 8}"
        code = self._helper("atomic")
        call = f"call i64 {code}(ptr %st, {numbers}, {', '.join(operands)}, ptr %ao, i64 {m}, i64 %sh{self.segment})"
        self._or_leave(text.let(call))
        self.uses_atomics = True
        old = Value(64, True, text.let(f"load {wide}, ptr %ao, align {8 * lanes}"))
        return self.trunc(bits, 64, old)

    uses_atomics = False

    # ---- scalars -----------------------------------------------------------------------------------------------
    def scalar_load(self, dwords: int, address: Value) -> list[Value]:
        """Dwords for the wave; the reference engine does it where they do not lie in plain memory."""
        text = self.text
        aligned = text.bits(self.and_(64, address, self.const(64, ~3)))
        addend, start, size = self._page(aligned, False)
        fits = self._fits(text.let(f"sub i64 {aligned}, {start}"), size, 4 * dwords)
        on = text.fresh("on")
        self._branch(fits, on, self.step_exit(), LIKELY)
        text.start(on)
        pointer = text.let(f"inttoptr i64 {text.let(f'add i64 {aligned}, {addend}')} to ptr")
        values = []
        for k in range(dwords):
            at = text.let(f"getelementptr i32, ptr {pointer}, i64 {k}")
            values.append(Value(32, False, text.let(f"load i32, ptr {at}, align 4")))
        return values

    def step_exit(self) -> str:
        """A label that hands this instruction over to the reference engine."""
        raise NotImplementedError

    def aperture(self, which: str) -> Value:
        """Bases and limits of the flat apertures."""
        name, _, end = which.partition("_")
        base = Value(64, False, self.word(state.SHARED_BASE if name == "shared" else state.PRIVATE_BASE))
        return self.or_(64, base, self.const(64, 0xFFFF_FFFF)) if end else base
