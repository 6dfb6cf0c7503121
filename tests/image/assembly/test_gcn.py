"""AMDGPU assembly files: what clang writes gives the bytes of clang, and directives mean what LLVM makes of them."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import softcard
from softcard import Gpu
from softcard.core.errors import WireError
from softcard.image.assembly.program import assemble
from softcard.image.elf.reader import ElfFile
from softcard.image.hsa.code_object import read_code_object

DATA = Path(softcard.__file__).parent / "data"
COMPILERS = [("clang-15", "gfx900", 2), ("clang-15", "gfx803", 3), ("clang-16", "gfx700", 4), ("clang-16", "gfx906", 5)]


def sections(data: bytes) -> dict[str, bytes]:
    elf = ElfFile(data, 64)
    return {each.name: bytes(elf.contents(each)) for each in elf.named_sections()}


@pytest.mark.oracle
@pytest.mark.parametrize(("clang", "agent", "version"), COMPILERS)
def test_what_clang_writes_gives_the_bytes_of_clang(tmp_path: Path, clang: str, agent: str, version: int) -> None:
    if shutil.which(clang) is None:
        pytest.skip(f"needs {clang}")
    words = [
        *[clang, "-target", "amdgcn-amd-amdhsa", f"-mcpu={agent}", "-nogpulib", "-cl-std=CL2.0", "-cl-no-stdinc"],
        *["-O2", f"-mcode-object-version={version}", f"-D__SOFTCARD_CODE_OBJECT__={version}"],
    ]
    kernels = ["-x", "cl", "-include", str(DATA / "opencl.h"), str(DATA / "hsa_kernels.cl")]
    subprocess.run([*words, "-S", *kernels, "-o", "k.s"], cwd=tmp_path, check=True)
    subprocess.run([*words, "-c", "k.s", "-o", "k.o"], cwd=tmp_path, check=True)
    theirs = (tmp_path / "k.o").read_bytes()
    found = assemble((tmp_path / "k.s").read_text(), agent if version > 2 else "").elf()
    ours, expected = sections(found), sections(theirs)
    assert ours[".text"] == expected[".text"]
    assert ours[".note"] == expected[".note"]
    code, other = read_code_object(found), read_code_object(theirs)
    assert list(code.kernels) == list(other.kernels)
    assert (code.version, code.target, code.features) == (other.version, other.target, other.features)
    assert code.elf.header.flags == other.elf.header.flags or version == 2
    for number in range(0, len(ours.get(".rodata", b"")), 64):  # descriptors; the entry is a relocation there
        for first, end in ((0, 16), (24, 64)):
            assert ours[".rodata"][number + first : number + end] == expected[".rodata"][number + first : number + end]


BLOCK = """
.amdgcn_target "amdgcn-amd-amdhsa--{agent}"
.text
.globl k
.p2align 8
.type k,@function
k: s_endpgm
.section .rodata,"a"
.p2align 6
.amdhsa_kernel k
{lines}
.end_amdhsa_kernel
"""
FLAGS = """
    user_sgpr_private_segment_buffer user_sgpr_dispatch_ptr user_sgpr_queue_ptr user_sgpr_kernarg_segment_ptr
    user_sgpr_dispatch_id user_sgpr_flat_scratch_init user_sgpr_private_segment_size uses_dynamic_stack
    system_sgpr_private_segment_wavefront_offset system_sgpr_workgroup_id_x system_sgpr_workgroup_id_y
    system_sgpr_workgroup_id_z system_sgpr_workgroup_info reserve_vcc reserve_flat_scratch dx10_clamp ieee_mode
    exception_fp_ieee_invalid_op exception_fp_denorm_src exception_fp_ieee_div_zero exception_fp_ieee_overflow
    exception_fp_ieee_underflow exception_fp_ieee_inexact exception_int_div_zero
