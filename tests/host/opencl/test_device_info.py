"""The answers of the OpenCL platform and its devices to queries: complete, of the right size, and in agreement."""

import struct

import numpy as np
import pytest

import softcard
from softcard import WireError
from softcard.device.hsa.agents import AGENTS
from softcard.device.kfd.node import PRODUCTS
from softcard.host.hsa.compile import compilers
from softcard.host.opencl import constants as cl
from softcard.host.opencl import device_info as told
from softcard.host.opencl.device_info import device_info, platform_info

HANDLES = {"DEVICE_PLATFORM", "DEVICE_PARENT_DEVICE"}
"""Queries whose values are handles, which the objects of the platform add."""
OF_SPIRV = {"DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS", "DEVICE_SPIRV_EXTENSIONS", "DEVICE_SPIRV_CAPABILITIES"}
"""Queries of cl_khr_spirv_queries, which the platform does not have since it does not take SPIR-V."""

UINTS = """
VENDOR_ID MAX_COMPUTE_UNITS MAX_WORK_ITEM_DIMENSIONS PREFERRED_VECTOR_WIDTH_CHAR PREFERRED_VECTOR_WIDTH_SHORT
PREFERRED_VECTOR_WIDTH_INT PREFERRED_VECTOR_WIDTH_LONG PREFERRED_VECTOR_WIDTH_FLOAT PREFERRED_VECTOR_WIDTH_DOUBLE
PREFERRED_VECTOR_WIDTH_HALF NATIVE_VECTOR_WIDTH_CHAR NATIVE_VECTOR_WIDTH_SHORT NATIVE_VECTOR_WIDTH_INT
NATIVE_VECTOR_WIDTH_LONG NATIVE_VECTOR_WIDTH_FLOAT NATIVE_VECTOR_WIDTH_DOUBLE NATIVE_VECTOR_WIDTH_HALF
MAX_CLOCK_FREQUENCY ADDRESS_BITS MAX_READ_IMAGE_ARGS MAX_WRITE_IMAGE_ARGS MAX_READ_WRITE_IMAGE_ARGS MAX_SAMPLERS
IMAGE_SUPPORT IMAGE_PITCH_ALIGNMENT IMAGE_BASE_ADDRESS_ALIGNMENT MEM_BASE_ADDR_ALIGN MIN_DATA_TYPE_ALIGN_SIZE
GLOBAL_MEM_CACHE_TYPE GLOBAL_MEM_CACHELINE_SIZE MAX_CONSTANT_ARGS LOCAL_MEM_TYPE ERROR_CORRECTION_SUPPORT ENDIAN_LITTLE
AVAILABLE COMPILER_AVAILABLE LINKER_AVAILABLE HOST_UNIFIED_MEMORY PARTITION_MAX_SUB_DEVICES REFERENCE_COUNT
PREFERRED_INTEROP_USER_SYNC QUEUE_ON_DEVICE_PREFERRED_SIZE QUEUE_ON_DEVICE_MAX_SIZE MAX_ON_DEVICE_QUEUES
MAX_ON_DEVICE_EVENTS MAX_PIPE_ARGS PIPE_MAX_ACTIVE_RESERVATIONS PIPE_MAX_PACKET_SIZE PIPE_SUPPORT
PREFERRED_PLATFORM_ATOMIC_ALIGNMENT PREFERRED_GLOBAL_ATOMIC_ALIGNMENT PREFERRED_LOCAL_ATOMIC_ALIGNMENT
MAX_NUM_SUB_GROUPS SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS NUMERIC_VERSION OPENCL_C_NUMERIC_VERSION_KHR
NON_UNIFORM_WORK_GROUP_SUPPORT WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT GENERIC_ADDRESS_SPACE_SUPPORT LUID_VALID
NODE_MASK PCIE_ID_AMD SIMD_PER_COMPUTE_UNIT_AMD SIMD_WIDTH_AMD SIMD_INSTRUCTION_WIDTH_AMD WAVEFRONT_WIDTH_AMD
GLOBAL_MEM_CHANNELS_AMD GLOBAL_MEM_CHANNEL_BANKS_AMD GLOBAL_MEM_CHANNEL_BANK_WIDTH_AMD
LOCAL_MEM_SIZE_PER_COMPUTE_UNIT_AMD LOCAL_MEM_BANKS_AMD THREAD_TRACE_SUPPORTED_AMD GFXIP_MAJOR_AMD GFXIP_MINOR_AMD
AVAILABLE_ASYNC_QUEUES_AMD MAX_REAL_TIME_COMPUTE_QUEUES_AMD MAX_REAL_TIME_COMPUTE_UNITS_AMD
"""
ULONGS = """
TYPE MAX_WORK_GROUP_SIZE MAX_MEM_ALLOC_SIZE IMAGE2D_MAX_WIDTH IMAGE2D_MAX_HEIGHT IMAGE3D_MAX_WIDTH IMAGE3D_MAX_HEIGHT
IMAGE3D_MAX_DEPTH IMAGE_MAX_BUFFER_SIZE IMAGE_MAX_ARRAY_SIZE MAX_PARAMETER_SIZE SINGLE_FP_CONFIG DOUBLE_FP_CONFIG
HALF_FP_CONFIG GLOBAL_MEM_CACHE_SIZE GLOBAL_MEM_SIZE MAX_CONSTANT_BUFFER_SIZE LOCAL_MEM_SIZE
PROFILING_TIMER_RESOLUTION EXECUTION_CAPABILITIES QUEUE_ON_HOST_PROPERTIES PRINTF_BUFFER_SIZE
PARTITION_PROPERTIES PARTITION_AFFINITY_DOMAIN PARTITION_TYPE MAX_GLOBAL_VARIABLE_SIZE QUEUE_ON_DEVICE_PROPERTIES
SVM_CAPABILITIES GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE ATOMIC_MEMORY_CAPABILITIES ATOMIC_FENCE_CAPABILITIES
PREFERRED_WORK_GROUP_SIZE_MULTIPLE DEVICE_ENQUEUE_CAPABILITIES INTEGER_DOT_PRODUCT_CAPABILITIES
PROFILING_TIMER_OFFSET_AMD PREFERRED_WORK_GROUP_SIZE_AMD MAX_WORK_GROUP_SIZE_AMD PREFERRED_CONSTANT_BUFFER_SIZE_AMD
"""
TEXTS = (
    "NAME VENDOR PROFILE VERSION EXTENSIONS OPENCL_C_VERSION BUILT_IN_KERNELS IL_VERSION BOARD_NAME_AMD "
    "LATEST_CONFORMANCE_VERSION_PASSED"
)
TABLES = (
    "EXTENSIONS_WITH_VERSION ILS_WITH_VERSION BUILT_IN_KERNELS_WITH_VERSION OPENCL_C_ALL_VERSIONS OPENCL_C_FEATURES"
)
OTHERS = {
    "DEVICE_MAX_WORK_ITEM_SIZES": 24, "DEVICE_UUID": 16, "DRIVER_UUID": 16, "DEVICE_LUID": 8,
    "DEVICE_PCI_BUS_INFO_KHR": 16, "DEVICE_TOPOLOGY_AMD": 24, "DEVICE_GLOBAL_FREE_MEMORY_AMD": 16,
    "DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_8BIT": 24,
    "DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED": 24,
}  # fmt: skip


