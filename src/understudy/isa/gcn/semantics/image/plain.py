"""Image operations without a sampler: loads, stores, atomics, sizes."""

from __future__ import annotations

import numpy as np

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Execution, Insn
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.semantics.access import set_vregs, takes_compare, vreg, vregs, words
from understudy.isa.gcn.semantics.image import texel
from understudy.isa.gcn.semantics.image.resource import CUBE, IMAGE_3D, Image, image
from understudy.isa.gcn.semantics.memory_formats import Lanes


def position(b: Builder, i: Insn, found: Image, *, mip: bool) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """Integer coordinates of an instruction and the lanes within the image; levels other than 0 are outside."""
    count = texel.coordinates(i, found)
    zero = np.zeros(64, np.int64)
    *coordinates, level = [c.astype(np.int64) for c in texel.Addresses(b, i).group(count + mip)] + [zero] * (not mip)
    x, y, z = [*coordinates, zero, zero][:3]
    if found.dimensions == 1:
        x, y, z = x, zero, y
    if not found.is_array and found.kind != IMAGE_3D:
        z = zero
    return x, y, z, texel.within(found, x, y, z) & (level == 0)


def load(*, mip: bool) -> Execution:
    """vdata = the components of the texel that dmask names."""

    def meaning(b: Builder, i: Insn) -> None:
        found = image(b, i)
        x, y, z, inside = position(b, i, found, mip=mip)
        values = texel.selected(found, texel.components(b, found, x, y, z, inside))
        texel.give(b, i, found.nfmt, texel.masked(i, values))

    return meaning


def load_raw(*, mip: bool, signed: bool = False) -> Execution:
    """vdata = the texel's dwords that dmask names, not converted; `signed`: extended from the component's width."""

    def meaning(b: Builder, i: Insn) -> None:
        found = image(b, i)
        x, y, z, inside = position(b, i, found, mip=mip)
        values = [np.zeros(64, np.uint32)] * 4
        if found.dfmt:
            dwords = texel.raw(b, found, texel.places(found, x, y, z), inside)
            width = formats.widths(found.dfmt, image=True)[0]
            if signed and width < 32:
                dwords = [formats.signed(v[width - 1 : 0], width) for v in dwords]
            values[: len(dwords)] = [np.where(inside, formats.lanes(v), np.uint32(0)) for v in dwords]
        texel.give(b, i, formats.UINT, texel.masked(i, values))

    return meaning


def store(*, mip: bool) -> Execution:
    """The texel = the components of vdata that dmask names; the others become 0."""

    def meaning(b: Builder, i: Insn) -> None:
        found = image(b, i)
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

    return meaning


def store_raw(*, mip: bool) -> Execution:
    """The texel's dwords = vdata, not converted."""

    def meaning(b: Builder, i: Insn) -> None:
        found = image(b, i)
        x, y, z, inside = position(b, i, found, mip=mip)
        if not found.dfmt:
            return
        given = iter(vregs(b, i["vdata"], i["dmask"].bit_count()))
        count = max(found.element_bytes // 4, 1)
        dwords = [next(given) if i["dmask"] >> k & 1 else b.const(32, 0) for k in range(count)]
        texel.put(b, found, texel.places(found, x, y, z), dwords, inside)

    return meaning


def atomic(kind: str) -> Execution:
    """texel = kind(texel, vdata), 32 or 64 bits wide as dmask counts registers; with glc vdata = what it held."""

    def meaning(b: Builder, i: Insn) -> None:
        found = image(b, i)
        x, y, z, inside = position(b, i, found, mip=False)
        width = 64 if i["dmask"].bit_count() >= (4 if takes_compare(kind) else 2) else 32
        if found.element_bytes < width // 8:
            inside = np.zeros(64, bool)
        at = b.word(64, texel.places(found, x, y, z)) & -width // 8
        v = vreg(b, i["vdata"], width)
        compare = vreg(b, i["vdata"] + width // 32, width) if takes_compare(kind) else None
        where = b.word(1, inside)
        old = b.atomic("global", kind, width, at, v, compare, where)
        if i["glc"]:
            set_vregs(b, i["vdata"], words(where.select(old, 0)))

    return meaning


def resinfo(b: Builder, i: Insn) -> None:
    """vdata = width, height, depth (or slices), mip levels; the sizes are 0 where vaddr names a level not there."""
    found = image(b, i)
    level = texel.Addresses(b, i).group(1)[0]
    slices = found.slices // 6 if found.kind == CUBE else found.slices
    sizes = [found.width, found.height, slices if found.is_array or found.kind == IMAGE_3D else 1]
    if found.dimensions == 1:
        sizes = [found.width, slices if found.is_array else 1, 1]
    values = [np.where(level == 0, np.uint32(size), np.uint32(0)).astype(np.uint32) for size in sizes]
    texel.give(b, i, formats.UINT, texel.masked(i, [*values, np.ones(64, np.uint32)]))
