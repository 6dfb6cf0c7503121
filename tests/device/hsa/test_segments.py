"""Segment conversions, apertures, swizzling."""

from __future__ import annotations

import pytest

from softcard.core.errors import WireError
from softcard.device.hsa.agents import agent
from softcard.device.hsa.memory.segments import (
    Apertures,
    Segment,
    apertures,
    is_in,
    null,
    sh_mem_bases,
    split_access,
    swizzled,
    to_flat,
    to_segment,
)
from softcard.isa.gcn.target import GFX8, GFX9

LARGE = Apertures(0x2000_0000, 0x2000_0001)
SMALL = Apertures(0x8000_0000, 0x8001_0000, small=True)
KERNARG = 0x1_2345_6000
models = pytest.mark.parametrize("model", [LARGE, SMALL], ids=["large", "small"])


def test_null_address() -> None:
    assert [null(s) for s in (Segment.GLOBAL, Segment.READONLY, Segment.FLAT)] == [0, 0, 0]
    assert [null(s) for s in (Segment.GROUP, Segment.PRIVATE, Segment.KERNARG)] == [0xFFFF_FFFF] * 3


@models
def test_stof_global(model: Apertures) -> None:
    assert to_flat(model, Segment.GLOBAL, 0x1234) == to_flat(model, Segment.READONLY, 0x1234) == 0x1234


def test_stof_kernarg() -> None:
    assert to_flat(LARGE, Segment.KERNARG, 0x10, KERNARG) == KERNARG + 0x10
    assert to_flat(LARGE, Segment.KERNARG, 0x10, 0xFFFF_FFF8) == 0x1_0000_0008  # into a 64-bit base
    assert to_flat(SMALL, Segment.KERNARG, 0x10, 0xFFFF_FFF8) == 8  # a 32-bit addition


def test_stof_group() -> None:
    assert to_flat(LARGE, Segment.GROUP, 0x40) == 0x2000_0000_0000_0040
    assert to_flat(SMALL, Segment.GROUP, 0x40) == 0x8000_0040


@pytest.mark.parametrize("segment", [Segment.PRIVATE, Segment.SPILL, Segment.ARG])
def test_stof_private(segment: Segment) -> None:
    assert to_flat(LARGE, segment, 0x40) == 0x2000_0001_0000_0040
    assert to_flat(SMALL, segment, 0x40) == 0x8001_0040


@models
def test_ftos_global(model: Apertures) -> None:
    assert to_segment(model, Segment.GLOBAL, 0x1234) == 0x1234


def test_ftos_kernarg() -> None:
    assert to_segment(LARGE, Segment.KERNARG, KERNARG + 0x10, KERNARG) == 0x10
    assert to_segment(LARGE, Segment.KERNARG, 0x1_0000_0008, 0xFFFF_FFF8) == 0x10
    assert to_segment(SMALL, Segment.KERNARG, 8, 0xFFFF_FFF8) == 0x10


def test_ftos_group() -> None:
    assert to_segment(LARGE, Segment.GROUP, 0x2000_0000_0000_0040) == 0x40
    assert to_segment(SMALL, Segment.GROUP, 0x8000_0040) == 0x40


def test_ftos_private() -> None:
    assert to_segment(LARGE, Segment.PRIVATE, 0x2000_0001_0000_0040) == 0x40
    assert to_segment(SMALL, Segment.PRIVATE, 0x8001_0040) == 0x40


@models
def test_segmentp_global(model: Apertures) -> None:
    assert is_in(model, Segment.GLOBAL, 0x1000)
    assert not is_in(model, Segment.GLOBAL, model.shared_base)
    assert not is_in(model, Segment.GLOBAL, model.private_base + 4)
    with pytest.raises(WireError, match="the kernarg segment has no aperture"):
        is_in(model, Segment.KERNARG, 0)


@models
def test_segmentp_group(model: Apertures) -> None:
    assert is_in(model, Segment.GROUP, model.shared_base + 0xFFFC)
    assert not is_in(model, Segment.GROUP, model.private_base)
    assert not is_in(model, Segment.GROUP, 0x1000)


@models
def test_segmentp_private(model: Apertures) -> None:
    """Erratum 4: the document compares with the group aperture."""
    assert is_in(model, Segment.PRIVATE, model.private_base + 0xFFFC)
    assert not is_in(model, Segment.PRIVATE, model.shared_base)


@models
@pytest.mark.parametrize("segment", [Segment.GROUP, Segment.PRIVATE, Segment.KERNARG])
def test_null_checks(model: Apertures, segment: Segment) -> None:
    assert to_flat(model, segment, null(segment), KERNARG, null_check=True) == 0
    assert to_segment(model, segment, 0, KERNARG, null_check=True) == null(segment)
    assert to_flat(model, segment, null(segment), KERNARG) != 0
    assert not is_in(model, Segment.GLOBAL, 0, null_check=True)


@models
@pytest.mark.parametrize("segment", [Segment.GROUP, Segment.PRIVATE])
def test_round_trip(model: Apertures, segment: Segment) -> None:
    for address in (0, 4, 0xFFFC):
        flat = to_flat(model, segment, address)
        assert is_in(model, segment, flat)
        assert to_segment(model, segment, flat) == address


def test_aperture_registers() -> None:
    for name in ("gfx700", "gfx803"):
        found = apertures(agent(name))
        assert (found.group_segment_aperture_base_hi, found.private_segment_aperture_base_hi) == (1 << 29, 1 << 29 | 1)
        assert sh_mem_bases(found, GFX8) == 0x2000_2000
    assert sh_mem_bases(apertures(agent("gfx900")), GFX9) == 0x0001_0002
    assert sh_mem_bases(apertures(agent("gfx700"), small=True), GFX8) == 0x8000_8001


@pytest.mark.parametrize("element", [2, 4, 8, 16])
def test_swizzle(element: int) -> None:
    places = {swizzled(offset, lane, element) for lane in range(64) for offset in range(32)}
    assert len(places) == 64 * 32
    assert max(places) == 64 * 32 - 1
    assert swizzled(element, 1, element) == 64 * element + element


def test_swizzle_sizes() -> None:
    with pytest.raises(WireError, match="the interleave size is 3, expected 2, 4, 8 or 16"):
        swizzled(0, 0, 3)
    with pytest.raises(WireError, match="the lane number is 64, expected 0 to 63"):
        swizzled(0, 64)


def test_swizzle_split() -> None:
    assert split_access(0, 8) == [(0, 4), (4, 4)]
    assert split_access(2, 4) == [(2, 2), (4, 2)]
    assert split_access(0, 8, 8) == [(0, 8)]


def test_swizzle_four() -> None:
    assert swizzled(4, 3) == swizzled(4, 3, 4) == 256 + 12
