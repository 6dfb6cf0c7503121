"""Vectors in native functions: several words or flags (lanes), on which one instruction operates at once.

In addition to plain words, a native function may hold vectors of 64-bit words, of dwords (32 bits) and of flags. The
operators of words apply to each lane, and wrap around at its width. A plain word as the other operand stands for that
word, or for its low 32 bits, in every lane. A comparison gives flags. ``a if flags else b`` selects lane by lane, and
evaluates both sides. If a function under `native.inlined` is a sequence of assignments and one return, a call with
vectors computes it on every lane: one source serves scalar and vector callers.

To a type checker vectors are words (`int`), since one source takes both. In machine code a vector is a tuple of
registers of the host, each of which holds `register_words` words or twice as many dwords. Flags of words and flags of
dwords cannot be combined.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

from softcard.core.errors import ModelBug
from softcard.ir.native_source import ALL


class Lanes(int):
    """The annotation of a parameter that is a vector of words.

    A subclass sets the number of lanes: ``class Line(Lanes, count=16)``. The arguments of a call are not instances of
    the subclass: they are `Words` in Python, and registers in machine code.
    """

    count: ClassVar[int] = 0

    def __init_subclass__(cls, *, count: int) -> None:
        super().__init_subclass__()
        cls.count = count


def register_words(features: frozenset[str]) -> int:
    """Return the number of 64-bit words that fit a vector register of a host with these processor features."""
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= features:
        return 8
    return 4 if "avx2" in features else 2


class Vector:
    """The Python form of a vector: `lanes` are its elements."""

    __slots__ = ("lanes",)
    __hash__ = None  # type: ignore[assignment]
    mask: ClassVar[int] = ALL
    """The value of a lane with all bits set."""

    def __init__(self, lanes: Iterable[int]) -> None:
        self.lanes = tuple(each & self.mask for each in lanes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.lanes)})"

    def __bool__(self) -> bool:
        raise ModelBug("a vector cannot decide a branch: use any_of")

    def __getitem__(self, number: int) -> int:
        return self.lanes[number]

    def pairs(self, other: Any) -> Iterable[tuple[int, int]]:
        """Return pairs of this vector's lanes and the lanes of `other`, which may be one word for all lanes."""
        if isinstance(other, Vector):
            if len(other.lanes) != len(self.lanes) or type(other) is not type(self):
                raise ModelBug(f"vectors {self!r} and {other!r} must have the same kind and the same length")
            return zip(self.lanes, other.lanes, strict=True)
        return ((each, int(other) & self.mask) for each in self.lanes)


def _flags(function: Callable[[int, int], Any]) -> Callable[[Vector, Any], Flags]:
    return lambda self, other: Flags(int(function(*pair)) for pair in self.pairs(other))


def _words(function: Callable[[int, int], int]) -> Callable[[Vector, Any], Any]:
    return lambda self, other: type(self)(function(*pair) for pair in self.pairs(other))


def _reflected(function: Callable[[int, int], int]) -> Callable[[Vector, Any], Any]:
    return lambda self, other: type(self)(function(b, a) for a, b in self.pairs(other))


class Flags(Vector):
    """The Python form of a vector of flags, each 0 or 1."""

    __slots__ = ()
    __and__ = _flags(operator.and_)
    __or__ = _flags(operator.or_)

    def __invert__(self) -> Flags:
        return Flags(1 - each for each in self.lanes)

    def select(self, a: Any, b: Any) -> Any:
        """Return a vector with the lanes of `a` where the flag is 1, and the lanes of `b` elsewhere.

        If `a` or `b` is a plain word, it is used for every lane."""
        kind: Any = next((type(each) for each in (a, b) if isinstance(each, Vector)), Words)
        one, other = (each if isinstance(each, Vector) else kind([each] * len(self.lanes)) for each in (a, b))
        return kind(x if flag else y for flag, x, y in zip(self.lanes, one.lanes, other.lanes, strict=True))


