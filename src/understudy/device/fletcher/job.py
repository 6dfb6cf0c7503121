"""What a kernel sees of one start: rows as Arrow arrays, custom registers, the result, and a way to write back."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import index
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa

from understudy.core.errors import RuleError, UnderstudyError, WireError
from understudy.core.words import U64, mask, signed
from understudy.device.fletcher.arrays import as_rows, rebuild, store
from understudy.device.fletcher.map.layout import BatchLayout, FletcherMap, Mode
from understudy.device.fletcher.memory import DeviceMemory, WritableMemory
from understudy.device.fletcher.rules import CUSTOM_STATUS, RANGE_WRITTEN

SLICE_ROWS: Final = 1 << 20
_FLOATS: Final = {"float": (32, "<f"), "double": (64, "<d")}


class KernelFailure(UnderstudyError):
    """A kernel's own function has failed: an exception of its code, or a result that is no integer of 64 bits."""


class Hang(UnderstudyError):
    """The kernel never finishes, as the hardware it stands for would not: busy until it is stopped or reset."""


class JobRegisters(Protocol):
    """The registers of the design, from the kernel's side. Addresses are byte addresses as in the map."""

    def value(self, address: int) -> int:
        """What the control field at `address` holds."""

    def value64(self, address: int) -> int:
        """What the 64 bits from `address` on hold."""

    def set(self, address: int, value: int) -> None:
        """Drive the status field at `address`."""

    def set64(self, address: int, value: int) -> None:
        """Drive the 64 bits from `address` on."""

    def alive(self) -> AbstractContextManager[None]:
        """Within this the host cannot end the job."""


class Moved(Protocol):
    """Is told of rows that a kernel reads or writes."""

    def __call__(self, layout: BatchLayout, batch: pa.RecordBatch, *, begins: bool, ends: bool) -> None:
        """`begins` and `ends` say whether these rows are the first and the last of a command."""


