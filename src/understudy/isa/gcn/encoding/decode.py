"""Decoding of GFX7, GFX8 and GFX9 machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.asm.modifiers import SELECT, UNUSED, lane_pattern
from understudy.isa.gcn.asm.printer import check
from understudy.isa.gcn.encoding.formats import DPP_CODE, LITERAL_CODE, SDWA_CODE, SHIFT, STARTS, Format, format_of
from understudy.isa.gcn.encoding.operands import VGPR0
from understudy.isa.gcn.encoding.shape import slots
from understudy.isa.gcn.illegal import IllegalInstruction
from understudy.isa.gcn.insn import Insn, Op
from understudy.isa.gcn.operations.table import find, has_dpp, has_sdwa
from understudy.isa.gcn.target import GFX7, GFX9, Target

__all__ = ["IllegalInstruction", "decode", "fields_of"]

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
_MAY_SELECT: Final = frozenset({"VOP1", "VOP2", "VOPC"})
_MAY_LITERAL: Final = frozenset({"SOP1", "SOP2", "SOPC", "VOP1", "VOP2", "VOPC"})


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
    fields = fmt.pattern.decode(value)
    op, form, fields = _operation(target, fmt, value, fields)
    normalize(op, form, fields)
    size, literal = fmt.size, None
    if _takes_literal(op, form, fields):
        literal = _word(words, size // 4)
        size += 4
    used = tuple(_word(words, k) for k in range(size // 4))
    insn = Insn(op, target, form, pc, size, used, fields, literal)
    check(insn)
    return insn


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


def _operation(target: Target, fmt: Format, value: int, fields: dict[str, int]) -> tuple[Op, str, dict[str, int]]:
    """The operation, the form it has there, and its fields without the opcode."""
    family, form = fmt.family, fmt.name
    if form == "FLAT" and target.level == GFX9:
        if fields["seg"] > 2:
            raise WireError(f"segment {fields['seg']} is reserved")
        family = SEGMENTS[fields["seg"]]
        if family != "flat":
            fields = format_of(GFX9, "FLAT", "global").pattern.decode(value)
    code = fields.pop("op", 0)
    op = find(target, family, code)
    if op is None:
        raise IllegalInstruction(
            f"illegal instruction {value & 0xFFFF_FFFF:#010x}: {target} has no {form} opcode {code:#x}"
        )
    if form == "VOP3A" and op.name in VOP3B_NAMES:
        form = "VOP3B"
        fields = format_of(target.level, form).pattern.decode(value)
    fields.pop("op", None)
    if form.endswith("_SDWA"):
        _check_sdwa(op, target, fields)
    elif form.endswith("_DPP") and not (has_dpp(op, target) and lane_pattern(fields["dpp_ctrl"])):
        raise WireError(f"{op.name} has no DPP form with control {fields['dpp_ctrl']:#x}")
    if "op_sel" in fields and form == "VOP3A" and op.name not in OP_SEL_NAMES:
        fields["op_sel"] = 0
    if form == "VOP3A" and op.family == "vopc":
        fields["sdst"] = fields.pop("vdst")
    return op, form, fields


def _check_sdwa(op: Op, target: Target, fields: Mapping[str, int]) -> None:
    if not has_sdwa(op, target):
        raise WireError(f"{op.name} has no SDWA form")
    if fields.get("dst_unused", 0) >= len(UNUSED):
        raise WireError("dst_unused 3 is reserved")
    if any(fields.get(name, 0) >= len(SELECT) for name in ("dst_sel", "src0_sel", "src1_sel")):
        raise WireError("selection 7 is reserved")


def _takes_literal(op: Op, form: str, fields: Mapping[str, int]) -> bool:
    if form == "SMRD":
        return not fields["imm"] and fields["offset"] == LITERAL_CODE and "offset" in op.operands.split()
    if op.name in LITERAL_NAMES and form in ("VOP2", "SOPK"):
        return True
    return form in _MAY_LITERAL and any(
        slot.kind == "src" and fields[slot.field] == LITERAL_CODE for slot in slots(op, form) if slot.field in fields
    )


def normalize(op: Op, form: str, fields: dict[str, int]) -> None:
    """From what the bits hold to what the fields mean: register numbers, source codes, signs."""
    if form.endswith(("_SDWA", "_DPP")):
        for name, scalar in (("src0", "s0"), ("src1", "s1")):
            is_scalar = fields.pop(scalar, 0)
            if name in fields and not is_scalar:
                fields[name] += VGPR0
        if form == "VOPC_SDWA":
            fields["sdst"] = fields["sdst"] if fields.pop("sd", 0) else -1
    elif form in ("VOP2", "VOPC") and op.name not in LANE_NAMES:
        fields["src1"] += VGPR0
    for name, scale in (("sbase", 2), ("srsrc", 4), ("ssamp", 4)):
        if name in fields:
            fields[name] *= scale


def fields_of(insn: Insn) -> dict[str, int]:
    """A copy of an instruction's fields, for changing and encoding."""
    return dict(insn.fields)
