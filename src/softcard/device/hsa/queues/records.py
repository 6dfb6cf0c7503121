"""The layout of hsa_queue_t, amd_queue_t and amd_signal_t in memory. The module executes nothing.

The sources are "AMD Queue" and "Signals" of the ROCm Code Object specification. The headers of AMD's runtime
are the source for bits that the specification omits (amd_queue_t 0x8c to 0xff) or describes wrongly."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from softcard.core.record import Record, i64, nested, reserved, u32, u64, words

QUEUE_ALIGNMENT: Final = 64
SIGNAL_BYTES: Final = 64
SIGNAL_ALIGNMENT: Final = 64


class QueueType(IntEnum):
    """The types of a queue, hsa_queue_type32_t."""

    MULTI = 0
    SINGLE = 1
    COOPERATIVE = 2


class QueueFeature(IntFlag):
    """The kinds of packets that a queue accepts."""

    KERNEL_DISPATCH = 1
    AGENT_DISPATCH = 2


class QueueProperties(IntFlag):
    """The bits of the field amd_queue_t.queue_properties."""

    ENABLE_TRAP_HANDLER = 1
    IS_PTR64 = 2
    ENABLE_TRAP_HANDLER_DEBUG_SGPRS = 4
    ENABLE_PROFILING = 8
    USE_SCRATCH_ONCE = 16


class SignalKind(IntEnum):
    """The kinds of a signal, amd_signal_kind_t."""

    INVALID = 0
    USER = 1
    DOORBELL = -1
    LEGACY_DOORBELL = -2


class HsaQueue(Record, size=40):
    """The structure hsa_queue_t, the part of a queue that programs may access."""

    type: int = u32(default=QueueType.MULTI)
    features: int = u32(default=QueueFeature.KERNEL_DISPATCH)
    base_address: int = u64(default=0)
    doorbell_signal: int = u64(default=0)
    size: int = u32(default=0)
    reserved_1c: bytes = reserved(4)
    id: int = u64(default=0)


class AmdQueue(Record, size=256):
    """The structure amd_queue_t.

    The fields max_cu_id and max_wave_id are the numbers of CUs and waves minus 1, as in AMD's runtime."""

    hsa_queue: HsaQueue = nested(HsaQueue, default=HsaQueue())
    reserved_28: bytes = reserved(16)
    write_dispatch_id: int = u64(default=0)
    group_segment_aperture_base_hi: int = u32(default=0)
    private_segment_aperture_base_hi: int = u32(default=0)
    max_cu_id: int = u32(default=0)
    max_wave_id: int = u32(default=0)
    max_legacy_doorbell_dispatch_id_plus_1: int = u64(default=0)
    legacy_doorbell_lock: int = u32(default=0)
    reserved_5c: bytes = reserved(36)
    read_dispatch_id: int = u64(default=0)
    read_dispatch_id_field_base_byte_offset: int = u32(default=0x80)
    compute_tmpring_size: int = u32(default=0)
    scratch_resource_descriptor: tuple[int, ...] = words(32, 4, default=(0, 0, 0, 0))
    scratch_backing_memory_location: int = u64(default=0)
    scratch_backing_memory_byte_size: int = u64(default=0)
    scratch_workitem_byte_size: int = u32(default=0)
    queue_properties: int = u32(default=0)
    reserved_b8: bytes = reserved(8)
    queue_inactive_signal: int = u64(default=0)
    reserved_c8: bytes = reserved(56)


class AmdSignal(Record, size=64):
    """The structure amd_signal_t.

    For the two kinds of doorbell signals, `value` is an address (hardware_doorbell_ptr).
    """

    kind: int = i64(default=SignalKind.USER)
    value: int = i64(default=0)
    event_mailbox_ptr: int = u64(default=0)
    event_id: int = u32(default=0)
    reserved_1c: bytes = reserved(4)
    start_ts: int = u64(default=0)
    end_ts: int = u64(default=0)
    queue_ptr: int = u64(default=0)
    reserved_38: bytes = reserved(8)
