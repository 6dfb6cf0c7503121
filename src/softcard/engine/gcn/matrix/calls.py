"""The table of addresses through which translated code calls compiled matrix instructions.

Each entry is compiled at its first call. An entry's number depends only on the instruction set's table of matrix
instructions, so translated code in the on-disk cache can use it in any process. The arguments of an entry are the
addresses of the registers of A, B, C (or the constant in place of C) and D, the word that `fields_of` returns, and two
more addresses: for a sparse A that of the index register and 0, for an instruction with scales those of the scale
registers, else 0 and 0. An entry that computes shadows (the undefined bits of D) takes the addresses of shadows
instead; for a sparse A it takes those of the index register and of the shadow of that register.
"""

from __future__ import annotations

import ctypes
import os
import traceback
from functools import cache
from typing import Any, Final

from softcard.engine.gcn.matrix import library
from softcard.engine.gcn.matrix.library import Kernel
from softcard.isa.gcn.semantics.matrix.rules import CONSTANT, MARKED
from softcard.isa.gcn.semantics.matrix.table import FORMATS, Matrix, Use, matrices

CBSZ, ABID, BLGP, PLACE, NUMBER, SHIFTS = 0, 8, 16, 24, 32, (48, 56)
"""The lowest bit of each field in the word that `fields_of` returns.

`CBSZ`, `ABID` and `BLGP` are fields of the instruction. `PLACE` has the value `CONSTANT` if C is a constant, `MARKED`
if all shadow bits of D are set, else 0. `NUMBER` is the entry's number in the table, of 16 bits. `SHIFTS` are the bit
positions of the scales of A and B.
"""
_WORD: Final = ctypes.c_uint64


def fields_of(number: int, use: Use, *, is_marked: bool = False) -> int:
    """Return the word with an instruction's fields and its entry's number, as compiled entries expect it.

    With `is_marked`, an entry that computes a shadow sets all of its bits."""
    place = MARKED if is_marked else CONSTANT if use.c is None else 0
    shifts = sum(8 * byte << bit for byte, bit in zip(use.scale_bytes, SHIFTS, strict=True))
    return use.cbsz << CBSZ | use.abid << ABID | use.blgp << BLGP | place << PLACE | number << NUMBER | shifts


def number_of(use: Use) -> int:
    """Return the number of the table entry that computes D for an instruction."""
    return _numbers()[library.of(use.matrix, use.a_type, use.b_type, is_arranged=use.is_arranged)]


def number_of_shadows(use: Use) -> int:
    """Return the number of the table entry that computes the shadow of D (its undefined bits)."""
    return len(_numbers()) + _numbers()[library.of(use.matrix, use.a_type, use.b_type)]


def _kernels(matrix: Matrix) -> list[Kernel]:
    if matrix.takes_formats:
        return [library.of(matrix, a, b) for a in FORMATS for b in FORMATS]
    takes = matrix.takes_block or matrix.takes_lanes or matrix.takes_signs
    return [library.of(matrix, is_arranged=each) for each in (False, True)[: 1 + (takes and not matrix.is_sparse)]]


@cache
def _numbers() -> dict[Kernel, int]:
    kernels = [kernel for key in sorted(matrices()) for kernel in _kernels(matrices()[key])]
    return {kernel: number for number, kernel in enumerate(kernels)}


class _Table:
    """The table of entry addresses.

    An entry that was not called yet has the address of the function that compiles it."""

    def __init__(self) -> None:
        self.kernels = list(_numbers())
        self._compiles = ctypes.CFUNCTYPE(_WORD, *[_WORD] * library.ENTRY_WORDS)(self._called)
        count = 2 * len(self.kernels)
        self.words = (_WORD * count)(*[ctypes.cast(self._compiles, ctypes.c_void_p).value or 0] * count)

    def _called(self, *given: int) -> int:
        """Compile the entry that the arguments `given` select, call it, and return its result.

        The caller is translated code, which cannot propagate a Python exception; an exception aborts the process."""
        try:
            number = given[4] >> NUMBER & 0xFFFF
            function = self._entry(number)
            self.words[number] = ctypes.cast(function, ctypes.c_void_p).value or 0
            return int(function(*given))
        except BaseException:  # noqa: BLE001 - the process must end
            traceback.print_exc()
            os.abort()

    def _entry(self, number: int) -> Any:
        is_shadows, at = divmod(number, len(self.kernels))
        return library.entry(self.kernels[at], is_shadows=bool(is_shadows))


@cache
def _table() -> _Table:
    return _Table()


def table() -> int:
    """Return the host address of this process's table of compiled entries."""
    return ctypes.addressof(_table().words)
