"""The driver library's 18 functions, called as host programs call them, with a server at the other end."""

from __future__ import annotations

import ctypes
import os
import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from softcard.attach.refsi import INCLUDE, events
from softcard.device.refsi.commands import decode_header, encode_header
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.toolkit.builder import CommandBuffer
from tests.attach.refsi.rig import (
    BUFFER,
    CODE,
    DEVICE_CLOSED,
    DRAM,
    EXTERNAL,
    FAILURE,
    FOREVER,
    INVALID_DEVICE,
    NOT_SUPPORTED,
    SUCCESS,
    TCDM,
    Driver,
    Entry,
    G,
    Info,
    M,
    endless,
    functions,
    needs_compiler,
    opened,
    served,
)

pytestmark = needs_compiler
HART_1 = 3 << 24 | 1


def refsidrv() -> CommandBuffer:
    return CommandBuffer("refsidrv")


def test_it_has_the_functions_of_the_header_and_no_others() -> None:
    declared = re.findall(r"REFSI_API .*?(refsi[A-Z]\w+)\(", (INCLUDE / "refsidrv" / "refsidrv.h").read_text())
    path = functions()._name
    shown = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    assert sorted(line.split()[-1] for line in shown.splitlines()) == sorted(declared)
    assert len(declared) == 18


@pytest.mark.parametrize("family", [M, G, 0])
def test_what_a_device_says_of_itself(family: int) -> None:
    with opened(family) as driver, RefSiDevice("g" if family == G else "m", profile="refsidrv") as device:
        info, entry, own = Info(), Entry(), device.info
        assert driver.lib.refsiQueryDeviceInfo(driver.handle, ctypes.byref(info)) == SUCCESS
        assert (info.family, info.num_cores, info.num_harts_per_core) == (family or M, own.cores, own.harts_per_core)
        assert (info.core_isa.decode(), info.core_vlen, info.core_elen) == (own.isa, own.vlen, own.elen)
        assert info.num_memory_map_entries == len(own.memory_map)
        for index, expected in enumerate(own.memory_map):
            assert driver.lib.refsiQueryDeviceMemoryMap(driver.handle, index, ctypes.byref(entry)) == SUCCESS
            assert (entry.kind, entry.start, entry.size) == (expected.kind, expected.base, expected.size)
        assert driver.lib.refsiQueryDeviceMemoryMap(driver.handle, len(own.memory_map), ctypes.byref(entry)) == FAILURE


def test_there_is_one_device_of_each_family() -> None:
    with served() as server:
        one, other, third = (Driver(server.path, family) for family in (M, G, 0))
        assert one.handle == third.handle != other.handle
        assert Driver(server.path, 3).handle is None
        one.write(DRAM, b"m")
        other.write(DRAM, b"g")
        assert (one.read(DRAM, 1), other.read(DRAM, 1)) == ((SUCCESS, b"m"), (SUCCESS, b"g"))
        assert one.lib.refsiTerminate() == SUCCESS
    assert [event.family for event in server.seen(events.Opened)] == ["m", "g"]


def test_headers_of_commands() -> None:
    lib, draw = functions(), random.Random(1)
    opcode, chunks, inline = ctypes.c_int(), ctypes.c_uint32(), ctypes.c_uint32()
    where = [ctypes.byref(each) for each in (opcode, chunks, inline)]
    for _ in range(200):
        words = draw.randrange(10), draw.randrange(1 << 13), draw.getrandbits(32)
        header = lib.refsiEncodeCMPCommand(*words)
        found = decode_header(header, lenient=True)
        assert (found.opcode, found.chunks, found.inline) == words
        assert header == encode_header(found)
        assert lib.refsiDecodeCMPCommand(header, *where) == SUCCESS
        assert (opcode.value, chunks.value, inline.value) == words
    assert lib.refsiDecodeCMPCommand(header, None, None, None) == SUCCESS
    for wrong in (0, header ^ 1 << 31, header ^ 1 << 30, header | 0x80):
        assert lib.refsiDecodeCMPCommand(wrong, *where) == FAILURE


