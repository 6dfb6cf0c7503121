"""Repeated launches by machine code do what the readable path does, and notice whatever has changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from softcard.device.hsa.events import PacketCompleted, PacketStarted
from softcard.device.hsa.native_packets import consume
from softcard.device.hsa.queues.signals import Condition
from softcard.engine.gcn.tiered.engine import HOT
from tests.device.hsa.rig import COUNT, Bench, barrier, dispatch
from tests.engine.gcn.jit.leaving import exits

Make = Callable[..., Bench]
BY_GROUP = """
    v_lshlrev_b32 v0, 2, v0
    s_lshl_b32 s2, s2, 6
    v_add_co_u32 v0, vcc, s2, v0
    v_mov_b32 v1, s1
    v_add_co_u32 v0, vcc, s0, v0
    v_addc_co_u32 v1, vcc, v1, 0, vcc
    v_mov_b32 v2, 1
    flat_atomic_add v[0:1], v2
    s_endpgm
"""
"""Adds 1 to dword 16 * group + lane; the group's id is in s2."""


@pytest.mark.parametrize("machine_code", ["compiled", "as Python", ""])
def test_what_is_left_behind(bench: Make, machine_code: str) -> None:
    """Memory, indices, signals and clock after a mix of launches are the same with and without it."""
    rig = bench(machine_code=bool(machine_code), size=16, profiling=True)
    if machine_code == "as Python":
        rig.queue.templates._consume = consume
    first, second = rig.kernel(COUNT), rig.kernel(BY_GROUP, rsrc2=1 << 7)
    areas = [rig.words(1024) for _ in range(3)]
    signals = [rig.device.create_signal(1) for _ in range(60)]
    for number, signal in enumerate(signals):
        address, _ = areas[number % 3]
        if number % 4:
            packet = dispatch(first, address + 4 * number, signal)
        else:
            packet = dispatch(second, address, signal, workgroup_size_x=16, grid_size_x=16 * (1 + number % 5))
        rig.queue.submit(packet)
    assert rig.errors == []
    sums = [int(words.sum(dtype=np.uint64)) for _, words in areas]
    assert sums == [15 + 16 * 15, 15 + 16 * 15, 15 + 16 * 15]
    assert {signal.load() for signal in signals} == {0}
    assert rig.device.time == signals[-1].record().end_ts == 690
    assert rig.queue.progress.packets == 60
    assert rig.queue.load_read_index() == 60


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_turns_are_the_same(seed: int | None) -> None:
    """How many packets of a queue are processed before it is another's turn does not depend on how they are."""
    found = []
    for options in ({}, {"machine_code": False}, {"engine": "reference"}, {"listen": True}):
        rig = Bench(execution="manual", quantum=3, profiling=True, seed=seed, **options)
        kernel, (address, _), times = rig.kernel(COUNT), rig.words(), []
        queues = [rig.queue, rig.new_queue(), rig.new_queue()]
        for queue in queues * 3:
            signals = [rig.device.create_signal(1) for _ in range(7)]
            queue.submit(*(dispatch(kernel, address, signal) for signal in signals))
            times += signals
            rig.device.process(5)
        rig.device.process()
        found.append([signal.record().start_ts for signal in times])
        rig.device.close()
    assert found[0] == found[1] == found[2] == found[3]


