"""Names of kernels from code objects as a loader puts them into memory, and from what is none."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from softcard.device.kfd.loaded_code import function_at, kernel_name
from softcard.engine.gcn.memory import GpuMemory
from softcard.host.hsa.gpu import demo_code
from softcard.image.hsa.code_object import read_code_object

BASE = 0x7F00_0000_0000
BYTES = 0x10000


def loaded() -> tuple[GpuMemory, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    """A code object at an address, segment by segment."""
    data = demo_code("gfx900")
    place = np.zeros(BYTES, np.uint8)
    offset, size, count = struct.unpack_from("<32xQ14xHH", data)
    for number in range(count):
        kind, _, at, address, _, length, _, _ = struct.unpack_from("<IIQQQQQQ", data, offset + size * number)
        if kind == 1:
            place[address : address + length] = np.frombuffer(data, np.uint8, length, at)
    memory = GpuMemory()
    memory.map(BASE, place)
    return memory, place


def descriptors() -> dict[str, int]:
    """Where the descriptors of the same code object lie."""
    return {name: kernel.address for name, kernel in read_code_object(demo_code("gfx900")).kernels.items()}


def test_every_kernel_is_found() -> None:
    memory, _ = loaded()
    found = descriptors()
    assert found
    for name, address in found.items():
        assert kernel_name(memory, BASE + address) == name
        assert not kernel_name(memory, BASE + address + 1)


def test_functions_by_their_instructions() -> None:
    memory, _ = loaded()
    kernels = read_code_object(demo_code("gfx900")).kernels
    for name, kernel in kernels.items():
        assert function_at(memory, BASE + kernel.entry) == (name, 0)
        assert function_at(memory, BASE + kernel.entry + 4) == (name, 4)
    assert function_at(memory, BASE + next(iter(kernels.values())).address) == ("", 0)
    assert function_at(memory, BASE + BYTES) == ("", 0)


def test_what_has_no_name() -> None:
    memory, place = loaded()
    address = next(iter(descriptors().values()))
    assert not kernel_name(memory, 0)
    assert not kernel_name(memory, BASE + BYTES + 5)
    assert not kernel_name(memory, (1 << 64) - 1)
    place[0] = 0
    assert not kernel_name(memory, BASE + address)


@pytest.mark.parametrize("seed", range(5))
def test_damage_is_no_error(seed: int) -> None:
    random = np.random.default_rng(seed)
    address = next(iter(descriptors().values()))
    for _ in range(20):
        memory, place = loaded()
        at = random.integers(6, 0x400, 20)
        place[at] = random.integers(0, 256, 20)
        dynamic = 23680 + random.integers(0, 112, 4)
        place[dynamic] = random.integers(0, 256, 4)
        assert kernel_name(memory, BASE + address) in {"", *descriptors()}
        assert function_at(memory, BASE + address)[0] in {"", *descriptors()}
