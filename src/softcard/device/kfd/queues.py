"""Queues that a program creates: rings of AQL packets, which an HSA device adopts, of copy engines, and of PM4
commands."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from softcard.core.errors import AccessFault, RuleError, SoftcardError
from softcard.core.limits import Stopped, Watch
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.exceptions import QueueError
from softcard.device.hsa.launch.registers import ComputeRegisters, DispatchDirect
from softcard.device.hsa.pm4 import DWORD, Command, Commands, check_size, next_command
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import PACKET_BYTES, KernelDispatchPacket, PacketType
from softcard.device.hsa.queues.records import AmdQueue
from softcard.device.kfd.address_space import AddressSpace
from softcard.device.kfd.host_races import CopyEngineOrder
from softcard.device.kfd.ioctls import CreateQueue, QueueKind, Refused, UpdateQueue, boot_nanoseconds
from softcard.device.kfd.loaded_code import kernel_name
from softcard.device.kfd.node import Node
from softcard.device.kfd.sdma import SdmaQueue
from softcard.device.kfd.serving import NEVER_RUNG, SLOTS, AqlEngine, Doorbells, RingEngine, Service

# ---- one compute queue -----------------------------------------------------------------------------------------------
# Compute queues of PM4 commands (queue type 0 of the driver): rings, and the commands that start kernels.
#
# A queue executes one command after the other: the kernel of a DISPATCH_DIRECT has ended before the next command
# begins.


CONTEXT_BITS: Final = 32
"""The number of valid bits of the event number in an interrupt of RELEASE_MEM."""


class ComputeQueue:
    """One PM4 queue of an agent.

    `position` is the start of the next command, and `limit` is the end of the submitted commands. Both are in dwords
    since the queue was created. `error` is the error that stopped the queue. `interrupt` is called with the number of
    an event and its number of valid bits."""

    def __init__(
        self, number: int, device: HsaDevice, space: AddressSpace, ring: int, size: int, read_pointer: int,
        interrupt: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        self.number = number
        self.position = 0
        self.limit = 0
        self.error: SoftcardError | None = None
        self.is_active = True
        self.commands = 0
        """The number of executed commands, which identifies a command in traces."""
        self._device = device
        self._space = space
        self._ring = ring
        self._dwords = size // DWORD
        self._read_pointer = read_pointer
        self._registers = ComputeRegisters()
        self._executor = Commands(
            space, device.flush_caches, lambda event: interrupt(event, CONTEXT_BITS), boot_nanoseconds,
            {Command.DISPATCH_DIRECT: self._dispatch, Command.SET_SH_REG: self._set_registers},
        )  # fmt: skip
        self._watch = Watch(device.settings.time_limit_seconds)

    def ring(self, value: int) -> None:
        """Handle a store of `value` to the queue's doorbell: the end of the commands submitted so far, in dwords."""
        self.limit = self.end_of(value)

    def end_of(self, value: int) -> int:
        """Return the end of the commands that the doorbell value `value` announces."""
        return min(value, self.position + self._dwords) if value > self.position else self.limit

    @property
    def has_work(self) -> bool:
        """True if submitted commands remain, whether they can run or have to wait."""
        is_left = self.position < self.limit or self._executor.buffer is not None
        return self.error is None and self.is_active and is_left

    def stop(self, why: str) -> None:
        """End the running kernel because of `why`; no further command begins."""
        self._watch.stopped = why

    def work(self) -> int:
        """Execute commands until one has to wait; return the number of executed commands."""
        done = 0
        while self.has_work and not self._watch.stopped:
            try:
                if not self._one():
                    break
            except Stopped as stopped:
                self.error = stopped
                break
            except SoftcardError as error:
                self.error = error.at("dword of the ring", f"{self.position:#x}").at("PM4 queue", self.number)
                raise
            self.commands += 1
            done += 1
        return done

    def _one(self) -> bool:
        """Execute the next command of the indirect buffer or of the ring; return False if it has to wait."""
        if self._executor.buffer is not None:
            return self._executor.execute_next()
        opcode, body = next_command(self._words, self.limit - self.position)
        if not self._executor.execute(opcode, body):
            return False
        self.position += 1 + len(body)
        shown = self.position % self._dwords
        self._space.store(self._read_pointer, memoryview(bytearray(shown.to_bytes(DWORD, "little"))))
        return True

    def _words(self, count: int) -> Sequence[int]:
        """Return `count` dwords of the ring from the next command on; the ring wraps around."""
        start = self.position % self._dwords
        first = min(count, self._dwords - start)
        data = self._space.load(self._ring + DWORD * start, DWORD * first)
        if first < count:
            data += self._space.load(self._ring, DWORD * (count - first))
        found: list[int] = np.frombuffer(data, "<u4").tolist()
        return found

    # ---- commands by opcode --------------------------------------------------------------------------------------

    def _set_registers(self, body: list[int]) -> bool:
        if len(body) < 2:
            raise RuleError(f"SET_SH_REG has {len(body)} dwords after its header, expected 2 or more")
        self._registers.store(body[0] & 0xFFFF, body[1:])
        return True

    def _dispatch(self, body: list[int]) -> bool:
        check_size(Command.DISPATCH_DIRECT, body, len(DispatchDirect._fields))
        self._device.run_registers(self._registers, DispatchDirect(*body), self.number, self.commands, self._watch)
        return True