@pytest.mark.parametrize("profiling", [False, True])
def test_what_is_reported(profiling: bool) -> None:
    """A listener hears the same of packets, however they are processed, and each before its signal says so."""
    found = []
    for how in ("compiled", "as Python", "by Python", "reference"):
        options = {"by Python": {"machine_code": False}, "reference": {"engine": "reference"}}.get(how, {})
        rig = Bench(execution="manual", size=64, profiling=profiling, listen=True, **options)
        if how == "as Python":
            rig.queue.templates._consume = consume
        kernel, other, (address, words) = rig.kernel(COUNT), rig.kernel(BY_GROUP, rsrc2=1 << 7), rig.words(1024)
        done, mailbox, seen = rig.device.create_signal(20), rig.device.allocate(8), []
        noted = rig.device.create_signal(20, mailbox=mailbox, event_id=7)
        rig.device.probes.subscribe(lambda event, at=done, to=seen: to.append(at.load()), PacketCompleted)
        for _ in range(5):
            rig.queue.submit(
                dispatch(kernel, address, done), dispatch(other, address, noted), dispatch(kernel, address)
            )
            rig.queue.submit(dispatch(other, address, grid_size_x=70, workgroup_size_x=16), barrier(signal=done))
            rig.device.process()
        rig.queue.submit(dispatch(kernel, address, done), dispatch(0), dispatch(kernel, address))
        rig.device.process()
        reported = [str(event) for event in rig.events]
        end = [
            rig.device.time,
            rig.queue.progress.packets,
            rig.queue.progress.instructions,
            rig.queue.load_read_index(),
        ]
        found.append((reported, seen, end, words.tolist(), done.record(), noted.record()))
        assert len(rig.reported(PacketStarted)) == 27
        assert len(rig.reported(PacketCompleted)) == 26
        rig.device.close()
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0][1][:6] == [20, 19, 19, 19, 19, 18], "a packet is told of as completed before its signal"


def test_failures_behind_packets_of_machine_code(bench: Make) -> None:
    """Whatever came before it in its turn, a packet that failed starts again as soon as the host says so."""
    rig = bench()
    kernel, done = rig.kernel(), rig.device.create_signal(9)
    good = dispatch(kernel, signal=done)
    rig.queue.submit(good, good, good, good)
    bad = rig.queue.submit(good, good, good, dispatch(0)) % rig.queue.size
    assert (done.load(), len(rig.errors)) == (2, 1)
    rig.device.memory.write(rig.queue.packet_address(bad), good)
    rig.queue.inactive_signal.store(0)
    assert done.load() == 1


