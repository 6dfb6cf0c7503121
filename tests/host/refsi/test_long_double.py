"""long double (binary128) and 128-bit integers on harts, with every compiler, against Python's exact numbers."""

from __future__ import annotations

import struct
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from softcard.host.refsi.compile import compile_kernels
from softcard.host.refsi.refsi import RefSi

pytestmark = pytest.mark.oracle
NAMES = ("ziglang", "clang-16", "riscv64-unknown-elf-gcc")
KERNELS = """
#include <stdint.h>
typedef __int128 i128;
typedef unsigned __int128 u128;

void floats(uint64_t id, const long double *x, u128 *out, uint64_t n)
{
    for (; n; n--, x += 2) {
        long double a = x[0], b = x[1], r[4] = { a + b, a - b, a * b, a / b };
        for (int k = 0; k < 4; k++) {
            union { long double value; u128 bits; } q = { r[k] };
            *out++ = q.bits;
        }
        union { double value; uint64_t bits; } d = { a };
        union { float value; uint32_t bits; } f = { a };
        *out++ = d.bits, *out++ = f.bits;
        *out++ = (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a > b) << 4 | (a >= b) << 5;
    }
}

void integers(uint64_t id, const i128 *x, i128 *out, uint64_t n)
{
    for (; n; n--, x += 2) {
        i128 a = x[0], b = x[1];
        u128 c = a, d = b;
        *out++ = a * b, *out++ = a / b, *out++ = a % b, *out++ = c / d, *out++ = c % d;
        *out++ = c << (d & 127), *out++ = c >> (d & 127), *out++ = a >> (d & 127);
        union { long double value; i128 bits; } q = { a }, u = { c };
        *out++ = q.bits, *out++ = u.bits, *out++ = (i128)q.value - (i128)(long double)(int64_t)b;
        union { double value; uint64_t bits; } e = { a };
        *out++ = e.bits, *out++ = (i128)e.value;
        *out++ = __builtin_popcountll(c) | __builtin_ctzll(c | 1ull << 63) << 8 | __builtin_clzll(c | 1) << 16
                 | __builtin_parityll(c) << 24;
    }
}

void flags(uint64_t id, const long double *x, uint64_t *out)
{
    volatile long double r;
    for (int k = 0; k < 4; k++) {
        __asm__ volatile("fsflagsi 0");
        r = k == 0 ? x[0] / x[1] : k == 1 ? x[1] / x[1] : k == 2 ? x[2] * x[2] : x[0] / x[2];
        __asm__ volatile("frflags %0" : "=r"(out[k]) : : "memory");
    }
    __asm__ volatile("fsrmi 3");
    r = x[0] / x[3];
    union { long double value; uint64_t bits[2]; } q = { r };
    out[4] = q.bits[0];
    __asm__ volatile("fsrmi 0");
}
"""
MASK128 = (1 << 128) - 1
DOUBLE, SINGLE, QUAD = (52, 11), (23, 8), (112, 15)


def bits_of(value: Fraction, form: tuple[int, int], negative: bool = False) -> int:
    """A number rounded to the nearest even of a format, by exact arithmetic."""
    fraction, width = form
    bias, sign = (1 << width - 1) - 1, (value < 0 or negative) << fraction + width
    value = abs(value)
    if not value:
        return sign
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent = max(exponent - (value < Fraction(2) ** exponent), 1 - bias)
    mantissa = round(value / Fraction(2) ** (exponent - fraction))
    bits = mantissa + (exponent + bias - 1 << fraction)
    return sign | min(bits, ((1 << width) - 1) << fraction)


def value_of(bits: int) -> Fraction:
    exponent, fraction = bits >> 112 & 0x7FFF, bits & (1 << 112) - 1
    value = Fraction(fraction | (bool(exponent) << 112)) * Fraction(2) ** (max(exponent, 1) - 16383 - 112)
    return -value if bits >> 127 else value


def finite(random: Random) -> int:
    """The bits of a number, mostly near 1 so that sums meet, sometimes at an end."""
    exponent = random.choice(
        (random.randrange(1, 0x7FFF), random.randrange(0x3FFF - 70, 0x3FFF + 70), 0x3FFF, 0, 1, 0x7FFE)
    )
    fraction = random.choice((random.getrandbits(112), random.getrandbits(112), 0, MASK128 >> 16, 1, 1 << 111))
    return random.getrandbits(1) << 127 | exponent << 112 | fraction


