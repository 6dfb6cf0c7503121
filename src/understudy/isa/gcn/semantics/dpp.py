"""Data-parallel primitives (GFX8, GFX9): source 0 of each lane comes from another lane.

A source lane outside of the row (or wave) or outside of EXEC is invalid: with BOUND_CTRL it reads as 0, without it the
lane is not written (Choice ``gcn/dpp-invalid``).
"""

from __future__ import annotations

from typing import Final

from understudy.core.errors import BeyondModel, WireError
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import source as operand
from understudy.isa.gcn.state import EXEC
from understudy.isa.gcn.word import Word

WAVE_SHL, WAVE_ROL, WAVE_SHR, WAVE_ROR = 0x130, 0x134, 0x138, 0x13C
ROW_MIRROR, ROW_HALF_MIRROR, ROW_BCAST15, ROW_BCAST31 = 0x140, 0x141, 0x142, 0x143
ROW: Final = 16


def lane_of(lane: Word, control: int) -> tuple[Word, Word]:
    """The lane that each lane reads (modulo 64), and whether there is one: width 1."""
    always = lane.constant(1, 1)
    place, base = lane[3:0], lane & -ROW
    amount = control & 0xF
    if control < 0x100:
        return quad_lane(lane, control), always
    if 0x101 <= control <= 0x10F:
        return lane + amount, place + amount < ROW
    if 0x111 <= control <= 0x11F:
        return lane - amount, place >= amount
    if 0x121 <= control <= 0x12F:
        return base | (place - amount)[3:0], always
    up, down = lane + 1, lane - 1
    found = {
        WAVE_SHL: (up, up < 64),
        WAVE_ROL: (up, always),
        WAVE_SHR: (down, lane != 0),
        WAVE_ROR: (down, always),
        ROW_MIRROR: (lane ^ 15, always),
        ROW_HALF_MIRROR: (lane ^ 7, always),
        ROW_BCAST15: (base - 1, lane >= ROW),
        ROW_BCAST31: (lane.const(31), lane >= 32),
    }
    if control not in found:
        raise WireError(f"dpp_ctrl {control:#x} is reserved")
    return found[control]


def quad_lane(lane: Word, pattern: int) -> Word:
    """quad_perm: two bits for each of four lanes."""
    return lane & -4 | (pattern >> (lane[1:0] << 1))[1:0]


def reachable(b: Builder, i: Insn) -> tuple[Word, Word]:
    """The lane each lane reads, and whether it is valid: there is one, and EXEC has it."""
    lane, exists = lane_of(b.lane_id(), i["dpp_ctrl"])
    lane = lane[5:0]
    return lane, exists & (b.s64(EXEC) >> lane.zext(64)).trunc(1)


def source(b: Builder, i: Insn, code: int, kind: str) -> Word:
    """Source 0 from the lane that dpp_ctrl names, 0 where that is invalid."""
    if b.mode.gpr_idx:
        raise BeyondModel("DPP while GPR indexing is on")
    if operand.width(kind) > 32:
        raise BeyondModel("DPP of a 64-bit source")
    lane, valid = reachable(b, i)
    value = b.v_at(code & 0xFF, lane)
    return valid.select(value, 0) if i["bound_ctrl"] else value


def enabled(b: Builder, i: Insn) -> Word:
    """The lanes that are written: rows and banks of the masks, and (without bound_ctrl) lanes with a valid source."""
    lane = b.lane_id()
    row, bank = i["row_mask"] >> (lane >> 4), i["bank_mask"] >> (lane >> 2)[1:0]
    written = (row & bank).trunc(1)
    return written if i["bound_ctrl"] else written & reachable(b, i)[1]
