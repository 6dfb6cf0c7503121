"""The notations of operands such as waits, messages, hardware registers and swizzles: printing and parsing.

A notation is printed only if parsing it gives the same bits; otherwise the number is printed. The parameters
`level` have the value of `Target.encoding`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from softcard.core.errors import WireError
from softcard.isa.gcn.asm.constants import integer
from softcard.isa.gcn.target import GFX8, GFX9, GFX940
from softcard.isa.pattern import Kind, Pattern

# fmt: off
MESSAGES: Final = {
    1: "MSG_INTERRUPT", 2: "MSG_GS", 3: "MSG_GS_DONE", 4: "MSG_SAVEWAVE", 5: "MSG_STALL_WAVE_GEN", 6: "MSG_HALT_WAVES",
    7: "MSG_ORDERED_PS_DONE", 8: "MSG_EARLY_PRIM_DEALLOC", 9: "MSG_GS_ALLOC_REQ", 10: "MSG_GET_DOORBELL",
    15: "MSG_SYSMSG",
}
"""The messages of s_sendmsg by number; 4 exists from GFX8 on, 5 to 10 on GFX9 only."""
_SINCE: Final = {4: GFX8, **dict.fromkeys(range(5, 11), GFX9)}
GS_OPERATIONS: Final = ("GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT")
SYSTEM_OPERATIONS: Final = {
    1: "SYSMSG_OP_ECC_ERR_INTERRUPT", 2: "SYSMSG_OP_REG_RD", 3: "SYSMSG_OP_HOST_TRAP_ACK", 4: "SYSMSG_OP_TTRACE_PC",
}
HARDWARE_REGISTERS: Final = {
    1: "HW_REG_MODE", 2: "HW_REG_STATUS", 3: "HW_REG_TRAPSTS", 4: "HW_REG_HW_ID", 5: "HW_REG_GPR_ALLOC",
    6: "HW_REG_LDS_ALLOC", 7: "HW_REG_IB_STS", 15: "HW_REG_SH_MEM_BASES",
    16: "HW_REG_TBA_LO", 17: "HW_REG_TBA_HI", 18: "HW_REG_TMA_LO", 19: "HW_REG_TMA_HI",
    20: "HW_REG_XCC_ID", 21: "HW_REG_SQ_PERF_SNAPSHOT_DATA", 22: "HW_REG_SQ_PERF_SNAPSHOT_DATA1",
    23: "HW_REG_SQ_PERF_SNAPSHOT_PC_LO", 24: "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
}
"""The hardware registers of s_getreg and s_setreg, by number.

Those from 15 on exist on GFX9 only, and those from 20 on only on gfx942.
"""
INDEX_MODES: Final = ("SRC0", "SRC1", "SRC2", "DST")
# fmt: on
_COUNTERS: Final = {name: Kind(name) for name in ("vmcnt", "expcnt", "lgkmcnt")}
_WAITS: Final = Pattern.parse("---- lgkmcnt[3:0] - expcnt[2:0] vmcnt[3:0]", 16, _COUNTERS)
_WAITS9: Final = Pattern.parse("vmcnt[5:4] -- lgkmcnt[3:0] - expcnt[2:0] vmcnt[3:0]", 16, _COUNTERS)
_MOST: Final = {"expcnt": 7, "lgkmcnt": 15}


def exact(text: Callable[[int, int], str], read: Callable[[str, int], int]) -> Callable[[int, int], str]:
    """Return a printer like `text` that prints a value in hexadecimal if parsing its text does not return the value."""

    def show(value: int, level: int) -> str:
        shown = text(value, level)
        return shown if shown and read(shown, level) == value else f"{value:#x}"

    return show


def _call(text: str, name: str) -> list[str] | None:
    """Return the arguments of a text of the form ``name(a, b)``; None for other texts."""
    found = re.fullmatch(rf"{name}\s*\((.*)\)", text.strip())
    if found is None:
        return None
    return [part.strip() for part in found[1].split(",")] if found[1].strip() else []


def _value(text: str, names: dict[int, str], what: str, top: int) -> int:
    number = integer(text)
    if number is None:
        number = next((n for n, name in names.items() if name == text), None)
    if number is None or not 0 <= number <= top:
        others = f" or one of {', '.join(names.values())}" if names else ""
        raise WireError(f"{what} {text!r} must be 0 to {top}{others}")
    return number


def plain(text: str, level: int = 0) -> int:
    """Return the 16-bit number that `text`, an integer with or without a sign, represents."""
    number = integer(text)
    if number is None or not -0x8000 <= number <= 0xFFFF:
        raise WireError(f"{text!r} must be a number up to 0xffff")
    return number & 0xFFFF


def _waits(level: int) -> tuple[Pattern, dict[str, int]]:
    """Return the bit fields of s_waitcnt's counters, and the maximum of each counter, which means no wait."""
    return (_WAITS9, {"vmcnt": 63} | _MOST) if level >= GFX9 else (_WAITS, {"vmcnt": 15} | _MOST)


