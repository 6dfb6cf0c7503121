"""The arithmetic of matrix instructions, element by element: the reference for faster implementations.

Elements of A and B are first widened: floats to binary32, which represents all values of their formats, 8-bit integers
to 32 bits. The rules are those that MMA-Sim (arXiv 2511.10909) found on MI100, MI250X and MI300X; those of gfx950 are
Choice ``matrix-sums``. All rounding is to nearest even, regardless of MODE; every NaN is the canonical one.
"""

from __future__ import annotations

import ctypes
from typing import Final

from softcard.ir.native import (
    U32,
    U64,
    add_floats,
    copy,
    fill_lines,
    fma_doubles,
    fma_floats,
    inlined,
    largest_in_lines,
    layout,
    lowest_bit,
    native,
    signed,
)
from softcard.isa.gcn.semantics.matrix.table import LANES, Matrix, Rule, Type

NAN: Final = 0x7FC0_0000
INFINITY: Final = 0x7F80_0000
MAGNITUDE: Final = 0x7FFF_FFFF
SIGN: Final = 0x8000_0000
FRACTION: Final = 0x7F_FFFF
HIDDEN: Final = 0x80_0000
"""The hidden (not stored) leading bit of a binary32 significand; also the smallest normal number."""
ORIGIN: Final = 1000
"""The bias of the exponents of sums; it is larger than any scale."""
SCALED_NAN: Final = 1 << 32
"""A scale factor that makes a sum NaN."""
UNSCALED: Final = 254


@layout
class Shape(ctypes.Structure):
    """One matrix instruction with its fields, and the host addresses of its registers."""

    m: int
    n: int
    kept: int
    """The number of elements in a row of A as it is stored; half of `depth` if A is sparse."""
    depth: int
    """The number of elements in a column of B."""
    blocks: int
    a_type: int
    b_type: int
    d_bits: int
    a_bits: int
    b_bits: int
    a_run: int
    b_run: int
    """The number of elements of a column of B that a lane holds (of a row of A in `a_run`)."""
    a_part: int
    b_part: int
    """The number of elements of a column of B that are adjacent in a lane (of a row of A in `a_part`)."""
    a_lowest: int
    b_lowest: int
    """The exponent of denormals of B's type (of A's type in `a_lowest`), as an exponent field of binary32."""
    rule: int
    group: int
    is_sparse: int
    cbsz: int
    abid: int
    blgp: int
    index: int
    """The address of the register that holds the indices of a sparse A."""
    scale_a: int
    scale_b: int
    """The address of the register with the scales of B (of A in `scale_a`); 0 without scales."""
    a_shift: int
    b_shift: int
    """The position of the lowest bit of a scale of B (of A in `a_shift`) in each lane."""


_LOWEST: Final = {
    Type.F16: -14, Type.FP8: -7, Type.BF8: -15, Type.OCP_FP8: -6, Type.OCP_BF8: -14, Type.FP6: 0, Type.BF6: -2,
    Type.FP4: 0,
}  # fmt: skip
"""The exponents of denormals by type; types that are not listed have the exponents of binary32."""
F16: Final = int(Type.F16)
BF16: Final = int(Type.BF16)
XF32: Final = int(Type.XF32)
I8: Final = int(Type.I8)
FP8: Final = int(Type.FP8)
BF8: Final = int(Type.BF8)
OCP_FP8: Final = int(Type.OCP_FP8)
OCP_BF8: Final = int(Type.OCP_BF8)
FP6: Final = int(Type.FP6)
BF6: Final = int(Type.BF6)
FP4: Final = int(Type.FP4)
CHAIN: Final = int(Rule.CHAIN)
INTEGER: Final = int(Rule.INTEGER)
PAIRWISE: Final = int(Rule.PAIRWISE)
PAIRWISE_FLUSH: Final = int(Rule.PAIRWISE_FLUSH)
FUSED_SPLIT: Final = int(Rule.FUSED_SPLIT)


def lowest_field(type_: Type) -> int:
    """Return the exponent of a type's denormals, as the exponent field of a binary32 number."""
    return _LOWEST.get(type_, -126) + 127


