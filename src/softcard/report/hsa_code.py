"""The content of an AMD HSA code object as data: headers, kernels, arguments, registers by name, disassembly.

`describe` returns a document of numbers, strings, lists and dicts, which JSON can represent; `lines` formats
it as text. Addresses are relative to the first byte of the loaded image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from softcard.core.errors import WireError
from softcard.core.record import Record
from softcard.image.elf.layout import ET_DYN, ET_EXEC, ET_REL, PF_W, PF_X
from softcard.image.elf.reader import Symbol
from softcard.image.hsa import targets
from softcard.image.hsa.code_object import CodeObject, Kernel, read_code_object
from softcard.image.hsa.elf import HsaElf
from softcard.image.hsa.loader import Part
from softcard.image.hsa.metadata import Argument, KernelMetadata
from softcard.image.hsa.notes import NoteFacts
from softcard.image.hsa.records import (
    USER_SGPRS,
    CodeProperties,
    DescriptorProperties,
    KernelCode,
    KernelDescriptor,
    Rsrc1,
    Rsrc2,
)
from softcard.isa.gcn.target import TARGETS, Target, target

if TYPE_CHECKING:
    from softcard.isa.gcn.asm.listing import Line


# ---- text form -------------------------------------------------------------------------------------------------------
# The text form of a code object's content that `report.hsa_code` returns.


ROUND_MODES: Final = ("NEAR_EVEN", "PLUS_INFINITY", "MINUS_INFINITY", "ZERO")
DENORM_MODES: Final = ("FLUSH_SRC_DST", "FLUSH_DST", "FLUSH_SRC", "FLUSH_NONE")
OS_ABIS: Final = {0: "none", 64: "HSA", 65: "PAL", 66: "mesa3d"}
SEGMENT_TYPES: Final = {1: "LOAD", 2: "DYNAMIC", 4: "NOTE", 6: "PHDR", 0x6474E551: "GNU_STACK", 0x6474E552: "GNU_RELRO"}
LDS_GRANULE: Final = 512


def _power(value: int) -> str:
    return f"{1 << value if value < 64 else value} bytes"


Meanings = Mapping[str, Callable[[int], str]]
MEANINGS: Final[Meanings] = {
    "granulated_workitem_vgpr_count": lambda n: f"{4 * (n + 1)} VGPRs",
    "granulated_wavefront_sgpr_count": lambda n: f"{8 * (n + 1)} SGPRs",
    "float_mode_round_32": lambda n: ROUND_MODES[n],
    "float_mode_round_16_64": lambda n: ROUND_MODES[n],
    "float_mode_denorm_32": lambda n: DENORM_MODES[n],
    "float_mode_denorm_16_64": lambda n: DENORM_MODES[n],
    "enable_vgpr_workitem_id": lambda n: ("X", "X, Y", "X, Y, Z", "undefined")[n],
    "granulated_lds_size": lambda n: f"{n * LDS_GRANULE} bytes",
    "private_element_size": lambda n: f"{2 << n} bytes",
    "amd_machine_kind": lambda n: {0: "UNDEFINED", 1: "AMDGPU"}.get(n, "unknown"),
    "kernarg_segment_alignment": _power,
    "group_segment_alignment": _power,
    "private_segment_alignment": _power,
    "wavefront_size": lambda n: f"{1 << n if n < 16 else n} work-items",
    "call_convention": lambda n: "no indirect functions" if n == -1 else "",
}
"""Functions that return the meaning of a field's value as text, by the name of the field."""
ALWAYS: Final = frozenset({
    "granulated_workitem_vgpr_count", "granulated_wavefront_sgpr_count", "float_mode_round_32",
    "float_mode_round_16_64", "float_mode_denorm_32", "float_mode_denorm_16_64", "user_sgpr_count",
    "enable_vgpr_workitem_id",
})  # fmt: skip
"""The fields of kernel headers that are shown even if they are 0."""
PLACES: Final = {
    slot.name: f"[{slot.spec.high}:{slot.spec.low}]" if slot.spec.high > slot.spec.low else f"[{slot.spec.low}]"
    for record in (Rsrc1, Rsrc2, CodeProperties, DescriptorProperties)
    for slot in record.slots
}


