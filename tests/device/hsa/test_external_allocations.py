"""Memory at addresses that somebody else chooses, and its end piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault, RuleError, WireError
from tests.device.hsa.rig import COUNT, Bench, dispatch

Make = Callable[..., Bench]
AT = 0x7F12_3456_7000


def test_an_array_lies_where_it_is_said(bench: Make) -> None:
    """At any address, several times, and kernels work on it."""
    rig = bench()
    cells = np.zeros(1024, np.uint32)
    for address in (AT, AT + 4096, 0x0123_4564):
        rig.device.map_at(address, cells, name="cells")
        rig.queue.submit(dispatch(rig.kernel(COUNT), address, grid_size_x=7))
        assert rig.device.memory.find(address).name == "cells"  # type: ignore[union-attr]
    assert cells[0] == 21
    rig.device.memory.write(AT + 8, b"\x05")
    assert cells[2] == 5


def test_read_only(bench: Make) -> None:
    rig = bench()
    rig.device.map_at(AT, b"constants", writable=False, name="text")
    assert rig.device.memory.read(AT, 9) == b"constants"
    with pytest.raises(AccessFault, match="text is read-only"):
        rig.device.memory.write(AT, b"x")


def test_overlap_is_the_callers(bench: Make) -> None:
    """An error of whoever maps, which the device outlives; nothing has changed."""
    rig = bench()
    device, cells = rig.device, np.zeros(4096, np.uint8)
    device.map_at(AT, cells, name="first")
    before = list(device.memory)
    for address in (AT - 1, AT, AT + 4095, AT - 4095):
        text = f"second at {address:#x}..{address + 4096:#x} overlaps first at {AT:#x}..{AT + 4096:#x}"
        with pytest.raises(RuleError, match=text):
            device.map_at(address, cells, name="second")
    with pytest.raises(RuleError, match="overlaps doorbells"):
        device.map_at(device.doorbell_base + 64, cells)
    assert list(device.memory) == before
    device.map_at(AT + 4096, cells)
    device.map_at(AT - 4096, cells)


def test_where_nothing_can_lie(bench: Make) -> None:
    rig = bench()
    for address, size in ((-1, 4096), (1 << 48, 1), ((1 << 48) - 4095, 4096), (AT, 0)):
        with pytest.raises(
            RuleError,
            match=rf"some, {size} bytes at -?0x[0-9a-f]+: expected at least 1 byte at addresses below 0x1000000000000",
        ):
            rig.device.map_at(address, np.zeros(size, np.uint8), name="some")
    rig.device.map_at((1 << 48) - 4096, np.zeros(4096, np.uint8))


def test_pieces(bench: Make) -> None:
    """What is left and right of a piece that goes stays what it was, for machine code as well."""
    rig = bench()
    cells = np.zeros(5 * 1024, np.uint32)
    rig.device.map_at(AT, cells)
    kernel = rig.kernel(COUNT)
    rig.device.unmap_at(AT + 4096, 4096)
    rig.device.unmap_at(AT + 0x3010, 0x20)
    for address, stays in (
        (AT, True), (AT + 4092, True), (AT + 4096, False), (AT + 8188, False), (AT + 8192, True), (AT + 0x300C, True),
        (AT + 0x3010, False), (AT + 0x302C, False), (AT + 0x3030, True), (AT + 0x4FFC, True), (AT + 0x5000, False),
    ):  # fmt: skip
        queue = rig.new_queue()
        queue.submit(dispatch(kernel, address))
        assert (cells[min((address - AT) // 4, 5 * 1024 - 1)] == 1, queue.error is None) == (stays or cells[-1], stays)
    assert cells.sum() == 6
    rig.device.map_at(AT + 4096, cells[:1024])
    rig.queue.submit(dispatch(kernel, AT + 4096))
    assert cells[0] == 2


def test_across_several_mappings(bench: Make) -> None:
    rig = bench()
    cells = np.arange(4 * 4096, dtype=np.uint64).view(np.uint8)[: 4 * 4096].copy()
    for number in range(4):
        rig.device.map_at(AT + 4096 * number, cells[4096 * number : 4096 * (number + 1)], name=f"page {number}")
    rig.device.unmap_at(AT + 100, 3 * 4096 + 900)
    assert [(each.name, each.base - AT, each.end - AT) for each in rig.device.memory if each.base >= AT] == [
        ("page 0", 0, 100), ("page 3", 3 * 4096 + 1000, 4 * 4096)
    ]  # fmt: skip
    assert rig.device.memory.read(AT + 3 * 4096 + 1000, 96) == cells[3 * 4096 + 1000 :][:96].tobytes()
    rig.device.unmap_at(AT, 100)
    rig.device.unmap_at(AT + 3 * 4096 + 1000, 3096)
    assert not [each for each in rig.device.memory if each.base >= AT]
    assert rig.device.memory.row(AT) == (0, 0, 0, 0)


def test_what_is_not_unmapped(bench: Make) -> None:
    """Holes, and what is the device's own: an error, and nothing has changed."""
    rig = bench()
    device, cells = rig.device, np.zeros(4096, np.uint8)
    device.map_at(AT, cells)
    device.map_at(AT + 8192, cells)
    own = device.allocate(8192)
    before = list(device.memory)
    for address, size, at in (
        (AT - 1, 2, AT - 1), (AT, 4097, AT + 4096), (AT, 3 * 4096, AT + 4096), (own, 4096, own),
        (device.doorbell_base, 8192, device.doorbell_base), (device.map(cells), 16, None),
    ):  # fmt: skip
        with pytest.raises(RuleError, match=f"cannot unmap {at or address:#x}"):
            device.unmap_at(address, size)
    assert [each for each in device.memory if each in before] == before
    device.unmap_at(AT, 0)
    assert device.memory.find(AT) is not None


