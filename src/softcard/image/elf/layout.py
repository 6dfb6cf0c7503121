"""Record layouts of ELF files, with the numbers of the System V ABI.

The records declared here are those of 64-bit files. `layout_of` also returns those of 32-bit files, which are derived
from them and have the same fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from softcard.core import record
from softcard.core.record import Record, i64, narrowed, raw, reserved, u8, u16, u32, u64

MAGIC: Final = b"\x7fELF"
MACHINE_RISCV: Final = 243
MACHINE_AMDGPU: Final = 224
ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_TLS = 1, 2, 4, 7
PF_X, PF_W, PF_R = 1, 2, 4
PN_XNUM: Final = 0xFFFF
SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA = 0, 1, 2, 3, 4
SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 7, 8, 9, 11
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_MERGE, SHF_STRINGS = 1, 2, 4, 0x10, 0x20
SHN_UNDEF, SHN_ABS, SHN_COMMON = 0, 0xFFF1, 0xFFF2
STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE = 1, 2, 3, 4
STB_GLOBAL: Final = 1
STV_PROTECTED: Final = 3
DT_NULL, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = 0, 2, 4, 5, 6, 7, 8, 9
DT_STRSZ, DT_REL, DT_RELSZ, DT_JMPREL, DT_RELRSZ, DT_RELR, DT_GNU_HASH = 10, 17, 18, 23, 35, 36, 0x6FFF_FEF5


class FileHeader(Record, size=64):
    """The ELF file header, Elf64_Ehdr."""

    magic: bytes = raw(4)
    file_class: int = u8()
    data_encoding: int = u8()
    ident_version: int = u8()
    os_abi: int = u8()
    abi_version: int = u8()
    padding: bytes = reserved(7)
    type: int = u16()
    machine: int = u16()
    version: int = u32()
    entry: int = u64()
    phoff: int = u64()
    shoff: int = u64()
    flags: int = u32()
    ehsize: int = u16()
    phentsize: int = u16()
    phnum: int = u16()
    shentsize: int = u16()
    shnum: int = u16()
    shstrndx: int = u16()


class ProgramHeader(Record, size=56):
    """A program header, Elf64_Phdr."""

    type: int = u32()
    flags: int = u32()
    offset: int = u64()
    vaddr: int = u64()
    paddr: int = u64()
    filesz: int = u64()
    memsz: int = u64()
    align: int = u64()


class SectionHeader(Record, size=64):
    """A section header, Elf64_Shdr."""

    name_offset: int = u32()
    type: int = u32()
    flags: int = u64()
    addr: int = u64()
    offset: int = u64()
    size: int = u64()
    link: int = u32()
    info: int = u32()
    addralign: int = u64()
    entsize: int = u64()


class SymbolEntry(Record, size=24):
    """A symbol table entry, Elf64_Sym."""

    name_offset: int = u32()
    info: int = u8()
    other: int = u8()
    section: int = u16()
    value: int = u64()
    size: int = u64()


class RelEntry(Record, size=16):
    """A relocation, Elf64_Rel; its addend is in the relocated bytes."""

    offset: int = u64()
    type: int = u32()
    symbol: int = u32()


class RelaEntry(Record, size=24):
    """A relocation with addend, Elf64_Rela."""

    offset: int = u64()
    type: int = u32()
    symbol: int = u32()
    addend: int = i64()


@dataclass(frozen=True, slots=True)
class Layout:
    """The record classes of ELF files whose words have `bits` bits."""

    bits: int
    header: type[FileHeader]
    segment: type[ProgramHeader]
    section: type[SectionHeader]
    symbol: type[SymbolEntry]
    rel: type[RelEntry]
    rela: type[RelaEntry]


@cache
def layout_of(bits: int) -> Layout:
    """Return the record classes for words of `bits` (32 or 64) bits; 32-bit classes are made on first use."""
    if bits == 64:
        return Layout(64, FileHeader, ProgramHeader, SectionHeader, SymbolEntry, RelEntry, RelaEntry)
    of_segment = ("type", "offset", "vaddr", "paddr", "filesz", "memsz", "flags", "align")
    of_symbol = ("name_offset", "value", "size", "info", "other", "section")
    return Layout(
        32,
        narrowed(FileHeader, "FileHeader32"),
        narrowed(ProgramHeader, "ProgramHeader32", *of_segment),
        narrowed(SectionHeader, "SectionHeader32"),
        narrowed(SymbolEntry, "SymbolEntry32", *of_symbol),
        narrowed(RelEntry, "RelEntry32", type=record.bits(7, 0), symbol=record.bits(31, 8)),
        narrowed(RelaEntry, "RelaEntry32", type=record.bits(7, 0), symbol=record.bits(31, 8)),
    )
