"""Every ioctl of the driver, called by a program without ROCm."""

from __future__ import annotations

import errno
import os
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from softcard.cli.attach.exec_rocm import RocmReporter
from softcard.core.checks import ALL, LEAKS, VARIABLE
from softcard.core.diagnostics import Diagnostic
from softcard.core.errors import BeyondModel, WireError
from softcard.device.kfd import drm, ioctls
from softcard.device.kfd.device import KfdDevice
from softcard.device.kfd.events import Called, KernelLint, ProcessClosed, ProcessOpened
from softcard.device.kfd.ioctls import AllocFlags, EventKind, Number, Refused, boot_nanoseconds
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.report.diagnostic_text import as_text
from tests.device.kfd.rig import PAGE, Program, eventually, program

VA = 0x7E00_0000_0000


def refused(number: int, call: object, *arguments: object) -> str:
    """The message of a call that fails with this error of the system."""
    assert callable(call)
    with pytest.raises(Refused) as raised:
        call(*arguments)
    assert raised.value.errno == number
    return raised.value.message


def test_information() -> None:
    with program("gfx900", "gfx803") as client:
        assert client.call(
            Number.GET_VERSION, ioctls.GetVersion(major_version=0, minor_version=0)
        ) == ioctls.GetVersion(major_version=1, minor_version=14)
        before = boot_nanoseconds()
        clocks = client.call(Number.GET_CLOCK_COUNTERS, ioctls.GetClockCounters(gpu_id=client.gpu_id))
        assert before <= clocks.gpu_clock_counter == clocks.cpu_clock_counter <= boot_nanoseconds()
        assert clocks.system_clock_freq == 10**9
        assert client.call(Number.GET_CLOCK_COUNTERS, ioctls.GetClockCounters(gpu_id=0)).gpu_clock_counter == 0
        places = client.own(PAGE)
        asked = ioctls.GetProcessAperturesNew(kfd_process_device_apertures_ptr=places.address, num_of_nodes=0)
        assert client.call(Number.GET_PROCESS_APERTURES_NEW, asked).num_of_nodes == 2
        asked = ioctls.GetProcessAperturesNew(kfd_process_device_apertures_ptr=places.address, num_of_nodes=7)
        assert client.call(Number.GET_PROCESS_APERTURES_NEW, asked).num_of_nodes == 2
        found = [ioctls.Apertures.parse(bytes(places.bytes), 56 * each) for each in range(2)]
        assert [each.gpu_id for each in found] == [node.gpu_id for node in client.device.nodes]
        assert [each.lds_base >> 32 for each in found] == [0x0001_0000, 0x2000_0000]
        assert found[0].gpuvm_limit == (1 << 47) - 1
        tiles = ioctls.GetTileConfig(
            tile_config_ptr=places.address, macro_tile_config_ptr=places.address + 0x100, num_tile_configs=40,
            num_macro_tile_configs=3, gpu_id=client.gpu_id,
        )  # fmt: skip
        tiles = client.call(Number.GET_TILE_CONFIG, tiles)
        assert (tiles.num_tile_configs, tiles.num_macro_tile_configs) == (32, 3)
        assert set(places.bytes[:128].view(np.uint32).tolist()) == {0x304}
        for number, argument in (
            (Number.ACQUIRE_VM, ioctls.AcquireVm(drm_fd=3, gpu_id=client.gpu_id)),
            (Number.SET_TRAP_HANDLER, ioctls.SetTrapHandler(tba_addr=0x1000, tma_addr=0, gpu_id=client.gpu_id)),
            (Number.SET_SCRATCH_BACKING_VA, ioctls.SetScratchBackingVa(va_addr=0x7F12, gpu_id=client.gpu_id)),
            (Number.SET_XNACK_MODE, ioctls.SetXnackMode(xnack_enabled=0)),
        ):
            assert client.call(number, argument) == argument
        refused(errno.EPERM, client.call, Number.SET_XNACK_MODE, ioctls.SetXnackMode(xnack_enabled=1))
        assert "gpu_id 0x5" in refused(
            errno.EINVAL, client.call, Number.ACQUIRE_VM, ioctls.AcquireVm(drm_fd=0, gpu_id=5)
        )


