"""The six interrupts: active and enabled bits, and the one PCI line that follows from them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from understudy.core.line import Line
from understudy.core.register_file import RegisterFile
from understudy.core.telemetry import CountingTelemetry
from understudy.device.acceldev.events import InterruptCleared, InterruptRaised
from understudy.device.acceldev.lints import Lints
from understudy.device.acceldev.memory import Gate
from understudy.device.acceldev.registers import INTERRUPTS, Interrupt

SETTLE_SECONDS: Final = 0.01
"""Longest wait of a register write for another thread that drives the line; bounded, since an observer there may wait
for the writer."""


class Interrupts:
    """``INTR``, ``INTR_ENABLE`` and the line. Observers of the line are called without the device's lock.

    `active_address` is where machine code of this process sees INTR.
    """

    def __init__(
        self, registers: RegisterFile, active_address: int, gate: Gate, telemetry: CountingTelemetry, lints: Lints
    ) -> None:
        self.line = Line("INTA")
        self.active_address = active_address
        self._values = registers.values
        self._intr, self._intr_enable = registers.number("INTR"), registers.number("INTR_ENABLE")
        self._gate = gate
        self._telemetry = telemetry
        self._lints = lints
        self._driver = 0

    @property
    def active(self) -> int:
        """INTR."""
        return self._values[self._intr]

    @property
    def enabled(self) -> int:
        """INTR_ENABLE."""
        return self._values[self._intr_enable]

    def reset(self, active: int = 0) -> None:
        """Nothing enabled; `active` is 0 unless the registers are poisoned."""
        with self._gate.lock:
            self._values[self._intr], self._values[self._intr_enable] = active, 0
        self.settle()
        self.line.edges = 0

    def raise_(self, interrupt: Interrupt, *, every: bool = True) -> None:
        """The event of an interrupt occurred: it becomes active, and the line may rise.

        Probes hear of `every` one, or of those only that the lints have not told of already.
        """
        bit, telemetry = interrupt.value, self._telemetry
        with self._gate.lock:
            coalesced = bool(self.active & bit)
            self._values[self._intr] |= bit
            if telemetry.listened and (every or not self._lints.is_told_coalesced(interrupt)):
                telemetry.emit(lambda time: InterruptRaised(time, interrupt, coalesced))
            self._lints.raised(interrupt, coalesced)
        self._drive()

    def raised_again(self, interrupt: Interrupt) -> None:
        """Events of an interrupt occurred while it was active, on the executing thread, and nobody was to hear of them.

        That changes nothing but what the lints remember; and not even that where a driver has cleared it since.
        """
        with self._gate.lock:
            if self.active & interrupt:
                self._lints.raised(interrupt, True)

    def cleared(self, written: int, before: int) -> Callable[[], None]:
        """``INTR`` was written: interrupts with a 1 are inactive. The line follows with what this gives."""
        cleared = Interrupt(before & written)
        if cleared:
            self._telemetry.emit(lambda time: InterruptCleared(time, cleared))
            self._lints.cleared(cleared)
        return self.settle

    def settle(self) -> None:
        """A driver has cleared or enabled interrupts: the line is at its level when this returns."""
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
