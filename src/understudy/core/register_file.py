"""Registers that act: what those of a map hold, read and written as the access modes of their fields say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import Array
from functools import partial
from typing import Any

from understudy.core.register import Register, RegisterMap

OnRead = Callable[[int], int]
"""What the host reads, from what the register holds."""
OnWrite = Callable[[int, int], Any]
"""What a write does besides, told what was written and what the register held before; the writer gets what it gives."""


class RegisterFile:
    """One number for every element of a map, in the order of its declaration; the device has them by name.

    The host reads what `Register.as_read` shows, and a write leaves what `Register.after_write` says: `reads` and
    `writes` are name and action of the elements by offset. Hooks, by the name of a register or of an element, do what
    access modes cannot say. Without a `store` of the caller's a list holds the values. Nothing is locked here; whoever
    writes sees to it that the number fits the register.
    """

    def __init__(
        self,
        registers: RegisterMap,
        on_read: Mapping[str, OnRead],
        on_write: Mapping[str, OnWrite],
        store: Array[Any] | None = None,
    ) -> None:
        elements = list(registers.elements())
        self.values: list[int] | Array[Any] = [0] * len(elements) if store is None else store
        self._resets = [register.reset_value for register, _, _ in elements]
        self._numbers = {register.element(index): number for number, (register, index, _) in enumerate(elements)}
        self._counts = {register.name: register.count for register in registers}
        self.reads: dict[int, tuple[str, Callable[[], int]]] = {}
        self.writes: dict[int, tuple[str, Callable[[int], Any]]] = {}
        for number, (register, index, offset) in enumerate(elements):
            name = register.element(index)
            if "r" in register.side:
                hook = on_read.get(name) or on_read.get(register.name)
                self.reads[offset] = name, self._reader(number, register, hook)
            if "w" in register.side:
                act = on_write.get(name) or on_write.get(register.name)
                self.writes[offset] = name, self._writer(number, register, act)
        self.reset()

    def __getitem__(self, name: str) -> int:
        """What the register or array element called `name` holds."""
        return self.values[self._numbers[name]]

    def __setitem__(self, name: str, value: int) -> None:
        """Have it hold `value`; no hook hears of it."""
        self.values[self._numbers[name]] = value

    def number(self, name: str) -> int:
        """In which place that is."""
        return self._numbers[name]

    def reset(self) -> None:
        """Every register holds its reset value."""
        self.restore(dict(zip(self._numbers, self._resets, strict=True)))

    def snapshot(self) -> dict[str, int]:
        """What every element holds, by name, for `restore`."""
        return {name: self.values[number] for name, number in self._numbers.items()}

    def restore(self, values: Mapping[str, int]) -> None:
        """Have the named elements hold these values."""
        for name, value in values.items():
            self[name] = value

    def array(self, name: str) -> tuple[int, ...]:
        """What the elements of the array called `name` hold."""
        first = self._numbers[f"{name}0"]
        return tuple(self.values[first : first + self._counts[name]])

    def _reader(self, number: int, register: Register, hook: OnRead | None) -> Callable[[], int]:
        values, shown = self.values, register.shown_mask
        if hook is not None:
            return lambda: hook(values[number] & shown)
        if shown == -1:
            return partial(values.__getitem__, number)
        return lambda: values[number] & shown

    def _writer(self, number: int, register: Register, hook: OnWrite | None) -> Callable[[int], Any]:
        values, is_plain = self.values, register.taken_mask == register.max

        def write(written: int) -> Any:
            before = values[number]
            values[number] = written if is_plain else register.after_write(before, written)
            return None if hook is None else hook(written, before)

        return write