def test_private_memory_is_counted_from_a_multiple_of_64_kib() -> None:
    """SH_HIDDEN_PRIVATE_BASE_VMID holds bits 47:16, and amdgpu writes va_addr to it as libhsakmt gives it."""
    with program("gfx900", "gfx803") as client:
        new, old = client.device.nodes
        for node in (new, old):
            asked = ioctls.SetScratchBackingVa(va_addr=0x7F12_3456, gpu_id=node.gpu_id)
            client.call(Number.SET_SCRATCH_BACKING_VA, asked)
        assert client.process.device(old).hidden_private_base == 0x7F12_3456_0000
        assert client.process.device(new).hidden_private_base == 0
        asked = ioctls.SetScratchBackingVa(va_addr=0x8000_0000, gpu_id=old.gpu_id)
        assert refused(errno.EINVAL, client.call, Number.SET_SCRATCH_BACKING_VA, asked) == (
            "va_addr 0x80000000 is in units of 64 KiB, expected less than 0x80000000: "
            "pass the address divided by 64 KiB"
        )


def test_what_there_is_not() -> None:
    with program() as client:
        heard: list[object] = []
        client.device.probes.subscribe(heard.append, Called)
        assert refused(errno.EINVAL, client.raw, 0x82, bytes(40)) == "ioctl 0x82 of /dev/kfd is not modelled"
        assert "of /dev/kfd is not modelled" in refused(errno.ENOTTY, client.raw, 1, bytes(8), ord("x"))
        assert "program 99 has not opened the driver" in refused(errno.EINVAL, client.device.ioctl, 99, 0, b"")
        assert [(each.name, each.errno) for each in heard if isinstance(each, Called)] == [
            ("0xc0284b82", errno.EINVAL), ("0xc0087801", errno.ENOTTY), ("0x0", errno.EINVAL),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (0x20, errno.EPERM, "ioctl SVM is not modelled (attributes of shared virtual memory)"),
        (0x1E, errno.ENODEV, "ioctl ALLOC_QUEUE_GWS is not modelled (the barrier of all work-groups (GWS))"),
        (0x26, errno.EPERM, "ioctl DBG_TRAP is not modelled (debuggers)"),
        (0x24, errno.EINVAL, "ioctl EXPORT_DMABUF is not modelled (memory for other drivers)"),
        (0x81, errno.EOPNOTSUPP, "ioctl IPC_EXPORT_HANDLE is not modelled (memory for other processes)"),
    ],
)
def test_what_is_not_modelled(number: int, code: int, message: str) -> None:
    heard: list[Any] = []
    with program() as client:
        client.device.probes.subscribe(heard.append, Called)
        with pytest.raises(BeyondModel) as raised:
            client.raw(number, bytes(24))
        assert isinstance(raised.value, Refused)
        assert (raised.value.errno, raised.value.message) == (code, message)
        assert heard[-1].name == message.split()[1]


def test_run_time_libraries_that_support_debuggers() -> None:
    with program() as client:
        enable = ioctls.RuntimeEnable(r_debug=0x1000, mode_mask=3)
        assert client.call(Number.RUNTIME_ENABLE, enable) == enable
        assert "was called before" in refused(errno.EBUSY, client.call, Number.RUNTIME_ENABLE, enable)
        client.call(Number.RUNTIME_ENABLE, ioctls.RuntimeEnable(mode_mask=0))
        client.call(Number.RUNTIME_ENABLE, enable)
        client.call(Number.RUNTIME_ENABLE, ioctls.RuntimeEnable(mode_mask=0))
        client.aql_queue()
        assert "must precede the 1 queues" in refused(errno.EEXIST, client.call, Number.RUNTIME_ENABLE, enable)


def test_ages_of_events() -> None:
    """A wait with a known age ends if the event was set since, even if another wait has reset it."""
    with program() as client:
        made = client.call(Number.CREATE_EVENT, ioctls.CreateEvent(event_type=ioctls.EventKind.SIGNAL, auto_reset=1))

        def wait(age: int) -> tuple[int, int]:
            data = ioctls.EventData(data=age.to_bytes(32, "little"), event_id=made.event_id).pack()
            buffer = np.frombuffer(bytearray(data), np.uint8)
            asked = ioctls.WaitEvents(events_ptr=int(buffer.ctypes.data), num_events=1, wait_for_all=0, timeout=0)
            result = client.call(Number.WAIT_EVENTS, asked).wait_result
            return result, ioctls.EventData.parse(bytes(buffer)).known_age

        assert wait(1) == (ioctls.WaitResult.TIMEOUT, 1)
        client.call(Number.SET_EVENT, ioctls.OneEvent(event_id=made.event_id))
        assert wait(0) == (ioctls.WaitResult.COMPLETE, 0), "the program asks for no age"
        assert wait(0) == (ioctls.WaitResult.TIMEOUT, 0), "the first wait has reset the event"
        assert wait(1) == (ioctls.WaitResult.COMPLETE, 2)
        assert wait(2) == (ioctls.WaitResult.TIMEOUT, 2)


