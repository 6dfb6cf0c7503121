"""NumPy arrays as device memory: made by the device, or made elsewhere and mapped without a copy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from softcard.core.errors import AccessFault, RuleError, WireError
from softcard.host.hsa.gpu import Gpu, demo_code
from tests.engine.gcn.jit.leaving import exits

PAGE = 4096


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    with Gpu.open("gfx900", threads=1) as opened:
        yield opened


def run(gpu: Gpu, x: np.ndarray, y: np.ndarray) -> None:
    gpu.run(demo_code(), "saxpy", x.size, args=[1, x, y])


def test_an_array_is_the_memory_itself(gpu: Gpu) -> None:
    array = gpu.array([1, 2, 3], np.uint16)
    address = gpu.address(array)
    assert address % PAGE == 0
    assert gpu.device.memory.read(address, 6) == bytes([1, 0, 2, 0, 3, 0])
    gpu.device.memory.write(address + 2, b"\x07")
    assert array.tolist() == [1, 7, 3]


@pytest.mark.parametrize("shape", [5, (3, 4), (2, 0), ()])
def test_shapes(gpu: Gpu, shape: int | tuple[int, ...]) -> None:
    array = gpu.zeros(shape, np.int32)
    assert array.shape == ((shape,) if isinstance(shape, int) else shape)
    assert not array.any()


def test_arrays_of_the_device_go_straight_to_memory(gpu: Gpu) -> None:
    array = gpu.zeros(PAGE // 4 + 1)
    for address in (gpu.address(array), gpu.address(array) + PAGE):
        assert gpu.device.memory.row(address)[3] == 2 * PAGE


def test_a_part_of_an_array_has_its_own_address(gpu: Gpu) -> None:
    array = gpu.zeros((4, 8), np.float64)
    assert gpu.address(array[1]) == gpu.address(array) + 64
    assert gpu.address(array[2, 3:]) == gpu.address(array) + 2 * 64 + 24
    run_on = gpu.zeros(64)
    run(gpu, gpu.array(np.ones(32, np.float32)), run_on[32:])
    assert run_on.tolist() == [0] * 32 + [1] * 32


def test_foreign_arrays_are_mapped_for_a_launch_only(gpu: Gpu) -> None:
    x, y = np.arange(5000, dtype=np.float32), np.zeros(5000, np.float32)
    run(gpu, gpu.zeros(64), gpu.zeros(64))  # so that there is a queue
    before = [each.base for each in gpu.device.memory]
    run(gpu, x, y)
    assert np.array_equal(x, y)
    assert [each.base for each in gpu.device.memory] == before
    with pytest.raises(RuleError, match=r"is not in device memory: make it with gpu\.array\(\), or call gpu\.share"):
        gpu.address(x)


@pytest.mark.parametrize("offset", [0, 1, 7, 1023])
def test_foreign_arrays_at_any_place(gpu: Gpu, offset: int) -> None:
    base = np.zeros(6000, np.float32)
    y = base[offset : offset + 3000]
    run(gpu, np.arange(3000, dtype=np.float32), y)
    assert np.array_equal(y, np.arange(3000))
    assert not base[:offset].any()
    assert not base[offset + 3000 :].any()


def test_foreign_arrays_are_reached_without_python(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole arrays, the first and last elements of large ones, parts, and two that share a page of the host."""
    both, large = np.zeros(256, np.float32), np.zeros(1 << 18, np.float32)
    x = np.ones(128, np.float32)
    with exits(monkeypatch) as found:
        for y in (np.zeros(64, np.float32), large[:64], large[-64:], large[1001:3049], both[:128], both[128:]):
            run(gpu, x[: y.size] if y.size <= x.size else np.ones(y.size, np.float32), y)
            assert (y == 1).all()
    assert found == []


def test_exact_arrays_are_reached_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    with Gpu.open("gfx900", threads=1, exact=True) as gpu, exits(monkeypatch) as found:
        x, y = gpu.array(np.arange(1500, dtype=np.float32)), gpu.zeros(1500)
        run(gpu, x, y)
        assert np.array_equal(x, y)
        assert found == []


