"""A register map as a C header: offsets, masks, shifts, reset values and named values, as macros."""

from __future__ import annotations

from understudy.core.errors import BeyondModel, ModelBug
from understudy.core.register import Register, RegisterMap


def to_c_header(registers: RegisterMap, prefix: str | None = None) -> str:
    """The map as a header whose macros begin with `prefix` (the map's name unless given) in upper case, but only once
    where the register's name begins with it too.

    Offsets count the map's address unit, whose size is ``PREFIX_UNIT_BYTES``. An array has ``_COUNT``, ``_STRIDE`` and
    an ``_OFFSET(n)`` with an argument. Masks are in place. `BeyondModel` for registers wider than 64 bits;
    `ModelBug` where two macros would have one name.
    """
    start = _macro(registers.name if prefix is None else prefix)
    macros = [(f"{start}_UNIT_BYTES", f"{registers.unit_bytes}")]
    blocks = [_block(registers.doc or f"Registers of {registers.name}", macros)]
    for register in registers:
        own = _register(start, register, registers.unit_bytes)
        macros += own
        blocks.append(_block(f"{register.name}: {register.doc}" if register.doc else register.name, own))
    _check_unique([name.partition("(")[0] for name, _ in macros])
    guard = f"{start}_REGISTERS_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
    return "\n".join([*lines, "\n".join(blocks), f"#endif /* {guard} */", ""])


def _register(start: str, register: Register, unit_bytes: int) -> list[tuple[str, str]]:
    """Names and texts of one register's macros."""
    if register.width > 64:
        raise BeyondModel(f"C has no constants of {register.width} bits, which {register.name} would need")
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
