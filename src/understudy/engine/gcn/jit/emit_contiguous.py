"""Accesses whose lanes lie side by side, or all at one place, in the memory that the access met last: written in line.

Other loads of dwords and less are gathered (`emit_gather`), anything else is a helper's. A chunk of a load is read as a
whole: what its inactive lanes would have read is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from understudy.engine.gcn.jit.emit_gather import Gathers, Run
from understudy.engine.gcn.jit.emit_helpers import LIKELY, Helpers, InlineCaches, fits_within
from understudy.engine.gcn.jit.emit_integer import ZERO, Integers, split_sum
from understudy.ir.builder import LaneText, Value

WIDTHS: Final = (8, 16, 32, 64, 128)
"""Bits of a lane that are accessed in line."""


class Addresses:
    """What a chunk of addresses looks like, asked of the 32-bit halves that `Integers` remembers: vectors half as long.

    `checked` has what was found out in this chunk already: arrays are often accessed at one index, LDS at one base.
    """

    def __init__(self, text: LaneText, ints: Integers) -> None:
        self.text = text
        self.ints = ints
        self.begin()

    def begin(self) -> None:
        """A chunk of which nothing is known."""
        self.checked: dict[tuple[str, str, str], str] = {}

    def first(self, address: Value) -> str:
        """The first lane's, as i32 or i64."""
        o = self.ints
        text, w = self.text, address.w
        if w == 32:
            base, scalars = self._base(address)
            one = self._first(base)
            for scalar in scalars:
                one = o.add(32, one, scalar)
            return text.bits(one)
        if address.halves is None:
            return text.let(f"extractelement {text.itype(w, True)} {text.bits(address, True)}, i64 0")
        low, high, plus = address.halves
        key = ("first", text.bits(low, True), text.bits(high, True))
        if key not in self.checked:
            both = o.zext(64, 32, self._first(low))
            if high is not ZERO:
                upper = o.shl(64, o.zext(64, 32, self._first(high)), o.const(64, 32))
                both = o.or_(64, both, upper)
            self.checked[key] = text.bits(both)
        first = Value(64, False, self.checked[key])
        return text.bits(first if plus is None else o.add(64, first, plus))

    def apart(self, address: Value) -> tuple[str, str, int]:
        """A chunk's addresses without a constant, by a name; that of the first lane, as i32 or i64; the constant.

        Addresses with the same name differ by constants alone. Those of 32 bits wrap around, behind them.
        """
        text, first = self.text, self.first(address)
        if address.w == 32:
            base, scalars = self._base(address)
            if scalars and all(each.number is not None for each in scalars):
                offset = _signed(sum(each.number or 0 for each in scalars), 32)
                return text.bits(base, True), text.bits(self._first(base)), offset
            return text.bits(address, True), first, 0
        if address.halves is None:
            return text.bits(address, True), first, 0
        low, high, plus = address.halves
        name = f"{text.bits(low, True)} {text.bits(high, True)}"
        if plus is None:
            return name, first, 0
        if plus.number is None:
            return f"{name} {text.bits(plus)}", first, 0
        offset = _signed(plus.number, 64)
        return name, text.let(f"sub i64 {first}, {offset}"), offset

    def side_by_side(self, address: Value, first: str, size: int) -> str:
        """Whether all lanes, active or not, address the `size` bytes behind those of the lane before."""
        text, lanes = self.text, self.text.lanes
        if address.w == 32:
            base, _ = self._base(address)
            key = (str(size), text.bits(base, True), "")
            if key not in self.checked:
                self.checked[key] = self._none(self._differs(32, key[1], text.bits(self._first(base)), size))
            return self.checked[key]
        if address.halves is None:
            return self._none(self._differs(address.w, text.bits(address, True), first, size))
        low, high, _ = address.halves
        key = (str(size), text.bits(low, True), text.bits(high, True))
        if key not in self.checked:
            start = text.bits(self._first(low))
            wrong = self._differs(32, text.bits(low, True), start, size)
            if high is not ZERO:
                wrong = text.let(f"or <{lanes} x i1> {wrong}, {self._differs_from_first(high)}")
            right = self._none(wrong)
            # The lower halves must not wrap around: the upper ones are the same.
            self.checked[key] = text.let(f"and i1 {right}, {text.let(f'icmp ule i32 {start}, {-size * lanes}')}")
        return self.checked[key]

    def differing(self, address: Value, first: str) -> str:
        """Lanes that address something else than the first one: a vector of bits."""
        text = self.text
        if address.w == 32:
            return self._differs_from_first(self._base(address)[0])
        if address.halves is None:
            return self._differs(address.w, text.bits(address, True), first)
        low, high, _ = address.halves
        wrong = self._differs_from_first(low)
        if high is ZERO:
            return wrong
        return text.let(f"or <{text.lanes} x i1> {wrong}, {self._differs_from_first(high)}")

    def _base(self, address: Value) -> tuple[Value, list[Value]]:
        """A 32-bit address before scalars were added, and these: they move all lanes alike, wherever that wraps around.

        Where it was aligned behind that, the base is what was aligned: multiples can as well be added then.
        """
        if address.made is None or address.made[0] != "and" or address.made[2].number is None:
            return _summands(address)
        _, summed, mask = address.made
        base, scalars = _summands(summed)
        step = -(mask.number or 0) & 0xFFFF_FFFF
        if not scalars or step & step - 1 or any(each.number is None or each.number % step for each in scalars):
            return address, []
        key = ("aligned", self.text.bits(base, True), str(step))
        if key not in self.checked:
            self.checked[key] = self.text.bits(self.ints.and_(32, base, mask), True)
        return Value(32, True, self.checked[key]), scalars

    def _none(self, lanes: str) -> str:
        """Whether a vector of bits has none."""
        count = self.text.lanes
        return self.text.let(f"icmp eq i{count} {self.text.let(f'bitcast <{count} x i1> {lanes} to i{count}')}, 0")

    def _first(self, v: Value) -> Value:
        text, name = self.text, self.text.bits(v, True)
        key = ("lane 0", name, "")
        if key not in self.checked:
            self.checked[key] = text.let(f"extractelement {text.itype(32, True)} {name}, i64 0")
        return Value(32, False, self.checked[key])

    def _differs_from_first(self, v: Value) -> str:
        return self._differs(32, self.text.bits(v, True), self.text.bits(self._first(v)))

    def _differs(self, w: int, vector: str, first: str, step: int = 0) -> str:
        """Lanes of a vector that are not `first`, and a step more for each lane."""
        text, kind = self.text, self.text.itype(w, True)
        wanted = text.splat(f"i{w}", first)
        if step:
            wanted = text.let(f"add {kind} {wanted}, {_steps(w, step, text.lanes)}")
        return text.let(f"icmp ne {kind} {vector}, {wanted}")


