"""Images and samplers, called without the C library: values as NumPy computes them."""

import re
import struct

import numpy as np
import pytest

from softcard.core.space import host_address
from softcard.host.opencl import constants as cl
from softcard.host.opencl.errors import OpenClError
from softcard.host.opencl.image_commands import texel_of
from softcard.host.opencl.images import KINDS, known_formats
from tests.host.opencl.program import Program, arguments, handle, value

NONE = (0, 0)
RGBA8 = (cl.RGBA, cl.UNSIGNED_INT8)
SHAPES = {
    cl.MEM_OBJECT_IMAGE1D: (1, 1, 37),
    cl.MEM_OBJECT_IMAGE1D_ARRAY: (1, 5, 37),
    cl.MEM_OBJECT_IMAGE2D: (1, 6, 37),
    cl.MEM_OBJECT_IMAGE2D_ARRAY: (3, 6, 37),
    cl.MEM_OBJECT_IMAGE3D: (4, 6, 37),
}
"""The sizes of images in the tests, by kind: those of regions, slowest axis first."""
TYPES = {
    cl.MEM_OBJECT_IMAGE1D: ("image1d_t", "p.x"),
    cl.MEM_OBJECT_IMAGE1D_ARRAY: ("image1d_array_t", "p.xy"),
    cl.MEM_OBJECT_IMAGE2D: ("image2d_t", "p.xy"),
    cl.MEM_OBJECT_IMAGE2D_ARRAY: ("image2d_array_t", "p"),
    cl.MEM_OBJECT_IMAGE3D: ("image3d_t", "p"),
    cl.MEM_OBJECT_IMAGE1D_BUFFER: ("image1d_buffer_t", "p.x"),
}
WORK_ITEM = "int4 p = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);"
SOURCE = "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable\n" + "".join(
    f"""
kernel void add_{kind:x}(read_only {type} from, write_only {type} to, uint4 more) {{
    {WORK_ITEM} write_imageui(to, {at}, read_imageui(from, {at}) + more);
}}
"""
    for kind, (type, at) in TYPES.items()
) + f"""
kernel void store_f(write_only image2d_t to, float4 first, float4 second) {{
    write_imagef(to, (int2)(0, 0), first); write_imagef(to, (int2)(0, 1), second);
}}
kernel void store_i(write_only image2d_t to, int4 first, int4 second) {{
    write_imagei(to, (int2)(0, 0), first); write_imagei(to, (int2)(0, 1), second);
}}
kernel void store_u(write_only image2d_t to, uint4 first, uint4 second) {{
    write_imageui(to, (int2)(0, 0), first); write_imageui(to, (int2)(0, 1), second);
}}
kernel void sample(read_only image2d_t from, sampler_t how, float2 at, global float4 *to) {{
    *to = read_imagef(from, how, at);
}}
kernel void facts(read_only image2d_array_t from, global int *to) {{
    to[0] = get_image_width(from); to[1] = get_image_height(from); to[2] = get_image_array_size(from);
    to[3] = get_image_channel_order(from); to[4] = get_image_channel_data_type(from);
}}
kernel void change(read_write image2d_t i) {{ {WORK_ITEM} write_imageui(i, p.xy, read_imageui(i, p.xy) * 2); }}
kernel void branch(read_only image2d_t from, global int *to) {{
    {WORK_ITEM} if (read_imageui(from, p.xy).x > 50) to[0] = 1;
}}
kernel void deep(read_only image2d_depth_t from, global float *to) {{ *to = 1; }}
"""  # fmt: skip


class World:
    """A program with a context, a queue and the kernels of `SOURCE`."""

    def __init__(self, **options):
        self.program = program = Program("gfx900", "gfx906", **options)
        self.context = program.call("clCreateContext", None, program.devices[:1], NONE)
        self.queue = program.call("clCreateCommandQueue", self.context, program.devices[0], 0)
        self._built = None

    def call(self, name, *given):
        return self.program.call(name, *given)

    def kernel(self, name):
        if self._built is None:
            self._built = self.call("clCreateProgramWithSource", self.context, SOURCE.encode())
            self.call("clBuildProgram", self._built, None, b"-cl-std=CL2.0", NONE)
        return self.call("clCreateKernel", self._built, name.encode())

    def image(self, kind, shape, form=RGBA8, flags=0, host=None, pitches=(0, 0), source=0, context=None):
        """An image of a shape in the axes of regions, slowest first."""
        desc = description(kind, shape, pitches, source)
        place = 0 if host is None else host_address(host)
        return self.call("clCreateImage", context or self.context, flags, struct.pack("<II", *form), desc, place)

    def launch(self, name, size, *values):
        size = (*size, *(1,) * (3 - len(size)))
        self.call(
            "clEnqueueNDRangeKernel", self.queue, self.kernel(name), 3, None, size, None, None, arguments(*values), NONE
        )

    def write(self, image, array, origin=(0, 0, 0), pitches=(0, 0), size=None):
        size = size or array.shape[:3][::-1]
        self.call("clEnqueueWriteImage", self.queue, image, 1, origin, size, *pitches, host_address(array), None, NONE)

    def read(self, image, shape, dtype=np.uint8, words=4, origin=(0, 0, 0), size=None, pitches=(0, 0)):
        found = np.zeros((*shape, words), dtype)
        size = size or shape[::-1]
        self.call("clEnqueueReadImage", self.queue, image, 1, origin, size, *pitches, host_address(found), None, NONE)
        return found

    def finish(self):
        self.call("clFinish", self.queue)

    def forget(self, made):
        self.finish()
        self.program.forget(made.handle)