class Zeros:
    size = 4096

    def host_address(self, offset: int, unit: Any) -> None:
        return None

    def read(self, offset: int, size: int, unit: Any) -> bytes:
        return bytes(size)

    def write(self, offset: int, data: bytes, unit: Any) -> None:
        pass


def test_regions_go_as_a_whole(bench: Make) -> None:
    rig = bench()
    rig.device.map_at(AT, Zeros(), name="zeros")
    with pytest.raises(RuleError, match=f"zeros at {AT:#x}..{AT + 4096:#x} can only be unmapped as a whole"):
        rig.device.unmap_at(AT, 100)
    assert rig.device.memory.read(AT, 4) == bytes(4)
    rig.device.unmap_at(AT, 4096)
    assert rig.device.memory.find(AT) is None


@pytest.mark.parametrize("where", [0x1_8000_0000, 0x100_0000_0000])
def test_where_the_device_allocates(bench: Make, where: int) -> None:
    """Blocks of the device's own never meet what was mapped, and addresses come back when that has gone."""
    rig = bench()
    device, cells = rig.device, np.zeros(1 << 20, np.uint8)
    device.map_at(where, cells)
    blocks = {device.allocate(1 << 28) for _ in range(24)} | {device.map(cells) for _ in range(8)}
    assert all(at + (1 << 28) <= where or at >= where + (1 << 20) for at in blocks)
    device.unmap_at(where, 1 << 19)
    with pytest.raises(RuleError, match="overlaps"):
        device.map_at(where + (1 << 19), cells)
    device.unmap_at(where + (1 << 19), 1 << 19)
    device.map_at(where, cells)


def test_beside_a_block(bench: Make) -> None:
    """The page behind a block is the device's as well: accesses that run over its end fault."""
    rig = bench()
    own = rig.device.allocate(8192)
    with pytest.raises(RuleError, match=r"host memory at .* overlaps the device's own memory"):
        rig.device.map_at(own + 8192, np.zeros(4096, np.uint8))


