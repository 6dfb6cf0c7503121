"""The JIT engine: the same results, counts and faults as the reference, in every tier and width, on threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault, GuestFault, ModelBug, SoftcardError
from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch, StepLimit
from softcard.engine.gcn.jit.layout import chunk_lanes
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import HOT, POLL_SECONDS, JitEngine
from softcard.engine.gcn.tiered.translation import Tier, Translation
from softcard.ir import llvm
from softcard.ir.background import BACKGROUND, Task
from softcard.ir.compile_process import PROCESS
from softcard.ir.object_cache import ObjectCache
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import CODE, DATA, DATA_BYTES, SCRATCH, launch
from tests.engine.gcn.test_group import EXCHANGE, SPIN

WIDTHS = [lanes for lanes in (4, 8, 16) if lanes <= chunk_lanes(llvm.host_features())]
TIERS = (Tier.THREADED, Tier.OPTIMISED)

every_way = pytest.mark.parametrize(("tier", "lanes"), [(tier, lanes) for tier in TIERS for lanes in WIDTHS])


def engine(**options: Any) -> JitEngine:
    options.setdefault("threads", 1)
    return JitEngine(**options)


def same(text: str, **options: Any) -> Dispatch:
    """Run on both engines with the same outcome; the JIT's dispatch."""
    outcomes = []
    for one in (ReferenceEngine(), engine(tier=Tier.THREADED)):
        dispatch = program(text, **options)
        try:
            outcome = str(one.run(dispatch).instructions)
        except SoftcardError as error:
            outcome = f"{type(error).__name__}: {error}"
        outcomes.append((outcome, dispatch.memory.read(DATA, DATA_BYTES)))
    assert outcomes[0] == outcomes[1]
    return dispatch


STORE = f"""
v_lshlrev_b32_e32 v20, 2, v0
v_add_co_u32_e32 v20, vcc, {DATA:#x}, v20
v_mov_b32_e32 v21, 0
flat_store_dword v[20:21], v{{0}}
s_endpgm
"""


def store(register: int) -> str:
    """Store a register of every lane, and end."""
    return STORE.format(register)


@every_way
def test_barriers_and_lds(tier: Tier, lanes: int) -> None:
    dispatch = program(EXCHANGE, size=(256, 1, 1), lds_bytes=1024)
    statistics = engine(tier=tier, lanes=lanes).run(dispatch)
    assert dwords(dispatch, 256) == [n ^ 0xF0 for n in range(256)]
    assert (statistics.instructions, statistics.waves, statistics.groups) == (48, 4, 1)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_wave_may_wait_for_another(seed: int | None) -> None:
    """Its turn ends, although its loop never does."""
    engine().run(program(SPIN, size=(128, 1, 1), lds_bytes=64, seed=seed))


@every_way
def test_lanes_diverge_and_meet(tier: Tier, lanes: int) -> None:
    """Every lane counts down from its number."""
    text = """
    v_mov_b32_e32 v1, v0
    v_mov_b32_e32 v2, 0
    s_mov_b64 s[10:11], exec
    again:
    v_cmp_ne_u32_e32 vcc, 0, v1
    s_and_b64 exec, exec, vcc
    s_cbranch_execz out
    v_add_u32_e32 v2, 3, v2
    v_subrev_u32_e32 v1, 1, v1
    s_branch again
    out:
    s_mov_b64 exec, s[10:11]
    """
    dispatch = program(text + store(2))
    engine(tier=tier, lanes=lanes).run(dispatch)
    assert dwords(dispatch, 64) == [3 * n for n in range(64)]


def test_masks_are_seen_by_scalar_code_and_by_later_lanes() -> None:
    text = """
    v_cmp_lt_u32_e64 s[10:11], 20, v0
    v_cndmask_b32_e64 v1, 5, 7, s[10:11]
    s_bcnt1_i32_b64 s12, s[10:11]
    v_add_u32_e32 v1, s12, v1
    v_cmp_gt_u32_e64 s[10:11], 8, v0
    v_cndmask_b32_e64 v2, v1, 1, s[10:11]
    """
    dispatch = same(text + store(2))
    assert dwords(dispatch, 64) == [1 if n < 8 else 43 + (7 if n > 20 else 5) for n in range(64)]