def shape(matrix: Matrix, a: Type | None = None, b: Type | None = None) -> Shape:
    """Return the `Shape` of an instruction; `a` and `b` are the element types that its fields select."""
    one, other = matrix.a if a is None else a, matrix.b if b is None else b
    return Shape(
        m=matrix.m, n=matrix.n, kept=matrix.kept, depth=matrix.k, blocks=matrix.blocks, a_type=one, b_type=other,
        d_bits=matrix.d.bits, a_bits=one.bits, b_bits=other.bits, a_run=matrix.a_run, b_run=matrix.b_run,
        a_part=matrix.a_part(one), b_part=matrix.b_part(other),
        a_lowest=lowest_field(one), b_lowest=lowest_field(other), rule=matrix.rule, group=matrix.group,
        is_sparse=matrix.is_sparse,
    )  # fmt: skip


# ---- formats -------------------------------------------------------------------------------------------------------
@native
def widened(x: int, exponent_bits: int, fraction_bits: int, bias: int) -> int:
    """Return a finite number as binary32, from a format with the given exponent bits, fraction bits and bias."""
    sign = x >> (exponent_bits + fraction_bits) & 1
    field = x >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = x & ((1 << fraction_bits) - 1)
    if field == 0 and fraction == 0:
        return sign << 31
    if field == 0:
        field = 1
        while fraction >> fraction_bits == 0:
            fraction = fraction << 1
            field = field - 1
        fraction = fraction & ((1 << fraction_bits) - 1)
    return sign << 31 | (field + 127 - bias) << 23 | fraction << (23 - fraction_bits)


@native
def as_binary32(x: int, type_: int) -> int:
    """Return an element of type `type_` as binary32; an 8-bit integer is sign-extended to 32 bits."""
    if type_ == F16:
        if x >> 10 & 31 == 31:
            return NAN if x & 0x3FF else (x >> 15) << 31 | INFINITY
        return widened(x, 5, 10, 15)
    if type_ == BF16:
        return x << 16
    if type_ == XF32:
        return NAN if x & MAGNITUDE > INFINITY else x & ~0x1FFF
    if type_ == I8:
        return (x ^ 0x80) - 0x80 & 0xFFFF_FFFF
    if type_ == FP8:
        return NAN if x == 0x80 else widened(x, 4, 3, 8)
    if type_ == BF8:
        return NAN if x == 0x80 else widened(x, 5, 2, 16)
    if type_ == OCP_FP8:
        return NAN if x & 0x7F == 0x7F else widened(x, 4, 3, 7)
    if type_ == OCP_BF8:
        if x >> 2 & 31 == 31:
            return NAN if x & 3 else (x >> 7) << 31 | INFINITY
        return widened(x, 5, 2, 15)
    if type_ == FP6:
        return widened(x, 2, 3, 1)
    if type_ == BF6:
        return widened(x, 3, 2, 3)
    if type_ == FP4:
        return widened(x, 2, 1, 1)
    return x


@native
def flushed_input(x: int, lowest: int) -> int:
    """Return +0 if `x` is a zero, or a denormal of its original format; otherwise return `x`.

    `lowest` is the exponent of that format's denormals, as an exponent field of binary32."""
    return 0 if x & MAGNITUDE < lowest << 23 else x


@native
def flushed(x: int) -> int:
    """Return a zero of the same sign if `x` is a denormal; otherwise return `x`."""
    return x & SIGN if x & MAGNITUDE < HIDDEN else x


@native
def significand(magnitude: int) -> int:
    """Return the 24-bit significand of a finite binary32 number; `magnitude` has its bits without the sign."""
    return magnitude & FRACTION | (HIDDEN if magnitude >> 23 else 0)


@native
def encoded(magnitude: int, lowest: int) -> int:
    """Return the exponent field of a binary32 number, but at least `lowest`; 1 for zero.

    `lowest` is the exponent field of the denormals of the number's original format. `magnitude` has the bits of
    the number without the sign."""
    return max(magnitude >> 23, lowest) if magnitude else 1


# ---- rounding ------------------------------------------------------------------------------------------------------
@native
def nearest(magnitude: int, drop: int) -> int:
    """Return `magnitude` >> `drop`, rounded to nearest even; `magnitude` has at most 60 bits."""
    if drop == 0:
        return magnitude
    if drop > 61:
        return 0
    kept = magnitude >> drop
    rest = magnitude & ((1 << drop) - 1)
    half = 1 << (drop - 1)
    return kept + 1 if rest > half or (rest == half and kept & 1) else kept


