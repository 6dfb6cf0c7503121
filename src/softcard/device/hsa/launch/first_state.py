"""The initial machine state of HSA kernels: the registers that packet processor and SPI set.

This module converts a kernel dispatch packet and the kernel's header in memory to a `Dispatch` for the wave
engines. Its sources are "Initial kernel register state", "Flat scratch" and "AMD Kernel Code Object" of the
ROCm Code Object specification. Where the specification contradicts itself or is silent, the sources are the
prologues that LLVM generates and the choices in `choices.toml`."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from softcard.core.errors import AccessFault, BeyondModel
from softcard.device.hsa.launch.plan import BAD_CODE, KERNARG_BYTES, DispatchRefused, LaunchPlan, Preload, read_plan
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.device.hsa.rules import (
    ALLOCATED_REGISTERS,
    GRID_CHECKS,
    KERNARG_ALIGNMENT,
    KERNARG_PRELOAD,
    KERNEL_OBJECT,
    TG_SPLIT,
)
from softcard.engine.gcn.api import Dispatch, Shapes, Words32, wave_scratch_bytes
from softcard.engine.gcn.memory import GpuMemory
from softcard.ir.object_cache import ObjectCache, default_folder
from softcard.isa.gcn.state import CHECKED, PTR32, VGPRS
from softcard.isa.gcn.target import GFX9, Target

if TYPE_CHECKING:
    from softcard.isa.gcn.allocation import Beyond

LDS_GRANULE: Final = 512
SIMDS: Final = 4
"""The number of SIMDs of a compute unit, which runs a work-group.