@pytest.mark.parametrize("shared", [True, False], ids=["shared memory", "messages"])
def test_memory_holds_what_is_written(shared: bool) -> None:
    with opened(shared_memory=shared) as driver:
        data = random.Random(2).randbytes((5 << 20) + 3)
        address = driver.allocate(len(data), 4096)
        assert driver.write(address, data) == SUCCESS
        assert driver.read(address, len(data)) == (SUCCESS, data)
        assert driver.read(address + 9, 5) == (SUCCESS, data[9:14])
        end = DRAM + (2 << 30)
        for place in (end - 2, end, DRAM - 1, 0, 1 << 63, (1 << 64) - 2):
            assert driver.read(place, 4) == (FAILURE, b"\xee" * 4)
            assert driver.write(place, b"abcd") == FAILURE
        assert driver.read(end - 2, 2) == (SUCCESS, b"\0\0")
        assert driver.read(DRAM, 0) == (SUCCESS, b"")
        assert driver.lib.refsiFreeDeviceMemory(driver.handle, address) == SUCCESS
        assert driver.allocate(len(data), 4096) == address


def test_pointers_are_the_devices_memory_for_as_long_as_it_is_open() -> None:
    """Kept across buffers that move windows about; what the host writes there kernels see, and the other way round."""
    with opened() as driver:
        first, second = driver.pointer(DRAM, 2 << 30), driver.pointer(TCDM, 4 << 20)
        assert first is not None
        assert second is not None
        words = (ctypes.c_uint64 * 512).from_address(first)
        for turn in range(1, 20):
            words[0] = turn
            buffer = refsidrv().window(2, base=0x8000_0000_00, target=TCDM, size=0x1000)
            driver.run(buffer.copy_mem64(1, DRAM, TCDM + 8 * turn).store_imm64(DRAM + 8 * turn, turn << 40).finish())
            assert words[turn] == turn << 40
            assert ctypes.c_uint64.from_address(second + 8 * turn).value == turn
            assert driver.pointer(DRAM + 24, 8) == first + 24
            assert driver.pointer(0x8000_0000_00 + 16, 8) == second + 16
            driver.run(refsidrv().close_window(2).finish())
            assert driver.pointer(0x8000_0000_00 + 16, 8) is None
        for register in (0x2000_2000, 0x2010_0000, 0x5000):
            assert driver.pointer(register, 8) is None
        assert driver.pointer(DRAM, (2 << 30) + 1) is None


def test_a_host_may_poll_instead_of_waiting() -> None:
    with opened() as driver:
        word = ctypes.c_uint64.from_address(driver.pointer(DRAM, 8) or 0)
        for turn in range(1, 50):
            assert driver.submit(refsidrv().store_imm64(DRAM, turn).finish()) == SUCCESS
            deadline = time.monotonic() + 20
            while word.value != turn:
                assert time.monotonic() < deadline


def test_reads_and_writes_wait_for_buffers() -> None:
    """Plain memory too, which is copied without a message."""
    with opened() as driver:
        driver.write(DRAM, b"12345678")
        for turn in range(100):
            place = DRAM + 64 + 8 * turn
            driver.submit(refsidrv().copy_mem64(1000, DRAM, 0x6000_0000).copy_mem64(1, DRAM, place).finish())
            driver.write(DRAM, turn.to_bytes(8, "little"))
            assert driver.read(place, 8)[1] == (b"12345678" if not turn else (turn - 1).to_bytes(8, "little"))


def test_a_window_that_takes_drams_place_is_seen_at_once() -> None:
    """The reference removes DRAM when a window with its base is closed (choice refsi/window-base-taken)."""
    with opened() as driver:
        pointer = driver.pointer(DRAM, 8)
        driver.write(DRAM, b"before..")
        over = refsidrv().window(1, base=DRAM, target=TCDM, size=0x1000)
        driver.run(over.close_window(1).finish())
        assert driver.read(DRAM, 8) == (FAILURE, b"\xee" * 8)
        assert driver.pointer(DRAM, 8) is None
        assert ctypes.string_at(pointer or 0, 8) == b"before.."


def test_units() -> None:
    with opened() as driver:
        driver.write(TCDM + 0x1000, b"one.....")
        driver.run(
            refsidrv().window(1, base=0x14000000, target=TCDM, size=0x1000, mode="PER_HART", scale=0x1000).finish()
        )
        assert driver.read(0x14000000, 8, HART_1) == (SUCCESS, b"one.....")
        assert driver.write(0x14000000, b"uno", HART_1) == SUCCESS
        assert driver.read(TCDM + 0x1000, 8) == (SUCCESS, b"uno.....")
        assert driver.read(0x14000000, 8)[0] == FAILURE
        assert driver.pointer(0x14000000, 8) is None
        assert driver.read(0x2010_0010, 8, HART_1) == (SUCCESS, bytes(8))
        assert driver.read(0x2010_0010, 8)[0] == FAILURE


