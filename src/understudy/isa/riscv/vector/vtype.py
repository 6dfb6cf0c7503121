"""vtype: the width of elements and the length of register groups (V 1.0, section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

ELEN: Final = 64
"""Bits of the widest element."""
VILL: Final = 1 << 63
"""The bit of vtype that says that what was asked for does not exist; the others are 0 then."""
LEAST_LMUL, MOST_LMUL = -3, 3
_LMUL: Final = {-3: "mf8", -2: "mf4", -1: "mf2", 0: "m1", 1: "m2", 2: "m4", 3: "m8"}


@dataclass(frozen=True, slots=True)
class VType:
    """Elements of `sew` bits in groups of 2**`lmul` registers, each of `vlen` bits."""

    sew: int
    lmul: int
    vlen: int

    @property
    def vlmax(self) -> int:
        """Elements of a group."""
        return elements(self.vlen, self.sew, self.lmul)

    def emul(self, width: int) -> int:
        """The group length (as `lmul`) of as many elements of `width` bits."""
        return self.lmul + width.bit_length() - self.sew.bit_length()


def elements(vlen: int, width: int, emul: int) -> int:
    """Elements of `width` bits in a group of 2**`emul` registers of `vlen` bits."""
    return (vlen << emul if emul >= 0 else vlen >> -emul) // width


@lru_cache(maxsize=1024)
def parse(bits: int, vlen: int) -> VType | None:
    """What vtype `bits` stands for; None for what is reserved, where vill is set.

    Fractions are there as far as one element of ELEN * LMUL bits fits, as the document asks at least.
    """
    sew, lmul = 8 << (bits >> 3 & 7), (bits & 7 ^ 4) - 4
    if bits >> 8 or lmul < LEAST_LMUL or sew > (ELEN if lmul >= 0 else ELEN >> -lmul):
        return None
    return VType(sew, lmul, vlen)


def show(bits: int) -> str:
    """As in assembly text: "e32,m1,ta,ma"; a number where that has no such form."""
    lmul = (bits & 7 ^ 4) - 4
    if bits >> 8 or lmul not in _LMUL or bits >> 3 & 7 > 3:
        return str(bits)
    return f"e{8 << (bits >> 3 & 7)},{_LMUL[lmul]},{'ta' if bits >> 6 & 1 else 'tu'},{'ma' if bits >> 7 else 'mu'}"


TEXTS: Final = {show(bits): bits for bits in range(1 << 8) if not show(bits).isdigit()}
"""vtype by its text."""
