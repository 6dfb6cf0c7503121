"""Reports: what a page holds of a trace, and what a browser makes of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from softcard import Acceldev, Gpu, Platform, RefSi
from softcard.acceldev import Fence, Fill
from softcard.core.diagnostics import Diagnostic, Location, link
from softcard.core.errors import Registers, SoftcardError
from softcard.core.findings import Level
from softcard.fletcher import Context, FletcherDevice, Kernel, find
from softcard.host.hsa.compile import compilers as opencl_compilers
from softcard.host.refsi.compile import riscv_compilers
from softcard.hsa import demo_code
from softcard.refsi import demo_kernels
from softcard.trace import HtmlTrace, JsonlTrace
from softcard.trace.code import Function, Listing, Row
from softcard.trace.counters import register_of
from softcard.trace.diagnostic import finding_record
from softcard.trace.page_file import NO_CODE, page, write_page
from softcard.trace.text import value_text
from softcard.trace.timeline import CATEGORIES, MOST_TRACKS, Timeline, finding_of, narrow
from softcard.trace.values import DIAGNOSTIC, Record, read_records
from tests.trace.browser import PROGRAM, Browser
from tests.trace.browser import Page as Tab
from tests.trace.interfaces import INTERFACES

LINE = "    y[i] = x[i + 1];"


def test_what_lasts_lies_beside_what_lasts() -> None:
    chance = random.Random(5)
    records: list[Record] = []
    going: list[int] = []
    for number in range(400):
        if going and chance.random() < 0.5:
            instance = going.pop(chance.randrange(len(going)))
            records.append({"time": number // 3, "event": "instance-ended", "hart": 0, "instance": instance})
        else:
            going.append(number)
            records.append({"time": number // 3, "event": "instance-started", "hart": 0, "instance": number})
    about, arrays = Timeline(records).columns()
    first, last = arrays["first"], arrays["last"]
    assert len(about["tracks"]) > 5
    for _, depth, start, stop in about["tracks"]:
        assert 0 < depth <= MOST_TRACKS
        assert (last[start : stop - 1] < first[start + 1 : stop]).all()
        assert (np.diff(arrays["begin"][start:stop].astype(int)) >= 0).all()
    starts = [number for number, record in enumerate(records) if record["event"] == "instance-started"]
    assert sorted(first) == starts


def waves(count: int) -> list[Record]:
    """A group with so many waves, beside two harts."""
    records: list[Record] = []
    for kind, step in (("wave-started", 0), ("wave-ended", 100)):
        for wave in range(count):
            fields: Record = {"queue": 1, "index": 0, "group": [2, 0, 0], "wave": wave}
            records.append({"time": step + wave, "event": kind, **fields})
    return [*records, *({"time": 200, "event": "x", "hart": hart} for hart in range(2))]


@pytest.mark.oracle
def test_many_lanes_of_a_kind_are_folded(browser: Browser, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text(write_page(waves(9), "waves", "1.0"), encoding="utf-8")
    tab = browser.open(report)
    folded = ["hart 0", "hart 1", "▸ queue 1 wave (9)"]
    labels = "page.timeline.rows.filter(({starts}) => starts).map(({label}) => label)"
    assert sorted(tab(labels)) == sorted(folded)
    row = "page.timeline.rows.find(({track}) => track.lane === 'queue 1 wave 0')"
    box = tab("(({left, top}) => [left, top])(get('timeline').getBoundingClientRect())")
    y = tab(f"AXIS + {row}.y + {row}.height / 2")
    for kind in ("mousePressed", "mouseReleased"):
        tab.mouse(kind, box[0] + 20, box[1] + y, button="left", clickCount=1)
    opened = ["hart 0", "hart 1", "▾ queue 1 wave 0", *(f"queue 1 wave {number}" for number in range(1, 9))]
    assert sorted(tab(labels)) == sorted(opened)
    tab.press("l")
    assert sorted(tab(labels)) == sorted(folded)
    x = tab("page.timeline.x(50)")
    event = tab(f"page.trace.fields(page.timeline.at({x}, {row}.y + AXIS + 4 * 8 + 1))")
    assert ["wave", "8"] in event
    tab.close()

    report.write_text(write_page(waves(8), "waves", "1.0"), encoding="utf-8")
    tab = browser.open(report)
    assert "queue 1 wave 7" in tab(labels)
    tab.close()


@pytest.mark.oracle
def test_registers_at_tracepoints(browser: Browser, tmp_path: Path) -> None:
    """Two lanes, of which EXEC leaves one out; a wave and a hart."""
    about: Record = {"time": 1, "event": "registers-taken", "why": "fault", "pc": "0x40"}
    scalars: Record = {"exec": "0x2", "s4": "0x00000007", "s5": "0x00000008"}
    vectors: Record = {"v0": "3f800000 bf000000", "v1": "ffffffff 00000003"}
    wave: Record = {"queue": 1, "index": 3, "group": [2, 0, 0], "wave": 5}
    records: list[Record] = [
        {**about, **wave, "instruction": "v_add_f32 v1, s[4:5], v1", "scalars": scalars, "vectors": vectors},
        {**about, "hart": 2, "instruction": "ld a0, 0(a1)", "scalars": {"a0": "0x1", "a2": "0x2"}, "vectors": {}},
    ]
    report = tmp_path / "report.html"
    report.write_text(write_page(records, "registers", "1.0"), encoding="utf-8")
    for width, theme in ((1400, "light"), (420, "dark")):
        tab = browser.open(report, width, theme=theme)
        home = "document.getElementById('snapshots')"
        texts = "[...document.querySelectorAll('#snapshots {}')].map((each) => each.textContent)"
        assert tab(f"{home}.textContent").startswith("Registers at chosen moments2 moments")
        assert tab(texts.format("option"))[0] == (
            "fault · v_add_f32 v1, s[4:5], v1 · wave 5, group 2,0,0, packet 3, queue 1"
        )
        assert tab(texts.format(".named code")) == ["s4", "0x00000007", "s5", "0x00000008"]
        assert tab(texts.format("td.off")) == ["3f800000", "ffffffff"]
        assert tab(texts.format("tr.named td")) == ["v1", "ffffffff", "00000003"]
        tab("[...document.querySelectorAll('#snapshots select')][1].value = 'float'")
        tab("[...document.querySelectorAll('#snapshots select')][1].dispatchEvent(new Event('change'))")
        assert tab(texts.format("td.number"))[:2] == ["1", "-0.5"]
        tab("page.snapshots.show(1)")
        assert tab(texts.format(".named code")) == ["a0", "0x1"]
        assert tab(texts.format(".here td")) == ["0x40", "ld a0, 0(a1)"]
        tab(f"{home}.querySelector('a').click()")
        assert tab("page.trace.track(page.timeline.chosen).lane") == "hart 2"
        assert tab("document.documentElement.scrollWidth <= innerWidth")
        tab.close()


def test_registers_have_names_and_are_no_memory() -> None:
    unit = {"type": "unit", "kind": 2, "index": 0}
    accesses: list[Record] = [
        {
            "time": 0,
            "event": "register-access",
            "unit": unit,
            "file": "CMP",
            "index": 25,
            "value": "0x1",
            "write": True,
        },
        {"time": 1, "event": "register-access", "name": "control", "address": "0x0", "value": "0x1", "write": True},
        {
            "time": 2,
            "event": "register-access",
            "unit": unit,
            "file": "CMP",
            "index": 99,
            "value": "0x1",
            "write": True,
        },
    ]
    assert [register_of(each) for each in accesses] == ["CMP_REG_WINDOW_MODE1", "control", "CMP[99]"]
    about, _ = Timeline(accesses).columns()
    assert about["regions"] == []
    assert [lane for lane, *_ in about["tracks"]] == ["registers", "registers of the CMP"]


def test_a_fault_says_where() -> None:
    fault: Record = {
        "time": 5,
        "event": "hart-fault",
        "hart": 1,
        "instance": 4,
        "pc": "0x102f2",
        "message": "no memory",
    }
    found = finding_of(0, fault)
    assert found is not None
    assert found.message == "no memory, at pc 0x102f2, at hart 1, at instance 4"
    again = finding_of(0, fault | {"message": "no memory, at pc 0x102f2"})
    assert again is not None
    assert again.message == "no memory, at pc 0x102f2"


@pytest.mark.parametrize("docs", ["d" * 5000, "a\0b"])
def test_docs_may_be_anything(docs: str) -> None:
    assert link(docs, "checks/waits.md").startswith(docs)


def test_more_at_once_than_tracks_are_moments() -> None:
    records: list[Record] = [{"time": 0, "event": "x-started", "hart": 0, "n": n} for n in range(MOST_TRACKS + 3)]
    about, _ = Timeline(records).columns()
    assert [track[3] - track[2] for track in about["tracks"]] == [3] + [1] * MOST_TRACKS


def refsi(follow: Callable[[object], None]) -> None:
    with RefSi.open() as device:
        follow(device.port.probes)
        device.load_elf(demo_kernels())
        a = np.arange(64, dtype=np.int32)
        device.launch("vector_add", 4, [a, a, np.zeros_like(a), 16])
        device.launch("vector_add", 4, [a, a, 0x100, 16])


def acceldev(follow: Callable[[object], None]) -> None:
    with Acceldev.open() as device:
        follow(device.port.probes)
        with device.open_context() as context:
            data = context.create_buffer(1 << 20)
            context.run(context.create_code(Fill(value=1, buffer_slot=data.slot, start=0, length=4096), Fence()))
            context.wait(1)
            context.run(context.create_code(Fill(value=1, buffer_slot=data.slot, start=1 << 20, length=4), Fence()))
            context.wait(2)


def hsa(follow: Callable[[object], None]) -> None:
    with Gpu.open("gfx900") as gpu:
        follow(gpu.device.probes)
        x = np.ones(64, np.float32)
        for _ in range(3):
            gpu.run(demo_code("gfx900"), "saxpy", grid=64, group=64, args=[2.0, x, x])
        gpu.run(demo_code("gfx900"), "saxpy", grid=64, group=64, args=[2.0, 0x100, x])


def fletcher(follow: Callable[[object], None]) -> None:
    total = find("sum")
    batch = pa.record_batch([pa.array([1, -3])], schema=total.schemas[0])
    device = FletcherDevice(total.map(), total)
    with Platform(device) as platform, Context(platform) as context:
        follow(device.probes)
        context.queue_record_batch(batch)
        context.enable()
        kernel = Kernel(context)
        kernel.start()
        kernel.wait_for_finish()


def _is_command(value: object) -> bool:
    return isinstance(value, dict) and "type" in value


def traced(run: Callable[..., None], path: Path) -> list[Record]:
    with JsonlTrace(path) as trace:
        try:
            run(trace.follow)
        except SoftcardError:
            assert run is not fletcher
    with path.open("rb") as file:
        return list(read_records(file))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("chromium is not installed")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("run", [refsi, acceldev, hsa, fletcher], ids=lambda run: run.__name__)
def test_a_browser_shows_all_of_a_trace(run: Callable[..., None], tmp_path: Path, browser: Browser) -> None:
    records = traced(run, tmp_path / "trace.jsonl")
    report = tmp_path / "report.html"
    report.write_text(write_page(records, "<b>run</b>", "1.0"), encoding="utf-8")
    browser.requests.clear()
    tab = browser.open(report)
    assert browser.requests == [report.as_uri()]  # it needs no network
    assert tab("get('title').textContent") == "<b>run</b>"
    assert (NO_CODE in tab("get('code').textContent")) == (run in (refsi, hsa))

    events = tab(
        "Array.from({length: page.trace.size}, (_, e) =>"
        "[page.trace.first[e], page.trace.last[e], page.trace.begin[e], page.trace.end[e], page.trace.fields(e)])"
    )
    for first, last, begin, end, fields in events:
        assert begin == records[first]["time"]
        assert end == records[last]["time"]
        wanted = {**records[first], **records[last]}
        held = {
            name: value if isinstance(value, str) else value_text(value)
            for name, value in wanted.items()
            if name not in ("time", "event", "registers", DIAGNOSTIC)
            and value not in (None, "")
            and not _is_command(value)
        }
        shown = {name: text for name, text in fields if not _is_command(wanted.get(name))}
        if held.get("file") == "CMP":
            assert shown.pop("name").startswith("CMP_")
        if shown.pop("unfinished", ""):
            held = {name: text for name, text in held.items() if name in records[first]}
            shown = {name: text for name, text in shown.items() if name in records[first]}
        assert shown == held
    assert {at for first, last, *_ in events for at in (first, last)} == set(range(len(records)))

    state = tab("page.trace.findings.length ? get('findings').querySelector('.state').textContent : ''")
    for record in records:
        registers = record.get("registers")
        if isinstance(registers, dict):  # those of errors are beside the finding
            assert "Registers" in state
            assert all(str(value) in state for value in registers["scalars"].values())

    middle = len(records) // 2
    values: dict[str, object] = {}
    for record in records[: middle + 1]:
        if record["event"] == "register-access":
            values[register_of(record)] = record["value"]
    held = tab(f"page.registers.at({middle}).map(([name, e]) => [name, page.registers.field(e, 'value')])")
    assert {
        re.sub(r"^(the CMP|hart \d) ", "", name): value for name, value in held if not name.startswith("signal ")
    } == values

    tab.press("f")
    chosen = tab("page.timeline.chosen")
    if run is fletcher:
        assert chosen == -1
        assert "No error" in tab("get('findings').textContent")
    else:
        assert tab("page.trace.arrays.marks[page.timeline.chosen]") == 1
        assert tab("get('detail').querySelector('h2').textContent") == tab("page.trace.name(page.timeline.chosen)")
        assert tab("page.trace.findings[page.findings.shown].events.includes(page.timeline.chosen)")
    if run is acceldev:
        said = tab("get('findings').textContent")
        assert "acceldev/pte-present" in said
        assert "using an entry whose bit 0 PRESENT is not set" in said
    tab.close()


@pytest.mark.oracle
@pytest.mark.slow
def test_a_browser_shows_what_was_executed(tmp_path: Path, browser: Browser) -> None:
    report = tmp_path / "run.html"
    with (
        RefSi.open(count_instructions=True) as device,
        HtmlTrace(report, docs="https://d").follow(device.port.probes) as trace,
    ):
        loaded = device.load_elf(demo_kernels())
        a = np.arange(64, dtype=np.int32)
        result = device.launch("vector_add", 4, [a, a, np.zeros_like(a), 16])
        with pytest.raises(SoftcardError) as error:
            device.launch("broken", 4, [a, 0])
        counts = device.instruction_counts()
        trace.code(loaded, counts)
    tab = browser.open(report, width=420)
    assert tab("document.documentElement.scrollWidth") == 420  # nothing sticks out of a narrow window
    assert tab("get('code').textContent").count("functions not executed") == 1
    assert tab("page.code.functions.map(({name}) => name)") == ["vector_add", "broken"]
    opened = "page.code.functions.map(({details}) => details.open)"
    assert tab(opened) == [False, True]  # it opens on what failed
    failed = "[...get('code').querySelectorAll('tr.failed')].map((row) => row.cells[1].textContent)"
    assert tab(failed) == [re.search(r"at pc (0x\w+)", str(error.value))[1]]  # type: ignore[index]
    assert tab("scrollY") == 0
    tab("page.code.open(page.code.functions[0])")
    rows = "[...page.code.functions[0].body.querySelectorAll('tbody tr')]"
    rows += ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    shown = {int(pc, 16): int(times.replace("\u202f", "")) for times, pc, *_ in tab(rows)}
    assert {pc: count for pc, count in shown.items() if count} == {
        pc: count for pc, count in counts.items() if pc in shown
    }
    assert sum(shown.values()) == result.instructions
    assert "exact" in tab("get('opcodes').textContent")
    assert tab("get('rules').querySelector('a').href") == "https://d/refsi.html#refsi/memory-map"
    assert "open buffers" in tab("get('strips').textContent")
    tab.close()


@pytest.mark.oracle
@pytest.mark.slow
def test_code_without_a_source_fits_into_narrow_windows(tmp_path: Path, browser: Browser) -> None:
    rows = tuple(Row(pc, "s_load_dwordx4 s[4:7], s[0:1], 0x0 " * 3, "", 1, "s_load_dwordx4") for pc in range(0, 40, 4))
    nameless = Listing("code at 0x0", "gfx900", (Function("0x0", 0, rows),), ())
    named = Listing("code at 0x100", "gfx900", (Function("kernel", 0x100, rows),), ())
    report = tmp_path / "run.html"
    report.write_text(write_page([], "run", "1.0", code=[nameless, named]), encoding="utf-8")
    tab = browser.open(report, width=420)
    assert tab("page.code.functions.map(({name}) => name)") == ["kernel", "0x0"]  # what has a name comes first
    assert tab("document.documentElement.scrollWidth") == 420
    tab.close()


@pytest.mark.oracle
@pytest.mark.slow
def test_a_page_opens_with_its_first_finding(tmp_path: Path, browser: Browser) -> None:
    report, text = tmp_path / "found.html", "the text that pytest shows\n    assert 1 == 2"
    note = Diagnostic(Level.NOTE, "lanes/one-value", "lanes store one value")
    with HtmlTrace(report) as trace:
        trace.write({"time": 0, "event": "doorbell-rung", "queue": 0})
        trace.finding(note)
        trace.write({"time": 0, "event": "test-failed", "phase": "call", "message": "1 == 2", DIAGNOSTIC: text})
        trace.finding(Diagnostic(Level.ERROR, "memory/wild", "read", location=Location("k.cl", 4, 12, line_text=LINE)))
    tab = browser.open(report)
    shown = "get('findings').querySelector('.story h2').textContent"
    assert tab("page.trace.findings[page.findings.shown].what") == "memory/wild"  # the first error, not the first note
    assert tab("page.timeline.chosen") == tab("page.trace.findings[page.findings.shown].event") >= 0
    assert tab(shown) == "error memory/wildread"
    assert tab("get('findings').querySelector('.here b').textContent") == "x[i + 1]"
    assert tab("get('findings').querySelector('.carets').textContent").strip() == "^" * len("x[i + 1]")
    assert tab("page.trace.fields(page.timeline.chosen).map(([name]) => name)") == ["check", "message"]
    tab.press("F")
    assert tab("get('findings').querySelector('pre.diagnostic').textContent") == text
    tab("get('findings').querySelector('.row').click()")
    assert tab(shown) == "note lanes/one-valuelanes store one value"
    assert tab("[...document.querySelectorAll('.row.chosen')].length") == 1
    tab.close()


@pytest.mark.oracle
@pytest.mark.slow
def test_a_run_without_events_has_a_page(tmp_path: Path, browser: Browser) -> None:
    report = tmp_path / "nothing.html"
    with HtmlTrace(report) as trace:
        trace.note("Why there is no code.")
        trace.note("Why there is no code.")
    tab = browser.open(report)
    assert tab("get('code').textContent").count("Why there is no code.") == 1
    assert tab("get('summary').textContent").startswith("0 events in 0 guest steps")
    assert "No error" in tab("get('findings').textContent")
    for key in ("n", "p", "f", "+", "-", "z", "x", "0", "Escape"):
        tab.press(key)
    assert tab("page.timeline.chosen") == -1
    tab.close()


@pytest.mark.oracle
@pytest.mark.slow
def test_a_million_events(tmp_path: Path, browser: Browser) -> None:
    count, lanes = 1_000_000, 8
    each = count // lanes
    order = np.arange(count).reshape(each, lanes).T.reshape(-1)  # lane by lane
    about = {
        "title": "a million events",
        "version": "1.0",
        "kinds": ["dma-transfer"],
        "names": ["dma-transfer"],
        "tracks": [[f"unit {lane}", 0, lane * each, (lane + 1) * each] for lane in range(lanes)],
        "tables": [[{"name": "value", "array": "value"}]],
        "findings": [],
        "findingCount": 0,
        "snapshots": [],
        "regions": [],
        "places": [],
        "placeCount": 0,
        "operations": [],
        "counters": [],
        "faults": [],
        "code": [],
        "opcodes": [],
        "opcodeLink": "",
        "rules": [],
        "count": count,
        "time": count * 10,
    }
    zeros = np.zeros(count, np.uint8)
    arrays = dict.fromkeys(("kind", "name", "marks", "category"), zeros)
    arrays |= {"begin": narrow(order * 10), "end": narrow(order * 10), "first": narrow(order), "last": narrow(order)}
    arrays |= {"row": narrow(order), "value": narrow(np.arange(count) % 1009)}
    places = (f"memory{each}" for each in ("Order", "Time", "Region", "Offset", "Size", "What"))
    arrays |= dict.fromkeys(places, zeros[:0])
    report = tmp_path / "report.html"
    report.write_text(page(about, arrays), encoding="utf-8")
    tab = browser.open(report)
    print("milliseconds to the first picture:", tab("document.documentElement.dataset.ready"))
    assert tab("get('summary').textContent").startswith("1\u202f000\u202f000 events in 10\u202f000\u202f000 guest")

    # What it costs to draw does not grow with the events: pictures of all are made of columns of pixels.
    strokes = "(() => { let n = 0; const pen = CanvasRenderingContext2D.prototype, old = pen.fillRect;"
    strokes += "pen.fillRect = function (...a) { n++; old.apply(this, a); }; page.timeline.draw(); pen.fillRect = old;"
    strokes += "return n; })()"
    assert lanes * 100 < tab(strokes) < lanes * 2_000

    # Mouse and keyboard reach single events.
    tab("get('search').focus()")
    tab("(get('search').value = '1008', page.search())")
    assert tab("get('hits').textContent") == "991 hits"
    tab.press("Enter")
    tab.press("Enter")
    chosen = tab("[page.trace.first[page.timeline.chosen], page.trace.fields(page.timeline.chosen)]")
    assert chosen == [1008 + 1009, [["value", "1008"]]]
    tab.press("Escape")
    tab.press("z")
    for _ in range(12):
        tab.press("+")
    box = tab("(({left, top}) => [left, top])(get('timeline').getBoundingClientRect())")
    row = "page.timeline.rows[page.trace.track(page.timeline.chosen).number]"
    x, y = tab(f"[page.timeline.x(page.trace.begin[page.timeline.chosen]), AXIS + {row}.y + 8]")
    tab.mouse("mouseMoved", box[0] + x, box[1] + y)
    assert "value 1008" in tab("get('tip').textContent")
    before = tab("page.timeline.from")
    tab.mouse("mousePressed", box[0] + x, box[1] + y, button="left", clickCount=1)
    tab.mouse("mouseMoved", box[0] + x + 80, box[1] + y, button="left", buttons=1)
    tab.mouse("mouseReleased", box[0] + x + 80, box[1] + y, button="left")
    assert tab("page.timeline.from") < before
    tab.press("0")
    assert tab("page.timeline.from") < 0
    dark = tab("isDark()")
    tab.press("t")
    assert tab("isDark()") is not dark
    tab.close()


# ---- findings: one for each mistake, at the kernel or wave that it is about ------------------------------------------


def kernels(*names: str, waves: int = 0) -> Iterator[Record]:
    """Launches of kernels, ten steps each, with waves of one work-group each."""
    yield {"time": 0, "event": "code-loaded", "kernels": {name: place(names, name) for name in names}}
    for at, name in enumerate(names, 1):
        packet: Record = {"type": "kernel-dispatch-packet", "kernel_object": hex(place(names, name))}
        key: Record = {"queue": 0, "index": at}
        yield {"time": 10 * at, "event": "packet-started", **key, "packet": packet}
        for wave in range(waves):
            about: Record = {**key, "group": [wave, 0, 0], "wave": 0}
            yield {"time": 10 * at + wave, "event": "wave-started", **about}
            yield {"time": 10 * at + wave + 1, "event": "wave-ended", **about}
        yield {"time": 10 * at + 10, "event": "packet-completed", **key}


def place(names: tuple[str, ...], name: str) -> int:
    return 0x100 * (names.index(name) + 1)


def found(kernel: str = "", group: str = "", **more: Any) -> Record:
    """The event of a finding of the memory check."""
    unit = "wave 0" if group else ""
    return finding_record(Diagnostic(Level.ERROR, "memory/wild", "read", kernel=kernel, unit=unit, group=group, **more))


def shown_findings(*records: Record) -> tuple[list[dict[str, Any]], Callable[[int], tuple[str, str]]]:
    """The findings of a report, and the lane and name of each of its events."""
    about, arrays = Timeline(records).columns()

    def name(event: int) -> tuple[str, str]:
        lane = next(lane for lane, _, start, stop in about["tracks"] if start <= event < stop)
        return lane, about["names"][arrays["name"][event]]

    for each in about["findings"]:
        assert all(arrays["marks"][event] == 1 for event in each["events"])
    return about["findings"], name


@pytest.mark.parametrize(
    ("finding", "wanted"),
    [
        (found("saxpy", "2,0,0"), ("queue 0 wave 0", "2,0,0")),
        (found("saxpy", "9,0,0"), ("queue 0", "saxpy")),  # its wave is not traced
        (found("_Z5saxpyPf"), ("queue 0", "saxpy")),
        (found(), ("queue 0", "saxpy")),  # the only kernel
        (found("another"), ("queue 0", "saxpy")),
    ],
)
def test_a_finding_is_shown_where_it_happened(finding: Record, wanted: tuple[str, str]) -> None:
    [one], name = shown_findings(*kernels("saxpy", waves=3), finding)
    assert name(one["event"]) == wanted


def test_a_finding_of_one_of_several_launches_has_its_own_lane() -> None:
    """The finding does not name the launch."""
    [one], name = shown_findings(*kernels("saxpy", "saxpy"), found("saxpy"))
    assert name(one["event"]) == ("findings", "finding")


def test_reports_of_one_error_are_one_finding() -> None:
    """An error that passes through the device makes several events."""
    diagnostic: Record = {"level": "error", "message": "no memory", "at": "k.cl:3", "pc": "0x40"}
    fault: Record = {"time": 25, "event": "queue-errored", "queue": 0, "error": "no memory, at pc 0x40, at queue 0"}
    fault[DIAGNOSTIC] = diagnostic
    failed: Record = {**fault, "event": "queue-failed", "error": "no memory, at pc 0x40, at queue 0, at kernel saxpy"}
    check = found("saxpy", pc=0x40, location=Location(pc=0x40))
    other = found("saxpy", pc=0x44, location=Location(pc=0x44))
    findings, _ = shown_findings(*kernels("saxpy"), fault, failed, check, other)
    assert [(each["what"], len(each["events"])) for each in findings] == [("memory/wild", 3), ("memory/wild", 1)]
    assert findings[0]["diagnostic"]["message"] == "read"  # the check's, which is the fuller one
    plain, _ = shown_findings(*({name: each[name] for name in each if name != DIAGNOSTIC} for each in (fault, failed)))
    assert len(plain) == 1
    assert plain[0]["message"] == "no memory, at pc 0x40, at queue 0"


def test_registers_of_a_finding() -> None:
    held = Registers(0x40, "ld a0, 0(a1)", {"a0": 1, "a1": 2})
    finding = found("saxpy", pc=0x40, registers=held)
    findings, _ = shown_findings(*kernels("saxpy"), finding)
    assert [each["snapshot"] for each in findings] == [0]
    registers = held.as_dict() | {"lane": 3}
    fault: Record = {"time": 9, "event": "hart-fault", "hart": 0, "pc": "0x40", "registers": registers}
    about, _ = Timeline([fault, finding]).columns()
    assert [why for _, why, *_ in about["snapshots"]] == ["fault"]  # one mistake, one snapshot
    assert [each["snapshot"] for each in about["findings"]] == [0]


def test_categories_of_events() -> None:
    records = [*kernels("__amd_rocclr_fillBufferAligned", "kernel at 0x200", "mine", waves=1)]
    records.append({"time": 99, "event": "interrupt-raised", "number": 1})
    about, arrays = Timeline(records).columns()
    names = np.array(about["names"])[arrays["name"]]
    seen = {(str(name), CATEGORIES[each]) for name, each in zip(names, arrays["category"], strict=True)}
    assert seen == {
        ("__amd_rocclr_fillBufferAligned", "run-time kernel"), ("kernel at 0x200", "run-time kernel"),
        ("mine", "kernel"), ("0,0,0", "waves"), ("interrupt-raised", "registers"), ("code-loaded", "other"),
    }  # fmt: skip
    about, arrays = Timeline(kernels("kernel at 0x100")).columns({0x100: "smooth"})
    assert "smooth" in about["names"]
    assert {CATEGORIES[each] for each in arrays["category"]} == {"kernel", "other"}  # no kernel has a name


def test_colours_contrast_with_both_themes() -> None:
    """The same colours are on white and on dark cards; white text is on bars."""
    folder = files("softcard.trace") / "page"
    script, styles = ((folder / name).read_text(encoding="utf-8") for name in ("timeline.js", "page.css"))
    palette = re.search(r"const PALETTE = \{(.*?)\};", script, re.DOTALL)
    assert palette is not None
    colours = re.findall("#[0-9a-f]{6}", palette[1])
    cards = re.search(r"--card: light-dark\((#\w+), (#\w+)\)", styles)
    assert cards is not None
    assert len(set(colours)) == len(colours) == len(CATEGORIES) + 3  # finding, memory read and written
    for colour in colours:
        assert contrast(colour, "#ffffff") >= 4.5
        assert all(contrast(colour, card) >= 3 for card in cards.groups())
    for name, least in (("text", 7), ("soft", 4.5), ("bad", 4.5), ("accent", 4.5)):
        pair = re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", styles)
        assert pair is not None
        assert all(contrast(own, card) >= least for own, card in zip(pair.groups(), cards.groups(), strict=True))
    listed = re.search(r"const CATEGORIES = \[(.*?)\]", script)
    assert listed is not None
    assert tuple(re.findall('"([^"]+)"', listed[1])) == CATEGORIES  # the page's numbers are those of the columns


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as in the Web Content Accessibility Guidelines."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


# ---- reports of all interfaces ---------------------------------------------------------------------------------------


LANES = "40 of 64 lanes are active (exec 0xffffffffff), lane 39 is at fault"
EXPECTED = {
    "refsi": ("out[i] = (in[i] + in[i + 1]) / 2;", "a20xbffaa800"),
    "acceldev": ("FILL value=0x3", "CMD_FENCE_LAST"),
    "hsa-gfx942": ("y[i] = (x[i] + x[i + 1]) / 2;", LANES),
    "hsa-gfx900": ("y[i] = (x[i] + x[i + 1]) / 2;", LANES),
    "amdcl2": ("flat_load_dword v6, v[2:3]", "24 lanes are at fault"),
    "fletcher": ('trades = job.batch("Trades")', "Trades_lastidx0x5"),
}
"""The source line or instruction, and the state beside it, in the reports with a finding."""


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("name", INTERFACES)
def test_a_report_opens_with_its_finding(name: str, tmp_path: Path, browser: Browser) -> None:
    report = tmp_path / "run.html"
    make(name, report, has_finding=True)
    browser.requests.clear()
    tab = browser.open(report)
    assert browser.requests == [report.as_uri()]  # it needs no network
    assert tab("[page.findings.shown, page.trace.findings.length]") == [0, 1]
    assert tab("page.timeline.chosen") == tab("page.trace.findings[0].event")
    story, state = (f"get('findings').querySelector('{each}')" for each in (".story", ".state"))
    left, right, bottom = tab(f"(({{left, right, bottom}}) => [left, right, bottom])({story}.getBoundingClientRect())")
    assert left < 40
    assert tab(f"{state}.getBoundingClientRect().left") >= right  # registers beside the source lines
    assert bottom < 600  # on the first screen
    line, registers = EXPECTED[name]
    assert line in tab(f"{story}.querySelector('.excerpt .here').textContent")
    assert registers in tab(f"{state}.textContent")
    assert tab("get('code').querySelectorAll('details.function[open] tr.failed').length")
    check_layout(tab)
    tab.close()


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("name", INTERFACES)
def test_a_report_without_a_finding(name: str, tmp_path: Path, browser: Browser) -> None:
    report = tmp_path / "run.html"
    make(name, report, has_finding=False)
    tab = browser.open(report)
    assert tab("page.timeline.chosen") == -1
    assert tab("get('findings').textContent") == "no findings No error, fault or lint in this trace."
    assert tab("get('findings').getBoundingClientRect().height") < 60
    assert tab("get('detail').hidden")
    assert tab("page.code.functions[0].details.open")
    assert not tab("get('code').querySelectorAll('tr.failed').length")
    check_layout(tab)
    tab.close()


def make(name: str, report: Path, has_finding: bool) -> None:
    if name == "refsi" and not riscv_compilers():
        pytest.skip("no compiler for RISC-V")
    if name.startswith("hsa") and not opencl_compilers():
        pytest.skip("no compiler of OpenCL C")
    INTERFACES[name](report, has_finding)


def check_layout(tab: Tab) -> None:
    """One legend, nothing empty, nothing outside of the window; pictures have the same colours in both themes."""
    assert tab("document.querySelectorAll('#legend, .u-legend, .key').length") == 1
    used = tab("[...get('legend').children].map((each) => each.textContent)")
    assert len(set(used)) == len(used) > 1
    assert ("finding" in used) == bool(tab("page.trace.findings.length"))
    empty = "[...document.querySelectorAll('section, .state, .story, details, #detail')].filter((each) => "
    empty += "each.offsetParent && !each.textContent.trim()).map((each) => each.outerHTML.slice(0, 80))"
    assert tab(empty) == []
    colours = "[...get('legend').querySelectorAll('i')].map((each) => getComputedStyle(each).backgroundColor)"
    before = tab(colours)
    tab.press("t")
    assert tab(colours) == before
    tab.press("t")
    for width in (1400, 1920, 500):
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
        assert tab("document.documentElement.scrollWidth") == width
        # What sticks out of its box can be scrolled to.
        outside = "[...document.querySelectorAll('section *')].filter((each) => each.getBoundingClientRect().right > "
        outside += "innerWidth && !each.closest('.scroll, .excerpt, .around')).map((each) => each.outerHTML)"
        assert tab(outside) == []


@pytest.mark.oracle
def test_run_time_kernels_are_folded(tmp_path: Path, browser: Browser) -> None:
    """They take no time on the axis, and their code is closed."""
    names = ("__amd_rocclr_fillBufferAligned", "_Z6smoothPf", "__amd_rocclr_copyBuffer")
    row = Row(0x100, "s_endpgm", "", 5, "s_endpgm")
    code = Listing("program", "gfx900", tuple(Function(name, 0x100, (row,)) for name in names), ())
    nameless = Listing("code at 0x0", "gfx900", (Function("0x0", 0, (row,)),), ())
    report = tmp_path / "run.html"
    report.write_text(write_page(kernels(*names), "run", "1.0", code=[nameless, code]), encoding="utf-8")
    tab = browser.open(report)
    assert tab("[page.timeline.axis, page.timeline.limit]") == ["own", 20]  # 10 steps before the kernels, 10 of ours
    spans = "Array.from({length: page.trace.size}, (_, event) => event).filter((event) => !page.trace.isMoment(event))"
    drawn = dict(tab(f"{spans}.map((e) => [page.trace.name(e), page.timeline.ends[e] - page.timeline.starts[e]])"))
    assert drawn == {names[0]: 0, "smooth": 10, names[2]: 0}
    assert tab("get('axis').textContent") == "Axis: steps of own kernels"
    opened = "page.code.functions.map(({name, isLibrary, details}) => [name, isLibrary, details.open])"
    assert sorted(tab(opened)) == [
        ["0x0", True, False], [names[2], True, False], [names[0], True, False], ["smooth", False, True],
    ]  # fmt: skip
    assert tab("get('code').querySelector('.library').open") is False
    assert "3 functions, 75.0 % of the instructions" in tab("get('code').querySelector('.library summary').textContent")
    for axis in ("steps", "order", "own"):
        tab.press("x")
        assert tab("page.timeline.axis") == axis
    tab.close()

    failed = [each for each in kernels(*names[:2]) if each.get("time") != 30]
    report.write_text(write_page(failed, "run", "1.0"), encoding="utf-8")
    tab = browser.open(report)
    assert tab("page.timeline.axis") == "order"  # the kernel failed at its first step: no axis of steps shows it
    tab.close()
