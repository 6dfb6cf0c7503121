"""The files of loaded code objects, as a program's run-time library tells debuggers of them.

ROCr keeps a list at the symbol `_amdgpu_r_debug`, in the form of <link.h> (struct r_debug, struct link_map): where each
code object lies, and the URI of its file, which is in a file system or in the program's memory (ROCdbgapi's manual,
"amd_dbgapi_code_object_info_t", says what URIs there are).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from understudy.core.errors import UnderstudyError
from understudy.device.kfd.client import Client
from understudy.device.kfd.errors import Refused
from understudy.image.elf.layout import SHT_DYNSYM
from understudy.image.elf.reader import ElfFile

LIBRARY: Final = "libhsa-runtime64"
"""What the names of its files begin with."""
SYMBOL: Final = "_amdgpu_r_debug"
MOST: Final = 4096
"""Code objects that are looked through."""
MOST_BYTES: Final = 1 << 28
LONGEST: Final = 4096
"""Bytes of a URI."""
BITS: Final = 64
_DEBUG: Final = struct.Struct("<iiQ")
"""r_version, r_map."""
_MAP: Final = struct.Struct("<QQQQ")
"""l_addr, l_name, l_ld, l_next."""


def loaded_file(client: Client, base: int) -> tuple[str, bytes] | None:
    """Name and bytes of the file of the code object that lies at `base`; None where the program does not tell."""
    try:
        found = client.library(LIBRARY)
        if found is None:
            return None
        start, path = found
        uri = next((uri for at, uri in _list(client, start + _symbol(client.path(path))) if at == base), "")
        return _read(client, uri) if uri else None
    except (UnderstudyError, Refused, OSError, ValueError, struct.error):  # another library, or a program that ends
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
    """Address and URI of each code object."""
    _, _, link = _DEBUG.unpack(client.read(place, _DEBUG.size))
    for _ in range(MOST):
        if not link:
            return
        base, name, _, link = _MAP.unpack(client.read(link, _MAP.size))
        yield base, _text(client, name)


def _text(client: Client, place: int) -> str:
    text = b""
    while place and b"\0" not in text and len(text) < LONGEST:
        size = 256 - (place + len(text)) % 256  # no page behind it
        text += client.read(place + len(text), size)
    return text.partition(b"\0")[0].decode("utf-8", "replace")


def _read(client: Client, uri: str) -> tuple[str, bytes]:
    """``file:///path#offset=N&size=N``, or ``memory://pid#offset=N&size=N``; without a fragment, a whole file."""
    from urllib.parse import parse_qs, unquote, urlsplit  # few programs fail

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
