"""Compiled matrix instructions against NumPy, at many random matrices each."""

from __future__ import annotations

import ctypes
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from softcard.engine.gcn.matrix import library
from softcard.engine.gcn.matrix.library import Kernel
from softcard.ir import llvm
from softcard.ir.native import read_float_control, write_float_control
from softcard.isa.gcn.semantics.matrix.table import FORMATS, Matrix, Type, matrices
from tests.isa.gcn.semantics import matrix_oracle as oracle
from tests.isa.gcn.semantics.matrix_oracle import Array, Fields
from tests.isa.gcn.semantics.test_matrix import ALL, IDS, random_fields, set_scales

FEW, SOME, MANY = 8, 1_000, 10_000
"""Random matrices for each instruction; `MANY` with ``--exhaustive`` in place of `SOME`."""
MIXED = [key for key in ALL if matrices()[key].n == 4 or matrices()[key].k in (2, 8, 16)][::5]
MIXED += [key for key in ALL if matrices()[key].takes_formats]


@cache
def on_eight_lanes(kernel: Kernel) -> Any:
    """The kernel as hosts without AVX-512 compile it."""
    code = library.linked(kernel.name, 8, partial(library.text, kernel, 8))
    return code.function(kernel.name, ctypes.c_uint64, *[ctypes.c_uint64] * 5)


def computed(
    matrix: Matrix, a: Array, b: Array, c: Array, d: Array, fields: Fields | None = None, eight: bool = False
) -> None:
    """Write D."""
    wanted = fields or Fields()
    is_arranged = bool(wanted.cbsz or wanted.blgp) and not matrix.is_sparse
    kernel = library.of(matrix, wanted.a, wanted.b, is_arranged=is_arranged)
    shapes = library.shapes(kernel, cbsz=wanted.cbsz, abid=wanted.abid, blgp=wanted.blgp)
    shapes.own.index = 0 if wanted.index is None else wanted.index.ctypes.data
    set_scales(shapes.own, wanted)
    function = on_eight_lanes(kernel) if eight else library.compiled(kernel)[1]
    function(*(each.ctypes.data for each in (a, b, c, d)), ctypes.addressof(shapes))


def number_of(fields: Fields) -> int:
    """Return the number of a pair of formats."""
    assert fields.a is not None
    assert fields.b is not None
    return FORMATS.index(fields.a) * len(FORMATS) + FORMATS.index(fields.b)


def agree(key: tuple[str, str], count: int, seed: int, eight: bool = False, third: int | None = None) -> None:
    """Compare the results of random matrices; with `third` only those of each third pair of formats."""
    matrix, rng = matrices()[key], np.random.default_rng(seed)
    for number in range(count):
        fields = random_fields(rng, matrix)
        while third is not None and (number_of(fields) - third) % 3:
            fields = random_fields(rng, matrix)
        a, b, c = oracle.registers(rng, matrix, fields)
        wanted, found = oracle.product(matrix, a, b, c, fields), c.copy()
        computed(matrix, a, b, found, found, fields, eight)
        where = np.argwhere(wanted != found)
        assert not len(where), (number, fields, where[0], hex(wanted[tuple(where[0])]), hex(found[tuple(where[0])]))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", ALL, ids=IDS)
def test_a_kernel_agrees_with_numpy(key: tuple[str, str]) -> None:
    agree(key, FEW, 2)


@pytest.mark.slow
@pytest.mark.one_in(61)
@pytest.mark.parametrize("key", ALL, ids=IDS)
def test_a_kernel_agrees_with_numpy_at_many_matrices(key: tuple[str, str], is_exhaustive: bool) -> None:
    agree(key, MANY if is_exhaustive else SOME, 5)


WITH_FORMATS = [key for key in ALL if matrices()[key].takes_formats]


@pytest.mark.slow(seconds=3)
@pytest.mark.parametrize("key", WITH_FORMATS, ids=str)
def test_kernels_with_formats_agree_with_numpy_at_a_hundred_matrices(key: tuple[str, str], is_exhaustive: bool) -> None:
    """All pairs of formats, with ``--exhaustive`` on each instruction; scales of all magnitudes and NaN."""
    third = None if is_exhaustive else WITH_FORMATS.index(key) % 3
    agree(key, SOME if is_exhaustive else 100, 20, third=third)


@pytest.mark.parametrize("key", [key for key in ALL if matrices()[key].is_scaled], ids=str)
@pytest.mark.parametrize("largest", [150, 165, 180, 254])
def test_zero_products_count_under_large_scales(key: tuple[str, str], largest: int) -> None:
    """By the rule a zero has the exponent -126: with large scales such a product decides how C is rounded."""
    matrix, rng = matrices()[key], np.random.default_rng(21)
    for kinds in ((FORMATS[0], FORMATS[1]), (FORMATS[4], FORMATS[2])):
        scales = [rng.integers(largest - 6, largest + 1, 64, dtype=np.uint32) for _ in range(2)]
        fields = Fields(a=kinds[0], b=kinds[1], scales=(scales[0], scales[1]))
        a, b, _ = oracle.registers(rng, matrix, fields)
        a[:, ::2] = 0
        c = rng.normal(size=(matrix.d_registers, 64)).astype(np.float32).view(np.uint32)
        wanted, found = oracle.product(matrix, a, b, c, fields), c.copy()
        computed(matrix, a, b, found, found, fields)
        assert (wanted == found).all()


