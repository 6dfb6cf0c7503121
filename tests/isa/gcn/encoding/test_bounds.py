"""The begins of instructions in a whole array of code agree with decoding one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from softcard.isa.gcn.encoding.bounds import Words, format_names, instruction_bounds
from softcard.isa.gcn.encoding.decode import IllegalInstruction, decode
from softcard.isa.gcn.encoding.formats import LONGEST
from softcard.isa.gcn.target import TARGETS, Target
from tests.isa.gcn_words import PROCESSORS, random_words


def one_by_one(target: Target, words: Words) -> Iterator[tuple[int, int, str] | None]:
    """Return the result of `decode` at each position that the bounds contain."""
    found = instruction_bounds(target, words)
    for start, size, number in zip(*(each.tolist() for each in found), strict=True):
        try:
            insn = decode(target, words[start : start + LONGEST // 4].tolist())
        except IllegalInstruction:
            continue
        yield start, size, format_names(target.level)[number]
        form = "VOP3A" if insn.form == "VOP3B" else insn.form
        assert (insn.size // 4, form) == (size, format_names(target.level)[number]), insn


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("seed", range(3))
def test_sizes_and_encodings_are_those_of_decoding(name: str, seed: int) -> None:
    assert len(list(one_by_one(TARGETS[name], random_words(seed)))) > 2000


@pytest.mark.parametrize("name", PROCESSORS)
def test_all_words_belong_to_instructions(name: str) -> None:
    words = random_words(7)
    starts, sizes, _ = instruction_bounds(TARGETS[name], words)
    assert starts[0] == 0
    assert (starts[1:] == starts[:-1] + sizes[:-1]).all()
    assert 0 <= starts[-1] + sizes[-1] - len(words) <= 2


def test_no_code_has_no_instructions() -> None:
    assert len(instruction_bounds(TARGETS["gfx900"], np.zeros(0, np.uint32)).starts) == 0
