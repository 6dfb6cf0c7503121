"""Events of single waves: the same on every engine and tier, bounded, and nothing of them in translated code."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest

from softcard import Gpu
from softcard.core.errors import AccessFault, WireError
from softcard.core.event import Event
from softcard.device.hsa.events import PacketCompleted, PacketStarted
from softcard.device.hsa.wave_events import KINDS, WaveEnded, WavesLeftOut, WaveStarted
from softcard.engine.gcn.wave_log import WaveLog
from softcard.hsa import demo_code
from softcard.isa.gcn.state import ENDED, STATUS, Wave
from softcard.trace import ChromeTrace
from softcard.trace.text import JsonlTrace
from softcard.trace.timeline import Timeline
from softcard.trace.values import read_records

ENGINES: tuple[dict[str, Any], ...] = (
    {"tier": "first"},
    {"tier": "optimised", "threads": 3},
    {"threads": 2, "seed": 7},
    {"coherence": "strict"},
    {"check": "waits"},
    {"check": "memory"},
)


def ran(kernel: str = "mandelbrot", runs: int = 2, **options: Any) -> list[Event]:
    """The events of launches whose waves take different numbers of instructions, or of one that fails."""
    events: list[Event] = []
    with Gpu.open("gfx900", **options) as gpu:
        gpu.device.probes.subscribe(events.append)
        code = gpu.load(demo_code("gfx900"))
        for _ in range(runs):
            if kernel == "mandelbrot":
                gpu.run(code, kernel, (32, 24), (16, 16), [gpu.array(np.zeros(32 * 32, np.uint32)), 32, 20])
            else:
                with pytest.raises(AccessFault):
                    gpu.run(code, kernel, 768, 256, [gpu.array(np.zeros(768, np.float32)), 256 + 128])
    return events


def of_waves(events: list[Event]) -> list[Event]:
    return [each for each in events if isinstance(each, KINDS)]


@pytest.mark.parametrize("options", ENGINES, ids=str)
def test_every_engine_reports_the_same(options: dict[str, Any]) -> None:
    expected = of_waves(ran(engine="reference", trace_waves=6))
    assert of_waves(ran(trace_waves=6, **options)) == expected
    assert len({each.instructions for each in expected if isinstance(each, WaveEnded)}) > 2


def test_waves_fill_the_time_of_their_packet() -> None:
    events = ran(trace_waves=1000, runs=1)
    waves = of_waves(events)
    started = [each for each in waves if isinstance(each, WaveStarted)]
    ended = [each for each in waves if isinstance(each, WaveEnded)]
    assert len(started) == len(ended) == len(waves) // 2 == 2 * 4 + 2 * 2
    begin = next(each for each in events if isinstance(each, PacketStarted))
    end = next(each for each in events if isinstance(each, PacketCompleted))
    assert sum(each.instructions or 0 for each in ended) == end.instructions
    assert started[0].time == begin.time
    assert ended[-1].time == begin.time + end.instructions
    assert [each.time for each in waves] == sorted(each.time for each in waves)
    assert {each.how for each in ended} == {"ended"}
    assert [each.group for each in started[::4]] == [(0, 0, 0), (1, 0, 0), (0, 1, 0)]


def test_more_waves_than_asked_for_are_counted_and_cost_nothing() -> None:
    events = of_waves(ran(trace_waves=5, runs=1))
    assert len(events) == 2 * 4 + 1
    last = events[-1]
    assert isinstance(last, WavesLeftOut)
    assert (last.queue, last.index, last.waves) == (0, 0, 8)
    assert [each.waves for each in of_waves(ran(trace_waves=1, runs=1)) if isinstance(each, WavesLeftOut)] == [8]


def test_nobody_asked() -> None:
    assert of_waves(ran()) == []
    with pytest.raises(WireError, match="trace_waves is -1, expected 0 or more"):
        Gpu.open("gfx900", trace_waves=-1)


@pytest.mark.parametrize("options", [{"engine": "reference"}, {"tier": "first"}, {"tier": "optimised"}], ids=str)
def test_a_wave_that_fails(options: dict[str, Any]) -> None:
    events = of_waves(ran("broken", 1, trace_waves=100, **options))
    reported = {each.group: [] for each in events if isinstance(each, WaveEnded)}
    for each in events:
        if isinstance(each, WaveEnded):
            reported[each.group].append((each.wave, each.how, each.instructions is None))
    assert reported == {
        (0, 0, 0): [(wave, "ended", False) for wave in range(4)],
        (1, 0, 0): [(0, "ended", False), (1, "ended", False), (2, "failed", True), (3, "stopped", True)],
    }


def test_waves_of_a_group_take_turns() -> None:
    log = WaveLog(np.array([3, 1, 2], np.uint32), 4)
    waves = [Wave(index=number) for number in range(3)]
    for wave in waves:
        wave.words[STATUS] = ENDED
    log.over(0, waves, [5, 2, 4])
    log.over(1, waves[:1], [7])
    log.over(2, waves[:2], [1, 1])
    ends = [(step, group, wave) for step, group, wave, life in log.life_events() if life is not None]
    assert ends == [(6, 0, 1), (10, 0, 2), (11, 0, 0), (18, 1, 0)]
    assert (log.groups, log.omitted) == (2, 2)
    part = log.part(1, 3)
    part.over(0, waves[:1], [9])
    part.over(1, waves[:2], [1, 1])
    assert (part.groups, [step for step, *_, life in log.life_events() if life][-1]) == (1, 20)
    assert log.part(2, 3).groups == 0


def test_lanes_and_processes() -> None:
    text, chrome = io.StringIO(), io.StringIO()
    events = ran(trace_waves=6)
    for form, stream in ((JsonlTrace, text), (ChromeTrace, chrome)):
        with form(stream) as trace:
            for each in events:
                trace(each)
    about, arrays = Timeline(read_records(text.getvalue().encode().splitlines())).columns()
    tracks = [track for track in about["tracks"] if "wave" in track[0]]
    assert [track[:2] for track in tracks] == [[f"queue 0 wave {number}", 1] for number in range(4)]
    assert {about["names"][at] for _, _, low, high in tracks for at in arrays["name"][low:high]} == {"0,0,0"}
    assert sum(high - low for *_, low, high in tracks) == 2 * 4
    drawn = json.loads(chrome.getvalue())["traceEvents"]
    processes = {each["args"]["name"]: each["pid"] for each in drawn if each["name"] == "process_name"}
    pid = processes["device: waves of queue 0"]
    assert [each["ph"] for each in drawn if each["pid"] == pid and each["ph"] != "M"] == ["X"] * 8
