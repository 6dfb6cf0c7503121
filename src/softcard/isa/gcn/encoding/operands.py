"""Operand codes and their names: registers, inline constants, parts of registers, lane patterns.

The code of a source operand has nine bits: 0 to 127 are scalar and special registers, 128 to 255 constants and status
bits, 256 to 511 vector registers. Scalar fields hold its lower bits. Codes from 512 on are accumulation registers,
which other bits of an encoding select. Special names depend on the generation. Codes without a name here do not exist:
`check` refuses instructions that use them. Parameters `level` are `Target.encoding`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import cache, lru_cache
from typing import Final

from softcard.core.errors import WireError
from softcard.isa.gcn.encoding.shape import LITERAL_FORMS, NO_SADDR, VARIANT, Slot, visible
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.target import ENCODINGS, GFX7, GFX8, GFX9, GFX90A, GFX940, TARGETS, Target

VGPR0: Final = 256
ACC0: Final = 512
REGISTERS: Final = 256
"""The number of vector registers, which is also that of accumulation registers."""
SGPR_ALIGNMENT: Final = 4
"""Scalar operands of more than two registers begin at a multiple of this number."""
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
"""The texts of the inline float constants, by operand code."""
INVERSE_2PI_64: Final = "0.15915494309189532"
HALVES: Final = {
    240: 0x3800, 241: 0xB800, 242: 0x3C00, 243: 0xBC00, 244: 0x4000, 245: 0xC000, 246: 0x4400, 247: 0xC400,
    INVERSE_2PI: 0x3118,
}  # fmt: skip
"""The binary16 bits of the inline float constants, by operand code."""

_PAIRS: Final = {"vcc": 106, "exec": 126}
WHOLE: Final = {
    GFX7: _PAIRS | {"flat_scratch": 104, "tba": 108, "tma": 110},
    GFX8: _PAIRS | {"flat_scratch": 102, "xnack_mask": 104, "tba": 108, "tma": 110},
    **dict.fromkeys((GFX9, GFX90A, GFX940), _PAIRS | {"flat_scratch": 102, "xnack_mask": 104}),
}
"""The operand codes of 64-bit special registers, by generation; their halves end in _lo and _hi."""
TTMP: Final = {level: 112 if level < GFX9 else 108 for level in ENCODINGS}
SGPRS: Final = {level: 104 if level == GFX7 else 102 for level in ENCODINGS}
_STATUS: Final = {251: "src_vccz", 252: "src_execz", 253: "src_scc"}
_STATUS9: Final = {
    235: "src_shared_base", 236: "src_shared_limit", 237: "src_private_base", 238: "src_private_limit",
    239: "src_pops_exiting_wave_id",
}  # fmt: skip

SELECT: Final = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
"""The names of the parts of a register that SDWA can select, by number."""
UNUSED: Final = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
"""The names of SDWA's treatments of a result register's other bytes, by number."""
LANE_PATTERNS: Final = {
    **{quad: f"quad_perm:[{','.join(str(quad >> 2 * k & 3) for k in range(4))}]" for quad in range(256)},
    **{0x100 + n: f"row_shl:{n}" for n in range(1, 16)},
    **{0x110 + n: f"row_shr:{n}" for n in range(1, 16)},
    **{0x120 + n: f"row_ror:{n}" for n in range(1, 16)},
    0x130: "wave_shl:1", 0x134: "wave_rol:1", 0x138: "wave_shr:1", 0x13C: "wave_ror:1", 0x140: "row_mirror",
    0x141: "row_half_mirror", 0x142: "row_bcast:15", 0x143: "row_bcast:31",
}  # fmt: skip
"""The texts of cross-lane patterns by the dpp_ctrl field (DPP)."""
NEW_BROADCASTS: Final = {0x150 + n: f"row_newbcast:{n}" for n in range(16)}
"""The texts of the row_newbcast patterns of DPP, which gfx90a and later have, by the field dpp_ctrl.

Operands of 64 bits can have only these.
"""


@cache
def scalars(level: int, words: int) -> dict[int, str]:
    """Return the names of scalar registers in groups of `words`, and those of status bits, by operand code."""
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
    return names | _STATUS | (_STATUS9 if level >= GFX9 else {})


@cache
def names(level: int, kind: str, words: int, type_: str) -> Mapping[int, str]:
    """Return the names of all values that an operand of the given kind, width and type can have, by operand code.

    They are names of vector registers, scalar registers, or sources in general."""
    if kind in _FILES:
        base, files = _FILES[kind]
        step = 2 if words > 1 and level >= GFX90A else 1
        return {
            base + REGISTERS * ("va".index(file)) + n: f"{file}{n}" if words == 1 else f"{file}[{n}:{n + words - 1}]"
            for file in files
            for n in range(0, REGISTERS + 1 - words, step)
        }
    found = {code: str(code - 128 if code <= 192 else 192 - code) for code in range(INLINE_FIRST, INLINE_LAST + 1)}
    found |= FLOATS | ({INVERSE_2PI: INVERSE_2PI_64} if _is_double(words, type_) else {})
    if kind == "csrc":
        return {**found, **names(level, "vasrc", words, type_)}
    registers = {code: name for code, name in scalars(level, words).items() if code <= NO_REGISTER}
    if kind == "saddr":
        return registers | {NO_SADDR: "off"}
    if kind == "s":
        return registers | {-1: "vcc"}
    if type_ == "m64":
        return registers
    found |= scalars(level, words)
    if level == GFX7:
        del found[INVERSE_2PI]
    if words == 1:
        found[LDS_DIRECT] = "src_lds_direct"
    if type_ == "lane":
        return found
    return {**found, **names(level, "vsrc", words, type_)}


def _is_double(words: int, type_: str) -> bool:
    """Return True if float constants of an operand are binary64."""
    return type_ == "f64" or (words == 2 and type_ not in PACKED_PAIRS)


PACKED_PAIRS: Final = ("g64", "p64")
"""The types of two packed 32-bit values; their constants have 32 bits."""
_FILES: Final = {
    "v": (0, "v"), "a": (0, "a"), "va": (0, "va"),
    "vsrc": (VGPR0, "v"), "asrc": (VGPR0, "a"), "vasrc": (VGPR0, "va"),
}  # fmt: skip
"""The kinds of operands that can only be vector or accumulation registers; see `encoding.shape.Slot`.

