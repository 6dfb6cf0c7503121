"""Lines for standard output: written in order, and nobody who says one waits or fails."""

import io
import json
import os
import sys
import threading

import pytest
from rich.text import Text

from softcard.cli import main
from softcard.cli import output as module
from softcard.cli.output import Output, escaping, exact, show_line
from softcard.cli.tables import Terminal
from softcard.hsa import bare_code_object


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "w", encoding="ascii") as sink:
        yield source, sink


def test_lines_are_written_in_order(pipe):
    source, sink = pipe
    output = Output(sink)
    for number in range(1000):
        output.say(f"line {number}")
    output.say("no ASCII: \u20ac \ud800")
    output.close()
    lines = source.read1(1 << 20).decode().splitlines()
    assert lines == [*(f"line {number}" for number in range(1000)), r"no ASCII: \u20ac \ud800"]
    output.say("too late")
    assert output.dropped == 1


def test_a_pipe_that_nobody_reads_drops_and_counts(pipe, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 30.0)
    source, sink = pipe
    output = Output(sink, room=1000)
    for _ in range(10_000):
        output.say("x" * 99)  # far more than the pipe holds
    assert output.dropped > 8000
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(read_until(source, b"the last\n")))
    reader.start()
    dropped = -1
    while output.dropped != dropped:
        dropped = output.dropped
        output.say("the last")
    output.close()
    reader.join(30)
    assert lines.pop() == b"the last"
    missing = [
        int(line[1:].split()[0])
        for line in lines
        if line.endswith(b"missing here: standard output was not read fast enough)")
    ]
    assert sum(missing) == output.dropped
    assert lines.count(b"x" * 99) + len(missing) == len(lines)


def read_until(source, end):
    data = b""
    while not data.endswith(end):
        data += source.read1(1 << 16)
    return data.splitlines()


def test_what_is_missing_is_said_even_if_nothing_follows(pipe):
    source, sink = pipe
    output = Output(sink, room=10)
    output.say("x" * 20)
    assert read_until(source, b"enough)\n") == [b"(1 line is missing here: standard output was not read fast enough)"]
    output.close()


def test_the_end_does_not_wait_for_ever(pipe, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.05)
    _, sink = pipe
    output = Output(sink)
    output.say("x" * 200_000)
    output.close()


def test_a_pipe_that_was_closed_drops_everything(pipe):
    source, sink = pipe
    source.close()
    output = Output(sink)
    for _ in range(100):
        output.say("x")
    output.close()
    assert output.dropped == 100
    output.say("x")
    assert output.dropped == 101


def test_a_pipe_that_does_not_block_is_waited_for(pipe):
    source, sink = pipe
    os.set_blocking(sink.fileno(), False)
    output = Output(sink)
    output.say("x" * 200_000)
    output.say("end")
    assert read_until(source, b"end\n") == [b"x" * 200_000, b"end"]
    output.close()


def test_without_a_file(monkeypatch):
    stream = io.StringIO()
    output = Output(stream)
    output.say("a")
    output.close()
    assert stream.getvalue() == "a\n"
    monkeypatch.setattr("sys.stdout", None)
    output = Output()
    output.say("a")
    output.close()
    assert output.dropped == 1


HOSTILE = "\x1b]0;owned\x07k\x9b31m\u202e"
SHOWN = r"\x1b]0;owned\x07k\x9b31m\u202e"


@pytest.mark.parametrize(
    "command", [["inspect"], ["disasm"], ["run", "none"], ["run", HOSTILE], ["check"], ["inspect", "--json"], ["bogus"]]
)
def test_names_in_files_control_no_terminal(command, tmp_path, capfd):
    """They are shown escaped, by all commands and in errors; JSON has them exactly, in its own way."""
    path = tmp_path / "k\x1b[2J.co"
    path.write_bytes(bare_code_object(bytes.fromhex("000081bf"), "gfx900", name=HOSTILE))
    main([command[0], str(path), *command[1:]])
    out, err = capfd.readouterr()
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*out, *err}
    if "--json" in command:
        assert repr(HOSTILE)[1:-1] in repr(json.loads(out))
    elif command in (["inspect"], ["disasm"], ["run", HOSTILE]):
        assert SHOWN in out + err


def test_a_console_keeps_its_own_sequences(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with escaping():
        Terminal(highlight=False).print(Text("\x1b]0;\u202e ok", "green"))
        print(HOSTILE, file=exact(sys.stdout))
    assert capsys.readouterr().out == "\x1b[32m\\x1b]0;\\u202e ok\x1b[0m\n" + HOSTILE + "\n"


def test_a_drained_queue_lets_others_write_to_the_stream():
    class Slow(io.StringIO):
        def write(self, text):
            begun.set()
            go.wait(10)
            return super().write(text)

    begun, go, drained = threading.Event(), threading.Event(), threading.Event()
    stream = Slow()
    output = Output(stream)
    output.drain()  # an empty queue needs no wait
    output.say("first")
    assert begun.wait(10)
    waiting = threading.Thread(target=lambda: (output.drain(), drained.set()))
    waiting.start()
    assert not drained.wait(0.05)
    go.set()
    assert drained.wait(10)
    waiting.join()
    assert stream.getvalue() == "first\n"
    output.close()


SUMMARY = ("saxpy:", "56 wave instructions", "in 2.11 s, 27/s;", "800 bytes of arrays", "(AMD HSA, V5, gfx900, jit)")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("", "saxpy: 56 wave instructions in 2.11 s, 27/s; 800 bytes of arrays (AMD HSA, V5, gfx900, jit)\n"),
        (
            "80",
            "saxpy: 56 wave instructions in 2.11 s, 27/s; 800 bytes of arrays\n"
            "  (AMD HSA, V5, gfx900, jit)\n",
        ),
        (
            "40",
            "saxpy: 56 wave instructions\n"
            "  in 2.11 s, 27/s; 800 bytes of arrays\n"
            "  (AMD HSA, V5, gfx900, jit)\n",
        ),
        (
            "16",
            "saxpy:\n  56 wave\n  instructions\n  in 2.11 s,\n  27/s;\n  800 bytes of\n  arrays\n  (AMD HSA, V5,\n"
            "  gfx900, jit)\n",
        ),
    ],
)  # fmt: skip
def test_a_line_is_broken_between_phrases(
    columns: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    show_line(*SUMMARY)
    assert capsys.readouterr().out == expected
