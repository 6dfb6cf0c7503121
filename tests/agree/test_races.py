"""Random programs of harts under the check of races do what they do without, and both engines find the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from softcard.image.assembly.files import assemble_program
from tests.agree.hart_programs import found_by
from tests.agree.race_harts import WORDS, Maker

PROGRAMS = 24
"""Half of them without ``--exhaustive``."""
CHECKS = ("races", "races", "races,init", "races,init", "waits,init,races")


def agree(seed: str, tier: str) -> int:
    """Compare the engines on one program; how much was found."""
    random = Random(seed)
    text = Maker(random).text()
    program = assemble_program(text)
    options = {"instances": random.choice((2, 4, 4, 4, 7, 13)), "dma": random.choice(("late", "late", "immediate"))}
    options |= {"harts": random.choice((4, 4, 4, 2, 9)), "step_limit": 5_000}
    plain = found_by(program, WORDS, engine="reference", check="", **options)
    options |= {"check": random.choice(CHECKS), "equal_stores": random.random() < 0.2}
    one = found_by(program, WORDS, engine="reference", **options)
    other = found_by(program, WORDS, engine="jit", tier=tier, **options)
    assert one[1:] == other[1:] == plain[1:], f"{seed}\n{text}"
    assert one[0] == other[0], f"{seed}\n{text}"
    return len(one[0])


MIXED = """
.globl kernel
kernel:
    li t0, 3
    mv t3, a1
    bnez a0, others
again:
    li t5, 12
    mv t4, t3
loop:
    {whole} t2, 0(t4)
    {part} t2, 16(t3)
    addi t4, t4, 4
    addi t5, t5, -1
    bnez t5, loop
    addi t3, t3, 64
    addi t0, t0, -1
    bnez t0, again
    li t2, 1
    sw t2, 512(a1)
    ret
others:
    lw t2, 512(a1)
    beqz t2, others
last:
    sw zero, 16(t3)
    addi t3, t3, 64
    addi t0, t0, -1
    bnez t0, last
    ret
"""
"""A hart accesses bytes of the same dword again and again, and all of it in between; another one stores there then."""


@pytest.mark.parametrize(("whole", "part"), [("lw", "lb"), ("lw", "lh"), ("sw", "sb"), ("sw", "sh")])
def test_parts_of_a_dword_beside_all_of_it(whole: str, part: str) -> None:
    program = assemble_program(MIXED.format(whole=whole, part=part))
    options: dict[str, Any] = {"instances": 2, "check": "races", "equal_stores": True}
    one = found_by(program, WORDS, engine="reference", **options)
    other = found_by(program, WORDS, engine="jit", tier="first", **options)
    assert one == other
    met = [each["other"] for each in one[0] if each["kind"].endswith("-write")]
    assert all(any(f", {name} " in each for each in met) for name in (whole, part))


@pytest.mark.parametrize(("store", "load", "size"), [("sb", "lb", 1), ("sh", "lh", 2)])
def test_a_loop_stores_behind_what_it_loads(store: str, load: str, size: int) -> None:
    """What a hart has loaded before it stored there, is not what another one's store races with."""
    text = MIXED.replace("{whole} t2, 0(t4)", f"{store} t5, 0(t4)").replace("{part} t2, 16", f"{load} t2, {size}")
    text = text.replace("(t3)\n    addi t4, t4, 4", f"(t4)\n    addi t4, t4, {size}")
    program = assemble_program(text.replace("zero, 16(t3)", "zero, 0(t3)"))
    options: dict[str, Any] = {"instances": 2, "check": "races", "equal_stores": True}
    one = found_by(program, WORDS, engine="reference", **options)
    assert one == found_by(program, WORDS, engine="jit", tier="first", **options)
    assert any(f", {store} " in each["other"] for each in one[0])


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["first", "optimised"])
def test_both_engines_find_the_same(tier: str, is_exhaustive: bool) -> None:
    count = PROGRAMS // (1 if is_exhaustive else 2) // (1 if tier == "first" else 4)
    assert sum(agree(f"{tier}/{number}", tier) for number in range(count)) > 3 * count
