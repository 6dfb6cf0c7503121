"""Matrix instructions: the table, the layout of registers, and the statement of the arithmetic against NumPy."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.ir.native import link
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.operations.table import OPS
from softcard.isa.gcn.semantics.matrix import rules
from softcard.isa.gcn.semantics.matrix.table import (
    FORMATS,
    PROCESSORS,
    Matrix,
    Rule,
    Type,
    a_place,
    b_place,
    check_fields,
    d_place,
    matrices,
)  # fmt: skip
from softcard.isa.gcn.target import target
from tests.isa.gcn.semantics import matrix_oracle as oracle
from tests.isa.gcn.semantics.matrix_oracle import Array, Fields

ALL = sorted(matrices())
IDS = ["-".join(each) for each in ALL]


@cache
def compiled() -> Any:
    code = link(ObjectCache(), rules.multiply)
    return code.function(rules.multiply.name, ctypes.c_uint64, *[ctypes.c_uint64] * 6)


def stated(
    matrix: Matrix, a: Array, b: Array, c: Array, fields: Fields | None = None, is_python: bool = False
) -> Array:
    """D by the statement."""
    wanted = fields or Fields()
    shape = rules.shape(matrix, wanted.a, wanted.b)
    shape.cbsz, shape.abid, shape.blgp = wanted.cbsz, wanted.abid, wanted.blgp
    shape.index = 0 if wanted.index is None else wanted.index.ctypes.data
    set_scales(shape, wanted)
    d, scratch = np.zeros_like(c), np.zeros(rules.SCRATCH, np.uint8)
    places = [each.ctypes.data for each in (a, b, c, d, scratch)]
    if is_python:
        rules.multiply(shape, *places)
    else:
        compiled()(ctypes.addressof(shape), *places)
    return d


def set_scales(shape: Any, wanted: Fields) -> None:
    """Give a shape the addresses and the positions of the scales."""
    if wanted.scales is not None:
        shape.scale_a, shape.scale_b = (each.ctypes.data for each in wanted.scales)
        shape.a_shift, shape.b_shift = (8 * byte for byte in wanted.scale_bytes)


def random_scales(rng: np.random.Generator) -> tuple[Array, Array]:
    """Two registers whose bytes are scales, most of them near 1."""
    made = [rng.integers(110, 145, (64, 4), dtype=np.uint8) for _ in range(2)]
    for each in made:
        each[rng.integers(64, size=2), :] = rng.choice([0, 1, 90, 160, 254, 255], (2, 4))
    return made[0].view(np.uint32).ravel(), made[1].view(np.uint32).ravel()


def random_fields(rng: np.random.Generator, matrix: Matrix) -> Fields:
    """Fields that the instruction takes."""
    made = Fields()
    if matrix.is_sparse:
        made.index = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
        made.cbsz = int(rng.integers(0, 2))
        made.abid = int(rng.integers(0, 32 // (2 * matrix.a_run)))
    elif matrix.takes_formats:
        made.a, made.b = (FORMATS[each] for each in rng.integers(0, len(FORMATS), 2))
        if matrix.is_scaled:
            made.scales = random_scales(rng)
            made.scale_bytes = int(rng.integers(4)), int(rng.integers(4))
    elif rng.random() < 0.3:
        if matrix.takes_block:
            made.cbsz = int(rng.integers(0, matrix.blocks.bit_length()))
            made.abid = int(rng.integers(0, 1 << made.cbsz))
        if matrix.takes_lanes:
            made.blgp = int(rng.integers(0, 8))
        if matrix.takes_signs:
            made.blgp = int(rng.integers(0, 8))
    return made


# ---- the table -------------------------------------------------------------------------------------------------------
def test_counts() -> None:
    """As many as LLVM 22 has for these processors."""
    counts = {each: sum(processor == each for processor, _ in ALL) for each in ("gfx908", "gfx90a", "gfx942", "gfx950")}
    assert counts == {"gfx908": 20, "gfx90a": 27, "gfx942": 46, "gfx950": 68}


CALCULATOR = {
    "32": ("8 * (r // 4) % 32 + 4 * (lane // 32) + r % 4", "lane % 32", "r // 16"),
    "16": ("4 * (lane // 16) + r % 4", "lane % 16", "r // 4"),
    "4": ("r % 4", "lane % 4", "lane // 4"),
    "f64 16": ("4 * (r // 2) + lane // 16", "lane % 16", "0"),
    "f64 4": ("lane // 16", "lane % 4", "lane // 4 % 4"),
}
"""Row, column and block of D in register r of a lane, as AMD's matrix instruction calculator prints them."""
OPERANDS = {
    "v_mfma_f32_32x32x1f32": "0",
    "v_mfma_f32_32x32x2f32": "lane // 32",
    "v_mfma_f32_16x16x4f32": "lane // 16",
    "v_mfma_f32_32x32x4f16": "2 * r + bit // 16",
    "v_mfma_f32_4x4x4f16": "2 * r + bit // 16",
    "v_mfma_f32_32x32x8f16": "4 * (lane // 32) + 2 * r + bit // 16",
    "v_mfma_f32_16x16x16f16": "4 * (lane // 16) + 2 * r + bit // 16",
    "v_mfma_f32_16x16x8bf16": "2 * (lane // 16) + bit // 16",
    "v_mfma_i32_16x16x16i8": "4 * (lane // 16) + bit // 8",
    "v_mfma_f32_16x16x8_xf32": "2 * (lane // 16) + r",
    "v_mfma_f32_32x32x16_fp8_bf8": "8 * (lane // 32) + 4 * r + bit // 8",
    "v_mfma_f64_16x16x4f64": "lane // 16",
    "v_mfma_f64_4x4x4f64": "lane // 16",
}
"""The k of an element of A and of B."""


