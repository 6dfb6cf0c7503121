"""Models of control.cl and programs.cl."""

import math
import zlib

import numpy as np

from tests.gcn_kernels.bench import In, Out, case
from tests.gcn_kernels.cases_float import SINGLE, reals
from tests.gcn_kernels.cases_integer import N, each, ints, quotient, remainder, rows, u32


@case("control.cl", N)
def control_collatz(rng):
    def steps(x: int) -> int:
        c = 0
        while x != 1:
            x = 3 * x + 1 if x & 1 else x >> 1
            c += 1
        return c

    return (Out(rows([steps(i + 1) for i in range(N)], dtype=np.uint32)),)


@case("control.cl", N)
def control_gcd(rng):
    a, b = ints(rng).view(np.uint32), ints(rng).view(np.uint32)
    return In(a), In(b), Out(rows(each(math.gcd, a, b), dtype=np.uint32))


@case("control.cl", N)
def control_early(rng):
    def model(a: int, old: int) -> int:
        if a < 0:
            return old
        if a & 1:
            return -1
        s = 0
        for k in range(20):
            if k == a & 15:
                continue
            if s > 60:
                break
            s += k
        return s

    a, old = ints(rng), ints(rng)
    return In(a), Out(rows(each(model, a, old)), initial=old)


@case("control.cl", N)
def control_switch(rng):
    def model(x: int) -> int:
        arms = {
            0: x + 1, 1: x * 3, 2: x ^ 0x55, 3: -x, 4: x << 3, 5: x >> 2, 6: x & 0xFF, 7: x - 9, 8: x - 9,
            9: quotient(x, 3), 10: remainder(x, 11), 11: x * x, 12: ~x, 13: x + 13, 14: 14, 15: x * 15, 16: x ^ x >> 16,
            17: 17 if x > 1000 else 71, 18: x - 18, 19: x * 19 + 19, 20: x & x - 1, 21: x & -x, 22: x | x - 1,
            23: u32(x) >> 23, 25: 25 - x, 27: x + x,
        }  # fmt: skip
        return arms.get(x & 31, x + 100000)

    a = ints(rng)
    a[-64:] = (a[-64:] & ~31) | np.arange(64) % 32
    return In(a), Out(rows(each(model, a)))


@case("control.cl", 64)
def control_machine(rng):
    length = 24
    ops = rng.integers(0, 8, length)
    args = rng.integers(0, length, length)
    program = (ops | args << 3).astype(np.uint32)

    def model(i: int) -> int:
        acc, reg, pc, steps = i, 1, 0, 0
        while pc < length and steps < 64:
            op, arg = int(program[pc]) & 7, int(program[pc]) >> 3
            steps += 1
            pc += 1
            if op == 0:
                acc += arg
            elif op == 1:
                acc ^= arg
            elif op == 2:
                reg = acc
            elif op == 3:
                acc = acc * 3 + reg
            elif op == 4:
                pc = arg if acc & 1 else pc
            elif op == 5:
                pc += 0 if acc & 2 else arg
            elif op == 6:
                acc >>= 1
            else:
                acc -= reg
            acc = u32(acc)
        return acc * 64 + steps

    return In(program), Out(rows([model(i) for i in range(64)], dtype=np.uint32)), np.uint32(length)


@case("control.cl", (64, 2), (64, 1))
def control_mandelbrot(rng):
    step = SINGLE(0.045)
    out = np.zeros((2, 64), np.int32)
    for y in range(2):
        for x in range(64):
            cr, ci = SINGLE(x) * step - SINGLE(2), SINGLE(y) * step - SINGLE(1)
            r = j = SINGLE(0)
            k = 0
            while k < 24 and r * r + j * j <= SINGLE(4):
                r, j = r * r - j * j + cr, SINGLE(2) * r * j + ci
                k += 1
            out[y, x] = k
    return Out(out), np.uint32(64), step


@case("control.cl", N)
def control_search(rng):
    table = np.unique(rng.integers(0, 300, 150)).astype(np.int32)
    keys = rng.integers(-10, 310, N).astype(np.int32)
    where = {int(value): index for index, value in enumerate(table)}
    return In(table), In(keys), Out(rows([where.get(int(k), -1) for k in keys])), np.uint32(len(table))


@case("control.cl", 128, 128)
def control_bitonic(rng):
    a = ints(rng, 128).view(np.uint32)
    return In(a), Out(np.sort(a))


@case("programs.cl", N)
def program_saxpy(rng):
    x, y = reals(rng, SINGLE), reals(rng, SINGLE)
    return In(x), Out(SINGLE(2.5) * x + y, initial=y), SINGLE(2.5)


@case("programs.cl", (16, 16), (16, 16))
def program_matmul(rng):
    a, b = (rng.integers(-30, 30, (16, 16)).astype(SINGLE) for _ in range(2))
    return In(a), In(b), Out(a @ b), np.uint32(16)


@case("programs.cl", N)
def program_stencil(rng):
    a = reals(rng, SINGLE)
    padded = np.concatenate([[SINGLE(0)], a, [SINGLE(0)]]).astype(SINGLE)
    out = SINGLE(0.25) * padded[:-2] + SINGLE(0.5) * a + SINGLE(0.25) * padded[2:]
    return In(a), Out(out), np.uint32(N)


@case("programs.cl", 64)
def program_crc32(rng):
    data = rng.integers(0, 256, (64, 5)).astype(np.uint8)
    return In(data), Out(rows([zlib.crc32(row.tobytes()) for row in data], dtype=np.uint32)), np.uint32(5)


@case("programs.cl", 64)
def program_fft(rng):
    a = rng.uniform(-1, 1, (64, 2)).astype(SINGLE)
    angles = -2 * np.pi * np.arange(32) / 64
    roots = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(SINGLE)
    spectrum = np.fft.fft(a[:, 0].astype(np.float64) + 1j * a[:, 1])
    out = np.stack([spectrum.real, spectrum.imag], axis=1).astype(SINGLE)
    return In(a), Out(out, absolute=1e-4), In(roots)


@case("programs.cl", 64)
def program_nbody(rng):
    count = 12
    bodies = rng.uniform(-2, 2, (64, 4)).astype(SINGLE)
    wide = bodies.astype(np.float64)
    delta = wide[None, :count, :3] - wide[:, None, :3]
    force = wide[None, :count, 3] / ((delta**2).sum(axis=2) + 0.5) ** 2
    out = np.zeros((64, 4), SINGLE)
    out[:, :3] = (delta * force[:, :, None]).sum(axis=1)
    return In(bodies), Out(out, absolute=2e-4), np.uint32(count)


@case("programs.cl", 128)
def program_histogram(rng):
    a = rng.integers(0, 256, (128, 6)).astype(np.uint8)
    out = np.concatenate([np.bincount(part.reshape(-1) >> 4, minlength=16) for part in a.reshape(2, 64 * 6)])
    return In(a), Out(out.astype(np.uint32)), np.uint32(6)
