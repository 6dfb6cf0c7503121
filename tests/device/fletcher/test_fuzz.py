"""Random hosts: whatever they write, the device answers or refuses with an error of ours, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import ModelBug, SoftcardError
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.events import Lint
from softcard.device.fletcher.job import Job, KernelFailure
from softcard.device.fletcher.kernel import Kernel, kernel, named_schema
from tests.device.fletcher.rig import REGS, vector_map

ADDRESSES = st.one_of(st.integers(0, 0xA0), st.integers(0, 39).map(lambda n: 4 * n), st.integers(0, (1 << 32) - 1))
VALUES = st.one_of(
    st.integers(0, 8),
    st.sampled_from([1, 2, 4, 0x1000, 0x2000, 0x4000, 0x2004, 1 << 31, (1 << 32) - 1]),
    st.integers(0, (1 << 32) - 1),
)
READS = st.tuples(st.just("r"), ADDRESSES)
WRITES = st.tuples(st.just("w"), ADDRESSES, VALUES, st.one_of(st.just(15), st.integers(0, 15)))
STEPS = st.tuples(st.just("step"), st.integers(0, 3))
PROFILES = st.sampled_from(["spec", "hardware"])


@kernel(
    read={"A": [("s", pa.string()), ("x", pa.int32())]},
    write={"B": pa.schema([pa.field("y", pa.list_(pa.field("item", pa.int8(), False)))])},
)
def mix(job: Job) -> Any:
    for part in job.slices("A", rows=2):
        lengths = pc.utf8_length(part["s"]).to_pylist()
        rows = [[length % 100, 1] if length else None for length in lengths]
        job.write("B", pa.record_batch([pa.array(rows, job.map.batch("B").schema.field(0).type)], names=["y"]))
        job.result += pc.sum(part["x"]).as_py()
        yield


def perform(device: FletcherDevice, access: tuple[Any, ...]) -> Any:
    match access:
        case ("r", address):
            return device.read(address)
        case ("w", address, value, strobes):
            return device.write(address, value, strobes)
        case ("step", count):
            return device.step(count)
    raise AssertionError(access)


def failure(device: FletcherDevice, access: tuple[Any, ...]) -> SoftcardError | None:
    """What a host is told, if anything; a mistake of ours ends the test."""
    try:
        perform(device, access)
    except (ModelBug, KernelFailure):
        raise
    except SoftcardError as error:
        return error
    return None


@given(PROFILES, st.lists(st.one_of(READS, WRITES, WRITES, STEPS), max_size=60))
@settings(max_examples=150)
def test_random_hosts_get_answers_or_errors(profile: str, accesses: list[tuple[Any, ...]]) -> None:
    device = FletcherDevice(mix.map(), mix, profile=profile)
    for _ in range(6):
        device.memory.allocate(64)
    for access in [*accesses, ("w", device.map.control, 4, 15), ("r", device.map.status)]:
        before = list(device._store.values)
        error = failure(device, access)
        if error is None:
            continue
        assert profile == "spec"
        assert error.rule is not None, error
        if not any(place.kind == "kernel" for place in error.path):
            assert device._store.values == before, "a refused access changes nothing"
    assert device.state.value == "idle"


@pytest.mark.slow
@given(st.lists(st.one_of(READS, WRITES), max_size=40), st.integers(0, (1 << 64) - 1))
@settings(max_examples=200)
def test_every_difference_between_paper_and_hardware_is_reported(accesses: list[tuple[Any, ...]], result: int) -> None:
    """What a host may do by the document, and what the hardware answers otherwise, is a lint at that moment."""
    layout = vector_map("regs", custom=REGS)
    program = Kernel("K", lambda job: result)
    paper, hardware = (FletcherDevice(layout, program, profile=profile) for profile in ("spec", "hardware"))
    reported: list[Lint] = []
    paper.probes.subscribe(lambda event: reported.append(event) if isinstance(event, Lint) else None)
    names = [field.name for field in layout.fields if field.behaviour == "control"]
    for access in accesses:
        reported.clear()
        begins = paper.state.value == "idle"
        try:
            answer = perform(paper, access)
        except SoftcardError:
            continue
        same = perform(hardware, access) == answer
        if access[0] == "w":
            if not begins or paper.state.value == "idle":
                continue
            same = all(paper.value(name) == hardware.value(name) for name in names)
        assert same == (not reported), access


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, (1 << 64) - 1)), max_size=20))
def test_hosts_that_write_halves_in_order_work_on_both(writes: list[tuple[int, int]]) -> None:
    schema = named_schema("R", [(name, pa.int64()) for name in "abcdef"])
    program = kernel(read={"R": schema})(lambda job: None)
    for profile in ("spec", "hardware"):
        device = FletcherDevice(program.map(), program, profile=profile)
        reported: list[Lint] = []
        device.probes.subscribe(
            lambda event, reported=reported: reported.append(event) if isinstance(event, Lint) else None
        )
        expected: dict[int, int] = {}
        for number, value in writes:
            address = device.map.buffers[number].address
            device.write(address, value & 0xFFFF_FFFF)
            device.write(address + 4, value >> 32)
            expected[address] = value
        for address, value in expected.items():
            assert device.read(address).value == value & 0xFFFF_FFFF
            assert device.read(address + 4).value == value >> 32
        device.write(0, 1)
        assert reported == []


ALIGNED = st.tuples(st.integers(0, 7), st.just(0))
INSIDE = st.tuples(st.integers(0, 7), st.sampled_from([4, 8, 1, 60, 64, -8]))
OUTSIDE = st.tuples(st.just(0), st.sampled_from([-(1 << 32), 1 << 40, (1 << 64) - (1 << 33)]))
PLACES = st.one_of(ALIGNED, ALIGNED, ALIGNED, ALIGNED, ALIGNED, INSIDE, OUTSIDE)


@pytest.mark.slow
@given(
    PROFILES,
    st.lists(PLACES, min_size=6, max_size=6),
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 2), st.integers(0, 12)),
    st.lists(st.lists(st.integers(0, 40), min_size=16, max_size=16).map(sorted), min_size=3, max_size=3),
    st.binary(min_size=64, max_size=64),
)
@settings(max_examples=200)
def test_random_buffers_are_read_and_written_or_refused_and_nothing_else_changes(
    profile: str, places: list[tuple[int, int]], ranges: tuple[int, ...], offsets: list[list[int]], noise: bytes
) -> None:
    device = FletcherDevice(mix.map(), mix, profile=profile)
    regions = [device.memory.allocate(64) for _ in range(8)]
    for region, numbers in zip(regions, offsets, strict=False):
        device.memory.write(region, b"".join(number.to_bytes(4, "little") for number in numbers))
    device.memory.write(regions[3], bytes(byte & 0x7F for byte in noise))
    device.memory.write(regions[4], noise)
    before = [device.memory.read(region, 64) for region in regions]
    targets = [(regions[number] + offset) & ((1 << 64) - 1) for number, offset in places]
    assert len(targets) == len(device.map.buffers)
    for slot, address in zip(device.map.buffers, targets, strict=True):
        device.write(slot.address, address & 0xFFFF_FFFF)
        device.write(slot.address + 4, address >> 32)
    for register, value in zip(range(16, 32, 4), ranges, strict=True):
        device.write(register, value)
    device.write(0, 1)
    for _ in range(16):
        error = failure(device, ("step", 1))
        assert error is None or (profile == "spec" and error.rule is not None and error.path), error
    first_written = next(n for n, slot in enumerate(device.map.buffers) if slot.batch == 1)
    found = [device.memory.find(address) for address in targets[first_written:]]
    written = {region.base for region in found if region is not None}
    for region, bytes_before in zip(regions, before, strict=True):
        assert region in written or device.memory.read(region, 64) == bytes_before
    device.write(0, 4)
    assert device.state.value == "idle"
