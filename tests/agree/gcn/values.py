"""Values that are hard for somebody: as integers, halves, singles or doubles."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.isa.gcn.state import PTR32

Words = npt.NDArray[np.uint32]

# fmt: off
INTEGERS: Final = (
    0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
    0x7FFFFF, 0x800000,
    0xFFFFFF, 0x1000000, 0x3FFFFFFF, 0x40000000, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFF0000,
    0xFFFFFFF0, 0xFFFFFFFE,
    0xFFFFFFFF, 0x01010101, 0x80808080, 0xAAAAAAAA, 0x55555555,
)
SINGLES: Final = (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x00800001,
    0x00FFFFFF, 0x01000000,
    0x33800000, 0x33800001, 0x34000000, 0x3EFFFFFF, 0x3F000000, 0xBF000000, 0x3F7FFFFF, 0x3F800000, 0xBF800000,
    0x3F800001, 0x3FC00000,
    0x40000000, 0x40490FDB, 0x4B000000, 0x4B000001, 0x4B7FFFFF, 0x4B800000, 0x4EFFFFFF, 0x4F000000, 0xCF000000,
    0x4F7FFFFF, 0x4F800000,
    0x477FE000, 0x477FF000, 0x47800000, 0x38800000, 0x387FE000, 0x33000000, 0x33000001, 0x7E800000, 0x7F000000,
    0x7F7FFFFF, 0xFF7FFFFF,
    0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFA12345, 0x7FFFFFFF, 0x0D800000, 0x1F800000,
    0x20000000, 0x5F000000,
)
HALVES: Final = (
    0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401, 0x3800, 0x3BFF, 0x3C00, 0xBC00, 0x3C01,
    0x4000, 0x4248, 0x6400,
    0x7800, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7C01, 0xFD23, 0x0080, 0x1000, 0x1400, 0x2000,
)
DOUBLES: Final = (
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800FFFFFFFFFFFFF, 0x0010000000000000,
    0x8010000000000000,
    0x0010000000000001, 0x0020000000000000, 0x3CA0000000000000, 0x3CB0000000000000, 0x3FE0000000000000,
    0x3FEFFFFFFFFFFFFF,
    0x3FF0000000000000, 0xBFF0000000000000, 0x3FF0000000000001, 0x3FF8000000000000, 0x4000000000000000,
    0x400921FB54442D18,
    0x41DFFFFFFFC00000, 0x41E0000000000000, 0xC1E0000000000000, 0x41EFFFFFFFE00000, 0x41F0000000000000,
    0x4330000000000000,
    0x4340000000000000, 0x36A0000000000000, 0x3690000000000000, 0x380FFFFFFFFFFFFF, 0x3810000000000000,
    0x47EFFFFFE0000000, 0x47EFFFFFF0000000,
    0x5FE0000000000000, 0x2000000000000000, 0x7FD0000000000000, 0x7FE0000000000000, 0x7FEFFFFFFFFFFFFF,
    0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000,
    0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFF4000000000123,
)
# fmt: on
_INTEGERS: Final = np.array(INTEGERS, np.uint32)
_SINGLES: Final = np.array(SINGLES, np.uint32)
_HALVES: Final = np.array(HALVES, np.uint32)
_DOUBLES: Final = np.array(DOUBLES, np.uint64)

STYLES: Final = ("bits", "integers", "singles", "ordinary", "tiny", "halves", "small", "double", "doubles", "same")


def words(rng: np.random.Generator, count: int) -> Words:
    """An even number of 32-bit values, in one style or a mixture; doubles lie in pairs, low word first."""
    style = STYLES[rng.integers(len(STYLES))]
    return mixed(rng, count) if rng.random() < 0.3 else of_style(rng, style, count)


def mixed(rng: np.random.Generator, count: int) -> Words:
    """Values of all styles side by side."""
    choices = np.stack([of_style(rng, style, count) for style in STYLES])
    chosen: Words = choices[rng.integers(len(STYLES), size=count), np.arange(count)]
    return chosen


def of_style(rng: np.random.Generator, style: str, count: int) -> Words:
    """Values of one style."""
    bits: Words = rng.integers(0, 1 << 32, size=count, dtype=np.uint32)
    if style == "integers":
        return rng.choice(_INTEGERS, count)
    if style == "small":
        return rng.integers(0, 70, size=count, dtype=np.uint32)
    if style == "same":
        return np.full(count, bits[0] if rng.random() < 0.5 else rng.choice(_SINGLES), np.uint32)
    if style == "singles":
        return rng.choice(_SINGLES, count)
    if style == "ordinary":
        bits = (bits & np.uint32(0x83FFFFFF)) + np.uint32(0x3D000000)
    elif style == "tiny":
        bits = (bits & np.uint32(0x80FFFFFF)) + np.uint32(0x00200000)
    elif style == "halves":
        bits = rng.choice(_HALVES, count) | rng.choice(_HALVES, count) << np.uint32(16)
    return bits


def pairs(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint64]:
    """64-bit values, many of them doubles."""
    bits = rng.integers(0, 1 << 64, size=count, dtype=np.uint64)
    ordinary = (bits & np.uint64(0x803FFFFFFFFFFFFF)) + np.uint64(0x3FC0000000000000)
    low = rng.choice(_INTEGERS, count).astype(np.uint64)
    options = np.stack([bits, ordinary, rng.choice(_DOUBLES, count), low, low << np.uint64(32) | low])
    row: Any = rng.integers(len(options)) if rng.random() < 0.6 else rng.integers(len(options), size=count)
    chosen: npt.NDArray[np.uint64] = options[row, np.arange(count)]
    return chosen


def rows(rng: np.random.Generator, count: int) -> Words:
    """`count` vector registers (an even number), uint32[count, 64]."""
    result = np.zeros((count, 64), np.uint32)
    for n in range(0, count, 2):
        if rng.random() < 0.35:
            wide = pairs(rng, 64)
            result[n], result[n + 1] = wide.astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)
        else:
            result[n], result[n + 1] = words(rng, 64), words(rng, 64)
            if rng.random() < 0.2:
                result[n + 1] = result[n] + rng.integers(-1, 2, size=64).astype(np.uint32)
    return result


def mask(rng: np.random.Generator) -> int:
    """Lanes."""
    kind = rng.random()
    some = int(rng.integers(0, 1 << 64, dtype=np.uint64))
    if kind < 0.3:
        return (1 << 64) - 1
    if kind < 0.38:
        return 0
    if kind < 0.5:
        return 1 << int(rng.integers(64))
    if kind < 0.6:
        return (1 << int(rng.integers(65))) - 1
    if kind < 0.7:
        return 0xFFFF << 16 * int(rng.integers(4))
    return some & int(rng.integers(0, 1 << 64, dtype=np.uint64)) if kind < 0.8 else some


def mode(rng: np.random.Generator) -> int:
    """MODE: rounding, denormals, DX10_CLAMP, IEEE, sometimes FP16_OVFL; above it, PTR32 for one in four."""
    kind, pointers = rng.random(), PTR32 * int(rng.random() < 0.25)
    if kind < 0.3:
        return pointers | (0x3C0 if rng.random() < 0.5 else 0x3F0)
    rounding = 0 if kind < 0.6 else int(rng.integers(16))
    return pointers | rounding | int(rng.integers(64)) << 4 | (int(rng.random() < 0.1) << 23)


def pick(rng: np.random.Generator, options: Any) -> Any:
    """One of a sequence."""
    return options[int(rng.integers(len(options)))]
