"""Hostile HSA hosts: packets, queues, signals and doorbells that hold anything.

What must hold: errors are of ours, reported at the queue with a code; nothing hangs; what machine code does to repeated
packets is what the readable path does; and another queue of the device works as ever afterwards.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Final

import numpy as np

from softcard.core.errors import SoftcardError
from softcard.core.snapshot import save_ram
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.exceptions import QueueError, Status, status_of
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.device.hsa.queues.records import QueueFeature
from softcard.device.hsa.queues.signals import Condition
from softcard.engine.gcn.memory import Plain
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.asm.assembler import assemble
from tests.hostile.checks import check_error, in_time

AGENTS: Final = ("gfx701", "gfx803", "gfx900")
MODELS: Final = ("large", "small")
STEP_LIMIT: Final = 500
CHECKS: Final = ("memory", "races", "races,lanes", "init,fidelity", "waits,sync", "all")
CACHE: Final = ObjectCache()
"""The cache of devices with checks, whose code takes longer to compile."""
EDGES: Final = (0, 1, 2, 3, 4, 7, 8, 63, 64, 65, 255, 256, 1023, 1024, 1025, 4096, 65535)
WIDE: Final = (0, 1, 63, 64, 1 << 12, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 47, 1 << 48, 1 << 63, (1 << 64) - 1)
KERNELS: Final = (
    "s_endpgm",
    "v_mov_b32 v0, s0\nv_mov_b32 v1, s1\nv_mov_b32 v2, 1\nflat_atomic_add v[0:1], v2\ns_endpgm",
    "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v0, s4\nv_mov_b32 v1, s5\n"
    "flat_store_dword v[0:1], v1\ns_endpgm",
    "s_trap 1\ns_endpgm",
    "s_sendmsg 1\ns_endpgm",
    "s_barrier\ns_endpgm",
)
"""Among them some that believe what they find behind the kernarg address."""


@dataclass
class World:
    """A device, a queue that is maltreated, kernels, and memory that may be named."""

    device: HsaDevice
    queue: Queue
    kernels: list[int]
    data: int
    addresses: list[int]
    errors: list[tuple[int, SoftcardError]] = field(default_factory=list)


def world(agent: str, **options: object) -> World:
    """The same at every call."""
    device = HsaDevice(agent, threads=1, step_limit=STEP_LIMIT, **options)
    if hasattr(device.engine, "cache"):
        device.engine.cache = CACHE if device.settings.checks else ObjectCache()
    both = QueueFeature.KERNEL_DISPATCH | QueueFeature.AGENT_DISPATCH
    queue = device.create_queue(16, features=both, agent_dispatch=lambda packet: packet.type)
    kernels = [_kernel(device, text) for text in KERNELS]
    data = device.allocate(4096)
    signals = [device.create_signal(value).address for value in (0, 1, 5)]
    addresses = [
        *kernels, data, data + 8, data + 4092, queue.address, queue.ring_address, queue.doorbell.address,
        queue.inactive_signal.address, *signals, device.apertures.shared_base, device.apertures.private_base + 4,
    ]  # fmt: skip
    found = World(device, queue, kernels, data, addresses)
    queue.on_error = lambda _, code, error: found.errors.append((code, error))
    return found


def _kernel(device: HsaDevice, text: str) -> int:
    code = assemble(device.agent.target, text)
    header = bytearray(256)
    if device.settings.small:
        struct.pack_into("<IIHH", header, 0, 1, 1, 1, device.agent.target.level)  # is_ptr64 is 0
    struct.pack_into("<q", header, 16, 256)
    struct.pack_into("<III", header, 48, 0x00AC0001, 2 << 1 | 1 << 7, 1 << 3)
    address = device.allocate(256 + len(code) + 64, 256)
    device.memory.write(address, bytes(header) + code)
    return address


def anywhere(world: World, random: Random) -> int:
    """An address that is good for something else, or for nothing."""
    at = random.choice([*world.addresses, *world.addresses, *WIDE, random.getrandbits(64)])
    return at + random.choice([0, 0, 0, 0, 1, 4, 8, 64]) & (1 << 64) - 1


def packet(world: World, random: Random) -> bytes:
    """A packet: good, wrong in places, or noise."""
    if random.random() < 0.1:
        return bytes([random.choice([0, 1, 2, 2, 3, 4, 5, 6, 255])]) + random.randbytes(63)
    good = KernelDispatchPacket(
        dimensions=1,
        workgroup_size_x=random.choice([1, 64, 100]),
        grid_size_x=random.choice([1, 64, 130]),
        kernel_object=random.choice(world.kernels),
        kernarg_address=world.data,
        completion_signal=random.choice([0, *world.addresses[-5:-2]]),
        private_segment_size=random.choice([0, 0, 0, 4, 100]),
    )
    data = bytearray(good.pack())
    data[0] = random.choice([2, 2, 2, 2, 2, 0, 1, 3, 4, 5, 7])
    for _ in range(random.choice([0, 0, 1, 1, 2, 4])):
        match random.randrange(4):
            case 0:
                struct.pack_into("<H", data, random.choice([2, 4, 6, 8]), random.choice(EDGES))
            case 1:
                struct.pack_into("<I", data, random.choice([12, 16, 20, 24, 28]), random.choice(EDGES))
            case 2:
                struct.pack_into("<Q", data, random.choice([8, 16, 24, 32, 40, 48, 56]), anywhere(world, random))
            case 3:
                data[random.randrange(1, 64)] ^= 1 << random.randrange(8)
    if data[0] != 2:
        data[2] = random.choice([0, 1, 2, 2, 2, 3])
        for at in (8, 16, 24, 32, 40, 56):
            if random.random() < 0.6:
                struct.pack_into("<Q", data, at, random.choice([0, *world.addresses[-5:-2], anywhere(world, random)]))
    big = [struct.unpack_from("<I", data, at)[0] for at in (12, 16, 20)]
    if big[0] * big[1] * big[2] > 1 << 16:  # nothing against large grids, but they take their time
        data[12:24] = struct.pack("<III", big[0] % 300, 1, 1)
    return bytes(data)


def mistreat(world: World, random: Random) -> Callable[[], object]:
    """One thing that a host may do."""
    device, queue = world.device, world.queue
    match random.randrange(12):
        case 0 | 1 | 2 | 3 | 4:
            data = packet(world, random)
            return lambda: queue.submit(*[data] * random.choice([1, 1, 3, 6]))
        case 5:
            data, index = packet(world, random), queue.load_read_index() + random.randrange(16)
            return lambda: queue.write_packet(index, data)
        case 6:
            value = random.choice([*WIDE, queue.load_read_index() + random.randrange(40)])
            return lambda: queue.doorbell.store(value)
        case 7:
            word = struct.pack("<Q", random.choice(WIDE))[: 4 if device.agent.is_legacy else 8]
            return lambda: device.memory.write(queue.doorbell.record().value, word)
        case 8:  # amd_queue_t behind the runtime's back
            at = random.randrange(0, 256, 4)
            word = struct.pack("<I", random.choice([*EDGES, random.getrandbits(32)]))
            return lambda: device.memory.write(queue.address + at, word)
        case 9:
            at = random.choice([0x38, 0x80])
            word = struct.pack("<Q", random.choice([*WIDE, queue.load_read_index() ^ 1]))
            return lambda: device.memory.write(queue.address + at, word)
        case 10:  # a signal
            address = random.choice(world.addresses[-5:-2])
            word = struct.pack("<q", random.choice([0, 1, -1, -2, 3, random.getrandbits(62)]))
            return lambda: device.memory.write(address + random.choice([0, 8, 16, 24]), word)
        case _:
            value = random.choice([0, 0, 0, -1, 1])
            return lambda: queue.inactive_signal.store(value)


def check_device(seed: str, check: str = "") -> Counter[str]:
    """A device, maltreated for a while, with checks on or not; what it said."""
    random = Random(seed)
    agent = random.choice(AGENTS)
    model = random.choice(MODELS)
    options = {"machine_code": random.random() < 0.8, "dynamic_scratch": random.random() < 0.8, "check": check}
    found = world(agent, machine_model=model, **options)
    reported: Counter[str] = Counter()
    with found.device, in_time():
        for _ in range(30):
            try:
                mistreat(found, random)()
            except SoftcardError as error:
                check_error(error)
                reported[type(error).__name__] += 1
        for code, error in found.errors:
            check_error(error)
            assert status_of(code) is not Status.SUCCESS
            assert "at AQL packet" in str(error)
            reported[str(QueueError(code).name)] += 1
        check_usable(found)
    return reported


EXTREMES: Final = (0, 1, 0x7FFF_FFFF, 0x8000_0000, 1 << 33, 1 << 40, 1 << 47, 1 << 62, 1 << 63, (1 << 64) - 1)
"""What is written into each word of what a queue, a packet, a signal or a kernel's header is made of."""


