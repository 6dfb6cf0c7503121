"""Offload bundles: files with objects for several processors, as ``hipcc --genco`` writes them.

clang-offload-bundler reads and writes the same format. Host programs, libraries and objects of HIP contain
bundles in the section ``.hip_fatbin``, one for each source file. With ``-fgpu-rdc`` they contain a section
for each object, which is LLVM bitcode until it is linked.

Source: Clang's documentation, "Clang Offload Bundler". A bundle has the magic and the number of entries, then
for each entry its offset, its size, the length of its name, and the name. All numbers have 64 bits. An
example of a name is ``hipv4-amdgcn-amd-amdhsa--gfx906:xnack-``. Compressed bundles: "Compressed Offload
Bundle Format", versions 1 to 3."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from softcard.core.errors import BeyondModel, SoftcardError, WireError
from softcard.core.record import Record, u64
from softcard.image.elf.layout import MACHINE_AMDGPU, SHT_NOBITS, FileHeader, SectionHeader
from softcard.image.elf.reader import MAX_NAME_BYTES, CheckedBytes
from softcard.image.hsa import targets

MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED: Final = b"CCOB"
FATBIN: Final = ".hip_fatbin"
"""The name of the section of host files that holds offload bundles."""
BITCODE: Final = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
"""The first bytes of LLVM bitcode: without a wrapper, and with one."""
ELF64: Final = b"\x7fELF\x02\x01"
MOST_UNPACKED: Final = 1 << 28
"""The largest accepted unpacked size of a compressed bundle in bytes."""
_SIZES: Final = {1: (4, (4,)), 2: (4, (4, 4)), 3: (8, (8, 8))}
"""The header fields before the hash of a compressed bundle, by version.

Values are the size in bytes of each number, and the sizes of all these fields. The last field is the size of the
unpacked bundle; if there are two, the first is the size of the packed bundle.
"""
_HASH_BYTES: Final = 8
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
"""No settings of features: code with any features fits."""


class EntryHeader(Record, size=24):
    """The fixed fields of a bundle's entry, which precede its name."""

    offset: int = u64()
    size: int = u64()
    name_size: int = u64()


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a bundle: `size` bytes at `offset` of `data`. `target` is its processor, "" for host code."""

    name: str
    offset: int
    size: int
    data: bytes = field(default=b"", repr=False, compare=False)

    @property
    def content(self) -> bytes:
        """The bytes of the object."""
        return self.data[self.offset : self.offset + self.size]

    @property
    def target(self) -> str:
        """The processor in the entry's name."""
        return targets.of_entry(self.name)[0]

    @property
    def features(self) -> dict[str, str]:
        """The features in the entry's name: "on" or "off" by name of the feature."""
        return targets.of_entry(self.name)[1]


def is_bundle(data: bytes) -> bool:
    """Return True if a file begins with the magic of an offload bundle, compressed or not."""
    return data.startswith((MAGIC, COMPRESSED))


def holds_bundles(data: bytes) -> bool:
    """Return True if a file is a bundle, or a host's ELF file with HIP sections that contain GPU code."""
    if is_bundle(data):
        return True
    try:
        return _is_host(data) and any(True for _ in _hip_sections(CheckedBytes(data)))
    except SoftcardError:
        return False


def entries(data: bytes) -> tuple[Entry, ...]:
    """Return all entries of a bundle; raise `WireError` if the table or an entry exceeds the file."""
    if not is_bundle(data):
        return tuple(_of_host(data)) if _is_host(data) else ()
    if data.startswith(COMPRESSED):
        data, _ = _unpacked(CheckedBytes(data), 0)
    return tuple(_entries(CheckedBytes(data)))


def _is_host(data: bytes) -> bool:
    return (
        data.startswith(ELF64)
        and len(data) >= FileHeader.size_bytes
        and FileHeader.parse(data).machine != MACHINE_AMDGPU
    )


def _hip_sections(file: CheckedBytes) -> Iterator[tuple[str, SectionHeader, int]]:
    """Yield each section with GPU code: its name, its header, and the header's offset."""
    header = FileHeader.parse(file.data)
    count, entry = header.shnum, SectionHeader.size_bytes
    if not count or header.shstrndx >= count:
        return
    if header.shentsize != entry:
        raise file.wrong(f"section headers have {header.shentsize} bytes, expected {entry}", 58)
    sections = list(file.records("section headers", header.shoff, count, entry, SectionHeader))
    _, names = sections[header.shstrndx]
    for place, section in sections:
        start = names.offset + section.name_offset
        name = file.name_at(start, names.offset + names.size) or ""
        if section.type != SHT_NOBITS and (name == FATBIN or name.startswith(MAGIC.decode())):
            yield name, section, place


def _of_host(data: bytes) -> Iterator[Entry]:
    file, claimed = CheckedBytes(data), 0
    for name, section, place in _hip_sections(file):
        file.inside(f"section {name}", section.offset, section.size, place)
        claimed = file.claim("sections of HIP", claimed + section.size, place)
        if name != FATBIN:
            yield Entry(name.removeprefix(MAGIC.decode()), section.offset, section.size, data)
            continue
        yield from _of_fatbin(file, section.offset, section.offset + section.size)


