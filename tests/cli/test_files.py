"""Files that cannot be read: exit status 2 and a message that names them, in every command that takes one."""

from __future__ import annotations

import io
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import typer

from softcard.cli import files, main
from softcard.cli.app import COMMANDS, tree
from softcard.cli.exits import UsageError
from softcard.cli.files import read_file
from softcard.core.errors import SoftcardError
from tests.cli.test_run import CODE
from tests.host.amdcl2.rig import FOLDER, vectors

Capture = pytest.CaptureFixture[str]

PROGRAM = str(FOLDER / f"{vectors('vadd')[0]}.clo")
SOURCE = str(Path(CODE).parent / "kernels.c")
EXEC = ["exec", "--agent", "gfx900"]
SAXPY = ["--arg", "1", "--arg", "f32:64", "--arg", "f32:64"]
READS = {
    ("amdcl2 patch", "file"): ["amdcl2", "patch", "FILE", "k", CODE, "-o", "out.clo"],
    ("amdcl2 patch", "code"): ["amdcl2", "patch", PROGRAM, "vadd", "FILE", "-o", "out.clo"],
    ("asm", "file"): ["asm", "FILE"],
    ("bench", "kernel"): ["bench", "--kernel", "FILE"],
    ("campaign", "file"): ["campaign", "FILE", "-o", "OUT"],
    ("check", "paths"): ["check", "FILE"],
    ("diff", "one"): ["diff", "FILE", CODE],
    ("diff", "other"): ["diff", CODE, "FILE"],
    ("disasm", "file"): ["disasm", "FILE"],
    ("doctor", "files"): ["doctor", "--warm", "FILE"],
    ("exec", "schemas"): ["exec", "--schema", "FILE", "true"],
    ("fletcher check", "schemas"): ["fletcher", "check", "FILE"],
    ("fletcher map", "schemas"): ["fletcher", "map", "FILE"],
    ("fletcher new", "schemas"): ["fletcher", "new", "name", "FILE"],
    ("inspect", "files"): ["inspect", "FILE"],
    ("refsi build", "file"): ["refsi", "build", "FILE"],
    ("refsi decode", "file"): ["refsi", "decode", "FILE"],
    ("refsi encode", "file"): ["refsi", "encode", "FILE"],
    ("refsi lint", "file"): ["refsi", "lint", "FILE"],
    ("refsi play", "script"): ["refsi", "play", "FILE"],
    ("report", "code"): ["report", CODE, "--code", "FILE"],
    ("report", "path"): ["report", "FILE"],
    ("rv64", "program"): ["rv64", "FILE"],
    ("rv64", "stdin"): ["rv64", "--stdin", "FILE", CODE],
    ("run", "file"): ["run", "FILE", "saxpy"],
    ("run", "file, a source"): ["run", "FILE", "saxpy", "--agent", "gfx900"],
    ("run", "suppressions"): ["run", CODE, "saxpy", *SAXPY, "--check", "memory", "--suppressions", "FILE"],
    ("run", "arguments"): ["run", CODE, "saxpy", "--arg", "@FILE"],
    ("serve refsi", "suppressions"): ["serve", "refsi", "--check", "memory", "--suppressions", "FILE"],
    ("exec", "code"): ["exec", "--code", "FILE", "true"],
    ("exec", "suppressions"): [*EXEC, "--check", "memory", "--suppressions", "FILE", "true"],
    ("serve fletcher", "kernel"): ["serve", "fletcher", "--no-library", "--kernel", "FILE:sum"],
    ("serve fletcher", "schemas"): ["serve", "fletcher", "--no-library", "--schema", "FILE"],
    ("trace", "path"): ["trace", "FILE"],
}
"""Every option and argument that names a file to read."""
WRITES = {
    ("amdcl2 patch", "output"): ["amdcl2", "patch", PROGRAM, "vadd", "TEXT", "-o", "FILE"],
    ("asm", "output"): ["asm", "TEXT", "-o", "FILE"],
    ("refsi build", "output"): ["refsi", "build", SOURCE, "-o", "FILE"],
    ("refsi encode", "output"): ["refsi", "encode", "WORDS", "-o", "FILE"],
    ("report", "output"): ["report", "EVENTS", "-o", "FILE"],
    ("trace", "output"): ["trace", "EVENTS", "-o", "FILE"],
    ("rv64", "signature"): ["rv64", "--signature", "FILE", "EXIT.s"],
    ("exec", "coverage"): [*EXEC, "--coverage", "FILE", "true"],
    ("exec", "findings"): [*EXEC, "--check", "memory", "--findings", "FILE", "true"],
    ("exec", "profile_file"): [*EXEC, "--profile-file", "FILE", "true"],
    ("exec", "report"): ["exec", "--report", "FILE", "true"],
    ("exec", "summary_file"): [*EXEC, "--summary-file", "FILE", "true"],
    ("exec", "trace_file"): [*EXEC, "--trace-file", "FILE", "true"],
    ("run", "coverage"): ["run", CODE, "saxpy", *SAXPY, "--coverage", "FILE"],
    ("run", "findings"): ["run", CODE, "saxpy", *SAXPY, "--check", "memory", "--findings", "FILE"],
    ("run", "report"): ["run", CODE, "saxpy", *SAXPY, "--report", "FILE"],
    ("run", "save"): ["run", CODE, "saxpy", *SAXPY, "--save", "2=FILE"],
}
SOCKETS = {("serve acceldev", "paths"), ("serve fletcher", "socket"), ("serve refsi", "socket")}
FOLDERS = {("fletcher new", "folder")}
"""Made where they are not there."""
OPENCL = {("opencl install", "prefix"), ("opencl uninstall", "prefix"), ("opencl env", "suppressions")}
"""Folders that must exist, and a file that only other programs read: tests/cli/test_opencl.py."""
CAMPAIGNS = {
    ("campaign", "output"),
    ("compare", "folder"),
    ("compare", "html"),
    ("compare", "junit"),
    ("triage", "folder"),
}
"""What campaigns write, and what is made of that: tests/campaign."""
NAMED_BY_TEXT = {("serve fletcher", "kernel"), ("run", "arguments"), ("run", "save")}


