"""DWARF debug information: parameter types of functions, and inlined code with the calls that it replaces.

A type is read as far as it determines the registers that pass a value.

Sources: the DWARF standard, versions 2 to 5, chapter 7 (data representation), in its 32-bit format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from softcard.core.errors import WireError
from softcard.image.elf.reader import ElfFile

SUBPROGRAM, PARAMETER, BASE_TYPE, COMPILE_UNIT, ENUMERATION, MORE_PARAMETERS = 0x2E, 0x05, 0x24, 0x11, 0x04, 0x18
INLINED: Final = 0x1D
POINTERS: Final = (0x0F, 0x10, 0x42)
"""The DWARF tags of types whose values are addresses: pointers, and C++ references to lvalues and rvalues."""
WRAPPERS: Final = (0x16, 0x26, 0x35, 0x37, 0x47)
"""The DWARF tags of types that name or qualify another type: typedef, const, volatile, restrict, _Atomic."""
NAME, BYTE_SIZE, ENCODING, TYPE, ORIGIN, SPECIFICATION, LINKAGE_NAME = 0x03, 0x0B, 0x3E, 0x49, 0x31, 0x47, 0x6E
STR_OFFSETS_BASE: Final = 0x72
STMT_LIST, COMP_DIR, PROTOTYPED, LANGUAGE = 0x10, 0x1B, 0x27, 0x13
LOW_PC, HIGH_PC, RANGES, CALL_COLUMN, CALL_FILE, CALL_LINE = 0x11, 0x12, 0x55, 0x57, 0x58, 0x59
ADDR_BASE, RNGLISTS_BASE = 0x73, 0x74
LANGUAGE, OPENCL = 0x13, 0x15
"""The number of the attribute DW_AT_language, and its value DW_LANG_OpenCL."""
FLOAT: Final = 4
"""The number of the encoding DW_ATE_float."""
INTEGERS: Final = {0x02: "u", 0x05: "i", 0x06: "i", 0x07: "u", 0x08: "u", 0x10: "u"}
"""The first letter of a type's name (``i32``, ``u8``) by its DWARF encoding: integers, booleans, characters."""
LANGUAGES_CPP: Final = (0x04, 0x1A, 0x21, 0x2B, 0x3A)
"""The language codes of C++ (DW_LANG_C_plus_plus and its versions), whose functions all have prototypes."""
VARIADIC: Final = "..."
OTHER: Final = "word"
"""The type name of parameters that have no other name, such as structures.

They may take any number of registers.
"""
DWARF64: Final = 0xFFFF_FFF0
LONGEST_CHAIN: Final = 64
SIZES: Final = {
    0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16, 0x0C: 1, 0x17: 4, 0x0E: 4, 0x1F: 4, 0x11: 1, 0x12: 2, 0x13: 4,
    0x14: 8, 0x20: 8, 0x1D: 4, 0x1C: 4, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
}  # fmt: skip
"""The sizes in bytes of the attribute forms with a fixed size."""
LEB: Final = (0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23)
BLOCKS: Final = {0x0A: 1, 0x03: 2, 0x04: 4}
BLOCK, EXPRESSION, STRING, PRESENT, INDIRECT, CONSTANT, ADDRESS, REF_ADDR = (
    0x09, 0x18, 0x08, 0x19, 0x16, 0x21, 0x01, 0x10
)  # fmt: skip
LOCAL: Final = (0x11, 0x12, 0x13, 0x14, 0x15)
"""The attribute forms of references that are relative to the first byte of their compilation unit."""
STRP, LINE_STRP = 0x0E, 0x1F
STRX: Final = (0x1A, 0x25, 0x26, 0x27, 0x28)
ADDRX: Final = (0x1B, 0x29, 0x2A, 0x2B, 0x2C)
"""The attribute forms of addresses that are indices into .debug_addr."""
RNGLISTX: Final = 0x23
END_OF_LIST, BASE_ADDRESSX, STARTX_ENDX, STARTX_LENGTH, OFFSET_PAIR, BASE_ADDRESS, START_END, START_LENGTH = range(8)
"""The codes DW_RLE_* of entries in range lists."""
MOST_RANGES: Final = 1 << 20
"""The largest number of address ranges that are read from a file.

It limits the work for a malicious file, whose entries may all refer to one long list.
"""
SECTIONS: Final = (".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets")
RANGE_SECTIONS: Final = (".debug_addr", ".debug_rnglists", ".debug_ranges")
ATTRIBUTES: Final = (
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
    PROTOTYPED,
    LANGUAGE,
    LOW_PC,
    HIGH_PC,
    RANGES,
    CALL_COLUMN,
    CALL_FILE,
    CALL_LINE,
    ADDR_BASE,
    RNGLISTS_BASE,
    LANGUAGE,
)
"""The DWARF attributes that the reader stores."""
PLACED: Final = (LOW_PC, HIGH_PC, RANGES)
"""The attributes whose form is stored with their value, since the form determines what the value means."""


