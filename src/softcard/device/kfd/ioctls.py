"""The ioctls of the Linux kernel driver for AMD GPUs (KFD): arguments, numbers and errors.

The structures of the arguments are those of <linux/kfd_ioctl.h>. A program compiled with an older or newer
header may pass a shorter or longer argument. As in the driver, missing fields are 0, and the reply has as
many bytes as the program's argument."""

from __future__ import annotations

import errno
import time
from enum import IntEnum, IntFlag
from typing import Final

from softcard.core.errors import BeyondModel, SoftcardError
from softcard.core.record import Record, i32, raw, u32, u64


class Refused(SoftcardError):
    """The error with which a system call fails; `errno` is the error number that the program gets."""

    def __init__(self, message: str, number: int = errno.EINVAL) -> None:
        super().__init__(message)
        self.errno = number


class NotModelled(Refused, BeyondModel):
    """The error for an ioctl that the driver has and that Softcard does not model."""


def bad_address(message: str) -> Refused:
    """Return the error EFAULT with the message `message`, for an address that the program has not mapped."""
    return Refused(message, errno.EFAULT)


TYPE: Final = ord("K")
VERSION: Final = (1, 14)
"""The version of the interface.

Run-time libraries of ROCm 6 need AVAILABLE_MEMORY, which 1.9 added. 1.13 added RUNTIME_ENABLE, and 1.14 the ages of
signal events.
"""
MOST_BYTES: Final = 256
"""The maximum size of an argument in bytes, in any version of the interface."""


class Number(IntEnum):
    """The numbers of ioctls, which are in the low byte of a request."""

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
    RUNTIME_ENABLE = 0x25


class Unmodelled(IntEnum):
    """The numbers of ioctls that are not modelled; `UNMODELLED` has their purpose and errno.

    Those from 0x80 on are in AMD's own version of the driver only.
    """

    GET_QUEUE_WAVE_STATE = 0x1B
    GET_DMABUF_INFO = 0x1C
    IMPORT_DMABUF = 0x1D
    ALLOC_QUEUE_GWS = 0x1E
    SMI_EVENTS = 0x1F
    SVM = 0x20
    CRIU_OP = 0x22
    EXPORT_DMABUF = 0x24
    DBG_TRAP = 0x26
    IPC_IMPORT_HANDLE = 0x80
    IPC_EXPORT_HANDLE = 0x81


UNMODELLED: Final = {
    Unmodelled.GET_QUEUE_WAVE_STATE: ("saved waves of a queue", errno.EINVAL),
    Unmodelled.GET_DMABUF_INFO: ("memory of other drivers", errno.EINVAL),
    Unmodelled.IMPORT_DMABUF: ("memory of other drivers", errno.EINVAL),
    Unmodelled.ALLOC_QUEUE_GWS: ("the barrier of all work-groups (GWS)", errno.ENODEV),
    Unmodelled.SMI_EVENTS: ("events for system management", errno.EINVAL),
    Unmodelled.SVM: ("attributes of shared virtual memory", errno.EPERM),
    Unmodelled.CRIU_OP: ("checkpoints of processes", errno.EPERM),
    Unmodelled.EXPORT_DMABUF: ("memory for other drivers", errno.EINVAL),
    Unmodelled.DBG_TRAP: ("debuggers", errno.EPERM),
    Unmodelled.IPC_IMPORT_HANDLE: ("memory of other processes", errno.EOPNOTSUPP),
    Unmodelled.IPC_EXPORT_HANDLE: ("memory for other processes", errno.EOPNOTSUPP),
}
"""The purpose of each ioctl that is not modelled, and the errno of its error."""


class QueueKind(IntEnum):
    """The values of the field queue_type: a queue for PM4 commands, for copies, or for AQL packets."""

    COMPUTE = 0
    SDMA = 1
    COMPUTE_AQL = 2
    SDMA_XGMI = 3


class EventKind(IntEnum):
    """The values of the field event_type for the kinds of events that the driver signals."""

    SIGNAL = 0
    HW_EXCEPTION = 3
    MEMORY = 8


