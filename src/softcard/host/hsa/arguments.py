"""Conversion of the arguments that a caller passes to a kernel into the bytes of the kernarg segment.

If the code object has metadata, every value is converted to the type of its argument: Python numbers become
numbers of that type, arrays become addresses, and `Local` becomes an offset in LDS. Code objects for mesa3d
and stripped code objects lack metadata. For these, the values are laid out like the members of a C struct,
and the Python or NumPy type of a value determines its size."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from softcard.core.display import count
from softcard.core.errors import BeyondModel, WireError
from softcard.core.words import align_up
from softcard.device.hsa.launch.kernarg import Hidden, Value, blank_kernarg, filled_kernarg, segment_bytes
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.image.hsa.code_object import Kernel
from softcard.image.hsa.metadata import Argument, KernelMetadata

LOCAL_ALIGNMENT: Final = 16
"""The alignment in bytes of LDS that is allocated at launch, unless metadata requires more."""
POINTERS: Final = frozenset({"global_buffer", "pipe", "queue", "image", "sampler"})
"""The value kinds of arguments that are addresses."""
_SCALARS: Final = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8", "ulong": "u8",
    "half": "f2", "float": "f4", "double": "f8", "bool": "u1", "size_t": "u8",
}  # fmt: skip
_CODES: Final = {
    "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f4": "f", "f8": "d",
}  # fmt: skip
"""The `struct` codes of the types whose numbers `struct` packs as NumPy does."""
MOST_BLANK_SEGMENTS: Final = 16
"""The largest number of kernarg segments with only hidden arguments that are cached for a kernel and launch sizes."""
MOST_TYPES: Final = 256
"""The largest number of argument types that are cached."""
_TYPE: Final = re.compile(r"(\w+?)(2|3|4|8|16)?$")


@dataclass(frozen=True, slots=True)
class Local:
    """The value of an argument that points to `size` bytes of LDS (dynamic group memory).

    They are allocated for each work-group at launch.
    """

    size: int


class Addressed(Protocol):
    """An object with a device address, such as a queue or a signal."""

    @property
    def address(self) -> int:
        """The device address."""


class Resource(Protocol):
    """The interface of an image or sampler as a kernel argument, implemented in `softcard.amdcl2`."""

    def place(self, type_name: str, level: int, allocate: Allocate) -> tuple[int, Callable[[], None] | None]:
        """Copy the image or sampler into device memory; return the address of its object, and a copy-back function.

        That function copies the texels that kernels wrote back to the host; it is None if copying back is not needed.
        `type_name` is the argument's type, and `level` the GCN generation. Raise `WireError` if the argument is of
        another kind.
        """


Pointer: TypeAlias = int | np.integer | NDArray[np.generic] | Addressed | None
"""A value for a pointer argument: an address, an array, an object with an address, or None for the null pointer."""
Given: TypeAlias = (
    Pointer | float | np.generic | bytes | bytearray | memoryview | Sequence[float | np.generic] | Local | Resource
)
"""A value for an argument of a kernel: see `Packer`."""
Allocate = Callable[[int], tuple[int, NDArray[np.uint8]]]
"""A function that allocates a number of bytes of device memory, and returns its address and the bytes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An image or sampler that a caller passes for a kernel argument of the OpenCL type `type_name`."""

    resource: Resource
    type_name: str


Address = Callable[[NDArray[np.generic] | Placed], int]
"""A function that returns the device address of an array, or of an image's or sampler's object."""


@dataclass(frozen=True, slots=True)
class Segments:
    """The parts of a launch that depend on its arguments: the kernarg segment, and the LDS bytes of a work-group."""

    kernarg: bytes
    group_bytes: int


@dataclass(slots=True)
class Packed:
    """The first bytes of a kernel's kernarg segment, which contain all explicit arguments; see `layout_of`."""

    data: bytes


def layout_of(kernel: KernelMetadata, codes: Sequence[str]) -> struct.Struct | None:
    """Return the layout of a kernel's explicit arguments, with a code of the module `struct` for each of them.

    Return None unless each code has the size of its argument, and the hidden arguments follow the explicit ones.
    """
    text, end = "<", 0
    if len(codes) != len(kernel.explicit):
        return None
    for argument, code in zip(kernel.explicit, codes, strict=True):
        if argument.offset < end or argument.kind not in (*POINTERS, "by_value"):
            return None
        if struct.calcsize(f"<{code}") != argument.size:
            return None
        text += f"{argument.offset - end}x{code}"
        end = argument.offset + argument.size
    return struct.Struct(text) if all(each.offset >= end for each in kernel.hidden) else None


