"""Arrows and counters of traces: from what the host submits to what tells it of the end, on every device."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from softcard.hsa import Gpu, demo_code
from softcard.trace import ChromeTrace
from softcard.trace.chrome import MOST, Flows
from softcard.trace.counters import Counters
from softcard.trace.values import Record
from tests.trace.test_page import acceldev, fletcher, hsa, refsi, traced


def chrome(records: list[Record]) -> list[dict[str, Any]]:
    out = io.StringIO()
    with ChromeTrace(out) as trace:
        for record in records:
            trace.write(record)
    events: list[dict[str, Any]] = json.loads(out.getvalue())["traceEvents"]
    return events


def arrows(events: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    """Of each arrow its kind with the threads and the slices that it goes through, as a viewer finds them."""
    threads = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    found = defaultdict(list)
    for each in events:
        if each["ph"] in "stf" and each.get("cat") == "flow":
            at = [
                other
                for other in events
                if other["ph"] == "X" and other["tid"] == each["tid"]
                and other["ts"] <= each["ts"] <= other["ts"] + other["dur"]
            ]  # fmt: skip
            assert at, f"an arrow to nowhere: {each}"
            found[each["id"]].append((each["ph"], threads[each["tid"]]))
    for points in found.values():
        assert [phase for phase, _ in points] == ["s", *"t" * (len(points) - 2), "f"]
    return [[each["name"] for each in events if each.get("id") == key and each["ph"] == "s"] + [
        thread for _, thread in points] for key, points in found.items()]  # fmt: skip


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        (hsa, [["packet", "host", "queue 0", "host"]] * 3 + [["packet", "host", "queue 0"]]),
        (acceldev, [["command", "host", "device"], ["command", "host", "device", "host"]]),
        (refsi, [["buffer", "host", "device"], ["launch", "device", "hart 3"]]),
        (fletcher, [["kernel", "host", "device", "host"]]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_arrows_lead_from_the_host_to_the_work_and_back(run: Any, wanted: list[Any], tmp_path: Path) -> None:
    found = arrows(chrome(traced(run, tmp_path / "trace.jsonl")))
    for each in wanted:
        assert each in found
    if run in (hsa, fletcher):
        assert found == wanted


@pytest.mark.parametrize(
    ("run", "name", "values"),
    [
        (hsa, "open packets of queue 0", [1, 0, 1, 0, 1, 0, 1]),
        (fletcher, "rows read, ExampleBatch", [2]),
        (refsi, "open buffers", [1, 0, 1, 0, 1, 0]),
        (refsi, "open instances", [1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3, 4]),
        (acceldev, "bytes of user commands", [4096, 4100]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_waits_and_what_was_moved(run: Any, name: str, values: list[int], tmp_path: Path) -> None:
    counters = [each for each in chrome(traced(run, tmp_path / "trace.jsonl")) if each["ph"] == "C"]
    found = [each["args"]["value"] for each in counters if each["name"] == name]
    assert found[: len(values)] == values


def test_a_queue_fills_and_empties() -> None:
    counters = Counters()
    records: list[Record] = [
        {"time": 0, "event": "doorbell-rung", "queue": 1, "value": "0x6", "limit": 7},
        {"time": 0, "event": "packet-started", "queue": 1, "index": 4, "packet": None},
        {"time": 0, "event": "packet-started", "queue": 1, "index": 5, "packet": None},
        {"time": 2, "event": "packet-completed", "queue": 1, "index": 5},
        {"time": 2, "event": "packet-completed", "queue": 1, "index": 4},
        {"time": 3, "event": "dma-transfer", "sizes": [16, 4], "source": "0x0"},
        {"time": 3, "event": "dma-transfer", "sizes": None},
        {"time": 4, "event": "command-finished", "chunk": 1},
    ]
    assert [list(counters.take(record)) for record in records] == [
        [("open packets of queue 1", 1)],
        [],
        [],
        [("open packets of queue 1", 2)],
        [("open packets of queue 1", 1)],
        [("bytes moved by DMA", 64)],
        [("bytes moved by DMA", 64)],
        [],
    ]


def test_a_doorbell_beyond_everything_is_followed_as_far_as_is_sensible() -> None:
    flows = Flows()
    list(flows.take({"time": 0, "event": "doorbell-rung", "queue": 1, "limit": 1}))
    assert len(list(flows.take({"time": 0, "event": "doorbell-rung", "queue": 1, "limit": 1 << 40}))) == MOST


def test_bars_have_the_names_of_kernels(tmp_path: Path) -> None:
    """Of code that was loaded while the trace listened; with others the bar is a packet's."""
    file = tmp_path / "trace.json"
    with Gpu.open("gfx900") as gpu:
        early = gpu.load(demo_code("gfx900"))
        x = gpu.zeros(64)
        with ChromeTrace(file).follow(gpu.device.probes):
            gpu.run(early, "saxpy", 64, args=[2.0, x, x])
            gpu.run(demo_code("gfx900"), "saxpy", 64, args=[2.0, x, x])
    events = json.loads(file.read_text())["traceEvents"]
    names = {each["args"]["name"]: each["tid"] for each in events if each["name"] == "thread_name"}
    bars = [each["name"] for each in events if each["ph"] == "X" and each["tid"] == names["queue 0"]]
    assert bars == ["kernel-dispatch-packet", "saxpy"]
