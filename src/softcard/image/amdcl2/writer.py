"""Writing of AMD OpenCL 2.0 containers of all generations, and replacement of code in program files.

A container is written from kernels, data, samplers and relocations. The order of sections and symbols, the
notes and the constants are as in files that drivers wrote. A program that was read from a file is written
with the same bytes, except for changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from softcard.core.errors import WireError
from softcard.image.amdcl2.container import (
    BINARY_PREFIX,
    BINARY_SUFFIX,
    BSS,
    GLOBAL,
    KERNEL_PREFIX,
    KERNEL_SUFFIX,
    METADATA_PREFIX,
    METADATA_SUFFIX,
    READ_ONLY,
    SAMPLER_PREFIX,
    SAMPLERS,
    STT_HSA_KERNEL,
    STT_HSA_SAMPLER,
    TEXT,
    Container,
    read_container,
)
from softcard.image.amdcl2.elf import Elf
from softcard.image.amdcl2.generations import GPU_PRO, Generation, device_codes, noted_version
from softcard.image.amdcl2.load import RELOCATIONS
from softcard.image.amdcl2.records import STUB_BYTES
from softcard.image.amdcl2.resizing import resized
from softcard.image.amdcl2.source import CodeRelocation, KernelSource, ProgramSource, source_of
from softcard.image.elf.layout import (
    MACHINE_AMDGPU,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_PROGBITS,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
    RelaEntry,
    layout_of,
)
from softcard.image.elf.reader import MAX_ALIGNMENT
from softcard.image.elf.writer import SHSTRTAB, ElfPlan, SectionPart, SegmentPart, SymbolWriter, note
from softcard.image.hsa.notes import IsaVersionNote, ProducerNote
from softcard.image.hsa.records import SGPR_GRANULE, VGPR_GRANULE, KernelCode
from softcard.isa.gcn.state import VGPRS

# ---- changed programs of the same sizes ------------------------------------------------------------------------------
# Changed programs whose sizes are those in their file: the changes are written into that file.


def rewritten(source: ProgramSource) -> bytes | None:
    """Return the bytes of the file from which the program was read, with the program's changes written into them.

    Return None if that is impossible, for example because a changed part has another size than in the file."""
    origin = source.origin
    if origin is None:
        return None
    before = source_of(origin)
    if source == before:
        return origin.elf.data
    if [kernel.name for kernel in source.kernels] != [kernel.name for kernel in before.kernels]:
        return None
    out = bytearray(origin.elf.data)
    old, new = (list(_pieces(each, origin)) for each in (before, source))
    for (place, was), (_, now) in zip(old, new, strict=True):
        if len(was) != len(now):
            return None
        if was != now:
            out[place : place + len(now)] = now
    try:  # changes outside of all pieces, or in several, do not read back
        return bytes(out) if source_of(read_container(bytes(out))) == source else None
    except WireError:
        return None


def _pieces(source: ProgramSource, origin: Container) -> Iterator[tuple[int, bytes]]:
    """Yield each part of the program that the file stores separately: its offset in the file, and its bytes."""
    for kernel in source.kernels:
        yield from _kernel_pieces(kernel, origin)
    sections: list[tuple[Elf | None, str, bytes]] = [
        (origin.elf, ".brig", source.brig),
        (origin.inner, READ_ONLY, source.read_only),
        (origin.inner, GLOBAL, source.global_data),
        (origin.inner, SAMPLERS, b"".join(each.pack() for each in source.samplers)),
    ]
    for elf, name, data in sections:
        yield (elf.base + elf.extent(elf.section(name))[0] if elf is not None else 0), data


def _kernel_pieces(kernel: KernelSource, origin: Container) -> Iterator[tuple[int, bytes]]:
    place = origin.kernels[kernel.name].place
    yield place - len(kernel.stub), kernel.stub
    yield place, kernel.header.pack()
    yield place + kernel.header.kernel_code_entry_byte_offset, kernel.code
    yield origin.metadata_bytes(kernel.name)[1], kernel.metadata


# ---- containers ------------------------------------------------------------------------------------------------------


VERSION_OLD: Final = "AMD-COMP-LIB-v0.8 (0.0.326)"
VERSION_NEW: Final = "AMD-COMP-LIB-v0.8 (0.0.SC_BUILD_NUMBER)"
STT_OBJECT, STT_FUNC, STT_SECTION = 1, 2, 3
STB_GLOBAL: Final = 1
ALLOC, EXECUTE, MERGE, STRINGS = 2, 4, 0x10, 0x20
PT_GLOBAL, PT_READ_ONLY, PT_CODE = 0x60000001, 0x60000002, 0x60000003
FLAGS: Final = {GLOBAL: 0x900003, BSS: 0x900003, READ_ONLY: 0xA00003, TEXT: 0xC00007}
OS_ABI_HSA: Final = 0x40
PRODUCER: Final = b"AMD HSA Runtime Finalizer"
GPU_PRO_DRIVERS: Final = (GPU_PRO, 207903)
WAY_OUT: Final = "changes must keep all sizes, or drop the file with origin=None"

__all__ = ["CodeRelocation", "KernelSource", "ProgramSource", "source_of", "write_container"]


def write_container(source: ProgramSource) -> bytes:
    """Return the bytes of a container for a program.

    An unchanged program gives the bytes of the file from which it was read. Changes that keep all sizes are
    written into these bytes. If sizes change, the rest of the file is moved. For any other change (other kernels,
    names or samplers, another device) a new file is built. Raise `WireError` for features that the driver or the
    device does not have, and if a new file would lose data that a `ProgramSource` cannot hold."""
    if source.origin is None:
        return _built(source)
    found = rewritten(source)
    if found is not None:
        return found
    try:
        return resized(source, source.origin)
    except WireError as error:
        _check_whole(source.origin, error)
    return _built(source)


def _check_whole(origin: Container, reason: WireError) -> None:
    """Raise a `WireError` if building a new file would lose data of `origin`.

    `reason` is the error that prevented changing the existing file, which would have kept the data."""
    data = origin.elf.data
    try:
        built = _built(source_of(origin))
    except WireError as error:
        text = f"the file cannot be rebuilt: {error.message}, and its contents cannot"
        raise WireError(f"{text} be moved ({reason.message}); {WAY_OUT}") from None
    if built != data:
        pairs = enumerate(zip(built, data, strict=False))
        byte = next((n for n, (ours, theirs) in pairs if ours != theirs), min(len(built), len(data)))
        text = "the file has data that the source does not describe, from this byte on, and such data cannot"
        text = f"{text} be moved ({reason.message}); {WAY_OUT}"
        raise WireError(text).at("byte", byte)


def _built(source: ProgramSource) -> bytes:
    """Return the bytes of a program file for `source` that does not reuse the bytes of an existing file.

    Raise `WireError` for a device, an address size, data or samplers that the driver does not support."""
    codes = device_codes(source.driver)
    if source.device not in codes and source.as_read is None:
        raise WireError(f"driver {source.driver} does not support device {source.device!r}, only {', '.join(codes)}")
    if source.bits not in (32, 64):
        raise WireError(f"the program has {source.bits} bits, expected 32 or 64")
    has_data = source.read_only or source.global_data or source.bss_bytes or source.samplers
    if has_data and not source.generation.has_inner_elf:
        raise WireError(f"driver {source.driver} does not support global data and samplers: use 191205 or later")
    if len(source.sampler_offsets) != len(source.samplers):
        raise WireError(f"there are {len(source.samplers)} samplers, but {len(source.sampler_offsets)} sampler_offsets")
    if any(offset + 8 > len(source.read_only) for offset in source.sampler_offsets):
        raise WireError(
            f"an offset in sampler_offsets lies outside the {len(source.read_only)} bytes of read-only data, expected "
            "8 bytes in it"
        )
    alignment = source.bss_alignment
    if alignment & alignment - 1 or alignment > MAX_ALIGNMENT:
        raise WireError(f"bss_alignment is {alignment:#x}, expected a power of two up to {MAX_ALIGNMENT:#x}")
    return _outer(source)


def _outer(source: ProgramSource) -> bytes:
    """Return the bytes of the outer ELF file.

    For a program without kernels, driver 15.7 writes neither .rodata nor .text.
    """
    text = _inner(source) if source.generation.has_inner_elf else _old_text(source)
    rodata = b"".join(kernel.metadata for kernel in source.kernels)
    if not source.generation.has_inner_elf:
        rodata += b"".join(kernel.isa_metadata for kernel in source.kernels)
    options, version = source.compile_options.encode(), _version(source)
    parts = [SectionPart(".comment", SHT_PROGBITS, options + version)]
    if source.kernels or source.generation.has_inner_elf:
        parts.append(SectionPart(".rodata", SHT_PROGBITS, rodata, ALLOC))
        parts.append(SectionPart(".text", SHT_PROGBITS, text, ALLOC | EXECUTE))
    if source.brig:
        parts.append(SectionPart(".brig", SHT_PROGBITS, source.brig, alignment=_brig_alignment(source)))
    symbols = _outer_symbols(source, len(options), len(version), len(parts) + 3)
    entry_bytes = layout_of(source.bits).symbol.size_bytes
    sections = [
        SectionPart(SHSTRTAB, SHT_STRTAB, flags=STRINGS),
        SectionPart(".strtab", SHT_STRTAB, bytes(symbols.names), STRINGS),
        SectionPart(".symtab", SHT_SYMTAB, bytes(symbols.table), 0, 8, entry_bytes, ".strtab"),
        *parts,
    ]
    machine = 0xAF5B if source.bits == 64 else 0xAF5A
    as_read = source.as_read
    code = as_read.elf.header.flags if as_read is not None else device_codes(source.driver)[source.device]
    return ElfPlan(source.bits, machine, 2, code, tuple(sections)).pack()


def _brig_alignment(source: ProgramSource) -> int:
    """Return the alignment of the HSAIL section.

    A program that was read from a file keeps the file's alignment (1, 2, 4, 8 or 16); otherwise the alignment is
    1."""
    section = source.origin.elf.section(".brig") if source.origin is not None else None
    return section.header.addralign if section is not None and section.header.addralign in (1, 2, 4, 8, 16) else 1


def _version(source: ProgramSource) -> bytes:
    default = VERSION_NEW if source.generation.has_inner_elf else VERSION_OLD
    return (source.version or default).encode()


def _outer_symbols(source: ProgramSource, options: int, version: int, brig: int) -> SymbolWriter:
    """Return the symbol table of the outer file; `options` and `version` are text lengths in bytes.

    `brig` is the section number of the HSAIL.
    """
    symbols = SymbolWriter(source.bits)
    if options:
        symbols.add("__OpenCL_compiler_options", 4, 0, options, STT_OBJECT)
    place = 0
    for kernel in source.kernels:
        size = len(kernel.metadata)
        symbols.add(f"{METADATA_PREFIX}{kernel.name}{METADATA_SUFFIX}", 5, place, size, STT_OBJECT)
        place += size
    if source.brig:
        symbols.add("__BRIG__", brig, 0, len(source.brig), STT_OBJECT)
    at = 0
    for kernel in () if source.generation.has_inner_elf else source.kernels:
        size = len(_old_kernel(kernel))
        symbols.add(f"{BINARY_PREFIX}{kernel.name}{BINARY_SUFFIX}", 6, at, size, STT_FUNC)
        extra = len(kernel.isa_metadata)
        symbols.add(f"{BINARY_PREFIX}{kernel.name}{METADATA_SUFFIX}", 5, place, extra, STT_OBJECT)
        at, place = at + size, place + extra
    symbols.add("acl_version_string", 4, options, version, STT_OBJECT)
    return symbols


# ---- driver 15.7 -------------------------------------------------------------------------------------------------


def _old_kernel(kernel: KernelSource) -> bytes:
    stub = kernel.stub or STUB_BYTES.to_bytes(4, "little").ljust(STUB_BYTES, b"\0")
    return stub + _object(kernel)


def _object(kernel: KernelSource) -> bytes:
    """Return a kernel's code object header and its code."""
    return kernel.header.pack().ljust(kernel.header.kernel_code_entry_byte_offset, b"\0") + kernel.code


