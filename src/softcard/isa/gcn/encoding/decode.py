"""Decoding of GFX7, GFX8 and GFX9 machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from softcard.core.errors import WireError
from softcard.isa.gcn.encoding.formats import (
    DPP_CODE,
    LONGEST,
    MATRIX_FORMS,
    SDWA_CODE,
    SHIFT,
    STARTS,
    Format,
    format_of,
)
from softcard.isa.gcn.encoding.operands import (
    LANE_PATTERNS,
    LITERAL,
    NEW_BROADCASTS,
    REGISTERS,
    SELECT,
    UNUSED,
    VGPR0,
    check,
)
from softcard.isa.gcn.encoding.shape import LITERAL_FORMS, WITH_ACC, data_fields, slots
from softcard.isa.gcn.insn import IllegalInstruction, Insn, Op
from softcard.isa.gcn.operations.table import find, has_dpp, has_sdwa, is_wide
from softcard.isa.gcn.target import GFX7, GFX9, GFX90A, Target

__all__ = ["IllegalInstruction", "decode"]

VOP3B_NAMES: Final = frozenset({
    "v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32",
    "v_div_scale_f32", "v_div_scale_f64", "v_mad_u64_u32", "v_mad_i64_i32",
})  # fmt: skip
"""The operations whose VOP3 form has a second, scalar result (VOP3B), by their newest names."""
LITERAL_NAMES: Final = frozenset({
    "v_madmk_f32", "v_madak_f32", "v_madmk_f16", "v_madak_f16", "v_fmamk_f32", "v_fmaak_f32", "s_setreg_imm32_b32",
})  # fmt: skip
"""The operations that a literal always follows."""
OP_SEL_NAMES: Final = frozenset({
    "v_mad_u32_u16", "v_mad_i32_i16", "v_add_i16", "v_sub_i16", "v_pack_b32_f16",
    "v_cvt_pknorm_i16_f16", "v_cvt_pknorm_u16_f16", "v_div_fixup_f16",
    "v_mad_f16", "v_mad_u16", "v_mad_i16", "v_fma_f16", "v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32", "v_cvt_sr_fp8_f32",
    "v_cvt_sr_bf8_f32", "v_cvt_sr_f16_f32", "v_cvt_sr_bf16_f32", "v_bitop3_b16",
    *(f"v_{kind}3_{type_}" for kind in ("min", "max", "med") for type_ in ("f16", "i16", "u16")),
})  # fmt: skip
"""The GFX9 operations whose VOP3 form selects 16-bit halves with OP_SEL; others ignore that field."""
LANE_NAMES: Final = frozenset({"v_readlane_b32", "v_writelane_b32"})
"""The operations whose second source is a scalar in every form."""
ACC_NAMES: Final = frozenset({"v_accvgpr_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32"})
"""The operations with accumulation registers in fields for vector registers."""
SCALE_NAME: Final = "v_mfma_ld_scale_b32"
"""The operation that is the first half of a matrix instruction with scales (VOP3PX)."""
LEAST_OVERLAP: Final = 4
"""The largest size, in registers, of a matrix instruction's result that may partly overlap the addend."""
SEGMENTS: Final = ("flat", "scratch", "global")
"""The families of FLAT instructions, by the value of the field SEG on GFX9."""
_BUFFER: Final = (("srsrc", 4),)
_SCALED: Final = {
    "SMEM": (("sbase", 2),), "SMRD": (("sbase", 2),), "MUBUF": _BUFFER, "MTBUF": _BUFFER,
    "MIMG": (*_BUFFER, ("ssamp", 4)),
}  # fmt: skip
"""The fields that number registers in groups, with the number of registers in a group, by encoding."""
_MAY_SELECT: Final = frozenset({"VOP1", "VOP2", "VOPC"})


def decode(target: Target, code: Sequence[int] | bytes | memoryview, pc: int = 0) -> Insn:
    """Return the instruction that begins `code` (32-bit words, or little-endian bytes) at address `pc`.

    Raise `IllegalInstruction` with the pc if it is not an instruction of `target`, names a register that does not
    exist, or is cut off.
    """
    words = _words(code) if isinstance(code, (bytes, bytearray, memoryview)) else code
    try:
        return _decode(target, words, pc)
    except WireError as error:
        raise IllegalInstruction(f"illegal instruction: {error.message}", words=tuple(words[:2])).at("pc", pc) from None
    except IllegalInstruction as error:
        raise error.at("pc", pc) from None


