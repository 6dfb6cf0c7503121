"""`softcard demo`: kernels on virtual devices, checked against NumPy, and reports of typical mistakes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from softcard.cli.exits import ExitCode
from softcard.cli.progress import progress
from softcard.cli.tables import Terminal, show_diagnostics
from softcard.core.errors import ModelBug, SoftcardError
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.device.refsi.toolkit.lint import lint
from softcard.device.refsi.toolkit.listing import listing

if TYPE_CHECKING:
    from softcard.cli.demo_cases import AnyCase, Measure


SHOW_PROGRESS_AFTER_S: Final = 2.0
QUICK_DIVISOR: Final = 20
MEGA: Final = 1e6
WIDE_COLUMNS: Final = 112
"""The minimum terminal width, in columns, at which the table shows a description of each kernel."""
JIT_LAUNCHES: Final = 3


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Use small data, for a quick run.")] = False,
) -> None:
    """Run kernels and commands on all five devices, and check all results."""
    console = Terminal(highlight=False)
    console.print("RefSi M1: RV64GCV kernels on 4 harts, started by command buffers.\n")
    all_good = _kernels(console, quick)
    console.print("\nAcceldev: two contexts, paged buffers, user commands and fences, through its driver in Python.\n")
    all_good = _acceldev(console, quick) and all_good
    console.print(
        "\nFletcher: Arrow RecordBatches in, a virtual kernel, results out, through its run-time in Python.\n"
    )
    all_good = _fletcher(console, quick) and all_good
    console.print("\nAMD HSA: OpenCL kernels on a virtual gfx900, through an AQL queue.\n")
    all_good = _hsa(console, quick) and all_good
    console.print("\nMatrix instructions: a product of halves on virtual gfx908, gfx90a, gfx942 and gfx950.\n")
    all_good = _matrix(console, quick) and all_good
    console.print("\nAMD OpenCL 2.0: one program for three cards, in containers of three drivers.\n")
    all_good = _amdcl2(console, quick) and all_good
    if not quick:
        console.print("\nROCm: an unmodified HIP program, compiled by hipcc, on a virtual gfx900.\n")
        all_good = _run_hip(console) and all_good
    console.print("\nChecks: mistakes that a real card does not report, in machine code for gfx900.\n")
    _checks(console)
    console.print("\nReports of mistakes:\n")
    _mistakes(console)
    raise typer.Exit(ExitCode.OK if all_good else ExitCode.BUG)


def _kernels(console: Console, quick: bool) -> bool:
    from softcard.cli.demo_cases import REFSI_CASES  # here, since it imports the engines

    numbers = [max(case.jit_n // QUICK_DIVISOR, case.reference_n) if quick else case.jit_n for case in REFSI_CASES]
    all_good = _compare(console, ("instructions", "JIT MIPS", "ref. MIPS"), REFSI_CASES, numbers, _measure)
    console.print(f"Million instructions per second; JIT: best of {JIT_LAUNCHES} launches; ref.: reference engine.")
    return all_good


def _compare(
    console: Console, heads: Sequence[str], cases: Sequence[AnyCase], numbers: Sequence[int], measure: Measure
) -> bool:
    """Print a table of the cases, run on the JIT and the reference engine; return True if all results are right.

    `heads` are the headings of the measured columns. `numbers` has the size of each case on the JIT engine; the
    reference engine runs a case with its `reference_n`.
    """
    is_wide = console.width >= WIDE_COLUMNS
    table = Table(show_edge=is_wide)
    table.add_column("kernel", no_wrap=True)
    if is_wide:
        table.add_column("shows", no_wrap=True)
    for name in ("size", *heads):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("result")
    all_good = True
    for case, n in _with_progress(list(zip(cases, numbers, strict=True))):
        size, instructions, jit, jit_good = measure(case, "jit", n)
        _, _, reference, reference_good = measure(case, "reference", case.reference_n)
        good = jit_good and reference_good
        all_good = all_good and good
        shows = (case.shows,) if is_wide else ()
        result = "[green]OK[/green]" if good else "[red]WRONG[/red]"
        table.add_row(case.kernel, *shows, size, f"{instructions:,}", f"{jit:,.0f}", f"{reference:.2f}", result)
    console.print(table)
    return all_good


def _measure(case: AnyCase, engine: str, n: int) -> tuple[str, int, float, bool]:
    """Run a case with size `n` on an engine; return its size, instruction count, rate, and True for right results.

    The rate is in millions of instructions per second, for the fastest launch."""
    from softcard.host.refsi.refsi import RefSi, demo_kernels

    good, best = True, float("inf")
    with RefSi.open(engine=engine) as device:
        device.load_elf(demo_kernels())
        for _ in range(JIT_LAUNCHES if engine == "jit" else 1):
            work = case.setup(device, n)
            start = time.perf_counter()
            result = device.launch(case.kernel, work.instances, work.arguments)
            best = min(best, time.perf_counter() - start)
            good = good and work.check()
    return work.size, result.instructions, result.instructions / best / MEGA, good


def _with_progress(cases: list[tuple[AnyCase, int]]) -> Iterator[tuple[AnyCase, int]]:
    """Yield the cases and their sizes; on a terminal, show the progress."""
    with progress("kernels", len(cases), "kernels") as bar:
        for number, (case, n) in enumerate(cases):
            bar.update(number, case.kernel)
            yield case, n


def _acceldev(console: Console, quick: bool) -> bool:
    """Fill buffers of two Acceldev contexts; return True if neither changed the other's buffers."""
    import numpy as np

    from softcard.device.acceldev.commands import Fence, Fill
    from softcard.host.acceldev.acceldev import Acceldev

    size, rounds = (1 << 18, 2) if quick else (1 << 22, 50)
    good, filled = True, 0
    start = time.perf_counter()
    with Acceldev.open() as device, device.open_context() as first, device.open_context() as second:
        for context, value in ((first, 0x11223344), (second, 0xAABBCCDD)):
            data = context.create_buffer(size)
            assert data.slot is not None  # data buffers have one
            fills = [Fill(value=value, buffer_slot=data.slot, start=0, length=size) for _ in range(rounds)]
            context.run(context.create_code(*fills, Fence()))
            context.wait(1)
            filled += size * rounds
            good = good and np.array_equal(data.array("u4"), np.full(size // 4, value, dtype=np.uint32))
    rate = filled / (time.perf_counter() - start) / 1e9
    console.print(f"2 x {rounds} FILLs of {size:,} bytes: {rate:.1f} GB/s, {'OK' if good else 'WRONG'}")
    return good


def _fletcher(console: Console, quick: bool) -> bool:
    """Sum a column with the calls that a Fletcher host program makes; return True if the sum is right."""
    from softcard.image.arrow_schema import ArrowMissing, pyarrow

    try:
        pyarrow()
    except ArrowMissing as error:
        console.print(f"skipped: {error}", markup=False)
        return True
    from softcard.cli.demo_cases import fletcher_sum

    rows = 1_000_000 if quick else 20_000_000
    seconds, good = fletcher_sum(rows)
    console.print(f"Sum of {rows:,} rows: {rows / seconds / MEGA:,.0f} million rows/s, {'OK' if good else 'WRONG'}")
    return good


def _hsa(console: Console, quick: bool) -> bool:
    """Run OpenCL kernels on the JIT and the reference engine; return True if the results equal NumPy's."""
    from softcard.cli.demo_cases import HSA_CASES, QUICK_DIVISORS, executable, measure_hsa
    from softcard.host.hsa.gpu import Gpu

    def measured(case: AnyCase, engine: str, n: int) -> tuple[str, int, float, bool]:
        return measure_hsa(case, engine, n, JIT_LAUNCHES if engine == "jit" else 1)

    divisors = [QUICK_DIVISORS.get(case.kernel, QUICK_DIVISOR) if quick else 1 for case in HSA_CASES]
    numbers = [case.jit_n // divisor for case, divisor in zip(HSA_CASES, divisors, strict=True)]
    all_good = _compare(console, ("wave instructions", "JIT M/s", "ref. M/s"), HSA_CASES, numbers, measured)
    with Gpu.open() as gpu:
        origin = executable(gpu)[1]
    console.print(f"Million wave instructions (64 lanes each) per second; the kernels: {origin}.")
    return all_good


def _matrix(console: Console, quick: bool) -> bool:
    """Run a matrix product on each processor with matrix instructions; return True if the results equal NumPy's."""
    from softcard.cli.demo_gemm import AGENTS, measure

    all_good = True
    for agent in AGENTS:
        rate, good = measure(agent, 128 if quick else 512, JIT_LAUNCHES)
        all_good = all_good and good
        console.print(f"{agent}: {rate:5.1f} GFLOP/s, {'as NumPy' if good else 'WRONG'}")
    return all_good


def _amdcl2(console: Console, quick: bool) -> bool:
    """Run one kernel on GFX7, GFX8 and GFX9; return True if all results are right."""

    found, good = _amdcl2_lines(1 << 17 if quick else 1 << 20)
    for line in found:
        console.print(line, markup=False, soft_wrap=True)
    return good


def _checks(console: Console) -> None:
    """Print one example finding of each check."""
    from softcard.cli.demo_cases import check_findings
    from softcard.core.diagnostics import of_finding

    show_diagnostics([of_finding(found) for _, found in check_findings()], console.file)


def _mistakes(console: Console) -> None:
    """Print the error messages for a malformed command buffer and for kernels that store to unmapped addresses."""
    from softcard.host.refsi.refsi import RefSi, demo_kernels

    wrong = CommandBuffer().write_reg64("CMP_SCRATCH", 1).chunks(0x1C0040200, 0x10000, 0x2).finish()
    console.print(listing(wrong.to_bytes()), markup=False, soft_wrap=True)
    show_diagnostics([each.diagnostic() for each in lint(wrong.to_bytes())], console.file)
    with RefSi.open() as device:
        try:
            device.run(wrong)
        except SoftcardError as error:
            _show(console, error)
        else:
            raise ModelBug("the device executed a command buffer with a malformed command, expected an error")
        device.load_elf(demo_kernels())
        try:
            device.launch("broken", 8, [device.zeros(8), 5])
        except SoftcardError as error:
            _show(console, error)
        else:
            raise ModelBug("a kernel stored to an unmapped address")
    from softcard.cli.demo_cases import mistake

    _show(console, mistake())


def _show(console: Console, error: SoftcardError) -> None:
    from softcard.core.diagnostics import of_error

    console.print()
    show_diagnostics([of_error(error)], console.file)


# ---- AMD OpenCL 2.0 --------------------------------------------------------------------------------------------------

CARDS: Final = (("bonaire", 180005), ("tonga", 200406), ("gfx900", 252700))
"""A graphics card of each of three GPU generations, with the driver version that defines the program file's format."""


def _amdcl2_lines(n: int) -> tuple[list[str], bool]:
    """Run a kernel with `n` elements on each card.

    Return a line of text about each card, and True if all results are right.
    """
    import numpy as np

    from softcard.host.amdcl2.demo import demo_program
    from softcard.host.amdcl2.program import Program
    from softcard.image.amdcl2.container import read_container

    found, all_good = [], True
    for device, driver in CARDS:
        data = demo_program(device, driver)
        program = Program(read_container(data))
        x = np.arange(n, dtype=np.float32)
        y = np.ones(n, np.float32)
        expected = np.float32(0.5) * x + y
        program.kernel("saxpy").run(64, 64, [x[:64].copy(), y[:64].copy(), 0.5])  # translates the code
        start = time.perf_counter()
        result = program.kernel("saxpy").run(n, 256, [x, y, 0.5])
        seconds = time.perf_counter() - start
        good = bool((y == expected).all())
        all_good = all_good and good
        speed = result.statistics.instructions / seconds / MEGA
        text = f"{device:8} driver {driver}, {len(data):5} bytes: {n:,} elements, {speed:,.0f} M wave instructions/s"
        found.append(f"{text}, {'OK' if good else 'WRONG'}")
    return found, all_good


# ---- ROCm ------------------------------------------------------------------------------------------------------------

AGENT: Final = "gfx900"
NO_HIPCC: Final = "skipped: hipcc is missing: apt-get install hipcc libamdhip64-dev (Debian 12 or later)"


def _run_hip(console: Console) -> bool:
    """Compile a HIP program and run it on a virtual GPU; return True if it succeeds, or if hipcc is missing."""
    from softcard.cli.attach.exec_devices import ATTACHMENTS, DeviceOptions

    hipcc = shutil.which("hipcc")
    if hipcc is None:
        console.print(NO_HIPCC)
        return True
    with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
        program = str(Path(folder, "vector_add"))
        with as_file(files("softcard") / "data" / "rocm" / "vector_add.hip") as source:
            command = [hipcc, "-x", "hip", f"--offload-arch={AGENT}", "-O2", str(source), "-o", program]
            environment = {**os.environ, "HIP_PLATFORM": "amd"}
            compiled = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if compiled.returncode:
            console.print(f"hipcc failed:\n{compiled.stderr}", markup=False)
            return False
        console.print(f"$ softcard exec --agent {AGENT} -- ./vector_add", markup=False)
        with ATTACHMENTS["rocm"](
            DeviceOptions(agents=(AGENT,)), lambda line: console.print(line, markup=False)
        ) as found:
            done = subprocess.run([program], env={**os.environ, **found}, capture_output=True, text=True, check=False)
        console.print((done.stdout + done.stderr).rstrip(), markup=False)
    return done.returncode == 0
