"""Devices for unmodified host programs: the server of each interface, and the environment in which programs find it."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from softcard.cli.exits import UsageError, usage_errors
from softcard.cli.options import Format
from softcard.cli.records import NOT_COUNTED, ExecRecords, RunSummary, annotate, formatted, print_findings
from softcard.core.display import count

if TYPE_CHECKING:
    from softcard.cli.records import Report
    from softcard.core.diagnostics import Diagnostic
    from softcard.core.event import Event
    from softcard.core.findings import Finding
    from softcard.device.hsa.device import HsaDevice
    from softcard.device.refsi.device import RefSiDevice
    from softcard.image.coverage import Coverage


FLETCHER_PROFILES: Final = ("spec", "hardware")
REFSI_PROFILES: Final = ("refsidrv", "spec")
CHECKED_PROFILE: Final = (
    "RefSi: --check uses profile spec, and reads window scales as hosts of the reference driver encode them"
)


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """The command line's options for devices; each interface uses the options that apply to it."""

    kernel: str = ""
    schemas: tuple[Path, ...] = ()
    profile: str = ""
    map: str = ""
    offset: str = "0"
    threaded: bool = False
    trace: bool = False
    preload: bool = False
    agents: tuple[str, ...] = ()
    engine: str = "jit"
    time_limit: float | None = None
    summary_file: Path | None = None
    trace_file: Path | None = None
    profile_file: Path | None = None
    check: str = ""
    suppressions: Path | None = None
    equal_stores: bool = False
    findings_file: Path | None = None
    command: tuple[str, ...] = ()
    """The host program and its arguments; messages about findings name the program."""
    code: tuple[Path, ...] = ()
    """The paths of files that may hold the code of the program's kernels."""
    report: Report | None = None
    """The report that records the devices' events; None without --report."""
    trace_waves: int = 0
    """The number of waves for which events are recorded in each launch."""
    poison: int | None = None
    """The value that fills undefined GPU registers and memory; None for the device's default."""
    coverage: Coverage | None = None
    """The coverage of kernels, to which devices add theirs; None without --coverage."""
    registers_at: tuple[str, ...] = ()
    """The points of the program, as in --registers-at, at which the report shows registers."""
    large_bar: bool = True
    """True if host programs can load from and store to the memory of GPUs."""
    window_scale: str = ""
    """RefSi's encoding of the window field SCALE_A; "" if the user gave none."""
    form: Format = Format.TEXT
    """The format in which findings are printed."""
    findings: list[Finding | Diagnostic] = field(default_factory=list, compare=False)
    """The findings of the checks on all devices."""
    drain: Callable[[], None] = lambda: None
    """Wait until all lines that were given to `Say` are printed."""
    show: Callable[[Diagnostic], None] | None = None
    """The function that prints a finding while the program runs, without blocking; None if `Say` prints its text."""

    @property
    def program(self) -> str:
        """The program's name as given on the command line."""
        return self.command[0] if self.command else ""

    def show_by(self, say: Say) -> Callable[[Diagnostic], None]:
        """Return the function that prints findings while the program runs; `say` prints lines."""
        from softcard.report.diagnostic_text import as_text

        return self.show or (lambda found: say(as_text([found])))

    def records(self, stack: ExitStack) -> ExecRecords:
        """Return the writers of traces, profiles and reports that the options request; `stack` closes them."""
        return ExecRecords(
            stack, self.report, self.trace_file, self.profile_file, self.command, self.code, self.coverage
        )

    def profile_of(self, names: tuple[str, ...]) -> str:
        """Return the profile that the user chose, or by default the first of `names`.

        Raise `UsageError` if the chosen profile is not in `names`.
        """
        if self.profile and self.profile not in names:
            raise UsageError(f"unknown profile {self.profile!r}, expected one of {', '.join(names)}")
        return self.profile or names[0]


