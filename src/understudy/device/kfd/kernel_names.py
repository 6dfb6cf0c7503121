"""Which kernel a packet runs: a loader puts whole code objects into memory, their dynamic symbols too.

The ELF header stands at a page before the kernel's descriptor, and says where the symbols are ("ELF Header", "Symbols"
of the code object document; System V ABI for the rest).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from understudy.core.errors import AccessFault
from understudy.core.space import PAGE_SIZE
from understudy.engine.gcn.memory import GpuMemory

MAGIC: Final = b"\x7fELF\x02\x01"
"""Of 64 bits, little-endian."""
MOST_PAGES: Final = 1 << 15
"""How far a header is looked for."""
MOST_SYMBOLS: Final = 1 << 16
DESCRIPTOR: Final = ".kd"
"""Behind the names of kernel descriptors."""
STT_FUNC: Final = 2
STT_AMDGPU_HSA_KERNEL: Final = 10
"""Type of a kernel's symbol in code objects of version 2, which has no such ending."""
_ENTRY_AT: Final = 16
_HEADER: Final = struct.Struct("<32xQ14xHH")
"""e_phoff, e_phentsize, e_phnum."""
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_PAIR: Final = struct.Struct("<QQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_PT_LOAD, _PT_DYNAMIC, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ = 1, 2, 4, 5, 6, 10


def kernel_name(memory: GpuMemory, kernel_object: int) -> str:
    """The symbol of the descriptor at an address, without its ending; "" where memory does not tell."""
    try:
        base = _header_before(memory, kernel_object)
        return _symbol(memory, base, kernel_object - base) if base else ""
    except (AccessFault, struct.error, OverflowError):  # no code object, or a damaged one
        return ""


def function_at(memory: GpuMemory, pc: int) -> tuple[str, int]:
    """The function that an instruction is of, and how far behind its start; "" where memory does not tell."""
    try:
        base = _header_before(memory, pc)
        for name, info, value, size in _symbols(memory, base) if base else ():
            if info & 0xF not in (STT_FUNC, STT_AMDGPU_HSA_KERNEL) or not value <= pc - base < value + size:
                continue
            start = value if info & 0xF == STT_FUNC else value + entry_offset(memory, base + value)
            return (name, pc - base - start) if pc - base >= start else ("", 0)
    except (AccessFault, struct.error, OverflowError):  # no code object, or a damaged one
        pass
    return "", 0


def code_object_at(memory: GpuMemory, address: int) -> tuple[int, int]:
    """Where the code object begins that an address lies in, and how many bytes of memory it takes; 0, 0 for none."""
    base = _header_before(memory, address)
    return (base, max((each[3] + each[6] for each in _segments(memory, base, _PT_LOAD)), default=0)) if base else (0, 0)


def extents(memory: GpuMemory, base: int) -> tuple[tuple[tuple[str, int, int], ...], dict[str, int]]:
    """Functions of the code object at an address, each with its address and size, and kernel objects by name."""
    functions: list[tuple[str, int, int]] = []
    kernels: dict[str, int] = {}
    for name, info, value, size in _symbols(memory, base):
        kind = info & 0xF
        if kind == STT_FUNC:
            functions.append((name, base + value, size))
        elif kind == STT_AMDGPU_HSA_KERNEL:
            start = entry_offset(memory, base + value)
            functions.append((name, base + value + start, size - start))
            kernels[name] = base + value
        elif name.endswith(DESCRIPTOR):
            kernels[name.removesuffix(DESCRIPTOR)] = base + value
    return tuple(functions), kernels


def entry_offset(memory: GpuMemory, kernel_object: int) -> int:
    """How far behind its descriptor a kernel begins."""
    return int.from_bytes(memory.read(kernel_object + _ENTRY_AT, 8), "little", signed=True)


def _header_before(memory: GpuMemory, address: int) -> int:
    """The address of the ELF header at or before it, in the same stretch of memory; 0 for none."""
    page = address & -PAGE_SIZE
    for _ in range(MOST_PAGES):
        if memory.plain(page, len(MAGIC)) is None:
            return 0
        if memory.read(page, len(MAGIC)) == MAGIC:
            return page
        page -= PAGE_SIZE
    return 0


def _symbol(memory: GpuMemory, base: int, value: int) -> str:
    for text, info, its, _ in _symbols(memory, base):
        if its == value and (text.endswith(DESCRIPTOR) or info & 0xF == STT_AMDGPU_HSA_KERNEL):
            return text.removesuffix(DESCRIPTOR)
    return ""


def _symbols(memory: GpuMemory, base: int) -> Iterator[tuple[str, int, int, int]]:
    """Dynamic symbols: name, st_info, st_value, st_size."""
    table, start, size, count = _dynamic(memory, base)
    strings = memory.read(base + start, size) if count else b""
    for index in range(min(count, MOST_SYMBOLS)):
        at, info, _, _, value, its = _SYMBOL.unpack(memory.read(base + table + _SYMBOL.size * index, _SYMBOL.size))
        if at < size:
            yield strings[at : strings.find(b"\0", at)].decode("utf-8", "replace"), info, value, its


def _segments(memory: GpuMemory, base: int, kind: int) -> Iterator[tuple[int, ...]]:
    """Program headers of a kind, as the System V ABI has them."""
    offset, entry, count = _HEADER.unpack(memory.read(base, _HEADER.size))
    for number in range(count):
        segment = _SEGMENT.unpack(memory.read(base + offset + entry * number, _SEGMENT.size))
        if segment[0] == kind:
            yield segment


def _dynamic(memory: GpuMemory, base: int) -> tuple[int, int, int, int]:
    """Where symbols and strings are, the strings' size, and how many symbols there are."""
    found: dict[int, int] = {}
    for segment in _segments(memory, base, _PT_DYNAMIC):
        found = dict(_PAIR.iter_unpack(memory.read(base + segment[3], segment[6] & -_PAIR.size)))
    if not found.keys() >= {_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ}:
        return 0, 0, 0, 0
    count = int.from_bytes(memory.read(base + found[_DT_HASH] + 4, 4), "little")  # nchain
    return found[_DT_SYMTAB], found[_DT_STRTAB], found[_DT_STRSZ], count
