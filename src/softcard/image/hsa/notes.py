"""The notes of a code object: code object version, ISA, producer, metadata.

NT_AMD notes of V1 and V2 (owner "AMD"): 1 code object version, 2 HSAIL, 3 ISA version, 4 producer, 5 producer options,
10 metadata (YAML), 11 ISA name. NT_AMDGPU notes of V3 to V6 (owner "AMDGPU"): 32 metadata (MessagePack).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from softcard.core.errors import WireError
from softcard.core.record import Record, u8, u16, u32
from softcard.image.elf.reader import Note
from softcard.image.hsa import msgpack

NT_AMD_CODE_OBJECT_VERSION: Final = 1
NT_AMD_HSAIL: Final = 2
NT_AMD_ISA_VERSION: Final = 3
NT_AMD_PRODUCER: Final = 4
NT_AMD_PRODUCER_OPTIONS: Final = 5
NT_AMD_METADATA: Final = 10
NT_AMD_ISA_NAME: Final = 11
NT_AMDGPU_METADATA: Final = 32


class CodeObjectVersionNote(Record, size=8):
    """NT_AMD note 1: the code object version."""

    major: int = u32()
    minor: int = u32()


class HsailNote(Record, size=12):
    """NT_AMD note 2: HSAIL."""

    hsail_major: int = u32()
    hsail_minor: int = u32()
    profile: int = u8()
    machine_model: int = u8()
    default_float_round: int = u8()
    padding: int = u8()


class IsaVersionNote(Record, size=16):
    """NT_AMD note 3: the ISA version; vendor and architecture names follow, each with its terminating 0."""

    vendor_name_size: int = u16()
    architecture_name_size: int = u16()
    major: int = u32()
    minor: int = u32()
    stepping: int = u32()


class ProducerNote(Record, size=12):
    """NT_AMD note 4: the producer; its name follows."""

    name_size: int = u16()
    padding: int = u16()
    major: int = u32()
    minor: int = u32()


@dataclass(slots=True)
class NoteFacts:
    """The facts in a file's notes: the last note of each type, and all metadata. Errors become `warnings`.

    Lists of maps in `msgpack` documents are `msgpack.Elements`.
    """

    version: tuple[int, int] | None = None
    isa_version: tuple[int, int, int] | None = None
    isa_name: str = ""
    producer: str = ""
    producer_options: str = ""
    hsail: HsailNote | None = None
    yaml: list[dict[str, Any]] = field(default_factory=list)
    msgpack: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_notes(notes: Iterable[Note]) -> NoteFacts:
    """Return the facts in all notes; a malformed note causes a warning only."""
    facts = NoteFacts()
    for note in notes:
        try:
            if note.owner == "AMD":
                _amd(facts, note)
            elif note.owner == "AMDGPU" and note.type == NT_AMDGPU_METADATA:
                _msgpack(facts, note)
            elif note.owner == "AMDGPU":
                facts.warnings.append(f"note {note.type} of AMDGPU at byte {note.place:#x} is unknown")
        except WireError as error:
            facts.warnings.append(f"note {note.type} of {note.owner} at byte {note.place:#x}: {error}")
    return facts


def _amd(facts: NoteFacts, note: Note) -> None:
    data = note.data
    if note.type == NT_AMD_CODE_OBJECT_VERSION:
        version = CodeObjectVersionNote.parse(data)
        facts.version = version.major, version.minor
    elif note.type == NT_AMD_HSAIL:
        facts.hsail = HsailNote.parse(data.ljust(HsailNote.size_bytes, b"\0") if len(data) == 11 else data)
    elif note.type == NT_AMD_ISA_VERSION:
        isa = IsaVersionNote.parse(data)
        facts.isa_version = isa.major, isa.minor, isa.stepping
    elif note.type == NT_AMD_PRODUCER:
        producer = ProducerNote.parse(data)
        name = _text(data[ProducerNote.size_bytes : ProducerNote.size_bytes + producer.name_size])
        facts.producer = f"{name} {producer.major}.{producer.minor}"
    elif note.type == NT_AMD_PRODUCER_OPTIONS:
        facts.producer_options = _text(data[2:])
    elif note.type == NT_AMD_METADATA:
        from softcard.image.hsa import yaml_text  # here: only older compilers write YAML

        facts.yaml.append(_mapping(yaml_text.parse(_text(data))))
    elif note.type == NT_AMD_ISA_NAME:
        facts.isa_name = _text(data)
    else:
        facts.warnings.append(f"note {note.type} of AMD at byte {note.place:#x} is unknown")


def _msgpack(facts: NoteFacts, note: Note) -> None:
    value, size = msgpack.unpack(note.data, on_demand=True)
    facts.msgpack.append(_mapping(value))
    if note.data[size:].strip(b"\0"):
        facts.warnings.append(f"metadata at byte {note.place:#x} has {len(note.data) - size} bytes after its end")


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WireError(f"metadata is a {type(value).__name__}, expected a map")
    return value


def _text(data: bytes) -> str:
    return data.split(b"\0")[0].decode("utf-8", "backslashreplace")
