"""The check of memory, as far as all devices share it: bounds of allocations, memory behind a wall, findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from understudy.core.allocations import OUT_OF_BOUNDS, USE_AFTER_FREE, WILD, Allocation, Allocations
from understudy.core.checks import LEAKS, MEMORY, read_suppressions
from understudy.core.findings import Finding, FindingLog, Level
from understudy.core.space import Ram, Unit

if TYPE_CHECKING:
    from understudy.core.settings import KernelSettings

DOUBLE_FREE: Final = "double-free"
INVALID_FREE: Final = "invalid-free"
LEAK: Final = "leak"
REFUSED: Final = "refused-access"
LDS: Final = "lds-out-of-bounds"
PRIVATE: Final = "private-out-of-bounds"
MISALIGNED: Final = "misaligned"
PRIVATE_MEMORY: Final = "private memory of a wave"
WAVE: Final = 64
"""Work-items of a wave."""
HOST: Final = "host"
"""Who owns what a program allocated by itself."""

SUGGESTIONS: Final = {
    OUT_OF_BOUNDS: "compare the index with the number of elements; grids are often rounded up to whole work-groups",
    USE_AFTER_FREE: "free memory behind the last launch that uses it, and wait for that launch first",
    WILD: "the address was never that of an allocation: look at how it is made, and at the kernel's arguments",
    LDS: "ask for more LDS (group_bytes, Local), or compare the index with the work-group's size",
    PRIVATE: "the index runs out of a local array of the work-item",
    REFUSED: "look at the windows that are open, and at what they allow",
    MISALIGNED: "atomics act on addresses that are multiples of their size",
    DOUBLE_FREE: "free each allocation once",
    INVALID_FREE: "free the address that allocate gave, not one inside",
    LEAK: "free it, or let `with` do so",
}


@dataclass(frozen=True, slots=True)
class Sight:
    """Who made an access: the instruction, its wave or hart, its work-group, the lanes that it was wrong for."""

    pc: int | None = None
    insn: str = ""
    unit: str = ""
    group: str = ""
    lanes: tuple[int, ...] = ()


NOBODY: Final = Sight()


class MemoryCheck:
    """What the check of one memory knows and has found. `leaks`: whether what is left at the end is told of."""

    def __init__(self, log: FindingLog, leaks: bool = False) -> None:
        self.allocations = Allocations()
        self.strides: dict[int, tuple[int, int]] = {}
        """Private memory by its address: bytes of a work-item, and from one wave to the next."""
        self.log = log
        self.leaks = leaks

    @classmethod
    def of(cls, settings: KernelSettings, findings: list[Any]) -> MemoryCheck | None:
        """The check that settings ask for; None where they do not."""
        if not settings.checks & {MEMORY, LEAKS}:
            return None
        return cls(log_of(settings, findings), LEAKS in settings.checks)

    def judge(self, access: str, size: int, address: int, sight: Sight) -> None:
        """Tell of an access of one unit, if anything is wrong with it."""
        self.judge_lanes(access, size, [address], sight, [()])

    def judge_lanes(
        self, access: str, size: int, addresses: Sequence[int], sight: Sight, lanes: Sequence[tuple[int, ...]]
    ) -> None:
        """Tell of an access of several lanes, each with its address: once for each allocation that it misses."""
        found: dict[tuple[str, int], Finding] = {}
        meant = self._meant(addresses, size)
        for address, who in zip(addresses, lanes, strict=True):
            verdict = self.allocations.judge(address, size, meant)
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
                    f"{access} of {size} bytes at offset {at:#x} of private memory: a work-item has {own} bytes of it"
                )
            made = finding(kind, text, sight, access=access, space="global", address=address, size=size)
            made.allocation, made.distance, made.lanes = missed, verdict.distance, who
            found[key] = made
        for each in found.values():
            self.log.note(each)

    def _meant(self, addresses: Sequence[int], size: int) -> Allocation | None:
        """What the first lane hits that is right, or else nearly."""
        first = None
        for address in addresses:
            verdict = self.allocations.judge(address, size)
            if verdict is None:
                return self.allocations.around(address)[0]
            first = first or verdict.allocation
        return first

    def freed(self, base: int) -> Allocation | None:
        """The host frees what begins at `base`; a finding, and None, where that does not live."""
        found = self.allocations.free(base)
        if found is None:
            self.not_freed(base)
        return found

    def not_freed(self, base: int) -> None:
        """Tell of a free of something that does not live (any more)."""
        below, _ = self.allocations.around(base)
        if below is not None and below.base == base:
            made = finding(DOUBLE_FREE, f"free of {base:#x}, once more: {below}", NOBODY, access="free", address=base)
        else:
            inside = f", which is inside {below}" if below is not None and base < below.end else ""
            made = finding(INVALID_FREE, f"free of {base:#x}{inside}", NOBODY, access="free", address=base)
        made.allocation = below
        self.log.note(made)

    def closed(self) -> None:
        """The device is closed: tell of what the host has left, if that is asked for."""
        for each in self.allocations if self.leaks else ():
            if each.owner == HOST and not each.freed:
                made = finding(LEAK, f"not freed: {each}", NOBODY, address=each.base, size=each.size)
                made.level, made.allocation = Level.WARNING, each
                self.log.note(made)


def log_of(settings: KernelSettings, findings: list[Any]) -> FindingLog:
    """Where findings of a device go, as its settings say."""
    suppressions = read_suppressions(settings.suppressions) if settings.suppressions else ()
    return FindingLog(findings, settings.finding_limit, suppressions, settings.raises)


def finding(kind: str, message: str, sight: Sight, **more: Any) -> Finding:
    """A finding of this check."""
    return Finding(
        MEMORY,
        kind,
        message,
        lanes=sight.lanes,
        unit=sight.unit,
        group=sight.group,
        pc=sight.pc,
        insn=sight.insn,
        suggestion=SUGGESTIONS[kind],
        **more,
    )


def _of_lane(offset: int) -> int:
    """What a work-item calls the place at an offset of its wave's private memory, which is swizzled by dwords."""
    return offset // (4 * WAVE) * 4 + offset % 4


class Guarded:
    """RAM from `start` on, up to its end or `end`, behind a wall: every access goes the slow way, where it is judged.

    What lies between the end of an allocation and of its page, and what has been freed: loads give what is there,
    stores land, and nobody else sees them.
    """

    __slots__ = ("_view", "size")

    def __init__(self, ram: Ram, start: int = 0, end: int | None = None) -> None:
        self._view = ram.view[start:end]
        self.size = len(self._view)

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """What is there."""
        return bytes(self._view[offset : offset + size])

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Change it."""
        self._view[offset : offset + len(data)] = data

    def host_address(self, offset: int, unit: Unit) -> None:
        """None: nothing goes there directly."""