def test_high(bench: Make) -> None:
    """All that the device allocates lies where no process of the host has memory."""
    rig = bench(own_addresses="high")
    count, cells = rig.device.allocate(64), np.zeros(16, np.uint32)
    mapped = rig.device.map(cells)
    assert min(each.base for each in rig.device.memory) >= 1 << 47
    for address in (count, mapped):
        rig.queue.submit(dispatch(rig.kernel(COUNT), address, grid_size_x=3))
    assert (rig.device.array(count, 1, "u4")[0], cells[0], rig.errors) == (3, 3, [])
    with pytest.raises(
        WireError, match="own_addresses='high' requires machine_model='large': the small one has 32-bit addresses"
    ):
        bench(own_addresses="high", machine_model="small")


def test_high_private_memory(bench: Make) -> None:
    for agent in ("gfx803", "gfx900"):
        rig = bench(agent, own_addresses="high")
        rig.device.set_scratch(rig.queue, 64, 8)
        record = rig.queue.record()
        at = record.scratch_resource_descriptor[0] | (record.scratch_resource_descriptor[1] & 0xFFFF) << 32
        assert at == record.scratch_backing_memory_location + rig.device.hidden_private_base >= 1 << 47


def test_snapshot(bench: Make) -> None:
    rig = bench()
    cells = np.zeros(4096, np.uint8)
    rig.device.map_at(AT, cells)
    state = rig.device.snapshot()
    cells[0] = 7
    rig.device.unmap_at(AT + 16, 16)
    rig.device.map_at(0x1_8000_0000, cells)
    rig.device.restore(state)
    assert cells[0] == 0
    rig.device.unmap_at(AT, 4096)
    rig.device.map_at(0x1_8000_0000, cells)
    rig.device.reset()
    assert rig.device.memory.find(AT) is None


def test_in_place_of_what_was_mapped(bench: Make) -> None:
    """All of it, a piece, more than it; what stays of others stays."""
    rig = bench()
    device = rig.device
    first, second = np.full(3 * 4096, 1, np.uint8), np.full(4096, 2, np.uint8)
    device.map_at(AT, first, name="first")
    device.map_at(AT + 4096, second, name="second", replace=True)
    assert [(each.name, each.base - AT) for each in device.memory if each.base >= AT] == [
        ("first", 0), ("second", 4096), ("first", 8192)
    ]  # fmt: skip
    rig.queue.submit(dispatch(rig.kernel(COUNT), AT + 4096))
    assert (first.sum(), second[:4].view("u4")[0]) == (3 * 4096, 0x0202_0203)
    device.map_at(AT - 4096, np.full(5 * 4096, 3, np.uint8), name="third", replace=True)
    device.unmap_at(AT - 4096, 5 * 4096)
    assert device.memory.find(AT + 8192) is None


def test_what_is_not_replaced(bench: Make) -> None:
    """The device's own, and a part of a region with effects."""
    rig = bench()
    device, cells = rig.device, np.zeros(4096, np.uint8)
    for own in (device.allocate(4096), device.map(cells), device.doorbell_base):
        with pytest.raises(RuleError, match="overlaps"):
            device.map_at(own, cells, replace=True)
    device.map_at(AT, Zeros(), name="zeros")
    with pytest.raises(RuleError, match=r"zeros at .* can only be unmapped as a whole"):
        device.map_at(AT + 4, cells, replace=True)
    device.map_at(AT - 4096, np.zeros(8192, np.uint8), replace=True)
    assert device.memory.plain(AT, 4096) is not None


def test_replaced_among_the_devices_addresses(bench: Make) -> None:
    rig = bench()
    device, where = rig.device, 0x1_8000_0000
    for start, size in ((0, 4096), (8192, 4096), (0, 16384), (4096, 64)):
        device.map_at(where + start, np.zeros(size, np.uint8), replace=True)
    device.unmap_at(where, 16384)
    assert device.memory.find(where) is None
    spaces = device._memory.heap.spaces
    assert all(is_free for start, _, is_free in spaces[0].blocks() if start <= where + 16384 and start >= where)
