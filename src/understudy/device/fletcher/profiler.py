"""The profile counters, and the simple model of the streams that they count.

The model: a command for the rows of a RecordBatch moves the streams of all its fields at once. It costs `LATENCY`
cycles until the first elements come; then each stream moves what fits one cycle (`fletcher_epc` elements of values,
`fletcher_lepc` lengths) in every cycle, and nobody ever waits. So for one command

- a stream's transfers and valids are its elements over its elements per cycle, rounded up; each list or string
  separately, and one transfer for an empty one, as the readers' streams have it;
- its readies are the cycles of the whole command: `LATENCY` and the transfers of its longest stream;
- its packets are 1, below a list the number of lists: what ends with `last`.

The clock stands still while no kernel works; each start costs `HANDSHAKE` cycles besides its commands. With these
numbers the profile of the Sum example over four rows is the simulated one: valids 4, readies 34, transfers 4, packets
1, cycles 39.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from understudy.core.words import U32
from understudy.device.fletcher.bus_words import FieldStore
from understudy.device.fletcher.map.layout import BatchLayout, FletcherMap, ProfileStream
from understudy.device.fletcher.map.registers import COUNTERS
from understudy.device.fletcher.traffic import Traffic, traffic

LATENCY: Final = 30
HANDSHAKE: Final = 5
_OFFSETS: Final = {register.name: register.offset for register in COUNTERS}


class Profiler:
    """Counts into the status fields of the map. `counts_elements` is False for the hardware, where it never counts."""

    def __init__(self, layout: FletcherMap, store: FieldStore, *, counts_elements: bool) -> None:
        self._map = layout
        self._store = store
        self._counts_elements = counts_elements

    @property
    def enabled(self) -> bool:
        """Whether bit 0 of Profile_enable is set; never where there is no such register."""
        address = self._map.profile_enable
        return address is not None and bool(self._store.value(address) & 1)

    def clear(self) -> None:
        """All counters are 0."""
        for stream in self._map.streams:
            for offset in _OFFSETS.values():
                self._store.set(stream.address + offset, 0)

    def started(self) -> None:
        """A kernel starts: the cycles of its handshake."""
        self._tick(HANDSHAKE)

    def moved(self, layout: BatchLayout, batch: pa.RecordBatch, *, begins: bool, ends: bool) -> None:
        """Rows of a RecordBatch move; `begins` and `ends` say whether the command does with them."""
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
