"""Representations of float registers inside a region: joins, and the effect of each use."""

from __future__ import annotations

from itertools import product

from softcard.engine.riscv.jit.floatreps import Reps, after, analyse, join
from softcard.engine.riscv.jit.region import discover
from tests.engine.riscv.rig import CODE, fetcher

KINDS = ("x", "r", "b")
ALL: list[Reps] = [{}] + [{1: (fmt, kind)} for fmt in "SD" for kind in KINDS]


def reps(text: str) -> Reps:
    """Return the representations after a straight run that starts with integers."""
    block = discover(CODE, fetcher(text)).blocks[CODE]
    return after(block, {})


def test_join_is_a_meet_of_what_both_can_become() -> None:
    for a, b, c in product(ALL, ALL, ALL):
        assert join(a, a) == a
        assert join(a, b) == join(b, a)
        assert join(join(a, b), c) == join(a, join(b, c))


def test_join_loses_nothing() -> None:
    assert join({1: ("S", "x")}, {1: ("S", "r")}) == {1: ("S", "x")}, "raw values can be made exact, not the reverse"
    assert join({1: ("S", "b")}, {1: ("S", "r")}) == {1: ("S", "r")}
    assert join({1: ("S", "b")}, {1: ("S", "x")}) == {1: ("S", "x")}
    assert join({1: ("S", "r")}, {1: ("D", "r")}) == {}
    assert join({1: ("S", "r")}, {}) == {}
    assert join({1: ("S", "r"), 2: ("D", "x")}, {1: ("S", "r"), 3: ("D", "x")}) == {1: ("S", "r")}


def test_what_instructions_make() -> None:
    assert reps("flw f1, 0(x1)\nfld f2, 0(x1)") == {1: ("S", "x"), 2: ("D", "x")}
    assert reps("fadd.s f1, f2, f3\nfma: fmadd.d f4, f5, f6, f7") == {1: ("S", "r"), 4: ("D", "r")}
    assert reps("fmv.w.x f1, x0\nfmv.w.x f2, x5") == {1: ("S", "b"), 2: ("S", "x")}
    assert reps("fcvt.d.w f1, x5\nfmin.s f2, f3, f4") == {1: ("D", "b"), 2: ("S", "b")}
    assert reps("fsgnj.s f1, f2, f2") == {1: ("S", "x")}
    assert reps("fcvt.d.s f1, f2\nfcvt.s.d f3, f1") == {1: ("D", "r"), 3: ("S", "r")}
    assert reps("fsw f1, 0(x1)\nfeq.s x5, f1, f2\nfmv.x.w x6, f1") == {}


def test_a_loop_takes_what_all_ways_into_it_have() -> None:
    text = """
        fmv.w.x f1, x0
        fmv.w.x f2, x0
        flw f3, 0(x10)
        loop: fadd.s f1, f1, f3
        flw f2, 0(x10)
        addi x6, x6, -1
        bne x6, x0, loop
        fsw f1, 0(x11)
    """
    before = analyse(discover(CODE, fetcher(text)))
    assert before[CODE] == {}
    assert before[CODE + 12] == {1: ("S", "r"), 2: ("S", "x"), 3: ("S", "x")}
    assert before[CODE + 28] == before[CODE + 12]


def test_entries_from_outside_see_integers_only() -> None:
    text = "fadd.s f1, f2, f3\necall\nfadd.s f4, f1, f1\nloop: fadd.s f4, f4, f4\nbeq x0, x0, loop"
    before = analyse(discover(CODE, fetcher(text)))
    assert before[CODE + 8] == {}
    assert before[CODE + 12] == {4: ("S", "r")}


def test_blocks_that_nobody_enters_see_integers() -> None:
    text = "jal x0, end\nlost: fadd.s f1, f1, f1\nend: addi x1, x1, 1"
    region = discover(CODE, fetcher(text))
    assert set(analyse(region)) == set(region.blocks)