def _waits_text(value: int, level: int) -> str:
    pattern, most = _waits(level)
    counts = pattern.decode(value)
    shown = [name for name in most if counts[name] != most[name]]
    return " ".join(f"{name}({counts[name]})" for name in shown or most)


def read_waits(text: str, level: int) -> int:
    """Return the immediate of s_waitcnt that `text` represents.

    `text` is a number, or counters such as ``vmcnt(0)`` in any order, joined by blanks, ``&`` or ``,``."""
    if integer(text) is not None:
        return plain(text)
    pattern, most = _waits(level)
    counts = dict(most)
    for part in re.sub(r"\)\s*[&,]?\s*", ")\n", text.strip()).split("\n"):
        if not part:
            continue
        found = re.fullmatch(r"(\w+)\s*\((\w+)\)", part)
        if found is None or found[1] not in most:
            raise WireError(f"{part!r} must be one of vmcnt(n), expcnt(n), lgkmcnt(n)")
        counts[found[1]] = _value(found[2], {}, found[1], most[found[1]])
    return pattern.encode(counts)


def message(value: int, level: int) -> str:
    """Return the operand of s_sendmsg as text.

    Message and operation are shown by name if this combination of message, operation and stream is defined.
    Otherwise the operand consists of numbers."""
    number, operation, stream = value & 15, value >> 4 & 7, value >> 8 & 3
    if value & ~0x37F:
        return str(value)
    is_geometry = number in (2, 3)
    operations: dict[int, str] = {0: ""}
    if is_geometry:
        operations = {k: name for k, name in enumerate(GS_OPERATIONS) if k or number == 3}
    elif number == 15:
        operations = {k: name for k, name in SYSTEM_OPERATIONS.items() if k != 3 or level < GFX9}
    has_stream = is_geometry and operation > 0
    if number not in _messages(level) or operation not in operations or (stream and not has_stream):
        return f"sendmsg({number}, {operation}, {stream})"
    parts = [MESSAGES[number], operations[operation], str(stream) if has_stream else ""]
    return f"sendmsg({', '.join(part for part in parts if part)})"


def read_message(text: str, level: int) -> int:
    """Return the immediate of s_sendmsg that `text` represents.

    `text` is a number or ``sendmsg(message, operation, stream)``."""
    parts = _call(text, "sendmsg")
    if parts is None:
        return plain(text)
    if not 1 <= len(parts) <= 3:
        raise WireError(f"{text!r} must be sendmsg(message[, operation[, stream]])")
    value = _value(parts[0], _messages(level), "message", 15)
    operations = SYSTEM_OPERATIONS if value == 15 else dict(enumerate(GS_OPERATIONS))
    if len(parts) > 1:
        value |= _value(parts[1], operations, "operation", 7) << 4
    if len(parts) > 2:
        value |= _value(parts[2], {}, "stream", 3) << 8
    return value


def _messages(level: int) -> dict[int, str]:
    return {n: name for n, name in MESSAGES.items() if level >= _SINCE.get(n, 0)}


def _registers(level: int) -> dict[int, str]:
    last = 24 if level >= GFX940 else 19 if level >= GFX9 else 14
    return {n: name for n, name in HARDWARE_REGISTERS.items() if n <= last}


def _register_text(value: int, level: int) -> str:
    number, offset, width = value & 63, value >> 6 & 31, (value >> 11 & 31) + 1
    name = _registers(level).get(number, str(number))
    return f"hwreg({name})" if (offset, width) == (0, 32) else f"hwreg({name}, {offset}, {width})"


def read_register(text: str, level: int) -> int:
    """Return the immediate of s_getreg or s_setreg that `text` represents.

    `text` is a number or ``hwreg(register, offset, width)``."""
    parts = _call(text, "hwreg")
    if parts is None:
        return plain(text)
    if len(parts) not in (1, 3):
        raise WireError(f"{text!r} must be hwreg(register[, offset, width])")
    number = _value(parts[0], _registers(level), "register", 63)
    offset, width = (_value(parts[1], {}, "offset", 31), _value(parts[2], {}, "width", 32)) if parts[1:] else (0, 32)
    if not width:
        raise WireError("width must be 1 to 32")
    return number | offset << 6 | width - 1 << 11


