"""Loads that are parts of compare-and-swap loops: no races with the swaps of others; near to them, races are found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.core.space import Ram
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races import swap_loops, symbolic
from softcard.engine.gcn.races.swap_loops import SwapLoops, may_swap, proposals
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.engine.gcn.programs import dwords, program

SET_UP = (
    "s_mov_b32 m0, -1|s_mov_b32 s4, 0x200000|s_mov_b32 s5, 0|v_mov_b32 v4, s4|v_mov_b32 v5, s5|s_mov_b64 s[6:7], 0|"
    "v_lshlrev_b32 v8, 2, v0|v_add_u32 v8, vcc, 0x200040, v8|v_mov_b32 v9, 0|s_mov_b64 s[14:15], exec|v_mov_b32 v12, 0|"
)
"""v[4:5] and s[4:5]: the counter; v[8:9]: a dword of the lane's own; s[14:15]: EXEC; v12: an offset in LDS."""
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)|"
LOAD = f"flat_load_dword v1, v[4:5]|{WAIT}"
SCALAR = f"s_load_dword s9, s[4:5], 0x0|{WAIT}v_mov_b32 v1, s9|"
SWAP = f"flat_atomic_cmpswap v2, v[4:5], v[0:1] glc|{WAIT}"
ADD = "v_add_f32 v0, 1.0, v1|"
TEST = "v_cmp_eq_u32 vcc, v2, v1|s_or_b64 s[6:7], vcc, s[6:7]|"
REPEAT = "v_mov_b32 v1, v2|s_andn2_b64 exec, exec, s[6:7]|s_cbranch_execnz again|s_mov_b64 exec, s[14:15]|"
OWN = "flat_store_dword v[8:9], {}|"
RACES = ("races/atomic-read", "races/read-atomic")


def swaps(first: str = LOAD, new: str = ADD, swap: str = SWAP, test: str = TEST, behind: str = "") -> str:
    """A loop that swaps until it has succeeded; `first`: what is before it, `behind`: after it."""
    return f"{SET_UP}{first}again:|{new}{swap}{test}{REPEAT}{behind}s_endpgm"


def found_in(text: str, name: str = "gfx803", *, lanes: bool = False, **more: Any) -> list[str]:
    """The names of what both engines find, which is the same; memory is what it is without the check."""
    options = {"size": (192, 1, 1), "lds_bytes": 1024, **more}
    plain = program(text, name, **options)
    ReferenceEngine().run(plain)
    ReferenceEngine().run(plain)
    all_found = []
    for engine in (ReferenceEngine(), JitEngine()):
        made, found = program(text, name, **options), list[Finding]()
        watch = RaceWatch(made.memory, FindingLog(found), lanes=lanes)
        for _ in range(2):
            watch.begin()
            engine.run(replace(made, checks=Checks(watch)))
        assert dwords(made, 64) == dwords(plain, 64)
        all_found.append(found)
    assert [each.as_dict() for each in all_found[0]] == [each.as_dict() for each in all_found[1]]
    return sorted({each.name for each in all_found[0]})


def is_race(text: str) -> bool:
    """Return whether a load is found to race with a swap, in either order."""
    return any(each in RACES for each in found_in(text))


@pytest.mark.parametrize("first", [LOAD, SCALAR])
@pytest.mark.parametrize("lanes", [False, True])
def test_an_atomic_that_was_expanded_to_a_loop_is_no_race(first: str, lanes: bool) -> None:
    assert found_in(swaps(first), lanes=lanes) == []


def test_a_preloaded_pointer_is_no_block_of_arguments() -> None:
    """The counter's address is in s[4:5] from the beginning: a scalar load from there proposes a value."""
    text = swaps(SCALAR).replace("s_mov_b32 s4, 0x200000|s_mov_b32 s5, 0|", "").replace("vcc, 0x200040", "0x200040")
    words = np.array([0, 0, 0, 0, 0x200000, 0], np.uint32)
    assert found_in(text, "gfx90a", sgprs=words, argument_sgprs=range(4, 6)) == []


def test_what_the_loop_gives_may_be_used() -> None:
    assert found_in(swaps(behind=OWN.format("v2"))) == []


def test_the_comparand_of_a_swap_that_was_made_may_be_used() -> None:
    first, next_value = LOAD.replace("v1", "v3"), "v_mov_b32 v3, v2|"
    assert found_in(swaps(first, "v_mov_b32 v1, v3|" + ADD, test=TEST + next_value).replace(
        "v_mov_b32 v1, v2|", "").replace("s_endpgm", OWN.format("v1") + "s_endpgm")) == []  # fmt: skip


