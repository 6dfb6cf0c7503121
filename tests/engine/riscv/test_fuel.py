"""Instruction budgets are exact on every engine, wherever they end."""

from __future__ import annotations

import pytest

from softcard.engine.riscv.jit.engine import JitEngine
from tests.engine.riscv.rig import CACHE, CODE, DATA, DEVICE, ENGINES, NEVER, Rig, agree, brief

ONE_BLOCK = """
    loop: addi x5, x5, 3
    xor x7, x7, x5
    addi x6, x6, -1
    bne x6, x0, loop
    addi x8, x0, 1
"""
WALK = """
    loop: lw x5, 0(x10)
    add x7, x7, x5
    sw x7, 4(x11)
    addi x10, x10, 4
    addi x11, x11, 8
    addi x6, x6, -1
    bne x6, x0, loop
"""
DIAMOND = """
    loop: andi x5, x6, 1
    beq x5, x0, even
    addi x7, x7, 5
    addi x7, x7, 1
    jal x0, join
    even: addi x8, x8, 7
    join: addi x6, x6, -1
    bne x6, x0, loop
"""
NESTED = """
    outer: addi x5, x0, 3
    inner: addi x7, x7, 1
    addi x5, x5, -1
    bne x5, x0, inner
    addi x6, x6, -1
    bne x6, x0, outer
"""
CALLS = """
    loop: jal x1, double
    addi x6, x6, -1
    bne x6, x0, loop
    jal x0, end
    double: add x7, x7, x6
    jalr x0, 0(x1)
    end: addi x8, x8, 1
"""
RECURSION = """
    jal x1, sum
    jal x0, end
    sum: bne x6, x0, more
    jalr x0, 0(x1)
    more: addi x2, x2, -16
    sd x1, 8(x2)
    sd x6, 0(x2)
    addi x6, x6, -1
    jal x1, sum
    ld x6, 0(x2)
    ld x1, 8(x2)
    addi x2, x2, 16
    add x7, x7, x6
    jalr x0, 0(x1)
    end: addi x8, x8, 1
"""
CSR_INSIDE = """
    loop: addi x7, x7, 1
    csrrs x8, minstret, x0
    addi x6, x6, -1
    bne x6, x0, loop
"""
PROGRAMS = {
    "one block": (ONE_BLOCK, {"x6": 9}),
    "walk": (WALK, {"x6": 12, "x10": DATA, "x11": DATA + 256}),
    "diamond": (DIAMOND, {"x6": 5}),
    "nested": (NESTED, {"x6": 4}),
    "calls": (CALLS, {"x6": 5}),
    "recursion": (RECURSION, {"x6": 4, "x2": DATA + 0x1000}),
    "system": (CSR_INSIDE, {"x6": 4}),
}


