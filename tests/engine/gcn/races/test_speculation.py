"""Groups side by side under the check of races: they leave what they do one after the other, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import GuestFault, NoHostMemory
from softcard.core.findings import Finding, FindingLog
from softcard.core.limits import TimeLimit, Watch
from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import Check, Checks
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.races import layout, speculation, tables
from softcard.engine.gcn.races.speculation import Speculation
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import DeviceShadow
from softcard.engine.gcn.tiered import engine as jit
from softcard.engine.gcn.tiered import worker
from softcard.engine.gcn.tiered.engine import JitEngine
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.races.eager import be_eager
from tests.engine.gcn.rig import DATA

GROUPS = 8
OWN = "v_lshlrev_b32 v4, 2, v0|s_lshl_b32 s8, s0, 8|s_add_u32 s8, s8, 0x200000|v_add_u32 v4, s8, v4|v_mov_b32 v5, 0|"
"""v4: the address of a dword of each work-item's own."""
TO_OWN = OWN + "v_mov_b32 v6, s0|flat_store_dword v[4:5], v6|"
"""Which its group stores its number to."""
ALL_ONE = "v_mov_b32 v4, 0x200100|v_mov_b32 v5, 0|v_mov_b32 v6, s0|"
"""v4: an address that all share."""
END = "s_waitcnt vmcnt(0)|s_endpgm"


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    return be_eager(monkeypatch)


def made(text: str, **options: Any) -> Dispatch:
    return program(text, groups=[(n, 0, 0) for n in range(GROUPS)], **options)


def found(
    dispatch: Dispatch, threads: int = 2, launches: int = 1, *others: Check, **more: Any
) -> tuple[list[Any], RaceWatch]:
    reported = list[Finding]()
    watch, engine = RaceWatch(dispatch.memory, FindingLog(reported)), JitEngine(threads=threads)
    ready = engine.prepare(replace(dispatch, checks=Checks(*others, watch), **more))
    for _ in range(launches):
        watch.begin()
        ready.run()
    return [each.as_dict() for each in reported], watch


def numbers(memory_bytes: list[int]) -> list[int]:
    return memory_bytes[::64]


def test_groups_that_do_not_meet_run_side_by_side(stages: list[bool]) -> None:
    one = made(TO_OWN + END)
    reported, watch = found(one, launches=3)
    assert reported == []
    assert stages == [True] * 3
    assert numbers(dwords(one, 64 * GROUPS)) == list(range(GROUPS))
    assert watch.native.race.next_uid == layout.FIRST_UID + 3 * GROUPS


@pytest.mark.parametrize("text", [
    ALL_ONE + "flat_store_dword v[4:5], v6|",
    TO_OWN + ALL_ONE + "s_cmp_eq_u32 s0, 5|s_cbranch_scc0 on|flat_store_dword v[4:5], v6|on:|",
    TO_OWN + ALL_ONE + "flat_load_ubyte v7, v[4:5] offset:2|",
    ALL_ONE + "flat_atomic_add v[4:5], v6|",
    OWN + "flat_store_byte v[4:5], v6 offset:255|flat_load_dword v6, v[4:5]|v_cmp_eq_u32 vcc, 0, v6|"
    "s_cbranch_vccz on|on:|",
])  # fmt: skip
def test_what_groups_do_to_each_other_is_reported_as_ever(text: str, stages: list[bool]) -> None:
    one, other = made(text + END), made(text + END)
    assert found(one, launches=2)[0] == found(other, threads=1, launches=2)[0]
    assert dwords(one, 0x1000) == dwords(other, 0x1000)
    assert stages
    assert not any(stages)


def undone(monkeypatch: pytest.MonkeyPatch, state: Callable[[], Any], meanwhile: Callable[[], Any]) -> list[Any]:
    """Memory before a stage, behind what happens meanwhile, and when it was undone; of the one stage that there is."""
    seen, begin, undo = list[Any](), Speculation.begin, Speculation.undo

    def begun(self: Speculation, *arguments: Any) -> bool:
        seen.append(state())
        return begin(self, *arguments)

    def over(self: Speculation) -> None:
        meanwhile()
        seen.append(state())
        undo(self)
        seen.append(state())

    monkeypatch.setattr(Speculation, "begin", begun)
    monkeypatch.setattr(Speculation, "undo", over)
    return seen


