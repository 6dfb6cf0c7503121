"""Markdown and JSON exports of register maps."""

import json

from softcard.report.registers import to_json, to_markdown
from tests.report.maps import BYTES, UNITS


def test_markdown_of_a_map():
    assert to_markdown(UNITS, level=3).splitlines() == [
        "### CMP",
        "",
        "Offsets count units of 8 bytes.",
        "",
        "| offset | register | bits | host may | description |",
        "| --- | --- | --- | --- | --- |",
        "| 0x0 | SCRATCH | 64 | read, write |  |",
        "| 0x18 .. 0x1f | CMP_MODE0 .. CMP_MODE7 | 64 | read, write |  |",
        "",
        "#### SCRATCH",
        "",
        "| bits | field | access | reset | description |",
        "| --- | --- | --- | --- | --- |",
        "| 63-0 | SCRATCH | rw | 0x0 |  |",
        "",
        "#### CMP_MODE0 .. CMP_MODE7",
        "",
        "| bits | field | access | reset | description |",
        "| --- | --- | --- | --- | --- |",
        "| 2-1 | MODE | rw | 0x0 | 1: PER_HART |",
    ]


def test_markdown_is_in_order_of_offsets_and_keeps_its_columns():
    lines = to_markdown(BYTES).splitlines()
    overview = lines[lines.index("| --- | --- | --- | --- | --- |") + 1 : lines.index("### INTR") - 1]
    assert [line.split(" | ")[:2] for line in overview] == [
        ["| 0x0", "INTR"],
        ["| 0x4 .. 0x7", "reserved"],
        ["| 0x8c", "FREE"],
        ["| 0x8c .. 0x9c", "FEED0 .. FEED4"],
        ["| 0x100", "EMPTY"],
        ["| 0x108 .. 0x128", "WIDE0 .. WIDE2"],
        ["| 0x200 .. 0x203", "reserved"],
    ]
    assert '| 0 | FENCE_WAIT | w1c | 0x0 | completion \\| of a "FENCE" |' in lines
    assert "| 7-0 | COUNT | ro | 0xff |  |" in lines


def test_json_says_everything():
    document = json.loads(to_json(BYTES))
    assert [register["name"] for register in document["registers"]] == ["INTR", "FREE", "FEED", "EMPTY", "WIDE"]
    assert document["reserved"] == [{"first": 4, "last": 7}, {"first": 0x200, "last": 0x203}]
    assert document["registers"][4] == {
        "name": "WIDE",
        "doc": "",
        "offset": 0x108,
        "width": 64,
        "side": "rw",
        "count": 3,
        "stride": 16,
        "reset": 0x1234,
        "fields": [
            {"name": "LOW", "doc": "", "bits": [31, 0], "access": "rw", "reset": 0x1234, "values": {}},
            {"name": "HIGH", "doc": "", "bits": [63, 32], "access": "rw", "reset": 0, "values": {}},
        ],
    }
    assert document["registers"][0]["fields"][1]["values"] == {"0": "in", "1": "two words", "3": "3RD*/"}
