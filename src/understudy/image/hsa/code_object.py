"""AMD HSA code objects: V1 and V2 (amd_kernel_code_t), V3 to V6 (kernel descriptors), and mesa3d objects.

`read_code_object` reads a file and checks it; `CodeObject.load` gives the bytes that a device sees, relocated for a
base address. What decides a launch comes from the kernel's header, never from metadata: metadata that is malformed
only gives a warning.

Layouts: `image.hsa.records`; sources: the ROCm Code Object document, "AMD Kernel Code Object", and LLVM's objects.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import BeyondModel, UnderstudyError, WireError, close_to
from understudy.core.shown import Rows, Shown, some
from understudy.core.sources import text_of
from understudy.image.elf.layout import STT_FILE, STT_FUNC, STT_OBJECT, STT_SECTION
from understudy.image.elf.reader import Symbol, SymbolTable, wrong
from understudy.image.hsa import bundle, targets
from understudy.image.hsa.elf import STT_HSA_KERNEL, HsaElf
from understudy.image.hsa.loader import Layout, Loading, lay_out
from understudy.image.hsa.metadata import Described, KernelMetadata
from understudy.image.hsa.notes import NoteFacts, read_notes
from understudy.image.hsa.records import Header, KernelCode, KernelDescriptor, complaints
from understudy.image.printf_format import PrintfFormat, read_formats
from understudy.isa.gcn.target import TARGETS

OSABI_NONE: Final = 0
FIRST_WITH_SHORT_STRINGS: Final = 16
"""The first version of LLVM that leaves the 0 of some strings out of what printf writes."""
_CLANG: Final = re.compile(rb"clang version (\d+)")
OSABI_HSA: Final = 64
OSABI_PAL: Final = 65
OSABI_MESA3D: Final = 66
VERSIONS: Final = ("V2", "V3", "V4", "V5", "V6")
"""Code object versions by ABI version; ABI version 0 is V1 as well."""
DESCRIPTOR_SUFFIX: Final = ".kd"


@dataclass(frozen=True)
class Kernel(Shown):
    """A kernel of a code object. Addresses count from the first byte of the loaded image.

    `address` is that of the header, which a dispatch packet calls kernel_object; `entry` that of the first instruction.
    `described` knows the metadata of the object's kernels.
    """

    name: str
    symbol: Symbol
    address: int
    entry: int
    header: Header
    described: Described = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<kernel {self.name} at {self.address:#x} of its code object>"

    def rows(self) -> Rows:
        """What a launch has to know of it, for a table."""
        yield ()
        yield "LDS", f"{self.group_bytes:,} bytes of a work-group"
        yield "private", f"{self.private_bytes:,} bytes of a work-item"
        yield "arguments", f"{self.kernarg_bytes:,} bytes"
        yield "registers", f"{self.header.compute_pgm_rsrc1.vgprs} vector, {self.header.compute_pgm_rsrc1.sgprs} scalar"
        for each in self.metadata.arguments if self.metadata else ():
            yield f"+{each.offset}", f"{each.name} {each.type_name} ({each.kind}, {each.size} bytes)"

    _rows = rows

    @cached_property
    def metadata(self) -> KernelMetadata | None:
        """What the object's metadata says of it."""
        symbol, described = self.symbol.name, self.described
        return described.get(symbol) or described.get(f"{symbol}@kd") or described.get(self.name)

    @property
    def group_bytes(self) -> int:
        """Static LDS of a work-group."""
        if isinstance(self.header, KernelCode):
            return self.header.workgroup_group_segment_byte_size
        return self.header.group_segment_fixed_size

    @property
    def private_bytes(self) -> int:
        """Private memory of a work-item, as far as it is known statically."""
        if isinstance(self.header, KernelCode):
            return self.header.workitem_private_segment_byte_size
        return self.header.private_segment_fixed_size

    @property
    def kernarg_bytes(self) -> int:
        """Size of the kernarg segment; descriptors of old tools say 0, then metadata decides."""
        if isinstance(self.header, KernelCode):
            return self.header.kernarg_segment_byte_size
        return self.header.kernarg_size or (self.metadata.kernarg_size if self.metadata else 0)

    @property
    def is_ptr64(self) -> bool:
        """Whether its pointers have 64 bits; those of kernels with descriptors always do."""
        if isinstance(self.header, KernelCode):
            return bool(self.header.kernel_code_properties.is_ptr64)
        return True

    @property
    def uses_dynamic_stack(self) -> bool:
        """Whether `private_bytes` is only a lower bound: "Dynamic call stack"."""
        if isinstance(self.header, KernelCode):
            return bool(self.header.kernel_code_properties.is_dynamic_callstack)
        return bool(self.header.kernel_code_properties.uses_dynamic_stack)


