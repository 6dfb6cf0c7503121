"""The check `init` of harts: it changes no result, and both engines mark the same."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from random import Random
from typing import Final

import pytest

from softcard.core.findings import FindingLog
from softcard.engine.riscv.jit.emit_region import RegionEmitter
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.engine.riscv.jit.region import discover, region_key
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.engine.riscv.shadow import uses
from softcard.engine.riscv.shadow.check import ShadowCheck
from softcard.engine.riscv.shadow.translated import DEFINEDNESS, loads_undefined
from softcard.engine.riscv.shadow_layout import CALLED, REGISTERS, ShadowBlock, ShadowedRam
from softcard.ir import llvm
from softcard.ir.native import U64, link, native
from softcard.ir.object_cache import ObjectCache
from softcard.isa.riscv import csr
from softcard.isa.riscv.decode import assemble, decode
from softcard.isa.riscv.isa import ALL
from softcard.isa.riscv.state import Hart
from tests.agree.bench import Bench
from tests.agree.compare import divergences
from tests.agree.programs import walk
from tests.agree.qemu import DATA, SLOTS, Case, Slot
from tests.agree.values import state
from tests.agree.wild import Try, program_tries, tries_of
from tests.conftest import Seeds

PROGRAMS, WALKS, STATES = 120, 120, 3


class Shadowed:
    """An engine that checks, and what it has marked."""

    def __init__(self, engine: str) -> None:
        self.check = ShadowCheck(FindingLog([]), lambda hart, pc: None)
        made = ReferenceEngine(observe=self.check.observe)
        if engine != "reference":
            made = JitEngine(
                tier=llvm.QUICK, cache=ObjectCache(), observe=self.check.observe, instrumentation=DEFINEDNESS
            )
        self.bench = Bench(made, ram=ShadowedRam)
        csr.reset(self.bench.hart)
        made.context(self.bench.hart)

    def run(self, attempt: Try, seed: str) -> tuple[object, bytes, bytes, dict[tuple[str, int], int]]:
        """The outcome, where much is marked, or little, or nothing; marks of registers and memory; and what was told of
        how often."""
        random, case = Random(seed), attempt.case
        found = self.bench.space.find(DATA)
        assert found is not None
        assert isinstance(found.region, ShadowedRam)
        at = case.slot.scratch - DATA
        memory = found.region.shadows[at : at + 256]
        chance, chances = random.choice(((1, 0.5), (1, 0.5), (0.3, 0.02), (0.3, 0), (0, 0)))
        for first in range(0, 256, 32):
            some = random.randbytes(32) if random.random() < chance else bytes(32)
            memory[first : first + 32] = list(some)
        block = self.check.block(self.bench.hart)
        for n in range(1, REGISTERS):
            shadows = random.choice((random.getrandbits(64), (1 << 64) - 1))
            block.words[n] = shadows if random.random() < chances else 0

        outcome = self.bench.outcome(case, attempt.fuel, attempt.prepare)
        return outcome, bytes(block.buffer[:REGISTERS]), bytes(memory), self._counts(block)

    def ask(self, code: llvm.Code) -> None:
        """Have `counted` called before rounds that are looked at together."""
        self.check.block(self.bench.hart).words[CALLED] = code.address(counted.name)

    def _counts(self, block: ShadowBlock) -> dict[tuple[str, int], int]:
        return {site: self.check.uses.count(site, [block]) for site in self.check.uses.sites}


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", range(4))
def test_shadow_bits_change_no_result_and_are_the_same_on_both_engines(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And are told of as often: by the reference engine, and by translated code that only counts."""
    reported = 0
    engines = Engines()
    for n in range(part, PROGRAMS, 4):
        monkeypatch.setattr(uses, "QUOTA", 1 + n // 4 % 2 * 15)
        reported = engines.agree(program_tries(Random(f"marks/{n}"), Slot(n % SLOTS), STATES), f"{n}")
    assert reported > 100


class Engines:
    """Both engines with marks, and one without."""

    def __init__(self) -> None:
        self.plain, self.shadowed = Bench(ReferenceEngine()), {name: Shadowed(name) for name in ("reference", "quick")}

    def agree(self, tries: list[Try], seed: str) -> int:
        """Run a program on all of them; what was told so far."""
        for attempt in tries:
            for bench in (self.plain, *(each.bench for each in self.shadowed.values())):
                bench.load_code([attempt.case])
            expected = self.plain.outcome(attempt.case, attempt.fuel, attempt.prepare)
            found = {name: each.run(attempt, seed) for name, each in self.shadowed.items()}
            for outcome, *_ in found.values():
                assert not divergences(expected, outcome)  # type: ignore[arg-type]
            assert found["reference"][1:] == found["quick"][1:], seed
        return sum(found["reference"][3].values())


BATCH_CHECKS: Final = (ctypes.c_uint64 * 3)()
"""How often rounds loaded what has no marks, how often what has; and rounds that were asked about."""
BATCH_CHECKS_AT: Final = ctypes.addressof(BATCH_CHECKS)


@native
def counted(streams: int, count: int, rounds: int) -> int:
    found = loads_undefined(streams, count, rounds)
    U64[BATCH_CHECKS_AT + 8 * found] += 1
    U64[BATCH_CHECKS_AT + 16] += rounds
    return found


@pytest.mark.slow
def test_rounds_that_are_checked_together(seeds: Seeds) -> None:
    """Simple loops, of which little is marked: compiled code is asked, and mostly all goes on without marks."""
    engines, code = Engines(), link(ObjectCache(), counted)
    engines.shadowed["quick"].ask(code)
    before = tuple(BATCH_CHECKS)
    numbers = seeds(WALKS, WALKS // 2, WALKS // 2)
    for n in numbers:
        random, slot = Random(f"rounds/{n}"), Slot(n % SLOTS)
        engines.agree(tries_of(random, walk(random, slot, is_simple=True), STATES, 0.05), f"{n}")
    assert BATCH_CHECKS[0] - before[0] > len(numbers)
    assert BATCH_CHECKS[1] - before[1] > len(numbers) / 10


ROUNDS = 30
ENDS = {
    "bne x6, x11, -12": 4 * ROUNDS,
    "bltu x6, x11, -12": 4 * ROUNDS - 3,
    "bgeu x11, x6, -12": 4 * ROUNDS - 1,
    "bne x12, x0, -12": 0,
    "blt x0, x12, -12": 0,
    "bge x12, x10, -12": 0,
    "blt x12, x13, -12": 0,
}
"""What may end a loop; where x11 is, from where x6 begins."""


@pytest.mark.parametrize("branch", ENDS)
def test_no_more_rounds_are_checked_than_there_are(branch: str) -> None:
    """What lies behind them may be another hart's, or far away."""
    code = link(ObjectCache(), counted)
    shadowed = Shadowed("quick")
    shadowed.ask(code)
    slot = Slot(0)
    counter = "addi x12, x12, 1" if branch.startswith("blt x12") else "addi x12, x12, -1"
    lines = "lw x7, 0(x6)", "addi x6, x6, 4", counter, branch
    text = b"".join(assemble(line) for line in lines)
    x = {6: slot.scratch, 10: 1, 11: slot.scratch + ENDS[branch], 12: ROUNDS, 30: slot.out}
    if branch.startswith("blt x12"):
        x |= {12: 5, 13: 5 + ROUNDS}
    before = state(Random(0))
    case = Case(slot, text, replace(before, x=tuple(x.get(n, 0) for n in range(32))), 30)
    shadowed.bench.load_code([case])
    asked = BATCH_CHECKS[2]
    shadowed.check.block(shadowed.bench.hart).begin((1 << 32) - 1)
    shadowed.bench.outcome(case, 1000, lambda hart: None)
    assert shadowed.bench.hart.words[6] == slot.scratch + 4 * ROUNDS
    assert BATCH_CHECKS[2] - asked == ROUNDS - 1  # the first one is not made in translated code


LOOP = "loop: lw x7, 0(x6)|add x8, x8, x7|sw x8, 4(x6)|addi x6, x6, 4|bne x6, x9, loop"


def test_without_the_check_code_is_what_it_was() -> None:
    """Neither its text nor the name it is kept under knows of marks; with it both do."""
    lines = LOOP.replace("loop: ", "").replace("loop", "-16").split("|")
    code = [decode(int.from_bytes(assemble(line), "little"), ALL) for line in lines]
    region = discover(0, lambda pc: code[pc // 4] if pc < 20 else None, frozenset({20}), True)
    plain = RegionEmitter(region, frozenset()).text()
    assert "shadows" not in plain
    assert "shadows" in RegionEmitter(region, frozenset(), True, DEFINEDNESS.perform).text()
    with_shadows = region_key(region, True, 0, *DEFINEDNESS.names)
    assert region_key(region, True, 0) == region_key(region, True, 0, "") != with_shadows
    assert Hart.STATE == ("own_words", "own_vectors", "csr", "privilege")
