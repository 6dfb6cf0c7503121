"""Sampling against an exact model: all addressing modes, both filters, borders, offsets, comparisons, gathers, LODs."""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from tests.isa.gcn.semantics.image_oracle import ONE, Image, Sampler, fetch, sample, taps
from tests.isa.gcn.semantics.memory_rig import FULL, GPUS, Model, Rig, mnemonics
from tests.isa.gcn.semantics.test_image import LEVEL

RSRC, SSAMP = 40, 48
IMAGES = (
    Image(),
    Image("1D", width=5),
    Image("3D", depth=4, width=5, height=3, pitch=8),
    Image("1D array", depth=5, first=1),
    Image("2D array", depth=3, first=2, width=7, height=4, pitch=7),
)
FIELDS = {"vaddr": 2, "vdata": 20, "srsrc": RSRC, "ssamp": SSAMP, "dmask": 15}


def bits(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def prepared(gpu: str, image: Image, s: Sampler, seed: int) -> Rig:
    rig = Rig(gpu, seed)
    rig.set_s(RSRC, *image.words(LEVEL[gpu]))
    rig.set_s(SSAMP, *s.words())
    return rig


def put(rig: Rig, register: int, values: list[Fraction]) -> None:
    """Numbers as floats in a register."""
    rig.wave.vgpr[register] = np.array([bits(float(v)) for v in values], np.uint32)


def coordinates(rig: Rig, image: Image, unnormalised: bool) -> list[list[Fraction]]:
    """Random coordinates, in multiples of a 64th of a texel, inside and outside, some in the middle of texels."""
    sizes = (image.width, image.height, image.depth)
    found = []
    for size in sizes[: image.dimensions]:
        # Only sizes that are powers of two keep normalised coordinates short; others are rounded to float first.
        texels = [Fraction(int(n), 64) for n in rig.rng.integers(-64 * 2 * size, 64 * 3 * size, 64)]
        texels[::7] = [Fraction(math.floor(t)) + Fraction(1, 2) for t in texels[::7]]
        found.append(texels if unnormalised else [Fraction(np.float32(float(t / size)).item()) for t in texels])
    return found


def close(rig: Rig, expected: Model) -> None:
    """Filtered values may differ in the last place from the exact sum; everything else is equal."""
    for lane in expected.lanes:
        for k in range(4):
            mine, theirs = int(rig.wave.vgpr[20 + k, lane]), expected.v[20 + k][lane]
            if mine != theirs:
                a, b = (struct.unpack("<f", n.to_bytes(4, "little"))[0] for n in (mine, theirs))
                assert abs(a - b) <= 2**-23 * max(abs(a), abs(b)), (lane, k, hex(mine), hex(theirs))
                expected.v[20 + k][lane] = mine
    rig.check(expected)


def run(rig: Rig, name: str, image: Image, s: Sampler, linear: bool, at: list[list[Fraction]], **extra: int) -> None:
    """Put the coordinates after the preceding address registers, execute, compare."""
    first = extra.pop("first", 2)
    slices = [0] * 64
    for k, axis in enumerate(at):
        put(rig, first + k, axis)
    fields = FIELDS | {"unorm": s.unnormalised} | extra
    if "array" in image.kind:
        fields["da"] = 1
        named = [Fraction(int(n), 4) for n in rig.rng.integers(-4, 4 * image.depth + 8, 64)]
        put(rig, first + len(at), named)
        slices = [round(n) for n in named]
    expected = rig.model()
    for lane in expected.lanes:
        values = sample(expected, image, s, [axis[lane] for axis in at], slices[lane], linear=linear)
        expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
    rig.run("mimg", name, **fields)
    close(rig, expected)


@pytest.mark.parametrize("linear", [False, True], ids=["point", "linear"])
@pytest.mark.parametrize("mode", range(8))
@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.kind)
def test_addressing_modes_and_filters(image: Image, mode: int, linear: bool) -> None:
    for unnormalised in (0, 1):
        s = Sampler((mode, mode, mode), magnify=linear, minify=linear, unnormalised=unnormalised, border=mode % 3)
        rig = prepared(GPUS[(mode + linear) % 3], image, s, mode)
        run(rig, "image_sample_lz", image, s, linear, coordinates(rig, image, bool(unnormalised)))


