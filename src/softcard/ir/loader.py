"""A loader of relocatable objects that does not need LLVM.

With it, a process without compilations does not load LLVM. Objects of the large code model for x86-64 need only
absolute relocations of 64 bits; `load` returns None for other objects. Pages are written first and made executable
afterwards, so that a page is never writable and executable at once.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

HEAD: Final = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
RELOCATION: Final = struct.Struct("<QQq")
IDENT: Final = b"\x7fELF\x02\x01\x01"
REL, X86_64, R_X86_64_64 = 1, 62, 1
PROGBITS, SYMTAB, RELA = 1, 2, 4
WRITE, ALLOC = 1, 2
UNWIND: Final = 0x7000_0001
UNDEFINED, RESERVED = 0, 0xFF00
FUNCTION: Final = 2
_EXECUTABLE: Final = 5  # PROT_READ | PROT_EXEC


class Section(NamedTuple):
    """The fields of a section header that the loader uses."""

    name: int
    type: int
    flags: int
    address: int
    at: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Loaded:
    """Machine code in memory pages that live as long as this object. `functions` are addresses by name."""

    def __init__(self, pages: mmap.mmap, hold: ctypes.Array[ctypes.c_char], functions: dict[str, int]) -> None:
        self.functions = functions
        self._pages = pages, hold

    def address(self, name: str) -> int:
        """Return the address of a function; 0 if the object does not have it."""
        return self.functions.get(name, 0)


def load(image: bytes, symbols: Mapping[str, int] = {}) -> Loaded | None:
    """Return an object loaded as machine code.

    `symbols` has the addresses of functions that the object may refer to, by name; other undefined names are looked up
    in the libraries of this process. Return None if the object needs a relocation, section or symbol that is not
    supported.
    """
    if sys.platform != "linux" or image[:7] != IDENT:
        return None
    head = HEAD.unpack_from(image)
    if (head[1], head[2]) != (REL, X86_64):
        return None
    sections = [
        Section._make(SECTION.unpack_from(image, head[6] + number * SECTION.size)) for number in range(head[12])
    ]
    laid, size = _laid_out(sections)
    if laid is None:
        return None
    pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    hold = (ctypes.c_char * size).from_buffer(pages)
    base = ctypes.addressof(hold)
    for number, at in laid.items():
        section = sections[number]
        pages[at : at + section.size] = image[section.at : section.at + section.size]
    functions: dict[str, int] = {}
    for section in sections:
        if section.type == RELA and section.info in laid:
            addresses = _symbols(image, sections, section.link, laid, base, symbols)
            if addresses is None or not _relocated(image, section, addresses, hold, laid[section.info]):
                return None
    for section in sections:
        if section.type == SYMTAB:
            functions |= _functions(image, sections, section, laid, base)
    if _c().mprotect(base, size, _EXECUTABLE):
        return None
    return Loaded(pages, hold, functions)


def _laid_out(sections: list[Section]) -> tuple[dict[int, int] | None, int]:
    """Return the offset of each section that the code needs in memory, by section number, and the total size.

    The offsets are None if a section has an unsupported type.
    """
    laid: dict[int, int] = {}
    size = 0
    for number, section in enumerate(sections):
        if not section.flags & ALLOC or not section.size or section.type == UNWIND:
            continue
        if section.type != PROGBITS or section.flags & WRITE:
            return None, 0
        size = -(-size // section.alignment) * section.alignment
        laid[number] = size
        size += section.size
    return laid, -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE


def _entries(image: bytes, section: Section, form: struct.Struct) -> list[tuple[int, ...]]:
    return list(form.iter_unpack(image[section.at : section.at + section.size]))


def _name(image: bytes, names: Section, at: int) -> str:
    start = names.at + at
    return image[start : image.index(b"\0", start)].decode()


def _symbols(
    image: bytes, sections: list[Section], table: int, laid: dict[int, int], base: int, symbols: Mapping[str, int]
) -> list[int | None] | None:
    """Return the addresses of the symbols in the symbol table with section number `table`.

    Return None if a symbol is defined neither by the object, nor in `symbols`, nor by this process.
    """
    found: list[int | None] = []
    for number, (name, _, _, section, value, _) in enumerate(_entries(image, sections[table], SYMBOL)):
        if section == UNDEFINED and number:
            wanted = _name(image, sections[sections[table].link], name)
            address = symbols[wanted] if wanted in symbols else _outside(wanted)
            if address is None:
                return None
            found.append(address)
        else:
            found.append(base + laid[section] + value if section in laid else None)
    return found


def _relocated(
    image: bytes, section: Section, addresses: list[int | None], hold: ctypes.Array[ctypes.c_char], start: int
) -> bool:
    for at, info, more in _entries(image, section, RELOCATION):
        address = addresses[info >> 32]
        if info & 0xFFFF_FFFF != R_X86_64_64 or address is None:
            return False
        struct.pack_into("<Q", hold, start + at, address + more & 0xFFFF_FFFF_FFFF_FFFF)
    return True


def _functions(
    image: bytes, sections: list[Section], table: Section, laid: dict[int, int], base: int
) -> dict[str, int]:
    found = {}
    for name, kind, _, section, value, _ in _entries(image, table, SYMBOL):
        if kind & 0xF == FUNCTION and section in laid:
            found[_name(image, sections[table.link], name)] = base + laid[section] + value
    return found


@cache
def _c() -> ctypes.CDLL:
    """Return the ctypes handle through which functions of all libraries loaded in this process are found."""
    found = ctypes.CDLL(None)
    found.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


@cache
def _outside(name: str) -> int | None:
    """Return the address of a function in a library that this process has loaded; None if no library has it."""
    try:
        return ctypes.cast(_c()[name], ctypes.c_void_p).value
    except AttributeError:
        return None