"""
NUMBERS = {"group_segment_fixed_size": 65536, "private_segment_fixed_size": 4096, "kernarg_size": 512,
           "system_vgpr_workitem_id": 2, "float_round_mode_32": 3, "float_round_mode_16_64": 3,
           "float_denorm_mode_32": 3, "float_denorm_mode_16_64": 3}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("llvm-mc-19") is None, reason="needs llvm-mc-19 (package llvm-19)")
@pytest.mark.parametrize("agent", ["gfx700", "gfx801", "gfx802", "gfx803", "gfx900", "gfx900:xnack-", "gfx906"])
def test_descriptors_are_those_of_llvm(agent: str) -> None:
    chance = random.Random(agent)
    for _ in range(6):
        said = {name: chance.randint(0, 1) for name in FLAGS.split() if chance.random() < 0.4}
        said |= {name: chance.randint(0, most) for name, most in NUMBERS.items() if chance.random() < 0.5}
        said |= {"next_free_vgpr": chance.randint(0, 256), "next_free_sgpr": chance.randint(0, 90)}
        text = BLOCK.format(agent=agent, lines="\n".join(f".amdhsa_{name} {value}" for name, value in said.items()))
        command = ["llvm-mc-19", "-triple=amdgcn-amd-amdhsa", f"-mcpu={agent.partition(':')[0]}", "-filetype=obj"]
        if ":" in agent:
            command.append("-mattr=-xnack")
        made = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
        ours, theirs = sections(assemble(text).elf())[".rodata"], sections(made)[".rodata"]
        assert (ours[:16], ours[24:]) == (theirs[:16], theirs[24:]), text


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("llvm-mc-19") is None, reason="needs llvm-mc-19 (package llvm-19)")
@pytest.mark.parametrize("agent", ["gfx904", "gfx908", "gfx90a", "gfx90c", "gfx942"])
def test_descriptors_of_cdna_are_those_of_llvm(agent: str) -> None:
    """With accumulation registers, preloaded arguments, TG_SPLIT, and private memory where no register has its
    offset."""
    chance = random.Random(agent)
    for _ in range(12):
        flags = FLAGS.split()
        if agent == "gfx942":
            flags = [each for each in flags if "private_segment_buffer" not in each and "flat_scratch" not in each]
            flags = [each for each in flags if each != "system_sgpr_private_segment_wavefront_offset"]
            flags.append("enable_private_segment")
        said = {each: chance.randint(0, 1) for each in flags if chance.random() < 0.4}
        said |= {each: chance.randint(0, most) for each, most in NUMBERS.items() if chance.random() < 0.5}
        vgprs = chance.randint(1, 256 if agent in ("gfx904", "gfx908", "gfx90c") else 512)
        said |= {"next_free_vgpr": vgprs, "next_free_sgpr": chance.randint(0, 90)}
        if agent in ("gfx90a", "gfx942"):
            said["accum_offset"] = 4 * chance.randint(1, min((vgprs + 3) // 4, 64))
            said["tg_split"] = chance.randint(0, 1)
            said["user_sgpr_kernarg_segment_ptr"] = 1
            said["user_sgpr_kernarg_preload_length"] = chance.randint(0, 2)
            said["user_sgpr_kernarg_preload_offset"] = chance.randint(0, 9)
            said.pop("user_sgpr_count", None)
        text = BLOCK.format(agent=agent, lines="\n".join(f".amdhsa_{each} {value}" for each, value in said.items()))
        command = ["llvm-mc-19", "-triple=amdgcn-amd-amdhsa", f"-mcpu={agent}", "-filetype=obj"]
        made = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
        ours, theirs = sections(assemble(text).elf())[".rodata"], sections(made)[".rodata"]
        assert (ours[:16], ours[24:]) == (theirs[:16], theirs[24:]), text


@pytest.mark.parametrize(
    ("agent", "lines", "message"),
    [
        ("gfx90a", ".amdhsa_next_free_vgpr 8", ".amdhsa_accum_offset is missing"),
        ("gfx90a", ".amdhsa_next_free_vgpr 8\n.amdhsa_accum_offset 12", "accum_offset is 12, expected at most 8"),
        ("gfx942", ".amdhsa_next_free_vgpr 8\n.amdhsa_accum_offset 6", "accum_offset is 6, expected a multiple of 4"),
        ("gfx942", ".amdhsa_next_free_vgpr 513\n.amdhsa_accum_offset 4", "next_free_vgpr is 513, expected 0 to 512"),
        ("gfx908", ".amdhsa_next_free_vgpr 8\n.amdhsa_accum_offset 8", "gfx908 has no .amdhsa_accum_offset"),
        (
            "gfx942", ".amdhsa_next_free_vgpr 8\n.amdhsa_accum_offset 8\n.amdhsa_user_sgpr_flat_scratch_init 1",
            "gfx942 has no .amdhsa_user_sgpr_flat_scratch_init",
        ),
        (
            "gfx90a", ".amdhsa_next_free_vgpr 8\n.amdhsa_accum_offset 8\n.amdhsa_user_sgpr_kernarg_preload_length 4",
            "user_sgpr_kernarg_preload_length needs .amdhsa_user_sgpr_kernarg_segment_ptr 1",
        ),
        (
            "gfx90a", ".amdhsa_next_free_vgpr 8\n.amdhsa_accum_offset 8\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n"
            ".amdhsa_user_sgpr_kernarg_preload_length 15",
            "user_sgpr_kernarg_preload_length is 15, which makes 17 user SGPRs, expected at most 16",
        ),
    ],
)  # fmt: skip
def test_descriptors_that_a_processor_cannot_have(agent: str, lines: str, message: str) -> None:
    with pytest.raises(WireError, match=re.escape(message)):
        assemble(BLOCK.format(agent=agent, lines=f"{lines}\n.amdhsa_next_free_sgpr 8")).elf()


CODE_BLOCK = """
.hsa_code_object_version 2,1
.hsa_code_object_isa {isa},"AMD","AMDGPU"
.text
.p2align 8
.amdgpu_hsa_kernel k
k:
.amd_kernel_code_t
{lines}
.end_amd_kernel_code_t
s_endpgm
"""


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("llvm-mc-16") is None, reason="needs llvm-mc-16 (package llvm-16)")
@pytest.mark.parametrize(("agent", "isa"), [("gfx803", "8,0,3"), ("gfx900", "9,0,0")])
def test_kernel_code_headers_are_those_of_llvm(agent: str, isa: str) -> None:
    lines = [
        "",
        "float_mode = 192\nenable_exception = 5\nenable_exception_msb=2\nuser_sgpr_count = 6\nis_ptr64 = 1\n"
        "granulated_workitem_vgpr_count = 3\nenable_sgpr_kernarg_segment_ptr = 1\nprivate_element_size = 1\n"
        "kernarg_segment_byte_size = 64\nkernel_code_entry_byte_offset = 256\nwavefront_sgpr_count = 10+2\n"
        "kernarg_segment_alignment = 5\ncall_convention = -1\nenable_vgpr_workitem_id = 2\nenable_ieee_mode = 1",
    ]
    for each in lines:
        text = CODE_BLOCK.format(isa=isa, lines=each)
        command = ["llvm-mc-16", "-triple=amdgcn-amd-amdhsa", f"-mcpu={agent}", "-filetype=obj",
                   "--amdhsa-code-object-version=2"]  # fmt: skip
        made = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
        assert sections(assemble(text).elf())[".text"] == sections(made)[".text"]


PROGRAM = """
    .amdgcn_target "amdgcn-amd-amdhsa--gfx900"
    .text
    .globl k
    .p2align 8
    .type k,@function
