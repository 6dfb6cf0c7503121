"""Code objects that we write: read back, by ourselves, by an ELF library and by LLVM, and run."""

import io
import shutil
import subprocess

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from softcard.core.errors import WireError
from softcard.core.space import Ram
from softcard.device.hsa.launch.first_state import Surroundings, launch
from softcard.device.hsa.launch.kernarg import pack_kernarg
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.image.hsa.code_object import read_code_object
from softcard.image.hsa.metadata import Argument, KernelMetadata
from softcard.image.hsa.records import (
    CodeProperties,
    DescriptorProperties,
    KernelCode,
    KernelDescriptor,
    Rsrc1,
    Rsrc2,
)
from softcard.image.hsa.writer import KernelSource, write_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.image.hsa.elves import record

VERSIONS = ("V1", "V2", "V3", "V4", "V5", "V6", "mesa3d")
STORE = """
    s_load_dwordx2 s[2:3], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32_e32 v1, 2, v0
    v_mov_b32_e32 v2, s3
    v_add_u32_e32 v1, vcc, s2, v1
    v_addc_u32_e32 v2, vcc, 0, v2, vcc
    v_mul_u32_u24_e32 v0, 3, v0
    flat_store_dword v[1:2], v0
    s_endpgm
"""


def metadata(name):
    arguments = (
        Argument("out", 0, 8, "global_buffer", "int*", "global"),
        Argument("it's", 8, 1, "by_value"),
        Argument("", 16, 8, "hidden_multigrid_sync_arg"),
    )
    return KernelMetadata(
        name, "", arguments, kernarg_size=24, kernarg_align=8, sgprs=8, vgprs=4, wavefront_size=64,
        max_workgroup_size=256,
        required_workgroup_size=(64, 1, 1), language="Assembly",
    )  # fmt: skip


