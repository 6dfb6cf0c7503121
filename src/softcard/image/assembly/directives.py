"""The assembler directives that compilers write for every machine."""

from __future__ import annotations

import struct
from typing import Final

from softcard.core.display import count
from softcard.core.errors import WireError
from softcard.image.assembly.assembly import MAX_BYTES, Assembly, Directive
from softcard.image.assembly.source import Statement, operands, string

_KINDS: Final = {"notype": 0, "object": 1, "function": 2, "stt_notype": 0, "stt_object": 1, "stt_func": 2,
                 "gnu_unique_object": 1, "common": 1}  # fmt: skip
_VISIBILITIES: Final = {".internal": 1, ".hidden": 2, ".protected": 3}
_NAMED: Final = (
    (".text", "ax"), (".init_array", "aw"), (".init", "ax"), (".data", "aw"), (".sdata", "aw"), (".bss", "aw"),
    (".sbss", "aw"), (".rodata", "a"), (".srodata", "a"), (".got", "aw"),
)  # fmt: skip
"""The default flags of sections by the beginning of their name, for a ``.section`` directive without flags."""
_SOLARIS: Final = {"#alloc": "a", "#write": "w", "#execinstr": "x"}
MAX_ALIGNMENT: Final = 1 << 16


def section_flags(name: str) -> tuple[str, bool]:
    """Return the usual flags of a section called `name`, and True if the section has no bytes in the file.

    The flags are letters as in the directive ``.section``."""
    flags = next((flags for known, flags in _NAMED if name == known or name.startswith(known + ".")), "")
    return flags, name.split(".")[1:2] in (["bss"], ["sbss"])


def _enter(assembly: Assembly, statement: Statement) -> None:
    words = operands(statement.rest)
    if not words:
        raise WireError(f"{statement.name} needs a name")
    name = string(words[0]).decode("utf-8", "replace") if words[0].startswith('"') else words[0]
    flags, is_empty = section_flags(name)
    if len(words) > 1 and words[1].startswith('"'):
        flags = string(words[1]).decode("ascii", "replace")
        is_empty = any(word.lstrip("@%") == "nobits" for word in words[2:3])
    elif len(words) > 1:  # the syntax of Solaris, and of LLVM for AMDGPU
        flags = "".join(_SOLARIS.get(word, "") for word in words[1:])
    stack, here = assembly.before, assembly.current.name
    assembly.enter(assembly.section(name, flags, is_empty))
    if statement.name == ".pushsection":
        assembly.before = stack
        stack.append(here)


def _standard(assembly: Assembly, statement: Statement) -> None:
    assembly.enter(assembly.section(statement.name, *section_flags(statement.name)))


def _back(assembly: Assembly, statement: Statement) -> None:
    if not assembly.before:
        raise WireError(f"{statement.name}: there is no section to go back to")
    name = assembly.before.pop()
    here = assembly.current.name
    assembly.current = assembly.sections[name]
    if statement.name == ".previous":
        assembly.before.append(here)


def _binding(number: int) -> Directive:
    def bind(assembly: Assembly, statement: Statement) -> None:
        for name in operands(statement.rest):
            assembly.attribute(name).binding = number

    return bind


def _visibility(assembly: Assembly, statement: Statement) -> None:
    for name in operands(statement.rest):
        assembly.attribute(name).visibility = _VISIBILITIES[statement.name]


def _type(assembly: Assembly, statement: Statement) -> None:
    name, _, kind = statement.rest.replace(",", " ", 1).partition(" ")
    word = kind.strip().lstrip("@%#").strip('"').lower()
    if word not in _KINDS:
        raise WireError(f"the type of {name} is {kind.strip()!r}, expected @function, @object or @notype")
    assembly.attribute(name.strip()).kind = _KINDS[word]


def _size(assembly: Assembly, statement: Statement) -> None:
    name, expression = _two(statement)
    assembly.attribute(name).size = assembly.number_of(expression, 0, MAX_BYTES, f"the size of {name}")


def _two(statement: Statement) -> tuple[str, str]:
    words = operands(statement.rest)
    if len(words) != 2:
        raise WireError(f"{statement.name} takes a name and a value")
    return words[0], words[1]


