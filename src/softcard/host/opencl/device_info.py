"""The answers of the OpenCL platform and its devices to ``clGetPlatformInfo`` and ``clGetDeviceInfo``.

Properties of a device come from the model of its agent. The vendor and the vendor id of devices are AMD's, because
programs choose kernels by them, and the devices execute AMD's instruction set: a program then builds the kernels that
it would build for the card. The vendor of the platform is Softcard, because programs compare the driver's version with
those of AMD's drivers if the platform is AMD's.

If the model has no limit for a property, the limit is the minimum that OpenCL requires of devices with the full
profile. A program that stays within it runs on every such device.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from softcard.core import __version__
from softcard.device.hsa.agents import SIMDS_PER_CU
from softcard.device.kfd.node import COMPUTE_QUEUES, MEMORY_BUS_BITS, VENDOR, Node, nodes
from softcard.host import printf
from softcard.host.opencl import constants as cl
from softcard.image.amdcl2.objects import MASK32, MAX_SIZE, MAX_SLICES
from softcard.isa.gcn.state import LANES
from softcard.isa.gcn.target import GFX9

DEFAULT_AGENTS: Final = ("gfx900", "gfx906", "gfx803", "gfx908", "gfx90a", "gfx942", "gfx950")
"""The processors of the devices, unless the program's environment selects others; the first is the default device."""
PLATFORM_NAME: Final = "Softcard"
ICD_SUFFIX: Final = "SOFTCARD"
PLATFORM_VENDOR: Final = "Softcard"
DEVICE_VENDOR: Final = "Advanced Micro Devices, Inc."
PROFILE: Final = "FULL_PROFILE"

Version = tuple[int, int, int]
"""The major version, the minor version and the patch."""
OPENCL: Final[Version] = (3, 0, 0)
"""The version of OpenCL that the platform and its devices implement."""
OPENCL_C: Final[Version] = (1, 2, 0)
"""The newest version of OpenCL C that is supported with all its features; later versions have optional ones."""
OPENCL_C_VERSIONS: Final[tuple[Version, ...]] = ((1, 0, 0), (1, 1, 0), (1, 2, 0), (2, 0, 0), (3, 0, 0))
"""The versions of OpenCL C that programs can select; 2.0 is without pipes and without kernels that enqueue kernels."""


class Named(NamedTuple):
    """An extension, a feature or a language with its version, as in the structure ``cl_name_version``."""

    name: str
    version: Version = (1, 0, 0)

    def packed(self) -> bytes:
        """Return the bytes of the structure ``cl_name_version``."""
        return _uint(numeric_version(self.version)) + self.name.encode().ljust(cl.NAME_VERSION_MAX_NAME_SIZE, b"\0")


_MACRO: Final = re.compile(r"^#(?:define|ifdef) (cl_\w+|__opencl_c_\w+)(?: 1)?$", re.MULTILINE)


def _macros() -> frozenset[str]:
    """Return the macros of extensions and features that the headers of OpenCL C implement.

    A header defines the macro, or tests the one of the compiler before the functions of an extension.
    """
    headers = files("softcard").joinpath("data", "opencl").iterdir()
    return frozenset(name for each in headers for name in _MACRO.findall(each.read_text("utf-8")))


