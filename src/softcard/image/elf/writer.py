"""Writer of ELF files of either word size, section by section in a given order."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from softcard.core.words import align_up
from softcard.image.elf.layout import MAGIC, SHT_NOBITS, SHT_PROGBITS, SHT_STRTAB, SHT_SYMTAB, Layout, layout_of

SHSTRTAB: Final = ".shstrtab"


@dataclass(frozen=True, slots=True)
class SectionPart:
    """A section to be written. `link` and `info` name the sections to which its header fields link and info refer.

    `bss_bytes` is the size of a section without bytes. Loaded sections have addresses: see `ElfPlan.is_mapped`.
    `locals` is the number of local symbols, stored in the header field info of a symbol table."""

    name: str
    type: int
    data: bytes = field(default=b"", repr=False)
    flags: int = 0
    alignment: int = 1
    entry_bytes: int = 0
    link: str = ""
    info: str = ""
    bss_bytes: int = 0
    is_loaded: bool = False
    locals: int = 0

    @property
    def size(self) -> int:
        """The section's size in memory in bytes."""
        return self.bss_bytes if self.type == SHT_NOBITS else len(self.data)


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """A program header that covers adjacent sections; with `with_headers`, also everything before them.

    `alignment` 0 stands for the alignment of the first section.
    """

    type: int
    flags: int
    sections: tuple[str, ...]
    alignment: int = 0
    with_headers: bool = False