class AllocFlags(IntFlag):
    """The flags of ALLOC_MEMORY_OF_GPU: the kind of memory, and its permitted uses."""

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
    """The possible results of WAIT_EVENTS: the wait is complete, or the timeout has expired."""

    COMPLETE = 0
    TIMEOUT = 1


class GetVersion(Record, size=8):
    """The argument of an ioctl that gets the version of the interface."""

    major_version: int = u32()
    minor_version: int = u32()


class CreateQueue(Record, size=88):
    """The argument of an ioctl that makes a queue for a ring of the program."""

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
    """The argument of an ioctl that ends a queue."""

    queue_id: int = u32()
    pad: int = u32(default=0)


class UpdateQueue(Record, size=24):
    """The argument of an ioctl that changes a queue's ring or its percentage of time.

    A queue without a ring, or with percentage 0, is not served."""

    ring_base_address: int = u64()
    queue_id: int = u32()
    ring_size: int = u32()
    queue_percentage: int = u32()
    queue_priority: int = u32()


class SetMemoryPolicy(Record, size=32):
    """The argument of an ioctl that sets the cache policy of memory.

    Agents whose page tables contain no cache policy need it."""

    alternate_aperture_base: int = u64()
    alternate_aperture_size: int = u64()
    gpu_id: int = u32()
    default_policy: int = u32()
    alternate_policy: int = u32()
    pad: int = u32(default=0)


class GetClockCounters(Record, size=40):
    """The argument of an ioctl that reads several clocks at the same time."""

    gpu_clock_counter: int = u64(default=0)
    cpu_clock_counter: int = u64(default=0)
    system_clock_counter: int = u64(default=0)
    system_clock_freq: int = u64(default=0)
    gpu_id: int = u32()
    pad: int = u32(default=0)


class CreateEvent(Record, size=32):
    """The argument of CREATE_EVENT.

    In a program's first call, `event_page_offset` is the handle of the allocation that becomes the page of event slots.
    """

    event_page_offset: int = u64(default=0)
    event_trigger_data: int = u32(default=0)
    event_type: int = u32()
    auto_reset: int = u32(default=0)
    node_id: int = u32(default=0)
    event_id: int = u32(default=0)
    event_slot_index: int = u32(default=0)


class OneEvent(Record, size=8):
    """The argument of SET_EVENT, RESET_EVENT and DESTROY_EVENT."""

    event_id: int = u32()
    pad: int = u32(default=0)


class WaitEvents(Record, size=24):
    """The argument of WAIT_EVENTS, which waits for one or all of an array of `EventData`."""

    events_ptr: int = u64()
    num_events: int = u32()
    wait_for_all: int = u32()
    timeout: int = u32()
    wait_result: int = u32(default=0)


class MemoryException(Record, size=32):
    """The data of a memory event, as in the Linux struct kfd_hsa_memory_exception_data."""

    not_present: int = u32(default=0)
    read_only: int = u32(default=0)
    no_execute: int = u32(default=0)
    imprecise: int = u32(default=0)
    va: int = u64(default=0)
    gpu_id: int = u32(default=0)
    error_type: int = u32(default=0)


class EventData(Record, size=48):
    """An event for which WAIT_EVENTS waits, and its data.

    The first 8 bytes of the data of a signal event are its age, which the program knows from an earlier wait, or 0.
    """

    data: bytes = raw(32)
    ext: int = u64(default=0)
    event_id: int = u32()
    pad: int = u32(default=0)

    @property
    def known_age(self) -> int:
        """The age of a signal event that the program knows; 0 for none."""
        return int.from_bytes(self.data[:8], "little")


class SetScratchBackingVa(Record, size=16):
    """The argument of an ioctl that sets the base address of private memory for waves of GFX7 and GFX8.

    The address is in units of 64 KiB.
    """

    va_addr: int = u64()
    gpu_id: int = u32()
    pad: int = u32(default=0)