@native
def bit_length(word: int) -> int:
    """Return the position of the highest bit that is 1, counted from 1; 0 for 0."""
    n = 0
    rest = word
    step = 32
    while step:
        if rest >> step:
            rest = rest >> step
            n = n + step
        step = step >> 1
    return n + 1 if rest else n


@native
def rounded(total: int, top: int) -> int:
    """Return total * 2**(top - ORIGIN - 31) as binary32, rounded to nearest even; `total` is a signed integer.

    So `top` is the exponent, with the bias `ORIGIN`, of bit 31 of `total`."""
    sign = total >> 63
    magnitude = 0 - total if sign else total
    if magnitude == 0:
        return 0
    n = bit_length(magnitude)
    if n + top > ORIGIN - 95:  # a normal number
        kept = magnitude << (24 - n) if n < 24 else nearest(magnitude, n - 24)
        bits = ((n + top - (ORIGIN - 94)) << 23) + kept
    elif top >= ORIGIN - 118:
        bits = magnitude << (top - (ORIGIN - 118))
    else:
        bits = nearest(magnitude, ORIGIN - 118 - top)
    return sign << 31 | min(bits, INFINITY)


# ---- one group of products and C -----------------------------------------------------------------------------------
@native
def fused(
    a: int,
    a_step: int,
    b: int,
    b_step: int,
    count: int,
    c: int,
    a_lowest: int,
    b_lowest: int,
    is_split: int,
    scale: int,
) -> int:
    """Return the sum of C and `count` products of elements of A and B, by the rule of CDNA3.

    The elements start at the addresses `a` and `b`; `a_step` and `b_step` are their distances in bytes.

    - Each product is truncated: bits below 2**-24 times the largest power of two among the products are dropped.
      With `is_split`, this maximum is determined separately for the products with even k and for those with odd
      k.
    - `scale` is the exponent, plus `UNSCALED`, of a power of two by which the products are multiplied.
    - Let E be the larger of two exponents: the largest one among the products, and the exponent of C. The sum of
      the products is rounded down to a multiple of 2**(E - 31), and C to a multiple of 2**(E - 24)."""
    plus, minus, huge_plus, huge_minus, is_nan = 0, 0, 0, 0, 0
    even, odd = 0, 0
    for k in range(count):
        x, y = U32[a + a_step * k], U32[b + b_step * k]
        p, q = x & MAGNITUDE, y & MAGNITUDE
        sign = (x ^ y) >> 31
        if p >= INFINITY or q >= INFINITY:
            if p > INFINITY or q > INFINITY or p == 0 or q == 0:
                is_nan = 1
            elif sign:
                minus = 1
            else:
                plus = 1
        else:
            field = max(p >> 23, 1) + max(q >> 23, 1)
            product = significand(p) * significand(q)
            if field > 381 or (field == 381 and product >> 47):
                if sign:
                    huge_minus = 1
                else:
                    huge_plus = 1
            elif is_split and k & 1:
                odd = max(odd, encoded(p, a_lowest) + encoded(q, b_lowest))
            else:
                even = max(even, encoded(p, a_lowest) + encoded(q, b_lowest))
    magnitude = c & MAGNITUDE
    if magnitude > INFINITY or scale == SCALED_NAN:
        is_nan = 1
    elif magnitude == INFINITY:
        if c >> 31:
            minus = 1
        else:
            plus = 1
    if is_nan or (plus and minus):
        return NAN
    if plus or minus:
        return minus << 31 | INFINITY
    if huge_plus and huge_minus:
        return NAN
    if huge_plus or huge_minus:
        return huge_minus << 31 | INFINITY
    first, second = 0, 0
    for k in range(count):
        x, y = U32[a + a_step * k], U32[b + b_step * k]
        p, q = x & MAGNITUDE, y & MAGNITUDE
        largest = odd if is_split and k & 1 else even
        product = significand(p) * significand(q) >> (22 + largest - max(p >> 23, 1) - max(q >> 23, 1))
        part = 0 - product if (x ^ y) >> 31 else product
        if is_split and k & 1:
            second = second + part
        else:
            first = first + part
    largest = max(even, odd)
    total = (signed(first) >> (largest - even)) + (signed(second) >> (largest - odd))
    own = largest + scale + ORIGIN - 254 - UNSCALED
    of_c = max(magnitude >> 23, 1) + ORIGIN - 127
    top = max(own, of_c)
    addend = significand(magnitude) << 1
    addend = 0 - addend if c >> 31 else addend
    addend = signed(addend) >> (top - of_c)
    if is_split and of_c + 25 < top:
        addend = 0
    shifted = total << 7
    return rounded((signed(shifted) >> (top - own)) + (addend << 7), top)


