"""RISC-V assembly files: the bytes of GNU's assembler and linker, of LLVM's assembler, and programs that run."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import understudy
from understudy import RefSi
from understudy.core.errors import WireError
from understudy.image.assembly.program import assemble
from understudy.image.elf.reader import ElfFile
from understudy.image.riscv.program import read_elf
from understudy.isa.riscv.listing import listing

DATA = Path(understudy.__file__).parent / "data"
GNU = "riscv64-unknown-elf-"
EVERYTHING = """
    .text
    .equ N, 40
    .globl _start
_start:
    li a0, N
    la a0, table
    lla s0, table+8
    lw a1, table
    sd a1, table, t0
    fld fa0, table, t1
    call f
    tail f
1:  addi a0, a0, -1
    bnez a0, 1b
    beq a0, a1, 2f
    j 2f
    jal f
    jump f, t2
2:  ret
    .option push
    .option norvc
    add a0, a0, a1; j 1b
    .option pop
    .option arch, -c
    add a0, a0, a1
    .option arch, +c
    fence
    fence rw, w
    fence.i
    fence.tso
    amoadd.w.aq a0, a1, (a2)
    amoswap.d.aqrl a0, a1, 0(a2)
    lr.d a0, 0(a1)
    sc.w.rl a0,a1,(a2)
    csrr a0, mhartid
    csrw 0x340, a1
    csrsi fcsr, 3
    rdcycle a0
    frrm a0
    fsrm a1
    fcvt.w.d a0, fa0, rtz
    fcvt.d.w fa0, a0
    fmv.d fa0, fa1
    fneg.s ft0, ft1
    fabs.d fa0, fa1
    fgt.s a0, fa0, fa1
    fmadd.d fa0, fa1, fa2, fa3
    jalr a0
    jalr a1, 4(a0)
    jalr a1, a0, 8
    jr 8(a0)
    jr a3
    add a0, a0, 5
    and a0, a1, 255
    sll a0, a0, 3
    mv s0, sp
    addi sp, sp, -64
    addi a0, sp, 16
    addi sp, sp, 496
    addi sp, sp, 32
    sub s0, s0, s1
    and s0, s1, s0
    addw a0, a1, a0
    lw a0, (a1)
    lw a0, 0(sp)
    sd ra, 8(sp)
    fsd fs0, 16(sp)
    lui a0, 1
    lui a0, 0xfffff
    lui a0, %hi(table)
    addi a0, a0, %lo(table)
    sw a1, %lo(table+4)(a0)
.Lhigh:
    auipc a3, %pcrel_hi(table+8)
    ld a3, %pcrel_lo(.Lhigh)(a3)
    slli a0, a0, 3
    srai s0, s0, 63
    not a0, a0
    neg a0, a1
    sext.w a0, a0
    zext.b a0, a1
    sext.h a0, a1
    zext.w a0, a1
    seqz a0, a1
    snez a0, a0
    sgt a0, a1, a2
    bgtu a0, a1, far
    beqz s0, far
    bgez a0, far
    j far
    nop
    ebreak
    ecall
    c.li a0, 3
    c.j 1b
    .insn 0x00000513
    .p2align 2
    .space 8192
far: beqz s0, _start
    ret
    .type f, @function
f:  ret
    .size f, .-f
    .section .rodata, "a"
    .align 3
    .dword 7 * (3 + 1) << 2, -5 / 2, 17 % 5, ~1, 0xff & 0x3c | 1 ^ 2, !3, N
    .data
    .align 3
table: .dword 1, f, table+8, 2b-1b
    .half 1, -1
    .byte 'a', 255
    .asciz "a\\"b\\n\\101;#"
    .float 1.5
    .double -2.25