def number(value: bytes) -> int:
    return int.from_bytes(value, "little")


def text(value: bytes) -> str:
    assert value.endswith(b"\0")
    assert value.count(b"\0") == 1
    return value[:-1].decode("ascii")


def table(value: bytes) -> list[tuple[str, tuple[int, int, int]]]:
    entries = []
    for packed, name in struct.iter_unpack("<I64s", value):
        entries.append((name.rstrip(b"\0").decode(), (packed >> 22, packed >> 12 & 0x3FF, packed & 0xFFF)))
    return entries


def queries() -> dict[str, int]:
    """The constants that are queries of devices, by name: their numbers are in the ranges of queries."""
    return {
        name: value
        for name, value in vars(cl).items()
        if name.startswith(("DEVICE_", "DRIVER_"))
        and (0x1000 <= value < 0x1080 or 0x12B0 <= value < 0x12C0 or 0x4000 <= value < 0x5000)
    }


def test_each_query_of_a_device_has_a_value():
    info = device_info("gfx900")
    missing = {name for name, value in queries().items() if value not in info}
    assert missing == HANDLES | OF_SPIRV
    assert set(info) <= set(queries().values())


def test_each_query_of_the_platform_has_a_value():
    numbers = {value for name, value in vars(cl).items() if name.startswith("PLATFORM_") and value > 0}
    assert set(platform_info()) == numbers


