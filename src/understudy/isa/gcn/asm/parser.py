"""Reading the operands and modifiers of one instruction's text into its fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.asm import macros
from understudy.isa.gcn.asm.constants import constant, integer, literal_value, register
from understudy.isa.gcn.asm.modifier_parser import LANE_CODES, VALUED, number
from understudy.isa.gcn.asm.printer import EXPORTS, PARAMETERS, takes_sign
from understudy.isa.gcn.encoding.decode import LANE_NAMES
from understudy.isa.gcn.encoding.encode import find_format, names_of
from understudy.isa.gcn.encoding.operands import INVERSE_2PI, LDS_DIRECT, LITERAL, NO_REGISTER, VGPR0
from understudy.isa.gcn.encoding.shape import NO_SADDR, VARIANT, Slot, visible
from understudy.isa.gcn.insn import Op
from understudy.isa.gcn.target import GFX7, GFX9, Target

LABEL: Final = r"[A-Za-z_.$][\w.$]*"
"""What names of labels look like."""
_OPEN: Final = "([{"
_CLOSE: Final = ")]}"


def split(text: str, separator: str) -> list[str]:
    """`text` split at a separator outside of brackets and bars, blanks trimmed."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        quoted ^= letter == '"'
        if letter == separator and depth == 0 and not quoted:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part] if separator == " " else parts


FLAGS: Final = frozenset({
    "glc", "slc", "lds", "tfe", "gds", "offen", "idxen", "addr64", "unorm", "da", "lwe", "d16", "r128", "nv",
    "clamp", "done", "vm", "compr",
})  # fmt: skip


class Reader:
    """Fills the fields of an instruction from its text; `read` raises `WireError` for what the form cannot hold."""

    def __init__(self, target: Target, op: Op, form: str, pc: int, labels: Mapping[str, int] | None) -> None:
        self.target, self.op, self.form, self.pc, self.labels = target, op, form, pc, labels
        self.names = names_of(find_format(target, op, form)) | ({"sdst"} if op.family == "vopc" else frozenset())
        self.fields: dict[str, int] = self._defaults()
        self.literal: int | None = None

    def _defaults(self) -> dict[str, int]:
        fields = dict.fromkeys(self.names, 0)
        given: dict[str, int] = {"saddr": NO_SADDR} if self.op.family in ("global", "scratch") else {}
        if self.form.endswith("_SDWA"):
            given |= {"src0_sel": 6, "src1_sel": 0 if self.form == "VOP1_SDWA" else 6}
            given |= {} if self.form == "VOPC_SDWA" else {"dst_sel": 6, "dst_unused": 2}
        elif self.form.endswith("_DPP"):
            given |= {"dpp_ctrl": 0xE4, "row_mask": 15, "bank_mask": 15}
        elif self.form == "VOP3P" and "mix" not in self.op.name:
            given["op_sel_hi"] = 7
        elif self.form == "MTBUF":
            given["dfmt"] = 1
        if self.op.name in LANE_NAMES:
            return fields
        if self.form in ("VOP2", "VOPC") or self.form.endswith(("_SDWA", "_DPP")):
            given |= {"src0": VGPR0, "src1": VGPR0}
        if self.form.endswith("_SDWA"):
            given["sdst"] = -1
        if self.form == "VOPC":
            fields.pop("sdst", None)
        elif self.form == "VOP3A" and self.op.family == "vopc":
            fields.pop("vdst", None)
        return fields | {name: value for name, value in given.items() if name in self.names}

    def read(self, text: str) -> None:
        """Operands, then modifiers."""
        operands, modifiers = self._parts(text)
        for modifier in modifiers:
            self._modifier(modifier)
        self._preset(operands)
        shown = self._shown()
        if len(operands) != len(shown):
            raise WireError(f"{self.op.name} takes {len(shown)} operands here, not {len(operands)}")
        for slot, operand in zip(shown, operands, strict=True):
            _READERS[slot.kind](self, slot, operand)

    def _shown(self) -> tuple[Slot, ...]:
        shown = visible_shape(self)
        return () if [slot.kind for slot in shown] == ["quiet"] and not self._quiet else shown

    _quiet = False

    def _parts(self, text: str) -> tuple[list[str], list[str]]:
        """Operand texts and modifier texts."""
        kinds = [slot.kind for slot in visible_shape(self)]
        if kinds in (["waitcnt"], ["message"]):
            return [text.strip()], []
        parts = split(text, ",") if text.strip() else []
        modifiers: list[str] = []
        if parts:
            last = split(parts[-1], " ")
            keep = 0 if len(parts) == 1 and self._is_modifier(last[0]) else 1
            if self.form == "EXP" and len(parts) == 1:
                keep = len(last)
            modifiers = last[keep:]
            parts[-1:] = last[:keep]
        if self.form == "EXP" and parts:
            parts[:1] = split(parts[0], " ")
        self._quiet = bool(parts)
        return parts, modifiers

    def _is_modifier(self, text: str) -> bool:
        return text in FLAGS or re.match(r"[a-z]\w*:", text) is not None

    def _preset(self, operands: list[str]) -> None:
        """What decides how other operands look: the scalar address of FLAT."""
        kinds = [slot.kind for slot in self._shown()]
        if "saddr" in kinds and len(operands) == len(kinds):
            _read_saddr(self, Slot("saddr", 2 if self.op.family == "global" else 1), operands[kinds.index("saddr")])

    def put(self, name: str, value: int, text: str) -> None:
        """Set a field that the form must have."""
        if name not in self.names:
            raise WireError(f"{self.form} has no {text}")
        self.fields[name] = value

    def _modifier(self, text: str) -> None:
        name, colon, value = text.partition(":")
        if text in FLAGS:
            self.put(text, 1, text)
        elif text == "a16" and self.target.level == GFX9:
            self.put("r128", 1, text)
        elif text == "high":
            self.put("src0", self.fields.get("src0", 0) | 0x100, text)
        elif LANE_CODES.get(text, 0) >= 0x130 or text in ("wave_shl", "wave_rol", "wave_shr", "wave_ror"):
            self.put("dpp_ctrl", LANE_CODES.get(text, LANE_CODES.get(f"{text}:1", 0)), text)
        elif colon and name in VALUED:
            VALUED[name](self, name, value)
        else:
            raise WireError(f"{text!r} is no modifier")

    def source(self, slot: Slot, text: str) -> int:
        """The operand code of a source without its signs; a literal goes to `literal`."""
        found = register(self.target, text)
        if found is not None:
            code, words = found
            if words not in (0, slot.words) or (code == LDS_DIRECT and slot.words != 1):
                raise WireError(f"{text} must be {slot.words} registers here")
            return code
        code_or_none = constant(text, slot.words, slot.type)
        if code_or_none is None:
            raise WireError(f"{text!r} must be a register or a number")
        if code_or_none == LITERAL or (code_or_none == INVERSE_2PI and self.target.level == GFX7):
            value = literal_value(text, slot.words, slot.type)
            if self.literal not in (None, value):
                raise WireError(f"{text} is a second literal constant")
            if self.form.startswith("VOP3") or self.form.endswith(("_SDWA", "_DPP")):
                raise WireError(f"{text} must be an inline constant: {self.form} holds no literal")
            self.literal = value
            return LITERAL
        return code_or_none


