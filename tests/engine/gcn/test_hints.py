"""Hints: most are nothing, s_sleep is a pause, and only what a device must hear of leaves translated code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from softcard.engine.gcn.api import QUIET_HINTS, Dispatch, Engine, StepLimit
from softcard.engine.gcn.host_clock import HostClock
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.reference.lanes import Lanes
from softcard.engine.gcn.strict.coherence import StrictEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.engine.gcn.tiered.worker import Worker
from tests.engine.gcn.jit.test_jit import TIERS, engine, store
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import DATA

LOOP = """
s_movk_i32 s8, 200
v_mov_b32_e32 v1, 1.0
v_mov_b32_e32 v2, 0
again:
s_setprio 3
v_mac_f32_e32 v2, v1, v1
s_setprio 0
{hint}
v_mac_f32_e32 v2, v1, v1
s_sub_u32 s8, s8, 1
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 again
"""
QUIET = ("s_nop 1", "s_setprio 1", "s_wakeup", "s_incperflevel 1", "s_decperflevel 1", "s_ttracedata", "s_sleep 1")
CACHE = ("s_atc_probe 0, s[2:3], 0x0", "s_atc_probe_buffer 0, s[4:7], 0x0", "s_dcache_discard s[2:3], 0x0")
"""Quiet too, on scalar memory."""
HEARD = ("s_sendmsg sendmsg(MSG_INTERRUPT)", "s_sethalt 0", "s_setkill 0", "s_icache_inv")


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Why translated code came back to Python."""
    found: list[int] = []
    serve = Worker._serve

    def counted(worker: Worker, why: int) -> None:
        found.append(why)
        serve(worker, why)

    monkeypatch.setattr(Worker, "_serve", counted)
    return found


@pytest.mark.parametrize("hint", QUIET + CACHE)
@pytest.mark.parametrize("tier", TIERS)
def test_a_loop_with_priorities_never_leaves_translated_code(hint: str, tier: Tier, exits: list[int]) -> None:
    """As hand-scheduled matrix products have them: two s_setprio around the multiply-adds of every turn."""
    one = engine(tier=tier)
    dispatch = program(LOOP.format(hint=hint) + store(2), size=(256, 1, 1))
    one.run(dispatch)
    assert np.frombuffer(dispatch.memory.read(DATA, 256), np.float32).tolist() == [400.0] * 64
    assert set(exits) == {layout.MISS}
    exits.clear()
    one.run(dispatch)
    assert exits == []


@pytest.mark.parametrize("hint", HEARD)
def test_what_a_device_hears_of_leaves(hint: str, exits: list[int]) -> None:
    heard: list[tuple[str, int]] = []
    dispatch = program(LOOP.format(hint=hint) + store(2), on_hint=lambda wave, what, n: heard.append((what, n)))
    engine().run(dispatch)
    assert exits.count(layout.STEP) == len(heard) == 200
    assert np.frombuffer(dispatch.memory.read(DATA, 256), np.float32).tolist() == [400.0] * 64


def heard(one: Engine) -> list[tuple[str, int]]:
    """What a device is told of a program that gives every hint."""
    found: list[tuple[str, int]] = []
    text = "\n".join((*QUIET, *CACHE, *HEARD, "s_sendmsghalt 3", "s_endpgm"))
    one.run(program(text, on_hint=lambda wave, what, n: found.append((what, n))))
    return found


def test_a_device_hears_the_same_from_every_engine() -> None:
    wanted = [("sendmsg", 1), ("sethalt", 0), ("setkill", 0), ("icache_inv", 0), ("sendmsg", 3), ("halt", 0)]
    assert [heard(one) for one in (ReferenceEngine(), StrictEngine(), engine())] == [wanted] * 3


def test_the_quiet_hints_here_are_all_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    given: set[str] = set()
    monkeypatch.setattr(Lanes, "hint", lambda lanes, what, n=0: given.add(what))
    ReferenceEngine().run(program("\n".join((*QUIET, *CACHE, "s_endpgm"))))
    assert given == QUIET_HINTS


# ---- s_sleep

