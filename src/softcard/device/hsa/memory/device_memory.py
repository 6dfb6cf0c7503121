"""The memory of a device: blocks, private memory, mapped arrays of the host, apertures, and watched addresses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from softcard.core.allocations import HOST, Guard
from softcard.core.errors import AccessFault, BeyondModel, WireError
from softcard.core.rule import Rule
from softcard.core.snapshot import Stateful
from softcard.core.space import Mappable
from softcard.core.words import align_up
from softcard.device.hsa import rules
from softcard.device.hsa.agents import CAS_LOOPS, PCIE_ATOMICS, Agent, has_pcie_atomics
from softcard.device.hsa.interfaces import Exclusive
from softcard.device.hsa.memory.atomics import compiled
from softcard.device.hsa.memory.checked_heap import WORD, CheckedHeap, heap_of
from softcard.device.hsa.memory.heap import HIGH_PLACES, LARGE_PLACES, MEMORY, SMALL_PLACES, ExternalAllocations, Heap
from softcard.device.hsa.memory.segments import apertures
from softcard.device.hsa.settings import HIGH, Settings
from softcard.engine.gcn.api import wave_scratch_bytes
from softcard.engine.gcn.jit.layout import ATOMICS
from softcard.engine.gcn.memory import ADDRESS_BITS, COARSE, GpuMemory, MemoryType, Mtype, Plain
from softcard.isa.gcn.target import GFX9

# ---- types of memory -------------------------------------------------------------------------------------------------
# The kinds of memory that an agent accesses, and the implementation of read-modify-writes across PCIe.
#
# See the clause "PCIe Gen3 Atomic Operations" of the ROCm Code Object specification. An APU accesses the host's
# memory without PCIe. Other agents access uncached memory of the host by FetchAdd, Swap and CAS transactions, if the
# platform has them; all other operations need a loop of compare-and-swap.


KINDS: Final = {
    "add": "add", "sub": "sub", "swap": "swap", "cmpswap": "cas", "smax": "max", "umax": "max", "smin": "min",
    "umin": "min", "and": "and", "or": "or", "xor": "xor", "inc": "wrapinc", "dec": "wrapdec",
}  # fmt: skip
"""The names of read-modify-write operations in the ROCm Code Object specification.

