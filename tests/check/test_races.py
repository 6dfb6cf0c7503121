"""The check of races: what orders accesses and what does not, how it is told, and that no result is another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.amdcl2 import load
from softcard.core.diagnostics import of_finding
from softcard.core.errors import BeyondModel, WireError
from softcard.core.findings import Finding, FindingError, FindingLog, Level
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races import events as module
from softcard.engine.gcn.races import layout, tables
from softcard.engine.gcn.races.reporter import IN_COMPILED_CODE
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.host.amdcl2.demo import demo_program
from softcard.host.hsa.gpu import Gpu, demo_code
from softcard.report.diagnostic_formats import to_sarif
from tests.device.hsa.rig import Bench, barrier, dispatch
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.races.eager import be_eager

STORE = "v_mov_b32 v0, s0|v_mov_b32 v1, s1|v_mov_b32 v2, {}|flat_store_dword v[0:1], v2|s_endpgm"
PLACE = "s_mov_b32 s4, 0x200000|s_mov_b32 s5, 0|v_mov_b32 v4, s4|v_mov_b32 v5, s5|"
"""s[4:5] and v[4:5]: the address of the data."""


def watched(
    text: str, name: str = "gfx803", size: int = 128, groups: int = 1, equal_stores: bool = False, **options: Any
) -> list[Finding]:
    """The findings of a program in assembly text, on either engine; it leaves what it leaves without the check."""
    options |= {"groups": [(n, 0, 0) for n in range(groups)], "size": (size, 1, 1)}
    plain = program(text + "|s_endpgm", name, **options)
    ReferenceEngine().run(plain)
    reported = []
    for engine in (ReferenceEngine(), JitEngine()):
        made, found = program(text + "|s_endpgm", name, **options), list[Finding]()
        watch = RaceWatch(made.memory, FindingLog(found), equal_stores)
        watch.begin()
        engine.run(replace(made, checks=Checks(watch)))
        assert dwords(made, 256) == dwords(plain, 256)
        reported.append(found)
    assert [each.as_dict() for each in reported[0]] == [each.as_dict() for each in reported[1]]
    return reported[0]


def kinds(text: str, **options: Any) -> list[str]:
    return [each.kind for each in watched(text, **options)]


# ---- within a launch -----------------------------------------------------------------------------------------------

WAVE = "s_mov_b32 m0, -1|v_readfirstlane_b32 s8, v0|v_mov_b32 v2, s8|"
"""v2: 0 in the first wave, 64 in the second."""


def test_both_accesses_are_named() -> None:
    (found,) = watched(WAVE + PLACE + "v_add_u32 v2, vcc, 1, v2|flat_store_dword v[4:5], v2")
    assert (found.name, found.level, found.access, found.space) == ("races/write-write", Level.ERROR, "write", "global")
    assert found.message == (
        "write of 4 bytes at 0x200000 in data and a write of the same bytes by waves of a work-group without a "
        "happens-before order"
    )
    assert (found.lanes, found.unit, found.group, found.address) == (tuple(range(64)), "wave 1", "0,0,0", 0x200000)
    assert found.insn == "flat_store_dword v[4:5], v2"
    assert found.other == f"pc {found.pc:#x} (flat_store_dword v[4:5], v2), lane 63, wave 0, work-group 0,0,0"
    assert found.suggestion == "add a barrier between the accesses, or use atomics"
    assert found.count == 64


def test_registers_of_the_later_access() -> None:
    """The reference engine keeps them; the JIT engine says why it does not."""
    text = "v_mov_b32 v0, 0x200000|v_mov_b32 v1, 0|v_mov_b32 v2, s0|flat_store_dword v[0:1], v2|s_endpgm"
    shown = []
    for engine in (ReferenceEngine(), JitEngine()):
        made, found = program(text, "gfx803", groups=[(0, 0, 0), (1, 0, 0)], size=(64, 1, 1)), list[Finding]()
        watch = RaceWatch(made.memory, FindingLog(found))
        watch.begin()
        engine.run(replace(made, checks=Checks(watch)))
        shown.append(of_finding(found[0]))
    held = shown[0].registers
    assert held is not None
    assert (held.scalars, held.vectors) == ({"exec": (1 << 64) - 1}, {"v0": 0x200000, "v1": 0, "v2": 1})
    assert (held.lane, shown[0].no_registers) == (0, "")
    assert (shown[1].registers, shown[1].no_registers) == (None, IN_COMPILED_CODE)


def test_stores_of_what_is_there_already_are_reported_where_that_is_asked_for() -> None:
    text = PLACE + "v_mov_b32 v2, 7|flat_store_dword v[4:5], v2"
    assert kinds(text) == kinds(text, groups=2, size=64) == []
    assert kinds(text, equal_stores=True) == ["write-write"]
    with pytest.raises(WireError, match="equal_stores requires check='races'"):
        Gpu.open("gfx900", check="memory", equal_stores=True)
    for opened in (
        Gpu.open("gfx900", check="races", equal_stores=True),
        load(demo_program("tonga", 200406), check="races", equal_stores=True),
    ):
        with opened:
            watch = opened.device.checks.find(RaceWatch)
            assert watch is not None
            assert watch.equal_stores


def test_bytes_of_one_dword_are_neighbours() -> None:
    own = WAVE + "v_and_b32 v6, 1, v0|v_cmp_eq_u32 vcc, 0, v6|"
    half = "v_lshrrev_b32 v6, 6, v0|v_add_u32 v4, vcc, v6, v4|flat_store_byte v[4:5], v0"
    assert kinds(own + PLACE + half) == []
    assert kinds(own + PLACE + half.replace("byte", "short")) == ["write-write"]


USE = "v_cmp_eq_u32 vcc, 0, {0}|s_cbranch_vccz on|on:"
"""A branch that uses a register. The check reports a racing load only if the kernel uses the loaded value."""
OWN = WAVE + "v_lshlrev_b32 v3, 2, v0|v_xor_b32 v7, 0x100, v3|"
"""v3: a place of a work-item's own in LDS, v7: that of one in the other wave."""
ONE = WAVE + "v_mov_b32 v3, 0|v_mov_b32 v7, 0|"


