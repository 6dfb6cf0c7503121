"""Vectors on both engines: what is refused, faults in the middle, first-fault loads, and the state that is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.core.errors import WireError
from softcard.engine.riscv.api import ILLEGAL, LOAD_ACCESS, LOAD_MISALIGNED, STORE_ACCESS, Exit, Why
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.isa.riscv import csr
from softcard.isa.riscv.csrnames import MSTATUS
from softcard.isa.riscv.state import RETURN_ADDRESS, VL, VSTART, VTYPE, Hart
from tests.engine.riscv.rig import CODE, DATA, DATA_END, ENGINES, Rig

BOTH = pytest.mark.parametrize("rig", ["reference", "quick"], indirect=True)


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Rig:
    return Rig(ENGINES[request.param]())


def go(rig: Rig, text: str, **x: int) -> Exit:
    """Run a text from a hart after reset."""
    hart, end = rig.hart, rig.place(text)
    csr.reset(hart)
    for name, value in x.items():
        hart.set_x(int(name[1:]), value)
    hart.pc, hart.words[RETURN_ADDRESS] = CODE, end
    return rig.engine.run(hart, 1000)


def element(hart: Hart, n: int, width: int, k: int) -> int:
    """Element `k` of register `n`."""
    return hart.vectors[width][n * hart.vlen // width + k]


@BOTH
@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("vadd.vv v1, v2, v3", "vtype.vill is set"),
        ("vsetvli t0, zero, e64,mf2,ta,ma\nvadd.vv v1, v2, v3", "vtype.vill is set"),
        ("vsetvli t0, zero, e8,m8,ta,ma\nvadd.vv v8, v16, v4", "v4 cannot begin a group of 8 registers"),
        (
            "vsetvli t0, zero, e8,m1,ta,ma\nvadd.vv v0, v1, v2, v0.t",
            "the destination of a masked instruction is v0, the mask, expected another",
        ),
        ("vsetvli t0, zero, e64,m1,ta,ma\nvwadd.vv v2, v4, v6", "the elements have 128 bits, expected 8, 16, 32 or 64"),
        ("vsetvli t0, zero, e8,m8,ta,ma\nvwadd.vv v0, v8, v16", "EMUL is 16 for elements of 16 bits"),
        ("vsetvli t0, zero, e8,mf8,ta,ma\nvzext.vf2 v1, v2", "the elements have 4 bits"),
        (
            "vsetvli t0, zero, e8,m1,ta,ma\nvwadd.vv v2, v2, v4",
            "the destination v2 to v3 must not overlap the source v2",
        ),
        ("vsetvli t0, zero, e8,m1,ta,ma\nvslideup.vi v2, v2, 1", "the destination v2 must not overlap the source v2"),
        ("vsetvli t0, zero, e8,m4,ta,ma\nvlseg3e8.v v4, (a0)", "3 fields of 4 registers need more than 8 registers"),
        ("vsetvli t0, zero, e8,m1,ta,ma\nvlseg8e8.v v25, (a0)", "8 fields of 1 registers from v25 end after v31"),
        (
            "vsetvli t0, zero, e8,m1,ta,ma\ncsrrwi zero, vstart, 1\nvadd.vv v1, v2, v3",
            "vstart is 1, expected 0: only loads",
        ),
        ("vsetvli t0, zero, e32,m1,ta,ma\ncsrrwi zero, frm, 5\nvfsgnj.vv v1, v2, v3", "frm is 5, which is reserved"),
        ("csrrw zero, mstatus, zero\nvsetvli t0, zero, e8,m1,ta,ma", "mstatus.VS is Off"),
        ("vl2re8.v v3, (a0)", "v3 cannot begin a group of 2 registers"),
    ],
)
def test_what_is_reserved_is_illegal_with_a_sentence(rig: Rig, text: str, reported: str) -> None:
    end = go(rig, text)
    assert (end.why, end.cause) == (Why.TRAP, ILLEGAL)
    assert reported in end.detail
    assert end.instruction == text.splitlines()[-1].replace(", ", ",")


@BOTH
def test_a_fault_leaves_vstart_at_its_element_and_the_instruction_goes_on_there(rig: Rig) -> None:
    load = "vsetivli t0, 8, e64,m1,ta,ma\nvlse64.v v1, (a0), a1"
    end = go(rig, load, x10=DATA_END - 24, x11=8)
    assert (end.cause, end.value, rig.hart.words[VSTART], rig.hart.words[VL]) == (LOAD_ACCESS, DATA_END, 3, 8)
    rig.hart.set_x(10, DATA)
    rig.hart.pc = CODE + 4
    assert rig.engine.run(rig.hart, 1).pc == CODE + 8
    assert (rig.hart.words[VSTART], rig.hart.retired) == (0, 2)
    end = go(rig, load.replace("vlse", "vsse"), x10=DATA_END - 24, x11=8)
    assert (end.cause, end.value, rig.hart.words[VSTART]) == (STORE_ACCESS, DATA_END, 3)
    end = go(rig, load, x10=DATA, x11=4)
    assert (end.cause, end.value, rig.hart.words[VSTART]) == (LOAD_MISALIGNED, DATA + 4, 1)


@BOTH
def test_a_first_fault_load_ends_the_body(rig: Rig) -> None:
    end = go(rig, "vsetivli t0, 8, e64,m1,ta,ma\nvle64ff.v v1, (a0)", x10=DATA_END - 24)
    assert (end.why, rig.hart.words[VL], rig.hart.words[VSTART]) == (Why.RETURN, 3, 0)
    end = go(rig, "vsetivli t0, 8, e64,m1,ta,ma\nvle64ff.v v1, (a0)", x10=DATA_END)
    assert (end.cause, end.value, rig.hart.words[VL], rig.hart.words[VSTART]) == (LOAD_ACCESS, DATA_END, 8, 0)


@BOTH
def test_agnostic_elements_keep_their_values(rig: Rig) -> None:
    text = "vsetivli t0, 4, e8,m1,tu,mu\nvmv.v.i v0, 5\nvmv.v.i v1, 7\nvsetivli t0, 3, e8,m1,ta,ma\nvmv.v.i v2, 9"
    go(rig, f"{text}\nvadd.vi v1, v2, 1, v0.t")
    assert [element(rig.hart, 1, 8, k) for k in range(5)] == [10, 7, 10, 7, 0]


@BOTH
def test_registers_and_csrs_are_part_of_a_snapshot(rig: Rig) -> None:
    go(rig, "vsetivli t0, 9, e16,m2,ta,ma\nvmv.v.i v2, -3\ncsrrwi zero, vcsr, 5")
    hart = rig.hart
    kept = hart.snapshot()
    before = bytes(hart.own_vectors)
    csr.reset(hart)
    assert not any(hart.own_vectors)
    hart.restore(kept)
    assert bytes(hart.own_vectors) == before
    assert (hart.words[VL], hart.words[VTYPE], csr.read(hart, 0xF, 3)) == (9, 0xC9, 5)
    assert element(hart, 2, 16, 8) == 0xFFFD


@BOTH
def test_a_vector_instruction_makes_vectors_dirty(rig: Rig) -> None:
    end = rig.place("vsetivli t0, 4, e8,m1,ta,ma")
    csr.reset(rig.hart)
    rig.hart.csr[MSTATUS] = 1 << 9
    rig.hart.pc, rig.hart.words[RETURN_ADDRESS] = CODE, end
    rig.engine.run(rig.hart, 1)
    assert rig.hart.csr[MSTATUS] == 3 << 9


@pytest.mark.parametrize("bits", [0, 32, 96, -512, 1 << 17])
def test_widths_of_registers_that_do_not_exist(bits: int) -> None:
    with pytest.raises(WireError, match=f"a power of two of bits, 64 to 65536, not {bits}"):
        csr.reset(Rig(ENGINES["reference"]()).hart, bits)


@BOTH
@pytest.mark.parametrize("vlen", [64, 128, 65536])
def test_width_of_registers(rig: Rig, vlen: int) -> None:
    end = rig.place("vsetvli a0, zero, e8,m8,ta,ma\ncsrrs a1, vlenb, zero")
    csr.reset(rig.hart, vlen)
    rig.hart.pc, rig.hart.words[RETURN_ADDRESS] = CODE, end
    rig.engine.run(rig.hart, 10)
    assert (rig.hart.x(10), rig.hart.x(11)) == (vlen, vlen // 8)


@BOTH
def test_estimates_have_seven_bits(rig: Rig) -> None:
    """All 128 entries of both tables, for the even and the odd exponents."""
    places = np.arange(256, dtype=np.uint32)
    a = (places >> 7) + 127 << 23 | (places & 127) << 16 | 0x8000
    x = a.astype(np.uint32).view(np.float32).astype(np.float64)
    text = "vsetvli t0, zero, e32,m8,ta,ma\nvfrec7.v v16, v8\nvfrsqrt7.v v24, v8"
    end = rig.place(text)
    for part in range(2):
        csr.reset(rig.hart)
        rig.hart.own_vectors[512:1024] = a[128 * part : 128 * part + 128].astype("<u4").tobytes()
        rig.hart.pc, rig.hart.words[RETURN_ADDRESS] = CODE, end
        rig.engine.run(rig.hart, 10)
        found = np.frombuffer(bytes(rig.hart.own_vectors[1024:]), "<f4").astype(np.float64).reshape(2, 128)
        some = x[128 * part : 128 * part + 128]
        assert np.all(abs(found[0] * some - 1) < 2**-7)
        assert np.all(abs(found[1] * some**0.5 - 1) < 2**-7)


def test_a_loop_is_translated_for_the_vtype_that_it_is_met_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vset* stands before the loop, where code is cold."""
    rig = Rig(ENGINES["quick"]())
    stepped: list[int] = []
    steps = JitEngine.steps

    def noted(self: JitEngine, hart: Hart, *more: Any) -> Any:
        stepped.append(hart.pc)
        return steps(self, hart, *more)

    monkeypatch.setattr(JitEngine, "steps", noted)
    end = rig.place("loop: vadd.vv v2, v2, v4\naddi x10, x10, -1\nbne x10, zero, loop")
    for bits, vl in ((0xD0, 16), (0xD9, 16), (0xD0, 5)):
        csr.reset(rig.hart)
        rig.hart.words[VTYPE], rig.hart.words[VL] = bits, vl
        rig.hart.own_vectors[4 * 64 : 6 * 64] = bytes(range(128))
        rig.hart.set_x(10, 20)
        rig.hart.pc, rig.hart.words[RETURN_ADDRESS] = CODE, end
        stepped.clear()
        assert rig.engine.run(rig.hart, 1000).why is Why.RETURN
        width = 32 if bits == 0xD0 else 64
        assert element(rig.hart, 2, width, vl - 1) == element(rig.hart, 4, width, vl - 1) * 20 % (1 << width)
        assert (len(stepped) == 0) == (bits == 0xD0), "another vtype than at first is left to the reference engine"