def description(kind, shape, pitches=(0, 0), source=0, levels=0, samples=0):
    """A structure cl_image_desc for sizes in the axes of regions, slowest first."""
    depth, height, width = shape
    slices = height if kind == cl.MEM_OBJECT_IMAGE1D_ARRAY else depth
    return struct.pack("<I4x6QIIQ", kind, width, height, depth, slices, *pitches, levels, samples, source)


@pytest.fixture(scope="module")
def world():
    made = World()
    yield made
    made.program.close()


def random(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 100, (*shape, 4), np.uint8)


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SHAPES)
def test_kernels_read_and_write_images_of_each_kind(world, kind):
    shape, more = SHAPES[kind], np.array([1, 2, 3, 4], np.uint32)
    texels = random(shape)
    source = world.image(kind, shape, flags=cl.MEM_READ_ONLY | cl.MEM_COPY_HOST_PTR, host=texels)
    target = world.image(kind, shape, flags=cl.MEM_WRITE_ONLY)
    world.launch(f"add_{kind:x}", shape[::-1], handle(source), handle(target), value(more.tobytes()))
    assert (world.read(target, shape) == texels + more).all()
    assert not world.program.shown


@pytest.mark.parametrize("kind", SHAPES)
def test_a_region_is_written_and_read_with_pitches(world, kind):
    shape = SHAPES[kind]
    texels = random(shape)
    image = world.image(kind, shape, host=texels, flags=cl.MEM_COPY_HOST_PTR)
    origin = tuple(min(1, size - 1) for size in shape[::-1])
    size = tuple(max(1, count - 2) for count in shape[::-1])
    patch = random((size[2], size[1] + 1, size[0] + 3), 1)  # rows with three more texels, slices with one more row
    row, slice = patch.strides[1], patch.strides[0]
    is_lines = kind == cl.MEM_OBJECT_IMAGE1D_ARRAY
    pitches = (row, row if is_lines else slice if shape[0] > 1 else 0)
    world.write(image, patch, origin, pitches, size)
    part = tuple(np.s_[at : at + count] for at, count in zip(origin[::-1], size[::-1], strict=True))
    texels[part] = patch[:, : size[1], : size[0]]
    assert (world.read(image, shape) == texels).all()
    found = world.read(image, patch.shape[:3], origin=origin, size=size, pitches=pitches)
    assert (found[:, : size[1], : size[0]] == texels[part]).all()
    assert not found[:, :, size[0] :].any()


def test_host_memory_has_pitches(world):
    """Rows of 40 texels and slices of 7 rows in the program's memory."""
    texels = random((4, 7, 40))
    image = world.image(
        cl.MEM_OBJECT_IMAGE3D, (4, 6, 37), flags=cl.MEM_COPY_HOST_PTR, host=texels, pitches=texels.strides[1::-1]
    )
    assert (world.read(image, (4, 6, 37)) == texels[:, :6, :37]).all()
    info = [world.call("clGetImageInfo", image, name) for name in (cl.IMAGE_ROW_PITCH, cl.IMAGE_SLICE_PITCH)]
    assert [int.from_bytes(each, "little") for each in info] == [160, 1120]


def test_lines_of_an_array_have_a_slice_pitch(world):
    texels = random((1, 5, 40))
    image = world.image(
        cl.MEM_OBJECT_IMAGE1D_ARRAY, (1, 5, 37), flags=cl.MEM_COPY_HOST_PTR, host=texels, pitches=(160, 160)
    )
    assert (world.read(image, (1, 5, 37)) == texels[:, :, :37]).all()


def test_a_fill_stores_what_a_kernel_stores():
    """In all formats that kernels write, with values in and out of the format's range."""
    world = World(engine="reference")  # translated code would be made anew for each format
    known = known_formats(cl.MEM_OBJECT_IMAGE2D, cl.MEM_WRITE_ONLY)
    assert len(known) > 80
    floats = np.array([[0.25, -0.7, 1.5, 0.9], [1e-3, 0.5019, -3.0, 70000.0]], np.float32)
    integers = np.array([[1, 70000, 3, 200], [0x80000000, 0xFFFFFFFE, 17, 0x7FFF]], np.uint32)
    for structure, form in known:
        if form.order.name == "CL_DEPTH":
            continue
        type = form.type.name
        kernel = "store_u" if "UNSIGNED" in type else "store_i" if "_SIGNED" in type else "store_f"
        image = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 2, 2), struct.unpack("<II", structure))
        colors = floats if kernel == "store_f" else integers
        world.launch(kernel, (1,), handle(image), *(value(each.tobytes()) for each in colors))
        for y, each in enumerate(colors):
            world.call("clEnqueueFillImage", world.queue, image, each.tobytes(), (1, y, 0), (1, 1, 1), None, NONE)
        found = world.read(image, (1, 2, 2), words=form.texel_bytes)[0]
        assert (found[:, 0] == found[:, 1]).all(), (form.order.name, type)
    world.program.close()


def test_a_fill_color_is_converted():
    by_format = {struct.unpack("<II", data): form for data, form in known_formats(cl.MEM_OBJECT_IMAGE2D, 0x4)}
    color = np.array([1, 0.5, 0.25, 0.75], np.float32).tobytes()
    assert texel_of(by_format[cl.BGRA, cl.UNORM_INT8], color).tolist() == [64, 128, 255, 191]
    assert texel_of(by_format[cl.RGB, cl.UNORM_SHORT_565], color).view(np.uint16)[0] == 31 << 11 | 32 << 5 | 8
    assert texel_of(by_format[cl.SRGBA, cl.UNORM_INT8], color).tolist() == [255, 188, 137, 191]
    assert texel_of(by_format[cl.A, cl.HALF_FLOAT], color).view(np.float16)[0] == 0.75


