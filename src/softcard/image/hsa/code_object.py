"""AMD HSA code objects: V1 and V2 (amd_kernel_code_t), V3 to V6 (kernel descriptors), and mesa3d objects.

`read_code_object` reads and checks a file. `CodeObject.load` returns its bytes as in device memory, relocated for a
base address. Launches depend on the kernel's header, never on metadata, so malformed metadata is only a warning.

The record layouts are in `image.hsa.records`. Sources: the ROCm Code Object document, "AMD Kernel Code Object", and
objects that LLVM wrote.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from softcard.core.display import RichDisplay, Rows, some
from softcard.core.errors import BeyondModel, SoftcardError, WireError, close_to
from softcard.core.files import text_of
from softcard.image.elf.layout import STT_FILE, STT_FUNC, STT_OBJECT, STT_SECTION
from softcard.image.elf.reader import Symbol, SymbolTable, wrong
from softcard.image.hsa import bundle, targets
from softcard.image.hsa.elf import STT_HSA_KERNEL, HsaElf
from softcard.image.hsa.loader import Layout, Loading, lay_out
from softcard.image.hsa.metadata import Described, KernelMetadata
from softcard.image.hsa.notes import NoteFacts, read_notes
from softcard.image.hsa.records import (
    ENTRY_ALIGNMENT,
    VGPR_GRANULE,
    Header,
    KernelCode,
    KernelDescriptor,
    Rsrc3,
    complaints,
)
from softcard.image.printf_format import PrintfFormat, read_formats
from softcard.isa.gcn.target import TARGETS, Target

OSABI_NONE: Final = 0
FIRST_WITH_SHORT_STRINGS: Final = 16
"""The first version of LLVM whose printf leaves out the final 0 of some strings."""
_CLANG: Final = re.compile(rb"clang version (\d+)")
OSABI_HSA: Final = 64
OSABI_PAL: Final = 65
OSABI_MESA3D: Final = 66
VERSIONS: Final = ("V2", "V3", "V4", "V5", "V6")
"""The code object version for each ABI version from 0 on; 0 also stands for V1."""
DESCRIPTOR_SUFFIX: Final = ".kd"


@dataclass(frozen=True)
class Kernel(RichDisplay):
    """A kernel of a code object. Addresses are relative to the first byte of the loaded image.

    `address` is the address of the kernel's header, to which kernel_object in a dispatch packet points. `entry`
    is the address of its first instruction. `described` holds the metadata of all kernels of the object."""

    name: str
    symbol: Symbol
    address: int
    entry: int
    header: Header
    described: Described = field(repr=False, compare=False)
    target: Target | None = field(default=None, repr=False, compare=False)
    """The processor for which the object was built, as Softcard models it; None if unknown."""

    def __repr__(self) -> str:
        return f"<kernel {self.name} at {self.address:#x} of its code object>"

    def rows(self) -> Rows:
        """Yield the rows of a table that shows the facts needed for a launch of the kernel."""
        yield ()
        yield "LDS", f"{self.group_bytes:,} bytes of a work-group"
        yield "private", f"{self.private_bytes:,} bytes of a work-item"
        yield "arguments", f"{self.kernarg_bytes:,} bytes"
        vectors = f"{self.vgprs} vector" + (f", {self.accs} accumulation" if self.accs else "")
        yield "registers", f"{vectors}, {self.header.compute_pgm_rsrc1.sgprs} scalar"
        for each in self.metadata.arguments if self.metadata else ():
            yield f"+{each.offset}", f"{each.name} {each.type_name} ({each.kind}, {each.size} bytes)"

    _rows = rows

    @cached_property
    def metadata(self) -> KernelMetadata | None:
        """The kernel's metadata, if the object has any."""
        symbol, described = self.symbol.name, self.described
        return described.get(symbol) or described.get(f"{symbol}@kd") or described.get(self.name)

    @property
    def rsrc3(self) -> Rsrc3 | None:
        """The word compute_pgm_rsrc3, if the processor has it (gfx90a and later)."""
        if self.target is None or not self.target.has_unified_registers or isinstance(self.header, KernelCode):
            return None
        return Rsrc3.parse(self.header.compute_pgm_rsrc3.to_bytes(4, "little"))

    @property
    def vgprs(self) -> int:
        """The number of vector registers of a work-item, without accumulation registers."""
        count = self.header.compute_pgm_rsrc1.vgprs(VGPR_GRANULE if self.target is None else self.target.vgpr_granule)
        return count if self.rsrc3 is None else min(count, self.rsrc3.accum_offset)

    @property
    def accs(self) -> int:
        """The number of accumulation registers of a work-item, allocated together with its vector registers."""
        if self.target is None or self.rsrc3 is None:
            return 0
        return self.header.compute_pgm_rsrc1.vgprs(self.target.vgpr_granule) - self.vgprs

    @property
    def group_bytes(self) -> int:
        """The size in bytes of the LDS that the kernel statically allocates for a work-group."""
        if isinstance(self.header, KernelCode):
            return self.header.workgroup_group_segment_byte_size
        return self.header.group_segment_fixed_size

    @property
    def private_bytes(self) -> int:
        """The size in bytes of the private memory that the kernel statically allocates for a work-item."""
        if isinstance(self.header, KernelCode):
            return self.header.workitem_private_segment_byte_size
        return self.header.private_segment_fixed_size

    @property
    def kernarg_bytes(self) -> int:
        """The size of the kernarg segment in bytes.

        Old tools write 0 into kernel descriptors; in that case it is the size in the metadata.
        """
        if isinstance(self.header, KernelCode):
            return self.header.kernarg_segment_byte_size
        return self.header.kernarg_size or (self.metadata.kernarg_size if self.metadata else 0)

    @property
    def is_ptr64(self) -> bool:
        """True if the kernel's pointers have 64 bits; always True for kernels with a kernel descriptor."""
        if isinstance(self.header, KernelCode):
            return bool(self.header.kernel_code_properties.is_ptr64)
        return True

    @property
    def uses_dynamic_stack(self) -> bool:
        """True if the kernel has a dynamic call stack, so that `private_bytes` is only a lower bound."""
        if isinstance(self.header, KernelCode):
            return bool(self.header.kernel_code_properties.is_dynamic_callstack)
        return bool(self.header.kernel_code_properties.uses_dynamic_stack)


