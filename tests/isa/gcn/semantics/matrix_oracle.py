"""Matrix instructions in NumPy, from the published rules: values as binary64, which holds every intermediate exactly.

It has nothing in common with the product's statement (integers, element by element) but the rules and, for where an
element lies in registers, the table's formulas, which `test_matrix` holds against those of AMD's calculator. The places
of f8f6f4 instructions have a formula of their own here.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from softcard.isa.gcn.semantics.matrix.table import Matrix, Rule, Type, a_place, b_place, d_place

Array = npt.NDArray[Any]
LIBM = ctypes.CDLL("libm.so.6")
LIBM.fma.restype = ctypes.c_double
LIBM.fma.argtypes = [ctypes.c_double] * 3
FMA = np.frompyfunc(LIBM.fma, 3, 1)
SMALL: dict[Type, tuple[int, int, int]] = {
    Type.FP8: (4, 3, 8), Type.BF8: (5, 2, 16), Type.OCP_FP8: (4, 3, 7), Type.OCP_BF8: (5, 2, 15), Type.FP6: (2, 3, 1),
    Type.BF6: (3, 2, 3), Type.FP4: (2, 1, 1),
}  # fmt: skip
"""Exponent bits, fraction bits and bias."""
LOWEST = {Type.F16: -14} | {kind: 1 - bias for kind, (_, _, bias) in SMALL.items()}
"""The exponents of denormals."""


# ---- formats ---------------------------------------------------------------------------------------------------------
@cache
def small_values(kind: Type) -> Array:
    """The value of every code of a small format."""
    exponent_bits, fraction_bits, bias = SMALL[kind]
    made = []
    for code in range(1 << (1 + exponent_bits + fraction_bits)):
        sign = -1 if code >> (exponent_bits + fraction_bits) else 1
        exponent = code >> fraction_bits & (1 << exponent_bits) - 1
        fraction = Fraction(code & (1 << fraction_bits) - 1, 1 << fraction_bits)
        magnitude = (
            (1 + fraction) * Fraction(2) ** (exponent - bias) if exponent else fraction * Fraction(2) ** (1 - bias)
        )
        value = sign * float(magnitude) if magnitude else sign * 0.0
        if kind in (Type.FP8, Type.BF8) and code == 0x80:
            value = np.nan
        if kind == Type.OCP_FP8 and code & 0x7F == 0x7F:
            value = np.nan
        if kind == Type.OCP_BF8 and exponent == 31:
            value = np.nan if fraction else sign * np.inf
        made.append(value)
    return np.array(made)


def values(codes: Array, kind: Type) -> Array:
    """Elements as binary64; integers as int64."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return _values(codes, kind)


def _values(codes: Array, kind: Type) -> Array:
    match kind:
        case Type.F16:
            return codes.astype(np.uint16).view(np.float16).astype(float)
        case Type.BF16:
            return (codes.astype(np.uint32) << 16).view(np.float32).astype(float)
        case Type.F32:
            return codes.astype(np.uint32).view(np.float32).astype(float)
        case Type.XF32:
            whole = codes.astype(np.uint32)
            cut = (whole & np.uint32(0xFFFF_E000)).view(np.float32).astype(float)
            return np.where(np.isnan(whole.view(np.float32)), np.nan, cut)
        case Type.F64:
            return codes.astype(np.uint64).view(np.float64)
        case Type.I8:
            return codes.astype(np.uint8).view(np.int8).astype(np.int64)
        case Type.I32:
            return codes.astype(np.uint32).view(np.int32).astype(np.int64)
    return small_values(kind)[codes.astype(np.intp)]


# ---- rules, on matrices of one block ---------------------------------------------------------------------------------
def exponents(x: Array, lowest: int) -> Array:
    """The exponent of each encoded number: that of denormals at least, and -126 of zeros."""
    made = np.maximum(np.frexp(np.where(np.isfinite(x), x, 1.0))[1] - 1, lowest)
    return np.where(x == 0, -126, made)


