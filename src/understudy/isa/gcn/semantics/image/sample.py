"""Image operations with a sampler: sample in all its variants, gather4, get_lod.

The address registers hold, in this order and where the variant has them: texel offset (o), LOD bias (b), depth to
compare with (c), gradients (d, cd), coordinates, LOD (l) or LOD clamp (cl). Images have one mip level, so the LOD only
chooses between the magnifying and the minifying filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Execution, Insn
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.semantics.image import texel
from understudy.isa.gcn.semantics.image.filter import Tap, clean, single, taps
from understudy.isa.gcn.semantics.image.resource import CUBE, IMAGE_3D, Image, Sampler, image, sampler, told
from understudy.isa.gcn.semantics.memory_formats import Lanes, lanes
from understudy.isa.gcn.word import Word

COMPARISONS = (
    lambda a, b: np.zeros(64, bool),
    np.less,
    np.equal,
    np.less_equal,
    np.greater,
    np.not_equal,
    np.greater_equal,
    lambda a, b: np.ones(64, bool),
)
"""Depth comparison functions, as reference (compare) texel."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the address registers of a sampling instruction say; coordinates and gradients are float64, in texels."""

    offsets: tuple[Lanes, Lanes, Lanes]
    reference: Lanes | None
    coordinates: list[Lanes]
    slice: Lanes
    lod: Lanes


def of_lanes(b: Builder, values: Sequence[Lanes]) -> list[Word]:
    """Arrays of 64 lanes as 32-bit values."""
    return [b.word(32, v) for v in values]


