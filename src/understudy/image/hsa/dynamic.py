"""Where the dynamic segment of a linked file says that its tables are: all that a file without section headers has."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from understudy.image.elf.layout import (
    DT_GNU_HASH,
    DT_HASH,
    DT_REL,
    DT_RELA,
    DT_RELASZ,
    DT_RELSZ,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    SymbolEntry,
)
from understudy.image.elf.reader import CheckedBytes

GNU_HEADER_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class Span:
    """`size` bytes of the file, from `offset` on, that lie at `address`; empty where there is no such table."""

    address: int = 0
    offset: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class DynamicTables:
    """The tables that a dynamic segment names."""

    strings: Span
    symbols: Span
    rela: Span
    rel: Span


class DynamicSegment:
    """The dynamic segment at `where`; `loads` are the segments that say where addresses lie in the file."""

    def __init__(self, file: CheckedBytes, where: Span, loads: Sequence[Span]) -> None:
        self.file = file
        self.place = where.offset
        self.loads = loads
        tags = file.dynamic_tags("dynamic segment", where.offset, where.size, where.offset)
        self.tags = {tag: value for tag, (value, _) in tags.items()}

    def tables(self) -> DynamicTables:
        """All tables; a `WireError` where one does not lie in the file."""
        return DynamicTables(
            strings=self.span("string table", DT_STRTAB, self.tags.get(DT_STRSZ, 0)),
            symbols=self.span("symbol table", DT_SYMTAB, self.symbol_count() * SymbolEntry.size_bytes),
            rela=self.span("relocations", DT_RELA, self.tags.get(DT_RELASZ, 0)),
            rel=self.span("relocations", DT_REL, self.tags.get(DT_RELSZ, 0)),
        )

    def span(self, what: str, tag: int, size: int) -> Span:
        """What a tag names; empty where it is not there."""
        if tag not in self.tags or not size:
            return Span()
        address = self.tags[tag]
        return Span(address, self.offset(what, address, size), size)

    def offset(self, what: str, address: int, size: int) -> int:
        """Where `size` bytes at an address lie in the file."""
        for load in self.loads:
            if load.address <= address and address + size <= load.address + load.size:
                return address - load.address + load.offset
        raise self.file.wrong(f"dynamic {what} at {address:#x}..{address + size:#x} lies in no segment", self.place)

    def symbol_count(self) -> int:
        """How many symbols there are: only the hash tables know it."""
        if DT_HASH in self.tags:
            return self.words(self.tags[DT_HASH], 2)[1]  # as many chains as symbols
        return self.gnu_count(self.tags[DT_GNU_HASH]) if DT_GNU_HASH in self.tags else 0

    def gnu_count(self, address: int) -> int:
        """The last chain that begins in a bucket ends with the last symbol: its word is odd."""
        buckets, first_symbol, bloom_words, _ = self.words(address, GNU_HEADER_WORDS)
        buckets_at = address + 4 * GNU_HEADER_WORDS + 8 * bloom_words
        last = max(self.words(buckets_at, buckets), default=0)
        if last < first_symbol:
            return first_symbol
        data = self.file.data
        at = self.offset("hash table", buckets_at + 4 * (buckets + last - first_symbol), 4)
        for more, (word,) in enumerate(struct.iter_unpack("<I", data[at : at + (len(data) - at) // 4 * 4])):
            if word & 1:
                return last + more + 1
        raise self.file.wrong("the last chain of the dynamic hash table does not end", at)

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """`count` words of 32 bits."""
        return struct.unpack_from(f"<{count}I", self.file.data, self.offset("hash table", address, 4 * count))
