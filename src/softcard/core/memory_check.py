"""The check of memory, which all devices share: it reports accesses outside of allocations, and wrong frees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from softcard.core.allocations import (
    HOST,
    OUT_OF_BOUNDS,
    PRIVATE_MEMORY,
    UNKNOWN_ORIGIN,
    USE_AFTER_FREE,
    WILD,
    AccessOrigin,
    Allocation,
    Allocations,
    Guard,
)
from softcard.core.checks import MEMORY, having
from softcard.core.findings import Finding, FindingLog, Level

DOUBLE_FREE: Final = "double-free"
INVALID_FREE: Final = "invalid-free"
LEAK: Final = "leak"
REFUSED: Final = "refused-access"
LDS: Final = "lds-out-of-bounds"
PRIVATE: Final = "private-out-of-bounds"
MISALIGNED: Final = "misaligned"
WAVE: Final = 64
"""The number of work-items of a wave."""

SUGGESTIONS: Final = {
    OUT_OF_BOUNDS: "compare the index with the number of elements",
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

GRIDS: Final = "; grids are often rounded up to whole work-groups"
"""The addition to the suggestion about an index for kernels that run in work-groups."""


class MemoryCheck:
    """The check of all accesses to one memory. With `leaks`, it also reports allocations that the host never freed."""

    def __init__(self, log: FindingLog, leaks: bool = False) -> None:
        self.allocations = Allocations()
        self.strides: dict[int, tuple[int, int]] = {}
        """Private memories by address: the bytes of each work-item, and the bytes from one wave to the next."""
        self.log = log
        self.leaks = leaks

    def check(self, access: str, size: int, address: int, origin: AccessOrigin) -> bool:
        """Check one access, made at `origin`; return False, and report a finding, if it is invalid.

        `access` is its kind as text.
        """
        return self.check_lanes(access, size, [address], origin, [()])

    def check_lanes(
        self, access: str, size: int, addresses: Sequence[int], origin: AccessOrigin, lanes: Sequence[tuple[int, ...]]
    ) -> bool:
        """Check the accesses of several lanes; return False if some are invalid.

        Report one finding for each allocation that invalid accesses concern. Each entry of `addresses` is the address
        of one access. The entry of `lanes` at the same index has the numbers of the lanes that make it."""
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
        return not found

    def refused(self, access: str, size: int, address: int, origin: AccessOrigin, reason: str) -> None:
        """Report an access that the memory refuses, although an allocation contains it; `reason` is its error text."""
        self.log.note(finding(REFUSED, reason, origin, access=access, address=address, size=size))

    def _meant(self, addresses: Sequence[int], size: int) -> Allocation | None:
        """Return the allocation that the lanes are most probably meant to access, or None.

        This is the allocation that contains the first valid access. If no access is valid, it is the allocation to
        which the first access near any allocation is nearest."""
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


def guard_of(names: Collection[str], log: FindingLog | None) -> Guard | None:
    """Return the guard of a device's allocations if one of the checks `names` needs it, else None."""
    wanted = having(names, lambda kind: kind.guards_allocations)
    if log is None or not wanted:
        return None
    return MemoryCheck(log, bool(having(wanted, lambda kind: kind.at_close)))


def finding(kind: str, message: str, origin: AccessOrigin, **more: Any) -> Finding:
    """Return a finding of the memory check for an access with the source `origin`."""
    suggestion = SUGGESTIONS[kind] + (GRIDS if kind == OUT_OF_BOUNDS and origin.group else "")
    return Finding(
        MEMORY,
        kind,
        message,
        lanes=origin.lanes,
        unit=origin.unit,
        group=origin.group,
        pc=origin.pc,
        insn=origin.insn,
        suggestion=suggestion,
        capture=origin.registers,
        **more,
    )


def _of_lane(offset: int) -> int:
    """Return the offset in one work-item's private memory, given the offset in its wave's private memory.

    A wave's private memory is interleaved by dwords.
    """
    return offset // (4 * WAVE) * 4 + offset % 4