def lines(document: Document, zeros: bool = False) -> Iterator[str]:
    """Yield the text lines of a document that `describe` returned.

    Fields that are 0 are left out unless 0 has a special meaning, or `zeros` is True.
    """
    yield from _head(document)
    for kernel in document["kernels"]:
        yield ""
        yield from _kernel(kernel, zeros)
    yield from _table("Symbols", document["symbols"], (
        ("address", _address), ("bytes", str), ("kind", str), ("binding", str), ("visibility", str), ("name", str),
    ))  # fmt: skip
    yield from _table("Relocations", document["relocations"], (
        ("offset", hex), ("type", str), ("addend", str), ("section", str), ("symbol", str),
    ))  # fmt: skip
    if document.get("code"):
        yield ""
        yield "Disassembly"
        for chunk in document["code"]:
            yield from _chunk(chunk)


def _head(document: Document) -> Iterator[str]:
    elf = document["elf"]
    features = ", ".join(f"{name} {setting}" for name, setting in document["features"].items())
    yield f"{document['format']} {document['version']} for {document['target'] or 'an unnamed processor'}" + (
        f" ({features})" if features else ""
    )
    abi = OS_ABIS.get(elf["os_abi"], "unknown")
    kind = f"ELF {elf['type']}, OS/ABI {elf['os_abi']} ({abi}), ABI version {elf['abi_version']}"
    yield f"{kind}, e_flags {elf['flags']:#x}"
    for name, value in document["notes"].items():
        yield f"note {name}: {value}"
    for name in document["missing"]:
        yield f"undefined symbol {name}: pass its address when the code object is loaded"
    for text in document["warnings"]:
        yield f"warning: {text}"
    yield from _table("Segments", elf["segments"], (
        ("type", lambda n: SEGMENT_TYPES.get(n, hex(n))), ("flags", str), ("offset", hex), ("address", hex),
        ("file_bytes", hex), ("memory_bytes", hex),
    ))  # fmt: skip
    yield from _table("Sections", elf["sections"], (
        ("offset", hex), ("address", hex), ("bytes", hex), ("name", str),
    ))  # fmt: skip


def _kernel(kernel: Document, zeros: bool) -> Iterator[str]:
    yield f"Kernel {kernel['name']}"
    yield f"  {kernel['header']['type']} at {kernel['address']:#x}, entry at {kernel['entry']:#x}"
    accs = f" and {kernel['accumulation_vgprs']} accumulation VGPRs" if kernel["accumulation_vgprs"] else ""
    stack = ", dynamic call stack" if kernel["dynamic_stack"] else ""
    yield (
        f"  {kernel['vgprs']} VGPRs{accs}, {kernel['sgprs']} SGPRs, group segment {kernel['group_bytes']} bytes, "
        f"private segment {kernel['private_bytes']} bytes{stack}, kernarg segment {kernel['kernarg_bytes']} bytes"
    )
    yield "  Initial registers"
    for each in kernel["registers"]:
        yield f"    {each['registers']:<8} {each['holds']}"
    if kernel["arguments"] is not None:
        columns = (
            ("offset", hex), ("bytes", str), ("kind", str), ("type_name", str), ("address_space", str), ("access", str),
            ("name", str),
        )  # fmt: skip
        yield from _table("Arguments", kernel["arguments"], columns, "  ")
    else:
        yield "  No metadata: the arguments are not described"
    if kernel["metadata"]:
        shown = {name: value for name, value in kernel["metadata"].items() if name not in ("name", "symbol")}
        yield "  Metadata"
        for name, value in shown.items():
            yield f"    {name} = {value}"
    yield "  Header"
    count = f"{kernel['vgprs'] + kernel['accumulation_vgprs']} VGPRs"
    yield from _fields(kernel["header"], zeros, "    ", {**MEANINGS, "granulated_workitem_vgpr_count": lambda _: count})


