"""Wait states: whether two instructions are the pair of a hazard, by the hazard's name in ``hazards.toml``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from understudy.engine.gcn.waits.issue import (
    GDS,
    SALU,
    SCALAR_BITS,
    SGPR_BIT,
    VALU,
    VCC_BITS,
    VECTOR,
    VECTOR_BITS,
    Issue,
    bits,
)
from understudy.isa.gcn.hazards import Hazard, hazard
from understudy.isa.gcn.hwreg import HW_MODE, HW_TRAPSTS
from understudy.isa.gcn.state import EXEC, M0, SGPRS

Pair = Callable[[Issue, Issue], int]
"""The registers by which two instructions are the pair of a hazard; -1 where it is by none; 0 where they are not."""

LONGEST: Final = 5
"""Wait states that any hazard needs at most."""
EXEC_BITS: Final = bits(SGPR_BIT + EXEC, 2)
M0_BIT: Final = bits(SGPR_BIT + M0)
LANE_SELECTS: Final = frozenset({"v_readlane_b32", "v_writelane_b32"})
VCCZ, EXECZ = 251, 252
"""Source operand codes."""
VSKIP_AT: Final = 28
"""Bit of MODE."""


def _yes(c: object) -> int:
    return -1 if c else 0


def _hwreg(issue: Issue) -> int:
    """The hardware register of s_setreg or s_getreg."""
    return issue.insn["simm16"] & 63


def _is_setreg(issue: Issue) -> bool:
    return issue.name.startswith("s_setreg")


def _sets_vskip(issue: Issue) -> bool:
    if not _is_setreg(issue) or _hwreg(issue) != HW_MODE:
        return issue.name == "s_setvskip"
    low, size = issue.insn["simm16"] >> 6 & 31, (issue.insn["simm16"] >> 11 & 31) + 1
    return low <= VSKIP_AT < low + size


def _sgpr_of_vector_memory(a: Issue, b: Issue) -> int:
    return a.writes & b.reads & SCALAR_BITS if a.kind == VALU and b.kind == VECTOR else 0


def _lane_select(a: Issue, b: Issue) -> int:
    if a.kind != VALU or b.insn.op.name not in LANE_SELECTS:
        return 0
    code = b.insn["src1"]
    return a.writes & bits(SGPR_BIT + code) if 0 <= code < SGPRS else 0


def _div_fmas(a: Issue, b: Issue) -> int:
    return a.writes & VCC_BITS if a.kind == VALU and b.insn.op.name.startswith("v_div_fmas") else 0


def _zero_flags(a: Issue, b: Issue) -> int:
    if a.kind != VALU or b.kind != VALU:
        return 0
    codes = {b.insn.get(field, -1) for field in ("src0", "src1", "src2")}
    return a.writes & ((VCC_BITS if VCCZ in codes else 0) | (EXEC_BITS if EXECZ in codes else 0))


def _dpp(a: Issue, b: Issue) -> int:
    return a.writes & b.reads & VECTOR_BITS if a.kind == VALU and b.insn.form.endswith("_DPP") else 0


def _exec_dpp(a: Issue, b: Issue) -> int:
    return a.writes & EXEC_BITS if a.kind == VALU and b.insn.form.endswith("_DPP") else 0


def _m0(a: Issue, c: object) -> int:
    return a.writes & M0_BIT if a.kind == SALU and c else 0


def _takes_m0_for_lds(b: Issue) -> bool:
    name = b.name
    return (
        "addtid" in name or name == "buffer_store_lds_dword" or bool(b.insn.get("lds")) or name.startswith("v_interp")
    )


_VECTORS: Final = frozenset({VALU, VECTOR, "lds", GDS, "export"})

PAIRS: Final[dict[str, Pair]] = {
    "valu-sgpr-vmem": _sgpr_of_vector_memory,
    "valu-lane-select": _lane_select,
    "valu-vcc-div-fmas": _div_fmas,
    "valu-vccz-execz": _zero_flags,
    "setreg-getreg": lambda a, b: _yes(_is_setreg(a) and b.name.startswith("s_getreg") and _hwreg(a) == _hwreg(b)),
    "setreg-setreg": lambda a, b: _yes(_is_setreg(a) and _is_setreg(b) and _hwreg(a) == _hwreg(b)),
    "setvskip-getreg": lambda a, b: _yes(
        a.name == "s_setvskip" and b.name.startswith("s_getreg") and _hwreg(b) == HW_MODE
    ),
    "setreg-vskip": lambda a, b: _yes(b.kind in _VECTORS and _sets_vskip(a)),
    "wide-store-data": lambda a, b: a.wide & b.writes if b.kind == VALU else 0,
    "valu-dpp": _dpp,
    "valu-exec-dpp": _exec_dpp,
    "setreg-trapsts-rfe": lambda a, b: _yes(_is_setreg(a) and _hwreg(a) == HW_TRAPSTS and b.name.startswith("s_rfe")),
    "m0-message": lambda a, b: _m0(a, b.kind == GDS or b.name.startswith(("s_sendmsg", "s_ttracedata"))),
    "m0-lds-direct": lambda a, b: _m0(a, _takes_m0_for_lds(b)),
    "m0-movrel": lambda a, b: _m0(a, b.name.startswith("s_movrel")),
}


@cache
def rules(level: int) -> tuple[tuple[Hazard, int, Pair], ...]:
    """What a generation needs: hazard, wait states, and what tells the pair."""
    found = ((hazard(name), pair) for name, pair in PAIRS.items())
    return tuple((each, each.states(level), pair) for each, pair in found if each.states(level))


def may_begin(issue: Issue) -> bool:
    """Whether an instruction can be the first of a pair."""
    return (
        issue.kind == VALU
        or bool(issue.wide)
        or (issue.kind == SALU and bool(issue.writes & M0_BIT))
        or issue.name.startswith(("s_setreg", "s_setvskip"))
    )


def may_end(issue: Issue) -> bool:
    """Whether an instruction can be the second."""
    return issue.kind in _VECTORS or issue.name.startswith(
        ("s_getreg", "s_setreg", "s_rfe", "s_sendmsg", "s_ttracedata", "s_movrel")
    )
