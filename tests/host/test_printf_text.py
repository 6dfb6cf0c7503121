"""Formatted output of kernels: as in the C library, vectors as in OpenCL C, and for any content of a buffer."""

from __future__ import annotations

import ctypes
import struct

import pytest

from softcard.host.printf import formatted, text_of
from softcard.image.printf_format import PrintfFormat, read_formats

LIBC = ctypes.CDLL(None)
INTEGERS = [
    "%d",
    "%5d|",
    "%-5d|",
    "%+d",
    "% d",
    "%05d",
    "%.4d",
    "%8.3d",
    "%u",
    "%x",
    "%#X",
    "%o",
    "%#o",
    "%i",
    "%hhd",
    "%hu",
    "%08.3d",
    "%.0d|",
    "%#.0o",
    "%#010x",
    "%+.2i",
]
REALS = ["%f", "%.0f", "%e", "%+.3E", "%g", "%#g", "%010.2f", "%-12.4f|", "%a", "%.3a", "%A", "%20a|", "%.0a",
         "%+a", "%#.0a", "%020a", "% A", "%06f", "%-+6.1f|"]  # fmt: skip


def c_text(shape: str, value: object) -> str:
    out = ctypes.create_string_buffer(256)
    LIBC.snprintf(out, ctypes.c_size_t(256), shape.encode(), value)
    return out.value.decode()


@pytest.mark.parametrize("shape", INTEGERS)
def test_integers_as_the_c_library(shape: str) -> None:
    for value in (0, 7, -3, 2**31 - 1, -(2**31), 65537):
        raw = struct.pack("<i", value)
        assert formatted(shape, [raw]) == c_text(shape, ctypes.c_int(value))


@pytest.mark.parametrize("shape", REALS)
def test_reals_as_the_c_library(shape: str) -> None:
    for value in (0.0, 1.5, -2.25, 1e10, 3.1415926535, -1e-7, 5e-324, float("-inf"), float("nan")):
        assert formatted(shape, [struct.pack("<d", value)]) == c_text(shape, ctypes.c_double(value))


def test_a_precision_counts_bytes_of_a_string() -> None:
    assert formatted("%.2s|%.3s", ["aé".encode(), "aé".encode()]) == "a\ufffd|aé"


def test_what_c_does_not_have() -> None:
    assert formatted("%v4hlf %v3hhd", [struct.pack("<4f", 1, 2, 3, 4), struct.pack("<4b", -1, 2, 3, 9)]) == (
        "1.000000,2.000000,3.000000,4.000000 -1,2,3"
    )
    assert formatted("%5.2v2lf|%v2d", [struct.pack("<2d", 1.25, -2), struct.pack("<2i", 1, 2)]) == " 1.25,-2.00|1,2"
    assert formatted("%s|%-4s|%c%%", [b"abc\0", b"x\0\0\0", struct.pack("<i", 65)]) == "abc|x   |A%"
    assert formatted("%*d|%-*.*f|", [struct.pack("<i", each) for each in (4, 7)] + [
        struct.pack("<i", 6), struct.pack("<i", 1), struct.pack("<f", 2.5)]) == "   7|2.5   |"  # fmt: skip
    assert formatted("%f %f", [struct.pack("<e", 0.5), struct.pack("<f", float("inf"))]) == "0.500000 inf"
    assert formatted("%ld %p", [struct.pack("<q", -(1 << 40)), struct.pack("<Q", 0xABC)]) == "-1099511627776 0xabc"


def test_formats_and_records_that_are_odd() -> None:
    assert formatted("%d %y %99999d %", [struct.pack("<i", 1)]) == "1 %y %99999d %"
    assert formatted("%99999d", [b"abcd"]) == "%99999d"
    lines = ["1:2:4:8:%d\\72%s\\n", "x", "2:0:", "3:9:4:too few", "4:1:z:%d", "5:1:4294967295:%d"]
    found = read_formats(lines)
    assert found == {1: PrintfFormat((4, 8), "%d:%s\n"), 2: PrintfFormat((), ""), 5: PrintfFormat((4294967295,), "%d")}
    one = struct.pack("<Ii8s", 1, -5, b"tiger")
    assert text_of(one + one[:8], found) == "-5:tiger\n-5:\n"
    assert text_of(one + b"\x09\0\0\0abc", found, "!") == "-5:tiger\n!<printf: no format 9>\n"
    assert text_of(b"\5\0\0\0ab", found) == "25185"


def test_strings_without_their_end() -> None:
    """Without the final 0 of strings of 4, 8, ... characters, as many bytes follow the last argument."""
    found = read_formats(["1:3:8:4:8:%s %d %s", "2:2:8:4:%s %d"], short_strings=True)
    long, short = struct.pack("<I8si8s", 1, b"tiger", -5, b"rabbit"), struct.pack("<I4si4s8x", 1, b"lion", 3, b"bear")
    assert text_of(long * 2, found, "|") == "tiger -5 rabbit|tiger -5 rabbit|"
    assert text_of(short, found) == "lion 3 bear"
    assert text_of(struct.pack("<I4si8s4x", 1, b"lion", 0, b"rabbit"), found) == "lion 0 rabbit"
    assert text_of(short, read_formats(["1:3:8:4:8:%s %d %s"])) == "lion\x03 1918985570 "
    # 62 and 63 are characters, but no string is another one each time.
    two = [struct.pack("<I4si4x", 2, b"lion", number) for number in (62, 63)]
    assert text_of(b"".join(two), found, "|") == "lion 62|lion 63|"
    assert text_of(struct.pack("<I8si", 2, b"tiger", 0), found) == "tiger 0"


def test_arguments_without_a_conversion_are_not_in_records() -> None:
    """LLVM counts them in the metadata, but leaves out their sizes and their values."""
    found = read_formats(["1:1:\\n", "2:2:4:x %d\\n", "3:3:4:4:%*d"])
    assert text_of(struct.pack("<IIiIii", 1, 2, 7, 3, 4, 5), found) == "\nx 7\n   5"


def test_elements_of_short_vectors_are_widened() -> None:
    """LLVM stores a uchar2 as two words."""
    assert (
        formatted("%#v2hhx %v3hd", [struct.pack("<2i", 0xFA, 0xFB), struct.pack("<4h", 1, -2, 3, 9)])
        == "0xfa,0xfb 1,-2,3"
    )