@native
def pairwise(a: int, a_step: int, b: int, b_step: int, count: int, c: int, is_flushed: int) -> int:
    """Return `c`, an element of C, plus `count` (2 or 4) rounded products, which are added in pairs.

    Each product is an element of A times an element of B. The elements start at the addresses `a` and `b`, at
    distances of `a_step` and `b_step` bytes. With `is_flushed`, denormal intermediate results become zeros."""
    total = rounded_product(U32[a], U32[b], is_flushed)
    total = rounded_sum(total, rounded_product(U32[a + a_step], U32[b + b_step], is_flushed), is_flushed)
    if count == 4:
        third = rounded_product(U32[a + 2 * a_step], U32[b + 2 * b_step], is_flushed)
        fourth = rounded_product(U32[a + 3 * a_step], U32[b + 3 * b_step], is_flushed)
        total = rounded_sum(total, rounded_sum(third, fourth, is_flushed), is_flushed)
    return rounded_sum(c, total, is_flushed)


@native
def rounded_product(a: int, b: int, is_flushed: int) -> int:
    """Return a * b + 0 as binary32; with `is_flushed`, a denormal result becomes a zero."""
    product = fma_floats(a, b, 0)
    return flushed(product) if is_flushed else product


@native
def rounded_sum(a: int, b: int, is_flushed: int) -> int:
    """Return a + b as binary32; with `is_flushed`, a denormal result becomes a zero."""
    total = add_floats(a, b)
    return flushed(total) if is_flushed else total


@native
def summed(shape: Shape, a: int, b: int, c: int, scale: int) -> int:
    """Return one element of D: C plus the products of a row of A and a column of B, by the instruction's rule.

    `a` and `b` are the addresses of the first elements. The following elements of the row are `m` elements
    apart, and those of the column `n` elements apart. `c` is the element of C. `scale` is 0 or the argument of
    `scaling`."""
    kept = shape.kept
    a_step, b_step = 4 * shape.m, 4 * shape.n
    found = c
    if shape.d_bits == 64:
        for k in range(kept):
            found = fma_doubles(U64[a + 2 * a_step * k], U64[b + 2 * b_step * k], found)
        return found
    if shape.rule == CHAIN:
        for k in range(kept):
            found = fma_floats(U32[a + a_step * k], U32[b + b_step * k], found)
        return found
    if shape.rule == INTEGER:
        for k in range(kept):
            found = found + U32[a + a_step * k] * U32[b + b_step * k] & 0xFFFF_FFFF
        return found
    if shape.rule == PAIRWISE_FLUSH:
        found = flushed_input(found, 1)
    at = 0
    while at < kept:
        x, y = a + a_step * at, b + b_step * at
        if shape.rule == PAIRWISE or shape.rule == PAIRWISE_FLUSH:
            found = pairwise(x, a_step, y, b_step, shape.group, found, shape.rule == PAIRWISE_FLUSH)
        else:
            is_split = shape.rule == FUSED_SPLIT
            power = UNSCALED
            if scale:
                power = scaling(shape, scale, at)
            found = fused(
                x, a_step, y, b_step, shape.group, found, shape.a_lowest, shape.b_lowest, is_split, power
            )  # fmt: skip
        at = at + shape.group
    return found


@native
def scaling(shape: Shape, scale: int, k: int) -> int:
    """Return the sum of the exponents of the scales of A and B for index `k`.

    It is `SCALED_NAN` if either scale is a NaN. Bits 15:8 of `scale` are the row number of the element of D,
    and bits 7:0 its column number."""
    row, column = scale >> 8 & 0xFF, scale & 0xFF
    one = U32[shape.scale_a + 4 * (row + shape.m * (k >> 5))] >> shape.a_shift & 0xFF
    other = U32[shape.scale_b + 4 * (column + shape.n * (k >> 5))] >> shape.b_shift & 0xFF
    return SCALED_NAN if one == 0xFF or other == 0xFF else one + other


