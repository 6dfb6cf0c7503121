"""Programs that begin and end as public suites do it: riscv-tests (env p), riscv-arch-test, riscv-vector-tests."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from softcard.cli import main
from softcard.core.errors import BeyondModel, GuestFault, SoftcardError, WireError
from softcard.host.rv64.run import ProgramResult
from softcard.isa.riscv.decode import UNMODELLED, IllegalInstruction, decode
from softcard.riscv import RV64, assemble_program

ENGINES = ("jit", "reference")
USER, SUPERVISOR, MACHINE = 0, 0x800, 0x1800
START = """
    .globl _start
_start:
    j reset
    .balign 4
trap:                                   # ends with gp for each kind of ecall, else with what was not expected
    csrr t5, mcause
    li t6, 8
    beq t5, t6, told
    li t6, 9
    beq t5, t6, told
    li t6, 11
    beq t5, t6, told
    ori gp, gp, 1337
told:
    la t5, tohost
    sw gp, 0(t5)
    sw zero, 4(t5)
    j told
reset:
    csrr a0, mhartid
1:  bnez a0, 1b
    la t0, 1f                           # a hart without this csr continues after it
    csrw mtvec, t0
    csrwi 0x744, 8
    .balign 4
1:  la t0, 1f
    csrw mtvec, t0
    csrwi satp, 0
    .balign 4
1:  la t0, 1f
    csrw mtvec, t0
    li t0, {pmpaddr}
    csrw pmpaddr0, t0
    li t0, {pmpcfg}
    csrw pmpcfg0, t0
    .balign 4
1:  csrwi mie, 0
    csrwi medeleg, 0
    csrwi mideleg, 0
    li gp, 0
    la t0, trap
    csrw mtvec, t0
    csrwi mstatus, 0
    li a0, {mode} | 0x2200              # FS and VS Initial
    csrs mstatus, a0
    csrwi fcsr, 0
    csrwi vcsr, 0
    la t0, 1f
    csrw mepc, t0
    csrr a0, mhartid
    mret
1:
{body}
    fence
    li gp, {end}
    li a7, 93
    ecall
    csrrw zero, cycle, zero
    .section .tohost, "aw"
    .balign 64
    .globl tohost
tohost:
    .dword 0
    .balign 64
    .globl fromhost
fromhost:
    .dword 0
    .data
    .balign 16
    .globl begin_signature
begin_signature:
    .fill 6, 4, 0xdeadbeef
    .globl end_signature
end_signature:
    .balign 8
call:
    .fill 8, 8, 0
text:
    .ascii "told\\n"
"""
VECTORS = """
    vsetivli t0, 4, e32, m1, ta, ma
    vid.v v1
    la a1, begin_signature
    vse32.v v1, (a1)
    csrr t0, vlenb
    sw t0, 16(a1)
