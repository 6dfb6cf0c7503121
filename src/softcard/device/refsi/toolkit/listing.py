"""Command buffers as text, and the parser for that text.

Each line has one command: byte offset, name, fields by the names of the RefSi M1 specification, and their meaning after
a semicolon. Chunks that are not a command are listed as numbers, with the reason. For any bytes, `listing` succeeds,
and `assemble(listing(data)) == data`::

    0x0000: WRITE_REG64 REG_IDX=CMP_ENTRY_PT_FN IMM_VAL=0x10002     ; ENTRY_POINT_ADDR=0x10002
    0x0010: RUN_INSTANCES MAX_HARTS=0 NUM_INSTANCES=4 EXTRA_ARG_0=0x53000000
    0x0028: .chunk 0xc0000a00     ; header 0x00000000c0000a00: unknown opcode 10
    0x0030: FINISH
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Final

from softcard.core.errors import WireError, close_to
from softcard.device.refsi.commands import (
    CHUNK_BYTES,
    COMMANDS,
    UNIT,
    UNIT_KINDS,
    CacheFlags,
    Command,
    CopyMem64,
    LoadReg64,
    Nop,
    Opcode,
    RunInstances,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
    decode,
    decode_header,
)
from softcard.device.refsi.registers import (
    CMP,
    DMA,
    DMA_BASE,
    DMA_SIZE,
    M1_MAP,
    PERF_COUNTERS,
    PERF_COUNTERS_BASE,
    REGISTER_BYTES,
    WINDOW_MODE,
)

COMMENT_COLUMN: Final = 84
_DECIMAL: Final = frozenset({"max_harts", "num_instances", "slice_id", "count", "flags"})
_VARIABLE: Final = {"skipped": "SKIPPED", "extra_args": "EXTRA_ARG"}
"""The record fields that hold any number of chunks, and their names in the listing."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a listing: its offset, bytes, text and explanation.

    It has the command, or the error for a chunk that is not a command.
    """

    offset: int
    data: bytes
    text: str
    comment: str = ""
    command: Command | None = None
    error: WireError | None = None

    def __str__(self) -> str:
        left = f"{self.offset:#06x}: {self.text}"
        return f"{left:<{COMMENT_COLUMN}} ; {self.comment}" if self.comment else left


def listing(data: bytes) -> str:
    """Return the text of a command buffer, one line per command; any bytes are valid."""
    return "".join(f"{line}\n" for line in lines(data))


def lines(data: bytes) -> Iterator[Line]:
    """Yield the lines of a command buffer, including commands after FINISH."""
    whole = len(data) // CHUNK_BYTES * CHUNK_BYTES
    words = _words(data[:whole])
    index = 0
    while index < len(words):
        start = index
        try:
            command, index = decode(words, start)
        except WireError as error:
            index = _resume(words, start)
            yield from _raw(words, start, index, error)
        else:
            place = start * CHUNK_BYTES
            yield Line(place, data[place : index * CHUNK_BYTES], text(command), explain(command), command)
    if data[whole:]:
        rest = " ".join(f"{byte:#04x}" for byte in data[whole:])
        yield Line(
            whole, data[whole:], f".byte {rest}", f"the last {len(data) - whole} bytes are not a whole chunk of 8 bytes"
        )


def text(command: Command) -> str:
    """Return a command in the syntax of the listing."""
    parts = [command.opcode.name]
    for part in fields(command):
        value = getattr(command, part.name)
        if part.name in _VARIABLE:
            parts += [f"{_VARIABLE[part.name]}_{number}={item:#x}" for number, item in enumerate(value)]
        elif value != part.default or part.default is MISSING:
            parts.append(f"{part.name.upper()}={_value(part.name, value)}")
    return " ".join(parts)


def explain(command: Command) -> str:
    """Return the meaning of a command's fields, or ''."""
    explained = _EXPLAIN.get(type(command))
    return explained(command) if explained else ""


