"""What stands in an AMD HSA code object, as data: headers, kernels, arguments, registers by name, disassembly.

`describe` gives numbers, strings, lists and dicts only, so that it can become JSON; `lines` is its text.
Addresses count from the first byte of the loaded image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from understudy.core.errors import WireError
from understudy.core.record import Record
from understudy.image.elf.layout import ET_DYN, ET_EXEC, ET_REL, PF_W, PF_X
from understudy.image.elf.reader import Symbol
from understudy.image.hsa import targets
from understudy.image.hsa.code_object import CodeObject, Kernel, read_code_object
from understudy.image.hsa.elf import HsaElf
from understudy.image.hsa.loader import Part
from understudy.image.hsa.metadata import Argument, KernelMetadata
from understudy.image.hsa.notes import NoteFacts
from understudy.image.hsa.records import USER_SGPRS, KernelCode, Rsrc2
from understudy.isa.gcn.target import TARGETS, target
from understudy.report.hsa_text import lines

if TYPE_CHECKING:
    from understudy.isa.gcn.asm.listing import Line

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
WORD: Final = 4
FILLING: Final = (bytes(4), bytes.fromhex("000080bf"), bytes.fromhex("00009fbf"))
"""What assemblers and linkers fill gaps with: zeros, s_nop 0, s_code_end."""


def describe(data: bytes, *, kernel: str = "", code: bool = True, target: str = "") -> Document:
    """Everything that a code object says. `kernel` restricts to one, `code` adds the disassembly.

    `target` is taken for the processor instead of what the file says. `WireError` where the file is no code object.
    """
    found = read_code_object(data, target)
    kernels = [found.kernel(kernel)] if kernel else list(found.kernels.values())
    processor = targets.read_as(target or found.target)
    if target and processor not in TARGETS and target not in targets.MACHINES.values():
        raise WireError(f"no processor {target!r}: there are {', '.join(TARGETS)}")
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
    """Named symbols of both tables, each once."""
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
    """One kernel: its header with all registers, what waves start with, arguments and metadata."""
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
        "vgprs": kernel.header.compute_pgm_rsrc1.vgprs,
        "sgprs": kernel.header.compute_pgm_rsrc1.sgprs,
        "header": {"type": "amd_kernel_code_t" if isinstance(kernel.header, KernelCode) else "kernel descriptor"}
        | header,
        "registers": register_layout(kernel.header.kernel_code_properties, kernel.header.compute_pgm_rsrc2),
        "arguments": [_argument(each) for each in kernel.metadata.arguments] if kernel.metadata else None,
        "metadata": _metadata(kernel.metadata) if kernel.metadata else None,
    }


def record_fields(record: Record) -> Document:
    """The fields of a record by name, nested ones as dicts; reserved ones only where they are not 0."""
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
    """Whether a record is a register: bit fields of one word."""
    return record.size_bytes <= 8 and all(slot.spec.kind == "bits" for slot in record.slots)


def register_layout(properties: Record, rsrc2: Rsrc2) -> list[Document]:
    """What the first registers of a wave hold: user SGPRs in the document's order, then system SGPRs, then VGPRs."""
    found = []
    at = 0
    for name, count in USER_SGPRS:
        if getattr(properties, name, 0):
            what = name.removeprefix("enable_sgpr_").replace("_", " ")
            found.append({"registers": _range("s", at, count), "holds": what})
            at += count
    at = rsrc2.user_sgpr_count
    for name, what in SYSTEM_SGPRS:
        if getattr(rsrc2, name):
            found.append({"registers": _range("s", at, 1), "holds": what})
            at += 1
    for number, letter in enumerate("xyz"[: min(rsrc2.enable_vgpr_workitem_id, 2) + 1]):
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
    """Disassembly of the parts that are executable, and why there is none."""
    if processor not in TARGETS:
        known = f"there are {', '.join(TARGETS)}"
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
    """What begins at a place: kernels' entries, and symbols."""
    kernels = [kernel.name for kernel in code.kernels.values() if kernel.entry == place]
    return list(dict.fromkeys([*kernels, *(name for name, at in code.places.items() if at == place)]))


def _chunks(code: CodeObject, part: Part) -> Iterator[tuple[int, int]]:
    """An executable part between headers, split where kernels, functions and other symbols begin that are no labels."""
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
    """The instructions of one stretch of code; words at its end that only fill it are left out."""
    used = len(data) & -WORD
    while used and data[used - WORD : used] in FILLING:
        used -= WORD
    from understudy.isa.gcn.asm.listing import listing  # all of the instruction set goes with it

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
