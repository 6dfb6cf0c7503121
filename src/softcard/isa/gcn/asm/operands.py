"""Printing and parsing of the operands of assembly text, by kind of operand, and the fields that a text sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from softcard.core.display import count
from softcard.core.errors import WireError
from softcard.isa.gcn.asm import macros
from softcard.isa.gcn.asm.constants import index, integer, literal, literal_value, number, operand_constant, register
from softcard.isa.gcn.encoding.decode import LANE_NAMES
from softcard.isa.gcn.encoding.encode import find_format, names_of
from softcard.isa.gcn.encoding.operands import ACC0, INVERSE_2PI, LDS_DIRECT, LITERAL, NO_REGISTER, VGPR0, names
from softcard.isa.gcn.encoding.shape import NO_SADDR, Slot, visible_slots
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.target import GFX7, Target

# ---- the fields of an instruction ------------------------------------------------------------------------------------
# The state of an instruction during the parsing of its text: the fields that are known so far.


_VECTORS: Final = {"src0": VGPR0, "src1": VGPR0}
_SDWA: Final = _VECTORS | {"src0_sel": 6, "src1_sel": 6, "sdst": -1}
_DPP: Final = _VECTORS | {"dpp_ctrl": 0xE4, "row_mask": 15, "bank_mask": 15}
_ASSUMED: Final[Mapping[str, Mapping[str, int]]] = {
    "VOP2": _VECTORS,
    "VOPC": _VECTORS,
    "VOP3P": {"op_sel_hi": 7},
    "VOP1_SDWA": _SDWA | {"src1_sel": 0, "dst_sel": 6, "dst_unused": 2},
    "VOP2_SDWA": _SDWA | {"dst_sel": 6, "dst_unused": 2},
    "VOPC_SDWA": _SDWA,
    "VOP1_DPP": _DPP,
    "VOP2_DPP": _DPP,
    "FLAT": {"saddr": NO_SADDR},
    "MTBUF": {"dfmt": 1},
}
"""The default values of fields that an instruction's text does not show, if they are not 0; by form."""


def is_mix(op: Op, form: str) -> bool:
    """Return True if each source of a VOP3P operation may have 32 or 16 bits (as in v_mad_mix_f32)."""
    return form == "VOP3P" and "mix" in op.name


class InsnBuilder:
    """An instruction whose text is being parsed; its `fields` have their default values until they are parsed.

    If `labels` is None, the addresses of labels are not known yet."""

    def __init__(self, target: Target, op: Op, form: str, pc: int, labels: Mapping[str, int] | None) -> None:
        self.target, self.op, self.form, self.pc, self.labels = target, op, form, pc, labels
        self.names = names_of(find_format(target, op, form)) | ({"sdst"} if op.family == "vopc" else frozenset())
        unusual = op.name in LANE_NAMES or op.family == "flat" or is_mix(op, form)
        assumed: Mapping[str, int] = {} if unusual else _ASSUMED.get(form, {})
        absent = "sdst" if form == "VOPC" else "vdst" if form == "VOP3A" and op.family == "vopc" else ""
        self.fields = {name: assumed.get(name, 0) for name in self.names if name != absent}
        if form == "VOP1_SDWA" and op.name.startswith(("v_cvt_f32_fp8", "v_cvt_f32_bf8", "v_cvt_pk_f32")):
            self.fields["dst_unused"] = 0
        self.literal: int | None = None

    def visible(self) -> tuple[Slot, ...]:
        """Return the operands that the text shows, according to the fields parsed so far."""
        return visible_slots(self.op, self.target, self.form, self.fields)

    def put(self, name: str, value: int, text: str) -> None:
        """Set the field `name`; raise `WireError` if the encoding lacks it. The error message quotes `text`."""
        if name not in self.names:
            raise WireError(f"the encoding {self.form} does not support {text}")
        self.fields[name] = value


# ---- operands --------------------------------------------------------------------------------------------------------
LABEL: Final = r"[A-Za-z_.$][\w.$]*"
"""A regular expression that matches label names."""
EXPORTS: Final = (
    *(f"mrt{n}" for n in range(8)), "mrtz", "null", "invalid_target_10", "invalid_target_11",
    *(f"pos{n}" for n in range(4)), *(f"invalid_target_{n}" for n in range(16, 32)), *(f"param{n}" for n in range(32)),
)  # fmt: skip
"""Names of export targets by number."""
PARAMETERS: Final = ("p10", "p20", "p0")