k:                                      ; @k
    s_getpc_b64 s[0:1]
    s_add_u32 s0, s0, value@gotpcrel32@lo+4
    s_addc_u32 s1, s1, value@gotpcrel32@hi+12
    s_load_dwordx2 s[0:1], s[0:1], 0x0
    s_load_dwordx2 s[2:3], s[4:5], 0x0
    s_getpc_b64 s[8:9]
    s_add_u32 s8, s8, pointer@rel32@lo+4
    s_addc_u32 s9, s9, pointer@rel32@hi+12
    s_load_dwordx2 s[8:9], s[8:9], 0x0
    s_waitcnt lgkmcnt(0)
    s_load_dword s6, s[0:1], N          // through the table of addresses
    s_load_dword s7, s[8:9], 0x0        // through an address in data
    s_mov_b32 s10, sized
    s_getpc_b64 s[12:13]
.Lpost:
    s_add_u32 s12, s12, (.Lthere-.Lpost)&4294967295
    s_addc_u32 s13, s13, (.Lthere-.Lpost)>>32
    s_setpc_b64 s[12:13]
    s_trap 2
.Lthere:
    s_branch 1f
    s_trap 2
1:  s_waitcnt lgkmcnt(0)
    s_add_u32 s6, s6, s7
    s_add_u32 s6, s6, s10
    v_mov_b32_e32 v0, s6
    v_mov_b32_e32 v1, s2
    v_mov_b32_e32 v2, s3
    global_store_dword v[1:2], v0, off
    s_endpgm
.Lend:
    .size k, .Lend-k
    .set N, 4
    .set sized, (end - value) * 100     /* over
                                           lines */
    .data
    .p2align 3
