"""DWARF line tables: the source line of each instruction.

Sources: the DWARF standard, versions 2 to 5, chapter 6.2 (line number information), in its 32-bit format.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import PurePosixPath
from typing import Final

from softcard.core.errors import WireError
from softcard.image.elf.dwarf import (
    BLOCK,
    BLOCKS,
    DWARF64,
    LEB,
    LINE_STRP,
    SIZES,
    STRING,
    STRP,
    Cursor,
    Inlined,
    read_units,
)
from softcard.image.elf.reader import ElfFile

MOST_FRAMES: Final = 64
"""The largest number of nested inlined calls that a location lists."""
LIBRARY_FOLDERS: Final = ("/usr/include/", "/usr/lib/", "/usr/local/include/", "/usr/local/lib/", "/opt/rocm")
"""The directories with headers of compilers and run-time libraries; code from them is not user code."""
LIBRARY_PARTS: Final = ("/lib/clang/", "/amd_detail/", "/include/hip/", "/softcard/data/", "/triton/language/")
MASK64: Final = (1 << 64) - 1
MOST_FILES: Final = 1 << 16
LONGEST_TEXT: Final = 4096
"""The longest accepted path in bytes, its terminating 0 included."""
PATH, FOLDER_INDEX = 1, 2
"""The DW_LNCT content type codes of line tables that the reader uses: path and directory index."""
DEBUG_LINE: Final = ".debug_line"
COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN, CONST_ADD_PC, FIXED_ADVANCE_PC = 1, 2, 3, 4, 5, 8, 9
END_SEQUENCE, SET_ADDRESS = 1, 2


@dataclass(frozen=True, slots=True)
class Place:
    """The source line of an instruction. Code in inlined functions belongs to several lines, which `frames` lists.

    `frames` begins with the line of the instruction itself, and ends with that in the function that contains it. `file`
    and `line` are the first frame that is not in a library's header, if there is one; `column` counts from 1 in that
    line, and is 0 if it is unknown.
    """

    file: str
    line: int
    frames: tuple[str, ...] = ()
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def user_lines(self) -> tuple[tuple[str, int], ...]:
        """Return file and line of each frame that is not in a library's header, innermost first, each once."""
        every = (frame.rpartition(":") for frame in self.frames or (str(self),))
        return tuple(dict.fromkeys((file, int(line)) for file, _, line in every if not _is_library(file)))

    def is_at(self, line: int, matches: Callable[[str], bool]) -> bool:
        """Return True if one of the frames is line `line` of a file that `matches` accepts."""
        every = (frame.rpartition(":") for frame in self.frames or (str(self),))
        return any(int(number) == line and matches(file) for file, _, number in every)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """An inlined call; `outer` is the inlined call around it, if any."""

    place: Place
    is_library: bool
    outer: Call | None


REACH: Final = 64
"""The distance in bytes up to which the line of another instruction is near."""


