"""Containers of AMD OpenCL 2.0 programs: kernels with their code objects and metadata, data, samplers, relocations.

`read_container` tells generations apart as a file shows them: with symbols that end in ``_kernel_binary`` it is from
driver 15.7; else .text holds an ELF file, whose symbol 0 is a null symbol from driver 2004.06 on, and a real one
before. The processor of a file with an inner ELF is that of its ISA note, never that of e_flags (the numbers there
changed from driver to driver) nor that of the code object (where it is 0).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from understudy.core.errors import WireError, close_to
from understudy.core.shown import Rows, Shown, some
from understudy.image.amdcl2.elf import Elf, read_elf
from understudy.image.amdcl2.generations import (
    DRIVERS,
    GPU_PRO,
    ISA_VERSIONS,
    NAMED_ARCHITECTURE,
    Generation,
    device_of,
    noted_version,
    target_of,
)
from understudy.image.amdcl2.metadata import KernelMetadata, parse_metadata
from understudy.image.amdcl2.records import SamplerInit
from understudy.image.elf.layout import MACHINE_AMDGPU
from understudy.image.elf.reader import Note, Section, Symbol, wrong
from understudy.image.hsa.elf import MACHINES_AMDCL2
from understudy.image.hsa.notes import NoteFacts, read_notes
from understudy.image.hsa.records import KernelCode, complaints
from understudy.isa.gcn.target import Target

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
    """A kernel. `header` stands at `offset` of `section`: of .hsatext, or of .text in files of driver 15.7.

    `size` are the bytes of header and code; `stub` those before the header in files of driver 15.7. `place` is the
    header's byte in the file.
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
        """Bytes of header and code."""
        return self.header.kernel_code_entry_byte_offset + len(self.code)


@dataclass(frozen=True)
class Container(Shown):
    """A file that was read. `elf` is the outer ELF, `inner` the one in .text, where there is one."""

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
        """Size of addresses in the code: 32 or 64."""
        return self.elf.bits

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name; a `WireError` that says what is near."""
        found = self.kernels.get(name)
        if found is None:
            hint = close_to(str(name), self.kernels) or f": there are {', '.join(self.kernels) or 'none'}"
            raise WireError(f"program has no kernel {name!r}{hint}")
        return found

    def metadata(self, name: str) -> KernelMetadata:
        """The metadata of a kernel; `WireError` where there is none or it is malformed."""
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
        """The metadata of a kernel as it stands in the file, and at which byte; nothing where there is none."""
        return self._metadata.get(name, (b"", 0))

    @cached_property
    def _parsed(self) -> dict[str, KernelMetadata]:
        return {}

    @property
    def driver(self) -> int:
        """The oldest driver that writes what this file shows, e_flags too; such as 203603."""
        return self._made_by[1]

    @property
    def device(self) -> str:
        """The device that e_flags name: the first that fits the driver and the ISA note; "" where none does."""
        return self._made_by[0]

    @cached_property
    def _made_by(self) -> tuple[str, int]:
        """Device and driver."""
        code, version, shown = self.elf.header.flags, self.notes.isa_version, self._shown_driver
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
    def _shown_driver(self) -> int:
        """The oldest driver that writes such notes and metadata."""
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
        """7, 8 or 9 where metadata says GFX7, GFX8 or GFX9, else 0; metadata that cannot be read says nothing."""
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
        """The processor that the code is for; `WireError` where nothing in the file says it."""
        version = self.notes.isa_version
        if version is not None:
            is_noted = self.device and noted_version(self.device, self.driver) == version
            return target_of(ISA_VERSIONS[self.device] if is_noted else version)
        if self._level:
            return target_of((self._level, 0, 0))
        if self.device:
            return target_of(ISA_VERSIONS[self.device])
        text = f"e_flags {self.elf.header.flags:#x} are no device of driver {self.driver}, and no note names the ISA"
        raise wrong(f"{text}: the processor must be given as target", 48 if self.bits == 64 else 36)

    @cached_property
    def samplers(self) -> tuple[SamplerInit, ...]:
        """The program's own samplers, in the order of .hsaimage_samplerinit."""
        data = self.inner.contents(self.inner.section(SAMPLERS)) if self.inner is not None else b""
        count = len(data) // SamplerInit.size_bytes
        return tuple(SamplerInit.parse(data, n * SamplerInit.size_bytes) for n in range(count))

    @cached_property
    def outside(self) -> tuple[tuple[int, bytes], ...]:
        """Code outside of kernels, such as functions that they call: what is not 0 in .hsatext, and where there."""
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
        """HSAIL in its binary form, which drivers put beside the code; not looked into."""
        return self.elf.contents(self.elf.section(".brig"))


