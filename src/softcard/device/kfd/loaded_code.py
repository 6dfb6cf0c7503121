"""Code that a program has loaded: the names of its functions, and the code objects of its kernels.

A run-time library copies code objects into memory without calling the driver, so the driver has to find
them. The first packet of a kernel has the address of the kernel's descriptor, from which the header of its
code object is found. Code objects are reported together with their instruction counts. Code without a
header has no symbols."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import AccessFault
from softcard.core.event import Event
from softcard.core.space import PAGE_SIZE
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.events import CodeLoaded, PacketStarted
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.hooks import Executions

# ---- names of kernels and functions ----------------------------------------------------------------------------------
# The names of kernels and functions in memory: a loader copies whole code objects, with their dynamic symbols.
#
# The ELF header is at a page before the kernel's descriptor, and has the location of the symbols ("ELF Header",
# "Symbols" of the code object document; System V ABI for the rest).


MAGIC: Final = b"\x7fELF\x02\x01"
"""The magic number of a 64-bit little-endian ELF file."""
MOST_PAGES: Final = 1 << 15
"""The maximum number of pages to search for an ELF header."""
MOST_SYMBOLS: Final = 1 << 16
DESCRIPTOR: Final = ".kd"
"""The suffix of kernel descriptors' names."""
STT_FUNC: Final = 2
STT_AMDGPU_HSA_KERNEL: Final = 10
"""The type of a kernel's symbol in code objects of version 2, where its name has no suffix `.kd`."""
_ENTRY_AT: Final = 16
_HEADER: Final = struct.Struct("<32xQ14xHH")
"""The fields e_phoff, e_phentsize and e_phnum of the ELF header."""
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_PAIR: Final = struct.Struct("<QQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_PT_LOAD, _PT_DYNAMIC, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ = 1, 2, 4, 5, 6, 10


RUNTIME_KERNELS: Final = "__amd_rocclr_"
"""The name prefix of the copy and fill kernels of the HIP and OpenCL run-times; those of ROCr have no name."""
UNNAMED: Final = "kernel at "
"""The start of the names that events use for kernels without a symbol; their address follows."""


def is_of_runtime(name: str) -> bool:
    """Return True if a kernel with this name, or with none, belongs to the run-time library of a ROCm program."""
    return not name or name.startswith((RUNTIME_KERNELS, UNNAMED))


def kernel_name(memory: GpuMemory, kernel_object: int) -> str:
    """Return the symbol of the kernel descriptor at address `kernel_object`, without the suffix `.kd`.

    Return "" if memory has no symbol for it.
    """
    try:
        base = _header_before(memory, kernel_object)
        return _symbol(memory, base, kernel_object - base) if base else ""
    except (AccessFault, struct.error, OverflowError):  # not a code object, or a damaged one
        return ""


def function_at(memory: GpuMemory, pc: int) -> tuple[str, int]:
    """Return the name of the function that contains the instruction at `pc`, and the offset in that function.

    The name is "" if memory contains no symbol for the function."""
    try:
        base = _header_before(memory, pc)
        for name, info, value, size in _symbols(memory, base) if base else ():
            if info & 0xF not in (STT_FUNC, STT_AMDGPU_HSA_KERNEL) or not value <= pc - base < value + size:
                continue
            start = value if info & 0xF == STT_FUNC else value + entry_offset(memory, base + value)
            return (name, pc - base - start) if pc - base >= start else ("", 0)
    except (AccessFault, struct.error, OverflowError):  # not a code object, or a damaged one
        pass
    return "", 0


def code_object_at(memory: GpuMemory, address: int) -> tuple[int, int]:
    """Return the base address and the size of the code object in memory that contains `address`.

    Return 0, 0 if no code object contains it."""
    base = _header_before(memory, address)
    return (base, max((each[3] + each[6] for each in _segments(memory, base, _PT_LOAD)), default=0)) if base else (0, 0)


def extents(memory: GpuMemory, base: int) -> tuple[tuple[tuple[str, int, int], ...], dict[str, int]]:
    """Return the functions and the kernels of the code object at address `base`.

    Each function is a tuple of name, address and size. The dict maps each kernel's name to the address of its
    kernel object."""
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
    """Return the offset of a kernel's entry from its descriptor, which is at address `kernel_object`."""
    return int.from_bytes(memory.read(kernel_object + _ENTRY_AT, 8), "little", signed=True)


def _header_before(memory: GpuMemory, address: int) -> int:
    """Return the address of the last ELF header at or before `address`, in the same memory mapping.

    Return 0 if there is no such header."""
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
    """Yield the dynamic symbols of the code object at `base`: name, st_info, st_value, st_size."""
    table, start, size, count = _dynamic(memory, base)
    strings = memory.read(base + start, size) if count else b""
    for index in range(min(count, MOST_SYMBOLS)):
        at, info, _, _, value, its = _SYMBOL.unpack(memory.read(base + table + _SYMBOL.size * index, _SYMBOL.size))
        if at < size:
            yield strings[at : strings.find(b"\0", at)].decode("utf-8", "replace"), info, value, its


def _segments(memory: GpuMemory, base: int, kind: int) -> Iterator[tuple[int, ...]]:
    """Yield the program headers of type `kind` of the code object at `base`, with the fields of the System V ABI."""
    offset, entry, count = _HEADER.unpack(memory.read(base, _HEADER.size))
    for number in range(count):
        segment = _SEGMENT.unpack(memory.read(base + offset + entry * number, _SEGMENT.size))
        if segment[0] == kind:
            yield segment


def _dynamic(memory: GpuMemory, base: int) -> tuple[int, int, int, int]:
    """Return the location of the dynamic symbols of the code object at `base`.

    It has four items: the addresses of the symbols and of their strings, the size of the strings in bytes, and the
    number of symbols.
    """
    found: dict[int, int] = {}
    for segment in _segments(memory, base, _PT_DYNAMIC):
        found = dict(_PAIR.iter_unpack(memory.read(base + segment[3], segment[6] & -_PAIR.size)))
    if not found.keys() >= {_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ}:
        return 0, 0, 0, 0
    count = int.from_bytes(memory.read(base + found[_DT_HASH] + 4, 4), "little")  # nchain
    return found[_DT_SYMTAB], found[_DT_STRTAB], found[_DT_STRSZ], count


# ---- code objects ----------------------------------------------------------------------------------------------------


MOST_BYTES: Final = 1 << 28
"""The maximum size of a code object in bytes."""
MOST_NAMELESS_BYTES: Final = 1 << 14
"""The maximum number of bytes to read of code without a header, whose size is not known."""


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """Code in the memory of an agent: `data` contains the bytes from the address `base` on.

    `functions` has the name, address and size of each function in the code's dynamic symbols; it is empty for
    code without a header."""

    agent: str
    base: int
    data: bytes
    functions: tuple[tuple[str, int, int], ...] = ()

    @property
    def end(self) -> int:
        """The first address after the code."""
        return self.base + len(self.data)


def loaded_at(device: HsaDevice, address: int) -> LoadedCode | None:
    """Return the code object in the memory of `device` that contains `address`; None if there is none."""
    try:
        found = _code_object(device.memory, device.agent.name, address)
    except (AccessFault, struct.error, OverflowError):  # damaged
        return None
    return None if found is None else found[0]


def _code_object(memory: GpuMemory, agent: str, address: int) -> tuple[LoadedCode, dict[str, int]] | None:
    """Return the code object that contains `address`, and the addresses of its kernel objects by name.

    Return None if no code object contains the address."""
    base, size = code_object_at(memory, address)
    if not base or base + size <= address or size > MOST_BYTES:
        return None
    functions, kernels = extents(memory, base)
    return LoadedCode(agent, base, memory.read(base, size), functions), kernels


Ran = Callable[[LoadedCode, Executions], None]
"""A function that is called with code, and the executions of the instruction at each address.

The numbers are empty unless counting is enabled.
"""


class CodeWatch:
    """An observer of an agent's code, which emits an event about a kernel's code before the kernel's first packet.

    `found` is called with each code object when its first kernel is about to run. `ran` is called with the code
    object and its instruction counts after its memory is freed, or at `close`. Other subscribers to the probes
    must subscribe after the construction of this object."""

    def __init__(self, device: HsaDevice, ran: Ran, found: Callable[[LoadedCode], None] = lambda code: None) -> None:
        self._device = device
        self._found = found
        self._ran = ran
        self._counts = device.settings.count_instructions
        self._kernels: dict[int, LoadedCode | None] = {}
        """The code of each kernel, by the address of its kernel object (descriptor)."""
        self._loaded: dict[int, LoadedCode] = {}
        """The code objects by their base address."""
        self._gone: list[LoadedCode] = []
        self._reported = Executions()
        """The executions by address that were already passed to `ran`.

        They belong to code that was freed; other code may have been loaded at these addresses since.
        """
        # Counts must be reported before other code runs at the same addresses; names may come later.
        device.probes.subscribe(self._hear, PacketStarted, later=not self._counts)

    def _hear(self, event: Event) -> None:
        assert isinstance(event, PacketStarted)
        if self._gone:
            self._update()
        packet = event.packet
        if isinstance(packet, KernelDispatchPacket) and packet.kernel_object not in self._kernels:
            self._kernels[packet.kernel_object] = self._find(event.time, packet.kernel_object)

    def _find(self, time: int, kernel_object: int) -> LoadedCode | None:
        known = next((each for each in self._loaded.values() if each.base <= kernel_object < each.end), None)
        if known is not None:
            return known
        try:
            found, kernels = self._read(kernel_object)
        except (AccessFault, struct.error, OverflowError):  # damaged; the packet itself gets the error of its access
            return None
        self._loaded[found.base] = found
        self._found(found)
        self._device.probes.emit(CodeLoaded(time, found.base, len(found.data), kernels))
        return found

    def _read(self, kernel_object: int) -> tuple[LoadedCode, dict[str, int]]:
        memory, agent = self._device.memory, self._device.agent.name
        if (found := _code_object(memory, agent, kernel_object)) is not None:
            return found
        entry = kernel_object + entry_offset(memory, kernel_object)
        there = memory.find(entry)
        size = 0 if there is None else min(there.end - entry, MOST_NAMELESS_BYTES)
        return LoadedCode(agent, entry, memory.read(entry, size)), {f"{UNNAMED}{kernel_object:#x}": kernel_object}

    def unmapped(self, start: int, end: int) -> None:
        """Stop following code between the addresses `start` and `end`, whose memory is freed.

        The instruction counts of this code are reported before the next packet starts, or at `close`. Any thread may
        call this method."""
        went = [code for code in tuple(self._loaded.values()) if code.base < end and start < code.end]
        for code in went:
            self._loaded.pop(code.base, None)
        self._gone += went
        for kernel_object, of in tuple(self._kernels.items()):
            if start <= kernel_object < end or any(of is code for code in went):
                self._kernels.pop(kernel_object, None)

    def _update(self) -> None:
        gone, self._gone = self._gone, []
        self._report(gone)

    def _report(self, codes: list[LoadedCode]) -> None:
        new = self._device.executions() - self._reported if self._counts else Executions()
        for code in codes:
            own = new.within(code.base, code.end)
            self._reported += own
            self._ran(code, own)

    def close(self) -> None:
        """Report the instruction counts of all remaining code.

        Call it when the program has ended and its queues are not served any more.
        """
        left = [*self._gone, *self._loaded.values()]
        self._gone, self._loaded = [], {}
        if left:
            self._report(left)