value: .long 1, 7
end:
pointer: .quad value+4
    .comm buffer, 64, 16
    .section .AMDGPU.csdata
    .long .Lend-k
    .section .rodata, "a"
    .amdhsa_kernel k
      .amdhsa_user_sgpr_private_segment_buffer 1
      .amdhsa_user_sgpr_kernarg_segment_ptr 1
      .amdhsa_kernarg_size 8
      .amdhsa_next_free_vgpr 3
      .amdhsa_next_free_sgpr 14
    .end_amdhsa_kernel
"""


@pytest.mark.parametrize("engine", ["reference", "jit"])
def test_addresses_data_and_expressions_at_run_time(engine: str) -> None:
    with Gpu.open("gfx900", engine=engine) as gpu:
        out = gpu.zeros(64, np.uint32)
        code = gpu.load(assemble(PROGRAM).elf())
        gpu.run(code, "k", grid=1, args=np.array([gpu.address(out)], np.uint64).tobytes())
        assert out[0] == 7 + 7 + 800
        assert code.address("value") % 4096 == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s_mov_b32 s0", "s_mov_b32 takes 2 operands here, not 1, at line 1 (s_mov_b32 s0)"),
        ("\ns_branch nowhere", "there is no label 'nowhere', at line 2"),
        ("s_mov_b32 s0, far@rel32@lo+4", "there is no symbol 'far' in this file, at line 1"),
        ("a:\na:", "label a is defined twice, at line 2"),
        (
            ".amdhsa_kernel k\n.amdhsa_next_free_vgpr 1\n.amdhsa_next_free_sgpr 1\n.end_amdhsa_kernel",
            "kernel k is not defined in this file",
        ),
        ("k:\n.amdhsa_kernel k\n.end_amdhsa_kernel", ".amdhsa_next_free_vgpr is missing, at line 3"),
        ("k:\n.amdhsa_kernel k\n.amdhsa_next_fre 1", ".end_amdhsa_kernel is missing, at line 2"),
        (
            "k:\n.amdhsa_kernel k\n.amdhsa_next_fre_vgpr 1\n.end_amdhsa_kernel",
            "did you mean '.amdhsa_next_free_vgpr' or '.amdhsa_next_free_sgpr'? at line 3 (.amdhsa_next_fre_vgpr 1)",
        ),
        (
            "k:\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 1\n.amdhsa_next_free_sgpr 1\n.amdhsa_ieee_mode 2\n"
            ".end_amdhsa_kernel",
            ".amdhsa_ieee_mode is 2, expected 0 to 1, at line 5 (.amdhsa_ieee_mode 2)",
        ),
        ('.amdgcn_target "amdgcn-amd-amdhsa--gfx1030"', "unknown processor 'gfx1030', expected one of gfx700"),
        (".amdgpu_metadata\na: 1", ".amdgpu_metadata has no .end_amdgpu_metadata, at line 1"),
        (
            ".data\n.long x\nx:",
            "an absolute address needs 8 bytes (.quad): code objects are position-independent",
        ),
        (".space x\n.long 1\nx:", "the sizes of sections do not converge in 64 passes"),
        (".if 1\ns_nop 0", "an .if has no .endif"),
        (".mcro x", "unknown directive .mcro"),
        (".space 1<<40", "a size is 1099511627776, expected 0 to 268435456, at line 1"),
        (".long 1/0", "division by 0, at line 1"),
        ("/* open", "a comment has no end, at line 1"),
        (".long " + "(" * 100, "the expression nests more than 64 deep, at line 1"),
        (".long " + "9" * 5000, "the number 99999999999999999999...9999999999 (5000 characters) does not fit 64 bits"),
        (".quad 0x10000000000000000", "the number 0x10000000000000000 does not fit 64 bits, at line 1"),
        ("v_mov_b32 v0, " + "9" * 5000, "the operand has 5000 characters, expected at most 1000, at line 1"),
        ("v_mov_b32 v" + "9" * 5000 + ", 0", "must be in the range v0 to v255"),
        (".org 1<<40", ".org goes 1099511627776 bytes forward, expected at most 268435456, at line 1"),
        (".if 1\n" * 300, "conditions nest more than 256 deep, at line 257"),
        (
            ".comm a, 1<<28\n.comm b, 1<<28",
            "section .bss gets 268435456 bytes more: all sections together would be larger than 268435456 bytes",
        ),
        (".data\ns_nop 0", "an instruction stands in section .data, which cannot hold code, at line 2"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(WireError) as caught:
        assemble(text)
    assert message in str(caught.value)


def test_numbers_have_64_bits() -> None:
    """Products wrap around, so that a short file does not take all memory."""
    powers = assemble(".set a,3\n" + ".set a,a*a*a\n" * 40 + ".quad a\n.globl a\n")
    assert powers.code() == pow(3, 3**40, 1 << 64).to_bytes(8, "little")
    assert assemble(".org x+0x7ffffffffff0-0x7fffffffffef\n.byte 1\n.set x, 2").code() == bytes([0, 0, 0, 1])


def test_the_processor_of_the_file_and_the_one_that_is_asked_for() -> None:
    with pytest.raises(WireError, match="the file is for gfx900, expected gfx803"):
        assemble(PROGRAM, "gfx803")
    assert assemble("v_add_u32 v0, vcc, v1, v2", "gfx803").code() == bytes.fromhex("01050032")


NEWER = """
    .amdgcn_target "amdgcn-amd-amdhsa--gfx900"
    .amdhsa_code_object_version 6
    .text
    .globl k
    .type k,@function
