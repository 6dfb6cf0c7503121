"""The driver and its agents.

device = KfdDevice(["gfx900"])
process = device.open(lambda shared: client)
answer = process.ioctl(request, argument)
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from understudy.core.checks import ALL, LEAKS
from understudy.core.errors import BeyondModel, RuleError
from understudy.core.event import Event, Probes
from understudy.core.lint import OFF
from understudy.device.kfd.call_names import call_name
from understudy.device.kfd.client import Client
from understudy.device.kfd.errors import Refused
from understudy.device.kfd.events import Called, ProcessClosed, ProcessOpened, QueueFailed
from understudy.device.kfd.node import nodes
from understudy.device.kfd.topology import files

if TYPE_CHECKING:
    from understudy.device.hsa.device import HsaDevice
    from understudy.device.hsa.settings import Settings
    from understudy.device.kfd.code_files import CodeFiles
    from understudy.device.kfd.loaded_code import Ran
    from understudy.device.kfd.process import KfdProcess
    from understudy.device.kfd.shared_memory import SharedMemory

_PROCESS: Final = "understudy.device.kfd.process"


def known_checks(checks: frozenset[str]) -> frozenset[str]:
    """Those of `checks` that can be made here, where they are all there are; else `BeyondModel` for one that cannot."""
    if LEAKS in checks and not checks >= ALL:
        raise BeyondModel(f"check {LEAKS} of a program whose run-time library frees little, expected other checks")
    return checks - {LEAKS}


class KfdDevice:
    """A machine with these agents. Each program that opens the driver has its own memory, queues and events on them.

    `settings`, or single `options` by name, are those of its HSA devices, but for what the driver decides: queues are
    served by threads of their own, and the program's run-time library allocates private memory. Unless told otherwise,
    time alone limits kernels, since programs wait for the host in them. `WireError` for agents that cannot be shown.
    """

    def __init__(self, agents: Sequence[str] = ("gfx900",), settings: Settings | None = None, **options: Any) -> None:
        self.nodes = nodes(agents)
        self._given = settings, options
        self.probes = Probes()
        self.time = 0
        """Calls of the driver so far."""
        self.on_device: Callable[[HsaDevice], None] | None = None
        """Called with each agent that a program gets, before it is used: who wants to, listens to its probes."""
        self.on_code: Ran | None = None
        """Called with the code that a program's kernels were of, and what it executed where that is counted; while it
        is set, their kernels have names in traces (`CodeLoaded`). Before programs come."""
        self.code_files: Callable[[], CodeFiles] | None = None
        """Gives the files in which errors and findings look for lines of programs' code. Before programs come."""
        self._lock = threading.Lock()
        self._open: dict[int, KfdProcess] = {}
        self._opened = 0
        self._has_garbage = False
        self._is_closed = False

    def __repr__(self) -> str:
        names = ", ".join(node.agent.name for node in self.nodes)
        return f"<KfdDevice {names}, {len(self._open)} open>"

    @cached_property
    def settings(self) -> Settings:
        """Those of its HSA devices."""
        from understudy.device.hsa.settings import HIGH, HOST, MANUAL, Settings

        given, options = self._given
        chosen = Settings.of(given, options if given else {"step_limit": None} | options)
        if chosen.checks:
            chosen = replace(chosen, check=",".join(sorted(known_checks(chosen.checks))))
        return replace(chosen, execution=MANUAL, dynamic_scratch=False, lints=OFF, own_addresses=HIGH, timestamps=HOST)

    @property
    def processes(self) -> tuple[int, ...]:
        """Numbers of the programs that have it open."""
        return tuple(self._open)

    def files(self) -> dict[str, str]:
        """What the file system shows of the driver: contents by path, without the leading slash."""
        return files(self.nodes)

    def prepare(self) -> None:
        """Load, in a thread of its own, what the first program needs: while that loads its own libraries."""
        threading.Thread(target=import_module, args=(_PROCESS,), name="understudy-prepare", daemon=True).start()

    def open(self, client_of: Callable[[SharedMemory], Client], pid: int = 0) -> tuple[int, KfdProcess]:
        """A program opens the driver: its number, and what it has from now on.

        `client_of` is given the memory that both share; the program is process `pid` of the system.
        """
        from understudy.device.kfd.process import KfdProcess
        from understudy.device.kfd.shared_memory import SharedMemory

        with self._lock:
            if self._is_closed:
                raise RuleError("the driver was closed")
            self._opened += 1
            number = self._opened
            has_garbage, self._has_garbage = self._has_garbage, False
        if has_garbage:  # what a program had refers to itself, some 50 MB: Python might not look for it for long
            gc.collect()
        shared = SharedMemory(len(self.nodes))
        process = KfdProcess(
            self.nodes, shared, client_of(shared), self.settings,
            lambda node, queue, error: self._emit(
                lambda time: QueueFailed(time, number, node.agent.name, queue, error)
            ),
            self._made, self.on_code, self.code_files,
        )  # fmt: skip
        with self._lock:
            self._open[number] = process
        self._emit(lambda time: ProcessOpened(time, number, pid))
        return number, process

    def ioctl(self, number: int, request: int, data: bytes, minor: int = 0) -> bytes:
        """An ioctl of program `number`: see `KfdProcess.ioctl`."""
        process = self._open.get(number)
        self.time += 1
        try:
            if process is None:
                raise Refused(f"no program {number} has the driver open")
            answer = process.ioctl(request, data, minor)
        except Refused as error:
            refused, code = error.message, error.errno
            self._emit(lambda time: Called(time, number, call_name(request), refused, code))
            raise
        self._emit(lambda time: Called(time, number, call_name(request), "", 0))
        return answer

    def close_process(self, number: int) -> None:
        """Program `number` has gone: all that it had is given back. A second time has no effect."""
        with self._lock:
            process = self._open.pop(number, None)
        if process is None:
            return
        left = len(process.queues), len(process.allocations), len(process.events)
        process.close()
        self._has_garbage = True
        self._emit(lambda time: ProcessClosed(time, number, *left))

    def close(self) -> None:
        """Close all that is open."""
        with self._lock:
            self._is_closed = True
        for number in self.processes:
            self.close_process(number)

    def _made(self, device: HsaDevice) -> None:
        if self.on_device is not None:
            self.on_device(device)

    def _emit(self, make: Callable[[int], Event]) -> None:
        if self.probes.active:
            self.probes.emit(make(self.time))
