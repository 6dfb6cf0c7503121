"""RISC-V assembly files: the bytes of GNU's assembler and linker, of LLVM's assembler, and programs that run."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import softcard
from softcard import RefSi, riscv
from softcard.core.errors import WireError
from softcard.image.assembly.program import assemble
from softcard.image.elf.reader import ElfFile
from softcard.image.riscv.program import read_elf
from softcard.isa.riscv.assembler import assemble as plain
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.decode import decode
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.listing import listing

DATA = Path(softcard.__file__).parent / "data"
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

    def test_expressions_of_64_bits(self, tmp_path: Path) -> None:
        agrees(tmp_path, WRAPPING)

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


WRAPPING = (
    """
    .globl _start
_start:
    .set a, 3
"""
    + "    .set a, a*a*a\n" * 40
    + """
    .quad a, 1<<63, -(1<<63), (1<<63)/2, (1<<63)%10, 0xffffffffffffffff<0, 0xffffffffffffffff==-1, (1<<63)>0, 2>=1
    .quad 0xffffffffffffffff>>4, -1>>4, 0xffffffffffffffff*0xffffffffffffffff, 0xffffffffffffffff+1, 1<<63>>63, !0
    .quad 0x7fffffffffffffff+1, 0xffffffffffffffff/16, -7/2, -7%3, ~0, 1&&1, 1!=2, 1<=0
