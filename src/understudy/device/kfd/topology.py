"""What sysfs shows of the driver: /sys/devices/virtual/kfd/kfd/topology, and that the driver is loaded.

Each property is one that the driver has; values are those of the products in `node.PRODUCTS`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from understudy.device.hsa.agents import SIMDS_PER_CU, WAVES_PER_SIMD
from understudy.device.kfd.node import VENDOR, Node

TOPOLOGY: Final = "sys/devices/virtual/kfd/kfd/topology"
HOST_MEMORY_BYTES: Final = 8 << 30
GENERATION: Final = 2
FIRST_SIMD: Final = 0x8000_1000
"""Number of the first SIMD, for caches to say whose they are."""
PCIE: Final = 2
"""Type of a link."""
NO_ATOMICS: Final = 1 << 2 | 1 << 3
"""Flag of a link: the processor has no atomics, of 32 and 64 bits, on the agent's memory."""
OVERRIDES: Final = 1
"""Flag of a link: the others count."""
# Bits of `capability`.
WATCH_POINTS: Final = 1 << 7 | 2 << 8
DOORBELL_TYPE_AT: Final = 12
RING_SEEN_TWICE: Final = 1 << 14
CACHE_LINE: Final = 64
DATA_OF_SIMDS: Final = 1 | 8
"""Type of a cache."""

Properties = Mapping[str, int]


def files(nodes: Sequence[Node]) -> dict[str, str]:
    """Contents of each file, by its path without the leading slash."""
    made = {
        f"{TOPOLOGY}/generation_id": f"{GENERATION}\n",
        f"{TOPOLOGY}/system_properties": _text({"platform_oem": 0, "platform_id": 0, "platform_rev": 0}),
        f"{TOPOLOGY}/nodes/0/gpu_id": "0\n",
        f"{TOPOLOGY}/nodes/0/name": "\n",
        f"{TOPOLOGY}/nodes/0/properties": _text(_processor(len(nodes))),
        f"{TOPOLOGY}/nodes/0/mem_banks/0/properties": _text(_bank(0, HOST_MEMORY_BYTES, 64, 2400)),
        "sys/module/amdgpu/initstate": "live\n",
        "proc/modules": "amdgpu 1 0 - Live 0x0000000000000000\n",
    }
    for node in nodes:
        here = f"{TOPOLOGY}/nodes/{node.number}"
        made[f"{here}/gpu_id"] = f"{node.gpu_id}\n"
        made[f"{here}/name"] = f"{node.product.name}\n"
        made[f"{here}/properties"] = _text(_agent(node))
        made[f"{here}/mem_banks/0/properties"] = _text(_bank(1, node.memory_bytes, 2048, 945))
        made[f"{here}/io_links/0/properties"] = _text(_link(node.number, 0, OVERRIDES))
        link = f"{TOPOLOGY}/nodes/0/io_links/{node.number - 1}"
        made[f"{link}/properties"] = _text(_link(0, node.number, OVERRIDES | NO_ATOMICS))
        for number, (level, kib) in enumerate(_CACHES):
            made[f"{here}/caches/{number}/properties"] = _cache(level, kib)
    return made


_CACHES: Final = ((1, 16), (2, 4096))
"""Level and KiB; a run-time library needs some."""


def _text(properties: Properties) -> str:
    return "".join(f"{name} {value}\n" for name, value in properties.items())


def _processor(agents: int) -> Properties:
    """Node 0."""
    return {
        "cpu_cores_count": os.cpu_count() or 1, "simd_count": 0, "mem_banks_count": 1, "caches_count": 0,
        "io_links_count": agents, "cpu_core_id_base": 0, "simd_id_base": 0, "max_waves_per_simd": 0,
        "lds_size_in_kb": 0, "gds_size_in_kb": 0, "wave_front_size": 0, "array_count": 0, "simd_arrays_per_engine": 0,
        "cu_per_simd_array": 0, "simd_per_cu": 0, "max_slots_scratch_cu": 0, "vendor_id": 0, "device_id": 0,
        "location_id": 0, "drm_render_minor": 0, "max_engine_clk_ccompute": 3000,
    }  # fmt: skip


def _agent(node: Node) -> Properties:
    """A node with compute units."""
    agent, product = node.agent, node.product
    major, minor, step = (int(digit, 16) for digit in agent.name.removeprefix("gfx"))
    return {
        "cpu_cores_count": 0, "simd_count": agent.compute_units * SIMDS_PER_CU, "mem_banks_count": 1,
        "caches_count": len(_CACHES), "io_links_count": 1, "cpu_core_id_base": 0, "simd_id_base": FIRST_SIMD,
        "max_waves_per_simd": WAVES_PER_SIMD, "lds_size_in_kb": agent.lds_bytes >> 10, "gds_size_in_kb": 0,
        "wave_front_size": 64, "array_count": product.shader_engines, "simd_arrays_per_engine": 1,
        "cu_per_simd_array": agent.compute_units // product.shader_engines, "simd_per_cu": SIMDS_PER_CU,
        "max_slots_scratch_cu": 32, "gfx_target_version": major * 10000 + minor * 100 + step,
        "vendor_id": VENDOR, "device_id": product.device_id, "location_id": node.number << 10, "domain": 0,
        "drm_render_minor": node.minor, "hive_id": 0, "num_sdma_engines": product.sdma_engines,
        "num_sdma_xgmi_engines": 0, "num_sdma_queues_per_engine": product.sdma_queues, "num_cp_queues": 24,
        "max_engine_clk_fcompute": 1500, "local_mem_size": node.memory_bytes, "fw_version": 421,
        "capability": _capability(node), "sdma_fw_version": 430, "unique_id": node.number,
        "max_engine_clk_ccompute": 3000,
    }  # fmt: skip


def _capability(node: Node) -> int:
    """How doorbells count, and whether rings are seen twice."""
    doorbells = int(node.agent.doorbell_type) << DOORBELL_TYPE_AT
    return WATCH_POINTS | doorbells | (RING_SEEN_TWICE if node.is_legacy else 0)


def _bank(heap: int, size: int, width: int, clock: int) -> Properties:
    return {"heap_type": heap, "size_in_bytes": size, "flags": 0, "width": width, "mem_clk_max": clock}


def _link(start: int, end: int, flags: int) -> Properties:
    return {
        "type": PCIE, "version_major": 0, "version_minor": 0, "node_from": start, "node_to": end, "weight": 20,
        "min_latency": 0, "max_latency": 0, "min_bandwidth": 0, "max_bandwidth": 0, "recommended_transfer_size": 0,
        "flags": flags,
    }  # fmt: skip


def _cache(level: int, kib: int) -> str:
    """Each is that of the first SIMDs."""
    numbers = {
        "processor_id_low": FIRST_SIMD, "level": level, "size": kib, "cache_line_size": CACHE_LINE,
        "cache_lines_per_tag": 1, "association": 16, "latency": 1, "type": DATA_OF_SIMDS,
    }  # fmt: skip
    return _text(numbers) + "sibling_map 1,0,0,0\n"
