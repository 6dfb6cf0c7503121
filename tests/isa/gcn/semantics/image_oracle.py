"""Images in exact arithmetic, one texel after the other: layout, addressing modes, filters; descriptors from fields.

Written from the descriptor tables and the usual definitions of the addressing modes, over `fractions`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from tests.isa.gcn.semantics import format_oracle as formats
from tests.isa.gcn.semantics.memory_rig import BASE, Model

ONE = 0x3F80_0000
TYPES = {"1D": 8, "2D": 9, "3D": 10, "cube": 11, "1D array": 12, "2D array": 13}
START = BASE & ~0xFF


@dataclass(frozen=True)
class Image:
    kind: str = "2D"
    width: int = 9
    height: int = 6
    depth: int = 1
    pitch: int = 12
    dfmt: int = 10
    nfmt: int = 0
    select: tuple[int, int, int, int] = (4, 5, 6, 7)
    first: int = 0
    mode: int | None = None
    levels: tuple[int, int] = (0, 0)
    min_lod: int = 0

    def words(self, level: int) -> list[int]:
        """The eight words; `depth` counts slices too."""
        mode = (0 if level == 9 else 8) if self.mode is None else self.mode
        last = self.first + self.depth - 1
        w = [START >> 8 & 0xFFFF_FFFF, START >> 40 | self.min_lod << 8 | self.dfmt << 20 | self.nfmt << 26]
        w.append(self.width - 1 | self.height - 1 << 14)
        select = sum(s << 3 * k for k, s in enumerate(self.select))
        w.append(select | self.levels[0] << 12 | self.levels[1] << 16 | mode << 20 | TYPES[self.kind] << 28)
        deep = self.depth - 1 if self.kind == "3D" else last if level == 9 else 0
        w.append(deep | self.pitch - 1 << 13)
        w.append(self.first | (0 if level == 9 else last << 13))
        return [*w, 0, 0]

    @property
    def dimensions(self) -> int:
        return {"1D": 1, "2D": 2, "3D": 3, "cube": 2, "1D array": 1, "2D array": 2}[self.kind]

    @property
    def slices(self) -> int:
        return self.depth if self.kind not in ("1D", "2D") else 1

    @property
    def rows(self) -> int:
        return self.height if self.dimensions > 1 else 1

    @property
    def size(self) -> int:
        return formats.size(self.dfmt)

    @property
    def one(self) -> int:
        return 1 if self.nfmt in formats.INTEGERS else ONE

    def at(self, x: int, y: int, z: int) -> int:
        """Address of a texel."""
        return START + (((z + self.first) * self.rows + y) * self.pitch + x) * self.size

    def inside(self, x: int, y: int, z: int) -> bool:
        return 0 <= x < self.width and 0 <= y < self.rows and 0 <= z < self.slices

    def texel(self, m: Model, x: int, y: int, z: int) -> list[int]:
        """Four components, before selection; zeros outside."""
        if not self.inside(x, y, z):
            return [0, 0, 0, 0]
        element = m.peek("global", self.at(x, y, z), self.size)
        pairs = zip(formats.LAYOUTS[self.dfmt], formats.split(self.dfmt, element), strict=True)
        parts = [formats.read(w, self.nfmt, n, k) for k, (w, n) in enumerate(pairs)]
        return [n for n in parts if n is not None] + [0, 0, 0, self.one][len(parts) :]

    def selected(self, values: list[int]) -> list[int]:
        return [values[s - 4] if s >= 4 else self.one if s == 1 else 0 for s in self.select]


WRAP, MIRROR, CLAMP, MIRROR_CLAMP, HALF, MIRROR_HALF, BORDER, MIRROR_BORDER = range(8)


@dataclass(frozen=True)
class Sampler:
    clamp: tuple[int, int, int] = (WRAP, WRAP, WRAP)
    magnify: int = 0
    minify: int = 0
    unnormalised: int = 0
    border: int = 0
    compare: int = 0
    reduction: int = 0
    min_lod: int = 0
    max_lod: int = 4095
    bias: int = 0
    depth_filter: int = 0

    def words(self) -> list[int]:
        x, y, z = self.clamp
        first = x | y << 3 | z << 6 | self.compare << 12 | self.unnormalised << 15 | self.reduction << 29
        third = self.bias & 0x3FFF | self.magnify << 20 | self.minify << 22 | self.depth_filter << 24
        return [first, self.min_lod | self.max_lod << 12, third, self.border << 30]

    def linear(self) -> Sampler:
        return replace(self, magnify=1, minify=1)


def place(index: int, size: int, mode: int) -> int | None:
    """The texel that an index along an axis means; None for the border."""
    if mode == WRAP:
        return index % size
    if mode == MIRROR:
        period = index % (2 * size)
        return period if period < size else 2 * size - 1 - period
    if mode in (MIRROR_CLAMP, MIRROR_HALF, MIRROR_BORDER) and index < 0:
        index = -1 - index
    if 0 <= index < size:
        return index
    return min(max(index, 0), size - 1) if mode in (CLAMP, MIRROR_CLAMP) else None


def axis(u: Fraction, size: int, mode: int, linear: bool, offset: int) -> list[tuple[int | None, Fraction]]:
    """Texels and weights along an axis for coordinate `u` in texels."""
    if mode == MIRROR_HALF:
        u = abs(u)
    if mode in (HALF, MIRROR_HALF):
        u = min(max(u, Fraction(0)), Fraction(size))
        if not linear and u == size:
            u = Fraction(size) - Fraction(1, 1 << 40)
    if not linear:
        return [(place(math.floor(u) + offset, size, mode), Fraction(1))]
    low = math.floor(u - Fraction(1, 2))
    part = u - Fraction(1, 2) - low
    return [(place(low + offset, size, mode), 1 - part), (place(low + 1 + offset, size, mode), part)]


COMPARE = (
    lambda a, b: False, lambda a, b: a < b, lambda a, b: a == b, lambda a, b: a <= b,
    lambda a, b: a > b, lambda a, b: a != b, lambda a, b: a >= b, lambda a, b: True,
)  # fmt: skip


Place = tuple[int | None, int | None, int | None]


def fetch(m: Model, image: Image, s: Sampler, at: Place, reference: Fraction | None) -> list[int]:
    """One texel or the border, compared if there is a reference, selected."""
    x, y, z = at
    if x is None or y is None or z is None:
        values = [[0, 0, 0, 0], [0, 0, 0, image.one], [image.one] * 4][s.border]
    else:
        values = image.texel(m, x, y, z)
    if reference is not None:
        held = formats.value(values[0])
        assert held is not None
        reference = min(max(reference, Fraction(0)), Fraction(1)) if image.nfmt == 0 else reference
        values = [ONE if COMPARE[s.compare](reference, held) else 0, *values[1:]]
    return image.selected(values)


def sample(
    m: Model,
    image: Image,
    s: Sampler,
    coordinates: list[Fraction],
    slice_: int = 0,
    *,
    linear: bool,
    offset: tuple[int, int, int] = (0, 0, 0),
    reference: Fraction | None = None,
) -> list[int]:
    """The four filtered components; coordinates as the registers hold them."""
    axes = taps(image, s, coordinates, slice_, linear, offset)
    corners = [
        (wx * wy * wz, fetch(m, image, s, (x, y, z), reference))
        for z, wz in axes[2]
        for y, wy in axes[1]
        for x, wx in axes[0]
        if wx * wy * wz
    ]
    if len(corners) == 1:
        return corners[0][1]
    result = []
    for k in range(4):
        numbers = [(w, formats.value(values[k])) for w, values in corners]
        known = [(w, n) for w, n in numbers if n is not None]
        assert len(known) == len(numbers)
        least, most = min(n for _, n in known), max(n for _, n in known)
        result.append(formats.single((sum(w * n for w, n in known), least, most)[s.reduction] + Fraction(0)))
    return result


def taps(
    image: Image, s: Sampler, coordinates: list[Fraction], slice_: int, linear: bool, offset: tuple[int, int, int]
) -> list[list[tuple[int | None, Fraction]]]:
    """The texels and weights along x, y and z."""
    sizes = (image.width, image.height, image.depth)
    one: list[tuple[int | None, Fraction]] = [(0, Fraction(1))]
    axes = [one, one, one]
    for k in range(image.dimensions):
        u = coordinates[k] * (1 if s.unnormalised else sizes[k])
        smooth = linear if k < 2 or not s.depth_filter else s.depth_filter == 2
        axes[k] = axis(u, sizes[k], s.clamp[k], smooth, offset[k])
    if image.dimensions < 3:
        axes[2] = [(min(max(slice_, 0), image.slices - 1), Fraction(1))]
    return axes
