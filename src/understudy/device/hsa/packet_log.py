"""What listeners hear of packets that machine code has processed: the events of each, in order, made of a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.core.event import Event
from understudy.core.rule import Rule
from understudy.core.telemetry import Telemetry
from understudy.core.words import signed
from understudy.device.hsa import rules
from understudy.device.hsa.events import PacketCompleted, PacketStarted, SignalChanged
from understudy.device.hsa.native_packets import L
from understudy.device.hsa.packets import (
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
"""Packets that are processed before events of them are made."""
KEPT: Final = 4096
"""Packets whose meaning is remembered."""
_TYPES: Final = {int(kind): kind for kind in PacketType}
_PACKET: Final = L["packet0"]


class Meaning(NamedTuple):
    """What a packet's bytes say: type and record if they are known, and what should not stand there."""

    type: PacketType | None
    record: Packet | None
    oddities: tuple[tuple[str, str, Rule], ...]


class PacketLog:
    """Tells who listens of packets, and of what is odd about them. `bits`: of signal values.

    `address` is where machine code writes the rows of those that it has processed.
    """

    def __init__(self, telemetry: Telemetry, bits: int) -> None:
        self._telemetry = telemetry
        self._bits = bits
        self._rows = np.zeros((ROWS, len(L)), np.uint64)
        self.address = int(self._rows.ctypes.data)
        self._meanings: dict[bytes, Meaning] = {}

    def tell(self, queue: int, count: int) -> None:
        """Emit the events of the first `count` rows, which are of that queue."""
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
        """The event of a packet of known type that is taken, and lints of what is odd about it."""
        kind, record, oddities = self._meanings.get(data) or self._meaning(data)
        if self._telemetry.listened and kind is not None:
            yield PacketStarted(time, queue, index, kind, record)
        for check, text, rule in oddities:
            self._telemetry.lint(check, f"packet {index}: {text}", rule, time)

    def _meaning(self, data: bytes) -> Meaning:
        if len(self._meanings) == KEPT:
            self._meanings.clear()
        found = self._meanings[data] = Meaning(_type(data), packet_record(data), tuple(_oddities(data)))
        return found


def _type(data: bytes) -> PacketType | None:
    return PacketType.VENDOR_SPECIFIC if is_pm4(data) else _TYPES.get(data[0])


def _oddities(data: bytes) -> Iterator[tuple[str, str, Rule]]:
    header = int.from_bytes(data[:2], "little")
    if 3 in (header >> ACQUIRE_SHIFT & 3, header >> RELEASE_SHIFT & 3):
        yield "fence-scope", "fence scope 3, expected none, agent or system", rules.FENCE_SCOPES
    if names := reserved_names(data):
        yield "reserved", f"{', '.join(names)} must be 0", rules.PACKET_TYPES
