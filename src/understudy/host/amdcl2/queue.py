"""The device's queue of AMD OpenCL 2.0 programs: its memory, and the table of kernels that may be enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import WireError
from understudy.device.amdcl2.queue_shape import QueueShape
from understudy.device.amdcl2.scheduler import make_queue
from understudy.host.amdcl2.memory import DeviceMemory
from understudy.image.amdcl2.build import FIRST_KERNEL_ID
from understudy.image.amdcl2.container import Container

MAX_KERNEL_INDEX: Final = 0xFFFF - FIRST_KERNEL_ID
"""Largest kernel_index that goes with a kernel id of 16 bits."""


@dataclass(frozen=True, slots=True)
class PlacedQueue:
    """A queue in device memory: where its header and the slot of the host's kernel lie, and what to release."""

    address: int
    parent: int
    shape: QueueShape
    blocks: tuple[int, ...]


def place_queue(
    memory: DeviceMemory, container: Container, kernels: Mapping[str, int], shape: QueueShape
) -> PlacedQueue:
    """An empty queue. `kernels` are the addresses of code objects; `WireError` for indices that no driver writes."""
    table = _kernel_table(container, kernels)
    at, ram = memory.allocate(len(table), "kernel table")
    ram.view[: len(table)] = table
    address, _ = memory.allocate(shape.size_bytes, "device queue")
    kernarg, _ = memory.allocate(shape.kernarg_bytes, "arguments of enqueued kernels")
    parent = make_queue(memory.gpu, address, kernarg, shape, at)
    return PlacedQueue(address, parent, shape, (at, address, kernarg))


def release_queue(memory: DeviceMemory, queue: PlacedQueue) -> None:
    """Take a queue's memory away."""
    for block in queue.blocks:
        memory.release(block)


def _kernel_table(container: Container, kernels: Mapping[str, int]) -> bytes:
    """Addresses of code objects, each as long as a pointer, by the kernel_index that their metadata has."""
    size = container.bits // 8
    places: dict[int, int] = {}
    for name, address in kernels.items():
        try:
            index = container.metadata(name).queue.kernel_index
        except WireError:
            continue  # without metadata nobody knows its number
        if index > MAX_KERNEL_INDEX:
            raise WireError(f"kernel_index {index}, expected at most {MAX_KERNEL_INDEX}").at("kernel", name)
        places[index] = address
    table = [places.get(index, 0) for index in range(max(places, default=0) + 1)]
    return b"".join(address.to_bytes(size, "little") for address in table)