# ---- whole matrices in registers -----------------------------------------------------------------------------------
@native
def element(registers: int, lane: int, number: int, bits: int) -> int:
    """Return element number `number` of the matrix elements that lane `lane` holds; they have `bits` bits each.

    `registers` is the address of their first register; a register has 64 dwords."""
    bit = number * bits
    at = registers + 4 * (LANES * (bit >> 5) + lane)
    if bits == 64:
        return U32[at] | U32[at + 4 * LANES] << 32
    whole = U32[at]
    if (bit & 31) + bits > 32:
        whole = whole | U32[at + 4 * LANES] << 32
    return whole >> (bit & 31) & ((1 << bits) - 1)


@native
def unpacked(shape: Shape, registers: int, block: int, to: int, is_b: int) -> int:
    """Write the elements of one block of A, or of B if `is_b` is 1, to address `to`, each widened.

    For each k, `m` elements of A or `n` elements of B are written, one after another."""
    side = shape.n if is_b else shape.m
    depth = shape.depth if is_b else shape.kept
    bits = shape.b_bits if is_b else shape.a_bits
    type_ = shape.b_type if is_b else shape.a_type
    part = shape.b_part if is_b else shape.a_part
    groups = quotient(LANES, side * shape.blocks)
    lowest = shape.b_lowest if is_b else shape.a_lowest
    first = block
    if not is_b and shape.cbsz and not shape.is_sparse:
        first = ((block >> shape.cbsz) << shape.cbsz) + shape.abid
    at, number, chunk = to, 0, 0
    for _k in range(depth):
        for row in range(side):
            lane = row + side * (first + shape.blocks * chunk)
            if is_b and bits != 64:
                lane = source_lane(lane, shape.blgp)
            found = element(registers, lane, number, bits)
            if bits == 64:
                U64[at] = found ^ (shape.blgp >> is_b & 1) << 63
                at = at + 8
            else:
                found = as_binary32(found, type_)
                U32[at] = flushed_input(found, lowest) if shape.rule == PAIRWISE_FLUSH else found
                at = at + 4
        number = number + 1
        if number & (part - 1) == 0:
            chunk = chunk + 1
            if chunk == groups:
                chunk = 0
            else:
                number = number - part
    return 0


@native
def source_lane(lane: int, blgp: int) -> int:
    """Return the number of the lane from which `lane` reads its elements of B; blgp selects it."""
    if blgp == 1:
        return lane & 31
    if blgp == 2:
        return lane | 32
    if blgp == 3:
        return lane + 16 & 63
    return lane & 15 | (blgp & 3) << 4 if blgp else lane


@native
def d_offset(shape: Shape, block: int, i: int) -> int:
    """Return the offset in dwords, from the first register of C or D, of row `i` of a block."""
    if shape.n == 32:
        return LANES * (16 * block + 4 * (i >> 3) + (i & 3)) + 32 * (i >> 2 & 1)
    if shape.d_bits == 64:
        return 2 * LANES * (i >> 2) + 16 * (i & 3) if shape.n == 16 else 4 * block + 16 * i
    if shape.n == 16:
        return LANES * (4 * block + (i & 3)) + 16 * (i >> 2)
    return 4 * block + LANES * (i & 3)


@native
def selected(shape: Shape, i: int, b: int, to: int) -> int:
    """Write to address `to` those elements of B that the indices of row `i` of a sparse A select.

    `b` is the address of the widened B."""
    run = shape.a_run
    number, chunk = 0, 0
    for t in range(shape.kept):
        k = 4 * (t >> 1) + index_of(shape, shape.index, i + shape.m * chunk, number)
        for j in range(shape.n):
            U32[to + 4 * (shape.n * t + j)] = U32[b + 4 * (shape.n * k + j)]
        number = number + 1
        if number == run:
            number, chunk = 0, chunk + 1
    return 0


