"""Bytes or a file, and names: what every host API says of anything else."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from softcard import Gpu, RefSi, load
from softcard.core.errors import WireError
from softcard.core.files import Unreadable, bytes_of, read_at_most, text_of
from softcard.image.arrow_schema import read_arrow
from softcard.riscv import RV64

TAKEN: dict[str, Callable[[object], object]] = {
    "a code object": lambda source: Gpu.open("gfx900").load(source),  # type: ignore[arg-type]
    "a program": lambda source: load(source),  # type: ignore[arg-type]
    "a RISC-V program": lambda source: RefSi.open().load_elf(source),  # type: ignore[arg-type]
    "a RISC-V program ": lambda source: RV64.run(source),  # type: ignore[arg-type]
    "a schema": lambda source: read_arrow(source),  # type: ignore[arg-type]
}


def test_bytes_of_all_kinds(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    for source in (b"abc", bytearray(b"abc"), memoryview(b"abc"), str(path), path):
        assert bytes_of(source, "it") == b"abc"
    assert bytes_of(memoryview(array("H", [0x6261])), "it") == b"ab"
    assert bytes_of(path, "it", 3) == b"abc"
    with pytest.raises(Unreadable, match=r"cannot read .*file: the file is larger than 2 bytes"):
        bytes_of(path, "it", 2)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """The system knows its size; of a pipe nobody does, so that so much is read."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with path.open("rb") as file:
        assert read_at_most(file, 1 << 30) is None
        assert file.tell() == 0
        file.seek((1 << 40) - 2)
        assert read_at_most(file, 2) == b"\0\0"
    assert read_at_most(BytesIO(b"abc"), 3) == b"abc"
    assert read_at_most(BytesIO(b"abc"), 2) is None


@pytest.mark.parametrize("what", TAKEN)
def test_what_is_neither(what: str, tmp_path: Path) -> None:
    for source, reported in (
        (None, f"{what.strip()} must be a path or bytes, not None"),
        (7, f"{what.strip()} must be a path or bytes, not an int"),
        (3.5, f"{what.strip()} must be a path or bytes, not a float"),
        (tmp_path / "none", "cannot read .*none: No such file or directory"),
        (tmp_path, "cannot read .*: Is a directory"),
        ("a\0b", "cannot read .*: embedded null byte"),
    ):
        with pytest.raises(WireError, match=reported):
            TAKEN[what](source)


def test_names_are_text() -> None:
    assert text_of("name", "it") == "name"
    with pytest.raises(WireError, match="it must be text, not a bytes"):
        text_of(b"name", "it")  # type: ignore[arg-type]
    with RefSi.open() as device, pytest.raises(WireError, match="a kernel's name must be text, not an int"):
        device.launch(5, 1)  # type: ignore[arg-type]
    with Gpu.open("gfx900") as gpu, pytest.raises(WireError, match="source must be text, not a bytes"):
        gpu.compile(b"kernel void k() {}")  # type: ignore[arg-type]


def test_a_file_that_cannot_be_read_crosses_processes_whole(tmp_path: Path) -> None:
    with pytest.raises(Unreadable) as caught:
        bytes_of(tmp_path / "none", "it")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.why) == (str(caught.value), "No such file or directory")