# ---- the queues of a process -----------------------------------------------------------------------------------------
LEAST_RING: Final = 1024
MOST_RING: Final = 1 << 26
FULL_PERCENT: Final = 100
MOST_PRIORITY: Final = 15
_READ_AT: Final = AmdQueue.offset_of("read_dispatch_id")

AnyQueue = Queue | SdmaQueue | ComputeQueue
Failed = Callable[[Node, int, SoftcardError], None]
"""A function that is called when a queue has stopped: with its agent, its number, and the error."""


class AgentQueues:
    """The queues of one process on one agent, and the threads that serve them."""

    def __init__(
        self, node: Node, device: HsaDevice, space: AddressSpace, doorbells: Callable[[], Doorbells],
        interrupt: Callable[..., None], failed: Failed, order: CopyEngineOrder | None = None,
    ) -> None:  # fmt: skip
        self.node = node
        self._order = order
        self._device = device
        self._space = space
        self._interrupt = interrupt
        self._failed = failed
        self._page = doorbells()
        self._copies = RingEngine(lambda queue, error: failed(node, queue.number, error))
        name = f"softcard-{node.agent.name}"
        packets = AqlEngine(device)
        self._aql_service = Service(packets, self._page, name)
        packets.poll_during_kernels(self._aql_service.poll)
        self._sdma_service = Service(self._copies, doorbells(), f"{name}-sdma")
        self._commands = RingEngine(lambda queue, error: failed(node, queue.number, error))
        self._pm4_service = Service(self._commands, doorbells(), f"{name}-pm4")
        services = self._aql_service, self._sdma_service, self._pm4_service
        for service in services:
            service.others += [each for each in services if each is not service]
        self._known: dict[int, AnyQueue] = {}

    def create(self, number: int, arguments: CreateQueue) -> int:
        """Create queue `number`, which uses the doorbell with the same number.

        Return the byte offset of this doorbell in the agent's page of doorbells."""
        if arguments.queue_type == QueueKind.COMPUTE_AQL:
            self._known[number] = self._adopted(number, arguments)
            self._aql_service.add(number, 0 if self.node.is_legacy else NEVER_RUNG)
            return self._page.offset(number)
        ring, size = arguments.ring_base_address, arguments.ring_size
        self._check(ring, size, "ring")
        self._check(arguments.read_pointer_address, 8, "read pointer")
        if arguments.queue_type == QueueKind.COMPUTE:
            commands = ComputeQueue(
                number, self._device, self._space, ring, size, arguments.read_pointer_address, self._interrupt
            )
            self._known[number] = commands
            self._commands.add(commands)
            self._pm4_service.add(number, 0)
        else:
            queue = SdmaQueue(
                number, self._space, ring, size, arguments.read_pointer_address,
                is_legacy=self.node.is_legacy, has_wide_counts=self.node.has_wide_counts, interrupt=self._interrupt,
                order=self._order,
            )  # fmt: skip
            self._known[number] = queue
            self._copies.add(queue)
            self._sdma_service.add(number, 0)
        return self._page.offset(number)

    def _adopted(self, number: int, arguments: CreateQueue) -> Queue:
        """Adopt the program's ring of AQL packets as queue `number` of the HSA device.

        The ioctl passes the address of the read pointer. This is a field of the queue's amd_queue_t, so the address
        of the amd_queue_t can be computed from it. The ring is that of the ioctl. Of a ring that legacy hardware maps
        twice, the ioctl passes the size of both halves, so there the ring is that of the amd_queue_t."""
        ring = None if self.node.is_legacy else arguments.ring_base_address
        try:
            return self._device.adopt_queue(
                arguments.read_pointer_address - _READ_AT,
                number,
                None if ring is None else arguments.ring_size // PACKET_BYTES,
                ring=ring,
                on_error=lambda queue, code, error: self._stopped(queue, number, code, error),
            )
        except AccessFault as error:
            raise Refused(error.message, errno.EFAULT) from None
        except SoftcardError as error:
            raise Refused(str(error)) from None

    def _stopped(self, queue: Queue, number: int, code: int, error: SoftcardError) -> None:
        if code & QueueError.INSUFFICIENT_SCRATCH:
            return  # the run-time library provides the private memory, and the packet starts again
        packet = queue.packet(queue.load_read_index())
        if packet[0] == PacketType.KERNEL_DISPATCH:
            name = kernel_name(self._space.memory, KernelDispatchPacket.parse(packet).kernel_object)
            if name:
                error.at("kernel", name)
        self._failed(self.node, number, error)

    def _check(self, address: int, size: int, what: str) -> None:
        if self._space.memory.plain(address, size, store=True) is None:
            raise Refused(f"the {what} must be in RAM, but {size:#x} bytes at {address:#x} are not", errno.EFAULT)

    def destroy(self, number: int) -> None:
        """End a queue of this agent; the packet that is being processed ends first."""
        queue = self._known.pop(number)
        if isinstance(queue, SdmaQueue):
            self._sdma_service.remove(number)
            self._copies.remove(number)
        elif isinstance(queue, ComputeQueue):
            queue.stop("the queue was destroyed")
            self._pm4_service.remove(number)
            self._commands.remove(number)
        else:
            self._aql_service.remove(number)
            self._device.destroy_queue(queue)

    def set_active(self, number: int, active: bool) -> None:
        """Resume serving a queue if `active`, else stop serving it."""
        queue = self._known[number]
        if not isinstance(queue, Queue):
            queue.is_active = active
        elif queue.is_active != active:
            self._device.set_active(queue, active)

    def find(self, number: int) -> AnyQueue | None:
        """Return the queue with this number; None if this agent has none."""
        return self._known.get(number)

    def pending(self) -> dict[int, tuple[int, int]]:
        """Return the range of submitted work that is not done, by queue number.

        A range is a start and an end: packet indices of an AQL queue, bytes of a copy queue, dwords of a PM4 queue.
        """
        found = {}
        for number, queue in tuple(self._known.items()):
            if not isinstance(queue, Queue):
                start, end = queue.position, queue.end_of(self._page.value(number))
            else:
                start, end = queue.load_read_index(), queue.peek_write_index()
            if start < end:
                found[number] = start, end
        return found

    def close(self) -> None:
        """End all queues, the running kernels, and the threads."""
        for queue in tuple(self._known.values()):
            if isinstance(queue, ComputeQueue):
                queue.stop("the driver was closed")
        self._device.close()
        self._pm4_service.close()
        self._sdma_service.close()
        self._aql_service.close()
        for number in tuple(self._known):
            self.destroy(number)


