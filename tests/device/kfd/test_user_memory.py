"""Memory that programs allocate themselves and register: what that costs, and when it is given back."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
import pytest

from softcard.core.allocations import Allocations
from softcard.core.errors import AccessFault, NoHostMemory
from softcard.device.kfd import client, user_memory
from softcard.device.kfd.client import Mapping, ProcessMemory
from softcard.device.kfd.ioctls import AllocFlags
from tests.device.kfd.rig import MAP_FIXED, PAGE, Pages, Program, libc, program

COUNT = 150
OTHER_PROGRAM = 1 << 30
"""Bytes of a mapping that only the driver's process has: here it is the program, too."""


def unmap(pages: Pages) -> None:
    """Take pages from the program as munmap does; others of its own lie there then."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
    assert libc.mmap(pages.address, pages.bytes.size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) == pages.address


def offset_of(own: Program, pages: Pages) -> int:
    """Return the offset of registered pages in the shared memory."""
    (found,) = own.client.mappings(pages.address, pages.address + pages.bytes.size)
    return found.offset


@pytest.fixture(autouse=True)
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Mapping]:
    """Gather what is seen of a program's mappings, without the driver's own of all shared memory."""
    seen: list[Mapping] = []
    known = ProcessMemory.mappings

    def mappings(self: ProcessMemory, start: int, end: int) -> list[Mapping]:
        found = [each for each in known(self, start, end) if each.end - each.start < OTHER_PROGRAM]
        seen.extend(found)
        return found

    monkeypatch.setattr(ProcessMemory, "mappings", mappings)
    return seen


@pytest.mark.parametrize("check", ["", "memory"])
def test_the_last_of_many_registrations_costs_as_much_as_the_first(check: str, looked: list[Mapping]) -> None:
    with program(**({"check": check} if check else {})) as own:
        for _ in range(COUNT):
            own.shared(PAGE)
        assert COUNT <= len(looked) < 20 * COUNT


def test_what_a_program_has_unmapped_is_given_back() -> None:
    with program() as own:
        gone, stays = own.shared(2 * PAGE), own.shared(PAGE)
        gone.bytes[:] = stays.bytes[:] = 7
        gone_at, stays_at = offset_of(own, gone), offset_of(own, stays)
        unmap(gone)
        for _ in range(user_memory.FEW_PIECES):
            own.shared(PAGE)
        assert not own.client.shared.bytes(gone_at, 2 * PAGE).any()
        assert own.client.shared.bytes(stays_at, PAGE).all()


def test_large_pieces_are_given_back_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_memory, "FEW_BYTES", 16 * PAGE)
    with program() as own:
        gone = own.shared(16 * PAGE)
        gone.bytes[:] = 7
        at = offset_of(own, gone)
        unmap(gone)
        own.shared(PAGE)
        assert not own.client.shared.bytes(at, 16 * PAGE).any()


def test_a_full_shared_memory_is_searched_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with program() as own:
        gone = own.shared(PAGE)
        gone.bytes[:] = 7
        at = offset_of(own, gone)
        unmap(gone)
        known, full = own.client.shared.allocate, [True]

        def allocate(size: int) -> int:
            if full.pop() if full else False:
                raise NoHostMemory("all in use")
            return known(size)

        monkeypatch.setattr(own.client.shared, "allocate", allocate)
        again = own.shared(PAGE)
        assert not again.bytes.any()
        assert not own.client.shared.bytes(at, PAGE).any()


def test_the_shared_memory_of_another_program_is_not_this_ones() -> None:
    """A child has all that its parent had mapped; when it opens the driver, it gets shared memory of its own."""
    with program() as parent, program() as child:
        pages, free = parent.shared(PAGE), child.client.shared.allocate(PAGE)
        pages.bytes[:4] = (1, 2, 3, 4)
        assert free == offset_of(parent, pages), "the same place of another file"
        found = child.allocate(pages.address, PAGE, AllocFlags.USERPTR, pages.address)
        child.map(found.handle)
        assert child.process.device(child.device.nodes[0]).memory.read(pages.address, 4) == b"\1\2\3\4"


def test_memory_that_the_agent_may_only_read() -> None:
    """Pages that become shared, and pages of another program, which remain foreign."""
    with program() as parent, program() as child:
        memory = child.process.device(child.device.nodes[0]).memory
        for pages, text in (
            (child.own(PAGE), "write of 4 bytes at .*: allocation 1 is read-only"),
            (parent.shared(PAGE), "write of 4 bytes at offset 0x0 of memory that the GPU may only read"),
        ):
            found = child.allocate(pages.address, PAGE, AllocFlags.USERPTR, pages.address, writable=False)
            child.map(found.handle)
            assert memory.read(pages.address, 4) == bytes(4)
            with pytest.raises(AccessFault, match=text):
                memory.write(pages.address, b"none")
            assert not pages.bytes.any()


def test_mappings_that_are_asked_for_are_those_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with program() as own:
        pages = own.own(4 * PAGE)
        found = own.allocate(pages.address, 2 * PAGE, AllocFlags.USERPTR, pages.address)
        own.map(found.handle)
        start, end = pages.address + PAGE, pages.address + 3 * PAGE
        asked = own.client.mappings(start, end)
        monkeypatch.setattr(client, "_queried", lambda *_: None)  # as before Linux 6.11
        assert own.client.mappings(start, end) == asked
        assert [each.offset >= 0 for each in asked] == [True, False]
        assert (asked[0].start, asked[-1].end) == (start, end)
        assert own.client.mappings(8, 16) == []


def test_a_program_that_has_gone_has_no_mappings() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(client.Refused, match="the program's mappings cannot be read: No such file or directory"):
        ProcessMemory(child).mappings(0, 1 << 47)
    assert ctypes.sizeof(client._Query) == 104
    assert np.uint64(client._PROCMAP_QUERY) == 0xC068_6611


def test_allocations_that_a_new_one_overlaps() -> None:
    known = Allocations()
    for base in (0x1000, 0x2000, 0x4000):
        known.add("memory", base, 0x1000)
    found = [
        [each.base for each in known.overlapping(start, end)]
        for start, end in ((0, 0x1000), (0x1FFF, 0x2001), (0x2800, 0x4001), (0x3000, 0x4000), (0x4FFF, 0x9000))
    ]
    assert found == [[], [0x1000, 0x2000], [0x2000, 0x4000], [], [0x4000]]
