"""The reference engine's execution of matrix instructions on a wave's registers, as `rules` defines them."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.ir.native import Natives
from softcard.isa.gcn.semantics.matrix import rules
from softcard.isa.gcn.semantics.matrix.table import Use
from softcard.isa.gcn.state import VGPRS, Wave

Array = npt.NDArray[Any]
_NATIVES: Final = Natives(rules.multiply, rules.addend, rules.undefine)


def multiply(use: Use, wave: Wave) -> None:
    """Compute a matrix instruction. Operands are copied first, since D may overlap them."""
    d = _rows(use.d_rows, wave)
    a, b = _rows(use.a_rows, wave).copy(), _rows(use.b_rows, wave).copy()
    index = _index(use, wave).copy()
    shape, c = _shape(use, index), np.zeros_like(d)
    if use.c is None:
        _call(rules.addend.name, shape, use.constant, rules.CONSTANT, 0, c)
    else:
        c[:] = _rows(use.c_rows, wave)
    _call(rules.multiply.name, shape, a, b, c, d, np.zeros(rules.SCRATCH, np.uint8))


def undefine(use: Use, wave: Wave, shadows: Wave) -> None:
    """Compute the undefined bits of D.

    `shadows` is a wave state whose registers hold the undefined bits of the registers of `wave`."""
    d = _rows(use.d_rows, shadows)
    a, b = _rows(use.a_rows, shadows), _rows(use.b_rows, shadows)
    c, place = (d, rules.CONSTANT) if use.c is None else (_rows(use.c_rows, shadows), 0)
    shape, indices = _shape(use, _index(use, wave)), _index(use, shadows)
    _call(rules.undefine.name, shape, a, b, c, place, indices, d, np.zeros_like(d), np.zeros_like(d))


def _shape(use: Use, index: Array) -> rules.Shape:
    shape = rules.shape(use.matrix, use.a_type, use.b_type)
    shape.cbsz, shape.abid, shape.blgp = use.cbsz, use.abid, use.blgp
    shape.index = index.ctypes.data
    return shape


def _rows(rows: range, wave: Wave) -> Array:
    first = rows[0] % VGPRS
    return (wave.vgpr if rows[0] < VGPRS else wave.acc)[first : first + len(rows)]


def _index(use: Use, wave: Wave) -> Array:
    """Return the index register of a sparse instruction.

    For other instructions, which ignore it, return the first register of D."""
    return _rows(range(use.d, use.d + 1) if use.index is None else range(use.index, use.index + 1), wave)


def _call(name: str, shape: rules.Shape, *given: Array | int) -> None:
    words = [each if isinstance(each, int) else each.ctypes.data for each in given]
    _NATIVES.function(name)(ctypes.addressof(shape), *words)
