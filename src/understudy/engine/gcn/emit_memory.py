"""Memory in translated code: dwords that lie side by side are read in line, everything else by compiled helpers.

An access that cannot be made directly (nothing mapped, a region with effects, the edge of plain memory) leaves the
segment before anything of this chunk was committed: the reference engine goes on from there, or finds the fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from understudy.engine.gcn import layout
from understudy.engine.gcn.emit_address import AddressEmitter
from understudy.engine.gcn.emit_float import Untranslated
from understudy.engine.gcn.emit_wave import REGISTERS
from understudy.engine.gcn.values import Text, Value
from understudy.isa.gcn import state

LIKELY: Final = ", !prof !0"


class MemoryEmitter(AddressEmitter):
    """Memory of the algebra."""

    stores_seen: int = 0
    """Stores of the instruction so far."""
    phase: int = 0
    """Which of its stores is meant: others do nothing. 0: the first, and the reference engine does more."""
    index: int = 0
    """Which instruction of its block is being translated."""

    def __init__(self, text: Text) -> None:
        super().__init__(text)
        self._sites = dict.fromkeys(layout.SITES, 0)

    # ---- where memory lies ---------------------------------------------------------------------------------------
    def _site(self, kind: str) -> str:
        """Where one more access keeps what it knows about the memory that it met last: the words of a site.

        Arrays lie in few runs of memory, so this is nearly always the right one, and known long before the address.
        """
        number = self._sites[kind] % layout.SITES[kind]
        self._sites[kind] += 1
        before = sum(count for other, count in layout.SITES.items() if other < kind)
        word = layout.SITE + layout.SITE_WORDS * (before + number)
        return self.text.let(f"getelementptr i8, ptr %st, i64 {state.WORDS_AT + 8 * word}")

    def _run(self, site: str) -> list[str]:
        """First guest address, limit and addend of the run of memory that a site knows."""
        let = self.text.let
        ats = [site, *(let(f"getelementptr i64, ptr {site}, i64 {k}") for k in range(1, layout.SITE_WORDS))]
        return [let(f"load i64, ptr {at}{REGISTERS}") for at in ats]

    def _note(self, kind: str, address: str, site: str) -> None:
        """Have a site know the memory around an address."""
        self.text.put(f"call void {self._helper(f'note_{kind}')}(ptr %st, i64 {address}, ptr {site})")

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
        vector = text.itype(32, True)
        addresses, m = text.bits(address, True), text.bits(mask, True)
        data = "" if stored is None else text.bits(stored, True)
        first = self.first_address(address)
        in_line = self.side_by_side(address, first)
        site = ""
        if space != "lds":
            site = self._site("load" if stored is None else "store")
            start, limit, addend = self._run(site)
            fits = text.let(f"icmp ult i64 {text.let(f'sub i64 {first}, {start}')}, {limit}")
            pointer = text.let(f"inttoptr i64 {text.let(f'add i64 {first}, {addend}')} to ptr")
            fits_one = fits
        else:
            offset = text.let(f"zext i32 {first} to i64")
            fits = self._fits(offset, "%ldssize", 4 * lanes)
            pointer = text.let(f"getelementptr i8, ptr %lds, i64 {offset}")
            fits_one = self._fits(offset, "%ldssize", 4)
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
        regular = in_line
        if stored is None:
            same, arm = self._broadcast(self.differing(address, first), m, pointer, fits_one, done)
            regular = text.let(f"or i1 {in_line}, {same}")
            arms.append(arm)
        if site:
            note = text.fresh("note")
            self._branch(regular, note, far)
            text.start(note)
            self._note("load" if stored is None else "store", first, site)
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

    def _broadcast(self, differs: str, m: str, pointer: str, fits: str, done: str) -> tuple[str, tuple[str, str]]:
        """One dword for all lanes, where the active ones want the same and the first is among them; whether they do."""
        text, lanes = self.text, self.text.lanes
        wrong = text.let(f"bitcast <{lanes} x i1> {text.let(f'and <{lanes} x i1> {differs}, {m}')} to i{lanes}")
        leads = text.let(f"extractelement <{lanes} x i1> {m}, i64 0")
        same = text.let(f"and i1 {leads}, {text.let(f'icmp eq i{lanes} {wrong}, 0')}")
        label, otherwise = text.fresh("same"), text.fresh("else")
        self._branch(text.let(f"and i1 {same}, {fits}"), label, otherwise)
        text.start(label)
        value = text.splat("i32", text.let(f"load i32, ptr {pointer}, align 1"))
        text.put(f"br label %{done}")
        text.start(otherwise)
        return same, (value, label)

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
        site = self._site("scalar")
        known, walk, on = self.text.label, text.fresh("walk"), text.fresh("on")
        fits, there = self._scalar_place(site, aligned, dwords)
        self._branch(fits, on, walk, LIKELY)
        text.start(walk)
        self._note("scalar", aligned, site)
        fits, found = self._scalar_place(site, aligned, dwords)
        self._branch(fits, on, self.step_exit(), LIKELY)
        text.start(on)
        place = text.let(f"phi i64 [ {there}, %{known} ], [ {found}, %{walk} ]")
        pointer = text.let(f"inttoptr i64 {place} to ptr")
        values = []
        for k in range(dwords):
            at = text.let(f"getelementptr i32, ptr {pointer}, i64 {k}")
            values.append(Value(32, False, text.let(f"load i32, ptr {at}, align 4")))
        return values

    def _scalar_place(self, site: str, address: str, dwords: int) -> tuple[str, str]:
        """Whether so many dwords lie in the memory that a site knows, and their host address."""
        start, size, addend = self._run(site)
        fits = self._fits(self.text.let(f"sub i64 {address}, {start}"), size, 4 * dwords)
        return fits, self.text.let(f"add i64 {address}, {addend}")

    def step_exit(self) -> str:
        """A label that hands this instruction over to the reference engine."""
        raise NotImplementedError

    def aperture(self, which: str) -> Value:
        """Bases and limits of the flat apertures, as engines know them (`isa.gcn.pointer`)."""
        name, _, end = which.partition("_")
        base = Value(64, False, self.word(state.SHARED_BASE if name == "shared" else state.PRIVATE_BASE))
        return self.or_(64, base, self.const(64, 0xFFFF_FFFF)) if end else base
