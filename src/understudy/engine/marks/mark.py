"""What is marked of a value, and how marks travel: rules over the same algebra that the values are computed with.

A mark says for each bit of a value whether it is marked: undefined, or approximate. Mostly all bits of a lane are or
none, so a mark has two forms, each made from the other when first asked for: as wide as the value, and one bit for all.
"""

from __future__ import annotations

from typing import Any, Final

HALF: Final = 32
"""Width of a register."""


class Mark:
    """What is marked of a value of `w` bits: `bits` one by one, `whole` of width 1 for all, or `halves` of 64 bits."""

    __slots__ = ("_bits", "_like", "_whole", "halves", "w")

    def __init__(
        self,
        w: int,
        *,
        bits: Any = None,
        whole: Any = None,
        halves: tuple[Mark | None, Mark | None] | None = None,
        like: Mark | None = None,
    ) -> None:
        self.w = w
        self._bits = whole if w == 1 and bits is None else bits
        self._whole = bits if w == 1 and whole is None else whole
        self.halves = halves
        self._like = like
        """Another one that has marks where this has: it was looked at before, or costs less to look at."""

    @property
    def is_whole(self) -> bool:
        """Whether all bits of a lane are marked, or none."""
        return self._bits is None and self.halves is None

    def whole(self, o: Any) -> Any:
        """Whether any bit is marked: width 1."""
        if self._whole is None:
            if self._like is not None:
                self._whole = self._like.whole(o)
            elif self.halves is not None:
                found = [half.whole(o) for half in self.halves if half is not None]
                self._whole = found[0] if len(found) == 1 else o.or_(1, *found)
            else:
                self._whole = o.ne(self.w, self._bits, o.const(self.w, 0))
        return self._whole

    def bits(self, o: Any) -> Any:
        """Bit by bit, as wide as the value."""
        if self._bits is None:
            if self.halves is not None:
                low, high = self.halves
                wide = None if low is None else o.zext(self.w, HALF, low.bits(o))
                if high is not None:
                    above = o.shl(self.w, o.zext(self.w, HALF, high.bits(o)), o.const(self.w, HALF))
                    wide = above if wide is None else o.or_(self.w, wide, above)
                self._bits = wide
            else:
                self._bits = o.sext(self.w, 1, self._whole)
        return self._bits


Marks = Mark | None
"""None: nothing is marked, and that is known beforehand."""


def bits_of(o: Any, w: int, mark: Marks) -> Any:
    """Bit by bit."""
    return o.const(w, 0) if mark is None else mark.bits(o)


def whole_of(o: Any, mark: Marks) -> Any:
    """Whether any bit is marked."""
    return o.const(1, 0) if mark is None else mark.whole(o)


# ---- how marks travel ------------------------------------------------------------------------------------------------
def opaque(o: Any, w: int, *marks: Marks) -> Marks:
    """A result of `w` bits, each of which may depend on all bits of all operands."""
    found = None
    for mark in marks:
        if mark is not None:
            found = mark.whole(o) if found is None else o.or_(1, found, mark.whole(o))
    return None if found is None else Mark(w, whole=found)


def bitwise(o: Any, w: int, a: Marks, b: Marks) -> Marks:
    """Each bit depends on the same bits of both."""
    if a is None or b is None:
        return a or b
    if a.halves is not None and b.halves is not None:
        return joined(w, *(bitwise(o, HALF, x, y) for x, y in zip(a.halves, b.halves, strict=True)))
    if a.is_whole and b.is_whole:
        return opaque(o, w, a, b)
    return Mark(w, bits=o.or_(w, a.bits(o), b.bits(o)))


def joined(w: int, low: Marks, high: Marks) -> Marks:
    """Of 64 bits from the marks of their halves."""
    return None if low is None and high is None else Mark(w, halves=(low, high))


def conjunction(o: Any, w: int, a: Any, x: Marks, b: Any, y: Marks) -> Marks:
    """Of a & b: bits that are 0 for certain in one of them are 0."""
    if x is None and y is None:
        return None
    if w == 1:
        both = o.or_(1, whole_of(o, x), whole_of(o, y))
        mine = a if x is None else o.or_(1, a, x.whole(o))
        others = b if y is None else o.or_(1, b, y.whole(o))
        return Mark(1, whole=o.and_(1, both, o.and_(1, mine, others)))
    if x is None or y is None:
        mark, other = (y, a) if x is None else (x, b)
        assert mark is not None
        return Mark(w, bits=o.and_(w, mark.bits(o), other))
    if x.is_whole and y.is_whole:
        return opaque(o, w, x, y)
    both = o.or_(w, x.bits(o), y.bits(o))
    return Mark(w, bits=o.and_(w, both, o.and_(w, o.or_(w, a, x.bits(o)), o.or_(w, b, y.bits(o)))))


def disjunction(o: Any, w: int, a: Any, x: Marks, b: Any, y: Marks) -> Marks:
    """Of a | b: bits that are 1 for certain in one of them are 1."""
    if x is None and y is None:
        return None
    if x is not None and y is not None:
        if x.is_whole and y.is_whole:
            return opaque(o, w, x, y)
        if x.halves is not None or y.halves is not None:
            return bitwise(o, w, x, y)
    elif (x or y).halves is not None:  # type: ignore[union-attr]
        return x or y
    return conjunction(o, w, o.not_(w, a), x, o.not_(w, b), y)


def carried(o: Any, w: int, x: Marks, y: Marks) -> Marks:
    """Of sums and products: each bit depends on those below it."""
    found = bitwise(o, w, x, y)
    if found is None or found.is_whole or found.halves is not None:
        return opaque(o, w, found)
    bits = found.bits(o)
    return Mark(w, bits=o.or_(w, bits, o.sub(w, o.const(w, 0), bits)), like=found)


def shifted(o: Any, name: str, w: int, x: Marks, n: Any, number: int | None, y: Marks) -> Marks:
    """Of shifts by n, which is `number` where that is known."""
    if y is not None:
        return opaque(o, w, x, y)
    if x is None:
        return None
    if w == 2 * HALF and number == HALF and x.halves is not None:
        low, high = x.halves
        if name == "shl":
            return joined(w, None, low)
        if name == "lshr":
            return joined(w, high, None)
    return Mark(w, bits=getattr(o, name)(w, x.bits(o), n))


def chosen(o: Any, w: int, c: Any, z: Marks, x: Marks, y: Marks) -> Marks:
    """Of a choice by the condition c."""
    picked: Marks = None
    if x is not None or y is not None:
        if (x is None or x.is_whole) and (y is None or y.is_whole):
            picked = Mark(w, whole=o.select(1, c, whole_of(o, x), whole_of(o, y)))
        else:
            picked = Mark(w, bits=o.select(w, c, bits_of(o, w, x), bits_of(o, w, y)))
    return bitwise(o, w, picked, opaque(o, w, z))


def widened(o: Any, name: str, to: int, w: int, x: Marks) -> Marks:
    """Of zext and sext."""
    if x is None:
        return None
    if (name, to, w) == ("zext", 2 * HALF, HALF):
        return Mark(to, halves=(x, None))
    if name == "sext" and x.is_whole:
        return Mark(to, whole=x.whole(o))
    return Mark(to, bits=getattr(o, name)(to, w, x.bits(o)), like=x)


def narrowed(o: Any, to: int, w: int, x: Marks) -> Marks:
    """Of the low `to` bits."""
    if x is None:
        return None
    if x.halves is not None and to == HALF:
        return x.halves[0]
    if x.is_whole:
        return Mark(to, whole=x.whole(o))
    return Mark(to, bits=o.trunc(to, w, x.bits(o)))