@dataclass(slots=True)
class Entry:
    """A debugging information entry: its tag, its attributes by attribute number, and the entries of its parameters.

    `values` holds numeric attributes, and `names` text attributes. A text attribute is stored as its form and
    the number that this form contains (an offset or an index), not as text."""

    tag: int
    values: dict[int, int] = field(default_factory=dict)
    names: dict[int, tuple[int, int]] = field(default_factory=dict)
    parameters: list[Entry] = field(default_factory=list)
    is_variadic: bool = False
    text_base: int = 0
    language: int = 0
    forms: dict[int, int] = field(default_factory=dict)
    """The forms of those attributes that `PLACED` lists, by attribute."""


@dataclass(slots=True, eq=False)
class Inlined:
    """Inlined code: its address ranges, each as first address and first address after its end (`ranges`).

    The call that it replaces is in line `line`, column `column` (0 if unknown) of file number `file` of the line table
    at `table`. `outer` is the inlined code that contains the call. With `is_stub` the source has no such call: the
    compiler moved a kernel's own code into a separate function.
    """

    ranges: tuple[tuple[int, int], ...]
    table: int
    file: int
    line: int
    column: int
    outer: Inlined | None
    is_stub: bool = False


@dataclass(slots=True)
class Units:
    """Facts about the compilation units of .debug_info, by the offset of the unit's line table in .debug_line.

    `folders` holds the compilation folder of each unit, and `files` its main file; `inlined` lists all inlined code.
    """

    folders: dict[int, str] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    inlined: list[Inlined] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """An abbreviation of .debug_abbrev: the format of the debugging information entries that share its code.

    It has the entries' tag, a bool that is True if they have children, and their attributes as (attribute,
    form, constant)."""

    tag: int
    has_children: bool
    attributes: tuple[tuple[int, int, int], ...]


def signatures(data: bytes) -> dict[str, tuple[str, ...]]:
    """Return the parameter types of the functions of a 64-bit ELF file, by the names of their symbols.

    The types are f32, f64, i8 to u64, ptr, and `OTHER`; `VARIADIC` follows them if a function takes further arguments.
    Functions without debug information or without a prototype are left out. If debug information cannot be read, the
    result is empty.
    """
    try:
        elf = ElfFile(data, 64)
        info, abbreviations, *texts = (elf.contents(elf.section(name)) for name in SECTIONS)
        return _Reader(info, abbreviations, texts).signatures() if info else {}
    except (WireError, IndexError, RecursionError):
        return {}


def read_units(elf: ElfFile) -> Units:
    """Return facts about the compilation units of a file, and their inlined code, from its debug information.

    The result is empty if the debug information cannot be read."""
    try:
        info, abbreviations, *texts = (elf.contents(elf.section(name)) for name in SECTIONS)
        reader = _Reader(info, abbreviations, texts)
        reader.ranges = tuple(elf.contents(elf.section(name)) for name in RANGE_SECTIONS)
        return reader.units()
    except (WireError, IndexError, RecursionError):
        return Units()