def test_a_region_is_filled(world):
    image = world.image(cl.MEM_OBJECT_IMAGE2D_ARRAY, (3, 6, 37), flags=cl.MEM_COPY_HOST_PTR, host=random((3, 6, 37)))
    color = np.array([9, 8, 7, 6], np.uint32)
    world.call("clEnqueueFillImage", world.queue, image, color.tobytes(), (5, 1, 1), (4, 3, 2), None, NONE)
    expected = random((3, 6, 37))
    expected[1:3, 1:4, 5:9] = color
    assert (world.read(image, (3, 6, 37)) == expected).all()


def test_regions_are_copied_between_images_and_buffers(world):
    texels = random((4, 6, 37))
    volume = world.image(cl.MEM_OBJECT_IMAGE3D, (4, 6, 37), flags=cl.MEM_COPY_HOST_PTR, host=texels)
    plane = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 8, 40), flags=cl.MEM_COPY_HOST_PTR, host=random((1, 8, 40), 2))
    lines = world.image(cl.MEM_OBJECT_IMAGE1D_ARRAY, (1, 5, 37))
    call, queue = world.call, world.queue
    call("clEnqueueCopyImage", queue, volume, plane, (3, 1, 2), (4, 2, 0), (20, 5, 1), None, NONE)
    expected = random((1, 8, 40), 2)
    expected[0, 2:7, 4:24] = texels[2, 1:6, 3:23]
    assert (world.read(plane, (1, 8, 40)) == expected).all()
    call("clEnqueueCopyImage", queue, plane, lines, (0, 3, 0), (0, 0, 0), (37, 5, 1), None, NONE)
    assert (world.read(lines, (1, 5, 37)) == expected[:, 3:, :37]).all()
    call("clEnqueueCopyImage", queue, plane, plane, (0, 0, 0), (20, 0, 0), (20, 8, 1), None, NONE)
    expected[:, :, 20:] = expected[:, :, :20]
    assert (world.read(plane, (1, 8, 40)) == expected).all()
    buffer = world.program.buffer(world.context, 4096)
    call("clEnqueueCopyImageToBuffer", queue, volume, buffer, (1, 2, 1), (10, 3, 2), 16, None, NONE)
    flat = np.empty(240, np.uint8)
    call("clEnqueueReadBuffer", queue, buffer, 1, 16, 240, host_address(flat), None, NONE)
    assert (flat.reshape(2, 3, 10, 4) == texels[1:3, 2:5, 1:11]).all()
    call("clEnqueueCopyBufferToImage", queue, buffer, volume, 16, (20, 0, 2), (10, 3, 2), None, NONE)
    texels[2:4, :3, 20:30] = flat.reshape(2, 3, 10, 4)
    assert (world.read(volume, (4, 6, 37)) == texels).all()


@pytest.mark.parametrize("kind", [cl.MEM_OBJECT_IMAGE1D_BUFFER, cl.MEM_OBJECT_IMAGE2D])
def test_an_image_shares_the_memory_of_a_buffer(world, kind):
    texels = random((1, 3, 256))
    buffer = world.program.buffer(world.context, texels.nbytes, host=texels)
    shape = (1, 3, 200) if kind == cl.MEM_OBJECT_IMAGE2D else (1, 1, 700)
    rows = 1024 if kind == cl.MEM_OBJECT_IMAGE2D else 0
    image = world.image(kind, shape, source=buffer.handle, pitches=(rows, 0))
    target = world.image(
        kind, shape, source=world.program.buffer(world.context, texels.nbytes).handle, pitches=(rows, 0)
    )
    more = np.ones(4, np.uint32)
    world.launch(f"add_{kind:x}", shape[::-1], handle(image), handle(target), value(more.tobytes()))
    expected = texels[:, :, :200] if rows else texels.reshape(1, 1, 768, 4)[:, :, :700]
    assert (world.read(image, shape) == expected).all()
    assert (world.read(target, shape) == expected + 1).all()
    world.call("clEnqueueFillBuffer", world.queue, buffer, b"\5", 0, 1024, None, NONE)
    assert (world.read(image, shape)[0, 0, :200] == 5).all()
    info = world.call("clGetImageInfo", image, cl.IMAGE_BUFFER) + world.call(
        "clGetMemObjectInfo", image, cl.MEM_ASSOCIATED_MEMOBJECT
    )
    assert struct.unpack("<QQ", info) == (buffer.handle, buffer.handle)
    world.program.forget(buffer.handle)
    assert (world.read(image, shape)[0, 0, :200] == 5).all()  # the image keeps the buffer's memory


def test_an_image_shares_the_texels_of_another_one(world):
    texels = np.full((1, 4, 8, 4), 188, np.uint8)
    linear = world.image(
        cl.MEM_OBJECT_IMAGE2D, (1, 4, 8), (cl.RGBA, cl.UNORM_INT8), cl.MEM_USE_HOST_PTR | cl.MEM_READ_ONLY, texels
    )
    view = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 4, 8), (cl.SRGBA, cl.UNORM_INT8), source=linear.handle)
    assert sampled(world, view, (0.5, 0.5))[0] == pytest.approx(0.502886, abs=1e-5)
    assert sampled(world, linear, (0.5, 0.5))[0] == pytest.approx(188 / 255)
    pointer, *pitches = mapped(world, view, (2, 1, 0), (1, 1, 1), cl.MAP_READ)
    assert (pointer, pitches) == (host_address(texels) + 40, [32, 0])
    found = struct.unpack("<Q", world.call("clGetImageInfo", view, cl.IMAGE_BUFFER))
    assert found == (0,)


# ---- samplers --------------------------------------------------------------------------------------------------------