class Lines:
    """The line table of a program, which gives the source line of each address."""

    def __init__(
        self, rows: Sequence[tuple[int, Place | None]], calls: Sequence[tuple[int, int, int, Call]] = ()
    ) -> None:
        """Make the table from `rows`: the start of each code range, and its source line or None.

        `calls` lists inlined code: first address, first address after the end, depth, and the call.
        """
        # If a sequence begins at the address at which another one ends, the beginning counts.
        ordered = sorted(rows, key=lambda row: (row[0], row[1] is not None))
        self._starts = [address for address, _ in ordered]
        self._places = [place for _, place in ordered]
        self._call_starts, self._calls = _innermost(calls)
        self._found: dict[tuple[Place | None, Call], Place] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of addresses with a known source line, each as start and end, in ascending order."""
        found: list[tuple[int, int]] = []
        ends = [*self._starts[1:], *self._starts[-1:]]
        for start, end, place in zip(self._starts, ends, self._places, strict=True):
            if place is None or start == end:
                continue
            if found and found[-1][1] == start:
                found[-1] = found[-1][0], end
            else:
                found.append((start, end))
        return found

    def at(self, address: int) -> Place | None:
        """Return the source line of the instruction at an address; None if unknown."""
        index = bisect_right(self._starts, address) - 1
        place = self._places[index] if index >= 0 else None
        number = bisect_right(self._call_starts, address) - 1
        call = self._calls[number] if number >= 0 else None
        if call is None:
            return place
        found = self._found.get((place, call))
        if found is None:
            found = self._found[place, call] = _inlined(place, call)
        return found

    def around(self, address: int, first: int) -> tuple[Place, ...]:
        """Return the nearest source lines before and after an instruction that has none, each once.

        Compilers give the line 0 to code that they have moved or merged. `first` is the address of the function. Lines
        in headers of libraries, and lines more than `REACH` bytes away, are left out.
        """
        index = bisect_right(self._starts, address) - 1
        found: dict[str, Place] = {}
        for numbers in (range(index, -1, -1), range(index + 1, len(self._starts))):
            for number in numbers:
                start, place = self._starts[number], self._places[number]
                if start < first or abs(start - address) > REACH:
                    break
                if place is not None:
                    found |= {} if _is_library(place.file) else {str(place): place}
                    break
        return tuple(found.values())


def _inlined(place: Place | None, call: Call) -> Place:
    """Return `place`, a line in inlined code, with frames for `call` and for the calls around that call.

    `place` is None if the line in inlined code is unknown."""
    places = [] if place is None else [place]
    every = [str(each) for each in places]
    user = None if place is None or _is_library(place.file) else 0
    at: Call | None = call
    while at is not None and len(every) < MOST_FRAMES:
        if user is None and not at.is_library:
            user = len(every)
        every.append(str(at.place))
        places.append(at.place)
        at = at.outer
    chosen = places[user or 0]
    return Place(chosen.file, chosen.line, tuple(every), chosen.column)


def _is_library(file: str) -> bool:
    """Return True if `file` is a header of a compiler or a library."""
    return file.startswith(LIBRARY_FOLDERS) or any(part in file for part in LIBRARY_PARTS)


def _innermost(calls: Sequence[tuple[int, int, int, Call]]) -> tuple[list[int], list[Call | None]]:
    """Return the addresses at which the innermost inlined call changes, and the innermost call after each change.

    The call is None where code is outside of inlined calls."""
    begins = sorted(calls, key=lambda each: each[0])
    starts: list[int] = []
    found: list[Call | None] = []
    open_: list[tuple[int, int, int]] = []
    number = 0
    for address in sorted({address for low, high, *_ in calls for address in (low, high)}):
        while number < len(begins) and begins[number][0] == address:
            _, high, depth, _ = begins[number]
            heappush(open_, (-depth, number, high))
            number += 1
        while open_ and open_[0][2] <= address:
            heappop(open_)
        starts.append(address)
        found.append(begins[open_[0][1]][3] if open_ else None)
    return starts, found


def read_lines(elf: ElfFile) -> Lines:
    """Return the line table of an ELF file, with addresses as linked; empty without debug information."""
    try:
        data, texts, line_texts = (
            elf.contents(elf.section(name)) for name in (DEBUG_LINE, ".debug_str", ".debug_line_str")
        )
        if not data:
            return Lines([])
        units = read_units(elf)
        rows: list[tuple[int, Place | None]] = []
        files: dict[int, dict[int, str]] = {}
        at = 0
        while at < len(data):
            unit = _Unit(data, at, texts, line_texts, units.folders.get(at, ""))
            files[at] = unit.files
            rows += unit.rows()
            at = unit.end
        return Lines(rows, _calls(units.inlined, files))
    except (WireError, IndexError):
        return Lines([])


def _calls(inlined: Sequence[Inlined], files: Mapping[int, Mapping[int, str]]) -> list[tuple[int, int, int, Call]]:
    """Return the inlined calls as (first address, end, depth, call), outer calls before inner ones.

    `files` are the file names by line table and file number.
    """
    made: dict[Inlined, tuple[int, Call | None]] = {}
    found: list[tuple[int, int, int, Call]] = []
    for each in inlined:
        depth, outer = (0, None) if each.outer is None else made[each.outer]
        if each.is_stub:
            made[each] = depth, outer
            continue
        file = files.get(each.table, {}).get(each.file, "?")
        call = Call(Place(file, each.line, column=each.column), _is_library(file), outer)
        made[each] = depth + 1, call
        found += [(low, high, depth + 1, call) for low, high in each.ranges]
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """The source position of some machine code: `size` bytes at `address` come from a line and column."""

    address: int
    size: int
    line: int
    column: int = 0


def pack_lines(file: str, rows: Sequence[Row]) -> bytes:
    """Return a section .debug_line (DWARF 4) for code that comes from one file. Code between `rows` has no line."""
    lengths = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))  # the operands of the standard opcodes
    head = struct.pack("<BBBbBB", 1, 1, 1, -5, 14, len(lengths) + 1) + lengths + b"\0"
    head += file.encode("utf-8", "surrogateescape") + b"\0" + bytes(4)  # no folder, date, size; then the end
    program, line = bytearray(), 1
    at: int | None = None
    for row in sorted(rows, key=lambda row: row.address):
        if at != row.address:
            program += b"" if at is None else bytes((0, 1, END_SEQUENCE))
            program += bytes((0, 9, SET_ADDRESS)) + row.address.to_bytes(8, "little")
            line = 1
        program += bytes((SET_COLUMN,)) + _leb(row.column) + bytes((ADVANCE_LINE,)) + _leb(row.line - line)
        program += bytes((COPY, ADVANCE_PC)) + _leb(row.size)
        at, line = row.address + row.size, row.line
    program += b"" if at is None else bytes((0, 1, END_SEQUENCE))
    unit = struct.pack("<HI", 4, len(head)) + head + program
    return struct.pack("<I", len(unit)) + unit


def _leb(value: int) -> bytes:
    """Return a number in the signed form of LEB128, which for numbers of 0 and more is valid as the unsigned form."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes((value & 0x7F,))


