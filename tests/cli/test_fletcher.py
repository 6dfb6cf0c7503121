"""`softcard fletcher`: maps and checks as users type them."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from softcard.cli import main
from tests.device.fletcher.designs import UTF8, VECTORS, field, items, schema

Capture = pytest.CaptureFixture[str]
PRIM = str(VECTORS / "prim.0.as")
MULTI = [str(path) for path in sorted(VECTORS.glob("multi.*.as"))]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["fletcher", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_map_as_a_table(capsys: Capture) -> None:
    code, out, _ = run(capsys, "map", PRIM, "--custom", "c:16:cat s:64:dog", "--custom", "s:32:fish")
    lines = [line.replace("│", " ").split() for line in out.splitlines()]
    assert code == 0
    assert ["0x18", "6", "63..0", "read,", "write", "ExampleBatch_number_values"] in lines
    assert ["0x2c", "11", "31..0", "read", "fish"] in lines
    assert "profile fletchgen, 32-bit bus, 56 bytes" in out


def test_custom_registers_have_the_documents_flag_too(capsys: Capture) -> None:
    _, custom, _ = run(capsys, "map", PRIM, "--custom", "c:16:cat", "--format", "yaml")
    code, reg, _ = run(capsys, "map", PRIM, "--reg", "c:16:cat", "--format", "yaml")
    assert (code, reg) == (0, custom)
    assert "name: cat" in reg


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("yaml", "  - address: 88\n    name: ExampleBatch_number_values\n"),
        ("rdl", "} ExampleBatch_number_values_low @ 0x58;"),
        ("c", "#define FLETCHER_EXAMPLEBATCH_NUMBER_VALUES_LOW_OFFSET      0x58u\n"),
        ("md", "| 0x58 | 6 | 63..0 | read, write | `ExampleBatch_number_values` |"),
        ("table", "ExampleBatch_number_values"),
    ],
)
def test_formats(capsys: Capture, form: str, text: str) -> None:
    code, out, err = run(capsys, "map", PRIM, "--format", form, "--offset", "0x40")
    assert (code, err) == (0, "")
    assert text in out


def test_a_wide_bus(capsys: Capture) -> None:
    code, out, _ = run(capsys, "map", PRIM, "--mmio64", "--format", "yaml")
    assert code == 0
    assert "    name: done\n    doc: the kernel is done\n    bitrange: 34\n" in out


def test_profiles(capsys: Capture) -> None:
    shown = {
        profile: run(capsys, "map", *MULTI, "--profile", profile)[1] for profile in ("fletchgen", "runtime", "spec")
    }
    first = [next(line.split()[-2] for line in out.splitlines() if "0x10 " in line) for out in shown.values()]
    assert first == ["Alpha_firstidx", "Zout_firstidx", "RB0_FIRSTIDX"]


def test_a_map_of_a_record_batch(capsys: Capture, tmp_path: Path) -> None:
    made = schema(field("l", items(pa.int16(), True)))
    batch = pa.RecordBatch.from_arrays([pa.array([[1, None]], made.field(0).type)], schema=made)
    path = tmp_path / "batch.rb"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, made) as writer:
        writer.write_batch(batch)
    assert "R_l_validity" in run(capsys, "map", str(path))[1]
    assert run(capsys, "check", str(path))[0] == 0


def test_check_reports_what_to_do(capsys: Capture) -> None:
    code, out, _ = run(capsys, "check", *MULTI)
    assert code == 1
    assert (
        "RecordBatches are queued as Zout, Beta, Alpha, Aout, but the hardware has Alpha, Beta, Aout, Zout: queue "
        "them in that" in out
    )
    lines = [line.replace("│", " ").split() for line in out.splitlines()]
    assert ["Alpha_firstidx", "0x10", "0x20"] in lines
    assert out.splitlines()[-1] == "host and hardware would not fit each other"


def test_check_agrees(capsys: Capture) -> None:
    code, out, _ = run(capsys, "check", *(MULTI[each] for each in (2, 1, 3, 0)), "--custom", "c:64:x")
    assert code == 0
    assert out.splitlines() == [
        "note[custom-size]: takes items 0 to 1 of SetArguments, lowest 32 bits first",
        "  --> x",
        "   = rule: fletcher/custom-size: a register takes address space for its width, rounded up to 4 bytes (Custom "
        "registers)",
        "generator and run-time library agree; RecordBatches in queue order: Alpha, Beta, Aout, Zout",
    ]


def test_check_of_a_wide_bus(capsys: Capture) -> None:
    assert run(capsys, "check", PRIM, "--custom", "c:65:x")[0] == 0
    code, out, _ = run(capsys, "check", PRIM, "--custom", "c:65:x", "--mmio64")
    assert code == 1
    assert "the generator stops: Profile_enable at 0x2c would begin in the last bus word" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["map", "none.as"], 2, "error: cannot read none.as: No such file or directory"),
        (
            ["map", PRIM, "--offset", "many"],
            2,
            "error: --offset: 'many' is not a number, expected decimal or 0x hex",
        ),
        (["map", PRIM, "--offset", "3"], 2, "error: --offset is 0x3, expected a multiple of 4"),
        (
            ["map", PRIM, "--custom", "c:8"],
            2,
            "custom-syntax]: custom register 'c:8': expected <behavior>:<width>:<name>",
        ),
        (
            ["map", PRIM, "--custom", "c:8:idle"],
            1,
            "unique-names]: two registers would have the name idle",
        ),
        (
            ["map", __file__],
            1,
            "/test_fletcher.py: byte 0x",
        ),
        (["check", "none.as"], 2, "error: cannot read none.as"),
    ],
)
def test_mistakes(capsys: Capture, arguments: list[str], code: int, message: str) -> None:
    found, _, err = run(capsys, *arguments)
    assert found == code
    assert message in err


def test_types_without_words(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "union.as"
    path.write_bytes(schema(field("d", pa.dictionary(pa.int8(), UTF8))).serialize().to_pybytes())
    code, _, err = run(capsys, "map", str(path), "--profile", "spec")
    assert code == 3
    assert "not modelled: d is of type dictionary" in err


def test_without_pyarrow(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = run(capsys, "map", PRIM)
    assert code == 2
    assert err == "error: Arrow schemas need pyarrow: pip install 'softcard[arrow]'\n"


# ---- new -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("custom", [[], ["--custom", "c:64:minimum", "--custom", "s:32:seen"]], ids=["", "registers"])
def test_a_new_kernel_passes_its_test(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, custom: list[str]
) -> None:
    folder = tmp_path / "sim"
    code, out, _ = run(capsys, "new", "turnover", *MULTI, *custom, "-o", str(folder))
    assert code == 0
    assert {Path(line) for line in out.splitlines()} == set(folder.iterdir())
    monkeypatch.syspath_prepend(str(folder))
    test = runpy.run_path(str(folder / "test_turnover.py"))
    test["test_turnover"]()
    sys.modules.pop("turnover")
    assert list(test["turnover"].custom) == custom[1::2]
    assert sorted(test["READ"]) == ["Alpha", "Beta"]


def test_nothing_is_overwritten(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "test_sum.py").write_text("mine")
    assert run(capsys, "new", "sum", PRIM, "-o", str(tmp_path)) == (
        2,
        "",
        f"error: {tmp_path / 'test_sum.py'} exists already with different content: choose another --output\n",
    )
    assert [each.name for each in tmp_path.iterdir()] == ["test_sum.py"]


@pytest.mark.parametrize(
    ("name", "folder", "said"),
    [("class", "", "'class' is not a valid name of a Python function"), ("k", "test.txt", "cannot write ")],
)
def test_new_kernels_need_a_name_and_a_folder(
    capsys: Capture, tmp_path: Path, name: str, folder: str, said: str
) -> None:
    (tmp_path / "test.txt").write_text("")
    code, _, err = run(capsys, "new", name, PRIM, "-o", str(tmp_path / folder))
    assert (code, err.count("\n")) == (2, 1)
    assert said in err


def test_findings_in_another_format(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "null.as"
    path.write_bytes(schema(field("x", pa.null(), True)).serialize().to_pybytes())
    code, out, _ = run(capsys, "check", str(path), "--json")
    assert code == 1
    assert json.loads(out)[0]["rule"] == "fletcher/truncated-batch"
