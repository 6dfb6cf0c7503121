"""ELF files whose sections get other contents: everything else is kept and moved, with whatever says where it is.

Two steps: `Rewrite` gives a section new bytes and remembers where its old places are now; `relaid` lays the file out
anew. `CannotKeepError` where a place is meant that is no longer there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from understudy.core.errors import WireError
from understudy.core.words import align_up
from understudy.image.amdcl2.elf import Elf
from understudy.image.elf.layout import (
    SHF_ALLOC,
    SHT_NOBITS,
    SHT_NULL,
    ProgramHeader,
    RelaEntry,
    SectionHeader,
)
from understudy.image.elf.reader import MAX_ALIGNMENT, Section


class CannotKeepError(WireError):
    """Something of the file would get lost, or would no longer mean what it did."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes `start` to `end` of a section, and what takes their place."""

    start: int
    end: int
    data: bytes


class Rewrite:
    """The contents of a section with other pieces in it, in the order of the section.

    What lies between pieces stays. `alignment` is that of the pieces' starts where the zeros before them are padding;
    with `is_pinned` nothing between pieces may move, and only zeros may give way.
    """

    def __init__(
        self, name: str, old: bytes, pieces: Iterable[Piece], anchors: Iterable[int] = (), alignment: int = 1,
        is_pinned: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.pieces = sorted(pieces, key=lambda piece: (piece.start, piece.end))
        self.data = bytearray()
        self._moved: list[tuple[int, int, int]] = []  # old start and end of what stays, and its new start
        self._ends: dict[int, int] = {}  # where pieces end; what is put in between two places belongs to neither
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
        """What lies between two pieces, where it lay: zeros at its beginning give way to a larger piece before it."""
        grown = len(self.data) - at
        if grown > len(gap) - len(gap.lstrip(b"\0")):
            raise CannotKeepError(f"code behind {at:#x} of {self.name} would move away from what calls it")
        return gap[grown:] if grown > 0 else bytes(-grown) + gap

    def place(self, old: int) -> int:
        """Where a place is now; `CannotKeepError` for one inside a piece whose size is another."""
        start, end, new = self._moved[bisect_right(self._moved, old, key=lambda each: each[0]) - 1]
        if start <= old <= end:
            return new + old - start
        piece = self.pieces[bisect_right(self.pieces, old, key=lambda each: each.start) - 1]
        if len(piece.data) != piece.end - piece.start:
            raise CannotKeepError(f"{old:#x} of {self.name} lies within what is replaced")
        return self.place(piece.start) + old - piece.start

    def span(self, start: int, size: int) -> tuple[int, int]:
        """Where something of `size` bytes is now, and its size; it may begin and end with pieces of another size."""
        place, end = self.place(start), start + size
        if not size:
            return place, 0
        for piece in self.pieces[bisect_right(self.pieces, start, key=lambda each: each.start) :]:
            if piece.start >= end:
                break
            if len(piece.data) != piece.end - piece.start:
                raise CannotKeepError(f"{start:#x} to {end:#x} of {self.name} has parts that are replaced")
        return place, self._ends[end] - place if end in self._ends else self.place(end) - place


def _padding(gap: bytes, at: int, old: int, alignment: int) -> bytes:
    """The zeros before what stood at `old`, now that they begin `at`."""
    if any(gap):
        return gap
    kept = 0 if len(gap) < alignment else len(gap)
    return bytes(kept + (old - at - kept) % alignment)


def patched_symbols(elf: Elf, rewrites: Mapping[int, Rewrite]) -> bytes:
    """The symbol table, for sections by number that were written anew."""
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
    """A relocation, of `target` where that was written anew, and to what its symbol and addend mean."""
    named = elf.symbols[entry.symbol]
    rewrite = rewrites.get(named.section)
    addend = entry.addend
    if rewrite is not None:
        addend = rewrite.place(named.value + addend) - rewrite.place(named.value)
    return replace(entry, offset=target.place(entry.offset) if target is not None else entry.offset, addend=addend)


# ---- the file ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Region:
    """A stretch of a file or of memory."""

    start: int
    size: int
    new_size: int
    alignment: int
    number: int


HEADER, SEGMENTS, SECTIONS = -1, -2, -3
"""Numbers of regions that are no sections."""
_WORD: Final = {32: 4, 64: 8}


def _laid(regions: list[_Region], what: str, data: bytes = b"") -> dict[int, int]:
    """The new start of each region. Between them, zeros are what alignment asks for; anything else of `data` stays."""
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
    """The alignment that a gap of zeros before `start` is for, which may be that of a section without bytes."""
    wide = alignment
    while wide <= gap and wide < MAX_ALIGNMENT:
        wide *= 2
    return wide if gap < wide and not start % wide else alignment


def relaid(elf: Elf, contents: Mapping[int, bytes], sizes: Mapping[int, int] | None = None) -> bytes:
    """The file with other contents of sections, by number; `sizes` are those of sections without bytes."""
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
            raise CannotKeepError(f"there is no room for what stands between sections at {old_end:#x}")
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


def _alignment(section: Section) -> int:
    """The alignment that a section asks for; 1 where it asks for none that can be."""
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
    before = 1  # of sections without bytes, which have their place before the next one's nevertheless
    for section in elf.sections:
        alignment = _alignment(section)
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
            raise CannotKeepError(f"section {section.name} has no place in the file")
    return _laid(_file_regions(elf, contents), "sections", elf.data)


def _memory_size(section: Section, contents: Mapping[int, bytes], sizes: Mapping[int, int]) -> int:
    if section.index in contents:
        return len(contents[section.index])
    return sizes.get(section.index, section.header.size)


def _addresses(elf: Elf, contents: Mapping[int, bytes], sizes: Mapping[int, int]) -> dict[int, int]:
    """The addresses of what is loaded; those of a file that gives none stay."""
    loaded = [each for each in elf.sections if each.header.flags & SHF_ALLOC and each.header.size]
    if len({each.header.addr for each in loaded}) < len(loaded):
        return {}
    regions = [
        _Region(each.header.addr, each.header.size, _memory_size(each, contents, sizes), _alignment(each),
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
    """A segment, which begins with a section, and ends with one or before one, in the file and in memory."""
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
        raise CannotKeepError(f"a segment at {segment.offset:#x} is made of no whole sections")
    filesz = file_end - offset
    if segment.memsz == segment.filesz:
        return replace(segment, offset=offset, vaddr=address, filesz=filesz, memsz=filesz)
    if not addresses or memory_end is None:
        raise CannotKeepError(f"a segment at {segment.offset:#x} ends with no section in memory")
    return replace(segment, offset=offset, vaddr=address, filesz=filesz, memsz=memory_end - address)
