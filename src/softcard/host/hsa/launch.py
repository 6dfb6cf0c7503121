"""One launch of a kernel: its packet, its hidden arguments, its memory while it runs, and its result."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final, Self, SupportsIndex

from softcard.core.errors import RuleError, SoftcardError, WireError, with_console
from softcard.core.findings import Finding, FindingError
from softcard.core.words import U32, U64
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.launch.kernarg import PREFIX, Hidden
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import FenceScope, KernelDispatchPacket
from softcard.device.hsa.queues.records import AmdSignal, SignalKind
from softcard.device.hsa.queues.signals import Condition, Signal
from softcard.host import printf
from softcard.host.hsa.arguments import Address, Packer, Pointer, address_of
from softcard.host.hsa.executable import Kernel
from softcard.host.printf import text_of
from softcard.host.run_statistics import RunStatistics, logged
from softcard.image.hsa.code_object import Kernel as KernelImage

DYNAMIC_STACK_BYTES: Final = 1024
"""The private memory, in bytes, that a kernel with a dynamic call stack gets in addition to its static size."""
DEFAULT_GROUP: Final = 64
"""The default number of work-items of a work-group: one wave."""
SIGNAL_BYTES: Final = AmdSignal.size_bytes
"""The size in bytes of the completion signal at the start of a launch's memory block; the kernarg segment follows.

Both are aligned to 64 bytes.
"""
ARMED: Final = AmdSignal(kind=SignalKind.USER, value=1).pack()
"""The bytes of the completion signal of a launch that has not completed."""
_START, _END = (AmdSignal.offset_of(name) // 8 for name in ("start_ts", "end_ts"))
_SIZES_AT: Final = KernelDispatchPacket.offset_of("private_segment_size")
_SIZES: Final = struct.Struct("<IIQQ8xQ")
"""The layout of the packet's fields from private_segment_size on, for `struct`."""

Size = SupportsIndex | Sequence[SupportsIndex]
"""A number of work-items in x, or in x, y and z."""
Dim3 = tuple[int, int, int]
SYSTEM: Final = FenceScope.SYSTEM


@dataclass(frozen=True, slots=True)
class Result(RunStatistics):
    """The result of a launch.

    - `start`, `end`: times on the device's clock, which counts wave instructions and packets.
    - `text`: the text that the kernel printed; `printf`: the raw content of the printf buffer, without its
      header.
    - `bytes`: the size of all array arguments.
    - `time`: the seconds from the writing of the packet to the end of the wait for the launch.
    - `interpreted`: the number of instructions that the reference engine executed, which is slow.
    - `findings`: the findings of checks, with counts over all launches of the device."""

    kernel: str
    start: int
    end: int
    printf: bytes = field(default=b"", repr=False)
    bytes: int = 0
    time: float = field(default=0.0, compare=False)
    interpreted: int = field(default=0, compare=False)
    text: str = field(default="", repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False, compare=False)

    __repr__ = RunStatistics.__repr__

    @property
    def instructions(self) -> int:
        """The number of wave instructions retired between the launch's start and end on the device's clock.

        The clock counts packets, too, so the number includes packets that were processed in this time. It is 0 on a
        queue without profiling."""
        return max(self.end - self.start - 1, 0)


