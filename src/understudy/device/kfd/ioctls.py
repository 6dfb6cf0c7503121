"""Arguments of the driver's ioctls, as <linux/kfd_ioctl.h> declares them, and their numbers.

A program's own declaration may be older and shorter, or newer and longer, than these: as in the driver, what it does
not give is 0, and it gets back as much as it gave.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from understudy.core.record import Record, i32, raw, u32, u64

TYPE: Final = ord("K")
VERSION: Final = (1, 9)
"""The interface's version: run-time libraries of ROCm 6 need AVAILABLE_MEMORY, which came with 1.9."""
MOST_BYTES: Final = 256
"""Of an argument that anybody knows."""


class Number(IntEnum):
    """Which ioctl: the low byte of its request."""

    GET_VERSION = 0x01
    CREATE_QUEUE = 0x02
    DESTROY_QUEUE = 0x03
    SET_MEMORY_POLICY = 0x04
    GET_CLOCK_COUNTERS = 0x05
    UPDATE_QUEUE = 0x07
    CREATE_EVENT = 0x08
    DESTROY_EVENT = 0x09
    SET_EVENT = 0x0A
    RESET_EVENT = 0x0B
    WAIT_EVENTS = 0x0C
    SET_SCRATCH_BACKING_VA = 0x11
    GET_TILE_CONFIG = 0x12
    SET_TRAP_HANDLER = 0x13
    GET_PROCESS_APERTURES_NEW = 0x14
    ACQUIRE_VM = 0x15
    ALLOC_MEMORY_OF_GPU = 0x16
    FREE_MEMORY_OF_GPU = 0x17
    MAP_MEMORY_TO_GPU = 0x18
    UNMAP_MEMORY_FROM_GPU = 0x19
    SET_CU_MASK = 0x1A
    SET_XNACK_MODE = 0x21
    AVAILABLE_MEMORY = 0x23


class QueueKind(IntEnum):
    """queue_type: PM4 commands, copies, or AQL packets."""

    COMPUTE = 0
    SDMA = 1
    COMPUTE_AQL = 2
    SDMA_XGMI = 3


class EventKind(IntEnum):
    """event_type, as far as anything happens to them."""

    SIGNAL = 0
    HW_EXCEPTION = 3
    MEMORY = 8


class AllocFlags(IntFlag):
    """What memory is, and how it may be used."""

    VRAM = 1 << 0
    GTT = 1 << 1
    USERPTR = 1 << 2
    DOORBELL = 1 << 3
    MMIO_REMAP = 1 << 4
    AQL_QUEUE_MEM = 1 << 27
    PUBLIC = 1 << 29
    EXECUTABLE = 1 << 30
    WRITABLE = 1 << 31


class WaitResult(IntEnum):
    """How a wait for events ended."""

    COMPLETE = 0
    TIMEOUT = 1


class GetVersion(Record, size=8):
    """Which interface this is."""

    major_version: int = u32()
    minor_version: int = u32()


class CreateQueue(Record, size=88):
    """A ring of the program becomes a queue."""

    ring_base_address: int = u64()
    write_pointer_address: int = u64()
    read_pointer_address: int = u64()
    doorbell_offset: int = u64(default=0)
    ring_size: int = u32()
    gpu_id: int = u32()
    queue_type: int = u32()
    queue_percentage: int = u32(default=100)
    queue_priority: int = u32(default=7)
    queue_id: int = u32(default=0)
    eop_buffer_address: int = u64(default=0)
    eop_buffer_size: int = u64(default=0)
    ctx_save_restore_address: int = u64(default=0)
    ctx_save_restore_size: int = u32(default=0)
    ctl_stack_size: int = u32(default=0)


class DestroyQueue(Record, size=8):
    """A queue ends."""

    queue_id: int = u32()
    pad: int = u32(default=0)


class UpdateQueue(Record, size=24):
    """A queue's ring or share changes; without a ring or a share it stops."""

    ring_base_address: int = u64()
    queue_id: int = u32()
    ring_size: int = u32()
    queue_percentage: int = u32()
    queue_priority: int = u32()


class SetMemoryPolicy(Record, size=32):
    """How caches treat memory, on agents whose page tables do not say."""

    alternate_aperture_base: int = u64()
    alternate_aperture_size: int = u64()
    gpu_id: int = u32()
    default_policy: int = u32()
    alternate_policy: int = u32()
    pad: int = u32(default=0)