def describe_address(address: int) -> str:
    """Return the name of the register or memory of RefSi M1 at an address, such as ``DMACTRL`` or ``DRAM+0x10000``.

    Return '' if nothing is at that address."""
    for base, registers in ((DMA_BASE, DMA), (PERF_COUNTERS_BASE, PERF_COUNTERS)):
        for register, index, offset in registers.elements():
            if base + offset * REGISTER_BYTES == address:
                return register.element(index)
    for entry in M1_MAP:
        if entry.base <= address < entry.end:
            return f"{entry.kind.name}+{address - entry.base:#x}"
    return ""


def register_name(number: int) -> str:
    """Return a CMP register's name by its ID, such as ``CMP_REG_WINDOW_MODE1``; the number if unknown."""
    try:
        register, index = CMP.find(number, "w")
    except WireError:
        return str(number)
    return register.element(index)


# ---- text back to bytes ------------------------------------------------------------------------------------------


def assemble(source: str) -> bytes:
    """Return the bytes of a listing.

    Offsets before a colon are optional and ignored; comments start with a semicolon. Raise `WireError` with the line
    number for a line that is not valid.
    """
    return b"".join(data for _, data in assembled_lines(source))


def assembled_lines(source: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each line of a listing that has a command or data, with its bytes; see `assemble`."""
    for number, line in enumerate(source.splitlines(), 1):
        words = line.partition(";")[0].split()
        if words and words[0].endswith(":"):
            words = words[1:]
        if not words:
            continue
        try:
            yield number, _assemble(words[0], words[1:])
        except WireError as error:
            raise error.at("line", number, words[0]) from None


def _assemble(name: str, operands: list[str]) -> bytes:
    if name in _DIRECTIVES:
        size = _DIRECTIVES[name]
        return b"".join(_number(name, operand, 8 * size).to_bytes(size, "little") for operand in operands)
    if name not in Opcode.__members__:
        known = ", ".join((*Opcode.__members__, *_DIRECTIVES))
        raise WireError(f"unknown command {name!r}, expected one of {known}{close_to(name, Opcode.__members__)}")
    kind = COMMANDS[Opcode[name]]
    given: dict[str, int] = {}
    for operand in operands:
        key, equals, value = operand.partition("=")
        if not equals:
            raise WireError(f"{name}: {operand!r} is not a field, expected NAME=VALUE").in_operand(operand)
        if key in given:
            raise WireError(f"{name}: field {key} is given twice").in_operand(operand)
        try:
            given[key] = _register(value) if key == "REG_IDX" else _number(key, value, 64)
        except WireError as error:
            raise error.in_operand(value).in_operand(operand) from None
    return b"".join(word.to_bytes(CHUNK_BYTES, "little") for word in _build(kind, given).encode())


def _build(kind: type[Command], given: dict[str, int]) -> Command:
    values: dict[str, int | tuple[int, ...]] = {}
    name = kind.opcode.name
    for part in fields(kind):
        if part.name in _VARIABLE:
            items: list[int] = []
            while (key := f"{_VARIABLE[part.name]}_{len(items)}") in given:
                items.append(given.pop(key))
            values[part.name] = tuple(items)
        elif part.name.upper() in given:
            values[part.name] = given.pop(part.name.upper())
        elif part.default is MISSING:
            raise WireError(f"{name}: field {part.name.upper()} is missing")
    if given:
        known = ", ".join(part.name.upper() for part in fields(kind))
        raise WireError(f"{name} has no field {', '.join(given)}, expected {known}").in_operand(next(iter(given)))
    return kind(**values)


def _register(value: str) -> int:
    return CMP.offset_of(value) if value[:1].isalpha() else _number("REG_IDX", value, 32)


def _number(what: str, value: str, bits: int) -> int:
    try:
        number = int(value, 0)
    except ValueError:
        raise WireError(f"{what}: {value!r} is not a number, expected decimal or 0x hex") from None
    if not 0 <= number < 1 << bits:
        raise WireError(f"{what}: {value} does not fit {bits} bits")
    return number


_DIRECTIVES: Final = {".chunk": 8, ".byte": 1}

# ---- the meaning of fields ---------------------------------------------------------------------------------------


def _value(name: str, value: int) -> str:
    if name == "reg_idx":
        return register_name(value)
    return str(value) if name in _DECIMAL else f"{value:#x}"


def _explain_write(command: WriteReg64) -> str:
    try:
        register, index = CMP.find(command.reg_idx, "w")
    except WireError as error:
        return error.message
    if len(register.fields) == 1:
        return describe_address(command.imm_val)  # no fields to decode, but most of these hold addresses
    explained = register.explain(command.imm_val, index).partition(": ")[2]
    if register is WINDOW_MODE:
        explained += f", a window of {WINDOW_MODE.get(command.imm_val, 'SIZE') + 1:#x} bytes"
    return explained


def _explain_load(command: LoadReg64) -> str:
    return f"from {place}" if (place := describe_address(command.src_addr)) else ""


def _explain_store(command: StoreReg64) -> str:
    return f"to {place}" if (place := describe_address(command.dst_addr)) else ""


def _explain_imm(command: StoreImm64) -> str:
    offset, rest = divmod(command.dst_addr_lo - DMA_BASE, REGISTER_BYTES)
    if not rest and 0 <= offset < DMA_SIZE // REGISTER_BYTES:
        try:
            register, index = DMA.find(offset, "w")
        except WireError as error:
            return error.message
        name, value = register.element(index), describe_address(command.imm_val)
        if len(register.fields) > 1:
            return register.explain(command.imm_val, index)
        return f"{name} = {value}" if value else name
    return f"to {place}" if (place := describe_address(command.dst_addr_lo)) else ""


def _explain_copy(command: CopyMem64) -> str:
    ends = [f"{word} {place}" for word, place in _ends(command) if place]
    return ", ".join([f"{command.count * CHUNK_BYTES:#x} bytes", *ends, f"as {unit_name(command.unit)}"])


def _ends(command: CopyMem64) -> tuple[tuple[str, str], ...]:
    return ("from", describe_address(command.src_addr)), ("to", describe_address(command.dst_addr))


def unit_name(unit: int) -> str:
    """Return the name of the unit in a UNIT chunk, such as ``ACC_HART 1``."""
    parts = UNIT.decode(unit)
    kind = UNIT_KINDS.get(parts["KIND"], f"kind {parts['KIND']}")
    return f"{kind} {parts['INDEX']}" if parts["INDEX"] or parts["KIND"] >= 3 else kind


def _explain_sync(command: SyncCache) -> str:
    return " | ".join(flag.name or "" for flag in CacheFlags if flag & command.flags) or "no cache"


def _explain_run(command: RunInstances) -> str:
    return "on all harts" if not command.max_harts else ""


_EXPLAIN: Final[dict[type[Command], Callable[..., str]]] = {
    WriteReg64: _explain_write,
    LoadReg64: _explain_load,
    StoreReg64: _explain_store,
    StoreImm64: _explain_imm,
    CopyMem64: _explain_copy,
    SyncCache: _explain_sync,
    RunInstances: _explain_run,
}

# ---- chunks that are not a command ---------------------------------------------------------------------------------


def _resume(words: Sequence[int] | memoryview[int], index: int) -> int:
    """Return the index of the chunk at which decoding continues after the undecodable chunk `index`.

    If the chunk is a valid header, its payload is skipped as well."""
    try:
        header = decode_header(words[index], lenient=True)
    except WireError:
        return index + 1
    return min(index + 1 + header.chunks, len(words))


def _raw(words: Sequence[int] | memoryview[int], start: int, end: int, error: WireError) -> Iterator[Line]:
    for index in range(start, end):
        data = words[index].to_bytes(CHUNK_BYTES, "little")
        first = index == start
        comment = error.message + _lax_reading(words, start) if first else "its payload"
        yield Line(index * CHUNK_BYTES, data, f".chunk {words[index]:#x}", comment, error=error if first else None)


def _lax_reading(words: Sequence[int] | memoryview[int], index: int) -> str:
    """Return a comment that states how the reference driver interprets undecodable chunk `index`.

    Return '' if the driver does not accept the chunk, or skips it."""
    try:
        command, _ = decode(words, index, lenient=True)
    except WireError:
        return ""
    return f" (the reference driver reads {text(command)})" if not isinstance(command, Nop) else ""


def _words(data: bytes) -> tuple[int, ...]:
    return tuple(
        int.from_bytes(data[place : place + CHUNK_BYTES], "little") for place in range(0, len(data), CHUNK_BYTES)
    )
