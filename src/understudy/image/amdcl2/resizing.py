"""Programs that were read from a file and changed, where sizes change: the file with everything else in it, moved.

Code, headers, metadata, stubs, data, HSAIL, options and version may have any size, and relocations of kernels may be
others. What is not among them (symbols and sections of any kind, functions outside of kernels, notes, relocations of
data) stays as it stands in the file, and goes on to mean what it meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from understudy.image.amdcl2.container import (
    BINARY_PREFIX,
    BINARY_SUFFIX,
    BSS,
    GLOBAL,
    METADATA_PREFIX,
    METADATA_SUFFIX,
    READ_ONLY,
    SAMPLERS,
    TEXT,
    Container,
    read_container,
)
from understudy.image.amdcl2.elf import Elf
from understudy.image.amdcl2.relayout import (
    CannotKeepError,
    Piece,
    Rewrite,
    patched_relocation,
    patched_symbols,
    relaid,
)
from understudy.image.amdcl2.source import CodeRelocation, KernelSource, ProgramSource, code_relocation, source_of
from understudy.image.elf.layout import SHT_RELA, SHT_SYMTAB, RelaEntry

KERNEL_ALIGNMENT: Final = 256
MAX_PADDING: Final = 16
"""Largest alignment that is guessed from zeros between parts."""
STT_SECTION: Final = 3
RELA_BYTES: Final = RelaEntry.size_bytes
VERSION, OPTIONS = "acl_version_string", "__OpenCL_compiler_options"


def resized(source: ProgramSource, origin: Container) -> bytes:
    """The bytes of `origin` with what is other in the source; `CannotKeepError` where that cannot be."""
    before = source_of(origin)
    if not _is_same_shape(source, before):
        raise CannotKeepError("kernels, samplers or what they are for are others")
    rewrites = dict(_outer_rewrites(source, before, origin))
    if origin.inner is not None:
        text = origin.elf.section(".text")
        assert text is not None
        rewrites[text.index] = Rewrite(".text", b"", [Piece(0, 0, _inner(source, before, origin.inner, origin))])
    out = _relaid(origin.elf, rewrites, {}, {})
    found = read_container(out)
    if source_of(found) != source:
        raise CannotKeepError("what would be read again is something else")
    if found.outside != origin.outside:
        raise CannotKeepError("code outside of kernels would change")
    return out


def _is_same_shape(source: ProgramSource, before: ProgramSource) -> bool:
    def shape(program: ProgramSource) -> object:
        kernels = tuple((each.name, each.samplers) for each in program.kernels)
        return (
            kernels, program.device, program.driver, program.bits, len(program.samplers), program.sampler_offsets,
            program.isa_version, program.bss_alignment, bool(program.bss_bytes), program.producer_note,
        )  # fmt: skip

    return shape(source) == shape(before)


def _relaid(elf: Elf, rewrites: dict[int, Rewrite], tables: dict[int, bytes], sizes: dict[int, int]) -> bytes:
    """The file with sections written anew, and tables of relocations by number."""
    contents = {number: bytes(rewrite.data) for number, rewrite in rewrites.items()} | tables
    symbols = next((each for each in elf.sections if each.header.type == SHT_SYMTAB), None)
    if symbols is not None and elf.symbols:
        table = patched_symbols(elf, rewrites)
        contents[symbols.index] = table + elf.contents(symbols)[len(table) :]
    return relaid(elf, contents, sizes)


def _alignment(pieces: list[Piece], most: int) -> int:
    """What the starts of parts have in common, where zeros between them say that somebody aligned them."""
    ordered = sorted(pieces, key=lambda piece: piece.start)
    gaps = [later.start - first.end for first, later in pairwise(ordered)]
    if not any(gaps):
        return 1
    while most > 1 and (any(piece.start % most for piece in pieces) or max(gaps) >= most):
        most //= 2
    return most


def _rewrite(elf: Elf, number: int, pieces: list[Piece], most: int = MAX_PADDING, is_pinned: bool = False) -> Rewrite:
    section = elf.sections[number]
    anchors = [piece.start for piece in pieces]
    alignment = most if section.name == TEXT else _alignment(pieces, most)
    return Rewrite(section.name, elf.contents(section), pieces, anchors, alignment, is_pinned)


# ---- the outer file ----------------------------------------------------------------------------------------------


def _outer_rewrites(source: ProgramSource, before: ProgramSource, origin: Container) -> Iterator[tuple[int, Rewrite]]:
    elf, parts = origin.elf, {}
    for old, new in zip(before.kernels, source.kernels, strict=True):
        parts[f"{METADATA_PREFIX}{new.name}{METADATA_SUFFIX}"] = old.metadata, new.metadata
        if origin.inner is None:
            whole = _old_kernel(old, old), _old_kernel(new, old)
            parts[f"{BINARY_PREFIX}{new.name}{BINARY_SUFFIX}"] = whole
            parts[f"{BINARY_PREFIX}{new.name}{METADATA_SUFFIX}"] = old.isa_metadata, new.isa_metadata
    texts = {VERSION: (before.version, source.version), OPTIONS: (before.compile_options, source.compile_options)}
    parts |= {name: (was.encode(), now.encode()) for name, (was, now) in texts.items()}
    pieces: dict[int, list[Piece]] = {}
    for symbol in elf.symbols:
        if symbol.name in parts:
            was, now = parts.pop(symbol.name)
            end = symbol.value + symbol.size
            data = elf.contents(elf.sections[symbol.section])[symbol.value : end]
            if symbol.name in texts:  # the 0 behind a text, if there is one, is none of it
                end -= len(data) - len(was)
            if data[: end - symbol.value] != was:
                raise CannotKeepError(f"{symbol.name} holds more than is known of it")
            pieces.setdefault(symbol.section, []).append(Piece(symbol.value, end, now))
    if any(now != was for was, now in parts.values()):
        raise CannotKeepError(f"the file has no {', '.join(parts)}")
    brig = elf.section(".brig")
    if brig is not None:
        pieces[brig.index] = [Piece(0, brig.header.size, source.brig)]
    elif source.brig:
        raise CannotKeepError("the file has no .brig")
    for number, found in pieces.items():
        yield number, _rewrite(elf, number, found)


def _object(kernel: KernelSource, old: KernelSource) -> bytes:
    """Header and code. What stands between them stays."""
    entry = old.header.kernel_code_entry_byte_offset
    if kernel.header.kernel_code_entry_byte_offset != entry or entry != kernel.header.size_bytes:
        raise CannotKeepError(f"the code of kernel {kernel.name} does not follow its header")
    return kernel.header.pack() + kernel.code


def _old_kernel(kernel: KernelSource, old: KernelSource) -> bytes:
    return kernel.stub + _object(kernel, old)


# ---- the inner file ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A kernel's bytes in .hsatext, and whether its code or its relocations are others."""

    start: int
    code: int
    end: int
    is_changed: bool
    kernel: KernelSource
    old: KernelSource


