"""The object that a kernel gets for one start: input rows as Arrow arrays, custom registers, result, output."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import index
from typing import TYPE_CHECKING, Final, Literal, NoReturn, Protocol, TypeAlias, overload

import pyarrow as pa

from softcard.core.errors import RuleError, SoftcardError, WireError
from softcard.core.words import U64, mask, signed
from softcard.device.fletcher.arrays import as_rows, rebuild, store
from softcard.device.fletcher.map.layout import BatchLayout, FletcherMap, Mode
from softcard.device.fletcher.memory import DeviceMemory, WritableMemory
from softcard.device.fletcher.rules import CUSTOM_STATUS, RANGE_WRITTEN

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Column: TypeAlias = "pa.Array | NDArray[np.generic] | Sequence[object]"
"""The values of a column: an Arrow array, a NumPy array, or a sequence of Python objects."""
SLICE_ROWS: Final = 1 << 20
_FLOATS: Final = {"float": (32, "<f"), "double": (64, "<d")}


class KernelFailure(SoftcardError):
    """The error for a kernel function that failed: it raised, or its result is not a 64-bit integer."""


class Hang(SoftcardError):
    """The error for a kernel that never finishes. As in the hardware, it stays busy until it is stopped or reset."""


class JobRegisters(Protocol):
    """The interface by which a kernel accesses its design's registers, by the byte addresses of the map."""

    def value(self, address: int) -> int:
        """Return the value of the control field at `address`."""

    def value64(self, address: int) -> int:
        """Return the 64-bit value of the register at `address`."""

    def set(self, address: int, value: int) -> None:
        """Set the value of the status field at `address`."""

    def set64(self, address: int, value: int) -> None:
        """Set the 64-bit status register at `address` to `value`."""

    def alive(self) -> AbstractContextManager[None]:
        """Return a context manager; the host cannot end the job during its ``with`` block.

        Entering it raises an error if the job has ended."""


class Moved(Protocol):
    """The type of a callback that is called with the rows that a kernel reads or writes."""

    def __call__(self, layout: BatchLayout, batch: pa.RecordBatch, *, begins: bool, ends: bool) -> None:
        """Process rows that a kernel reads or writes; `layout` describes their RecordBatch.

        `begins` is True if `batch` contains the first rows of a command to the hardware stream, `ends` if it contains
        the last ones."""


