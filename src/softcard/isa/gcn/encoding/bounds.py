"""Boundaries of instructions in an array of code, computed without decoding each instruction.

The length of an instruction depends on its encoding, its operation, and the fields that may select a literal.
All of these are computed as arrays."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from softcard.isa.gcn.encoding.decode import LANE_NAMES, LITERAL_NAMES, SCALE_NAME
from softcard.isa.gcn.encoding.formats import DPP_CODE, FORMATS, SDWA_CODE, SHIFT, STARTS, format_of
from softcard.isa.gcn.encoding.operands import LITERAL
from softcard.isa.gcn.encoding.shape import slots
from softcard.isa.gcn.operations.table import OPS, find
from softcard.isa.gcn.target import TARGETS, Target

Words = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.int64]


class Bounds(NamedTuple):
    """The boundaries of instructions, in order: first word, number of words, and encoding number of each.

    A word that does not start an encoding counts as an instruction of one word with encoding number 0. The last
    instruction may extend beyond the end of the code."""

    starts: Numbers
    sizes: Numbers
    formats: Numbers


FIRST: Final = {"SOP1": 0xFF, "SOP2": 0xFF, "SOPC": 0xFF, "VOP1": 0x1FF, "VOP2": 0x1FF, "VOPC": 0x1FF, "SMRD": 0x1FF}
"""The mask of each encoding's lowest source field, which selects a literal if it holds its code."""
SECOND_AT: Final = {"SOP2": 8, "SOPC": 8, "VOP2": 9}
"""The bit position of the second source field, of eight bits, which may select a literal; by encoding."""
ALWAYS: Final = ("SOPK", "VOP2")
"""The encodings with operations that a literal always follows."""


@cache
def format_names(level: int) -> tuple[str, ...]:
    """Return the names of a generation's encodings by number; number 0 stands for an invalid word."""
    return ("", *dict.fromkeys(fmt.name for fmt in FORMATS[level]))


def instruction_bounds(target: Target, words: Words) -> Bounds:
    """Return the boundaries of the instructions in `words`, which follow one another from the first word."""
    number, size = word_sizes(target, words)
    steps, at, end = size.astype(np.uint8).tobytes(), 0, len(size)
    starts: list[int] = []
    add = starts.append
    while at < end:
        add(at)
        at += steps[at]
    found = np.array(starts, np.int64)
    return Bounds(found, size[found], number[found])


def word_sizes(target: Target, words: Words) -> tuple[Numbers, Numbers]:
    """Return for each word the encoding number and the number of words of an instruction that begins there."""
    formats, sizes = _tables(target.encoding)
    top = words >> SHIFT
    number, size = formats[top], sizes[top]
    if target.level > 7:  # SDWA and DPP: SRC0 may select a second word
        shown = number
        number = _extended(target.encoding)[number, _extension()[words & 0x1FF]]
        size = np.where(number == shown, size, 2)
    size = size + _has_literal(target, words, number)
    if (code := _scale_code(target.name)) is not None:
        _find_scaled(target, words, code, number, size)
    return number, size


def _find_scaled(target: Target, words: Words, code: int, number: Numbers, size: Numbers) -> None:
    """Correct `number` and `size` where a matrix instruction with scales begins, which takes four words.

    `code` is the opcode of its first half.
    """
    first = format_of(target.encoding, "VOP3P")
    at = np.flatnonzero(number == format_names(target.encoding).index("VOP3P"))
    at = at[(words[at] >> first.code_at & first.code_mask == code) & (at + 3 < len(words))]
    fmt = format_of(target.encoding, "VOP3PX")
    third = words[at + 2]
    is_scaled = third & (fmt.pattern.mask >> 64 & 0xFFFF_FFFF) == fmt.pattern.match >> 64 & 0xFFFF_FFFF
    codes = third >> fmt.code_at - 64 & fmt.code_mask
    at = at[is_scaled & np.isin(codes, _scaled_codes(target.name))]
    number[at], size[at] = format_names(target.encoding).index(fmt.name), fmt.size // 4


@cache
def _scale_code(name: str) -> int | None:
    """Return the opcode of the first half of a matrix instruction with scales; None if the processor has none."""
    target = TARGETS[name]
    return next((op.opcodes[target.level] for op in OPS if op.name == SCALE_NAME and op.on(target)), None)


@cache
def _scaled_codes(name: str) -> tuple[int, ...]:
    """Return the opcodes of the matrix instructions with scales of the processor `name`."""
    target = TARGETS[name]
    return tuple(op.opcodes[target.level] for op in OPS if op.family == "vop3px" and op.on(target))


