"""Loops that hold their vector registers: which do, and that it makes no difference how they are entered or left."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

import numpy as np
import pytest

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.jit import resident
from softcard.engine.gcn.jit.basics import Observed
from softcard.engine.gcn.jit.emit import emit_region
from softcard.engine.gcn.jit.liveness import Liveness
from softcard.engine.gcn.jit.region import discover, node_of
from softcard.engine.gcn.jit.resident import ResidentLoop, resident_loops
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.target import target
from tests.agree.gcn.bench import Translated, differences, on_reference
from tests.agree.gcn.programs import Builder, Program, listing, plain, start
from tests.engine.gcn.jit.test_contiguous import every_lanes
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import DATA

FAMILIES = ("vop1", "vop2", "vop3", "vopc", "ds", "flat", "global", "mubuf", "sop1", "sop2")
NAMES = ("gfx803", "gfx900")


@cache
def forms(name: str) -> list[tuple[Op, str]]:
    """What loops that hold their registers may be made of."""
    rng, chosen = np.random.default_rng(1), []
    maker = Builder(rng, target(name)).maker
    for op, form in plain(target(name)):
        if op.family not in FAMILIES:
            continue
        try:
            node = node_of(decode(target(name), maker.make(op, form)[0].ljust(12, b"\0"), 0), 0xC0)
        except SoftcardError:
            continue
        if not (node.is_step or node.effects.across or node.effects.indexes or node.effects.flow != "next"):
            chosen.append((op, form))
    return chosen


def looping(rng: np.random.Generator, name: str) -> Program:
    """Two loops, entered at their beginning or in their middle, and left before their end or not."""
    builder = Builder(rng, target(name))
    builder.maker.wild = 0.01 if rng.random() < 0.3 else 0.0
    builder.prologue()
    for _ in range(2):
        every = forms(name)
        few = [every[int(n)] for n in rng.integers(len(every), size=12)]
        builder.loop(int(rng.integers(2, 12)), few)
        builder.straight(2, few)
    return Program(builder.target, tuple(builder.items))


def seen(monkeypatch: pytest.MonkeyPatch) -> list[ResidentLoop]:
    """Have all loops hold their registers that can, at all widths, however many those are; and see which do."""
    found: list[ResidentLoop] = []

    def noted(*arguments: object) -> list[ResidentLoop]:
        loops = resident_loops(*arguments)  # type: ignore[arg-type]
        found.extend(loops)
        return loops

    monkeypatch.setattr(resident, "CHUNK", 4)
    monkeypatch.setattr(resident, "ROOM", 1 << 16)
    monkeypatch.setattr(emit_region, "resident_loops", noted)
    return found


def agree(engines: Sequence[Translated], name: str, seeds: Sequence[int]) -> None:
    for seed in seeds:
        rng = np.random.default_rng([7, seed])
        made = looping(rng, name)
        code = made.code()
        for bad in (0.0, 0.3):
            state = start(rng, mode=0xC0, bad=bad)
            expected = on_reference(name, code, state)
            for engine in engines:
                lines = differences(expected, engine(name, code, state))
                assert not lines, f"seed {seed}, {engine}\n{listing(made.target, code)}\n" + "\n".join(lines)


@every_lanes
@pytest.mark.parametrize("name", NAMES)
def test_random_loops(lanes: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without somebody who looks at registers: what is left behind, and where a loop was left."""
    loops = seen(monkeypatch)
    agree([Translated(lanes, Tier.OPTIMISED, each) for each in (Observed.AT_END, Observed.NEVER)], name, range(3))
    assert len(loops) > 3


SUM = """
s_mov_b32 s4, 0
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 1
again:
v_add_u32_e32 v1, v1, v2
v_xor_b32_e32 v2, s4, v1
BODY
s_add_u32 s4, s4, 1
s_cmp_lt_u32 s4, COUNT
s_cbranch_scc1 again
v_lshlrev_b32_e32 v3, 2, v0
v_add_u32_e32 v3, DATA, v3
v_mov_b32_e32 v4, 0
v_add_u32_e32 v1, v1, v2
global_store_dword v[3:4], v1, off
s_endpgm
"""


def summing(body: str = "", count: int = 7) -> str:
    return SUM.replace("BODY", body).replace("COUNT", str(count)).replace("DATA", hex(DATA))


def found(body: str) -> list[frozenset[int]]:
    """The registers that the loop of a program holds."""
    dispatch = program(summing(body))
    fetch = partial(fetched, dispatch)
    region = discover((dispatch.entry, dispatch.mode), fetch)
    return [loop.registers for loop in resident_loops(region, Liveness(region), 16)]


def fetched(dispatch: Dispatch, pc: int) -> Insn:
    return decode(dispatch.target, dispatch.memory.read(pc, 12), pc)


