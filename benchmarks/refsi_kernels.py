"""How fast do kernels run on a RefSi device, launched as a driver launches them: by command buffers?

The kernels and sizes are those of the published table of the reference driver (its simulator is single-threaded, so
its harts share one host thread; the best of its rows for 1 to 4 harts is the peer here).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from harness import REFERENCE, ROOT, Row, Samples, alternate, cpu, main, rate, wall
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.image.riscv.program import ElfImage, read_elf

KERNELS: Final = ROOT / "tests" / "vectors" / "refsi" / "kernels.elf"
ELF_WINDOW: Final = 0x1_0000
WINDOW_BYTES: Final = 1 << 20
DATA: Final = 0x5000_0000
APART: Final = 0x100_0000
"""Distance of arrays; the page-aliasing case puts them at multiples of 1 MiB, which share entries of the
reference's 256-entry TLB, the others 5 pages beside that."""
SKEW: Final = 0x5000
STACK_TOP: Final = 0x4800_0000
RETURN_ADDRESS: Final = 0xDEAD_0000
WARM_UP_SECONDS: Final = 0.7
TARGET: Final = 8
TARGET_INSTANCES: Final = 10
"""Million a second."""
TITLE: Final = "RefSi kernels through command buffers, profile spec, 4 harts"


class Bench:
    """An open device with the kernels of the recordings loaded."""

    def __init__(self, threads: int | None, check: str = "") -> None:
        self.device = RefSiDevice(profile="spec", threads=threads, check=check)
        self.image: ElfImage = read_elf(KERNELS.read_bytes())
        target = self.device.allocate(WINDOW_BYTES, 4096)
        self.execute(CommandBuffer().window(0, base=ELF_WINDOW, target=target, size=WINDOW_BYTES).sync_cache().finish())
        for segment in self.image.segments:
            self.device.write(segment.address, bytes(segment.data))

    def place(self, buffer: CommandBuffer) -> tuple[int, int]:
        """Put a buffer into device memory; its address and size."""
        data = buffer.to_bytes()
        address = self.device.allocate(len(data), 4096)
        self.device.write(address, data)
        return address, len(data)

    def execute(self, buffer: CommandBuffer) -> int:
        """Place and run a buffer; instructions retired."""
        return self.run(*self.place(buffer))

    def run(self, address: int, size: int) -> int:
        """Run a buffer that was placed; instructions retired."""
        self.device.submit(address, size)
        (status,) = self.device.wait()
        if status.error is not None:
            raise status.error
        return status.steps

    def kernel(self, symbol: str) -> CommandBuffer:
        """The beginning of a buffer that launches a kernel."""
        entry = self.image.symbol(symbol).address
        return CommandBuffer().kernel(entry, stack_top=STACK_TOP, return_address=RETURN_ADDRESS)

    def put(self, address: int, values: np.ndarray) -> None:
        """Write an array."""
        self.device.write(address, values.tobytes())


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the published table: how to launch the kernel, and what the reference reached (upper end)."""

    what: str
    symbol: str
    instances: int
    arguments: tuple[int, ...]
    commands: int
    reference: float
    max_harts: int = 0
    arrays: dict[int, np.ndarray] = field(default_factory=dict)


def cases(quick: bool) -> list[Case]:
    """The published table, without the vector unit."""
    shrink = 4 if quick else 1
    random = np.random.default_rng(1)
    a, b, c = DATA, DATA + APART + SKEW, DATA + 2 * APART + 2 * SKEW
    words = 16 * 16384

    def pair(kind: type[np.generic], size: int, second: int = b) -> dict[int, np.ndarray]:
        return {place: random.integers(-99, 99, size).astype(kind) for place in (a, second)}

    matmul = (a, b, c, 128)
    aliasing = (DATA, DATA + APART, DATA + 2 * APART, 16384)
    return [
        Case("integer loop (xorshift)", "k_intloop", 4, (a, 96_000_000 // 4 // shrink), 1, 548),
        Case(
            "vector add i32, 16 x 16384",
            "k_vecadd",
            16,
            (a, b, c, 16384),
            32 // shrink,
            506,
            arrays=pair(np.int32, words),
        ),
        Case(
            "vector add i32, page-aliasing arrays",
            "k_vecadd",
            16,
            aliasing,
            8,
            45,
            arrays=pair(np.int32, words, aliasing[1]),
        ),
        Case("matmul i32 128", "k_matmul_i32", 128, matmul, 4, 510, arrays=pair(np.int32, 128 * 128)),
        Case("matmul f32 128", "k_matmul_f32", 128, matmul, 4, 215, arrays=pair(np.float32, 128 * 128)),
        Case("matmul f64 128", "k_matmul_f64", 128, matmul, 4, 196, arrays=pair(np.float64, 128 * 128)),
    ]


def buffer_of(bench: Bench, case: Case) -> tuple[int, int]:
    """Arrays and command buffer of a case, in device memory."""
    for address, values in case.arrays.items():
        bench.put(address, values)
    buffer = bench.kernel(case.symbol).sync_cache()
    for _ in range(case.commands):
        buffer.run_instances(case.instances, *case.arguments, max_harts=case.max_harts)
    return bench.place(buffer.finish())


def warm_up(bench: Bench, address: int, size: int) -> int:
    """Run for a while, so that hot code has been optimised and taken up; instructions per run."""
    end = time.perf_counter() + WARM_UP_SECONDS
    steps = bench.run(address, size)
    while time.perf_counter() < end:
        bench.run(address, size)
    return steps


def measure_case(case: Case, rounds: int) -> list[Row]:
    """One thread in CPU time, and all cores on the clock, in turns."""
    one, many = Bench(threads=1), Bench(threads=None)
    placed = [(bench, *buffer_of(bench, case)) for bench in (one, many)]
    steps = [warm_up(*each) for each in placed]
    assert steps[0] == steps[1], "race-free kernels take the same instructions however many threads run them"
    sides: list[Callable[[], float]] = [
        lambda: cpu(lambda: one.run(*placed[0][1:])),
        lambda: wall(lambda: many.run(*placed[1][1:])),
    ]
    peer = {"peer_name": REFERENCE, "peer": case.reference}
    first, second = alternate(rounds, *sides)
    threads = many.device.accelerator.group.threads
    return [
        rate("refsi_kernels", f"{case.what}, 1 thread", "MIPS", steps[0], first, target=TARGET, **peer),
        rate("refsi_kernels", f"{case.what}, {threads} threads", "MIPS", steps[0], second, **peer),
    ]


def measure_empty(rounds: int, instances: int) -> Row:
    """A kernel of one instruction: what an instance costs."""
    bench = Bench(threads=1)
    address, size = bench.place(bench.kernel("k_empty").run_instances(instances).finish())
    warm_up(bench, address, size)
    samples: Samples = alternate(rounds, lambda: cpu(lambda: bench.run(address, size)))[0]
    return rate(
        "refsi_kernels",
        "empty kernel, instances",
        "M/s",
        instances,
        samples,
        peer_name=REFERENCE,
        peer=30.0,
        target=TARGET_INSTANCES,
        absolute=True,
    )


def measure(quick: bool = False) -> list[Row]:
    rounds = 2 if quick else 5
    rows = [row for case in cases(quick) for row in measure_case(case, rounds)]
    return [*rows, measure_empty(rounds, 50_000 if quick else 200_000)]


if __name__ == "__main__":
    main(measure, TITLE)
