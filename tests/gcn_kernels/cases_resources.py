"""Models of images.ll and buffers.ll; descriptors are put together by hand from the manuals' tables."""

import numpy as np

from tests.gcn_kernels.bench import Described, In, Out, case
from tests.gcn_kernels.cases_float import SINGLE

UNORM, UINT, FLOAT = 0, 4, 7
D_32, D_8_8_8_8, D_32_32_32_32 = 4, 10, 14
IMAGE_2D, IMAGE_3D, ARRAY_2D = 9, 10, 13
XYZW = 4 | 5 << 3 | 6 << 6 | 7 << 9
R001 = 4 | 0 << 3 | 0 << 6 | 1 << 9
WRAP, CLAMP_EDGE, CLAMP_BORDER = 0, 2, 6


def image(kind, dfmt, nfmt, width, height, depth=1, select=XYZW):
    """T#: dword 0 the address in units of 256 bytes; linear, one level."""

    def words(address, level):
        pitch = width
        tiling = 0 if level == 9 else 8 << 20
        w3 = select | tiling | kind << 28
        w4 = depth - 1 | (pitch - 1) << 13
        w5 = 0 if level == 9 else depth - 1 << 13
        return address >> 8, address >> 40 | dfmt << 20 | nfmt << 26, width - 1 | height - 1 << 14, w3, w4, w5, 0, 0

    return words


def sampler(clamp, linear):
    """S#: the clamp for all directions, normalised coordinates, all levels, transparent black as border."""
    filters = (1 << 20 | 1 << 22) if linear else 0
    return np.array([clamp | clamp << 3 | clamp << 6, 0xFFF << 12, filters, 0], np.uint32)


def buffer(size, stride=0, dfmt=D_32, nfmt=UINT, select=XYZW):
    """V#: `size` in bytes, or in records where there is a stride."""

    def words(address, level):
        records = size
        if stride and level == 8:
            records = size * stride  # GFX8 counts bytes where nothing is swizzled
        return address & 0xFFFFFFFF, address >> 32 | stride << 16, records, select | nfmt << 12 | dfmt << 15

    return words


@case("images.ll", 64, portable=False)
def image_load(rng):
    texels = rng.integers(0, 256, (8, 64, 4)).astype(np.uint8)  # rows of 64 texels, 8 of them used
    out = (texels[:, :8].reshape(64, 4).astype(np.float64) / 255).astype(SINGLE)
    return Described(In(texels), image(IMAGE_2D, D_8_8_8_8, UNORM, 64, 8)), Out(out)


@case("images.ll", 64, portable=False)
def image_store(rng):
    values = rng.uniform(-0.2, 1.2, (64, 4)).astype(SINGLE)
    texels = np.zeros((8, 64, 4), np.uint8)
    texels[:, :8] = np.rint(np.clip(values.astype(np.float64), 0, 1) * 255).reshape(8, 8, 4)
    start = np.zeros_like(texels)
    return Described(Out(texels, initial=start), image(IMAGE_2D, D_8_8_8_8, UNORM, 64, 8)), In(values)


