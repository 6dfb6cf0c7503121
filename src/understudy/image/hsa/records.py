"""Headers of kernels, byte for byte: amd_kernel_code_t (V1, V2, mesa3d) and the kernel descriptor (V3 to V6).

Sources: "AMD Kernel Code Object amd_kernel_code_t" and the rsrc1/rsrc2 tables of the ROCm Code Object document, whose
bit numbers were checked against objects that LLVM wrote; the kernel descriptor is not in the document and was found by
setting each `.amdhsa_` directive. Both headers agree at 0x10, 0x30, 0x34 and in the low bits of 0x38, which is all
that a packet processor needs: `LaunchFacts`.
"""

from __future__ import annotations

from typing import Final

from understudy.core.record import (
    Record,
    bits,
    i32,
    i64,
    nested,
    reserved,
    reserved_bits,
    u8,
    u16,
    u32,
    u64,
    words,
)

KERNEL_CODE_ALIGNMENT: Final = 64
ENTRY_ALIGNMENT: Final = 256
"""Alignment of a kernel's first instruction."""
VGPR_GRANULE: Final = 4
SGPR_GRANULE: Final = 8


class Rsrc1(Record, size=4):
    """compute_pgm_rsrc1, "Compute shader program settings 1"."""

    granulated_workitem_vgpr_count: int = bits(5, 0)
    granulated_wavefront_sgpr_count: int = bits(9, 6)
    priority: int = bits(11, 10)
    float_mode_round_32: int = bits(13, 12)
    float_mode_round_16_64: int = bits(15, 14)
    float_mode_denorm_32: int = bits(17, 16)
    float_mode_denorm_16_64: int = bits(19, 18)
    priv: int = bits(20, 20)
    enable_dx10_clamp: int = bits(21, 21)
    debug_mode: int = bits(22, 22)
    enable_ieee_mode: int = bits(23, 23)
    bulky: int = bits(24, 24)
    cdbg_user: int = bits(25, 25)
    fp16_overflow: int = bits(26, 26)  # GFX9 only; the document has it among the reserved bits
    reserved_27: int = reserved_bits(31, 27)

    @property
    def vgprs(self) -> int:
        """Vector registers allocated to each work-item."""
        return (self.granulated_workitem_vgpr_count + 1) * VGPR_GRANULE

    @property
    def sgprs(self) -> int:
        """Scalar registers allocated to each wave, VCC, FLAT_SCRATCH and XNACK_MASK among them."""
        return (self.granulated_wavefront_sgpr_count + 1) * SGPR_GRANULE


class Rsrc2(Record, size=4):
    """compute_pgm_rsrc2, "Compute shader program settings 2"."""

    enable_sgpr_private_segment_wave_byte_offset: int = bits(0, 0)
    user_sgpr_count: int = bits(5, 1)
    enable_trap_handler: int = bits(6, 6)
    enable_sgpr_workgroup_id_x: int = bits(7, 7)
    enable_sgpr_workgroup_id_y: int = bits(8, 8)
    enable_sgpr_workgroup_id_z: int = bits(9, 9)
    enable_sgpr_workgroup_info: int = bits(10, 10)
    enable_vgpr_workitem_id: int = bits(12, 11)
    enable_exception_address_watch: int = bits(13, 13)
    enable_exception_memory_violation: int = bits(14, 14)
    granulated_lds_size: int = bits(23, 15)
    enable_exception_ieee_754_fp_invalid_operation: int = bits(24, 24)
    enable_exception_fp_denormal_source: int = bits(25, 25)
    enable_exception_ieee_754_fp_division_by_zero: int = bits(26, 26)
    enable_exception_ieee_754_fp_overflow: int = bits(27, 27)
    enable_exception_ieee_754_fp_underflow: int = bits(28, 28)
    enable_exception_ieee_754_fp_inexact: int = bits(29, 29)
    enable_exception_int_divide_by_zero: int = bits(30, 30)
    reserved_31: int = reserved_bits(31, 31)


class CodeProperties(Record, size=4):
    """kernel_code_properties of amd_kernel_code_t, bits 479:448 of it."""

    enable_sgpr_private_segment_buffer: int = bits(0, 0)
    enable_sgpr_dispatch_ptr: int = bits(1, 1)
    enable_sgpr_queue_ptr: int = bits(2, 2)
    enable_sgpr_kernarg_segment_ptr: int = bits(3, 3)
    enable_sgpr_dispatch_id: int = bits(4, 4)
    enable_sgpr_flat_scratch_init: int = bits(5, 5)
    enable_sgpr_private_segment_size: int = bits(6, 6)
    enable_sgpr_grid_workgroup_count_x: int = bits(7, 7)
    enable_sgpr_grid_workgroup_count_y: int = bits(8, 8)
    enable_sgpr_grid_workgroup_count_z: int = bits(9, 9)
    reserved_low: int = reserved_bits(15, 10)
    enable_ordered_append_gds: int = bits(16, 16)
    private_element_size: int = bits(18, 17)
    is_ptr64: int = bits(19, 19)
    is_dynamic_callstack: int = bits(20, 20)
    is_debug_enabled: int = bits(21, 21)
    is_xnack_enabled: int = bits(22, 22)
    reserved_high: int = reserved_bits(31, 23)

    @property
    def private_element_bytes(self) -> int:
        """Bytes of one lane that lie side by side in swizzled private memory: 2, 4, 8 or 16."""
        return 2 << self.private_element_size


