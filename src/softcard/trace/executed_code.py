"""Listings, for reports, of code that a host program itself has loaded into device memory.

Device memory has neither local symbols nor debug information. Therefore the files of the host program are
searched for an ELF file with the same code. If one is found, its functions, lines and sources are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from softcard.core.errors import AccessFault, SoftcardError
from softcard.device.kfd.code_files import CodeFiles
from softcard.device.kfd.loaded_code import LoadedCode
from softcard.image.elf.embedded import Files
from softcard.image.elf.layout import MACHINE_RISCV
from softcard.image.elf.lines import Lines, read_lines
from softcard.image.elf.reader import ElfFile
from softcard.image.riscv.program import ElfImage, read_elf
from softcard.isa.gcn.target import TARGETS
from softcard.trace.code import GAP, Extent, GcnText, Listing, RiscvText, functions_of, made_listing

HALFWORD: Final = 2
"""The size of the smallest RISC-V instruction in bytes."""

Fetch = Callable[[int, int], bytes]
"""A function (address, size) that reads code as harts fetch it; unmapped addresses raise a `SoftcardError`."""


def listing_of_memory(code: LoadedCode, counts: Mapping[int, int], name: str, files: CodeFiles) -> Listing:
    """Return the listing of an AMD code object in device memory.

    Functions and lines come from one of `files`, if it contains the same code.
    """
    functions, lines, known = [*code.functions], Lines([]), files.of(code)
    if known is not None:
        name, lines = f"{known.file}, {name}", known.lines
        functions += known.functions(code.base)

    def read(address: int, size: int) -> bytes:
        start = address - code.base
        if start < 0 or start + size > len(code.data):
            raise AccessFault("outside of the code", address=address, access="read")
        return code.data[start : start + size]

    target = GcnText(TARGETS[code.agent])
    return made_listing(name, target, functions, read, counts, lambda pc: lines.at(pc - code.base))


def listing_of_words(
    words: Mapping[int, bytes], counts: Mapping[int, int], name: str, files: Files, fetch: Fetch
) -> Listing:
    """Return the listing of the instructions that harts executed; `words` has their bytes by pc.

    `fetch` reads the code between executed instructions from memory. If an executable in `files` has the same
    instructions at the same addresses, its functions and lines are shown."""
    file, image, elf = executable_of(words, files)
    lines = Lines([]) if elf is None else read_lines(elf)
    name = f"{file}, {name}" if file else name
    functions = [] if image is None else functions_of(image)
    halves = {pc + at: word[at : at + HALFWORD] for pc, word in words.items() for at in range(0, len(word), HALFWORD)}

    def halfword(pc: int) -> bytes:
        return halves.get(pc) or (image.read(pc, HALFWORD) if image is not None else b"") or fetch(pc, HALFWORD)

    def read(address: int, size: int) -> bytes:
        return b"".join(map(halfword, range(address, address + size, HALFWORD)))

    outside = sorted(pc for pc in words if not any(at <= pc < at + size for _, at, size in functions))
    extents = functions + _ranges(outside, words, read, image)
    return made_listing(name, RiscvText(), extents, read, counts, lines.at)


def images(files: Files) -> Iterator[ElfImage]:
    """Yield every RISC-V executable among the `files` that can be read."""
    for _, image, _ in _executables(files):
        yield image


def _executables(files: Files) -> Iterator[tuple[str, ElfImage, bytes]]:
    for name, data in files.elf_files(MACHINE_RISCV):
        try:
            yield name, read_elf(data), data
        except SoftcardError:
            continue


def executable_of(words: Mapping[int, bytes], files: Files) -> tuple[str, ElfImage | None, ElfFile | None]:
    """Return the name, image and file of the executable that has the same instructions at the same addresses.

    `words` has the bytes of the executed instructions by pc. Without such an executable, return "", None and None.
    """
    for name, image, data in _executables(files):
        inside = [pc for pc in words if any(each.address <= pc < each.end for each in image.segments)]
        if inside and all(image.read(pc, len(words[pc])) == words[pc] for pc in inside):
            return name, image, ElfFile(data, image.bits)
    return "", None, None


def _ranges(pcs: Sequence[int], words: Mapping[int, bytes], read: Fetch, image: ElfImage | None) -> list[Extent]:
    """Return the executed code outside of functions as extents (name, address, size) of readable bytes."""
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
    except SoftcardError:
        return False