def _old_text(source: ProgramSource) -> bytes:
    return b"".join(_old_kernel(kernel) for kernel in source.kernels)


# ---- the inner file ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Placed:
    """The code of all kernels as one sequence of bytes, and the offset of each kernel in it."""

    data: bytes
    places: tuple[int, ...]


def _code(source: ProgramSource) -> _Placed:
    out, places = bytearray(), []
    for kernel in source.kernels:
        out += bytes(-len(out) % 256)
        places.append(len(out))
        out += _object(kernel)
    return _Placed(bytes(out), tuple(places))


def _data_sections(source: ProgramSource) -> Iterator[SectionPart]:
    if source.global_data:
        yield SectionPart(GLOBAL, SHT_PROGBITS, source.global_data, FLAGS[GLOBAL], 8, is_loaded=True)
    if source.bss_bytes:
        alignment = max(source.bss_alignment, 1)
        yield SectionPart(BSS, SHT_NOBITS, b"", FLAGS[BSS], alignment, bss_bytes=source.bss_bytes, is_loaded=True)
    if source.read_only:
        yield SectionPart(READ_ONLY, SHT_PROGBITS, source.read_only, FLAGS[READ_ONLY], 8, is_loaded=True)


def _inner(source: ProgramSource) -> bytes:
    """Return the inner ELF file.

    Symbols need the numbers of sections, so sections are planned before symbols are written.
    """
    is_late = source.generation is Generation.CRIMSON_16_4
    code = _code(source)
    data = [*_data_sections(source)]
    if source.kernels:
        data.append(SectionPart(TEXT, SHT_PROGBITS, code.data, FLAGS[TEXT], 256, is_loaded=True))
    plan = _arranged(source, data, SymbolWriter(64, is_late), b"", b"")
    symbols, section_symbols, first_sampler = _inner_symbols(source, plan, code, is_late)
    samplers = b"".join(
        RelaEntry(offset=offset, type=4, symbol=first_sampler + n, addend=0).pack()
        for n, offset in enumerate(source.sampler_offsets)
    )
    return _arranged(source, data, symbols, _code_relocations(source, code, section_symbols), samplers).pack()


