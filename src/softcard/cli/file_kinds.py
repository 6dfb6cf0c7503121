"""The detection of a file's kind by its content, and the reading of command buffers in binary or text files."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from softcard.cli.files import in_text, numbered, parse_number, read_file, read_text
from softcard.core.diagnostics import STDIN, Diagnostic, Location, Note
from softcard.core.errors import SoftcardError, WireError
from softcard.device.acceldev.commands import CMD_TYPE_MASK, USER_CMD_BYTES, USER_COMMANDS
from softcard.device.refsi.commands import CHUNK_BYTES, COMMANDS, HEADER, PACKET_ID, Finish, Opcode, decode_all
from softcard.device.refsi.toolkit.listing import assembled_lines
from softcard.image.elf.layout import MACHINE_AMDGPU, MACHINE_RISCV
from softcard.image.hsa.bundle import holds_bundles, is_bundle
from softcard.image.hsa.elf import MACHINES_AMDCL2

# ---- command buffers -------------------------------------------------------------------------------------------------


class Form(StrEnum):
    """The encodings of a RefSi command buffer in a file. AUTO detects the encoding from the content."""

    AUTO = "auto"
    BINARY = "binary"
    WORDS = "words"
    LISTING = "listing"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A RefSi command buffer, with the positions of its bytes in the text from which it was made.

    `places` has the offset of the first byte of each word or line of the text, with its position, in ascending order.
    It is empty for a binary file.
    """

    data: bytes
    places: tuple[tuple[int, Location], ...] = ()

    def located(self, found: Diagnostic) -> Diagnostic:
        """Return a finding about the buffer, with its position in the text."""
        at = bisect_right(self.places, found.byte or 0, key=lambda place: place[0]) - 1
        if at < 0:
            return found
        note = Note(f"in the command buffer at {found.place or f'byte {found.byte:#x}'}")
        return replace(found, location=self.places[at][1], notes=(note, *found.notes), is_text_input=True)


def read_buffer(path: Path, form: Form = Form.AUTO) -> Buffer:
    """Read a command buffer: little-endian binary, 64-bit words as in a script, or a listing."""
    data = read_file(path) if form in (Form.AUTO, Form.BINARY) else read_text(path, "ascii").encode()
    return buffer_of(data, path, form)


def buffer_of(data: bytes, path: Path, form: Form = Form.AUTO) -> Buffer:
    """Return the RefSi command buffer in a file with the content `data`; errors name the file `path`."""
    form = guess(data) if form is Form.AUTO else form
    if form is Form.BINARY:
        return Buffer(data)
    text = data.decode("ascii")  # `guess` takes other data for binary
    file = STDIN if str(path) == "-" else str(path)
    lines, parts, places = numbered(text), [], []
    at = 0
    try:
        for number, column, width, part in _listing(text) if form is Form.LISTING else _words(text):
            places.append((at, Location(file, number, column, width=width, line_text=lines[number])))
            parts.append(part)
            at += len(part)
    except WireError as error:
        raise in_text(error, path, lines) from None
    return Buffer(b"".join(parts), tuple(places))


def to_binary(data: bytes) -> bytes:
    """Convert a RefSi command buffer in any encoding (see `Form`) to binary."""
    return buffer_of(data, Path("buffer")).data


_Parts = Iterator[tuple[int, int, int, bytes]]
"""The type of the parts of a text: line and column, from 1, number of characters, and the bytes for which it stands."""


def _listing(text: str) -> _Parts:
    """Yield the lines of a listing."""
    lines = text.splitlines()
    for number, part in assembled_lines(text):
        line = _OFFSET.sub(lambda found: " " * len(found[0]), lines[number - 1].partition(";")[0])
        yield number, len(line) - len(line.lstrip()) + 1, len(line.strip()), part