@dataclass(frozen=True)
class ElfPlan:
    """The plan of an ELF file to be written: its sections, segments and header fields.

    The addresses of loaded sections follow each other from `base`. With `is_mapped`, virtual and physical addresses are
    `base` plus the file offset. Space is reserved for at least `room` program headers. The content of section .shstrtab
    is filled in.
    """

    bits: int
    machine: int
    type: int
    flags: int
    sections: tuple[SectionPart, ...]
    segments: tuple[SegmentPart, ...] = ()
    os_abi: int = 0
    abi_version: int = 0
    is_mapped: bool = False
    room: int = 0
    base: int = 0
    entry: int = 0

    def pack(self) -> bytes:
        """Return the file's bytes: headers, sections in order, section headers."""
        layout, names = self.layout, self._names
        head = layout.header.size_bytes
        out = bytearray(self._body)
        for section, place in zip(self.sections, self.places, strict=True):
            data = names[0] if section.name == SHSTRTAB else section.data
            out += bytes(place - len(out)) + data
        out += bytes(-len(out) % (self.bits // 8))
        out[:head] = self._header(len(out))
        for number, segment in enumerate(self.segments):
            at = head + number * layout.segment.size_bytes
            out[at : at + layout.segment.size_bytes] = self._segment(segment)
        out += bytes(layout.section.size_bytes)
        for number, section in enumerate(self.sections):
            out += self._section_header(number, section)
        return bytes(out)

    def index(self, name: str) -> int:
        """Return the number of the section `name`; 0 for ""."""
        return next((n + 1 for n, each in enumerate(self.sections) if each.name == name), 0)

    @property
    def layout(self) -> Layout:
        """The record classes for the plan's word size."""
        return layout_of(self.bits)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The offset of each section in the file."""
        found, at = [], self._body
        for section in self.sections:
            at = align_up(at, max(section.alignment, 1))
            found.append(at)
            at += len(self._names[0] if section.name == SHSTRTAB else section.data)
        return tuple(found)

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """The address of each loaded section; 0 for others."""
        found, at = [], self.base
        for section, place in zip(self.sections, self.places, strict=True):
            if section.is_loaded:
                is_placed = self.is_mapped and section.type != SHT_NOBITS
                at = self.base + place if is_placed else align_up(at, section.alignment)
            found.append(at if section.is_loaded else 0)
            at += section.size if section.is_loaded else 0
        return tuple(found)

    @property
    def _body(self) -> int:
        """The size in bytes of the file header and the program headers together."""
        return self.layout.header.size_bytes + self.layout.segment.size_bytes * max(len(self.segments), self.room)

    @cached_property
    def _names(self) -> tuple[bytes, list[int]]:
        """The bytes of the section name table, and the offset in it of each section's name."""
        out, offsets = bytearray(b"\0"), []
        for section in self.sections:
            offsets.append(len(out))
            out += section.name.encode() + b"\0"
        return bytes(out), offsets

    def _section_header(self, number: int, section: SectionPart) -> bytes:
        names, offsets = self._names
        return self.layout.section(
            name_offset=offsets[number],
            type=section.type,
            flags=section.flags,
            addr=self.addresses[number],
            offset=0 if section.type == SHT_NOBITS else self.places[number],
            size=len(names) if section.name == SHSTRTAB else section.size,
            link=self.index(section.link),
            info=section.locals or self.index(section.info),
            addralign=section.alignment,
            entsize=section.entry_bytes,
        ).pack()

    def _header(self, table: int) -> bytes:
        layout = self.layout
        return layout.header(
            magic=MAGIC,
            file_class=self.bits // 32,
            data_encoding=1,
            ident_version=1,
            os_abi=self.os_abi,
            abi_version=self.abi_version,
            type=self.type,
            machine=self.machine,
            version=1,
            entry=self.entry,
            phoff=layout.header.size_bytes if self.segments else 0,
            shoff=table,
            flags=self.flags,
            ehsize=layout.header.size_bytes,
            phentsize=layout.segment.size_bytes if self.segments else 0,
            phnum=len(self.segments),
            shentsize=layout.section.size_bytes,
            shnum=len(self.sections) + 1,
            shstrndx=self.index(SHSTRTAB),
        ).pack()

    def _segment(self, segment: SegmentPart) -> bytes:
        numbers = [self.index(name) - 1 for name in segment.sections]
        first, last = self.sections[numbers[0]], self.sections[numbers[-1]]
        start, address = self.places[numbers[0]], self.addresses[numbers[0]]
        if segment.with_headers:
            start, address = 0, address - start
        return self.layout.segment(
            type=segment.type,
            flags=segment.flags,
            offset=start,
            vaddr=address,
            paddr=address if self.is_mapped else 0,
            filesz=max(self.places[n] + len(self.sections[n].data) for n in numbers) - start,
            memsz=self.addresses[numbers[-1]] + last.size - address,
            align=segment.alignment or first.alignment,
        ).pack()


def with_section(file: bytes, name: str, data: bytes) -> bytes:
    """Return a 64-bit ELF file with one more section, which is not loaded.

    The file ends with the section's content, the section names and the section headers."""
    layout = layout_of(64)
    header = layout.header.parse(file)
    size = header.shentsize
    headers = [
        layout.section.parse(file[at : at + size])
        for at in range(header.shoff, header.shoff + size * header.shnum, size)
    ]
    old = headers[header.shstrndx]
    names = file[old.offset : old.offset + old.size]
    out = bytearray(file)
    place = len(out)
    out += data
    headers[header.shstrndx] = replace(old, offset=len(out), size=len(names) + len(name) + 1)
    out += names + name.encode() + b"\0"
    out += bytes(-len(out) % 8)
    headers.append(
        layout.section(
            name_offset=len(names), type=SHT_PROGBITS, flags=0, addr=0, offset=place, size=len(data), link=0, info=0,
            addralign=1, entsize=0,
        )
    )  # fmt: skip
    out[: header.size_bytes] = replace(header, shoff=len(out), shnum=len(headers)).pack()
    return bytes(out) + b"".join(each.pack() for each in headers)


@dataclass(slots=True)
class SymbolWriter:
    """A symbol table and its string table, built symbol by symbol.

    With `has_null`, as in most files, the string table begins with a 0 byte and the symbol table with a null
    symbol. Otherwise both begin with the first real entry, and symbols without a name refer to the 0 byte after
    the first name."""

    bits: int
    has_null: bool = True
    names: bytearray = field(default_factory=bytearray)
    table: bytearray = field(default_factory=bytearray)
    count: int = 0

    def add(self, name: str, section: int, value: int, size: int, kind: int, binding: int = 0, other: int = 0) -> int:
        """Add a symbol and return its number."""
        offset = len(self.names) if name else max(self.names.find(0), 0)
        if name:
            self.names += name.encode("utf-8", "surrogateescape") + b"\0"
        self.table += layout_of(self.bits).symbol(
            name_offset=offset, info=binding << 4 | kind, other=other, section=section, value=value, size=size
        ).pack()  # fmt: skip
        self.count += 1
        return self.count - 1

    def sections(self, local: int) -> tuple[SectionPart, ...]:
        """Return the sections to be written: the symbol table, its names, and an empty .shstrtab.

        The first `local` symbols are local.
        """
        entry = layout_of(self.bits).symbol.size_bytes
        return (
            SectionPart(".symtab", SHT_SYMTAB, bytes(self.table), 0, 8, entry, ".strtab", locals=local),
            SectionPart(".strtab", SHT_STRTAB, bytes(self.names)),
            SectionPart(SHSTRTAB, SHT_STRTAB),
        )

    def __post_init__(self) -> None:
        """Begin the names with a 0 and the table with a null symbol, if `has_null` is True."""
        if self.has_null:
            self.names += b"\0"
            self.add("", 0, 0, 0, 0)


def note(owner: str, kind: int, data: bytes) -> bytes:
    """Return the bytes of an entry in a note section; `owner` is its name and `kind` its type."""
    name = owner.encode() + b"\0"
    return struct.pack("<3I", len(name), len(data), kind) + name + bytes(-len(name) % 4) + data + bytes(-len(data) % 4)
