"""RV64 programs by themselves: against QEMU, bare-metal signatures, and what is refused."""

from __future__ import annotations

import doctest
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softcard.core.errors import BeyondModel, GuestFault, SoftcardError, WireError
from softcard.core.limits import TimeLimit
from softcard.host.rv64 import run as module
from softcard.host.rv64.run import ProgramResult, StepLimit
from softcard.riscv import RV64, assemble_program

QEMU = shutil.which("qemu-riscv64")
ENGINES = ("jit", "reference")
PROGRAM = r"""
typedef unsigned long u64;
static long call(long n, long a, long b, long c)
{
    register long a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c, a7 __asm__("a7") = n;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}
static void put(const char *name, u64 value)
{
    char line[80];
    int n = 0;
    while (*name) line[n++] = *name++;
    for (int k = 60; k >= 0; k -= 4) line[n++] = "0123456789abcdef"[value >> k & 15];
    line[n++] = '\n';
    call(64, 1, (long)line, n);
}
static u64 mixed(u64 a, u64 b)
{
    a = (a << 13 | a >> 51) ^ b;
    a += (b & ~a) + (unsigned)a * 8ul + __builtin_popcountl(a) + __builtin_ctzl(a | 1) + __builtin_clzl(b | 1);
    return a > b ? __builtin_bswap64(a) : a ^ 1ul << (b & 63);
}
void start(u64 *stack)
{
    u64 a = 1, b = 0x9E3779B97F4A7C15ul;
    double d = 1;
    for (int k = 0; k < ROUNDS; k++) a = mixed(a, b += a), d += 1.0 / (k + a % 7 + 1);
    put("mixed ", a);
    put("double ", *(u64 *)&d);
    put("arguments ", stack[0]);
    const char *text = (const char *)stack[2];
    call(64, 1, (long)text, 5);
    char in[8];
    u64 got = call(63, 0, (long)in, 8);
    put(" read ", got);
    call(64, 2, (long)in, got);
    u64 *parts[] = {(u64 *)"ab", (u64 *)2, (u64 *)"cd\n", (u64 *)3};
    call(66, 1, (long)parts, 2);
    u64 heap = call(214, 0, 0, 0);
    *(volatile u64 *)(call(214, heap + 4096, 0, 0) - 8) = 5;
    put("bad ", call(64, 7, 0, 0));
    put("parts ", call(66, 1, (long)parts, 1025));
    put("fault ", call(64, 1, 16, 8));
    call(93, 300 + 7, 0, 0);
}
__asm__(".globl _start\n_start: mv a0, sp\nandi sp, sp, -16\ncall start\n");
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(PROGRAM)
    clang = [sys.executable, "-m", "ziglang"]
    flags = ["--target=riscv64", "-march=rv64gc_zba_zbb_zbs", "-mabi=lp64d", "-mcmodel=medany", "-O2", "-ffreestanding"]
    words = [*clang, "clang", *flags, "-DROUNDS=5000", "-fno-pic", "-c", "p.c", "-o", "p.o"]
    subprocess.run(words, cwd=folder, check=True)
    subprocess.run([*clang, "ld.lld", "-static", "p.o", "-o", "p"], cwd=folder, check=True)
    return folder / "p"


@pytest.mark.oracle
@pytest.mark.skipif(QEMU is None, reason="qemu-riscv64 is not installed (Debian: qemu-user)")
def test_a_program_does_what_it_does_under_qemu(program: Path) -> None:
    assert QEMU is not None
    wanted = subprocess.run([QEMU, program, "three"], input=b"xyz\n", capture_output=True, check=False)
    result = RV64.run(program, ("p", "three"), stdin=b"xyz\n")
    assert result.status == wanted.returncode == 51
    assert result.console.replace(b"xyz\n", b"") == wanted.stdout
    assert wanted.stderr == b"xyz\n"
    assert result.instructions > 100_000


@pytest.mark.oracle
def test_both_engines_and_every_register(program: Path) -> None:
    jit, reference = (RV64.run(program, engine=engine) for engine in ENGINES)
    assert jit == reference
    assert jit.x[17] == 93
    assert jit.fcsr == 1
    assert jit.f != (0,) * 32
    with pytest.raises(
        GuestFault, match=r"illegal instruction.* RV64GC_Z.* has no such encoding, .* belongs to Zb.*at pc 0x"
    ):
        RV64.run(program, isa="rv64gc")
    assert RV64.run(program, isa="rv64gc_b").x == RV64.run(program).x


BARE = """
    .globl _start
