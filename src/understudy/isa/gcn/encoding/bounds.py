"""Where instructions begin in a whole array of code, without decoding them one by one.

Encoding, operation and the fields that may name a literal decide how long an instruction is; all that are arrays here.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.isa.gcn.encoding.decode import LANE_NAMES, LITERAL_NAMES
from understudy.isa.gcn.encoding.formats import DPP_CODE, FORMATS, SDWA_CODE, SHIFT, STARTS, format_of
from understudy.isa.gcn.encoding.operands import LITERAL
from understudy.isa.gcn.encoding.shape import slots
from understudy.isa.gcn.operations.table import find
from understudy.isa.gcn.target import TARGETS, Target

Words = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.int64]


class Bounds(NamedTuple):
    """Instructions in order: in which word each begins, how many words it has, and the number of its encoding.

    Words that start no encoding are instructions of one word, of encoding 0. The last one may be cut off.
    """

    starts: Numbers
    sizes: Numbers
    formats: Numbers


FIRST: Final = {"SOP1": 0xFF, "SOP2": 0xFF, "SOPC": 0xFF, "VOP1": 0x1FF, "VOP2": 0x1FF, "VOPC": 0x1FF, "SMRD": 0x1FF}
"""By encoding: the lowest bits, which say that a literal follows where they are its code."""
SECOND_AT: Final = {"SOP2": 8, "SOPC": 8, "VOP2": 9}
"""Where eight bits lie that may say so too."""
ALWAYS: Final = ("SOPK", "VOP2")
"""Encodings of operations that a literal always follows."""


@cache
def format_names(level: int) -> tuple[str, ...]:
    """The names of a generation's encodings by number; number 0 is none."""
    return ("", *dict.fromkeys(fmt.name for fmt in FORMATS[level]))


def instruction_bounds(target: Target, words: Words) -> Bounds:
    """The instructions that code consists of, one behind the other from its first word on."""
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
    """For each word, as if an instruction began with it: the number of its encoding, and how many words it has."""
    formats, sizes = _tables(target.level)
    top = words >> SHIFT
    number, size = formats[top], sizes[top]
    if target.level > 7:  # SDWA and DPP: a second word, where SRC0 says so
        shown = number
        number = _extended(target.level)[number, _extension()[words & 0x1FF]]
        size = np.where(number == shown, size, 2)
    return number, size + _has_literal(target, words, number)


def _has_literal(target: Target, words: Words, number: Numbers) -> npt.NDArray[np.bool_]:
    """Which words a literal follows."""
    known, bits = _literals(target.name), _literal_bits(target.level)[number]
    codes = words >> bits[:, 0] & bits[:, 1]
    one = words & bits[:, 2] == LITERAL
    two = words >> bits[:, 3] & 0xFF == LITERAL
    asked = np.flatnonzero((one | two) & (known[number, codes] == UNKNOWN))
    for place in asked.tolist():
        form, code = format_names(target.level)[number[place]], int(codes[place])
        first, second = _may_follow(target.name, form, code)
        known[number[place], code] = FIRST_MAY * first | SECOND_MAY * second
    kind = known[number, codes]
    found: npt.NDArray[np.bool_] = one & (kind & FIRST_MAY != 0) | two & (kind & SECOND_MAY != 0) | (kind == DOES)
    return found


@cache
def _literal_bits(level: int) -> npt.NDArray[np.uint32]:
    """Of each encoding: where its operation lies, and its mask; the lowest bits that are a literal's code, and where
    eight others lie that may be.
    """
    found = np.zeros((len(format_names(level)), 4), np.uint32)
    for number, name in enumerate(format_names(level)):
        if name in FIRST or name in ALWAYS:
            fmt = format_of(level, name)
            found[number] = fmt.code_at, fmt.code_mask, FIRST.get(name, 0), SECOND_AT.get(name, 0)
    return found


@cache
def _literals(name: str) -> npt.NDArray[np.uint8]:
    """What is known of literals behind each operation, by the number of its encoding and its code."""
    level = TARGETS[name].level
    found = np.zeros((len(format_names(level)), 1 + int(_literal_bits(level)[:, 1].max())), np.uint8)
    for number, form in enumerate(format_names(level)):
        if form in FIRST:
            found[number] = UNKNOWN
        if form in ALWAYS:
            found[number, _always(name, form)] = DOES
    return found


UNKNOWN, DOES = 0x80, 0x40
"""Not looked up yet, and: a literal always follows."""
FIRST_MAY, SECOND_MAY = 1, 2
"""The first or the second source may be a literal."""


@cache
def _always(name: str, form: str) -> list[int]:
    """Opcodes of the operations of an encoding that a literal always follows."""
    fmt = format_of(TARGETS[name].level, form)
    found = ((code, find(TARGETS[name], fmt.family, code)) for code in range(fmt.code_mask + 1))
    return [code for code, op in found if op is not None and op.name in LITERAL_NAMES]


def _may_follow(name: str, form: str, code: int) -> tuple[bool, bool]:
    """Whether the first and the second source of an operation may be a literal."""
    op = find(TARGETS[name], format_of(TARGETS[name].level, form).family, code)
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
    """What each value of the lowest nine bits says of the encoding: 1 that it is SDWA, 2 that it is DPP."""
    found = np.zeros(0x200, np.uint8)
    found[SDWA_CODE], found[DPP_CODE] = 1, 2
    return found


@cache
def _extended(level: int) -> Numbers:
    """The number of an encoding with neither, with SDWA and with DPP."""
    names = format_names(level)
    wanted = [(name, f"{name}_SDWA", f"{name}_DPP") for name in names]
    return np.array([[names.index(each if each in names else name[0]) for each in name] for name in wanted])


@cache
def _tables(level: int) -> tuple[Numbers, Numbers]:
    """Number and words of the encoding that each value of a word's highest bits starts."""
    names = format_names(level)
    numbers = [0 if fmt is None else names.index(fmt.name) for fmt in STARTS[level]]
    return np.array(numbers), np.array([1 if fmt is None else fmt.size // 4 for fmt in STARTS[level]])
