"""`softcard trace` and `report`: what comes out of a trace, and what is said of a file that is none."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from vcd.reader import TokenKind, tokenize

from softcard.cli import main
from softcard.host.hsa.gpu import Gpu
from softcard.host.refsi.refsi import RefSi, demo_kernels
from softcard.hsa import demo_code
from softcard.trace import ChromeTrace, JsonlTrace, TextTrace
from tests.cli.test_run import content
from tests.trace.sample import EVENTS

SIGNALS = [
    {"time": 1, "event": "register-access", "name": "CTL", "value": "0x5", "write": True},
    {"time": 2, "event": "packet-started", "queue": 1, "index": 0, "type": "KERNEL_DISPATCH", "packet": None},
    {"time": 3, "event": "packet-started", "queue": 1, "index": 1, "type": "BARRIER_AND", "packet": None},
    {"time": 3, "event": "interrupt-raised", "interrupt": "A|B", "coalesced": False},
    {"time": 4, "event": "packet-completed", "queue": 1, "index": 0, "instructions": 9},
    {"time": 6, "event": "interrupt-cleared", "interrupts": "A"},
    {"time": 7, "event": "packet-completed", "queue": 1, "index": 1, "instructions": 0},
    {"time": 9, "event": "register-access", "name": "CTL", "value": "0xffffffffffffffff", "write": False},
]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.jsonl"
    with JsonlTrace(path) as trace:
        for event in EVENTS:
            trace(event)
    return path


@pytest.fixture
def signals(tmp_path: Path) -> Path:
    path = tmp_path / "signals.jsonl"
    path.write_text("\n".join(map(json.dumps, SIGNALS)), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("form", "writer"),
    [("perfetto", lambda out: ChromeTrace(out, "sample")), ("text", TextTrace), ("jsonl", JsonlTrace)],
    ids=["perfetto", "text", "jsonl"],
)
def test_a_trace_becomes_what_the_device_would_have_written(form, writer, sample, tmp_path):
    assert main(["trace", str(sample), "--format", form, "-o", str(tmp_path / "out")]) == 0
    wanted = io.StringIO()
    with writer(wanted) as trace:
        for event in EVENTS:
            trace(event)
    assert (tmp_path / "out").read_text() == wanted.getvalue()


def test_waves(signals, capsys):
    assert main(["trace", str(signals), "--format", "vcd"]) == 0
    names, changes, time = {}, [], 0
    for token in tokenize(io.BytesIO(capsys.readouterr().out.encode())):
        if token.kind is TokenKind.VAR:
            names[token.var.id_code] = token.var.reference
        elif token.kind is TokenKind.CHANGE_TIME:
            time = token.time_change
        elif token.kind is TokenKind.CHANGE_SCALAR:
            changes.append((time, names[token.scalar_change.id_code], token.scalar_change.value))
        elif token.kind is TokenKind.CHANGE_VECTOR:
            changes.append((time, names[token.vector_change.id_code], token.vector_change.value))
    assert sorted(change for change in changes if change[0]) == [
        (1, "CTL", 5),
        (2, "queue_1", 1),
        (3, "A", "1"),
        (3, "B", "1"),
        (3, "queue_1", 2),
        (4, "queue_1", 1),
        (6, "A", "0"),
        (7, "queue_1", 0),
        (9, "CTL", 2**64 - 1),
    ]


def test_profiles_hold_what_is_nested_and_others_what_overlaps(signals, capsys):
    assert main(["trace", str(signals), "--format", "speedscope"]) == 0
    document = json.loads(capsys.readouterr().out)
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    profiles = {
        profile["name"]: [(event["type"], frames[event["frame"]], event["at"]) for event in profile["events"]]
        for profile in document["profiles"]
    }
    assert profiles == {
        "queue 1": [("O", "packet", 2), ("C", "packet", 4)],
        "queue 1 (2)": [("O", "packet", 3), ("C", "packet", 7)],
    }


def test_nested_spans_share_a_profile(sample, capsys):
    assert main(["trace", str(sample), "--format", "speedscope"]) == 0
    document = json.loads(capsys.readouterr().out)
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    [device] = [profile for profile in document["profiles"] if profile["name"] == "device"]
    assert [(event["type"], frames[event["frame"]]) for event in device["events"]] == [
        ("O", "buffer"),
        ("O", "write-reg64"),
        ("C", "write-reg64"),
        ("C", "buffer"),
    ]


NO_OBJECT = "the line is not a JSON object, expected a trace as JsonlTrace writes it"


@pytest.mark.parametrize("command", ["trace", "report"])
@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (None, 2, "cannot read {}: No such file or directory"),
        ("folder", 2, "cannot read {}: Is a directory"),
        (b"", 1, "the file has no event, expected a trace in JSON lines, as JsonlTrace writes it\n  --> {}"),
        (b"\x7fELF\x00\xff" * 99, 1, "{}:1: error: " + NO_OBJECT),
        (b"[" * 5000, 1, "{}:1: error: " + NO_OBJECT),
        (b"0 buffer-begun size=64\n", 1, "{}:1: error: " + NO_OBJECT),
        (
            b'{"time": 1}',
            1,
            '{}:1: error: the object is not an event, expected "time" (an integer) and "event" (its kind)',
        ),
        (b'{"time": 1, "event": "a"}\n{"ti', 1, "{}:2: error: " + NO_OBJECT),
    ],
)
def test_what_is_no_trace(command, content, status, said, tmp_path, capsys):
    path = tmp_path / "given"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    assert main([command, str(path), "-o", str(tmp_path / "out")]) == status
    expected = said.format(path)
    assert capsys.readouterr().err.startswith(expected if expected.startswith("/") else f"error: {expected}\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["trace", "report"])
def test_a_trace_is_not_overwritten(command, sample, capsys):
    before = sample.read_bytes()
    assert main([command, str(sample), "-o", str(sample)]) == 2
    assert "is also the input" in capsys.readouterr().err
    assert sample.read_bytes() == before


def test_an_output_that_takes_nothing_is_not_blamed_on_the_trace(sample, monkeypatch, capsys):
    with suppress(OSError), open("/dev/full", "w") as full:  # it fails again when it is closed
        monkeypatch.setattr("sys.stdout", full)
        assert main(["trace", str(sample)]) == 2
    assert capsys.readouterr().err == "error: cannot write standard output: No space left on device\n"


def traced_gpu(path: Path) -> bytes:
    """Write the trace of a kernel of a GPU, and return its code object."""
    code = demo_code("gfx900")
    x, y = np.ones(64, np.float32), np.ones(64, np.float32)
    with Gpu.open("gfx900") as gpu, JsonlTrace(path).follow(gpu):
        gpu.run(code, "saxpy", grid=64, args=[2.0, x, y])
    return code


def traced_harts(path: Path) -> bytes:
    code = demo_kernels()
    with RefSi.open() as device, JsonlTrace(path).follow(device):
        device.load_elf(code)
        device.launch("vector_add", 4, [device.zeros(4, np.int32) for _ in range(3)])
    return code


@pytest.mark.parametrize(
    ("traced", "kernel", "insn", "entry"),
    [
        (traced_gpu, '"saxpy"', "global_store_dword", "saxpy"),
        (traced_harts, '"vector_add"', "c.jr ra", "0x"),
    ],
    ids=["gpu", "harts"],
)
def test_a_report_takes_code_from_files(traced, kernel, insn, entry, tmp_path, capsys):
    trace, program, page = tmp_path / "run.jsonl", tmp_path / "program", tmp_path / "run.html"
    program.write_bytes(traced(trace))
    assert main(["report", str(trace), "-o", str(page)]) == 0
    assert "whose code is not shown" in content(page)
    assert main(["report", str(trace), "-o", str(page), "--code", str(program)]) == 0
    shown = content(page)
    assert "whose code is not shown" not in shown
    assert kernel in shown
    assert insn in shown
    capsys.readouterr()
    page.unlink()
    program.write_bytes(demo_kernels() if entry == "saxpy" else demo_code("gfx900"))
    assert main(["report", str(trace), "-o", str(page), "--code", str(program)]) == 2
    assert capsys.readouterr().err.startswith(
        f"error: {program} has no code that the trace names, expected the file with {entry}"
    )
    assert not page.exists()
