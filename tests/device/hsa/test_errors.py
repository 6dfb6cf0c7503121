"""Queue errors: codes, messages, inactivation, resuming; traps and faults of waves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from softcard.core.errors import RuleError
from softcard.device.hsa.events import QueueErrored, Trapped
from softcard.device.hsa.exceptions import QueueError, Status, status_of
from softcard.device.hsa.queues.records import AmdQueue
from softcard.device.hsa.queues.signals import Condition
from tests.device.hsa.rig import COUNT, KERNARG, Bench, dispatch

Make = Callable[..., Bench]
RSRC2_TRAP = 1 << 6


def test_queue_errors(bench: Make) -> None:
    """The code goes to queue_inactive_signal and the callback; nothing more is processed; waiting says why."""
    rig = bench(listen=True)
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(0, signal=done), dispatch(rig.kernel(), signal=done))
    assert rig.queue.inactive_signal.load() == QueueError.INVALID_CODE == 8
    assert rig.queue.record().queue_inactive_signal == rig.queue.inactive_signal.address
    assert not rig.queue.is_active
    assert (rig.queue.load_read_index(), done.load()) == (0, 1)
    (event,) = rig.reported(QueueErrored)
    assert (event.queue, event.index, event.code) == (0, 0, 8)
    text = (
        "is 1 and will never be EQ 0: kernel_object is 0, expected the address of a kernel header, at AQL packet 0, at "
        "queue 0"
    )
    with pytest.raises(RuleError, match=text):
        done.wait(Condition.EQ, 0)


def test_status_of_codes() -> None:
    assert status_of(0) is Status.SUCCESS
    assert status_of(0x400) is Status.ERROR_OUT_OF_RESOURCES
    assert status_of(0x8000_0000 | 8) is Status.ERROR_INVALID_CODE_OBJECT
    codes = [code for code in QueueError if code is not QueueError.SCRATCH_RECLAIM]
    assert all(status_of(code) is not Status.SUCCESS for code in codes)


GRIDS: list[tuple[dict[str, Any], QueueError, str]] = [
    ({"dimensions": 0}, QueueError.INVALID_DIMENSION, "setup says 0 dimensions"),
    ({"grid_size_x": 0}, QueueError.INVALID_DIMENSION, "has a 0"),
    ({"workgroup_size_y": 0}, QueueError.INVALID_DIMENSION, "has a 0"),
    ({"workgroup_size_z": 0, "grid_size_z": 0}, QueueError.INVALID_DIMENSION, "has a 0"),
    ({"grid_size_y": 2}, QueueError.INVALID_DIMENSION, "1 dimensions, but grid size"),
    ({"workgroup_size_x": 2048, "grid_size_x": 2048}, QueueError.GROUP_TOO_LARGE, "expected at most 1024"),
    ({"group_segment_size": 65537}, QueueError.INVALID_GROUP_MEMORY, "65537 bytes of LDS, expected at most 65536"),
]


@pytest.mark.parametrize(("fields", "code", "text"), GRIDS)
def test_grid_checks(bench: Make, fields: dict[str, Any], code: QueueError, text: str) -> None:
    rig = bench()
    rig.queue.submit(dispatch(rig.kernel(), **fields))
    assert rig.errors[0][0] == code
    assert text in str(rig.errors[0][1])


@pytest.mark.parametrize(("vgprs", "most"), [(64, 16), (68, 12), (84, 12), (88, 8), (128, 8), (132, 4), (256, 4)])
def test_groups_and_registers(bench: Make, vgprs: int, most: int) -> None:
    """All waves of a group lie on the four SIMDs of one compute unit, with 256 vector registers each."""
    rig = bench()
    kernel, done = rig.kernel(vgprs=vgprs), rig.device.create_signal(2)
    rig.queue.submit(dispatch(kernel, signal=done, workgroup_size_x=64 * most, grid_size_x=64 * most))
    rig.queue.submit(dispatch(kernel, signal=done, workgroup_size_x=64 * most, grid_size_x=3))
    assert (done.load(), rig.errors) == (0, [])
    if most < 16:
        rig.queue.submit(dispatch(kernel, workgroup_size_x=64 * most + 1, grid_size_x=1024))
        ((code, error),) = rig.errors
        assert code == QueueError.OUT_OF_VGPRS
        text = (
            f"the work-group has {most + 1} waves with {vgprs} vector registers each, but a compute unit has room "
            f"for {most}"
        )
        assert text in str(error)


def test_entries_beyond_memory(bench: Make) -> None:
    rig = bench()
    kernel = rig.kernel()
    for offset in (-(1 << 62), 1 << 62):
        rig.device.memory.write(kernel + 16, offset.to_bytes(8, "little", signed=True))
        rig.new_queue().submit(dispatch(kernel))
        code, error = rig.errors.pop()
        assert code == QueueError.INVALID_CODE
        assert "is outside of the address space" in str(error)


def test_resuming(bench: Make) -> None:
    """0 in queue_inactive_signal, stored by who handled the error, lets the packet start again."""
    rig = bench(dynamic_scratch=False)
    done = rig.device.create_signal(2)
    packet = dispatch(rig.kernel(), signal=done, private_segment_size=8)
    rig.queue.submit(packet, packet)
    assert rig.errors[0][0] == QueueError.INSUFFICIENT_SCRATCH
    assert "1 waves need 1024 bytes of private memory each, but the queue has room for 0" in str(rig.errors[0][1])
    rig.device.set_scratch(rig.queue, 8)
    rig.queue.inactive_signal.store(0)
    assert (done.load(), rig.queue.is_active, rig.queue.error) == (0, True, None)


def test_dying(bench: Make) -> None:
    """-1 leaves the queue dead."""
    rig = bench()
    rig.queue.submit(dispatch(0))
    rig.queue.inactive_signal.store(-1)
    assert not rig.queue.is_active


def test_other_queues_go_on(bench: Make) -> None:
    rig = bench()
    other, done = rig.new_queue(), rig.device.create_signal(1)
    rig.queue.submit(dispatch(0))
    other.submit(dispatch(rig.kernel(), signal=done))
    assert done.load() == 0


def test_illegal_instruction(bench: Make) -> None:
    rig = bench()
    kernel = rig.kernel(b"\xff\xff\xff\xff")
    rig.queue.submit(dispatch(kernel))
    code, error = rig.errors[0]
    assert code == QueueError.ILLEGAL_INSTRUCTION
    assert status_of(code) is Status.ERROR_ILLEGAL_INSTRUCTION
    assert f"at pc {kernel + 256:#x}" in str(error)


@pytest.mark.parametrize("rounds", [1, 4])
def test_memory_violation(bench: Make, rounds: int) -> None:
    """Reported at its lane and pc, whether the launch is new or repeated; the queue's template is gone then."""
    rig = bench()
    kernel = rig.kernel(COUNT)
    address, _ = rig.words()
    for _ in range(rounds - 1):
        rig.queue.submit(dispatch(kernel, address))
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(kernel, 0x10, done))
    code, error = rig.errors[0]
    assert code == QueueError.MEMORY_APERTURE_VIOLATION
    assert done.load() == 1
    for part in ("at lane 0", "flat_atomic_add", "at work-group 0,0,0", f"at AQL packet {rounds - 1}", "at queue 0"):
        assert part in str(error)


