"""Containers that are written: the very bytes of the vectors, and what cannot be written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softcard.core.errors import WireError
from softcard.image.amdcl2.arguments import Argument, Kind
from softcard.image.amdcl2.build import Described, Features, KernelNeeds, build_metadata, kernel_code, pointer
from softcard.image.amdcl2.container import GLOBAL, read_container
from softcard.image.amdcl2.generations import Generation
from softcard.image.amdcl2.records import SamplerInit
from softcard.image.amdcl2.writer import CodeRelocation, ProgramSource, source_of, write_container
from tests.host.amdcl2.rig import kernel, parts, vector, vectors

ENDPGM = "s_mov_b32 s12, 0x12345678\n s_endpgm"


@pytest.mark.parametrize("name", vectors())
def test_what_was_read_is_written_as_the_same_bytes(name: str) -> None:
    driver = parts(name)[3]
    assert write_container(source_of(read_container(vector(name)), driver=driver)) == vector(name)


@pytest.mark.parametrize("name", vectors())
def test_metadata_is_built_as_the_assembler_builds_it(name: str) -> None:
    _, device, bits, driver = parts(name)
    found = read_container(vector(name))
    for each in found.kernels.values():
        read = found.metadata(each.name)
        described = Described(
            0,
            read.required_work_group_size or (0, 0, 0),
            read.work_group_size_hint or (0, 0, 0),
            read.vector_type_hint,
            uses_memory=each.header.workgroup_group_segment_byte_size > 0,
            scratch_bytes=each.header.workitem_private_segment_byte_size,
        )
        assert build_metadata(device, driver, bits, read.arguments, described).pack() == read.pack()


@pytest.mark.parametrize("driver", [180005, 191205, 200406, 203603, 223600, 252700])
@pytest.mark.parametrize("bits", [32, 64])
def test_every_generation_can_be_written_and_read(driver: int, bits: int) -> None:
    kinds = [Kind.IMAGE, Kind.SAMPLER, Kind.QUEUE, Kind.PIPE, Kind.CLK_EVENT]
    arguments = [
        Argument(kind.value, kind.value, kind, access="read_only" if kind is Kind.IMAGE else "") for kind in kinds
    ]
    sources = tuple(
        kernel("hawaii", name, ENDPGM, [pointer("p", "int*"), *arguments], driver=driver, bits=bits)
        for name in ("first", "second")
    )
    options = "-cl-std=CL2.0"
    program = ProgramSource("hawaii", driver, bits, sources, compile_options=options, brig=b"HSAIL")
    found = read_container(write_container(program))
    assert list(found.kernels) == ["first", "second"]
    assert [argument.kind for argument in found.metadata("second").arguments[7:]] == kinds
    assert (found.compile_options, found.brig, found.device) == (options, b"HSAIL", "hawaii")
    again = write_container(source_of(found, driver=driver))
    assert again == write_container(program)


def test_data_samplers_and_relocations_come_back() -> None:
    relocations = (CodeRelocation(4, GLOBAL, 4),)
    source = kernel("tonga", "k", ENDPGM, [], relocations=relocations)
    inits = (SamplerInit(coordinate=1, filter=1, addressing=1),) * 2
    program = ProgramSource("tonga", 252700, 64, (source,), bytes(48), b"data", 128, 64, inits, (32, 40))
    found = source_of(read_container(write_container(program)), driver=252700)
    assert (found.read_only, found.global_data, found.bss_bytes, found.bss_alignment) == (bytes(48), b"data", 128, 64)
    assert (found.samplers, found.sampler_offsets) == (inits, (32, 40))
    assert found.kernels[0].relocations == relocations
    assert write_container(found) == write_container(program)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": "gfx900", "driver": 200406}, "driver 200406 does not support device 'gfx900', only spectre"),
        ({"bits": 16}, "the program has 16 bits, expected 32 or 64"),
        ({"driver": 180005, "read_only": b"x"}, "driver 180005 does not support global data and samplers: use 191205"),
        ({"samplers": (SamplerInit(coordinate=1, filter=1, addressing=1),)}, "1 samplers, but 0 sampler_offsets"),
        ({"samplers": (SamplerInit(coordinate=1, filter=1, addressing=1),), "sampler_offsets": (0,)},
         "an offset in sampler_offsets lies outside the 0 bytes of read-only data, expected 8 bytes in it"),
    ],
)  # fmt: skip
def test_programs_that_cannot_be_written(changes: dict[str, object], message: str) -> None:
    program = ProgramSource("tonga", 252700, 64, (kernel("tonga", "k", ENDPGM, []),))
    with pytest.raises(WireError) as caught:
        write_container(replace(program, **changes))  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_relocations_that_cannot_be_written() -> None:
    where = "kernel k: the relocation at {:#x} of the code "
    for relocation, wrong in (
        (CodeRelocation(12, GLOBAL), "has 4 bytes, expected an end in the 0x"),
        (CodeRelocation(4, ".rodata"), "refers to section '.rodata', expected one of "),
    ):
        source = kernel("tonga", "k", ENDPGM, [], relocations=(relocation,))
        with pytest.raises(WireError, match=where.format(relocation.offset) + wrong):
            write_container(ProgramSource("tonga", 252700, 64, (source,), global_data=b"data"))


def test_dimensions_that_are_none() -> None:
    with pytest.raises(WireError, match="dimensions is 'xz', expected x, xy or xyz"):
        kernel_code(8, Features(), KernelNeeds("xz"), 64, Generation.CRIMSON)