@pytest.mark.parametrize("agent", PRODUCTS)
def test_values_have_the_size_of_their_type(agent):
    info = device_info(agent)
    sizes = dict.fromkeys((getattr(cl, f"DEVICE_{name}") for name in UINTS.split()), 4)
    sizes |= dict.fromkeys((getattr(cl, f"DEVICE_{name}") for name in ULONGS.split()), 8)
    sizes |= {getattr(cl, name): size for name, size in OTHERS.items()}
    texts = {getattr(cl, f"DEVICE_{name}") for name in TEXTS.split()} | {cl.DRIVER_VERSION}
    tables = {getattr(cl, f"DEVICE_{name}") for name in TABLES.split()}
    assert sizes.keys() | texts | tables == info.keys()
    assert {query: len(info[query]) for query in sizes} == sizes
    for query in texts:
        text(info[query])
    for query in tables:
        assert len(info[query]) % (4 + cl.NAME_VERSION_MAX_NAME_SIZE) == 0


def test_versions_agree():
    info, platform = device_info("gfx900"), platform_info()
    for values, version, number_of in (
        (platform, cl.PLATFORM_VERSION, cl.PLATFORM_NUMERIC_VERSION),
        (info, cl.DEVICE_VERSION, cl.DEVICE_NUMERIC_VERSION),
    ):
        assert text(values[version]) == f"OpenCL 3.0 Softcard {softcard.__version__}"
        assert number(values[number_of]) == 3 << 22
    assert text(info[cl.DEVICE_OPENCL_C_VERSION]) == f"OpenCL C 1.2 Softcard {softcard.__version__}"
    assert number(info[cl.DEVICE_OPENCL_C_NUMERIC_VERSION_KHR]) == 1 << 22 | 2 << 12
    versions = table(info[cl.DEVICE_OPENCL_C_ALL_VERSIONS])
    assert versions == [("OpenCL C", (*each, 0)) for each in ((1, 0), (1, 1), (1, 2), (2, 0), (3, 0))]
    for values, names, with_version in (
        (platform, cl.PLATFORM_EXTENSIONS, cl.PLATFORM_EXTENSIONS_WITH_VERSION),
        (info, cl.DEVICE_EXTENSIONS, cl.DEVICE_EXTENSIONS_WITH_VERSION),
    ):
        assert text(values[names]).split() == [name for name, _ in table(values[with_version])]
    extensions = text(platform[cl.PLATFORM_EXTENSIONS]).split()
    assert "cl_khr_icd" in extensions, "a loader skips a platform without this extension"
    assert len(extensions) == len(set(extensions))


@pytest.mark.parametrize("agent", ["gfx900", "gfx90a"])
def test_features_agree_with_the_queries_about_them(agent):
    info = device_info(agent)
    features = {name.removeprefix("__opencl_c_") for name, _ in table(info[cl.DEVICE_OPENCL_C_FEATURES])}
    extensions = set(text(info[cl.DEVICE_EXTENSIONS]).split())
    assert ("pipes" in features) == number(info[cl.DEVICE_PIPE_SUPPORT])
    assert ("device_enqueue" in features) == number(info[cl.DEVICE_DEVICE_ENQUEUE_CAPABILITIES])
    assert ("generic_address_space" in features) == number(info[cl.DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT])
    has_images = number(info[cl.DEVICE_IMAGE_SUPPORT])
    assert ("images" in features) == has_images == (agent == "gfx900")
    assert ("3d_image_writes" in features) == ("cl_khr_3d_image_writes" in extensions) == has_images
    assert ("cl_khr_image2d_from_buffer" in extensions) == has_images
    assert ("fp64" in features) == ("cl_khr_fp64" in extensions) == bool(number(info[cl.DEVICE_DOUBLE_FP_CONFIG]))
    assert ("subgroups" in features) == ("cl_khr_subgroups" in extensions)
    assert ("work_group_collective_functions" in features) == number(
        info[cl.DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT]
    )
    capabilities = number(info[cl.DEVICE_ATOMIC_MEMORY_CAPABILITIES])
    for feature, bit in (
        ("atomic_order_acq_rel", cl.DEVICE_ATOMIC_ORDER_ACQ_REL),
        ("atomic_order_seq_cst", cl.DEVICE_ATOMIC_ORDER_SEQ_CST),
        ("atomic_scope_device", cl.DEVICE_ATOMIC_SCOPE_DEVICE),
        ("atomic_scope_all_devices", cl.DEVICE_ATOMIC_SCOPE_ALL_DEVICES),
    ):
        assert (feature in features) == bool(capabilities & bit)