def test_step_limits(bench: Make) -> None:
    rig = bench(step_limit=1000)
    rig.queue.submit(dispatch(rig.kernel("again: s_branch again")))
    assert rig.errors[0][0] == QueueError.EXCEPTION
    assert "did not end within 1000 instructions" in str(rig.errors[0][1])


SPIN = """
    v_mov_b32 v0, s0
    v_mov_b32 v1, s1
    s_cmp_eq_u32 s2, {0}                    ; the work-group that sets the flag
    s_cbranch_scc0 again
    v_mov_b32 v2, 1
    flat_store_dword v[0:1], v2
    s_endpgm
    again: s_sleep 1
    flat_load_dword v2, v[0:1] glc
    s_waitcnt vmcnt(0) lgkmcnt(0)
    v_cmp_eq_u32 vcc, 0, v2
    s_cbranch_vccnz again
    s_endpgm
"""
WORK_GROUP_ID_X = 1 << 7


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_one_at_a_time(bench: Make, engine: str) -> None:
    """Waiting for an earlier work-group ends; for a later one it does not, and the error says what did not begin."""
    rig = bench(engine=engine, step_limit=1000, execution="manual", quantum=1)
    address, words = rig.words()
    grid = {"workgroup_size_x": 64, "grid_size_x": 4 * 64}
    first, last = (rig.kernel(SPIN.format(group), rsrc2=WORK_GROUP_ID_X) for group in (0, 3))
    rig.queue.submit(dispatch(first, address, **grid))
    rig.device.process()
    assert (rig.errors, words[0]) == ([], 1)
    words[0] = 0
    other = rig.new_queue()
    rig.queue.submit(dispatch(last, address, **grid), dispatch(rig.kernel()))
    other.submit(*[dispatch(rig.kernel())] * 3)  # one of them has its turn first
    rig.device.process()
    text = "); until it ends, these wait: those of its 4 work-groups that have not begun, 2 packets of"
    assert text in str(rig.errors[0][1])