def _words(code: bytes | bytearray | memoryview) -> tuple[int, ...]:
    """Return the 32-bit words of `code` that an instruction can have, or as many as it has."""
    usable = min(len(code), LONGEST) & ~3
    return tuple(int.from_bytes(code[at : at + 4], "little") for at in range(0, usable, 4))


def _decode(target: Target, words: Sequence[int], pc: int) -> Insn:
    first = _word(words, 0)
    fmt = STARTS[target.encoding][first >> SHIFT]
    if fmt is None:
        raise IllegalInstruction(f"illegal instruction {first:#010x}: {target} has no such encoding", words=(first,))
    if fmt.name in _MAY_SELECT and first & 0x1FF in (SDWA_CODE, DPP_CODE) and target.level > GFX7:
        fmt = _extended(target, fmt, first)
    value = first if fmt.size == 4 else first | _word(words, 1) << 32
    op, fmt = _operation(target, fmt, first)
    if op.name == SCALE_NAME and (whole := _scaled(target, value, words)) is not None:
        op, fmt, value = whole
    form, size, literal = fmt.name, fmt.size, None
    fields = fmt.pattern.decode(value)
    fields.pop("op", None)
    _normalize(op, target, form, fields)
    if _takes_literal(op, form, fields):
        literal = _word(words, size // 4)
        size += 4
    check(target, op, form, fields)
    return Insn(op, target, form, pc, size, tuple(words[: size // 4]), fields, literal)


def _word(words: Sequence[int], at: int) -> int:
    if at >= len(words):
        what = (
            "the code ends before this instruction"
            if at == 0
            else f"illegal instruction {words[0]:#010x}: the code ends inside it"
        )
        raise IllegalInstruction(what, words=tuple(words))
    return words[at]


def _extended(target: Target, fmt: Format, first: int) -> Format:
    name = f"{fmt.name}_{'SDWA' if first & 0x1FF == SDWA_CODE else 'DPP'}"
    try:
        return format_of(target.encoding, name)
    except KeyError:
        raise IllegalInstruction(
            f"illegal instruction {first:#010x}: {target} has no {name} encoding", words=(first,)
        ) from None


def _operation(target: Target, fmt: Format, first: int) -> tuple[Op, Format]:
    """Return the operation that the first word of an instruction selects, and its encoding."""
    family = fmt.family
    if fmt.name == "FLAT" and target.level == GFX9:
        segment = first >> 14 & 3
        if segment > 2:
            raise WireError(f"segment {segment} is reserved")
        family = SEGMENTS[segment]
        fmt = format_of(target.encoding, "FLAT", "global" if segment else "flat")
    code = first >> fmt.code_at & fmt.code_mask
    op = find(target, family, code)
    if op is None:
        raise IllegalInstruction(f"illegal instruction {first:#010x}: {target} has no {fmt.name} opcode {code:#x}")
    if op.family == "mai":
        fmt = format_of(target.encoding, "MAI")
    return op, format_of(target.encoding, "VOP3B") if fmt.name == "VOP3A" and op.name in VOP3B_NAMES else fmt


def _scaled(target: Target, first: int, words: Sequence[int]) -> tuple[Op, Format, int] | None:
    """Return the matrix instruction whose scales the first two words (as one number) select: operation, encoding, bits.

    Return None if the words that follow are not an f8f6f4 instruction that uses scales. The first two words then are an
    instruction of their own.
    """
    fmt = format_of(target.encoding, "VOP3PX")
    if len(words) < fmt.size // 4:
        return None
    value = first | words[2] << 64 | words[3] << 96
    op = find(target, fmt.family, value >> fmt.code_at & fmt.code_mask)
    return (op, fmt, value) if op is not None and fmt.pattern.matches(value) else None


def _normalize(op: Op, target: Target, form: str, fields: dict[str, int]) -> None:
    """Convert the raw bits in `fields` to their meaning: register numbers, source codes, signed numbers."""
    if form == "VOP3A":
        if op.name not in OP_SEL_NAMES and "op_sel" in fields and not op.name.startswith("v_cvt_scalef32"):
            fields["op_sel"] = 0
        if op.family == "vopc":
            fields["sdst"] = fields.pop("vdst")
    elif form in ("VOP2", "VOPC"):
        if op.name not in LANE_NAMES:
            fields["src1"] += VGPR0
    elif "_" in form:
        _check_extended(op, target, form, fields)
        for name, scalar in (("src0", "s0"), ("src1", "s1")):
            is_scalar = fields.pop(scalar, 0)
            if name in fields and not is_scalar:
                fields[name] += VGPR0
        if form == "VOPC_SDWA":
            fields["sdst"] = fields["sdst"] if fields.pop("sd", 0) else -1
    elif form in MATRIX_FORMS:
        _accumulate(op, form, fields)
    elif form in WITH_ACC:
        if fields.pop("acc", 0):
            for name in data_fields(op, form):
                fields[name] += REGISTERS
        if fields.get("sve") and op.family != "scratch":
            raise WireError("bit 13 must be 0")
    if op.name in ACC_NAMES:
        for slot in slots(op, form):
            if slot.kind in ("a", "asrc"):
                fields[slot.field] += REGISTERS
    for name, scale in _SCALED.get(form, ()):
        fields[name] *= scale


def _accumulate(op: Op, form: str, fields: dict[str, int]) -> None:
    """Convert the bits that select accumulation registers to operand codes.

    On gfx908 the operands C and D are always accumulation registers.
    """
    if fields.pop("acc_cd", 1):
        fields["vdst"] += REGISTERS
        if fields["src2"] >= VGPR0 and not op.name.startswith("v_smfmac"):
            fields["src2"] += REGISTERS
    words, apart = slots(op, form)[0].words, abs(fields["src2"] - VGPR0 - fields["vdst"])
    if words > LEAST_OVERLAP and 0 < apart < words and not op.name.startswith("v_smfmac"):
        raise WireError("the addend must be exactly the registers of the result, or share none of them")
    for name, bit in (("src0", "acc0"), ("src1", "acc1")):
        if fields.pop(bit) and fields[name] >= VGPR0:
            fields[name] += REGISTERS


def _check_extended(op: Op, target: Target, form: str, fields: Mapping[str, int]) -> None:
    if form.endswith("_DPP"):
        if not (has_dpp(op, target) and fields["dpp_ctrl"] in lane_patterns(op, target.encoding)):
            raise WireError(f"{op.name} has no DPP form with control {fields['dpp_ctrl']:#x}")
        return
    if not has_sdwa(op, target):
        raise WireError(f"{op.name} has no SDWA form")
    if fields.get("dst_unused", 0) >= len(UNUSED):
        raise WireError("dst_unused 3 is reserved")
    if any(fields.get(name, 0) >= len(SELECT) for name in ("dst_sel", "src0_sel", "src1_sel")):
        raise WireError("selection 7 is reserved")


@cache
def lane_patterns(op: Op, encoding: int) -> Mapping[int, str]:
    """Return the lane patterns of DPP that an operation can have, by the value of dpp_ctrl.

    `encoding` is `Target.encoding`.
    """
    if is_wide(op):
        return NEW_BROADCASTS
    return LANE_PATTERNS | NEW_BROADCASTS if encoding >= GFX90A else LANE_PATTERNS


def _takes_literal(op: Op, form: str, fields: Mapping[str, int]) -> bool:
    if form in ("VOP2", "SOPK", "SMRD"):
        if op.name in LITERAL_NAMES:
            return True
        if form == "SMRD":
            return not fields["imm"] and fields["offset"] == LITERAL and "offset" in op.operands.split()
    return form in LITERAL_FORMS and LITERAL in [fields[name] for name in _literals(op, form)]


@cache
def _literals(op: Op, form: str) -> tuple[str, ...]:
    """Return the names of a form's source fields that may select a literal."""
    return tuple(slot.field for slot in slots(op, form) if slot.kind == "src")
