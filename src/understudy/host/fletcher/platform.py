"""The Fletcher run-time library, in Python, on a virtual device: Platform, Context and Kernel.

Names, call sequence and order of register accesses are those of the real library; a host program can be moved between
the two. Where the real one would go wrong without a word (a queue in another order than the hardware's, a kernel that
never finishes, a status nobody looks at), this one raises.

>>> import pyarrow as pa
>>> import pyarrow.compute as pc
>>> from understudy.device.fletcher.kernel import kernel
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

import operator
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from understudy.core.errors import RuleError, WireError
from understudy.core.shown import Rows, Shown
from understudy.core.took import Took, told
from understudy.core.words import U32, mask
from understudy.device.fletcher.device import FletcherDevice
from understudy.device.fletcher.kernel import Kernel as VirtualKernel
from understudy.device.fletcher.kernels import BUILT_IN, find
from understudy.device.fletcher.map.layout import FletcherMap
from understudy.device.fletcher.map.registers import (
    CONTROL,
    DEFAULT_BYTES,
    REGISTER_BITS,
    REGISTER_BYTES,
    RESULT,
    STATUS,
)
from understudy.device.fletcher.rules import CUSTOM_CONTROL, CUSTOM_SIZE, SAME_IMPLEMENTATION
from understudy.host.fletcher.batch import empty_batch
from understudy.host.fletcher.context import Context, DeviceBuffer
from understudy.host.fletcher.port import FletcherPort, LocalPort, StatusError
from understudy.host.fletcher.rows import unsliced

__all__ = ["Context", "DeviceBuffer", "Kernel", "Platform", "StatusError", "empty_batch", "unsliced"]

REG_CONTROL: Final = CONTROL // REGISTER_BYTES
REG_STATUS: Final = STATUS // REGISTER_BYTES
REG_RETURN0: Final = RESULT // REGISTER_BYTES
REG_RETURN1: Final = REG_RETURN0 + 1
REG_SCHEMA: Final = DEFAULT_BYTES // REGISTER_BYTES
"""The first register that derives from schemas."""
POLL_SECONDS: Final = 0.05
"""How long a wait for a kernel with its own thread sleeps between two looks at the status register, at most."""
_TYPES_32: Final = {"uint": "I", "int": "i", "float": "f"}
_TYPES_64: Final = {"uint": "Q", "int": "q", "double": "d"}


class Platform(Shown):
    """A platform: a virtual device, or anything with the functions of a plug-in.

    `target` is a `FletcherDevice`, a `FletcherPort`, or a virtual kernel, perhaps by the name of a built-in one: then
    `options` are those of the device's settings, and its map is the kernel's own.
    """

    def __init__(self, target: FletcherDevice | FletcherPort | VirtualKernel | str, **options: Any) -> None:
        if isinstance(target, str) and target in BUILT_IN:
            target = find(target)
        if isinstance(target, VirtualKernel):
            target, options = FletcherDevice(target.map(), target, **options), {}
        if isinstance(target, FletcherDevice):
            target = LocalPort(target)
        if isinstance(target, str) or not hasattr(target, "write_mmio"):
            known = f"a device, a virtual kernel, or a port to a platform, or one of {', '.join(BUILT_IN)}"
            raise WireError(f"platform {target!r}, expected {known}")
        if options:
            raise WireError(f"options {' '.join(options)} for a device that is there already, expected a kernel")
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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.port.device if isinstance(self.port, LocalPort) else self.port,)

    @classmethod
    def open(cls, target: FletcherDevice | FletcherPort | VirtualKernel | str, **options: Any) -> Self:
        """A platform that is initialized already."""
        made = cls(target, **options)
        made.init()
        return made

    def name(self) -> str:
        """The platform's name."""
        return self.port.name

    def init(self) -> None:
        """Initialize the platform, before anything else is done with it."""
        self.port.init()
        self._is_open = True

    def write_mmio(self, offset: int, value: int) -> None:
        """Write 32-bit register number `offset`."""
        self.port.write_mmio(offset, _word(value, f"value of register {offset}"))

    def read_mmio(self, offset: int, type: str = "uint") -> Any:
        """Read it; its bits are taken for a "uint", "int" or "float"."""
        return _taken_for(self.port.read_mmio(offset), type, _TYPES_32)

    def read_mmio_64(self, offset: int, type: str = "uint") -> Any:
        """Read two registers, the high half first, as the real library does; for a "uint", "int" or "double".

        The generated hardware answers the high half with SLVERR: there this is a `StatusError`.
        """
        high = self.port.read_mmio(offset + 1)
        return _taken_for(high << 32 | self.port.read_mmio(offset), type, _TYPES_64)

    def device_malloc(self, size: int) -> int:
        """Device address of `size` bytes."""
        return self.port.device_malloc(size)

    def device_free(self, device_address: int) -> None:
        """Give them back."""
        self.port.device_free(device_address)

    def copy_host_to_device(self, host_bytes: Any, device_destination: int, size: int) -> None:
        """Copy the first `size` bytes of a buffer."""
        self.port.copy_host_to_device(memoryview(host_bytes).cast("B")[:size], device_destination)

    def copy_device_to_host(self, device_source: int, size: int, buffer: Any = None) -> Any:
        """Copy `size` bytes back: to the front of `buffer`, which is given back, or else to an array of NumPy's."""
        found = self.port.copy_device_to_host(device_source, size)
        if buffer is None:
            return np.frombuffer(bytearray(found), np.uint8)
        room = memoryview(buffer).cast("B")
        if room.readonly or len(room) < size:
            raise WireError(f"{size} bytes to a buffer of {len(room)}, expected one with that room to write to")
        room[:size] = found
        return buffer

    def prepare_host_buffer(self, host_bytes: Any, size: int) -> tuple[int, bool]:
        """Make a buffer reachable; its device address, and whether that was allocated."""
        return self.port.prepare_host_buffer(host_bytes, size)

    def cache_host_buffer(self, host_bytes: Any, size: int) -> int:
        """Copy a buffer to device memory."""
        return self.port.cache_host_buffer(host_bytes, size)

    def terminate(self) -> None:
        """End everything; a second call has no effect."""
        if self._is_open:
            self._is_open = False
            self.port.terminate()

    def close(self) -> None:
        """The same: every device of this package has it."""
        self.terminate()

    def __enter__(self) -> Self:
        if not self._is_open:
            self.init()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.terminate()


