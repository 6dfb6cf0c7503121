"""Headers of kernels, byte for byte: amd_kernel_code_t (V1, V2, mesa3d) and the kernel descriptor (V3 to V6).

Sources: "AMD Kernel Code Object amd_kernel_code_t" and the rsrc1/rsrc2 tables of the ROCm Code Object document, whose
bit numbers were checked against objects that LLVM wrote. The document does not describe the kernel descriptor; its
fields were found by setting each `.amdhsa_` directive.

Both headers agree at 0x10, 0x30, 0x34 and in the low bits of 0x38. A packet processor needs no other fields (see
`LaunchFacts`) except on gfx90a and later: there all kernels have descriptors, and it also needs `Rsrc3` and the
preloaded arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from softcard.core.record import (
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
from softcard.isa.gcn.target import Target

KERNEL_CODE_ALIGNMENT: Final = 64
ENTRY_ALIGNMENT: Final = 256
"""The alignment of a kernel's first instruction."""
VGPR_GRANULE: Final = 4
SGPR_GRANULE: Final = 8
ACCUM_GRANULE: Final = 4
"""The unit of the field accum_offset, in registers."""
MOST_USER_SGPRS: Final = 16
"""The largest number of USER_DATA registers (user SGPRs) that the hardware has."""
PRELOAD_ENTRY_BYTES: Final = 256
"""The distance in bytes from a kernel's entry to its entry with preloaded arguments.

Between the two entries compilers write code that loads the arguments, for firmware that does not preload them.
"""


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
    fp16_overflow: int = bits(26, 26)  # GFX9 only; one of the reserved bits in the document
    reserved_27: int = reserved_bits(31, 27)

    def vgprs(self, granule: int = VGPR_GRANULE) -> int:
        """Return the number of vector registers of a work-item.

        The field granulated_workitem_vgpr_count counts in units of `granule` registers. From gfx90a on the number
        includes accumulation registers (`Target.vgpr_granule`)."""
        return (self.granulated_workitem_vgpr_count + 1) * granule

    @property
    def sgprs(self) -> int:
        """The number of scalar registers allocated to each wave, including VCC, FLAT_SCRATCH and XNACK_MASK."""
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


class Rsrc3(Record, size=4):
    """compute_pgm_rsrc3 from gfx90a to gfx950.

    Earlier processors lack it, and in later ones its bits have another meaning.
    """

    granulated_accum_offset: int = bits(5, 0)
    reserved_06: int = reserved_bits(15, 6)
    tg_split: int = bits(16, 16)
    reserved_11: int = reserved_bits(31, 17)

    @property
    def accum_offset(self) -> int:
        """The number of a work-item's vector registers that precede its accumulation registers."""
        return (self.granulated_accum_offset + 1) * ACCUM_GRANULE


class CodeProperties(Record, size=4):
    """The field kernel_code_properties of amd_kernel_code_t, its bits 479:448."""

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
        """The number of adjacent bytes of swizzled private memory that belong to one lane: 2, 4, 8 or 16."""
        return 2 << self.private_element_size


class DescriptorProperties(Record, size=2):
    """The field kernel_code_properties of a kernel descriptor."""

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
    """The structure hsa_ext_control_directives_t: assumptions under which a finalizer compiled a kernel."""

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
    """The header amd_kernel_code_t.

    Alignments and the wavefront size are stored as exponents of two (erratum 22).
    """

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
    """The kernel descriptor, symbol ``<kernel>.kd``; its entry offset is relative to its own first byte."""

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
    kernarg_preload_length: int = bits(6, 0, of=16)
    kernarg_preload_offset: int = bits(15, 7, of=16)
    reserved_3c: bytes = reserved(4)


class LaunchFacts(Record, size=64):
    """The bytes that a packet processor reads at `kernel_object`: an amd_kernel_code_t or a descriptor.

    Both headers agree in the last fields. `properties` are the low 16 bits of `CodeProperties`; the bits 9:7, with
    which an amd_kernel_code_t enables the work-group counts, are reserved in a descriptor, so one interpretation is
    right for both. The first four fields exist only in amd_kernel_code_t, and `compute_pgm_rsrc3` only in a descriptor.
    """

    amd_kernel_code_version_major: int = u32()
    amd_kernel_code_version_minor: int = u32()
    amd_machine_kind: int = u16()
    amd_machine_version_major: int = u16()
    reserved_0c: bytes = reserved(4)
    kernel_code_entry_byte_offset: int = i64()
    reserved_18: bytes = reserved(20)
    compute_pgm_rsrc3: Rsrc3 = nested(Rsrc3)
    compute_pgm_rsrc1: Rsrc1 = nested(Rsrc1)
    compute_pgm_rsrc2: Rsrc2 = nested(Rsrc2)
    properties: CodeProperties = nested(CodeProperties)
    reserved_3c: bytes = reserved(4)

    @property
    def is_kernel_code(self) -> bool:
        """True if the header is an amd_kernel_code_t and not a descriptor.

        A descriptor with equal values in the first fields would have 448 KiB of arguments or more.
        """
        version = self.amd_kernel_code_version_major, self.amd_machine_kind
        return version == (1, 1) and self.amd_kernel_code_version_minor <= 2 and self.amd_machine_version_major >= 7

    @property
    def is_ptr64(self) -> bool:
        """True if the kernel's pointers have 64 bits; always True with a descriptor."""
        return bool(self.properties.is_ptr64) or not self.is_kernel_code


Header = KernelCode | KernelDescriptor
RESERVED_FOR_CP: Final = ("priv", "debug_mode", "bulky", "cdbg_user")
"""The fields of compute_pgm_rsrc1 that must be 0 in files, because the packet processor sets them."""