"""


def linked_by_gnu(folder: Path, source: str, addresses: dict[str, int]) -> dict[str, bytes]:
    """Contents of the sections as GNU's assembler and linker make them, at these addresses."""
    (folder / "x.s").write_text(source)
    places = "\n".join(f"{name} {address:#x} : {{ *({name}) }}" for name, address in addresses.items())
    (folder / "x.ld").write_text(f"SECTIONS {{\n{places}\n}}")
    subprocess.run([f"{GNU}as", "-march=rv64gc", "-mabi=lp64d", "x.s", "-o", "x.o"], cwd=folder, check=True)
    subprocess.run([f"{GNU}ld", "--no-relax", "-T", "x.ld", "x.o", "-o", "x.elf"], cwd=folder, check=True)
    return contents((folder / "x.elf").read_bytes())


def contents(data: bytes) -> dict[str, bytes]:
    elf = ElfFile(data, 64)
    return {each.name: bytes(elf.contents(each)) for each in elf.named_sections()
            if each.header.flags & 2 and each.header.type == 1 and each.header.size}  # fmt: skip


def agrees(folder: Path, source: str) -> None:
    made = assemble(source, "rv64gc").elf()
    addresses = {each.name: each.header.addr for each in ElfFile(made, 64).named_sections() if each.header.flags & 2}
    ours, theirs = contents(made), linked_by_gnu(folder, source, addresses)
    assert ours.keys() == theirs.keys()
    for name, data in ours.items():
        assert theirs[name].rstrip(b"\0") == data.rstrip(b"\0"), name  # GNU's fills sections up to their alignment


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which(f"{GNU}gcc") is None, reason="needs GNU's tools")
class TestGnu:
    def test_every_kind_of_statement(self, tmp_path: Path) -> None:
        agrees(tmp_path, EVERYTHING)

    def test_constants(self, tmp_path: Path) -> None:
        chance = random.Random(15)
        values = [chance.getrandbits(bits := chance.randint(1, 64)) << chance.randint(0, 64 - bits) for _ in range(300)]
        values += [(1 << 63) - 1, 1 << 63, 0x8000_0000, 0xFFFF_FFFF, 2047, 2048, 0x7FFF_F800, 0x7FFF_FFFF]
        signed = [(value & (1 << 64) - 1 ^ 1 << 63) - (1 << 63) for value in values]
        agrees(tmp_path, "".join(f"li a{n % 8}, {value}\n" for n, value in enumerate([*signed, -2048, -2049])))

    def test_branches_at_the_edge_of_their_reach(self, tmp_path: Path) -> None:
        lines = []
        for number, gap in enumerate((250, 252, 254, 256, 2040, 2044, 2046, 2048, 4088, 4090, 4092, 4094, 4096)):
            for kind, name in enumerate(("beqz a0,", "beq a0, a1,", "j")):
                for back in (0, 1):
                    lines.append(f'.section .text.{number}.{kind}.{back}, "ax"')
                    branch, here = f"{name} 1{'fb'[back]}", "1:"
                    lines += [here, f".space {gap - 2}", branch] if back else [branch, f".space {gap - 2}", here, "nop"]
        agrees(tmp_path, "\n".join(lines))

    @pytest.mark.parametrize("options", [["-O2", "-mcmodel=medany"], ["-O1", "-mcmodel=medlow", "-fno-jump-tables"]])
    def test_what_gcc_writes(self, tmp_path: Path, options: list[str]) -> None:
        flags = ["-march=rv64gc", "-mabi=lp64d", "-ffreestanding", "-ffp-contract=off", *options]
        command = [f"{GNU}gcc", *flags, "-S", str(DATA / "kernels.c"), "-o", "k.s"]
        subprocess.run(command, cwd=tmp_path, check=True)
        agrees(tmp_path, (tmp_path / "k.s").read_text())


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("clang-16") is None, reason="needs clang-16")
def test_what_clang_writes_runs(tmp_path: Path) -> None:
    flags = [
        "-march=rv64gcv",  # clang 16 does not know the `.option arch` that the vector kernel has
        "-fno-vectorize",
        "-fno-slp-vectorize",
        "-mabi=lp64d",
        "-mcmodel=medany",
        "-ffreestanding",
        "-ffp-contract=off",
        "-fno-math-errno",
    ]
    command = ["clang-16", "--target=riscv64", *flags, "-O2", "-S", str(DATA / "kernels.c"), "-o", "k.s"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with RefSi.open() as device:
        device.load_elf(assemble((tmp_path / "k.s").read_text()).elf())
        a, b, c = (np.arange(64, dtype=np.int32) * n for n in (1, 3, 0))
        device.launch("vector_add", 4, [a, b, c, 16])
        assert (c == a + b).all()


VECTORS = """
    vsetvli t0, a0, e32, m1, ta, ma
    vsetivli zero, 4, e8, mf2, tu, mu
    vsetvl a0, a1, a2
    vle32.v v8, (a1)
    vle32.v v8, 0(a1), v0.t
    vlse64.v v8, (a1), a2
    vsuxei16.v v8, (a1), v4
    vlseg3e32.v v4, (a1)
    vadd.vv v1, v2, v3, v0.t
    vadd.vi v1, v2, -5
    vfmacc.vf v1, fa0, v2
    vneg.v v1, v2
    vnot.v v1, v2, v0.t
    vmsgt.vv v1, v2, v3, v0.t
    vmset.m v0
    vl2r.v v4, (a0)
    vmv.x.s a0, v1
    vse32.v v8, (a1)
"""


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("llvm-mc-19") is None, reason="needs llvm-mc-19 (package llvm-19)")
def test_vector_instructions() -> None:
    command = ["llvm-mc-19", "-triple=riscv64", "-mattr=+m,+a,+f,+d,+c,+v", "-filetype=obj"]
    made = subprocess.run(command, input=VECTORS.encode(), capture_output=True, check=True).stdout
    assert assemble(VECTORS, "rv64gc").code() == contents(made)[".text"]