class _Unit:
    """A reader of one compilation unit's line table.

    The constructor reads the header; `rows` runs the line number program.
    """

    def __init__(self, data: bytes, start: int, texts: bytes, line_texts: bytes, folder: str) -> None:
        self._cursor = cursor = Cursor(data, start)
        self._texts, self._line_texts = texts, line_texts
        length = cursor.number(4)
        if length >= DWARF64:
            raise WireError("the 64-bit format of DWARF is not supported")
        self.end = cursor.at + length
        self._version = cursor.number(2)
        if not 2 <= self._version <= 5:
            raise WireError(f"line tables of DWARF version {self._version} are not supported")
        if self._version >= 5:
            cursor.number(2)  # sizes of addresses and segment selectors
        after = cursor.number(4)
        program = cursor.at + after
        self._least = cursor.number(1)
        if self._version >= 4:
            cursor.number(1)  # operations of an instruction: 1 but for VLIW
        cursor.number(1)
        self._line_base = cursor.number(1)
        self._line_base -= 256 * (self._line_base > 127)
        self._line_range = cursor.number(1)
        self._opcode_base = cursor.number(1)
        self._lengths = [cursor.number(1) for _ in range(self._opcode_base - 1)]
        self.files = self._files_of_5() if self._version >= 5 else self._files_before_5(folder)
        cursor.at = program

    # ---- files -----------------------------------------------------------------------------------------------------
    def _files_before_5(self, folder: str) -> dict[int, str]:
        folders = [folder]
        cursor = self._cursor
        while text := cursor.text():
            folders.append(_joined(folder, text))
        found: dict[int, str] = {}
        while text := cursor.text():
            index, _, _ = cursor.leb(), cursor.leb(), cursor.leb()
            found[len(found) + 1] = _joined(folders[index] if index < len(folders) else "", text)
        return found

    def _files_of_5(self) -> dict[int, str]:
        folders = [text for text, _ in self._entries()]
        whole = [_joined(folders[0], each) for each in folders]
        return {
            number: _joined(whole[index] if index < len(whole) else "", text)
            for number, (text, index) in enumerate(self._entries())
        }

    def _entries(self) -> list[tuple[str, int]]:
        """Return the path and directory number of each entry in a file or directory list of DWARF 5."""
        cursor = self._cursor
        forms = [(cursor.leb(), cursor.leb()) for _ in range(cursor.number(1))]
        count = cursor.leb()
        if count > MOST_FILES:
            raise IndexError(count)
        found = []
        for _ in range(count):
            text, index = "", 0
            for what, form in forms:
                value = self._value(form)
                if what == PATH and isinstance(value, str):
                    text = value
                elif what == FOLDER_INDEX and isinstance(value, int):
                    index = value
            found.append((text, index))
        return found

    def _value(self, form: int) -> str | int:
        cursor = self._cursor
        if form == STRING:
            return cursor.text()
        if form in (STRP, LINE_STRP):
            texts, at = self._line_texts if form == LINE_STRP else self._texts, cursor.number(4)
            return Cursor(texts[at : at + LONGEST_TEXT]).text()
        if form in SIZES:
            return cursor.number(SIZES[form])
        if form in LEB:
            return cursor.leb()
        if form in BLOCKS or form == BLOCK:
            size = cursor.number(BLOCKS[form]) if form in BLOCKS else cursor.leb()
            cursor.at += size
            return 0
        raise WireError(f"DWARF form {form:#x} is not supported")

    # ---- the program -----------------------------------------------------------------------------------------------
    def rows(self) -> list[tuple[int, Place | None]]:
        """Run the line number program; return the start address of each code range, and its source line."""
        cursor = self._cursor
        found: list[tuple[int, Place | None]] = []
        places: dict[tuple[int, int, int], Place] = {}
        address, file, line, column = 0, 1, 1, 0

        def put() -> None:
            place = places.get((file, line, column))
            if place is None:
                place = places[file, line, column] = Place(self.files.get(file, ""), line, column=column)
            found.append((address, place if line > 0 and place.file else None))

        while cursor.at < self.end:
            opcode = cursor.number(1)
            if opcode >= self._opcode_base:
                address += self._least * self._steps(opcode)
                line += self._line_base + (opcode - self._opcode_base) % max(self._line_range, 1)
                put()
            elif opcode == COPY:
                put()
            elif opcode == ADVANCE_PC:
                address += self._least * cursor.leb()
            elif opcode == ADVANCE_LINE:
                line += _signed_leb(cursor)
            elif opcode == SET_FILE:
                file = cursor.leb()
            elif opcode == SET_COLUMN:
                column = cursor.leb()
            elif opcode == CONST_ADD_PC:
                address += self._least * self._steps(255)
            elif opcode == FIXED_ADVANCE_PC:
                address += cursor.number(2)
            elif opcode:
                for _ in range(self._lengths[opcode - 1]):
                    cursor.leb()
            else:
                after = cursor.leb() + cursor.at
                extended = cursor.number(1)
                if extended == END_SEQUENCE:
                    found.append((address & MASK64, None))
                    address, file, line, column = 0, 1, 1, 0
                elif extended == SET_ADDRESS:
                    address = cursor.number(after - cursor.at)
                cursor.at = after
            address &= MASK64
        return found

    def _steps(self, opcode: int) -> int:
        return (opcode - self._opcode_base) // max(self._line_range, 1)


def _signed_leb(cursor: Cursor) -> int:
    start = cursor.at
    value = cursor.leb()
    bits = 7 * (cursor.at - start)
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _joined(folder: str, name: str) -> str:
    return str(PurePosixPath(folder, name)) if folder and name else name or folder