def test_arguments_of_other_sizes() -> None:
    with program() as client:
        assert client.raw(Number.GET_VERSION, b"") == b""
        assert client.raw(Number.GET_VERSION, bytes(4)) == b"\1\0\0\0"
        assert client.raw(Number.GET_VERSION, b"\7" * 12) == b"\1\0\0\0\x0e\0\0\0\7\7\7\7"


def test_render_nodes() -> None:
    with program() as client:
        room = client.own(PAGE)
        asked = drm.Version(
            name_len=4, name=room.address, date_len=0, date=0, desc_len=99, desc=room.address + 64
        )  # fmt: skip
        reported = drm.Version.parse(client.raw(drm.Number.VERSION, asked.pack(), drm.TYPE, 128))
        assert (reported.version_major, reported.name_len, reported.desc_len) == (3, 6, 7)
        assert bytes(room.bytes[:8]) == b"amdg\0\0\0\0"
        assert bytes(room.bytes[64:72]) == b"AMD GPU\0"
        auth = drm.GetClient.parse(client.raw(drm.Number.GET_CLIENT, drm.GetClient(idx=0).pack(), drm.TYPE, 128))
        assert auth.auth == 1
        refused(errno.EINVAL, client.raw, drm.Number.GET_CLIENT, drm.GetClient(idx=1).pack(), drm.TYPE, 128)

        def info(query: int, size: int, what: bytes = bytes(16)) -> bytes:
            room.bytes[:] = 0xEE
            asked = drm.Info(return_pointer=room.address, return_size=size, query=query, what=what)
            client.raw(drm.Number.AMDGPU_INFO, asked.pack(), drm.TYPE, 128)
            return bytes(room.bytes[: size + 1])

        assert info(drm.Query.ACCEL_WORKING, 4) == b"\1\0\0\0\xee"
        assert info(drm.Query.HW_IP_COUNT, 4) == b"\0\0\0\0\xee"
        assert info(drm.Query.READ_MMR_REG, 8, bytes(4) + b"\2" + bytes(11)) == bytes(8) + b"\xee"
        assert "65 registers" in refused(errno.EINVAL, info, drm.Query.READ_MMR_REG, 8, bytes(4) + b"\x41" + bytes(11))
        found = drm.DeviceInfo.parse(info(drm.Query.DEV_INFO, drm.DeviceInfo.size_bytes))
        assert (found.device_id, found.family, found.cu_active_number) == (0x6860, 141, 64)
        assert [mask.bit_count() for mask in found.cu_bitmap] == [16, 0, 0, 0] * 4
        assert "query 0x7f" in refused(errno.EINVAL, info, 0x7F, 4)
        assert "65537 bytes" in refused(errno.EINVAL, info, drm.Query.DEV_INFO, 65537)
        refused(errno.EINVAL, client.raw, 0x44, bytes(8), drm.TYPE, 128)
        refused(errno.ENODEV, client.raw, drm.Number.VERSION, bytes(64), drm.TYPE, 129)
        refused(errno.ENOTTY, client.raw, Number.GET_VERSION, bytes(8), ord("K"), 128)


def test_memory_is_the_programs_by_offset() -> None:
    with program() as client:
        found = client.allocate(VA, 3 * PAGE, AllocFlags.VRAM | AllocFlags.WRITABLE)
        assert client.map(found.handle) == 1
        space = client.process.device(client.device.nodes[0]).memory
        space.write(VA + PAGE, b"seen")
        assert bytes(client.client.shared.bytes(found.mmap_offset + PAGE, 4)) == b"seen"
        assert client.call(Number.AVAILABLE_MEMORY, ioctls.AvailableMemory(gpu_id=client.gpu_id)).available == (
            (8 << 30) - 3 * PAGE
        )
        assert "is still mapped" in refused(
            errno.EBUSY, client.call, Number.FREE_MEMORY_OF_GPU, ioctls.FreeMemoryOfGpu(handle=found.handle)
        )
        assert "overlaps" in refused(errno.EINVAL, client.map, client.allocate(VA + PAGE, PAGE).handle)
        assert client.unmap(found.handle) == 1
        assert space.find(VA) is None
        client.call(Number.FREE_MEMORY_OF_GPU, ioctls.FreeMemoryOfGpu(handle=found.handle))
        assert "no allocation has handle" in refused(errno.EINVAL, client.map, found.handle)
        assert not client.client.shared.bytes(found.mmap_offset + PAGE, 4).any()