@pytest.mark.parametrize(("body", "kind"), [
    (OWN + "ds_write_b32 v3, v0|{}|ds_read_b32 v6, v7", "read-write"),
    (OWN + "ds_read_b32 v6, v3|" + USE.format("v6") + "|{}|ds_write_b32 v7, v0", "write-read"),
    (OWN + "ds_write_b32 v3, v0|{}|ds_write_b32 v7, v2", "write-write"),
    (OWN + "ds_write_b32 v3, v0|{}|ds_add_u32 v7, v2", "atomic-write"),
    (ONE + "ds_add_u32 v3, v2|{}|ds_read_b32 v6, v7", "read-atomic"),
])  # fmt: skip
def test_a_barrier_orders_what_waves_do_before_and_behind_it(body: str, kind: str) -> None:
    assert kind in kinds(body.format("s_nop 0"), lds_bytes=1024)
    assert kinds(body.format("s_waitcnt lgkmcnt(0)|s_barrier"), lds_bytes=1024) == []


@pytest.mark.parametrize("first", [0, 64])
def test_a_barrier_opens_behind_a_wave_that_ends_instead_of_coming_to_it(first: int) -> None:
    """Whether it ends before others come there or behind that."""
    ends = PLACE + "flat_store_dword v[4:5], v0|s_endpgm"
    comes = "other:|s_barrier|" + PLACE + "flat_load_dword v6, v[4:5]"
    assert kinds(WAVE + f"s_cmp_eq_u32 s8, {first}|s_cbranch_scc0 other|{ends}|{comes}") == []


def test_a_wave_that_runs_ahead_and_ends_is_ordered_by_no_later_barrier() -> None:
    ahead = WAVE + "s_barrier|" + PLACE + "v_add_u32 v2, vcc, 1, v2|flat_store_dword v[4:5], v2"
    assert kinds(ahead) == ["write-write"]


def test_atomics_do_not_race_but_with_other_accesses() -> None:
    add = PLACE + "v_mov_b32 v2, 1|flat_atomic_add v[4:5], v2"
    assert kinds(add, groups=3) == []
    assert kinds(add + "|flat_load_dword v6, v[4:5]", groups=2, size=64) == ["read-atomic"]
    assert kinds(add + "|flat_load_dword v6, v[4:5] glc", groups=2, size=64) == []


