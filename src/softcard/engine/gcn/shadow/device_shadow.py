"""The shadow memories of a device, one for each kind of shadow, and the recorded uses of shadow bits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.checks import FIDELITY, INIT
from softcard.core.errors import ModelBug
from softcard.core.space import lazy_zeros
from softcard.engine.gcn.memory import GpuMemory, Plain
from softcard.engine.gcn.shadow.uses import Uses

# ---- shadow memory of one kind ---------------------------------------------------------------------------------------
# Shadow memory: a byte of shadow bits for each byte of plain memory, at the same guest address in a memory of its own.
#
# So all that finds values by address finds their shadow as well: page tables, inline caches, gathers, atomics. Pages
# without a set bit take no room: the host allocates them as zeros on first use.


SHADOWED: Final = 0xFF


class ShadowMemory(GpuMemory):
    """The shadow memory of a device memory, at the same addresses.

    Unmapped addresses read as 0, and writes to them are ignored. `follow` updates the mappings. Memory that is
    mapped at several addresses has one shadow."""

    def __init__(self, memory: GpuMemory) -> None:
        super().__init__(memory.bits)
        self._followed = -1
        self._following = threading.Lock()
        self._shadow_lanes: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}
        """The shadow bytes of each range of host memory, by its address and size."""

    def follow(self, memory: GpuMemory) -> None:
        """Map shadow memory for exactly what `memory` has mapped; keep the shadow of unchanged mappings."""
        if memory.version == self._followed:
            return
        with self._following:
            self._follow(memory)

    def _follow(self, memory: GpuMemory) -> None:
        version = memory.version
        wanted = {each.base: each for each in memory if isinstance(each, Plain)}
        there = {each.base: each for each in self}
        for base, known in there.items():
            now = wanted.get(base)
            if now is None or now.end != known.end or known.name != str(now.addend):
                self.unmap(base)
        kept = {each.base for each in self}
        shadow_memories = {(int(each.bytes.ctypes.data), each.bytes.size) for each in wanted.values()}
        self._shadow_lanes = {key: shadow for key, shadow in self._shadow_lanes.items() if key in shadow_memories}
        for base, each in wanted.items():
            if base not in kept:
                self.map(base, self._shadow_of(each), name=str(each.addend))
        self._followed = version

    def _shadow_of(self, mapped: Plain) -> npt.NDArray[np.uint8]:
        key = int(mapped.bytes.ctypes.data), mapped.bytes.size
        if key not in self._shadow_lanes:
            self._shadow_lanes[key] = lazy_zeros(mapped.bytes.size)
        return self._shadow_lanes[key]

    def set_shadow(self, address: int, size: int, shadowed: bool = True) -> None:
        """Set all shadow bits of a range of bytes, or clear them if `shadowed` is False."""
        for found, at, count in self.parts(address, size):
            found.bytes[at : at + count] = SHADOWED if shadowed else 0

    # ---- accesses: unmapped addresses have no shadow ----------------------------------------------------------------
    def read(self, address: int, size: int) -> bytes:
        """Return the shadow bytes of a range of memory; unmapped bytes have 0."""
        data = bytearray(size)
        for found, at, count in self.parts(address, size):
            start = found.base + at - address
            data[start : start + count] = found.view[at : at + count]
        return bytes(data)

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        """Write the shadow bytes of a range of memory."""
        for found, at, count in self.parts(address, len(data)):
            start = found.base + at - address
            found.view[at : at + count] = bytes(data[start : start + count])

    def check(self, address: int, size: int, access: str) -> None:
        """Accept any access: unmapped shadow memory is not an error."""

    def parts(self, address: int, size: int) -> Iterator[tuple[Plain, int, int]]:
        """Yield the mapped parts of a range of memory, each as its mapping, the offset in it, and its size in bytes."""
        end = address + size
        at = address
        while at < end:
            found: Any = self.find(at)
            if isinstance(found, Plain):
                count = min(end, found.end) - at
                yield found, at - found.base, count
                at += count
            else:
                at = min((each.base for each in self if each.base > at), default=end)


# ---- all kinds -------------------------------------------------------------------------------------------------------


KINDS: Final = (INIT, FIDELITY)
"""The names of the kinds of shadow.

Shadow bits of `INIT` stand for bits that were never written, those of `FIDELITY` for bits that may differ on hardware.
"""


@dataclass(slots=True, eq=False)
class DeviceShadow:
    """The shadow memories and recorded uses for the waves that share one memory.

    `kinds` are the kinds of shadow, in the order of their shadow registers.
    """

    memory: GpuMemory
    kinds: tuple[str, ...]
    uses: Uses = field(init=False)
    shadow_memories: tuple[ShadowMemory, ...] = field(init=False)
    """The shadow memories, by kind."""

    def __post_init__(self) -> None:
        if not self.kinds or any(kind not in KINDS for kind in self.kinds):
            raise ModelBug(f"shadow kinds are {self.kinds}, expected some of {KINDS}")
        self.uses = Uses(self.kinds)
        self.shadow_memories = tuple(ShadowMemory(self.memory) for _ in self.kinds)

    def follow(self) -> None:
        """Update the mappings of all shadow memories to those of the device memory `memory`.

        This is called before waves run and before the host changes shadow bits."""
        for shadow in self.shadow_memories:
            shadow.follow(self.memory)

    def undefined(self, address: int, size: int) -> None:
        """Mark memory as undefined after the host has allocated it."""
        self._set_shadow(INIT, address, size, True)

    def written(self, address: int, size: int) -> None:
        """Mark memory as defined after the host has written it."""
        for kind in self.kinds:
            self._set_shadow(kind, address, size, False)

    def _set_shadow(self, kind: str, address: int, size: int, shadowed: bool) -> None:
        for each, shadow in zip(self.kinds, self.shadow_memories, strict=True):
            if each == kind:
                shadow.follow(self.memory)
                shadow.set_shadow(address, size, shadowed)
