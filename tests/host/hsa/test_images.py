"""Images and samplers of OpenCL C on AMD HSA: reads and writes of every shape, samplers, sizes, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.amdcl2 import Addressing, ChannelOrder, ChannelType, Filter, Image, ImageKind, Sampler
from softcard.core.errors import RuleError, WireError
from softcard.host.hsa.compile import compilers
from softcard.host.hsa.gpu import Gpu

pytestmark = pytest.mark.oracle
RGBA, R = ChannelOrder.CL_RGBA, ChannelOrder.CL_R
FLOAT, SIGNED, UNORM = ChannelType.CL_FLOAT, ChannelType.CL_SIGNED_INT32, ChannelType.CL_UNORM_INT8
WIDTH, HEIGHT, DEPTH = 9, 5, 3
RNG = np.random.default_rng(3)

KERNELS = """
constant sampler_t border = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;

kernel void turned(read_only image2d_t from, write_only image2d_t to, global int *size)
{
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    int2 whole = get_image_dim(from);
    write_imagef(to, at, read_imagef(from, whole - 1 - at) + read_imagef(from, border, at - (int2)(1, 0)));
    size[0] = get_image_width(from), size[1] = get_image_height(from);
    size[2] = get_image_channel_data_type(from) == CLK_FLOAT, size[3] = get_image_channel_order(to) == CLK_RGBA;
}
kernel void depths(read_only image2d_depth_t a, read_only image2d_array_depth_t b, write_only image2d_depth_t c,
                   global int *size)
{
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    float sampled = read_imagef(a, border, convert_float2(at) + 0.5f) + read_imagef(b, border, (int4)(at, 1, 0));
    write_imagef(c, at, sampled + read_imagef(a, at) * 4 + read_imagef(b, (int4)(at, 0, 0)) * 16);
    size[0] = get_image_width(a), size[1] = get_image_height(b), size[2] = get_image_array_size(b);
    size[3] = get_image_channel_order(a) == CLK_DEPTH, size[4] = get_image_dim(c).x;
}
kernel void sampled(read_only image2d_t from, sampler_t s, global float4 *out)
{
    int i = get_global_id(0);
    out[i] = read_imagef(from, s, (float2)(i * 0.125f - 0.5f, 0.3f));
}
kernel void lines(read_only image1d_t a, read_only image1d_array_t b, read_only image1d_buffer_t c,
                  write_only image1d_t d)
{
    int i = get_global_id(0);
    write_imagei(d, i, read_imagei(a, i) + read_imagei(b, (int2)(i, 1)) * 10 + read_imagei(c, i) * 100);
}
kernel void solids(read_only image3d_t a, read_only image2d_array_t b, read_write image3d_t c, global int *size)
{
    int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
    write_imageui(c, at, read_imageui(a, at) + read_imageui(b, border, at) * 1000u + read_imageui(c, at));
    size[0] = get_image_depth(a), size[1] = get_image_array_size(b);
}
"""


@pytest.fixture(scope="module", params=[("gfx900", "jit"), ("gfx803", "reference"), ("gfx700", "jit")])
def gpu(request) -> Any:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    agent, engine = request.param
    with Gpu.open(agent, threads=1, engine=engine) as opened:
        opened.code = opened.compile(KERNELS)
        yield opened


def test_two_dimensions(gpu: Gpu) -> None:
    texels = RNG.random((HEIGHT, WIDTH, 4), np.float32)
    out, size = np.zeros_like(texels), np.zeros(4, np.int32)
    gpu.run(gpu.code, "turned", (WIDTH, HEIGHT), (3, 1), [Image(texels, RGBA, FLOAT), Image(out, RGBA, FLOAT), size])
    moved = np.zeros_like(texels)
    moved[:, 1:] = texels[:, :-1]
    assert np.array_equal(out, texels[::-1, ::-1] + moved)
    assert size.tolist() == [WIDTH, HEIGHT, 1, 1]


def test_depths(gpu: Gpu) -> None:
    a, b = (RNG.integers(0, 9, shape).astype(np.float32) for shape in ((HEIGHT, WIDTH), (2, HEIGHT, WIDTH)))
    out, size, depth = np.zeros_like(a), np.zeros(5, np.int32), ChannelOrder.CL_DEPTH
    images = [Image(a, depth, FLOAT), Image(b, depth, FLOAT, ImageKind.ARRAY_2D), Image(out, depth, FLOAT)]
    gpu.run(gpu.code, "depths", (WIDTH, HEIGHT), (3, 1), [*images, size])
    assert np.array_equal(out, a * 5 + b[0] * 16 + b[1])
    assert size.tolist() == [WIDTH, HEIGHT, 2, 1, WIDTH]


def test_samplers(gpu: Gpu) -> None:
    texels = RNG.integers(0, 256, (2, 4, 4), np.uint8)
    values, at = texels[0] / np.float32(255), np.arange(32) * 0.125 - 0.5
    out = gpu.zeros((32, 4))
    gpu.run(gpu.code, "sampled", 32, args=[Image(texels, RGBA, UNORM), Sampler(True, Addressing.REPEAT), out])
    np.testing.assert_allclose(out, values[np.floor(at * 4).astype(int) % 4], rtol=1e-6)
    sampler = Sampler(False, Addressing.CLAMP_TO_EDGE, Filter.LINEAR)
    gpu.run(gpu.code, "sampled", 32, args=[Image(texels, RGBA, UNORM), sampler, out])
    low = np.floor(at - 0.5).astype(int)
    part = (at - 0.5 - low)[:, None]
    expected = values[np.clip(low, 0, 3)] * (1 - part) + values[np.clip(low + 1, 0, 3)] * part
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_one_dimension(gpu: Gpu) -> None:
    a, b, c = (RNG.integers(0, 9, shape).astype(np.int32) for shape in (70, (2, 70), 70))
    out = np.zeros(70, np.int32)
    images = [Image(a, R, SIGNED), Image(b, R, SIGNED, ImageKind.ARRAY_1D), Image(c, R, SIGNED, ImageKind.BUFFER_1D)]
    gpu.run(gpu.code, "lines", 70, args=[*images, Image(out, R, SIGNED)])
    assert np.array_equal(out, a + b[1] * 10 + c * 100)


def test_three_dimensions_and_arrays(gpu: Gpu) -> None:
    a, b, c = (RNG.integers(0, 9, (DEPTH, HEIGHT, WIDTH)).astype(np.uint32) for _ in range(3))
    size, before, kind = np.zeros(2, np.int32), c.copy(), ChannelType.CL_UNSIGNED_INT32
    images = [Image(a, R, kind), Image(b, R, kind, ImageKind.ARRAY_2D), Image(c, R, kind)]
    gpu.run(gpu.code, "solids", (WIDTH, HEIGHT, DEPTH), (WIDTH, 1, 1), [*images, size])
    assert np.array_equal(c, a + b * 1000 + before)
    assert size.tolist() == [DEPTH, DEPTH]


def test_images_are_given_back_and_refused(gpu: Gpu) -> None:
    flat, size = Image(np.zeros((4, 4, 4), np.float32), RGBA, FLOAT), np.zeros(4, np.int32)
    gpu.run(gpu.code, "turned", (1, 1), args=[flat, flat, size])
    before = [each.base for each in gpu.device.memory]
    gpu.run(gpu.code, "turned", (1, 1), args=[flat, flat, size])
    line = Image(np.zeros((4, 4), np.float32), RGBA, FLOAT)
    with pytest.raises(WireError, match="image2d_t cannot take an image of kind IMAGE_1D, at argument 0"):
        gpu.run(gpu.code, "turned", (1, 1), args=[line, flat, size])
    with pytest.raises(WireError, match="image2d_t takes an image, not a sampler"):
        gpu.run(gpu.code, "turned", (1, 1), args=[Sampler(), flat, size])
    with pytest.raises(WireError, match="sampler_t cannot take an image"):
        gpu.run(gpu.code, "sampled", 1, args=[flat, flat, size])
    with pytest.raises(WireError, match="expected an array or an address"):
        gpu.run(gpu.code, "turned", (1, 1), args=[flat, flat, flat])
    assert [each.base for each in gpu.device.memory] == before
    with pytest.raises(RuleError, match="an image or sampler has a device address during a launch only"):
        gpu.pack(gpu.code.kernel("turned"), (1, 1), args=[flat, flat, gpu.zeros(4, np.int32)])
