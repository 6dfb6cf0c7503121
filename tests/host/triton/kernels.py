"""Kernels in Triton's language for the tests of this folder."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def scale(x, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def convert(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=at < n)


@triton.jit
def softmax(out, x, row, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * row + at, mask=at < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + tl.program_id(0) * row + at, values / tl.sum(values, axis=0), mask=at < columns)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for at in range(0, k, K):
        inner = at + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + inner[None, :])
        right = tl.load(b + inner[:, None] * n + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def copy_tile(source, target, M: tl.constexpr, N: tl.constexpr):
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    target.store(at, source.load(at) * 2)


@triton.jit
def copy_described(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[rows, columns], strides=[columns, 1], block_shape=[M, N])
    target = tl.make_tensor_descriptor(out, shape=[rows, columns], strides=[columns, 1], block_shape=[M, N])
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    target.store(at, source.load(at) * 2)


@triton.jit
def where_am_i(out, BLOCK: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out + at, x + 100 * y + 10000 * z)


@triton.jit
def shift_by_assembly(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    shifted = tl.inline_asm_elementwise(
        "v_lshlrev_b32 $0, 3, $1", "=v,v", [tl.load(x + at)], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(out + at, shifted)


@triton.jit
def count_all(counter):
    tl.atomic_add(counter, 1)


@triton.jit
def meet(x, counter, out, COUNT: tl.constexpr, ROUNDS: tl.constexpr):
    """A grid barrier in each round: every program stores a value, and all read those of all programs."""
    me = tl.program_id(0)
    for turn in range(ROUNDS):
        tl.store(x + turn * COUNT + me, me + turn)
        tl.debug_barrier()
        tl.atomic_add(counter, 1)
        while tl.atomic_add(counter, 0) < COUNT * (turn + 1):
            pass
        tl.debug_barrier()
        found = tl.load(x + turn * COUNT + tl.arange(0, COUNT), volatile=True)
        tl.store(out + turn * COUNT + me, tl.sum(found))


@triton.jit
def sum_of(pair, scales, out):
    tl.store(out, tl.load(pair[0]) * scales[0] + tl.load(pair[1]) * scales[1])


@triton.jit
def sum_of_tables(table, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    y = tl.load(table + 1).to(tl.pointer_type(tl.float32))
    tl.store(out + at, tl.load(x + at) + tl.load(y + at))


@triton.jit
def inner(x, at):
    return tl.load(x + at + 1)


@triton.jit
def reads_past_the_end(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = inner(x, at)
    tl.store(out + at, value)


@triton.jit
def prints(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.device_print("value", tl.load(x + at))


@triton.jit
def asserts(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.device_assert(tl.load(x + at) < 3, "too large")


@triton.jit
def never_ends(x):
    while tl.load(x, volatile=True) == 0:
        pass


@triton.jit
def uses_a_library(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, libdevice.erf(tl.load(x + at)))


@triton.jit
def does_not_compile(x):
    tl.store(x, tl.arange(0, 3))


@triton.jit
def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DEPTH: tl.constexpr):
    """The product of an M x K and a K x N matrix by one program, in steps of DEPTH."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, DEPTH)
    total = tl.zeros((M, N), dtype=out.dtype.element_ty)
    for at in range(0, K, DEPTH):
        left = tl.load(a + rows[:, None] * K + (at + inner)[None, :])
        right = tl.load(b + (at + inner)[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=out.dtype.element_ty)
    tl.store(out + rows[:, None] * N + columns[None, :], total)


@triton.jit
def scaled_product(a, b, scales, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The product of matrices of E4M3 numbers, of which each 32 of a row of `a` have a scale."""
    rows, columns, inner, blocks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * N + columns[None, :])
    scale = tl.load(scales + rows[:, None] * (K // 32) + blocks[None, :])
    total = tl.dot_scaled(left, scale, "e4m3", right, None, "e4m3")
    tl.store(out + rows[:, None] * N + columns[None, :], total)


@triton.jit
def attention(q, k, v, out, length, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """Causal flash attention: one program for M queries, blocks of N keys, and a running maximum and sum."""
    first = tl.program_id(0) * M
    rows, inner = first + tl.arange(0, M), tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + inner[None, :])
    largest, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    result = tl.zeros((M, D), tl.float32)
    for start in range(0, first + M, N):
        columns = start + tl.arange(0, N)
        is_key = columns < length
        keys = tl.load(k + columns[None, :] * D + inner[:, None], mask=is_key[None, :], other=0.0)
        scores = tl.dot(queries, keys) * 0.125
        scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, 1))
        weights, shrink = tl.exp(scores - now[:, None]), tl.exp(largest - now)
        total = total * shrink + tl.sum(weights, 1)
        values = tl.load(v + columns[:, None] * D + inner[None, :], mask=is_key[:, None], other=0.0)
        result = result * shrink[:, None] + tl.dot(weights.to(values.dtype), values)
        largest = now
    tl.store(out + rows[:, None] * D + inner[None, :], (result / total[:, None]).to(out.dtype.element_ty))
