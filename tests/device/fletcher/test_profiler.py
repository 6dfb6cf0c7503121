"""Profile counters, against the simulated numbers of the Sum example and the model's own words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from softcard.core.errors import RuleError
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import Kernel, named_schema
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.registers import PROFILE_COUNTERS
from tests.device.fletcher.rig import RESET, START, vector_map

PROFILED = {"fletcher_profile": "true"}


def profiled(kind: pa.DataType, **metadata: str) -> pa.Schema:
    return named_schema("R", pa.schema([pa.field("x", kind, False, {**PROFILED, **metadata})]))


def read_all(job: Job) -> None:
    job.batch()


class Counters:
    """A device with one RecordBatch, its counters, and a host that enables them."""

    def __init__(
        self, array: pa.Array, run: Any = read_all, profile: str = "spec", enable: int = 1, **meta: str
    ) -> None:
        self.map = fletcher_map([profiled(array.type, **meta)])
        self.device = FletcherDevice(self.map, Kernel("K", run), profile=profile, pacing=0)
        buffers = list(_buffers(array))
        for slot, buffer in zip(self.map.buffers, buffers, strict=True):
            address = self.device.memory.adopt(buffer)
            self.device.write(slot.address, address & 0xFFFF_FFFF)
            self.device.write(slot.address + 4, address >> 32)
        self.device.write(self.map.batches[0].last_index, len(array))
        assert self.map.profile_enable is not None
        self.enable = self.map.profile_enable
        self.device.write(self.enable, enable)

    def run(self, slices: int = 100) -> Counters:
        self.device.write(self.map.control, START)
        self.device.step(slices)
        return self

    def __getitem__(self, stream: int) -> dict[str, int]:
        base = self.map.streams[stream].address
        return {name: self.device.read(base + 4 * n).value for n, name in enumerate(PROFILE_COUNTERS)}


def _buffers(array: pa.Array) -> Iterator[pa.Buffer]:
    """Buffers of arrays without nulls, in Fletcher's order."""
    if pa.types.is_struct(array.type):
        for index in range(array.type.num_fields):
            yield from _buffers(array.field(index))
        return
    own = array.buffers()
    if pa.types.is_list(array.type):
        yield own[1]
        yield from _buffers(array.values)
    else:
        yield from own[1:]


FOUR = pa.array([1, -3, 3, -7], pa.int64())
SIMULATED = {"valids": 4, "readies": 34, "transfers": 4, "packets": 1, "cycles": 39}


def test_sum_has_the_simulated_profile() -> None:
    counters = Counters(FOUR, lambda job: pc.sum(job.batch()["x"]).as_py(), profile="hardware").run()
    assert counters[0] == {"elements": 0, **SIMULATED}


def test_profile_enable() -> None:
    assert set(Counters(FOUR, enable=0).run()[0].values()) == {0}
    counters = Counters(FOUR).run()
    counters.device.write(counters.enable, 0)
    counters.device.write(counters.map.control, RESET)
    assert counters.run()[0]["cycles"] == 39, "counted once"


@pytest.mark.parametrize("profile", ["spec", "hardware"])
def test_profile_clear(profile: str) -> None:
    counters = Counters(FOUR, profile=profile).run()
    assert counters.map.profile_clear is not None
    counters.device.write(counters.map.profile_clear, 1)
    assert set(counters[0].values()) == {0}


@pytest.mark.parametrize("profile", ["spec", "hardware"])
def test_a_reset_of_the_design_clears_the_counters(profile: str) -> None:
    counters = Counters(FOUR, profile=profile).run()
    assert counters[0]["cycles"] == 39
    counters.device.reset()
    assert set(counters[0].values()) == {0}


def test_count_elements() -> None:
    assert Counters(FOUR).run()[0]["elements"] == 4
    assert Counters(FOUR, profile="hardware").run()[0]["elements"] == 0, "the generated profiler never counts them"


def test_count_valids() -> None:
    assert Counters(FOUR, fletcher_epc="3").run()[0]["valids"] == 2


def test_count_readies() -> None:
    strings = Counters(pa.array(["abcdef", "g"], pa.string())).run()
    assert strings[0]["readies"] == strings[1]["readies"] == 30 + 7, "the cycles of the longest stream"


def test_count_transfers() -> None:
    strings = Counters(pa.array(["abcdef", "", "g"], pa.string()), fletcher_epc="4").run()
    assert strings[0]["transfers"] == 3
    assert strings[1]["transfers"] == 2 + 1 + 1, "an empty string takes one"


def test_count_packets() -> None:
    strings = Counters(pa.array(["abcdef", "", "g"], pa.string())).run()
    assert (strings[0]["packets"], strings[1]["packets"]) == (1, 3)


