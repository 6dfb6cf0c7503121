"""Shadow bits of a value, and the rules by which operations propagate them.

Each bit of a value has a shadow bit. It is 1 if the bit is undefined (or approximate, depending on the
check). The rules are written with the operations (`o`) of the engine that computes the values.

In most cases all shadow bits of a value are equal. Therefore the shadow of a value is stored either as one
bit for each bit of the value, or as a single bit for all of them. Each representation is derived from the
other when it is first used."""

from __future__ import annotations

from typing import Any, Final

HALF: Final = 32
"""The width of a register, in bits."""
NOT_FIRST: Final = (
    "Only the first undefined value that an instruction stores is recorded with registers, and this one came later."
)
"""The reason why the registers at a store may be unknown."""


class ShadowBits:
    """The shadow bits of a value of `w` bits, in at least one of three representations.

    `bits` has one bit for each bit of the value. `whole` is a single bit for the whole value. `halves` are the
    shadows of the two halves of a 64-bit value."""

    __slots__ = ("_bits", "_like", "_whole", "halves", "w")

    def __init__(
        self,
        w: int,
        *,
        bits: Any = None,
        whole: Any = None,
        halves: tuple[ShadowBits | None, ShadowBits | None] | None = None,
        like: ShadowBits | None = None,
    ) -> None:
        self.w = w
        self._bits = whole if w == 1 and bits is None else bits
        self._whole = bits if w == 1 and whole is None else whole
        self.halves = halves
        self._like = like
        """Shadow bits that are set exactly if these are, or None.

        They are cheaper to test than these, or were tested before.
        """

    @property
    def is_whole(self) -> bool:
        """True if all shadow bits of the value are equal, so that a single bit stands for all."""
        return self._bits is None and self.halves is None

    def whole(self, o: Any) -> Any:
        """Return a value of width 1: 1 if any shadow bit is set, else 0.

        `o` provides the operations of the engine.
        """
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
        """Return the shadow bits as a value of the same width as the shadowed value.

        `o` provides the operations of the engine.
        """
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


OptionalShadow = ShadowBits | None
"""Shadow bits, or None if it is known at translation time that all are 0."""


def bits_of(o: Any, w: int, shadow: OptionalShadow) -> Any:
    """Return `shadow` as a value of width `w`, which is 0 if `shadow` is None (no shadow bit is set)."""
    return o.const(w, 0) if shadow is None else shadow.bits(o)


def whole_of(o: Any, shadow: OptionalShadow) -> Any:
    """Return a value of width 1: 1 if any bit of `shadow` is set, else 0.

    The result is 0 if `shadow` is None."""
    return o.const(1, 0) if shadow is None else shadow.whole(o)


# ---- how marks travel ------------------------------------------------------------------------------------------------
def opaque(o: Any, w: int, *shadows: OptionalShadow) -> OptionalShadow:
    """Return the shadow bits of the `w`-bit result of an operation whose data flow is not known bit by bit.

    Each bit of the result counts as dependent on all bits of all operands. `shadows` are the operands' shadow
    bits."""
    found = None
    for shadow in shadows:
        if shadow is not None:
            found = shadow.whole(o) if found is None else o.or_(1, found, shadow.whole(o))
    return None if found is None else ShadowBits(w, whole=found)


def bitwise(o: Any, w: int, a: OptionalShadow, b: OptionalShadow) -> OptionalShadow:
    """Return the shadow bits of a result in which each bit depends on the two operand bits at the same position."""
    if a is None or b is None:
        return a or b
    if a.halves is not None and b.halves is not None:
        return joined(w, *(bitwise(o, HALF, x, y) for x, y in zip(a.halves, b.halves, strict=True)))
    if a.is_whole and b.is_whole:
        return opaque(o, w, a, b)
    return ShadowBits(w, bits=o.or_(w, a.bits(o), b.bits(o)))


def joined(w: int, low: OptionalShadow, high: OptionalShadow) -> OptionalShadow:
    """Return the shadow bits of a 64-bit value, given the shadow bits of its low and its high half."""
    return None if low is None and high is None else ShadowBits(w, halves=(low, high))