@dataclass(slots=True, eq=False)
class Launch:
    """A submitted dispatch packet. Call `wait` before reading its results."""

    kernel: Kernel
    queue: Queue
    index: int
    signal: Signal
    _packet: bytes = field(repr=False)
    _bytes: int = field(repr=False)
    _began: float = field(repr=False)
    """The time of the launch's submission, in seconds on the host's clock."""
    _release: Callable[[bool], None] = field(repr=False)
    """A function that frees the memory of the launch; its argument is True if the launch completed."""
    _printed: Callable[[], bytes] | None = field(default=None, repr=False)
    """A function that returns the contents of the launch's printf buffer; None without such a buffer."""
    _called: Callable[[], str] | None = field(default=None, repr=False)
    """A function that returns the text printed through hostcalls; None if the kernel makes no hostcalls."""
    _era: int = field(default=0, repr=False)
    """The device's era when the launch was submitted.

    The era is a number that changes when the device is restored or reset.
    """
    _first_occurrence: int = field(default=0, repr=False)
    """The number of occurrences of findings before the launch was submitted."""
    _read_back: Callable[[], None] | None = field(default=None, repr=False)
    """A function that lets checks inspect the arrays that the host gets back."""
    _result: Result | None = field(default=None, init=False, repr=False)
    _failure: SoftcardError | None = field(default=None, init=False, repr=False)

    @property
    def packet(self) -> KernelDispatchPacket:
        """The packet that was written into the queue."""
        return KernelDispatchPacket.parse(self._packet)

    @property
    def is_done(self) -> bool:
        """True if the completion signal of the launch has been decremented."""
        return self._result is not None or self.queue.device.era != self._era or self.signal.load() <= 0

    def wait(self, timeout_seconds: float | None = None) -> Result:
        """Wait until the launch has completed, and return its result.

        If it failed, raise the queue's error with the kernel's name; raise `TimeoutError` after `timeout_seconds`.
        """
        if self._failure is not None:
            raise self._failure
        device = self.queue.device
        if self._result is None and device.log is not None:
            with device.desk:  # findings are reported when they have the kernel's name, and the launch its result
                return self._waited(timeout_seconds)
        return self._waited(timeout_seconds)

    def _waited(self, timeout_seconds: float | None) -> Result:
        if self._result is None:
            value, stuck = 1, None
            if self.queue.device.era != self._era:
                text = "the device was reset or restored before the launch was waited for"
                self._fail(RuleError(text))
            try:
                value = self.signal.wait(Condition.LT, 1, timeout_seconds)
            except RuleError as error:
                stuck = error  # raised outside of this block, so that it is not the context of the next error
            except BaseException as cause:
                self._interrupted(cause)
                raise
            if stuck is not None:
                self._fail(self.queue.error or stuck)
            if value >= 1:
                if self.queue.error is not None:
                    self._fail(self.queue.error)
                raise TimeoutError(f"kernel {self.kernel.name} has not completed in {timeout_seconds} seconds")
            words = self.signal.view()
            printed, text = self._output()
            start, end, time = words[_START] & U64, words[_END] & U64, perf_counter() - self._began
            interpreted = self.queue.progress.interpreted.pop(self.index, 0)
            if self._read_back is not None:
                try:
                    self._read_back()
                except FindingError as error:
                    self._failure = named(error, self.kernel)
                    self._release(True)
                    raise
            name, found = self.kernel.name, self._findings()
            self._result = logged(Result(name, start, end, printed, self._bytes, time, interpreted, text, found))
            self._release(True)
        return self._result

    def _output(self) -> tuple[bytes, str]:
        """Return the content of the printf buffer without its header, and the text that results from it."""
        printed = b"" if self._printed is None else self._printed()
        text = text_of(printed, self.kernel.executable.code.formats) if printed else ""
        return printed, text if self._called is None else text + self._called()

    def _interrupted(self, cause: BaseException) -> None:
        """End the kernel and the launch, because the host's wait was interrupted by `cause`."""
        self.queue.device.abandon(self.signal.address, cause)
        error = self.queue.error
        if error is not None:
            self._failure = named(error, self.kernel)
            self._release(False)

    def _findings(self) -> tuple[Finding, ...]:
        """Return the findings since the submission of the launch, each with the name of the launched kernel.

        Findings in functions that the kernel calls get that name, too.
        """
        log = self.queue.device.log
        found = () if log is None else log.since(self._first_occurrence)
        for each in found:
            each.kernel = each.kernel or self.kernel.name
        return found

    def _fail(self, error: SoftcardError) -> None:
        for each in self._findings():
            error.add_note(str(each))
        is_mine = any(place.kind == "AQL packet" and place.where == str(self.index) for place in error.path)
        if is_mine or error is not self.queue.error:
            with suppress(SoftcardError):  # the memory of a device that was closed meanwhile cannot be read
                with_console(error, self._output()[1].encode("utf-8", "replace"))
            self._failure = named(error, self.kernel)
        else:
            text = f"kernel {self.kernel.name} was not run, since an earlier packet of its queue failed: {error}"
            self._failure = RuleError(text)
        self._release(False)
        raise self._failure from (None if is_mine else error)


