"""Hostile Fletcher hosts: schemas that are mutated files, registers and buffers that hold anything.

What must hold: errors of ours with a rule where a clause was broken, an end in time, no byte changed that no register
points at, and a device that works as ever afterwards.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa

from softcard.core.display import printable
from softcard.core.errors import ModelBug, RuleError, SoftcardError
from softcard.device.fletcher.arrays import rebuild, store
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.job import KernelFailure
from softcard.device.fletcher.kernel import Kernel
from softcard.device.fletcher.kernels import BUILT_IN, find
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.device.fletcher.memory import DeviceMemory, WritableMemory
from softcard.image.arrow_schema import read_arrow
from tests.hostile.checks import in_time

VECTORS: Final = Path(__file__).parents[1] / "vectors" / "fletcher"
U32: Final = (1 << 32) - 1
U64: Final = (1 << 64) - 1
EDGES: Final = (0, 1, 2, 3, 4, 7, 8, 63, 64, 255, 256, 0x7FFF_FFFF, 0x8000_0000, U32)
ROWS: Final = 16
DONE: Final = 4
BUFFER_BYTES: Final = 256


@cache
def _files() -> tuple[bytes, ...]:
    """Schema files of the real generator, and streams with a RecordBatch."""
    found = [path.read_bytes() for path in sorted(VECTORS.glob("*.as"))]
    batch = pa.record_batch(
        [pa.array([1, None, 3]), pa.array(["a", "bc", None]), pa.array([[1], [], None])], names="abc"
    )
    for opener in (pa.ipc.new_stream, pa.ipc.new_file):
        sink = pa.BufferOutputStream()
        with opener(sink, batch.schema) as writer:
            writer.write_batch(batch)
        found.append(sink.getvalue().to_pybytes())
    return tuple(found)


def mutated(random: Random) -> bytes:
    """A schema file with a few bytes changed, cut out, doubled or cut off."""
    data = bytearray(random.choice(_files()))
    for _ in range(random.choice([0, 1, 1, 2, 3, 8])):
        if not data:
            break
        at = random.randrange(len(data))
        match random.randrange(6):
            case 0:
                data[at] = random.randrange(256)
            case 1:
                data[at] ^= 1 << random.randrange(8)
            case 2:
                data[at : at + 4] = struct.pack("<I", random.choice(EDGES))
            case 3:
                del data[at : at + random.randrange(1, 9)]
            case 4:
                data[at:at] = data[at : at + random.randrange(1, 33)]
            case 5:
                del data[at:]
    return bytes(data)


LEAVES: Final = (
    *(pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float16(), pa.float64(), pa.date32(), pa.timestamp("us")),
    *(pa.decimal128(20, 2), pa.binary(3), pa.binary(0), pa.utf8(), pa.utf8(), pa.binary()),
)
STRANGE: Final = (pa.bool_(), pa.null(), pa.large_utf8(), pa.duration("s"), pa.dictionary(pa.int8(), pa.utf8()))


def made_up(random: Random) -> pa.Schema:
    """A schema of random types, mostly those that Fletcher has."""
    fields = [_field(random, f"f{number}", 3) for number in range(random.choice([0, 1, 1, 2, 3]))]
    metadata = {"fletcher_name": random.choice(["P", "P", "Q", "9", "", "a b"]), "fletcher_mode": "read"}
    return pa.schema(fields, metadata)


def _field(random: Random, name: str, depth: int) -> pa.Field:
    kind = random.randrange(10) if depth else 9
    if kind < 2:
        type_ = pa.list_(_field(random, "item", depth - 1))
    elif kind < 4:
        type_ = pa.struct([_field(random, letter, depth - 1) for letter in "xy"])
    else:
        type_ = random.choice(STRANGE if random.random() < 0.05 else LEAVES)
    return pa.field(name, type_, random.random() < 0.3 or pa.types.is_null(type_))


def check_schema(random: Random) -> str:
    """A mutated file or a made-up schema, mapped in every profile, and its buffers full of anything."""
    with in_time():
        try:
            found = made_up(random) if random.random() < 0.5 else read_arrow(mutated(random))
            batches = [found, *([read_arrow(random.choice(_files()))] * random.randrange(2))]
        except SoftcardError as error:
            return _reported(error)
        for profile in ("fletchgen", "runtime", "spec"):
            try:
                plan = fletcher_map(batches, profile=profile)  # type: ignore[arg-type]
            except SoftcardError as error:
                _reported(error)
            else:
                check_arrays(plan, random)
    return "mapped"


def check_arrays(plan: FletcherMap, random: Random) -> None:
    """Batches rebuilt from any bytes are sound, or refused with the register's name; what was read can be written."""
    for layout in plan.batches:
        memory = DeviceMemory()
        addresses = [_allocate(memory, random) for _ in layout.buffers]
        first = random.choice([0, 0, 0, 1, 7])
        last = random.choice([first, first + 1, ROWS, random.choice(EDGES)])
        error: SoftcardError | None = None
        try:
            batch = rebuild(layout, addresses, memory, first, last)
        except SoftcardError as caught:
            error = caught
        if error is not None:
            assert printable(layout.name) in str(error)
            _reported(error)
            continue
        batch.validate(full=True)
        room = [memory.allocate(1 << 14) for _ in layout.buffers]
        store(layout, room, WritableMemory(memory), 0, batch)
        again = rebuild(layout, room, memory, 0, batch.num_rows)
        assert _text(again) == _text(batch)


