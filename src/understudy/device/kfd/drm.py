"""What a render node answers: the ioctls of <drm/drm.h> and <drm/amdgpu_drm.h> that AMD's run-time libraries ask."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from understudy.core.record import Record, i32, raw, u32, u64, words
from understudy.device.kfd.client import Client
from understudy.device.kfd.errors import Refused
from understudy.device.kfd.node import Node

TYPE: Final = ord("d")
DRIVER: Final = (b"amdgpu", b"20150101", b"AMD GPU")
"""Name, date and description of the driver."""
DRIVER_VERSION: Final = (3, 49, 0)
MOST_ASKED: Final = 1 << 16
"""Bytes of an answer; all are shorter."""
REGISTERS: Final = 64
"""The most that can be asked for at once."""


class Number(IntEnum):
    """Which ioctl: the low byte of its request."""

    VERSION = 0x00
    GET_CLIENT = 0x05
    AMDGPU_INFO = 0x45


class Query(IntEnum):
    """What AMDGPU_INFO is asked for."""

    ACCEL_WORKING = 0x00
    HW_IP_COUNT = 0x03
    READ_MMR_REG = 0x15
    DEV_INFO = 0x16


class Version(Record, size=64):
    """struct drm_version."""

    version_major: int = i32(default=0)
    version_minor: int = i32(default=0)
    version_patchlevel: int = i32(default=0)
    pad: int = i32(default=0)
    name_len: int = u64()
    name: int = u64()
    date_len: int = u64()
    date: int = u64()
    desc_len: int = u64()
    desc: int = u64()


class GetClient(Record, size=40):
    """struct drm_client."""

    idx: int = i32()
    auth: int = i32(default=0)
    pid: int = u64(default=0)
    uid: int = u64(default=0)
    magic: int = u64(default=0)
    iocs: int = u64(default=0)


class Info(Record, size=32):
    """struct drm_amdgpu_info."""

    return_pointer: int = u64()
    return_size: int = u32()
    query: int = u32()
    what: bytes = raw(16)


class DeviceInfo(Record, size=352):
    """struct drm_amdgpu_info_device, as far as drivers of version 3.49 fill it."""

    device_id: int = u32()
    chip_rev: int = u32(default=1)
    external_rev: int = u32(default=1)
    pci_rev: int = u32(default=0)
    family: int = u32()
    num_shader_engines: int = u32(default=4)
    num_shader_arrays_per_engine: int = u32(default=1)
    gpu_counter_freq: int = u32(default=100_000)
    max_engine_clock: int = u64(default=1_500_000)
    max_memory_clock: int = u64(default=945_000)
    cu_active_number: int = u32()
    cu_ao_mask: int = u32(default=0xFFFF)
    cu_bitmap: tuple[int, ...] = words(32, 16)
    enabled_rb_pipes_mask: int = u32(default=0xFFFF)
    num_rb_pipes: int = u32(default=16)
    num_hw_gfx_contexts: int = u32(default=8)
    pcie_gen: int = u32(default=3)
    ids_flags: int = u64(default=0)
    virtual_address_offset: int = u64(default=1 << 21)
    virtual_address_max: int = u64(default=1 << 47)
    virtual_address_alignment: int = u32(default=4096)
    pte_fragment_size: int = u32(default=1 << 21)
    gart_page_size: int = u32(default=4096)
    ce_ram_size: int = u32(default=0)
    vram_type: int = u32(default=6)
    vram_bit_width: int = u32(default=2048)
    vce_harvest_config: int = u32(default=0)
    gc_double_offchip_lds_buf: int = u32(default=0)
    ngg: bytes = raw(48, default=bytes(48))
    wave_front_size: int = u32(default=64)
    num_shader_visible_vgprs: int = u32(default=256)
    num_cu_per_sh: int = u32()
    num_tcc_blocks: int = u32(default=16)
    gs_vgt_table_depth: int = u32(default=32)
    gs_prim_buffer_depth: int = u32(default=1792)
    max_gs_waves_per_vgt: int = u32(default=32)
    pcie_num_lanes: int = u32(default=16)
    cu_ao_bitmap: tuple[int, ...] = words(32, 16)
    high_va_offset: int = u64(default=0)
    high_va_max: int = u64(default=0)


def answer(number: int, data: bytes, node: Node, client: Client) -> bytes:
    """The argument of one ioctl of a render node as it comes back; `Refused` for what is none."""
    if number == Number.VERSION:
        return _version(Version.parse(data), client)
    if number == Number.GET_CLIENT:
        client_record = GetClient.parse(data)
        if client_record.idx:
            raise Refused(f"client {client_record.idx} of a render node, which has one: 0")
        return GetClient(idx=0, auth=1).pack()
    if number == Number.AMDGPU_INFO:
        info = Info.parse(data)
        if info.return_size > MOST_ASKED:
            raise Refused(f"an answer of {info.return_size} bytes, expected {MOST_ASKED} at most")
        client.write(info.return_pointer, _info(info, node)[: info.return_size])
        return data
    raise Refused(f"no ioctl {number:#x} of a render node")


def _version(asked: Version, client: Client) -> bytes:
    """Which driver this is; of each text as much as there is room for."""
    places = ((asked.name, asked.name_len), (asked.date, asked.date_len), (asked.desc, asked.desc_len))
    for text, (place, room) in zip(DRIVER, places, strict=True):
        if place and room:
            client.write(place, text[:room])
    (major, minor, patch), (name, date, description) = DRIVER_VERSION, DRIVER
    return Version(
        version_major=major, version_minor=minor, version_patchlevel=patch,
        name_len=len(name), name=asked.name, date_len=len(date), date=asked.date,
        desc_len=len(description), desc=asked.desc,
    ).pack()  # fmt: skip


def _info(info: Info, node: Node) -> bytes:
    """The answer to a query: there is nothing but compute, and registers hold zeros."""
    if info.query == Query.ACCEL_WORKING:
        return (1).to_bytes(4, "little")
    if info.query == Query.HW_IP_COUNT:
        return bytes(4)
    if info.query == Query.READ_MMR_REG:
        count = int.from_bytes(info.what[4:8], "little")
        if count > REGISTERS:
            raise Refused(f"{count} registers at once, expected {REGISTERS} at most")
        return bytes(4 * count)
    if info.query == Query.DEV_INFO:
        return device_info(node).pack()
    raise Refused(f"no answer to AMDGPU_INFO query {info.query:#x}")


def device_info(node: Node) -> DeviceInfo:
    """What the driver says of an agent."""
    per_engine = node.agent.compute_units // node.shader_engines
    bitmap = [0] * 16
    bitmap[: 4 * node.shader_engines : 4] = [(1 << per_engine) - 1] * node.shader_engines
    return DeviceInfo(
        device_id=node.device_id,
        family=node.family,
        num_shader_engines=node.shader_engines,
        cu_active_number=node.agent.compute_units,
        cu_bitmap=tuple(bitmap),
        num_cu_per_sh=per_engine,
        cu_ao_bitmap=(0,) * 16,
    )
