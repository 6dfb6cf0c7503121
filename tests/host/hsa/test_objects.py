"""Code objects of unusual shape, run from file to result: V1, generic and other processors, bundles, no sections."""

import itertools
import re

import numpy as np
import pytest

from softcard.core.errors import RuleError, WireError
from softcard.host.hsa.executable import read
from softcard.host.hsa.gpu import Gpu, demo_code
from softcard.image.assembly.program import assemble as assemble_file
from softcard.image.elf import layout as elf
from softcard.image.hsa.code_object import read_code_object
from softcard.image.hsa.elf import PT_HSA_LOAD_CODE_AGENT, SHF_HSA_AGENT, SHF_HSA_CODE, STT_HSA_KERNEL
from softcard.image.hsa.metadata import Argument, KernelMetadata
from softcard.image.hsa.records import (
    CodeProperties,
    DescriptorProperties,
    Header,
    KernelCode,
    KernelDescriptor,
    Rsrc1,
    Rsrc2,
)
from softcard.image.hsa.writer import KernelSource, write_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from softcard.report.hsa_code import describe
from tests.image.hsa.elves import Elf, Section, Symbol, note, notes, one_kernel, record
from tests.image.hsa.test_bundle import V2, bundle
from tests.image.hsa.test_code_object import without_sections

STORE = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v2, 2, v0
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v1, s5
    {add} v3, vcc, s4, v2
    {addc} v4, vcc, 0, v1, vcc
    v_mul_u32_u24 v0, 3, v0
    flat_store_dword v[3:4], v0
    s_endpgm