@dataclass(frozen=True, slots=True)
class Operand:
    """The printer and the parser of one kind of operand.

    `read` raises `WireError` for a value that the instruction's encoding cannot hold."""

    show: Callable[[Insn, Slot], str]
    read: Callable[[InsnBuilder, Slot, str], None]


def _immediate(field: str, show: Callable[[int, int], str], read: Callable[[str, int], int]) -> Operand:
    """Return the `Operand` for a number in the field `field`; `show` prints the number and `read` parses it.

    The second argument of both functions is the encoding generation (`Target.encoding`)."""

    def put(builder: InsnBuilder, slot: Slot, text: str) -> None:
        builder.fields[field] = read(text, builder.target.encoding)

    return Operand(lambda insn, slot: show(insn[field], insn.target.encoding), put)


def _name(insn: Insn, slot: Slot) -> str:
    return names(insn.target.encoding, slot.kind, slot.words, slot.type)[insn[slot.field]]


def _read_vector(builder: InsnBuilder, slot: Slot, text: str) -> None:
    found = register(builder.target, text)
    if found is None or found[0] < VGPR0 or (slot.kind in ("v", "vsrc") and found[0] >= ACC0):
        raise WireError(f"{text!r} must be a vector register")
    if found[1] != slot.words and slot.field != "vaddr":
        raise WireError(f"{text} must name {count(slot.words, 'register')} in this operand")
    builder.fields[slot.field] = found[0] - VGPR0


def _read_vector_source(builder: InsnBuilder, slot: Slot, text: str) -> None:
    _read_vector(builder, slot, text)
    builder.fields[slot.field] += VGPR0


def _read_scalar(builder: InsnBuilder, slot: Slot, text: str) -> None:
    found = register(builder.target, text)
    if found is None or found[0] > NO_REGISTER:
        raise WireError(f"{text!r} must be a scalar register")
    if found[1] != slot.words:
        raise WireError(f"{text} must name {count(slot.words, 'register')} in this operand")
    if builder.form == "VOPC_SDWA" and text == "vcc":
        builder.fields["sdst"] = -1
    else:
        builder.put(slot.field, found[0], slot.field)


def _read_saddr(builder: InsnBuilder, slot: Slot, text: str) -> None:
    if text == "off":
        builder.fields["saddr"] = NO_SADDR
    else:
        _read_scalar(builder, slot, text)


def _read_fixed(builder: InsnBuilder, slot: Slot, text: str) -> None:
    if text != slot.field:
        raise WireError(f"{text!r} must be {slot.field}")


def _sign_bits(op: Op, form: str, slot: Slot) -> tuple[str, str] | None:
    """Return the names of the fields for the negation and the absolute value of a source.

    Return None for sources without sign modifiers.
    """
    if is_mix(op, form):
        return "neg", "neg_hi"
    takes_sign = slot.type.startswith("f") or (op.name == "v_cndmask_b32" and slot.type != "m64")
    return ("neg", "abs") if takes_sign and not slot.field.startswith("ssrc") else None


def _show_source(insn: Insn, slot: Slot) -> str:
    code = insn[slot.field]
    shown = literal(insn.literal or 0, slot.words, slot.type) if code == LITERAL else _name(insn, slot)
    if insn.get(f"{slot.field}_sext"):
        return f"sext({shown})"
    signs = _sign_bits(insn.op, insn.form, slot)
    if signs is None or (insn.form == "VOP3P" and not is_mix(insn.op, insn.form)):
        return shown
    negative, absolute = (insn.get(name) >> int(slot.field[-1]) & 1 for name in signs)
    if absolute:
        shown = f"|{shown}|"
    if not negative:
        return shown
    is_number = code < VGPR0 and (128 <= code <= 208 or 240 <= code <= 248 or code == LITERAL)
    return f"neg({shown})" if is_number and not absolute else f"-{shown}"


def _read_source(builder: InsnBuilder, slot: Slot, text: str) -> None:
    bare, negative, absolute = text, False, False
    if bare.startswith("sext(") and bare.endswith(")"):
        builder.put(f"{slot.field}_sext", 1, "sext")
        bare = bare[5:-1]
    if bare.startswith("neg(") and bare.endswith(")"):
        bare, negative = bare[4:-1], True
    elif re.match(r"-[|a-z]", bare):
        bare, negative = bare[1:], True
    if bare.startswith("|") and bare.endswith("|") and len(bare) > 2:
        bare, absolute = bare[1:-1], True
    elif bare.startswith("abs(") and bare.endswith(")"):
        bare, absolute = bare[4:-1], True
    if negative or absolute:
        signs = _sign_bits(builder.op, builder.form, slot)
        if signs is None:
            raise WireError(f"{text} must have no neg or abs: {builder.form} does not support them for this operand")
        for wanted, name in zip((negative, absolute), signs, strict=True):
            if wanted:
                builder.put(name, builder.fields.get(name, 0) | 1 << int(slot.field[-1]), text)
    builder.put(slot.field, _source_code(builder, slot, bare), slot.field)