MINIMA = {
    "MAX_WORK_GROUP_SIZE": 1, "MAX_MEM_ALLOC_SIZE": 1 << 30, "IMAGE2D_MAX_WIDTH": 16384, "IMAGE2D_MAX_HEIGHT": 16384,
    "IMAGE3D_MAX_WIDTH": 2048, "IMAGE3D_MAX_HEIGHT": 2048, "IMAGE3D_MAX_DEPTH": 2048, "IMAGE_MAX_BUFFER_SIZE": 65536,
    "IMAGE_MAX_ARRAY_SIZE": 2048, "MAX_READ_IMAGE_ARGS": 128, "MAX_WRITE_IMAGE_ARGS": 64,
    "MAX_READ_WRITE_IMAGE_ARGS": 64, "MAX_PARAMETER_SIZE": 1024, "MAX_SAMPLERS": 16, "MEM_BASE_ADDR_ALIGN": 1024,
    "MIN_DATA_TYPE_ALIGN_SIZE": 128, "MAX_CONSTANT_BUFFER_SIZE": 65536, "MAX_CONSTANT_ARGS": 8,
    "LOCAL_MEM_SIZE": 32768, "PRINTF_BUFFER_SIZE": 1 << 20, "MAX_GLOBAL_VARIABLE_SIZE": 65536,
}  # fmt: skip


@pytest.mark.parametrize("agent", PRODUCTS)
def test_limits_are_those_of_the_full_profile_or_more(agent):
    info = device_info(agent)
    low = {name: number(info[getattr(cl, f"DEVICE_{name}")]) for name in MINIMA}
    of_images = {name for name in MINIMA if "IMAGE" in name or "SAMPLERS" in name}
    without = set() if told.has_images(agent) else of_images
    assert {name for name, value in low.items() if value < MINIMA[name]} == without
    assert all(low[name] == 0 for name in without)
    assert number(info[cl.DEVICE_MAX_MEM_ALLOC_SIZE]) >= number(info[cl.DEVICE_GLOBAL_MEM_SIZE]) // 4


def test_values_are_those_of_the_agent():
    for name in PRODUCTS:
        info = device_info(name)
        assert text(info[cl.DEVICE_NAME]) == name
        assert number(info[cl.DEVICE_MAX_COMPUTE_UNITS]) == AGENTS[name].compute_units
        assert number(info[cl.DEVICE_LOCAL_MEM_SIZE]) == AGENTS[name].lds_bytes
        assert number(info[cl.DEVICE_VENDOR_ID]) == 0x1002
    info = device_info("gfx90a")
    assert text(info[cl.DEVICE_BOARD_NAME_AMD]) == "Instinct MI250X"
    assert number(info[cl.DEVICE_PCIE_ID_AMD]) == 0x7408
    assert number(info[cl.DEVICE_ERROR_CORRECTION_SUPPORT]) == 1
    assert (number(info[cl.DEVICE_GFXIP_MAJOR_AMD]), number(info[cl.DEVICE_GFXIP_MINOR_AMD])) == (9, 0)
    assert info[cl.DEVICE_GLOBAL_FREE_MEMORY_AMD] == struct.pack("<2Q", 8 << 20, 2 << 20)


