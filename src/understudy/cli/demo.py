"""`understudy demo`: real kernels on virtual devices, checked against NumPy, and what mistakes look like."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from understudy.cli.exits import ExitCode
from understudy.core.errors import ModelBug, UnderstudyError
from understudy.device.refsi.toolkit.builder import CommandBuffer
from understudy.device.refsi.toolkit.lint import lint
from understudy.device.refsi.toolkit.listing import listing

if TYPE_CHECKING:
    from understudy.cli.demo_case import AnyCase, Measure

SHOW_PROGRESS_AFTER_S: Final = 2.0
QUICK_DIVISOR: Final = 20
MEGA: Final = 1e6
WIDE_COLUMNS: Final = 112
"""Terminal width from which the table has room to say what each kernel shows."""
JIT_LAUNCHES: Final = 3


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Small data, for a first look and for tests.")] = False,
) -> None:
    """Run kernels and commands on all five devices, and check all results."""
    console = Console(highlight=False)
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
    console.print("\nAMD OpenCL 2.0: one program for three cards, in containers of three drivers.\n")
    all_good = _amdcl2(console, quick) and all_good
    if not quick:
        console.print("\nROCm: a HIP program of hipcc's, as it is, on a virtual gfx900.\n")
        all_good = _hip(console) and all_good
    console.print("\nChecks: what a card does not tell of, in machine code for gfx900.\n")
    _checks(console)
    console.print("\nWhat becomes of a mistake:\n")
    _mistakes(console)
    raise typer.Exit(ExitCode.OK if all_good else ExitCode.BUG)


def _hip(console: Console) -> bool:
    from understudy.cli.demo_hip import show_hip  # here, since few have hipcc

    return show_hip(console)


def _kernels(console: Console, quick: bool) -> bool:
    from understudy.cli.demo_cases import CASES  # here, since it loads the engines

    numbers = [max(case.jit_n // QUICK_DIVISOR, case.reference_n) if quick else case.jit_n for case in CASES]
    all_good = _compare(console, ("instructions", "JIT MIPS", "ref. MIPS"), CASES, numbers, _measure)
    console.print(f"Million instructions per second; JIT: best of {JIT_LAUNCHES} launches; ref.: reference engine.")
    return all_good


def _compare(
    console: Console, heads: Sequence[str], cases: Sequence[AnyCase], numbers: Sequence[int], measure: Measure
) -> bool:
    """A table of kernels on both engines; whether all results are right. `heads` are those of the numbers."""
    is_wide = console.width >= WIDE_COLUMNS
    table = Table(show_edge=is_wide)
    table.add_column("kernel", no_wrap=True)
    if is_wide:
        table.add_column("shows", no_wrap=True)
    for name in ("size", *heads):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("result")
    all_good = True
    for case, n in _with_progress(console, list(zip(cases, numbers, strict=True))):
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
    """Size, instructions, million instructions per second of the best launch, and whether all results are right."""
    from understudy.host.refsi.refsi import RefSi, demo_kernels

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


def _with_progress(console: Console, cases: list[tuple[AnyCase, int]]) -> Iterator[tuple[AnyCase, int]]:
    """The cases; on a terminal with a progress bar as soon as they take longer than a moment."""
    start = time.perf_counter()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("kernels", total=len(cases), visible=False)
        for number, (case, n) in enumerate(cases):
            late = time.perf_counter() - start > SHOW_PROGRESS_AFTER_S
            progress.update(task, completed=number, description=case.kernel, visible=late)
            yield case, n


def _acceldev(console: Console, quick: bool) -> bool:
    """Fill buffers of two contexts, and show that neither reached the other's."""
    import numpy as np

    from understudy.device.acceldev.commands import Fence, Fill
    from understudy.host.acceldev.acceldev import Acceldev

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
    """Sum a column, through all of a host program's calls."""
    from understudy.image.arrow_schema import ArrowMissing, pyarrow

    try:
        pyarrow()
    except ArrowMissing as error:
        console.print(f"skipped: {error}", markup=False)
        return True
    from understudy.cli.demo_cases import fletcher_sum

    rows = 1_000_000 if quick else 20_000_000
    seconds, good = fletcher_sum(rows)
    console.print(f"Sum of {rows:,} rows: {rows / seconds / MEGA:,.0f} million rows/s, {'OK' if good else 'WRONG'}")
    return good


def _hsa(console: Console, quick: bool) -> bool:
    """OpenCL kernels on both engines, compared with NumPy."""
    from understudy.cli.demo_hsa import CASES, QUICK_DIVISORS, executable, measure
    from understudy.host.hsa.gpu import Gpu

    def measured(case: AnyCase, engine: str, n: int) -> tuple[str, int, float, bool]:
        return measure(case, engine, n, JIT_LAUNCHES if engine == "jit" else 1)

    divisors = [QUICK_DIVISORS.get(case.kernel, QUICK_DIVISOR) if quick else 1 for case in CASES]
    numbers = [case.jit_n // divisor for case, divisor in zip(CASES, divisors, strict=True)]
    all_good = _compare(console, ("wave instructions", "JIT M/s", "ref. M/s"), CASES, numbers, measured)
    with Gpu.open() as gpu:
        origin = executable(gpu)[1]
    console.print(f"Million wave instructions (64 lanes each) per second; the kernels: {origin}.")
    return all_good


def _amdcl2(console: Console, quick: bool) -> bool:
    """The same kernel on GFX7, GFX8 and GFX9."""
    from understudy.cli.demo_amdcl2 import lines

    found, good = lines(1 << 17 if quick else 1 << 20)
    for line in found:
        console.print(line, markup=False, soft_wrap=True)
    return good


def _checks(console: Console) -> None:
    """One finding of each check."""
    from understudy.cli.demo_checks import findings, lines

    for check, found in findings():
        for number, line in enumerate(lines(found)):
            console.print(f"{'' if number else check:<9}{line}", markup=False, soft_wrap=True)


def _mistakes(console: Console) -> None:
    """A malformed buffer, and a kernel that stores where no memory is."""
    from understudy.host.refsi.refsi import RefSi, demo_kernels

    wrong = CommandBuffer().write_reg64("CMP_SCRATCH", 1).chunks(0x1C0040200, 0x10000, 0x2).finish()
    console.print(listing(wrong.to_bytes()), markup=False, soft_wrap=True)
    for finding in lint(wrong.to_bytes()):
        console.print(f"linter   {finding}", markup=False, soft_wrap=True)
    with RefSi.open() as device:
        try:
            device.run(wrong)
        except UnderstudyError as error:
            console.print(f"device   {error}", markup=False, soft_wrap=True)
        else:
            raise ModelBug("the device executed a buffer with a wrong count")
        device.load_elf(demo_kernels())
        try:
            device.launch("broken", 8, [device.zeros(8), 5])
        except UnderstudyError as error:
            console.print(f"kernel   {error}", markup=False, soft_wrap=True)
        else:
            raise ModelBug("a kernel stored where no memory is")
    from understudy.cli.demo_hsa import mistake

    console.print(f"waves    {mistake()}", markup=False, soft_wrap=True)