def test_hot_code_is_optimised(bench: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no packet comes back to Python. In a cache of its own, where nobody has optimised this code before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rig = bench()
    kernel, (address, _) = rig.kernel(COUNT), rig.words()
    for _ in range(4):
        rig.queue.submit(dispatch(kernel, address))
    engine = rig.device.engine
    engine.profile(0)[:] = HOT
    began = time.monotonic()
    while not engine.is_tiering_up:
        rig.queue.submit(dispatch(kernel, address))
        assert time.monotonic() - began < 30.0


def test_changed_code_is_seen(bench: Make) -> None:
    """Code that the host writes over between two packets of the same kernel."""
    rig = bench()
    kernel = rig.kernel(COUNT)
    address, words = rig.words()
    for _ in range(5):
        rig.queue.submit(dispatch(kernel, address))
    rig.device.memory.write(kernel + 256, rig.code(COUNT.replace("v2, 1", "v2, 7")))
    for _ in range(5):
        rig.queue.submit(dispatch(kernel, address))
    assert words[0] == 5 + 35


def test_changed_headers_are_seen(bench: Make) -> None:
    rig = bench()
    kernel, other = rig.kernel(COUNT), rig.kernel(COUNT.replace("v2, 1", "v2, 7"))
    address, words = rig.words()
    for _ in range(4):
        rig.queue.submit(dispatch(kernel, address))
    rig.device.memory.write(kernel + 16, (other + 256 - kernel).to_bytes(8, "little", signed=True))
    for _ in range(4):
        rig.queue.submit(dispatch(kernel, address))
    assert words[0] == 4 + 28


def test_mappings_may_change(bench: Make) -> None:
    rig = bench()
    kernel = rig.kernel(COUNT)
    for _ in range(6):
        array = np.zeros(4, np.uint32)
        address = rig.device.map(array)
        for _ in range(3):
            rig.queue.submit(dispatch(kernel, address))
        rig.device.unmap(address)
        assert array[0] == 3


@pytest.mark.parametrize("model", ["large", "small"])
@pytest.mark.parametrize("lead", [0, 64, 4032])
def test_arrays_inside_a_page(bench: Make, model: str, lead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = bench(machine_model=model)
    kernel = rig.kernel(COUNT)
    pages = np.zeros(3 * 4096, np.uint8)
    array = pages[-int(pages.ctypes.data) % 4096 + lead :][:64].view(np.uint32)
    address = rig.device.map(array)
    assert address % 4096 == lead
    with exits(monkeypatch) as found:
        for _ in range(4):
            rig.queue.submit(dispatch(kernel, address))
    assert array.tolist() == [4] + [0] * 15
    assert (rig.errors, found) == ([], [])


def test_a_flag_in_an_array_of_the_host(bench: Make) -> None:
    """A wave that waits for it sees what the host stores there, and the host what the wave stores."""
    rig = bench(execution="threaded", step_limit=1 << 40)
    kernel = rig.kernel("""
        v_mov_b32 v0, s0 | v_mov_b32 v1, s1 | v_mov_b32 v2, 1
        flat_store_dword v[0:1], v2 offset:4
        again:
        flat_load_dword v3, v[0:1] glc | s_waitcnt vmcnt(0)
        v_cmp_eq_u32 vcc, 0, v3 | s_cbranch_vccnz again
        flat_store_dword v[0:1], v3 offset:8 | s_endpgm
    """.replace("|", "\n"))  # fmt: skip
    flags, done = np.zeros(3, np.uint32), rig.device.create_signal(1)
    address = rig.device.map(flags)
    rig.queue.submit(dispatch(kernel, address, done))
    limit = time.monotonic() + 60
    while not flags[1] and time.monotonic() < limit:
        time.sleep(0.001)
    assert done.load() == 1
    flags[0] = 7
    assert done.wait(Condition.LT, 1, 60) == 0
    assert flags.tolist() == [7, 1, 7]
    rig.device.close()


def test_signals_at_the_edges_of_memory(bench: Make) -> None:
    """In memory that begins and ends inside a page; one beside it is refused, and nothing is written there."""
    rig = bench()
    kernel, pages = rig.kernel(), np.zeros(3 * 4096, np.uint8)
    room = pages[-int(pages.ctypes.data) % 4096 :][:8192]
    address = rig.device.map(room[128:448])
    signals = room.view(np.int64).reshape(-1, 8)
    signals[:, 0], signals[:, 1] = 1, 9
    for _ in range(4):
        for number in range(5):
            rig.queue.submit(dispatch(kernel, signal=address + 64 * number))
    assert rig.errors == []
    for beside in (-64, 320):
        rig.queue.submit(dispatch(kernel, signal=address + beside))
        ((_, error),) = rig.errors
        assert "no memory there" in str(error)
        rig.errors.clear()
        rig.queue = rig.new_queue()
    assert signals[:9, 1].tolist() == [9, 9, 5, 5, 5, 5, 5, 9, 9]


def test_more_kernels_than_templates(bench: Make) -> None:
    rig = bench()
    kernels = [rig.kernel(COUNT.replace("v2, 1", f"v2, {n}")) for n in range(24)]
    address, words = rig.words()
    for _ in range(4):
        for kernel in kernels:
            rig.queue.submit(dispatch(kernel, address), dispatch(kernel, address))
    assert words[0] == 8 * sum(range(24))


def test_scratch_may_move(bench: Make) -> None:
    rig = bench()
    text = "v_mov_b32 v0, s4\nv_mov_b32 v1, s5\nv_mov_b32 v2, s0\nflat_store_dword v[0:1], v2\ns_endpgm"
    kernel = rig.kernel(text, ["enable_sgpr_private_segment_buffer", "enable_sgpr_kernarg_segment_ptr"])
    address, words = rig.words()
    for size in (16, 64, 256):
        rig.device.set_scratch(rig.queue, size)
        for _ in range(3):
            words[0] = 0
            rig.queue.submit(dispatch(kernel, address))
            assert words[0] == rig.queue.record().scratch_backing_memory_location & 0xFFFF_FFFF


def test_cut_off_registers(bench: Make) -> None:
    """A register that user_sgpr_count cuts in half is no template's business."""
    rig = bench()
    kernel = rig.kernel("s_endpgm", count=1)
    done = rig.device.create_signal(5)
    for _ in range(5):
        rig.queue.submit(dispatch(kernel, signal=done))
    assert done.load() == 0