PASS = """
v_mov_b32 v2, 1
s_cmp_eq_u32 s0, 0
s_cbranch_scc0 reads
flat_store_dword v[4:5], v2
{}
flat_atomic_or v[8:9], v2
s_endpgm
reads:
flat_atomic_or v6, v[8:9], v2 glc
s_waitcnt vmcnt(0)
{}
flat_load_dword v7, v[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32 vcc, 0, v7
s_cbranch_vccz on
on:
"""
"""The first work-group stores and sets a flag, the others read the flag and what was stored."""


@pytest.mark.parametrize(("wait", "invalidate", "expected"), [
    ("s_waitcnt vmcnt(0)", "buffer_wbinvl1_vol", []),
    ("s_nop 0", "buffer_wbinvl1_vol", ["write-read"]),
    ("s_waitcnt vmcnt(0)", "s_nop 0", ["write-read"]),
])  # fmt: skip
def test_a_release_and_an_acquire_order_work_groups(wait: str, invalidate: str, expected: list[str]) -> None:
    """Neither the wait before the flag nor the invalidation behind it can be missing."""
    one = "s_mov_b64 exec, 1|" + PLACE + "v_add_u32 v8, vcc, 64, v4|v_mov_b32 v9, v5|"
    text = one + PASS.format(wait, invalidate).strip().replace("\n", "|")
    found = watched(text, groups=3, size=64)
    assert [each.kind for each in found] == expected
    assert all(
        each.suggestion
        == "add a release and an acquire between the accesses, use atomics, or split the kernel into two"
        for each in found
    )


NEW_PASS = PASS.replace("flat_atomic_or v6, v[8:9], v2 glc", "flat_atomic_or v6, v[8:9], v2 {}")


@pytest.mark.parametrize(("name", "returned", "wait", "invalidate", "expected"), [
    ("gfx90a", "glc", "s_waitcnt vmcnt(0)", "buffer_wbinvl1_vol", []),
    ("gfx90a", "glc", "s_waitcnt vmcnt(0)", "buffer_invl2", ["write-read"]),
    ("gfx90a", "glc", "buffer_wbl2", "buffer_wbinvl1_vol", ["write-read"]),
    ("gfx942", "sc0", "buffer_wbl2 sc1|s_waitcnt vmcnt(0)", "buffer_inv sc1", []),
    ("gfx942", "sc0", "buffer_wbl2 sc0 sc1|s_waitcnt vmcnt(0)", "buffer_inv sc0 sc1", []),
    ("gfx942", "sc0", "buffer_wbl2 sc1|s_waitcnt vmcnt(0)", "buffer_inv sc0", ["write-read"]),
    ("gfx942", "sc0", "s_waitcnt vmcnt(0)", "buffer_inv sc1", ["write-read"]),
    ("gfx942", "sc0", "buffer_wbl2 sc0|s_waitcnt vmcnt(0)", "buffer_inv sc1", ["write-read"]),
    ("gfx942", "sc0", "s_waitcnt vmcnt(0)|buffer_wbl2 sc1", "buffer_inv sc1", ["write-read"]),
    ("gfx950", "sc0", "buffer_wbl2 sc1|s_waitcnt vmcnt(0)", "buffer_inv sc1", []),
    ("gfx950", "sc0", "s_waitcnt vmcnt(0)", "buffer_inv sc1", ["write-read"]),
])  # fmt: skip
def test_scopes_of_cache_operations(name: str, returned: str, wait: str, invalidate: str, expected: list[str]) -> None:
    """Between work-groups only operations with the scope of the agent count, and write-backs that were waited for."""
    one = "s_mov_b64 exec, 1|" + PLACE + "v_add_u32 v8, 64, v4|v_mov_b32 v9, v5|"
    text = one + NEW_PASS.format(wait, returned, invalidate).strip().replace("\n", "|")
    assert [each.kind for each in watched(text, name, groups=3, size=64)] == expected


@pytest.mark.parametrize(("flags", "expected"), [("", 1), ("sc0", 1), ("sc1", 0), ("sc0 sc1", 0)])
def test_coherent_loads_of_gfx942(flags: str, expected: int) -> None:
    """A load with the scope of the agent is atomic: it does not race with atomics of other work-groups."""
    add = PLACE + f"v_mov_b32 v2, 1|flat_atomic_add v[4:5], v2|flat_load_dword v6, v[4:5] {flags}"
    assert kinds(add, name="gfx942", groups=2, size=64) == ["read-atomic"] * expected


