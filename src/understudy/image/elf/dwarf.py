"""Debug information: the types of functions' parameters, as far as passing them in registers depends on them.

Sources: the DWARF standard, versions 2 to 5, chapter 7 (data representation), in its 32-bit format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from understudy.core.errors import WireError
from understudy.image.elf.reader import ElfFile

SUBPROGRAM, PARAMETER, BASE_TYPE, COMPILE_UNIT = 0x2E, 0x05, 0x24, 0x11
WRAPPERS: Final = (0x16, 0x26, 0x35, 0x37, 0x47)
"""Types that are another one by a name or with a qualifier: typedef, const, volatile, restrict, _Atomic."""
NAME, BYTE_SIZE, ENCODING, TYPE, ORIGIN, SPECIFICATION, LINKAGE_NAME = 0x03, 0x0B, 0x3E, 0x49, 0x31, 0x47, 0x6E
STR_OFFSETS_BASE: Final = 0x72
STMT_LIST, COMP_DIR = 0x10, 0x1B
FLOAT: Final = 4
"""DW_ATE_float."""
DWARF64: Final = 0xFFFF_FFF0
LONGEST_CHAIN: Final = 64
SIZES: Final = {
    0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16, 0x0C: 1, 0x17: 4, 0x0E: 4, 0x1F: 4, 0x11: 1, 0x12: 2, 0x13: 4,
    0x14: 8, 0x20: 8, 0x1D: 4, 0x1C: 4, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
}  # fmt: skip
"""Bytes of the forms that have as many everywhere."""
LEB: Final = (0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23)
BLOCKS: Final = {0x0A: 1, 0x03: 2, 0x04: 4}
BLOCK, EXPRESSION, STRING, PRESENT, INDIRECT, CONSTANT, ADDRESS, REF_ADDR = (
    0x09, 0x18, 0x08, 0x19, 0x16, 0x21, 0x01, 0x10
)  # fmt: skip
LOCAL: Final = (0x11, 0x12, 0x13, 0x14, 0x15)
"""Forms of references that count from their unit's first byte."""
STRP, LINE_STRP = 0x0E, 0x1F
STRX: Final = (0x1A, 0x25, 0x26, 0x27, 0x28)
SECTIONS: Final = (".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets")
KEPT: Final = (
    NAME,
    BYTE_SIZE,
    ENCODING,
    TYPE,
    ORIGIN,
    SPECIFICATION,
    LINKAGE_NAME,
    STR_OFFSETS_BASE,
    STMT_LIST,
    COMP_DIR,
)
"""Attributes that anybody looks at."""


@dataclass(slots=True)
class Entry:
    """A debugging information entry: attributes as numbers or (form, number) for text, and its parameters."""

    tag: int
    values: dict[int, int] = field(default_factory=dict)
    names: dict[int, tuple[int, int]] = field(default_factory=dict)
    parameters: list[Entry] = field(default_factory=list)
    text_base: int = 0


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """How entries of one kind are written: their tag, whether they have children, and (attribute, form, constant)."""

    tag: int
    has_children: bool
    attributes: tuple[tuple[int, int, int], ...]


def signatures(data: bytes) -> dict[str, tuple[str, ...]]:
    """Parameter types of the functions of a 64-bit ELF file, by the names of their symbols: f32, f64 or word.

    What has no debug information is not among them, nor is anything where that cannot be read.
    """
    try:
        elf = ElfFile(data, 64)
        info, abbreviations, *texts = (elf.contents(elf.section(name)) for name in SECTIONS)
        return _Reader(info, abbreviations, texts).signatures() if info else {}
    except (WireError, IndexError, RecursionError):
        return {}


def compile_folders(elf: ElfFile) -> dict[int, str]:
    """The folder that each unit was compiled in, by where its line table lies in .debug_line; as far as can be read."""
    try:
        info, abbreviations, *texts = (elf.contents(elf.section(name)) for name in SECTIONS)
        return _Reader(info, abbreviations, texts).folders()
    except (WireError, IndexError, RecursionError):
        return {}