class GetClockCounters(Record, size=40):
    """The clocks, read at the same time."""

    gpu_clock_counter: int = u64(default=0)
    cpu_clock_counter: int = u64(default=0)
    system_clock_counter: int = u64(default=0)
    system_clock_freq: int = u64(default=0)
    gpu_id: int = u32()
    pad: int = u32(default=0)


class CreateEvent(Record, size=32):
    """An event; the first one brings the page of slots."""

    event_page_offset: int = u64(default=0)
    event_trigger_data: int = u32(default=0)
    event_type: int = u32()
    auto_reset: int = u32(default=0)
    node_id: int = u32(default=0)
    event_id: int = u32(default=0)
    event_slot_index: int = u32(default=0)


class OneEvent(Record, size=8):
    """Of SET_EVENT, RESET_EVENT and DESTROY_EVENT."""

    event_id: int = u32()
    pad: int = u32(default=0)


class WaitEvents(Record, size=24):
    """Wait for one or all of an array of `EventData`."""

    events_ptr: int = u64()
    num_events: int = u32()
    wait_for_all: int = u32()
    timeout: int = u32()
    wait_result: int = u32(default=0)


class MemoryException(Record, size=32):
    """What a memory event tells: see kfd_hsa_memory_exception_data."""

    not_present: int = u32(default=0)
    read_only: int = u32(default=0)
    no_execute: int = u32(default=0)
    imprecise: int = u32(default=0)
    va: int = u64(default=0)
    gpu_id: int = u32(default=0)
    error_type: int = u32(default=0)


class EventData(Record, size=48):
    """One event of a wait, and what happened."""

    data: bytes = raw(32)
    ext: int = u64(default=0)
    event_id: int = u32()
    pad: int = u32(default=0)


class SetScratchBackingVa(Record, size=16):
    """From where waves of GFX7 and GFX8 count private memory."""

    va_addr: int = u64()
    gpu_id: int = u32()
    pad: int = u32(default=0)


class GetTileConfig(Record, size=40):
    """How images are tiled."""

    tile_config_ptr: int = u64()
    macro_tile_config_ptr: int = u64()
    num_tile_configs: int = u32()
    num_macro_tile_configs: int = u32()
    gpu_id: int = u32()
    gb_addr_config: int = u32(default=0)
    num_banks: int = u32(default=0)
    num_ranks: int = u32(default=0)


class SetTrapHandler(Record, size=24):
    """Code and memory of a trap handler."""

    tba_addr: int = u64()
    tma_addr: int = u64()
    gpu_id: int = u32()
    pad: int = u32(default=0)


class Apertures(Record, size=56):
    """Which addresses mean what to one agent; limits are the last byte."""

    lds_base: int = u64()
    lds_limit: int = u64()
    scratch_base: int = u64()
    scratch_limit: int = u64()
    gpuvm_base: int = u64()
    gpuvm_limit: int = u64()
    gpu_id: int = u32()
    pad: int = u32(default=0)


class GetProcessAperturesNew(Record, size=16):
    """An array of `Apertures` to be filled; without room in it, how many there are."""

    kfd_process_device_apertures_ptr: int = u64()
    num_of_nodes: int = u32()
    pad: int = u32(default=0)


class AcquireVm(Record, size=8):
    """The address space of a render node becomes that of the process on an agent."""

    drm_fd: int = u32()
    gpu_id: int = u32()


class AllocMemoryOfGpu(Record, size=40):
    """Memory at an address that the program has chosen; `mmap_offset` is, for its own memory, where that is."""

    va_addr: int = u64()
    size: int = u64()
    handle: int = u64(default=0)
    mmap_offset: int = u64(default=0)
    gpu_id: int = u32()
    flags: int = u32()


class FreeMemoryOfGpu(Record, size=8):
    """Memory is given back."""

    handle: int = u64()


class MapMemory(Record, size=24):
    """Of MAP_MEMORY_TO_GPU and UNMAP_MEMORY_FROM_GPU: the agents are in an array of gpu_ids."""

    handle: int = u64()
    device_ids_array_ptr: int = u64()
    n_devices: int = u32()
    n_success: int = u32(default=0)


class SetCuMask(Record, size=16):
    """Compute units that a queue may use."""

    queue_id: int = u32()
    num_cu_mask: int = u32()
    cu_mask_ptr: int = u64()


class SetXnackMode(Record, size=4):
    """Whether waves wait for pages; negative: only ask."""

    xnack_enabled: int = i32()


class AvailableMemory(Record, size=16):
    """How much memory can be allocated."""

    available: int = u64(default=0)
    gpu_id: int = u32()
    pad: int = u32(default=0)
