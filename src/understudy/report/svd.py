"""Register maps as a CMSIS-SVD file (System View Description 1.3), which debuggers and header generators read.

SVD has no words for two of our access kinds: a strobe is a write-only field, and reserved bits are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from understudy.core.register import Access, Field, Register, RegisterMap

_ACCESS = {
    Access.RW: "read-write",
    Access.RO: "read-only",
    Access.WO: "write-only",
    Access.W1C: "read-write",
    Access.STROBE: "write-only",
}
_SIDES = {"r": "read-only", "w": "write-only", "rw": "read-write"}


def to_svd(device: str, maps: Sequence[RegisterMap]) -> str:
    """One device, with a peripheral for each map. Offsets are in bytes, from a base of 0."""
    root = Xml.Element("device", {"schemaVersion": "1.3"})
    width = max((register.width for each in maps for register in each), default=32)
    texts = {"vendor": "Understudy", "name": device, "version": "1.0", "description": f"Registers of {device}"}
    _texts(root, **texts, addressUnitBits="8", width=str(width))
    peripherals = Xml.SubElement(root, "peripherals")
    for each in maps:
        _peripheral(Xml.SubElement(peripherals, "peripheral"), each)
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'


def _texts(parent: Xml.Element, **texts: str) -> None:
    for tag, text in texts.items():
        if text:
            Xml.SubElement(parent, tag).text = text


def _peripheral(element: Xml.Element, registers: RegisterMap) -> None:
    unit = registers.unit_bytes
    ends = [(each.offset_of(each.count - 1, unit) + each.size(unit)) * unit for each in registers]
    _texts(element, name=registers.name, description=registers.doc, baseAddress="0x0")
    _texts(
        Xml.SubElement(element, "addressBlock"), offset="0x0", size=f"{max(ends, default=unit):#x}", usage="registers"
    )
    inside = Xml.SubElement(element, "registers")
    first: dict[int, str] = {}
    for each in registers:
        _register(Xml.SubElement(inside, "register"), each, unit, first.setdefault(each.offset, each.name))


def _register(element: Xml.Element, register: Register, unit: int, first: str) -> None:
    """`first` is the name of the first register at this offset: another one is its alternative for the other side."""
    array = register.count > 1
    if array:
        step = (register.stride or register.size(unit)) * unit
        _texts(element, dim=str(register.count), dimIncrement=f"{step:#x}")
    _texts(
        element,
        name=register.name + "%s" * array,
        description=register.doc,
        alternateRegister=first if first != register.name else "",
        addressOffset=f"{register.offset * unit:#x}",
        size=str(register.width),
        access=_SIDES[register.side],
        resetValue=f"{register.reset_value:#x}",
    )
    fields = [part for part in register.fields if register.access(part.name) is not Access.RSVD]
    if fields:
        inside = Xml.SubElement(element, "fields")
        for part in fields:
            _field(Xml.SubElement(inside, "field"), part, register.access(part.name))


def _field(element: Xml.Element, part: Field, access: Access) -> None:
    _texts(element, name=part.name, description=part.doc, bitOffset=str(part.lsb), bitWidth=str(part.width))
    _texts(element, access=_ACCESS[access], modifiedWriteValues="oneToClear" if access is Access.W1C else "")
    if part.values:
        values = Xml.SubElement(element, "enumeratedValues")
        for number, name in sorted(part.values.items()):
            _texts(Xml.SubElement(values, "enumeratedValue"), name=name, value=str(number))
