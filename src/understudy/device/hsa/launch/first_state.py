"""First machine state of HSA kernels: what packet processor and SPI put into registers before a wave runs.

From a kernel dispatch packet and the kernel's header in memory to a `Dispatch` of the wave engines. Sources: "Initial
kernel register state", "Flat scratch", "AMD Kernel Code Object" of the ROCm Code Object document, and where it
contradicts itself or is silent, the prologues that LLVM writes and what `choices.toml` lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from understudy.core.errors import BeyondModel
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.device.hsa.launch.plan import BAD_CODE, DispatchRefused, LaunchPlan, read_plan
from understudy.device.hsa.rules import GRID_CHECKS, KERNEL_OBJECT
from understudy.engine.gcn.api import Dispatch, Shapes, Words32, wave_scratch_bytes
from understudy.engine.gcn.memory import GpuMemory
from understudy.isa.gcn.state import CHECKED, PTR32, VGPRS
from understudy.isa.gcn.target import GFX9, Target

LDS_GRANULE: Final = 512
SIMDS: Final = 4
"""A work-group runs on one compute unit, whose SIMDs have `VGPRS` vector registers each for the waves on them."""
WORD: Final = 4
MASK32: Final = 0xFFFF_FFFF
MAX_GROUPS: Final = 1 << 24
"""Work-groups of one dispatch: what an engine is given as one table."""

SMALL_GRID: Final = 4096
"""Work-groups of grids whose table is kept for the next launch."""
KEPT: Final = 64

Size = tuple[int, int, int]

# Queue error codes, as bits in queue_inactive_signal.
INSUFFICIENT_SCRATCH: Final = 1
BAD_DIMENSION: Final = 2
BAD_GROUP_MEMORY: Final = 4
GROUP_TOO_LARGE: Final = 64
OUT_OF_VGPRS: Final = 128


@dataclass(frozen=True, slots=True)
class Scratch:
    """Private memory of a queue: `size_bytes` at guest address `address`, seen by all its waves.

    `hidden_base` is SH_HIDDEN_PRIVATE_BASE_VIMID, from which GFX7 and GFX8 count it.
    """

    address: int
    size_bytes: int
    hidden_base: int = 0

    def resource_descriptor(self, level: int) -> tuple[int, int, int, int]:
        """The V# for it, as the runtime writes amd_queue_t.scratch_resource_descriptor.

        Swizzled by 4 bytes over 64 lanes, the lane added to the index, no stride, as many bytes as there are;
        components XYZW, unsigned, 32 bits.
        """
        word1 = self.address >> 32 & 0xFFFF | 1 << 31  # swizzle enable
        element_size = 0 if level == GFX9 else 1 << 19
        word3 = 0xFAC | 4 << 12 | 4 << 15 | element_size | 3 << 21 | 1 << 23
        return self.address & MASK32, word1, min(self.size_bytes, MASK32), word3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the agent and the queue bring to a launch.

    `queue` is the address of amd_queue_t. `descriptor` is its scratch_resource_descriptor where that is not the one
    that fits `scratch`. Apertures are flat addresses whose upper halves mean LDS and private memory. With `ptr32`
    (SH_MEM_CONFIG.PTR32: the small machine model) pointers have 32 bits, and the upper halves are the apertures' own.
    """

    target: Target
    memory: GpuMemory
    queue: int = 0
    scratch: Scratch | None = None
    descriptor: tuple[int, int, int, int] | None = None
    shared_base: int = 0x0001_0000_0000_0000
    private_base: int = 0x0002_0000_0000_0000
    ptr32: bool = False
    lds_limit_bytes: int = 65536
    workgroup_limit: int = 1024

    @property
    def v_sharp(self) -> tuple[int, int, int, int]:
        """The words that describe private memory to kernels."""
        if self.descriptor is not None:
            return self.descriptor
        return self.scratch.resource_descriptor(self.target.level) if self.scratch else (0, 0, 0, 0)