SCRATCH: Final = 3 * 4 * 32 * 128
"""The number of bytes that `multiply` needs for a block of A, a block of B, and the selected elements of B."""


@native
def multiply(shape: Shape, a: int, b: int, c: int, d: int, scratch: int) -> int:
    """Compute a matrix instruction on registers of 64 dwords at the addresses `a`, `b`, `c` and `d`.

    C and D are at the same address or do not overlap. `scratch` is the address of `SCRATCH` bytes.
    """
    rows, columns, chosen = scratch, scratch + 4 * 32 * 128, scratch + 8 * 32 * 128
    size = shape.d_bits >> 3
    for block in range(shape.blocks):
        unpacked(shape, a, block, rows, 0)
        unpacked(shape, b, block, columns, 1)
        used = columns
        for i in range(shape.m):
            if shape.is_sparse:
                selected(shape, i, columns, chosen)
                used = chosen
            at = 4 * d_offset(shape, block, i)
            for j in range(shape.n):
                scale = 1 << 16 | i << 8 | j if shape.scale_a else 0
                if shape.d_bits == 64:
                    old = U32[c + at + 4 * j] | U32[c + at + 4 * j + 4 * LANES] << 32
                    old = old ^ (shape.blgp >> 2 & 1) << 63
                    found = summed(shape, rows + size * i, used + size * j, old, scale)
                    U32[d + at + 4 * j] = found
                    U32[d + at + 4 * j + 4 * LANES] = found >> 32
                else:
                    found = summed(shape, rows + size * i, used + size * j, U32[c + at + 4 * j], scale)
                    U32[d + at + 4 * j] = found
    return 0


@native
def arranged(shape: Shape, a: int, b: int, to_a: int, to_b: int) -> int:
    """Copy the registers of A and B to `to_a` and `to_b`, with the selections of cbsz, abid and blgp applied.

    In the copy, each block and each lane reads its own elements. For binary64, blgp has another meaning: it
    negates A, B and C. So the copies of A and B have inverted signs where blgp requires that."""
    if shape.a_bits == 64:
        for lane in range(LANES):
            U32[to_a + 4 * lane] = U32[a + 4 * lane]
            U32[to_b + 4 * lane] = U32[b + 4 * lane]
            high = 4 * LANES + 4 * lane
            U32[to_a + high] = U32[a + high] ^ (shape.blgp & 1) << 31
            U32[to_b + high] = U32[b + high] ^ (shape.blgp >> 1 & 1) << 31
        return 0
    side = shape.m
    for register in range(shape.a_run * shape.a_bits + 31 >> 5):
        for lane in range(LANES):
            block = lane // 4 if side == 4 else lane // 16 if side == 16 else lane // 32
            first = ((block >> shape.cbsz) << shape.cbsz) + shape.abid if shape.cbsz else block
            at = 4 * LANES * register
            U32[to_a + at + 4 * lane] = U32[a + at + 4 * (lane & (side - 1) | first * side)]
    for register in range(shape.b_run * shape.b_bits + 31 >> 5):
        for lane in range(LANES):
            at = 4 * LANES * register
            U32[to_b + at + 4 * lane] = U32[b + at + 4 * source_lane(lane, shape.blgp)]
    return 0


@native
def one_group(shape: Shape, a: int, b: int, c: int, block: int, i: int, j: int, first: int, scratch: int) -> int:
    """Return C plus the products of one group of consecutive k, for the element (i, j) of a block.

    The group starts at k = `first`. The registers at `a` and `b` are results of `arranged`. `c` is the value to
    which the products are added. `scratch` is the address of a buffer for the elements of the group."""
    for k in range(shape.group):
        at = first + k
        lane = i + shape.m * (block + shape.blocks * chunk_of(shape, at, 0))
        found = as_binary32(element(a, lane, number_of(shape, at, 0), shape.a_bits), shape.a_type)
        U32[scratch + 8 * k] = found
        if shape.is_sparse:
            at = 4 * (at >> 1) + index_of(shape, shape.index, lane, number_of(shape, at, 0))
        lane = j + shape.n * (block + shape.blocks * chunk_of(shape, at, 1))
        found = as_binary32(element(b, lane, number_of(shape, at, 1), shape.b_bits), shape.b_type)
        U32[scratch + 8 * k + 4] = found
    is_split = shape.rule == FUSED_SPLIT
    power = UNSCALED
    if shape.scale_a:
        power = scaling(shape, i << 8 | j, first)
    return fused(
        scratch, 8, scratch + 4, 8, shape.group, c, shape.a_lowest, shape.b_lowest, is_split, power
    )  # fmt: skip