Say = Callable[[str], None]
"""The type of a function that prints a line about the device's events; it never blocks."""
Attachment = Callable[[DeviceOptions, Say], AbstractContextManager[Mapping[str, str]]]
"""The type of a context manager that starts a device and its server.

It provides the environment variables by which programs find the server.
"""


@contextmanager
def fletcher(wanted: DeviceOptions, say: Say) -> Iterator[Mapping[str, str]]:
    """Serve a Fletcher device during the block; yield the environment variables by which host programs find it.

    The device serves programs that use Fletcher's run-time library, whatever platform they name.
    `say` prints a message."""
    from softcard.cli.fletcher import need_pyarrow, parse_offset

    profile = wanted.profile_of(FLETCHER_PROFILES)
    need_pyarrow()
    from softcard.attach.fletcher import DevicePlatform, Server, build_library
    from softcard.cli.attach.serve_fletcher import event_printer, load_kernel, register_map
    from softcard.cli.attach.serving import SWITCH_INTERVAL_S
    from softcard.core.lint import OFF
    from softcard.core.settings import SYNCHRONOUS, THREADED
    from softcard.device.fletcher.device import FletcherDevice
    from softcard.device.fletcher.settings import Settings

    kernel = load_kernel(wanted.kernel or "sum")
    execution = THREADED if wanted.threaded else SYNCHRONOUS
    settings = Settings(profile=profile, execution=execution, lints=OFF)
    plan = register_map(kernel, list(wanted.schemas), wanted.map or "fletchgen", parse_offset(wanted.offset))
    library = build_library()
    device = FletcherDevice(plan, kernel, settings)
    if wanted.threaded:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="softcard-"))
        server = stack.enter_context(Server(DevicePlatform(device)))
        printer = event_printer(kernel.name, wanted.trace, say, wanted.show_by(say))
        server.probes.subscribe(printer)
        device.probes.subscribe(printer)
        records = wanted.records(stack)
        records.follow(device.probes)
        records.python_kernel(kernel)
        path = Path(folder, "fletcher.sock")
        server.listen(path)
        thread = threading.Thread(target=server.serve, name="fletcher", daemon=True)
        thread.start()
        try:
            yield library.environment(path, autodetect=True)
        finally:
            server.close()
            thread.join()
            device.close()
        if not server.sessions:
            wanted.show_by(say)(_warning("no program has opened a Fletcher platform: nothing was emulated"))


KERNEL_COMMANDS: Final = ("RUN_INSTANCES", "RUN_KERNEL_SLICE")
"""The opcodes of the RefSi commands that run kernels."""


