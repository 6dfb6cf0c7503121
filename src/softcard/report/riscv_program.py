"""The content of a RISC-V ELF file as data: instruction set, segments, functions, and whether RefSi can load it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from softcard.core.errors import SoftcardError, WireError
from softcard.host.refsi.program import ELF_BASE
from softcard.image.elf.layout import ET_CORE, ET_DYN, ET_EXEC, ET_REL, PF_R, PF_W, PF_X
from softcard.image.elf.reader import ElfFile
from softcard.image.riscv.attributes import Attributes, read_attributes
from softcard.image.riscv.kind import loadable
from softcard.image.riscv.program import ElfImage, read_elf
from softcard.isa.riscv.listing import listing

Document = dict[str, Any]

TYPES: Final = {ET_REL: "ET_REL", ET_EXEC: "ET_EXEC", ET_DYN: "ET_DYN", ET_CORE: "ET_CORE"}
FLAGS: Final = ((1, "compressed instructions"), (8, "16 registers (RVE)"), (16, "total store order"))
FLOATS: Final = ("soft float", "single float", "double float", "quad float")
"""The names of the floating-point ABIs by the value of bits 2:1 of e_flags."""


def describe(data: bytes, *, kernel: str = "", code: bool = True, target: str = "") -> Document:
    """Return the content of a program as data, or only that of one function `kernel`.

    With `code`, the disassembly is included. `target` is ignored. `WireError` is raised if the file is not a
    RISC-V ELF file, or has no such function."""
    image = read_elf(data)
    elf = ElfFile(data, image.bits)
    flags = elf.header.flags
    warnings: list[str] = []
    try:
        attributes = read_attributes(elf)
    except WireError as error:  # the program runs without them
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
    """Return the reason why RefSi cannot load the program; "" if it can."""
    try:
        loadable(image, data, ELF_BASE)
    except SoftcardError as error:
        return str(error)
    return ""


def lines(document: Document, *, zeros: bool = False) -> Iterator[str]:
    """Yield the text lines of a document that `describe` returned; `zeros` is ignored."""
    yield f"RISC-V program: {document['bits']}-bit, {document['type']}, {document['abi']}"
    if document["isa"]:
        yield f"  instruction set: {document['isa']}"
    for name, value in document["attributes"].items():
        if name != "arch":
            yield f"  {name.replace('_', ' ')}: {value}"
    yield f"  entry: {document['entry']:#x}"
    count = document["symbols"]
    yield "  symbols: none (stripped)" if count is None else f"  symbols: {count}"
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
        yield f"RefSi cannot run this program: {document['refused']}"