class Job:
    """One start of a kernel. The index ranges and buffer addresses are those at the time of the start.

    Custom registers have their current values. Many methods have the name of a RecordBatch as a parameter; it
    may be omitted if there is only one RecordBatch of that direction (read or write). Error messages name the
    register whose value is wrong. Only the thread that runs the kernel may use this object."""

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
        """The kernel's 64-bit result, which the host reads from return0 and return1.

        Assigned values wrap around.
        """
        return self._result

    @result.setter
    def result(self, value: int) -> None:
        self._result = whole(value) & U64
        self._registers.set64(self.map.result, self._result)

    def rows(self, name: str | None = None) -> tuple[int, int]:
        """Return the first and the last index (exclusive) that the host has set for a RecordBatch.

        Without `name`, this is the RecordBatch that the kernel reads, or the only RecordBatch."""
        if name is None and len(self.map.batches) == 1:
            name = self.map.batches[0].name
        return self._ranges[self._layout(name, Mode.READ).first_index]

    def batch(self, name: str | None = None) -> pa.RecordBatch:
        """Return the rows of a RecordBatch in the host's index range, as arrays that share device memory.

        Raise `RuleError` if the index range, a buffer address or an offset is wrong, for example if a buffer is too
        small for the range."""
        layout = self._layout(name, Mode.READ)
        first, last = self._ranges[layout.first_index]
        return self._read(layout, first, last)

    def slices(self, name: str | None = None, rows: int = SLICE_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the RecordBatch that `batch` returns in slices of at most `rows` rows.

        The buffers' contents are checked slice by slice: an error in a slice is raised when the iteration reaches
        it."""
        layout = self._layout(name, Mode.READ)
        first, last = self._ranges[layout.first_index]
        if first > last:
            self._read(layout, first, last)
        for start in range(first, last, rows):
            yield self._read(layout, start, min(start + rows, last))

    def write(self, name: str | None, rows: pa.RecordBatch | Mapping[str, Column] | Sequence[Column]) -> None:
        """Write `rows` to a RecordBatch, after the rows that this job has already written to it.

        The first row that the job writes goes to the RecordBatch's first index. `rows` is a RecordBatch, or columns
        (Arrow arrays, NumPy arrays, lists) by name or in the schema's order. Raise `RuleError` if they do not match
        the schema, if they exceed the range of the index registers, or if a buffer is too small for them."""
        layout = self._layout(name, Mode.WRITE)
        batch = as_rows(layout, rows)
        first, last = self._ranges[layout.first_index]
        done = self._written.get(layout.first_index, 0)
        begin, end = first + done, first + done + batch.num_rows
        if end > last:
            raise RuleError(
                f"the kernel writes rows {begin} to {end} of {layout.name}, but {layout.name}_lastidx is {last}",
                rule=RANGE_WRITTEN,
            ).at("register", f"{layout.last_index:#x}", f"{layout.name}_lastidx")
        addresses = self._addresses[layout.first_index]
        with self._registers.alive():
            store(layout, addresses, WritableMemory(self.memory), begin, batch, continues=done > 0)
            self._written[layout.first_index] = done + batch.num_rows
            self._report_rows(layout, batch, begins=not done, ends=end == last)

    @overload
    def control(self, name: str, type: Literal["uint", "int"] = "uint") -> int: ...

    @overload
    def control(self, name: str, type: str) -> int | float: ...

    def control(self, name: str, type: str = "uint") -> int | float:
        """Return the value of the custom register `name`, interpreted as `type`.

        `type` is "uint", "int", "float" (32 bits) or "double" (64 bits).
        """
        custom = self.map.custom(name)
        value = self._registers.value(custom.address)
        if type == "int":
            return signed(value, custom.width)
        if type == "uint":
            return value
        width, code = _FLOATS.get(type, (0, ""))
        if width != custom.width:
            raise WireError(
                f"register {name} of {custom.width} bits cannot be read as {type!r}, expected uint, int, float (32 "
                "bits) or double (64)"
            )
        found: float = struct.unpack(code, value.to_bytes(width // 8, "little"))[0]
        return found

    def set_status(self, name: str, value: int) -> None:
        """Set the custom status register `name` to `value`, truncated to the register's width."""
        register = self.map.custom(name)
        if register.behaviour != "s":
            raise RuleError(
                f"the kernel sets {name}, which is a control register, expected a status register "
                f"(s:{register.width}:{name})",
                rule=CUSTOM_STATUS,
            )
        self._registers.set(register.address, whole(value) & mask(register.width))

    def say(self, text: str) -> None:
        """Emit the line `text` as an event; a simulation of the design would print it."""
        if self._say is not None:
            self._say(text)

    def hang(self, reason: str) -> NoReturn:
        """Make the kernel never finish, for the given `reason`.

        If the host would wait for ever, the wait raises an error that contains `reason`."""
        raise Hang(f"the kernel never finishes: {reason}")

    def range_of(self, layout: BatchLayout) -> tuple[int, int]:
        """Return the first and the last index (exclusive) that the host has set for the RecordBatch `layout`."""
        return self._ranges[layout.first_index]

    def addresses(self, name: str | None = None) -> Sequence[int]:
        """Return the buffer addresses of the RecordBatch called `name`, in the order of the map."""
        return self._addresses[self._layout(name, Mode.READ).first_index]

    def _read(self, layout: BatchLayout, first: int, last: int) -> pa.RecordBatch:
        batch = rebuild(layout, self._addresses[layout.first_index], self.memory, first, last)
        begin, end = self._ranges[layout.first_index]
        with self._registers.alive():
            self._report_rows(layout, batch, begins=first == begin, ends=last == end)
        return batch

    def _report_rows(self, layout: BatchLayout, batch: pa.RecordBatch, *, begins: bool, ends: bool) -> None:
        if self._moved is not None:
            self._moved(layout, batch, begins=begins, ends=ends)

    def _layout(self, name: str | None, mode: Mode) -> BatchLayout:
        if name is not None:
            return self.map.batch(name)
        fitting = [batch for batch in self.map.batches if batch.mode is mode]
        if len(fitting) != 1:
            known = " ".join(batch.name for batch in self.map.batches) or "none"
            raise KernelFailure(
                f"the kernel has {len(fitting)} RecordBatches of mode {mode.value!r}: name one of {known}"
            )
        return fitting[0]


def whole(value: object) -> int:
    """Return a Python, NumPy or Arrow integer as an int; raise `KernelFailure` for any other value."""
    number = value.as_py() if isinstance(value, pa.Scalar) else value
    try:
        return index(number)  # type: ignore[arg-type]  # a value without __index__ is refused below
    except TypeError:
        shown = " ".join(f"{value!r:.80}".split())
        raise KernelFailure(f"the kernel sets a register to {shown}, expected an integer{_hint(value)}") from None


def _hint(value: object) -> str:
    """Return a hint for the error message if `value`, which a kernel returned, looks like rows; return "" otherwise.

    The hint tells the user to write the rows instead of returning them."""
    is_rows = isinstance(value, dict | list | tuple | pa.RecordBatch | pa.Table | pa.Array | pa.ChunkedArray)
    return "; use job.write(batch, columns) to write rows" if is_rows else ""
