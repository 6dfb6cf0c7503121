"""The driver's functions as Python calls: results, refusals, and nothing after shutdown."""

from __future__ import annotations

import pytest

from softcard.core.errors import AccessFault, BeyondModel, GuestFault, RuleError, SoftcardError, WireError
from softcard.core.space import Unit
from softcard.device.refsi.registers import MemoryKind
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.host.refsi.driver import OutOfDeviceMemory, RefSiDriver, buffer_bytes

DRAM = 0x5000_0000
FINISH = 0xC000_0100
BAD_OPCODE = 0xC000_0A00


@pytest.fixture(params=["spec", "refsidrv"])
def device(request: pytest.FixtureRequest) -> RefSiDriver:
    return RefSiDriver.open(profile=request.param, engine="reference")


def test_queries(device: RefSiDriver) -> None:
    assert (device.info.family, device.info.cores, device.info.harts_per_core) == ("m", 1, 4)
    assert [entry.kind for entry in device.memory_map] == [
        MemoryKind.TCDM,
        MemoryKind.DRAM,
        MemoryKind.KERNEL_DMA_PRIVATE,
        MemoryKind.PERF_COUNTERS,
    ]


def test_memory(device: RefSiDriver) -> None:
    address = device.allocate(100, 64)
    assert address % 64 == 0
    device.write(address, b"softcard")
    assert device.read(address, 8) == b"softcard"
    view = device.map(address, 4)
    assert view is not None
    view[0] = ord("S")
    device.flush(address, 4)
    device.invalidate(address, 4)
    assert device.read(address, 5) == b"Softc"
    device.free(address)
    assert device.allocate(100, 64) == address


def test_registers_are_not_mapped(device: RefSiDriver) -> None:
    assert device.map(0x2000_2000, 8) is None
    device.write(0x2000_2018, bytes(range(8)), Unit(2))
    assert device.read(0x2000_2018, 8, Unit(2)) == bytes(range(8))


def test_refused_memory(device: RefSiDriver) -> None:
    with pytest.raises(AccessFault, match="0x100"):
        device.read(0x100, 8)
    with pytest.raises(AccessFault, match="0x100"):
        device.write(0x100, b"1")


@pytest.mark.parametrize(
    ("size", "alignment", "text"),
    [
        (-1, 8, "cannot allocate -1 bytes"),
        (8, 0, "alignment 0"),
        (8, 24, "alignment 24, expected 0 bytes or more and an alignment that is a power of two"),
    ],
)
def test_bad_allocations(device: RefSiDriver, size: int, alignment: int, text: str) -> None:
    with pytest.raises(RuleError, match=text):
        device.allocate(size, alignment)


def test_no_memory_left(device: RefSiDriver) -> None:
    with pytest.raises(OutOfDeviceMemory, match="DRAM has no room for 0x80000001 bytes with alignment 0x1000"):
        device.allocate((2 << 30) + 1)
    with pytest.raises(OutOfDeviceMemory, match="TCDM has no room"):
        device.allocate(8, 8, MemoryKind.TCDM)


def test_execute_and_wait(device: RefSiDriver) -> None:
    data = CommandBuffer().store_imm64(DRAM, 7).finish().to_bytes()
    device.write(DRAM + 0x1000, data)
    first = device.execute_command_buffer(DRAM + 0x1000, len(data))
    second = device.execute_command_buffer(0x100, 8)
    statuses = device.wait()
    assert [(status.ticket, status.ok) for status in statuses] == [(first, True), (second, False)]
    assert device.wait() == []
    assert device.read(DRAM, 8) == (7).to_bytes(8, "little")


def test_run(device: RefSiDriver) -> None:
    status = device.run(CommandBuffer().store_imm64(DRAM, 8).finish())
    assert (status.ok, status.commands) == (True, 2)
    assert device.run([FINISH]).ok
    assert device.run(b"").commands == 0
    assert device.read(DRAM, 1) == b"\x08"


def test_run_gives_the_memory_back(device: RefSiDriver) -> None:
    before = device.allocate(8)
    device.free(before)
    device.run([FINISH])
    with pytest.raises(SoftcardError):
        device.run([BAD_OPCODE])
    assert device.allocate(8) == before


def test_run_raises_what_went_wrong(device: RefSiDriver) -> None:
    with pytest.raises(WireError, match=r"unknown opcode 10.* at byte 0x8, at command 1, at buffer 1") as caught:
        device.run([0xC000_0900, BAD_OPCODE])
    assert caught.value.rule is not None
    assert caught.value.rule.id == "refsi/header-opcode"


def test_run_leaves_other_statuses_for_wait(device: RefSiDriver) -> None:
    ticket, address = device.submit([BAD_OPCODE])
    device.run([FINISH])
    (status,) = device.wait()
    assert (status.ticket, status.address, status.ok) == (ticket, address, False)


def test_nothing_works_after_shutdown() -> None:
    with RefSiDriver.open(engine="reference") as device:
        device.write(DRAM, b"1")
    for call in (lambda: device.info, lambda: device.read(DRAM, 1), lambda: device.wait(), lambda: device.allocate(1)):
        with pytest.raises(RuleError, match="the device was shut down: open a new one"):
            call()
    device.shutdown()


def test_families() -> None:
    with pytest.raises(RuleError, match="M1 runs kernels only from command buffers"):
        RefSiDriver.open(engine="reference").execute_kernel(0x10000, 1)
    with pytest.raises(BeyondModel, match="G1"):
        RefSiDriver.open("g")
    with RefSiDriver.open("g", profile="refsidrv", engine="reference") as device:
        assert device.info.family == "g"
        status = device.execute_kernel(0x10000, 1)
        assert isinstance(status.error, GuestFault)
        with pytest.raises(RuleError, match="no command processor"):
            device.execute_command_buffer(DRAM, 8)


def test_bad_options() -> None:
    with pytest.raises(WireError, match="engine is 'warp', expected one of jit, reference"):
        RefSiDriver.open(engine="warp")


def test_forms_of_buffers() -> None:
    words = CommandBuffer().finish()
    assert buffer_bytes(words) == buffer_bytes([FINISH]) == buffer_bytes(words.to_bytes()) == words.to_bytes()
    with pytest.raises(WireError, match="a chunk of 64 bits"):
        buffer_bytes([1 << 64])