@case("images.ll", 64, portable=False)
def image_array(rng):
    texels = rng.integers(0, 256, (3, 8, 64, 4)).astype(np.uint8)
    out = np.array([texels[i % 3, i // 8, i % 8] for i in range(64)], np.uint32)
    return Described(In(texels), image(ARRAY_2D, D_8_8_8_8, UINT, 64, 8, 3)), Out(out)


@case("images.ll", 64, portable=False)
def image_volume(rng):
    texels = rng.uniform(-9, 9, (4, 4, 64)).astype(SINGLE)
    out = texels[:, :, :4].reshape(64).copy()
    return Described(In(texels), image(IMAGE_3D, D_32, FLOAT, 64, 4, 4, R001)), Out(out)


def bilinear(texels, u, v):
    """At normalised coordinates, the edge repeated outside."""
    height, width = texels.shape[:2]
    x, y = u * width - 0.5, v * height - 0.5
    x0, y0 = int(np.floor(x)), int(np.floor(y))
    fx, fy = x - x0, y - y0

    def at(row, column):
        return texels[min(max(row, 0), height - 1), min(max(column, 0), width - 1)].astype(np.float64)

    top = at(y0, x0) * (1 - fx) + at(y0, x0 + 1) * fx
    return top * (1 - fy) + (at(y0 + 1, x0) * (1 - fx) + at(y0 + 1, x0 + 1) * fx) * fy


@case("images.ll", 64, portable=False)
def image_sample(rng):
    texels = rng.integers(0, 256, (8, 64, 4)).astype(np.uint8)
    # Sixteenths of a texel: the weights are exact in the 8 bits that hardware gives them.
    at = np.stack(
        [rng.integers(-32, 64 * 16 + 32, 64) / 1024, rng.integers(-32, 8 * 16 + 32, 64) / 128], axis=1
    ).astype(SINGLE)
    out = np.array([bilinear(texels / 255.0, float(u), float(v)) for u, v in at]).astype(SINGLE)
    words = image(IMAGE_2D, D_8_8_8_8, UNORM, 64, 8)
    return Described(In(texels), words), In(sampler(CLAMP_EDGE, True)), In(at), Out(out, absolute=1e-6)


@case("images.ll", 64, portable=False)
def image_gather(rng):
    texels = rng.uniform(0, 1, (8, 64)).astype(SINGLE)
    cells = rng.integers(0, 7, 64)
    columns = rng.integers(0, 63, 64)
    # Coordinates in the middle between four texels: 01 11 10 00, counted from the lower left.
    at = np.stack([(columns + 1) / 64, (cells + 1) / 8], axis=1).astype(SINGLE)
    out = np.stack(
        [
            texels[cells + 1, columns],
            texels[cells + 1, columns + 1],
            texels[cells, columns + 1],
            texels[cells, columns],
        ],
        axis=1,
    )
    words = image(IMAGE_2D, D_32, FLOAT, 64, 8, 1, R001)
    return Described(In(texels), words), In(sampler(CLAMP_EDGE, False)), In(at), Out(out)


@case("images.ll", 128, portable=False)
def image_count(rng):
    n = rng.integers(0, 16, 128).astype(np.uint32)
    counts = np.zeros((2, 64), np.uint32)
    counts[:, :8] = np.bincount(n, minlength=16).reshape(2, 8)
    words = image(IMAGE_2D, D_32, UINT, 64, 2, 1, R001)
    return Described(Out(counts, initial=np.zeros_like(counts)), words), In(n)


@case("images.ll", 64, portable=False)
def image_size(rng):
    words = image(IMAGE_2D, D_32, UINT, 64, 2, 1, R001)
    return Described(In(np.zeros((2, 64), np.uint32)), words), Out(np.array([64, 2, 1, 1], np.uint32))


@case("buffers.ll", 64, portable=False)
def buffer_raw(rng):
    data = rng.integers(0, 1 << 32, 256, np.uint64).astype(np.uint32)
    limit = 300  # bytes
    out = np.array(
        [[data[4 + 2 * i + k] if 16 + 8 * i + 4 * k < limit else 0 for k in range(2)] for i in range(64)], np.uint32
    )
    return Described(In(data), buffer(limit)), Out(out)


@case("buffers.ll", 64, portable=False)
def buffer_store(rng):
    start = rng.integers(0, 1 << 32, 256, np.uint64).astype(np.uint32)
    after = start.copy()
    reached = [i for i in range(64) if 12 * i < 400]
    after[[3 * i for i in reached]] = reached
    return Described(Out(after, initial=start), buffer(400)), np.uint32(12)


@case("buffers.ll", 64, portable=False)
def buffer_struct(rng):
    data = rng.integers(0, 1 << 32, (70, 3), np.uint64).astype(np.uint32)
    out = np.array([data[i + 1, 2] if i + 1 < 50 else 0 for i in range(64)], np.uint32)
    return Described(In(data), buffer(50, stride=12)), Out(out)


@case("buffers.ll", 64, portable=False)
def buffer_format(rng):
    data = rng.integers(0, 256, (64, 4)).astype(np.uint8)
    values = (data.astype(np.float64) / 255).astype(SINGLE)
    read = buffer(64, 4, D_8_8_8_8, UNORM)
    write = buffer(64, 16, D_32_32_32_32, FLOAT)
    return Described(In(data), read), Described(Out(values), write), Out(values)


@case("buffers.ll", 64, portable=False)
def buffer_typed(rng):
    data = rng.integers(0, 256, (64, 4)).astype(np.uint8)
    return Described(In(data), buffer(256)), Out(data.astype(np.uint32))


@case("buffers.ll", 64, portable=False)
def buffer_count(rng):
    n = rng.integers(0, 16, 64).astype(np.uint32)
    counts = np.bincount(n, minlength=16).astype(np.uint32)
    after = np.where(np.arange(16) < 12, counts, 0).astype(np.uint32)
    return Described(Out(after, initial=np.zeros(16, np.uint32)), buffer(48)), In(n)


@case("buffers.ll", 64, portable=False)
def buffer_scalar(rng):
    data = rng.integers(0, 1000, 64).astype(np.uint32)
    return Described(In(data), buffer(256)), Out((data[9] * np.arange(64)).astype(np.uint32)), np.uint32(36)
