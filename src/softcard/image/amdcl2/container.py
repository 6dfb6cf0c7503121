"""Containers of AMD OpenCL 2.0 programs: kernels with code objects and metadata, data, samplers, relocations.

`read_container` recognises the driver generation from the file. If symbols end in ``_kernel_binary``, the
driver is 15.7. Otherwise .text holds an inner ELF file. Its symbol 0 is a null symbol from driver 2004.06 on,
and a real symbol in files of older drivers.

For a file with an inner ELF file, the processor is taken from the ISA note. The processor numbers in e_flags
are not used, since they changed from driver to driver, and code objects contain no processor number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from softcard.core.display import RichDisplay, Rows, some
from softcard.core.errors import WireError, close_to
from softcard.image.amdcl2.elf import Elf, read_elf
from softcard.image.amdcl2.generations import (
    DRIVERS,
    GPU_PRO,
    ISA_VERSIONS,
    NAMED_ARCHITECTURE,
    Generation,
    device_of,
    noted_version,
    target_of,
)
from softcard.image.amdcl2.metadata import KernelMetadata, parse_metadata
from softcard.image.amdcl2.records import SamplerInit
from softcard.image.elf.layout import MACHINE_AMDGPU
from softcard.image.elf.reader import Note, Section, Symbol, wrong
from softcard.image.hsa.elf import MACHINES_AMDCL2
from softcard.image.hsa.notes import NoteFacts, read_notes
from softcard.image.hsa.records import KernelCode, complaints
from softcard.isa.gcn.target import Target

STT_HSA_KERNEL: Final = 10
STT_HSA_SAMPLER: Final = 12
METADATA_PREFIX, METADATA_SUFFIX = "__OpenCL_&__OpenCL_", "_kernel_metadata"
BINARY_PREFIX, BINARY_SUFFIX = "__ISA_&__OpenCL_", "_kernel_binary"
KERNEL_PREFIX, KERNEL_SUFFIX = "&__OpenCL_", "_kernel"
SAMPLER_PREFIX: Final = "&input_bc::&_.Samp"
TEXT: Final = ".hsatext"
READ_ONLY: Final = ".hsadata_readonly_agent"
GLOBAL: Final = ".hsadata_global_agent"
BSS: Final = ".hsabss_global_agent"
SAMPLERS: Final = ".hsaimage_samplerinit"
GPU_PRO_NOTES: Final = 200
GPU_PRO_MARK: Final = 197


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a container: its code object header, code and metadata.

    `offset` is the header's offset in the section .hsatext, or in .text in files of driver 15.7; `place` is its offset
    in the file. `stub` holds the bytes before the header in files of driver 15.7.
    """

    name: str
    header: KernelCode
    code: bytes = field(repr=False)
    offset: int
    place: int
    stub: bytes = field(default=b"", repr=False)
    isa_metadata: bytes = field(default=b"", repr=False)

    @property
    def size(self) -> int:
        """The size of header and code in bytes."""
        return self.header.kernel_code_entry_byte_offset + len(self.code)


