"""The nodes of the driver's topology (KFD): the agents, their properties, and the sysfs files about them.

Some of the properties are known only to the driver, not to the agent's model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import WireError, close_to
from softcard.device.hsa.agents import SIMDS_PER_CU, Agent, agent
from softcard.isa.gcn.target import GFX9

VENDOR: Final = 0x1002
FIRST_GPU_ID: Final = 0x1234
FIRST_RENDER_MINOR: Final = 128
MOST_NODES: Final = 8
"""The maximum number of agents of one machine."""
LOCAL_MEMORY_BYTES: Final = 8 << 30
MEMORY_BUS_BITS: Final = 2048
COMPUTE_QUEUES: Final = 24
"""The number of hardware queues for packets of kernels that an agent has."""


@dataclass(frozen=True, slots=True)
class Product:
    """The product that the driver reports for an agent.

    - `device_id`, `name` and `family`: the PCI device id, the code name, and the number of the family.
    - `board`: the name under which the product is sold.
    - `sdma_queues`: the queues of each copy engine; `sdma_engines`: the copy engines.
    - `xgmi_engines`: the copy engines for copies between agents.
    - `shader_engines` and `array_units`: the shader engines of each accelerator die (XCC), and the compute units of
      each shader engine; some of them can be disabled.
    - `clock_mhz`: the maximum clock.
    - `caches`: level and size in KiB of each cache that one compute unit uses; `cache_line`: bytes of a line.
    - `revision`: the revision of the chip.
    - `ip_versions`: the versions of graphics, copy engines and bus interface, by hardware id, if sysfs has them."""

    device_id: int
    name: str
    board: str
    family: int
    sdma_queues: int
    shader_engines: int = 4
    array_units: int = 16
    sdma_engines: int = 2
    xgmi_engines: int = 0
    clock_mhz: int = 1500
    caches: tuple[tuple[int, int], ...] = ((1, 16), (2, 4096))
    cache_line: int = 64
    revision: int = 0
    ip_versions: tuple[tuple[int, tuple[int, int, int]], ...] = ()


GRAPHICS: Final = 11
COPIES: Final = 42
BUS: Final = 108
"""The hardware ids of graphics, copy engines and bus interface in the table of IP versions."""
_CDNA3_CACHES: Final = ((1, 32), (2, 4096), (3, 262144))
PRODUCTS: Final = {
    "gfx803": Product(0x7300, "fiji", "Radeon R9 Nano", 130, 2),
    "gfx900": Product(0x6860, "vega10", "Radeon Instinct MI25", 141, 2),
    "gfx906": Product(0x66A1, "vega20", "Radeon Pro VII", 141, 8),
    "gfx908": Product(0x738C, "arcturus", "Instinct MI100", 141, 8, shader_engines=8, xgmi_engines=6,
                      clock_mhz=1502, caches=((1, 16), (2, 8192))),
    "gfx90a": Product(0x7408, "aldebaran", "Instinct MI250X", 141, 8, shader_engines=8, array_units=14,
                      xgmi_engines=3, clock_mhz=1700, caches=((1, 16), (2, 8192)), revision=1,
                      ip_versions=((GRAPHICS, (9, 4, 2)), (COPIES, (4, 4, 0)), (BUS, (7, 4, 4)))),
    "gfx942": Product(0x74A1, "ip discovery", "Instinct MI300X", 141, 8, array_units=10, xgmi_engines=14,
                      clock_mhz=2100, caches=_CDNA3_CACHES, cache_line=128, revision=1,
                      ip_versions=((GRAPHICS, (9, 4, 3)), (COPIES, (4, 4, 2)), (BUS, (7, 9, 0)))),
    "gfx950": Product(0x75A0, "ip discovery", "Instinct MI355X", 141, 8, array_units=9, xgmi_engines=14,
                      clock_mhz=2400, caches=_CDNA3_CACHES, cache_line=128,
                      ip_versions=((GRAPHICS, (9, 5, 0)), (COPIES, (4, 4, 5)), (BUS, (7, 9, 1)))),
}  # fmt: skip
"""The product for each supported agent.

