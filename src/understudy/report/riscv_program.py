"""What stands in a RISC-V ELF file, as data: instruction set, segments, functions, and whether RefSi can run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from understudy.core.errors import UnderstudyError, WireError
from understudy.host.refsi.program import ELF_BASE
from understudy.image.elf.layout import ET_CORE, ET_DYN, ET_EXEC, ET_REL, PF_R, PF_W, PF_X
from understudy.image.elf.reader import ElfFile
from understudy.image.riscv.attributes import Attributes, read_attributes
from understudy.image.riscv.kind import loadable
from understudy.image.riscv.program import ElfImage, read_elf
from understudy.isa.riscv.listing import listing

Document = dict[str, Any]

TYPES: Final = {ET_REL: "ET_REL", ET_EXEC: "ET_EXEC", ET_DYN: "ET_DYN", ET_CORE: "ET_CORE"}
FLAGS: Final = ((1, "compressed instructions"), (8, "16 registers (RVE)"), (16, "total store order"))
FLOATS: Final = ("soft float", "single float", "double float", "quad float")
"""ABIs by bits 2 and 1 of e_flags."""


def describe(data: bytes, *, kernel: str = "", code: bool = True, target: str = "") -> Document:
    """Everything that a program says. `kernel` restricts to one function, `code` adds its disassembly.

    `WireError` where the file is no RISC-V ELF file, or has no such function; `target` means nothing here.
    """
    image = read_elf(data)
    elf = ElfFile(data, image.bits)
    flags = elf.header.flags
    warnings: list[str] = []
    try:
        attributes = read_attributes(elf)
    except WireError as error:  # nothing that runs depends on them
        attributes = Attributes({})
        warnings.append(str(error))
    names = [kernel] if kernel else list(image.kernels)
    return {
        "format": "RISC-V program",
        "bits": image.bits,
        "type": TYPES.get(image.kind, f"{image.kind:#x}"),
        "entry": image.entry,
        "abi": ", ".join([FLOATS[flags >> 1 & 3], *(text for bit, text in FLAGS if flags & bit)]),
        "isa": attributes.arch,
        "attributes": attributes.tags,
        "segments": [
            {
                "address": each.address,
                "bytes": each.memory_size,
                "file_bytes": len(each.data),
                "flags": "".join(name for bit, name in ((PF_R, "r"), (PF_W, "w"), (PF_X, "x")) if each.flags & bit),
            }
            for each in image.segments
        ],
        "symbols": None if image.symbols is None else len(image.symbols),
        "functions": [_function(image, each, code and bool(kernel)) for each in names],
        "refused": _refusal(image, data),
        "warnings": warnings,
    }


def _function(image: ElfImage, name: str, code: bool) -> Document:
    symbol = image.symbol(name)
    found: Document = {"name": name, "address": symbol.address, "bytes": symbol.size}
    if code:
        body = image.read(symbol.address, symbol.size)
        found["code"] = [
            {"pc": each.pc, "code": each.code.hex(), "text": each.shown} for each in listing(body, symbol.address)
        ]
    return found


def _refusal(image: ElfImage, data: bytes) -> str:
    """Why RefSi does not load it; "" where it does."""
    try:
        loadable(image, data, ELF_BASE)
    except UnderstudyError as error:
        return str(error)
    return ""


def lines(document: Document, *, zeros: bool = False) -> Iterator[str]:
    """The text of what `describe` gave. `zeros` means nothing here."""
    yield f"RISC-V program: {document['bits']}-bit, {document['type']}, {document['abi']}"
    if document["isa"]:
        yield f"  instruction set: {document['isa']}"
    for name, value in document["attributes"].items():
        if name != "arch":
            yield f"  {name.replace('_', ' ')}: {value}"
    yield f"  entry: {document['entry']:#x}"
    said = document["symbols"]
    yield "  symbols: none (stripped)" if said is None else f"  symbols: {said}"
    yield "segments:"
    for each in document["segments"]:
        rest = each["bytes"] - each["file_bytes"]
        more = f", the last {rest} of them zeros" if rest else ""
        yield f"  {each['address']:#x}  {each['flags']:<3}  {each['bytes']} bytes{more}"
    if not document["segments"]:
        yield "  none"
    yield "functions that can be launched:"
    width = max((len(each["name"]) for each in document["functions"]), default=0)
    for each in document["functions"]:
        yield f"  {each['name']:<{width}}  {each['address']:#x}  {each['bytes']} bytes"
        for line in each.get("code", ()):
            yield f"    {line['pc']:#x}: {line['text']}"
    if not document["functions"]:
        yield "  none"
    for warning in document["warnings"]:
        yield f"warning: {warning}"
    if document["refused"]:
        yield f"RefSi does not run it: {document['refused']}"
