"""What a program's run-time library says it has loaded: read from memory that may hold anything."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from softcard.device.kfd import code_files
from softcard.device.kfd.code_files import MOST_LISTED, loaded_file
from softcard.device.kfd.ioctls import bad_address

START = 0x10000
LIST, MAPS, TEXTS = START, START + 0x100, START + 0x8000
SIZE = 0x10000


class Program:
    """Memory from START on, with a list of (address, URI)."""

    def __init__(self, *entries: tuple[int, str], is_endless: bool = False) -> None:
        self.memory = bytearray(SIZE)
        self.reads = 0
        for number, (base, uri) in enumerate(entries):
            link = MAPS + 40 * (number + 1) if number + 1 < len(entries) else MAPS if is_endless else 0
            text = TEXTS + 0x400 * number
            self.put(MAPS + 40 * number, struct.pack("<5Q", base, text, 0, link, 0))
            self.put(text, uri.encode() + b"\0")
        self.put(LIST, struct.pack("<iiQ", 7, 0, MAPS if entries else 0))

    def put(self, at: int, data: bytes) -> None:
        self.memory[at - START : at - START + len(data)] = data

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        if not START <= address <= address + size <= START + SIZE:
            raise bad_address("nothing there")
        return bytes(self.memory[address - START : address - START + size])

    def library(self, name: str) -> tuple[int, str] | None:
        return (LIST, "/a/library") if name == "libhsa-runtime64" else None

    def path(self, path: str) -> str:
        return path


@pytest.fixture(autouse=True)
def symbol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_files, "_symbol", lambda path: 0)


def test_files_and_memory(tmp_path: Path) -> None:
    file = tmp_path / "with space #1"
    file.write_bytes(b"before" + b"code" + b"behind")
    quoted = str(file).replace(" ", "%20").replace("#", "%23")
    program = Program(
        (0x1000, f"file://{quoted}#offset=6&size=4"),
        (0x2000, f"memory://17#offset={TEXTS + 0x3000:#x}&size=4"),
        (0x3000, f"file://{quoted}"),
    )
    program.put(TEXTS + 0x3000, b"ELF?")
    assert loaded_file(program, 0x1000) == ("with space #1", b"code")  # type: ignore[arg-type]
    assert loaded_file(program, 0x2000) == ("code of the program", b"ELF?")  # type: ignore[arg-type]
    assert loaded_file(program, 0x3000) == ("with space #1", b"beforecodebehind")  # type: ignore[arg-type]
    assert loaded_file(program, 0x4000) is None  # type: ignore[arg-type]
    assert loaded_file(Program(), 0x1000) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "uri",
    [
        "", "nonsense", "file:///not/there", "file:///", "memory://1#offset=0x10&size=16", "memory://1", "http://[",
        "memory://1#offset=x&size=1", "memory://1#offset=0&size=-1", f"memory://1#size={1 << 40}", "x" * 0x3FF,
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_nothing(uri: str) -> None:
    assert loaded_file(Program((0x1000, uri)), 0x1000) is None  # type: ignore[arg-type]


def test_a_damaged_list_ends() -> None:
    program = Program((0x1000, ""), (0x2000, ""), is_endless=True)
    assert loaded_file(program, 0x3000) is None  # type: ignore[arg-type]
    assert program.reads <= 2 * MOST_LISTED + 1
    program.put(MAPS + 24, struct.pack("<Q", 1 << 63))
    assert loaded_file(program, 0x3000) is None  # type: ignore[arg-type]