class Packer:
    """A packer of kernarg segments for launches of one kernel over the sizes in `packet`.

    Results that are equal in all these launches are computed once. `pointer_bytes` is the size of pointers for
    code objects without metadata."""

    def __init__(self, kernel: Kernel, packet: KernelDispatchPacket, pointer_bytes: int = 8) -> None:
        self._kernel = kernel
        self._packet = packet
        self._pointer_bytes = pointer_bytes
        self._group = kernel.group_bytes
        self._size = segment_bytes(kernel.metadata, kernel.kernarg_bytes)
        self._plain = tuple(_Plain.of(each) for each in kernel.metadata.explicit) if kernel.metadata else ()
        self._blank: dict[tuple[Hidden, int], bytes] = {}
        """Cached kernarg segments whose explicit arguments are 0, by hidden arguments and size of dynamic LDS."""

    def pack(
        self, values: Sequence[Given] | bytes | Packed, hidden: Hidden, address: Address, group_bytes: int = 0
    ) -> Segments:
        """Return the segments of a launch with the arguments `values`.

        `values` contains one value for each explicit argument, or is the whole kernarg segment as bytes, or is the part
        of it with all explicit arguments (`Packed`). `hidden`
        contains the values of hidden arguments. `address` returns the device address of an array or image.
        `group_bytes` of LDS are added to the kernel's static LDS. Raise a `WireError` that names the argument if a
        value does not fit it."""
        if group_bytes < 0:
            raise WireError(f"group_bytes is {group_bytes}, expected 0 or more")
        kernel, metadata = self._kernel, self._kernel.metadata
        own, size = self._group, self._size
        group = own + group_bytes
        if isinstance(values, Packed):
            return Segments(values.data + self._blank_of(hidden, group_bytes)[len(values.data) :], group)
        if isinstance(values, bytes | bytearray | memoryview):
            if len(values) < kernel.kernarg_bytes:
                text = f"the arguments have {len(values)} bytes, but kernel {kernel.name} needs {kernel.kernarg_bytes}"
                raise WireError(f"{text}, hidden arguments included")
            return Segments(bytes(values), group)
        if metadata is None:
            return Segments(_by_hand(values, address, self._pointer_bytes).ljust(size, b"\0"), group)
        explicit = metadata.explicit
        if len(values) != len(explicit):
            takes = ", ".join(each.name or each.type_name or each.kind for each in explicit) or "none"
            raise WireError(
                f"kernel {kernel.name} takes {count(len(explicit), 'argument')} ({takes}), not {len(values)}"
            )
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
        blank = self._blank.get((hidden, group - own)) or self._blank_of(hidden, group - own)
        return Segments(filled_kernarg(metadata, blank, fitted), group)

    def _blank_of(self, hidden: Hidden, dynamic_bytes: int) -> bytes:
        """Return the kernarg segment whose explicit arguments are 0, for launches with `dynamic_bytes` more of LDS."""
        found = self._blank.get((hidden, dynamic_bytes))
        if found is None:
            assert self._kernel.metadata is not None
            said = replace(hidden, dynamic_lds_size=dynamic_bytes)
            found = blank_kernarg(self._kernel.metadata, self._size, self._packet, said)
            if len(self._blank) == MOST_BLANK_SEGMENTS:
                self._blank.clear()
            self._blank[hidden, dynamic_bytes] = found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Plain:
    """A packer for values of one argument that need no conversion: numbers of the Python type `python`, and arrays."""

    argument: Argument
    python: type | None
    word: struct.Struct
    sizes: frozenset[int] | None
    """The element sizes that an array may have; an empty set allows all.

    It is None if the argument is not a pointer.
    """

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
        """Return the bytes of a value that needs no conversion; None for other values."""
        kind = type(value)
        try:
            if kind is self.python:
                return self.word.pack(value)
            if kind is np.ndarray and self.sizes is not None and (not self.sizes or value.itemsize in self.sizes):
                return self.word.pack(address(value))
        except (struct.error, OverflowError):
            pass
        return None


def _local(value: object) -> int:
    if not isinstance(value, Local):
        raise WireError(f"cannot pass {_what(value)}, expected Local(size): the argument points to group memory")
    if value.size < 0:
        raise WireError(f"the size of Local is {value.size} bytes, expected 0 or more")
    return value.size


def _fitted(argument: Argument, value: Any, address: Address) -> Value:
    if isinstance(value, Local):
        raise WireError(
            f"cannot pass Local for an argument of kind {argument.kind}, only for a pointer to group memory"
        )
    if argument.kind in ("image", "sampler") and hasattr(value, "place"):
        return address(Placed(value, argument.type_name))
    if argument.kind in POINTERS:
        if isinstance(value, np.ndarray):
            sizes = _item_sizes(argument.type_name)
            if sizes and value.dtype.itemsize not in (1, *sizes) and value.dtype.kind not in "VO":
                raise _misfit(argument, value, sizes)
        return address_of(value, address, argument.size)
    if argument.kind != "by_value":
        raise BeyondModel(
            f"arguments of kind {argument.kind} are not supported: give the whole kernarg segment as bytes"
        )
    return _by_value(argument, value)


def _misfit(argument: Argument, array: NDArray[np.generic], sizes: frozenset[int]) -> WireError:
    """Return the error for an array whose elements differ in size from the type that the pointer points to."""
    expected = " or ".join(map(str, sorted(sizes)))
    text = f"cannot pass an array of {array.dtype} for {argument.type_name}, expected elements of {expected} bytes"
    return WireError(f"{text} (or of 1: array.view(np.uint8))")


