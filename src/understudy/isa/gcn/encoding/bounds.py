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
    _extend(target.level, words, number, size)
    for name in (*FIRST, *ALWAYS[:1]):
        if name in format_names(target.level):
            here = np.flatnonzero(number == format_names(target.level).index(name))
            if len(here):
                size[here] += _literals(target, name, words[here])
    return number, size


def _literals(target: Target, name: str, words: Words) -> npt.NDArray[np.bool_]:
    """Which words of an encoding a literal follows."""
    found = np.zeros(len(words), np.bool_)
    fmt = format_of(target.level, name)
    codes = words >> fmt.code_at & fmt.code_mask
    if name in ALWAYS:
        found |= np.isin(codes, _always(target.name, name))
    if name not in FIRST:
        return found
    one = words & FIRST[name] == LITERAL
    two = words >> SECOND_AT[name] & 0xFF == LITERAL if name in SECOND_AT else found
    for code in np.unique(codes[one | two]).tolist():
        first, second = _may_follow(target.name, name, code)
        found |= (codes == code) & (one & first | two & second)
    return found


@cache
def _always(name: str, form: str) -> list[int]:
    """Opcodes of the operations of an encoding that a literal always follows."""
    fmt = format_of(TARGETS[name].level, form)
    found = ((code, find(TARGETS[name], fmt.family, code)) for code in range(fmt.code_mask + 1))
    return [code for code, op in found if op is not None and op.name in LITERAL_NAMES]


@cache
def _may_follow(name: str, form: str, code: int) -> tuple[bool, bool]:
    """Whether the first and the second source of an operation may be a literal."""
    op = find(TARGETS[name], format_of(TARGETS[name].level, form).family, code)
    if op is None:
        return False, False
    if form == "SMRD":
        return "offset" in op.operands.split(), False
    fields = {slot.field for slot in slots(op, form) if slot.kind == "src"}
    is_whole = form in ("SOP2", "SOPC") or op.name in LANE_NAMES
    return bool(fields & {"src0", "ssrc0"}), is_whole and bool(fields & {"src1", "ssrc1"})


def _extend(level: int, words: Words, number: Numbers, size: Numbers) -> None:
    """SDWA and DPP: a second word, where SRC0 says so."""
    names = format_names(level)
    for name in ("VOP1", "VOP2", "VOPC"):
        for code, suffix in ((SDWA_CODE, "_SDWA"), (DPP_CODE, "_DPP")):
            if level > 7:
                here = (number == names.index(name)) & (words & 0x1FF == code)
                if f"{name}{suffix}" in names:
                    number[here] = names.index(f"{name}{suffix}")
                    size[here] = 2


@cache
def _tables(level: int) -> tuple[Numbers, Numbers]:
    """Number and words of the encoding that each value of a word's highest bits starts."""
    names = format_names(level)
    numbers = [0 if fmt is None else names.index(fmt.name) for fmt in STARTS[level]]
    return np.array(numbers), np.array([1 if fmt is None else fmt.size // 4 for fmt in STARTS[level]])
