"""The messages of `softcard exec` about ROCm programs: errors of the programs' queues, and their driver calls."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from softcard.attach.rocm.library import ORDER_VARIABLE
from softcard.cli.attach.serving import RepeatLimiter, Show, rule_of
from softcard.cli.files import write_file
from softcard.cli.records import RunSummary
from softcard.cli.running.registers_at import SNAPSHOTS
from softcard.core.checks import having
from softcard.core.diagnostics import Diagnostic, Note, of_error
from softcard.core.event import Event
from softcard.core.findings import Level
from softcard.device.kfd.device import KfdDevice
from softcard.device.kfd.events import Called, KernelLint, LaunchRefused, ProcessClosed, ProcessOpened, QueueFailed

if TYPE_CHECKING:
    from softcard.cli.attach.exec_devices import DeviceOptions
    from softcard.core.findings import Finding
    from softcard.device.hsa.device import HsaDevice


WHOLE_BLOCKS: Final = {"HSA_DISABLE_FRAGMENT_ALLOCATOR": "1"}
"""The environment variables for programs whose memory or values are checked.

With them, the run-time library requests each allocation separately from the driver.
"""
BY_COPY_ENGINES: Final = {"ROC_ENABLE_LARGE_BAR": "0"}
"""The environment variables for programs whose values are checked.

With them, the run-time library uses copy engines for small copies too. Without them it makes small copies with its own
loads and stores, and no check observes those loads.
"""


def environment(checks: frozenset[str]) -> dict[str, str]:
    """Return the environment variables that host programs need so that `checks` observe all their accesses."""
    whole = WHOLE_BLOCKS if having(checks, lambda kind: kind.needs_own_blocks) else {}
    order = {ORDER_VARIABLE: "1"} if having(checks, lambda kind: kind.orders_accesses) else {}
    return whole | order | (BY_COPY_ENGINES if having(checks, lambda kind: kind.needs_copy_engines) else {})


def options(wanted: DeviceOptions) -> dict[str, Any]:
    """Return the settings of the GPUs."""
    skipped = str(wanted.suppressions) if wanted.suppressions else None
    return {
        "engine": wanted.engine,
        "time_limit_seconds": wanted.time_limit,
        "check": wanted.check,
        "suppressions": skipped,
        "equal_stores": wanted.equal_stores,
        "poison": wanted.poison,
        "on_finding": "keep",
        "trace_waves": wanted.trace_waves,
        "snapshots": SNAPSHOTS if wanted.registers_at else 0,
    }


def why_not_counted(engine: str, check: str) -> str:
    """Return the reason why instructions cannot be counted while the checks `check` run; "" if they can be counted."""
    from softcard.core.checks import checks_of
    from softcard.core.settings import JIT

    names = (
        ", ".join(sorted(having(checks_of(check), lambda kind: kind.shadows_values))) if check and engine == JIT else ""
    )
    return f"with --check {names}, only --engine reference counts instructions" if names else ""


VENDORS: Final = "/etc/OpenCL/vendors"
"""The folder in which OpenCL's loader finds platforms: each file with the suffix .icd names a library."""
AMD_OPENCL: Final = "libamdocl"
"""The name of AMD's library for OpenCL."""


def not_opened(environment: Mapping[str, str]) -> str:
    """Return the message for the case that no program opened the driver.

    If no .icd file names AMD's OpenCL library, the message states how to install it."""
    folder = Path(environment.get("OCL_ICD_VENDORS") or environment.get("OPENCL_VENDOR_PATH") or VENDORS)
    message = (
        "no program has opened /dev/kfd: nothing was emulated (a program that is linked statically, or runs as another "
        "user, cannot open it)"
    )
    if _names_amd(folder):
        return message
    return (
        f"{message}; an OpenCL program finds AMD's platform by an .icd file that names {AMD_OPENCL}64.so, and {folder} "
        "has none: install rocm-opencl-icd"
    )


def _names_amd(folder: Path) -> bool:
    """Return True if a file names AMD's OpenCL library: the file `folder`, or an .icd file in the folder `folder`."""
    try:
        files = sorted(folder.glob("*.icd")) if folder.is_dir() else [folder]
        return any(AMD_OPENCL in each.read_text("utf-8", "replace") for each in files)
    except OSError:
        return False