def fused(a: Array, b: Array, c: Array, lowest: tuple[int, int], split: bool, scale: Array | int = 0) -> Array:
    """CDNA3: one group; `a` is rows x k, `b` k x columns."""
    products = a[:, :, None] * b[None]
    exact = products.sum(axis=1) + c
    huge = np.isfinite(products) & (abs(products) >= 2.0**128)
    plus, minus = (huge & (products > 0)).any(axis=1), (huge & (products < 0)).any(axis=1)
    sums = exponents(a, lowest[0])[:, :, None] + exponents(b, lowest[1])[None]
    sums = np.where(huge, -(10**6), sums)
    products = np.where(np.isfinite(products) & ~huge, products, 0.0)
    parts = [slice(0, None, 2), slice(1, None, 2)] if split else [slice(None)]
    tops = [sums[:, part].max(axis=1) for part in parts]
    largest = np.maximum.reduce(tops)
    total = np.zeros(c.shape)
    for part, top in zip(parts, tops, strict=True):
        cut = np.trunc(np.ldexp(products[:, part], 24 - top[:, None])).sum(axis=1)
        total += np.floor(np.ldexp(cut, np.maximum(top - largest, -1000)))
    finite = np.where(np.isfinite(c), c, 0.0).astype(float)
    of_c = np.maximum(exponents(finite, -126), -126)
    own = largest + scale
    most = np.maximum(own, of_c)
    total = np.floor(np.ldexp(total, 7 + np.maximum(own - most, -1000)))
    addend = np.floor(np.ldexp(finite, 24 - most))
    if split:
        addend = np.where(of_c < most - 25, 0.0, addend)
    made = np.ldexp(total + 128 * addend, most - 31)
    made = np.where(plus & minus, np.nan, np.where(plus, np.inf, np.where(minus, -np.inf, made)))
    return np.where(np.isfinite(exact), made, exact).astype(np.float32)


def flushed(x: Array) -> Array:
    return np.where(abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x).astype(np.float32)


def pairwise(a: Array, b: Array, c: Array, group: int, lowest: int, flush: bool) -> Array:
    """CDNA1 and CDNA2."""
    done = flushed if flush else lambda x: x
    if flush:
        a, b = (np.where(abs(x) < 2.0**lowest, 0.0, x) for x in (a, b))
        c = np.where(abs(c) < 2.0**-126, np.float32(0), c)
    products = done((a[:, :, None] * b[None] + 0.0).astype(np.float32))
    for first in range(0, a.shape[1], group):
        p = products[:, first : first + group]
        part = done(p[:, 0] + p[:, 1])
        if group == 4:
            part = done(part + done(p[:, 2] + p[:, 3]))
        c = done(c + part)
    return c


def fma32(a: Array, b: Array, c: Array) -> Array:
    """One rounding to binary32: the exact product plus c is first rounded to odd in binary64."""
    product, addend = np.broadcast_arrays(a * b, c.astype(float))
    total = product + addend
    other = total - product
    error = (product - (total - other)) + (addend - other)
    error = np.where(np.isfinite(total), error, 0.0)
    bits = np.ascontiguousarray(total).view(np.uint64)
    towards = np.where((error > 0) == (total > 0), np.uint64(0), np.uint64(1))
    odd = np.where((error != 0) & (bits & np.uint64(1) == 0), (bits - towards) | np.uint64(1), bits)
    return odd.view(np.float64).astype(np.float32)


def chain(a: Array, b: Array, c: Array, double: bool) -> Array:
    for k in range(a.shape[1]):
        one, other = a[:, k, None], b[None, k]
        c = FMA(one, other, c).astype(float) if double else fma32(one, other, c)
    return c


