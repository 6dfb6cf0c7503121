"""The driver with its agents::

    device = KfdDevice(["gfx900"])
    number, process = device.open(lambda shared: client)
    reply = process.ioctl(request, argument)

`request` and `argument` are those of the system call ioctl.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final, Unpack

from softcard.core.checks import ALL, having
from softcard.core.errors import BeyondModel, RuleError
from softcard.core.event import Event, Probes
from softcard.core.lint import OFF
from softcard.device.hsa.settings import GpuOptions
from softcard.device.kfd import drm, ioctls
from softcard.device.kfd.client import Client
from softcard.device.kfd.events import Called, KernelLint, LaunchRefused, ProcessClosed, ProcessOpened, QueueFailed
from softcard.device.kfd.ioctls import Refused
from softcard.device.kfd.node import files, nodes

if TYPE_CHECKING:
    from softcard.device.hsa.device import HsaDevice
    from softcard.device.hsa.settings import Settings
    from softcard.device.kfd.code_files import CodeFiles
    from softcard.device.kfd.host_races import PinnedOrder
    from softcard.device.kfd.loaded_code import Ran
    from softcard.device.kfd.process import KfdProcess
    from softcard.device.kfd.shared_memory import SharedMemory

_PROCESS: Final = "softcard.device.kfd.process"


def known_checks(checks: frozenset[str]) -> frozenset[str]:
    """Return the names in `checks` that the driver supports.

    Raise `BeyondModel` for an unsupported check. However, if `checks` contains all checks, only omit the
    unsupported ones."""
    left = having(checks, lambda kind: kind.at_close)
    if left and not checks >= ALL:
        names = ", ".join(sorted(left))
        raise BeyondModel(
            f"check {names!r} is not supported for ROCm programs, whose run-time library does not free all memory: "
            "use other checks"
        )
    return checks - left


class KfdDevice:
    """A machine with the given agents, and their kernel driver.

    Each program that opens the driver has its own memory, queues and events. `settings`, or single `options` by
    name, apply to the machine's HSA devices, except for those that the driver itself determines: a thread serves
    each queue, and the program's run-time library allocates private memory. By default only a time limit ends
    kernels, because kernels may wait for the host. Without `large_bar`, programs cannot access the agents' memory
    by loads and stores. Raise `WireError` for agents that are not supported."""

    def __init__(
        self,
        agents: Sequence[str] = ("gfx900",),
        settings: Settings | None = None,
        *,
        large_bar: bool = True,
        **options: Unpack[GpuOptions],
    ) -> None:
        self.nodes = nodes(agents)
        self.large_bar = large_bar
        self._arguments = settings, options
        self.probes = Probes()
        self.time = 0
        """The number of calls of the driver since its creation."""
        self.on_device: Callable[[HsaDevice], None] | None = None
        """A function that is called with each agent of a program before the agent is used, or None.

        The function can subscribe to the agent's probes.
        """
        self.on_code: Ran | None = None
        """A function that is called with the code of a program's kernels; None for no calls.

        Its arguments include the counts of executed instructions, which are empty unless the settings enable them.
        While the function is set, kernels have names in traces (`CodeLoaded`). Set it before the first program opens
        the driver.
        """
        self.code_files: Callable[[], CodeFiles] | None = None
        """A function that returns the files that have the source lines of programs' code, or None.

        Errors and findings use these source lines. Set it before the first program opens the driver.
        """
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
        """The settings of the machine's HSA devices."""
        from softcard.device.hsa.settings import HIGH, HOST, MANUAL, Settings

        given, options = self._arguments
        chosen = Settings.of(given, options if given else {"step_limit": None} | options)
        if chosen.checks:
            chosen = replace(chosen, check=",".join(sorted(known_checks(chosen.checks))))
        return replace(chosen, execution=MANUAL, dynamic_scratch=False, lints=OFF, own_addresses=HIGH, timestamps=HOST)

    @property
    def processes(self) -> tuple[int, ...]:
        """The numbers of the programs that have opened the driver and not closed it."""
        return tuple(self._open)

    def files(self) -> dict[str, str]:
        """Return the contents of the driver's files in sysfs and procfs, by their path without the leading slash."""
        return files(self.nodes, large_bar=self.large_bar)

    def prepare(self) -> None:
        """Start to load the Python modules that the first program needs, in a thread.

        This happens while the program loads its own libraries."""
        threading.Thread(target=import_module, args=(_PROCESS,), name="softcard-prepare", daemon=True).start()

    def open(self, client_of: Callable[[SharedMemory], Client], pid: int = 0) -> tuple[int, KfdProcess]:
        """Open the driver for a program, which is process `pid` of the system.

        Return the program's number and its state. `client_of` is called with the memory that driver and program share,
        and returns the interface to the program.
        """
        from softcard.device.kfd.process import KfdProcess
        from softcard.device.kfd.shared_memory import SharedMemory

        with self._lock:
            if self._is_closed:
                raise RuleError("the driver was closed")
            self._opened += 1
            number = self._opened
            has_garbage, self._has_garbage = self._has_garbage, False
        if has_garbage:  # some 50 MB in reference cycles, which Python might not collect for long
            gc.collect()
        shared = SharedMemory(len(self.nodes))
        process = KfdProcess(
            self.nodes, shared, client_of(shared), self.settings,
            lambda node, queue, error: self._emit(
                lambda time: QueueFailed(time, number, node.agent.name, queue, error)
            ),
            self._made, self.on_code, self.code_files,
            lambda node, check, message: self._emit(
                lambda time: KernelLint(time, number, node.agent.name, check, message)
            ),
        )  # fmt: skip
        with self._lock:
            self._open[number] = process
        self._emit(lambda time: ProcessOpened(time, number, pid))
        return number, process

    def ioctl(self, number: int, request: int, data: bytes, minor: int = 0) -> bytes:
        """Carry out an ioctl of program `number`: see `KfdProcess.ioctl`."""
        process = self._open.get(number)
        self.time += 1
        try:
            if process is None:
                raise Refused(f"program {number} has not opened the driver")
            answer = process.ioctl(request, data, minor)
        except Refused as error:
            refused, code = error.message, error.errno
            self._emit(lambda time: Called(time, number, _call_name(request), refused, code))
            raise
        self._emit(lambda time: Called(time, number, _call_name(request), "", 0))
        return answer

    def host_order(self, number: int) -> PinnedOrder | None:
        """Return the tracker of the host's stores to pinned memory of program `number`.

        Return None if the check for races is not enabled.
        """
        process = self._open.get(number)
        return None if process is None else process.host_order

    def launch_refused(self, number: int, status: int) -> None:
        """Emit the event of a launch that the run-time library of program `number` refused.

        `status` is the hipError_t that the library returned to the program."""
        self._emit(lambda time: LaunchRefused(time, number, status))

    def close_process(self, number: int) -> None:
        """Release all resources of program `number`, which has ended. A second call has no effect."""
        with self._lock:
            process = self._open.pop(number, None)
        if process is None:
            return
        left = len(process.queues), len(process.allocations), len(process.events)
        process.close()
        self._has_garbage = True
        self._emit(lambda time: ProcessClosed(time, number, *left))

    def close(self) -> None:
        """Release all resources of all programs."""
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


def _call_name(request: int) -> str:
    """Return the name of an ioctl for messages."""
    kind, number = request >> 8 & 0xFF, request & 0xFF
    tables: dict[int, tuple[type[IntEnum], ...]] = {
        ioctls.TYPE: (ioctls.Number, ioctls.Unmodelled), drm.TYPE: (drm.Number,),
    }  # fmt: skip
    return next((names(number).name for names in tables.get(kind, ()) if number in list(names)), f"{request:#x}")
