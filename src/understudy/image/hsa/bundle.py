"""Offload bundles: one file with objects for several processors, as ``hipcc --genco`` and clang-offload-bundler write.

Source: Clang's documentation, "Clang Offload Bundler": the magic, the number of entries, for each its offset, its size
and the length of its name with the name behind it, all numbers of 64 bits; names such as
``hipv4-amdgcn-amd-amdhsa--gfx906:xnack-``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import BeyondModel, WireError
from understudy.core.record import Record, u64
from understudy.image.elf.reader import MAX_NAME_BYTES, CheckedBytes
from understudy.image.hsa import targets

MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED: Final = b"CCOB"


class EntryHeader(Record, size=24):
    """What stands before an entry's name."""

    offset: int = u64()
    size: int = u64()
    name_size: int = u64()


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a bundle: `size` bytes at `offset`. `target` is its processor, "" for host code."""

    name: str
    offset: int
    size: int

    @property
    def target(self) -> str:
        """The processor that its name ends with."""
        return targets.of_entry(self.name)


def is_bundle(data: bytes) -> bool:
    """Whether a file begins like a bundle, compressed or not."""
    return data.startswith((MAGIC, COMPRESSED))


def entries(data: bytes) -> tuple[Entry, ...]:
    """All entries; a `WireError` where the table or an entry does not lie in the file."""
    if data.startswith(COMPRESSED):
        text = "compressed offload bundles (CCOB) are not modelled: clang-offload-bundler --unbundle opens them"
        raise BeyondModel(text).at("byte", 0)
    return tuple(_entries(CheckedBytes(data)))


def _entries(file: CheckedBytes) -> Iterator[Entry]:
    at = len(MAGIC)
    file.inside("number of bundle entries", at, 8, at)
    count = int.from_bytes(file.data[at : at + 8], "little")
    file.inside("table of bundle entries", at + 8, count * EntryHeader.size_bytes, at)
    at += 8
    for _ in range(count):
        file.inside("bundle entry", at, EntryHeader.size_bytes, at)
        header = EntryHeader.parse(file.data, at)
        name_at = at + EntryHeader.size_bytes
        if header.name_size > MAX_NAME_BYTES:
            raise file.wrong(f"a bundle entry's name has {header.name_size} bytes, expected {MAX_NAME_BYTES}", at)
        file.inside("name of a bundle entry", name_at, header.name_size, at)
        file.inside("object of a bundle entry", header.offset, header.size, at)
        name = file.data[name_at : name_at + header.name_size].decode("utf-8", "backslashreplace")
        yield Entry(name, header.offset, header.size)
        at = name_at + header.name_size


def pick(data: bytes, processor: str = "") -> Entry:
    """The entry for a processor, or the only one for a GPU; a `WireError` with all entries where there is none."""
    found = entries(data)
    devices = [each for each in found if each.target and each.size]
    fitting = [each for each in devices if each.target == processor]
    fitting += [each for each in devices if targets.runs_on(each.target, processor)]
    if fitting:
        return fitting[0]
    if len(devices) == 1:
        return devices[0]
    wanted = f"none is for {processor}" if processor else "name the processor of one"
    listed = ", ".join(each.name for each in found) or "none"
    raise WireError(f"an offload bundle with the entries {listed}: {wanted}").at("byte", 0)
