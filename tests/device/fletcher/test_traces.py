"""Same inputs, same bytes: a synchronous device's events as a trace."""

from __future__ import annotations

import io
import json

from softcard.trace.text import JsonlTrace, TextTrace
from tests.device.fletcher.rig import RESET, START, Rig, slow


def traced(kind: type[JsonlTrace] | type[TextTrace], profile: str) -> str:
    text = io.StringIO()
    rig = Rig(slow, rows=5, profile=profile)
    with kind(text).follow(rig.device.probes):
        rig.set("step", 2)
        rig.control(START)
        while rig.status & 4 == 0:
            rig.device.read(60) if profile == "hardware" else None
        assert rig.result == 15
        rig.control(START)
        rig.control(RESET)
    return text.getvalue()


def test_the_same_run_gives_the_same_trace() -> None:
    for profile in ("spec", "hardware"):
        for kind in (JsonlTrace, TextTrace):
            assert traced(kind, profile) == traced(kind, profile) != ""


def test_a_trace_says_what_was_written_where() -> None:
    lines = [json.loads(line) for line in traced(JsonlTrace, "hardware").splitlines()]
    first = lines[0]
    assert (first["name"], first["address"], first["value"], first["write"]) == ("step", "0x20", "0x2", True)
    assert first["response"] == "OKAY"
    assert {line["event"] for line in lines} >= {"kernel-started", "rows-moved", "kernel-finished", "lint"}
