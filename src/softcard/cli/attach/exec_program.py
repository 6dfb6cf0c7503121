"""`softcard exec`: run an unmodified host program with a virtual device in place of a real one."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from softcard.cli.attach.exec_devices import ATTACHMENTS, DeviceOptions
from softcard.cli.exits import UsageError
from softcard.cli.files import near, reading
from softcard.cli.options import (
    CheckOption,
    CoverageOption,
    Engine,
    EngineOption,
    EqualStoresOption,
    ErrorExitCodeOption,
    FindingsOption,
    FletcherKernelOption,
    Format,
    FormatOption,
    JsonOption,
    MapOption,
    MapProfile,
    OffsetOption,
    PoisonOption,
    RegistersAtOption,
    ReportOption,
    SchemaOption,
    SuppressionsOption,
    ThreadedOption,
    TimeLimitOption,
    TraceWavesOption,
    WindowScaleOption,
    check_coverage,
    check_error_exitcode,
    check_outputs,
    checked,
    chosen_format,
    complete_cards,
    poison_of,
    time_limit_of,
)
from softcard.cli.output import Output
from softcard.cli.records import covering, reporting
from softcard.cli.tables import styled_diagnostic
from softcard.core.checks import default_checks
from softcard.core.diagnostics import Diagnostic
from softcard.core.errors import close_to
from softcard.core.findings import Level

SIGNALLED: Final = 128
"""The number added to a signal's number for the exit status of a program that the signal ended, as in shells."""