def check_words(agent: str, model: str, what: str) -> Counter[str]:
    """Every dword and every qword of one of them at every extreme, then whatever a host does with a queue."""
    found = world(agent, machine_model=model)
    device, queue, reported = found.device, found.queue, Counter[str]()
    good = KernelDispatchPacket(
        dimensions=1, kernel_object=found.kernels[1], kernarg_address=found.data, private_segment_size=16,
        completion_signal=found.addresses[-4],
    ).pack()  # fmt: skip
    places = {
        "queue": queue.address, "signal": found.addresses[-4], "doorbell": queue.doorbell.address,
        "inactive": queue.inactive_signal.address, "kernel": found.kernels[1], "packet": 0,
    }  # fmt: skip
    sizes = {"queue": 256, "kernel": 256}
    with device:
        state = device.snapshot()
        for at in range(0, sizes.get(what, 64), 4):
            with in_time():
                for value, width in product(EXTREMES, (4, 8) if at % 8 == 0 else (4,)):
                    word = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
                    data = good
                    if places[what]:
                        device.memory.write(places[what] + at, word)
                    else:
                        data = good[:at] + word + good[at + width :]
                    for action in _whatever(found, data, good, value):
                        try:
                            action()
                        except SoftcardError as error:
                            check_error(error)
                            reported[type(error).__name__] += 1
                    device.restore(state)
        for code, error in found.errors:
            check_error(error)
            reported[str(QueueError(code).name)] += 1
        check_usable(found)
    return reported