class Queues:
    """The queues of one process. A queue has the number of its doorbell, which is unique across agents."""

    def __init__(self, agents: Callable[[int], AgentQueues]) -> None:
        self._agents = agents
        self._lock = threading.Lock()
        self._owners: dict[int, AgentQueues] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def create(self, arguments: CreateQueue) -> tuple[int, int]:
        """Carry out the ioctl CREATE_QUEUE; return the queue's number, and the byte offset of its doorbell.

        The offset counts from the start of the agent's page of doorbells."""
        if arguments.queue_type not in list(QueueKind):
            raise Refused(f"the queue type is {arguments.queue_type}, expected PM4 (0), SDMA (1 or 3) or AQL (2)")
        size = arguments.ring_size
        if size & size - 1 or not LEAST_RING <= size <= MOST_RING:
            raise Refused(
                f"the size of the ring is {size} bytes, expected a power of two from {LEAST_RING} to {MOST_RING}"
            )
        if arguments.queue_percentage > FULL_PERCENT or arguments.queue_priority > MOST_PRIORITY:
            raise Refused(
                f"the queue has a share of {arguments.queue_percentage} % and priority {arguments.queue_priority}, "
                f"expected at most {FULL_PERCENT} and {MOST_PRIORITY}"
            )
        agent = self._agents(arguments.gpu_id)
        node = agent.node
        if arguments.queue_type == QueueKind.COMPUTE and not node.has_compute_queues:
            raise Refused(f"PM4 queues of {node.agent.name} are not modelled: use an agent from gfx900 on, or AQL")
        if arguments.queue_type == QueueKind.SDMA_XGMI and not node.product.xgmi_engines:
            raise Refused(f"{node.agent.name} has no copy engines for XGMI, expected queue type {QueueKind.SDMA:d}")
        with self._lock:
            number = next((each for each in range(1, SLOTS) if each not in self._owners), 0)
            if not number:
                raise Refused(f"all {SLOTS - 1} queues are in use", errno.ENOMEM)
            offset = agent.create(number, arguments)
            self._owners[number] = agent
        return number, offset

    def destroy(self, number: int) -> None:
        """Carry out the ioctl DESTROY_QUEUE for queue `number`."""
        with self._lock:
            agent = self._find(number)
            del self._owners[number]
        agent.destroy(number)

    def update(self, arguments: UpdateQueue) -> None:
        """Carry out the ioctl UPDATE_QUEUE, which changes a queue's ring or its percentage of time.

        A queue without a ring, or with percentage 0, is not served."""
        if arguments.queue_percentage > FULL_PERCENT or arguments.queue_priority > MOST_PRIORITY:
            raise Refused(
                f"the queue has a share of {arguments.queue_percentage} % and priority {arguments.queue_priority}, "
                f"expected at most {FULL_PERCENT} and {MOST_PRIORITY}"
            )
        self._find(arguments.queue_id).set_active(
            arguments.queue_id, bool(arguments.queue_percentage and arguments.ring_base_address)
        )

    def check(self, number: int) -> None:
        """Raise `Refused` for an unknown queue."""
        self._find(number)

    def close(self) -> None:
        """Forget all queues. The `AgentQueues` objects of the agents end them."""
        with self._lock:
            self._owners.clear()

    def _find(self, number: int) -> AgentQueues:
        agent = self._owners.get(number)
        if agent is None:
            raise Refused(f"no queue has number {number}")
        return agent