def test_wrong_handles_sizes_and_pointers() -> None:
    with served() as server:
        driver = Driver(server.path)
        lib, info = driver.lib, Info()
        stale = driver.handle
        assert driver.shut_down() == SUCCESS
        for handle, result in ((None, INVALID_DEVICE), (0x1234, INVALID_DEVICE), (stale, DEVICE_CLOSED)):
            driver.handle = handle
            assert lib.refsiQueryDeviceInfo(handle, ctypes.byref(info)) == result
            assert lib.refsiQueryDeviceMemoryMap(handle, 0, ctypes.byref(Entry())) == result
            assert driver.allocate(8) == 0
            assert lib.refsiFreeDeviceMemory(handle, DRAM) == result
            assert driver.pointer(DRAM, 8) is None
            assert lib.refsiFlushDeviceMemory(handle, DRAM, 8) == result
            assert lib.refsiInvalidateDeviceMemory(handle, DRAM, 8) == result
            assert (driver.read(DRAM, 8)[0], driver.write(DRAM, b"x")) == (result, result)
            assert lib.refsiExecuteCommandBuffer(handle, DRAM, 8) == result
            assert lib.refsiExecuteKernel(handle, DRAM, 1) == (result if handle else FAILURE)
            assert driver.shut_down() == FAILURE
            driver.wait()
        driver = Driver(server.path)
        assert driver.handle == stale
        huge = (1 << 64) - 1
        assert lib.refsiQueryDeviceInfo(stale, None) == FAILURE
        assert lib.refsiQueryDeviceMemoryMap(stale, 0, None) == FAILURE
        assert lib.refsiQueryDeviceMemoryMap(stale, huge, ctypes.byref(Entry())) == FAILURE
        assert lib.refsiReadDeviceMemory(stale, None, DRAM, 8, EXTERNAL) == FAILURE
        assert lib.refsiWriteDeviceMemory(stale, DRAM, None, 8, EXTERNAL) == FAILURE
        for size in (huge, huge - 7, 1 << 63, (2 << 30) + 1):
            assert lib.refsiReadDeviceMemory(stale, ctypes.byref(info), DRAM + 8, size, EXTERNAL) == FAILURE
            assert lib.refsiWriteDeviceMemory(stale, DRAM + 8, ctypes.byref(info), size, HART_1) == FAILURE
            assert driver.pointer(DRAM + 8, size) is None
            assert driver.allocate(size, 4096) == 0
            assert lib.refsiExecuteCommandBuffer(stale, DRAM, size) == SUCCESS
            driver.wait()
        for alignment in (0, 3, huge):
            driver.allocate(16, alignment)
        assert [driver.allocate(8, 8, kind) for kind in (0, 3, 99, -1)] == [1] * 4
        assert lib.refsiFreeDeviceMemory(stale, 0x77) == SUCCESS
        assert lib.refsiExecuteKernel(stale, DRAM, 1) == NOT_SUPPORTED
        for unit in (0, 0xFFFF_FFFF, 0x0300_FFFF, 0x0900_0000):
            driver.read(0x2000_2000, 8, unit)
            driver.read(DRAM, 8, unit)
        other = Driver(server.path, G)
        assert lib.refsiExecuteCommandBuffer(other.handle, DRAM, 8) == NOT_SUPPORTED
        for harts in (0, 65, 0xFFFF_FFFF):
            assert lib.refsiExecuteKernel(other.handle, huge, harts) == FAILURE
        assert driver.write(DRAM, b"alive") == SUCCESS
        assert driver.read(DRAM, 5) == (SUCCESS, b"alive")
        lib.refsiTerminate()
    assert [event.error for event in server.seen(events.Disconnected)] == [None, None]


def test_shut_down_and_open_again_gives_a_fresh_device_and_keeps_nothing() -> None:
    """Neither descriptors nor mappings, on either side: this process is both."""

    def held() -> tuple[int, int]:
        maps = Path("/proc/self/maps").read_text()
        return len(os.listdir("/proc/self/fd")), maps.count("softcard device memory")

    with served() as server:
        before = held()
        for turn in range(20):
            driver = Driver(server.path, M if turn % 3 else G)
            assert driver.read(DRAM, 4) == (SUCCESS, bytes(4))
            driver.write(DRAM, b"used")
            assert held()[1] > 0
            assert driver.shut_down() == SUCCESS
        deadline = time.monotonic() + 20
        while held() != before:
            assert time.monotonic() < deadline


