"""Debug information: which line of which source an instruction comes from.

Sources: the DWARF standard, versions 2 to 5, chapter 6.2 (line number information), in its 32-bit format.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from understudy.core.errors import WireError
from understudy.image.elf.dwarf import (
    BLOCK,
    BLOCKS,
    DWARF64,
    LEB,
    LINE_STRP,
    SIZES,
    STRING,
    STRP,
    Cursor,
    compile_folders,
)
from understudy.image.elf.reader import ElfFile

MASK64: Final = (1 << 64) - 1
MOST_FILES: Final = 1 << 16
LONGEST_TEXT: Final = 4096
"""Bytes of a path that is believed, with its end."""
PATH, FOLDER_INDEX = 1, 2
"""DW_LNCT codes that matter here."""
COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, CONST_ADD_PC, FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
END_SEQUENCE, SET_ADDRESS = 1, 2


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a source file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Lines:
    """The line table of a program: where each of its addresses comes from."""

    def __init__(self, rows: Sequence[tuple[int, Place | None]]) -> None:
        """`rows`: from which address on code comes from a place; None where it comes from nowhere known."""
        # Where a sequence begins at the address at which another one ends, the beginning counts.
        ordered = sorted(rows, key=lambda row: (row[0], row[1] is not None))
        self._starts = [address for address, _ in ordered]
        self._places = [place for _, place in ordered]

    def __bool__(self) -> bool:
        return bool(self._places)

    def at(self, address: int) -> Place | None:
        """Where the instruction at an address comes from; None where nobody says."""
        index = bisect_right(self._starts, address) - 1
        return self._places[index] if index >= 0 else None


def read_lines(elf: ElfFile) -> Lines:
    """The line table of an ELF file, with addresses as it is linked; an empty one where there is none to be read."""
    try:
        data, texts, line_texts = (
            elf.contents(elf.section(name)) for name in (".debug_line", ".debug_str", ".debug_line_str")
        )
        if not data:
            return Lines([])
        folders = compile_folders(elf)
        rows: list[tuple[int, Place | None]] = []
        at = 0
        while at < len(data):
            unit = _Unit(data, at, texts, line_texts, folders.get(at, ""))
            rows += unit.rows()
            at = unit.end
        return Lines(rows)
    except (WireError, IndexError):
        return Lines([])


class _Unit:
    """The table of one unit: its header, which is read at once, and the program behind it."""

    def __init__(self, data: bytes, start: int, texts: bytes, line_texts: bytes, folder: str) -> None:
        self._cursor = cursor = Cursor(data, start)
        self._texts, self._line_texts = texts, line_texts
        length = cursor.number(4)
        if length >= DWARF64:
            raise WireError("DWARF in its 64-bit format")
        self.end = cursor.at + length
        self._version = cursor.number(2)
        if not 2 <= self._version <= 5:
            raise WireError(f"DWARF version {self._version} of a line table")
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
        self._files = self._files_of_5() if self._version >= 5 else self._files_before_5(folder)
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
        """Text and number of the folder of each entry of a list of version 5."""
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
        raise WireError(f"DWARF form {form:#x}")

    # ---- the program -----------------------------------------------------------------------------------------------
    def rows(self) -> list[tuple[int, Place | None]]:
        """From which address on code comes from which place."""
        cursor = self._cursor
        found: list[tuple[int, Place | None]] = []
        places: dict[tuple[int, int], Place] = {}
        address, file, line = 0, 1, 1

        def put() -> None:
            place = places.get((file, line))
            if place is None:
                place = places[file, line] = Place(self._files.get(file, ""), line)
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
            elif opcode == CONST_ADD_PC:
                address += self._least * self._steps(255)
            elif opcode == FIXED_ADVANCE_PC:
                address += cursor.number(2)
            elif opcode:
                for _ in range(self._lengths[opcode - 1]):
                    cursor.leb()
            else:
                behind = cursor.leb() + cursor.at
                extended = cursor.number(1)
                if extended == END_SEQUENCE:
                    found.append((address & MASK64, None))
                    address, file, line = 0, 1, 1
                elif extended == SET_ADDRESS:
                    address = cursor.number(behind - cursor.at)
                cursor.at = behind
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
