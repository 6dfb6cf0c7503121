"""What a caller gives a kernel, as the bytes that the kernarg segment holds.

With metadata every value is fitted to its argument: Python numbers become the type that the kernel was compiled with,
arrays become addresses, `Local` becomes an offset in LDS. Without metadata (mesa3d, and objects that were stripped of
it) values are laid out as C does, so their own types have to say how large they are.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np

from understudy.core.errors import BeyondModel, WireError
from understudy.core.words import align_up
from understudy.device.hsa.launch.kernarg import Hidden, Value, blank_kernarg, filled_kernarg, segment_bytes
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.image.hsa.code_object import Kernel
from understudy.image.hsa.metadata import Argument

LOCAL_ALIGNMENT: Final = 16
"""Of LDS that is given at launch, where metadata does not say more."""
POINTERS: Final = frozenset({"global_buffer", "pipe", "queue", "image", "sampler"})
"""Value kinds that are addresses."""
_SCALARS: Final = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8", "ulong": "u8",
    "half": "f2", "float": "f4", "double": "f8", "bool": "u1", "size_t": "u8",
}  # fmt: skip
_CODES: Final = {
    "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f4": "f", "f8": "d",
}  # fmt: skip
"""What `struct` calls the types whose numbers Python packs as NumPy does."""
KEPT_HIDDEN: Final = 16
"""Segments with hidden arguments that are kept of one kernel and its sizes."""
KEPT: Final = 256
"""Types of arguments that are kept."""
_TYPE: Final = re.compile(r"(\w+?)(2|3|4|8|16)?$")


@dataclass(frozen=True, slots=True)
class Local:
    """LDS of `size` bytes that an argument points to: dynamic group memory."""

    size: int


class Resource(Protocol):
    """What a kernel sees as an image or a sampler: `understudy.amdcl2` has both."""

    def place(self, type_name: str, level: int, allocate: Allocate) -> tuple[int, Callable[[], None] | None]:
        """Put it into memory; the address of its object, and what brings back what kernels wrote.

        `type_name` is that of the argument, `level` the generation. `WireError` for an argument of another kind.
        """


Allocate = Callable[[int], tuple[int, np.ndarray]]
"""Device memory of a number of bytes: its address, and the bytes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A resource as the value of an argument of a type."""

    resource: Resource
    type_name: str


Address = Callable[[np.ndarray | Placed], int]
"""Finds the device address of an array, or that of a resource's object."""


@dataclass(frozen=True, slots=True)
class Segments:
    """What arguments make of a launch: the kernarg segment, and the LDS of a work-group."""

    kernarg: bytes
    group_bytes: int


class Packer:
    """Makes segments for launches of a kernel over the sizes of `packet`; what they share is found once.

    `pointer_bytes` matters without metadata only.
    """

    def __init__(self, kernel: Kernel, packet: KernelDispatchPacket, pointer_bytes: int = 8) -> None:
        self._kernel = kernel
        self._packet = packet
        self._pointer_bytes = pointer_bytes
        self._group = kernel.group_bytes
        self._size = segment_bytes(kernel.metadata, kernel.kernarg_bytes)
        self._plain = tuple(_Plain.of(each) for each in kernel.metadata.explicit) if kernel.metadata else ()
        self._blank: dict[tuple[Hidden, int], bytes] = {}
        """By what hidden arguments say and dynamic LDS: segments in which the other arguments are 0."""

    def pack(self, values: Sequence[Any] | bytes, hidden: Hidden, address: Address, group_bytes: int = 0) -> Segments:
        """The segments for `values`: one for each argument that is not hidden, or the whole kernarg segment as bytes.

        `group_bytes` of LDS are added to the kernel's own. `WireError` with the argument where a value does not fit it.
        """
        if group_bytes < 0:
            raise WireError(f"group_bytes {group_bytes}, expected 0 or more")
        kernel, metadata = self._kernel, self._kernel.metadata
        own, size = self._group, self._size
        group = own + group_bytes
        if isinstance(values, bytes | bytearray | memoryview):
            if len(values) < kernel.kernarg_bytes:
                text = f"{len(values)} bytes of arguments, expected the {kernel.kernarg_bytes} of kernel {kernel.name}"
                raise WireError(f"{text}, hidden ones included")
            return Segments(bytes(values), group)
        if metadata is None:
            return Segments(_by_hand(values, address, self._pointer_bytes).ljust(size, b"\0"), group)
        explicit = metadata.explicit
        if len(values) != len(explicit):
            takes = ", ".join(each.name or each.type_name or each.kind for each in explicit) or "none"
            raise WireError(f"kernel {kernel.name} takes {len(explicit)} arguments ({takes}), not {len(values)}")
        fitted: list[Value] = []
        for number, (plain, value) in enumerate(zip(self._plain, values, strict=True)):
            try:
                raw = plain.pack(value, address)
                if raw is not None:
                    fitted.append(raw)
                    continue
                argument = plain.argument
                if argument.kind == "dynamic_shared_pointer":
                    group = align_up(group, max(argument.pointee_align, LOCAL_ALIGNMENT))
                    fitted.append(group)
                    group += _local(value)
                else:
                    fitted.append(_fitted(argument, value, address))
            except (WireError, BeyondModel) as error:
                raise error.at("argument", number, explicit[number].name or explicit[number].type_name) from None
        blank = self._blank.get((hidden, group - own))
        if blank is None:
            said = replace(hidden, dynamic_lds_size=group - own)
            blank = blank_kernarg(metadata, size, self._packet, said)
            if len(self._blank) == KEPT_HIDDEN:
                self._blank.clear()
            self._blank[hidden, group - own] = blank
        return Segments(filled_kernarg(metadata, blank, fitted), group)


