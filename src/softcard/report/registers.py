"""Writers of register maps as Markdown, text and JSON.

`report.register_formats` writes SystemRDL, CMSIS-SVD and C headers.
"""

from __future__ import annotations

import json

from softcard.core.register import Register, RegisterMap
from softcard.report.markdown import cell, table
from softcard.report.register_formats import to_c_header, to_systemrdl

__all__ = ["to_c_header", "to_json", "to_markdown", "to_systemrdl", "to_text"]

_SIDES = {"r": "read", "w": "write", "rw": "read, write"}


def to_json(registers: RegisterMap) -> str:
    """Return the whole register map as one JSON object; offsets are in address units, `bits` are [high, low]."""
    document = {
        "name": registers.name,
        "doc": registers.doc,
        "unit_bytes": registers.unit_bytes,
        "reserved": [{"first": span.start, "last": span.stop - 1} for span in registers.reserved],
        "registers": [_register_object(register, registers.unit_bytes) for register in registers],
    }
    return json.dumps(document, indent=2) + "\n"


def to_markdown(registers: RegisterMap, level: int = 2) -> str:
    """Return the map as Markdown: a heading of level `level`, a table of registers, and tables of their fields."""
    mark = "#" * level
    unit = "bytes" if registers.unit_bytes == 1 else f"units of {registers.unit_bytes} bytes"
    rows = [(register.offset, _summary(register, registers.unit_bytes)) for register in registers]
    for span in registers.reserved:
        rows.append((span.start, (_span(span.start, span.stop - 1), "reserved", "", "", "")))
    rows.sort(key=lambda row: row[0])
    parts = [f"{mark} {registers.name}", ""]
    parts += [registers.doc, ""] if registers.doc else []
    parts += [f"Offsets count {unit}.", ""]
    parts += [table(("offset", "register", "bits", "host may", "description"), [row for _, row in rows])]
    for register in registers:
        if register.fields:
            parts += ["", f"{mark}# {_title(register)}", "", _fields(register)]
    return "\n".join(parts) + "\n"


def to_text(registers: RegisterMap) -> str:
    """Return the map as text: a line for each register, followed by a line for each of its fields."""
    unit = "bytes" if registers.unit_bytes == 1 else f"units of {registers.unit_bytes} bytes"
    lines = [f"{registers.name}: {registers.doc or 'registers'} (offsets count {unit})"]
    for register in registers:
        last = register.offset_of(register.count - 1, registers.unit_bytes)
        head = f"  {_span(register.offset, last):<16}  {_title(register):<24}  {register.width:>2} bits"
        lines.append(f"{head}  {_SIDES[register.side]:<11}  {' '.join(register.doc.split())}".rstrip())
        for part in register.fields:
            values = ", ".join(f"{number}: {name}" for number, name in sorted((part.values or {}).items()))
            about = "; ".join(text for text in (" ".join(part.doc.split()), values) if text)
            access = register.access(part.name).value
            lines.append(f"    {part.bits:<14}  {part.name:<24}  {access:<8} reset {part.reset:#x}  {about}".rstrip())
    return "\n".join(lines) + "\n"


def _summary(register: Register, unit_bytes: int) -> tuple[str, ...]:
    last = register.offset_of(register.count - 1, unit_bytes)
    return (
        _span(register.offset, last),
        _title(register),
        str(register.width),
        _SIDES[register.side],
        cell(register.doc),
    )


def _fields(register: Register) -> str:
    rows = []
    for part in register.fields:
        values = ", ".join(f"{number}: {name}" for number, name in sorted((part.values or {}).items()))
        about = "; ".join(text for text in (part.doc, values) if text)
        rows.append((part.bits, part.name, register.access(part.name).value, f"{part.reset:#x}", cell(about)))
    return table(("bits", "field", "access", "reset", "description"), rows)


def _title(register: Register) -> str:
    return register.name if register.count == 1 else f"{register.name}0 .. {register.name}{register.count - 1}"


def _span(first: int, last: int) -> str:
    return f"{first:#x}" if first == last else f"{first:#x} .. {last:#x}"


def _register_object(register: Register, unit_bytes: int) -> dict[str, object]:
    return {
        "name": register.name,
        "doc": register.doc,
        "offset": register.offset,
        "width": register.width,
        "side": register.side,
        "count": register.count,
        "stride": register.stride or register.size(unit_bytes),
        "reset": register.reset_value,
        "fields": [
            {
                "name": part.name,
                "doc": part.doc,
                "bits": [part.lsb + part.width - 1, part.lsb],
                "access": register.access(part.name).value,
                "reset": part.reset,
                "values": {str(number): name for number, name in sorted((part.values or {}).items())},
            }
            for part in register.fields
        ],
    }
