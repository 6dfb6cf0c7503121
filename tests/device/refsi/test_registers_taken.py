"""Registers of harts at chosen moments: which ones, and what they hold, in both profiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard import RefSi
from softcard.core.errors import AccessFault, BeyondModel
from softcard.core.event import Event
from softcard.device.refsi.events import HartFault, RegistersLeftOut, RegistersTaken
from softcard.isa.riscv.format import REGISTERS
from softcard.refsi import demo_kernels

PROFILES = ["spec", "refsidrv"]


def ran(kernel: str, *, at: str = "", at_end: bool = False, fails: bool = False, **options: Any) -> list[Event]:
    """The events of a launch of four instances."""
    events: list[Event] = []
    with RefSi.open(**{"snapshots": 16, **options}) as device:
        device.port.probes.subscribe(events.append)
        program = device.load_elf(demo_kernels())
        tracepoints, symbols = device.port.tracepoints, program.image.symbols
        assert tracepoints is not None
        assert symbols is not None
        tracepoints.at_end = at_end
        if at:
            tracepoints.pcs.add(symbols[at].address)
        a = np.arange(64, dtype=np.int32)
        arguments: list[Any] = [a, a, np.zeros_like(a), 16] if kernel == "vector_add" else [a, 0]
        if fails:
            with pytest.raises(AccessFault):
                device.launch(kernel, 4, arguments)
        else:
            device.launch(kernel, 4, arguments)
    return events


def taken(events: list[Event]) -> list[RegistersTaken]:
    return [each for each in events if isinstance(each, RegistersTaken)]


@pytest.mark.parametrize("profile", PROFILES)
def test_where_a_hart_fails(profile: str) -> None:
    events = ran("broken", fails=True, profile=profile)
    found, [fault] = taken(events)[0], [each for each in events if isinstance(each, HartFault)][:1]
    assert (found.why, found.hart, found.pc) == ("fault", fault.hart, fault.pc)
    assert found.instruction.startswith("c.sw a0,0(a1)")
    assert int(found.scalars["a1"], 16) == fault.value
    assert int(found.scalars["a0"], 16) == 0
    assert {*REGISTERS, "fcsr", "vl", "vtype", "mcause"} <= found.scalars.keys()


@pytest.mark.parametrize("profile", PROFILES)
def test_before_an_instruction_and_at_the_end(profile: str) -> None:
    found = taken(ran("vector_add", at="vector_add", at_end=True, profile=profile))
    before = [each for each in found if each.why == "before"]
    assert sorted(int(each.scalars["a0"], 16) for each in before) == [0, 1, 2, 3]
    assert {each.instruction for each in before} != {""}
    assert [each.why for each in found].count("end") == 4
    assert found[0].vectors == {}


def test_no_more_than_asked_for() -> None:
    events = ran("vector_add", at="vector_add", snapshots=3)
    assert len(taken(events)) == 3
    assert [each.snapshots for each in events if isinstance(each, RegistersLeftOut)] == [3]


def test_what_does_not_go_together() -> None:
    with pytest.raises(BeyondModel, match="snapshots cannot be used with check 'init': set only one of the two"):
        RefSi.open(snapshots=1, check="init")
    with RefSi.open() as device:
        assert device.port.tracepoints is None