def read_container(data: bytes) -> Container:
    """Read a container held in memory; `WireError` with the byte of the first thing that cannot be."""
    elf = read_elf(data)
    bits = MACHINES_AMDCL2.get(elf.header.machine)
    if bits is None:
        text = f"e_machine is {elf.header.machine:#x}, expected 0xaf5a or 0xaf5b (AMD OpenCL 2.0 program)"
        raise wrong(text, 18)
    if bits != elf.bits:
        raise wrong(f"e_machine is that of {bits}-bit programs in an ELF file of {elf.bits} bits", 18)
    text_section = elf.section(".text")
    is_old = any(_between(symbol.name, BINARY_PREFIX, BINARY_SUFFIX) for symbol in elf.symbols)
    inner: Elf | None = None
    generation = Generation.CATALYST_15_7
    warnings: list[str] = []
    has_kernels = any(_between(symbol.name, METADATA_PREFIX, METADATA_SUFFIX) for symbol in elf.symbols)
    if is_old or not (has_kernels or elf.contents(text_section)):  # a program without kernels may have no code at all
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
    """What is odd about a header; that alignments were smaller up to driver 15.7 is not."""
    found = complaints(kernel.header)
    skipped: tuple[str, ...] = ("reserved_vgpr_first", "reserved_sgpr_first", "wavefront_sgpr_count")
    if generation is Generation.CATALYST_15_7:
        skipped += ("kernarg_segment_alignment",)
    return [text for text in found if not text.startswith(skipped)]


def _repaired(notes: tuple[Note, ...]) -> Iterator[Note]:
    """Notes without those that drivers fill with what was in memory: 4 is a pointer up to driver 1912.05."""
    for note in notes:
        if note.type == 4 and len(note.data) < 12:
            continue
        yield note


def _between(name: str, prefix: str, suffix: str) -> str:
    """What stands between; "" where the name is not of that form."""
    if len(name) > len(prefix) + len(suffix) and name.startswith(prefix) and name.endswith(suffix):
        return name[len(prefix) : -len(suffix)]
    return ""


def kernel_name(symbol: Symbol) -> str:
    """The name of the kernel that a symbol of the inner file is for; "" where it is for none."""
    return _between(symbol.name, KERNEL_PREFIX, KERNEL_SUFFIX) if symbol.kind == STT_HSA_KERNEL else ""


def _in_section(elf: Elf, symbol: Symbol, what: str, expected: str = "") -> tuple[Section, bytes]:
    """The section and the bytes of a symbol; `WireError` where they do not lie in it, or it is not the `expected`."""
    if not 0 < symbol.section < len(elf.sections):
        raise elf.wrong(
            f"{what} lies in section {symbol.section}, of which there are {len(elf.sections)}", symbol.place
        )
    section = elf.sections[symbol.section]
    if expected and section.name != expected:
        raise elf.wrong(f"{what} lies in {section.name}, expected {expected}", symbol.place)
    place, size = elf.extent(section)
    if symbol.value + symbol.size > size:
        text = f"{what} at {symbol.value:#x}..{symbol.value + symbol.size:#x} runs over {section.name}"
        raise elf.wrong(f"{text} of {size:#x} bytes", symbol.place)
    start = place + symbol.value
    return section, elf.data[start : start + symbol.size]


def _kernel(elf: Elf, name: str, data: bytes, offset: int, place: int, stub: bytes, isa: bytes) -> Kernel:
    """A kernel whose header begins `data`, which ends with its code."""
    try:
        header = KernelCode.parse(data)
    except WireError as error:
        raise elf.wrong(f"kernel {name}: {error.message}", place) from None
    entry = header.kernel_code_entry_byte_offset
    if not KernelCode.size_bytes <= entry < len(data) or entry % 4:
        text = f"kernel {name}: its code begins at {entry:#x} of {len(data):#x} bytes, expected 0x100 or more"
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
            raise elf.wrong(f"kernel {name} has {len(data)} bytes: too few for a stub and a header", place)
        start = int.from_bytes(data[:4], "little")
        if start > len(data):
            raise elf.wrong(f"kernel {name}: its header at {start:#x} lies outside its {len(data):#x} bytes", place)
        extra = _in_section(elf, isa[name], f"ISA metadata of kernel {name}")[1] if name in isa else b""
        yield _kernel(elf, name, data[start:], symbol.value + start, place + start, data[:start], extra)


def _inner(elf: Elf, text: Section | None) -> Elf:
    if text is None:
        raise wrong("no section .text: expected the code of the kernels", 0)
    inner = read_elf(elf.contents(text), text.header.offset)
    if inner.bits != 64 or inner.header.machine != MACHINE_AMDGPU:
        found = f"inner ELF file of {inner.bits} bits for machine {inner.header.machine}"
        raise inner.wrong(f"{found}, expected 64 bits and {MACHINE_AMDGPU} (AMD GPU)", 18)
    return inner


def _inner_generation(inner: Elf) -> Generation:
    """What the symbol table shows; of a file without one (there are no kernels), where the sections' names stand."""
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
        if not data:  # a size of 0: up to the next one
            place, size = inner.extent(section)
            following = bisect_right(starts, symbol.value)
            end = min([size, *starts[following : following + 1]])
            data = inner.data[place + symbol.value : place + end]
        claimed = inner.claim("kernels", claimed + len(data), symbol.place)
        yield _kernel(inner, name, data, symbol.value, section.header.offset + symbol.value, b"", b"")


def _comments(elf: Elf) -> tuple[str, str]:
    """The version of AMD's compiler library, and the options that the program was compiled with."""
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
