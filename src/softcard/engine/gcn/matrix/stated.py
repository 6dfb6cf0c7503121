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
NATIVES: Final = (
    Natives(rules.addend, rules.arranged),
    Natives(rules.multiply, rules.repair),
    Natives(rules.undefine),
)
"""The native functions of `rules`, for the reference engine and for compiled instructions.

Functions that are needed together are compiled together. Only undefined bits need `undefine`; only instructions without
faster code need the second pair.
"""
_OF: Final = {function.name: natives for natives in NATIVES for function in natives.functions}


def multiply(use: Use, wave: Wave) -> None:
    """Compute a matrix instruction. Operands are copied first, since D may overlap them."""
    d = _rows(use.d_rows, wave)
    a, b = _rows(use.a_rows, wave).copy(), _rows(use.b_rows, wave).copy()
    selectors = [each.copy() for each in _selectors(use, wave)]
    shape, c = _shape(use, selectors), np.zeros_like(d)
    if use.c is None:
        _call(rules.addend.name, shape, use.constant, rules.CONSTANT, 0, c)
    else:
        c[:] = _rows(use.c_rows, wave)
    _call(rules.multiply.name, shape, a, b, c, d, np.zeros(rules.SCRATCH, np.uint8))


def undefine(use: Use, wave: Wave, shadows: Wave, *, is_source: bool = False) -> None:
    """Compute the undefined bits of D, or set all of them if the instruction is a source of shadow bits itself.

    `shadows` is a wave state whose registers hold the undefined bits of the registers of `wave`."""
    d = _rows(use.d_rows, shadows)
    a, b = _rows(use.a_rows, shadows), _rows(use.b_rows, shadows)
    c, place = (d, rules.CONSTANT) if use.c is None else (_rows(use.c_rows, shadows), 0)
    place = rules.MARKED if is_source else place
    undefined = _selectors(use, shadows)
    shape = _shape(use, undefined if use.index is None else _selectors(use, wave))
    indices = d if use.index is None else undefined[0]
    _call(rules.undefine.name, shape, a, b, c, place, indices, d, np.zeros_like(d), np.zeros_like(d))


def _shape(use: Use, selectors: list[Array]) -> rules.Shape:
    """Return the `rules.Shape` of an instruction; `selectors` are its registers of indices or of scales."""
    shape = rules.shape(use.matrix, use.a_type, use.b_type)
    shape.cbsz, shape.abid, shape.blgp = use.cbsz, use.abid, use.blgp
    shape.a_shift, shape.b_shift = (8 * byte for byte in use.scale_bytes)
    if use.index is not None:
        shape.index = selectors[0].ctypes.data
    elif use.scales is not None:
        shape.scale_a, shape.scale_b = (each.ctypes.data for each in selectors)
    return shape


def _rows(rows: range, wave: Wave) -> Array:
    first = rows[0] % VGPRS
    return (wave.vgpr if rows[0] < VGPRS else wave.acc)[first : first + len(rows)]


def _selectors(use: Use, wave: Wave) -> list[Array]:
    """Return the registers of the indices of a sparse A, or those of the scales of A and of B."""
    return [_rows(range(each, each + 1), wave) for each in use.selectors]


def _call(name: str, shape: rules.Shape, *given: Array | int) -> None:
    words = [each if isinstance(each, int) else each.ctypes.data for each in given]
    _OF[name].function(name)(ctypes.addressof(shape), *words)