def test_an_instruction_that_sees_other_lanes_sees_them_as_they_were() -> None:
    """A DPP whose source is its destination, and ds_bpermute through itself."""
    text = "v_mov_b32_e32 v1, v0 | v_mov_b32_dpp v1, v1 row_ror:1 row_mask:0xf bank_mask:0xf | s_nop 1"
    dispatch = same(text.replace("|", "\n") + store(1))
    assert dwords(dispatch, 64) == [(n & ~15) | (n + 15) % 16 for n in range(64)]
    text = "v_xor_b32_e32 v2, 63, v0 | v_lshlrev_b32_e32 v2, 2, v2 | v_mov_b32_e32 v1, v0 | ds_bpermute_b32 v1, v2, v1"
    dispatch = same(text.replace("|", "\n") + "\ns_waitcnt lgkmcnt(0)" + store(1))
    assert dwords(dispatch, 64) == [63 - n for n in range(64)]


FAR = f"v_lshlrev_b32_e32 v20, 8, v0 | v_add_co_u32_e32 v20, vcc, {DATA:#x}, v20 | v_mov_b32_e32 v21, 0"


def test_a_fault_names_the_first_lane_of_the_first_instruction_that_faults() -> None:
    """Lane 40 reads where nothing is; lane 60 would have faulted earlier in the same chunk of code."""
    text = f"""
    {FAR.replace("|", chr(10))}
    v_cmp_eq_u32_e32 vcc, 40, v0
    v_cndmask_b32_e64 v22, v21, 1, vcc
    v_cmp_eq_u32_e32 vcc, 60, v0
    v_cndmask_b32_e64 v24, v21, 2, vcc
    v_mov_b32_e32 v23, v20
    v_mov_b32_e32 v25, v24
    v_mov_b32_e32 v24, v20
    flat_load_dword v1, v[24:25]
    v_add_u32_e32 v1, 1, v1
    v_mov_b32_e32 v24, v20
    v_mov_b32_e32 v25, v22
    flat_load_dword v2, v[24:25]
    s_endpgm
    """
    same(text)
    with pytest.raises(AccessFault, match="at lane 60, at pc") as caught:
        engine().run(program(text))
    assert caught.value.address == 2 << 32 | DATA + 60 * 256


@every_way
def test_the_edge_of_plain_memory_is_reached_lane_by_lane(tier: Tier, lanes: int) -> None:
    """Memory that ends within a page: the lanes on its last page go through Python, the others do not."""
    memory = GpuMemory()
    data = np.arange(1200, dtype=np.uint32)
    memory.map(DATA, data, name="data")
    memory.map(0x30_0000, Ram(0x1000), name="results")
    text = f"""
    v_lshlrev_b32_e32 v1, 2, v0
    v_add_u32_e32 v2, {DATA + 4 * (1024 - 20):#x}, v1
    v_mov_b32_e32 v3, 0
    flat_load_dword v4, v[2:3]
    v_add_u32_e32 v4, 1, v4
    flat_store_dword v[2:3], v4
    v_cmp_lt_u32_e32 vcc, 0x406, v4
    v_cndmask_b32_e64 v5, 0, 1, vcc
    v_add_u32_e32 v2, 0x300000, v1
    flat_store_dword v[2:3], v5
    s_endpgm
    """
    dispatch = program(text, memory=memory)
    statistics = engine(tier=tier, lanes=lanes).run(dispatch)
    assert data.tolist() == [n + (1004 <= n < 1068) for n in range(1200)]
    flags = np.frombuffer(memory.read(0x30_0000, 256), np.uint32)
    assert flags.tolist() == [int(1004 + n + 1 > 1030) for n in range(64)]
    assert statistics.instructions == 11


def test_a_step_limit_is_exact() -> None:
    text = "again: | s_add_u32 s8, s8, 1 | s_branch again"
    for limit in (1, 2, 3, 1000, 70_001):
        dispatch = program(text, step_limit=limit)
        with pytest.raises(StepLimit, match=f"the wave did not end within {limit} instructions") as caught:
            engine().run(dispatch)
        with pytest.raises(StepLimit) as judged:
            ReferenceEngine().run(dispatch)
        assert str(caught.value) == str(judged.value)