def _source_code(builder: InsnBuilder, slot: Slot, text: str) -> int:
    """Return the operand code of a source without its sign modifiers; a literal is stored in `builder`."""
    found = register(builder.target, text)
    if found is not None:
        code, words = found
        if words not in (0, slot.words) or (code == LDS_DIRECT and slot.words != 1):
            raise WireError(f"{text} must name {count(slot.words, 'register')} in this operand")
        return code
    known = operand_constant(text, slot.words, slot.type)
    if known is None:
        raise WireError(f"{text!r} must be a register or a number")
    if known != LITERAL and (known != INVERSE_2PI or builder.target.level > GFX7):
        return known
    value = literal_value(text, slot.words, slot.type)
    if builder.literal not in (None, value):
        raise WireError(f"{text} must equal the first literal constant: an instruction holds only one")
    if builder.form.startswith(("VOP3", "MAI")) or builder.form.endswith(("_SDWA", "_DPP")):
        raise WireError(f"{text} must be an inline constant: {builder.form} holds no literal")
    builder.literal = value
    return LITERAL


def _read_literal(builder: InsnBuilder, slot: Slot, text: str) -> None:
    value = literal_value(text, 1, slot.type)
    if builder.literal not in (None, value):
        raise WireError(f"{text} must equal the first literal constant: an instruction holds only one")
    builder.literal = value


def _show_offset(insn: Insn, slot: Slot) -> str:
    """Return the offset of a scalar memory access as text: an immediate, a register or (GFX9) both."""
    scalars = names(insn.target.encoding, "s", 1, "b32")
    if insn.get("soffset_en"):
        return scalars[insn["soffset"]]
    if insn["imm"]:
        return f"{insn['offset']:#x}"
    if insn.target.level > GFX7:
        return scalars[insn["offset"] & NO_REGISTER]
    if insn["offset"] != LITERAL:
        return scalars[insn["offset"]]
    value = insn.literal or 0
    return f"{value:#x}" if value > 0xFF else f"lit({value:#x})"


def _read_offset(builder: InsnBuilder, slot: Slot, text: str) -> None:
    found = register(builder.target, text)
    if found is not None:
        if found[1] != 1 or found[0] > NO_REGISTER:
            raise WireError(f"{text} must be one scalar register")
        if builder.fields.get("soffset_en"):
            builder.fields |= {"imm": 1, "soffset_en": 1, "soffset": found[0]}
        else:
            builder.fields |= {"imm": 0, "offset": found[0]}
        return
    bare = text.removeprefix("lit(").rstrip(")") if text.startswith("lit(") else text
    value = integer(bare)
    if value is None:
        raise WireError(f"{text!r} must be a register or a number")
    if builder.target.level == GFX7 and (bare != text or not 0 <= value <= 0xFF):
        builder.fields |= {"imm": 0, "offset": LITERAL}
        builder.literal = literal_value(bare, 1, "b32")
    elif builder.fields.get("soffset_en"):
        raise WireError(f"{text} must be a register, since an offset is given already")
    else:
        builder.fields |= {"imm": 1, "offset": value}


def _read_target(builder: InsnBuilder, slot: Slot, text: str) -> None:
    if integer(text) is not None:
        builder.fields["simm16"] = macros.plain(text)
        return
    if not re.fullmatch(LABEL, text):
        raise WireError(f"{text!r} must be a label or a number")
    if builder.labels is None:
        return
    if text not in builder.labels:
        raise WireError(f"there is no label {text!r}")
    distance = builder.labels[text] - (builder.pc + 4)
    if distance % 4 or not -(1 << 17) <= distance < 1 << 17:
        raise WireError(f"{text} is {distance} bytes away, but a branch reaches 131072 bytes in steps of 4")
    builder.fields["simm16"] = distance >> 2 & 0xFFFF


def _decimal(value: int, level: int) -> str:
    return f"{value:#x}" if value > 64 else str(value)