class Job:
    """One start of a kernel. Index ranges and buffer addresses are those of the start; custom registers are live.

    A name may be left out where there is only one RecordBatch of that direction. Errors name the register. Only the
    thread that runs the kernel may use it.
    """

    def __init__(
        self,
        layout: FletcherMap,
        registers: JobRegisters,
        memory: DeviceMemory,
        moved: Moved | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.map = layout
        self.memory = memory
        self._registers = registers
        self._moved = moved
        self._say = say
        self._result = 0
        registers.set64(layout.result, 0)
        # A run-time's map may have two RecordBatches of one name: only addresses are unique.
        self._ranges = {
            batch.first_index: (registers.value(batch.first_index), registers.value(batch.last_index))
            for batch in layout.batches
        }
        self._addresses = {
            batch.first_index: tuple(registers.value64(slot.address) for slot in batch.buffers)
            for batch in layout.batches
        }
        self._written: dict[int, int] = {}

    @property
    def result(self) -> int:
        """The 64-bit result, return0 and return1; what is assigned wraps around."""
        return self._result

    @result.setter
    def result(self, value: int) -> None:
        self._result = whole(value) & U64
        self._registers.set64(self.map.result, self._result)

    def rows(self, name: str | None = None) -> tuple[int, int]:
        """First and last index (exclusive) of a RecordBatch; by default of the one to be read, or the only one."""
        if name is None and len(self.map.batches) == 1:
            name = self.map.batches[0].name
        return self._ranges[self._layout(name, Mode.READ).first_index]

    def batch(self, name: str | None = None) -> pa.RecordBatch:
        """The rows that the host asks for, over device memory without a copy; `RuleError` where they are not there."""
        layout = self._layout(name, Mode.READ)
        first, last = self._ranges[layout.first_index]
        return self._read(layout, first, last)

    def slices(self, name: str | None = None, rows: int = SLICE_ROWS) -> Iterator[pa.RecordBatch]:
        """The same rows, at most `rows` at a time; each slice is looked at when its turn comes."""
        layout = self._layout(name, Mode.READ)
        first, last = self._ranges[layout.first_index]
        if first > last:
            self._read(layout, first, last)
        for start in range(first, last, rows):
            yield self._read(layout, start, min(start + rows, last))

    def write(self, name: str | None, rows: pa.RecordBatch | Mapping[str, Any] | Sequence[Any]) -> None:
        """Write rows behind those this job has written so far; the first one goes to the first index.

        `rows`: a RecordBatch, or columns (Arrow's or NumPy's arrays, lists) by name or in the schema's order.
        `RuleError` if they are none of the schema, if the range of the index registers ends before, or where a buffer
        does not hold them.
        """
        layout = self._layout(name, Mode.WRITE)
        batch = as_rows(layout, rows)
        first, last = self._ranges[layout.first_index]
        done = self._written.get(layout.first_index, 0)
        begin, end = first + done, first + done + batch.num_rows
        if end > last:
            raise RuleError(
                f"the kernel writes rows {begin} to {end} of {layout.name}, {layout.name}_lastidx is {last}",
                rule=RANGE_WRITTEN,
            ).at("register", f"{layout.last_index:#x}", f"{layout.name}_lastidx")
        addresses = self._addresses[layout.first_index]
        with self._registers.alive():
            store(layout, addresses, WritableMemory(self.memory), begin, batch, continues=done > 0)
            self._written[layout.first_index] = done + batch.num_rows
            self._tell(layout, batch, begins=not done, ends=end == last)

    def control(self, name: str, type: str = "uint") -> Any:
        """What custom register `name` holds now, as a "uint", an "int", a "float" (32 bits) or a "double" (64)."""
        custom = self.map.custom(name)
        value = self._registers.value(custom.address)
        if type == "int":
            return signed(value, custom.width)
        if type == "uint":
            return value
        width, code = _FLOATS.get(type, (0, ""))
        if width != custom.width:
            raise WireError(
                f"{name} of {custom.width} bits as {type!r}, expected uint, int, float of 32 bits or double of 64"
            )
        return struct.unpack(code, value.to_bytes(width // 8, "little"))[0]

    def set_status(self, name: str, value: int) -> None:
        """Drive custom register `name`, a status register; `value` is cut to its width."""
        register = self.map.custom(name)
        if register.behaviour != "s":
            raise RuleError(
                f"the kernel drives {name}, a control register, expected a status register (s:{register.width}:{name})",
                rule=CUSTOM_STATUS,
            )
        self._registers.set(register.address, whole(value) & mask(register.width))

    def say(self, text: str) -> None:
        """Tell the device's observers a line of text, where a simulation would print it."""
        if self._say is not None:
            self._say(text)

    def hang(self, reason: str) -> NoReturn:
        """Never finish, for the `reason` that a host is told where it would wait for ever."""
        raise Hang(f"kernel never finishes: {reason}")

    def range_of(self, layout: BatchLayout) -> tuple[int, int]:
        """First and last index (exclusive) of one of the map's RecordBatches."""
        return self._ranges[layout.first_index]

    def addresses(self, name: str | None = None) -> Sequence[int]:
        """The buffer addresses of a RecordBatch, in the order of the map."""
        return self._addresses[self._layout(name, Mode.READ).first_index]

    def _read(self, layout: BatchLayout, first: int, last: int) -> pa.RecordBatch:
        batch = rebuild(layout, self._addresses[layout.first_index], self.memory, first, last)
        begin, end = self._ranges[layout.first_index]
        with self._registers.alive():
            self._tell(layout, batch, begins=first == begin, ends=last == end)
        return batch

    def _tell(self, layout: BatchLayout, batch: pa.RecordBatch, *, begins: bool, ends: bool) -> None:
        if self._moved is not None:
            self._moved(layout, batch, begins=begins, ends=ends)

    def _layout(self, name: str | None, mode: Mode) -> BatchLayout:
        if name is not None:
            return self.map.batch(name)
        fitting = [batch for batch in self.map.batches if batch.mode is mode]
        if len(fitting) != 1:
            known = " ".join(batch.name for batch in self.map.batches) or "none"
            raise KernelFailure(f"{len(fitting)} RecordBatches to {mode.value}, expected the name of one (of: {known})")
        return fitting[0]


def whole(value: object) -> int:
    """An integer of Python's, NumPy's or Arrow's; `KernelFailure` for anything else."""
    number = value.as_py() if isinstance(value, pa.Scalar) else value
    try:
        return index(number)  # type: ignore[arg-type]  # whatever has no __index__ is refused below
    except TypeError:
        shown = " ".join(f"{value!r:.80}".split())
        raise KernelFailure(f"the kernel gives {shown} for a register, expected an integer{_hint(value)}") from None


def _hint(value: object) -> str:
    """What else may have been meant: rows."""
    is_rows = isinstance(value, dict | list | tuple | pa.RecordBatch | pa.Table | pa.Array | pa.ChunkedArray)
    return "; job.write(batch, columns) writes rows" if is_rows else ""