def _arranged(
    source: ProgramSource, data: list[SectionPart], symbols: SymbolWriter, code: bytes, samplers: bytes
) -> ElfPlan:
    is_late = source.generation is Generation.CRIMSON_16_4
    alignment = 8 if is_late else 1
    names = SectionPart(SHSTRTAB, SHT_STRTAB, flags=STRINGS, alignment=alignment)
    strings = SectionPart(".strtab", SHT_STRTAB, bytes(symbols.names), STRINGS, alignment)
    notes = SectionPart(".note", SHT_NOTE, _note_bytes(source), 0, 8)
    table = SectionPart(".symtab", SHT_SYMTAB, bytes(symbols.table), 0, 8, 24, ".strtab")
    extras = []
    if source.samplers:
        init = b"".join(each.pack() for each in source.samplers)
        extras.append(SectionPart(SAMPLERS, SHT_PROGBITS, init, MERGE, alignment, 8))
        extras.append(SectionPart(f".rela{READ_ONLY}", SHT_RELA, samplers, 0, 8, 24, ".symtab", READ_ONLY))
    if any(kernel.relocations for kernel in source.kernels):
        extras.append(SectionPart(f".rela{TEXT}", SHT_RELA, code, 0, 8, 24, ".symtab", TEXT))
    if is_late:
        sections = [names, strings, notes, *data, table, *extras]
    else:
        sections = [*data, *extras, notes, strings, table, names]
    return ElfPlan(64, MACHINE_AMDGPU, 1, 0, tuple(sections), tuple(_segments(source, is_late)), OS_ABI_HSA)