The keys are the operation's names in instructions. Floating-point operations are missing because the specification does
not name them.
"""


def obstacle(kind: str) -> tuple[str, Rule] | None:
    """Return the reason why PCIe cannot carry a read-modify-write of kind `kind`, and the rule that forbids it.

    Return None if PCIe can carry it."""
    operation = KINDS.get(kind, kind)
    if operation in CAS_LOOPS or operation not in PCIE_ATOMICS:
        return f"{operation} needs a compare-and-swap loop", rules.PCIE_LOOPS
    if PCIE_ATOMICS[operation].negated:
        return f"{operation} has to be written as an addition of the negated value", rules.PCIE_SEQUENCES
    return None


class PcieCompleter:
    """The root complex of a host, which executes atomic operations that arrive over PCIe."""

    def __init__(self, agent: Agent, enabled: bool | None) -> None:
        self._agent = agent
        self._supported = has_pcie_atomics(agent, enabled)

    def check(self, kind: str, bits: int, address: int) -> None:
        """Raise `AccessFault` if the platform lacks PCIe atomics, or if PCIe does not support the operation `kind`.

        `bits` is the width of the operation."""
        text = (
            f"atomic {KINDS.get(kind, kind)} of {bits // 8} bytes at {address:#x}: the address is in host memory, "
            "accessed over PCIe, "
        )
        if not self._supported:
            text += f"and the platform has no PCIe atomics for {self._agent.name}"
            raise AccessFault(text, address=address, access="atomic", rule=rules.PCIE_OPTION)
        found = obstacle(kind)
        if found is not None:
            text += f"which supports only FetchAdd, Swap and CAS: {found[0]}"
            raise AccessFault(text, address=address, access="atomic", rule=found[1])

    def update(self, kind: str, bits: int, host: int, value: int, compare: int) -> int:
        """Execute FetchAdd, Swap or CAS of 32 or 64 bits at address `host` of this process.

        Return the previous value.
        """
        mask = (1 << bits) - 1
        return compiled(bits).change(ATOMICS.index(kind), host, value & mask, compare & mask)


class MemoryTypes:
    """The kinds of memory that one device can allocate.

    `fine` is the fine-grained kind, used for queues, signals and kernel arguments: CC on an APU, UC on other agents.
    """

    def __init__(self, agent: Agent, pcie_atomics: bool | None = None) -> None:
        completer = None if agent.is_apu else PcieCompleter(agent, pcie_atomics)
        self._known: dict[tuple[Mtype | str | None, bool], MemoryType] = {}
        for mtype in Mtype:
            mine = COARSE if mtype is COARSE.mtype else MemoryType(mtype)
            self._known[mtype, False] = mine
            self._known[mtype, True] = mine if mtype.is_cached else MemoryType(mtype, completer)
        fine = Mtype.CC if agent.is_apu else Mtype.UC
        self.fine = self._known[fine, False]
        self._known[None, False], self._known[None, True] = COARSE, self._known[fine, True]

    def of(self, mtype: Mtype | str | None = None, host: bool = False) -> MemoryType:
        """Return the kind of memory for an allocation.

        The default is coarse-grained (NC) memory of the device. With `host` it is memory of the host, which is
        fine-grained by default: CC on an APU, UC on other agents. A read-modify-write of a wave goes over PCIe if it
        accesses host memory that is not cached (CC or UC). Raise `WireError` for an unknown memory type."""
        try:
            return self._known[Mtype[mtype.upper()] if isinstance(mtype, str) else mtype, host]
        except KeyError:
            names = ", ".join(each.name for each in Mtype)
            raise WireError(f"unknown memory type {mtype!r}, expected one of {names}") from None


# ---- device memory ---------------------------------------------------------------------------------------------------
CHECKED_WAVES: Final = 64
"""The maximum number of waves for which private memory is allocated if its bounds are checked."""
MOST_FILLED: Final = 1 << 26
"""The maximum number of bytes, from the start of private memory, that are filled with the junk word.

