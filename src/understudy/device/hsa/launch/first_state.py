"""First machine state of HSA kernels: what packet processor and SPI put into registers before a wave runs.

From a kernel dispatch packet and the kernel's header in memory to a `Dispatch` of the wave engines. Sources: "Initial
kernel register state", "Flat scratch", "AMD Kernel Code Object" of the ROCm Code Object document, and where it
contradicts itself or is silent, the prologues that LLVM writes and what `choices.toml` lists.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from understudy.core.errors import AccessFault, BeyondModel, RuleError
from understudy.core.words import align_up
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.engine.gcn.api import NOWHERE, Dispatch, Shapes, Words32, wave_scratch_bytes
from understudy.engine.gcn.memory import GpuMemory
from understudy.image.hsa.records import USER_SGPRS, CodeProperties, LaunchFacts, Rsrc1, Rsrc2
from understudy.isa.gcn.state import PTR32, VGPRS, Mode
from understudy.isa.gcn.target import GFX9, Target

MOST_USER_SGPRS: Final = 16
"""Hardware has as many USER_DATA registers."""
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
BAD_CODE: Final = 8
GROUP_TOO_LARGE: Final = 64
OUT_OF_VGPRS: Final = 128


class DispatchRefused(RuleError):
    """A packet that the packet processor cannot start; `code` is the queue error that it reports."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


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


def launch(
    around: Surroundings, packet: KernelDispatchPacket, packet_address: int, dispatch_id: int = 0, **options: Any
) -> Dispatch:
    """The dispatch that a packet at `packet_address` asks for; number `dispatch_id` of its queue.

    `options` go to `Dispatch` as they are (step limit, seed, poison, hooks). `DispatchRefused` where the packet
    processor would report a queue error instead, `BeyondModel` for what no agent here has.
    """
    facts = read_facts(around.memory, packet.kernel_object)
    _check(around, packet)
    entry = packet.kernel_object + facts.kernel_code_entry_byte_offset
    if not 0 <= entry < around.memory.limit:
        raise DispatchRefused(f"the kernel's entry {entry:#x} lies beyond all memory", BAD_CODE)
    shapes, groups = work_groups(packet, facts.compute_pgm_rsrc2.enable_vgpr_workitem_id)
    _check_registers(facts.compute_pgm_rsrc1.vgprs, int(shapes.waves.max(initial=0)))
    lane_bytes = align_up(packet.private_segment_size, WORD)
    dispatch_sgprs = _user_sgprs(around, packet, packet_address, dispatch_id, facts.properties)
    rsrc2 = facts.compute_pgm_rsrc2
    system = _system_sgprs(rsrc2)
    slots = _scratch_slots(around.scratch, lane_bytes, int(shapes.waves.max(initial=0)))
    return Dispatch(
        target=around.target,
        memory=around.memory,
        entry=entry,
        shapes=shapes,
        groups=groups,
        sgprs=np.array(dispatch_sgprs[: min(rsrc2.user_sgpr_count, MOST_USER_SGPRS)], np.uint32),
        group_id_sgprs=(system[0], system[1], system[2]),
        group_info_sgpr=system[3],
        wave_offset_sgpr=system[4],
        mode=_mode(facts.compute_pgm_rsrc1) | around.ptr32 * PTR32,
        vgpr_count=facts.compute_pgm_rsrc1.vgprs,
        lds_bytes=align_up(packet.group_segment_size, LDS_GRANULE),
        shared_base=around.shared_base,
        private_base=around.private_base,
        scratch_base=around.scratch.address if around.scratch and lane_bytes else 0,
        scratch_lane_bytes=lane_bytes,
        scratch_slots=slots,
        hidden_private_base=around.scratch.hidden_base if around.scratch else None,
        **options,
    )


def read_facts(memory: GpuMemory, kernel_object: int) -> LaunchFacts:
    """What the header of a kernel in memory says; `DispatchRefused` where there is none."""
    if kernel_object == 0:
        raise DispatchRefused("kernel_object is 0", BAD_CODE)
    if kernel_object % 64:
        raise DispatchRefused(f"kernel_object {kernel_object:#x} is not a multiple of 64", BAD_CODE)
    try:
        return _facts(memory.read(kernel_object, LaunchFacts.size_bytes))
    except AccessFault as fault:
        raise DispatchRefused(f"kernel_object {kernel_object:#x}: {fault}", BAD_CODE) from None


@lru_cache(KEPT)
def _facts(data: bytes) -> LaunchFacts:
    return LaunchFacts.parse(data)


@lru_cache(KEPT)
def _mode(rsrc1: Rsrc1) -> int:
    return Mode.of_rsrc1(int.from_bytes(rsrc1.pack(), "little")).encode()


def _check(around: Surroundings, packet: KernelDispatchPacket) -> None:
    if not 1 <= packet.dimensions <= 3:
        raise DispatchRefused(f"setup says {packet.dimensions} dimensions, expected 1, 2 or 3", BAD_DIMENSION)
    for axis, (grid, group) in enumerate(zip(packet.grid, packet.workgroup, strict=True)):
        if not group or not grid:
            raise DispatchRefused(f"grid {packet.grid} of work-groups {packet.workgroup} has a 0", BAD_DIMENSION)
        if axis >= packet.dimensions and (grid, group) != (1, 1):
            text = f"{packet.dimensions} dimensions, but grid {packet.grid} of work-groups {packet.workgroup}"
            raise DispatchRefused(text, BAD_DIMENSION)
    items = packet.workgroup_size_x * packet.workgroup_size_y * packet.workgroup_size_z
    if items > around.workgroup_limit:
        text = f"a work-group of {items} work-items, expected at most {around.workgroup_limit}"
        raise DispatchRefused(text, GROUP_TOO_LARGE)
    if packet.group_segment_size > around.lds_limit_bytes:
        text = f"{packet.group_segment_size} bytes of LDS, expected at most {around.lds_limit_bytes}"
        raise DispatchRefused(text, BAD_GROUP_MEMORY)