@contextmanager
def refsi(wanted: DeviceOptions, say: Say) -> Iterator[Mapping[str, str]]:
    """Serve RefSi devices during the block; yield the environment variables by which host programs find them.

    The devices serve programs that use the reference driver's library. Each program chooses the device family,
    M or G."""
    wanted.profile_of(REFSI_PROFILES)
    from softcard.attach.refsi import Options, Server, build_library, events
    from softcard.cli.attach.serve_refsi import event_printer, profile_for, settings_of
    from softcard.core.checks import default_checks
    from softcard.device.refsi.events import BufferFinished, BufferStarted, KernelLaunch

    profile, window_scale = profile_for(wanted.check, wanted.profile, wanted.window_scale)
    check = wanted.check if profile == "spec" or wanted.check != default_checks() else ""
    suppressions = wanted.suppressions if check else None
    settings = settings_of(profile, window_scale, wanted.engine, check, suppressions, wanted.equal_stores)
    settings["time_limit_seconds"] = wanted.time_limit
    if profile == "spec" and not wanted.profile:
        say(CHECKED_PROFILE)
    library = build_library()
    findings: list[Finding] = []
    with ExitStack() as stack:
        records = wanted.records(stack)
        more: dict[str, Any] = {"count_instructions": True} if records.shows_code else {}
        more |= {"trace_instances": wanted.trace_waves} if wanted.trace_waves else {}
        ran = RunSummary()

        def count_kernels(device: RefSiDevice) -> None:
            """Subscribe to the events of a device, to count its launched and its failed kernels in `ran`."""
            in_buffer = 0

            def hear(event: Event) -> None:
                nonlocal in_buffer
                if isinstance(event, KernelLaunch):
                    in_buffer += 1
                    ran.kernels += 1
                elif isinstance(event, BufferStarted):
                    in_buffer = 0
                elif isinstance(event, BufferFinished) and in_buffer:
                    ran.unfinished += event.status.opcode in KERNEL_COMMANDS and not event.status.ok

            device.probes.subscribe(hear, KernelLaunch, BufferStarted, BufferFinished)

        def opened(device: RefSiDevice) -> None:
            if check:
                count_kernels(device)
            records.open_refsi(device)

        def closing_one(device: RefSiDevice) -> None:
            ran.instructions = (ran.instructions or 0) + device.steps
            records.close_refsi(device)

        options = Options((*settings.items(), *more.items()), True, opened, closing_one)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="softcard-"))
        server = stack.enter_context(Server(options))
        server.probes.subscribe(event_printer(wanted.trace, say, wanted.show_by(say), errors=False, checks=False))
        server.probes.subscribe(lambda event: findings.extend(getattr(event, "findings", ())), events.Checked)
        path = Path(folder, "refsi.sock")
        server.listen(path)
        thread = threading.Thread(target=server.serve, name="refsi", daemon=True)
        thread.start()
        try:
            yield library.environment(path, preload=wanted.preload)
        finally:
            server.close()
            thread.join()
        if check:
            _report_findings(wanted, findings, ran)
        if not server.sessions:
            text = "no program has opened a RefSi device (if its RPATH names another librefsidrv.so, use --preload)"
            wanted.show_by(say)(_warning(text))


@contextmanager
def rocm(wanted: DeviceOptions, say: Say) -> Iterator[Mapping[str, str]]:
    """Serve AMD GPUs during the block; yield the environment variables by which ROCm programs find them.

    Programs access the GPUs through the interface of the Linux kernel's driver. The GPUs are those of
    `--agent`, or one gfx900."""
    from softcard.attach.rocm import Server, build_library
    from softcard.cli.attach.exec_rocm import (
        CheckedAgents,
        RocmReporter,
        environment,
        not_opened,
        options,
        why_not_counted,
    )
    from softcard.cli.attach.serving import SWITCH_INTERVAL_S
    from softcard.cli.running.registers_at import ProgramSnapshots
    from softcard.core.checks import checks_of
    from softcard.device.kfd.device import KfdDevice, known_checks

    settings, moments = options(wanted), ProgramSnapshots(wanted.registers_at, lambda: records.code_files)
    counts = wanted.report is not None or wanted.coverage is not None
    why_not = why_not_counted(wanted.engine, wanted.check) if counts else ""
    settings["count_instructions"] = counts and not why_not
    with usage_errors():
        device = KfdDevice(wanted.agents or ("gfx900",), large_bar=wanted.large_bar, **settings)
    checked = CheckedAgents(device) if wanted.check else None
    if wanted.check:
        known_checks(checks_of(wanted.check))
    library = build_library()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="softcard-"))
        verdicts = RocmReporter(device, say, wanted.show_by(say), calls=wanted.trace)
        records = wanted.records(stack)
        device.code_files = lambda: records.code_files
        if records:
            device.on_code = records.gpu_code
        records.follow(device.probes)
        if why_not:
            records.note(NOT_COUNTED.format(why_not))

        def follow_agent(agent: HsaDevice) -> None:
            if checked is not None:
                checked.follow(agent)
            records.follow(agent.probes)
            moments.follow(agent)

        device.on_device = follow_agent
        server = stack.enter_context(Server(device))
        server.write_files(Path(folder))
        path = Path(folder, "rocm.sock")
        server.listen(path)
        device.prepare()
        thread = threading.Thread(target=server.serve, name="rocm", daemon=True)
        thread.start()
        try:
            yield {**environment(checks_of(wanted.check)), **library.environment(path, folder)}
        finally:
            server.close()
            thread.join()
            device.close()
            verdicts.finish()
        for line in moments.missed():
            say(line)
        findings = [] if checked is None else checked.findings
        _report_findings(wanted, findings, RunSummary() if checked is None else checked.ran)
        if wanted.summary_file is not None:
            verdicts.write(wanted.summary_file, findings)
        if not server.sessions:
            wanted.show_by(say)(_warning(not_opened(os.environ)))


