"""What was written down of an instruction does what its meaning does."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.reference import engine
from softcard.engine.gcn.reference.replay import Recorder, Symbol, Unrecordable, record
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import EXEC, FULL, LDS_BASE, LDS_NOTE, WORDS_AT, Mode
from softcard.isa.gcn.target import target
from tests.engine.gcn.programs import dwords, program, run, started
from tests.engine.gcn.rig import CODE, DATA, DATA_BYTES, SCRATCH, launch

TOPS = (0xBE, 0xBF, 0xB0, 0x80, 0x7E, 0x7C, 0xD1, 0xD2, 0xD8, 0xDC, 0xE0, 0xC0, 0xD3, 0xD4)
"""First bytes with many opcodes behind them."""


def some_instruction(random: Random, name: str) -> Insn:
    while True:
        words = [random.getrandbits(32) for _ in range(3)]
        if random.random() < 0.7:
            words[0] = words[0] & 0xFF_FFFF | random.choice(TOPS) << 24
        try:
            return decode(target(name), words, CODE)
        except SoftcardError:
            continue


def outcome(insn: Insn, mode: int, seed: int, replay: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """All state after one step from a random state, executed by `replay` if there is one."""
    random = Random(seed)
    gds = np.zeros(256, np.uint8)
    dispatch = launch(
        list(insn.words), insn.target.name, lds_bytes=256, gds=gds, mode=mode,
        scratch_base=SCRATCH, scratch_lane_bytes=32, scratch_slots=1,
    )  # fmt: skip
    dispatch.memory.map(SCRATCH, np.zeros(4096, np.uint8))
    stepper, wave = started(dispatch)
    wave.sgpr[:104] = [random.choice((random.getrandbits(32), 0, 1, DATA, 64, 0x3F80_0000)) for _ in range(104)]
    wave.vgpr[:] = np.frombuffer(random.randbytes(wave.vgpr.nbytes), np.uint32).reshape(256, 64)
    wave.vgpr[::2] = random.choice((0, 8, DATA, 0x3F80_0000))
    wave.vgpr[1::2] = random.choice((0, 1, 0x2_0000, 0x1_0000))
    wave.set_s64(EXEC, random.choice((FULL, random.getrandbits(64), 0, 1)))
    with monkeypatch.context() as patch:
        if replay is not None:
            patch.setattr(engine, "execute", lambda o, i: replay(o))
        try:
            stepper.step(wave)
            text = ""
        except SoftcardError as error:
            text = str(error)
    block = wave.block.copy()
    for word in (LDS_BASE, LDS_NOTE):  # host addresses
        block[WORDS_AT + 8 * word : WORDS_AT + 8 * word + 8] = 0
    return text, block.tobytes(), dispatch.memory.read(DATA, DATA_BYTES), gds.tobytes()


@pytest.mark.parametrize("name", ["gfx700", "gfx803", "gfx900", "gfx906"])
def test_a_recording_does_what_the_semantics_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random, recorded = Random(name), 0
    for _ in range(250):
        insn = some_instruction(random, name)
        mode, seed = random.getrandbits(10) | (random.random() < 0.1) << 27, random.getrandbits(30)
        replay = record(execute, insn, Mode.decode(mode))
        if replay is not None:
            recorded += 1
            expected = outcome(insn, mode, seed, None, monkeypatch)
            assert outcome(insn, mode, seed, replay, monkeypatch) == expected, (insn.name, insn.words, mode)
    assert recorded > 180


LOOP = f"""
s_mov_b32 s8, 100
v_mov_b32_e32 v4, 0
v_lshlrev_b32_e32 v10, 2, v0
v_add_co_u32_e32 v10, vcc, {DATA:#x}, v10
v_mov_b32_e32 v11, 0
again:
v_add_u32_e32 v4, v4, v0
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1
v_add_f32_e32 v5, 1.0, v6
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0
v_add_f32_e32 v7, 1.0, v6
s_sub_u32 s8, s8, 1
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 again
v_sub_u32_e32 v5, v5, v7
v_add_u32_e32 v4, v4, v5
flat_store_dword v[10:11], v4
s_endpgm
"""


def test_a_loop_is_replayed_under_every_mode() -> None:
    """1.0 plus the smallest normal number, rounded up and to nearest."""
    dispatch = program("v_mov_b32_e32 v6, 0x00800000" + LOOP)
    assert run(dispatch).instructions == 6 + 100 * 8 + 4
    assert dwords(dispatch, 64) == [100 * n + 1 for n in range(64)]


def test_recordings_belong_to_code_that_changes() -> None:
    dispatch = program("again: | v_add_u32_e32 v4, 1, v4 | s_branch again")
    stepper, wave = started(dispatch)
    for _ in range(100):
        stepper.step(wave)
    assert wave.vgpr[4, 5] == 50
    dispatch.memory.write(CODE, (0x6808_0882).to_bytes(4, "little"))  # v_add_u32 v4, 2, v4
    for _ in range(100):
        stepper.step(wave)
    assert wave.vgpr[4, 5] == 150


def insn_of(semantics: Any, concrete: bool = False) -> Insn:
    op = Op("test", "sopp", {9: "test"}, {9: 1}, None, semantics, concrete=concrete)
    return Insn(op, target("gfx900"), "SOPP", CODE, 4, (0,), {})


@pytest.mark.parametrize(
    "semantics",
    [
        lambda b, i: b.set_s(0, b.const(32, 1)) if b.s(1) else None,
        lambda b, i: b.set_s(0, b.const(32, 1)) if b.s(1) == 3 else None,
        lambda b, i: b.set_s(0, b.const(32, int(b.s(1).value))),
        lambda b, i: b.set_s(0, b.word(32, {b.s(1).value: 1})),
        lambda b, i: b.set_s(0, b.word(32, object())),
        lambda b, i: b.algebra.add(32, 1),
    ],
)
def test_semantics_that_inspect_values_cannot_be_recorded(semantics: Any) -> None:
    assert record(execute, insn_of(semantics), Mode()) is None


def test_concrete_semantics_are_not_recorded() -> None:
    assert record(execute, insn_of(lambda b, i: b.set_s(0, b.const(32, 1)), concrete=True), Mode()) is None
    assert record(execute, insn_of(lambda b, i: b.set_s(0, b.const(32, 1))), Mode()) is not None
    assert record(execute, insn_of(lambda o, i: None), Mode()) is not None


def test_constants_are_folded_and_scalars_written_out() -> None:
    recorder = Recorder(Mode())
    total = recorder.add(32, recorder.const(32, -1), recorder.const(32, 3))
    assert total == 2
    scalar = recorder.add(32, recorder.s(4), total)
    assert (scalar.scalar, recorder.lines[-1]) == (True, "t1 = (t0 + 2) & 4294967295")
    lanes = recorder.add(32, recorder.v(1), scalar)
    assert (lanes.scalar, recorder.lines[-1]) == (False, "t3 = t2 + lanes_of(32, t1)")
    assert recorder.add(32, lanes, 7).scalar is False
    assert recorder.lines[-1] == "t4 = t3 + k32_7"
    assert recorder.constants["k32_7"].tolist() == [7] * 64
    with pytest.raises(Unrecordable):
        bool(Symbol("t0", True))
