"""Random programs that store code do under the check `waits` what they do without, and both engines find the same."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tests.agree.code_harts import WORDS, Maker
from understudy.core.errors import UnderstudyError
from understudy.host.refsi.refsi import RefSi
from understudy.image.assembly.files import assemble_program

PROGRAMS = 24
CHECKS = ("waits", "waits", "waits", "waits,races", "waits,init", "waits,init,races")


def found_by(program: bytes, instances: int, **options: Any) -> tuple[list[Any], bytes, int, str]:
    """What is told of two launches of a program, what they leave, what they took, and how they failed."""
    with RefSi.open(finding_limit=1000, step_limit=20_000, **options) as device:
        device.load_elf(program)
        x = device.zeros(WORDS, np.int32)
        instructions, error = 0, ""
        for _ in range(2):
            try:
                instructions += device.launch("kernel", instances, [x]).instructions
            except UnderstudyError as failed:
                error += str(failed)
        return [each.as_dict() for each in device.findings], x.array.tobytes(), instructions, error


def agree(seed: str, tier: str) -> int:
    """Compare the engines on one program; how much was found."""
    random = Random(seed)
    text = Maker(random).text()
    program = assemble_program(text)
    options = {"instances": random.choice((2, 4, 4, 4, 7, 13)), "harts": random.choice((4, 4, 4, 2, 9))}
    plain = found_by(program, engine="jit", tier=tier, check="", threads=1, **options)
    options["check"] = random.choice(CHECKS)
    one = found_by(program, engine="reference", **options)
    other = found_by(program, engine="jit", tier=tier, **options)
    assert one[1:] == other[1:] == plain[1:], f"{seed}\n{text}"
    assert one[0] == other[0], f"{seed}\n{text}"
    return sum(each["check"] == "waits" for each in one[0])


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["first", "optimised"])
def test_both_engines_find_the_same(tier: str) -> None:
    count = PROGRAMS if tier == "first" else PROGRAMS // 4
    assert sum(agree(f"{tier}/{number}", tier) for number in range(count)) > 3 * count
