"""What `understudy exec` says of ROCm programs: why their queues stop, and what they called."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from understudy.cli.exits import of_options
from understudy.cli.files import writing
from understudy.cli.moments import SNAPSHOTS
from understudy.cli.serving import Repeated, rule_of
from understudy.core.event import Event
from understudy.core.limits import checked_time_limit, default_time_limit
from understudy.device.kfd.device import KfdDevice
from understudy.device.kfd.events import Called, ProcessClosed, ProcessOpened, QueueFailed

if TYPE_CHECKING:
    from understudy.cli.attachments import Wanted
    from understudy.core.findings import Finding
    from understudy.device.hsa.device import HsaDevice

WHOLE_BLOCKS: Final = {"HSA_DISABLE_FRAGMENT_ALLOCATOR": "1"}
"""Environment of a program whose memory is checked: its run-time library gets each allocation from the driver."""


def options(wanted: Wanted) -> dict[str, Any]:
    """Settings of the GPUs: kernels may run for `time_limit` seconds, or as long as the environment says."""
    with of_options():
        limit = default_time_limit() if wanted.time_limit is None else checked_time_limit(wanted.time_limit)
    skipped = str(wanted.suppressions) if wanted.suppressions else None
    return {
        "engine": wanted.engine,
        "time_limit_seconds": limit,
        "check": wanted.check,
        "suppressions": skipped,
        "equal_stores": wanted.equal_stores,
        "trace_waves": wanted.trace_waves,
        "snapshots": SNAPSHOTS if wanted.registers_at else 0,
    }


def why_not_counted(engine: str, check: str) -> str:
    """Why instructions cannot be counted beside checks; "" where they can."""
    from understudy.core.checks import MARKED, checks_of
    from understudy.core.settings import JIT

    marked = ", ".join(sorted(checks_of(check) & MARKED)) if check and engine == JIT else ""
    return f"with --check {marked} they are on the engine reference alone" if marked else ""


class Checked:
    """What checks find on the agents of all programs."""

    def __init__(self) -> None:
        self._lists: list[list[Any]] = []

    def follow(self, agent: HsaDevice) -> None:
        """Keep what is found on an agent of a program."""
        self._lists.append(agent.findings)

    @property
    def findings(self) -> list[Finding]:
        """All of it, one agent after the other."""
        return [each for found in self._lists for each in found]


class Verdicts:
    """Says what went wrong, with `calls` also every call of the driver; keeps it for `write`."""

    def __init__(self, device: KfdDevice, say: Callable[[str], None], *, calls: bool) -> None:
        self._agents = [node.agent.name for node in device.nodes]
        self._say = say
        self._findings = Repeated(say)
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._errors: list[object] = []
        """As they are written: an error itself has hold of all that its program had."""
        self._programs = 0
        device.probes.subscribe(self._hear, ProcessOpened, ProcessClosed, QueueFailed, Called)
        self._tells_calls = calls

    def _hear(self, event: Event) -> None:
        with self._lock:
            match event:
                case ProcessOpened(process=number, pid=pid):
                    self._programs += 1
                    if self._tells_calls:
                        self._say(f"program {number} (process {pid}) has opened the driver")
                case ProcessClosed(process=number) if self._tells_calls:
                    self._say(f"program {number} is gone")
                case QueueFailed(agent=agent, error=error):
                    from understudy.trace.values import to_object

                    self._errors.append(to_object(event))
                    self._findings.tell(f"error {rule_of(error)}", f"{agent}: {error.in_full()}")
                case Called(process=number, name=name, refused=refused):
                    self._calls[name] += 1
                    self._refused[name] += bool(refused)
                    if self._tells_calls:
                        self._say(f"program {number}: {name}" + (f" refused: {refused}" if refused else ""))

    def write(self, path: Path, findings: Sequence[Finding]) -> None:
        """Write all of it to a file, as JSON, with what checks found."""
        document = {
            "agents": self._agents,
            "programs": self._programs,
            "errors": self._errors,
            "findings": [each.as_dict() for each in findings],
            "calls": dict(sorted(self._calls.items())),
            "refused": {name: count for name, count in sorted(self._refused.items()) if count},
        }
        with writing(path):
            path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