gfx90a is one die of its product. gfx942 and gfx950 are in SPX mode. CDNA agents have the ECC of SRAM
(`Agent.sramecc`) enabled.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """An agent in the driver.

    `number` identifies it in the topology, `gpu_id` in ioctls, and `minor` among the render nodes."""

    number: int
    agent: Agent
    product: Product

    @property
    def gpu_id(self) -> int:
        """The id of the agent in ioctls."""
        return FIRST_GPU_ID + self.number - 1

    @property
    def minor(self) -> int:
        """The minor number of the agent's render node, /dev/dri/renderD128 and so on."""
        return FIRST_RENDER_MINOR + self.number - 1

    @property
    def location_id(self) -> int:
        """The agent's PCI address: the bus in bits 15-8, the device in bits 7-3, the function in bits 2-0."""
        return self.number << 10

    @property
    def device_id(self) -> int:
        """The agent's PCI device id."""
        return self.product.device_id

    @property
    def family(self) -> int:
        """The number of the agent's family in the graphics driver."""
        return self.product.family

    @property
    def shader_engines(self) -> int:
        """The number of shader engines of all accelerator dies."""
        return self.product.shader_engines * self.agent.xccs

    @property
    def engine_units(self) -> tuple[int, ...]:
        """The number of enabled compute units of each shader engine of the first accelerator die."""
        units, engines = self.agent.compute_units // self.agent.xccs, self.product.shader_engines
        return tuple(units // engines + (each < units % engines) for each in range(engines))

    @property
    def has_wide_counts(self) -> bool:
        """True if the counts in packets of the copy engines have 30 bits (SDMA 4.4, from gfx90a on)."""
        return self.agent.target.has_unified_registers

    @property
    def has_compute_queues(self) -> bool:
        """True if the agent's queues of PM4 commands are modelled."""
        return not self.is_legacy

    @property
    def is_legacy(self) -> bool:
        """True if the agent has the doorbells, rings and copy engines of GFX8."""
        return self.agent.target.level < GFX9

    @property
    def memory_bytes(self) -> int:
        """The number of bytes of the agent's own memory."""
        return LOCAL_MEMORY_BYTES


def nodes(names: Iterable[str]) -> tuple[Node, ...]:
    """Return the nodes of the agents called `names`, numbered from 1.

    Raise `WireError` for an unsupported agent, or for too many agents."""
    made = []
    for number, name in enumerate(names, 1):
        if name not in PRODUCTS:
            known = f"{', '.join(PRODUCTS)}{close_to(name, PRODUCTS)}"
            raise WireError(f"the kernel driver has no agent {name!r}, expected one of {known}")
        made.append(Node(number, agent(name), PRODUCTS[name]))
    if not 0 < len(made) <= MOST_NODES:
        raise WireError(f"{len(made)} agents were given, expected 1 to {MOST_NODES}")
    return tuple(made)


# ---- files of sysfs --------------------------------------------------------------------------------------------------
# The driver's files in sysfs, /sys/devices/virtual/kfd/kfd/topology, and the list of modules with the driver.
#
# Each property is one that the driver has; values are those of the products in `PRODUCTS`.


TOPOLOGY: Final = "sys/devices/virtual/kfd/kfd/topology"
HOST_MEMORY_BYTES: Final = 8 << 30
GENERATION: Final = 2
FIRST_SIMD: Final = 0x8000_1000
"""The number of the first SIMD; descriptions of caches refer to SIMDs by number."""
FRAME_BUFFER_PUBLIC: Final = 1
FRAME_BUFFER_PRIVATE: Final = 2
"""The heap type of an agent's memory bank if the host's processor cannot access all of it.

`FRAME_BUFFER_PUBLIC` stands for memory that it can access.
"""
PCIE: Final = 2
"""The type of a link by PCI Express."""
NO_ATOMICS: Final = 1 << 2 | 1 << 3
"""The flags of a link that does not support atomics of 32 and 64 bits.

The atomics are those of the host's processor on the agent's memory.
"""
OVERRIDES: Final = 1
"""The flag that states that the other flags of a link are valid."""
# Bits of `capability`.
WATCH_POINTS: Final = 1 << 7 | 2 << 8
DOORBELL_TYPE_AT: Final = 12
RING_SEEN_TWICE: Final = 1 << 14
MEMORY_ECC: Final = 1 << 20
RAS_EVENTS: Final = 1 << 21
REVISION_AT: Final = 22
SRAM_ECC: Final = 1 << 26
DATA_OF_SIMDS: Final = 1 | 8
"""The type of a cache: a data cache that SIMDs use."""

Properties = Mapping[str, int]


def files(nodes: Sequence[Node], *, large_bar: bool = True) -> dict[str, str]:
    """Return the contents of each file in sysfs and procfs, by its path without the leading slash.

    With `large_bar` the host's processor can access all memory of the agents. Without it, the memory banks have
    the private heap type, and the processor's node has no links to agents."""
    made = {
        f"{TOPOLOGY}/generation_id": f"{GENERATION}\n",
        f"{TOPOLOGY}/system_properties": _text({"platform_oem": 0, "platform_id": 0, "platform_rev": 0}),
        f"{TOPOLOGY}/nodes/0/gpu_id": "0\n",
        f"{TOPOLOGY}/nodes/0/name": "\n",
        f"{TOPOLOGY}/nodes/0/properties": _text(_processor(len(nodes) if large_bar else 0)),
        f"{TOPOLOGY}/nodes/0/mem_banks/0/properties": _text(_bank(0, HOST_MEMORY_BYTES, 64, 2400)),
        "sys/module/amdgpu/initstate": "live\n",
        "proc/modules": "amdgpu 1 0 - Live 0x0000000000000000\n",
    }
    for node in nodes:
        here = f"{TOPOLOGY}/nodes/{node.number}"
        made[f"{here}/gpu_id"] = f"{node.gpu_id}\n"
        made[f"{here}/name"] = f"{node.product.name}\n"
        made[f"{here}/properties"] = _text(_agent(node))
        made[f"{here}/mem_banks/0/properties"] = _text(
            _bank(FRAME_BUFFER_PUBLIC if large_bar else FRAME_BUFFER_PRIVATE, node.memory_bytes, MEMORY_BUS_BITS, 945)
        )
        made[f"{here}/io_links/0/properties"] = _text(_link(node.number, 0, OVERRIDES))
        link = f"{TOPOLOGY}/nodes/0/io_links/{node.number - 1}"
        if large_bar:
            made[f"{link}/properties"] = _text(_link(0, node.number, OVERRIDES | NO_ATOMICS))
        for block, version in node.product.ip_versions:
            for name, value in zip(("major", "minor", "revision"), version, strict=True):
                made[f"sys/class/drm/renderD{node.minor}/device/ip_discovery/die/0/{block}/0/{name}"] = f"{value}\n"
        for number, (level, kib) in enumerate(node.product.caches):
            made[f"{here}/caches/{number}/properties"] = _cache(level, kib, node.product.cache_line)
    return made


def _text(properties: Properties) -> str:
    return "".join(f"{name} {value}\n" for name, value in properties.items())


def _processor(links: int) -> Properties:
    """Return the properties of node 0, the host's processor, with `links` links to agents."""
    return {
        "cpu_cores_count": os.cpu_count() or 1, "simd_count": 0, "mem_banks_count": 1, "caches_count": 0,
        "io_links_count": links, "cpu_core_id_base": 0, "simd_id_base": 0, "max_waves_per_simd": 0,
        "lds_size_in_kb": 0, "gds_size_in_kb": 0, "wave_front_size": 0, "array_count": 0, "simd_arrays_per_engine": 0,
        "cu_per_simd_array": 0, "simd_per_cu": 0, "max_slots_scratch_cu": 0, "vendor_id": 0, "device_id": 0,
        "location_id": 0, "drm_render_minor": 0, "max_engine_clk_ccompute": 3000,
    }  # fmt: skip


def _agent(node: Node) -> Properties:
    """Return the properties of an agent's node. Unlike node 0, it has compute units.

    Numbers of SIMDs and shader engines are totals over the accelerator dies (XCCs)."""
    agent, product = node.agent, node.product
    major, minor, step = (int(digit, 16) for digit in agent.name.removeprefix("gfx"))
    return {
        "cpu_cores_count": 0, "simd_count": agent.compute_units * SIMDS_PER_CU, "mem_banks_count": 1,
        "caches_count": len(product.caches), "io_links_count": 1, "cpu_core_id_base": 0, "simd_id_base": FIRST_SIMD,
        "max_waves_per_simd": agent.waves_per_cu // SIMDS_PER_CU, "lds_size_in_kb": agent.lds_bytes >> 10,
        "gds_size_in_kb": 0, "wave_front_size": 64, "array_count": node.shader_engines, "simd_arrays_per_engine": 1,
        "cu_per_simd_array": product.array_units, "simd_per_cu": SIMDS_PER_CU,
        "max_slots_scratch_cu": 32, "gfx_target_version": major * 10000 + minor * 100 + step,
        "vendor_id": VENDOR, "device_id": product.device_id, "location_id": node.location_id, "domain": 0,
        "drm_render_minor": node.minor, "hive_id": 0, "num_sdma_engines": product.sdma_engines,
        "num_sdma_xgmi_engines": product.xgmi_engines, "num_sdma_queues_per_engine": product.sdma_queues,
        "num_cp_queues": COMPUTE_QUEUES, "max_engine_clk_fcompute": product.clock_mhz,
        "local_mem_size": node.memory_bytes, "fw_version": 421, "capability": _capability(node),
        "sdma_fw_version": 430, "unique_id": node.number,
        "num_xcc": agent.xccs, "max_engine_clk_ccompute": 3000,
    }  # fmt: skip


def _capability(node: Node) -> int:
    """Return the capability bits of an agent's node.

    They contain the encoding of its doorbells, whether rings are mapped twice, whether memory has ECC, and the
    revision. The bits of interfaces that are not modelled, such as debugging and SVM, are 0."""
    doorbells = int(node.agent.doorbell_type) << DOORBELL_TYPE_AT
    ecc = MEMORY_ECC | RAS_EVENTS | SRAM_ECC if node.agent.sramecc else 0
    revision = node.product.revision << REVISION_AT
    return WATCH_POINTS | doorbells | (RING_SEEN_TWICE if node.is_legacy else 0) | ecc | revision


def _bank(heap: int, size: int, width: int, clock: int) -> Properties:
    return {"heap_type": heap, "size_in_bytes": size, "flags": 0, "width": width, "mem_clk_max": clock}


def _link(start: int, end: int, flags: int) -> Properties:
    return {
        "type": PCIE, "version_major": 0, "version_minor": 0, "node_from": start, "node_to": end, "weight": 20,
        "min_latency": 0, "max_latency": 0, "min_bandwidth": 0, "max_bandwidth": 0, "recommended_transfer_size": 0,
        "flags": flags,
    }  # fmt: skip


def _cache(level: int, kib: int, line: int) -> str:
    """Return the properties of one cache of an agent as text: its level, its size in KiB, and the bytes of a `line`.

    The text says that the agent's first SIMDs share the cache."""
    numbers = {
        "processor_id_low": FIRST_SIMD, "level": level, "size": kib, "cache_line_size": line,
        "cache_lines_per_tag": 1, "association": 16, "latency": 1, "type": DATA_OF_SIMDS,
    }  # fmt: skip
    return _text(numbers) + "sibling_map 1,0,0,0\n"
