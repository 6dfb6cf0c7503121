"""Layouts of commands and packets, field by field, as Markdown, text or JSON; and command buffers as data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, get_args

from softcard.core.display import count
from softcard.core.errors import SoftcardError
from softcard.core.record import Record, Slot
from softcard.device.acceldev.commands import USER_CMD_BYTES, decode_user_command
from softcard.device.refsi.toolkit.listing import lines as listed
from softcard.report.markdown import cell, table

if TYPE_CHECKING:
    from softcard.device.refsi.commands import Command


# ---- layouts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A field of a layout: its position, name and type.

    - `place`: the byte offset of the word, or the chunk, that contains the field
    - `bits`: the bits of the word at `place` that the field occupies; "" for all bits
    - `value`: the required or default value of the field; "" if it has none"""

    place: str
    bits: str
    name: str
    type: str
    value: str = ""
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a command, a packet or another record; `size_bytes` is None if its length varies."""

    name: str
    doc: str
    size_bytes: int | None
    parts: tuple[Part, ...]

    @property
    def size(self) -> str:
        """The size in bytes as text, for a table."""
        return "variable size" if self.size_bytes is None else f"{self.size_bytes} bytes"


INTERFACES: Final = ("refsi", "acceldev", "hsa", "amdcl2")


def layouts(interface: str) -> tuple[Layout, ...]:
    """Return the layouts of all commands or packets of `interface`, one of `INTERFACES`."""
    return tuple({"refsi": _refsi, "acceldev": _acceldev, "hsa": _hsa, "amdcl2": _amdcl2}[interface]())


def _refsi() -> Iterator[Layout]:
    from softcard.device.refsi.commands import Command, Opcode

    kinds = {kind.opcode: kind for kind in Command.__subclasses__()}
    return (_command(kinds[opcode]) for opcode in Opcode)


def _acceldev() -> Iterator[Layout]:
    from softcard.device.acceldev.commands import DEVICE_COMMANDS, USER_COMMANDS, ContextConfig

    for kinds, what in ((DEVICE_COMMANDS, "device command"), (USER_COMMANDS, "user command")):
        for kind in kinds.values():
            yield record_layout(kind, f"{what} {kind.TYPE.name}, in Python {kind.__name__}")
    yield record_layout(ContextConfig)


def _hsa() -> Iterator[Layout]:
    from softcard.device.hsa.queues.packets import AmdFormat, Packet, PacketType
    from softcard.device.hsa.queues.records import AmdQueue, AmdSignal

    values = {
        "type": {int(each): each.name for each in PacketType},
        "amd_format": {int(each): each.name for each in AmdFormat},
    }
    values |= {"packet_type": values["type"], "ven_hdr": values["amd_format"]}
    for kind in get_args(Packet):
        yield record_layout(kind, values=values)
    yield record_layout(AmdSignal)
    yield record_layout(AmdQueue)


def _amdcl2() -> Iterator[Layout]:
    from softcard.device.amdcl2.queue_records import AqlWrap, EnqueueFlags, QueueEvent, VirtualQueue, WrapState
    from softcard.device.hsa.queues.packets import KernelDispatchPacket

    yield record_layout(KernelDispatchPacket, "setup buffer (AQL kernel dispatch packet)")
    values = {
        "state": {int(each): each.name for each in WrapState},
        "enqueue_flags": {int(each): each.name for each in EnqueueFlags},
    }
    yield record_layout(VirtualQueue)
    yield record_layout(AqlWrap, values=values)
    yield record_layout(QueueEvent)


# ---- from declarations ---------------------------------------------------------------------------------------------


def record_layout(
    record: type[Record], name: str = "", values: Mapping[str, Mapping[int, str]] | None = None
) -> Layout:
    """Return the layout of a record class; `name` replaces the name of the class.

    `values` has, for each field whose values have names, a mapping from value to name."""
    defaults = record._defaults
    parts = []
    for slot in record.slots:
        default = None if slot.spec.is_reserved else defaults.get(slot.name)
        known = (values or {}).get(slot.name, {})
        shown = _value(default)
        if isinstance(default, int) and int(default) in known:
            shown = f"{int(default)} ({known[int(default)]})"
        doc = ", ".join(f"{number}: {text}" for number, text in known.items())
        bits = ""
        if slot.spec.kind == "bits":
            bits = f"{slot.spec.high}" if slot.spec.high == slot.spec.low else f"{slot.spec.high}-{slot.spec.low}"
        parts.append(Part(f"{slot.offset:#x}", bits, _name(slot), _type(slot), shown, doc))
    return Layout(name or record.__name__, _doc(record), record.size_bytes, tuple(parts))


def _name(slot: Slot) -> str:
    return "reserved" if slot.spec.is_reserved else slot.name


def _type(slot: Slot) -> str:
    spec = slot.spec
    if spec.kind == "raw":
        return f"{spec.size} bytes"
    if spec.kind == "record":
        assert spec.record is not None
        return spec.record.__name__ + (f"[{spec.count}]" if spec.count else "")
    return f"{'i' if spec.is_signed else 'u'}{8 * spec.size}" + (f"[{spec.count}]" if spec.count else "")


def _value(default: object) -> str:
    if isinstance(default, bool) or not isinstance(default, int):
        return ""
    return str(int(default)) if -10 < default < 10 else hex(default)


def _command(kind: type[Command]) -> Layout:
    """Return the layout of a RefSi command.

    A command consists of a header chunk (64 bits), whose upper half is called the inline chunk, and the payload chunks.
    """
    from softcard.device.refsi.commands import CHUNK_BYTES, HEADER

    fixed = {"RESERVED": "0", "OPCODE": f"{int(kind.opcode)}", "PACKET_ID": "3"}
    if not kind.REST:
        fixed["COUNT"] = str(2 * len(kind.CHUNKS))
    parts = [
        Part("chunk 0", each.bits, each.name, "", fixed.get(each.name, ""), each.doc)
        for each in HEADER.fields
        if each.name != "INLINE"
    ]
    for each in kind.INLINE.fields:
        low = each.lsb + 32
        bits = f"{low}" if each.width == 1 else f"{low + each.width - 1}-{low}"
        parts.append(Part("chunk 0", bits, each.name, "", "", each.doc))
    parts += [Part(f"chunk {number}", "", name, "u64") for number, name in enumerate(kind.CHUNKS, 1)]
    if kind.REST:
        parts.append(Part(f"chunk {len(kind.CHUNKS) + 1} ...", "", kind.REST.upper(), "u64[]"))
    size = None if kind.REST else CHUNK_BYTES * (1 + len(kind.CHUNKS))
    return Layout(kind.opcode.name, _doc(kind), size, tuple(parts))


def _doc(kind: type) -> str:
    return re.sub(r"`+", "", " ".join((kind.__doc__ or "").split("\n\n")[0].split()))


# ---- forms ---------------------------------------------------------------------------------------------------------


def to_markdown(found: Iterable[Layout], level: int = 2) -> str:
    """Return Markdown with a heading of level `level`, a description and a table of fields for each layout."""
    parts = []
    for each in found:
        rows = [(part.place, part.bits, f"`{part.name}`", part.type, part.value, cell(part.doc)) for part in each.parts]
        parts += [f"{'#' * level} {each.name}", "", f"{each.doc} ({each.size})", ""]
        parts += [table(("at", "bits", "field", "type", "value", "meaning"), rows), ""]
    return "\n".join(parts)


def to_text(found: Iterable[Layout]) -> str:
    """Return text with a paragraph for each layout and a line for each field."""
    lines = []
    for each in found:
        lines.append(f"{each.name}: {each.doc} ({each.size})")
        columns = [(part.place, part.bits, part.name, part.type, part.value, part.doc) for part in each.parts]
        widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
        lines += [
            "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in columns
        ]
        lines.append("")
    return "\n".join(lines)


def to_json(found: Iterable[Layout]) -> str:
    """Return a JSON list with an object for each layout: name, doc, size_bytes (null if it varies), and fields."""
    documents = [
        {
            "name": each.name,
            "doc": each.doc,
            "size_bytes": each.size_bytes,
            "fields": [
                {"at": part.place, "bits": part.bits, "name": part.name, "type": part.type, "value": part.value}
                | ({"doc": part.doc} if part.doc else {})
                for part in each.parts
            ],
        }
        for each in found
    ]
    return json.dumps(documents, indent=2) + "\n"


# ---- command buffers -------------------------------------------------------------------------------------------------
# Command buffers as data: RefSi's commands, and Acceldev's user commands, in order with their fields.


Document = dict[str, Any]


def describe_refsi(data: bytes) -> Document:
    """Return the commands of a RefSi command buffer as data; an invalid chunk has an ``error``.

    `data` are little-endian 64-bit chunks.
    """
    commands = []
    for line in listed(data):
        found: Document = {"byte": line.offset, "words": line.data.hex(), "text": line.text}
        if line.comment:
            found["meaning"] = line.comment
        if line.error is not None:
            found["error"] = str(line.error)
        commands.append(found)
    return {"format": "RefSi command buffer", "bytes": len(data), "commands": commands}


def describe_acceldev(data: bytes) -> Document:
    """Return the user commands of an Acceldev code buffer as data; an invalid command has an ``error``."""
    commands = []
    for at in range(0, len(data), USER_CMD_BYTES):
        part = data[at : at + USER_CMD_BYTES]
        found: Document = {"byte": at, "words": part.hex()}
        try:
            command = decode_user_command(part.ljust(USER_CMD_BYTES, b"\0"))
        except SoftcardError as error:
            found |= {"text": "unknown", "error": str(error.at("byte", at))}
        else:
            values = {each.name: getattr(command, each.name) for each in fields(command)}
            shown = [
                f"{name}={value:#x}"
                for name, value in values.items()
                if name != "type" and isinstance(value, int) and value
            ]
            found["text"] = " ".join([command.TYPE.name, *shown])
        if len(part) < USER_CMD_BYTES:
            found["error"] = f"expected a command of {USER_CMD_BYTES} bytes, got {len(part)}, at byte {at:#x}"
        commands.append(found)
    return {"format": "Acceldev user commands", "bytes": len(data), "commands": commands}


def lines(document: Document) -> Iterator[str]:
    """Yield the lines of a document that `describe_refsi` or `describe_acceldev` returned."""
    commands = document["commands"]
    wrong = sum("error" in each for each in commands)
    yield f"{document['format']}: {count(len(commands), 'command')}, {document['bytes']} bytes" + (
        f", {wrong} wrong" if wrong else ""
    )
    for each in commands:
        more = each.get("meaning", "") or each.get("error", "")
        left = f"  {each['byte']:#06x}: {each['text']}"
        yield f"{left:<68} ; {more}" if more else left
