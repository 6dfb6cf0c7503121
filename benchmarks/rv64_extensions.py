"""How fast does translated code of further extensions run, against qemu-riscv64 running the same machine code?

CRC-32 by carry-less products (Zbc), bit manipulation (Zba, Zbb, Zbs), floats of 16 bits (Zfh). Times are CPU times,
less those of a run that goes through the loops once: without start-up, translation and data.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import FOLDER, Row, alternate, cpu, main, rate
from rv64_engine import LINK, QEMU, Machine, qemu_cpu
from softcard.image.riscv.program import read_elf

COMPILER: Final = "clang-16"
FLAGS: Final = (
    *("--target=riscv64", "-march=rv64gc_zba_zbb_zbs_zbc_zfh", "-menable-experimental-extensions"),
    *("-O2", "-mabi=lp64d", "-mcmodel=medany", "-mno-relax", "-ffreestanding", "-ffp-contract=fast", "-w", "-c"),
)
LINKER: Final = "riscv64-unknown-elf-gcc"
ISA: Final = "rv64gc_zba_zbb_zbc_zbs_zfh"
FURTHER: Final = ("-cpu", "rv64,Zfh=true,zba=true,zbb=true,zbc=true,zbs=true")
QUESTION: Final = "rv64_extensions"
TITLE: Final = "RV64 with further extensions: translated code on one core"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One function of rv64x.c: what a round works on, in millions of what, rounds, and the target against qemu."""

    what: str
    symbol: str
    number: int
    amount: float
    unit: str
    count: int
    target: float | None
    note: str = ""


CHAIN: Final = "one chain of dependent operations: bound by latency"
LOADS: Final = "one chain of dependent loads: bound by latency"
SIZE: Final = 1 << 14
KERNELS: Final = (
    Kernel("CRC-32 by clmul (Zbc), 128 KiB", "run_crc", 0, 8 * SIZE, "MB/s", 3000, 2),
    Kernel("rotations, counts, single bits (Zbb, Zbs)", "run_mix", 1, SIZE, "M words/s", 2000, 1, CHAIN),
    Kernel("indexes followed (Zba)", "run_follow", 2, SIZE, "M steps/s", 2000, 1, LOADS),
    Kernel("saxpy of binary16 (Zfh)", "run_saxpy", 3, SIZE, "M elements/s", 1000, 3),
)


def compile_kernels(folder: Path) -> Path:
    """Compile rv64x.c into `folder`."""
    made, target = folder / "rv64x.o", folder / "rv64x.elf"
    subprocess.run((COMPILER, *FLAGS, str(FOLDER / "kernels" / "rv64x.c"), "-o", str(made)), check=True)
    subprocess.run((LINKER, "-march=rv64gc", "-mabi=lp64d", *LINK, str(made), "-o", str(target)), check=True)
    return target


def measure_kernel(machine: Machine, elf: Path, kernel: Kernel, rounds: int, count: int) -> Row:
    """Both sides in turns."""
    machine.call(kernel.symbol, 1)
    result, _ = machine.call(kernel.symbol, count)

    def ours() -> float:
        return cpu(lambda: machine.call(kernel.symbol, count)) - cpu(lambda: machine.call(kernel.symbol, 1))

    def theirs() -> float:
        return qemu_cpu(elf, kernel.number, count, result, FURTHER) - qemu_cpu(elf, kernel.number, 1, None, FURTHER)

    mine, others = alternate(rounds, ours, theirs)
    amount = kernel.amount * (count - 1)
    peer = {"peer_name": QEMU, "peer": amount / others.best / 1e6}
    return rate(QUESTION, kernel.what, kernel.unit, amount, mine, target=kernel.target, note=kernel.note, **peer)


def measure(quick: bool = False) -> list[Row]:
    """All rows."""
    missing = [name for name in (COMPILER, LINKER, QEMU) if shutil.which(name) is None]
    if missing:
        print(f"{', '.join(missing)} missing: nothing measured")
        return []
    with tempfile.TemporaryDirectory() as folder:
        elf = compile_kernels(Path(folder))
        image = read_elf(elf.read_bytes())
        rounds = 2 if quick else 4
        return [
            measure_kernel(Machine(image, ISA), elf, each, rounds, each.count // (8 if quick else 1))
            for each in KERNELS
        ]


if __name__ == "__main__":
    main(measure, TITLE)
