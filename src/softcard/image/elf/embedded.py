"""ELF files inside other files: code objects in a host program's offload bundle, kernels inside a program, object files
in a static library.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from softcard.image.elf.layout import SHT_NOBITS, SHT_SYMTAB, FileHeader, ProgramHeader, SectionHeader
from softcard.image.elf.reader import ElfFile

MAGIC: Final = b"\x7fELF\x02\x01"
"""The first bytes of a little-endian 64-bit ELF file."""
MOST_FILE_BYTES: Final = 1 << 28
"""The size in bytes of the largest file that is searched for ELF files."""


def embedded(data: bytes, machine: int) -> Iterator[bytes]:
    """Yield every ELF file in `data` whose e_machine is `machine`, including `data` itself.

    Each one ends after its last table, segment or section. Truncated ELF files are left out.
    """
    view = memoryview(data)
    at = data.find(MAGIC)
    while at >= 0:
        inside = view[at:]
        if len(inside) >= FileHeader.size_bytes:
            header = FileHeader.parse(inside)
            end = _end(inside, header) if header.machine == machine else 0
            if 0 < end <= len(inside):
                yield bytes(inside[:end])
        at = data.find(MAGIC, at + 1)


def _end(data: memoryview, header: FileHeader) -> int:
    """Return the size of the ELF file that starts at the start of `data`; 0 if one of its tables exceeds `data`."""
    segments, sections = ProgramHeader.size_bytes, SectionHeader.size_bytes
    ends = [header.phoff + header.phnum * segments, header.shoff + header.shnum * sections]
    if max(ends) > len(data):
        return 0
    for at in range(header.phoff, ends[0], segments):
        segment = ProgramHeader.parse(data, at)
        ends.append(segment.offset + segment.filesz)
    for at in range(header.shoff, ends[1], sections):
        section = SectionHeader.parse(data, at)
        ends.append(section.offset + (0 if section.type == SHT_NOBITS else section.size))
    return max(ends)


class Files:
    """Host files that may contain device code; they are searched for embedded ELF files."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = [path for path in dict.fromkeys(paths) if os.path.isfile(path)]
        self._found: dict[int, list[tuple[str, bytes]]] = {}

    def elf_files(self, machine: int) -> list[tuple[str, bytes]]:
        """Return every ELF file for a machine in the host files, each with the name of its host file."""
        if machine not in self._found:
            self._found[machine] = [(name, each) for name, data in self._contents() for each in embedded(data, machine)]
        return self._found[machine]

    def _contents(self) -> Iterator[tuple[str, bytes]]:
        for path in self._paths:
            try:
                if path.stat().st_size <= MOST_FILE_BYTES:
                    yield path.name, path.read_bytes()
            except OSError:
                continue


# ---- static libraries ------------------------------------------------------------------------------------------------
# Static libraries: archives of object files, from which a linker takes those that define what a program needs.


ARCHIVE_MAGIC: Final = b"!<arch>\n"


def archive(members: Mapping[str, bytes]) -> bytes:
    """Return a static library (``ar``, System V's format) of 64-bit object files, with a symbol index.

    `members` maps file names of at most 15 characters to contents.
    """
    names = [
        [symbol.name for symbol in ElfFile(data, 64).symbol_table(SHT_SYMTAB) if symbol.is_global and symbol.is_defined]
        for data in members.values()
    ]
    strings = b"".join(name.encode() + b"\0" for each in names for name in each)
    at = len(ARCHIVE_MAGIC) + len(_member("/", bytes(4 + 4 * sum(map(len, names))) + strings))
    places, files = bytearray(), bytearray()
    for (name, data), symbols in zip(members.items(), names, strict=True):
        places += (at + len(files)).to_bytes(4, "big") * len(symbols)
        files += _member(name + "/", data)
    count = sum(map(len, names)).to_bytes(4, "big")
    return ARCHIVE_MAGIC + _member("/", count + places + strings) + files


def _member(name: str, data: bytes) -> bytes:
    """Return an archive member: its header and its data, padded to an even size.

    The header holds name, time, owner, group, mode, size.
    """
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