@lru_cache(MOST_TYPES)
def _item_sizes(type_name: str) -> frozenset[int]:
    """Return the element sizes that an array for a pointer of type `type_name` may have.

    The result is empty if the type name allows all sizes. A pointer to bytes or to a structure allows arrays of any
    type; a vector may be one element or several.
    """
    match = _TYPE.match(type_name.removesuffix("*").rstrip())
    code = _SCALARS.get(match.group(1)) if match and type_name.endswith("*") else None
    if match is None or code is None or match.group(1) == "size_t":
        return frozenset()
    one, count = np.dtype(code).itemsize, int(match.group(2) or 1)
    return frozenset({one, one * (4 if count == 3 else count)})


def address_of(value: object, address: Address, size: int) -> int:
    """Return the address in `value`, an array, an object with an address, or an integer; None is the null pointer.

    `size` is the size of the pointer in bytes. Raise `WireError` if the address does not fit it, or for other
    values."""
    if value is None:
        return 0
    place = address(value) if isinstance(value, np.ndarray) else getattr(value, "address", value)
    if isinstance(place, int | np.integer) and not isinstance(place, bool):
        if place < 0 or int(place).bit_length() > 8 * size:
            raise WireError(f"address {place:#x} does not fit {8 * size} bits")
        return int(place)
    raise WireError(f"cannot pass {_what(value)}, expected an array or an address")


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
        raw = raw.ljust(argument.size, b"\0") if count == 3 else raw  # a vector of 3 occupies the space of 4
    if len(raw) != argument.size:
        raise WireError(f"the value has {len(raw)} bytes, expected {argument.size}")
    return raw


@lru_cache(MOST_TYPES)
def _type(type_name: str, size: int) -> tuple[np.dtype[np.generic] | None, int]:
    """Return the element type and the number of elements of an argument, given its type's name and its size.

    The element type is None if the name is not one of OpenCL's numbers and vectors, or if the size does not fit it.
    """
    match = _TYPE.match(type_name)
    code = _SCALARS.get(match.group(1)) if match else None
    if match is None or code is None:
        return None, 1
    dtype, count = np.dtype(f"<{code}"), int(match.group(2) or 1)
    fits = dtype.itemsize * (4 if count == 3 else count) == size
    return (dtype, count) if fits else (None, 1)


def _elements(argument: Argument, value: Given, count: int) -> list[np.generic]:
    elements = list(np.ravel(np.asarray(value)))
    if len(elements) != count:
        raise WireError(f"the value has {len(elements)} elements, expected {count} for {argument.type_name}")
    return elements


def _number(dtype: np.dtype[np.generic], value: Given) -> bytes:
    """Return `value` as the bytes of a number of type `dtype`.

    Raise `WireError` if `value` is not a number. If `dtype` is an integer type, also raise it if `value` is not
    a whole number or does not fit the width of the type; its sign may differ from that of the type."""
    if not isinstance(value, int | float | np.number | np.bool_):
        raise WireError(f"cannot pass {_what(value)}, expected a number")
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(value, dtype).tobytes()
    if value != value or value in (float("inf"), float("-inf")) or int(value) != value:
        raise WireError(f"cannot pass {value} for {dtype.name}, expected a whole number")
    number, bits = int(value), dtype.itemsize * 8
    low = 0 if dtype.kind == "u" else -(1 << bits - 1)
    # C programs write bit patterns as -1 for an unsigned and 0xffffffff for a signed argument.
    if not min(low, -(1 << bits - 1)) <= number < 1 << bits:
        raise WireError(f"{number} does not fit {dtype.name}")
    return (number & (1 << bits) - 1).to_bytes(dtype.itemsize, "little")


def _untyped(argument: Argument, value: Given) -> bytes:
    """Return the bytes of a structure, or of a number whose type is not given by metadata."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tobytes()
    if isinstance(value, float):
        if argument.size not in (2, 4, 8):
            raise WireError(f"cannot pass a float for an argument of {argument.size} bytes, expected bytes")
        return np.array(value, f"<f{argument.size}").tobytes()
    if isinstance(value, int):
        if not -(1 << argument.size * 8) // 2 <= value < 1 << argument.size * 8:
            raise WireError(f"{value} does not fit {argument.size} bytes")
        return (value & (1 << argument.size * 8) - 1).to_bytes(argument.size, "little")
    raise WireError(f"cannot pass {_what(value)}, expected bytes or a NumPy value of {argument.size} bytes")


def _by_hand(values: Sequence[Given], address: Address, pointer_bytes: int) -> bytes:
    """Return values as bytes, one after another, each aligned to its size, as in a C structure.

    This is for code objects without metadata. `pointer_bytes` is the size of a pointer."""
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
            text = (
                f"cannot pass {_what(value)}, expected a NumPy value: the size of the argument is unknown without "
                "metadata"
            )
            raise WireError(text).at("argument", number)
        data = data.ljust(align_up(len(data), alignment), b"\0") + raw
    return data


def _what(value: object) -> str:
    return f"{type(value).__name__} {value!r:.40}"
