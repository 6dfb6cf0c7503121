"""The three formats: their text, their files, and same events, same bytes."""

import io
import json
from dataclasses import dataclass

import pytest

from softcard import Acceldev
from softcard.core.errors import ModelBug, WireError
from softcard.core.event import Event, Probes
from softcard.core.space import Unit
from softcard.trace.chrome import ChromeTrace
from softcard.trace.text import JsonlTrace, TextTrace, line, record_line
from softcard.trace.values import DIAGNOSTIC, to_object
from tests.trace.sample import (
    ERROR,
    EVENTS,
    Anything,
    BufferBegun,
    CommandFinished,
    HartFault,
    How,
    InstanceEnded,
    InstanceStarted,
)

FORMATS = [TextTrace, JsonlTrace, ChromeTrace]


def written(form, events=EVENTS, **options):
    stream = io.StringIO()
    with form(stream, **options) as trace:
        for event in events:
            trace(event)
    return stream.getvalue()


@pytest.mark.parametrize("form", FORMATS)
def test_same_events_give_same_bytes(form, tmp_path):
    path = tmp_path / "trace"
    with form(path) as trace:
        for event in EVENTS:
            trace(event)
    assert path.read_bytes().decode() == written(form) == written(form)


@pytest.mark.parametrize("form", FORMATS)
def test_a_writer_follows_probes_until_it_is_closed(form):
    probes, stream = Probes(), io.StringIO()
    with form(stream).follow(probes) as trace:
        probes.emit(EVENTS[0])
    before = stream.getvalue()
    assert not probes.active
    probes.emit(EVENTS[0])
    trace.close()
    assert stream.getvalue() == before
    assert not stream.closed


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_is_complete_even_when_the_guest_fails(form, tmp_path):
    def fails():
        with form(tmp_path / "trace") as trace:
            trace(EVENTS[0])
            raise ERROR

    with pytest.raises(type(ERROR)):
        fails()
    text = (tmp_path / "trace").read_text()
    assert text.endswith("\n")
    assert form is not ChromeTrace or json.loads(text)


def test_text_lines():
    assert written(TextTrace).splitlines() == [
        "0 buffer-begun size=64",
        "0 command-started index=0 command=write-reg64(index=8 value=0x10000)",
        "10 instance-started hart=0 instance=4",
        "10 instance-started hart=1 instance=5",
        "20 dma-transfer unit=unit(kind=3 index=1) source=0x40000000 sizes=[16 1]",
        "30 instance-ended hart=0 instance=4 how=return",
        '35 hart-fault hart=1 pc=0x10294 text="illegal word"',
        "40 command-finished index=0 ok=yes",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("-", '"-"'),
        ("", '""'),
        ("a=b", '"a=b"'),
        ("line\nline", '"line\\nline"'),
        ("ünï", '"\\u00fcn\\u00ef"'),
        (False, "no"),
        ((), "[]"),
        ({}, "()"),
    ],
)
def test_text_can_be_distinguished(value, text):
    assert line(Anything(1, value)) == f"1 anything thing={text}"


def test_json_lines():
    lines = written(JsonlTrace).splitlines()
    assert lines[1] == (
        '{"time":0,"event":"command-started","index":0,"command":{"type":"write-reg64","index":8,"value":"0x10000"}}'
    )
    assert [json.loads(text) for text in lines] == [to_object(event) for event in EVENTS]


def test_diagnostics_of_errors_are_in_json_lines_alone():
    """A report of the trace shows the source line; other formats stay readable."""
    event = Anything(1, WireError("bad byte").at("line", "2 of turnover.py", "total"))
    record = json.loads(written(JsonlTrace, [event]))
    assert record.pop(DIAGNOSTIC) == {
        "level": "error", "message": "bad byte", "at": "turnover.py:2", "code": "total",
    }  # fmt: skip
    assert record == to_object(event)
    with_it = record | {DIAGNOSTIC: {"message": "bad byte"}}
    assert record_line(with_it) == line(event) == record_line(record)
    streams = io.StringIO(), io.StringIO()
    for stream, each in zip(streams, (record, with_it), strict=True):
        with ChromeTrace(stream) as trace:
            trace.write(each)
    assert streams[0].getvalue() == streams[1].getvalue()


def test_writers_follow_devices(tmp_path):
    with Acceldev.open() as device:
        for form in FORMATS:
            assert form(io.StringIO()).follow(device)
            assert form(io.StringIO()).follow(device.port.probes)
    with pytest.raises(WireError, match=r"a trace cannot follow 'no device', expected a device, or the probes of one"):
        JsonlTrace(io.StringIO()).follow("no device")


def test_a_field_may_not_take_the_name_of_the_kind():
    @dataclass(frozen=True)
    class Odd(Event):
        event: int

    with pytest.raises(ModelBug, match=r"^fields of Odd must not be called event: traces use that name$"):
        to_object(Odd(1, 2))


def chrome(events=EVENTS, **options):
    records = json.loads(written(ChromeTrace, events, **options))["traceEvents"]
    threads = {record["tid"]: record["args"]["name"] for record in records if record["name"] == "thread_name"}
    rest = [record for record in records if record["ph"] != "M"]
    return records[0], [{**record, "tid": threads[record["tid"]]} for record in rest if "tid" in record]


def test_chrome_spans_and_instants():
    process, records = chrome(device="refsi")
    assert process == {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "refsi"}}
    brief = [(r["ph"], r["name"], r["cat"], r["tid"], r["ts"], r.get("dur")) for r in records]
    assert brief == [
        ("i", "dma-transfer", "event", "unit 3:1", 20, None),
        ("X", "instance 4", "instance", "hart 0", 10, 20),
        ("i", "hart-fault", "fault", "hart 1", 35, None),
        ("X", "write-reg64", "command", "device", 0, 40),
        ("X", "buffer", "buffer", "device", 0, 40),
        ("X", "instance 5", "instance", "hart 1", 10, 30),
    ]
    assert [record.get("s") for record in records[:3]] == ["t", None, "g"]
    assert records[1]["args"] == {"hart": 0, "instance": 4, "how": "return"}
    assert records[-1]["args"] == {"hart": 1, "instance": 5, "unfinished": True}


def test_chrome_spans_that_are_not_nested_are_asynchronous():
    instances = [InstanceStarted(0, 0, 4), InstanceStarted(1, 0, 5), InstanceEnded(2, 0, 4, How.RETURN)]
    _, records = chrome([*instances, InstanceEnded(3, 0, 5, How.RETURN)])
    brief = [(r["ph"], r["name"], r["ts"], r.get("dur"), r.get("id")) for r in records]
    assert brief == [
        ("b", "instance 4", 0, None, 1),
        ("e", "instance 4", 2, None, 1),
        ("X", "instance 5", 1, 2, None),
    ]
    assert records[0]["args"] == {"hart": 0, "instance": 4, "how": "return"}


def test_chrome_closes_only_what_agrees():
    _, records = chrome([EVENTS[1], CommandFinished(5, 9, True), CommandFinished(6, 0, True)])
    assert [(r["ph"], r["name"]) for r in records] == [("i", "command-finished"), ("X", "write-reg64")]


def test_chrome_units_can_be_named_as_the_device_names_them():
    _, records = chrome(unit_name=lambda unit: f"hart {unit.index}")
    assert records[0]["tid"] == "hart 1"


def test_chrome_threads_of_events_without_a_unit():
    _, records = chrome([HartFault(1, None, 2, ""), BufferBegun(2, 3), Anything(9, Unit(1))])
    assert [record["tid"] for record in records] == ["device"] * 3
    assert records[-1]["dur"] == 7
