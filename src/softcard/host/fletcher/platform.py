"""The Fletcher run-time library, in Python, on a virtual device: Platform, Context and Kernel.

Names, call sequence and order of register accesses are those of the original library, so that a host program can be
moved between both libraries. In some cases the original fails silently: a queue in another order than the hardware's, a
kernel that never finishes, an unchecked status. This library raises an exception in these cases.

>>> import pyarrow as pa
>>> import pyarrow.compute as pc
>>> from softcard.device.fletcher.kernel import kernel
>>> @kernel("Sum", read={"ExampleBatch": [("number", pa.int64())]})
... def total(job):
...     return pc.sum(job.batch()["number"]).as_py()
>>> batch = pa.record_batch([pa.array([1, -3, 3, -7])], schema=total.schemas[0])
>>> with Platform(total) as platform, Context(platform) as context:
...     context.queue_record_batch(batch)
...     context.enable()
...     kernel = Kernel(context)
...     kernel.start()
...     result = kernel.wait_for_finish()
...     kernel.get_return("int64")
-6
"""

from __future__ import annotations

import numbers
import operator
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal, Self, SupportsIndex, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import RuleError, SoftcardError, WireError, close_to
from softcard.core.limits import Stopped
from softcard.core.space import HostBytes, bytes_of_buffer
from softcard.core.words import U32, mask
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.kernel import Kernel as VirtualKernel
from softcard.device.fletcher.kernels import BUILT_IN, find
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.device.fletcher.map.registers import (
    CONTROL,
    DEFAULT_BYTES,
    REGISTER_BITS,
    REGISTER_BYTES,
    RESULT,
    STATUS,
)
from softcard.device.fletcher.rules import CUSTOM_CONTROL, CUSTOM_SIZE, SAME_IMPLEMENTATION
from softcard.device.fletcher.settings import FletcherOptions
from softcard.host.fletcher.batch import empty_batch, unsliced
from softcard.host.fletcher.context import Context, DeviceBuffer
from softcard.host.fletcher.port import FletcherPort, LocalPort, StatusError
from softcard.host.run_statistics import RunStatistics, logged

__all__ = ["Context", "DeviceBuffer", "Kernel", "Platform", "StatusError", "empty_batch", "unsliced"]

AnyBuffer = TypeVar("AnyBuffer", bound=HostBytes)
REG_CONTROL: Final = CONTROL // REGISTER_BYTES
REG_STATUS: Final = STATUS // REGISTER_BYTES
REG_RETURN0: Final = RESULT // REGISTER_BYTES
REG_RETURN1: Final = REG_RETURN0 + 1
REG_SCHEMA: Final = DEFAULT_BYTES // REGISTER_BYTES
"""The index of the first register whose meaning depends on the schemas; default registers come before it."""
POLL_SECONDS: Final = 0.05
"""The longest interval in seconds between two reads of the status register while a host waits for a threaded kernel."""
_TYPES_32: Final = {"uint": "I", "int": "i", "float": "f"}
_TYPES_64: Final = {"uint": "Q", "int": "q", "double": "d"}