@pytest.mark.parametrize("gpu", GPUS)
def test_each_axis_has_its_own_mode(gpu: str) -> None:
    image = Image("3D", depth=4, width=8, height=4, pitch=8)
    for seed, modes in enumerate(((0, 2, 6), (6, 1, 3), (3, 7, 4))):
        s = Sampler((modes[0], modes[1], modes[2]), magnify=1, border=2)
        rig = prepared(gpu, image, s, seed)
        run(rig, "image_sample_lz", image, s, True, coordinates(rig, image, False))


@pytest.mark.parametrize("nfmt", [0, 1, 4, 5, 7, 9])
def test_formats(nfmt: int) -> None:
    """Linear filters leave integers alone."""
    image = Image(dfmt=12 if nfmt == 7 else 10, nfmt=nfmt, select=(6, 5, 4, 1))
    s = Sampler((6, 6, 6), magnify=1, minify=1, border=2)
    rig = prepared("gfx900", image, s, nfmt)
    if nfmt == 7:
        rig.ram[1::2] &= 0xBB
    run(rig, "image_sample_lz", image, s, nfmt not in (4, 5), coordinates(rig, image, False))


@pytest.mark.parametrize("depth_filter", [0, 1, 2])
@pytest.mark.parametrize("linear", [False, True])
def test_depth_has_a_filter_of_its_own(depth_filter: int, linear: bool) -> None:
    image = Image("3D", depth=4, width=8, height=4, pitch=8)
    s = Sampler((2, 2, 2), magnify=linear, depth_filter=depth_filter)
    rig = prepared("gfx803", image, s, 1)
    run(rig, "image_sample_lz", image, s, linear, coordinates(rig, image, False))


@pytest.mark.parametrize("reduction", [1, 2])
def test_least_and_greatest_texel(reduction: int) -> None:
    image = Image(width=8, height=4)
    s = Sampler((2, 2, 2), magnify=1, reduction=reduction)
    rig = prepared("gfx900", image, s, 1)
    run(rig, "image_sample_lz", image, s, True, coordinates(rig, image, False))


def test_odd_coordinates_are_harmless() -> None:
    image = Image()
    for mode, magnify in itertools.product(range(8), (0, 1)):
        s = Sampler((mode, mode, mode), magnify=magnify)
        rig = prepared("gfx803", image, s, 1)
        rig.set_v(2, [0x7FC0_0000, 0x7F80_0000, 0xFF80_0000, 0x7F7F_FFFF] * 16)
        rig.set_v(3, [0xFF7F_FFFF, 0xFFFF_FFFF, 0, 0x8000_0000] * 16)
        rig.run("mimg", "image_sample_lz", **FIELDS)


@pytest.mark.parametrize("gpu", GPUS)
def test_offsets_count_texels(gpu: str) -> None:
    image = Image("3D", depth=4, width=8, height=4, pitch=8)
    s = Sampler((0, 2, 6), magnify=1)
    rig = prepared(gpu, image, s, 1)
    at = coordinates(rig, image, False)
    offsets = [tuple(int(n) for n in rig.rng.integers(-32, 32, 3)) for _ in range(64)]
    rig.set_v(2, [0xC0C0_C0C0 & ~0x3F3F3F | x & 63 | (y & 63) << 8 | (z & 63) << 16 for x, y, z in offsets])
    for k in range(3):
        put(rig, 3 + k, at[k])
    expected = rig.model()
    for lane in expected.lanes:
        x, y, z = offsets[lane]
        values = sample(expected, image, s, [a[lane] for a in at], linear=True, offset=(x, y, z))
        expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
    rig.run("mimg", "image_sample_lz_o", **FIELDS)
    close(rig, expected)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("compare", range(8))