@dataclass(frozen=True)
class Container(RichDisplay):
    """A parsed program file. `elf` is the outer ELF file; `inner` is the ELF file in .text, or None."""

    elf: Elf = field(repr=False)
    inner: Elf | None = field(repr=False)
    generation: Generation
    kernels: Mapping[str, Kernel]
    version: str
    compile_options: str
    notes: NoteFacts = field(repr=False)
    warnings: tuple[str, ...]
    _metadata: Mapping[str, tuple[bytes, int]] = field(repr=False)

    def __repr__(self) -> str:
        return f"<program of {self.bits} bits, driver {self.generation.name}: {some(self.kernels, 'no kernels')}>"

    def _rows(self) -> Rows:
        yield "kernel", "at byte", "code"
        for each in self.kernels.values():
            yield each.name, f"{each.place:#x}", f"{len(each.code):,} bytes"

    @property
    def bits(self) -> int:
        """The size of addresses in the code: 32 or 64."""
        return self.elf.bits

    def kernel(self, name: str) -> Kernel:
        """Return the kernel called `name`; raise a `WireError` that lists similar names if there is none."""
        found = self.kernels.get(name)
        if found is None:
            hint = close_to(str(name), self.kernels) or f", it has {', '.join(self.kernels) or 'none'}"
            raise WireError(f"the program has no kernel {name!r}{hint}")
        return found

    def metadata(self, name: str) -> KernelMetadata:
        """Return the metadata of a kernel; raise `WireError` if it is missing or malformed."""
        self.kernel(name)
        found = self._metadata.get(name)
        if found is None:
            raise WireError(f"kernel {name} has no metadata: its arguments are unknown")
        if name not in self._parsed:
            try:
                self._parsed[name] = parse_metadata(found[0], self.bits, self.generation, found[1])
            except WireError as error:
                raise error.at("kernel", name) from None
        return self._parsed[name]

    def metadata_bytes(self, name: str) -> tuple[bytes, int]:
        """Return the bytes of a kernel's metadata and their offset in the file; (b"", 0) if it has none."""
        return self._metadata.get(name, (b"", 0))

    @cached_property
    def _parsed(self) -> dict[str, KernelMetadata]:
        return {}

    @property
    def driver(self) -> int:
        """The number of the oldest driver, such as 203603, that writes notes, metadata and e_flags as in this file."""
        return self._made_by[1]

    @property
    def device(self) -> str:
        """The name of the device for which the file was made; "" if no device matches.

        It is the first device that matches e_flags, the driver and the ISA note.
        """
        return self._made_by[0]

    @cached_property
    def _made_by(self) -> tuple[str, int]:
        """The device for which the file was made, and the number of the oldest driver that writes such a file."""
        code, version, shown = self.elf.header.flags, self.notes.isa_version, self._oldest_driver
        if version is None:
            return device_of(code, shown), shown
        newer = self.generation is Generation.CRIMSON_16_4
        drivers = [shown, *(each for each in DRIVERS if newer and each > shown)]
        found = [(device_of(code, driver), driver) for driver in drivers]
        for length in (3, 1):
            for device, driver in found:
                if device and noted_version(device, driver)[:length] == version[:length]:
                    return device, driver
        return "", shown

    @property
    def _oldest_driver(self) -> int:
        """The number of the oldest driver that writes notes and metadata as in this file, regardless of e_flags."""
        if self.generation is not Generation.CRIMSON_16_4:
            return int(self.generation.value)
        if self._level:
            return NAMED_ARCHITECTURE
        section = self.inner.section(".note") if self.inner is not None else None
        notes = self.inner.contents(section) if self.inner is not None else b""
        is_pro = len(notes) == GPU_PRO_NOTES and bool(notes[GPU_PRO_MARK])
        return GPU_PRO if is_pro else int(self.generation.value)

    @cached_property
    def _level(self) -> int:
        """The GCN generation that metadata names: 7, 8 or 9 for GFX7, GFX8 or GFX9; else 0.

        Metadata that cannot be read is ignored.
        """
        for name in self.kernels:
            try:
                level = self.metadata(name).architecture
            except WireError:
                continue
            if level:
                return level
        return 0

    @cached_property
    def target(self) -> Target:
        """The processor of the code; raises `WireError` if the file does not name it."""
        version = self.notes.isa_version
        if version is not None:
            is_noted = self.device and noted_version(self.device, self.driver) == version
            return target_of(ISA_VERSIONS[self.device] if is_noted else version)
        if self._level:
            return target_of((self._level, 0, 0))
        if self.device:
            return target_of(ISA_VERSIONS[self.device])
        text = (
            f"e_flags {self.elf.header.flags:#x} name no device of driver {self.driver}, and there is no note with "
            "the ISA"
        )
        raise wrong(f"{text}: give the processor as target", 48 if self.bits == 64 else 36)

    @cached_property
    def samplers(self) -> tuple[SamplerInit, ...]:
        """The samplers that the program itself defines, in the order of section .hsaimage_samplerinit."""
        data = self.inner.contents(self.inner.section(SAMPLERS)) if self.inner is not None else b""
        count = len(data) // SamplerInit.size_bytes
        return tuple(SamplerInit.parse(data, n * SamplerInit.size_bytes) for n in range(count))

    @cached_property
    def outside(self) -> tuple[tuple[int, bytes], ...]:
        """The code outside of kernels, such as functions that kernels call.

        Each item is a range of .hsatext that is not all zeros: its offset, and its bytes.
        """
        if self.inner is None:
            return ()
        data, at, found = self.inner.contents(self.inner.section(TEXT)), 0, []
        kernels = sorted((kernel.offset, kernel.offset + kernel.size) for kernel in self.kernels.values())
        for start, end in (*kernels, (len(data), len(data))):
            code = data[at:start].lstrip(b"\0")
            if code:
                first = start - len(code) & ~3
                found.append((first, data[first:start]))
            at = max(at, end)
        return tuple(found)

    @property
    def brig(self) -> bytes:
        """The HSAIL of the program as unparsed BRIG bytes, which drivers store together with the machine code."""
        return self.elf.contents(self.elf.section(".brig"))


