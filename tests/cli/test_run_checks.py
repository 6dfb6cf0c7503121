"""`softcard run --check`: what is said, what is written, and the exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from softcard.cli import main
from softcard.core.checks import CHECKS
from softcard.device.hsa.settings import JUNK
from softcard.host.hsa.gpu import demo_code

ARGUMENTS = ("saxpy", "--grid", "64", "--arg", "2.0", "--arg", "f32:60:ones", "--arg", "f32:60")

STORE = """s_load_dwordx2 s[8:9], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_mov_b32 v1, 0
v_mov_b32 v2, 7
global_store_dword v1, v2, s[8:9]
s_endpgm
"""

UNDEFINED = """s_load_dwordx2 s[8:9], s[4:5], 0x0
v_mov_b32 v1, 0
ds_read_b32 v3, v1
buffer_load_dword v4, off, s[0:3], s11
s_waitcnt vmcnt(0) lgkmcnt(0)
global_store_dword v1, v9, s[8:9]
global_store_dword v1, v3, s[8:9] offset:4
global_store_dword v1, v4, s[8:9] offset:8
s_endpgm
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "k.co"
    path.write_bytes(demo_code())
    return str(path)


def test_findings_are_said_and_are_a_failure(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", file, *ARGUMENTS, "--check", "memory"]) == 1
    said = capsys.readouterr().out
    assert "error[memory/out-of-bounds]: read of 4 bytes, 0 bytes past the end of argument 1\n" in said
    assert "= note: argument 1, array float32[60]: 240 bytes at 0x" in said
    assert said.endswith("3 findings\n")
    assert main(["run", file, *ARGUMENTS[:2], "60", *ARGUMENTS[3:], "--check", "memory"]) == 0
    assert capsys.readouterr().out.endswith("checked: no findings\n")


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_the_status_for_findings_can_be_chosen(file: str, form: str) -> None:
    """A kernel that fails otherwise, or has no findings, keeps its status."""
    options = ["--check", "memory", "--error-exitcode", "77", "--format", form]
    assert main(["run", file, *ARGUMENTS, *options]) == 77
    assert main(["run", file, *ARGUMENTS[:2], "60", *ARGUMENTS[3:], *options]) == 0
    assert main(["run", file, *ARGUMENTS, "--expect", "2=9", *options]) == 1


def test_formats(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(form: str) -> str:
        assert main(["run", file, *ARGUMENTS, "--check", "memory", "--format", form]) == 1
        return capsys.readouterr().out

    assert len(json.loads(said("json"))["findings"]) == 3
    results = json.loads(said("sarif"))["runs"][0]["results"]
    assert [each["ruleId"] for each in results] == ["memory/out-of-bounds"] * 3
    assert ElementTree.fromstring(said("junit").encode()).attrib["failures"] == "3"
    lines = said("github").splitlines()
    assert len(lines) == 3
    assert all(each.startswith(f"::error file={file},title=memory/out-of-bounds::error[memory/") for each in lines)
    found = tmp_path / "found.xml"
    assert main(["run", file, *ARGUMENTS, "--check", "memory", "--findings", str(found)]) == 1
    assert ElementTree.parse(found).getroot().attrib["failures"] == "3"


def test_annotations_follow_in_a_workflow(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main(["run", file, *ARGUMENTS, "--check", "memory"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum(each.startswith("::error file=") for each in lines) == 3
    assert lines[-4] == "3 findings"


@pytest.mark.parametrize("agent", ["gfx900", "rv64gc"])
def test_equal_stores(agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Waves, or harts, that store the same number in the same place."""
    text, grid = ("sw a2, 0(a1)\nret\n", "4") if agent == "rv64gc" else (STORE, "128")
    (tmp_path / "k.s").write_text(text)
    assert main(["asm", str(tmp_path / "k.s"), "--agent", agent, "-o", str(tmp_path / "k.bin")]) == 0
    command = ["run", str(tmp_path / "k.bin"), "--agent", agent, "--grid", grid, "--arg", "u32:1", "--arg", "u64=7"]
    assert main([*command, "--check", "races"]) == 0
    assert main([*command, "--check", "races", "--equal-stores"]) == 1
    assert "error[races/write-write]: write of 4 bytes at" in capsys.readouterr().out


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize(
    ("options", "word"),
    [((), 0), (("--poison", "0x12345678"), 0x1234_5678), (("--check", "init"), JUNK)],
    ids=["none", "word", "init"],
)
def test_what_undefined_registers_lds_and_private_memory_hold(
    engine: str, options: tuple[str, ...], word: int, tmp_path: Path
) -> None:
    (tmp_path / "k.s").write_text(UNDEFINED)
    command = ["run", str(tmp_path / "k.s"), "--agent", "gfx900", "--engine", engine, "--grid", "1", "--arg", "u32:3"]
    command += ["--lds", "64", "--scratch", "64", "--user-sgpr", "private_segment_buffer"]
    command += ["--user-sgpr", "kernarg_segment_ptr", "--expect", f"0={word},{word},{word}"]
    code = main([*command, *options])
    assert code == ("init" in options)


def test_poison_is_for_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.s").write_text("ret\n")
    assert main(["run", str(tmp_path / "k.s"), "--agent", "rv64gc", "--poison", "1"]) == 2
    assert "--poison requires a kernel for GPUs, not for RefSi" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".json", ".sarif"])
def test_findings_are_written(file: str, tmp_path: Path, suffix: str) -> None:
    path, known = tmp_path / f"found{suffix}", tmp_path / "known"
    known.write_text("memory/* saxpy saxpy+0x?c\n")
    assert main(["run", file, *ARGUMENTS, "--check", "memory", "--findings", str(path)]) == 1
    document = json.loads(path.read_text())
    assert len(document["runs"][0]["results"] if suffix == ".sarif" else document) == 3
    assert main(["run", file, *ARGUMENTS, "--check", "memory", "--suppressions", str(known), "--findings", str(path)])
    document = json.loads(path.read_text())
    assert len(document["runs"][0]["results"] if suffix == ".sarif" else document) == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--check", "memroy"],
            f"--check: unknown check 'memroy', expected some of {', '.join(CHECKS)}, all; did you mean 'memory'",
        ),
        (["--check", "memory", "--findings", "a.txt"], "expected a name that ends in .sarif, .json, .xml"),
        (["--findings", "a.json"], "--findings and --suppressions require --check"),
        (["--format", "sarif"], "--format sarif requires --check: it is a format of findings"),
        (["--format", "sarif", "--json"], "--json and --format sarif choose the format of the same output"),
        (["--error-exitcode", "3"], "--error-exitcode requires --check, with at least one of memory, "),
        (["--check", "memory", "--error-exitcode", "0"], "--error-exitcode"),
        (["--check", "memory", "--error-exitcode", "256"], "--error-exitcode"),
        (["--check", "memory", "--equal-stores"], "--equal-stores requires --check races"),
        (["--poison", "0x100000000"], "--poison: 0x100000000 does not fit 32 bits"),
    ],
)
def test_what_is_refused(file: str, options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", file, *ARGUMENTS, *options]) == 2
    assert text in capsys.readouterr().err


BARE = "  s_load_dwordx2 s[8:9], s[0:1], 0x0\n  v_mov_b32 v1, 0\n  global_store_dword v1, v0, s[8:9]\n  s_endpgm\n"
WHOLE = f"""    .amdgcn_target "amdgcn-amd-amdhsa--gfx900"
    .p2align 8
put: ; one argument
{BARE}    .section .rodata,"a"
    .p2align 6
    .amdhsa_kernel put
      .amdhsa_user_sgpr_kernarg_segment_ptr 1
      .amdhsa_next_free_vgpr 2
      .amdhsa_next_free_sgpr 10
    .end_amdhsa_kernel
"""
HART = "    .globl k\nk:  lw t0,64(a1)\n    sw t0, 0(a1)\n    ret\n"


@pytest.mark.parametrize(
    ("text", "arguments", "position"),
    [
        (BARE, ["--agent", "gfx900", "--check", "waits"], "k.s:3:3\n   |\n 3 |   global_store_dword v1, v0, s[8:9]"),
        (WHOLE, ["--agent", "gfx900", "--check", "waits"], "k.s:6:3\n   |\n 6 |   global_store_dword v1, v0, s[8:9]"),
        (HART, ["--agent", "rv64gc", "--check", "memory"], "k.s:2:5\n   |\n 2 | k:  lw t0,64(a1)\n   |     ^^"),
    ],
    ids=["bare", "code object", "riscv"],
)
def test_findings_in_assembly_have_lines_of_the_text(
    text: str,
    arguments: list[str],
    position: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.s").write_text(text, encoding="utf-8")
    grid = ["--grid", "64"] if "gfx900" in arguments else []
    assert main(["run", "k.s", *grid, "--arg", "u32:4", *arguments]) == 1
    out = capsys.readouterr().out
    assert f"--> {position}" in out
    assert re.search(r"= note: in \w+(\+0x\w+)? \(pc 0x\w+\)$", out, re.MULTILINE), "the line shows the instruction"


def test_asm_adds_lines_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.s").write_text(WHOLE, encoding="utf-8")
    for options, shown in (([], "--> k.co: pc 0x100c (put)\n"), (["-g"], "--> k.s:6:3\n")):
        assert main(["asm", "k.s", *options, "-o", "k.co"]) == 0
        assert main(["check", "k.co", "--check", "waits"]) == 1
        assert shown in capsys.readouterr().out