Values are the operand code of register 0, and the kind of registers.
"""


def refusal(target: Target, slot: Slot, code: int) -> str:
    """Return the error message for an operand code that the operand cannot have on a processor."""
    if slot.kind in _FILES or (slot.kind in ("src", "csrc") and code >= VGPR0 and slot.type not in ("lane", "m64")):
        base, files = _FILES.get(slot.kind, (VGPR0, "va" if slot.kind == "csrc" else "v"))
        if code < base:
            return f"operand code {code} must be a vector register"
        file, n = "va"[(code - base) // REGISTERS], (code - base) % REGISTERS
        if file not in files:
            return f"{file}{n} is not allowed here: the operand must be one of {files[0]}0 to {files[0]}255"
        if n + slot.words > REGISTERS:
            return f"{file}{n} cannot begin {slot.words} registers: {file}255 is the last"
        return f"{file}{n} cannot begin {slot.words} registers on {target}: they begin at an even number"
    if slot.kind == "src" and slot.type == "lane" and code >= VGPR0:
        return f"v{code - VGPR0} is not allowed here: the operand must be scalar"
    if slot.kind == "src" and slot.type == "m64" and code > NO_REGISTER:
        return f"operand code {code} must be a register pair for a lane mask"
    if slot.kind not in ("src", "csrc") and code > NO_REGISTER:
        return f"operand code {code} must be a scalar register"
    if slot.words == 1 or code > NO_REGISTER:
        return f"operand code {code} is reserved on {target}"
    multiple = min(slot.words, SGPR_ALIGNMENT)
    if code < SGPRS[target.encoding] and code % multiple:
        return f"s{code} cannot begin {slot.words} scalar registers: they begin at a multiple of {multiple}"
    return f"operand code {code} cannot begin {slot.words} scalar registers on {target}"


def vector_rows(insn: Insn, slot: Slot) -> range:
    """Return the numbers of the vector registers that an operand names; accumulation register n is number 256 + n."""
    if slot.kind not in _FILES and not slot.kind.endswith("src"):
        return range(0)
    base, _ = _FILES.get(slot.kind, (VGPR0, ""))
    first = insn[slot.field] - base
    return range(first, first + slot.words) if first >= 0 else range(0)


Limit = tuple[str, int, Container[int], Slot]
"""A restriction of an operand: its field, the significant bits of the field, the valid codes, the operand."""


@lru_cache(1 << 14)
def _limits(target: str, op: Op, form: str, variant: tuple[int, ...]) -> tuple[Limit, ...]:
    """Return the restrictions of those operands that do not accept every value of their field.

    `variant` holds the field values that determine an instruction's operands (see `VARIANT`)."""
    level = TARGETS[target].encoding
    found: list[Limit] = []
    for slot in visible(op, target, form, variant):
        if slot.kind == "offset":
            is_number, has_register = variant
            register = Slot("soffset" if has_register else "offset", kind="s")
            if level == GFX7 and not is_number:
                found.append(("offset", -1, {LITERAL, *names(level, "s", 1, "b32")}, register))
            elif has_register or not is_number:
                found.append((register.field, NO_REGISTER, names(level, "s", 1, "b32"), register))
        elif slot.kind in ("s", "src", "csrc", "saddr") or slot.kind in _FILES:
            codes = names(level, slot.kind, slot.words, slot.type)
            is_literal = slot.kind == "src" and form in LITERAL_FORMS
            found.append((slot.field, -1, {*codes, LITERAL} if is_literal else codes, slot))
    return tuple(found)


def check(target: Target, op: Op, form: str, fields: Mapping[str, int]) -> None:
    """Raise a `WireError` if an operand refers to a register or constant that the processor does not have."""
    vary = VARIANT.get(form)
    for field, mask, codes, slot in _limits(target.name, op, form, vary(fields) if vary else ()):
        if fields[field] & mask not in codes:
            raise WireError(refusal(target, slot, fields[field] & mask))
