"""The built-in kernels give what Fletcher's simulated examples gave, and what pyarrow says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import BeyondModel, RuleError, WireError
from softcard.device.fletcher.kernel import Kernel
from softcard.device.fletcher.kernels import BUILT_IN, find
from softcard.device.fletcher.kernels.examples import next_state
from softcard.device.fletcher.kernels.general import filter_kernel
from tests.device.fletcher.bench import BUSY, DONE, IDLE, RESET, STOP, Bench

INT64 = pa.int64()
STRINGS = [0, 17, 36, 59, 90, 136, 213, 351, 355, 603, 827, 1004, 1087, 1238, 1268, 1312, 1385]
"""Offsets that the simulation of StringWrite wrote for 16 strings of at least 16 characters."""
HOBBITS = ["Bilbo", "Sam", "Rosie", "Frodo", "Elanor", "Lobelia", "Merry", "Pippin"]
AGES = [111, 35, 32, 33, 1, 80, 37, 29]


def summed(values: Sequence[int], **settings: object) -> int:
    bench = Bench(find("sum"), **settings)
    bench.put("ExampleBatch", pa.array(values, INT64))
    return bench.run()


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_kernel_is_found_and_says_what_it_does(name: str) -> None:
    kernel = find(name)
    assert isinstance(kernel, Kernel)
    assert kernel.name == name
    assert kernel.doc.endswith(".")
    assert kernel.map().batches


def test_a_kernel_that_is_not_there() -> None:
    with pytest.raises(WireError, match=re.escape("there is no kernel 'product', expected one of sum, string_write,")):
        find("product")


# ---- Sum -----------------------------------------------------------------------------------------------------------


def test_sum_of_the_example() -> None:
    assert summed([1, -3, 3, -7]) == 0xFFFF_FFFF_FFFF_FFFA
    assert summed([2**63 - 1, 1]) == 1 << 63
    assert summed(range(1000)) == 499_500


@pytest.mark.parametrize(("first", "last", "result"), [(1, 3, 0), (0, 1, 1), (2, 4, 0xFFFF_FFFF_FFFF_FFFC)])
def test_sum_of_a_range(first: int, last: int, result: int) -> None:
    bench = Bench(find("sum"))
    bench.put("ExampleBatch", pa.array([1, -3, 3, -7], INT64))
    bench.device.write(bench.map.batches[0].first_index, first)
    bench.device.write(bench.map.batches[0].last_index, last)
    assert bench.run() == result


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_sum_of_anything(values: list[int]) -> None:
    assert summed(values, profile="hardware") == sum(values) & (1 << 64) - 1


def test_sum_holds_done_until_reset() -> None:
    bench = Bench(find("sum"))
    bench.put("ExampleBatch", pa.array([1, -3, 3, -7], INT64))
    assert bench.status() == IDLE
    bench.run()
    assert bench.status() == DONE | IDLE
    bench.start()
    assert bench.status() == DONE | IDLE
    assert bench.device.read(8).value == 0xFFFF_FFFA
    bench.device.write(0, RESET)
    assert bench.status() == IDLE


def test_sum_of_nothing_never_finishes() -> None:
    bench = Bench(find("sum"), profile="hardware")
    bench.put("ExampleBatch", pa.array([5], INT64), rows=0)
    bench.start()
    for _ in range(100):
        assert bench.status() == BUSY
    assert "Sum waits for its last row, but the range 0 to 0 is empty" in str(bench.device.last_error)
    bench.device.write(0, RESET)
    assert bench.status() == IDLE


def test_sum_works_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softcard.device.fletcher.kernels.examples.SUM_SLICE_ROWS", 10)
    bench = Bench(find("sum"))
    bench.put("ExampleBatch", pa.array(range(100), INT64))
    bench.start()
    assert [bench.status() for _ in range(9)] == [BUSY] * 9
    assert bench.run() == 4950
    bench.device.write(0, RESET)
    bench.start()
    assert bench.status() == BUSY
    bench.device.write(0, STOP)
    assert bench.status() == IDLE
    assert bench.device.read(8).value == 0


# ---- the other examples --------------------------------------------------------------------------------------------


def written_strings(name: str, rows: int, minimum: int, mask: int) -> tuple[Bench, pa.RecordBatch]:
    bench = Bench(find(name), room=1 << 22)
    bench.room("StringWrite", rows)
    bench.argument("strlen_min", minimum)
    bench.argument("strlen_mask", mask)
    assert bench.run() == 0x4200_1337_0DDF_00D5
    return bench, bench.rows("StringWrite", rows)


def model(lines: int) -> bytes:
    """Characters line by line, straight from the description of the shift registers."""
    registers, found = list(range(64)), bytearray()
    for _ in range(lines):
        registers = [next_state(register) for register in registers]
        found += bytes(c if 32 <= (c := register & 127) < 127 else ord(".") for register in registers)
    return bytes(found)


def test_string_write_is_the_simulated_one() -> None:
    bench, batch = written_strings("string_write", 16, 16, 0xFFFF_FFFF)
    offsets = np.frombuffer(bench.device.memory.read(bench.addresses["StringWrite"][0], 17 * 4), "<i4")
    assert offsets.tolist() == STRINGS
    lines, expected = model(64), []
    line = 0
    for begin, end in pairwise(STRINGS):
        expected.append(lines[line * 64 : line * 64 + end - begin].decode())
        line += max(1, -(-(end - begin) // 64))
    assert batch.column(0).to_pylist() == expected


def test_string_write_goes_on_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole = written_strings("string_write", 700, 0, 0xFF)
    monkeypatch.setattr("softcard.device.fletcher.kernels.examples.STRING_WRITE_SLICE_ROWS", 64)
    bench, parts = written_strings("string_write", 700, 0, 0xFF)
    assert parts.equals(whole)
    assert bench.status() == DONE | IDLE
    bench.argument("strlen_mask", 0)
    bench.argument("strlen_min", 3)
    bench.run()  # restartable
    assert set(map(len, bench.rows("StringWrite", 700).column(0).to_pylist())) == {3}


def test_string_write_as_built_loses_characters() -> None:
    bench, batch = written_strings("string_write_as_built", 16, 16, 0xFFFF_FFFF)
    assert bench.device.memory.read(bench.addresses["StringWrite"][0], 17 * 4) == np.array(STRINGS, "<i4").tobytes()
    assert batch.column(0)[0].as_py() == model(1)[:17].decode()
    assert set("".join(batch.column(0).to_pylist()[1:])) == {"\0"}


def test_string_write_of_no_strings_and_of_later_ones() -> None:
    bench = Bench(find("string_write"), profile="hardware")
    bench.room("StringWrite", 0)
    bench.start()
    assert bench.status() == BUSY
    assert "counts lastidx strings down to 0, and lastidx is 0" in str(bench.device.last_error)
    bench = Bench(find("string_write"))
    bench.room("StringWrite", 4)
    bench.device.write(bench.map.batches[0].first_index, 1)
    with pytest.raises(BeyondModel, match="is modelled only with firstidx 0, not 1"):
        bench.run()


def mapped(name: str, a: list[int], b: list[int], add: int) -> tuple[list[int], list[int]]:
    bench = Bench(find(name))
    bench.put("R", pa.array(a, pa.int8()), pa.array(b, pa.int8()))
    bench.room("W", len(a))
    bench.argument("add", add)
    assert bench.run() == 0
    assert bench.device.read(bench.map.custom("sum").address).value == 0
    return tuple(column.to_pylist() for column in bench.rows("W", len(a)).columns)  # type: ignore[return-value]


def test_prim_map_is_the_simulated_one() -> None:
    for name in ("prim_map", "prim_map_as_built"):
        assert mapped(name, [1, -3, 3, -7], [4, 2, -6, -9], 0) == ([1, 3, 3, 7], [4, 2, 6, 9])
    assert mapped("prim_map", [-128, 127], [0, -1], 3) == ([-125, -126], [3, 4])
    assert mapped("prim_map_as_built", [1, -2, 3, -4, 5], [1] * 5, 1) == ([2, 3, 4, 5, 0], [2, 2, 2, 2, 0])


def test_prim_map_as_built_waits_for_four_rows() -> None:
    bench = Bench(find("prim_map_as_built"), profile="hardware")
    bench.put("R", pa.array([1], pa.int8()), pa.array([1], pa.int8()))
    bench.room("W", 1)
    bench.start()
    assert bench.status() == BUSY
    assert "PrimMap waits for 4 rows, but the range 0 to 1 has 1" in str(bench.device.last_error)


def test_string_read_says_its_strings() -> None:
    bench = Bench(find("string_read"))
    names = ["Alice", "Bob", "Žofie", "", "Zachary"]
    bench.put("StringRead", pa.array(names))
    assert bench.run() == 0
    assert bench.said() == names
    assert bench.status() == DONE


def test_listprim_says_its_vectors() -> None:
    bench = Bench(find("listprim"))
    type_ = bench.map.batch("src").schema.field(0).type
    array = pa.array([[1, -3, 3, -7], [4, 5, 10]], type_)
    layout = bench.map.batch("src")
    offsets, values = (bench.device.memory.adopt(buffer) for buffer in (array.buffers()[1], array.values.buffers()[1]))
    bench._set("src", [offsets, values], 2)
    bench.room("dst", 2)
    assert layout.buffers[0].kind == "offsets"
    bench.run()
    assert bench.said() == ["[1, -3, 3, -7]", "[4, 5, 10]"]
    assert bench.device.memory.read(bench.addresses["dst"][0], 16) == bytes(16)


def test_soda_beer_is_the_tested_one() -> None:
    bench = Bench(find("soda_beer"))
    bench.put("Hobbits", pa.array(HOBBITS), pa.array(AGES, pa.uint8()))
    bench.room("Beer", 8)
    bench.room("Soda", 8)
    bench.argument("age_limit", 33)
    assert bench.run() == 3 << 32 | 5
    assert bench.rows("Beer", 5).column(0).to_pylist() == ["Bilbo", "Sam", "Frodo", "Lobelia", "Merry"]
    assert bench.rows("Soda", 3).column(0).to_pylist() == ["Rosie", "Elanor", "Pippin"]
    assert bench.rows("Beer", 5).column(1).to_pylist() == [111, 35, 33, 80, 37]


# ---- kernels of general use ----------------------------------------------------------------------------------------


def test_filter_keeps_a_range_of_keys() -> None:
    bench = Bench(find("filter"))
    keys = [5, -2, 7, 100, -9, 0]
    bench.put("In", pa.array(keys, INT64), pa.array([f"k{key}" for key in keys]))
    bench.room("Out", 6)
    bench.argument("low", -2 & (1 << 64) - 1)
    bench.argument("high", 7)
    assert bench.run() == 3
    assert bench.rows("Out", 3).to_pydict() == {"key": [5, -2, 0], "text": ["k5", "k-2", "k0"]}


def test_filters_of_ones_own() -> None:
    even = filter_kernel("even", [("n", pa.int32())], lambda job, part: pc.equal(pc.bit_wise_and(part["n"], 1), 0))
    bench = Bench(even)
    bench.put("In", pa.array(range(9), pa.int32()))
    bench.room("Out", 9)
    assert bench.run() == 5
    assert bench.rows("Out", 5).column(0).to_pylist() == [0, 2, 4, 6, 8]


def test_more_rows_than_the_host_has_room_for() -> None:
    bench = Bench(find("filter"))
    bench.put("In", pa.array([1, 2], INT64), pa.array(["a", "b"]))
    bench.room("Out", 1)
    bench.argument("high", 9)
    with pytest.raises(RuleError, match="the kernel writes rows 0 to 2 of Out, but Out_lastidx is 1"):
        bench.run()


def test_regex_count() -> None:
    bench = Bench(find("regex_count"))
    lines = ["the kitten", "a cat and a kitten", "cats", "dog", ""]
    bench.put("Text", pa.array(lines))
    bench.put("Patterns", pa.array(["kitten", "^a cat", "c.t", "[0-9]"]))
    bench.room("Counts", 4)
    assert bench.run() == 5
    assert bench.rows("Counts", 4).column(0).to_pylist() == [2, 1, 2, 0]


def test_a_pattern_that_is_none() -> None:
    bench = Bench(find("regex_count"))
    bench.put("Text", pa.array(["x"]))
    bench.put("Patterns", pa.array(["(a"]))
    bench.room("Counts", 1)
    with pytest.raises(RuleError, match=r"pattern 0, '\(a': Invalid regular expression"):
        bench.run()


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (0, [3, -(2**63)]),
        (1, [-1, 2**63 - 2]),
        (2, [2, 2**63 - 1]),
        (3, [1, 1]),
        (4, [2, 2**63 - 1]),
        (5, [0, 1]),
        (6, [3, 2**63 - 1]),
        (7, [3, 2**63 - 2]),
    ],
)
def test_arithmetic(operation: int, expected: list[int]) -> None:
    bench = Bench(find("arithmetic"))
    bench.put("In", pa.array([1, 2**63 - 1], INT64), pa.array([2, 1], INT64))
    bench.room("Out", 2)
    bench.argument("operation", operation)
    assert bench.run() == 2
    assert bench.rows("Out", 2).column(0).to_pylist() == expected


def test_an_operation_that_is_none() -> None:
    bench = Bench(find("arithmetic"))
    bench.argument("operation", 8)
    with pytest.raises(RuleError, match=r"operation is 8, expected 0 to 7.*fletcher/custom-control"):
        bench.run()


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-(2**40), 2**40)), min_size=1, max_size=60))
def test_group_by(rows: list[tuple[int, int]]) -> None:
    bench = Bench(find("group_by"))
    keys, values = zip(*rows, strict=True)
    bench.put("In", pa.array(keys, INT64), pa.array(values, INT64))
    bench.room("Out", len(rows))
    count = bench.run()
    expected = {k: (sum(v for q, v in rows if q == k), keys.count(k)) for k in sorted(set(keys))}
    assert count == len(expected)
    found = bench.rows("Out", count).to_pydict()
    assert found["key"] == list(expected)
    assert list(zip(found["sum"], found["count"], strict=True)) == list(expected.values())


def test_group_by_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softcard.device.fletcher.kernels.general.GROUP_SLICE_ROWS", 7)
    bench = Bench(find("group_by"))
    bench.put("In", pa.array([i % 3 for i in range(50)], INT64), pa.array(range(50), INT64))
    bench.room("Out", 3)
    assert bench.run() == 3
    assert bench.rows("Out", 3).column(1).to_pylist() == [sum(range(k, 50, 3)) for k in range(3)]