def test_the_host_waits_in_its_doorbell(bench: Make) -> None:
    rig = bench(step_limit=1000)
    rig.queue.submit(dispatch(rig.kernel("again: s_branch again")))
    text = "); until it ends, these wait: the host (execution is synchronous), at pc"
    assert text in str(rig.errors[0][1])
    alone = bench(step_limit=1000, execution="manual")
    alone.queue.submit(dispatch(alone.kernel("again: s_branch again")))
    alone.device.process()
    assert "until it ends" not in str(alone.errors[0][1])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_debugtrap(bench: Make, number: int) -> None:
    rig = bench(listen=True)
    rig.queue.submit(dispatch(rig.kernel(f"s_trap {number}\ns_endpgm")))
    code, error = rig.errors[0]
    assert code == QueueError.EXCEPTION == 0x8000_0000
    assert status_of(code) is Status.ERROR_EXCEPTION
    said = {1: "debug exception", 2: "abort trap", 0: "unknown trap"}[number]
    assert f"the kernel executed s_trap {number} ({said}); v0 is 0x0" in str(error)
    assert ("hsa/debugtrap" in str(error)) is (number == 1)
    assert [event.resumed for event in rig.reported(Trapped)] == [False]


def test_debugtrap_of_later_compilers_goes_on(bench: Make) -> None:
    rig = bench(listen=True)
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel("s_trap 3\ns_endpgm"), signal=done))
    assert done.load() == 0
    assert [event.resumed for event in rig.reported(Trapped)] == [True]


def test_a_handler_may_stop_at_a_debug_trap(bench: Make) -> None:
    rig = bench()
    rig.device.trap_handler = lambda trap: False
    rig.queue.submit(dispatch(rig.kernel("s_trap 3\ns_endpgm")))
    assert "the kernel executed s_trap 3 (debug trap); v0 is 0x0" in str(rig.errors[0][1])


def test_debugtrap_argument(bench: Make) -> None:
    rig = bench()
    heard: list[Trapped] = []

    def handle(trap: Trapped) -> bool:
        heard.append(trap)
        return True

    rig.device.trap_handler = handle
    rig.queue.submit(dispatch(rig.kernel("v_mov_b32 v0, 0x1234\ns_trap 1\ns_endpgm", ["enable_sgpr_queue_ptr"])))
    assert [(trap.number, trap.argument, trap.index) for trap in heard] == [(1, 0x1234, 0)]
    assert rig.errors == []


def test_trap_handler(bench: Make) -> None:
    """It decides; the wave goes on behind the trap."""
    rig = bench()
    kernel = rig.kernel("s_trap 1\n" + COUNT)
    address, words = rig.words()
    rig.device.trap_handler = lambda trap: trap.index < 3
    for _ in range(4):
        rig.queue.submit(dispatch(kernel, address))
    assert words[0] == 3
    assert [code for code, _ in rig.errors] == [QueueError.EXCEPTION]


def test_trap_present(bench: Make) -> None:
    """Neither kernel nor queue enables the handler: the instruction does nothing."""
    rig = bench()
    properties = rig.queue.address + AmdQueue.offset_of("queue_properties")
    rig.device.memory.write(properties, (2).to_bytes(4, "little"))
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel("s_trap 1\ns_endpgm"), signal=done))
    assert (done.load(), rig.errors) == (0, [])
    rig.queue.submit(dispatch(rig.kernel("s_trap 1\ns_endpgm", [KERNARG], rsrc2=RSRC2_TRAP)))
    assert rig.errors[0][0] == QueueError.EXCEPTION