@contextmanager
def opencl(wanted: DeviceOptions, say: Say) -> Iterator[Mapping[str, str]]:
    """Provide the OpenCL platform during the block; yield the environment variables by which programs find it.

    Each program starts a server of its own, which reports to this process."""
    from softcard.attach.opencl.installing import vendors
    from softcard.attach.opencl.library import build_library
    from softcard.attach.opencl.records import Receiver
    from softcard.attach.opencl.variables import PYTHON_VARIABLE, RECORDS_VARIABLE, of_loaders, of_settings
    from softcard.cli.opencl import check_agents

    check_agents(wanted.agents)
    library = build_library()
    with usage_errors():
        found = of_loaders(vendors(library), library.path)
    found |= {PYTHON_VARIABLE: sys.executable} | of_settings(
        wanted.agents,
        engine=wanted.engine,
        check=wanted.check,
        time_limit_seconds=wanted.time_limit,
        suppressions="" if wanted.suppressions is None else str(wanted.suppressions.absolute()),
        equal_stores=wanted.equal_stores,
        poison=wanted.poison,
    )
    reports: list[Diagnostic] = []
    with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
        path = Path(folder, "records.sock")
        receiver = Receiver(path, reports.append)
        has_ended = False
        try:
            yield found | {RECORDS_VARIABLE: str(path)}
        finally:
            has_ended = receiver.close()
    show = wanted.show_by(say)
    if not has_ended:
        show(_warning("the OpenCL platform of the program still runs: its last findings are missing"))
    if not receiver.count:
        show(_warning(NO_CONTEXT))
    elif wanted.check:
        wanted.drain()
        if wanted.form is Format.TEXT:
            say(count(len(reports), "finding") if reports else "checked: no findings")
            annotate(Path(wanted.program), reports, sys.stderr)
        else:
            print(formatted(wanted.form, Path(wanted.program), reports), end="", file=sys.stderr)
    _record_findings(wanted, reports)


NO_CONTEXT: Final = (
    "the program has not created an OpenCL context on a device of the platform Softcard: nothing was emulated (a "
    "program with a loader of its own, or as another user, ignores the variables)"
)


def _warning(text: str) -> Diagnostic:
    from softcard.core.diagnostics import Diagnostic
    from softcard.core.findings import Level

    return Diagnostic(Level.WARNING, "", text)


def _report_findings(wanted: DeviceOptions, findings: Sequence[Finding], ran: RunSummary) -> None:
    """Print the checks' findings on standard error, and write them to the --findings file and to the report.

    `ran` is the summary of what was run.
    """
    wanted.drain()
    if wanted.check:
        print_findings(findings, sys.stderr, ran, wanted.form, Path(wanted.program))
    _record_findings(wanted, findings)


def _record_findings(wanted: DeviceOptions, findings: Sequence[Finding | Diagnostic]) -> None:
    """Write findings to the --findings file and to the report, and keep them for the exit status."""
    wanted.findings.extend(findings)
    if wanted.findings_file is not None:
        from softcard.cli.records import write_findings

        write_findings(wanted.findings_file, Path(wanted.program), findings)
    if wanted.report is not None:
        wanted.report.found(findings)


ATTACHMENTS: Final[dict[str, Attachment]] = {
    "fletcher": fletcher,
    "refsi": refsi,
    "rocm": rocm,
    "opencl": opencl,
}
"""The context manager of every interface that `exec` provides, by the interface's name in `--device`."""