def _segments(source: ProgramSource, is_late: bool) -> Iterator[SegmentPart]:
    written = tuple(name for name, has in ((GLOBAL, source.global_data), (BSS, source.bss_bytes)) if has)
    if not source.kernels:
        return
    if written:
        yield SegmentPart(PT_GLOBAL, 6, written)
    if source.read_only:
        yield SegmentPart(PT_READ_ONLY, 6, (READ_ONLY,))
    yield SegmentPart(PT_CODE, 5 if is_late else 6, (TEXT,))


def _inner_symbols(
    source: ProgramSource, plan: ElfPlan, code: _Placed, is_late: bool
) -> tuple[SymbolWriter, dict[str, int], int]:
    """Return the symbol table of the inner ELF file, and the symbol numbers to which relocations refer.

    `is_late` is True from driver 2004.06 on, whose files begin the table with a null symbol. The second
    result maps sections to the numbers of their section symbols. The third is the number of the first
    sampler's symbol."""
    symbols = SymbolWriter(64, is_late)
    waiting = dict(enumerate(source.sampler_offsets))
    for kernel, place in zip(source.kernels, code.places, strict=True):
        _sampler_slots(symbols, {n: waiting.pop(n) for n in kernel.samplers if n in waiting}, plan)
        name = f"{KERNEL_PREFIX}{kernel.name}{KERNEL_SUFFIX}"
        size = len(_object(kernel))
        symbols.add(name, plan.index(TEXT), place, size, STT_HSA_KERNEL, STB_GLOBAL)
    _sampler_slots(symbols, waiting, plan)
    numbers = {}
    for section in (GLOBAL, BSS, READ_ONLY, TEXT):
        if plan.index(section):
            numbers[section] = symbols.add(f"__hsa_section{section}", plan.index(section), 0, 0, STT_SECTION)
    first = symbols.count
    for number in range(len(source.samplers)):
        symbols.add("", plan.index(SAMPLERS), 8 * number, 0, STT_HSA_SAMPLER)
    return symbols, numbers, first


