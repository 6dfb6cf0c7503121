"""`understudy exec`: an unmodified host program, with a virtual device where it looks for a real one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from understudy.cli import completion
from understudy.cli.attachments import ATTACHMENTS, Wanted
from understudy.cli.engines import CheckOption, Engine, EqualStoresOption, SuppressionsOption, check_outputs, checked
from understudy.cli.exits import UsageError
from understudy.cli.files import reading
from understudy.cli.map_profiles import MapProfile
from understudy.cli.output import Output
from understudy.cli.reporting import ReportOption, reporting
from understudy.core.checks import default_checks

SIGNALLED: Final = 128
"""Added to the number of the signal that ended a program, as shells do."""


def exec_program(
    program: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGS]...", help="The program, best behind --.")],
    devices: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="NAME", help="What it finds: fletcher (default), refsi, rocm; repeat."),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            metavar="KERNEL",
            help="Fletcher: a built-in kernel, or FILE.py:NAME for one of your own.",
            autocompletion=completion.fletcher_kernels,
        ),
    ] = "sum",
    schemas: Annotated[
        list[Path] | None,
        typer.Option("--schema", metavar="FILE", help="Fletcher: schema of a RecordBatch, not the kernel's; repeat."),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Fletcher: spec (registers as documented) or hardware (as generated). "
            "RefSi: refsidrv (the reference driver) or spec (the document, each error on standard error).",
        ),
    ] = "",
    order: Annotated[
        MapProfile, typer.Option("--map", help="Fletcher: the generator's register map, or the run-time library's.")
    ] = MapProfile.FLETCHGEN,
    offset: Annotated[str, typer.Option(metavar="N", help="Fletcher: address of the first register.")] = "0",
    threaded: Annotated[
        bool, typer.Option("--threaded", help="The kernel has a thread of its own: registers answer at once.")
    ] = False,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace", help="Say every register access; RefSi: who connects, what is opened; ROCm: every ioctl."
        ),
    ] = False,
    preload: Annotated[
        bool, typer.Option("--preload", help="RefSi: for programs that say where another's library is (RPATH).")
    ] = False,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="ROCm: a GPU that it finds: gfx803, gfx900, gfx906; repeat.",
            autocompletion=completion.cards,
        ),
    ] = None,
    engine: Annotated[Engine, typer.Option("--engine", help="ROCm, RefSi: what runs kernels.")] = Engine.JIT,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", metavar="SECONDS", help="ROCm: how long one kernel may run.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="ROCm: write what went wrong to FILE, as JSON.")
    ] = None,
    trace_file: Annotated[
        Path | None,
        typer.Option(
            "--trace-file", metavar="FILE", help="Write every event of the devices, as JSON lines; see `trace`."
        ),
    ] = None,
    profile_file: Annotated[
        Path | None,
        typer.Option("--profile-file", metavar="FILE", help="Write what work went to, for speedscope.app."),
    ] = None,
    check: CheckOption = "",
    suppressions: SuppressionsOption = None,
    equal_stores: EqualStoresOption = False,
    findings: Annotated[
        Path | None,
        typer.Option("--findings", metavar="FILE", help="Write what --check finds: .sarif, or .json."),
    ] = None,
    trace_waves: Annotated[
        int,
        typer.Option(
            "--trace-waves",
            min=0,
            metavar="N",
            help="ROCm, RefSi: bars for the first N waves, or instances.",
        ),
    ] = 0,
    registers_at: Annotated[
        list[str] | None,
        typer.Option(
            "--registers-at",
            metavar="WHERE",
            help="ROCm: registers there in the report: fault, end, a pc, KERNEL+OFFSET or FILE:LINE; repeat.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing of what the device sees.")] = False,
    report: ReportOption = None,
    code: Annotated[
        list[Path] | None,
        typer.Option(
            "--code",
            metavar="FILE",
            help="A file with the program's kernels: names and lines for reports, errors and findings; repeat.",
        ),
    ] = None,
) -> None:
    """Run a host program, unmodified, with a virtual device for the real one.

    The device is started, the environment says where it is, and it ends with
    the program. What it sees, and what the program does wrong, is said on
    standard error. The exit status is the program's, or 128 and the number of
    the signal that ended it.

      understudy exec --kernel sum -- ./sum_host data.arrow

      understudy exec --kernel kernels.py:upper -- python host.py

      understudy exec --device refsi -- ./program args

      understudy exec --agent gfx900 -- ./program args
    """
    for name in devices or ():
        if name not in ATTACHMENTS:
            raise UsageError(f"no device {name!r}: there are {', '.join(ATTACHMENTS)}")
    wanted = Wanted(
        kernel, tuple(schemas or ()), profile, order.value, offset, threaded, trace, preload,
        tuple(agents or ()), engine.value, time_limit, json_file, trace_file, profile_file,
        checked(check) or default_checks(), suppressions, equal_stores, findings, tuple(program), tuple(code or ()),
        trace_waves=trace_waves, registers_at=tuple(registers_at or ()),
    )  # fmt: skip
    is_rocm = bool(agents) or "rocm" in (devices or ())
    has_checks = is_rocm or "refsi" in (devices or ())
    if trace_waves and not has_checks:
        raise UsageError("--trace-waves goes with --agent, --device rocm or refsi")
    if registers_at and not is_rocm:
        raise UsageError("--registers-at goes with --agent (or --device rocm)")
    if registers_at and report is None:
        raise UsageError("--registers-at: a report shows them, say which with --report")
    if (check or findings or suppressions) and not has_checks:
        raise UsageError("--check, --findings and --suppressions go with --agent, --device rocm or refsi")
    check_outputs(findings, suppressions, wanted.check, equal_stores)
    for path in code or ():
        with reading(path), path.open("rb") as file:
            file.read(1)
    title = Path(program[0]).name
    environment = dict(os.environ)
    with reporting(report, title) as gathered, ExitStack() as stack:
        wanted = replace(wanted, report=gathered)
        output = stack.enter_context(closing(Output(sys.stderr)))
        for name in dict.fromkeys(devices or ["rocm" if agents else "fletcher"]):
            say = (lambda line: None) if quiet else output.say
            environment |= stack.enter_context(ATTACHMENTS[name](wanted, say))
        status = _run(program, environment)
    raise typer.Exit(status)


def _run(program: list[str], environment: Mapping[str, str]) -> int:
    """The exit status of a program, to which signals for this process go."""
    try:
        started = subprocess.Popen(program, env=environment)
    except OSError as error:
        raise UsageError(f"cannot run {program[0]}: {error.strerror or error}") from None
    with _passed_on(started):
        status = started.wait()
    return SIGNALLED - status if status < 0 else status


@contextmanager
def _passed_on(program: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGTERM and SIGHUP go to the program; Ctrl-C, which it has got itself from the terminal, is left to it."""

    def pass_on(number: int, _: object) -> None:
        program.send_signal(number)

    def leave(number: int, _: object) -> None:
        pass

    handlers = {signal.SIGINT: leave, signal.SIGTERM: pass_on, signal.SIGHUP: pass_on}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