"""
)


def test_expressions_of_64_bits() -> None:
    code = assemble(WRAPPING, "rv64gc").code()
    numbers = [int.from_bytes(code[at : at + 8], "little") for at in range(0, len(code), 8)]
    ones = (1 << 64) - 1
    assert numbers[:9] == [pow(3, 3**40, 1 << 64), 1 << 63, 1 << 63, 3 << 62, ones - 7, ones, ones, 0, ones]
    assert numbers[9:15] == [ones >> 4, ones >> 4, 1, 0, 1, 1]
    assert numbers[15:] == [1 << 63, 0, ones - 2, ones, ones, 1, ones, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("addi a0, a0, 5000", "imm = 5000 cannot be encoded"),
        ("beq a0, a1", "beq needs operands"),
        ("j nowhere", "there is no symbol 'nowhere' in this file, at line 1 (j nowhere)"),
        ("addd a0, a0, a1", "unknown instruction 'addd'; did you mean 'add' or 'fadd.d'? at line 1"),
        ("cal f", "unknown instruction 'cal'; did you mean 'call'? at line 1"),
        ("ret a0", "ret takes no operands, not 'a0', at line 1"),
        ("ecall a0", "ecall takes no operands, not 'a0', at line 1"),
        ("mv a0", "mv needs operands 'rd, rs', not 'a0', at line 1"),
        ("jr", "jr needs operands 'rs' or 'rs, imm', not none, at line 1"),
        ("tail", "tail needs 1 operand, not 0, at line 1"),
        ("call", "call needs 1 or 2 operands, not 0, at line 1"),
        (".word 0x1ffffffff", "0x1ffffffff does not fit 4 bytes, at line 1"),
        (".byte n\n.set n, 300", "n is 0x12c, which does not fit 1 byte, at line 1"),
        (".option pop", ".option pop has no .option push before it"),
        ('.attribute arch, "rv32i2p1"', "the architecture is 'rv32i2p1', expected rv64gc or a part of it"),
        ("lui a0, %tprel_hi(x)\nx:", "unknown function %tprel_hi"),
        ("lw a0, %lo(x(a0)\nx:", "has no closing )"),
        ("j x\n.space 1<<21\nx:", "x is 2097154 bytes away, too far for jal"),
        ("li a0, 1<<70 - 0", "the shift amount is 70, expected 0 to 63"),
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
    with pytest.raises(WireError, match="which lui cannot address: use -mcmodel=medany"):
        assemble("lui a0, %hi(x)\nx:", "rv64gc", 0x8000_0000)


PSEUDO = """
    nop; mv a0, a1; not a0, a1; neg a0, a1; negw a0, a1; sext.w a0, a1; sext.b a0, a1; sext.h a0, a1
    zext.b a0, a1; zext.h a0, a1; seqz a0, a1; snez a0, a1; sltz a0, a1; sgtz a0, a1; sgt a0, a1, a2
    sgtu a0, a1, a2; fmv.s fa0, fa1; fabs.s fa0, fa1; fneg.s fa0, fa1; fmv.d fa0, fa1; fabs.d fa0, fa1
    fneg.d fa0, fa1; fmv.h fa0, fa1; fabs.h fa0, fa1; fneg.h fa0, fa1; fgt.h a0, fa0, fa1; fge.h a0, fa0, fa1
    fgt.s a0, fa0, fa1; fge.d a0, fa0, fa1; beqz a0, .+8; bnez a0, .+8; blez a0, .+8; bgez a0, .+8
    bltz a0, .+8; bgtz a0, .+8; bgt a0, a1, .+8; ble a0, a1, .+8; bgtu a0, a1, .+8; bleu a0, a1, .+8; j .+8
    jal .+8; jr a0; jr 4(a0); jr a0, 4; jalr a0; jalr 4(a0); jalr a1, a0; jalr a1, a0, 4; jalr a1, 4(a0)
    jalr a0, 4; jalr a1, (a0); ret; fence; fence rw, w; fence w, rw; fence.i; fence.tso; pause
    csrr a0, mstatus; csrw mstatus, a0; csrs mstatus, a0; csrc mstatus, a0; csrw mstatus, 5; csrs mstatus, 5
    csrc mstatus, 5; csrrw a0, mstatus, 5; csrrs a0, mstatus, 5; csrrc a0, mstatus, 5; csrwi mstatus, 5
    csrsi mstatus, 5; csrci mstatus, 5; csrr a0, 0x300; csrrw a0, 0x300, a1; rdinstret a0; rdcycle a0
    rdtime a0; frcsr a0; fscsr a0; fscsr a0, a1; frrm a0; fsrm a0; fsrm a0, a1; fsrmi 3; fsrmi a0, 3
    frflags a0; fsflags a0; fsflags a0, a1; fsflagsi 3; fsflagsi a0, 3; frsr a0; fssr a0; fssr a0, a1
    fmv.x.s a0, fa0; fmv.s.x fa0, a0; scall; sbreak; ecall; ebreak; unimp; sfence.vma; sfence.vma a0
    sfence.vma a0, a1; mret; sret; wfi; add a0, a1, 5; addw a0, a1, 5; and a0, a1, 5; or a0, a1, 5
    xor a0, a1, 5; sll a0, a1, 5; srl a0, a1, 5; sra a0, a1, 5; sllw a0, a1, 5; srlw a0, a1, 5; sraw a0, a1, 5
    slt a0, a1, 5; sltu a0, a1, 5; lb a0, (a1); lw a0, 0(a1); sd a0, (a1); ld a0, %lo(0x12345)(a1)
    lui a0, %hi(0x12345); addi a0, a0, %lo(0x12345); lr.w a0, (a1); lr.w.aqrl a0, 0(a1); sc.d.rl a0, a2, (a1)
    amoadd.w.aqrl a0, a2, (a1); amoadd.w a0, a2, 0(a1); fadd.s fa0, fa1, fa2; fadd.s fa0, fa1, fa2, rtz
    fcvt.w.s a0, fa0; fcvt.w.s a0, fa0, rtz; fcvt.s.w fa0, a0; fcvt.d.l fa0, a0, rne; fcvt.d.w fa0, a0
    fcvt.d.s fa0, fa1; fsqrt.d fa0, fa1; fmadd.d fa0, fa1, fa2, fa3; sgt a0, a1, zero; rev8 a0, a1
    rol a0, a1, a2; ror a0, a1, 5; rorw a0, a1, 5; bset a0, a1, 5; bclr a0, a1, 5; binv a0, a1, 5
    bext a0, a1, 5; add.uw a0, a1, a2; slli.uw a0, a1, 3; orc.b a0, a1; czero.eqz a0, a1, a2; ntl.p1; ntl.pall
    ntl.s1; ntl.all; vmsge.vx v1, v2, a0; vmsgeu.vx v1, v2, a0; vmsge.vx v1, v2, a0, v0.t; vmslt.vi v1, v2, 5
    vmsltu.vi v1, v2, 5; vmsge.vi v1, v2, 5; vmsgeu.vi v1, v2, 5; vmsgeu.vi v1, v2, 0; vmsltu.vi v1, v2, 0
    vneg.v v1, v2; vnot.v v1, v2, v0.t; vfneg.v v1, v2; vfabs.v v1, v2; vmmv.m v1, v2; vmclr.m v1; vmset.m v1
    vmnot.m v1, v2; vle1.v v1, (a0); vse1.v v1, (a0); vpopc.m a0, v1; vmandnot.mm v1, v2, v3
    vmornot.mm v1, v2, v3; vfredsum.vs v1, v2, v3; vfwredsum.vs v1, v2, v3; vsetvli a0, a1, e32, m2, ta, ma
    vsetvli a0, a1, 0xd1; vsetivli a0, 4, e8, mf2, tu, mu; vsetvl a0, a1, a2; vl1r.v v1, (a0)
    vwcvt.x.x.v v1, v2; vncvt.x.x.w v1, v2; vmv.v.v v1, v2; vadd.vi v1, v2, -3