def parameters(group: typer.Typer, name: str = "") -> Iterator[tuple[str, str]]:
    """Every parameter of every command that is a path."""
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from parameters(below.typer_instance, f"{name} {below.name}".strip())
    for command in group.registered_commands:
        assert command.callback is not None
        full = f"{name} {command.name or command.callback.__name__}".strip()
        for parameter, hint in get_type_hints(command.callback).items():
            if "Path" in str(hint):
                yield full, parameter


def test_every_command_that_takes_a_file_is_in_the_tables() -> None:
    found = set(parameters(tree(list(COMMANDS))))
    listed = (
        {(command, what.partition(",")[0]) for command, what in [*READS, *WRITES]}
        | SOCKETS
        | FOLDERS
        | CAMPAIGNS
        | OPENCL
    )
    assert found | NAMED_BY_TEXT == listed


def run(capsys: Capture, arguments: list[str], **names: str) -> tuple[int, str]:
    for name, value in names.items():
        arguments = [each.replace(name, value) for each in arguments]
    status = main(arguments)
    return status, capsys.readouterr().err


SUFFIXES = {("serve fletcher", "kernel"): ".py", ("run", "file, a source"): ".cl", ("refsi build", "file"): ".c"}


@pytest.mark.parametrize("what", ["missing", "folder", "below a file", "loop", "too long", "unreadable"])
@pytest.mark.parametrize("which", READS, ids=" ".join)
def test_what_cannot_be_read(capsys: Capture, tmp_path: Path, which: tuple[str, str], what: str) -> None:
    path = tmp_path / f"code{SUFFIXES.get(which, '.co')}"
    reason = "No such file or directory"
    if what == "folder":
        path.mkdir()
        reason = "Is a directory"
    elif what == "below a file":
        (tmp_path / "file").write_bytes(b"")
        path = tmp_path / "file" / path.name
        reason = "Not a directory"
    elif what == "loop":
        path.symlink_to(path)
        reason = "Too many levels of symbolic links"
    elif what == "too long":
        path = tmp_path / ("x" * 300 + path.suffix)
        reason = "File name too long"
    elif what == "unreadable":
        path.symlink_to("/proc/self/mem")  # opens, and then cannot be read at its beginning
        reason = "Input/output error"
    status, err = run(capsys, READS[which], FILE=str(path))
    assert (status, err) == (2, f"error: cannot read {path}: {reason}\n")


