"""Reading the modifiers that stand behind the operands: ``name:value`` and flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from understudy.core.errors import WireError
from understudy.isa.gcn.asm import macros
from understudy.isa.gcn.asm.constants import integer
from understudy.isa.gcn.asm.modifiers import DATA_FORMATS, NUMBER_FORMATS, OMOD, source_count
from understudy.isa.gcn.encoding.operands import LANE_PATTERNS, SELECT, UNUSED
from understudy.isa.gcn.insn import Op
from understudy.isa.gcn.target import Target


class Fields(Protocol):
    """What a modifier is read into."""

    op: Op
    form: str
    target: Target
    fields: dict[str, int]

    def put(self, name: str, value: int, text: str) -> None:
        """Set a field that the form must have."""


NUMBERS: Final = frozenset({"dmask", "row_mask", "bank_mask", "bound_ctrl"})
_LISTS: Final = {"op_sel": "op_sel", "op_sel_hi": "op_sel_hi", "neg_lo": "neg", "neg_hi": "neg_hi"}
_SELECTS: Final = {"dst_sel": SELECT, "src0_sel": SELECT, "src1_sel": SELECT, "dst_unused": UNUSED}


LANE_CODES: Final = {name: code for code, name in LANE_PATTERNS.items()}
_SHIFTS: Final = ("row_shl", "row_shr", "row_ror")
_WAVE_SHIFTS: Final = ("wave_shl", "wave_rol", "wave_shr", "wave_ror")


def number(text: str, top: int, what: str) -> int:
    """A number from 0 to `top`."""
    value = integer(text.strip())
    if value is None or not 0 <= value <= top:
        raise WireError(f"{what} {text.strip()!r} must be a number from 0 to {top:#x}")
    return value


def _read_offset(reader: Fields, name: str, text: str) -> None:
    if reader.form == "DS":
        value = macros.read_swizzle(text, 9) if reader.op.name == "ds_swizzle_b32" else number(text, 0xFFFF, name)
        reader.fields |= {"offset0": value & 0xFF, "offset1": value >> 8}
        return
    offset = integer(text)
    if offset is None:
        raise WireError(f"offset {text!r} must be a number")
    if reader.form == "SMEM":
        reader.put("soffset_en", 1, name)
    reader.put("offset", offset, name)


def _read_list(reader: Fields, name: str, text: str) -> None:
    if not re.fullmatch(r"\[[01](,\s*[01])*\]", text):
        raise WireError(f"{name} must be a list like [0,1]")
    digits = [int(digit) for digit in text.strip("[]").split(",")]
    count = source_count(reader.op, reader.form)
    if reader.form == "VOP3A" and len(digits) == count + 1:
        digits[count:] = [0] * (3 - count) + digits[count:]
    elif len(digits) != count:
        raise WireError(f"{name} must have {count} numbers")
    value = sum(digit << k for k, digit in enumerate(digits))
    if name == "op_sel_hi" and "mix" not in reader.op.name:
        value |= 7 >> count << count
    reader.put(_LISTS[name], value, name)


def _read_select(reader: Fields, name: str, text: str) -> None:
    if text not in _SELECTS[name]:
        raise WireError(f"{name} {text!r} must be one of {', '.join(_SELECTS[name])}")
    reader.put(name, _SELECTS[name].index(text), name)


def _read_omod(reader: Fields, name: str, text: str) -> None:
    if f"{name}:{text}" not in OMOD:
        raise WireError(f"{name}:{text} must be one of {', '.join(OMOD[1:])}")
    reader.put("omod", OMOD.index(f"{name}:{text}"), name)


def _read_pattern(reader: Fields, name: str, text: str) -> None:
    if name == "quad_perm":
        if not re.fullmatch(r"\[[0-3](,\s*[0-3]){3}\]", text):
            raise WireError("quad_perm must be four lanes like [0,1,2,3]")
        text = re.sub(r"\s", "", text)
    elif name in _SHIFTS:
        if not (count := number(text, 15, name)):
            raise WireError(f"{name} must be 1 to 15")
        text = str(count)
    if f"{name}:{text}" not in LANE_CODES:
        raise WireError(f"{name}:{text} is no lane pattern")
    reader.put("dpp_ctrl", LANE_CODES[f"{name}:{text}"], name)


def _read_number(reader: Fields, name: str, text: str) -> None:
    value = number(text, 15, name)
    reader.put(name, 1 if name == "bound_ctrl" else value, name)


def _read_small_offset(reader: Fields, name: str, text: str) -> None:
    reader.put(name, number(text, 255, name), name)


def _read_format(reader: Fields, name: str, text: str) -> None:
    numbers = NUMBER_FORMATS[min(reader.target.level, 8)]
    if name in ("dfmt", "nfmt"):
        reader.put(name, number(text, 15 if name == "dfmt" else 7, name), name)
    elif integer(text) is not None:
        value = number(text, 127, name)
        reader.fields |= {"dfmt": value & 15, "nfmt": value >> 4}
    else:
        for part in text.strip("[]").split(","):
            data, kind = part.strip().removeprefix("BUF_DATA_FORMAT_"), part.strip().removeprefix("BUF_NUM_FORMAT_")
            if data != part.strip() and data in DATA_FORMATS:
                reader.put("dfmt", DATA_FORMATS.index(data), name)
            elif kind != part.strip() and kind in numbers:
                reader.put("nfmt", numbers.index(kind), name)
            else:
                raise WireError(f"{part.strip()!r} is no buffer format")


VALUED: Final[Mapping[str, Callable[[Fields, str, str], None]]] = {
    "offset": _read_offset, "offset0": _read_small_offset, "offset1": _read_small_offset,
    **dict.fromkeys(_LISTS, _read_list), **dict.fromkeys(_SELECTS, _read_select),
    **dict.fromkeys(NUMBERS, _read_number), "mul": _read_omod, "div": _read_omod,
    **dict.fromkeys(("quad_perm", *_SHIFTS, *_WAVE_SHIFTS, "row_bcast"), _read_pattern),
    "format": _read_format, "dfmt": _read_format, "nfmt": _read_format,
}  # fmt: skip


"""Modifiers with a value, by name."""
