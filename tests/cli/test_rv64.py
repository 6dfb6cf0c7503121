"""`softcard rv64`: programs by themselves, from the command line."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from softcard.cli import main
from softcard.riscv import RV64, assemble_program
from tests.host.rv64.test_run import BARE

Capture = pytest.CaptureFixture[str]
ECHO = """
    .globl _start
_start:
    ld s0, 0(sp)          # argc
    ld a1, 16(sp)
    li a0, 1
    li a2, 3
    li a7, 64
    ecall                 # the second argument
    addi sp, sp, -16
    li a0, 0
    mv a1, sp
    li a2, 8
    li a7, 63
    ecall                 # what is read
    mv a2, a0
    li a0, 2
    mv a1, sp
    li a7, 64
    ecall
    cpop a0, s0
    add a0, a0, s0
    li a7, 93
    ecall
"""


@pytest.fixture
def echo(tmp_path: Path) -> str:
    path = tmp_path / "echo.elf"
    path.write_bytes(assemble_program(ECHO))
    return str(path)


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    status = main(["rv64", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("options", [[], ["--engine", "reference"], ["--both-engines"]])
def test_status_arguments_and_what_it_writes(capsys: Capture, tmp_path: Path, echo: str, options: list[str]) -> None:
    (tmp_path / "in").write_bytes(b"read\n")
    reported = "the results of both engines are the same\n" if options == ["--both-engines"] else ""
    found = run(capsys, *options, "--stdin", str(tmp_path / "in"), echo, "one", "--json")
    assert found == (3 + 2, "one", "read\n" + reported)


def test_arguments_that_are_no_text(capfdbinary: pytest.CaptureFixture[bytes], echo: str) -> None:
    """The program gets the bytes that were typed."""
    assert main(["rv64", echo, os.fsdecode(b"\xff\xfea")]) == 3
    assert capfdbinary.readouterr().out == b"\xff\xfea"


def test_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch, echo: str) -> None:
    class Standard:
        buffer = io.BytesIO(b"12345678")

    monkeypatch.setattr(sys, "stdin", Standard)
    assert run(capsys, "--stdin", "-", echo, "two") == (3, "two", "12345678")


def test_statistics_and_json(capsys: Capture, echo: str) -> None:
    status, out, err = run(capsys, "--statistics", "--json", "--isa", "rv64gc_zbb", echo, "one")
    found = json.loads(out)
    result = RV64.run(Path(echo), (echo, "one"))
    assert (status, found["status"], found["console"]) == (3, 3, "one")
    assert found["x"] == list(result.x)
    assert found["instructions"] == result.instructions
    assert err.startswith(f"echo.elf: status 3, {result.instructions} instructions in ")
    assert err.endswith("/s (rv64gc_zbb, jit)\n")


def test_signature(capsys: Capture, tmp_path: Path) -> None:
    program, out = tmp_path / "bare.elf", tmp_path / "signature"
    program.write_bytes(assemble_program(BARE.format(reported=7), 0x8000_0000))
    assert run(capsys, "--signature", str(out), str(program)) == (3, "", "")
    assert out.read_text() == "00000000\n00000000\n00000003\n00000000\n78563412\nf0debc9a\n"
    assert run(capsys, "--signature", str(out), "--granularity", "8", str(program))[0] == 3
    assert out.read_text().splitlines()[2] == "f0debc9a78563412"
    status, _, err = run(capsys, "--signature", str(tmp_path / "none" / "out"), str(program))
    assert (status, "cannot write" in err) == (2, True)


def test_assembly(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "exit.s"
    path.write_text(".globl _start\n_start: li a0, 9\nli a7, 93\necall\n")
    assert run(capsys, str(path)) == (9, "", "")
    path.write_text("_start: lii a0, 9\n")
    status, _, err = run(capsys, str(path))
    assert status == 1
    assert "lii" in err
    assert err.startswith(f"{path}:1:9: error: ")


@pytest.mark.parametrize(
    ("options", "text", "status", "reported"),
    [
        (["--isa", "rv64gc"], "cpop a0, a1", 1, "cpop belongs to Zbb"),
        (["--isa", "rv64gq"], "nop", 2, "has the unknown extension 'Q'"),
        (["--step-limit", "5"], "here: j here", 1, "not ended after 5 instructions"),
        (["--time-limit", "0.1"], "here: j here", 1, "did not end within 0.1 s"),
        ([], "li a7, 5\necall", 3, "not modelled: Linux call 5"),
    ],
)
def test_what_goes_wrong(
    capsys: Capture, tmp_path: Path, options: list[str], text: str, status: int, reported: str
) -> None:
    path = tmp_path / "bad.elf"
    path.write_bytes(assemble_program(f".globl _start\n_start:\n{text}\n"))
    found = run(capsys, *options, str(path))
    assert (found[0], found[1]) == (status, "")
    assert reported in found[2]


def test_files_that_are_none(capsys: Capture, tmp_path: Path) -> None:
    assert run(capsys, str(tmp_path / "none"))[0] == 2
    (tmp_path / "text").write_text("hello")
    status, _, err = run(capsys, str(tmp_path / "text"))
    assert status == 1
    assert err.startswith("error: ")


def test_engines_that_differ(capsys: Capture, monkeypatch: pytest.MonkeyPatch, echo: str) -> None:
    run_it = RV64.run

    def wrong(*given: Any, engine: str, **more: Any) -> Any:
        result = run_it(*given, engine="reference", **more)
        if engine == "jit":
            object.__setattr__(result, "pc", 4)
        return result

    monkeypatch.setattr(RV64, "run", staticmethod(wrong))
    status, _, err = run(capsys, "--both-engines", echo, "one")
    assert status == 1
    assert "engines differ: pc is 4 on the JIT engine, 65" in err


PRINTS_AND_FAULTS = """
    .globl _start
_start:
    li a0, 1
    auipc a1, 0
    addi a1, a1, 20
    li a2, 4
    li a7, 64
    ecall
    sw zero, 0(zero)
    .byte 111, 110, 101, 10
"""


@pytest.mark.parametrize("options", [[], ["--both-engines"], ["--json"]])
def test_what_was_printed_before_a_fault_is_shown(capsys: Capture, tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "faults.elf"
    path.write_bytes(assemble_program(PRINTS_AND_FAULTS))
    status, out, err = run(capsys, *options, str(path))
    assert (status, "store/AMO access fault" in err) == (1, True)
    if options == ["--json"]:
        found = json.loads(out)
        assert (found["console"], found["error"].partition(",")[0] in err) == ("one\n", True)
    else:
        assert out == "one\n"
