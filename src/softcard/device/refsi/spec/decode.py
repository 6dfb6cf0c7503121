"""Address decoding of the `spec` profile, which finds the memory or register of an access.

For an invalid access it finds the rule that the access breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import AccessFault
from softcard.core.rule import Rule
from softcard.core.space import AddressSpace, Mapping, Ram, Unit
from softcard.device.refsi import rules
from softcard.device.refsi.launch import INVALID_KTB, INVALID_PACKED_ARGS
from softcard.device.refsi.spec.windows import PER_HART, SHARED, Topology, Window, WindowFile, unit_name
from softcard.device.refsi.toolkit.builder import SPEC

NEAR: Final = 1 << 20
"""The number of bytes after the end of a window in which accesses are reported as overruns of the window."""

ABSENT_BYTES: Final = 0x1000
"""The number of bytes from an invalid pointer's value on that are attributed to that pointer.

Accesses there are reported as made with the pointer. See the choice `refsi/invalid-address`.
"""

_ABSENT: Final = (
    (INVALID_PACKED_ARGS, "this is the packed_args pointer of a kernel without arguments", rules.KARGS_SET),
    (INVALID_KTB, "this is the ktb pointer of a kernel without thread-specific data", rules.TSD_SIZE_ZERO),
)
_ACTIVITY: Final = {"read": "reading", "write": "writing", "execute": "executing"}
_NO_SEAT: Final = {1: ("hart_id", rules.WINDOW_PER_HART), 2: ("core_id", rules.WINDOW_PER_CORE)}


@dataclass(frozen=True, slots=True)
class Location:
    """The location of the `size` bytes of an access.

    All bytes are in one region of memory or registers. If the access goes through a window, they may be several
    contiguous runs in that region. `physical` is the address of the first byte."""

    mapping: Mapping
    physical: int
    size: int
    window: Window | None = None
    seat: tuple[int, int] = (0, 1)
    offset: int = 0

    @property
    def contiguous(self) -> bool:
        """True if the bytes are contiguous in physical memory."""
        return self.window is None or self.size <= self.window.run(self.offset, self.seat)[1]

    @property
    def pieces(self) -> int:
        """An upper bound on the number of contiguous runs; it is exact if that number is one."""
        if self.window is None or self.contiguous:
            return 1
        return self.size // self.window.granule + 2

    @property
    def ram(self) -> Ram | None:
        """The plain memory of the location; None for registers."""
        return self.mapping.region if isinstance(self.mapping.region, Ram) else None

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the contiguous runs as physical (address, size), in the order of the access."""
        if self.window is None:
            yield self.physical, self.size
        else:
            yield from self.window.runs(self.offset, self.size, self.seat)

    def at(self, skip: int, size: int) -> Location:
        """Return the location of the `size` bytes of this location that follow its first `skip` bytes."""
        if self.window is None:
            return Location(self.mapping, self.physical + skip, size)
        offset = self.offset + skip
        return Location(self.mapping, self.window.run(offset, self.seat)[0], size, self.window, self.seat, offset)


