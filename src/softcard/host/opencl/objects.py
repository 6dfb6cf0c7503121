"""The platform: the objects of one host program by their handles, and the devices with their emulated GPUs.

The host program has handles, which are addresses in its own memory. Each object here has the handle of the program's
object. Threads of the server share the platform; `Platform.changed` guards the state of queues and events.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from mmap import mmap
from typing import ClassVar, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from softcard.core.allocations import Allocator
from softcard.core.checks import checks_of, having
from softcard.core.diagnostics import AnyFinding, Diagnostic, diagnostics_of, of_error
from softcard.core.display import count
from softcard.core.errors import SoftcardError
from softcard.core.findings import Level
from softcard.core.space import PAGE_SIZE
from softcard.core.words import align_up
from softcard.device.hsa.settings import GpuOptions
from softcard.host.hsa.arguments import Given
from softcard.host.hsa.gpu import Gpu
from softcard.host.opencl import constants as cl
from softcard.host.opencl.errors import OpenClError

Callback = tuple[int, int]
"""A function of the host program and its user data, as addresses; the function is 0 if there is none."""
SLOT_WORDS: Final = 8
"""The size of an event's slot in 64-bit words: the status, six words of which five are times, and an unused word."""


WITH_MEMORY: Final = ("mem", "program")
"""The kinds of objects that have memory on devices."""
TRANSIENT: Final = ("event",)
"""The kinds of objects that are never arguments of kernels."""
ROOTS: Final = ("platform", "device")
"""The kinds of objects that exist as long as the program."""


def now() -> int:
    """Return the time of the host's monotonic clock in nanoseconds, which profiling uses for all devices."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `slices` x `rows` rows of `size` bytes between addresses of the host program.

    The row and slice pitches are in bytes.
    """

    target: int
    target_row: int
    target_slice: int
    source: int
    source_row: int
    source_slice: int
    size: int
    rows: int = 1
    slices: int = 1


class Client(Protocol):
    """The host program, as the server reaches it."""

    def copy(self, copies: Sequence[Copy]) -> None:
        """Let the program perform copies in its own memory, and wait until it has done so."""

    def call_event(self, callback: Callback, event: int, status: int) -> None:
        """Call a function of the program with an event and its status."""

    def call_context(self, callback: Callback, text: str) -> None:
        """Call a function of the program with an error message of a context."""

    def call_object(self, callback: Callback, handle: int) -> None:
        """Call a function of the program with an object, and wait until it returns."""

    def call_built(self, callback: Callback, handle: int) -> None:
        """Call a function of the program with a program that was built, and wait until it returns.

        The program's handle stays valid until then.
        """

    def call_native(self, function: int, arguments: bytes) -> None:
        """Call a native kernel of the program with a copy of its arguments, and wait until it returns."""

    def call_free(self, callback: Callback, queue: int, pointers: Sequence[int]) -> None:
        """Call a function of the program that frees pointers of shared virtual memory."""


