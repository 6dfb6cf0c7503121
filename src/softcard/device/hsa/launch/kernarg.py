"""The kernarg segment of a kernel: the caller's arguments at their offsets, and hidden arguments.

A runtime adds the hidden arguments. In code objects V2 to V6 the metadata identify hidden arguments by their
value kinds and contain their offsets, so one table is enough for all versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from softcard.core.display import count
from softcard.core.errors import WireError
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.image.hsa.metadata import Argument, KernelMetadata

MAX_KERNARG_BYTES: Final = 1 << 20
"""The maximum size in bytes of a kernarg segment that is accepted."""
PREFIX: Final = "hidden_"
"""The prefix of the value kinds of hidden arguments."""
Value = int | float | bytes | bytearray | memoryview | np.generic | np.ndarray
"""The types of an argument's value: an address or number, or the bytes of the argument."""


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """The values of hidden kernel arguments that the dispatch packet does not contain.

    `shared_base` and `private_base` are flat addresses; their upper halves are the apertures in amd_queue_t. `given`
    maps value kinds of hidden arguments to values that override all others.
    """

    global_offset: tuple[int, int, int] = (0, 0, 0)
    shared_base: int = 0
    private_base: int = 0
    queue: int = 0
    printf_buffer: int = 0
    hostcall_buffer: int = 0
    default_queue: int = 0
    completion_action: int = 0
    multigrid_sync_arg: int = 0
    heap: int = 0
    dynamic_lds_size: int = 0
    given: Mapping[str, int] = field(default_factory=dict)


def segment_bytes(kernel: KernelMetadata | None, size: int) -> int:
    """Return the size in bytes of a kernel's kernarg segment.

    The result is `size`, which the kernel's header contains, or more if the arguments need more. Raise
    `WireError` for more than `MAX_KERNARG_BYTES`, because a damaged header can contain any size."""
    found = size if kernel is None else max(size, kernel.end)
    if found > MAX_KERNARG_BYTES:
        raise WireError(f"the kernarg segment has {found} bytes, expected at most {MAX_KERNARG_BYTES}")
    return found


def pack_kernarg(
    kernel: KernelMetadata,
    size: int,
    values: Sequence[Value],
    packet: KernelDispatchPacket,
    hidden: Hidden | None = None,
) -> bytes:
    """Return the contents of a kernel's kernarg segment with all arguments, in `segment_bytes` bytes.

    `values` has the values of the arguments that are not hidden, in order; for an LDS pointer the value is an offset in
    LDS. `size` is the segment's size in the kernel's header. Raise `WireError` for a wrong number of values, or a value
    of a wrong size.
    """
    if len(values) != len(kernel.explicit):
        takes = count(len(kernel.explicit), "argument")
        raise WireError(f"kernel {kernel.name} takes {takes}, but {len(values)} were given")
    return filled_kernarg(kernel, blank_kernarg(kernel, size, packet, hidden or Hidden()), values)


def blank_kernarg(kernel: KernelMetadata, size: int, packet: KernelDispatchPacket, hidden: Hidden) -> bytes:
    """Return the contents of a kernarg segment in which only the hidden arguments have values.

    Launches with an equal packet and equal hidden inputs can reuse the result; see `filled_kernarg`.
    """
    data = bytearray(segment_bytes(kernel, size))
    words = hidden_values(packet, hidden) if kernel.hidden else {}
    for argument in kernel.hidden:
        word = words.get(argument.kind, 0) & (1 << argument.size * 8) - 1
        data[argument.offset : argument.offset + argument.size] = word.to_bytes(argument.size, "little")
    return bytes(data)


def filled_kernarg(kernel: KernelMetadata, blank: bytes, values: Sequence[Value]) -> bytes:
    """Return a copy of `blank`, which `blank_kernarg` returned, with the arguments `values` filled in.

    `values` has the values of the arguments that are not hidden, in order. Raise `WireError` for a value that
    does not fit its argument."""
    data = bytearray(blank)
    for number, (argument, value) in enumerate(zip(kernel.explicit, values, strict=True)):
        try:
            raw = value if type(value) is bytes and len(value) == argument.size else _bytes(argument, value)
        except (OverflowError, ValueError, TypeError) as error:
            raise WireError(f"{error}").at("argument", number, argument.name) from None
        data[argument.offset : argument.offset + argument.size] = raw
    return bytes(data)


def hidden_values(packet: KernelDispatchPacket, hidden: Hidden) -> dict[str, int]:
    """Return the values of all hidden arguments by value kind; those without a value are 0."""
    values = {
        "hidden_printf_buffer": hidden.printf_buffer,
        "hidden_hostcall_buffer": hidden.hostcall_buffer,
        "hidden_default_queue": hidden.default_queue,
        "hidden_completion_action": hidden.completion_action,
        "hidden_multigrid_sync_arg": hidden.multigrid_sync_arg,
        "hidden_heap_v1": hidden.heap,
        "hidden_dynamic_lds_size": hidden.dynamic_lds_size,
        "hidden_private_base": hidden.private_base >> 32,
        "hidden_shared_base": hidden.shared_base >> 32,
        "hidden_queue_ptr": hidden.queue,
        "hidden_grid_dims": packet.dimensions,
    }
    for axis, (letter, grid, group) in enumerate(zip("xyz", packet.grid, packet.workgroup, strict=True)):
        values[f"hidden_global_offset_{letter}"] = hidden.global_offset[axis]
        values[f"hidden_block_count_{letter}"] = grid // group
        values[f"hidden_group_size_{letter}"] = group
        values[f"hidden_remainder_{letter}"] = grid % group
    return {**values, **hidden.given}


def _bytes(argument: Argument, value: Value) -> bytes:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tobytes()
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        if len(raw) != argument.size:
            raise ValueError(f"the value has {len(raw)} bytes, expected {argument.size}")
        return raw
    if isinstance(value, float):
        if argument.size not in (2, 4, 8):
            raise ValueError(f"a float cannot be passed for an argument of {argument.size} bytes, expected bytes")
        return np.array(value, f"<f{argument.size}").tobytes()
    return value.to_bytes(argument.size, "little", signed=value < 0)