def test_float_has_denormals_where_compilers_keep_them():
    has = {name: number(device_info(name)[cl.DEVICE_SINGLE_FP_CONFIG]) & cl.FP_DENORM for name in ("gfx803", "gfx900")}
    assert has == {"gfx803": 0, "gfx900": 1}


def test_uuids_and_pci_addresses():
    first, other = device_info("gfx900"), device_info("gfx906")
    assert first == device_info("gfx900")
    assert first[cl.DEVICE_UUID] != other[cl.DEVICE_UUID]
    assert first[cl.DRIVER_UUID] == other[cl.DRIVER_UUID]
    assert first[cl.DEVICE_PCI_BUS_INFO_KHR] == struct.pack("<4I", 0, 4, 0, 0)
    assert first[cl.DEVICE_TOPOLOGY_AMD] == struct.pack("<I17x3B", 1, 4, 0, 0)


def test_a_name_fits_its_field():
    for each in (*told.EXTENSIONS, *told.FEATURES):
        assert len(each.name) < cl.NAME_VERSION_MAX_NAME_SIZE


OF_LANGUAGE = """
cl_khr_3d_image_writes cl_khr_async_work_group_copy_fence cl_khr_byte_addressable_store cl_khr_depth_images
cl_khr_device_enqueue_local_arg_types cl_khr_expect_assume cl_khr_extended_async_copies cl_khr_extended_bit_ops
cl_khr_fp16 cl_khr_fp64 cl_khr_gl_msaa_sharing cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics
cl_khr_int64_base_atomics cl_khr_int64_extended_atomics cl_khr_integer_dot_product
cl_khr_kernel_clock cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_mipmap_image
cl_khr_mipmap_image_writes cl_khr_select_fprounding_mode cl_khr_srgb_image_writes cl_khr_subgroup_ballot
cl_khr_subgroup_clustered_reduce cl_khr_subgroup_extended_types cl_khr_subgroup_named_barrier
cl_khr_subgroup_non_uniform_arithmetic cl_khr_subgroup_non_uniform_vote cl_khr_subgroup_rotate
cl_khr_subgroup_shuffle cl_khr_subgroup_shuffle_relative cl_khr_subgroups cl_khr_work_group_uniform_arithmetic
cl_ext_float_atomics cl_amd_media_ops cl_amd_media_ops2
__opencl_c_3d_image_writes __opencl_c_atomic_order_acq_rel __opencl_c_atomic_order_seq_cst
__opencl_c_atomic_scope_all_devices __opencl_c_atomic_scope_device __opencl_c_device_enqueue __opencl_c_fp64
__opencl_c_generic_address_space __opencl_c_images __opencl_c_int64 __opencl_c_integer_dot_product_input_4x8bit
__opencl_c_integer_dot_product_input_4x8bit_packed __opencl_c_pipes __opencl_c_program_scope_global_variables
__opencl_c_read_write_images __opencl_c_subgroups __opencl_c_work_group_collective_functions
"""
"""The extensions and optional features of OpenCL C whose macros a compiler may define."""


@pytest.mark.skipif(not compilers(), reason="no compiler of OpenCL C")
def test_the_compiler_defines_macros_of_what_the_device_has_and_of_nothing_else():
    names = OF_LANGUAGE.split()
    claimed = {each.name for each in (*told.LANGUAGE_EXTENSIONS, *told.FEATURES)}
    assert claimed <= set(names)
    lines = (f"#ifdef {name}\n    found[{number}] = 1;\n#endif\n" for number, name in enumerate(names))
    with softcard.Gpu.open("gfx900") as gpu:
        found = gpu.zeros(len(names), np.int32)
        source = f"kernel void defined(global int *found)\n{{\n{''.join(lines)}}}\n"
        gpu.run(gpu.compile(source, options=["-cl-std=CL3.0"]), "defined", 1, args=[found])
        assert {name for name, is_defined in zip(names, found, strict=True) if is_defined} == claimed


def test_an_agent_that_the_driver_does_not_support_is_refused():
    with pytest.raises(WireError, match="the kernel driver has no agent 'gfx700', expected one of gfx803, "):
        device_info("gfx700")
