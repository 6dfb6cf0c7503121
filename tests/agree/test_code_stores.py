"""Random programs that store code do under the check `waits` what they do without, and both engines find the same."""

from __future__ import annotations

from random import Random

import pytest

from softcard.image.assembly.files import assemble_program
from tests.agree.code_harts import WORDS, Maker
from tests.agree.hart_programs import found_by

PROGRAMS = 24
"""A sixth of them without ``--exhaustive``."""
CHECKS = ("waits", "waits", "waits", "waits,races", "waits,init", "waits,init,races")


def agree(seed: str, tier: str) -> int:
    """Compare the engines on one program; how much was found."""
    random = Random(seed)
    text = Maker(random).text()
    program = assemble_program(text)
    options = {"instances": random.choice((2, 4, 4, 4, 7, 13)), "harts": random.choice((4, 4, 4, 2, 9))}
    options["step_limit"] = 20_000
    plain = found_by(program, WORDS, engine="jit", tier=tier, check="", threads=1, **options)
    options["check"] = random.choice(CHECKS)
    one = found_by(program, WORDS, engine="reference", **options)
    other = found_by(program, WORDS, engine="jit", tier=tier, **options)
    assert one[1:] == other[1:] == plain[1:], f"{seed}\n{text}"
    assert one[0] == other[0], f"{seed}\n{text}"
    return sum(each["check"] == "waits" for each in one[0])


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("tier", ["first", "optimised"])
def test_both_engines_find_the_same(tier: str, is_exhaustive: bool) -> None:
    count = PROGRAMS // (1 if is_exhaustive else 6) // (1 if tier == "first" else 2)
    assert sum(agree(f"{tier}/{number}", tier) for number in range(count)) > 3 * count
