"""The measurements of `softcard bench`: kernels, commands and process starts of each interface.

Each result is checked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from statistics import median
from typing import Any, Final

import numpy as np

from softcard.cli.demo_cases import AnyCase
from softcard.core.errors import ModelBug

LEAST_ROUNDS: Final = 3
RECORDED: Final = "bench.json"
"""The file below ``softcard/data`` with the recorded figures of the machine that docs/performance.md names."""
CONTEXT_BYTES: Final = 4 << 20
FIRST_RESULT: Final = """
import numpy as np
from softcard import Gpu
from softcard.hsa import demo_code
with Gpu.open("gfx900") as gpu:
    x, y = np.arange(4096, dtype=np.float32), np.ones(4096, np.float32)
    gpu.run(demo_code("gfx900"), "saxpy", 4096, 256, [2.0, x, y])
assert y[4095] == 8191
"""

Round = Callable[[], float | None]
"""The type of a function that does the measured work once.

It returns its time in seconds, or None if the caller measures the time.
"""
Work = Callable[[], AbstractContextManager[tuple[float, Round]]]
"""The type of a function that sets up a measurement.

The context provides the amount of work of one round, in the unit of the rate, and the function that runs a round.
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """A measurement of an interface. It is a rate, or a time if `is_time` is True; `unit` is the unit of the result.

    A higher rate, or a lower time, is better."""

    interface: str
    what: str
    unit: str
    work: Work
    is_time: bool = False

    @property
    def name(self) -> str:
        """The name of the measurement in the recorded figures."""
        return f"{self.interface}: {self.what}"

    def measure(self, seconds: float) -> Speed:
        """Do the measured work repeatedly for about `seconds`, at least three times; return the best and median speed.

        Code that is executed often is optimised during the measurement."""
        end = time.perf_counter() + seconds
        spent: list[float] = []
        with self.work() as (amount, once):
            while len(spent) < LEAST_ROUNDS or time.perf_counter() < end:
                start = time.perf_counter()
                seconds_of_round = once()
                spent.append(time.perf_counter() - start if seconds_of_round is None else seconds_of_round)
        values = [each * amount if self.is_time else amount / each for each in spent]
        return Speed(min(values) if self.is_time else max(values), median(values))


@dataclass(frozen=True, slots=True)
class Speed:
    """The best and the median speed of the repetitions of a measurement."""

    best: float
    median: float


def recorded() -> dict[str, Any]:
    """Return the recorded figures: `machine`, `date`, and `best` with the best result of each measurement."""
    found: dict[str, Any] = json.loads(files("softcard").joinpath("data", RECORDED).read_text("utf-8"))
    return found


def _checked(is_right: bool) -> None:
    if not is_right:
        raise ModelBug("a kernel of `softcard bench` gave a wrong result")


# ---- RefSi -----------------------------------------------------------------------------------------------------------


@contextmanager
def refsi(kernel: str, n: int, **settings: Any) -> Iterator[tuple[float, Round]]:
    """Load the demo kernel `kernel` with size `n` on a RefSi device with four harts.

    Yield the millions of instructions of a launch, and the function that launches the kernel once."""
    from softcard.cli.demo_cases import REFSI_CASES as CASES
    from softcard.host.refsi.refsi import RefSi, demo_kernels

    case = _case(CASES, kernel)
    with RefSi.open(**settings) as device:
        device.load_elf(demo_kernels())
        work = case.setup(device, n)
        result = device.launch(kernel, work.instances, work.arguments)
        _checked(work.check())
        yield result.instructions / 1e6, lambda: device.launch(kernel, work.instances, work.arguments).time


@contextmanager
def _refsi_commands(count: int) -> Iterator[tuple[float, Round]]:
    from softcard.device.refsi.device import RefSiDevice
    from softcard.device.refsi.toolkit.builder import CommandBuffer

    buffer = CommandBuffer()
    for number in range(count):
        buffer.write_reg64("CMP_SCRATCH", number)
    data = buffer.finish().to_bytes()
    with RefSiDevice() as device:
        address = device.allocate(len(data), 4096)
        device.write(address, data)

        def once() -> None:
            device.submit(address, len(data))
            [status] = device.wait()
            _checked(status.error is None)

        yield (count / 1e6 if count else 1e6), once


# ---- Acceldev --------------------------------------------------------------------------------------------------------


@contextmanager
def _acceldev(is_fill: bool) -> Iterator[tuple[float, Round]]:
    from softcard.device.acceldev.commands import Fence, Fill, Nop
    from softcard.host.acceldev.acceldev import Acceldev

    with Acceldev.open() as device, device.open_context() as context:
        data = context.create_buffer(CONTEXT_BYTES)
        assert data.slot is not None  # data buffers have one
        fill = Fill(value=0x11223344, buffer_slot=data.slot, start=0, length=CONTEXT_BYTES)
        code = context.create_code(*([fill] * 16 if is_fill else [Nop()] * 100_000), Fence())
        fences = 0

        def once() -> None:
            nonlocal fences
            fences += 1
            context.run(code)
            context.wait(fences)

        once()
        _checked(not is_fill or bool((data.array("u4") == 0x11223344).all()))
        yield (16 * CONTEXT_BYTES / 1e9 if is_fill else 0.1), once


# ---- AMD HSA and OpenCL 2.0 ------------------------------------------------------------------------------------------


