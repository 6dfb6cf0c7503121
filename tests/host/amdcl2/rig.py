"""Programs for tests: the vectors, and kernels assembled here for any device, size of addresses and driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from softcard.engine.gcn.api import Engine
from softcard.host.amdcl2.program import Program
from softcard.image.amdcl2.arguments import Argument
from softcard.image.amdcl2.build import Described, Features, KernelNeeds, build_kernel
from softcard.image.amdcl2.container import read_container
from softcard.image.amdcl2.elf import read_elf
from softcard.image.amdcl2.generations import ISA_VERSIONS, level_of, target_of
from softcard.image.amdcl2.writer import CodeRelocation, KernelSource, ProgramSource, write_container
from softcard.image.elf.layout import FileHeader, SymbolEntry
from softcard.isa.gcn.asm.assembler import assemble

FOLDER = Path(__file__).parents[2] / "vectors" / "amdcl2"
DEVICES = ("bonaire", "tonga", "gfx900")
SETUP = Features(usesetup=True, useargs=True)
NEWEST = 252700


def vectors(kernel: str = "") -> list[str]:
    """Names of the binaries, without .clo."""
    return sorted(path.stem for path in FOLDER.glob(f"{kernel}*.clo"))


def vector(name: str) -> bytes:
    """The bytes of a binary."""
    return (FOLDER / f"{name}.clo").read_bytes()


def parts(name: str) -> tuple[str, str, int, int]:
    """Kernel, device, bits, driver of a binary."""
    kernel, device, bits, driver = name.split("-")
    return kernel, device, int(bits), int(driver)


def for_device(device: str, text: str) -> str:
    """Text with what differs between devices filled in: {sm} scales scalar offsets, {add}, {gid}, {gidy}."""
    level = level_of(device)
    first = 10 if level == 9 else 8
    add = {7: "v_add_i32", 8: "v_add_u32", 9: "v_add_co_u32"}[level]
    addc = {7: "v_addc_u32", 8: "v_addc_u32", 9: "v_addc_co_u32"}[level]
    names = {"add": add, "addc": addc, "gid": f"s{first}", "gidy": f"s{first + 1}"}
    out = text
    for name, value in names.items():
        out = out.replace(f"{{{name}}}", value)
    scale = 1 if level == 7 else 4
    while "{o:" in out:  # an offset in dwords
        start = out.index("{o:")
        end = out.index("}", start)
        out = f"{out[:start]}{int(out[start + 3 : end]) * scale:#x}{out[end + 1 :]}"
    return out


def kernel(
    device: str,
    name: str,
    text: str,
    arguments: Sequence[Argument],
    *,
    driver: int = NEWEST,
    bits: int = 64,
    features: Features = SETUP,
    needs: KernelNeeds | None = None,
    described: Described | None = None,
    relocations: tuple[CodeRelocation, ...] = (),
) -> KernelSource:
    """A kernel assembled for a device."""
    code = assemble(target_of(ISA_VERSIONS[device]), for_device(device, text))
    needs = needs if needs is not None else KernelNeeds(sgprs=96, vgprs=64)
    return build_kernel(device, driver, bits, name, code, arguments, features, needs, described, relocations)


def program(
    device: str, *kernels: KernelSource, driver: int = NEWEST, bits: int = 64, engine: str | Engine = "reference",
    **options: Any,
) -> Program:  # fmt: skip
    """A program of kernels, written to a container and read again."""
    data = write_container(ProgramSource(device, driver, bits, kernels, **options))
    return Program(read_container(data), engine)


def matrix() -> Iterator[list[str]]:
    """Rows of the truth table."""
    for line in (FOLDER / "matrix.tsv").read_text(encoding="utf-8").splitlines():
        yield line.split("\t")


def with_tables(data: bytes, order: list[int], names: str) -> bytes:
    """Return the file with the symbols of its inner file in another order, and other string tables after its end.

    `names`: "bare" begins with a name, "zero" with a 0, "shared" has names that are suffixes of others only once.
    """
    outer = read_elf(data)
    text = outer.section(".text")
    assert text is not None
    inner = read_elf(outer.contents(text), text.header.offset)
    table = inner.section(".symtab")
    assert table is not None
    entries = [SymbolEntry.parse(inner.data, symbol.place) for symbol in inner.symbols]
    texts = [symbol.name.encode() for symbol in inner.symbols]
    strings = b"\0" if names == "zero" else b""
    for n in sorted(order, key=lambda n: -len(texts[n])) if names == "shared" else order:
        if texts[n] and (names != "shared" or texts[n] + b"\0" not in strings):
            strings += texts[n] + b"\0"
    moved = [replace(entries[n], name_offset=strings.index(texts[n] + b"\0")) for n in order]
    symbols = b"".join(entry.pack() for entry in moved)
    out, sections = bytearray(inner.data), []
    for section in inner.sections:
        header = section.header
        contents = {".symtab": symbols, inner.sections[table.header.link].name: strings}.get(section.name)
        if contents is not None:
            header = replace(header, offset=len(out), size=len(contents))
            out += contents + bytes(-len(contents) % 8)
        sections.append(header.pack())
    shoff, size = len(out), type(text.header).offset_of("size")
    out += b"".join(sections)
    at = FileHeader.offset_of("shoff")
    out[at : at + 8] = shoff.to_bytes(8, "little")
    width = outer.bits // 8
    place = text.place + type(text.header).offset_of("offset")
    whole = bytearray(data + bytes(-len(data) % 256))
    whole[place : place + width] = len(whole).to_bytes(width, "little")
    whole[text.place + size : text.place + size + width] = len(out).to_bytes(width, "little")
    return bytes(whole + out)