class Arena:
    """The memory of all buffers and images: a shared file that the host program has mapped at address `base`."""

    def __init__(self, memory: mmap, base: int) -> None:
        self.base = base
        self._memory = memory
        self._data: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self._allocator = Allocator(PAGE_SIZE, len(memory) - PAGE_SIZE)
        self._sizes: dict[int, int] = {}
        self._lock = threading.Lock()

    def allocate(self, size: int, alignment: int = PAGE_SIZE) -> int:
        """Allocate whole pages for `size` bytes, followed by an unused page; return the address in the program.

        Raise `OpenClError` if no memory is left.
        """
        whole = align_up(max(size, 1), PAGE_SIZE)
        with self._lock:
            offset = self._allocator.allocate(whole + PAGE_SIZE, max(alignment, PAGE_SIZE))
            if not offset:
                raise OpenClError(
                    cl.MEM_OBJECT_ALLOCATION_FAILURE,
                    f"cannot allocate {size} bytes: all {len(self._memory)} bytes of the devices are in use",
                )
            self._sizes[offset] = whole
        return self.base + offset

    def free(self, address: int) -> None:
        """Free the memory that `allocate` returned, and give its pages back to the operating system."""
        offset = address - self.base
        with self._lock:
            size = self._sizes.pop(offset)
            self._memory.madvise(_REMOVE, offset, size)
            self._allocator.free(offset)

    def bytes(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes at an address of the program as an array that shares them."""
        offset = address - self.base
        return self._data[offset : offset + size]


_REMOVE: Final = 9
"""MADV_REMOVE of Linux, for which the module mmap has no name in all Python versions."""


class Object:
    """An object of the host program, by its handle. `kind` is its kind in the table of entry points."""

    kind: ClassVar[str]

    def __init__(self, platform: Platform, handle: int) -> None:
        self.platform = platform
        self.handle = handle
        self.is_released = False
        """True if the program has released its last reference. Commands may still use the object."""

    def released(self) -> None:
        """Handle the release of the program's last reference."""
        self.is_released = True

    def forgotten(self) -> None:
        """Handle the end of the handle: the program and its other objects have no reference any more."""


@runtime_checkable
class ArgumentObject(Protocol):
    """An object that can be an argument of a kernel."""

    def argument(self, device: Device) -> Given:
        """Return the value of the argument in a launch on a device."""


class Device(Object):
    """A device: an emulated GPU, which is created when a context first uses it."""

    kind = "device"

    def __init__(self, platform: Platform, handle: int, agent: str) -> None:
        super().__init__(platform, handle)
        self.agent = agent
        self._lock = threading.Lock()
        self._constants: dict[bytes, int] = {}

    @cached_property
    def gpu(self) -> Gpu:
        """The emulated GPU."""
        with self._lock:
            if "gpu" not in self.__dict__:
                made = Gpu.open(self.agent, **self.platform.options)
                made.device.on_lint = self._lint
                self.__dict__["gpu"] = made
            found: Gpu = self.__dict__["gpu"]
            return found

    @property
    def is_open(self) -> bool:
        """True if the GPU has been created."""
        return "gpu" in self.__dict__

    def constant(self, data: bytes, name: str) -> int:
        """Return the address of constant bytes on the device, where they are written at the first call."""
        gpu = self.gpu.device
        with self._lock:
            found = self._constants.get(data)
            if found is None:
                found = self._constants[data] = gpu.allocate(len(data), name=name)
                gpu.memory.write(found, data)
        return found

    def _lint(self, check: str, message: str) -> None:
        self.platform.report_lint(self, check, message)


class PlatformObject(Object):
    """The only platform."""

    kind = "platform"


class SharedBlock(Protocol):
    """A block of shared virtual memory: `size` bytes at `address`."""

    address: int
    size: int

    def on(self, device: Device) -> int:
        """Return the address on a device, where the block is mapped first if that is necessary."""

    def end_use(self) -> None:
        """Handle the end of a use of the block."""


class Context(Object):
    """A context: devices that share objects. `properties` are the words that the program passed, without the 0."""

    kind = "context"

    def __init__(
        self,
        platform: Platform,
        handle: int,
        devices: Sequence[Device],
        properties: tuple[int, ...] | None,
        notify: Callback,
    ) -> None:
        super().__init__(platform, handle)
        self.devices = tuple(devices)
        self.properties = properties
        self.notify = notify
        self.destructors: list[Callback] = []
        self.svm: dict[int, SharedBlock] = {}
        """The blocks of shared virtual memory by address."""

    def forgotten(self) -> None:
        """Call the destructor callbacks of the program, the one that was registered last first."""
        self.platform.call_destructors(self.destructors, self.handle)

    def device(self, device: Device | None) -> Device:
        """Return `device`, or the only device of the context for None; raise `OpenClError` for other devices."""
        if device is None and len(self.devices) == 1:
            return self.devices[0]
        if device is None or device not in self.devices:
            what = "no device was passed" if device is None else f"device {device.agent} is not one of the context"
            raise OpenClError(cl.INVALID_DEVICE, f"{what}, expected one of {', '.join(d.agent for d in self.devices)}")
        return device

    def report(self, text: str) -> None:
        """Pass an error message to the callback of the context."""
        if self.notify[0] and not self.is_released:
            self.platform.later(lambda: self.platform.client.call_context(self.notify, text))


class Platform:
    """The state of one host program: its objects, its memory, and texts for its output.

    `client` reaches the program, `arena` is the memory of its buffers, and `slots` are the words that hold the status
    and times of its events. `options` are the settings of the GPUs. `show` renders a diagnostic for the program's
    user. `find_file` returns the path of the program's file that has a source, and the line where it begins; "" and 0
    if no file is found.
    """

    def __init__(
        self,
        client: Client,
        arena: Arena,
        slots: memoryview,
        devices: Sequence[tuple[int, str]],
        handle: int,
        options: GpuOptions,
        show: Callable[[Diagnostic], str],
        find_file: Callable[[bytes], tuple[str, int]],
    ) -> None:
        self._find_file = find_file
        self._program_count = 0
        self.client = client
        self.arena = arena
        self.slots = slots.cast("B").cast("q")
        self.options = options
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        """The lock of the state of all queues and events, which is notified of changes."""
        self.objects: dict[int, Object] = {handle: PlatformObject(self, handle)}
        self.handle = handle
        self.devices = [Device(self, place, agent) for place, agent in devices]
        self.objects.update((each.handle, each) for each in self.devices)
        self._show = show
        self._texts: list[tuple[bool, bytes]] = []
        self._text_lock = threading.Lock()
        self._seen: set[object] = set()
        self.version = 0
        """A number that changes when an object is forgotten, so that its handle may denote another one later, and when
        shared virtual memory is allocated or freed."""
        self._later: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._call_later, name="callbacks", daemon=True).start()

    def close(self) -> None:
        """End the threads, and close the GPUs."""
        for each in tuple(self.objects.values()):
            each.released()
        self.later(sys.exit)
        for device in self.devices:
            if device.is_open:
                device.gpu.close()

    # ---- objects -------------------------------------------------------------------------------------------------

    def add(self, made: Object) -> None:
        """Add a new object."""
        self.objects[made.handle] = made

    def find(self, handle: int, kind: str) -> Object:
        """Return the object with a handle. Raise `KeyError` if no object of this kind has it."""
        found = self.objects[handle]
        if found.kind != kind:
            raise KeyError(handle)
        return found

    def release(self, handle: int) -> None:
        """Handle the release of the program's last reference to an object."""
        found = self.objects.get(handle)
        if found is not None:
            found.released()

    def forget(self, handle: int) -> Callable[[], None] | None:
        """Remove an object, whose handle may denote another one from now on.

        Return a function that frees the memory of the object, which may wait for a running kernel; None if it has none.
        """
        found = self.objects.pop(handle, None)
        if found is None:
            return None
        if found.kind not in TRANSIENT:
            self.version += 1
        if found.kind in WITH_MEMORY:
            return found.forgotten
        found.forgotten()
        return None

    def source_place(self, source: bytes) -> tuple[str, int]:
        """Return the name of a program's source in messages, and the number of its first line there.

        The name is that of the program's file that has the source, or else the number of the source."""
        self._program_count += 1
        name, line = self._find_file(source)
        return (name, line) if name else (f"<program {self._program_count}>", 1)

    def report_leaks(self) -> None:
        """Report the objects that the program has not released, if a check examines what remains at the end."""
        checks = having(checks_of(self.options.get("check", "")), lambda kind: kind.at_close)
        if not checks:
            return
        left = Counter(each.kind for each in tuple(self.objects.values()) if each.kind not in ROOTS)
        if left:
            names = ", ".join(
                count(number, "memory object" if kind == "mem" else kind) for kind, number in left.items()
            )
            self.report(
                Diagnostic(
                    Level.ERROR,
                    f"{min(checks)}/not-released",
                    f"the program has ended without releasing {names}",
                    suggestion="call clRelease... for each object as often as clCreate... and clRetain...",
                )
            )

    # ---- callbacks -----------------------------------------------------------------------------------------------

    def later(self, call: Callable[[], None]) -> None:
        """Call a function in the thread that calls functions of the program, after earlier ones."""
        self._later.put(call)

    def call_destructors(self, callbacks: Sequence[Callback], handle: int) -> None:
        """Call callbacks with an object, the one that was registered last first."""
        for each in reversed(callbacks):
            self.later(lambda each=each: self.client.call_object(each, handle))  # type: ignore[misc]

    def _call_later(self) -> None:
        while True:
            call = self._later.get()
            try:
                call()
            except (OSError, SystemExit):  # the program or the platform has ended
                return

    # ---- output --------------------------------------------------------------------------------------------------

    def take_texts(self) -> list[tuple[bool, bytes]]:
        """Return the texts for the program's output since the last call: True for standard error, and the text."""
        if not self._texts:
            return []
        with self._text_lock:
            found, self._texts = self._texts, []
        return found

    def print(self, text: str) -> None:
        """Write text that a kernel printed to the program's standard output."""
        with self._text_lock:
            self._texts.append((False, text.encode("utf-8", "surrogateescape")))

    def report(self, found: Diagnostic, contexts: Sequence[Context] = ()) -> None:
        """Write a diagnostic to the program's standard error, and pass it to the callbacks of contexts."""
        text = self._show(found)
        with self._text_lock:
            self._texts.append((True, text.encode("utf-8", "replace") + b"\n"))
        for each in contexts:
            each.report(text)

    def report_findings(self, found: Sequence[AnyFinding], context: Context) -> None:
        """Report the findings of a command, each code location once."""
        for each in diagnostics_of(found):
            self.report(each, [context])

    def report_error(self, error: SoftcardError, context: Context) -> None:
        """Report an error that ended a command."""
        self.report(of_error(error), [context])

    def warn(self, name: str, message: str, context: Context, remedy: str) -> None:
        """Report a mistake of the program that the specification leaves undefined, once for each message."""
        if (name, message) not in self._seen:
            self._seen.add((name, message))
            self.report(Diagnostic(Level.WARNING, f"opencl/{name}", message, suggestion=remedy), [context])

    def report_lint(self, device: Device, check: str, message: str) -> None:
        """Report a lint of a device once."""
        from softcard.core.diagnostics import Note

        if (check, message) not in self._seen:
            self._seen.add((check, message))
            self.report(Diagnostic(Level.WARNING, check, message, notes=(Note(f"on agent {device.agent}"),)))
