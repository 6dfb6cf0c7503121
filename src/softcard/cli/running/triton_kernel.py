"""Kernels in the cache of Triton: the files beside a code object, which have the facts that it lacks.

NAME.json has the work-group size and the size of LDS; NAME.ttir, if it is there, has the names and types of arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

import numpy as np

from softcard.cli.exits import UsageError
from softcard.cli.files import MAX_CODE_BYTES, read_file
from softcard.cli.running.kernel_values import Lds
from softcard.core.display import count
from softcard.core.errors import SoftcardError, WireError
from softcard.host.triton.launcher import packer

_FUNCTION = re.compile(r"tt\.func public @[^(]*\((.*?)\)(?: ->| attributes| \{)", re.DOTALL)
_ARGUMENT = re.compile(r"%(?P<name>\w+): (?:!tt\.ptr<(?P<pointee>\w+)[^>]*>|(?P<type>\w+))")
_LOCATION = re.compile(r' loc\((?:"[^"]*"\([^)]*\)|[^()]*)\)')
_BITS = re.compile(r"\d+")
_FIRST_INFINITE: Final = {
    "f16": 2**16 - 2**4, "bf16": 2**128 - 2**119, "f32": 2**128 - 2**103, "f64": 2**1024 - 2**970
}  # fmt: skip
"""The smallest positive number that is rounded to infinity in a type."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a Triton kernel; `pointee` is the type of the elements that a pointer points to, or ""."""

    name: str
    type: str
    pointee: str

    def packed(self, value: Any) -> Any:
        """Return a value in the argument's type; raise `UsageError` for a value that does not fit it."""
        is_array = isinstance(value, np.ndarray) and value.shape != ()
        if self.pointee:
            bits = int((_BITS.search(self.pointee) or ["8"])[0])
            if is_array and value.itemsize not in (1, max(bits // 8, 1)):
                text = f"argument {self.name} is an array of {value.dtype}, expected elements of type {self.pointee}"
                raise UsageError(text)
            return value
        number = value.item() if isinstance(value, np.generic | np.ndarray) and not is_array else value
        if problem := _problem(number, self.type):
            raise UsageError(f"argument {self.name} is {problem}, expected a number of type {self.type}")
        named = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}.get(self.type, self.type)
        if self.type.startswith("i"):  # the type in the file has no sign
            number, named = int(number), named if number < 0 else f"u{named[1:]}"
        return packer(named)(number)


def _problem(value: Any, type_name: str) -> str:
    """Return the description of a value that is not a number of a Triton type; "" if it is one.

    An integer may be signed or unsigned. Infinities and NaN are floating-point numbers, too.
    """
    if isinstance(value, int | float):
        is_finite = -inf < value < inf
        if type_name.startswith("i"):
            bits = int((_BITS.search(type_name) or ["64"])[0])
            fits = is_finite and int(value) == value and -(1 << bits - 1) <= value < 1 << bits
        else:
            fits = not is_finite or abs(value) < _FIRST_INFINITE.get(type_name, inf)
        return "" if fits else f"{value:#x}" if isinstance(value, int) and value.bit_length() > 128 else f"{value}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if isinstance(value, tuple):
        return count(len(value), "number")
    return "null" if value is None else f"local:{value.size}" if isinstance(value, Lds) else f"{value!r:.40}"


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """The facts about a kernel in Triton's cache; `arguments` is empty if the file with its types is missing."""

    threads: int
    shared: int
    arguments: tuple[Argument, ...]

    def values(self, given: Sequence[Any], taken: int) -> list[Any]:
        """Return the kernel's `taken` arguments: the given values in their types, and null for Triton's scratch."""
        own = len(self.arguments) or len(given)
        if len(given) != own:
            names = ", ".join(each.name for each in self.arguments)
            raise UsageError(f"the kernel takes {count(own, 'argument')} ({names}), not {len(given)}")
        known = self.arguments or [None] * own
        found = [value if each is None else each.packed(value) for each, value in zip(known, given, strict=True)]
        return found + [None] * min(taken - own, 2)


def triton_kernel(path: Path) -> TritonKernel | None:
    """Return the facts in the files beside a code object of Triton's; None if there are none."""
    beside = path.with_suffix(".json")
    if path.suffix != ".hsaco" or not beside.is_file():
        return None
    try:
        document = json.loads(read_file(beside, MAX_CODE_BYTES))
        threads = int(document["num_warps"]) * int(document.get("warp_size", 64))
        shared = int(document["shared"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        text = "expected the metadata of a Triton kernel, with num_warps and shared"
        raise WireError(f"{text} ({type(error).__name__}: {error})").at("file", str(beside)) from None
    if threads < 1 or shared < 0:
        text = f"num_warps * warp_size is {threads} and shared is {shared}, expected 1 or more and 0 or more"
        raise WireError(text).at("file", str(beside))
    return TritonKernel(threads, shared, _arguments(path.with_suffix(".ttir")))


def _arguments(path: Path) -> tuple[Argument, ...]:
    """Return the arguments of the kernel in a file of Triton's IR; () if the file is missing or has other types."""
    try:
        text = read_file(path, MAX_CODE_BYTES).decode()
    except (SoftcardError, OSError, ValueError):
        return ()
    found = _FUNCTION.search(_LOCATION.sub("", text))
    if found is None:
        return ()
    inside = re.sub(r"\{[^}]*\}", "", found[1])
    arguments = [_ARGUMENT.fullmatch(f"%{each.strip().lstrip('%')}") for each in inside.split(", %")] if inside else []
    if any(each is None for each in arguments):
        return ()
    return tuple(
        Argument(each["name"], each["type"] or "", each["pointee"] or "") for each in arguments if each is not None
    )
