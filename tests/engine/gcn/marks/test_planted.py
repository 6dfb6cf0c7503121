"""Every planted mistake is told of at its instruction, and nothing is told of its corrected twin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.gcn.marks.planted import CASES, Planted
from tests.engine.gcn.programs import program
from understudy.engine.gcn.api import Engine
from understudy.engine.gcn.marks.marking import KINDS, Marking
from understudy.engine.gcn.reference.engine import ReferenceEngine

ENGINES: dict[str, Engine] = {"reference": ReferenceEngine()}


def sights(text: str, target: str, engine: str, options: dict[str, object]) -> list[tuple[str, str, str]]:
    """What is told of a program: check, what happens, mnemonic."""
    dispatch = program(text, target, **options)
    marking = Marking(dispatch.memory, KINDS)
    ENGINES[engine].run(replace(dispatch, marks=marking))
    return [(each.kind, each.what, each.insn.name) for each in marking.sights.sites.values()]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("case", "target"),
    [(case, target) for case in CASES for target in case.targets],
    ids=lambda each: str(getattr(each, "name", each)),
)
def test_planted(case: Planted, target: str, engine: str) -> None:
    """The mistake is found where it is."""
    assert (case.check, case.what, case.insn) in sights(case.wrong, target, engine, case.options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("case", "target"),
    [(case, target) for case in CASES for target in case.targets],
    ids=lambda each: str(getattr(each, "name", each)),
)
def test_corrected(case: Planted, target: str, engine: str) -> None:
    """Nothing is told of the corrected twin."""
    assert sights(case.right, target, engine, case.options) == []