def read_container(data: bytes) -> Container:
    """Return the container in `data`; raise `WireError` with the offset of the first invalid byte."""
    elf = read_elf(data)
    bits = MACHINES_AMDCL2.get(elf.header.machine)
    if bits is None:
        text = f"e_machine is {elf.header.machine:#x}, expected 0xaf5a or 0xaf5b (AMD OpenCL 2.0 program)"
        raise wrong(text, 18)
    if bits != elf.bits:
        raise wrong(f"e_machine is that of {bits}-bit programs, but the ELF file has {elf.bits} bits", 18)
    text_section = elf.section(".text")
    is_old = any(_between(symbol.name, BINARY_PREFIX, BINARY_SUFFIX) for symbol in elf.symbols)
    inner: Elf | None = None
    generation = Generation.CATALYST_15_7
    warnings: list[str] = []
    has_kernels = any(_between(symbol.name, METADATA_PREFIX, METADATA_SUFFIX) for symbol in elf.symbols)
    if is_old or not (has_kernels or elf.contents(text_section)):  # a program without kernels may have no code
        kernels = list(_old_kernels(elf))
    else:
        inner = _inner(elf, text_section)
        generation = _inner_generation(inner)
        kernels = list(_inner_kernels(inner))
    for kernel in kernels:
        warnings += [f"kernel {kernel.name}: {text}" for text in _complaints(kernel, generation)]
    facts = read_notes(_repaired(inner.notes)) if inner is not None else NoteFacts()
    return Container(
        elf,
        inner,
        generation,
        {kernel.name: kernel for kernel in kernels},
        *_comments(elf),
        facts,
        (*warnings, *facts.warnings),
        dict(_metadata_places(elf)),
    )


def _complaints(kernel: Kernel, generation: Generation) -> list[str]:
    """Return messages about invalid fields of a kernel's header.

    Three fields are not checked, since drivers usually violate the rules for them: the first reserved VGPR, the
    first reserved SGPR, and the SGPR count. In files of driver 15.7, the kernarg alignment is not checked
    either."""
    found = complaints(kernel.header)
    skipped: tuple[str, ...] = ("reserved_vgpr_first", "reserved_sgpr_first", "wavefront_sgpr_count")
    if generation is Generation.CATALYST_15_7:
        skipped += ("kernarg_segment_alignment",)
    return [text for text in found if not text.startswith(skipped)]


def _repaired(notes: tuple[Note, ...]) -> Iterator[Note]:
    """Yield the notes of a file without the one that has undefined contents, note 4 of drivers up to 1912.05.

    That note holds an address of the driver's own memory."""
    for note in notes:
        if note.type == 4 and len(note.data) < 12:
            continue
        yield note


def _between(name: str, prefix: str, suffix: str) -> str:
    """Return `name` without its prefix and suffix; "" if it does not have both, or has nothing between them."""
    if len(name) > len(prefix) + len(suffix) and name.startswith(prefix) and name.endswith(suffix):
        return name[len(prefix) : -len(suffix)]
    return ""


def kernel_name(symbol: Symbol) -> str:
    """Return the kernel name in a symbol of the inner ELF file; "" for a symbol that does not name a kernel."""
    return _between(symbol.name, KERNEL_PREFIX, KERNEL_SUFFIX) if symbol.kind == STT_HSA_KERNEL else ""


def _in_section(elf: Elf, symbol: Symbol, what: str, expected: str = "") -> tuple[Section, bytes]:
    """Return the section of a symbol, and the symbol's bytes; `what` names the symbol in errors.

    Raise `WireError` if the bytes do not lie in the section, or if `expected` is given and is not the section's name.
    """
    if not 0 < symbol.section < len(elf.sections):
        raise elf.wrong(
            f"{what} lies in section {symbol.section}, but the file has {len(elf.sections)} sections", symbol.place
        )
    section = elf.sections[symbol.section]
    if expected and section.name != expected:
        raise elf.wrong(f"{what} lies in {section.name}, expected {expected}", symbol.place)
    place, size = elf.extent(section)
    if symbol.value + symbol.size > size:
        text = f"{what} at {symbol.value:#x}..{symbol.value + symbol.size:#x} exceeds {section.name}"
        raise elf.wrong(f"{text} of {size:#x} bytes", symbol.place)
    start = place + symbol.value
    return section, elf.data[start : start + symbol.size]