def launch(
    around: Surroundings,
    packet: KernelDispatchPacket,
    packet_address: int,
    dispatch_id: int = 0,
    *,
    plan: LaunchPlan | None = None,
    **options: Any,
) -> Dispatch:
    """The dispatch that a packet at `packet_address` asks for; number `dispatch_id` of its queue.

    `plan` is that of its kernel, where it was read already. `options` go to `Dispatch` as they are (step limit, seed,
    poison, hooks). `DispatchRefused` where the packet processor would report a queue error instead, `BeyondModel` for
    what no agent here has.
    """
    plan = plan or read_plan(around.memory, packet.kernel_object)
    grid, group = packet.grid, packet.workgroup
    _check(around, packet, grid, group)
    entry = packet.kernel_object + plan.facts.kernel_code_entry_byte_offset
    if not 0 <= entry < around.memory.limit:
        raise DispatchRefused(f"the kernel's entry {entry:#x} lies beyond all memory", BAD_CODE, KERNEL_OBJECT)
    shapes, groups = work_groups(packet, plan.workitem_id)
    most_waves = shapes.most_waves
    _check_registers(plan.vgprs, most_waves)
    scratch, lane_bytes = around.scratch, packet.private_segment_size + WORD - 1 & -WORD
    gap = _scratch_gap(around.memory, scratch, lane_bytes) if lane_bytes else 0
    slots = _scratch_slots(scratch, lane_bytes, most_waves, gap) if lane_bytes else 0
    words = _user_words(around, packet, packet_address, dispatch_id)
    return Dispatch(
        target=around.target,
        memory=around.memory,
        entry=entry,
        shapes=shapes,
        groups=groups,
        sgprs=np.array(words, np.uint32)[plan.user_words],
        group_id_sgprs=plan.group_id_sgprs,
        group_info_sgpr=plan.group_info_sgpr,
        wave_offset_sgpr=plan.wave_offset_sgpr,
        mode=plan.mode | around.ptr32 * PTR32 | (around.memory.guard is not None) * CHECKED,
        vgpr_count=plan.vgprs,
        lds_bytes=packet.group_segment_size + LDS_GRANULE - 1 & -LDS_GRANULE,
        lds_asked=None if around.memory.guard is None else packet.group_segment_size,
        shared_base=around.shared_base,
        private_base=around.private_base,
        scratch_base=scratch.address if scratch and lane_bytes else 0,
        scratch_lane_bytes=lane_bytes,
        scratch_gap=gap,
        scratch_slots=slots,
        hidden_private_base=scratch.hidden_base if scratch else None,
        **options,
    )


def _check(around: Surroundings, packet: KernelDispatchPacket, grid: Size, workgroup: Size) -> None:
    if not 1 <= packet.dimensions <= 3:
        raise DispatchRefused(
            f"setup says {packet.dimensions} dimensions, expected 1, 2 or 3", BAD_DIMENSION, GRID_CHECKS
        )
    for axis, (items, group) in enumerate(zip(grid, workgroup, strict=True)):
        if not group or not items:
            raise DispatchRefused(f"grid {grid} of work-groups {workgroup} has a 0", BAD_DIMENSION, GRID_CHECKS)
        if axis >= packet.dimensions and (items, group) != (1, 1):
            text = f"{packet.dimensions} dimensions, but grid {grid} of work-groups {workgroup}"
            raise DispatchRefused(text, BAD_DIMENSION, GRID_CHECKS)
    items = workgroup[0] * workgroup[1] * workgroup[2]
    if items > around.workgroup_limit:
        text = f"a work-group of {items} work-items, expected at most {around.workgroup_limit}"
        raise DispatchRefused(text, GROUP_TOO_LARGE, GRID_CHECKS)
    if packet.group_segment_size > around.lds_limit_bytes:
        text = f"{packet.group_segment_size} bytes of LDS, expected at most {around.lds_limit_bytes}"
        raise DispatchRefused(text, BAD_GROUP_MEMORY, GRID_CHECKS)


