"""Random programs of harts under the check of races do what they do without, and both engines find the same."""

from __future__ import annotations

from random import Random

import pytest

from tests.agree.hart_programs import found_by
from tests.agree.race_harts import WORDS, Maker
from understudy.image.assembly.files import assemble_program

PROGRAMS = 24


def agree(seed: str, tier: str) -> int:
    """Compare the engines on one program; how much was found."""
    random = Random(seed)
    text = Maker(random).text()
    program = assemble_program(text)
    options = {"instances": random.choice((2, 4, 4, 4, 7, 13)), "dma": random.choice(("late", "late", "immediate"))}
    options |= {"harts": random.choice((4, 4, 4, 2, 9)), "step_limit": 5_000}
    plain = found_by(program, WORDS, engine="reference", check="", **options)
    options |= {"check": random.choice(("races", "races", "races,init")), "equal_stores": random.random() < 0.2}
    one = found_by(program, WORDS, engine="reference", **options)
    other = found_by(program, WORDS, engine="jit", tier=tier, **options)
    assert one[1:] == other[1:] == plain[1:], f"{seed}\n{text}"
    assert one[0] == other[0], f"{seed}\n{text}"
    return len(one[0])


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["first", "optimised"])
def test_both_engines_find_the_same(tier: str) -> None:
    count = PROGRAMS if tier == "first" else PROGRAMS // 4
    assert sum(agree(f"{tier}/{number}", tier) for number in range(count)) > 3 * count
