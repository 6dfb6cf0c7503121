"""Programs of any kind at the kernel driver's interface: numbers, sizes, pointers and orders that nobody expects."""

from __future__ import annotations

import errno
from collections import Counter
from random import Random

import numpy as np

from softcard.device.kfd import drm, ioctls
from softcard.device.kfd.device import KfdDevice
from softcard.device.kfd.ioctls import AllocFlags, Number, Refused
from tests.device.kfd.rig import PAGE, Program

CALLS = 200
ALLOWED = frozenset(
    (
        errno.EINVAL, errno.EFAULT, errno.ENOMEM, errno.EBUSY, errno.ENOTTY, errno.EPERM, errno.ENOSPC, errno.ENODEV,
        errno.EOPNOTSUPP,
    )
)  # fmt: skip
"""How a call may fail."""
VA = 0x7D00_0000_0000
SIZES = (0, 1, 64, 1024, PAGE, PAGE + 1, 2 * PAGE, 8 * PAGE, 1 << 21, 1 << 32, (1 << 47) - PAGE, (1 << 64) - 1)
DEVICES = (["gfx900"], ["gfx803", "gfx900"], ["gfx906"])


class Chaos:
    """One program. Its pointers lead to memory that is meant for them, or nowhere."""

    def __init__(self, random: Random, here: Program) -> None:
        self.random = random
        self.here = here
        self.scratch = here.own(64 * PAGE)
        gpu_ids = np.array([node.gpu_id for node in here.device.nodes] * 4, np.uint32)
        self.gpu_ids = self.scratch.address + 62 * PAGE
        self.scratch.bytes[62 * PAGE :][: gpu_ids.nbytes] = gpu_ids.view(np.uint8)
        self.reported: Counter[str] = Counter()
        self.handles = [0, 1, (1 << 64) - 1]
        self.mapped = [VA]
        self.queues = [0, 5000]
        self.events = [0, 1 << 31, (1 << 32) - 1]

    def pointer(self) -> int:
        inside = self.scratch.address + self.random.randrange(60 * PAGE)
        choices = (0, 8, inside, inside & -PAGE, inside & -8, VA, VA + PAGE, 1 << 47, (1 << 63) - 8, (1 << 64) - 1)
        return self.random.choice(choices)

    def word(self, bits: int) -> int:
        random = self.random
        return random.choice((0, 1, 2, 3, 8, 100, 1 << bits - 1, (1 << bits) - 1, random.getrandbits(bits)))

    def field(self, name: str, bits: int) -> int:
        """A value that a field of this name may have, mostly."""
        random = self.random
        if random.random() < 0.05:
            return self.word(bits)
        gpu_ids = [node.gpu_id for node in self.here.device.nodes]
        writable = int(AllocFlags.WRITABLE)
        uses = (writable, writable | int(AllocFlags.AQL_QUEUE_MEM), 0)
        flags = [each | use for each in (1, 2, 4, 8, 16, 3) for use in uses]
        chosen: dict[str, list[int]] = {
            "gpu_id": gpu_ids, "handle": self.handles, "queue_id": self.queues, "event_id": self.events,
            "flags": flags, "timeout": [0, 1], "num_events": [0, 1, 3, 1 << 31], "n_devices": [0, 1, 2, 9],
            "queue_type": [0, 1, 1, 2, 3], "event_type": [0, 0, 3, 8, 99], "event_page_offset": [0, *self.handles],
            "num_of_nodes": [0, 1, 2, 1 << 31], "return_size": [0, 4, 400, 1 << 31], "query": [0, 3, 0x15, 0x16, 99],
            "num_cu_mask": [0, 32, 64, 1 << 31], "queue_percentage": [0, 50, 100, 101],
            "ring_size": [0, 1000, 1024, 4096, 1 << 20], "size": [*SIZES, PAGE, PAGE, 2 * PAGE],
            "device_ids_array_ptr": [self.gpu_ids, self.gpu_ids, self.pointer()],
            "va_addr": [VA, VA + random.randrange(64) * PAGE, self.scratch.address, self.pointer()],
            "mmap_offset": [0, self.scratch.address, self.pointer()],
            "ring_base_address": [*self.mapped, self.pointer()],
            "read_pointer_address": [*(each + 128 for each in self.mapped), self.pointer()],
        }  # fmt: skip
        if name in chosen:
            return random.choice(chosen[name]) & (1 << bits) - 1
        return self.pointer() if bits == 64 else self.word(bits)

    def argument(self, number: int) -> bytes:
        known = self.here.process._handlers.get(number)
        if known is None or self.random.random() < 0.05:
            return self.random.randbytes(self.random.choice((0, 1, 8, 40, 88, 200)))
        record = known[0]
        data = bytearray(record.size_bytes)
        for slot in record.slots:
            if slot.spec.kind == "word" and not slot.spec.count:
                value = self.field(slot.name, 8 * slot.spec.size)
                data[slot.offset : slot.offset + slot.spec.size] = value.to_bytes(slot.spec.size, "little")
        if number == Number.WAIT_EVENTS and len(data) >= 20:
            data[16:20] = self.random.choice((0, 1)).to_bytes(4, "little")
        return bytes(data)

    def call(self) -> None:
        random = self.random
        number = random.choice([*Number, *Number, random.randrange(256)])
        kind, minor = (drm.TYPE, random.choice((0, 128, 129, 500))) if random.random() < 0.1 else (ioctls.TYPE, 0)
        if random.random() < 0.3:  # what the driver reads there may be anything
            at = random.randrange(60 * PAGE)
            self.scratch.bytes[at : at + 64] = np.frombuffer(random.randbytes(64), np.uint8)
        data = self.argument(number)
        try:
            answer = self.here.raw(number, data, kind, minor)
        except Refused as error:
            self.refused(error)
            return
        assert len(answer) == len(data)
        self.reported["done"] += 1
        if kind == ioctls.TYPE:
            self.keep(number, answer)

    def refused(self, error: Refused) -> None:
        assert error.errno in ALLOWED, error
        assert error.message
        self.reported[errno.errorcode[error.errno]] += 1

    def keep(self, number: int, answer: bytes) -> None:
        """Use later what the driver gave."""
        if number == Number.ALLOC_MEMORY_OF_GPU and len(answer) >= 24:
            self.handles.append(int.from_bytes(answer[16:24], "little"))
            self.mapped = [*self.mapped[-5:], int.from_bytes(answer[:8], "little")]
        elif number == Number.CREATE_QUEUE and len(answer) >= 56:
            self.queues.append(int.from_bytes(answer[52:56], "little"))
        elif number == Number.CREATE_EVENT and len(answer) >= 28:
            self.events.append(int.from_bytes(answer[24:28], "little"))
        self.handles, self.queues, self.events = self.handles[-20:], self.queues[-20:], self.events[-20:]

    def ring(self) -> None:
        """Store anything to any doorbell."""
        for page in self.here.client.shared.doorbells:
            words = page.view(np.uint64)
            words[self.random.randrange(8)] = self.word(64)


def check(random: Random, calls: int = CALLS) -> Counter[str]:
    """A program makes `calls` calls; then another one finds the driver as it should be. How the calls ended."""
    device = KfdDevice(random.choice(DEVICES), time_limit_seconds=5.0)
    try:
        chaos = Chaos(random, Program(device))
        for _ in range(calls):
            chaos.call()
            if random.random() < 0.05:
                chaos.ring()
        for agent in chaos.here.process._agents.values():
            for service in (agent._aql_service, agent._sdma_service):
                assert service.failure is None, service.failure
        device.close_process(chaos.here.number)
        other = Program(device)
        found = other.allocate(VA, PAGE)
        assert other.map(found.handle) == 1
    finally:
        device.close()
    return chaos.reported
