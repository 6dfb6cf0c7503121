"""The player takes any script: an exit status, whole lines, and never a traceback."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from softcard.cli.recordings import Settings
from tests.hostile import scripts
from tests.hostile.checks import in_time

CASES = 400


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("part", range(4))
def test_recordings_with_mistakes(part: int) -> None:
    for number in range(part, CASES, 4):
        random = Random(f"recordings/{number}")
        lines, settings = scripts.mutated(random), scripts.settings(random)
        with in_time():
            played = [scripts.check_script(lines, replace(settings, engine=engine)) for engine in ("jit", "reference")]
        assert played[0] == played[1], lines


@examples(max_examples=100)
@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from(list(scripts.FORMS))), max_size=8))
def test_text_that_is_no_script(lines: list[str]) -> None:
    clean = [line.encode("utf-8", "ignore").decode() for line in lines]
    scripts.check_script(clean, Settings("refsidrv", "reference", 0, scripts.STEP_LIMIT))


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("bogus 1", 2, "error: unknown call 'bogus', expected one of "),
        ("r64", 2, "error: an operand is missing, expected r64 ADDR [N]\n   = note: at line 2"),
        (
            "r64 0x40000000 0xffffffffffffffff",
            2,
            "error: r64: expected at most 0x100000, got 0xffffffffffffffff\n   = note: at line 2",
        ),
        (
            "fill 0x40000000 0x10000001 0",
            2,
            "error: fill: expected at most 0x10000000, got 0x10000001\n   = note: at line 2",
        ),
        (
            "w64 0x40000000 0x10000000000000000",
            2,
            "error: 0x10000000000000000 does not fit 64 bits\n   = note: at line 2",
        ),
        (
            "elf README.md",
            1,
            "error: file starts with 23 20 52 65, expected 7f 45 4c 46 (ELF)\n"
            "  --> byte 0x0\n   = note: at line 2 (elf)",
        ),
        ("elf \0", 2, "error: cannot read \\x00: embedded null byte\n   = note: at line 2 (elf)"),
        ("elf ..", 2, "error: cannot read ..: Is a directory\n   = note: at line 2 (elf)"),
        ("open g", 3, "not modelled: RefSi G1 is modelled only in profile refsidrv"),
        (
            "cb 0xb00",
            1,
            "error[refsi/header-packet-id]: header 0x0000000000000b00: packet identifier (bits 31-30) is 0, expected 3",
        ),
    ],
)
def test_one_mistake_in_a_script(line: str, code: int, message: str) -> None:
    played = scripts.check_script(["open m", line], Settings("spec", "reference", 0, scripts.STEP_LIMIT))
    assert played.code == code
    assert played.err.startswith(message)