They belong to the first waves, whose memory is used before that of others.
"""


class AgentState(Stateful):
    """The registers of an agent that a driver sets and that affect launches."""

    STATE = ("has_trap_handler", "hidden_private_base")

    def __init__(self, hidden_private_base: int) -> None:
        self.has_trap_handler = False
        """True if the driver has installed a trap handler for all waves.

        Waves then trap regardless of the exceptions and traps that their kernels and queues enable.
        """
        self.hidden_private_base = hidden_private_base
        """The register SH_HIDDEN_PRIVATE_BASE_VIMID: the base address of private memory on GFX7 and GFX8.

        It is 0 on GFX9.
        """


class DeviceMemory:
    """The memory of one agent: `gpu` is the memory as waves access it, and `heap` the allocator.

    `types` are the kinds of memory, and `state` are the registers that a driver sets. `fine_mtype` is the memory
    type of queues, signals and kernel arguments; the host sees changes of such memory at once. Freeing a block
    and unmapping an array wait until `exclusive` prevents packets from being processed. All other changes are
    possible while waves run. With a `guard`, bounds of blocks are exact to the byte."""

    def __init__(self, agent: Agent, settings: Settings, exclusive: Exclusive, guard: Guard | None = None) -> None:
        small, high = settings.small, settings.own_addresses == HIGH
        if small and high:
            raise WireError("own_addresses='high' requires machine_model='large': the small one has 32-bit addresses")
        self.gpu = GpuMemory(32 if small else ADDRESS_BITS)
        self.types = MemoryTypes(agent, settings.pcie_atomics)
        self.fine_mtype = self.types.fine.mtype
        places = SMALL_PLACES if small else HIGH_PLACES if high else LARGE_PLACES
        self.heap = heap_of(self.gpu, places, guard)
        self.private = PrivateMemory(
            self.heap, settings.fill, allocate=partial(self.allocate, mtype=Mtype.NC_NV), free=self.free
        )
        self.external = ExternalAllocations(self.gpu, self.heap.spaces)
        self.apertures = apertures(agent, small)
        self.state = AgentState(0 if agent.target.level == GFX9 else self.heap.base)
        self.watched: list[range] = []
        self._exclusive = exclusive
        self._fill = settings.fill

    def allocate(
        self,
        size: int,
        alignment: int = 64,
        *,
        mtype: Mtype | str | None = None,
        host: bool = False,
        name: str = MEMORY,
    ) -> int:
        """Allocate a block; see `HsaDevice.allocate`."""
        try:
            return self.heap.allocate(size, alignment, self.types.of(mtype, host), name)
        except (MemoryError, OverflowError, OSError) as error:
            raise BeyondModel(f"cannot allocate {size} bytes of device memory: {error}") from None

    def junk(self, address: int, size: int) -> None:
        """Fill newly allocated memory with the word that the setting `poison` or a check selects, if there is one."""
        if self._fill:
            fill(self.gpu, address, size, self._fill)

    def free(self, address: int) -> None:
        """Free a block; see `HsaDevice.free`."""
        if self.heap.is_shared(address):
            self.heap.free(address)
            return
        with self._exclusive.alone():
            self.heap.free(address)

    def map(
        self, what: Mappable, writable: bool, name: str, mtype: Mtype | str | None, host: bool, used: int | None = None
    ) -> int:
        """Map an array or region; see `HsaDevice.map`."""
        return self.heap.map(what, name, writable, type=self.types.of(mtype, host), used=used, owner=HOST)

    def unmap(self, address: int) -> None:
        """Unmap the memory that `map` mapped at `address`; see `HsaDevice.unmap`."""
        with self._exclusive.alone():
            self.heap.unmap(address)

    def map_at(
        self,
        address: int,
        what: Mappable,
        writable: bool,
        name: str,
        *,
        mtype: Mtype | str | None,
        host: bool,
        replace: bool,
    ) -> None:
        """Map an array or region at a given address; see `HsaDevice.map_at`."""
        self.external.map(address, what, name, writable, self.types.of(mtype, host), replace)

    def unmap_at(self, address: int, size: int) -> None:
        """Unmap `size` bytes at `address`; see `HsaDevice.unmap_at`."""
        self.external.unmap(address, size)


class PrivateMemory:
    """The allocator of the waves' private memory. New memory is filled with the word `word`, if there is one.

    The memory consists of blocks of `heap`: blocks with checked bounds if the heap checks bounds, otherwise
    blocks that the function `allocate` returns for a size, and that `free` frees."""

    def __init__(
        self, heap: Heap, word: int | None, *, allocate: Callable[[int], int], free: Callable[[int], None]
    ) -> None:
        self._heap = heap
        self._word = word
        self._allocate = allocate
        self._free = free

    def allocate(self, lane_bytes: int, waves: int) -> tuple[int, int]:
        """Allocate private memory of `lane_bytes` per work-item for `waves` waves; return its address and size."""
        if isinstance(self._heap, CheckedHeap):
            address, size = self._heap.allocate_private(lane_bytes, min(waves, CHECKED_WAVES))
        else:
            size = wave_scratch_bytes(lane_bytes) * waves
            address = self._allocate(size)
        if self._word:
            fill(self._heap.gpu, address, min(size, MOST_FILLED), self._word)
        return address, size

    def fits(self, address: int, size: int, lane_bytes: int, waves: int) -> bool:
        """Return True if the private memory of `size` bytes at `address` can be used as if it were allocated anew.

        If its bounds are checked, it must be for exactly `lane_bytes` per work-item.
        """
        if isinstance(self._heap, CheckedHeap):
            return self._heap.guard.strides.get(address, (0, 0))[0] == align_up(lane_bytes, WORD)
        return size >= wave_scratch_bytes(lane_bytes) * waves

    def free(self, address: int) -> None:
        """Free the private memory that `allocate` returned at `address`."""
        (self._heap.free_private if isinstance(self._heap, CheckedHeap) else self._free)(address)


def fill(memory: GpuMemory, address: int, size: int, word: int) -> None:
    """Store `word` in each dword of a range; skip memory that is not plain RAM."""
    for each in memory.between(address, address + size):
        if isinstance(each, Plain):
            start, end = max(address, each.base), min(address + size, each.end)
            data = each.bytes[start - each.base : end - each.base]
            data[:] = np.resize(np.frombuffer(word.to_bytes(4, "little"), np.uint8), data.size)
