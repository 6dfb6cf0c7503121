"""The small languages inside operands: waits, messages, hardware registers, swizzles. Text from bits and back.

A text is only used where it gives back the same bits; otherwise the number itself is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.asm.constants import integer
from understudy.isa.gcn.target import GFX8, GFX9

# fmt: off
MESSAGES: Final = {
    1: "MSG_INTERRUPT", 2: "MSG_GS", 3: "MSG_GS_DONE", 4: "MSG_SAVEWAVE", 5: "MSG_STALL_WAVE_GEN", 6: "MSG_HALT_WAVES",
    7: "MSG_ORDERED_PS_DONE", 8: "MSG_EARLY_PRIM_DEALLOC", 9: "MSG_GS_ALLOC_REQ", 10: "MSG_GET_DOORBELL",
    15: "MSG_SYSMSG",
}
"""Messages of s_sendmsg by number; 4 is from GFX8 on, 5 to 10 are of GFX9."""
_SINCE: Final = {4: GFX8, **dict.fromkeys(range(5, 11), GFX9)}
GS_OPERATIONS: Final = ("GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT")
SYSTEM_OPERATIONS: Final = {
    1: "SYSMSG_OP_ECC_ERR_INTERRUPT", 2: "SYSMSG_OP_REG_RD", 3: "SYSMSG_OP_HOST_TRAP_ACK", 4: "SYSMSG_OP_TTRACE_PC",
}
HARDWARE_REGISTERS: Final = {
    1: "HW_REG_MODE", 2: "HW_REG_STATUS", 3: "HW_REG_TRAPSTS", 4: "HW_REG_HW_ID", 5: "HW_REG_GPR_ALLOC",
    6: "HW_REG_LDS_ALLOC", 7: "HW_REG_IB_STS", 15: "HW_REG_SH_MEM_BASES",
    16: "HW_REG_TBA_LO", 17: "HW_REG_TBA_HI", 18: "HW_REG_TMA_LO", 19: "HW_REG_TMA_HI",
}
"""Registers of s_getreg and s_setreg by number; from 15 on they are of GFX9."""
INDEX_MODES: Final = ("SRC0", "SRC1", "SRC2", "DST")
COUNTERS: Final = ("vmcnt", "expcnt", "lgkmcnt")
# fmt: on


def exact(text: Callable[[int, int], str], read: Callable[[str, int], int]) -> Callable[[int, int], str]:
    """`text` where reading it back gives the same number, else the number in hex."""

    def show(value: int, level: int) -> str:
        shown = text(value, level)
        return shown if shown and read(shown, level) == value else f"{value:#x}"

    return show


def _call(text: str, name: str) -> list[str] | None:
    """The arguments of ``name(a, b)``, None for something else."""
    found = re.fullmatch(rf"{name}\s*\((.*)\)", text.strip())
    if found is None:
        return None
    return [part.strip() for part in found[1].split(",")] if found[1].strip() else []


def _value(text: str, names: dict[int, str], what: str, top: int) -> int:
    number = integer(text)
    if number is None:
        number = next((n for n, name in names.items() if name == text), None)
    if number is None or not 0 <= number <= top:
        raise WireError(f"{what} {text!r} must be 0 to {top} or one of {', '.join(names.values())}")
    return number


def plain(text: str, top: int = 0xFFFF) -> int:
    """A number from -(top + 1) / 2 to `top`, modulo top + 1."""
    number = integer(text)
    if number is None or not -(top + 1) // 2 <= number <= top:
        raise WireError(f"{text!r} must be a number up to {top:#x}")
    return number & top


def _wait_fields(level: int) -> dict[str, tuple[tuple[int, int, int], ...]]:
    """Pieces (bit of the counter, bit of the immediate, width) of each counter."""
    vm = ((0, 0, 4), (4, 14, 2)) if level == GFX9 else ((0, 0, 4),)
    return {"vmcnt": vm, "expcnt": ((0, 4, 3),), "lgkmcnt": ((0, 8, 4),)}


def _waits_text(value: int, level: int) -> str:
    shown, everything = [], []
    for name, pieces in _wait_fields(level).items():
        count = sum((value >> at & (1 << width) - 1) << low for low, at, width in pieces)
        everything.append(f"{name}({count})")
        if count != (1 << sum(width for _, _, width in pieces)) - 1:
            shown.append(everything[-1])
    return " ".join(shown or everything)


def read_waits(text: str, level: int) -> int:
    """The immediate of s_waitcnt: a number, or counters in any order, joined by blanks, ``&`` or ``,``."""
    if integer(text) is not None:
        return plain(text)
    fields = _wait_fields(level)
    value = sum((1 << width) - 1 << at for pieces in fields.values() for _, at, width in pieces)
    for part in re.sub(r"\)\s*[&,]?\s*", ")\n", text.strip()).split("\n"):
        if not part:
            continue
        found = re.fullmatch(r"(\w+)\s*\((\w+)\)", part)
        if found is None or found[1] not in fields:
            raise WireError(f"{part!r} must be one of vmcnt(n), expcnt(n), lgkmcnt(n)")
        top = (1 << sum(width for _, _, width in fields[found[1]])) - 1
        count = _value(found[2], {}, found[1], top)
        for low, at, width in fields[found[1]]:
            mask = (1 << width) - 1
            value = value & ~(mask << at) | (count >> low & mask) << at
    return value


def message(value: int, level: int) -> str:
    """The operand of s_sendmsg: names where message, operation and stream have them, else numbers."""
    number, operation, stream = value & 15, value >> 4 & 7, value >> 8 & 3
    if value != number | operation << 4 | stream << 8:
        return str(value)
    operations: dict[int, str] = {0: ""}
    if number in (2, 3):
        operations = {k: name for k, name in enumerate(GS_OPERATIONS) if k or number == 3}
    elif number == 15:
        operations = {k: name for k, name in SYSTEM_OPERATIONS.items() if k != 3 or level != GFX9}
    has_stream = number in (2, 3) and operation > 0
    if (
        number not in MESSAGES
        or level < _SINCE.get(number, 0)
        or operation not in operations
        or (stream and not has_stream)
    ):
        return f"sendmsg({number}, {operation}, {stream})"
    parts = [MESSAGES[number], operations[operation], str(stream) if has_stream else ""]
    return f"sendmsg({', '.join(part for part in parts if part)})"


def read_message(text: str, level: int) -> int:
    """The immediate of s_sendmsg: a number or ``sendmsg(message, operation, stream)``."""
    parts = _call(text, "sendmsg")
    if parts is None:
        return plain(text)
    if not 1 <= len(parts) <= 3:
        raise WireError(f"{text!r} must be sendmsg(message[, operation[, stream]])")
    names = {n: name for n, name in MESSAGES.items() if level >= _SINCE.get(n, 0)}
    value = _value(parts[0], names, "message", 15)
    operations = SYSTEM_OPERATIONS if value == 15 else dict(enumerate(GS_OPERATIONS))
    if len(parts) > 1:
        value |= _value(parts[1], operations, "operation", 7) << 4
    if len(parts) > 2:
        value |= _value(parts[2], {}, "stream", 3) << 8
    return value


def _register_text(value: int, level: int) -> str:
    number, offset, width = value & 63, value >> 6 & 31, (value >> 11 & 31) + 1
    name = HARDWARE_REGISTERS.get(number, str(number)) if number < 15 or level == GFX9 else str(number)
    return f"hwreg({name})" if (offset, width) == (0, 32) else f"hwreg({name}, {offset}, {width})"


def read_register(text: str, level: int) -> int:
    """The immediate of s_getreg: a number or ``hwreg(register, offset, width)``."""
    parts = _call(text, "hwreg")
    if parts is None:
        return plain(text)
    if len(parts) not in (1, 3):
        raise WireError(f"{text!r} must be hwreg(register[, offset, width])")
    names = {n: name for n, name in HARDWARE_REGISTERS.items() if n < 15 or level == GFX9}
    number = _value(parts[0], names, "register", 63)
    offset, width = (_value(parts[1], {}, "offset", 31), _value(parts[2], {}, "width", 32)) if parts[1:] else (0, 32)
    if not width:
        raise WireError("width must be 1 to 32")
    return number | offset << 6 | width - 1 << 11


def _modes_text(value: int, level: int) -> str:
    return f"gpr_idx({','.join(name for k, name in enumerate(INDEX_MODES) if value >> k & 1)})"


def read_modes(text: str, level: int) -> int:
    """Which operands s_set_gpr_idx_on indexes: a number or ``gpr_idx(SRC0,DST)``."""
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
    """One letter for each bit of the lane number, highest first: 0, 1, p (kept), i (inverted)."""
    for_zero, for_one = or_ ^ xor, (and_ | or_) ^ xor
    letters = {(0, 0): "0", (1, 1): "1", (0, 1): "p", (1, 0): "i"}
    return "".join(letters[for_zero >> k & 1, for_one >> k & 1] for k in (4, 3, 2, 1, 0))


def read_swizzle(text: str, level: int) -> int:
    """The offset of ds_swizzle_b32: a number or ``swizzle(mode, ...)``."""
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
        raise WireError(f"{mode} of {size} lanes must be a power of two")
    if mode == "BROADCAST":
        if numbers[1] >= size:
            raise WireError(f"lane {numbers[1]} must be below {size}")
        return 32 - size | numbers[1] << 5
    return 31 | (size if mode == "SWAP" else size - 1) << 10


def _read_mask(mask: str) -> int:
    if not re.fullmatch("[01pi]{5}", mask):
        raise WireError(f"mask {mask!r} must be five of 0, 1, p, i")
    value = 0
    for k, letter in zip((4, 3, 2, 1, 0), mask, strict=True):
        value |= {"0": 0, "1": 1 << 5, "p": 1, "i": 1 | 1 << 10}[letter] << k
    return value


waits = exact(_waits_text, read_waits)
hardware_register = exact(_register_text, read_register)
index_modes = exact(_modes_text, read_modes)
swizzle = exact(_swizzle_text, read_swizzle)
