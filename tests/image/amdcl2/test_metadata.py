"""Metadata of kernels: what its fields say, and what is made of entries of arguments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softcard.image.amdcl2.arguments import Argument, Kind, argument_of
from softcard.image.amdcl2.build import Described, build_metadata
from softcard.image.amdcl2.container import read_container
from softcard.image.amdcl2.formats import ImageKind
from softcard.image.amdcl2.generations import Generation
from softcard.image.amdcl2.metadata import parse_metadata
from tests.host.amdcl2.rig import vector, vectors


def test_metadata_says_what_was_declared() -> None:
    found = read_container(vector("argtypes-tonga-64-252700")).metadata("argt")
    assert found.required_work_group_size == (4, 2, 1)
    assert found.work_group_size_hint == (16, 1, 1)
    assert found.vector_type_hint == "float4"
    assert found.architecture == 8
    assert not found.uses_enqueue
    described = [argument.described() for argument in found.arguments]
    assert described[:6] == [
        "size_t _.global_offset_0", "size_t _.global_offset_1", "size_t _.global_offset_2",
        "global size_t _.printf_buffer", "size_t _.vqueue_pointer", "size_t _.aqlwrap_pointer",
    ]  # fmt: skip
    assert described[16:] == [
        "S a10", "global const float4* a11", "local int* a12", "constant int* a13", "read_only image2d_t a14",
        "write_only image1d_buffer_t a15", "sampler_t a16", "queue_t a17", "double3 a18", "char a19",
    ]  # fmt: skip


def with_entry(name: str, number: int, **fields: int) -> Argument:
    """An argument of the vector's kernel with some fields of its entry changed."""
    container = read_container(vector(name))
    entry, *texts = container.metadata("argt").entries[number]
    return argument_of(replace(entry, **fields), *texts)


@pytest.mark.parametrize("name", ["argtypes-tonga-64-252700", "argtypes-bonaire-32-191205", "argtypes-tonga-32-180005"])
def test_access_is_that_of_the_pointer(name: str) -> None:
    accesses = {1: "read_only", 2: "write_only", 3: "read_write"}
    assert {n: with_entry(name, 17, access=n).access for n in accesses} == accesses
    assert with_entry(name, 3, access=1).access == "read_only"
    for n in accesses:  # it says nothing of whether the argument is used
        assert with_entry(name, 17, access=n).described() == "global const float4* a11"


def test_kinds_of_images_are_those_of_the_name_or_the_metadata() -> None:
    flags = {0x1: None, 0x10001: "ARRAY_2D", 0x100: "IMAGE_1D", 0x10100: "ARRAY_1D", 0x100_0100: "BUFFER_1D", 0: None}
    for bits, driver in ((64, 252700), (32, 191205), (32, 180005)):
        name = f"argtypes-{'bonaire' if driver == 191205 else 'tonga'}-{bits}-{driver}"
        named, buffer = (with_entry(name, number) for number in (20, 21))
        assert (named.image_kind, buffer.image_kind) == (ImageKind.IMAGE_2D, ImageKind.BUFFER_1D)
        for value, kind in flags.items():
            found = replace(with_entry(name, 20, alignment=value), type_name="")
            assert (found.image_kind.name if found.image_kind is not None else None) == kind


@pytest.mark.parametrize("bits", [32, 64])
def test_metadata_of_images_says_their_kind(bits: int) -> None:
    expected = {"image1d_buffer_t": 0x100_0100, "image1d_t": 0x100, "image1d_array_t": 0x10100, "image2d_t": 1,
                "image2d_array_t": 0x10001, "image3d_t": 0}  # fmt: skip
    arguments = [Argument(name, name, Kind.IMAGE, access="read_only") for name in expected]
    entries = build_metadata("tonga", 252700, bits, arguments, Described()).entries
    assert {name: entry.alignment for entry, name, _ in entries} == expected


HEADER_BYTES = {
    (64, Generation.CATALYST_15_7): 0xD8, (32, Generation.CATALYST_15_7): 0x88, (64, Generation.CRIMSON): 0xE0,
    (32, Generation.CRIMSON): 0x90, (64, Generation.CRIMSON_16_4): 0x110, (32, Generation.CRIMSON_16_4): 0xA4,
}  # fmt: skip


@pytest.mark.parametrize("name", vectors("argtypes"))
def test_metadata_has_the_names_of_the_compiler_library(name: str) -> None:
    metadata = read_container(vector(name)).metadata("argt")
    header, queue = metadata.header, metadata.queue
    assert header.version == (3, 1, 0x68)
    assert header.function_id == 1024
    assert header.gpu_resources == (0, 8, 1, 1, 2)
    assert (header.struct_bytes, header.data_bytes) == (
        HEADER_BYTES[metadata.bits, metadata.generation],
        len(metadata.pack()),
    )
    assert (header.argument_count, queue.printf_count, set(queue.pointers)) == (26, 0, {0})
    assert header.work_region_size == (0, 0, 0)
    if metadata.hint is not None:
        assert metadata.hint.hidden_argument_count == 6
    place = {64: 0xA8, 32: 0x6C}[metadata.bits]
    data = bytearray(metadata.pack())
    data[place] = 3
    assert parse_metadata(bytes(data), metadata.bits, metadata.generation).queue.printf_count == 3


def test_signedness_comes_from_the_type_where_older_drivers_do_not_say_it() -> None:
    for driver in (180005, 200406):
        arguments = read_container(vector(f"argtypes-bonaire-64-{driver}")).metadata("argt").arguments
        elements = [argument.element.opencl for argument in arguments[6:16] if argument.element is not None]
        assert elements == ["char", "short", "char", "uint", "uchar", "ulong", "char", "float", "short", "double"]
