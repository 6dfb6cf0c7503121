# ruff: noqa: N803
"""Kernels of Triton, and the script that made the files in ``triton`` of them: ``python triton_kernels.py triton``.

Triton 3.9.0 compiles without a GPU. Line information is left out.
"""

import json
import os
import sys
from pathlib import Path

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def softmax(o, x, so, sx, n, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * sx + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(o + row * so + i, e / tl.sum(e, axis=0), mask=i < n)


@triton.jit
def layernorm(x, y, w, b, stride, n, eps, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * stride + i, mask=i < n, other=0.0)
    d = tl.where(i < n, v - tl.sum(v, axis=0) / n, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, axis=0) / n + eps)
    tl.store(y + row * stride + i, d * scale * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


@triton.jit
def reductions(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(o, tl.sum(v, axis=0))
    tl.atomic_max(o + 1, tl.max(v, axis=0))
    tl.atomic_min(o + 2, tl.min(v, axis=0))


@triton.jit
def float_sum(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o, tl.sum(tl.load(x + i, mask=i < n, other=0), axis=0))


@triton.jit
def histogram(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def lock(o, n, B: tl.constexpr):
    while tl.atomic_cas(o, 0, 1) == 1:
        pass
    tl.store(o + 1, tl.load(o + 1, volatile=True) + 1)
    tl.atomic_xchg(o, 0)


@triton.jit
def scan(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.cumsum(tl.load(x + i), 0))


@triton.jit
def sort(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.sort(tl.load(x + i)))


@triton.jit
def gelu(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n).to(tl.float32)
    tl.store(o + i, (0.5 * v * (1 + tl.erf(v * 0.70710678))).to(tl.float16), mask=i < n)


@triton.jit
def matrix_sums(x, o, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + m[:, None] * N + n[None, :])
    tl.store(o + n, tl.sum(a, axis=0))
    tl.store(o + N + m, tl.sum(a, axis=1))


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        rows = tl.load(a + m[:, None] * K + (start + k)[None, :])
        total += tl.dot(rows, tl.load(b + (start + k)[:, None] * N + n[None, :]))
    tl.store(c + m[:, None] * N + n[None, :], total)


# ---- blocks smaller than a work-group: several waves load what one of them stores ----
@triton.jit
def in_place(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(x + i, v * 2 + tl.sum(v), mask=i < n)


@triton.jit
def reverse(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + n - 1 - i, mask=i < n), mask=i < n)


@triton.jit
def rotary(q, cosines, sines, B: tl.constexpr):
    i, at = tl.arange(0, B), q + tl.program_id(0) * 2 * B
    c, s = tl.load(cosines + i), tl.load(sines + i)
    a, b = tl.load(at + i), tl.load(at + B + i)
    tl.store(at + i, a * c - b * s)
    tl.store(at + B + i, b * c + a * s)


@triton.jit
def products(x, y, o, n, B: tl.constexpr):
    i, total = tl.arange(0, B), 0.0
    for row in range(4):
        a = tl.load(x + row * n + i, mask=i < n, other=0.0)
        total += tl.sum(a * tl.load(y + row * n + i, mask=i < n, other=0.0))
    tl.store(o, total)


@triton.jit
def guarded(x, o, lock, count, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        v += tl.load(o + i)
    tl.store(o + i, v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


# ---- races ----
@triton.jit
def reverse_of_waves(x, n, B: tl.constexpr):  # each wave stores what another one loads
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + n - 1 - i, mask=i < n), mask=i < n)


@triton.jit
def first_sums(x, parts, o, G: tl.constexpr, B: tl.constexpr):  # nothing orders the parts before their sum
    p = tl.program_id(0)
    tl.store(parts + p, tl.sum(tl.load(x + p * B + tl.arange(0, B))))
    if p == G - 1:
        tl.store(o, tl.sum(tl.load(parts + tl.arange(0, G))))


@triton.jit
def last_wins(o, n):
    tl.store(o, tl.program_id(0))


F, H, D, N = "*fp32", "*fp16", "*i32", "i32"
KERNELS = (
    (add, {"x": F, "y": F, "o": F, "n": N}, {"B": 1024}),
    (softmax, {"o": F, "x": F, "so": N, "sx": N, "n": N}, {"B": 1024}),
    (layernorm, {"x": F, "y": F, "w": F, "b": F, "stride": N, "n": N, "eps": "fp32"}, {"B": 1024}),
    (reductions, {"x": D, "o": D, "n": N}, {"B": 1024}),
    (float_sum, {"x": F, "o": F, "n": N}, {"B": 1024}),
    (histogram, {"x": D, "o": D, "n": N}, {"B": 256}),
    (lock, {"o": D, "n": N}, {"B": 64}),
    (scan, {"x": D, "o": D}, {"B": 512}),
    (sort, {"x": D, "o": D}, {"B": 256}),
    (gelu, {"x": H, "o": H, "n": N}, {"B": 1024}),
    (matrix_sums, {"x": F, "o": F}, {"M": 32, "N": 64}),
    (matmul, {"a": H, "b": H, "c": F, "M": N, "N": N, "K": N}, {"BM": 64, "BN": 64, "BK": 32}),
    (in_place, {"x": F, "n": N}, {"B": 64}),
    (reverse, {"x": F, "n": N}, {"B": 64}),
    (rotary, {"q": F, "cosines": F, "sines": F}, {"B": 32}),
    (products, {"x": F, "y": F, "o": F, "n": N}, {"B": 128}),
    (guarded, {"x": F, "o": F, "lock": D, "count": D}, {"B": 128}),
    (reverse_of_waves, {"x": F, "n": N}, {"B": 256}),
    (first_sums, {"x": F, "parts": F, "o": F}, {"G": 8, "B": 128}),
    (last_wins, {"o": D, "n": N}, {}),
)
PROCESSORS = ("gfx908", "gfx90a", "gfx942", "gfx950")


def main(folder: Path) -> None:
    shared = {}
    for processor in PROCESSORS:
        (folder / processor).mkdir(parents=True, exist_ok=True)
        for function, types, constants in KERNELS:
            signature = types | dict.fromkeys(constants, "constexpr")
            values = {(list(signature).index(name),): value for name, value in constants.items()}
            source = ASTSource(function, signature, constexprs=values)
            made = triton.compile(source, target=GPUTarget("hip", processor, 64), options={"num_warps": 4})
            name = f"{processor}/{function.__name__}"
            shared[name] = made.metadata.shared
            (folder / f"{name}.co").write_bytes(made.asm["hsaco"])
    (folder / "shared.json").write_text(json.dumps(shared, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
