"""Accesses emitted in line for lanes that have contiguous addresses, or all the same address.

The accessed memory is LDS, or the range of memory in the access's inline cache. Other loads of up to a dword
are gathers (`emit_gather`); compiled helpers implement all other accesses. A load reads a whole lane vector,
including the bytes of inactive lanes, since the memory contains these as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY, Helpers, InlineCaches, fits_within
from softcard.engine.gcn.jit.emit.emit_integer import ZERO, Integers, split_sum
from softcard.ir.builder import LaneText, Value
from softcard.ir.operand import Operand

# ---- gathers ---------------------------------------------------------------------------------------------------------
# Gathers emitted in line: each lane loads from its own address. The memory is LDS, or the range of memory that the
# access's inline cache holds. For bytes and halfwords the aligned dwords that contain them are loaded.


@dataclass(frozen=True, slots=True)
class Run:
    """A range of memory for gathers: its first guest address, a bound of dword offsets, and its host address.

    The first guest address is None if it is 0, as in LDS.
    """

    start: Operand | None
    room: Operand
    base: Operand


class Gathers:
    """The emitter of gathers, for hosts with instructions that gather under a mask."""

    def __init__(self, text: LaneText) -> None:
        self.text = text

    def inside(self, bits: int, w: int, addresses: Operand, mask: Operand, run: Run) -> tuple[Operand, Operand]:
        """Emit the offsets, in a range of memory, of the dwords that lanes address, and a condition.

        The condition is that the data of all lanes of the mask are inside the range `run`. Halfwords that span two
        dwords count as outside."""
        text, lanes = self.text, self.text.lanes
        offsets, room = addresses if bits >= 32 else (addresses & -4), run.room
        if run.start is not None:
            offsets = offsets - text.splat(f"i{w}", run.start)
        if bits > 32:
            room = text.call(f"i{w}", f"llvm.usub.sat.i{w}", f"i{w} {room}", f"i{w} {bits // 8 - 4}")
        outside = offsets >= text.splat(f"i{w}", room)
        if bits == 16:
            last = addresses & 3
            outside = outside | last.eq(3)
        wrong = (outside & mask).bitcast(f"i{lanes}")
        return offsets, wrong.eq(0)

    def read(self, bits: int, w: int, addresses: Operand, offsets: Operand, mask: Operand, run: Run) -> list[Operand]:
        """Emit the gather of a byte, halfword or one or more dwords for each lane of a mask; other lanes read 0.

        `offsets` are the offsets that `inside` returned. The values are returned as vectors of dwords."""
        vector, base = self.text.itype(32, True), run.base
        if bits > 32:
            pairs = [self._gather(64, base.offset(at) if at else base, offsets, mask) for at in range(0, bits // 8, 8)]
            return [each.trunc(vector) for pair in pairs for each in (pair, pair >> 32)]
        found = self._gather(32, base, offsets, mask)
        if bits == 32:
            return [found]
        low = addresses if w == 32 else addresses.trunc(vector)
        shift = (low & 3) << 3
        return [found >> shift & (1 << bits) - 1]

    def _gather(self, bits: int, base: Operand, offsets: Operand, mask: Operand) -> Operand:
        """Emit the gather of `bits` bits at an offset from `base` for each lane of a mask."""
        text, lanes = self.text, self.text.lanes
        vector, places = text.itype(bits, True), base.offset(offsets)
        pointers, flags = f"<{lanes} x ptr> align 1 {places}", f"{text.itype(1, True)} {mask}"
        name = f"llvm.masked.gather.v{lanes}i{bits}.v{lanes}p0"
        return text.call(vector, name, pointers, flags, f"{vector} zeroinitializer")


# ---- contiguous accesses ---------------------------------------------------------------------------------------------


WIDTHS: Final = (8, 16, 32, 64, 128)
"""The widths in bits, for each lane, of accesses that are emitted in line."""


class Addresses:
    """The emitter of conditions on the addresses of a lane vector.

    It uses the 32-bit halves that `Integers` tracks, because vectors of them have half the size. `checked` caches
    results within a lane vector, since several accesses often use the same index or the same LDS base."""

    def __init__(self, text: LaneText, ints: Integers) -> None:
        self.text = text
        self.ints = ints
        self.begin()

    def begin(self) -> None:
        """Begin a lane vector: drop the cached results."""
        self.checked: dict[tuple[str, str, str], Operand] = {}

    def first(self, address: Value) -> Operand:
        """Emit the first lane's address, as i32 or i64."""
        o = self.ints
        text, w = self.text, address.w
        if w == 32:
            base, scalars = self._base(address)
            one = self._first(base)
            for scalar in scalars:
                one = o.add(32, one, scalar)
            return text.bits(one)
        if address.halves is None:
            return text.bits(address, True).lane(0)
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

    def apart(self, address: Value) -> tuple[str, Operand, int]:
        """Split the lanes' addresses into a remainder for each lane and a common constant.

        Return three items: a key of the remainders, the first lane's remainder, and the constant. Addresses with
        equal keys have equal remainders, so they differ only by their constants. 32-bit addresses wrap around after
        the constant is added."""
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
        return name, (first - offset), offset

    def side_by_side(self, address: Value, first: Operand, size: int) -> Operand:
        """Emit the condition that the address of each lane is `size` bytes above that of the previous lane.

        The condition includes inactive lanes."""
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
                wrong = wrong | self._differs_from_first(high)
            right = self._none(wrong)
            # The lower halves must not wrap around, as the upper ones are equal.
            self.checked[key] = right & (start <= -size * lanes)
        return self.checked[key]

    def differing(self, address: Value, first: Operand) -> Operand:
        """Emit the mask of lanes whose address differs from that of the first lane."""
        text = self.text
        if address.w == 32:
            return self._differs_from_first(self._base(address)[0])
        if address.halves is None:
            return self._differs(address.w, text.bits(address, True), first)
        low, high, _ = address.halves
        wrong = self._differs_from_first(low)
        if high is ZERO:
            return wrong
        return wrong | self._differs_from_first(high)

    def _base(self, address: Value) -> tuple[Value, list[Value]]:
        """Return a 32-bit address without its scalar summands, and these summands.

        A scalar summand is the same in all lanes. If the sum was aligned by a mask, and all scalar summands are
        multiples of the alignment, the alignment is applied to the returned base instead."""
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

    def _none(self, lanes: Operand) -> Operand:
        """Emit the condition that a mask is empty."""
        count = self.text.lanes
        return lanes.bitcast(f"i{count}").eq(0)

    def _first(self, v: Value) -> Value:
        name = self.text.bits(v, True)
        key = ("lane 0", name, "")
        if key not in self.checked:
            self.checked[key] = name.lane(0)
        return Value(32, False, self.checked[key])

    def _differs_from_first(self, v: Value) -> Operand:
        return self._differs(32, self.text.bits(v, True), self.text.bits(self._first(v)))

    def _differs(self, w: int, vector: Operand, first: Operand, step: int = 0) -> Operand:
        """Emit the mask of lanes whose element of `vector` is not `first` plus the lane number times `step`."""
        text = self.text
        wanted = text.splat(f"i{w}", first)
        if step:
            wanted = wanted + text.operand(wanted.type, _steps(w, step, text.lanes))
        return vector.ne(wanted)