def sampled(world, image, at, normalized=0, addressing=cl.ADDRESS_CLAMP, filter=cl.FILTER_NEAREST):
    sampler = world.call("clCreateSampler", world.context, normalized, addressing, filter)
    buffer = world.program.buffer(world.context, 16)
    place = np.array(at, np.float32).tobytes()
    world.launch("sample", (1,), handle(image), handle(sampler), value(place), handle(buffer))
    found = np.empty(4, np.float32)
    world.call("clEnqueueReadBuffer", world.queue, buffer, 1, 0, 16, host_address(found), None, NONE)
    return found


def test_samplers_select_texels(world):
    ramp = np.arange(8, dtype=np.float32).reshape(1, 2, 4, 1)
    image = world.image(
        cl.MEM_OBJECT_IMAGE2D, (1, 2, 4), (cl.R, cl.FLOAT), cl.MEM_COPY_HOST_PTR | cl.MEM_READ_ONLY, ramp
    )
    values = [
        sampled(world, image, at, *how)[0]
        for at, how in (
            ((1.5, 1.5), ()),
            ((-1, 0), ()),
            ((-1, 0), (0, cl.ADDRESS_CLAMP_TO_EDGE)),
            ((1.0, 0.5), (0, cl.ADDRESS_CLAMP_TO_EDGE, cl.FILTER_LINEAR)),
            ((1.125, 0.25), (1, cl.ADDRESS_REPEAT)),
            ((1.375, 0.25), (1, cl.ADDRESS_MIRRORED_REPEAT)),
            ((0.625, 0.75), (1, cl.ADDRESS_NONE)),
        )
    ]
    assert values == [5, 0, 0, 0.5, 0, 2, 6]
    assert (sampled(world, image, (-5, -5)) == [0, 0, 0, 1]).all()  # the border of CL_R is opaque
    device = world.program.devices[0]
    first, second = (world.call("clCreateSampler", world.context, 1, cl.ADDRESS_NONE, cl.FILTER_LINEAR) for _ in "ab")
    assert first.argument(device) == second.argument(device)


def test_samplers_tell_about_themselves(world):
    made = world.call("clCreateSamplerWithProperties", world.context, (cl.SAMPLER_FILTER_MODE, cl.FILTER_LINEAR))
    names = (cl.SAMPLER_NORMALIZED_COORDS, cl.SAMPLER_ADDRESSING_MODE, cl.SAMPLER_FILTER_MODE)
    found = [int.from_bytes(world.call("clGetSamplerInfo", made, name), "little") for name in names]
    assert found == [cl.TRUE, cl.ADDRESS_CLAMP, cl.FILTER_LINEAR]
    assert world.call("clGetSamplerInfo", made, cl.SAMPLER_CONTEXT) == struct.pack("<Q", world.context.handle)
    properties = world.call("clGetSamplerInfo", made, cl.SAMPLER_PROPERTIES)
    assert properties == struct.pack("<3Q", cl.SAMPLER_FILTER_MODE, cl.FILTER_LINEAR, 0)
    plain = world.call("clCreateSampler", world.context, 0, cl.ADDRESS_NONE, cl.FILTER_NEAREST)
    assert world.call("clGetSamplerInfo", plain, cl.SAMPLER_PROPERTIES) == b""


# ---- mapping ---------------------------------------------------------------------------------------------------------


def mapped(world, image, origin, size, flags):
    found = world.call("clEnqueueMapImage", world.queue, image, 1, flags, origin, size, 1, 1, None, NONE)
    world.call("clEnqueueUnmapMemObject", world.queue, image, found[0], None, NONE)
    return found


def test_a_map_gives_the_pitches(world):
    texels = random((4, 6, 37))
    image = world.image(cl.MEM_OBJECT_IMAGE3D, (4, 6, 37), flags=cl.MEM_COPY_HOST_PTR, host=texels)
    call, queue = world.call, world.queue
    pointer, row, slice = call(
        "clEnqueueMapImage", queue, image, 1, cl.MAP_READ | cl.MAP_WRITE, (1, 2, 1), (3, 2, 2), 1, 1, None, NONE
    )
    assert (row, slice) == (256, 6 * 256)
    data = world.program.platform.arena.bytes(pointer, slice + row + 12)
    view = np.lib.stride_tricks.as_strided(data, (2, 2, 3, 4), (slice, row, 4, 1))
    assert (view == texels[1:3, 2:4, 1:4]).all()
    view[...] = 77
    call("clEnqueueUnmapMemObject", queue, image, pointer, None, NONE)
    texels[1:3, 2:4, 1:4] = 77
    assert (world.read(image, (4, 6, 37)) == texels).all()


def test_memory_of_the_program_is_copied_when_an_image_is_mapped(world):
    texels = random((1, 5, 40))
    kind = cl.MEM_OBJECT_IMAGE1D_ARRAY
    image = world.image(kind, (1, 5, 37), flags=cl.MEM_USE_HOST_PTR, host=texels, pitches=(160, 160))
    world.launch(f"add_{kind:x}", (37, 5), handle(image), handle(image), value(np.ones(4, np.uint32).tobytes()))
    call, queue, expected = world.call, world.queue, texels.copy()
    world.finish()
    assert (texels == expected).all()
    region = (queue, image, 1, cl.MAP_READ | cl.MAP_WRITE, (2, 1, 0), (30, 2, 1), 1, 1, None, NONE)
    pointer, *pitches = call("clEnqueueMapImage", *region)
    expected[:, 1:3, 2:32] += 1
    assert (pointer, pitches) == (host_address(texels) + 160 + 8, [160, 160])
    assert (texels == expected).all()
    texels[0, 1, 2] = 200
    call("clEnqueueUnmapMemObject", queue, image, pointer, None, NONE)
    assert (world.read(image, (1, 1, 1), origin=(2, 1, 0)) == 200).all()


# ---- objects ---------------------------------------------------------------------------------------------------------


