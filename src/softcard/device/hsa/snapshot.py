"""Snapshots of a device: all state that a guest can observe or on which later events depend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softcard.core.device import Telemetry
from softcard.core.errors import RuleError
from softcard.core.snapshot import Stateful
from softcard.device.hsa.events import DeviceRestored
from softcard.device.hsa.executor import Executor
from softcard.device.hsa.memory.device_memory import DeviceMemory
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.queue_table import QueueTable

if TYPE_CHECKING:
    from softcard.device.hsa.fences import Fences


@dataclass(frozen=True, slots=True, eq=False)
class DeviceState:
    """The whole state of an HSA device, an opaque value for `HsaDevice.restore`."""

    owner: object = field(repr=False)
    time: int
    parts: Any = field(repr=False)
    queues: tuple[tuple[Queue, Any], ...] = field(repr=False)


class Keeper(Stateful):
    """The component that saves the state of a device between two packets, and restores it.

    It is created after all other components of the device.
    """

    STATE = ("_heap", "_external", "_state", "_executor", "_watched", "_findings", "_fences")

    def __init__(
        self,
        memory: DeviceMemory,
        executor: Executor,
        table: QueueTable,
        fences: Fences | None,
        findings: list[Any],
        ticks: memoryview,
        telemetry: Telemetry,
        begin_anew: Callable[[], None],
    ) -> None:
        self._heap, self._external, self._watched = memory.heap, memory.external, memory.watched
        self._state = memory.state
        self._executor = executor
        self._table = table
        self._fences = fences
        self._findings = findings
        self._ticks = ticks
        self._telemetry = telemetry
        self._begin_anew = begin_anew
        self._first = self.snapshot()

    def snapshot(self) -> DeviceState:
        """Return the state of the device; see `HsaDevice.snapshot`."""
        with self._between_packets("a snapshot"):
            queues = tuple((queue, queue.snapshot()) for queue in self._executor.queues)
            return DeviceState(self, self._ticks[0], super().snapshot(), queues)

    def restore(self, state: object) -> None:
        """Return the device to a saved state; see `HsaDevice.restore`."""
        if not isinstance(state, DeviceState) or state.owner is not self:
            raise RuleError(
                "cannot restore the snapshot of another device, expected one that snapshot() of this device returned"
            )
        self._go_back(state, "restored")

    def _go_back(self, state: DeviceState, what: str) -> None:
        """End running kernels, then return the device to the saved `state`.

        `what` names the operation in error messages: "restored", or another word for a reset."""
        if not self._executor.is_mine:
            self._executor.stop(f"the device was {what}")
        with self._between_packets("a restore" if what == "restored" else "a reset"):
            for queue in self._executor.queues:
                queue.end()
            self._ticks[0] = state.time
            super().restore(state.parts)
            self._table.doorbells.clear()
            for queue, its in state.queues:
                queue.restore(its)
                self._table.doorbells[queue.slot] = queue
            self._begin_anew()
            self._executor.changed.notify_all()
        self._telemetry.emit(DeviceRestored)

    def reset(self) -> None:
        """Return the device to its initial state; see `HsaDevice.reset`."""
        self._go_back(self._first, "reset")

    @contextmanager
    def _between_packets(self, what: str) -> Iterator[None]:
        """Keep threads from processing packets, creating queues and ringing doorbells during the ``with`` block.

        `what` names the operation in error messages."""
        if self._executor.is_mine:
            raise RuleError(f"{what} is not possible in a callback while a packet is processed")
        with self._executor.alone(), self._table.lock, self._executor.lock:
            yield