def test_count_cycles() -> None:
    assert Counters(FOUR).run()[0]["cycles"] == 5 + 30 + 4

    def read_twice(job: Job) -> None:
        read_all(job)
        read_all(job)

    twice = Counters(FOUR, read_twice).run()
    assert twice[0]["cycles"] == 5 + 2 * (30 + 4), "two commands"
    assert twice[0]["packets"] == 2


def test_slices_of_one_command_are_one_command() -> None:
    def in_slices(job: Job) -> Iterator[None]:
        for _ in job.slices(rows=1):
            yield

    counters = Counters(FOUR, in_slices)
    counters.run(slices=2)
    assert counters[0] == {"elements": 2, "valids": 2, "readies": 32, "transfers": 2, "packets": 0, "cycles": 37}
    counters.device.step(10)
    assert counters[0] == {"elements": 4, **SIMULATED}


def test_an_empty_command_ends_nothing() -> None:
    counters = Counters(FOUR)
    counters.device.write(counters.map.batches[0].last_index, 0)
    assert counters.run()[0]["packets"] == 0


def test_lengths_have_elements_per_cycle_of_their_own() -> None:
    strings = Counters(pa.array(["a", "b", "c"], pa.string()), fletcher_lepc="2").run()
    assert (strings[0]["transfers"], strings[1]["transfers"]) == (2, 3)


def test_members_have_elements_per_cycle_of_their_own() -> None:
    members = [
        pa.field("x", pa.list_(pa.field("item", pa.int8(), False)), False, {"fletcher_epc": "4", "fletcher_lepc": "2"}),
        pa.field("s", pa.string(), False),
    ]
    rows = [{"x": list(range(9)), "s": "abc"}, {"x": [1], "s": ""}]
    streams = Counters(pa.array(rows, pa.struct(members))).run()
    assert [streams[n]["transfers"] for n in range(5)] == [2, 1, 3 + 1, 2, 3 + 1]


def test_metadata_that_are_no_number_are_refused_by_the_map() -> None:
    with pytest.raises(RuleError, match="fletcher_epc of x is 'many', expected a number"):
        Counters(FOUR, fletcher_epc="many")


def test_streams_of_nested_fields() -> None:
    item = pa.struct([pa.field("x", pa.int16(), False), pa.field("n", pa.string(), False)])
    kind = pa.list_(pa.field("item", item, False))
    rows = [[{"x": 1, "n": "ab"}, {"x": 2, "n": ""}], [], [{"x": 3, "n": "cde"}]]
    counters = Counters(pa.array(rows, kind)).run()
    names = [stream.name for stream in counters.map.streams]
    assert names == [f"Profile_R_x_{end}" for end in ("0", "item_1", "item_data_n_2", "item_data_n_chars_3")]
    found = [counters[n] for n in range(4)]
    assert [each["elements"] for each in found] == [3, 3, 3, 5]
    assert [each["transfers"] for each in found] == [3, 2 + 1 + 1, 2 + 1 + 1, 2 + 1 + 3]
    assert [each["packets"] for each in found] == [1, 3, 3, 3]


def test_streams_of_written_rows_count() -> None:
    schema = named_schema("W", pa.schema([pa.field("x", pa.int64(), False, PROFILED)]), "write")
    layout = fletcher_map([schema])

    def write(job: Job) -> None:
        batch = pa.record_batch([FOUR], schema=layout.batches[0].schema)
        job.write(None, batch.slice(1, 2))
        job.write(None, batch.slice(3))

    device = FletcherDevice(layout, Kernel("W", write))
    address = device.memory.allocate(24)
    device.write(layout.batches[0].last_index, 3)
    device.write(layout.buffers[0].address, address & 0xFFFF_FFFF)
    device.write(layout.buffers[0].address + 4, address >> 32)
    assert layout.profile_enable is not None
    device.write(layout.profile_enable, 1)
    device.write(0, START)
    assert device.read(4).value == 5
    base = layout.streams[0].address
    assert [device.read(base + 4 * n).value for n in range(6)] == [3, 3, 33, 3, 1, 38]
    assert device.memory.read(address, 24) == b"".join(each.to_bytes(8, "little", signed=True) for each in (-3, 3, -7))


def test_counters_wrap_at_32_bits() -> None:
    counters = Counters(FOUR)
    counters.device._store.set(counters.map.streams[0].address + 4, 0xFFFF_FFFE)
    assert counters.run()[0]["valids"] == 2


def test_a_map_without_profiling_has_nothing_to_count() -> None:
    layout = vector_map("prim", profile="spec")
    assert layout.profile_enable is None
    device = FletcherDevice(layout, Kernel("K", lambda job: 3))
    device.write(0, START)
    assert device.read(8).value == 3