class Words(Vector):
    """The Python form of a vector of words of 64 bits, which wrap around."""

    __slots__ = ()
    __add__ = __radd__ = _words(operator.add)
    __sub__ = _words(operator.sub)
    __rsub__ = _reflected(operator.sub)
    __mul__ = __rmul__ = _words(operator.mul)
    __and__ = __rand__ = _words(operator.and_)
    __or__ = __ror__ = _words(operator.or_)
    __xor__ = __rxor__ = _words(operator.xor)
    __lshift__ = _words(lambda a, n: a << min(n, 64))
    __rshift__ = _words(operator.rshift)
    __rrshift__ = _reflected(operator.rshift)

    def __invert__(self) -> Any:
        return type(self)(~each for each in self.lanes)

    def __neg__(self) -> Any:
        return type(self)(-each for each in self.lanes)

    __eq__ = _flags(operator.eq)  # type: ignore[assignment]
    __ne__ = _flags(operator.ne)  # type: ignore[assignment]
    __lt__ = _flags(operator.lt)
    __le__ = _flags(operator.le)
    __gt__ = _flags(operator.gt)
    __ge__ = _flags(operator.ge)


class Dwords(Words):
    """The Python form of a vector of dwords, which wrap around."""

    __slots__ = ()
    mask = (1 << 32) - 1


# ---- operations of vectors, by their names in native functions -----------------------------------------------------
def spread(word: int, count: int) -> Any:
    """Return a vector of `count` lanes that all hold the value `word`."""
    return Words([word] * count)


def spread_dword(word: int, count: int) -> Any:
    """Return a vector of `count` dwords that are all the low 32 bits of `word`."""
    return Dwords([word] * count)


def lane_numbers(count: int) -> Any:
    """Return the vector 0, 1, ..., `count` - 1."""
    return Words(range(count))


def lane(words: Any, number: int) -> int:
    """Return lane `number` of a vector; `number` must be a constant."""
    return int(words[number])


def flags_of(bits: int, count: int) -> Any:
    """Return the low `count` bits of a word as flags; bit 0 becomes lane 0."""
    return Flags(bits >> number & 1 for number in range(count))


def bits_of(flags: Any) -> int:
    """Return flags as the bits of a word; lane 0 becomes bit 0."""
    return sum(each << number for number, each in enumerate(flags.lanes))


def any_of(flags: Any) -> int:
    """Return 1 if any flag is 1, else 0."""
    return int(any(flags.lanes))


def load_words(address: int, count: int) -> Any:
    """Return a vector of `count` words from this process's memory at `address`, a multiple of 8."""
    return Words((ctypes.c_uint64 * count).from_address(address))


def store_words(address: int, words: Any) -> None:
    """Store a vector of words to this process's memory at `address`, a multiple of 8."""
    (ctypes.c_uint64 * len(words.lanes)).from_address(address)[:] = words.lanes


def load_dwords(address: int, count: int) -> Any:
    """Return a vector of `count` dwords from this process's memory at `address`, a multiple of 4."""
    return Dwords((ctypes.c_uint32 * count).from_address(address))


def store_dwords(address: int, dwords: Any) -> None:
    """Store a vector of dwords to this process's memory at `address`, a multiple of 4."""
    (ctypes.c_uint32 * len(dwords.lanes)).from_address(address)[:] = dwords.lanes


def gather(addresses: Any, mask: Any, other: Any = 0) -> Any:
    """Return a vector of words loaded from memory: in each lane, the word at that lane's address in `addresses`.

    Only lanes whose `mask` flag is 1 are loaded; the other lanes are those of `other`. Addresses are multiples
    of 8."""
    others = other if isinstance(other, Vector) else spread(other, len(addresses.lanes))
    rows = zip(addresses.lanes, mask.lanes, others.lanes, strict=True)
    return Words(ctypes.c_uint64.from_address(at).value if flag else word for at, flag, word in rows)


def scatter(words: Any, addresses: Any, mask: Any) -> None:
    """Store each lane of `words` whose `mask` flag is 1 to its address.

    If addresses are equal, the value of the highest lane remains.
    """
    lanes = words.lanes if isinstance(words, Vector) else [words] * len(addresses.lanes)
    for word, at, flag in zip(lanes, addresses.lanes, mask.lanes, strict=True):
        if flag:
            ctypes.c_uint64.from_address(at).value = word


OPERATIONS: Final = (
    spread, spread_dword, lane_numbers, lane, flags_of, bits_of, any_of, load_words, store_words, load_dwords,
    store_dwords, gather, scatter,
)  # fmt: skip
