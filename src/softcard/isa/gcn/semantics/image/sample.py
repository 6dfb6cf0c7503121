"""Semantics of image operations with a sampler: sample in all its variants, gather4, get_lod.

The address registers hold the values that the variant has, in this order: texel offset (o), LOD bias (b), depth to
compare with (c), gradients (d, cd), coordinates, LOD (l) or LOD clamp (cl). Images have one mip level, so the LOD only
chooses between the magnifying and the minifying filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Insn, SpecialisedExecution
from softcard.isa.gcn.semantics import fp
from softcard.isa.gcn.semantics import memory_formats as formats
from softcard.isa.gcn.semantics.image import resource, texel
from softcard.isa.gcn.semantics.image.resource import (
    BORDER,
    CLAMP,
    CUBE,
    HALF_BORDER,
    IMAGE_3D,
    MIRROR,
    MIRROR_BORDER,
    MIRROR_CLAMP,
    MIRROR_HALF_BORDER,
    WRAP,
    Image,
    Sampler,
)
from softcard.isa.gcn.word import Word

# ---- filters ---------------------------------------------------------------------------------------------------------
# Conversion of a texture coordinate to texels and weights along one axis: addressing modes and filters. Coordinates and
# weights are binary64. A sampled value is the sum of texels times weights, rounded once (Choice ``gcn/filter-
# weights``); a NaN becomes the quiet NaN.


HALF: Final = fp.power("d", -1)
FAR: Final = fp.power("d", 30)
"""The limit to which coordinates are clamped; larger ones would give the same texels."""
Lanes = Word | bool
"""A set of lanes: True for all, False for none, or a word of width 1 with a bit for each."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One texel of each lane along an axis: its `index`, its flag `there`, and its `weight`.

    `there` is 1 if the texel lies in the image; otherwise the border colour is used. A flag `there` of None means
    1 in all lanes, and so does a `weight` of None."""

    index: Word
    there: Word | None = None
    weight: Word | None = None


def either(lanes: Lanes, a: Word, b: Word) -> Word:
    """Return `a` in the lanes of the set `lanes`, `b` in the others."""
    return lanes.select(a, b) if isinstance(lanes, Word) else a if lanes else b


def wide(a: Word) -> Word:
    """Convert binary32 to binary64, with denormals kept regardless of MODE."""
    size = fp.magnitude(a)
    tiny = size.ffrom_int("d", False, "raw").fmul(a.constant(64, fp.power("d", -149)), "raw")
    return fp.is_tiny(a).select(tiny | fp.sign_of(a).zext(64) << 32, a.fconvert("d", "raw"))


def narrow(a: Word) -> Word:
    """Convert binary64 to binary32, rounded to the nearest, with denormals kept regardless of MODE."""
    size, units = fp.magnitude(a), fp.power("d", fp.FRACTION["d"])
    tiny = (size.fma(size.const(fp.power("d", 149)), size.const(units), "raw") - units).trunc(32)
    tiny |= a[63:63].trunc(32) << 31
    return (size < fp.power("d", -126)).select(tiny, a.fconvert("s", "raw"))


def clean(u: Word) -> Word:
    """Return coordinates with NaNs replaced by 0, and large or infinite ones clamped to +-`FAR`."""
    far = fp.magnitude(u) > FAR
    return fp.choose([(fp.is_nan(u), u.const(0)), (far, fp.copysign(u.const(FAR), u))], u)


def integer(u: Word) -> Word:
    """Convert a binary64 number with an integral value to a 32-bit integer.

    The function adds a number so large that the integer appears in the low bits of the sum.
    """
    units = fp.power("d", fp.FRACTION["d"]) + (1 << fp.FRACTION["d"] - 1)
    return u.fadd(u.const(units), "raw").trunc(32)


def remainder(index: Word, size: Word) -> Word:
    """Return `index` modulo `size`, from 0 to size - 1.

    The division is done in floats: the quotient of 32-bit integers is never so close to an integer that rounding
    changes the result.
    """
    quotient = index.ffrom_int("d", True, "raw").fdiv(size.ffrom_int("d", False, "raw"), "raw")
    return index - integer(quotient.fround("floor")) * size


def address(index: Word, size: Word, mode: int) -> tuple[Word, Word | None]:
    """Apply the addressing mode `mode` to texel indices.

    Return the resulting indices, and a word that is 1 if the texel lies in the image (None if all do).
    """
    if mode == WRAP:
        return remainder(index, size), None
    if mode == MIRROR:
        turned = remainder(index, size << 1)
        return turned.umin((size << 1) - 1 - turned), None
    if mode in (MIRROR_CLAMP, MIRROR_HALF_BORDER, MIRROR_BORDER):
        index = index.slt(0).select(~index, index)
    kept = index.smax(0).smin(size - 1)
    bordered = mode in (BORDER, HALF_BORDER, MIRROR_HALF_BORDER, MIRROR_BORDER)
    return kept, index < size if bordered else None


def taps(u: Word, size: Word, mode: int, linear: Lanes, offset: Word | None) -> list[Tap]:
    """Return the texels along one axis that contribute to the sample at coordinate `u`, which is in texels.

    They are the two neighbours of `u`; in lanes outside of the set `linear` the second has weight 0. If
    `linear` is False, return one texel of weight 1. `size` is the number of texels along the axis, `mode` the
    addressing mode, and `offset` is added to texel indices."""
    u = clean(u)
    if mode in (HALF_BORDER, MIRROR_HALF_BORDER):
        extent = size.ffrom_int("d", False, "raw")
        end = either(linear, extent, extent - 1)  # without a filter, the largest number below it
        u = fp.magnitude(u) if mode == MIRROR_HALF_BORDER else u
        u = fp.choose([(u.slt(0), u.const(0)), (u > end, end)], u)
    start = either(linear, u.fsub(u.const(HALF), "raw"), u)
    first = start.fround("floor")
    index = integer(first) if offset is None else integer(first) + offset
    if linear is False:
        return [Tap(*address(index, size, mode))]
    fraction = either(linear, start.fsub(first, "raw"), u.const(0))
    weights = u.const(ONE).fsub(fraction, "raw"), fraction
    return [Tap(*address(index + k, size, mode), weight) for k, weight in enumerate(weights)]


# ---- samples ---------------------------------------------------------------------------------------------------------


Numbers = tuple[int, ...]
Floats = npt.NDArray[np.float64]
ONE = fp.power("d", 0)


@dataclass(frozen=True, slots=True)
class Request:
    """The contents of a sampling instruction's address registers; a value that the variant lacks is None.

    - `offsets`: the texel offsets of all axes in one 32-bit word
    - `bias`: the LOD bias, binary32
    - `reference`: the depth to compare with, binary32
    - `gradients`, `coordinates`: in texels, binary64
    - `last`: the LOD or its lower limit, binary32
    - `slice`: the number of the slice within the image"""

    offsets: Word | None
    bias: Word | None
    reference: Word | None
    gradients: list[list[Word]] | None
    coordinates: list[Word]
    last: Word | None
    slice: Word

    def offset(self, axis: int) -> Word | None:
        """Return the texel offset along an axis: the signed six bits at bit 8 * axis; None if there are no offsets."""
        return None if self.offsets is None else formats.signed(self.offsets[8 * axis + 5 : 8 * axis], 6)


def selectors(b: Builder, i: Insn) -> list[Word]:
    """Return the scalars of the T# and the S# that select the variant."""
    return [*resource.selectors(b, i), *resource.sampler_selectors(b, i)]