def test_the_comparand_may_be_used_in_lanes_whose_only_swap_was_made() -> None:
    text = f"{SET_UP}{LOAD}{ADD}{SWAP}v_cmp_eq_u32 vcc, v2, v1|s_and_b64 exec, exec, vcc|{OWN.format('v1')}s_endpgm"
    assert found_in(text) == []


def test_swaps_of_16_bits_are_of_the_dword_around_them() -> None:
    new = "v_add_u32 v0, vcc, 1, v1|v_and_b32 v0, 0xffff, v0|v_and_b32 v3, 0xffff0000, v1|v_or_b32 v0, v0, v3|"
    assert found_in(swaps(new=new)) == []


def test_a_swap_of_16_bits_may_compare_a_part_of_what_was_loaded() -> None:
    first = f"flat_load_dword v3, v[4:5]|{WAIT}v_and_b32 v3, 0xffff0000, v3|"
    new = "v_or_b32 v1, 7, v3|v_or_b32 v0, 8, v3|"
    test = "v_cmp_eq_u32 vcc, v2, v1|s_or_b64 s[6:7], vcc, s[6:7]|v_and_b32 v3, 0xffff0000, v2|s_mov_b64 s[6:7], -1|"
    assert found_in(swaps(first, new, test=test)) == []
    assert found_in(swaps(first, new.replace("v0, 8, v3", "v0, 8, v3|v_mov_b32 v10, v3"), test=test)) == []
    assert is_race(swaps(first + OWN.format("v3"), new, test=test))


def test_a_swap_of_64_bits() -> None:
    first = f"flat_load_dwordx2 v[18:19], v[4:5]|{WAIT}"
    new = "v_mov_b32 v20, v18|v_mov_b32 v21, v19|v_add_f64 v[18:19], 1.0, v[20:21]|"
    swap = f"flat_atomic_cmpswap_x2 v[22:23], v[4:5], v[18:21] glc|{WAIT}"
    test = "v_cmp_eq_u64 vcc, v[22:23], v[20:21]|s_or_b64 s[6:7], vcc, s[6:7]|v_mov_b32 v18, v22|v_mov_b32 v19, v23|"
    assert found_in(swaps(first, new, swap, test)) == []
    lower = "v_mov_b32 v20, v18|v_mov_b32 v21, 0|v_add_f64 v[18:19], 1.0, v[18:19]|"
    assert is_race(swaps(first, lower, swap, test + "s_mov_b64 s[6:7], -1|"))


def test_a_loop_in_lds() -> None:
    first = f"ds_read_b32 v1, v12 offset:8|{WAIT}"
    swap = f"ds_cmpst_rtn_b32 v2, v12, v1, v0 offset:8|{WAIT}"
    assert found_in(swaps(first, swap=swap)) == []
    other = swap.replace("offset:8", "offset:12") + "ds_add_u32 v12, v0 offset:8|"
    assert is_race(swaps(first, swap=other))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(swaps(LOAD + OWN.format("v1")), id="stored before"),
        pytest.param(swaps(LOAD + "v_mov_b32 v3, v1|", behind=OWN.format("v3")), id="stored after the loop"),
        pytest.param(swaps(new=ADD + OWN.format("v1")), id="stored within the loop"),
        pytest.param(swaps(LOAD + "v_cmp_gt_u32 vcc, 9, v1|s_cbranch_vccz again|"), id="decides a branch"),
        pytest.param(swaps(LOAD + "v_cmp_gt_u32 vcc, -1, v1|s_and_b64 exec, exec, vcc|"), id="decides on lanes"),
        pytest.param(swaps(LOAD + "v_and_b32 v3, 60, v1|v_add_u32 v8, vcc, v8, v3|" + OWN.format("v0")), id="address"),
        pytest.param(swaps(LOAD + "flat_atomic_add v[8:9], v1|"), id="operand of another atomic"),
        pytest.param(swaps(LOAD + "v_mov_b32 v3, v1|", "v_add_f32 v0, 1.0, v3|"), id="new value of a stale one"),
        pytest.param(swaps(new=ADD + "v_add_u32 v1, vcc, 0, v1|"), id="comparand by a sum"),
        pytest.param(swaps(LOAD + "v_readfirstlane_b32 s9, v1|v_mov_b32 v1, s9|"), id="comparand of another lane"),
        pytest.param(
            f"{SET_UP}{LOAD}{ADD}{SWAP}v_cmp_ne_u32 vcc, v2, v1|s_and_b64 exec, exec, vcc|{OWN.format('v1')}s_endpgm",
            id="stored where the swap has failed",
        ),
        pytest.param(f"{SET_UP}{LOAD}{ADD}{SWAP}{OWN.format('v1')}s_endpgm", id="stored in any case"),
        pytest.param(f"{SET_UP}{LOAD}v_cmp_eq_u32 vcc, 0, v1|s_cbranch_vccz on|v_mov_b32 v0, 1|v_mov_b32 v1, 0|{SWAP}"
                     "on:|s_endpgm", id="a lock that is tried where it looked free"),
    ],
)  # fmt: skip
def test_a_value_that_goes_elsewhere_too_is_a_race(text: str) -> None:
    assert is_race(text)