@dataclass(frozen=True, slots=True, eq=False)
class SymbolAddresses(Mapping[str, int]):
    """Addresses of the symbols of a code object at `base`; its table of symbols is read when one is asked for."""

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
    """A code object at `base`: `kernels` are addresses of headers, `symbols` of everything."""

    base: int
    loading: Loading = field(repr=False)
    kernels: Mapping[str, int]
    symbols: Mapping[str, int] = field(repr=False)

    @property
    def data(self) -> bytearray:
        """All bytes at `base`; made when they are asked for."""
        return self.loading.data

    def pieces(self) -> Iterator[tuple[int, bytes | bytearray | memoryview]]:
        """What is to be written where, in this order: then `data` are at `base`, without another copy of them."""
        return ((self.base + place, data) for place, data in self.loading.pieces())


@dataclass(frozen=True)
class CodeObject(Shown):
    """A code object that was read. `version` is "V1" to "V6" or "mesa3d", `target` a processor (``gfx803``) or "".

    `features` has "on", "off" or "any" for ``xnack`` and ``sramecc`` where the object says something. `missing` names
    symbols that must be given to `load`; `odd` says which kernels are left out and where the target is in doubt.
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

    def __repr__(self) -> str:
        target = self.target or "any processor"
        return f"<code object {self.version} for {target}: {some(self.kernels, 'no kernels')}>"

    def rows(self) -> Rows:
        """Its kernels, for a table."""
        yield "kernel", "arguments", "LDS", "private", "vector registers"
        for each in self.kernels.values():
            registers = each.header.compute_pgm_rsrc1.vgprs
            yield each.name, each.kernarg_bytes, each.group_bytes, each.private_bytes, registers

    _rows = rows

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is odd but does not matter for execution: of the file, of all kernels' metadata and headers."""
        complaints = _complaints(self.kernels.values(), self.version, self.target, self.layout.size)
        return (*self.elf.warnings, *self.notes.warnings, *self.described.problems, *self.odd, *complaints)

    @cached_property
    def formats(self) -> Mapping[int, PrintfFormat]:
        """The formats that kernels print by, by number."""
        lines = [line for document in self.notes.msgpack for line in document.get("amdhsa.printf") or ()]
        lines += [line for document in self.notes.yaml for line in document.get("Printf") or ()]
        comments = [bytes(self.elf.contents(each)) for each in self.elf.named_sections() if each.name == ".comment"]
        versions = _CLANG.findall(b"".join(comments))
        return read_formats(lines, short_strings=any(int(each) >= FIRST_WITH_SHORT_STRINGS for each in versions))

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name, or of the only C++ function of it; a `WireError` that says what is near."""
        found = self.kernels.get(text_of(name, "a kernel's name")) or self._of_cpp(name)
        if found is None:
            hint = close_to(name, self.kernels) or f": there are {', '.join(self.kernels) or 'none'}"
            raise WireError(f"code object has no kernel {name!r}{hint}")
        return found

    def _of_cpp(self, name: str) -> Kernel | None:
        """The kernel of a C++ function of that name, whatever its parameters, where there is one only."""
        found = [each for each in self.kernels if each.startswith(f"_Z{len(name)}{name}")]
        return self.kernels[found[0]] if len(found) == 1 else None

    def load(self, base: int, externals: Mapping[str, int] | None = None) -> LoadedCode:
        """The bytes for `base` (a multiple of 4 KiB), relocated.

        `externals`: addresses of agent and program globals that the object only names; a `WireError` where one of them
        is missing.
        """
        if base & 0xFFF:
            raise WireError(f"base {base:#x} is not a multiple of 4 KiB")
        loading = Loading(self.elf, self.layout, base, externals or {})
        kernels = {name: base + kernel.address for name, kernel in self.kernels.items()}
        return LoadedCode(base, loading, kernels, SymbolAddresses(self, base))

    @cached_property
    def labels(self) -> Mapping[int, str]:
        """Names of places inside of functions: symbols without a type, local ones or such in a function's extent.

        Local ones that begin behind the end of the function before them are code of its own.
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
        """Where functions begin that are not kernels, relative to the base."""
        taken = {at for kernel in self.kernels.values() for at in (kernel.address, kernel.entry)}
        placed = {each.name: self.layout.place(each) for each in _symbols(self.elf) if each.kind == STT_FUNC}
        return {name: at for name, at in placed.items() if at is not None and at not in taken}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where symbols lie, relative to the base; global ones win."""
        found: dict[str, int] = {}
        for symbol in sorted(_symbols(self.elf), key=lambda each: each.is_global):
            place = self.layout.place(symbol)
            if place is not None and 0 <= place < self.layout.size:
                found[symbol.name] = place
        return found


def read_code_object(data: bytes, processor: str = "") -> CodeObject:
    """Read a code object held in memory; of an offload bundle the entry for `processor`, or the only one.

    `WireError` with the byte offset of the first thing that cannot be; `BeyondModel` for objects of PAL.
    """
    if bundle.is_bundle(data):
        entry = bundle.pick(data, processor)
        try:
            return _read(data[entry.offset : entry.offset + entry.size])
        except UnderstudyError as error:
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
        raise BeyondModel(f"EI_ABIVERSION {version} is later than {VERSIONS[-1]}").at("byte", 8)
    return "V1" if version == 0 and first_generation else VERSIONS[version]


def _target(
    elf: HsaElf, notes: NoteFacts, kernels: Mapping[str, Kernel], warnings: list[str]
) -> tuple[str, dict[str, str]]:
    """Processor and features: the notes' word goes before e_flags', which some tools write wrongly."""
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
        warnings.append(f"e_flags {elf.header.flags:#x} say {flagged}, the notes {name}")
    return name or flagged, features | more


def _complaints(kernels: Iterable[Kernel], version: str, target: str, size: int) -> Iterator[str]:
    """What is odd about headers. What those of other processors hold is not in the document."""
    is_known = not target or targets.read_as(target) in TARGETS
    for kernel in kernels:
        for text in complaints(kernel.header, is_finalized=version == "V1") if is_known else ():
            yield f"kernel {kernel.name}: {text}"
        if not 0 <= kernel.entry < size:
            yield f"kernel {kernel.name}: its entry at {kernel.entry:#x} lies outside of what is loaded"


def _symbols(elf: HsaElf) -> Iterator[Symbol]:
    """Named symbols of both tables; hidden ones are only in .symtab, stripped files have only .dynsym."""
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
            warnings.append(f"kernel {symbol.name}: its header at {place:#x} lies outside of what is loaded")
            continue
        name = symbol.name.removesuffix(DESCRIPTOR_SUFFIX) if isinstance(header, KernelDescriptor) else symbol.name
        entry = place + header.kernel_code_entry_byte_offset
        yield Kernel(name, symbol, place, entry, header, described)


def _header(loading: Loading, version: str, place: int) -> Header | None:
    record: type[KernelCode] | type[KernelDescriptor] = KernelDescriptor if version in VERSIONS[1:] else KernelCode
    data = loading.read(place, record.size_bytes)
    return None if data is None else record.parse(data)


def _described(elf: HsaElf, loading: Loading) -> Iterator[tuple[Symbol, int]]:
    """V3 and later: data symbols whose names end in .kd; old linkers give some of them size 0."""
    for table in (elf.symbols, elf.dynamic_symbols):
        named = table.ending(DESCRIPTOR_SUFFIX.encode())
        yield from _placed(loading, table, named[np.isin(table.kinds[named], (0, STT_OBJECT))])


def _with_code_header(elf: HsaElf, loading: Loading) -> Iterator[tuple[Symbol, int]]:
    """V1, V2, mesa3d: symbols of the type for kernels; where a tool does not use it, what begins like a header."""
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
    """Named symbols of a table with their places, of those that have one."""
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