def resources(b: Builder, i: Insn, numbers: Numbers) -> tuple[Image, Sampler]:
    """Return the decoded image and sampler of an instruction; `numbers` are the values of its `selectors`."""
    return resource.image(b, i, numbers[:2]), resource.sampler(b, i, numbers[2:])


def request(b: Builder, i: Insn, found: Image, s: Sampler, variant: frozenset[str]) -> Request:
    """Read the address registers of a sampling instruction.

    `variant` has the parts of the mnemonic, such as "c" or "l", that name the values in the registers.
    """
    addresses = texel.Addresses(b, i)
    offsets = addresses.word() if "o" in variant else None
    bias = addresses.floats(1)[0] if "b" in variant else None
    reference = addresses.word() if "c" in variant else None
    sizes = (found.width, found.height, found.slices)[: found.dimensions]
    gradients = None
    if variant & {"d", "cd"}:
        gradients = [
            [scaled(s, wide(c), n) for c, n in zip(addresses.floats(len(sizes)), sizes, strict=True)] for _ in range(2)
        ]
    has_last = bool(variant & {"l", "cl"})
    body = addresses.floats(texel.coordinates(i, found) + has_last)
    last = body.pop() if has_last else None
    coordinates = []
    for c, n in zip(body, sizes, strict=False):
        u = wide(c)
        coordinates.append(scaled(s, u.fsub(u.const(ONE), "raw") if found.kind == CUBE else u, n))
    return Request(offsets, bias, reference, gradients, coordinates, last, slice_of(b, found, body))