def _fields(fields: Document, zeros: bool, indent: str, meanings: Meanings = MEANINGS) -> Iterator[str]:
    for name, value in fields.items():
        if name in ("type", "value"):
            continue
        if isinstance(value, dict):
            if "value" in value:
                yield f"{indent}{name} = {value['value']:#010x}"
                yield from _fields(value, zeros, indent + "  ", meanings)
            elif zeros or any(_is_set(each) for each in value.values()):
                yield f"{indent}{name}"
                yield from _fields(value, zeros, indent + "  ", meanings)
            continue
        if not zeros and not _is_set(value) and name not in ALWAYS:
            continue
        place = PLACES.get(name, "")
        meaning = meanings[name](value) if name in meanings else ""
        yield f"{indent}{f'{place:<8}' if place else ''}{name} = {_shown(value)}" + (f" ({meaning})" if meaning else "")


def _is_set(value: Any) -> bool:
    return any(value) if isinstance(value, list) else bool(value)


def _shown(value: Any) -> str:
    if isinstance(value, int) and value > 9:
        return f"{value} ({value:#x})" if value > 255 else str(value)
    return str(value)


def _address(value: int | None) -> str:
    return "-" if value is None else hex(value)


def _table(
    title: str, rows: Sequence[Document], columns: Sequence[tuple[str, Callable[[Any], str]]], indent: str = ""
) -> Iterator[str]:
    """Yield the lines of a table with a title and aligned columns; columns without content are left out.

    Each column is a heading and a function that returns the cell of a row.
    """
    if not rows:
        return
    filled = [(name, show) for name, show in columns if any(row.get(name) not in ("", None) for row in rows)]
    cells = [[show(row[name]) if name in row else "" for name, show in filled] for row in rows]
    heads = [name.replace("_", " ") for name, _ in filled]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    yield from ("", f"{title}") if not indent else (f"{indent}{title}",)
    for row in (heads, *cells):
        yield (indent + "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))).rstrip()


def _chunk(chunk: Document) -> Iterator[str]:
    yield ""
    for name in chunk["names"]:
        yield f"{name}:"
    for line in chunk["lines"]:
        if "label" in line:
            yield f"{line['label']}:"
        code = bytes.fromhex(line["code"])
        words = " ".join(f"{int.from_bytes(code[at : at + 4], 'little'):08x}" for at in range(0, len(code), 4))
        yield f"    {line['text']:<56}// {line['pc']:#x}: {words}"


# ---- content ---------------------------------------------------------------------------------------------------------


__all__ = ["describe", "describe_kernel", "disassembly", "lines", "record_fields", "register_layout"]

Document = dict[str, Any]

FILE_TYPES: Final = {ET_REL: "ET_REL", ET_EXEC: "ET_EXEC", ET_DYN: "ET_DYN"}
SYMBOL_KINDS: Final = {0: "none", 1: "object", 2: "function", 3: "section", 4: "file", 10: "kernel"}
BINDINGS: Final = {0: "local", 1: "global", 2: "weak"}
VISIBILITIES: Final = {0: "default", 1: "internal", 2: "hidden", 3: "protected"}
SYSTEM_SGPRS: Final = (
    ("enable_sgpr_workgroup_id_x", "work-group id x"),
    ("enable_sgpr_workgroup_id_y", "work-group id y"),
    ("enable_sgpr_workgroup_id_z", "work-group id z"),
    ("enable_sgpr_workgroup_info", "work-group info"),
    ("enable_sgpr_private_segment_wave_byte_offset", "private segment wave byte offset"),
)
WAVE_OFFSET: Final = SYSTEM_SGPRS[-1][0]
"""The name of the flag for the wave offset of private memory.

From gfx942 on it enables private memory, but reserves no register.
"""
WORD: Final = 4
FILLING: Final = (bytes(4), bytes.fromhex("000080bf"), bytes.fromhex("00009fbf"))
"""The words with which assemblers and linkers fill gaps: zeros, s_nop 0, s_code_end."""


def describe(data: bytes, *, kernel: str = "", code: bool = True, target: str = "") -> dict[str, object]:
    """Return the content of a code object as data, or only that of one `kernel`; with `code`, also the disassembly.

    `target` overrides the processor that the file names; its features select an entry of an offload bundle.
    `WireError` is raised if the file is not a code object.
    """
    found = read_code_object(data, target)
    target = targets.of_target_id(target)[0] or target
    kernels = [found.kernel(kernel)] if kernel else list(found.kernels.values())
    processor = targets.read_as(target or found.target)
    if target and processor not in TARGETS and target not in targets.MACHINES.values():
        raise WireError(f"unknown processor {target!r}, expected one of {', '.join(TARGETS)}")
    document: Document = {
        "format": "AMD HSA code object",
        "version": found.version,
        "target": found.target,
        "features": dict(found.features),
        "elf": _elf(found.elf),
        "notes": _notes(found.notes),
        "kernels": [describe_kernel(each) for each in kernels],
        "symbols": [_symbol(found, each) for each in _symbols(found.elf)],
        "relocations": _relocations(found),
        "missing": list(found.missing),
        "warnings": list(found.warnings),
    }
    if code:
        document["code"], reason = _code(found, kernels if kernel else None, processor)
        if reason:
            document["warnings"].append(reason)
    return document


# ---- the file ------------------------------------------------------------------------------------------------------


def _elf(elf: HsaElf) -> Document:
    header = elf.header
    return {
        "type": FILE_TYPES[header.type],
        "os_abi": header.os_abi,
        "abi_version": header.abi_version,
        "flags": header.flags,
        "segments": [
            {
                "type": each.type,
                "offset": each.offset,
                "address": each.vaddr,
                "file_bytes": each.filesz,
                "memory_bytes": each.memsz,
                "flags": "".join(("r" if each.flags & 4 else "-", "w" if each.flags & PF_W else "-",
                                  "x" if each.flags & PF_X else "-")),
            }
            for each in elf.segments
        ],
        "sections": [
            {
                "name": each.name,
                "type": each.header.type,
                "offset": each.header.offset,
                "address": each.header.addr,
                "bytes": each.header.size,
            }
            for each in elf.sections
            if each.header.type
        ],
    }  # fmt: skip


def _notes(notes: NoteFacts) -> Document:
    found: Document = {}
    if notes.version:
        found["code_object_version"] = ".".join(map(str, notes.version))
    if notes.isa_version:
        found["isa_version"] = ".".join(map(str, notes.isa_version))
    for name in ("isa_name", "producer", "producer_options"):
        if getattr(notes, name):
            found[name] = getattr(notes, name)
    if notes.hsail:
        found["hsail"] = record_fields(notes.hsail)
    for each in notes.msgpack:
        found |= {name: each[name] for name in ("amdhsa.target", "amdhsa.version") if name in each}
    return found


def _symbols(elf: HsaElf) -> list[Symbol]:
    """Return the named symbols of .symtab and .dynsym; a symbol in both tables is returned once."""
    named = [each for each in (*elf.symbols, *elf.dynamic_symbols) if each.name]
    return list({(each.name, each.value, each.section): each for each in named}.values())


def _symbol(code: CodeObject, symbol: Symbol) -> Document:
    return {
        "name": symbol.name,
        "address": code.layout.place(symbol),
        "bytes": symbol.size,
        "kind": SYMBOL_KINDS.get(symbol.kind, str(symbol.kind)),
        "binding": BINDINGS.get(symbol.binding, str(symbol.binding)),
        "visibility": VISIBILITIES[symbol.visibility],
    }


def _relocations(code: CodeObject) -> list[Document]:
    kinds, sections = code.layout.kinds, code.elf.sections
    return [
        {
            "type": kinds[each.type].name if each.type in kinds else str(each.type),
            "section": sections[each.section].name if each.section < len(sections) else "",
            "offset": each.offset,
            "symbol": each.symbol.name,
            "addend": each.addend,
        }
        for each in code.elf.relocations
    ]


# ---- kernels -------------------------------------------------------------------------------------------------------


def describe_kernel(kernel: Kernel) -> Document:
    """Return the content of a kernel as data: header fields, initial registers, arguments and metadata."""
    header = record_fields(kernel.header)
    return {
        "name": kernel.name,
        "symbol": kernel.symbol.name,
        "address": kernel.address,
        "entry": kernel.entry,
        "group_bytes": kernel.group_bytes,
        "private_bytes": kernel.private_bytes,
        "kernarg_bytes": kernel.kernarg_bytes,
        "dynamic_stack": kernel.uses_dynamic_stack,
        "vgprs": kernel.vgprs,
        "accumulation_vgprs": kernel.accs,
        "sgprs": kernel.header.compute_pgm_rsrc1.sgprs,
        "header": {"type": "amd_kernel_code_t" if isinstance(kernel.header, KernelCode) else "kernel descriptor"}
        | header,
        "registers": _initial_registers(kernel),
        "arguments": [_argument(each) for each in kernel.metadata.arguments] if kernel.metadata else None,
        "metadata": _metadata(kernel.metadata) if kernel.metadata else None,
    }


def record_fields(record: Record) -> Document:
    """Return the fields of a record by name, with nested records as dicts.

    Reserved fields are included only if they are not 0.
    """
    found: Document = {}
    odd = record.reserved_set()
    for slot in record.slots:
        if slot.spec.is_reserved and slot not in odd:
            continue
        value = getattr(record, slot.name)
        if isinstance(value, Record):
            value = (
                {"value": int.from_bytes(value.pack(), "little")} | record_fields(value)
                if _is_word(value)
                else (record_fields(value))
            )
        elif isinstance(value, bytes):
            value = value.hex()
        elif isinstance(value, tuple):
            value = list(value)
        found[slot.name] = value
    return found


def _is_word(record: Record) -> bool:
    """Return True if a record consists of the bit fields of one word, like a register."""
    return record.size_bytes <= 8 and all(slot.spec.kind == "bits" for slot in record.slots)


def _initial_registers(kernel: Kernel) -> list[Document]:
    """Return the registers that are initialised when a wave of the kernel starts."""
    header = kernel.header
    preload = 0, 0
    if isinstance(header, KernelDescriptor):
        preload = header.kernarg_preload_offset, header.kernarg_preload_length
    return register_layout(header.kernel_code_properties, header.compute_pgm_rsrc2, kernel.target, preload)


def register_layout(
    properties: Record, rsrc2: Rsrc2, target: Target | None = None, preload: tuple[int, int] = (0, 0)
) -> list[Document]:
    """Return the initial registers of a wave: user SGPRs in the order of the kernel ABI, system SGPRs, VGPRs.

    `preload` describes the part of the kernarg segment that user SGPRs hold: its first dword, and its number of dwords.
    """
    found = []
    at = 0
    for name, count in USER_SGPRS:
        if getattr(properties, name, 0):
            what = name.removeprefix("enable_sgpr_").replace("_", " ")
            found.append({"registers": _range("s", at, count), "holds": what})
            at += count
    first, length = preload
    if length:
        what = f"arguments, bytes {4 * first} to {4 * (first + length) - 1}"
        found.append({"registers": _range("s", at, length), "holds": what})
    at = rsrc2.user_sgpr_count
    is_architected = target is not None and target.has_architected_scratch
    for name, what in SYSTEM_SGPRS:
        if getattr(rsrc2, name) and not (is_architected and name == WAVE_OFFSET):
            found.append({"registers": _range("s", at, 1), "holds": what})
            at += 1
    if is_architected and getattr(rsrc2, WAVE_OFFSET):
        found.append({"registers": "flat_scratch", "holds": "address of the wave's private memory"})
    letters = "xyz"[: min(rsrc2.enable_vgpr_workitem_id, 2) + 1]
    if target is not None and target.has_packed_ids:
        what = ", ".join(f"{letter} in bits {10 * n + 9}:{10 * n}" for n, letter in enumerate(letters))
        return [*found, {"registers": "v0", "holds": f"work-item id {what}"}]
    for number, letter in enumerate(letters):
        found.append({"registers": _range("v", number, 1), "holds": f"work-item id {letter}"})
    return found


def _range(kind: str, first: int, count: int) -> str:
    return f"{kind}{first}" if count == 1 else f"{kind}[{first}:{first + count - 1}]"


def _argument(argument: Argument) -> Document:
    found: Document = {
        "name": argument.name,
        "offset": argument.offset,
        "bytes": argument.size,
        "kind": argument.kind,
    }
    for name in ("type_name", "address_space", "access", "pointee_align"):
        if getattr(argument, name):
            found[name] = getattr(argument, name)
    return found


def _metadata(metadata: KernelMetadata) -> Document:
    found = {each.name: getattr(metadata, each.name) for each in fields(metadata) if each.name != "arguments"}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items() if value}


