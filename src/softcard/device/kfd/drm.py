"""Render nodes: the ioctls of <drm/drm.h> and <drm/amdgpu_drm.h> that AMD's run-time libraries use."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from softcard.core.record import Record, i32, raw, u32, u64, words
from softcard.device.kfd.client import Client
from softcard.device.kfd.ioctls import Refused
from softcard.device.kfd.node import Node

TYPE: Final = ord("d")
DRIVER: Final = (b"amdgpu", b"20150101", b"AMD GPU")
"""The name, the date and the description of the driver amdgpu, as the ioctl VERSION returns them."""
DRIVER_VERSION: Final = (3, 49, 0)
MOST_REPLY_BYTES: Final = 1 << 16
"""The maximum size of a reply in bytes; all replies are shorter."""
REGISTERS: Final = 64
"""The maximum number of registers that one query can read."""


class Number(IntEnum):
    """The numbers of the ioctls of render nodes, which are the low byte of a request."""

    VERSION = 0x00
    GET_CLIENT = 0x05
    AMDGPU_INFO = 0x45


class Query(IntEnum):
    """The queries of the ioctl AMDGPU_INFO."""

    ACCEL_WORKING = 0x00
    HW_IP_COUNT = 0x03
    READ_MMR_REG = 0x15
    DEV_INFO = 0x16


class Version(Record, size=64):
    """The C structure drm_version."""

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
    """The C structure drm_client."""

    idx: int = i32()
    auth: int = i32(default=0)
    pid: int = u64(default=0)
    uid: int = u64(default=0)
    magic: int = u64(default=0)
    iocs: int = u64(default=0)


class Info(Record, size=32):
    """The C structure drm_amdgpu_info."""

    return_pointer: int = u64()
    return_size: int = u32()
    query: int = u32()
    what: bytes = raw(16)


class DeviceInfo(Record, size=352):
    """The C structure drm_amdgpu_info_device, with the fields that drivers of version 3.49 fill."""

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
    """Carry out ioctl `number` of the render node of `node`.

    Return its argument `data` as the program gets it back. Raise `Refused` for an unknown ioctl.
    """
    if number == Number.VERSION:
        return _version(Version.parse(data), client)
    if number == Number.GET_CLIENT:
        client_record = GetClient.parse(data)
        if client_record.idx:
            raise Refused(f"the client index is {client_record.idx}, but a render node has client 0 only")
        return GetClient(idx=0, auth=1).pack()
    if number == Number.AMDGPU_INFO:
        info = Info.parse(data)
        if info.return_size > MOST_REPLY_BYTES:
            raise Refused(f"the size of the reply is {info.return_size} bytes, expected {MOST_REPLY_BYTES} at most")
        client.write(info.return_pointer, _info(info, node)[: info.return_size])
        return data
    raise Refused(f"ioctl {number:#x} of render nodes is not modelled")


def _version(arguments: Version, client: Client) -> bytes:
    """Return the reply to the ioctl for the driver's version.

    Write as much of each text as fits into the program's buffers."""
    places = (
        (arguments.name, arguments.name_len),
        (arguments.date, arguments.date_len),
        (arguments.desc, arguments.desc_len),
    )
    for text, (place, room) in zip(DRIVER, places, strict=True):
        if place and room:
            client.write(place, text[:room])
    (major, minor, patch), (name, date, description) = DRIVER_VERSION, DRIVER
    return Version(
        version_major=major, version_minor=minor, version_patchlevel=patch,
        name_len=len(name), name=arguments.name, date_len=len(date), date=arguments.date,
        desc_len=len(description), desc=arguments.desc,
    ).pack()  # fmt: skip


def _info(info: Info, node: Node) -> bytes:
    """Return the reply to a query of AMDGPU_INFO.

    The agents have no graphics engine, and all registers read as 0.
    """
    if info.query == Query.ACCEL_WORKING:
        return (1).to_bytes(4, "little")
    if info.query == Query.HW_IP_COUNT:
        return bytes(4)
    if info.query == Query.READ_MMR_REG:
        count = int.from_bytes(info.what[4:8], "little")
        if count > REGISTERS:
            raise Refused(f"the query reads {count} registers at once, expected {REGISTERS} at most")
        return bytes(4 * count)
    if info.query == Query.DEV_INFO:
        return device_info(node).pack()
    raise Refused(f"AMDGPU_INFO query {info.query:#x} is not modelled")


def device_info(node: Node) -> DeviceInfo:
    """Return the structure by which the driver describes the agent of `node`.

    It has the shader engines of one accelerator die (XCC). Its array of masks of compute units has 4 rows of 4: shader
    engine n is in row n modulo 4, column n divided by 4."""
    product, bitmap = node.product, [0] * 16
    for engine, units in enumerate(node.engine_units):
        bitmap[4 * (engine % 4) + engine // 4] = (1 << units) - 1
    return DeviceInfo(
        device_id=node.device_id,
        family=node.family,
        num_shader_engines=product.shader_engines,
        max_engine_clock=1000 * product.clock_mhz,
        cu_active_number=node.agent.compute_units,
        cu_bitmap=tuple(bitmap),
        num_cu_per_sh=product.array_units,
        cu_ao_bitmap=(0,) * 16,
    )
