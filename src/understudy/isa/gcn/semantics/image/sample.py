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
import numpy.typing as npt

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn, ToldExecution
from understudy.isa.gcn.semantics import fp
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.semantics.image import resource, texel
from understudy.isa.gcn.semantics.image.filter import Lanes, Tap, clean, integer, narrow, taps, wide
from understudy.isa.gcn.semantics.image.resource import CLAMP, CUBE, IMAGE_3D, Image, Sampler
from understudy.isa.gcn.word import Word

Numbers = tuple[int, ...]
Floats = npt.NDArray[np.float64]
ONE = fp.power("d", 0)


@dataclass(frozen=True, slots=True)
class Request:
    """What the address registers of a sampling instruction say.

    Coordinates are binary64, in texels; `gradients` too, where the instruction has them; `bias`, `reference` and `last`
    (LOD or its limit) are binary32. `slice` is a number within the image, `offsets` has 32 bits.
    """

    offsets: Word | None
    bias: Word | None
    reference: Word | None
    gradients: list[list[Word]] | None
    coordinates: list[Word]
    last: Word | None
    slice: Word

    def offset(self, axis: int) -> Word | None:
        """The texel offset along an axis: six bits with a sign, at bits 0, 8 and 16."""
        return None if self.offsets is None else formats.signed(self.offsets[8 * axis + 5 : 8 * axis], 6)


def told(b: Builder, i: Insn) -> list[Word]:
    """Of image and sampler."""
    return [*resource.told(b, i), *resource.told_of_sampler(b, i)]


def resources(b: Builder, i: Insn, numbers: Numbers) -> tuple[Image, Sampler]:
    """Image and sampler of an instruction that was told these numbers."""
    return resource.image(b, i, numbers[:2]), resource.sampler(b, i, numbers[2:])


def request(b: Builder, i: Insn, found: Image, s: Sampler, variant: frozenset[str]) -> Request:
    """Read the address registers."""
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
    """A coordinate in texels."""
    return u if s.unnormalised else u.fmul(size.ffrom_int("d", False, "raw"), "raw")


def slice_of(b: Builder, found: Image, body: Sequence[Word]) -> Word:
    """The slice that the coordinate behind the others names, rounded to the nearest and clamped."""
    if not found.is_array or len(body) <= found.dimensions:
        return b.const(32, 0)
    named = integer(clean(wide(body[found.dimensions])).fround("even"))
    if found.kind == CUBE:
        named = named.sra(3) * 6 + (named & 7).umin(5)
    return named.smax(0).smin((found.slices - 1).smax(0))


# ---- level of detail -------------------------------------------------------------------------------------------------
def is_linear(b: Builder, found: Image, s: Sampler, r: Request, variant: frozenset[str]) -> Lanes:
    """Lanes whose filter is linear: the magnifying one up to a LOD of 0, else the minifying one."""
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
    """Binary32 or binary64 as numbers of NumPy, whose algebra has to compute with them."""
    if not isinstance(a.value, (int, np.ndarray)):
        raise BeyondModel("LODs by gradients in translated code")
    if a.width == 32:
        return formats.numbers(formats.lanes(a))
    return np.broadcast_to(np.asarray(a.value, np.uint64), 64).view(np.float64)


def quad_gradients(coordinates: list[Floats]) -> list[list[Floats]]:
    """Differences within each four lanes: to the right neighbour and to the lower one."""
    quads = [c.reshape(16, 4) for c in coordinates]
    return [[np.repeat(q[:, k] - q[:, 0], 4) for q in quads] for k in (1, 2)]


def lod(s: Sampler, r: Request) -> Floats:
    """log2 of the longer of two gradients, a very small number where both are 0; with the biases, and its limit."""
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
    """The LOD within the limits of sampler and image."""
    least = max(s.min_lod.number, found.min_lod.number) / 256
    return np.asarray(np.minimum(np.maximum(lod, least), s.max_lod.number / 256))


