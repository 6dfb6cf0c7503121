"""A GPU with a simple interface: kernels from files or source, NumPy arrays as its memory, queues and signals.

>>> import numpy as np
>>> with Gpu.open("gfx900") as gpu:
...     x, y = gpu.array(np.arange(256, dtype=np.float32)), gpu.zeros(256)
...     result = gpu.run(demo_code("gfx900"), "saxpy", grid=256, args=[2.0, x, y])
...     print(y[:4], result.kernel)
[0. 2. 4. 6.] saxpy
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypedDict, TypeVar, Unpack, overload
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from softcard.core.display import RichDisplay, Rows, fields_of
from softcard.core.errors import RuleError, SoftcardError, WireError
from softcard.core.files import bytes_of, text_of
from softcard.core.findings import Finding
from softcard.device.hsa.agents import AGENTS
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.launch.kernarg import Hidden
from softcard.device.hsa.queues.aql_queue import AgentDispatchHandler, OnError, Queue
from softcard.device.hsa.queues.packets import FenceScope
from softcard.device.hsa.queues.records import QueueFeature, QueueType
from softcard.device.hsa.queues.signals import Condition, Signal
from softcard.device.hsa.settings import STRICT, GpuOptions
from softcard.device.hsa.snapshot import DeviceState
from softcard.host.coverage import device_coverage
from softcard.host.hsa.arguments import Given, Local, Packed, Pointer, Segments
from softcard.host.hsa.executable import Executable, Kernel, read
from softcard.host.hsa.launch import (
    ARMED,
    HOSTCALL,
    SIGNAL_BYTES,
    Dim3,
    Launch,
    LaunchTemplate,
    Printf,
    Result,
    Size,
    as_dim3,
    group_of,
    hidden_arguments,
    private_bytes,
    values_by_name,
)
from softcard.host.hsa.memory import Arrays, Block, Borrowed

if TYPE_CHECKING:
    from softcard.engine.gcn.strict.findings import Finding as MemoryFinding
    from softcard.host.hsa.hostcall import Hostcalls

__all__ = [
    "AGENTS",
    "Condition",
    "Executable",
    "Gpu",
    "Kernel",
    "Launch",
    "Local",
    "Queue",
    "Result",
    "Signal",
    "demo_code",
]

Scalar = TypeVar("Scalar", bound=np.generic)
ORIGIN: Final = (0, 0, 0)
NOTHING: Final = Hidden()
MOST_CACHED: Final = 256
"""The largest number of launch sizes of one executable, and of sets of hidden arguments, that are cached."""
QUEUE_PACKETS: Final = 256
"""The number of packets of the queue that launches use by default."""
SOURCES: Final = (".cl", ".hip")
"""The suffixes of source files that are compiled: OpenCL C and HIP."""
Code = Executable | bytes | bytearray | str | Path
"""The code that `Gpu.run` accepts: an executable, a code object as bytes or file, or a source file (.cl, .hip)."""


class QueueOptions(TypedDict, total=False):
    """The options of `Gpu.queue`, those of `HsaDevice.create_queue`."""

    features: QueueFeature
    on_error: OnError | None
    agent_dispatch: AgentDispatchHandler | None
    profiling: bool | None


class DispatchOptions(TypedDict, total=False):
    """The options of `Gpu.run`, those of `Gpu.dispatch`."""

    queue: Queue | None
    offset: Size
    group_bytes: int
    stack_bytes: int | None
    barrier: bool
    acquire: FenceScope
    release: FenceScope
    hidden: Mapping[str, Pointer] | None


@dataclass(frozen=True, slots=True, eq=False)
class GpuState:
    """The state of a device, including its arrays and queues, for `Gpu.restore`. Its fields are private."""

    device: DeviceState
    arrays: tuple[Block, ...] = field(repr=False)
    queue: Queue | None = field(repr=False)
    mine: frozenset[Queue] = field(repr=False)


@dataclass(slots=True, eq=False)
class Use:
    """The use of a queue by a launch, from before its submission until its `wait` has returned.

    `signal` is the address of the launch's completion signal, and `release` frees its memory; both are set when its
    packet is about to be submitted. If the use `is_private`, only `Gpu.run` refers to the signal."""

    is_private: bool = False
    signal: int = 0
    release: Callable[[bool], None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LaunchMemory:
    """Memory of `size` bytes with a completion signal and the kernarg segment after it, in the device's era `era`."""

    signal: Signal
    size: int
    era: int


