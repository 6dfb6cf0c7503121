"""Images and samplers of AMD OpenCL 2.0 kernels, every format against a model that only knows OpenCL."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import WireError
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.host.amdcl2.program import Addressing, ChannelOrder, ChannelType, Filter, Image, ImageKind, Sampler
from softcard.image.amdcl2.arguments import Argument, Kind
from softcard.image.amdcl2.formats import ImageFormat, supported_formats
from tests.host.amdcl2 import image_model as model
from tests.host.amdcl2.image_kernels import LANES, work
from tests.host.amdcl2.rig import DEVICES, kernel, program

every_device = pytest.mark.parametrize("device", DEVICES)
every_format = pytest.mark.parametrize("format", supported_formats(), ids=lambda f: f"{f.order.name}-{f.type.name[3:]}")
SHAPES = {
    ImageKind.IMAGE_1D: (9,),
    ImageKind.IMAGE_2D: (5, 7),
    ImageKind.IMAGE_3D: (3, 4, 5),
    ImageKind.ARRAY_1D: (4, 6),
    ImageKind.ARRAY_2D: (3, 4, 5),
    ImageKind.BUFFER_1D: (37,),
}
PACKED = [format for format in supported_formats() if format.order is ChannelOrder.CL_RGB]


def noise(format: ImageFormat, shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    """Texels of all kinds; floats are small numbers."""
    rng = np.random.default_rng(seed)
    shape = (*shape, format.words)
    dtype = np.dtype(format.dtype)
    if dtype.kind == "f":
        return rng.integers(-999, 999, shape).astype(dtype) / dtype.type(8)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def four_axes(kind: ImageKind, texels: np.ndarray) -> np.ndarray:
    """Slices or depth, rows, columns, words."""
    if kind is ImageKind.ARRAY_1D:
        return texels[:, None]
    return texels.reshape((1,) * (4 - texels.ndim) + texels.shape)


def places(kind: ImageKind) -> list[tuple[int, ...]]:
    """Coordinates of all texels, x first, as kernels give them."""
    shape = SHAPES[kind]
    return [tuple(reversed(index)) for index in product(*map(range, shape))][:LANES]


def texel_at(kind: ImageKind, texels: np.ndarray, at: tuple[int, ...]) -> Any:
    return texels[tuple(reversed(at))]


def as_colours(kind: str, raw: np.ndarray) -> np.ndarray:
    """Return the values of registers as numbers."""
    if not model.is_integer(kind):
        return raw
    return raw.view(np.int32 if "UN" not in kind else np.uint32)


def close(kind: str, found: np.ndarray, expected: Any) -> None:
    expected = np.array(expected)
    if model.is_integer(kind) or kind in ("CL_FLOAT", "CL_HALF_FLOAT"):
        assert (found == expected).all()
    else:
        np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-7)


@every_device
@every_format
def test_read_of_every_format(device: str, format: ImageFormat) -> None:
    texels = noise(format, (5, 7))
    image = Image(texels, format.order, format.type, ImageKind.IMAGE_2D)
    at = places(ImageKind.IMAGE_2D)
    found = as_colours(format.type.name, work(device, "load", image, np.array(at, np.uint32), _blank()))
    expected = [model.read(format.order.name, format.type.name, texels[y, x]) for x, y in at]
    close(format.type.name, found[: len(at)], expected)


def _blank() -> np.ndarray:
    return np.zeros((LANES, 4), np.float32)


def colours_for(kind: str, seed: int = 3) -> np.ndarray:
    """Colours, some beyond what a format can hold."""
    rng = np.random.default_rng(seed)
    if model.is_integer(kind):
        bits = int(kind[kind.index("INT") + 3 :])
        top = 2 ** min(bits + 1, 31)
        numbers = rng.integers(0 if "UN" in kind else -top, top, (LANES, 4))
        return numbers.astype(np.uint32 if "UN" in kind else np.int32)
    if "FLOAT" in kind:
        return (rng.integers(-999, 999, (LANES, 4)) / 8).astype(np.float32)
    return rng.uniform(-1.3, 1.3, (LANES, 4)).astype(np.float32)


WRITABLE = [format for format in supported_formats() if format.order is not ChannelOrder.CL_sRGBA]
"""sRGB images are read-only in OpenCL 2.0."""


@every_device
@pytest.mark.parametrize("format", WRITABLE, ids=lambda f: f"{f.order.name}-{f.type.name[3:]}")
def test_write_of_every_format(device: str, format: ImageFormat) -> None:
    image = Image(noise(format, (5, 7)), format.order, format.type, ImageKind.IMAGE_2D)
    at = places(ImageKind.IMAGE_2D)
    colours = colours_for(format.type.name)
    work(device, "store", image, np.array(at, np.uint32), colours.copy())
    for (x, y), colour in zip(at, colours.tolist(), strict=False):
        assert image.array[y, x].tolist() == model.write(format.order.name, format.type.name, colour)


@every_device
@pytest.mark.parametrize("kind", list(ImageKind), ids=lambda kind: kind.name)
def test_every_kind_is_read_and_written(device: str, kind: ImageKind) -> None:
    for order, type in ((ChannelOrder.CL_RGBA, ChannelType.CL_FLOAT), (ChannelOrder.CL_R, ChannelType.CL_UNORM_INT8)):
        words = 4 if order is ChannelOrder.CL_RGBA else 1
        dtype = np.float32 if words == 4 else np.uint8
        texels = np.random.default_rng(2).integers(0, 255, (*SHAPES[kind], words)).astype(dtype)
        at = np.array(places(kind), np.uint32)
        found = work(device, "load", Image(texels, order, type, kind), at, _blank())
        expected = [model.read(order.name, type.name, texel_at(kind, texels, tuple(each))) for each in at]
        close(type.name, found[: len(at)], expected)
        empty = Image(np.zeros_like(texels), order, type, kind)
        work(device, "store", empty, at, found)
        assert (empty.array[tuple(at.T[::-1])] == texels[tuple(at.T[::-1])]).all()


@every_device
@pytest.mark.parametrize("is_linear", [False, True], ids=["nearest", "linear"])
@pytest.mark.parametrize("mode", list(Addressing), ids=lambda mode: mode.name)
def test_every_addressing_mode_and_filter(device: str, mode: Addressing, is_linear: bool) -> None:
    format = next(f for f in supported_formats() if (f.order.name, f.type.name) == ("CL_RGBA", "CL_UNORM_INT8"))
    texels = noise(format, (5, 7))
    sampler = Sampler(True, mode, Filter.LINEAR if is_linear else Filter.NEAREST)
    normalised = np.random.default_rng(5).integers(-64, 96, (LANES, 2)) / 32 + 1 / 128
    _compare(device, ImageKind.IMAGE_2D, format, texels, sampler, is_linear, normalised)


@every_device
@pytest.mark.parametrize("is_linear", [False, True], ids=["nearest", "linear"])
@pytest.mark.parametrize("kind", [k for k in ImageKind if k is not ImageKind.BUFFER_1D], ids=lambda kind: kind.name)
def test_every_kind_is_sampled(device: str, kind: ImageKind, is_linear: bool) -> None:
    format = next(f for f in supported_formats() if (f.order.name, f.type.name) == ("CL_BGRA", "CL_UNORM_INT8"))
    texels = noise(format, SHAPES[kind])
    sampler = Sampler(True, Addressing.MIRRORED_REPEAT, Filter.LINEAR if is_linear else Filter.NEAREST)
    axes = kind.axes - kind.is_array
    coordinates = np.random.default_rng(6).integers(-64, 96, (LANES, axes)) / 32 + 1 / 128
    if kind.is_array:
        slices = np.random.default_rng(7).integers(0, SHAPES[kind][0], (LANES, 1))
        coordinates = np.concatenate([coordinates, slices], axis=1)
    _compare(device, kind, format, texels, sampler, is_linear, coordinates)


def _compare(
    device: str, kind: ImageKind, format: ImageFormat, texels: np.ndarray, sampler: Sampler, is_linear: bool, at: Any
) -> None:
    """Sample at normalised coordinates and compare."""
    image = Image(texels, format.order, format.type, kind)
    found = work(device, "sample", image, at.astype(np.float32), _blank(), sampler)
    axes = kind.axes - kind.is_array
    sizes = SHAPES[kind][::-1][:axes]
    expected = []
    for row in at.astype(np.float32).tolist():
        in_texels = [c * size for c, size in zip(row, sizes, strict=False)]
        named = (format.order.name, format.type.name, four_axes(kind, texels), sampler.addressing.name)
        expected.append(model.sample(*named, is_linear, in_texels, int(row[axes]) if kind.is_array else 0))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@every_device
@pytest.mark.parametrize("is_linear", [False, True], ids=["nearest", "linear"])
@pytest.mark.parametrize("mode", [Addressing.CLAMP_TO_EDGE, Addressing.CLAMP], ids=lambda mode: mode.name)
@pytest.mark.parametrize("format", PACKED[:2], ids=lambda f: f.type.name)
def test_unnormalised_coordinates(device: str, format: ImageFormat, mode: Addressing, is_linear: bool) -> None:
    texels = noise(format, (5, 7))
    at = np.random.default_rng(8).integers(-32, 160, (LANES, 2)) / 16 + 1 / 64
    sampler = Sampler(False, mode, Filter.LINEAR if is_linear else Filter.NEAREST)
    image = Image(texels, format.order, format.type, ImageKind.IMAGE_2D)
    found = work(device, "sample", image, at.astype(np.float32), _blank(), sampler)
    named = (format.order.name, format.type.name, four_axes(ImageKind.IMAGE_2D, texels), mode.name)
    expected = [model.sample(*named, is_linear, row) for row in at.tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_both_engines_agree_on_images() -> None:
    format = supported_formats()[0]
    image = Image(noise(format, (5, 7)), format.order, format.type, ImageKind.IMAGE_2D)
    at = np.array(places(ImageKind.IMAGE_2D), np.uint32)
    results = [
        work("tonga", "load", image, at, _blank(), engine=engine) for engine in (ReferenceEngine(), JitEngine(1))
    ]
    assert (results[0] == results[1]).all()


def test_an_image_may_be_given_twice() -> None:
    arguments = [
        Argument("a", "image2d_t", Kind.IMAGE, access="read_only"),
        Argument("b", "image2d_t", Kind.IMAGE, access="write_only"),
    ]
    text = """
    s_load_dwordx4 s[12:15], s[6:7], {o:12}
    s_waitcnt lgkmcnt(0)
    s_load_dwordx8 s[32:39], s[12:13], 0x0
    s_load_dwordx8 s[40:47], s[14:15], 0x0
    v_mov_b32 v1, 0
    s_waitcnt lgkmcnt(0)
    image_load v4, v[0:1], s[32:39] dmask:0x1 unorm
    s_waitcnt vmcnt(0)
    {add} v4, vcc, 1, v4
    image_store v4, v[0:1], s[40:47] dmask:0x1 unorm
    s_endpgm
    """
    texels = np.arange(64, dtype=np.uint32).reshape(1, 64)
    image = Image(texels, ChannelOrder.CL_R, ChannelType.CL_UNSIGNED_INT32)
    program("tonga", kernel("tonga", "k", text, arguments)).kernel("k").run(64, 64, [image, image])
    assert (texels == np.arange(1, 65)).all()


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "type", "message"),
    [
        (ChannelOrder.CL_Rx, ChannelType.CL_FLOAT, "channel order CL_Rx and type CL_FLOAT"),
        (ChannelOrder.CL_BGRA, ChannelType.CL_FLOAT, "no image format has channel order CL_BGRA and type CL_FLOAT"),
        (
            ChannelOrder.CL_DEPTH,
            ChannelType.CL_UNORM_INT24,
            "no image format has channel order CL_DEPTH and type CL_UNORM_INT24",
        ),
        (
            ChannelOrder.CL_RGBA,
            ChannelType.CL_UNORM_SHORT_565,
            "no image format has channel order CL_RGBA and type CL_UNORM_SHORT_565",
        ),
    ],
)
def test_formats_that_the_hardware_does_not_have(order: ChannelOrder, type: ChannelType, message: str) -> None:
    with pytest.raises(WireError, match=message):
        Image(np.zeros((4, 4, 4), np.float32), order, type)


def test_arrays_that_are_no_image() -> None:
    rgba, kind = ChannelOrder.CL_RGBA, ChannelType.CL_UNORM_INT8
    with pytest.raises(WireError, match="texels of type CL_UNORM_INT8 must be uint8, not float32"):
        Image(np.zeros((4, 4, 4), np.float32), rgba, kind)
    with pytest.raises(WireError, match="the last axis of an array of CL_RGBA texels must have 4 elements, not 3"):
        Image(np.zeros((4, 4, 3), np.uint8), rgba, kind)
    with pytest.raises(WireError, match="at most 16384 texels along an axis and 8192 slices"):
        Image(np.zeros((16385, 4), np.uint8), rgba, kind)
    with pytest.raises(WireError, match="an image must have 1, 2 or 3 axes, not 4"):
        Image(np.zeros((2, 2, 2, 2), np.uint8), ChannelOrder.CL_R, kind)
    with pytest.raises(WireError, match="expected 2 sizes of 1 or more"):
        Image(np.zeros((0, 4, 4), np.uint8), rgba, kind)
    with pytest.raises(WireError, match="cannot have channel order CL_RGB with type CL_UNORM_SHORT_565"):
        Image(np.zeros(4, np.uint16), ChannelOrder.CL_RGB, ChannelType.CL_UNORM_SHORT_565, ImageKind.BUFFER_1D)