# ---- code ----------------------------------------------------------------------------------------------------------


def _code(code: CodeObject, only: list[Kernel] | None, processor: str) -> tuple[list[Document], str]:
    """Return the disassembly of the executable code, and the reason if there is none.

    If the code can be disassembled, the reason is ""; else the disassembly is an empty list. If `only` is not
    None, only the code of these kernels is disassembled."""
    if processor not in TARGETS:
        known = f"expected one of {', '.join(TARGETS)}"
        return (
            [],
            f"no disassembly: {f'{processor} is not modelled' if processor else 'the processor is not known'}, {known}",
        )
    data = bytes(code.load(0, dict.fromkeys(code.missing, 0)).data)
    chunks = [chunk for part in code.layout.parts if part.executable for chunk in _chunks(code, part)]
    if only is not None:
        entries = {kernel.entry for kernel in only}
        chunks = [chunk for chunk in chunks if chunk[0] in entries]
    labels = code.labels
    found = [disassembly(processor, data[start:stop], start, _names(code, start), labels) for start, stop in chunks]
    return [chunk for chunk in found if chunk["lines"]], ""


def _names(code: CodeObject, place: int) -> list[str]:
    """Return the names of the kernels and symbols at the address `place`."""
    kernels = [kernel.name for kernel in code.kernels.values() if kernel.entry == place]
    return list(dict.fromkeys([*kernels, *(name for name, at in code.places.items() if at == place)]))