"""
WORDS = "00000000\n00000001\n00000002\n00000003\n{:08x}\ndeadbeef\n"


def program(body: str = "", mode: int = USER, end: int = 1, pmpaddr: int = (1 << 53) - 1, pmpcfg: int = 0x1F) -> bytes:
    text = START.format(body=body, mode=mode, end=end, pmpaddr=pmpaddr, pmpcfg=pmpcfg)
    return assemble_program(text, 0x8000_0000)


def run(body: str = "", engine: str = "jit", mode: int = MACHINE, **options: object) -> ProgramResult:
    return RV64.run(program(body, mode), engine=engine, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", [USER, SUPERVISOR, MACHINE])
def test_start_and_end_in_every_mode(engine: str, mode: int) -> None:
    result = run(VECTORS, engine, mode)
    assert (result.status, result.signature_text()) == (0, WORDS.format(64))


@pytest.mark.parametrize(("pmpaddr", "pmpcfg"), [(-1, 0x1F), (-1, 0x0F), ((1 << 53) - 1, 0x9F)])
def test_ways_to_open_all_of_memory(pmpaddr: int, pmpcfg: int) -> None:
    assert RV64.run(program(VECTORS, pmpaddr=pmpaddr, pmpcfg=pmpcfg)).status == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_tests_that_fail(engine: str) -> None:
    assert RV64.run(program(end=3 << 1 | 1), engine=engine).status == 3
    with gives_up("csr mstatus requires privilege M, but the hart has U"):
        run("csrr a0, mstatus", engine, USER)
    with gives_up("no csr 0xc01|csr time"):
        run("rdtime a0", engine, isa="rv64gcv")
    handled = "la t0, 1f\ncsrw mtvec, t0\n.word 0\n.balign 4\n1: li gp, 1337\nla t5, trap\ncsrw mtvec, t5\necall"
    assert run(handled, engine).status == 1337 >> 1  # a trap that was taken, then an end by a call


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("body", "error", "reported"),
    [
        ("la a0, begin_signature\n.insn 0x0045200f", BeyondModel, "cbo.zero of Zicboz is not modelled"),
        (".insn 0x10001513", BeyondModel, "sha256sum0 of Zknh is not modelled"),
        (".insn 0xffffffff", GuestFault, "longer than 32 bits"),
        (
            "la a0, begin_signature\nlw a0, 1(a0)",
            GuestFault,
            "load address misaligned.* with the extension Zicclsm in isa",
        ),
        ("ebreak", GuestFault, "breakpoint"),
    ],
)
def test_a_trap_that_a_test_does_not_expect(body: str, error: type[SoftcardError], reported: str, engine: str) -> None:
    with gives_up(reported, error):
        run(body, engine)
    assert run("la a0, begin_signature\nlw a0, 1(a0)", engine, isa="rv64gcv_zicclsm").status == 0


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("llvm-mc-19") is None, reason="llvm-mc-19 is not installed (Debian: llvm-19)")
def test_names_of_what_is_not_modelled() -> None:
    """Each row's bits are what LLVM calls so, and no instruction of ours is among them."""
    words = "\n".join(" ".join(f"{byte:#x}" for byte in bits.to_bytes(4, "little"))
                      for *_, bits in UNMODELLED)  # fmt: skip
    extensions = "zicbom,zicboz,zawrs,experimental-zacas,zfa,zbkb,zbkx,zknd,zkne,zknh,zksh,h,svinval,a,f,d"
    command = [
        "llvm-mc-19",
        "--triple=riscv64",
        "--disassemble",
        "-mattr=+" + extensions.replace(",", ",+"),
        "-M",
        "no-aliases",
    ]
    done = subprocess.run(command, input=words, capture_output=True, text=True, check=True)
    found = [line.split()[0] for line in done.stdout.splitlines() if line.strip() and not line.strip().startswith(".")]
    assert found == [name for name, *_ in UNMODELLED]
    for name, _, _, bits in UNMODELLED:
        with pytest.raises(IllegalInstruction, match="is not modelled"):
            decode(bits | (name == "packw") << 20)  # packw with zero is zext.h of Zbb


def gives_up(reported: str, error: type[SoftcardError] = GuestFault) -> AbstractContextManager[object]:
    return pytest.raises(
        error, match=rf"the program's trap handler ended the program \(tohost = 0x\w+\) after .*({reported}).* at pc 0x"
    )


def test_status_256_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "test").write_bytes(program(end=256 << 1 | 1))
    assert main(["rv64", str(tmp_path / "test")]) == 255


@pytest.mark.parametrize("engine", ENGINES)
def test_vector_registers_of_another_width(engine: str, tmp_path: Path) -> None:
    for vlen in (128, 1024):
        assert run(VECTORS, engine, vlen=vlen).signature_text() == WORDS.format(vlen // 8)
    assert run(VECTORS, engine, isa="rv64gcv_zvl256b").signature_text() == WORDS.format(32)
    (tmp_path / "test").write_bytes(program(VECTORS))
    out = tmp_path / "signature"
    assert main(["rv64", "--vlen", "256", "--engine", engine, "--signature", str(out), str(tmp_path / "test")]) == 0
    assert out.read_text() == WORDS.format(32)


CALL = """
    la s0, call
    li t0, {number}
    sd t0, 0(s0)
    li t0, 1
    sd t0, 8(s0)
    la t0, text
    sd t0, 16(s0)
    li t0, 5
    sd t0, 24(s0)
    la s1, tohost
    la s2, fromhost
    sd s0, 0(s1)
1:  ld t0, 0(s2)
    beqz t0, 1b
    la a1, begin_signature
    sd t0, 0(a1)
    ld t0, 0(s0)
    sd t0, 8(a1)
    ld t0, 0(s1)
    sd t0, 16(a1)
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_calls_by_tohost(engine: str) -> None:
    """The word in fromhost, the result in the first word, and tohost is 0 again."""
    seen = []
    result = run(CALL.format(number=64), engine, on_write=lambda fd, data: seen.append((fd, data)))
    assert (result.status, result.console, seen) == (0, b"told\n", [(1, b"told\n")])
    assert result.signature_text(8) == f"{1:016x}\n{5:016x}\n{0:016x}\n"
    assert run(CALL.format(number=93), engine).status == 1


PUT = """
    la s1, tohost
    li s3, 0x0101000000000041
    sd s3, 0(s1)
    addi s3, s3, 1
    sd s3, 0(s1)
    la s2, fromhost
    ld t0, 0(s2)
    la a1, begin_signature
    sd t0, 0(a1)
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_bytes_for_the_console(engine: str) -> None:
    result = run(PUT, engine)
    assert (result.status, result.console) == (0, b"AB")
    assert result.signature_text(8).splitlines()[0] == "0101000000000142"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "la s1, tohost\nli t0, 6\nsd t0, 0(s1)",
            "tohost = 0x6 is neither odd (an end) nor the address of a call: read of",
        ),
        (
            "la s1, tohost\nli t0, 0x0200000000000000\nsd t0, 0(s1)",
            "command 0 of host device 2 is not modelled, expected an end",
        ),
        (CALL.format(number=56), "Linux call 56 (a7) is not modelled, only ioctl 29"),
        ("li t0, 8 << 60\ncsrw satp, t0", "would turn on Sv39 paging, which is not modelled"),
        ("csrwi tselect, 0", "csr tselect: debug triggers are not modelled"),
        ("li t0, 2\ncsrw mie, t0\ncsrw mip, t0\ncsrsi mstatus, 8", "the hart would take interrupts 0x2 (bits of mip)"),
        ("csrci misa, 4", "would turn off extensions, which is not modelled"),
        ("csrwi pmpcfg0, 0", "pmp entry 0 must keep all of memory open: physical memory protection is not modelled"),
    ],
)
def test_what_suites_ask_for_and_is_not_there(body: str, message: str, engine: str) -> None:
    with pytest.raises(BeyondModel) as caught:
        run(body, engine)
    assert message in str(caught.value)
    assert "at pc 0x8000" in str(caught.value)


