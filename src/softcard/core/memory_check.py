"""The code of the memory check that all devices share: bounds of allocations, guarded memory, findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from softcard.core.allocations import OUT_OF_BOUNDS, USE_AFTER_FREE, WILD, Allocation, Allocations
from softcard.core.checks import LEAKS, MEMORY, read_suppressions
from softcard.core.findings import Finding, FindingLog, Level
from softcard.core.space import Ram, Unit

if TYPE_CHECKING:
    from softcard.core.settings import KernelSettings

DOUBLE_FREE: Final = "double-free"
INVALID_FREE: Final = "invalid-free"
LEAK: Final = "leak"
REFUSED: Final = "refused-access"
LDS: Final = "lds-out-of-bounds"
PRIVATE: Final = "private-out-of-bounds"
MISALIGNED: Final = "misaligned"
PRIVATE_MEMORY: Final = "private memory of a wave"
WAVE: Final = 64
"""The number of work-items of a wave."""
HOST: Final = "host"
"""The owner of memory that the host program allocated itself."""

SUGGESTIONS: Final = {
    OUT_OF_BOUNDS: "compare the index with the number of elements; grids are often rounded up to whole work-groups",
    USE_AFTER_FREE: "free memory after the last launch that uses it, and wait for that launch first",
    WILD: "no allocation ever had this address: check its computation, and the kernel's arguments",
    LDS: "ask for more LDS (group_bytes, Local), or compare the index with the work-group's size",
    PRIVATE: "an index exceeds a local array of the work-item, or calls nest too deeply for its private memory",
    REFUSED: "check which memory windows are open, and which accesses they allow",
    MISALIGNED: "align the address of an atomic to the size of its operand",
    DOUBLE_FREE: "free each allocation once",
    INVALID_FREE: "free the address that allocate returned, not one inside of the allocation",
    LEAK: "free the allocation, or open the device in a `with` statement",
}


@dataclass(frozen=True, slots=True)
class AccessOrigin:
    """The source of an access: the instruction, its wave or hart, its work-group, and the lanes concerned."""

    pc: int | None = None
    insn: str = ""
    unit: str = ""
    group: str = ""
    lanes: tuple[int, ...] = ()


UNKNOWN_ORIGIN: Final = AccessOrigin()


class MemoryCheck:
    """The check of all accesses to one memory. With `leaks`, it also reports allocations that the host never freed."""

    def __init__(self, log: FindingLog, leaks: bool = False) -> None:
        self.allocations = Allocations()
        self.strides: dict[int, tuple[int, int]] = {}
        """Private memories by address: the bytes of each work-item, and the bytes from one wave to the next."""
        self.log = log
        self.leaks = leaks

    @classmethod
    def of(cls, settings: KernelSettings, findings: list[Any]) -> MemoryCheck | None:
        """Return the memory check that the settings request, which adds to `findings`, or None."""
        if not settings.checks & {MEMORY, LEAKS}:
            return None
        return cls(log_of(settings, findings), LEAKS in settings.checks)

    def check(self, access: str, size: int, address: int, origin: AccessOrigin) -> None:
        """Check one access, made at `origin`, and report a finding if it is invalid. `access` is its kind as text."""
        self.check_lanes(access, size, [address], origin, [()])

    def check_lanes(
        self, access: str, size: int, addresses: Sequence[int], origin: AccessOrigin, lanes: Sequence[tuple[int, ...]]
    ) -> None:
        """Check the accesses of several lanes; report one finding for each allocation that invalid accesses concern.

        Each entry of `addresses` is the address of one access. The entry of `lanes` at the same index has the
        numbers of the lanes that make it."""
        found: dict[tuple[str, int], Finding] = {}
        meant = self._meant(addresses, size)
        for address, who in zip(addresses, lanes, strict=True):
            verdict = self.allocations.check(address, size, meant)
            if verdict is None:
                continue
            missed = verdict.allocation
            kind = PRIVATE if missed is not None and missed.name == PRIVATE_MEMORY else verdict.kind
            key = kind, 0 if missed is None else missed.serial
            if key in found:
                found[key].lanes += who
                found[key].count += 1
                continue
            text = f"{access} of {size} bytes at {address:#x}: {verdict.text}"
            if kind == PRIVATE and missed is not None:
                at, own = _of_lane(address - missed.base), missed.size // WAVE
                text = (
                    f"{access} of {size} bytes at offset {at:#x} of private memory is out of bounds: a work-item has "
                    f"{own} bytes"
                )
            made = finding(kind, text, origin, access=access, space="global", address=address, size=size)
            made.allocation, made.distance, made.lanes = missed, verdict.distance, who
            found[key] = made
        for each in found.values():
            self.log.note(each)

    def _meant(self, addresses: Sequence[int], size: int) -> Allocation | None:
        """Return the allocation that the lanes are most probably meant to access, or None.

        This is the allocation that contains the first valid access, or else the nearest allocation to the first
        invalid access that is close to one."""
        first = None
        for address in addresses:
            verdict = self.allocations.check(address, size)
            if verdict is None:
                return self.allocations.around(address)[0]
            first = first or verdict.allocation
        return first

    def freed(self, base: int) -> Allocation | None:
        """Record that the host frees the allocation at `base`, and return the allocation.

        If no live allocation begins there, report a finding and return None.
        """
        found = self.allocations.free(base)
        if found is None:
            self.not_freed(base)
        return found

    def not_freed(self, base: int) -> None:
        """Report a free of an address at which no live allocation begins."""
        below, _ = self.allocations.around(base)
        if below is not None and below.base == base:
            made = finding(
                DOUBLE_FREE, f"double free of {base:#x}: {below}", UNKNOWN_ORIGIN, access="free", address=base
            )
        else:
            inside = (
                f", which lies inside {below}"
                if below is not None and base < below.end
                else ", where no allocation starts"
            )
            made = finding(
                INVALID_FREE, f"invalid free of {base:#x}{inside}", UNKNOWN_ORIGIN, access="free", address=base
            )
        made.allocation = below
        self.log.note(made)

    def closed(self) -> None:
        """Report memory that the host never freed, if `leaks` is True; devices call this when they are closed."""
        for each in self.allocations if self.leaks else ():
            if each.owner == HOST and not each.freed:
                made = finding(
                    LEAK,
                    f"memory was not freed before the device was closed: {each}",
                    UNKNOWN_ORIGIN,
                    address=each.base,
                    size=each.size,
                )
                made.level, made.allocation = Level.WARNING, each
                self.log.note(made)


def log_of(settings: KernelSettings, findings: list[Any]) -> FindingLog:
    """Return a log of findings that is configured by the device's settings and adds to `findings`."""
    suppressions = read_suppressions(settings.suppressions) if settings.suppressions else ()
    log = FindingLog(findings, settings.finding_limit, suppressions, settings.raises)
    log.warns = settings.warns
    return log