def visible_shape(reader: Reader) -> tuple[Slot, ...]:
    """The operands by the reader's fields so far."""
    vary = VARIANT.get(reader.form)
    return visible(reader.op, reader.target.name, reader.form, vary(reader.fields) if vary else ())


def _read_vector(reader: Reader, slot: Slot, text: str) -> None:
    found = register(reader.target, text)
    if found is None or found[0] < VGPR0:
        raise WireError(f"{text!r} must be a vector register")
    if found[1] != slot.words and slot.field != "vaddr":
        raise WireError(f"{text} must be {slot.words} registers here")
    reader.fields[slot.field] = found[0] - VGPR0


def _read_scalar(reader: Reader, slot: Slot, text: str) -> None:
    found = register(reader.target, text)
    if found is None or found[0] > NO_REGISTER:
        raise WireError(f"{text!r} must be a scalar register")
    if found[1] != slot.words:
        raise WireError(f"{text} must be {slot.words} registers here")
    if reader.form == "VOPC_SDWA" and text == "vcc":
        reader.fields["sdst"] = -1
    else:
        reader.put(slot.field, found[0], slot.field)


def _read_source(reader: Reader, slot: Slot, text: str) -> None:
    bare, negative, absolute = text, False, False
    if bare.startswith("sext(") and bare.endswith(")"):
        reader.put(f"{slot.field}_sext", 1, "sext")
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
        _put_signs(reader, slot, text, negative, absolute)
    reader.put(slot.field, reader.source(slot, bare), slot.field)


def _put_signs(reader: Reader, slot: Slot, text: str, negative: bool, absolute: bool) -> None:
    is_mix = reader.form == "VOP3P" and "mix" in reader.op.name
    if slot.field.startswith("ssrc") or not (is_mix or takes_sign(reader.op, slot.type)):
        raise WireError(f"{text}: this operand has no sign")
    bit = 1 << int(slot.field[-1])
    for wanted, name in ((negative, "neg"), (absolute, "neg_hi" if is_mix else "abs")):
        if wanted:
            reader.put(name, reader.fields.get(name, 0) | bit, text)


def _read_saddr(reader: Reader, slot: Slot, text: str) -> None:
    if text == "off":
        reader.fields["saddr"] = NO_SADDR
    else:
        _read_scalar(reader, Slot("saddr", slot.words, kind="s"), text)


def _read_fixed(reader: Reader, slot: Slot, text: str) -> None:
    if text != slot.field:
        raise WireError(f"{text!r} must be {slot.field}")


