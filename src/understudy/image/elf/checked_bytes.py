"""The bytes of an ELF file, which come from outside: nothing in them is used before it was checked against the file.

Base of all readers of ELF files here: RISC-V kernels (`image.elf`), AMD GPU objects (`image.hsa.elf`) and containers of
AMD OpenCL 2.0 (`image.amdcl2.elf`). Every refusal is a `WireError` that names the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from understudy.core.errors import WireError
from understudy.core.record import Record
from understudy.core.words import align_up

MAGIC: Final = b"\x7fELF"
MAX_NAME_BYTES: Final = 4096
"""Longest name that is believed."""
MAX_ALIGNMENT: Final = 1 << 16
"""Largest alignment that is believed."""
MAX_OVERLAP: Final = 4
"""How often the file's bytes may be claimed over all things of a kind: real files claim each once."""

AnyRecord = TypeVar("AnyRecord", bound=Record)


def wrong(message: str, byte: int) -> WireError:
    """A refusal with its place."""
    return WireError(message).at("byte", byte)


def check_magic(data: bytes, base: int = 0) -> None:
    """A `WireError` for what is no ELF file; `base` is where it begins in the file around it."""
    if data[:4] != MAGIC:
        raise wrong(f"file starts with {data[:4].hex(' ') or 'nothing'}, expected 7f 45 4c 46 (ELF)", base)


class ElfBytes:
    """The bytes of a file; `base` is where it begins in the file around it, for messages."""

    def __init__(self, data: bytes, base: int = 0) -> None:
        self.data = data
        self.base = base

    def wrong(self, message: str, byte: int) -> WireError:
        """A refusal with the byte of the outermost file."""
        return wrong(message, self.base + byte)

    def inside(self, what: str, start: int, size: int, place: int) -> None:
        """`size` bytes at `start` must lie in the file; `place` is the byte that claims so."""
        if start + size > len(self.data):
            text = f"{what} at {start:#x}..{start + size:#x} runs over the file's {len(self.data):#x} bytes"
            raise self.wrong(text, place)

    def aligned(self, end: int, alignment: int, section: str, place: int) -> int:
        """Where a section may begin that needs an alignment; `place` is the byte that says so."""
        if alignment & alignment - 1 or alignment > MAX_ALIGNMENT:
            text = f"section {section} has alignment {alignment:#x}, expected a power of two up to {MAX_ALIGNMENT:#x}"
            raise self.wrong(text, place)
        return align_up(end, alignment)

    def claim(self, what: str, claimed: int, place: int) -> int:
        """`claimed`, the bytes that all `what` up to `place` claim: no more than work may be done for."""
        if claimed > MAX_OVERLAP * len(self.data):
            text = f"{what} up to here claim {claimed:#x} bytes of a file of {len(self.data):#x}"
            raise self.wrong(text, place)
        return claimed

    def entries(self, what: str, at: int, count: int, entry: int, smallest: int) -> range:
        """Offsets of the entries of a table, of `entry` bytes each; it must lie in the file as a whole."""
        if count and entry < smallest:
            raise self.wrong(f"entries of the {what} have {entry} bytes, expected {smallest}", at)
        self.inside(what, at, count * entry, at)
        return range(at, at + count * entry, max(entry, 1))

    def records(self, what: str, at: int, count: int, entry: int, record: type[AnyRecord]) -> Iterator[AnyRecord]:
        """The records of a table."""
        return (record.parse(self.data, place) for place in self.entries(what, at, count, entry, record.size_bytes))

    def name_at(self, start: int, end: int) -> str | None:
        """The name from `start` on; None where it does not end before `end`, or is longer than is believed."""
        stop = self.data.find(b"\0", start, min(end, start + MAX_NAME_BYTES + 1))
        return None if stop < 0 else self.data[start:stop].decode("utf-8", "backslashreplace")