def _kernel(elf: Elf, name: str, data: bytes, offset: int, place: int, stub: bytes, isa: bytes) -> Kernel:
    """Parse the kernel in `data`, which begins with the kernel's header and ends with its code.

    `offset` is the header's offset in its section, and `place` its offset in the file.
    """
    try:
        header = KernelCode.parse(data)
    except WireError as error:
        raise elf.wrong(f"kernel {name}: {error.message}", place) from None
    entry = header.kernel_code_entry_byte_offset
    if not KernelCode.size_bytes <= entry < len(data) or entry % 4:
        text = (
            f"kernel {name}: its code begins at {entry:#x} of {len(data):#x} bytes, expected a multiple of 4, 0x100 or "
            "later"
        )
        raise elf.wrong(text, place + KernelCode.offset_of("kernel_code_entry_byte_offset"))
    return Kernel(name, header, data[entry:], offset, elf.base + place, stub, isa)


def _old_kernels(elf: Elf) -> Iterator[Kernel]:
    isa = {
        name: symbol
        for symbol in elf.symbols
        if (name := _between(symbol.name, BINARY_PREFIX, METADATA_SUFFIX))
    }  # fmt: skip
    claimed = 0
    for symbol in elf.symbols:
        name = _between(symbol.name, BINARY_PREFIX, BINARY_SUFFIX)
        if not name:
            continue
        section, data = _in_section(elf, symbol, f"kernel {name}", ".text")
        claimed = elf.claim("kernels", claimed + len(data), symbol.place)
        place = section.header.offset + symbol.value
        if len(data) < 4 + KernelCode.size_bytes:
            least = 4 + KernelCode.size_bytes
            raise elf.wrong(f"kernel {name} has {len(data)} bytes, expected {least} or more for stub and header", place)
        start = int.from_bytes(data[:4], "little")
        if start > len(data):
            raise elf.wrong(f"kernel {name}: its header at {start:#x} lies outside its {len(data):#x} bytes", place)
        extra = _in_section(elf, isa[name], f"ISA metadata of kernel {name}")[1] if name in isa else b""
        yield _kernel(elf, name, data[start:], symbol.value + start, place + start, data[:start], extra)


def _inner(elf: Elf, text: Section | None) -> Elf:
    if text is None:
        raise wrong("the section .text with the code of the kernels is missing", 0)
    inner = read_elf(elf.contents(text), text.header.offset)
    if inner.bits != 64 or inner.header.machine != MACHINE_AMDGPU:
        found = f"the inner ELF file has {inner.bits} bits and machine {inner.header.machine}"
        raise inner.wrong(f"{found}, expected 64 bits and {MACHINE_AMDGPU} (AMD GPU)", 18)
    return inner


def _inner_generation(inner: Elf) -> Generation:
    """Return the driver generation of an inner ELF file, as its symbol table shows.

    If it has no symbol table, as in files without kernels, the order of the section names decides.
    """
    if inner.symbols:
        is_late = inner.symbols[0].is_null
    else:
        is_late = len(inner.sections) < 2 or inner.header.shstrndx == 1
    return Generation.CRIMSON_16_4 if is_late else Generation.CRIMSON


def _inner_kernels(inner: Elf) -> Iterator[Kernel]:
    kernels = [(symbol, name) for symbol in inner.symbols if (name := kernel_name(symbol))]
    starts, claimed = sorted({symbol.value for symbol, _ in kernels}), 0
    for symbol, name in kernels:
        section, data = _in_section(inner, symbol, f"kernel {name}", TEXT)
        if not data:  # a size of 0 means: up to the next symbol
            place, size = inner.extent(section)
            following = bisect_right(starts, symbol.value)
            end = min([size, *starts[following : following + 1]])
            data = inner.data[place + symbol.value : place + end]
        claimed = inner.claim("kernels", claimed + len(data), symbol.place)
        yield _kernel(inner, name, data, symbol.value, section.header.offset + symbol.value, b"", b"")


def _comments(elf: Elf) -> tuple[str, str]:
    """Return the version of AMD's compiler library and the compiler options, from the comment sections."""
    texts = {"acl_version_string": "", "__OpenCL_compiler_options": ""}
    for symbol in elf.symbols:
        if symbol.name in texts:
            data = _in_section(elf, symbol, symbol.name)[1]
            texts[symbol.name] = data.rstrip(b"\0").decode("utf-8", "backslashreplace")
    return texts["acl_version_string"], texts["__OpenCL_compiler_options"]


def _metadata_places(elf: Elf) -> Iterator[tuple[str, tuple[bytes, int]]]:
    for symbol in elf.symbols:
        name = _between(symbol.name, METADATA_PREFIX, METADATA_SUFFIX)
        if name:
            section, data = _in_section(elf, symbol, f"metadata of kernel {name}")
            yield name, (data, section.header.offset + symbol.value)
