"""Many producers and queues at once: no packet is lost, none is processed twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import PACKET_BYTES
from softcard.device.hsa.queues.signals import Condition
from tests.device.hsa.rig import COUNT, Bench, dispatch

Make = Callable[..., Bench]
PRODUCERS = 8
QUEUES = 4
BATCH = 250


class Producer:
    """A thread's work: batches of packets to all queues in turn, each packet with a counter of its own."""

    def __init__(self, rig: Bench, queues: list[Queue], kernel: int, cells: int, count: int) -> None:
        self.rig = rig
        self.queues = queues
        self.cells = cells
        self.count = count
        self.done = rig.device.create_signal(count)
        self.template = np.frombuffer(dispatch(kernel, 0, self.done), np.uint8)
        self.failure: Exception | None = None

    def run(self) -> None:
        """Everything; what goes wrong is told by `failure`."""
        try:
            for start in range(0, self.count, BATCH):
                self.send(self.queues[start // BATCH % len(self.queues)], start, min(BATCH, self.count - start))
        except Exception as failure:  # noqa: BLE001  # a thread's failure is told by the test
            self.failure = failure

    def send(self, queue: Queue, start: int, count: int) -> None:
        """Packets start to start + count."""
        packets = np.tile(self.template, (count, 1))
        addresses = self.cells + 4 * np.arange(start, start + count, dtype=np.uint64)
        packets[:, 40:48] = addresses.view(np.uint8).reshape(-1, 8)
        first = queue.add_write_index(count)
        while first + count - queue.load_read_index() > queue.size:
            queue.device.make_room(queue, first + count - 1)
            time.sleep(0)
        ring, at = queue.ring.reshape(-1, PACKET_BYTES), first & queue.size - 1
        before_end = min(count, queue.size - at)
        for slots, rows in (
            (ring[at : at + before_end], packets[:before_end]),
            (ring[: count - before_end], packets[before_end:]),
        ):
            slots[:, 2:] = rows[:, 2:]
            slots.view(np.uint16)[:, 0] = rows.view(np.uint16)[:, 0]
        queue.doorbell.store(first + count - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "execution", "packets"),
    [("gfx900", "threaded", 1_000_000), ("gfx900", "synchronous", 100_000), ("gfx803", "threaded", 100_000)],
)
def test_no_packet_is_lost_or_doubled(bench: Make, agent: str, execution: str, packets: int) -> None:
    rig = bench(agent, 4096, execution=execution)
    queues = [rig.queue, *(rig.new_queue(4096) for _ in range(QUEUES - 1))]
    each = packets // PRODUCERS
    address = rig.device.allocate(4 * packets)
    counters = rig.device.array(address, packets, np.uint32)
    kernel = rig.kernel(COUNT)
    producers = [Producer(rig, queues, kernel, address + 4 * each * number, each) for number in range(PRODUCERS)]
    threads = [threading.Thread(target=producer.run) for producer in producers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [producer.failure for producer in producers] == [None] * PRODUCERS
    for producer in producers:
        assert producer.done.wait(Condition.EQ, 0, timeout_seconds=60) == 0
    assert rig.errors == []
    assert (counters == 1).all()
    assert sum(queue.load_read_index() for queue in queues) == packets