class Cursor:
    """A reader of successive little-endian numbers; reading past the end raises `IndexError`."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def number(self, size: int) -> int:
        """Read a number of `size` bytes."""
        if self.at + size > len(self.data):
            raise IndexError(self.at)
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def leb(self) -> int:
        """Read an unsigned LEB128 number."""
        value = shift = 0
        while shift < 70:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise IndexError(self.at)

    def text(self) -> str:
        """Read text up to its terminating 0 byte."""
        end = self.data.find(0, self.at)
        if end < 0:
            raise IndexError(self.at)
        found = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return found


class _Reader:
    """A reader of all units of .debug_info."""

    def __init__(self, info: bytes, abbreviations: bytes, texts: list[bytes]) -> None:
        self._info = info
        self._abbreviations = abbreviations
        self._texts = texts
        self._entries: dict[int, Entry] = {}
        self.ranges: tuple[bytes, ...] = (b"",) * len(RANGE_SECTIONS)
        """The contents of the sections that `RANGE_SECTIONS` names."""
        self._unit_entry = Entry(COMPILE_UNIT)
        """The root entry of the current compilation unit."""
        self._open_inlined: list[Inlined | None] = []
        self._ranges_read = 0
        self._function: Entry | None = None
        self._stubs: list[tuple[int, Entry | None]] = []
        """Data to find stubs: each inlined function's entry, and the kernel whose code it may hold (or None)."""

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
            has_prototype = entry.language in LANGUAGES_CPP or any(PROTOTYPED in each.values for each in chain)
            if name and (parameters or has_prototype):
                more = (VARIADIC,) if any(each.is_variadic for each in chain) else ()
                found.setdefault(name, (*(self._kind(each) for each in parameters), *more))
        return found

    def units(self) -> Units:
        found = Units()
        at = 0
        while at < len(self._info):
            self._open_inlined.clear()
            self._unit_entry = Entry(COMPILE_UNIT)
            at = self._unit(at, found.inlined)
        for each, (origin, function) in zip(found.inlined, self._stubs, strict=True):
            entry = self._entries.get(origin)
            if function is not None and entry is not None and NAME in entry.names and NAME in function.names:
                each.is_stub = self._name(entry, NAME) == self._name(function, NAME)
        units = [entry for entry in self._entries.values() if entry.tag == COMPILE_UNIT and STMT_LIST in entry.values]
        for kept, name in ((found.folders, COMP_DIR), (found.files, NAME)):
            kept.update({each.values[STMT_LIST]: self._name(each, name) for each in units if name in each.names})
        return found

    # ---- inlined functions -----------------------------------------------------------------------------------------
    def _inline(self, entry: Entry, version: int, address: int) -> Inlined:
        """Return the `Inlined` for a debugging information entry of an inlined call."""
        values = entry.values
        try:
            ranges = tuple((low, high) for low, high in self._ranges_of(entry, version, address) if low < high)
        except IndexError:  # an unreadable list gives no ranges
            ranges = ()
        self._ranges_read += 1 + len(ranges)
        outer = self._open_inlined[-1] if self._open_inlined else None
        table = self._unit_entry.values.get(STMT_LIST, -1)
        may_be_stub = outer is None and self._unit_entry.values.get(LANGUAGE) == OPENCL
        self._stubs.append((values.get(ORIGIN, -1), self._function if may_be_stub else None))
        file, line, column = (values.get(each, 0) for each in (CALL_FILE, CALL_LINE, CALL_COLUMN))
        return Inlined(ranges, table, file, line, column, outer)

    def _ranges_of(self, entry: Entry, version: int, address: int) -> Iterator[tuple[int, int]]:
        if self._ranges_read >= MOST_RANGES:
            return
        if RANGES in entry.values:
            start = entry.values[RANGES]
            yield from self._list_of_5(entry, start, address) if version >= 5 else self._list_of_4(start, address)
        elif LOW_PC in entry.values and HIGH_PC in entry.values:
            low, high = self._address_of(entry, LOW_PC, address), entry.values[HIGH_PC]
            is_address = entry.forms[HIGH_PC] == ADDRESS or entry.forms[HIGH_PC] in ADDRX
            yield low, self._address_of(entry, HIGH_PC, address) if is_address else low + high

    def _address_of(self, entry: Entry, attribute: int, size: int) -> int:
        value = entry.values.get(attribute, 0)
        return self._row_of(value, size) if entry.forms.get(attribute) in ADDRX else value

    def _row_of(self, number: int, size: int) -> int:
        """Return the address in row `number` of the current unit's table in .debug_addr; rows have `size` bytes."""
        return Cursor(self.ranges[0], self._unit_entry.values.get(ADDR_BASE, 8) + size * number).number(size)

    def _list_of_4(self, start: int, size: int) -> Iterator[tuple[int, int]]:
        cursor, largest = Cursor(self.ranges[2], start), (1 << 8 * size) - 1
        base = self._address_of(self._unit_entry, LOW_PC, size)
        for _ in range(MOST_RANGES - self._ranges_read):
            low, high = cursor.number(size), cursor.number(size)
            if not low and not high:
                return
            if low == largest:
                base = high
            else:
                yield base + low, base + high

    def _list_of_5(self, entry: Entry, start: int, size: int) -> Iterator[tuple[int, int]]:
        data = self.ranges[1]
        if entry.forms[RANGES] == RNGLISTX:
            bases = self._unit_entry.values.get(RNGLISTS_BASE, 12)
            start = bases + Cursor(data, bases + 4 * start).number(4)
        cursor, base = Cursor(data, start), self._address_of(self._unit_entry, LOW_PC, size)
        for _ in range(MOST_RANGES - self._ranges_read):
            kind = cursor.number(1)
            if kind == END_OF_LIST:
                return
            if kind == BASE_ADDRESSX:
                base = self._row_of(cursor.leb(), size)
            elif kind == BASE_ADDRESS:
                base = cursor.number(size)
            elif kind == OFFSET_PAIR:
                yield base + cursor.leb(), base + cursor.leb()
            elif kind in (STARTX_ENDX, STARTX_LENGTH):
                low, number = self._row_of(cursor.leb(), size), cursor.leb()
                yield low, self._row_of(number, size) if kind == STARTX_ENDX else low + number
            elif kind in (START_END, START_LENGTH):
                low = cursor.number(size)
                yield low, cursor.number(size) if kind == START_END else low + cursor.leb()
            else:
                raise IndexError(start)

    def _chain(self, entry: Entry, through: tuple[int, ...]) -> Iterator[Entry]:
        """Yield `entry`, then the entry to which it refers, then the entry to which that one refers, and so on.

        A reference is the value of one of the attributes in `through`."""
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
        if entry is None:
            return OTHER
        if entry.tag in POINTERS:
            return "ptr"
        size = entry.values.get(BYTE_SIZE, 0)
        if entry.tag == BASE_TYPE and entry.values.get(ENCODING) == FLOAT:
            return {4: "f32", 8: "f64"}.get(size, OTHER)
        letter = INTEGERS.get(entry.values.get(ENCODING, 0), "") if entry.tag == BASE_TYPE else ""
        letter = "i" if entry.tag == ENUMERATION else letter
        return f"{letter}{8 * size}" if letter and size in (1, 2, 4, 8) else OTHER

    def _name(self, entry: Entry, attribute: int) -> str:
        form, value = entry.names[attribute]
        if form == STRING:
            return Cursor(self._info, value).text()
        if form in STRX:
            value = Cursor(self._texts[2], entry.text_base + 4 * value).number(4)
        return Cursor(self._texts[1 if form == LINE_STRP else 0], value).text()

    def _unit(self, start: int, inlined: list[Inlined] | None = None) -> int:
        """Read one unit of .debug_info; return the offset of the next unit.

        If `inlined` is given, append the unit's inlined code to it.
        """
        cursor = Cursor(self._info, start)
        length = cursor.number(4)
        if length >= DWARF64:
            raise WireError("the 64-bit format of DWARF is not supported")
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
        base, language = 8, 0
        while cursor.at < end:
            at = cursor.at
            code = cursor.leb()
            if not code:
                if open_:
                    open_.pop()
                    self._open_inlined.pop()
                continue
            row = rows.get(code)
            if row is None:
                raise IndexError(at)
            entry = self._entry(cursor, row, start, version, address)
            base = entry.values.get(STR_OFFSETS_BASE, base)
            entry.text_base = base
            entry.language = language = entry.values.get(LANGUAGE, language)
            self._entries[at] = entry
            if row.tag == PARAMETER and open_ and open_[-1] is not None:
                open_[-1].parameters.append(entry)
            elif row.tag == MORE_PARAMETERS and open_ and open_[-1] is not None:
                open_[-1].is_variadic = True
            made = None
            if row.tag == COMPILE_UNIT:
                self._unit_entry = entry
            elif row.tag == SUBPROGRAM:
                self._function = entry
            elif row.tag == INLINED and inlined is not None:
                made = self._inline(entry, version, address)
                inlined.append(made)
            if row.has_children:
                open_.append(entry if row.tag == SUBPROGRAM else None)
                self._open_inlined.append(made or (self._open_inlined[-1] if self._open_inlined else None))
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
            if name not in ATTRIBUTES:
                continue
            if name in (NAME, LINKAGE_NAME, COMP_DIR):
                entry.names[name] = form, at if form == STRING else value
            else:
                entry.values[name] = value + unit if form in LOCAL else value
                if name in PLACED:
                    entry.forms[name] = form
        return entry

    @staticmethod
    def _value(cursor: Cursor, form: int, version: int, address: int) -> int:
        """Return an attribute value of the given form as a number; for blocks and text, skip the bytes."""
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
        raise WireError(f"DWARF form {form:#x} is not supported")
