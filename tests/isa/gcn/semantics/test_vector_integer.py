"""Vector integer operations against Python integers: every one, on every generation, both encodings, clamp."""

from __future__ import annotations

import pytest

from softcard.isa.gcn.insn import Op
from softcard.isa.gcn.target import target
from tests.isa.gcn.semantics.alu_rig import (
    FULL,
    GPUS,
    HARD,
    OPS,
    OUT_MASK_AT,
    PARTIAL,
    Alu,
    batches,
    forms,
    operation,
    vector_results,
    width,
)
from tests.isa.gcn.semantics.integer_oracle import VECTOR, Oracle, clamped

LANES_DIFFER = {"v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32"}


def integer_ops(gpu: str) -> list[Op]:
    t = target(gpu)
    return [op for op in OPS if op.on(t) and op.family in ("vop1", "vop2", "vop3", "vop3p") and is_integer(op)]


def is_integer(op: Op) -> bool:
    return op.signature is not None and all(kind[0] in "biumpo" for kind in (*op.results, *op.sources))


def lanes_of(exec_: int) -> list[int]:
    return [n for n in range(64) if exec_ >> n & 1]


def wrapped(op: Op, result: object) -> tuple[int, ...]:
    parts = result if isinstance(result, tuple) else (result,)
    return tuple(
        int(n) & (1 << width(kind)) - 1 if kind != "m64" else int(n) for n, kind in zip(parts, op.results, strict=True)
    )


def check(op: Op, form: str, gpu: str, oracle: Oracle, exec_: int, clamp: int) -> None:
    kinds = [kind for kind in op.sources if kind != "old"]
    widths = [1 if kind == "m64" else width(kind) for kind in kinds]
    # 16-bit sources have junk above them.
    for columns in batches(widths, lambda w: HARD[w]):
        junk = [[n | 0xA5C3_0000 if w == 16 else n for n in column] for w, column in zip(widths, columns, strict=True)]
        packed = {"op_sel_hi": 7} if form == "VOP3P" else {}
        found = vector_results(op, form, junk, gpu, exec_=exec_, clamp=clamp, **packed)
        for lane, got in zip(lanes_of(exec_), found, strict=True):
            sources = [column[lane] for column in columns]
            expected = wrapped(op, oracle(*sources))
            if width(op.results[0]) == 16 and op.results[0] not in ("p16", "h16"):
                got = (got[0] & 0xFFFF, *got[1:])
            assert got == expected, f"{op.name} ({form}, {gpu}, clamp {clamp}) of {[hex(n) for n in sources]}"


@pytest.mark.slow
@pytest.mark.parametrize("gpu", GPUS)
def test_every_operation(subtests: pytest.Subtests, gpu: str) -> None:
    for op in integer_ops(gpu):
        with subtests.test(op.name):
            if op.name not in LANES_DIFFER:
                for exec_, form in zip((FULL, PARTIAL), (forms(op) * 2)[:2], strict=True):
                    check(op, form, gpu, VECTOR[op.name], exec_, 0)


@pytest.mark.parametrize("gpu", GPUS[1:])
def test_clamp_saturates_integers(subtests: pytest.Subtests, gpu: str) -> None:
    for op in integer_ops(gpu):
        with subtests.test(op.name):
            oracle = clamped(op.name)
            assert (oracle is not None) == (op.clamped is not None), op.name
            if oracle is not None:
                check(op, forms(op)[-1], gpu, oracle, PARTIAL, 1)


def test_gfx7_does_not_saturate_integers() -> None:
    op = operation("v_sad_u32", "gfx700")
    found = vector_results(op, "VOP3A", [[0xFFFF_FFFF] * 64, [0] * 64, [5] * 64], "gfx700", clamp=1)
    assert set(found) == {(4,)}


def test_the_oracle_has_nothing_else() -> None:
    known = {op.name for gpu in GPUS for op in integer_ops(gpu)}
    assert set(VECTOR) == known - LANES_DIFFER


@pytest.mark.parametrize("gpu", ["gfx700", "gfx900"])
def test_mbcnt_counts_bits_of_lower_lanes(gpu: str) -> None:
    mask = 0x9E37_79B9_7F4A_7C15
    alu = Alu(gpu, exec_=PARTIAL)
    alu.set_s(4, mask)
    alu.set_s(5, mask >> 32)
    suffix = "_e64" if gpu == "gfx700" else ""
    alu.run(f"v_mbcnt_lo_u32_b32{suffix} v1, s4, 7", f"v_mbcnt_hi_u32_b32{suffix} v1, s5, v1")
    for lane, count in enumerate(alu.v(1)):
        if PARTIAL >> lane & 1:
            assert count == 7 + (mask & (1 << lane) - 1).bit_count()


def test_carry_out_may_go_anywhere_and_carry_in_may_come_from_there() -> None:
    alu = Alu("gfx900")
    alu.set_v(1, [0xFFFF_FFFF] * 64)
    alu.set_v(2, list(range(64)))
    alu.run("v_add_co_u32_e64 v3, s[30:31], v1, v2")
    assert alu.s64(OUT_MASK_AT) == FULL - 1
    alu.run("v_addc_co_u32_e64 v4, s[32:33], v1, v2, s[30:31]")
    assert alu.v(4) == [0xFFFF_FFFF, *range(1, 64)]
    assert alu.s64(32) == FULL - 1