def _inner(source: ProgramSource, before: ProgramSource, inner: Elf, origin: Container) -> bytes:
    stretches = []
    for old, new in zip(before.kernels, source.kernels, strict=True):
        found = origin.kernels[old.name]
        code = found.offset + found.header.kernel_code_entry_byte_offset
        is_changed = (len(old.code), old.relocations) != (len(new.code), new.relocations)
        stretches.append(_Stretch(found.offset, code, found.offset + found.size, is_changed, new, old))
    rewrites: dict[int, Rewrite] = {}
    text = inner.section(TEXT)
    if text is not None and stretches:
        pieces = [Piece(each.start, each.end, _object(each.kernel, each.old)) for each in stretches]
        is_whole = not any(each.start % KERNEL_ALIGNMENT for each in stretches)
        alignment = KERNEL_ALIGNMENT if is_whole else 4
        rewrites[text.index] = _rewrite(inner, text.index, pieces, alignment, bool(origin.outside))
    samplers = b"".join(each.pack() for each in source.samplers)
    for name, data in ((READ_ONLY, source.read_only), (GLOBAL, source.global_data), (SAMPLERS, samplers)):
        section = inner.section(name)
        if section is not None:
            kept = inner.contents(section)[len(samplers) :] if name == SAMPLERS else b""
            rewrites[section.index] = _data(name, inner.contents(section), data + kept)
        elif data:
            raise CannotKeepError(f"the file has no {name}")
    bss = inner.section(BSS)
    sizes = {bss.index: source.bss_bytes} if bss is not None else {}
    return _relaid(inner, rewrites, dict(_tables(inner, stretches, rewrites)), sizes)