def named(error: SoftcardError, kernel: Kernel) -> SoftcardError:
    """Return `error` with the kernel's name added."""
    return error if any(place.kind == "kernel" for place in error.path) else error.at("kernel", kernel.name)


# ---- shared by launches of one kernel and size --------------------------------------------------------------------


class LaunchTemplate:
    """The state that all launches of a kernel over the same sizes share.

    `packet` is an incomplete dispatch packet, and `packer` packs kernarg segments.
    """

    def __init__(self, kernel: Kernel, dimensions: int, grid: Dim3, group: Dim3, pointer_bytes: int) -> None:
        self.kernel = kernel
        self.packet = KernelDispatchPacket.over(
            dimensions, grid, group, kernel_object=kernel.address, acquire_scope=SYSTEM, release_scope=SYSTEM
        )
        self.packer = Packer(kernel.image, self.packet, pointer_bytes)
        metadata = kernel.image.metadata
        self.makes_hostcalls = metadata is not None and HOSTCALL in metadata.hidden_kinds
        self.private_bytes = private_bytes(kernel, None)
        """The private memory of a work-item in bytes, unless a launch requests a larger stack."""
        self.beyond = beyond(kernel, group)
        """The lint about a work-group that is larger than the kernel was compiled for; "" if the size is right."""
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
        """Return the bytes of a complete packet; raise `WireError` that names the field if a value does not fit.

        `kernarg` and `signal` are the addresses of the kernarg segment and of the completion signal.
        """
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
    """Return `size` in x, y and z, each at least `least`, and the number of its dimensions.

    `what` is the name of the size in messages. Raise `WireError` for an invalid size.
    """
    if type(size) is int and size >= least:
        return (size, least, least), 1
    if type(size) is tuple and len(size) == 3:
        x, y, z = size
        if type(x) is int and type(y) is int and type(z) is int and x >= least <= y and z >= least:
            return (x, y, z), 3
    try:
        given = tuple(map(operator.index, size if isinstance(size, Iterable) else (size,)))
    except TypeError:
        raise WireError(f"{what} is {size!r:.40}, expected a whole number, or up to three of them") from None
    if not 1 <= len(given) <= 3:
        raise WireError(f"{what} {given} has {len(given)} dimensions, expected 1 to 3")
    if min(given) < least:
        raise WireError(f"{what} is {given}, expected sizes of {least} or more")
    x, y, z = (*given, least, least)[:3]
    return (x, y, z), len(given)


def group_of(kernel: Kernel, grid: Dim3, group: Size | None) -> Dim3:
    """Return the work-group size: `group`, or by default the size that the kernel requires.

    If the kernel requires none, the default is one wave along x, or less if the grid is smaller.
    Raise `RuleError` if `group` differs from the size that the kernel requires."""
    metadata = kernel.image.metadata
    required = metadata.required_workgroup_size if metadata else ()
    if group is None:
        if len(required) == 3:
            return as_dim3(required, f"the size of work-groups that kernel {kernel.name} requires")[0]
        return min(DEFAULT_GROUP, grid[0]), 1, 1
    sizes, _ = as_dim3(group, "group")
    if len(required) == 3 and sizes != required:
        raise RuleError(f"the work-group size is {sizes}, but kernel {kernel.name} requires {tuple(required)}")
    return sizes