def _chunks(code: CodeObject, part: Part) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) ranges of code in an executable part.

    The ranges lie between kernel headers, and are split at kernels and symbols, but not at labels.
    """
    end = part.address + len(part.data)
    headers = {
        kernel.address: kernel.address + kernel.header.size_bytes
        for kernel in code.kernels.values()
        if part.address <= kernel.address < end
    }
    points = {part.address, *headers, *headers.values(), *(kernel.entry for kernel in code.kernels.values())}
    points |= set(code.places.values()) - code.labels.keys()
    inside = sorted(point for point in points if part.address <= point < end and point % WORD == 0)
    for start, stop in zip(inside, [*inside[1:], end], strict=True):
        if not any(first <= start < last for first, last in headers.items()):
            yield start, stop


def disassembly(
    processor: str, data: bytes, address: int, names: list[str], labels: Mapping[int, str] | None = None
) -> Document:
    """Return the disassembly of the code `data` at `address` as data, without the padding at the end of the code.

    `names` are the names of that address, and `labels` those of addresses within the code."""
    used = len(data) & -WORD
    while used and data[used - WORD : used] in FILLING:
        used -= WORD
    from softcard.isa.gcn.asm.listing import listing  # here, since it imports the whole instruction set

    return {
        "address": address,
        "names": names,
        "bytes": used,
        "lines": [_line(each) for each in listing(target(processor), data[:used], address, labels)],
    }


def _line(line: Line) -> Document:
    found: Document = {"pc": line.pc, "code": line.code.hex(), "text": line.shown}
    if line.label:
        found["label"] = line.label
    if line.refusal is not None:
        found["refusal"] = str(line.refusal)
    return found