class DescriptorProperties(Record, size=2):
    """Kernel code properties of a kernel descriptor."""

    enable_sgpr_private_segment_buffer: int = bits(0, 0, of=16)
    enable_sgpr_dispatch_ptr: int = bits(1, 1, of=16)
    enable_sgpr_queue_ptr: int = bits(2, 2, of=16)
    enable_sgpr_kernarg_segment_ptr: int = bits(3, 3, of=16)
    enable_sgpr_dispatch_id: int = bits(4, 4, of=16)
    enable_sgpr_flat_scratch_init: int = bits(5, 5, of=16)
    enable_sgpr_private_segment_size: int = bits(6, 6, of=16)
    reserved_low: int = reserved_bits(9, 7, of=16)
    enable_wavefront_size32: int = bits(10, 10, of=16)
    uses_dynamic_stack: int = bits(11, 11, of=16)
    reserved_high: int = reserved_bits(15, 12, of=16)


class ControlDirectives(Record, size=128):
    """hsa_ext_control_directives_t: what a finalizer's kernel relies on."""

    enabled_control_directives: int = u64()
    enable_break_exceptions: int = u16()
    enable_detect_exceptions: int = u16()
    max_dynamic_group_size: int = u32()
    max_flat_grid_size: int = u64()
    max_flat_workgroup_size: int = u32()
    required_dim: int = u8()
    reserved_1d: bytes = reserved(3)
    required_grid_size: tuple[int, ...] = words(64, 3)
    required_workgroup_size: tuple[int, ...] = words(32, 3)
    reserved_44: bytes = reserved(60)


class KernelCode(Record, size=256):
    """amd_kernel_code_t. Alignments and the wavefront size are stored as powers of two (erratum 22)."""

    amd_kernel_code_version_major: int = u32()
    amd_kernel_code_version_minor: int = u32()
    amd_machine_kind: int = u16()
    amd_machine_version_major: int = u16()
    amd_machine_version_minor: int = u16()
    amd_machine_version_stepping: int = u16()
    kernel_code_entry_byte_offset: int = i64()
    kernel_code_prefetch_byte_offset: int = i64()
    kernel_code_prefetch_byte_size: int = u64()
    max_scratch_backing_memory_byte_size: int = u64()
    compute_pgm_rsrc1: Rsrc1 = nested(Rsrc1)
    compute_pgm_rsrc2: Rsrc2 = nested(Rsrc2)
    kernel_code_properties: CodeProperties = nested(CodeProperties)
    workitem_private_segment_byte_size: int = u32()
    workgroup_group_segment_byte_size: int = u32()
    gds_segment_byte_size: int = u32()
    kernarg_segment_byte_size: int = u64()
    workgroup_fbarrier_count: int = u32()
    wavefront_sgpr_count: int = u16()
    workitem_vgpr_count: int = u16()
    reserved_vgpr_first: int = u16()
    reserved_vgpr_count: int = u16()
    reserved_sgpr_first: int = u16()
    reserved_sgpr_count: int = u16()
    debug_wavefront_private_segment_offset_sgpr: int = u16()
    debug_private_segment_buffer_sgpr: int = u16()
    kernarg_segment_alignment: int = u8()
    group_segment_alignment: int = u8()
    private_segment_alignment: int = u8()
    wavefront_size: int = u8()
    call_convention: int = i32()
    reserved_6c: bytes = reserved(12)
    runtime_loader_kernel_symbol: int = u64()
    control_directives: ControlDirectives = nested(ControlDirectives)


class KernelDescriptor(Record, size=64):
    """The kernel descriptor, symbol ``<kernel>.kd``; the entry offset counts from its own first byte."""

    group_segment_fixed_size: int = u32()
    private_segment_fixed_size: int = u32()
    kernarg_size: int = u32()  # 0 from old tools
    reserved_0c: bytes = reserved(4)
    kernel_code_entry_byte_offset: int = i64()
    reserved_18: bytes = reserved(20)
    compute_pgm_rsrc3: int = u32()
    compute_pgm_rsrc1: Rsrc1 = nested(Rsrc1)
    compute_pgm_rsrc2: Rsrc2 = nested(Rsrc2)
    kernel_code_properties: DescriptorProperties = nested(DescriptorProperties)
    reserved_3a: bytes = reserved(6)


