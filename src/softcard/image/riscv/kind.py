"""The kinds of RISC-V ELF file that can run on a device, and the relocation of position-independent ones.

A device has no dynamic loader. So executables run at their link address; position-independent files run after
relocations that need only the load address. The error for other files explains how to link them. Sources: the ELF
specification (e_type, dynamic section, DT_RELR) and the RISC-V ELF psABI, chapter "Relocations".
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from softcard.core.words import align_down
from softcard.image.elf.layout import (
    DT_JMPREL,
    DT_PLTRELSZ,
    DT_RELA,
    DT_RELAENT,
    DT_RELASZ,
    DT_RELR,
    DT_RELRSZ,
    ET_CORE,
    ET_DYN,
    ET_EXEC,
    ET_REL,
    RelaEntry,
)
from softcard.image.elf.reader import CheckedBytes, wrong
from softcard.image.riscv.program import ElfImage, Segment, Symbol

KINDS: Final = {
    ET_REL: "a relocatable object: link it, for instance with ld.lld --image-base=0x10000",
    ET_CORE: "a core dump: load the program that it came from",
}
CLASS_BYTE, TYPE_BYTE = 4, 16
TABLES: Final = ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ))
RELATIVE: Final = 3
RELOCATIONS: Final = {
    1: "R_RISCV_32",
    2: "R_RISCV_64",
    4: "R_RISCV_COPY",
    5: "R_RISCV_JUMP_SLOT",
    6: "R_RISCV_TLS_DTPMOD32",
    7: "R_RISCV_TLS_DTPMOD64",
    8: "R_RISCV_TLS_DTPREL32",
    9: "R_RISCV_TLS_DTPREL64",
    10: "R_RISCV_TLS_TPREL32",
    11: "R_RISCV_TLS_TPREL64",
    12: "R_RISCV_TLSDESC",
    58: "R_RISCV_IRELATIVE",
}
"""Dynamic relocation types that need more than the load address, by number."""
PAGE: Final = 0x1_0000
"""The page size for which linkers lay out files; files are moved in memory by multiples of it."""
_WORD: Final = struct.Struct("<Q")
_MASK64: Final = (1 << 64) - 1


def loadable(image: ElfImage, data: bytes, base: int) -> ElfImage:
    """Return the program's image as it is to be placed in the memory of RV64 harts; `data` is the file's bytes.

    An executable stays at its link address. A position-independent file that begins below `base` is moved up to
    `base`; its R_RISCV_RELATIVE and DT_RELR relocations are applied. Raise `WireError` with the byte offset for
    every other kind of file, and for the first unsupported relocation."""
    if image.bits != 64:
        raise wrong("EI_CLASS is 1 (32-bit), expected 2 (64-bit): compile with -march=rv64gc -mabi=lp64d", CLASS_BYTE)
    if image.kind not in (ET_EXEC, ET_DYN):
        what = KINDS.get(image.kind, "not a program")
        text = f"e_type is {image.kind:#x}, expected 2 (executable) or 3 (position-independent): this is {what}"
        raise wrong(text, TYPE_BYTE)
    distance = 0
    if image.kind == ET_DYN and image.segments:
        lowest = min(segment.address for segment in image.segments)
        distance = max(base - align_down(lowest, PAGE), 0)
    places = _Places(image, data, distance)
    if image.dynamic is not None:
        places.relocate(*image.dynamic)
    return places.moved() if image.kind == ET_DYN else replace(image, segments=places.segments())


class _Places:
    """The bytes of all segments during relocation, accessed by link address."""

    def __init__(self, image: ElfImage, data: bytes, distance: int) -> None:
        self._image = image
        self._data = data
        self._distance = distance
        self._bytes = [bytearray(segment.data) for segment in image.segments]
        order = sorted((segment.address, number) for number, segment in enumerate(image.segments))
        self._starts = [address for address, _ in order]
        self._order = [number for _, number in order]
        self._done = 0

    def segments(self) -> tuple[Segment, ...]:
        """Return the segments with relocated bytes, at their link addresses."""
        return tuple(
            replace(segment, data=bytes(data)) for segment, data in zip(self._image.segments, self._bytes, strict=True)
        )

    def moved(self) -> ElfImage:
        """Return the ELF image moved to its load address, with relocated bytes: segments, symbols and entry point."""
        distance, image = self._distance, self._image
        segments = tuple(replace(segment, address=segment.address + distance) for segment in self.segments())
        symbols: dict[str, Symbol] | None = None
        if image.symbols is not None:
            symbols = {
                name: replace(symbol, address=symbol.address + distance & _MASK64)
                for name, symbol in image.symbols.items()
            }
        at = image.headers_at + distance if image.headers_at else 0
        entry = image.entry + distance & _MASK64
        return replace(image, entry=entry, segments=segments, symbols=symbols, headers_at=at)

    def relocate(self, header: int, start: int, size: int) -> None:
        """Apply the relocations that the dynamic section at file offset `start` lists.

        `size` is its size, and `header` the offset of its program header, for errors.
        """
        tags = CheckedBytes(self._data).dynamic_tags("dynamic section", start, size, header)
        entry = tags.get(DT_RELAENT, (RelaEntry.size_bytes, 0))
        if entry[0] != RelaEntry.size_bytes:
            raise wrong(f"DT_RELAENT is {entry[0]:#x}, expected {RelaEntry.size_bytes:#x}", entry[1])
        for table, length in TABLES:
            if table in tags:
                for place in self._table(tags, table, length, RelaEntry.size_bytes):
                    self._apply(place)
        if DT_RELR in tags:
            self._apply_packed(self._table(tags, DT_RELR, DT_RELRSZ, _WORD.size))

    def _table(self, tags: dict[int, tuple[int, int]], table: int, length: int, entry: int) -> Iterator[int]:
        """Yield the file offset of each entry of a table; raise `WireError` unless one segment contains the table.

        `table` and `length` are the tags of the table's address and size, and `entry` is the size of an entry."""
        address, place = tags[table]
        size = tags.get(length, (0, place))[0]
        offset = self._file_offset(address, size)
        if offset is None:
            raise wrong(
                f"relocations at {address:#x}..{address + size:#x} lie outside of the bytes of all segments", place
            )
        return iter(range(offset, offset + size - entry + 1, entry))

    def _file_offset(self, address: int, size: int) -> int | None:
        number = self._segment_at(address)
        if number is None:
            return None
        segment = self._image.segments[number]
        at = address - segment.address
        return segment.offset + at if at + size <= len(segment.data) else None

    def _segment_at(self, address: int) -> int | None:
        """Return the number of the last segment that begins at or before `address`.

        Return None if there is no such segment."""
        index = bisect_right(self._starts, address) - 1
        return None if index < 0 else self._order[index]

    def _apply(self, place: int) -> None:
        address, kind, _, addend = RelaEntry.layout.unpack_from(self._data, place)
        if kind == RELATIVE:
            self._put(address, addend + self._distance, place)
        elif kind:
            name = RELOCATIONS.get(kind, f"relocation {kind}")
            raise wrong(
                f"{name} at {address:#x} needs a dynamic loader, which no device has, expected R_RISCV_RELATIVE only: "
                "link with -static, or -static -pie",
                place,
            )

    def _apply_packed(self, entries: Iterator[int]) -> None:
        """Apply DT_RELR relocations; `entries` are the file offsets of 64-bit words.

        Each word is either the address of a value to relocate, or a bitmap of the 63 values that follow.
        """
        where = 0
        for place in entries:
            (word,) = _WORD.unpack_from(self._data, place)
            if word & 1 == 0:
                self._add(word, place)
                where = word + 8
                continue
            for bit in range(63):
                if word >> bit + 1 & 1:
                    self._add(where + 8 * bit, place)
            where += 8 * 63

    def _add(self, address: int, place: int) -> None:
        data, at = self._word(address, place)
        (value,) = _WORD.unpack_from(data, at)
        _WORD.pack_into(data, at, value + self._distance & _MASK64)

    def _put(self, address: int, value: int, place: int) -> None:
        data, at = self._word(address, place)
        _WORD.pack_into(data, at, value & _MASK64)

    def _word(self, address: int, place: int) -> tuple[bytearray, int]:
        self._done += 1
        if self._done > len(self._data):
            raise wrong(f"the number of relocations exceeds the file's {len(self._data):#x} bytes", place)
        number = self._segment_at(address)
        if number is not None:
            data, at = self._bytes[number], address - self._image.segments[number].address
            if at <= len(data) - _WORD.size:
                return data, at
        raise wrong(f"a relocation of 8 bytes at {address:#x} lies outside of the bytes of all segments", place)