def _set(assembly: Assembly, statement: Statement) -> None:
    name, expression = _two(statement)
    if statement.name == ".equiv" and name in assembly.symbols:
        raise WireError(f"symbol {name} is defined already")
    assembly.assign(name, assembly.value(expression))


def _align(is_power: bool | None, pattern: int = 1) -> Directive:
    """Return the function that executes an alignment directive.

    The directive's operand is an exponent of two if `is_power` is True, and a number of bytes if it is False;
    if it is None, the target machine determines which of the two. The fill value has `pattern` bytes, and is
    repeated in the gap."""

    def align(assembly: Assembly, statement: Statement) -> None:
        words = operands(statement.rest)
        if not 1 <= len(words) <= 3:
            raise WireError(f"{statement.name} takes an alignment")
        number = assembly.number_of(words[0], 0, MAX_ALIGNMENT, "an alignment")
        in_powers = assembly.machine.align_is_power if is_power is None else is_power
        alignment = 1 << min(number, 17) if in_powers else max(number, 1)
        if alignment & alignment - 1 or alignment > MAX_ALIGNMENT:
            text = f"the alignment is {alignment}, expected a power of two up to {MAX_ALIGNMENT}"
            raise WireError(text).in_operand(words[0], 0)
        fill = None
        if len(words) > 1 and words[1]:
            value = assembly.number_of(words[1], -(1 << 8 * pattern - 1), (1 << 8 * pattern) - 1, "the fill value")
            fill = (value & (1 << 8 * pattern) - 1).to_bytes(pattern, "little")
        most = assembly.number_of(words[2], 0, MAX_BYTES, "a gap") if len(words) > 2 else None
        assembly.align(alignment, statement, fill, most)

    return align


def _integers(size: int) -> Directive:
    def put(assembly: Assembly, statement: Statement) -> None:
        words = operands(statement.rest)
        data = bytearray()
        for number, word in enumerate(words):
            value = assembly.value(word)
            low = -(1 << 8 * size - 1)
            if value.is_known and not low <= value.number < 1 << 8 * size:
                shown = f"{value.number:#x}"
                given = word if word.isalnum() and word[0].isdigit() else f"{word} is {shown}, which"
                raise WireError(f"{given} does not fit {count(size, 'byte')}").in_operand(word, number)
            if value.section:
                assembly.machine.absolute(assembly, assembly.current.size + len(data), value.number, size)
            data += (value.number & (1 << 8 * size) - 1).to_bytes(size, "little")
        assembly.emit(bytes(data), statement)

    return put


def _floats(form: str) -> Directive:
    def put(assembly: Assembly, statement: Statement) -> None:
        try:
            data = b"".join(struct.pack(form, float(word)) for word in operands(statement.rest))
        except (ValueError, OverflowError):
            raise WireError(f"{statement.rest!r} must be numbers that fit {struct.calcsize(form)} bytes") from None
        assembly.emit(data, statement)

    return put


def _strings(end: bytes) -> Directive:
    def put(assembly: Assembly, statement: Statement) -> None:
        assembly.emit(b"".join(string(word) + end for word in operands(statement.rest)), statement)

    return put


def _space(assembly: Assembly, statement: Statement) -> None:
    words = operands(statement.rest)
    if not 1 <= len(words) <= 2:
        raise WireError(f"{statement.name} takes a size")
    size = assembly.number_of(words[0], 0, MAX_BYTES, "a size")
    fill = assembly.number_of(words[1], -128, 255, "a byte") & 0xFF if len(words) > 1 else 0
    if assembly.current.is_empty and not fill:
        assembly.reserve(size)
    else:
        assembly.emit(bytes([fill]) * size, statement)


def _fill(assembly: Assembly, statement: Statement) -> None:
    words = [*operands(statement.rest), "1", "0"]
    count = assembly.number_of(words[0], 0, MAX_BYTES, "a count")
    size = assembly.number_of(words[1], 0, 8, "a size") if len(words) > 3 else 1
    value = assembly.value(words[2]).number if len(words) > 4 else 0
    if count * size > MAX_BYTES:
        raise WireError(f"{count} times {size} bytes are too many, expected at most {MAX_BYTES}")
    assembly.emit((value & (1 << 8 * size) - 1).to_bytes(size, "little") * count, statement)