def _sampler_slots(symbols: SymbolWriter, offsets: Mapping[int, int], plan: ElfPlan) -> None:
    """Add a symbol for each word of the read-only data into which the loader stores a sampler's address.

    `offsets` maps the number of a sampler to the offset of its word."""
    for number, offset in offsets.items():
        symbols.add(f"{SAMPLER_PREFIX}{number}", plan.index(READ_ONLY), offset, 8, STT_OBJECT)


def _code_relocations(source: ProgramSource, code: _Placed, numbers: dict[str, int]) -> bytes:
    out = b""
    for kernel, place in zip(source.kernels, code.places, strict=True):
        start = place + kernel.header.kernel_code_entry_byte_offset
        for each in kernel.relocations:
            size = RELOCATIONS[each.type][0]
            where = f"kernel {kernel.name}: the relocation at {each.offset:#x} of the code"
            if each.section not in numbers:
                raise WireError(f"{where} refers to section {each.section!r}, expected one of {', '.join(numbers)}")
            if each.offset + size > len(kernel.code):
                raise WireError(f"{where} has {size} bytes, expected an end in the {len(kernel.code):#x} of the code")
            out += RelaEntry(
                offset=start + each.offset, type=each.type, symbol=numbers[each.section], addend=each.addend
            ).pack()
    return out


def _note_bytes(source: ProgramSource) -> bytes:
    """Return the bytes of the note section.

    If the program was read from a file, its notes are kept, since they may hold contents of the driver's memory
    that newly made notes would not have."""
    inner = source.as_read.inner if source.as_read is not None else None
    kept = inner.contents(inner.section(".note")) if inner is not None else b""
    return kept or b"".join(_notes(source))


