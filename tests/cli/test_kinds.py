"""Files of every kind that `inspect` and `check` know by their content: as text, as JSON, as SARIF, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import softcard
from softcard.cli import main
from softcard.cli.file_kinds import FileKind, kind_of
from softcard.device.acceldev.commands import Fence, Fill, Nop, user_code
from softcard.device.refsi.commands import Finish, WriteReg64, encode_all
from softcard.image.riscv.attributes import read_attributes

Capture = pytest.CaptureFixture[str]
DATA = Path(softcard.__file__).parent / "data"
VECTORS = Path(__file__).parents[1] / "vectors"
TRACE = """{"time": 3, "event": "command-started", "index": 0}
{"time": 9, "event": "command-failed", "error": "no window there [refsi/no-window: Memory Windows]"}
"""


def schema() -> bytes:
    pa = pytest.importorskip("pyarrow")
    fields = [pa.field("n", pa.int32(), nullable=False), pa.field("s", pa.utf8())]
    made: bytes = pa.schema(fields, metadata={"fletcher_name": "A", "fletcher_mode": "read"}).serialize().to_pybytes()
    return made


MADE: dict[FileKind, Callable[[], bytes]] = {
    FileKind.HSA: (DATA / "hsa_kernels-gfx900.co").read_bytes,
    FileKind.AMDCL2: lambda: next(iter(sorted((VECTORS / "amdcl2").rglob("*.clo")))).read_bytes(),
    FileKind.RISCV: (DATA / "kernels.elf").read_bytes,
    FileKind.REFSI: lambda: encode_all([WriteReg64(reg_idx=8, imm_val=5), Finish()]),
    FileKind.ACCELDEV: lambda: user_code([Fill(value=7, buffer_slot=1, start=0, length=64), Fence(), Nop()]),
    FileKind.SCHEMA: schema,
    FileKind.TRACE: TRACE.encode,
}
SAID = {
    FileKind.HSA: "saxpy",
    FileKind.AMDCL2: "AMD OpenCL 2.0 program",
    FileKind.RISCV: "vector_add 0x100b0 46 bytes",
    FileKind.REFSI: "WRITE_REG64",
    FileKind.ACCELDEV: "0x0000: FILL value=0x7 buffer_slot=0x1 length=0x40",
    FileKind.SCHEMA: "A_s_offsets",
    FileKind.TRACE: "event 1: command-failed: no window there [refsi/no-window]",
}


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


CODE = bytes.fromhex("000006c0000000000000 81bf".replace(" ", ""))
"""s_load_dwordx2 s[0:1], s[0:1], 0x0 and s_endpgm of gfx900: they begin as a command buffer does."""


@pytest.mark.parametrize("command", ["inspect", "check"])
@pytest.mark.parametrize(
    ("name", "data"), [("k.co", CODE), ("k.bin", CODE), ("k.co", CODE[:8]), ("k.bin", CODE + bytes(4)), ("k", CODE * 9)]
)
def test_code_that_begins_as_a_command_buffer(
    command: str, name: str, data: bytes, tmp_path: Path, capsys: Capture
) -> None:
    """It could be either: what it is must be said."""
    path = tmp_path / name
    path.write_bytes(data)
    code, out, err = run(capsys, command, str(path))
    assert (code, out) == (1, "")
    assert (
        "file starts with 00 00 06 c0, which can begin a RefSi command buffer or bare code of an AMD GPU: --as refsi"
        in err
    )
    assert "reads it as a command buffer. `disasm --agent` and `run --agent` read it as bare code" in err
    assert "RefSi command buffer" in run(capsys, command, str(path), "--as", "refsi")[1]


def test_command_buffers_that_are_no_code(tmp_path: Path) -> None:
    """Whole ones may have the number of an instruction in them; broken ones without it are shown as what they are."""
    assert kind_of(encode_all([WriteReg64(reg_idx=8, imm_val=0xBF810000), Finish()]), "k.co") is FileKind.REFSI
    assert kind_of(encode_all([WriteReg64(reg_idx=8, imm_val=5)])[:-4], "buffer") is FileKind.REFSI


@pytest.mark.parametrize("kind", FileKind)
def test_a_file_of_each_kind(capsys: Capture, tmp_path: Path, kind: FileKind) -> None:
    path = tmp_path / "file"
    path.write_bytes(MADE[kind]())
    assert kind_of(path.read_bytes(), path.name) is kind
    code, out, err = run(capsys, "inspect", str(path), "--no-code")
    assert (code, SAID[kind] in " ".join(out.split()), err) == (0, True, "")
    code, out, _ = run(capsys, "inspect", str(path), "--no-code", "--json")
    assert (code, bool(json.loads(out))) == (0, True)
    code, out, _ = run(capsys, "check", str(path))
    assert code == (kind is FileKind.TRACE)
    assert out.splitlines()[-1].endswith("notes")


def findings(capsys: Capture, path: Path, *options: str) -> tuple[int, list[tuple[Any, ...]]]:
    code, out, _ = run(capsys, "check", str(path), "--json", *options)
    return code, [(each["level"], each["check"], each["byte"], each["rule"]) for each in json.loads(out)]


def test_several_files(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be read, or is no such file, does not stop the others; the worst status counts."""
    monkeypatch.chdir(tmp_path)
    for name, data in (("good", MADE[FileKind.REFSI]()), ("run", TRACE.encode()), ("odd", b"\x93garbage\0")):
        Path(name).write_bytes(data)
    code, out, err = run(capsys, "inspect", "good", "run")
    assert (code, err) == (0, "")
    assert out.startswith("==> good <==\nRefSi command buffer: 2 commands, ")
    assert "\n\n==> run <==\n" in out
    code, out, _ = run(capsys, "inspect", "good", "run", "--format", "json")
    assert [each["file"] for each in json.loads(out)] == ["good", "run"]
    assert json.loads(out)[0]["content"] == json.loads(run(capsys, "inspect", "good", "--json")[1])
    code, out, err = run(capsys, "inspect", "odd", "missing", "good")
    assert (code, "WRITE_REG64" in out) == (2, True)
    assert "error: file starts with 93 67 61 72" in err
    assert "error: cannot read missing: No such file or directory" in err

    assert run(capsys, "check", "good", "good")[0] == 0
    code, out, err = run(capsys, "check", "good", "run")
    assert (code, err) == (1, "")
    assert out.startswith("==> good <==\nRefSi command buffer: 0 errors, 0 warnings, 0 notes\n\n==> run <==\n")
    code, out, _ = run(capsys, "check", "good", "run", "run", "--json")
    assert (code, [each["file"] for each in json.loads(out)]) == (1, ["run", "run"])
    code, out, err = run(capsys, "check", "run", "odd", "--format", "sarif")
    [found] = json.loads(out)["runs"][0]["results"]
    assert (code, found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) == (1, "run")
    assert "error: file starts with 93 67 61 72" in err
    assert run(capsys, "check", "missing", "run")[0] == 2