"""
NAMES = {"7": ("v_add_i32", "v_addc_u32"), "8": ("v_add_u32", "v_addc_u32"), "9": ("v_add_co_u32", "v_addc_co_u32")}
OUT = KernelMetadata("k", "", (Argument("out", 0, 8, "global_buffer"),), kernarg_size=8, kernarg_align=8)
RSRC1 = Rsrc1.parse((0x00AC0041).to_bytes(4, "little"))
RSRC2 = record(Rsrc2, user_sgpr_count=2)


def code_of(level: str) -> bytes:
    add, addc = NAMES[level]
    return assemble(target({"7": "gfx700", "8": "gfx803", "9": "gfx900"}[level]), STORE.format(add=add, addc=addc))


def old_header() -> KernelCode:
    return record(
        KernelCode, amd_kernel_code_version_major=1, amd_machine_kind=1, wavefront_size=6, kernarg_segment_alignment=4,
        kernel_code_entry_byte_offset=256, kernarg_segment_byte_size=8, compute_pgm_rsrc1=RSRC1,
        compute_pgm_rsrc2=RSRC2,
        kernel_code_properties=record(CodeProperties, enable_sgpr_kernarg_segment_ptr=1, is_ptr64=1),
    )  # fmt: skip


def new_header() -> Header:
    return record(
        KernelDescriptor, kernarg_size=8, compute_pgm_rsrc1=RSRC1, compute_pgm_rsrc2=RSRC2,
        kernel_code_properties=record(DescriptorProperties, enable_sgpr_kernarg_segment_ptr=1),
    )  # fmt: skip


def written(name: str, level: str = "9", version: str = "V6") -> bytes:
    return write_code_object(version, name, [KernelSource("k", code_of(level), new_header(), OUT)])


def check(agent: str, code: bytes, kernel: str = "k") -> None:
    """The kernel stores three times the lane."""
    with Gpu.open(agent) as gpu:
        out = np.zeros(64, np.int32)
        gpu.run(code, kernel, 64, 64, [out])
        assert (out == 3 * np.arange(64)).all()


# -- V1


def first_generation(kind: int, type: int, from_section: bool, address: int) -> bytes:
    made = Elf(type=type, flags=0)
    code = old_header().pack() + code_of("8")
    flags = elf.SHF_ALLOC | elf.SHF_WRITE | elf.SHF_EXECINSTR | SHF_HSA_CODE | SHF_HSA_AGENT
    made.sections.append(Section(".hsatext", 1, flags, code, 256, addr=address))
    isa = b"\4\0\7\0" + b"".join(n.to_bytes(4, "little") for n in (8, 0, 3)) + b"AMD\0AMDGPU\0"
    made.sections.append(notes(note("AMD", 1, b"\1\0\0\0\0\0\0\0"), note("AMD", 3, isa)))
    made.sections[-1].flags = 0
    made.segments.append(
        {"type": kind, "flags": 7, "offset": 256, "vaddr": address, "filesz": len(code), "memsz": len(code)}
    )
    value = 0 if from_section else address
    made.symbols.append(Symbol("&__OpenCL_k_kernel", 1, value, len(code), STT_HSA_KERNEL))
    return made.build()


@pytest.mark.parametrize(
    ("kind", "type", "from_section"),
    list(itertools.product((PT_HSA_LOAD_CODE_AGENT, elf.PT_LOAD), (elf.ET_EXEC, elf.ET_DYN), (True, False))),
)
def test_v1_objects_run(kind: int, type: int, from_section: bool) -> None:
    check("gfx803", first_generation(kind, type, from_section, 0x1000), "&__OpenCL_k_kernel")


def test_v1_objects_at_address_0_run() -> None:
    check("gfx803", first_generation(PT_HSA_LOAD_CODE_AGENT, elf.ET_EXEC, True, 0), "&__OpenCL_k_kernel")


def test_v1_objects_that_are_written_run() -> None:
    check("gfx803", write_code_object("V1", "gfx803", [KernelSource("k", code_of("8"), old_header())]))


# -- processors


@pytest.mark.parametrize("agent", ["gfx900", "gfx901", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"])
def test_generic_code_runs_on_what_it_stands_for(agent: str) -> None:
    check(agent, written("gfx9-generic"))


@pytest.mark.parametrize(
    ("name", "agent", "text"),
    [
        (
            "gfx9-generic",
            "gfx803",
            "gfx9-generic (that is gfx900, gfx901, gfx902, gfx904, gfx906, gfx909, gfx90c), "
            "but the agent is gfx803: open gfx900 or gfx901 or gfx902 or gfx904 or gfx906 or gfx909 or gfx90c",
        ),
        (
            "gfx9-4-generic",
            "gfx900",
            "gfx9-4-generic (that is gfx940, gfx941, gfx942, gfx950), "
            "but the agent is gfx900: open gfx942 or gfx950",
        ),
        ("gfx90a", "gfx906", "gfx90a, but the agent is gfx906: open gfx90a"),
        ("gfx904", "gfx900", "gfx904, but the agent is gfx900: open gfx904, or load it with any_target=True"),
        ("gfx908", "gfx906", "gfx908, but the agent is gfx906: open gfx908"),
        ("gfx906", "gfx900", "gfx906, but the agent is gfx900: open gfx906, or load it with any_target=True"),
        ("gfx904", "gfx803", "gfx904, but the agent is gfx803: open gfx904"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_open(name: str, agent: str, text: str) -> None:
    with Gpu.open(agent) as gpu, pytest.raises(RuleError) as caught:
        gpu.load(written(name))
    assert str(caught.value) == f"the code object is for {text}"


@pytest.mark.parametrize(
    ("name", "agent", "level"),
    [("gfx704", "gfx700", "7"), ("gfx805", "gfx802", "8"), ("gfx904", "gfx900", "9"), ("gfx90c", "gfx900", "9")],
)
def test_any_target_runs_code_of_the_same_generation(name: str, agent: str, level: str) -> None:
    with Gpu.open(agent) as gpu:
        out = np.zeros(64, np.int32)
        gpu.run(gpu.load(written(name, level), any_target=True), "k", 64, 64, [out])
        assert (out == 3 * np.arange(64)).all()


NEWER = ("gfx902", "gfx904", "gfx908", "gfx909", "gfx90c")


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("agent", NEWER)
def test_the_later_processors_of_gfx9_run_their_own_code(agent: str, engine: str) -> None:
    with Gpu.open(agent, engine=engine) as gpu:
        out = np.zeros(64, np.int32)
        for _ in range(30):  # more often than the tiers need to change
            gpu.run(written(agent), "k", 64, 64, [out])
        assert (out == 3 * np.arange(64)).all()


MIXED = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_cvt_f16_u16 v1, v0
    v_mov_b32 v2, 0x3c003800
    {0}_f32 v1, v1, v2, v2 op_sel:[0,0,1] op_sel_hi:[1,1,1]
    v_cvt_u32_f32 v1, v1
    v_lshlrev_b32 v0, 2, v0
    s_waitcnt lgkmcnt(0)
    global_store_dword v0, v1, s[4:5]
    s_endpgm
"""


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize(
    ("agent", "name"),
    [("gfx900", "v_mad_mix"), ("gfx904", "v_fma_mix"), ("gfx908", "v_fma_mix"), ("gfx909", "v_mad_mix"),
     ("gfx90c", "v_mad_mix")],
)  # fmt: skip
def test_mixed_precision_runs_where_it_exists(agent: str, name: str, engine: str) -> None:
    words = assemble(target(agent), MIXED.format(name))
    other = "v_mad_mix_f32" if name == "v_fma_mix" else "v_fma_mix_f32"
    with pytest.raises(WireError, match=f"{agent} has no instruction '{other}'"):
        assemble(target(agent), f"{other} v0, v1, v2, v3")
    with Gpu.open(agent, engine=engine) as gpu:
        out = np.zeros(64, np.uint32)
        code = write_code_object("V4", agent, [KernelSource("k", words, new_header(), OUT)])
        gpu.run(code, "k", 64, 64, [out])
        assert (out == np.arange(64) // 2 + 1).all()


TARGET_ID = """
.amdgcn_target "amdgcn-amd-amdhsa--{0}"
.amdhsa_code_object_version 5
.text
k:
    s_endpgm
.rodata
.amdhsa_kernel k
    .amdhsa_next_free_vgpr 4
    .amdhsa_next_free_sgpr 4
.end_amdhsa_kernel
"""


@pytest.mark.parametrize(
    ("name", "flags", "refusal"),
    [
        ("gfx908", 0x530, ""),
        ("gfx908:sramecc+", 0xD30, ""),
        ("gfx908:sramecc+:xnack-", 0xE30, ""),
        ("gfx908:xnack+", 0x730, "requires xnack on, but agent gfx908 has xnack off: compile it for gfx908:xnack-"),
        (
            "gfx908:sramecc-",
            0x930,
            "requires sramecc off, but agent gfx908 has sramecc on: compile it for gfx908:sramecc+",
        ),
    ],
)
def test_settings_of_features_are_those_of_the_agent(name: str, flags: int, refusal: str) -> None:
    data = assemble_file(TARGET_ID.format(name)).elf()
    assert read_code_object(data).elf.header.flags == flags
    with Gpu.open("gfx908") as gpu:
        if refusal:
            with pytest.raises(RuleError, match=re.escape(refusal)):
                gpu.load(data)
            gpu.load(data, any_target=True)
        else:
            gpu.load(data)


def test_any_target_does_not_make_generations_equal() -> None:
    for name, level in (("gfx803", "8"), ("gfx90a", "9")):
        with Gpu.open("gfx900") as gpu, pytest.raises(RuleError, match=f"the code object is for {name}"):
            gpu.load(written(name, level), any_target=True)


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("gfx703", "7"), ("gfx704", "7"), ("gfx705", "7"), ("gfx805", "8"), ("gfx904", "9"), ("gfx909", "9"),
        ("gfx90c", "9"), ("gfx9-generic", "9"),
    ],
)  # fmt: skip
def test_code_for_processors_without_an_agent_is_disassembled(name: str, level: str) -> None:
    found = describe(written(name, level))
    assert (found["target"], found["warnings"]) == (name, [])
    assert found["code"][0]["lines"][0]["text"] == "s_load_dwordx2 s[4:5], s[0:1], 0x0"