@native
def chunk_of(shape: Shape, k: int, is_b: int) -> int:
    """Return the number of the group of lanes that holds the elements with index `k` of A, or of B."""
    part = shape.b_part if is_b else shape.a_part
    groups = quotient(LANES, (shape.n if is_b else shape.m) * shape.blocks)
    return quotient(k, part) & (groups - 1)


@native
def number_of(shape: Shape, k: int, is_b: int) -> int:
    """Return the number of the element with index `k` of A, or of B, within the registers of its lane."""
    part = shape.b_part if is_b else shape.a_part
    groups = quotient(LANES, (shape.n if is_b else shape.m) * shape.blocks)
    return quotient(quotient(k, part), groups) * part + (k & (part - 1))


@inlined
def quotient(k: int, run: int) -> int:
    """Return k // run; `run` is a power of two."""
    return k >> bit_length(run - 1)


@native
def repair(
    shape: Shape, a: int, b: int, block: int, i: int, column: int, first: int, lanes: int, c: int, d: int, scratch: int
) -> int:
    """Compute again, with `one_group`, elements of row `i` of D that a fast path did not compute exactly.

    Bit n of `lanes` selects the element in `column` + n. `c` is the address of the row's values before the
    group of k that starts at `first` is added, and `d` that of the results. If blocks have 4 columns, the
    columns continue in the next block."""
    rest = lanes
    while rest:
        j = lowest_bit(rest)
        rest = rest & (rest - 1)
        at = block + ((column + j) >> 2) if shape.n == 4 else block
        inside = (column + j) & 3 if shape.n == 4 else column + j
        U32[d + 4 * j] = one_group(shape, a, b, U32[c + 4 * j], at, i, inside, first, scratch)
    return 0


LINES: Final = 4
"""The number of 64-byte lines of a register."""
CONSTANT: Final = 1
MARKED: Final = 2
"""The value of `place` with which `undefine` sets all bits, whatever the operands are."""
"""The value of the parameter `place` for a C that is a constant; 0 for a C in registers."""


@native
def addend(shape: Shape, c: int, place: int, d: int, room: int) -> int:
    """Return the address of C for `multiply`: the address `c` of its registers, or `room`.

    `multiply` needs C and D to be at the same address or not to overlap. Therefore C is copied to the buffer
    `room` if it overlaps D partly. If `place` is CONSTANT, `c` is the value of all elements of C, which are
    written to `room`."""
    size = 4 * LANES * d_registers(shape)
    if place == CONSTANT:
        if shape.d_bits == 64:
            at = room
            while at < room + size:
                fill_lines(at, c & 0xFFFF_FFFF, LINES)
                fill_lines(at + 4 * LANES, c >> 32, LINES)
                at = at + 8 * LANES
        else:
            fill_lines(room, c & 0xFFFF_FFFF, LINES * d_registers(shape))
        return room
    if c != d and c < d + size and d < c + size:
        copy(room, c, size)
        return room
    return c


@inlined
def d_registers(shape: Shape) -> int:
    """Return the number of registers of C, which is also that of D."""
    return shape.m * shape.n * shape.blocks * shape.d_bits >> 11


# ---- definedness ---------------------------------------------------------------------------------------------------
@native
def has_bit(shape: Shape, registers: int, block: int, row: int, k: int, is_b: int) -> int:
    """Return 1 if any bit of the element (`row`, `k`) of a block of A is 1, else 0.

    If `is_b` is 1, the element is that in column `row` of B. `registers` is the address of the matrix's
    registers."""
    side = shape.n if is_b else shape.m
    bits = shape.b_bits if is_b else shape.a_bits
    first = block
    if not is_b and shape.cbsz and not shape.is_sparse:
        first = ((block >> shape.cbsz) << shape.cbsz) + shape.abid
    lane = row + side * (first + shape.blocks * chunk_of(shape, k, is_b))
    if is_b and bits != 64:
        lane = source_lane(lane, shape.blgp)
    return element(registers, lane, number_of(shape, k, is_b), bits) != 0