def test_a_launch_copies_no_texels_and_release_frees_all(world):
    image = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37))
    device = world.program.devices[0]
    assert image.argument(device) == image.argument(device)
    place, texels = image.argument(device), image.on(device)
    assert device.gpu.device.block(place)
    world.forget(image)
    assert device.gpu.device.block(place) is None
    assert device.gpu.device.block(texels) is None


def test_a_kernel_reads_and_writes_the_same_image(world):
    texels = random((1, 6, 37))
    image = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), flags=cl.MEM_COPY_HOST_PTR, host=texels)
    world.launch("change", (37, 6), handle(image))
    assert (world.read(image, (1, 6, 37)) == texels * 2).all()


def test_a_depth_image_holds_one_number(world):
    image = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 1, 1), (cl.DEPTH, cl.FLOAT))
    world.call("clEnqueueFillImage", world.queue, image, struct.pack("<f", 0.25), (0, 0, 0), (1, 1, 1), None, NONE)
    assert world.read(image, (1, 1, 1), np.float32, 1) == 0.25
    assert world.call("clSetKernelArg", world.kernel("deep"), 0, 8, handle(image)[1])


def test_images_tell_about_themselves(world):
    image = world.image(cl.MEM_OBJECT_IMAGE2D_ARRAY, (3, 6, 37))
    names = ("ELEMENT_SIZE", "ROW_PITCH", "SLICE_PITCH", "WIDTH", "HEIGHT", "DEPTH", "ARRAY_SIZE", "BUFFER",
             "NUM_MIP_LEVELS", "NUM_SAMPLES")  # fmt: skip
    found = [world.call("clGetImageInfo", image, getattr(cl, f"IMAGE_{name}")) for name in names]
    assert [int.from_bytes(each, "little") for each in found] == [4, 148, 888, 37, 6, 0, 3, 0, 0, 0]
    assert [len(each) for each in found] == [8] * 8 + [4] * 2
    assert struct.unpack("<II", world.call("clGetImageInfo", image, cl.IMAGE_FORMAT)) == RGBA8
    assert world.call("clGetMemObjectInfo", image, cl.MEM_TYPE) == struct.pack("<I", cl.MEM_OBJECT_IMAGE2D_ARRAY)
    assert struct.unpack("<Q", world.call("clGetMemObjectInfo", image, cl.MEM_SIZE)) == (3 * 6 * 256,)
    buffer = world.program.buffer(world.context, 20)
    world.launch("facts", (1,), handle(image), handle(buffer))
    facts = np.empty(5, np.int32)
    world.call("clEnqueueReadBuffer", world.queue, buffer, 1, 0, 20, host_address(facts), None, NONE)
    assert facts.tolist() == [37, 6, 3, *RGBA8]


def test_objects_that_arguments_accept_alike_have_equal_numbers(world):
    plain = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37)).number
    assert plain == world.image(cl.MEM_OBJECT_IMAGE2D, (1, 2, 3), (cl.R, cl.FLOAT)).number
    others = {
        world.image(cl.MEM_OBJECT_IMAGE3D, (2, 6, 37)).number,
        world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), flags=cl.MEM_READ_ONLY).number,
        world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), flags=cl.MEM_WRITE_ONLY).number,
        world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), (cl.DEPTH, cl.FLOAT)).number,
        world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), (cl.SRGBA, cl.UNORM_INT8), cl.MEM_READ_ONLY).number,
    }
    assert len(others | {plain}) == 6
    assert max(others) < 1 << 24


INTEGERS = {cl.SIGNED_INT8, cl.SIGNED_INT16, cl.SIGNED_INT32, cl.UNSIGNED_INT8, cl.UNSIGNED_INT16, cl.UNSIGNED_INT32}
REQUIRED = {(cl.RGBA, kind) for kind in {cl.UNORM_INT8, cl.UNORM_INT16, cl.HALF_FLOAT, cl.FLOAT} | INTEGERS}
REQUIRED |= {(cl.BGRA, cl.UNORM_INT8)}
IN_ONE_KERNEL = {
    (order, kind) for order in (cl.R, cl.RGBA) for kind in INTEGERS | {cl.UNORM_INT8, cl.HALF_FLOAT, cl.FLOAT}
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_required_formats_are_supported(world, kind):
    """The minimum lists of the full profile of OpenCL 3.0, and the formats that kinds of images lack."""
    found = {}
    for flags in (0, cl.MEM_READ_ONLY, cl.MEM_WRITE_ONLY, cl.MEM_KERNEL_READ_AND_WRITE):
        data = world.call("clGetSupportedImageFormats", world.context, flags, kind, 100)
        found[flags] = set(struct.iter_unpack("<II", data))
        assert found[flags] >= REQUIRED
    assert found[cl.MEM_KERNEL_READ_AND_WRITE] >= IN_ONE_KERNEL
    is_flat = kind in (cl.MEM_OBJECT_IMAGE2D, cl.MEM_OBJECT_IMAGE2D_ARRAY)
    assert ((cl.DEPTH, cl.FLOAT) in found[0]) == is_flat
    srgb, is_buffer = (cl.SRGBA, cl.UNORM_INT8), kind == cl.MEM_OBJECT_IMAGE1D_BUFFER
    assert [srgb in found[flags] for flags in (0, cl.MEM_READ_ONLY)] == [False, not is_buffer]
    assert ((cl.RGB, cl.UNORM_SHORT_565) in found[0]) == (not is_buffer)


def test_images_of_opencl_1_1(world):
    texels = random((4, 6, 37))
    form = struct.pack("<II", *RGBA8)
    place = host_address(texels)
    flags = cl.MEM_COPY_HOST_PTR
    plane = world.call("clCreateImage2D", world.context, flags, form, 37, 6, 0, place)
    assert (world.read(plane, (1, 6, 37)) == texels[:1]).all()
    volume = world.call("clCreateImage3D", world.context, flags, form, 37, 6, 4, 0, 0, place)
    assert (world.read(volume, (4, 6, 37)) == texels).all()


def test_unwritten_texels_are_undefined():
    """A write of a region makes its texels defined, but not their neighbours."""
    world = World(check="init")
    image = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37))
    buffer = world.program.buffer(world.context, 4, flags=cl.MEM_COPY_HOST_PTR, host=np.zeros(1, np.int32))
    world.write(image, random((1, 4, 20)), (3, 1, 0))
    for x, is_defined in ((3, True), (4, False)):
        world.call(
            "clEnqueueNDRangeKernel", world.queue, world.kernel("branch"), 3, (x, 1, 0), (20, 4, 1), None, None,
            arguments(handle(image), handle(buffer)), NONE,
        )  # fmt: skip
        world.finish()
        assert (not world.program.shown) == is_defined
    world.program.close()


