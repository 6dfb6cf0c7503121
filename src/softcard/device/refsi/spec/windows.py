"""The memory windows of RefSi M1: their 32 registers, and address translation through windows.

The module computes only, and accesses no memory. Addresses and sizes are in bytes and unbounded Python integers, so
that an address beyond 2^64 lies outside of every memory instead of wrapping around.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import AccessFault, RuleError
from softcard.core.rule import Rule
from softcard.core.snapshot import Stateful
from softcard.core.space import Unit
from softcard.device.refsi import rules
from softcard.device.refsi.interfaces import ANY, CMP, CORE, EXTERNAL, HART
from softcard.device.refsi.registers import (
    FIRST_WINDOW_REGISTER,
    NUM_CMP_REGISTERS,
    NUM_WINDOWS,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_MODES,
    WINDOW_SCALE,
    WINDOW_TARGET,
)
from softcard.device.refsi.toolkit.builder import SPEC

SHARED: Final = 0
PER_HART: Final = 1
PER_CORE: Final = 2

PERMISSION: Final = {"read": 1, "write": 2, "execute": 4}
"""The bit of the field PERMS for each kind of access."""

UNIT_NAMES: Final = {ANY: "any", EXTERNAL: "the host", CMP: "the CMP", HART: "hart", CORE: "core"}


def unit_name(unit: Unit) -> str:
    """Return the name of a unit for messages: ``hart 2``, ``the CMP``."""
    name = UNIT_NAMES.get(unit.kind, f"unit kind {unit.kind}")
    return f"{name} {unit.index}" if unit.kind in (HART, CORE) else name


@dataclass(frozen=True, slots=True)
class Topology:
    """The numbers of cores and of harts in each core."""

    cores: int = 1
    harts_per_core: int = 4

    @property
    def harts(self) -> int:
        """The number of harts of the device."""
        return self.cores * self.harts_per_core

    def core_of(self, unit: Unit) -> int | None:
        """Return the core_id of a hart or core; None for units without one."""
        if unit.kind == HART:
            return unit.index // self.harts_per_core
        return unit.index if unit.kind == CORE else None

    def check(self, unit: Unit, address: int, access: str) -> None:
        """Raise `AccessFault` if the device has no such unit."""
        limit = {HART: self.harts, CORE: self.cores}.get(unit.kind)
        if unit.kind not in UNIT_NAMES or (limit is not None and not 0 <= unit.index < limit):
            raise AccessFault(
                f"{access} at {address:#x} as {unit_name(unit)}: the unit does not exist, "
                f"expected a hart below {self.harts} or a core below {self.cores}",
                address=address,
                access=access,
                rule=rules.UNIT_EXISTS,
            )


@dataclass(frozen=True, slots=True)
class Window:
    """A window, by the values of its four registers. Sizes, addresses, `scale` and `granule` are in bytes.

    `granule` is 0 unless the target is interleaved. `perms` is the raw field: 0 permits everything.
    """

    number: int
    base: int
    target: int
    size: int
    mode: int
    perms: int
    scale: int
    granule: int = 0

    @property
    def end(self) -> int:
        """The first address after the window."""
        return self.base + self.size

    @property
    def name(self) -> str:
        """The name of the window in messages."""
        return f"window {self.number} ({WINDOW_MODES[self.mode]} {self.base:#x}..{self.end:#x})"

    def permits(self, access: str) -> bool:
        """Return True if the field PERMS of the window allows ``read``, ``write`` or ``execute``."""
        return not self.perms or bool(self.perms & PERMISSION[access])

    def seat(self, unit: Unit, topology: Topology) -> tuple[int, int] | None:
        """Return the index of the unit's area in the window's target, and the number of areas; None if it has no area.

        A window has one area, or one for each hart or core (rules window-per-hart, -per-core)."""
        if self.mode == SHARED:
            return 0, 1
        if self.mode == PER_HART:
            return (unit.index, topology.harts) if unit.kind == HART else None
        core = topology.core_of(unit)
        return None if core is None else (core, topology.cores)

    def runs(self, offset: int, size: int, seat: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yield the contiguous physical (address, size) runs of the `size` bytes from `offset` on, in order.

        `seat` is a result of the method `seat`: the index of the unit's area, and the number of areas."""
        while size > 0:
            address, room = self.run(offset, seat)
            length = min(size, room)
            yield address, length
            offset += length
            size -= length

    def run(self, offset: int, seat: tuple[int, int]) -> tuple[int, int]:
        """Return the physical address of the byte at `offset`, and the number of contiguous bytes from there on.

        `seat` is a result of the method `seat`: the index of the unit's area, and the number of areas."""
        index, count = seat
        if not self.granule or count == 1:
            return self.target + (0 if self.granule else self.scale * index) + offset, self.size - offset
        granule, within = divmod(offset, self.granule)
        address = self.target + (granule * count + index) * self.granule + within
        return address, min(self.granule - within, self.size - offset)


