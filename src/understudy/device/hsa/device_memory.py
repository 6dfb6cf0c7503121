"""The memory of a device: blocks, arrays of the host, apertures, watched addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.errors import BeyondModel
from understudy.device.hsa.agents import Agent
from understudy.device.hsa.executor import Executor
from understudy.device.hsa.heap import LARGE_PLACES, SMALL_PLACES, Heap
from understudy.device.hsa.memory_types import MemoryTypes
from understudy.device.hsa.segments import apertures
from understudy.device.hsa.settings import Settings
from understudy.engine.gcn.memory import ADDRESS_BITS, GpuMemory
from understudy.engine.gcn.memory_type import Mtype
from understudy.isa.gcn.target import GFX9

if TYPE_CHECKING:
    from understudy.device.hsa.fences import Fences


class DeviceMemory:
    """What `HsaDevice` offers as memory. Mappings change while `executor` processes no packet."""

    def __init__(self, agent: Agent, settings: Settings, executor: Executor) -> None:
        small = settings.small
        self.memory = GpuMemory(32 if small else ADDRESS_BITS)
        self.memory_types = MemoryTypes(agent, settings.pcie_atomics)
        self.heap = Heap(self.memory, SMALL_PLACES if small else LARGE_PLACES)
        self.apertures = apertures(agent, small)
        self.hidden_private_base = 0 if agent.target.level == GFX9 else self.heap.base
        self.watched: list[range] = []
        self.fences: Fences | None = None
        self._executor = executor

    @property
    def fine_mtype(self) -> Mtype:
        """The memory type that queues, signals and kernel arguments have: what the host sees at once."""
        return self.memory_types.fine.mtype

    def allocate(self, size: int, alignment: int = 64, *, mtype: Mtype | str | None = None, host: bool = False) -> int:
        """Address of `size` zeroed bytes of memory. What is a page or more has an end that is looked after.

        `mtype` and `host` say which memory: see `MemoryTypes.of`. Coarse-grained memory of the device is the default.
        """
        try:
            return self.heap.allocate(size, alignment, self.memory_types.of(mtype, host))
        except (MemoryError, OverflowError, OSError) as error:
            raise BeyondModel(f"{size} bytes of device memory: {error}") from None

    def free(self, address: int) -> None:
        """Give back what `allocate` gave, when no packet is processed; `RuleError` where nothing begins there."""
        if self.heap.is_shared(address):
            self.heap.free(address)
            return
        with self._executor.alone():
            self.heap.free(address)

    def view(self, address: int, size: int) -> memoryview:
        """Guest memory as this process sees it, without a copy."""
        if self.fences is not None:
            self.fences.looked(address, size)
        return self.heap.view(address, size)

    def array(self, address: int, count: int, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """Likewise, as an array."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.view(address, count * kind.itemsize), kind)

    def map(
        self,
        what: Any,
        writable: bool = True,
        name: str = "host memory",
        *,
        mtype: Mtype | str | None = None,
        host: bool = False,
    ) -> int:
        """Make a contiguous array or a region part of guest memory, without a copy; its address.

        `mtype` and `host` as of `allocate`.
        """
        type = self.memory_types.of(mtype, host)
        with self._executor.alone():
            return self.heap.map(what, name, writable, type=type)

    def unmap(self, address: int) -> None:
        """Take out what `map` put there."""
        with self._executor.alone():
            self.heap.unmap(address)

    def block(self, address: int) -> object:
        """What was allocated or mapped at an address: another object as soon as it is something else; or None."""
        return self.heap.block(address)

    def watch(self, address: int, size: int) -> None:
        """Waves whose kernels enable the address watch exception trap when they access these bytes."""
        self.watched.append(range(address, address + size))
