"""The names of programs' sources in messages: the user's file where it is known, also of a binary."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from softcard.host.opencl import programs
from softcard.host.opencl.programs import file_with, source_of, with_source

SOURCE = b"kernel void f(global int *x)\n{\n    *x = 1;\n}\n"
SCRIPT = b'SOURCE = """\n' + SOURCE + b'"""\n'
ADDED = b"\n\n__constant int pyopencl_defeat_cache_0123456789abcdef0123456789abcdef = 0;"
"""The line that pyopencl appends to a source."""


@pytest.mark.parametrize("added", [b"", ADDED])
def test_the_file_that_has_the_source(tmp_path: Path, added: bytes) -> None:
    assert file_with(SOURCE + added, tmp_path) == ("", 0)
    (tmp_path / "other.cl").write_bytes(SOURCE.replace(b"1", b"2"))
    (tmp_path / "longer.cl").write_bytes(SOURCE + b"\n")  # such a file is not the source
    assert file_with(SOURCE + added, tmp_path) == ("", 0)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "f.cl").write_bytes(SOURCE)
    assert file_with(SOURCE + added, tmp_path) == ("kernels/f.cl", 1)
    assert file_with(SOURCE + added, tmp_path / "kernels") == ("f.cl", 1)


def test_the_script_that_contains_the_source(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_bytes(b"import f\n" + SCRIPT)
    (tmp_path / "f.py").write_bytes(SCRIPT)
    words = ["python", "main.py", "data"]
    assert file_with(SOURCE + ADDED, tmp_path, words) == ("main.py", 3), "the command line comes first"
    os.remove(tmp_path / "main.py")
    assert file_with(SOURCE + ADDED, tmp_path, words) == ("f.py", 2)
    (tmp_path / "elsewhere").mkdir()
    script = str(tmp_path / "f.py")
    assert file_with(SOURCE, tmp_path / "elsewhere", ["python", script]) == (script, 2)


def test_large_scripts_and_many_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f.py").write_bytes(SCRIPT)
    monkeypatch.setattr(programs, "MOST_SCRIPT_BYTES", len(SCRIPT) - 1)
    assert file_with(SOURCE, tmp_path) == ("", 0)
    monkeypatch.setattr(programs, "MOST_SCRIPT_BYTES", len(SCRIPT))
    monkeypatch.setattr(programs, "MOST_FILES", 0)
    assert file_with(SOURCE, tmp_path) == ("", 0)


def test_a_binary_has_its_source() -> None:
    program = cast(Any, SimpleNamespace(place=("ü.py", 7), source=SOURCE))
    binary = with_source(b"\x7fELF code", program)
    assert binary.startswith(b"\x7fELF code")
    assert source_of(binary) == ("ü.py", 7, SOURCE)


@pytest.mark.parametrize("damage", [slice(0), slice(20), slice(-30, None), slice(-31, None)])
def test_other_binaries_have_none(damage: slice) -> None:
    program = cast(Any, SimpleNamespace(place=("f.py", 1), source=SOURCE))
    assert source_of(with_source(b"\x7fELF code", program)[damage]) is None
