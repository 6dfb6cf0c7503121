"""Writing of changed programs in which code, data or other contents have another size than in the original file.

The ELF file gets a new layout. Code, headers, metadata, stubs, data, HSAIL, options and version may have any
size, and relocations of kernels may differ. Everything else (symbols and sections of any kind, functions
outside of kernels, notes, relocations of data) is kept, with its references updated."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from softcard.core.errors import WireError
from softcard.core.words import align_up
from softcard.image.amdcl2.container import (
    BINARY_PREFIX,
    BINARY_SUFFIX,
    BSS,
    GLOBAL,
    METADATA_PREFIX,
    METADATA_SUFFIX,
    READ_ONLY,
    SAMPLERS,
    TEXT,
    Container,
    read_container,
)
from softcard.image.amdcl2.elf import Elf
from softcard.image.amdcl2.source import CodeRelocation, KernelSource, ProgramSource, code_relocation, source_of
from softcard.image.elf.layout import (
    SHF_ALLOC,
    SHT_NOBITS,
    SHT_NULL,
    SHT_RELA,
    SHT_SYMTAB,
    ProgramHeader,
    RelaEntry,
    SectionHeader,
)
from softcard.image.elf.reader import MAX_ALIGNMENT, Section

# ---- ELF files with changed sections ---------------------------------------------------------------------------------
# ELF files with changed contents of sections: everything else is kept and moved, and references are updated.
#
# There are two steps: `Rewrite` replaces the bytes of a section and maps old offsets to new ones; `relaid` lays the
# file out again. `CannotKeepError` if a reference points to bytes that are gone.


class CannotKeepError(WireError):
    """The error for a change that would lose something in the file, or change the meaning of something else."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A replacement for the bytes of a section from offset `start` to `end`: the bytes `data`."""

    start: int
    end: int
    data: bytes


