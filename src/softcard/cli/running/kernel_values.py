"""Kernel arguments on the command line (numbers, arrays, files, LDS), and the expected values of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from softcard.cli.exits import UsageError
from softcard.cli.files import read_file, write_file, writing
from softcard.core.errors import close_to

TYPES: Final = {
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32,
    "i64": np.int64, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
MOST_LDS_BYTES: Final = 65536
"""The maximum number of LDS bytes of a work-group."""
MAX_ARRAY_BYTES: Final = 8 << 30
"""The maximum number of bytes of an array, or of a file with an array."""
_ARRAY: Final = re.compile(r"(\w+):(?:(\d+(?:x\d+)*)(?::(.+))?|(@.+))")
_TYPED: Final = re.compile(r"(\w+)=(.+)")


@dataclass(frozen=True, slots=True)
class Lds:
    """An argument that points to `size` bytes of LDS."""

    size: int


def parse(text: str, seed: int, number: int) -> Any:
    """Parse a kernel argument: a number, a tuple of numbers, an array, `Lds` or None.

    `seed` and the argument's `number` determine the content of random arrays. Raise `UsageError` if the text is
    invalid.
    """
    if text == "null":
        return None
    if text.startswith("@"):
        return load(Path(text[1:]))
    if text.startswith("local:"):
        size = _int(text.removeprefix("local:"), text)
        if not 0 <= size <= MOST_LDS_BYTES:
            raise UsageError(f"argument {text!r}: the size of LDS must be 0 to {MOST_LDS_BYTES} bytes")
        return Lds(size)
    if match := _ARRAY.fullmatch(text):
        return _array(_dtype(match[1], text), match[2], match[3] or match[4] or "zeros", text, (seed, number))
    if match := _TYPED.fullmatch(text):
        dtype = _dtype(match[1], text)
        values = tuple(_scalar(dtype, part, text) for part in match[2].split(","))
        return values if len(values) > 1 else values[0]
    try:
        return int(text, 0)
    except ValueError:
        return _float(text, text)


def _array(dtype: np.dtype[Any], size: str | None, content: str, text: str, seed: tuple[int, int]) -> Any:
    shape = tuple(map(int, size.split("x"))) if size else None
    if shape is not None and int(np.prod(shape, dtype=object)) * dtype.itemsize > MAX_ARRAY_BYTES:
        raise UsageError(f"argument {text!r}: the array would have more than {MAX_ARRAY_BYTES} bytes")
    if content.startswith("@"):
        found = load(Path(content[1:]), dtype)
        if shape is None:
            return found
        if found.size != np.prod(shape):
            raise UsageError(f"argument {text!r}: the file has {found.size} elements, expected {size}")
        return found.reshape(shape)
    assert shape is not None
    if content in _MAKERS:
        with np.errstate(over="ignore"):  # a number too large for half precision becomes infinite
            return _MAKERS[content](shape, dtype, np.random.default_rng(seed))
    if content.isidentifier() and content.lower() not in ("inf", "infinity", "nan"):
        known = f"numbers, @FILE, {', '.join(_MAKERS)}{close_to(content, _MAKERS)}"
        raise UsageError(f"argument {text!r} has the unknown content {content!r}, expected {known}")
    values = [_scalar(dtype, part, text) for part in content.split(",")]
    count = int(np.prod(shape))
    if len(values) not in (1, count):
        raise UsageError(f"argument {text!r} has {len(values)} values, expected 1 or {count}")
    return np.array(values * (count if len(values) == 1 else 1), dtype).reshape(shape)


def _random(shape: tuple[int, ...], dtype: np.dtype[Any], generator: np.random.Generator) -> Any:
    if dtype.kind == "f":
        return generator.random(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)


_MAKERS: Final[dict[str, Callable[[tuple[int, ...], np.dtype[Any], np.random.Generator], Any]]] = {
    "zeros": lambda shape, dtype, _: np.zeros(shape, dtype),
    "ones": lambda shape, dtype, _: np.ones(shape, dtype),
    "range": lambda shape, dtype, _: np.arange(int(np.prod(shape))).astype(dtype).reshape(shape),
    "random": _random,
}


def _scalar(dtype: np.dtype[Any], number: str, text: str) -> Any:
    value = _float(number, text) if dtype.kind == "f" else _int(number, text)
    try:
        with np.errstate(over="raise"):
            return dtype.type(value)
    except (OverflowError, FloatingPointError):
        raise UsageError(f"argument {text!r}: {value} does not fit {dtype}") from None


def _dtype(name: str, text: str) -> np.dtype[Any]:
    if name not in TYPES:
        known = f"{', '.join(TYPES)}{close_to(name, TYPES)}"
        raise UsageError(f"argument {text!r} has the unknown type {name!r}, expected one of {known}")
    return np.dtype(TYPES[name])


def _int(number: str, text: str) -> int:
    try:
        return int(number, 0)
    except ValueError:
        raise UsageError(f"argument {text!r}: {number!r} is not an integer") from None


def _float(number: str, text: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise UsageError(
            f"argument {text!r} is not a value, expected a number, array (f32:1024:random), file (@FILE) or local:BYTES"
        ) from None


# ---- files ---------------------------------------------------------------------------------------------------------


def load(path: Path, dtype: np.dtype[Any] | None = None) -> Any:
    """Return the array in a .npy file, or the bytes of any other file as elements of `dtype` (by default uint8)."""
    data = read_file(path, MAX_ARRAY_BYTES)
    if path.suffix not in (".npy", ".npz"):
        kind = dtype or np.dtype(np.uint8)
        if len(data) % kind.itemsize:
            raise UsageError(f"{path} has {len(data)} bytes, expected a multiple of {kind.itemsize} ({kind})")
        return np.frombuffer(data, kind).copy()
    try:
        found = np.lib.format.read_array(BytesIO(data), allow_pickle=False)
    except Exception as error:  # noqa: BLE001  # NumPy evaluates the header, and allocates the array
        raise UsageError(f"{path} cannot be read as a .npy file: {error}") from None
    return found if dtype is None else found.astype(dtype)


def save(path: Path, array: Any) -> None:
    """Write `array` to a .npy file; for another file name suffix, write only its bytes."""
    if path.suffix == ".npy":
        with writing(path), path.open("wb") as file:
            np.save(file, array)
    else:
        write_file(path, np.ascontiguousarray(array).tobytes())


def numbered(text: str, count: int, option: str) -> tuple[int, str]:
    """Return N and REST of ``N=REST``, the value of `option`.

    Raise `UsageError` unless N is the number of one of `count` arguments.
    """
    number, equals, rest = text.partition("=")
    if not equals or not number.isdecimal() or not rest:
        raise UsageError(f"{option} {text!r}: expected NUMBER=VALUE with the number of an argument, like 2=out.npy")
    if int(number) >= count:
        raise UsageError(f"{option} {text!r}: expected an argument below {count}, the number of the kernel's arguments")
    return int(number), rest


def expected(text: str, array: Any) -> Any:
    """Return the expected content of `array`: numbers (one for all elements, or one for each), or a file's array."""
    try:
        values = [_scalar(array.dtype, part, text) for part in text.split(",")]
    except UsageError:
        found = load(Path(text.removeprefix("@")), array.dtype if not text.endswith(".npy") else None)
        if found.size != array.size:
            raise UsageError(f"{text} has {found.size} elements, but the array has {array.size}") from None
        return found.reshape(array.shape)
    if len(values) not in (1, array.size):
        raise UsageError(f"{len(values)} values are given, but the array has {array.size} elements")
    return np.array(values * (array.size if len(values) == 1 else 1), array.dtype).reshape(array.shape)


def difference(found: Any, wanted: Any, tolerance: float) -> str:
    """Return a text with the first element that differs and the number of differing elements; "" if none differs.

    `tolerance` is the relative and the absolute tolerance. NaNs are equal to each other.
    """
    if tolerance or found.dtype != wanted.dtype:
        same = np.isclose(found.astype(np.float64), wanted.astype(np.float64), tolerance, tolerance, equal_nan=True)
    else:
        same = found == wanted
        if found.dtype.kind == "f":
            same |= np.isnan(found) & np.isnan(wanted)
    wrong = np.flatnonzero(~same.reshape(-1))
    if not wrong.size:
        return ""
    at = int(wrong[0])
    first = f"element {at} is {found.reshape(-1)[at]}, expected {wanted.reshape(-1)[at]}"
    return f"{first}; {wrong.size} of {found.size} elements differ"