def _read_scalar_offset(reader: Reader, slot: Slot, text: str) -> None:
    found = register(reader.target, text)
    if found is not None:
        if found[1] != 1 or found[0] > NO_REGISTER:
            raise WireError(f"{text} must be one scalar register")
        if reader.fields.get("soffset_en"):
            reader.fields |= {"imm": 1, "soffset_en": 1, "soffset": found[0]}
        else:
            reader.fields |= {"imm": 0, "offset": found[0]}
        return
    bare = text.removeprefix("lit(").rstrip(")") if text.startswith("lit(") else text
    value = integer(bare)
    if value is None:
        raise WireError(f"{text!r} must be a register or a number")
    if reader.target.level == GFX7 and (bare != text or not 0 <= value <= 0xFF):
        reader.fields |= {"imm": 0, "offset": LITERAL}
        reader.literal = literal_value(bare, 1, "b32")
    elif reader.fields.get("soffset_en"):
        raise WireError(f"{text} must be a register: there is an offset already")
    else:
        reader.fields |= {"imm": 1, "offset": value}


def _read_target(reader: Reader, slot: Slot, text: str) -> None:
    if integer(text) is not None:
        reader.fields["simm16"] = macros.plain(text)
        return
    if not re.fullmatch(LABEL, text):
        raise WireError(f"{text!r} must be a label or a number")
    if reader.labels is None:
        return
    if text not in reader.labels:
        raise WireError(f"there is no label {text!r}")
    distance = reader.labels[text] - (reader.pc + 4)
    if distance % 4 or not -(1 << 17) <= distance < 1 << 17:
        raise WireError(f"{text} is {distance} bytes away: a branch reaches 131072 in steps of 4")
    reader.fields["simm16"] = distance >> 2 & 0xFFFF


def _read_literal(reader: Reader, slot: Slot, text: str) -> None:
    value = literal_value(text, 1, slot.type)
    if reader.literal not in (None, value):
        raise WireError(f"{text} must be the literal constant of the other operand")
    reader.literal = value


def _immediate(read: Callable[[str, int], int], field: str = "simm16") -> Callable[[Reader, Slot, str], None]:
    def put(reader: Reader, slot: Slot, text: str) -> None:
        reader.fields[field] = read(text, reader.target.level)

    return put


def _read_export(reader: Reader, slot: Slot, text: str) -> None:
    if text not in EXPORTS:
        raise WireError(f"{text!r} is no export target")
    reader.fields["tgt"] = EXPORTS.index(text)


def _read_export_source(reader: Reader, slot: Slot, text: str) -> None:
    if text == "off":
        return
    found = register(reader.target, text)
    if found is None or found[0] < VGPR0 or found[1] != 1:
        raise WireError(f"{text!r} must be a vector register or off")
    k = int(slot.field[-1])
    reader.fields[f"vsrc{k // 2}" if reader.fields["compr"] else slot.field] = found[0] - VGPR0
    reader.fields["en"] |= 1 << k


def _read_attribute(reader: Reader, slot: Slot, text: str) -> None:
    found = re.fullmatch(r"attr(\d+)\.([xyzw])", text)
    if found is None or int(found[1]) > 63:
        raise WireError(f"{text!r} must be like attr0.x, up to attr63")
    attribute, channel = int(found[1]), "xyzw".index(found[2])
    if reader.form == "VINTRP":
        reader.fields |= {"attr": attribute, "chan": channel}
    else:
        reader.fields["src0"] = reader.fields["src0"] & 0x100 | channel << 6 | attribute


def _read_parameter(reader: Reader, slot: Slot, text: str) -> None:
    found = re.fullmatch(r"invalid_param_(\d+)", text)
    if text not in PARAMETERS and not found:
        raise WireError(f"{text!r} must be one of {', '.join(PARAMETERS)}")
    code = int(found[1]) if found else PARAMETERS.index(text)
    reader.fields["vsrc" if reader.form == "VINTRP" else "src1"] = code


def _read_probe(reader: Reader, slot: Slot, text: str) -> None:
    reader.fields["sdata"] = number(text, 127, "number")


_READERS: Final[Mapping[str, Callable[[Reader, Slot, str], None]]] = {
    "v": _read_vector, "s": _read_scalar, "src": _read_source, "vcc": _read_fixed, "off": _read_fixed,
    "saddr": _read_saddr, "offset": _read_scalar_offset, "probe": _read_probe,
    "literal": _read_literal, "target": _read_target,
    "simm16": _immediate(lambda text, level: macros.plain(text)),
    "quiet": _immediate(lambda text, level: macros.plain(text)),
    "waitcnt": _immediate(macros.read_waits), "message": _immediate(macros.read_message),
    "hwreg": _immediate(macros.read_register), "gpr_idx": _immediate(macros.read_modes, "ssrc1"),
    "gpr_mode": _immediate(macros.read_modes), "export": _read_export,
    **dict.fromkeys(("vsrc0", "vsrc1", "vsrc2", "vsrc3"), _read_export_source),
    "attr": _read_attribute, "param": _read_parameter,
}  # fmt: skip