@pytest.mark.parametrize(
    ("address", "size", "flags", "number", "message"),
    [
        (VA, 100, AllocFlags.USERPTR, errno.EINVAL, "and whole pages of the program's memory"),
        (VA + 1, PAGE, AllocFlags.GTT, errno.EINVAL, "expected 1 byte or more at a multiple of the page size"),
        (VA, 0, AllocFlags.GTT, errno.EINVAL, "expected 1 byte or more at a multiple of the page size"),
        (VA, 9 << 30, AllocFlags.VRAM, errno.ENOMEM, "too little is free"),
        (VA, 1 << 40, AllocFlags.GTT, errno.ENOMEM, "bytes with a program"),
        (VA, PAGE, AllocFlags.GTT | AllocFlags.AQL_QUEUE_MEM, errno.EINVAL, "mapped twice"),
        (VA, PAGE, AllocFlags.MMIO_REMAP, errno.EINVAL, "expected VRAM, GTT, USERPTR or DOORBELL"),
        (VA, PAGE, AllocFlags.GTT | AllocFlags.VRAM, errno.EINVAL, "expected VRAM, GTT, USERPTR or DOORBELL"),
        (VA, 5 * PAGE, AllocFlags.DOORBELL, errno.EINVAL, "doorbells has 0x5000 bytes"),
        (VA, PAGE, AllocFlags.USERPTR, errno.EFAULT, "the program has no readable mapping"),
    ],
)
def test_memory_that_cannot_be(address: int, size: int, flags: int, number: int, message: str) -> None:
    with program() as client:
        assert message in refused(number, client.allocate, address, size, flags, 0x1000)
        assert not len(client.process.allocations)


def test_allocations_are_whole_pages() -> None:
    with program() as client:
        found = client.allocate(VA, PAGE + 1)
        assert client.map(found.handle) == 1
        memory = client.process.device(client.device.nodes[0]).memory
        memory.write(VA + 2 * PAGE - 1, b"x")
        assert memory.find(VA + 2 * PAGE) is None


@pytest.mark.parametrize("number", [0, 1], ids=["first", "second"])
def test_doorbells_are_no_memory_of_the_program(number: int) -> None:
    """Linux pins no pages of a device for a driver (`get_user_pages`: EFAULT for VM_IO and VM_PFNMAP)."""
    with program("gfx900", "gfx906") as client:
        address = int(client.client.shared.doorbells[number].ctypes.data)
        for at in (VA, address):
            reported = refused(errno.EFAULT, client.allocate, at, PAGE, AllocFlags.USERPTR, address)
            assert "they are doorbells" in reported
        assert not len(client.process.allocations)
        assert client.client.asked == []


def test_mapping_for_agents() -> None:
    with program("gfx900", "gfx906") as client:
        first, second = (node.gpu_id for node in client.device.nodes)
        found = client.allocate(VA, PAGE)
        assert client.map(found.handle, gpu_ids=(first, second)) == 2
        for node in client.device.nodes:
            assert client.process.device(node).memory.find(VA) is not None
        assert "0 GPUs" in refused(
            errno.EINVAL, client.call, Number.MAP_MEMORY_TO_GPU,
            ioctls.MapMemory(handle=found.handle, device_ids_array_ptr=0, n_devices=0),
        )  # fmt: skip
        refused(
            errno.EFAULT, client.call, Number.MAP_MEMORY_TO_GPU,
            ioctls.MapMemory(handle=found.handle, device_ids_array_ptr=8, n_devices=1),
        )  # fmt: skip
        assert "must lie below" in refused(errno.EINVAL, client.map, client.allocate((1 << 47) - PAGE, 2 * PAGE).handle)