class Platform(RichDisplay):
    """A Fletcher platform: a virtual device, or any object with the functions of a platform plug-in.

    `target` is a `FletcherDevice`, a `FletcherPort`, a virtual kernel, or the name of a built-in virtual kernel. For a
    kernel, a device with the kernel's register map is made, and `options` are the settings of that device.
    """

    def __init__(
        self, target: FletcherDevice | FletcherPort | VirtualKernel | str, **options: Unpack[FletcherOptions]
    ) -> None:
        if isinstance(target, str) and target in BUILT_IN:
            target = find(target)
        if isinstance(target, VirtualKernel):
            target, options = FletcherDevice(target.map(), target, **options), {}
        if isinstance(target, FletcherDevice):
            target = LocalPort(target)
        if isinstance(target, str) or not hasattr(target, "write_mmio"):
            known = f"a device, a virtual kernel, a port to a platform, or one of {', '.join(BUILT_IN)}"
            raise WireError(f"platform is {target!r}, expected {known}")
        if options:
            raise WireError(f"options {' '.join(options)} are settings of a new device: pass a kernel, not a device")
        self.port: FletcherPort = target
        self._is_open = False

    def __repr__(self) -> str:
        return f"<Platform {self.port.name}, {'open' if self._is_open else 'not open'}>"

    def _rows(self) -> Rows:
        yield "byte", "register"
        layout = self.port.map
        for buffer in layout.buffers if layout is not None else ():
            yield f"{buffer.address:#x}", buffer.name
        for custom in layout.customs if layout is not None else ():
            yield f"{custom.address:#x}", custom.name

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.port.device if isinstance(self.port, LocalPort) else self.port,)

    @classmethod
    def open(
        cls, target: FletcherDevice | FletcherPort | VirtualKernel | str, **options: Unpack[FletcherOptions]
    ) -> Self:
        """Return an initialized platform."""
        made = cls(target, **options)
        made.init()
        return made

    def name(self) -> str:
        """Return the platform's name."""
        return self.port.name

    def init(self) -> None:
        """Initialize the platform, before any other call."""
        self.port.init()
        self._is_open = True

    def write_mmio(self, offset: int, value: int) -> None:
        """Write 32-bit register number `offset`."""
        self.port.write_mmio(offset, _word(value, f"value of register {offset}", self.port))

    @overload
    def read_mmio(self, offset: int, type: Literal["uint", "int"] = "uint") -> int: ...

    @overload
    def read_mmio(self, offset: int, type: str) -> int | float: ...

    def read_mmio(self, offset: int, type: str = "uint") -> int | float:
        """Read 32-bit register number `offset`; return it as the type "uint", "int" or "float"."""
        return _taken_for(self.port.read_mmio(offset), type, _TYPES_32)

    @overload
    def read_mmio_64(self, offset: int, type: Literal["uint", "int"] = "uint") -> int: ...

    @overload
    def read_mmio_64(self, offset: int, type: str) -> int | float: ...

    def read_mmio_64(self, offset: int, type: str = "uint") -> int | float:
        """Read the 64-bit value in registers `offset` and `offset` + 1, as the type "uint", "int" or "double".

        The high half is read first, as in the original library. Hardware that Fletcher generates answers the read of
        the high half with SLVERR, which raises `StatusError` here."""
        high = self.port.read_mmio(offset + 1)
        return _taken_for(high << 32 | self.port.read_mmio(offset), type, _TYPES_64)

    def device_malloc(self, size: int) -> int:
        """Return the device address of `size` allocated bytes."""
        return self.port.device_malloc(size)

    def device_free(self, device_address: int) -> None:
        """Free device memory."""
        self.port.device_free(device_address)

    def copy_host_to_device(self, host_bytes: HostBytes, device_destination: int, size: int) -> None:
        """Copy the first `size` bytes of a host buffer to device memory."""
        self.port.copy_host_to_device(bytes_of_buffer(host_bytes)[:size], device_destination)

    @overload
    def copy_device_to_host(self, device_source: int, size: int, buffer: None = None) -> NDArray[np.uint8]: ...

    @overload
    def copy_device_to_host(self, device_source: int, size: int, buffer: AnyBuffer) -> AnyBuffer: ...

    def copy_device_to_host(self, device_source: int, size: int, buffer: HostBytes | None = None) -> HostBytes:
        """Copy `size` bytes of device memory to the start of `buffer`; return `buffer`, or a new array if it is None.

        Raise `WireError` if the bytes do not fit, or if `buffer` is read-only."""
        found = self.port.copy_device_to_host(device_source, size)
        if buffer is None:
            return np.frombuffer(bytearray(found), np.uint8)
        room = bytes_of_buffer(buffer)
        if room.readonly or len(room) < size:
            raise WireError(f"{size} bytes do not fit the buffer of {len(room)} bytes: pass a larger writable buffer")
        room[:size] = found
        return buffer

    def prepare_host_buffer(self, host_bytes: HostBytes, size: int) -> tuple[int, bool]:
        """Make the first `size` bytes of a host buffer accessible to the device.

        Return their device address, and True if the caller must free that address."""
        return self.port.prepare_host_buffer(host_bytes, size)

    def cache_host_buffer(self, host_bytes: HostBytes, size: int) -> int:
        """Copy the first `size` bytes of a host buffer to newly allocated device memory; return their device
        address."""
        return self.port.cache_host_buffer(host_bytes, size)

    def terminate(self) -> None:
        """Shut the platform down; a second call has no effect."""
        if self._is_open:
            self._is_open = False
            self.port.terminate()

    def close(self) -> None:
        """Shut the platform down, like `terminate`. All devices of this package have a method `close`."""
        self.terminate()

    def __enter__(self) -> Self:
        if not self._is_open:
            self.init()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.terminate()


