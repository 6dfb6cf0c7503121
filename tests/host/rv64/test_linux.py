"""Programs of Linux with a C library, against QEMU; the calls one by one; misaligned accesses on every tier."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from softcard.core.errors import BeyondModel, GuestFault, SoftcardError
from softcard.device.refsi import accelerator
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.host.refsi.refsi import RefSi
from softcard.host.rv64.linux import LinuxCalls
from softcard.host.rv64.memory import ProgramMemory
from softcard.image.riscv.program import Segment
from softcard.ir import llvm
from softcard.ir.object_cache import ObjectCache
from softcard.isa.riscv.isa import REFSI, of_linux
from softcard.isa.riscv.state import Hart
from softcard.riscv import RV64, assemble_program

QEMU = shutil.which("qemu-riscv64")
HERE = Path(__file__).parent
GLIBC = Path("/usr/riscv64-linux-gnu/lib")
GCC = Path("/usr/lib/gcc-cross/riscv64-linux-gnu/12")
CLANG = ("clang-16", "--target=riscv64-linux-gnu", "-march=rv64gc", "-mabi=lp64d", "-O2", "-D_GNU_SOURCE")
THREAD = """
#include <pthread.h>
static void *run(void *x) { return x; }
int main(void) { pthread_t it; return pthread_create(&it, 0, run, 0); }
"""
ABORT = '#include <stdlib.h>\n#include <stdio.h>\nint main(void) { puts("before"); fflush(stdout); abort(); }\n'


def glibc(source: Path, program: Path) -> None:
    """Build a static program with the GNU C library."""
    made = program.with_suffix(".o")
    subprocess.run([*CLANG, "-isystem", GLIBC.parent / "include", "-c", source, "-o", made], check=True)
    first = [GLIBC / "crt1.o", GLIBC / "crti.o", GCC / "crtbeginT.o"]
    parts = [GLIBC / "libc.a", GLIBC / "libm.a", GCC / "libgcc.a", GCC / "libgcc_eh.a"]
    words = ["ld.lld-16", "-static", *first, made, "--start-group", *parts, "--end-group"]
    subprocess.run([*words, GCC / "crtend.o", GLIBC / "crtn.o", "-o", program], check=True)


def musl(source: Path, program: Path) -> None:
    """Build a static program with musl."""
    words = [sys.executable, "-m", "ziglang", "cc", "-target", "riscv64-linux-musl", "-static", "-O2", "-D_GNU_SOURCE"]
    subprocess.run([*words, source, "-o", program], check=True)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.one_in(2)  # ziglang compiles all of musl first, for more than a minute
@pytest.mark.skipif(QEMU is None, reason="qemu-riscv64 is not installed (Debian: qemu-user)")
@pytest.mark.skipif(
    not (GCC / "libgcc.a").exists(), reason="needs libc6-dev-riscv64-cross, libgcc-12-dev-riscv64-cross"
)
@pytest.mark.parametrize("build", [glibc, musl])
def test_a_program_with_a_c_library(build: Callable[[Path, Path], None], tmp_path: Path) -> None:
    assert QEMU is not None
    build(HERE / "libc.c", tmp_path / "program")
    given = b"some\nlines"
    wanted = subprocess.run([QEMU, tmp_path / "program", "one"], input=given, capture_output=True, env={}, check=False)
    written = {1: b"", 2: b""}

    def write(fd: int, data: bytes) -> None:
        written[fd] += data

    result = RV64.run(tmp_path / "program", ("program", "one"), stdin=given, on_write=write)
    assert (result.status, written[1], written[2]) == (42, wanted.stdout, wanted.stderr)
    assert (wanted.returncode, written[2]) == (42, b"to stderr none\n")
    assert RV64.run(tmp_path / "program", ("program", "one"), stdin=given, engine="reference") == result
    for text, error, reported in (
        (THREAD, BeyondModel, "clone: threads and"),
        (ABORT, GuestFault, "itself by SIGABRT"),
    ):
        (tmp_path / "other.c").write_text(text)
        build(tmp_path / "other.c", tmp_path / "other")
        with pytest.raises(error, match=reported + r".* at pc 0x"):
            RV64.run(tmp_path / "other")


# -- calls one by one

BASE = 0x1_0000
PAGE = 4096


class Caller:
    """A program's memory and calls; time is set by hand."""

    def __init__(self) -> None:
        self.memory = ProgramMemory([Segment(BASE, b"", 4 * PAGE, 7)])
        self.now = self.unmapped = 0
        self.calls = LinuxCalls(self.memory, b"input", None, lambda: self.now, self._note)

    def _note(self) -> None:
        self.unmapped += 1

    def __call__(self, number: int, *words: int) -> int:
        """The result of a call, signed."""
        result = self.calls.call(number, *(word & (1 << 64) - 1 for word in (*words, *[0] * (6 - len(words)))))
        return result - (1 << 64 if result >> 63 else 0)

    def words(self, at: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", self.memory.read(at, 8 * count))


def test_memory_comes_and_goes() -> None:
    call, anonymous, fixed = Caller(), 0x22, 0x32
    one, two = call(222, 0, 3 * PAGE, 3, anonymous, -1), call(222, 0, 100, 3, anonymous, -1)
    assert two + PAGE == one
    call.memory.write(two, b"x" * (4 * PAGE))  # next to each other
    with pytest.raises(SoftcardError):
        call.memory.write(two, b"x" * (4 * PAGE + 1))
    assert call(215, one + PAGE, PAGE) == 0
    assert call.unmapped == 1
    with pytest.raises(SoftcardError):
        call.memory.read(one + PAGE, 1)
    assert call.memory.read(one + 2 * PAGE, 1) + call.memory.read(two, 1) == b"xx"
    assert call(222, 0, PAGE, 3, anonymous, -1) == one + PAGE
    assert call.memory.read(one + PAGE - 1, 3) == b"x\0\0"
    assert call(222, one, 2 * PAGE, 3, fixed, -1) == one
    assert call.memory.read(one, PAGE) == bytes(PAGE)
    assert call(222, 0, 1 << 40, 3, anonymous, -1) == -12
    assert call(222, 5, PAGE, 3, fixed, -1) == call(222, 0, 0, 3, anonymous, -1) == call(215, 1, PAGE) == -22
    assert call(222, 0x7000_0000_0000, PAGE, 3, fixed, -1) == -12
    assert call(222, 0, PAGE, 3, 2, 7) == -9
    call.memory.write(BASE, b"old")
    assert call(222, BASE, PAGE, 3, fixed, -1) == BASE
    assert call.memory.read(BASE, 3) == bytes(3)
    call.memory.write(two, b"kept")
    moved = call(216, two, PAGE, 200 * PAGE, 1)
    assert call.memory.read(moved, 4) == b"kept"
    assert call(216, moved, 200 * PAGE, PAGE, 0) == moved
    assert call(216, moved, PAGE, 2 * PAGE, 0) == -12
    assert call(233, moved, PAGE, 4) == 0
    assert call.memory.read(moved, 4) == bytes(4)
    assert call(233, 1 << 50, 1 << 60, 4) == -12
    assert call(226, moved, PAGE, 0) == 0


def test_what_a_process_asks() -> None:
    call = Caller()
    assert [call(number) for number in (96, 172, 174, 178, 99, 124, 293, 258)] == [1000] * 4 + [0, 0, -38, -38]
    assert call(79, -100, BASE, BASE + 64, 0) == call(56, -100, BASE) == call(78, -100, BASE) == -2
    assert call(79, 1, BASE, BASE + 64, 0x1000) == call(80, 2, BASE + 256) == 0
    assert int.from_bytes(call.memory.read(BASE + 80, 4), "little") == 0o10600
    assert call(80, 3, BASE) == call(25, 9, 3) == call(62, 9) == call(29, 9) == -9
    assert (call(62, 1), call(29, 1), call(25, 1, 3), call(25, 0, 3), call(25, 1, 77)) == (-29, -25, 1, 0, -22)
    assert call(261, 0, 3, 0, BASE) == 0
    assert call.words(BASE, 2) == (8 << 20, (1 << 64) - 1)
    assert call(278, BASE, 300) == 256
    first = call.memory.read(BASE, 256)
    assert len(set(first)) > 100
    assert call(278, BASE, 16) == 16
    assert call.memory.read(BASE, 16) != first[:16]
    assert Caller()(278, BASE, 5) == 5
    assert call(123, 0, 8, BASE) == 8
    assert call.words(BASE, 1) == (1,)
    assert call(160, 5) == call(113, 0, 5) == -14
    assert call(17, BASE, 2) == 2
    parts = struct.pack("<4Q", BASE + 512, 3, BASE + 600, 10)
    call.memory.write(BASE, parts)
    assert call(65, 0, BASE, 2) == 5
    assert call.memory.read(BASE + 512, 3) + call.memory.read(BASE + 600, 2) == b"input"
    for number, reported in (
        (220, "clone: threads and further processes are not modelled"),
        (221, "execve"),
        (5, "not modelled, "),
    ):
        with pytest.raises(BeyondModel, match=rf"Linux call {number} \(a7\).*{reported}"):
            call(number)


def test_clocks_count_instructions() -> None:
    call = Caller()
    call.now = 3_000_000_007
    assert call(113, 1, BASE) == 0
    assert call.words(BASE, 2) == (3, 7)
    call.memory.write(BASE, struct.pack("<2Q", 5, 1))
    assert call(101, BASE) == call(115, 1, 1, BASE) == 0  # a time that has passed: no longer
    assert call(113, 0, BASE) == 0
    assert call.words(BASE, 2) == (1_704_067_208, 8)
    call.memory.write(BASE, struct.pack("<2Q", 0, 10**9))
    assert call(101, BASE) == -22
    call.memory.write(BASE, struct.pack("<2Q", (1 << 63) - 1, 0))
    assert [call(101, BASE) for _ in range(3)] == [0, 0, 0]
    assert call(169, BASE) == call(113, 1, BASE) == 0


def test_signals_and_futexes() -> None:
    call = Caller()
    call.memory.write(BASE, struct.pack("<3Q", 1, 0, 0))
    assert call(134, 10, BASE, 0, 8) == call(131, 1, 1, 10) == call(129, 1, 17) == call(129, 1, 0) == 0
    with pytest.raises(GuestFault, match="the program has ended itself by SIGTERM"):
        call(129, 1, 15)
    call.memory.write(BASE, struct.pack("<3Q", 0x1234, 0, 0))
    assert call(134, 10, BASE, BASE + 64, 8) == 0
    assert call.words(BASE + 64, 1) == (1,)
    with pytest.raises(BeyondModel, match="a signal that it handles, but signal handlers are not modelled"):
        call(130, 1, 10)
    call.memory.write(BASE, struct.pack("<Q", 6))
    assert call(135, 0, BASE, 0, 8) == call(135, 1, BASE, BASE + 8, 8) == call(135, 0, 0, BASE + 16, 8) == 0
    assert call.words(BASE + 8, 2) == (6, 0)
    assert call(135, 5, BASE, 0, 8) == -22
    assert (call(98, BASE, 129, 1), call(98, BASE, 0, 5), call(98, BASE, 0, 6, BASE)) == (0, -11, -110)
    with pytest.raises(BeyondModel, match="futex: the program waits for another thread at 0x10000"):
        call(98, BASE, 128, 6)


# -- misaligned accesses

TIERS = {
    "reference": ReferenceEngine,
    "quick": lambda: JitEngine(tier=llvm.QUICK, cache=ObjectCache()),
    "optimised": lambda: JitEngine(tier=llvm.OPTIMISED, cache=ObjectCache()),
}
MISALIGNED = """
.globl _start
_start:
    la s0, data
    li s1, 4000
    add s1, s1, s0
    li s2, 5
loop:
    ld t0, 93(s1)
    addi t0, t0, 3
    sd t0, 93(s1)
    lh t1, 1(s0)
    sw t1, 3(s0)
    fld fa0, 9(s0)
    fsd fa0, 17(s0)
    addi s2, s2, -1
    bnez s2, loop
    ld a1, 93(s1)
    ld a2, 1(s0)
    ld a3, 17(s0)
    li a7, 93
    ecall
.data
.balign 4096
data: .byte 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
.zero 8192
"""


@pytest.mark.parametrize("tier", TIERS)
def test_misaligned_accesses_of_a_program(tier: str) -> None:
    result = RV64.run(assemble_program(MISALIGNED), engine=TIERS[tier]())
    assert result.x[11:14] == (15, 0x0908_0000_0302_0302, 0x1110_0F0E_0D0C_0B0A)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("li t0, 0xF0000000\nsd t0, -4(t0)", "store/AMO access fault: store at 0xf0000000: no memory there"),
        ("li t0, 0xF0000000\nlw t0, -2(t0)", "load access fault: read of 1 bytes at 0xf0000000"),
        ("la t0, _start\naddi t0, t0, 2\nlr.w t1, (t0)", "load address misaligned"),
        ("la t0, _start\naddi t0, t0, 1\namoadd.d t1, t1, (t0)", "store/AMO address misaligned"),
        ("la t0, _start\naddi t0, t0, 4\nsc.d t1, t1, (t0)", "store/AMO address misaligned"),
    ],
)
def test_what_stays_refused(text: str, reported: str, tier: str) -> None:
    with pytest.raises(GuestFault, match=reported):
        RV64.run(assemble_program(f".globl _start\n_start:\n{text}\n"), engine=TIERS[tier]())


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_bare_metal_and_refsi_trap(engine: str) -> None:
    bare = ".globl _start\n_start: la t0, tohost\nlw t0, 1(t0)\n.globl tohost\n.balign 8\ntohost: .dword 0\n"
    with pytest.raises(GuestFault, match="load address misaligned"):
        RV64.run(assemble_program(bare), engine=engine)
    with pytest.raises(GuestFault, match="illegal instruction 0x0000"):  # after the load
        RV64.run(assemble_program(bare), isa="rv64gc_zicclsm", engine=engine)
    with RefSi.open(engine=engine) as device:
        device.load_elf(assemble_program(".globl k\nk: lw t0, 1(a1)\nret\n"))
        with pytest.raises(SoftcardError, match="load address misaligned"):
            device.launch("k", 1, [np.zeros(4, np.int32)])


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_checks_see_misaligned_accesses_byte_by_byte(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Harts with Zicclsm under all checks: what one has stored is defined, what lies beside it is not."""
    monkeypatch.setattr(accelerator, "Hart", lambda index, port: Hart(index, port, of_linux(REFSI)))
    kernel = ".globl k\nk: li t0, 100\nli t1, 4000\nadd a1, a1, t1\n1: sd a0, 93(a1)\nlw t1, {}(a1)\n"
    kernel += "addi t0, t0, -1\nbnez t0, 1b\n{}ret\n"
    for offset, use, kinds in ((95, "", []), (99, "beqz t1, 2f\n2: ", ["undefined-branch"])):
        with RefSi.open(engine=engine, check="all") as device:
            device.load_elf(assemble_program(kernel.format(offset, use)))
            device.launch("k", 1, [device.allocate(8192)])
            assert [finding.kind for finding in device.findings] == kinds


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.skipif(QEMU is None, reason="qemu-riscv64 is not installed (Debian: qemu-user)")
def test_misaligned_accesses_as_qemu(tmp_path: Path) -> None:
    assert QEMU is not None
    words = ["clang-16", "--target=riscv64-linux-gnu", "-march=rv64gcv", "-O2", "-DVECTORS", "-nostdlib", "-static"]
    subprocess.run([*words, "-fuse-ld=lld-16", HERE / "misaligned.c", "-o", tmp_path / "program"], check=True)
    vectors = ("-cpu", "rv64,v=true,vlen=512,elen=64,vext_spec=v1.0")
    wanted = subprocess.run([QEMU, *vectors, tmp_path / "program"], capture_output=True, check=True).stdout
    for make in TIERS.values():
        assert RV64.run(tmp_path / "program", engine=make()).console == wanted
