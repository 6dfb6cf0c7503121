"""Fletcher register maps as vhdmmio's YAML, SystemRDL, a C header or Markdown, and Arrow schemas as data.

SystemRDL and C are generated from a `RegisterMap` of 32-bit registers, since host programs access the map as
32-bit registers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from softcard.core.errors import RuleError
from softcard.core.register import Access, Field, Register, RegisterMap
from softcard.device.fletcher.map.build import YAML_WORDS, fletcher_map
from softcard.device.fletcher.map.layout import FletcherMap, MmioField
from softcard.device.fletcher.map.registers import DEFAULT, REGISTER_BITS, REGISTER_BYTES
from softcard.image.arrow_schema import read_arrow
from softcard.report.markdown import cell, table
from softcard.report.register_formats import to_c_header, to_systemrdl

NAME: Final = "fletcher"

_ACCESS: Final = {"strobe": Access.STROBE, "status": Access.RO, "control": Access.RW}


def fletcher_registers(plan: FletcherMap) -> RegisterMap:
    """Return the Fletcher map `plan` as a `RegisterMap` of 32-bit registers.

    Fields of 33 to 64 bits become the registers NAME_low and NAME_high, wider fields become NAME_0, NAME_1, ...
    Names that are not identifiers, or not unique, are changed."""
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
    """Return the control or the status register at `address`, in which the `fields` share 32 bits."""
    declared = DEFAULT.find(address - plan.offset, "r")[0]
    start = min(field.lsb for field in fields)
    parts = tuple(
        Field(field.name, field.lsb - start // REGISTER_BITS * REGISTER_BITS, field.width, _ACCESS[field.behaviour],
              doc=field.doc)
        for field in fields
    )  # fmt: skip
    return Register(names.take(declared.name), address, parts, REGISTER_BITS, declared.doc)


def _parts(field: MmioField, names: _Names) -> Iterator[Register]:
    """Yield the 32-bit registers of a field, lowest first."""
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
    """A generator of identifiers that are unique even if case is ignored."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def take(self, name: str) -> str:
        """Return `name` as an identifier; if the identifier has been returned before, add a number to it."""
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = plain if plain[:1].isalpha() else f"r_{plain}"
        free, number = plain, 2
        while _key(free) in self._seen:
            free, number = f"{plain}_{number}", number + 1
        self._seen.add(_key(free))
        return free


def _key(name: str) -> str:
    """Return the form of a name in which it must differ from all other names, so that macros in a C header do.

    It is the name in lower case, without the prefix ``fletcher_``."""
    return name.lower().removeprefix(f"{NAME}_")


# ---- vhdmmio -------------------------------------------------------------------------------------------------------

_HEADER: Final = """\
metadata:
  name: mmio
  doc: Register map of a Fletcher design, made by Softcard.

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
    """Return the map `plan` as input for the tool vhdmmio.

    In profile `fletchgen` the result has the same fields, in the same order, as the file that Fletcher's
    generator writes."""
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
    """Return `text` as a YAML scalar, quoted if necessary."""
    if _PLAIN.fullmatch(text) and text not in YAML_WORDS:
        return text
    escaped = (
        character if character.isprintable() and character not in '"\\' else f"\\U{ord(character):08x}"
        for character in text
    )
    return '"' + "".join(escaped) + '"'


# ---- the rest ------------------------------------------------------------------------------------------------------


def to_rdl(plan: FletcherMap) -> str:
    """Return the map `plan` as SystemRDL 2.0; addresses are in bytes."""
    return to_systemrdl(fletcher_registers(plan))


def to_header(plan: FletcherMap) -> str:
    """Return the map `plan` as a C header with offsets in bytes.

    The index by which host programs access a register is (its offset - the offset of the map) / 4."""
    return to_c_header(fletcher_registers(plan))


def rows(plan: FletcherMap) -> list[tuple[str, str, str, str, str]]:
    """Return one tuple per field of the map: byte address, register index, bits, host access, name."""
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
    """Return the map as Markdown: a heading of level `level`, and one table of all fields by address."""
    docs = [field.doc for field in plan.fields]
    body = [(*row[:4], f"`{cell(row[4])}`", cell(doc)) for row, doc in zip(rows(plan), docs, strict=True)]
    mark = "#" * level
    about = (
        f"Profile {plan.profile}, a bus of {plan.bus_width} bits, {plan.size_bytes} bytes from {plan.offset:#x} on. "
        "Addresses count bytes, indices registers of 32 bits as a host program does."
    )
    return f"{mark} Fletcher register map\n\n{about}\n\n" + table((*HEADINGS, "description"), body) + "\n"


# ---- Arrow schemas ---------------------------------------------------------------------------------------------------
# The content of an Arrow schema as data: its fields, and the register map of the Fletcher design that reads it.


Document = dict[str, Any]


def describe(data: bytes) -> Document:
    """Return the fields, metadata and registers of an Arrow schema as data.

    If no registers can be generated for the schema, the value of ``refused`` is the reason. `WireError` is raised
    if the data is not a schema."""
    found = read_arrow(data)
    schema = getattr(found, "schema", found)
    registers: list[tuple[str, ...]] = []
    refused = ""
    try:
        registers = list(rows(fletcher_map([found])))
    except RuleError as error:
        refused = str(error)
    return {
        "format": "Arrow schema",
        "rows": getattr(found, "num_rows", None),
        "metadata": {_text(key): _text(value) for key, value in (schema.metadata or {}).items()},
        "fields": [
            {"name": each.name, "type": str(each.type), "nullable": each.nullable, "metadata": {
                _text(key): _text(value) for key, value in (each.metadata or {}).items()
            }}
            for each in schema
        ],
        "registers": [dict(zip(HEADINGS, row, strict=True)) for row in registers],
        "refused": refused,
    }  # fmt: skip


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def lines(document: Document) -> Iterator[str]:
    """Yield the text of a document that `describe` returned."""
    count = "" if document["rows"] is None else f", a RecordBatch of {document['rows']} rows"
    yield f"Arrow schema: {len(document['fields'])} fields{count}"
    for key, value in document["metadata"].items():
        yield f"  {key}: {value}"
    for each in document["fields"]:
        pairs = [f"{key}={value}" for key, value in each["metadata"].items()]
        nullable = "" if each["nullable"] else " not null"
        yield f"  {each['name']}: {each['type']}{nullable} {' '.join(pairs)}".rstrip()
    if document["refused"]:
        yield f"no register map can be made: {document['refused']}"
        return
    yield "registers (softcard fletcher map has them in other forms):"
    for row in document["registers"]:
        yield f"  {row['address']:>8}  {row['bits']:<7} {row['register']} ({row['host may']})"
