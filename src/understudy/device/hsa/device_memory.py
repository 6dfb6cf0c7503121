"""The memory of a device: blocks, arrays of the host, apertures, watched addresses."""

from __future__ import annotations

from typing import Any

from understudy.core.errors import BeyondModel, WireError
from understudy.core.memory_check import HOST, MemoryCheck
from understudy.device.hsa.agent_state import AgentState
from understudy.device.hsa.agents import Agent
from understudy.device.hsa.checked_heap import CheckedHeap
from understudy.device.hsa.given import GivenMemory
from understudy.device.hsa.heap import HIGH_PLACES, LARGE_PLACES, MEMORY, SMALL_PLACES, Heap
from understudy.device.hsa.interfaces import Exclusive
from understudy.device.hsa.memory_types import MemoryTypes
from understudy.device.hsa.segments import apertures
from understudy.device.hsa.settings import HIGH, Settings
from understudy.engine.gcn.memory import ADDRESS_BITS, GpuMemory
from understudy.engine.gcn.memory_type import Mtype
from understudy.isa.gcn.target import GFX9


class DeviceMemory:
    """The memory of one agent: `gpu` is what waves see, `heap` shares it out, `types` are the kinds of it there are,
    `state` what the driver says of it.

    `fine_mtype` is that of queues, signals and kernel arguments: what the host sees at once. Blocks are freed
    and arrays taken out while `exclusive` keeps packets from being processed; all else may come and go while waves run.
    With a `check`, bounds of blocks are looked after to the byte.
    """

    def __init__(
        self, agent: Agent, settings: Settings, exclusive: Exclusive, check: MemoryCheck | None = None
    ) -> None:
        small, high = settings.small, settings.own_addresses == HIGH
        if small and high:
            raise WireError("own_addresses='high' with machine_model='small', which has none there")
        self.gpu = GpuMemory(32 if small else ADDRESS_BITS)
        self.types = MemoryTypes(agent, settings.pcie_atomics)
        self.fine_mtype = self.types.fine.mtype
        places = SMALL_PLACES if small else HIGH_PLACES if high else LARGE_PLACES
        self.heap = Heap(self.gpu, places) if check is None else CheckedHeap(self.gpu, check, places)
        self.given = GivenMemory(self.gpu, self.heap.spaces)
        self.apertures = apertures(agent, small)
        self.state = AgentState(0 if agent.target.level == GFX9 else self.heap.base)
        self.watched: list[range] = []
        self._exclusive = exclusive

    def allocate(
        self,
        size: int,
        alignment: int = 64,
        *,
        mtype: Mtype | str | None = None,
        host: bool = False,
        name: str = MEMORY,
    ) -> int:
        """See `HsaDevice.allocate`."""
        try:
            return self.heap.allocate(size, alignment, self.types.of(mtype, host), name)
        except (MemoryError, OverflowError, OSError) as error:
            raise BeyondModel(f"{size} bytes of device memory: {error}") from None

    def free(self, address: int) -> None:
        """See `HsaDevice.free`."""
        if self.heap.is_shared(address):
            self.heap.free(address)
            return
        with self._exclusive.alone():
            self.heap.free(address)

    def map(
        self, what: Any, writable: bool, name: str, mtype: Mtype | str | None, host: bool, used: int | None = None
    ) -> int:
        """See `HsaDevice.map`."""
        return self.heap.map(what, name, writable, type=self.types.of(mtype, host), used=used, owner=HOST)

    def unmap(self, address: int) -> None:
        """See `HsaDevice.unmap`."""
        with self._exclusive.alone():
            self.heap.unmap(address)

    def map_at(self, address: int, what: Any, *, mtype: Mtype | str | None, host: bool, **options: Any) -> None:
        """See `HsaDevice.map_at`."""
        self.given.map(address, what, type=self.types.of(mtype, host), **options)

    def unmap_at(self, address: int, size: int) -> None:
        """See `HsaDevice.unmap_at`."""
        self.given.unmap(address, size)