def _check_registers(vgprs: int, waves: int) -> None:
    """All waves of a work-group are in flight at once."""
    room = SIMDS * (VGPRS // vgprs)
    if waves > room:
        text = f"a work-group of {waves} waves with {vgprs} vector registers each, a compute unit has room for {room}"
        raise DispatchRefused(text, OUT_OF_VGPRS, GRID_CHECKS)


def work_groups(packet: KernelDispatchPacket, workitem_id: int) -> tuple[Shapes, Words32]:
    """Shapes and the table of groups, x fastest. `workitem_id` is enable_vgpr_workitem_id. Not to be written to."""
    total = prod(packet.groups)
    if total > MAX_GROUPS:
        raise BeyondModel(f"a grid of {total} work-groups, at most {MAX_GROUPS} are run in one dispatch")
    make = _small_table if total <= SMALL_GRID else _table
    return make(packet.grid, packet.workgroup, min(workitem_id, 2) + 1)


def _table(grid: Size, workgroup: Size, registers: int) -> tuple[Shapes, Words32]:
    counts = tuple(-(-items // each) for items, each in zip(grid, workgroup, strict=True))
    # In each direction a group is full or what is left over at the edge.
    rests = [items - (count - 1) * each for items, each, count in zip(grid, workgroup, counts, strict=True)]
    ends = tuple(full != rest for full, rest in zip(workgroup, rests, strict=True))
    sizes = [workgroup, rests]
    shapes = Shapes.of([(sizes[x][0], sizes[y][1], sizes[z][2]) for x, y, z in _edges(ends)], registers)
    for array in (shapes.waves, shapes.execs, shapes.vgprs):
        array.setflags(write=False)
    return shapes, (_small_ids if prod(counts) <= SMALL_GRID else _ids)(counts, ends)


def _edges(ends: tuple[bool, ...]) -> Iterator[tuple[int, ...]]:
    """Whether groups are at the edge in x, y and z, for each shape in order. `ends`: where those there are others."""
    return itertools.product(*((0, 1) if differs else (0,) for differs in ends))


def _ids(counts: tuple[int, ...], ends: tuple[bool, ...]) -> Words32:
    """The table of groups: so many in x, y and z."""
    groups = np.zeros((*reversed(counts), 4), np.uint32)
    for axis, count in enumerate(counts):
        if count > 1:
            groups[..., axis] = np.arange(count, dtype=np.uint32).reshape(-1, *(1,) * axis)
    for shape, edge in enumerate(_edges(ends)):  # one at more edges is behind those at fewer
        groups[(*(slice(-at or None, None) for at in reversed(edge)), 3)] = shape
    table = groups.reshape(-1, 4)
    table.setflags(write=False)
    return table


_small_table = lru_cache(KEPT)(_table)
_small_ids = lru_cache(KEPT)(_ids)


def _user_words(
    around: Surroundings, packet: KernelDispatchPacket, packet_address: int, dispatch_id: int
) -> tuple[int, ...]:
    """The words of all user SGPRs that there are, in the order of `USER_SGPRS`."""
    queue, kernarg, private_bytes = around.queue, packet.kernarg_address, packet.private_segment_size
    return (
        *around.v_sharp,
        packet_address & MASK32, packet_address >> 32 & MASK32,
        queue & MASK32, queue >> 32 & MASK32,
        kernarg & MASK32, kernarg >> 32,
        dispatch_id & MASK32, dispatch_id >> 32 & MASK32,
        *_flat_scratch_init(around, private_bytes),
        private_bytes + WORD - 1 & -WORD & MASK32,
        *packet.groups,
    )  # fmt: skip


def _flat_scratch_init(around: Surroundings, private_bytes: int) -> tuple[int, int]:
    """What initialises FLAT_SCRATCH: on GFX9 an address, before it the queue's offset and the bytes of a work-item."""
    scratch = around.scratch
    if around.target.level == GFX9:
        address = scratch.address if scratch else 0
        return address & MASK32, address >> 32 & MASK32
    offset = scratch.address - scratch.hidden_base if scratch else 0
    return offset & MASK32, private_bytes + WORD - 1 & -WORD & MASK32


def _scratch_gap(memory: GpuMemory, scratch: Scratch | None, lane_bytes: int) -> int:
    """What lies between the private memory of two waves where their bounds are looked after.

    The queue's has to be for as many bytes then, or it is made anew.
    """
    known = memory.guard.strides.get(scratch.address) if memory.guard is not None and scratch else None
    if known is None:
        return 0
    if known[0] != lane_bytes:
        text = f"{lane_bytes} bytes of private memory for each work-item, the queue's is for {known[0]}"
        raise DispatchRefused(text, INSUFFICIENT_SCRATCH)
    return known[1] - wave_scratch_bytes(lane_bytes)


def _scratch_slots(scratch: Scratch | None, lane_bytes: int, most_waves: int, gap: int) -> int:
    """Waves whose private memory fits the queue's."""
    wave_bytes = wave_scratch_bytes(lane_bytes) + gap
    slots = scratch.size_bytes // wave_bytes if scratch else 0
    if slots < most_waves:
        text = f"{most_waves} waves of {wave_bytes} bytes of private memory, the queue has room for {slots}"
        raise DispatchRefused(text, INSUFFICIENT_SCRATCH)
    return slots