class Rewrite:
    """The contents of a section after some byte ranges (pieces) have been replaced.

    Bytes between pieces are kept. `anchors` are the old offsets of those pieces that keep their offset modulo
    `alignment`: zeros before them are padding, whose size may change. With `is_pinned`, bytes between pieces
    keep their offsets, and a piece that grows may overwrite zeros only."""

    def __init__(
        self, name: str, old: bytes, pieces: Iterable[Piece], anchors: Iterable[int] = (), alignment: int = 1,
        is_pinned: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.pieces = sorted(pieces, key=lambda piece: (piece.start, piece.end))
        self.data = bytearray()
        self._moved: list[tuple[int, int, int]] = []  # old start and end of kept bytes, and their new start
        self._ends: dict[int, int] = {}  # ends of pieces; bytes inserted between two pieces belong to neither
        at, held = 0, set(anchors)
        for piece in [*self.pieces, Piece(len(old), len(old), b"")]:
            if piece.start < at:
                raise CannotKeepError(f"parts of {name} overlap at {piece.start:#x}")
            gap, here = old[at : piece.start], len(self.data)
            if is_pinned and (any(gap) or piece.start < len(old)):
                gap, here = self._in_place(gap, at), at
            elif piece.start in held:
                gap = _padding(gap, here, piece.start, alignment)
            self._moved.append((at, piece.start, here))
            self.data += gap
            self._moved.append((piece.start, piece.start, len(self.data)))
            self._ends.setdefault(piece.end, len(self.data) + (len(piece.data) if piece.start < piece.end else 0))
            self.data += piece.data
            at = piece.end

    def _in_place(self, gap: bytes, at: int) -> bytes:
        """Return `gap`, the bytes after a piece, adjusted so that they stay at their old offset `at`.

        If that piece has grown, it overwrites leading zeros of `gap`. If it has shrunk, zeros are inserted before
        `gap`. Raise `CannotKeepError` if bytes other than zeros would be overwritten."""
        grown = len(self.data) - at
        if grown > len(gap) - len(gap.lstrip(b"\0")):
            raise CannotKeepError(f"code after {at:#x} of {self.name} would move away from its callers")
        return gap[grown:] if grown > 0 else bytes(-grown) + gap

    def place(self, old: int) -> int:
        """Return the new offset of the byte that was at offset `old`.

        Raise `CannotKeepError` if it lies inside a piece whose size has changed.
        """
        start, end, new = self._moved[bisect_right(self._moved, old, key=lambda each: each[0]) - 1]
        if start <= old <= end:
            return new + old - start
        piece = self.pieces[bisect_right(self.pieces, old, key=lambda each: each.start) - 1]
        if len(piece.data) != piece.end - piece.start:
            raise CannotKeepError(f"offset {old:#x} of {self.name} lies in bytes whose replacement has another size")
        return self.place(piece.start) + old - piece.start

    def span(self, start: int, size: int) -> tuple[int, int]:
        """Return the new offset and size of the `size` bytes that were at offset `start`.

        Raise `CannotKeepError` if a piece in the range has another size than before, unless it begins at `start`."""
        place, end = self.place(start), start + size
        if not size:
            return place, 0
        for piece in self.pieces[bisect_right(self.pieces, start, key=lambda each: each.start) :]:
            if piece.start >= end:
                break
            if len(piece.data) != piece.end - piece.start:
                raise CannotKeepError(
                    f"bytes {start:#x}..{end:#x} of {self.name} contain bytes whose replacement has another size"
                )
        return place, self._ends[end] - place if end in self._ends else self.place(end) - place


def _padding(gap: bytes, at: int, old: int, alignment: int) -> bytes:
    """Return the bytes to put at the new offset `at` in place of `gap`, the bytes before the old offset `old`.

    They are as many zeros as the byte at `old` needs to keep its offset modulo `alignment`. If `gap` is not all
    zeros, it is not padding, and is returned unchanged."""
    if any(gap):
        return gap
    kept = 0 if len(gap) < alignment else len(gap)
    return bytes(kept + (old - at - kept) % alignment)


def patched_symbols(elf: Elf, rewrites: Mapping[int, Rewrite]) -> bytes:
    """Return the bytes of the symbol table, with new values for symbols in rewritten sections.

    Keys of `rewrites` are section numbers.
    """
    out = bytearray()
    for symbol in elf.symbols:
        entry = elf.layout.symbol.parse(elf.data, symbol.place)
        rewrite = rewrites.get(symbol.section)
        if rewrite is not None:
            value, size = rewrite.span(symbol.value, symbol.size)
            entry = replace(entry, value=value, size=size)
        out += entry.pack()
    return bytes(out)


def patched_relocation(
    elf: Elf, entry: RelaEntry, target: Rewrite | None, rewrites: Mapping[int, Rewrite]
) -> RelaEntry:
    """Return a relocation entry with its offset and addend updated for rewritten sections.

    `target` is the rewrite of the section to which it applies; keys of `rewrites` are section numbers.
    """
    named = elf.symbols[entry.symbol]
    rewrite = rewrites.get(named.section)
    addend = entry.addend
    if rewrite is not None:
        addend = rewrite.place(named.value + addend) - rewrite.place(named.value)
    return replace(entry, offset=target.place(entry.offset) if target is not None else entry.offset, addend=addend)


# ---- the file ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Region:
    """A range of bytes in a file, or of addresses in memory, with its old and its new size."""

    start: int
    size: int
    new_size: int
    alignment: int
    number: int


HEADER, SEGMENTS, SECTIONS = -1, -2, -3
"""Region numbers for the ELF header and for the two header tables, which are not sections."""
_WORD: Final = {32: 4, 64: 8}


def _laid(regions: list[_Region], what: str, data: bytes = b"") -> dict[int, int]:
    """Return the new start of each region, by region number; `what` names the regions in errors.

    Zeros between regions are treated as alignment padding; other bytes of `data` between regions are kept.
    """
    found: dict[int, int] = {}
    end = new_end = 0
    for region in sorted(regions, key=lambda each: (each.start, each.size)):
        if region.start < end and region.size:
            raise CannotKeepError(f"parts of the file's {what} overlap at {region.start:#x}")
        gap = max(region.start - end, 0)
        alignment = region.alignment if not region.start % region.alignment else 1
        kept = gap if any(data[end : region.start]) else 0
        if not kept:
            alignment = _padded_to(region.start, gap, alignment)
            kept = gap if gap >= alignment else 0
        found[region.number] = align_up(new_end + kept, alignment)
        end, new_end = max(region.start + region.size, end), found[region.number] + region.new_size
    return found


def _padded_to(start: int, gap: int, alignment: int) -> int:
    """Return the alignment that explains the `gap` zeros before `start`.

    It may be larger than `alignment`, since an empty section with a larger alignment may precede `start`."""
    wide = alignment
    while wide <= gap and wide < MAX_ALIGNMENT:
        wide *= 2
    return wide if gap < wide and not start % wide else alignment


def relaid(elf: Elf, contents: Mapping[int, bytes], sizes: Mapping[int, int] | None = None) -> bytes:
    """Return the bytes of an ELF file with new contents of sections, by section number.

    `sizes` are the new sizes of sections without bytes in the file, by section number.
    """
    places = _file_places(elf, contents)
    addresses = _addresses(elf, contents, sizes or {})
    header, word = elf.header, _WORD[elf.bits]
    regions = _file_regions(elf, contents)
    out = bytearray()
    old_end = 0
    for region in sorted(regions, key=lambda each: (each.start, each.size)):
        start = places[region.number]
        gap = elf.data[old_end : region.start]
        if any(gap) and len(gap) > start - len(out):
            raise CannotKeepError(f"there is no room for the data between sections at {old_end:#x}")
        out += gap[: start - len(out)] if any(gap) else b""
        out += bytes(start - len(out))
        if region.number >= 0:
            out += contents.get(region.number, elf.data[region.start : region.start + region.size])
        else:
            out += elf.data[region.start : region.start + region.size]
        old_end = max(region.start + region.size, old_end)
    out += elf.data[old_end:]
    for section in elf.sections:
        at = places[SECTIONS] + section.index * header.shentsize
        new = _section(section, places, addresses, contents, sizes or {})
        out[at : at + type(new).size_bytes] = new.pack()
    for number, segment in enumerate(elf.segments):
        at = places[SEGMENTS] + number * header.phentsize
        out[at : at + ProgramHeader.size_bytes] = _segment(
            elf, segment, places, addresses, contents, sizes or {}
        ).pack()
    kind = type(header)
    for field, value in (("shoff", places[SECTIONS]), ("phoff", places.get(SEGMENTS, header.phoff))):
        out[kind.offset_of(field) : kind.offset_of(field) + word] = value.to_bytes(word, "little")
    return bytes(out)


def _section_alignment(section: Section) -> int:
    """Return the alignment of a section; 1 if the file gives an invalid one."""
    asked = max(section.header.addralign, 1)
    return 1 if asked & asked - 1 or asked > MAX_ALIGNMENT else asked


def _has_bytes(section: Section) -> bool:
    return section.header.type not in (SHT_NOBITS, SHT_NULL) and section.header.size > 0


def _file_regions(elf: Elf, contents: Mapping[int, bytes]) -> list[_Region]:
    header = elf.header
    tables = [(HEADER, 0, header.ehsize, 1), (SECTIONS, header.shoff, header.shnum * header.shentsize, _WORD[elf.bits])]
    if header.phnum:
        tables.append((SEGMENTS, header.phoff, header.phnum * header.phentsize, 1))
    for _, start, size, _ in tables:
        elf.inside("a table of headers", start, size, 0)
    found = [_Region(start, size, size, alignment, number) for number, start, size, alignment in tables]
    before = 1  # alignment of sections without bytes, which nevertheless precede the next section's offset
    for section in elf.sections:
        alignment = _section_alignment(section)
        if section.header.type == SHT_NOBITS:
            before = max(before, alignment)
        if not _has_bytes(section):
            continue
        start, size = elf.extent(section)
        new = len(contents[section.index]) if section.index in contents else size
        wide = max(alignment, before)
        found.append(_Region(start, size, new, alignment if start % wide else wide, section.index))
        before = 1
    return found


def _file_places(elf: Elf, contents: Mapping[int, bytes]) -> dict[int, int]:
    for section in elf.sections:
        if contents.get(section.index) and not _has_bytes(section):
            raise CannotKeepError(f"section {section.name} has no bytes in the file, but would get some")
    return _laid(_file_regions(elf, contents), "sections", elf.data)


def _memory_size(section: Section, contents: Mapping[int, bytes], sizes: Mapping[int, int]) -> int:
    if section.index in contents:
        return len(contents[section.index])
    return sizes.get(section.index, section.header.size)


def _addresses(elf: Elf, contents: Mapping[int, bytes], sizes: Mapping[int, int]) -> dict[int, int]:
    """Return the new addresses of loaded sections; in a file without addresses they stay 0."""
    loaded = [each for each in elf.sections if each.header.flags & SHF_ALLOC and each.header.size]
    if len({each.header.addr for each in loaded}) < len(loaded):
        return {}
    regions = [
        _Region(each.header.addr, each.header.size, _memory_size(each, contents, sizes), _section_alignment(each),
                each.index)
        for each in loaded
    ]  # fmt: skip
    return _laid(regions, "memory")


def _section(
    section: Section, places: Mapping[int, int], addresses: Mapping[int, int], contents: Mapping[int, bytes],
    sizes: Mapping[int, int],
) -> SectionHeader:  # fmt: skip
    header = section.header
    return replace(
        header,
        offset=places.get(section.index, header.offset),
        addr=addresses.get(section.index, header.addr),
        size=_memory_size(section, contents, sizes),
    )


def _segment(
    elf: Elf, segment: ProgramHeader, places: Mapping[int, int], addresses: Mapping[int, int],
    contents: Mapping[int, bytes], sizes: Mapping[int, int],
) -> ProgramHeader:  # fmt: skip
    """Return the updated program header of a segment.

    The segment must begin at the start of a section, and end at the end or the start of one, in the file and in memory.
    """
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    memory_starts: dict[int, int] = {}
    memory_ends: dict[int, int] = {}
    for section in elf.sections:
        old, new = section.header, _memory_size(section, contents, sizes)
        if section.index in places:
            starts[old.offset] = places[section.index]
            ends[old.offset + old.size] = places[section.index] + new
        if old.flags & SHF_ALLOC and old.size:
            memory_starts[old.addr] = addresses.get(section.index, old.addr)
            memory_ends[old.addr + old.size] = memory_starts[old.addr] + new
    offset = starts.get(segment.offset)
    file_end = ends.get(segment.offset + segment.filesz, starts.get(segment.offset + segment.filesz))
    address = memory_starts.get(segment.vaddr) if addresses else segment.vaddr
    memory_end = memory_ends.get(segment.vaddr + segment.memsz)
    if offset is None or file_end is None or address is None:
        raise CannotKeepError(f"a segment at {segment.offset:#x} does not begin with a section")
    filesz = file_end - offset
    if segment.memsz == segment.filesz:
        return replace(segment, offset=offset, vaddr=address, filesz=filesz, memsz=filesz)
    if not addresses or memory_end is None:
        raise CannotKeepError(f"a segment at {segment.offset:#x} does not end with a section in memory")
    return replace(segment, offset=offset, vaddr=address, filesz=filesz, memsz=memory_end - address)


# ---- programs with changed sizes -------------------------------------------------------------------------------------


KERNEL_ALIGNMENT: Final = 256
MAX_PADDING: Final = 16
"""The largest alignment that is inferred from zeros between replaced byte ranges."""
STT_SECTION: Final = 3
RELA_BYTES: Final = RelaEntry.size_bytes
VERSION, OPTIONS = "acl_version_string", "__OpenCL_compiler_options"


def resized(source: ProgramSource, origin: Container) -> bytes:
    """Return the bytes of `origin` with the changes of `source`, whose code and data may have other sizes.

    Raise `CannotKeepError` if the changes cannot be made without losing or changing something else in the file."""
    before = source_of(origin)
    if not _is_same_shape(source, before):
        raise CannotKeepError("the source has other kernels, samplers or targets than the file")
    rewrites = dict(_outer_rewrites(source, before, origin))
    if origin.inner is not None:
        text = origin.elf.section(".text")
        assert text is not None
        rewrites[text.index] = Rewrite(".text", b"", [Piece(0, 0, _inner(source, before, origin.inner, origin))])
    out = _relaid(origin.elf, rewrites, {}, {})
    found = read_container(out)
    if source_of(found) != source:
        raise CannotKeepError("the resized file would not read back as the same program")
    if found.outside != origin.outside:
        raise CannotKeepError("code outside of kernels would change")
    return out


def _is_same_shape(source: ProgramSource, before: ProgramSource) -> bool:
    def shape(program: ProgramSource) -> object:
        kernels = tuple((each.name, each.samplers) for each in program.kernels)
        return (
            kernels, program.device, program.driver, program.bits, len(program.samplers), program.sampler_offsets,
            program.isa_version, program.bss_alignment, bool(program.bss_bytes), program.producer_note,
        )  # fmt: skip

    return shape(source) == shape(before)


def _relaid(elf: Elf, rewrites: dict[int, Rewrite], tables: dict[int, bytes], sizes: dict[int, int]) -> bytes:
    """Return the bytes of an ELF file with rewritten sections and new relocation tables, by section number."""
    contents = {number: bytes(rewrite.data) for number, rewrite in rewrites.items()} | tables
    symbols = next((each for each in elf.sections if each.header.type == SHT_SYMTAB), None)
    if symbols is not None and elf.symbols:
        table = patched_symbols(elf, rewrites)
        contents[symbols.index] = table + elf.contents(symbols)[len(table) :]
    return relaid(elf, contents, sizes)


def _alignment(pieces: list[Piece], most: int) -> int:
    """Return the alignment that the starts of replaced byte ranges share, at most `most`.

    It is 1 unless zeros between the ranges show that the ranges were aligned.
    """
    ordered = sorted(pieces, key=lambda piece: piece.start)
    gaps = [later.start - first.end for first, later in pairwise(ordered)]
    if not any(gaps):
        return 1
    while most > 1 and (any(piece.start % most for piece in pieces) or max(gaps) >= most):
        most //= 2
    return most


def _rewrite(elf: Elf, number: int, pieces: list[Piece], most: int = MAX_PADDING, is_pinned: bool = False) -> Rewrite:
    section = elf.sections[number]
    anchors = [piece.start for piece in pieces]
    alignment = most if section.name == TEXT else _alignment(pieces, most)
    return Rewrite(section.name, elf.contents(section), pieces, anchors, alignment, is_pinned)


# ---- the outer file ----------------------------------------------------------------------------------------------


def _outer_rewrites(source: ProgramSource, before: ProgramSource, origin: Container) -> Iterator[tuple[int, Rewrite]]:
    elf, parts = origin.elf, {}
    for old, new in zip(before.kernels, source.kernels, strict=True):
        parts[f"{METADATA_PREFIX}{new.name}{METADATA_SUFFIX}"] = old.metadata, new.metadata
        if origin.inner is None:
            whole = _old_kernel(old, old), _old_kernel(new, old)
            parts[f"{BINARY_PREFIX}{new.name}{BINARY_SUFFIX}"] = whole
            parts[f"{BINARY_PREFIX}{new.name}{METADATA_SUFFIX}"] = old.isa_metadata, new.isa_metadata
    texts = {VERSION: (before.version, source.version), OPTIONS: (before.compile_options, source.compile_options)}
    parts |= {name: (was.encode(), now.encode()) for name, (was, now) in texts.items()}
    pieces: dict[int, list[Piece]] = {}
    for symbol in elf.symbols:
        if symbol.name in parts:
            was, now = parts.pop(symbol.name)
            end = symbol.value + symbol.size
            data = elf.contents(elf.sections[symbol.section])[symbol.value : end]
            if symbol.name in texts:  # a 0 that ends the text does not belong to it
                end -= len(data) - len(was)
            if data[: end - symbol.value] != was:
                raise CannotKeepError(f"the bytes of symbol {symbol.name} differ from the metadata of its kernel")
            pieces.setdefault(symbol.section, []).append(Piece(symbol.value, end, now))
    if any(now != was for was, now in parts.values()):
        raise CannotKeepError(f"the file has no symbol {', '.join(parts)}")
    brig = elf.section(".brig")
    if brig is not None:
        pieces[brig.index] = [Piece(0, brig.header.size, source.brig)]
    elif source.brig:
        raise CannotKeepError("the file has no section .brig")
    for number, found in pieces.items():
        yield number, _rewrite(elf, number, found)


def _object(kernel: KernelSource, old: KernelSource) -> bytes:
    """Return the header and code of a kernel as bytes.

    Raise `CannotKeepError` if the code does not follow the header directly.
    """
    entry = old.header.kernel_code_entry_byte_offset
    if kernel.header.kernel_code_entry_byte_offset != entry or entry != kernel.header.size_bytes:
        raise CannotKeepError(f"the code of kernel {kernel.name} does not follow its header")
    return kernel.header.pack() + kernel.code


def _old_kernel(kernel: KernelSource, old: KernelSource) -> bytes:
    return kernel.stub + _object(kernel, old)


# ---- the inner file ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _KernelBytes:
    """The bytes of a kernel in .hsatext.

    `is_changed` is True if its code or its relocations differ from those in the file.
    """

    start: int
    code: int
    end: int
    is_changed: bool
    kernel: KernelSource
    old: KernelSource


def _inner(source: ProgramSource, before: ProgramSource, inner: Elf, origin: Container) -> bytes:
    kernels = []
    for old, new in zip(before.kernels, source.kernels, strict=True):
        found = origin.kernels[old.name]
        code = found.offset + found.header.kernel_code_entry_byte_offset
        is_changed = (len(old.code), old.relocations) != (len(new.code), new.relocations)
        kernels.append(_KernelBytes(found.offset, code, found.offset + found.size, is_changed, new, old))
    rewrites: dict[int, Rewrite] = {}
    text = inner.section(TEXT)
    if text is not None and kernels:
        pieces = [Piece(each.start, each.end, _object(each.kernel, each.old)) for each in kernels]
        is_whole = not any(each.start % KERNEL_ALIGNMENT for each in kernels)
        alignment = KERNEL_ALIGNMENT if is_whole else 4
        rewrites[text.index] = _rewrite(inner, text.index, pieces, alignment, bool(origin.outside))
    samplers = b"".join(each.pack() for each in source.samplers)
    for name, data in ((READ_ONLY, source.read_only), (GLOBAL, source.global_data), (SAMPLERS, samplers)):
        section = inner.section(name)
        if section is not None:
            kept = inner.contents(section)[len(samplers) :] if name == SAMPLERS else b""
            rewrites[section.index] = _data(name, inner.contents(section), data + kept)
        elif data:
            raise CannotKeepError(f"the file has no section {name}")
    bss = inner.section(BSS)
    sizes = {bss.index: source.bss_bytes} if bss is not None else {}
    return _relaid(inner, rewrites, dict(_tables(inner, kernels, rewrites)), sizes)


def _data(name: str, old: bytes, new: bytes) -> Rewrite:
    """Return the rewrite of a data section that may grow or shrink at its end; its offsets remain valid."""
    kept = min(len(old), len(new))
    return Rewrite(name, new[:kept] + old[kept:], [Piece(kept, len(old), new[kept:])])


def _tables(inner: Elf, kernels: list[_KernelBytes], rewrites: dict[int, Rewrite]) -> Iterator[tuple[int, bytes]]:
    """Yield the section number and the new bytes of each relocation table.

    The entries of a changed kernel replace its old ones, at the position of the first of them."""
    tables = [each for each in inner.sections if each.header.type == SHT_RELA]
    names = [each.name for each in tables]
    if len(set(names)) < len(names):
        raise CannotKeepError("two relocation tables have the same name")
    if f".rela{TEXT}" not in names and any(each.kernel.relocations for each in kernels):
        raise CannotKeepError(f"the file has no relocation table .rela{TEXT} for the code of its kernels")
    for section in tables:
        target = inner.section(section.name.removeprefix(".rela"))
        rewrite = rewrites.get(target.index) if target is not None else None
        changed = [each for each in kernels if each.is_changed] if section.name == f".rela{TEXT}" else []
        out, waiting = [], list(changed)
        for each in inner.relocations(section.name):
            owner = next((one for one in changed if one.code <= each.offset < one.end), None)
            if owner is None:
                entry = RelaEntry.parse(inner.data, each.place)
                out.append(patched_relocation(inner, entry, rewrite, rewrites))
            elif owner in waiting:
                waiting.remove(owner)
                out += _kernel_relocations(inner, section.name, owner, rewrite)
        for owner in waiting:
            out += _kernel_relocations(inner, section.name, owner, rewrite)
        data = inner.contents(section)
        yield section.index, b"".join(entry.pack() for entry in out) + data[len(data) // RELA_BYTES * RELA_BYTES :]


def _kernel_relocations(inner: Elf, table: str, owner: _KernelBytes, rewrite: Rewrite | None) -> list[RelaEntry]:
    """Return the relocation entries of a changed kernel.

    A relocation that the file already has keeps its symbol; a new one refers to the symbol of its section."""
    assert rewrite is not None
    known: dict[tuple[str, int, int], tuple[int, int]] = {}
    for each in inner.relocations(table):
        if owner.code <= each.offset < owner.end:
            found = code_relocation(inner, each, owner.code)
            if found is None:
                text = f"the relocation of type {each.type} at {each.offset:#x} cannot be moved with the code of kernel"
                raise CannotKeepError(f"{text} {owner.kernel.name}")
            entry = RelaEntry.parse(inner.data, each.place)
            known[found.section, found.addend, found.type] = entry.symbol, entry.addend
    start = rewrite.place(owner.start) + owner.code - owner.start
    out = []
    for wanted in owner.kernel.relocations:
        symbol, addend = known.get((wanted.section, wanted.addend, wanted.type), (-1, wanted.addend))
        if symbol < 0:
            symbol = _section_symbol(inner, wanted)
        out.append(RelaEntry(offset=start + wanted.offset, type=wanted.type, symbol=symbol, addend=addend))
    return out


def _section_symbol(inner: Elf, relocation: CodeRelocation) -> int:
    for number, symbol in enumerate(inner.symbols):
        is_section = symbol.kind == STT_SECTION and not symbol.value and symbol.section < len(inner.sections)
        if is_section and inner.sections[symbol.section].name == relocation.section:
            return number
    raise CannotKeepError(f"the file has no symbol for section {relocation.section}")
