"""Retired instructions: both engines count what a hook that hears of every instruction counts, whatever happens."""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np
import pytest

from softcard.core.errors import GuestFault
from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch, StepLimit
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.host.hsa.gpu import Gpu, demo_code
from tests.engine.gcn.jit.test_jit import engine
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import DATA

EDGE: Final = 0x30_0000
"""Memory that is no whole page: accesses there leave translated code amid a segment."""
PLAIN: Final = (
    ("v_add_u32_e32 v1, 1, v1", "v_xor_b32_e32 v2, v1, v0"),
    ("s_add_u32 s20, s20, 1", "s_nop 0"),
    ("flat_load_dword v3, v[20:21]", "v_add_u32_e32 v4, v3, v4", "s_waitcnt vmcnt(0)"),
    ("flat_store_dword v[22:23], v1",),
    ("flat_load_dword v3, v[22:23]", "flat_store_dword v[22:23], v3"),
    ("flat_atomic_add v[22:23], v0",),
    ("ds_write_b32 v24, v1", "ds_read_b32 v5, v24", "s_waitcnt lgkmcnt(0)"),
    ("s_sethalt 0",),
    ("s_sleep 1",),
    ("s_setprio 1",),
    ("s_memtime s[24:25]", "s_waitcnt lgkmcnt(0)"),
    ("v_readfirstlane_b32 s21, v1",),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0"),
    ("s_getpc_b64 s[26:27]", "s_add_u32 s26, s26, 16", "s_addc_u32 s27, s27, 0", "s_setpc_b64 s[26:27]", "s_nop 0"),
    ("s_barrier",),
    (
        "s_mov_b64 s[28:29], exec",
        "s_mov_b64 exec, 0",
        "v_add_u32_e32 v1, 1, v1",
        "s_nop 0",
        "flat_load_dword v3, v[22:23]",
        "s_waitcnt vmcnt(0)",
        "s_sethalt 0",
        "v_mov_b32_e32 v2, v1",
        "s_mov_b64 exec, s[28:29]",
    ),
    ("s_and_b32 s30, s8, 1", "s_cmp_eq_u32 s30, 0", "s_cbranch_scc1 1", "s_nop 0", "s_cbranch_execz 0"),
    ("s_movk_i32 s30, 1", "s_set_gpr_idx_on s30, 1", "v_mov_b32_e32 v2, v1", "s_set_gpr_idx_off"),
)
START: Final = f"""
v_lshlrev_b32_e32 v20, 2, v0
v_add_co_u32_e32 v22, vcc, {EDGE:#x}, v20
v_add_co_u32_e32 v20, vcc, {DATA:#x}, v20
v_mov_b32_e32 v21, 0
v_mov_b32_e32 v23, 0
v_lshlrev_b32_e32 v24, 2, v0
"""


def random_text(chance: random.Random) -> str:
    """Loops in loops, the same number of rounds for every wave, so that all come to every barrier."""
    lines = [START]
    for number in range(chance.randint(1, 4)):
        outer, inner = f"o{number}", f"i{number}"
        lines += [f"s_movk_i32 s8, {chance.randint(1, 12)}", f"{outer}:"]
        lines += [line for _ in range(chance.randint(0, 3)) for line in chance.choice(PLAIN)]
        lines += [f"s_movk_i32 s9, {chance.randint(1, 30)}", f"{inner}:"]
        lines += [line for _ in range(chance.randint(0, 4)) for line in chance.choice(PLAIN)]
        for register, label in (("s9", inner), ("s8", outer)):
            lines += [f"s_sub_u32 {register}, {register}, 1", f"s_cmp_lg_u32 {register}, 0", f"s_cbranch_scc1 {label}"]
    return "\n".join([*lines, "s_endpgm"])


def made(text: str, **options: Any) -> Dispatch:
    """A dispatch with memory that begins and ends amid pages."""
    memory = GpuMemory()
    memory.map(DATA, Ram(0x1_0000), name="data")
    memory.map(EDGE, np.zeros(4 * 256 + 20, np.uint8), name="edge")
    options.setdefault("step_limit", 1_000_000)
    options.setdefault("lds_bytes", 1024)
    return program(text, memory=memory, **options)