class WindowFile(Stateful):
    """The window registers, 8 to 39, as last written, and the windows that are active now."""

    STATE = ("_values", "active")

    def __init__(self, scale_encoding: str = SPEC) -> None:
        self.scale_encoding = scale_encoding
        """The profile that determines the interpretation of SCALE_A."""
        self._values = [0] * NUM_CMP_REGISTERS
        self.active: tuple[Window, ...] = ()

    def reset(self) -> None:
        """Set all registers to 0: no window is active."""
        self._values = [0] * NUM_CMP_REGISTERS
        self.active = ()

    def write(self, number: int, value: int) -> bool:
        """Set CMP register `number` (8..39); return True if an active window changed.

        Raise `RuleError` for reserved values.
        """
        if not FIRST_WINDOW_REGISTER <= number < NUM_CMP_REGISTERS:
            raise RuleError(f"CMP register {number} is not a window register, expected 8 to 39", rule=rules.REG_IDX)
        if not 0 <= value < 1 << 64:
            raise RuleError(f"value {value:#x} does not fit a 64-bit register", rule=rules.WRITE_REG64)
        self._check(number, value)
        return self.take({number: value})

    def take(self, values: dict[int, int]) -> bool:
        """Set the registers in `values`, which must be valid; return True if an active window changed."""
        before = self.active
        for number, value in values.items():
            self._values[number] = value
        self._refresh()
        return self.active != before

    def _refresh(self) -> None:
        windows = (self.window(index) for index in range(NUM_WINDOWS))
        self.active = tuple(window for window in windows if window is not None)

    def window(self, index: int) -> Window | None:
        """Return window `index` from its registers, None if it is not active."""
        mode = self._value(WINDOW_MODE.offset + index)
        if not WINDOW_MODE.get(mode, "ACTIVE"):
            return None
        return self.described(index)

    def described(self, index: int) -> Window:
        """Return window `index` from its registers, even if it is not active."""
        mode = WINDOW_MODE.decode(self._value(WINDOW_MODE.offset + index))
        scale = WINDOW_SCALE.decode(self._value(WINDOW_SCALE.offset + index))
        return Window(
            number=index,
            base=self._value(WINDOW_BASE.offset + index),
            target=self._value(WINDOW_TARGET.offset + index),
            size=mode["SIZE"] + 1,
            mode=mode["MODE"],
            perms=mode["PERMS"],
            scale=scaling_factor(scale["SCALE_A"], scale["SCALE_B"], self.scale_encoding),
            granule=1 << mode["STRIDE"] if mode["INTERLEAVE"] else 0,
        )

    def inactive_at(self, address: int) -> Window | None:
        """Return an inactive window whose registers describe a range that contains `address`; None if there is none.

        Error messages mention that window."""
        for index in range(NUM_WINDOWS):
            window = self.described(index) if self._value(WINDOW_BASE.offset + index) else None
            if window is not None and window not in self.active and window.base <= address < window.end:
                return window
        return None

    def _value(self, number: int) -> int:
        return self._values[number]

    def _check(self, number: int, value: int) -> None:
        for register in (WINDOW_MODE, WINDOW_SCALE):
            index = number - register.offset
            if 0 <= index < NUM_WINDOWS and register.reserved_bits(value):
                raise _refused(
                    f"{register.element(index)} = {value:#x}: bits {register.reserved_bits(value):#x} are reserved, "
                    "expected 0",
                    rules.WINDOW_RESERVED,
                )
        index = number - WINDOW_MODE.offset
        if 0 <= index < NUM_WINDOWS and WINDOW_MODE.get(value, "MODE") not in WINDOW_MODES:
            raise _refused(
                f"{WINDOW_MODE.element(index)} = {value:#x}: MODE 3 is reserved, "
                "expected 0 (SHARED), 1 (PER_HART) or 2 (PER_CORE)",
                rules.WINDOW_MODE_RESERVED,
            )


def scaling_factor(scale_a: int, scale_b: int, encoding: str = SPEC) -> int:
    """Return the scaling factor SCALE of a window from its fields SCALE_A and SCALE_B.

    It is (SCALE_B + 1) times 2^SCALE_A, or 0 if SCALE_A is 0. With the encoding "refsidrv" the power is 2^(SCALE_A-1).
    """
    return (1 << scale_a - (encoding != SPEC) if scale_a else 0) * (scale_b + 1)


def _refused(message: str, rule: Rule) -> RuleError:
    return RuleError(message, rule=rule)
