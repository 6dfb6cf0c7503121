"""The recorded uses of values with shadow bits set: instruction, lanes and count.

Engines record them, and devices report them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import Registers
from softcard.core.findings import Capture
from softcard.isa.gcn.insn import Insn

QUOTA: Final = 64
"""The number of uses by one instruction that are recorded with lanes; further ones are only counted."""
RENEWED: Final = 4
"""The number of stores by one instruction that are recorded again in each further dispatch.

Without them it would be unknown which dispatches store undefined bits.
"""
SLOTS: Final = 4096
"""The number of rows in the table of counted uses; each row has a key and a count."""
PC_BITS: Final = 56
"""The width of the pc in a key of counted uses.

The bits above it encode the kind of use and the kind of shadow.
"""
CODES: Final = ("branch", "exec", "address", "atomic", "quotient", "loaded", "stored")
ACCESSES: Final = 4096
"""The maximum number of recorded accesses that loaded or stored values with shadow bits set."""

Site = tuple[str, str, int]
"""The key of recorded uses: the kind of shadow, the kind of use, and the pc."""


def code_of(kind: int, what: str) -> int:
    """Return the number that encodes a kind of shadow (by its number) and a kind of use (by its name)."""
    return kind * len(CODES) + CODES.index(what)


def slot_of(pc: int, code: int) -> int:
    """Return the row number of an instruction's uses in the table of counts; `code` is the result of `code_of`."""
    return (pc >> 2) + code * 619 & SLOTS - 1


@dataclass(frozen=True, slots=True)
class WaveLanes:
    """The lanes that use a value, with their wave and its work-group.

    `lanes` is empty if the wave as a whole uses the value."""

    lanes: tuple[int, ...]
    wave: int
    group: tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Use:
    """The recorded uses of values with shadow bits set by one instruction.

    `count` is the number of lanes that used such values, or of waves for a scalar use."""

    kind: str
    what: str
    insn: Insn
    first: WaveLanes
    count: int = 0
    registers: Registers | None = None
    """The registers before the instruction of the first use."""


@dataclass(frozen=True, slots=True)
class Touch:
    """An access that loaded or stored a value with shadow bits set.

    The instruction at `pc` accessed `size` bytes at `address`, in LDS or in guest memory (`space`).
    """

    pc: int
    space: str
    address: int
    size: int
    wave_lanes: WaveLanes
    insn: Insn | None = None


@dataclass(slots=True, eq=False)
class Uses:
    """The record of uses of values with shadow bits set by one device's launches. Thread-safe.

    `kinds` are the kinds of shadow, in the order of their numbers. `quiet` (uint64[SLOTS, 2]) is the table in
    which translated code counts uses for which it takes no side exit."""

    kinds: tuple[str, ...]
    quiet: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros((SLOTS, 2), np.uint64), repr=False)

    sites: dict[Site, Use] = field(default_factory=dict)
    loaded: dict[tuple[str, int], Touch] = field(default_factory=dict)
    """The first load of memory with shadow bits set, by kind of shadow and pc."""
    stored: dict[tuple[str, str, int], Touch] = field(default_factory=dict)
    """The last store of values with shadow bits set, by kind of shadow, address space and address."""
    stores: int = 0
    """The number of recorded stores of undefined bits to global memory."""
    storing: dict[Site, Insn | None] = field(default_factory=dict, repr=False)
    """The instructions that stored undefined bits, by the key of the recorded use."""
    at_stores: dict[int, tuple[WaveLanes, Registers | None]] = field(default_factory=dict, repr=False)
    """The first store of undefined bits to global memory by each instruction, by pc: its lane and the registers."""
    _times: dict[Site, int] = field(default_factory=dict, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, kind: str, what: str, insn: Insn, wave_lanes: WaveLanes, capture: Capture | None = None) -> None:
        """Record a use of a value with shadow bits set; `capture` returns the registers before the instruction."""
        with self.lock:
            use = self.sites.get((kind, what, insn.pc))
            if use is None:
                use = self.sites[kind, what, insn.pc] = Use(kind, what, insn, wave_lanes)
                use.registers = capture and capture(wave_lanes.lanes[0] if wave_lanes.lanes else None)
            use.count += max(len(wave_lanes.lanes), 1)
            self._seen(kind, what, insn.pc)

    def counts(self) -> dict[Site, int]:
        """Return the number of uses by each instruction, in lanes, or in waves for a scalar use."""
        with self.lock:
            found = {site: use.count for site, use in self.sites.items()}
            for kind, what, pc in found:
                key, number = self._row(kind, what, pc)
                if int(self.quiet[number, 0]) == key:
                    found[kind, what, pc] += int(self.quiet[number, 1])
            return found

    def _row(self, kind: str, what: str, pc: int) -> tuple[int, int]:
        code = code_of(self.kinds.index(kind), what)
        return pc | code << PC_BITS, slot_of(pc, code)

    def _seen(self, kind: str, what: str, pc: int) -> None:
        """Count one recorded use of the kind `what`, by the instruction at `pc`, of a value with shadow bits set.

        `kind` is the kind of shadow. After `QUOTA` recorded uses, translated code only counts further uses, without
        a side exit."""
        times = self._times[kind, what, pc] = self._times.get((kind, what, pc), 0) + 1
        if times == QUOTA:
            key, number = self._row(kind, what, pc)
            if not self.quiet[number, 0]:
                self.quiet[number] = key, 0

    def touch(self, kind: str, what: str, touches: list[Touch], capture: Capture | None = None) -> None:
        """Record the accesses of several lanes by one instruction.

        `what` is "loaded" for loads of memory with shadow bits set, "stored" for stores of values with shadow bits
        set. `capture` returns the registers before the instruction."""
        with self.lock:
            self._seen(kind, what, touches[0].pc)
            if what == "loaded":
                self.loaded.setdefault((kind, touches[0].pc), touches[0])
                return
            if touches[0].space == "global":
                self.stores += 1
                if touches[0].pc not in self.at_stores:
                    who = touches[0].wave_lanes
                    self.at_stores[touches[0].pc] = who, capture and capture(who.lanes[0] if who.lanes else None)
                self.storing[kind, what, touches[0].pc] = touches[0].insn
            if len(self.stored) < ACCESSES:
                self.stored.update({(kind, each.space, each.address): each for each in touches})

    def registers_of(self, touch: Touch) -> Registers | None:
        """Return the registers before a store; None if it is not the first store by its instruction."""
        who, registers = self.at_stores.get(touch.pc, (None, None))
        return registers if who == touch.wave_lanes else None

    def watch_stores(self) -> None:
        """Let translated code record stores of undefined bits to global memory again, by side exits.

        After many records it only counts such stores. This method is called when a dispatch begins."""
        with self.lock:
            for site in self.storing:
                if self._times.get(site, 0) >= QUOTA:
                    self._times[site] = QUOTA - RENEWED
                    key, number = self._row(*site)
                    if int(self.quiet[number, 0]) == key:
                        self.quiet[number] = 0
