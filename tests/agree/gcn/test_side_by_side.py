"""Groups that run side by side under the check of races leave and find what they do one after the other."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.agree.gcn.race_programs import Apart, Maker
from tests.engine.gcn.programs import program
from tests.engine.gcn.races.eager import be_eager
from tests.engine.gcn.rig import DATA, DATA_BYTES
from understudy.core.findings import Finding, FindingLog
from understudy.engine.gcn.jit import engine as jit
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.engine.gcn.marks.marking import Marking
from understudy.engine.gcn.races import codes
from understudy.engine.gcn.races.native_judge import NativeJudge, function
from understudy.engine.gcn.races.watch import RaceWatch


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    return be_eager(monkeypatch)


def cells(judge: NativeJudge) -> list[tuple[int, int, tuple[int, ...]]]:
    """Who touched each byte of the data in the last launch: byte, row; group, wave, and the rest of the code."""
    judge.settle()
    room, found = np.zeros(1 << 16, np.uint64), []
    firsts = judge.tables.pairs("groups", judge.race.group_count)
    for row in range(codes.ROWS):
        assert len(room) >= DATA_BYTES
        if not function("codes_of")(ctypes.addressof(judge.race), DATA, DATA_BYTES, row, room.ctypes.data):
            continue
        for byte in np.flatnonzero(room >= np.uint64(judge.race.floor << codes.UID_AT)).tolist():
            code = int(room[byte])
            uid = code >> codes.UID_AT
            first, group = firsts[int(np.searchsorted(firsts[:, 0], uid, side="right")) - 1].tolist()
            found.append((byte, row, (group, uid - first, code & (1 << codes.UID_AT) - 1)))
    return found


def outcome(threads: int, text: str, name: str, options: dict[str, Any], kinds: tuple[str, ...]) -> Any:
    """What two launches find and leave, and what is known of the second one's accesses."""
    made, told = program(text + "|s_endpgm", name, **options), list[Finding]()
    watch, engine = RaceWatch(made.memory, FindingLog(told)), JitEngine(threads=threads)
    marking = Marking(made.memory, kinds) if kinds else None
    if marking is not None:
        marking.undefined(DATA, 0x800)
    counts = []
    for _ in range(2):
        watch.begin()
        counts.append(engine.run(replace(made, races=watch, marks=marking)))
    marks = [] if marking is None else [plane.read(DATA, DATA_BYTES) for plane in marking.planes]
    sights = None if marking is None else marking.sights.counts()
    found = [each.as_dict() for each in told]
    return found, made.memory.read(DATA, DATA_BYTES), marks, sights, counts, cells(watch.native)


def random_options(rng: np.random.Generator) -> dict[str, Any]:
    groups = [(n, 0, 0) for n in range(int(rng.integers(3, 17)))]
    return {"groups": groups, "size": (int(rng.choice([64, 100, 128, 192])), 1, 1), "lds_bytes": 0x1000}


def compare(number: int, name: str, maker: type[Maker]) -> None:
    rng = np.random.default_rng([29, number])
    options = random_options(rng)
    text = Apart(rng, name, options["size"][0]).text() if maker is Apart else Maker(rng, name).text()
    kinds = ((), ("init", "fidelity"), (), ("fidelity",))[number % 4]
    one, other = (outcome(threads, text, name, options, kinds) for threads in (1, 3))
    for each, (a, b) in enumerate(zip(one, other, strict=True)):
        assert a == b, (number, each, text)


@pytest.mark.parametrize("name", ["gfx803", "gfx900"])
def test_random_programs_with_groups_apart(name: str, stages: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        monkeypatch.setattr(jit, "STAGE_SECONDS", (1.0, 1e-9)[number % 2])
        compare(number, name, Apart)
    assert stages.count(True) > 4


@pytest.mark.parametrize("name", ["gfx803", "gfx900"])
def test_random_programs_with_races(name: str, stages: list[bool]) -> None:
    for number in range(2):
        compare(number, name, Maker)
    assert stages.count(False) > 1
