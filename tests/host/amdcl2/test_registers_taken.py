"""Registers of waves of programs at chosen moments: which ones, what they hold, and what goes together with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from softcard.amdcl2 import load
from softcard.core.errors import BeyondModel, SoftcardError, WireError
from softcard.core.event import Event
from softcard.device.hsa.wave_events import RegistersLeftOut, RegistersTaken
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tracepoints import Tracepoints
from softcard.host.amdcl2.demo import demo_program
from softcard.host.amdcl2.program import Program

COUNT = 200


def entry_of(program: Program) -> int:
    header = program.container.kernel("saxpy").header
    return program.code.kernels["saxpy"] + header.kernel_code_entry_byte_offset


def ran(choose: Callable[[Tracepoints, int], object], short: int = 0, **options: Any) -> list[Event]:
    """The events of a launch; the second array is `short` elements shorter than what the kernel stores to."""
    events: list[Event] = []
    with load(demo_program("tonga", 200406), **{"snapshots": 8, **options}) as program:
        program.probes.subscribe(events.append)
        assert program.tracepoints is not None
        choose(program.tracepoints, entry_of(program))
        x, y = np.ones(2048, np.float32), np.zeros(2048 - short, np.float32)
        if short:
            with pytest.raises(SoftcardError, match="no memory there"):
                program.kernel("saxpy").run(2048, 128, [x, y, 2.0])
        else:
            program.kernel("saxpy").run(COUNT, 128, [x, y, 2.0])
            assert y.tolist() == [2.0] * COUNT + [0.0] * (2048 - COUNT)
    return [each for each in events if isinstance(each, RegistersTaken | RegistersLeftOut)]


def test_where_a_wave_fails() -> None:
    [it] = ran(lambda tracepoints, entry: None, short=1024)
    assert isinstance(it, RegistersTaken)
    assert (it.why, it.queue, it.index, it.group, it.wave) == ("fault", None, None, (8, 0, 0), 0)
    assert it.instruction == "flat_load_dword v7, v[4:5]"
    assert it.scalars["s20"] == "0x40000000"
    words = np.array([int(word, 16) for word in it.vectors["v4"].split()])
    assert (np.diff(words) == 4).all()


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_before_an_instruction_and_at_the_end(engine: str) -> None:
    events = ran(lambda tracepoints, entry: tracepoints.pcs.add(entry), engine=engine, snapshots=3)
    *found, left = events
    assert [(each.why, each.group, each.wave) for each in found if isinstance(each, RegistersTaken)] == [
        ("before", (0, 0, 0), 0),
        ("before", (0, 0, 0), 1),
        ("before", (1, 0, 0), 0),
    ]
    assert isinstance(left, RegistersLeftOut)
    assert (left.queue, left.index, left.moments) == (None, None, 1)
    ends = ran(lambda tracepoints, entry: setattr(tracepoints, "at_end", True), check="memory")
    assert [each.instruction for each in ends if isinstance(each, RegistersTaken)] == ["s_endpgm"] * 4


def test_instructions_are_counted_as_ever() -> None:
    counts = []
    for snapshots in (0, 2):
        with load(demo_program("tonga", 200406), snapshots=snapshots, count_instructions=True) as program:
            x, y = np.ones(COUNT, np.float32), np.zeros(COUNT, np.float32)
            program.kernel("saxpy").run(COUNT, 128, [x, y, 2.0])
            counts.append({pc - program.code.base: count for pc, count in program.instruction_counts().items()})
    assert counts[0] == counts[1]


def test_what_does_not_go_together() -> None:
    data = demo_program("tonga", 200406)
    with pytest.raises(BeyondModel, match="snapshots cannot be used with check 'init': set only one of the two"):
        load(data, snapshots=1, check="init")
    with pytest.raises(WireError, match="snapshots is -1, expected 0 or more"):
        load(data, snapshots=-1)
    with pytest.raises(
        WireError,
        match="register snapshots require engine='reference' or 'jit', not an engine object: the device has to create",
    ):
        load(data, ReferenceEngine(), snapshots=1)
    with pytest.raises(WireError, match="engine is 'fast', expected 'jit' or 'reference'"):
        load(data, "fast", snapshots=1)
    with load(data) as program:
        assert program.tracepoints is None