def test_image_instructions_run_under_the_check_of_races():
    """Work-groups that run speculatively specialise image instructions too."""
    world = World(check="races")
    texels = random((1, 33, 50))
    source = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 33, 50), flags=cl.MEM_COPY_HOST_PTR, host=texels)
    target = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 33, 50))
    more = value(np.ones(4, np.uint32).tobytes())
    world.launch(f"add_{cl.MEM_OBJECT_IMAGE2D:x}", (50, 33), handle(source), handle(target), more)
    assert (world.read(target, (1, 33, 50)) == texels + 1).all()
    assert not world.program.shown
    world.program.close()


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def given(world):
    """Objects for refusals by name."""
    found = {"world": world, "context": world.context, "queue": world.queue}
    found["other"] = world.call("clCreateContext", None, world.program.devices[1:], NONE)
    found["plane"] = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37))
    found["volume"] = world.image(cl.MEM_OBJECT_IMAGE3D, (4, 6, 37))
    found["lines"] = world.image(cl.MEM_OBJECT_IMAGE1D_ARRAY, (1, 6, 37))
    found["red"] = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), (cl.R, cl.FLOAT))
    found["read"] = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), flags=cl.MEM_READ_ONLY)
    found["depth"] = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), (cl.DEPTH, cl.FLOAT))
    found["buffer"] = world.program.buffer(world.context, 4096)
    found["foreign"] = world.program.buffer(found["other"], 4096)
    found["hidden"] = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), flags=cl.MEM_HOST_NO_ACCESS)
    found["line"] = world.image(cl.MEM_OBJECT_IMAGE1D_BUFFER, (1, 1, 100), source=found["buffer"].handle)
    sub = np.array([128, 2048], np.uint64).tobytes()
    found["sub"] = world.call("clCreateSubBuffer", found["buffer"], 0, cl.BUFFER_CREATE_TYPE_REGION, sub)
    linear = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), (cl.RGBA, cl.UNORM_INT8), cl.MEM_READ_ONLY)
    found["srgb"] = world.image(cl.MEM_OBJECT_IMAGE2D, (1, 6, 37), (cl.SRGBA, cl.UNORM_INT8), source=linear.handle)
    return found


PLANE, LINE = cl.MEM_OBJECT_IMAGE2D, cl.MEM_OBJECT_IMAGE1D_BUFFER
HOST = np.zeros(1 << 16, np.uint8)
START, ONE = (0, 0, 0), (1, 1, 1)


def made(kind=PLANE, shape=(1, 6, 37), form=RGBA8, flags=0, host=0, pitches=(0, 0), source=None, **more):
    """A call that makes an image; `source` is the name of the object from which it is made."""

    def call(g):
        desc = description(kind, shape, pitches, g[source].handle if source else 0, **more)
        return "clCreateImage", g["context"], flags, form and struct.pack("<II", *form), desc, host

    return call


def transferred(name, image="plane", origin=START, size=ONE, pitches=(0, 0), host=1):
    return lambda g: (name, g["queue"], g[image], 1, origin, size, *pitches, host, None, NONE)


def set_to(kernel, index, name):
    return lambda g: ("clSetKernelArg", g["world"].kernel(kernel), index, 8, handle(g[name])[1])


