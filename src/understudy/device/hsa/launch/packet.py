"""The AQL kernel dispatch packet, as far as a launch needs it: layout only.

Layout and header bits: HSA Platform System Architecture Specification, "AQL packet header" and "Kernel dispatch packet"
(the ROCm Code Object document only refers to it).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from understudy.core.errors import WireError
from understudy.core.record import Record, bits, reserved, reserved_bits, u16, u32, u64


class KernelDispatchPacket(Record, size=64):
    """hsa_kernel_dispatch_packet_t. Sizes of segments are bytes; of private memory, for each work-item."""

    type: int = bits(7, 0, of=16, default=2)
    barrier: int = bits(8, 8, of=16, default=0)
    acquire_scope: int = bits(10, 9, of=16, default=0)
    release_scope: int = bits(12, 11, of=16, default=0)
    reserved_header: int = reserved_bits(15, 13, of=16)
    dimensions: int = bits(1, 0, of=16, default=3)
    reserved_setup: int = reserved_bits(15, 2, of=16)
    workgroup_size_x: int = u16(default=1)
    workgroup_size_y: int = u16(default=1)
    workgroup_size_z: int = u16(default=1)
    reserved_0a: bytes = reserved(2)
    grid_size_x: int = u32(default=1)
    grid_size_y: int = u32(default=1)
    grid_size_z: int = u32(default=1)
    private_segment_size: int = u32(default=0)
    group_segment_size: int = u32(default=0)
    kernel_object: int = u64(default=0)
    kernarg_address: int = u64(default=0)
    reserved_30: bytes = reserved(8)
    completion_signal: int = u64(default=0)

    @classmethod
    def over(cls, dimensions: int, grid: Sequence[int], group: Sequence[int], **fields: Any) -> Self:
        """A packet for work-items of a grid in x, y, z, in work-groups of such sizes; `fields` are the other ones."""
        return cls(
            dimensions=dimensions,
            workgroup_size_x=group[0],
            workgroup_size_y=group[1],
            workgroup_size_z=group[2],
            grid_size_x=grid[0],
            grid_size_y=grid[1],
            grid_size_z=grid[2],
            **fields,
        )

    @classmethod
    def of_words(cls, header: int, setup: int, **fields: Any) -> Self:
        """A packet as C programs fill it: the words `header` and `setup` of 16 bits, `fields` are the other ones.

        `WireError` where one of the words has more bits.
        """
        if not 0 <= header | setup < 1 << 16:
            raise WireError(f"header {header:#x} and setup {setup:#x}, expected words of 16 bits")
        words = cls.parse((header | setup << 16).to_bytes(cls.size_bytes, "little"))
        bits = {slot.name: getattr(words, slot.name) for slot in cls.slots if slot.offset < 4}
        return cls(**bits, **fields)

    @property
    def header(self) -> int:
        """The first word, in which a packet is handed over: type, barrier bit, fence scopes."""
        return int.from_bytes(self.pack()[:2], "little")

    @property
    def setup(self) -> int:
        """The second word: the number of dimensions."""
        return int.from_bytes(self.pack()[2:4], "little")

    @property
    def workgroup(self) -> tuple[int, int, int]:
        """Work-items of a full work-group in x, y, z."""
        return self.workgroup_size_x, self.workgroup_size_y, self.workgroup_size_z

    @property
    def grid(self) -> tuple[int, int, int]:
        """Work-items of the grid in x, y, z."""
        return self.grid_size_x, self.grid_size_y, self.grid_size_z

    @property
    def groups(self) -> tuple[int, int, int]:
        """Work-groups in x, y, z, those at the edges of the grid among them."""
        return (
            -(-self.grid_size_x // self.workgroup_size_x),
            -(-self.grid_size_y // self.workgroup_size_y),
            -(-self.grid_size_z // self.workgroup_size_z),
        )
