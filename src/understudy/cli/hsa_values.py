"""Kernel arguments as they are typed: numbers, arrays, LDS."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.cli.exits import UsageError
from understudy.cli.files import read_file
from understudy.host.hsa.arguments import Local

TYPES: Final = {
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32,
    "i64": np.int64, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
SEED: Final = 2024
MAX_ARRAY_BYTES: Final = 8 << 30
"""Larger files of arrays are refused."""
_ARRAY: Final = re.compile(r"(zeros|range|random):(\w+):(\d+(?:x\d+)*)")
_TYPED: Final = re.compile(r"(\w+):(.+)")


@dataclass(frozen=True, slots=True)
class Typed:
    """What an option said: the value for the kernel, and the file that an array goes to afterwards."""

    value: Any
    save: Path | None = None


def parse(text: str) -> Typed:
    """One argument; `UsageError` for what is none."""
    body, _, file = text.partition("=")
    value = _value(body)
    if file and not isinstance(value, np.ndarray):
        raise UsageError(f"argument {text!r}: only arrays can be saved")
    return Typed(value, Path(file) if file else None)


def _value(text: str) -> Any:
    if text == "null":
        return None
    if text.startswith("@"):
        return _load(Path(text[1:]))
    if text.startswith("local:"):
        return Local(_int(text.removeprefix("local:"), text))
    if match := _ARRAY.fullmatch(text):
        return _MAKERS[match[1]](tuple(map(int, match[3].split("x"))), _dtype(match[2], text))
    if match := _TYPED.fullmatch(text):
        return _scalar(_dtype(match[1], text), match[2], text)
    try:
        return int(text, 0)
    except ValueError:
        return _float(text, text)


def _random(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    generator = np.random.default_rng(SEED)
    if dtype.kind == "f":
        return generator.random(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)


_MAKERS: Final[dict[str, Callable[[tuple[int, ...], np.dtype[Any]], Any]]] = {
    "zeros": lambda shape, dtype: np.zeros(shape, dtype),
    "range": lambda shape, dtype: np.arange(int(np.prod(shape))).astype(dtype).reshape(shape),
    "random": _random,
}


def _scalar(dtype: np.dtype[Any], number: str, text: str) -> Any:
    value = _float(number, text) if dtype.kind == "f" else _int(number, text)
    try:
        return dtype.type(value)
    except OverflowError:
        raise UsageError(f"argument {text!r}: {value} does not fit {dtype}") from None


def _dtype(name: str, text: str) -> np.dtype[Any]:
    if name not in TYPES:
        raise UsageError(f"argument {text!r}: no type {name!r}, expected one of {', '.join(TYPES)}")
    return np.dtype(TYPES[name])


def _int(number: str, text: str) -> int:
    try:
        return int(number, 0)
    except ValueError:
        raise UsageError(f"argument {text!r}: {number!r} is no whole number") from None


def _float(number: str, text: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise UsageError(f"argument {text!r} is no number, array, file or local:BYTES") from None


def _load(path: Path) -> Any:
    data = BytesIO(read_file(path, MAX_ARRAY_BYTES))
    try:
        return np.lib.format.read_array(data, allow_pickle=False)
    except Exception as error:  # noqa: BLE001  # NumPy's reader evaluates the header, and allocates what it tells of
        raise UsageError(f"{path} is no .npy file: {error}") from None
