"""Random programs with marks and without: equal results, and equal marks on both engines."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.engine.gcn.shadow import uses
from tests.agree.gcn.fuzz import TARGETS
from tests.agree.gcn.shadow_programs import met
from tests.agree.gcn.shadowed import one
from tests.conftest import Seeds
from tests.engine.gcn.jit.test_contiguous import every_lanes


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_shadow_bits_change_nothing(name: str, seeds: Seeds) -> None:
    for number in seeds(2, 1, TARGETS.index(name)):
        assert one(name, f"300/{number}") == []


@pytest.mark.slow
def test_what_a_wave_does_alone_has_no_lanes_to_leave_from() -> None:
    """ds_append, whose M0 may be undefined."""
    assert one("gfx906", "7/20") == []


@pytest.mark.slow
def test_what_has_phases_is_left_before_the_first() -> None:
    """ds_wrxchg2, whose operands may be undefined."""
    assert one("gfx700", "11/68") == []


@pytest.mark.slow
def test_operands_that_come_from_memory_are_left_to_the_reference_engine() -> None:
    """ds_add_src2, whose operand lies in LDS: translated code did not tell of one that nobody has written."""
    assert one("gfx900", "12/20") == []


@pytest.mark.slow
def test_what_waits_is_done_before_a_scalar_instruction_that_may_be_left() -> None:
    """s_movreld, whose M0 may be undefined: a vector instruction before it was not done."""
    assert one("gfx803", "777/15") == []


@pytest.mark.slow
@every_lanes
@pytest.mark.parametrize("number", [13, 21])
def test_what_is_left_is_counted_once(number: int, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Translated code counts undefined addresses in a strip that it then leaves."""
    monkeypatch.setattr(uses, "QUOTA", 1)
    assert met("gfx803", lanes, [5, number])[0] == []


@pytest.mark.slow
@every_lanes
@pytest.mark.parametrize("name", ["gfx803", "gfx900"])
def test_shadow_bits_are_met_now_and_then(name: str, lanes: int, seeds: Seeds) -> None:
    """Both engines see the same, wherever code that takes registers for unmarked meets marks."""
    many = np.zeros(3, int)
    for number in seeds(4, 2) if name == "gfx803" else seeds(4, 3, 2):
        wrong, counts = met(name, lanes, [20, number, lanes])
        assert wrong == []
        many += counts
    assert (many > 0).all()