def guess(data: bytes) -> Form:
    """Return the likely encoding of a RefSi command buffer.

    Binary is recognised by a NUL byte or a byte that is not ASCII; every command header contains the byte 0xc0."""
    if not data.isascii() or b"\0" in data:
        return Form.BINARY
    named = re.search(rb"(?m)^\s*(0x[0-9a-f]+:\s*)?(\.chunk|\.byte|" + _OPCODES + rb")\b", data)
    return Form.LISTING if named else Form.WORDS


_TOKEN: Final = re.compile(r"[^\s,]+")
_OFFSET: Final = re.compile(r"^\s*\S*:(?=\s)")
"""The offset at the start of a line of a listing."""
_OPCODES: Final = "|".join(Opcode.__members__).encode()


def _words(text: str) -> _Parts:
    """Yield the 64-bit words of a text, which are in decimal or 0x hex.

    Spaces or commas separate the words. Comments after # are skipped, and also ``cb`` at the start of a line:
    in scripts of driver calls, this verb precedes the words of a command buffer."""
    for number, line in enumerate(text.splitlines(), 1):
        tokens = list(_TOKEN.finditer(line.partition("#")[0]))
        for token in tokens[1:] if tokens and tokens[0][0] == "cb" else tokens:
            try:
                word = parse_number(token[0], 64)
            except WireError as error:
                raise error.at("line", number) from None
            yield number, token.start() + 1, len(token[0]), word.to_bytes(CHUNK_BYTES, "little")


# ---- kinds of files --------------------------------------------------------------------------------------------------


class FileKind(StrEnum):
    """The kinds of files, detected by content."""

    HSA = "hsa"
    """The kind of AMD HSA code objects, of offload bundles of them, and of HIP host files that contain them."""
    AMDCL2 = "amdcl2"
    """The kind of AMD OpenCL 2.0 programs."""
    RISCV = "riscv"
    """The kind of RISC-V ELF files."""
    REFSI = "refsi"
    """The kind of RefSi command buffers: binary, 64-bit words, or a listing."""
    ACCELDEV = "acceldev"
    """The kind of Acceldev code buffers, which contain user commands."""
    SCHEMA = "schema"
    """The kind of Arrow schemas, and of Arrow files with a RecordBatch."""
    TRACE = "trace"
    """The kind of event traces in JSON lines."""


NAMES: Final = {
    FileKind.HSA: "code object",
    FileKind.AMDCL2: "AMD OpenCL 2.0 program",
    FileKind.RISCV: "RISC-V ELF file",
    FileKind.REFSI: "RefSi command buffer",
    FileKind.ACCELDEV: "list of Acceldev user commands",
    FileKind.SCHEMA: "Arrow schema",
    FileKind.TRACE: "trace",
}
_TEXT: Final = "`softcard asm -g -o FILE.co` makes a code object or a program of assembly text"
_RUN: Final = "`softcard run` compiles a source and checks what it executes"
SOURCES: Final = {".s": _TEXT, **dict.fromkeys((".c", ".cl", ".cpp", ".hip", ".py"), _RUN)}
"""The command for files that are not of these kinds, by the suffix of their names."""
HEAD_BYTES: Final = 64
"""The number of bytes at the start of a file by which a trace is recognised.

A trace can be too long for memory, so that its start must be enough.
"""
GPU_MACHINES: Final = (MACHINE_AMDGPU, *MACHINES_AMDCL2)
"""The values of e_machine in ELF files for AMD GPUs."""
_EVENT: Final = re.compile(rb'\s*\{\s*"time":\s*\d+,\s*"event":')
_WORDS: Final = re.compile(rb"\s*(?:#[^\n]*\n\s*)*(?:cb\s+)?(?:0[xX][0-9a-fA-F]+|\d+)(?:[\s,#]|$)")
"""A pattern for the beginning of a text of 64-bit words, as in scripts."""
CODE_SUFFIXES: Final = (".co", ".hsaco")
END_OF_KERNEL: Final = 0xBF81_0000
"""The encoding of s_endpgm, which ends a GPU kernel."""
_CONTINUATION: Final = b"\xff\xff\xff\xff"


