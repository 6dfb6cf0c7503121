"""`softcard diff`: where traces, code, documents, arrays and memories part, and what is said of it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.cli import main
from softcard.gcn import assemble
from softcard.host.amdcl2.demo import demo_program
from softcard.hsa import bare_code_object
from softcard.isa.gcn.target import target
from softcard.refsi import CommandBuffer
from softcard.riscv import assemble_program
from softcard.trace.difference import SEARCHED, Ignored, first_difference

Capture = pytest.CaptureFixture[str]
Diff = Callable[..., tuple[int, dict[str, Any]]]

EVENTS = [
    {"time": 1, "event": "register-access", "name": "CTL", "value": "0x5", "write": True},
    {"time": 2, "event": "packet-started", "queue": 1, "packet": {"type": "kernel-dispatch", "grid": [64, 1, 1]}},
    {"time": 3, "event": "hart-fault", "hart": 2, "error": "no entry, at byte 4 [acceldev/table-size: Paging]"},
    *({"time": n, "event": "register-access", "name": "POLL", "value": hex(n), "write": False} for n in range(4, 40)),
]


@pytest.fixture
def diff(capsys: Capture, tmp_path: Path) -> Diff:
    """Of two files of these contents; the text of messages where it is not --json."""

    def said(one: bytes | Path, other: bytes | Path, *options: str) -> tuple[int, dict[str, Any]]:
        paths = [tmp_path / "one", tmp_path / "other"]
        for number, each in enumerate((one, other)):
            if isinstance(each, bytes):
                paths[number].write_bytes(each)
            else:
                paths[number] = each
        status = main(["diff", *map(str, paths), *options])
        out, err = capsys.readouterr()
        assert bool(err) == (status == 2)
        return status, json.loads(out) if out.startswith("{") else {"text": out or err}

    return said


def lines(events: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in events).encode()


def changed(number: int, **fields: Any) -> bytes:
    return lines([each | (fields if at == number else {}) for at, each in enumerate(EVENTS)])


# ---- traces ----------------------------------------------------------------------------------------------------------


def test_the_first_event_that_differs(diff: Diff) -> None:
    packet = {"type": "kernel-dispatch", "grid": [64, 2, 1]}
    status, found = diff(lines(EVENTS), changed(1, packet=packet), "--json")
    assert status == 1
    assert (found["common"], found["number"], found["fields"]) == (1, 2, ["packet"])
    assert (found["one"], found["other"]["packet"], found["before"]) == (EVENTS[1], packet, EVENTS[:1])
    _, shown = diff(lines(EVENTS), changed(1, packet=packet))
    assert shown["text"].startswith("event 2 differs: time 2, queue 1, packet-started\n")
    assert [line.split() for line in shown["text"].splitlines() if line.endswith("differs")] == [
        ["packet.grid", "[64", "1", "1]", "[64", "2", "1]", "differs"]
    ]


def test_equal_traces(diff: Diff) -> None:
    assert diff(lines(EVENTS), lines(EVENTS).replace(b"\n", b"\r\n\n")) == (
        0,
        {"text": f"no difference: {len(EVENTS)} events\n"},
    )


@pytest.mark.parametrize(
    ("ignored", "status"),
    [([], 1), (["value"], 0), (["register-access.value"], 0), (["hart-fault.value"], 1), (["register-access.*"], 0)],
)
def test_what_may_differ(diff: Diff, ignored: list[str], status: int) -> None:
    options = [part for name in ignored for part in ("--ignore", name)]
    assert diff(lines(EVENTS), changed(20, value="0x1"), *options)[0] == status


def test_fields_of_records_may_differ_too(diff: Diff) -> None:
    """And what differs beside them is told, without them."""
    packet = {"type": "kernel-dispatch", "grid": [64, 1, 1], "signals": [{"address": "0x5", "kind": 1}]}
    other = packet | {"signals": [{"address": "0x9", "kind": 1}]}
    assert diff(changed(1, packet=packet), changed(1, packet=other), "--ignore", "address")[0] == 0
    other |= {"grid": [64, 2, 1], "type": "other"}
    _, found = diff(changed(1, packet=packet), changed(1, packet=other), "--ignore", "type")
    marked = [line.split()[0] for line in found["text"].splitlines() if line.endswith("differs")]
    assert marked == ["packet.grid", "packet.signals"]


def test_bad_names_to_ignore(diff: Diff) -> None:
    status, found = diff(lines(EVENTS), lines(EVENTS), "--ignore", ".x")
    assert (status, found["text"]) == (
        2,
        "error: cannot ignore '.x', expected FIELD, KIND.FIELD or KIND.*\n",
    )


def test_clauses_are_explained(diff: Diff) -> None:
    _, found = diff(lines(EVENTS), changed(2, hart=3))
    assert "\nclause Buffers and Paging [acceldev/table-size]\n  page tables are 4 KiB" in found["text"]


@pytest.mark.parametrize(("side", "key"), [(0, "added"), (1, "missing")])
def test_events_that_are_missing_are_counted(diff: Diff, side: int, key: str) -> None:
    """Also where all later events come at other times."""
    shorter = lines([each | {"time": each["time"] - 1} for each in EVENTS[:6] + EVENTS[9:]])
    whole = lines([each | {"time": each["time"] - (at < 6)} for at, each in enumerate(EVENTS)])
    sides = [whole, whole]
    sides[side] = shorter
    _, found = diff(*sides, "--json")
    assert (found["number"], found[key]) == (7, 3)
    _, shown = diff(*sides)
    names = ["one", "other"]
    pattern = rf"  3 events of \S*/{names[1 - side]} are missing in \S*/{names[side]}"
    assert re.fullmatch(pattern, shown["text"].splitlines()[1])


def test_a_trace_that_ends_earlier(diff: Diff) -> None:
    _, found = diff(lines(EVENTS[:5]), lines(EVENTS), "--json", "--context", "0")
    assert (found["number"], found["one"], found["other"], found["before"]) == (6, None, EVENTS[5], [])


def test_a_trace_that_breaks_off_is_unreadable(diff: Diff, tmp_path: Path) -> None:
    status, found = diff(lines(EVENTS), lines(EVENTS)[:-20])
    assert status == 2
    assert f"at line {len(EVENTS)}, at file {tmp_path / 'other'}" in found["text"]


def test_millions_of_events_are_not_held() -> None:
    """No more is read ahead than is searched, and nothing is kept."""
    read = 0

    def endless(last: int) -> Iterator[bytes]:
        nonlocal read
        for number in range(1 << 60):
            read += 1
            yield b'{"time":%d,"event":"x","value":%d}\n' % (number, 1 if number == last else 0)

    count, found = first_difference(endless(5000), endless(-1), Ignored.of([]), 2)
    assert found is not None
    assert (count, found.fields, len(found.before)) == (5000, ["value"], 2)
    assert read == 2 * (5001 + SEARCHED)


# ---- what is read as a whole -----------------------------------------------------------------------------------------


def code(text: str, **header: int) -> bytes:
    return bare_code_object(assemble(target("gfx900"), text), "gfx900", **header)


def test_code_is_compared_by_kernel(diff: Diff) -> None:
    one = code("v_mov_b32 v1, 1.0\ns_endpgm", vgprs=32)
    status, found = diff(one, code("v_mov_b32 v1, 2.0\ns_nop 1\ns_endpgm", vgprs=40), "--json")
    assert status == 1
    changes = {each["place"]: each for each in found["changes"]}
    assert (changes["kernels/kernel/vgprs"]["one"], changes["kernels/kernel/vgprs"]["other"]) == (32, 40)
    assert [(mark, text) for mark, _, text in changes["code/kernel"]["lines"]] == [
        ("-", "v_mov_b32_e32 v1, 1.0"),
        ("+", "v_mov_b32_e32 v1, 2.0"),
        ("+", "s_nop 1"),
        (" ", "s_endpgm"),
    ]
    assert not any("address" in place or place.startswith("elf") for place in changes)
    assert diff(one, one)[0] == 0


def test_opencl_programs_too(diff: Diff) -> None:
    status, found = diff(demo_program("tonga", 200406), demo_program("bonaire", 180005), "--json")
    assert status == 1
    assert found["changes"][1] == {"place": "driver", "one": 200406, "other": 180005}


def test_risc_v_programs_by_function(diff: Diff) -> None:
    programs = []
    for number in (1, 2):
        text = f".text\n.globl f\nf: addi a0, a0, {number}\nret\n.size f, .-f\n"
        programs.append(assemble_program(text))
    status, found = diff(*programs, "--json")
    assert status == 1
    [change] = found["changes"]
    assert change["place"] == "functions/f/code"
    assert [mark for mark, *_ in change["lines"]] == ["-", "+", " "]


def test_what_is_in_no_function_differs_too(diff: Diff) -> None:
    programs = [assemble_program(f".text\n.globl f\nf: ret\n.data\n.word {number}\n") for number in (1, 2)]
    status, found = diff(*programs, "--json")
    assert (status, found["differing"], found["one"], found["other"]) == (1, 1, "01", "02")


def test_command_buffers_by_command(diff: Diff) -> None:
    buffers = [CommandBuffer().write_reg64("CMP_SCRATCH", value).finish().to_bytes() for value in (5, 6)]
    status, found = diff(*buffers)
    assert status == 1
    assert found["text"].splitlines()[2:] == [
        "commands:",
        "  -      0x0  WRITE_REG64 REG_IDX=CMP_SCRATCH IMM_VAL=0x5",
        "  +      0x0  WRITE_REG64 REG_IDX=CMP_SCRATCH IMM_VAL=0x6",
        "        0x10  FINISH",
    ]


def test_documents_are_compared_by_name(diff: Diff, capsys: Capture) -> None:
    main(["describe", "acceldev", "--json"])
    text = capsys.readouterr().out
    document = json.loads(text)
    registers = document["registers"]
    registers[0]["reset"] = 1
    registers.append(registers.pop(3))  # another order is no difference of registers
    del registers[2]
    _, found = diff(text.encode(), json.dumps(document).encode())
    removed = json.loads(text)["registers"][2]["name"]
    assert found["text"].splitlines()[2:] == [
        "registers/INTR/reset: 0 -> 1",
        f"registers/{removed}: in {found['text'].splitlines()[0][2:]} only",
    ]
    assert diff(text.encode(), json.dumps(document).encode(), "--ignore", "registers")[0] == 0


def test_schemas_are_compared_by_their_registers(diff: Diff) -> None:
    pytest.importorskip("pyarrow")
    folder = Path(__file__).parents[1] / "vectors" / "fletcher"
    _, found = diff(folder / "multi.0.as", folder / "multi.1.as", "--json")
    assert "Zout_firstidx" in {each["place"] for each in found["changes"]}


def npy(array: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def test_the_first_element(diff: Diff) -> None:
    one = np.full((40, 50), np.nan, np.float32)
    assert diff(npy(one), npy(one.copy()))[0] == 0  # NaNs of the same bits are the same
    other = one.copy()
    other[3, 7], other[9] = 2.5, 1
    status, found = diff(npy(one), npy(other), "--json")
    assert (status, found["index"], found["values"][1], found["differing"]) == (1, [3, 7], 2.5, 51)
    status, found = diff(npy(one), npy(other.T.copy()))
    assert status == 1
    assert "float32[40, 50]" in found["text"]


@pytest.mark.parametrize("at", [0, 5, (1 << 20) - 3, 1 << 20, 2_999_990])
def test_the_first_bytes(diff: Diff, at: int) -> None:
    """Wherever they are with respect to the pieces in which files are read."""
    one = np.zeros(3_000_000, np.uint8)
    other = one.copy()
    other[at : at + 8] = 7
    other[-1] = 1
    status, found = diff(one.tobytes(), other.tobytes(), "--json")
    assert status == 1
    assert (found["offset"], found["end"], found["other"]) == (at, at + 8, "07" * 8)
    assert (found["differing"], found["ranges"], found["sizes"]) == (9, 2, [3_000_000] * 2)


@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
def test_memory_is_nothing_else(diff: Diff, byte: bytes) -> None:
    """Though Acceldev's NOPs are zeros, and Arrow's messages begin with ones."""
    status, found = diff(byte * 4096, byte * 4095 + b"\5", "--json")
    assert (status, found["kind"], found["offset"]) == (1, "memory", 4095)


def test_a_memory_that_is_shorter(diff: Diff) -> None:
    _, found = diff(bytes(100), bytes(70), "--json")
    assert (found["offset"], found["end"], found["differing"], found["other"]) == (70, 100, 30, "")


def test_text(diff: Diff) -> None:
    _, found = diff(b"a\nb\nc\n", b"a\nb\nd\n", "--context", "1", "--json")
    assert (found["line"], found["one"], found["other"], found["before"]) == (3, "c", "d", ["b"])
    assert "only the line ending differs" in diff(b"a\n", b"a\r\n")[1]["text"]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (b"", b"x", "one is empty"),
        (lines(EVENTS), b"\0\1\2", "one is a trace, "),
        (b'{"a": ', b"{}", "begins like JSON but is invalid"),
        (b"\x93NUMPY\1\0", npy(np.zeros(1)), "one cannot be read as an array"),
        (b"\x7fELF" + bytes(14) + b"\xe0\0" + bytes(40), code("s_endpgm"), "error: "),
    ],
    ids=["empty", "unlike", "json", "array", "code"],
)
def test_what_cannot_be_compared(diff: Diff, one: bytes, other: bytes, said: str) -> None:
    status, found = diff(one, other)
    assert (status, found["text"].count("\n")) == (2, 1)
    assert said in found["text"]
