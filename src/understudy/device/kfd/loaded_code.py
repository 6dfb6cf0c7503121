"""The code objects that a program's kernels are of: found in memory when they run, and told with what they executed.

A run-time library copies code objects into memory that the driver gave it, which tells nobody. The first packet of a
kernel leads to its descriptor, and that to the object's header (`kernel_names`); what has no header is taken as it is.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import AccessFault
from understudy.core.event import Event
from understudy.device.hsa.device import HsaDevice
from understudy.device.hsa.events import CodeLoaded, PacketStarted
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.device.kfd.kernel_names import code_object_at, entry_offset, extents
from understudy.engine.gcn.memory import GpuMemory

MOST_BYTES: Final = 1 << 28
"""Of a code object that is kept."""
MOST_NAMELESS_BYTES: Final = 1 << 14
"""Of code that no header says the size of."""


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """Code as it stood in the memory of an agent: `data` from the address `base` on.

    `functions` are those that its own dynamic symbols name, with address and size: none where it has no header.
    """

    agent: str
    base: int
    data: bytes
    functions: tuple[tuple[str, int, int], ...] = ()

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.base + len(self.data)


def loaded_at(device: HsaDevice, address: int) -> LoadedCode | None:
    """The code object in an agent's memory that an address lies in; None where memory has none."""
    try:
        found = _code_object(device.memory, device.agent.name, address)
    except (AccessFault, struct.error, OverflowError):  # damaged
        return None
    return None if found is None else found[0]


def _code_object(memory: GpuMemory, agent: str, address: int) -> tuple[LoadedCode, dict[str, int]] | None:
    """The code object there, and its kernel objects by name."""
    base, size = code_object_at(memory, address)
    if not base or base + size <= address or size > MOST_BYTES:
        return None
    functions, kernels = extents(memory, base)
    return LoadedCode(agent, base, memory.read(base, size), functions), kernels


Ran = Callable[[LoadedCode, Mapping[int, int]], None]
"""Takes code, and how often the instruction at each of its addresses has retired (nothing where they are not counted).
"""


class CodeWatch:
    """Finds the code that runs on an agent, and tells its probes of it before the packet that is its first.

    `found` is told of each when its first kernel is about to run, `ran` when its memory is given back, or at `close`.
    Subscribe to the probes after this.
    """

    def __init__(self, device: HsaDevice, ran: Ran, found: Callable[[LoadedCode], None] = lambda code: None) -> None:
        self._device = device
        self._found = found
        self._ran = ran
        self._counts = device.settings.count_instructions
        self._kernels: dict[int, LoadedCode | None] = {}
        """By kernel object."""
        self._loaded: dict[int, LoadedCode] = {}
        """By base."""
        self._gone: list[LoadedCode] = []
        self._told: Counter[int] = Counter()
        """Of the counts, those of code that has gone, by address: other code may lie there now."""
        # What is counted must be told apart before other code runs at its place; names may come later.
        device.probes.subscribe(self._hear, PacketStarted, later=not self._counts)

    def _hear(self, event: Event) -> None:
        assert isinstance(event, PacketStarted)
        if self._gone:
            self._settle()
        packet = event.packet
        if isinstance(packet, KernelDispatchPacket) and packet.kernel_object not in self._kernels:
            self._kernels[packet.kernel_object] = self._find(event.time, packet.kernel_object)

    def _find(self, time: int, kernel_object: int) -> LoadedCode | None:
        known = next((each for each in self._loaded.values() if each.base <= kernel_object < each.end), None)
        if known is not None:
            return known
        try:
            found, kernels = self._read(kernel_object)
        except (AccessFault, struct.error, OverflowError):  # damaged; the packet itself is told of what it reaches
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
        return LoadedCode(agent, entry, memory.read(entry, size)), {f"kernel at {kernel_object:#x}": kernel_object}

    def unmapped(self, start: int, end: int) -> None:
        """Memory is given back: what lay there will not run any more. On any thread."""
        went = [code for code in tuple(self._loaded.values()) if code.base < end and start < code.end]
        for code in went:
            self._loaded.pop(code.base, None)
        self._gone += went
        for kernel_object, of in tuple(self._kernels.items()):
            if start <= kernel_object < end or any(of is code for code in went):
                self._kernels.pop(kernel_object, None)

    def _settle(self) -> None:
        gone, self._gone = self._gone, []
        self._tell(gone)

    def _tell(self, codes: list[LoadedCode]) -> None:
        counts = self._device.instruction_counts() if self._counts else {}
        order = sorted(counts)
        for code in codes:
            inside = order[bisect_left(order, code.base) : bisect_left(order, code.end)]
            new = {pc: counts[pc] - self._told[pc] for pc in inside if counts[pc] > self._told[pc]}
            self._told.update(new)
            self._ran(code, new)

    def close(self) -> None:
        """The program has ended, and no queue is served any more: tell of all that is left."""
        left = [*self._gone, *self._loaded.values()]
        self._gone, self._loaded = [], {}
        if left:
            self._tell(left)
