"""Modifiers of operands on GFX8 and GFX9: DPP, data-parallel primitives, and SDWA, sub-dword addressing.

With DPP, each lane reads source 0 from another lane. A source lane is invalid if it is outside of the DPP row of 16
lanes (or the wave), or not in EXEC. If BOUND_CTRL is set, a lane with an invalid source lane reads 0; otherwise its
destination is not written (Choice ``gcn/dpp-invalid``)."""

from __future__ import annotations

from typing import Final

from softcard.core.errors import BeyondModel, WireError
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.encoding.operands import VGPR0
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics import source as operand
from softcard.isa.gcn.semantics.access import pair
from softcard.isa.gcn.state import EXEC
from softcard.isa.gcn.word import Word

WAVE_SHL, WAVE_ROL, WAVE_SHR, WAVE_ROR = 0x130, 0x134, 0x138, 0x13C
ROW_MIRROR, ROW_HALF_MIRROR, ROW_BCAST15, ROW_BCAST31 = 0x140, 0x141, 0x142, 0x143
ROW: Final = 16


def lane_of(lane: Word, control: int) -> tuple[Word, Word]:
    """Return the number of each lane's source lane (modulo 64), and 1 if that lane exists; `control` is dpp_ctrl."""
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
    if 0x150 <= control <= 0x15F:
        return base | amount, always
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
    """Return each lane's source lane for quad_perm; `pattern` has two bits for each of the four lanes of a quad."""
    return lane & -4 | (pattern >> (lane[1:0] << 1))[1:0]


def reachable(b: Builder, i: Insn) -> tuple[Word, Word]:
    """Return the source lane of each lane, and 1 if it exists and is in EXEC."""
    lane, exists = lane_of(b.lane_id(), i["dpp_ctrl"])
    lane = lane[5:0]
    return lane, exists & (b.s64(EXEC) >> lane.zext(64)).trunc(1)


def dpp_source(b: Builder, i: Insn, code: int, kind: str) -> Word:
    """Return source 0, the register with operand code `code`, read from the lane that dpp_ctrl selects.

    If that lane is invalid, the result is 0 with BOUND_CTRL, else unspecified. `kind` is the type of the
    source."""
    if b.mode.gpr_idx:
        raise BeyondModel("DPP is not modelled while GPR indexing is on")
    lane, valid = reachable(b, i)
    n = code - VGPR0
    value = b.v_at(n, lane)
    if operand.width(kind) > 32:
        value = pair(value, b.v_at(n + 1 & 0xFF, lane))
    return valid.select(value, 0) if i["bound_ctrl"] else value


def dpp_lanes(b: Builder, i: Insn) -> Word:
    """Return the mask of the lanes that a DPP instruction writes.

    They are the lanes of the rows and banks in row_mask and bank_mask. Without BOUND_CTRL, lanes with an invalid source
    are excluded.
    """
    lane = b.lane_id()
    row, bank = i["row_mask"] >> (lane >> 4), i["bank_mask"] >> (lane >> 2)[1:0]
    written = (row & bank).trunc(1)
    return written if i["bound_ctrl"] else written & reachable(b, i)[1]


# ---- sub-dword addressing --------------------------------------------------------------------------------------------
# SDWA, sub-dword addressing (GFX8, GFX9): sources and results may be a byte or half of a register.


WHOLE: Final = 32, 0
PARTS: Final = ((8, 0), (8, 8), (8, 16), (8, 24), (16, 0), (16, 16), WHOLE)
"""The parts of a register that SDWA selects, as (bits, position): BYTE_0 to BYTE_3, WORD_0, WORD_1, DWORD."""
DWORD: Final = PARTS.index(WHOLE)
SEXT: Final = 1
PRESERVE: Final = 2


UP: Final = tuple(32 - bits - at for bits, at in PARTS)
"""The distance in bits of each part from the upper end of its register."""
DOWN: Final = tuple(32 - bits for bits, _ in PARTS)
"""The number of bits of a register that are outside of each part."""


def sdwa_source(i: Insn, number: int, value: Word) -> Word:
    """Return the part of `value` that SDWA selects: a byte, a half or all of it, zero- or sign-extended to 32 bits.

    `value` is source `number` of the instruction. If several instructions share translated code, `i` holds
    shift counts in place of the selection."""
    select = i[f"src{number}_sel"]
    up, down = i.get(f"src{number}_up", UP[select]), i.get(f"src{number}_down", DOWN[select])
    return (value << up).sra(down) if i[f"src{number}_sext"] else value << up >> down


def sdwa_result(b: Builder, i: Insn, value: Word) -> Word:
    """Return the new contents of the destination register: `value` in the byte, half or whole that dst_sel selects.

    dst_unused determines the other bits."""
    bits, at = PARTS[i["dst_sel"]]
    if (bits, at) == WHOLE:
        return value
    if i["dst_unused"] == SEXT:
        return value.trunc(bits).sext(32) << at
    placed = value[bits - 1 : 0] << at
    if i["dst_unused"] != PRESERVE:
        return placed
    return operand.vgpr(b, i["vdst"], "vdst") & ~((1 << bits) - 1 << at) | placed
