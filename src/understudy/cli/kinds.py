"""What a file is, by what it holds: everything that `inspect` and `check` read."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from understudy.cli.buffers import Form, guess
from understudy.core.errors import WireError
from understudy.device.acceldev.commands import CMD_TYPE_MASK, USER_CMD_BYTES, USER_COMMANDS
from understudy.device.refsi.commands import CHUNK_BYTES, COMMANDS, HEADER, PACKET_ID
from understudy.image.elf.layout import MACHINE_AMDGPU, MACHINE_RISCV
from understudy.image.hsa.bundle import is_bundle
from understudy.image.hsa.elf import MACHINES_AMDCL2


class FileKind(StrEnum):
    """Kinds of files."""

    HSA = "hsa"
    """Code objects of AMD HSA, and offload bundles of them."""
    AMDCL2 = "amdcl2"
    """Programs of AMD OpenCL 2.0."""
    RISCV = "riscv"
    """RISC-V ELF files."""
    REFSI = "refsi"
    """Command buffers of RefSi: binary, 64-bit words, or a listing."""
    ACCELDEV = "acceldev"
    """Code buffers of Acceldev: user commands."""
    SCHEMA = "schema"
    """Arrow schemas, and files with a RecordBatch."""
    TRACE = "trace"
    """Traces in JSON lines."""


NAMES: Final = {
    FileKind.HSA: "code object",
    FileKind.AMDCL2: "AMD OpenCL 2.0 program",
    FileKind.RISCV: "RISC-V ELF file",
    FileKind.REFSI: "RefSi command buffer",
    FileKind.ACCELDEV: "list of Acceldev user commands",
    FileKind.SCHEMA: "Arrow schema",
    FileKind.TRACE: "trace",
}
HEAD_BYTES: Final = 64
"""What is looked at of a file to know whether it is a trace, which may be too long to hold."""
GPU_MACHINES: Final = (MACHINE_AMDGPU, *MACHINES_AMDCL2)
"""e_machine of ELF files for AMD GPUs."""
_EVENT: Final = re.compile(rb'\s*\{\s*"time":\s*\d+,\s*"event":')
_WORDS: Final = re.compile(rb"\s*(?:#[^\n]*\n\s*)*(?:cb\s+)?(?:0[xX][0-9a-fA-F]+|\d+)(?:[\s,#]|$)")
"""How 64-bit words begin, as scripts have them."""
_CONTINUATION: Final = b"\xff\xff\xff\xff"


def is_trace(head: bytes) -> bool:
    """Whether a file that begins so is a trace."""
    return _EVENT.match(head) is not None


def kind_of(data: bytes, name: str = "") -> FileKind:
    """What a file is; a `WireError` that says what is known where it is none of that. `name` is the file's."""
    if is_trace(data[:HEAD_BYTES]):
        return FileKind.TRACE
    if is_bundle(data):
        return FileKind.HSA
    if data[:4] == b"\x7fELF":
        return _kind_of_elf(data)
    if data.startswith((b"ARROW1", _CONTINUATION)) or Path(name).suffix == ".as":
        return FileKind.SCHEMA
    if _is_refsi(data):
        return FileKind.REFSI
    if _is_acceldev(data):
        return FileKind.ACCELDEV
    if not data:
        raise WireError("the file is empty").at("byte", 0)
    *names, last = NAMES.values()
    known = f"{', '.join(names)} or {last}"
    raise WireError(f"file starts with {data[:4].hex(' ')}, as no {known} does; --as says what it is").at("byte", 0)


def _kind_of_elf(data: bytes) -> FileKind:
    machine = int.from_bytes(data[18:20], "little")
    if machine == MACHINE_RISCV:
        return FileKind.RISCV
    if machine == MACHINE_AMDGPU:
        return FileKind.HSA
    if machine in MACHINES_AMDCL2:
        return FileKind.AMDCL2
    known = ", ".join(f"{each:#x}" for each in (MACHINE_RISCV, *GPU_MACHINES))
    raise WireError(f"e_machine is {machine:#x}, expected RISC-V's or that of an AMD GPU: {known}").at("byte", 18)


def _is_refsi(data: bytes) -> bool:
    """Text of commands or words, or a first chunk that has the header's packet id."""
    form = guess(data)
    if form is Form.BINARY:
        if len(data) < CHUNK_BYTES:
            return False
        first = HEADER.decode(int.from_bytes(data[:CHUNK_BYTES], "little"))
        known = first["PACKET_ID"] == PACKET_ID and first["OPCODE"] in COMMANDS
        return known and not first["RESERVED"] and not first["COUNT"] % 2
    return form is Form.LISTING or _WORDS.match(data) is not None


def _is_acceldev(data: bytes) -> bool:
    """Whole commands of known types, whose headers hold nothing else."""
    if not data or len(data) % USER_CMD_BYTES:
        return False
    headers = {int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), USER_CMD_BYTES)}
    return all(header & CMD_TYPE_MASK in USER_COMMANDS and not header & ~CMD_TYPE_MASK for header in headers)
