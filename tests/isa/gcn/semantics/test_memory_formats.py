"""Data and number formats against exact arithmetic."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.core.rule import load_choices
from softcard.isa.gcn.operations import buffer, ds, flat, image, smem
from softcard.isa.gcn.semantics import memory_formats as formats
from tests.isa.gcn.semantics import format_oracle as oracle
from tests.isa.gcn.semantics import format_rig as rig

# fmt: off
HARD = [
    0, 1, 2, 0x8000_0000, 0x3F80_0000, 0xBF80_0000, 0x3F7F_FFFF, 0x3F80_0001, 0x3F00_0000, 0x3EFF_FFFF,
    0x7F80_0000, 0xFF80_0000, 0x477F_E000, 0x477F_F000, 0x477F_EFFF, 0x3880_0000, 0x387F_C000, 0x3380_0000,
    0x3300_0000, 0x3300_0001, 0x32FF_FFFF, 0x477C_0000, 0x477E_0000, 0x477D_FFFF, 0x3B80_8081, 0x0080_0000,
    0x4F00_0000, 0xFF, 0x7F, 0x80, 0xFFFF_FF80, 0xFFFF_FF7F, 0xFFFF, 0x7FFF, 0x8000,
]
# fmt: on


def lanes(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint32)


@pytest.mark.parametrize("nfmt", formats.NUMBER_NAMES)
@pytest.mark.parametrize("width", [1, 2, 4, 5, 6, 8, 10, 11, 16])
def test_reading_components(width: int, nfmt: int) -> None:
    every = [*range(0, 1 << width, 7 if width == 16 else 1), (1 << width) - 1]
    wanted = [oracle.read(width, nfmt, n, 1) for n in every]
    if wanted[0] is None:
        with pytest.raises(BeyondModel, match=f"of {width}-bit components is not modelled"):
            rig.read_component(lanes(every), width, nfmt, 1)
        return
    got = rig.read_component(lanes(every), width, nfmt, 1)
    assert got.dtype == np.uint32
    assert got.tolist() == wanted


@pytest.mark.parametrize("nfmt", formats.NUMBER_NAMES)
def test_reading_32_bits(nfmt: int) -> None:
    wanted = [oracle.read(32, nfmt, n, 1) for n in HARD]
    if None in wanted:
        with pytest.raises(BeyondModel, match="of 32-bit components is not modelled"):
            rig.read_component(lanes(HARD), 32, nfmt, 1)
    else:
        assert rig.read_component(lanes(HARD), 32, nfmt, 1).tolist() == wanted


@pytest.mark.parametrize("nfmt", [0, 1, 4, 5, 7])
@pytest.mark.parametrize("width", [2, 4, 5, 8, 10, 11, 16, 32])
def test_writing(width: int, nfmt: int) -> None:
    random = [int(x) for x in np.random.default_rng(width).integers(0, 1 << 32, 400)]
    near = [oracle.single(oracle.Fraction(n) / 4096) for n in range(-4200, 4200, 7)]
    values = [n for n in HARD + random + near if nfmt in (4, 5) or n & 0x7FFF_FFFF <= 0x7F80_0000]
    wanted = [oracle.write(width, nfmt, n) for n in values]
    if None in wanted:
        with pytest.raises(BeyondModel, match=f"of {width}-bit components is not modelled"):
            rig.write_component(lanes(values), width, nfmt, 0)
        return
    got = rig.write_component(lanes(values), width, nfmt, 0) & np.uint32((1 << width) - 1)
    assert [hex(n) for n in got.tolist()] == [hex(n) for n in wanted if n is not None]


@pytest.mark.parametrize("width", [4, 5, 8])
def test_srgb_goes_back_and_forth(width: int) -> None:
    every = lanes(list(range(1 << width)))
    assert np.array_equal(rig.write_component(rig.read_component(every, width, 9, 0), width, 9, 0), every)


def test_nan_is_written_as_0_and_stays_nan_in_floats() -> None:
    nan = lanes([0x7FC0_0000, 0xFFFF_FFFF, 0x7F80_0001])
    assert rig.write_component(nan, 8, 0, 0).tolist() == [0, 0, 0]
    assert rig.write_component(nan, 16, 1, 0).tolist() == [0, 0, 0]
    half = rig.write_component(nan, 16, 7, 0)
    assert all(n & 0x7C00 == 0x7C00 and n & 0x3FF for n in half.tolist())
    small = rig.write_component(nan, 11, 7, 0)
    assert all(n >> 6 == 31 and n & 63 for n in small.tolist())


def test_shared_exponents() -> None:
    words = lanes([0, 1, 0x1FF, 31 << 27 | 0x1FF << 18 | 0x100 << 9 | 3, 16 << 27 | 0x100, 24 << 27 | 0x80 << 9])
    found = rig.read(24, 7, [words], image=True)
    for k in range(3):
        numbers = [oracle.Fraction(n >> 9 * k & 511) * oracle.Fraction(2) ** ((n >> 27) - 24) for n in words.tolist()]
        assert found[k].tolist() == [oracle.single(number) for number in numbers]
    assert set(found[3].tolist()) == {0x3F80_0000}
    assert np.array_equal(rig.read(24, 7, rig.write(24, 7, found, image=True), image=True)[0], found[0])


def test_shared_exponents_round_and_saturate() -> None:
    big = lanes([0x7F80_0000, 0x4780_0000, 0x477F_FFFF, 0xC000_0000, 0x3FFF_FFFF])
    zero = np.zeros(5, np.uint32)
    (word,) = rig.write(24, 7, [big, zero, zero, zero], image=True)
    assert [(n >> 27, n & 511) for n in word.tolist()] == [(31, 511), (31, 511), (31, 511), (0, 0), (17, 256)]


@pytest.mark.parametrize("dfmt", oracle.LAYOUTS)
def test_components_lie_from_the_lowest_bit_up(dfmt: int) -> None:
    rng = np.random.default_rng(dfmt)
    count = max(oracle.size(dfmt) // 4, 1)
    words = [
        rng.integers(0, 1 << min(32, 8 * oracle.size(dfmt)), 64, np.uint64).astype(np.uint32) for _ in range(count)
    ]
    found = rig.read(dfmt, 4, words, image=True)
    for lane in range(64):
        element = sum(int(word[lane]) << 32 * k for k, word in enumerate(words))
        parts = oracle.split(dfmt, element)
        assert [int(v[lane]) for v in found] == parts + [0, 0, 0, 1][len(parts) :]
    again = rig.write(dfmt, 4, found, image=True)
    assert all(np.array_equal(a, b) for a, b in zip(again, words, strict=True))


def test_data_formats_not_modelled() -> None:
    with pytest.raises(BeyondModel, match="data format 15 of buffers is not modelled"):
        formats.widths(15, image=False)
    with pytest.raises(BeyondModel, match="data format 35 of images is not modelled"):
        formats.widths(35, image=True)
    assert formats.widths(0, image=True) == ()


def test_d16_keeps_halves() -> None:
    values = [n for n in HARD if n & 0x7FFF_FFFF <= 0x7F80_0000]
    assert rig.to_d16(7, lanes(values)).tolist() == [oracle.to_half(n) for n in values]
    assert rig.to_d16(4, lanes([0x1234_5678])).tolist() == [0x5678]
    codes = list(itertools.chain(range(0, 0x7C01, 3), range(0x8000, 0xFC01, 5)))
    assert rig.from_d16(0, lanes(codes)).tolist() == [oracle.half(n) for n in codes]
    assert rig.from_d16(5, lanes([0xABCD_8000])).tolist() == [0xFFFF_8000]
    assert rig.from_d16(4, lanes([0xABCD_8000])).tolist() == [0x8000]


def test_every_choice_an_operation_names_exists() -> None:
    known = set(load_choices("softcard.isa.gcn"))
    named = {op.accuracy.source for op in (*buffer.OPS, *ds.OPS, *flat.OPS, *image.OPS, *smem.OPS)}
    assert {source for source in named if source.startswith("gcn/")} <= known