def _notes(source: ProgramSource) -> Iterator[bytes]:
    """Yield the bytes of each note; early drivers write notes in another order and with other padding."""
    is_late = source.generation is Generation.CRIMSON_16_4
    wide = source.bits == 64
    major, minor, stepping = source.isa_version or noted_version(source.device, source.driver)
    isa = IsaVersionNote(vendor_name_size=4, architecture_name_size=7, major=major, minor=minor, stepping=stepping)
    named = isa.pack() + b"AMD\0AMDGPU"
    yield note("AMD", 1, (1).to_bytes(8, "little"))
    yield note("AMD", 2, (1).to_bytes(8, "little") + bytes([1, wide, 1, 0]))
    if not is_late:
        text = b"-hsa_call_convention=\0\0" if wide else b"-hsa_call_convention=0 -use-buffer-for-hsa-globa"
        size = b"\x16\0" if wide else b"\x31\0"
        yield note("AMD", 5, size + text.ljust(23 if wide else 50, b"\0"))
        yield note("AMD", 3, named + bytes(4))
        yield note("AMD", 4, source.producer_note or bytes(8 if wide else 4))
        return
    yield note("AMD", 3, named)
    producer = ProducerNote(name_size=len(PRODUCER), padding=0, major=1, minor=0).pack() + PRODUCER + bytes(4)
    yield note("AMD", 4, producer)
    if source.driver in GPU_PRO_DRIVERS:
        yield note("AMD", 5, b"\x16\0-hsa_call_convention=0\0t")
    elif wide:
        yield note("AMD", 5, b"\x16\0-hsa_call_convention=0\0\0")
    else:
        yield note("AMD", 5, b"\x32\0-hsa_call_convention=0 -use-buffer-for-hsa-global \0R")


# ---- replacement of machine code -------------------------------------------------------------------------------------
# Replacement of a kernel's machine code in a program file; everything else in the file stays.


WORD: Final = 4
MOST_SGPRS: Final = 104
"""The largest number of scalar registers that a wave can have on every processor, VCC included."""


def patched(container: Container, kernel: str, code: bytes, *, vgprs: int = 0, sgprs: int = 0) -> bytes:
    """Return the bytes of a program file in which the machine code of a kernel is replaced by `code`, of any size.

    `vgprs` and `sgprs` are the numbers of registers that the code needs; `sgprs` includes VCC and other special
    registers. A number that is larger than the one in the kernel's header replaces it. Relocations keep their
    offsets, so the code must be unchanged up to the last relocated word. Raise `WireError` for code that the file
    cannot hold."""
    if not code or len(code) % WORD:
        raise WireError(f"the code has {len(code)} bytes, expected a positive multiple of {WORD}")
    name = container.kernel(kernel).name
    source = source_of(container)
    kernels = tuple(_patched(each, code, vgprs, sgprs) if each.name == name else each for each in source.kernels)
    return write_container(replace(source, kernels=kernels))


def _patched(kernel: KernelSource, code: bytes, vgprs: int, sgprs: int) -> KernelSource:
    places = [(each.offset, 8 if each.whole else 4) for each in kernel.relocations]
    end = max((at + width for at, width in places), default=0)
    kept = bytearray(code)
    for at, width in places:
        kept[at : at + width] = kernel.code[at : at + width]  # the assembled text has the loaded addresses here
    if kept[:end] != kernel.code[:end]:
        pairs = enumerate(zip(kept, kernel.code, strict=False))
        byte = next((n for n, (now, before) in pairs if now != before), len(code))
        text = f"the loader sets {len(places)} addresses in the code of {kernel.name}, the last at {places[-1][0]:#x}"
        raise WireError(f"{text}: the code must stay unchanged up to there").at("byte", byte, "of the code")
    return replace(kernel, code=bytes(kept), header=_with_registers(kernel.header, vgprs, sgprs))


def _with_registers(header: KernelCode, vgprs: int, sgprs: int) -> KernelCode:
    """Return `header` with the register counts raised to `vgprs` and `sgprs` where they are smaller.

    Raise `WireError` if a wave cannot have so many registers."""
    for count, most, what in ((vgprs, VGPRS, "vector"), (sgprs, MOST_SGPRS, "scalar")):
        if not 0 <= count <= most:
            raise WireError(f"the code needs {count} {what} registers, expected at most {most}")
    settings = header.compute_pgm_rsrc1
    if vgprs > settings.vgprs():
        settings = replace(settings, granulated_workitem_vgpr_count=-(-vgprs // VGPR_GRANULE) - 1)
    if sgprs > settings.sgprs:
        settings = replace(settings, granulated_wavefront_sgpr_count=-(-sgprs // SGPR_GRANULE) - 1)
    return replace(
        header,
        compute_pgm_rsrc1=settings,
        workitem_vgpr_count=max(header.workitem_vgpr_count, vgprs),
        wavefront_sgpr_count=max(header.wavefront_sgpr_count, sgprs),
    )