def _data(name: str, old: bytes, new: bytes) -> Rewrite:
    """Data that may grow or get shorter at its end; places in it stay."""
    kept = min(len(old), len(new))
    return Rewrite(name, new[:kept] + old[kept:], [Piece(kept, len(old), new[kept:])])


def _tables(inner: Elf, stretches: list[_Stretch], rewrites: dict[int, Rewrite]) -> Iterator[tuple[int, bytes]]:
    """All tables of relocations. Those of a kernel whose code is other stand where its first one stood."""
    tables = [each for each in inner.sections if each.header.type == SHT_RELA]
    names = [each.name for each in tables]
    if len(set(names)) < len(names):
        raise CannotKeepError("two tables of relocations have one name")
    if f".rela{TEXT}" not in names and any(each.kernel.relocations for each in stretches):
        raise CannotKeepError("the file has no table for relocations of code")
    for section in tables:
        target = inner.section(section.name.removeprefix(".rela"))
        rewrite = rewrites.get(target.index) if target is not None else None
        changed = [each for each in stretches if each.is_changed] if section.name == f".rela{TEXT}" else []
        out, waiting = [], list(changed)
        for each in inner.relocations(section.name):
            stretch = next((one for one in changed if one.code <= each.offset < one.end), None)
            if stretch is None:
                entry = RelaEntry.parse(inner.data, each.place)
                out.append(patched_relocation(inner, entry, rewrite, rewrites))
            elif stretch in waiting:
                waiting.remove(stretch)
                out += _kernel_relocations(inner, section.name, stretch, rewrite)
        for stretch in waiting:
            out += _kernel_relocations(inner, section.name, stretch, rewrite)
        data = inner.contents(section)
        yield section.index, b"".join(entry.pack() for entry in out) + data[len(data) // RELA_BYTES * RELA_BYTES :]


def _kernel_relocations(inner: Elf, table: str, stretch: _Stretch, rewrite: Rewrite | None) -> list[RelaEntry]:
    """The relocations of a kernel with other code, by the symbols that they had or those of their sections."""
    assert rewrite is not None
    known: dict[tuple[str, int, int], tuple[int, int]] = {}
    for each in inner.relocations(table):
        if stretch.code <= each.offset < stretch.end:
            found = code_relocation(inner, each, stretch.code)
            if found is None:
                text = f"a relocation of type {each.type} at {each.offset:#x} cannot follow the code of kernel"
                raise CannotKeepError(f"{text} {stretch.kernel.name}")
            entry = RelaEntry.parse(inner.data, each.place)
            known[found.section, found.addend, found.type] = entry.symbol, entry.addend
    start = rewrite.place(stretch.start) + stretch.code - stretch.start
    out = []
    for wanted in stretch.kernel.relocations:
        symbol, addend = known.get((wanted.section, wanted.addend, wanted.type), (-1, wanted.addend))
        if symbol < 0:
            symbol = _section_symbol(inner, wanted)
        out.append(RelaEntry(offset=start + wanted.offset, type=wanted.type, symbol=symbol, addend=addend))
    return out


def _section_symbol(inner: Elf, relocation: CodeRelocation) -> int:
    for number, symbol in enumerate(inner.symbols):
        is_section = symbol.kind == STT_SECTION and not symbol.value and symbol.section < len(inner.sections)
        if is_section and inner.sections[symbol.section].name == relocation.section:
            return number
    raise CannotKeepError(f"the file has no symbol for {relocation.section}")