def _has_literal(target: Target, words: Words, number: Numbers) -> npt.NDArray[np.bool_]:
    """Return a flag for each word: True if an instruction that begins with this word is followed by a literal.

    `number` holds the encoding number of each word."""
    known, bits = _literals(target.name), _literal_bits(target.encoding)[number]
    codes = words >> bits[:, 0] & bits[:, 1]
    one = words & bits[:, 2] == LITERAL
    two = words >> bits[:, 3] & 0xFF == LITERAL
    asked = np.flatnonzero((one | two) & (known[number, codes] == UNKNOWN))
    for place in asked.tolist():
        form, code = format_names(target.encoding)[number[place]], int(codes[place])
        first, second = _may_follow(target.name, form, code)
        known[number[place], code] = FIRST_MAY * first | SECOND_MAY * second
    kind = known[number, codes]
    found: npt.NDArray[np.bool_] = one & (kind & FIRST_MAY != 0) | two & (kind & SECOND_MAY != 0) | (kind == DOES)
    return found


@cache
def _literal_bits(level: int) -> npt.NDArray[np.uint32]:
    """Return for each encoding where to find the bits that determine whether a literal follows.

    Each row holds the position and the mask of the opcode, the mask of the lowest source field, and the position
    of a second source field of eight bits."""
    found = np.zeros((len(format_names(level)), 4), np.uint32)
    for number, name in enumerate(format_names(level)):
        if name in FIRST or name in ALWAYS:
            fmt = format_of(level, name)
            found[number] = fmt.code_at, fmt.code_mask, FIRST.get(name, 0), SECOND_AT.get(name, 0)
    return found


@cache
def _literals(name: str) -> npt.NDArray[np.uint8]:
    """Return flags by encoding number and opcode: whether a literal always follows, and which sources may be one.

    `name` is the name of the processor. Some entries are UNKNOWN at first; `_has_literal` computes and stores
    them when it needs them."""
    level = TARGETS[name].encoding
    found = np.zeros((len(format_names(level)), 1 + int(_literal_bits(level)[:, 1].max())), np.uint8)
    for number, form in enumerate(format_names(level)):
        if form in FIRST:
            found[number] = UNKNOWN
        if form in ALWAYS:
            found[number, _always(name, form)] = DOES
    return found


UNKNOWN, DOES = 0x80, 0x40
"""Flags in the result of `_literals`: the entry is not computed yet; a literal always follows."""
FIRST_MAY, SECOND_MAY = 1, 2
"""Flags in the result of `_literals`: the first source may be a literal; the second source may be one."""


@cache
def _always(name: str, form: str) -> list[int]:
    """Return the opcodes of those operations of an encoding that a literal always follows."""
    fmt = format_of(TARGETS[name].encoding, form)
    found = ((code, find(TARGETS[name], fmt.family, code)) for code in range(fmt.code_mask + 1))
    return [code for code, op in found if op is not None and op.name in LITERAL_NAMES]


def _may_follow(name: str, form: str, code: int) -> tuple[bool, bool]:
    """Return two flags: whether the first source of an operation may be a literal, and whether the second one may."""
    op = find(TARGETS[name], format_of(TARGETS[name].encoding, form).family, code)
    if op is None:
        return False, False
    if form == "SMRD":
        return "offset" in op.operands.split(), False
    fields = {slot.field for slot in slots(op, form) if slot.kind == "src"}
    is_whole = form in ("SOP2", "SOPC") or op.name in LANE_NAMES
    second = form in SECOND_AT and is_whole and bool(fields & {"src1", "ssrc1"})
    return bool(fields & {"src0", "ssrc0"}), second


@cache
def _extension() -> npt.NDArray[np.uint8]:
    """Return the extension that each value of a first word's lowest nine bits selects: 1 SDWA, 2 DPP, 0 none."""
    found = np.zeros(0x200, np.uint8)
    found[SDWA_CODE], found[DPP_CODE] = 1, 2
    return found


@cache
def _extended(level: int) -> Numbers:
    """Return for each encoding the encoding numbers of its plain, SDWA and DPP forms."""
    names = format_names(level)
    wanted = [(name, f"{name}_SDWA", f"{name}_DPP") for name in names]
    return np.array([[names.index(each if each in names else name[0]) for each in name] for name in wanted])


@cache
def _tables(level: int) -> tuple[Numbers, Numbers]:
    """Return two tables: the number of an instruction's format, and its size in words.

    Both are indexed by the highest bits of the first word of the instruction."""
    names = format_names(level)
    numbers = [0 if fmt is None else names.index(fmt.name) for fmt in STARTS[level]]
    return np.array(numbers), np.array([1 if fmt is None else fmt.size // 4 for fmt in STARTS[level]])