def _text(batch: pa.RecordBatch) -> list[str]:
    """All values as text, for NaN is like no other, and some values are no Python objects."""
    return [column.to_string(window=BUFFER_BYTES) for column in batch.columns]


def _allocate(memory: DeviceMemory, random: Random) -> int:
    """A buffer of random bytes, of small offsets, of zeros, or an address where none is."""
    size = random.choice([0, 1, 8, 63, BUFFER_BYTES, BUFFER_BYTES, BUFFER_BYTES])
    address = memory.allocate(size)
    kind = random.randrange(4)
    if kind == 0:
        memory.write(address, random.randbytes(size))
    elif kind == 1:
        offsets = sorted(random.randrange(40) for _ in range(size // 4))
        if random.random() < 0.2:
            random.shuffle(offsets)
        memory.write(address, struct.pack(f"<{len(offsets)}i", *offsets))
    elif kind == 2:
        memory.write(address, bytes(random.choice(b"abcxyz.") for _ in range(size)))
    if random.random() < 0.1:
        return random.choice([0, 1, address + 1, address + size, address - 1, random.getrandbits(64)])
    return address


# ---- devices -------------------------------------------------------------------------------------------------------


def check_device(random: Random) -> set[str]:
    """A built-in kernel on a device whose registers get anything; between its buffers lie bytes nobody may touch.

    Gives all that the host was told.
    """
    kernel = find(random.choice(list(BUILT_IN)))
    plan = kernel.map(bus_width=64 if random.random() < 0.2 else 32, offset=random.choice([0, 0, 64]))
    device = FletcherDevice(plan, kernel, profile=random.choice(["spec", "hardware"]), memory_bytes=1 << 26)
    canaries: dict[int, bytes] = {}
    known = [device.memory.allocate(64)]  # whose address is low = 0, high = 1, as likely as any edge
    for _ in range(8):
        at = device.memory.allocate(64)
        canaries[at] = random.randbytes(64)
        device.memory.write(at, canaries[at])
        known.append(_allocate(device.memory, random))
    known = [address for address in known if not any(at <= address < at + 64 for at in canaries)]
    reported: set[str] = set()
    with in_time():
        if random.random() < 0.7:
            reported |= _set_up(device, known, random)
        for _ in range(random.randrange(40)):
            reported.add(_access(device, known, random))
    for at, canary in canaries.items():
        assert device.memory.read(at, 64) == canary, f"bytes at {at:#x} were changed"
    check_usable(device)
    return reported


def _set_up(device: FletcherDevice, known: list[int], random: Random) -> set[str]:
    """Ranges and addresses that nearly make sense, a start, and polls."""
    plan = device.map
    last = random.choice([1, 4, ROWS, ROWS, random.choice(EDGES)])
    values = {plan.control: 0}
    for batch in plan.batches:
        values[batch.first_index] = random.choice([0, 0, 0, 1, last])
        values[batch.last_index] = last
    for slot in plan.buffers:
        address = random.choice(known)
        values |= {slot.address: address & U32, slot.address + 4: address >> 32}
    for custom in plan.customs:
        values[custom.address] = random.choice(EDGES)
    reported = {_write(device, address, values[address], random) for address in sorted(values)[1:]}
    reported.add(_write(device, plan.control, 1, random))
    return reported | {_attempt(lambda: device.read(plan.status)) for _ in range(8)}


def _access(device: FletcherDevice, known: list[int], random: Random) -> str:
    plan = device.map
    address = random.choice(
        [plan.control, plan.status, plan.result, *[plan.offset + 4 * random.randrange(40)] * 4, random.getrandbits(32)]
    )
    if random.random() < 0.5:
        return _attempt(lambda: device.read(address))
    value = random.choice([*EDGES, random.choice(known) & U32, random.choice(known) >> 32, random.getrandbits(32)])
    return _write(device, address, value, random, strobes=random.choice([-1, -1, -1, 15, 0, 5, random.randrange(256)]))


def _write(device: FletcherDevice, address: int, value: int, random: Random, strobes: int = -1) -> str:
    """Write 32 bits as a host does, on a wide bus to their half of the word."""
    if device.map.bus_width == 64:
        half = address & 4
        return _attempt(lambda: device.write(address - half, value << 8 * half, 15 << half))
    return _attempt(lambda: device.write(address, value, strobes))


def _attempt(action: Callable[[], object]) -> str:
    try:
        action()
    except SoftcardError as error:
        return _reported(error)
    return ""


def _reported(error: SoftcardError) -> str:
    """What an error says, which must be of ours and about the host; a kernel of ours may not fail."""
    assert not isinstance(error, ModelBug | KernelFailure), error
    assert str(error)
    if isinstance(error, RuleError) and error.rule is not None:
        assert error.rule.id in str(error)
    return f"{type(error).__name__} {error.rule.id if error.rule else ''}".strip()


def check_usable(device: FletcherDevice) -> None:
    """After a reset the device is idle, and another start of a good kernel gives what it should."""
    device.reset()
    device.memory.clear()
    assert device.value("idle") == 1
    assert device.value("busy") == 0
    good = FletcherDevice(_sum().map(), _sum(), memory=device.memory)
    address = device.memory.allocate(32)
    device.memory.write(address, struct.pack("<4q", 1, -3, 3, -7))
    for register, value in ((16, 0), (20, 4), (24, address & U32), (28, address >> 32), (0, 1), (0, 0)):
        good.write(register, value)
    while not good.read(4).value & DONE:
        pass
    assert good.read(8).value == U32 - 5


@cache
def _sum() -> Kernel:
    return find("sum")