def scaled(s: Sampler, u: Word, size: Word) -> Word:
    """Convert a coordinate to texels: multiply it by `size` if the sampler takes normalised coordinates."""
    return u if s.unnormalised else u.fmul(size.ffrom_int("d", False, "raw"), "raw")


def slice_of(b: Builder, found: Image, body: Sequence[Word]) -> Word:
    """Return the slice that the last coordinate selects, rounded and clamped to the image; 0 without slices.

    `body` has the coordinates as binary32."""
    if not found.is_array or len(body) <= found.dimensions:
        return b.const(32, 0)
    named = integer(clean(wide(body[found.dimensions])).fround("even"))
    if found.kind == CUBE:
        named = named.sra(3) * 6 + (named & 7).umin(5)
    return named.smax(0).smin((found.slices - 1).smax(0))


# ---- level of detail -------------------------------------------------------------------------------------------------
def is_linear(b: Builder, found: Image, s: Sampler, r: Request, variant: frozenset[str]) -> Lanes:
    """Return the set of lanes whose filter is linear; `variant` has the parts of the mnemonic.

    The magnifying filter applies to lanes whose LOD is at most 0, the minifying filter to the others."""
    if found.integer:
        return False
    if s.magnify == s.minify or "lz" in variant:
        return s.magnify
    if "l" in variant and r.last is not None:
        low = (r.last.slt(0) | fp.is_zero(r.last)) & (s.min_lod == 0) & (found.min_lod == 0)
        near = (low | (s.max_lod == 0)) & ~fp.is_nan(r.last)
    else:
        near = b.word(1, clamped_lod(found, s, lod(s, r)) <= 0)
    return near if s.magnify else ~near


def doubles(a: Word) -> Floats:
    """Return binary32 or binary64 words as NumPy numbers. Only engines that compute with NumPy support this."""
    if not isinstance(a.value, (int, np.ndarray)):
        raise BeyondModel("the JIT engine does not support LODs from gradients: use the reference engine")
    if a.width == 32:
        return formats.numbers(formats.lanes(a))
    return np.broadcast_to(np.asarray(a.value, np.uint64), 64).view(np.float64)


def quad_gradients(coordinates: list[Floats]) -> list[list[Floats]]:
    """Return the gradients of each coordinate within each quad (four lanes).

    They are the differences to the right neighbour and to the lower neighbour.
    """
    quads = [c.reshape(16, 4) for c in coordinates]
    return [[np.repeat(q[:, k] - q[:, 0], 4) for q in quads] for k in (1, 2)]


def lod(s: Sampler, r: Request) -> Floats:
    """Return the LOD of each lane, at least the instruction's LOD clamp if it has one.

    The LOD is log2 of the length of the longer gradient (a large negative number if both gradients are 0), plus
    the LOD biases of instruction and sampler."""
    if r.gradients is None:
        gradients = quad_gradients([doubles(clean(c)) for c in r.coordinates])
    else:
        gradients = [[doubles(clean(c)) for c in g] for g in r.gradients]
    lengths = [np.sqrt(sum(c * c for c in g)) for g in gradients]
    longest = np.asarray(np.log2(np.maximum(np.maximum(lengths[0], lengths[1]), 2.0**-126)))
    bias = 0.0 if r.bias is None else doubles(clean(wide(r.bias)))
    found = longest + bias + ((s.lod_bias.number ^ 0x2000) - 0x2000) / 256
    return found if r.last is None else np.maximum(found, doubles(r.last))


