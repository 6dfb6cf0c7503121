"""The kernarg segment from metadata: a caller's arguments at their offsets, and the hidden ones a runtime adds.

Hidden arguments of V2 to V6 objects are told apart by their value kinds, so that one table serves all versions;
where they lie says the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from understudy.core.errors import WireError
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.image.hsa.metadata import Argument, KernelMetadata

MAX_KERNARG_BYTES: Final = 1 << 20
"""Largest kernarg segment that is believed."""
PREFIX: Final = "hidden_"
"""What the value kinds of hidden arguments begin with."""
Value = int | float | bytes | bytearray | memoryview | np.generic | np.ndarray
"""What an argument may be given as: an address or number, or the bytes themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """What hidden arguments say that the packet does not. The upper halves of the bases are amd_queue_t's apertures.

    `given`, by value kind, goes before all else.
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
    """Bytes of the kernarg segment of a kernel whose header says `size`: as many as its arguments take, or more.

    `WireError` where that is more than `MAX_KERNARG_BYTES`: a damaged header asks for anything.
    """
    found = size if kernel is None else max(size, kernel.end)
    if found > MAX_KERNARG_BYTES:
        raise WireError(f"a kernarg segment of {found} bytes, expected at most {MAX_KERNARG_BYTES}")
    return found


def pack_kernarg(
    kernel: KernelMetadata,
    size: int,
    values: Sequence[Value],
    packet: KernelDispatchPacket,
    hidden: Hidden | None = None,
) -> bytes:
    """The bytes of the kernarg segment, `segment_bytes` of them.

    `values` are those of the arguments that are not hidden, in order; LDS pointers get their offset in LDS. `WireError`
    where number or size do not fit.
    """
    if len(values) != len(kernel.explicit):
        raise WireError(f"kernel {kernel.name} takes {len(kernel.explicit)} arguments, not {len(values)}")
    return filled_kernarg(kernel, blank_kernarg(kernel, size, packet, hidden or Hidden()), values)


def blank_kernarg(kernel: KernelMetadata, size: int, packet: KernelDispatchPacket, hidden: Hidden) -> bytes:
    """A kernarg segment with hidden arguments only, as all launches have that say so."""
    data = bytearray(segment_bytes(kernel, size))
    words = hidden_values(packet, hidden) if kernel.hidden else {}
    for argument in kernel.hidden:
        word = words.get(argument.kind, 0) & (1 << argument.size * 8) - 1
        data[argument.offset : argument.offset + argument.size] = word.to_bytes(argument.size, "little")
    return bytes(data)


def filled_kernarg(kernel: KernelMetadata, blank: bytes, values: Sequence[Value]) -> bytes:
    """A segment of `blank_kernarg` with the values of the other arguments; errors as of `pack_kernarg`."""
    data = bytearray(blank)
    for number, (argument, value) in enumerate(zip(kernel.explicit, values, strict=True)):
        try:
            raw = value if type(value) is bytes and len(value) == argument.size else _bytes(argument, value)
        except (OverflowError, ValueError, TypeError) as error:
            raise WireError(f"{error}").at("argument", number, argument.name) from None
        data[argument.offset : argument.offset + argument.size] = raw
    return bytes(data)


def hidden_values(packet: KernelDispatchPacket, hidden: Hidden) -> dict[str, int]:
    """The values of all hidden arguments by value kind; those without a value are 0."""
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
            raise ValueError(f"{len(raw)} bytes, expected {argument.size}")
        return raw
    if isinstance(value, float):
        if argument.size not in (2, 4, 8):
            raise ValueError(f"a float for an argument of {argument.size} bytes")
        return np.array(value, f"<f{argument.size}").tobytes()
    return value.to_bytes(argument.size, "little", signed=value < 0)