@dataclass(frozen=True, slots=True, eq=False)
class SymbolAddresses(Mapping[str, int]):
    """The addresses of the symbols of a code object at `base`; its symbol table is read on first use."""

    code: CodeObject = field(repr=False)
    base: int

    def __getitem__(self, name: str) -> int:
        return self.base + self.code.places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.code.places)

    def __len__(self) -> int:
        return len(self.code.places)


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """A code object loaded at `base`: addresses of kernel headers (`kernels`) and all symbols (`symbols`)."""

    base: int
    loading: Loading = field(repr=False)
    kernels: Mapping[str, int]
    symbols: Mapping[str, int] = field(repr=False)

    @property
    def data(self) -> bytearray:
        """The loaded bytes from `base` on, made on first use."""
        return self.loading.data

    def pieces(self) -> Iterator[tuple[int, bytes | bytearray | memoryview]]:
        """Yield pairs of an address and the bytes to write there; the caller writes them in this order.

        The memory then has the content of `data`, which is not built for an object without relocations."""
        return ((self.base + place, data) for place, data in self.loading.pieces())


@dataclass(frozen=True)
class CodeObject(RichDisplay):
    """A parsed code object. `version` is "V1" to "V6" or "mesa3d"; `target` is a processor (``gfx803``) or "".

    `features` maps ``xnack`` and ``sramecc`` to "on", "off" or "any" if the object determines them. `missing` are the
    names of symbols whose addresses the caller must pass to `load`. `odd` has warnings about kernels that are left out
    and about an ambiguous target.
    """

    elf: HsaElf = field(repr=False)
    layout: Layout = field(repr=False)
    version: str
    target: str
    features: Mapping[str, str]
    notes: NoteFacts = field(repr=False)
    described: Described = field(repr=False)
    kernels: Mapping[str, Kernel]
    missing: tuple[str, ...]
    odd: tuple[str, ...] = field(repr=False)

    @property
    def flagged(self) -> str:
        """The processor that e_flags name if it differs from `target`; else ""."""
        name, _ = targets.of_flags(self.elf.header.flags, self.elf.header.abi_version)
        is_same = name == self.target or targets.WITH_XNACK.get(self.target) == name
        return "" if is_same or not self.target else name

    def __repr__(self) -> str:
        target = self.target or "any processor"
        return f"<code object {self.version} for {target}: {some(self.kernels, 'no kernels')}>"

    def rows(self) -> Rows:
        """Yield the rows of a table that shows the object's kernels."""
        yield "kernel", "arguments", "LDS", "private", "vector registers"
        for each in self.kernels.values():
            yield each.name, each.kernarg_bytes, each.group_bytes, each.private_bytes, each.vgprs

    _rows = rows

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """The problems in the file, and in its kernels' metadata and headers, that do not affect execution."""
        complaints = _complaints(self.kernels.values(), self.version, self.target, self.layout.size)
        return (*self.elf.warnings, *self.notes.warnings, *self.described.problems, *self.odd, *complaints)

    @cached_property
    def formats(self) -> Mapping[int, PrintfFormat]:
        """The printf formats of kernels, by number."""
        lines = [line for document in self.notes.msgpack for line in document.get("amdhsa.printf") or ()]
        lines += [line for document in self.notes.yaml for line in document.get("Printf") or ()]
        comments = [bytes(self.elf.contents(each)) for each in self.elf.named_sections() if each.name == ".comment"]
        versions = _CLANG.findall(b"".join(comments))
        return read_formats(lines, short_strings=any(int(each) >= FIRST_WITH_SHORT_STRINGS for each in versions))

    def kernel(self, name: str) -> Kernel:
        """Return the kernel named `name`, or the kernel of the only C++ function with that name.

        Raise a `WireError` that lists similar names if there is no such kernel."""
        found = self.kernels.get(text_of(name, "a kernel's name")) or self._of_cpp(name)
        if found is None:
            hint = close_to(name, self.kernels) or f", it has {', '.join(self.kernels) or 'none'}"
            raise WireError(f"the code object has no kernel {name!r}{hint}")
        return found

    def _of_cpp(self, name: str) -> Kernel | None:
        """Return the kernel of the C++ function named `name`, with any parameters.

        Return None if no kernel or several kernels have that function name."""
        found = [each for each in self.kernels if each.startswith(f"_Z{len(name)}{name}")]
        return self.kernels[found[0]] if len(found) == 1 else None

    def load(self, base: int, externals: Mapping[str, int] | None = None) -> LoadedCode:
        """Return the code object loaded and relocated at `base`, a multiple of 4 KiB.

        `externals` gives the addresses of symbols (agent and program globals) that the object does not define. Raise
        `WireError` if one is missing.
        """
        if base & 0xFFF:
            raise WireError(f"base is {base:#x}, expected a multiple of 4 KiB")
        loading = Loading(self.elf, self.layout, base, externals or {})
        kernels = {name: base + kernel.address for name, kernel in self.kernels.items()}
        return LoadedCode(base, loading, kernels, SymbolAddresses(self, base))

    @cached_property
    def labels(self) -> Mapping[int, str]:
        """The names of labels inside functions, by address relative to the base.

        A label is a symbol without a type that is local or lies within a function's extent. A local symbol past the end
        of the preceding function is not a label, but separate code.
        """
        placed = [(place, each) for each in _symbols(self.elf) if (place := self.layout.place(each)) is not None]
        sizes = {place: each.size for place, each in placed if each.kind in (STT_FUNC, STT_HSA_KERNEL)}
        for kernel in self.kernels.values():
            if isinstance(kernel.header, KernelCode):
                sizes.setdefault(kernel.address, kernel.symbol.size)
            else:
                sizes.setdefault(kernel.entry, 0)
        starts = sorted(sizes)
        heads = {at for kernel in self.kernels.values() for at in (kernel.address, kernel.entry)} | sizes.keys()
        found: dict[int, str] = {}
        for place, symbol in placed:
            index = bisect_right(starts, place) - 1
            start = starts[index] if index >= 0 else place
            size = sizes.get(start, 0)
            is_inside = start < place < start + size or (symbol.binding == 0 and not size)
            if symbol.kind == 0 and place not in heads and is_inside:
                found.setdefault(place, symbol.name)
        return found

    @cached_property
    def functions(self) -> Mapping[str, int]:
        """The addresses of functions that are not kernels, relative to the base, by name."""
        taken = {at for kernel in self.kernels.values() for at in (kernel.address, kernel.entry)}
        placed = {each.name: self.layout.place(each) for each in _symbols(self.elf) if each.kind == STT_FUNC}
        return {name: at for name, at in placed.items() if at is not None and at not in taken}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The addresses of symbols relative to the base; for equal names, a global symbol takes precedence."""
        found: dict[str, int] = {}
        for symbol in sorted(_symbols(self.elf), key=lambda each: each.is_global):
            place = self.layout.place(symbol)
            if place is not None and 0 <= place < self.layout.size:
                found[symbol.name] = place
        return found


def read_code_object(
    data: bytes, processor: str = "", *, settings: Mapping[str, str] = bundle.NO_SETTINGS, or_only: bool = False
) -> CodeObject:
    """Return the code object in `data`, the bytes of a file.

    If they are or contain an offload bundle (as host programs, libraries and objects of HIP do), return the entry for
    `processor` with these `settings` of features; see `bundle.pick`. Raise `WireError` with the byte offset of the
    first error, and `BeyondModel` for objects of PAL.
    """
    if bundle.holds_bundles(data):
        entry = bundle.pick(data, processor, settings=settings, or_only=or_only)
        try:
            return _read(entry.content)
        except SoftcardError as error:
            raise error.at("bundle entry", entry.name) from None
    return _read(data)


def _read(data: bytes) -> CodeObject:
    elf = HsaElf(data)
    notes = read_notes(elf.notes)
    version = _version(elf, notes)
    layout = lay_out(elf, version)
    missing: list[str] = []
    loading = Loading(elf, layout, 0, {}, missing)
    warnings: list[str] = []
    described = Described(notes.yaml, notes.msgpack)
    kernels = {kernel.name: kernel for kernel in _kernels(elf, loading, version, described, warnings)}
    target, features = _target(elf, notes, kernels, warnings)
    if known := TARGETS.get(targets.read_as(target)):
        kernels = {name: replace(kernel, target=known) for name, kernel in kernels.items()}
    return CodeObject(
        elf, layout, version, target, features, notes, described, kernels, tuple(missing), tuple(warnings)
    )


def _version(elf: HsaElf, notes: NoteFacts) -> str:
    abi, version = elf.header.os_abi, elf.header.abi_version
    if abi == OSABI_MESA3D:
        return "mesa3d"
    if abi == OSABI_PAL:
        raise BeyondModel("code objects of PAL (EI_OSABI 65) are not modelled").at("byte", 7)
    first_generation = notes.version is not None and notes.version[0] == 1
    if abi == OSABI_NONE and notes.version is not None:
        return "V1" if first_generation else "V2"
    if abi != OSABI_HSA:
        raise wrong(f"EI_OSABI is {abi}, expected {OSABI_HSA} (AMD HSA) or {OSABI_MESA3D} (mesa3d)", 7)
    if version >= len(VERSIONS):
        raise BeyondModel(f"EI_ABIVERSION {version} is not supported: it is later than {VERSIONS[-1]}").at("byte", 8)
    return "V1" if version == 0 and first_generation else VERSIONS[version]


def _target(
    elf: HsaElf, notes: NoteFacts, kernels: Mapping[str, Kernel], warnings: list[str]
) -> tuple[str, dict[str, str]]:
    """Return the processor and features of a code object.

    Notes take precedence over e_flags, which some tools write wrongly.
    """
    flagged, features = targets.of_flags(elf.header.flags, elf.header.abi_version)
    named = next((each["amdhsa.target"] for each in notes.msgpack if isinstance(each.get("amdhsa.target"), str)), "")
    name, more = targets.of_name(notes.isa_name or named)
    if not name and notes.isa_version is not None:
        name = targets.of_version(*notes.isa_version)
    if not name and not flagged:
        for kernel in kernels.values():
            header = kernel.header
            if isinstance(header, KernelCode) and header.amd_machine_version_major:
                minor, stepping = header.amd_machine_version_minor, header.amd_machine_version_stepping
                name = targets.of_version(header.amd_machine_version_major, minor, stepping)
                break
    if flagged and targets.WITH_XNACK.get(name) == flagged:
        return flagged, features | more | {"xnack": "on"}
    if name and flagged and name != flagged:
        warnings.append(f"e_flags {elf.header.flags:#x} name {flagged}, but the notes name {name}")
    return name or flagged, features | more


def _complaints(kernels: Iterable[Kernel], version: str, target: str, size: int) -> Iterator[str]:
    """Yield messages about problems of kernel headers; headers for unknown processors are not checked in detail."""
    is_known = not target or targets.read_as(target) in TARGETS
    for kernel in kernels:
        found = complaints(kernel.header, is_finalized=version == "V1", target=kernel.target) if is_known else ()
        for text in found:
            yield f"kernel {kernel.name}: {text}"
        if not 0 <= kernel.entry < size:
            yield f"kernel {kernel.name}: its entry at {kernel.entry:#x} lies outside of the loaded bytes"
        elif kernel.entry % ENTRY_ALIGNMENT and is_known:
            yield f"kernel {kernel.name}: its entry at {kernel.entry:#x} must be a multiple of {ENTRY_ALIGNMENT}"


def _symbols(elf: HsaElf) -> Iterator[Symbol]:
    """Yield the named symbols of .symtab and .dynsym.

    Hidden symbols are only in .symtab; stripped files have only .dynsym.
    """
    for symbol in (*elf.symbols, *elf.dynamic_symbols):
        if symbol.name and symbol.is_defined and symbol.kind not in (STT_SECTION, STT_FILE):
            yield symbol


def _kernels(
    elf: HsaElf, loading: Loading, version: str, described: Described, warnings: list[str]
) -> Iterator[Kernel]:
    candidates = _described if version in VERSIONS[1:] else _with_code_header
    seen: set[str] = set()
    for symbol, place in candidates(elf, loading):
        if symbol.name in seen:
            continue
        seen.add(symbol.name)
        header = _header(loading, version, place)
        if header is None:
            warnings.append(f"kernel {symbol.name}: its header at {place:#x} lies outside of the loaded bytes")
            continue
        name = symbol.name.removesuffix(DESCRIPTOR_SUFFIX) if isinstance(header, KernelDescriptor) else symbol.name
        entry = place + header.kernel_code_entry_byte_offset
        yield Kernel(name, symbol, place, entry, header, described)


def _header(loading: Loading, version: str, place: int) -> Header | None:
    record: type[KernelCode] | type[KernelDescriptor] = KernelDescriptor if version in VERSIONS[1:] else KernelCode
    data = loading.read(place, record.size_bytes)
    return None if data is None else record.parse(data)


def _described(elf: HsaElf, loading: Loading) -> Iterator[tuple[Symbol, int]]:
    """Yield the symbol of each kernel descriptor (V3 and later), and its address.

    These are data symbols whose names end in .kd; old linkers give some of them size 0.
    """
    for table in (elf.symbols, elf.dynamic_symbols):
        named = table.ending(DESCRIPTOR_SUFFIX.encode())
        yield from _placed(loading, table, named[np.isin(table.kinds[named], (0, STT_OBJECT))])


def _with_code_header(elf: HsaElf, loading: Loading) -> Iterator[tuple[Symbol, int]]:
    """Yield the symbol of each kernel header of V1, V2 and mesa3d, and its address.

    These are symbols of the kernel type; without one, they are symbols at bytes that look like a kernel header.
    """
    tables = (elf.symbols, elf.dynamic_symbols)
    marked = [
        each for table in tables for each in _placed(loading, table, np.flatnonzero(table.kinds == STT_HSA_KERNEL))
    ]
    if marked:
        yield from marked
        return
    for table in tables:
        likely = np.flatnonzero(np.isin(table.kinds, (0, STT_OBJECT, STT_FUNC)))
        for symbol, place in _placed(loading, table, likely):
            if _looks_like_header(loading, place):
                yield symbol, place


def _placed(loading: Loading, table: SymbolTable, numbers: NDArray[np.intp]) -> Iterator[tuple[Symbol, int]]:
    """Yield each named symbol that has an address, and that address.

    Only the symbols of `table` with the numbers in `numbers` are considered.
    """
    for number in numbers.tolist():
        symbol = table[number]
        place = loading.layout.place(symbol)
        if symbol.name and place is not None:
            yield symbol, place


def _looks_like_header(loading: Loading, place: int) -> bool:
    data = None if place & 63 else loading.read(place, KernelCode.size_bytes)
    if data is None:
        return False
    code = KernelCode.parse(data)
    return (
        code.amd_kernel_code_version_major == 1
        and code.amd_kernel_code_version_minor <= 2
        and code.amd_machine_kind == 1
        and code.wavefront_size == 6
    )