def source(version, name, code=b"", described=True):
    rsrc2 = record(Rsrc2, user_sgpr_count=2)
    rsrc1 = Rsrc1.parse((0x00AC0000).to_bytes(4, "little"))
    if version in ("V1", "V2", "mesa3d"):
        header = record(
            KernelCode, amd_kernel_code_version_major=1, amd_machine_kind=1, wavefront_size=6,
            kernarg_segment_alignment=4,
            compute_pgm_rsrc1=rsrc1, compute_pgm_rsrc2=rsrc2, kernarg_segment_byte_size=24,
            kernel_code_properties=record(CodeProperties, enable_sgpr_kernarg_segment_ptr=1),
        )  # fmt: skip
    else:
        header = record(
            KernelDescriptor, compute_pgm_rsrc1=rsrc1, compute_pgm_rsrc2=rsrc2, kernarg_size=24,
            kernel_code_properties=record(DescriptorProperties, enable_sgpr_kernarg_segment_ptr=1),
        )  # fmt: skip
    return KernelSource(name, code, header, metadata(name) if described else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_written_is_read(version):
    kernels = [source(version, "first", bytes(300)), source(version, "second", bytes(8))]
    data = write_code_object(version, "gfx803", kernels)
    code = read_code_object(data)
    assert (code.version, code.target, code.warnings, code.missing) == (version, "gfx803", (), ())
    assert list(code.kernels) == ["first", "second"]
    for kernel in code.kernels.values():
        assert kernel.entry % 256 == 0
        assert kernel.kernarg_bytes == 24
        if version in ("V1", "mesa3d"):
            assert kernel.metadata is None
            continue
        assert kernel.metadata is not None
        expected = metadata(kernel.name)
        assert (kernel.metadata.arguments, kernel.metadata.language) == (expected.arguments, expected.language)
        assert kernel.metadata.required_workgroup_size == (64, 1, 1)
    theirs = ELFFile(io.BytesIO(data))
    assert [s["sh_offset"] for s in theirs.iter_sections()] == [s.header.offset for s in code.elf.sections]
    symbols = {s.name for s in theirs.get_section_by_name(".symtab").iter_symbols()}
    assert {"first", "second"} <= symbols


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_written_runs(version):
    code = read_code_object(
        write_code_object(version, "gfx803", [source(version, "k", assemble(target("gfx803"), STORE))])
    )
    loaded = code.load(0x1000_0000)
    memory, image, out = GpuMemory(), Ram(-(-len(loaded.data) // 4096) * 4096), Ram(4096)
    image.view[: len(loaded.data)] = loaded.data
    memory.map(loaded.base, image)
    memory.map(0x2000_0000, out)
    packet = KernelDispatchPacket(workgroup_size_x=64, grid_size_x=64)
    memory.write(0x2000_0800, pack_kernarg(metadata("k"), 24, [0x2000_0000, 0], packet))
    packet = KernelDispatchPacket(
        workgroup_size_x=64, grid_size_x=64, kernel_object=loaded.kernels["k"], kernarg_address=0x2000_0800
    )
    ReferenceEngine().run(launch(Surroundings(target("gfx803"), memory), packet, 0x2000_0C00))
    assert (np.frombuffer(out.view, np.uint32)[:64] == 3 * np.arange(64)).all()


@pytest.mark.oracle
@pytest.mark.parametrize("version", VERSIONS)
def test_llvm_reads_it_too(version, tmp_path):
    name = "llvm-objdump-19" if version == "V1" else "llvm-objdump-16"
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    path = tmp_path / "made.co"
    path.write_bytes(write_code_object(version, "gfx803", [source(version, "k", assemble(target("gfx803"), STORE))]))
    more = ["--triple=amdgcn-amd-amdhsa", "--mcpu=gfx803"] if version == "V1" else []  # e_flags are 0
    done = subprocess.run([program, "-d", *more, str(path)], capture_output=True, text=True, check=True)
    assert "s_load_dwordx2 s[2:3], s[0:1], 0x0" in done.stdout
    assert "flat_store_dword v[1:2], v0" in done.stdout


@pytest.mark.parametrize(
    ("version", "gfx", "names", "text"),
    [
        ("V7", "gfx803", ["k"], "unknown code object version 'V7', expected one of V1, V2, V3, V4, V5, V6, mesa3d"),
        (
            "mesa3d",
            "gfx804",
            ["k"],
            "code objects of version mesa3d do not support processor 'gfx804': e_flags have no number for it",
        ),
        (
            "V2",
            "gfx999",
            ["k"],
            "code objects of version V2 do not support processor 'gfx999': e_flags have no number for it",
        ),
        (
            "V1",
            "gfx1030",
            ["k"],
            "code objects of version V1 do not support processor 'gfx1030': e_flags have no number for it",
        ),
        (
            "V5",
            "gfx9-generic",
            ["k"],
            "code objects of version V5 do not support processor 'gfx9-generic': e_flags have no number for it",
        ),
        ("V2", "gfx803", ["k", "k"], "two kernels have the name 'k'"),
    ],
)
def test_refusals(version, gfx, names, text):
    with pytest.raises(WireError) as caught:
        write_code_object(version, gfx, [source("V2", name) for name in names])
    assert str(caught.value) == text


def test_v1_has_the_shape_of_amds_tools():
    kernels = [source("V1", "&first", bytes(300)), source("V1", "&second", bytes(8))]
    theirs = ELFFile(io.BytesIO(write_code_object("V1", "gfx803", kernels)))
    assert (theirs["e_type"], theirs["e_flags"]) == ("ET_EXEC", 0)
    (segment,) = theirs.iter_segments()
    text = theirs.get_section_by_name(".hsatext")
    assert segment["p_type"] == 0x6000_0003
    assert (segment["p_vaddr"], segment["p_filesz"]) == (text["sh_addr"], text["sh_size"])
    assert text["sh_flags"] == 0xC00007
    values = [each["st_value"] for each in theirs.get_section_by_name(".symtab").iter_symbols() if each.name]
    assert values == [0, 768]


def test_generic_processors_have_a_version():
    code = read_code_object(write_code_object("V6", "gfx9-generic", [source("V6", "k", bytes(4))]))
    assert (code.elf.header.flags, code.target, code.warnings) == (0x0100_0051, "gfx9-generic", ())


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_processors_that_only_notes_can_name(version):
    assert read_code_object(write_code_object(version, "gfx804", [source(version, "k")])).target == "gfx804"


def test_headers_of_the_wrong_kind():
    with pytest.raises(WireError, match="kernel k: code objects of version V4 need a KernelDescriptor for each kernel"):
        write_code_object("V4", "gfx803", [source("V2", "k")])
    with pytest.raises(WireError, match="kernel k: code objects of version V2 need a KernelCode for each kernel"):
        write_code_object("V2", "gfx803", [source("V4", "k")])


def test_v2_metadata_has_no_offsets():
    kernel = source("V2", "k", described=False)
    odd = KernelMetadata("k", "", (Argument("a", 3, 4, "by_value"),))
    with pytest.raises(
        WireError, match="argument 'a' has offset 3, expected in V2 metadata: the first multiple of its alignment"
    ):
        write_code_object("V2", "gfx803", [KernelSource("k", b"", kernel.header, odd)])
