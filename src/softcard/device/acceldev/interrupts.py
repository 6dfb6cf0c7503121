"""The six interrupts: their active and enabled bits, and the PCI interrupt line that results from them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from softcard.core.completion import Line
from softcard.core.device import CountingTelemetry
from softcard.core.register import RegisterFile
from softcard.device.acceldev.events import InterruptCleared, InterruptRaised
from softcard.device.acceldev.lints import Lints
from softcard.device.acceldev.memory import Gate
from softcard.device.acceldev.registers import INTERRUPTS, Interrupt

UPDATE_SECONDS: Final = 0.01
"""The maximum time in seconds that a register write waits while another thread sets the interrupt line.

The wait is limited because that thread may call an observer of the line that itself waits for the writer.
"""


class Interrupts:
    """The registers ``INTR`` and ``INTR_ENABLE``, and the interrupt line that depends on them.

    Observers of the line are called while the device's lock is not held. `active_address` is the address, in
    this process, of the value of INTR. The native function that executes user commands reads the value there."""

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
        """The value of INTR."""
        return self._values[self._intr]

    @property
    def enabled(self) -> int:
        """The value of INTR_ENABLE."""
        return self._values[self._intr_enable]

    def reset(self, active: int = 0) -> None:
        """Disable all interrupts and set the register INTR to `active`.

        `active` is 0, unless the settings require that undefined registers hold noise.
        """
        with self._gate.lock:
            self._values[self._intr], self._values[self._intr_enable] = active, 0
        self.update_line()
        self.line.edges = 0

    def raise_(self, interrupt: Interrupt, *, every: bool = True) -> None:
        """Make `interrupt` active, and raise the interrupt line if the interrupt is enabled.

        With `every`, each call emits an event to the probes. Without it, calls emit no more events after a lint has
        reported the interrupt as coalesced, until a driver clears the interrupt."""
        bit, telemetry = interrupt.value, self._telemetry
        with self._gate.lock:
            coalesced = bool(self.active & bit)
            self._values[self._intr] |= bit
            if telemetry.listened and (every or not self._lints.has_reported_coalesced(interrupt)):
                telemetry.emit(lambda time: InterruptRaised(time, interrupt, coalesced))
            self._lints.raised(interrupt, coalesced)
        self._drive()

    def note_occurrence(self, interrupt: Interrupt) -> None:
        """Record for the lints that `interrupt` was requested again while it was active.

        The executing thread calls this if there are no subscribers. The call has no effect if a driver has cleared the
        interrupt in the meantime.
        """
        with self._gate.lock:
            if self.active & interrupt:
                self._lints.raised(interrupt, True)

    def cleared(self, written: int, before: int) -> Callable[[], None]:
        """Record that a driver wrote `written` to ``INTR``, which clears the active interrupts whose bit is 1 there.

        `before` is the value of ``INTR`` before the write. Return a function that updates the interrupt line; the
        caller calls it after the lock is released."""
        cleared = Interrupt(before & written)
        if cleared:
            self._telemetry.emit(lambda time: InterruptCleared(time, cleared))
            self._lints.cleared(cleared)
        return self.update_line

    def update_line(self) -> None:
        """Set the interrupt line to its new level after a driver has cleared or enabled interrupts."""
        self._drive(waits=True)

    @property
    def level(self) -> bool:
        """True if the interrupt line must be high: at least one interrupt is both active and enabled."""
        return bool(self.active & self.enabled & INTERRUPTS)

    def _drive(self, *, waits: bool = False) -> None:
        """Set the interrupt line to the current `level`.

        Only one thread at a time drives the line, and repeats this until the level is stable. A nested call by an
        observer of the line sets the line at once. A call on another thread returns without waiting unless `waits` is
        True. A driver that has cleared an interrupt waits, because it must not see the line still high.
        """
        me = threading.get_ident()
        while True:
            with self._gate.changed:
                if waits and self._driver not in (0, me):
                    self._gate.changed.wait_for(lambda: not self._driver, UPDATE_SECONDS)
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
