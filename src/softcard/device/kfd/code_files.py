"""The files with the code that a program has loaded, for symbols and source lines.

Local symbols and debug information are only in files, not in memory. The program's run-time library has a
list of loaded files (`loaded_file`). Without this list, candidate files are searched. A file is used only if
its code is equal to that in memory, byte for byte.

The library ROCr keeps the list for debuggers at its symbol `_amdgpu_r_debug`, in the format of <link.h>
(struct r_debug, struct link_map). The list contains the address of each code object and the URI of its file.
The file is in a file system or in the program's memory. ROCdbgapi's manual, "amd_dbgapi_code_object_info_t",
defines the URIs."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from softcard.core.errors import SoftcardError
from softcard.device.kfd.client import Client
from softcard.device.kfd.ioctls import Refused
from softcard.device.kfd.loaded_code import LoadedCode
from softcard.image.elf.embedded import Files
from softcard.image.elf.layout import MACHINE_AMDGPU, PF_X, PT_LOAD, SHT_DYNSYM
from softcard.image.elf.lines import Lines, read_lines
from softcard.image.elf.reader import ElfFile
from softcard.image.hsa.elf import HsaElf

FUNCTION: Final = 2
"""The symbol type STT_FUNC."""
LIBRARY: Final = "libhsa-runtime64"
"""The beginning of the file name of AMD's HSA run-time library."""
SYMBOL: Final = "_amdgpu_r_debug"
MOST_LISTED: Final = 4096
"""The maximum number of code objects to read from the run-time library's list."""
MOST_BYTES: Final = 1 << 28
LONGEST: Final = 4096
"""The maximum length in bytes of a URI in the run-time library's list."""
BITS: Final = 64
_DEBUG: Final = struct.Struct("<iiQ")
"""The format of the fields r_version and r_map of struct r_debug."""
_MAP: Final = struct.Struct("<QQQQ")
"""The format of the fields l_addr, l_name, l_ld and l_next of struct link_map."""


@dataclass(frozen=True)
class FileCode:
    """A code object in a file, for symbols and source lines."""

    file: str
    elf: HsaElf

    @cached_property
    def lines(self) -> Lines:
        """The source lines of the code object's instructions, by address relative to the code object's start."""
        return read_lines(self.elf)

    def functions(self, base: int) -> list[tuple[str, int, int]]:
        """Return name, address and size of each function in the file, for a code object loaded at `base`."""
        return [
            (each.name, base + each.value, each.size)
            for each in self.elf.symbols
            if each.kind == FUNCTION and each.size and each.is_defined
        ]

    def function_at(self, address: int) -> tuple[str, int]:
        """Return the name of the function that contains `address`, and the offset in the function.

        `address` is relative to the start of the code object. Return "" and 0 if no function contains it.
        """
        return next(
            ((name, address - at) for name, at, size in self.functions(0) if at <= address < at + size), ("", 0)
        )


class CodeFiles:
    """The cache of the code objects in the files of programs. Any thread may call the methods."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._all: list[FileCode] | None = None
        self._known: dict[LoadedCode, FileCode | None] = {}

    def of(self, code: LoadedCode, program: Client | None = None) -> FileCode | None:
        """Return the file from which `program` has loaded `code`, or else the first file with equal code.

        Return None if no such file is found. The result for a program is cached, so that it is available after the
        program has ended."""
        if not code.functions:
            return None
        with self._lock:
            known = self._known.get(code)
            if known is None and program is not None:
                known = _loaded(code, program)
            if known is None and code not in self._known:
                known = next((each for each in self._code_objects() if _is_in(each.elf, code)), None)
            self._known[code] = known
            return known

    def _code_objects(self) -> list[FileCode]:
        if self._all is None:
            self._all = []
            for name, data in self._files.elf_files(MACHINE_AMDGPU):
                try:
                    self._all.append(FileCode(name, HsaElf(data)))
                except SoftcardError:
                    continue
        return self._all


def _loaded(code: LoadedCode, program: Client) -> FileCode | None:
    found = loaded_file(program, code.base)
    try:
        made = None if found is None else FileCode(found[0], HsaElf(found[1]))
    except SoftcardError:
        return None
    return made if made is not None and _is_in(made.elf, code) else None


def _is_in(elf: HsaElf, code: LoadedCode) -> bool:
    """Return True if the loaded code contains all code of the file `elf` unchanged.

    Loading does not change code, because its addresses are relative.
    """
    parts = [each for _, each in elf.program_headers() if each.type == PT_LOAD and each.flags & PF_X]
    return bool(parts) and all(
        code.data[each.vaddr : each.vaddr + each.filesz] == elf.data[each.offset : each.offset + each.filesz]
        for each in parts
    )


# ---- the list of the run-time library --------------------------------------------------------------------------------


def loaded_file(client: Client, base: int) -> tuple[str, bytes] | None:
    """Return the name and the bytes of the file of the code object at `base`.

    Return None if the code object is not in the list of the program's run-time library."""
    try:
        found = client.library(LIBRARY)
        if found is None:
            return None
        start, path = found
        uri = next((uri for at, uri in _list(client, start + _symbol(client.path(path))) if at == base), "")
        return _read(client, uri) if uri else None
    except (SoftcardError, Refused, OSError, ValueError, struct.error):  # another library, or a program that ends
        return None


@lru_cache(8)
def _symbol(path: str) -> int:
    with open(path, "rb") as file:
        elf = ElfFile(file.read(), BITS)
    value = next((each.value for each in elf.symbol_table(SHT_DYNSYM) if each.name == SYMBOL), None)
    if value is None:
        raise ValueError(path)
    return value


def _list(client: Client, place: int) -> Iterator[tuple[int, str]]:
    """Yield the address and the URI of each code object in the run-time library's list.

    `place` is the address of the list.
    """
    _, _, link = _DEBUG.unpack(client.read(place, _DEBUG.size))
    for _ in range(MOST_LISTED):
        if not link:
            return
        base, name, _, link = _MAP.unpack(client.read(link, _MAP.size))
        yield base, _text(client, name)


def _text(client: Client, place: int) -> str:
    text = b""
    while place and b"\0" not in text and len(text) < LONGEST:
        size = 256 - (place + len(text)) % 256  # does not cross into the next page
        text += client.read(place + len(text), size)
    return text.partition(b"\0")[0].decode("utf-8", "replace")


def _read(client: Client, uri: str) -> tuple[str, bytes]:
    """Return the name and the bytes of the file that the URI `uri` refers to.

    The URI is ``file:///path#offset=N&size=N``, or ``memory://pid#offset=N&size=N``. Without a fragment it refers to a
    whole file.
    """
    from urllib.parse import parse_qs, unquote, urlsplit  # only failing programs need this import

    parts = urlsplit(uri)
    fields = {name: int(values[0], 0) for name, values in parse_qs(parts.fragment).items()}
    offset, size = fields.get("offset", 0), fields.get("size", MOST_BYTES)
    if parts.scheme == "memory":
        if not 0 < size < MOST_BYTES:
            raise ValueError(uri)
        return "code of the program", client.read(offset, size)
    path = unquote(parts.path)
    with open(client.path(path), "rb") as file:
        file.seek(offset)
        return path.rpartition("/")[2], file.read(min(size, MOST_BYTES))
