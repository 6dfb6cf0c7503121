"""Images as OpenCL defines them, one texel at a time in plain Python: the judge of what kernels read, write and sample.

Knows nothing of descriptors: channel orders and types by OpenCL's names, coordinates as the specification has them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

CHANNELS = {
    "CL_A": "A", "CL_R": "R", "CL_RG": "RG", "CL_RA": "RA", "CL_RGBA": "RGBA", "CL_BGRA": "BGRA", "CL_ARGB": "ARGB",
    "CL_sRGBA": "RGBA", "CL_INTENSITY": "I", "CL_LUMINANCE": "L", "CL_DEPTH": "D",
}  # fmt: skip
"""Channels of a texel in the order of memory."""
LIMITS = {"INT8": 127.0, "INT16": 32767.0}
PACKED = {
    "CL_UNORM_SHORT_555": ((10, 31), (5, 31), (0, 31)),
    "CL_UNORM_SHORT_565": ((11, 31), (5, 63), (0, 31)),
    "CL_UNORM_INT_101010": ((20, 1023), (10, 1023), (0, 1023)),
}
"""Lowest bit and greatest value of red, green, blue."""
Colour = tuple[float, float, float, float]


def is_integer(kind: str) -> bool:
    return "SIGNED" in kind


def to_number(kind: str, word: Any) -> float:
    """One channel's value."""
    value = word.item()
    if kind.startswith("CL_SNORM"):
        return max(value / LIMITS[kind[9:]], -1.0)
    if kind.startswith("CL_UNORM"):
        return float(value / (255.0 if kind.endswith("INT8") else 65535.0))
    return float(value)


def linear(c: float) -> float:
    return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4


def read(order: str, kind: str, texel: Any) -> Colour:
    """Red, green, blue and alpha of a texel, the words of which are given."""
    if kind in PACKED:
        r, g, b = ((int(texel[0]) >> low & top) / top for low, top in PACKED[kind])
        return r, g, b, 1.0
    found = {name: to_number(kind, word) for name, word in zip(CHANNELS[order], texel, strict=True)}
    if order == "CL_sRGBA":
        found |= {name: linear(found[name]) for name in "RGB"}
    if "I" in found:
        return (found["I"],) * 4
    if "L" in found:
        return found["L"], found["L"], found["L"], 1.0
    if "D" in found:
        return found["D"], 0.0, 0.0, 0.0
    alpha = 1.0 if order not in ("CL_A",) else 0.0
    return found.get("R", 0.0), found.get("G", 0.0), found.get("B", 0.0), found.get("A", alpha)


def to_word(kind: str, value: float) -> float:
    """Return the stored bits of a channel for a value."""
    if kind == "CL_HALF_FLOAT" or kind == "CL_FLOAT":
        return value
    if is_integer(kind):
        bits = int(kind[kind.index("INT") + 3 :])
        low, high = (0, 2**bits - 1) if "UN" in kind else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return min(max(int(value), low), high)
    if kind.startswith("CL_SNORM"):
        return round(min(max(value, -1.0), 1.0) * LIMITS[kind[9:]])
    return round(min(max(value, 0.0), 1.0) * (255.0 if kind.endswith("INT8") else 65535.0))


def write(order: str, kind: str, colour: Colour) -> list[float]:
    """The words of a texel that gets a colour."""
    if kind in PACKED:
        fields = zip(PACKED[kind], colour, strict=False)
        return [sum(round(min(max(c, 0.0), 1.0) * top) << low for (low, top), c in fields)]
    r, g, b, a = colour
    by_name = {"R": r, "G": g, "B": b, "A": a, "I": r, "L": r, "D": r}
    return [to_word(kind, by_name[name]) for name in CHANNELS[order]]


def border(order: str) -> Colour:
    """The border colour: alpha is 1 where the order has none."""
    has_alpha = order in ("CL_A", "CL_RA", "CL_RGBA", "CL_BGRA", "CL_ARGB", "CL_sRGBA", "CL_INTENSITY", "CL_DEPTH")
    return (0.0, 0.0, 0.0, 0.0 if has_alpha else 1.0)


def place(mode: str, index: int, size: int) -> int | None:
    """The texel that an addressing mode makes of an index; None for the border."""
    if mode in ("REPEAT", "NONE"):
        return index % size
    if mode == "MIRRORED_REPEAT":
        index %= 2 * size
        return index if index < size else 2 * size - 1 - index
    if mode == "CLAMP":
        return index if 0 <= index < size else None
    return min(max(index, 0), size - 1)


def axis(mode: str, is_linear: bool, u: float, size: int) -> list[tuple[int | None, float]]:
    """Texels and weights along an axis for a coordinate in texels."""
    if not is_linear:
        return [(place(mode, math.floor(u), size), 1.0)]
    first = math.floor(u - 0.5)
    part = u - 0.5 - first
    return [(place(mode, first, size), 1.0 - part), (place(mode, first + 1, size), part)]


def sample(
    order: str, kind: str, image: np.ndarray, mode: str, is_linear: bool, coordinates: list[float], slice_: int = 0
) -> Colour:
    """The filtered colour at coordinates (in texels) x, y, z of an image: slices or depth, rows, columns, words."""
    z_size, y_size, x_size, _ = image.shape
    x = axis(mode, is_linear, coordinates[0], x_size)
    y = axis(mode, is_linear, coordinates[1], y_size) if len(coordinates) > 1 else [(0, 1.0)]
    z = axis(mode, is_linear, coordinates[2], z_size) if len(coordinates) > 2 else [(slice_, 1.0)]
    total = [0.0] * 4
    for (i, wi), (j, wj), (k, wk) in ((a, b, c) for a in x for b in y for c in z):
        inside = i is not None and j is not None and k is not None
        colour = read(order, kind, image[k, j, i]) if inside else border(order)
        for n in range(4):
            total[n] += wi * wj * wk * colour[n]
    return total[0], total[1], total[2], total[3]