REFUSALS = [
    # formats
    (cl.INVALID_IMAGE_FORMAT_DESCRIPTOR, "the image format is NULL, expected a structure", made(form=None)),
    (cl.INVALID_IMAGE_FORMAT_DESCRIPTOR, "channel order 0x1 with type 0x2 is unknown", made(form=(1, 2))),
    (cl.INVALID_IMAGE_FORMAT_DESCRIPTOR, "channel order CL_RGB with type CL_UNORM_INT8 is invalid",
     made(form=(cl.RGB, cl.UNORM_INT8))),
    (cl.IMAGE_FORMAT_NOT_SUPPORTED, "2D images with flags 0x1 cannot have channel order CL_sRGBA with type",
     made(form=(cl.SRGBA, cl.UNORM_INT8))),
    (cl.INVALID_VALUE, "the image type is 0x10f0, expected a CL_MEM_OBJECT_IMAGE* number",
     lambda g: ("clGetSupportedImageFormats", g["context"], 0, cl.MEM_OBJECT_BUFFER, 0)),
    (cl.INVALID_VALUE, "the flags 0x3 are invalid, expected memory flags",
     lambda g: ("clGetSupportedImageFormats", g["context"], 3, PLANE, 0)),
    # creation
    (cl.INVALID_PROPERTY, "images have no properties",
     lambda g: ("clCreateImageWithProperties", g["context"], (1, 2), 0, None, None, 0)),
    (cl.INVALID_IMAGE_DESCRIPTOR, "the image description is NULL",
     lambda g: ("clCreateImage", g["context"], 0, struct.pack("<II", *RGBA8), None, 0)),
    (cl.INVALID_IMAGE_DESCRIPTOR, "the image type is 0x10f7, expected a CL_MEM_OBJECT_IMAGE* number",
     made(kind=cl.MEM_OBJECT_PIPE)),
    (cl.INVALID_IMAGE_DESCRIPTOR, "num_mip_levels is 2 and num_samples is 0, expected 0", made(levels=2)),
    (cl.INVALID_IMAGE_SIZE, "the sizes of a 2D image are (0, 37), slowest axis first, expected 1 to (16384, 16384)",
     made(shape=(1, 0, 37))),
    (cl.INVALID_IMAGE_SIZE, "the sizes of a 3D image are (9000, 6, 37), slowest axis first, expected 1 to (8192, 16384",
     made(cl.MEM_OBJECT_IMAGE3D, (9000, 6, 37))),
    (cl.INVALID_IMAGE_DESCRIPTOR, "the row pitch and the slice pitch must be 0, since host_ptr is NULL",
     made(pitches=(256, 0))),
    (cl.INVALID_IMAGE_SIZE, "the row pitch and the slice pitch must be 0, since host_ptr is NULL",
     lambda g: ("clCreateImage2D", g["context"], 0, struct.pack("<II", *RGBA8), 37, 6, 256, 0)),
    (cl.INVALID_IMAGE_DESCRIPTOR, "the row pitch is 150, expected 0 or a multiple of 4 bytes from 148 on",
     made(flags=cl.MEM_COPY_HOST_PTR, host=1, pitches=(150, 0))),
    (cl.INVALID_IMAGE_SIZE, "the row pitch is 150, expected 0 or a multiple of 4 bytes from 148 on",
     lambda g: ("clCreateImage2D", g["context"], cl.MEM_COPY_HOST_PTR, struct.pack("<II", *RGBA8), 37, 6, 150, 1)),
    (cl.INVALID_IMAGE_DESCRIPTOR, "the slice pitch is 160, expected 0 or a multiple of the row pitch 148 from 888 on",
     made(cl.MEM_OBJECT_IMAGE3D, (4, 6, 37), flags=cl.MEM_COPY_HOST_PTR, host=1, pitches=(0, 160))),
    (cl.INVALID_HOST_PTR, "host_ptr is required with CL_MEM_USE_HOST_PTR", made(flags=cl.MEM_USE_HOST_PTR)),
    # images of other objects
    (cl.INVALID_IMAGE_DESCRIPTOR, "mem_object is 0x0, expected a buffer for a 1D image buffer", made(LINE)),
    (cl.INVALID_IMAGE_DESCRIPTOR, "a buffer for a 1D image buffer, a buffer, a 2D image or NULL for a 2D image",
     made(cl.MEM_OBJECT_IMAGE3D, source="buffer")),
    (cl.INVALID_IMAGE_DESCRIPTOR, "the buffer of 4096 bytes belongs to another context", made(source="foreign")),
    (cl.INVALID_HOST_PTR, "host_ptr must be NULL for an image that is made from another object",
     made(source="plane", host=1)),
    (cl.INVALID_VALUE, "an image that is made from another object takes no flags about a host pointer",
     made(source="plane", flags=cl.MEM_ALLOC_HOST_PTR)),
    (cl.INVALID_VALUE, "allow accesses of kernels that the 2D image of 37 x 6 texels (CL_RGBA, CL_UNSIGNED_INT8)",
     made(source="read", flags=cl.MEM_WRITE_ONLY)),
    (cl.INVALID_IMAGE_FORMAT_DESCRIPTOR, "an image of CL_RGBA, CL_UNSIGNED_INT8 cannot be made from one of CL_R",
     made(source="red")),
    (cl.INVALID_IMAGE_DESCRIPTOR, "the sizes and pitches of the description differ from those of the 2D image",
     made(source="red", form=(cl.DEPTH, cl.FLOAT), shape=(1, 5, 37))),
    (cl.INVALID_IMAGE_FORMAT_DESCRIPTOR, "the row pitch is 148, expected a multiple of 1024 bytes",
     made(source="buffer")),
    (cl.INVALID_IMAGE_FORMAT_DESCRIPTOR, "the sub-buffer of 2048 bytes begins at a wrong place",
     made(source="sub", shape=(1, 1, 256))),
    (cl.INVALID_IMAGE_SIZE, "6 rows of 1024 bytes exceed the buffer of 4096 bytes",
     made(source="buffer", pitches=(1024, 0))),
    # arguments
    (cl.INVALID_MEM_OBJECT, "argument 0 (from) of kernel sample is image2d_t, which takes another image than a 3D",
     set_to("sample", 0, "volume")),
    (cl.INVALID_MEM_OBJECT, "argument 0 (from) of kernel sample is image2d_t, which takes another image than a 2D",
     set_to("sample", 0, "depth")),
    (cl.INVALID_ARG_VALUE, "argument 0 (to) of kernel store_f is write_only, which the flags 0x4 of the 2D image",
     set_to("store_f", 0, "read")),
    (cl.INVALID_ARG_VALUE, "argument 0 (i) of kernel change is read_write, which the flags 0x4 of the 2D image",
     set_to("change", 0, "read")),
    # commands
    (cl.INVALID_MEM_OBJECT, "the object is a buffer of 4096 bytes, expected an image",
     transferred("clEnqueueReadImage", "buffer")),
    (cl.INVALID_MEM_OBJECT, "3D image of 37 x 6 x 4 texels (CL_RGBA, CL_UNSIGNED_INT8), expected a buffer",
     lambda g: ("clEnqueueReadBuffer", g["queue"], g["volume"], 1, 0, 4, 1, None, NONE)),
    (cl.INVALID_VALUE, "is (1, 0, 1) from (0, 0, 0) on, expected sizes of 1 or more",
     transferred("clEnqueueReadImage", size=(1, 0, 1))),
    (cl.INVALID_VALUE, "the region of (30, 1, 1) texels from (8, 0, 0) on exceeds (37, 6, 1), the extent of the",
     transferred("clEnqueueReadImage", origin=(8, 0, 0), size=(30, 1, 1))),
    (cl.INVALID_VALUE, "clEnqueueReadImage: the pointer is NULL", transferred("clEnqueueReadImage", host=0)),
    (cl.INVALID_VALUE, "the row pitch is 39, expected 0 or at least 40 bytes",
     transferred("clEnqueueReadImage", size=(10, 1, 1), pitches=(39, 0))),
    (cl.INVALID_VALUE, "the slice pitch is 40, expected 0 for a 2D image",
     transferred("clEnqueueReadImage", size=(10, 1, 1), pitches=(40, 40))),
    (cl.INVALID_VALUE, "the slice pitch is 40, expected 0 or at least 80 bytes",
     transferred("clEnqueueReadImage", "volume", size=(10, 2, 1), pitches=(40, 40))),
    (cl.INVALID_OPERATION, "(CL_RGBA, CL_UNSIGNED_INT8) forbid the host to write it",
     transferred("clEnqueueWriteImage", "hidden")),
    (cl.INVALID_VALUE, "the fill color is NULL",
     lambda g: ("clEnqueueFillImage", g["queue"], g["plane"], None, START, ONE, None, NONE)),
    (cl.IMAGE_FORMAT_MISMATCH, "differ in their formats, expected the same one",
     lambda g: ("clEnqueueCopyImage", g["queue"], g["plane"], g["red"], START, START, ONE, None, NONE)),
    (cl.MEM_COPY_OVERLAP, "the source and the target of the copy overlap",
     lambda g: ("clEnqueueCopyImage", g["queue"], g["plane"], g["plane"], START, (1, 1, 0), (2, 2, 1), None, NONE)),
    (cl.INVALID_VALUE, "the region from byte 4094 to 4098 exceeds the buffer of 4096 bytes",
     lambda g: ("clEnqueueCopyImageToBuffer", g["queue"], g["plane"], g["buffer"], START, ONE, 4094, None, NONE)),
    (cl.INVALID_MEM_OBJECT, "the 1D image buffer of 100 texels (CL_RGBA, CL_UNSIGNED_INT8) was made from this buffer",
     lambda g: ("clEnqueueCopyImageToBuffer", g["queue"], g["line"], g["buffer"], START, ONE, 0, None, NONE)),
    (cl.INVALID_VALUE, "image_row_pitch is NULL",
     lambda g: ("clEnqueueMapImage", g["queue"], g["plane"], 1, 1, START, ONE, 0, 1, None, NONE)),
    (cl.INVALID_VALUE, "image_slice_pitch is NULL, expected a place for the slice pitch of a 1D image array",
     lambda g: ("clEnqueueMapImage", g["queue"], g["lines"], 1, 1, START, ONE, 1, 0, None, NONE)),
    (cl.INVALID_MEM_OBJECT, "the object is a buffer of 4096 bytes, expected an image",
     lambda g: ("clGetImageInfo", g["buffer"], cl.IMAGE_WIDTH)),
    # samplers
    (cl.INVALID_VALUE, "normalized coordinates 2, addressing mode 0x1132 and filter mode 0x1140 cannot",
     lambda g: ("clCreateSampler", g["context"], 2, cl.ADDRESS_CLAMP, cl.FILTER_NEAREST)),
    (cl.INVALID_VALUE, "the sampler property 0x5 is unknown or occurs twice",
     lambda g: ("clCreateSamplerWithProperties", g["context"], (5, 0))),
    (cl.INVALID_VALUE, "clGetSamplerInfo: the query 0x1 is unknown",
     lambda g: ("clGetSamplerInfo", g["world"].call("clCreateSampler", g["context"], 0, 0x1130, 0x1140), 1)),
]  # fmt: skip


