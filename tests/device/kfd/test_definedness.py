"""The check of uninitialised values on a program's device memory: allocations, copies, the program's own stores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from softcard.core.findings import Level
from softcard.device.hsa.settings import JUNK
from softcard.device.kfd import allocations
from softcard.device.kfd.ioctls import AllocFlags, FreeMemoryOfGpu, Number
from softcard.device.kfd.sdma import ConstFill
from softcard.engine.gcn.shadow.check import ShadowCheck
from tests.device.kfd.rig import PAGE, Program, program
from tests.device.kfd.test_sdma import VA, Copies


class Vram:
    """Device memory that the program has mapped."""

    def __init__(self, client: Program, address: int, size: int = PAGE, *gpu_ids: int) -> None:
        found = client.allocate(address, size, AllocFlags.VRAM)
        self.address, self.handle = address, found.handle
        assert client.map(found.handle, gpu_ids=gpu_ids) == max(len(gpu_ids), 1)
        self.bytes = client.client.shared.bytes(found.mmap_offset, size)


@pytest.fixture
def copies() -> Iterator[Copies]:
    with program("gfx900", check="init") as client:
        yield Copies(client)


def findings(client: Program, number: int = 0) -> list[str]:
    device = client.process.device(client.device.nodes[number])
    return [each.message for each in device.findings]


def test_what_was_never_written_is_reported_when_it_is_copied_back(copies: Copies) -> None:
    vram, to = Vram(copies.client, VA), copies.data
    assert (vram.bytes.view(np.uint32) == JUNK).all()
    copies.do(copies.copy(to.address, vram.address, 64))
    (found,) = copies.client.process.device(copies.client.device.nodes[0]).findings
    text = f"64 of 64 bytes that the host copied were never written: the first is at offset 0 of {found.allocation}"
    assert (found.name, found.level, found.message) == ("init/undefined-result", Level.WARNING, text)
    assert found.suggestion == "write all of the memory before the copy, or copy only the written part"


def test_what_was_written_is_not(copies: Copies) -> None:
    first, second, data = Vram(copies.client, VA), Vram(copies.client, VA + 0x10000), copies.data
    first.bytes[:100] = range(100)  # by the program itself
    copies.do(copies.copy(second.address, first.address, 100))
    copies.do(ConstFill(address=second.address + 100, data=0, count=copies.count(100), fill_size=2))
    copies.do(copies.copy(second.address + 200, data.address, 100))
    copies.do(copies.copy(data.address, second.address, 300))
    assert not findings(copies.client)
    copies.do(copies.copy(data.address, second.address, 304))
    (message,) = findings(copies.client)
    assert message.startswith("4 of 304 bytes that the host copied were never written: the first is at offset 300 of ")


def test_definedness_goes_with_copies(copies: Copies) -> None:
    first, second, data = Vram(copies.client, VA), Vram(copies.client, VA + 0x10000), copies.data
    copies.do(ConstFill(address=second.address, data=0, count=copies.count(PAGE), fill_size=2))
    first.bytes[:32] = 1
    copies.do(copies.copy(second.address, first.address, 64))
    copies.do(copies.copy(data.address, second.address, 128))
    (message,) = findings(copies.client)
    assert message.startswith("31 of 128 bytes that the host copied")
    second.bytes[:64] = 2  # by the program, where the copy engine has left undefined values
    copies.do(copies.copy(data.address, second.address, 128))
    assert len(findings(copies.client)) == 1


def test_memory_that_was_freed_begins_anew(copies: Copies) -> None:
    client, data = copies.client, copies.data
    for turn in range(2):
        vram = Vram(client, VA)
        assert (vram.bytes.view(np.uint32) == JUNK).all()
        if not turn:
            vram.bytes[:] = 0
            copies.do(copies.copy(data.address, vram.address, 64))
            assert not findings(client)
        client.unmap(vram.handle)
        client.call(Number.FREE_MEMORY_OF_GPU, FreeMemoryOfGpu(handle=vram.handle))
    vram = Vram(client, VA)
    copies.do(copies.copy(data.address, vram.address, 64))
    assert len(findings(client)) == 1


def test_there_is_a_limit_which_is_reported(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocations, "MOST_FILLED", PAGE)
    Vram(copies.client, VA)
    second = Vram(copies.client, VA + 0x10000)
    copies.do(copies.copy(copies.data.address, second.address, 64))
    (found,) = copies.client.process.device(copies.client.device.nodes[0]).findings
    assert (found.name, found.level) == ("init/untracked-allocation", Level.NOTE)
    assert found.message.endswith("4096 bytes is not checked: at most 4096 bytes of a program are tracked at a time")


def test_memory_of_several_agents_counts_as_written() -> None:
    with program("gfx900", "gfx906", check="init") as client:
        copies = Copies(client)
        ids = [node.gpu_id for node in client.device.nodes]
        vram = Vram(client, VA, PAGE, *ids)
        copies.do(copies.copy(copies.data.address, vram.address, 64))
        assert not findings(client)
        assert not findings(client, 1)


@pytest.mark.parametrize(("options", "word"), [({}, 0), ({"poison": 0x1234_5678}, 0x1234_5678)], ids=["none", "poison"])
def test_memory_without_the_check(options: dict[str, int], word: int) -> None:
    with program("gfx900", **options) as client:
        copies = Copies(client)
        vram = Vram(client, VA)
        assert (vram.bytes.view(np.uint32) == word).all()
        copies.do(copies.copy(copies.data.address, vram.address, 64))
        assert not findings(client)


STORED = "8 bytes that a kernel stored to the host's memory were never written: the first is at "


@pytest.mark.parametrize("check", ["init", "memory,init"])
def test_only_stores_to_the_hosts_memory_are_results(check: str) -> None:
    """Private memory is the device's own, wherever it lies: registers that a function saves there may be undefined."""
    with program("gfx900", check=check) as client:
        device = client.process.device(client.device.nodes[0])
        queue = device.create_queue(16)
        device.set_scratch(queue, 64, 1)
        vram, host = Vram(client, VA), client.allocate(VA + 0x10000, PAGE)
        client.map(host.handle)
        marks = device.checks.find(ShadowCheck)
        assert marks is not None
        assert marks.program is not None
        for address, messages in (
            (queue.scratch_block, []),
            (device.allocate(64), []),
            (vram.address, []),
            (VA + 0x10000, [f"{STORED}{VA + 0x10000:#x}"]),
        ):
            marks.device_shadow.undefined(address, 8)
            marks.device_shadow.uses.stores += 1
            marks.program.after_dispatch(None)  # type: ignore[arg-type]  # no origin is asked for
            assert findings(client) == messages, hex(address)


def test_device_memory_that_is_not_tracked_counts_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run-time library allocates private memory there as well."""
    monkeypatch.setattr(allocations, "MOST_FILLED", 0)
    with program("gfx900", check="init") as client:
        vram = Vram(client, VA)
        marks = client.process.device(client.device.nodes[0]).checks.find(ShadowCheck)
        assert marks is not None
        assert marks.program is not None
        marks.device_shadow.undefined(vram.address, 8)
        marks.device_shadow.uses.stores += 1
        marks.program.after_dispatch(None)  # type: ignore[arg-type]  # no origin is asked for
        assert ["is not checked" in each for each in findings(client)] == [True]
        assert not any(marks.device_shadow.shadow_memories[0].read(vram.address, 8))