def test_memory_and_shadow_bits_are_what_they_were(stages: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of what is undone is seen by the groups that run one after the other; other bytes stay the host's."""
    one = made(TO_OWN + ALL_ONE + "flat_store_dword v[4:5], v6 offset:2048|" + END)
    device_shadow = DeviceShadow(one.memory, ("init", "fidelity"))
    one.memory.write(DATA, bytes(range(256)) * 16)
    for shadow_memory in device_shadow.shadow_memories:
        shadow_memory.follow(one.memory)
        shadow_memory.set_shadow(
            DATA + 0x108, 8
        )  # group 1 is one of the first two, and stores there before it meets another
    everywhere = one.memory, *device_shadow.shadow_memories
    meanwhile = lambda: one.memory.write(DATA + 0x4000, b"host")  # noqa: E731 - as another thread might
    seen = undone(monkeypatch, lambda: [each.read(DATA, 0x1000) for each in everywhere], meanwhile)
    found(one, 2, 1, EngineShadow(device_shadow))
    assert stages == [False]
    assert [a != b for a, b in zip(*seen[:2], strict=True)] == [True] * 3
    assert seen[2] == seen[0]
    assert numbers(dwords(one, 64 * GROUPS)) == list(range(GROUPS))
    assert one.memory.read(DATA + 0x4000, 4) == b"host"


def test_bytes_of_several_pages_become_what_they_were(stages: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are those of the check, and there is not memory all over them."""
    memory, base = GpuMemory(), 0x30_0000 - 0x80
    rams = {base: Ram(0x80), 0x30_0000: Ram(0x2000), DATA: Ram(0x1_0000)}
    for address, ram in rams.items():
        memory.map(address, ram)
    memory.write(base, bytes([0x5A]) * 0x180)
    text = f"v_mov_b32 v4, {base + 0x7F:#x}|v_mov_b32 v5, 0|v_mov_b32 v6, s0|flat_store_byte v[4:5], v6|"
    one = made(text + "flat_store_dwordx4 v[4:5], v[6:9] offset:65|" + END, memory=memory)
    seen = undone(monkeypatch, lambda: memory.read(base, 0x180), lambda: None)
    found(one)
    assert stages == [False]
    assert seen[1] != seen[0] == seen[2]


def test_memory_that_went_meanwhile_stays_gone(stages: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """And what came in its place is not written to."""
    one = made(TO_OWN + ALL_ONE + "flat_store_dword v[4:5], v6|" + END)

    def other() -> None:
        one.memory.replace(DATA, np.full(0x1_0000, 9, np.uint8))

    seen = undone(monkeypatch, lambda: one.memory.read(DATA, 0x1000), other)
    found(one)
    assert stages == [False]
    assert seen[2] == bytes([9]) * 0x1000


def test_groups_that_wait_for_each_other_run_one_after_the_other(
    stages: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one waits for a group that runs beside it, and where it waits for ever."""
    monkeypatch.setattr(worker, "TIMEOUT_SECONDS", 0.2)
    wait = "again:|flat_load_dword v7, v[4:5]|s_waitcnt vmcnt(0)|v_readfirstlane_b32 s9, v7|s_cmp_eq_u32 s9, 77|"
    text = ALL_ONE + f"s_cmp_eq_u32 s0, 3|s_cbranch_scc0 on|{wait}s_cbranch_scc0 again|on:|"
    one = made(text + END, step_limit=1 << 50, watch=Watch(0.3))
    with pytest.raises(TimeLimit) as caught:
        found(one)
    assert "work-group 3,0,0" in str(caught.value)
    assert stages == [False]


def test_a_fault_is_that_of_the_first_group(stages: list[bool]) -> None:
    text = TO_OWN + "s_cmp_ge_u32 s0, 2|s_cbranch_scc0 on|v_mov_b32 v5, 9|on:|flat_store_dword v[4:5], v6 offset:2048|"
    one, other = made(text + END), made(text + END)
    errors = []
    for each, threads in ((one, 2), (other, 1)):
        with pytest.raises(GuestFault) as caught:
            found(each, threads)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert stages == [False]
    assert dwords(one, 0x1000) == dwords(other, 0x1000)


def test_ctrl_c_leaves_nothing_behind(stages: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next launch is looked at as if there had been none."""
    one, reported, share = made(TO_OWN + END), list[Finding](), jit.Launch._share
    watch, engine = RaceWatch(one.memory, FindingLog(reported)), JitEngine(threads=2)
    ready = engine.prepare(replace(one, checks=Checks(watch)))

    def interrupted(launch: jit.Launch, workers: Any) -> None:
        share(launch, workers)
        raise KeyboardInterrupt

    monkeypatch.setattr(jit.Launch, "_share", interrupted)
    watch.begin()
    with pytest.raises(KeyboardInterrupt):
        ready.run()
    monkeypatch.setattr(jit.Launch, "_share", share)
    watch.begin()
    ready.run()
    assert reported == []
    assert stages == [True]


def test_what_the_host_races_with_is_the_same(stages: list[bool]) -> None:
    """Launches that it has not waited for, one of which ran side by side."""
    results = []
    for threads in (1, 2):
        one, reported = made(TO_OWN + "s_waitcnt vmcnt(0)|flat_load_dword v7, v[4:5]|" + END), list[Finding]()
        watch, engine = RaceWatch(one.memory, FindingLog(reported)), JitEngine(threads=threads)
        for _ in range(2):
            watch.begin()
            watch.launches.unseen.add(watch.launches.present.number)
            engine.run(replace(one, checks=Checks(watch)))
        for access, at in (("read", 0), ("write", 300), ("free", 700)):
            watch.host(access, DATA + at, 200)
        results.append([each.as_dict() for each in reported])
    assert results[0] == results[1]
    assert len(results[0]) >= 2
    assert all(stages)


def test_a_launch_that_is_not_alone_runs_one_after_the_other(stages: list[bool]) -> None:
    """And is held against what ran side by side before it."""
    results = []
    for threads in (1, 2):
        text = OWN + "flat_load_dword v6, v[4:5]|s_waitcnt vmcnt(0)|v_add_u32 v6, 1, v6|flat_store_dword v[4:5], v6|"
        one, reported = made(text + END), list[Finding]()
        watch, engine = RaceWatch(one.memory, FindingLog(reported)), JitEngine(threads=threads)
        for queue in (1, 2):
            watch.begin(queue, 0, {1: 1, 2: 1})
            engine.run(replace(one, checks=Checks(watch)))
        results.append([each.as_dict() for each in reported])
    assert results[0] == results[1]
    assert results[0]
    assert stages == [True]


def test_kernels_that_fail_are_not_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    due, one = Speculation.is_due, made(ALL_ONE + "flat_store_dword v[4:5], v6|" + END)
    stages = be_eager(monkeypatch)
    monkeypatch.setattr(Speculation, "is_due", due)
    found(one, launches=1 + speculation.LEAST_PAUSE)
    assert stages == [False]
    found(one, launches=2 + 3 * speculation.LEAST_PAUSE)
    assert stages == [False] * 3


@pytest.mark.parametrize("name", ["UIDS", "RANGES"])
def test_without_numbers_for_all_of_them(name: str, stages: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculation, name, layout.FIRST_UID if name == "UIDS" else 0)
    assert found(made(TO_OWN + END))[0] == []
    assert stages == [False]


def test_without_room_for_what_was_there_before(stages: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculation, "SAVED_BYTES", 0)
    assert found(made(TO_OWN + END))[0] == []
    assert stages == [False]


@pytest.mark.parametrize("fewest", [0, 1])
def test_without_addresses_for_it(fewest: int, stages: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """At all, or for more than one thread."""
    parts = list[object]()

    def limited(sizes: tuple[int, ...] = tables.CELLS) -> tables.Tables:
        parts.append(None)
        if len(parts) > fewest:
            raise NoHostMemory("no room")
        return tables.Tables(sizes)

    monkeypatch.setattr(speculation, "Tables", limited)
    monkeypatch.setattr(speculation, "Ram", Ram if fewest else _no_room)
    assert found(made(TO_OWN + END))[0] == []
    assert stages == []


def _no_room(size: int) -> Ram:
    raise NoHostMemory(f"no room for {size} bytes")


def test_cells_are_given_back(stages: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "WORTH", 0)
    monkeypatch.setattr(speculation, "WORTH", 0)
    reported, watch = found(made(TO_OWN + END), launches=3)
    assert reported == []
    assert stages == [True] * 3
    assert watch.speculation is not None
    watch.forget()
    assert not any(part.tables.is_large for part in watch.speculation.parts(2))
