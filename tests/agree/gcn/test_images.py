"""Image operations without a sampler: translated code does all of them, and as exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.semantics import memory_formats as formats
from softcard.isa.gcn.target import target
from tests.agree.gcn.bench import DATA, DATA_BYTES, Start, Translated, differences, engines, on_reference, widths
from tests.agree.gcn.test_once_wrong import DOWN, FLUSH, NEAREST, state
from tests.agree.gcn.test_typed_buffers import HARD, SELECTS
from tests.isa.gcn.semantics.image_oracle import TYPES, Image

PROCESSORS = {"gfx700": (7, DOWN), "gfx803": (8, NEAREST), "gfx900": (9, FLUSH)}
ATOMICS = ("swap", "cmpswap", "add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec")
WRITTEN = (formats.UNORM, formats.SNORM, formats.UINT, formats.SINT, formats.FLOAT)


def has(dfmt: int, nfmt: int, *, store: bool) -> bool:
    """Whether translated code reads or writes texels of a format: all that the reference engine does."""
    layout = formats.widths(dfmt, image=True)[: 2 if dfmt == formats.UNUSED_HIGH else 4]
    if dfmt == formats.SHARED_EXPONENT:
        return True
    if store and (nfmt not in WRITTEN or dfmt == formats.UNUSED_HIGH):
        return False
    if nfmt == formats.FLOAT:
        return set(layout) <= {10, 11, 16, 32}
    return nfmt not in (formats.UNORM, formats.SNORM, formats.SNORM_OGL) or 32 not in layout


def described(rng: np.random.Generator, dfmt: int, nfmt: int) -> Image:
    """An image that fits into memory."""
    kind = str(rng.choice(list(TYPES)))
    size = max(formats.element_bytes(dfmt, image=True), 1)
    width, height = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    depth = 6 if kind == "cube" else int(rng.integers(1, 5))
    pitch = int(rng.integers(width, 13))
    assert (6 + 3) * 6 * 12 * size < DATA_BYTES
    select = SELECTS[int(rng.integers(len(SELECTS)))]
    return Image(
        kind, width, height, depth, pitch, dfmt, nfmt, select, first=0 if kind == "3D" else int(rng.integers(3))
    )


def program(rng: np.random.Generator, level: int, d16: bool, part: int) -> Iterator[str]:
    """Every other data format under a number format of its own: loads, stores, atomics and sizes."""
    kept = "" if not d16 else " d16"
    for number, dfmt in enumerate((*formats.IMAGE_WIDTHS, 0)[part::2]):
        choices = [n for n in range(8) if dfmt == 0 or has(dfmt, n, store=False)]
        if d16:
            choices = [n for n in choices if n in (formats.UNORM, formats.UINT, formats.SINT, formats.FLOAT)] or choices
        image = described(rng, dfmt, int(rng.choice(choices)))
        words = image.words(level)
        words[0] = DATA >> 8
        words[1] &= ~0xFF
        flags = [
            " r128" if rng.random() < 0.2 else "",
            " da" if rng.random() < 0.5 else "",
            " glc" if rng.random() < 0.5 else "",
        ]
        flag = "".join(flags)
        for k, word in enumerate(words):
            yield f"s_mov_b32 s{8 + k}, {word:#x}"
        dmask = int(rng.integers(1, 16))
        count = dmask.bit_count()
        registers = f"v[20:{19 + count}]" if count > 1 else "v20"
        packed = (f"v[20:{20 + (count - 1) // 2}]" if count > 2 else "v20") if d16 else registers
        operands = f"v[2:5], s[8:15] dmask:{dmask:#x} unorm{flag}"
        mip = "_mip" if rng.random() < 0.3 else ""
        yield f"s_mov_b32 s50, 2\nagain{number}:"
        yield f"image_load{mip} {packed}, {operands}{kept}"
        yield from mixed(count)
        raw = str(rng.choice(["load_pck", "load_pck_sgn", "load_mip_pck", "load_mip_pck_sgn", "get_resinfo"]))
        yield f"image_{raw} {registers}, {operands}"
        yield from mixed(count)
        if dfmt == 0 or has(dfmt, image.nfmt, store=True):
            yield f"image_store{mip} {lower(packed)}, {operands}{kept}"
        if rng.random() < 0.5:
            yield f"image_store{mip}_pck {lower(registers)}, {operands}"
        if rng.random() < 0.5:
            kind = str(rng.choice(ATOMICS))
            n = 2 if kind == "cmpswap" else 1
            wide = n * int(rng.integers(1, 3))
            data = f"v[24:{23 + wide}]" if wide > 1 else "v24"
            yield f"image_atomic_{kind} {data}, v[2:5], s[8:15] dmask:{(1 << wide) - 1:#x} unorm{flag}"
        yield f"v_add_{'i32' if level < 8 else 'u32'} v2, vcc, 1, v2" if level < 9 else "v_add_u32 v2, 1, v2"
        other = replace(image, select=SELECTS[int(rng.integers(len(SELECTS)))])
        yield f"s_mov_b32 s11, {other.words(level)[3]:#x}"
        yield f"s_sub_u32 s50, s50, 1\ns_cmp_lg_u32 s50, 0\ns_cbranch_scc1 again{number}"


def lower(registers: str) -> str:
    """v12 on in place of v20 on."""
    return re.sub(r"\d+", lambda found: str(int(found[0]) - 8), registers)


def mixed(count: int) -> Iterator[str]:
    """What was loaded is kept."""
    for k in range(count):
        yield f"v_xor_b32 v{40 + k}, v{40 + k}, v{20 + k}"
        yield f"v_lshlrev_b32 v{40 + k}, 1, v{40 + k}"


def start(rng: np.random.Generator, mode: int) -> Start:
    """Coordinates in v2 to v5, in and around images; hard numbers in v12 to v15."""
    made = state(mode, exec_=0xFFFF_FFFE_7FFF_FFFD)
    for k in range(4):
        made.vgprs[2 + k] = rng.integers(0, 10 >> k, 64) | rng.integers(0, 4, 64) << 16 * (rng.random(64) < 0.1)
        made.vgprs[12 + k] = np.where(rng.random(64) < 0.6, rng.choice(HARD, 64), rng.integers(0, 1 << 32, 64))
    made.vgprs[2, 5] = 0xFFFF_FFFF
    made.data[:] = rng.integers(0, 256, made.data.size)
    return made


@pytest.fixture(scope="module")
def every() -> list[Translated]:
    """All widths and tiers."""
    return engines()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("name", [*PROCESSORS, "gfx906"])
@pytest.mark.parametrize("number", range(2 * len(widths())))
def test_images_in_translated_code(number: int, name: str, part: int, every: list[Translated]) -> None:
    d16 = name == "gfx906"
    level, mode = (9, FLUSH | 5) if d16 else PROCESSORS[name]
    rng = np.random.default_rng([part, level, d16])
    code = assemble(target(name), "\n".join([*program(rng, level, d16, part), "s_endpgm"]) + "\n")
    begin = start(rng, mode)
    expected = on_reference(name, code, begin)
    assert not expected.error
    assert not differences(expected, every[number](name, code, begin))
    assert not every[number].stepped


def test_srgb_in_translated_code(every: list[Translated]) -> None:
    """Also next to where one component ends and another begins."""
    rng = np.random.default_rng(11)
    begin = start(rng, FLUSH)
    lanes, ends = np.arange(64), np.array(formats.srgb_steps(8), np.uint32)
    begin.vgprs[2:5], begin.vgprs[3] = lanes % 9, lanes // 9
    begin.vgprs[12:16] = ends[np.arange(256).reshape(4, 64)] - (lanes & 1)
    begin.sgprs[8:16] = Image(height=8, nfmt=formats.SRGB).words(8)
    begin.sgprs[8] = DATA >> 8
    begin.sgprs[9] &= 0xFFFF_FF00
    operands = "s[8:15] dmask:0xf unorm"
    code = assemble(
        target("gfx803"),
        f"image_load v[20:23], v[2:5], {operands}\nimage_store v[12:15], v[2:5], {operands}\n"
        f"image_store v[20:23], v[6:9], {operands}\nimage_load v[24:27], v[2:5], {operands}\ns_endpgm\n",
    )
    expected = on_reference("gfx803", code, begin)
    assert not expected.error
    for engine in every:
        assert not differences(expected, engine("gfx803", code, begin)), engine
        assert not engine.stepped, engine


ODDITIES = {
    "addresses_behind_the_last_vector_register": (Image("2D array", depth=3), "image_load v[20:23], v254, {} da"),
    "a_colour_space_that_only_numpy_has": (Image(dfmt=12, nfmt=formats.SRGB), "image_load v[20:23], v[2:4], {}"),
    "a_layout_that_is_not_modelled": (Image(mode=3), "image_store v[12:15], v[2:4], {}"),
    "texels_behind_the_end_of_memory": (Image(width=4000, height=4000, pitch=4000), "image_load v[20:23], v[2:4], {}"),
}


@pytest.mark.parametrize("case", ODDITIES)
def test_what_the_reference_engine_does_of_images(case: str, every: list[Translated]) -> None:
    """Where code has been told of another image there, too."""
    image, line = ODDITIES[case]
    rng = np.random.default_rng(5)
    begin = start(rng, FLUSH)
    begin.vgprs[2:4] = rng.integers(0, 4000 if image.width > 9 else 9, (2, 64))
    plain, odd = Image().words(9), image.words(9)
    begin.sgprs[8:16] = plain
    begin.sgprs[8] = odd[0] = DATA >> 8
    lines = ["v_mov_b32 v255, 1", "v_mov_b32 v254, 2", "s_mov_b32 s50, 2\nagain:"]
    lines += [line.format("s[8:15] dmask:0xf unorm")]
    lines += [f"s_mov_b32 s{8 + k}, {word:#x}" for k, word in enumerate(odd)]
    lines += ["s_sub_u32 s50, s50, 1\ns_cmp_lg_u32 s50, 0\ns_cbranch_scc1 again\ns_endpgm\n"]
    code = assemble(target("gfx900"), "\n".join(lines))
    expected = on_reference("gfx900", code, begin)
    assert bool(expected.error) == (case[0] == "t" or "not_modelled" in case)
    for engine in every:
        assert not differences(expected, engine("gfx900", code, begin)), engine
        assert engine.stepped, engine
