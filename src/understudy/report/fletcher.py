"""A Fletcher register map for people and tools: vhdmmio's YAML, SystemRDL, a C header, Markdown.

SystemRDL and C go through a `RegisterMap` of 32-bit registers, which is how a host program sees the map.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from understudy.core.register import Access, Field, Register, RegisterMap
from understudy.device.fletcher.map.layout import FletcherMap, MmioField
from understudy.device.fletcher.map.names import YAML_WORDS
from understudy.device.fletcher.map.registers import DEFAULT, REGISTER_BITS, REGISTER_BYTES
from understudy.report.c_header import to_c_header
from understudy.report.markdown import cell, table
from understudy.report.systemrdl import to_systemrdl

NAME: Final = "fletcher"

_ACCESS: Final = {"strobe": Access.STROBE, "status": Access.RO, "control": Access.RW}


def fletcher_registers(plan: FletcherMap) -> RegisterMap:
    """The map as a `RegisterMap` of 32-bit registers.

    Fields of 33 to 64 bits become NAME_low and NAME_high, wider ones NAME_0, NAME_1, ...; names that are no
    identifiers, or not unique, are changed.
    """
    names = _Names()
    registers: list[Register] = []
    for address, group in groupby(plan.fields, key=lambda field: field.address):
        fields = list(group)
        if address in (plan.control, plan.status):
            registers.append(_packed(plan, address, fields, names))
        else:
            registers += _parts(fields[0], names)
    about = f"registers of a Fletcher design, profile {plan.profile}"
    return RegisterMap(NAME, tuple(registers), doc=about)


def _packed(plan: FletcherMap, address: int, fields: list[MmioField], names: _Names) -> Register:
    """Control or status: several fields of one register."""
    declared = DEFAULT.find(address - plan.offset, "r")[0]
    start = min(field.lsb for field in fields)
    parts = tuple(
        Field(field.name, field.lsb - start // REGISTER_BITS * REGISTER_BITS, field.width, _ACCESS[field.behaviour],
              doc=field.doc)
        for field in fields
    )  # fmt: skip
    return Register(names.take(declared.name), address, parts, REGISTER_BITS, declared.doc)


def _parts(field: MmioField, names: _Names) -> Iterator[Register]:
    """A field as registers of 32 bits, lowest first."""
    count = -(-field.width // REGISTER_BITS)
    suffixes = [""] if count == 1 else ["_low", "_high"] if count == 2 else [f"_{index}" for index in range(count)]
    for index, suffix in enumerate(suffixes):
        width = min(REGISTER_BITS, field.width - index * REGISTER_BITS)
        part = Field("value", 0, width, _ACCESS[field.behaviour])
        name = names.take(field.name + suffix)
        address = field.address + index * REGISTER_BYTES
        doc = field.doc if count == 1 else f"{field.doc}, bits {index * 32 + width - 1}-{index * 32}"
        yield Register(name, address, (part,), REGISTER_BITS, " ".join(doc.split()))


class _Names:
    """Makes names identifiers, and unique whatever the case of their letters."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def take(self, name: str) -> str:
        """`name`, or the nearest identifier that is free."""
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = plain if plain[:1].isalpha() else f"r_{plain}"
        free, number = plain, 2
        while _key(free) in self._seen:
            free, number = f"{plain}_{number}", number + 1
        self._seen.add(_key(free))
        return free


def _key(name: str) -> str:
    """What must be unique: names in a C header are in upper case, and begin with the map's name once."""
    return name.lower().removeprefix(f"{NAME}_")


# ---- vhdmmio -------------------------------------------------------------------------------------------------------

_HEADER: Final = """\
metadata:
  name: mmio
  doc: Register map of a Fletcher design, made by Understudy.

entity:
  bus-flatten:  yes
  bus-prefix:   mmio_
  clock-name:   kcd_clk
  reset-name:   kcd_reset

features:
  bus-width:    {bus_width}
  optimize:     yes

interface:
  flatten:      yes

fields:
"""


def to_vhdmmio(plan: FletcherMap) -> str:
    """The map as vhdmmio reads it: in profile `fletchgen` the same fields that the generator gives it, same order."""
    return _HEADER.format(bus_width=plan.bus_width) + "\n".join(_yaml(field) for field in plan.fields)


def _yaml(field: MmioField) -> str:
    high = field.lsb + field.width - 1
    bits = f"{high}..{field.lsb}" if field.width > 1 else f"{field.lsb}"
    return (
        f"  - address: {field.address}\n"
        f"    name: {_scalar(field.name)}\n"
        f"    doc: {_scalar(field.doc)}\n"
        f"    bitrange: {bits}\n"
        f"    behavior: {field.behaviour}\n"
    )


_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.,()' -]*(?<! )")


def _scalar(text: str) -> str:
    """`text` as a YAML scalar, quoted where it must be."""
    if _PLAIN.fullmatch(text) and text not in YAML_WORDS:
        return text
    escaped = (
        character if character.isprintable() and character not in '"\\' else f"\\U{ord(character):08x}"
        for character in text
    )
    return '"' + "".join(escaped) + '"'


# ---- the rest ------------------------------------------------------------------------------------------------------


def to_rdl(plan: FletcherMap) -> str:
    """SystemRDL 2.0; addresses in bytes."""
    return to_systemrdl(fletcher_registers(plan))


def to_header(plan: FletcherMap) -> str:
    """A C header. Offsets are bytes; a host program's register index is a quarter of them, less the map's offset."""
    return to_c_header(fletcher_registers(plan))


def rows(plan: FletcherMap) -> list[tuple[str, str, str, str, str]]:
    """One row per field: byte address, register index, bits, host access, name; for tables of any kind."""
    access = {"strobe": "write (strobe)", "status": "read", "control": "read, write"}
    found = []
    for field in plan.fields:
        high = field.lsb + field.width - 1
        bits = f"{high}..{field.lsb}" if field.width > 1 else f"{field.lsb}"
        index = str(plan.register_index(field.address))
        found.append((f"{field.address:#x}", index, bits, access[field.behaviour], field.name))
    return found


HEADINGS: Final = ("address", "index", "bits", "host may", "register")


def to_markdown(plan: FletcherMap, level: int = 2) -> str:
    """A heading, and one table of all fields by address."""
    docs = [field.doc for field in plan.fields]
    body = [(*row[:4], f"`{cell(row[4])}`", cell(doc)) for row, doc in zip(rows(plan), docs, strict=True)]
    mark = "#" * level
    about = (
        f"Profile {plan.profile}, a bus of {plan.bus_width} bits, {plan.size_bytes} bytes from {plan.offset:#x} on. "
        "Addresses count bytes, indices registers of 32 bits as a host program does."
    )
    return f"{mark} Fletcher register map\n\n{about}\n\n" + table((*HEADINGS, "description"), body) + "\n"