# ---- texels ----------------------------------------------------------------------------------------------------------
def axes(b: Builder, found: Image, s: Sampler, r: Request, linear: Lanes) -> list[list[Tap]]:
    """The taps along x, y and z."""
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
    """Whether the image has the texel of all axes, and its weight; None as of `Tap`."""
    there, weight = None, None
    for tap in at:
        if tap.there is not None:
            there = tap.there if there is None else there & tap.there
        if tap.weight is not None:
            weight = tap.weight if weight is None else weight.fmul(tap.weight, "raw")
    return there, weight


def border(found: Image, s: Sampler) -> tuple[int, ...]:
    """The border colour, before DST_SEL."""
    one = formats.one(found.nfmt)
    return ((0, 0, 0, 0), (0, 0, 0, one), (one, one, one, one))[s.border]


def order(a: Word) -> Word:
    """Floats as integers with a sign that sort like them, -0 as 0."""
    size = fp.magnitude(a)
    return a.slt(0).select(-size, size)


def passed(compare: int, reference: Word, value: Word) -> Word:
    """Depth comparison: never, less, equal, less or equal, greater, not equal, greater or equal, always."""
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
    """The components of one texel of each lane that `wanted` names: compared, if so asked, and in DST_SEL's order."""
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
    """The filtered value of a component, by the weights and values of its texels.

    A lane with one texel of weight 1 gets its very bits. What weighs nothing does not count, though it be infinite or
    no number, as bits of floats or integers may be; denormal they may be, too. Other formats give none of these.
    """
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
    """The least or the greatest of the values that weigh anything; none where one of these is no number."""
    first = corners[0][0]
    total = first.const((0, fp.infinity("d"), fp.infinity("d") | fp.sign_bit("d"), 0)[s.reduction])
    for weight, value in corners:
        a, b = (order(value), order(total)) if s.reduction == 1 else (order(total), order(value))
        better = (fp.is_nan(value) | a.slt(b)) & ~fp.is_nan(total)
        total = ((weight != 0) & better).select(value, total)
    return total


def sample(*variant: str) -> ToldExecution:
    """vdata = the filtered components that dmask names."""
    kinds = frozenset(variant)

    def meaning(b: Builder, i: Insn, numbers: Numbers) -> None:
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

    return meaning


def gather(*variant: str) -> ToldExecution:
    """vdata = one component, the lowest that dmask names, of the four texels around: (0,1), (1,1), (1,0), (0,0)."""
    kinds = frozenset(variant)

    def meaning(b: Builder, i: Insn, numbers: Numbers) -> None:
        found, s = resources(b, i, numbers)
        if found.dimensions != 2 or found.kind == IMAGE_3D:
            raise BeyondModel(f"{i.name} of an image of {found.dimensions} dimensions is not modelled: it must have 2")
        r = request(b, i, found, s, kinds)
        x, y, z = axes(b, found, s, r, True)
        component = (i["dmask"] & -i["dmask"]).bit_length() - 1 if i["dmask"] else 0
        order = ((0, 1), (1, 1), (1, 0), (0, 0))
        values = [corner(b, found, s, r, (x[h], y[v], z[0]), None)[component] for h, v in order]
        texel.give(b, i, found.nfmt, values)

    return meaning


def gather_row(b: Builder, i: Insn, numbers: Numbers) -> None:
    """image_gather4h: no manual says which four texels of a row."""
    raise BeyondModel(f"{i.name} is not modelled: the manuals do not say which texels of a row it takes")


def get_lod(b: Builder, i: Insn, numbers: Numbers) -> None:
    """vdata = the LOD of the quad's coordinates within the sampler's limits, and as it is."""
    found, s = resources(b, i, numbers)
    free = lod(s, request(b, i, found, s, frozenset()))
    values = [b.word(32, formats.bits_of(each)) for each in (clamped_lod(found, s, free), free)]
    texel.give(b, i, formats.FLOAT, texel.masked(i, [*values, b.const(32, 0), b.const(32, 0)]))
