"""Scalar operations against Python integers: every one with a signature, on every generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from softcard.isa.gcn.insn import Op
from softcard.isa.gcn.state import EXEC
from softcard.isa.gcn.target import target
from tests.isa.gcn.semantics.alu_rig import FULL, GPUS, HARD, OPS, Alu, batches, signed
from tests.isa.gcn.semantics.integer_oracle import (
    M32,
    bfe_i,
    bfe_u,
    carried,
    i32,
    join,
    leading,
    quad_masks,
    sign_run,
    trailing,
)

Oracle = Callable[..., Any]
"""Gives the results in the order: destination, EXEC, SCC, as far as the operation has them."""


def nonzero(w: int, f: Oracle) -> Oracle:
    """SCC = the result is not 0."""

    def oracle(*sources: int) -> tuple[int, int]:
        result = f(*sources) & (1 << w) - 1
        return result, int(result != 0)

    return oracle


def overflowing(f: Oracle) -> Oracle:
    """SCC = signed overflow."""

    def oracle(*sources: int) -> tuple[int, int]:
        exact = f(*map(i32, sources))
        return exact & M32, int(exact != i32(exact))

    return oracle


def chosen(f: Oracle) -> Oracle:
    """SCC = the first source was taken."""
    return lambda a, b: (a, 1) if f(a, b) else (b, 0)


def size(b: int) -> int:
    return b >> 16 & 0x7F


def shift_add(k: int) -> Oracle:
    return lambda a, b: ((a << k) + b & M32, int((a << k) + b > M32))


def first(n: int) -> int:
    return trailing(n) if n else -1


def saveexec(f: Oracle) -> Oracle:
    def oracle(a: int, mask: int) -> tuple[int, int, int]:
        new = f(a, mask) & FULL
        return mask, new, int(new != 0)

    return oracle


def wrexec(f: Oracle) -> Oracle:
    def oracle(a: int, mask: int) -> tuple[int, int, int]:
        new = f(a, mask) & FULL
        return new, new, int(new != 0)

    return oracle


def two(name: str, f: Oracle) -> dict[str, Oracle]:
    """Both widths of a bitwise operation."""
    return {f"s_{name}_b32": nonzero(32, f), f"s_{name}_b64": nonzero(64, f)}


ORACLE: dict[str, Oracle] = {
    "s_add_u32": lambda a, b: carried(a + b),
    "s_sub_u32": lambda a, b: carried(a - b),
    "s_add_i32": overflowing(lambda a, b: a + b),
    "s_sub_i32": overflowing(lambda a, b: a - b),
    "s_addc_u32": lambda a, b, c: carried(a + b + c),
    "s_subb_u32": lambda a, b, c: carried(a - b - c),
    "s_min_i32": chosen(lambda a, b: i32(a) < i32(b)),
    "s_min_u32": chosen(lambda a, b: a < b),
    "s_max_i32": chosen(lambda a, b: i32(a) >= i32(b)),
    "s_max_u32": chosen(lambda a, b: a >= b),
    "s_cselect_b32": lambda a, b, c: a if c else b,
    "s_cselect_b64": lambda a, b, c: a if c else b,
    **two("and", lambda a, b: a & b),
    **two("or", lambda a, b: a | b),
    **two("xor", lambda a, b: a ^ b),
    **two("andn2", lambda a, b: a & ~b),
    **two("orn2", lambda a, b: a | ~b),
    **two("nand", lambda a, b: ~(a & b)),
    **two("nor", lambda a, b: ~(a | b)),
    **two("xnor", lambda a, b: ~(a ^ b)),
    "s_lshl_b32": nonzero(32, lambda a, b: a << (b & 31)),
    "s_lshl_b64": nonzero(64, lambda a, b: a << (b & 63)),
    "s_lshr_b32": nonzero(32, lambda a, b: a >> (b & 31)),
    "s_lshr_b64": nonzero(64, lambda a, b: a >> (b & 63)),
    "s_ashr_i32": nonzero(32, lambda a, b: i32(a) >> (b & 31)),
    "s_ashr_i64": nonzero(64, lambda a, b: signed(64, a) >> (b & 63)),
    "s_bfm_b32": lambda a, b: (1 << (a & 31)) - 1 << (b & 31),
    "s_bfm_b64": lambda a, b: (1 << (a & 63)) - 1 << (b & 63),
    "s_mul_i32": lambda a, b: a * b,
    "s_bfe_u32": nonzero(32, lambda a, b: bfe_u(a, b & 31, size(b))),
    "s_bfe_i32": nonzero(32, lambda a, b: bfe_i(32, a, b & 31, size(b))),
    "s_bfe_u64": nonzero(64, lambda a, b: bfe_u(a, b & 63, size(b))),
    "s_bfe_i64": nonzero(64, lambda a, b: bfe_i(64, a, b & 63, size(b))),
    "s_absdiff_i32": nonzero(32, lambda a, b: abs(i32(a - b))),
    "s_mul_hi_u32": lambda a, b: a * b >> 32,
    "s_mul_hi_i32": lambda a, b: i32(a) * i32(b) >> 32,
    **{f"s_lshl{k}_add_u32": shift_add(k) for k in (1, 2, 3, 4)},
    "s_pack_ll_b32_b16": join,
    "s_pack_lh_b32_b16": lambda a, b: join(a, b >> 16),
    "s_pack_hh_b32_b16": lambda a, b: join(a >> 16, b >> 16),
    "s_mov_b32": lambda a: a,
    "s_mov_b64": lambda a: a,
    "s_cmov_b32": lambda a, old, c: a if c else old,
    "s_cmov_b64": lambda a, old, c: a if c else old,
    "s_not_b32": nonzero(32, lambda a: ~a),
    "s_not_b64": nonzero(64, lambda a: ~a),
    "s_wqm_b32": nonzero(32, lambda a: sum(15 * bit << 4 * k for k, bit in enumerate(quad_masks(32, a)))),
    "s_wqm_b64": nonzero(64, lambda a: sum(15 * bit << 4 * k for k, bit in enumerate(quad_masks(64, a)))),
    "s_brev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "s_brev_b64": lambda a: int(f"{a:064b}"[::-1], 2),
    "s_bcnt0_i32_b32": nonzero(32, lambda a: 32 - a.bit_count()),
    "s_bcnt0_i32_b64": nonzero(32, lambda a: 64 - a.bit_count()),
    "s_bcnt1_i32_b32": nonzero(32, lambda a: a.bit_count()),
    "s_bcnt1_i32_b64": nonzero(32, lambda a: a.bit_count()),
    "s_ff0_i32_b32": lambda a: first(~a & M32),
    "s_ff0_i32_b64": lambda a: first(~a & FULL),
    "s_ff1_i32_b32": first,
    "s_ff1_i32_b64": first,
    "s_flbit_i32_b32": lambda a: leading(a, 32),
    "s_flbit_i32_b64": lambda a: leading(a, 64),
    "s_flbit_i32": lambda a: sign_run(a, 32),
    "s_flbit_i32_i64": lambda a: sign_run(a, 64),
    "s_sext_i32_i8": lambda a: signed(8, a),
    "s_sext_i32_i16": lambda a: signed(16, a),
    "s_bitset0_b32": lambda a, old: old & ~(1 << (a & 31)),
    "s_bitset0_b64": lambda a, old: old & ~(1 << (a & 63)),
    "s_bitset1_b32": lambda a, old: old | 1 << (a & 31),
    "s_bitset1_b64": lambda a, old: old | 1 << (a & 63),
    "s_and_saveexec_b64": saveexec(lambda a, e: a & e),
    "s_or_saveexec_b64": saveexec(lambda a, e: a | e),
    "s_xor_saveexec_b64": saveexec(lambda a, e: a ^ e),
    "s_andn2_saveexec_b64": saveexec(lambda a, e: a & ~e),
    "s_orn2_saveexec_b64": saveexec(lambda a, e: a | ~e),
    "s_nand_saveexec_b64": saveexec(lambda a, e: ~(a & e)),
    "s_nor_saveexec_b64": saveexec(lambda a, e: ~(a | e)),
    "s_xnor_saveexec_b64": saveexec(lambda a, e: ~(a ^ e)),
    "s_andn1_saveexec_b64": saveexec(lambda a, e: ~a & e),
    "s_orn1_saveexec_b64": saveexec(lambda a, e: ~a | e),
    "s_andn1_wrexec_b64": wrexec(lambda a, e: ~a & e),
    "s_andn2_wrexec_b64": wrexec(lambda a, e: a & ~e),
    "s_quadmask_b32": nonzero(32, lambda a: sum(bit << k for k, bit in enumerate(quad_masks(32, a)))),
    "s_quadmask_b64": nonzero(64, lambda a: sum(bit << k for k, bit in enumerate(quad_masks(64, a)))),
    "s_abs_i32": nonzero(32, lambda a: abs(i32(a))),
    "s_bitreplicate_b64_b32": lambda a: sum((a >> k & 1) * 3 << 2 * k for k in range(32)),
    "s_bitcmp0_b32": lambda a, b: int(not a >> (b & 31) & 1),
    "s_bitcmp1_b32": lambda a, b: a >> (b & 31) & 1,
    "s_bitcmp0_b64": lambda a, b: int(not a >> (b & 63) & 1),
    "s_bitcmp1_b64": lambda a, b: a >> (b & 63) & 1,
    "s_cmp_eq_u64": lambda a, b: int(a == b),
    "s_cmp_lg_u64": lambda a, b: int(a != b),
    "s_movk_i32": lambda k: signed(16, k),
    "s_cmovk_i32": lambda k, old, c: signed(16, k) if c else old,
    "s_addk_i32": lambda k, old: overflowing(lambda a, b: a + b)(old, signed(16, k) & M32),
    "s_mulk_i32": lambda k, old: i32(old) * signed(16, k),
}  # fmt: skip
COMPARISONS: dict[str, Oracle] = {
    "eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
}  # fmt: skip
for _name, _f in COMPARISONS.items():
    ORACLE[f"s_cmp_{_name}_i32"] = lambda a, b, f=_f: int(f(i32(a), i32(b)))
    ORACLE[f"s_cmp_{_name}_u32"] = lambda a, b, f=_f: int(f(a, b))
    ORACLE[f"s_cmpk_{_name}_i32"] = lambda a, k, f=_f: int(f(i32(a), signed(16, k)))
    ORACLE[f"s_cmpk_{_name}_u32"] = lambda a, k, f=_f: int(f(a, k & 0xFFFF))


def operations(gpu: str) -> list[Op]:
    t = target(gpu)
    return [op for op in OPS if op.on(t) and op.family.startswith("sop") and op.signature is not None]


def bits(kind: str) -> int:
    return {"scc": 1, "exec": 64, "simm": 16, "uimm": 16}.get(kind) or int(kind[1:])


DST, SOURCES = 20, (4, 8)


def execute(op: Op, alu: Alu, sources: Sequence[int]) -> tuple[int, ...]:
    """Destination, EXEC and SCC, as far as the operation has them."""
    fields = {"sdst": DST, "simm16": 0, "ssrc0": SOURCES[0], "ssrc1": SOURCES[1]}
    places = iter((DST,) if op.family == "sopk" else SOURCES)
    for kind, value in zip(op.sources, sources, strict=True):
        if kind == "scc":
            alu.scc = value
        elif kind == "exec":
            alu.set_s64(EXEC, value)
        elif kind == "old":
            alu.set_s64(DST, value)
        elif kind in ("simm", "uimm"):
            fields["simm16"] = value
        else:
            alu.set_s64(next(places), value)
    alu.execute(op, op.family.upper(), **fields)
    found = []
    for kind in sorted(op.results, key=lambda kind: ("exec", "scc").index(kind) + 1 if kind in ("exec", "scc") else 0):
        found.append(
            alu.scc if kind == "scc" else alu.s64(EXEC) if kind == "exec" else alu.s64(DST) & (1 << bits(kind)) - 1
        )
    return tuple(found)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", GPUS[:3])
def test_every_operation(subtests: pytest.Subtests, gpu: str) -> None:
    alu = Alu(gpu)
    for op in operations(gpu):
        with subtests.test(op.name):
            kinds = [bits(kind if kind != "old" else next(k for k in op.results if k != "scc")) for kind in op.sources]
            first_result = next((bits(k) for k in op.results if k not in ("scc", "exec")), 1)
            # The second batch of columns is the random one.
            for columns in list(batches(kinds, lambda w: HARD[w], limit=1)):
                for sources in zip(*columns, strict=True):
                    wanted = ORACLE[op.name](*sources)
                    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
                    expected = (wanted[0] & (1 << first_result) - 1, *wanted[1:])
                    assert execute(op, alu, sources) == expected, f"{op.name} of {[hex(n) for n in sources]}"


def test_the_oracle_has_nothing_else() -> None:
    assert set(ORACLE) == {op.name for gpu in GPUS for op in operations(gpu)}
