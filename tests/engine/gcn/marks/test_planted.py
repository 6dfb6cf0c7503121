"""Every planted mistake is told of at its instruction, and nothing is told of its corrected twin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.gcn.marks.planted import CASES, Planted
from tests.engine.gcn.programs import program
from understudy.engine.gcn.api import Engine
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.engine.gcn.marks.marking import KINDS, Marking
from understudy.engine.gcn.reference.engine import ReferenceEngine

ENGINES: dict[str, Engine] = {
    "reference": ReferenceEngine(),
    "jit": JitEngine(threads=1),
}
PAIRS = [(case, target) for case in CASES for target in case.targets]
NAMES = [f"{case.name}, {target}" for case, target in PAIRS]


def counts(text: str, target: str, engine: str, options: dict[str, Any]) -> dict[tuple[str, str, str], int]:
    """What is told of a program: check, what happens, mnemonic; and how often."""
    dispatch = program(text, target, **options)
    marking = Marking(dispatch.memory, KINDS)
    ENGINES[engine].run(replace(dispatch, marks=marking))
    sights = marking.sights
    return {(*site[:2], sights.sites[site].insn.name): count for site, count in sights.counts().items()}


@pytest.mark.parametrize(("case", "target"), PAIRS, ids=NAMES)
def test_planted(case: Planted, target: str) -> None:
    """The mistake is found where it is, by both engines, in as many lanes."""
    found, again = (counts(case.wrong, target, engine, case.options) for engine in ENGINES)
    assert (case.check, case.what, case.insn) in found
    assert found == again


@pytest.mark.parametrize(("case", "target"), PAIRS, ids=NAMES)
def test_corrected(case: Planted, target: str) -> None:
    """Nothing is told of the corrected twin."""
    assert [counts(case.right, target, engine, case.options) for engine in ENGINES] == [{}, {}]