CONTENTS = {
    "empty": b"",
    "binary": bytes((7 * n * n + n // 3) % 251 for n in range(5000)),
    "long line": b"x" * 20_000,
    "brackets": b"[" * 100_000,
    "half an ELF file": b"\x7fELF\x02\x01\x01" + bytes(40),
}
RUNS_ON = {"serve fletcher", "serve refsi", "exec"}
"""Commands that would serve, or run a program, whatever the file holds; what they read is tested with them."""
COMPILED = {("run", "file, a source"), ("refsi build", "file")}
"""What a compiler reads, which takes minutes for a name of that length."""


@pytest.mark.parametrize("what", CONTENTS)
@pytest.mark.parametrize("which", [each for each in READS if each[0] not in RUNS_ON], ids=" ".join)
def test_what_holds_nothing_or_nonsense(capfd: Capture, tmp_path: Path, which: tuple[str, str], what: str) -> None:
    if which in COMPILED and what == "long line":
        what = "empty"
    path = tmp_path / f"code{SUFFIXES.get(which, '.co')}"
    path.write_bytes(CONTENTS[what])
    status, err = run(capfd, READS[which], FILE=str(path))
    assert status in (0, 1, 2), err
    assert "bug in" not in err
    assert "Traceback" not in err
    if status == 0:
        assert what == "empty" or which[0] in ("disasm", "diff", "refsi encode")
    else:
        assert status == 1 or "error: " in err or "Usage: " in err


HUGE_BYTES = 3 << 30
LITTLE_KB = 400_000
"""How much more memory a command may take for a file that it refuses."""


ARRAYS = ("run", "arguments")
"""What an array holds may be as large as it likes."""


@pytest.mark.parametrize("which", [each for each in READS if each[0] not in RUNS_ON and each != ARRAYS], ids=" ".join)
def test_what_is_huge(capfd: Capture, tmp_path: Path, which: tuple[str, str]) -> None:
    path = tmp_path / f"code{SUFFIXES.get(which, '.co')}"
    with path.open("wb") as file:
        file.truncate(HUGE_BYTES)  # no blocks of the disk
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status, err = run(capfd, READS[which], FILE=str(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < LITTLE_KB
    assert status in (1, 2)
    assert "error: " in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["disasm", "--help"], ["devices"], ["describe", "refsi"]])
def test_standard_output_that_takes_nothing(arguments: list[str]) -> None:
    for unbuffered in ("", "1"):
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        command = [sys.executable, "-m", "softcard", *arguments]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
        expected = "error: cannot write standard output: No space left on device\n"
        assert (done.returncode, done.stderr) == (2, expected)


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8:strict", b"\xffk.html"), ("ascii:strict", b"\\udcffk.html")])
def test_names_that_are_no_text(tmp_path: Path, encoding: str, shown: bytes) -> None:
    """Names of files are bytes, whatever the locale says of text."""
    trace = tmp_path / os.fsdecode(b"\xffk.jsonl")
    trace.write_text('{"time": 0, "event": "command-started"}\n')
    command = [sys.executable, "-m", "softcard", "report", str(trace), "-o", os.fsdecode(b"\xffk.html")]
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, shown + b": 0.1 MB\n", b"")


@pytest.mark.oracle
def test_a_source_whose_name_is_no_text(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"\xff.cl")
    source.write_text("kernel void one(global int *x) { x[get_global_id(0)] = 1; }\n")
    arguments = ["run", str(source), "one", "--agent", "gfx900", "--arg", "i32:63", "--grid", "64", "--check", "memory"]
    status, err = run(capsys, arguments)
    assert (status, err) == (1, "")


UNKNOWN_ORIGIN = 65534


@contextmanager
def as_plain_user() -> Iterator[None]:
    """As a user who may not read everything, which the superuser may."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(UNKNOWN_ORIGIN)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("which", READS, ids=" ".join)
def test_what_is_forbidden(capsys: Capture, which: tuple[str, str]) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # which everybody may enter
        folder = Path(name)
        folder.chmod(0o755)
        copies = {CODE: str(folder / "kernels.co"), PROGRAM: str(folder / "program.clo")}
        for original, copied in copies.items():
            shutil.copyfile(original, copied)
        missing, path = (folder / f"{each}{SUFFIXES.get(which, '.co')}" for each in ("missing", "forbidden"))
        path.write_bytes(b"")
        path.chmod(0)
        arguments = [copies.get(each, each) for each in READS[which]]
        assert run(capsys, arguments, FILE=str(missing))[0] == 2  # imports what a plain user might not be able to
        with as_plain_user():
            status, err = run(capsys, arguments, FILE=str(path))
        assert (status, err) == (2, f"error: cannot read {path}: Permission denied\n")


@pytest.mark.parametrize("command", [["inspect"], ["check"], ["run"], ["disasm"], ["exec"]], ids=" ".join)
def test_a_misspelt_file(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    """The message names files of the same folder with names that are close."""
    verb = "run" if command == ["exec"] else "read"
    for name in ("kernels.co", "kernel.co", "unlike"):
        (tmp_path / name).write_bytes(b"")
    missing = tmp_path / "kernle.co"
    expected = f"error: cannot {verb} {missing}: No such file or directory; did you mean 'kernel.co' or 'kernels.co'?\n"
    assert run(capsys, [*command, str(missing)]) == (2, expected)
    monkeypatch.setattr(files, "MOST_NEAR", 0)
    assert run(capsys, [*command, str(missing)]) == (2, f"{expected.partition(';')[0]}\n")


@pytest.mark.parametrize("which", [each for each in WRITES if each[0] not in ("exec", "refsi build")], ids=" ".join)
def test_a_folder_that_is_read_only(capsys: Capture, which: tuple[str, str]) -> None:
    """Not of commands that start programs, which a plain user might not be able to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        copies = {CODE: folder / "kernels.co", PROGRAM: folder / "program.clo"}
        for original, copied in copies.items():
            shutil.copyfile(original, copied)
        texts = {"text": "s_endpgm\n", "words": "0\n", "exit.s": ".globl _start\n_start: li a7, 93\necall\n"}
        texts["events"] = '{"event": "command-started", "time": 0}\n'
        for file, text in texts.items():
            (folder / file).write_text(text)
        names = {each.partition(".")[0].upper(): str(folder / each.partition(".")[0]) for each in texts}
        arguments = [str(copies.get(each, each)) for each in WRITES[which]]
        assert run(capsys, arguments, **names, FILE=str(folder / "out.json"))[0] in (0, 1)  # what it imports is there
        (folder / "out.json").unlink()
        folder.chmod(0o555)
        with as_plain_user():
            status, err = run(capsys, arguments, **names, FILE=str(folder / "out.json"))
        reason = f"error: cannot write {folder / 'out.json'}: Permission denied"
        assert (status, err.splitlines()[-1]) == (2, reason)


@pytest.mark.parametrize("which", WRITES, ids=" ".join)
def test_what_cannot_be_written(capsys: Capture, tmp_path: Path, which: tuple[str, str]) -> None:
    (tmp_path / "text").write_text("s_endpgm\n")
    (tmp_path / "words").write_text("0\n")
    (tmp_path / "events").write_text('{"event": "command-started", "time": 0}\n')
    (tmp_path / "exit.s").write_text(".globl _start\n_start: li a7, 93\necall\n")
    names = {each.upper(): str(tmp_path / each) for each in ("text", "words", "events", "exit")}
    folder = tmp_path / "folder.json"  # some commands know by the suffix what to write
    folder.mkdir()
    targets = {
        tmp_path / "none" / "out.json": "No such file or directory",
        folder: "Is a directory",
        tmp_path / ("x" * 300 + ".json"): "File name too long",
    }
    for target, reason in targets.items():
        status, err = run(capsys, WRITES[which], **names, FILE=str(target))
        is_checked = which == ("exec", "findings")  # what was found is said before it might be lost
        *reported, last = err.splitlines()
        assert (status, last) == (2, f"error: cannot write {target}: {reason}")
        assert reported[-1:] == ["checked: nothing, since no kernel ran"] * is_checked


@pytest.mark.parametrize("arguments", [["inspect"], ["refsi", "play"], ["refsi", "decode", "-"], ["asm", "-"]])
def test_a_standard_input_that_is_closed(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert run(capsys, arguments) == (2, "error: cannot read -: standard input is closed\n")


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 an archive, damaged",
        b"\x80\x04]q\0.",
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (64,), }", b"short"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 50,), }"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1125899906842624,), }"),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\x80\x04N."),
        npy("]"),
    ],
)
def test_what_is_no_array(capsys: Capture, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    status, err = run(capsys, READS["run", "arguments"], FILE=str(path))
    assert status == 2
    assert err.startswith(f"error: {path} cannot be read as a .npy file: ")


def test_an_archive_of_arrays_is_no_array(capsys: Capture, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(64))
    status, err = run(capsys, READS["run", "arguments"], FILE=str(tmp_path / "x.npz"))
    assert (status, "cannot be read as a .npy file" in err) == (2, True)


def test_files_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "code"
    path.write_bytes(bytes(101))
    with pytest.raises(UsageError, match=r"code is larger than 100 bytes"):
        read_file(path, 100)
    assert read_file(path, 101) == bytes(101)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"abc")))
    assert read_file(Path("-")) == b"abc"
    assert issubclass(UsageError, SoftcardError)


