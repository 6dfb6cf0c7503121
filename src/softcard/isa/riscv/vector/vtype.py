"""The register vtype: the width of elements and the length of register groups (V 1.0, section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

ELEN: Final = 64
"""The width of the widest element in bits."""
VILL: Final = 1 << 63
"""The bit vill of vtype, which is 1 for an unsupported configuration; the other bits are 0 then."""
LEAST_LMUL, MOST_LMUL = -3, 3
_LMUL: Final = {-3: "mf8", -2: "mf4", -1: "mf2", 0: "m1", 1: "m2", 2: "m4", 3: "m8"}


@dataclass(frozen=True, slots=True)
class VType:
    """A decoded vtype: elements of `sew` bits in groups of 2**`lmul` registers, each of `vlen` bits."""

    sew: int
    lmul: int
    vlen: int

    @property
    def vlmax(self) -> int:
        """The number of elements in a register group."""
        return elements(self.vlen, self.sew, self.lmul)

    def emul(self, width: int) -> int:
        """Return EMUL, as an exponent like `lmul`, of a group with the same number of elements of `width` bits."""
        return self.lmul + width.bit_length() - self.sew.bit_length()


def elements(vlen: int, width: int, emul: int) -> int:
    """Return the number of elements of `width` bits in a group of 2**`emul` registers of `vlen` bits."""
    return (vlen << emul if emul >= 0 else vlen >> -emul) // width


@lru_cache(maxsize=1024)
def parse(bits: int, vlen: int) -> VType | None:
    """Decode vtype `bits`; return None for reserved values, for which a hart sets vill.

    A fractional LMUL is supported if at least one element of ELEN * LMUL bits fits, the minimum that V 1.0 requires.
    """
    sew, lmul = 8 << (bits >> 3 & 7), (bits & 7 ^ 4) - 4
    if bits >> 8 or lmul < LEAST_LMUL or sew > (ELEN if lmul >= 0 else ELEN >> -lmul):
        return None
    return VType(sew, lmul, vlen)


def show(bits: int) -> str:
    """Return vtype as assembly text, such as "e32,m1,ta,ma"; a value that has no such text is returned as a number."""
    lmul = (bits & 7 ^ 4) - 4
    if bits >> 8 or lmul not in _LMUL or bits >> 3 & 7 > 3:
        return str(bits)
    return f"e{8 << (bits >> 3 & 7)},{_LMUL[lmul]},{'ta' if bits >> 6 & 1 else 'tu'},{'ma' if bits >> 7 else 'mu'}"


TEXTS: Final = {show(bits): bits for bits in range(1 << 8) if not show(bits).isdigit()}
"""The values of vtype by assembly text."""