@native
def undefined(shape: Shape, a: int, b: int, c: int, indices: int, d: int) -> int:
    """Write the undefined bits of D that follow from those of A, B, C and the indices (definedness tracking).

    All are given as addresses of registers of 64 dwords with a bit for each undefined bit. An element of D is undefined
    if any bit of its element of C, its row of A or its column of B is undefined. With a sparse A, only the selected
    elements of B count, and an undefined index makes its row of D undefined. Scales count as elements of their row or
    column; here `shape` has the addresses of their undefined bits.
    """
    for block in range(shape.blocks):
        for i in range(shape.m):
            row = 0
            if shape.scale_a:
                row = has_scale_bit(shape.scale_a, shape.a_shift, shape.m, i, shape.depth)
            for k in range(shape.kept):
                row = row | has_bit(shape, a, block, i, k, 0)
                if shape.is_sparse:
                    lane = i + shape.m * quotient(k, shape.a_run)
                    row = row | (index_of(shape, indices, lane, k & (shape.a_run - 1)) != 0)
            at = 4 * d_offset(shape, block, i)
            for j in range(shape.n):
                found = row
                if shape.scale_b:
                    found = found | has_scale_bit(shape.scale_b, shape.b_shift, shape.n, j, shape.depth)
                for k in range(shape.kept):
                    own = k
                    if shape.is_sparse:
                        lane = i + shape.m * quotient(k, shape.a_run)
                        own = 4 * (k >> 1) + index_of(shape, shape.index, lane, k & (shape.a_run - 1))
                    found = found | has_bit(shape, b, block, j, own, 1)
                low = at + 4 * j
                if shape.d_bits == 64:
                    found = found | U32[c + low] | U32[c + low + 4 * LANES]
                    U32[d + low + 4 * LANES] = 0xFFFF_FFFF if found else 0
                else:
                    found = found | U32[c + low]
                U32[d + low] = 0xFFFF_FFFF if found else 0
    return 0


@native
def has_scale_bit(register: int, shift: int, side: int, row: int, depth: int) -> int:
    """Return 1 if one of the scales of row `row` of A (column of B) has a bit that is 1, else 0."""
    found = 0
    for group in range(depth >> 5):
        found = found | U32[register + 4 * (row + side * group)] >> shift & 0xFF
    return found != 0


@native
def index_of(shape: Shape, register: int, lane: int, number: int) -> int:
    """Return index `number` of a lane of a sparse A: which of four elements of B it selects (0 to 3).

    Sets of indices that abid selects beyond the 32 bits of a lane are 0."""
    shift = 0 if shape.cbsz else 2 * shape.a_run * shape.abid
    if shift > 31:
        return 0
    return U32[register + 4 * lane] >> (shift + 2 * number) & 3


@native
def undefine(shape: Shape, a: int, b: int, c: int, place: int, indices: int, d: int, zeros: int, room: int) -> int:
    """Write the undefined bits of D as `undefined` does, but also if D overlaps the other operands.

    If `place` is CONSTANT, C is a constant, which has no undefined bits. `zeros` and `room` are buffers of the
    size of D: `zeros` is filled with zeros for a constant C, and `room` holds the result before it is copied to
    D. If `place` is MARKED, all bits of D are set."""
    lines = LINES * d_registers(shape)
    if place == MARKED:
        fill_lines(d, 0xFFFF_FFFF, lines)
        return 0
    found = largest_in_lines(a, LINES * (shape.a_run * shape.a_bits + 31 >> 5))
    found = found | largest_in_lines(b, LINES * (shape.b_run * shape.b_bits + 31 >> 5))
    if shape.is_sparse:
        found = found | largest_in_lines(indices, LINES)
    if shape.scale_a:
        found = found | largest_in_lines(shape.scale_a, LINES) | largest_in_lines(shape.scale_b, LINES)
    own = c
    if place == CONSTANT:
        fill_lines(zeros, 0, lines)
        own = zeros
    if found | largest_in_lines(own, lines) == 0:
        fill_lines(d, 0, lines)
        return 0
    undefined(shape, a, b, own, indices, room)
    copy(d, room, 64 * lines)
    return 0