@pytest.mark.parametrize(
    ("body", "registers"),
    [
        ("", {1, 2}),
        ("ds_read_b32 v5, v2 | s_waitcnt lgkmcnt(0) | v_add_u32_e32 v1, v1, v5", {1, 2, 5}),
        ("s_cbranch_vccz over | v_add_u32_e32 v1, 3, v1 | over: | v_add_u32_e32 v2, 5, v2", {1, 2}),
        ("inner: | v_add_u32_e32 v2, v6, v2 | s_cmp_lt_u32 s4, 1000 | s_cbranch_scc0 inner", {2, 6}),
        ("v_readfirstlane_b32 s5, v2", None),
        ("v_mov_b32_dpp v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", None),
        ("ds_bpermute_b32 v1, v1, v2", None),
        ("s_barrier", None),
        ("s_sleep 1", None),
        ("s_trap 3", None),
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1", None),
        ("|".join(f"v_add_u32_e32 v1, {n}, v1" for n in range(1, 65)), None),
        ("|".join(f"v_xor_b32_e32 v{n}, v{n}, v2 | s_mov_b64 exec, -1" for n in range(10, 16)), None),
        ("|".join(f"v_xor_b32_e32 v{n}, v{n}, v2 | s_mov_b64 exec, -1" for n in range(10, 15)), {1, 2, *range(10, 15)}),
    ],
)
def test_which_loops_hold_their_registers(body: str, registers: set[int] | None) -> None:
    assert found(body) == ([] if registers is None else [frozenset(registers)])


BEHIND = """
s_cmp_eq_u32 s0, 0
s_cbranch_scc1 rest
one:
v_add_u32_e32 v1, 1, v1
v_mov_b32_e32 v2, v1
other:
v_add_u32_e32 v1, 5, v1
v_lshlrev_b32_e32 v3, 2, v0
v_add_u32_e32 v3, DATA, v3
v_mov_b32_e32 v4, 0
global_store_dword v[3:4], v1, off
s_endpgm
rest:
v_mov_b32_e32 v1, v0
s_cbranch_execnz other
s_branch one
"""
"""Jumps back, none of which is a loop: what stands past the end was put there by a compiler."""


@every_lanes
def test_what_jumps_back_need_not_be_a_loop(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loops, text = seen(monkeypatch), BEHIND.replace("DATA", hex(DATA))
    engine = JitEngine(threads=1, tier=Tier.OPTIMISED, lanes=lanes, cache=ObjectCache())
    made, expected = (program(text, groups=[(0, 0, 0), (1, 0, 0)]) for _ in range(2))
    ReferenceEngine().run(expected)
    engine.run(made)
    assert dwords(made, 64) == dwords(expected, 64)
    assert not loops
    engine.close()


@every_lanes
def test_waves_take_turns_in_the_middle_of_a_loop(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers go back to memory when fuel is out, and come from there."""
    loops = seen(monkeypatch)
    one = JitEngine(threads=1, tier=Tier.OPTIMISED, lanes=lanes, cache=ObjectCache())
    expected = program(summing(count=3000), size=(192, 1, 1), step_limit=1 << 20)
    instructions = ReferenceEngine().run(expected).instructions
    dispatch = program(summing(count=3000), size=(192, 1, 1), step_limit=1 << 20, turn=4096)
    assert one.run(dispatch).instructions == instructions > 3 * 4096
    assert dwords(dispatch, 192) == dwords(expected, 192)
    assert loops
    one.close()


@every_lanes
@pytest.mark.parametrize("lane", [0, 17, 63])
def test_a_fault_in_the_middle_of_a_loop(lanes: int, lane: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the fifth round: what all lanes did before, and this round's lanes before it, is in memory."""
    loops = seen(monkeypatch)
    body = f"""
    v_mul_u32_u24_e32 v5, 4, v0
    v_add_u32_e32 v5, {DATA + 0x1000:#x}, v5
    v_mov_b32_e32 v6, 0
    global_store_dword v[5:6], v1, off
    v_cmp_eq_u32_e32 vcc, {lane}, v0
    s_cmp_eq_u32 s4, 4
    s_cselect_b64 s[6:7], vcc, 0
    v_cndmask_b32_e64 v6, 0, 1, s[6:7]
    global_load_dword v7, v[5:6], off
    s_waitcnt vmcnt(0)
    v_add_u32_e32 v2, v7, v2
    """
    results = []
    for engine in (
        ReferenceEngine(),
        JitEngine(threads=1, tier=Tier.OPTIMISED, lanes=lanes, cache=ObjectCache(), observed=Observed.ALWAYS),
    ):
        dispatch = program(summing(body))
        with pytest.raises(SoftcardError, match=f"at lane {lane}, at pc") as fault:
            engine.run(dispatch)
        results.append((str(fault.value), dwords(dispatch, 64, 0x1000)))
    assert results[0] == results[1]
    assert len(loops) == 1
