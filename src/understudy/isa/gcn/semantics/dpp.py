"""Data-parallel primitives (GFX8, GFX9): source 0 of each lane comes from another lane.

A source lane outside of the row (or wave) or outside of EXEC is invalid: with BOUND_CTRL it reads as 0, without it the
lane is not written (Choice ``gcn/dpp-invalid``).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from understudy.core.errors import BeyondModel, WireError
from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import source as operand
from understudy.isa.gcn.state import EXEC

WAVE_SHL, WAVE_ROL, WAVE_SHR, WAVE_ROR = 0x130, 0x134, 0x138, 0x13C
ROW_MIRROR, ROW_HALF_MIRROR, ROW_BCAST15, ROW_BCAST31 = 0x140, 0x141, 0x142, 0x143
ROW: Final = 16


def lane_of(o: Any, control: int) -> tuple[Value, Value]:
    """The lane that each lane reads (modulo 64), and whether there is one: width 1."""
    lane, c = o.lane_id(), partial(o.const, 32)
    place, base = o.and_(32, lane, c(ROW - 1)), o.and_(32, lane, c(-ROW))
    amount = control & 0xF
    if control < 0x100:
        return quad_lane(o, control, lane), o.const(1, 1)
    if 0x101 <= control <= 0x10F:
        return o.add(32, lane, c(amount)), o.ult(32, o.add(32, place, c(amount)), c(ROW))
    if 0x111 <= control <= 0x11F:
        return o.sub(32, lane, c(amount)), o.ule(32, c(amount), place)
    if 0x121 <= control <= 0x12F:
        return o.or_(32, base, o.and_(32, o.sub(32, place, c(amount)), c(ROW - 1))), o.const(1, 1)
    return wave_lane(o, control, lane, base)


def quad_lane(o: Any, control: int, lane: Value) -> Value:
    """quad_perm: two bits for each of four lanes."""
    at = o.shl(32, o.and_(32, lane, o.const(32, 3)), o.const(32, 1))
    chosen = o.and_(32, o.lshr(32, o.const(32, control), at), o.const(32, 3))
    return o.or_(32, o.and_(32, lane, o.const(32, -4)), chosen)


def wave_lane(o: Any, control: int, lane: Value, base: Value) -> tuple[Value, Value]:
    """`lane_of` for whole waves, mirrors and broadcasts."""
    c = partial(o.const, 32)
    always = o.const(1, 1)
    up, down = o.add(32, lane, c(1)), o.sub(32, lane, c(1))
    found = {
        WAVE_SHL: (up, o.ult(32, up, c(64))),
        WAVE_ROL: (up, always),
        WAVE_SHR: (down, o.ne(32, lane, c(0))),
        WAVE_ROR: (down, always),
        ROW_MIRROR: (o.xor(32, lane, c(15)), always),
        ROW_HALF_MIRROR: (o.xor(32, lane, c(7)), always),
        ROW_BCAST15: (o.sub(32, base, c(1)), o.ule(32, c(ROW), lane)),
        ROW_BCAST31: (c(31), o.ule(32, c(32), lane)),
    }
    if control not in found:
        raise WireError(f"dpp_ctrl {control:#x} is reserved")
    return found[control]


def reachable(o: Any, i: Insn) -> tuple[Value, Value]:
    """The lane each lane reads, and whether it is valid: there is one, and EXEC has it."""
    lane, exists = lane_of(o, i["dpp_ctrl"])
    lane = o.and_(32, lane, o.const(32, 63))
    bit = o.lshr(64, o.s64(EXEC), o.zext(64, 32, lane))
    return lane, o.and_(1, exists, o.trunc(1, 64, bit))


def source(o: Any, i: Insn, code: int, kind: str) -> Value:
    """Source 0 from the lane that dpp_ctrl names, 0 where that is invalid."""
    if o.mode.gpr_idx:
        raise BeyondModel("DPP while GPR indexing is on")
    if operand.width(kind) > 32:
        raise BeyondModel("DPP of a 64-bit source")
    lane, valid = reachable(o, i)
    value = o.v_at(code & 0xFF, lane)
    return o.select(32, valid, value, o.const(32, 0)) if i["bound_ctrl"] else value


def enabled(o: Any, i: Insn) -> Value:
    """The lanes that are written: rows and banks of the masks, and (without bound_ctrl) lanes with a valid source."""
    lane, c = o.lane_id(), partial(o.const, 32)
    row = o.lshr(32, c(i["row_mask"]), o.lshr(32, lane, c(4)))
    bank = o.lshr(32, c(i["bank_mask"]), o.and_(32, o.lshr(32, lane, c(2)), c(3)))
    written = o.trunc(1, 32, o.and_(32, row, bank))
    return written if i["bound_ctrl"] else o.and_(1, written, reachable(o, i)[1])
