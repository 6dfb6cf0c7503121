"""The names of events, the representation of their values in all trace formats, and the reader of traces.

An event is a frozen record. Its kind is its class name in kebab-case (``DmaTransfer`` -> ``dma-transfer``);
fields keep the order in which they are declared. Numbers stay numbers, except in fields whose name, or the
last word of it, is in `HEX_NAMES` (``pc``, ``address``, ``source_address``). Such fields hold addresses or
bit patterns, which are written as hex strings, since readers that represent numbers as doubles would lose
bits of 64-bit numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from softcard.core.errors import ModelBug, Registers, SoftcardError, WireError
from softcard.core.event import Event
from softcard.core.rule import Choice, Rule

HEX_NAMES = frozenset(
    {
        "addr",
        "address",
        "base",
        "entry",
        "link",
        "mask",
        "object",
        "offset",
        "pc",
        "signal",
        "source",
        "target",
        "value",
        "word",
    }
)
"""The last words of the names of fields whose ints are written in hex."""

DIAGNOSTIC = "diagnostic"
"""The field of an event with the diagnostic of its error or finding, for reports: a record, or text for people."""
UNITS = frozenset({"lane", "wave", "work-group", "hart", "instance"})
"""The kinds of error locations that name the failing wave, hart or lane."""
Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""A value that JSON can represent."""

_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def kebab(name: str) -> str:
    """Return a name in kebab-case, for example ``dma-transfer`` for ``DmaTransfer``."""
    return _WORD_STARTS.sub("-", name).lower()


def kind(event: Event) -> str:
    """Return the kind of an event, as traces name it."""
    return kebab(type(event).__name__)


def event_fields(event: Event) -> Iterator[tuple[str, Any]]:
    """Yield names and values of an event's own fields, without `time`, in declaration order."""
    for part in fields(event):
        if part.name != "time":
            yield part.name, getattr(event, part.name)


def is_hex(name: str) -> bool:
    """Return True if ints in the field `name` are written in hex."""
    return name.rsplit("_", 1)[-1] in HEX_NAMES


def plain(name: str, value: Any) -> Plain:
    """Return the JSON representation of `value`, the value of the field `name`.

    Bytes become hex digits; enums their text or name; rules and choices their id; errors their message;
    infinities and NaNs text. A record becomes an object that begins with its ``type``, the name of its class (a
    field of that name is ``type_value``). A value of any other type raises `ModelBug`."""
    if isinstance(value, Enum):
        return value.value if isinstance(value.value, str) else value.name or str(value.value)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return hex(value) if is_hex(name) else int(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (Rule, Choice)):
        return value.id
    if isinstance(value, Registers):
        return value.as_dict()
    if isinstance(value, Exception):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [plain(name, item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(str(key), item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: plain(part.name, getattr(value, part.name)) for part in fields(value)}
        if "type" in parts:
            parts = {"type_value": parts.pop("type"), **parts}
        return {"type": kebab(type(value).__name__), **parts}
    raise ModelBug(f"field {name} of an event must hold numbers, text, bytes or records, not {type(value).__name__}")


def to_object(event: Event) -> dict[str, Plain]:
    """Return the JSON object for an event's line in a trace; the `registers` of an error become a separate field."""
    result: dict[str, Plain] = {"time": event.time, "event": kind(event)}
    for name, value in event_fields(event):
        if name in result:
            raise ModelBug(f"fields of {type(event).__name__} must not be called {name}: traces use that name")
        result[name] = plain(name, value)
        if isinstance(value, SoftcardError) and value.registers is not None:
            result["registers"] = value.registers.as_dict() | {"place": _place(value)}
    return result


def _place(error: SoftcardError) -> str:
    """Return the part of an error's location that names the failing wave or hart."""
    return ", ".join(f"{each.kind} {each.where}" for each in error.path if each.kind in UNITS)


# ---- reading ---------------------------------------------------------------------------------------------------------
# Reader of traces in JSON lines, with one object per event, as `softcard.trace.text` writes them.


Record = dict[str, Plain]
"""One event as a dict: ``time``, ``event`` (its kind), and its fields."""


def read_records(lines: Iterable[bytes]) -> Iterator[Record]:
    """Yield the events of a trace in order; empty lines are skipped.

    A line that is not an event, such as the truncated last line of a trace, raises `WireError` with the line number.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise WireError("the line is not a JSON object, expected a trace as JsonlTrace writes it").at(
                "line", number
            ) from None
        if not isinstance(record, dict):
            raise WireError("the line is not a JSON object, expected a trace as JsonlTrace writes it").at(
                "line", number
            )
        time, kind = record.get("time"), record.get("event")
        if type(time) is not int or not 0 <= time < 1 << 53 or not isinstance(kind, str) or not kind:
            raise WireError('the object is not an event, expected "time" (an integer) and "event" (its kind)').at(
                "line", number
            )
        yield record