@pytest.fixture(autouse=True, params=[0, 1000], ids=["ends translated", "ends interpreted"])
def _end_visits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a budget is executed by code of one instruction each, at once or after it has happened often."""
    monkeypatch.setattr("softcard.engine.riscv.jit.engine.END_VISITS", request.param)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_budget_ends_at_the_same_instruction(name: str) -> None:
    text, x = PROGRAMS[name]
    (whole,) = agree(text, **x)
    assert whole.ending == "return"
    fuels = range(whole.retired + 3)
    for fuel, outcome in zip(fuels, agree(text, fuels, memory=bytes(range(1, 65)), **x), strict=True):
        assert outcome.retired == min(fuel, whole.retired)
        assert outcome.ending == ("return" if fuel >= whole.retired else "fuel")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_in_small_pieces_is_one_run(name: str) -> None:
    text, x = PROGRAMS[name]
    (whole,) = agree(text, **x)
    for make in ENGINES.values():
        rig = Rig(make())
        end = rig.place(text)
        rig.warm()
        for piece in (1, 2, 5, 7):
            rig.data.clear()
            outcome = rig.run(end, piece, **x)
            while outcome.ending == "fuel":
                before = rig.hart.retired
                outcome = rig.outcome(rig.hart, rig.engine.run(rig.hart, piece), before)
                assert outcome.ending == "return" or outcome.retired == piece
            ignored = {"retired": 0, "x8": 0}  # where x8 may show the counter, which goes on
            assert brief(outcome) | ignored == brief(whole) | ignored
            assert outcome.memory == whole.memory


@pytest.mark.parametrize("piece", [1, 3, 100_000])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_instruction_is_counted_once(name: str, piece: int) -> None:
    text, x = PROGRAMS[name]
    counts = []
    for make in (*ENGINES.values(), lambda **options: JitEngine(cache=CACHE, **options)):
        rig = Rig(make(counting=True))
        end, before = rig.place(text), rig.hart.retired
        for _ in range(4):
            outcome = rig.run(end, piece, **x)
            while outcome.ending == "fuel":
                outcome = rig.outcome(rig.hart, rig.engine.run(rig.hart, piece))
        counts.append(rig.engine.executions())
        assert sum(counts[-1].counts.values()) == rig.hart.retired - before
        assert counts[-1].counts == rig.engine.instruction_counts()
        assert bool(counts[-1].taken) == ("bne" in text or "beq" in text or "bnez" in text or "blt" in text)
        rig.engine.close()
    assert counts[1:] == counts[:1] * 3


def test_what_leaves_in_the_middle_is_counted_once() -> None:
    """Accesses to devices, and a trap: the reference engine executes them, or nobody does."""
    text = """
        loop: addi x7, x7, 1
        lw x8, 0(x10)
        ld x9, 8(x11)
        addi x6, x6, -1
        bne x6, x0, loop
        lw x8, 0(x0)
    """
    counts = []
    for make in ENGINES.values():
        rig = Rig(make(counting=True))
        end, before = rig.place(text), rig.hart.retired
        assert rig.run(end, x6=50, x10=DEVICE, x11=DATA).ending == "trap"
        counts.append(rig.engine.instruction_counts())
        assert sum(counts[-1].values()) == rig.hart.retired - before == 250
    assert counts[1:] == counts[:1] * 2


@pytest.mark.parametrize("name", ENGINES)
def test_the_return_address_wins_at_the_end_of_the_budget(name: str) -> None:
    rig = Rig(ENGINES[name]())
    end = rig.place(ONE_BLOCK)
    for _ in range(3):
        assert rig.run(end, 4 * 5 + 1, x6=5).ending == "return"
        assert rig.run(end, 4 * 5, x6=5).ending == "fuel"
    assert rig.run(CODE, 0).ending == "return"
    assert rig.run(NEVER, 0).ending == "fuel"
    assert rig.run(CODE, 10) == rig.run(CODE, 0), "where pc is the return address, nothing is executed"


def test_a_return_address_in_the_middle_of_a_loop() -> None:
    for offset in range(0, 20, 4):
        (outcome,) = agree(ONE_BLOCK, end=CODE + offset, x6=50)
        assert (outcome.ending, outcome.pc) == ("return", CODE + offset)


@pytest.mark.parametrize("name", ENGINES)
def test_a_return_address_that_moves_into_code_already_translated(name: str) -> None:
    rig = Rig(ENGINES[name]())
    end = rig.place(ONE_BLOCK)
    for where, retired in ((end, 41), (CODE + 8, 2), (end, 41), (CODE + 16, 40), (CODE + 4, 1), (end, 41)):
        outcome = rig.run(where, x6=10)
        assert (outcome.ending, outcome.pc, outcome.retired) == ("return", where, retired)


@pytest.mark.parametrize("name", ENGINES)
def test_a_return_address_inside_an_instruction_is_not_reached(name: str) -> None:
    rig = Rig(ENGINES[name]())
    rig.place(ONE_BLOCK + "back: jal x0, back")
    for _ in range(2):
        outcome = rig.run(CODE + 6, 45, x6=10)
        assert (outcome.ending, outcome.retired) == ("fuel", 45)


@pytest.mark.parametrize("name", ["quick", "optimised"])
def test_slices_do_not_show(name: str) -> None:
    """Budgets above the first slice are cut into several; the count stays exact."""
    rig = Rig(ENGINES[name]())
    end = rig.place(ONE_BLOCK)
    rounds = 120_000
    for fuel in (4 * rounds + 1, 4 * rounds, 4 * rounds - 1, 399_998):
        outcome = rig.run(end, fuel, x6=rounds)
        assert outcome.retired == min(fuel, 4 * rounds + 1)
        assert outcome.ending == ("return" if fuel > 4 * rounds else "fuel")
        assert outcome.x[5] == 3 * ((outcome.retired + 3) // 4) if outcome.ending == "fuel" else 3 * rounds


def test_compressed_code() -> None:
    text = "loop: c.addi x5, 1\nc.addi x6, -1\nbne x6, x0, loop\nc.addi x7, 1"
    (whole,) = agree(text, x6=6)
    agree(text, range(whole.retired + 2), x6=6)