def texel_offsets(word: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """x, y, z of six signed bits each, at bits 0, 8 and 16."""
    x, y, z = ((word >> np.uint32(low) & np.uint32(63) ^ np.uint32(32)).astype(np.int64) - 32 for low in (0, 8, 16))
    return x, y, z


def lod_of(gradients: list[list[Lanes]]) -> Lanes:
    """log2 of the longer of two gradients; a very small number where both are 0."""
    lengths = [np.sqrt(sum(c * c for c in map(clean, g))) for g in gradients]
    return np.asarray(np.log2(np.maximum(np.maximum(lengths[0], lengths[1]), 2.0**-126)))


def quad_gradients(coordinates: list[Lanes]) -> list[list[Lanes]]:
    """Differences within each four lanes: to the right neighbour and to the lower one."""
    quads = [c.reshape(16, 4) for c in coordinates]
    return [[np.repeat(q[:, k] - q[:, 0], 4) for q in quads] for k in (1, 2)]


def floats(addresses: texel.Addresses, count: int) -> list[Lanes]:
    """The next coordinates as float64 numbers."""
    return [formats.numbers(lanes(c)) for c in addresses.floats(count)]


def request(b: Builder, i: Insn, found: Image, s: Sampler, variant: frozenset[str]) -> Request:
    """Read the address registers."""
    addresses = texel.Addresses(b, i)
    offsets = texel_offsets(lanes(addresses.word()) if "o" in variant else np.zeros(64, np.uint32))
    bias = floats(addresses, 1)[0] if "b" in variant else np.zeros(64)
    reference = formats.numbers(lanes(addresses.word())) if "c" in variant else None
    sizes = [float(n.number) for n in (found.width, found.height, found.slices)[: found.dimensions]]
    scale = [1.0] * len(sizes) if s.unnormalised else sizes
    gradients = None
    if variant & {"d", "cd"}:
        gradients = [[c * n for c, n in zip(floats(addresses, len(scale)), scale, strict=True)] for _ in range(2)]
    count = texel.coordinates(i, found)
    *body, last = floats(addresses, count + 1) if variant & {"l", "cl"} else [*floats(addresses, count), np.zeros(64)]
    with np.errstate(invalid="ignore", over="ignore"):
        bias_of_cube = 1.0 if found.kind == CUBE else 0.0
        coordinates = [(c - bias_of_cube) * n for c, n in zip(body, scale, strict=False)]
    if variant & {"l", "lz"}:
        lod = last if "l" in variant else np.zeros(64)
    else:
        lod = lod_of(gradients or quad_gradients([clean(c) for c in coordinates])) + clean(bias) + s.lod_bias
    lod = np.maximum(lod, last) if "cl" in variant else lod
    return Request(offsets, reference, coordinates, slice_of(found, body), lod)


def slice_of(found: Image, body: list[Lanes]) -> Lanes:
    """The slice that the coordinate behind the others names, rounded to the nearest and clamped."""
    if not found.is_array or len(body) <= found.dimensions:
        return np.zeros(64, np.int64)
    named = np.rint(clean(body[found.dimensions])).astype(np.int64)
    if found.kind == CUBE:
        named = (named >> 3) * 6 + np.minimum(named & 7, 5)
    return np.clip(named, 0, max(found.slices.number - 1, 0))


def clamped_lod(found: Image, s: Sampler, lod: Lanes) -> Lanes:
    """The LOD within the limits of sampler and image."""
    return np.asarray(np.minimum(np.maximum(lod, max(s.min_lod, found.min_lod.number / 256)), s.max_lod))


def axes(found: Image, s: Sampler, r: Request, linear: Lanes) -> list[list[Tap]]:
    """The taps along x, y and z."""
    sizes = [n.number for n in (found.width, found.height, found.slices)]
    found_taps = []
    for k, u in enumerate(r.coordinates[: found.dimensions]):
        smooth = linear
        if k == 2 and s.depth_filter:
            smooth = np.full(64, s.depth_filter == 2)
        # Faces of a cube do not continue each other: Choice gcn/cube-edges.
        mode = 2 if found.kind == CUBE else s.clamp[k]
        found_taps.append(taps(u, sizes[k], mode, smooth, r.offsets[k]))
    while len(found_taps) < 2:
        found_taps.append(single(np.zeros(64, np.int64)))
    return found_taps if len(found_taps) == 3 else [*found_taps, single(r.slice)]


def border(found: Image, s: Sampler) -> list[Lanes]:
    """The border colour, before DST_SEL."""
    one = formats.one(found.nfmt)
    colour = ((0, 0, 0, 0), (0, 0, 0, one), (one, one, one, one))[s.border]
    return [np.full(64, c, np.uint32) for c in colour]


def corner(b: Builder, found: Image, s: Sampler, r: Request, at: tuple[Tap, ...], wanted: Lanes) -> list[Lanes]:
    """The components of one texel of each lane that `wanted` names: compared, if so asked, and in DST_SEL's order."""
    x, y, z = (b.word(32, tap.index.astype(np.uint32)) for tap in at)
    there = at[0].there & at[1].there & at[2].there
    inside = b.word(1, there & wanted) & texel.within(found, x, y, z)
    values = [lanes(v) for v in texel.components(b, found, x, y, z, inside)]
    if not there.all():
        values = [np.where(there, v, colour) for v, colour in zip(values, border(found, s), strict=True)]
    if r.reference is not None:
        reference = np.clip(r.reference, 0.0, 1.0) if found.nfmt == formats.UNORM else r.reference
        with np.errstate(invalid="ignore"):
            passed = COMPARISONS[s.compare](reference, formats.numbers(values[0]))
        values[0] = np.where(passed, np.uint32(formats.ONE), np.uint32(0)).astype(np.uint32)
    return [lanes(v) for v in texel.selected(found, of_lanes(b, values))]


def blend(s: Sampler, corners: list[tuple[Lanes, list[Lanes]]], component: int) -> Lanes:
    """The filtered value of a component: a lane with one texel of weight 1 gets its very bits."""
    total = np.full(64, (0.0, np.inf, -np.inf, 0.0)[s.reduction])
    exact = np.zeros(64, np.uint32)
    for weight, values in corners:
        exact = np.where(weight == 1.0, values[component], exact).astype(np.uint32)
        value = formats.numbers(values[component])
        with np.errstate(invalid="ignore", over="ignore"):
            if s.reduction == 0:
                total = total + np.where(weight > 0, weight * value, 0.0)
            else:
                pick = np.minimum if s.reduction == 1 else np.maximum
                total = np.where(weight > 0, pick(total, value), total)
    alone = np.any([weight == 1.0 for weight, _ in corners], axis=0)
    return np.where(alone, exact, formats.bits_of(total)).astype(np.uint32)


def sample(*variant: str) -> Execution:
    """vdata = the filtered components that dmask names."""
    kinds = frozenset(variant)

    def meaning(b: Builder, i: Insn) -> None:
        found, s = image(b, i, [word.number for word in told(b, i)]), sampler(b, i)
        r = request(b, i, found, s, kinds)
        lod = r.lod if "lz" in kinds else clamped_lod(found, s, r.lod)
        linear = np.where(lod <= 0, s.magnify, s.minify) & (not found.integer)
        corners = []
        for at in product(*axes(found, s, r, linear)):
            weight = at[0].weight * at[1].weight * at[2].weight
            if weight.any():
                corners.append((weight, corner(b, found, s, r, at, weight > 0)))
        values = [blend(s, corners, k) for k in range(4)]
        texel.give(b, i, found.nfmt, texel.masked(i, of_lanes(b, values)))

    return meaning


def gather(*variant: str) -> Execution:
    """vdata = one component, the lowest that dmask names, of the four texels around: (0,1), (1,1), (1,0), (0,0)."""
    kinds = frozenset(variant)

    def meaning(b: Builder, i: Insn) -> None:
        found, s = image(b, i, [word.number for word in told(b, i)]), sampler(b, i)
        if found.dimensions != 2 or found.kind == IMAGE_3D:
            raise BeyondModel(f"{i.name} of an image of {found.dimensions} dimensions is not modelled: it must have 2")
        r = request(b, i, found, s, kinds)
        x, y, z = axes(found, s, r, np.ones(64, bool))
        component = (i["dmask"] & -i["dmask"]).bit_length() - 1 if i["dmask"] else 0
        every = np.ones(64, bool)
        order = ((0, 1), (1, 1), (1, 0), (0, 0))
        values = [corner(b, found, s, r, (x[h], y[v], z[0]), every)[component] for h, v in order]
        texel.give(b, i, found.nfmt, of_lanes(b, values))

    return meaning


def gather_row(b: Builder, i: Insn) -> None:
    """image_gather4h: no manual says which four texels of a row."""
    raise BeyondModel(f"{i.name} is not modelled: the manuals do not say which texels of a row it takes")


def get_lod(b: Builder, i: Insn) -> None:
    """vdata = the LOD of the quad's coordinates within the sampler's limits, and as it is."""
    found, s = image(b, i, [word.number for word in told(b, i)]), sampler(b, i)
    lod = request(b, i, found, s, frozenset()).lod
    zero = np.zeros(64, np.uint32)
    values = [formats.bits_of(clamped_lod(found, s, lod)), formats.bits_of(lod), zero, zero]
    texel.give(b, i, formats.FLOAT, texel.masked(i, of_lanes(b, values)))
