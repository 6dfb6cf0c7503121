"""The reference engine and the JIT are interchangeable: the whole hart is the same after every instruction."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from softcard.engine.riscv.api import Why
from softcard.engine.riscv.jit.engine import JitEngine
from tests.agree.bench import Bench, FlatPort, WidePort
from tests.agree.cases import word
from tests.agree.compare import divergences, report
from tests.agree.fuzz import ENGINES
from tests.agree.qemu import SLOTS, Case, Slot
from tests.agree.values import BOX, state
from tests.agree.wild import Try, program_tries, tries
from tests.agree.words import KNOWN, compressed, names

WORDS, STATES = 4, 10
"""Instruction words of each mnemonic, and states each of them runs in."""
PROGRAMS, PROGRAM_STATES = 400, 6
NAMES = names()


@pytest.fixture(scope="module")
def benches() -> dict[str, Bench]:
    """One for each engine. What the tiered one compiles quickly, "quick" has compiled already: the same object."""
    made = {name: Bench(make(), WidePort if name == "quick" else FlatPort) for name, make in ENGINES.items()}
    quick, tiered = made["quick"].engine, made["tiered"].engine
    assert isinstance(quick, JitEngine)
    assert isinstance(tiered, JitEngine)
    tiered.cache = quick.cache
    return made


def divergent(benches: dict[str, Bench], attempts: list[Try]) -> list[str]:
    """Run attempts that share one code slot on every engine; the reports of those that differ."""
    for bench in benches.values():
        bench.load_code([attempts[0].case])
    found = []
    for attempt in attempts:
        case = attempt.case
        outcomes = {name: bench.outcome(case, attempt.fuel, attempt.prepare) for name, bench in benches.items()}
        for name, outcome in outcomes.items():
            lines = divergences(outcomes["reference"], outcome)
            if lines:
                found.append(report(case, [f"{name}, fuel {attempt.fuel}, {outcomes['reference'].ending}", *lines]))
    return found


def directed(code: bytes, x: dict[int, int], f: dict[int, int]) -> Case:
    """A case in a slot of its own with a few chosen registers."""
    slot = Slot(SLOTS - 1)
    before = state(Random(code.hex()))
    values = {31: slot.out, **x}
    return Case(
        slot,
        code,
        replace(
            before,
            x=tuple(values.get(n, value) for n, value in enumerate(before.x)),
            f=tuple(f.get(n, value) for n, value in enumerate(before.f)),
            fcsr=0,
        ),
        31,
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_fsd_of_a_register_that_holds_a_single_stores_its_box(engine: str) -> None:
    """As a callee does that saves f registers whatever they hold; twice, so that every tier translates it."""
    scratch = Slot(SLOTS - 1).scratch
    code = word("fadd.s", rd=1, rs1=2, rs2=3, rm=7) + word("fsd", rs1=10, rs2=1)
    case = directed(code, {10: scratch}, {2: BOX | 0x3F800000, 3: BOX | 0x40000000})
    bench = Bench(ENGINES[engine]())
    bench.load_code([case])
    for _ in range(4):
        _, after = bench.run(case)
        assert after.memory[:8].hex() == "00004040ffffffff"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_fma_of_a_reserved_rounding_mode_traps_without_flags(engine: str) -> None:
    """Infinity times zero plus a NaN would raise NV, but the instruction does not execute."""
    code = word("fmadd.s", rd=1, rs1=2, rs2=3, rs3=4, rm=5)
    case = directed(code, {}, {2: BOX | 0x7F800000, 3: BOX, 4: BOX | 0x7FC00000})
    bench = Bench(ENGINES[engine]())
    bench.load_code([case])
    for _ in range(4):
        exit_, after = bench.run(case)
        assert (exit_.why, exit_.cause, after.fcsr, after.f[1]) == (Why.TRAP, 2, 0, case.before.f[1])


def test_no_mnemonic_is_left_out() -> None:
    assert set(NAMES) == {*KNOWN, *compressed()}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(WORDS))
@pytest.mark.parametrize("name", NAMES)
def test_every_mnemonic_is_the_same_on_all_engines(name: str, number: int, benches: dict[str, Bench]) -> None:
    random = Random(f"{name}/{number}")
    found = divergent(benches, tries(random, Slot(NAMES.index(name) * WORDS + number), name, STATES))
    assert not found, f"{len(found)} differ; the first:\n\n" + "\n\n".join(found[:3])


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", range(8))
def test_programs_are_the_same_on_all_engines(part: int, benches: dict[str, Bench]) -> None:
    found = []
    for n in range(part, PROGRAMS, 8):
        slot = Slot(len(NAMES) * WORDS + n)
        found += divergent(benches, program_tries(Random(f"program/{n}"), slot, PROGRAM_STATES))
    assert not found, f"{len(found)} differ; the first:\n\n" + "\n\n".join(found[:3])