def _org(assembly: Assembly, statement: Statement) -> None:
    place = assembly.value(statement.rest)
    base = assembly.bases.get(assembly.current.name, 0) if place.section else 0
    gap = place.number - base - assembly.current.size
    if not 0 <= gap <= MAX_BYTES:
        if place.is_known:
            raise WireError(
                f".org goes {-gap} bytes back, expected the current address or a later one"
                if gap < 0
                else f".org goes {gap} bytes forward, expected at most {MAX_BYTES}"
            )
        gap = 0  # the expression depends on a symbol that has no address yet
    assembly.emit(bytes(gap), statement)


def _leb(is_signed: bool) -> Directive:
    def put(assembly: Assembly, statement: Statement) -> None:
        data = bytearray()
        for word in operands(statement.rest):
            value = assembly.number_of(word, -(1 << 63) if is_signed else 0, (1 << 64) - 1)
            while True:
                byte, value = value & 0x7F, value >> 7
                is_last = value == 0 and (not is_signed or not byte & 0x40)
                if is_last or (is_signed and value == -1 and byte & 0x40):
                    data.append(byte)
                    break
                data.append(byte | 0x80)
        assembly.emit(bytes(data), statement)

    return put


def _common(assembly: Assembly, statement: Statement) -> None:
    words = operands(statement.rest)
    if not 2 <= len(words) <= 3:
        raise WireError(f"{statement.name} takes a name, a size and an alignment")
    here = assembly.current
    assembly.current = assembly.section(".bss", "aw", True)
    alignment = assembly.number_of(words[2], 1, MAX_ALIGNMENT, "an alignment") if len(words) > 2 else 8
    if alignment & alignment - 1:
        raise WireError(f"the alignment is {alignment}, expected a power of two")
    assembly.align(alignment, statement)
    assembly.define(words[0])
    said = assembly.attribute(words[0])
    said.size = assembly.number_of(words[1], 0, MAX_BYTES, "a size")
    said.kind = 1
    said.binding = said.binding if statement.name == ".lcomm" else max(said.binding, 1)
    assembly.reserve(said.size)
    assembly.current = here


def _nothing(assembly: Assembly, statement: Statement) -> None:
    """Ignore a directive that does not affect the bytes of a program."""


def _table() -> dict[str, Directive]:
    made: dict[str, Directive] = {}

    def put(names: str, directive: Directive) -> None:
        made.update(dict.fromkeys(names.split(), directive))

    put(".section .pushsection", _enter)
    put(".text .data .bss .rodata", _standard)
    put(".popsection .previous", _back)
    put(".globl .global", _binding(1))
    put(".weak", _binding(2))
    put(".local", _binding(0))
    put(".internal .hidden .protected", _visibility)
    put(".type", _type)
    put(".size", _size)
    put(".set .equ .equiv", _set)
    put(".p2align", _align(True))
    put(".balign", _align(False))
    put(".align", _align(None))
    put(".p2alignw", _align(True, 2))
    put(".p2alignl", _align(True, 4))
    put(".balignw", _align(False, 2))
    put(".balignl", _align(False, 4))
    put(".byte .1byte .dc.b", _integers(1))
    put(".half .hword .short .value .2byte .dc.w", _integers(2))
    put(".word .long .int .4byte .dc.l", _integers(4))
    put(".quad .dword .xword .8byte", _integers(8))
    put(".float .single", _floats("<f"))
    put(".double", _floats("<d"))
    put(".ascii", _strings(b""))
    put(".asciz .string", _strings(b"\0"))
    put(".zero .space .skip", _space)
    put(".fill", _fill)
    put(".org", _org)
    put(".uleb128", _leb(False))
    put(".sleb128", _leb(True))
    put(".comm .lcomm", _common)
    put(".file .ident .loc .addrsig .addrsig_sym .end .title .version", _nothing)
    put(
        ".cfi_sections .cfi_startproc .cfi_endproc .cfi_def_cfa .cfi_def_cfa_offset .cfi_def_cfa_register .cfi_offset "
        ".cfi_restore .cfi_remember_state .cfi_restore_state .cfi_adjust_cfa_offset .cfi_escape .cfi_undefined "
        ".cfi_same_value .cfi_rel_offset .cfi_register .cfi_return_column .cfi_personality .cfi_lsda",
        _nothing,
    )
    return made


DIRECTIVES: Final = _table()
"""The directives that work alike for all machines, by name."""
