"""Atomics: reservations, and operations of several harts on threads, in any mixture of engines."""

from __future__ import annotations

import threading

import pytest

from softcard.core.errors import SoftcardError
from softcard.engine.riscv.api import STORE_ACCESS, STORE_MISALIGNED, Exit, Why
from softcard.engine.riscv.group import Group
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.isa.riscv.state import RETURN_ADDRESS, Hart
from tests.engine.riscv.rig import CODE, DATA, DEVICE, ENGINES, UNKNOWN_ORIGIN, Rig, WidePort, agree, brief

EVERY = pytest.mark.parametrize("name", ENGINES)
COUNT = """
    loop: amoadd.d x0, x7, (x10)
    addi x6, x6, -1
    bne x6, x0, loop
"""
LR_SC = """
    loop: lr.d x5, (x10)
    addi x5, x5, 1
    sc.d x7, x5, (x10)
    bne x7, x0, loop
    addi x6, x6, -1
    bne x6, x0, loop
"""
SPIN = """
    again: addi x5, x0, 1
    wait: amoswap.w.aq x5, x5, (x11)
    bne x5, x0, wait
    ld x7, 0(x10)
    addi x7, x7, 1
    sd x7, 0(x10)
    amoswap.w.rl x0, x0, (x11)
    addi x6, x6, -1
    bne x6, x0, again
"""


@pytest.mark.parametrize("t", ["w", "d"])
def test_reservations(t: str) -> None:
    for between, held in {
        "addi x9, x0, 0": True,
        f"l{t} x9, 0(x10)": True,
        f"s{t} x11, 8(x10)": True,
        f"s{t} x11, 0(x10)": False,
        f"lr.{t} x9, (x12)": False,
        f"sc.{t} x9, x11, (x12)": False,
        f"sc.{t} x9, x11, (x10)": False,
        f"amoadd.{t} x9, x10, (x10)": False,
    }.items():
        text = f"lr.{t} x5, (x10)\n{between}\nsc.{t} x7, x10, (x10)\nsc.{t} x8, x10, (x10)"
        for outcome in agree(text, (10, 10, 10), memory=bytes(range(1, 33)), x10=DATA, x11=77, x12=DATA + 16)[:3]:
            assert outcome.x[7] == (0 if held else 1), between
            assert outcome.x[8] == 1
    text = f"sc.{t} x7, x10, (x10)"
    assert agree(text, (10, 10), x10=DATA)[1].x[7] == 1, "no reservation"


def test_a_failing_store_conditional_faults_like_a_store() -> None:
    for address, cause in ((DATA + 4, STORE_MISALIGNED), (DATA - 8, STORE_ACCESS), (1 << 40, STORE_ACCESS)):
        for outcome in agree("sc.d x7, x8, (x10)\namoadd.d x5, x6, (x10)", (10, 10), x10=address):
            assert (outcome.cause, outcome.value, outcome.retired) == (cause, address, 0)
        for outcome in agree("amoadd.d x5, x6, (x10)", (10, 10), x10=address):
            assert (outcome.cause, outcome.value, outcome.retired) == (cause, address, 0)


@EVERY
def test_another_harts_store_takes_the_reservation(name: str) -> None:
    """Whatever it stores: 5 is what was there."""
    for value, result in ((5, 1), (6, 1)):
        rig = Rig(ENGINES[name]())
        rig.warm()
        other = rig.new_hart(1)
        end = rig.place("lr.d x5, (x10)\nsc.d x7, x8, (x10)\naddi x9, x0, 0")
        store = rig.place("sd x8, 0(x10)", end + 0x100)
        for _ in range(3):
            rig.space.write(DATA, (5).to_bytes(8, "little"), UNKNOWN_ORIGIN)
            assert rig.run(end, 1, x10=DATA, x8=9).x[5] == 5
            assert rig.run(store, pc=store - 4, hart=other, x10=DATA, x8=value).ending == "return"
            assert rig.outcome(rig.hart, rig.engine.run(rig.hart, 100)).x[7] == result


@pytest.mark.parametrize("t", ["w", "d"])
@pytest.mark.parametrize("kind", ["swap", "add", "xor", "and", "or", "min", "max", "minu", "maxu"])
def test_operations(kind: str, t: str) -> None:
    words = (0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 63, (1 << 63) - 1, (1 << 64) - 1)
    text = f"amo{kind}.{t} x5, x6, (x10)\namo{kind}.{t} x7, x6, (x10)"
    for memory in words:
        agree(text, (9, 9, 1), memory=memory.to_bytes(8, "little"), x10=DATA, x6=words[memory % 7])
    agree(text, (9, 9), x10=DEVICE, x6=3)


# -- threads


def together(rigs_engine: ReferenceEngine, text: str, harts: int, rounds: int, group: Group, others: int = 0) -> int:
    """Run `text` on many harts at once; what the counter in memory is in the end.

    `others` of them belong to a second engine, which judges.
    """
    rig = Rig(rigs_engine)
    end = rig.place(text)
    detector = ReferenceEngine()
    made = [rig.new_hart(n, WidePort(rig.space)) for n in range(harts)]
    for hart in made:
        for n, value in {10: DATA, 11: DATA + 64, 6: rounds, 7: 1}.items():
            hart.set_x(n, value)
        hart.pc, hart.words[RETURN_ADDRESS] = CODE, end
    results = _run(group, rig.engine, detector, made, others)
    for hart, exit_ in zip(made, results, strict=True):
        assert isinstance(exit_, Exit)
        assert exit_.why is Why.RETURN, exit_
        assert hart.x(6) == 0
    return int.from_bytes(rig.data.view[:8], "little")