@dataclass(frozen=True, slots=True, eq=False)
class _Plain:
    """How to pack the values of an argument that need no judgement: those of type `python`, and arrays for pointers."""

    argument: Argument
    python: type | None
    word: struct.Struct
    sizes: frozenset[int] | None
    """Bytes that elements of an array may have, all if there are none; None: it is no pointer."""

    @classmethod
    def of(cls, argument: Argument) -> _Plain:
        if argument.kind in POINTERS and argument.size in (4, 8):
            sizes = _item_sizes(argument.type_name)
            word = struct.Struct("<Q" if argument.size == 8 else "<I")
            return cls(argument, int, word, frozenset((1, *sizes)) if sizes else sizes)
        dtype, count = _type(argument.type_name, argument.size) if argument.kind == "by_value" else (None, 1)
        code = _CODES.get(dtype.str[1:]) if dtype is not None and count == 1 else None
        if code is None:
            return cls(argument, None, struct.Struct(""), None)
        return cls(argument, float if code in "fd" else int, struct.Struct(f"<{code}"), None)

    def pack(self, value: Any, address: Address) -> bytes | None:
        """The bytes; None for other values."""
        kind = type(value)
        try:
            if kind is self.python:
                return self.word.pack(value)
            if kind is np.ndarray and self.sizes is not None and (not self.sizes or value.itemsize in self.sizes):
                return self.word.pack(address(value))
        except (struct.error, OverflowError):
            pass
        return None


def _local(value: Any) -> int:
    if not isinstance(value, Local):
        raise WireError(f"{_what(value)}, expected Local(bytes): it points to group memory")
    if value.size < 0:
        raise WireError(f"Local of {value.size} bytes, expected 0 or more")
    return value.size


def _fitted(argument: Argument, value: Any, address: Address) -> Value:
    if isinstance(value, Local):
        raise WireError(f"Local for an argument of kind {argument.kind}, expected one that points to group memory")
    if argument.kind in ("image", "sampler") and hasattr(value, "place"):
        return address(Placed(value, argument.type_name))
    if argument.kind in POINTERS:
        if isinstance(value, np.ndarray):
            sizes = _item_sizes(argument.type_name)
            if sizes and value.dtype.itemsize not in (1, *sizes) and value.dtype.kind not in "VO":
                raise _misfit(argument, value, sizes)
        return address_of(value, address, argument.size)
    if argument.kind != "by_value":
        raise BeyondModel(f"arguments of kind {argument.kind} have no values here: give the kernarg segment as bytes")
    return _by_value(argument, value)


def _misfit(argument: Argument, array: np.ndarray, sizes: frozenset[int]) -> WireError:
    """The error of an array whose elements are of another size than what the pointer points to."""
    expected = " or ".join(map(str, sorted(sizes)))
    text = f"an array of {array.dtype} for {argument.type_name}, expected elements of {expected} bytes"
    return WireError(f"{text} (or of 1: array.view(np.uint8))")


@lru_cache(KEPT)
def _item_sizes(type_name: str) -> frozenset[int]:
    """Bytes that an element may have of what a pointer points to; none where its type does not say.

    Bytes may stand for anything, and so may structures; a vector may be one element or several.
    """
    match = _TYPE.match(type_name.removesuffix("*").rstrip())
    code = _SCALARS.get(match.group(1)) if match and type_name.endswith("*") else None
    if match is None or code is None or match.group(1) == "size_t":
        return frozenset()
    one, count = np.dtype(code).itemsize, int(match.group(2) or 1)
    return frozenset({one, one * (4 if count == 3 else count)})