@pytest.mark.parametrize(("status", "message", "call"), REFUSALS, ids=[each[1][:60] for each in REFUSALS])
def test_a_wrong_call_is_refused(given, status, message, call):
    with pytest.raises(OpenClError, match=re.escape(message)) as caught:
        given["world"].call(*call(given))
    assert caught.value.status == status


def test_srgb_images_are_not_written(given):
    """The flags allow it, since the image is made from a linear one, but the devices do not."""
    world = given["world"]
    linear = world.image(PLANE, (1, 6, 37), (cl.RGBA, cl.UNORM_INT8))
    view = world.image(PLANE, (1, 6, 37), (cl.SRGBA, cl.UNORM_INT8), source=linear.handle)
    with pytest.raises(
        OpenClError, match=r"is write_only, which the format of the 2D image of .* does not allow"
    ) as found:
        world.call("clSetKernelArg", world.kernel("store_f"), 0, 8, handle(view)[1])
    assert found.value.status == cl.INVALID_ARG_VALUE


def test_agents_without_image_instructions_have_no_images():
    program = Program("gfx90a")
    context = program.context()
    assert program.call("clGetSupportedImageFormats", context, 0, PLANE, 10) == b""
    form, desc = struct.pack("<II", *RGBA8), description(PLANE, (1, 6, 37))
    calls = ("clCreateSampler", 0, cl.ADDRESS_NONE, cl.FILTER_NEAREST), ("clCreateImage", 0, form, desc, 0)
    for name, *given in calls:
        with pytest.raises(OpenClError, match=r"no device of the context supports images \(gfx90a\)") as caught:
            program.call(name, context, *given)
        assert caught.value.status == cl.INVALID_OPERATION
    program.close()