def _run(
    group: Group, engine: ReferenceEngine, detector: ReferenceEngine, harts: list[Hart], others: int
) -> list[Exit | SoftcardError]:
    class Both:
        def run(self, hart: Hart, fuel: int) -> Exit:
            return (detector if hart.index < others else engine).run(hart, fuel)

    return group.run(Both(), harts, 50_000_000)  # type: ignore[arg-type]


@EVERY
@pytest.mark.parametrize("text", [COUNT, LR_SC, SPIN])
def test_no_count_is_lost_between_threads(name: str, text: str) -> None:
    rounds = 300 if name == "reference" else 20_000
    group = Group(4)
    try:
        assert together(ENGINES[name](), text, 4, rounds, group) == 4 * rounds
    finally:
        group.close()


@pytest.mark.parametrize("name", ["quick", "optimised"])
@pytest.mark.parametrize("text", [COUNT, LR_SC])
def test_no_count_is_lost_between_translated_code_and_the_reference(name: str, text: str) -> None:
    """The JIT engine's own reference steps are atomic towards what runs beside them: here they run every round."""
    slow = text.replace("addi x6, x6, -1", "csrrs x9, minstret, x0\naddi x6, x6, -1")
    rig = Rig(ENGINES[name]())
    ends = rig.place(text), rig.place(slow, 0x1_8000)
    group = Group(3)
    harts = [rig.new_hart(n, WidePort(rig.space)) for n in range(3)]
    for hart in harts:
        mine = hart.index == 2
        for n, value in {10: DATA, 6: 400 if mine else 40_000, 7: 1}.items():
            hart.set_x(n, value)
        hart.pc, hart.words[RETURN_ADDRESS] = (0x1_8000, ends[1]) if mine else (0x1_0000, ends[0])
    try:
        assert all(isinstance(e, Exit) and e.why is Why.RETURN for e in group.run(rig.engine, harts, 10_000_000))
    finally:
        group.close()
    assert int.from_bytes(rig.data.view[:8], "little") == 2 * 40_000 + 400


def test_a_fresh_engine_on_many_threads() -> None:
    """All harts find the run-time part missing at once."""
    group = Group(8)
    try:
        for _ in range(8):
            assert together(ENGINES["quick"](), COUNT, 8, 50, group) == 8 * 50
    finally:
        group.close()


def test_the_calling_thread_runs_harts_too() -> None:
    """Each takes the next one that nobody has taken: two threads and four harts that leave in twos."""
    met, seen = threading.Barrier(2, timeout=60), []

    class Meets:
        def run(self, hart: Hart, fuel: int) -> Exit:
            seen.append((hart.index, threading.get_ident()))
            met.wait()
            return Exit(Why.RETURN, hart.index)

    rig = Rig(ENGINES["reference"]())
    group = Group(2)
    try:
        exits = group.run(Meets(), [rig.new_hart(n) for n in range(4)], 1)  # type: ignore[arg-type]
    finally:
        group.close()
    assert [exit_.pc for exit_ in exits if isinstance(exit_, Exit)] == [0, 1, 2, 3]
    assert sorted(index for index, _ in seen) == [0, 1, 2, 3]
    assert sum(thread == threading.get_ident() for _, thread in seen) == 2
    assert len({thread for _, thread in seen}) == 2


def test_a_group_reports_errors_in_order() -> None:
    rig = Rig(ENGINES["quick"]())
    end = rig.place("addi x5, x0, 1")
    rig.place("csrrs x5, tselect, x0", end)
    harts = [rig.new_hart(n) for n in range(3)]
    for hart in harts:
        hart.pc = end if hart.index == 1 else end - 4
        hart.words[RETURN_ADDRESS] = 0 if hart.index == 1 else end
    for threads in (1, 2):
        group = Group(threads)
        first, second, third = group.run(rig.engine, harts, 100)
        group.close()
        assert isinstance(second, SoftcardError)
        assert "debug triggers are not modelled" in str(second)
        assert all(isinstance(exit_, Exit) and exit_.why is Why.RETURN for exit_ in (first, third))
    assert Group().threads >= 1
    assert Group(0).run(rig.engine, [], 1) == []


def test_both_engines_leave_the_same_reservation_words() -> None:
    results = {}
    for name, make in ENGINES.items():
        rig = Rig(make())
        rig.warm()
        end = rig.place("lr.w x5, (x10)\naddi x6, x0, 1")
        rig.space.write(DATA, b"\xff" * 8, UNKNOWN_ORIGIN)
        rig.run(end, x10=DATA)
        results[name] = brief(rig.run(end, x10=DATA)), rig.hart.words[71:73].tolist()
    assert results["reference"] == results["quick"] == results["optimised"]
    assert isinstance(Rig(ENGINES["quick"]()).engine, JitEngine)
