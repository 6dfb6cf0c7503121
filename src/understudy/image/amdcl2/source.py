"""Programs to be written: kernels, data, samplers, relocations; and what was read from a file as such a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from understudy.image.amdcl2.container import (
    BSS,
    GLOBAL,
    READ_ONLY,
    SAMPLER_PREFIX,
    TEXT,
    Container,
    Kernel,
    kernel_name,
)
from understudy.image.amdcl2.elf import Elf
from understudy.image.amdcl2.generations import Generation, generation_of, level_of, noted_version
from understudy.image.amdcl2.records import DEFAULT_ISA_METADATA, SamplerInit
from understudy.image.elf.reader import Relocation
from understudy.image.hsa.records import KernelCode

NOTE_PRODUCER: Final = 4
LOW, HIGH, WHOLE = 1, 2, 3
"""Types of relocations that set half of an address, or all of it."""


@dataclass(frozen=True, slots=True)
class CodeRelocation:
    """Sets 4 bytes at `offset` of a kernel's code to a half of the address of a section + `addend`; 8 to all of it."""

    offset: int
    section: str
    addend: int = 0
    high: bool = False
    whole: bool = False

    @property
    def type(self) -> int:
        """The number of its type."""
        return WHOLE if self.whole else HIGH if self.high else LOW


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel to be written. `samplers` are the numbers of those of the program whose symbols stand before its own."""

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
    """A program to be written, as `driver` writes it for `device`.

    `sampler_offsets` are the places in `read_only` that get the addresses of `samplers`, in their order.
    `producer_note` is what driver 1912.05 left in that note: an address in its own memory. `origin` is the file that
    the program was read from: what the program does not say is taken from there.
    """

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
        """The file that it was read from, while it is still for that file's device, driver and size of addresses."""
        origin = self.origin
        if origin is None or (self.device, self.driver, self.bits) != (origin.device, origin.driver, origin.bits):
            return None
        return origin

    @property
    def generation(self) -> Generation:
        """The generation that the driver writes."""
        return generation_of(self.driver)


def source_of(container: Container, device: str = "", driver: int = 0) -> ProgramSource:
    """The source from which a container that was read can be written again, for another driver or device if asked for.

    It holds what `write_container` can make; relocations as far as they are for code and name sections. The rest stays
    in `origin`. `WireError` where the device that is asked for is unknown.
    """
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
    """The samplers whose symbols stand before that of a kernel, behind that of the kernel before it."""
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
    """The relocation of a kernel whose code begins at `start` of .hsatext; None for types that are not for code."""
    if entry.type not in (LOW, HIGH, WHOLE):
        return None
    index, addend = entry.symbol.section, entry.symbol.value + entry.addend
    section = inner.sections[index].name if index < len(inner.sections) else ""
    return CodeRelocation(entry.offset - start, section, addend, entry.type == HIGH, entry.type == WHOLE)
