"""Memory windows as the reference driver has them (choices `refsi/window-*`, profile refsidrv)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from understudy.core.errors import AccessFault
from understudy.core.snapshot import Stateful
from understudy.core.space import Unit
from understudy.device.refsi.interfaces import HART
from understudy.device.refsi.refsidrv.devices import MASK64, Bus, Device, Span
from understudy.device.refsi.registers import (
    NUM_WINDOWS,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_MODES,
    WINDOW_SCALE,
    WINDOW_TARGET,
)

SHARED: Final = 0
PER_HART: Final = 1
HART_INDEX_MASK: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Config:
    """What the registers of a window say; addresses, size and scale in bytes."""

    base: int = 0
    target: int = 0
    size: int = 0
    mode: int = SHARED
    scale: int = 0
    active: bool = False


def scaling_factor(scale_a: int, scale_b: int) -> int:
    """SCALE from the fields: field n of SCALE_A stands for 2**(n - 1), 0 for 0."""
    return (1 << scale_a - 1) * (scale_b + 1) if scale_a else 0


class WindowDevice(Stateful):
    """One window: a device that leads to another one, found once when the window is mapped."""

    STATE = ("config", "mapped")

    def __init__(self, number: int, bus: Bus) -> None:
        self.number = number
        self.config = Config()
        self.mapped = Config()
        self._bus = bus
        self.target: tuple[Device, int] | None = None
        """What it leads to, and where in it the window begins; not part of its own state."""

    @property
    def size(self) -> int:
        """Bytes; of the registers while the window is not mapped."""
        return self.mapped.size if self.target is not None else self.config.size

    # -- registers ----------------------------------------------------------------------------------------------

    def write(self, register: int, value: int) -> None:
        """A register of this window, given by the offset of its array, was written.

        A change against what is mapped unmaps the window and clears its ACTIVE bit; then an active window that is
        not mapped gets mapped. `AccessFault` where that fails.
        """
        old = self.config
        if register == WINDOW_BASE.offset:
            self.config = replace(old, base=value)
            changed = value != self.mapped.base
        elif register == WINDOW_TARGET.offset:
            self.config = replace(old, target=value)
            changed = value != self.mapped.target
        elif register == WINDOW_SCALE.offset:
            parts = WINDOW_SCALE.decode(value)
            self.config = replace(old, scale=scaling_factor(parts["SCALE_A"], parts["SCALE_B"]))
            changed = self.config.scale != self.mapped.scale
        else:
            parts = WINDOW_MODE.decode(value)
            self.config = replace(old, active=bool(parts["ACTIVE"]), mode=parts["MODE"], size=parts["SIZE"] + 1)
            changed = (self.config.mode, self.config.size) != (self.mapped.mode, self.mapped.size)
        if changed or not self.config.active:
            self._unmap()
        if self.config.active and self.target is None:
            self._map()

    def open(self, config: Config) -> None:
        """Map the window as `config` says; G1 does so by itself."""
        self.config = config
        self._map()

    def _map(self) -> None:
        config = self.config
        found = self._bus.find(config.target)
        if found is None:
            raise self._refused("its target is no memory")
        if isinstance(found[0], WindowDevice):
            raise self._refused("its target lies in another window")
        if config.mode not in (SHARED, PER_HART):
            raise self._refused(f"mode {config.mode} ({WINDOW_MODES.get(config.mode, 'reserved')}) does not exist")
        self.config = self.mapped = replace(config, active=True)
        self.target = found
        self._bus.add(config.base, self)

    def _unmap(self) -> None:
        if self.target is None:
            return
        self._bus.remove(self.mapped.base)
        self.config = replace(self.config, active=False)
        self.mapped = Config()
        self.target = None

    def _refused(self, why: str) -> AccessFault:
        return AccessFault(
            f"window {self.number} (base {self.config.base:#x}, target {self.config.target:#x}) cannot open: {why}",
            address=self.config.target,
        )

    # -- accesses -----------------------------------------------------------------------------------------------

    def _behind(self, offset: int, unit: Unit) -> tuple[Device, int] | None:
        if self.target is None:
            return None
        device, start = self.target
        if self.mapped.mode == PER_HART:
            if unit.kind != HART:
                return None
            start += (unit.index & HART_INDEX_MASK) * self.mapped.scale
        return device, start + offset & MASK64

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """What the target has there; the window's own size is not looked at."""
        behind = self._behind(offset, unit)
        return None if behind is None else behind[0].span(behind[1], size, unit)

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """The target's slow way; the last byte of the window is out of bounds already."""
        behind = self._behind(offset, unit)
        if behind is None or offset + size & MASK64 >= self.config.size:
            return None
        return behind[0].load(behind[1], size, unit)

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """The target's slow way, likewise."""
        behind = self._behind(offset, unit)
        if behind is None or offset + len(data) & MASK64 >= self.config.size:
            return False
        return behind[0].store(behind[1], data, unit)

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """What the target has there, less the last byte of the window."""
        behind = self._behind(offset, unit)
        if behind is None or offset + size & MASK64 >= self.config.size:
            return None
        return behind[0].slow_span(behind[1], size, unit)


def make_windows(bus: Bus) -> tuple[WindowDevice, ...]:
    """The eight windows, all closed."""
    return tuple(WindowDevice(number, bus) for number in range(NUM_WINDOWS))
