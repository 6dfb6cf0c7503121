"""What the reference driver's profiler counts."""

from __future__ import annotations

import pytest

from softcard.core.space import Unit
from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.profiler import counters_of
from softcard.device.refsi.registers import Counter
from softcard.isa.riscv.decode import assemble, decode
from tests.device.refsi.m1 import OUT, Bench

HART0 = Unit(HART, 0)
C = Counter


def counted(text: str) -> set[C]:
    code = assemble(text)
    return {C(slot) for slot in counters_of(decode(int.from_bytes(code, "little")))}


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("lb a0, 0(a1)", {C.READ_INSN, C.READ_BYTE_INSN}),
        ("lhu a0, 0(a1)", {C.READ_INSN, C.READ_SHORT_INSN}),
        ("lwu a0, 0(a1)", {C.READ_INSN, C.READ_WORD_INSN}),
        ("ld a0, 0(a1)", {C.READ_INSN, C.READ_DOUBLE_INSN}),
        ("fld fa0, 0(a1)", {C.READ_INSN, C.READ_DOUBLE_INSN}),
        ("sd a0, 0(a1)", {C.WRITE_INSN, C.WRITE_DOUBLE_INSN}),
        ("fsw fa0, 0(a1)", {C.WRITE_INSN, C.WRITE_WORD_INSN}),
        ("c.ld a0, 0(a1)", {C.READ_INSN, C.READ_WORD_INSN}),
        ("c.sd a0, 0(a1)", {C.WRITE_INSN, C.WRITE_WORD_INSN}),
        ("c.fld fa0, 0(a1)", {C.READ_INSN, C.READ_DOUBLE_INSN}),
        ("lr.w a0, (a1)", {C.READ_INSN, C.READ_WORD_INSN}),
        ("sc.d a0, a2, (a1)", {C.WRITE_INSN, C.WRITE_DOUBLE_INSN}),
        (
            "amoadd.w a0, a2, (a1)",
            {C.READ_INSN, C.READ_WORD_INSN, C.INT_INSN, C.WRITE_INSN, C.WRITE_WORD_INSN},
        ),
        ("amoxor.w a0, a2, (a1)", set()),
        ("amomin.d a0, a2, (a1)", set()),
        ("addi a0, a0, 1", {C.INT_INSN}),
        ("c.nop", {C.INT_INSN}),
        ("c.addiw a0, 1", {C.INT_INSN}),
        ("remuw a0, a1, a2", {C.INT_INSN}),
        ("clmul a0, a1, a2", set()),
        ("lui a0, 1", set()),
        ("c.lui a0, 1", {C.INT_INSN}),
        ("auipc a0, 1", set()),
        ("sltiu a0, a0, 1", set()),
        ("sltiu a0, a0, 2", {C.INT_INSN}),
        ("xori a0, a0, -1", set()),
        ("xori a0, a0, 1", {C.INT_INSN}),
        ("fadd.s fa0, fa1, fa2", {C.FLOAT_INSN}),
        ("fmv.x.d a0, fa0", {C.FLOAT_INSN}),
        ("beq a0, a1, 8", {C.BRANCH_INSN}),
        ("jal zero, 8", {C.BRANCH_INSN}),
        ("jal ra, 8", set()),
        ("jalr zero, 0(ra)", set()),
        ("jalr zero, 0(a0)", {C.BRANCH_INSN}),
        ("jalr ra, 0(a0)", set()),
        ("jalr ra, 4(a0)", {C.BRANCH_INSN}),
        ("c.jr ra", set()),
        ("c.jr a0", {C.INT_INSN}),
        ("c.jalr a0", {C.INT_INSN}),
        ("c.ebreak", {C.INT_INSN}),
        ("c.j 8", {C.BRANCH_INSN}),
        ("csrrs a0, mhartid, zero", set()),
        ("vle32.v v8, (a0), v0.t", {C.READ_INSN, C.READ_WORD_INSN}),
        ("vle8ff.v v8, (a0)", {C.READ_INSN, C.READ_BYTE_INSN}),
        ("vloxei16.v v8, (a0), v16", {C.READ_INSN, C.READ_SHORT_INSN}),
        ("vsse64.v v8, (a0), a1", {C.WRITE_INSN, C.WRITE_DOUBLE_INSN}),
        ("vlseg2e32.v v8, (a0)", set()),
        ("vl1re8.v v8, (a0)", set()),
        ("vlm.v v8, (a0)", set()),
        ("vadd.vi v8, v16, 1", {C.INT_INSN}),
        ("vsub.vv v8, v16, v24", {C.INT_INSN}),
        ("vsub.vx v8, v16, a0", set()),
        ("vand.vv v8, v16, v24", set()),
        ("vmadc.vvm v8, v16, v24, v0", {C.INT_INSN}),
        ("vmadc.vv v8, v16, v24", set()),
        ("vnclip.wi v8, v16, 3", {C.INT_INSN}),
        ("vmv.v.x v8, a0", {C.INT_INSN}),
        ("vmv.x.s a0, v8", set()),
        ("vfmacc.vf v8, fa0, v16", {C.FLOAT_INSN}),
        ("vfncvt.rod.f.f.w v8, v16", {C.FLOAT_INSN}),
        ("vfmv.f.s fa0, v8", set()),
        ("vfredosum.vs v8, v16, v24", set()),
        ("vredsum.vs v8, v16, v24", set()),
        ("vrgather.vv v8, v16, v24", set()),
        ("vsetvli a0, a1, e8,m1,ta,ma", set()),
        ("ecall", set()),
        ("fence", set()),
    ],
)
def test_classes(text: str, slots: set[C]) -> None:
    assert counted(text) == slots


def counters(level: int, kernel: str) -> list[int]:
    bench = Bench("refsidrv", profile_level=level)
    bench.run(*bench.kernel(kernel, OUT, OUT, OUT + 64, 8))
    return [int.from_bytes(bench.device.accelerator.counters.load(8 * k, 8, HART0) or b"", "little") for k in range(18)]


def test_levels() -> None:
    assert counters(2, "k_vecadd") == [0x4E, 0, 0x4E] + [0] * 15
    assert counters(3, "k_vecadd") == [0x4E, 0, 0x4E, 0, 0, 16, 0, 0, 16, 0, 0, 8, 0, 0, 8, 44, 0, 9]


def test_instructions_that_trap_count_without_retiring() -> None:
    values = counters(3, "k_loadfault")
    assert values[C.RETIRED_INSN] == 1
    assert (values[C.READ_INSN], values[C.READ_DOUBLE_INSN]) == (1, 1)
    assert counters(3, "k_illegal")[C.INT_INSN] == 1, "an all-zero parcel looks like c.addi4spn"
