"""The content of an AMD OpenCL 2.0 program as data: container, kernels, arguments, samplers, code, other data.

`describe` returns a document of numbers, strings, lists and dicts, which JSON can represent; `lines` formats
it as text. Addresses of data and code are relative to the first byte of the loaded program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from softcard.core.errors import WireError
from softcard.image.amdcl2.arguments import Argument, Kind
from softcard.image.amdcl2.container import GLOBAL, READ_ONLY, TEXT, Container, Kernel, read_container
from softcard.image.amdcl2.load import RELOCATIONS, LoadedProgram, load, relocated
from softcard.image.amdcl2.metadata import KernelMetadata
from softcard.image.amdcl2.objects import Addressing, Filter
from softcard.image.amdcl2.records import SamplerInit
from softcard.isa.gcn.target import TARGETS
from softcard.report.hsa_code import disassembly, record_fields, register_layout

Document = dict[str, Any]

RELOCATION_NAMES: Final = {1: "low 32 bits", 2: "high 32 bits", 3: "64 bits", 4: "sampler address"}
ROW_BYTES: Final = 32
SHOWN_BYTES: Final = 512
"""The maximum number of bytes of a section that the text shows; the JSON form has all of them."""
OUTSIDE: Final = "code outside of kernels"
DETAILS: Final = ("structure_bytes", "resource_id", "image_kind", "pointee_alignment")
"""The properties that only some kinds of kernel arguments have."""
REGISTERS: Final = ("compute_pgm_rsrc1", "compute_pgm_rsrc2", "kernel_code_properties")


def describe(data: bytes, *, kernel: str = "", code: bool = True, target: str = "") -> Document:
    """Return the content of a program as data, or only that of one `kernel`; with `code`, also the disassembly.

    `target` overrides the processor that the file names. `WireError` is raised if the file is not an AMD OpenCL
    2.0 program."""
    found = read_container(data)
    if target and target not in TARGETS:
        raise WireError(f"unknown processor {target!r}, expected one of {', '.join(TARGETS)}")
    processor = target or found.target.name
    loaded = load(found, 0)
    kernels = [found.kernel(kernel)] if kernel else list(found.kernels.values())
    return {
        "format": "AMD OpenCL 2.0 program",
        "generation": found.generation.name,
        "driver": found.driver,
        "bits": found.bits,
        "device": found.device,
        "target": processor,
        "version": found.version,
        "compile_options": found.compile_options,
        "elf": _sections(found),
        "notes": _notes(found),
        "kernels": [_kernel(found, each, loaded) for each in kernels],
        "samplers": [_sampler(each) for each in found.samplers],
        "symbols": list(_symbols(found)),
        "parts": [{"name": each.name, "place": each.place, "bytes": each.size} for each in loaded.parts],
        "data": {each.name: each.data.hex() for each in loaded.parts if each.name in (READ_ONLY, GLOBAL)},
        "relocations": list(_relocations(found)),
        "warnings": list(found.warnings),
        "code": [*(_code(processor, each, loaded) for each in kernels), *_outside(processor, found, loaded, kernel)]
        if code
        else [],
    }


def _sections(found: Container) -> Document:
    elves = {"outer": found.elf} | ({"inner": found.inner} if found.inner is not None else {})
    shown: Document = {"machine": found.elf.header.machine, "flags": found.elf.header.flags}
    for name, elf in elves.items():
        shown[name] = [
            {"name": each.name, "type": each.header.type, "offset": elf.base + each.header.offset,
             "bytes": each.header.size}
            for each in elf.sections
            if each.header.type
        ]  # fmt: skip
    return shown


def _notes(found: Container) -> Document:
    notes = found.notes
    shown: Document = {}
    for name in ("version", "isa_version"):
        if getattr(notes, name) is not None:
            shown[name] = ".".join(map(str, getattr(notes, name)))
    for name in ("producer", "producer_options"):
        if getattr(notes, name):
            shown[name] = getattr(notes, name)
    if notes.hsail is not None:
        shown["hsail"] = record_fields(notes.hsail)
    return shown


def _kernel(found: Container, kernel: Kernel, loaded: LoadedProgram) -> Document:
    header = kernel.header
    shown: Document = {
        "name": kernel.name,
        "place": loaded.kernels[kernel.name],
        "code_bytes": len(kernel.code),
        "stub_bytes": len(kernel.stub),
        "group_bytes": header.workgroup_group_segment_byte_size,
        "private_bytes": header.workitem_private_segment_byte_size,
        "kernarg_bytes": header.kernarg_segment_byte_size,
        "vgprs": header.compute_pgm_rsrc1.vgprs(),
        "sgprs": header.compute_pgm_rsrc1.sgprs,
        "header": record_fields(header),
        "registers": register_layout(header.kernel_code_properties, header.compute_pgm_rsrc2),
    }
    try:
        metadata = found.metadata(kernel.name)
        shown |= _metadata(metadata)
    except WireError as error:
        shown |= {"arguments": None, "metadata_error": str(error)}
    return shown


def _metadata(metadata: KernelMetadata) -> Document:
    shown: Document = {
        "arguments": [
            {
                "name": slot.argument.name,
                "offset": slot.offset,
                "bytes": slot.size,
                "kind": slot.argument.kind.value,
                "declared": slot.argument.described(),
                "hidden": slot.argument.is_hidden,
                "access": slot.argument.access or None,
                **_details(slot.argument),
            }
            for slot in metadata.layout.slots
        ],
        "uses_enqueue": metadata.uses_enqueue,
        "printf_formats": metadata.queue.printf_count,
        "kernel_id": metadata.header.function_id,
        "kernel_index": metadata.queue.kernel_index,
    }
    for name in ("required_work_group_size", "work_group_size_hint"):
        size = getattr(metadata, name)
        shown[name] = list(size) if size else None
    shown["vector_type_hint"] = metadata.vector_type_hint
    return shown


def _details(argument: Argument) -> Document:
    match argument.kind:
        case Kind.STRUCTURE:
            return {"structure_bytes": argument.structure_bytes}
        case Kind.IMAGE:
            kind = argument.image_kind
            return {"resource_id": argument.resource_id, "image_kind": kind.name if kind is not None else None}
        case Kind.SAMPLER:
            return {"resource_id": argument.resource_id}
        case Kind.POINTER:
            return {"pointee_alignment": argument.alignment}
    return {}


def _symbols(found: Container) -> Iterator[Document]:
    """Yield the named symbols of the outer and the inner ELF file."""
    elves = {"outer": found.elf} | ({"inner": found.inner} if found.inner is not None else {})
    for name, elf in elves.items():
        for each in elf.symbols:
            if each.name:
                section = elf.sections[each.section].name if each.section < len(elf.sections) else str(each.section)
                yield {"file": name, "name": each.name, "section": section, "offset": each.value, "bytes": each.size,
                       "type": each.kind}  # fmt: skip


def _sampler(init: SamplerInit) -> Document:
    known = {each.value for each in Addressing}
    return {
        "normalised": bool(init.coordinate),
        "filter": Filter(init.filter).name if init.filter in (0, 1) else init.filter,
        "addressing": Addressing(init.addressing).name if init.addressing in known else init.addressing,
    }


def _relocations(found: Container) -> Iterator[Document]:
    inner = found.inner
    for table, section in relocated(inner) if inner is not None else ():
        assert inner is not None
        for each in inner.relocations(table):
            index = each.symbol.section
            where = inner.sections[index].name if index < len(inner.sections) else str(index)
            yield {
                "section": section,
                "offset": each.offset,
                "type": RELOCATION_NAMES.get(each.type, str(each.type)),
                "bytes": RELOCATIONS.get(each.type, (0, 0))[0],
                "symbol": each.symbol.name or f"{where}+{each.symbol.value:#x}",
                "addend": each.addend,
            }


def _code(processor: str, kernel: Kernel, loaded: LoadedProgram) -> Document:
    entry = loaded.kernels[kernel.name] + kernel.header.kernel_code_entry_byte_offset
    data = bytes(loaded.data[entry : entry + len(kernel.code)])
    return disassembly(processor, data, entry, [kernel.name])


def _outside(processor: str, found: Container, loaded: LoadedProgram, kernel: str) -> Iterator[Document]:
    """Yield the disassembly of the code outside of kernels; yield nothing if only one `kernel` is described."""
    place = next((part.place for part in loaded.parts if part.name == TEXT), 0)
    for offset, data in found.outside if not kernel else ():
        start = place + offset
        yield disassembly(processor, bytes(loaded.data[start : start + len(data)]), start, [OUTSIDE])


# ---- text ----------------------------------------------------------------------------------------------------------


def lines(document: Document, zeros: bool = False) -> Iterator[str]:
    """Yield the text lines of a document that `describe` returned.

    With `zeros`, register fields that are 0 are included.
    """
    yield f"{document['format']}, {document['generation']} (driver {document['driver']} or later)"
    device = document["device"] or "unknown device"
    yield f"{document['bits']}-bit code for {device} (e_flags {document['elf']['flags']:#x}), {document['target']}"
    yield f"compiler library: {document['version'] or 'not said'}"
    if document["compile_options"]:
        yield f"compile options: {document['compile_options']}"
    for name, value in document["notes"].items():
        shown = ", ".join(f"{key} {word}" for key, word in value.items()) if isinstance(value, dict) else value
        yield f"note {name.replace('_', ' ')}: {shown}"
    for name in ("outer", "inner"):
        for each in document["elf"].get(name, []):
            yield f"{name} section {each['name'] or '(no name)':28} {each['bytes']:#8x} bytes at {each['offset']:#x}"
    for each in document["parts"]:
        yield f"loaded {each['name']:34} {each['bytes']:#8x} bytes at {each['place']:#x}"
    for name, data in document["data"].items():
        yield from _data_lines(name, bytes.fromhex(data))
    for number, each in enumerate(document["samplers"]):
        coordinates = "normalised" if each["normalised"] else "unnormalised"
        yield f"sampler {number}: {coordinates}, {each['filter']}, {each['addressing']}"
    for each in document["symbols"]:
        place = f"{each['section']}+{each['offset']:#x}"
        yield f"{each['file']} symbol {each['name']}: {each['bytes']:#x} bytes at {place}, type {each['type']}"
    for each in document["relocations"]:
        place = f"{each['section']}+{each['offset']:#x}"
        yield f"relocation {place}: {each['type']} of {each['symbol']} + {each['addend']:#x}"
    by_name = {chunk["names"][0]: chunk for chunk in document["code"]}
    for kernel in document["kernels"]:
        yield ""
        yield from _kernel_lines(kernel, zeros)
        if kernel["name"] in by_name:
            yield from _code_lines(by_name[kernel["name"]])
    for chunk in document["code"]:
        if chunk["names"] == [OUTSIDE]:
            yield ""
            yield f"{OUTSIDE} at {chunk['address']:#x}"
            yield from _code_lines(chunk)
    for warning in document["warnings"]:
        yield f"warning: {warning}"


def _data_lines(name: str, data: bytes) -> Iterator[str]:
    """Yield lines that show the first bytes of the data section called `name`."""
    for at in range(0, min(len(data), SHOWN_BYTES), ROW_BYTES):
        yield f"{name}+{at:#06x}: {data[at : at + ROW_BYTES].hex(' ', 4)}"
    if len(data) > SHOWN_BYTES:
        yield f"{name}: and {len(data) - SHOWN_BYTES} more bytes"


def _kernel_lines(kernel: Document, zeros: bool) -> Iterator[str]:
    yield f"kernel {kernel['name']}: {kernel['code_bytes']} bytes of code, code object at {kernel['place']:#x}"
    yield (
        f"  {kernel['vgprs']} VGPRs, {kernel['sgprs']} SGPRs, LDS {kernel['group_bytes']}, "
        f"scratch {kernel['private_bytes']}, arguments {kernel['kernarg_bytes']} bytes"
    )
    for name in ("required_work_group_size", "work_group_size_hint", "vector_type_hint"):
        if kernel.get(name):
            yield f"  {name.replace('_', ' ')}: {kernel[name]}"
    if "kernel_id" in kernel:
        yield f"  kernel id {kernel['kernel_id']}, number {kernel['kernel_index']} of the kernel table"
    if kernel.get("uses_enqueue"):
        yield "  enqueues kernels"
    for each in kernel["registers"]:
        yield f"  {each['registers']:10} {each['holds']}"
    for each in kernel["arguments"] or ():
        details = [f"{name.replace('_', ' ')} {each[name]}" for name in DETAILS if each.get(name) is not None]
        details += [each["access"]] if each["access"] and "image_kind" not in each else []
        more = f" ({', '.join(details)})" if details else ""
        yield f"  argument at {each['offset']:3}, {each['bytes']:3} bytes: {each['declared']}{more}"
    if "metadata_error" in kernel:
        yield f"  arguments unknown: {kernel['metadata_error']}"
    for register in REGISTERS:
        fields = kernel["header"][register]
        yield f"  {register} = {fields['value']:#010x}"
        for name, value in fields.items():
            if name != "value" and (value or zeros):
                yield f"    {name} = {value}"


def _code_lines(chunk: Document) -> Iterator[str]:
    yield "  code:"
    for each in chunk["lines"]:
        if "label" in each:
            yield f"{each['label']}:"
        yield f"    {each['pc']:#06x}  {each['text']}"