def beyond(kernel: Kernel, group: Dim3) -> str:
    """Return the lint about a work-group that is larger than the kernel was compiled for; "" for other work-groups."""
    metadata, items = kernel.image.metadata, group[0] * group[1] * group[2]
    most = metadata.max_workgroup_size if metadata else 0
    if not most or items <= most:
        return ""
    return f"the work-groups have {items} work-items, but kernel {kernel.name} was compiled for at most {most}"


def private_bytes(kernel: Kernel, stack_bytes: int | None) -> int:
    """Return the private memory of a work-item in bytes: the kernel's static size, plus its stack.

    `stack_bytes` is the size of the stack; with None, a kernel with a dynamic call stack gets `DYNAMIC_STACK_BYTES`.
    """
    if stack_bytes is not None and stack_bytes < 0:
        raise WireError(f"stack_bytes is {stack_bytes}, expected 0 or more")
    if stack_bytes is None:
        stack_bytes = DYNAMIC_STACK_BYTES if kernel.image.uses_dynamic_stack else 0
    return kernel.image.private_bytes + stack_bytes


# ---- hidden arguments ------------------------------------------------------------------------------------------------
# Hidden arguments of a kernel: values that a caller gives by name, defaults, and the buffer of ``printf``.


PRINTF: Final = PREFIX + "printf_buffer"
HOSTCALL: Final = PREFIX + "hostcall_buffer"


def hidden_arguments(
    device: HsaDevice, queue: Queue, offset: Dim3, given: Mapping[str, int], printf: int = 0, hostcall: int = 0
) -> Hidden:
    """Return the hidden arguments of a launch on `queue`, with values that fit the device.

    `offset` is the global offset. `printf` and `hostcall` are the addresses of the printf and the hostcall buffer.
    `given` maps value kinds of hidden arguments, as in the kernel's metadata, to values that override the others."""
    apertures = device.apertures
    return Hidden(
        global_offset=offset,
        shared_base=apertures.group_segment_aperture_base_hi << 32,
        private_base=apertures.private_segment_aperture_base_hi << 32,
        queue=queue.address,
        printf_buffer=printf,
        hostcall_buffer=hostcall,
        default_queue=queue.address,
        given=given,
    )


def values_by_name(kernel: KernelImage, values: Mapping[str, Pointer], address: Address) -> dict[str, int]:
    """Return hidden arguments by value kind, from a mapping by name to numbers, arrays or objects with an `address`.

    A name is a value kind, with or without ``hidden_``. Raise `WireError` for a name that is not a hidden argument of
    the kernel.
    """
    sizes = {each.kind: each.size for each in kernel.metadata.hidden} if kernel.metadata else {}
    found = {}
    for name, value in values.items():
        kind = PREFIX + name.removeprefix(PREFIX)
        if kind not in sizes:
            there = ", ".join(each.removeprefix(PREFIX) for each in sizes) or "none"
            raise WireError(f"kernel {kernel.name} has no hidden argument {name!r}, it has {there}")
        try:
            found[kind] = address_of(value, address, sizes[kind])
        except WireError as error:
            raise error.at("hidden argument", name) from None
    return found


@dataclass(frozen=True, slots=True)
class Printf:
    """The printf buffer of one launch."""

    device: HsaDevice
    address: int

    @classmethod
    def of(cls, device: HsaDevice, kernel: KernelImage, given: Mapping[str, int]) -> Self | None:
        """Return a new empty printf buffer for a launch.

        Return None if the kernel does not print, or if the caller has provided a printf buffer in `given`.
        """
        if PRINTF in given or kernel.metadata is None or PRINTF not in kernel.metadata.hidden_kinds:
            return None
        made = cls(device, device.allocate(printf.SIZE_BYTES, mtype=device.fine_mtype, name="printf buffer"))
        device.memory.write(made.address, printf.EMPTY)
        return made

    def read(self) -> bytes:
        """Return the bytes that the kernel wrote to the printf buffer after its header."""
        memory = self.device.memory
        return printf.written(memory.read(self.address, printf.used_bytes(memory.read(self.address, 4))))

    def free(self) -> None:
        """Free the printf buffer."""
        self.device.free(self.address)
