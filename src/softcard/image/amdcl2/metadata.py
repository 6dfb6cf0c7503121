"""Metadata of a kernel in an AMD OpenCL 2.0 file: its arguments, and facts that the compiler recorded.

Parsing keeps every field, so that packing returns the same bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from softcard.core.errors import WireError
from softcard.core.record import AnyRecord
from softcard.image.amdcl2.arguments import Argument, KernargLayout, argument_of, lay_out
from softcard.image.amdcl2.generations import Generation
from softcard.image.amdcl2.records import ArgumentEntry, Hint, MetadataHeader, Queue, metadata_layout
from softcard.image.elf.reader import wrong
from softcard.image.printf_format import PrintfFormat, unescaped

MAX_ARGUMENTS: Final = 4096
"""The largest number of arguments that metadata may list; no real kernel reaches it."""


@dataclass(frozen=True)
class KernelMetadata:
    """The metadata of a kernel: the raw fields of the file, and properties that interpret them.

    `names` are the two names in the file and, from driver 2004.06 on, the vector type hint. `rest` holds the
    header's bytes after the known fields, and `tail` the bytes after the last name."""

    bits: int
    generation: Generation
    header: MetadataHeader
    queue: Queue
    hint: Hint | None
    rest: bytes
    names: tuple[str, ...]
    entries: tuple[tuple[ArgumentEntry, str, str], ...]
    tail: bytes

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """All arguments in order, setup arguments first if there are any."""
        return tuple(argument_of(*each) for each in self.entries)

    @cached_property
    def layout(self) -> KernargLayout:
        """The offsets of the arguments in the kernarg segment."""
        return lay_out(self.arguments, self.bits, self.generation)

    @property
    def required_work_group_size(self) -> tuple[int, int, int] | None:
        """The work-group size for which the kernel was compiled (reqd_work_group_size); None if it is not set."""
        return _size(self.header.required_work_group_size)

    @property
    def work_group_size_hint(self) -> tuple[int, int, int] | None:
        """The work-group size with which the kernel is likely to be called; None if the file has none."""
        return _size(self.hint.work_group_size_hint) if self.hint is not None else None

    @property
    def vector_type_hint(self) -> str:
        """The vector type with which the kernel mainly computes (vec_type_hint); "" if unknown."""
        return self.names[2] if len(self.names) > 2 else ""

    @property
    def uses_enqueue(self) -> bool:
        """True if the kernel enqueues other kernels."""
        return bool(self.queue.uses_enqueue)

    @property
    def has_printf(self) -> bool:
        """True if the kernel has printf formats."""
        return self.queue.printf_count > 0

    @cached_property
    def formats(self) -> dict[int, PrintfFormat]:
        """The printf formats by number. The first truncated format, and all formats after it, are left out."""
        kind, data = metadata_layout(self.bits).printf, self.tail
        count = min(self.queue.printf_count, len(data) // kind.size_bytes)
        entries = [kind.parse(data, number * kind.size_bytes) for number in range(count)]
        at = (self.queue.printf_count + 1) * kind.size_bytes  # the last entry is all zero
        found: dict[int, PrintfFormat] = {}
        for entry in entries:
            text = at + 4 * entry.size_count
            end = text + entry.text_bytes
            if end > len(data):
                break
            sizes = struct.unpack_from(f"<{entry.size_count}I", data, at)
            found[entry.number] = PrintfFormat(sizes, unescaped(data[text:end].decode("utf-8", "replace")))
            at = end + 1
        return found

    @property
    def architecture(self) -> int:
        """The GCN generation (7, 8 or 9) if the second name in the metadata is GFX7, GFX8 or GFX9, else 0."""
        name = self.names[1]
        return int(name[3]) if len(name) == 4 and name[:3] == "GFX" and name[3].isdigit() else 0

    def pack(self) -> bytes:
        """Return the metadata as bytes, as in a file."""
        out = [self.header.pack(), self.queue.pack(), self.hint.pack() if self.hint else b"", self.rest]
        out += [name.encode("utf-8", "surrogateescape") + b"\0" for name in self.names]
        out += [entry.pack() for entry, _, _ in self.entries]
        out.append(bytes(metadata_layout(self.bits).entry.size_bytes))
        out += [text.encode("utf-8", "surrogateescape") + b"\0" for _, *texts in self.entries for text in texts]
        return b"".join([*out, self.tail])


def _size(words: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return the work-group size in three words; None if it is not set.

    Assemblers write 0 for missing dimensions.
    """
    x, y, z = words
    return (x, y or 1, z or 1) if x else None


@lru_cache(4096)
def _parsed(bits: int, data: bytes) -> ArgumentEntry | None:
    """Return the argument entry in `data`; None if `data` is too short.

    Results are cached, since kernels of a program share many equal entries."""
    kind = metadata_layout(bits).entry
    return kind.parse(data) if len(data) == kind.size_bytes else None


def parse_metadata(data: bytes, bits: int, generation: Generation, base: int = 0) -> KernelMetadata:
    """Return the metadata in `data` of one kernel; `base` is its offset in the file.

    Raise `WireError` with the offset of the first invalid byte.
    """
    return _Parser(data, bits, generation, base).parse()


class _Parser:
    """A parser that reads one kernel's metadata from its first byte to its last."""

    def __init__(self, data: bytes, bits: int, generation: Generation, base: int) -> None:
        self.data, self.bits, self.generation, self.base = data, bits, generation, base
        self.at = 0

    def parse(self) -> KernelMetadata:
        layout = metadata_layout(self.bits)
        header, queue = self._take(layout.header), self._take(layout.queue)
        if not self.at <= header.struct_bytes <= len(self.data):
            found = f"the size in the metadata header is {header.struct_bytes} bytes"
            raise self._wrong(f"{found}, expected {self.at} to {len(self.data)}", 0)
        hint = self._take(layout.hint) if header.struct_bytes >= self.at + layout.hint.size_bytes else None
        rest = self.data[self.at : header.struct_bytes]
        self.at = header.struct_bytes
        lengths = [header.kernel_name_bytes, header.device_name_bytes]
        names = tuple(self._text(length) for length in lengths)
        entry = layout.entry.size_bytes
        if hint is not None and self.data[self.at : self.at + 1] != bytes([entry]):
            names = (*names, self._text(hint.vector_type_hint_bytes))  # if an entry begins here, there is no hint
        elif self.data[self.at : self.at + 4] == (entry << 8).to_bytes(4, "little"):
            names = (*names, self._text(0))  # an empty hint, whose length the header does not count
        return KernelMetadata(
            self.bits, self.generation, header, queue, hint, rest, names, self._entries(header), self.data[self.at :]
        )

    def _entries(self, header: MetadataHeader) -> tuple[tuple[ArgumentEntry, str, str], ...]:
        kind = metadata_layout(self.bits).entry
        if header.argument_count > min(MAX_ARGUMENTS, len(self.data) // kind.size_bytes):
            text = f"{header.argument_count} arguments do not fit the metadata's {len(self.data)} bytes"
            raise self._wrong(text, type(header).offset_of("argument_count"))
        entries: list[ArgumentEntry] = []
        for _ in range(header.argument_count):
            start = self.at
            entry = _parsed(self.bits, self.data[start : start + kind.size_bytes])
            if entry is None:
                raise self._wrong(f"the metadata ends within an argument entry of {kind.size_bytes} bytes", start)
            self.at += kind.size_bytes
            if entry.entry_bytes != kind.size_bytes:
                raise self._wrong(f"an argument entry has {entry.entry_bytes} bytes, expected {kind.size_bytes}", start)
            entries.append(entry)
        self._take(kind)  # all zero: the end
        return tuple((entry, self._text(entry.name_bytes), self._text(entry.type_name_bytes)) for entry in entries)

    def _take(self, record: type[AnyRecord]) -> AnyRecord:
        try:
            found = record.parse(self.data, self.at)
        except WireError as error:
            raise self._wrong(error.message, self.at) from None
        self.at += record.size_bytes
        return found

    def _text(self, length: int) -> str:
        end = self.at + length
        if end >= len(self.data) or self.data[end]:
            raise self._wrong(f"a text of {length} bytes does not end with a 0 within the metadata", self.at)
        text = self.data[self.at : end].decode("utf-8", "surrogateescape")
        self.at = end + 1
        return text

    def _wrong(self, message: str, byte: int) -> WireError:
        return wrong(message, self.base + byte)
