"""What a linked program tells of the parts that it was made of."""

from __future__ import annotations

from typing import Final

from understudy.image.elf.layout import PT_TLS, SHT_SYMTAB
from understudy.image.elf.reader import ElfFile

HIDDEN: Final = 2
"""STV_HIDDEN."""
OTHER: Final = 5
"""Where st_other stands in an entry of a symbol table."""


def hidden_but(linked: bytes, part: bytes) -> bytes:
    """A 64-bit program in which all global symbols are hidden but those that the object file `part` defines."""
    mine = {each.name for each in ElfFile(part, 64).symbol_table(SHT_SYMTAB) if each.is_global and each.is_defined}
    made = bytearray(linked)
    for symbol in ElfFile(linked, 64).symbol_table(SHT_SYMTAB):
        if symbol.is_global and symbol.is_defined and symbol.name not in mine:
            made[symbol.place + OTHER] = symbol.other & ~3 | HIDDEN
    return bytes(made)


def thread_local_bytes(linked: bytes) -> int:
    """How much memory of its own each thread of a 64-bit program needs."""
    return sum(header.memsz for _, header in ElfFile(linked, 64).program_headers() if header.type == PT_TLS)