Each SIMD has `VGPRS` vector registers for its waves, and twice as many from gfx90a on.
"""
WORD: Final = 4
MASK32: Final = 0xFFFF_FFFF
MAX_GROUPS: Final = 1 << 24
"""The maximum number of work-groups of one dispatch; the engine gets a table that lists all of them."""

SMALL_GRID: Final = 4096
"""The maximum number of work-groups of a dispatch whose table of work-groups is cached for later launches."""
CACHED_TABLES: Final = 64
FORM_OF_SEARCH: Final = "registers 1"
"""A part of the keys of cached searches. It changes with the code of `isa.gcn.allocation`."""
CACHED_SEARCH: Final = 1 << 16
"""The maximum number of bytes of code for which a search for registers is cached on disk."""

Size = tuple[int, int, int]

# Queue error codes, as bits in queue_inactive_signal.
INSUFFICIENT_SCRATCH: Final = 1
BAD_DIMENSION: Final = 2
INVALID_PACKET: Final = 0x20
BAD_GROUP_MEMORY: Final = 4
GROUP_TOO_LARGE: Final = 64
OUT_OF_VGPRS: Final = 128


@dataclass(frozen=True, slots=True)
class Scratch:
    """The private memory of a queue: `size_bytes` at guest address `address`, for all its waves together.

    `hidden_base` is SH_HIDDEN_PRIVATE_BASE_VIMID, the base of private memory's addresses on GFX7 and GFX8.
    """

    address: int
    size_bytes: int
    hidden_base: int = 0

    def resource_descriptor(self, level: int) -> tuple[int, int, int, int]:
        """Return the V# of the private memory, in the format of GFX level `level`.

        The runtime writes this V# to amd_queue_t.scratch_resource_descriptor. It is swizzled by 4 bytes over 64 lanes
        and adds the lane to the index. It has stride 0, `size_bytes` records, and four unsigned 32-bit components
        XYZW."""
        word1 = self.address >> 32 & 0xFFFF | 1 << 31  # swizzle enable
        element_size = 0 if level == GFX9 else 1 << 19
        word3 = 0xFAC | 4 << 12 | 4 << 15 | element_size | 3 << 21 | 1 << 23
        return self.address & MASK32, word1, min(self.size_bytes, MASK32), word3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The inputs of a launch that come from the agent and the queue, not from the packet.

    `queue` is the address of amd_queue_t. `descriptor` is the queue's scratch_resource_descriptor if it does not
    match `scratch`, else None. `shared_base` and `private_base` are the apertures: flat addresses whose upper
    halves select LDS and private memory. With `ptr32` (SH_MEM_CONFIG.PTR32, the small machine model) pointers
    have 32 bits, and the apertures contain only these upper halves. With `takes_any_kernarg`, the alignment of the
    address of kernel arguments is not checked."""

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
    xccs: int = 1
    takes_any_kernarg: bool = False

    @property
    def v_sharp(self) -> tuple[int, int, int, int]:
        """The words of the V# that kernels get for private memory."""
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
    """Return the dispatch for the packet at `packet_address`, packet number `dispatch_id` of its queue.

    `plan` is the kernel's launch plan, or None to read it from memory. `options` are passed to `Dispatch` (step limit,
    seed, poison, hooks). Raise `DispatchRefused` if the packet processor would report a queue error, and `BeyondModel`
    for features that no supported agent has.
    """
    plan = plan or read_plan(around.memory, packet.kernel_object, around.target)
    grid, group = packet.grid, packet.workgroup
    _check(around, packet, grid, group)
    is_odd = packet.kernarg_address % KERNARG_BYTES and not around.takes_any_kernarg
    if is_odd and plan.has_arguments(around.memory, packet.kernel_object):
        raise DispatchRefused(
            f"kernarg_address is {packet.kernarg_address:#x}, expected a multiple of {KERNARG_BYTES}",
            INVALID_PACKET,
            KERNARG_ALIGNMENT,
        )
    if plan.tg_split and packet.group_segment_size:
        text = f"{packet.group_segment_size} bytes of LDS for a kernel with TG_SPLIT, expected 0"
        raise DispatchRefused(text, BAD_GROUP_MEMORY, TG_SPLIT)
    entry = packet.kernel_object + plan.entry_offset
    if not 0 <= entry < around.memory.limit:
        raise DispatchRefused(f"the kernel's entry {entry:#x} is outside of the address space", BAD_CODE, KERNEL_OBJECT)
    if around.target.has_unified_registers:
        _check_code(around.memory, entry, plan, around.target)
    shapes, groups = work_groups(grid, group, plan.workitem_id, packed=around.target.has_packed_ids)
    most_waves = shapes.most_waves
    check_registers(plan.allocated_vgprs, most_waves, around.target)
    scratch, lane_bytes = around.scratch, packet.private_segment_size + WORD - 1 & -WORD
    gap = _scratch_gap(around.memory, scratch, lane_bytes) if lane_bytes else 0
    slots = _scratch_slots(scratch, lane_bytes, most_waves, gap) if lane_bytes else 0
    words = _user_words(around, packet, packet_address, dispatch_id)
    sgprs = np.array(words, np.uint32)[plan.user_words]
    if plan.preload is not None:
        sgprs = np.concatenate([sgprs, preloaded(around.memory, packet.kernarg_address, plan.preload)])
    return Dispatch(
        target=around.target,
        memory=around.memory,
        entry=entry,
        shapes=shapes,
        groups=groups,
        sgprs=sgprs,
        argument_sgprs=range(plan.preload.sgpr if plan.preload else len(sgprs), len(sgprs)),
        group_id_sgprs=plan.group_id_sgprs,
        group_info_sgpr=plan.group_info_sgpr,
        wave_offset_sgpr=plan.wave_offset_sgpr,
        sets_flat_scratch=plan.sets_flat_scratch and lane_bytes > 0,
        tg_split=plan.tg_split,
        xccs=around.xccs,
        mode=plan.mode | around.ptr32 * PTR32 | (around.memory.guard is not None) * CHECKED,
        vgpr_count=plan.vgprs,
        lds_bytes=packet.group_segment_size + LDS_GRANULE - 1 & -LDS_GRANULE,
        lds_requested=None if around.memory.guard is None else packet.group_segment_size,
        shared_base=around.shared_base,
        private_base=around.private_base,
        scratch_base=scratch.address if scratch and lane_bytes else 0,
        scratch_lane_bytes=lane_bytes,
        scratch_gap=gap,
        scratch_slots=slots,
        hidden_private_base=scratch.hidden_base if scratch else None,
        **options,
    )


_searched: Final[WeakKeyDictionary[GpuMemory, dict[tuple[int, int, int], tuple[bytes, Beyond | None]]]] = (
    WeakKeyDictionary()
)
"""The code that was searched for registers that are not allocated, with the first instruction that has one, or None.

The keys are the entry, and the numbers of allocated vector and accumulation registers.
"""


def _check_code(memory: GpuMemory, entry: int, plan: LaunchPlan, target: Target) -> None:
    """Raise `DispatchRefused` if the code at `entry` names a vector register that the kernel does not allocate.

    Hardware has other registers, or those of another kind, in their place.
    """
    plain = memory.plain(entry, WORD)
    if plain is None or entry % WORD:
        return  # the engine reports it
    accs = plan.allocated_vgprs - plan.vgprs
    view = plain.view[entry - plain.base : plain.end - plain.base & -WORD]
    known = _searched.setdefault(memory, {})
    code, beyond = known.get((entry, plan.vgprs, accs), (b"", None))
    if not code or view[: len(code)] != code:
        beyond, count = _search(target, view, entry, plan.vgprs, accs)
        if len(known) == CACHED_TABLES:
            known.clear()
        known[entry, plan.vgprs, accs] = bytes(view[: WORD * count]), beyond
    if beyond is not None:
        refused = DispatchRefused(beyond.message, BAD_CODE, ALLOCATED_REGISTERS)
        raise refused.at("pc", beyond.insn.pc, beyond.instruction)


