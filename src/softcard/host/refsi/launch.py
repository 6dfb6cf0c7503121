"""The arguments of a RefSi kernel launch, placed in device memory, and the result of the launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from softcard.core.display import count
from softcard.core.errors import WireError
from softcard.core.findings import Finding
from softcard.core.words import align_up, f64_bits
from softcard.device.refsi import rules
from softcard.device.refsi.commands import MAX_EXTRA_ARGS, BufferStatus
from softcard.host.refsi.buffer import Buffer
from softcard.host.refsi.driver import RefSiDriver
from softcard.host.run_statistics import RunStatistics
from softcard.image.elf.dwarf import OTHER, VARIADIC

Argument = int | float | bool | np.generic | NDArray[np.generic] | Buffer[np.generic]
"""A value that can be passed to a kernel: a number, a `Buffer`, or an array that is copied in and out."""
MAX_DIMENSIONS: Final = 3
POINTER_BYTES: Final = 8
SLICE_PARAMETERS: Final = ("instance", "slice", "packed_args", "ktb")
POINTER: Final = "ptr"
WHOLE: Final = {f"{letter}{bits}": bits // 8 for letter in "iu" for bits in (8, 16, 32, 64)}
"""The size in bytes of each integer parameter type."""
FLOATS: Final[dict[str, Callable[[Any], np.generic]]] = {"f32": np.float32, "f64": np.float64}


@dataclass(frozen=True, slots=True)
class LaunchResult(RunStatistics):
    """The result of a successful launch: the status of its command buffer, and the text that kernels printed.

    `bytes` is the total size in bytes of the arrays and buffers passed, `time` the run time of the command buffer in
    seconds. `interpreted` is the number of instructions that were interpreted instead of translated. `findings` are
    those of the checks; their counts include all launches of the device.
    """

    kernel: str
    status: BufferStatus
    console: bytes = b""
    bytes: int = 0
    time: float = field(default=0.0, compare=False)
    interpreted: int = field(default=0, compare=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False, compare=False)

    __repr__ = RunStatistics.__repr__

    @property
    def instructions(self) -> int:
        """The number of instructions that all harts retired."""
        return self.status.steps


@dataclass(slots=True)
class _Copy:
    """An array argument and the buffer in device memory to which it was copied."""

    number: int
    array: NDArray[np.generic]
    buffer: Buffer[np.generic]


@dataclass(slots=True)
class Arguments:
    """The arguments of one launch: `values` are the 64-bit words that the kernel receives.

    An integer is passed as 64 bits (a negative one in two's complement), a NumPy float32 as its 32 bits, a float as its
    64 bits, and a `Buffer` as its address. If the parameter is known to be a float, any number is converted to the
    parameter's width. A NumPy array is copied to device memory before the launch; if it is writable, it is copied back
    after the launch. An array that is passed twice is copied once. The device memory is freed by `release`.
    """

    driver: RefSiDriver
    values: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    copies: list[_Copy] = field(default_factory=list)
    nbytes: int = 0
    """The total size in bytes of all arrays and buffers that are passed."""

    def add(self, argument: Argument, kind: str = "") -> None:
        """Add `argument` as the next argument; `kind` is the type of its parameter, or "" if that is unknown.

        Raise `WireError` with the argument's number if the argument cannot be passed."""
        number = len(self.values)
        try:
            value, size = self._value(number, _converted(argument, kind))
        except WireError as error:
            raise error.at("argument", number) from None
        self.values.append(value)
        self.sizes.append(size)

    def copy_back(self) -> None:
        """Copy the contents of device memory back into the argument arrays that are writable."""
        for copy in self.copies:
            if copy.array.flags.writeable:
                copy.array[...] = copy.buffer.array

    def release(self) -> None:
        """Free the device memory that holds the argument arrays."""
        for copy in self.copies:
            copy.buffer.free()

    def packed(self) -> bytes:
        """Return the arguments as the bytes of the field packed_args of the command RUN_KERNEL_SLICE.

        Each argument begins at a multiple of its size, as in the RefSi reference implementation.
        """
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

    def _array(self, number: int, array: NDArray[np.generic]) -> Buffer[np.generic]:
        for copy in self.copies:
            if copy.array is array:
                return copy.buffer
            if (array.flags.writeable or copy.array.flags.writeable) and np.may_share_memory(array, copy.array):
                raise WireError(
                    f"the array shares memory with argument {copy.number}: pass a copy, the same array, or a Buffer"
                )
        buffer = Buffer(self.driver, array.shape, array.dtype)
        buffer.be_argument(number)
        self.copies.append(_Copy(number, array, buffer))
        buffer.array[...] = array
        return buffer


def check_signature(kernel: str, types: Sequence[str] | None, arguments: Sequence[Argument], is_grid: bool) -> None:
    """Raise a `WireError` if the number of arguments does not match the parameter types `types` of the kernel.

    A kernel receives its instance number before the arguments, and in a grid (`is_grid`) its slice number after that. A
    kernel without parameters may ignore all of them.
    """
    if types is None or OTHER in types:
        return
    expected = list(types[1 + is_grid :])
    is_variadic = VARIADIC in types
    fixed = [each for each in expected if each != VARIADIC]
    if len(arguments) == len(fixed) or (is_variadic and len(arguments) > len(fixed)):
        return
    least = "at least " if is_variadic else ""
    listed = f" ({', '.join(expected)})" if expected else ""
    before = "the instance and the slice" if is_grid else "the instance"
    raise WireError(
        f"kernel {kernel} takes {least}{count(len(fixed), 'argument')} after {before}{listed}, "
        f"but the launch passes {len(arguments)}"
    )


def check_slice_signature(kernel: str, types: Sequence[str] | None) -> None:
    """Raise a `WireError` if a kernel has more parameters than the command RUN_KERNEL_SLICE passes."""
    if types is not None and OTHER not in types and VARIADIC not in types and len(types) > len(SLICE_PARAMETERS):
        raise WireError(
            f"kernel {kernel} takes {count(len(types), 'parameter')} ({', '.join(types)}), but RUN_KERNEL_SLICE passes "
            f"{len(SLICE_PARAMETERS)} ({', '.join(SLICE_PARAMETERS)}): use `launch` for this kernel"
        )


def odd_arguments(kernel: str, types: Sequence[str], arguments: Sequence[Argument]) -> list[str]:
    """Return lints about floats that are passed for integer or pointer parameters, which receive the float's bits."""
    return [
        f"argument {number} of kernel {kernel} is a {type(each).__name__} for a parameter of type {kind}, which "
        "receives "
        "the bits of the float: pass an int"
        for number, (each, kind) in enumerate(zip(arguments, types, strict=False))
        if kind in WHOLE and (isinstance(each, float) or (isinstance(each, np.generic) and each.dtype.kind == "f"))
    ]


def _converted(argument: Argument, kind: str) -> Argument:
    """Return the argument for a parameter of type `kind`: a number for a float parameter is converted as in C.

    Raise `WireError` if C has no such conversion.
    """
    is_memory = isinstance(argument, np.ndarray | Buffer)
    is_float = isinstance(argument, float) or (isinstance(argument, np.generic) and argument.dtype.kind == "f")
    if kind == POINTER and is_float:
        raise WireError(
            f"a {type(argument).__name__} cannot be passed for a pointer, expected an array, a Buffer or an address"
        )
    if kind in WHOLE and is_memory and WHOLE[kind] < POINTER_BYTES:
        raise WireError(
            f"a {type(argument).__name__} cannot be passed for a parameter of type {kind}, expected a number"
        )
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
    """Return (instances, slices) for a grid: the first dimension is the instances, the others the slices."""
    dimensions: list[int] = list(instances) if isinstance(instances, Iterable) else [instances]
    if not all(isinstance(size, int | np.integer) for size in dimensions):
        raise WireError(f"the grid is {instances!r}, expected integers as sizes")
    if not 1 <= len(dimensions) <= MAX_DIMENSIONS or any(size < 0 for size in dimensions):
        raise WireError(f"the grid is {tuple(dimensions)}, expected 1 to {MAX_DIMENSIONS} sizes of 0 or more")
    return int(dimensions[0]), int(np.prod(dimensions[1:], dtype=object))


def check_count(arguments: Sequence[Argument], is_grid: bool) -> None:
    """Raise a `WireError` if there are too many arguments.

    At most 7 can be passed, or 6 in a grid (`is_grid`), where the kernel also receives its slice number.
    """
    most = MAX_EXTRA_ARGS - is_grid
    if len(arguments) > most:
        why = " besides the slice number" if is_grid else ""
        raise WireError(
            f"a kernel takes at most {most} arguments{why}, not {len(arguments)}", rule=rules.RUN_EXTRA_ARGS
        )
