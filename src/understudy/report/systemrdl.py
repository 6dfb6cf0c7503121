"""A register map as SystemRDL 2.0 source.

SystemRDL has no words for two of our access kinds, so every field also carries the user property ``access_kind``: a
strobe is written like a write-only field, and a reserved field is a constant. Clause numbers are those of the
SystemRDL 2.0 standard.
"""

from __future__ import annotations

from understudy.core.errors import BeyondModel
from understudy.core.register import Access, Field, Register, RegisterMap

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
    """The map as one ``addrmap``; addresses are in bytes. `BeyondModel` for what SystemRDL cannot say."""
    if not registers.registers:
        raise BeyondModel(f"a SystemRDL map holds one register or more (clause 13.3); {registers.name} has none")
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
            f"SystemRDL registers are a power of two bits wide (clause 10.6.1); {register.name} has {register.width}"
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