def _search(target: Target, view: memoryview, entry: int, vgprs: int, accs: int) -> tuple[Beyond | None, int]:
    """Return the first instruction with a register that is not allocated, and the number of words that were searched.

    Searches without such a register are cached on disk, so that a process which runs known kernels does not load the
    instruction set.
    """
    start = view[:CACHED_SEARCH]
    key = hashlib.sha256(repr((FORM_OF_SEARCH, target.name, vgprs, accs)).encode() + start).hexdigest()
    known = _cache().get(key)
    if known is not None:
        return None, int.from_bytes(known, "little")
    from softcard.isa.gcn.allocation import beyond_allocation

    search = beyond_allocation(target, np.frombuffer(view, np.uint32), entry, vgprs, accs)
    if search.found is None and WORD * search.searched <= CACHED_SEARCH:
        _cache().put(key, search.searched.to_bytes(8, "little"))
    return search


@cache
def _cache() -> ObjectCache:
    return ObjectCache(default_folder())


def _check(around: Surroundings, packet: KernelDispatchPacket, grid: Size, workgroup: Size) -> None:
    if not 1 <= packet.dimensions <= 3:
        raise DispatchRefused(
            f"setup says {packet.dimensions} dimensions, expected 1, 2 or 3", BAD_DIMENSION, GRID_CHECKS
        )
    for axis, (items, group) in enumerate(zip(grid, workgroup, strict=True)):
        if not group or not items:
            raise DispatchRefused(
                f"grid size {grid} or work-group size {workgroup} has a 0, expected 1 or more in each dimension",
                BAD_DIMENSION,
                GRID_CHECKS,
            )
        if axis >= packet.dimensions and (items, group) != (1, 1):
            text = (
                f"setup gives {packet.dimensions} dimensions, but grid size {grid} or work-group size {workgroup} "
                "has more"
            )
            raise DispatchRefused(text, BAD_DIMENSION, GRID_CHECKS)
    check_limits(around, prod(workgroup), packet.group_segment_size)


def check_limits(around: Surroundings, items: int, lds_bytes: int) -> None:
    """Raise `DispatchRefused` if a work-group has more work-items or LDS than the agent supports."""
    if items > around.workgroup_limit:
        text = f"the work-group has {items} work-items, expected at most {around.workgroup_limit}"
        raise DispatchRefused(text, GROUP_TOO_LARGE, GRID_CHECKS)
    if lds_bytes > around.lds_limit_bytes:
        text = f"the kernel needs {lds_bytes} bytes of LDS, expected at most {around.lds_limit_bytes}"
        raise DispatchRefused(text, BAD_GROUP_MEMORY, GRID_CHECKS)


def preloaded(memory: GpuMemory, kernarg: int, preload: Preload) -> Words32:
    """Return the kernel arguments at `kernarg` that are preloaded into user SGPRs.

    Raise `DispatchRefused` if they cannot be read.
    """
    address = kernarg + preload.offset
    try:
        return np.frombuffer(memory.read(address, 4 * preload.dwords), np.uint32)
    except AccessFault as fault:
        text = f"{preload.dwords} dwords of arguments to preload from {address:#x}: {fault}"
        raise DispatchRefused(text, INVALID_PACKET, KERNARG_PRELOAD) from None


