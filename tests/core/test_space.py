"""RAM and address spaces."""

import ctypes
import mmap
import os
import warnings
from pathlib import Path

import pytest

from softcard.core.errors import AccessFault, ModelBug
from softcard.core.files import HAS_MEMORY_FILES
from softcard.core.space import PAGE_SIZE, AddressSpace, Ram, SharedRam, Unit
from softcard.engine.riscv.code_stores.layout import SharedStoreRam
from softcard.engine.riscv.shadow_layout import SharedShadowedRam

UNIT = Unit(1)


def space():
    result = AddressSpace()
    result.map(0x2000, Ram(0x100), "high")
    result.map(0x1000, Ram(0x800), "low")
    return result


def test_ram_starts_empty_and_keeps_what_is_written():
    ram = Ram(0x1800)
    ram.write(0x10, b"abc", UNIT)
    assert ram.read(0xF, 5, UNIT) == b"\0abc\0"
    assert bytes(ram.view[0x10:0x13]) == b"abc"


def test_ram_can_be_reached_by_host_address():
    ram = Ram(16)
    ram.write(8, b"xyz", UNIT)
    address = ram.host_address(8, UNIT)
    assert address is not None
    assert ctypes.string_at(address, 3) == b"xyz"
    assert ram.host_address(16, UNIT) is None
    assert ram.host_address(-1, UNIT) is None


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, -1), (15, 2), (16, 1)])
def test_ram_refuses_what_lies_outside(offset, size):
    with pytest.raises(AccessFault) as caught:
        Ram(16).read(offset, size, UNIT)
    assert str(caught.value) == f"read of {size} bytes at offset {offset:#x} is outside of a memory of 0x10 bytes"
    assert (caught.value.address, caught.value.access) == (offset, "read")


def test_ram_refuses_writes_outside():
    with pytest.raises(AccessFault, match=r"^write of 2 bytes at offset 0xf is outside of a memory of 0x10 bytes$"):
        Ram(16).write(15, b"ab", UNIT)


def test_regions_are_found_by_address():
    memory = space()
    assert [mapping.name for mapping in memory] == ["low", "high"]
    assert memory.find(0x17FF).name == "low"
    assert memory.find(0x17FF, 2) is None
    assert memory.find(0xFFF) is None
    memory.write(0x2004, b"hi", UNIT)
    assert memory.read(0x2004, 2, UNIT) == b"hi"
    assert memory.unmap(0x2000).name == "high"
    assert memory.find(0x2004) is None


def test_where_no_region_is_an_access_faults():
    with pytest.raises(AccessFault, match=r"^read of 8 bytes at 0x17fc: no memory there$") as caught:
        space().read(0x17FC, 8, UNIT)
    assert (caught.value.address, caught.value.access) == (0x17FC, "read")
    with pytest.raises(AccessFault, match=r"^write of 1 bytes at 0x0: no memory there$"):
        space().write(0, b"a", UNIT)


def test_regions_must_not_overlap():
    with pytest.raises(ModelBug) as caught:
        space().map(0x17FF, Ram(1), "third")
    assert str(caught.value) == "third at 0x17ff..0x1800 overlaps low at 0x1000..0x1800"


def test_cleared_ram_is_zero_at_the_same_host_address():
    ram = Ram(0x3000)
    address = ram.base_host
    ram.write(0x1FFF, b"abc", UNIT)
    ram.clear()
    assert ram.read(0, 0x3000, UNIT) == bytes(0x3000)
    ram.write(0, b"x", UNIT)
    assert ctypes.string_at(address, 1) == b"x"


def test_a_process_with_more_device_memory_than_the_host_has_can_fork():
    host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    swap = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if "SwapTotal" in line)
    memories = [Ram((host + 1024 * swap) // 3) for _ in range(4)]  # Linux makes one area of neighbours
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks with threads
        child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for memory in memories:
        memory.close()


@pytest.mark.skipif(not HAS_MEMORY_FILES, reason="this system has no memory to share")
def test_shared_memory_is_one_memory_in_two_places() -> None:
    """Memory that another process maps is neither copied nor truncated, and outlives the device's own mapping."""
    ram = SharedRam(10_000)
    other = mmap.mmap(ram.descriptor, 3 * PAGE_SIZE, offset=SharedRam.FILE_OFFSET)
    ram.write(9_990, b"ten bytes!", UNIT)
    assert other[9_990:10_000] == b"ten bytes!"
    other[7:10] = b"abc"
    assert ram.read(6, 5, UNIT) == b"\0abc\0"
    with pytest.raises(PermissionError):
        os.ftruncate(ram.descriptor, PAGE_SIZE)
    host = ram.base_host
    ram.clear()
    assert (ram.base_host, other[:10_000]) == (host, bytes(10_000))
    other[0] = 1
    descriptor = ram.descriptor
    ram.close()
    assert other[0] == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.skipif(not HAS_MEMORY_FILES, reason="no memory files")
@pytest.mark.parametrize("kind", [SharedShadowedRam, SharedStoreRam])
def test_shadow_memory_beside_shared_memory_is_not_shared(kind: type[SharedShadowedRam]) -> None:
    ram = kind(10_000)
    assert os.fstat(ram.descriptor).st_size == 5 * PAGE_SIZE
    with mmap.mmap(ram.descriptor, 3 * PAGE_SIZE, offset=SharedRam.FILE_OFFSET) as other:
        other[9_999] = 7
        assert (ram.view[9_999], ram.shadows.any()) == (7, False)
        ram.shadows[:] = 0xFF
        ram.view[0] = 5
        assert (other[0], other[1]) == (5, 0)
        ram.clear()
        assert (other[9_999], ram.view[0], ram.shadows.any()) == (0, 0, False)
    ram.close()