def address_of(value: Any, address: Address, size: int) -> int:
    """The address that a pointer of `size` bytes gets; None is the null pointer."""
    if value is None:
        return 0
    place = address(value) if isinstance(value, np.ndarray) else getattr(value, "address", value)
    if isinstance(place, int | np.integer) and not isinstance(place, bool):
        if place < 0 or int(place).bit_length() > 8 * size:
            raise WireError(f"address {place:#x} does not fit {8 * size} bits")
        return int(place)
    raise WireError(f"{_what(value)}, expected an array or an address")


def _by_value(argument: Argument, value: Any) -> bytes:
    dtype, count = _type(argument.type_name, argument.size)
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
    elif dtype is None:
        raw = _untyped(argument, value)
    elif count == 1 and np.ndim(value) == 0:
        raw = _number(dtype, value)
    else:
        raw = b"".join(_number(dtype, each) for each in _elements(argument, value, count))
        raw = raw.ljust(argument.size, b"\0") if count == 3 else raw  # a vector of 3 takes the room of 4
    if len(raw) != argument.size:
        raise WireError(f"{len(raw)} bytes, expected {argument.size}")
    return raw


@lru_cache(KEPT)
def _type(type_name: str, size: int) -> tuple[np.dtype[Any] | None, int]:
    """Element type and number of elements that an argument's type name says; None where it is no OpenCL type."""
    match = _TYPE.match(type_name)
    code = _SCALARS.get(match.group(1)) if match else None
    if match is None or code is None:
        return None, 1
    dtype, count = np.dtype(f"<{code}"), int(match.group(2) or 1)
    fits = dtype.itemsize * (4 if count == 3 else count) == size
    return (dtype, count) if fits else (None, 1)


def _elements(argument: Argument, value: Any, count: int) -> list[Any]:
    elements = list(np.ravel(np.asarray(value)))
    if len(elements) != count:
        raise WireError(f"{len(elements)} elements for {argument.type_name}, expected {count}")
    return elements


def _number(dtype: np.dtype[Any], value: Any) -> bytes:
    """A number as the type that the kernel expects; `WireError` where it would be another number."""
    if not isinstance(value, int | float | np.number | np.bool_):
        raise WireError(f"{_what(value)}, expected a number")
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(value, dtype).tobytes()
    if value != value or value in (float("inf"), float("-inf")) or int(value) != value:
        raise WireError(f"{value} for {dtype.name}, expected a whole number")
    number, bits = int(value), dtype.itemsize * 8
    low = 0 if dtype.kind == "u" else -(1 << bits - 1)
    # -1 for an unsigned, and 0xffffffff for a signed argument are how C programs write bit patterns.
    if not min(low, -(1 << bits - 1)) <= number < 1 << bits:
        raise WireError(f"{number} does not fit {dtype.name}")
    return (number & (1 << bits) - 1).to_bytes(dtype.itemsize, "little")


def _untyped(argument: Argument, value: Any) -> bytes:
    """A structure, or a number whose type metadata does not name."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tobytes()
    if isinstance(value, float):
        if argument.size not in (2, 4, 8):
            raise WireError(f"a float for {argument.size} bytes, expected bytes")
        return np.array(value, f"<f{argument.size}").tobytes()
    if isinstance(value, int):
        if not -(1 << argument.size * 8) // 2 <= value < 1 << argument.size * 8:
            raise WireError(f"{value} does not fit {argument.size} bytes")
        return (value & (1 << argument.size * 8) - 1).to_bytes(argument.size, "little")
    raise WireError(f"{_what(value)}, expected bytes or a NumPy value of {argument.size} bytes")


def _by_hand(values: Sequence[Any], address: Address, pointer_bytes: int) -> bytes:
    """Values one behind the other, each at a multiple of its size, as C lays out a structure."""
    data = b""
    for number, value in enumerate(values):
        if isinstance(value, np.generic):
            raw, alignment = value.tobytes(), value.dtype.alignment
        elif isinstance(value, bytes):
            raw, alignment = value, 1
        elif isinstance(value, np.ndarray) or hasattr(value, "address") or value is None:
            alignment = pointer_bytes
            raw = address_of(value, address, alignment).to_bytes(alignment, "little")
        else:
            text = f"{_what(value)}, expected a NumPy value: without metadata nobody knows its size"
            raise WireError(text).at("argument", number)
        data = data.ljust(align_up(len(data), alignment), b"\0") + raw
    return data


def _what(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.40}"