_OF_HEADERS: Final = _macros()
LANGUAGE_EXTENSIONS: Final = (
    Named("cl_khr_byte_addressable_store"),
    Named("cl_khr_global_int32_base_atomics"),
    Named("cl_khr_global_int32_extended_atomics"),
    Named("cl_khr_local_int32_base_atomics"),
    Named("cl_khr_local_int32_extended_atomics"),
    Named("cl_khr_int64_base_atomics"),
    Named("cl_khr_int64_extended_atomics"),
    Named("cl_khr_fp16"),
    Named("cl_khr_fp64"),
    Named("cl_khr_3d_image_writes"),
    Named("cl_khr_subgroups"),
    Named("cl_amd_media_ops"),
    Named("cl_amd_media_ops2"),
    *(
        each
        for each in (
            Named("cl_khr_depth_images"),
            Named("cl_khr_subgroup_extended_types"),
            Named("cl_khr_subgroup_non_uniform_vote"),
            Named("cl_khr_subgroup_ballot"),
            Named("cl_khr_subgroup_non_uniform_arithmetic"),
            Named("cl_khr_subgroup_shuffle"),
            Named("cl_khr_subgroup_shuffle_relative"),
            Named("cl_khr_subgroup_clustered_reduce"),
            Named("cl_khr_subgroup_rotate"),
            Named("cl_khr_extended_bit_ops"),
            Named("cl_khr_integer_dot_product", (2, 0, 0)),
        )
        if each.name in _OF_HEADERS
    ),
)
"""The extensions of OpenCL C: those of compilers, and those that our headers implement.

The compiler or a header defines a macro with the name of each of them.
"""
HOST_EXTENSIONS: Final = (
    Named("cl_khr_icd"),
    Named("cl_khr_extended_versioning"),
    Named("cl_khr_device_uuid"),
    Named("cl_khr_pci_bus_info"),
    Named("cl_khr_image2d_from_buffer"),
    Named("cl_amd_device_attribute_query"),
)
"""The extensions of the API: the loader interface, queries, and 2D images from buffers."""
EXTENSIONS: Final = (*HOST_EXTENSIONS, *LANGUAGE_EXTENSIONS)
"""The extensions of the platform and of each of its devices."""
FEATURES: Final = tuple(
    Named(name, OPENCL)
    for name in sorted(
        {"__opencl_c_3d_image_writes", "__opencl_c_fp64", "__opencl_c_int64"}
        | {name for name in _OF_HEADERS if name.startswith("__opencl_c_")}
    )
)
"""The optional features of OpenCL C 3.0 that devices have: those of compilers, and those that headers define."""

IMAGE_NAMES: Final = frozenset({
    "cl_khr_3d_image_writes", "cl_khr_depth_images", "cl_khr_image2d_from_buffer", "__opencl_c_images",
    "__opencl_c_3d_image_writes", "__opencl_c_read_write_images",
})  # fmt: skip
"""The extensions and features that only devices with images have."""
WITHOUT_IMAGES: Final = ("gfx90a", "gfx942", "gfx950")
"""The agents without images: compilers lack image instructions with a sampler for them."""

# ---- limits that the model does not have: the minima for the full profile -------------------------------------------
MAX_READ_IMAGES: Final = 128
MAX_WRITE_IMAGES: Final = 64
MAX_SAMPLERS: Final = 16
MAX_PARAMETER_BYTES: Final = 1024
MAX_CONSTANT_ARGUMENTS: Final = 8
MAX_VARIABLE_BYTES: Final = 64 << 10
LARGEST_TYPE_BYTES: Final = 128
"""The size of long16, to whose multiples buffers and sub-buffers are aligned."""
# ---- limits of the model --------------------------------------------------------------------------------------------
MAX_TEXEL_BYTES: Final = 16
PITCH_TEXELS: Final = 256
"""The alignment in texels of rows and starts of 2D images from buffers, for texels of every size."""
# ---- GCN, for AMD's queries -----------------------------------------------------------------------------------------
SIMD_WIDTH: Final = 16
"""The number of lanes that one SIMD executes in a clock."""
LDS_BANKS: Final = 32
BITS_PER_CHANNEL: Final = 32
BANKS_PER_CHANNEL: Final = 4
BANK_BYTES: Final = 256
PREFERRED_GROUP_SIZE: Final = 256
TOPOLOGY_PCIE: Final = 1
"""The value CL_DEVICE_TOPOLOGY_TYPE_PCIE_AMD."""


