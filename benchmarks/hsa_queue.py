"""How fast do packets go through an AQL queue?

An empty kernel by one packet at a time: reset the signal, reserve a slot, write it, ring the doorbell, wait for the
completion signal; in CPU time of the one thread that does all this. Launches of a known kernel by `Gpu.run`. Batches of
packets behind one doorbell, of an empty kernel and of one that does an atomic addition, processed on the thread that
rings; and what a listener hears of them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from harness import Row, Samples, cpu, latency, main, optimised, rate, wall
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import PACKET_BYTES, KernelDispatchPacket
from softcard.device.hsa.queues.signals import Condition
from softcard.hsa import Gpu, demo_code
from softcard.isa.gcn.asm.assembler import assemble

QUESTION: Final = "hsa_queue"
AGENTS: Final = ("gfx701", "gfx803", "gfx900")
EMPTY: Final = "s_endpgm"
COUNT: Final = "v_mov_b32 v0, s0\nv_mov_b32 v1, s1\nv_mov_b32 v2, 1\nflat_atomic_add v[0:1], v2\ns_endpgm"
LATENCY_US: Final = 20.0
RUN_US: Final = 40.0
PACKETS_PER_SECOND: Final = 0.2
"""Million."""
SIZE: Final = 16384


def kernel(device: HsaDevice, text: str) -> int:
    """A kernel whose s[0:1] hold the kernarg address."""
    code = assemble(device.agent.target, text)
    header = bytearray(256)
    struct.pack_into("<q", header, 0x10, 256)
    struct.pack_into("<IIH", header, 0x30, 0x00AC0000, 2 << 1, 1 << 3)
    address = device.allocate(256 + len(code), 256)
    device.memory.write(address, bytes(header) + code)
    return address


def settle(queue: Queue, packet: bytes) -> None:
    """Until optimised code of what runs kernels is in use, and of a kernel whose first packets are enough for it."""
    for _ in range(3):
        for _ in range(128):
            queue.submit(packet)
        optimised()


def one_by_one(name: str, rounds: int, count: int) -> list[Row]:
    """Empty dispatches, each waited for; one that the device knows, and without machine code for packets."""
    rows = []
    for machine_code in (True, False):
        with HsaDevice(name, threads=1, machine_code=machine_code) as device:
            queue, done = device.create_queue(SIZE), device.create_signal(0)
            packet = KernelDispatchPacket(
                dimensions=1, kernel_object=kernel(device, EMPTY), completion_signal=done.address
            ).pack()
            settle(queue, packet)

            def many(queue: Queue = queue, packet: bytes = packet, done=done) -> None:  # type: ignore[no-untyped-def]
                for _ in range(count):
                    done.store(1)
                    queue.submit(packet)
                    done.wait(Condition.EQ, 0)

            samples = Samples(tuple(cpu(many) / count for _ in range(rounds)))
        what = f"{name}: empty dispatch with completion signal"
        if machine_code:
            rows.append(latency(QUESTION, what, "us", samples, target=LATENCY_US, absolute=True))
        else:
            rows.append(latency(QUESTION, f"{what}, launched anew each time", "us", samples))
    return rows


def batches(name: str, rounds: int, text: str, title: str) -> Row:
    """Packets per second, from writing them to the last completion."""
    with HsaDevice(name, threads=1) as device:
        queue, done = device.create_queue(SIZE), device.create_signal(0)
        cell = device.allocate(64)
        packet = KernelDispatchPacket(
            dimensions=1, kernel_object=kernel(device, text), kernarg_address=cell, completion_signal=done.address
        ).pack()
        settle(queue, packet)
        block = np.frombuffer(packet * SIZE, np.uint8).reshape(-1, PACKET_BYTES)
        ring = queue.ring.reshape(-1, PACKET_BYTES)

        def batch() -> None:
            done.store(SIZE)
            first = queue.add_write_index(SIZE)
            at = first & SIZE - 1
            for slots, rows in ((ring[at:], block[: SIZE - at]), (ring[:at], block[SIZE - at :])):
                slots[:, 2:] = rows[:, 2:]
                slots.view(np.uint16)[:, 0] = rows.view(np.uint16)[:, 0]
            queue.doorbell.store(first + SIZE - 1)
            assert done.wait(Condition.EQ, 0) == 0

        for _ in range(3):
            for _ in range(8):
                batch()
            optimised()
        samples = Samples(tuple(cpu(batch) for _ in range(rounds)))
    what = f"{name}: {title}, batches of {SIZE}"
    return rate(QUESTION, what, "M packets/s", SIZE, samples, target=PACKETS_PER_SECOND, absolute=True)


def heard(name: str, rounds: int, count: int, later: bool) -> Row:
    """Events per second of empty dispatches to a listener that keeps them."""
    with HsaDevice(name, threads=1) as device:
        queue, done = device.create_queue(SIZE), device.create_signal(0)
        packet = KernelDispatchPacket(
            dimensions=1, kernel_object=kernel(device, EMPTY), completion_signal=done.address
        ).pack()
        settle(queue, packet)
        events: list[object] = []
        device.probes.subscribe(events.append, later=later)

        def batch() -> None:
            events.clear()
            done.store(count)
            queue.submit(*[packet] * count)
            assert done.wait(Condition.EQ, 0) == 0

        samples = Samples(tuple(cpu(batch) for _ in range(rounds)))
    what = f"{name}: events to a listener{' that takes them later' if later else ''}"
    target = {"target": 1.0, "absolute": True} if later else {}
    return rate(QUESTION, what, "M/s", len(events), samples, **target)


def runs(name: str, rounds: int, count: int) -> list[Row]:
    """`Gpu.run` of saxpy over one wave."""
    rows = []
    with Gpu.open(name, threads=1) as gpu:
        kernels, shared = gpu.load(demo_code(name)), (gpu.zeros(64), gpu.zeros(64))
        mapped = tuple(np.zeros(64, np.float32) for _ in range(2))
        for arrays, what in ((shared, "arrays of the device"), (mapped, "NumPy arrays")):

            def many(count: int = count, arrays=arrays) -> None:  # type: ignore[no-untyped-def]
                for _ in range(count):
                    gpu.run(kernels, "saxpy", 64, 64, [2.0, *arrays])

            for _ in range(3):
                many(8)
                time.sleep(0.1)
            samples = Samples(tuple(cpu(many) / count for _ in range(rounds)))
            rows.append(latency(QUESTION, f"{name}: run of a known kernel, {what}", "us", samples, target=RUN_US))
    return rows


def first_result(name: str) -> Row:
    """A new device, queue and kernel, up to the first result."""

    def run() -> None:
        with HsaDevice(name, threads=1) as device:
            queue, done = device.create_queue(64), device.create_signal(1)
            packet = KernelDispatchPacket(
                dimensions=1, kernel_object=kernel(device, COUNT), kernarg_address=device.allocate(4),
                completion_signal=done.address,
            )  # fmt: skip
            queue.submit(packet.pack())
            done.wait(Condition.EQ, 0)

    run()
    return latency(QUESTION, f"{name}: new device to first result", "ms", Samples(tuple(wall(run) for _ in range(5))))


def measure(quick: bool) -> Sequence[Row]:
    """All rows."""
    rounds, count = (5, 500) if quick else (15, 5000)
    rows: list[Row] = []
    for name in AGENTS:
        rows += one_by_one(name, rounds, count)
        rows.append(batches(name, rounds, EMPTY, "empty dispatches"))
        rows.append(batches(name, rounds, COUNT, "dispatches of an atomic addition"))
    rows += [heard("gfx900", rounds, count, later) for later in (False, True)]
    rows += runs("gfx900", rounds, count)
    rows.append(first_result("gfx900"))
    return rows


if __name__ == "__main__":
    main(measure, "AQL queues")
