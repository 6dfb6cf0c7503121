"""Programs to be written to a container (kernels, data, samplers, relocations), also made from parsed containers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from softcard.image.amdcl2.container import (
    BSS,
    GLOBAL,
    READ_ONLY,
    SAMPLER_PREFIX,
    TEXT,
    Container,
    Kernel,
    kernel_name,
)
from softcard.image.amdcl2.elf import Elf
from softcard.image.amdcl2.generations import Generation, generation_of, level_of, noted_version
from softcard.image.amdcl2.records import DEFAULT_ISA_METADATA, SamplerInit
from softcard.image.elf.reader import Relocation
from softcard.image.hsa.records import KernelCode

NOTE_PRODUCER: Final = 4
LOW, HIGH, WHOLE = 1, 2, 3
"""The types of relocations: LOW and HIGH set one half of an address, WHOLE sets all of it."""


@dataclass(frozen=True, slots=True)
class CodeRelocation:
    """A relocation in a kernel's code, which stores the address of a section plus `addend` at `offset`.

    It stores the low or the high half of the address in 4 bytes, or with `whole` the full address in 8 bytes."""

    offset: int
    section: str
    addend: int = 0
    high: bool = False
    whole: bool = False

    @property
    def type(self) -> int:
        """The relocation's type number, as in the ELF file."""
        return WHOLE if self.whole else HIGH if self.high else LOW


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel to be written to a container.

    `samplers` are the numbers of those program samplers whose symbols directly precede the kernel's symbol."""

    name: str
    header: KernelCode
    code: bytes = field(repr=False)
    metadata: bytes = field(repr=False)
    stub: bytes = field(default=b"", repr=False)
    isa_metadata: bytes = field(default=DEFAULT_ISA_METADATA, repr=False)
    relocations: tuple[CodeRelocation, ...] = ()
    samplers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """A program to be written to a container, as the driver `driver` writes it for the device `device`.

    `sampler_offsets` are the offsets in `read_only` that receive the addresses of `samplers`, in their order.
    `producer_note` is the content of the producer note, into which driver 1912.05 wrote an address of its own
    memory. `origin` is the container from which the program was read, or None. Everything that a `ProgramSource`
    does not hold is taken from `origin`."""

    device: str
    driver: int
    bits: int
    kernels: tuple[KernelSource, ...]
    read_only: bytes = b""
    global_data: bytes = b""
    bss_bytes: int = 0
    bss_alignment: int = 8
    samplers: tuple[SamplerInit, ...] = ()
    sampler_offsets: tuple[int, ...] = ()
    compile_options: str = ""
    version: str = ""
    brig: bytes = b""
    isa_version: tuple[int, int, int] | None = None
    producer_note: bytes = b""
    origin: Container | None = field(default=None, compare=False, repr=False)

    @property
    def as_read(self) -> Container | None:
        """The container that the program was read from.

        It is None for a new program, and if device, driver or address size were changed."""
        origin = self.origin
        if origin is None or (self.device, self.driver, self.bits) != (origin.device, origin.driver, origin.bits):
            return None
        return origin

    @property
    def generation(self) -> Generation:
        """The generation of containers that `driver` writes."""
        return generation_of(self.driver)


def source_of(container: Container, device: str = "", driver: int = 0) -> ProgramSource:
    """Return a `ProgramSource` for a parsed container.

    By default device and driver are those of the container. The result holds everything that `write_container`
    can build, including the relocations that apply to code and refer to sections. Everything else is taken from
    `origin`, which is the container. Raise `WireError` for an unknown device."""
    inner = container.inner
    version = container.notes.isa_version
    if device:
        level_of(device)
    read_for = container.device
    if (device and device != read_for) or (read_for and version == noted_version(read_for, container.driver)):
        version = None
    device, driver = device or read_for, driver or container.driver
    samplers = _samplers_before(container)
    kernels = tuple(
        KernelSource(
            kernel.name,
            kernel.header,
            kernel.code,
            container.metadata_bytes(kernel.name)[0],
            kernel.stub,
            kernel.isa_metadata or DEFAULT_ISA_METADATA,
            tuple(_relocations_of(container, kernel)),
            samplers.get(kernel.name, ()),
        )
        for kernel in container.kernels.values()
    )
    bss = inner.section(BSS) if inner is not None else None
    contents = {name: inner.contents(inner.section(name)) if inner is not None else b"" for name in (READ_ONLY, GLOBAL)}
    places = inner.relocations(f".rela{READ_ONLY}") if inner is not None else ()
    by_sampler = sorted((each.symbol.value, each.offset) for each in places)
    return ProgramSource(
        device,
        driver,
        container.bits,
        kernels,
        contents[READ_ONLY],
        contents[GLOBAL],
        bss.header.size if bss is not None else 0,
        bss.header.addralign if bss is not None else 8,
        container.samplers,
        tuple(offset for _, offset in by_sampler),
        container.compile_options,
        container.version,
        container.brig,
        version,
        _producer_note(container),
        container,
    )


def _producer_note(container: Container) -> bytes:
    notes = container.inner.notes if container.inner is not None else ()
    is_early = container.generation is Generation.CRIMSON
    return next((note.data for note in notes if is_early and note.type == NOTE_PRODUCER), b"")


def _samplers_before(container: Container) -> dict[str, tuple[int, ...]]:
    """Return the numbers of the samplers whose symbols precede each kernel's symbol, by kernel name.

    Samplers that precede an earlier kernel's symbol are not listed again."""
    found: dict[str, tuple[int, ...]] = {}
    waiting: list[int] = []
    for symbol in container.inner.symbols if container.inner is not None else ():
        number = symbol.name.removeprefix(SAMPLER_PREFIX)
        if number != symbol.name and number.isdecimal() and number.isascii():
            waiting.append(int(number))
        elif name := kernel_name(symbol):
            found[name], waiting = tuple(waiting), []
    return found


def _relocations_of(container: Container, kernel: Kernel) -> Iterator[CodeRelocation]:
    inner, start = container.inner, kernel.offset + kernel.header.kernel_code_entry_byte_offset
    if inner is None:
        return
    for each in inner.relocations(f".rela{TEXT}"):
        if 0 <= each.offset - start < len(kernel.code):
            found = code_relocation(inner, each, start)
            if found is not None:
                yield found


def code_relocation(inner: Elf, entry: Relocation, start: int) -> CodeRelocation | None:
    """Return an ELF relocation as a `CodeRelocation` of a kernel; None if its type does not apply to code.

    `start` is the offset of the kernel's code in .hsatext.
    """
    if entry.type not in (LOW, HIGH, WHOLE):
        return None
    index, addend = entry.symbol.section, entry.symbol.value + entry.addend
    section = inner.sections[index].name if index < len(inner.sections) else ""
    return CodeRelocation(entry.offset - start, section, addend, entry.type == HIGH, entry.type == WHOLE)
