"""What sysfs shows, and layouts against the system's own headers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from softcard.core.record import Record
from softcard.device.kfd import ioctls
from softcard.device.kfd.drm import device_info
from softcard.device.kfd.node import TOPOLOGY, files, nodes

HEADER = Path("/usr/include/linux/kfd_ioctl.h")
STRUCTURES = {
    "kfd_ioctl_get_version_args": (ioctls.GetVersion, ioctls.Number.GET_VERSION, "GET_VERSION"),
    "kfd_ioctl_create_queue_args": (ioctls.CreateQueue, ioctls.Number.CREATE_QUEUE, "CREATE_QUEUE"),
    "kfd_ioctl_destroy_queue_args": (ioctls.DestroyQueue, ioctls.Number.DESTROY_QUEUE, "DESTROY_QUEUE"),
    "kfd_ioctl_set_memory_policy_args": (
        ioctls.SetMemoryPolicy, ioctls.Number.SET_MEMORY_POLICY, "SET_MEMORY_POLICY",
    ),
    "kfd_ioctl_get_clock_counters_args": (
        ioctls.GetClockCounters, ioctls.Number.GET_CLOCK_COUNTERS, "GET_CLOCK_COUNTERS",
    ),
    "kfd_ioctl_update_queue_args": (ioctls.UpdateQueue, ioctls.Number.UPDATE_QUEUE, "UPDATE_QUEUE"),
    "kfd_ioctl_create_event_args": (ioctls.CreateEvent, ioctls.Number.CREATE_EVENT, "CREATE_EVENT"),
    "kfd_ioctl_destroy_event_args": (ioctls.OneEvent, ioctls.Number.DESTROY_EVENT, "DESTROY_EVENT"),
    "kfd_ioctl_set_event_args": (ioctls.OneEvent, ioctls.Number.SET_EVENT, "SET_EVENT"),
    "kfd_ioctl_reset_event_args": (ioctls.OneEvent, ioctls.Number.RESET_EVENT, "RESET_EVENT"),
    "kfd_ioctl_wait_events_args": (ioctls.WaitEvents, ioctls.Number.WAIT_EVENTS, "WAIT_EVENTS"),
    "kfd_ioctl_set_scratch_backing_va_args": (
        ioctls.SetScratchBackingVa, ioctls.Number.SET_SCRATCH_BACKING_VA, "SET_SCRATCH_BACKING_VA",
    ),
    "kfd_ioctl_get_tile_config_args": (ioctls.GetTileConfig, ioctls.Number.GET_TILE_CONFIG, "GET_TILE_CONFIG"),
    "kfd_ioctl_set_trap_handler_args": (ioctls.SetTrapHandler, ioctls.Number.SET_TRAP_HANDLER, "SET_TRAP_HANDLER"),
    "kfd_ioctl_get_process_apertures_new_args": (
        ioctls.GetProcessAperturesNew, ioctls.Number.GET_PROCESS_APERTURES_NEW, "GET_PROCESS_APERTURES_NEW",
    ),
    "kfd_ioctl_acquire_vm_args": (ioctls.AcquireVm, ioctls.Number.ACQUIRE_VM, "ACQUIRE_VM"),
    "kfd_ioctl_alloc_memory_of_gpu_args": (
        ioctls.AllocMemoryOfGpu, ioctls.Number.ALLOC_MEMORY_OF_GPU, "ALLOC_MEMORY_OF_GPU",
    ),
    "kfd_ioctl_free_memory_of_gpu_args": (
        ioctls.FreeMemoryOfGpu, ioctls.Number.FREE_MEMORY_OF_GPU, "FREE_MEMORY_OF_GPU",
    ),
    "kfd_ioctl_map_memory_to_gpu_args": (ioctls.MapMemory, ioctls.Number.MAP_MEMORY_TO_GPU, "MAP_MEMORY_TO_GPU"),
    "kfd_ioctl_unmap_memory_from_gpu_args": (
        ioctls.MapMemory, ioctls.Number.UNMAP_MEMORY_FROM_GPU, "UNMAP_MEMORY_FROM_GPU",
    ),
    "kfd_ioctl_set_cu_mask_args": (ioctls.SetCuMask, ioctls.Number.SET_CU_MASK, "SET_CU_MASK"),
    "kfd_ioctl_set_xnack_mode_args": (ioctls.SetXnackMode, ioctls.Number.SET_XNACK_MODE, "SET_XNACK_MODE"),
    "kfd_ioctl_get_available_memory_args": (
        ioctls.AvailableMemory, ioctls.Number.AVAILABLE_MEMORY, "AVAILABLE_MEMORY",
    ),
}  # fmt: skip
PARTS: dict[str, type[Record]] = {
    "kfd_process_device_apertures": ioctls.Apertures,
    "kfd_hsa_memory_exception_data": ioctls.MemoryException,
    "kfd_event_data": ioctls.EventData,
}
OTHER_NAMES = {"data": "memory_exception_data", "ext": "kfd_event_data_ext", "error_type": "ErrorType"}
NESTED = {
    "not_present": "failure.NotPresent", "read_only": "failure.ReadOnly", "no_execute": "failure.NoExecute",
    "imprecise": "failure.imprecise",
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.skipif(not HEADER.exists() or not shutil.which("gcc"), reason="no <linux/kfd_ioctl.h>, or no gcc")
def test_layouts_are_the_systems(tmp_path: Path) -> None:
    lines = ["#include <stddef.h>", "#include <linux/kfd_ioctl.h>"]
    for name, record in [*((name, each[0]) for name, each in STRUCTURES.items()), *PARTS.items()]:
        lines.append(f'_Static_assert(sizeof(struct {name}) == {record.size_bytes}, "{name}");')
        for slot in record.slots:
            field = NESTED.get(slot.name) or OTHER_NAMES.get(slot.name, slot.name)
            lines.append(f'_Static_assert(offsetof(struct {name}, {field}) == {slot.offset}, "{name}.{field}");')
    for _, number, name in STRUCTURES.values():
        lines.append(f'_Static_assert(_IOC_NR(AMDKFD_IOC_{name}) == {number:d}, "{name}");')
    for flag in ("VRAM", "GTT", "USERPTR", "DOORBELL", "MMIO_REMAP", "AQL_QUEUE_MEM", "PUBLIC", "WRITABLE"):
        value = ioctls.AllocFlags[flag]
        lines.append(f'_Static_assert((unsigned)KFD_IOC_ALLOC_MEM_FLAGS_{flag} == {value:d}u, "{flag}");')
    (tmp_path / "drm").mkdir()
    (tmp_path / "drm" / "drm.h").write_text("#include <linux/types.h>\n", encoding="ascii")
    source = tmp_path / "layouts.c"
    source.write_text("\n".join(lines) + "\n", encoding="ascii")
    done = subprocess.run(
        ["gcc", "-std=c11", "-fsyntax-only", f"-I{tmp_path}", str(source)], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr


def properties(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def test_topology() -> None:
    made = files(nodes(["gfx900", "gfx803", "gfx906"]))
    assert made["sys/module/amdgpu/initstate"] == "live\n"
    assert properties(made[f"{TOPOLOGY}/nodes/0/properties"])["io_links_count"] == 3
    found = [properties(made[f"{TOPOLOGY}/nodes/{number}/properties"]) for number in (1, 2, 3)]
    assert [each["gfx_target_version"] for each in found] == [90000, 80003, 90006]
    assert [each["drm_render_minor"] for each in found] == [128, 129, 130]
    assert [each["simd_count"] for each in found] == [256] * 3
    assert [each["capability"] >> 12 & 7 for each in found] == [2, 1 | 4, 2], "doorbells, and rings seen twice"
    assert len({made[f"{TOPOLOGY}/nodes/{number}/gpu_id"] for number in range(4)}) == 4
    links = [properties(made[f"{TOPOLOGY}/nodes/0/io_links/{each}/properties"]) for each in range(3)]
    assert [(each["node_from"], each["node_to"], each["type"]) for each in links] == [(0, 1, 2), (0, 2, 2), (0, 3, 2)]
    assert all(not path.startswith("/") and ".." not in path for path in made)


def test_without_a_large_bar() -> None:
    there, found = files(nodes(["gfx900", "gfx803"])), files(nodes(["gfx900", "gfx803"]), large_bar=False)
    gone = {f"{TOPOLOGY}/nodes/0/io_links/{each}/properties" for each in range(2)}
    assert there.keys() - found.keys() == gone
    assert "io_links_count 0\n" in found[f"{TOPOLOGY}/nodes/0/properties"]
    for number in (1, 2):
        bank = f"{TOPOLOGY}/nodes/{number}/mem_banks/0/properties"
        assert there[bank].startswith("heap_type 1\n")
        assert found[bank] == there[bank].replace("heap_type 1", "heap_type 2")


CDNA = {
    "gfx908": (90008, 480, 8, 16, 10, 64, 6, 1, 0x0430_2280),
    "gfx90a": (90010, 440, 8, 14, 8, 64, 3, 1, 0x0470_2280),
    "gfx942": (90402, 1216, 32, 10, 8, 64, 14, 8, 0x0470_2280),
    "gfx950": (90500, 1024, 32, 9, 8, 160, 14, 8, 0x0430_2280),
}
"""Properties of CDNA agents.