def test_mode_may_change_in_the_middle() -> None:
    """Denormals are kept only between the two writes of MODE."""
    text = """
    v_mov_b32_e32 v1, 1
    v_add_f32_e32 v2, v1, v1
    s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3
    v_add_f32_e32 v3, v1, v1
    s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0
    v_add_f32_e32 v4, v1, v1
    v_lshlrev_b32_e32 v3, 8, v3
    v_lshlrev_b32_e32 v4, 16, v4
    v_or3_b32 v2, v2, v3, v4
    """
    assert dwords(same(text + store(2)), 64) == [0x200] * 64


def test_groups_run_on_threads() -> None:
    """More groups than a thread takes at once, with private memory of their own."""
    text = f"""
    v_mov_b32_e32 v4, 8
    v_mov_b32_e32 v5, 0x20000
    v_add_u32_e32 v6, s0, v0
    flat_store_dword v[4:5], v6
    s_barrier
    flat_load_dword v7, v[4:5]
    v_mov_b32_e32 v8, {DATA:#x}
    v_mov_b32_e32 v9, 0
    flat_atomic_add v[8:9], v7
    s_endpgm
    """
    count = 400
    dispatch = program(
        text,
        size=(128, 1, 1),
        groups=[(n, 0, 0) for n in range(count)],
        scratch_base=SCRATCH,
        scratch_lane_bytes=16,
        scratch_slots=8,
    )
    dispatch.memory.map(SCRATCH, Ram(0x1_0000), name="scratch")
    many = engine(threads=4)
    statistics = many.run(dispatch)
    many.close()
    assert (statistics.groups, statistics.waves) == (count, 2 * count)
    assert dwords(dispatch, 1) == [sum(128 * n + 127 * 64 for n in range(count))]


def test_the_first_group_that_fails_is_reported_whatever_the_threads_do() -> None:
    text = f"""
    s_cmp_lt_u32 s0, 37
    s_cbranch_scc1 good
    s_mov_b32 s9, 0x9999
    s_mov_b32 s8, 0
    s_load_dword s8, s[8:9], 0
    good:
    v_mov_b32_e32 v1, {DATA:#x}
    s_endpgm
    """
    dispatch = program(text, groups=[(n, 0, 0) for n in range(500)])
    many = engine(threads=4)
    for _ in range(3):
        with pytest.raises(AccessFault, match="at wave 0, at work-group 37,0,0"):
            many.run(dispatch)
    many.close()


def test_code_may_change_between_runs() -> None:
    """The same address holds another program the next time."""
    one = engine()
    first = program("v_mov_b32_e32 v1, 5" + store(1))
    one.run(first)
    second = program("v_mov_b32_e32 v1, 6" + store(1))
    one.run(second)
    assert (dwords(first, 1), dwords(second, 1)) == ([5], [6])


def test_objects_are_kept(tmp_path: Any) -> None:
    """A second engine takes the object from the folder, and a damaged file is compiled again."""
    text = "v_add_u32_e32 v1, 5, v0" + store(1)
    for _ in range(3):
        dispatch = program(text)
        engine(cache=ObjectCache(tmp_path), tier=Tier.THREADED).run(dispatch)
        assert dwords(dispatch, 64) == [n + 5 for n in range(64)]
        files = [path for path in tmp_path.iterdir() if path.is_file()]
        assert files
        for path in files:
            path.write_bytes(path.read_bytes()[:-1])


def test_hot_code_is_optimised() -> None:
    """Run often enough, optimised code takes a program over."""
    one = JitEngine(threads=1)
    dispatch = program("v_add_u32_e32 v1, 77, v0" + store(1), groups=[(n, 0, 0) for n in range(8)])
    code = one.code(dispatch.target, dispatch.memory)
    launch = one.prepare(dispatch)
    launch.run()
    assert not any(isinstance(made, Translation) for made in code.table.alive)
    one.profile(0)[0] = HOT
    deadline = time.monotonic() + 300
    while not any(isinstance(made, Translation) for made in code.table.alive):
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)
        launch.run()
    assert (code.programs[dispatch.entry, dispatch.mode].replaced, one.is_tiering_up) != ({}, True)
    assert launch.run().instructions == 8 * 6
    assert dwords(dispatch, 64) == [n + 77 for n in range(64)]
    one.close()