def test_misa_says_what_there_is() -> None:
    def letters(isa: str) -> str:
        misa = run("csrr s5, misa", isa=isa).x[21]
        assert misa >> 62 == 2
        return "".join(chr(65 + k) for k in range(26) if misa >> k & 1)

    assert letters("rv64gcv_zba") == "ACDFIMSUV"
    assert letters("rv64icv") == "CDFISUV"


@pytest.mark.parametrize("engine", ENGINES)
def test_floats_and_vectors_that_are_off_or_not_there(engine: str) -> None:
    off = "li a0, 0x6600\ncsrc mstatus, a0\n"
    assert run(off, engine).status == 0
    for name in ("fcsr", "frm", "vlenb", "vl", "vxrm"):
        with gives_up(f"csr {name}"):
            run(f"{off}csrr a0, {name}", engine)
    body = "li a0, 0x6600\ncsrs mstatus, a0\n"
    bare = assemble_program(
        START.format(body="", mode=USER, end=1, pmpaddr=-1, pmpcfg=31).replace("csrwi vcsr, 0", body)
    )
    assert RV64.run(bare, isa="rv64gc", engine=engine).status == 0
    for name in ("vlenb", "vl", "vxrm"):
        text = START.format(body=f"csrr a0, {name}", mode=USER, end=1, pmpaddr=-1, pmpcfg=31).replace(
            "csrwi vcsr, 0", body
        )
        with gives_up("csr"):
            RV64.run(assemble_program(text), isa="rv64gc", engine=engine)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"vlen": 100}, WireError, "64 to 65536, not 100"),
        ({"vlen": 0}, WireError, "64 to 65536, not 0"),
        (
            {"isa": "rv64gcv_zvl256b", "vlen": 128},
            WireError,
            "requires vector registers of 256 bits or more, but vlen is 128",
        ),
    ],
)
def test_widths_that_there_are_not(options: dict[str, object], error: type[SoftcardError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(**options)  # type: ignore[arg-type]


def test_programs_without_tohost_are_reported_it() -> None:
    with pytest.raises(
        GuestFault,
        match="csr mhartid requires privilege M, but the hart has U; a program with the symbol tohost starts in",
    ):
        RV64.run(assemble_program(".globl _start\n_start: csrr a0, mhartid\n"))


@pytest.mark.parametrize("name", ["tohost", "fromhost"])
def test_symbols_of_the_host_that_lie_nowhere(name: str) -> None:
    text = f".globl _start\n_start: j _start\n.globl tohost\ntohost: .dword 0\n.globl {name}\n.set {name}, 0x1000\n"
    if name == "tohost":
        text = text.replace("tohost: .dword 0\n", "")
    with pytest.raises(WireError, match=f"symbol {name} does not lie in the program's memory: "):
        RV64.run(assemble_program(text, 0x8000_0000))
