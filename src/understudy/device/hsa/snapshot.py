"""The state of a device, to keep and to go back to: all that a guest can see or that later events follow from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from understudy.core.errors import RuleError
from understudy.core.snapshot import Stateful
from understudy.core.telemetry import Telemetry
from understudy.device.hsa.device_memory import DeviceMemory
from understudy.device.hsa.events import DeviceRestored
from understudy.device.hsa.executor import Executor
from understudy.device.hsa.queue_table import QueueTable
from understudy.device.hsa.queues import Queue

if TYPE_CHECKING:
    from understudy.device.hsa.fences import Fences


@dataclass(frozen=True, slots=True, eq=False)
class DeviceState:
    """A device's whole state, for `HsaDevice.restore`; to be kept, not to be looked into."""

    owner: object = field(repr=False)
    time: int
    parts: Any = field(repr=False)
    queues: tuple[tuple[Queue, Any], ...] = field(repr=False)


class Keeper(Stateful):
    """Takes the state of a device between two packets, and brings it back. Made when the device is complete."""

    STATE = ("_heap", "_given", "_state", "_executor", "_watched", "_findings", "_fences")

    def __init__(
        self,
        memory: DeviceMemory,
        executor: Executor,
        table: QueueTable,
        fences: Fences | None,
        findings: list[Any],
        ticks: memoryview,
        telemetry: Telemetry,
    ) -> None:
        self._heap, self._given, self._watched = memory.heap, memory.given, memory.watched
        self._state = memory.state
        self._executor = executor
        self._table = table
        self._fences = fences
        self._findings = findings
        self._ticks = ticks
        self._telemetry = telemetry
        self._first = self.snapshot()

    def snapshot(self) -> DeviceState:
        """See `HsaDevice.snapshot`."""
        with self._between_packets("a snapshot"):
            queues = tuple((queue, queue.snapshot()) for queue in self._executor.queues)
            return DeviceState(self, self._ticks[0], super().snapshot(), queues)

    def restore(self, state: DeviceState) -> None:
        """See `HsaDevice.restore`."""
        if state.owner is not self:
            raise RuleError("the state is another device's, expected one that snapshot() of this device gave")
        with self._between_packets("a restore"):
            for queue in self._executor.queues:
                queue.end()
            self._ticks[0] = state.time
            super().restore(state.parts)
            self._table.doorbells.clear()
            for queue, its in state.queues:
                queue.restore(its)
                self._table.doorbells[queue.slot] = queue
        self._telemetry.emit(DeviceRestored)

    def reset(self) -> None:
        """See `HsaDevice.reset`."""
        self.restore(self._first)

    @contextmanager
    def _between_packets(self, what: str) -> Iterator[None]:
        """Nobody processes packets, makes queues or rings doorbells in here."""
        if self._executor.is_mine:
            raise RuleError(f"{what} while a packet is processed, expected it outside of callbacks")
        with self._executor.alone(), self._table.lock, self._executor.lock:
            yield