def finding(kind: str, message: str, origin: AccessOrigin, **more: Any) -> Finding:
    """Return a finding of the memory check for an access with the source `origin`."""
    return Finding(
        MEMORY,
        kind,
        message,
        lanes=origin.lanes,
        unit=origin.unit,
        group=origin.group,
        pc=origin.pc,
        insn=origin.insn,
        suggestion=SUGGESTIONS[kind],
        **more,
    )


def _of_lane(offset: int) -> int:
    """Return the offset in one work-item's private memory, given the offset in its wave's private memory.

    A wave's private memory is interleaved by dwords.
    """
    return offset // (4 * WAVE) * 4 + offset % 4


class Guarded:
    """The bytes of `ram` from offset `start` to `end`, as a memory region whose accesses are all checked.

    `end` is the end of `ram` by default. The region has no host address, so translated code cannot bypass the
    check. Freed bytes, and bytes between the end of an allocation and the end of its page, behave like other
    memory: loads return their content, and stores change it."""

    __slots__ = ("_view", "size")

    def __init__(self, ram: Ram | memoryview, start: int = 0, end: int | None = None) -> None:
        self._view = (ram.view if isinstance(ram, Ram) else ram)[start:end]
        self.size = len(self._view)

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Return `size` bytes from `offset`."""
        return bytes(self._view[offset : offset + size])

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Store `data` at `offset`."""
        self._view[offset : offset + len(data)] = data

    def host_address(self, offset: int, unit: Unit) -> None:
        """Return None: translated code must not access this memory directly."""
