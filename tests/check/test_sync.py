"""The check of barriers: planted mistakes are found where they are, by both engines, and nothing in corrected twins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.findings import Finding, Level
from softcard.core.limits import TimeLimit, Watch
from softcard.engine.gcn.api import Engine, StepLimit
from softcard.engine.gcn.checks.barriers import DEADLOCK, DIVERGENT, SUGGESTION, Barriers
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.strict.coherence import StrictEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.check.sync_planted import HEAD, PLANTED, Planted
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import CODE

TARGETS = ("gfx700", "gfx803", "gfx900")
ENGINES: dict[str, Engine] = {"reference": ReferenceEngine(), "jit": JitEngine(threads=1)}
every_case = pytest.mark.parametrize("case", PLANTED, ids=lambda case: case.name)


def reported(text: str, name: str, engine: Engine, faults: bool = False, **options: Any) -> list[Finding]:
    """What is told of a program of two groups, by place, with all sights of each as one."""
    found: list[Finding] = []

    def report(finding: Finding) -> None:
        known = next((each for each in found if each.key == finding.key), None)
        if known is None:
            found.append(finding)
        else:
            known.count += finding.count

    options = {"groups": [(0, 0, 0), (1, 0, 0)], "size": (250, 1, 1), "lds_bytes": 512, **options}
    dispatch = replace(program(text, name, **options), checks=Checks(Barriers(report)))
    if faults:
        with pytest.raises(StepLimit):
            engine.run(dispatch)
    else:
        engine.run(dispatch)
    return sorted(found, key=lambda each: (each.pc or 0, each.kind))


def pc_of(case: Planted, name: str, mark: str) -> int | None:
    """The address of the instruction that a mark is at."""
    number = case.place(mark)
    if number is None:
        return None
    before = "".join(f"{line}\n" for line in case.upto(number).splitlines() if "branch" not in line)
    branches = case.upto(number).count("branch")
    return CODE + len(assemble(target(name), before, CODE)) + 4 * branches


@every_case
@pytest.mark.parametrize("name", TARGETS)
def test_planted(case: Planted, name: str) -> None:
    """Both engines tell the same of it: what, where, who, how often."""
    results = [reported(case.source(is_bad=True), name, engine, case.kind == DEADLOCK) for engine in ENGINES.values()]
    first = next(each for each in results[0] if each.pc == pc_of(case, name, ">") and each.kind == case.kind)
    assert (first.message, first.count) == (case.said, case.count)
    assert (first.unit, first.lanes) == (f"wave {case.wave}", case.lanes)
    assert first.level is (Level.WARNING if case.kind == DIVERGENT else Level.ERROR)
    assert first.suggestion == SUGGESTION
    assert first.registers is not None
    assert (first.registers.pc, first.registers.instruction) == (first.pc, "s_barrier")
    assert all(not first.registers["exec"] >> lane & 1 for lane in case.lanes)  # these lanes did not take part
    other = pc_of(case, name, "<")
    if other is not None:
        assert first.other == f"pc {other:#x} (entry + {other - CODE:#x})"
    assert [each.as_dict() for each in results[0]] == [each.as_dict() for each in results[1]]


@every_case
@pytest.mark.parametrize("name", TARGETS)
def test_corrected(case: Planted, name: str) -> None:
    assert [reported(case.source(is_bad=False), name, engine) for engine in ENGINES.values()] == [[], []]


@pytest.mark.parametrize("case", PLANTED[::4], ids=lambda case: case.name)
def test_optimised_code_and_a_strict_memory_report_the_same(case: Planted) -> None:
    optimised = JitEngine(threads=1, tier=Tier.OPTIMISED)
    for engine in (optimised, StrictEngine()):
        results = [reported(case.source(is_bad=is_bad), "gfx900", engine) for is_bad in (True, False)]
        found = next(each for each in results[0] if each.message == case.said)
        other = pc_of(case, "gfx900", "<")
        assert other is None or found.other == f"pc {other:#x} (entry + {other - CODE:#x})"
        assert results[1] == []


def test_threads_report_all_groups() -> None:
    """Every group is told of, whoever runs it; the first that somebody met is named."""
    case = PLANTED[0]
    groups = [(n, 0, 0) for n in range(600)]
    (found,) = reported(case.source(is_bad=True), "gfx900", JitEngine(threads=3), groups=groups)
    assert (found.message, found.count) == (case.said, 600)


def test_a_deadlock_within_a_time_limit() -> None:
    case = next(each for each in PLANTED if each.kind == DEADLOCK)
    for engine in ENGINES.values():
        found: list[Finding] = []
        dispatch = program(case.source(is_bad=True), groups=[(0, 0, 0)], size=(250, 1, 1), step_limit=None)
        with pytest.raises(TimeLimit):
            engine.run(replace(dispatch, checks=Checks(Barriers(found.append)), watch=Watch(0.05)))
        assert [each.message for each in found] == [case.said]


def drawn(rng: np.random.Generator) -> str:
    """A program whose waves go their own ways, forwards only, over barriers and masks."""
    lines = ["s_mov_b64 s[22:23], exec"]
    for number in range(int(rng.integers(2, 6))):
        wave, lanes = int(rng.integers(4)), int(rng.integers(1, 65))
        some = (f"v_cmp_gt_u32 vcc, {lanes}, v0", "s_and_b64 exec, exec, vcc")
        inside = (("s_barrier",), some, ("s_mov_b64 exec, s[22:23]",), ("s_endpgm",), ("s_barrier", "s_barrier"))
        lines += [f"s_cmp_eq_u32 s20, {wave}", f"s_cbranch_scc{int(rng.integers(2))} on{number}"]
        lines += [*inside[int(rng.integers(5))], f"on{number}:", ("s_barrier", "s_nop 0")[int(rng.integers(2))]]
    return HEAD + "\n".join([*lines, "s_endpgm"])


@pytest.mark.parametrize("seed", [None, 3])
def test_both_engines_report_the_same_of_random_programs(seed: int | None) -> None:
    """And of one whose waves take other turns."""
    rng, count = np.random.default_rng(18), 0
    for _ in range(24):
        text = drawn(rng)
        results = [[each.as_dict() for each in reported(text, "gfx900", each, seed=seed)] for each in ENGINES.values()]
        assert results[0] == results[1], text
        count += len(results[0])
    assert count > 24
