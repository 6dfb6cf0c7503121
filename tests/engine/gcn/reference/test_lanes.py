"""Registers, lane masks, crossing lanes, hardware registers and control of the reference's algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.core.errors import BeyondModel, GuestFault
from softcard.isa.gcn.state import (
    AT_BARRIER,
    ENDED,
    EXEC,
    FULL,
    HW_ID,
    LANES,
    MODE,
    RETIRED,
    SCC,
    STATUS,
    VCC,
    Mode,
    Wave,
)
from tests.engine.gcn.rig import CODE, LDS_BYTES, PRIVATE, SHARED, Rig

PARTIAL = 0xF0F0_0000_1234_5679


def lanes(values: Any) -> Any:
    return np.array(list(values), np.uint32)


def bools(bits: int) -> Any:
    return np.array([bits >> n & 1 for n in range(LANES)], np.bool_)


# ---- scalar state


def test_scalar_registers() -> None:
    rig = Rig()
    rig.o.set_s(5, 0xFFFF_FFFF)
    rig.o.set_s64(7, 0x0123_4567_89AB_CDEF)
    assert (rig.o.s(5), rig.o.s(7), rig.o.s(8)) == (0xFFFF_FFFF, 0x89AB_CDEF, 0x0123_4567)
    assert rig.o.s64(7) == rig.wave.s64(7) == 0x0123_4567_89AB_CDEF
    assert type(rig.o.s(5)) is int
    rig.o.set_scc(1)
    assert rig.o.scc() == rig.wave.words[SCC] == 1


def test_scalar_registers_by_computed_number() -> None:
    o = Rig().o
    for n in range(VCC):
        o.set_s(n, n)
    assert [o.s_indexed(10, k) for k in (0, 5, 95, 96, 0xFFFF_FFFF, 0x8000_0000)] == [10, 15, 105, 10, 9, 10]
    assert o.s_indexed(10, 94, 64) == 105 << 32 | 104
    assert o.s_indexed(10, 95, 64) == 11 << 32 | 10
    o.set_s_indexed(10, 2, 99)
    o.set_s_indexed(10, 96, 98)
    o.set_s_indexed(10, 4, 7 << 32 | 8, 64)
    assert [o.s(n) for n in (10, 12, 14, 15, VCC)] == [10, 99, 8, 7, 0]


def test_mode_is_decoded_when_it_changes() -> None:
    rig = Rig()
    rig.wave.words[MODE] = 0x3F3
    assert rig.begin(FULL).mode == Mode(3, 0, 3, 3)
    rig.o.set_hwreg(1, 0x01)
    assert rig.o.hwreg(1) == 1
    assert rig.begin(FULL).mode == Mode.decode(1)


def test_hardware_registers() -> None:
    rig = Rig(vgprs=33, sgprs=40)
    rig.wave.words[HW_ID] = 0x12
    o = rig.o
    o.set_scc(1)
    assert o.hwreg(2) == 1 | 1 << 10 | 1 << 11 | 1 << 16
    o.set_s(VCC, 1)
    assert rig.begin(0).hwreg(2) == 1 | 1 << 9 | 1 << 11 | 1 << 16
    o.set_hwreg(3, 0x55)
    assert [o.hwreg(n) for n in (3, 4, 5, 6, 7)] == [0x55, 0x12, 8 << 8 | 2 << 24, LDS_BYTES // 256 // 2 + 1 << 12, 0]
    assert o.hwreg(15) == PRIVATE >> 48 | SHARED >> 48 << 16
    o.set_hwreg(2, 0)
    assert o.scc() == 1
    for call in (lambda: o.hwreg(12), lambda: o.set_hwreg(12, 0)):
        with pytest.raises(BeyondModel, match="hardware register 12"):
            call()


def test_time_counts_instructions() -> None:
    rig = Rig()
    rig.wave.words[RETIRED] = 1 << 40
    assert rig.o.time("memtime") == rig.o.time("memrealtime") == 1 << 40


# ---- lanes


@pytest.mark.parametrize("exec_", [FULL, PARTIAL, 0])
@pytest.mark.parametrize("where", [None, 0, 1, 0x5555_5555_5555_5555])
def test_vector_registers_are_written_where_exec_says(exec_: int, where: int | None) -> None:
    rig = Rig(exec_)
    rig.wave.vgpr[3] = 7
    bits = exec_ if where in (None, 1) else exec_ & (where or 0)
    mask = where if where in (None, 0, 1) else bools(where or 0)
    rig.o.set_v(3, lanes(range(100, 164)), mask)
    assert rig.o.v(3).tolist() == [100 + n if bits >> n & 1 else 7 for n in range(LANES)]
    rig.o.set_v(3, 0xFFFF_FFFF, mask)
    assert rig.wave.vgpr[3].tolist() == [0xFFFF_FFFF if bits >> n & 1 else 7 for n in range(LANES)]


def test_a_register_that_was_read_does_not_change() -> None:
    rig = Rig()
    rig.wave.vgpr[1] = 5
    before = rig.o.v(1)
    rig.o.set_v(1, 6)
    assert before.tolist() == [5] * LANES


@pytest.mark.parametrize("dtype", [np.uint64, np.uint16, np.bool_, np.int32, np.float32])
def test_only_values_of_32_bits_fit_a_register(dtype: Any) -> None:
    with pytest.raises(TypeError, match="cast"):
        Rig().o.set_v(0, np.zeros(LANES, dtype))


def test_lane_masks() -> None:
    rig = Rig(PARTIAL)
    rig.o.set_s64(20, 0x8000_0000_0000_0003)
    assert rig.o.mask(20).tolist() == bools(0x8000_0000_0000_0003).tolist()
    assert rig.o.lane_bits(6).tolist() == bools(6).tolist()
    rig.o.set_mask(22, bools(0xFFFF_FFFF_0000_0001))
    assert rig.o.s64(22) == PARTIAL & 0xFFFF_FFFF_0000_0001
    rig.o.set_mask(22, 1)
    assert rig.o.s64(22) == PARTIAL
    rig.o.set_mask(22, 0)
    assert rig.o.s64(22) == 0
    assert rig.o.active().tolist() == bools(PARTIAL).tolist()
    assert rig.o.lane_id().tolist() == list(range(LANES))


def test_a_restriction_to_some_lanes_leaves_the_others_alone() -> None:
    rig = Rig()
    rig.o.set_s64(22, 0xAAAA_0000_0000_AAAA)
    o = rig.begin(0xFFFF_FFFF_FFFF_FF0F, 0xFFFF)
    assert o.active().tolist() == bools(0xFF0F).tolist()
    o.set_v(1, 9)
    assert o.v(1).tolist() == [9 if 0xFF0F >> n & 1 else 0 for n in range(LANES)]
    o.set_mask(22, bools(0x0000_FFFF_FFFF_00F5))
    assert o.s64(22) == 0xAAAA_0000_0000_0005
    assert rig.wave.s64(EXEC) == 0xFFFF_FFFF_FFFF_FF0F


def test_exec_written_by_an_instruction_counts_from_the_next_on() -> None:
    rig = Rig()
    rig.o.set_s64(EXEC, 1)
    rig.o.set_v(0, 4)
    assert rig.o.v(0).tolist() == [4] * LANES
    rig.begin(rig.wave.s64(EXEC)).set_v(0, 5)
    assert rig.o.v(0).tolist() == [5] + [4] * 63


# ---- across lanes


def test_reading_and_writing_other_lanes() -> None:
    rig = Rig(1)
    rig.wave.vgpr[2] = np.arange(100, 164)
    assert rig.o.v_at(2, lanes(63 - n for n in range(LANES))).tolist() == list(range(163, 99, -1))
    assert rig.o.v_at(2, 5).tolist() == [105] * LANES
    assert rig.o.lane(2, 63) == 163
    assert type(rig.o.lane(2, 63)) is int
    rig.o.set_lane(2, 63, 0xFFFF_FFFF)
    assert rig.wave.vgpr[2, 63] == 0xFFFF_FFFF


def test_pushing_to_other_lanes() -> None:
    rig = Rig(FULL & ~0b10)
    rig.wave.vgpr[4] = 77
    rig.o.push(4, lanes(range(LANES)), lanes((n // 2) * 2 + 1 if n > 9 else 3 for n in range(LANES)))
    got = rig.o.v(4).tolist()
    assert got[:12] == [0, 77, 0, 9, 0, 0, 0, 0, 0, 0, 0, 11]
    assert got[62:] == [0, 63]


def test_vector_registers_by_computed_number() -> None:
    rig = Rig()
    rig.wave.vgpr[:, 0] = range(256)
    assert [int(rig.o.v_indexed(250, k)[0]) for k in (0, 5, 6, 0xFFFF_FFFF)] == [250, 255, 0, 249]
    rig.o.set_v_indexed(250, 5, 1)
    rig.o.set_v_indexed(250, 6, 2)
    assert (rig.wave.vgpr[255, 9], rig.wave.vgpr[0, 9]) == (1, 0)


# ---- control


def test_control_flow() -> None:
    o = Rig().o
    assert o.target == CODE + 4
    o.branch(0, 0x40)
    assert o.target == CODE + 4
    o.branch(1, 0x40)
    assert o.target == 0x40
    o.jump(0x80)
    assert o.target == 0x80
    o.jump_to(0x1_2345_6787)
    assert o.target == 0x1_2345_6784


def test_end_and_barrier() -> None:
    rig = Rig()
    rig.o.barrier()
    assert rig.wave.words[STATUS] == AT_BARRIER
    rig.o.end()
    assert rig.wave.words[STATUS] == ENDED
    rig.o.order("waitcnt", 0)


def test_hints_are_reported() -> None:
    heard: list[tuple[int, str, int]] = []

    def hear(wave: Wave, what: str, n: int) -> None:
        heard.append((wave.index, what, n))

    Rig(on_hint=hear).o.hint("sendmsg", 3)
    Rig().o.hint("sendmsg", 3)
    assert heard == [(0, "sendmsg", 3)]


def test_traps_are_faults_unless_a_handler_goes_on() -> None:
    with pytest.raises(GuestFault, match="s_trap 2: there is no trap handler"):
        Rig().o.trap(2)
    with pytest.raises(GuestFault, match="s_trap 2: the trap handler stopped the wave"):
        Rig(on_trap=lambda wave, number: number != 2).o.trap(2)
    Rig(on_trap=lambda wave, number: number == 3).o.trap(3)