CSRS_OF_VECTORS = """loop: vsetvli x5, x11, e8,m8,ta,ma
csrrs x12, vl, x0
csrrs x13, vtype, x0
csrrsi x14, vlenb, 0
csrrwi x0, vcsr, 31
csrrci x15, vxsat, 1
csrrs x16, vcsr, x0
csrrwi x17, vxrm, 6
csrrwi x0, vstart, 9
csrrwi x18, vstart, 0
csrrs x0, vstart, x11
csrrw x19, vstart, x0
addi x10, x10, -1
bne x10, x0, loop"""


@BOTH
def test_csrs_of_vectors_are_translated(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped: list[int] = []
    steps = JitEngine.steps
    monkeypatch.setattr(
        JitEngine, "steps", lambda self, hart, *more: stepped.append(hart.pc) or steps(self, hart, *more)
    )
    for _ in range(2):
        stepped.clear()
        assert go(rig, CSRS_OF_VECTORS, x10=8, x11=1000).why is Why.RETURN
    assert [rig.hart.x(n) for n in range(12, 20)] == [512, 0xC3, 64, 1, 6, 3, 9, 1000 & 511]
    assert (rig.hart.words[VSTART], csr.read(rig.hart, 0xF, 3)) == (0, 4)
    assert stepped == []


@BOTH
@pytest.mark.parametrize("text", ["csrrw x0, vl, x10", "csrrsi x0, vtype, 1", "csrrci x5, vlenb, 1"])
def test_what_vset_writes_is_read_only(rig: Rig, text: str) -> None:
    end = go(rig, f"vsetivli x5, 4, e8,m1,ta,ma\ncsrrs x6, vl, x0\n{text}")
    assert (end.why, end.cause, rig.hart.x(6)) == (Why.TRAP, ILLEGAL, 4)
    assert "read-only csr" in end.detail


@BOTH
def test_a_csr_of_vectors_is_illegal_while_they_are_off(rig: Rig) -> None:
    end = go(rig, "csrrw x0, mstatus, x0\ncsrrs x6, vl, x0")
    assert (end.why, end.cause) == (Why.TRAP, ILLEGAL)
    assert "mstatus.VS is Off" in end.detail


@BOTH
@pytest.mark.parametrize("vtype", ["e8,mf8", "e8,m1", "e16,m1", "e32,mf2", "e64,m1"])
def test_ranks_are_counts_of_the_bits_before(rig: Rig, vtype: str) -> None:
    """Eight elements of each width, in one register."""
    text = f"vsetivli t0, 8, {vtype},ta,ma\naddi t1, zero, 0x5b\nvmv.v.x v8, t1\nvmv.v.i v0, -2"
    assert (
        go(rig, f"{text}\nvmv.v.i v4, -1\nviota.m v4, v8, v0.t\nvmsbf.m v5, v8\nvmsif.m v6, v8, v0.t").why is Why.RETURN
    )
    bits, width = 0x5B, int(vtype.split(",")[0][1:])
    counts = [(1 << width) - 1] + [(bits & 0xFE & (1 << k) - 1).bit_count() for k in range(1, 8)]
    assert [element(rig.hart, 4, width, k) for k in range(8)] == counts
    assert [element(rig.hart, n, 8, 0) for n in (5, 6)] == [0, 2]