def test_private_memory_is_no_matter() -> None:
    """Waves of different work-groups have it one after another."""
    text = "v_mov_b32 v4, 0|v_mov_b32 v5, 0x20000|v_mov_b32 v2, s0|flat_store_dword v[4:5], v2"
    scratch = {"scratch_base": 0x20_8000, "scratch_lane_bytes": 16, "scratch_slots": 4}
    assert kinds(text, groups=2, **scratch) == []


def test_many_accesses_between_two_waits() -> None:
    """More than translated code looks at in one go."""
    loads = "|".join(f"flat_load_ubyte v{n}, v[4:5]" for n in range(10, 90))
    uses = "|".join(f"v_xor_b32 v2, v{n}, v2" for n in range(10, 90))
    assert kinds(f"{WAVE}{PLACE}{loads}|{uses}|flat_store_byte v[4:5], v2") == ["write-read"] * 80 + ["write-write"]


SCATTER = "v_mul_u32_u24 v3, 37, v0|v_and_b32 v3, 0xfc, v3|"
"""v3: offsets of dwords, some of them twice."""
LATER = "s_waitcnt lgkmcnt(0)|s_barrier|v_lshlrev_b32 v7, 2, v0|ds_write_b32 v7, v0|s_waitcnt lgkmcnt(0)|s_barrier|"


@pytest.mark.parametrize("name", ["gfx803", "gfx900"])
@pytest.mark.parametrize("accesses", [
    "|".join(f"ds_read_b32 v{n + 10}, v7 offset:{4 * (n % 64)}" for n in range(80)),
    "|".join(f"ds_read2_b32 v[10:11], v8 offset0:{n} offset1:{n + 7}" for n in range(9)),
    SCATTER + "ds_read_b32 v10, v3|ds_read_u8 v11, v3 offset:1|ds_read_b32 v12, v3 offset:64",
    SCATTER + "v_add_u32 v4, {}s4, v3|flat_load_dword v10, v[4:5]|flat_load_ubyte v11, v[4:5]",
    "s_mov_b32 exec_lo, 0xff|ds_read2_b32 v[10:11], v7 offset0:3|ds_write_b32 v7, v10",
], ids=["many", "one place", "LDS", "global", "some lanes"])  # fmt: skip
def test_machine_code_checks_all_of_it(name: str, accesses: str) -> None:
    """Nothing is left to Python: each loop but the first looks in line, or by one function for all lanes."""
    loop = f"s_mov_b32 s20, 3|again:|{LATER}{accesses}|s_mov_b64 exec, -1|s_sub_u32 s20, s20, 1|s_cmp_lg_u32 s20, 0|"
    text = WAVE + PLACE + "v_mov_b32 v8, 0|" + loop.format("vcc, " if name == "gfx803" else "") + "s_cbranch_scc1 again"
    made, found = program(text + "|s_endpgm", name, size=(64, 1, 1), lds_bytes=1024), list[Finding]()
    watch = RaceWatch(made.memory, FindingLog(found))
    watch.begin()
    assert JitEngine(threads=1).run(replace(made, checks=Checks(watch))).interpreted == 0
    assert found == []


def test_too_many_accesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS", 1)
    made = program(PLACE + "flat_load_dword v6, v[4:5]|s_endpgm", size=(128, 1, 1))
    watch = RaceWatch(made.memory, FindingLog([]))
    watch.launches.unseen.add(0)  # the host has not waited for all that ran before
    for _ in range(2):
        watch.begin()
        with pytest.raises(
            BeyondModel,
            match=r"check 'races' supports launches with at most 1 different accesses \(counted by wave and pc\)",
        ):
            ReferenceEngine().run(replace(made, checks=Checks(watch)))
    monkeypatch.undo()
    watch.begin()
    ReferenceEngine().run(replace(made, checks=Checks(watch)))