def _modes_text(value: int, level: int) -> str:
    return f"gpr_idx({','.join(name for k, name in enumerate(INDEX_MODES) if value >> k & 1)})"


def read_modes(text: str, level: int) -> int:
    """Return as bits the operands that s_set_gpr_idx_on indexes; `text` is a number or ``gpr_idx(SRC0,DST)``."""
    parts = _call(text, "gpr_idx")
    if parts is None:
        return plain(text)
    value = 0
    for part in parts:
        if part not in INDEX_MODES:
            raise WireError(f"{part!r} must be one of {', '.join(INDEX_MODES)}")
        value |= 1 << INDEX_MODES.index(part)
    return value


def _swizzle_text(value: int, level: int) -> str:
    if value & 0xFF00 == 0x8000:
        return "swizzle(QUAD_PERM," + ",".join(str(value >> 2 * k & 3) for k in range(4)) + ")"
    if value & 0x8000:
        return ""
    and_, or_, xor = value & 31, value >> 5 & 31, value >> 10 & 31
    if (and_, or_) == (31, 0) and xor.bit_count() == 1:
        return f"swizzle(SWAP,{xor})"
    if (and_, or_) == (31, 0) and xor and xor + 1 & xor == 0:
        return f"swizzle(REVERSE,{xor + 1})"
    group = 32 - and_
    if group > 1 and group & group - 1 == 0 and or_ < group and not xor:
        return f"swizzle(BROADCAST,{group},{or_})"
    return f'swizzle(BITMASK_PERM,"{_mask_text(and_, or_, xor)}")'


def _mask_text(and_: int, or_: int, xor: int) -> str:
    """Return the mask of a swizzle as one letter for each bit of the lane number, highest first.

    The letters are 0, 1, p (kept) and i (inverted).
    """
    for_zero, for_one = or_ ^ xor, (and_ | or_) ^ xor
    letters = {(0, 0): "0", (1, 1): "1", (0, 1): "p", (1, 0): "i"}
    return "".join(letters[for_zero >> k & 1, for_one >> k & 1] for k in (4, 3, 2, 1, 0))


def read_swizzle(text: str, level: int) -> int:
    """Return the value of ds_swizzle_b32's offset field that `text` represents.

    `text` is a number or ``swizzle(mode, ...)``."""
    parts = _call(text, "swizzle")
    if parts is None:
        return plain(text)
    mode, *given = parts or [""]
    if mode == "BITMASK_PERM" and len(given) == 1:
        return _read_mask(given[0].strip('"'))
    counts = {"QUAD_PERM": 4, "SWAP": 1, "REVERSE": 1, "BROADCAST": 2}
    if counts.get(mode) != len(given):
        raise WireError(
            f"{text!r} must be swizzle(QUAD_PERM,a,b,c,d), (SWAP,n), (REVERSE,n), (BROADCAST,n,lane), (BITMASK_PERM,m)"
        )
    numbers = [_value(part, {}, mode, 3 if mode == "QUAD_PERM" else 32) for part in given]
    if mode == "QUAD_PERM":
        return 0x8000 | sum(n << 2 * k for k, n in enumerate(numbers))
    size = numbers[0]
    if size & size - 1 or not (1 if mode == "SWAP" else 2) <= size <= (16 if mode == "SWAP" else 32):
        raise WireError(f"the number of lanes of {mode} must be a power of two, not {size}")
    if mode == "BROADCAST":
        if numbers[1] >= size:
            raise WireError(f"lane {numbers[1]} must be below {size}")
        return 32 - size | numbers[1] << 5
    return 31 | (size if mode == "SWAP" else size - 1) << 10


def _read_mask(mask: str) -> int:
    if not re.fullmatch("[01pi]{5}", mask):
        raise WireError(f"mask {mask!r} must be five characters, each 0, 1, p or i")
    value = 0
    for k, letter in zip((4, 3, 2, 1, 0), mask, strict=True):
        value |= {"0": 0, "1": 1 << 5, "p": 1, "i": 1 | 1 << 10}[letter] << k
    return value


waits = exact(_waits_text, read_waits)
hardware_register = exact(_register_text, read_register)
index_modes = exact(_modes_text, read_modes)
swizzle = exact(_swizzle_text, read_swizzle)