@contextmanager
def hsa(kernel: str, n: int, **settings: Any) -> Iterator[tuple[float, Round]]:
    """Load the demo kernel `kernel` with size `n` on a GPU.

    Yield the millions of wave instructions of a launch, and the function that launches the kernel once."""
    from softcard.cli.demo_cases import HSA_CASES as CASES
    from softcard.host.hsa.gpu import Gpu, demo_code

    case = _case(CASES, kernel)
    with Gpu.open("gfx900", **settings) as gpu:
        code = gpu.load(demo_code("gfx900"))
        work = case.setup(gpu, n)
        result = gpu.run(code, kernel, work.grid, work.group, work.arguments)
        _checked(work.check())
        yield (
            result.instructions / 1e6,
            lambda: gpu.run(code, kernel, work.grid, work.group, work.arguments).time,
        )


@contextmanager
def _hsa_launch() -> Iterator[tuple[float, Round]]:
    """Load a demo kernel on a GPU, to measure the time of a launch of one wave.

    Yield the factor that converts the time of a hundred launches in seconds to the time of one in microseconds,
    and the function that makes a hundred launches."""
    from softcard.host.hsa.gpu import Gpu, demo_code

    with Gpu.open("gfx900") as gpu:
        code = gpu.load(demo_code("gfx900"))
        arguments = (2.0, gpu.zeros(64), gpu.zeros(64))

        def once() -> None:
            for _ in range(100):
                gpu.run(code, "saxpy", 64, 64, arguments)

        yield 1e6 / 100, once


@contextmanager
def _amdcl2(n: int) -> Iterator[tuple[float, Round]]:
    from softcard.host.amdcl2.demo import demo_program
    from softcard.host.amdcl2.program import Program
    from softcard.image.amdcl2.container import read_container

    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    with Program(read_container(demo_program("tonga", 200406))) as program:
        kernel = program.kernel("saxpy")
        result = kernel.run(n, 256, [x, y, 0.5])
        _checked(bool((y == np.float32(0.5) * x + 1).all()))
        yield result.instructions / 1e6, lambda: kernel.run(n, 256, [x, y, 0.5]).time


def _case(cases: tuple[AnyCase, ...], kernel: str) -> AnyCase:
    return next(case for case in cases if case.kernel == kernel)


# ---- Fletcher --------------------------------------------------------------------------------------------------------


@contextmanager
def _fletcher(rows: int) -> Iterator[tuple[float, Round]]:
    from softcard.cli.demo_cases import fletcher_sum
    from softcard.image.arrow_schema import pyarrow

    pyarrow()  # raises an error with the command that installs it

    def once() -> float:
        seconds, is_right = fletcher_sum(rows)
        _checked(is_right)
        return seconds

    yield rows / 1e6, once


# ---- starts ----------------------------------------------------------------------------------------------------------


@contextmanager
def _start(program: str, is_cold: bool = False) -> Iterator[tuple[float, Round]]:
    """Set up the measurement of a new Python process that runs `program`.

    Yield the factor that converts seconds to milliseconds, and the function that runs the process and returns
    its time in seconds. The code cache is empty if `is_cold` is True, or else filled."""
    with tempfile.TemporaryDirectory(prefix="softcard-") as base:

        def once(name: str = "") -> float:
            folder = tempfile.mkdtemp(dir=base) if is_cold else base
            environment = os.environ | {"XDG_CACHE_HOME": folder}
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], env=environment, check=True)
            return time.perf_counter() - start

        if not is_cold:
            once()
        yield 1e3, once


HARTS: Final = Bench(
    "refsi", "crc32 of 400 KB, one thread", "MIPS", partial(refsi, "crc32", 100_000, threads=1, tier="optimised")
)
WAVES: Final = Bench(
    "hsa",
    "gfx900 saxpy, 1 M work-items, one thread",
    "M wave instr/s",
    partial(hsa, "saxpy", 1 << 20, threads=1, tier="optimised"),
)
"""The GPU measurement of machine speed: it is quick, uses one thread, and runs optimised code from the start."""
BENCHES: Final = (
    HARTS,
    Bench("refsi", "crc32 of 4 MB, 4 harts", "MIPS", partial(refsi, "crc32", 1_000_000)),
    Bench("refsi", "matrix product 192, binary32", "MIPS", partial(refsi, "matmul_f32", 192)),
    Bench("refsi", "mandelbrot 64 x 64, binary64", "MIPS", partial(refsi, "mandelbrot", 64)),
    Bench("refsi", "100,000 WRITE_REG64", "M/s", partial(_refsi_commands, 100_000)),
    Bench("refsi", "submit and wait for FINISH alone", "us", partial(_refsi_commands, 0), is_time=True),
    Bench("acceldev", "FILL of 4 MiB", "GB/s", partial(_acceldev, True)),
    Bench("acceldev", "100,000 user NOPs", "M/s", partial(_acceldev, False)),
    WAVES,
    Bench("hsa", "gfx900 saxpy, 4 M work-items", "M wave instr/s", partial(hsa, "saxpy", 4_000_000)),
    Bench("hsa", "gfx900 matrix product 512 in LDS", "M wave instr/s", partial(hsa, "matmul", 512)),
    Bench("hsa", "gfx900 mandelbrot 256 x 256, binary64", "M wave instr/s", partial(hsa, "mandelbrot", 256)),
    Bench("hsa", "gfx900 launch of one wave", "us", _hsa_launch, is_time=True),
    Bench("amdcl2", "tonga saxpy, 1 M work-items", "M wave instr/s", partial(_amdcl2, 1 << 20)),
    Bench("fletcher", "sum of 10 M rows", "M rows/s", partial(_fletcher, 10_000_000)),
    Bench("start", "import softcard", "ms", partial(_start, "import softcard"), is_time=True),
    Bench("start", "HSA program, nothing kept", "ms", partial(_start, FIRST_RESULT, True), is_time=True),
    Bench("start", "HSA program, code kept", "ms", partial(_start, FIRST_RESULT), is_time=True),
)
"""All measurements, in the order of the output."""
INTERFACES: Final = tuple(dict.fromkeys(each.interface for each in BENCHES))