@pytest.mark.parametrize(("name", "value", "text"), [
    ("next_uid", layout.UIDS - 1, "4194304 waves"),
    ("range_count", layout.RANGES, "4194304 waves"),
    ("bound_count", layout.UIDS, "4194304 waves"),
    ("page_count", layout.PAGES, "2097152 pages of memory"),
    ("end", 0, "the accesses that fit in its shadow memory"),
    ("site_count", layout.SITES, "16384 instructions that access memory"),
    ("report_count", layout.REPORTS // 2, "4096 pairs of instructions that race"),
    ("full", layout.NO_EPOCHS, "1048576 barriers and releases of a wave"),
])  # fmt: skip
def test_what_there_is_no_room_for(name: str, value: int, text: str) -> None:
    body = "s_barrier|" + WAVE + PLACE + "v_mov_b32 v2, s0|flat_store_dword v[4:5], v2|flat_store_dword v[4:5], v0"
    made = program(body + "|s_endpgm", "gfx803", size=(128, 1, 1))
    found: list[Finding] = []
    watch = RaceWatch(made.memory, FindingLog(found))
    watch.begin()
    setattr(watch.native.race, name, value)
    with pytest.raises(BeyondModel, match=f"^check 'races' supports launches with at most {text}"):
        JitEngine(threads=1).run(replace(made, checks=Checks(watch)))
    found.clear()
    for queue in (0, 1):  # the next launches have room again, and what they do is found
        watch.begin(queue, 1, {queue: 1, 0: 5, 1: 5})
        JitEngine(threads=1).run(replace(made, checks=Checks(watch)))
        assert [each.name for each in found][:1] == ["races/write-write"]


def test_memory_of_the_check_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between launches, and nothing is told that was not."""
    monkeypatch.setattr(tables, "WORTH", 0)
    made, reported = program(WAVE + PLACE + "flat_store_dword v[4:5], v2|s_endpgm", "gfx803", size=(128, 1, 1)), []
    watch = RaceWatch(made.memory, FindingLog(reported))
    for run in (1, 2, 3):
        watch.begin()
        JitEngine(threads=1).run(replace(made, checks=Checks(watch)))
        assert [each.count for each in reported] == [64 * run]
        assert watch.native.race.next_uid == layout.FIRST_UID + 2


# ---- packets -------------------------------------------------------------------------------------------------------


def of_packets(*barriers: int, between: bytes = b"", at_once: bool = True) -> list[str]:
    """Kernels that store different values in one place, by packets with and without the barrier bit."""
    rig = Bench(check="races")
    address, _ = rig.words()
    packets = []
    for number, bit in enumerate(barriers):
        packet = bytearray(dispatch(rig.kernel(STORE.format(number + 1).replace("|", "\n")), address))
        packet[1] |= bit
        packets += [between, bytes(packet)] if number and between else [bytes(packet)]
    if at_once:
        rig.queue.submit(*packets)
    else:
        for packet in packets:
            rig.queue.submit(packet)
    assert rig.errors == []
    found = [f"{each.kind}: {each.message.partition(' and ')[2]}: {each.suggestion}" for each in rig.device.findings]
    rig.device.close()
    return found


def test_packets_without_the_barrier_bit_are_in_no_order() -> None:
    assert of_packets(0, 0) == [
        "write-write: a write of the same bytes by kernels of queue 0 without a happens-before order: "
        "set the barrier bit of the second packet, or wait for the completion signal of the first kernel"
    ]
    assert of_packets(0, 1) == []
    assert of_packets(1, 0) != []
    assert len(of_packets(0, 1, 0)) == 1


def test_what_was_submitted_later_may_have_been_waited_for() -> None:
    assert of_packets(0, 0, at_once=False) == []


def test_what_ran_before_a_state_was_restored_is_over() -> None:
    rig = Bench(check="races")
    address, _ = rig.words()
    first, second = (rig.kernel(STORE.format(number).replace("|", "\n")) for number in (1, 2))
    state = rig.device.snapshot()
    for _ in range(2):
        rig.queue.submit(dispatch(first, address))
        rig.queue.submit(dispatch(second, address))
        rig.device.restore(state)
    rig.queue.submit(dispatch(first, address), dispatch(rig.kernel("s_endpgm"), address))
    rig.device.restore(state)
    rig.queue.submit(dispatch(second, address))
    assert rig.device.findings == []
    rig.device.close()


@pytest.mark.parametrize("waits", [False, True])
def test_queues_are_in_no_order_but_by_signals(waits: bool) -> None:
    rig = Bench(check="races", execution="manual")
    other, (address, _) = rig.new_queue(), rig.words()
    done = rig.device.create_signal(1)
    first, second = (rig.kernel(STORE.format(number).replace("|", "\n")) for number in (1, 2))
    rig.queue.submit(dispatch(first, address, done))
    other.submit(*([barrier(done, bit=1)] if waits else []), dispatch(second, address))
    rig.device.process(10)
    assert done.load() == 0
    assert [each.kind for each in rig.device.findings] == ([] if waits else ["write-write"])
    rig.device.close()


def test_packets_behind_a_barrier_packet_are_ordered() -> None:
    assert of_packets(0, 0, between=barrier()) == []


# ---- devices -------------------------------------------------------------------------------------------------------


def test_a_race_is_counted_in_each_run_and_reported_once() -> None:
    rig = Bench(check="races")
    address, _ = rig.words()
    text = "v_readfirstlane_b32 s4, v0|" + STORE.format("s4")
    kernel = rig.kernel(text.replace("|", "\n"))
    for run in (1, 2, 3):
        rig.queue.submit(dispatch(kernel, address, workgroup_size_x=128, grid_size_x=128))
        assert [each.count for each in rig.device.findings] == [64 * run]
    rig.device.close()


def test_the_first_one_ends_the_kernel_where_that_is_asked_for() -> None:
    rig = Bench(check="races", on_finding="raise")
    address, words = rig.words()
    packets = (dispatch(rig.kernel(STORE.format(number).replace("|", "\n")), address) for number in (1, 2))
    rig.queue.submit(*packets)
    [(_, error)] = rig.errors
    assert isinstance(error, FindingError)
    assert words[0] == 1
    rig.device.close()


def test_findings_go_into_files_and_are_suppressed_as_others() -> None:
    (found,) = watched(WAVE + PLACE + "v_add_u32 v2, vcc, 1, v2|flat_store_dword v[4:5], v2")
    (result,) = to_sarif(Path("k.co"), [of_finding(found)], "1")["runs"][0]["results"]
    assert result["ruleId"] == "races/write-write"
    assert found.as_dict()["other"] == found.other
    assert found.matches(("races/*",))


def test_with_the_check_of_memory_the_allocation_is_named() -> None:
    rig = Bench(check="memory,races")
    address, _ = rig.words()
    packets = (dispatch(rig.kernel(STORE.format(number).replace("|", "\n")), address) for number in (1, 2))
    rig.queue.submit(*packets)
    (found,) = rig.device.findings
    assert found.allocation is not None
    assert (found.allocation.base, found.allocation.size) == (address, 256)
    rig.device.close()


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_right_programs_have_no_findings_and_the_same_results(engine: str) -> None:
    results = []
    for check in ("", "races,waits,memory,init,fidelity"):
        with Gpu.open("gfx900", check=check, engine=engine, threads=1) as gpu:
            x, y = gpu.array(np.arange(200, dtype=np.float32)), gpu.zeros(200)
            result = gpu.run(demo_code(), "saxpy", 200, args=[2.0, x, y])
            assert gpu.findings == []
            assert result.interpreted == (0 if engine == "jit" else result.instructions)
            results.append((y.tobytes(), result.instructions))
    assert results[0] == results[1]


def test_opencl_programs() -> None:
    with load(demo_program("tonga", 200406), check="races") as loaded:
        assert loaded.findings == []
        assert "JIT" in repr(loaded.device.engine)
    with load(demo_program("tonga", 200406), check="races", count_instructions=True) as loaded:
        assert "reference" in repr(loaded.device.engine)


def test_launches_of_hosts_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all checks, too."""
    stages, x, y = be_eager(monkeypatch), np.arange(4096, dtype=np.float32), np.ones(4096, np.float32)
    with Gpu.open("gfx900", check="all", threads=2) as gpu:
        for _ in range(2):
            gpu.run(demo_code("gfx900"), "saxpy", len(x), 64, args=[2.0, x, y])
        assert gpu.findings == []
    assert stages
    assert all(stages)
    assert np.array_equal(y, 1 + 4 * x)
