"""Register maps in the formats of other tools: SystemRDL 2.0, CMSIS-SVD and C headers.

SystemRDL cannot express two kinds of access, so every field also has the user property ``access_kind``: a strobe is
written as a write-only field, and a reserved field as a constant. Clause numbers in comments are those of the SystemRDL
2.0 standard.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from softcard.core.display import encodable
from softcard.core.errors import BeyondModel, ModelBug
from softcard.core.register import Access, Field, Register, RegisterMap

_SOFTWARE = {
    Access.RW: "sw = rw; hw = r;",
    Access.RO: "sw = r; hw = w;",
    Access.WO: "sw = w; hw = r;",
    Access.W1C: "sw = rw; hw = w; onwrite = woclr;",
    Access.STROBE: "sw = w; hw = r;",
    Access.RSVD: "sw = r; hw = na;",
}

# An identifier spelled like a reserved word needs a backslash (clause 6.2.2).
_RESERVED_WORDS = (
    "abstract accesstype addressingtype addrmap alias all alternate bit boolean bothedge byte compact component "
    "componentwidth constraint default encode enum external false field fullalign hw inside int internal level longint "
    "mem na negedge nonsticky number onreadtype onwritetype posedge precedencetype property r rclr real ref reg "
    "regalign regfile rset ruser rw rw1 shortint shortreal signal signed string struct sw this true type unsigned w w1 "
    "wclr with within woclr woset wot wr wset wuser wzc wzs wzt"
)
_KEYWORDS = frozenset(_RESERVED_WORDS.split())


def to_systemrdl(registers: RegisterMap) -> str:
    """Return a register map as one SystemRDL ``addrmap``; addresses are in bytes.

    `BeyondModel` is raised if SystemRDL cannot express the map.
    """
    if not registers.registers:
        raise BeyondModel(f"map {registers.name} has no register, expected one or more in SystemRDL (clause 13.3)")
    lines = [
        "property access_kind { component = field; type = string; };",
        "",
        f"addrmap {_name(registers.name)} {{",
        *_about(registers.name, registers.doc, "    "),
    ]
    for register in registers:
        lines += ["", *_register(register, registers.unit_bytes)]
    lines += ["};", ""]
    return "\n".join(lines)


def _register(register: Register, unit_bytes: int) -> list[str]:
    if register.width & (register.width - 1):
        raise BeyondModel(
            f"register {register.name} has {register.width} bits, expected a power of two in SystemRDL (clause 10.6.1)"
        )
    lines = ["    reg {", *_about(register.name, register.doc, "        "), f"        regwidth = {register.width};"]
    lines.append(f"        accesswidth = {register.width};")
    for part in register.fields:
        lines += _field(register, part, register.access(part.name))
    if not register.fields:  # Clause 10.1: a register holds one field or more.
        lines += _field(register, Field("RESERVED", 0, register.width), Access.RSVD)
    array = f"[{register.count}]" if register.count > 1 else ""
    step = (register.stride or register.size(unit_bytes)) * unit_bytes
    stride = f" += {step:#x}" if array else ""
    lines.append(f"    }} {_name(register.name)}{array} @ {register.offset * unit_bytes:#x}{stride};")
    return lines


def _field(register: Register, part: Field, access: Access) -> list[str]:
    lines: list[str] = []
    encode = ""
    if part.values:
        kind = f"{register.name}_{part.name}_values"
        lines.append(f"        enum {kind} {{")
        for number, name in sorted(part.values.items()):
            lines.append(
                f"            {_name(_identifier(name))} = {part.width}'d{number} {{ name = {_string(name)}; }};"
            )
        lines.append("        };")
        encode = f" encode = {kind};"
    about = f" desc = {_string(part.doc)};" if part.doc else ""
    lines.append(
        f"        field {{ {_SOFTWARE[access]} access_kind = {_string(access.value)};{encode}{about} }} "
        f"{_name(part.name)}[{part.lsb + part.width - 1}:{part.lsb}] = {part.width}'h{part.reset:x};"
    )
    return lines


def _about(name: str, doc: str, indent: str) -> list[str]:
    return [f"{indent}name = {_string(name)};"] + ([f"{indent}desc = {_string(doc)};"] if doc else [])


def _name(name: str) -> str:
    return "\\" + name if name in _KEYWORDS else name


def _identifier(name: str) -> str:
    text = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
    return text if text[:1].isalpha() else "_" + text


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# ---- CMSIS-SVD -------------------------------------------------------------------------------------------------------
# Register maps as a CMSIS-SVD file (System View Description 1.3), which debuggers and header generators read.
#
# SVD cannot express two of the access kinds: a strobe is written as a write-only field, and reserved bits are left out.


_ACCESS = {
    Access.RW: "read-write",
    Access.RO: "read-only",
    Access.WO: "write-only",
    Access.W1C: "read-write",
    Access.STROBE: "write-only",
}
_SIDES = {"r": "read-only", "w": "write-only", "rw": "read-write"}


def to_svd(device: str, maps: Sequence[RegisterMap]) -> str:
    """Return a CMSIS-SVD device with the name `device` and a peripheral for each map.

    Offsets are in bytes, from a base address of 0."""
    root = Xml.Element("device", {"schemaVersion": "1.3"})
    width = max((register.width for each in maps for register in each), default=32)
    texts = {"vendor": "Softcard", "name": device, "version": "1.0", "description": f"Registers of {device}"}
    _texts(root, **texts, addressUnitBits="8", width=str(width))
    peripherals = Xml.SubElement(root, "peripherals")
    for each in maps:
        _peripheral(Xml.SubElement(peripherals, "peripheral"), each)
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'


def _texts(parent: Xml.Element, **texts: str) -> None:
    for tag, text in texts.items():
        if text:
            Xml.SubElement(parent, tag).text = encodable(text)


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
        _svd_register(Xml.SubElement(inside, "register"), each, unit, first.setdefault(each.offset, each.name))


def _svd_register(element: Xml.Element, register: Register, unit: int, first: str) -> None:
    """Fill the SVD element of a register; `unit` is the size of the map's address unit in bytes.

    `first` is the name of the first register at the same offset. If that is another register, this one is
    declared as its alternative (``alternateRegister``)."""
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
            _svd_field(Xml.SubElement(inside, "field"), part, register.access(part.name))


def _svd_field(element: Xml.Element, part: Field, access: Access) -> None:
    _texts(element, name=part.name, description=part.doc, bitOffset=str(part.lsb), bitWidth=str(part.width))
    _texts(element, access=_ACCESS[access], modifiedWriteValues="oneToClear" if access is Access.W1C else "")
    if part.values:
        values = Xml.SubElement(element, "enumeratedValues")
        for number, name in sorted(part.values.items()):
            _texts(Xml.SubElement(values, "enumeratedValue"), name=name, value=str(number))


# ---- C header --------------------------------------------------------------------------------------------------------
# A register map as a C header: offsets, masks, shifts, reset values and named values, as macros.


def to_c_header(registers: RegisterMap, prefix: str | None = None) -> str:
    """Return the map as a C header whose macros begin with `prefix` in upper case, by default the map's name.

    - If a register name begins with the prefix, the prefix is not repeated.
    - Offsets count the map's address unit, whose size is ``PREFIX_UNIT_BYTES``.
    - An array of registers has the macros ``_COUNT``, ``_STRIDE`` and ``_OFFSET(n)``.
    - Masks are shifted to the position of their field.

    `BeyondModel` is raised for registers wider than 64 bits, `ModelBug` if two macros would have the same name."""
    start = _macro(registers.name if prefix is None else prefix)
    macros = [(f"{start}_UNIT_BYTES", f"{registers.unit_bytes}")]
    blocks = [_block(registers.doc or f"Registers of {registers.name}", macros)]
    for register in registers:
        own = _c_register(start, register, registers.unit_bytes)
        macros += own
        blocks.append(_block(f"{register.name}: {register.doc}" if register.doc else register.name, own))
    _check_unique([name.partition("(")[0] for name, _ in macros])
    guard = f"{start}_REGISTERS_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
    return "\n".join([*lines, "\n".join(blocks), f"#endif /* {guard} */", ""])


def _c_register(start: str, register: Register, unit_bytes: int) -> list[tuple[str, str]]:
    """Return the (name, text) pairs of the macros of one register; their names begin with `start`."""
    if register.width > 64:
        raise BeyondModel(f"{register.name} has {register.width} bits, but C has constants of at most 64 bits")
    name = _macro(register.name)
    name = name if name.startswith(f"{start}_") else f"{start}_{name}"
    bits = 64 if register.width > 32 else 32
    if register.count > 1:
        stride = register.stride or register.size(unit_bytes)
        macros = [
            (f"{name}_COUNT", str(register.count)),
            (f"{name}_STRIDE", f"{stride:#x}u"),
            (f"{name}_OFFSET(n)", f"({register.offset:#x}u + {stride:#x}u * (n))"),
        ]
    else:
        macros = [(f"{name}_OFFSET", f"{register.offset:#x}u")]
    macros.append((f"{name}_RESET", f"UINT{bits}_C({register.reset_value:#x})"))
    for part in register.fields:
        field = f"{name}_{_macro(part.name)}"
        macros.append((f"{field}_SHIFT", str(part.lsb)))
        macros.append((f"{field}_WIDTH", str(part.width)))
        macros.append((f"{field}_MASK", f"UINT{bits}_C({part.mask:#x})"))
        for number, text in sorted((part.values or {}).items()):
            macros.append((f"{field}_{_macro(text)}", f"UINT{bits}_C({number:#x})"))
    return macros


def _block(comment: str, macros: list[tuple[str, str]]) -> str:
    width = max((len(name) for name, _ in macros), default=0)
    safe = " ".join(comment.replace("*/", "* /").split())
    return "\n".join([f"/* {safe} */", *(f"#define {name:<{width}} {text}" for name, text in macros), ""])


def _check_unique(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelBug(f"names of macros must be unique, not {name} twice")
        seen.add(name)


def _macro(name: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name).upper()
