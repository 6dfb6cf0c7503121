"""What a driver says of an agent and hears of it: trap handlers, page faults, where private memory is counted from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault, RuleError
from softcard.device.hsa.events import QueueErrored, Trapped
from softcard.device.hsa.exceptions import QueueError
from softcard.device.hsa.launch.first_state import Scratch
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.records import AmdQueue
from softcard.device.hsa.wave_events import RegistersTaken
from tests.device.hsa.rig import COUNT, Bench, dispatch, flat_scratch

Make = Callable[..., Bench]
TRAP = "s_trap 2\ns_endpgm"
PROPERTIES = AmdQueue.offset_of("queue_properties")
ENGINES = pytest.mark.parametrize("engine", ["jit", "reference"])


def untrapped(rig: Bench) -> None:
    """Have the queue say that its waves have no trap handler."""
    rig.device.memory.write(rig.queue.address + PROPERTIES, (2).to_bytes(4, "little"))


@ENGINES
def test_a_trap_handler_of_the_driver(bench: Make, engine: str) -> None:
    """Waves trap though neither kernel nor queue says so."""
    rig = bench(engine=engine, listen=True)
    untrapped(rig)
    kernel = rig.kernel(TRAP)
    rig.queue.submit(dispatch(kernel))
    assert not rig.errors
    rig.device.has_trap_handler = True
    rig.queue.submit(dispatch(kernel))
    assert [code for code, _ in rig.errors] == [QueueError.EXCEPTION]
    assert "s_trap 2 (abort trap)" in str(rig.errors[0][1])
    assert [event.resumed for event in rig.reported(Trapped)] == [True, False]


def test_registers_at_a_trap(bench: Make) -> None:
    """Told of before the trap; where the wave goes on behind it, of nothing else."""
    rig = bench(listen=True, snapshots=4)
    untrapped(rig)
    rig.queue.submit(dispatch(rig.kernel("s_mov_b32 s9, 17\n" + TRAP)))
    assert not rig.errors
    [taken] = rig.reported(RegistersTaken)
    assert (taken.why, taken.instruction, taken.scalars["s9"]) == ("trap", "s_trap 2", "0x00000011")


def test_a_trap_handler_is_state(bench: Make) -> None:
    rig = bench()
    assert not rig.device.has_trap_handler
    state = rig.device.snapshot()
    rig.device.has_trap_handler = True
    with_it = rig.device.snapshot()
    rig.device.restore(state)
    assert not rig.device.has_trap_handler
    rig.device.restore(with_it)
    assert rig.device.has_trap_handler
    rig.device.reset()
    assert not rig.device.has_trap_handler


@ENGINES
@pytest.mark.parametrize("is_reported", [True, False])
def test_a_page_fault(bench: Make, engine: str, is_reported: bool) -> None:
    """Who tells of it otherwise has queue_inactive_signal as it was; the verdict is the same."""
    rig = bench(engine=engine, listen=True)
    asked: list[tuple[Queue, AccessFault]] = []

    def handler(queue: Queue, error: AccessFault) -> bool:
        asked.append((queue, error))
        return is_reported

    assert rig.device.fault_handler is None
    rig.device.fault_handler = handler
    for number in range(2):  # launched anew, and again
        queue = rig.new_queue()
        rig.queue = queue
        queue.submit(dispatch(rig.kernel(COUNT), 0x1234_5000))
        assert queue.inactive_signal.load() == (0 if is_reported else QueueError.MEMORY_APERTURE_VIOLATION)
        assert not queue.is_active
        (who, error), (code, said) = asked[number], rig.errors[number]
        assert (who, error, code) == (queue, said, QueueError.MEMORY_APERTURE_VIOLATION)
        assert (error.address, error.access) == (0x1234_5000, "write")
        assert [place.kind for place in error.path] == ["lane", "pc", "wave", "work-group", "AQL packet", "queue"]
    assert [event.error for event in rig.reported(QueueErrored)] == [error for _, error in asked]


def test_a_page_fault_at_a_queue_that_goes_on(bench: Make) -> None:
    """After a fault that was told otherwise the driver decides when the queue is active again."""
    rig = bench()
    rig.device.fault_handler = lambda queue, error: True
    address, words = rig.words()
    rig.queue.submit(dispatch(kernel := rig.kernel(COUNT), 0x1234_5000))
    assert rig.device.process() == 0
    rig.queue.write_packet(0, dispatch(kernel, address))
    rig.device.set_active(rig.queue, True)
    assert (words[0], rig.queue.load_read_index(), rig.queue.error) == (1, 1, None)


def test_other_errors_are_not_asked_about(bench: Make) -> None:
    rig = bench()
    asked: list[Any] = []
    rig.device.fault_handler = lambda queue, error: bool(asked.append(error))
    rig.queue.submit(dispatch(rig.kernel(), workgroup_size_x=2000))
    assert (asked, rig.queue.inactive_signal.load()) == ([], QueueError.GROUP_TOO_LARGE)


@pytest.mark.parametrize("agent", ["gfx700", "gfx803"])
def test_private_memory_counted_from_elsewhere(bench: Make, agent: str) -> None:
    """A driver's SH_HIDDEN_PRIVATE_BASE_VIMID; launches that were kept follow it."""
    rig = bench(agent, dynamic_scratch=False)
    device = rig.device
    text = f"""
    {flat_scratch(agent, 2)}
    s_load_dwordx2 s[6:7], s[0:1], 0
    v_mov_b32 v0, 0
    v_mov_b32 v2, 77
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v1, s7
    flat_store_dword v[0:1], v2
    s_endpgm
    """
    enable = ["enable_sgpr_kernarg_segment_ptr", "enable_sgpr_flat_scratch_init"]
    kernel = rig.kernel(text, enable, rsrc2=1)
    cell, words = rig.words(2)
    words.view("u8")[0] = device.apertures.private_base
    before = device.hidden_private_base
    places = [device.allocate(1 << 20) for _ in range(2)]
    device.set_scratch(rig.queue, 16, 32)
    for place in places:
        device.hidden_private_base = place
        at = AmdQueue.offset_of("scratch_backing_memory_location")
        device.memory.write(rig.queue.address + at, (0x1000).to_bytes(8, "little"))
        for _ in range(3):
            rig.queue.submit(dispatch(kernel, cell, private_segment_size=16, workgroup_size_x=64, grid_size_x=64))
        assert not rig.errors
        assert device.array(place + 0x1000, 1, "u4")[0] == 77
    device.reset()
    assert device.hidden_private_base == before