class Decoder:
    """A decoder that finds the memory or register at a device address.

    An invalid access raises an `AccessFault` that names the rule that it breaks."""

    def __init__(self, space: AddressSpace, windows: WindowFile, topology: Topology) -> None:
        self.space = space
        self.windows = windows
        self.topology = topology

    def locate(self, address: int, size: int, unit: Unit, access: str) -> Location:
        """Return the location of the `size` (1 or more) bytes at `address` for `unit`.

        `access` is read, write or execute.
        """
        self.topology.check(unit, address, access)
        last = address + size - 1
        windows = [window for window in self.windows.active if window.base <= last and address < window.end]
        physical = [mapping for mapping in self.space if mapping.base <= last and address < mapping.end]
        if len(windows) + len(physical) > 1:
            self._refuse_overlap(address, size, access, windows, physical)
        if windows:
            return self._through(windows[0], address, size, unit, access)
        if physical and physical[0].base <= address and last < physical[0].end:
            return Location(physical[0], address, size)
        raise self._missing(address, size, access, physical)

    def span(self, address: int, unit: Unit, access: str) -> tuple[int, int, Location] | None:
        """Return the widest range around `address` in which host address minus device address is constant.

        The result is (start, end, location of `address`). Return None if `locate` would refuse the byte at `address`
        for `unit`."""
        try:
            place = self.locate(address, 1, unit, access)
        except AccessFault:
            return None
        if place.window is None:
            start, end = place.mapping.base, place.mapping.end
        else:
            granule = place.window.granule if place.seat[1] > 1 else 0
            start = address - place.offset % granule if granule else place.window.base
            end = min(start + granule, place.window.end) if granule else place.window.end
            distance = address - place.physical
            start = max(start, place.mapping.base + distance)
            end = min(end, place.mapping.end + distance)
        own: tuple[Window | Mapping | None, ...] = (place.window, place.mapping if place.window is None else None)
        others: list[Window | Mapping] = [*self.windows.active, *self.space]
        for other in others:
            if other in own:
                continue
            if other.end <= address:
                start = max(start, other.end)
            elif address < other.base:
                end = min(end, other.base)
        return start, end, place

    def _through(self, window: Window, address: int, size: int, unit: Unit, access: str) -> Location:
        """Return the location of an access through `window`.

        The caller has verified that no other window or memory contains any of the bytes. Raise `AccessFault` if
        the window does not permit the access."""
        what = f"{access} of {size} bytes at {address:#x} through {window.name}"
        if not window.base <= address <= address + size <= window.end:
            raise _fault(f"{what} exceeds the bounds of the window", address, access, rules.WINDOW_SIZE)
        seat = window.seat(unit, self.topology)
        if seat is None:
            name, rule = _NO_SEAT[window.mode]
            raise _fault(f"{what} as {unit_name(unit)}, which has no {name}", address, access, rule)
        if not window.permits(access):
            raise _fault(
                f"{what}: the window's PERMS {window.perms:#05b} do not permit {_ACTIVITY[access]}",
                address,
                access,
                rules.WINDOW_PERMS,
            )
        offset = address - window.base
        first, room = window.run(offset, seat)
        final = first + size if size <= room else window.run(offset + size - 1, seat)[0] + 1
        mapping = self.space.find(first)
        if mapping is None or final > mapping.end:
            raise self._bad_target(what, window, seat, first, final, address, access)
        return Location(mapping, first, size, window, seat, offset)

    def _bad_target(
        self, what: str, window: Window, seat: tuple[int, int], first: int, final: int, address: int, access: str
    ) -> AccessFault:
        target = f"{what}: its target {first:#x}..{final:#x}"
        if any(other.base <= first < other.end for other in self.windows.active):
            text = f"{target} is a window, expected a physical memory area"
            return _fault(text, address, access, rules.WINDOW_TARGET_PHYSICAL)
        text = f"{target} is outside of every memory"
        if window.mode != SHARED and not window.granule and seat[0]:
            kind = "hart" if window.mode == PER_HART else "core"
            text += f" (TARGET {window.target:#x} + SCALE {window.scale:#x} * {kind} {seat[0]}"
            half = self.space.find(first - window.scale * seat[0] // 2)
            if self.windows.scale_encoding == SPEC and half is not None:
                text += (
                    "; half of that SCALE lies in memory: for hosts of the reference driver, where SCALE_A n means "
                    "2^(n-1), set window_scale to driver; see choice refsi/window-scale-fields)"
                )
            else:
                text += ", see choice refsi/window-scale-fields)"
        return _fault(text, address, access, rules.WINDOW_TARGET_PHYSICAL)

    def _refuse_overlap(
        self, address: int, size: int, access: str, windows: list[Window], physical: list[Mapping]
    ) -> None:
        """Raise an error for an access whose bytes are in more than one area (window or memory).

        Either several areas contain the same address, or the access crosses from one area to the next."""
        names = [window.name for window in windows] + [mapping.name for mapping in physical]
        starts = [window.base for window in windows] + [mapping.base for mapping in physical]
        ends = [window.end for window in windows] + [mapping.end for mapping in physical]
        what = f"{access} of {size} bytes at {address:#x}"
        if max(starts) < min(ends) or len(names) > 2:
            raise _fault(
                f"{what}: the address is claimed by {' and '.join(names)}, expected only one of them",
                address,
                access,
                rules.MEMORY_OVERLAP,
            )
        rule = rules.WINDOW_SIZE if windows else rules.MEMORY_MAP
        raise _fault(f"{what} crosses from {names[0]} to {names[1]}, expected only one of them", address, access, rule)

    def _missing(self, address: int, size: int, access: str, physical: list[Mapping]) -> AccessFault:
        what = f"{access} of {size} bytes at {address:#x}"
        if physical:
            name = physical[0].name
            bounds = f"{physical[0].base:#x}..{physical[0].end:#x}"
            return _fault(f"{what} exceeds the bounds of {name} ({bounds})", address, access, rules.MEMORY_MAP)
        closed = self.windows.inactive_at(address)
        if closed is not None:
            return _fault(f"{what}: {closed.name} is not active", address, access, rules.WINDOW_ACTIVE)
        before = [window for window in self.windows.active if 0 <= address - window.end < NEAR]
        if before:
            near = max(before, key=lambda window: window.end)
            distance = address - near.end
            text = f"{what}: no memory there, {distance:#x} bytes past the end of {near.name}"
            return _fault(text, address, access, rules.WINDOW_SIZE)
        for start, text, rule in _ABSENT:
            if start <= address < start + ABSENT_BYTES:
                return _fault(f"{what}: {text}", address, access, rule)
        return _fault(f"{what}: no memory there", address, access, rules.MEMORY_MAP)


def _fault(message: str, address: int, access: str, rule: Rule) -> AccessFault:
    return AccessFault(message, address=address, access=access, rule=rule)