Those of gfx942 are what a kernel reports for an Instinct MI300X in SPX mode, without the capabilities that are absent.
"""
NAMES = (
    "gfx_target_version", "simd_count", "array_count", "cu_per_simd_array", "max_waves_per_simd", "lds_size_in_kb",
    "num_sdma_xgmi_engines", "num_xcc", "capability",
)  # fmt: skip


@pytest.mark.parametrize("agent", CDNA)
def test_cdna_agents(agent: str) -> None:
    made = files(nodes([agent]))
    found = properties(made[f"{TOPOLOGY}/nodes/1/properties"])
    assert tuple(found[name] for name in NAMES) == CDNA[agent]
    assert (found["wave_front_size"], found["simd_per_cu"], found["simd_arrays_per_engine"]) == (64, 4, 1)
    assert (found["num_sdma_engines"], found["num_sdma_queues_per_engine"], found["hive_id"]) == (2, 8, 0)
    caches = [path for path in made if "/nodes/1/caches/" in path]
    assert found["caches_count"] == len(caches)
    assert found["simd_count"] <= 4 * found["array_count"] * found["cu_per_simd_array"]


@pytest.mark.parametrize(
    ("agent", "caches", "line"),
    [
        ("gfx90a", [(1, 16), (2, 8192)], 64),
        ("gfx942", [(1, 32), (2, 4096), (3, 262144)], 128),
    ],
)
def test_caches(agent: str, caches: list[tuple[int, int]], line: int) -> None:
    made = files(nodes([agent]))
    texts = [made[f"{TOPOLOGY}/nodes/1/caches/{each}/properties"].rpartition("sibling_map")[0] for each in range(3)
             if f"{TOPOLOGY}/nodes/1/caches/{each}/properties" in made]  # fmt: skip
    found = [properties(text) for text in texts]
    assert [(each["level"], each["size"]) for each in found] == caches
    assert {each["cache_line_size"] for each in found} == {line}


@pytest.mark.parametrize(
    ("agent", "versions"),
    [
        ("gfx908", {}),
        ("gfx90a", {11: "9.4.2", 42: "4.4.0", 108: "7.4.4"}),
        ("gfx942", {11: "9.4.3", 42: "4.4.2", 108: "7.9.0"}),
        ("gfx950", {11: "9.5.0", 42: "4.4.5", 108: "7.9.1"}),
    ],
)
def test_ip_versions(agent: str, versions: dict[int, str]) -> None:
    made = files(nodes([agent]))
    base = "sys/class/drm/renderD128/device/ip_discovery/die/0"
    found = {
        block: ".".join(made[f"{base}/{block}/0/{part}"].strip() for part in ("major", "minor", "revision"))
        for block in versions
    }
    assert found == versions
    assert bool(versions) == any(path.startswith(base) for path in made)


@pytest.mark.parametrize("agent", ["gfx900", *CDNA])
def test_device_info(agent: str) -> None:
    """The masks of compute units have as many bits as an accelerator die has compute units."""
    (node,) = nodes([agent])
    info = device_info(node)
    assert sum(mask.bit_count() for mask in info.cu_bitmap) * node.agent.xccs == info.cu_active_number
    assert max(mask.bit_length() for mask in info.cu_bitmap) <= info.num_cu_per_sh
    assert sum(map(bool, info.cu_bitmap)) == info.num_shader_engines
