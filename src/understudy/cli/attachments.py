"""What an unmodified host program can find on this machine: each interface's server, and the environment for it."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from understudy.cli.exec_records import NO_MACHINE_CODE, NOT_COUNTED, Records
from understudy.cli.exits import UsageError, of_options

if TYPE_CHECKING:
    from understudy.cli.reporting import Report
    from understudy.core.findings import Finding
    from understudy.device.hsa.device import HsaDevice

FLETCHER_PROFILES: Final = ("spec", "hardware")
REFSI_PROFILES: Final = ("refsidrv", "spec")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says of a device; each interface takes what it has."""

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
    json_file: Path | None = None
    trace_file: Path | None = None
    profile_file: Path | None = None
    check: str = ""
    suppressions: Path | None = None
    equal_stores: bool = False
    findings_file: Path | None = None
    command: tuple[str, ...] = ()
    """What is run; findings call it by its first word."""
    code: tuple[Path, ...] = ()
    """Files that may hold the code of the program's kernels."""
    report: Report | None = None
    """What hears of the devices' events."""
    trace_waves: int = 0
    """Waves of a launch that events tell of."""
    registers_at: tuple[str, ...] = ()
    """Moments at which the report has registers."""

    @property
    def program(self) -> str:
        """The program's name as it was given."""
        return self.command[0] if self.command else ""

    def records(self, stack: ExitStack) -> Records:
        """Who writes what devices do; they end with `stack`."""
        return Records(stack, self.report, self.trace_file, self.profile_file, self.command, self.code)

    def profile_of(self, names: tuple[str, ...]) -> str:
        """The profile, of these; the first is that of who names none. `UsageError` for another."""
        if self.profile and self.profile not in names:
            raise UsageError(f"no profile {self.profile!r}: there are {', '.join(names)}")
        return self.profile or names[0]


Say = Callable[[str], None]
"""Takes a line about what the device sees; never waits."""
Attachment = Callable[[Wanted, Say], AbstractContextManager[Mapping[str, str]]]
"""Starts a device and its server; inside, environment variables with which programs find it."""


@contextmanager
def fletcher(wanted: Wanted, say: Say) -> Iterator[Mapping[str, str]]:
    """A Fletcher device behind its platform library, whichever platform a program names."""
    from understudy.cli.fletcher import need_pyarrow, parse_offset

    profile = wanted.profile_of(FLETCHER_PROFILES)
    need_pyarrow()
    from understudy.attach.fletcher import DevicePlatform, Server, build_library
    from understudy.cli.serve_fletcher import load_kernel, register_map, teller
    from understudy.cli.serving import SWITCH_INTERVAL_S
    from understudy.core.lint import OFF
    from understudy.core.settings import SYNCHRONOUS, THREADED
    from understudy.device.fletcher.device import FletcherDevice
    from understudy.device.fletcher.settings import Settings

    kernel = load_kernel(wanted.kernel or "sum")
    execution = THREADED if wanted.threaded else SYNCHRONOUS
    settings = Settings(profile=profile, execution=execution, lints=OFF)
    plan = register_map(kernel, list(wanted.schemas), wanted.map or "fletchgen", parse_offset(wanted.offset))
    library = build_library()
    device = FletcherDevice(plan, kernel, settings)
    if wanted.threaded:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-"))
        server = stack.enter_context(Server(DevicePlatform(device)))
        tell = teller(wanted.trace, say)
        server.probes.subscribe(tell)
        device.probes.subscribe(tell)
        records = wanted.records(stack)
        records.follow(device.probes)
        records.note(NO_MACHINE_CODE)
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
            say("no program has looked for a Fletcher platform")


@contextmanager
def refsi(wanted: Wanted, say: Say) -> Iterator[Mapping[str, str]]:
    """RefSi devices behind the driver library: of either family, as the program opens them."""
    profile = wanted.profile_of(REFSI_PROFILES)
    from understudy.attach.refsi import Options, Server, build_library, events
    from understudy.cli.serve_refsi import settings_of, teller
    from understudy.core.checks import default_checks

    check = wanted.check if profile == "spec" or wanted.check != default_checks() else ""
    settings = settings_of(profile, wanted.engine, check, wanted.suppressions if check else None, wanted.equal_stores)
    library = build_library()
    findings: list[Finding] = []
    with ExitStack() as stack:
        records = wanted.records(stack)
        more: dict[str, Any] = {"count_instructions": True} if records.shows_code else {}
        more |= {"trace_instances": wanted.trace_waves} if wanted.trace_waves else {}
        options = Options((*settings.items(), *more.items()), True, records.open_refsi, records.close_refsi)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-"))
        server = stack.enter_context(Server(options))
        server.probes.subscribe(teller(wanted.trace, say, errors=False, checks=False))
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
            _tell(wanted, findings)
        if not server.sessions:
            say("no program has opened a RefSi device (if its RPATH says where another librefsidrv.so is: --preload)")


@contextmanager
def rocm(wanted: Wanted, say: Say) -> Iterator[Mapping[str, str]]:
    """AMD GPUs behind the kernel driver's interface, for programs of ROCm: those of `--agent`, else a gfx900."""
    from understudy.attach.rocm import Server, build_library
    from understudy.cli.exec_rocm import WHOLE_BLOCKS, Checked, Verdicts, options, why_not_counted
    from understudy.cli.moments import MomentsOfPrograms
    from understudy.cli.serving import SWITCH_INTERVAL_S
    from understudy.core.checks import MEMORY, checks_of
    from understudy.device.kfd.device import KfdDevice, known_checks

    settings, moments = options(wanted), MomentsOfPrograms(wanted.registers_at, lambda: records.code_files)
    why_not = "" if wanted.report is None else why_not_counted(wanted.engine, wanted.check)
    settings["count_instructions"] = wanted.report is not None and not why_not
    with of_options():
        device = KfdDevice(wanted.agents or ("gfx900",), **settings)
    checked = Checked()
    if wanted.check:
        known_checks(checks_of(wanted.check))
    library = build_library()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-"))
        verdicts = Verdicts(device, say, calls=wanted.trace)
        records = wanted.records(stack)
        device.code_files = lambda: records.code_files
        if records:
            device.on_code = records.gpu_code
        records.follow(device.probes)
        if why_not:
            records.note(NOT_COUNTED.format(why_not))

        def follow_agent(agent: HsaDevice) -> None:
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
        whole = WHOLE_BLOCKS if MEMORY in checks_of(wanted.check) else {}
        try:
            yield {**whole, **library.environment(path, folder)}
        finally:
            server.close()
            thread.join()
            device.close()
        for line in moments.missed():
            say(line)
        _tell(wanted, checked.findings)
        if wanted.json_file is not None:
            verdicts.write(wanted.json_file, checked.findings)
        if not server.sessions:
            say("no program has opened /dev/kfd (a program that is linked statically, or runs as another user, cannot)")


def _tell(wanted: Wanted, findings: Sequence[Finding]) -> None:
    """What checks have found: on standard error, and where it is to be written."""
    if wanted.check:
        from understudy.cli.told import tell_findings

        tell_findings(findings, sys.stderr)
    if wanted.findings_file is not None:
        from understudy.cli.told import write_findings

        write_findings(wanted.findings_file, Path(wanted.program), findings)
    if wanted.report is not None:
        wanted.report.found(findings)


ATTACHMENTS: Final[dict[str, Attachment]] = {"fletcher": fletcher, "refsi": refsi, "rocm": rocm}
"""Every interface that programs can be run on, by the name of `--device`."""
