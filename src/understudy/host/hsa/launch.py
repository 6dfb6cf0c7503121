"""One launch of a kernel: its packet, what it needs while it runs, and what came of it."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final, SupportsIndex

from understudy.core.errors import RuleError, UnderstudyError, WireError
from understudy.core.findings import Finding, FindingError
from understudy.core.took import Took, told
from understudy.core.words import U32, U64
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.device.hsa.packets import FenceScope
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.records import AmdSignal, SignalKind
from understudy.device.hsa.signals import Condition, Signal
from understudy.host.hsa.arguments import Packer
from understudy.host.hsa.executable import Kernel
from understudy.host.printf_text import text_of

DYNAMIC_STACK_BYTES: Final = 1024
"""Private memory that a kernel with a dynamic call stack gets beyond what is known statically."""
DEFAULT_GROUP: Final = 64
"""Work-items of a work-group where nobody says: one wave."""
SIGNAL_BYTES: Final = AmdSignal.size_bytes
"""Of the block of a launch, before its kernarg segment; both are aligned to 64 bytes."""
ARMED: Final = AmdSignal(kind=SignalKind.USER, value=1).pack()
"""The completion signal of a launch that has not completed."""
_START, _END = (AmdSignal.offset_of(name) // 8 for name in ("start_ts", "end_ts"))
_SIZES_AT: Final = KernelDispatchPacket.offset_of("private_segment_size")
_SIZES: Final = struct.Struct("<IIQQ8xQ")
"""The fields of a packet from there on."""

Size = SupportsIndex | Sequence[SupportsIndex]
"""Work-items in x, or in x, y and z."""
Dim3 = tuple[int, int, int]
SYSTEM: Final = FenceScope.SYSTEM


@dataclass(frozen=True, slots=True)
class Result(Took):
    """What a launch took: `start` and `end` on the device's clock, wave instructions retired in between.

    `text` is what the kernel printed, `printf` the same as it stands in the printf buffer behind its header.
    `bytes` are those of the arrays that it was given, `time` the seconds from its packet to the end of the wait for it.
    `interpreted` of the instructions were left to the reference engine, which is slow. `findings` are those of checks,
    as the device has them: counts are those of all its launches.
    """

    kernel: str
    start: int
    end: int
    printf: bytes = field(default=b"", repr=False)
    bytes: int = 0
    time: float = field(default=0.0, compare=False)
    interpreted: int = field(default=0, compare=False)
    text: str = field(default="", repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False, compare=False)

    __repr__ = Took.__repr__

    @property
    def instructions(self) -> int:
        """Wave instructions retired, which the clock counts besides packets; 0 on a queue without profiling."""
        return max(self.end - self.start - 1, 0)


@dataclass(slots=True, eq=False)
class Launch:
    """A dispatch packet on its way. `wait` for it before looking at what it writes."""

    kernel: Kernel
    queue: Queue
    index: int
    signal: Signal
    _packet: bytes = field(repr=False)
    _bytes: int = field(repr=False)
    _began: float = field(repr=False)
    """When it was submitted, by the host's clock."""
    _release: Callable[[bool], None] = field(repr=False)
    """Gives back what the launch needed; called with whether it completed."""
    _printed: Callable[[], bytes] | None = field(default=None, repr=False)
    """Reads the printf buffer that the launch was given, if it was."""
    _sights: int = field(default=0, repr=False)
    """What checks had seen when it was submitted."""
    _read_back: Callable[[], None] | None = field(default=None, repr=False)
    """Has checks look at the arrays that the host gets back."""
    _result: Result | None = field(default=None, init=False, repr=False)
    _failure: UnderstudyError | None = field(default=None, init=False, repr=False)

    @property
    def packet(self) -> KernelDispatchPacket:
        """What was written into the queue."""
        return KernelDispatchPacket.parse(self._packet)

    @property
    def is_done(self) -> bool:
        """Whether the completion signal has been decremented."""
        return self._result is not None or self.signal.load() <= 0

    def wait(self, timeout_seconds: float | None = None) -> Result:
        """Wait until it has completed; what it took.

        The queue's error, with the kernel's name, where it failed; `TimeoutError` where the time is over first.
        """
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            value, stuck = 1, None
            try:
                value = self.signal.wait(Condition.LT, 1, timeout_seconds)
            except RuleError as error:
                stuck = error  # raised out here, or each would be what led to the other
            if stuck is not None:
                self._fail(self.queue.error or stuck)
            if value >= 1:
                if self.queue.error is not None:
                    self._fail(self.queue.error)
                raise TimeoutError(f"kernel {self.kernel.name} has not completed in {timeout_seconds} seconds")
            words = self.signal.view()
            printed = b"" if self._printed is None else self._printed()
            start, end, time = words[_START] & U64, words[_END] & U64, perf_counter() - self._began
            interpreted = self.queue.progress.interpreted.pop(self.index, 0)
            text = text_of(printed, self.kernel.executable.code.formats) if printed else ""
            if self._read_back is not None:
                try:
                    self._read_back()
                except FindingError as error:
                    self._failure = named(error, self.kernel)
                    self._release(True)
                    raise
            name, found = self.kernel.name, self._findings()
            self._result = told(Result(name, start, end, printed, self._bytes, time, interpreted, text, found))
            self._release(True)
        return self._result

    def _findings(self) -> tuple[Finding, ...]:
        """What checks have seen since it was submitted; functions that kernels call are told of as this one's."""
        log = self.queue.device.log
        found = () if log is None else log.since(self._sights)
        for each in found:
            each.kernel = each.kernel or self.kernel.name
        return found

    def _fail(self, error: UnderstudyError) -> None:
        for each in self._findings():
            error.add_note(str(each))
        is_mine = any(place.kind == "AQL packet" and place.where == str(self.index) for place in error.path)
        if is_mine or error is not self.queue.error:
            self._failure = named(error, self.kernel)
        else:
            text = f"kernel {self.kernel.name} does not run, an earlier packet of its queue failed: {error}"
            self._failure = RuleError(text)
        self._release(False)
        raise self._failure from (None if is_mine else error)