def check_registers(vgprs: int, waves: int, target: Target) -> None:
    """Raise an error unless a work-group of `waves` waves with `vgprs` registers each fits one compute unit.

    All waves of a work-group must be in flight at once.
    """
    rows = 2 * VGPRS if target.has_unified_registers else VGPRS
    room = SIMDS * (rows // vgprs)
    if waves > room:
        text = (
            f"the work-group has {waves} waves with {vgprs} vector registers each, but a compute unit has room for "
            f"{room} such waves"
        )
        raise DispatchRefused(text, OUT_OF_VGPRS, GRID_CHECKS)


def work_groups(grid: Size, workgroup: Size, workitem_id: int, *, packed: bool = False) -> tuple[Shapes, Words32]:
    """Return the shapes of the work-groups and the table of all work-groups; both are read-only.

    `grid` and `workgroup` are sizes in work-items. In the table, x varies fastest. `workitem_id` is the field
    enable_vgpr_workitem_id of the kernel. `packed` is True if one register has all coordinates of a work-item."""
    (width, height, depth), (x, y, z) = grid, workgroup
    total = -(-width // x) * -(-height // y) * -(-depth // z)
    if total > MAX_GROUPS:
        raise BeyondModel(f"the grid has {total} work-groups, expected at most {MAX_GROUPS} in one dispatch")
    make = _small_table if total <= SMALL_GRID else _table
    return make(grid, workgroup, min(workitem_id, 2) + 1, packed)


def _table(grid: Size, workgroup: Size, coordinates: int, packed: bool) -> tuple[Shapes, Words32]:
    counts = tuple(-(-items // each) for items, each in zip(grid, workgroup, strict=True))
    # In each direction a group is full, or is the partial one at the edge.
    rests = [items - (count - 1) * each for items, each, count in zip(grid, workgroup, counts, strict=True)]
    ends = tuple(full != rest for full, rest in zip(workgroup, rests, strict=True))
    sizes = [workgroup, rests]
    shapes = Shapes.of(
        [(sizes[x][0], sizes[y][1], sizes[z][2]) for x, y, z in _edges(ends)], coordinates, packed=packed
    )
    for array in (shapes.waves, shapes.execs, shapes.vgprs):
        array.setflags(write=False)
    return shapes, (_small_ids if prod(counts) <= SMALL_GRID else _ids)(counts, ends)


def _edges(ends: tuple[bool, ...]) -> Iterator[tuple[int, ...]]:
    """Yield a tuple of three numbers for each shape of work-groups, in the order of the shapes.

    Each number is for one axis (x, y, z). It is 1 if work-groups of the shape are at the grid's edge on this axis
    and have another size there, else 0. `ends` has True for each axis with such work-groups."""
    return itertools.product(*((0, 1) if differs else (0,) for differs in ends))


def _ids(counts: tuple[int, ...], ends: tuple[bool, ...]) -> Words32:
    """Return the table of all work-groups: the coordinates and the shape number of each.

    `counts` has the number of work-groups in x, y and z. `ends` has True for each axis in which the work-groups
    at the edge have another size."""
    groups = np.zeros((*reversed(counts), 4), np.uint32)
    for axis, count in enumerate(counts):
        if count > 1:
            groups[..., axis] = np.arange(count, dtype=np.uint32).reshape(-1, *(1,) * axis)
    for shape, edge in enumerate(_edges(ends)):  # a shape at more edges follows those at fewer
        groups[(*(slice(-at or None, None) for at in reversed(edge)), 3)] = shape
    table = groups.reshape(-1, 4)
    table.setflags(write=False)
    return table


_small_table = lru_cache(CACHED_TABLES)(_table)
_small_ids = lru_cache(CACHED_TABLES)(_ids)


def _user_words(
    around: Surroundings, packet: KernelDispatchPacket, packet_address: int, dispatch_id: int
) -> tuple[int, ...]:
    """Return the words of all user SGPRs that a kernel can request, in the order of `USER_SGPRS`."""
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
    """Return the two words of the initial FLAT_SCRATCH.

    On GFX9 they are the address of the queue's private memory. On GFX7 and GFX8 they are the offset of that
    memory and the bytes per work-item."""
    scratch = around.scratch
    if around.target.level == GFX9:
        address = scratch.address if scratch else 0
        return address & MASK32, address >> 32 & MASK32
    offset = scratch.address - scratch.hidden_base if scratch else 0
    return offset & MASK32, private_bytes + WORD - 1 & -WORD & MASK32


def _scratch_gap(memory: GpuMemory, scratch: Scratch | None, lane_bytes: int) -> int:
    """Return the number of unused bytes between the private memory of two waves.

    It is 0 unless the bounds of private memory are checked. With this check, raise `DispatchRefused` if the
    queue's private memory was not allocated for exactly `lane_bytes` per work-item; the error makes the
    runtime allocate private memory for this size."""
    known = memory.guard.strides.get(scratch.address) if memory.guard is not None and scratch else None
    if known is None:
        return 0
    if known[0] != lane_bytes:
        text = f"a work-item needs {lane_bytes} bytes of private memory, but the queue provides {known[0]}"
        raise DispatchRefused(text, INSUFFICIENT_SCRATCH)
    return known[1] - wave_scratch_bytes(lane_bytes)


def _scratch_slots(scratch: Scratch | None, lane_bytes: int, most_waves: int, gap: int) -> int:
    """Return the number of waves whose private memory fits into the queue's private memory.

    `lane_bytes` are the bytes per work-item, `gap` those between two waves. Raise `DispatchRefused` if the number is
    less than `most_waves`.
    """
    wave_bytes = wave_scratch_bytes(lane_bytes) + gap
    slots = scratch.size_bytes // wave_bytes if scratch else 0
    if slots < most_waves:
        text = (
            f"{most_waves} waves need {wave_bytes} bytes of private memory each, but the queue has room for {slots} "
            "waves"
        )
        raise DispatchRefused(text, INSUFFICIENT_SCRATCH)
    return slots