def _whatever(found: World, data: bytes, good: bytes, value: int) -> list[Callable[[], object]]:
    """What a host does with a queue: a packet, values for doorbells, a good packet."""
    device, queue, signal = found.device, found.queue, found.device.signal(found.addresses[-4])
    return [
        lambda: queue.submit(data),
        lambda: queue.submit(data, data),
        lambda: queue.doorbell.store(queue.load_write_index() - 1),
        lambda: queue.doorbell.store(value),
        lambda: signal.store(1),
        lambda: signal.wait(Condition.EQ, 1, 0),
        lambda: queue.inactive_signal.store(0),
        lambda: (queue.record(), queue.pending, queue.completions(), queue.dependencies()),
        lambda: device.set_scratch(queue, 16),
        lambda: queue.submit(good),
    ]


def check_snapshot(seed: str) -> int:
    """What is done after a snapshot does the same when it is done again; how many errors there were."""
    random = Random(seed)
    options = {"machine_code": random.random() < 0.8, "seed": random.choice([None, 1])}
    found = world(random.choice(AGENTS), machine_model=random.choice(MODELS), **options)
    with found.device, in_time():
        for _ in range(random.randrange(12)):
            _try(found, random)
        at, state, chance = whole(found.device), found.device.snapshot(), random.getstate()
        seen = []
        for _ in range(2):
            random.setstate(chance)
            before = len(found.errors)
            said = [_try(found, random) for _ in range(20)]
            seen.append((said, list(map(str, found.errors[before:])), whole(found.device)))
            found.device.restore(state)
            assert whole(found.device) == at
        assert seen[0] == seen[1]
        check_usable(found)
    return len(found.errors)


def _try(found: World, random: Random) -> str:
    try:
        mistreat(found, random)()
    except SoftcardError as error:
        return str(error)
    return ""


def whole(device: HsaDevice) -> tuple[object, ...]:
    """Memory, clock and queues of a device."""
    maps = [each for each in device.memory if isinstance(each, Plain)]
    data = {each.base: bytes(each.bytes) if each.ram is None else save_ram(each.ram) for each in maps}
    return data, device.time, [(queue.number, queue.is_active, queue.limit) for queue in device.queues]


def check_usable(found: World) -> None:
    """A new queue processes a good packet."""
    device = found.device
    queue = device.create_queue(16)
    done, cell = device.create_signal(3), device.allocate(64)
    device.memory.write(cell, bytes(4))  # under the check init fresh memory holds junk, and the kernel adds to it
    kernel = _kernel(device, KERNELS[1])
    good = KernelDispatchPacket(
        dimensions=1, kernel_object=kernel, kernarg_address=cell, completion_signal=done.address
    ).pack()
    queue.submit(good, good, good)
    assert queue.error is None, queue.error
    assert done.load() == 0
    assert device.memory.read(cell, 4) == b"\3\0\0\0"


def check_agreement(seed: str) -> int:
    """The same packets with and without machine code: the same errors, memory, signals, indices, clock."""
    outcomes = []
    for machine_code in (True, False):
        random = Random(seed)
        found = world(random.choice(AGENTS), machine_model=random.choice(MODELS), machine_code=machine_code)
        with found.device, in_time():
            kinds = [packet(found, random) for _ in range(4)]
            for _ in range(40):
                data = random.choice(kinds)
                try:
                    found.queue.submit(data)
                    if not found.queue.is_active:
                        found.queue.store_read_index(found.queue.load_write_index())
                        found.queue.inactive_signal.store(0)
                except SoftcardError as error:
                    check_error(error)
            outcomes.append(_seen(found))
    assert outcomes[0] == outcomes[1]
    return len(outcomes[0][0])


def _seen(found: World) -> tuple[list[str], bytes, list[bytes], int, int]:
    device = found.device
    signals = [device.memory.read(address, 64) for address in found.addresses[-5:-2]]
    words = np.frombuffer(device.memory.read(found.data, 4096), np.uint8).tobytes()
    errors = [f"{code:#x} {error}" for code, error in found.errors]
    return errors, words, signals, device.time, found.queue.load_read_index()