def test_another_address_is_a_race() -> None:
    elsewhere = f"flat_load_dword v1, v[10:11]|{WAIT}"
    add = "v_mov_b32 v10, 0x200008|v_mov_b32 v11, 0|" + elsewhere + ADD + SWAP + "flat_atomic_add v[10:11], v0|s_endpgm"
    assert is_race(SET_UP + add)


def test_a_load_beside_the_loop_is_a_race_still() -> None:
    beside = f"flat_load_dword v3, v[4:5]|{WAIT}{OWN.format('v3')}"
    assert found_in(swaps(behind=beside)) == ["races/read-atomic"]
    assert is_race(swaps(beside + LOAD))


def test_where_a_swap_may_be_is_seen_by_its_words() -> None:
    for name in ("gfx700", "gfx803", "gfx900"):
        for text in (
            "buffer_atomic_cmpswap v[0:1], off, s[0:3], 0 glc",
            "buffer_atomic_cmpswap_x2 v[0:3], off, s[0:3], 0",
            "flat_atomic_cmpswap v[0:1], v[2:3]",
            "flat_atomic_cmpswap_x2 v[0:1], v[2:5]",
            "ds_cmpst_b32 v0, v1, v2",
            "ds_cmpst_rtn_b32 v3, v0, v1, v2",
            "ds_cmpst_b64 v0, v[2:3], v[4:5]",
            "ds_cmpst_rtn_b64 v[6:7], v0, v[2:3], v[4:5]",
            *(["global_atomic_cmpswap v[0:1], v[2:3], off"] if name == "gfx900" else []),
        ):
            code = assemble(target(name), text.replace("flat_atomic_cmpswap v[0:1], v[2:3]", text))
            assert may_swap(np.frombuffer(code, np.uint32)), (name, text)
    assert not may_swap(np.frombuffer(assemble(target("gfx803"), "v_mov_b32 v0, v1\nds_read_b32 v0, v1"), np.uint32))


def test_expressions_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses of all loads are compared with those of all swaps; each part of one is computed once per seed."""
    seen: list[tuple[int, int]] = []
    original = symbolic._value

    def value(node: symbolic.Node, args: list[Any], seed: int) -> int:
        seen.append((id(node), seed))
        return original(node, args, seed)

    monkeypatch.setattr(symbolic, "_value", value)
    chain = "".join(f"v_mul_u32_u24 v4, {n}, v4|v_xor_b32 v4, v4, v0|" for n in range(3, 20))
    made = program(f"{SET_UP}{chain}{LOAD * 8}v_or_b32 v4, v4, v4|{(ADD + SWAP) * 8}s_endpgm", "gfx803")
    proposals(made, ReferenceEngine().stepper(made).fetch)
    assert len(seen) == len(set(seen)) > 30


@pytest.mark.parametrize("most_steps", [symbolic.MOST_STEPS, 5])
def test_a_change_of_the_mappings_leaves_the_analysis(most_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each allocation of a program changes them. A kernel that is too long to be followed is not analysed again."""
    analysed: list[int] = []

    class Counted(symbolic.Code):
        def _run(self, entry: symbolic.Point) -> None:
            analysed.append(entry[1])
            super()._run(entry)

    monkeypatch.setattr(swap_loops, "Code", Counted)
    monkeypatch.setattr(symbolic, "MOST_STEPS", most_steps)
    made, loops = program(swaps(), "gfx803"), SwapLoops()
    fetch = ReferenceEngine().stepper(made).fetch
    for _ in range(2):
        loops.follow(made, fetch)
        assert len(loops.present.pcs) == (most_steps > 5)
        version = made.memory.version
        made.memory.map(0x700000, Ram(0x1000))
        assert made.memory.version > version
        made.memory.unmap(0x700000)
    assert analysed == [made.entry]
    pc = made.entry + 4
    made.memory.write(pc, made.memory.read(pc, 4)[::-1])
    loops.follow(made, fetch)
    assert len(analysed) == 2