def test_mistakes_in_command_buffers(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_text("0xc0080200 # count of 4\n0x10002\n0xc0000100\n")
    expected = [
        ("error", "header-count", 0, "refsi/header-count"),
        ("warning", "finish-missing", 24, "refsi/finish-end"),
    ]
    assert findings(capsys, path) == (1, expected)
    path.write_bytes(user_code([Fill(value=0, buffer_slot=0, start=0, length=0), Nop(unused_header=1)]) + b"\x09\0\0\0")
    expected = [
        ("note", "user command", 0, "acceldev/user-commands"),
        ("warning", "user command", 20, "acceldev/user-commands"),
        ("error", "user command", 40, "acceldev/user-command-full"),
    ]
    assert findings(capsys, path, "--as", "acceldev") == (1, expected)
    path.write_bytes(b"\x09" + bytes(19))
    assert findings(capsys, path, "--as", "acceldev") == (1, [("error", "user command", 0, "acceldev/user-commands")])


def test_programs_that_refsi_does_not_run(capsys: Capture, tmp_path: Path) -> None:
    path, data = tmp_path / "k.o", bytearray((DATA / "kernels.elf").read_bytes())
    data[16] = 1  # ET_REL
    path.write_bytes(data)
    code, out, _ = run(capsys, "check", str(path))
    assert code == 1
    assert "error[loadable]: e_type is 0x1, expected 2 (executable)" in out
    assert "RefSi cannot run this program: e_type is 0x1" in run(capsys, "inspect", str(path))[1]


def test_words_that_are_no_instruction(capsys: Capture, tmp_path: Path) -> None:
    from softcard.image.hsa.records import KernelDescriptor
    from softcard.image.hsa.writer import KernelSource, write_code_object

    words = bytes.fromhex("ffffffff000081bf")
    path = tmp_path / "k.co"
    path.write_bytes(write_code_object("V5", "gfx900", [KernelSource("k", words, KernelDescriptor.parse(bytes(64)))]))
    code, out, _ = run(capsys, "check", str(path))
    assert code == 0
    assert "warning[instruction]: " in out
    assert "(k)" in out


def test_sarif(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("0xc0080200 0x10002 0xc0000100\n")
    code, out, _ = run(capsys, "check", str(path), "--format", "sarif")
    document = json.loads(out)
    assert (code, document["version"]) == (1, "2.1.0")
    [found] = document["runs"]
    rules = found["tool"]["driver"]["rules"]
    assert [each["id"] for each in rules] == ["refsi/header-count", "refsi/finish-end"]
    assert all(each["shortDescription"]["text"] and each["help"]["text"] for each in rules)
    first = found["results"][0]
    assert (first["ruleId"], first["level"], rules[first["ruleIndex"]]["id"]) == (
        rules[0]["id"],
        "error",
        rules[0]["id"],
    )
    assert first["message"]["text"].startswith("WRITE_REG64: count announces 4 payload chunks, expected 1, at byte 0x0")
    place = first["locations"][0]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": path.as_uri(), "index": 0}, "region": {
            "startLine": 1,
            "startColumn": 1,
            "endColumn": 11,
            "snippet": {"text": "0xc0080200 0x10002 0xc0000100"},
        },
    }  # fmt: skip
    assert found["artifacts"][0]["location"]["uri"] == path.as_uri()