LITTLE_ADDRESSES = 2 << 30
"""The address space of a command that must not ask for more."""


@pytest.mark.parametrize("name", ["empty.bin", "huge.bin", "huge.npy"])
def test_arrays_of_files_take_no_more_memory_than_their_files(tmp_path: Path, name: str) -> None:
    """A small file needs little memory. A file that does not fit into memory is an error with that reason."""
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(HUGE_BYTES if name.startswith("huge") else 256)
    command = [sys.executable, "-m", "softcard", "run", CODE, "saxpy", "--arg", "1"]
    command += ["--arg", f"@{path}", "--arg", "f32:64"]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (LITTLE_ADDRESSES, LITTLE_ADDRESSES))

    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, env=environment, check=False)
    message = f"error: cannot read {path}: it does not fit into the memory that is left\n"
    assert (done.returncode, done.stderr) == ((2, message) if name.startswith("huge") else (0, ""))


def test_a_command_that_runs_out_of_memory(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(files, "read_file", fail)
    monkeypatch.setattr("softcard.cli.assembly.read_file", fail)
    status, err = run(capsys, ["disasm", str(tmp_path / "code.co")])
    assert (status, err) == (
        2, "error: the command needs more memory than is left: give it smaller files or arrays\n"
    )  # fmt: skip


def test_an_empty_file_to_compile_in_advance(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "empty.co").write_bytes(b"")
    status, err = run(capsys, ["doctor", "--warm", str(tmp_path / "empty.co")])
    assert (status, str(tmp_path / "empty.co") in err) == (1, True)
