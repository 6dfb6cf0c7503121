"""refsi_printf held to the host's C library (C11 7.21.6.1), and its long doubles to Python's exact decimals."""

from __future__ import annotations

import ctypes
import re
import struct
import tempfile
from decimal import Decimal, localcontext
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest

from softcard.host.refsi.compile import compile_kernels
from softcard.host.refsi.refsi import RefSi

pytestmark = pytest.mark.oracle
LIBC = ctypes.CDLL(None)
WORDS = 8
"""Words of arguments: variable arguments are words, whatever their types."""
KERNELS = r"""
#include <string.h>
#include <softcard_refsi.h>

void print(uint64_t id, const char *format, const uint64_t *w, uint64_t count)
{
    for (; count; count--, format += strlen(format) + 1, w += 8) {
        refsi_printf(format, w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]);
        refsi_print("\n");
    }
}

void rounding(uint64_t id, uint64_t mode)
{
    uint64_t flags;
    __asm__ volatile("fsrmi 1\n\tfsrm %0" : : "r"(mode));
    refsi_printf("%.0f %.0f %.1f %.2e %.1a %.0f %.0f", 0.5, -0.5, 0.25, -1.9999, 1.03125, 0.01, 2.5);
    __asm__ volatile("frflags %0" : "=r"(flags));
    refsi_printf(" %lu", flags);
}

void counts(uint64_t id, long *out)
{
    int n;
    signed char byte;
    short half;
    long word, maximum;
    out[0] = refsi_printf("%c%5d%hhn%n%hn%ln%jn|", 'x', -3, &byte, &n, &half, &word, &maximum);
    out[1] = byte, out[2] = n, out[3] = half, out[4] = word, out[5] = maximum;
    out[6] = refsi_printf("a%cb\n", 0);
    out[7] = refsi_printf("%ls|%.4ls|%-5lc|\n", L"h\u00e9 \u20ac", L"a\u00e9\u20ac", L'\u00e9');
    out[8] = refsi_printf("%ls\n", L"ab\xd800");
    out[9] = refsi_printf("%y %-5q|%d %", 7);
    out[10] = refsi_printf("\n%p %20p|%.3s|%300d", (void *)0x10000, (void *)0xabc, "abcdef", 1);
}
"""


@cache
def program(compiler: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k.c")
        path.write_text(KERNELS)
        return compile_kernels(path, compiler=compiler, options=["-Wno-format"])


def printed(cases: list[tuple[str, list[int]]], compiler: str = "") -> list[str]:
    """Return what harts print: each format with its words."""
    words = np.zeros((len(cases), WORDS), np.uint64)
    for row, (_, given) in zip(words, cases, strict=True):
        row[: len(given)] = [word & (1 << 64) - 1 for word in given]
    text = np.frombuffer(b"".join(shape.encode() + b"\0" for shape, _ in cases), np.uint8).copy()
    with RefSi.open() as device:
        device.load_elf(program(compiler))
        lines = device.launch("print", 1, [text, words, len(cases)]).console.decode().split("\n")
    assert lines.pop() == ""
    return lines


def bits_of(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def real(random: Random) -> float:
    """A double: of any bits, short, halfway between two decimals, tiny, or at an edge."""
    kind = random.randrange(6)
    if kind == 0:
        return float(struct.unpack("<d", random.randbytes(8))[0])
    if kind == 1:
        return random.choice([-1, 1]) * random.randrange(10**6) / 2 ** random.randrange(12)
    if kind == 2:
        return random.choice([9.5, 99.95, 0.9999996, 5.0, 1.0]) * 10.0 ** random.randrange(-12, 24)
    if kind == 3:
        return random.getrandbits(52) * 5e-324
    if kind == 4:
        return random.choice([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e23, 0.5, 1.5, 2.5])
    return random.choice([1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 1e-5, 9.9999995e-5, 123456.5])


LENGTHS = {"": 32, "hh": 32, "h": 32, "l": 64, "ll": 64, "j": 64, "z": 64, "t": 64}


def case(random: Random) -> tuple[str, list[int], str]:
    """A format of one conversion and an integer, its words, and what the C library makes of them."""
    kind = random.choice("diuoxXaAeEfFgGs")
    flags = {"s": "-", "d": "-+ 0", "i": "-+ 0", "u": "-0"}.get(kind, "-+ #0" if kind in "aAeEfFgG" else "-#0")
    shape = "a%" + "".join(random.choice(flags) for _ in range(random.randrange(4)))
    words: list[int] = []
    arguments: list[object] = []
    if random.randrange(4) == 0:
        # with libquadmath, which NumPy may bring, glibc forgets that a negative width undoes the flag 0
        words.append(random.randrange(0 if "0" in shape else -30, 30))
        shape += "*"
    elif random.randrange(2):
        shape += str(random.randrange(1, 50))
    if random.randrange(4) == 0:
        words.append(random.randrange(-3, 30))
        shape += ".*"
    elif random.randrange(2):
        shape += "." + random.choice(["", str(random.randrange(20)), str(random.randrange(200))])
    arguments += [ctypes.c_int(word) for word in words]
    if kind == "s":
        # at 0x10000 harts have their program: its ELF header is a string of 7 characters
        words.append(0x10000)
        arguments.append(ctypes.c_char_p(b"\x7fELF\x02\x01\x01"))
    elif kind in "aAeEfFgG":
        value = real(random)
        words.append(bits_of(value))
        arguments.append(ctypes.c_double(value))
    else:
        length = random.choice(list(LENGTHS))
        shape += length
        number = random.choice([0, random.getrandbits(64) >> random.randrange(64)])
        words.append(number)
        arguments.append(ctypes.c_int(number) if LENGTHS[length] == 32 else ctypes.c_uint64(number))
    shape += kind + "|%d"
    out = ctypes.create_string_buffer(2048)
    LIBC.snprintf(out, ctypes.c_size_t(2048), shape.encode(), *arguments, ctypes.c_int(7))
    return shape, [*words, 7], out.value.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "count"), [("ziglang", 2000), ("clang-16", 300), ("riscv64-unknown-elf-gcc", 300)]
)
def test_formats_as_the_c_library(compiler: str, count: int) -> None:
    random = Random(count)
    # glibc takes the zeros away from %#g where rounding gives one more digit before the point: 999999.7 as "1.E+06"
    cases = [each for each in (case(random) for _ in range(count)) if not re.search(r"\.[eE]\+\d+\s*\|", each[2])]
    found = printed([(shape, words) for shape, words, _ in cases], compiler)
    assert [(each[0], text) for each, text in zip(cases, found, strict=True) if text != each[2]] == []