def test_rings_are_seen_twice() -> None:
    with program("gfx803") as client:
        found = client.allocate(VA, 4 * PAGE, AllocFlags.GTT | AllocFlags.AQL_QUEUE_MEM)
        client.map(found.handle)
        memory = client.process.device(client.device.nodes[0]).memory
        memory.write(VA + 5, b"ring")
        assert memory.read(VA + 2 * PAGE + 5, 4) == b"ring"


def test_own_pages_become_shared_and_stay_so() -> None:
    with program() as client:
        pages = client.own(4 * PAGE)
        pages.bytes[:] = 7
        found = client.allocate(pages.address, 2 * PAGE, AllocFlags.USERPTR, pages.address)
        client.map(found.handle)
        memory = client.process.device(client.device.nodes[0]).memory
        assert memory.read(pages.address, 2) == b"\7\7"
        memory.write(pages.address + 1, b"\1")
        assert pages.bytes[1] == 1
        pages.bytes[2] = 2
        assert memory.read(pages.address + 2, 1) == b"\2"
        # Pages that are shared already are recognised: only the others move.
        again = client.allocate(VA, 4 * PAGE, AllocFlags.USERPTR, pages.address)
        client.map(again.handle)
        assert memory.read(VA, 3) == b"\7\1\2"
        assert client.client.asked == [(pages.address, 2 * PAGE, True)]


@pytest.mark.parametrize("is_able", [True, False], ids=["shared", "foreign"])
def test_foreign_memory_is_shared_when_a_wave_touches_it(is_able: bool) -> None:
    with program() as client:
        client.client.is_able = is_able
        pages = client.own(2 * PAGE)
        pages.bytes[:4] = (1, 2, 3, 4)
        found = client.allocate(VA, 2 * PAGE, AllocFlags.USERPTR, pages.address)
        client.map(found.handle)
        memory = client.process.device(client.device.nodes[0]).memory
        assert memory.plain(VA, 4) is None
        assert memory.read(VA, 4) == b"\1\2\3\4"
        assert client.client.asked == [(pages.address, 2 * PAGE, False)]
        assert (memory.plain(VA, 4) is not None) == is_able
        memory.write(VA + PAGE, b"wave")
        assert bytes(pages.bytes[PAGE : PAGE + 4]) == b"wave"
        client.unmap(found.handle)
        client.call(Number.FREE_MEMORY_OF_GPU, ioctls.FreeMemoryOfGpu(handle=found.handle))
        pages.bytes[0] = 9  # it is the program's still
        assert pages.bytes[0] == 9


def new_event(client: Program, kind: int = EventKind.SIGNAL, page: int = 0, auto: bool = True) -> int:
    asked = ioctls.CreateEvent(event_type=kind, auto_reset=int(auto), event_page_offset=page)
    made = client.call(Number.CREATE_EVENT, asked)
    assert bool(made.event_page_offset) == (kind == EventKind.SIGNAL)
    return int(made.event_id)


def wait(client: Program, *events: int, timeout: int = 0, everything: bool = False) -> tuple[int, bytes]:
    """The result of WAIT_EVENTS, and the array as it comes back."""
    data = np.frombuffer(
        bytearray(b"".join(ioctls.EventData(data=bytes(32), event_id=each).pack() for each in events)), np.uint8
    )
    asked = ioctls.WaitEvents(
        events_ptr=int(data.ctypes.data), num_events=len(events), wait_for_all=int(everything), timeout=timeout
    )
    return int(client.call(Number.WAIT_EVENTS, asked).wait_result), bytes(data)


@pytest.mark.parametrize("is_first", [True, False], ids=["before the agent", "after it"])
def test_the_check_of_races_knows_the_page_of_events(is_first: bool) -> None:
    with program(check="races") as client:
        node = client.device.nodes[0]
        page = client.allocate(VA, 8 * PAGE)
        if not is_first:
            client.process.device(node)
        new_event(client, page=page.handle)
        other = client.allocate(VA + 16 * PAGE, 8 * PAGE)
        new_event(client, page=other.handle)
        races = client.process.device(node).checks.find(RaceWatch)
        assert races is not None
        assert races.reporter.mailboxes == range(VA, VA + 8 * PAGE), "the first page is the one"


