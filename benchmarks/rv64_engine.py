"""How fast does translated RV64 code run, against qemu-riscv64 running the same machine code?

The code is compiled once, here; both sides run it in turns. Times are CPU times, less those of a run with a small
count, so that neither side's start-up and translation counts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import FOLDER, REFERENCE, Row, alternate, cpu, main, rate
from softcard.core.errors import AccessFault
from softcard.core.space import Ram
from softcard.engine.riscv.api import Why
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.image.riscv.program import ElfImage, read_elf
from softcard.ir import llvm
from softcard.ir.object_cache import ObjectCache
from softcard.isa.riscv import csr
from softcard.isa.riscv.isa import REFSI, isa_of
from softcard.isa.riscv.state import RETURN_ADDRESS, Hart

COMPILER: Final = "riscv64-unknown-elf-gcc"
QEMU: Final = "qemu-riscv64"
FLAGS: Final = ("-O2", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany", "-ffreestanding", "-fno-builtin")
LINK: Final = ("-static", "-nostdlib", "-nostartfiles", "-Wl,--no-warn-rwx-segments")
RAM_BYTES: Final = 64 << 20
HOME: Final = 0xDEAD_0000
FOREVER: Final = 1 << 60
TITLE: Final = "RV64 engine: translated code on one core"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One function of rv64.c: its counts, the target against qemu, and the reference's published MIPS (upper end)."""

    what: str
    symbol: str
    number: int
    count: int
    target: float | None
    reference: float
    small: int = 1
    note: str = ""


KERNELS: Final = (
    Kernel("integer loop (collatz)", "run_collatz", 0, 1_500_000, 2, 520),
    Kernel(
        "integer loop (xorshift)",
        "run_xorshift",
        1,
        150_000_000,
        None,
        520,
        note="one chain of dependent operations: bound by latency, hence no target against qemu",
    ),
    Kernel("f32 matmul 128", "run_matmul_f32", 2, 20, 10, 220),
    Kernel("8-byte copy, 1 MiB", "run_copy", 3, 3000, 1.5, 50),
    Kernel("recursive calls (fib)", "run_fib", 4, 36, 1, 280),
)
REFERENCE_TARGET: Final = 8


class FlatPort:
    """Memory from address 0 on."""

    def __init__(self, ram: Ram) -> None:
        self.ram = ram

    def _check(self, address: int, size: int) -> None:
        if address + size > self.ram.size:
            raise AccessFault("no memory there", address=address)

    def load(self, address: int, size: int) -> int:
        self._check(address, size)
        return int.from_bytes(self.ram.view[address : address + size], "little")

    def store(self, address: int, size: int, value: int) -> None:
        self._check(address, size)
        self.ram.view[address : address + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def fetch(self, address: int) -> int:
        return self.load(address, 2)

    def page(self, address: int, access: str) -> int | None:
        return self.ram.base_host if address < self.ram.size else None

    def extent(self, address: int, access: str) -> tuple[int, int]:
        return 0, self.ram.size


class Machine:
    """One hart of an instruction set with optimised code only, and an ELF file in its memory."""

    def __init__(self, image: ElfImage, isa: str = REFSI.name) -> None:
        self.image = image
        self.ram = Ram(RAM_BYTES)
        for segment in image.segments:
            self.ram.view[segment.address : segment.address + len(segment.data)] = bytes(segment.data)
        self.hart = Hart(0, FlatPort(self.ram), isa_of(isa))
        csr.reset(self.hart, 512)
        self.engine = JitEngine(tier=llvm.OPTIMISED, cache=ObjectCache(None))

    def call(self, symbol: str, count: int) -> tuple[int, int]:
        """Call a function of one number; its result and the instructions it took."""
        hart = self.hart
        before = hart.retired
        hart.pc = self.image.symbol(symbol).address
        hart.words[RETURN_ADDRESS] = HOME
        hart.set_x(1, HOME)
        hart.set_x(2, RAM_BYTES - 64)
        hart.set_x(10, count)
        exit_ = self.engine.run(hart, FOREVER)
        if exit_.why is not Why.RETURN:
            raise RuntimeError(f"{symbol} ended with {exit_}")
        return hart.x(10), hart.retired - before


def compile_kernels(folder: Path) -> Path:
    """Compile rv64.c into `folder`."""
    target = folder / "rv64.elf"
    subprocess.run((COMPILER, *FLAGS, *LINK, str(FOLDER / "kernels" / "rv64.c"), "-o", str(target)), check=True)
    return target


def qemu_cpu(elf: Path, number: int, count: int, expected: int | None = None, options: tuple[str, ...] = ()) -> float:
    """CPU seconds of one run of function `number` in qemu, start-up included; its result is compared with ours."""
    child = subprocess.Popen((QEMU, *options, str(elf), str(number), str(count)))
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if expected is not None and child.returncode != expected & 0x7F:
        raise RuntimeError(f"function {number} gave {child.returncode} under qemu, {expected & 0x7F} here")
    return usage.ru_utime + usage.ru_stime


def measure_kernel(machine: Machine, elf: Path, kernel: Kernel, rounds: int, count: int, qemu: bool) -> list[Row]:
    """Both sides in turns."""
    _, few = machine.call(kernel.symbol, kernel.small)
    result, retired = machine.call(kernel.symbol, count)
    retired -= few

    def ours() -> float:
        return cpu(lambda: machine.call(kernel.symbol, count)) - cpu(lambda: machine.call(kernel.symbol, kernel.small))

    def theirs() -> float:
        return qemu_cpu(elf, kernel.number, count, result) - qemu_cpu(elf, kernel.number, kernel.small)

    sides: list[Callable[[], float]] = [ours, theirs] if qemu else [ours]
    mine, *others = alternate(rounds, *sides)
    rows = []
    if others:
        peer = {"peer_name": QEMU, "peer": retired / others[0].best / 1e6}
        rows.append(
            rate("rv64_engine", kernel.what, "MIPS", retired, mine, target=kernel.target, note=kernel.note, **peer)
        )
    published = {"peer_name": REFERENCE, "peer": kernel.reference, "target": REFERENCE_TARGET}
    return [*rows, rate("rv64_engine", kernel.what, "MIPS", retired, mine, **published)]


def measure(quick: bool = False) -> list[Row]:
    if shutil.which(COMPILER) is None:
        print(f"{COMPILER} is missing: nothing measured")
        return []
    qemu = shutil.which(QEMU) is not None
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        elf = compile_kernels(Path(folder))
        image = read_elf(elf.read_bytes())
        for kernel in KERNELS:
            count = kernel.count if not quick else kernel.count - 4 if kernel.symbol == "run_fib" else kernel.count // 8
            rows += measure_kernel(Machine(image), elf, kernel, 2 if quick else 5, count, qemu)
    return rows


if __name__ == "__main__":
    main(measure, TITLE)
