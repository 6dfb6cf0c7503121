"""The state of a device, to keep and to go back to: all that a guest can see or that later events follow from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from understudy.core.errors import RuleError
from understudy.device.hsa.events import DeviceRestored
from understudy.device.hsa.executor import Executor, Turns
from understudy.device.hsa.heap import HeapState
from understudy.device.hsa.queues import Queue, QueueState
from understudy.engine.gcn.strict.findings import Finding

if TYPE_CHECKING:
    from understudy.device.hsa.device import HsaDevice


@dataclass(frozen=True, slots=True, eq=False)
class DeviceState:
    """A device's whole state, for `HsaDevice.restore`; to be kept, not to be looked into."""

    device: HsaDevice = field(repr=False)
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
        self, device: HsaDevice, executor: Executor, doorbells: dict[int, Queue], lock: threading.RLock
    ) -> None:
        self._device = device
        self._executor = executor
        self._doorbells = doorbells
        self._lock = lock
        self._first = self.snapshot()

    def snapshot(self) -> DeviceState:
        """See `HsaDevice.snapshot`."""
        device, executor = self._device, self._executor
        with self._between_packets("a snapshot"):
            return DeviceState(
                device,
                device.time,
                device.heap.snapshot(),
                tuple(queue.save() for queue in executor.queues),
                executor.save(),
                tuple(device.watched),
                tuple(device.findings),
                None if device.fences is None else device.fences.save(),
            )

    def restore(self, state: DeviceState) -> None:
        """See `HsaDevice.restore`."""
        device, executor = self._device, self._executor
        if state.device is not device:
            raise RuleError("the state is another device's, expected one that snapshot() of this device gave")
        with self._between_packets("a restore"):
            for queue in executor.queues:
                queue.end()
            device.heap.restore(state.heap)
            device.advance(state.time)
            self._doorbells.clear()
            for saved in state.queues:
                saved.queue.restore(saved)
                self._doorbells[saved.queue.slot] = saved.queue
            executor.restore([saved.queue for saved in state.queues], state.turns)
            device.watched[:], device.findings[:] = state.watched, state.findings
            if device.fences is not None:
                device.fences.restore(state.caches)
        device.telemetry.emit(DeviceRestored)

    def reset(self) -> None:
        """See `HsaDevice.reset`."""
        self.restore(self._first)

    @contextmanager
    def _between_packets(self, what: str) -> Iterator[None]:
        """Nobody processes packets, makes queues or rings doorbells in here."""
        if self._executor.is_mine:
            raise RuleError(f"{what} while a packet is processed, expected it outside of callbacks")
        with self._executor.alone(), self._lock, self._executor.lock:
            yield