class Gpu(RichDisplay):
    """One GPU agent with its memory. `open` makes one; `close`, or the end of its ``with`` block, frees everything.

    Launches may come from several threads.
    """

    def __init__(self, device: HsaDevice, *, exact: bool = False) -> None:
        self.device = device
        self._arrays = Arrays(device, exact)
        self._queue: Queue | None = None
        self._mine: set[Queue] = set()
        self._users: dict[Use, Queue] = {}
        """The queues of the launches whose `wait` has not returned yet."""
        self._loaded: dict[bytes | str, Executable] = {}
        self._hidden: dict[tuple[int, Dim3, int, int], Hidden] = {}
        """Cached hidden arguments by queue, global offset and printf buffer."""
        self._hostcalls: dict[Queue, Hostcalls] = {}
        self._executables: WeakSet[Executable] = WeakSet()
        self._launch_memory: list[LaunchMemory] = []
        """The memory of completed launches, for the next ones."""
        is_followed = bool(device.checks.every) or device.memory.guard is not None
        self._keeps_memory = not is_followed and device.settings.coherence != STRICT
        """False if checks or a memory with ``coherence="strict"`` follow the allocations."""
        self._lock = threading.RLock()
        is_counting = device.settings.count_instructions
        self._coverage = device_coverage(self, device.agent.name, device.executions) if is_counting else None

    @classmethod
    def open(cls, agent: str = "gfx900", *, exact: bool = False, **settings: Unpack[GpuOptions]) -> Self:
        """Return a fresh agent: gfx700, gfx701, gfx800 to gfx804, gfx900 to gfx90c, gfx942 or gfx950.

        Arrays are whole pages; with `exact` the first byte past the end of an array faults. `check="memory"` reports
        each wrong access in `findings`, and lets the kernel go on. `settings` are those of the device: engine ("jit" or
        "reference"), execution ("synchronous", "threaded" or "manual"), machine_model ("large" or "small"), threads,
        seed, step_limit, poison, and the others that `Settings` lists.
        """
        return cls(HsaDevice(agent, **settings), exact=exact)

    def __repr__(self) -> str:
        return repr(self.device).replace("HsaDevice", "Gpu", 1)

    def _rows(self) -> Rows:
        return fields_of(self.device.settings)

    def __reduce__(self) -> tuple[object, ...]:
        self._free_launch_memory()
        return partial(type(self), exact=self._arrays.exact), (self.device,)

    def __enter__(self) -> Self:
        self.device.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End running kernels and the device's threads, and free the memory of the arrays on the device.

        Arrays that the caller still holds stay valid with their last contents; their memory is freed together with
        them. Every later call that needs the device raises `RuleError`.
        """
        if self._coverage is not None and not self.device.is_closed:
            self._coverage.close()
        self.device.close()
        self._arrays.close()

    @property
    def findings(self) -> list[Finding | MemoryFinding]:
        """The findings so far, one for each code location.

        They come from checks, and from a memory with ``coherence="strict"``."""
        return self.device.findings

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of times that each wave instruction has retired, by its address in device memory.

        Raise `WireError` unless the device was opened with ``count_instructions=True``.
        """
        return self.device.instruction_counts()

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> GpuState:
        """Return the state of the device (see `HsaDevice.snapshot`), arrays included, for `restore`.

        Raise `RuleError` if a launch has not been waited for.
        """
        self.device.check_open()
        with self._lock:
            if self._users:
                raise RuleError(
                    f"cannot take a snapshot while {len(self._users)} launches are open: wait for all launches"
                )
            self._free_launch_memory()
            state = self.device.snapshot()
            return GpuState(state, self._arrays.snapshot(), self._queue, frozenset(self._mine))

    def restore(self, state: GpuState) -> None:
        """Restore a state that `snapshot` of this object returned, including the contents of arrays.

        Arrays, queues, signals and executables that were made since are removed from the device; `run` maps such an
        array like any other array of the host (`HsaDevice.restore` has the details). Running kernels are ended. Waiting
        for an earlier launch raises `RuleError`, also in a thread that waits already.
        """
        self.device.check_open()
        with self._lock:
            self._report_coverage()
            self.device.restore(state.device)
            self._follow_coverage()
            self._arrays.restore(state.arrays)
            self._queue, self._mine, self._users = state.queue, set(state.mine), {}

    def reset(self) -> None:
        """Reset the device: remove all allocations, code and shared arrays.

        See `restore` for the effect on running launches.
        """
        self.device.check_open()
        with self._lock:
            self._report_coverage()
            self.device.reset()
            self._follow_coverage()
            self._arrays.restore(())
            self._queue, self._mine, self._users = None, set(), {}

    # ---- memory --------------------------------------------------------------------------------------------------

    @overload
    def array(self, values: NDArray[Scalar], dtype: None = None) -> NDArray[Scalar]: ...

    @overload
    def array(self, values: ArrayLike, dtype: type[Scalar] | np.dtype[Scalar]) -> NDArray[Scalar]: ...

    @overload
    def array(self, values: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[np.generic]: ...

    def array(self, values: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[np.generic]:
        """Return a NumPy array in device memory that contains a copy of `values`; kernels access it directly."""
        self.device.check_open()
        return self._arrays.copy(values, dtype)

    @overload
    def zeros(self, shape: int | tuple[int, ...]) -> NDArray[np.float32]: ...

    @overload
    def zeros(self, shape: int | tuple[int, ...], dtype: type[Scalar] | np.dtype[Scalar]) -> NDArray[Scalar]: ...

    @overload
    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[np.generic]: ...

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[np.generic]:
        """Return an array of zeros in device memory."""
        self.device.check_open()
        return self._arrays.empty(shape, dtype)

    def share(self, array: NDArray[np.generic], name: str = "") -> int:
        """Map an existing array as device memory, without a copy, until `free`; return its device address.

        Launches map arrays for their own duration; sharing once is faster for an array that is used often. `name` is
        the array's name in messages, by default its type and shape.
        """
        self.device.check_open()
        return self._arrays.share(array, name)

    def address(self, array: NDArray[np.generic]) -> int:
        """Return the device address of an array in device memory, or of a slice of such an array.

        Raise `RuleError` for other arrays.
        """
        self.device.check_open()
        return self._arrays.address(array)

    def free(self, array: NDArray[np.generic]) -> None:
        """Free an array's device memory, or end its sharing.

        This waits for the running kernel, which may use the array, but not for kernels that start later. After `close`,
        the call has no effect.
        """
        if not self.device.is_closed:
            self._arrays.free(array)

    # ---- code ----------------------------------------------------------------------------------------------------

    def load(
        self,
        code: bytes | bytearray | str | Path,
        externals: Mapping[str, int | NDArray[np.generic]] | None = None,
        *,
        any_target: bool = False,
    ) -> Executable:
        """Load a code object, given by its bytes or its file; of an offload bundle, load the entry for this agent.

        `externals` contains addresses (or arrays in device memory) of symbols that the object does not define. Raise
        `WireError` for an invalid code object. Raise `RuleError` if it is for another processor or machine model. With
        `any_target`, code for another processor of the same generation is loaded, too.
        """
        self.device.check_open()
        places = {
            name: self.address(value) if isinstance(value, np.ndarray) else int(value)
            for name, value in (externals or {}).items()
        }
        made = Executable(self.device, read(code, self.device.agent.name), places, any_target=any_target)
        with self._lock:
            self._executables.add(made)
            if self._coverage is not None:
                made.coverage = self._coverage
                made.cover()
        return made

    def _report_coverage(self) -> None:
        """Report the executions so far, because a reset or restore is about to change the loaded code."""
        if self._coverage is None:
            return
        for each in self.executables:
            each.coverage = None
            self._coverage.unload(each.base)

    def _follow_coverage(self) -> None:
        """Follow the code that is loaded after a reset or restore."""
        if self._coverage is None:
            return
        for each in self.executables:
            each.coverage = self._coverage
            each.cover()

    @property
    def executables(self) -> list[Executable]:
        """The code objects in the agent's memory, by address."""
        with self._lock:
            return sorted((each for each in self._executables if each.is_loaded), key=lambda each: each.base)

    def compile(
        self, source: str, language: str = ".cl", *, options: Sequence[str] = (), version: str | None = None
    ) -> Executable:
        """Compile OpenCL C, or HIP (`language` ".hip"), and load it; needs ``softcard[kernels]`` or a clang.

        `options` are passed to clang after options for line tables, with which errors and findings name source lines.
        `version` is the code object version, by default V5, or V4 for GFX7 and GFX8. Raise `CompileError` with the
        compiler's diagnostics.
        """
        self.device.check_open()
        from softcard.host.hsa.compile import COMPILERS, LINE_TABLES  # here, since few programs compile

        if language not in SOURCES:
            raise WireError(f"language is {language!r}, expected {' or '.join(SOURCES)}")
        words, agent = (*LINE_TABLES, *options), self.device.agent.name
        text = text_of(source, "source")
        made = self.load(COMPILERS[language](text, agent, options=words, version=version))
        if "#line" not in text:
            made.source_name, made.source_lines = f"kernel{language}", tuple(text.split("\n"))
        return made

    # ---- queues and signals --------------------------------------------------------------------------------------

    def queue(
        self, size: int = QUEUE_PACKETS, type: QueueType = QueueType.MULTI, **more: Unpack[QueueOptions]
    ) -> Queue:
        """Return a new AQL queue of `size` packets that writes timestamps.

        `more` are further options of `HsaDevice.create_queue`.
        """
        more.setdefault("profiling", True)
        return self.device.create_queue(size, type, **more)

    def signal(self, value: int = 0) -> Signal:
        """Return a new signal."""
        return self.device.create_signal(value)

    # ---- launches ------------------------------------------------------------------------------------------------

    def run(
        self,
        code: Code,
        kernel: str,
        grid: Size,
        group: Size | None = None,
        args: Sequence[Given] | bytes = (),
        **more: Unpack[DispatchOptions],
    ) -> Result:
        """Run a kernel of a code object to its end: load the code if it is new, dispatch the kernel, and wait.

        `grid` is the number of work-items in each dimension. `args` is a sequence with one value for each argument,
        or the whole kernarg segment as bytes. Values are numbers, NumPy arrays or `Local`. Any contiguous array may
        be passed; it is mapped for the launch, not copied. `more` are options of `dispatch`. Errors name the kernel,
        the lane, the address and the pc."""
        self.device.check_open()
        return self._run(self._executable(code).kernel(kernel), grid, group, args, more)

    def run_kernel(
        self,
        kernel: Kernel,
        grid: Size,
        group: Size | None = None,
        args: Sequence[Given] | bytes | Packed = (),
        **more: Unpack[DispatchOptions],
    ) -> Result:
        """Run a loaded kernel to its end, as `run` does; `args` may also be the bytes of all explicit arguments."""
        self.device.check_open()
        return self._run(kernel, grid, group, args, more)

    def _run(
        self,
        kernel: Kernel,
        grid: Size,
        group: Size | None,
        args: Sequence[Given] | bytes | Packed,
        more: DispatchOptions,
    ) -> Result:
        """Run a kernel as `run` does. The signal and kernarg segment of the launch are reused by the next one."""
        if more.get("queue") is not None:
            return self._dispatch(Use(), kernel, grid, group, args, **more).wait()
        users, era, use = self._users, self.device.era, Use(is_private=True)
        try:
            more["queue"] = self._take_idle(use)
            return self._dispatch(use, kernel, grid, group, args, **more).wait()
        except SoftcardError as error:
            if self.device.era == era:
                raise
            text = (
                "the device was reset or restored while a kernel ran: let no other thread reset or restore it meanwhile"
            )
            raise RuleError(text).at("kernel", kernel.name) from error
        except BaseException as cause:
            if use.release is not None and use in users:  # Ctrl-C between the submission and the wait
                self.device.abandon(use.signal, cause)
                use.release(False)
            raise
        finally:
            if users.pop(use, None) is not None:  # in one call, which Ctrl-C cannot interrupt
                self._destroy_failed()

    def dispatch(
        self,
        kernel: Kernel,
        grid: Size,
        group: Size | None = None,
        args: Sequence[Given] | bytes = (),
        *,
        queue: Queue | None = None,
        offset: Size = ORIGIN,
        group_bytes: int = 0,
        stack_bytes: int | None = None,
        barrier: bool = False,
        acquire: FenceScope = FenceScope.SYSTEM,
        release: FenceScope = FenceScope.SYSTEM,
        hidden: Mapping[str, Pointer] | None = None,
    ) -> Launch:
        """Write a dispatch packet into a queue and ring its doorbell; return the launch, to be waited for.

        - `offset`: OpenCL's global offset.
        - `group_bytes`: LDS in addition to the kernel's own; `stack_bytes`: private memory in addition to the kernel's
          own.
        - `barrier`, `acquire`, `release`: fields of the packet's header.
        - `hidden`: hidden arguments by name (``{"hostcall_buffer": array}``) in place of their defaults.

        After a failed launch, its packet, kernarg segment, signal and printf buffer stay allocated, so that its queue
        may be resumed. Arrays that were mapped for the launch are unmapped: `share` those that it still needs.
        """
        options: DispatchOptions = {
            "queue": queue, "offset": offset, "group_bytes": group_bytes, "stack_bytes": stack_bytes,
            "barrier": barrier, "acquire": acquire, "release": release, "hidden": hidden,
        }  # fmt: skip
        return self._dispatch(Use(), kernel, grid, group, args, **options)

    def _dispatch(
        self,
        use: Use,
        kernel: Kernel,
        grid: Size,
        group: Size | None = None,
        args: Sequence[Given] | bytes | Packed = (),
        *,
        queue: Queue | None = None,
        offset: Size = ORIGIN,
        group_bytes: int = 0,
        stack_bytes: int | None = None,
        barrier: bool = False,
        acquire: FenceScope = FenceScope.SYSTEM,
        release: FenceScope = FenceScope.SYSTEM,
        hidden: Mapping[str, Pointer] | None = None,
    ) -> Launch:
        """Dispatch a kernel as `dispatch` does; `use` is the launch's use of the queue."""
        self.device.check_open()
        offsets = ORIGIN if offset is ORIGIN else as_dim3(offset, "offset", 0)[0]
        template = self._template(kernel, grid, group)
        users, used, borrowed, printf = self._users, None, Borrowed(self._arrays), None
        try:
            used = self._take(queue, use)
            given = values_by_name(kernel.image, hidden, borrowed.address) if hidden else {}
            printf = Printf.of(self.device, kernel.image, given)
            hostcalls = self._hostcalls_of(used) if template.makes_hostcalls and HOSTCALL not in given else None
            words = self._hidden_of(kernel, used, offsets, given, printf.address if printf else 0, hostcalls)
            segments = template.packer.pack(args, words, borrowed.address, group_bytes)
            stack = template.private_bytes if stack_bytes is None else private_bytes(kernel, stack_bytes)
            header = barrier, acquire, release
            return self._submit(used, use, template, segments, stack, header, borrowed, printf, hostcalls)
        except BaseException:
            users.pop(use, None)  # in one call, which Ctrl-C cannot interrupt
            borrowed.release()
            if printf is not None:
                printf.free()
            if used is not None:
                self._leave(used)
            self._destroy_failed()
            raise

    def pack(
        self,
        kernel: Kernel,
        grid: Size,
        group: Size | None = None,
        args: Sequence[Given] = (),
        *,
        group_bytes: int = 0,
        hidden: Mapping[str, Pointer] | None = None,
    ) -> Segments:
        """Return the kernarg segment and the LDS size of a launch, for a packet that the caller writes.

        Arrays must already be device memory. Hidden arguments refer to the queue that launches use by default; `hidden`
        replaces them by name. The segment refers to a printf buffer only if `hidden` contains one.
        """
        self.device.check_open()
        template, address = self._template(kernel, grid, group), self._arrays.address
        given, queue = values_by_name(kernel.image, hidden or {}, address), self._own()
        hostcalls = self._hostcalls_of(queue) if template.makes_hostcalls and HOSTCALL not in given else None
        words = self._hidden_of(kernel, queue, ORIGIN, given, hostcalls=hostcalls)
        return template.packer.pack(args, words, address, group_bytes)

    # ---- internals -----------------------------------------------------------------------------------------------

    def _take_launch_memory(self, size: int) -> LaunchMemory | None:
        """Return memory of an earlier launch for a signal and kernarg segment of `size` bytes; None without any."""
        kept, era = self._launch_memory, self.device.era
        while kept:
            try:
                found = kept.pop()
            except IndexError:  # another thread took it
                return None
            if found.era == era:
                if found.size >= size:
                    return found
                self.device.destroy_signal(found.signal)
        return None

    def _free_launch_memory(self) -> None:
        """Free the memory that is kept for the next launches."""
        while self._take_launch_memory(1 << 63) is not None:
            pass

    def _executable(self, code: Code) -> Executable:
        """Return the executable for `code`, an argument of `run`; load it unless code with equal contents is loaded."""
        if isinstance(code, Executable):
            return code
        if isinstance(code, Kernel):
            raise WireError(f"{code.name} is a kernel, expected a code object or source: use dispatch for a kernel")
        data: bytes | str = bytes_of(code, "a code object")
        language = Path(code).suffix if isinstance(code, str | Path) else ""
        if language in SOURCES and isinstance(code, str | Path) and isinstance(data, bytes):
            from softcard.host.hsa.compile import text_of_file  # here, since few programs compile

            data = text_of_file(code, data)
        with self._lock:
            found = self._loaded.get(data)  # the same bytes object cached its hash at the first run
            if found is None or not found.is_loaded:
                found = self.compile(data, language) if isinstance(data, str) else self.load(data)
                self._loaded[data] = found
            return found

    def _template(self, kernel: Kernel, grid: Size, group: Size | None) -> LaunchTemplate:
        """Return the state that launches of a kernel with these sizes share.

        Report a lint if the work-group is larger than the kernel was compiled for.
        """
        sizes, dimensions = as_dim3(grid, "grid")
        shape = group_of(kernel, sizes, group)
        key = kernel, dimensions, sizes, shape
        templates = kernel.executable.templates
        found = templates.get(key)
        if found is None:
            if len(templates) == MOST_CACHED:
                templates.clear()
            found = templates[key] = LaunchTemplate(kernel, dimensions, sizes, shape, self.device.signal_bits // 8)
        if found.beyond:
            with self.device.desk:
                self.device.telemetry.lint("group-beyond-kernel", found.beyond)
        return found

    def _hidden_of(
        self,
        kernel: Kernel,
        queue: Queue,
        offset: Dim3,
        given: Mapping[str, int],
        printf: int = 0,
        hostcalls: Hostcalls | None = None,
    ) -> Hidden:
        """Return the hidden arguments of a launch; launches with equal hidden arguments share one object.

        `given` contains those that the caller has set, and `printf` is the address of the printf buffer.
        """
        if kernel.image.metadata is None or not kernel.image.metadata.hidden:
            return NOTHING
        hostcall = 0 if hostcalls is None else hostcalls.address
        if given:
            return hidden_arguments(self.device, queue, offset, given, printf, hostcall)
        key = queue.address, offset, printf, hostcall
        found = self._hidden.get(key)
        if found is None:
            if len(self._hidden) == MOST_CACHED:
                self._hidden.clear()
            found = self._hidden[key] = hidden_arguments(self.device, queue, offset, given, printf, hostcall)
        return found

    def _hostcalls_of(self, queue: Queue) -> Hostcalls:
        """Return the hostcall buffer of a queue; make it for the first kernel that needs one."""
        with self._lock:
            found = self._hostcalls.get(queue)
            if found is None or not found.is_valid:
                found = self._hostcalls[queue] = self._unused_hostcalls() or self._new_hostcalls()
            return found

    def _unused_hostcalls(self) -> Hostcalls | None:
        """Return the hostcall buffer of a destroyed queue whose launches have all been waited for; None without one."""
        in_use = self._users.values()
        for queue in [each for each in self._hostcalls if each.is_destroyed and each not in in_use]:
            found = self._hostcalls.pop(queue)
            if found.is_valid:
                found.text()  # that of packets that the caller wrote itself
                return found
        return None

    def _new_hostcalls(self) -> Hostcalls:
        from softcard.host.hsa.hostcall import Hostcalls  # here, since few kernels make hostcalls

        return Hostcalls(self.device)

    def _own(self) -> Queue:
        """Return the queue for launches that do not name a queue; make a new one if the old one has failed."""
        with self._lock:
            if self._queue is None or not self._queue.is_active:
                self._queue = self.queue()
                self._mine.add(self._queue)
            return self._queue

    def _take(self, queue: Queue | None, use: Use) -> Queue:
        """Return the queue for a launch, and record its use until it is removed from `_users`."""
        with self._lock:
            self._users[use] = used = queue or self._own()
            return used

    def _take_idle(self, use: Use) -> Queue:
        """Return a queue that no launch uses, and record its use until it is removed from `_users`.

        An error of another thread's launch then does not affect the launch. A new queue is made if all are in use."""
        with self._lock:
            in_use = set(self._users.values())
            for each in self._mine:
                if each not in in_use and each.is_active:
                    return self._take(each, use)
            found = self.queue()
            self._mine.add(found)
            return self._take(found, use)

    def _leave(self, queue: Queue) -> None:
        """Stop using a queue after a launch was interrupted between reserving a slot and writing its packet.

        The empty slot would block later packets. Packets before it are still processed.
        """
        with self._lock:
            if queue in self._mine and queue.is_active and queue.load_write_index() > queue.limit:
                self._mine.remove(queue)
                if self._queue is queue:
                    self._queue = None

    def _destroy_failed(self) -> None:
        """Destroy the queues that this object made, that have failed, and that no launch uses any more."""
        with self._lock:
            for each in tuple(self._mine):
                if not each.is_active and each not in self._users.values():
                    self._mine.remove(each)
                    each.destroy()

    def _submit(
        self,
        queue: Queue,
        use: Use,
        template: LaunchTemplate,
        segments: Segments,
        private_bytes: int,
        header: tuple[bool, FenceScope, FenceScope],
        borrowed: Borrowed,
        printf: Printf | None,
        hostcalls: Hostcalls | None,
    ) -> Launch:
        device, data = self.device, ARMED + segments.kernarg
        memory = self._take_launch_memory(len(data)) if use.is_private else None
        if memory is None:
            place = device.allocate(len(data), mtype=device.fine_mtype, name="kernel arguments")
            device.memory.write(place, data)
            memory = LaunchMemory(device.signal(place), len(data), device.era)
        else:
            place = memory.signal.address
            device.memory.write(place, data.ljust(memory.size, b"\0"))
        signal, users = memory.signal, self._users

        def release(completed: bool) -> None:
            users.pop(use, None)
            borrowed.release()
            if not queue.is_active:
                self._destroy_failed()
            if completed:  # else the packet is still in its ring, and the user may resume the queue
                if use.is_private and self._keeps_memory:
                    self._launch_memory.append(memory)
                else:
                    device.destroy_signal(signal)
                if printf is not None:
                    printf.free()

        packet = template.filled(*header, private_bytes, segments.group_bytes, place + SIGNAL_BYTES, place)
        occurrences = device.reports.occurrences
        began = perf_counter()
        try:
            use.signal, use.release = place, release
            index = queue.submit(packet)
        except BaseException as cause:  # Ctrl-C right after the doorbell, for one
            device.abandon(place, cause)
            raise
        printed = None if printf is None else printf.read
        return Launch(
            template.kernel,
            queue,
            index,
            signal,
            packet,
            borrowed.bytes,
            began,
            release,
            printed,
            None if hostcalls is None else hostcalls.text,
            memory.era,
            occurrences,
            borrowed.read_back,
        )


def demo_code(agent: str = "gfx900") -> bytes:
    """Return the code object of the demo kernels for the agent's generation; ``softcard/data`` holds their source.

    Raise `RuleError` for a generation without demo kernels."""
    name = {"7": "gfx700", "8": "gfx803", "9": "gfx900"}.get(agent[3:4], "")
    from importlib.resources import files  # here: it takes long to import

    path = files("softcard").joinpath("data", f"hsa_kernels-{name}.co")
    if not path.is_file():
        raise RuleError(f"no demo kernels exist for {agent}, only for gfx700, gfx803 and gfx900")
    return path.read_bytes()