@dataclass(frozen=True, slots=True)
class Place:
    """The host address of the first lane's bytes, whether a chunk fits there, whether a lane does.

    Outside of LDS also the access's inline cache and what it holds.
    """

    pointer: str
    fits: str
    one_fits: str
    cache: str = ""
    words: tuple[str, str, str] = ("", "", "")


class Contiguous:
    """Loads and stores of a chunk.

    `beside` are memories of marks, of which there should be none: the same is read there at the same time, and zeros
    are stored. `marks`: all that was read there together, a vector, if anything was.
    """

    def __init__(self, text: LaneText, addresses: Addresses, caches: InlineCaches, helpers: Helpers) -> None:
        self.text = text
        self.addresses = addresses
        self.caches = caches
        self.helpers = helpers
        self.gathers = Gathers(text)
        self.beside: list[Contiguous] = []
        self.marks = ""

    def note(self, marks: str) -> None:
        """More marks were read."""
        self.marks = self._together([each for each in (self.marks, marks) if each])

    def access(
        self,
        space: str,
        bits: int,
        address: Value,
        active: Value,
        where: Value | None,
        stored: Sequence[Value] | None = None,
    ) -> list[Value]:
        """Read lanes, or write `stored`; with `where` those of it only, and others read 0."""
        text, lanes, ints = self.text, self.text.lanes, self.addresses.ints
        kind, size = "load" if stored is None else "store", bits // 8
        addresses, is_partial = text.bits(address, True), where is not None
        bound = bound_of(space, address, where)
        mask = active if where is None or bound is not None else ints.and_(1, active, where)
        m = text.bits(mask, True)
        data = tuple(text.bits(value, True) for value in stored or ())
        first = self.addresses.first(address)
        in_line = self.addresses.side_by_side(address, first, size)
        place, *others = (each._place(space, kind, first, size, bound) for each in (self, *self.beside))
        beside = list(zip(self.beside, others, strict=True))
        near, other_way, far, done = (text.fresh(stem) for stem in ("near", "other", "far", "done"))
        fits, one_fits = place.fits, place.one_fits
        for each in others if space != "lds" else ():
            fits = one_fits = text.let(f"and i1 {fits}, {each.fits}")
        ready = text.let(f"and i1 {in_line}, {fits}")
        if stored is not None and not self._is_masked(bits):
            every = text.let(f"bitcast <{lanes} x i1> {m} to i{lanes}")
            ready = text.let(f"and i1 {ready}, {text.let(f'icmp eq i{lanes} {every}, -1')}")
        text.branch(ready, near, other_way, LIKELY)
        text.start(near)
        arms = list[tuple[list[str], str]]()
        """What is found, last marks, and the block behind."""
        if stored is None:
            within = m if is_partial and bound is None else ""
            found, *marks = (self._whole(each.pointer, bits, within) for each in (place, *others))
            arms.append(([*found, *self._marks(marks)], near))
        else:
            self._store_whole(place.pointer, bits, data, m)
            for each in others:
                self._store_whole(each.pointer, bits, ["zeroinitializer"] * len(data), m)
        text.put(f"br label %{done}")
        text.start(other_way)
        if stored is None:
            wrong = text.let(f"and <{lanes} x i1> {self.addresses.differing(address, first)}, {m}")
            arms.append(self._broadcast(wrong, m, [place, *others], one_fits, bits, done, is_partial and bound is None))
        if bound is not None:
            m = text.bits(ints.and_(1, active, ints.ult(32, address, bound)), True)
        if stored is None:
            if self._is_masked(bits):
                runs = [each._run(space, at) for each, at in ((self, place), *beside)]
                ways = [self.gathers.inside(bits, address.w, addresses, m, run) for run in runs]
                gathered, inside = text.fresh("gathered"), ways[0][1]
                for _, also in ways[1:]:
                    inside = text.let(f"and i1 {inside}, {also}")
                text.branch(inside, gathered, far)
                text.start(gathered)
                read, *marks = (
                    [self.gathers.read(bits, address.w, addresses, offsets, m, run)]
                    for run, (offsets, _) in zip(runs, ways, strict=True)
                )
                arms.append(([*read, *self._marks(marks)], gathered))
                text.put(f"br label %{done}")
            else:
                text.put(f"br label %{far}")
        else:
            text.put(f"br label %{far}")
        text.start(far)
        slow = self.helpers.call(kind, space, bits, addresses, m, data, place.cache)
        zeros = ("zeroinitializer",) * len(data)
        marks = [each.helpers.call(kind, space, bits, addresses, m, zeros, at.cache) for each, at in beside]
        slow += self._marks(marks)
        if is_partial:
            slow = [self._within(m, each) for each in slow]
        leave = text.label
        text.put(f"br label %{done}")
        text.start(done)
        if stored is not None:
            return []
        arms.append((slow, leave))
        vector = text.itype(32, True)
        values = [
            Value(32, True, text.let(f"phi {vector} " + ", ".join(f"[ {arm[k]}, %{label} ]" for arm, label in arms)))
            for k in range(len(slow))
        ]
        if beside:
            self.note(text.bits(values.pop()))
        return values

    def _marks(self, found: Sequence[Sequence[str]]) -> list[str]:
        """All marks that were read at once, as one vector; none without memories of marks."""
        every = [name for each in found for name in each]
        return [self._together(every)] if every else []

    def _together(self, names: Sequence[str]) -> str:
        every = names[0]
        for name in names[1:]:
            every = self.text.let(f"or {self.text.itype(32, True)} {every}, {name}")
        return every

    def _place(self, space: str, kind: str, first: str, size: int, bound: Value | None) -> Place:
        """Where an access goes, and what fits there; addresses in LDS may have a bound as well."""
        text, lanes = self.text, self.text.lanes
        if space == "lds":
            offset = text.let(f"zext i32 {first} to i64")
            pointer = text.let(f"getelementptr i8, ptr {self.helpers.vectors.home.lds}, i64 {offset}")
            end = "%ldssize"
            if bound is not None:
                last = text.let(f"add i64 {text.let(f'zext i32 {text.bits(bound)} to i64')}, {size - 1}")
                end = text.call("i64", "llvm.umin.i64", f"i64 {end}", f"i64 {last}")
            fits, one_fits = (fits_within(text, offset, end, count) for count in (size * lanes, size))
            return Place(pointer, fits, one_fits)
        cache = self.caches.take(kind)
        words = start, limit, addend = self.caches.load(cache)
        offset = text.let(f"sub i64 {first}, {start}")
        pointer = text.let(f"inttoptr i64 {text.let(f'add i64 {first}, {addend}')} to ptr")
        if size <= 4:  # limits are for chunks of dwords
            fits = text.let(f"icmp ult i64 {offset}, {limit}")
        else:
            fits = fits_within(text, offset, limit, (size - 4) * lanes + 1)
        return Place(pointer, fits, fits, cache, words)

    def _run(self, space: str, place: Place) -> Run:
        """The memory that gathers may be made from."""
        text = self.text
        if space == "lds":
            room = text.call("i64", "llvm.usub.sat.i64", "i64 %ldssize", "i64 3")
            return Run("", text.let(f"trunc i64 {room} to i32"), self.helpers.vectors.home.lds)
        start, limit, addend = place.words
        base = text.let(f"inttoptr i64 {text.let(f'add i64 {start}, {addend}')} to ptr")
        longer = text.let(f"add i64 {limit}, {4 * (text.lanes - 1)}")  # a dword's limit, where a chunk has one
        return Run(start, text.let(f"select i1 {text.let(f'icmp eq i64 {limit}, 0')}, i64 0, i64 {longer}"), base)

    def _is_masked(self, bits: int) -> bool:
        """Whether lanes are accessed under a mask at once, as hosts with mask registers do; dwords only."""
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
        if self._is_masked(bits):
            name = f"llvm.masked.store.v{lanes}i{part}.p0"
            text.call_void(name, f"<{lanes} x i{part}> {whole}", f"ptr align 1 {pointer}", f"<{lanes} x i1> {mask}")
        else:
            text.put(f"store <{count * lanes} x i{part}> {whole}, ptr {pointer}, align 1")

    def _broadcast(
        self, wrong: str, m: str, places: Sequence[Place], fits: str, bits: int, done: str, is_partial: bool
    ) -> tuple[list[str], str]:
        """One place for all lanes, where the active ones want the same and the first is among them.

        Places behind the first are of memories of marks.
        """
        text, lanes = self.text, self.text.lanes
        leads = text.let(f"extractelement <{lanes} x i1> {m}, i64 0")
        none = text.let(f"icmp eq i{lanes} {text.let(f'bitcast <{lanes} x i1> {wrong} to i{lanes}')}, 0")
        same = text.let(f"and i1 {leads}, {none}")
        label, otherwise = text.fresh("same"), text.fresh("else")
        text.branch(text.let(f"and i1 {same}, {fits}"), label, otherwise)
        text.start(label)
        found, *marks = (self._dwords(place.pointer, bits) for place in places)
        every = [name for each in marks for name in each]
        if every:
            one = every[0]
            for name in every[1:]:
                one = text.let(f"or i32 {one}, {name}")
            found.append(one)
        values = [text.splat("i32", each) for each in found]
        if is_partial:
            values = [self._within(m, each) for each in values]
        text.put(f"br label %{done}")
        text.start(otherwise)
        return values, label

    def _dwords(self, pointer: str, bits: int) -> list[str]:
        """Those of one lane."""
        text, found = self.text, []
        for k in range(max(1, bits // 32)):
            at = text.let(f"getelementptr i32, ptr {pointer}, i64 {k}")
            one = text.let(f"load i{min(bits, 32)}, ptr {at}, align 1")
            found.append(text.let(f"zext i{bits} {one} to i32") if bits < 32 else one)
        return found


def is_in_line(space: str, bits: int) -> bool:
    """Whether such accesses are written here."""
    return bits in WIDTHS and space != "gds"


def bound_of(space: str, address: Value, where: Value | None) -> Value | None:
    """What addresses of LDS are to lie below, where that is what `where` says."""
    if space != "lds" or where is None or where.made is None:
        return None
    word, a, b = where.made
    return b if word == "icmp ult" and a is address and not b.vec else None


def _summands(address: Value) -> tuple[Value, list[Value]]:
    """A 32-bit address before scalars were added, and these."""
    scalars = []
    while address.made is not None and address.made[0] == "add" and (found := split_sum(address.made)) is not None:
        address, scalar = found
        scalars.append(scalar)
    return address, scalars


def _signed(number: int, bits: int) -> int:
    """A word as what it is below 0, too."""
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


@cache
def _steps(w: int, step: int, lanes: int) -> str:
    """The constant of multiples of a step."""
    return f"<{', '.join(f'i{w} {step * lane}' for lane in range(lanes))}>"
