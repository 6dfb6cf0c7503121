"""The ELF files, of 32 or 64 bits, that program binaries of AMD OpenCL 2.0 contain, with their deviations.

Three deviations are accepted: ET_REL files whose symbol 0 is a real symbol (driver 1912.05); string tables that
do not begin with a 0, so that a name may stand at offset 0 (the same driver); and string tables whose last name
lacks its 0."""

from __future__ import annotations

from functools import cached_property

from softcard.image.elf.layout import SHT_NOTE, SHT_NULL, SHT_RELA, SHT_SYMTAB, ProgramHeader
from softcard.image.elf.reader import (
    ElfFile,
    Note,
    Relocation,
    Section,
    Symbol,
    check_encoding,
    check_magic,
    wrong,
)


class Elf(ElfFile):
    """An ELF file whose tables are parsed on first use.

    `relocations` finds a relocation table by the name of its section.
    """

    is_odd = True

    @cached_property
    def segments(self) -> tuple[ProgramHeader, ...]:
        """The program headers; empty for 32-bit files, whose program headers are not read."""
        return tuple(entry for _, entry in self.program_headers()) if self.bits == 64 and self.header.phnum else ()

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbol table."""
        return tuple(self.symbol_table(SHT_SYMTAB))

    def relocations(self, name: str) -> tuple[Relocation, ...]:
        """Return the relocations in the section `name`; raise `WireError` if one refers to a missing symbol."""
        section = self.section(name)
        is_table = section is not None and section.header.type == SHT_RELA
        return tuple(self.relocation_table(section, self.symbols)) if section is not None and is_table else ()

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """The notes of all note sections.

        If a note extends past the end of its section, it and the rest of that section are ignored.
        """
        places = [self.extent(each) for each in self.sections if each.header.type == SHT_NOTE]
        return tuple(note for start, size in places for note in self.notes_in(start, start + size))

    def extent(self, section: Section | None) -> tuple[int, int]:
        """Return the offset and the size of a section's bytes in the file; (0, 0) if `section` is None."""
        return (0, 0) if section is None or section.header.type == SHT_NULL else super().extent(section)


def read_elf(data: bytes, base: int = 0) -> Elf:
    """Return the ELF file in `data`, which begins at offset `base` of the whole file.

    Raise `WireError` if it is not a little-endian ELF file.
    """
    check_magic(data, base)
    bits = {1: 32, 2: 64}.get(data[4]) if len(data) > 4 else None
    if bits is None:
        raise wrong(
            f"EI_CLASS is {data[4] if len(data) > 4 else 'missing'}, expected 1 (32-bit) or 2 (64-bit)", base + 4
        )
    found = Elf(data, bits, base)
    check_encoding(found.header.data_encoding, base)
    return found