def test_comparisons(compare: int, linear: bool) -> None:
    image = Image(dfmt=2, nfmt=0, width=8, height=4, pitch=8, select=(4, 4, 4, 4))
    s = Sampler((6, 2, 0), magnify=linear, compare=compare, border=2)
    rig = prepared("gfx803", image, s, compare)
    rig.ram.view(np.uint16)[:] = rig.rng.choice([0, 0x4000, 0x8000, 0xFFFF], len(rig.ram) // 2)
    at = coordinates(rig, image, False)
    choices = [0.0, 1.0, 2.0, -1.0, float(np.float32(0x8000 / 65535)), 0.4]
    references = [Fraction(np.float32(rig.rng.choice(choices)).item()) for _ in range(64)]
    put(rig, 2, references)
    put(rig, 3, at[0])
    put(rig, 4, at[1])
    expected = rig.model()
    for lane in expected.lanes:
        place = [a[lane] for a in at]
        values = sample(expected, image, s, place, linear=linear, reference=references[lane])
        expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
    rig.run("mimg", "image_sample_c_lz", **FIELDS)
    close(rig, expected)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("component", range(4))
def test_gathers_take_four_texels(gpu: str, component: int) -> None:
    image = Image("2D array", depth=3, width=8, height=4, pitch=8, select=(6, 5, 4, 7))
    s = Sampler((6, 1, 0), border=2)
    rig = prepared(gpu, image, s, component)
    at = coordinates(rig, image, False)
    put(rig, 2, at[0])
    put(rig, 3, at[1])
    put(rig, 4, [Fraction(2)] * 64)
    expected = rig.model()
    for lane in expected.lanes:
        x, y, z = taps(image, s, [a[lane] for a in at], 2, True, (0, 0, 0))
        order = ((0, 1), (1, 1), (1, 0), (0, 0))
        values = [fetch(expected, image, s, (x[h][0], y[v][0], z[0][0]), None)[component] for h, v in order]
        expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
    rig.run("mimg", "image_gather4_lz", **FIELDS | {"dmask": 1 << component, "da": 1})
    rig.check(expected)


def test_a_gather_compares_each_texel() -> None:
    image = Image(dfmt=2, nfmt=0, width=8, height=4, pitch=8)
    s = Sampler((2, 2, 2), compare=3)
    rig = prepared("gfx803", image, s, 1)
    at = coordinates(rig, image, False)
    for k, axis in enumerate(([Fraction(1, 2)] * 64, *at)):
        put(rig, 2 + k, axis)
    expected = rig.model()
    for lane in expected.lanes:
        x, y, z = taps(image, s, [a[lane] for a in at], 0, True, (0, 0, 0))
        places = [(x[h][0], y[v][0], z[0][0]) for h, v in ((0, 1), (1, 1), (1, 0), (0, 0))]
        values = [fetch(expected, image, s, place, Fraction(1, 2))[0] for place in places]
        assert set(values) <= {0, ONE}
        expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
    rig.run("mimg", "image_gather4_c_lz", **FIELDS | {"dmask": 1})
    rig.check(expected)


@pytest.mark.parametrize(
    ("name", "front", "back", "wanted"),
    [
        # Registers before and after the coordinates; which lanes magnify (those of lanes 0 to 31).
        ("image_sample_l", [], [0.0, 0.5], "low"),
        ("image_sample_l", [], [-3.0, 0.01], "low"),
        ("image_sample_lz", [], [], "all"),
        ("image_sample_d", [[0.1, 0.3], [0.0, 0.0], [0.0, 0.0], [0.1, 0.3]], [], "low"),
        ("image_sample_d", [[0.0, 0.0], [0.2, 0.3], [0.0, 0.0], [0.0, 0.0]], [], "low"),
        ("image_sample_cd", [[0.0, 0.0], [0.2, 0.3], [0.0, 0.0], [0.0, 0.0]], [], "low"),
        ("image_sample_d_cl", [[0.1, 0.1], [0.0, 0.0], [0.0, 0.0], [0.1, 0.1]], [0.0, 1.0], "low"),
    ],
)
def test_the_lod_chooses_the_filter(
    name: str, front: list[tuple[float, float]], back: list[float], wanted: str
) -> None:
    image = Image(width=4, height=4, pitch=4)
    s = Sampler((2, 2, 2), magnify=1, minify=0)
    rig = prepared("gfx803", image, s, 1)
    half = [0] * 32 + [1] * 32
    at = coordinates(rig, image, False)
    registers = [[Fraction(np.float32(pair[h]).item()) for h in half] for pair in front]
    registers += at
    if back:
        registers.append([Fraction(np.float32(back[h]).item()) for h in half])
    for k, axis in enumerate(registers):
        put(rig, 2 + k, axis)
    expected = rig.model()
    for lane in expected.lanes:
        linear = wanted == "all" or lane < 32
        values = sample(expected, image, s, [a[lane] for a in at], linear=linear)
        expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
    rig.run("mimg", name, **FIELDS)
    close(rig, expected)


@pytest.mark.parametrize(
    ("step", "bias", "sampler_bias"), [(0.25, 0.0, 0), (0.125, 0.0, 0), (0.125, 1.5, 0), (0.5, 0.0, -600)]
)
def test_quads_report_the_lod(step: float, bias: float, sampler_bias: int) -> None:
    """Coordinates that grow by `step` of a 16-texel image from lane to lane of a quad: log2(16 step) + biases."""
    image = Image(width=16, height=16, pitch=16)
    s = Sampler((2, 2, 2), magnify=0, minify=1, bias=sampler_bias)
    rig = prepared("gfx803", image, s, 1)
    lane = np.arange(64)
    x = [Fraction(int(n) % 2 * int(step * 64), 64) for n in lane]
    y = [Fraction(int(n) // 2 % 2 * int(step * 64), 64) for n in lane]
    lod = math.log2(16 * step) + bias + sampler_bias / 256
    registers = ([[Fraction(bias)] * 64] if bias else []) + [x, y]
    for k, axis in enumerate(registers):
        put(rig, 2 + k, axis)
    expected = rig.model()
    for n in expected.lanes:
        values = sample(expected, image, s, [x[n], y[n]], linear=lod > 0)
        expected.set_wide(20, n, 4, sum(v << 32 * k for k, v in enumerate(values)))
    rig.run("mimg", "image_sample_b" if bias else "image_sample", **FIELDS)
    close(rig, expected)
    if not bias:
        replaced = replace(s, min_lod=0x180, max_lod=0x280)
        rig.set_s(SSAMP, *replaced.words())
        rig.run("mimg", "image_get_lod", **FIELDS | {"dmask": 3})
        active = expected.lanes[0]
        assert int(rig.wave.vgpr[20, active]) == bits(min(max(lod, 1.5), 2.5))
        assert int(rig.wave.vgpr[21, active]) == bits(lod)


@pytest.mark.parametrize("gpu", GPUS)
def test_every_variant_finds_its_coordinates(gpu: str) -> None:
    """All address registers of a variant before the coordinates are 0 (or a reference that passes)."""
    image = Image(width=8, height=4, pitch=8)
    s = Sampler((2, 2, 2), compare=7)
    names = [n for n in mnemonics("mimg", gpu) if n.startswith(("image_sample", "image_gather4")) and n[-1] != "h"]
    assert len(names) == 40 + 24
    for seed, name in enumerate(names):
        rig = prepared(gpu, image, s, seed)
        parts = name.removeprefix("image_").split("_")[1:]
        front = sum(part in ("o", "b", "c") for part in parts) + 4 * ("d" in parts or "cd" in parts)
        at = coordinates(rig, image, False)
        zero = [Fraction(0)] * 64
        for k, axis in enumerate([zero] * front + at + [zero]):
            put(rig, 2 + k, axis)
        expected = rig.model()
        for lane in expected.lanes:
            place = [a[lane] for a in at]
            reference = Fraction(0) if "c" in parts else None
            if "gather4" in name:
                x, y, z = taps(image, s, place, 0, True, (0, 0, 0))
                order = ((0, 1), (1, 1), (1, 0), (0, 0))
                values = [fetch(expected, image, s, (x[h][0], y[v][0], z[0][0]), reference)[0] for h, v in order]
            else:
                values = sample(expected, image, s, place, linear=False, reference=reference)
            expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
        rig.run("mimg", name, **FIELDS | {"dmask": 1 if "gather4" in name else 15})
        rig.check(expected)


def test_16_bit_coordinates_lie_two_to_a_register() -> None:
    """Gradients of an axis each begin a register, bias has one, coordinates and LOD follow each other."""
    image = Image("3D", depth=4, width=4, height=4, pitch=4)
    s = Sampler((2, 2, 2))
    rig = prepared("gfx900", image, s, 1)
    texels = rig.rng.integers(0, 4, (3, 64))
    at = [[Fraction(2 * int(n) + 1, 8) for n in axis] for axis in texels]
    x, y, z = (np.array([float(c) for c in axis], np.float16).view(np.uint16).astype(np.uint32) for axis in at)
    expected = rig.model()
    for lane in expected.lanes:
        values = sample(expected, image, s, [a[lane] for a in at], linear=False)
        expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
    for name, front in (("image_sample_lz", 0), ("image_sample_d", 4), ("image_sample_l", 0), ("image_sample_b", 1)):
        for k in range(front):
            rig.set_v(2 + k, [0] * 64)
        rig.set_v(2 + front, x | y << 16)
        rig.set_v(3 + front, z)
        rig.run("mimg", name, **FIELDS | {"r128": 1})
        assert np.array_equal(rig.wave.vgpr[20:24].tolist(), expected.v[20:24]), name


@pytest.mark.parametrize("gpu", GPUS[1:])
def test_16_bit_results(gpu: str) -> None:
    image = Image(dfmt=10, nfmt=4)
    rig = prepared(gpu, image, Sampler(), 1)
    put(rig, 2, [Fraction(0)] * 64)
    put(rig, 3, [Fraction(0)] * 64)
    expected = rig.model()
    texel = image.texel(expected, 0, 0, 0)
    for lane in expected.lanes:
        if gpu == "gfx900":
            expected.set_wide(20, lane, 2, sum(v << 16 * k for k, v in enumerate(texel)))
        else:
            expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(texel)))
    rig.run("mimg", "image_sample_lz", **FIELDS | {"d16": 1})
    rig.check(expected)


def test_cubes_have_six_faces() -> None:
    """Coordinates within a face run from 1 to 2; the third is the face, plus 8 times the cube."""
    image = Image("cube", depth=12, width=4, height=4, pitch=4)
    s = Sampler((0, 0, 0), magnify=1)
    rig = prepared("gfx803", image, s, 1)
    at = [[Fraction(int(n), 64) for n in rig.rng.integers(64, 128, 64)] for _ in range(2)]
    faces = [int(n) for n in rig.rng.integers(0, 6, 64)]
    cubes = [int(n) for n in rig.rng.integers(0, 2, 64)]
    put(rig, 2, at[0])
    put(rig, 3, at[1])
    put(rig, 4, [Fraction(8 * c + f) for c, f in zip(cubes, faces, strict=True)])
    expected = rig.model()
    clamped = Sampler((2, 2, 2), magnify=1)
    for lane in expected.lanes:
        place = [a[lane] - 1 for a in at]
        values = sample(expected, image, clamped, place, 6 * cubes[lane] + faces[lane], linear=True)
        expected.set_wide(20, lane, 4, sum(v << 32 * k for k, v in enumerate(values)))
    rig.run("mimg", "image_sample_lz", **FIELDS | {"da": 1})
    close(rig, expected)


@pytest.mark.parametrize(
    ("gpu", "name", "image", "words", "text"),
    [
        (
            "gfx803",
            "image_sample_lz",
            Image(),
            [0, 0, 0, 3 << 30 | 7],
            "border colour 7 of the driver's table is not modelled",
        ),
        ("gfx900", "image_gather4h", Image(), [0, 0, 0, 0], "image_gather4h is not modelled"),
        ("gfx803", "image_gather4_lz", Image("1D"), [0, 0, 0, 0], "of an image of 1 dimensions is not modelled"),
        (
            "gfx803",
            "image_gather4_lz",
            Image("3D", depth=2),
            [0, 0, 0, 0],
            "of an image of 3 dimensions is not modelled",
        ),
    ],
)
def test_what_is_not_modelled_says_so(gpu: str, name: str, image: Image, words: list[int], text: str) -> None:
    rig = Rig(gpu, 1, FULL)
    rig.set_s(RSRC, *image.words(LEVEL[gpu]))
    rig.set_s(SSAMP, *words)
    with pytest.raises(BeyondModel, match=text):
        rig.run("mimg", name, **FIELDS)
