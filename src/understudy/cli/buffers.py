"""Command buffers from files: binary, words, or the listing's text."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from understudy.cli.files import read_file, read_text
from understudy.core.errors import WireError
from understudy.device.refsi.commands import CHUNK_BYTES, Opcode
from understudy.device.refsi.toolkit.listing import assemble


class Form(StrEnum):
    """How a command buffer is written down."""

    AUTO = "auto"
    BINARY = "binary"
    WORDS = "words"
    LISTING = "listing"


def read_buffer(path: Path, form: Form = Form.AUTO) -> bytes:
    """A command buffer from a file: little-endian binary, 64-bit words as in a script, or a listing."""
    if form in (Form.AUTO, Form.BINARY):
        data = read_file(path)
        return data if form is Form.BINARY else to_binary(data)
    text = read_text(path, "ascii")
    return assemble(text) if form is Form.LISTING else words_to_bytes(text)


def to_binary(data: bytes) -> bytes:
    """A command buffer, however it is written down, as binary."""
    form = guess(data)
    if form is Form.BINARY:
        return data
    text = data.decode("ascii")  # or it would be binary
    return assemble(text) if form is Form.LISTING else words_to_bytes(text)


def guess(data: bytes) -> Form:
    """What a file most likely holds. Command headers have a byte 0xc0, which no text has."""
    if not data.isascii() or b"\0" in data:
        return Form.BINARY
    named = re.search(rb"(?m)^\s*(0x[0-9a-f]+:\s*)?(\.chunk|\.byte|" + _OPCODES + rb")\b", data)
    return Form.LISTING if named else Form.WORDS


_OPCODES: Final = "|".join(Opcode.__members__).encode()


def words_to_bytes(text: str) -> bytes:
    """64-bit words, decimal or 0x hex, between spaces or commas; # comments and a leading ``cb`` are skipped."""
    out = bytearray()
    for number, line in enumerate(text.splitlines(), 1):
        tokens = line.partition("#")[0].replace(",", " ").split()
        for token in tokens[1:] if tokens[:1] == ["cb"] else tokens:
            try:
                word = parse_number(token, 64)
            except WireError as error:
                raise error.at("line", number) from None
            out += word.to_bytes(CHUNK_BYTES, "little")
    return bytes(out)


def parse_number(token: str, bits: int) -> int:
    """A number as scripts write it, decimal or 0x hex, of at most `bits` bits."""
    try:
        number = int(token, 16) if token[:2] in ("0x", "0X") else int(token, 10)
    except ValueError:
        raise WireError(f"{token!r} is no number, expected decimal or 0x hex") from None
    if not 0 <= number < 1 << bits:
        raise WireError(f"{token} does not fit {bits} bits")
    return number
