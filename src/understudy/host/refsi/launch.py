"""What a launch makes of its arguments, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import WireError
from understudy.core.findings import Finding
from understudy.core.took import Took
from understudy.core.words import align_up, f64_bits
from understudy.device.refsi import rules
from understudy.device.refsi.commands import MAX_EXTRA_ARGS
from understudy.device.refsi.status import BufferStatus
from understudy.host.refsi.buffer import Buffer
from understudy.host.refsi.driver import RefSiDriver

Argument = int | float | bool | np.generic | NDArray[Any] | Buffer
"""What a kernel can be given: a number, a `Buffer`, or an array that is copied in and out."""
MAX_DIMENSIONS: Final = 3
POINTER_BYTES: Final = 8
FLOATS: Final[dict[str, Callable[[Any], np.generic]]] = {"f32": np.float32, "f64": np.float64}


@dataclass(frozen=True, slots=True)
class LaunchResult(Took):
    """A launch that went well: the status of its command buffer and what its kernels printed.

    `bytes` are those of its arrays and buffers, `time` the seconds of its command buffer. `interpreted` of the
    instructions were executed one by one instead of as machine code. `findings` are those of checks, as the device has
    them: counts are those of all its launches.
    """

    kernel: str
    status: BufferStatus
    console: bytes = b""
    bytes: int = 0
    time: float = field(default=0.0, compare=False)
    interpreted: int = field(default=0, compare=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False, compare=False)

    __repr__ = Took.__repr__

    @property
    def instructions(self) -> int:
        """Instructions retired by all harts."""
        return self.status.steps


@dataclass(slots=True)
class _Copy:
    """An array that has a copy in device memory."""

    number: int
    array: NDArray[Any]
    buffer: Buffer


@dataclass(slots=True)
class Arguments:
    """Arguments of one launch. `values` are 64-bit words; arrays live in device memory until `release`.

    An integer is passed as 64 bits (negative ones in two's complement), a NumPy float32 as its 32 bits, a float as its
    64 bits, a `Buffer` as its address; for a parameter that is known to be a float, any number is one of its width. A
    NumPy array is copied to the device before the launch and, if it is writable, back after it; the same array given
    twice is one copy.
    """

    driver: RefSiDriver
    values: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    copies: list[_Copy] = field(default_factory=list)
    nbytes: int = 0
    """Of all arrays and buffers."""

    def add(self, argument: Argument, kind: str = "") -> None:
        """Take the next argument, for a parameter of this type; `WireError` with its number where that cannot be."""
        number = len(self.values)
        try:
            value, size = self._value(number, _converted(argument, kind))
        except WireError as error:
            raise error.at("argument", number) from None
        self.values.append(value)
        self.sizes.append(size)

    def copy_back(self) -> None:
        """Copy writable arrays from device memory."""
        for copy in self.copies:
            if copy.array.flags.writeable:
                copy.array[...] = copy.buffer.array

    def release(self) -> None:
        """Free the device memory of the arrays."""
        for copy in self.copies:
            copy.buffer.free()

    def packed(self) -> bytes:
        """The arguments as packed_args of RUN_KERNEL_SLICE: each at a multiple of its size, as the reference does."""
        out = bytearray()
        for value, size in zip(self.values, self.sizes, strict=True):
            out += bytes(align_up(len(out), size) - len(out)) + (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        return bytes(out)

    def _value(self, number: int, argument: Argument) -> tuple[int, int]:
        match argument:
            case Buffer():
                self.nbytes += argument.nbytes
                return argument.address, POINTER_BYTES
            case np.ndarray():
                self.nbytes += argument.nbytes
                return self._array(number, argument).address, POINTER_BYTES
            case np.generic():
                return _scalar(argument)
            case bool() | int():
                if not -(1 << 63) <= argument < 1 << 64:
                    raise WireError(f"integer {argument:#x} does not fit 64 bits")
                return argument & (1 << 64) - 1, POINTER_BYTES
            case float():
                return f64_bits(argument), POINTER_BYTES
        raise WireError(f"a {type(argument).__name__} cannot be passed, expected a number, an array or a Buffer")

    def _array(self, number: int, array: NDArray[Any]) -> Buffer:
        for copy in self.copies:
            if copy.array is array:
                return copy.buffer
            if (array.flags.writeable or copy.array.flags.writeable) and np.may_share_memory(array, copy.array):
                raise WireError(
                    f"array shares memory with argument {copy.number}, expected a copy, the same array, or a Buffer"
                )
        buffer = Buffer(self.driver, array.shape, array.dtype)
        buffer.be_argument(number)
        self.copies.append(_Copy(number, array, buffer))
        buffer.array[...] = array
        return buffer


def _converted(argument: Argument, kind: str) -> Argument:
    """The argument as C converts it for a parameter of type `kind`, where that is a float."""
    if kind not in FLOATS:
        return argument
    if isinstance(argument, np.ndarray | Buffer) or (
        isinstance(argument, np.generic) and argument.dtype.kind not in "biuf"
    ):
        raise WireError(
            f"a {type(argument).__name__} cannot be passed for a parameter of type {kind}, expected a number"
        )
    try:
        return FLOATS[kind](argument)
    except OverflowError:
        raise WireError(f"an integer of {int(argument).bit_length()} bits cannot be passed as {kind}") from None


def _scalar(value: np.generic) -> tuple[int, int]:
    kind, size = value.dtype.kind, value.dtype.itemsize
    if kind not in "biuf" or size > POINTER_BYTES:
        raise WireError(f"a {value.dtype} cannot be passed, expected an integer or float of at most 64 bits")
    if kind == "i":
        return int(value) & (1 << 64) - 1, size
    return int.from_bytes(value.tobytes(), "little" if np.little_endian else "big"), size


def grid_of(instances: int | Sequence[int]) -> tuple[int, int]:
    """(instances, slices) of a grid: the first dimension becomes instances, the others slices."""
    dimensions: list[int] = list(instances) if isinstance(instances, Iterable) else [instances]
    if not all(isinstance(size, int | np.integer) for size in dimensions):
        raise WireError(f"a grid has whole numbers as its sizes, not {instances!r}")
    if not 1 <= len(dimensions) <= MAX_DIMENSIONS or any(size < 0 for size in dimensions):
        raise WireError(f"a grid has 1 to {MAX_DIMENSIONS} sizes of 0 or more, not {tuple(dimensions)}")
    return int(dimensions[0]), int(np.prod(dimensions[1:], dtype=object))


def check_count(arguments: Sequence[Argument], is_grid: bool) -> None:
    """A kernel takes 7 arguments, one less where the slice number is one."""
    most = MAX_EXTRA_ARGS - is_grid
    if len(arguments) > most:
        why = " besides the slice number" if is_grid else ""
        raise WireError(
            f"a kernel takes at most {most} arguments{why}, not {len(arguments)}", rule=rules.RUN_EXTRA_ARGS
        )