def test_events() -> None:
    with program() as client:
        first, second = new_event(client), new_event(client, auto=False)
        assert wait(client, first, second)[0] == 1
        for each in (first, second):
            client.call(Number.SET_EVENT, ioctls.OneEvent(event_id=each))
        assert wait(client, first, second, everything=True)[0] == 0
        assert wait(client, first)[0] == 1, "a wait resets it"
        assert wait(client, second)[0] == 0
        client.call(Number.RESET_EVENT, ioctls.OneEvent(event_id=second))
        assert wait(client, second)[0] == 1
        done: list[int] = []
        thread = threading.Thread(target=lambda: done.append(wait(client, first, timeout=0xFFFF_FFFF)[0]))
        thread.start()
        client.call(Number.SET_EVENT, ioctls.OneEvent(event_id=first))
        thread.join(60)
        assert done == [0]
        memory = new_event(client, EventKind.MEMORY)
        for number in (Number.SET_EVENT, Number.RESET_EVENT):
            assert "is not a signal event" in refused(
                errno.EINVAL, client.call, number, ioctls.OneEvent(event_id=memory)
            )
        client.call(Number.DESTROY_EVENT, ioctls.OneEvent(event_id=first))
        assert f"no event has number {first}" in refused(errno.EINVAL, wait, client, first)
        asked = ioctls.WaitEvents(events_ptr=0, num_events=1 << 20, wait_for_all=0, timeout=0)
        assert "the wait names" in refused(errno.EINVAL, client.call, Number.WAIT_EVENTS, asked)
        foreign = client.allocate(VA + PAGE, PAGE, AllocFlags.USERPTR, client.own(PAGE).address)
        message = refused(errno.EINVAL, new_event, client, EventKind.SIGNAL, foreign.handle)
        assert message == "the page of events must be memory that the driver allocated"
        small = client.allocate(VA, PAGE)
        assert "expected 0x8000 or more" in refused(errno.EINVAL, new_event, client, EventKind.SIGNAL, small.handle)


def test_whoever_waits_for_what_goes_is_refused() -> None:
    with program() as client:
        event = new_event(client)
        reported: list[str] = []
        thread = threading.Thread(
            target=lambda: reported.append(refused(errno.EIO, lambda: wait(client, event, timeout=0xFFFF_FFFF)))
        )
        thread.start()
        eventually(lambda: client.process.events.waiting == 1)
        client.call(Number.DESTROY_EVENT, ioctls.OneEvent(event_id=event))
        thread.join(60)
        assert reported == ["an event was destroyed while a thread waited for it"]


def test_only_who_waits_for_an_event_looks() -> None:
    """Threads that wake up for nothing keep the one that serves the queues from its work."""
    with program() as client:
        idle, busy = new_event(client), new_event(client)
        events = client.process.events
        polls: list[int] = []
        known = events._is_over
        events._is_over = lambda found: polls.extend(each.number for each in found) or known(found)  # type: ignore
        threads = [
            threading.Thread(target=wait, args=(client, *each), kwargs={"timeout": 0xFFFF_FFFF})
            for each in ((idle,), (busy, idle))
        ]
        for count, thread in enumerate(threads, 1):
            thread.start()
            eventually(lambda count=count: events.waiting == count)  # type: ignore[misc]
        polls.clear()
        client.call(Number.SET_EVENT, ioctls.OneEvent(event_id=busy))
        threads[1].join(60)
        assert set(polls) == {busy, idle}
        assert polls.count(idle) == polls.count(busy), "the first thread slept on"
        assert events.waiting == 1
        client.call(Number.SET_EVENT, ioctls.OneEvent(event_id=idle))
        threads[0].join(60)
        assert events.waiting == 0


def test_interrupts_wake_events_whose_slot_was_written() -> None:
    with program() as client:
        page = client.allocate(VA, 8 * 4096)
        first = new_event(client, page=page.handle)
        events = client.process.events
        others = [new_event(client) for _ in range(0x100)]
        sibling = next(each for each in others if each & 0xFF == first & 0xFF)
        slots = client.client.shared.bytes(page.mmap_offset, 8 * 4096).view(np.uint64)
        assert set(slots.tolist()) == {(1 << 64) - 1}
        slots[sibling] = sibling
        events.interrupt(first & 0xFF)
        assert (wait(client, first)[0], wait(client, sibling)[0]) == (1, 0)
        assert slots[sibling] == (1 << 64) - 1