def _read_export(text: str, level: int) -> int:
    if text not in EXPORTS:
        raise WireError(f"unknown export target {text!r}")
    return EXPORTS.index(text)


def _show_export_source(insn: Insn, slot: Slot) -> str:
    k = int(slot.field[-1])
    return f"v{insn[f'vsrc{k // 2}' if insn['compr'] else slot.field]}" if insn["en"] >> k & 1 else "off"


def _read_export_source(builder: InsnBuilder, slot: Slot, text: str) -> None:
    if text == "off":
        return
    found = register(builder.target, text)
    if found is None or found[0] < VGPR0 or found[1] != 1:
        raise WireError(f"{text!r} must be a vector register or off")
    k = int(slot.field[-1])
    builder.fields[f"vsrc{k // 2}" if builder.fields["compr"] else slot.field] = found[0] - VGPR0
    builder.fields["en"] |= 1 << k


def _show_attribute(insn: Insn, slot: Slot) -> str:
    code = insn["chan"] << 6 | insn["attr"] if insn.form == "VINTRP" else insn["src0"]
    return f"attr{code & 63}.{'xyzw'[code >> 6 & 3]}"


def _read_attribute(builder: InsnBuilder, slot: Slot, text: str) -> None:
    found = re.fullmatch(r"attr(\d+)\.([xyzw])", text)
    if found is None or index(found[1]) > 63:
        raise WireError(f"{text!r} must be like attr0.x, up to attr63")
    attribute, channel = int(found[1]), "xyzw".index(found[2])
    if builder.form == "VINTRP":
        builder.fields |= {"attr": attribute, "chan": channel}
    else:
        builder.fields["src0"] = builder.fields["src0"] & 0x100 | channel << 6 | attribute


def _parameter_field(form: str) -> str:
    return "vsrc" if form == "VINTRP" else "src1"


def _show_parameter(insn: Insn, slot: Slot) -> str:
    code = insn[_parameter_field(insn.form)]
    return PARAMETERS[code] if code < 3 else f"invalid_param_{code}"


def _read_parameter(builder: InsnBuilder, slot: Slot, text: str) -> None:
    found = re.fullmatch(r"invalid_param_(\d{1,3})", text)
    if text not in PARAMETERS and not found:
        raise WireError(f"{text!r} must be one of {', '.join(PARAMETERS)}")
    builder.fields[_parameter_field(builder.form)] = int(found[1]) if found else PARAMETERS.index(text)


OPERANDS: Final[Mapping[str, Operand]] = {
    **dict.fromkeys(("v", "a", "va"), Operand(_name, _read_vector)),
    **dict.fromkeys(("vsrc", "asrc", "vasrc"), Operand(_name, _read_vector_source)),
    "s":        Operand(_name, _read_scalar),
    "saddr":    Operand(_name, _read_saddr),
    **dict.fromkeys(("src", "csrc"), Operand(_show_source, _read_source)),
    **dict.fromkeys(("vcc", "off"), Operand(lambda insn, slot: slot.field, _read_fixed)),
    "offset":   Operand(_show_offset, _read_offset),
    "literal":  Operand(lambda insn, slot: f"{insn.literal or 0:#x}", _read_literal),
    "target":   Operand(lambda insn, slot: str(insn["simm16"]), _read_target),
    "simm16":   _immediate("simm16", _decimal, macros.plain),
    "hex16":    _immediate("simm16", lambda value, level: f"{value:#x}", macros.plain),
    "quiet":    _immediate("simm16", lambda value, level: str(value or ""), macros.plain),
    "probe":    _immediate("sdata", _decimal, lambda text, level: number(text, 127, "number")),
    "waitcnt":  _immediate("simm16", macros.waits, macros.read_waits),
    "message":  _immediate("simm16", macros.message, macros.read_message),
    "hwreg":    _immediate("simm16", macros.hardware_register, macros.read_register),
    "gpr_idx":  _immediate("ssrc1", macros.index_modes, macros.read_modes),
    "gpr_mode": _immediate("simm16", macros.index_modes, macros.read_modes),
    "export":   _immediate("tgt", lambda value, level: EXPORTS[value], _read_export),
    **dict.fromkeys(("vsrc0", "vsrc1", "vsrc2", "vsrc3"), Operand(_show_export_source, _read_export_source)),
    "attr":     Operand(_show_attribute, _read_attribute),
    "param":    Operand(_show_parameter, _read_parameter),
}  # fmt: skip
"""The printer and parser of every kind of operand, by its name in `encoding.shape`."""
