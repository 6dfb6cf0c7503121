"""How fast does translated RV64GCV code run (VLEN 512), against qemu-riscv64 running the same machine code?

Times are CPU times, less those of a run that goes through the loops once: without start-up, translation and data.
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
    *("--target=riscv64", "-march=rv64gcv_zvl512b"),
    "-O3",
    "-mabi=lp64d",
    "-mcmodel=medany",
    "-mno-relax",
    "-ffreestanding",
    "-ffast-math",
    "-w",
    "-c",
)
LINKER: Final = "riscv64-unknown-elf-gcc"
VECTORS: Final = ("-cpu", "rv64,v=true,vlen=512,vext_spec=v1.0")
QUESTION: Final = "rv64_vectors"
TITLE: Final = "RV64 vectors: translated code on one core, VLEN 512"
LEAST_ADDS: Final = 2000
LEAST_OF_QEMU: Final = 3
SIMULATOR: Final = "RefSi's own simulator, published"
PUBLISHED: Final = {"run_vadd": 55.0, "run_vadd_small": 55.0}
"""Million elements a second of it, by symbol: the one kernel of vectors that has such a figure."""
PUBLISHED_MIPS: Final = 5.0
"""Of vector code, whatever it is."""
LEAST_OF_PUBLISHED: Final = 20


@dataclass(frozen=True, slots=True)
class Kernel:
    """One function of rv64v.c: elements (or products) of a round, and rounds."""

    what: str
    symbol: str
    number: int
    elements: int
    count: int
    target: float | None = LEAST_OF_QEMU


KERNELS: Final = (
    Kernel("add, e32, m8, 1 Mi elements", "run_vadd", 0, 1 << 20, 300, None),
    Kernel("add, e32, m8, 4 Ki elements", "run_vadd_small", 14, 4096, 60_000, None),
    Kernel("saxpy, 1 Mi floats", "run_saxpy", 1, 1 << 20, 300),
    Kernel("memcpy, 1 MiB", "run_copy", 2, 1 << 20, 1000),
    Kernel("dot product of bytes, 1 Mi", "run_dot", 3, 1 << 20, 300),
    Kernel("strlen, 1 MiB", "run_length", 4, 1 << 20, 300),
    Kernel("matmul 128, f32", "run_matmul", 5, 128**3, 100),
    Kernel("division, e32, 1 Mi", "run_divide", 6, 1 << 20, 50),
    Kernel("gather by indexes, e32, 1 Mi", "run_gather", 7, 1 << 20, 100),
    Kernel("transpose 128, strided loads", "run_transpose", 8, 128**2, 5000),
    Kernel("RGB to grey, segment loads, 1 Mi", "run_grey", 9, 1 << 20, 100),
    Kernel("odd numbers kept, vcompress, 1 Mi", "run_keep", 10, 1 << 20, 100),
    Kernel("ordered sum of doubles, 1 Mi", "run_total", 11, 1 << 20, 100),
    Kernel("prefix sums by slides, 1 Mi", "run_prefix", 12, 1 << 20, 100),
    Kernel("table of bytes, vrgather, 1 Mi", "run_look_up", 13, 1 << 20, 100),
)


def compile_kernels(folder: Path) -> Path:
    """Compile rv64v.c into `folder`."""
    made, target = folder / "rv64v.o", folder / "rv64v.elf"
    subprocess.run((COMPILER, *FLAGS, str(FOLDER / "kernels" / "rv64v.c"), "-o", str(made)), check=True)
    subprocess.run((LINKER, "-march=rv64gcv", "-mabi=lp64d", *LINK, str(made), "-o", str(target)), check=True)
    return target


def measure_kernel(machine: Machine, elf: Path, kernel: Kernel, rounds: int, count: int) -> list[Row]:
    """Both sides in turns."""
    _, few = machine.call(kernel.symbol, 1)
    result, retired = machine.call(kernel.symbol, count)

    def ours() -> float:
        return cpu(lambda: machine.call(kernel.symbol, count)) - cpu(lambda: machine.call(kernel.symbol, 1))

    def theirs() -> float:
        return qemu_cpu(elf, kernel.number, count, result, VECTORS) - qemu_cpu(elf, kernel.number, 1, None, VECTORS)

    mine, others = alternate(rounds, ours, theirs)
    amount = kernel.elements * (count - 1)
    peer = amount / others.best / 1e6
    rows = [rate(QUESTION, kernel.what, "M elements/s", amount, mine, peer_name=QEMU, peer=peer, target=kernel.target)]
    if kernel.symbol in PUBLISHED:
        other = {"peer_name": SIMULATOR, "peer": PUBLISHED[kernel.symbol], "target": LEAST_OF_PUBLISHED}
        rows.append(rate(QUESTION, kernel.what, "M elements/s", amount, mine, **other))
    slow = {"peer_name": SIMULATOR, "peer": PUBLISHED_MIPS, "target": LEAST_OF_PUBLISHED}
    rows.append(rate(QUESTION, kernel.what, "MIPS", retired - few, mine, **slow))
    if kernel.symbol == "run_vadd":
        rows.append(rate(QUESTION, kernel.what, "M elements/s", amount, mine, target=LEAST_ADDS))
    return rows


def measure(quick: bool = False) -> list[Row]:
    """All rows."""
    missing = [name for name in (COMPILER, LINKER, QEMU) if shutil.which(name) is None]
    if missing:
        print(f"{', '.join(missing)} missing: nothing measured")
        return []
    with tempfile.TemporaryDirectory() as folder:
        elf = compile_kernels(Path(folder))
        image = read_elf(elf.read_bytes())
        rows: list[Row] = []
        for each in KERNELS:
            rows += measure_kernel(Machine(image), elf, each, 2 if quick else 4, each.count // (8 if quick else 1))
    return rows


if __name__ == "__main__":
    main(measure, TITLE)