def _check_registers(vgprs: int, waves: int) -> None:
    """All waves of a work-group are in flight at once."""
    room = SIMDS * (VGPRS // vgprs)
    if waves > room:
        text = f"a work-group of {waves} waves with {vgprs} vector registers each, a compute unit has room for {room}"
        raise DispatchRefused(text, OUT_OF_VGPRS)


def work_groups(packet: KernelDispatchPacket, workitem_id: int) -> tuple[Shapes, Words32]:
    """Shapes and the table of groups, x fastest. `workitem_id` is enable_vgpr_workitem_id. Not to be written to."""
    counts = [-(-grid // group) for grid, group in zip(packet.grid, packet.workgroup, strict=True)]
    total = counts[0] * counts[1] * counts[2]
    if total > MAX_GROUPS:
        raise BeyondModel(f"a grid of {total} work-groups, at most {MAX_GROUPS} are run in one dispatch")
    make = _small_table if total <= SMALL_GRID else _table
    return make(packet.grid, packet.workgroup, min(workitem_id, 2) + 1)


def _table(grid: Size, workgroup: Size, registers: int) -> tuple[Shapes, Words32]:
    counts = [-(-items // each) for items, each in zip(grid, workgroup, strict=True)]
    total = counts[0] * counts[1] * counts[2]
    numbers = np.arange(total, dtype=np.uint32)
    groups = np.zeros((total, 4), np.uint32)
    groups[:, 0] = numbers % counts[0]
    groups[:, 1] = numbers // counts[0] % counts[1]
    groups[:, 2] = numbers // (counts[0] * counts[1])
    # In each direction a group is full or what is left over at the edge.
    sizes = [(each, items - (count - 1) * each) for items, each, count in zip(grid, workgroup, counts, strict=True)]
    kinds: dict[tuple[int, int, int], int] = {}
    shape = np.zeros((2, 2, 2), np.uint32)
    for edge in itertools.product((0, 1), repeat=3):
        size = (sizes[0][edge[0]], sizes[1][edge[1]], sizes[2][edge[2]])
        shape[edge] = kinds.setdefault(size, len(kinds))
    last = [(groups[:, axis] == counts[axis] - 1).astype(np.intp) for axis in range(3)]
    groups[:, 3] = shape[last[0], last[1], last[2]]
    shapes = Shapes.of(list(kinds), registers)
    for array in (groups, shapes.waves, shapes.execs, shapes.vgprs):
        array.setflags(write=False)
    return shapes, groups


_small_table = lru_cache(KEPT)(_table)


def _user_sgprs(
    around: Surroundings, packet: KernelDispatchPacket, packet_address: int, dispatch_id: int, enable: CodeProperties
) -> list[int]:
    """The words that enabled user SGPRs get, in the order of the document's table."""
    counts = [-(-grid // group) for grid, group in zip(packet.grid, packet.workgroup, strict=True)]
    values = (
        _descriptor(around),
        _pair(packet_address),
        _pair(around.queue),
        _pair(packet.kernarg_address),
        _pair(dispatch_id),
        flat_scratch_init(around, packet.private_segment_size),
        (align_up(packet.private_segment_size, WORD),),
        *((count,) for count in counts),
    )
    words: list[int] = []
    for (name, size), value in zip(USER_SGPRS, values, strict=True):
        if getattr(enable, name):
            assert len(value) == size
            words += value
    return words


def flat_scratch_init(around: Surroundings, private_bytes: int) -> tuple[int, int]:
    """What initialises FLAT_SCRATCH: on GFX9 an address, before it the queue's offset and the bytes of a work-item."""
    scratch = around.scratch
    address = scratch.address if scratch else 0
    if around.target.level == GFX9:
        return _pair(address)
    offset = address - scratch.hidden_base if scratch else 0
    return offset & MASK32, align_up(private_bytes, WORD)


def _descriptor(around: Surroundings) -> tuple[int, int, int, int]:
    if around.descriptor is not None:
        return around.descriptor
    return around.scratch.resource_descriptor(around.target.level) if around.scratch else (0, 0, 0, 0)


def _system_sgprs(rsrc2: Rsrc2) -> list[int]:
    """Registers of work-group id x, y, z, work-group info and scratch wave offset; `NOWHERE` where not enabled."""
    enabled = (
        rsrc2.enable_sgpr_workgroup_id_x,
        rsrc2.enable_sgpr_workgroup_id_y,
        rsrc2.enable_sgpr_workgroup_id_z,
        rsrc2.enable_sgpr_workgroup_info,
        rsrc2.enable_sgpr_private_segment_wave_byte_offset,
    )
    numbers, at = [], rsrc2.user_sgpr_count
    for bit in enabled:
        numbers.append(at if bit else NOWHERE)
        at += bit
    return numbers


def _scratch_slots(scratch: Scratch | None, lane_bytes: int, most_waves: int) -> int:
    """Waves whose private memory fits the queue's."""
    if not lane_bytes:
        return 0
    wave_bytes = wave_scratch_bytes(lane_bytes)
    slots = scratch.size_bytes // wave_bytes if scratch else 0
    if slots < most_waves:
        text = f"{most_waves} waves of {wave_bytes} bytes of private memory, the queue has room for {slots}"
        raise DispatchRefused(text, INSUFFICIENT_SCRATCH)
    return slots


def _pair(value: int) -> tuple[int, int]:
    return value & MASK32, value >> 32 & MASK32