def filled_in(rsrc1: Rsrc1) -> list[str]:
    """Return the names of the fields that are set although only the packet processor may set them."""
    return [name for name in RESERVED_FOR_CP if getattr(rsrc1, name)]


def user_sgprs(properties: CodeProperties | DescriptorProperties) -> int:
    """Return the number of user SGPRs that the enable bits request, without preloaded arguments."""
    return sum(count for name, count in USER_SGPRS if getattr(properties, name, 0))


def descriptor_faults(header: KernelDescriptor, target: Target) -> Iterator[tuple[str, str]]:
    """Yield the problems that prevent a processor from starting a kernel with this descriptor.

    Each item is the name of the broken rule, and a message that names the field. Only fields of gfx90a and later
    are checked; earlier processors reserve their bits."""
    length, first = header.kernarg_preload_length, header.kernarg_preload_offset
    if not target.has_kernarg_preload and (length or first):
        yield (
            "kernarg-preload",
            f"the descriptor's bits 479:464 preload arguments, expected 0: {target} does not preload",
        )
    if not target.has_unified_registers:
        return
    rsrc3 = Rsrc3.parse(header.compute_pgm_rsrc3.to_bytes(4, "little"))
    for slot in rsrc3.reserved_set():
        yield "rsrc3-reserved", f"compute_pgm_rsrc3 (byte 0x2c) {slot.spec.bit_range} must be 0 on {target}"
    vgprs = header.compute_pgm_rsrc1.vgprs(target.vgpr_granule)
    if rsrc3.accum_offset > vgprs:
        yield (
            "accum-offset",
            (
                f"accum_offset is {rsrc3.accum_offset} (compute_pgm_rsrc3, byte 0x2c, bits 5-0), "
                f"expected at most the {vgprs} registers that compute_pgm_rsrc1 allocates"
            ),
        )
    asked = user_sgprs(header.kernel_code_properties)
    if length and asked + length > MOST_USER_SGPRS:
        yield (
            "kernarg-preload",
            (
                f"{length} dwords of arguments are preloaded (byte 0x3a, bits 6-0) after {asked} enabled user SGPRs, "
                f"expected at most {MOST_USER_SGPRS} together"
            ),
        )
    if length and not header.kernel_code_properties.enable_sgpr_kernarg_segment_ptr:
        yield (
            "kernarg-preload",
            (
                f"{length} dwords of arguments are preloaded (byte 0x3a, bits 6-0), "
                "expected enable_sgpr_kernarg_segment_ptr with them"
            ),
        )
    if target.has_architected_scratch:
        for name in ("enable_sgpr_private_segment_buffer", "enable_sgpr_flat_scratch_init"):
            if getattr(header.kernel_code_properties, name):
                yield (
                    "architected-scratch",
                    (f"{name} (byte 0x38) must be 0 on {target}: its waves begin with FLAT_SCRATCH set"),
                )


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
"""The enable bits of user SGPRs in the order of their allocation, with the number of registers of each.

The order is that of the table "SGPR register numbers" in the ROCm Code Object document.
"""


def complaints(header: Header, is_finalized: bool = False, target: Target | None = None) -> list[str]:
    """Return messages about the requirements of the ROCm Code Object document that a header violates.

    They are warnings; files are never refused for them (errata 19, 20). AMD's finalizer names a first reserved register
    without reserving any, which is accepted with `is_finalized`. `target` is the processor that the file names.
    """
    found = [f"{slot.name} at {slot.where} must be 0" for slot in header.reserved_set()]
    for part in (header.compute_pgm_rsrc1, header.compute_pgm_rsrc2, header.kernel_code_properties):
        found += [f"{type(part).__name__} {slot.where} must be 0" for slot in part.reserved_set()]
    found += [f"Rsrc1 {name} must be 0" for name in filled_in(header.compute_pgm_rsrc1)]
    asked, counted = user_sgprs(header.kernel_code_properties), header.compute_pgm_rsrc2.user_sgpr_count
    if isinstance(header, KernelDescriptor):
        asked += header.kernarg_preload_length
    if asked != counted:
        found.append(f"user_sgpr_count is {counted}, but the enabled registers are {asked}")
    if isinstance(header, KernelDescriptor):
        return found + ([] if target is None else [text for _, text in descriptor_faults(header, target)])
    rsrc1 = header.compute_pgm_rsrc1
    checks = (
        (header.amd_kernel_code_version_major == 1, "amd_kernel_code_version_major must be 1"),
        (header.amd_machine_kind == 1, "amd_machine_kind must be 1 (AMDGPU)"),
        (header.wavefront_size == 6, "wavefront_size must be 6 (64 work-items)"),
        (header.kernarg_segment_alignment >= 4, "kernarg_segment_alignment must be 4 (16 bytes) or more"),
        (header.runtime_loader_kernel_symbol == 0, "runtime_loader_kernel_symbol must be 0 in a file"),
        (is_finalized or header.reserved_vgpr_count or not header.reserved_vgpr_first, "reserved_vgpr_first must be 0"),
        (is_finalized or header.reserved_sgpr_count or not header.reserved_sgpr_first, "reserved_sgpr_first must be 0"),
        (header.workitem_vgpr_count <= rsrc1.vgprs(), "workitem_vgpr_count must match compute_pgm_rsrc1"),
        (header.wavefront_sgpr_count <= rsrc1.sgprs, "wavefront_sgpr_count must match compute_pgm_rsrc1"),
    )
    return found + [text for holds, text in checks if not holds]