def clamped_lod(found: Image, s: Sampler, lod: Floats) -> Floats:
    """Return the LOD clamped to the limits of sampler and image."""
    least = max(s.min_lod.number, found.min_lod.number) / 256
    return np.asarray(np.minimum(np.maximum(lod, least), s.max_lod.number / 256))


# ---- texels ----------------------------------------------------------------------------------------------------------
def axes(b: Builder, found: Image, s: Sampler, r: Request, linear: Lanes) -> list[list[Tap]]:
    """Return the texels and weights (`Tap`) along x, y and z, one list for each axis."""
    sizes = (found.width, found.height, found.slices)
    found_taps = []
    for k, u in enumerate(r.coordinates[: found.dimensions]):
        smooth = s.depth_filter == 2 if k == 2 and s.depth_filter else linear
        # Faces of a cube do not continue each other: Choice gcn/cube-edges.
        mode = CLAMP if found.kind == CUBE else s.clamp[k]
        found_taps.append(taps(u, sizes[k], mode, smooth, r.offset(k)))
    while len(found_taps) < 2:
        found_taps.append([Tap(b.const(32, 0))])
    return found_taps if len(found_taps) == 3 else [*found_taps, [Tap(r.slice)]]


def joined(b: Builder, at: Sequence[Tap]) -> tuple[Word | None, Word | None]:
    """Combine the taps `at`, one per axis, to one texel.

    Return a flag that is 1 if the texel lies in the image, and the product of the weights. As in `Tap`, None
    stands for 1 in all lanes."""
    there, weight = None, None
    for tap in at:
        if tap.there is not None:
            there = tap.there if there is None else there & tap.there
        if tap.weight is not None:
            weight = tap.weight if weight is None else weight.fmul(tap.weight, "raw")
    return there, weight


def border(found: Image, s: Sampler) -> tuple[int, ...]:
    """Return the components of the border colour, before DST_SEL is applied."""
    one = formats.one(found.nfmt)
    return ((0, 0, 0, 0), (0, 0, 0, one), (one, one, one, one))[s.border]


def order(a: Word) -> Word:
    """Return floats as signed integers that compare like the floats; -0 becomes 0."""
    size = fp.magnitude(a)
    return a.slt(0).select(-size, size)


def passed(compare: int, reference: Word, value: Word) -> Word:
    """Return 1 if the depth `reference` passes the comparison with the texel `value`.

    The values of `compare`, from 0 on, are: never, less, equal, less or equal, greater, not equal, greater or equal,
    always.
    """
    a, b = order(reference), order(value)
    unordered = fp.is_nan(reference) | fp.is_nan(value)
    found = [a.slt(b), a == b, b.slt(a)]
    held = [relation for k, relation in enumerate(found) if compare >> k & 1]
    if compare == 0:
        return unordered & 0
    if compare == 7:
        return unordered | 1
    result = fp.either(*held)
    return result | unordered if compare == 5 else result & ~unordered


def corner(b: Builder, found: Image, s: Sampler, r: Request, at: tuple[Tap, ...], wanted: Word | None) -> list[Word]:
    """Return the components of one of the texels around the coordinates, in the order of DST_SEL.

    `at` has the tap of each axis. Only lanes of the mask `wanted` load the texel. If the sampler compares,
    component x of the texel is the result of the comparison."""
    x, y, z = (tap.index for tap in at)
    there, _ = joined(b, at)
    inside = texel.within(found, x, y, z)
    for each in (there, wanted):
        inside = inside if each is None else inside & each
    values = texel.components(b, found, x, y, z, inside)
    if there is not None:
        values = [there.select(v, colour) for v, colour in zip(values, border(found, s), strict=True)]
    if r.reference is not None:
        reference = r.reference
        if found.nfmt == formats.UNORM:
            one = reference.const(formats.ONE)
            limits = [(fp.is_nan(reference), reference), (reference.slt(0), one.const(0)), (reference > one, one)]
            reference = fp.choose(limits, reference)
        values[0] = passed(s.compare, reference, values[0]).select(formats.ONE, values[0].const(0))
    return texel.selected(found, values)