k:  s_endpgm
    .p2alignl 4, 0xbf800000
    .section .rodata,"a",@progbits
    .p2align 6, 0x0
    .amdhsa_kernel k
    .amdhsa_next_free_vgpr max(totalnumvgprs(k.num_agpr, k.num_vgpr), 1, 0)
    .amdhsa_next_free_sgpr (max(k.numbered_sgpr+(extrasgprs(k.uses_vcc, 0, 1)), 1, 0))-(extrasgprs(k.uses_vcc, 0, 1))
    .amdhsa_reserve_vcc k.uses_vcc
    .amdhsa_reserve_flat_scratch 0
    .amdhsa_private_segment_fixed_size alignto(or(k.stack, 1), 16)
    .end_amdhsa_kernel
    .text
    .set k.num_vgpr, 5
    .set k.num_agpr, 0
    .set k.numbered_sgpr, 13
    .set k.uses_vcc, 1
    .set k.stack, 0+max(16, 32)
    .section .debug_info,"",@progbits
    .long .debug_abbrev
    .quad placed.by.the.linker
    .section .debug_abbrev,"",@progbits
"""


def test_what_newer_compilers_leave_to_the_assembler() -> None:
    code = read_code_object(assemble(NEWER).elf())
    header = code.kernel("k").header
    assert (code.version, header.compute_pgm_rsrc1.vgprs(), header.compute_pgm_rsrc1.sgprs) == ("V6", 8, 24)
    assert code.kernel("k").private_bytes == 48
    assert assemble(NEWER).code() == bytes.fromhex("000081bf" + 3 * "000080bf")


@pytest.mark.oracle
def test_what_the_newest_clang_writes_gives_its_bytes(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    words = [
        sys.executable,
        "-m",
        "ziglang",
        "clang",
        "-target",
        "amdgcn-amd-amdhsa",
        "-mcpu=gfx900",
        "-nogpulib",
        "-w",
    ]
    kernels = ["-O2", "-x", "cl", "-cl-no-stdinc", "-include", str(DATA / "opencl.h"), str(DATA / "hsa_kernels.cl")]
    define = ["-cl-std=CL2.0", "-D__SOFTCARD_CODE_OBJECT__=5"]
    subprocess.run([*words, *define, "-S", *kernels, "-o", "k.s"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([*words, "-c", "k.s", "-o", "k.o"], cwd=tmp_path, check=True, capture_output=True)
    ours = sections(assemble((tmp_path / "k.s").read_text()).elf())
    theirs = sections((tmp_path / "k.o").read_bytes())
    assert (ours[".text"], ours[".note"]) == (theirs[".text"], theirs[".note"])


def test_conditions_and_symbols() -> None:
    text = """
    .set wide, 1
    .if wide == 1 && 3 > 2
    .byte 1
    .else
    .byte 2
    .endif
    .ifdef absent
    .byte 3
    .endif
    wide = wide << 4 | 2
    .byte wide, -1, 'a', 0x10 + 2 * 3, ~0 & 255, 017, max(3, 9, 4)
    .fill 2, 2, 0x1234
    .ascii "a;b\\n"
    .float 1.0
    """
    expected = [1, 0x12, 0xFF, 97, 22, 255, 15, 9, 0x34, 0x12, 0x34, 0x12, *b"a;b\n", 0, 0, 0x80, 0x3F]
    assert list(assemble(text).code()) == expected
