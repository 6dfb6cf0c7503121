"""Builds small ELF files of AMD GPU objects, right or wrong on purpose."""

from dataclasses import dataclass, field

from softcard.image.elf import layout as elf
from softcard.image.elf.layout import FileHeader, ProgramHeader, RelaEntry, RelEntry, SectionHeader, SymbolEntry
from softcard.image.hsa.elf import STT_HSA_KERNEL
from softcard.image.hsa.records import KernelCode, KernelDescriptor

GFX803 = 0x2A


def record(cls, **fields):
    """A record with 0 wherever nothing is said."""
    blank = cls.parse(bytes(cls.size_bytes))
    values = {slot.name: getattr(blank, slot.name) for slot in cls.slots}
    return cls(**(values | fields))


def kernel_code(**fields) -> bytes:
    """Return a plausible amd_kernel_code_t with its code 256 bytes after its start."""
    usual = {
        "amd_kernel_code_version_major": 1,
        "amd_kernel_code_version_minor": 1,
        "amd_machine_kind": 1,
        "amd_machine_version_major": 8,
        "amd_machine_version_stepping": 3,
        "kernel_code_entry_byte_offset": 256,
        "kernarg_segment_alignment": 4,
        "wavefront_size": 6,
        "call_convention": -1,
    }
    return record(KernelCode, **(usual | fields)).pack()


def descriptor(**fields) -> bytes:
    return record(KernelDescriptor, **fields).pack()


@dataclass
class Section:
    """A section to be: its name, type, flags, bytes; `size` where it has none (.bss)."""

    name: str
    type: int = 1
    flags: int = elf.SHF_ALLOC
    data: bytes = b""
    align: int = 4
    link: int = 0
    info: int = 0
    entsize: int = 0
    size: int = -1
    addr: int = 0


@dataclass
class Symbol:
    name: str
    section: int
    value: int = 0
    size: int = 0
    kind: int = elf.STT_OBJECT
    binding: int = 1


@dataclass
class Elf:
    """A file to be. Section numbers start at 1 in the order given; .symtab, .strtab and .shstrtab are added."""

    sections: list[Section] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    segments: list[dict] = field(default_factory=list)
    type: int = elf.ET_REL
    os_abi: int = 64
    abi_version: int = 0
    flags: int = GFX803
    header: dict = field(default_factory=dict)

    def symtab(self) -> int:
        """Number of the section .symtab."""
        return len(self.sections) + 1

    def rela(self, target: int, *entries: tuple[int, int, int, int]) -> None:
        """Relocations of a section: offset, type, symbol number from 1, addend. Call it last."""
        data = b"".join(RelaEntry(offset=o, type=t, symbol=s, addend=a).pack() for o, t, s, a in entries)
        section = Section(".rela", elf.SHT_RELA, 0, data, 8, 0, target, RelaEntry.size_bytes)
        self.sections.append(section)
        section.link = self.symtab()

    def rel(self, target: int, *entries: tuple[int, int, int]) -> None:
        """Likewise without addends."""
        data = b"".join(RelEntry(offset=o, type=t, symbol=s).pack() for o, t, s in entries)
        section = Section(".rel", elf.SHT_REL, 0, data, 8, 0, target, RelEntry.size_bytes)
        self.sections.append(section)
        section.link = self.symtab()

    def build(self) -> bytes:
        names = bytearray(b"\0")
        entries = [SymbolEntry.parse(bytes(24)).pack()]
        for symbol in self.symbols:
            info = symbol.kind | symbol.binding << 4
            entry = record(SymbolEntry, name_offset=len(names), info=info, section=symbol.section)
            entries.append(
                record(SymbolEntry, **(vars_of(entry) | {"value": symbol.value, "size": symbol.size})).pack()
            )
            names += symbol.name.encode() + b"\0"
        table = Section(".symtab", elf.SHT_SYMTAB, 0, b"".join(entries), 8, self.symtab() + 1, 1, 24)
        strings = Section(".strtab", elf.SHT_STRTAB, 0, bytes(names), 1)
        everything = [*self.sections, table, strings, Section(".shstrtab", elf.SHT_STRTAB, 0, b"", 1)]
        heads = bytearray(b"\0")
        offsets = []
        for section in everything:
            offsets.append(len(heads))
            heads += section.name.encode() + b"\0"
        everything[-1].data = bytes(heads)
        return self._put_together(everything, offsets)

    def build_with(self, header: dict) -> bytes:
        """The file with these fields of its ELF header."""
        self.header = header
        return self.build()

    def _put_together(self, everything: list[Section], names: list[int]) -> bytes:
        body = bytearray(64 + 56 * len(self.segments))
        headers = [bytes(64)]
        for section, name in zip(everything, names, strict=True):
            body += bytes(-len(body) % max(section.align, 1))
            size = section.size if section.size >= 0 else len(section.data)
            made = record(
                SectionHeader, name_offset=name, type=section.type, flags=section.flags, offset=len(body), size=size,
                link=section.link, info=section.info, addralign=section.align, entsize=section.entsize,
                addr=section.addr,
            )  # fmt: skip
            headers.append(made.pack())
            body += section.data
        body += bytes(-len(body) % 8)
        head = {
            "magic": b"\x7fELF", "file_class": 2, "data_encoding": 1, "ident_version": 1, "os_abi": self.os_abi,
            "abi_version": self.abi_version, "type": self.type, "machine": 224, "version": 1, "shoff": len(body),
            "flags": self.flags, "ehsize": 64, "phentsize": 56, "phnum": len(self.segments), "shentsize": 64,
            "shnum": len(headers), "shstrndx": len(headers) - 1, "phoff": 64 if self.segments else 0,
        }  # fmt: skip
        body[:64] = record(FileHeader, **(head | self.header)).pack()
        for number, segment in enumerate(self.segments):
            body[64 + 56 * number : 120 + 56 * number] = record(ProgramHeader, **segment).pack()
        return bytes(body + b"".join(headers))


def vars_of(made) -> dict:
    return {slot.name: getattr(made, slot.name) for slot in made.slots}


def note(owner: str, kind: int, data: bytes) -> bytes:
    name = owner.encode() + b"\0"
    head = b"".join(n.to_bytes(4, "little") for n in (len(name), len(data), kind))
    return head + name.ljust(-(-len(name) // 4) * 4, b"\0") + data.ljust(-(-len(data) // 4) * 4, b"\0")


def notes(*parts: bytes) -> Section:
    return Section(".note", elf.SHT_NOTE, elf.SHF_ALLOC, b"".join(parts))


def one_kernel(header: bytes | None = None, version: bytes | None = None, **more) -> Elf:
    """A V2 object (or as `more` says) with kernel k in .text at 0."""
    made = Elf(**more)
    code = (header or kernel_code()) + (0xBF810000).to_bytes(4, "little")
    made.sections.append(Section(".text", 1, elf.SHF_ALLOC | elf.SHF_EXECINSTR, code, 256))
    if version is not None:
        made.sections.append(notes(note("AMD", 1, version)))
    made.symbols.append(Symbol("k", 1, kind=STT_HSA_KERNEL))
    return made