def _of_fatbin(file: CheckedBytes, at: int, end: int) -> Iterator[Entry]:
    """Yield the entries of all bundles from offset `at` to `end`; each bundle begins at the next magic number."""
    while True:
        starts = [file.data.find(magic, at, end) for magic in (MAGIC, COMPRESSED)]
        found = [start for start in starts if start >= 0]
        if not found:
            return
        at = min(found)
        if at == starts[0]:
            inside = tuple(_entries(CheckedBytes(file.data[at:end], file.base + at)))
            at += max((each.offset + each.size for each in inside), default=len(MAGIC))
        else:
            unpacked, size = _unpacked(CheckedBytes(file.data[at:end], file.base + at), 0)
            inside = tuple(_entries(CheckedBytes(unpacked)))
            at += max(size, len(COMPRESSED))
        yield from inside


def _unpacked(file: CheckedBytes, at: int) -> tuple[bytes, int]:
    """Return the unpacked contents of a compressed bundle at offset `at`, and its packed size.

    Raise `BeyondModel` for a compression method other than zlib.
    """
    file.inside("header of a compressed bundle", at, 8, at)
    version = int.from_bytes(file.data[at + 4 : at + 6], "little")
    method = int.from_bytes(file.data[at + 6 : at + 8], "little")
    if version not in _SIZES:
        raise BeyondModel(f"compressed offload bundles of version {version} are not supported, only 1 to 3").at(
            "byte", at + 4
        )
    if method != 0:
        text = (
            "the offload bundle is compressed with zstd"
            if method == 1
            else f"the offload bundle has the unknown compression method {method}"
        )
        raise BeyondModel(
            f"{text}, but only zlib is supported: unpack the bundle with clang-offload-bundler --unbundle"
        ).at("byte", at + 6)
    width, fields = _SIZES[version]
    first = at + 8
    head = 8 + sum(fields) + _HASH_BYTES
    file.inside("header of a compressed bundle", at, head, at)
    sizes = [
        int.from_bytes(file.data[place : place + width], "little") for place in range(first, first + sum(fields), width)
    ]
    if sizes[-1] > MOST_UNPACKED:
        raise file.wrong(f"the bundle has {sizes[-1]:#x} unpacked bytes, expected at most {MOST_UNPACKED:#x}", first)
    if len(sizes) > 1:
        file.inside("compressed bundle", at, sizes[0], first)
    end = at + sizes[0] if len(sizes) > 1 else len(file.data)
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(file.data[at + head : end], sizes[-1] + 1)
    except zlib.error as error:
        raise file.wrong(f"zlib cannot unpack the compressed bundle: {error}", at + head) from None
    if len(data) != sizes[-1] or (not unpacker.eof and unpacker.unconsumed_tail):
        raise file.wrong(f"a compressed bundle unpacks to {len(data):#x} bytes or more, expected {sizes[-1]:#x}", first)
    if not data.startswith(MAGIC):
        raise file.wrong(
            f"a compressed bundle unpacks to bytes that start with {data[:4].hex(' ')}, expected a bundle", at + head
        )
    return data, end - at - len(unpacker.unused_data)


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
        yield Entry(name, header.offset, header.size, file.data)
        at = name_at + header.name_size


def pick(
    data: bytes, processor: str = "", *, settings: Mapping[str, str] = NO_SETTINGS, or_only: bool = False
) -> Entry:
    """Return the bundle's entry for `processor`, or the only GPU entry if `processor` is "".

    `processor` may be a target ID (``gfx90a:xnack-``). `settings` are the agent's settings of features that the target
    ID does not name: "on" or "off" by name. An entry with another setting does not fit; an entry that does not name a
    feature fits either setting. With `or_only`, return the only GPU entry even if it does not fit; the caller then
    reports the mismatch. Raise a `WireError` that lists all entries if none fits.
    """
    found = entries(data)
    devices = [each for each in found if each.target and each.size]
    if processor:
        name, features = targets.of_target_id(processor)
        processor, settings = name or processor, {**settings, **features}
    own = [each for each in devices if targets.accepts(settings, each.features)]
    exact = [each for each in own if each.target == processor]
    fitting = exact or [each for each in own if targets.runs_on(each.target, processor)]
    fitting = [each for each in fitting if each.features == fitting[0].features]
    if not fitting and (or_only or not processor) and len({each.target for each in devices}) == 1:
        fitting = devices
    what = "an offload bundle" if is_bundle(data) else "a host file"
    if not fitting:
        wanted = "name the processor of the wanted entry"
        if processor:
            wanted = f"expected an entry for {targets.target_id(processor, settings)}"
        listed = ", ".join(each.name for each in found) or "none"
        raise WireError(f"the file is {what} with the entries {listed}: {wanted}").at("byte", 0)
    if not is_bundle(data) and len({each.content for each in fitting}) > 1:
        text = f"the file is {what} with {len(fitting)} code objects for {fitting[0].target}, one for each source file"
        raise WireError(f"{text}, expected one: make a file from one source file with hipcc --genco").at("byte", 0)
    if fitting[0].content.startswith(BITCODE):
        text = f"{fitting[0].name} is LLVM bitcode, as -fgpu-rdc leaves in objects, expected machine code"
        raise WireError(f"{text}: link it with hipcc -fgpu-rdc --hip-link").at("byte", fitting[0].offset)
    return fitting[0]