def test_private_memory_of_gfx9_has_addresses(bench: Make) -> None:
    device = bench().device
    with pytest.raises(
        RuleError,
        match=r"gfx900 has no register SH_HIDDEN_PRIVATE_BASE_VIMID: only .*hsa/flat-scratch-legacy",
    ):
        device.hidden_private_base = 1 << 32
    assert device.hidden_private_base == 0


PAST_THE_END = """
v_mov_b32 v0, s5
v_mov_b32 v1, 7
buffer_store_dword v1, v0, s[0:3], s6 offen
s_waitcnt vmcnt(0)
s_endpgm
"""


def driver_scratch(rig: Bench, size: int) -> int:
    """Give the queue private memory as a driver does: its own memory, of which amd_queue_t says where it is."""
    record, device = rig.queue.record(), rig.device
    address = 0x1_0000_0000
    device.map_at(address, np.zeros(size, np.uint8), name="allocation 7")
    if device.agent.is_legacy:
        device.hidden_private_base = address
    fields = {
        "scratch_resource_descriptor": Scratch(address, size).resource_descriptor(device.agent.target.level),
        "scratch_backing_memory_location": address - device.hidden_private_base,
        "scratch_backing_memory_byte_size": size,
    }
    values = {slot.name: getattr(record, slot.name) for slot in record.slots} | fields
    device.memory.write(rig.queue.address, AmdQueue(**values).pack())
    return address


@ENGINES
@pytest.mark.parametrize("agent", ["gfx803", "gfx900"])
def test_the_check_of_memory_knows_the_bounds_of_a_drivers_private_memory(bench: Make, agent: str, engine: str) -> None:
    """It is one block for all waves, in which the packet says how much of it is a work-item's."""
    rig = bench(agent, engine=engine, dynamic_scratch=False, check="memory")
    driver_scratch(rig, 1 << 20)
    enable = ["enable_sgpr_private_segment_buffer", "enable_sgpr_kernarg_segment_ptr"]
    cell, words = rig.words(1)
    for at, size in ((12, 16), (16, 16), (28, 32), (8, 8), (76, 64), (16, 16), (60, 128), (256, 256), (12, 16)):
        found = len(rig.device.findings)
        words[0] = at
        kernel = rig.kernel("s_load_dword s5, s[4:5], 0\ns_waitcnt lgkmcnt(0)" + PAST_THE_END, enable, rsrc2=1)
        rig.queue.submit(dispatch(kernel, cell, private_segment_size=size))
        assert not rig.errors
        reported = [str(each) for each in rig.device.findings[found:]]
        if at < size:
            assert reported == []
            continue
        assert len(reported) == 1, reported
        assert (
            f"error[memory/private-out-of-bounds]: write of 4 bytes at offset {at:#x} of private memory "
            f"is out of bounds: a work-item has {size} bytes"
        ) in reported[0]
    blocks = len(list(rig.device.memory))
    rig.device.destroy_queue(rig.queue)
    assert len(list(rig.device.memory)) < blocks - 64


@ENGINES
def test_a_fault_that_private_memory_may_have_led_to(bench: Make, engine: str) -> None:
    """Without the check: a return to 0, which is what loads past the end of private memory give, and a store there."""
    note = " (a work-item has 16 bytes of private memory: run with check='memory' to find accesses past the end of it)"
    for text, agent, what in (
        ("s_mov_b64 s[0:1], 0\ns_setpc_b64 s[0:1]", "gfx900", "read of 4 bytes at 0x0: no memory there"),
        (
            "s_mov_b32 s5, 0x100000\nv_mov_b32 v1, 7\nbuffer_store_dword v1, off, s[0:3], s5\ns_endpgm",
            "gfx803", "write of 4 bytes at 0x100100000: no memory there",
        ),
    ):  # fmt: skip
        for size in (16, 0):
            rig = bench(agent, engine=engine, dynamic_scratch=False)
            driver_scratch(rig, 1 << 20)
            kernel = rig.kernel(text, ["enable_sgpr_private_segment_buffer"], rsrc2=1)
            rig.queue.submit(dispatch(kernel, private_segment_size=size))
            ((_, error),) = rig.errors
            assert what in str(error)
            assert (note in str(error)) == bool(size), (str(error), size)