@pytest.mark.parametrize("key", [("gfx950", "v_smfmac_f32_32x32x64_fp8_fp8"), ("gfx942", "v_smfmac_f32_32x32x16_f16")])
@pytest.mark.parametrize("abid", [1, 2, 4, 7, 15])
def test_sets_of_indices_beyond_the_bits_of_a_lane_are_zero(key: tuple[str, str], abid: int) -> None:
    """A shift by 32 or more selected rows of B at random in compiled code."""
    matrix, rng = matrices()[key], np.random.default_rng(1)
    fields = Fields(abid=abid, index=rng.integers(0, 1 << 32, 64, dtype=np.uint32))
    a, b, c = oracle.registers(rng, matrix, fields)[:3]
    wanted, found = oracle.product(matrix, a, b, c, fields), c.copy()
    computed(matrix, a, b, found, found, fields)
    assert (wanted == found).all()


@pytest.mark.parametrize("key", [key for key in ALL if matrices()[key].a == Type.BF16 and key[0] < "gfx94"], ids=str)
@pytest.mark.parametrize("sum_", [119, 127, 128, 129, 240, 378, 379, 380, 381, 395])
def test_products_of_bf16_at_the_ends_of_the_range_of_binary32(key: tuple[str, str], sum_: int) -> None:
    """A product that is denormal or overflows is rounded before it is added. `sum_` is the sum of exponent fields."""
    matrix, rng = matrices()[key], np.random.default_rng(sum_)
    for _ in range(8):
        fields = int(rng.integers(max(0, sum_ - 254), min(254, sum_) + 1))
        sides = []
        for field, run in ((fields, matrix.a_run), (sum_ - fields, matrix.b_run)):
            exponents = np.full((64, run), field) if rng.random() < 0.5 else field + rng.integers(-2, 3, (64, run))
            codes = np.clip(exponents, 0, 254) << 7 | rng.integers(0, 1 << 16, (64, run)) & 0x807F
            codes[rng.random((64, run)) < rng.choice([0, 0.2, 0.9])] &= 0x8000
            sides.append(oracle.packed(codes, 16))
        c = rng.choice([0, 1 << 31, 1, 0x8000_0001, 0x80_0000, 0x8080_0001, 0xFF7F_FFFF], (matrix.d_registers, 64))
        c, (a, b) = c.astype(np.uint32), sides
        wanted, found = oracle.product(matrix, a, b, c), c.copy()
        computed(matrix, a, b, found, found)
        assert (wanted == found).all()


@pytest.mark.parametrize("key", MIXED, ids=str)
def test_a_kernel_of_narrower_vectors(key: tuple[str, str]) -> None:
    agree(key, FEW, 4, eight=True)


@pytest.mark.parametrize("name", ["v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x16_bf16", "v_mfma_i32_16x16x32_i8"])
def test_d_may_overlap_a_and_b(name: str) -> None:
    matrix, rng = matrices()["gfx942", name], np.random.default_rng(6)
    for _ in range(30):
        a, b, c = oracle.registers(rng, matrix)
        wanted = oracle.product(matrix, a, b, c)
        room = np.concatenate([a, b])
        computed(matrix, room[:2], room[2:], c, room)
        assert (room == wanted).all()


@pytest.mark.skipif(not llvm.is_x86(), reason="the host has no MXCSR")
@pytest.mark.parametrize("name", ["v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8bf16_1k", "v_mfma_f32_16x16x4f32"])
def test_rounding_and_denormals_of_mode_are_ignored_and_kept(name: str) -> None:
    matrix, rng = matrices()["gfx90a", name], np.random.default_rng(7)
    before = read_float_control()
    try:
        for mode in (0x7F80, 0x9FC0, 0x3F80):
            a, b, c = oracle.registers(rng, matrix)
            wanted, found = oracle.product(matrix, a, b, c), np.zeros_like(c)
            write_float_control(mode)
            computed(matrix, a, b, c, found)
            assert read_float_control() & ~0x3F == mode
            write_float_control(before)
            assert (wanted == found).all()
    finally:
        write_float_control(before)


@pytest.mark.parametrize("name", ["v_mfma_f32_16x16x4_f32", "v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x32_fp8_fp8"])
def test_a_nan_is_canonical(name: str) -> None:
    matrix = matrices()["gfx942", name]
    a, b, _ = oracle.registers(np.random.default_rng(8), matrix)
    c = np.full((matrix.d_registers, 64), 0xFFC1_2345, np.uint32)
    computed(matrix, a, b, c, c)
    assert (c == 0x7FC0_0000).all()