@dataclass(frozen=True, slots=True)
class Result(RunStatistics):
    """The result of a kernel: the bytes of its buffers, and the seconds taken.

    The number of instructions is 0, since kernels in Python do not count them.
    """

    kernel: str
    bytes: int
    time: float = field(default=0.0, compare=False)
    instructions: int = 0

    __repr__ = RunStatistics.__repr__


class Kernel:
    """The host's handle for the kernel of a device.

    The host program may change the register values `ctrl_start`, `ctrl_stop`, `ctrl_reset`, `done_status` and
    `done_status_mask`."""

    def __init__(self, context: Context) -> None:
        self.ctrl_start = 1 << 0
        self.ctrl_stop = 1 << 1
        self.ctrl_reset = 1 << 2
        self.done_status = 1 << 2
        self.done_status_mask = 1 << 2
        self._context = context
        self._port = context.platform.port
        self._metadata_written = False
        self._began = time.perf_counter()

    def __repr__(self) -> str:
        return f"<kernel on {self._port.name}, RecordBatches queued: {self._context.num_recordbatches()}>"

    def reset(self) -> None:
        """Reset the kernel: write the reset bit, then 0."""
        self._port.write_mmio(REG_CONTROL, self.ctrl_reset)
        self._port.write_mmio(REG_CONTROL, 0)

    def set_range(self, recordbatch_index: int, first: int, last: int) -> None:
        """Select rows `first` to `last` (exclusive) of a RecordBatch; raise `StatusError` for an invalid range.

        As in the original library, the first `start` overwrites the range, unless `write_metadata` was called before.
        """
        if first >= last:
            raise StatusError(f"row range invalid: [ {first}, {last} ), expected first < last")
        if self._port.strict and self._port.map is not None:
            count = len(self._port.map.batches)
            if not 0 <= recordbatch_index < count:
                raise StatusError(
                    f"cannot set the rows of RecordBatch {recordbatch_index}: the design has {count}, counted from 0"
                )
        words = _word(first, "first row", self._port), _word(last, "last row", self._port)
        for index, word in enumerate(words, REG_SCHEMA + 2 * recordbatch_index):
            self._port.write_mmio(index, word)

    def set_arguments(self, arguments: Sequence[int] | Mapping[str, int]) -> None:
        """Write custom registers, 32 bits for each argument, starting at the first register after the buffer addresses.

        A mapping from register names to arguments is also accepted, unlike in the original library; each argument
        sets its whole register, whatever the width. If the platform is strict and knows its register map, too many
        arguments raise `RuleError`."""
        words = self._named(arguments) if isinstance(arguments, Mapping) else self._counted(arguments)
        for index, word in words:
            self._port.write_mmio(index, word)

    def write_metadata(self) -> None:
        """Write the row range of each RecordBatch (0 to its number of rows) and all buffer addresses.

        The first `start` calls this unless the host has done so. A strict platform raises `StatusError` if the
        context is not enabled, since its buffers have no addresses yet.
        """
        if self._port.strict and self._context.num_recordbatches() and not self._context.is_enabled:
            self._port.read_mmio(REG_STATUS)  # raises the more important error if the platform was closed
            raise StatusError("the queued RecordBatches are not on the device: call the context's enable() first")
        numbers = [
            _word(rows, f"number of rows of RecordBatch {at}", self._port)
            for at, rows in enumerate(self._context.rows())
        ]
        index = REG_SCHEMA
        for rows in numbers:
            self._port.write_mmio(index, 0)
            self._port.write_mmio(index + 1, rows)
            index += 2
        for buffer in self._context.device_buffers:
            self._port.write_mmio(index, buffer.device_address & U32)
            self._port.write_mmio(index + 1, buffer.device_address >> 32)
            index += 2
        self._metadata_written = True

    def start(self) -> None:
        """Start the kernel: write the metadata unless that was done before, then the start bit, then 0."""
        if not self._metadata_written:
            self.write_metadata()
        self._began = time.perf_counter()
        self._port.write_mmio(REG_CONTROL, self.ctrl_start)
        self._port.write_mmio(REG_CONTROL, 0)

    def stop(self) -> None:
        """Stop the kernel: write the stop bit, then 0. The original library has no such call."""
        self._port.write_mmio(REG_CONTROL, self.ctrl_stop)
        self._port.write_mmio(REG_CONTROL, 0)

    def get_status(self) -> int:
        """Return the status register: idle 1, busy 2, done 4."""
        return self._port.read_mmio(REG_STATUS)

    def get_return(self, nptype: DTypeLike = np.uint64) -> int | float:
        """Return the registers return0 and return1 as one 64-bit number, cast to a NumPy type.

        The cast is by value, not by bits, as in the original library.
        """
        try:
            np.dtype(nptype)
        except TypeError:
            names = [each for each in np.sctypeDict if isinstance(each, str)]
            near = close_to(nptype, names) if isinstance(nptype, str) else ""
            raise WireError(f"unknown return type {nptype!r}, expected a NumPy type such as 'int64'{near}") from None
        low = self._port.read_mmio(REG_RETURN0)
        high = self._port.read_mmio(REG_RETURN1)
        found: int | float = np.uint64(high << 32 | low).astype(nptype).item()
        return found

    def wait_for_finish(self, poll_interval_usec: int = 0, timeout_seconds: float | None = None) -> Result:
        """Poll the status register until the kernel is done; return statistics of the time since `start`.

        If the kernel can never finish, raise an error with the reason; the original library polls forever. Raise
        `StatusError` after `timeout_seconds`. Ctrl-C ends the kernel; its status stays "busy" until `reset`."""
        try:
            self._poll(poll_interval_usec, timeout_seconds)
        except SoftcardError as error:
            stopped = self._port.stuck()
            if isinstance(stopped, Stopped) and error is not stopped:  # the platform was closed meanwhile
                raise stopped from None
            raise
        except BaseException as cause:
            self._port.abandon(cause)
            raise
        buffers = (self._context.get_device_buffer(index) for index in range(self._context.num_buffers()))
        return logged(Result(self._port.name, sum(each.size for each in buffers), time.perf_counter() - self._began))

    def _poll(self, poll_interval_usec: int, timeout_seconds: float | None) -> None:
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self.get_status() & self.done_status_mask != self.done_status:
            reason = self._port.stuck()
            if reason is not None:
                raise reason
            if deadline is not None and time.monotonic() > deadline:
                raise StatusError(f"the kernel did not end within {timeout_seconds} s")
            if poll_interval_usec:
                time.sleep(poll_interval_usec / 1e6)
            else:
                self._port.wait(POLL_SECONDS)

    def poll_until_done(self, poll_interval_usec: int = 0) -> Result:
        """Call `wait_for_finish`; this was the name of that method in release 0.0.20 of the original library."""
        return self.wait_for_finish(poll_interval_usec)

    def get_context(self) -> Context:
        """Return the context with which the kernel was made."""
        return self._context

    def _counted(self, arguments: Sequence[int]) -> list[tuple[int, int]]:
        """Return pairs of register index and value for positional arguments.

        As in the original library, the registers are counted from the one after the registers of the queued buffers.
        """
        first = REG_SCHEMA + 2 * self._context.num_recordbatches() + 2 * self._context.num_buffers()
        words = [(first + at, _word(argument, f"argument {at}", self._port)) for at, argument in enumerate(arguments)]
        if words and self._port.strict and self._port.map is not None:
            _check_arguments(self._port.map, first, len(words))
        return words

    def _named(self, arguments: Mapping[str, int]) -> list[tuple[int, int]]:
        """Return pairs of register index and value for named arguments; the lowest word of a register comes first."""
        layout = self._port.map
        if layout is None:
            raise StatusError("arguments by name require a platform with a known register map: pass a list")
        words = []
        for name, argument in arguments.items():
            custom = layout.custom(name)
            if custom.behaviour != "c":
                raise RuleError(
                    f"argument {name} is a status register, which only the kernel can set", rule=CUSTOM_CONTROL
                )
            bits = _bits(argument, custom.width, f"argument {name}", self._port)
            first = layout.register_index(custom.address)
            count = -(-custom.width // REGISTER_BITS)
            words += [(first + at, bits >> REGISTER_BITS * at & U32) for at in range(count)]
        return words


def _check_arguments(layout: FletcherMap, first: int, count: int) -> None:
    """Raise a `RuleError` unless registers `first` to `first` + `count` - 1 are custom registers of the design."""
    room = sum(-(-custom.width // REGISTER_BITS) for custom in layout.customs)
    if count > room:
        text = f"{count} arguments were given, but the design has {room} words of custom registers"
        raise RuleError(f"{text}: further arguments would overwrite the registers after these", rule=CUSTOM_SIZE)
    own = layout.register_index(layout.customs[0].address)
    if first != own:
        text = f"argument 0 would be written to register {first}, but the design has {layout.customs[0].name} at {own}"
        raise RuleError(f"{text}: queue all RecordBatches before setting arguments", rule=SAME_IMPLEMENTATION)


def _word(value: SupportsIndex, what: str, port: FletcherPort) -> int:
    """Return `value` as the 32 bits of a register.

    Raise `WireError` if it is not an integer or has more than 32 bits. `what` is its name in messages.
    """
    return _bits(value, REGISTER_BITS, what, port)


def _bits(value: SupportsIndex, width: int, what: str, port: FletcherPort) -> int:
    """Return `value`, which may be negative, as `width` bits; report a lint if it is negative.

    `what` is its name in messages.
    """
    try:
        number = operator.index(value)
    except TypeError:
        is_float = width in (32, 64) and isinstance(value, numbers.Real)
        how = f"; the bits of a float are np.float{width}({value}).view(np.uint{width})" if is_float else ""
        raise WireError(f"{what} is {value!r}, expected an integer{how}") from None
    if not -(1 << width - 1) <= number < 1 << width:
        raise WireError(f"{what} is {number:#x}, which does not fit {width} bits")
    if number < 0 and isinstance(port, LocalPort):
        text = f"{what} is {number}: registers are unsigned, so {number & mask(width):#x} is written"
        port.device.lint("negative-value", RuleError(text, rule=CUSTOM_CONTROL))
    return number & mask(width)


def _taken_for(bits: int, name: str, types: dict[str, str]) -> int | float:
    """Interpret `bits`, the content of one or two registers, as a number of the type `name`; return the number.

    `types` maps the valid names to format characters of `struct`. Raise `StatusError` for another name."""
    if name not in types:
        raise StatusError(f"the type of a register is {name!r}, expected one of {', '.join(types)}")
    found: int | float = struct.unpack(f"<{types[name]}", struct.pack(f"<{types['uint']}", bits))[0]
    return found