def test_the_text_of_a_listing_gives_the_same_bytes() -> None:
    image = read_elf((DATA / "kernels.elf").read_bytes())
    code = image.segments[0]
    first = min(each.address for each in (image.symbols or {}).values() if each.is_global)
    data = code.data[first - code.address :]
    text = ".option norvc\n" + "\n".join(map(str, listing(data, first, {first: "vector_add"})))
    assert assemble(text).code()[: len(data)] == data[: len(data) & -2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("addi a0, a0, 5000", "imm = 5000 cannot be encoded"),
        ("beq a0, a1", "beq needs operands"),
        ("j nowhere", "there is no symbol 'nowhere' in this file, at line 1 (j nowhere)"),
        ("addd a0, a0, a1", "no instruction 'addd', at line 1"),
        (".option pop", ".option pop without push"),
        ('.attribute arch, "rv32i2p1"', "architecture 'rv32i2p1', expected rv64gc or a part of it"),
        ("lui a0, %tprel_hi(x)\nx:", "%tprel_hi is not known here"),
        ("lw a0, %lo(x(a0)\nx:", "a ) is missing"),
        ("j x\n.space 1<<21\nx:", "x is 2097154 bytes away: jal does not reach it"),
        ("li a0, 1<<70 - 0", "a shift by 70, expected 0 to 63"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(WireError) as caught:
        assemble(text, "rv64gc")
    assert message in str(caught.value)


def test_a_program_is_linked_where_it_is_asked_for() -> None:
    image = read_elf(assemble(".globl k\nk: lui a0, %hi(x)\nld a0, %lo(x)(a0)\nret\n.data\nx: .dword x", "rv64gc",
                              0x40_0000).elf())  # fmt: skip
    place = image.symbol("x").address
    assert image.segments[0].address == 0x40_0000
    assert image.read(place, 8) == place.to_bytes(8, "little")
    with pytest.raises(WireError, match="which lui does not reach: use -mcmodel=medany"):
        assemble("lui a0, %hi(x)\nx:", "rv64gc", 0x8000_0000)