"""
EXTENSIONS = "+m,+a,+f,+d,+v,+zba,+zbb,+zbc,+zbs,+zfh,+zicond,+zihintntl,+zihintpause"


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("llvm-mc-19") is None, reason="llvm-mc-19 is not installed (Debian: llvm-19)")
def test_code_alone_as_llvm_assembles_it(tmp_path: Path) -> None:
    """Every pseudo-instruction of the assembly manual, and those of vectors."""
    words = ["llvm-mc-19", "--triple=riscv64", f"-mattr={EXTENSIONS}", "-filetype=obj", "-o", tmp_path / "made.o"]
    subprocess.run(words, input=PSEUDO, text=True, check=True)
    elf = ElfFile((tmp_path / "made.o").read_bytes(), 64)
    start, size = elf.extent(elf.section(".text"))
    found, wanted = riscv.assemble(PSEUDO), elf.data[start : start + size]
    differ = next((at for at in range(0, size, 4) if found[at : at + 4] != wanted[at : at + 4]), None)
    assert (found[differ:][:4], len(found)) == (wanted[differ:][:4], size) or differ is None, PSEUDO.split(";")


def test_code_alone() -> None:
    assert riscv.assemble("ret").hex() == "67800000"
    assert riscv.assemble("") == b""
    text = """
    start: la a0, table     # two instructions
    1:  lw a1, (a0); beqz a1, 1f
        call far
        j 1b
    1:  li a2, 0x12345678
        c.li a3, 1
        .balign 4
    far: ret
        .word 1, start, far - start
        .half 7
        .data
    table: .dword table
    """
    code = riscv.assemble(text, 0x8000)
    assert code[0x28:].hex() == "67800000" + "01000000" + "00800000" + "28000000" + "0700" + "3a80000000000000"
    assert [line.shown for line in listing(code[:0x26], 0x8000)] == [
        "auipc a0,0x0", "addi a0,a0,58", "lw a1,0(a0)", "beq a1,zero,L801c", "auipc ra,0x0", "jalr ra,24(ra)",
        "jal zero,L8008", "lui a2,0x12345", "addiw a2,a2,1656", "c.li a3,1",
    ]  # fmt: skip
    numbers, places = "j 0x1010; c.j 0x1004; bne a0, a1, 0x1000", "j .+16; c.j .+0; bne a0, a1, .-6"
    assert riscv.assemble(numbers, 0x1000) == riscv.assemble(places, 0x1000)
    assert len(riscv.assemble(numbers, 0x1000)) == 10
    masked = "vmsltu.vx v3,v2,a0; vmandn.mm v3,v0,v3; vmandn.mm v4,v4,v0; vmor.mm v4,v3,v4"
    assert riscv.assemble("vmsgeu.vx v0, v2, a0, v0.t, v3; vmsgeu.vx v4, v2, a0, v0.t, v3") == riscv.assemble(
        f"vmsltu.vx v3,v2,a0; vmandn.mm v0,v0,v3; {masked}"
    )
    for bad, reported in (
        ("nop\nfnord a0", r"unknown instruction 'fnord', at line 2 \(fnord a0\)"),
        ("j nowhere", r"there is no symbol 'nowhere' in this file, at line 1"),
        (".balign 8; nop", r"section .text begins at 0x8002, expected a multiple of 8"),
        (".insn 2, 0x13", r"0x13 encodes an instruction of 4 bytes, expected 2 "),
        ("li a0", "li needs operands 'rd, imm'"),
    ):
        with pytest.raises(WireError, match=reported):
            riscv.assemble(bad, 0x8002)


def test_text_of_instructions_is_code_again() -> None:
    """The disassembler's text of each instruction, of every extension, gives the same word."""
    rng = random.Random(9)
    for _ in range(2000):
        word = rng.getrandbits(32) if rng.random() < 0.3 else rng.getrandbits(32) | 3
        try:
            shown = text(decode(word), 0x1000)
            wanted = plain(shown, 0x1000)
        except (IllegalInstruction, WireError):
            continue
        assert riscv.assemble(shown, 0x1000) == wanted, shown