def named(error: UnderstudyError, kernel: Kernel) -> UnderstudyError:
    """The error with the kernel's name."""
    return error if any(place.kind == "kernel" for place in error.path) else error.at("kernel", kernel.name)


# ---- what launches share ------------------------------------------------------------------------------------------


class Draft:
    """What all launches of a kernel over the same sizes share. `packet` lacks what differs, `packer` makes segments."""

    def __init__(self, kernel: Kernel, dimensions: int, grid: Dim3, group: Dim3, pointer_bytes: int) -> None:
        self.kernel = kernel
        self.packet = KernelDispatchPacket.over(
            dimensions, grid, group, kernel_object=kernel.address, acquire_scope=SYSTEM, release_scope=SYSTEM
        )
        self.packer = Packer(kernel.image, self.packet, pointer_bytes)
        self.private_bytes = private_bytes(kernel, None)
        """Of a work-item, unless a launch asks for a larger stack."""
        self.beyond = beyond(kernel, group)
        """What is odd about the work-group size; "" for nothing."""
        self._head = self.packet.pack()[:_SIZES_AT]

    def filled(
        self,
        barrier: bool,
        acquire: FenceScope,
        release: FenceScope,
        private_bytes: int,
        group_bytes: int,
        kernarg: int,
        signal: int,
    ) -> bytes:
        """The bytes of a packet; `WireError` with the field for what does not fit it."""
        address = self.kernel.address
        if barrier is False and acquire is SYSTEM and release is SYSTEM and 0 <= private_bytes | group_bytes <= U32:
            return self._head + _SIZES.pack(private_bytes, group_bytes, address, kernarg, signal)
        return replace(
            self.packet,
            barrier=int(barrier),
            acquire_scope=acquire,
            release_scope=release,
            private_segment_size=private_bytes,
            group_segment_size=group_bytes,
            kernarg_address=kernarg,
            completion_signal=signal,
        ).pack()


# ---- sizes ---------------------------------------------------------------------------------------------------------


def as_dim3(size: Size, what: str, least: int = 1) -> tuple[Dim3, int]:
    """Sizes in x, y and z, `least` or more each, and how many of them were given; `WireError` for what is no size."""
    if type(size) is int and size >= least:
        return (size, least, least), 1
    try:
        given = tuple(map(operator.index, size if isinstance(size, Iterable) else (size,)))
    except TypeError:
        raise WireError(f"{what} {size!r:.40}, expected a whole number, or up to three of them") from None
    if not 1 <= len(given) <= 3:
        raise WireError(f"{what} {given} has {len(given)} dimensions, expected 1 to 3")
    if min(given) < least:
        raise WireError(f"{what} {given}, expected sizes of {least} or more")
    x, y, z = (*given, least, least)[:3]
    return (x, y, z), len(given)


def group_of(kernel: Kernel, grid: Dim3, group: Size | None) -> Dim3:
    """The work-group size: as given, as the kernel requires, or one wave along x.

    `RuleError` where the kernel requires another one.
    """
    metadata = kernel.image.metadata
    required = metadata.required_workgroup_size if metadata else ()
    if group is None:
        if len(required) == 3:
            return as_dim3(required, f"the size of work-groups that kernel {kernel.name} requires")[0]
        return min(DEFAULT_GROUP, grid[0]), 1, 1
    sizes, _ = as_dim3(group, "group")
    if len(required) == 3 and sizes != required:
        raise RuleError(f"work-groups of {sizes}, but kernel {kernel.name} requires {tuple(required)}")
    return sizes


def beyond(kernel: Kernel, group: Dim3) -> str:
    """What is odd about work-groups that are larger than the kernel was compiled for; "" for others."""
    metadata, items = kernel.image.metadata, group[0] * group[1] * group[2]
    most = metadata.max_workgroup_size if metadata else 0
    if not most or items <= most:
        return ""
    return f"work-groups of {items} work-items, but kernel {kernel.name} was compiled for {most} at most"


def private_bytes(kernel: Kernel, stack_bytes: int | None) -> int:
    """Private memory of a work-item: the static part, and a call stack where the kernel has a dynamic one."""
    if stack_bytes is not None and stack_bytes < 0:
        raise WireError(f"stack_bytes {stack_bytes}, expected 0 or more")
    if stack_bytes is None:
        stack_bytes = DYNAMIC_STACK_BYTES if kernel.image.uses_dynamic_stack else 0
    return kernel.image.private_bytes + stack_bytes