@dataclass(frozen=True, slots=True)
class Result(Took):
    """What a kernel took: the bytes of its buffers, and seconds. Kernels in Python count no instructions."""

    kernel: str
    bytes: int
    time: float = field(default=0.0, compare=False)
    instructions: int = 0

    __repr__ = Took.__repr__


class Kernel:
    """The host's handle of the kernel. `ctrl_start`, `ctrl_reset`, `done_status` and its mask may be changed."""

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
        """Reset the kernel: the reset bit, then 0."""
        self._port.write_mmio(REG_CONTROL, self.ctrl_reset)
        self._port.write_mmio(REG_CONTROL, 0)

    def set_range(self, recordbatch_index: int, first: int, last: int) -> None:
        """Rows `first` to `last` (exclusive) of a RecordBatch; `StatusError` where that is none.

        The first `start` after this overwrites it, unless `write_metadata` was called before: so does the real library.
        """
        if first >= last:
            raise StatusError(f"row range invalid: [ {first}, {last} ), expected first < last")
        if self._port.strict and self._port.map is not None:
            count = len(self._port.map.batches)
            if not 0 <= recordbatch_index < count:
                raise StatusError(f"rows of RecordBatch {recordbatch_index}, the design has {count}, counted from 0")
        words = _word(first, "first row"), _word(last, "last row")
        for index, word in enumerate(words, REG_SCHEMA + 2 * recordbatch_index):
            self._port.write_mmio(index, word)

    def set_arguments(self, arguments: Sequence[int] | Mapping[str, int]) -> None:
        """Write custom registers, 32 bits for each argument, from the first one behind the buffer addresses on.

        Arguments by name, which the real library does not have, write the whole register, whatever its width. Where the
        platform is strict and knows its map, more arguments than the design has words for are a `RuleError`.
        """
        words = self._named(arguments) if isinstance(arguments, Mapping) else self._counted(arguments)
        for index, word in words:
            self._port.write_mmio(index, word)

    def write_metadata(self) -> None:
        """Write all row ranges (0 to the number of rows) and buffer addresses; `start` does so the first time."""
        numbers = [_word(rows, f"number of rows of RecordBatch {at}") for at, rows in enumerate(self._context.rows())]
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
        """Start the kernel: metadata the first time, the start bit, then 0."""
        if not self._metadata_written:
            self.write_metadata()
        self._began = time.perf_counter()
        self._port.write_mmio(REG_CONTROL, self.ctrl_start)
        self._port.write_mmio(REG_CONTROL, 0)

    def stop(self) -> None:
        """Stop the kernel: the stop bit, then 0. The real library has no such call."""
        self._port.write_mmio(REG_CONTROL, self.ctrl_stop)
        self._port.write_mmio(REG_CONTROL, 0)

    def get_status(self) -> int:
        """The status register: idle 1, busy 2, done 4."""
        return self._port.read_mmio(REG_STATUS)

    def get_return(self, nptype: Any = np.uint64) -> Any:
        """return0 and return1 as one number, cast to a NumPy type as the real library does (by value, not by bits)."""
        low = self._port.read_mmio(REG_RETURN0)
        high = self._port.read_mmio(REG_RETURN1)
        return np.uint64(high << 32 | low).astype(nptype).item()

    def wait_for_finish(self, poll_interval_usec: int = 0, timeout_seconds: float | None = None) -> Result:
        """Poll the status register until the kernel is done; what it took since `start`.

        Raises what ails a kernel that never finishes, where the real library polls for ever; `StatusError` after
        `timeout_seconds`.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self.get_status() & self.done_status_mask != self.done_status:
            reason = self._port.stuck()
            if reason is not None:
                raise reason
            if deadline is not None and time.monotonic() > deadline:
                raise StatusError(f"the kernel was not done in {timeout_seconds} s")
            if poll_interval_usec:
                time.sleep(poll_interval_usec / 1e6)
            else:
                self._port.wait(POLL_SECONDS)
        buffers = (self._context.get_device_buffer(index) for index in range(self._context.num_buffers()))
        return told(Result(self._port.name, sum(each.size for each in buffers), time.perf_counter() - self._began))

    def poll_until_done(self, poll_interval_usec: int = 0) -> Result:
        """`wait_for_finish`, under its name in release 0.0.20 of the real library."""
        return self.wait_for_finish(poll_interval_usec)

    def get_context(self) -> Context:
        """The context."""
        return self._context

    def _counted(self, arguments: Sequence[int]) -> list[tuple[int, int]]:
        """Registers and what to write to them: the real library counts from its own buffers on."""
        first = REG_SCHEMA + 2 * self._context.num_recordbatches() + 2 * self._context.num_buffers()
        words = [(first + at, _word(argument, f"argument {at}")) for at, argument in enumerate(arguments)]
        if words and self._port.strict and self._port.map is not None:
            _check_arguments(self._port.map, first, len(words))
        return words

    def _named(self, arguments: Mapping[str, int]) -> list[tuple[int, int]]:
        """The same by name; the lowest word of a register comes first."""
        layout = self._port.map
        if layout is None:
            raise StatusError("arguments by name, expected a list for a platform whose register map is not known")
        words = []
        for name, argument in arguments.items():
            custom = layout.custom(name)
            if custom.behaviour != "c":
                raise RuleError(f"argument {name} is a status register, which the kernel sets", rule=CUSTOM_CONTROL)
            bits = _bits(argument, custom.width, f"argument {name}")
            first = layout.register_index(custom.address)
            count = -(-custom.width // REGISTER_BITS)
            words += [(first + at, bits >> REGISTER_BITS * at & U32) for at in range(count)]
        return words


def _check_arguments(layout: FletcherMap, first: int, count: int) -> None:
    """`RuleError` unless `count` registers from number `first` on are custom ones."""
    room = sum(-(-custom.width // REGISTER_BITS) for custom in layout.customs)
    if count > room:
        text = f"{count} arguments, the design has {room} words of custom registers"
        raise RuleError(f"{text}: the others would be written to what is behind them", rule=CUSTOM_SIZE)
    own = layout.register_index(layout.customs[0].address)
    if first != own:
        text = f"argument 0 would be written to register {first}, the design has {layout.customs[0].name} at {own}"
        raise RuleError(f"{text}: queue all RecordBatches before", rule=SAME_IMPLEMENTATION)


def _word(value: Any, what: str) -> int:
    """`value` as the 32 bits of a register; `WireError` for what is no integer, or has more."""
    return _bits(value, REGISTER_BITS, what)


def _bits(value: Any, width: int, what: str) -> int:
    """`value`, of either sign, as that many bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise WireError(f"{what} is {value!r}, expected an integer") from None
    if not -(1 << width - 1) <= number < 1 << width:
        raise WireError(f"{what} is {number:#x}, expected {width} bits")
    return number & mask(width)


def _taken_for(bits: int, name: str, types: dict[str, str]) -> int | float:
    """The bits of a register, or of two, as a number of that type."""
    if name not in types:
        raise StatusError(f"type {name!r} of a register, expected one of {', '.join(types)}")
    found: int | float = struct.unpack(f"<{types[name]}", struct.pack(f"<{types['uint']}", bits))[0]
    return found
