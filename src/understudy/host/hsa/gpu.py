"""A GPU as its users see it: kernels from files or source, NumPy arrays as its memory, queues and signals.

>>> import numpy as np
>>> with Gpu.open("gfx900") as gpu:
...     x, y = gpu.array(np.arange(256, dtype=np.float32)), gpu.zeros(256)
...     result = gpu.run(demo_code("gfx900"), "saxpy", grid=256, args=[2.0, x, y])
...     print(y[:4], result.kernel)
[0. 2. 4. 6.] saxpy
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from understudy.core.errors import RuleError, WireError
from understudy.core.shown import Rows, Shown, fields_of
from understudy.core.sources import bytes_of, text_of
from understudy.device.hsa.agents import AGENTS
from understudy.device.hsa.device import HsaDevice
from understudy.device.hsa.launch.kernarg import Hidden
from understudy.device.hsa.packets import FenceScope
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.records import QueueType
from understudy.device.hsa.signals import Condition, Signal
from understudy.device.hsa.snapshot import DeviceState
from understudy.host.hsa.arguments import Local, Segments
from understudy.host.hsa.executable import Executable, Kernel, read
from understudy.host.hsa.hidden import Printf, given_by_name, hidden_arguments
from understudy.host.hsa.launch import (
    ARMED,
    SIGNAL_BYTES,
    Dim3,
    Draft,
    Launch,
    Result,
    Size,
    as_dim3,
    group_of,
    private_bytes,
)
from understudy.host.hsa.memory import Arrays, Block, Borrowed

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

ORIGIN: Final = (0, 0, 0)
NOTHING: Final = Hidden()
KEPT: Final = 256
"""Sizes of launches of one executable, and places of printf buffers, of which is kept what follows from them."""
QUEUE_PACKETS: Final = 256
"""Size of the queue that launches use where none is named."""
SOURCES: Final = (".cl", ".hip")
"""Suffixes of files that are compiled: OpenCL C, HIP."""
Code = Executable | bytes | bytearray | str | Path
"""An executable, a code object, its file, or the file of a source (.cl, .hip)."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuState:
    """A device's state, and which arrays and queues there are, for `Gpu.restore`; to be kept, not to be looked into."""

    device: DeviceState
    arrays: tuple[Block, ...] = field(repr=False)
    queue: Queue | None = field(repr=False)
    mine: frozenset[Queue] = field(repr=False)