# ---- registers -------------------------------------------------------------------------------------------------------
def format_place(side: int, depth: int, bits: int) -> Array:
    """The lane and the element number of each element of an f8f6f4 operand, by row and k, with a first axis of two.

    A lane has 32 elements: adjacent ones, or of 8 bits 16 of each half of the k.
    """
    row, k = np.meshgrid(np.arange(side), np.arange(depth), indexing="ij")
    if bits < 8:
        return np.stack([row + side * (k // 32), k % 32])
    half, rest = k // (depth // 2), k % (depth // 2)
    return np.stack([row + side * (rest // 16), 16 * half + rest % 16])


@cache
def _places(matrix: Matrix, a_bits: int, b_bits: int) -> tuple[Array, Array, Array]:
    """For A, B and D: the lane and element number of each element, with a first axis of two."""
    blocks = range(matrix.blocks)
    a = [[[a_place(matrix, q, i, k) for k in range(matrix.kept)] for i in range(matrix.m)] for q in blocks]
    b = [[[b_place(matrix, q, k, j) for j in range(matrix.n)] for k in range(matrix.k)] for q in blocks]
    d = [[[d_place(matrix, q, i, j) for j in range(matrix.n)] for i in range(matrix.m)] for q in blocks]
    one, other, result = (np.moveaxis(np.array(each), -1, 0) for each in (a, b, d))
    if matrix.takes_formats:
        one = format_place(matrix.m, matrix.k, a_bits)[:, None]
        other = format_place(matrix.n, matrix.k, b_bits).swapaxes(1, 2)[:, None]
    return one, other, result


def packed(codes: Array, bits: int) -> Array:
    """Registers, rows of 64 dwords, from the elements of each lane."""
    lanes, count = codes.shape
    each = np.ascontiguousarray(codes.astype(np.uint64))
    single = np.unpackbits(each.view(np.uint8).reshape(lanes, count, 8), axis=2, bitorder="little")[:, :, :bits]
    whole = np.packbits(single.reshape(lanes, -1), axis=1, bitorder="little")
    padded = np.zeros((lanes, -(-whole.shape[1] // 4) * 4), np.uint8)
    padded[:, : whole.shape[1]] = whole
    return np.ascontiguousarray(padded.view(np.uint32).T)


def elements(registers: Array, bits: int, count: int) -> Array:
    """The elements of each lane, from registers."""
    lanes = np.ascontiguousarray(registers.T).view(np.uint8)
    single = np.unpackbits(lanes, axis=1, bitorder="little")[:, : bits * count].reshape(64, count, bits)
    weights = np.uint64(1) << np.arange(bits, dtype=np.uint64)
    return (single * weights).sum(axis=2, dtype=np.uint64)


@dataclass
class Fields:
    """The fields of an instruction; `index` is the register of a sparse A's indices, the scales are dwords by lane.

    `scale_bytes` are the numbers of the bytes that hold the scales of A and of B.
    """

    cbsz: int = 0
    abid: int = 0
    blgp: int = 0
    a: Type | None = None
    b: Type | None = None
    index: Array | None = None
    scales: tuple[Array, Array] | None = None
    scale_bytes: tuple[int, int] = (0, 0)


def product(matrix: Matrix, a: Array, b: Array, c: Array, fields: Fields | None = None) -> Array:
    """The registers of D."""
    wanted = fields or Fields()
    kinds = wanted.a or matrix.a, wanted.b or matrix.b
    at_a, at_b, at_d = _places(matrix, kinds[0].bits, kinds[1].bits)
    codes_a = elements(a, kinds[0].bits, matrix.a_run)
    codes_b = elements(b, kinds[1].bits, matrix.b_run)
    lane = np.arange(64)
    moved = {1: lane % 32, 2: 32 + lane % 32, 3: (lane + 16) % 64} | {4 + q: 16 * q + lane % 16 for q in range(4)}
    if wanted.blgp and not matrix.takes_signs:
        codes_b = codes_b[moved[wanted.blgp]]
    all_a = values(codes_a[at_a[0], at_a[1]], kinds[0])
    all_b = values(codes_b[at_b[0], at_b[1]], kinds[1])
    wide = matrix.d.bits
    all_c = values(elements(c, wide, c.shape[0] * 32 // wide)[at_d[0], at_d[1]], matrix.d)
    if wanted.cbsz and not matrix.is_sparse:
        q = np.arange(matrix.blocks)
        all_a = all_a[(q >> wanted.cbsz << wanted.cbsz) + wanted.abid]
    if matrix.takes_signs:
        every = enumerate((all_a, all_b, all_c))
        all_a, all_b, all_c = (np.negative(x) if wanted.blgp >> number & 1 else x for number, x in every)
    made = np.zeros((64, matrix.d_registers * 32 // wide), np.uint64)
    for block in range(matrix.blocks):
        with np.errstate(all="ignore"):
            found = _block(matrix, kinds, all_a[block], all_b[block], all_c[block], wanted)
        made[at_d[0, block], at_d[1, block]] = found
    return packed(made, wide)


def _block(matrix: Matrix, kinds: tuple[Type, Type], a: Array, b: Array, c: Array, wanted: Fields) -> Array:
    """The bits of the elements of D of one block."""
    if matrix.is_sparse:
        return np.concatenate([_row(matrix, kinds, a[i : i + 1], b, c[i : i + 1], i, wanted) for i in range(len(a))])
    return _dense(matrix, kinds, a, b, c, wanted)


def _row(matrix: Matrix, kinds: tuple[Type, Type], a: Array, b: Array, c: Array, i: int, wanted: Fields) -> Array:
    assert wanted.index is not None
    run = matrix.a_run
    chosen = []
    for t in range(matrix.kept):
        pairs = int(wanted.index[i + matrix.m * (t // run)]) >> (0 if wanted.cbsz else 2 * run * wanted.abid)
        chosen.append(t // 2 * 4 + (pairs >> 2 * (t % run) & 3))
    return _dense(matrix, kinds, a, b[chosen], c, wanted)


def _dense(matrix: Matrix, kinds: tuple[Type, Type], a: Array, b: Array, c: Array, wanted: Fields) -> Array:
    match matrix.rule:
        case Rule.INTEGER:
            return (a @ b + c).astype(np.uint64) & np.uint64(0xFFFF_FFFF)
        case Rule.CHAIN if matrix.d == Type.F64:
            made = chain(a, b, c, double=True)
            return np.where(np.isnan(made), np.uint64(0x7FF8 << 48), made.view(np.uint64))
        case Rule.CHAIN:
            made = chain(a, b, c.astype(np.float32), double=False)
        case Rule.PAIRWISE | Rule.PAIRWISE_FLUSH:
            lowest = LOWEST.get(kinds[0], -126)
            made = pairwise(a, b, c.astype(np.float32), matrix.group, lowest, matrix.rule == Rule.PAIRWISE_FLUSH)
        case _:
            made = c.astype(np.float32)
            lowest_two = LOWEST.get(kinds[0], -126), LOWEST.get(kinds[1], -126)
            for first in range(0, a.shape[1], matrix.group):
                part = slice(first, first + matrix.group)
                scale: Array | int = 0
                bad = np.zeros(made.shape, bool)
                if wanted.scales is not None:
                    rows, columns = (
                        x[side * (first // 32) : side * (first // 32) + side] >> np.uint32(8 * byte) & 0xFF
                        for x, side, byte in zip(wanted.scales, (matrix.m, matrix.n), wanted.scale_bytes, strict=True)
                    )
                    scale = rows[:, None].astype(int) + columns[None].astype(int) - 254
                    bad = (rows[:, None] == 255) | (columns[None] == 255)
                made = fused(a[:, part], b[part], made, lowest_two, matrix.rule == Rule.FUSED_SPLIT, scale)
                made = np.where(bad, np.float32(np.nan), made)
    return np.where(np.isnan(made), np.uint32(0x7FC0_0000), made.view(np.uint32))


# ---- random registers ------------------------------------------------------------------------------------------------
MODES = ("normal", "any", "wide", "denormal", "special", "cancel", "sparse", "small")


def codes(rng: np.random.Generator, kind: Type, shape: tuple[int, int], mode: str) -> Array:
    """Random elements."""
    if kind in (Type.I8, Type.I32):
        made = rng.integers(0, 1 << kind.bits, shape, dtype=np.uint64)
        return np.where(rng.random(shape) < 0.1, np.uint64(1 << kind.bits - 1), made) if mode == "special" else made
    field, fraction, bias = SMALL.get(kind) or {16: (5, 10, 15), 32: (8, 23, 127), 64: (11, 52, 1023)}[kind.bits]
    if kind == Type.BF16:
        field, fraction, bias = 8, 7, 127
    signs = rng.integers(0, 2, shape, dtype=np.uint64) << np.uint64(field + fraction)
    fractions = rng.integers(0, 1 << fraction, shape, dtype=np.uint64)
    top = (1 << field) - 1
    spread = {"normal": 2, "wide": min(20, bias - 1), "sparse": 3, "cancel": 1, "special": 2, "small": 2}.get(mode, 0)
    if mode == "any":
        fields = rng.integers(0, top + (kind in SMALL), shape)
    elif mode == "denormal":
        fields = rng.integers(0, 2, shape) * (rng.random(shape) < 0.3)
    else:
        fields = np.clip(bias + rng.integers(-spread, spread + 1, shape), 1, top - 1 + (kind in SMALL))
    if mode == "small":  # small integers
        fractions = fractions & ~np.uint64((1 << max(fraction - 2, 0)) - 1)
    made = signs | fields.astype(np.uint64) << np.uint64(fraction) | fractions
    if mode == "cancel":
        made[:, 1::2] = made[:, 0::2][:, : made[:, 1::2].shape[1]] ^ np.uint64(1 << field + fraction)
        made = made ^ (rng.random(shape) < 0.1).astype(np.uint64)
    if mode in ("sparse", "special"):
        made = np.where(rng.random(shape) < (0.6 if mode == "sparse" else 0.1), signs, made)
    if mode == "special":
        odd = signs | np.uint64(top << fraction) | fractions * rng.integers(0, 2, shape, dtype=np.uint64)
        if kind in (Type.FP8, Type.BF8):
            odd = np.full(shape, 0x80, np.uint64)
        elif kind in SMALL and kind.bits < 8:
            odd = made
        made = np.where(rng.random(shape) < 0.02, odd, made)
    return made


def addends(rng: np.random.Generator, kind: Type, shape: tuple[int, int], mode: str) -> Array:
    """Random elements of C."""
    if kind == Type.I32:
        return rng.integers(0, 1 << 32, shape, dtype=np.uint64)
    zero = np.zeros(shape, np.uint64)
    if mode == "zero":
        return np.where(rng.random(shape) < 0.5, zero, np.uint64(1 << kind.bits - 1))
    if mode == "far":
        f = rng.standard_normal(shape) * 2.0 ** rng.integers(-45, 45, shape)
        return f.astype(np.float32).view(np.uint32).astype(np.uint64) if kind == Type.F32 else f.view(np.uint64)
    return codes(rng, kind, shape, mode)


def registers(rng: np.random.Generator, matrix: Matrix, fields: Fields | None = None) -> tuple[Array, Array, Array]:
    """Random registers of A, B and C."""
    wanted = fields or Fields()
    a, b = wanted.a or matrix.a, wanted.b or matrix.b
    modes = [str(rng.choice(MODES)) for _ in range(2)]
    one, other = codes(rng, a, (64, matrix.a_run), modes[0]), codes(rng, b, (64, matrix.b_run), modes[1])
    if modes[0] == "cancel" and rng.random() < 0.7:
        other = codes(rng, b, (64, matrix.b_run), "normal")
        other[:, 1::2] = other[:, 0::2][:, : other[:, 1::2].shape[1]]
    of_c = str(rng.choice(["zero", "normal", "any", "far", "denormal", "special"]))
    c = addends(rng, matrix.d, (64, matrix.d_registers * 32 // matrix.d.bits), of_c)
    return packed(one, a.bits), packed(other, b.bits), packed(c, matrix.d.bits)