class LaunchFacts(Record, size=64):
    """What a packet processor reads behind `kernel_object`, which may be either header: they agree in these places.

    `properties` are `CodeProperties` bits 15:0. A descriptor's reserved bits 9:7 stand where amd_kernel_code_t enables
    the work-group counts, so that one reading serves both. The first four fields are those of amd_kernel_code_t.
    """

    amd_kernel_code_version_major: int = u32()
    amd_kernel_code_version_minor: int = u32()
    amd_machine_kind: int = u16()
    amd_machine_version_major: int = u16()
    reserved_0c: bytes = reserved(4)
    kernel_code_entry_byte_offset: int = i64()
    reserved_18: bytes = reserved(24)
    compute_pgm_rsrc1: Rsrc1 = nested(Rsrc1)
    compute_pgm_rsrc2: Rsrc2 = nested(Rsrc2)
    properties: CodeProperties = nested(CodeProperties)
    reserved_3c: bytes = reserved(4)

    @property
    def is_kernel_code(self) -> bool:
        """Whether it is amd_kernel_code_t: a descriptor of these words would have 448 KiB of arguments or more."""
        version = self.amd_kernel_code_version_major, self.amd_machine_kind
        return version == (1, 1) and self.amd_kernel_code_version_minor <= 2 and self.amd_machine_version_major >= 7

    @property
    def is_ptr64(self) -> bool:
        """Whether the code's pointers have 64 bits: as the header says, always where it is a descriptor."""
        return bool(self.properties.is_ptr64) or not self.is_kernel_code


Header = KernelCode | KernelDescriptor


def user_sgprs(properties: CodeProperties | DescriptorProperties) -> int:
    """User SGPRs that the enable bits ask for."""
    return sum(count for name, count in USER_SGPRS if getattr(properties, name, 0))


USER_SGPRS: Final = (
    ("enable_sgpr_private_segment_buffer", 4),
    ("enable_sgpr_dispatch_ptr", 2),
    ("enable_sgpr_queue_ptr", 2),
    ("enable_sgpr_kernarg_segment_ptr", 2),
    ("enable_sgpr_dispatch_id", 2),
    ("enable_sgpr_flat_scratch_init", 2),
    ("enable_sgpr_private_segment_size", 1),
    ("enable_sgpr_grid_workgroup_count_x", 1),
    ("enable_sgpr_grid_workgroup_count_y", 1),
    ("enable_sgpr_grid_workgroup_count_z", 1),
)
"""Enable bits in the order of the table "SGPR register numbers", with the registers that each takes."""


def complaints(header: Header, is_finalized: bool = False) -> list[str]:
    """What the document says must hold of a header and does not: worth a word, never a refusal (errata 19, 20).

    AMD's finalizer names a first reserved register where it reserves none: with `is_finalized` that is no complaint.
    """
    found = [f"{slot.name} at {slot.where} must be 0" for slot in header.reserved_set()]
    for part in (header.compute_pgm_rsrc1, header.compute_pgm_rsrc2, header.kernel_code_properties):
        found += [f"{type(part).__name__} {slot.where} must be 0" for slot in part.reserved_set()]
    asked, counted = user_sgprs(header.kernel_code_properties), header.compute_pgm_rsrc2.user_sgpr_count
    if asked != counted:
        found.append(f"user_sgpr_count is {counted}, but the enabled registers are {asked}")
    if isinstance(header, KernelDescriptor):
        return found
    rsrc1 = header.compute_pgm_rsrc1
    checks = (
        (header.amd_kernel_code_version_major == 1, "amd_kernel_code_version_major must be 1"),
        (header.amd_machine_kind == 1, "amd_machine_kind must be 1 (AMDGPU)"),
        (header.wavefront_size == 6, "wavefront_size must be 6 (64 work-items)"),
        (header.kernarg_segment_alignment >= 4, "kernarg_segment_alignment must be 4 (16 bytes) or more"),
        (header.runtime_loader_kernel_symbol == 0, "runtime_loader_kernel_symbol must be 0 in a file"),
        (is_finalized or header.reserved_vgpr_count or not header.reserved_vgpr_first, "reserved_vgpr_first must be 0"),
        (is_finalized or header.reserved_sgpr_count or not header.reserved_sgpr_first, "reserved_sgpr_first must be 0"),
        (header.workitem_vgpr_count <= rsrc1.vgprs, "workitem_vgpr_count must match compute_pgm_rsrc1"),
        (header.wavefront_sgpr_count <= rsrc1.sgprs, "wavefront_sgpr_count must match compute_pgm_rsrc1"),
    )
    return found + [text for holds, text in checks if not holds]
