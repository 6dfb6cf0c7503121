"""Semantics of image operations without a sampler: loads, stores, atomics, sizes."""

from __future__ import annotations

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Insn, SpecialisedExecution
from softcard.isa.gcn.semantics import memory_formats as formats
from softcard.isa.gcn.semantics.access import set_vregs, takes_compare, vreg, vregs, words
from softcard.isa.gcn.semantics.image import texel
from softcard.isa.gcn.semantics.image.resource import CUBE, IMAGE_3D, Image, image
from softcard.isa.gcn.word import Word

Numbers = tuple[int, ...]


def position(b: Builder, i: Insn, found: Image, *, mip: bool) -> tuple[Word, Word, Word, Word]:
    """Return the three integer coordinates of an instruction, and the mask of lanes within the image `found`.

    If `mip` is True, the instruction has a further coordinate, the mip level. Lanes whose level is not 0 are
    outside of the image."""
    count = texel.coordinates(i, found)
    zero = b.const(32, 0)
    *coordinates, level = texel.Addresses(b, i).group(count + mip) + [zero] * (not mip)
    x, y, z = [*coordinates, zero, zero][:3]
    if found.dimensions == 1:
        x, y, z = x, zero, y
    if not found.is_array and found.kind != IMAGE_3D:
        z = zero
    inside = texel.within(found, x, y, z)
    return x, y, z, inside & (level == 0) if mip else inside


def load(*, mip: bool) -> SpecialisedExecution:
    """Return the semantics of an image load: vdata = the components of the texel that dmask selects.

    If `mip` is True, the address includes a mip level."""

    def semantics(b: Builder, i: Insn, selectors: Numbers) -> None:
        found = image(b, i, selectors)
        x, y, z, inside = position(b, i, found, mip=mip)
        values = texel.selected(found, texel.components(b, found, x, y, z, inside))
        texel.give(b, i, found.nfmt, texel.masked(i, values))

    return semantics


def load_raw(*, mip: bool, signed: bool = False) -> SpecialisedExecution:
    """Return the semantics of an unconverted image load: vdata = the dwords of the texel that dmask selects.

    If `signed` is True, each dword is sign-extended from the component's width. If `mip` is True, the address
    includes a mip level."""

    def semantics(b: Builder, i: Insn, selectors: Numbers) -> None:
        found = image(b, i, selectors)
        x, y, z, inside = position(b, i, found, mip=mip)
        values = [b.const(32, 0)] * 4
        if found.dfmt:
            dwords = texel.raw(b, found, texel.places(found, x, y, z), inside)
            width = formats.widths(found.dfmt, image=True)[0]
            if signed and width < 32:
                dwords = [formats.signed(v[width - 1 : 0], width) for v in dwords]
            values[: len(dwords)] = [inside.select(v, 0) for v in dwords]
        texel.give(b, i, formats.UINT, texel.masked(i, values))

    return semantics


def store(*, mip: bool) -> SpecialisedExecution:
    """Return the semantics of an image store: the components of the texel that dmask selects = vdata.

    The other components become 0. If `mip` is True, the address includes a mip level."""

    def semantics(b: Builder, i: Insn, selectors: Numbers) -> None:
        found = image(b, i, selectors)
        x, y, z, inside = position(b, i, found, mip=mip)
        if not found.dfmt:
            return
        given = iter(texel.taken(b, i, found.nfmt, i["dmask"].bit_count()))
        zero = b.const(32, 0)
        sent = [next(given) if i["dmask"] >> k & 1 else zero for k in range(4)]
        by_source = dict(reversed([(s, v) for s, v in zip(found.select, sent, strict=True) if s >= 4]))
        parts = [by_source.get(4 + k, zero) for k in range(4)]
        dwords = formats.write(found.dfmt, found.nfmt, parts, image=True)
        texel.put(b, found, texel.places(found, x, y, z), dwords, inside)

    return semantics


def store_raw(*, mip: bool) -> SpecialisedExecution:
    """Return the semantics of an unconverted image store: the texel's dwords that dmask selects = vdata.

    The other dwords become 0. If `mip` is True, the address includes a mip level."""

    def semantics(b: Builder, i: Insn, selectors: Numbers) -> None:
        found = image(b, i, selectors)
        x, y, z, inside = position(b, i, found, mip=mip)
        if not found.dfmt:
            return
        given = iter(vregs(b, i["vdata"], i["dmask"].bit_count()))
        count = max(found.element_bytes // 4, 1)
        dwords = [next(given) if i["dmask"] >> k & 1 else b.const(32, 0) for k in range(count)]
        texel.put(b, found, texel.places(found, x, y, z), dwords, inside)

    return semantics


def atomic(kind: str) -> SpecialisedExecution:
    """Return the semantics of an image atomic: texel = kind(texel, vdata).

    With glc, vdata = the old value. The width is 32 or 64 bits, according to the number of registers that dmask
    selects.
    """

    def semantics(b: Builder, i: Insn, selectors: Numbers) -> None:
        found = image(b, i, selectors)
        x, y, z, inside = position(b, i, found, mip=False)
        width = 64 if i["dmask"].bit_count() >= (4 if takes_compare(kind) else 2) else 32
        if found.element_bytes < width // 8:
            inside = inside & 0
        at = texel.places(found, x, y, z) & -width // 8
        v = vreg(b, i["vdata"], width)
        compare = vreg(b, i["vdata"] + width // 32, width) if takes_compare(kind) else None
        old = b.atomic("global", kind, width, at, v, compare, inside)
        if i["glc"]:
            set_vregs(b, i["vdata"], words(inside.select(old, 0)))

    return semantics


def resinfo(b: Builder, i: Insn, selectors: Numbers) -> None:
    """Execute image_get_resinfo: vdata = width, height, depth (or slices), mip levels.

    The sizes are 0 if vaddr selects a mip level that does not exist.
    """
    found = image(b, i, selectors)
    level = texel.Addresses(b, i).group(1)[0]
    slices = found.slices * 43691 >> 18 if found.kind == CUBE else found.slices  # a sixth, of up to 16 bits
    one = b.const(32, 1)
    sizes = [found.width, found.height, slices if found.is_array or found.kind == IMAGE_3D else one]
    if found.dimensions == 1:
        sizes = [found.width, slices if found.is_array else one, one]
    texel.give(b, i, formats.UINT, texel.masked(i, [*((level == 0).select(size, 0) for size in sizes), one]))