def test_mixed_precision_is_that_of_the_processor() -> None:
    words = assemble(target("gfx906"), "v_fma_mix_f32 v0, v1, v2, v3\n s_endpgm")
    for name, text in (("gfx904", "v_fma_mix_f32"), ("gfx909", "v_mad_mix_f32")):
        data = write_code_object("V4", name, [KernelSource("k", words, new_header())])
        assert describe(data)["code"][0]["lines"][0]["text"].startswith(text)


GENERIC = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx9-4-generic"
.amdhsa_code_object_version 6
.text
k:
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v2, 4, v0
    v_mov_b32 v4, 1.0
    s_nop 1
    v_mfma_f32_16x16x4_f32 v[8:11], v4, v4, 2.0
    s_waitcnt lgkmcnt(0)
    s_nop 9
    global_store_dwordx4 v2, v[8:11], s[4:5]
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_next_free_vgpr 12
    .amdhsa_accum_offset 12
    .amdhsa_next_free_sgpr 8
    .amdhsa_kernarg_size 8
.end_amdhsa_kernel
"""


@pytest.mark.parametrize("agent", ["gfx942", "gfx950"])
@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_generic_code_with_matrices_runs_on_the_processors_that_it_covers(agent: str, engine: str) -> None:
    data = assemble_file(GENERIC).elf()
    assert read_code_object(data).elf.header.flags & 0xFF00_00FF == 0x0100_005F
    with Gpu.open(agent, engine=engine, check="waits,init", on_finding="keep") as gpu:
        out = np.zeros(256, np.float32)
        gpu.run(data, "k", 64, 64, [out])
        assert (out == 6).all()
        assert not gpu.findings
    with Gpu.open("gfx90a") as gpu, pytest.raises(RuleError, match="the code object is for gfx9-4-generic"):
        gpu.load(data)


# -- bundles and stripped files


def test_the_entry_of_the_agent_runs() -> None:
    parts = {
        "host-x86_64-unknown-linux--": b"",
        "hipv4-amdgcn-amd-amdhsa--gfx803": written("gfx803", "8"),
        "hipv4-amdgcn-amd-amdhsa--gfx900:xnack-": written("gfx900"),
    }
    for agent in ("gfx803", "gfx900", "gfx901"):
        check(agent, bundle(parts))
    with Gpu.open("gfx700") as gpu, pytest.raises(WireError, match="an offload bundle with the entries host-"):
        gpu.run(bundle(parts), "k", 64)


def test_the_entry_with_the_settings_of_the_agent_runs() -> None:
    names = ("gfx908:sramecc-", "gfx908:sramecc+:xnack+", "gfx908:sramecc+:xnack-")
    parts = {f"hipv4-amdgcn-amd-amdhsa--{name}": assemble_file(TARGET_ID.format(name)).elf() for name in names}
    with Gpu.open("gfx908") as gpu:
        gpu.run(gpu.load(bundle(parts)), "k", 64)
        assert read(bundle(parts), "gfx908").features == {"sramecc": "on", "xnack": "off"}
        del parts["hipv4-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack-"]
        with pytest.raises(RuleError, match="the code object requires sramecc off, but agent gfx908 has sramecc on"):
            gpu.load(bundle(parts | {"hipv4-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack+": b""}))
    for name in names[:2]:
        assert describe(bundle(parts), target=name)["target"] == "gfx908"


def test_entries_are_described_by_processor() -> None:
    names = {f"hipv4-amdgcn-amd-amdhsa--{name}": written(name) for name in ("gfx900", "gfx90a")}
    for name in ("gfx900", "gfx90a"):
        assert describe(bundle(names), target=name)["target"] == name
    with pytest.raises(WireError, match="name the processor of the wanted entry"):
        describe(bundle(names))


def test_files_without_sections_run() -> None:
    with Gpu.open("gfx900") as gpu:
        x, y = gpu.array(np.arange(256, dtype=np.float32)), gpu.zeros(256)
        gpu.run(without_sections(demo_code("gfx900")), "saxpy", 256, args=[2.0, x, y])
        assert (y == 2 * x).all()


@pytest.mark.parametrize("agent", ["gfx900", "gfx803"])
def test_flags_and_notes_that_name_different_processors(agent: str) -> None:
    made = one_kernel(version=V2, flags=0x2C)
    made.sections.append(notes(note("AMD", 11, b"amdgcn-amd-amdhsa--gfx803")))
    with Gpu.open(agent) as gpu:
        with pytest.raises(RuleError) as caught:
            gpu.load(made.build())
        assert str(caught.value) == (
            "e_flags 0x2c name gfx900, but the notes name gfx803, expected the same processor: compile the code "
            "again, or "
            "load it with any_target=True, which trusts the notes"
        )
        if agent == "gfx803":
            gpu.load(made.build(), any_target=True)