def test_programs_come_and_go() -> None:
    device = KfdDevice(["gfx900"])
    heard: list[object] = []
    device.probes.subscribe(heard.append, ProcessOpened, ProcessClosed)
    first, second = Program(device), Program(device)
    first.allocate(VA, PAGE)
    assert device.processes == (1, 2)
    device.close_process(1)
    device.close_process(1)
    assert "the process has ended" in refused(errno.EIO, first.process.ioctl, 0x4B01, bytes(8))
    second.allocate(VA, PAGE)
    device.close()
    assert heard[2:] == [ProcessClosed(1, 1, 0, 1, 0), ProcessClosed(2, 2, 0, 1, 0)]
    assert not device.processes


def test_what_a_program_had_is_gone_when_the_next_one_comes() -> None:
    """It refers to itself, and few objects are as large: without a look for such things hundreds of MB add up."""
    device = KfdDevice(["gfx900"])
    known, files = [], []
    for _ in range(3):
        program = Program(device)
        program.allocate(VA, PAGE)
        known.append(weakref.ref(program.process))
        files.append(len(os.listdir("/proc/self/fd")))
        assert [each() is None for each in known] == [True] * (len(known) - 1) + [False]
        device.close_process(program.number)
        del program
    assert files[1] == files[2]
    device.close()


def test_agents_that_cannot_be_shown() -> None:
    with pytest.raises(
        WireError, match=r"the kernel driver has no agent 'gfx700', expected one of gfx803, gfx900, .*, gfx950"
    ):
        KfdDevice(["gfx700"])
    with pytest.raises(WireError, match="9 agents were given, expected 1 to 8"):
        KfdDevice(["gfx900"] * 9)


@pytest.mark.parametrize("agent", ["gfx900", "gfx803"])
def test_a_queue_of_packets(agent: str) -> None:
    with program(agent) as client:
        made, ring, _ = client.aql_queue()
        handle, value = client.signal(1)
        packet = np.zeros(64, np.uint8)
        packet[:2].view(np.uint16)[0] = 3 | 1 << 8  # BARRIER_AND
        packet[56:64].view(np.uint64)[0] = handle
        ring.bytes[:64] = packet
        client.doorbell(made)[0] = 1 if client.device.nodes[0].is_legacy else 0
        eventually(lambda: value[0] == 0)
        client.call(Number.DESTROY_QUEUE, ioctls.DestroyQueue(queue_id=made.queue_id))
        assert "no queue has number 1" in refused(
            errno.EINVAL, client.call, Number.DESTROY_QUEUE, ioctls.DestroyQueue(queue_id=made.queue_id)
        )


def test_checks_know_what_is_mapped() -> None:
    """As the driver is told: what was unmapped stays known, until something else lies there."""
    with program("gfx900", check="memory") as client:
        node = client.process.nodes[0]
        guard = client.process.device(node).memory.guard
        assert guard is not None
        known = guard.allocations
        first = client.allocate(0x4000_0000, 2 * PAGE)
        client.map(first.handle)
        assert str(known.at(0x4000_0000)).startswith(f"allocation 1 ({2 * PAGE} bytes at 0x40000000")
        client.unmap(first.handle)
        assert str(known.at(0x4000_0000)).partition("freed at ")[1]
        second = client.allocate(0x4000_1000, PAGE)
        client.map(second.handle)
        assert known.at(0x4000_0000) is None
        assert str(known.at(0x4000_1000)).startswith("allocation 2 (")


def test_checks_of_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that there are, but for leaks."""
    assert KfdDevice(check="all").settings.checks == ALL - {LEAKS}
    monkeypatch.setenv(VARIABLE, "waits")
    assert KfdDevice().settings.checks == {"waits"}
    with pytest.raises(
        BeyondModel, match="check 'leaks' is not supported for ROCm programs, whose run-time library does not"
    ):
        _ = KfdDevice(check="memory,leaks").settings


def test_lints_about_kernels_are_events_which_exec_prints() -> None:
    said: list[str] = []
    shown: list[Diagnostic] = []
    with program("gfx900") as client:
        heard: list[KernelLint] = []
        client.device.probes.subscribe(heard.append, KernelLint)
        RocmReporter(client.device, said.append, shown.append, calls=False)
        agent = client.process.device(client.device.nodes[0])
        assert agent.on_lint is not None
        agent.on_lint("lds-out-of-bounds", "kernel k: read past the end")
        assert [(each.process, each.agent, each.check) for each in heard] == [(1, "gfx900", "lds-out-of-bounds")]
    assert said == []
    assert as_text(shown) == "warning[lds-out-of-bounds]: kernel k: read past the end\n   = note: on agent gfx900"