_start:
    la t0, handler
    csrw mtvec, t0
    la s0, begin_signature
    csrr t1, mhartid
    sd t1, 0(s0)
    ebreak
    li t1, 0x123456789abcdef0
    rev8 t2, t1
    sd t2, 16(s0)
    la t0, tohost
    li t1, {reported}
    sw t1, 0(t0)
    sw zero, 4(t0)
loop:
    j loop
    .balign 4
handler:
    csrr t3, mcause
    sw t3, 8(s0)
    csrr t3, mepc
    addi t3, t3, 2
    csrw mepc, t3
    mret
    .data
    .balign 4096
    .globl tohost
tohost:
    .dword 0
    .balign 16
    .globl begin_signature
begin_signature:
    .fill 3, 8, 0xffffffff
    .globl end_signature
end_signature:
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bare_program_leaves_a_signature(engine: str) -> None:
    result = RV64.run(assemble_program(BARE.format(reported=7), 0x8000_0000), engine=engine)
    assert (result.status, result.console) == (3, b"")
    assert result.signature_text() == "00000000\n00000000\n00000003\n00000000\n78563412\nf0debc9a\n"
    assert repr(result).startswith("<program that ended with 3: ")
    assert result.signature_text(8).splitlines()[2] == "f0debc9a78563412"
    assert result.instructions == RV64.run(assemble_program(BARE.format(reported=7), 0x8000_0000)).instructions


def reported(text: str, **options: object) -> ProgramResult:
    return RV64.run(assemble_program(f".globl _start\n_start:\n{text}\n"), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("li a7, 5\necall", BeyondModel, "Linux call 5 (a7) is not modelled, only getcwd 17, dup 23"),
        (
            "ld a0, 8(zero)",
            GuestFault,
            "load access fault: read of 8 bytes at 0x8: no memory there (ld a0,8(zero), zero = 0x0), at pc",
        ),
        ("addi a1, sp, 1\nlr.w a0, (a1)", GuestFault, "load address misaligned"),
        ("ebreak", GuestFault, "breakpoint"),
        ("csrr a0, mstatus", GuestFault, "csr mstatus requires privilege M, but the hart has U"),
        (".word 0", GuestFault, "illegal instruction 0x0000"),
    ],
)
def test_what_goes_wrong_has_a_place(text: str, error: type[SoftcardError], message: str, engine: str) -> None:
    with pytest.raises(error) as caught:
        reported(text, engine=engine)
    assert message in str(caught.value)
    assert "at pc 0x10" in str(caught.value)
    assert "(_start" in str(caught.value)


def test_limits_and_refusals() -> None:
    with pytest.raises(StepLimit, match="not ended after 1000 instructions"):
        reported("loop: j loop", step_limit=1000)
    with pytest.raises(TimeLimit, match=r"within 0\.2 s"):
        reported("loop: j loop", time_limit_seconds=0.2)
    with pytest.raises(BeyondModel, match="tohost = 0x6"):
        RV64.run(assemble_program(BARE.format(reported=6), 0x8000_0000))
    for bad, message in (({"isa": "rv64gq"}, "has the unknown extension 'Q'"), ({"engine": "x"}, "unknown engine 'x'")):
        with pytest.raises(WireError, match=message):
            reported("nop", **bad)
    for data in (b"", b"\x7fELF", bytes(100)):
        with pytest.raises(WireError):
            RV64.run(data)
    with pytest.raises(WireError, match="leave no room for the stack"):
        RV64.run(assemble_program(".globl _start\n_start: nop\n", 0xEFF0_0000))


def test_docstrings() -> None:
    assert doctest.testmod(module).failed == 0
