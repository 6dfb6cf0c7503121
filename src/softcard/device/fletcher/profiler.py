"""The profile counters, and a simple model of the streams that they count.

The model: a command for the rows of a RecordBatch transfers the streams of all its fields at the same time.
The first elements come after `LATENCY` cycles. Then each stream transfers as much as fits into one cycle
(`fletcher_epc` elements of values, `fletcher_lepc` lengths) in every cycle, without stalls. So for one
command

- a stream's transfers and valids are its elements divided by its elements per cycle, rounded up; each list or
  string counts separately, and an empty one is one transfer, as in the readers' streams;
- its readies are the cycles of the whole command: `LATENCY` and the transfers of its longest stream;
- its packets are 1, or the number of lists for a stream inside a list: each list ends with `last`.

The clock stops while no kernel works; each start takes `HANDSHAKE` cycles in addition to its commands. With
these numbers, the counters for the Sum example over four rows equal those of a simulation of the hardware:
valids 4, readies 34, transfers 4, packets 1, cycles 39."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from softcard.core.errors import RuleError
from softcard.core.words import U32
from softcard.device.fletcher.bus import FieldStore
from softcard.device.fletcher.map.flatten import (
    LENGTHS_PER_CYCLE,
    VALUES_PER_CYCLE,
    Shape,
    count_per_cycle,
    is_list_of_primitives,
    shape,
)
from softcard.device.fletcher.map.layout import BatchLayout, FletcherMap, ProfileStream
from softcard.device.fletcher.map.registers import COUNTERS

# ---- traffic of streams ----------------------------------------------------------------------------------------------
# The traffic of a RecordBatch's streams, counted on its arrays (see profiler.py for the model).


@dataclass(frozen=True, slots=True)
class Traffic:
    """The numbers of a stream's elements, of the transfers that carry them, and of its packets.

    `packets` is the number of lists whose last element the stream carries; None if the stream is not inside a
    list."""

    elements: int
    transfers: int
    packets: int | None


def traffic(node: tuple[int, ...], schema: pa.Schema, batch: pa.RecordBatch) -> Traffic:
    """Return the traffic of the stream of the array at `node`, for all rows of `batch`."""
    field = schema.field(node[0])
    kind = field.type
    array: Any = batch.column(node[0])
    count = len(array)
    lists: NDArray[np.int64] | None = None
    is_values = shape(kind) in (Shape.FIXED, Shape.STRUCT)
    for index in node[1:]:
        above = kind
        if not is_list_of_primitives(above):  # streams of such lists count their elements too
            field = above.field(index)
        if shape(above) is Shape.STRUCT:
            array = array.field(index)
        else:
            offsets = own_offsets(array)
            lists = np.diff(offsets)
            count = int(offsets[-1] - offsets[0])
            if shape(above) is Shape.BINARY:
                is_values = True
                break
            array = array.values.slice(int(offsets[0]), count)
        kind = above.field(index).type
        is_values = shape(kind) in (Shape.FIXED, Shape.STRUCT)
    per_cycle = _per_cycle(field, VALUES_PER_CYCLE if is_values else LENGTHS_PER_CYCLE)
    if lists is None:
        return Traffic(count, -(-count // per_cycle), None)
    return Traffic(count, int(np.maximum(-(-lists // per_cycle), 1).sum()), len(lists))


def own_offsets(array: Any) -> NDArray[np.int64]:
    """Return the offsets array of a list or string array: one offset for each row, and the end of the last row.

    Offsets of rows outside of `array` are omitted if `array` is a slice that shares its buffers."""
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _per_cycle(field: pa.Field, key: bytes) -> int:
    """Return the number of elements per cycle in the field's metadata `key`; 1 if it is missing or invalid."""
    try:
        return max(count_per_cycle(field, key) or 1, 1)
    except RuleError:
        return 1


# ---- counters --------------------------------------------------------------------------------------------------------


LATENCY: Final = 30
HANDSHAKE: Final = 5
_OFFSETS: Final = {register.name: register.offset for register in COUNTERS}


class Profiler:
    """The profile counters of a design, which are status fields of its register map.

    If `counts_elements` is False, the counters called "elements" stay 0, as in hardware."""

    def __init__(self, layout: FletcherMap, store: FieldStore, *, counts_elements: bool) -> None:
        self._map = layout
        self._store = store
        self._counts_elements = counts_elements

    @property
    def enabled(self) -> bool:
        """True if bit 0 of Profile_enable is set; False if the map has no such register."""
        address = self._map.profile_enable
        return address is not None and bool(self._store.value(address) & 1)

    def clear(self) -> None:
        """Set all counters to 0."""
        for stream in self._map.streams:
            for offset in _OFFSETS.values():
                self._store.set(stream.address + offset, 0)

    def started(self) -> None:
        """Count the cycles of a kernel's start."""
        self._tick(HANDSHAKE)

    def moved(self, layout: BatchLayout, batch: pa.RecordBatch, *, begins: bool, ends: bool) -> None:
        """Count rows of a RecordBatch that the kernel has read or written, in the counters of its streams.

        `begins` is True if `batch` contains the first rows of a command to the hardware stream, `ends` if it
        contains the last ones."""
        if not self.enabled or not self._map.streams:
            return
        number = next(index for index, each in enumerate(self._map.batches) if each is layout)
        streams = [stream for stream in self._map.streams if stream.batch == number]
        found = [(stream, traffic(stream.node, layout.schema, batch)) for stream in streams]
        cycles = max((each.transfers for _, each in found), default=0) + (LATENCY if begins else 0)
        for stream, each in found:
            packets = each.packets if each.packets is not None else int(ends and batch.num_rows > 0)
            self._count(stream, each, packets, cycles)
        self._tick(cycles)

    def _count(self, stream: ProfileStream, moved: Traffic, packets: int, cycles: int) -> None:
        if self._counts_elements:
            self._add(stream, "elements", moved.elements)
        self._add(stream, "valids", moved.transfers)
        self._add(stream, "readies", cycles)
        self._add(stream, "transfers", moved.transfers)
        self._add(stream, "packets", packets)

    def _tick(self, cycles: int) -> None:
        if self.enabled:
            for stream in self._map.streams:
                self._add(stream, "cycles", cycles)

    def _add(self, stream: ProfileStream, counter: str, amount: int) -> None:
        address = stream.address + _OFFSETS[counter]
        self._store.set(address, self._store.value(address) + amount & U32)
