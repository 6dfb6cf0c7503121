"""Decoding of GFX7, GFX8 and GFX9 machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.encoding.formats import DPP_CODE, SDWA_CODE, SHIFT, STARTS, Format, format_of
from understudy.isa.gcn.encoding.operands import LANE_PATTERNS, LITERAL, SELECT, UNUSED, VGPR0, check
from understudy.isa.gcn.encoding.shape import LITERAL_FORMS, slots
from understudy.isa.gcn.insn import IllegalInstruction, Insn, Op
from understudy.isa.gcn.operations.table import find, has_dpp, has_sdwa
from understudy.isa.gcn.target import GFX7, GFX9, Target

__all__ = ["IllegalInstruction", "decode"]

VOP3B_NAMES: Final = frozenset({
    "v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32",
    "v_div_scale_f32", "v_div_scale_f64", "v_mad_u64_u32", "v_mad_i64_i32",
})  # fmt: skip
"""Operations whose VOP3 form has a second, scalar result (VOP3B), by newest name."""
LITERAL_NAMES: Final = frozenset({"v_madmk_f32", "v_madak_f32", "v_madmk_f16", "v_madak_f16", "s_setreg_imm32_b32"})
"""Operations that a literal always follows."""
OP_SEL_NAMES: Final = frozenset({
    "v_mad_u32_u16", "v_mad_i32_i16", "v_add_i16", "v_sub_i16", "v_pack_b32_f16",
    "v_cvt_pknorm_i16_f16", "v_cvt_pknorm_u16_f16", "v_div_fixup_f16",
    "v_mad_f16", "v_mad_u16", "v_mad_i16", "v_fma_f16",
    *(f"v_{kind}3_{type_}" for kind in ("min", "max", "med") for type_ in ("f16", "i16", "u16")),
})  # fmt: skip
"""GFX9: operations whose VOP3 form chooses halves with OP_SEL; for the others the field is ignored."""
LANE_NAMES: Final = frozenset({"v_readlane_b32", "v_writelane_b32"})
"""Operations whose second source is scalar in every form."""
SEGMENTS: Final = ("flat", "scratch", "global")
"""What the SEG field of FLAT selects on GFX9."""
_BUFFER: Final = (("srsrc", 4),)
_SCALED: Final = {
    "SMEM": (("sbase", 2),), "SMRD": (("sbase", 2),), "MUBUF": _BUFFER, "MTBUF": _BUFFER,
    "MIMG": (*_BUFFER, ("ssamp", 4)),
}  # fmt: skip
"""Fields that count registers in groups of that many."""
_MAY_SELECT: Final = frozenset({"VOP1", "VOP2", "VOPC"})


def decode(target: Target, code: Sequence[int] | bytes | memoryview, pc: int = 0) -> Insn:
    """The instruction that begins `code` (32-bit words, or little-endian bytes) and stands at address `pc`.

    Raises `IllegalInstruction` with the pc for what is no instruction of `target`, names a register it does not have,
    or is cut off.
    """
    words = _words(code) if isinstance(code, (bytes, bytearray, memoryview)) else code
    try:
        return _decode(target, words, pc)
    except WireError as error:
        raise IllegalInstruction(f"illegal instruction: {error.message}", words=tuple(words[:2])).at("pc", pc) from None
    except IllegalInstruction as error:
        raise error.at("pc", pc) from None


def _words(code: bytes | bytearray | memoryview) -> tuple[int, ...]:
    """The first three words of bytes, as many as there are."""
    usable = min(len(code), 12) & ~3
    return tuple(int.from_bytes(code[at : at + 4], "little") for at in range(0, usable, 4))


def _decode(target: Target, words: Sequence[int], pc: int) -> Insn:
    first = _word(words, 0)
    fmt = STARTS[target.level][first >> SHIFT]
    if fmt is None:
        raise IllegalInstruction(f"illegal instruction {first:#010x}: {target} has no such encoding", words=(first,))
    if fmt.name in _MAY_SELECT and first & 0x1FF in (SDWA_CODE, DPP_CODE) and target.level > GFX7:
        fmt = _extended(target, fmt, first)
    value = first if fmt.size == 4 else first | _word(words, 1) << 32
    op, fmt = _operation(target, fmt, first)
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
        what = "no code here" if at == 0 else f"illegal instruction {words[0]:#010x}: the code ends inside it"
        raise IllegalInstruction(what, words=tuple(words))
    return words[at]


def _extended(target: Target, fmt: Format, first: int) -> Format:
    name = f"{fmt.name}_{'SDWA' if first & 0x1FF == SDWA_CODE else 'DPP'}"
    try:
        return format_of(target.level, name)
    except KeyError:
        raise IllegalInstruction(f"illegal instruction {first:#010x}: there is no {name}", words=(first,)) from None


def _operation(target: Target, fmt: Format, first: int) -> tuple[Op, Format]:
    """The operation that the first word names, and the encoding that it has there."""
    family = fmt.family
    if fmt.name == "FLAT" and target.level == GFX9:
        segment = first >> 14 & 3
        if segment > 2:
            raise WireError(f"segment {segment} is reserved")
        family = SEGMENTS[segment]
        fmt = format_of(GFX9, "FLAT", "global" if segment else "flat")
    code = first >> fmt.code_at & fmt.code_mask
    op = find(target, family, code)
    if op is None:
        raise IllegalInstruction(f"illegal instruction {first:#010x}: {target} has no {fmt.name} opcode {code:#x}")
    return op, format_of(target.level, "VOP3B") if fmt.name == "VOP3A" and op.name in VOP3B_NAMES else fmt


def _normalize(op: Op, target: Target, form: str, fields: dict[str, int]) -> None:
    """From what the bits hold to what the fields mean: register numbers, source codes, signs."""
    if form == "VOP3A":
        if op.name not in OP_SEL_NAMES and "op_sel" in fields:
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
    for name, scale in _SCALED.get(form, ()):
        fields[name] *= scale


def _check_extended(op: Op, target: Target, form: str, fields: Mapping[str, int]) -> None:
    if form.endswith("_DPP"):
        if not (has_dpp(op, target) and fields["dpp_ctrl"] in LANE_PATTERNS):
            raise WireError(f"{op.name} has no DPP form with control {fields['dpp_ctrl']:#x}")
        return
    if not has_sdwa(op, target):
        raise WireError(f"{op.name} has no SDWA form")
    if fields.get("dst_unused", 0) >= len(UNUSED):
        raise WireError("dst_unused 3 is reserved")
    if any(fields.get(name, 0) >= len(SELECT) for name in ("dst_sel", "src0_sel", "src1_sel")):
        raise WireError("selection 7 is reserved")


def _takes_literal(op: Op, form: str, fields: Mapping[str, int]) -> bool:
    if form in ("VOP2", "SOPK", "SMRD"):
        if op.name in LITERAL_NAMES:
            return True
        if form == "SMRD":
            return not fields["imm"] and fields["offset"] == LITERAL and "offset" in op.operands.split()
    return form in LITERAL_FORMS and LITERAL in [fields[name] for name in _literals(op, form)]


@cache
def _literals(op: Op, form: str) -> tuple[str, ...]:
    """The fields that may say that a literal follows."""
    return tuple(slot.field for slot in slots(op, form) if slot.kind == "src")
