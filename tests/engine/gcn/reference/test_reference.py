"""The reference engine: stepping, decoding again when code changes, faults and their places, hostile code."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault, BeyondModel, GuestFault, ModelBug, SoftcardError, WireError
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.engine import NO_LANE
from softcard.isa.gcn.insn import IllegalInstruction, Insn, Op
from softcard.isa.gcn.state import EXEC, FAULT_ADDRESS, FAULT_LANE, FAULT_PC, PC, RETIRED, Wave
from softcard.isa.gcn.target import TARGETS, target
from tests.engine.gcn.programs import dwords, program, run, started
from tests.engine.gcn.rig import CODE, DATA, DATA_BYTES, launch

STORE = f"""
s_mov_b32 s8, {DATA:#x}
s_lshl_b32 s9, s0, 8
s_add_u32 s8, s8, s9
v_lshlrev_b32_e32 v10, 2, v0
v_add_co_u32_e32 v10, vcc, s8, v10
v_mov_b32_e32 v11, 0
flat_store_dword v[10:11], v4
s_endpgm
"""
"""Stores v4 of every lane in the dwords of its work-group."""


def test_a_program_runs_to_its_end() -> None:
    dispatch = program("v_add_u32_e32 v4, 5, v0" + STORE, groups=[(0, 0, 0), (1, 0, 0), (2, 0, 0)])
    statistics = run(dispatch)
    assert dwords(dispatch, 192) == [n + 5 for n in range(64)] * 3
    assert (statistics.instructions, statistics.waves, statistics.groups) == (27, 3, 3)


def test_branches_loop() -> None:
    text = "s_mov_b32 s4, 10 | v_mov_b32_e32 v4, 0 | again: | v_add_u32_e32 v4, v4, v0 | s_sub_u32 s4, s4, 1"
    dispatch = program(text + "| s_cmp_lg_u32 s4, 0 | s_cbranch_scc1 again" + STORE)
    assert run(dispatch).instructions == 2 + 40 + 8
    assert dwords(dispatch, 64) == [10 * n for n in range(64)]


def test_lanes_outside_exec_store_nothing() -> None:
    dispatch = program("v_mov_b32_e32 v4, 7 | s_mov_b64 exec, 0xf0" + STORE)
    run(dispatch)
    assert dwords(dispatch, 64) == [7 if 4 <= n < 8 else 0 for n in range(64)]


@pytest.mark.parametrize("name", ["gfx700", "gfx803", "gfx906"])
def test_other_generations(name: str) -> None:
    dispatch = launch([0x7E08_0281, 0xBF81_0000], name)  # v_mov_b32 v4, 1
    stepper, wave = started(dispatch)
    assert stepper.step(wave).name == "v_mov_b32"
    assert wave.vgpr[4].tolist() == [1] * 64


def test_every_retired_instruction_is_reported() -> None:
    heard: list[tuple[int, str]] = []

    def hear(wave: Wave, insn: Insn) -> None:
        heard.append((int(wave.words[RETIRED]), insn.name))

    run(program("s_nop 0 | s_branch over | s_nop 1 | over: | s_endpgm"), hear)
    assert heard == [(1, "s_nop"), (2, "s_branch"), (3, "s_endpgm")]


# ---- code that changes


def test_code_is_decoded_again_when_its_words_change() -> None:
    dispatch = program("v_mov_b32_e32 v4, 1 | s_add_u32 s5, s5, 0x11111111 | s_endpgm")
    stepper, wave = started(dispatch)
    for expected, words in ((1, None), (2, b"\x82\x02\x08\x7e")):
        if words is not None:
            dispatch.memory.write(CODE, words)
            dispatch.memory.write(CODE + 8, (0x2222_2222).to_bytes(4, "little"))
        wave.pc = CODE
        stepper.step(wave)
        stepper.step(wave)
        assert wave.vgpr[4, 0] == expected
    assert wave.sgpr[5] == 0x3333_3333


def test_a_kernel_may_write_its_own_code() -> None:
    patch = "s_mov_b32 s8, 0x100030 | s_mov_b32 s9, 0 | s_mov_b32 s10, 0x7e080287 | v_mov_b32_e32 v4, 1"
    text = "v_mov_b32_e32 v10, s8 | v_mov_b32_e32 v11, s9 | v_mov_b32_e32 v12, s10 | flat_store_dword v[10:11], v12"
    dispatch = program(f"{patch} | {text} | s_nop 0 | v_mov_b32_e32 v4, 1 | s_endpgm")
    stepper, wave = started(dispatch)
    while wave.pc != CODE + 0x34:
        stepper.step(wave)
    assert wave.vgpr[4, 0] == 7


def test_code_is_searched_for_again_after_a_mapping_changed() -> None:
    dispatch = program("s_nop 3 | s_endpgm")
    stepper, wave = started(dispatch)
    stepper.step(wave)
    dispatch.memory.unmap(CODE)
    wave.pc = CODE
    with pytest.raises(AccessFault, match="no memory there"):
        stepper.step(wave)


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_code_need_not_begin_at_a_dword_of_its_mapping(shift: int) -> None:
    memory = GpuMemory()
    words = np.array([0x7E08_02FF, 0x1234_5678, 0xBF81_0000], np.uint32)  # v_mov_b32 v4, 0x12345678; s_endpgm
    memory.map(CODE - shift, bytes(shift) + words.tobytes(), writable=False)
    stepper, wave = started(launch([], memory=memory))
    stepper.step(wave)
    assert wave.vgpr[4, 63] == 0x1234_5678
    stepper.step(wave)


def test_code_may_span_mappings() -> None:
    memory = GpuMemory()
    memory.map(CODE, np.array([0x7E08_02FF], np.uint32))
    memory.map(CODE + 4, np.array([0x1234_5678], np.uint32))
    stepper, wave = started(launch([], memory=memory))
    with pytest.raises(IllegalInstruction, match="the code ends inside it"):
        stepper.step(wave)


# ---- faults


def test_a_fault_says_lane_pc_wave_and_work_group() -> None:
    text = "s_mov_b32 s8, 0x200000 | v_mov_b32_e32 v11, 0 | v_mov_b32_e32 v10, s8 | v_cmp_eq_u32_e32 vcc, 17, v0"
    text += "| s_mov_b32 s9, 0xdead0000 | v_mov_b32_e32 v12, s9 | v_cndmask_b32_e32 v10, v10, v12, vcc"
    dispatch = program(text + "| flat_load_dword v3, v[10:11] | s_endpgm", groups=[(3, 2, 1)])
    with pytest.raises(AccessFault) as caught:
        run(dispatch)
    pc = CODE + 8 + 4 * 3 + 8 + 4 * 2
    assert str(caught.value) == (
        f"read of 4 bytes at 0xdead0000: no memory there, at lane 17, at pc {pc:#x} "
        "(flat_load_dword v3, v[10:11]), at wave 0, at work-group 3,2,1"
    )
    assert [(place.kind, place.where) for place in caught.value.path] == [
        ("lane", "17"), ("pc", hex(pc)), ("wave", "0"), ("work-group", "3,2,1"),
    ]  # fmt: skip


def test_a_fault_leaves_the_wave_as_it_was() -> None:
    dispatch = program("flat_load_dwordx4 v[3:6], v[0:1] | s_endpgm", poison=0xDEAD_BEEF)
    stepper, wave = started(dispatch)
    before = wave.block.copy()
    with pytest.raises(AccessFault):
        stepper.step(wave)
    assert wave.words[FAULT_PC] == CODE
    assert wave.words[FAULT_LANE] == 0
    assert wave.words[FAULT_ADDRESS] == 0xDEAD_BEEF_0000_0000 or wave.words[FAULT_ADDRESS] == 0
    wave.words[[FAULT_PC, FAULT_LANE, FAULT_ADDRESS]] = 0
    assert (wave.block == before).all()


def test_a_scalar_fault_has_no_lane() -> None:
    stepper, wave = started(program("s_load_dwordx2 s[4:5], s[6:7], 0x0 | s_endpgm"))
    wave.set_s64(6, DATA + DATA_BYTES)
    with pytest.raises(AccessFault) as caught:
        stepper.step(wave)
    assert [place.kind for place in caught.value.path] == ["pc"]
    assert wave.words[FAULT_LANE] == NO_LANE
    assert wave.words[FAULT_ADDRESS] == DATA + DATA_BYTES


@pytest.mark.parametrize("pc", [CODE + 2, CODE + 1])
def test_instructions_are_aligned(pc: int) -> None:
    stepper, wave = started(program("s_endpgm"))
    wave.pc = pc
    with pytest.raises(GuestFault) as caught:
        stepper.step(wave)
    assert str(caught.value) == f"the address of an instruction must be a multiple of 4, at pc {pc:#x}"


@pytest.mark.parametrize("pc", [0, CODE + 4, 1 << 48, 2**64 - 4])
def test_code_outside_of_memory(pc: int) -> None:
    stepper, wave = started(program("s_endpgm"))
    wave.words[PC] = pc
    with pytest.raises(AccessFault) as caught:
        stepper.step(wave)
    assert str(caught.value).endswith(f"at pc {pc:#x} (instruction fetch)")


def test_running_off_the_end_of_code() -> None:
    with pytest.raises(AccessFault, match=r"code ends at 0x100004, at pc 0x100004 \(instruction fetch\), at wave 0"):
        run(program("s_nop 0"))


def test_illegal_words_have_one_pc() -> None:
    with pytest.raises(IllegalInstruction) as caught:
        run(launch([0xBF80_0000, 0xFFFF_FFFF]))
    assert [place.kind for place in caught.value.path] == ["pc", "wave", "work-group"]
    assert "at pc 0x100004, at wave 0, at work-group 0,0,0" in str(caught.value)


def test_what_is_not_modelled_says_where() -> None:
    with pytest.raises(BeyondModel) as caught:
        run(launch([0xC400_080F, 0, 0xBF81_0000]))  # exp null
    assert [place.kind for place in caught.value.path] == ["pc", "wave", "work-group"]


def made(semantics: Any) -> tuple[Any, Wave]:
    """A wave at an instruction of our own."""
    stepper, wave = started(program("s_nop 0 | s_endpgm"))
    real = stepper.fetch(CODE)
    op = Op("s_test", "sopp", {9: "s_test"}, {9: 1}, None, semantics)
    insn = Insn(op, real.target, "SOPP", CODE, 4, real.words, {"simm16": 0})
    stepper.code.at(CODE).insn = insn
    return stepper, wave


@pytest.mark.parametrize(
    "semantics", [lambda b, i: b.s64(127), lambda b, i: b.v(256), lambda b, i: b.set_s(130, b.const(32, 0))]
)
def test_registers_end(semantics: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper, wave = made(semantics)
    monkeypatch.setattr("softcard.engine.gcn.reference.engine.text", lambda insn: insn.name)
    with pytest.raises(GuestFault, match=r"an operand reaches beyond the last register .*, at pc 0x100000 \(s_test\)"):
        stepper.step(wave)


@pytest.mark.parametrize(
    "semantics", [lambda b, i: b.set_s(1, b.word(32, -1)), lambda b, i: b.nothing(), lambda b, i: 1 // 0]
)
def test_mistakes_in_semantics_are_ours(semantics: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper, wave = made(semantics)
    monkeypatch.setattr("softcard.engine.gcn.reference.engine.text", lambda insn: insn.name)
    with pytest.raises(ModelBug, match=r"Error in an instruction's semantics: .*, at pc 0x100000 \(s_test\)"):
        stepper.step(wave)


def test_an_instruction_without_text_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(insn: Insn) -> str:
        raise WireError("no text")

    monkeypatch.setattr("softcard.engine.gcn.reference.engine.text", fails)
    with pytest.raises(GuestFault, match=r"s_trap 2: there is no trap handler, at pc 0x100000 \(s_trap\)"):
        run(program("s_trap 2"))


# ---- single steps for some lanes


def test_a_step_may_concern_some_lanes_only() -> None:
    dispatch = program("flat_load_dword v4, v[10:11] | v_cmp_gt_u32_e32 vcc, 8, v0 | s_endpgm")
    stepper, wave = started(dispatch)
    wave.vgpr[10] = DATA
    wave.vgpr[10, 20] = 0x40
    wave.vgpr[4] = 9
    stepper.step(wave, lanes=0xFFFF)
    assert wave.vgpr[4].tolist() == [0] * 16 + [9] * 48
    wave.pc = CODE
    with pytest.raises(AccessFault, match="at lane 20"):
        stepper.step(wave, lanes=0xFFFF_0000)
    wave.pc = CODE + 8
    wave.set_s64(106, 0xFF << 56)
    stepper.step(wave, lanes=0xF0)
    assert wave.s64(106) == 0xFF << 56 | 0xF0
    assert wave.s64(EXEC) == 2**64 - 1


# ---- traps and hints


def test_traps() -> None:
    with pytest.raises(GuestFault, match=r"s_trap 2: there is no trap handler, at pc 0x100000 \(s_trap 2\), at wave 0"):
        run(program("s_trap 2 | s_endpgm"))
    assert run(program("s_trap 3 | s_endpgm", on_trap=lambda wave, number: number == 3)).instructions == 2


def test_messages_are_heard() -> None:
    heard: list[tuple[str, int]] = []
    run(program("s_sendmsg 3 | s_endpgm", on_hint=lambda wave, what, n: heard.append((what, n))))
    assert ("sendmsg", 3) in heard


# ---- hostile code


def hostile(random: Random, name: str) -> list[int]:
    """Words that decode more often than random ones do."""
    from softcard.isa.gcn.encoding.decode import decode

    words: list[int] = []
    while len(words) < 40:
        pair = [random.getrandbits(32), random.getrandbits(32)]
        if random.random() < 0.7:
            top = random.choice((0xBE, 0xBF, 0xB0, 0x80, 0x86, 0x7E, 0x7C, 0x2A, 0xD1, 0xD8, 0xDC, 0xE0, 0xC0, 0xD2))
            pair[0] = pair[0] & 0xFF_FFFF | top << 24
        try:
            insn = decode(target(name), pair, 0)
        except SoftcardError:
            if random.random() < 0.02:
                words += pair
            continue
        words += insn.words
    return words


@pytest.mark.parametrize("name", ["gfx700", "gfx803", "gfx900", "gfx906"])
@pytest.mark.parametrize("seed", range(40))
def test_no_code_does_more_than_fault(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    pointers = np.array([DATA, 0] * 51, np.uint32)
    dispatch = launch(
        hostile(random, name), name, size=(100, 1, 1), step_limit=300, lds_bytes=512, seed=seed, sgprs=pointers
    )
    ended: SoftcardError | None = None
    try:
        run(dispatch)
    except SoftcardError as error:
        ended = error
    assert not isinstance(ended, ModelBug), str(ended)
    assert ended is None or ended.path[-1].kind == "work-group"


@pytest.mark.parametrize("name", TARGETS)
def test_random_words_are_faults_or_instructions(name: str) -> None:
    random = Random(name)
    for _ in range(30):
        dispatch = launch([random.getrandbits(32) for _ in range(16)], name, step_limit=100)
        with pytest.raises((GuestFault, BeyondModel)):
            run(dispatch)