def test_what_a_c_programmer_knows() -> None:
    shapes = ["%.0f", "%.3e", "%.17g", "%.3d", "%f", "%X", "%+d", "% d", "%#x", "%#o", "%E", "%G", "%a", "%#.0f", "%#G"]
    values = [3.5, 9.9996, 0.1, 7, 1e20, 0xBEEF, 5, 5, 255, 8, 1.5, 1e-10, -1.0, 2.0, 999999.7]
    words = [bits_of(value) if isinstance(value, float) else value for value in values]
    assert printed([(shape, [word]) for shape, word in zip(shapes, words, strict=True)]) == [
        "4", "1.000e+01", "0.10000000000000001", "007", "100000000000000000000.000000", "BEEF", "+5", " 5", "0xff",
        "010", "1.500000E+00", "1E-10", "-0x1p+0", "2.", "1.00000E+06",
    ]  # fmt: skip
    assert printed([("%*.*f|%hhd|%jd", [-9, 2, bits_of(2.345), 511, -(1 << 40)])]) == ["2.35     |-1|-1099511627776"]


def quadruple(value: int, exponent: int) -> tuple[list[int], Decimal]:
    """A binary128 of 113 bits, as two words and exactly."""
    bits = exponent + 16383 + 112 << 112 | value & (1 << 112) - 1
    with localcontext() as context:
        context.prec = 20000
        exact = Decimal(value) * (Decimal(2) ** exponent if exponent >= 0 else 1 / (Decimal(2) ** -exponent))
    return [bits & (1 << 64) - 1, bits >> 64], exact


def test_long_doubles_are_exact() -> None:
    random = Random(4)
    cases: list[tuple[str, list[int]]] = []
    wanted = []
    for exponent in (*(random.randrange(-300, 100) for _ in range(60)), 16271, -16494):
        words, exact = quadruple(random.getrandbits(112) | 1 << 112, exponent)
        digits = random.randrange(60)
        kind = "e" if abs(exponent) > 300 else random.choice("ef")
        # the two words of a long double begin at an even register: the format is in a0, the first word in a1
        cases.append((f"%d %.{digits}L{kind}", [1, *words]))
        with localcontext() as context:
            context.prec, context.Emax, context.Emin = 20000, 99999, -99999
            wanted.append("1 " + re.sub(r"([+-])(\d)$", r"\g<1>0\2", f"{exact:.{digits}{kind}}"))
    assert printed(cases) == wanted
    assert printed(
        [("%d %Lg %La", [1, 0, 0x3FFF << 48, 1, 0xC000 << 48]), ("%d %LF", [1, 0, 0xFFFF << 48]),
         ("%d %.3La|%Le", [1, 1, 0, 0, 0])]
    ) == ["1 1 -0x1.0000000000000000000000000001p+1", "1 -INF", "1 0x0.000p-16382|0.000000e+00"]  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (0, "0 -0 0.2 -2.00e+00 0x1.0p+0 0 2 0"),
        (1, "0 -0 0.2 -1.99e+00 0x1.0p+0 0 2 0"),
        (2, "0 -1 0.2 -2.00e+00 0x1.0p+0 0 2 0"),
        (3, "1 -0 0.3 -1.99e+00 0x1.1p+0 1 3 0"),
        (4, "1 -1 0.3 -2.00e+00 0x1.1p+0 0 3 0"),
    ],
)
def test_numbers_are_rounded_as_the_hart_rounds(mode: int, text: str) -> None:
    with RefSi.open() as device:
        device.load_elf(program(""))
        assert device.launch("rounding", 1, [mode]).console.decode() == text


def test_counts_and_what_is_no_conversion() -> None:
    out = np.zeros(11, np.int64)
    with RefSi.open() as device:
        device.load_elf(program(""))
        console = device.launch("counts", 1, [out]).console.decode()
    lines = console.split("\n")
    assert lines == [
        "x   -3|ab", "hé €|aé|é   |", "%y %-5q|7 %", "0x10000                0xabc|abc|" + " " * 299 + "1"
    ]  # fmt: skip
    assert out.tolist() == [7, 6, 6, 6, 6, 6, 4, 19, -1, 11, 334]
