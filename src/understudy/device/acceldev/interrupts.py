"""The six interrupts: active and enabled bits, and the one PCI line that follows from them."""

from __future__ import annotations

import ctypes
import threading
from typing import Final

from understudy.core.line import Line
from understudy.core.telemetry import CountingTelemetry
from understudy.core.words import U32
from understudy.device.acceldev.events import InterruptCleared, InterruptRaised
from understudy.device.acceldev.lints import Lints
from understudy.device.acceldev.memory import Gate
from understudy.device.acceldev.registers import INTERRUPTS, Interrupt

SETTLE_SECONDS: Final = 0.01
"""Longest wait of a register write for another thread that drives the line; bounded, since an observer there may wait
for the writer."""


class Interrupts:
    """``INTR``, ``INTR_ENABLE`` and the line. Observers of the line are called without the device's lock."""

    def __init__(self, gate: Gate, telemetry: CountingTelemetry, lints: Lints) -> None:
        self.line = Line("INTA")
        self._active = ctypes.c_uint32()
        self.enabled = 0
        self._gate = gate
        self._telemetry = telemetry
        self._lints = lints
        self._driver = 0

    @property
    def active(self) -> int:
        """INTR."""
        return self._active.value

    @active.setter
    def active(self, value: int) -> None:
        self._active.value = value

    @property
    def active_address(self) -> int:
        """Where machine code of this process sees INTR."""
        return ctypes.addressof(self._active)

    def reset(self, active: int = 0) -> None:
        """Nothing enabled; `active` is 0 unless the registers are poisoned."""
        with self._gate.lock:
            self.active, self.enabled = active, 0
        self._drive(settle=True)
        self.line.edges = 0

    def raise_(self, interrupt: Interrupt, *, every: bool = True) -> None:
        """The event of an interrupt occurred: it becomes active, and the line may rise.

        Probes hear of `every` one, or of those only that the lints have not told of already.
        """
        with self._gate.lock:
            coalesced = bool(self.active & interrupt)
            self.active |= interrupt
            if every or not self._lints.is_told_coalesced(interrupt):
                self._telemetry.emit(lambda time: InterruptRaised(time, interrupt, coalesced))
            self._lints.raised(interrupt, coalesced)
        self._drive()

    def raised_again(self, interrupt: Interrupt) -> None:
        """Events of an interrupt occurred while it was active, on the executing thread, and nobody was to hear of them.

        That changes nothing but what the lints remember; and not even that where a driver has cleared it since.
        """
        with self._gate.lock:
            if self.active & interrupt:
                self._lints.raised(interrupt, True)

    def clear(self, written: int) -> None:
        """A write to ``INTR``: interrupts with a 1 become inactive."""
        with self._gate.lock:
            cleared = Interrupt(self.active & written)
            self.active &= ~written
            if cleared:
                self._telemetry.emit(lambda time: InterruptCleared(time, cleared))
                self._lints.cleared(cleared)
        self._drive(settle=True)

    def enable(self, written: int) -> None:
        """A write to ``INTR_ENABLE``; bits without a meaning are kept."""
        with self._gate.lock:
            self.enabled = written & U32
        self._drive(settle=True)

    @property
    def level(self) -> bool:
        """Whether the line has to be signalled."""
        return bool(self.active & self.enabled & INTERRUPTS)

    def _drive(self, *, settle: bool = False) -> None:
        """Bring the line to its level.

        One thread at a time does so, and goes on until the level stays; nested calls by an observer act at once. With
        `settle` others wait for that thread: a driver that has cleared an interrupt must not see the line still high.
        """
        me = threading.get_ident()
        while True:
            with self._gate.changed:
                if settle and self._driver not in (0, me):
                    self._gate.changed.wait_for(lambda: not self._driver, SETTLE_SECONDS)
                if self._driver not in (0, me) or self.line.level == self.level:
                    return
                nested = self._driver == me
                self._driver = me
                level = self.level
            try:
                self.line.set(level)
            finally:
                if not nested:
                    with self._gate.changed:
                        self._driver = 0
                        self._gate.changed.notify_all()
