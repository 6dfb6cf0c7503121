"""Accesses whose lanes lie side by side, or all at one place, in the memory that the access met last: written in line.

Anything else is a helper's. A chunk of a load is read as a whole: what its inactive lanes would have read is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.emit_address import AddressEmitter
from understudy.engine.gcn.jit.emit_wave import REGISTERS
from understudy.ir.builder import Text, Value
from understudy.isa.gcn import state

LIKELY: Final = ", !prof !0"
NEAR: Final = (8, 16, 32, 64, 128)
"""Bits of a lane that are accessed in line."""


class NearEmitter(AddressEmitter):
    """Loads and stores side by side, and what all accesses need."""

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
    def near(
        self,
        space: str,
        bits: int,
        address: Value,
        mask: Value,
        is_partial: bool,
        stored: Sequence[Value] | None = None,
    ) -> list[Value]:
        """Read lanes, or write `stored`. With `is_partial` lanes of EXEC that are not in `mask` read 0."""
        text, lanes = self.text, self.text.lanes
        kind, size = "load" if stored is None else "store", bits // 8
        addresses, m = text.bits(address, True), text.bits(mask, True)
        data = tuple(text.bits(value, True) for value in stored or ())
        first = self.first_address(address)
        in_line = self.side_by_side(address, first, size)
        site, pointer, fits, one_fits = self._place(space, kind, first, size)
        near, other_way, far, done = (text.fresh(stem) for stem in ("near", "other", "far", "done"))
        ready = text.let(f"and i1 {in_line}, {fits}")
        if stored is not None and not self._masks_stores(bits):
            every = text.let(f"bitcast <{lanes} x i1> {m} to i{lanes}")
            ready = text.let(f"and i1 {ready}, {text.let(f'icmp eq i{lanes} {every}, -1')}")
        self._branch(ready, near, other_way, LIKELY)
        text.start(near)
        arms = []
        if stored is None:
            arms.append((self._whole(pointer, bits, m if is_partial else ""), near))
        else:
            self._store_whole(pointer, bits, data, m)
        text.put(f"br label %{done}")
        text.start(other_way)
        same = ""
        if stored is None:
            wrong = text.let(f"and <{lanes} x i1> {self.differing(address, first)}, {m}")
            same, arm = self._broadcast(wrong, m, pointer, bits, one_fits, done, is_partial)
            arms.append(arm)
        if site:
            note = text.fresh("note")
            self._branch(text.let(f"or i1 {in_line}, {same}") if same else in_line, note, far)
            text.start(note)
            self._note(kind, first, site)
        text.put(f"br label %{far}")
        text.start(far)
        slow = self._call(kind, space, bits, addresses, m, data)
        leave = text.label
        text.put(f"br label %{done}")
        text.start(done)
        if stored is not None:
            return []
        arms.append((slow, leave))
        vector = text.itype(32, True)
        return [
            Value(32, True, text.let(f"phi {vector} " + ", ".join(f"[ {arm[k]}, %{label} ]" for arm, label in arms)))
            for k in range(len(slow))
        ]

    def _place(self, space: str, kind: str, first: str, size: int) -> tuple[str, str, str, str]:
        """The site, the host address of the first lane's bytes, whether a chunk fits there, whether a lane does."""
        text, lanes = self.text, self.text.lanes
        if space == "lds":
            offset = text.let(f"zext i32 {first} to i64")
            pointer = text.let(f"getelementptr i8, ptr %lds, i64 {offset}")
            return "", pointer, self._fits(offset, "%ldssize", size * lanes), self._fits(offset, "%ldssize", size)
        site = self._site(kind)
        start, limit, addend = self._run(site)
        offset = text.let(f"sub i64 {first}, {start}")
        pointer = text.let(f"inttoptr i64 {text.let(f'add i64 {first}, {addend}')} to ptr")
        if size <= 4:  # limits are for chunks of dwords
            fits = text.let(f"icmp ult i64 {offset}, {limit}")
        else:
            fits = self._fits(offset, limit, (size - 4) * lanes + 1)
        return site, pointer, fits, fits

    def _masks_stores(self, bits: int) -> bool:
        """Whether a chunk is stored under a mask: at once where hosts have mask registers, else dwords only."""
        return bits <= 32 and self.text.lanes == 16

    def _whole(self, pointer: str, bits: int, mask: str) -> list[str]:
        """A chunk of memory, as dwords of lanes; 0 outside of a mask."""
        text, lanes, count = self.text, self.text.lanes, max(1, bits // 32)
        part = min(bits, 32)
        whole = text.let(f"load <{count * lanes} x i{part}>, ptr {pointer}, align 1")
        if part < 32:
            found = [text.let(f"zext <{lanes} x i{part}> {whole} to <{lanes} x i32>")]
        elif count == 1:
            found = [whole]
        else:
            wide = f"<{count * lanes} x i32>"
            orders = (", ".join(f"i32 {count * lane + k}" for lane in range(lanes)) for k in range(count))
            found = [
                text.let(f"shufflevector {wide} {whole}, {wide} poison, <{lanes} x i32> <{order}>") for order in orders
            ]
        return [self._within(mask, each) for each in found] if mask else found

    def _within(self, mask: str, value: str) -> str:
        kind = self.text.itype(32, True)
        return self.text.let(f"select {self.text.itype(1, True)} {mask}, {kind} {value}, {kind} zeroinitializer")

    def _store_whole(self, pointer: str, bits: int, data: Sequence[str], mask: str) -> None:
        """Dwords of lanes to a chunk of memory."""
        text, lanes, count = self.text, self.text.lanes, len(data)
        kind, part = f"<{lanes} x i32>", min(bits, 32)
        whole = data[0]
        if part < 32:
            whole = text.let(f"trunc {kind} {whole} to <{lanes} x i{part}>")
        halves = list(data)
        while len(halves) > 1:  # one behind the other, then lane by lane
            size = lanes * count // len(halves)
            both = ", ".join(f"i32 {n}" for n in range(2 * size))
            pairs = zip(halves[::2], halves[1::2], strict=True)
            wide = f"<{size} x i32>"
            halves = [text.let(f"shufflevector {wide} {a}, {wide} {b}, <{2 * size} x i32> <{both}>") for a, b in pairs]
        if count > 1:
            order = ", ".join(f"i32 {n % count * lanes + n // count}" for n in range(count * lanes))
            wide = f"<{count * lanes} x i32>"
            whole = text.let(f"shufflevector {wide} {halves[0]}, {wide} poison, <{count * lanes} x i32> <{order}>")
        if self._masks_stores(bits):
            name = f"llvm.masked.store.v{lanes}i{part}.p0"
            text.call_void(name, f"<{lanes} x i{part}> {whole}", f"ptr align 1 {pointer}", f"<{lanes} x i1> {mask}")
        else:
            text.put(f"store <{count * lanes} x i{part}> {whole}, ptr {pointer}, align 1")

    def _broadcast(
        self, wrong: str, m: str, pointer: str, bits: int, fits: str, done: str, is_partial: bool
    ) -> tuple[str, tuple[list[str], str]]:
        """One place for all lanes, where the active ones want the same and the first is among them; whether they do."""
        text, lanes = self.text, self.text.lanes
        leads = text.let(f"extractelement <{lanes} x i1> {m}, i64 0")
        none = text.let(f"icmp eq i{lanes} {text.let(f'bitcast <{lanes} x i1> {wrong} to i{lanes}')}, 0")
        same = text.let(f"and i1 {leads}, {none}")
        label, otherwise = text.fresh("same"), text.fresh("else")
        self._branch(text.let(f"and i1 {same}, {fits}"), label, otherwise)
        text.start(label)
        found = []
        for k in range(max(1, bits // 32)):
            at = text.let(f"getelementptr i32, ptr {pointer}, i64 {k}")
            one = text.let(f"load i{min(bits, 32)}, ptr {at}, align 1")
            if bits < 32:
                one = text.let(f"zext i{bits} {one} to i32")
            value = text.splat("i32", one)
            found.append(self._within(m, value) if is_partial else value)
        text.put(f"br label %{done}")
        text.start(otherwise)
        return same, (found, label)

    # ---- helpers -------------------------------------------------------------------------------------------------
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