def exec_program(
    program: Annotated[
        list[str],
        typer.Argument(metavar="PROGRAM [ARGS]...", help="The program and its arguments, best placed after --."),
    ],
    devices: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            metavar="NAME",
            help="Device of the program: fletcher (default), refsi, rocm, opencl; can be repeated.",
        ),
    ] = None,
    kernel: FletcherKernelOption = "sum",
    schemas: SchemaOption = None,
    profile: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Fletcher: spec (registers as documented) or hardware (registers as generated). "
            "RefSi: refsidrv (the reference driver) or spec (the document, each error on standard error); "
            "with --check spec, --window-scale driver.",
        ),
    ] = "",
    window_scale: WindowScaleOption = None,
    order: MapOption = MapProfile.FLETCHGEN,
    offset: OffsetOption = "0",
    threaded: ThreadedOption = False,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace", help="Print every register access; RefSi: connections and opened devices; ROCm: every ioctl."
        ),
    ] = False,
    preload: Annotated[
        bool,
        typer.Option(
            "--preload", help="RefSi: preload the driver library, for programs whose RPATH names another one."
        ),
    ] = False,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="ROCm, OpenCL: a GPU of the machine, gfx803 to gfx950; can be repeated.",
            autocompletion=complete_cards,
        ),
    ] = None,
    no_large_bar: Annotated[
        bool,
        typer.Option("--no-large-bar", help="ROCm: loads from and stores to GPU memory by the program raise SIGSEGV."),
    ] = False,
    engine: EngineOption = Engine.JIT,
    time_limit: TimeLimitOption = None,
    summary_file: Annotated[
        Path | None,
        typer.Option("--summary-file", metavar="FILE", help="ROCm: write errors, findings and calls to FILE, as JSON."),
    ] = None,
    trace_file: Annotated[
        Path | None,
        typer.Option(
            "--trace-file", metavar="FILE", help="Write every event of the devices, as JSON lines; see `trace`."
        ),
    ] = None,
    profile_file: Annotated[
        Path | None,
        typer.Option("--profile-file", metavar="FILE", help="Write a profile of the devices, for speedscope.app."),
    ] = None,
    check: CheckOption = "",
    suppressions: SuppressionsOption = None,
    equal_stores: EqualStoresOption = False,
    poison: PoisonOption = "",
    findings: FindingsOption = None,
    error_exitcode: ErrorExitCodeOption = None,
    form: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
    trace_waves: TraceWavesOption = 0,
    registers_at: RegistersAtOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print events of the device.")] = False,
    report: ReportOption = None,
    coverage: CoverageOption = None,
    code: Annotated[
        list[Path] | None,
        typer.Option(
            "--code",
            metavar="FILE",
            help="A file with the program's kernels, for names and source lines in messages; can be repeated.",
        ),
    ] = None,
) -> None:
    """Run a host program, unmodified, with a virtual device for the real one.

    The command starts the device, sets the environment variables by which the
    program finds it, and closes the device when the program ends. The device's
    events and the program's mistakes are printed on standard error. The exit
    status is the program's, or 128 plus the number of the signal that ended it;
    with --error-exitcode N it is N if the program ends with 0 and a check has
    found an error.

      softcard exec --kernel sum -- ./sum_host data.arrow

      softcard exec --kernel kernels.py:upper -- python host.py

      softcard exec --device refsi -- ./program args

      softcard exec --agent gfx900 -- ./program args

      softcard exec --device opencl --check all -- python program.py"""
    for name in devices or ():
        if name not in ATTACHMENTS:
            known = f"{', '.join(ATTACHMENTS)}{close_to(name, ATTACHMENTS)}"
            raise UsageError(f"unknown device {name!r}, expected one of {known}")
    form = chosen_format(form, as_json)
    wanted = DeviceOptions(
        kernel, tuple(schemas or ()), profile, order.value, offset, threaded, trace, preload,
        tuple(agents or ()), engine.value, time_limit_of(time_limit), summary_file, trace_file, profile_file,
        checked(check) or default_checks(), suppressions, equal_stores, findings, tuple(program), tuple(code or ()),
        trace_waves=trace_waves, registers_at=tuple(registers_at or ()), poison=poison_of(poison),
        window_scale=window_scale or "", large_bar=not no_large_bar, form=form,
    )  # fmt: skip
    is_opencl = "opencl" in (devices or ())
    is_rocm = "rocm" in (devices or ()) or (bool(agents) and not is_opencl)
    has_checks = is_rocm or is_opencl or "refsi" in (devices or ())
    if poison and not (is_rocm or is_opencl):
        raise UsageError("--poison requires --device rocm, --device opencl or --agent NAME")
    if no_large_bar and not is_rocm:
        raise UsageError("--no-large-bar requires --device rocm or --agent NAME")
    if is_opencl:
        _check_opencl(
            {
                "--report": report, "--coverage": coverage, "--trace-file": trace_file, "--profile-file": profile_file,
                "--summary-file": summary_file, "--trace-waves": trace_waves, "--registers-at": registers_at,
                "--trace": trace, "--code": code,
            }
        )  # fmt: skip
    if trace_waves and not has_checks:
        raise UsageError("--trace-waves requires --device rocm, --device refsi or --agent NAME")
    if registers_at and not is_rocm:
        raise UsageError("--registers-at requires --device rocm or --agent NAME")
    if registers_at and report is None:
        raise UsageError("--registers-at requires --report FILE.html, which shows the registers")
    if (check or findings or suppressions) and not has_checks:
        raise UsageError(
            "--check, --findings and --suppressions require --device rocm, opencl or refsi, or --agent NAME"
        )
    if time_limit is not None and not has_checks:
        raise UsageError("--time-limit requires --device rocm, opencl or refsi, or --agent NAME")
    check_outputs(findings, suppressions, wanted.check, equal_stores)
    check_error_exitcode(error_exitcode, wanted.check if has_checks else "")
    if coverage is not None and not has_checks:
        raise UsageError("--coverage requires --device rocm, --device refsi or --agent NAME")
    check_coverage(coverage, wanted.check if is_rocm else "", wanted.engine)
    if form is not Format.TEXT and not (wanted.check and has_checks):
        raise UsageError(f"--format {form} requires --check, and --agent, --device rocm, opencl or refsi")
    for path in code or ():
        with reading(path), path.open("rb") as file:
            file.read(1)
    _check_program(program[0])
    title = Path(program[0]).name
    environment = dict(os.environ)
    with reporting(report, title) as gathered, covering(coverage) as covered, ExitStack() as stack:
        output = stack.enter_context(closing(Output(sys.stderr)))

        def show(found: Diagnostic) -> None:
            output.say(styled_diagnostic(found, output.stream), is_printable=True)

        wanted = replace(
            wanted, report=gathered, coverage=covered, drain=output.drain, show=(lambda found: None) if quiet else show
        )
        for name in dict.fromkeys(devices or ["rocm" if agents else "fletcher"]):
            say = (lambda line: None) if quiet else output.say
            environment |= stack.enter_context(ATTACHMENTS[name](wanted, say))
        status = _run(program, environment)
    if not status and any(each.level is Level.ERROR for each in wanted.findings):
        status = error_exitcode or status
    raise typer.Exit(status)


def _check_opencl(options: Mapping[str, object]) -> None:
    """Raise `UsageError` if an option is given that concerns GPUs in this process; `options` are values by name."""
    for name, value in options.items():
        if value:
            raise UsageError(
                f"{name} does not support --device opencl, because its GPUs run in another process: omit {name}"
            )


def _check_program(program: str) -> None:
    """Raise `UsageError` if a program does not exist or is not executable, before files and devices are opened."""
    if shutil.which(program) is not None:
        return
    number = errno.EACCES if os.sep in program and os.path.exists(program) else errno.ENOENT
    raise _not_started(program, OSError(number, os.strerror(number)))


def _not_started(program: str, error: OSError) -> UsageError:
    similar = near(program, error) if os.sep in program else ""
    return UsageError(f"cannot run {program}: {error.strerror or error}{similar}")


def _run(program: list[str], environment: Mapping[str, str]) -> int:
    """Run a program with these environment variables and return its exit status.

    SIGTERM and SIGHUP that this process receives are passed on to the program."""
    try:
        started = subprocess.Popen(program, env=environment)
    except OSError as error:
        raise _not_started(program[0], error) from None
    with _passed_on(started):
        status = started.wait()
    return SIGNALLED - status if status < 0 else status


@contextmanager
def _passed_on(program: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass SIGTERM and SIGHUP on to the program; ignore Ctrl-C, which the terminal sends to the program too."""

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