HOT_LOOP = "v_add_u32_e32 v1, {}, v0" + store(1)


def being_optimised(monkeypatch: pytest.MonkeyPatch, number: int) -> tuple[JitEngine, Dispatch, Task[Any]]:
    """Run code until the engine wants it optimised in the background; no thread has begun with that."""
    tasks: list[Task[Any]] = []

    def submit(work: Callable[[], Any]) -> Task[Any]:
        tasks.append(Task(work))
        return tasks[-1]

    monkeypatch.setattr(BACKGROUND, "submit", submit)
    one = JitEngine(threads=1, cache=ObjectCache())
    one.caches_programs = False
    dispatch = program(HOT_LOOP.format(number), groups=[(n, 0, 0) for n in range(8)])
    deadline = time.monotonic() + 300
    while not one.is_tiering_up:
        assert time.monotonic() < deadline
        one.profile(0)[:] = HOT
        time.sleep(POLL_SECONDS)
        one.run(dispatch)
    (task,) = one._tiering_up
    return one, dispatch, task


def test_code_that_is_gone_is_not_optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was hot, and is written over, as where a program is unloaded and another one is loaded in its place."""
    one, dispatch, task = being_optimised(monkeypatch, 11)
    other = program(HOT_LOOP.format(22), groups=[(n, 0, 0) for n in range(8)])
    dispatch.memory.write(CODE, other.memory.read(CODE, 32))
    one.run(dispatch)
    task.run()
    assert (task.failed, task.result()) == (False, None)
    for _ in range(2):
        time.sleep(POLL_SECONDS)
        assert one.run(dispatch).instructions == 8 * 6
    assert dwords(dispatch, 64) == [n + 22 for n in range(64)]
    one.close()


def test_a_failure_to_optimise_is_reported_and_harms_no_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    one, dispatch, task = being_optimised(monkeypatch, 33)
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)

    def fail(*_: object) -> bytes:
        raise ModelBug("generated code does not verify")

    monkeypatch.setattr(PROCESS, "compile_ir", fail)
    task.run()
    for _ in range(2):
        time.sleep(POLL_SECONDS)
        assert one.run(dispatch).instructions == 8 * 6
    assert dwords(dispatch, 64) == [n + 33 for n in range(64)]
    assert [str(each.exc_value) for each in reported] == ["generated code does not verify"]
    one.close()


def test_many_accesses_in_one_block_can_be_compiled() -> None:
    """LLVM's newer value numbering gave up on this with an assertion, which ends the process."""
    lines = []
    for n in range(40):
        lines.append(f"buffer_load_dword v{n % 20 + 1}, off, s[4:7], s8 offset:{n * 4}")
        lines.append(f"v_add_f32_e32 v30, v30, v{n % 20 + 1}")
        lines.append(f"buffer_store_dword v30, off, s[4:7], s8 offset:{n * 4}")
    same("\n".join([*lines, "s_endpgm"]), step_limit=1000)
    dispatch = program("\n".join([*lines, "s_endpgm"]))
    assert engine(tier=Tier.OPTIMISED).run(dispatch).instructions == 121


@pytest.mark.parametrize("words", [[0x0000_0000] * 3, [0xFFFF_FFFF], [0xBF81_0001], [0xBF82_7FFF]])
def test_bad_code_is_a_fault_on_both(words: list[int]) -> None:
    texts = []
    for one in (ReferenceEngine(), engine(tier=Tier.THREADED)):
        try:
            texts.append(str(one.run(launch(words, step_limit=1000))))
        except SoftcardError as error:
            texts.append(f"{type(error).__name__} {error}")
    assert texts[0] == texts[1]


def test_groups_without_waves_are_nothing() -> None:
    dispatch = program("s_endpgm", groups=[])
    assert engine().run(dispatch).instructions in (0, 1)


def test_a_trap_is_a_fault_where_nobody_handles_it() -> None:
    with pytest.raises(GuestFault, match="at wave 0") as caught:
        engine().run(program("s_nop 0 | s_trap 2 | s_endpgm"))
    assert f"{CODE + 4:#x}" in str(caught.value)


