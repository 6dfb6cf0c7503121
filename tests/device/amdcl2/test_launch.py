"""First machine state of AMD OpenCL 2.0 kernels: each rule of the document's text, for every device and word size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import WireError
from softcard.device.amdcl2.launch import (
    launched,
    local_offsets,
    pack_arguments,
    setup_buffer,
    special_buffer,
)
from softcard.device.hsa.launch.first_state import DispatchRefused, Scratch, Surroundings, launch
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.device.hsa.queues.records import AmdQueue
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.memory import GpuMemory
from softcard.image.amdcl2.arguments import HANDLES, Argument, Element, Kind, Space, lay_out
from softcard.image.amdcl2.build import Features, KernelNeeds, code_properties, kernel_code, pointer, setup_arguments
from softcard.image.amdcl2.build import vector as value
from softcard.image.amdcl2.container import read_container
from softcard.image.amdcl2.formats import ChannelOrder, ChannelType, ImageKind, image_format
from softcard.image.amdcl2.generations import Generation, generation_of
from softcard.image.amdcl2.objects import Addressing, Filter, ImageObject, SamplerObject, image_object, texels
from softcard.image.hsa.records import user_sgprs
from softcard.isa.gcn.target import Target, target
from tests.host.amdcl2.rig import matrix, vector, vectors

LEVELS = {"bonaire": 7, "tonga": 8, "gfx900": 9}
TARGETS = {7: "gfx700", 8: "gfx800", 9: "gfx900"}
every_level = pytest.mark.parametrize("level", [7, 8, 9])
OLD, NEW = Generation.CATALYST_15_7, Generation.CRIMSON_16_4
CODE, PACKET, ARGUMENTS, SPECIAL, SCRATCH = 0x10000, 0x20000, 0x30000, 0x40000, 0x100000


def started(level: int, features: Features, **needs: Any) -> Dispatch:
    """The dispatch of a kernel with these features, over 256 work-items in work-groups of 64."""
    memory = GpuMemory()
    header = kernel_code(level, features, KernelNeeds(**needs), 64, NEW)
    code = bytearray(4096)
    code[:256] = header.pack()
    memory.map(CODE, code, name="code")
    packet = setup_buffer((256,), (64,), header, CODE, ARGUMENTS, 0)
    memory.map(PACKET, bytearray(packet.pack().ljust(4096, b"\0")), name="packet")
    scratch = Scratch(SCRATCH, 1 << 16) if needs.get("scratch_bytes") else None
    around = Surroundings(target(TARGETS[level]), memory, SPECIAL, scratch)
    return launch(around, packet, PACKET)


# ---- Passing options -----------------------------------------------------------------------------------------------


def test_every_row_of_the_truth_table() -> None:
    rows = list(matrix())
    assert len(rows) == 128
    for device, driver, bits, features, count, word, _, rsrc1, rsrc2, sgprs, _ in rows:
        generation = generation_of(int(driver))
        asked = Features(*(bit == "1" for bit in features))
        needs = KernelNeeds("xyz", int(sgprs), 1, scratch_bytes=64, work_group_info=True)
        header = kernel_code(LEVELS[device], asked, needs, int(bits), generation)
        assert header.kernel_code_properties.pack()[::-1].hex() == word
        assert user_sgprs(header.kernel_code_properties) == int(count)
        assert header.compute_pgm_rsrc1.pack()[::-1].hex() == rsrc1
        assert header.compute_pgm_rsrc2.pack()[::-1].hex() == rsrc2


@every_level
def test_no_features(level: int) -> None:
    sgprs = started(level, Features(), scratch_bytes=64).sgprs
    assert len(sgprs) == (6 if level == 9 else 4)


@every_level
def test_useargs(level: int) -> None:
    sgprs = started(level, Features(useargs=True), scratch_bytes=64).sgprs
    assert len(sgprs) == (8 if level == 9 else 6)
    assert sgprs[4:6].tolist() == [ARGUMENTS, 0]


@every_level
def test_usesetup(level: int) -> None:
    sgprs = started(level, Features(usesetup=True), scratch_bytes=64).sgprs
    assert len(sgprs) == (10 if level == 9 else 8)
    assert sgprs[4:8].tolist() == [PACKET, 0, ARGUMENTS, 0]


@every_level
def test_useenqueue(level: int) -> None:
    sgprs = started(level, Features(useenqueue=True), scratch_bytes=64).sgprs
    assert len(sgprs) == 10
    assert sgprs[4:8].tolist() == [PACKET, 0, ARGUMENTS, 0]


@every_level
def test_usegeneric(level: int) -> None:
    sgprs = started(level, Features(usegeneric=True), scratch_bytes=64).sgprs
    assert len(sgprs) == 12
    assert sgprs[4:6].tolist() == [PACKET, 0]
    assert sgprs[8:10].tolist() == [ARGUMENTS, 0]


def test_gfx9_user_data() -> None:
    for features in (Features(usesetup=True), Features(useenqueue=True), Features(usesetup=True, useargs=True)):
        sgprs = started(9, features, scratch_bytes=64).sgprs
        assert len(sgprs) == 10
        assert sgprs[4:10].tolist() == [PACKET, 0, ARGUMENTS, 0, SCRATCH, 0]


def test_system_registers_follow_user_data() -> None:
    found = started(8, Features(usesetup=True), dimensions="xyz", scratch_bytes=64, work_group_info=True)
    assert (found.group_id_sgprs, found.group_info_sgpr, found.wave_offset_sgpr) == ((8, 9, 10), 11, 12)


# ---- Argument passing and kernel setup -----------------------------------------------------------------------------


def header_of(**needs: Any) -> Any:
    return kernel_code(8, Features(), KernelNeeds(**needs), 64, NEW)


def dwords(data: bytes) -> list[int]:
    return np.frombuffer(data, np.uint32).tolist()


def test_setup_pointer() -> None:
    for level in (7, 8, 9):
        for features in (Features(usesetup=True), Features(useenqueue=True), Features(usegeneric=True)):
            assert started(level, features).sgprs[4] == PACKET


def test_setup_dimensions() -> None:
    for dimensions in (1, 2, 3):
        packet = setup_buffer((4,) * dimensions, (2,) * dimensions, header_of(), CODE, 0, 0)
        assert dwords(packet.pack())[0] >> 16 == dimensions


def test_setup_local_size() -> None:
    words = dwords(setup_buffer((64, 64, 64), (5, 6, 7), header_of(), CODE, 0, 0).pack())
    assert (words[1], words[2]) == (5 | 6 << 16, 7)


def test_setup_global_size() -> None:
    words = dwords(setup_buffer((100, 200), (10, 10), header_of(), CODE, 0, 0).pack())
    assert words[3:6] == [100, 200, 1]


def test_the_setup_buffer_is_a_dispatch_packet_to_its_end() -> None:
    header = header_of(scratch_bytes=64)
    words = dwords(setup_buffer((64,), (64,), header, 0x1_2345_6700, 0x2_0000_0100, 1156).pack())
    assert words[0] & 0xFF == 2
    assert words[6:8] == [64, 1156]
    assert words[8:12] == [0x2345_6700, 1, 0x100, 2]
    assert words[12:16] == [0] * 4


def test_argument_pointer() -> None:
    places = {Features(useargs=True): 4, Features(usesetup=True): 6, Features(usegeneric=True): 8}
    for features, at in places.items():
        assert started(8, features).sgprs[at] == ARGUMENTS


def layout(bits: int, *arguments: Argument, generation: Generation = NEW) -> Any:
    return lay_out([*setup_arguments(bits), *arguments], bits, generation)


def test_global_offsets() -> None:
    found = layout(64).hidden
    assert [found[f"global_offset_{n}"].offset for n in range(3)] == [0, 8, 16]
    data = pack_arguments(layout(64), {}, {"global_offset_0": 5, "global_offset_2": 7})
    assert np.frombuffer(data, np.uint64)[:3].tolist() == [5, 0, 7]


def test_hidden_pointers() -> None:
    names = ("printf_buffer", "vqueue_pointer", "aqlwrap_pointer")
    assert [layout(64).hidden[name].offset for name in names] == [24, 32, 40]
    assert [layout(32).hidden[name].offset for name in names] == [12, 16, 20]


def test_setup_argument_size() -> None:
    for bits in (32, 64):
        assert {slot.size for slot in layout(bits).hidden.values()} == {bits // 8}


def test_user_arguments() -> None:
    assert layout(64, value("a", "char")).user[0].offset == 48
    assert layout(32, value("a", "char")).user[0].offset == 24


def test_pointer_size() -> None:
    kinds = [Kind.POINTER, Kind.IMAGE, Kind.SAMPLER, Kind.QUEUE, Kind.PIPE, Kind.CLK_EVENT, Kind.STRUCTURE]
    arguments = [Argument(kind.value, "", kind) for kind in kinds]
    arguments.append(Argument("local", "int*", Kind.POINTER, space=Space.LOCAL))
    for bits in (32, 64):
        for generation in (OLD, Generation.CRIMSON, NEW):
            for slot in layout(bits, *arguments, generation=generation).user:
                is_handle = slot.argument.kind in (Kind.IMAGE, Kind.SAMPLER)
                assert slot.size == (8 if is_handle else bits // 8), slot
                assert slot.offset % slot.size == 0


@pytest.mark.parametrize("generation", [OLD, Generation.CRIMSON, NEW])
def test_images_and_samplers_of_32_bit_programs(generation: Generation) -> None:
    kinds = [Kind.IMAGE, Kind.IMAGE, Kind.SAMPLER, Kind.POINTER, Kind.QUEUE, Kind.SAMPLER, Kind.STRUCTURE]
    found = layout(32, *(Argument("", "", kind) for kind in kinds), generation=generation)
    assert [slot.offset for slot in found.user] == [24, 32, 40, 48, 52, 56, 64]
    data = pack_arguments(found, dict.fromkeys(range(7), 0xFFFF_FFF0), {})
    assert [int.from_bytes(data[at : at + 8], "little") for at in (24, 32, 40, 56)] == [0xFFFF_FFF0] * 4


def test_vector_of_3() -> None:
    for type_name, size in (("char3", 1), ("float3", 4), ("double3", 8)):
        for generation, length in ((OLD, 3), (NEW, 4), (Generation.CRIMSON, 4)):
            assert layout(64, value("v", type_name), generation=generation).user[0].size == length * size


def test_small_types() -> None:
    sizes = {"char": 1, "uchar": 1, "short": 2, "char2": 2, "half": 2}
    for type_name, size in sizes.items():
        assert layout(64, value("v", type_name)).user[0].size == size
    assert layout(64, value("v", "char3"), generation=OLD).user[0].size == 3


def test_alignment() -> None:
    arguments = [value("a", "char"), value("b", "int4"), value("c", "char"), value("d", "double2"), value("e", "char")]
    assert [slot.offset for slot in layout(64, *arguments).user] == [48, 52, 68, 72, 88]
    assert layout(32, value("a", "char"), pointer("p", "int*")).user[1].offset == 28


OFFSETS = {
    (64, NEW): ([48, 50, 52, 56, 60, 64, 72, 76, 92, 128, 136, 144, 152, 160, 168, 176, 184, 192, 200, 232], 240),
    (32, NEW): ([24, 26, 28, 32, 36, 40, 48, 52, 68, 104, 112, 116, 120, 124, 128, 136, 144, 152, 160, 192], 208),
}
OFFSETS |= {(bits, Generation.CRIMSON): OFFSETS[bits, NEW] for bits in (32, 64)}


@pytest.mark.parametrize("name", vectors())
def test_layouts_are_what_the_assembler_counted(name: str) -> None:
    found = read_container(vector(name))
    for kernel in found.kernels.values():
        layout = found.metadata(kernel.name).layout
        has_handles = any(slot.argument.kind in HANDLES for slot in layout.user)
        if found.bits == 64 or not has_handles:  # the assembler counts 4 bytes for images and samplers, drivers 8
            assert layout.size == kernel.header.kernarg_segment_byte_size
        known = OFFSETS.get((found.bits, found.generation)) if kernel.name == "argt" else None
        if known:
            assert ([slot.offset for slot in layout.user], layout.size) == known


@pytest.mark.parametrize("generation", [OLD, NEW])
def test_vectors_are_aligned_like_their_elements(generation: Generation) -> None:
    names = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "double")
    every = [value(f"{name}{n}", f"{name}{n or ''}") for n in (16, 8, 4, 3, 2, 0) for name in names]
    end = 48
    for slot in layout(64, *every, generation=generation).user:
        alignment = (slot.argument.element or Element.CHAR).size_bytes
        assert slot.offset == -(-end // alignment) * alignment
        end = slot.offset + slot.size


# ---- Image and sampler arguments -----------------------------------------------------------------------------------

FORMAT = image_format(ChannelOrder.CL_RGBA, ChannelType.CL_UNORM_INT8)


def test_image_pointer() -> None:
    data = pack_arguments(layout(64, Argument("i", "image2d_t", Kind.IMAGE)), {0: 0x1234}, {})
    assert int.from_bytes(data[48:56], "little") == 0x1234


@every_level
def test_image_resource(level: int) -> None:
    words = image_object(level, texels(ImageKind.IMAGE_3D, FORMAT, (3, 5, 100)), 0x12_3456_7800).resource
    assert len(words) == 8
    assert words[0] == 0x12345678
    assert (words[1] >> 20 & 63, words[1] >> 26 & 15) == (10, 0)
    assert (words[2] & 0x3FFF, words[2] >> 14 & 0x3FFF) == (99, 4)
    assert (words[3] & 0xFFF, words[3] >> 28) == (0o7654, 10)
    assert (words[4] & 0x1FFF, words[4] >> 13 & 0x3FFF) == (2, 127)


@every_level
@pytest.mark.parametrize(
    ("kind", "shape"), [(ImageKind.ARRAY_1D, (6, 5)), (ImageKind.ARRAY_2D, (6, 4, 5)), (ImageKind.IMAGE_2D, (4, 5))]
)
def test_resources_of_arrays(level: int, kind: ImageKind, shape: tuple[int, ...]) -> None:
    words = image_object(level, texels(kind, FORMAT, shape), 0x100).resource
    last = 5 if kind.is_array else 0
    assert (words[4] & 0x1FFF, words[5] >> 13 & 0x1FFF) == (last, last if level < 9 else 0)


def test_channel_type() -> None:
    names = "SNORM_INT8 SNORM_INT16 UNORM_INT8 UNORM_INT16 UNORM_INT24 UNORM_SHORT_555 UNORM_SHORT_565 "
    names += "UNORM_INT_101010 SIGNED_INT8 SIGNED_INT16 SIGNED_INT32 UNSIGNED_INT8 UNSIGNED_INT16 UNSIGNED_INT32 "
    names += "HALF_FLOAT FLOAT"
    assert [f"CL_{name}" for name in names.split()] == [kind.name for kind in ChannelType]
    assert [ChannelType.of_dword(0xABC0 | n) for n in range(16)] == list(ChannelType)
    found = image_object(8, texels(ImageKind.IMAGE_1D, FORMAT, (7,)), 0).pack()
    assert ChannelType.of_dword(dwords(found)[8]) is ChannelType.CL_UNORM_INT8


def test_channel_order() -> None:
    names = "A R Rx RG RGx RA RGB RGBx RGBA BGRA ARGB ABGR sRGB sRGBx sRGBA sBGRA INTENSITY LUMINANCE DEPTH "
    names += "DEPTH_STENCIL"
    assert [f"CL_{name}" for name in names.split()] == [order.name for order in ChannelOrder]
    assert [ChannelOrder.of_dword(0xABC0 | n) for n in range(20)] == list(ChannelOrder)
    with pytest.raises(WireError, match="the channel order is 20, expected 0 to 19"):
        ChannelOrder.of_dword(20)
    found = image_object(8, texels(ImageKind.IMAGE_1D, FORMAT, (7,)), 0).pack()
    assert ChannelOrder.of_dword(dwords(found)[9]) is ChannelOrder.CL_RGBA
    assert (ImageObject.parse(found).width, len(found)) == (7, 48)


def test_sampler_pointer() -> None:
    data = pack_arguments(layout(64, Argument("s", "sampler_t", Kind.SAMPLER)), {0: 0x1234}, {})
    assert int.from_bytes(data[48:56], "little") == 0x1234
    words = SamplerObject.of(False, Addressing.CLAMP, Filter.LINEAR).resource
    assert words == (0o666 | 1 << 15, 4095 << 12, 1 << 20 | 1 << 22, 0)
    assert SamplerObject.of(True, Addressing.REPEAT, Filter.NEAREST).resource == (0, 4095 << 12, 0, 0)


# ---- Scratch and flat access ---------------------------------------------------------------------------------------


@every_level
def test_scratch_descriptor(level: int) -> None:
    found = started(level, Features(usesetup=True), scratch_bytes=64)
    base, word1, size, word3 = found.sgprs[:4].tolist()
    assert (base, word1, size) == (SCRATCH, 1 << 31, 1 << 16)
    assert (word3 & 0xFFF, word3 >> 21 & 3, word3 >> 23 & 1) == (0xFAC, 3, 1)


def test_flat_memory() -> None:
    found = started(8, Features(usegeneric=True))
    assert min(found.shared_base, found.private_base) >= 1 << 48  # where no memory can be


AROUND = Surroundings(target(TARGETS[8]), GpuMemory(), scratch=Scratch(SCRATCH, 64), descriptor=(1, 2, 3, 4))


def test_lds_base() -> None:
    buffer = special_buffer(AROUND, 64)
    assert dwords(buffer.pack())[16] == 0x0001_0000
    assert started(8, Features(usegeneric=True)).sgprs[6:8].tolist() == [SPECIAL, 0]


def test_scratch_base() -> None:
    buffer = special_buffer(AROUND, 64)
    assert dwords(buffer.pack())[17] == 0x0002_0000
    assert AmdQueue.parse(buffer.pack()).scratch_resource_descriptor == (1, 2, 3, 4)


def test_scratch_offset() -> None:
    for level in (7, 8):
        assert started(level, Features(usegeneric=True), scratch_bytes=64).sgprs[10] == SCRATCH
        assert started(level, Features(useenqueue=True), scratch_bytes=64).sgprs[8] == SCRATCH
    assert started(9, Features(usegeneric=True), scratch_bytes=64).sgprs[10:12].tolist() == [SCRATCH, 0]


def test_scratch_size() -> None:
    for level in (7, 8):
        assert started(level, Features(usegeneric=True), scratch_bytes=64).sgprs[11] == 64
        assert started(level, Features(useenqueue=True), scratch_bytes=62).sgprs[9] == 64  # whole dwords


def test_xnack_is_marked_by_driver_1912_05_only() -> None:
    for level, generation, bit in ((7, Generation.CRIMSON, 0), (8, Generation.CRIMSON, 1), (8, NEW, 0), (9, NEW, 0)):
        assert code_properties(level, Features(), 64, generation).is_xnack_enabled == bit


def test_offsets_of_local_memory() -> None:
    assert local_offsets(0, []) == ([], 0)
    assert local_offsets(1156, [(10, 0), (100, 0)]) == ([1168, 1184], 128)
    assert local_offsets(1156, [(8, 4), (64, 32), (256, 128)]) == ([1156, 1184, 1280], 380)


def test_a_launch_has_what_the_header_asks_for() -> None:
    memory, at = GpuMemory(), 0x10000
    memory.map(at, bytearray(header_of(lds_bytes=1156, scratch_bytes=64).pack()))
    packet = KernelDispatchPacket(kernel_object=at, private_segment_size=20, group_segment_size=100)
    found = launched(memory, packet, target("gfx900"))
    assert (found.private_segment_size, found.group_segment_size) == (64, 1256)
    assert replace(found, private_segment_size=20, group_segment_size=100) == packet
    assert launched(memory, replace(packet, private_segment_size=80), target("gfx900")).private_segment_size == 80
    with pytest.raises(DispatchRefused, match="kernel_object is 0, expected the address of a kernel header"):
        launched(memory, replace(packet, kernel_object=0), target("gfx900"))


def test_a_target_for_every_level() -> None:
    assert all(isinstance(target(name), Target) for name in TARGETS.values())