class Gpu(Shown):
    """One agent with its memory. Make it with `open`; everything of it ends with `close` or its ``with`` block.

    Launches may come from several threads.
    """

    def __init__(self, device: HsaDevice, *, exact: bool = False) -> None:
        self.device = device
        self._arrays = Arrays(device, exact)
        self._queue: Queue | None = None
        self._mine: set[Queue] = set()
        self._users: dict[Queue, int] = {}
        """Launches on each queue that have not been waited for."""
        self._loaded: dict[bytes | str, Executable] = {}
        self._said: dict[tuple[int, Dim3, int], Hidden] = {}
        """By queue, global offset and printf buffer: what hidden arguments say."""
        self._lock = threading.RLock()

    @classmethod
    def open(cls, agent: str = "gfx900", *, exact: bool = False, **settings: Any) -> Self:
        """A fresh agent: gfx700, gfx701, gfx800 to gfx804, gfx900, gfx901 or gfx906.

        Arrays are whole pages; with `exact` the first byte behind one is a fault. `check="memory"` tells of each access
        that is wrong, and lets the kernel go on: see `findings`.
        `settings` are those of the device: engine ("jit" or "reference"), execution ("synchronous", "threaded" or
        "manual"), machine_model ("large" or "small"), threads, seed, step_limit, poison, and what `Settings` lists.
        """
        return cls(HsaDevice(agent, **settings), exact=exact)

    def __repr__(self) -> str:
        return repr(self.device).replace("HsaDevice", "Gpu", 1)

    def _rows(self) -> Rows:
        return fields_of(self.device.settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), exact=self._arrays.exact), (self.device,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the device's threads. Launches are refused then, and to wait for one that is left is an error."""
        self.device.close()

    @property
    def findings(self) -> list[Any]:
        """What checks have found so far, by site: `core.findings.Finding`."""
        return self.device.findings

    def instruction_counts(self) -> dict[int, int]:
        """How often each wave instruction has retired, by its address in device memory.

        `WireError` where the device was not opened with ``count_instructions=True``.
        """
        return self.device.instruction_counts()

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> GpuState:
        """The state of the device (see `HsaDevice.snapshot`), arrays included, for `restore`.

        `RuleError` where a launch has not been waited for.
        """
        with self._lock:
            if self._users:
                raise RuleError(
                    f"{sum(self._users.values())} launches were not waited for, expected none in a snapshot"
                )
            state = self.device.snapshot()
            return GpuState(state, self._arrays.snapshot(), self._queue, frozenset(self._mine))

    def restore(self, state: GpuState) -> None:
        """Go back to a state that `snapshot` of this object gave. Arrays of then hold what they held.

        Arrays, queues, signals and executables that are newer are not on the device any more (`run` takes such an array
        like any other; `HsaDevice.restore` says the rest). To wait for a launch that nobody has waited for is an error.
        """
        with self._lock:
            self.device.restore(state.device)
            self._arrays.restore(state.arrays)
            self._queue, self._mine, self._users = state.queue, set(state.mine), {}

    def reset(self) -> None:
        """Go back to a fresh device: nothing is allocated, loaded or shared."""
        with self._lock:
            self.device.reset()
            self._arrays.restore(())
            self._queue, self._mine, self._users = None, set(), {}

    # ---- memory --------------------------------------------------------------------------------------------------

    def array(self, values: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """A copy of values in device memory: a NumPy array that kernels see as it is."""
        return self._arrays.copy(values, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """An array of zeros in device memory."""
        return self._arrays.empty(shape, dtype)

    def share(self, array: NDArray[Any]) -> int:
        """Make an array that was made elsewhere device memory, without a copy, until `free`; its device address.

        Launches do so for the time that they take; sharing once is faster for an array that is used often.
        """
        return self._arrays.share(array)

    def address(self, array: NDArray[Any]) -> int:
        """Device address of an array that is device memory, or of a part of one; `RuleError` where it is none."""
        return self._arrays.address(array)

    def free(self, array: NDArray[Any]) -> None:
        """Give an array's device memory back, or share it no longer."""
        self._arrays.free(array)

    # ---- code ----------------------------------------------------------------------------------------------------

    def load(
        self,
        code: bytes | bytearray | str | Path,
        externals: Mapping[str, int | NDArray[Any]] | None = None,
        *,
        any_target: bool = False,
    ) -> Executable:
        """Load a code object: its bytes, or its file; of an offload bundle the entry for this agent.

        `externals`: addresses (or arrays in device memory) of symbols that the object only names. `WireError` for what
        is no code object, `RuleError` for one that is for another processor or machine model; with `any_target`, code
        for another processor of the same generation is loaded, too.
        """
        places = {
            name: self.address(value) if isinstance(value, np.ndarray) else int(value)
            for name, value in (externals or {}).items()
        }
        return Executable(self.device, read(code, self.device.agent.name), places, any_target=any_target)

    def compile(
        self, source: str, language: str = ".cl", *, options: Sequence[str] = (), version: str = "V5"
    ) -> Executable:
        """Compile OpenCL C, or HIP (`language` ".hip"), and load it; needs ``understudy[kernels]`` or a clang.

        `options` are clang's, behind those for line tables: errors and findings name lines. `version` is the code
        object's. `CompileError` with the compiler's diagnostics.
        """
        from understudy.host.hsa.compile import COMPILERS, LINE_TABLES  # here, since few programs compile

        if language not in SOURCES:
            raise WireError(f"language {language!r}, expected {' or '.join(SOURCES)}")
        words, agent = (*LINE_TABLES, *options), self.device.agent.name
        made = COMPILERS[language](text_of(source, "source"), agent, options=words, version=version)
        return self.load(made)

    # ---- queues and signals --------------------------------------------------------------------------------------

    def queue(self, size: int = QUEUE_PACKETS, type: QueueType = QueueType.MULTI, **more: Any) -> Queue:
        """A new AQL queue of `size` packets that writes timestamps. `more` are options of `HsaDevice.create_queue`."""
        return self.device.create_queue(size, type, **{"profiling": True} | more)

    def signal(self, value: int = 0) -> Signal:
        """A new signal."""
        return self.device.create_signal(value)

    # ---- launches ------------------------------------------------------------------------------------------------

    def run(
        self,
        code: Code,
        kernel: str,
        grid: Size,
        group: Size | None = None,
        args: Sequence[Any] | bytes = (),
        **more: Any,
    ) -> Result:
        """Run a kernel of a code object to its end: load it if it is new, dispatch, wait.

        `grid` counts work-items. `args` has one value for each argument: numbers, NumPy arrays (any contiguous one: it
        is mapped, not copied), `Local`; or it is the kernarg segment as bytes. `more` are options of `dispatch`. Errors
        of the kernel name it, with lane, address and pc.
        """
        found = self._executable(code).kernel(kernel)
        if more.get("queue") is not None:
            return self.dispatch(found, grid, group, args, **more).wait()
        more["queue"] = used = self._take_idle()
        try:
            return self.dispatch(found, grid, group, args, **more).wait()
        finally:
            self._give(used)

    def dispatch(
        self,
        kernel: Kernel,
        grid: Size,
        group: Size | None = None,
        args: Sequence[Any] | bytes = (),
        *,
        queue: Queue | None = None,
        offset: Size = ORIGIN,
        group_bytes: int = 0,
        stack_bytes: int | None = None,
        barrier: bool = False,
        acquire: FenceScope = FenceScope.SYSTEM,
        release: FenceScope = FenceScope.SYSTEM,
        hidden: Mapping[str, Any] | None = None,
    ) -> Launch:
        """Write a dispatch packet into a queue and ring its doorbell; wait for the result when it is needed.

        `offset` is OpenCL's global offset, `group_bytes` LDS beyond the kernel's own, `stack_bytes` private memory
        beyond it. `barrier`, `acquire` and `release` go into the packet's header. `hidden` gives hidden arguments by
        name (``{"hostcall_buffer": array}``) instead of what they get otherwise. Where a launch fails, its packet,
        kernarg segment, signal and printf buffer stay, so that its queue may be resumed; arrays that were mapped for it
        are not device memory any more: `share` those that it has to find again.
        """
        self.device.check_open()
        offsets = ORIGIN if offset is ORIGIN else as_dim3(offset, "offset", 0)[0]
        draft = self._draft(kernel, grid, group)
        used = self._take(queue)
        borrowed, printf = Borrowed(self._arrays), None
        try:
            given = given_by_name(kernel.image, hidden, borrowed.address) if hidden else {}
            printf = Printf.of(self.device, kernel.image, given)
            words = self._told(kernel, used, offsets, given, printf.address if printf else 0)
            segments = draft.packer.pack(args, words, borrowed.address, group_bytes)
            stack = draft.private_bytes if stack_bytes is None else private_bytes(kernel, stack_bytes)
            header = barrier, acquire, release
            return self._submit(used, draft, segments, stack, header, borrowed, printf)
        except BaseException:
            borrowed.release()
            if printf is not None:
                printf.free()
            self._leave(used)
            self._give(used)
            raise

    def pack(
        self,
        kernel: Kernel,
        grid: Size,
        group: Size | None = None,
        args: Sequence[Any] = (),
        *,
        group_bytes: int = 0,
        hidden: Mapping[str, Any] | None = None,
    ) -> Segments:
        """The kernarg segment and the LDS of a launch, for a packet that is written by hand.

        Arrays have to be device memory already. Hidden arguments are told of the queue that launches use by default;
        `hidden` gives others, and without it there is no printf buffer.
        """
        draft, address = self._draft(kernel, grid, group), self._arrays.address
        given = given_by_name(kernel.image, hidden or {}, address)
        words = self._told(kernel, self._own(), ORIGIN, given)
        return draft.packer.pack(args, words, address, group_bytes)

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _executable(self, code: Code) -> Executable:
        """What `run` was given, loaded once for each content."""
        if isinstance(code, Executable):
            return code
        if isinstance(code, Kernel):
            raise WireError(f"kernel {code.name} where its code is expected: dispatch takes a kernel")
        data: bytes | str = bytes_of(code, "a code object")
        language = Path(code).suffix if isinstance(code, str | Path) else ""
        if language in SOURCES and isinstance(code, str | Path) and isinstance(data, bytes):
            from understudy.host.hsa.compile import text_of_file  # here, since few programs compile

            data = text_of_file(code, data)
        with self._lock:
            found = self._loaded.get(data)  # code that is given again is the same object, whose hash is known
            if found is None or not found.is_loaded:
                found = self.compile(data, language) if isinstance(data, str) else self.load(data)
                self._loaded[data] = found
            return found

    def _draft(self, kernel: Kernel, grid: Size, group: Size | None) -> Draft:
        """What launches with these sizes share; a lint where the kernel was compiled for smaller work-groups."""
        sizes, dimensions = as_dim3(grid, "grid")
        shape = group_of(kernel, sizes, group)
        key = kernel, dimensions, sizes, shape
        drafts: dict[Any, Draft] = kernel.executable.drafts
        found = drafts.get(key)
        if found is None:
            if len(drafts) == KEPT:
                drafts.clear()
            found = drafts[key] = Draft(kernel, dimensions, sizes, shape, self.device.signal_bits // 8)
        if found.beyond:
            with self.device.desk:
                self.device.telemetry.lint("group-beyond-kernel", found.beyond)
        return found

    def _told(self, kernel: Kernel, queue: Queue, offset: Dim3, given: Mapping[str, int], printf: int = 0) -> Hidden:
        """What hidden arguments say of a launch, if there are any; the same object for what was said before."""
        if kernel.image.metadata is None or not kernel.image.metadata.hidden:
            return NOTHING
        if given:
            return hidden_arguments(self.device, queue, offset, given, printf)
        key = queue.address, offset, printf
        found = self._said.get(key)
        if found is None:
            if len(self._said) == KEPT:
                self._said.clear()
            found = self._said[key] = hidden_arguments(self.device, queue, offset, given, printf)
        return found

    def _own(self) -> Queue:
        """The queue of dispatches that name none; a new one after an error."""
        with self._lock:
            if self._queue is None or not self._queue.is_active:
                self._queue = self.queue()
                self._mine.add(self._queue)
            return self._queue

    def _take(self, queue: Queue | None) -> Queue:
        """The queue for a launch, which has to give it back."""
        with self._lock:
            used = queue or self._own()
            self._users[used] = self._users.get(used, 0) + 1
            return used

    def _take_idle(self) -> Queue:
        """A queue that nobody else uses now: an error of another thread's kernel is none of ours."""
        with self._lock:
            for each in self._mine:
                if each not in self._users and each.is_active:
                    self._users[each] = 1
                    return each
            found = self.queue()
            self._mine.add(found)
            return self._take(found)

    def _leave(self, queue: Queue) -> None:
        """A launch was broken off. A slot that it reserved and never told of would hold up all later packets.

        So a queue of ours that has one is used no more; packets before it are processed still.
        """
        with self._lock:
            if queue in self._mine and queue.is_active and queue.load_write_index() > queue.limit:
                self._mine.remove(queue)
                if self._queue is queue:
                    self._queue = None

    def _give(self, queue: Queue) -> None:
        """A launch needs its queue no longer. One of ours that failed ends with the last of them."""
        with self._lock:
            left = self._users[queue] - 1
            if left:
                self._users[queue] = left
            else:
                del self._users[queue]
                if queue in self._mine and not queue.is_active:
                    self._mine.remove(queue)
                    queue.destroy()

    def _submit(
        self,
        queue: Queue,
        draft: Draft,
        segments: Segments,
        private_bytes: int,
        header: tuple[bool, FenceScope, FenceScope],
        borrowed: Borrowed,
        printf: Printf | None,
    ) -> Launch:
        device, kernarg = self.device, segments.kernarg
        place = device.allocate(SIGNAL_BYTES + len(kernarg), mtype=device.fine_mtype, name="kernel arguments")
        device.memory.write(place, ARMED + kernarg)
        signal = device.signal(place)
        users = self._users

        def release(completed: bool) -> None:
            borrowed.release()
            if users is self._users:  # else the device went back to before the launch
                self._give(queue)
            if completed:  # else the packet is still in its ring, and somebody may resume the queue
                device.destroy_signal(signal)
                if printf is not None:
                    printf.free()

        packet = draft.filled(*header, private_bytes, segments.group_bytes, place + SIGNAL_BYTES, place)
        sights = 0 if device.log is None else device.log.sights
        began = perf_counter()
        index = queue.submit(packet)
        printed = None if printf is None else printf.read
        return Launch(
            draft.kernel,
            queue,
            index,
            signal,
            packet,
            borrowed.bytes,
            began,
            release,
            printed,
            sights,
            borrowed.read_back,
        )


def demo_code(agent: str = "gfx900") -> bytes:
    """The code object of the kernels that come with Understudy, for one generation; their source is beside it."""
    name = {"7": "gfx700", "8": "gfx803", "9": "gfx900"}.get(agent[3:4], "")
    from importlib.resources import files  # takes longer to load than most programs want

    path = files("understudy").joinpath("data", f"hsa_kernels-{name}.co")
    if not path.is_file():
        raise RuleError(f"no demo kernels for {agent}: there are those for gfx700, gfx803 and gfx900")
    return path.read_bytes()