class GetTileConfig(Record, size=40):
    """The argument of an ioctl that gets the tiling modes of images."""

    tile_config_ptr: int = u64()
    macro_tile_config_ptr: int = u64()
    num_tile_configs: int = u32()
    num_macro_tile_configs: int = u32()
    gpu_id: int = u32()
    gb_addr_config: int = u32(default=0)
    num_banks: int = u32(default=0)
    num_ranks: int = u32(default=0)


class SetTrapHandler(Record, size=24):
    """The argument of an ioctl that sets code and memory of a trap handler."""

    tba_addr: int = u64()
    tma_addr: int = u64()
    gpu_id: int = u32()
    pad: int = u32(default=0)


class Apertures(Record, size=56):
    """The address ranges of one agent for LDS, private memory (scratch) and GPU virtual memory.

    A limit is the address of a range's last byte.
    """

    lds_base: int = u64()
    lds_limit: int = u64()
    scratch_base: int = u64()
    scratch_limit: int = u64()
    gpuvm_base: int = u64()
    gpuvm_limit: int = u64()
    gpu_id: int = u32()
    pad: int = u32(default=0)


class GetProcessAperturesNew(Record, size=16):
    """The argument of an ioctl that fills an array of `Apertures`; with size 0, the reply is their number."""

    kfd_process_device_apertures_ptr: int = u64()
    num_of_nodes: int = u32()
    pad: int = u32(default=0)


class AcquireVm(Record, size=8):
    """The argument of ACQUIRE_VM, which makes agent `gpu_id` use the address space of an open render node."""

    drm_fd: int = u32()
    gpu_id: int = u32()


class AllocMemoryOfGpu(Record, size=40):
    """The argument of ALLOC_MEMORY_OF_GPU; `va_addr` is the address that the program has chosen.

    `mmap_offset` is an output. Only for memory that the program itself allocated, it is an input: the address of
    that memory in the program."""

    va_addr: int = u64()
    size: int = u64()
    handle: int = u64(default=0)
    mmap_offset: int = u64(default=0)
    gpu_id: int = u32()
    flags: int = u32()


class FreeMemoryOfGpu(Record, size=8):
    """The argument of an ioctl that frees memory."""

    handle: int = u64()


class MapMemory(Record, size=24):
    """The argument of MAP_MEMORY_TO_GPU and UNMAP_MEMORY_FROM_GPU, with an array of the agents' gpu_ids."""

    handle: int = u64()
    device_ids_array_ptr: int = u64()
    n_devices: int = u32()
    n_success: int = u32(default=0)


class SetCuMask(Record, size=16):
    """The argument of an ioctl that selects the compute units of a queue."""

    queue_id: int = u32()
    num_cu_mask: int = u32()
    cu_mask_ptr: int = u64()


class SetXnackMode(Record, size=4):
    """The argument of an ioctl that enables or disables retries of page faults (XNACK).

    A negative value only queries the current setting."""

    xnack_enabled: int = i32()


class AvailableMemory(Record, size=16):
    """The argument of an ioctl that gets the amount of memory that can be allocated."""

    available: int = u64(default=0)
    gpu_id: int = u32()
    pad: int = u32(default=0)


class RuntimeEnable(Record, size=16):
    """The argument of an ioctl by which a run-time library states that it begins or stops to support debuggers.

    `r_debug` is the address of a list of code objects. The reply has the driver's capabilities, which are none.
    """

    r_debug: int = u64(default=0)
    mode_mask: int = u32()
    capabilities_mask: int = u32(default=0)


RUNTIME_ENABLE_MODE: Final = 1
"""The bit of mode_mask that enables debugging; without it, the call disables debugging."""


# ---- the driver's clock ----------------------------------------------------------------------------------------------
# The driver's clock: nanoseconds since the host's boot, including sleep.


CLOCK_FREQUENCY: Final = 1_000_000_000


def boot_nanoseconds() -> int:
    """Return the time of the driver's clock (CLOCK_BOOTTIME), in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