ARRAY = 0x50_0000
COPY = f"""
v_lshlrev_b32_e32 v1, 2, v0
v_add_co_u32_e32 v1, vcc, {ARRAY:#x}, v1
v_mov_b32_e32 v2, 0
global_load_dword v3, v[1:2], off
s_waitcnt vmcnt(0)
"""


def test_memory_that_moved_is_found_anew() -> None:
    """Accesses remember where memory lay."""
    dispatch = program(COPY + store(3))
    launch = engine(tier=Tier.THREADED).prepare(dispatch)
    for value in (5, 6):
        ram = Ram(4096)
        np.frombuffer(ram.view, np.uint32)[:] = value
        dispatch.memory.map(ARRAY, ram)
        launch.run()
        assert dwords(dispatch, 64) == [value] * 64
        dispatch.memory.unmap(ARRAY)
    with pytest.raises(AccessFault, match="no memory there"):
        launch.run()


def test_memory_that_became_read_only_is_not_stored_to() -> None:
    text = COPY.replace("global_load_dword v3, v[1:2]", "global_store_dword v[1:2], v0")
    dispatch = program(text + "s_endpgm")
    launch = engine(tier=Tier.THREADED).prepare(dispatch)
    ram = Ram(4096)
    array = np.frombuffer(ram.view, np.uint32)
    dispatch.memory.map(ARRAY, ram)
    launch.run()
    assert array[:64].tolist() == list(range(64))
    dispatch.memory.unmap(ARRAY)
    dispatch.memory.map(ARRAY, ram, writable=False)
    array[:] = 0
    with pytest.raises(AccessFault, match="read-only"):
        launch.run()
    assert not array.any()


THREE = [(0, 0, 0), (1, 0, 0), (2, 0, 0)]


@pytest.mark.parametrize("first_insn", ["s_nop 0", "s_sethalt 0"])
@every_way
def test_every_wave_begins_with_the_first_scalars(tier: Tier, lanes: int, first_insn: str) -> None:
    """Waves change them before they end: in translated code, and in steps of the reference engine."""
    text = f"""
    {first_insn}
    v_mov_b32_e32 v3, s2
    s_add_i32 s2, s2, 5
    s_cmp_eq_u32 s8, 1
    s_cbranch_scc0 on
    s_sethalt 0
    on:
    v_lshl_add_u32 v20, s8, 6, v0
    v_lshlrev_b32_e32 v20, 2, v20
    v_add_co_u32_e32 v20, vcc, {DATA:#x}, v20
    v_mov_b32_e32 v21, 0
    flat_store_dword v[20:21], v3
    s_endpgm
    """
    dispatch = program(text, groups=THREE, sgprs=np.zeros(3, np.uint32), group_id_sgprs=(8, -1, -1))
    launch = engine(tier=tier, lanes=lanes).prepare(dispatch)
    for first in (7, 8):
        launch.run(np.array([0, 0, first], np.uint32))
        assert dwords(dispatch, 192) == [first] * 192


@every_way
def test_registers_that_were_never_written_hold_the_poison_in_every_wave(tier: Tier, lanes: int) -> None:
    """The code reads v9 and then writes it, for the next wave in the same place to find."""
    text = "v_mov_b32_e32 v3, v9 | v_mov_b32_e32 v9, 1 | s_sethalt 0 | v_add_u32_e32 v3, v9, v3 |"
    dispatch = program(text + store(3), poison=0x1234, groups=THREE)
    engine(tier=tier, lanes=lanes).run(dispatch)
    assert dwords(dispatch, 64) == [0x1235] * 64


@every_way
def test_lanes_outside_of_exec_keep_what_they_hold(tier: Tier, lanes: int) -> None:
    """Where somebody reads it: under another EXEC, or from another lane."""
    text = """
    v_mov_b32_e32 v3, 1
    s_mov_b64 exec, 0xf0f0
    v_mov_b32_e32 v3, v0
    s_mov_b64 exec, -1
    v_readlane_b32 s4, v3, 3
    v_add_u32_e32 v3, s4, v3
    """
    dispatch = program(text + store(3))
    engine(tier=tier, lanes=lanes).run(dispatch)
    assert dwords(dispatch, 64) == [(n if 0xF0F0 >> n & 1 else 1) + 1 for n in range(64)]


