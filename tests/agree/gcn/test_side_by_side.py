"""Groups that run side by side under the check of races leave and find what they do one after the other."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races import layout
from softcard.engine.gcn.races.native_detector import NativeDetector, function
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import DeviceShadow
from softcard.engine.gcn.tiered import engine as jit
from softcard.engine.gcn.tiered.engine import JitEngine
from tests.agree.gcn.race_programs import Apart, Maker
from tests.conftest import Seeds
from tests.engine.gcn.programs import program
from tests.engine.gcn.races.eager import be_eager
from tests.engine.gcn.rig import DATA, DATA_BYTES


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    return be_eager(monkeypatch)


def cells(detector: NativeDetector) -> list[tuple[int, int, tuple[int, ...]]]:
    """Who touched each byte of the data in the last launch: byte, row; group, wave, and the rest of the code."""
    detector.flush()
    room, found = np.zeros(1 << 16, np.uint64), []
    firsts = detector.tables.pairs("groups", detector.race.group_count)
    for row in range(layout.ROWS):
        assert len(room) >= DATA_BYTES
        if not function("records_of")(ctypes.addressof(detector.race), DATA, DATA_BYTES, row, room.ctypes.data):
            continue
        for byte in np.flatnonzero(room >= np.uint64(detector.race.watermark << layout.UID_AT)).tolist():
            code = int(room[byte])
            uid = code >> layout.UID_AT
            first, group = firsts[int(np.searchsorted(firsts[:, 0], uid, side="right")) - 1].tolist()
            found.append((byte, row, (group, uid - first, code & (1 << layout.UID_AT) - 1)))
    return found


def outcome(threads: int, text: str, name: str, options: dict[str, Any], kinds: tuple[str, ...]) -> Any:
    """What two launches find and leave, and what is known of the second one's accesses."""
    made, reported = program(text + "|s_endpgm", name, **options), list[Finding]()
    watch, engine = RaceWatch(made.memory, FindingLog(reported)), JitEngine(threads=threads)
    device_shadow = DeviceShadow(made.memory, kinds) if kinds else None
    if device_shadow is not None:
        device_shadow.undefined(DATA, 0x800)
    counts = []
    for _ in range(2):
        watch.begin()
        counts.append(
            engine.run(replace(made, checks=Checks(watch, *([EngineShadow(device_shadow)] if device_shadow else []))))
        )
    shadows = (
        []
        if device_shadow is None
        else [shadow_memory.read(DATA, DATA_BYTES) for shadow_memory in device_shadow.shadow_memories]
    )
    uses = None if device_shadow is None else device_shadow.uses.counts()
    found = [each.as_dict() for each in reported]
    return found, made.memory.read(DATA, DATA_BYTES), shadows, uses, counts, cells(watch.native)


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
def test_random_programs_with_groups_apart(
    name: str, stages: list[bool], seeds: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = seeds(6, 4, 2 * (name == "gfx900"))
    for number in numbers:
        monkeypatch.setattr(jit, "STAGE_SECONDS", (1.0, 1e-9)[number % 2])
        compare(number, name, Apart)
    assert stages.count(True) >= len(numbers) - 1


@pytest.mark.parametrize("name", ["gfx803", "gfx900"])
def test_random_programs_with_races(name: str, stages: list[bool]) -> None:
    for number in range(2):
        compare(number, name, Maker)
    assert stages.count(False) > 1
