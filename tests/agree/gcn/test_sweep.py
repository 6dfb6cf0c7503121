"""Every operation of every processor on both engines: the whole state afterwards is the same."""

from __future__ import annotations

import pytest

from softcard.isa.gcn.operations import table
from softcard.isa.gcn.target import TARGETS
from tests.agree.gcn import sweep
from tests.agree.gcn.sweep import NAMES


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("name", NAMES)
def test_every_operation_in_every_form_agrees(name: str, is_exhaustive: bool) -> None:
    wrong = sweep.results(name, is_exhaustive).wrong
    assert not wrong, f"{len(wrong)} cases, the first of them:\n{wrong[0]}"


@pytest.mark.slow
def test_every_operation_retires_on_both_engines(is_exhaustive: bool) -> None:
    reached = set().union(*(sweep.results(name, is_exhaustive).reached for name in NAMES))
    missing = {op.name for op in table.OPS if op not in reached and not sweep.unreached(op)}
    assert not missing


@pytest.mark.slow
def test_every_operation_is_translated_unless_listed(is_exhaustive: bool) -> None:
    translated = set().union(*(sweep.results(name, is_exhaustive).translated for name in NAMES))
    missing = {
        op.name for op in table.OPS if op not in translated and not sweep.unreached(op) and not sweep.reference_only(op)
    }
    assert not missing


def test_every_target_is_there() -> None:
    assert {TARGETS[name].level for name in NAMES} == {7, 8, 9}
    assert all(any(op.on(TARGETS[name]) for name in NAMES) for op in table.OPS)
