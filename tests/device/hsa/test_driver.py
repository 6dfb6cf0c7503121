"""What a driver says of an agent and hears of it: trap handlers, page faults, where private memory is counted from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.device.hsa.rig import COUNT, Bench, dispatch, flat_scratch
from understudy.core.errors import AccessFault, RuleError
from understudy.device.hsa.events import QueueErrored, Trapped
from understudy.device.hsa.exceptions import QueueError
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.records import AmdQueue
from understudy.device.hsa.snapshot_events import RegistersTaken

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
    assert "s_trap 2: trap, with which code gives up" in str(rig.errors[0][1])
    assert [event.resumed for event in rig.told(Trapped)] == [True, False]


def test_registers_at_a_trap(bench: Make) -> None:
    """Told of before the trap; where the wave goes on behind it, of nothing else."""
    rig = bench(listen=True, snapshots=4)
    untrapped(rig)
    rig.queue.submit(dispatch(rig.kernel("s_mov_b32 s9, 17\n" + TRAP)))
    assert not rig.errors
    [taken] = rig.told(RegistersTaken)
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
@pytest.mark.parametrize("is_told", [True, False])
def test_a_page_fault(bench: Make, engine: str, is_told: bool) -> None:
    """Who tells of it otherwise has queue_inactive_signal as it was; the verdict is the same."""
    rig = bench(engine=engine, listen=True)
    asked: list[tuple[Queue, AccessFault]] = []

    def handler(queue: Queue, error: AccessFault) -> bool:
        asked.append((queue, error))
        return is_told

    assert rig.device.fault_handler is None
    rig.device.fault_handler = handler
    for number in range(2):  # launched anew, and again
        queue = rig.new_queue()
        rig.queue = queue
        queue.submit(dispatch(rig.kernel(COUNT), 0x1234_5000))
        assert queue.inactive_signal.load() == (0 if is_told else QueueError.MEMORY_APERTURE_VIOLATION)
        assert not queue.is_active
        (who, error), (code, said) = asked[number], rig.errors[number]
        assert (who, error, code) == (queue, said, QueueError.MEMORY_APERTURE_VIOLATION)
        assert (error.address, error.access) == (0x1234_5000, "write")
        assert [place.kind for place in error.path] == ["lane", "pc", "wave", "work-group", "AQL packet", "queue"]
    assert [event.error for event in rig.told(QueueErrored)] == [error for _, error in asked]


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
    with pytest.raises(RuleError, match=r"gfx900 has no SH_HIDDEN_PRIVATE_BASE_VIMID.*hsa/flat-scratch-legacy"):
        device.hidden_private_base = 1 << 32
    assert device.hidden_private_base == 0
