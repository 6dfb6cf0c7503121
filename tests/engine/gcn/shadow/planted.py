"""Small programs with one mistake each, and the same without it: what is undefined or approximate decides something."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

STORE = "s_mov_b32 m0, -1 | v_lshlrev_b32 v1, 2, v0 | "
"""v1: the byte offset of a lane's dword in LDS."""


@dataclass(frozen=True)
class Planted:
    """A mistake: the instruction that is told of (by its mnemonic), what it does, and both texts.

    `init` or `fidelity` is the check.
    """

    name: str
    what: str
    insn: str
    wrong: str
    right: str
    check: str = "init"
    options: dict[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ("gfx700", "gfx803", "gfx900")


SKIP = "s_nop 0\nL: s_endpgm"
LDS = {"lds_bytes": 512}
END = " | s_endpgm"
CASES = (
    Planted(
        "an atomic takes its operand from LDS",
        "atomic",
        "ds_add_src2_u32",
        STORE + "ds_write_b32 v1, v0 | ds_add_src2_u32 v1 offset:16" + END,
        STORE + "ds_write_b32 v1, v0 | ds_write_b32 v1, v0 offset:256 | ds_add_src2_u32 v1 offset:16" + END,
        options=LDS,
    ),
    Planted(
        "a vector register decides EXEC",
        "exec",
        "s_and_saveexec_b64",
        "v_cmp_gt_u32 vcc, v5, v0 | s_and_saveexec_b64 s[20:21], vcc" + END,
        "v_mov_b32 v5, 3 | v_cmp_gt_u32 vcc, v5, v0 | s_and_saveexec_b64 s[20:21], vcc" + END,
    ),
    Planted(
        "a scalar register decides a branch",
        "branch",
        "s_cbranch_scc1",
        "s_cmp_eq_u32 s30, 0 | s_cbranch_scc1 L |" + SKIP,
        "s_mov_b32 s30, 0 | s_cmp_eq_u32 s30, 0 | s_cbranch_scc1 L |" + SKIP,
    ),
    Planted(
        "SCC that nothing set",
        "branch",
        "s_cbranch_scc0",
        "s_cbranch_scc0 L |" + SKIP,
        "s_cmp_eq_u32 s0, s0 | s_cbranch_scc0 L |" + SKIP,
    ),
    Planted(
        "VCC that nothing set",
        "branch",
        "s_cbranch_vccz",
        "s_cbranch_vccz L |" + SKIP,
        "s_mov_b64 vcc, 0 | s_cbranch_vccz L |" + SKIP,
    ),
    Planted(
        "LDS read before it is written",
        "branch",
        "s_cbranch_vccz",
        STORE + "ds_read_b32 v2, v1 | s_waitcnt lgkmcnt(0) | v_cmp_gt_u32 vcc, v2, v0 | s_cbranch_vccz L |" + SKIP,
        STORE
        + "ds_write_b32 v1, v0 | ds_read_b32 v2, v1 | s_waitcnt lgkmcnt(0) | v_cmp_gt_u32 vcc, v2, v0 |"
        + "s_cbranch_vccz L |"
        + SKIP,
        options=LDS,
    ),
    Planted(
        "the neighbour's half of LDS",
        "branch",
        "s_cbranch_vccnz",
        STORE
        + "ds_write_b32 v1, v0 | ds_read_b32 v2, v1 offset:4 | s_waitcnt lgkmcnt(0) | v_cmp_gt_u32 vcc, v2, v0 |"
        + "s_cbranch_vccnz L |"
        + SKIP,
        STORE
        + "ds_write_b32 v1, v0 | ds_write_b32 v1, v0 offset:4 | ds_read_b32 v2, v1 offset:4 | s_waitcnt lgkmcnt(0) |"
        + "v_cmp_gt_u32 vcc, v2, v0 | s_cbranch_vccnz L |"
        + SKIP,
        options=LDS,
    ),
    Planted(
        "an address in LDS",
        "address",
        "ds_read_b32",
        "s_mov_b32 m0, -1 | v_and_b32 v7, 60, v7 | ds_read_b32 v2, v7" + END,
        "s_mov_b32 m0, -1 | v_and_b32 v7, 60, v0 | ds_read_b32 v2, v7" + END,
        options=LDS,
    ),
    Planted(
        "the address of a store",
        "address",
        "ds_write_b32",
        "s_mov_b32 m0, -1 | v_and_b32 v7, 60, v9 | ds_write_b32 v7, v0" + END,
        "s_mov_b32 m0, -1 | v_and_b32 v7, 60, v0 | ds_write_b32 v7, v0" + END,
        options=LDS,
    ),
    Planted(
        "one lane that a mask left out",
        "exec",
        "s_and_b64",
        "s_mov_b64 s[20:21], exec | s_mov_b64 exec, 0xff | v_mov_b32 v5, 1 | s_mov_b64 exec, s[20:21] |"
        + "v_cmp_gt_u32 vcc, v5, v0 | s_and_b64 exec, exec, vcc"
        + END,
        "s_mov_b64 s[20:21], exec | s_mov_b64 exec, -1 | v_mov_b32 v5, 1 | s_mov_b64 exec, s[20:21] |"
        + "v_cmp_gt_u32 vcc, v5, v0 | s_and_b64 exec, exec, vcc"
        + END,
    ),
    Planted(
        "a value through arithmetic",
        "branch",
        "s_cbranch_vccz",
        "v_add_f32 v3, v4, v4 | v_mul_f32 v3, v3, v3 | v_cmp_lt_f32 vcc, v3, v3 | s_cbranch_vccz L |" + SKIP,
        "v_cvt_f32_u32 v4, v0 | v_add_f32 v3, v4, v4 | v_mul_f32 v3, v3, v3 | v_cmp_lt_f32 vcc, v3, v3 |"
        + "s_cbranch_vccz L |"
        + SKIP,
    ),
    Planted(
        "a byte that was not written",
        "branch",
        "s_cbranch_vccz",
        STORE
        + "ds_write_b8 v1, v0 | ds_read_b32 v2, v1 | s_waitcnt lgkmcnt(0) | v_and_b32 v2, 0x100, v2 |"
        + "v_cmp_eq_u32 vcc, 0, v2 | s_cbranch_vccz L |"
        + SKIP,
        STORE
        + "ds_write_b8 v1, v0 | ds_read_b32 v2, v1 | s_waitcnt lgkmcnt(0) | v_and_b32 v2, 0xff, v2 |"
        + "v_cmp_eq_u32 vcc, 0, v2 | s_cbranch_vccz L |"
        + SKIP,
        options=LDS,
    ),
    Planted(
        "a copy of padding, and a use of it",
        "branch",
        "s_cbranch_vccz",
        STORE
        + "ds_write_b8 v1, v0 | ds_read_b32 v2, v1 | s_waitcnt lgkmcnt(0) | ds_write_b32 v1, v2 offset:256 |"
        + "ds_read_u8 v3, v1 offset:257 | s_waitcnt lgkmcnt(0) | v_cmp_eq_u32 vcc, 0, v3 | s_cbranch_vccz L | s_nop 0\n"
        + "L: s_endpgm",
        STORE
        + "ds_write_b8 v1, v0 | ds_read_b32 v2, v1 | s_waitcnt lgkmcnt(0) | ds_write_b32 v1, v2 offset:256 |"
        + "ds_read_u8 v3, v1 offset:256 | s_waitcnt lgkmcnt(0) | v_cmp_eq_u32 vcc, 0, v3 | s_cbranch_vccz L | s_nop 0\n"
        + "L: s_endpgm",
        options=LDS,
    ),
    Planted(
        "one lane read by v_readlane",
        "branch",
        "s_cbranch_scc1",
        "s_mov_b64 exec, 0xff | v_mov_b32 v5, 1 | v_readlane_b32 s20, v5, 8 | s_cmp_eq_u32 s20, 1 |"
        + "s_cbranch_scc1 L |"
        + SKIP,
        "s_mov_b64 exec, 0xff | v_mov_b32 v5, 1 | v_readlane_b32 s20, v5, 7 | s_cmp_eq_u32 s20, 1 |"
        + "s_cbranch_scc1 L |"
        + SKIP,
    ),
    Planted(
        "one lane written by v_writelane",
        "branch",
        "s_cbranch_scc1",
        "s_mov_b32 s21, 1 | v_writelane_b32 v5, s21, 3 | v_readlane_b32 s20, v5, 4 | s_cmp_eq_u32 s20, 1 |"
        + "s_cbranch_scc1 L |"
        + SKIP,
        "s_mov_b32 s21, 1 | v_writelane_b32 v5, s21, 3 | v_readlane_b32 s20, v5, 3 | s_cmp_eq_u32 s20, 1 |"
        + "s_cbranch_scc1 L |"
        + SKIP,
    ),
    Planted(
        "the condition of a choice",
        "exec",
        "s_and_b64",
        "v_cmp_eq_u32 vcc, v9, v0 | v_cndmask_b32 v5, 1, v0, vcc | v_cmp_gt_u32 s[20:21], v5, v0 |"
        + "s_and_b64 exec, exec, s[20:21]"
        + END,
        "v_cmp_eq_u32 vcc, 1, v0 | v_cndmask_b32 v5, 1, v0, vcc | v_cmp_gt_u32 s[20:21], v5, v0 |"
        + "s_and_b64 exec, exec, s[20:21]"
        + END,
    ),
    Planted(
        "the side of a choice that is taken",
        "exec",
        "s_and_b64",
        "v_cmp_eq_u32 vcc, v0, v0 | v_cndmask_b32 v5, v0, v9, vcc | v_cmp_gt_u32 s[20:21], v5, v0 |"
        + "s_and_b64 exec, exec, s[20:21]"
        + END,
        "v_cmp_eq_u32 vcc, v0, v0 | v_cndmask_b32 v5, v9, v0, vcc | v_cmp_gt_u32 s[20:21], v5, v0 |"
        + "s_and_b64 exec, exec, s[20:21]"
        + END,
    ),
    Planted(
        "an operand of an atomic",
        "atomic",
        "ds_add_u32",
        STORE + "ds_write_b32 v1, v0 | ds_add_u32 v1, v6" + END,
        STORE + "ds_write_b32 v1, v0 | ds_add_u32 v1, v0" + END,
        options=LDS,
    ),
    Planted(
        "an atomic's old value",
        "branch",
        "s_cbranch_vccz",
        STORE
        + "ds_add_rtn_u32 v2, v1, v0 | s_waitcnt lgkmcnt(0) | v_cmp_eq_u32 vcc, 0, v2 | s_cbranch_vccz L |"
        + "s_nop 0\nL: s_endpgm",
        STORE
        + "ds_write_b32 v1, v0 | ds_add_rtn_u32 v2, v1, v0 | s_waitcnt lgkmcnt(0) | v_cmp_eq_u32 vcc, 0, v2 |"
        + "s_cbranch_vccz L |"
        + SKIP,
        options=LDS,
    ),
    Planted(
        "a shift by too little",
        "branch",
        "s_cbranch_scc1",
        "s_mov_b32 s20, 5 | s_lshr_b64 s[22:23], s[20:21], 16 | s_cmp_eq_u32 s22, 0 | s_cbranch_scc1 L | s_nop 0\n"
        + "L: s_endpgm",
        "s_mov_b32 s21, 5 | s_lshr_b64 s[22:23], s[20:21], 32 | s_cmp_eq_u32 s22, 0 | s_cbranch_scc1 L | s_nop 0\n"
        + "L: s_endpgm",
    ),
    Planted(
        "another lane's register",
        "branch",
        "s_cbranch_vccz",
        "s_mov_b64 s[20:21], exec | s_mov_b64 exec, 0xff | v_mov_b32 v5, 1 | s_mov_b64 exec, s[20:21] |"
        + "v_and_b32 v6, 12, v0 | v_lshlrev_b32 v6, 2, v6 | s_mov_b32 m0, -1 | ds_bpermute_b32 v2, v6, v5 |"
        + "s_waitcnt lgkmcnt(0) | v_cmp_eq_u32 vcc, 1, v2 | s_cbranch_vccz L |"
        + SKIP,
        "s_mov_b64 s[20:21], exec | s_mov_b64 exec, 0xff | v_mov_b32 v5, 1 | s_mov_b64 exec, s[20:21] |"
        + "v_and_b32 v6, 7, v0 | v_lshlrev_b32 v6, 2, v6 | s_mov_b32 m0, -1 | ds_bpermute_b32 v2, v6, v5 |"
        + "s_waitcnt lgkmcnt(0) | v_cmp_eq_u32 vcc, 1, v2 | s_cbranch_vccz L |"
        + SKIP,
        options=LDS,
        targets=("gfx803", "gfx900"),
    ),
)


DECIDES = {
    "exec": ("s_and_b64", "v_cmp_lt_f32 vcc, {0}, v1 | s_and_b64 exec, exec, vcc" + END),
    "branch": ("s_cbranch_vccz", "v_cmp_lt_f32 vcc, {0}, v1 | s_cbranch_vccz L |" + SKIP),
    "address": ("ds_read_b32", "v_cvt_u32_f32 v5, {0} | v_and_b32 v5, 60, v5 | ds_read_b32 v6, v5" + END),
    "atomic": ("ds_add_u32", "v_lshlrev_b32 v5, 2, v0 | ds_write_b32 v5, v0 | ds_add_u32 v5, {0}" + END),
}
"""What an approximate value must not decide, by the instruction that does it."""
APPROXIMATE = ("v_rcp_f32", "v_rsq_f32", "v_sqrt_f32", "v_exp_f32", "v_log_f32", "v_sin_f32")
ROUGH = tuple(
    Planted(
        f"{op} and {what}",
        what,
        insn,
        f"s_mov_b32 m0, -1 | v_cvt_f32_u32 v1, v0 | {op} v2, v1 | v_add_f32 v3, v2, v1 |" + text.format("v3"),
        f"s_mov_b32 m0, -1 | v_cvt_f32_u32 v1, v0 | {op} v2, v1 | v_add_f32 v3, v1, v1 |" + text.format("v3"),
        "fidelity",
        LDS,
        (("gfx700", "gfx803", "gfx900")[(number + other) % 3],),
    )
    for number, op in enumerate(APPROXIMATE)
    for other, (what, (insn, text)) in enumerate(DECIDES.items())
)
QUOTIENT = Planted(
    "a quotient before its last step",
    "exec",
    "s_and_b64",
    "v_cvt_f32_u32 v1, v0 | v_mov_b32 v4, 3.0 | v_rcp_f32 v2, v4 | v_mul_f32 v2, v1, v2 | v_cmp_lt_f32 vcc, v2, v1 |"
    + "s_and_b64 exec, exec, vcc" + END,
    "v_cvt_f32_u32 v1, v0 | v_mov_b32 v4, 3.0 | v_rcp_f32 v2, v4 | v_mul_f32 v2, v1, v2 |"
    + "v_div_fixup_f32 v2, v2, v4, v1 | v_cmp_lt_f32 vcc, v2, v1 | s_and_b64 exec, exec, vcc" + END,
    "fidelity",
)  # fmt: skip
DECIDES = " | s_and_b64 exec, exec, vcc" + END
WHOLE = Planted(
    "a reciprocal that no division makes exact",
    "exec",
    "s_and_b64",
    "v_cvt_f32_u32 v1, v0 | v_rcp_iflag_f32 v2, v1 | v_cmp_lt_f32 vcc, v2, v1" + DECIDES,
    "v_cvt_f32_u32 v1, v0 | v_rcp_iflag_f32 v2, v1 | v_cmp_lt_f32 vcc, v0, v1" + DECIDES,
    "fidelity",
)
TO_24_BITS = (
    "v_mov_b32 v2, 0xbf2759 | v_cvt_f32_u32 v3, v1 | v_cvt_f32_u32 v4, v2 | {} v5, v4 | v_mul_f32 v5, v3, v5 | "
    "v_trunc_f32 v5, v5 | v_cvt_u32_f32 v6, v5 | v_mad_f32 v7, -v5, v4, v3 | v_and_b32 v7, 0x7fffffff, v7 | "
    "v_cmp_ge_f32 vcc, v7, v4" + DECIDES
)
DIVISIONS = tuple(
    Planted(
        f"a quotient of integers of 24 bits by {name}",
        "quotient",
        "v_mad_f32",
        "v_mov_b32 v1, 0xbf2758 | " + TO_24_BITS.format(name),
        "v_mov_b32 v1, 0xbf2759 | " + TO_24_BITS.format(name),
        "fidelity",
    )
    for name in ("v_rcp_iflag_f32", "v_rcp_f32")
)
SCALED = (
    "v_cvt_f32_u32 v4, v0 | v_rcp_iflag_f32 v5, v4 | v_mul_f32 v5, {}, v5 | v_cvt_u32_f32 v5, v5 | "
    "v_cmp_lt_u32 vcc, v5, v0"
)
DIVISIONS += tuple(
    Planted(
        f"a reciprocal times another number than {name}",
        "exec",
        "s_and_b64",
        SCALED.format("0x4f7fff00") + DECIDES,
        SCALED.format(name) + DECIDES,
        "fidelity",
    )
    for name in ("0x4f7ffffe", "0x4f800000")
)
CASES += (*ROUGH, QUOTIENT, WHOLE, *DIVISIONS)
