"""ELF files inside other files: code objects in a host program's offload bundle, kernels that a program carries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from understudy.image.elf.layout import SHT_NOBITS, FileHeader, ProgramHeader, SectionHeader

MAGIC: Final = b"\x7fELF\x02\x01"
"""Of 64 bits, little-endian."""
MOST_FILE_BYTES: Final = 1 << 28
"""Of a file that is searched."""


def embedded(data: bytes, machine: int) -> Iterator[bytes]:
    """Every ELF file in `data`, itself included, that is for a machine (e_machine).

    It reaches to the end of its tables, segments and sections, whichever comes last. What breaks off is left out.
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
    """How long the file is; 0 where a table lies outside."""
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
    """The files in which programs may have the code that they load."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = [path for path in dict.fromkeys(paths) if path.is_file()]
        self._found: dict[int, list[tuple[str, bytes]]] = {}

    def elf_files(self, machine: int) -> list[tuple[str, bytes]]:
        """Every ELF file for a machine that is one of them, or inside one, with the name of that."""
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
