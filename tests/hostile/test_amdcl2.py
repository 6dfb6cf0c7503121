"""AMD OpenCL 2.0 containers of any kind are read or refused, quickly, and what is read can be run or refused."""

from __future__ import annotations

from random import Random

import pytest

from tests.hostile import amdcl2

CASES = 400


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_containers_with_mistakes(part: int) -> None:
    for number in range(part, CASES, 4):
        amdcl2.check(amdcl2.mutated(Random(f"amdcl2/{number}")))


def test_every_truncation_of_the_headers() -> None:
    for data in amdcl2.good()[-2:]:
        for size in [*range(0, 300, 3), *range(300, len(data), 131)]:
            amdcl2.check(data[:size])


def test_good_files_are_good() -> None:
    for data in amdcl2.good():
        amdcl2.check(data)
