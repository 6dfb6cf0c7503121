"""Queues that a program makes: rings of AQL packets, which an HSA device adopts, and rings of copy engines."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import Final

from understudy.core.errors import AccessFault, UnderstudyError
from understudy.device.hsa.device import HsaDevice
from understudy.device.hsa.exceptions import QueueError
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.device.hsa.packets import PacketType
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.records import AmdQueue
from understudy.device.kfd.address_space import AddressSpace
from understudy.device.kfd.doorbells import NEVER_RUNG, SLOTS, Doorbells
from understudy.device.kfd.errors import Refused
from understudy.device.kfd.ioctls import CreateQueue, QueueKind, UpdateQueue
from understudy.device.kfd.kernel_names import kernel_name
from understudy.device.kfd.node import Node
from understudy.device.kfd.sdma import SdmaQueue
from understudy.device.kfd.serving import AqlEngine, SdmaEngine, Service

LEAST_RING: Final = 1024
MOST_RING: Final = 1 << 26
FULL_PERCENT: Final = 100
MOST_PRIORITY: Final = 15
_READ_AT: Final = AmdQueue.offset_of("read_dispatch_id")

Failed = Callable[[Node, int, UnderstudyError], None]
"""Hears of a queue that has stopped: its agent, its number, and why."""


class AgentQueues:
    """The queues of one process on one agent, and who serves them."""

    def __init__(
        self, node: Node, device: HsaDevice, space: AddressSpace, doorbells: Callable[[], Doorbells],
        interrupt: Callable[[int], None], failed: Failed,
    ) -> None:  # fmt: skip
        self.node = node
        self._device = device
        self._space = space
        self._interrupt = interrupt
        self._failed = failed
        self._page = doorbells()
        self._copies = SdmaEngine(lambda queue, error: failed(node, queue.number, error))
        name = f"understudy-{node.agent.name}"
        packets = AqlEngine(device)
        self._aql_service = Service(packets, self._page, name)
        packets.look_beside(self._aql_service.look)
        self._sdma_service = Service(self._copies, doorbells(), f"{name}-sdma")
        self._aql_service.others.append(self._sdma_service)
        self._sdma_service.others.append(self._aql_service)
        self._known: dict[int, Queue | SdmaQueue] = {}

    def create(self, number: int, asked: CreateQueue) -> int:
        """A queue with this number and doorbell; where that is in the page."""
        if asked.queue_type == QueueKind.COMPUTE_AQL:
            self._known[number] = self._adopted(number, asked)
            self._aql_service.add(number, 0 if self.node.is_legacy else NEVER_RUNG)
        else:
            ring, size = asked.ring_base_address, asked.ring_size
            self._check(ring, size, "ring")
            self._check(asked.read_pointer_address, 8, "read pointer")
            queue = SdmaQueue(
                number, self._space, ring, size, asked.read_pointer_address,
                is_legacy=self.node.is_legacy, interrupt=self._interrupt,
            )  # fmt: skip
            self._known[number] = queue
            with self._copies.lock:
                self._copies.queues[number] = queue
            self._sdma_service.add(number, 0)
        return self._page.offset(number)

    def _adopted(self, number: int, asked: CreateQueue) -> Queue:
        """amd_queue_t lies around the read pointer."""
        try:
            return self._device.adopt_queue(
                asked.read_pointer_address - _READ_AT,
                number,
                on_error=lambda queue, code, error: self._stopped(queue, number, code, error),
            )
        except AccessFault as error:
            raise Refused(error.message, errno.EFAULT) from None
        except UnderstudyError as error:
            raise Refused(str(error)) from None

    def _stopped(self, queue: Queue, number: int, code: int, error: UnderstudyError) -> None:
        if code & QueueError.INSUFFICIENT_SCRATCH:
            return  # the run-time library is asked for private memory, gives it, and the packet starts again
        packet = queue.packet(queue.load_read_index())
        if packet[0] == PacketType.KERNEL_DISPATCH:
            name = kernel_name(self._space.memory, KernelDispatchPacket.parse(packet).kernel_object)
            if name:
                error.at("kernel", name)
        self._failed(self.node, number, error)

    def _check(self, address: int, size: int, what: str) -> None:
        if self._space.memory.plain(address, size, store=True) is None:
            raise Refused(f"no memory for the {what}: {size:#x} bytes at {address:#x}", errno.EFAULT)

    def destroy(self, number: int) -> None:
        """A queue of this agent ends; a packet that is processed ends first."""
        queue = self._known.pop(number)
        if isinstance(queue, SdmaQueue):
            self._sdma_service.remove(number)
            with self._copies.lock:
                self._copies.queues.pop(number, None)
        else:
            self._aql_service.remove(number)
            self._device.destroy_queue(queue)

    def set_active(self, number: int, active: bool) -> None:
        """Stop serving a queue, or go on."""
        queue = self._known[number]
        if isinstance(queue, Queue) and queue.is_active != active:
            self._device.set_active(queue, active)

    def find(self, number: int) -> Queue | SdmaQueue | None:
        """The queue with this number."""
        return self._known.get(number)

    def close(self) -> None:
        """End all: kernels that run, and the threads."""
        self._device.close()
        self._sdma_service.close()
        self._aql_service.close()
        for number in tuple(self._known):
            self.destroy(number)


class Queues:
    """The queues of one process. Numbers are those of their doorbells, and no two agents use the same."""

    def __init__(self, agents: Callable[[int], AgentQueues]) -> None:
        self._agents = agents
        self._lock = threading.Lock()
        self._owners: dict[int, AgentQueues] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def create(self, asked: CreateQueue) -> tuple[int, int]:
        """CREATE_QUEUE: the number, and the doorbell's offset in its agent's page."""
        if asked.queue_type not in (QueueKind.COMPUTE_AQL, QueueKind.SDMA):
            raise Refused(f"a queue of type {asked.queue_type}, expected AQL (2) or copies (1)")
        size = asked.ring_size
        if size & size - 1 or not LEAST_RING <= size <= MOST_RING:
            raise Refused(f"a ring of {size} bytes, expected a power of two from {LEAST_RING} to {MOST_RING}")
        if asked.queue_percentage > FULL_PERCENT or asked.queue_priority > MOST_PRIORITY:
            raise Refused(f"a share of {asked.queue_percentage} % and priority {asked.queue_priority}")
        agent = self._agents(asked.gpu_id)
        with self._lock:
            number = next((each for each in range(1, SLOTS) if each not in self._owners), 0)
            if not number:
                raise Refused(f"all {SLOTS - 1} queues are in use", errno.ENOMEM)
            offset = agent.create(number, asked)
            self._owners[number] = agent
        return number, offset

    def destroy(self, number: int) -> None:
        """DESTROY_QUEUE."""
        with self._lock:
            agent = self._find(number)
            del self._owners[number]
        agent.destroy(number)

    def update(self, asked: UpdateQueue) -> None:
        """UPDATE_QUEUE: a queue without a ring or without a share is not served."""
        if asked.queue_percentage > FULL_PERCENT or asked.queue_priority > MOST_PRIORITY:
            raise Refused(f"a share of {asked.queue_percentage} % and priority {asked.queue_priority}")
        self._find(asked.queue_id).set_active(asked.queue_id, bool(asked.queue_percentage and asked.ring_base_address))

    def check(self, number: int) -> None:
        """`Refused` where there is no such queue."""
        self._find(number)

    def close(self) -> None:
        """There are none any more; their agents end them."""
        with self._lock:
            self._owners.clear()

    def _find(self, number: int) -> AgentQueues:
        agent = self._owners.get(number)
        if agent is None:
            raise Refused(f"no queue {number}")
        return agent
