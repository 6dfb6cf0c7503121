"""The entry test of code specialised for defined inputs: registers that the code reads must have no shadow."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.jit.layout import SHADOW_DISTANCE
from softcard.ir.native import U64, fill, inlined, lowest_bit, native
from softcard.isa.gcn.state import ACC_AT, EXEC, FULL, LANES, ROWS, SGPR_AT, VGPRS

ROW_BYTES: Final = 4 * LANES
WORDS: Final = ROWS // 64
"""The number of 64-bit words of a set of vector registers, which has one bit for each register.

Accumulation registers are included.
"""
ACC_WORD: Final = VGPRS // 64
"""The index of the first word of accumulation registers in a set of vector registers."""


@native
def clear_dead(wave: int, shadows: int, sets: int) -> int:
    """Return 0 if the registers that specialised code reads have no shadow; else 1.

    `sets` is the host address of three sets of vector registers, as bit masks. No register of the first set
    may have a shadow in lanes of EXEC, and no register of the second set in other lanes. The shadow of the
    other registers in the third set is dead, so it is cleared. `shadows` has a bit for each kind of shadow."""
    words, found = U64.at(sets), 0
    is_partial = U64[wave + SGPR_AT + 4 * EXEC] != FULL
    while shadows:
        shadow = wave + (lowest_bit(shadows) + 1) * SHADOW_DISTANCE
        shadows &= shadows - 1
        for number in range(WORDS):
            first = (
                shadow + 64 * number * ROW_BYTES
                if number < ACC_WORD
                else shadow + ACC_AT + 64 * (number - ACC_WORD) * ROW_BYTES
            )
            read = words[number] | (words[WORDS + number] if is_partial else 0)
            named = words[2 * WORDS + number]
            while named:
                bit = lowest_bit(named)
                named &= named - 1
                row = first + bit * ROW_BYTES
                if read >> bit & 1:
                    found |= shadow_of(row)
                else:
                    fill(row, 0, ROW_BYTES)
    return found != 0


@inlined
def shadow_of(row: int) -> int:
    """Return the bitwise or, as one 64-bit word, of the shadow of a vector register in all lanes.

    `row` is the host address of that register's shadow."""
    found, lanes = 0, U64.at(row)
    for pair in range(LANES // 2):
        found |= lanes[pair]
    return found
