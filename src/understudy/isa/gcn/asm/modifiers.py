"""What stands behind the operands of an instruction's text: clamps, selections, offsets, flags; shown and read back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.asm import macros
from understudy.isa.gcn.asm.constants import integer, number
from understudy.isa.gcn.asm.draft import Draft, is_mix
from understudy.isa.gcn.encoding.operands import LANE_PATTERNS, SELECT, UNUSED
from understudy.isa.gcn.encoding.shape import slots
from understudy.isa.gcn.insn import Insn, Op
from understudy.isa.gcn.target import GFX9

OMOD: Final = ("", "mul:2", "mul:4", "div:2")
# fmt: off
DATA_FORMATS: Final = (
    "INVALID", "8", "16", "8_8", "32", "16_16", "10_11_11", "11_11_10", "10_10_10_2", "2_10_10_10", "8_8_8_8", "32_32",
    "16_16_16_16", "32_32_32", "32_32_32_32", "RESERVED_15",
)
NUMBER_FORMATS: Final = {
    7: ("UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "SNORM_OGL", "FLOAT"),
    8: ("UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT"),
}
# fmt: on
FLAGS: Final = frozenset(
    {
        "glc",
        "slc",
        "lds",
        "tfe",
        "gds",
        "offen",
        "idxen",
        "addr64",
        "unorm",
        "da",
        "lwe",
        "d16",
        "r128",
        "nv",
        "clamp",
        "done",
        "vm",
        "compr",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Modifier:
    """`show` gives "" for what an assembler assumes; `read` takes a name and what stands behind its colon.

    `names` are those that the text may have, with a colon where a value follows. `WireError` for what cannot be read.
    """

    show: Callable[[Insn], str]
    read: Callable[[Draft, str, str], None]
    names: tuple[str, ...]


def _flag(name: str) -> Modifier:
    return Modifier(
        lambda insn: name if insn.get(name) else "", lambda draft, text, value: draft.put(name, 1, text), (name,)
    )


def _number(name: str, top: int, form: str = "", *, always: bool = False) -> Modifier:
    """A number up to `top`, shown where it is not 0, or always."""

    def show(insn: Insn) -> str:
        return f"{name}:{insn[name]:{form}}" if insn[name] or always else ""

    return Modifier(show, lambda draft, text, value: draft.put(name, number(value, top, name), name), (f"{name}:",))


def _choice(name: str, choices: tuple[str, ...]) -> Modifier:
    """One of some names, always shown."""

    def read(draft: Draft, text: str, value: str) -> None:
        if value not in choices:
            raise WireError(f"{name} {value!r} must be one of {', '.join(choices)}")
        draft.put(name, choices.index(value), name)

    return Modifier(lambda insn: f"{name}:{choices[insn[name]]}", read, (f"{name}:",))


def source_count(op: Op, form: str) -> int:
    """How many source fields the operation uses in that form."""
    return sum(slot.field in ("src0", "src1", "src2") for slot in slots(op, form))


def _list(name: str, field: str) -> Modifier:
    """One bit for each source; in VOP3A one more for the destination, which stands at bit 3."""

    def show(insn: Insn) -> str:
        count = source_count(insn.op, insn.form)
        ones, value, assumed = (1 << count) - 1, insn.get(field), 0
        if insn.form == "VOP3P":
            value &= ones
            if not is_mix(insn.op, insn.form):
                assumed = ones if name == "op_sel_hi" else 0
            elif name.startswith("neg"):
                return ""
        else:
            value, count = value & ones | value >> 3 << count, count + 1
        return "" if value == assumed else f"{name}:[{','.join(str(value >> k & 1) for k in range(count))}]"

    def read(draft: Draft, text: str, given: str) -> None:
        if not re.fullmatch(r"\[[01](,\s*[01])*\]", given):
            raise WireError(f"{name} must be a list like [0,1]")
        digits = [int(digit) for digit in given.strip("[]").split(",")]
        count = source_count(draft.op, draft.form)
        if draft.form == "VOP3A" and len(digits) == count + 1:
            digits[count:] = [0] * (3 - count) + digits[count:]
        elif len(digits) != count:
            raise WireError(f"{name} must have {count} numbers")
        value = sum(digit << k for k, digit in enumerate(digits))
        if name == "op_sel_hi" and not is_mix(draft.op, draft.form):
            value |= 7 >> count << count
        draft.put(field, value, name)

    return Modifier(show, read, (f"{name}:",))


def _show_offset(insn: Insn) -> str:
    if insn.form == "SMEM":
        return f"offset:{insn['offset']:#x}" if insn.get("soffset_en") and insn["imm"] else ""
    value = insn["offset0"] | insn["offset1"] << 8 if insn.form == "DS" else insn.get("offset")
    if not value:
        return ""
    return f"offset:{macros.swizzle(value, insn.target.level) if insn.op.name == 'ds_swizzle_b32' else value}"


def _read_offset(draft: Draft, name: str, text: str) -> None:
    if draft.form == "DS":
        value = macros.read_swizzle(text, 9) if draft.op.name == "ds_swizzle_b32" else number(text, 0xFFFF, name)
        draft.fields |= {"offset0": value & 0xFF, "offset1": value >> 8}
        return
    offset = integer(text)
    if offset is None:
        raise WireError(f"offset {text!r} must be a number")
    if draft.form == "SMEM":
        draft.put("soffset_en", 1, name)
    draft.put("offset", offset, name)


def _read_omod(draft: Draft, name: str, text: str) -> None:
    if f"{name}:{text}" not in OMOD:
        raise WireError(f"{name}:{text} must be one of {', '.join(OMOD[1:])}")
    draft.put("omod", OMOD.index(f"{name}:{text}"), name)


_LANE_CODES: Final = {name: code for code, name in LANE_PATTERNS.items()}
_ROW_SHIFTS: Final = ("row_shl", "row_shr", "row_ror")
_WAVE_SHIFTS: Final = ("wave_shl", "wave_rol", "wave_shr", "wave_ror")


def _read_pattern(draft: Draft, name: str, text: str) -> None:
    if name == "quad_perm":
        if not re.fullmatch(r"\[[0-3](,\s*[0-3]){3}\]", text):
            raise WireError("quad_perm must be four lanes like [0,1,2,3]")
        text = re.sub(r"\s", "", text)
    elif name in _ROW_SHIFTS:
        if not (count := number(text, 15, name)):
            raise WireError(f"{name} must be 1 to 15")
        text = str(count)
    if f"{name}:{text}" not in _LANE_CODES:
        raise WireError(f"{name}:{text} is no lane pattern")
    shown = f"{name}:{text}"
    draft.put("dpp_ctrl", _LANE_CODES[shown], name if name == "quad_perm" or name in _ROW_SHIFTS else shown)


def _read_bare_pattern(draft: Draft, name: str, text: str) -> None:
    draft.put("dpp_ctrl", _LANE_CODES.get(name) or _LANE_CODES[f"{name}:1"], name)


def _read_bound_control(draft: Draft, name: str, text: str) -> None:
    number(text, 15, name)
    draft.put(name, 1, name)


def _read_a16(draft: Draft, name: str, text: str) -> None:
    if draft.target.level != GFX9:
        raise WireError(f"{name!r} is no modifier")
    draft.put("r128", 1, name)


def _show_format(insn: Insn) -> str:
    """Data and number format of a typed access, "" for what an assembler assumes (8, UNORM)."""
    names = NUMBER_FORMATS[min(insn.target.level, 8)]
    shown = [f"BUF_DATA_FORMAT_{DATA_FORMATS[insn['dfmt']]}"] if insn["dfmt"] != 1 else []
    shown += [f"BUF_NUM_FORMAT_{names[insn['nfmt']]}"] if insn["nfmt"] else []
    return f"format:[{','.join(shown)}]" if shown else ""


def _read_format(draft: Draft, name: str, text: str) -> None:
    numbers = NUMBER_FORMATS[min(draft.target.level, 8)]
    if integer(text) is not None:
        value = number(text, 127, name)
        draft.fields |= {"dfmt": value & 15, "nfmt": value >> 4}
        return
    for part in text.strip("[]").split(","):
        data, kind = part.strip().removeprefix("BUF_DATA_FORMAT_"), part.strip().removeprefix("BUF_NUM_FORMAT_")
        if data != part.strip() and data in DATA_FORMATS:
            draft.put("dfmt", DATA_FORMATS.index(data), name)
        elif kind != part.strip() and kind in numbers:
            draft.put("nfmt", numbers.index(kind), name)
        else:
            raise WireError(f"{part.strip()!r} is no buffer format")


MODIFIERS: Final[Mapping[str, Modifier]] = {
    **{name: _flag(name) for name in FLAGS},
    "omod":       Modifier(lambda insn: OMOD[insn.get("omod")], _read_omod, ("mul:", "div:")),
    "high":       Modifier(lambda insn: "high" if insn["src0"] >> 8 & 1 else "",
                      lambda draft, name, _: draft.put("src0", draft.fields.get("src0", 0) | 0x100, name), ("high",)),
    "op_sel":     _list("op_sel", "op_sel"),
    "op_sel_hi":  _list("op_sel_hi", "op_sel_hi"),
    "neg_lo":     _list("neg_lo", "neg"),
    "neg_hi":     _list("neg_hi", "neg_hi"),
    "dst_sel":    _choice("dst_sel", SELECT),
    "src0_sel":   _choice("src0_sel", SELECT),
    "src1_sel":   _choice("src1_sel", SELECT),
    "dst_unused": _choice("dst_unused", UNUSED),
    "lanes":      Modifier(lambda insn: LANE_PATTERNS[insn["dpp_ctrl"]], _read_pattern,
                      tuple(f"{name}:" for name in ("quad_perm", *_ROW_SHIFTS, *_WAVE_SHIFTS, "row_bcast"))),
    "bare lanes": Modifier(lambda insn: "", _read_bare_pattern, ("row_mirror", "row_half_mirror", *_WAVE_SHIFTS)),
    "row_mask":   _number("row_mask", 15, "#x", always=True),
    "bank_mask":  _number("bank_mask", 15, "#x", always=True),
    "bound_ctrl": Modifier(lambda insn: "bound_ctrl:1" if insn["bound_ctrl"] else "", _read_bound_control,
                      ("bound_ctrl:",)),
    "offset":     Modifier(_show_offset, _read_offset, ("offset:",)),
    "offset0":    _number("offset0", 255),
    "offset1":    _number("offset1", 255),
    "dmask":      _number("dmask", 15, "#x"),
    "a16":        Modifier(lambda insn: ("a16" if insn.target.level == GFX9 else "r128") if insn["r128"] else "",
                      _read_a16, ("a16",)),
    "format":     Modifier(_show_format, _read_format, ("format:",)),
    "dfmt":       _number("dfmt", 15),
    "nfmt":       _number("nfmt", 7),
}  # fmt: skip
"""Every modifier; what is shown of an instruction says `_words`."""
_BY_NAME: Final = {name: modifier for modifier in MODIFIERS.values() for name in modifier.names}

_BUFFER: Final = "addr64 idxen offen offset glc slc tfe lds"
_WORDS: Final[Mapping[str, str]] = {
    "VOP3A": "op_sel clamp omod",
    "VOP3B": "clamp omod",
    "VOP3P": "op_sel op_sel_hi neg_lo neg_hi clamp omod",
    "VOP1_SDWA": "clamp omod dst_sel dst_unused src0_sel",
    "VOP2_SDWA": "clamp omod dst_sel dst_unused src0_sel src1_sel",
    "VOPC_SDWA": "clamp omod src0_sel src1_sel",
    "VOP1_DPP": "lanes row_mask bank_mask bound_ctrl",
    "VOP2_DPP": "lanes row_mask bank_mask bound_ctrl",
    "DS": "offset gds",
    "FLAT": "offset glc slc tfe lds nv",
    "MUBUF": _BUFFER,
    "MTBUF": f"format {_BUFFER}",
    "MIMG": "dmask unorm glc slc a16 tfe lwe da d16",
    "EXP": "done compr vm",
}
"""Which modifiers a form has, as its text lists them."""


@cache
def _words(op: Op, form: str) -> tuple[Modifier, ...]:
    """The modifiers that mean something for an operation."""
    words = _WORDS.get(form, "")
    fields = {slot.field for slot in slots(op, form)}
    if form == "VOP3A" and "attr" in fields:
        words = f"high {words}"
    elif op.name.startswith(("ds_read2", "ds_write2", "ds_wrxchg2")):
        words = words.replace("offset", "offset0 offset1")
    elif form == "SMEM" and "offset" in fields:
        words = "offset glc nv" if "sdata" in fields else "offset"
    elif op.name == "ds_nop" or (form == "MUBUF" and not fields):
        words = ""
    return tuple(MODIFIERS[word] for word in words.split())


def modifiers(insn: Insn) -> Iterator[str]:
    """The modifiers that differ from what an assembler assumes."""
    return filter(None, (modifier.show(insn) for modifier in _words(insn.op, insn.form)))


def read_modifier(draft: Draft, text: str) -> None:
    """One modifier into the draft's fields; `WireError` for one that the form does not have."""
    name, colon, value = text.partition(":")
    modifier = _BY_NAME.get(name + colon)
    if modifier is None:
        raise WireError(f"{text!r} is no modifier")
    modifier.read(draft, name, value)
