"""What makers of random programs for RefSi's harts share, and what a device makes of a program.

a0 is the number of the instance, a1 the array, s1 counts rounds, s0 and s3 have the number and that of the hart; t6 is
what an instance stores in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

from softcard.core.errors import SoftcardError
from softcard.host.refsi.refsi import RefSi

OWN: Final = 768
"""Offset of what instances store in the end."""
HARTS: Final = 4


class TextMaker:
    """Writes one program, line by line."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self._label = 0

    def _put(self, *lines: str) -> None:
        self.lines += lines

    def _chance(self, p: float) -> bool:
        return self.random.random() < p

    def _fresh(self) -> str:
        self._label += 1
        return f"on{self._label}"


class HartMaker(TextMaker):
    """Writes one program of harts that share memory. s8 is 0, as nothing writes it: under a check that is undefined."""

    def _perhaps_undefined(self, *registers: str) -> None:
        """Have some of these be undefined, and as they are."""
        self._put(*(f"add {register}, {register}, s8" for register in registers if self._chance(0.06)))

    def _by_some(self, action: Callable[[], None]) -> None:
        """One to three times what a hart does, or all but one."""
        label = self._fresh()
        self._put(f"li t0, {self.random.randrange(HARTS)}")
        self._put(f"{self.random.choice(('beq', 'bne'))} s3, t0, {label}")
        for _ in range(self.random.randrange(1, 4)):
            action()
        self._put(f"{label}:")

    def _begin(self, rounds: int) -> None:
        self._put("mv s2, ra", f"li s1, {rounds}", "li t6, 0", f"andi s3, a0, {HARTS - 1}", "mv s0, a0")

    def _rounds(self, least: int, most: int, step: Callable[[], None]) -> None:
        """What is done in every round: from `least` steps on, fewer than `most`. Then the end."""
        self._put("again:")
        for _ in range(self.random.randrange(least, most)):
            step()
        self._put("addi s1, s1, -1", "bnez s1, again")
        self._put("slli t0, s0, 3", "add t0, t0, a1", f"sd t6, {OWN}(t0)", "mv ra, s2", "ret")

    def _kernel(self) -> str:
        return "\n".join([".globl kernel", ".type kernel, @function", "kernel:", *self.lines, ".size kernel, .-kernel"])


def found_by(program: bytes, words: int, instances: int, **options: Any) -> tuple[list[Any], bytes, int, str]:
    """What is told of two launches of a program, what they leave, what they took, and how they failed."""
    with RefSi.open(finding_limit=1000, **options) as device:
        device.load_elf(program)
        x = device.zeros(words, np.int32)
        instructions, error = 0, ""
        for _ in range(2):
            try:
                instructions += device.launch("kernel", instances, [x]).instructions
            except SoftcardError as failed:
                error += str(failed)
        return [each.as_dict() for each in device.findings], x.array.tobytes(), instructions, error