def is_trace(head: bytes) -> bool:
    """Return True if a file with this beginning is a trace."""
    return _EVENT.match(head) is not None


def kind_of(data: bytes, name: str = "") -> FileKind:
    """Return the kind of a file with this content and name.

    Raise a `WireError` that lists the known kinds if the file is of an unknown kind.
    """
    if is_trace(data[:HEAD_BYTES]):
        return FileKind.TRACE
    if is_bundle(data):
        return FileKind.HSA
    if data[:4] == b"\x7fELF":
        return _kind_of_elf(data)
    if data.startswith((b"ARROW1", _CONTINUATION)) or Path(name).suffix == ".as":
        return FileKind.SCHEMA
    if _is_refsi(data):
        if guess(data) is Form.BINARY and _may_be_code(data, name) and not _is_finished(data):
            raise WireError(
                f"file starts with {data[:4].hex(' ')}, which can begin a RefSi command buffer or bare code of an "
                "AMD GPU: "
                "--as refsi reads it as a command buffer. `disasm --agent` and `run --agent` read it as bare code"
            ).at("byte", 0)
        return FileKind.REFSI
    if _is_acceldev(data):
        return FileKind.ACCELDEV
    if not data:
        raise WireError("the file is empty").at("byte", 0)
    *names, last = NAMES.values()
    known = f"{', '.join(names)} or {last}"
    hint = SOURCES.get(Path(name).suffix.lower(), "name its kind with --as")
    raise WireError(f"file starts with {data[:4].hex(' ')}, expected {known}; {hint}").at("byte", 0)


def _kind_of_elf(data: bytes) -> FileKind:
    machine = int.from_bytes(data[18:20], "little")
    if machine == MACHINE_RISCV:
        return FileKind.RISCV
    if machine == MACHINE_AMDGPU:
        return FileKind.HSA
    if machine in MACHINES_AMDCL2:
        return FileKind.AMDCL2
    if holds_bundles(data):
        return FileKind.HSA
    known = ", ".join(f"{each:#x}" for each in (MACHINE_RISCV, *GPU_MACHINES))
    raise WireError(f"e_machine is {machine:#x}, expected one of {known} (RISC-V and AMD GPUs)").at("byte", 18)


def _is_refsi(data: bytes) -> bool:
    """Return True if `data` is text of RefSi commands or words, or begins with a RefSi command header."""
    form = guess(data)
    if form is Form.BINARY:
        if len(data) < CHUNK_BYTES:
            return False
        first = HEADER.decode(int.from_bytes(data[:CHUNK_BYTES], "little"))
        known = first["PACKET_ID"] == PACKET_ID and first["OPCODE"] in COMMANDS
        return known and not first["RESERVED"] and not first["COUNT"] % 2
    return form is Form.LISTING or _WORDS.match(data) is not None


def _may_be_code(data: bytes, name: str) -> bool:
    """Return True if a file has a suffix of code, or contains s_endpgm, which ends kernels of AMD GPUs."""
    if Path(name).suffix in CODE_SUFFIXES:
        return True
    return END_OF_KERNEL in memoryview(data)[: len(data) & -4].cast("I")


def _is_finished(data: bytes) -> bool:
    """Return True if the data is a valid RefSi command buffer with a FINISH command."""
    if len(data) % CHUNK_BYTES:
        return False
    try:
        commands = decode_all(memoryview(data).cast("Q"))
    except SoftcardError:
        return False
    return any(isinstance(command, Finish) for _, command in commands)


def _is_acceldev(data: bytes) -> bool:
    """Return True if the data consist of Acceldev commands of known types, without unknown bits in their headers."""
    if not data or len(data) % USER_CMD_BYTES:
        return False
    headers = {int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), USER_CMD_BYTES)}
    return all(header & CMD_TYPE_MASK in USER_COMMANDS and not header & ~CMD_TYPE_MASK for header in headers)
