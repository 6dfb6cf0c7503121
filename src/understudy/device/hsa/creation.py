"""How a queue begins: amd_queue_t, its ring and its signals in guest memory; and what says where private memory is."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from understudy.core.space import PAGE_SIZE
from understudy.core.words import align_up
from understudy.device.hsa.doorbells import DOORBELL_BYTES
from understudy.device.hsa.launch.first_state import Scratch
from understudy.device.hsa.packets import PACKET_BYTES, PacketType
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.records import (
    QUEUE_ALIGNMENT,
    AmdQueue,
    AmdSignal,
    HsaQueue,
    QueueFeature,
    QueueProperties,
    QueueType,
    SignalKind,
)
from understudy.engine.gcn.api import WAVE_GRANULE, wave_scratch_bytes

if TYPE_CHECKING:
    from understudy.device.hsa.device import HsaDevice

"""Private memory of a wave is a multiple of this."""
LANES: Final = 64
MOST_WAVES: Final = 0xFFF
"""What compute_tmpring_size can say."""


def new_queue(
    device: HsaDevice, number: int, slot: int, size: int, type: QueueType, features: QueueFeature, profiling: bool
) -> Queue:
    """Queue `number` of a device, with doorbell `slot`."""
    ring, ring_address = _new_ring(device, size)
    address = device.allocate(AmdQueue.size_bytes, QUEUE_ALIGNMENT, mtype=device.fine_mtype)
    doorbell, inactive = device.create_signal(), device.create_signal(0)
    kind = SignalKind.LEGACY_DOORBELL if device.agent.is_legacy else SignalKind.DOORBELL
    hardware = device.doorbell_base + slot * DOORBELL_BYTES
    device.memory.write(doorbell.address, AmdSignal(kind=kind, value=hardware, queue_ptr=address).pack())
    properties = QueueProperties.ENABLE_TRAP_HANDLER
    if not device.settings.small:
        properties |= QueueProperties.IS_PTR64
    if profiling:
        properties |= QueueProperties.ENABLE_PROFILING
    record = AmdQueue(
        hsa_queue=HsaQueue(
            type=type,
            features=features,
            base_address=ring_address,
            doorbell_signal=doorbell.address,
            size=size,
            id=number,
        ),
        group_segment_aperture_base_hi=device.apertures.group_segment_aperture_base_hi,
        private_segment_aperture_base_hi=device.apertures.private_segment_aperture_base_hi,
        max_cu_id=device.agent.compute_units - 1,
        max_wave_id=device.agent.waves_per_cu - 1,
        read_dispatch_id_field_base_byte_offset=AmdQueue.offset_of("read_dispatch_id"),
        queue_properties=properties,
        queue_inactive_signal=inactive.address,
    )
    device.memory.write(address, record.pack())
    return Queue(device, number, slot, address, ring_address, size, ring, doorbell, inactive)


def _new_ring(device: HsaDevice, size: int) -> tuple[np.ndarray[Any, Any], int]:
    """A ring full of INVALID packets; legacy hardware sees it twice, one behind the other."""
    size_bytes = size * PACKET_BYTES
    if device.agent.is_legacy:
        raw = np.zeros(size_bytes + PAGE_SIZE, np.uint8)
        start = -int(raw.ctypes.data) % PAGE_SIZE
        ring = raw[start : start + size_bytes]
        address = device.heap.map(ring, "ring", copies=2, type=device.memory_types.fine)
    else:
        address = device.allocate(size_bytes, mtype=device.fine_mtype)
        ring = device.array(address, size_bytes)
    ring[::PACKET_BYTES] = PacketType.INVALID
    return ring, address


def scratch_bytes(lane_bytes: int, waves: int) -> int:
    """Private memory of `waves` waves with `lane_bytes` for each work-item."""
    return wave_scratch_bytes(lane_bytes) * waves


def scratch_fields(device: HsaDevice, address: int, lane_bytes: int, waves: int) -> bytes:
    """amd_queue_t from compute_tmpring_size to scratch_workitem_byte_size, for private memory at `address`; 0: none."""
    descriptor, location, tmpring, size = (0, 0, 0, 0), 0, 0, scratch_bytes(lane_bytes, waves)
    if address:
        descriptor = Scratch(address, size).resource_descriptor(device.agent.target.level)
        location = address - device.hidden_private_base
        tmpring = min(waves, MOST_WAVES) | wave_scratch_bytes(lane_bytes) // WAVE_GRANULE << 12
    per_lane = align_up(lane_bytes, WAVE_GRANULE // LANES)
    return struct.pack("<I4IQQI", tmpring & 0xFFFF_FFFF, *descriptor, location, size, per_lane)