def counted(dispatch: Dispatch) -> tuple[int, int]:
    """Instructions that a hook heard of, and what the reference engine says."""
    heard = [0]

    def hear(*_: object) -> None:
        heard[0] += 1

    reported = ReferenceEngine(hear).run(dispatch).instructions
    return heard[0], reported


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(24))
def test_both_engines_count_every_instruction_once(seed: int) -> None:
    chance = random.Random(seed)
    text = random_text(chance)
    size, groups = chance.choice((1, 64, 100, 256)), chance.choice((1, 3, 9))
    options: dict[str, Any] = {"size": (size, 1, 1), "groups": [(n, 0, 0) for n in range(groups)]}
    heard, reported = counted(made(text, **options))
    assert heard == reported
    order: dict[str, Any] = {"seed": chance.choice((None, 5)), "turn": chance.choice((1, 4096))}
    for threads, tier in ((1, Tier.THREADED), (2, Tier.OPTIMISED), (2, None)):
        one = engine(threads=threads, tier=tier)
        ready = one.prepare(made(text, **options, **order))
        assert [ready.run().instructions for _ in range(2)] == [heard] * 2
        one.close()
    reference = ReferenceEngine(counting=True)
    reference.run(made(text, **options))
    one = engine(threads=2, counting=True)
    one.run(made(text, **options, **order))
    one.close()
    assert one.instruction_counts() == reference.instruction_counts()
    assert one.executions() == reference.executions()


LOOP: Final = "s_movk_i32 s8, 100\nagain:\n{}\ns_sub_u32 s8, s8, 1\ns_cmp_lg_u32 s8, 0\ns_cbranch_scc1 again\ns_endpgm"


@pytest.mark.parametrize("body", ["s_nop 0", "s_sethalt 0", "s_barrier", "flat_load_dword v3, v[22:23]"])
def test_a_limit_of_exactly_what_a_wave_needs_is_enough(body: str) -> None:
    text = START + LOOP.format(body)
    needed = 6 + 1 + 100 * 4 + 1
    for one in (ReferenceEngine(), engine(tier=Tier.THREADED), engine(tier=Tier.OPTIMISED)):
        assert one.run(made(text, step_limit=needed)).instructions == needed
        with pytest.raises(StepLimit):
            one.run(made(text, step_limit=needed - 1))


@pytest.mark.parametrize("limit", [(1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 10**30])
def test_limits_of_any_size_count_right(limit: int) -> None:
    """Also where the wave ends on the reference engine, and where its turn is as long."""
    for text in (LOOP.format("s_nop 0"), LOOP.format("s_sethalt 0"), "s_mov_b32 s8, 0\ns_sethalt 0\ns_endpgm"):
        heard, _ = counted(made(text))
        for turn in (4096, limit):
            assert engine(tier=Tier.THREADED).run(made(text, step_limit=limit, turn=turn)).instructions == heard


@pytest.mark.parametrize("threads", [1, 2])
def test_the_clock_counts_packets_and_instructions(threads: int) -> None:
    """New launches, kept ones, those that machine code processes, and those that fail."""
    sizes = [chance for _ in range(6) for chance in (64, 1000, 1000, 70_000)]
    clocks = []
    for name in ("reference", "jit"):
        with Gpu.open("gfx900", engine=name, threads=threads) as gpu:
            code, times = gpu.load(demo_code("gfx900")), []
            for number, size in enumerate(sizes if name == "jit" else sizes[:4]):
                before = gpu.device.time
                y = np.ones(size, np.float32)
                result = gpu.run(code, "saxpy", grid=size, args=[2.0, y, y])
                assert gpu.device.time - before == result.instructions + 1
                if number < 4:
                    times.append(result.instructions)
                assert result.instructions == times[number % 4]
            before = gpu.device.time
            with pytest.raises(GuestFault):
                gpu.run(code, "saxpy", grid=64, args=[2.0, 0x10, 0x10])
            assert gpu.device.time == before
        clocks.append(times)
    assert clocks[0] == clocks[1]
