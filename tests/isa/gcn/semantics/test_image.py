"""Image loads, stores, atomics and sizes against an oracle that goes from texel to texel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.insn import Insn
from tests.isa.gcn.semantics import format_oracle as formats
from tests.isa.gcn.semantics.image_oracle import Image
from tests.isa.gcn.semantics.memory_rig import FULL, GPUS, Model, Rig, mnemonics
from tests.isa.gcn.semantics.test_flat import ATOMIC

RSRC = 40
KINDS = (
    Image(),
    Image("1D"),
    Image("3D", depth=4, width=5, height=3, pitch=8),
    Image("1D array", depth=5, first=1),
    Image("2D array", depth=3, first=2, width=7, height=4, pitch=7),
    Image("cube", depth=6, width=4, height=4, pitch=4),
)
LEVEL = {"gfx700": 7, "gfx803": 8, "gfx900": 9}


def prepared(gpu: str, image: Image, seed: int, vaddr: int = 2) -> Rig:
    """A rig with the image and random coordinates, some of them outside."""
    rig = Rig(gpu, seed)
    rig.set_s(RSRC, *image.words(LEVEL[gpu]))
    for k, size in enumerate((image.width, image.height, image.depth)):
        rig.set_v(vaddr + k, rig.random(0, size + 1))
    if image.dimensions == 1:
        rig.set_v(vaddr + 1, rig.random(0, image.depth + 1))
    rig.wave.vgpr[vaddr, 5] = 0xFFFF_FFFF
    return rig


def position(m: Model, insn: Insn, image: Image, lane: int) -> tuple[int, int, int]:
    x, y, z = (m.v[insn["vaddr"] + k][lane] for k in range(3))
    if image.dimensions == 1:
        return x, 0, y if image.kind == "1D array" and insn["da"] else 0
    sliced = image.kind == "3D" or (image.kind in ("2D array", "cube") and (insn["da"] or image.kind == "cube"))
    return x, y, z if sliced else 0


def masked(values: list[int], dmask: int) -> list[int]:
    return [v for k, v in enumerate(values) if dmask >> k & 1]


@pytest.mark.parametrize("image", KINDS, ids=lambda image: image.kind)
@pytest.mark.parametrize("gpu", GPUS)
def test_loads_from_every_kind_of_image(gpu: str, image: Image) -> None:
    for dmask in (1, 15, 10, 7):
        for da in (0, 1):
            rig = prepared(gpu, image, dmask)
            fields = {"vaddr": 2, "vdata": 3, "srsrc": RSRC, "dmask": dmask, "unorm": 1, "da": da}
            expected, insn = rig.model(), rig.insn("mimg", "image_load", **fields)
            found = {
                n: image.selected(image.texel(expected, *position(expected, insn, image, n))) for n in expected.lanes
            }
            for lane, values in found.items():
                for k, v in enumerate(masked(values, dmask)):
                    expected.v[3 + k][lane] = v
            rig.run("mimg", "image_load", **fields)
            rig.check(expected)


FORMATS = [
    (dfmt, nfmt)
    for dfmt in formats.LAYOUTS
    for nfmt in (0, 1, 2, 3, 4, 5, 7, 9)
    if all(formats.read(w, nfmt, 0) is not None for w in formats.LAYOUTS[dfmt])
]


def test_loads_of_every_format() -> None:
    for seed, (dfmt, nfmt) in enumerate(FORMATS):
        gpu = GPUS[seed % 3]
        image = Image(dfmt=dfmt, nfmt=nfmt, select=((4, 5, 6, 7), (6, 5, 4, 7), (4, 0, 0, 1), (7, 4, 5, 6))[seed % 4])
        rig = prepared(gpu, image, seed)
        fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "dmask": 15, "unorm": 1}
        expected, insn = rig.model(), rig.insn("mimg", "image_load", **fields)
        for lane in expected.lanes:
            values = image.selected(image.texel(expected, *position(expected, insn, image, lane)))
            expected.set_wide(8, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
        rig.run("mimg", "image_load", **fields)
        rig.check(expected)


def writable(dfmt: int, nfmt: int) -> bool:
    return nfmt != 9 and all(formats.write(w, nfmt, 0) is not None for w in formats.LAYOUTS[dfmt])


@pytest.mark.parametrize("image", KINDS, ids=lambda image: image.kind)
def test_stores(image: Image) -> None:
    hard = [[0, 0x3F80_0000, 0x3F00_0000, 0xBF80_0000, 0x3E99_999A], [0, 1, 0xFF, 0x100, 0xFFFF_FFFF, 0xFFFF_FF00]]
    for seed, (dfmt, nfmt) in enumerate(pair for pair in FORMATS if writable(*pair)):
        gpu = GPUS[seed % 3]
        made = replace(image, dfmt=dfmt, nfmt=nfmt, select=((4, 5, 6, 7), (6, 5, 4, 7), (4, 0, 0, 1))[seed % 3])
        dmask = (15, 1, 6)[seed % 3]
        rig = prepared(gpu, made, seed)
        for k in range(4):
            rig.set_v(8 + k, rig.rng.choice(hard[nfmt in formats.INTEGERS], 64))
        fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "dmask": dmask, "unorm": 1, "da": 1}
        expected, insn = rig.model(), rig.insn("mimg", "image_store", **fields)
        for lane in expected.lanes:
            store(expected, insn, made, lane, dmask)
        rig.run("mimg", "image_store", **fields)
        rig.check(expected)


def store(m: Model, insn: Insn, image: Image, lane: int, dmask: int) -> None:
    at = position(m, insn, image, lane)
    if not image.inside(*at):
        return
    given = iter(m.v[8 + k][lane] for k in range(4))
    sent = [next(given) if dmask >> k & 1 else 0 for k in range(4)]
    element, low = 0, 0
    for k, width in enumerate(formats.LAYOUTS[image.dfmt]):
        sources = [v for s, v in zip(image.select, sent, strict=True) if s == 4 + k]
        part = formats.write(width, image.nfmt, sources[0] if sources else 0)
        assert part is not None
        element |= part << low
        low += width
    m.poke("global", image.at(*at), image.size, element)


@pytest.mark.parametrize("verb", ["load", "store"])
@pytest.mark.parametrize("gpu", GPUS)
def test_levels_other_than_0_are_outside(gpu: str, verb: str) -> None:
    image = Image()
    rig = prepared(gpu, image, 3)
    rig.set_v(4, np.arange(64) % 2)
    fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "dmask": 15, "unorm": 1}
    expected, insn = rig.model(), rig.insn("mimg", f"image_{verb}_mip", **fields)
    for lane in expected.lanes:
        at = (1000, 0, 0) if lane % 2 else position(expected, insn, image, lane)
        if verb == "load":
            values = image.selected(image.texel(expected, *at))
            expected.set_wide(8, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
        elif image.inside(*at):
            store(expected, insn, image, lane, 15)
    if verb == "store":
        for k in range(4):
            rig.wave.vgpr[8 + k] &= 0x3F7F_FFFF
        expected = rig.model()
        for lane in expected.lanes:
            if lane % 2 == 0:
                store(expected, insn, image, lane, 15)
    rig.run("mimg", f"image_{verb}_mip", **fields)
    rig.check(expected)


@pytest.mark.parametrize("mip", ["", "_mip"])
@pytest.mark.parametrize("dfmt", [1, 2, 3, 10, 11, 12, 14])
def test_raw_loads_and_stores(dfmt: int, mip: str) -> None:
    image = Image(dfmt=dfmt, nfmt=0)
    count = max(image.size // 4, 1)
    for name in (f"image_load{mip}_pck", f"image_load{mip}_pck_sgn", f"image_store{mip}_pck"):
        rig = prepared("gfx803", image, dfmt)
        rig.set_v(4, 0 * np.arange(64))
        fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "dmask": 15, "unorm": 1}
        expected, insn = rig.model(), rig.insn("mimg", name, **fields)
        for lane in expected.lanes:
            at = position(expected, insn, image, lane)
            if "store" in name:
                if image.inside(*at):
                    value = expected.wide(8, lane, count)
                    expected.poke("global", image.at(*at), image.size, value)
                continue
            element = expected.peek("global", image.at(*at), image.size) if image.inside(*at) else 0
            words = [element >> 32 * k & 0xFFFF_FFFF for k in range(4)]
            width = formats.LAYOUTS[dfmt][0]
            if "sgn" in name and width < 32:
                words[:count] = [formats.signed(width, w & (1 << width) - 1) & 0xFFFF_FFFF for w in words[:count]]
            expected.set_wide(8, lane, 4, sum(w << 32 * k for k, w in enumerate(words)))
        rig.run("mimg", name, **fields)
        rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
def test_atomics(gpu: str) -> None:
    kinds = ATOMIC | {"rsub": lambda w, m, d, c: d - m}
    for seed, name in enumerate(mnemonics("mimg", gpu, "atomic")):
        kind = name.split("atomic_")[1]
        for wide in (0, 1):
            image = Image(dfmt=11 if wide else 4, nfmt=4)
            rig = prepared(gpu, image, seed)
            if kind.startswith("f"):
                rig.ram[3::4] &= 0x3F
                for k in range(4):
                    rig.wave.vgpr[8 + k] &= 0x3FFF_FFFF
            n = 1 + wide
            dmask = (1 << n * (2 if "cmpswap" in kind else 1)) - 1
            fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "dmask": dmask, "unorm": 1, "glc": seed % 2}
            expected, insn = rig.model(), rig.insn("mimg", name, **fields)
            for lane in expected.lanes:
                at = position(expected, insn, image, lane)
                held = expected.peek("global", image.at(*at), 4 * n) if image.inside(*at) else 0
                data, second = expected.wide(8, lane, n), expected.wide(8 + n, lane, n)
                if image.inside(*at):
                    expected.poke("global", image.at(*at), 4 * n, kinds[kind](32 * n, held, data, second))
                if seed % 2:
                    expected.set_wide(8, lane, n, held)
            rig.run("mimg", name, **fields)
            rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
def test_sizes(gpu: str) -> None:
    wanted = {
        "2D": (9, 6, 1), "1D": (9, 1, 1), "3D": (5, 3, 4),
        "1D array": (9, 5, 1), "2D array": (7, 4, 3), "cube": (4, 4, 1),
    }  # fmt: skip
    for image in KINDS:
        rig = prepared(gpu, image, 1)
        rig.set_v(2, np.arange(64) % 2)
        expected = rig.model()
        for lane in expected.lanes:
            values = [0, 0, 0, 1] if lane % 2 else [*wanted[image.kind], 1]
            expected.set_wide(8, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
        rig.run("mimg", "image_get_resinfo", vaddr=2, vdata=8, srsrc=RSRC, dmask=15)
        rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS[1:])
@pytest.mark.parametrize("verb", ["load", "store"])
def test_16_bit_data(gpu: str, verb: str) -> None:
    image = Image(dfmt=12, nfmt=7)
    rig = prepared(gpu, image, 3)
    rig.ram[1::2] &= 0x3B
    fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "dmask": 7, "unorm": 1, "d16": 1}
    expected, insn = rig.model(), rig.insn("mimg", f"image_{verb}", **fields)
    for lane in expected.lanes:
        at = position(expected, insn, image, lane)
        if verb == "load":
            halves = [formats.to_half(v) for v in image.texel(expected, *at)[:3]]
            values = [halves[0] | halves[1] << 16, halves[2]] if gpu == "gfx900" else halves
            expected.set_wide(8, lane, len(values), sum(v << 32 * k for k, v in enumerate(values)))
        elif image.inside(*at):
            low = [expected.v[8 + k][lane] for k in range(3)]
            halves = [low[0] & 0xFFFF, low[0] >> 16, low[1] & 0xFFFF] if gpu == "gfx900" else [v & 0xFFFF for v in low]
            halves = [h | 0x200 if h & 0x7C00 == 0x7C00 and h & 0x3FF else h for h in halves]
            expected.poke("global", image.at(*at), 8, sum(h << 16 * k for k, h in enumerate(halves)))
    rig.run("mimg", f"image_{verb}", **fields)
    rig.check(expected)


def test_16_bit_addresses() -> None:
    image = Image("2D array", depth=3)
    rig = prepared("gfx900", image, 3)
    x, y, z = rig.random(0, 10), rig.random(0, 7), rig.random(0, 4)
    rig.set_v(2, x | y << 16)
    rig.set_v(3, z | 0xABCD_0000)
    expected = rig.model()
    for lane in expected.lanes:
        expected.v[8][lane] = image.texel(expected, int(x[lane]), int(y[lane]), int(z[lane]))[2]
    rig.run("mimg", "image_load", vaddr=2, vdata=8, srsrc=RSRC, dmask=4, unorm=1, da=1, r128=1)
    rig.check(expected)


@pytest.mark.parametrize(("dfmt", "pitch"), [(10, 64), (1, 256), (14, 64)])
def test_short_resources_have_a_pitch_of_64_texels_or_256_bytes(dfmt: int, pitch: int) -> None:
    image = Image(width=11, height=3, pitch=pitch, dfmt=dfmt, nfmt=4)
    rig = prepared("gfx803", image, 3)
    rig.set_s(RSRC, *image.words(8)[:4], 0xFFFF_FFFF, 0xFFFF_FFFF)
    expected = rig.model()
    for lane in expected.lanes:
        expected.v[8][lane] = image.texel(expected, expected.v[2][lane], expected.v[3][lane], 0)[0]
    rig.run("mimg", "image_load", vaddr=2, vdata=8, srsrc=RSRC, dmask=1, unorm=1, r128=1)
    rig.check(expected)


@pytest.mark.parametrize("flag", ["tfe", "lwe"])
def test_tfe_writes_a_zero_behind_the_data(flag: str) -> None:
    image = Image()
    rig = prepared("gfx803", image, 3)
    expected, insn = rig.model(), rig.insn("mimg", "image_load", vaddr=2)
    for lane in expected.lanes:
        expected.v[8][lane], expected.v[9][lane] = image.texel(expected, *position(expected, insn, image, lane))[0], 0
    rig.run("mimg", "image_load", **{"vaddr": 2, "vdata": 8, "srsrc": RSRC, "dmask": 1, "unorm": 1, flag: 1})
    rig.check(expected)


def test_the_format_of_nothing() -> None:
    image = Image(dfmt=0, nfmt=0)
    rig = prepared("gfx803", image, 3)
    expected = rig.model()
    for name in ("image_store", "image_store_pck", "image_atomic_add"):
        rig.run("mimg", name, vaddr=2, vdata=8, srsrc=RSRC, dmask=15, unorm=1)
    for lane in expected.lanes:
        expected.set_wide(8, lane, 4, 0)
    rig.run("mimg", "image_load", vaddr=2, vdata=8, srsrc=RSRC, dmask=15, unorm=1)
    rig.check(expected)


@pytest.mark.parametrize(
    ("gpu", "image", "text"),
    [
        ("gfx803", Image(mode=13), "tiling index 13 of the image is not modelled, only 8 \\(linear\\) is"),
        ("gfx900", Image(mode=8), "swizzle mode 8 of the image is not modelled, only 0 \\(linear\\) is"),
        ("gfx700", Image(levels=(0, 3)), "mip levels 0 to 3 of the image are not modelled"),
        ("gfx700", Image(dfmt=35), "data format 35 of images is not modelled"),
        ("gfx700", Image(nfmt=12), r"number format 12 \(reserved\) of 8-bit components is not modelled"),
    ],
)
def test_what_is_not_modelled_says_so(gpu: str, image: Image, text: str) -> None:
    rig = Rig(gpu, 1, FULL)
    rig.set_s(RSRC, *image.words(LEVEL[gpu]))
    with pytest.raises(BeyondModel, match=text):
        rig.run("mimg", "image_load", vaddr=2, vdata=8, srsrc=RSRC, dmask=1, unorm=1)


def test_other_resource_types_are_not_modelled() -> None:
    rig = Rig("gfx803", 1)
    rig.set_s(RSRC + 3, 0xE000_0000)
    with pytest.raises(BeyondModel, match="resource type 14 is not modelled, expected 8 to 13"):
        rig.run("mimg", "image_load", vaddr=2, vdata=8, srsrc=RSRC, dmask=1, unorm=1)


def test_inactive_lanes_reach_nothing() -> None:
    rig = Rig("gfx803", 3, exec_mask=0)
    rig.set_s(RSRC, *Image().words(8))
    rig.set_s(RSRC, 0xFF)
    rig.set_s(48, 0, 0, 0, 0)
    expected = rig.model()
    for name in mnemonics("mimg", "gfx803"):
        rig.run("mimg", name, vaddr=2, vdata=8, srsrc=RSRC, ssamp=48, dmask=15, unorm=1, glc=1)
    rig.check(expected)
