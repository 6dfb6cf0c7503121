"""What hidden arguments of a kernel get: what a caller gives by name, and the buffer that ``printf`` writes into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from understudy.core.errors import WireError
from understudy.device.hsa.device import HsaDevice
from understudy.device.hsa.launch.kernarg import PREFIX, Hidden
from understudy.device.hsa.queues import Queue
from understudy.host import printf_buffer
from understudy.host.hsa.arguments import Address, address_of
from understudy.host.hsa.launch import Dim3
from understudy.image.hsa.code_object import Kernel

PRINTF: Final = PREFIX + "printf_buffer"


def hidden_arguments(
    device: HsaDevice, queue: Queue, offset: Dim3, given: Mapping[str, int], printf: int = 0
) -> Hidden:
    """What hidden arguments say of a launch on `queue`: what is `given` by value kind, else what the device knows.

    `printf` is the address of the printf buffer.
    """
    apertures = device.apertures
    return Hidden(
        global_offset=offset,
        shared_base=apertures.group_segment_aperture_base_hi << 32,
        private_base=apertures.private_segment_aperture_base_hi << 32,
        queue=queue.address,
        printf_buffer=printf,
        default_queue=queue.address,
        given=given,
    )


def given_by_name(kernel: Kernel, values: Mapping[str, Any], address: Address) -> dict[str, int]:
    """`values` by value kind: numbers, addresses, arrays, objects with an `address`.

    Names are value kinds, with or without ``hidden_``. `WireError` for one that the kernel has no argument of.
    """
    sizes = {each.kind: each.size for each in kernel.metadata.hidden} if kernel.metadata else {}
    found = {}
    for name, value in values.items():
        kind = PREFIX + name.removeprefix(PREFIX)
        if kind not in sizes:
            there = ", ".join(each.removeprefix(PREFIX) for each in sizes) or "none"
            raise WireError(f"kernel {kernel.name} has no hidden argument {name!r}: there are {there}")
        try:
            found[kind] = address_of(value, address, sizes[kind])
        except WireError as error:
            raise error.at("hidden argument", name) from None
    return found


@dataclass(frozen=True, slots=True)
class Printf:
    """The printf buffer of one launch."""

    device: HsaDevice
    address: int

    @classmethod
    def of(cls, device: HsaDevice, kernel: Kernel, given: Mapping[str, int]) -> Self | None:
        """An empty one; None where the kernel does not print, or the caller gave one."""
        if PRINTF in given or kernel.metadata is None or PRINTF not in kernel.metadata.hidden_kinds:
            return None
        made = cls(device, device.allocate(printf_buffer.SIZE_BYTES, mtype=device.fine_mtype, name="printf buffer"))
        device.memory.write(made.address, printf_buffer.EMPTY)
        return made

    def read(self) -> bytes:
        """What the kernel wrote behind the header."""
        return printf_buffer.written(self.device.memory.read(self.address, printf_buffer.SIZE_BYTES))

    def free(self) -> None:
        """Give its memory back."""
        self.device.free(self.address)
