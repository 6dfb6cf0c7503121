"""The attributes of a RISC-V object's code, in the section .riscv.attributes.

Source: RISC-V ELF psABI, chapter "Attributes". The format version is ``A``. The section has a subsection for
each vendor; the subsection of the vendor "riscv" has the attributes of the file. Attributes with even tags
are numbers (ULEB128), those with odd tags are text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.image.elf.reader import ElfFile, wrong

SECTION: Final = ".riscv.attributes"
VENDOR: Final = "riscv"
FILE: Final = 1
"""The tag Tag_file, which introduces the attributes of the whole object."""
NAMES: Final = {
    4: "stack_align",
    5: "arch",
    6: "unaligned_access",
    8: "priv_spec",
    10: "priv_spec_minor",
    12: "priv_spec_revision",
    14: "atomic_abi",
}


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a whole file, by tag name; an attribute with an unknown tag has the tag number as key."""

    tags: dict[str, int | str]

    @property
    def arch(self) -> str:
        """The attribute Tag_RISCV_arch, such as ``rv64i2p1_m2p0``; "" if the object has none."""
        return str(self.tags.get("arch", ""))


def read_attributes(elf: ElfFile) -> Attributes:
    """Return the attributes of a file; they are empty if the file has no attributes section.

    Raise `WireError` with the offset of the first error if they cannot be read.
    """
    section = elf.section(SECTION)
    if section is None:
        return Attributes({})
    data, start = elf.contents(section), section.header.offset
    if data[:1] != b"A":
        raise wrong(f"{SECTION} starts with {data[:1].hex() or 'nothing'}, expected 41 (format version A)", start)
    at = 1
    tags: dict[str, int | str] = {}
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        end = data.find(b"\0", at + 4, at + size)
        if size < 5 or at + size > len(data) or end < 0:
            raise wrong(
                f"a subsection of {size} bytes in {SECTION} has no vendor name, or exceeds the section", start + at
            )
        if data[at + 4 : end].decode("latin-1") == VENDOR:
            tags |= _tags(data[: at + size], end + 1, start)
        at += size
    return Attributes(tags)


def _tags(data: bytes, at: int, start: int) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    while at < len(data):
        begin = at
        scope, at = _number(data, at, start)
        size = int.from_bytes(data[at : at + 4], "little")
        stop = begin + size
        at += 4
        if stop > len(data) or stop < at:
            raise wrong(f"attributes of {size} bytes exceed {SECTION}", start + begin)
        while scope == FILE and at < stop:
            tag, at = _number(data[:stop], at, start)
            name = NAMES.get(tag, f"tag {tag}")
            if tag % 2:
                end = data.find(b"\0", at, stop)
                if end < 0:
                    raise wrong(f"the text of attribute {tag} has no end", start + at)
                found[name], at = data[at:end].decode("utf-8", "backslashreplace"), end + 1
            else:
                found[name], at = _number(data[:stop], at, start)
        at = stop
    return found


def _number(data: bytes, at: int, start: int) -> tuple[int, int]:
    """Return the ULEB128 number at offset `at` of `data`, and the offset of its end."""
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        value |= (data[place] & 0x7F) << shift
        if data[place] < 0x80:
            return value, place + 1
        shift += 7
    raise wrong("a number (ULEB128) has no end", start + at)
