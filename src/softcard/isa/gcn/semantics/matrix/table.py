"""The table of matrix instructions by processor: shapes, types, arithmetic rules and passes.

D[i][j] = C[i][j] + sum over k of A[i][k] * B[k][j], for each of `blocks` independent matrices. Sources: AMD's matrix
instruction calculator for the shapes and layouts of CDNA1 to CDNA3; LLVM 22 for the passes and for gfx950.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from softcard.core.errors import BeyondModel, ModelBug

LANES: Final = 64
PROCESSORS: Final = ("gfx908", "gfx90a", "gfx942", "gfx950")


class Type(enum.IntEnum):
    """The element type of a matrix. FP8 and BF8 are the formats of gfx942 (FNUZ), OCP_FP8 and OCP_BF8 of gfx950."""

    F16 = 0
    BF16 = 1
    F32 = 2
    XF32 = 3
    F64 = 4
    I8 = 5
    FP8 = 6
    BF8 = 7
    OCP_FP8 = 8
    OCP_BF8 = 9
    FP6 = 10
    BF6 = 11
    FP4 = 12
    I32 = 13

    @property
    def bits(self) -> int:
        """The width of an element in bits."""
        return _BITS[self]


_BITS: Final = {
    Type.F16: 16, Type.BF16: 16, Type.F32: 32, Type.XF32: 32, Type.F64: 64, Type.I8: 8, Type.FP8: 8, Type.BF8: 8,
    Type.OCP_FP8: 8, Type.OCP_BF8: 8, Type.FP6: 6, Type.BF6: 6, Type.FP4: 4, Type.I32: 32,
}  # fmt: skip


class Rule(enum.IntEnum):
    """A rule for the order and the rounding of the additions in a matrix instruction; see `rules`."""

    CHAIN = 0
    """A chain of fused multiply-adds in ascending order of k, each rounded to nearest even."""
    INTEGER = 1
    """A sum of integers modulo 2**32."""
    PAIRWISE = 2
    """CDNA1: in each group of k, the rounded products are added pairwise in binary32; then the sum is added to C."""
    PAIRWISE_FLUSH = 3
    """CDNA2: as PAIRWISE, with denormals flushed."""
    FUSED = 4
    """CDNA3: in each group of k, the products and C are added exactly, within 24 fractional bits of the largest."""
    FUSED_SPLIT = 5
    """CDNA3, 8-bit formats: as FUSED, but products with even and with odd k are first added separately."""


_NAMED: Final = {
    "f16": Type.F16, "bf16": Type.BF16, "bf16_1k": Type.BF16, "f32": Type.F32, "xf32": Type.XF32, "f64": Type.F64,
    "i8": Type.I8, "fp8": Type.FP8, "bf8": Type.BF8, "i32": Type.I32,
}  # fmt: skip
_OCP: Final = {Type.FP8: Type.OCP_FP8, Type.BF8: Type.OCP_BF8}
FORMATS: Final = (Type.OCP_FP8, Type.OCP_BF8, Type.FP6, Type.BF6, Type.FP4)
"""The types of A and B that the fields cbsz and blgp of an f8f6f4 instruction select."""
_SMALL: Final = frozenset((Type.FP8, Type.BF8, *FORMATS))
_PART: Final = 16
"""The number of adjacent elements of 8 bits that a lane of an f8f6f4 instruction holds."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix instruction as one processor implements it."""

    name: str
    processor: str
    m: int
    n: int
    k: int
    blocks: int
    a: Type
    b: Type
    d: Type
    """The element type of C and D."""
    passes: int
    """The number of passes that the instruction takes, with the fastest element types; a pass has four cycles."""
    is_sparse: bool
    """True if A holds two of every four elements, selected by indices (SMFMAC); C is then the old D."""

    @property
    def is_scaled(self) -> bool:
        """True if scales in registers multiply A and B, one for each 32 k of a row of A and of a column of B."""
        return "_scale_" in self.name

    @property
    def kept(self) -> int:
        """The number of elements of a row of A that registers hold: `k`, or half of it if A is sparse."""
        return self.k // 2 if self.is_sparse else self.k

    @property
    def a_run(self) -> int:
        """The number of adjacent elements of a row of A that one lane holds."""
        return self.kept * self.m * self.blocks // LANES

    @property
    def b_run(self) -> int:
        """The number of adjacent elements of a column of B that one lane holds."""
        return self.k * self.n * self.blocks // LANES

    def a_part(self, type_: Type) -> int:
        """Return the number of elements of type `type_` in a part of a row of A: adjacent ones that one lane holds.

        A lane holds one part of a row. Of the 8-bit types of an f8f6f4 instruction it holds two parts of 16 elements;
        the second parts of all lanes follow the first parts of all lanes (Choice ``matrix-parts``).
        """
        return _PART if self.takes_formats and type_.bits == 8 else self.a_run

    def b_part(self, type_: Type) -> int:
        """Return the number of elements of type `type_` in a part of a column of B, as `a_part` does for A."""
        return _PART if self.takes_formats and type_.bits == 8 else self.b_run

    @property
    def a_registers(self) -> int:
        """The number of registers of A."""
        return -(-self.a_run * self.a.bits // 32)

    @property
    def b_registers(self) -> int:
        """The number of registers of B."""
        return -(-self.b_run * self.b.bits // 32)

    @property
    def d_registers(self) -> int:
        """The number of registers of C, which is also that of D."""
        return self.m * self.n * self.blocks * self.d.bits // 32 // LANES

    @property
    def rule(self) -> Rule:
        """The arithmetic rule of the instruction."""
        if self.d == Type.I32:
            return Rule.INTEGER
        if self.a in (Type.F32, Type.F64):
            return Rule.CHAIN
        if self.processor in ("gfx908", "gfx90a"):
            return Rule.PAIRWISE if self.processor == "gfx908" else Rule.PAIRWISE_FLUSH
        return Rule.FUSED_SPLIT if self.a in _SMALL else Rule.FUSED

    @property
    def group(self) -> int:
        """The number of consecutive k whose products are added before their sum is added to C."""
        match self.rule:
            case Rule.PAIRWISE | Rule.PAIRWISE_FLUSH:
                return 2 if self.name.endswith("bf16") else 4
            case Rule.FUSED:
                return min(4 if self.a == Type.XF32 else 8, self.kept)
            case Rule.FUSED_SPLIT:
                return 16
        return 1

    @property
    def is_chosen(self) -> bool:
        """True if no measurement of the instruction's arithmetic is published, and the arithmetic is not exact."""
        return self.rule is not Rule.INTEGER and (self.processor == "gfx950" or self.is_sparse)

    @property
    def source(self) -> str:
        """The source of the instruction's arithmetic: the Choice that defines it, or what it was validated with."""
        if self.is_scaled:
            return "gcn/matrix-scales"
        if self.is_chosen:
            return "gcn/matrix-sums"
        return "two's complement" if self.rule is Rule.INTEGER else "MMA-Sim"

    @property
    def takes_formats(self) -> bool:
        """True if the fields cbsz and blgp select the types of A and B."""
        return self.name.endswith("f8f6f4")

    def passes_of(self, a: Type, b: Type) -> int:
        """Return the number of passes with the element types `a` and `b`.

        An f8f6f4 instruction takes twice the passes if one of them has 8 bits.
        """
        return self.passes << (self.takes_formats and 8 in (a.bits, b.bits))

    @property
    def takes_block(self) -> bool:
        """True if cbsz and abid can select one block of A that several blocks of D use."""
        return self.blocks > 1 and self.a != Type.F64

    @property
    def takes_lanes(self) -> bool:
        """True if blgp selects the lanes from which B is read."""
        if self.is_sparse or self.takes_formats or self.a == Type.F64:
            return False
        return self.blocks > 1 or self.processor in ("gfx908", "gfx90a") or self.a == Type.F32

    @property
    def takes_signs(self) -> bool:
        """True if blgp negates A, B and C; on gfx90a this is Choice ``matrix-signs``."""
        return self.a == Type.F64


@dataclass(frozen=True, slots=True)
class Use:
    """A matrix instruction together with the fields and register numbers of one decoded instruction.

    Registers are numbered as in the wave's state: accumulation register n is number 256 + n."""

    matrix: Matrix
    a_type: Type
    b_type: Type
    """The element type of B (of A in `a_type`), as the fields cbsz and blgp select it if they select types."""
    cbsz: int
    abid: int
    blgp: int
    a: int
    b: int
    d: int
    c: int | None
    """The first register of C, or None if every element of C is `constant`."""
    constant: int = 0
    index: int | None = None
    """The register that holds the indices of a sparse A."""
    scales: tuple[int, int] | None = None
    """The registers that hold the scales of A and of B, or None for an instruction without scales.

    In the first one, lane i + m * g holds the scale of row i of A for the k from 32 * g on, and alike for B.
    """
    scale_bytes: tuple[int, int] = (0, 0)
    """The numbers of the bytes, in each lane of both registers, that are the scales."""

    @property
    def is_arranged(self) -> bool:
        """True if A and B must be rearranged or negated before multiplication, as cbsz or blgp is not 0."""
        return bool(self.cbsz or self.blgp) and not self.matrix.is_sparse

    @property
    def a_rows(self) -> range:
        """The numbers of the registers of A."""
        return range(self.a, self.a - (-self.matrix.a_run * self.a_type.bits // 32))

    @property
    def b_rows(self) -> range:
        """The numbers of the registers of B."""
        return range(self.b, self.b - (-self.matrix.b_run * self.b_type.bits // 32))

    @property
    def c_rows(self) -> range:
        """The numbers of the registers of C; none if C is a constant."""
        return range(0) if self.c is None else range(self.c, self.c + self.matrix.d_registers)

    @property
    def d_rows(self) -> range:
        """The numbers of the registers of D."""
        return range(self.d, self.d + self.matrix.d_registers)

    @property
    def selectors(self) -> tuple[int, ...]:
        """The numbers of the registers that hold the indices of a sparse A, or the scales of A and of B."""
        return (self.scales or ()) if self.index is None else (self.index,)

    @property
    def reads(self) -> set[int]:
        """The numbers of all registers that the instruction reads."""
        return {*self.a_rows, *self.b_rows, *self.c_rows, *self.selectors}

    @property
    def passes(self) -> int:
        """The number of passes that the instruction takes with the element types that its fields select."""
        return self.matrix.passes_of(self.a_type, self.b_type)


def _place(part: int, side: int, blocks: int, block: int, row: int, k: int) -> tuple[int, int]:
    number, chunk = divmod(k // part, LANES // (side * blocks))
    return row + side * (block + blocks * chunk), number * part + k % part


def a_place(matrix: Matrix, block: int, i: int, k: int, type_: Type | None = None) -> tuple[int, int]:
    """Return the lane that holds A[i][k] of a block, and the element's index within the registers of that lane.

    For a sparse A, `k` counts the stored elements: half as many as in B. `type_` is the element type that the
    instruction's fields select.
    """
    return _place(matrix.a_part(type_ or matrix.a), matrix.m, matrix.blocks, block, i, k)


def b_place(matrix: Matrix, block: int, k: int, j: int, type_: Type | None = None) -> tuple[int, int]:
    """Return the lane that holds B[k][j] of a block, and the element's index within the registers of that lane."""
    return _place(matrix.b_part(type_ or matrix.b), matrix.n, matrix.blocks, block, j, k)


def d_place(matrix: Matrix, block: int, i: int, j: int) -> tuple[int, int]:
    """Return the lane that holds C[i][j] and D[i][j] of a block, and the element's index within its registers."""
    if matrix.n == 32:
        return j + 32 * (i >> 2 & 1), 16 * block + 4 * (i >> 3) + (i & 3)
    if matrix.d == Type.F64:
        return (j + 16 * (i & 3), i >> 2) if matrix.n == 16 else (j + 4 * block + 16 * i, 0)
    if matrix.n == 16:
        return j + 16 * (i >> 2), 4 * block + (i & 3)
    return j + 4 * block, i & 3


# Name, blocks, and passes on gfx908, gfx90a, gfx942, gfx950.
_ROWS: Final = """
v_mfma_f32_32x32x1f32          2   16 16 - -
v_mfma_f32_16x16x1f32          4    8  8 - -
v_mfma_f32_4x4x1f32           16    2  2 - -
v_mfma_f32_32x32x2f32          1   16 16 - -
v_mfma_f32_16x16x4f32          1    8  8 - -
v_mfma_f32_32x32x4f16          2   16 16 - -
v_mfma_f32_16x16x4f16          4    8  8 - -
v_mfma_f32_4x4x4f16           16    2  2 - -
v_mfma_f32_32x32x8f16          1   16 16 - -
v_mfma_f32_16x16x16f16         1    8  8 - -
v_mfma_i32_32x32x4i8           2   16 16 - -
v_mfma_i32_16x16x4i8           4    8  8 - -
v_mfma_i32_4x4x4i8            16    2  2 - -
v_mfma_i32_32x32x8i8           1   16 16 - -
v_mfma_i32_16x16x16i8          1    8  8 - -
v_mfma_f32_32x32x2bf16         2   16 16 - -
v_mfma_f32_16x16x2bf16         4    8  8 - -
v_mfma_f32_4x4x2bf16          16    2  2 - -
v_mfma_f32_32x32x4bf16         1   16 16 - -
v_mfma_f32_16x16x8bf16         1    8  8 - -
v_mfma_f32_32x32x4bf16_1k      2    - 16 - -
v_mfma_f32_16x16x4bf16_1k      4    -  8 - -
v_mfma_f32_4x4x4bf16_1k       16    -  2 - -
v_mfma_f32_32x32x8bf16_1k      1    - 16 - -
v_mfma_f32_16x16x16bf16_1k     1    -  8 - -
v_mfma_f64_16x16x4f64          1    -  8 - -
v_mfma_f64_4x4x4f64            4    -  4 - -
v_mfma_f32_16x16x8_xf32        1    - -  4 -
v_mfma_f32_32x32x4_xf32        1    - -  8 -
v_mfma_f32_32x32x1_2b_f32      2    - - 16 16
v_mfma_f32_16x16x1_4b_f32      4    - -  8  8
v_mfma_f32_4x4x1_16b_f32      16    - -  2  2
v_mfma_f32_32x32x2_f32         1    - - 16 16
v_mfma_f32_16x16x4_f32         1    - -  8  8
v_mfma_f32_32x32x4_2b_f16      2    - - 16 16
v_mfma_f32_16x16x4_4b_f16      4    - -  8  8
v_mfma_f32_4x4x4_16b_f16      16    - -  2  2
v_mfma_f32_32x32x8_f16         1    - -  8  8
v_mfma_f32_16x16x16_f16        1    - -  4  4
v_mfma_i32_32x32x4_2b_i8       2    - - 16 16
v_mfma_i32_16x16x4_4b_i8       4    - -  8  8
v_mfma_i32_4x4x4_16b_i8       16    - -  2  2
v_mfma_i32_32x32x16_i8         1    - -  8  8
v_mfma_i32_16x16x32_i8         1    - -  4  4
v_mfma_f32_32x32x4_2b_bf16     2    - - 16 16
v_mfma_f32_16x16x4_4b_bf16     4    - -  8  8
v_mfma_f32_4x4x4_16b_bf16     16    - -  2  2
v_mfma_f32_32x32x8_bf16        1    - -  8  8
v_mfma_f32_16x16x16_bf16       1    - -  4  4
v_mfma_f64_16x16x4_f64         1    - -  8 16
v_mfma_f64_4x4x4_4b_f64        4    - -  4  4
v_mfma_f32_16x16x32_bf8_bf8    1    - -  4  4
v_mfma_f32_16x16x32_bf8_fp8    1    - -  4  4
v_mfma_f32_16x16x32_fp8_bf8    1    - -  4  4
v_mfma_f32_16x16x32_fp8_fp8    1    - -  4  4
v_mfma_f32_32x32x16_bf8_bf8    1    - -  8  8
v_mfma_f32_32x32x16_bf8_fp8    1    - -  8  8
v_mfma_f32_32x32x16_fp8_bf8    1    - -  8  8
v_mfma_f32_32x32x16_fp8_fp8    1    - -  8  8
v_smfmac_f32_16x16x32_f16      1    - -  4  4
v_smfmac_f32_32x32x16_f16      1    - -  8  8
v_smfmac_f32_16x16x32_bf16     1    - -  4  4
v_smfmac_f32_32x32x16_bf16     1    - -  8  8
v_smfmac_i32_16x16x64_i8       1    - -  4  4
v_smfmac_i32_32x32x32_i8       1    - -  8  8
v_smfmac_f32_16x16x64_bf8_bf8  1    - -  4  4
v_smfmac_f32_16x16x64_bf8_fp8  1    - -  4  4
v_smfmac_f32_16x16x64_fp8_bf8  1    - -  4  4
v_smfmac_f32_16x16x64_fp8_fp8  1    - -  4  4
v_smfmac_f32_32x32x32_bf8_bf8  1    - -  8  8
v_smfmac_f32_32x32x32_bf8_fp8  1    - -  8  8
v_smfmac_f32_32x32x32_fp8_bf8  1    - -  8  8
v_smfmac_f32_32x32x32_fp8_fp8  1    - -  8  8
v_mfma_f32_16x16x128_f8f6f4    1    - - -  4
v_mfma_f32_32x32x64_f8f6f4     1    - - -  8
v_mfma_scale_f32_16x16x128_f8f6f4 1 - - -  4
v_mfma_scale_f32_32x32x64_f8f6f4  1 - - -  8
v_mfma_f32_16x16x32_f16        1    - - -  4
v_mfma_f32_32x32x16_f16        1    - - -  8
v_mfma_f32_16x16x32_bf16       1    - - -  4
v_mfma_f32_32x32x16_bf16       1    - - -  8
v_mfma_i32_16x16x64_i8         1    - - -  4
v_mfma_i32_32x32x32_i8         1    - - -  8
v_smfmac_f32_16x16x64_f16      1    - - -  4
v_smfmac_f32_32x32x32_f16      1    - - -  8
v_smfmac_f32_16x16x64_bf16     1    - - -  4
v_smfmac_f32_32x32x32_bf16     1    - - -  8
v_smfmac_i32_16x16x128_i8      1    - - -  4
v_smfmac_i32_32x32x64_i8       1    - - -  8
v_smfmac_f32_16x16x128_bf8_bf8 1    - - -  4
v_smfmac_f32_16x16x128_bf8_fp8 1    - - -  4
v_smfmac_f32_16x16x128_fp8_bf8 1    - - -  4
v_smfmac_f32_16x16x128_fp8_fp8 1    - - -  4
v_smfmac_f32_32x32x64_bf8_bf8  1    - - -  8
v_smfmac_f32_32x32x64_bf8_fp8  1    - - -  8
v_smfmac_f32_32x32x64_fp8_bf8  1    - - -  8
v_smfmac_f32_32x32x64_fp8_fp8  1    - - -  8
"""
_NAME: Final = re.compile(
    r"v_(s?mfmac?)_(?:scale_)?([fi]\d+)_(\d+)x(\d+)x(\d+?)_?(?:\d+b_)?"
    r"(f16|bf16|bf16_1k|f32|xf32|f64|i8|[fb][fp]8_[fb][fp]8|[bf][fp]?8_[bf][fp]?8|f8f6f4)"
)


@cache
def matrices() -> MappingProxyType[tuple[str, str], Matrix]:
    """Return all matrix instructions, by processor name and mnemonic."""
    made = {}
    for line in _ROWS.split("\n")[1:-1]:
        name, blocks, *passes = line.split()
        for processor, count in zip(PROCESSORS, passes, strict=True):
            if count != "-":
                made[processor, name] = _matrix(name, processor, int(blocks), int(count))
    return MappingProxyType(made)


def _matrix(name: str, processor: str, blocks: int, passes: int) -> Matrix:
    found = _NAME.fullmatch(name)
    if found is None:
        raise ModelBug(f"matrix instruction {name}: expected a name with a shape and types")
    kind, d, m, n, k, types = found.groups()
    if types == "f8f6f4":
        a, b = FORMATS[0], FORMATS[0]
    else:
        first, _, last = types.partition("_") if types[-1] == "8" and "_" in types else (types, "", types)
        a, b = _NAMED[first], _NAMED[last]
    if processor == "gfx950":
        a, b = _OCP.get(a, a), _OCP.get(b, b)
    return Matrix(
        name, processor, int(m), int(n), int(k), blocks, a, b, _NAMED[d], passes, is_sparse=kind == "smfmac"
    )  # fmt: skip


def check_fields(matrix: Matrix, cbsz: int, abid: int, blgp: int) -> None:
    """Raise `BeyondModel` for field values whose meaning is not documented: Choice ``matrix-blocks``."""
    if matrix.takes_formats and abid:
        raise BeyondModel(
            f"{matrix.name} abid:{abid}: expected 0, or v_mfma_ld_scale_b32 with the scales directly before it"
        )
    if matrix.takes_formats or matrix.is_sparse:
        return
    if matrix.takes_block:
        if 1 << cbsz > matrix.blocks or abid >= 1 << cbsz:
            raise BeyondModel(
                f"{matrix.name} cbsz:{cbsz} abid:{abid} is not modelled, expected 2**cbsz of at most {matrix.blocks} "
                "(blocks) and an abid below 2**cbsz"
            )
    elif cbsz or abid:
        raise BeyondModel(
            f"{matrix.name} cbsz:{cbsz} abid:{abid} is not modelled, expected cbsz:0 abid:0, since A has one block"
        )
    if blgp and not (matrix.takes_lanes or matrix.takes_signs):
        raise BeyondModel(f"{matrix.name} blgp:{blgp} is not modelled, expected blgp:0 on {matrix.processor}")
