"""The memory of a device: blocks, arrays of the host, apertures, watched addresses."""

from __future__ import annotations

from typing import Any

from understudy.core.errors import BeyondModel
from understudy.device.hsa.agents import Agent
from understudy.device.hsa.heap import LARGE_PLACES, SMALL_PLACES, Heap
from understudy.device.hsa.interfaces import Exclusive
from understudy.device.hsa.memory_types import MemoryTypes
from understudy.device.hsa.segments import apertures
from understudy.device.hsa.settings import Settings
from understudy.engine.gcn.memory import ADDRESS_BITS, GpuMemory
from understudy.engine.gcn.memory_type import Mtype
from understudy.isa.gcn.target import GFX9


class DeviceMemory:
    """The memory of one agent: `gpu` is what waves see, `heap` shares it out, `types` are the kinds of it there are.

    `fine_mtype` is that of queues, signals and kernel arguments: what the host sees at once. Mappings change while
    `exclusive` keeps packets from being processed.
    """

    def __init__(self, agent: Agent, settings: Settings, exclusive: Exclusive) -> None:
        small = settings.small
        self.gpu = GpuMemory(32 if small else ADDRESS_BITS)
        self.types = MemoryTypes(agent, settings.pcie_atomics)
        self.fine_mtype = self.types.fine.mtype
        self.heap = Heap(self.gpu, SMALL_PLACES if small else LARGE_PLACES)
        self.apertures = apertures(agent, small)
        self.hidden_private_base = 0 if agent.target.level == GFX9 else self.heap.base
        self.watched: list[range] = []
        self._exclusive = exclusive

    def allocate(self, size: int, alignment: int = 64, *, mtype: Mtype | str | None = None, host: bool = False) -> int:
        """See `HsaDevice.allocate`."""
        try:
            return self.heap.allocate(size, alignment, self.types.of(mtype, host))
        except (MemoryError, OverflowError, OSError) as error:
            raise BeyondModel(f"{size} bytes of device memory: {error}") from None

    def free(self, address: int) -> None:
        """See `HsaDevice.free`."""
        if self.heap.is_shared(address):
            self.heap.free(address)
            return
        with self._exclusive.alone():
            self.heap.free(address)

    def map(self, what: Any, writable: bool, name: str, mtype: Mtype | str | None, host: bool) -> int:
        """See `HsaDevice.map`."""
        type = self.types.of(mtype, host)
        with self._exclusive.alone():
            return self.heap.map(what, name, writable, type=type)

    def unmap(self, address: int) -> None:
        """See `HsaDevice.unmap`."""
        with self._exclusive.alone():
            self.heap.unmap(address)