@pytest.mark.parametrize("key", ALL, ids=IDS)
def test_layout_of_d_as_the_calculator_prints_it(key: tuple[str, str]) -> None:
    matrix = matrices()[key]
    formulas = CALCULATOR[f"f64 {matrix.n}" if matrix.d == Type.F64 else str(matrix.n)]
    for block in range(matrix.blocks):
        for i in range(matrix.m):
            for j in range(matrix.n):
                lane, number = d_place(matrix, block, i, j)
                names = {"lane": lane, "r": number * matrix.d.bits // 32}
                assert tuple(eval(each, names) for each in formulas) == (i, j, block)


@pytest.mark.parametrize("name", OPERANDS)
def test_layout_of_a_and_b_as_the_calculator_prints_it(name: str) -> None:
    matrix = next(each for (_, other), each in matrices().items() if other == name)
    for k in range(matrix.k):
        for row in range(matrix.m):
            for lane, number in (a_place(matrix, 0, row, k), b_place(matrix, 0, k, row)):
                bit = number * matrix.a.bits
                assert eval(OPERANDS[name], {"lane": lane, "r": bit // 32, "bit": bit % 32}) == k
                assert lane % matrix.m == row


@pytest.mark.parametrize("key", ALL, ids=IDS)
def test_registers_hold_all_elements_once(key: tuple[str, str]) -> None:
    matrix = matrices()[key]
    blocks, rows, columns = range(matrix.blocks), range(matrix.m), range(matrix.n)
    d = {d_place(matrix, q, i, j) for q in blocks for i in rows for j in columns}
    a = {a_place(matrix, q, i, k) for q in blocks for i in rows for k in range(matrix.kept)}
    b = {b_place(matrix, q, k, j) for q in blocks for j in columns for k in range(matrix.k)}
    assert [len(each) for each in (a, b, d)] == [64 * run for run in (matrix.a_run, matrix.b_run, len(d) // 64)]
    assert len(d) == matrix.d_registers * 64 * 32 // matrix.d.bits


def test_fields_without_a_semantics_are_beyond_the_model() -> None:
    wide, old = matrices()["gfx942", "v_mfma_f32_32x32x8_f16"], matrices()["gfx90a", "v_mfma_f32_16x16x4f16"]
    check_fields(wide, 0, 0, 0)
    check_fields(old, 2, 3, 7)
    for matrix, fields in ((wide, (1, 0, 0)), (wide, (0, 0, 1)), (old, (3, 0, 0)), (old, (1, 2, 0))):
        with pytest.raises(BeyondModel, match=re.escape(matrix.name)):
            check_fields(matrix, *fields)


# ---- formats ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [Type.F16, Type.BF16, *oracle.SMALL])
def test_every_code_of_a_format(kind: Type) -> None:
    every = np.arange(1 << kind.bits, dtype=np.uint64)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wanted = oracle.values(every, kind).astype(np.float32)
    code = link(ObjectCache(), rules.as_binary32).function(
        rules.as_binary32.name, ctypes.c_uint64, *[ctypes.c_uint64] * 2
    )
    found = np.array([code(int(each), int(kind)) for each in every], np.uint32).view(np.float32)
    numbers = ~np.isnan(wanted)
    assert (np.isnan(found) == np.isnan(wanted)).all()
    assert (found.view(np.uint32) == wanted.view(np.uint32))[numbers].all()


# ---- one element, as numbers -----------------------------------------------------------------------------------------
def element_of(key: tuple[str, str], a: list[float], b: list[float], c: float) -> float:
    """D[0][0] of a matrix instruction whose other rows and columns are zero."""
    matrix = matrices()[key]
    codes = []
    for numbers, place in ((a, lambda k: a_place(matrix, 0, 0, k)), (b, lambda k: b_place(matrix, 0, k, 0))):
        made = np.zeros((64, matrix.a_run), np.uint64)
        for k, number in enumerate(numbers):
            if matrix.a == Type.F16:
                bits = int(np.float16(number).view(np.uint16))
            elif matrix.a == Type.BF16:
                bits = int(np.float32(number).view(np.uint32)) >> 16
            else:
                bits = int(np.flatnonzero(oracle.small_values(matrix.a) == number)[0])
            made[place(k)] = bits
        codes.append(oracle.packed(made, matrix.a.bits))
    lane, number = d_place(matrix, 0, 0, 0)
    of_c = np.zeros((64, matrix.d_registers), np.uint64)
    of_c[lane, number] = int(np.float32(c).view(np.uint32))
    d = stated(matrix, *codes, oracle.packed(of_c, 32))
    return float(d[number : number + 1, lane].view(np.float32)[0])


CDNA1, CDNA2 = ("gfx908", "v_mfma_f32_16x16x16f16"), ("gfx90a", "v_mfma_f32_16x16x16f16")
HALF, BRAIN = ("gfx942", "v_mfma_f32_16x16x16_f16"), ("gfx942", "v_mfma_f32_16x16x16_bf16")
BYTE = ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8")


def is_plus_zero(x: float) -> bool:
    return x == 0 and np.copysign(1, x) == 1


def test_a_product_of_minus_zero_is_plus_zero() -> None:
    assert is_plus_zero(element_of(CDNA1, [-0.0] * 16, [1.0] * 16, -0.0))


def test_cdna2_reads_minus_zero_as_plus_zero() -> None:
    assert is_plus_zero(element_of(CDNA2, [0.0] * 16, [1.0] * 16, -0.0))


def test_a_zero_counts_as_an_exponent() -> None:
    near = 1 + 2.0**-7
    assert element_of(BRAIN, [2.0**100, near], [0.0, near], 0.0) == near * near
    far = 2.0**-60 * near
    assert is_plus_zero(element_of(BRAIN, [2.0**100, far], [0.0, far], 0.0))


def test_a_small_negative_c_is_rounded_down() -> None:
    assert element_of(HALF, [1.0], [1.0], -(2.0**-40)) == 1 - 2.0**-24
    assert element_of(BYTE, [1.0], [1.0], -(2.0**-40)) == 1.0


def test_a_small_product_is_cut() -> None:
    assert element_of(HALF, [1.0, 2.0**-14], [1.0, (1 + 2.0**-10) * 2.0**-14], 0.0) == 1.0


# ---- whole instructions ----------------------------------------------------------------------------------------------
def agree(key: tuple[str, str], count: int, seed: int) -> None:
    matrix, rng = matrices()[key], np.random.default_rng(seed)
    for number in range(count):
        fields = random_fields(rng, matrix)
        a, b, c = oracle.registers(rng, matrix, fields)
        wanted, found = oracle.product(matrix, a, b, c, fields), stated(matrix, a, b, c, fields)
        where = np.argwhere(wanted != found)
        assert not len(where), (number, fields, where[0], hex(wanted[tuple(where[0])]), hex(found[tuple(where[0])]))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", ALL, ids=IDS)
def test_the_statement_agrees_with_numpy(key: tuple[str, str]) -> None:
    agree(key, 6, 1)


ONE_OF_EACH = [
    next(key for key in ALL if matrices()[key].rule == rule and matrices()[key].n == n)
    for rule in Rule
    for n in (16, 4)
    if any(matrices()[key].rule == rule and matrices()[key].n == n for key in ALL)
]


@pytest.mark.parametrize("key", [*ONE_OF_EACH, ("gfx942", "v_smfmac_f32_16x16x32_f16")], ids=str)
def test_the_statement_as_python(key: tuple[str, str]) -> None:
    matrix, rng = matrices()[key], np.random.default_rng(3)
    fields = random_fields(rng, matrix)
    a, b, c = oracle.registers(rng, matrix, fields)
    assert (stated(matrix, a, b, c, fields, is_python=True) == stated(matrix, a, b, c, fields)).all()


# ---- definedness -----------------------------------------------------------------------------------------------------
@cache
def undefined() -> Any:
    code = link(ObjectCache(), rules.undefined)
    return code.function(rules.undefined.name, ctypes.c_uint64, *[ctypes.c_uint64] * 6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", ALL, ids=IDS)
def test_d_is_undefined_where_an_operand_is(key: tuple[str, str]) -> None:
    """One bit at a time: D changes only where it is undefined, which is one row, column or element."""
    matrix, rng = matrices()[key], np.random.default_rng(9)
    fields = random_fields(rng, matrix)
    a, b = (fields.a or matrix.a, fields.b or matrix.b)
    shape = rules.shape(matrix, a, b)
    if matrix.is_scaled:  # undefined scales are looked for in registers of their own
        no_bits = np.zeros(64, np.uint32)
        set_scales(shape, Fields(scales=(no_bits, no_bits)))
    shape.cbsz, shape.abid, shape.blgp = fields.cbsz, fields.abid, fields.blgp
    shape.index = 0 if fields.index is None else fields.index.ctypes.data
    given = list(oracle.registers(rng, matrix, fields))
    before = oracle.product(matrix, *given, fields)
    for side in (0, 1, 2):
        for _ in range(3):
            marks = [np.zeros_like(each) for each in given]
            place = rng.integers(given[side].shape[0]), rng.integers(64)
            marks[side][place] = 1 << int(rng.integers(32))
            made, indices = np.zeros_like(given[2]), np.zeros(64, np.uint32)
            places = [each.ctypes.data for each in (*marks, indices, made)]
            undefined()(ctypes.addressof(shape), *places)
            changed = [each ^ mark for each, mark in zip(given, marks, strict=True)]
            differs = oracle.product(matrix, *changed, fields) != before
            assert (made[differs] == 0xFFFF_FFFF).all()
            whole = matrix.d.bits // 32
            most = whole if side == 2 else whole * max(matrix.m, matrix.n) * matrix.blocks
            assert np.count_nonzero(made) <= most
            assert side < 2 or np.count_nonzero(made) == whole


def test_an_undefined_index_makes_its_row_undefined() -> None:
    matrix = matrices()["gfx942", "v_smfmac_f32_16x16x32_f16"]
    shape, index = rules.shape(matrix), np.zeros(64, np.uint32)
    shape.index, shape.abid = index.ctypes.data, 1
    zeros, made = np.zeros((4, 64), np.uint32), np.zeros((4, 64), np.uint32)
    for bit, count in ((8, 16), (0, 0)):
        marks = np.zeros(64, np.uint32)
        marks[5] = 1 << bit
        undefined()(ctypes.addressof(shape), *[zeros.ctypes.data] * 3, marks.ctypes.data, made.ctypes.data)
        assert np.count_nonzero(made) == count


@pytest.mark.parametrize("name", ["v_mfma_scale_f32_16x16x128_f8f6f4", "v_mfma_scale_f32_32x32x64_f8f6f4"])
def test_an_undefined_scale_makes_its_row_or_column_undefined(name: str) -> None:
    matrix = matrices()["gfx950", name]
    zeros, made = np.zeros((16, 64), np.uint32), np.zeros((16, 64), np.uint32)
    for side, lane, bit, count in ((0, 5, 8, matrix.n), (1, 63, 15, matrix.m), (0, 0, 7, 0), (1, 9, 16, 0)):
        marks = [np.zeros(64, np.uint32) for _ in range(2)]
        marks[side][lane] = 1 << bit
        shape = rules.shape(matrix)
        set_scales(shape, Fields(scales=(marks[0], marks[1]), scale_bytes=(1, 1)))
        undefined()(ctypes.addressof(shape), *[zeros.ctypes.data] * 4, made.ctypes.data)
        assert np.count_nonzero(made) == count


def test_scales_need_their_instruction() -> None:
    matrix = matrices()["gfx950", "v_mfma_f32_16x16x128_f8f6f4"]
    check_fields(matrix, 4, 0, 4)
    message = f"{matrix.name} abid:1: expected 0, or v_mfma_ld_scale_b32 with the scales directly before it"
    with pytest.raises(BeyondModel, match=re.escape(message)):
        check_fields(matrix, 0, 1, 0)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["v_mfma_f32_16x16x128_f8f6f4", "v_mfma_f32_32x32x64_f8f6f4"])
def test_layout_of_f8f6f4_operands(name: str, kind: Type) -> None:
    """As Triton's layouts and the tests of Composable Kernel have it: 32 adjacent k, or twice 16 of them."""
    matrix = matrices()["gfx950", name]
    wanted = oracle.format_place(matrix.m, matrix.k, kind.bits)
    for i in range(matrix.m):
        for k in range(matrix.k):
            place = tuple(int(each) for each in wanted[:, i, k])
            assert a_place(matrix, 0, i, k, kind) == place
            assert b_place(matrix, 0, k, i, kind) == place


def test_passes_depend_on_the_formats() -> None:
    matrix = matrices()["gfx950", "v_mfma_scale_f32_32x32x64_f8f6f4"]
    fast = {(a, b) for a in FORMATS for b in FORMATS if matrix.passes_of(a, b) == 8}
    assert fast == {(a, b) for a in FORMATS[2:] for b in FORMATS[2:]}
    assert {matrix.passes_of(a, b) for a in FORMATS for b in FORMATS} == {8, 16}


# ---- operations ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("processor", PROCESSORS)
def test_operations_and_the_table_have_the_same_instructions(processor: str) -> None:
    chip = target(processor)
    rows = {op.name: op.operands for op in OPS if op.family in ("mai", "vop3px")}
    on = {op.name for op in OPS if op.name in rows and op.on(chip)}
    own = {name for owner, name in matrices() if owner == processor}
    assert on == own
    for name in own:
        matrix, registers = matrices()[processor, name], re.findall(r"(?:vdst|src0|src1):(\d+)", rows[name])
        assert registers == [str(each) for each in (matrix.d_registers, matrix.a_registers, matrix.b_registers)]