def test_shared_arrays_stay(gpu: Gpu) -> None:
    x = np.ones(100, np.float32)
    address = gpu.share(x)
    assert gpu.share(x) == address == gpu.address(x)
    run(gpu, x, x)
    assert (x == 2).all()
    assert gpu.address(x) == address
    gpu.free(x)
    with pytest.raises(RuleError, match="is not in device memory"):
        gpu.address(x)


def test_an_array_in_the_order_of_fortran(gpu: Gpu) -> None:
    y = np.asfortranarray(np.zeros((8, 8), np.float32))
    run(gpu, np.arange(64, dtype=np.float32).reshape(8, 8), y)
    assert np.array_equal(y.T.reshape(-1), np.arange(64))


def test_an_array_that_cannot_be_written_is_read_only_for_kernels(gpu: Gpu) -> None:
    x = np.ones(64, np.float32)
    x.flags.writeable = False
    y = np.zeros(64, np.float32)
    run(gpu, x, y)
    assert (y == 1).all()
    with pytest.raises(AccessFault, match=r"array float32\[64\] is read-only"):
        run(gpu, y, x)
    assert (x == 1).all()


def test_memory_that_was_given_back_is_used_again(gpu: Gpu) -> None:
    first = gpu.zeros(1000)
    address = gpu.address(first)
    gpu.free(first)
    assert gpu.address(gpu.zeros(1000)) == address
    first[0] = 1  # still memory of this process


def test_what_lies_behind_an_array_is_a_fault() -> None:
    with Gpu.open("gfx900", threads=1) as gpu:
        x = gpu.zeros(PAGE // 4)
        with pytest.raises(AccessFault, match=r"no memory there, array float32\[1024\] ends at"):
            gpu.run(demo_code(), "saxpy", PAGE // 4 + 1, args=[1, x, x])


def test_exact_arrays_end_with_their_last_byte() -> None:
    with Gpu.open("gfx900", threads=1, exact=True) as gpu:
        x, y = gpu.array(np.arange(100, dtype=np.float32)), gpu.zeros(100)
        run(gpu, x, y)
        assert np.array_equal(x, y)
        with pytest.raises(AccessFault, match=r"array float32\[100\] ends at") as caught:
            gpu.run(demo_code(), "saxpy", 101, args=[1, x, y])
        assert "at lane 36" in str(caught.value)


def test_an_empty_array_is_the_null_pointer(gpu: Gpu) -> None:
    assert gpu.address(np.zeros(0, np.float32)) == 0


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((8, 8), np.float32)[:, ::2], "without gaps between its elements"),
        (np.zeros(8, ">f4"), "expected little-endian elements"),
        (np.array([None] * 8), "expected little-endian elements of fixed size"),
    ],
)
def test_arrays_that_cannot_be_shared(gpu: Gpu, array: np.ndarray, message: str) -> None:
    with pytest.raises(WireError, match=message):
        gpu.share(array)
    with pytest.raises(WireError, match=message):
        gpu.run(demo_code(), "saxpy", 8, args=[1, array, array])


def test_freeing_what_is_no_array_of_the_device(gpu: Gpu) -> None:
    array = gpu.zeros(8)
    with pytest.raises(RuleError, match="cannot free the array"):
        gpu.free(array[1:])
    gpu.free(array)
    with pytest.raises(RuleError, match="cannot free the array"):
        gpu.free(array)


@pytest.mark.parametrize("shape", [-1, (3, -2)])
def test_sizes_that_cannot_be(gpu: Gpu, shape: int | tuple[int, ...]) -> None:
    with pytest.raises(WireError, match="expected sizes of 0 or more"):
        gpu.zeros(shape)


def test_more_than_there_can_be(gpu: Gpu) -> None:
    with pytest.raises(Exception, match="bytes"):
        gpu.zeros(1 << 60)