WAKE = """
v_readfirstlane_b32 s8, v0
s_cmp_lg_u32 s8, 0
v_mov_b32_e32 v1, 0
s_cbranch_scc1 other
s_movk_i32 s9, 0
wait:
s_sleep 2
s_add_u32 s9, s9, 1
ds_read_b32 v3, v1
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s10, v3
s_cmp_eq_u32 s10, 0
s_cbranch_scc1 wait
v_mov_b32_e32 v2, s9
s_branch out
other:
v_mov_b32_e32 v2, 1
ds_write_b32 v1, v2
s_endpgm
out:
"""


@pytest.mark.parametrize("make", [ReferenceEngine, engine, StrictEngine], ids=["reference", "jit", "strict"])
def test_a_wave_that_sleeps_lets_others_run(make: Callable[[], Engine]) -> None:
    """The first look is behind the first pause: whoever serves other waves meanwhile finds the flag set."""
    one = make()
    dispatch = program(WAKE + store(2), size=(128, 1, 1), lds_bytes=64, turn=1_000_000)
    one.run(dispatch)
    assert dwords(dispatch, 1)[0] < 20 if isinstance(one, StrictEngine) else dwords(dispatch, 1) == [1]


ASLEEP = "s_movk_i32 s8, {count}\nagain:\ns_sleep 1\ns_sub_u32 s8, s8, 1\ns_cmp_lg_u32 s8, 0\ns_cbranch_scc1 again\n"


def asleep(count: int, step_limit: int, **options: Any) -> Dispatch:
    """A wave that sleeps `count` times: 4 instructions each, 1 before and 1 behind."""
    return program(ASLEEP.format(count=count) + "s_endpgm", step_limit=step_limit, **options)


@pytest.mark.parametrize(
    "make",
    [ReferenceEngine, engine, lambda: engine(tier=TIERS[0]), StrictEngine],
    ids=["reference", "jit", "quick", "strict"],
)
@pytest.mark.parametrize("seed", [None, 3])
def test_pauses_retire_and_do_not_count_against_the_limit(make: Callable[[], Engine], seed: int | None) -> None:
    one, count = make(), 1000
    assert one.run(asleep(count, 3 * count + 2, seed=seed)).instructions == 4 * count + 2
    with pytest.raises(StepLimit, match=f"did not end within {3 * count + 1} instructions"):
        one.run(asleep(count, 3 * count + 1, seed=seed))


def test_the_clock_counts_pauses() -> None:
    """What s_memtime reads is what has retired, asleep or not, on both engines."""
    text = "s_sleep 1\ns_sleep 1\ns_nop 0\ns_memtime s[8:9]\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, s8\n" + store(2)
    read = []
    for one in (ReferenceEngine(), engine()):
        dispatch = program(text)
        one.run(dispatch)
        read.append(dwords(dispatch, 1))
    assert read == [[3], [3]]


SPIN = """
s_memtime s[8:9]
s_waitcnt lgkmcnt(0)
s_add_u32 s10, s8, 0x989680
s_addc_u32 s11, s9, 0
again:
{clock} s[12:13]
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v4, s10
v_mov_b32_e32 v5, s11
v_cmp_lt_u64_e32 vcc, s[12:13], v[4:5]
s_cbranch_vccnz again
v_mov_b32_e32 v2, s8
"""
"""Until 10 ms have passed, as programs spin by clock64() and wall_clock64()."""


@pytest.mark.parametrize("clock", ["s_memtime", "s_memrealtime"])
@pytest.mark.parametrize(
    "make", [ReferenceEngine, *(lambda tier=tier: engine(tier=tier) for tier in TIERS), StrictEngine]
)
def test_the_host_s_clock_ends_a_loop(make: Callable[[], Engine], clock: str, exits: list[int]) -> None:
    """And code translated for it does not leave, but to look for code and for the time."""
    host = HostClock.find()
    dispatch = program(SPIN.format(clock=clock) + store(2), clock=host, step_limit=None)
    began = host.now()
    make().run(dispatch)
    ended = host.now()
    first = began & ~0xFFFF_FFFF | dwords(dispatch, 1)[0]
    first += (first < began) << 32
    assert began <= first <= ended - 10_000_000
    assert layout.STEP not in exits