def blend(found: Image, s: Sampler, corners: Sequence[tuple[Word, Word]]) -> Word:
    """Return the filtered value of one component; `corners` are the (weight, value) pairs of its texels.

    In a lane with one texel of weight 1, the result is bit for bit the texel's value. Texels of weight 0 are
    ignored, because a texel may be an infinity or a NaN."""
    first = corners[0][0]
    is_any = found.nfmt == formats.FLOAT or found.integer
    values = [wide(value) if is_any else value.fconvert("d", "raw") for _, value in corners]
    if s.reduction:
        total = reduced(s, [(weight, value) for (weight, _), value in zip(corners, values, strict=True)])
    else:
        total = first.const(0)
        for (weight, _), value in zip(corners, values, strict=True):
            term = weight.fmul(value, "raw")
            total = total.fadd((weight != 0).select(term, 0) if is_any else term, "raw")
    return fp.choose([(weight == ONE, value) for weight, value in corners], narrow(total))


def reduced(s: Sampler, corners: Sequence[tuple[Word, Word]]) -> Word:
    """Return the minimum or maximum, as the sampler selects, of the texel values whose weight is above 0.

    It is a NaN if any such value is a NaN. `corners` are (weight, value) pairs."""
    first = corners[0][0]
    total = first.const((0, fp.infinity("d"), fp.infinity("d") | fp.sign_bit("d"), 0)[s.reduction])
    for weight, value in corners:
        a, b = (order(value), order(total)) if s.reduction == 1 else (order(total), order(value))
        better = (fp.is_nan(value) | a.slt(b)) & ~fp.is_nan(total)
        total = ((weight != 0) & better).select(value, total)
    return total


def sample(*variant: str) -> SpecialisedExecution:
    """Return the semantics of a sample instruction: vdata = the filtered components that dmask selects.

    `variant` has the parts of the mnemonic after image_sample, such as "c" or "l"."""
    kinds = frozenset(variant)

    def semantics(b: Builder, i: Insn, numbers: Numbers) -> None:
        found, s = resources(b, i, numbers)
        r = request(b, i, found, s, kinds)
        corners = []
        for at in product(*axes(b, found, s, r, is_linear(b, found, s, r, kinds))):
            _, weight = joined(b, at)
            if weight is None:
                values = corner(b, found, s, r, at, None)
                break
            corners.append((weight, corner(b, found, s, r, at, weight != 0)))
        else:
            values = [blend(found, s, [(weight, values[k]) for weight, values in corners]) for k in range(4)]
        texel.give(b, i, found.nfmt, texel.masked(i, values))

    return semantics


def gather(*variant: str) -> SpecialisedExecution:
    """Return the semantics of a gather: vdata = one component of four texels: (0,1), (1,1), (1,0), (0,0).

    The component is the lowest one that dmask selects; the texels are the four around the coordinates.
    `variant` has the parts of the mnemonic after image_gather4."""
    kinds = frozenset(variant)

    def semantics(b: Builder, i: Insn, numbers: Numbers) -> None:
        found, s = resources(b, i, numbers)
        if found.dimensions != 2 or found.kind == IMAGE_3D:
            raise BeyondModel(
                f"{i.name} of an image of {found.dimensions} dimensions is not modelled, expected 2 dimensions"
            )
        r = request(b, i, found, s, kinds)
        x, y, z = axes(b, found, s, r, True)
        component = (i["dmask"] & -i["dmask"]).bit_length() - 1 if i["dmask"] else 0
        order = ((0, 1), (1, 1), (1, 0), (0, 0))
        values = [corner(b, found, s, r, (x[h], y[v], z[0]), None)[component] for h, v in order]
        texel.give(b, i, found.nfmt, values)

    return semantics


def gather_row(b: Builder, i: Insn, numbers: Numbers) -> None:
    """Raise `BeyondModel` for image_gather4h: no manual describes which four texels of a row it returns."""
    raise BeyondModel(f"{i.name} is not modelled: the manuals do not say which texels of a row it takes")


def get_lod(b: Builder, i: Insn, numbers: Numbers) -> None:
    """Execute image_get_lod: vdata = the LOD clamped by the sampler, and the LOD before that, for each quad."""
    found, s = resources(b, i, numbers)
    free = lod(s, request(b, i, found, s, frozenset()))
    values = [b.word(32, formats.bits_of(each)) for each in (clamped_lod(found, s, free), free)]
    texel.give(b, i, formats.FLOAT, texel.masked(i, [*values, b.const(32, 0), b.const(32, 0)]))
