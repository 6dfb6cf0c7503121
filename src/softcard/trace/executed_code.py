"""Listings, for reports, of code that a host program itself has loaded into device memory.

Device memory has neither local symbols nor debug information. Therefore the files of the host program are
searched for an ELF file with the same code. If one is found, its functions, lines and sources are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from softcard.core.errors import AccessFault, SoftcardError
from softcard.device.kfd.code_files import CodeFiles, FileCode
from softcard.device.kfd.loaded_code import LoadedCode
from softcard.image.elf.embedded import Files
from softcard.image.elf.layout import MACHINE_AMDGPU, MACHINE_RISCV, PT_LOAD
from softcard.image.elf.lines import Lines, read_lines
from softcard.image.elf.reader import ElfFile
from softcard.image.hsa import targets
from softcard.image.hsa.code_object import CodeObject, read_code_object
from softcard.image.hsa.elf import HsaElf
from softcard.image.riscv.program import ElfImage, read_elf
from softcard.isa.gcn.target import TARGETS
from softcard.trace.code import GAP, Extent, GcnText, Listing, RiscvText, functions_of, made_listing
from softcard.trace.values import Record

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


# ---- the code of a trace ---------------------------------------------------------------------------------------------


class CodeOfTrace:
    """The code that the events of a trace name, and the listings of files that have this code.

    Events do not contain code. Those of AMD GPUs have the address of each loaded code object and of its kernels, those
    of RefSi the entries of kernels.
    """

    def __init__(self) -> None:
        self._loaded: dict[int, dict[str, int]] = {}
        """By the address of each loaded code object: its kernels, with the addresses of their kernel objects."""
        self._entries: set[int] = set()

    def observe(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of a trace, and take from them which code was loaded and executed."""
        for record in records:
            kernels, address, entry = (record.get(name) for name in ("kernels", "address", "entry"))
            if record["event"] == "code-loaded" and isinstance(kernels, dict) and (base := _number(address)):
                self._loaded[base] = {name: at for name, at in kernels.items() if isinstance(at, int)}
            elif record["event"] == "kernel-launch" and (start := _number(entry)):
                self._entries.add(start)
            yield record

    def names(self) -> list[str]:
        """Return the names of the loaded kernels, and the entries of kernels without a name."""
        return [*dict.fromkeys(name for each in self._loaded.values() for name in each), *map(hex, self._entries)]

    def listings(self, path: Path) -> list[Listing]:
        """Return the listings of the code in a file at the addresses of the trace; [] if none of it was loaded."""
        files = Files([path])
        return [*self._of_gpu(files), *self._of_harts(files)]

    def _of_gpu(self, files: Files) -> Iterator[Listing]:
        for name, data in files.elf_files(MACHINE_AMDGPU):
            try:
                code, known = read_code_object(data), FileCode(name, HsaElf(data))
            except SoftcardError:
                continue
            objects = {each: kernel.address for each, kernel in code.kernels.items()}
            for base, kernels in self._loaded.items():
                if kernels and all(objects.get(each) == at - base for each, at in kernels.items()):
                    yield _of_code_object(known, code, base)

    def _of_harts(self, files: Files) -> Iterator[Listing]:
        for name, image, data in _executables(files):
            functions = functions_of(image)
            if self._entries & {at for _, at, _ in functions}:
                lines = read_lines(ElfFile(data, image.bits))
                yield made_listing(name, RiscvText(), functions, image.read, None, lines.at)


def _number(value: object) -> int:
    """Return the number that a trace has as a number or as hexadecimal text; 0 for other values."""
    if isinstance(value, str) and value.startswith("0x"):
        return int(value, 16)
    return value if isinstance(value, int) else 0


def _of_code_object(known: FileCode, code: CodeObject, base: int) -> Listing:
    """Return the listing of all functions of a code object that was loaded at `base`."""
    parts = [each for _, each in known.elf.program_headers() if each.type == PT_LOAD]

    def read(address: int, size: int) -> bytes:
        place = address - base
        for each in parts:
            if each.vaddr <= place < each.vaddr + each.filesz:
                at = each.offset + place - each.vaddr
                return bytes(known.elf.data[at : at + min(size, each.vaddr + each.filesz - place)])
        raise AccessFault("outside of the code", address=address, access="read")

    functions = known.functions(base)
    sized = {at for _, at, _ in functions}
    starts = {base + at for each in code.kernels.values() for at in (each.address, each.entry)} | sized
    ends = sorted(starts | {base + each.vaddr + each.filesz for each in parts})
    for name, kernel in code.kernels.items():  # old compilers give kernels a symbol without the size of the code
        entry = base + kernel.entry
        if entry not in sized:
            functions.append((name, entry, next((each for each in ends if each > entry), entry) - entry))
    target = GcnText(TARGETS[targets.read_as(code.target)])
    return made_listing(known.file, target, functions, read, None, lambda pc: known.lines.at(pc - base))
