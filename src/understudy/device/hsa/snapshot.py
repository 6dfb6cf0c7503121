"""The state of a device, to keep and to go back to: all that a guest can see or that later events follow from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from understudy.core.errors import RuleError
from understudy.core.telemetry import Telemetry
from understudy.device.hsa.device_memory import DeviceMemory
from understudy.device.hsa.events import DeviceRestored
from understudy.device.hsa.executor import Executor, Turns
from understudy.device.hsa.fences import Fences
from understudy.device.hsa.heap import HeapState
from understudy.device.hsa.queue_table import QueueTable
from understudy.device.hsa.queues import QueueState
from understudy.engine.gcn.strict.findings import Finding


@dataclass(frozen=True, slots=True, eq=False)
class DeviceState:
    """A device's whole state, for `HsaDevice.restore`; to be kept, not to be looked into."""

    owner: object = field(repr=False)
    time: int
    heap: HeapState = field(repr=False)
    queues: tuple[QueueState, ...] = field(repr=False)
    turns: Turns = field(repr=False)
    watched: tuple[range, ...]
    findings: tuple[Finding, ...]
    caches: Any = field(default=None, repr=False)
    """Of a strict memory."""


class Keeper:
    """Takes the state of a device between two packets, and brings it back. Made when the device is complete."""

    def __init__(
        self,
        memory: DeviceMemory,
        executor: Executor,
        table: QueueTable,
        fences: Fences | None,
        findings: list[Finding],
        ticks: memoryview,
        telemetry: Telemetry,
    ) -> None:
        self._memory = memory
        self._executor = executor
        self._table = table
        self._fences = fences
        self._findings = findings
        self._ticks = ticks
        self._telemetry = telemetry
        self._first = self.snapshot()

    def snapshot(self) -> DeviceState:
        """See `HsaDevice.snapshot`."""
        executor = self._executor
        with self._between_packets("a snapshot"):
            return DeviceState(
                self,
                self._ticks[0],
                self._memory.heap.snapshot(),
                tuple(queue.save() for queue in executor.queues),
                executor.save(),
                tuple(self._memory.watched),
                tuple(self._findings),
                None if self._fences is None else self._fences.save(),
            )

    def restore(self, state: DeviceState) -> None:
        """See `HsaDevice.restore`."""
        executor, doorbells = self._executor, self._table.doorbells
        if state.owner is not self:
            raise RuleError("the state is another device's, expected one that snapshot() of this device gave")
        with self._between_packets("a restore"):
            for queue in executor.queues:
                queue.end()
            self._memory.heap.restore(state.heap)
            self._ticks[0] = state.time
            doorbells.clear()
            for saved in state.queues:
                saved.queue.restore(saved)
                doorbells[saved.queue.slot] = saved.queue
            executor.restore([saved.queue for saved in state.queues], state.turns)
            self._memory.watched[:], self._findings[:] = state.watched, state.findings
            if self._fences is not None:
                self._fences.restore(state.caches)
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
