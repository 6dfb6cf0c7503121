"""Printing and parsing of the modifiers after an instruction's operands: clamps, selections, offsets, flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from softcard.core.errors import WireError
from softcard.isa.gcn.asm import macros
from softcard.isa.gcn.asm.constants import integer, number
from softcard.isa.gcn.asm.operands import InsnBuilder, is_mix
from softcard.isa.gcn.encoding.decode import ACC_NAMES
from softcard.isa.gcn.encoding.operands import LANE_PATTERNS, NEW_BROADCASTS, SELECT, UNUSED
from softcard.isa.gcn.encoding.shape import slots, truth_table
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.target import GFX9, GFX940, Target

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
        "scc",
        "sc0",
        "sc1",
        "nt",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Modifier:
    """A modifier of instruction text. `show` returns its text, "" for the default value.

    `read` parses a name and the text after its colon, and raises `WireError` if it cannot. `names` are the accepted
    names, with a colon if a value follows.
    """

    show: Callable[[Insn], str]
    read: Callable[[InsnBuilder, str, str], None]
    names: tuple[str, ...]


def _flag(name: str) -> Modifier:
    return Modifier(
        lambda insn: name if insn.get(name) else "", lambda builder, text, value: builder.put(name, 1, text), (name,)
    )


_CACHE_FLAGS: Final = {"glc": "sc0", "slc": "nt", "scc": "sc1"}
"""The names of cache flags, and their names from gfx942 on; scalar memory accesses keep the old names."""


def _cache_flag(name: str) -> Modifier:
    newer = _CACHE_FLAGS[name]

    def is_newer(target: Target, form: str) -> bool:
        return target.encoding >= GFX940 and form != "SMEM"

    def show(insn: Insn) -> str:
        return (newer if is_newer(insn.target, insn.form) else name) if insn.get(name) else ""

    def read(builder: InsnBuilder, text: str, value: str) -> None:
        wanted = newer if is_newer(builder.target, builder.form) else name
        if text != wanted:
            raise WireError(f"{builder.form} has no {text} on {builder.target}: write {wanted}")
        builder.put(name, 1, text)

    return Modifier(show, read, (name, newer))


def _number(name: str, top: int, form: str = "", *, always: bool = False) -> Modifier:
    """Return a modifier whose value is a number up to `top`; 0 is shown only if `always` is True.

    `form` is the format specification with which the number is printed."""

    def show(insn: Insn) -> str:
        return f"{name}:{insn[name]:{form}}" if insn[name] or always else ""

    return Modifier(show, lambda builder, text, value: builder.put(name, number(value, top, name), name), (f"{name}:",))


def _choice(name: str, choices: tuple[str, ...]) -> Modifier:
    """Return a modifier whose value is one of the names `choices`; it is always shown."""

    def read(builder: InsnBuilder, text: str, value: str) -> None:
        if value not in choices:
            raise WireError(f"{name} {value!r} must be one of {', '.join(choices)}")
        builder.put(name, choices.index(value), name)

    return Modifier(lambda insn: f"{name}:{choices[insn[name]]}", read, (f"{name}:",))


def source_count(op: Op, form: str) -> int:
    """Return the number of source fields that the operation uses in the form `form`."""
    return sum(slot.field in ("src0", "src1", "src2") for slot in slots(op, form))


_TO_FP4: Final = ("v_cvt_scalef32_pk_fp4_f16", "v_cvt_scalef32_pk_fp4_bf16")


def list_length(op: Op, form: str) -> int:
    """Return the number of bits in op_sel and the other modifiers that are lists: one for each source.

    If the operation writes only a selected byte of its result, the list has one more bit."""
    return source_count(op, form) + op.name.startswith(("v_cvt_sr_fp8", "v_cvt_sr_bf8", *_TO_FP4))


def _list(name: str, field: str) -> Modifier:
    """Return a modifier with a list of bits, one for each source; VOP3A lists one more bit, for the destination.

    `field` is the field that holds the bits; in VOP3A its bit 3 is that of the destination. VOP3PX lists the
    bits of both scales, and a third number that selects nothing."""

    def show(insn: Insn) -> str:
        count = list_length(insn.op, insn.form)
        ones, value, assumed = (1 << count) - 1, insn.get(field), 0
        if insn.form in ("VOP3P", "VOP3PX"):
            value &= ones
            if not is_mix(insn.op, insn.form):
                assumed = ones if name == "op_sel_hi" else 0
            elif name.startswith("neg"):
                return ""
        else:
            value, count = value & ones | value >> 3 << count, count + 1
        return "" if value == assumed else f"{name}:[{','.join(str(value >> k & 1) for k in range(count))}]"

    def read(builder: InsnBuilder, text: str, given: str) -> None:
        if not re.fullmatch(r"\[[01](,\s*[01])*\]", given):
            raise WireError(f"{name} must be a list like [0,1]")
        digits = [int(digit) for digit in given.strip("[]").split(",")]
        count = list_length(builder.op, builder.form)
        if builder.form == "VOP3A" and len(digits) == count + 1:
            digits[count:] = [0] * (3 - count) + digits[count:]
        elif builder.form == "VOP3PX" and len(digits) <= count:
            digits = [*digits, 0][:2]
        elif len(digits) != count:
            raise WireError(f"{name} must have {count} numbers, not {len(digits)}")
        value = sum(digit << k for k, digit in enumerate(digits))
        if name == "op_sel_hi" and builder.form == "VOP3P" and not is_mix(builder.op, builder.form):
            value |= 7 >> count << count
        builder.put(field, value, name)

    return Modifier(show, read, (f"{name}:",))


def _show_offset(insn: Insn) -> str:
    if insn.form == "SMEM":
        return f"offset:{insn['offset']:#x}" if insn.get("soffset_en") and insn["imm"] else ""
    value = insn["offset0"] | insn["offset1"] << 8 if insn.form == "DS" else insn.get("offset")
    if not value:
        return ""
    return f"offset:{macros.swizzle(value, insn.target.encoding) if insn.op.name == 'ds_swizzle_b32' else value}"


def _read_offset(builder: InsnBuilder, name: str, text: str) -> None:
    if builder.form == "DS":
        value = macros.read_swizzle(text, 9) if builder.op.name == "ds_swizzle_b32" else number(text, 0xFFFF, name)
        builder.fields |= {"offset0": value & 0xFF, "offset1": value >> 8}
        return
    offset = integer(text)
    if offset is None:
        raise WireError(f"offset {text!r} must be a number")
    if builder.form == "SMEM":
        builder.put("soffset_en", 1, name)
    builder.put("offset", offset, name)


def _read_omod(builder: InsnBuilder, name: str, text: str) -> None:
    if f"{name}:{text}" not in OMOD:
        raise WireError(f"{name}:{text} must be one of {', '.join(OMOD[1:])}")
    builder.put("omod", OMOD.index(f"{name}:{text}"), name)


_PATTERNS: Final = LANE_PATTERNS | NEW_BROADCASTS
_LANE_CODES: Final = {name: code for code, name in _PATTERNS.items()}
_ROW_SHIFTS: Final = ("row_shl", "row_shr", "row_ror")
_WAVE_SHIFTS: Final = ("wave_shl", "wave_rol", "wave_shr", "wave_ror")


_PATTERN_NAMES: Final = ("quad_perm", *_ROW_SHIFTS, *_WAVE_SHIFTS, "row_bcast", "row_newbcast")


def _read_pattern(builder: InsnBuilder, name: str, text: str) -> None:
    if name == "quad_perm":
        if not re.fullmatch(r"\[[0-3](,\s*[0-3]){3}\]", text):
            raise WireError("quad_perm must be four lanes like [0,1,2,3]")
        text = re.sub(r"\s", "", text)
    elif name in _ROW_SHIFTS:
        if not (count := number(text, 15, name)):
            raise WireError(f"{name} must be 1 to 15")
        text = str(count)
    if f"{name}:{text}" not in _LANE_CODES:
        raise WireError(f"unknown lane pattern {name}:{text}")
    shown = f"{name}:{text}"
    builder.put("dpp_ctrl", _LANE_CODES[shown], name if name == "quad_perm" or name in _ROW_SHIFTS else shown)


def _read_bare_pattern(builder: InsnBuilder, name: str, text: str) -> None:
    builder.put("dpp_ctrl", _LANE_CODES.get(name) or _LANE_CODES[f"{name}:1"], name)


def _read_bound_control(builder: InsnBuilder, name: str, text: str) -> None:
    number(text, 15, name)
    builder.put(name, 1, name)


def _read_a16(builder: InsnBuilder, name: str, text: str) -> None:
    if builder.target.level != GFX9:
        raise WireError(f"unknown modifier {name!r}")
    builder.put("r128", 1, name)


def _show_format(insn: Insn) -> str:
    """Return the data format and number format of a typed buffer access as text.

    The text is "" for the default formats (data format 8, UNORM).
    """
    names = NUMBER_FORMATS[min(insn.target.level, 8)]
    shown = [f"BUF_DATA_FORMAT_{DATA_FORMATS[insn['dfmt']]}"] if insn["dfmt"] != 1 else []
    shown += [f"BUF_NUM_FORMAT_{names[insn['nfmt']]}"] if insn["nfmt"] else []
    return f"format:[{','.join(shown)}]" if shown else ""


def _read_format(builder: InsnBuilder, name: str, text: str) -> None:
    numbers = NUMBER_FORMATS[min(builder.target.level, 8)]
    if integer(text) is not None:
        value = number(text, 127, name)
        builder.fields |= {"dfmt": value & 15, "nfmt": value >> 4}
        return
    for part in text.strip("[]").split(","):
        data, kind = part.strip().removeprefix("BUF_DATA_FORMAT_"), part.strip().removeprefix("BUF_NUM_FORMAT_")
        if data != part.strip() and data in DATA_FORMATS:
            builder.put("dfmt", DATA_FORMATS.index(data), name)
        elif kind != part.strip() and kind in numbers:
            builder.put("nfmt", numbers.index(kind), name)
        else:
            raise WireError(f"unknown buffer format {part.strip()!r}")


def _negates(op: Op, target: Target) -> bool:
    """Return True if BLGP negates the matrices of an instruction, as from gfx942 on for binary64 matrices."""
    return target.encoding >= GFX940 and op.name.startswith("v_mfma_f64")


def _show_blgp(insn: Insn) -> str:
    return f"blgp:{insn['blgp']}" if insn["blgp"] and not _negates(insn.op, insn.target) else ""


def _read_blgp(builder: InsnBuilder, name: str, text: str) -> None:
    if _negates(builder.op, builder.target):
        raise WireError(f"{builder.op.name} has no blgp on {builder.target}: write neg:[0,0,0]")
    builder.put(name, number(text, 7, name), name)


def _show_neg(insn: Insn) -> str:
    value = insn["blgp"]
    return f"neg:[{value & 1},{value >> 1 & 1},{value >> 2}]" if value and _negates(insn.op, insn.target) else ""


def _read_neg(builder: InsnBuilder, name: str, text: str) -> None:
    if builder.form != "MAI" or not _negates(builder.op, builder.target):
        raise WireError(f"{builder.op.name} does not support {name} on {builder.target}")
    if not re.fullmatch(r"\[[01](,\s*[01]){2}\]", text):
        raise WireError("neg must be a list like [0,1,0]")
    builder.fields["blgp"] = sum(int(digit) << k for k, digit in enumerate(re.findall("[01]", text)))


def _show_table(insn: Insn) -> str:
    table = truth_table(insn.fields)
    return f"bitop3:{table:#x}" if table else ""


def _read_table(builder: InsnBuilder, name: str, text: str) -> None:
    if "bitop3" not in builder.op.name:
        raise WireError(f"{builder.op.name} does not support {name}")
    table = number(text, 255, name)
    builder.fields |= {"omod": table >> 6, "abs": table >> 3 & 7, "neg": table & 7}


MODIFIERS: Final[Mapping[str, Modifier]] = {
    **{name: _flag(name) for name in FLAGS - {*_CACHE_FLAGS, *_CACHE_FLAGS.values()}},
    **{name: _cache_flag(name) for name in _CACHE_FLAGS},
    "omod":       Modifier(lambda insn: OMOD[insn.get("omod")], _read_omod, ("mul:", "div:")),
    "high":       Modifier(lambda insn: "high" if insn["src0"] >> 8 & 1 else "",
                      lambda builder, name, _: builder.put("src0", builder.fields.get("src0", 0) | 0x100, name),
                      ("high",)),
    "op_sel":     _list("op_sel", "op_sel"),
    "op_sel_hi":  _list("op_sel_hi", "op_sel_hi"),
    "neg_lo":     _list("neg_lo", "neg"),
    "neg_hi":     _list("neg_hi", "neg_hi"),
    "dst_sel":    _choice("dst_sel", SELECT),
    "src0_sel":   _choice("src0_sel", SELECT),
    "src1_sel":   _choice("src1_sel", SELECT),
    "dst_unused": _choice("dst_unused", UNUSED),
    "lanes":      Modifier(lambda insn: _PATTERNS[insn["dpp_ctrl"]], _read_pattern,
                      tuple(f"{name}:" for name in _PATTERN_NAMES)),
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
    "cbsz":       _number("cbsz", 7),
    "abid":       _number("abid", 15),
    "blgp":       Modifier(_show_blgp, _read_blgp, ("blgp:",)),
    "neg":        Modifier(_show_neg, _read_neg, ("neg:",)),
    "bitop3":     Modifier(_show_table, _read_table, ("bitop3:",)),
}  # fmt: skip
"""All modifiers by name. `_words` selects those that apply to an instruction."""
_BY_NAME: Final = {name: modifier for modifier in MODIFIERS.values() for name in modifier.names}

_BUFFER: Final = "addr64 idxen offen offset glc slc scc tfe lds"
_WORDS: Final[Mapping[str, str]] = {
    "VOP3A": "op_sel clamp omod",
    "VOP3B": "clamp omod",
    "VOP3P": "op_sel op_sel_hi neg_lo neg_hi clamp omod",
    "VOP1_SDWA": "clamp omod dst_sel dst_unused src0_sel",
    "VOP2_SDWA": "clamp omod dst_sel dst_unused src0_sel src1_sel",
    "VOPC_SDWA": "clamp omod src0_sel src1_sel",
    "VOP1_DPP": "lanes row_mask bank_mask bound_ctrl",
    "VOP2_DPP": "lanes row_mask bank_mask bound_ctrl",
    "MAI": "cbsz abid blgp",
    "VOP3PX": "op_sel op_sel_hi cbsz blgp",
    "DS": "offset gds",
    "FLAT": "offset glc slc scc tfe lds nv",
    "MUBUF": _BUFFER,
    "MTBUF": f"format {_BUFFER}",
    "MIMG": "dmask unorm glc slc scc a16 tfe lwe da d16",
    "EXP": "done compr vm",
}
"""The names of the modifiers of each form, in the order of the text."""


@cache
def _words(op: Op, form: str) -> tuple[Modifier, ...]:
    """Return the modifiers that an operation can have in the encoding `form`, in the order in which text shows them."""
    words = _WORDS.get(form, "")
    fields = {slot.field for slot in slots(op, form)}
    if "bitop3" in op.name:
        words = "bitop3 op_sel" if op.name.endswith("16") else "bitop3"
    elif form == "VOP3A" and "attr" in fields:
        words = f"high {words}"
    elif op.name.startswith(("ds_read2", "ds_write2", "ds_wrxchg2")):
        words = words.replace("offset", "offset0 offset1")
    elif form == "SMEM" and "offset" in fields:
        words = "offset glc nv" if "sdata" in fields else "offset"
    elif op.name in ACC_NAMES:
        words = ""
    elif op.name in ("buffer_wbl2", "buffer_inv"):
        words = "glc slc scc"
    elif form == "MAI" and op.name.startswith("v_mfma_f64"):
        words = "cbsz abid blgp neg"
    elif form == "VOP1_SDWA" and op.name.startswith(("v_cvt_f32_fp8", "v_cvt_f32_bf8", "v_cvt_pk_f32")):
        words = "clamp omod src0_sel"
    elif op.name == "ds_nop" or (form == "MUBUF" and not fields):
        words = ""
    return tuple(MODIFIERS[word] for word in words.split())


def modifiers(insn: Insn) -> Iterator[str]:
    """Yield the texts of the modifiers that an instruction's text shows; most are left out at their default value."""
    return filter(None, (modifier.show(insn) for modifier in _words(insn.op, insn.form)))


def read_modifier(builder: InsnBuilder, text: str) -> None:
    """Parse one modifier into the fields of `builder`; raise `WireError` if the encoding does not have it."""
    name, colon, value = text.partition(":")
    modifier = _BY_NAME.get(name + colon)
    if modifier is None:
        raise WireError(f"unknown modifier {text!r}")
    modifier.read(builder, name, value)