def words(values: list[int]) -> np.ndarray:
    return np.frombuffer(b"".join((value & MASK128).to_bytes(16, "little") for value in values), np.uint64).copy()


def numbers(array: np.ndarray, size: int) -> list[list[int]]:
    data = array.tobytes()
    found = [int.from_bytes(data[at : at + 16], "little") for at in range(0, len(data), 16)]
    return [found[at : at + size] for at in range(0, len(found), size)]


@pytest.fixture(scope="module", params=NAMES)
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("wide") / "k.c"
    path.write_text(KERNELS)
    with RefSi.open() as device:
        device.load_elf(compile_kernels(path, compiler=request.param))
        yield device


def test_long_doubles(device: RefSi) -> None:
    random = Random(128)
    pairs = [(finite(random), finite(random)) for _ in range(300)]
    pairs = [(a, b) for a, b in pairs if b & MASK128 >> 1]
    out = np.zeros(14 * len(pairs), np.uint64)
    device.launch("floats", 1, [words([each for pair in pairs for each in pair]), out, len(pairs)])
    for (a, b), found in zip(pairs, numbers(out, 7), strict=True):
        x, y, differ = value_of(a), value_of(b), bool((a ^ b) >> 127)
        minus_zero = bool(a >> 127)
        assert found[:4] == [
            bits_of(x + y, QUAD, minus_zero and not differ and not x),
            bits_of(x - y, QUAD, minus_zero and differ and not x),
            bits_of(x * y, QUAD, differ),
            bits_of(x / y, QUAD, differ),
        ], (hex(a), hex(b))
        assert found[4:6] == [bits_of(x, DOUBLE, minus_zero), bits_of(x, SINGLE, minus_zero)]
        assert found[6] == (x < y) | (x <= y) << 1 | (x == y) << 2 | (x != y) << 3 | (x > y) << 4 | (x >= y) << 5


def signed(value: int, width: int = 128) -> int:
    value &= (1 << width) - 1
    return value - (value >> width - 1 << width)


def test_integers_of_128_bits(device: RefSi) -> None:
    random = Random(1)
    given = [(random.getrandbits(128) >> random.randrange(128), random.getrandbits(128) >> random.randrange(127) | 1)
             for _ in range(150)]  # fmt: skip
    given += [(random.getrandbits(128) | 1 << 127, random.getrandbits(128) | 1 << 127) for _ in range(20)]
    out = np.zeros(28 * len(given), np.uint64)
    device.launch("integers", 1, [words([each for pair in given for each in pair]), out, len(given)])
    for (c, d), found in zip(given, numbers(out, 14), strict=True):
        a, b, by = signed(c), signed(d), d & 127
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        low, near = c & (1 << 64) - 1, signed(d, 64)
        wide, double = value_of(bits_of(Fraction(a), QUAD)), Fraction(float(a))
        wanted = [a * b, quotient, a - quotient * b, c // d, c % d, c << by, c >> by, a >> by]
        wanted += [bits_of(Fraction(a), QUAD), bits_of(Fraction(c), QUAD), min(int(wide), (1 << 127) - 1) - near]
        wanted += [struct.unpack("<Q", struct.pack("<d", a))[0], min(int(double), (1 << 127) - 1)]
        ones, last = low.bit_count(), low | 1 << 63
        wanted.append(
            ones | (last & -last).bit_length() - 1 << 8 | 64 - (low | 1).bit_length() << 16 | (ones & 1) << 24
        )
        assert found == [each & MASK128 for each in wanted], (a, b)


def test_flags_and_rounding_modes(device: RefSi) -> None:
    three, zero, tiny, ten = 0x4000_8000 << 96, 0, 1 << 112, 0x4002_4000 << 96
    out = np.zeros(5, np.uint64)
    device.launch("flags", 1, [words([three, zero, tiny, ten]), out])
    # divide by zero; invalid; underflow and inexact; nothing, since 3 / 2^-16382 is not too large
    assert out.tolist()[:4] == [8, 16, 3, 0]
    assert int(out[4]) == 0x3333_3333_3333_3334  # 0.3 upwards
