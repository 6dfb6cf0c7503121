"""Vector instructions in any state, and programs of any kind, end alike on both engines and with a word."""

from __future__ import annotations

from random import Random

import pytest

from tests.hostile import host_calls, programs, vectors


@pytest.mark.slow
def test_vectors_in_any_state() -> None:
    for number in range(120):
        vectors.check(Random(f"vectors/{number}"))


@pytest.mark.slow
def test_programs_that_nobody_compiled() -> None:
    for number in range(60):
        programs.check(Random(f"programs/{number}"))


@pytest.mark.slow
def test_calls_that_make_no_sense() -> None:
    for number in range(40):
        host_calls.check(Random(f"calls/{number}"))