class Cursor:
    """Little-endian numbers one after the other; `IndexError` behind the end."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def number(self, size: int) -> int:
        """Of so many bytes."""
        if self.at + size > len(self.data):
            raise IndexError(self.at)
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def leb(self) -> int:
        """In LEB128, unsigned."""
        value = shift = 0
        while shift < 70:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise IndexError(self.at)

    def text(self) -> str:
        """Up to a 0."""
        end = self.data.find(0, self.at)
        if end < 0:
            raise IndexError(self.at)
        found = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return found


class _Reader:
    """Reads all units of .debug_info."""

    def __init__(self, info: bytes, abbreviations: bytes, texts: list[bytes]) -> None:
        self._info = info
        self._abbreviations = abbreviations
        self._texts = texts
        self._entries: dict[int, Entry] = {}

    def signatures(self) -> dict[str, tuple[str, ...]]:
        at = 0
        while at < len(self._info):
            at = self._unit(at)
        found: dict[str, tuple[str, ...]] = {}
        for entry in self._entries.values():
            if entry.tag != SUBPROGRAM:
                continue
            chain = list(self._chain(entry, (ORIGIN, SPECIFICATION)))
            name = next((self._name(each, LINKAGE_NAME) for each in chain if LINKAGE_NAME in each.names), "")
            name = name or next((self._name(each, NAME) for each in chain if NAME in each.names), "")
            parameters = next((each.parameters for each in chain if each.parameters), [])
            if name:
                found.setdefault(name, tuple(self._kind(each) for each in parameters))
        return found

    def folders(self) -> dict[int, str]:
        at = 0
        while at < len(self._info):
            at = self._unit(at)
        units = [entry for entry in self._entries.values() if entry.tag == COMPILE_UNIT and STMT_LIST in entry.values]
        return {each.values[STMT_LIST]: self._name(each, COMP_DIR) for each in units if COMP_DIR in each.names}

    def _chain(self, entry: Entry, through: tuple[int, ...]) -> Iterator[Entry]:
        """The entry, and those that it refers to by one of these attributes."""
        following: Entry | None = entry
        for _ in range(LONGEST_CHAIN):
            if following is None:
                return
            yield following
            links = [following.values[each] for each in through if each in following.values]
            following = self._entries.get(links[0]) if links else None

    def _kind(self, parameter: Entry) -> str:
        typed = next((each for each in self._chain(parameter, (ORIGIN,)) if TYPE in each.values), None)
        entry = None if typed is None else self._entries.get(typed.values[TYPE])
        for _ in range(LONGEST_CHAIN):
            if entry is None or entry.tag not in WRAPPERS:
                break
            entry = self._entries.get(entry.values.get(TYPE, -1))
        if entry is None or entry.tag != BASE_TYPE or entry.values.get(ENCODING) != FLOAT:
            return "word"
        return {4: "f32", 8: "f64"}.get(entry.values.get(BYTE_SIZE, 0), "word")

    def _name(self, entry: Entry, attribute: int) -> str:
        form, value = entry.names[attribute]
        if form == STRING:
            return Cursor(self._info, value).text()
        if form in STRX:
            value = Cursor(self._texts[2], entry.text_base + 4 * value).number(4)
        return Cursor(self._texts[1 if form == LINE_STRP else 0], value).text()

    def _unit(self, start: int) -> int:
        """Read one unit; gives where the next one begins."""
        cursor = Cursor(self._info, start)
        length = cursor.number(4)
        if length >= DWARF64:
            raise WireError("DWARF in its 64-bit format")
        end = cursor.at + length
        version = cursor.number(2)
        if version >= 5:
            kind, address = cursor.number(1), cursor.number(1)
            table = cursor.number(4)
            cursor.at += {0x04: 8, 0x05: 8, 0x02: 12, 0x06: 12}.get(kind, 0)
        else:
            table, address = cursor.number(4), cursor.number(1)
        rows = self._rows(table)
        open_: list[Entry | None] = []
        base = 8
        while cursor.at < end:
            at = cursor.at
            code = cursor.leb()
            if not code:
                if open_:
                    open_.pop()
                continue
            row = rows.get(code)
            if row is None:
                raise IndexError(at)
            entry = self._entry(cursor, row, start, version, address)
            base = entry.values.get(STR_OFFSETS_BASE, base)
            entry.text_base = base
            self._entries[at] = entry
            if row.tag == PARAMETER and open_ and open_[-1] is not None:
                open_[-1].parameters.append(entry)
            if row.has_children:
                open_.append(entry if row.tag == SUBPROGRAM else None)
        return end

    def _rows(self, at: int) -> dict[int, Abbreviation]:
        rows: dict[int, Abbreviation] = {}
        cursor = Cursor(self._abbreviations, at)
        while code := cursor.leb():
            tag, children = cursor.leb(), bool(cursor.number(1))
            attributes = []
            while True:
                name, form = cursor.leb(), cursor.leb()
                constant = cursor.leb() if form == CONSTANT else 0
                if not name and not form:
                    break
                attributes.append((name, form, constant))
            rows[code] = Abbreviation(tag, children, tuple(attributes))
        return rows

    def _entry(self, cursor: Cursor, row: Abbreviation, unit: int, version: int, address: int) -> Entry:
        entry = Entry(row.tag)
        for name, form, constant in row.attributes:
            while form == INDIRECT:
                form = cursor.leb()
            at = cursor.at
            value = constant if form == CONSTANT else self._value(cursor, form, version, address)
            if name not in KEPT:
                continue
            if name in (NAME, LINKAGE_NAME, COMP_DIR):
                entry.names[name] = form, at if form == STRING else value
            else:
                entry.values[name] = value + unit if form in LOCAL else value
        return entry

    @staticmethod
    def _value(cursor: Cursor, form: int, version: int, address: int) -> int:
        """A form's number; for blocks and text nothing but what lies behind it matters."""
        if form in SIZES:
            return cursor.number(SIZES[form])
        if form in LEB:
            return cursor.leb()
        if form == ADDRESS:
            return cursor.number(address)
        if form == REF_ADDR:
            return cursor.number(address if version < 3 else 4)
        if form == PRESENT:
            return 1
        if form == STRING:
            cursor.text()
            return 0
        if form in BLOCKS or form in (BLOCK, EXPRESSION):
            size = cursor.number(BLOCKS[form]) if form in BLOCKS else cursor.leb()
            cursor.at += size
            return 0
        raise WireError(f"DWARF form {form:#x}")
