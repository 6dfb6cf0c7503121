"""Operand codes and their names: registers, inline constants, parts of registers, patterns of lanes.

A source operand is a number of nine bits: 0 to 127 scalar registers and their special ones, 128 to 255 constants and
status bits, 256 to 511 vector registers. Scalar fields hold its lower part. Special names depend on the generation.
What has no name here does not exist: `check` refuses instructions that name it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import cache, lru_cache
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.encoding.shape import LITERAL_FORMS, NO_SADDR, VARIANT, Slot, visible
from understudy.isa.gcn.insn import Op
from understudy.isa.gcn.target import GFX7, GFX8, GFX9, TARGETS, Target

VGPR0: Final = 256
INLINE_FIRST: Final = 128
INLINE_LAST: Final = 208
INVERSE_2PI: Final = 248
LITERAL: Final = 255
LDS_DIRECT: Final = 254
NO_REGISTER: Final = 127

FLOATS: Final = {
    240: "0.5", 241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0",
    INVERSE_2PI: "0.15915494",
}  # fmt: skip
"""Inline float constants by code."""
INVERSE_2PI_64: Final = "0.15915494309189532"
HALVES: Final = {
    240: 0x3800, 241: 0xB800, 242: 0x3C00, 243: 0xBC00, 244: 0x4000, 245: 0xC000, 246: 0x4400, 247: 0xC400,
    INVERSE_2PI: 0x3118,
}  # fmt: skip
"""What binary16 operands read for the float constants."""

_PAIRS: Final = {"vcc": 106, "exec": 126}
WHOLE: Final = {
    GFX7: _PAIRS | {"flat_scratch": 104, "tba": 108, "tma": 110},
    GFX8: _PAIRS | {"flat_scratch": 102, "xnack_mask": 104, "tba": 108, "tma": 110},
    GFX9: _PAIRS | {"flat_scratch": 102, "xnack_mask": 104},
}
"""64-bit special registers; their halves are called _lo and _hi."""
TTMP: Final = {GFX7: 112, GFX8: 112, GFX9: 108}
SGPRS: Final = {GFX7: 104, GFX8: 102, GFX9: 102}
_STATUS: Final = {251: "src_vccz", 252: "src_execz", 253: "src_scc"}
_STATUS9: Final = {
    235: "src_shared_base", 236: "src_shared_limit", 237: "src_private_base", 238: "src_private_limit",
    239: "src_pops_exiting_wave_id",
}  # fmt: skip

SELECT: Final = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
"""SDWA: parts of a register."""
UNUSED: Final = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
"""SDWA: what becomes of the other parts."""
LANE_PATTERNS: Final = {
    **{quad: f"quad_perm:[{','.join(str(quad >> 2 * k & 3) for k in range(4))}]" for quad in range(256)},
    **{0x100 + n: f"row_shl:{n}" for n in range(1, 16)},
    **{0x110 + n: f"row_shr:{n}" for n in range(1, 16)},
    **{0x120 + n: f"row_ror:{n}" for n in range(1, 16)},
    0x130: "wave_shl:1", 0x134: "wave_rol:1", 0x138: "wave_shr:1", 0x13C: "wave_ror:1", 0x140: "row_mirror",
    0x141: "row_half_mirror", 0x142: "row_bcast:15", 0x143: "row_bcast:31",
}  # fmt: skip
"""DPP: patterns of lanes by dpp_ctrl."""


@cache
def scalars(level: int, words: int) -> dict[int, str]:
    """Names of `words` scalar registers, and of the status sources, by code."""
    files = (("s", 0, SGPRS[level]), ("ttmp", TTMP[level], 124 - TTMP[level]))
    if words == 1:
        names = {first + n: f"{name}{n}" for name, first, count in files for n in range(count)}
        names |= {code + k: name + half for name, code in WHOLE[level].items() for k, half in enumerate(("_lo", "_hi"))}
        names[124] = "m0"
    else:
        names = {
            first + n: f"{name}[{n}:{n + words - 1}]"
            for name, first, count in files
            for n in range(count - words + 1)
            if (first + n) % min(words, 4) == 0
        }
        names |= {code: name for name, code in WHOLE[level].items() if words == 2}
    return names | _STATUS | (_STATUS9 if level == GFX9 else {})


@cache
def names(level: int, kind: str, words: int, type_: str) -> Mapping[int, str]:
    """What an operand of a kind, width and type can be, by code: a number of vector registers, scalars, sources."""
    if kind == "v":
        return {n: f"v{n}" if words == 1 else f"v[{n}:{n + words - 1}]" for n in range(257 - words)}
    registers = {code: name for code, name in scalars(level, words).items() if code <= NO_REGISTER}
    if kind == "saddr":
        return registers | {NO_SADDR: "off"}
    if kind == "s":
        return registers | {-1: "vcc"}
    if type_ == "m64":
        return registers
    found = {code: str(code - 128 if code <= 192 else 192 - code) for code in range(INLINE_FIRST, INLINE_LAST + 1)}
    found |= FLOATS | ({INVERSE_2PI: INVERSE_2PI_64} if words == 2 else {}) | scalars(level, words)
    if level == GFX7:
        del found[INVERSE_2PI]
    if words == 1:
        found[LDS_DIRECT] = "src_lds_direct"
    if type_ == "lane":
        return found
    return found | {VGPR0 + n: name for n, name in names(level, "v", words, type_).items()}


def refusal(target: Target, slot: Slot, code: int) -> str:
    """Why an operand cannot have a code that is not among its names."""
    if slot.kind == "src" and slot.type == "lane" and code >= VGPR0:
        return f"v{code - VGPR0} cannot stand here: the operand is scalar"
    if slot.kind == "src" and slot.type == "m64" and code > NO_REGISTER:
        return f"operand code {code} is no register pair that a lane mask can lie in"
    if slot.kind == "v" or (slot.kind == "src" and code >= VGPR0):
        return f"v{code % VGPR0} cannot begin {slot.words} registers: v255 is the last"
    if slot.kind != "src" and code > NO_REGISTER:
        return f"operand code {code} is no scalar register"
    if slot.words == 1 or code > NO_REGISTER:
        return f"operand code {code} is reserved on {target}"
    return f"operand code {code} cannot begin {slot.words} scalar registers on {target}"


Limit = tuple[str, int, Container[int], Slot]
"""A field, the bits of it that count, the codes that those can be, and the operand."""


@lru_cache(1 << 14)
def _limits(target: str, op: Op, form: str, variant: tuple[int, ...]) -> tuple[Limit, ...]:
    """What the operands that are not free can be."""
    level = TARGETS[target].level
    found: list[Limit] = []
    for slot in visible(op, target, form, variant):
        if slot.kind == "offset":
            is_number, has_register = variant
            register = Slot("soffset" if has_register else "offset", kind="s")
            if level == GFX7 and not is_number:
                found.append(("offset", -1, {LITERAL, *names(level, "s", 1, "b32")}, register))
            elif has_register or not is_number:
                found.append((register.field, NO_REGISTER, names(level, "s", 1, "b32"), register))
        elif slot.kind in ("v", "s", "src", "saddr"):
            codes = names(level, slot.kind, slot.words, slot.type)
            is_literal = slot.kind == "src" and form in LITERAL_FORMS
            found.append((slot.field, -1, {*codes, LITERAL} if is_literal else codes, slot))
    return tuple(found)


def check(target: Target, op: Op, form: str, fields: Mapping[str, int]) -> None:
    """`WireError` where an operand names what the processor does not have."""
    vary = VARIANT.get(form)
    for field, mask, codes, slot in _limits(target.name, op, form, vary(fields) if vary else ()):
        if fields[field] & mask not in codes:
            raise WireError(refusal(target, slot, fields[field] & mask))
