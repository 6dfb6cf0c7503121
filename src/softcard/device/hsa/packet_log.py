"""The events of packets that the simulator's native code (`native_packets`) has processed.

They are made from a log, in the order of the packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from softcard.core.device import Telemetry
from softcard.core.event import Event
from softcard.core.rule import Rule
from softcard.core.words import signed
from softcard.device.hsa import rules
from softcard.device.hsa.events import PacketCompleted, PacketStarted, SignalChanged
from softcard.device.hsa.launch.plan import KERNARG_BYTES
from softcard.device.hsa.native_packets import L
from softcard.device.hsa.queues.packets import (
    ACQUIRE_SHIFT,
    PACKET_BYTES,
    RELEASE_SHIFT,
    Packet,
    PacketType,
    is_pm4,
    packet_record,
    reserved_names,
)

ROWS: Final = 1024
"""The capacity of the log in packets; when it is full, the events of the logged packets are emitted."""
CACHED_PACKETS: Final = 4096
"""The maximum number of packets whose decoded contents are cached."""
_TYPES: Final = {int(kind): kind for kind in PacketType}
_PACKET: Final = L["packet0"]


class PacketContents(NamedTuple):
    """The decoded contents of a packet: its type, its record, and lints about it.

    Type and record are None if they are unknown."""

    type: PacketType | None
    record: Packet | None
    oddities: tuple[tuple[str, str, Rule], ...]


class PacketLog:
    """A log of the packets that `native_packets` has processed, from which events and lints are emitted.

    `bits` is the width of signal values. `address` is the memory to which the native code writes an entry for
    each packet."""

    def __init__(self, telemetry: Telemetry, bits: int) -> None:
        self._telemetry = telemetry
        self._bits = bits
        self._rows = np.zeros((ROWS, len(L)), np.uint64)
        self.address = int(self._rows.ctypes.data)
        self._contents: dict[bytes, PacketContents] = {}

    def emit(self, queue: int, count: int) -> None:
        """Emit the events of the first `count` rows of the log, which are packets of queue number `queue`."""
        if count:
            self._telemetry.probes.emit_all(self._events(queue, self._rows[:count]))

    def _events(self, queue: int, rows: npt.NDArray[np.uint64]) -> Iterator[Event]:
        packets = np.ascontiguousarray(rows[:, _PACKET:]).tobytes()
        for at, (index, start, end, instructions, signal, value) in enumerate(rows[:, :_PACKET].tolist()):
            yield from self.started(queue, index, packets[PACKET_BYTES * at : PACKET_BYTES * (at + 1)], start)
            yield PacketCompleted(end, queue, index, instructions)
            if signal:
                yield SignalChanged(end, signal, signed(value, self._bits) - 1)

    def started(self, queue: int, index: int, data: bytes, time: int) -> Iterator[Event]:
        """Yield the event of the start of a packet, if its type is known, and lints about the packet."""
        kind, record, oddities = self._contents.get(data) or self._decode(data)
        if self._telemetry.listened and kind is not None:
            yield PacketStarted(time, queue, index, kind, record)
        for check, text, rule in oddities:
            self._telemetry.lint(check, f"packet {index}: {text}", rule, time)

    def _decode(self, data: bytes) -> PacketContents:
        if len(self._contents) == CACHED_PACKETS:
            self._contents.clear()
        found = self._contents[data] = PacketContents(_type(data), packet_record(data), tuple(_oddities(data)))
        return found


def _type(data: bytes) -> PacketType | None:
    return PacketType.VENDOR_SPECIFIC if is_pm4(data) else _TYPES.get(data[0])


def _oddities(data: bytes) -> Iterator[tuple[str, str, Rule]]:
    header = int.from_bytes(data[:2], "little")
    if 3 in (header >> ACQUIRE_SHIFT & 3, header >> RELEASE_SHIFT & 3):
        yield (
            "fence-scope",
            "a fence scope is 3, which is reserved, expected none (0), agent (1) or system (2)",
            rules.FENCE_SCOPES,
        )
    kernarg = int.from_bytes(data[40:48], "little") if header & 0xFF == PacketType.KERNEL_DISPATCH else 0
    if kernarg % KERNARG_BYTES:
        text = f"kernarg_address is {kernarg:#x}, expected a multiple of {KERNARG_BYTES}"
        yield "kernarg-alignment", text, rules.KERNARG_ALIGNMENT
    if names := reserved_names(data):
        yield "reserved", f"{', '.join(names)} must be 0", rules.PACKET_TYPES