@pytest.mark.parametrize(
    ("arguments", "content", "code", "message"),
    [
        (["inspect", "FILE"], b"", 1, "error: the file is empty\n  --> "),
        (["check", "FILE"], b"", 1, "error: the file is empty\n  --> "),
        (["check", "FILE"], b"\x93garbage\0", 1, "file starts with 93 67 61 72, expected code object, AMD OpenCL 2.0 "),
        (
            ["check", "FILE"],
            b"\x7fELF" + bytes(60),
            1,
            "e_machine is 0x0, expected one of 0xf3",
        ),
        (
            ["check", "FILE", "--order", "screl"],
            TRACE.encode(),
            2,
            "--memory-model, --order and --pcie require a code object",
        ),
        (["check", "FILE", "--profile", "x"], b"", 2, "unknown profile 'x', expected spec or refsidrv"),
        (["inspect", "FILE", "--as", "trace"], b"{}\n", 1, 'the object is not an event, expected "time"'),
    ],
)
def test_what_is_no_such_file(
    capsys: Capture, tmp_path: Path, arguments: list[str], content: bytes, code: int, message: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    found, _, err = run(capsys, *[str(path) if each == "FILE" else each for each in arguments])
    assert (found, message in err) == (code, True), err


class Section:
    """An ELF file's section of attributes, alone."""

    header = type("Header", (), {"offset": 100})

    def __init__(self, data: bytes) -> None:
        self.data = data

    def section(self, _: str) -> Section:
        return self

    def contents(self, _: Any) -> bytes:
        return self.data


def attributes(body: bytes, vendor: bytes = b"riscv\0") -> bytes:
    tags = b"\x01" + (5 + len(body)).to_bytes(4, "little") + body
    return b"A" + (4 + len(vendor) + len(tags)).to_bytes(4, "little") + vendor + tags


def test_attributes_of_risc_v() -> None:
    good = attributes(b"\x05rv64i2p1\0\x04\x10\x8e\x01\x02")
    assert read_attributes(Section(good)).tags == {"arch": "rv64i2p1", "stack_align": 16, "tag 142": 2}  # type: ignore[arg-type]
    assert read_attributes(Section(attributes(b"\x04\x10", b"other\0"))).tags == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"B", "starts with 42, expected 41 (format version A), at byte 0x64"),
        (b"A\x03\0\0\0", "subsection of 3 bytes in .riscv.attributes"),
        (b"A\x0f\0\0\0riscv\0\x01\xff\0\0\0", "attributes of 255 bytes exceed"),
        (attributes(b"\x05rv64"), "the text of attribute 5 has no end"),
        (attributes(b"\x04\x80\x80"), "a number (ULEB128) has no end"),
    ],
)
def test_attributes_that_are_damaged(data: bytes, message: str) -> None:
    from softcard.core.errors import WireError

    with pytest.raises(WireError) as caught:
        read_attributes(Section(data))  # type: ignore[arg-type]
    assert message in str(caught.value)