def platform_info() -> dict[int, bytes]:
    """Return the value of each query of ``clGetPlatformInfo`` as bytes, by the query's number."""
    return {
        cl.PLATFORM_PROFILE: _text(PROFILE),
        cl.PLATFORM_VERSION: _text(_version_text("OpenCL", OPENCL)),
        cl.PLATFORM_NAME: _text(PLATFORM_NAME),
        cl.PLATFORM_VENDOR: _text(PLATFORM_VENDOR),
        cl.PLATFORM_EXTENSIONS: _names(EXTENSIONS),
        cl.PLATFORM_HOST_TIMER_RESOLUTION: _ulong(1),
        cl.PLATFORM_NUMERIC_VERSION: _uint(numeric_version(OPENCL)),
        cl.PLATFORM_EXTENSIONS_WITH_VERSION: _table(EXTENSIONS),
        cl.PLATFORM_ICD_SUFFIX_KHR: _text(ICD_SUFFIX),
    }


def device_info(agent: str) -> dict[int, bytes]:
    """Return the value of each query of ``clGetDeviceInfo`` as bytes, by the query's number.

    Handles are missing: those of the platform and of the parent device. The address on the PCI bus and the UUID are
    those of the first device; ``platform.c`` changes them for the others. Raise `WireError` for an agent that the
    kernel driver does not support."""
    (node,) = nodes([agent])
    return {
        **_identity(node),
        **_execution(node),
        **_memory(node),
        **_images(node),
        **_language(node),
        **_queries_of_amd(node),
    }


def numeric_version(version: Version) -> int:
    """Return the number that stands for a version, as ``CL_MAKE_VERSION`` does."""
    major, minor, patch = version
    return major << cl.VERSION_MINOR_BITS + cl.VERSION_PATCH_BITS | minor << cl.VERSION_PATCH_BITS | patch


def has_images(agent: str) -> bool:
    """Return True if an agent supports images."""
    return agent not in WITHOUT_IMAGES


def _of_agent(known: Sequence[Named], node: Node) -> tuple[Named, ...]:
    """Return those of extensions or features that an agent has."""
    return tuple(each for each in known if has_images(node.agent.name) or each.name not in IMAGE_NAMES)


def _identity(node: Node) -> dict[int, bytes]:
    """Return the queries about names, versions and addresses of a device."""
    return {
        cl.DEVICE_TYPE: _ulong(cl.DEVICE_TYPE_GPU),
        cl.DEVICE_VENDOR_ID: _uint(VENDOR),
        cl.DEVICE_NAME: _text(node.agent.name),
        cl.DEVICE_VENDOR: _text(DEVICE_VENDOR),
        cl.DRIVER_VERSION: _text(__version__),
        cl.DEVICE_PROFILE: _text(PROFILE),
        cl.DEVICE_VERSION: _text(_version_text("OpenCL", OPENCL)),
        cl.DEVICE_NUMERIC_VERSION: _uint(numeric_version(OPENCL)),
        # The text that stands for a device that has not passed the tests of conformance.
        cl.DEVICE_LATEST_CONFORMANCE_VERSION_PASSED: _text("v0000-00-00-00"),
        cl.DEVICE_EXTENSIONS: _names(_of_agent(EXTENSIONS, node)),
        cl.DEVICE_EXTENSIONS_WITH_VERSION: _table(_of_agent(EXTENSIONS, node)),
        cl.DEVICE_AVAILABLE: _uint(cl.TRUE),
        cl.DEVICE_REFERENCE_COUNT: _uint(1),
        cl.DEVICE_UUID: uuid5(NAMESPACE_URL, f"softcard:{node.agent.name}").bytes,
        cl.DRIVER_UUID: uuid5(NAMESPACE_URL, f"softcard:{__version__}").bytes,
        cl.DEVICE_LUID_VALID: _uint(cl.FALSE),
        cl.DEVICE_LUID: bytes(cl.LUID_SIZE),
        cl.DEVICE_NODE_MASK: _uint(0),
        cl.DEVICE_PCI_BUS_INFO_KHR: b"".join(map(_uint, (0, *_pci_address(node)))),
    }