@dataclass(frozen=True, slots=True)
class Place:
    """The host memory that a lane vector accesses.

    It has the host address of the first lane's bytes, and two conditions: `fits` ensures that the bytes of
    the whole lane vector are inside the memory, `one_fits` that the bytes of the first lane are. Outside of
    LDS it also has the address of the access's inline cache and the contents of that cache."""

    pointer: Operand
    fits: Operand
    one_fits: Operand
    cache: Operand | None = None
    words: tuple[Operand, ...] = ()


class Contiguous:
    """The emitter of loads and stores of a lane vector with contiguous addresses.

    `along` are shadow memories in which no bit should be set. Loads also read them, and stores write zeros to
    them. `shadows` is a vector with the bitwise or of all shadow that was read; None if none was."""

    def __init__(self, text: LaneText, addresses: Addresses, caches: InlineCaches, helpers: Helpers) -> None:
        self.text = text
        self.addresses = addresses
        self.caches = caches
        self.helpers = helpers
        self.gathers = Gathers(text)
        self.along: list[Contiguous] = []
        self.shadows: Operand | None = None

    def note(self, shadows: Operand) -> None:
        """Add shadow bits that were read to `shadows`."""
        self.shadows = shadows if self.shadows is None else self._any_bit([self.shadows, shadows])

    def access(
        self,
        space: str,
        bits: int,
        address: Value,
        active: Value,
        where: Value | None,
        stored: Sequence[Value] | None = None,
    ) -> list[Value]:
        """Emit a load by lanes, or a store of the values `stored`; return the loaded values.

        The lanes are those in the mask `active`. If `where` is given, only lanes that are in both masks access
        memory; the other active lanes read 0."""
        text, lanes, ints = self.text, self.text.lanes, self.addresses.ints
        kind, size = "load" if stored is None else "store", bits // 8
        addresses, is_partial = text.bits(address, True), where is not None
        bound = bound_of(space, address, where)
        mask = active if where is None or bound is not None else ints.and_(1, active, where)
        m = text.bits(mask, True)
        data = tuple(text.bits(value, True) for value in stored or ())
        zeros = (text.constant(text.itype(32, True), 0),) * len(data)
        first = self.addresses.first(address)
        in_line = self.addresses.side_by_side(address, first, size)
        place, *others = (each._place(space, kind, first, size, bound) for each in (self, *self.along))
        along = list(zip(self.along, others, strict=True))
        near, other_way, far, done = (text.fresh(stem) for stem in ("near", "other", "far", "done"))
        fits, one_fits = place.fits, place.one_fits
        for each in others if space != "lds" else ():
            fits = one_fits = fits & each.fits
        ready = in_line & fits
        if stored is not None and not self._is_masked(bits):
            every = m.bitcast(f"i{lanes}")
            ready = ready & every.eq(-1)
        text.branch(ready, near, other_way, LIKELY)
        text.start(near)
        arms = list[tuple[list[Operand], str]]()
        """For each path through the code: its results, with the shadow as the last, and its last block."""
        if stored is None:
            within = m if is_partial and bound is None else None
            found, *shadows = (self._whole(each.pointer, bits, within) for each in (place, *others))
            arms.append(([*found, *self._shadows(shadows)], near))
        else:
            self._store_whole(place.pointer, bits, data, m)
            for each in others:
                self._store_whole(each.pointer, bits, zeros, m)
        text.jump(done)
        text.start(other_way)
        if stored is None:
            wrong = self.addresses.differing(address, first) & m
            arms.append(self._broadcast(wrong, m, [place, *others], one_fits, bits, done, is_partial and bound is None))
        if bound is not None:
            m = text.bits(ints.and_(1, active, ints.ult(32, address, bound)), True)
        if stored is None:
            if self.text.lanes == 16:
                runs = [each._run(space, at) for each, at in ((self, place), *along)]
                ways = [self.gathers.inside(bits, address.w, addresses, m, run) for run in runs]
                gathered, inside = text.fresh("gathered"), ways[0][1]
                for _, also in ways[1:]:
                    inside = inside & also
                text.branch(inside, gathered, far)
                text.start(gathered)
                read, *shadows = (
                    self.gathers.read(bits, address.w, addresses, offsets, m, run)
                    for run, (offsets, _) in zip(runs, ways, strict=True)
                )
                arms.append(([*read, *self._shadows(shadows)], gathered))
                text.jump(done)
            else:
                text.jump(far)
        else:
            text.jump(far)
        text.start(far)
        slow = self.helpers.call(kind, space, bits, addresses, m, data, place.cache)
        shadows = [each.helpers.call(kind, space, bits, addresses, m, zeros, at.cache) for each, at in along]
        slow += self._shadows(shadows)
        if is_partial:
            slow = [self._within(m, each) for each in slow]
        leave = text.label
        text.jump(done)
        text.start(done)
        if stored is not None:
            return []
        arms.append((slow, leave))
        vector = text.itype(32, True)
        phis = [text.phi(vector, *((arm[k], label) for arm, label in arms)) for k in range(len(slow))]
        values = [Value(32, True, phi) for phi in phis]
        if along:
            self.note(text.bits(values.pop()))
        return values

    def _shadows(self, found: Sequence[Sequence[Operand]]) -> list[Operand]:
        """Return the bitwise or of all shadow vectors that were read; an empty list without shadow memory."""
        every = [name for each in found for name in each]
        return [self._any_bit(every)] if every else []

    def _any_bit(self, names: Sequence[Operand]) -> Operand:
        every = names[0]
        for name in names[1:]:
            every = every | name
        return every

    def _place(self, space: str, kind: str, first: Operand, size: int, bound: Value | None) -> Place:
        """Emit the host address of a lane vector's access, and the conditions that it is inside the memory.

        `first` is the address that the first lane accesses, and `size` the number of bytes of each lane. In LDS,
        addresses must also be below `bound`, if it is given."""
        text, lanes = self.text, self.text.lanes
        if space == "lds":
            offset = first.zext("i64")
            pointer = self.helpers.vectors.lds.offset(offset)
            end = text.word("%ldssize")
            if bound is not None:
                last = text.bits(bound).zext("i64") + (size - 1)
                end = text.call("i64", "llvm.umin.i64", f"i64 {end}", f"i64 {last}")
            fits, one_fits = (fits_within(text, offset, end, count) for count in (size * lanes, size))
            return Place(pointer, fits, one_fits)
        cache = self.caches.take(kind)
        words = start, limit, addend = self.caches.load(cache)
        offset = first - start
        pointer = (first + addend).inttoptr()
        if size <= 4:  # limits are for vectors of dwords
            fits = offset < limit
        else:
            fits = fits_within(text, offset, limit, (size - 4) * lanes + 1)
        return Place(pointer, fits, fits, cache, words)

    def _run(self, space: str, place: Place) -> Run:
        """Return the range of memory from which gathers may load; `place` is the memory of an access."""
        text = self.text
        if space == "lds":
            room = text.call("i64", "llvm.usub.sat.i64", "i64 %ldssize", "i64 3")
            return Run(None, room.trunc("i32"), self.helpers.vectors.lds)
        start, limit, addend = place.words
        base = (start + addend).inttoptr()
        longer = limit + 4 * (text.lanes - 1)  # from a vector's limit to a dword's
        return Run(start, limit.eq(0).select(0, longer), base)

    def _is_masked(self, bits: int) -> bool:
        """Return True if one host instruction can load or store all lanes under a mask.

        AVX-512 can do that for elements of up to a dword."""
        return bits <= 32 and self.text.lanes == 16

    def _whole(self, pointer: Operand, bits: int, mask: Operand | None) -> list[Operand]:
        """Emit a load of contiguous memory at `pointer` for all lanes; return vectors of dwords.

        Lanes outside of `mask` get 0.
        """
        text, lanes, count = self.text, self.text.lanes, max(1, bits // 32)
        part = min(bits, 32)
        whole = pointer.load(f"<{count * lanes} x i{part}>", align=1)
        if part < 32:
            found = [whole.zext(f"<{lanes} x i32>")]
        elif count == 1:
            found = [whole]
        else:
            orders = (", ".join(f"i32 {count * lane + k}" for lane in range(lanes)) for k in range(count))
            found = [text.shuffle(whole, f"<{lanes} x i32> <{order}>") for order in orders]
        return found if mask is None else [self._within(mask, each) for each in found]

    def _within(self, mask: Operand, value: Operand) -> Operand:
        return mask.select(value, 0)

    def _store_whole(self, pointer: Operand, bits: int, data: Sequence[Operand], mask: Operand) -> None:
        """Emit a store to contiguous memory at `pointer` for the lanes of a mask; `data` are vectors of dwords."""
        text, lanes, count = self.text, self.text.lanes, len(data)
        part = min(bits, 32)
        whole = data[0]
        if part < 32:
            whole = whole.trunc(f"<{lanes} x i{part}>")
        halves = list(data)
        while len(halves) > 1:  # concatenate, then interleave by lane
            size = lanes * count // len(halves)
            both = ", ".join(f"i32 {n}" for n in range(2 * size))
            pairs = zip(halves[::2], halves[1::2], strict=True)
            halves = [text.shuffle(a, f"<{2 * size} x i32> <{both}>", b) for a, b in pairs]
        if count > 1:
            order = ", ".join(f"i32 {n % count * lanes + n // count}" for n in range(count * lanes))
            whole = text.shuffle(halves[0], f"<{count * lanes} x i32> <{order}>")
        if self._is_masked(bits):
            name = f"llvm.masked.store.v{lanes}i{part}.p0"
            text.call_void(name, f"<{lanes} x i{part}> {whole}", f"ptr align 1 {pointer}", f"<{lanes} x i1> {mask}")
        else:
            pointer.store(whole, align=1)

    def _broadcast(
        self, wrong: Operand, m: Operand, places: Sequence[Place], fits: Operand, bits: int, done: str, is_partial: bool
    ) -> tuple[list[Operand], str]:
        """Emit one load for all lanes, for the case that the active lanes have the same address.

        The first lane must be active too. `wrong` is the mask of active lanes with another address. `m` is the mask
        of the lanes to load. `fits` is the condition that the access is inside the memory. The first element of
        `places` is the memory, and the others are shadow memories. If `is_partial`, lanes outside of `m` get 0.
        Return the loaded vectors, and the label of the block that jumps to `done` with them."""
        text, lanes = self.text, self.text.lanes
        leads = m.lane(0)
        none = wrong.bitcast(f"i{lanes}").eq(0)
        same = leads & none
        label, otherwise = text.fresh("same"), text.fresh("else")
        text.branch(same & fits, label, otherwise)
        text.start(label)
        found, *shadows = (self._dwords(place.pointer, bits) for place in places)
        every = [name for each in shadows for name in each]
        if every:
            one = every[0]
            for name in every[1:]:
                one = one | name
            found.append(one)
        values = [text.splat("i32", each) for each in found]
        if is_partial:
            values = [self._within(m, each) for each in values]
        text.jump(done)
        text.start(otherwise)
        return values, label

    def _dwords(self, pointer: Operand, bits: int) -> list[Operand]:
        """Emit the load of one lane's `bits` bits at `pointer`; return them as dwords."""
        found = []
        for k in range(max(1, bits // 32)):
            at = pointer.element("i32", k)
            one = at.load(f"i{min(bits, 32)}", align=1)
            found.append(one.zext("i32") if bits < 32 else one)
        return found


def is_in_line(space: str, bits: int) -> bool:
    """Return True if accesses of `bits` bits to this address space are emitted in line."""
    return bits in WIDTHS and space != "gds"


def bound_of(space: str, address: Value, where: Value | None) -> Value | None:
    """Return the bound of LDS addresses if `where` is a comparison "address < bound"; otherwise None."""
    if space != "lds" or where is None or where.made is None:
        return None
    word, a, b = where.made
    return b if word == "icmp ult" and a is address and not b.vec else None


def _summands(address: Value) -> tuple[Value, list[Value]]:
    """Return a 32-bit address without its scalar summands, and the summands."""
    scalars = []
    while address.made is not None and address.made[0] == "add" and (found := split_sum(address.made)) is not None:
        address, scalar = found
        scalars.append(scalar)
    return address, scalars


def _signed(number: int, bits: int) -> int:
    """Return the number that a word of `bits` bits represents as a signed integer."""
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


@cache
def _steps(w: int, step: int, lanes: int) -> str:
    """Return the vector constant 0, `step`, 2 * `step`, ... for `lanes` lanes."""
    return f"<{', '.join(f'i{w} {step * lane}' for lane in range(lanes))}>"
