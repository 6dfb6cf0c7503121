"""Command buffers, as data: RefSi's commands, and Acceldev's user commands, one after the other with their fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from understudy.core.errors import UnderstudyError
from understudy.core.shown import count
from understudy.device.acceldev.commands import USER_CMD_BYTES, decode_user_command
from understudy.device.refsi.toolkit.listing import lines as listed

Document = dict[str, Any]


def describe_refsi(data: bytes) -> Document:
    """The commands of a RefSi command buffer, little-endian binary; chunks that are none have an ``error``."""
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
    """The user commands of an Acceldev code buffer; what is none has an ``error``."""
    commands = []
    for at in range(0, len(data), USER_CMD_BYTES):
        part = data[at : at + USER_CMD_BYTES]
        found: Document = {"byte": at, "words": part.hex()}
        try:
            command = decode_user_command(part.ljust(USER_CMD_BYTES, b"\0"))
        except UnderstudyError as error:
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
            found["error"] = f"{len(part)} bytes are no whole command of {USER_CMD_BYTES}, at byte {at:#x}"
        commands.append(found)
    return {"format": "Acceldev user commands", "bytes": len(data), "commands": commands}


def lines(document: Document) -> Iterator[str]:
    """The text of what either gave."""
    commands = document["commands"]
    wrong = sum("error" in each for each in commands)
    yield f"{document['format']}: {count(len(commands), 'command')}, {document['bytes']} bytes" + (
        f", {wrong} wrong" if wrong else ""
    )
    for each in commands:
        more = each.get("meaning", "") or each.get("error", "")
        left = f"  {each['byte']:#06x}: {each['text']}"
        yield f"{left:<68} ; {more}" if more else left
