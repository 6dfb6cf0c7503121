"""ELF files made by hand: kernels in assembly text, of any kind of file, with symbols."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from softcard.isa.riscv.decode import assemble

BASE = 0x1_0000
ET_EXEC, ET_DYN = 2, 3


def program(
    text: str,
    *,
    base: int = BASE,
    kind: int = ET_EXEC,
    symbols: Mapping[str, int] | None = None,
    tail: bytes = b"",
    segments: Sequence[tuple[int, bytes]] = (),
    dynamic: int = 0,
) -> bytes:
    """Return an ELF64 file whose kernel is called ``kernel`` and begins at `base`; it returns after `text` and `tail`.

    Further `segments` are (address, data); `dynamic` is the address of the dynamic section, if there is one.
    """
    code = assemble(text, base) + tail + assemble("jalr zero, 0(ra)")
    loads = [(base, code), *segments]
    names = {"kernel": base} | dict(symbols or {})
    strings = b"\0"
    table = bytes(24)
    for name, address in names.items():
        table += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 1, address, 0)
        strings += name.encode() + b"\0"
    count = len(loads) + bool(dynamic)
    at = 64 + 56 * count
    headers = body = b""
    section = (0, 0)
    for address, data in loads:
        start = at + len(body)
        headers += struct.pack("<IIQQQQQQ", 1, 7, start, address, address, len(data), len(data), 1)
        if address <= dynamic < address + len(data):
            section = start + dynamic - address, len(data) - (dynamic - address)
        body += data
    if dynamic:
        headers += struct.pack("<IIQQQQQQ", 2, 6, section[0], dynamic, dynamic, section[1], section[1], 8)
    symbols_at = at + len(body)
    strings_at = symbols_at + len(table)
    sections_at = strings_at + len(strings)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, symbols_at, len(table), 2, 1, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, strings_at, len(strings), 0, 0, 1, 0)
    head = struct.pack("<HHIQQQIHHHHHH", kind, 243, 1, base, 64, sections_at, 0, 64, 56, count, 64, 3, 0)
    return b"\x7fELF\x02\x01\x01" + bytes(9) + head + headers + body + table + strings + sections