PRIVATE_STORE = "v_mov_b32_e32 v4, 8 | v_mov_b32_e32 v5, 0x20000 | flat_store_dword v[4:5], v0"
"""Every lane's number to its private byte 8; the aperture is what a dispatch has by itself."""
ELSEWHERE = DATA + 0x4000
FORMS = {
    "gfx900": "s_mov_b32 flat_scratch_lo, {0} | s_mov_b32 flat_scratch_hi, 0",
    "gfx803": "s_mov_b32 flat_scratch_hi, ({0}-0x10000)>>8 | s_mov_b32 flat_scratch_lo, 64",
    "gfx700": "s_mov_b32 flat_scratch_hi, ({0}-0x10000)>>8 | s_mov_b32 flat_scratch_lo, 64",
}
every_gpu = pytest.mark.parametrize("gpu", FORMS)


def flat_scratch(gpu: str, address: int) -> str:
    """Have FLAT_SCRATCH say that private memory lies at an address; the hidden base is 0x10000."""
    text = FORMS[gpu].replace("({0}-0x10000)>>8", f"{(address - 0x10000) >> 8:#x}")
    return text.format(f"{address:#x}")


def private(text: str, gpu: str) -> Dispatch:
    """The program on both engines, with 16 private bytes for each lane."""
    return same(text + "| s_endpgm", name=gpu, scratch_lane_bytes=16, scratch_slots=1, hidden_private_base=0x10000)


def lanes_at(dispatch: Dispatch, address: int) -> list[int]:
    """The dwords at private byte 8 of every lane."""
    return np.frombuffer(dispatch.memory.read(address + 512, 256), np.uint32).tolist()


@every_gpu
def test_private_memory_lies_where_flat_scratch_says(gpu: str) -> None:
    """In one go at two places: helpers see the registers as they are at the time."""
    text = "|".join([flat_scratch(gpu, DATA), PRIVATE_STORE, flat_scratch(gpu, ELSEWHERE), PRIVATE_STORE])
    dispatch = private(text, gpu)
    assert lanes_at(dispatch, DATA) == lanes_at(dispatch, ELSEWHERE) == list(range(64))


@every_gpu
def test_private_memory_that_flat_scratch_does_not_name_is_a_fault(gpu: str) -> None:
    dispatch = program(PRIVATE_STORE + "| s_endpgm", gpu, scratch_lane_bytes=16, scratch_slots=1, hidden_private_base=0)
    message = "no memory there, .*, at private memory where FLAT_SCRATCH says" if gpu == "gfx900" else "a lane has 0x0 "
    with pytest.raises(AccessFault, match=message):
        engine().run(dispatch)


def test_a_lane_has_no_more_private_memory_than_flat_scratch_says() -> None:
    text = flat_scratch("gfx803", DATA).replace("flat_scratch_lo, 64", "flat_scratch_lo, 8")
    dispatch = program(
        f"{text} | {PRIVATE_STORE} | s_endpgm", "gfx803", scratch_lane_bytes=16, scratch_slots=1, hidden_private_base=0
    )
    with pytest.raises(AccessFault, match=r"a lane has 0x8 bytes of private memory \(from FLAT_SCRATCH\)"):
        engine().run(dispatch)


@pytest.mark.parametrize("lanes", WIDTHS)
def test_a_known_number_is_a_float_in_several_strips(lanes: int) -> None:
    """What it is as a float is made anew in each: chunks without lanes leave out what is in the first."""
    text = """
s_mov_b32 s20, 0x40490fdb
v_cvt_f32_u32_e32 v1, v0
s_mov_b32 exec_lo, 0x8000
s_mov_b32 exec_hi, 0
v_mul_f32 v2, s20, v1
s_mov_b64 exec, -1
v_add_f32 v3, s20, v1
"""
    made = [program(text + store(3), "gfx900") for _ in range(2)]
    for one, dispatch in zip((ReferenceEngine(), engine(tier=Tier.OPTIMISED, lanes=lanes)), made, strict=True):
        one.run(dispatch)
    assert dwords(made[0], 64) == dwords(made[1], 64)