def test_spec_reports_every_error(capfd: pytest.CaptureFixture[str]) -> None:
    with opened(profile="spec") as driver:
        driver.run(CommandBuffer().store_imm64(0x100, 1).finish())
        assert driver.read(0x300, 8)[0] == FAILURE
        assert driver.write(DRAM, b"good") == SUCCESS
        driver.run(CommandBuffer().copy_mem64(1, DRAM, DRAM + 8).finish())
    said = capfd.readouterr().err.splitlines()
    note = "   = note: reported by the driver library of Softcard"
    assert said[:4] == [
        "error[refsi/store-imm-address]: write of 8 bytes at 0x100: no memory there",
        "  --> byte 0x0",
        "   = note: at command 0 (STORE_IMM64), buffer 1",
        note,
    ]
    assert said[4].startswith("   = rule: refsi/store-imm-address: the memory address must be accessible by the CMP")
    assert said[5:7] == ["error[refsi/memory-map]: read of 8 bytes at 0x300: no memory there", note]
    assert len(said) == 8


def test_spec_has_no_g1(capfd: pytest.CaptureFixture[str]) -> None:
    with opened(G, profile="spec") as driver:
        assert driver.handle is None
    assert "is modelled only in profile refsidrv" in capfd.readouterr().err


def test_spec_sees_code_that_was_written_through_a_pointer() -> None:
    with opened(profile="spec") as driver:
        code = (ctypes.c_uint32 * 3).from_address(driver.pointer(CODE, 16) or 0)
        buffer = CommandBuffer().kernel(CODE, stack_top=BUFFER, return_address=0xDEAD_0000).run_instances(1, DRAM)
        for value in (1, 2, 3):
            code[:] = [0x0000_0293 | value << 20, 0x0055_B023, 0x0000_8067]  # li t0, value; sd t0, 0(a1); ret
            driver.run(buffer)
            assert driver.read(DRAM, 8)[1] == value.to_bytes(8, "little")


def test_without_a_server(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert Driver(tmp_path / "nobody").handle is None
    assert capfd.readouterr().err == (
        f"error: cannot connect to the device at {tmp_path / 'nobody'} (No such file or directory)\n"
        "   = note: reported by the library of `softcard serve refsi` in this program\n"
        f"   = help: start it with `softcard serve refsi --socket {tmp_path / 'nobody'}`\n"
    )


def test_a_server_that_goes_away_amid_a_kernel(capfd: pytest.CaptureFixture[str]) -> None:
    """Every call ends with a failure from then on; the memory stays readable through the pointer. A new one serves."""
    with served() as server:
        driver = Driver(server.path)
        pointer = driver.pointer(DRAM, 8) or 0
        driver.write(DRAM, b"kept....")
        driver.write(CODE, FOREVER.to_bytes(4, "little"))
        driver.submit(endless())
    driver.wait()
    assert "error: the server has gone\n   = note: reported by the library of `softcard serve refsi`" in (
        capfd.readouterr().err
    )
    assert driver.read(DRAM, 8)[0] == driver.write(DRAM, b"x") == FAILURE
    assert driver.lib.refsiExecuteCommandBuffer(driver.handle, DRAM, 8) == FAILURE
    assert driver.lib.refsiFreeDeviceMemory(driver.handle, DRAM) == FAILURE
    assert (driver.allocate(8), driver.pointer(DRAM, 8)) == (0, None)
    assert ctypes.string_at(pointer, 8) == b"kept...."
    with served() as server:
        assert Driver(server.path).handle is None
        assert driver.shut_down() == SUCCESS
        again = Driver(server.path)
        assert again.read(DRAM, 8) == (SUCCESS, bytes(8))
        assert again.shut_down() == SUCCESS


def test_a_forked_child_cannot_use_its_parents_device() -> None:
    with opened() as driver:
        driver.write(DRAM, b"parent")
        child = os.fork()
        if not child:
            wrong = driver.read(DRAM, 6)[0] == SUCCESS or driver.allocate(8) != 0
            driver.shut_down()
            os._exit(7 if wrong else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert driver.read(DRAM, 6) == (SUCCESS, b"parent")
        driver.run(refsidrv().store_imm64(DRAM, 7).finish())
        assert driver.read(DRAM, 8) == (SUCCESS, (7).to_bytes(8, "little"))
