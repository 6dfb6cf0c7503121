"""Code that a host program put into device memory itself, for a report: listed as it ran.

Memory has neither local symbols nor debug information. Files have: those of the program are searched for an ELF file
with the same code, and where one is found its functions, lines and sources are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from understudy.core.errors import AccessFault, UnderstudyError
from understudy.device.kfd.code_files import CodeFiles
from understudy.device.kfd.loaded_code import LoadedCode
from understudy.image.elf.embedded import Files
from understudy.image.elf.layout import MACHINE_RISCV
from understudy.image.elf.lines import Lines, read_lines
from understudy.image.elf.reader import ElfFile
from understudy.image.riscv.program import ElfImage, read_elf
from understudy.isa.gcn.target import TARGETS
from understudy.trace.code import GAP, Extent, GcnText, Listing, RiscvText, functions_of, made_listing

PARCEL: Final = 2

Fetch = Callable[[int, int], bytes]
"""Bytes of code as harts see it; an `UnderstudyError` where there are none."""


def listing_of_memory(code: LoadedCode, counts: Mapping[int, int], name: str, files: CodeFiles) -> Listing:
    """What a code object of AMD's executed. Of a file with the same code come functions and lines."""
    functions, lines, known = [*code.functions], Lines([]), files.of(code)
    if known is not None:
        name, lines = f"{known.file}, {name}", known.lines
        functions += known.functions(code.base)

    def read(address: int, size: int) -> bytes:
        start = address - code.base
        if start < 0 or start + size > len(code.data):
            raise AccessFault("behind the code", address=address, access="read")
        return code.data[start : start + size]

    target = GcnText(TARGETS[code.agent])
    return made_listing(name, target, functions, read, counts, lambda pc: lines.at(pc - code.base))


def listing_of_words(
    words: Mapping[int, bytes], counts: Mapping[int, int], name: str, files: Files, fetch: Fetch
) -> Listing:
    """What harts executed: `words` are the instructions by pc. `fetch` reads what lies between them, if it can.

    Where an executable has the same instructions at the same addresses, its functions and lines are shown.
    """
    file, image, lines = _image(words, files)
    name = f"{file}, {name}" if file else name
    functions = [] if image is None else functions_of(image)
    parcels = {pc + at: word[at : at + PARCEL] for pc, word in words.items() for at in range(0, len(word), PARCEL)}

    def parcel(pc: int) -> bytes:
        return parcels.get(pc) or (image.read(pc, PARCEL) if image is not None else b"") or fetch(pc, PARCEL)

    def read(address: int, size: int) -> bytes:
        return b"".join(map(parcel, range(address, address + size, PARCEL)))

    outside = sorted(pc for pc in words if not any(at <= pc < at + size for _, at, size in functions))
    extents = functions + _stretches(outside, words, read, image)
    return made_listing(name, RiscvText(), extents, read, counts, lines.at)


def images(files: Files) -> Iterator[ElfImage]:
    """Every executable for RISC-V that can be read."""
    for _, image, _ in _executables(files):
        yield image


def _executables(files: Files) -> Iterator[tuple[str, ElfImage, bytes]]:
    for name, data in files.elf_files(MACHINE_RISCV):
        try:
            yield name, read_elf(data), data
        except UnderstudyError:
            continue


def _image(words: Mapping[int, bytes], files: Files) -> tuple[str, ElfImage | None, Lines]:
    for name, image, data in _executables(files):
        inside = [pc for pc in words if any(each.address <= pc < each.end for each in image.segments)]
        if inside and all(image.read(pc, len(words[pc])) == words[pc] for pc in inside):
            return name, image, read_lines(ElfFile(data, image.bits))
    return "", None, Lines([])


def _stretches(pcs: Sequence[int], words: Mapping[int, bytes], read: Fetch, image: ElfImage | None) -> list[Extent]:
    """Code that no function holds, as stretches of which all bytes are known."""
    found: list[tuple[int, int]] = []
    for pc in pcs:
        if found and pc - found[-1][1] <= GAP and _is_known(found[-1][1], pc, read):
            found[-1] = found[-1][0], pc + len(words[pc])
        else:
            found.append((pc, pc + len(words[pc])))
    return [((image.name_at(start) if image else "") or f"{start:#x}", start, end - start) for start, end in found]


def _is_known(start: int, end: int, read: Fetch) -> bool:
    try:
        return start >= end or bool(read(start, end - start))
    except UnderstudyError:
        return False
