"""Programs of vector instructions over few registers and known numbers, as compilers write them behind their constants.

What an optimiser knows it folds: numbers that stand in the program, the same register as operand and result, lanes of
EXEC that are known. Random programs over many registers seldom have any of it.
"""

from __future__ import annotations

from typing import Final

from softcard.isa.gcn.encoding.shape import Slot
from softcard.isa.gcn.target import target
from tests.agree.gcn import values
from tests.agree.gcn.bench import Start
from tests.agree.gcn.insns import FREE, Maker, Rng, every
from tests.agree.gcn.programs import Builder, Program, start
from tests.agree.gcn.sweep import alone

FAMILIES: Final = frozenset({"vop1", "vop2", "vop3", "vopc", "vop3p"})
BITWISE: Final = (
    "and",
    "or",
    "xor",
    "bfi",
    "bfe",
    "bfm",
    "not",
    "cndmask",
    "lsh",
    "ash",
    "perm",
    "align",
    "mov",
    "xad",
)
"""Parts of names: half of the operations are of one of these."""
NUMBERS: Final = (
    0x7FFF_FFFF, 0x8000_0000, 0xFFFF, 0xFFFF_0000, 0xFF, 0x00FF_00FF, 0x3F80_0000, 0xBF80_0000, 0x7FF0_0000,
    0x7FEF_FFFF, 0x000F_FFFF, 1, 0, 0xFFFF_FFFF, 31, 16, 8, 24, 0x3FFF_FFFF, 0x5555_5555, 0xFFFF_FFF0, 15,
)  # fmt: skip
KNOWN: Final = 16
"""Scalar registers that hold them, from `FREE` on."""
WRITTEN: Final = FREE + KNOWN
FIRST: Final = 12
FEW: Final = 8
"""Vector registers, from the first on."""
VCC: Final = 106


class DenseMaker(Maker):
    """Instructions whose operands and results are few registers."""

    def vgpr(self, count: int = 1, *, written: bool = False) -> int:
        """One of the few."""
        return FIRST + self.below(FEW - count + 1)

    def sgpr(self, count: int = 1, *, written: bool = False) -> int:
        """A known number, or VCC; what is written is none."""
        if count <= 2 and self.chance(0.4 if written else 0.1):
            return VCC
        if written:
            return WRITTEN + 2 * self.below(4)
        step = min(count, 2)
        return FREE + self.below(KNOWN - count) // step * step

    def source(self, slot: Slot, form: str) -> int:
        """Half of the operands that may be scalar are known."""
        if slot.words <= 2 and slot.type != "m64" and not form.startswith("S") and self.chance(0.3):
            return self.sgpr(slot.words)
        return super().source(slot, form)


def dense(rng: Rng, name: str, length: int) -> tuple[Program, Start]:
    """A program of so many instructions, and a state to begin with."""
    builder = Builder(rng, target(name))
    builder.maker = DenseMaker(rng, builder.target, hard=True, wild=0.0)
    builder.prologue()
    number = 0
    for n in range(KNOWN):  # often what the one before it is not
        number = ~number & 0xFFFF_FFFF if n and rng.random() < 0.3 else int(values.pick(rng, NUMBERS))
        builder.text(f"s_mov_b32 s{FREE + n}, {number:#x}")
    pairs = [pair for pair in every(builder.target) if pair[0].family in FAMILIES and not alone(pair[0])]
    bitwise = [[pair for pair in pairs if f"_{part}" in pair[0].name] for part in BITWISE]
    for _ in range(length):
        some = values.pick(rng, bitwise) if rng.random() < 0.5 else []
        builder.one(*values.pick(rng, some or pairs))
        if rng.random() < 0.12:
            mask = values.mask(rng)
            builder.text(f"s_mov_b32 exec_lo, {mask & 0xFFFF_FFFF:#x}", f"s_mov_b32 exec_hi, {mask >> 32:#x}")
    state = start(rng, mode=None, bad=0.0, tame=bool(rng.integers(2)))
    return Program(builder.target, tuple(builder.items)), state