def conjunction(o: Any, w: int, a: Any, x: OptionalShadow, b: Any, y: OptionalShadow) -> OptionalShadow:
    """Return the shadow bits of a & b, given the operands' shadow bits `x` and `y`.

    A bit of the result is defined if the bit of one operand is known to be 0, whatever the other operand is.
    """
    if x is None and y is None:
        return None
    if w == 1:
        both = o.or_(1, whole_of(o, x), whole_of(o, y))
        mine = a if x is None else o.or_(1, a, x.whole(o))
        others = b if y is None else o.or_(1, b, y.whole(o))
        return ShadowBits(1, whole=o.and_(1, both, o.and_(1, mine, others)))
    if x is None or y is None:
        shadow, other = (y, a) if x is None else (x, b)
        assert shadow is not None
        return ShadowBits(w, bits=o.and_(w, shadow.bits(o), other))
    if x.is_whole and y.is_whole:
        return opaque(o, w, x, y)
    both = o.or_(w, x.bits(o), y.bits(o))
    return ShadowBits(w, bits=o.and_(w, both, o.and_(w, o.or_(w, a, x.bits(o)), o.or_(w, b, y.bits(o)))))


def disjunction(o: Any, w: int, a: Any, x: OptionalShadow, b: Any, y: OptionalShadow) -> OptionalShadow:
    """Return the shadow bits of a | b, given the operands' shadow bits `x` and `y`.

    A bit of the result is defined if the bit of one operand is known to be 1, whatever the other operand is.
    """
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


def carried(o: Any, w: int, x: OptionalShadow, y: OptionalShadow) -> OptionalShadow:
    """Return the shadow bits of a sum or product, given those of the operands.

    Each bit of the result depends on the operands' bits up to its position.
    """
    found = bitwise(o, w, x, y)
    if found is None or found.is_whole or found.halves is not None:
        return opaque(o, w, found)
    bits = found.bits(o)
    return ShadowBits(w, bits=o.or_(w, bits, o.sub(w, o.const(w, 0), bits)), like=found)


def shifted(
    o: Any, name: str, w: int, x: OptionalShadow, n: Any, number: int | None, y: OptionalShadow
) -> OptionalShadow:
    """Return the shadow bits of the value `x` shifted by `n`.

    `x` and `y` are the shadow bits of the value and of `n`. `name` is the shift operation. `number` is the value
    of `n` if it is known at translation time, else None."""
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
    return ShadowBits(w, bits=getattr(o, name)(w, x.bits(o), n))


def chosen(o: Any, w: int, c: Any, z: OptionalShadow, x: OptionalShadow, y: OptionalShadow) -> OptionalShadow:
    """Return the shadow bits of a selection between two values by the condition `c`.

    `x` and `y` are the shadow bits of the two values, and `z` those of the condition."""
    picked: OptionalShadow = None
    if x is not None or y is not None:
        if (x is None or x.is_whole) and (y is None or y.is_whole):
            picked = ShadowBits(w, whole=o.select(1, c, whole_of(o, x), whole_of(o, y)))
        else:
            picked = ShadowBits(w, bits=o.select(w, c, bits_of(o, w, x), bits_of(o, w, y)))
    return bitwise(o, w, picked, opaque(o, w, z))


def widened(o: Any, name: str, to: int, w: int, x: OptionalShadow) -> OptionalShadow:
    """Return the shadow bits `x` of a `w`-bit value after its extension to `to` bits; `name` is "zext" or "sext"."""
    if x is None:
        return None
    if (name, to, w) == ("zext", 2 * HALF, HALF):
        return ShadowBits(to, halves=(x, None))
    if name == "sext" and x.is_whole:
        return ShadowBits(to, whole=x.whole(o))
    return ShadowBits(to, bits=getattr(o, name)(to, w, x.bits(o)), like=x)


def narrowed(o: Any, to: int, w: int, x: OptionalShadow) -> OptionalShadow:
    """Return the shadow bits of the low `to` bits of a `w`-bit value with the shadow bits `x`."""
    if x is None:
        return None
    if x.halves is not None and to == HALF:
        return x.halves[0]
    if x.is_whole:
        return ShadowBits(to, whole=x.whole(o))
    return ShadowBits(to, bits=o.trunc(to, w, x.bits(o)))