def _execution(node: Node) -> dict[int, bytes]:
    """Return the queries about work-groups, queues and partitions of a device."""
    limit = node.agent.workgroup_limit
    return {
        cl.DEVICE_MAX_COMPUTE_UNITS: _uint(node.agent.compute_units),
        cl.DEVICE_MAX_CLOCK_FREQUENCY: _uint(node.product.clock_mhz),
        cl.DEVICE_MAX_WORK_ITEM_DIMENSIONS: _uint(3),
        cl.DEVICE_MAX_WORK_GROUP_SIZE: _ulong(limit),
        cl.DEVICE_MAX_WORK_ITEM_SIZES: _ulong(limit) * 3,
        cl.DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: _ulong(LANES),
        cl.DEVICE_MAX_NUM_SUB_GROUPS: _uint(limit // LANES),
        cl.DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS: _uint(cl.TRUE),
        cl.DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT: _uint(cl.TRUE),
        cl.DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT: _uint(cl.TRUE),
        cl.DEVICE_EXECUTION_CAPABILITIES: _ulong(cl.EXEC_KERNEL | cl.EXEC_NATIVE_KERNEL),
        cl.DEVICE_QUEUE_ON_HOST_PROPERTIES: _ulong(cl.QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | cl.QUEUE_PROFILING_ENABLE),
        cl.DEVICE_PROFILING_TIMER_RESOLUTION: _ulong(1),
        cl.DEVICE_PREFERRED_INTEROP_USER_SYNC: _uint(cl.TRUE),
        cl.DEVICE_BUILT_IN_KERNELS: _text(""),
        cl.DEVICE_BUILT_IN_KERNELS_WITH_VERSION: b"",
        cl.DEVICE_PRINTF_BUFFER_SIZE: _ulong(printf.SIZE_BYTES),
        # Kernels cannot enqueue kernels.
        cl.DEVICE_DEVICE_ENQUEUE_CAPABILITIES: _ulong(0),
        cl.DEVICE_QUEUE_ON_DEVICE_PROPERTIES: _ulong(0),
        cl.DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE: _uint(0),
        cl.DEVICE_QUEUE_ON_DEVICE_MAX_SIZE: _uint(0),
        cl.DEVICE_MAX_ON_DEVICE_QUEUES: _uint(0),
        cl.DEVICE_MAX_ON_DEVICE_EVENTS: _uint(0),
        # The devices do not support pipes.
        cl.DEVICE_PIPE_SUPPORT: _uint(cl.FALSE),
        cl.DEVICE_MAX_PIPE_ARGS: _uint(0),
        cl.DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS: _uint(0),
        cl.DEVICE_PIPE_MAX_PACKET_SIZE: _uint(0),
        # A device cannot be partitioned: the list of the kinds of partitions has only its end.
        cl.DEVICE_PARTITION_MAX_SUB_DEVICES: _uint(0),
        cl.DEVICE_PARTITION_PROPERTIES: _ulong(0),
        cl.DEVICE_PARTITION_AFFINITY_DOMAIN: _ulong(0),
        cl.DEVICE_PARTITION_TYPE: _ulong(0),
    }


def _memory(node: Node) -> dict[int, bytes]:
    """Return the queries about memory, shared virtual memory and atomics of a device."""
    orders = cl.DEVICE_ATOMIC_ORDER_RELAXED | cl.DEVICE_ATOMIC_ORDER_ACQ_REL | cl.DEVICE_ATOMIC_ORDER_SEQ_CST
    scopes = (
        cl.DEVICE_ATOMIC_SCOPE_WORK_GROUP | cl.DEVICE_ATOMIC_SCOPE_DEVICE | cl.DEVICE_ATOMIC_SCOPE_ALL_DEVICES
    )  # fmt: skip
    shared = cl.DEVICE_SVM_COARSE_GRAIN_BUFFER | cl.DEVICE_SVM_FINE_GRAIN_BUFFER | cl.DEVICE_SVM_ATOMICS
    cache_kib = dict(node.product.caches)[2]
    return {
        cl.DEVICE_ADDRESS_BITS: _uint(64),
        cl.DEVICE_ENDIAN_LITTLE: _uint(cl.TRUE),
        cl.DEVICE_ERROR_CORRECTION_SUPPORT: _uint(node.agent.sramecc),
        cl.DEVICE_HOST_UNIFIED_MEMORY: _uint(node.agent.is_apu),
        cl.DEVICE_GLOBAL_MEM_SIZE: _ulong(node.memory_bytes),
        cl.DEVICE_MAX_MEM_ALLOC_SIZE: _ulong(max_allocation_bytes(node)),
        cl.DEVICE_GLOBAL_MEM_CACHE_TYPE: _uint(cl.READ_WRITE_CACHE),
        cl.DEVICE_GLOBAL_MEM_CACHELINE_SIZE: _uint(node.product.cache_line),
        cl.DEVICE_GLOBAL_MEM_CACHE_SIZE: _ulong(cache_kib << 10),
        cl.DEVICE_MEM_BASE_ADDR_ALIGN: _uint(8 * LARGEST_TYPE_BYTES),
        cl.DEVICE_MIN_DATA_TYPE_ALIGN_SIZE: _uint(LARGEST_TYPE_BYTES),
        cl.DEVICE_LOCAL_MEM_TYPE: _uint(cl.LOCAL),
        cl.DEVICE_LOCAL_MEM_SIZE: _ulong(node.agent.lds_bytes),
        # Constant memory is global memory.
        cl.DEVICE_MAX_CONSTANT_BUFFER_SIZE: _ulong(max_allocation_bytes(node)),
        cl.DEVICE_MAX_CONSTANT_ARGS: _uint(MAX_CONSTANT_ARGUMENTS),
        cl.DEVICE_MAX_PARAMETER_SIZE: _ulong(MAX_PARAMETER_BYTES),
        cl.DEVICE_MAX_GLOBAL_VARIABLE_SIZE: _ulong(MAX_VARIABLE_BYTES),
        cl.DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE: _ulong(MAX_VARIABLE_BYTES),
        cl.DEVICE_SVM_CAPABILITIES: _ulong(shared),
        cl.DEVICE_ATOMIC_MEMORY_CAPABILITIES: _ulong(orders | scopes),
        cl.DEVICE_ATOMIC_FENCE_CAPABILITIES: _ulong(orders | scopes | cl.DEVICE_ATOMIC_SCOPE_WORK_ITEM),
        # 0 is the natural alignment of the type.
        cl.DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT: _uint(0),
        cl.DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT: _uint(0),
        cl.DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT: _uint(0),
    }


def max_allocation_bytes(node: Node) -> int:
    """Return the maximum size of a buffer: a quarter of the agent's memory, the minimum that OpenCL requires."""
    return node.memory_bytes // 4


def _images(node: Node) -> dict[int, bytes]:
    """Return the queries about images and samplers, whose limits are those of the descriptors; 0 without images."""
    of_buffers = min(MASK32, max_allocation_bytes(node)) // MAX_TEXEL_BYTES
    found = {
        cl.DEVICE_IMAGE_SUPPORT: _uint(cl.TRUE),
        cl.DEVICE_MAX_READ_IMAGE_ARGS: _uint(MAX_READ_IMAGES),
        cl.DEVICE_MAX_WRITE_IMAGE_ARGS: _uint(MAX_WRITE_IMAGES),
        cl.DEVICE_MAX_READ_WRITE_IMAGE_ARGS: _uint(MAX_WRITE_IMAGES),
        cl.DEVICE_MAX_SAMPLERS: _uint(MAX_SAMPLERS),
        cl.DEVICE_IMAGE2D_MAX_WIDTH: _ulong(MAX_SIZE),
        cl.DEVICE_IMAGE2D_MAX_HEIGHT: _ulong(MAX_SIZE),
        cl.DEVICE_IMAGE3D_MAX_WIDTH: _ulong(MAX_SIZE),
        cl.DEVICE_IMAGE3D_MAX_HEIGHT: _ulong(MAX_SIZE),
        cl.DEVICE_IMAGE3D_MAX_DEPTH: _ulong(MAX_SLICES),
        cl.DEVICE_IMAGE_MAX_ARRAY_SIZE: _ulong(MAX_SLICES),
        cl.DEVICE_IMAGE_MAX_BUFFER_SIZE: _ulong(of_buffers),
        cl.DEVICE_IMAGE_PITCH_ALIGNMENT: _uint(PITCH_TEXELS),
        cl.DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT: _uint(PITCH_TEXELS),
    }
    return found if has_images(node.agent.name) else {name: bytes(len(value)) for name, value in found.items()}


def _language(node: Node) -> dict[int, bytes]:
    """Return the queries about compilers, OpenCL C and numbers.

    Half has denormals and double has them on every agent. Float has them from GFX9 on: before, the compilers select
    the mode that flushes them, because multiplications with addition (``v_mac_f32``) are faster in it."""
    # The rounding mode is a field of the register MODE, and v_fma_f16, v_fma_f32 and v_fma_f64 exist.
    rounding = cl.FP_ROUND_TO_NEAREST | cl.FP_ROUND_TO_ZERO | cl.FP_ROUND_TO_INF
    normal = rounding | cl.FP_INF_NAN | cl.FP_FMA
    has_denormals = node.agent.target.level >= GFX9
    of_float = normal | (cl.FP_DENORM if has_denormals else 0) | cl.FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
    # A lane has 32 bits. Vectors of smaller numbers fill it.
    widths = {"CHAR": 4, "SHORT": 2, "INT": 1, "LONG": 1, "FLOAT": 1, "DOUBLE": 1, "HALF": 2 if has_denormals else 1}
    of_widths = {
        getattr(cl, f"DEVICE_{kind}_VECTOR_WIDTH_{name}"): _uint(width)
        for kind in ("PREFERRED", "NATIVE")
        for name, width in widths.items()
    }
    return of_widths | {
        cl.DEVICE_COMPILER_AVAILABLE: _uint(cl.TRUE),
        cl.DEVICE_LINKER_AVAILABLE: _uint(cl.TRUE),
        cl.DEVICE_OPENCL_C_VERSION: _text(_version_text("OpenCL C", OPENCL_C)),
        cl.DEVICE_OPENCL_C_NUMERIC_VERSION_KHR: _uint(numeric_version(OPENCL_C)),
        cl.DEVICE_OPENCL_C_ALL_VERSIONS: _table(Named("OpenCL C", version) for version in OPENCL_C_VERSIONS),
        cl.DEVICE_OPENCL_C_FEATURES: _table(_of_agent(FEATURES, node)),
        # The devices do not accept intermediate languages.
        cl.DEVICE_IL_VERSION: _text(""),
        cl.DEVICE_ILS_WITH_VERSION: b"",
        cl.DEVICE_SINGLE_FP_CONFIG: _ulong(of_float),
        cl.DEVICE_DOUBLE_FP_CONFIG: _ulong(normal | cl.FP_DENORM),
        cl.DEVICE_HALF_FP_CONFIG: _ulong(normal | cl.FP_DENORM),
        cl.DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT: _uint(cl.TRUE),
        cl.DEVICE_INTEGER_DOT_PRODUCT_CAPABILITIES: _ulong(
            cl.DEVICE_INTEGER_DOT_PRODUCT_INPUT_4x8BIT_PACKED | cl.DEVICE_INTEGER_DOT_PRODUCT_INPUT_4x8BIT
        ),
        # Six booleans: dot products are code of several instructions.
        cl.DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_8BIT: _uint(cl.FALSE) * 6,
        cl.DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED: _uint(cl.FALSE) * 6,
    }


def _queries_of_amd(node: Node) -> dict[int, bytes]:
    """Return the queries of cl_amd_device_attribute_query; free memory is that of a device without buffers."""
    agent = node.agent
    free_kib = _ulong(node.memory_bytes >> 10) + _ulong(max_allocation_bytes(node) >> 10)
    return {
        cl.DEVICE_PROFILING_TIMER_OFFSET_AMD: _ulong(0),  # platform.c has the value
        cl.DEVICE_TOPOLOGY_AMD: struct.pack("<I17x3B", TOPOLOGY_PCIE, *_pci_address(node)),
        cl.DEVICE_BOARD_NAME_AMD: _text(node.product.board),
        cl.DEVICE_PCIE_ID_AMD: _uint(node.device_id),
        cl.DEVICE_GLOBAL_FREE_MEMORY_AMD: free_kib,
        cl.DEVICE_SIMD_PER_COMPUTE_UNIT_AMD: _uint(SIMDS_PER_CU),
        cl.DEVICE_SIMD_WIDTH_AMD: _uint(SIMD_WIDTH),
        cl.DEVICE_SIMD_INSTRUCTION_WIDTH_AMD: _uint(1),
        cl.DEVICE_WAVEFRONT_WIDTH_AMD: _uint(LANES),
        cl.DEVICE_GLOBAL_MEM_CHANNELS_AMD: _uint(MEMORY_BUS_BITS // BITS_PER_CHANNEL),
        cl.DEVICE_GLOBAL_MEM_CHANNEL_BANKS_AMD: _uint(BANKS_PER_CHANNEL),
        cl.DEVICE_GLOBAL_MEM_CHANNEL_BANK_WIDTH_AMD: _uint(BANK_BYTES),
        cl.DEVICE_LOCAL_MEM_SIZE_PER_COMPUTE_UNIT_AMD: _uint(agent.lds_bytes),
        cl.DEVICE_LOCAL_MEM_BANKS_AMD: _uint(LDS_BANKS),
        cl.DEVICE_THREAD_TRACE_SUPPORTED_AMD: _uint(cl.FALSE),
        cl.DEVICE_GFXIP_MAJOR_AMD: _uint(agent.target.level),
        cl.DEVICE_GFXIP_MINOR_AMD: _uint(int(agent.name[-2], 16)),
        cl.DEVICE_AVAILABLE_ASYNC_QUEUES_AMD: _uint(COMPUTE_QUEUES),
        cl.DEVICE_MAX_REAL_TIME_COMPUTE_QUEUES_AMD: _uint(0),
        cl.DEVICE_MAX_REAL_TIME_COMPUTE_UNITS_AMD: _uint(0),
        cl.DEVICE_PREFERRED_WORK_GROUP_SIZE_AMD: _ulong(PREFERRED_GROUP_SIZE),
        cl.DEVICE_MAX_WORK_GROUP_SIZE_AMD: _ulong(agent.workgroup_limit),
        cl.DEVICE_PREFERRED_CONSTANT_BUFFER_SIZE_AMD: _ulong(node.product.caches[0][1] << 10),
    }


def _pci_address(node: Node) -> tuple[int, int, int]:
    """Return the bus, the device and the function of an agent on the PCI bus."""
    return node.location_id >> 8, node.location_id >> 3 & 31, node.location_id & 7


def _version_text(language: str, version: Version) -> str:
    return f"{language} {version[0]}.{version[1]} Softcard {__version__}"


def _names(entries: Iterable[Named]) -> bytes:
    return _text(" ".join(entry.name for entry in entries))


def _table(entries: Iterable[Named]) -> bytes:
    return b"".join(entry.packed() for entry in entries)


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


def _uint(value: int) -> bytes:
    return struct.pack("<I", value)


def _ulong(value: int) -> bytes:
    """Return the bytes of a ``cl_ulong``, a bit field or a ``size_t``, which have 64 bits."""
    return struct.pack("<Q", value)