class CheckedAgents:
    """The findings of the checks on the agents of all programs, with statistics on the kernels that ran.

    If there are no findings, the statistics show how much was checked.
    """

    def __init__(self, device: KfdDevice) -> None:
        self._lists: list[list[Any]] = []
        self._lock = threading.Lock()
        self._ran = RunSummary(instructions=0, refused=0)
        self._running: list[dict[tuple[int, int], bool]] = []
        """The running kernels, one dict for each agent, by queue and packet number.

        The value is True for kernels of the program itself, and False for kernels of the run-time library.
        """
        device.probes.subscribe(self._refused, LaunchRefused)

    def follow(self, agent: HsaDevice) -> None:
        """Collect the findings of a program's agent, and count its kernels."""
        self._lists.append(agent.findings)
        own: dict[int, bool] = {}
        running: dict[tuple[int, int], bool] = {}
        self._running.append(running)

        def has_runtime(number: int) -> bool:
            """Return True if an HSA run-time library made a queue: its amd_queue_t then describes the ring.

            The kernels of other queues have no names in memory, because the program has loaded them itself."""
            queue = next((each for each in agent.queues if each.number == number), None)
            return queue is None or queue.record().hsa_queue.base_address != 0

        def hear(event: Event) -> None:
            with self._lock:
                if isinstance(event, PacketCompleted):
                    if running.pop((event.queue, event.index), False):
                        self._ran.instructions = (self._ran.instructions or 0) + event.instructions
                elif isinstance(event, PacketStarted) and isinstance(event.packet, KernelDispatchPacket):
                    place = event.packet.kernel_object
                    if place not in own:
                        own[place] = has_runtime(event.queue) and is_of_runtime(kernel_name(agent.memory, place))
                    running[event.queue, event.index] = not own[place]
                    self._ran.others += own[place]
                    self._ran.kernels += not own[place]

        from softcard.device.hsa.events import PacketCompleted, PacketStarted
        from softcard.device.hsa.queues.packets import KernelDispatchPacket
        from softcard.device.kfd.loaded_code import is_of_runtime, kernel_name

        agent.probes.subscribe(hear, PacketStarted, PacketCompleted)

    def _refused(self, event: Event) -> None:
        with self._lock:
            self._ran.refused = (self._ran.refused or 0) + 1

    @property
    def ran(self) -> RunSummary:
        """The run statistics. A kernel that has begun and not completed counts as unfinished.

        After an error of a queue, its kernel is not necessarily unfinished: if a kernel has too little private
        memory, the run-time library launches it again with more."""
        with self._lock:
            return replace(self._ran, unfinished=sum(map(len, self._running)))

    @property
    def findings(self) -> list[Finding]:
        """All findings, one agent after another."""
        return [each for found in self._lists for each in found]


class RocmReporter:
    """The printer of errors, and with `calls` also of driver calls. It stores both for `write`."""

    def __init__(self, device: KfdDevice, say: Callable[[str], None], show: Show, *, calls: bool) -> None:
        self._agents = [node.agent.name for node in device.nodes]
        self._say = say
        self._findings = RepeatLimiter(say, show)
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._errors: list[object] = []
        """The errors as JSON objects; exceptions would hold references to the program's memory."""
        self._programs = 0
        device.probes.subscribe(self._hear, ProcessOpened, ProcessClosed, QueueFailed, KernelLint, Called)
        self._shows_calls = calls

    def _hear(self, event: Event) -> None:
        with self._lock:
            match event:
                case ProcessOpened(process=number, pid=pid):
                    self._programs += 1
                    if self._shows_calls:
                        self._say(f"program {number} (process {pid}) has opened the driver")
                case ProcessClosed(process=number) if self._shows_calls:
                    self._say(f"program {number} has closed the driver")
                case QueueFailed(agent=agent, error=error):
                    from softcard.trace.values import to_object

                    self._errors.append(to_object(event))
                    found = of_error(error)
                    found = replace(found, notes=(*found.notes, Note(f"on agent {agent}")))
                    self._findings.report(f"error {rule_of(error)}", found)
                case KernelLint(agent=agent, check=check, message=message):
                    found = Diagnostic(Level.WARNING, check, message, notes=(Note(f"on agent {agent}"),))
                    self._findings.report(f"warning {check}", found)
                case Called(process=number, name=name, refused=refused):
                    self._calls[name] += 1
                    self._refused[name] += bool(refused)
                    if self._shows_calls:
                        self._say(f"program {number}: {name}" + (f" refused: {refused}" if refused else ""))

    def finish(self) -> None:
        """Wait until the errors that threads of the device are printing are complete."""
        with self._lock:
            pass

    def write(self, path: Path, findings: Sequence[Finding]) -> None:
        """Write the errors, the driver calls and the checks' findings to a file, as JSON."""
        document = {
            "agents": self._agents,
            "programs": self._programs,
            "errors": self._errors,
            "findings": [each.as_dict() for each in findings],
            "calls": dict(sorted(self._calls.items())),
            "refused": {name: count for name, count in sorted(self._refused.items()) if count},
        }
        write_file(path, json.dumps(document, indent=2) + "\n")
