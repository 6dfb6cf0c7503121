"""Whether code may take vector registers for unmarked, compiled: what it reads must not have marks."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit.home import TWIN
from understudy.ir.native import U64, fill, inlined, lowest_bit, native
from understudy.isa.gcn.state import EXEC, FULL, LANES, SGPR_AT, VGPRS

ROW_BYTES: Final = 4 * LANES
WORDS: Final = VGPRS // 64
"""Of a set of vector registers, one bit each."""


@native
def unmark(wave: int, twins: int, sets: int) -> int:
    """0 where no register of the first set has marks, nor of the second one where EXEC lacks lanes; else 1.

    Of the others that the third set names nobody will see the marks: they are cleared. `twins`: a bit for each of the
    wave that is meant.
    """
    words, found = U64.at(sets), 0
    is_partial = U64[wave + SGPR_AT + 4 * EXEC] != FULL
    while twins:
        twin = wave + (lowest_bit(twins) + 1) * TWIN
        twins &= twins - 1
        for number in range(WORDS):
            read = words[number] | (words[WORDS + number] if is_partial else 0)
            named = words[2 * WORDS + number]
            while named:
                bit = lowest_bit(named)
                named &= named - 1
                row = twin + (64 * number + bit) * ROW_BYTES
                if read >> bit & 1:
                    found |= marks_of(row)
                else:
                    fill(row, 0, ROW_BYTES)
    return found != 0


@inlined
def marks_of(row: int) -> int:
    """The marks of all lanes together, as one word."""
    found, lanes = 0, U64.at(row)
    for pair in range(LANES // 2):
        found |= lanes[pair]
    return found
